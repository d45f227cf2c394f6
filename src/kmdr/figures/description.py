"""Figures in words, from the numbers that they show: who is highest and lowest, and where curves rise or fall."""

import pandas as pd

from kmdr.analysis.rows import centres
from kmdr.base.text import format_number, typeset
from kmdr.figures.panels import dataset_label, quantity_label

_CHANGE = 0.02  # a smaller relative change from the first to the last r is called none
_FORM = ".3g"


def panels_in_words(numbers: pd.DataFrame) -> str:
    """Return a sentence for each panel: on curves against r, specification curves, or the ranges of its numbers.

    ``numbers`` are as `kmdr.figures.canvas.Drawing.numbers` has them.
    """
    if {"quantity", "r", "label", "drawn_as"} <= set(numbers):
        several = numbers["panel"].nunique() > 1
        return " ".join(
            f"({letter}) " * several + _curves(panel, str(quantity))
            for (letter, quantity), panel in numbers.groupby(["panel", "quantity"], sort=False)
        )
    if {"number", "reported", "mean"} <= set(numbers):
        return " ".join(_universes(str(name), panel) for name, panel in numbers.groupby("number", sort=False))
    panels = numbers.groupby("panel", sort=False)
    return " ".join(f"({letter}) {_ranges(panel.drop(columns='panel'))}" for letter, panel in panels)


def _ranges(panel: pd.DataFrame) -> str:
    columns = panel.select_dtypes("number").dropna(axis=1, how="all")
    ranges = (f"{name} from {_number(column.min())} to {_number(column.max())}" for name, column in columns.items())
    return f"{len(panel)} points: {', '.join(ranges)}.".replace("_", " ")


def _number(value: float) -> str:
    return typeset(format_number(value, _FORM))


def _curves(panel: pd.DataFrame, quantity: str) -> str:
    """Return the values at the last r in ascending order, and which curves rise and fall."""
    panel = panel.assign(centre=centres(panel), r=pd.to_numeric(panel["r"]))
    reported = panel.loc[panel["drawn_as"] == "reported", "centre"].dropna()
    drawn = panel[(panel["drawn_as"] != "reported") & panel["centre"].notna()]
    names = ", ".join(dataset_label(str(name)) for name in drawn["dataset"].unique())
    curves = drawn[drawn["drawn_as"] == "curve"]
    last = curves["r"].max()
    at_last = drawn[(drawn["r"] == last) | (drawn["drawn_as"] == "line")].sort_values("centre", kind="stable")
    order = "; ".join(f"{label} {_number(y)}" for label, y in zip(at_last["label"], at_last["centre"], strict=True))
    ascending = ", in ascending order" * (len(at_last) > 1)
    text = f"{names}, {quantity_label(quantity)[0].lower()}"
    text += f" at r = {_number(last)}" * (len(curves) > 0) + f"{ascending}: {order}"
    changes: dict[str, list[str]] = {"rising": [], "falling": [], "changing little": []}
    for label, curve in curves.sort_values("r").groupby("label", sort=False):
        start, end = curve["centre"].iloc[0], curve["centre"].iloc[-1]
        if len(curve) > 1:
            kind = (
                "changing little"
                if abs(end - start) <= _CHANGE * abs(start)
                else "rising"
                if end > start
                else "falling"
            )
            changes[kind].append(f"{label} ({_number(start)})")
    first = _number(curves["r"].min())
    text += "".join(f"; {kind} from r = {first} on: {', '.join(who)}" for kind, who in changes.items() if who)
    if len(reported):
        ends = " to ".join(dict.fromkeys(map(_number, (reported.min(), reported.max()))))
        text += f"; reported: {ends}"
    return f"{text}."


def _universes(name: str, panel: pd.DataFrame) -> str:
    """Return the range of the means over universes, and where the reported number is among them."""
    means, reported = panel["mean"], float(panel["reported"].iloc[0])
    covering = int(((panel["low"] <= reported) & (reported <= panel["high"])).sum())
    below = int((means < reported).sum())
    return (
        f"{name}: means from {_number(means.min())} to {_number(means.max())} over {len(panel)} universes; the "
        f"reported {_number(reported)} exceeds {below} of them and is in the central 95 % of {covering}."
    )
