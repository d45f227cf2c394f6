"""What bmd09's figure needs of the words themselves: their leverage scores."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from kmdr.analysis.results import NotRunError, Results
from kmdr.claims.best_of import drawn_again, kept_run, runs
from kmdr.claims.catalogue import fact
from kmdr.datasets import Dataset
from kmdr.linalg import top_right_singular_vectors
from kmdr.reducers.leverage import leverage_scores

STUDY = "bmd09_table1"
BEST_OF = 30
FIGURE_R = 30
# Figure 1's labels.
NAMED = (
    *("ruyter", "hand", "information", "code", "universality", "sources"),
    *("tishby", "naftali", "hebrew", "neural", "center"),
)


@fact("bmd09_scores", ["nips"], studies=[STUDY])
def scores(datasets: Sequence[Dataset], results: Results) -> pd.DataFrame:
    """Leverage score p_i = ‖(V_k)_(i)‖²/k of every word, and how often the best of 30 runs drew it at r = 30."""
    nips = datasets[0]
    p = leverage_scores(top_right_singular_vectors(nips.A, nips.k))
    words = nips.feature_names or tuple(str(i) for i in range(len(p)))
    times = np.zeros(len(p), dtype=int)
    try:
        best = kept_run(runs(results, STUDY, "nips", "leverage", FIGURE_R).head(BEST_OF))
        times += np.bincount(drawn_again(nips, best)[0], minlength=len(p))
    except NotRunError:
        pass  # the scores are worth having without the sample
    return pd.DataFrame(
        {
            "index": np.arange(1, len(p) + 1),
            "word": words,
            "score": p,
            "rank": (-p).argsort(kind="stable").argsort(kind="stable") + 1,
            "named": np.isin(words, NAMED).astype(int),
            "drawn": times,
        }
    )


FACTS = (scores,)
