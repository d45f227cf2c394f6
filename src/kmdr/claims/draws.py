"""A reported number as one draw: tests of whether the described procedure could have given it.

A paper usually reports one run, or the best of m runs by F, not a mean. We estimate the distribution of such a draw
from N runs, and widen the reported number by its reading error, on the side that favours it:

* the p-value against the number is two-sided: how likely another draw from our distribution would be at least as
  extreme, given that the distribution is known from N runs only. It is exact: if theirs and ours have the same
  distribution, it falls below any level with at most that probability.
* the p-value for the number tests that it lies inside the central 95 % of the distribution: that each tail beyond it
  has a probability of at least 2.5 %.

The reported 95 % prediction interval contains the numbers that are not rejected at 5 %.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import beta, binomtest, combine_pvalues, hypergeom, ncf, norm
from scipy.stats import t as student

from kmdr.analysis.results import NotRunError
from kmdr.analysis.significance import LEVEL
from kmdr.analysis.statistics import Component, Floats, best_in_blocks, best_of, is_rounding
from kmdr.claims.best_of import SYMBOLS
from kmdr.claims.reported import Number

# The unit of what several numbers show jointly.
TOGETHER = "joint p-value"


class Draw(NamedTuple):
    """Result of comparing a reported number with our runs.

    Attributes
    ----------
    component : Component
        Its effect is the reported number minus the mean of our distribution; its interval is the number minus ``high``
        and minus ``low``.
    mean : float
        Mean of our distribution.
    low, high : float
        95 % prediction interval; infinite if too few runs can reject anything on that side.
    """

    component: Component
    mean: float
    low: float
    high: float

    def law(self, form: str = ".3g") -> str:
        """Return mean and prediction interval, for a sentence; `explain_dashes` explains a missing interval."""
        if math.isinf(self.low) and math.isinf(self.high):
            return f"{self.mean:{form}} [–]"
        low = "−∞" if math.isinf(self.low) else format(self.low, form)
        high = "∞" if math.isinf(self.high) else format(self.high, form)
        return f"{self.mean:{form}} [{low}, {high}]"


def explain_dashes(draws: Sequence[Draw]) -> str:
    """Return what the dash means that some draws have for an interval, for the end of a sentence; or empty text."""
    return (
        " ([–]: too few runs for an interval)" if any(math.isinf(d.low) and math.isinf(d.high) for d in draws) else ""
    )


def _draw(label: str, number: Number, mean: float, ends: tuple[float, float], n: int, p: tuple[float, float]) -> Draw:
    unit = SYMBOLS.get(number.quantity, "score")
    low, high = number.value - ends[1], number.value - ends[0]
    component = Component(
        label, number.value - mean, low, high, *p, n, unit, "number", reported=number.value, bounds=(0.0, 0.0)
    )
    return Draw(component, mean, *ends)


def _edges(number: Number) -> tuple[float, float]:
    """Return the range of a number before it was rounded, or read off a figure."""
    slack = number.reading_error * (1 + 1e-9)
    return number.value - slack, number.value + slack


def judge_best(label: str, number: Number, F: ArrayLike, values: ArrayLike, m: int) -> Draw:
    """Compare a number with the best of m runs by F; with m = 1, with single runs.

    Against: if theirs were one more of the B = N/m blocks of m runs that ours fall into, it would be at least as
    extreme as k of them with probability (k + 1)/(B + 1), which is exact; the mean over all ways to form blocks is
    used. For: exact binomial tests on the runs that are kept of successive blocks.

    Parameters
    ----------
    F, values : (N,) array_like
        Of each run, in the order of the repetitions.
    m : int
        With fewer runs than that, both p-values are 1.

    Notes
    -----
    Runs are assumed to be independent; no distribution is assumed. The smallest possible p-value of N runs is
    2m/(N + m).
    """
    runs, x = np.asarray(F, dtype=float), np.asarray(values, dtype=float)
    m, too_few = min(m, len(x)), m > len(x)
    law, B = best_of(runs, m), len(x) / m
    low, high = _edges(number)

    def p_value(probability: Floats | float) -> Floats:
        return np.asarray((1 + B * np.asarray(probability)) / (1 + B))

    p_against = min(1.0, 2 * float(p_value(min(law.place(x, high)[0], law.place(x, low)[1]))))
    kept = x[best_in_blocks(runs, m)]
    tails = int((kept <= high).sum()), int((kept >= low).sum())
    p_for = max(float(binomtest(k, len(kept), LEVEL / 2, alternative="greater").pvalue) for k in tails)

    order = np.argsort(x[law.order], kind="stable")
    ordered, weights = x[law.order][order], law.weights[order]
    below, above = np.cumsum(weights), np.cumsum(weights[::-1])[::-1]
    certain = too_few or p_value(0.0) > LEVEL / 2  # nothing is ever rejected
    ends = (
        -math.inf if certain else float(ordered[np.argmax(p_value(below) > LEVEL / 2)]),
        math.inf if certain else float(ordered[::-1][np.argmax(p_value(above[::-1]) > LEVEL / 2)]),
    )
    p = (1.0, 1.0) if too_few else (p_for, p_against)
    return _draw(label, number, law.mean(x), ends, len(x), p)


def judge_run(label: str, number: Number, values: ArrayLike, *, logs: bool = False) -> Draw:
    """Compare a number with single runs that are normal: Student's prediction interval; for: noncentral t.

    Parameters
    ----------
    values : (n,) array_like
    logs : bool
        Whether the logarithms of the values are normal.

    Raises
    ------
    NotRunError
        If there are fewer than two values.

    Notes
    -----
    With n values of mean x̄ and deviation s, (x − x̄)/(s√(1 + 1/n)) of one more value x follows Student's t
    distribution with n − 1 degrees of freedom; (x − x̄)√n/s of a fixed x that is δ deviations from the true mean
    follows the noncentral t distribution with noncentrality δ√n.
    """
    x = np.log(np.asarray(values, dtype=float)) if logs else np.asarray(values, dtype=float)
    n = len(x)
    if n < 2:
        raise NotRunError("a prediction interval needs at least two runs")
    low, high = (math.log(edge) if logs else edge for edge in _edges(number))
    mean, scale = float(x.mean()), float(x.std(ddof=1))
    gap, widened = max(0.0, low - mean, mean - high), scale * math.sqrt(1 + 1 / n)
    if not is_rounding(scale, max(1.0, abs(mean))):
        p_against = 2 * float(student.sf(gap / widened, n - 1))
        # The square of t follows noncentral F: scipy's noncentral t fails in the far tails.
        p_for = float(ncf.cdf(n * (gap / scale) ** 2, 1, n - 1, n * norm.isf(LEVEL / 2) ** 2))
    else:
        p_against, p_for = float(gap == 0), float(gap > 0)
    half = float(student.isf(LEVEL / 2, n - 1)) * widened
    centre_, *ends = (math.exp(value) if logs else value for value in (mean, mean - half, mean + half))
    return _draw(label, number, centre_, (ends[0], ends[1]), n, (p_for, p_against))


def judge_computed(label: str, number: Number, value: float) -> Draw:
    """Compare a number with a deterministic result: equal within its reading error, or not."""
    low, high = _edges(number)
    same = low <= value <= high
    return _draw(label, number, value, (value, value), 1, (float(not same), float(same)))


def judge_together(label: str, draws: Sequence[Draw]) -> Component:
    """Combine the p-values against numbers that were drawn independently, by Fisher's method.

    Several numbers, each slightly too extreme, can be rejected together although none is alone. The p-value for is that
    of the least plausible number.

    Parameters
    ----------
    draws : sequence of Draw
        At least one.
    """
    against = float(combine_pvalues([draw.component.p_against for draw in draws], method="fisher").pvalue)
    p_for = max(draw.component.p_for for draw in draws)
    n = min(draws, key=lambda draw: draw.component.p_against).component.n
    return Component(label, against, math.nan, math.nan, p_for, against, n, TOGETHER, "number")


def judge_share(label: str, number: Number, runs: int, successes: int, n: int) -> Draw:
    """Compare a share of runs, each of which succeeded or not.

    Against: Fisher's exact test (two-sided) of the number of successes among their runs and ours, with the reading
    error added on the side that favours the number. For: exact binomial tests that, at our probability of success, at
    most and at least as many successes each have a probability of at least 2.5 %.

    Parameters
    ----------
    number : Number
        Its value is a share.
    runs : int
        Number of their runs.
    successes, n : int
        Ours.
    """
    most = min(runs, math.floor(_edges(number)[1] * runs))
    least = max(0, math.ceil(_edges(number)[0] * runs))

    k = np.arange(runs + 1)
    # Probabilities of at most k, and of at least k, successes among theirs, given the successes among all runs.
    fewer = hypergeom.cdf(k, n + runs, successes + k, runs)
    more = hypergeom.sf(k - 1, n + runs, successes + k, runs)
    p_against = min(1.0, 2 * min(float(fewer[most]), float(more[least])))
    # The success probabilities at which at most `most`, and at least `least`, successes have probability 2.5 %.
    high = float(beta.isf(LEVEL / 2, most + 1, runs - most)) if most < runs else 1.0
    low = float(beta.ppf(LEVEL / 2, least, runs - least + 1)) if least > 0 else 0.0
    p_for = max(
        float(binomtest(successes, n, high, alternative="less").pvalue) if high < 1 else 0.0,
        float(binomtest(successes, n, low, alternative="greater").pvalue) if low > 0 else 0.0,
    )
    kept = k[np.minimum(fewer, more) > LEVEL / 2]
    draw = _draw(label, number, successes / n, (kept[0] / runs, kept[-1] / runs), n, (p_for, p_against))
    return draw._replace(component=draw.component._replace(unit="share"))
