"""Feature selection by Laplacian scores."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numba
import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize
from sklearn.utils.extmath import row_norms

from kmdr.base.errors import ArgumentError, whole_number
from kmdr.base.threads import process_row_blocks
from kmdr.linalg import Dense, Matrix, mean_distance, nearest_neighbours
from kmdr.linalg.matrix import canonical_csr, check_structure, is_out_of_core, normalised
from kmdr.reducers.base import check_bool, check_choice, check_neighbours, register
from kmdr.reducers.selection import BestFeatures

# The MATLAB code that the papers ran estimates the kernel width on at most this many points, ...
_WIDTH_SAMPLE = 3000
# ... and gives a feature below this weighted variance the score 1 (constant, no locality at all). Here the limit holds
# for data whose largest entry is between ½ and 1, so that the unit of measurement does not matter.
_CONSTANT = 1e-12


def heat_kernel_graph(
    A: Matrix, n_neighbors: int, rng: np.random.Generator, width_sample: int | None = _WIDTH_SAMPLE
) -> sp.csr_array:
    """Return the symmetric kNN graph with weights exp(−‖x − y‖²/(2t²)), t the mean pairwise distance.

    These are the defaults of ``constructW``, the MATLAB code that both papers used: union of the neighbour relations,
    no loops, and t the mean of all entries of the distance matrix (its zero diagonal included) over a sample of the
    points.

    Parameters
    ----------
    rng : numpy.random.Generator
        Draws the sample; unused if that is all points.
    width_sample : int, optional
        Largest size of the sample; None for all points.

    Returns
    -------
    (n, n) csr_array
        At most 2·n·n_neighbors stored weights.
    """
    n = A.shape[0]
    A = normalised(A)[0]  # once for both
    whole = width_sample is None or n <= width_sample
    t = mean_distance(A if whole else A[np.sort(rng.choice(n, width_sample, replace=False))])
    indices, distances = nearest_neighbours(A, n_neighbors)
    # Coinciding points (distance 0) and a dataset of one repeated point (t = 0) both have weight exp(0) = 1.
    weights = np.exp(-np.square(distances / t) / 2) if t > 0 else np.ones_like(distances)
    W = sp.csr_array((weights.ravel(), indices.ravel(), np.arange(0, indices.size + 1, n_neighbors)), shape=(n, n))
    return sp.csr_array(W.maximum(W.T))


def row_lengths(A: Dense) -> Dense:
    """Return the divisor that `sklearn.preprocessing.normalize` uses for each row: 1 for numerically zero rows."""
    lengths = np.asarray(row_norms(A))
    lengths[lengths < 10 * np.finfo(lengths.dtype).eps] = 1
    return lengths


def neighbour_graph(A: Matrix, n_neighbors: int, metric: str, weights: str) -> sp.csr_array:
    """Return the symmetric kNN graph of earlier versions of ``constructW``, which need no kernel width.

    Parameters
    ----------
    metric : {"euclidean", "cosine"}
        How nearness is measured.
    weights : {"kernel", "binary"}
        Cosines, negative ones replaced by 0 (only with metric "cosine"), or 1.
    """
    n = A.shape[0]
    A = normalised(A)[0]
    # For points on the sphere, ‖x − y‖² = 2 − 2 cos.
    if metric == "cosine" and is_out_of_core(A):
        indices, distances = nearest_neighbours(A, n_neighbors, row_lengths(A))
    else:
        indices, distances = nearest_neighbours(normalize(A) if metric == "cosine" else A, n_neighbors)
    values = np.ones_like(distances)
    if weights == "kernel":
        # A zero vector has no direction.
        nonzero = np.asarray(A.any(axis=1) if isinstance(A, np.ndarray) else abs(A).sum(axis=1)).ravel() > 0
        values = np.maximum(1 - np.square(distances) / 2, 0) * nonzero[:, None] * nonzero[indices]
    W = sp.csr_array((values.ravel(), indices.ravel(), np.arange(0, indices.size + 1, n_neighbors)), shape=(n, n))
    return sp.csr_array(W.maximum(W.T))


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _differences_dense(
    A: Dense, edges: tuple[Dense, Dense, Dense], degree: Dense, lo: int, hi: int, cross: Dense, scale: Dense
) -> None:
    """Add up f̃ᵀLf̃ = Σ_{i<j} w_ij (f_i − f_j)² and f̃ᵀDf̃ of features lo … hi, a few rows at a time."""
    weights, neighbours, start = edges
    # Means are relative to the first point, so that the mean of a constant feature is exact.
    mean = np.zeros(hi - lo)
    for i in range(A.shape[0]):
        for f in range(lo, hi):
            mean[f - lo] += degree[i] * (np.float64(A[i, f]) - np.float64(A[0, f]))
    mean /= degree.sum()
    for f in range(lo, hi):
        mean[f - lo] += A[0, f]
    for i in range(A.shape[0]):
        for f in range(lo, hi):
            scale[f] += degree[i] * (np.float64(A[i, f]) - mean[f - lo]) ** 2
        for p in range(start[i], start[i + 1]):
            j, weight = neighbours[p], weights[p]
            if j > i:
                for f in range(lo, hi):
                    cross[f] += weight * (np.float64(A[i, f]) - np.float64(A[j, f])) ** 2


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _differences_csr(
    rows: tuple[Dense, Dense, Dense], edges: tuple[Dense, Dense, Dense], degree: Dense, cross: Dense, scale: Dense
) -> None:
    """Add up the same sums for CSR with sorted indices, in O(nonzeros · neighbours)."""
    data, indices, indptr = rows
    weights, neighbours, start = edges
    n, d = len(degree), len(cross)
    total = degree.sum()
    count, covered, base, mean = np.zeros(d, np.int64), np.zeros(d), np.zeros(d), np.zeros(d)
    for i in range(n):
        for p in range(indptr[i], indptr[i + 1]):
            f = indices[p]
            if count[f] == 0:
                base[f] = data[p]
            count[f] += 1
            covered[f] += degree[i]
            mean[f] += degree[i] * (data[p] - base[f])
    for f in range(d):
        # Exact for a feature without zeros, so that a constant one has no variance.
        share = 1.0 if count[f] == n else min(covered[f] / total, 1.0)
        mean[f] = mean[f] / total + base[f] * share
        scale[f] = mean[f] ** 2 * total * (1.0 - share)
    for i in range(n):
        p_end = indptr[i + 1]
        for p in range(indptr[i], p_end):
            scale[indices[p]] += degree[i] * (data[p] - mean[indices[p]]) ** 2
        for e in range(start[i], start[i + 1]):
            j, weight = neighbours[e], weights[e]
            if j <= i:
                continue
            p, q, q_end = indptr[i], indptr[j], indptr[j + 1]
            while p < p_end or q < q_end:
                if q == q_end or (p < p_end and indices[p] < indices[q]):
                    cross[indices[p]] += weight * data[p] * data[p]
                    p += 1
                elif p == p_end or indices[q] < indices[p]:
                    cross[indices[q]] += weight * data[q] * data[q]
                    q += 1
                else:
                    cross[indices[p]] += weight * (np.float64(data[p]) - np.float64(data[q])) ** 2
                    p += 1
                    q += 1


def least_variance(A: Matrix) -> float:
    """Return the weighted variance below which a feature of A counts as constant."""
    return _CONSTANT * 4.0 ** int(np.frexp(max(A.max(), -A.min()))[1])


def laplacian_scores(A: Matrix, W: sp.csr_array) -> Dense:
    """Return the Laplacian score of each feature: f̃ᵀLf̃ / f̃ᵀDf̃ (He, Cai, Niyogi 2005; bzmd15 §7.1).

    f̃ = f − (fᵀD1/1ᵀD1)1 with D the degrees of W and L = D − W; a small score means that the feature respects the
    graph.

    Parameters
    ----------
    W : (n, n) csr_array
        Symmetric weights.

    Returns
    -------
    (d,) ndarray of float64
        In [0, 2]; 1 for a constant feature, as in the original code.

    Raises
    ------
    ArgumentError
        If A is not finite, or W is not a graph of its rows.
    """
    n, d = A.shape
    check_structure(W)
    if W.shape != (n, n):
        raise ArgumentError(f"the graph has shape {W.shape}, but there are {n} points; build it from these points")
    A = normalised(A)[0]
    degree = np.asarray(W.sum(axis=1)).ravel()
    edges = (W.data, W.indices, W.indptr)
    cross, scale = np.zeros(d), np.zeros(d)
    if isinstance(A, np.ndarray):
        A = np.ascontiguousarray(A)
        process_row_blocks(d, lambda part: _differences_dense(A, edges, degree, part.start, part.stop, cross, scale))
    else:
        A = canonical_csr(A)
        _differences_csr((A.data, A.indices, A.indptr), edges, degree, cross, scale)
    scores = np.ones(d)
    varies = scale >= least_variance(A)
    scores[varies] = cross[varies] / scale[varies]
    return scores


@register("laplacian_score")
class LaplacianScore(BestFeatures):
    """The r features of smallest Laplacian score (bzmd15 LapScores; lst17 LS), ties by index.

    1. W: the symmetric graph of each point's nearest neighbours, weighted by a heat kernel.
    2. L_f = f̃ᵀLf̃ / f̃ᵀDf̃ for each feature f (He, Cai, Niyogi 2005).
    3. The r features of smallest L_f.

    Beyond ``width_sample`` points the kernel width comes from a random sample, so C may vary a little.

    Parameters
    ----------
    n_neighbors : int
        Neighbours in the graph; 5 is the default of the papers' code.
    width_sample : int, optional
        Number of points that the kernel width is estimated on, at least 2; 3000 is the default of the papers' code,
        None uses all.
    metric : {"euclidean", "cosine"}
        How nearness is measured. Cosine was the default of earlier versions of the papers' code.
    weights : {"kernel", "binary"}
        Edge weights: the heat kernel (the cosine if that is the metric), or 1, the default of earlier versions.
    loops : bool
        Whether each point is joined with itself, with weight 1, as in earlier versions.
    """

    later: ClassVar[Mapping[str, Any]] = {"metric": "euclidean", "weights": "kernel", "loops": False}

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_clusters: int = 8,
        eps: float = 1 / 3,
        n_neighbors: int = 5,
        width_sample: int | None = _WIDTH_SAMPLE,
        metric: str = "euclidean",
        weights: str = "kernel",
        loops: bool = False,
        random_state: object = None,
    ) -> None:
        super().__init__(n_components, n_clusters=n_clusters, eps=eps, random_state=random_state)
        self.n_neighbors = n_neighbors
        self.width_sample = width_sample
        self.metric = metric
        self.weights = weights
        self.loops = loops

    def validate(self) -> None:
        whole_number("n_neighbors", self.n_neighbors, 1)
        if self.width_sample is not None:
            whole_number("width_sample", self.width_sample, 2)
        check_choice(self.metric, ("euclidean", "cosine"), "metric")
        check_choice(self.weights, ("kernel", "binary"), "weights")
        check_bool(self.loops, "loops")

    def check(self, n: int, d: int, k: int, r: int) -> None:
        super().check(n, d, k, r)
        check_neighbours(self.n_neighbors, n)

    def prepare(self, A: Matrix, k: int, rng: np.random.Generator) -> Dense:
        del k
        if (self.metric, self.weights) == ("euclidean", "kernel"):
            W = heat_kernel_graph(A, self.n_neighbors, rng, self.width_sample)
        else:
            W = neighbour_graph(A, self.n_neighbors, self.metric, self.weights)
        W = sp.csr_array(W + sp.eye_array(A.shape[0])) if self.loops else W
        return np.argsort(laplacian_scores(A, W), kind="stable")
