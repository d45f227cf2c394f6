"""Arithmetic checks of printed numbers: P as a share of n points, and counts that must agree within a paper.

P of one partition of n points is j/n for a whole j, and the mean of m of them is j/(nm); a table prints it rounded, or
truncated, to a few digits. Everything is computed in fractions, so that a number is exactly possible or not.

A paper's ``counts.csv`` has the counts: ``subject``, ``dataset`` (for the number of points of a dataset, else empty),
``stated``, ``made_of`` (sums and products of other numbers that should give it, else empty), ``where``, and what each
``implies``.
"""

import re
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor, prod
from typing import NamedTuple

import pandas as pd

from kmdr.analysis.significance import LEVEL
from kmdr.base.errors import UserError
from kmdr.base.plugins import PaperFolder
from kmdr.claims.catalogue import items
from kmdr.claims.reported import reported
from kmdr.figures.panels import dataset_label
from kmdr.figures.tables import Table

NEAR = 10
"""Largest distance from the stated number of points at which alternatives are tried."""
NOTE = (
    "P of one partition of n points is a multiple of 1/n. “Multiples of 1/points” says whether all distinct numbers "
    "are such multiples for the stated number of points, rounded or truncated to the printed digits. “By chance” is "
    "the probability that as many random numbers with these digits would all be such multiples, rounded; if it is "
    "large, the check shows nothing. “Other points” are the numbers of points up to "
    f"{NEAR} away for which all numbers are possible, rounded or truncated; “expected by chance” is how many of these "
    "random numbers would give. “Runs averaged” is the fewest runs of which all numbers could be means, rounded."
)
_COLUMNS = ["subject", "dataset", "stated", "made_of", "where", "implies"]


class Printed(NamedTuple):
    """A printed number, and the unit of its last digit."""

    value: Fraction
    unit: Fraction

    def wholes(self, n: int, *, cut: bool = False) -> range:
        """Return every j for which j/n is printed like this, rounded (a half either way) or truncated."""
        if cut:
            first, last = ceil(self.value * n), ceil((self.value + self.unit) * n) - 1
        else:
            first, last = ceil((self.value - self.unit / 2) * n), floor((self.value + self.unit / 2) * n)
        return range(max(first, 0), min(last, n) + 1)


def printed(values: Sequence[tuple[float, float]]) -> list[Printed]:
    """Return the distinct numbers, each with its unit; a number without reading error has the finest unit of all."""
    finest = min((Decimal(str(value)).as_tuple().exponent for value, _ in values), default=0)
    return [
        Printed(Fraction(str(value)), 2 * Fraction(str(error)) if error else Fraction(10) ** int(finest))
        for value, error in dict.fromkeys(values)
    ]


def possible(numbers: Sequence[Printed], n: int, *, cut: bool = False) -> bool:
    """Return True if all numbers are shares of n points, printed in one way."""
    return all(number.wholes(n, cut=cut) for number in numbers)


def chance(numbers: Sequence[Printed], n: int) -> float:
    """Return the probability that as many random numbers with these digits are all shares of n points, rounded."""
    share = {}
    for unit in {number.unit for number in numbers}:
        steps = [Fraction(j, n) / unit for j in range(n + 1)]
        met = {i for x in steps for i in range(ceil(x - Fraction(1, 2)), floor(x + Fraction(1, 2)) + 1)}
        share[unit] = Fraction(len(met), int(1 / unit) + 1)
    return float(prod(share[number.unit] for number in numbers))


def runs_averaged(numbers: Sequence[Printed], n: int) -> int:
    """Return the least m such that all numbers are means of m shares of n points, rounded."""
    return next(m for m in range(1, n**2 + 2) if possible(numbers, n * m))


def _shown(value: Fraction) -> str:
    return f"{float(value):.10g}"


def _listed(values: Sequence[int]) -> str:
    """Return whole numbers as text, consecutive ones as a range."""
    parts: list[list[int]] = []
    for value in values:
        if parts and parts[-1][-1] == value - 1:
            parts[-1].append(value)
        else:
            parts.append([value])
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}–{part[-1]}" for part in parts)


def _way(numbers: Sequence[Printed], n: int) -> str:
    """Return which way of printing makes all numbers shares of n points, or the numbers that are not shares."""
    ways = {"rounded": False, "truncated": True}
    if whole := [name for name, cut in ways.items() if possible(numbers, n, cut=cut)]:
        return f"all, {' or '.join(whole)}"
    failing = {
        name: [_shown(number.value) for number in numbers if not number.wholes(n, cut=cut)]
        for name, cut in ways.items()
    }
    return "; ".join(f"{name}, all but {', '.join(values)}" for name, values in failing.items())


def _implied(numbers: Sequence[Printed], n: int) -> str:
    """Return the conclusion about the numbers of a table."""
    p = chance(numbers, n)
    if p > LEVEL:
        return f"nothing: random numbers would all be multiples with probability {p:.2g}"
    if any(possible(numbers, n, cut=cut) for cut in (False, True)):
        return f"each is the P of one partition of {n} points"
    failing = [_shown(number.value) for number in numbers if not number.wholes(n) and not number.wholes(n, cut=True)]
    if not failing:
        return f"not all are P of single partitions of {n} points printed in the same way"
    return (
        f"{' and '.join(failing)}: impossible for a single partition of {n} points; a misprint, a mean of several "
        "runs, or another number of points"
    )


def shares(paper: PaperFolder) -> Table | None:
    """Check the P that a paper prints, one row per table or figure, dataset and stated number of points.

    Returns
    -------
    Table or None
        None if it prints no P, or of no dataset whose points it counts.
    """
    stated = counts(paper)
    theirs = reported(paper.name)
    theirs = theirs[theirs["quantity"] == "accuracy"]
    places = {item.id: item.label for item in items()}
    lines = []
    for (id_, dataset), group in theirs.groupby(["id", "dataset"], sort=False):
        numbers = printed(list(zip(group["value"].tolist(), group["reading_error"].tolist(), strict=True)))
        for n in dict.fromkeys(stated.loc[stated["dataset"] == dataset, "stated"].map(int)):
            others = [other for other in range(max(n - NEAR, 1), n + NEAR + 1) if other != n]
            by_chance = sum(chance(numbers, other) for other in others)
            lines.append(
                {
                    "in": places.get(str(id_), str(id_)),
                    "dataset": dataset_label(str(dataset)),
                    "points": n,
                    "numbers": len(numbers),
                    "multiples of 1/points": _way(numbers, n),
                    "by chance": chance(numbers, n),
                    "other points, rounded": _listed([other for other in others if possible(numbers, other)]),
                    "other points, truncated": _listed(
                        [other for other in others if possible(numbers, other, cut=True)]
                    ),
                    "expected by chance": by_chance,
                    "runs averaged": runs_averaged(numbers, n),
                    "conclusion": _implied(numbers, n),
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
    """Return the counts of a paper's ``counts.csv``, ``stated`` as printed; empty if it has none.

    Raises
    ------
    UserError
        If the file is malformed.
    """
    file = paper.folder / "counts.csv"
    if not file.is_file():
        return pd.DataFrame(columns=_COLUMNS)
    try:
        table: pd.DataFrame = pd.read_csv(file, dtype=str, keep_default_na=False)
    except ValueError as error:
        raise UserError(f"{file} cannot be read ({error}); follow the other papers' files") from error
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
    """Compare the counts of a paper with the sums that should give them; return None if it has none."""
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
            "components": table["made_of"].str.replace("*", "×"),
            "difference": list(map(agrees, table["stated"], table["made_of"])),
            "in the paper": table["where"],
            "conclusion": table["implies"],
        }
    )
    return Table(frame, {})
