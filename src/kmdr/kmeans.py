"""Lloyd's k-means with the starts of the papers.

Every start begins at given rows of the data. An iteration assigns each point to its nearest centre (ties to the lowest
index), then moves each centre to the mean of its points; it ends when no assignment changes (strict convergence) or
after ``max_iter`` iterations. A cluster that loses all its points is treated as MATLAB's ``'singleton'`` does: the
point farthest from its own, just updated, centre becomes the new centre and leaves its cluster, whose mean is
recomputed; a point that is alone in its cluster is not taken. Where refilling no longer lowers the sum of squares, as
with fewer distinct points than clusters, the run has converged too (MATLAB's test for a cycle).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numba
import numpy as np

from kmdr.errors import UserError, whole_number
from kmdr.linalg import Dense, Matrix
from kmdr.metrics import residual

STARTS = ("sample", "first_of_class")
# Points whose products with the centres are held at once, so that memory does not grow with n·k.
_BLOCK = 8192
# Up to this width BLAS is faster on a transposed copy of the data than on a transposed view of it.
_COPY_WIDTH = 256


@dataclass(frozen=True)
class Protocol:
    """How a paper ran k-means.

    Attributes
    ----------
    n_init : int
        Starts; the partition of smallest objective on the reduced data is kept.
    max_iter : int
        Iterations of Lloyd at the most.
    start : {"sample", "first_of_class"}
        Rows drawn uniformly without replacement, or the first row of each class (lf20 on ORL; a single start).
    """

    n_init: int
    max_iter: int
    start: str = "sample"

    def __post_init__(self) -> None:
        for name in ("n_init", "max_iter"):
            whole_number(f"kmeans.{name}", getattr(self, name), 1)
        if self.start not in STARTS:
            raise UserError(f"kmeans.start = {self.start!r} is not one of {', '.join(STARTS)}; choose one of them")
        if self.start == "first_of_class" and self.n_init != 1:
            raise UserError(
                f"kmeans.start = 'first_of_class' is one start, not kmeans.n_init = {self.n_init}; set it to 1"
            )


@dataclass(frozen=True)
class Clustering:
    """The best of several starts.

    Attributes
    ----------
    labels : (n,) ndarray of int64
    inertia : float
        Sum of squared distances to the centres, on the data that was clustered.
    n_iter : int
        Iterations of the start that was kept, the one that found nothing to change included.
    n_init_failed : int
        Starts that had not converged after ``max_iter`` iterations.
    """

    labels: Dense
    inertia: float
    n_iter: int
    n_init_failed: int


def starting_rows(protocol: Protocol, n: int, k: int, truth: Dense | None, rng: np.random.Generator) -> Dense:
    """Return the rows at which the centres of each start lie.

    Parameters
    ----------
    protocol : Protocol
    n, k : int
    truth : (n,) int array, optional
        Labels, needed by ``first_of_class``.
    rng : numpy.random.Generator

    Returns
    -------
    (n_init, k) ndarray of int64

    Raises
    ------
    UserError
        When k > n, or ``first_of_class`` has no labels or not k classes.
    """
    if k > n:
        raise UserError(f"k = {k} clusters cannot be made of n = {n} points; lower k")
    if protocol.start == "sample":
        return np.array([rng.choice(n, size=k, replace=False) for _ in range(protocol.n_init)], dtype=np.int64)
    if truth is None:
        raise UserError("kmeans.start = 'first_of_class' needs labels, which this data has not; use 'sample'")
    classes, first = np.unique(truth, return_index=True)
    if len(classes) != k:
        raise UserError(
            f"kmeans.start = 'first_of_class' gives {len(classes)} centres, one a class, but k = {k}; use 'sample'"
        )
    return np.sort(first)[None, :].astype(np.int64)


@numba.njit(cache=True, fastmath={"contract"})
def _nearest(products: Dense, squares: Dense, labels: Dense, distance: Dense) -> None:
    """Smallest ‖c‖² − 2c·x of each column of the products c·x (k×n), with its index; points run in the inner loop."""
    k, n = products.shape
    for i in range(n):
        labels[i], distance[i] = 0, squares[0] - 2 * products[0, i]
    for c in range(1, k):
        for i in range(n):
            value = squares[c] - 2 * products[c, i]
            closer = value < distance[i]
            labels[i] = c if closer else labels[i]
            distance[i] = value if closer else distance[i]


@numba.njit(cache=True, fastmath={"contract"})
def _nearest_csr(
    data: Dense, indices: Dense, indptr: Dense, centres_T: Dense, squares: Dense, labels: Dense, distance: Dense
) -> None:
    """Find the same from CSR rows and dense transposed centres (r×k): one contiguous row of centres a stored entry."""
    k = centres_T.shape[1]
    product = np.empty(k)
    for i in range(len(indptr) - 1):
        product[:] = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            row = centres_T[indices[p]]
            for c in range(k):
                product[c] += data[p] * row[c]
        best, near = squares[0] - 2 * product[0], 0
        for c in range(1, k):
            value = squares[c] - 2 * product[c]
            if value < best:
                best, near = value, c
        labels[i], distance[i] = near, best


@numba.njit(cache=True, fastmath={"contract"})
def _move_dense(C: Dense, old: Dense, new: Dense, sums: Dense, counts: Dense) -> None:
    """Move each point whose label changed between the sums of its clusters. old = −1: it was in none."""
    for i in range(C.shape[0]):
        source, target = old[i], new[i]
        if source == target:
            continue
        counts[target] += 1
        for j in range(C.shape[1]):
            sums[target, j] += C[i, j]
        if source >= 0:
            counts[source] -= 1
            for j in range(C.shape[1]):
                sums[source, j] -= C[i, j]


@numba.njit(cache=True, fastmath={"contract"})
def _move_csr(data: Dense, indices: Dense, indptr: Dense, old: Dense, new: Dense, sums: Dense, counts: Dense) -> None:
    for i in range(len(indptr) - 1):
        source, target = old[i], new[i]
        if source == target:
            continue
        counts[target] += 1
        if source >= 0:
            counts[source] -= 1
        for p in range(indptr[i], indptr[i + 1]):
            sums[target, indices[p]] += data[p]
            if source >= 0:
                sums[source, indices[p]] -= data[p]


class _DensePoints:
    """Dense data in the layouts that the kernels read, made once for all starts."""

    def __init__(self, C: Dense) -> None:
        self.n, self.r = C.shape
        # Distances do not change with a shift, and centred products keep more digits.
        C = C.astype(np.float64, copy=False)
        self.C = np.ascontiguousarray(C - C.mean(axis=0))
        self.CT = np.ascontiguousarray(self.C.T) if self.r <= _COPY_WIDTH else self.C.T

    def rows(self, index: Dense) -> Dense:
        """Return a copy of some rows."""
        return np.asarray(self.C[index])

    def assign(self, centres: Dense, labels: Dense, distance: Dense) -> None:
        """Write each point's nearest centre, and the squared distance to it less the point's own square."""
        squares = np.einsum("ij,ij->i", centres, centres)
        for lo in range(0, self.n, _BLOCK):
            block = slice(lo, lo + _BLOCK)
            _nearest(centres @ self.CT[:, block], squares, labels[block], distance[block])

    def move(self, old: Dense, new: Dense, sums: Dense, counts: Dense) -> None:
        """Update cluster sums and counts for the points whose label changed."""
        _move_dense(self.C, old, new, sums, counts)

    def distances_to_own(self, labels: Dense, centres: Dense) -> Dense:
        """Return the squared distance of each point to the centre of its cluster."""
        error = self.C - centres[labels]
        return np.asarray(np.einsum("ij,ij->i", error, error))


class _SparsePoints:
    """The same for CSR data, which stays as it is; centres are dense."""

    def __init__(self, C: Any) -> None:
        self.n, self.r = C.shape
        self.C = C.astype(np.float64, copy=False)

    def rows(self, index: Dense) -> Dense:
        return np.asarray(self.C[index].toarray())

    def assign(self, centres: Dense, labels: Dense, distance: Dense) -> None:
        squares = np.einsum("ij,ij->i", centres, centres)
        C = self.C
        _nearest_csr(C.data, C.indices, C.indptr, np.ascontiguousarray(centres.T), squares, labels, distance)

    def move(self, old: Dense, new: Dense, sums: Dense, counts: Dense) -> None:
        _move_csr(self.C.data, self.C.indices, self.C.indptr, old, new, sums, counts)

    def distances_to_own(self, labels: Dense, centres: Dense) -> Dense:
        distance = np.asarray(self.C.multiply(self.C).sum(axis=1)).ravel()
        distance += np.einsum("ij,ij->i", centres, centres)[labels]
        for c, centre in enumerate(centres):
            mine = np.flatnonzero(labels == c)
            distance[mine] -= 2 * (self.C[mine] @ centre)
        return distance


_Points: TypeAlias = _DensePoints | _SparsePoints


def _fill_empty(points: _Points, labels: Dense, sums: Dense, counts: Dense) -> None:
    """Give each empty cluster a point of its own, as MATLAB's EmptyAction 'singleton'."""
    for empty in np.flatnonzero(counts == 0):
        centres = sums / np.maximum(counts, 1)[:, None]
        distance = points.distances_to_own(labels, centres)
        distance[counts[labels] < 2] = -1.0
        after = labels.copy()
        after[distance.argmax()] = empty
        points.move(labels, after, sums, counts)
        labels[:] = after


def _fresh_sums(points: _Points, labels: Dense, k: int) -> tuple[Dense, Dense]:
    sums, counts = np.zeros((k, points.r)), np.zeros(k, dtype=np.int64)
    points.move(np.full(points.n, -1, dtype=np.int64), labels, sums, counts)
    return sums, counts


def _one_start(points: _Points, rows: Dense, max_iter: int) -> tuple[Dense, float, int, bool]:
    """Lloyd from the given rows: labels, inertia, iterations, whether it converged."""
    k = len(rows)
    centres = points.rows(rows)
    labels = np.full(points.n, -1, dtype=np.int64)
    nearest = np.empty(points.n, dtype=np.int64)
    distance = np.empty(points.n)
    sums, counts = np.zeros((k, points.r)), np.zeros(k, dtype=np.int64)
    converged = False
    refilled = np.inf
    iteration = 0
    while not converged and iteration < max_iter:
        iteration += 1
        points.assign(centres, nearest, distance)
        # Sums follow the points that moved. When many did, summing afresh costs no more and sheds rounding.
        moved = int(np.count_nonzero(nearest != labels))
        converged = moved == 0
        if 4 * moved > points.n:
            labels[:] = nearest
            sums, counts = _fresh_sums(points, labels, k)
        elif moved:
            points.move(labels, nearest, sums, counts)
            labels[:] = nearest
        if not converged and not counts.all():
            _fill_empty(points, labels, sums, counts)
            before, refilled = refilled, residual(points.C, labels)
            converged = refilled >= before
        centres = sums / np.maximum(counts, 1)[:, None]
    return labels, residual(points.C, labels), iteration, converged


def lloyd(C: Matrix, starts: Sequence[Dense] | Dense, max_iter: int) -> Clustering:
    """Run Lloyd's algorithm from each start and keep the partition of smallest inertia.

    Parameters
    ----------
    C : (n, r) array or CSR
        Clustered in float64 whatever its type: in float32 strict convergence may never come.
    starts : (n_init, k) int array
        Rows of C at which the centres begin.
    max_iter : int

    Returns
    -------
    Clustering
        Ties between starts go to the earlier one.
    """
    points = _DensePoints(C) if isinstance(C, np.ndarray) else _SparsePoints(C)
    best: Clustering | None = None
    failed = 0
    for rows in starts:
        labels, inertia, n_iter, converged = _one_start(points, rows, max_iter)
        failed += not converged
        if best is None or inertia < best.inertia:
            best = Clustering(labels, inertia, n_iter, 0)
    if best is None:
        raise ValueError("no start was given")
    return replace(best, n_init_failed=failed)
