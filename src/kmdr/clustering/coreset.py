"""k-means on fewer points: a coreset by sensitivity sampling (Bachem, Lucic, Krause 2017)."""

import math
import warnings

import numpy as np
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning

from kmdr.base.errors import ArgumentError
from kmdr.base.outside import seed_of
from kmdr.clustering.engines import built_in_engine, takes_arguments
from kmdr.clustering.kmeans import Clustering, Protocol, checked_starts, plus_rows
from kmdr.clustering.sums import compiled_form, nearest
from kmdr.linalg import Dense, Matrix
from kmdr.linalg.matrix import column_means, is_out_of_core, normalised, scaled_back


@built_in_engine("coreset")
@takes_arguments
def coreset(
    C: Matrix, k: int, starts: Dense, rng: np.random.Generator, protocol: Protocol, *, rows: int = 1000
) -> Clustering:
    """Lloyd on a weighted sample of kmeans.args.rows=1000 points (sensitivity sampling).

    The sample is drawn by `sensitivity_sample`. Each start is weighted k-means++, then weighted Lloyd; the starting
    rows of the protocol have no effect. All points then join the nearest centre of the start with the smallest weighted
    sum of squares.

    Parameters
    ----------
    rows : int
        Number of draws, at least k. If it is n or more, all points are used, each with weight 1.

    References
    ----------
    Bachem, Lucic, Krause, *Practical Coreset Constructions for Machine Learning*, 2017, Algorithm 2. Schwiegelshohn,
    Sheikh-Omar, *An Empirical Evaluation of k-Means Coresets*, ESA 2022, compares it with other constructions.
    """
    starts = checked_starts(starts, C.shape[0], protocol.max_iter)
    if rows < k:
        raise ArgumentError(f"kmeans.args.rows = {rows} is less than k = {k}; draw at least k rows")
    C, e, _ = normalised(compiled_form(C))
    if isinstance(C, np.ndarray) and not is_out_of_core(C):
        C = C - column_means(C)  # products of points far from 0 cancel in k-means++
    if rows < C.shape[0]:
        sample, weights = sensitivity_sample(C, k, rows, rng)
    else:
        sample, weights = np.arange(C.shape[0]), np.ones(C.shape[0])
    S = C[sample].astype(np.float64)
    fits = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different points than clusters
        for _ in starts:
            seeds, _ = kmeans_plusplus(
                S, min(k, len(sample)), sample_weight=weights, random_state=seed_of(rng), n_local_trials=1
            )
            model = KMeans(len(seeds), init=seeds, n_init=1, max_iter=protocol.max_iter, tol=0, algorithm="lloyd")
            fits.append(model.fit(S, sample_weight=weights))
    best = min(fits, key=lambda fit: fit.inertia_)
    labels, squares = nearest(C, best.cluster_centers_)
    failed = sum(fit.n_iter_ == protocol.max_iter for fit in fits)
    return Clustering(labels, scaled_back(squares.sum(), 2 * e), int(best.n_iter_), failed)


def sensitivity_sample(C: Matrix, k: int, m: int, rng: np.random.Generator) -> tuple[Dense, Dense]:
    """Return rows drawn by their sensitivity, and their weights.

    k-means++ draws k seeds B. With d(x) the squared distance of a point to its seed, B(x) the points of that seed, c
    the mean of d, and α = 16 (ln k + 2), the sensitivity of x is at most

        s(x) = α d(x)/c + 2α mean of d over B(x)/c + 4 n/|B(x)|.

    m rows are drawn independently, x with probability q(x) = s(x)/Σs, and each draw has weight 1/(m q(x)).

    Returns
    -------
    sample : (j,) ndarray of int64
        The j ≤ m different rows, in ascending order.
    weights : (j,) ndarray of float64
        Sum of the weights of each row's draws. The weighted sum of squared distances to any centres is an unbiased
        estimate of the sum over all points.
    """
    n = C.shape[0]
    (seeds,) = plus_rows(C, k, np.array([seed_of(rng)]))
    centres = C[seeds] if isinstance(C, np.ndarray) else C[seeds].toarray()
    labels, squares = nearest(C, centres.astype(np.float64))
    sizes = np.bincount(labels, minlength=k)
    alpha = 16 * (math.log(k) + 2)
    share = squares / squares.mean() if squares.any() else squares
    means = np.bincount(labels, share, minlength=k) / np.maximum(sizes, 1)
    sensitivity = alpha * share + 2 * alpha * means[labels] + 4 * n / sizes[labels]
    q = sensitivity / sensitivity.sum()
    sample, draws = np.unique(rng.choice(n, size=m, p=q), return_counts=True)
    return sample, draws / (m * q[sample])
