"""What a partition of A is worth: F on the original matrix, and P, NMI, ARI against labels."""

import math
from collections.abc import Callable

import numba
import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment

from kmdr.errors import UserError
from kmdr.linalg import Dense, Matrix, squared_frobenius

# Bytes of a cluster's rows and some columns that stay in a second-level cache between the two passes over them.
_CACHE = 2**20
# Cells of a table of names that is counted directly; names further apart are numbered by sorting first.
_CELLS = 2**20


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _residual(A: Dense, labels: Dense, k: int) -> float:  # noqa: PLR0912  loops, unrolled by four
    """Σ‖a_i − μ‖², cluster by cluster and a strip of columns at a time: A is read once, its mean and error in cache."""
    n, d = A.shape
    ends = np.zeros(k + 1, np.int64)
    for i in range(n):
        ends[labels[i] + 1] += 1
    ends = np.cumsum(ends)
    order, place = np.empty(n, np.int64), ends[:-1].copy()
    for i in range(n):
        order[place[labels[i]]] = i
        place[labels[i]] += 1
    mean, parts = np.empty(d), np.empty(d)
    total = 0.0
    for c in range(k):
        rows = order[ends[c] : ends[c + 1]]
        m = len(rows)
        width = min(d, max(256, _CACHE // (8 * max(m, 1))))
        for lo in range(0, d if m else 0, width):
            w = min(width, d - lo)
            mean[:w], parts[:w] = 0.0, 0.0
            even = m - m % 4
            for q in range(0, even, 4):
                e, f, g, h = A[rows[q]], A[rows[q + 1]], A[rows[q + 2]], A[rows[q + 3]]
                for j in range(w):
                    mean[j] += (e[lo + j] + f[lo + j]) + (g[lo + j] + h[lo + j])
            for q in range(even, m):
                e = A[rows[q]]
                for j in range(w):
                    mean[j] += e[lo + j]
            for j in range(w):
                mean[j] /= m
            # A term for each feature, so that the sum over points runs in vector registers and rounds less.
            for q in range(0, even, 4):
                e, f, g, h = A[rows[q]], A[rows[q + 1]], A[rows[q + 2]], A[rows[q + 3]]
                for j in range(w):
                    x, y = e[lo + j] - mean[j], f[lo + j] - mean[j]
                    z, t = g[lo + j] - mean[j], h[lo + j] - mean[j]
                    parts[j] += (x * x + y * y) + (z * z + t * t)
            for q in range(even, m):
                e = A[rows[q]]
                for j in range(w):
                    x = e[lo + j] - mean[j]
                    parts[j] += x * x
            total += parts[:w].sum()
    return total


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


def _numbered(names: Dense) -> tuple[Dense, int]:
    """Names as numbers from 0, some of which may be unused, and how many numbers there are."""
    low = int(names.min())
    count = int(names.max()) - low + 1
    if count * count <= _CELLS:
        return names - low, count
    found, numbers = np.unique(names, return_inverse=True)
    return numbers, len(found)


def _contingency(truth: Dense, labels: Dense) -> Dense:
    """How many points each class (rows) shares with each cluster (columns); none of either is empty."""
    (rows, height), (columns, width) = _numbered(truth), _numbered(labels)
    table = np.bincount(rows * width + columns, minlength=height * width).reshape(height, width)
    return table[table.any(axis=1)][:, table.any(axis=0)]


def _accuracy(table: Dense) -> float:
    rows, columns = linear_sum_assignment(table, maximize=True)
    return float(table[rows, columns].sum() / table.sum())


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
    return _accuracy(_contingency(truth, labels))


def class_numbers(truth: Dense) -> Dense:
    """Return the labels as numbers from 0, in the order in which the classes first appear.

    These are the numbers of the clusters of ``first_of_class`` starts.

    Parameters
    ----------
    truth : (n,) int array

    Returns
    -------
    (n,) ndarray of int64
    """
    _, first, inverse = np.unique(truth, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[inverse])


def lf20_class_numbers(truth: Dense) -> Dense:
    """Return the labels with lf20's mistake: the last row of each class has the number of the next.

    For ten images a person its code takes ⌊i/10⌋ + 1 for the person of image i = 1, 2, …, where ⌊(i − 1)/10⌋ + 1 is
    right. So one row of every class is wrong, the last of all has a number that no class has, and for classes of m rows
    no partition has P > 1 − 1/m.

    Parameters
    ----------
    truth : (n,) int array
        Rows in the order of their classes, the same number of each.

    Returns
    -------
    (n,) ndarray of int64
        From 0.

    Raises
    ------
    UserError
        When the rows are not such blocks.
    """
    n, k = len(truth), len(np.unique(truth))
    m = n // k
    if n % k or (truth.reshape(k, m) != truth[::m, None]).any():
        raise UserError(
            f"matching = 'identity_lf20' needs the {n} rows in {k} blocks of equal size, one a class, which they are "
            "not; use 'best'"
        )
    return np.arange(1, n + 1) // m


_NUMBERS: dict[str, Callable[[Dense], Dense]] = {"identity": class_numbers, "identity_lf20": lf20_class_numbers}
MATCHINGS = ("best", *_NUMBERS)


def check_matching(matching: str, truth: Dense | None) -> None:
    """Refuse labels that a matching cannot be had with.

    Raises
    ------
    UserError
    """
    if matching != "best" and truth is not None:
        _NUMBERS[matching](truth)


def _entropy(counts: Dense) -> float:
    p = counts[counts > 0] / counts.sum()
    return float(-(p @ np.log(p)))


def _nmi(table: Dense) -> float:
    """2I/(H + H'); 1 for two partitions into a single part, of which neither says anything."""
    if table.size == 1:
        return 1.0
    H, G = _entropy(table.sum(axis=1)), _entropy(table.sum(axis=0))
    information = H + G - _entropy(table.ravel())
    # Rounding may leave a trace of either sign where the partitions are independent.
    return information / ((H + G) / 2) if information > 1e-14 * (H + G) else 0.0


def _ari(table: Dense) -> float:
    """Hubert and Arabie's index, from the pairs of points that are together in both, in either, and at all."""

    def pairs(counts: Dense) -> int:
        return sum(math.comb(count, 2) for count in counts.ravel().tolist())

    both, first, second = pairs(table), pairs(table.sum(axis=1)), pairs(table.sum(axis=0))
    everything = math.comb(int(table.sum()), 2)
    if both == first == second:
        return 1.0
    # (both − E)/((first + second)/2 − E), E = first·second/everything, in whole numbers up to the last division.
    return 2 * (both * everything - first * second) / ((first + second) * everything - 2 * first * second)


def agreement(truth: Dense, labels: Dense, matching: str = "best") -> dict[str, float]:
    """Return ``accuracy``, ``nmi`` (arithmetic mean) and ``ari`` of a partition against labels.

    Parameters
    ----------
    truth, labels : (n,) int arrays
    matching : {"best", "identity", "identity_lf20"}
        Which cluster counts as which class in ``accuracy``: `accuracy`'s best matching, cluster j as the class number
        j of `class_numbers` (what lf20's code does), or of `lf20_class_numbers` (what it does for random projections).

    Returns
    -------
    dict
    """
    table = _contingency(truth, labels)
    P = _accuracy(table) if matching == "best" else float(np.mean(_NUMBERS[matching](truth) == labels))
    return {"accuracy": P, "nmi": _nmi(table), "ari": _ari(table)}
