"""K-means on points of which only some coordinates are known (Pourkamali-Anaraki, Becker 2017, Algorithm 2).

It minimises Σ_i Σ_{j known of i} (c_ij − μ_{l(i)j})². A point goes to the centre nearest on the coordinates that it
knows, ties to the lowest index. A centre's coordinate is the mean over the points of its cluster that know it. A
coordinate that no point of the cluster knows, and an unknown coordinate of a starting row, is set to the mean of all
points that know it. An empty cluster takes the point farthest from its own centre. A start ends when no assignment
changes, or when refilling no longer lowers the objective.

Distances to all centres are computed in float32, and in float64 where that leaves the nearest undecided. Only centres
that gained or lost points are recomputed.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numba
import numpy as np

from kmdr.base.errors import ArgumentError
from kmdr.base.threads import process_row_blocks
from kmdr.clustering.kmeans import Clustering, checked_starts
from kmdr.linalg import Dense
from kmdr.linalg.matrix import BLOCK, check_structure, normalised, room, scaled_back

# Centres compared together: with 4096 coordinates they take 512 KB of float32, which stay in a second-level cache
# while the points of a tile of _TILE entries pass by (2¹⁷ entries: 1.15 of the time; 2²⁰: 1.05).
_WIDTH = 32
_TILE = 1 << 18
_LINE = 8  # float64 per cache line
_U32 = 2.0**-24


@numba.njit(cache=True, nogil=True)
def _choose(uniform: Dense, order: Dense, kept: Dense) -> None:
    """Shuffle the head of ``order`` by each row of uniforms (Fisher, Yates), store it, and undo the shuffle."""
    d = len(order)
    n, r = uniform.shape
    swaps = np.empty(r, dtype=np.int64)
    for i in range(n):
        for j in range(r):
            swaps[j] = j + min(int(uniform[i, j] * (d - j)), d - 1 - j)
            order[j], order[swaps[j]] = order[swaps[j]], order[j]
        for j in range(r):  # to assign a slice takes three seconds to compile
            kept[i, j] = order[j]
        for j in range(r - 1, -1, -1):
            order[j], order[swaps[j]] = order[swaps[j]], order[j]


def random_subsets(n: int, d: int, r: int, rng: np.random.Generator) -> Dense:
    """Return n independent uniform subsets of r of d indices, each ascending, as an (n, r) ndarray of int32."""
    if not 1 <= r <= d < 2**31:
        raise ArgumentError(f"r = {r} is out of range for d = {d} indices; choose 1 ≤ r ≤ d < 2³¹")
    kept = room((n, r), np.int32)
    order, step = np.arange(d, dtype=np.int32), max(1, BLOCK // r)
    for start in range(0, n, step):
        some = kept[start : start + step]
        _choose(rng.random(some.shape), order, some)
    kept.sort(axis=1)
    return kept


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _square_sums(x: Dense, places: Dense, block: Dense, sums: Dense) -> None:
    """Write Σ_p (x_p − c_p)² for the centres of a block; coordinate j of all of them starts at block[j·_WIDTH]."""
    for w in range(len(sums)):
        sums[w] = 0
    whole = len(x) - len(x) % 4
    for p in range(0, whole, 4):  # four coordinates for each time that the sums are read and written
        c0, c1, c2, c3 = (
            block[np.uint64(places[p]) * np.uint64(_WIDTH) :],
            block[np.uint64(places[p + 1]) * np.uint64(_WIDTH) :],
            block[np.uint64(places[p + 2]) * np.uint64(_WIDTH) :],
            block[np.uint64(places[p + 3]) * np.uint64(_WIDTH) :],
        )
        x0, x1, x2, x3 = x[p], x[p + 1], x[p + 2], x[p + 3]
        for w in range(len(sums)):
            e0, e1, e2, e3 = x0 - c0[w], x1 - c1[w], x2 - c2[w], x3 - c3[w]
            sums[w] += (e0 * e0 + e1 * e1) + (e2 * e2 + e3 * e3)
    for p in range(whole, len(x)):
        c0 = block[np.uint64(places[p]) * np.uint64(_WIDTH) :]
        for w in range(len(sums)):
            e0 = x[p] - c0[w]
            sums[w] += e0 * e0


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _distance(values: Dense, known: Dense, blocks: Dense, i: int, c: int) -> float:
    s = 0.0
    for p in range(values.shape[1]):
        e = values[i, p] - blocks[c // _WIDTH, np.int64(known[i, p]) * _WIDTH + c % _WIDTH]
        s += e * e
    return s


@numba.njit(cache=True, nogil=True)
def _limit(square: float, rate: float, slack: float) -> float:
    """Return the largest float32 sum that a centre at this squared distance or nearer can have."""
    return (max(math.sqrt(square), 2.0**-60) * rate + slack) ** 2 * (1 + 4 * _U32)


@numba.njit(cache=True, nogil=True)
def _write_blocks(centres: Dense, scale: float, blocks: Dense, single: Dense) -> None:
    """Write the centres to (blocks, d·_WIDTH), and scaled in float32 to the same layout."""
    k, d = centres.shape
    for b in range(len(single)):
        for first in range(0, d, _LINE):
            for c in range(b * _WIDTH, min((b + 1) * _WIDTH, k)):
                for j in range(first, min(first + _LINE, d)):
                    at = j * _WIDTH + c - b * _WIDTH
                    blocks[b, at], single[b, at] = centres[c, j], centres[c, j] * scale


@numba.njit(cache=True, nogil=True)
def _nearest(values: Dense, known: Dense, blocks: Dense, single: Dense, scale: float, labels: Dense) -> None:
    """Replace each label, −1 or a guess, by the nearest centre on the known coordinates of its point.

    Distances s are computed in float64, entry by entry, for the centres that float32 sums do not rule out. The float32
    error of √s is below γ√s + 8u‖x‖, u = 2⁻²⁴, γ for r terms and a few more (Higham 2002, §3.1): rounding x and c,
    |c| ≤ |x| + |x − c|, and their difference changes each entry by 2u(|x| + |x − c|). Underflow changes less than 2⁻⁶⁰.
    """
    n, r = values.shape
    tile = max(_TILE // r, 1)
    x, places = np.empty((tile, r), np.float32), np.empty((tile, r), np.uint32)
    sums, limit = np.empty(_WIDTH, np.float32), np.empty(tile, np.float32)
    slack, least = np.empty(tile), np.empty(tile)
    terms = (r + 16) * _U32
    rate = 1 + 3 * terms / (1 - terms) if terms < 0.25 else np.inf
    for lo in range(0, n, tile):
        count = min(tile, n - lo)
        for q in range(count):
            i, norm = lo + q, 0.0
            for p in range(r):
                value = values[i, p] * scale
                x[q, p], places[q, p] = value, known[i, p]
                norm += value * value
            slack[q] = 8 * _U32 * math.sqrt(norm) + 2.0**-60
            least[q] = np.inf if labels[i] < 0 else _distance(values, known, blocks, i, labels[i])
            limit[q] = _limit(least[q] * scale * scale, rate, slack[q])
        for b in range(len(blocks)):
            for q in range(count):
                _square_sums(x[q], places[q], single[b], sums)
                near = 0
                for w in range(_WIDTH):
                    near += sums[w] <= limit[q]
                if near == 0:
                    continue
                i = lo + q
                for w in range(_WIDTH):
                    c = b * _WIDTH + w
                    if sums[w] <= limit[q] and c != labels[i]:
                        s = _distance(values, known, blocks, i, c)
                        if s < least[q] or (s == least[q] and c < labels[i]):
                            labels[i], least[q] = c, s
                            limit[q] = _limit(s * scale * scale, rate, slack[q])


@numba.njit(cache=True, nogil=True)
def _means(values: Dense, known: Dense, members: Dense, ends: Dense, mean: Dense, centres: Dense) -> None:
    """Write the means of some clusters; ``ends`` says where the members of each end, in the order of the rows."""
    first = 0
    for c in range(len(ends)):
        sums, counts = np.zeros(len(mean)), np.zeros(len(mean))
        for i in members[first : ends[c]]:
            for p in range(values.shape[1]):
                place = np.uint32(known[i, p])
                sums[place] += values[i, p]
                counts[place] += 1.0
        for j in range(len(mean)):
            centres[c, j] = sums[j] / counts[j] if counts[j] > 0 else mean[j]
        first = ends[c]


class _Points:
    """The stored entries as two n×r tables."""

    def __init__(self, C: Any) -> None:
        n, d = C.shape
        self.values, self.known = C.data.reshape(n, -1), C.indices.reshape(n, -1)
        largest = max(float(C.data.max()), -float(C.data.min()))
        self.scale = 2.0 ** -int(np.frexp(largest)[1])  # in float32 nothing overflows
        self.mean = np.zeros(d)
        self.mean = self._means(np.zeros(n, np.int64), np.ones(1, np.bool_))[0]

    def _means(self, labels: Dense, asked: Dense) -> Dense:
        """Return the means of the clusters marked in ``asked``."""
        members = np.flatnonzero(asked[labels])
        members = members[np.argsort(labels[members], kind="stable")]
        ends = np.searchsorted(labels[members], np.flatnonzero(asked), side="right")
        centres = np.empty((len(ends), len(self.mean)))

        def some(rows: slice) -> None:
            first = ends[rows.start - 1] if rows.start else 0
            part = members[first : ends[rows.stop - 1]]
            _means(self.values, self.known, part, ends[rows] - first, self.mean, centres[rows])

        process_row_blocks(len(ends), some)
        return centres

    def rows(self, index: Dense) -> Dense:
        """Return centres (k×d) at some rows."""
        centres = np.repeat(self.mean[None], len(index), axis=0)
        np.put_along_axis(centres, self.known[index].astype(np.int64), self.values[index], axis=1)
        return centres

    def move(self, centres: Dense, labels: Dense, before: Dense) -> None:
        """Recompute the centres of clusters whose points differ between two labellings (−1: no cluster)."""
        moved, changed = labels != before, np.zeros(len(centres) + 1, np.bool_)  # the last belongs to −1
        changed[labels[moved]] = changed[before[moved]] = True
        changed[-1] = False
        if changed.any():
            centres[changed[:-1]] = self._means(labels, changed)

    def assign(self, centres: Dense, guess: Dense) -> Dense:
        """Return each point's nearest centre on the known coordinates."""
        k, d = centres.shape
        labels, blocks = guess.copy(), np.full((-(-k // _WIDTH), d * _WIDTH), np.inf)
        single = blocks.astype(np.float32)
        _write_blocks(centres, self.scale, blocks, single)

        def some(rows: slice) -> None:
            _nearest(self.values[rows], self.known[rows], blocks, single, self.scale, labels[rows])

        process_row_blocks(len(labels), some)
        return labels

    def own(self, centres: Dense, labels: Dense) -> Dense:
        """Return each point's squared distance to the centre of its cluster."""
        distance = np.empty(len(labels))
        step = max(1, BLOCK // self.values.shape[1])
        for start in range(0, len(labels), step):
            rows = slice(start, start + step)
            apart = self.values[rows] - centres[labels[rows, None], self.known[rows]]
            distance[rows] = np.square(apart, out=apart).sum(axis=1)
        return distance


def _fill_empty(points: _Points, labels: Dense, centres: Dense) -> None:
    """Give each empty cluster the point farthest from its own centre, in place."""
    counts = np.bincount(labels, minlength=len(centres))
    for empty in np.flatnonzero(counts == 0):
        distance = points.own(centres, labels)
        distance[counts[labels] < 2] = -1.0
        taken, before = distance.argmax(), labels.copy()
        counts[labels[taken]] -= 1
        counts[empty] += 1
        labels[taken] = empty
        points.move(centres, labels, before)


def _run_start(points: _Points, rows: Dense, max_iter: int) -> tuple[Clustering, bool]:
    centres = points.rows(rows)
    labels = np.full(len(points.values), -1, dtype=np.int64)
    refilled = np.inf
    converged, iteration = False, 0
    while not converged and iteration < max_iter:
        iteration += 1
        before, labels = labels, points.assign(centres, labels)
        converged = np.array_equal(before, labels)
        points.move(centres, labels, before)
        if not np.bincount(labels, minlength=len(rows)).all():
            _fill_empty(points, labels, centres)
            last, refilled = refilled, float(points.own(centres, labels).sum())
            converged = refilled >= last
    return Clustering(labels, float(points.own(centres, labels).sum()), iteration, 0), converged


def masked_lloyd(C: Any, starts: Sequence[Dense] | Dense, max_iter: int) -> Clustering:
    """Run k-means on sparsified points from each start and keep the partition of smallest objective.

    Parameters
    ----------
    C : (n, d) csr_array
        With the same number of stored entries in each row; entries that are not stored are unknown.
    starts : (n_init, k) int array
        Rows at which the centres begin.

    Returns
    -------
    Clustering
        ``inertia`` counts only the known coordinates; ties between starts go to the earlier one.

    Raises
    ------
    ArgumentError
        If the rows store different numbers of entries, C is not finite, or the starts are not row indices.
    """
    starts = checked_starts(starts, C.shape[0], max_iter)
    check_structure(C)
    stored = np.diff(C.indptr)
    if stored.min() < 1 or stored.min() != stored.max():
        raise ArgumentError(
            f"rows store {stored.min()} to {stored.max()} entries; each row must store the same number, at least one"
        )
    C, e, _ = normalised(C)
    points = _Points(C)
    runs = [_run_start(points, rows, max_iter) for rows in starts]
    best = min((clustering for clustering, _ in runs), key=lambda clustering: clustering.inertia)
    failed = sum(not converged for _, converged in runs)
    return replace(best, inertia=scaled_back(best.inertia, 2 * e), n_init_failed=failed)
