"""K-means on points of which only some coordinates are known (Pourkamali-Anaraki, Becker 2017, Algorithm 2).

It minimises Σ_i Σ_{j known of i} (c_ij − μ_{l(i)j})²: a point goes to the centre nearest on the coordinates that it
knows, ties to the lowest index; a centre's coordinate is the mean over those of its points that know it. A coordinate
that none of them knows, and what is unknown of a starting row, is set to the mean of all points that know it. An empty
cluster takes the point farthest from its own centre. It ends when no assignment changes, or when refilling no longer
lowers the objective.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numba
import numpy as np

from kmdr.clustering.kmeans import Clustering, checked_starts
from kmdr.errors import ArgumentError
from kmdr.linalg import Dense
from kmdr.linalg.matrix import BLOCK, check_structure, normalised, scaled_back
from kmdr.threads import over_rows


@numba.njit(cache=True, nogil=True)
def _choose(uniform: Dense, order: Dense, kept: Dense) -> None:
    """Shuffle the head of ``order`` by each row of uniforms (Fisher, Yates), note it, and put it back."""
    d = len(order)
    n, r = uniform.shape
    swaps = np.empty(r, dtype=np.int64)
    for i in range(n):
        for j in range(r):
            swaps[j] = j + min(int(uniform[i, j] * (d - j)), d - 1 - j)
            order[j], order[swaps[j]] = order[swaps[j]], order[j]
        kept[i] = order[:r]
        for j in range(r - 1, -1, -1):
            order[j], order[swaps[j]] = order[swaps[j]], order[j]


def random_subsets(n: int, d: int, r: int, rng: np.random.Generator) -> Dense:
    """Return n independent uniform subsets of r of d indices, each ascending.

    Returns
    -------
    (n, r) ndarray of int32

    Raises
    ------
    ArgumentError
    """
    if not 1 <= r <= d < 2**31:
        raise ArgumentError(f"r = {r} of d = {d} indices cannot be had; ask for 1 ≤ r ≤ d < 2³¹")
    kept = np.empty((n, r), dtype=np.int32)
    _choose(rng.random((n, r)), np.arange(d, dtype=np.int32), kept)
    kept.sort(axis=1)
    return kept


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _nearest(values: Dense, known: Dense, centres_T: Dense, labels: Dense, distance: Dense) -> None:
    """Nearest centre of each point on its known coordinates; centres transposed, so that they run in the inner loop."""
    n, r = values.shape
    k = centres_T.shape[1]
    square = np.empty(k)
    for i in range(n):
        square[:] = 0.0
        for p in range(r):
            centre = centres_T[known[i, p]]
            for c in range(k):
                e = values[i, p] - centre[c]
                square[c] += e * e
        best = 0
        for c in range(1, k):
            if square[c] < square[best]:
                best = c
        labels[i], distance[i] = best, square[best]


@numba.njit(cache=True, nogil=True)
def _sums(values: Dense, known: Dense, labels: Dense, sums: Dense, counts: Dense) -> None:
    n, r = values.shape
    for i in range(n):
        for p in range(r):
            sums[known[i, p], labels[i]] += values[i, p]
            counts[known[i, p], labels[i]] += 1.0


class _Points:
    """The stored entries as two n×r tables."""

    def __init__(self, C: Any) -> None:
        n, self.d = C.shape
        self.values = C.data.astype(np.float64, copy=False).reshape(n, -1)
        self.known = C.indices.reshape(n, -1)
        sums, counts = self._totals(np.zeros(n, dtype=np.int64), 1)
        self.mean = sums[:, 0] / np.maximum(counts[:, 0], 1)

    def _totals(self, labels: Dense, k: int) -> tuple[Dense, Dense]:
        sums, counts = np.zeros((self.d, k)), np.zeros((self.d, k))
        _sums(self.values, self.known, labels, sums, counts)
        return sums, counts

    def rows(self, index: Dense) -> Dense:
        """Return centres (d×k) at some rows."""
        centres = np.repeat(self.mean[:, None], len(index), axis=1)
        for c, i in enumerate(index):
            centres[self.known[i], c] = self.values[i]
        return centres

    def means(self, labels: Dense, k: int) -> Dense:
        """Return the centres (d×k) of clusters."""
        sums, counts = self._totals(labels, k)
        return np.asarray(np.where(counts > 0, sums / np.maximum(counts, 1), self.mean[:, None]))

    def assign(self, centres: Dense) -> tuple[Dense, Dense]:
        """Return each point's nearest centre and its squared distance on the known coordinates."""
        labels, distance = np.empty(len(self.values), dtype=np.int64), np.empty(len(self.values))

        def block(rows: slice) -> None:
            _nearest(self.values[rows], self.known[rows], centres, labels[rows], distance[rows])

        over_rows(len(labels), block)
        return labels, distance

    def own(self, centres: Dense, labels: Dense) -> Dense:
        """Return each point's squared distance to the centre of its cluster."""
        distance = np.empty(len(labels))
        step = max(1, BLOCK // self.values.shape[1])
        for start in range(0, len(labels), step):
            rows = slice(start, start + step)
            apart = self.values[rows] - centres[self.known[rows], labels[rows, None]]
            distance[rows] = np.square(apart, out=apart).sum(axis=1)
        return distance


def _fill_empty(points: _Points, labels: Dense, k: int) -> None:
    """Give each empty cluster the point farthest from its own centre, in place."""
    counts = np.bincount(labels, minlength=k)
    for empty in np.flatnonzero(counts == 0):
        distance = points.own(points.means(labels, k), labels)
        distance[counts[labels] < 2] = -1.0
        taken = distance.argmax()
        counts[labels[taken]] -= 1
        counts[empty] += 1
        labels[taken] = empty


def _one_start(points: _Points, rows: Dense, max_iter: int) -> tuple[Clustering, bool]:
    k = len(rows)
    centres = points.rows(rows)
    labels = np.full(len(points.values), -1, dtype=np.int64)
    refilled = np.inf
    converged, iteration = False, 0
    while not converged and iteration < max_iter:
        iteration += 1
        nearest, _ = points.assign(centres)
        converged = np.array_equal(nearest, labels)
        had_empty = not np.bincount(nearest, minlength=k).all()
        if had_empty:
            _fill_empty(points, nearest, k)
        labels = nearest
        centres = points.means(labels, k)
        if had_empty:
            before, refilled = refilled, float(points.own(centres, labels).sum())
            converged = refilled >= before
    return Clustering(labels, float(points.own(centres, labels).sum()), iteration, 0), converged


def masked_lloyd(C: Any, starts: Sequence[Dense] | Dense, max_iter: int) -> Clustering:
    """Run k-means on sparsified points from each start and keep the partition of smallest objective.

    Parameters
    ----------
    C : (n, d) csr_array
        The same number of stored entries in each row; what is not stored is unknown.
    starts : (n_init, k) int array
        Rows at which the centres begin.
    max_iter : int

    Returns
    -------
    Clustering
        ``inertia`` counts the known coordinates alone; ties between starts go to the earlier one.

    Raises
    ------
    ArgumentError
        When the rows are not as said, C is not finite, or the starts are not rows of it.
    """
    starts = checked_starts(starts, C.shape[0], max_iter)
    check_structure(C)
    stored = np.diff(C.indptr)
    if stored.min() < 1 or stored.min() != stored.max():
        raise ArgumentError(f"rows of {stored.min()} to {stored.max()} stored entries; store the same number in each")
    C, e, _ = normalised(C)
    points = _Points(C)
    runs = [_one_start(points, rows, max_iter) for rows in starts]
    best = min((clustering for clustering, _ in runs), key=lambda clustering: clustering.inertia)
    failed = sum(not converged for _, converged in runs)
    return replace(best, inertia=scaled_back(best.inertia, 2 * e), n_init_failed=failed)
