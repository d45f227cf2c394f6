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
def _sort(labels: Dense, place: Dense, order: Dense) -> None:
    """Write the rows ordered by cluster; the first row of cluster c goes to ``place[c]``, which is counted up."""
    for i in range(len(labels)):
        order[place[labels[i]]] = i
        place[labels[i]] += 1


def _grouped(labels: Dense, k: int) -> tuple[Dense, Dense]:
    """Return the rows ordered by cluster, and where each cluster begins in that order, with the last end."""
    order, ends = np.empty(len(labels), np.int64), np.zeros(k + 1, np.int64)
    np.cumsum(np.bincount(labels, minlength=k), out=ends[1:])
    _sort(np.array(labels), ends[:-1].copy(), order)  # a copy, so that it is always of one type
    return order, ends


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _cluster_residuals(A: Dense, rows: Dense, lo: int, w: int, mean: Dense, parts: Dense, shift: Dense) -> None:
    """Write Σ(a_ij − μ_j)² over the rows of a cluster to ``parts`` for w columns of A from ``lo`` on."""
    m = len(rows)
    even = m - m % 4
    for j in range(w):
        mean[j] = parts[j] = shift[j] = 0.0
    for q in range(0, even, 4):
        e, f, g, h = A[rows[q]], A[rows[q + 1]], A[rows[q + 2]], A[rows[q + 3]]
        for j in range(w):
            column = np.uint64(lo + j)  # vector instructions need an index that cannot count from the end
            x, y = np.float64(e[column]) + f[column], np.float64(g[column]) + h[column]
            mean[j] += x + y
    for q in range(even, m):
        e = A[rows[q]]
        for j in range(w):
            mean[j] += e[np.uint64(lo + j)]
    for j in range(w):
        mean[j] /= m
    # One term per feature, so that the sum over points runs in vector registers and rounds less.
    for q in range(0, even, 4):
        e, f, g, h = A[rows[q]], A[rows[q + 1]], A[rows[q + 2]], A[rows[q + 3]]
        for j in range(w):
            column = np.uint64(lo + j)
            x, y = e[column] - mean[j], f[column] - mean[j]
            z, t = g[column] - mean[j], h[column] - mean[j]
            parts[j] += (x * x + y * y) + (z * z + t * t)
            shift[j] += (x + y) + (z + t)
    for q in range(even, m):
        e = A[rows[q]]
        for j in range(w):
            x = e[np.uint64(lo + j)] - mean[j]
            parts[j] += x * x
            shift[j] += x
    for j in range(w):
        parts[j] = max(parts[j] - shift[j] * shift[j] / m, 0.0)  # corrected for the rounding of the mean


@numba.njit(cache=True, nogil=True)
def _add_residuals(
    A: Dense, lo: int, d: int, order: Dense, ends: Dense, widths: Dense, strips: Dense, buffers: Dense, sums: Dense
) -> None:
    """Add the residuals of ``d`` columns to the sums of the strips that they lie in; column 0 of A is number ``lo``."""
    mean, parts, shift = buffers[0], buffers[1], buffers[2]
    for p in range(len(order)):
        for c in range(widths.shape[1]):
            rows, width = order[p, ends[p, c] : ends[p, c + 1]], widths[p, c]
            for first in range(0, d if len(rows) else 0, width):
                w = min(width, d - first)
                _cluster_residuals(A, rows, first, w, mean, parts, shift)
                strip, place = strips[p, c] + (lo + first) // width, (lo + first) % width
                for j in range(w):
                    if place == width:
                        strip, place = strip + 1, 0
                    sums[p, strip] += parts[j]
                    place += 1


def _residuals(A: Dense, labels: Dense, k: int) -> Dense:
    """Return Σ‖a_i − μ‖² of each partition, summed by cluster and by strip of columns.

    One partition reads A once, with the mean and its error in cache. Several read blocks of columns in cache; twenty of
    them take about 0.65 of the time of single calls (1797×64 to 2000×10000). The results are equal to the last bit.

    Parameters
    ----------
    labels : (partitions, n) ndarray of int64
    """
    (n, d), count = A.shape, len(labels)
    order, ends = map(np.array, zip(*(_grouped(partition, k) for partition in labels), strict=True))
    sizes = np.diff(ends)
    widths = np.minimum(d, np.maximum(_WIDTH, _CACHE // (8 * np.maximum(sizes, 1))))
    counts = np.where(sizes, -(-d // widths), 0)
    strips = np.cumsum(counts, axis=1) - counts  # where the strips of each cluster begin among the sums of a partition
    sums = np.zeros((count, counts.sum(axis=1).max()))
    block = A if count == 1 else np.empty((n, min(d, _BLOCK)), A.dtype)
    fixed = block.view()
    fixed.flags.writeable = False  # as A is mapped: one type to compile for
    buffers = np.empty((3, block.shape[1]))
    for lo in range(0, d, block.shape[1]):
        w = min(block.shape[1], d - lo)
        if count > 1:
            block[:, :w] = A[:, lo : lo + w]
        _add_residuals(fixed, lo, w, order, ends, widths, strips, buffers, sums)
    return np.cumsum(sums, axis=1)[:, -1]  # one term after the other, however many there are


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _residual_csr(rows: tuple[Dense, Dense, Dense], d: int, order: Dense, ends: Dense) -> float:
    """Return the residual of canonical CSR, grouped; all unstored zeros of a feature contribute one term."""
    (data, indices, indptr), k = rows, len(ends) - 1
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
def _squared_sums(rows: tuple[Dense, Dense, Dense], d: int, order: Dense, ends: Dense, squares: Dense) -> Dense:
    """Write the nonzero squares of each cluster's sums, and return the position of each cluster's first.

    A cluster's features are in the order in which its rows have them. The loops have no branches: a sum that was
    squared is set to 0, so that the next square of its feature does not count.
    """
    (data, indices, indptr), k = rows, len(ends) - 1
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
    starts = _squared_sums((A.data, A.indices, A.indptr), A.shape[1], *_grouped(labels, k), squares)
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
    """Return the residual of an out-of-core matrix, which is read in the order of its rows."""
    counts = np.bincount(labels, minlength=k)[:, None]
    parts, shift = np.zeros_like(sums), np.zeros_like(sums)
    means = sums / np.maximum(counts, 1)
    add_deviations(A, labels, means, parts, shift)
    return float(np.maximum(parts - shift**2 / np.maximum(counts, 1), 0.0).sum())
