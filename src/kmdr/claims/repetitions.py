"""How many repetitions verdicts need: what one run, as the pilot, says of the next.

A study's repetitions are a fixed plan by pilot: each claim that the pilot decides gets as many as decide it again with
a probability of `POWER`, at the strictest level of its paper's correction, but no more than the pilot had; and a study
as many as the claims that read it, at least `LEAST`. The plan is in the studies' configurations, so it depends on no
machine's speed.
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
_CERTAIN = 1e6  # a t statistic that decides whatever the level; that of two values may be beyond all numbers
# Where a search ends.
MOST = 10_000


class Need(NamedTuple):
    """What it takes to decide a claim as it looks now.

    Attributes
    ----------
    component : Component or None
        The statement that takes the most; None where none rests on repetitions.
    repetitions : int or None
        Of the component's kind, the least that decide with a probability of `POWER`; None where `MOST` do not.
    """

    component: Component | None
    repetitions: int | None


NOTHING = Need(None, None)


@cache
def repetitions_for(p: float, n: int, level: float, power: float) -> int | None:
    """Return how many repetitions reach a level with a probability, if the effect is what n of them show.

    The t statistic of N repetitions follows the noncentral t law with N − 1 degrees of freedom, its centre t·√(N/n),
    where t is that of the p-value (Johnson, Kotz & Balakrishnan 1995, ch. 31). Roughly so for skewed values, whose test
    allows for that.

    Parameters
    ----------
    p : float
        One-sided p-value of n repetitions.

    Returns
    -------
    int or None
        None where `MOST` do not.
    """
    if n < 2 or p >= 0.5:
        return None
    t = min(float(student.isf(p, n - 1)), _CERTAIN)

    def is_enough(N: int) -> bool:
        # By the square of t, noncentral F: scipy's noncentral t fails far out, and the other tail is next to nothing.
        return bool(ncf.sf(student.isf(level, N - 1) ** 2, 1, N - 1, t**2 * N / n) >= power)

    N = bisect_left(range(MOST + 1), True, lo=2, key=is_enough)
    return N if N <= MOST else None


def needed(outcome: Outcome, components: Sequence[Component], claims: int) -> Need:
    """Return how many repetitions it takes to decide a claim as it is decided, or either way where it is open.

    Parameters
    ----------
    outcome : str
        Of the claim.
    claims : int
        Of its paper that were tested, which share the level.
    """
    level = LEVEL / max(1, claims)
    # What is computed without a draw has no interval, and no repetition adds to what it says.
    certain = [component for component in components if component.low == component.high]
    if outcome == "not reproduced" and any(component.p_against == 0 for component in certain):
        return NOTHING
    components = [component for component in components if component not in certain]
    ways = {"reproduced": [_for], "not reproduced": [_against]}.get(outcome, [_for, _against])
    return min((way(components, level) for way in ways), key=_repetitions)


def _for(components: Sequence[Component], level: float) -> Need:
    """All are to hold: each takes its share of what may go wrong."""
    power = 1 - (1 - POWER) / max(1, len(components))
    needs = (Need(c, repetitions_for(c.p_for, c.n, level, power)) for c in components)
    return max(needs, key=_repetitions, default=NOTHING)


def _against(components: Sequence[Component], level: float) -> Need:
    """One that fails is enough, at a level shared by all."""
    needs = (Need(c, repetitions_for(c.p_against, c.n, level / len(components), POWER)) for c in components)
    return min(needs, key=_repetitions, default=NOTHING)


def _repetitions(need: Need) -> float:
    return math.inf if need.repetitions is None else need.repetitions
