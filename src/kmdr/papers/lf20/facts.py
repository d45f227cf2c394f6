"""Facts of lf20: leverage scores and words, a bad run, the time of drawing R, and Algorithm 3 as it is written."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from sklearn.manifold import TSNE

from kmdr.analysis.results import NotRunError, Results
from kmdr.analysis.rows import REPETITION
from kmdr.base.seeding import generator
from kmdr.base.threads import pinned
from kmdr.base.timing import Stopwatch
from kmdr.claims.best_of import drawn_again, kept_run, runs
from kmdr.claims.catalogue import fact
from kmdr.clustering.kmeans import Protocol, lloyd, starter
from kmdr.datasets import Dataset
from kmdr.linalg import Dense, Matrix, top_right_singular_vectors
from kmdr.linalg.matrix import take_columns
from kmdr.metrics import accuracy, objective
from kmdr.reducers.base import column_centred
from kmdr.reducers.leverage import leverage_scores, sample_columns
from kmdr.reducers.random_projection import RandomSign

from .protocol import BEST_OF, ENOUGH, GOOD, NIPS_RUNS, TABLE2_NIPS_R, WORDS_R

# As in kmeans/lf20_nips.yaml; the F of the rows shows whether they were made with it. The other is kmeans/lf20.yaml.
_NIPS_KMEANS = Protocol(n_init=10, max_iter=30, start="sample")
_ORL_KMEANS = Protocol(n_init=1, max_iter=500, start="first_of_class")
_DRAWS = 300


@fact("lf20_words", ["nips"], studies=[NIPS_RUNS])
def words(datasets: Sequence[Dataset], results: Results) -> pd.DataFrame:
    """Return the words drawn by the best of the first 100 runs by F at r = 30, alphabetically, with repetitions."""
    nips = datasets[0]
    columns, _ = drawn_again(nips, kept_run(runs(results, NIPS_RUNS, "nips", "leverage", WORDS_R).head(BEST_OF)))
    p = leverage_scores(top_right_singular_vectors(nips.A, nips.k))
    rank = (-p).argsort(kind="stable").argsort(kind="stable") + 1
    names = nips.feature_names or tuple(str(i) for i in range(len(p)))
    table = pd.DataFrame({"word": [names[i] for i in columns], "score": p[columns], "rank": rank[columns]})
    return table.sort_values("word", kind="stable").reset_index(drop=True)


@fact("lf20_scores", ["orl", "nips"])
def selected_scores(datasets: Sequence[Dataset], results: Results) -> pd.DataFrame:
    """Return smallest, largest and variance of the leverage scores of the features that a draw selects, over 300 draws.

    r = 130 on ORL and 30 on NIPS; with singular vectors of A, and of the column-centred A as in the report's code.
    """
    del results
    lines = []
    for data, r in zip(datasets, (ENOUGH, WORDS_R), strict=True):
        for centred in (0, 1):
            A = column_centred(data.A, "leverage")[0] if centred else data.A
            p = leverage_scores(top_right_singular_vectors(A, data.k))
            for draw in range(_DRAWS):
                columns, _ = sample_columns(p, r, generator(0, data.name, "leverage", r, draw, "reduce"))
                sampled = p[columns]
                lines.append((data.name, r, centred, draw, sampled.min(), sampled.max(), sampled.var(ddof=1)))
    names = ["dataset", "r", "centred", "draw", "smallest_score", "largest_score", "variance_of_scores"]
    return pd.DataFrame(lines, columns=names)


@fact("lf20_tsne", ["nips"], studies=[NIPS_RUNS])
def tsne(datasets: Sequence[Dataset], results: Results) -> pd.DataFrame:
    """Return t-SNE of C of a typical bad run: at r = 30, of median F among the first 100 runs with P < 0.5.

    Columns ``repeat objective accuracy x y cluster``, one row per paper.
    """
    nips = datasets[0]
    rows = runs(results, NIPS_RUNS, "nips", "leverage", WORDS_R).head(BEST_OF)
    bad = rows[rows["accuracy"] < GOOD].sort_values(["objective", *REPETITION])
    if bad.empty:
        raise NotRunError(f"none of {len(rows)} runs at r = {WORDS_R} has P < {GOOD}")
    run = bad.iloc[(len(bad) - 1) // 2]
    _, C = drawn_again(nips, run)
    rng = generator(int(run["seed"]), "nips", int(run["repeat"]), "starts")
    starts = starter(_NIPS_KMEANS, nips.A.shape[0], nips.k, nips.labels, rng)
    labels = lloyd(C, starts(C), _NIPS_KMEANS.max_iter).labels
    if not np.isclose(objective(nips.A, labels), run["objective"], rtol=1e-9):
        raise NotRunError("the rows of lf20_nips_runs were made with another k-means")
    with pinned(1):  # so that the points do not depend on the number of cores
        points = TSNE(init="pca", random_state=0).fit_transform(np.asarray(C, dtype=np.float64))
    same = {"repeat": run["repeat"], "objective": run["objective"], "accuracy": run["accuracy"]}
    return pd.DataFrame({**same, "x": points[:, 0].astype(float), "y": points[:, 1].astype(float), "cluster": labels})


@fact("lf20_sign_times", ["orl"])
def sign_times(datasets: Sequence[Dataset], results: Results) -> pd.DataFrame:
    """Return the seconds of drawing R and of multiplying by it, for random signs on ORL."""
    del results
    orl = datasets[0]
    reducer = RandomSign()
    lines = []
    reducer.reduce(orl.A, 10, generator(0, "warm-up"), None)
    for r in (10, 50, 100, 200, 300):
        for repeat in range(5):
            with Stopwatch() as draw:
                R = reducer.draw(orl.A, r, generator(0, "orl", "random_sign", r, repeat, "reduce"), None)
            with Stopwatch() as apply:
                reducer.apply(orl.A, R)
            lines.append((r, repeat, draw.seconds, apply.seconds))
    return pd.DataFrame(lines, columns=["r", "repeat", "draw_seconds", "apply_seconds"])


def _vectors(A: Matrix, k: int, rng: np.random.Generator) -> Dense:
    """Return approximate top-k right singular vectors (d×k) by Algorithm 3, with k random vectors."""
    Q, _ = np.linalg.qr(A @ rng.standard_normal((A.shape[1], k)))
    return np.ascontiguousarray(np.linalg.svd(np.asarray(A.T @ Q).T, full_matrices=False)[2].T)


@fact("lf20_vectors", ["orl", "nips"])
def vectors(datasets: Sequence[Dataset], results: Results) -> pd.DataFrame:
    """Return F and P of AV_k and of sampling by its scores, with k random vectors in Algorithm 3.

    r = 130 on ORL, in 100 runs, and 60 on NIPS, in as many runs as give ten bests of 100.
    """
    del results
    lines = []
    for data, r, protocol, times in zip(
        datasets, (ENOUGH, TABLE2_NIPS_R), (_ORL_KMEANS, _NIPS_KMEANS), (100, 10 * BEST_OF), strict=True
    ):
        n, truth = data.A.shape[0], np.asarray(data.labels)
        for repeat in range(times):
            rng = generator(0, data.name, "algorithm 3", repeat)
            starts = starter(protocol, n, data.k, truth, generator(0, data.name, repeat, "starts"))
            V = _vectors(data.A, data.k, rng)
            sampled = take_columns(data.A, *sample_columns(leverage_scores(V), r, rng))
            for method, C in (("approx_svd", np.asarray(data.A @ V)), ("leverage_approx", sampled)):
                labels = lloyd(C, starts(C), protocol.max_iter).labels
                lines.append((data.name, method, repeat, objective(data.A, labels), accuracy(truth, labels)))
    return pd.DataFrame(lines, columns=["dataset", "method", "repeat", "objective", "accuracy"])


FACTS = (words, selected_scores, tsne, sign_times, vectors)
