"""Scores against several reference labelings, in which some points may be noise.

P, NMI and ARI are each the best over the labelings, as for the benchmark battery of Gagolewski (2022), where several
partitions may be equally valid; the scores against labeling j, counted from 0, are ``accuracy_labelsj`` and so on.
Noise does not count: a labeling is compared with the clusters of the points that it does not mark. Metrics of plugins
that need true classes get the points that the first labeling does not mark.
"""

import re
from dataclasses import replace

import numpy as np

from kmdr.base.errors import UserError
from kmdr.linalg import Dense, Matrix
from kmdr.metrics.registry import BUILT_IN, Metric, metrics, score
from kmdr.metrics.scores import agreement

_TITLES = {"accuracy": "P", "nmi": "NMI", "ari": "ARI"}
_AGAINST = re.compile(rf"({'|'.join(_TITLES)})_labels(0|[1-9]\d*)")


def known_metric(name: str) -> Metric | None:
    """Return a metric by its name in rows, among them the scores against one labeling; None if it is unknown."""
    if name in metrics() or not (match := _AGAINST.fullmatch(name)):
        return metrics().get(name)
    return replace(metrics()[match[1]], name=name, label=f"{_TITLES[match[1]]} (labels{match[2]})")


def refuse_taken_names() -> None:
    """Refuse a metric of a plugin that has the name of a score against one of several labelings."""
    for name in metrics():
        if _AGAINST.fullmatch(name):
            raise UserError(
                f"a metric is named {name!r}, like a score against one of several labelings; rename it in its plugin"
            )


def agreements(references: Dense, labels: Dense, matching: str = "best") -> dict[str, float]:
    """Return the best P, NMI and ARI of a partition over the rows of references, and those against each if several."""
    parts = [agreement(row[row >= 0], labels[row >= 0], matching) for row in references]
    best = {name: max(part[name] for part in parts) for name in _TITLES}
    if len(parts) == 1:
        return best
    return best | {f"{name}_labels{j}": value for j, part in enumerate(parts) for name, value in part.items()}


def lacking(A: Matrix, references: Dense, labels: Dense, scores: dict[str, float]) -> dict[str, float]:
    """Return the metrics of plugins that scores lack because they need true classes, computed without noise."""
    known, present = np.asarray(references[0] >= 0), {*BUILT_IN, *scores}
    if known.all() or metrics().keys() <= present:
        return {}
    without_noise = score(A[known], labels[known], references[0][known])
    return {name: value for name, value in without_noise.items() if name not in present}


def score_against(
    A: Matrix, labels: Dense, references: Dense, matching: str = "best", total: float | None = None
) -> dict[str, float]:
    """Return the scores of `score` against several reference labelings.

    Parameters
    ----------
    references : (m, n) int array
        One labeling per row; a negative number is noise.
    """
    truth = references[0] if (references[0] >= 0).all() else None
    scores = score(A, labels, truth, matching, total)
    return scores | agreements(references, labels, matching) | lacking(A, references, labels, scores)
