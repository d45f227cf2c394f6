"""How a verdict depends on a margin that kmdr chose: a strip of verdicts, and the nearest changes in words."""

import math
from itertools import groupby
from typing import NamedTuple

from kmdr.claims.effects import Outcome
from kmdr.claims.verdicts import Swing
from kmdr.reporting.forest import position_on
from kmdr.reporting.numbers import number


class Segment(NamedTuple):
    """A range of margins with the same verdict: its ends, and its position and width in percent of the strip."""

    outcome: Outcome
    low: float
    high: float
    x: float
    width: float


def segments(swing: Swing) -> list[Segment]:
    """Return the ranges of a margin and the verdict in each."""
    steps = list(zip(swing.values, swing.outcomes, strict=True))
    position = position_on(swing.values[0], swing.values[-1], logarithmic=True)
    stretches = []
    for outcome, of_outcome in groupby(range(len(steps)), key=lambda i: steps[i][1]):
        inside = list(of_outcome)
        low, high = steps[inside[0]][0], steps[min(inside[-1] + 1, len(steps) - 1)][0]
        x = position(low)
        stretches.append(Segment(outcome, low, high, x, position(high) - x))
    return stretches


def ticks(swing: Swing) -> list[tuple[str, float, float]]:
    """Return the marks of a margin, ours first: label, value and position in percent."""
    marks = {"ours": float(swing.margin), **swing.margin.marks}
    position = position_on(swing.values[0], swing.values[-1], logarithmic=True)
    return [(what, value, position(value)) for what, value in marks.items()]


def changes_at(swing: Swing) -> str:
    """Return the values of a margin at which the verdict would change, in words."""
    values = [value for value in (swing.below, swing.above) if not math.isnan(value)]
    if not values:
        return "no value in the range shown would change the verdict"
    changes = ", ".join(f"{swing.otherwise(value)} at {number(value)}" for value in values)
    return f"the verdict would be {changes}"
