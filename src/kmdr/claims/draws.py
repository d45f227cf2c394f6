"""A reported number as one draw: whether the procedure that a paper describes may well have given it.

What a paper reports is one run, or the best of m by F, and no mean. Ours is the law of such a draw, known from N runs;
the number is judged by its place there, its reading error added on the side that favours it:

* against it stands how likely a draw like theirs falls as far out beside draws like ours, on either side. It is exact
  for what N runs tell of the law: if both are draws of one law, it is below any level with no more than that
  probability, so that N runs never show a tail which they cannot know;
* for it stands that it lies inside the central 95 % of the law: that the law reaches as far out on either side with a
  probability of 2.5 % at the least.

The interval that is told with it holds the numbers that would not be refuted at 5 %.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import beta, binomtest, combine_pvalues, hypergeom, ncf, norm
from scipy.stats import t as student

from kmdr.analysis.results import NotRunError
from kmdr.analysis.statistics import LEVEL, Component, Floats, best_in_blocks, best_of, is_rounding
from kmdr.claims.best_of import SYMBOLS
from kmdr.claims.reported import Number


class Draw(NamedTuple):
    """What our runs say of a reported number.

    Attributes
    ----------
    component : Component
        Its effect is the reported number less the mean of our law, its interval that less ``high`` and ``low``.
    mean : float
        Of our law.
    low, high : float
        What lies between is not refuted at 5 %; infinite where so few runs refute nothing on that side.
    """

    component: Component
    mean: float
    low: float
    high: float

    def law(self, form: str = ".3g") -> str:
        """Return mean and interval, for a sentence."""
        low = "−∞" if math.isinf(self.low) else format(self.low, form)
        high = "∞" if math.isinf(self.high) else format(self.high, form)
        return f"{self.mean:{form}} [{low}, {high}]"


def _draw(label: str, number: Number, mean: float, ends: tuple[float, float], n: int, p: tuple[float, float]) -> Draw:
    unit = SYMBOLS.get(number.quantity, "score")
    component = Component(
        label, number.value - mean, number.value - ends[1], number.value - ends[0], *p, n, unit, "number"
    )
    return Draw(component, mean, *ends)


def _edges(number: Number) -> tuple[float, float]:
    """Return the ends of what a number may have been before it was rounded, or read off a figure."""
    slack = number.reading_error * (1 + 1e-9)
    return number.value - slack, number.value + slack


def of_best(label: str, number: Number, F: ArrayLike, values: ArrayLike, m: int) -> Draw:
    """Judge a number that the best of m runs by F gave; with m = 1, that a run gave.

    Against: were theirs one more of the B = N/m blocks of m runs that ours fall into, it would be as far out as k of
    them with probability (k + 1)/(B + 1), which is exact; the mean of that over all ways to form blocks is taken. For:
    exact binomial tests on the runs that are kept of successive blocks.

    Parameters
    ----------
    F, values : (N,) array_like
        Of each run, in the order in which they were made.
    m : int
        Fewer runs than that say neither.

    Notes
    -----
    Runs are taken to be independent. As nothing is assumed of their law, the least p-value of N runs is 2m/(N + m).
    """
    runs, x = np.asarray(F, dtype=float), np.asarray(values, dtype=float)
    m, too_few = min(m, len(x)), m > len(x)
    law, B = best_of(runs, m), len(x) / m
    low, high = _edges(number)

    def one_sided(probability: Floats | float) -> Floats:
        return np.asarray((1 + B * np.asarray(probability)) / (1 + B))

    p_against = min(1.0, 2 * float(one_sided(min(law.place(x, high)[0], law.place(x, low)[1]))))
    kept = x[best_in_blocks(runs, m)]
    tails = int((kept <= high).sum()), int((kept >= low).sum())
    p_for = max(float(binomtest(k, len(kept), LEVEL / 2, alternative="greater").pvalue) for k in tails)

    order = np.argsort(x[law.order], kind="stable")
    ordered, weights = x[law.order][order], law.weights[order]
    below, above = np.cumsum(weights), np.cumsum(weights[::-1])[::-1]
    certain = too_few or one_sided(0.0) > LEVEL / 2  # nothing is ever refuted
    ends = (
        -math.inf if certain else float(ordered[np.argmax(one_sided(below) > LEVEL / 2)]),
        math.inf if certain else float(ordered[::-1][np.argmax(one_sided(above[::-1]) > LEVEL / 2)]),
    )
    p = (1.0, 1.0) if too_few else (p_for, p_against)
    return _draw(label, number, law.mean(x), ends, len(x), p)


def of_run(label: str, number: Number, values: ArrayLike, *, logs: bool = False) -> Draw:
    """Judge a number that a run gave, where runs are normal: by Student's prediction interval; for: noncentral t.

    Parameters
    ----------
    values : (n,) array_like
    logs : bool
        Whether their logarithms are what is normal.

    Raises
    ------
    NotRunError
        When there are fewer than two.

    Notes
    -----
    With n values of mean x̄ and deviation s, (x − x̄)/(s√(1 + 1/n)) of one more, x, follows Student's law with n − 1
    degrees of freedom; (x − x̄)√n/s of a fixed x that lies δ deviations from the true mean, the noncentral one, its
    centre δ√n.
    """
    x = np.log(np.asarray(values, dtype=float)) if logs else np.asarray(values, dtype=float)
    n = len(x)
    if n < 2:
        raise NotRunError("one more run cannot be predicted from a single one")
    low, high = (math.log(edge) if logs else edge for edge in _edges(number))
    mean, scale = float(x.mean()), float(x.std(ddof=1))
    gap, widened = max(0.0, low - mean, mean - high), scale * math.sqrt(1 + 1 / n)
    if not is_rounding(scale, max(1.0, abs(mean))):
        p_against = 2 * float(student.sf(gap / widened, n - 1))
        # Of the square of t, noncentral F: scipy's noncentral t fails far out.
        p_for = float(ncf.cdf(n * (gap / scale) ** 2, 1, n - 1, n * norm.isf(LEVEL / 2) ** 2))
    else:
        p_against, p_for = float(gap == 0), float(gap > 0)
    half = float(student.isf(LEVEL / 2, n - 1)) * widened
    centre_, *ends = (math.exp(value) if logs else value for value in (mean, mean - half, mean + half))
    return _draw(label, number, centre_, (ends[0], ends[1]), n, (p_for, p_against))


def of_computation(label: str, number: Number, value: float) -> Draw:
    """Judge a number that is computed without a draw: ours is it to its reading error, or is not."""
    low, high = _edges(number)
    same = low <= value <= high
    return _draw(label, number, value, (value, value), 1, (float(not same), float(same)))


def jointly(label: str, draws: Sequence[Draw]) -> Component:
    """Judge numbers that were drawn independently at once: Fisher's combination of their p-values against.

    Several, each a little too far out, can refute what none does alone. For: the least plausible of them.

    Parameters
    ----------
    draws : sequence of Draw
        At least one.
    """
    against = float(combine_pvalues([draw.component.p_against for draw in draws], method="fisher").pvalue)
    p_for = max(draw.component.p_for for draw in draws)
    n = min(draw.component.n for draw in draws)
    return Component(label, against, math.nan, math.nan, p_for, against, n, "p of all together", "number")


def of_count(label: str, number: Number, runs: int, successes: int, n: int) -> Draw:
    """Judge a share of some runs, each of which succeeded or not.

    Against: were theirs runs of our law, as few or as many of them would succeed among theirs, of all that did, with
    the hypergeometric probability (Fisher's exact test), the reading error added on the side that favours the number.
    For: exact binomial tests that the probability of success is such that as few, and as many, are had with a
    probability of 2.5 % at least.

    Parameters
    ----------
    number : Number
        Its value is a share.
    runs : int
        Theirs.
    successes, n : int
        Ours.
    """
    most = min(runs, math.floor(_edges(number)[1] * runs))
    least = max(0, math.ceil(_edges(number)[0] * runs))

    k = np.arange(runs + 1)
    # Of k or fewer, and of k or more, of theirs, given how many of all succeed.
    fewer = hypergeom.cdf(k, n + runs, successes + k, runs)
    more = hypergeom.sf(k - 1, n + runs, successes + k, runs)
    p_against = min(1.0, 2 * min(float(fewer[most]), float(more[least])))
    # The probabilities of success with which `most` or fewer, and `least` or more, have 2.5 %.
    high = float(beta.isf(LEVEL / 2, most + 1, runs - most)) if most < runs else 1.0
    low = float(beta.ppf(LEVEL / 2, least, runs - least + 1)) if least > 0 else 0.0
    p_for = max(
        float(binomtest(successes, n, high, alternative="less").pvalue) if high < 1 else 0.0,
        float(binomtest(successes, n, low, alternative="greater").pvalue) if low > 0 else 0.0,
    )
    kept = k[np.minimum(fewer, more) > LEVEL / 2]
    return _draw(label, number, successes / n, (kept[0] / runs, kept[-1] / runs), n, (p_for, p_against))
