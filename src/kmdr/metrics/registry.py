"""The metrics of a row, built in or from plugins."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Literal

from kmdr.base.errors import UserError, plain_name, shown
from kmdr.base.plugins import Registry
from kmdr.linalg import Dense, Matrix
from kmdr.linalg.matrix import read_only
from kmdr.metrics.scores import Residual, _ari, _contingency, _nmi, accuracy, agreement, objective

# Largest excess of a metric over its range by rounding.
_SLACK = 1e-9


@dataclass(frozen=True)
class Metric:
    """A measure of a partition.

    Attributes
    ----------
    name, label : str
        As in rows, and as in figures and tables.
    low, high : float
        Its range; either may be infinite.
    function : callable
        From A (n×d, perhaps scaled by a power of two), the labels of the partition and the true ones (n each, or None)
        to a number, or None if it is not defined.
    """

    name: str
    label: str
    low: float
    high: float
    better: Literal["higher", "lower"]
    function: Callable[[Matrix, Dense, Dense | None], float | None]


_registry: Registry[Metric] = Registry("metrics")


def built_in_metric(
    name: str, label: str, low: float, high: float, better: Literal["higher", "lower"]
) -> Callable[[Callable[[Matrix, Dense, Dense | None], float | None]], Metric]:
    """Register the decorated function."""

    def add(function: Callable[[Matrix, Dense, Dense | None], float | None]) -> Metric:
        measure = Metric(name, label, low, high, better, function)
        _registry.add(name, function.__module__, measure)
        return measure

    return add


def metric(
    name: str, label: str, low: float, high: float, better: Literal["higher", "lower"]
) -> Callable[[Callable[[Matrix, Dense, Dense | None], float | None]], Metric]:
    """Register a plugin's function as a metric, which scores every trial and which figures can show.

    The function gets read-only views: the labels that rows keep, and other metrics, must not depend on it.

    Raises
    ------
    UserError
        If the name is not one of letters, digits, ``-`` and ``_``, the label not a string, or the range not valid.
    """
    plain_name("the name of a metric", name)
    if not isinstance(label, str):
        raise UserError(f"metric {name}: the label {shown(label)} is not a string; give the name that tables show")
    if not all(isinstance(limit, int | float) for limit in (low, high)) or not low < high:
        raise UserError(f"metric {name}: {shown(low)} to {shown(high)} is not a range; give two numbers, low < high")
    if better not in ("higher", "lower"):
        raise UserError(f"metric {name}: better = {shown(better)} is not a direction; give 'higher' or 'lower'")

    def add(function: Callable[[Matrix, Dense, Dense | None], float | None]) -> Metric:
        @wraps(function)
        def look(A: Matrix, labels: Dense, truth: Dense | None) -> float | None:
            return function(*map(read_only, (A, labels, truth)))

        return built_in_metric(name, label, low, high, better)(look)

    return add


@built_in_metric("objective", "normalised objective F", 0.0, 1.0, "lower")
def _objective(A: Matrix, labels: Dense, truth: Dense | None) -> float:
    del truth
    return objective(A, labels)


@built_in_metric("accuracy", "accuracy P", 0.0, 1.0, "higher")
def _P(A: Matrix, labels: Dense, truth: Dense | None) -> float | None:  # noqa: N802  the papers' letter
    del A
    return None if truth is None else accuracy(truth, labels)


@built_in_metric("nmi", "NMI", 0.0, 1.0, "higher")
def _information(A: Matrix, labels: Dense, truth: Dense | None) -> float | None:
    del A
    return None if truth is None else _nmi(_contingency(truth, labels))


@built_in_metric("ari", "ARI", -0.5, 1.0, "higher")
def _rand(A: Matrix, labels: Dense, truth: Dense | None) -> float | None:
    del A
    return None if truth is None else _ari(_contingency(truth, labels))


BUILT_IN = ("objective", "accuracy", "nmi", "ari")


def metrics() -> Mapping[str, Metric]:
    """Return all metrics by name, first the built-in ones, then the plugins'."""
    return _registry.known()


def has_custom() -> bool:
    """Return whether a plugin has metrics."""
    return len(metrics()) > len(BUILT_IN)


def score(
    A: Matrix,
    labels: Dense,
    truth: Dense | None,
    matching: str = "best",
    total: float | None = None,
    residual: Residual | None = None,
    *,
    custom: bool = True,
) -> dict[str, float]:
    """Return every metric that is defined for a partition, each within its range.

    Parameters
    ----------
    A : (n, d) array or CSR
    labels : (n,) int array
    truth : (n,) int array or None
    matching : str
        The matching of clusters to classes for ``accuracy``, see `agreement`.
    total, residual
        As for `objective`.
    custom : bool
        Whether the metrics of plugins are computed, too.

    Raises
    ------
    ArithmeticError
        If a metric is outside its range by more than rounding.
    """
    scores: dict[str, float] = {"objective": objective(A, labels, total, residual)}
    if truth is not None:
        scores |= agreement(truth, labels, matching)
    for name, measure in metrics().items():
        if custom and name not in BUILT_IN and (value := measure.function(A, labels, truth)) is not None:
            scores[name] = float(value)
        if name in scores and not measure.low - _SLACK <= scores[name] <= measure.high + _SLACK:
            raise ArithmeticError(
                f"{name} = {scores[name]!r} is outside its range, {measure.low:g} to {measure.high:g}"
            )
    return scores
