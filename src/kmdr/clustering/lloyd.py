"""Several starts of Lloyd's algorithm, compiled: exact assignments, most of which are proved instead of computed.

Write s(x, c) for the squared distance as float64 computes it, entry by entry for dense data and as ‖x‖² + ‖c‖² − 2c·x
for CSR. Every point goes to the centre of smallest s, ties to the lowest index, as if all n·k values had been computed.
In an iteration a point passes at most three stages, and goes to the next only when one leaves its cluster undecided.

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
(blocks, r, m), because BLAS multiplies small matrices fastest when neither is transposed on the way. Large data are not
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
from numba import types
from numba.extending import overload

from kmdr.linalg.matrix import Dense

F = TypeVar("F")

# Converts every index that one kernel passes to another, so that each is compiled for one type.
_index: Any = np.int64
_U32 = 2.0**-24
_U64 = 2.0**-53
# Points transposed together: one cache line of float32.
_LINE = 16
EMPTY_ACTIONS = ("singleton", "drop", "error")
_SINGLETON, _, _ERROR = range(3)  # their indices, for compiled code


def _kernel(*fastmath: str, inline: str = "never") -> Callable[[F], F]:
    """Return a decorator for functions that only kernels call.

    Most of the time of compilation goes into calls that pass many arrays and into wrappers for Python, which unpack
    them. So a function that is called from one place becomes part of its caller before it is compiled, unless that is
    in a loop over points: there, its arguments would be counted as references at each point.
    """
    options: Any = {"inline": inline, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    compiled: Callable[[F], F] = numba.njit(cache=True, nogil=True, fastmath=set(fastmath), **options)
    return compiled


_inlined = _kernel(inline="always")


class Clusters(NamedTuple):
    """The clusters of a start.

    Attributes
    ----------
    centres, sums : (k, r) ndarray of float64
    centre_squares : (k,) ndarray of float64
        ‖c‖².
    sizes : (k,) ndarray of int64
        Number of points in each cluster.
    changed : (k,) ndarray of bool
        Clusters whose sums changed in this iteration.
    drifts : (k,) ndarray of float64
        Distance that each centre has moved since the start.
    """

    centres: Dense
    sums: Dense
    centre_squares: Dense
    sizes: Dense
    changed: Dense
    drifts: Dense


class Points(NamedTuple):
    """Points in the form that the kernels take, always of these types, so that each kernel is compiled once.

    Fields of the other kind of matrix are empty. No entry is larger than 1 in magnitude.

    Attributes
    ----------
    X : (n, r) ndarray of float64, or tuple
        Dense points; (0, r) for CSR. An out-of-core matrix is not copied: (matrix, row mean (r,), scale), where a point
        is (row − mean)·scale.
    panels : (blocks, r, m) ndarray of float32
        The same points, m per block, the last block padded with zeros; (0, r, m) for CSR and for out-of-core matrices.
    data, indices, indptr : ndarray of float64, int32, int64
        CSR points.
    squares : (n,) ndarray of float64
        ‖x‖² of CSR points.
    norms : (n,) ndarray of float32
        ‖x‖.
    gram : (n, n) ndarray of float64
        Inner products of CSR points; (0, 0) where they were not computed.
    terms : int
        Largest number of stored entries in a row.
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


def block_size(n: int, r: int, k: int) -> int:
    """Return the number of points per block: a multiple of 16 that leaves few over in the last block.

    OpenBLAS takes products of up to 10⁶ terms without packing them. Beyond 512 points nothing is gained, and below 128
    the call costs as much as a small product.
    """
    blocks = -(-n // min(max(10**6 // (r * k), 128), 512))
    return -(-n // (_LINE * blocks)) * _LINE


def _entry(X: Any, i: Any, j: Any) -> Any:
    """Return one coordinate of a dense point. The overload below also serves out-of-core matrices in compiled code."""
    return X[i, j]


@overload(_entry, inline="always")
def _typed_entry(X: Any, i: Any, j: Any) -> Callable[[Any, Any, Any], Any]:
    def centred(X: Any, i: Any, j: Any) -> Any:
        return (X[0][i, j] - X[1][j]) * X[2]

    del i, j
    return _entry if isinstance(X, types.Array) else centred


@_kernel("contract", "reassoc")
def _dense_distance(X: Any, i: int, centres: Dense, c: int) -> float:
    s = 0.0
    for j in range(centres.shape[1]):
        e = _entry(X, i, j) - centres[c, j]
        s += e * e
    return s


@_kernel("contract", "reassoc")
def _csr_distance(
    data: Dense, indices: Dense, indptr: Dense, square: float, i: int, centres: Dense, c: int, centre_square: float
) -> float:
    product = 0.0
    for p in range(indptr[i], indptr[i + 1]):
        product += data[p] * centres[c, indices[p]]
    return max(square + (centre_square - 2 * product), 0.0)


@_kernel()
def _gather(X: Any, index: Dense, buffer: Dense, out: Dense) -> None:
    """Transpose the chosen rows into ``out`` in float32, through a (16, r) buffer that is filled row by row."""
    for lo in range(0, len(index), _LINE):
        for t in range(min(_LINE, len(index) - lo)):
            i = index[lo + t]
            for j in range(buffer.shape[1]):
                buffer[t, j] = _entry(X, i, j)
        for j in range(buffer.shape[1]):
            for t in range(_LINE):
                out[j, lo + t] = buffer[t, j]


@numba.njit(cache=True, nogil=True, fastmath={"contract", "reassoc"})
def _add_rows(C: Dense, sums: Dense, low: Dense, high: Dense) -> None:
    """Add each row, less the first, to ``sums``, and update the smallest and largest entries of the columns."""
    n, r = C.shape
    for i in range(n):
        for j in range(r):
            value, least, largest = C[i, j], low[j], high[j]  # reads, a store, writes, as in `_find_two_smallest`
            sums[j] += value - C[0, j]  # so that the mean is exact for a constant column
            low[j] = value if value < least else least
            high[j] = value if value > largest else largest


def centre(C: Dense) -> tuple[Dense, float]:
    """Return the mean of the rows, and the largest magnitude among the entries of the centred rows."""
    sums, low, high = np.zeros(C.shape[1]), C[0].copy(), C[0].copy()
    _add_rows(C, sums, low, high)
    mean = C[0] + sums / len(C)
    return mean, float(max((high - mean).max(), (mean - low).max()))


@numba.njit(cache=True, nogil=True, fastmath={"contract", "reassoc"})
def _write_points(
    C: Dense, mean: Dense, scale: float, index: Dense, buffer: Dense, X: Dense, panels: Dense, norms: Dense
) -> None:
    n, r = C.shape
    m = panels.shape[2]
    for lo in range(0, n, m):
        hi = min(lo + m, n)
        for i in range(lo, hi):
            square = 0.0
            for j in range(r):
                value = (C[i, j] - mean[j]) * scale
                X[i, j] = value
                square += value * value
            norms[i] = math.sqrt(square)
        _gather(X, index[lo:hi], buffer, panels[lo // m])


def prepare(C: Dense, mean: Dense, scale: float, X: Dense, panels: Dense, norms: Dense) -> None:
    """Write the centred and scaled rows of C to ``X``, their norms, and their transposed blocks."""
    index, buffer = np.arange(len(C), dtype=np.uint64), np.zeros((_LINE, C.shape[1]), np.float32)
    _write_points(C, mean, scale, index, buffer, X, panels, norms)


@_kernel("contract", "reassoc")
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


@_kernel("contract")
def _find_two_smallest(values: Dense, squares: Dense, smallest: Dense, second: Dense, nearest: Dense) -> None:
    """Add ``squares[c]`` to row c and find the two smallest values of each column; points run in the inner loop."""
    k, m = values.shape
    for q in range(m):
        values[0, q] += squares[0]
        smallest[q], second[q], nearest[q] = values[0, q], np.float32(np.inf), np.int32(0)
    for c in range(1, k):
        square, index = squares[c], np.int32(c)
        for q in range(m):
            # A store between reads and writes keeps LLVM from masked stores, for which AMD's processors take long.
            least, other, near = smallest[q], second[q], nearest[q]
            value = values[c, q] + square
            values[c, q] = value
            closer = value < least
            larger = least if closer else value
            second[q] = larger if larger < other else other
            smallest[q] = value if closer else least
            nearest[q] = index if closer else near


@_kernel("contract")
def _set_bounds(
    m: int, upper_bounds: Dense, lower_bounds: Dense, norms: Dense, centre_radius: float, gamma: float, floor: float
) -> int:
    """Turn the two smallest values into bounds of distances, and return how many points stay unsettled.

    The lower bound of an unsettled point, whose two values are too close to decide, becomes −1.
    """
    zero, error_floor = np.float32(0), np.float32(floor)
    largest_centre_norm, rate = np.float32(centre_radius), np.float32(gamma)
    unsettled = 0
    for q in range(m):
        norm_sum = norms[q] + largest_centre_norm
        error_bound = rate * norm_sum * norm_sum + error_floor
        square = norms[q] * norms[q]
        settled = lower_bounds[q] - upper_bounds[q] > error_bound + error_bound
        unsettled += not settled
        upper_bounds[q] = np.sqrt(max(square + upper_bounds[q], zero) + error_bound)
        lower_bounds[q] = np.sqrt(max(square + lower_bounds[q] - error_bound, zero)) if settled else np.float32(-1)
    return unsettled


@_kernel()
def _gamma(terms: int, unit: float) -> float:
    mu = (terms + 16) * unit
    return mu / (1 - mu) if mu < 0.5 else np.inf


class Run(NamedTuple):
    """Buffers that the starts use one after the other; none of their content is kept between starts.

    They are allocated once for all starts, because the kernel would hand out zeroed pages anew for each.

    Attributes
    ----------
    single_centres : (r, k) ndarray of float32
        −2 × centres, transposed.
    inner_products : (k, n) ndarray of float64
        −2c·x from the inner products of the points; (k, 0) without these.
    single_centre_squares, single_drifts : (k,), (k + 1,) ndarray of float32
        ‖c‖² and the drift of each centre at the beginning of this iteration.
    upper_bounds, lower_bounds : (n,) ndarray of float32
        Upper bound of the distance to the point's own centre, less that centre's drift; lower bound of the distance to
        any other centre, plus the largest drift.
    queue : (2m + 1,) ndarray of uint64
        Unsettled points.
    row_buffer, gathered, products : ndarray of float32
        Buffers for (16, r) points, r×m gathered points, and k×m products.
    new_upper, new_lower : (m,) ndarray of float32
        The two smallest values of each point of a block, which become its bounds.
    point_norms : (m,) ndarray of float32
    nearest : (m,) ndarray of int32
        Centre of the smallest value.
    moving, block_points : (m + 1,) ndarray of int64, (m,) ndarray of uint64
        Positions of the points that change cluster, and the points of a whole block.
    distances : (n,) ndarray of float64
        Squared distance of each point to its centre.
    """

    single_centres: Dense
    inner_products: Dense
    single_centre_squares: Dense
    single_drifts: Dense
    upper_bounds: Dense
    lower_bounds: Dense
    queue: Dense
    row_buffer: Dense
    gathered: Dense
    products: Dense
    new_upper: Dense
    new_lower: Dense
    point_norms: Dense
    nearest: Dense
    moving: Dense
    block_points: Dense
    distances: Dense


def workspace(points: Points, k: int) -> tuple[Clusters, Run]:
    """Return buffers that serve every start, so that their pages are touched for the first time only once."""
    n, (_, r, m) = len(points.norms), points.panels.shape
    f = np.float32
    clusters = Clusters(
        np.empty((k, r)), np.empty((k, r)), np.empty(k), np.empty(k, np.int64), np.empty(k, np.bool_), np.empty(k)
    )
    return clusters, Run(
        *(np.empty((r, k), f), np.empty((k, len(points.gram)))),
        *(np.empty(k, f), np.zeros(k + 1, f), np.empty(n, f), np.empty(n, f)),
        *(np.empty(2 * m + 1, np.uint64), np.zeros((_LINE, r), f), np.empty(m * r, f)),
        np.empty(m * k, f),
        *(np.empty(m, f), np.empty(m, f), np.empty(m, f), np.empty(m, np.int32)),
        *(np.empty(m + 1, np.int64), np.empty(m, np.uint64), np.empty(n)),
    )


@_inlined
def _count_unsettled(upper_bounds: Dense, lower_bounds: Dense, drifts: Dense, labels: Dense, max_drift: float) -> int:
    """Count the points whose bounds leave their cluster undecided."""
    single_max_drift, count = np.float32(max_drift), 0
    for i in range(len(upper_bounds)):
        count += upper_bounds[i] + drifts[np.uint32(labels[i])] >= lower_bounds[i] - single_max_drift
    return count


@_inlined
def _list_unsettled(
    upper_bounds: Dense, lower_bounds: Dense, drifts: Dense, labels: Dense, max_drift: float, first: int, index: Dense
) -> int:
    """Write the unsettled points, numbered from ``first``, to ``index``, with room for one more; return the count."""
    single_max_drift, count = np.float32(max_drift), 0
    for i in range(len(upper_bounds)):
        index[count] = first + i  # without a branch: at any share of unsettled points
        count += upper_bounds[i] + drifts[np.uint32(labels[i])] >= lower_bounds[i] - single_max_drift
    return count


@_kernel("contract")
def _multiply_by_gram(gram: Dense, sizes: Dense, rows: Dense, labels: Dense, inner: Dense) -> None:
    """Write −2c·x for every centre and point; an empty cluster's centre is still the row where it began."""
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


@_inlined
def _products(points: Points, run: Run, index: Dense, block: int) -> Dense:
    """Return −2c·x in float32 for the points of ``index`` (a whole block if ``block`` ≥ 0); padded to whole vectors."""
    r, k = run.single_centres.shape
    m = len(index)
    width = points.panels.shape[2] if block >= 0 else -(-m // _LINE) * _LINE
    values = run.products[: k * width].reshape(k, width)
    if len(points.gram):
        for c in range(k):
            for q in range(m):
                values[c, q] = run.inner_products[c, index[q]]
        return values
    if len(points.X) == 0:
        _csr_products(points.data, points.indices, points.indptr, index, m, run.single_centres, values)
        return values
    panel = points.panels[max(block, 0)]
    if block < 0:
        panel = run.gathered[: r * width].reshape(r, width)
        _gather(points.X, index, run.row_buffer, panel)
    np.dot(run.single_centres.T, panel, values)
    return values


@_kernel()
def _nearest_exactly(
    points: Points, clusters: Clusters, i: int, q: int, values: Dense, error_bound: float
) -> tuple[int, float]:
    """Return the centre of smallest s, and that s, among the centres of column q near the smallest."""
    k = len(values)
    smallest, nearest, smallest_distance = np.inf, 0, np.inf
    for c in range(k):
        smallest = min(smallest, values[c, q])
    for c in range(k):
        if values[c, q] <= smallest + error_bound:
            if len(points.X):
                s = _dense_distance(points.X, i, clusters.centres, c)
            else:
                data, indices, indptr, square = points.data, points.indices, points.indptr, points.squares[i]
                s = _csr_distance(data, indices, indptr, square, i, clusters.centres, c, clusters.centre_squares[c])
            if s < smallest_distance:
                nearest, smallest_distance = c, s
    return nearest, smallest_distance


@_inlined
def _store_bounds(
    index: Dense,
    new_upper: Dense,
    new_lower: Dense,
    nearest: Dense,
    upper_bounds: Dense,
    lower_bounds: Dense,
    labels: Dense,
    drifts: Dense,
    max_drift: float,
    moved: Dense,
) -> int:
    """Store the bounds of some points, list those that change their cluster, and return their number."""
    single_max_drift, count = np.float32(max_drift), 0
    for q in range(len(index)):
        i, cluster = index[q], nearest[q]
        upper_bounds[i] = new_upper[q] - drifts[cluster]
        lower_bounds[i] = new_lower[q] + single_max_drift
        moved[count] = q
        count += cluster != labels[i]
    return count


@_kernel()
def _assign(
    points: Points,
    clusters: Clusters,
    run: Run,
    labels: Dense,
    index: Dense,
    block: int,
    max_drift: float,
    rounding_error: float,
) -> int:
    """Assign the points of ``index``, update the sums of their clusters, and return how many points changed cluster."""
    m = len(index)
    values = _products(points, run, index, block)
    _find_two_smallest(values, run.single_centre_squares, run.new_upper, run.new_lower, run.nearest)
    norms, point_norms = points.norms, run.point_norms
    for q in range(m):
        point_norms[q] = norms[index[q]]
    radius = 0.0
    for square in clusters.centre_squares:
        radius = max(radius, square)
    radius = math.sqrt(radius)
    gamma, error_floor = _gamma(points.terms, _U32), 4 * rounding_error + 2.0**-120 * points.terms
    if _set_bounds(m, run.new_upper, run.new_lower, point_norms, radius, gamma, error_floor):
        for q in range(m):
            if run.new_lower[q] < 0:
                error_bound = 2.01 * (gamma * (point_norms[q] + radius) ** 2 + error_floor)
                run.nearest[q], distance = _nearest_exactly(points, clusters, _index(index[q]), q, values, error_bound)
                run.new_upper[q], run.new_lower[q] = math.sqrt(distance + 4 * rounding_error), 0
    moves = _store_bounds(
        index,
        run.new_upper,
        run.new_lower,
        run.nearest,
        run.upper_bounds,
        run.lower_bounds,
        labels,
        run.single_drifts,
        max_drift,
        run.moving,
    )
    _move(points, clusters, labels, index, run.nearest, run.moving[:moves])
    return moves


@_kernel("contract")
def _add_dense(X: Any, i: int, sign: float, sums: Dense, c: int) -> None:
    for j in range(sums.shape[1]):
        sums[c, j] += sign * _entry(X, i, j)


@_kernel("contract")
def _add_csr(data: Dense, indices: Dense, indptr: Dense, i: int, sign: float, sums: Dense, c: int) -> None:
    for p in range(indptr[i], indptr[i + 1]):
        sums[c, indices[p]] += sign * data[p]


@_kernel()
def _move(points: Points, clusters: Clusters, labels: Dense, index: Dense, nearest: Dense, moved: Dense) -> None:
    """Move points ``index[moved]`` from the sums of their clusters, if they had one, to clusters ``nearest[moved]``."""
    X, data, indices, indptr = points.X, points.data, points.indices, points.indptr
    sums, sizes, changed = clusters.sums, clusters.sizes, clusters.changed
    dense = len(X) > 0
    for q in moved:
        i, target = _index(index[q]), _index(nearest[q])
        source = _index(labels[i])
        if source < len(sizes):
            if dense:
                _add_dense(X, i, -1.0, sums, source)
            else:
                _add_csr(data, indices, indptr, i, -1.0, sums, source)
            sizes[source] -= 1
            changed[source] = True
        if dense:
            _add_dense(X, i, 1.0, sums, target)
        else:
            _add_csr(data, indices, indptr, i, 1.0, sums, target)
        sizes[target] += 1
        changed[target] = True
        labels[i] = target


@_kernel()
def _recentre(clusters: Clusters, c: int) -> float:
    """Move centre c to the mean of its points, if it has any, and return the distance moved."""
    count, centres, sums = clusters.sizes[c], clusters.centres, clusters.sums
    r = centres.shape[1]
    if count == 0:
        return 0.0
    distance, square = 0.0, 0.0
    for j in range(r):
        value = sums[c, j] / count
        step = value - centres[c, j]
        distance += step * step
        square += value * value
        centres[c, j] = value
    clusters.centre_squares[c] = square
    distance = math.sqrt(distance) * (1 + 4 * _gamma(r, _U64))
    clusters.drifts[c] += distance
    return distance


@_kernel()
def _inertia(points: Points, clusters: Clusters, labels: Dense, distances: Dense) -> float:
    """Write the squared distances of the points to their centres, and return the sum."""
    X, data, indices, indptr, squares = points.X, points.data, points.indices, points.indptr, points.squares
    centres, centre_squares = clusters.centres, clusters.centre_squares
    total, dense = 0.0, len(X) > 0
    for i in range(len(labels)):
        cluster = _index(labels[i])
        if dense:
            s = _dense_distance(X, i, centres, cluster)
        else:
            s = _csr_distance(data, indices, indptr, squares[i], i, centres, cluster, centre_squares[cluster])
        distances[i] = s
        total += s
    return total


@_inlined
def _reset(points: Points, clusters: Clusters, run: Run, rows: Dense, labels: Dense) -> float:
    """Set centres, sums and bounds to their state before the first iteration, and return the largest norm."""
    centres, sums, norms = clusters.centres, clusters.sums, points.norms
    upper, lower = run.upper_bounds, run.lower_bounds
    k, r = centres.shape
    largest_norm = np.float32(0)
    for i in range(len(labels)):
        labels[i], upper[i], lower[i] = k, np.inf, -np.inf
        largest_norm = max(largest_norm, norms[i])
    for c in range(k):
        clusters.sizes[c], clusters.drifts[c] = 0, 0.0
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
        clusters.centre_squares[c] = square
    return float(largest_norm) * (1 + 2 * _U32)


@_inlined
def _fill_empty(points: Points, clusters: Clusters, run: Run, labels: Dense) -> float:
    """Refill each empty cluster as MATLAB's EmptyAction 'singleton' does; return how far centres moved."""
    drift = 0.0
    for empty in range(len(clusters.sizes)):
        if clusters.sizes[empty] > 0:
            continue
        _inertia(points, clusters, labels, run.distances)
        farthest, largest_distance = 0, -1.0
        for i in range(len(labels)):
            if run.distances[i] > largest_distance and clusters.sizes[labels[i]] > 1:
                farthest, largest_distance = i, run.distances[i]
        source = _index(labels[farthest])
        run.queue[0], run.nearest[0], run.moving[0] = farthest, empty, 0
        _move(points, clusters, labels, run.queue, run.nearest, run.moving[:1])
        run.upper_bounds[farthest] = np.inf  # its bounds belong to the cluster that it left
        drift += _recentre(clusters, empty) + _recentre(clusters, source)
    return drift


@_inlined
def _run_start(  # noqa: PLR0912, PLR0915  one compiled loop, so that an iteration of a small fit costs microseconds
    points: Points, clusters: Clusters, run: Run, rows: Dense, max_iter: int, empty_action: int, labels: Dense
) -> tuple[float, int, bool]:
    """Run Lloyd from given rows, write the labels, and return inertia, iterations and whether it converged.

    With the empty action "error", a start that loses a cluster ends with infinite inertia.
    """
    n, k, r, m = len(labels), len(rows), points.panels.shape[1], points.panels.shape[2]
    largest_norm = _reset(points, clusters, run, rows, labels)
    # Rounding changes s by at most ``rounding_error``, and no distance is larger than ``max_distance``.
    rounding_error, max_distance = _gamma(r + points.terms, _U64) * 4 * largest_norm * largest_norm, 2.01 * largest_norm
    by_gram = len(points.gram) > 0
    additions = 0
    # A block is multiplied whole when more than a third of its points are unsettled: gathering costs as much again.
    # A half or a quarter made 0-5 % of difference (n = 500,000; r, k = 5, 5 and 20, 20; n = 50,000; 100, 68).
    gather_limit = m // 3 if len(points.panels) else m
    max_drift = 0.0  # sum over the iterations of the largest distance that a centre moved
    refilled_inertia = np.inf
    no_block = min(n, 0) - 1  # a literal −1 would have the kernels compiled twice
    converged = False
    iteration = 0
    while not converged and iteration < max_iter:
        iteration += 1
        for c in range(k):
            clusters.changed[c] = False
            dropped = iteration > 1 and clusters.sizes[c] == 0
            run.single_drifts[c] = clusters.drifts[c]
            run.single_centre_squares[c] = np.inf if dropped else clusters.centre_squares[c]
            for j in range(0 if by_gram else r):
                run.single_centres[j, c] = -2 * clusters.centres[c, j]
        if by_gram:
            # A product has an error of γ‖x‖‖y‖, their mean as much again. Each addition so far may have changed the
            # centre's sum by u of its length, which is n‖x‖ at most.
            _multiply_by_gram(points.gram, clusters.sizes, rows, labels, run.inner_products)
            error_bound = (
                rounding_error + 2 * (_gamma(r + n, _U64) + 2 * _U64 * n * additions) * largest_norm * largest_norm
            )
        else:
            error_bound = rounding_error
        # The last term covers the float32 rounding of bounds that were stored and aged.
        aged_drift = max_drift + 2.0**-20 * (max_drift + max_distance)
        moves = queued = 0
        for lo in range(0, n, m):
            hi = min(lo + m, n)
            upper_bounds, lower_bounds, block_labels = run.upper_bounds[lo:hi], run.lower_bounds[lo:hi], labels[lo:hi]
            unsettled = _count_unsettled(upper_bounds, lower_bounds, run.single_drifts, block_labels, aged_drift)
            if unsettled > gather_limit:
                for q in range(hi - lo):
                    run.block_points[q] = lo + q
                moves += _assign(
                    points, clusters, run, labels, run.block_points[: hi - lo], lo // m, max_drift, error_bound
                )
            elif unsettled:
                queued += _list_unsettled(
                    upper_bounds, lower_bounds, run.single_drifts, block_labels, aged_drift, lo, run.queue[queued:]
                )
            while queued >= m or (queued and hi == n):
                count = min(queued, m)
                moves += _assign(points, clusters, run, labels, run.queue[:count], no_block, max_drift, error_bound)
                queued -= count
                for q in range(queued):
                    run.queue[q] = run.queue[count + q]
        additions += moves
        drift, smallest_size = 0.0, n
        for c in range(k):
            smallest_size = min(smallest_size, clusters.sizes[c])
            if clusters.changed[c]:
                drift = max(drift, _recentre(clusters, c))
        converged = moves == 0
        if not converged and smallest_size == 0 and empty_action == _ERROR:
            return np.inf, iteration, False
        if not converged and smallest_size == 0 and empty_action == _SINGLETON:
            drift += _fill_empty(points, clusters, run, labels)
            additions += k
            previous_inertia, refilled_inertia = refilled_inertia, _inertia(points, clusters, labels, run.distances)
            converged = refilled_inertia >= previous_inertia
        max_drift += drift
    return _inertia(points, clusters, labels, run.distances), iteration, converged


@_inlined
def _move_singly(
    points: Points, clusters: Clusters, run: Run, labels: Dense, max_passes: int
) -> tuple[float, int, bool]:
    """Move single points where that lowers the inertia; return it, the last pass with a move, and whether it converged.

    Moving x from a cluster of m points and centre a to one of m' points and centre b changes the inertia by m'/(m' +
    1)·s(x, b) − m/(m − 1)·s(x, a). A point moves where this is least, if it is below zero by more than rounding error.
    The phase has converged when every point has been checked since the last move. At least one pass is counted.
    """
    X, data, indices, indptr, squares = points.X, points.data, points.indices, points.indptr, points.squares
    centres, centre_squares, sizes = clusters.centres, clusters.centre_squares, clusters.sizes
    n, dense = len(labels), len(X) > 0
    largest_norm = 0.0
    for norm in points.norms:
        largest_norm = max(largest_norm, norm)
    rounding_error = 16 * _gamma(centres.shape[1] + points.terms, _U64) * largest_norm * largest_norm
    i = unmoved = passes = 0
    last_moving_pass = 1  # the last pass that moved a point
    while unmoved < n:
        passes += i == 0
        source = _index(labels[i])
        target, smallest_cost, saving = source, np.inf, 0.0
        for c in range(len(sizes)):
            size = sizes[c]
            if size == 0:
                continue
            if dense:
                s = _dense_distance(X, i, centres, c)
            else:
                s = _csr_distance(data, indices, indptr, squares[i], i, centres, c, centre_squares[c])
            if c == source:
                saving = s * size / (size - 1) if size > 1 else 0.0
            elif s * size / (size + 1) < smallest_cost:
                target, smallest_cost = c, s * size / (size + 1)
        if smallest_cost + rounding_error < saving:
            if passes > max_passes:
                return _inertia(points, clusters, labels, run.distances), max_passes, False
            run.queue[0], run.nearest[0], run.moving[0] = i, target, 0
            _move(points, clusters, labels, run.queue, run.nearest, run.moving[:1])
            _recentre(clusters, source)
            _recentre(clusters, target)
            unmoved, last_moving_pass = 0, passes
        else:
            unmoved += 1
        i = (i + 1) % n
    return _inertia(points, clusters, labels, run.distances), last_moving_pass, True


@numba.njit(cache=True, nogil=True)
def run_starts(
    points: Points,
    clusters: Clusters,
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
    """Run Lloyd from each of several starts, as `kmdr.clustering.kmeans` describes it.

    One call runs them all, because unpacking its arrays takes as long as a few iterations of a small fit.

    Parameters
    ----------
    points : Points
    clusters, run : Clusters, Run
        From `workspace`.
    rows : (starts, k) ndarray of int64
        Rows at which the centres begin.
    max_iter : int
    online : bool
        Whether single points are moved after Lloyd.
    empty_action : int
        Index into `EMPTY_ACTIONS`.
    labels : (starts, n) ndarray of int32
        Output: the partitions.
    inertia, iterations, converged : (starts,) ndarray of float64, int64, bool
        Output: the rest of the result.
    """
    for j in range(len(rows)):
        inertia[j], iterations[j], converged[j] = _run_start(
            points, clusters, run, rows[j], max_iter, empty_action, labels[j]
        )
        if online and converged[j]:
            lloyd_iterations = iterations[j] - 1  # without the one that found nothing to change
            inertia[j], passes, converged[j] = _move_singly(
                points, clusters, run, labels[j], max_iter - lloyd_iterations
            )
            iterations[j] = lloyd_iterations + passes
