"""Facts of lf20: leverage scores and words, the points of a bad run, and the time of drawing R."""

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
from kmdr.linalg import top_right_singular_vectors
from kmdr.metrics import objective
from kmdr.reducers.base import column_centred
from kmdr.reducers.leverage import leverage_scores, sample_columns
from kmdr.reducers.random_projection import RandomSign

from .protocol import BEST_OF, ENOUGH, GOOD, NIPS_RUNS, WORDS_R

# As in kmeans/lf20_nips.yaml; the F of the rows shows whether they were made with it.
_NIPS_KMEANS = Protocol(n_init=10, max_iter=30, start="sample")
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


FACTS = (words, selected_scores, tsne, sign_times)
