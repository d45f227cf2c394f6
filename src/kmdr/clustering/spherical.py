"""Spherical k-means: clusters of directions (Dhillon, Modha 2001)."""

from collections.abc import Iterator

import numpy as np
from sklearn.utils.extmath import row_norms

from kmdr.base.errors import ArgumentError
from kmdr.clustering.engines import built_in_engine
from kmdr.clustering.kmeans import Clustering, Protocol, checked_starts
from kmdr.clustering.sums import cluster_sums, compiled_form
from kmdr.linalg import Dense, Matrix
from kmdr.linalg.matrix import BLOCK, normalised, row_blocks

# Squares of entries of a row shorter than this may lose digits.
_SHORT = 2.0**-480


@built_in_engine("spherical")
def spherical(C: Matrix, k: int, starts: Dense, rng: np.random.Generator, protocol: Protocol) -> Clustering:
    """Spherical k-means from the same starts: Lloyd on directions, by cosine.

    An iteration assigns each point to the centre of largest cosine (ties to the lowest index), then moves each centre
    to the sum of the unit vectors of its points, scaled to length 1. A centre without points, or whose points sum to
    0, stays. A start ends when no assignment changes. The start with the largest sum of cosines is kept; ``inertia`` is
    the sum of squared distances on the unit sphere, 2n − 2 Σ cosines.

    Raises
    ------
    ArgumentError
        If a row of C is 0, because it has no direction.

    References
    ----------
    Dhillon, Modha, *Concept Decompositions for Large Sparse Text Data Using Clustering*, Machine Learning 42, 2001.
    """
    del k, rng
    starts = checked_starts(starts, C.shape[0], protocol.max_iter)
    C, _, _ = normalised(compiled_form(C))
    lengths = np.concatenate([_lengths(block) for _, block in row_blocks(C)])
    if zeros := int(np.count_nonzero(lengths == 0)):
        raise ArgumentError(
            f"{zeros} of {len(lengths)} rows are 0 and have no direction, which spherical k-means needs; remove these "
            "points, or use another engine"
        )
    fits = [_lloyd(C, 1 / lengths, rows, protocol.max_iter) for rows in starts]
    best = min(fits, key=lambda fit: fit.inertia)
    return Clustering(best.labels, best.inertia, best.n_iter, sum(fit.n_init_failed for fit in fits))


def _lengths(C: Matrix) -> Dense:
    """Return the length of each row; also of rows so short that the squares of their entries are 0."""
    lengths = np.asarray(row_norms(C))
    short = np.flatnonzero(lengths < _SHORT)
    if len(short):
        rows = C[short] if isinstance(C, np.ndarray) else C[short].toarray()
        largest = np.abs(rows).max(axis=1)
        rows = rows / np.where(largest > 0, largest, 1)[:, None]
        lengths[short] = np.where(largest < np.finfo(float).tiny, 0, largest * row_norms(rows))
    return lengths


def _lloyd(C: Matrix, scale: Dense, rows: Dense, max_iter: int) -> Clustering:
    """Run one start on the rows of C, each times its scale."""
    n, k = C.shape[0], len(rows)
    centres = (C[rows] if isinstance(C, np.ndarray) else C[rows].toarray()) * scale[rows, None]
    labels, cosines = np.full(n, -1), np.empty(n)
    for n_iter in range(1, max_iter + 1):  # noqa: B007  the last one is a result
        previous, labels, sums = labels, np.empty(n, np.int64), np.zeros(centres.shape)
        for part, block in _pieces(C, BLOCK // k):
            products = np.asarray(block @ centres.T)
            labels[part] = nearest = products.argmax(axis=1)
            cosines[part] = products[np.arange(len(nearest)), nearest] * scale[part]
            sums += cluster_sums(block, nearest, k, scale[part])
        if np.array_equal(labels, previous):
            break
        norms = row_norms(sums)
        centres[norms > 0] = sums[norms > 0] / norms[norms > 0, None]
    failed = not np.array_equal(labels, previous)
    return Clustering(labels, max(2 * n - 2 * float(cosines.sum()), 0.0), n_iter, int(failed))


def _pieces(C: Matrix, count: int) -> Iterator[tuple[slice, Matrix]]:
    """Yield C in float64, at most ``count`` rows at a time, with the slices of these rows."""
    step = max(count, 1)
    for rows, block in row_blocks(C):
        for start in range(0, block.shape[0], step):
            stop = min(start + step, block.shape[0])
            yield slice(rows.start + start, rows.start + stop), block[start:stop]
