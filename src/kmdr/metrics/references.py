"""Scores against several reference labelings, in which some points may be noise.

P, NMI and ARI are each the best over the labelings, as for the benchmark battery of Gagolewski (2022), where several
partitions may be equally valid; the scores against labeling j, counted from 0, are ``accuracy_labelsj`` and so on.
Noise does not count: a labeling is compared with the clusters of the points that it does not mark. Metrics of plugins
that need true classes get the points that the first labeling does not mark.
"""

import re

import numpy as np

from kmdr.linalg import Dense, Matrix
from kmdr.metrics.registry import BUILT_IN, Metric, metrics, score
from kmdr.metrics.scores import Residual, agreement

_TITLES = {"accuracy": "P", "nmi": "NMI", "ari": "ARI"}
_AGAINST = re.compile(rf"({'|'.join(_TITLES)})_labels(0|[1-9]\d*)")


def known_metric(name: str) -> Metric | None:
    """Return a metric by its name in rows, among them the scores against one labeling; None if it is unknown."""
    if name in metrics() or not (match := _AGAINST.fullmatch(name)):
        return metrics().get(name)
    measure = metrics()[match[1]]
    label = f"{_TITLES[match[1]]} (labels{match[2]})"
    return Metric(name, label, measure.low, measure.high, measure.better, measure.function)


def agreements(references: Dense, labels: Dense, matching: str = "best") -> dict[str, float]:
    """Return the best P, NMI and ARI of a partition over the rows of references, and those against each if several."""
    parts = [agreement(row[row >= 0], labels[row >= 0], matching) for row in references]
    best = {name: max(part[name] for part in parts) for name in _TITLES}
    if len(parts) == 1:
        return best
    return best | {f"{name}_labels{j}": value for j, part in enumerate(parts) for name, value in part.items()}


def lacking(A: Matrix, references: Dense, labels: Dense, scores: dict[str, float]) -> dict[str, float]:
    """Return the metrics of plugins that are not in scores because they need true classes."""
    known = np.asarray(references[0] >= 0)
    if known.all():
        return {}
    absent = [measure for name, measure in metrics().items() if name not in BUILT_IN and name not in scores]
    rows = A[known] if absent else A
    values = {measure.name: measure.function(rows, labels[known], references[0][known]) for measure in absent}
    return {name: float(value) for name, value in values.items() if value is not None}


def score_against(
    A: Matrix,
    labels: Dense,
    references: Dense,
    matching: str = "best",
    total: float | None = None,
    residual: Residual | None = None,
) -> dict[str, float]:
    """Return what `score` does, against several reference labelings.

    Parameters
    ----------
    references : (m, n) int array
        One labeling per row; a negative number is noise.
    """
    truth = references[0] if (references[0] >= 0).all() else None
    scores = score(A, labels, truth, matching, total, residual)
    return scores | agreements(references, labels, matching) | lacking(A, references, labels, scores)
