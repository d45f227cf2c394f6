"""How many repetitions verdicts need: a power calculation with one run as the pilot for the next.

A study's repetitions are fixed in advance from a pilot: each claim that the pilot decides gets as many as decide it
again with probability `POWER`, at the strictest level of its paper's correction, but no more than the pilot had; a
study gets the maximum over the claims that read it, at least `LEAST`. The plan is in the studies' configurations, so it
does not depend on a machine's speed. An open claim gets further repetitions up to `MOST_SECONDS` of computing
time. The power of a t test follows the noncentral t distribution, that of the tests of shares and of the sign tests of
times the binomial.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, ncf
from scipy.stats import t as student

from kmdr.analysis.significance import LEVEL
from kmdr.analysis.statistics import Component
from kmdr.claims.effects import Outcome

POWER = 0.9
LEAST = 10
_CERTAIN = 1e6  # a t statistic that decides at any level; two values may give an infinite one
# Largest number of repetitions that is considered.
MOST = 10_000
# The limit of cost: an open claim whose repetitions take longer stays undecided, and the report states their time.
MOST_SECONDS = 300


class Need(NamedTuple):
    """Repetitions needed to decide a claim, if the effects are as they appear now.

    Attributes
    ----------
    component : Component or None
        The statement that needs most; None if none rests on repetitions.
    repetitions : int or None
        Repetitions of the component's kind that decide with probability `POWER`; None if `MOST` do not.
    """

    component: Component | None
    repetitions: int | None


NOTHING = Need(None, None)


@cache
def repetitions_for(p: float, n: int, level: float, power: float) -> int | None:
    """Return the number of repetitions that reach a level with a given power, if the effect is the one n of them show.

    The t statistic of N repetitions follows the noncentral t distribution with N − 1 degrees of freedom and
    noncentrality t·√(N/n), where t belongs to the p-value (Johnson, Kotz & Balakrishnan 1995, ch. 31). For skewed
    values, whose test allows for that, this is approximate.

    Parameters
    ----------
    p : float
        One-sided p-value of n repetitions.

    Returns
    -------
    int or None
        None if `MOST` do not suffice.
    """
    if n < 2 or p >= 0.5:
        return None
    t = min(float(student.isf(p, n - 1)), _CERTAIN)

    def is_enough(N: int) -> bool:
        # The square of t follows noncentral F: scipy's noncentral t fails far out, and the other tail is negligible.
        return bool(ncf.sf(student.isf(level, N - 1) ** 2, 1, N - 1, t**2 * N / n) >= power)

    N = bisect_left(range(MOST + 1), True, lo=2, key=is_enough)
    return N if N <= MOST else None


@cache
def _least_successes(level: float, threshold: float) -> NDArray[np.float64]:
    """Return, for N = 1 to `MOST` trials, how many successes show a probability above a threshold at a level."""
    return np.asarray(binom.isf(level, np.arange(1, MOST + 1), threshold) + 1, dtype=np.float64)


@cache
def trials_for(share: float, threshold: float, level: float, power: float) -> int | None:
    """Return the number of trials with which the binomial test shows a probability above a threshold, as any more do.

    The power rises in steps, so that the number is the least one from which on it never falls short.

    Parameters
    ----------
    share : float
        The true probability of a success.

    Returns
    -------
    int or None
        None if `MOST` do not suffice.
    """
    sizes = np.arange(1, MOST + 1)
    is_enough = binom.sf(_least_successes(level, threshold) - 1, sizes, share) >= power
    if not is_enough[-1]:
        return None
    short = np.flatnonzero(~is_enough)
    return int(sizes[short[-1]]) + 1 if short.size else 1


@cache
def timings_for(p: float, n: int, level: float, power: float) -> int | None:
    """Return the number of repetitions with which the sign test reaches a level with a given power; see `trials_for`.

    The number of N values on the side of the threshold that the test asks for is binomial, with the share of it that n
    values show; the p-value states that share, since it is a binomial tail.

    Parameters
    ----------
    p : float
        One-sided p-value of n values.

    Returns
    -------
    int or None
        None if `MOST` do not suffice.
    """
    if n < 1 or p >= 0.5:
        return None
    # The p-values of n values; the nearest is that of p, which may be twice as large for equality.
    tails = binom.logsf(np.arange(n + 1) - 1, n, 0.5)
    share = int(np.argmin(np.abs(tails - math.log(p)))) / n if p else 1.0
    return trials_for(share, 0.5, level, power)


def _repetitions_of(component: Component, level: float, power: float, *, against: bool = False) -> int | None:
    """Return the repetitions that show a statement, or its contrary, by its test: of a share, of signs, or a t test."""
    if component.binomial:
        low, high = component.bounds
        is_upper = math.isinf(low)
        share, bound = component.effect, high if is_upper else low
        if is_upper != against:  # failures are counted
            share, bound = 1 - share, 1 - bound
        return trials_for(share, bound, level, power)
    count = timings_for if component.kind == "time" else repetitions_for
    return count(component.p_against if against else component.p_for, component.n, level, power)


def needed(outcome: Outcome, components: Sequence[Component], claims: int) -> Need:
    """Return the repetitions needed to decide a claim as it is decided, or either way if it is undecided.

    Parameters
    ----------
    outcome : str
        Outcome of the claim.
    components : sequence of Component
        Its central statements.
    claims : int
        Number of tested claims of its paper, which share the level.
    """
    level = LEVEL / max(1, claims)
    # A deterministic result has no interval, and repetitions add nothing to it.
    certain = [component for component in components if component.low == component.high]
    if outcome == "not supported" and any(component.p_against == 0 for component in certain):
        return NOTHING
    components = [component for component in components if component not in certain]
    ways = {"supported": [_for], "mostly supported": [_for], "not supported": [_against]}.get(outcome, [_for, _against])
    return min((way(components, level) for way in ways), key=_repetitions)


def _for(components: Sequence[Component], level: float) -> Need:
    """Return the need if all statements must hold: each takes its share of the type II error."""
    power = 1 - (1 - POWER) / max(1, len(components))
    needs = (Need(c, _repetitions_of(c, level, power)) for c in components)
    return max(needs, key=lambda need: (_is_short(need), _repetitions(need)), default=NOTHING)


def _against(components: Sequence[Component], level: float) -> Need:
    """Return the need if one failing statement suffices, at a level shared by all."""
    needs = (Need(c, _repetitions_of(c, level / len(components), POWER, against=True)) for c in components)
    return min(needs, key=_repetitions, default=NOTHING)


def _is_short(need: Need) -> bool:
    """Return whether a statement needs more repetitions than it has."""
    return need.component is not None and _repetitions(need) > need.component.n


def _repetitions(need: Need) -> float:
    return math.inf if need.repetitions is None else need.repetitions
