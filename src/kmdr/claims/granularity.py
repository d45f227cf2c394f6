"""What printed numbers can be: P as a share of n points, and counts that have to agree within a paper.

P of one partition of n points is j/n for a whole j, and the mean of m of them j/(nm); a table prints it rounded, or
cut, to a few digits. All is computed in fractions, so that a number is possible or not, never nearly.

A paper's ``counts.csv`` has the counts: ``subject``, ``dataset`` (where they are the points of one, else empty),
``stated``, ``made_of`` (sums and products of other numbers that it should be, else empty), ``where``, and what each
``implies``.
"""

import re
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor, prod
from typing import NamedTuple

import pandas as pd

from kmdr.analysis.statistics import LEVEL
from kmdr.base.errors import UserError
from kmdr.base.plugins import PaperFolder
from kmdr.claims.reported import reported
from kmdr.figures.panels import dataset_label
from kmdr.figures.tables import Table

NEAR = 10
"""So far from the stated number of points others are looked for."""
NOTE = (
    "P of one partition of n points is a whole number of n-ths. Shares of them: whether all different numbers are, of "
    "the points that the paper states, rounded to the digits printed or cut; by chance: the probability that as many "
    f"random numbers of those digits would all be, rounded; other points: every number of points up to {NEAR} away of "
    "which all are shares, and how many there would be for random ones; runs averaged: the fewest of which all could "
    "be means, rounded. Where random numbers would do as well, that they are possible says nothing."
)
_COLUMNS = ["subject", "dataset", "stated", "made_of", "where", "implies"]


class Printed(NamedTuple):
    """A number as it is printed, and the unit of its last digit."""

    value: Fraction
    unit: Fraction

    def wholes(self, n: int, *, cut: bool = False) -> range:
        """Return every j for which j/n is printed so, rounded (a half either way) or with further digits cut off."""
        if cut:
            first, last = ceil(self.value * n), ceil((self.value + self.unit) * n) - 1
        else:
            first, last = ceil((self.value - self.unit / 2) * n), floor((self.value + self.unit / 2) * n)
        return range(max(first, 0), min(last, n) + 1)


def printed(values: Sequence[tuple[float, float]]) -> list[Printed]:
    """Return the different ones among numbers with their reading errors, of which an exact one has all its digits."""
    finest = min((Decimal(str(value)).as_tuple().exponent for value, _ in values), default=0)
    return [
        Printed(Fraction(str(value)), 2 * Fraction(str(error)) if error else Fraction(10) ** int(finest))
        for value, error in dict.fromkeys(values)
    ]


def possible(numbers: Sequence[Printed], n: int, *, cut: bool = False) -> bool:
    """Return whether all numbers are shares of n points, printed in one way."""
    return all(number.wholes(n, cut=cut) for number in numbers)


def chance(numbers: Sequence[Printed], n: int) -> float:
    """Return the probability that as many random numbers of these digits are all shares of n points, rounded."""
    share = {}
    for unit in {number.unit for number in numbers}:
        steps = [Fraction(j, n) / unit for j in range(n + 1)]
        met = {i for x in steps for i in range(ceil(x - Fraction(1, 2)), floor(x + Fraction(1, 2)) + 1)}
        share[unit] = Fraction(len(met), int(1 / unit) + 1)
    return float(prod(share[number.unit] for number in numbers))


def runs_averaged(numbers: Sequence[Printed], n: int) -> int:
    """Return the least m so that all numbers are means of m shares of n points, rounded."""
    return next(m for m in range(1, n**2 + 2) if possible(numbers, n * m))


def _shown(value: Fraction) -> str:
    return f"{float(value):.10g}"


def _listed(values: Sequence[int]) -> str:
    """Return whole numbers in words, those that follow each other as a range."""
    parts: list[list[int]] = []
    for value in values:
        if parts and parts[-1][-1] == value - 1:
            parts[-1].append(value)
        else:
            parts.append([value])
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}–{part[-1]}" for part in parts)


def _way(numbers: Sequence[Printed], n: int) -> str:
    """Say how many numbers are shares of n points, and which are not."""
    ways = {"rounded": False, "cut": True}
    if whole := [name for name, cut in ways.items() if possible(numbers, n, cut=cut)]:
        return f"all, {' or '.join(whole)}"
    failing = {
        name: [_shown(number.value) for number in numbers if not number.wholes(n, cut=cut)]
        for name, cut in ways.items()
    }
    return "; ".join(f"{name} not {', '.join(values)}" for name, values in failing.items())


def _implied(numbers: Sequence[Printed], n: int) -> str:
    """Say what follows for the numbers of a table."""
    p = chance(numbers, n)
    if p > LEVEL:
        return f"nothing: random numbers would be shares as well, with probability {p:.2g}"
    if any(possible(numbers, n, cut=cut) for cut in (False, True)):
        return f"each is the P of one partition of {n} points"
    failing = [_shown(number.value) for number in numbers if not number.wholes(n) and not number.wholes(n, cut=True)]
    if not failing:
        return f"not all are P of single partitions of {n} points, printed in one way"
    return (
        f"{' and '.join(failing)}: of no single partition of {n} points, however printed; a misprint, a mean of "
        "several, or of other points"
    )


def shares(paper: PaperFolder) -> Table | None:
    """Judge the P that a paper prints, a line a table or figure, dataset and number of points that the paper states.

    Returns
    -------
    Table or None
        None where it prints no P, or of no dataset whose points it counts.
    """
    stated = counts(paper)
    theirs = reported(paper.name)
    theirs = theirs[theirs["quantity"] == "accuracy"]
    lines = []
    for (id_, dataset), group in theirs.groupby(["id", "dataset"], sort=False):
        numbers = printed(list(zip(group["value"].tolist(), group["reading_error"].tolist(), strict=True)))
        for n in dict.fromkeys(stated.loc[stated["dataset"] == dataset, "stated"].map(int)):
            others = [other for other in range(max(n - NEAR, 1), n + NEAR + 1) if other != n]
            by_chance = sum(chance(numbers, other) for other in others)
            lines.append(
                {
                    "in": id_,
                    "dataset": dataset_label(str(dataset)),
                    "points": n,
                    "numbers": len(numbers),
                    "shares of them": _way(numbers, n),
                    "by chance": chance(numbers, n),
                    "other points, rounded": _listed([other for other in others if possible(numbers, other)]),
                    "cut": _listed([other for other in others if possible(numbers, other, cut=True)]),
                    "expected by chance": by_chance,
                    "runs averaged": runs_averaged(numbers, n),
                    "implies": _implied(numbers, n),
                }
            )
    if not lines:
        return None
    return Table(
        pd.DataFrame(lines),
        {"points": "d", "numbers": "d", "by chance": ".2g", "expected by chance": ".2g", "runs averaged": "d"},
    )


def _made(expression: str) -> Fraction:
    return sum(
        (prod((Fraction(factor) for factor in term.split("*")), start=Fraction(1)) for term in expression.split("+")),
        Fraction(0),
    )


def counts(paper: PaperFolder) -> pd.DataFrame:
    """Return the counts of a paper's ``counts.csv``, ``stated`` as it is printed; no line where it has none.

    Raises
    ------
    UserError
        When the file is malformed.
    """
    file = paper.folder / "counts.csv"
    if not file.is_file():
        return pd.DataFrame(columns=_COLUMNS)
    try:
        table: pd.DataFrame = pd.read_csv(file, dtype=str, keep_default_na=False)
    except ValueError as error:
        raise UserError(f"{file} cannot be read ({error}); write it as the other papers' are") from error
    if list(table.columns) != _COLUMNS:
        raise UserError(f"{file} has the columns {', '.join(table.columns)}; it needs {', '.join(_COLUMNS)}")
    number = r"\d+(?:\.\d+)?"
    for subject, dataset, stated, made_of in table[_COLUMNS[:4]].to_numpy(dtype=str).tolist():
        if not re.fullmatch(number, stated) or (dataset and not int(Fraction(stated)) == Fraction(stated) > 0):
            raise UserError(f"{file} states {stated!r} of {subject!r}; give a number, of points a whole one")
        if not re.fullmatch(rf"(?:{number}(?: [+*] {number})*)?", made_of):
            raise UserError(f"{file} makes {subject!r} of {made_of!r}; write numbers with ' + ' and ' * ' between them")
    return table


def agreement(paper: PaperFolder) -> Table | None:
    """Set the counts of a paper beside what they should be made of, and what each implies; None where it has none."""
    table = counts(paper)
    if table.empty:
        return None

    def agrees(stated: str, made_of: str) -> str:
        if not made_of:
            return ""
        rest = Fraction(stated) - _made(made_of)
        return "agrees" if rest == 0 else f"{'+' if rest > 0 else '−'}{_shown(abs(rest))}"

    frame = pd.DataFrame(
        {
            "count": table["subject"],
            "stated": table["stated"],
            "made of": table["made_of"].str.replace("*", "×"),
            "difference": list(map(agrees, table["stated"], table["made_of"])),
            "in the paper": table["where"],
            "implies": table["implies"],
        }
    )
    return Table(frame, {})
