"""Residuals of partitions: compiled sums over the clusters of dense and sparse matrices."""

from collections.abc import Iterator

import numba
import numpy as np
import scipy.sparse as sp

from kmdr.linalg import Dense, Matrix
from kmdr.linalg.matrix import add_deviations, is_out_of_core

_CACHE = 2**20

# Fewest columns that are summed at a time.
_WIDTH = 256

# Columns that are copied to serve several partitions; 64 and 128 take equally long.
_BLOCK = 128

# Largest number of entries of the cluster sums of an out-of-core matrix, over several partitions (128 MB).
_SUMS = 2**24

# Largest change of F by rounding: a millionth of it, or 10⁻²⁴ if the fit is perfect.
_TOLERANCE, _PERFECT = 1e-6, 1e-18


@numba.njit(cache=True, nogil=True)
def _grouped(labels: Dense, k: int) -> tuple[Dense, Dense]:
    """Return the rows ordered by cluster, and where each cluster begins in that order, with the last end."""
    n = len(labels)
    ends = np.zeros(k + 1, np.int64)
    for i in range(n):
        ends[labels[i] + 1] += 1
    ends = np.cumsum(ends)
    order, place = np.empty(n, np.int64), ends[:-1].copy()
    for i in range(n):
        order[place[labels[i]]] = i
        place[labels[i]] += 1
    return order, ends


@numba.njit(cache=True, nogil=True)
def _strip(m: int, d: int) -> int:
    """Return how many of d columns of a cluster of m rows are summed at a time."""
    return int(min(d, max(_WIDTH, _CACHE // (8 * max(m, 1)))))


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _cluster_residuals(A: Dense, rows: Dense, lo: int, w: int, mean: Dense, parts: Dense, shift: Dense) -> None:
    """Write Σ(a_ij − μ_j)² over the rows of a cluster to ``parts`` for w columns of A from ``lo`` on."""
    m = len(rows)
    even = m - m % 4
    mean[:w], parts[:w], shift[:w] = 0.0, 0.0, 0.0
    for q in range(0, even, 4):
        e, f, g, h = A[rows[q]], A[rows[q + 1]], A[rows[q + 2]], A[rows[q + 3]]
        for j in range(w):
            x, y = np.float64(e[lo + j]) + f[lo + j], np.float64(g[lo + j]) + h[lo + j]
            mean[j] += x + y
    for q in range(even, m):
        e = A[rows[q]]
        for j in range(w):
            mean[j] += e[lo + j]
    for j in range(w):
        mean[j] /= m
    # One term per feature, so that the sum over points runs in vector registers and rounds less.
    for q in range(0, even, 4):
        e, f, g, h = A[rows[q]], A[rows[q + 1]], A[rows[q + 2]], A[rows[q + 3]]
        for j in range(w):
            x, y = e[lo + j] - mean[j], f[lo + j] - mean[j]
            z, t = g[lo + j] - mean[j], h[lo + j] - mean[j]
            parts[j] += (x * x + y * y) + (z * z + t * t)
            shift[j] += (x + y) + (z + t)
    for q in range(even, m):
        e = A[rows[q]]
        for j in range(w):
            x = e[lo + j] - mean[j]
            parts[j] += x * x
            shift[j] += x
    for j in range(w):
        parts[j] = max(parts[j] - shift[j] * shift[j] / m, 0.0)  # corrected for the rounding of the mean


@numba.njit(cache=True, nogil=True)
def _residual(A: Dense, labels: Dense, k: int) -> float:
    """Return Σ‖a_i − μ‖² by cluster and by strip of columns: A is read once, with the mean and its error in cache."""
    d = A.shape[1]
    order, ends = _grouped(labels, k)
    mean, parts, shift = np.empty(d), np.empty(d), np.empty(d)
    total = 0.0
    for c in range(k):
        rows = order[ends[c] : ends[c + 1]]
        width = _strip(len(rows), d)
        for lo in range(0, d if len(rows) else 0, width):
            w = min(width, d - lo)
            _cluster_residuals(A, rows, lo, w, mean, parts, shift)
            total += parts[:w].sum()
    return total


@numba.njit(cache=True, nogil=True)
def _residuals(A: Dense, labels: Dense, k: int) -> Dense:
    """Return `_residual` of several partitions, equal to the last bit, from one pass over blocks of columns in cache.

    Three partitions take about 0.7 of the time of single calls, and twenty 0.3 (400×4096 to 11000×256).
    """
    (n, d), count = A.shape, len(labels)
    order, ends = np.empty((count, n), np.int64), np.empty((count, k + 1), np.int64)
    strips = np.zeros((count, k + 1), np.int64)  # where the strips of each cluster begin among the sums of a partition
    for p in range(count):
        grouped, bounds = _grouped(labels[p], k)
        for i in range(n):  # assigning an array to a slice takes three seconds to compile
            order[p, i] = grouped[i]
        for c in range(k + 1):
            ends[p, c] = bounds[c]
        for c in range(k):
            m = ends[p, c + 1] - ends[p, c]
            strips[p, c + 1] = strips[p, c] + (-(-d // _strip(m, d)) if m else 0)
    sums = np.zeros((count, strips[:, k].max()))
    block = np.empty((n, min(d, _BLOCK)))
    mean, parts, shift = np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK)
    for lo in range(0, d, _BLOCK):
        w = min(_BLOCK, d - lo)
        for i in range(n):
            for j in range(w):
                block[i, j] = A[i, lo + j]
        for p in range(count):
            for c in range(k):
                rows = order[p, ends[p, c] : ends[p, c + 1]]
                if len(rows) == 0:
                    continue
                _cluster_residuals(block, rows, 0, w, mean, parts, shift)
                width = _strip(len(rows), d)
                for j in range(w):
                    sums[p, strips[p, c] + (lo + j) // width] += parts[j]
    totals = np.zeros(count)
    for p in range(count):
        totals[p] = sums[p].sum()
    return totals


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _residual_csr(rows: tuple[Dense, Dense, Dense], d: int, labels: Dense, k: int) -> float:
    """Return `_residual` for canonical CSR; all unstored zeros of a feature contribute one term."""
    data, indices, indptr = rows
    order, ends = _grouped(labels, k)
    stored, touched = np.zeros(d, np.int64), np.empty(d, np.int64)
    mean, parts, shift = np.zeros(d), np.empty(d), np.empty(d)
    total = 0.0
    for c in range(k):
        m, width = ends[c + 1] - ends[c], 0
        for i in order[ends[c] : ends[c + 1]]:
            for p in range(indptr[i], indptr[i + 1]):
                j = indices[p]
                if stored[j] == 0:
                    touched[width] = j
                    width += 1
                stored[j] += 1
                mean[j] += data[p]
        for j in touched[:width]:
            mean[j] /= m
            zeros = m - stored[j]
            parts[j], shift[j] = zeros * (mean[j] * mean[j]), -zeros * mean[j]
        for i in order[ends[c] : ends[c + 1]]:
            for p in range(indptr[i], indptr[i + 1]):
                j = indices[p]
                x = data[p] - mean[j]
                parts[j] += x * x
                shift[j] += x
        for j in touched[:width]:
            total += max(parts[j] - shift[j] * shift[j] / m, 0.0)
            stored[j], mean[j] = 0, 0.0
    return total


@numba.njit(cache=True, nogil=True)
def _squared_sums(rows: tuple[Dense, Dense, Dense], d: int, labels: Dense, k: int, squares: Dense) -> Dense:
    """Write the nonzero squares of each cluster's sums, and return the position of each cluster's first.

    A cluster's features are in the order in which its rows have them. The loops have no branches: a sum that was
    squared is set to 0, so that the next square of its feature does not count.
    """
    data, indices, indptr = rows
    order, ends = _grouped(labels, k)
    sums, starts, last = np.zeros(d), np.zeros(k + 1, np.int64), 0
    for c in range(k):
        rows_of_c = order[ends[c] : ends[c + 1]]
        for i in rows_of_c:
            for p in range(indptr[i], indptr[i + 1]):
                sums[np.uint64(indices[p])] += data[p]
        for i in rows_of_c:
            for p in range(indptr[i], indptr[i + 1]):
                j = np.uint64(indices[p])
                squares[last] = sums[j] * sums[j]
                last += squares[last] != 0
                sums[j] = 0.0
        starts[c + 1] = last
    return starts


def _within_csr(A: sp.csr_array, labels: Dense, k: int) -> Dense:
    """Return ‖s‖² of each of k clusters of canonical CSR, where s is the sum of its rows."""
    squares = np.empty(min(A.nnz, k * A.shape[1]) + 1)
    starts = _squared_sums((A.data, A.indices, A.indptr), A.shape[1], labels, k, squares)
    within, filled = np.zeros(k), np.flatnonzero(np.diff(starts))
    within[filled] = np.add.reduceat(squares[: starts[-1]], starts[filled]) if len(filled) else 0.0
    return within


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _add_rows(A: Dense, labels: Dense, sums: Dense) -> None:
    """Add each row to the sum of its cluster in each partition, in the order of the file."""
    for i in range(A.shape[0]):
        for p in range(len(labels)):
            s = sums[p, labels[p, i]]
            for j in range(A.shape[1]):
                s[j] += A[i, j]


def _fits_sums(A: Matrix, k: int) -> bool:
    """Return True if A is out-of-core and the sums of k clusters are small enough."""
    return is_out_of_core(A) and k * A.shape[1] <= _SUMS


def _sums_of_large(A: Dense, partitions: Dense, k: int) -> Iterator[Dense]:
    """Yield the cluster sums of each partition, (k, d), from a few passes over A in the order of its rows.

    The operating system then reads the file ahead; reading the rows cluster by cluster would cost one read per row, of
    more than the row.
    """
    together = max(1, _SUMS // (k * A.shape[1]))
    for first in range(0, len(partitions), together):
        labels = partitions[first : first + together]
        sums = np.zeros((len(labels), k, A.shape[1]))
        _add_rows(A, labels, sums)
        yield from sums


def _residual_of_large(A: Dense, labels: Dense, k: int, sums: Dense) -> float:
    """Return `_residual` of an out-of-core matrix, which is read in the order of its rows."""
    counts = np.bincount(labels, minlength=k)[:, None]
    parts, shift = np.zeros_like(sums), np.zeros_like(sums)
    means = sums / np.maximum(counts, 1)
    add_deviations(A, labels, means, parts, shift)
    return float(np.maximum(parts - shift**2 / np.maximum(counts, 1), 0.0).sum())
