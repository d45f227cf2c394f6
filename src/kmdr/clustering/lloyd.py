"""Several starts of Lloyd's algorithm, compiled: exact assignments, most of which are proved instead of computed.

Write s(x, c) for the squared distance as float64 computes it, entry by entry for dense data and as ‖x‖² + ‖c‖² − 2c·x
for CSR. Every point goes to the centre of smallest s, ties to the lowest index, as if all n·k values had been computed.
In an iteration a point passes at most three stages, and goes to the next only when one cannot tell.

1. *Bounds.* Each point keeps an upper bound of the distance to its own centre and a lower bound of that to the nearest
   other one (Hamerly 2010), stored together with how far the centres had travelled by then, so that they age without
   being touched. A point whose bounds are apart stays where it is.
2. *Single precision.* A float32 product gives ‖c‖² − 2c·x for a block of points and all centres. Its error is at most
   γ(‖x‖ + ‖c‖)², γ = mu/(1 − mu), u = 2⁻²⁴, m = the number of terms and a few more (Higham 2002, §3.1, any order of
   summation). A point whose two smallest values are further apart than twice that goes to the smallest. Both values,
   widened by the error, become its new bounds.
   For few points of many features the products are means of inner products of the points, computed once for all starts.
3. *Double precision.* For the rest, s is computed for each centre whose float32 value is within twice the error of the
   smallest, and decides.

Dense data, unless they are large, are kept twice: row by row in float64, and in float32 in blocks that are transposed,
(blocks, r, m), so that a vector instruction serves as many points of a product. Large data are not
copied: a block is gathered, centred and transposed each time its points wait.

After Lloyd's last iteration points may be moved one at a time, which `_move_singly` does with all of the n·k values.

A lower bound for every centre (Elkan 2003) did not pay: on PIE (2856 points, 68 clusters) it took 1.8 times as long at
r = 10 and was 10 % faster at r = 100, because one distance of one pair costs as much as ten pairs of a product.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np
from numba.core import types
from numba.extending import overload

from kmdr.linalg.matrix import Dense
from kmdr.linalg.product import COLUMNS, multiply_panel, panel_tile

F = TypeVar("F")

_U32 = 2.0**-24
_U64 = 2.0**-53
# Points transposed together, which is a cache line of float32.
_LINE = 16
_WIDE = 64
EMPTY_ACTIONS = ("singleton", "drop", "error")
_SINGLETON, _, _ERROR = range(3)  # their places, for compiled code


def _inner(*fastmath: str) -> Callable[[F], F]:
    """Compile what only kernels call: wrappers for Python, which unpack every array, would take 2 of 8 s more."""
    wrappers: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    compiled: Callable[[F], F] = numba.njit(cache=True, nogil=True, fastmath=set(fastmath), **wrappers)
    return compiled


class Points(NamedTuple):
    """Points as the kernels take them, always of these types, so that each kernel is compiled once.

    What belongs to the other kind of matrix is empty. No entry is larger than 1 in magnitude.

    Attributes
    ----------
    X : (n, r) ndarray of float64, or tuple
        Dense points; (0, r) for CSR. Of a large matrix, which is not copied: itself, the mean of its rows, (r,), and
        the scale, so that a point is (row − mean)·scale.
    panels : (blocks, r, m) ndarray of float32
        The same, m points a block, the last filled up with zeros; (0, r, m) for CSR and for a large matrix.
    data, indices, indptr : ndarray of float64, int32, int64
        CSR points.
    squares : (n,) ndarray of float64
        ‖x‖² of CSR points.
    norms : (n,) ndarray of float32
        ‖x‖.
    gram : (n, n) ndarray of float64
        Inner products of CSR points; (0, 0) where they were not computed.
    terms : int
        Stored entries of a row at the most.
    """

    X: Dense | tuple[Dense, Dense, float]
    panels: Dense
    data: Dense
    indices: Dense
    indptr: Dense
    squares: Dense
    norms: Dense
    gram: Dense
    terms: int


def block_size(n: int, r: int) -> int:
    """Return the number of points of a block, a multiple of 16: so many that few remain over in the last.

    Few coordinates of 512 points, or many of 256, stay in a second-level cache; half as many took 1.0–1.6 times as long
    and 512 of 100 or 300 coordinates 1.2 times.
    """
    blocks = -(-n // (512 if r < _WIDE else 256))
    return -(-n // (_LINE * blocks)) * _LINE


def _entry(X: Any, i: Any, j: Any) -> Any:
    """Return a coordinate of a dense point: as it is stored, in compiled code that of a large matrix too."""
    return X[i, j]


@overload(_entry, inline="always")
def _typed_entry(X: Any, i: Any, j: Any) -> Callable[[Any, Any, Any], Any]:
    def centred(X: Any, i: Any, j: Any) -> Any:
        return (X[0][i, j] - X[1][j]) * X[2]

    del i, j
    return _entry if isinstance(X, types.Array) else centred


@_inner("contract", "reassoc")
def _dense_distance(X: Any, i: int, centres: Dense, c: int) -> float:
    s = 0.0
    for j in range(centres.shape[1]):
        e = _entry(X, i, j) - centres[c, j]
        s += e * e
    return s


@_inner("contract", "reassoc")
def _csr_distance(
    data: Dense, indices: Dense, indptr: Dense, square: float, i: int, centres: Dense, c: int, other_square: float
) -> float:
    product = 0.0
    for p in range(indptr[i], indptr[i + 1]):
        product += data[p] * centres[c, indices[p]]
    return max(square + (other_square - 2 * product), 0.0)


@_inner()
def _gather(X: Any, index: Dense, part: Dense, out: Dense) -> None:
    """Transpose some rows into out, in float32; part (16, r) is room for a few of them in a row, read as they lie."""
    for lo in range(0, len(index), _LINE):
        for t in range(min(_LINE, len(index) - lo)):
            i = index[lo + t]
            for j in range(part.shape[1]):
                part[t, j] = _entry(X, i, j)
        for j in range(part.shape[1]):
            for t in range(_LINE):
                out[j, lo + t] = part[t, j]


@numba.njit(cache=True, nogil=True, fastmath={"contract", "reassoc"})
def centre(C: Dense) -> tuple[Dense, float]:
    """Return the mean of the rows, and the largest magnitude of an entry of their differences from it."""
    n, r = C.shape
    mean, low, high = np.zeros(r), C[0].copy(), C[0].copy()
    for i in range(n):
        for j in range(r):
            value = C[i, j]
            mean[j] += value - C[0, j]  # so that it is exact for a constant column
            low[j] = value if value < low[j] else low[j]
            high[j] = value if value > high[j] else high[j]
    mean = C[0] + mean / n
    return mean, max((high - mean).max(), (mean - low).max())


@numba.njit(cache=True, nogil=True, fastmath={"contract", "reassoc"})
def prepare(C: Dense, mean: Dense, scale: float, X: Dense, panels: Dense, norms: Dense) -> None:
    """Fill in X, the rows of C less their mean, scaled, and its norms and transposed blocks."""
    n, r = C.shape
    m = panels.shape[2]
    index, part = np.empty(m, np.uint64), np.zeros((_LINE, r), np.float32)
    for lo in range(0, n, m):
        count = min(m, n - lo)
        for q in range(count):
            i = lo + q
            index[q] = i
            square = 0.0
            for j in range(r):
                value = (C[i, j] - mean[j]) * scale
                X[i, j] = value
                square += value * value
            norms[i] = math.sqrt(square)
        _gather(X, index[:count], part, panels[lo // m])


@_inner("contract", "reassoc")
def _csr_products(
    data: Dense, indices: Dense, indptr: Dense, index: Dense, m: int, single: Dense, values: Dense
) -> None:
    k = single.shape[1]
    sums = np.empty(k, np.float32)
    for q in range(m):
        i = index[q]
        for c in range(k):
            sums[c] = 0
        for p in range(indptr[i], indptr[i + 1]):
            value, row = np.float32(data[p]), indices[p]
            for c in range(k):
                sums[c] += value * single[row, c]
        for c in range(k):
            values[c, q] = sums[c]


@_inner("contract")
def _two_smallest(values: Dense, squares: Dense, best: Dense, second: Dense, near: Dense) -> None:
    """Add squares[c] to row c, and find the two smallest of each column; points run in the inner loop."""
    k, m = values.shape
    for q in range(m):
        values[0, q] += squares[0]
        best[q], second[q], near[q] = values[0, q], np.float32(np.inf), np.int32(0)
    for c in range(1, k):
        for q in range(m):
            value = values[c, q] + squares[c]
            values[c, q] = value
            closer = value < best[q]
            other = best[q] if closer else value
            second[q] = other if other < second[q] else second[q]
            best[q] = value if closer else best[q]
            near[q] = np.int32(c) if closer else near[q]


@_inner("contract")
def _roots(m: int, best: Dense, second: Dense, sizes: Dense, radius: float, gamma: float, error: float) -> int:
    """Turn the two smallest values into bounds; count those too close to tell, and make their second bound −1."""
    zero, floor = np.float32(0), np.float32(error)
    widest, rate = np.float32(radius), np.float32(gamma)
    close = 0
    for q in range(m):
        size = sizes[q] + widest
        doubt = rate * size * size + floor
        square = sizes[q] * sizes[q]
        sure = second[q] - best[q] > doubt + doubt
        close += not sure
        best[q] = np.sqrt(max(square + best[q], zero) + doubt)
        second[q] = np.sqrt(max(square + second[q] - doubt, zero)) if sure else np.float32(-1)
    return close


@_inner()
def _gamma(terms: int, unit: float) -> float:
    mu = (terms + 16) * unit
    return mu / (1 - mu) if mu < 0.5 else np.inf


class Run(NamedTuple):
    """What the starts use one after the other, of which nothing need be kept between them.

    Of the arrays the first nine are the centres of an iteration, two are the bounds of the points, and the rest is room
    that no call finds as another left it. They are allocated once for all starts, because the kernel would hand out
    zeroed pages anew for each, and lie flat in one tuple, because that is what compiled code takes at no cost.

    Attributes
    ----------
    centres, sums : (k, r) ndarray of float64
    squares : (k,) ndarray of float64
        ‖c‖².
    sizes : (k,) ndarray of int64
        Points of each cluster.
    changed : (k,) ndarray of bool
        Clusters whose sums changed in this iteration.
    travelled : (k,) ndarray of float64
        How far each centre has gone since the beginning.
    single : (groups, r, width) ndarray of float32
        −2 × centres, transposed, ``width`` of them a group.
    inner : (k, n) ndarray of float64
        −2c·x, from the inner products of the points; (k, 0) without these.
    single_squares, path : (k,), (k + 1,) ndarray of float32
        The squares, and how far each centre had gone, at the beginning of this iteration.
    own, other : (n,) ndarray of float32
        Bounds: upper − what the own centre had travelled; lower + what the centres that moved most had.
    listed : (2m + 1,) ndarray of uint64
        Points that wait.
    part, rows, tile, values : ndarray of float32
        Room for a few points (16, r), for r×m gathered points and for k×m products.
    best, second, point_norms : (m,) ndarray of float32
    near : (m,) ndarray of int32
    moved, block : (m + 1,) ndarray of int64, (m,) ndarray of uint64
    distances : (n,) ndarray of float64
    """

    centres: Dense
    sums: Dense
    squares: Dense
    sizes: Dense
    changed: Dense
    travelled: Dense
    single: Dense
    inner: Dense
    single_squares: Dense
    path: Dense
    own: Dense
    other: Dense
    listed: Dense
    part: Dense
    rows: Dense
    tile: Dense
    values: Dense
    best: Dense
    second: Dense
    point_norms: Dense
    near: Dense
    moved: Dense
    block: Dense
    distances: Dense


def workspace(points: Points, k: int) -> Run:
    """Return room for one start after the other, so that its pages are touched for the first time but once."""
    n, (_, r, m) = len(points.norms), points.panels.shape
    f = np.float32
    groups, width = (-(-k // COLUMNS), COLUMNS) if len(points.X) else (1, k)
    return Run(
        *(np.empty((k, r)), np.empty((k, r)), np.empty(k), np.empty(k, np.int64), np.empty(k, np.bool_), np.empty(k)),
        *(np.zeros((groups, r, width), f), np.empty((k, len(points.gram)))),
        *(np.empty(k, f), np.zeros(k + 1, f), np.empty(n, f), np.empty(n, f)),
        *(np.empty(2 * m + 1, np.uint64), np.zeros((_LINE, r), f), np.empty(m * r, f)),
        *(panel_tile(m), np.empty(m * groups * width, f)),
        *(np.empty(m, f), np.empty(m, f), np.empty(m, f), np.empty(m, np.int32)),
        *(np.empty(m + 1, np.int64), np.empty(m, np.uint64), np.empty(n)),
    )


@_inner()
def _count_unsettled(own: Dense, other: Dense, path: Dense, labels: Dense, gone: float) -> int:
    """Count the points whose bounds do not settle where they belong."""
    far, count = np.float32(gone), 0
    for i in range(len(own)):
        count += own[i] + path[np.uint32(labels[i])] >= other[i] - far
    return count


@_inner()
def _list_unsettled(own: Dense, other: Dense, path: Dense, labels: Dense, gone: float, first: int, index: Dense) -> int:
    """Write those points, counted from the first, into an index, which has room for one more; return how many."""
    far, count = np.float32(gone), 0
    for i in range(len(own)):
        index[count] = first + i  # without a branch: at any share of unsettled points
        count += own[i] + path[np.uint32(labels[i])] >= other[i] - far
    return count


@_inner("contract")
def _multiply_by_gram(gram: Dense, sizes: Dense, rows: Dense, labels: Dense, inner: Dense) -> None:
    """Write −2c·x for every centre and point; a centre without points is still the row where it began."""
    k, n = inner.shape
    for c in range(k):
        for j in range(n):
            inner[c, j] = 0.0 if sizes[c] else gram[rows[c], j]
    for i in range(n):
        c = labels[i]
        if c < k:
            for j in range(n):
                inner[c, j] += gram[i, j]
    for c in range(k):
        scale = -2.0 / max(sizes[c], 1)
        for j in range(n):
            inner[c, j] *= scale


@_inner()
def _products(points: Points, run: Run, index: Dense, block: int) -> Dense:
    """Return −2c·x in float32 for the points of an index, which may be a whole block, and a few more."""
    k, r = run.centres.shape
    m = len(index)
    width = points.panels.shape[2] if block >= 0 else -(-m // _LINE) * _LINE
    values = run.values[: k * width].reshape(k, width)
    if len(points.gram):
        for c in range(k):
            for q in range(m):
                values[c, q] = run.inner[c, index[q]]
        return values
    if len(points.X) == 0:
        _csr_products(points.data, points.indices, points.indptr, index, m, run.single[0], values)
        return values
    panel = points.panels[max(block, 0)]
    if block < 0:
        panel = run.rows[: r * width].reshape(r, width)
        _gather(points.X, index, run.part, panel)
    multiply_panel(panel, run.single, run.tile, run.values)
    return values


@_inner()
def _decide(points: Points, run: Run, i: int, q: int, values: Dense, doubt: float) -> tuple[int, float]:
    """Return the centre of smallest s and that value, among those of column q that may be it."""
    k = len(run.squares)
    limit, near, least = np.inf, 0, np.inf
    for c in range(k):
        limit = min(limit, values[c, q])
    for c in range(k):
        if values[c, q] <= limit + doubt:
            if len(points.X):
                s = _dense_distance(points.X, i, run.centres, c)
            else:
                data, indices, indptr, square = points.data, points.indices, points.indptr, points.squares[i]
                s = _csr_distance(data, indices, indptr, square, i, run.centres, c, run.squares[c])
            if s < least:
                near, least = c, s
    return near, least


@_inner()
def _store(
    index: Dense,
    best: Dense,
    second: Dense,
    near: Dense,
    own: Dense,
    other: Dense,
    labels: Dense,
    path: Dense,
    far: float,
    moved: Dense,
) -> int:
    """Store the bounds of some points, and list those that change their cluster."""
    way, moves = np.float32(far), 0
    for q in range(len(index)):
        i, a = index[q], near[q]
        own[i] = best[q] - path[a]
        other[i] = second[q] + way
        moved[moves] = q
        moves += a != labels[i]
    return moves


@_inner()
def _assign(points: Points, run: Run, labels: Dense, index: Dense, block: int, far: float, error: float) -> int:
    """Assign the points of an index, move them from sum to sum, and return how many were moved."""
    m = len(index)
    values = _products(points, run, index, block)
    _two_smallest(values, run.single_squares, run.best, run.second, run.near)
    norms, sizes = points.norms, run.point_norms
    for q in range(m):
        sizes[q] = norms[index[q]]
    radius = 0.0
    for square in run.squares:
        radius = max(radius, square)
    radius = math.sqrt(radius)
    gamma, floor = _gamma(points.terms, _U32), 4 * error + 2.0**-120 * points.terms
    if _roots(m, run.best, run.second, sizes, radius, gamma, floor):
        for q in range(m):
            if run.second[q] < 0:
                doubt = 2.01 * (gamma * (sizes[q] + radius) ** 2 + floor)
                run.near[q], least = _decide(points, run, index[q], q, values, doubt)
                run.best[q], run.second[q] = math.sqrt(least + 4 * error), 0
    moves = _store(index, run.best, run.second, run.near, run.own, run.other, labels, run.path, far, run.moved)
    _move(points, run, labels, index, run.moved[:moves])
    return moves


@_inner("contract")
def _add_dense(X: Any, i: int, sign: float, sums: Dense, c: int) -> None:
    for j in range(sums.shape[1]):
        sums[c, j] += sign * _entry(X, i, j)


@_inner("contract")
def _add_csr(data: Dense, indices: Dense, indptr: Dense, i: int, sign: float, sums: Dense, c: int) -> None:
    for p in range(indptr[i], indptr[i + 1]):
        sums[c, indices[p]] += sign * data[p]


@_inner()
def _move(points: Points, run: Run, labels: Dense, index: Dense, moved: Dense) -> None:
    """Move points index[moved] from the sums of their clusters, if they had one, to those of near[moved]."""
    X, data, indices, indptr = points.X, points.data, points.indices, points.indptr
    sums, counts, changed, near = run.sums, run.sizes, run.changed, run.near
    dense = len(X) > 0
    for q in moved:
        i, goal = index[q], near[q]
        source = labels[i]
        if source < len(counts):
            if dense:
                _add_dense(X, i, -1.0, sums, source)
            else:
                _add_csr(data, indices, indptr, i, -1.0, sums, source)
            counts[source] -= 1
            changed[source] = True
        if dense:
            _add_dense(X, i, 1.0, sums, goal)
        else:
            _add_csr(data, indices, indptr, i, 1.0, sums, goal)
        counts[goal] += 1
        changed[goal] = True
        labels[i] = goal


@_inner()
def _recentre(run: Run, c: int) -> float:
    """Move centre c to the mean of its points, if it has any, and return how far."""
    count, centres, sums = run.sizes[c], run.centres, run.sums
    r = centres.shape[1]
    if count == 0:
        return 0.0
    distance, square = 0.0, 0.0
    for j in range(r):
        value = sums[c, j] / count
        e = value - centres[c, j]
        distance += e * e
        square += value * value
        centres[c, j] = value
    run.squares[c] = square
    distance = math.sqrt(distance) * (1 + 4 * _gamma(r, _U64))
    run.travelled[c] += distance
    return distance


@_inner()
def _inertia(points: Points, run: Run, labels: Dense) -> float:
    """Write the squared distances of the points to their centres into run.distances, and return the sum."""
    X, data, indices, indptr, squares = points.X, points.data, points.indices, points.indptr, points.squares
    centres, distances, centre_squares = run.centres, run.distances, run.squares
    total, dense = 0.0, len(X) > 0
    for i in range(len(labels)):
        a = labels[i]
        if dense:
            s = _dense_distance(X, i, centres, a)
        else:
            s = _csr_distance(data, indices, indptr, squares[i], i, centres, a, centre_squares[a])
        distances[i] = s
        total += s
    return total


@_inner()
def _begin(points: Points, run: Run, rows: Dense, labels: Dense) -> float:
    """Set everything as it is before the first iteration, and return the largest norm."""
    centres, sums, counts, own, other, norms = run.centres, run.sums, run.sizes, run.own, run.other, points.norms
    k, r = centres.shape
    largest = np.float32(0)
    for i in range(len(labels)):
        labels[i], own[i], other[i] = k, np.inf, -np.inf
        largest = max(largest, norms[i])
    for c in range(k):
        counts[c], run.travelled[c] = 0, 0.0
        for j in range(r):
            centres[c, j] = sums[c, j] = 0.0
    for c in range(k):
        if len(points.X):
            _add_dense(points.X, rows[c], 1.0, centres, c)
        else:
            _add_csr(points.data, points.indices, points.indptr, rows[c], 1.0, centres, c)
        square = 0.0
        for j in range(r):
            square += centres[c, j] * centres[c, j]
        run.squares[c] = square
    return float(largest) * (1 + 2 * _U32)


@_inner()
def _fill_empty(points: Points, run: Run, labels: Dense) -> float:
    """Give each empty cluster a point of its own, as MATLAB's EmptyAction 'singleton'; return how far centres moved."""
    step = 0.0
    for empty in range(len(run.sizes)):
        if run.sizes[empty] > 0:
            continue
        _inertia(points, run, labels)
        farthest, most = 0, -1.0
        for i in range(len(labels)):
            if run.distances[i] > most and run.sizes[labels[i]] > 1:
                farthest, most = i, run.distances[i]
        source = 0 + labels[farthest]  # int64, as in the other call
        run.listed[0], run.near[0], run.moved[0] = farthest, empty, 0
        _move(points, run, labels, run.listed, run.moved[:1])
        run.own[farthest] = np.inf  # its bounds were those of another cluster
        step += _recentre(run, empty) + _recentre(run, source)
    return step


@_inner()
def _start(  # noqa: PLR0912, PLR0915  one compiled loop, so that an iteration of a small fit costs microseconds
    points: Points, run: Run, rows: Dense, max_iter: int, empty_action: int, labels: Dense
) -> tuple[float, int, bool]:
    """Run Lloyd from given rows, write the labels, and return inertia, iterations and whether it converged.

    The inertia of a start that was given up is infinite.
    """
    n, k, r, m = len(labels), len(rows), points.panels.shape[1], points.panels.shape[2]
    width = run.single.shape[2]
    largest = _begin(points, run, rows, labels)
    # No computed s is further than ``error`` from the truth, and no distance larger than ``reach``.
    error, reach = _gamma(r + points.terms, _U64) * 4 * largest * largest, 2.01 * largest
    by_gram = len(points.gram) > 0
    additions = 0
    # A block is multiplied as it lies where more than a third of its points wait, as gathering costs as much again.
    # A half or a quarter made 0-5 % of difference (n = 500,000; r, k = 5, 5 and 20, 20; n = 50,000; 100, 68).
    enough = m // 3 if len(points.panels) else m
    longest = 0.0  # way of the centre that moved most in each iteration
    refilled = np.inf
    no_block = min(n, 0) - 1  # a literal −1 would have the kernels compiled twice
    converged = False
    iteration = 0
    while not converged and iteration < max_iter:
        iteration += 1
        for c in range(k):
            run.changed[c] = False
            dropped = iteration > 1 and run.sizes[c] == 0
            run.path[c], run.single_squares[c] = run.travelled[c], np.inf if dropped else run.squares[c]
            for j in range(0 if by_gram else r):
                run.single[c // width, j, c % width] = -2 * run.centres[c, j]
        if by_gram:
            # A product errs by γ‖x‖‖y‖, their mean as much again. A centre is a sum that each of the additions so far
            # may have left wrong by u of its length, which is n‖x‖ at the most.
            _multiply_by_gram(points.gram, run.sizes, rows, labels, run.inner)
            doubt = error + 2 * (_gamma(r + n, _U64) + 2 * _U64 * n * additions) * largest * largest
        else:
            doubt = error
        # The last term is what float32 may have done to bounds that were stored and aged.
        gone = longest + 2.0**-20 * (longest + reach)
        moves = waiting = 0
        for lo in range(0, n, m):
            hi = min(lo + m, n)
            own, other, some = run.own[lo:hi], run.other[lo:hi], labels[lo:hi]
            count = _count_unsettled(own, other, run.path, some, gone)
            if count > enough:
                for q in range(hi - lo):
                    run.block[q] = lo + q
                moves += _assign(points, run, labels, run.block[: hi - lo], lo // m, longest, doubt)
            elif count:
                waiting += _list_unsettled(own, other, run.path, some, gone, lo, run.listed[waiting:])
            if waiting >= m:
                moves += _assign(points, run, labels, run.listed[:m], no_block, longest, doubt)
                waiting -= m
                for q in range(waiting):
                    run.listed[q] = run.listed[m + q]
        if waiting:
            moves += _assign(points, run, labels, run.listed[:waiting], no_block, longest, doubt)
        additions += moves
        step, least = 0.0, n
        for c in range(k):
            least = min(least, run.sizes[c])
            if run.changed[c]:
                step = max(step, _recentre(run, c))
        converged = moves == 0
        if not converged and least == 0 and empty_action == _ERROR:
            return np.inf, iteration, False
        if not converged and least == 0 and empty_action == _SINGLETON:
            step += _fill_empty(points, run, labels)
            additions += k
            before, refilled = refilled, _inertia(points, run, labels)
            converged = refilled >= before
        longest += step
    return _inertia(points, run, labels), iteration, converged


@_inner()
def _move_singly(points: Points, run: Run, labels: Dense, most: int) -> tuple[float, int, bool]:
    """Move single points where that lowers the inertia; return it, the passes that moved some, and whether it is done.

    Moving x from a cluster of m points and centre a to one of m' and b, and the centres with it, changes the inertia by
    m'/(m' + 1)·s(x, b) − m/(m − 1)·s(x, a). A point goes where this is least, if it is then below zero by more than
    rounding can feign; it is done when each point has been looked at since the last move. At least one pass is counted.
    """
    X, data, indices, indptr, squares = points.X, points.data, points.indices, points.indptr, points.squares
    n, dense = len(labels), len(X) > 0
    largest = float(points.norms.max())
    doubt = 16 * _gamma(run.centres.shape[1] + points.terms, _U64) * largest * largest
    i = settled = passes = 0
    moving = 1  # the last pass that moved a point
    while settled < n:
        passes += i == 0
        source = 0 + labels[i]  # int64, as in the other calls
        goal, least, own = source, np.inf, 0.0
        for c in range(len(run.sizes)):
            size = run.sizes[c]
            if size == 0:
                continue
            if dense:
                s = _dense_distance(X, i, run.centres, c)
            else:
                s = _csr_distance(data, indices, indptr, squares[i], i, run.centres, c, run.squares[c])
            if c == source:
                own = s * size / (size - 1) if size > 1 else 0.0
            elif s * size / (size + 1) < least:
                goal, least = c, s * size / (size + 1)
        if least + doubt < own:
            if passes > most:
                return _inertia(points, run, labels), most, False
            run.listed[0], run.near[0], run.moved[0] = i, goal, 0
            _move(points, run, labels, run.listed, run.moved[:1])
            _recentre(run, source)
            _recentre(run, goal)
            settled, moving = 0, passes
        else:
            settled += 1
        i = (i + 1) % n
    return _inertia(points, run, labels), moving, True


@numba.njit(cache=True, nogil=True)
def run_starts(
    points: Points,
    run: Run,
    rows: Dense,
    max_iter: int,
    online: bool,
    empty_action: int,
    labels: Dense,
    inertia: Dense,
    iterations: Dense,
    converged: Dense,
) -> None:
    """Run Lloyd from each of several starts; `kmdr.clustering.kmeans` says what that means.

    They are run in one call, because a call that unpacks its arrays takes as long as a few iterations of a small fit.

    Parameters
    ----------
    run : Run
        From `workspace`.
    rows : (starts, k) ndarray of int64
        Where the centres begin.
    online : bool
        Whether single points are moved after Lloyd.
    empty_action : int
        Place in `EMPTY_ACTIONS`.
    labels : (starts, n) ndarray of int32
        Where the partitions go.
    inertia, iterations, converged : (starts,) ndarray of float64, int64, bool
        Where the rest of the result goes.
    """
    for j in range(len(rows)):
        inertia[j], iterations[j], converged[j] = _start(points, run, rows[j], max_iter, empty_action, labels[j])
        if online and converged[j]:
            before = iterations[j] - 1  # without the one that found nothing to change
            inertia[j], passes, converged[j] = _move_singly(points, run, labels[j], max_iter - before)
            iterations[j] = before + passes
