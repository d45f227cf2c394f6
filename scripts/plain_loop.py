"""Run bzmd15's Figures 1–3 as a plain loop of scikit-learn and numpy calls: the baseline for kmdr's speed.

The same datasets, methods, r, repetitions and starts, in one process, each step by the obvious call. ``python
scripts/bench.py bzmd15`` times it against kmdr; it takes almost an hour.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.metrics import confusion_matrix, pairwise_distances
from sklearn.neighbors import kneighbors_graph

from kmdr.base.seeding import generator
from kmdr.clustering.kmeans import Protocol, starting_rows
from kmdr.datasets import Dataset
from kmdr.linalg import Dense

R_GRID = range(5, 101, 5)
REPEATS = 5


class Row(NamedTuple):
    """One trial."""

    dataset: str
    reducer: str
    r: int
    repeat: int
    objective: float
    accuracy: float


def sampled(A: Dense, V: Dense, r: int, rng: np.random.Generator) -> Dense:
    """Sample r columns by the leverage scores of V."""
    p = np.sum(V**2, axis=1) / np.sum(V**2)
    columns = rng.choice(len(p), r, p=p)
    return np.asarray(A[:, columns] / np.sqrt(r * p[columns]))


def sketched_vectors(A: Dense, k: int, rng: np.random.Generator) -> Dense:
    """FastFrobeniusSVD as its box says."""
    Q, _ = np.linalg.qr(A @ rng.standard_normal((A.shape[1], k + int(np.ceil(3 * k + 1)))))
    return np.asarray(np.linalg.svd(Q.T @ A, full_matrices=False)[2][:k].T)


def laplacian_order(A: Dense, rng: np.random.Generator) -> Dense:
    """Order the features by Laplacian score."""
    n = len(A)
    t = pairwise_distances(A if n <= 3000 else A[rng.choice(n, 3000, replace=False)]).mean()
    W = kneighbors_graph(A, 5, mode="distance")
    W.data = np.exp(-(W.data**2) / (2 * t**2))
    W = W.maximum(W.T)
    degree = np.asarray(W.sum(axis=1)).ravel()
    B = A - degree @ A / degree.sum()
    spread = np.maximum(degree @ B**2, 1e-12)
    return np.argsort(1 - np.sum(B * (W @ B), axis=0) / spread, kind="stable")


def reductions(A: Dense, k: int, rng: np.random.Generator) -> Iterator[tuple[str, int, Dense]]:
    """Yield every method's C at every r, one repetition."""
    yield "none", A.shape[1], A
    yield "svd", k, A @ np.linalg.svd(A, full_matrices=False)[2][:k].T
    yield "approx_svd", k, A @ sketched_vectors(A, k, rng)
    V = np.linalg.svd(A, full_matrices=False)[2][:k].T
    for r in R_GRID:
        yield "leverage", r, sampled(A, V, r, rng)
    Z = sketched_vectors(A, k, rng)
    for r in R_GRID:
        yield "leverage_approx", r, sampled(A, Z, r, rng)
    for r in R_GRID:
        yield "random_sign", r, A @ rng.choice([-1 / np.sqrt(r), 1 / np.sqrt(r)], (A.shape[1], r))
    order = laplacian_order(A, rng)
    for r in R_GRID:
        yield "laplacian_score", r, A[:, order[:r]]


def clustered(C: Dense, starts: Dense) -> Dense:
    """Return the best partition of scikit-learn's k-means over the starts."""
    fits = [KMeans(len(rows), init=C[rows], n_init=1, max_iter=500, tol=0, algorithm="lloyd").fit(C) for rows in starts]
    return np.asarray(min(fits, key=lambda fit: fit.inertia_).labels_)


def scored(A: Dense, labels: Dense, truth: Dense) -> tuple[float, float]:
    """Return F and P."""
    centres = np.array([A[labels == c].mean(axis=0) for c in range(labels.max() + 1)])
    table = confusion_matrix(np.unique(truth, return_inverse=True)[1], labels)
    matched = table[linear_sum_assignment(-table)].sum()
    return float(np.sum((A - centres[labels]) ** 2) / np.sum(A**2)), float(matched / len(labels))


def plain_loop(datasets: list[Dataset]) -> list[Row]:
    """Run everything."""
    rows = []
    for data in datasets:
        A: Any = np.array(data.A)
        assert data.labels is not None
        for repeat in range(REPEATS):
            starts = starting_rows(
                Protocol(5, 500), *(len(A), data.k), data.labels, generator(0, data.name, repeat, "starts")
            )
            rng = np.random.default_rng(repeat)
            for reducer, r, C in reductions(A, data.k, rng):
                rows.append(Row(data.name, reducer, r, repeat, *scored(A, clustered(C, starts), data.labels)))
    return rows
