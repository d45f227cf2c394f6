"""Agreement of a table or figure with the numbers that its paper prints: how many of them lie inside our interval.

*Rerun* says only that an item was executed. Its numbers say whether it agrees: each printed cell of a table, and each
printed point of a curve, that has a number of ours. Times are not compared, because they are of another machine; items
without such numbers, such as curves that the paper prints without values, are not comparable.
"""

from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from kmdr.analysis.significance import LEVEL
from kmdr.claims.reported import numbers as reported_numbers

# The name of our column in a table that has another one under a reconstructed protocol.
AS_WRITTEN = "ours as written"
# The columns of such a table under the reconstructed protocol: our number, and its interval where runs vary.
RECONSTRUCTED, RECONSTRUCTED_ENDS = "ours reconstructed", ("low reconstructed", "high reconstructed")
# The columns that identify a printed cell. A table may compare one cell with several of our variants; the first counts.
_CELL = ("method", "dataset", "quantity", "r", "t")
_POINT = ("quantity", "dataset", "reducer", "r")
_TIME = "seconds"


class Agreement(NamedTuple):
    """How many of the printed numbers of an item lie inside our intervals.

    Attributes
    ----------
    unit : str
        What a number is: a cell of a table, or a point of a curve.
    """

    inside: int
    compared: int
    unit: Literal["cell", "point"]

    @property
    def outcome(self) -> Literal["agrees", "agrees in part", "differs"]:
        """Return the agreement in words.

        It differs if fewer than half of the numbers are inside. It agrees if that many or fewer would be inside 95 %
        intervals with a probability of at least 5 %.
        """
        if 2 * self.inside < self.compared:
            return "differs"
        return "agrees" if stats.binom.cdf(self.inside, self.compared, 1 - LEVEL) >= LEVEL else "agrees in part"

    def __str__(self) -> str:
        """Return the numbers inside and compared, in words."""
        return f"{self.inside} of {self.compared} {self.unit}{'s' * (self.compared != 1)}"


def agreement(id_: str, shown: pd.DataFrame) -> Agreement | None:
    """Return the agreement of an item with its paper, or None if they are not comparable.

    A cell is inside our interval if a number that is printed like it is. A point of a curve is one run, so it is
    compared with the 95 % prediction interval of one more run, which follows from the drawn interval of the mean; with
    the curve of its settings, if the figure gives them for the printed points.

    Parameters
    ----------
    id_ : str
        Of the item.
    shown : DataFrame
        The numbers that the item shows.
    """
    shown = shown.rename(columns={AS_WRITTEN: "ours"})
    unit: Literal["cell", "point"] = "cell" if {"reported", "ours"} <= set(shown) else "point"
    if unit == "point" and "drawn_as" not in shown:
        return None
    inside = _cells(id_, shown) if unit == "cell" else _points(shown)
    return Agreement(int(inside.sum()), len(inside), unit) if len(inside) else None


def reconstructed_agreement(id_: str, shown: pd.DataFrame) -> Agreement | None:
    """Return the agreement of a table under the reconstructed protocol; None if it has no numbers of that protocol."""
    if RECONSTRUCTED not in shown:
        return None
    low, high = (shown[name] for name in RECONSTRUCTED_ENDS)
    return agreement(id_, shown.drop(columns=AS_WRITTEN).assign(ours=shown[RECONSTRUCTED], low=low, high=high))


def _cells(id_: str, table: pd.DataFrame) -> "pd.Series[bool]":
    """Return whether each printed cell with a number of ours is inside the interval, or equals ours without one."""
    cells = table.dropna(subset=["reported", "ours"])
    cells = cells.drop_duplicates([name for name in (*_CELL, "reported") if name in cells])
    errors = {number.value: number.reading_error for number in reported_numbers(id_)}
    error = cells["reported"].map(errors).fillna(0.0).astype(float)
    low, high = (cells[end].astype(float).fillna(cells["ours"]) for end in ("low", "high"))
    # Differences within rounding of the last digit count as equal.
    slack = error + 1e-9 * cells["reported"].abs()
    return (low - slack <= cells["reported"]) & (cells["reported"] <= high + slack)


def _points(curves: pd.DataFrame) -> "pd.Series[bool]":
    """Return whether each printed point with a mean of ours lies inside the prediction interval of one more run."""
    curves = curves[~curves["quantity"].astype(str).str.endswith(_TIME)]
    if curves.empty:
        return pd.Series(dtype=bool)
    is_printed = curves["drawn_as"] == "reported"
    printed, ours = curves[is_printed], curves[~is_printed]
    keys = [*_POINT, *(["params"] if printed["params"].fillna("").ne("").all() else [])]
    both = printed[[*keys, "mean"]].merge(
        ours[[*keys, "mean", "low", "high", "count"]], on=keys, suffixes=("_printed", "")
    )
    both = both.drop(columns=keys).astype(float)
    half = (both["high"] - both["low"]) / 2 * np.sqrt(both["count"].to_numpy() + 1)
    inside: pd.Series[bool] = (both["mean_printed"] - both["mean"]).abs() <= half
    return inside
