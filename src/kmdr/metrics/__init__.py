"""Scores of partitions, their compiled kernels, and the metrics of a row, built in or from plugins."""

from kmdr.metrics.registry import BUILT_IN, Metric, has_custom, metric, metrics, score
from kmdr.metrics.scores import (
    Residual,
    accuracy,
    agreement,
    check_matching,
    class_numbers,
    matching_modules,
    matchings,
    numberings,
    objective,
    residual,
    residuals,
)

__all__ = [
    "BUILT_IN",
    "Metric",
    "Residual",
    "accuracy",
    "agreement",
    "check_matching",
    "class_numbers",
    "has_custom",
    "matching_modules",
    "matchings",
    "metric",
    "metrics",
    "numberings",
    "objective",
    "residual",
    "residuals",
    "score",
]
