"""Feature selection by Laplacian scores."""

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import NearestNeighbors

from kmdr.errors import UserError, whole_number
from kmdr.linalg import Dense, Matrix, take_columns
from kmdr.reducers.base import Reducer, at_most, register

# The MATLAB code that the papers ran estimates the kernel width on at most this many points.
_WIDTH_SAMPLE = 3000
# ... and calls a feature constant below this weighted variance, which gives it the score 1 (no locality at all).
_CONSTANT = 1e-12


def heat_kernel_graph(A: Matrix, n_neighbors: int, rng: np.random.Generator) -> sp.csr_array:
    """Return the symmetric kNN graph with weights exp(−‖x − y‖²/(2t²)), t the mean pairwise distance.

    The defaults of ``constructW``, the MATLAB code both papers used: union of the neighbour relations, no loops, and
    t the mean of all entries of the distance matrix (its zero diagonal included) over at most 3000 sampled points.

    Parameters
    ----------
    A : (n, d) array or CSR
    n_neighbors : int
    rng : numpy.random.Generator
        Draws the sample; unused for n ≤ 3000.

    Returns
    -------
    (n, n) csr_array
        At most 2·n·n_neighbors stored weights.
    """
    n = A.shape[0]
    sample = A if n <= _WIDTH_SAMPLE else A[np.sort(rng.choice(n, _WIDTH_SAMPLE, replace=False))]
    t = float(np.mean(pairwise_distances(sample)))
    search = NearestNeighbors(n_neighbors=n_neighbors, algorithm="brute").fit(A)
    W = sp.csr_array(search.kneighbors_graph(mode="distance"))
    # Coinciding points (distance 0) and a data set of one repeated point (t = 0) both have weight exp(0) = 1.
    W.data = np.exp(-np.square(W.data / t) / 2) if t > 0 else np.ones_like(W.data)
    return sp.csr_array(W.maximum(W.T))


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
    """
    A = A.astype(np.float64, copy=False)
    degree = np.asarray(W.sum(axis=1)).ravel()
    mean = (A.T @ degree) / degree.sum()
    if not isinstance(A, np.ndarray):
        weighted = sp.dia_array((degree[None, :], [0]), shape=W.shape) @ A
        squares = np.asarray(A.multiply(weighted).sum(axis=0)).ravel()
        cross = np.asarray(A.multiply(W @ A).sum(axis=0)).ravel()
    else:
        A = A - mean  # scores do not change with a shift, and centred sums keep their digits
        mean = np.zeros_like(mean)
        squares = np.einsum("ij,ij,i->j", A, A, degree, optimize=True)
        cross = np.einsum("ij,ij->j", A, W @ A)
    shift = mean**2 * degree.sum()
    scale = squares - shift
    scores = np.ones(A.shape[1])
    # Of two equal sums only rounding is left, n·eps of their size at the most.
    varies = scale >= np.maximum(_CONSTANT, len(degree) * np.finfo(np.float64).eps * squares)
    scores[varies] = 1.0 - (cross - shift)[varies] / scale[varies]
    return scores


@register("laplacian_score")
class LaplacianScore(Reducer):
    """C = the r features of smallest Laplacian score (bzmd15 LapScores; lst17 LS), ties by index.

    Beyond 3000 points the kernel width comes from a random sample, so C may vary a little.

    Parameters
    ----------
    n_neighbors : int
        Neighbours in the graph; 5 is the default of the papers' code.
    """

    def __init__(self, n_neighbors: int = 5) -> None:
        self.n_neighbors = whole_number("n_neighbors", n_neighbors, 1)

    def check(self, n: int, d: int, k: int, r: int) -> None:  # noqa: D102
        del k
        at_most(r, d, "laplacian_score", "features of this matrix")
        if self.n_neighbors >= n:
            raise UserError(f"n_neighbors = {self.n_neighbors} needs more points than the {n} of this data; lower it")

    def prepare(self, A: Matrix, k: int, rng: np.random.Generator) -> Dense:  # noqa: D102
        del k
        scores = laplacian_scores(A, heat_kernel_graph(A, self.n_neighbors, rng))
        return np.argsort(scores, kind="stable")

    def reduce(self, A: Matrix, r: int, rng: np.random.Generator, state: Dense) -> Dense:  # noqa: D102
        del rng
        return take_columns(A, state[:r])
