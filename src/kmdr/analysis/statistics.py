"""Tests of the claims: small pure functions, each of which states what it assumes.

A test returns a `Component`: an effect with its interval, and two p-values. ``p_for`` is small when the data speak for
the statement, ``p_against`` when they speak against it; when neither is, the data do not decide. Equality is tested by
two one-sided tests against a margin, so that few data never pass for equality.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln
from scipy.stats import beta, binomtest
from scipy.stats import t as student

from kmdr.analysis.rows import half_width, standard_error

Floats = NDArray[np.float64]


class Component(NamedTuple):
    """One of the statements that a claim is made of.

    Attributes
    ----------
    label : str
        What was compared, with what it is tested against.
    effect, low, high : float
        Estimate and 95 % interval.
    p_for, p_against : float
        p-values of the hypotheses that the statement is false, and that it is true.
    n : int
        Repetitions.
    unit : str
        Of the effect, e.g. ``"F"``, ``"P"``, ``"ratio of times"``.
    """

    label: str
    effect: float
    low: float
    high: float
    p_for: float
    p_against: float
    n: int
    unit: str


def _t(values: Floats, threshold: float) -> tuple[float, float, float, float]:
    """Return half-width of the 95 % interval, and the one-sided p-values of mean ≤ and of mean ≥ threshold."""
    n, mean = values.size, float(values.mean())
    if n < 2:
        return math.nan, math.nan, 1.0, 1.0
    # Equal values are not independent draws of a law but one computation repeated: what they say is certain.
    if float(np.ptp(values)) <= 1e-12 * max(1.0, abs(mean)):
        return mean, mean, float(mean <= threshold), float(mean >= threshold)
    half, t = half_width(values), (mean - threshold) / standard_error(values)
    return mean - half, mean + half, float(student.sf(t, n - 1)), float(student.cdf(t, n - 1))


def _clean(values: ArrayLike) -> Floats:
    x = np.asarray(values, dtype=float).ravel()
    if x.size == 0 or not np.isfinite(x).all():
        raise ValueError("a test needs at least one value, and all of them finite")
    return np.sort(x)  # so that sums do not depend on the order of the rows


def above(label: str, values: ArrayLike, threshold: float = 0.0, unit: str = "") -> Component:
    """Test that a mean is above a threshold, by Student's t.

    Assumes independent repetitions whose mean is close to normal. Pairs enter as their differences. Values that are
    all equal decide with certainty.

    Parameters
    ----------
    label : str
    values : array_like
        One a repetition.
    threshold : float
    unit : str
    """
    x = _clean(values)
    low, high, p_for, p_against = _t(x, threshold)
    return Component(label, float(x.mean()), low, high, p_for, p_against, x.size, unit)


def below(label: str, values: ArrayLike, threshold: float = 0.0, unit: str = "") -> Component:
    """Test that a mean is below a threshold; see `above`."""
    x = _clean(values)
    low, high, p_against, p_for = _t(x, threshold)
    return Component(label, float(x.mean()), low, high, p_for, p_against, x.size, unit)


def equal(label: str, values: ArrayLike, margin: float, unit: str = "") -> Component:
    """Test that a mean lies within ± margin of zero, by two one-sided t tests (Schuirmann 1987).

    ``p_against`` is the two-sided p-value of the hypothesis that it lies within. Assumptions as for `above`.

    Parameters
    ----------
    label : str
    values : array_like
        Paired differences, one a repetition.
    margin : float
        Differences up to this count as equal.
    unit : str
    """
    x = _clean(values)
    low, high, p_not_above, p_above = _t(x, -margin)
    _, _, p_below, p_not_below = _t(x, margin)
    p_for = max(p_not_above, p_not_below)
    p_against = min(1.0, 2 * min(p_above, p_below))
    return Component(label, float(x.mean()), low, high, p_for, p_against, x.size, unit)


def share(label: str, successes: int, n: int, threshold: float, *, at_most: bool = False) -> Component:
    """Test that a probability is above a threshold (or, with ``at_most``, below it), by the binomial law.

    Exact; the interval is Clopper and Pearson's. Assumes independent trials of one probability.

    Parameters
    ----------
    label : str
    successes, n : int
    threshold : float
    at_most : bool
    """
    above, below = (binomtest(successes, n, threshold, alternative=side) for side in ("greater", "less"))
    p_for, p_against = (below.pvalue, above.pvalue) if at_most else (above.pvalue, below.pvalue)
    # Of binomtest the interval is found by search, to nine digits; the quantiles have all.
    low = float(beta.ppf(0.025, successes, n - successes + 1)) if successes else 0.0
    high = float(beta.ppf(0.975, successes + 1, n - successes)) if successes < n else 1.0
    return Component(label, successes / n, low, high, float(p_for), float(p_against), n, "share")


class BestOf(NamedTuple):
    """Law of the run that a best-of-m selection keeps: the runs' positions by F, and the probability of each."""

    order: NDArray[np.int64]
    weights: Floats

    def mean(self, values: ArrayLike) -> float:
        """Return the mean of a quantity of the run that is kept."""
        return float(self.weights @ np.asarray(values, dtype=float)[self.order])

    def place(self, values: ArrayLike, value: float) -> tuple[float, float]:
        """Return the probabilities that the quantity of the run that is kept is ≤ and ≥ a value."""
        x = np.asarray(values, dtype=float)[self.order]
        return float(self.weights[x <= value].sum()), float(self.weights[x >= value].sum())

    def quantile(self, values: ArrayLike, level: float) -> float:
        """Return the smallest value that is reached with probability ``level``."""
        x = np.asarray(values, dtype=float)[self.order]
        by_value = np.argsort(x, kind="stable")
        reached = np.searchsorted(np.cumsum(self.weights[by_value]), level - 1e-12)
        return float(x[by_value][min(int(reached), x.size - 1)])


def best_of(F: ArrayLike, m: int) -> BestOf:
    """Return the law of the best of m runs by F, estimated from N ≥ m runs.

    The best of a random m of the N runs is the i-th smallest with probability C(N − i, m − 1)/C(N, m), i from 1: the
    mean over all subsets, which is unbiased for independent runs. Ties go by position.

    Parameters
    ----------
    F : (N,) array_like
    m : int

    Raises
    ------
    ValueError
        When N < m.
    """
    x = np.asarray(F, dtype=float)
    N = x.size
    if m > N:
        raise ValueError(f"the best of {m} cannot be told from {N} runs")
    i = np.arange(1, N - m + 2)
    logs = _log_choose(N - i, m - 1) - _log_choose(np.array([N]), m)
    weights = np.zeros(N)
    weights[: N - m + 1] = np.exp(logs)
    return BestOf(np.argsort(x, kind="stable"), weights / weights.sum())


def _log_choose(n: NDArray[np.int64], m: int) -> Floats:
    return np.asarray(gammaln(n + 1.0) - gammaln(m + 1.0) - gammaln(n - m + 1.0))


def slopes(lines: ArrayLike, x: ArrayLike) -> Floats:
    """Return the least-squares slope of each line on x.

    Parameters
    ----------
    lines : (n, m) array_like
    x : (m,) array_like
        Not all equal.

    Returns
    -------
    (n,) ndarray
    """
    sizes = np.asarray(x, dtype=float)
    centred = sizes - sizes.mean()
    return np.asarray(np.asarray(lines, dtype=float) @ centred / (centred @ centred))


def holm(p: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values: rejecting those ≤ α errs on any with probability ≤ α, whatever their dependence.

    Holm, Scandinavian Journal of Statistics 6, 1979.
    """
    order = sorted(range(len(p)), key=lambda i: p[i])
    adjusted, largest = [0.0] * len(p), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p) - rank) * p[i]))
        adjusted[i] = largest
    return adjusted


def directional(pairs: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the p-values for and against several claims, corrected by Holm on the smaller of each; the other is 1.

    Of a claim and its contrary one is true, so a claim can be decided wrongly in one direction only, and there are as
    many ways to err as claims: each decided way at α, any is wrong with probability ≤ α. Bonferroni's first step has
    that whatever the dependence of the claims; the further ones for independent claims (Shaffer, Annals of Statistics
    8, 1980).

    Parameters
    ----------
    pairs : sequence of (float, float)
        p-values for and against each claim.
    """
    adjusted = holm([min(pair) for pair in pairs])
    return [(p, 1.0) if p_for <= p_against else (1.0, p) for p, (p_for, p_against) in zip(adjusted, pairs, strict=True)]


def conjunction(components: Sequence[Component]) -> tuple[float, float]:
    """Return p_for and p_against of the claim that all components hold.

    For: the largest (an intersection–union test; Berger 1982). Against: Bonferroni's bound on the smallest.

    Raises
    ------
    ValueError
        When one of them has a p-value that is no probability: it would pass for an open statement.
    """
    for component in components:
        if not (0 <= component.p_for <= 1 and 0 <= component.p_against <= 1):
            raise ValueError(f"{component.label!r} has p-values {component.p_for} and {component.p_against}")
    p_for = max(component.p_for for component in components)
    p_against = min(1.0, len(components) * min(component.p_against for component in components))
    return p_for, p_against


def _of_logs(component: Component) -> Component:
    """Return a component on logarithms as one on ratios."""
    effect, low, high = (math.exp(value) for value in (component.effect, component.low, component.high))
    return component._replace(effect=effect, low=low, high=high)


def ratio_above(label: str, ratios: ArrayLike, threshold: float = 1.0, unit: str = "ratio of times") -> Component:
    """Test that a geometric mean of positive ratios is above a threshold: `above` on their logarithms.

    Parameters
    ----------
    label : str
    ratios : array_like
        One a repetition.
    threshold : float
    unit : str
    """
    return _of_logs(above(label, np.log(_clean(ratios)), math.log(threshold), unit))


def ratio_below(label: str, ratios: ArrayLike, threshold: float = 1.0, unit: str = "ratio of times") -> Component:
    """Test that a geometric mean of positive ratios is below a threshold; see `ratio_above`."""
    return _of_logs(below(label, np.log(_clean(ratios)), math.log(threshold), unit))


def best_in_blocks(F: ArrayLike, m: int) -> NDArray[np.int64]:
    """Return the position of the run of smallest F in each block of m successive runs.

    What an experimenter who keeps the best of m runs would have got, time and again: independent when the runs are.
    A last block that is not full is left out, unless it is the only one.

    Parameters
    ----------
    F : (N,) array_like
    m : int

    Returns
    -------
    (max(1, N // m),) ndarray of int64
    """
    x = np.asarray(F, dtype=float)
    size = min(m, x.size)
    blocks = x[: x.size // size * size].reshape(-1, size)
    return np.asarray(blocks.argmin(axis=1) + size * np.arange(len(blocks)), dtype=np.int64)
