"""Tests of the claims: small pure functions with stated assumptions.

A test returns a `Component`: an effect with its interval, and two p-values. F, P and shares are tested by their means,
times by their medians. ``p_for`` is small when the data support the statement, ``p_against`` when they contradict it;
when neither is small, the statement is undecided. Equality is tested by two one-sided tests against a margin, so that
too little data never count as equality.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, ndtri, stdtr, stdtrit
from scipy.stats import beta, binom, binomtest

from kmdr.analysis.rows import half_width, median_interval, standard_error
from kmdr.analysis.significance import LEVEL

# Differences up to this share of the scale of the compared numbers are rounding errors and count as zero.
ROUNDING = 1e-12

Floats = NDArray[np.float64]


Kind = Literal["number", "statement", "time"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class Margin(NamedTuple):
    """An equivalence bound that kmdr chose because the paper's words leave it open.

    Attributes
    ----------
    what : str
        The bounded quantity, in words.
    marks : mapping of str to float
        Values that the paper suggests, by the reason for each.
    least, most : float
        The range in which it is varied; by default from a tenth to ten times its value.
    """

    value: float
    what: str
    marks: Mapping[str, float] = {}
    least: float | None = None
    most: float | None = None

    def __float__(self) -> float:
        """Return the value."""
        return float(self.value)

    def __format__(self, form: str) -> str:
        """Return the value, formatted."""
        return format(self.value, form)


class Component(NamedTuple):
    """A tested statement of a claim.

    Attributes
    ----------
    label : str
        The comparison and the tested bound, in words.
    effect, low, high : float
        Estimate and 95 % interval.
    p_for, p_against : float
        p-values of the null hypotheses that the statement is false, and that it is true.
    n : int
        Number of repetitions.
    unit : str
        Unit of the effect, e.g. ``"F"``, ``"P"``, ``"ratio of times"``.
    kind : {"number", "statement", "time"}
        A reported value, a statement on F and P, or a statement on time.
    margin : Margin or None
        The tested bound, if kmdr chose it.
    against : callable or None
        The same test with another value of the margin.
    part : str
        The part of the claim's sentence that it belongs to; see `kmdr.claims.catalogue.Claim`.
    reported : float
        The value that the paper reports, from which the effect is the difference; NaN if it reports none.
    bounds : tuple of float
        The smallest and the largest effect for which the statement is true; infinite without a bound.
    binomial : bool
        Whether it is tested as a share of independent trials, by `share`.
    """

    label: str
    effect: float
    low: float
    high: float
    p_for: float
    p_against: float
    n: int
    unit: str
    kind: Kind = "statement"
    margin: Margin | None = None
    against: "Callable[[float], Component] | None" = None
    part: str = ""
    reported: float = math.nan
    bounds: tuple[float, float] = (-math.inf, math.inf)
    binomial: bool = False


def with_margin(component: Component, bound: float | Margin, test: "Callable[[float], Component]") -> Component:
    """Return a component with its margin and its test if the bound is a margin."""
    return component._replace(margin=bound, against=test) if isinstance(bound, Margin) else component


def _skewness(x: Floats) -> float:
    """Return the skewness of a mean as the t test allows for it; 0 for two values, which show none.

    It is the skewness of the values, by unbiased cumulants, divided by √n. Small samples underestimate the skewness of
    their distribution, so it is multiplied by 1 + 2/√n, a factor chosen by simulation (`above`).
    """
    n = x.size
    if n < 3:
        return 0.0
    cubes = float((((x - x.mean()) / x.std(ddof=1)) ** 3).sum())
    return n / ((n - 1) * (n - 2)) * cubes * (1 + 2 / math.sqrt(n)) / math.sqrt(n)


def _hall(t: float, skewness: float) -> float:
    """Return Hall's transformation of a t statistic: monotone in t, and with the skewness removed."""
    bend = skewness * t / 3
    return t * (1 + bend * (1 + bend / 3)) + skewness / 6


def _hall_inverse(transformed: float, skewness: float) -> float:
    """Return the inverse of `_hall`."""
    rest = transformed - skewness / 6
    root = math.cbrt(1 + skewness * rest)
    return 3 * rest / (1 + root + root * root)  # 3 (root − 1)/skewness, also where that is 0/0


def is_rounding(difference: ArrayLike, scale: float | Floats = 1.0) -> NDArray[np.bool_]:
    """Return a mask of the differences that are rounding errors of numbers with magnitudes up to a scale."""
    return np.asarray(np.abs(np.asarray(difference, dtype=float)) <= ROUNDING * scale)


def _t(values: Floats, threshold: float, scale: float = 1.0) -> tuple[float, float, float, float]:
    """Return the ends of the 95 % interval, and the one-sided p-values of mean ≤ and of mean ≥ threshold."""
    n, mean = values.size, float(values.mean())
    if n < 2:
        return math.nan, math.nan, 1.0, 1.0
    # Equal values are not independent draws but one computation repeated, so the result is certain.
    if is_rounding(np.ptp(values), max(scale, abs(mean))):
        return mean, mean, float(mean <= threshold), float(mean >= threshold)
    error, skewness = standard_error(values), _skewness(values)
    t = (mean - threshold) / error
    transformed = _hall(t, skewness)
    p_for, p_against = stdtr(n - 1, -min(t, transformed)), stdtr(n - 1, max(t, transformed))
    half = half_width(values)
    down, up = (error * _hall_inverse(end / error, skewness) for end in (half, -half))
    return mean - max(half, down), mean - min(-half, up), float(p_for), float(p_against)


def _clean(values: ArrayLike) -> Floats:
    x = np.asarray(values, dtype=float).ravel()
    if x.size == 0 or not np.isfinite(x).all():
        raise ValueError("a test needs at least one value, and all of them finite")
    return np.sort(x)  # so that sums do not depend on the order of the rows


def _settled(values: ArrayLike, threshold: float, scale: float = 1.0) -> Floats:
    """Return the sorted values; values within rounding of a threshold are set to it."""
    x = _clean(values)
    return np.where(is_rounding(x - threshold, max(scale, abs(threshold))), threshold, x)


def above(
    label: str, values: ArrayLike, threshold: float | Margin = 0.0, unit: str = "", *, scale: float = 1.0
) -> Component:
    """Test that a mean is above a threshold, by a t test that keeps its level on skewed values.

    The p-value is the larger of two, and the interval has the wider end of two: Student's, and Student's after Hall's
    monotone cubic transformation, which removes the skewness of the mean from the t statistic. Pairs enter as their
    differences. Values that are all equal decide with certainty. Values that differ from the threshold by at most
    `ROUNDING` times the scale count as equal to it.

    Parameters
    ----------
    values : array_like
        One value per repetition.
    scale : float
        Magnitude of the numbers whose differences are tested; 1 suits shares, relative differences and logarithms.

    Notes
    -----
    With n values of mean x̄, deviation s and skewness g, a = g/√n and t = √n(x̄ − θ)/s, Hall's transformation is
    t + at²/3 + a²t³/27 + a/6. It assumes independent repetitions of a distribution with a third moment.

    Error rates at level 5 % on the side of the long tail, for gamma, Weibull, extreme-value and log-normal
    distributions of skewness 1 to 2: with 10 to 100 values, Student's test errs in 6 to 14 % and this test in 4 to
    6½ %; with 5 values, which show little of the skewness, in 9 to 16 % and 5 to 8 %. For normal values where Student's
    test has a power of 90 %, this test has 71 % (5 values), 79 % (10) and 89 % (30).

    References
    ----------
    Hall, On the removal of skewness by transformation, Journal of the Royal Statistical Society B 54, 1992.
    """
    x = _settled(values, float(threshold), scale)
    low, high, p_for, p_against = _t(x, float(threshold), scale)
    component = Component(label, float(x.mean()), low, high, p_for, p_against, x.size, unit)
    component = component._replace(bounds=(float(threshold), math.inf))
    return with_margin(component, threshold, partial(above, label, _clean(values), unit=unit, scale=scale))


def below(label: str, values: ArrayLike, threshold: float | Margin = 0.0, unit: str = "") -> Component:
    """Test that a mean is below a threshold; see `above`."""
    x = _settled(values, float(threshold))
    low, high, p_against, p_for = _t(x, float(threshold))
    component = Component(label, float(x.mean()), low, high, p_for, p_against, x.size, unit)
    component = component._replace(bounds=(-math.inf, float(threshold)))
    return with_margin(component, threshold, partial(below, label, _clean(values), unit=unit))


def not_inferior(label: str, values: ArrayLike, margin: float | Margin, unit: str = "") -> Component:
    """Test that a mean is above −margin; see `above`."""
    component = above(label, values, -float(margin), unit)
    return with_margin(component, margin, partial(not_inferior, label, _clean(values), unit=unit))


def equal(label: str, values: ArrayLike, margin: float | Margin, unit: str = "", *, centre: float = 0.0) -> Component:
    """Test that a mean lies within ± margin of a centre, by two one-sided t tests (Schuirmann 1987).

    ``p_against`` is the two-sided p-value of the null hypothesis that it lies within. Assumptions as for `above`; the
    values are paired differences, one per repetition.
    """
    x = _settled(values, centre)
    low, high, p_not_above, p_above = _t(_settled(x, centre - float(margin)), centre - float(margin))
    _, _, p_below, p_not_below = _t(_settled(x, centre + float(margin)), centre + float(margin))
    p_for = max(p_not_above, p_not_below)
    p_against = min(1.0, 2 * min(p_above, p_below))
    component = Component(label, float(x.mean()), low, high, p_for, p_against, x.size, unit)
    component = component._replace(bounds=(centre - float(margin), centre + float(margin)))
    return with_margin(component, margin, partial(equal, label, x, unit=unit, centre=centre))


def certain(label: str, value: float, bound: float | Margin, n: int, unit: str, *, at_most: bool = False) -> Component:
    """Compare a deterministic value, computed from n numbers, with a lower (or, with ``at_most``, upper) bound."""
    rounding = bool(is_rounding(value - float(bound), max(1.0, abs(value))))
    holds = rounding or (value <= float(bound) if at_most else value >= float(bound))
    component = Component(label, value, value, value, float(not holds), float(holds), n, unit)
    component = component._replace(bounds=(-math.inf, float(bound)) if at_most else (float(bound), math.inf))
    return with_margin(component, bound, partial(certain, label, value, n=n, unit=unit, at_most=at_most))


def share(label: str, successes: int, n: int, threshold: float, *, at_most: bool = False) -> Component:
    """Test that a probability is above a threshold (or, with ``at_most``, below it), by the exact binomial test.

    The interval is Clopper and Pearson's. It assumes independent trials with the same probability.
    """
    above, below = (binomtest(successes, n, threshold, alternative=side) for side in ("greater", "less"))
    p_for, p_against = (below.pvalue, above.pvalue) if at_most else (above.pvalue, below.pvalue)
    # binomtest finds its interval by a search, to nine digits; quantiles have all digits.
    low = float(beta.ppf(0.025, successes, n - successes + 1)) if successes else 0.0
    high = float(beta.ppf(0.975, successes + 1, n - successes)) if successes < n else 1.0
    component = Component(label, successes / n, low, high, float(p_for), float(p_against), n, "share")
    return component._replace(bounds=(-math.inf, threshold) if at_most else (threshold, math.inf), binomial=True)


def repetitions_to_show(p: ArrayLike, n: ArrayLike, level: float, power: float = 0.9) -> Floats:
    """Return about how many repetitions show an effect as large as the one that n repetitions show.

    Parameters
    ----------
    p : array_like
        One-sided p-values of t tests with n repetitions; from 0.5 on, they show no effect, and the result is NaN.
    level : float
        One-sided level at which the effect is to be shown, with probability ``power``.

    References
    ----------
    Guenther, Sample size formulas for normal theory t tests, The American Statistician 35, 1981.
    """
    counts = np.asarray(n, dtype=float)
    t = np.asarray(stdtrit(counts - 1, 1 - np.asarray(p, dtype=float)))
    z = ndtri(1 - level)
    with np.errstate(divide="ignore", invalid="ignore"):
        needed = np.ceil(counts * ((z + ndtri(power)) / t) ** 2 + z**2 / 2)
    return np.where((t > 0) & np.isfinite(needed), np.maximum(needed, 2), np.nan)


class BestOf(NamedTuple):
    """Distribution of the run that a best-of-m selection keeps: positions of the runs by F, and their probabilities."""

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
    """Return the distribution of the best of m runs by F, estimated from N ≥ m runs.

    The best of m random runs is the i-th smallest with probability C(N − i, m − 1)/C(N, m), i from 1. This is the mean
    over all subsets, which is unbiased for independent runs. Ties are broken by position.

    Raises
    ------
    ValueError
        If N < m.
    """
    x = np.asarray(F, dtype=float)
    N = x.size
    if m > N:
        raise ValueError(f"the best of m = {m} runs cannot be estimated from N = {N} runs; give at least m runs")
    i = np.arange(1, N - m + 2)
    logs = _log_choose(N - i, m - 1) - _log_choose(np.array([N]), m)
    weights = np.zeros(N)
    weights[: N - m + 1] = np.exp(logs)
    return BestOf(np.argsort(x, kind="stable"), weights / weights.sum())


def _log_choose(n: NDArray[np.int64], m: int) -> Floats:
    return np.asarray(gammaln(n + 1.0) - gammaln(m + 1.0) - gammaln(n - m + 1.0))


def slopes(lines: ArrayLike, x: ArrayLike) -> Floats:
    """Return the least-squares slope of each row of ``lines`` (n, m) on ``x`` (m,), whose values are not all equal."""
    sizes = np.asarray(x, dtype=float)
    centred = sizes - sizes.mean()
    return np.asarray(np.asarray(lines, dtype=float) @ centred / (centred @ centred))


def conjunction(components: Sequence[Component]) -> tuple[float, float]:
    """Return p_for and p_against of the claim that all components are true.

    p_for is the largest (an intersection–union test; Berger 1982), p_against Bonferroni's bound on the smallest.

    Raises
    ------
    ValueError
        If a p-value is NaN or outside 0 to 1, which would otherwise count as an undecided statement.
    """
    for component in components:
        if not (0 <= component.p_for <= 1 and 0 <= component.p_against <= 1):
            raise ValueError(f"{component.label!r} has p-values {component.p_for} and {component.p_against}")
    p_for = max(component.p_for for component in components)
    p_against = min(1.0, len(components) * min(component.p_against for component in components))
    return p_for, p_against


def several(label: str, groups: Mapping[str, Sequence[Component]], least: int) -> Component:
    """Test that all statements are true in at least some of several groups.

    The p-values are a partial conjunction (Benjamini & Heller, Biometrics 64, 2008) of the groups' p-values. At least
    u of m groups are true: p_for is m − u + 1 times the u-th smallest. Fewer are true if m − u + 1 are false: p_against
    is u times the (m − u + 1)-th smallest. With u = m this is `conjunction`. The effect is the number of groups that
    are true at `LEVEL`, unadjusted. The first margin of a statement becomes the margin of the whole.

    Parameters
    ----------
    groups : mapping of str to sequence of Component
        At least one group, each with at least one component.
    least : int
        The number u; at most the number of groups is used.
    """
    u, m = min(least, len(groups)), len(groups)
    pairs = [conjunction(components) for components in groups.values()]
    p_for = min(1.0, (m - u + 1) * sorted(p for p, _ in pairs)[u - 1])
    p_against = min(1.0, u * sorted(p for _, p in pairs)[m - u])
    every = [component for components in groups.values() for component in components]
    margins = [component.margin for component in every if component.margin]
    holding = sum(p <= LEVEL for p, _ in pairs)
    whole = Component(
        label, holding, math.nan, math.nan, p_for, p_against, min(c.n for c in every), "groups", every[0].kind
    )
    return whole._replace(margin=margins[0], against=partial(_several_at, label, groups, least)) if margins else whole


def _several_at(label: str, groups: Mapping[str, Sequence[Component]], least: int, margin: float) -> Component:
    return several(label, {name: [retest(part, margin) for part in parts] for name, parts in groups.items()}, least)


def retest(component: Component, margin: float) -> Component:
    """Return a component tested against another value of its margin; unchanged if it has no margin."""
    if component.against is None:
        return component
    return component.against(margin)._replace(kind=component.kind, part=component.part)


def _exponentiated(component: Component) -> Component:
    """Return a component of logarithms as a component of ratios."""
    effect, low, high, *bounds = map(math.exp, (component.effect, component.low, component.high, *component.bounds))
    return component._replace(effect=effect, low=low, high=high, bounds=(bounds[0], bounds[1]))


def ratio_above(
    label: str, ratios: ArrayLike, threshold: float | Margin = 1.0, unit: str = "ratio of times"
) -> Component:
    """Test that a geometric mean of positive ratios is above a threshold: `above` on their logarithms."""
    x = _clean(ratios)
    component = _exponentiated(above(label, np.log(x), math.log(float(threshold)), unit))
    return with_margin(component, threshold, partial(ratio_above, label, x, unit=unit))


def _median_test(values: Floats, threshold: float) -> tuple[float, float]:
    """Return the one-sided p-values of median ≤ and of median ≥ threshold, by the sign test."""
    greater, less = np.count_nonzero(values > threshold), np.count_nonzero(values < threshold)
    return float(binom.sf(greater - 1, values.size, 0.5)), float(binom.sf(less - 1, values.size, 0.5))


def median_above(label: str, values: ArrayLike, threshold: float | Margin = 0.0, unit: str = "") -> Component:
    """Test that a median is above a threshold, by the exact sign test; for times and their ratios.

    It assumes only that the repetitions are independent: one interrupted trial, and any skewness, count for no more
    than one value. A value equal to the threshold speaks for neither side. With n values no p-value is below 2⁻ⁿ.

    Parameters
    ----------
    values : array_like
        One value per repetition.
    """
    x = _settled(values, float(threshold))
    p_for, p_against = _median_test(x, float(threshold))
    component = Component(label, *median_interval(x)[:3], p_for, p_against, x.size, unit)
    component = component._replace(bounds=(float(threshold), math.inf))
    return with_margin(component, threshold, partial(median_above, label, _clean(values), unit=unit))


def median_below(label: str, values: ArrayLike, threshold: float | Margin = 0.0, unit: str = "") -> Component:
    """Test that a median is below a threshold; see `median_above`."""
    x = _settled(values, float(threshold))
    p_against, p_for = _median_test(x, float(threshold))
    component = Component(label, *median_interval(x)[:3], p_for, p_against, x.size, unit)
    component = component._replace(bounds=(-math.inf, float(threshold)))
    return with_margin(component, threshold, partial(median_below, label, _clean(values), unit=unit))


def median_equal(
    label: str, values: ArrayLike, margin: float | Margin, unit: str = "", *, centre: float = 0.0
) -> Component:
    """Test that a median lies within ± margin of a centre, by two one-sided sign tests; see `median_above`."""
    x = _clean(values)
    p_not_above, p_above = _median_test(_settled(x, centre - float(margin)), centre - float(margin))
    p_below, p_not_below = _median_test(_settled(x, centre + float(margin)), centre + float(margin))
    p_for, p_against = max(p_not_above, p_not_below), min(1.0, 2 * min(p_above, p_below))
    component = Component(label, *median_interval(x)[:3], p_for, p_against, x.size, unit)
    component = component._replace(bounds=(centre - float(margin), centre + float(margin)))
    return with_margin(component, margin, partial(median_equal, label, x, unit=unit, centre=centre))


def best_in_blocks(F: ArrayLike, m: int) -> NDArray[np.int64]:
    """Return the positions of the runs with the smallest F in each block of m successive runs, max(1, N // m) of them.

    These are the results of an experimenter who repeatedly keeps the best of m runs; they are independent if the runs
    are. An incomplete last block is omitted unless it is the only one.
    """
    x = np.asarray(F, dtype=float)
    size = min(m, x.size)
    blocks = x[: x.size // size * size].reshape(-1, size)
    return np.asarray(blocks.argmin(axis=1) + size * np.arange(len(blocks)), dtype=np.int64)
