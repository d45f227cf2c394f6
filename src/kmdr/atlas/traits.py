"""Traits of a matrix: a few numbers, cheap to compute, by which datasets are compared."""

import numpy as np

from kmdr.base.errors import ArgumentError
from kmdr.linalg import Dense, Matrix, top_right_singular_vectors
from kmdr.linalg.matrix import canonical_csr, normalised, row_blocks

# Each trait with its meaning, in the order in which they are shown.
TRAITS = {
    "n": "points",
    "d": "features",
    "k": "clusters",
    "aspect": "features per point, d/n",
    "density": "share of entries that are not 0",
    "negative": "1 if an entry is negative, else 0",
    "mean_share": "share of ‖A‖² that is due to the mean point",
    "row_spread": "coefficient of variation of the points' norms",
    "column_gini": "Gini coefficient of the features' squared norms",
    "stable_rank": "‖A‖² over the square of the largest singular value",
    "top_share": "share of ‖A‖² in the k largest singular values",
    "decay": "slope at which the logarithm of the singular values falls with that of their rank",
    "gap": "1 − σ(k+1)/σ(k); 0 if σ(k) = 0",
    "coherence": "largest leverage score of a feature, relative to the mean score",
    "leverage_gini": "Gini coefficient of the features' leverage scores",
}
# The slope is that of 2k singular values, and at least this many.
_FEWEST_VALUES = 20
# Singular values below this share of the largest count as 0, for they are rounding errors.
_LEAST = 1e-10


def gini(values: Dense) -> float:
    """Return the Gini coefficient of nonnegative numbers: 0 if all are equal, near 1 if one of many has everything.

    Examples
    --------
    >>> gini(np.array([1.0, 1.0])), gini(np.array([0.0, 0.0, 0.0, 1.0]))
    (0.0, 0.75)
    """
    ascending = np.sort(values)
    n, total = len(ascending), float(ascending.sum())
    if total <= 0:
        return 0.0
    return max(float(np.arange(1 - n, n, 2) @ ascending) / (n * total), 0.0)


def traits(A: Matrix, k: int) -> dict[str, float]:
    """Return the traits of a matrix by name; `TRAITS` has their meanings.

    None changes if all entries are multiplied by a power of two, or if rows or columns change places, up to rounding. A
    matrix whose rows all occur twice differs only in ``n`` and ``aspect``, and one whose columns do, only in ``d`` and
    ``aspect``. Raise `ArgumentError` if k is out of range, or A is zero or not finite.

    Parameters
    ----------
    A : (n, d) array or CSR
        float32 is read as float64. Not changed.
    k : int
        Number of clusters, 1 ≤ k ≤ min(n, d).
    """
    n, d = A.shape
    if not 1 <= k <= min(n, d):
        raise ArgumentError(f"k = {k} is out of range for a {n}×{d} matrix; choose 1 ≤ k ≤ {min(n, d)}")
    A, _, total = normalised(canonical_csr(A))
    if total == 0:
        raise ArgumentError("all entries of the matrix are 0; give a matrix with other entries")
    V = top_right_singular_vectors(A, min(max(2 * k, _FEWEST_VALUES), n, d))
    sums, squares, row_squares = np.zeros(d), np.zeros(d), np.zeros(n)
    stored, negative, values = 0, False, np.zeros(V.shape[1])
    for rows, block in row_blocks(A):
        entries = block if isinstance(block, np.ndarray) else block.data
        stored += int(np.count_nonzero(entries))
        negative = negative or bool((entries < 0).any())
        sums += np.asarray(block.sum(axis=0)).ravel()
        square = block**2
        squares += np.asarray(square.sum(axis=0)).ravel()
        row_squares[rows] = np.asarray(square.sum(axis=1)).ravel()
        values += np.square(block @ V).sum(axis=0)
    values = np.sqrt(np.sort(values)[::-1])
    rank = int(np.sum(values > _LEAST * values[0]))
    top = V[:, : min(k, rank)]
    leverage = np.einsum("ij,ij->i", top, top)
    norms = np.sqrt(row_squares)
    gap = 1 - values[k] / values[k - 1] if k < rank else float(k == rank)
    numbers = (
        n, d, k, d / n, stored / (n * d), negative, sums @ sums / n / total, norms.std() / norms.mean(), gini(squares),
        total / values[0] ** 2, min(np.square(values[:k]).sum() / total, 1.0), _decay(values[:rank]),
        gap, leverage.max() * d / top.shape[1], gini(leverage),
    )  # fmt: skip
    return {name: float(value) for name, value in zip(TRAITS, numbers, strict=True)}


def _decay(values: Dense) -> float:
    """Return minus the slope of the least-squares line of log σ_j against log j; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    return float(-np.polyfit(np.log(np.arange(1, len(values) + 1)), np.log(values), 1)[0])
