"""Forest plots: the statements of a claim with effects, intervals and tested bounds, on one scale per unit.

And strips of verdicts: how a verdict depends on a margin that kmdr chose, also in words.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from kmdr.analysis.statistics import Component
from kmdr.claims.effects import Outcome, decided
from kmdr.claims.verdicts import Swing, Verdict, evidence
from kmdr.reporting.numbers import number

# A scale is logarithmic if its ends have at least this ratio, and are in a range in which no ratio overflows.
_LOGARITHMIC, _LEAST, _MOST = 10, 1e-100, 1e100
_PAD = 0.04  # of the range, at each end


class Line(NamedTuple):
    """A statement in a forest plot; positions are in percent of the scale, and NaN for what is not drawn.

    Attributes
    ----------
    why : str
        Why it does not count; empty if it does.
    effect, low, high : float
        Positions of the effect and of the ends of its interval.
    least, most : float
        Positions of the ends of the range in which the statement is true, and of the scale's ends without a bound.
    bounds : tuple of float
        Positions of the tested bounds.
    """

    component: Component
    why: str
    outcome: Outcome
    effect: float
    low: float
    high: float
    least: float
    most: float
    bounds: tuple[float, ...]


class Forest(NamedTuple):
    """The statements of one unit.

    Attributes
    ----------
    first, last : float
        Ends of the scale; NaN if these statements have neither intervals nor bounds, and so no plot.
    logarithmic : bool
        Whether the scale is logarithmic, as for ratios.
    """

    unit: str
    first: float
    last: float
    logarithmic: bool
    lines: list[Line]


def forests(verdict: Verdict) -> Iterator[Forest]:
    """Yield the forest plots of a claim: one per unit, in the order of the statements, scaled for those that count."""
    statements = [
        (component, why, decided(component.p_for, component.p_against) if why else verdict.statement(component))
        for component, why in evidence(verdict)
    ]
    units = list(dict.fromkeys(component.unit for component, *_ in statements))
    statements.sort(key=lambda statement: units.index(statement[0].unit))
    for unit, group in groupby(statements, key=lambda statement: statement[0].unit):
        of_unit = list(group)
        counted = [component for component, why, _ in of_unit if not why]
        first, last, logarithmic = _scale(counted or [component for component, *_ in of_unit])
        place = position_on(first, last, logarithmic=logarithmic)
        lines = []
        for component, why, outcome in of_unit:
            low, high = (component.low, component.high) if component.low != component.high else (math.nan, math.nan)
            bounds = tuple(place(bound) for bound in dict.fromkeys(component.bounds) if math.isfinite(bound))
            least, most = component.bounds
            lines.append(
                Line(
                    component,
                    why,
                    outcome,
                    effect=place(component.effect),
                    low=place(low),
                    high=place(high),
                    least=place(least),
                    most=place(most),
                    bounds=bounds if math.isfinite(first) else (),
                )
            )
        yield Forest(unit, first, last, logarithmic, lines)


def _scale(components: Sequence[Component]) -> tuple[float, float, bool]:
    """Return the ends of a scale that shows these statements' finite ends and bounds, and whether it is logarithmic."""
    ends = [end for c in components for end in (c.low, c.high, *c.bounds) if math.isfinite(end)]
    if not ends:
        return math.nan, math.nan, False
    ends += [component.effect for component in components if math.isfinite(component.effect)]
    first, last = min(ends), max(ends)
    if first > _LEAST and last < _MOST and last / first > _LOGARITHMIC:
        pad = (last / first) ** _PAD
        return first / pad, last * pad, True
    if not math.isfinite(last - first):  # numbers that no scale can show
        return math.nan, math.nan, False
    pad = max(_PAD * (last - first), 1e-9 * max(abs(first), abs(last))) or 0.5
    return first - pad, last + pad, False


def position_on(first: float, last: float, *, logarithmic: bool) -> Callable[[float], float]:
    """Return the function from a value to its position in percent; values beyond the ends are at the ends."""
    start, end = (math.log(first), math.log(last)) if logarithmic else (first, last)

    def place(value: float) -> float:
        if math.isnan(value) or math.isnan(first):
            return math.nan
        value = min(max(value, first), last)
        return 100 * (((math.log(value) if logarithmic else value) - start) / (end - start))

    return place


# -- margins -----------------------------------------------------------------------------------------------------------


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
