"""What a partition of A is worth: F on the original matrix, and P, NMI, ARI against labels."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

import numba
import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment

from kmdr.base.errors import ArgumentError
from kmdr.base.plugins import PaperFolder, Registry, paper_folders
from kmdr.linalg import Dense, Matrix
from kmdr.linalg.matrix import (
    add_deviations,
    canonical_csr,
    is_large,
    normalised,
    scaled_back,
    squared_frobenius,
    squares_at_once,
)
from kmdr.linalg.tiles import TILE, add, add_square, load, scratch, store, subtract, zeros

# Bytes of a cluster's rows and some columns that stay in a second-level cache between the two passes over them.
_CACHE = 2**20
# Fewest columns that are summed at a time.
_WIDTH = 256
# Cells of a table of names that is counted directly; names further apart are numbered by sorting first.
_CELLS = 2**20
# Sums of clusters of a large matrix, those of several partitions together, that are held at a time (128 MB).
_SUMS = 2**24
# What rounding may change F by: a millionth of it, or 10⁻²⁴ where the fit is perfect.
_TOLERANCE, _PERFECT = 1e-6, 1e-18
# What rounding may change the residual of CSR by in the form that costs less.
_CANCELLED = 1e-8
# What rounding may take a measure out of its range.
_SLACK = 1e-9


@numba.njit(cache=True, nogil=True)
def _grouped(labels: Dense, k: int) -> tuple[Dense, Dense]:
    """Return the rows in the order of their clusters, and where each cluster begins in it, the last end included."""
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
def _residual(A: Dense, labels: Dense, k: int) -> float:
    """Σ‖a_i − μ‖², cluster by cluster and a strip of columns at a time: A is read once, its mean and error in cache."""
    d = A.shape[1]
    order, ends = _grouped(labels, k)
    mean, parts, shift = np.empty(d), np.empty(d), np.empty(d)
    total = 0.0
    for c in range(k):
        rows = order[ends[c] : ends[c + 1]]
        m = len(rows)
        width = _strip(m, d)
        for lo in range(0, d if m else 0, width):
            w = min(width, d - lo)
            mean[:w], parts[:w], shift[:w] = 0.0, 0.0, 0.0
            even = m - m % 4
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
            # A term for each feature, so that the sum over points runs in vector registers and rounds less.
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
                parts[j] = max(parts[j] - shift[j] * shift[j] / m, 0.0)  # the rounding of the mean, taken off
            total += parts[:w].sum()
    return total


@numba.njit(cache=True, nogil=True)
def _copy_columns(A: Dense, start: int, stop: int, columns: Dense) -> None:
    """Write columns start … stop to ``columns``, ``TILE`` numbers a row; beyond the last stand zeros."""
    for i in range(len(A)):
        row = columns[i * TILE : (i + 1) * TILE]
        for t in range(stop - start):
            row[t] = A[i, start + t]
        row[stop - start :] = 0


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _residuals(  # noqa: PLR0912  one compiled loop: a call for a cluster's few columns would cost as much as they do
    A: Dense, labels: Dense, k: int
) -> Dense:
    """Return `_residual` of several partitions to the last bit: few columns of A at a time serve them all, in cache.

    A mean and its errors stay in vector registers. One partition alone takes longer than by `_residual`, by what it
    costs to copy the columns; three take half the time, and twenty a fifth (400×4096 to 11000×256).
    """
    (n, d), count = A.shape, len(labels)
    order, ends = np.empty((count, n), np.int64), np.empty((count, k + 1), np.int64)
    strips = np.zeros((count, k + 1), np.int64)  # where those of each cluster begin among the sums of a partition
    for p in range(count):
        grouped, bounds = _grouped(labels[p], k)
        for i in range(n):  # to assign an array to a slice takes three seconds to compile
            order[p, i] = grouped[i]
        for c in range(k + 1):
            ends[p, c] = bounds[c]
        for c in range(k):
            m = ends[p, c + 1] - ends[p, c]
            strips[p, c + 1] = strips[p, c] + (-(-d // _strip(m, d)) if m else 0)
    sums = np.zeros((count, strips[:, k].max()))
    like = np.empty(0)
    columns, parts, shift = scratch(n, like), scratch(1, like), scratch(1, like)
    for lo in range(0, d, TILE):
        hi = min(lo + TILE, d)
        _copy_columns(A, lo, hi, columns)
        for p in range(count):
            rows = order[p]
            for c in range(k):
                first, last = ends[p, c], ends[p, c + 1]
                m = last - first
                if m == 0:
                    continue
                even = last - m % 4
                mean, squares, rest = zeros(like), zeros(like), zeros(like)
                for q in range(first, even, 4):
                    e, f = load(columns, rows[q] * TILE), load(columns, rows[q + 1] * TILE)
                    g, h = load(columns, rows[q + 2] * TILE), load(columns, rows[q + 3] * TILE)
                    mean = add(mean, add(add(e, f), add(g, h)))
                for q in range(even, last):
                    mean = add(mean, load(columns, rows[q] * TILE))
                store(parts, 0, mean)
                parts /= m
                mean = load(parts, 0)
                for q in range(first, even, 4):
                    x = subtract(load(columns, rows[q] * TILE), mean)
                    y = subtract(load(columns, rows[q + 1] * TILE), mean)
                    z = subtract(load(columns, rows[q + 2] * TILE), mean)
                    t = subtract(load(columns, rows[q + 3] * TILE), mean)
                    xy, zt = add_square(add_square(zeros(like), y), x), add_square(add_square(zeros(like), t), z)
                    squares = add(squares, add(xy, zt))
                    rest = add(rest, add(add(x, y), add(z, t)))
                for q in range(even, last):
                    x = subtract(load(columns, rows[q] * TILE), mean)
                    squares, rest = add_square(squares, x), add(rest, x)
                store(parts, 0, squares)
                store(shift, 0, rest)
                width, j = _strip(m, d), lo
                while j < hi:
                    stop = min(hi, (j // width + 1) * width)
                    total = sums[p, strips[p, c] + j // width]
                    for i in range(j - lo, stop - lo):
                        total += max(parts[i] - shift[i] * shift[i] / m, 0.0)
                    sums[p, strips[p, c] + j // width] = total
                    j = stop
    totals = np.zeros(count)
    for p in range(count):
        for s in range(strips[p, k]):
            totals[p] += sums[p, s]
    return totals


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _residual_csr(rows: tuple[Dense, Dense, Dense], d: int, labels: Dense, k: int) -> float:
    """Do the same for canonical CSR: the zeros of a feature, which are not stored, are one term."""
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
    """Write down the squares of each cluster's sums that are not 0, and return where each cluster's begin.

    A cluster's features are in the order in which its rows bring them up. Neither loop branches: a sum that has been
    squared is set to 0, so that the next square of its feature is not counted.
    """
    data, indices, indptr = rows
    order, ends = _grouped(labels, k)
    sums, starts, last = np.zeros(d), np.zeros(k + 1, np.int64), 0
    for c in range(k):
        own = order[ends[c] : ends[c + 1]]
        for i in own:
            for p in range(indptr[i], indptr[i + 1]):
                sums[np.uint64(indices[p])] += data[p]
        for i in own:
            for p in range(indptr[i], indptr[i + 1]):
                j = np.uint64(indices[p])
                squares[last] = sums[j] * sums[j]
                last += squares[last] != 0
                sums[j] = 0.0
        starts[c + 1] = last
    return starts


def _within_csr(A: sp.csr_array, labels: Dense, k: int) -> Dense:
    """Return ‖s‖² of each of k clusters of canonical CSR, s the sum of its rows."""
    squares = np.empty(min(A.nnz, k * A.shape[1]) + 1)
    starts = _squared_sums((A.data, A.indices, A.indptr), A.shape[1], labels, k, squares)
    within, filled = np.zeros(k), np.flatnonzero(np.diff(starts))
    within[filled] = np.add.reduceat(squares[: starts[-1]], starts[filled]) if len(filled) else 0.0
    return within


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _add_rows(A: Dense, labels: Dense, sums: Dense) -> None:
    """Add each row to the sum of its cluster in each partition, in the order in which a file has them."""
    for i in range(A.shape[0]):
        for p in range(len(labels)):
            s = sums[p, labels[p, i]]
            for j in range(A.shape[1]):
                s[j] += A[i, j]


def _by_sums(A: Matrix, k: int) -> bool:
    """Whether the sums of k clusters serve; those of very many would take as much memory as A."""
    return is_large(A) and k * A.shape[1] <= _SUMS


def _sums_of_large(A: Dense, partitions: Dense, k: int) -> Iterator[Dense]:
    """Yield the sums of the clusters of each partition, (k, d), from few reads of A, from its first row to its last.

    So a file that is not in memory is read ahead. Where the rows of a cluster are fetched one after the other, each of
    them costs a read of its own, of more than the row.
    """
    together = max(1, _SUMS // (k * A.shape[1]))
    for first in range(0, len(partitions), together):
        labels = partitions[first : first + together]
        sums = np.zeros((len(labels), k, A.shape[1]))
        _add_rows(A, labels, sums)
        yield from sums


def _residual_of_large(A: Dense, labels: Dense, k: int, sums: Dense) -> float:
    """Return what `_residual` does, by a read of A from its first row to its last."""
    counts = np.bincount(labels, minlength=k)[:, None]
    parts, shift = np.zeros_like(sums), np.zeros_like(sums)
    means = sums / np.maximum(counts, 1)
    add_deviations(A, labels, means, parts, shift)
    return float(np.maximum(parts - shift**2 / np.maximum(counts, 1), 0.0).sum())


def _gamma(terms: int) -> float:
    """mu/(1 − mu), u = 2⁻⁵³: what a sum of m terms errs by, relative to the sum of their magnitudes, in any order."""
    mu = terms * 2.0**-53
    return mu / (1 - mu) if mu < 0.5 else math.inf


class Residual(NamedTuple):
    """‖A − XXᵀA‖²_F of a partition as it was computed, and a bound of its error."""

    value: float
    error: float


def _from_within(R: float, terms: int, total: float) -> Residual | None:
    """Return a residual R = Σ‖a_i‖² − Σ‖s‖²/m of sums of so many terms, unless rounding may have changed too much."""
    error = 6 * _gamma(terms) * total
    return Residual(R, error) if error <= _CANCELLED * R else None


def _bounded_residual(
    A: Matrix, labels: Dense, k: int, total: float, known: float | None = None, sums: Dense | None = None
) -> Residual:
    """Return it for A in the range of `normalised`; of a dense A the value may be known, of a large one the sums.

    With μ̂ the computed mean, m‖μ̂ − μ‖² ≤ γ²Σ‖a_i‖² by Cauchy and Schwarz, and Σ‖a_i − μ̂‖² − m‖μ̂ − μ‖², of which the
    computed differences give the second as (Σ(a_i − μ̂))²/m, errs by 8γ times the first sum at the most (Higham 2002,
    §3.1): by 8γ(R + γ²‖A‖²), γ = γ_N, N the additions that a term passes. CSR, and what is large, is first summed as
    Σ‖a_i‖² − ‖s‖²/m, s the sum of a cluster, at half the cost; it errs by 6γ‖A‖², N the stored entries and a few more
    (of dense data the additions), which serves unless little is left of ‖A‖².
    """
    n, d = A.shape
    if _by_sums(A, k):
        (sums,) = _sums_of_large(A, labels[None], k) if sums is None else (sums,)
        counts = np.maximum(np.bincount(labels, minlength=k), 1)
        within = np.einsum("cj,cj->c", sums, sums) / counts
        if quick := _from_within(total - float(within.sum()), n + d + k + _squares_terms(A) + 8, total):
            return quick
        gamma, R = _gamma(n + k * d + 8), _residual_of_large(A, labels, k, sums)
    elif isinstance(A, np.ndarray):
        gamma = _gamma(n + d + k * (d // _WIDTH + 1) + 8)
        R = float(_residual(A, labels, k)) if known is None else known
    else:
        counts = np.bincount(labels, minlength=k)
        within = _within_csr(A, labels, k) / np.maximum(counts, 1)
        if quick := _from_within(float(squared_frobenius(A) - within.sum()), A.nnz + n + 8, total):
            return quick
        gamma = _gamma(n + min(A.nnz, k * d) + 8)
        R = float(_residual_csr((A.data, A.indices, A.indptr), d, labels, k))
    return Residual(R, 8 * gamma * (R + gamma**2 * total))


def _clusters(labels: Dense, n: int) -> tuple[Dense, int]:
    """Return cluster numbers as int64, and how many they may be.

    Raises
    ------
    ArgumentError
        When they are not n whole numbers from 0.
    """
    labels = np.asarray(labels)
    if labels.shape != (n,) or labels.dtype.kind not in "iu" or labels.min() < 0:
        raise ArgumentError(
            f"labels of shape {labels.shape} and type {labels.dtype} are not {n} whole numbers from 0, one for each "
            "row; give these"
        )
    k = int(labels.max()) + 1
    if k > n:  # numbers that no row has need no room
        names, labels = np.unique(labels, return_inverse=True)
        k = len(names)
    return labels.astype(np.int64, copy=False), k


def residual(A: Matrix, labels: Dense) -> float:
    """Return ‖A − XXᵀA‖²_F, the squared distances of the rows to the means of their clusters.

    Parameters
    ----------
    A : (n, d) array or CSR
        CSR is never densified.
    labels : (n,) int array
        Cluster of each row, from 0.

    Returns
    -------
    float
        Infinite or 0 where it is beyond float64; `objective` is not.

    Raises
    ------
    ArgumentError
        When A is not finite, or the labels are not those of its rows.
    """
    A, e, total = normalised(canonical_csr(A))
    R = _bounded_residual(A, *_clusters(labels, A.shape[0]), total)
    return scaled_back(R.value, 2 * e)


def residuals(A: Dense, partitions: Sequence[Dense], total: float) -> list[Residual]:
    """Return the residuals of several partitions, as `objective` takes them, from one read of A.

    Parameters
    ----------
    A : (n, d) array
        As `normalised` returns it.
    partitions : sequence of (n,) int arrays
        Of each, the cluster of each row, from 0.
    total : float
        ‖A‖²_F.

    Returns
    -------
    list
        The numbers that `objective` computes from each partition alone.

    Raises
    ------
    ArgumentError
        When the labels are not those of its rows.
    """
    clusters = [_clusters(labels, A.shape[0]) for labels in partitions]
    together, most = np.array([labels for labels, _ in clusters]), max(k for _, k in clusters)
    if _by_sums(A, most):
        return [
            _bounded_residual(A, labels, most, total, sums=sums)
            for labels, sums in zip(together, _sums_of_large(A, together, most), strict=True)
        ]
    values = _residuals(A, together, most)
    return [
        _bounded_residual(A, labels, k, total, float(value))
        for (labels, k), value in zip(clusters, values, strict=True)
    ]


def objective(A: Matrix, labels: Dense, total: float | None = None, residual: Residual | None = None) -> float:
    """Return F = ‖A − XXᵀA‖²_F / ‖A‖²_F of a partition, on the original features (bzmd15 §7.4).

    Parameters
    ----------
    A : (n, d) array or CSR
    labels : (n,) int array
    total : float, optional
        ‖A‖²_F where it is known already, of A as `normalised` returns it.
    residual : Residual, optional
        Where it is known too, from `residuals`.

    Returns
    -------
    float
        In [0, 1], but for rounding; 0 when A is zero.

    Raises
    ------
    ArgumentError
        When A is not finite, or the labels are not those of its rows.
    ArithmeticError
        When the a-priori bound of the rounding error exceeds a millionth of F, and 10⁻²⁴.
    """
    if total is None:
        A, _, total = normalised(canonical_csr(A))
    labels, k = _clusters(labels, A.shape[0])
    if total == 0:
        return 0.0
    R, error = residual or _bounded_residual(A, labels, k, total)
    F = R / total
    doubt = error / total + 2 * _gamma(_squares_terms(A) + 8) * F
    if not doubt <= _TOLERANCE * max(F, _PERFECT):
        raise ArithmeticError(f"F = {F:.3g} may be wrong by {doubt:.1g} by rounding, more than {_TOLERANCE:g} of it")
    return F


def _squares_terms(A: Matrix) -> int:
    """Return how many additions a term of `squared_frobenius` passes."""
    stored, step = int(A.size if isinstance(A, np.ndarray) else A.nnz), squares_at_once(A)
    return min(stored, step) + stored // step


def _numbered(names: Dense) -> tuple[Dense, int]:
    """Names as numbers from 0, some of which may be unused, and how many numbers there are."""
    if names.dtype == np.int64:  # differences of narrower ones may not fit
        low = int(names.min())
        count = int(names.max()) - low + 1
        if count * count <= _CELLS:
            return names - low, count
    different, numbers = np.unique(names, return_inverse=True)
    return numbers, len(different)


def _contingency(truth: Dense, labels: Dense) -> Dense:
    """How many points each class (rows) shares with each cluster (columns); none of either is empty.

    Raises
    ------
    ArgumentError
        When the two do not name the same points.
    """
    truth, labels = np.asarray(truth), np.asarray(labels)
    same = truth.ndim == 1 and truth.shape == labels.shape and truth.size > 0
    if not same or not {truth.dtype.kind, labels.dtype.kind} <= {"i", "u", "b"}:
        raise ArgumentError(
            f"partitions of shapes {truth.shape} and {labels.shape}, types {truth.dtype} and {labels.dtype}, do not "
            "name the same points by whole numbers; give two of equal length"
        )
    (rows, height), (columns, width) = _numbered(truth), _numbered(labels)
    table = np.bincount(rows * width + columns, minlength=height * width).reshape(height, width)
    return table[table.any(axis=1)][:, table.any(axis=0)]


def _accuracy(table: Dense) -> float:
    rows, columns = linear_sum_assignment(table, maximize=True)
    return float(table[rows, columns].sum() / table.sum())


def accuracy(truth: Dense, labels: Dense) -> float:
    """Return P, the fraction of points in the right cluster under the best one-to-one matching (Hungarian method).

    Clusters or classes left over when their numbers differ match nothing.

    Parameters
    ----------
    truth, labels : (n,) int arrays

    Returns
    -------
    float
        In [0, 1].
    """
    return _accuracy(_contingency(truth, labels))


def class_numbers(truth: Dense) -> Dense:
    """Return the labels as numbers from 0, in the order in which the classes first appear.

    These are the numbers of the clusters of ``first_of_class`` starts.

    Parameters
    ----------
    truth : (n,) int array

    Returns
    -------
    (n,) ndarray of int64
    """
    _, first, inverse = np.unique(truth, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[inverse])


@cache
def _numberings(folders: tuple[PaperFolder, ...]) -> Mapping[str, Callable[[Dense], Dense]]:
    modules = [module for folder in folders if (module := folder.module("matchings"))]
    return {"identity": class_numbers} | {name: made for module in modules for name, made in module.MATCHINGS.items()}


def numberings() -> Mapping[str, Callable[[Dense], Dense]]:
    """Return the matchings that take cluster j for class j, each with how it numbers the classes.

    Besides ``identity``, those that a paper brings: ``MATCHINGS`` in the module ``matchings`` of its folder.
    """
    return _numberings(paper_folders())


def matchings() -> tuple[str, ...]:
    """Return the names of all matchings."""
    return ("best", *numberings())


def matching_modules() -> list[str]:
    """Return the names of the modules with the matchings that papers bring."""
    folders = [folder for folder in paper_folders() if (folder.folder / "matchings.py").is_file()]
    return [f"{folder.package}.matchings" for folder in folders]


def check_matching(matching: str, truth: Dense | None) -> None:
    """Refuse labels that a matching cannot be had with.

    Raises
    ------
    UserError
    """
    if matching != "best" and truth is not None:
        numberings()[matching](truth)


def _entropy(counts: Dense) -> float:
    p = counts[counts > 0] / counts.sum()
    return float(-(p @ np.log(p)))


def _nmi(table: Dense) -> float:
    """2I/(H + H'); 1 for two partitions into a single part, of which neither says anything."""
    if table.size == 1:
        return 1.0
    H, G = _entropy(table.sum(axis=1)), _entropy(table.sum(axis=0))
    information = H + G - _entropy(table.ravel())
    # Rounding may leave a trace of either sign where the partitions are independent.
    return information / ((H + G) / 2) if information > 1e-14 * (H + G) else 0.0


def _ari(table: Dense) -> float:
    """Hubert and Arabie's index, from the pairs of points that are together in both, in either, and at all."""

    def pairs(counts: Dense) -> int:
        return int((counts * (counts - 1) // 2).sum())  # exact below 3·10⁹ points

    both, first, second = pairs(table), pairs(table.sum(axis=1)), pairs(table.sum(axis=0))
    everything = math.comb(int(table.sum()), 2)
    if both == first == second:
        return 1.0
    # (both − E)/((first + second)/2 − E), E = first·second/everything, in whole numbers up to the last division.
    return 2 * (both * everything - first * second) / ((first + second) * everything - 2 * first * second)


def agreement(truth: Dense, labels: Dense, matching: str = "best") -> dict[str, float]:
    """Return ``accuracy``, ``nmi`` (arithmetic mean) and ``ari`` of a partition against labels.

    Parameters
    ----------
    truth, labels : (n,) int arrays
    matching : str
        Which cluster counts as which class in ``accuracy``, one of `matchings`: `accuracy`'s best matching, cluster j
        as the class number j of `class_numbers` (``identity``), or of a paper's own numbering.

    Returns
    -------
    dict
    """
    table = _contingency(truth, labels)
    P = _accuracy(table) if matching == "best" else float(np.mean(numberings()[matching](truth) == labels))
    return {"accuracy": P, "nmi": _nmi(table), "ari": _ari(table)}


# --- the registry


@dataclass(frozen=True)
class Metric:
    """A measure of a partition.

    Attributes
    ----------
    name, label : str
        As in rows, and as in figures and tables.
    low, high : float
        Its range; either may be infinite.
    better : {"higher", "lower"}
    function : callable
        From A (n×d, perhaps scaled by a power of two), the labels of the partition and the true ones, n each, or None;
        to a number, or None where it cannot be had.
    """

    name: str
    label: str
    low: float
    high: float
    better: Literal["higher", "lower"]
    function: Callable[[Matrix, Dense, Dense | None], float | None]


_registry: Registry[Metric] = Registry("metrics")


def metric(
    name: str, label: str, low: float, high: float, better: Literal["higher", "lower"]
) -> Callable[[Callable[[Matrix, Dense, Dense | None], float | None]], Metric]:
    """Make a function a metric: every trial is scored by it, and figures can show it.

    Parameters
    ----------
    name, label, low, high, better
        See `Metric`.
    """

    def add(function: Callable[[Matrix, Dense, Dense | None], float | None]) -> Metric:
        measure = Metric(name, label, low, high, better, function)
        _registry.add(name, function.__module__, measure)
        return measure

    return add


@metric("objective", "normalised objective F", 0.0, 1.0, "lower")
def _objective(A: Matrix, labels: Dense, truth: Dense | None) -> float:
    del truth
    return objective(A, labels)


@metric("accuracy", "accuracy P", 0.0, 1.0, "higher")
def _P(A: Matrix, labels: Dense, truth: Dense | None) -> float | None:  # noqa: N802  the papers' letter
    del A
    return None if truth is None else accuracy(truth, labels)


@metric("nmi", "NMI", 0.0, 1.0, "higher")
def _information(A: Matrix, labels: Dense, truth: Dense | None) -> float | None:
    del A
    return None if truth is None else _nmi(_contingency(truth, labels))


@metric("ari", "ARI", -0.5, 1.0, "higher")
def _rand(A: Matrix, labels: Dense, truth: Dense | None) -> float | None:
    del A
    return None if truth is None else _ari(_contingency(truth, labels))


BUILT_IN = ("objective", "accuracy", "nmi", "ari")


def metrics() -> Mapping[str, Metric]:
    """Return all metrics by name: those built in, then those of guests."""
    return _registry.known()


def score(
    A: Matrix,
    labels: Dense,
    truth: Dense | None,
    matching: str = "best",
    total: float | None = None,
    residual: Residual | None = None,
) -> dict[str, float]:
    """Return every metric of a partition that can be had, each a number within its range.

    Parameters
    ----------
    A : (n, d) array or CSR
    labels : (n,) int array
    truth : (n,) int array or None
    matching : str
        Of clusters to classes, in ``accuracy``: see `agreement`.
    total : float, optional
    residual : Residual, optional
        As for `objective`.

    Returns
    -------
    dict

    Raises
    ------
    ArithmeticError
        When one is no number of its range, but for rounding.
    """
    scores: dict[str, float] = {"objective": objective(A, labels, total, residual)}
    if truth is not None:
        scores |= agreement(truth, labels, matching)
    for name, measure in metrics().items():
        if name not in BUILT_IN and (value := measure.function(A, labels, truth)) is not None:
            scores[name] = float(value)
        if name in scores and not measure.low - _SLACK <= scores[name] <= measure.high + _SLACK:
            raise ArithmeticError(
                f"{name} = {scores[name]!r} is outside of its range, {measure.low:g} to {measure.high:g}"
            )
    return scores
