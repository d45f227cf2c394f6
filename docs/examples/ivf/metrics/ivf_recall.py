"""Recall of a vector index whose cells are the clusters (IVF): ``ivf_recall_1``, ``ivf_recall_4``, ``ivf_recall_16``.

An inverted-file index searches the nprobe cells whose centroids are nearest to a query. The recall is the share of the
query's 10 nearest neighbours that lie in these cells, in the mean over the queries. Queries are points of the data, all
of them or 2000 drawn by a fixed seed; a query is not its own neighbour. A centroid is the mean of the points of a cell
on all features, also where the cells were made from reduced data.
"""

from typing import Any

import joblib
import numpy as np
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import NearestNeighbors

from kmdr.base.seeding import generator
from kmdr.clustering.sums import cluster_sums
from kmdr.linalg import Dense, Matrix
from kmdr.linalg.matrix import row_blocks
from kmdr.metrics import metric

NEIGHBOURS = 10
QUERIES = 2000
# Queries and their true neighbours, by a hash of the data.
_truths: dict[str, tuple[Dense, Dense]] = {}
# The last data and partition, and the ranks computed from them, which the metrics of several nprobe share.
_last: dict[str, Any] = {}


def true_neighbours(A: Matrix) -> tuple[Dense, Dense]:
    """Return the queries (q,) and their nearest neighbours (q, up to 10), exact and computed in blocks."""
    n = A.shape[0]
    key, m = str(joblib.hash(A)), min(NEIGHBOURS, n - 1)
    if key not in _truths:
        queries = np.arange(n)
        if n > QUERIES:
            queries = np.sort(generator(0, "ivf_recall", n).choice(n, QUERIES, replace=False))
        search = NearestNeighbors(n_neighbors=m + 1, algorithm="brute").fit(A)
        nearest = search.kneighbors(A[queries], return_distance=False)
        others = nearest != queries[:, None]
        others[others.all(axis=1), -1] = False  # more than 10 copies of the query
        _truths[key] = queries, nearest[others].reshape(len(queries), m)
    return _truths[key]


def centroids(A: Matrix, labels: Dense) -> Dense:
    """Return the mean of each cell on all features; cells are numbered without gaps."""
    sizes = np.bincount(labels)
    sums = np.zeros((len(sizes), A.shape[1]))
    for rows, block in row_blocks(A):
        sums += cluster_sums(block, labels[rows], len(sizes), np.ones(block.shape[0]))
    return sums / sizes[:, None]


def ranks(A: Matrix, labels: Dense) -> Dense:
    """Return for each query and neighbour how many cells are nearer to the query than the neighbour's: 0 for the first.

    Returns
    -------
    (q, up to 10) ndarray of int64
    """
    if _last.get("A") is not A or _last.get("labels") is not labels:
        queries, neighbours = true_neighbours(A)
        cells = np.unique(labels, return_inverse=True)[1]
        distances = pairwise_distances(A[queries], centroids(A, cells))
        order = distances.argsort(axis=1, kind="stable").argsort(axis=1)
        _last.update(A=A, labels=labels, ranks=np.take_along_axis(order, cells[neighbours], axis=1))
    return np.asarray(_last["ranks"])


def recall(nprobe: int, A: Matrix, labels: Dense, truth: Dense | None) -> float | None:
    """Return the mean share of the true neighbours in the nprobe nearest cells; None for a single point."""
    del truth
    return float(np.mean(ranks(A, labels) < nprobe)) if A.shape[0] > 1 else None


@metric("ivf_recall_1", "recall at nprobe 1", 0, 1, "higher")
def recall_1(A: Matrix, labels: Dense, truth: Dense | None) -> float | None:
    return recall(1, A, labels, truth)


@metric("ivf_recall_4", "recall at nprobe 4", 0, 1, "higher")
def recall_4(A: Matrix, labels: Dense, truth: Dense | None) -> float | None:
    return recall(4, A, labels, truth)


@metric("ivf_recall_16", "recall at nprobe 16", 0, 1, "higher")
def recall_16(A: Matrix, labels: Dense, truth: Dense | None) -> float | None:
    return recall(16, A, labels, truth)
