"""How many repetitions verdicts need: a power calculation with one run as the pilot for the next.

A study's repetitions are fixed in advance from a pilot: each claim that the pilot decides gets as many as decide it
again with probability `POWER`, at the strictest level of its paper's correction, but no more than the pilot had; a
study gets the maximum over the claims that read it, at least `LEAST`. The plan is in the studies' configurations, so it
does not depend on a machine's speed.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from scipy.stats import ncf
from scipy.stats import t as student

from kmdr.analysis.statistics import LEVEL, Component
from kmdr.claims.effects import Outcome

POWER = 0.9
LEAST = 10
_CERTAIN = 1e6  # a t statistic that decides at any level; two values may give an infinite one
# Largest number of repetitions that is considered.
MOST = 10_000


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
    needs = (Need(c, repetitions_for(c.p_for, c.n, level, power)) for c in components)
    return max(needs, key=_repetitions, default=NOTHING)


def _against(components: Sequence[Component], level: float) -> Need:
    """Return the need if one failing statement suffices, at a level shared by all."""
    needs = (Need(c, repetitions_for(c.p_against, c.n, level / len(components), POWER)) for c in components)
    return min(needs, key=_repetitions, default=NOTHING)


def _repetitions(need: Need) -> float:
    return math.inf if need.repetitions is None else need.repetitions
