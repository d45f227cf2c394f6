"""What a partition of A is worth: F on the original matrix, and P, NMI, ARI against labels."""

import numba
import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from kmdr.linalg import Dense, Matrix, squared_frobenius


@numba.njit(cache=True, fastmath={"contract"})
def _residual(A: Dense, labels: Dense, k: int) -> float:
    n, d = A.shape
    centres = np.zeros((k, d))
    counts = np.zeros(k)
    for i in range(n):
        counts[labels[i]] += 1.0
        for j in range(d):
            centres[labels[i], j] += A[i, j]
    for c in range(k):
        for j in range(d):
            centres[c, j] /= max(counts[c], 1.0)
    # A term for each feature, so that the sum over points runs in vector registers and rounds less.
    parts = np.zeros(d)
    for i in range(n):
        for j in range(d):
            e = A[i, j] - centres[labels[i], j]
            parts[j] += e * e
    return float(parts.sum())


def residual(A: Matrix, labels: Dense) -> float:
    """Return ‖A − XXᵀA‖²_F, the squared distances of the rows to the means of their clusters.

    Dense matrices are summed as Σ‖a_i − μ‖²; CSR ones, never densified, as Σ_j (Σ‖a_i‖² − ‖s_j‖²/n_j), with s_j the
    sum of cluster j.

    Parameters
    ----------
    A : (n, d) array or CSR
    labels : (n,) int array
        Cluster of each row, from 0.

    Returns
    -------
    float
    """
    k = int(labels.max()) + 1
    if isinstance(A, np.ndarray):
        return float(_residual(A, labels, k))
    n = A.shape[0]
    counts = np.bincount(labels, minlength=k)
    members = sp.csr_array((np.ones(n), (labels, np.arange(n))), shape=(k, n))
    sums = members @ A.astype(np.float64, copy=False)
    within = np.asarray(sums.multiply(sums).sum(axis=1)).ravel() / np.maximum(counts, 1)
    return max(float(squared_frobenius(A) - within.sum()), 0.0)  # rounding may take a perfect fit below zero


def objective(A: Matrix, labels: Dense, total: float | None = None) -> float:
    """Return F = ‖A − XXᵀA‖²_F / ‖A‖²_F of a partition, on the original features (all papers; bzmd15 §7.4).

    Parameters
    ----------
    A : (n, d) array or CSR
    labels : (n,) int array
    total : float, optional
        ‖A‖²_F where it is known already.

    Returns
    -------
    float
        In [0, 1]; 0 when A is zero.
    """
    total = squared_frobenius(A) if total is None else total
    return residual(A, labels) / total if total > 0 else 0.0


def accuracy(truth: Dense, labels: Dense) -> float:
    """Return P, the fraction of points in the right cluster under the best one-to-one matching (Hungarian method).

    Clusters or classes left over when their numbers differ match nothing.

    Parameters
    ----------
    truth, labels : (n,) int arrays

    Returns
    -------
    float
        In [0, 1].
    """
    table = contingency_matrix(truth, labels)
    rows, columns = linear_sum_assignment(table, maximize=True)
    return float(table[rows, columns].sum() / len(truth))


def agreement(truth: Dense, labels: Dense) -> dict[str, float]:
    """Return ``accuracy``, ``nmi`` (arithmetic mean) and ``ari`` of a partition against labels."""
    return {
        "accuracy": accuracy(truth, labels),
        "nmi": float(normalized_mutual_info_score(truth, labels)),
        "ari": float(adjusted_rand_score(truth, labels)),
    }
