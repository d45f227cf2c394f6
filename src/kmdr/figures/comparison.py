"""The table of a run: means with intervals, the best in bold, a mark where k-means on all features differs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from kmdr.analysis.comparison import QUANTITIES, Beside, Quantity, differences
from kmdr.analysis.statistics import LEVEL
from kmdr.figures.tables import Table

# Lines at the end of a run: what a person takes in at a glance.
MOST_LINES = 30
_INTERVAL = "± is half of the 95 % interval of a mean over n repetitions; F_best is the least F of the data."
# Of an interval as many digits as of its mean, where these are behind the point; else fewer.
_HALVES = {".3g": ".2g"}
_IDENTITY = ("study", "dataset", "reducer", "params", "r")


def settings_in(frame: pd.DataFrame) -> list[str]:
    """Return the names of the columns of settings of a table that `kmdr.analysis.comparison.compared` gives."""
    names = [str(name) for name in frame.columns]
    return names[len(_IDENTITY) : next(i for i, name in enumerate(names) if name in ("n", "n A"))]


def thinned(frame: pd.DataFrame, most: int = MOST_LINES) -> tuple[pd.DataFrame, str]:
    """Return as many lines of a table as a person takes in, and what was left out.

    Of the r of each method as many are kept, evenly with the first and the last, as fit; then lines from the end go.
    """
    if len(frame) <= most:
        return frame, ""
    groups = [g.index for _, g in frame.groupby([*_IDENTITY[:4], *settings_in(frame)], sort=False, dropna=False)]
    kept: list[Any] = []
    for each in range(max(map(len, groups)), 0, -1):
        kept = [
            i for g in groups for i in g[np.unique(np.linspace(0, len(g) - 1, min(each, len(g))).round().astype(int))]
        ]
        if len(kept) <= most:
            break
    return frame.loc[sorted(kept)[:most]], f"{min(len(kept), most)} of {len(frame)} lines"


def table_of(frame: pd.DataFrame) -> Table:
    """Return the lines of `kmdr.analysis.comparison.compared`, or some of them, as they are shown.

    Returns
    -------
    Table
        Of texts, best in bold. ``↑`` and ``↓`` mark what is significantly higher or lower than on all features.
    """
    columns = _first_columns(frame)
    columns["n"] = [str(n) for n in frame["n"]]
    if frame["failed"].any():
        columns["failed"] = [str(n) if n else "" for n in frame["failed"]]
    bold: set[tuple[int, str]] = set()
    for quantity in QUANTITIES.values():
        if frame[quantity.title].notna().any():
            marks = _marks(frame, quantity)
            columns[quantity.title] = [
                f"{mark}{with_interval(mean, half, quantity.form)}"
                for mean, half, mark in zip(frame[quantity.title], frame[f"± {quantity.title}"], marks, strict=True)
            ]
            bold |= {(int(i), quantity.title) for i in np.flatnonzero(frame[f"best {quantity.title}"])}
    tests = int(frame[[f"p {q.title}" for q in QUANTITIES.values() if f"p {q.title}" in frame]].notna().sum().sum())
    notes = [_INTERVAL]
    if tests:
        notes.append(
            "↑ ↓ higher or lower than none, k-means on all features, from the same starts (paired t tests at "
            f"{LEVEL:.0%}, corrected by Holm over the table)."
        )
    elif (frame["reducer"] != "none").any():
        notes.append(
            "Nothing is compared with k-means on all features: that needs reducer=none and at least 2 repetitions."
        )
    return _shown(columns, " ".join(notes), bold)


def beside_table(beside: Beside, frame: pd.DataFrame) -> Table:
    """Return two folders side by side as they are shown: the mean in A and in B, and the change with its interval.

    Parameters
    ----------
    beside : Beside
    frame : DataFrame
        Its table, or some lines of it.
    """
    columns = _first_columns(frame)
    columns["n"] = [str(a) if a == b else f"{a}, {b}" for a, b in zip(frame["n A"], frame["n B"], strict=True)]
    for quantity in QUANTITIES.values():
        if frame[[f"{quantity.title} A", f"{quantity.title} B"]].notna().any(axis=None):
            for side in "AB":
                columns[f"{quantity.title} {side}"] = [
                    "" if np.isnan(mean) else format(mean, quantity.form) for mean in frame[f"{quantity.title} {side}"]
                ]
            if quantity.change in frame:
                form = ".3g" if quantity.ratio else f"+{quantity.form}"
                changes = frame[[f"{end}{quantity.change}" for end in ("", "low ", "high ")]].to_numpy(dtype=float)
                texts = [_with_ends(change, low, high, form) for change, low, high in changes]
                columns[quantity.change] = [f"{m}{x}" for x, m in zip(texts, _marks(frame, quantity), strict=True)]
    return _shown(columns, " ".join(_beside_notes(beside)), set())


def _beside_notes(beside: Beside) -> list[str]:
    paired = int(beside.table["paired"].sum()) if len(beside.table) else 0
    alone = len(beside.table) - paired
    notes = ["Δ is B − A and × is B : A, with its 95 % interval; ↑ ↓ differ at 5 %, corrected by Holm."]
    if paired:
        notes.append(f"{_lines(paired)} compared by pairs: same data, same starts.")
    if alone:
        notes.append(
            f"{_lines(alone)} not paired, for their starts differ (seed, repetitions, start or n_init): Welch's t test."
        )
    if beside.changed:
        notes.append(f"Settings differ: {'; '.join(beside.changed)}.")
    if beside.other_data:
        notes.append(f"Not compared, for the data of that name differ: {', '.join(beside.other_data)}.")
    if any(beside.only):
        notes.append(f"Only in A: {_lines(beside.only[0])}; only in B: {_lines(beside.only[1])}.")
    return notes


def _lines(n: int) -> str:
    return f"{n} line" if n == 1 else f"{n} lines"


def with_interval(mean: float, half: float, form: str) -> str:
    """Return a mean, with half of its interval where there is one; nothing where there is no mean."""
    if np.isnan(mean):
        return ""
    return format(mean, form) if np.isnan(half) else f"{format(mean, form)} ± {format(half, _HALVES.get(form, form))}"


def _with_ends(change: float, low: float, high: float, form: str) -> str:
    """Return a change and its interval; nothing where there is no change."""
    return "" if np.isnan(change) else f"{format(change, form)} [{format(low, form)}, {format(high, form)}]"


def _marks(frame: pd.DataFrame, quantity: Quantity) -> list[str]:
    """Return for each line which way it differs significantly."""
    name = f"p {quantity.title}"
    if name not in frame:
        return [""] * len(frame)
    same = 1.0 if quantity.ratio else 0.0
    return [
        ("↑ " if change > same else "↓ ") if p <= LEVEL else ""
        for change, p in zip(frame[quantity.change], frame[name], strict=True)
    ]


def _first_columns(frame: pd.DataFrame) -> dict[str, list[str]]:
    """Return what says which line is which; studies and datasets where there are several."""
    columns = {
        name: [str(value) for value in frame[name]] for name in ("study", "dataset") if frame[name].nunique() > 1
    }
    columns["method"] = _methods(frame)
    columns["r"] = [str(r) for r in frame["r"]]
    for name in settings_in(frame):
        if frame[name].nunique() > 1:
            columns[name] = [str(value) for value in frame[name]]
    return columns


def _methods(frame: pd.DataFrame) -> list[str]:
    """Return the reducers, with the parameters in which those of one name differ."""
    names = {}
    for reducer, group in frame.groupby("reducer"):
        texts = list(dict.fromkeys(group["params"]))
        for text, told in zip(texts, differences(texts), strict=True):
            names[reducer, text] = f"{reducer}{told}"
    return [names[pair] for pair in zip(frame["reducer"], frame["params"], strict=True)]


def _shown(columns: Mapping[str, Sequence[str]], note: str, bold: set[tuple[int, str]]) -> Table:
    texts = {"study", "dataset", "method"}
    return Table(pd.DataFrame(columns), dict.fromkeys((n for n in columns if n not in texts), ""), note, bold)
