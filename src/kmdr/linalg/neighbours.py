"""Nearest neighbours of every point: exact in float64, most of the work in float32, memory linear in n."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import product
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp
from numba import types
from numba.extending import overload

from kmdr.base.threads import process_row_blocks
from kmdr.linalg import matrix
from kmdr.linalg.matrix import (
    Dense,
    Matrix,
    canonical_csr,
    column_means,
    is_out_of_core,
    normalised,
    read_only,
    row_blocks,
    scaled_back,
)

# Products are screened one tile at a time, small enough to stay in the second-level cache in between.
_TILE_DENSE = (512, 512)
_TILE_CSR = (64, 4096)
# Candidates kept beyond the requested neighbours; only rows with more points within rounding of their m-th are redone.
_SPARE = 8
# If more than this share of the points has too many candidates, the products are computed again in float64, which
# costs about as much as a full search for a tenth of the points.
_TOO_MANY = 0.1
# A CSR matrix with a larger share p of nonzeros is screened as a dense float32 copy: 0.7 ns for each of the p²d
# products of nonzeros in a pair against 0.015 ns for each of the d products of a float32 GEMM.
_DENSE_SHARE = 0.15
# Pairs nearer than this share of ‖x‖² + ‖y‖² lose too many digits in ‖x‖² + ‖y‖² − 2xᵀy and are computed as ‖x − y‖².
_NEAR = 1e-4
_CHUNK = 64
# Cached rows of tiles of an out-of-core matrix: for this tile and the previous one, on a few threads.
_KEPT = 8


# Sums may be reassociated, always in the same way: coinciding points are at exactly equal distances from any other.
_SUM = {"contract", "reassoc", "nsz"}


@numba.njit(cache=True, nogil=True, fastmath=_SUM)
def _squared_distance_dense(A: Dense, i: int, j: int) -> float:
    total = 0.0
    for f in range(A.shape[1]):
        difference = np.float64(A[i, f]) - np.float64(A[j, f])
        total += difference * difference
    return total


@numba.njit(cache=True, nogil=True, fastmath=_SUM)
def _squared_distance_csr(data: Dense, indices: Dense, indptr: Dense, i: int, j: int) -> float:
    p, p_end, q, q_end = indptr[i], indptr[i + 1], indptr[j], indptr[j + 1]
    total = 0.0
    while p < p_end or q < q_end:
        difference = 0.0
        left = p < p_end and (q == q_end or indices[p] <= indices[q])
        right = q < q_end and (p == p_end or indices[q] <= indices[p])
        if left:
            difference += data[p]
            p += 1
        if right:
            difference -= data[q]
            q += 1
        total += difference * difference
    return total


@numba.njit(cache=True, nogil=True, fastmath=_SUM)
def _squared_distance_divided(A: Dense, lengths: Dense, i: int, j: int) -> float:
    total = 0.0
    length, other_length = lengths[i], lengths[j]
    for f in range(A.shape[1]):
        difference = np.float64(A[i, f] / length) - np.float64(A[j, f] / other_length)
        total += difference * difference
    return total


def _squared_distance(rows: object, i: int, j: int) -> float:
    """Return ‖x − y‖² in float64 for rows of an array, of (array, divisor per row), or of the three arrays of CSR.

    Only kernels can call it.
    """
    raise NotImplementedError


@overload(_squared_distance)
def _compile_squared_distance(rows, i, j):  # type: ignore[no-untyped-def]  # noqa: ARG001
    if isinstance(rows, types.BaseTuple) and len(rows) == 2:
        return lambda rows, i, j: _squared_distance_divided(rows[0], rows[1], i, j)
    if isinstance(rows, types.BaseTuple):
        return lambda rows, i, j: _squared_distance_csr(rows[0], rows[1], rows[2], i, j)
    return lambda rows, i, j: _squared_distance_dense(rows, i, j)  # noqa: PLW0108  Numba wants a plain function


@numba.njit(cache=True, nogil=True)
def _enter(values: Dense, index: Dense, i: int, value: float, j: int) -> int:
    """Insert (value, j) into row i, ascending by value, ties by index; return its position."""
    p: int = values.shape[1] - 1
    while p > 0 and (values[i, p - 1] > value or (values[i, p - 1] == value and index[i, p - 1] > j)):
        values[i, p] = values[i, p - 1]
        index[i, p] = index[i, p - 1]
        p -= 1
    values[i, p] = value
    index[i, p] = j
    return p


@numba.njit(cache=True, nogil=True)
def _offer(
    low: Dense, index: Dense, bound: Dense, limit: Dense, width: Dense, m: int, i: int, value: float, j: int
) -> None:
    """Keep j among the candidates of i, and lower the limit for later candidates."""
    if _enter(low, index, i, value, j) < m:
        top = low[i, 0]
        for q in range(m):
            top = max(top, low[i, q] + (width[i] + width[index[i, q]]))
        bound[i] = min(bound[i], top)
    limit[i] = min(bound[i], low[i, -1])


@numba.njit(cache=True, nogil=True)
def _screen(
    G: Dense, i0: int, j0: int, h: Dense, width: Dense, m: int, low: Dense, index: Dense, bound: Dense, limit: Dense
) -> None:
    """Offer each pair i < j of a tile of products to both its points; hᵢ + hⱼ − gᵢⱼ bounds ‖x − y‖²/2 from below."""
    for a in range(G.shape[0]):
        i = i0 + a
        row = G[a]
        for start in range(max(0, i + 1 - j0), G.shape[1], _CHUNK):
            stop = min(start + _CHUNK, G.shape[1])
            hit = False  # branch-free, so that it is compiled to vector instructions
            half_norm, row_limit = h[i], limit[i]
            for b in range(start, stop):
                hit |= half_norm + h[j0 + b] - row[b] < max(row_limit, limit[j0 + b])
            if not hit:
                continue
            for b in range(start, stop):
                j = j0 + b
                value = half_norm + h[j] - row[b]
                if value < limit[i]:
                    _offer(low, index, bound, limit, width, m, i, value, j)
                if value < limit[j]:
                    _offer(low, index, bound, limit, width, m, j, value, i)


@numba.njit(cache=True, nogil=True)
def _rank(points: object, low: Dense, index: Dense, bound: Dense, i0: int, values: Dense, out: Dense) -> None:
    """Order the candidates of the rows from i0 on by their exact distance."""
    last = values.shape[1] - 1
    for a in range(index.shape[0]):
        for q in range(index.shape[1]):
            if low[a, q] == np.inf or low[a, q] > bound[a]:
                break
            j = index[a, q]
            value = _squared_distance(points, i0 + a, j)
            if value < values[a, last] or (value == values[a, last] and j < out[a, last]):
                _enter(values, out, a, value, j)


@numba.njit(cache=True, nogil=True)
def _search(points: object, n: int, rows: Dense, values: Dense, out: Dense) -> None:
    """Compare the chosen rows with all n points, tile by tile; rising j resolves ties to the lowest index."""
    for start in range(0, n, _CHUNK):
        for i in rows:
            for j in range(start, min(start + _CHUNK, n)):
                if values[i, -1] == 0:
                    break  # all requested neighbours coincide with the point
                if j != i:
                    value = _squared_distance(points, i, j)
                    if value < values[i, -1]:
                        _enter(values, out, i, value, j)


@numba.njit(cache=True, nogil=True)
def _sparse_products(
    data: Dense,
    indices: Dense,
    indptr: Dense,
    t_data: Dense,
    t_indices: Dense,
    t_indptr: Dense,
    i0: int,
    j0: int,
    G: Dense,
) -> None:
    """Write the products of rows i0 … with rows j0 …, using the list of rows in which each feature occurs."""
    for a in range(G.shape[0]):
        G[a] = 0
        for p in range(indptr[i0 + a], indptr[i0 + a + 1]):
            f = indices[p]
            begin, end = t_indptr[f], t_indptr[f + 1]
            begin += np.searchsorted(t_indices[begin:end], j0)
            for q in range(begin, end):
                b = t_indices[q] - j0
                if b >= G.shape[1]:
                    break
                G[a, b] += np.float64(data[p]) * t_data[q]


_Tile = tuple[slice, slice]
# Writes the products of a slice of rows with another into an array.
_Multiply = Callable[[slice, slice, Dense], None]


def _tiles(n: int, shape: tuple[int, int]) -> list[_Tile]:
    """Return tiles that cover the pairs i < j of n points, by rising i and then j."""
    rows, columns = ([slice(i, min(i + step, n)) for i in range(0, n, step)] for step in shape)
    return [(first, second) for first, second in product(rows, columns) if first.start < second.stop - 1]


def _size(rows: slice, others: slice) -> int:
    return int((rows.stop - rows.start) * (others.stop - others.start))


def _multiply_csr(A: sp.csr_array) -> _Multiply:
    columns = A.tocsc()

    def multiply(rows: slice, others: slice, G: Dense) -> None:
        _sparse_products(
            *(A.data, A.indices, A.indptr),
            *(columns.data, columns.indices, columns.indptr),
            rows.start,
            others.start,
            G,
        )

    return multiply


def _products(tiles: list[_Tile], multiply: _Multiply, dtype: type) -> Iterator[tuple[Dense, int, int]]:
    """Yield the products of each tile, in one buffer, and its first row and column."""
    buffer: Dense = np.empty(max((_size(*tile) for tile in tiles), default=0), dtype)
    for rows, others in tiles:
        G = buffer[: _size(rows, others)].reshape(rows.stop - rows.start, -1)
        multiply(rows, others, G)
        yield G, rows.start, others.start


def _readable(A: Matrix, lengths: Dense | None = None) -> tuple[Matrix, object]:
    """Return ``A`` in the memory order of the kernels, and the read-only arrays that they take."""
    if isinstance(A, np.ndarray):
        A = np.ascontiguousarray(A)
        return A, read_only(A) if lengths is None else (read_only(A), read_only(lengths))
    A = canonical_csr(A)
    return A, (read_only(A.data), read_only(A.indices), read_only(A.indptr))


# Returns the points from a first row up to an end.
_Rows = Callable[[int, int], Dense]


def _centred(A: Matrix, dtype: type, lengths: Dense | None) -> tuple[_Rows, Dense]:
    """Return dense points, shifted and scaled by a power of two to be small, and half of their squared norms.

    The rows of an out-of-core matrix are computed again for each tile, except for a few recently used ones.
    """
    n, d = A.shape
    centre: Dense = np.zeros(d)  # rows of unit length need no shift
    spread = 2.0
    if lengths is None:
        centre = column_means(A) if is_out_of_core(A) else np.asarray(A.mean(axis=0, dtype=np.float64))
        spread = float(A.max()) - float(A.min())
    scale = 2.0 ** -np.ceil(np.log2(spread)) if spread > 0 else 1.0

    def shifted(start: int, stop: int) -> Dense:
        block = A[start:stop] if isinstance(A, np.ndarray) else A[start:stop].toarray()
        if lengths is not None:
            block = block / lengths[start:stop, None]
        block = block - centre
        block *= scale
        return np.asarray(block, dtype)

    X: Dense = np.empty((0 if is_out_of_core(A) else n, d), dtype)
    h = np.empty(n)
    step = max(1, 2**18 // d)
    for start in range(0, n, step):
        rows = slice(start, start + step)
        block = shifted(start, start + step)
        X[rows] = block[: len(X[rows])]
        rounded = block.astype(np.float64)
        h[rows] = np.einsum("ij,ij->i", rounded, rounded) / 2
    return lru_cache(_KEPT)(shifted) if is_out_of_core(A) else lambda start, stop: X[start:stop], h


# For each thread and point: the lower bounds and the indices of its candidates, and an upper bound for neighbours.
_Candidates = list[tuple[Dense, Dense, Dense]]


def _candidates(A: Any, n_neighbors: int, dtype: type, dense: bool, lengths: Dense | None) -> _Candidates:
    """Return the points that may be neighbours of each, from products in ``dtype``."""
    n, d = A.shape
    multiply: _Multiply
    if dense:
        height, width_ = _TILE_DENSE
        if is_out_of_core(A):  # columns are centred again for each tile, so each tile should have more rows
            height *= min(max(2 * matrix.BLOCK // (height * d), 1), 4)
        tiles, terms = _tiles(n, (height, width_)), d
        X, h = _centred(A, dtype, lengths)

        def multiply(rows: slice, others: slice, G: Dense) -> None:
            np.matmul(X(rows.start, rows.stop), X(others.start, others.stop).T, out=G)
    else:
        tiles, terms = _tiles(n, _TILE_CSR), int(np.diff(A.indptr).max())
        multiply, h = _multiply_csr(A), _squared_norms(A) / 2
    if dtype is np.float64:
        terms *= 2  # the norms are sums in the same precision
    u = (terms + 16) * np.finfo(dtype).eps / 2
    # The last term is larger than the effect of underflow.
    error = u / (1 - u) * h + 4 * (terms + 1) * np.finfo(dtype).tiny
    width, h = (2 * error).astype(dtype), (h - error).astype(dtype)
    candidates: _Candidates = []

    def screen(part: slice) -> None:
        low: Dense = np.full((n, n_neighbors + _SPARE), np.inf, dtype)
        bound: Dense = np.full(n, np.inf, dtype)
        index, limit = np.zeros(low.shape, np.int32), bound.copy()
        for G, i, j in _products(tiles[part], multiply, dtype):
            _screen(G, i, j, h, width, n_neighbors, low, index, bound, limit)
        candidates.append((low, index, bound))

    process_row_blocks(len(tiles), screen)
    return candidates


def _overflowed(candidates: _Candidates) -> Dense:
    """Return True for points whose full list may have rejected candidates: its last entry is within the bound."""
    return np.asarray(np.any([(low[:, -1] <= bound) & np.isfinite(bound) for low, _, bound in candidates], axis=0))


def nearest_neighbours(A: Matrix, n_neighbors: int, lengths: Dense | None = None) -> tuple[Dense, Dense]:
    """Return the nearest other points of every point by Euclidean distance, exactly.

    Half of all products, in float32 for dense A, leave a few candidates per point. With u the unit roundoff and γ = (d
    + 16)u/(1 − (d + 16)u), a computed ‖x − y‖²/2 is within γ(‖x‖² + ‖y‖²)/2 of the true one (Higham 2002, §3.1, for any
    order of summation), so a point further beyond the n_neighbors-th than that cannot be a neighbour. The candidates
    are ordered by ‖x − y‖ computed in float64 from the differences. A row with more points within the bound than
    candidates are kept is searched in full, after another attempt in float64 if there are many such rows, as in tight
    clusters far apart. Memory beyond A: one copy (none for an out-of-core A), or the transpose of CSR;
    O(n·n_neighbors).

    Parameters
    ----------
    A : (n, d) array or CSR
        Finite.
    n_neighbors : int
        1 ≤ n_neighbors < n.
    lengths : (n,) array, optional
        Of the dtype of a dense A: divisors of its rows, which have length at most 1 after division.

    Returns
    -------
    indices : (n, n_neighbors) ndarray of int64
        By rising distance, ties by index; never the point itself, but possibly points that coincide with it.
    distances : (n, n_neighbors) ndarray of float64

    Raises
    ------
    ValueError
        If ``n_neighbors`` is outside 1 … n − 1, or A is not finite.
    """
    n, d = A.shape
    if not 1 <= n_neighbors < n:
        raise ValueError(f"n_neighbors = {n_neighbors} is outside 1 … {n - 1} for {n} points")
    A, e, _ = normalised(A)
    A, points = _readable(A, lengths)
    dense = isinstance(A, np.ndarray) or A.nnz > _DENSE_SHARE * n * d
    candidates = _candidates(A, n_neighbors, np.float32 if dense else np.float64, dense, lengths)
    if dense and _overflowed(candidates).mean() > _TOO_MANY:
        candidates = _candidates(A, n_neighbors, np.float64, dense, lengths)
    squares = np.full((n, n_neighbors), np.inf)
    indices = np.full((n, n_neighbors), n, np.int64)

    def rank(part: slice) -> None:
        for low, index, bound in candidates:
            _rank(points, low[part], index[part], bound[part], part.start, squares[part], indices[part])

    process_row_blocks(n, rank)
    # A full search always finds enough neighbours: the distances to all n − 1 other points are finite.
    uncertain = np.flatnonzero(_overflowed(candidates) | np.isinf(squares[:, -1]))
    squares[uncertain] = np.inf
    process_row_blocks(len(uncertain), lambda part: _search(points, n, uncertain[part], squares, indices))
    return indices, np.ldexp(np.sqrt(squares), e)


def _squared_norms(A: Matrix) -> Dense:
    """Return the squared norm of each row, in float64."""
    if isinstance(A, np.ndarray):
        return np.asarray(np.einsum("ij,ij->i", A, A, dtype=np.float64))
    return np.asarray(A.astype(np.float64).power(2).sum(axis=1))


@numba.njit(cache=True, nogil=True, fastmath=_SUM)
def _distances(points: object, G: Dense, i0: int, j0: int, squares: Dense) -> float:
    """Return the sum of ‖x − y‖ over the pairs i < j of a tile of products."""
    total = 0.0
    for a in range(G.shape[0]):
        i = i0 + a
        square_i = squares[i]
        for start in range(max(0, i + 1 - j0), G.shape[1], _CHUNK):
            stop = min(start + _CHUNK, G.shape[1])
            close = 0
            part = 0.0
            for b in range(start, stop):
                size = square_i + squares[j0 + b]
                square = size - 2 * G[a, b]
                close += square <= _NEAR * size
                part += np.sqrt(max(square, 0.0))
            if close > 0:
                part = 0.0
                for b in range(start, stop):
                    size = square_i + squares[j0 + b]
                    square = size - 2 * G[a, b]
                    part += np.sqrt(_squared_distance(points, i, j0 + b) if square <= _NEAR * size else square)
            total += part
    return total


def mean_distance(A: Matrix) -> float:
    """Return the mean of all n² Euclidean distances between points, including the n zeros on the diagonal.

    It takes half of the products, in float64; pairs that are close relative to their norms use differences.

    Raises
    ------
    ArgumentError
        If A has no entries, or some that are not finite.
    """
    n = A.shape[0]
    A, e, _ = normalised(A)
    A, points = _readable(A)
    multiply: _Multiply
    if isinstance(A, np.ndarray):
        centre, shape = A.mean(axis=0, dtype=np.float64), _TILE_DENSE
        squares = np.concatenate([_squared_norms(block - centre) for _, block in row_blocks(A)])
        whole: Dense = A[:0] if is_out_of_core(A) else A - centre

        @lru_cache(_KEPT)
        def shifted(start: int, stop: int) -> Dense:
            return np.asarray(A[start:stop] - centre)

        def multiply(rows: slice, others: slice, G: Dense) -> None:
            X, Y = (shifted(o.start, o.stop) if is_out_of_core(A) else whole[o] for o in (rows, others))
            np.matmul(X, Y.T, out=G)
    else:
        squares, multiply, shape = _squared_norms(A), _multiply_csr(A), _TILE_CSR
    tiles = _tiles(n, shape)
    sums = np.zeros(len(tiles))  # one per tile, so that threads do not change the order of addition

    def work(part: slice) -> None:
        sums[part] = [_distances(points, G, i, j, squares) for G, i, j in _products(tiles[part], multiply, np.float64)]

    process_row_blocks(len(tiles), work)
    return scaled_back(2 * sums.sum() / n**2, e)
