"""One start of Lloyd's algorithm, compiled: exact assignments, most of which are proved instead of computed.

Write s(x, c) for the squared distance as float64 computes it, entry by entry for dense data and as ‖x‖² + ‖c‖² − 2c·x
for CSR. Every assignment is argmin_c s(x, c), ties to the lowest index, as if all n·k values had been computed. Two
certificates save most of them.

* *Bounds.* Each point keeps an upper bound of the distance to its own centre and a lower bound of that to the nearest
  other one (Hamerly 2010). Both are stored together with how far the centres had travelled by then, so that they age
  without being touched, and a point whose bounds are apart is not looked at.
* *Single precision.* The remaining points are compared with all centres by one float32 product. Its error is at most
  γ(‖x‖ + ‖c‖)², γ = mu/(1 − mu), u = 2⁻²⁴, m = the number of terms and a few more (Higham 2002, §3.1, any order of
  summation). A point whose two best values are further apart than twice that is decided; others are decided by s.

A lower bound for every centre (Elkan 2003) did not pay: on PIE (2856 points, 68 clusters) it took 1.8 times as long at
r = 10 and was 10 % faster at r = 100, because one distance of one pair costs as much as ten pairs of a product.
"""

import math
from typing import Any

import numba
import numpy as np
from numba.extending import overload

from kmdr.linalg.matrix import Dense

# Points screened at once: their products with up to 100 centres stay in a second-level cache.
_BLOCK = 512
_U32 = 2.0**-24
_U64 = 2.0**-53


def _add(points: Any, i: int, sign: float, row: Dense) -> None:
    """Add ± point i to a row. These four are compiled for dense points and for CSR ones, as ``points`` tells."""


def _squared_distance(points: Any, i: int, centre: Dense, square: float) -> float:
    """Return s(x_i, c), with square = ‖c‖²."""
    raise NotImplementedError


def _screen(points: Any, index: Dense, centres: Dense, work: Dense, products: Dense) -> None:
    """Write c·x in float32 into products (k×m) for the m points of an ascending index."""


def _single(points: Any, centres: Dense) -> Any:
    """Return −2 × centres in float32, in the layout that `_screen` reads."""


def _is_dense(points: Any) -> bool:
    return bool(points[0].ndim == 2)


@overload(_add, jit_options={"fastmath": {"contract"}})
def _add_overload(points: Any, i: Any, sign: Any, row: Any) -> Any:  # noqa: ARG001
    if _is_dense(points):

        def dense(points: Any, i: Any, sign: Any, row: Any) -> Any:
            x = points[0][i]
            for j in range(len(row)):
                row[j] += sign * x[j]

        return dense

    def csr(points: Any, i: Any, sign: Any, row: Any) -> Any:
        data, indices, indptr, _ = points
        for p in range(indptr[i], indptr[i + 1]):
            row[indices[p]] += sign * data[p]

    return csr


@overload(_squared_distance, jit_options={"fastmath": {"contract", "reassoc"}})
def _squared_distance_overload(points: Any, i: Any, centre: Any, square: Any) -> Any:  # noqa: ARG001
    if _is_dense(points):

        def dense(points: Any, i: Any, centre: Any, square: Any) -> Any:  # noqa: ARG001
            x = points[0][i]
            s = 0.0
            for j in range(len(centre)):
                e = x[j] - centre[j]
                s += e * e
            return s

        return dense

    def csr(points: Any, i: Any, centre: Any, square: Any) -> Any:
        data, indices, indptr, squares = points
        product = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            product += data[p] * centre[indices[p]]
        return max(squares[i] + (square - 2 * product), 0.0)

    return csr


@overload(_screen, jit_options={"fastmath": {"contract", "reassoc"}})
def _screen_overload(points: Any, index: Any, centres: Any, work: Any, products: Any) -> Any:  # noqa: ARG001
    if _is_dense(points):

        def dense(points: Any, index: Any, centres: Any, work: Any, products: Any) -> Any:
            C = points[1]
            m, r = len(index), C.shape[1]
            first = index[0]
            if index[m - 1] - first == m - 1:
                np.dot(centres, C.reshape(-1)[first * r : (first + m) * r].reshape(m, r).T, products)
            else:
                rows = work[: m * r].reshape(m, r)
                for q in range(m):
                    i = index[q]
                    for j in range(r):  # a slice assignment costs 20 ns a row
                        rows[q, j] = C[i, j]
                np.dot(centres, rows.T, products)

        return dense

    def csr(points: Any, index: Any, centres: Any, work: Any, products: Any) -> Any:
        data, indices, indptr, _ = points
        k = len(products)
        sums = work[:k]
        for q in range(len(index)):
            i = index[q]
            sums[:] = 0
            for p in range(indptr[i], indptr[i + 1]):
                value, row = np.float32(data[p]), centres[indices[p]]
                for c in range(k):
                    sums[c] += value * row[c]
            for c in range(k):
                products[c, q] = sums[c]

    return csr


@overload(_single)
def _single_overload(points: Any, centres: Any) -> Any:  # noqa: ARG001
    if _is_dense(points):

        def dense(points: Any, centres: Any) -> Any:  # noqa: ARG001
            return (-2 * centres).astype(np.float32)

        return dense

    def csr(points: Any, centres: Any) -> Any:  # noqa: ARG001
        k, r = centres.shape
        turned = np.empty((r, k), np.float32)
        for lo in range(0, r, 64):
            for c in range(k):
                for j in range(lo, min(lo + 64, r)):
                    turned[j, c] = -2 * centres[c, j]
        return turned

    return csr


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _two_smallest(products: Dense, squares: Dense, best: Dense, second: Dense, near: Dense) -> None:
    """Add squares[c] to row c, and find the two smallest of each column; points run in the inner loop."""
    k, m = products.shape
    for q in range(m):
        products[0, q] += squares[0]
        best[q], second[q], near[q] = products[0, q], np.float32(np.inf), np.int32(0)
    for c in range(1, k):
        for q in range(m):
            value = products[c, q] + squares[c]
            products[c, q] = value
            closer = value < best[q]
            other = best[q] if closer else value
            second[q] = other if other < second[q] else second[q]
            best[q] = value if closer else best[q]
            near[q] = np.int32(c) if closer else near[q]


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _roots(best: Dense, second: Dense, norms: Dense, radius: float, gamma: float, error: float, sure: Dense) -> None:
    """Turn the two smallest values into bounds of distances; whether they are far enough apart goes to sure."""
    zero, doubt_floor = np.float32(0), np.float32(error)
    widest, rate = np.float32(radius), np.float32(gamma)
    for q in range(len(sure)):
        size = norms[q] + widest
        doubt = rate * size * size + doubt_floor
        square = norms[q] * norms[q]
        sure[q] = second[q] - best[q] > doubt + doubt
        best[q] = np.sqrt(max(square + best[q], zero) + doubt)
        second[q] = np.sqrt(max(square + second[q] - doubt, zero))


@numba.njit(cache=True, nogil=True)
def _gamma(terms: int, unit: float) -> float:
    mu = (terms + 16) * unit
    return mu / (1 - mu) if mu < 0.5 else np.inf


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _fresh_sums(points: Any, labels: Dense, sums: Dense, counts: Dense) -> None:
    sums[:], counts[:] = 0.0, 0
    for i in range(len(labels)):
        counts[labels[i]] += 1
        _add(points, i, 1.0, sums[labels[i]])


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _move(points: Any, moved: Dense, target: Dense, labels: Dense, sums: Dense, counts: Dense, changed: Dense) -> None:
    """Move some points from the sums of their clusters to those of their targets."""
    for q in range(len(moved)):
        i = moved[q]
        source, goal = labels[i], target[i]
        _add(points, i, -1.0, sums[source])
        _add(points, i, 1.0, sums[goal])
        counts[source] -= 1
        counts[goal] += 1
        changed[source] = changed[goal] = True
        labels[i] = goal


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _inertia(points: Any, labels: Dense, k: int, r: int) -> float:
    """Squared distances of the points to the means of their clusters, from fresh sums."""
    means, counts = np.empty((k, r)), np.empty(k, np.int64)
    _fresh_sums(points, labels, means, counts)
    squares = np.empty(k)
    for c in range(k):
        means[c] /= max(counts[c], 1)
        squares[c] = (means[c] * means[c]).sum()
    total = 0.0
    for i in range(len(labels)):
        total += _squared_distance(points, i, means[labels[i]], squares[labels[i]])
    return total


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _fill_empty(points: Any, labels: Dense, sums: Dense, counts: Dense, taken: Dense) -> int:
    """Give each empty cluster a point of its own, as MATLAB's EmptyAction 'singleton'; return how many were taken."""
    k, r = sums.shape
    found = 0
    means, squares = np.empty((k, r)), np.empty(k)
    for empty in range(k):
        if counts[empty] > 0:
            continue
        for c in range(k):
            means[c] = sums[c] / max(counts[c], 1)
            squares[c] = (means[c] * means[c]).sum()
        farthest, most = 0, -np.inf
        for i in range(len(labels)):
            a = labels[i]
            distance = _squared_distance(points, i, means[a], squares[a]) if counts[a] > 1 else -1.0
            if distance > most:
                farthest, most = i, distance
        source = labels[farthest]
        _add(points, farthest, -1.0, sums[source])
        _add(points, farthest, 1.0, sums[empty])
        counts[source] -= 1
        counts[empty] += 1
        labels[farthest] = empty
        taken[found] = farthest
        found += 1
    return found


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def start(  # noqa: PLR0912, PLR0915  one compiled loop, so that an iteration of a small fit costs microseconds
    points: Any, norms: Dense, r: int, terms: int, rows: Dense, max_iter: int, labels: Dense
) -> Any:
    """Run Lloyd from given rows; `kmdr.kmeans` says what that means.

    Parameters
    ----------
    points : tuple
        Dense: C (n×r) in float64, the same in float32. CSR: data in float64, indices, indptr, ‖x‖².
        No entry is larger than 1 in magnitude.
    norms : (n,) ndarray
        ‖x‖.
    r : int
    terms : int
        Stored entries of a row at the most.
    rows : (k,) int array
        Where the centres begin.
    max_iter : int
    labels : (n,) ndarray of int32
        Where the result goes.

    Returns
    -------
    inertia : float
    iterations : int
    converged : bool
    """
    n, k = len(norms), len(rows)
    centres, sums, counts = np.zeros((k, r)), np.zeros((k, r)), np.zeros(k, np.int64)
    squares = np.empty(k)
    for c in range(k):
        _add(points, rows[c], 1.0, centres[c])
        squares[c] = (centres[c] * centres[c]).sum()
    labels[:] = -1
    largest = norms.max()
    # No computed s is further than ``error`` from the truth, and no distance larger than ``reach``.
    error = _gamma(r + terms, _U64) * 4 * largest * largest
    reach = 2.01 * largest
    single_gamma = _gamma(terms, _U32)
    # How far each centre, and the one that moved most in each iteration, has travelled; the same in float32.
    travelled, longest = np.zeros(k), 0.0
    path = np.zeros(k, np.float32)
    # Bounds: ``own`` is (upper − travelled), ``other`` (lower + longest).
    own, other = np.full(n, np.float32(np.inf)), np.full(n, np.float32(-np.inf))
    pending, moved, target = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int32)
    changed = np.empty(k, np.bool_)
    block = min(n, _BLOCK)
    work = np.empty(block * max(min(r, terms), k), np.float32)
    values, single_squares = np.empty(block * k, np.float32), np.empty(k, np.float32)
    best, second, near = np.empty(block, np.float32), np.empty(block, np.float32), np.empty(block, np.int32)
    sizes, sure = np.empty(block, np.float32), np.empty(block, np.bool_)
    refilled = np.inf
    converged = False
    iteration = 0
    while not converged and iteration < max_iter:
        iteration += 1
        moves = 0
        # What float32 may have done to bounds that were stored and aged.
        slack = 2.0**-20 * (longest + reach)
        path[:], far = travelled, np.float32(longest)
        # 1. Whose bounds do not settle it.
        waiting = 0
        if iteration == 1:
            for i in range(n):
                pending[i] = i
            waiting = n
        else:
            gone = far + np.float32(slack)
            for i in range(n):
                pending[waiting] = i  # without a branch: at any share of waiting points
                waiting += own[i] + path[labels[i]] >= other[i] - gone
        # 2. Those against all centres in float32.
        if waiting:
            single = _single(points, centres)
            single_squares[:] = squares
            radius = math.sqrt(squares.max())
        for lo in range(0, waiting, block):
            index = pending[lo : min(lo + block, waiting)]
            m = len(index)
            products = values[: k * m].reshape(k, m)
            _screen(points, index, single, work, products)
            _two_smallest(products, single_squares, best[:m], second[:m], near[:m])
            for q in range(m):
                sizes[q] = norms[index[q]]
            _roots(best, second, sizes, radius, single_gamma, 4 * error + 2.0**-120 * terms, sure[:m])
            for q in range(m):
                i = index[q]
                a = near[q]
                if not sure[q]:
                    size = norms[i] + radius
                    limit, least = np.inf, np.inf
                    for c in range(k):
                        limit = min(limit, products[c, q])
                    limit += 2.01 * (single_gamma * size * size + 4 * error + 2.0**-120 * terms)
                    for c in range(k):
                        if products[c, q] <= limit:
                            s = _squared_distance(points, i, centres[c], squares[c])
                            if s < least:
                                a, least = c, s
                    best[q], second[q] = math.sqrt(least + 4 * error), 0
                own[i] = best[q] - path[a]
                other[i] = second[q] + far
                target[i] = a
                moved[moves] = i
                moves += a != labels[i]
        # Sums follow the points that moved. When many did, summing afresh costs no more and sheds rounding.
        converged = moves == 0
        changed[:] = 4 * moves > n
        if 4 * moves > n:
            for q in range(moves):
                labels[moved[q]] = target[moved[q]]
            _fresh_sums(points, labels, sums, counts)
        else:
            _move(points, moved[:moves], target, labels, sums, counts, changed)
        if not converged and counts.min() == 0:
            found = _fill_empty(points, labels, sums, counts, moved)
            for q in range(found):
                own[moved[q]] = np.inf  # its bounds were those of another cluster
            changed[:] = True
            before, refilled = refilled, _inertia(points, labels, k, r)
            converged = refilled >= before
        # The next centres.
        step = 0.0
        for c in range(k):
            if changed[c]:
                distance, square = 0.0, 0.0
                for j in range(r):
                    value = sums[c, j] / max(counts[c], 1)
                    e = value - centres[c, j]
                    distance += e * e
                    square += value * value
                    centres[c, j] = value
                squares[c] = square
                distance = math.sqrt(distance) * (1 + 4 * _gamma(r, _U64))
                travelled[c] += distance
                step = max(step, distance)
        longest += step
    return _inertia(points, labels, k, r), iteration, converged
