"""Facts of bmd09: the leverage scores of the words, their counts, and the agreement of partitions."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from kmdr.analysis.results import NotRunError, Results
from kmdr.analysis.rows import REPETITION
from kmdr.analysis.statistics import best_in_blocks
from kmdr.base.seeding import generator
from kmdr.claims.best_of import drawn_again, kept_run, runs
from kmdr.claims.catalogue import fact
from kmdr.clustering.kmeans import Protocol, lloyd, starter
from kmdr.datasets import Dataset
from kmdr.linalg import Dense, Matrix, top_right_singular_vectors
from kmdr.metrics import accuracy, objective
from kmdr.reducers.leverage import leverage_scores

STUDY = "bmd09_table1"
ONLINE = "flip_online_bmd09"
BEST_OF = 30
FIGURE_R = 30
# Figure 1's labels.
NAMED = (
    *("ruyter", "hand", "information", "code", "universality", "sources"),
    *("tishby", "naftali", "hebrew", "neural", "center"),
)


@fact("bmd09_scores", ["nips"], studies=[STUDY])
def scores(datasets: Sequence[Dataset], results: Results) -> pd.DataFrame:
    """Return leverage score p_i = ‖(V_k)_(i)‖²/k of every word, and how often the best of 30 runs drew it at r = 30."""
    nips = datasets[0]
    p = leverage_scores(top_right_singular_vectors(nips.A, nips.k))
    words = nips.feature_names or tuple(str(i) for i in range(len(p)))
    times = np.zeros(len(p), dtype=int)
    try:
        best = kept_run(runs(results, STUDY, "nips", "leverage", FIGURE_R).head(BEST_OF))
        times += np.bincount(drawn_again(nips, best)[0], minlength=len(p))
    except NotRunError:
        pass  # the scores are useful without the sample
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


# The classes of NIPS in the order of their labels: Control and Reinforcement Learning, Learning Theory, Neuroscience.
SECTIONS = ("CN", "LT", "NS")
# As in kmeans/bmd09.yaml; the F of the rows shows whether they were made with it.
_KMEANS = Protocol(n_init=30, max_iter=30, start="sample")


@fact("bmd09_words", ["nips"])
def words(datasets: Sequence[Dataset], results: Results) -> pd.DataFrame:
    """Return the occurrences of each word of Figure 1 in each section, and the number of its papers with the word.

    Columns ``word section occurrences papers of``, where ``of`` is the number of papers of the section.
    """
    del results
    nips = datasets[0]
    names, lines = nips.feature_names or (), []
    for word in NAMED:
        if word not in names or nips.labels is None:
            continue
        column = nips.A[:, [names.index(word)]]
        counts = np.asarray(column.todense() if hasattr(column, "todense") else column, dtype=float).ravel()
        for i, section in enumerate(SECTIONS):
            inside = counts[nips.labels == i]
            lines.append((word, section, int(inside.sum()), int((inside > 0).sum()), inside.size))
    return pd.DataFrame(lines, columns=["word", "section", "occurrences", "papers", "of"])


def _partition(nips: Dataset, C: Matrix, run: "pd.Series[Any]", protocol: Protocol) -> Dense:
    """Return the partition of a run on its C, clustered again from the run's starts.

    Raises
    ------
    NotRunError
        If its F differs from the run's.
    """
    rng = generator(int(run["seed"]), "nips", int(run["repeat"]), "starts")
    starts = starter(protocol, nips.A.shape[0], nips.k, nips.labels, rng)
    labels = lloyd(C, starts(C), protocol.max_iter, online=protocol.online).labels
    if not np.isclose(objective(nips.A, labels), run["objective"], rtol=1e-9):
        raise NotRunError(f"the rows of {run['study']} were made with another k-means")
    return labels


def _partitions_of(study: str, protocol: Protocol) -> Callable[[Sequence[Dataset], Results], pd.DataFrame]:
    def partitions(datasets: Sequence[Dataset], results: Results) -> pd.DataFrame:
        """Return the agreement of the best of each 30 runs at r = 30 with the run on all features of its repetition.

        Columns ``repeat``; ``agreement``, the share of papers in the same cluster under the best matching;
        ``agreement_of_full``, the same for the runs on all features of this repetition and the next (cyclically);
        ``named_drawn``, the number of Figure 1's words that the run drew.
        """
        nips = datasets[0]
        sampled = runs(results, study, "nips", "leverage", FIGURE_R).drop_duplicates(REPETITION)
        whole = {
            (int(run["seed"]), int(run["repeat"])): run for _, run in runs(results, study, "nips", "none").iterrows()
        }
        named = [i for i, word in enumerate(nips.feature_names or ()) if word in NAMED]
        repetitions, lines = sorted(whole), []
        for i in best_in_blocks(sampled["objective"], BEST_OF):
            run = sampled.iloc[int(i)]
            repetition = int(run["seed"]), int(run["repeat"])
            if repetition not in whole:
                continue
            columns, C = drawn_again(nips, run)
            following = repetitions[(repetitions.index(repetition) + 1) % len(repetitions)]
            kept = _partition(nips, C, run, protocol)
            full, other = (_partition(nips, nips.A, whole[name], protocol) for name in (repetition, following))
            agreements = accuracy(full, kept), accuracy(full, other)
            lines.append((repetition[1], *agreements, len({*columns.tolist()} & {*named})))
        return pd.DataFrame(lines, columns=["repeat", "agreement", "agreement_of_full", "named_drawn"])

    return partitions


partitions = fact("bmd09_partitions", ["nips"], studies=[STUDY])(_partitions_of(STUDY, _KMEANS))
online = fact("bmd09_partitions_online", ["nips"], studies=[ONLINE])(
    _partitions_of(ONLINE, replace(_KMEANS, online=True))
)

FACTS = (scores, words, partitions, online)
