"""Feature selection by Laplacian scores."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numba
import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize
from sklearn.utils.extmath import row_norms

from kmdr.base.errors import ArgumentError, whole_number
from kmdr.base.threads import over_rows
from kmdr.linalg import Dense, Matrix, mean_distance, nearest_neighbours
from kmdr.linalg.matrix import canonical_csr, check_structure, is_large, normalised
from kmdr.reducers.base import fewer_than_points, one_of, register, true_or_false
from kmdr.reducers.selection import BestFeatures

# The MATLAB code that the papers ran estimates the kernel width on at most this many points, ...
_WIDTH_SAMPLE = 3000
# ... and calls a feature constant below this weighted variance, which gives it the score 1 (no locality at all). Here
# it is that of data whose largest entry is between ½ and 1, so that the unit of measurement does not matter.
_CONSTANT = 1e-12


def heat_kernel_graph(
    A: Matrix, n_neighbors: int, rng: np.random.Generator, width_sample: int | None = _WIDTH_SAMPLE
) -> sp.csr_array:
    """Return the symmetric kNN graph with weights exp(−‖x − y‖²/(2t²)), t the mean pairwise distance.

    The defaults of ``constructW``, the MATLAB code both papers used: union of the neighbour relations, no loops, and
    t the mean of all entries of the distance matrix (its zero diagonal included) over a sample of the points.

    Parameters
    ----------
    A : (n, d) array or CSR
    rng : numpy.random.Generator
        Draws the sample; unused where that is all points.
    width_sample : int, optional
        Points of the sample at the most; None for all.

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
    # Coinciding points (distance 0) and a data set of one repeated point (t = 0) both have weight exp(0) = 1.
    weights = np.exp(-np.square(distances / t) / 2) if t > 0 else np.ones_like(distances)
    W = sp.csr_array((weights.ravel(), indices.ravel(), np.arange(0, indices.size + 1, n_neighbors)), shape=(n, n))
    return sp.csr_array(W.maximum(W.T))


def lengths_of(A: Dense) -> Dense:
    """Return what `sklearn.preprocessing.normalize` divides each row by: 1 where it is zero to rounding."""
    lengths = np.asarray(row_norms(A))
    lengths[lengths < 10 * np.finfo(lengths.dtype).eps] = 1
    return lengths


def neighbour_graph(A: Matrix, n_neighbors: int, metric: str, weights: str) -> sp.csr_array:
    """Return the symmetric kNN graph of earlier versions of ``constructW``, which need no kernel width.

    Parameters
    ----------
    A : (n, d) array or CSR
    metric : {"euclidean", "cosine"}
        By which points are near.
    weights : {"kernel", "binary"}
        Cosines, of which those below 0 count as 0 (with metric "cosine" alone), or 1.

    Returns
    -------
    (n, n) csr_array
    """
    n = A.shape[0]
    A = normalised(A)[0]
    # Of points on the sphere, ‖x − y‖² = 2 − 2 cos.
    if metric == "cosine" and is_large(A):
        indices, distances = nearest_neighbours(A, n_neighbors, lengths_of(A))
    else:
        indices, distances = nearest_neighbours(normalize(A) if metric == "cosine" else A, n_neighbors)
    values = np.ones_like(distances)
    if weights == "kernel":
        # Points with a direction.
        some = np.asarray(A.any(axis=1) if isinstance(A, np.ndarray) else abs(A).sum(axis=1)).ravel() > 0
        values = np.maximum(1 - np.square(distances) / 2, 0) * some[:, None] * some[indices]
    W = sp.csr_array((values.ravel(), indices.ravel(), np.arange(0, indices.size + 1, n_neighbors)), shape=(n, n))
    return sp.csr_array(W.maximum(W.T))


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _differences_dense(
    A: Dense, edges: tuple[Dense, Dense, Dense], degree: Dense, lo: int, hi: int, cross: Dense, scale: Dense
) -> None:
    """Add up f̃ᵀLf̃ = Σ_{i<j} w_ij (f_i − f_j)² and f̃ᵀDf̃ of features lo … hi, a few rows at a time."""
    weights, neighbours, start = edges
    # Means are taken from the first point on, so that of a constant feature it is exact.
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
    """Add up the same for CSR with sorted indices, in O(nonzeros · neighbours)."""
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
        # Exact for a feature that has no zeros, so that a constant one has no variance.
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
    """Return the weighted variance below which a feature of A is called constant."""
    return _CONSTANT * 4.0 ** int(np.frexp(max(A.max(), -A.min()))[1])


def laplacian_scores(A: Matrix, W: sp.csr_array) -> Dense:
    """Return the Laplacian score of each feature: f̃ᵀLf̃ / f̃ᵀDf̃ (He, Cai, Niyogi 2005; bzmd15 §7.1).

    f̃ = f − (fᵀD1/1ᵀD1)1 with D the degrees of W and L = D − W; small means that the feature respects the graph.

    Parameters
    ----------
    A : (n, d) array or CSR
    W : (n, n) csr_array
        Symmetric weights.

    Returns
    -------
    (d,) ndarray of float64
        In [0, 2]; 1 for a constant feature, as in the original code.

    Raises
    ------
    ArgumentError
        When A is not finite, or W is not a graph of its rows.
    """
    n, d = A.shape
    check_structure(W)
    if W.shape != (n, n):
        raise ArgumentError(f"a graph of shape {W.shape} is not one of {n} points; make it of these")
    A = normalised(A)[0]
    degree = np.asarray(W.sum(axis=1)).ravel()
    edges = (W.data, W.indices, W.indptr)
    cross, scale = np.zeros(d), np.zeros(d)
    if isinstance(A, np.ndarray):
        A = np.ascontiguousarray(A)
        over_rows(d, lambda part: _differences_dense(A, edges, degree, part.start, part.stop, cross, scale))
    else:
        A = canonical_csr(A)
        _differences_csr((A.data, A.indices, A.indptr), edges, degree, cross, scale)
    scores = np.ones(d)
    varies = scale >= least_variance(A)
    scores[varies] = cross[varies] / scale[varies]
    return scores


@register("laplacian_score")
class LaplacianScore(BestFeatures):
    """C = the r features of smallest Laplacian score (bzmd15 LapScores; lst17 LS), ties by index.

    Beyond ``width_sample`` points the kernel width comes from a random sample, so C may vary a little.

    Parameters
    ----------
    n_neighbors : int
        Neighbours in the graph; 5 is the default of the papers' code.
    width_sample : int, optional
        Points that the kernel width is estimated on, at least 2; 3000 is the default of the papers' code, None takes
        all.
    metric : {"euclidean", "cosine"}
        By which points are near. Cosine was the default of earlier versions of the papers' code.
    weights : {"kernel", "binary"}
        Of the edges: the heat kernel, or the cosine where that is the metric; or 1, the default of earlier versions.
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

    def validate(self) -> None:  # noqa: D102
        whole_number("n_neighbors", self.n_neighbors, 1)
        if self.width_sample is not None:
            whole_number("width_sample", self.width_sample, 2)
        one_of(self.metric, ("euclidean", "cosine"), "metric")
        one_of(self.weights, ("kernel", "binary"), "weights")
        true_or_false(self.loops, "loops")

    def check(self, n: int, d: int, k: int, r: int) -> None:  # noqa: D102
        super().check(n, d, k, r)
        fewer_than_points(self.n_neighbors, n)

    def prepare(self, A: Matrix, k: int, rng: np.random.Generator) -> Dense:  # noqa: D102
        del k
        if (self.metric, self.weights) == ("euclidean", "kernel"):
            W = heat_kernel_graph(A, self.n_neighbors, rng, self.width_sample)
        else:
            W = neighbour_graph(A, self.n_neighbors, self.metric, self.weights)
        W = sp.csr_array(W + sp.eye_array(A.shape[0])) if self.loops else W
        return np.argsort(laplacian_scores(A, W), kind="stable")
