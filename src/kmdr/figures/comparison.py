"""The table of a run: means, and medians of times, with intervals.

The best are bold, and marks show differences from all features.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from kmdr.analysis.comparison import QUANTITIES, TO_SHOW, FolderComparison, Quantity, quantities_in
from kmdr.analysis.significance import LEVEL
from kmdr.base.text import counted, format_number, typeset
from kmdr.figures.style import method_styles
from kmdr.figures.tables import Table

# Number of rows printed at the end of a run.
_MOST_LINES = 30
# The short notes below a table on a terminal; 'kmdr help table' has the rest.
_INTERVAL = "±: half of the 95 % interval of a mean over n repetitions. F_best: the smallest F on the data."
_ARROWS = (
    f"↑ ↓: higher or lower than none, k-means on all features (paired t tests at {100 * LEVEL:g} %, Holm-adjusted)."
)
_HELP = "'kmdr help table' explains every column."
# What a reader of a table needs to know of Δ and of its tests.
DIFFERENCES = (
    "Δ is the mean difference with its 95 % interval. Each end is the wider one of two intervals: Student's, and "
    "Hall's for skewed values, so that Δ may be far from the middle. The interval is for one comparison, and the tests "
    "are adjusted for all lines and quantities of the table: where no difference is shown, the interval may exclude 0."
)
EQUAL = (
    "An interval of width 0 has equal values in all repetitions, which a test takes for certain; few repetitions of a "
    "random method may be equal by chance."
)
MEDIANS = "Seconds are medians, with distribution-free 95 % intervals from six timings on."
# Mark of table rows that were computed by several versions of the code.
_MARK = "†"
MIXED = f"{_MARK} computed by several versions of the code: not compared, and not considered for the best."
# An interval has as many digits as its mean if these are decimals; else fewer.
_HALVES = {".3g": ".2g", ".4g": ".2g"}
_SUMMARY_FORMATS = {"F": ".4f", "F/F_full": ".4f", "seconds": ".3g", "n seconds": "", "n": "", "r": ""}
UNTIMED = "–"
_TO_SHOW = TO_SHOW.strip()
UNTIMED_NOTE = f"{UNTIMED}: not timed serially; timing_repeats=6 times six repetitions with no other worker running."
_SEVERAL_MACHINES = "Seconds of one dataset come from several machines, so they are not ranked there."
_IDENTITY = ("study", "dataset", "reducer", "params", "r")


def settings_in(frame: pd.DataFrame) -> list[str]:
    """Return the names of the setting columns of a table from `kmdr.analysis.comparison.compared`."""
    names = [str(name) for name in frame.columns]
    return names[len(_IDENTITY) : next(i for i, name in enumerate(names) if name in ("n", "n A"))]


def thinned(frame: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return a readable number of rows of a table, and a text that says how many were dropped.

    For each method as many r are kept, evenly spaced with the first and the last, as fit; then rows are dropped from
    the end.
    """
    if len(frame) <= _MOST_LINES:
        return frame, ""
    groups = [g.index for _, g in frame.groupby([*_IDENTITY[:4], *settings_in(frame)], sort=False, dropna=False)]
    kept: list[Any] = []
    for count in range(max(map(len, groups)), 0, -1):
        kept = [
            i for g in groups for i in g[np.unique(np.linspace(0, len(g) - 1, min(count, len(g))).round().astype(int))]
        ]
        if len(kept) <= _MOST_LINES:
            break
    return frame.loc[sorted(kept)[:_MOST_LINES]], f"{min(len(kept), _MOST_LINES)} of {counted(len(frame), 'line')}"


def table_of(frame: pd.DataFrame) -> Table:
    """Return rows of `kmdr.analysis.comparison.compared` as text.

    The best are bold; ``↑`` and ``↓`` mark values significantly higher or lower than with all features.
    """
    counts = {"n": counts_of(frame)}
    if frame["failed"].any():
        counts["failed"] = [str(n) if n else "" for n in frame["failed"]]
    groups = [_first_columns(frame) | counts]
    bold: set[tuple[int, str]] = set()
    for quantity in quantities_in(frame):
        if frame[quantity.title].notna().any() or (quantity.time and frame["n"].any()):
            marks = _marks(frame, quantity)
            columns = _timings(frame, quantity) if quantity.time else {}
            columns[quantity.title] = [
                f"{mark}{value}" or _missing(quantity, n)
                for value, mark, n in zip(_with_intervals(frame, quantity), marks, frame["n"], strict=True)
            ]
            groups.append(columns)
            bold |= {(int(i), quantity.title) for i in np.flatnonzero(frame[f"best {quantity.title}"])}
    groups.append(_differences(frame))
    p_values = [f"p {q.title}" for q in quantities_in(frame) if f"p {q.title}" in frame]
    tests = int(frame[p_values].notna().sum().sum())
    notes = [_INTERVAL, *([MIXED] if (frame["versions"] > 1).any() else [])]
    if tests:
        notes.append(_ARROWS)
        if any(_is_equal(frame, quantity).any() for quantity in quantities_in(frame) if quantity.change in frame):
            notes.append(EQUAL)
    elif (frame["reducer"] != "none").any():
        notes.append(
            "No comparison with k-means on all features: that needs the reducer none and at least 2 repetitions."
        )
    return _shown(groups, " ".join([*notes, *warnings_of_times(frame), _HELP]), bold)


def _differences(frame: pd.DataFrame) -> dict[str, list[str]]:
    """Return columns with the difference in F from all features, and the repetitions that would show it."""
    F = QUANTITIES["ratio"]
    if F.change not in frame:
        return {}
    changes = frame[[f"{end}{F.change}" for end in ("", "low ", "high ")]].to_numpy(dtype=float)
    return {
        F.change: [_with_ends(change, low, high, f"+{F.form}") for change, low, high in changes],
        _TO_SHOW: ["" if np.isnan(n) else f"{n:.0f}" for n in frame[f"{TO_SHOW}{F.title}"]],
    }


def _is_equal(frame: pd.DataFrame, quantity: Quantity) -> "pd.Series[bool]":
    """Return a mask of the rows that differ by the same amount in all repetitions."""
    low, high = frame[f"low {quantity.change}"], frame[f"high {quantity.change}"]
    return (low == high) & (low != (1.0 if quantity.ratio else 0.0))


def _missing(quantity: Quantity, n: int) -> str:
    return UNTIMED if quantity.time and n else ""


def _timings(frame: pd.DataFrame, quantity: Quantity, sides: Sequence[str] = ("",)) -> dict[str, list[str]]:
    """Return a column with the number of timed repetitions, if it differs from that of all repetitions."""
    counts = [f"n {quantity.title}{side}" for side in sides]
    if all((frame[name] == frame[f"n{side}"]).all() for name, side in zip(counts, sides, strict=True)):
        return {}
    timed = zip(*(map(str, frame[name]) for name in counts), strict=True)
    return {f"n {quantity.title}": [", ".join(dict.fromkeys(pair) if len(set(pair)) == 1 else pair) for pair in timed]}


def time_notes(frame: pd.DataFrame, sides: Sequence[str] = ("",)) -> list[str]:
    """Return notes on how times are shown, on rows without timings and on timings from several machines."""
    times = [quantity.title for quantity in quantities_in(frame) if quantity.time]
    timed = any(frame[f"{name}{side}"].notna().any() for name in times for side in sides)
    return [MEDIANS] * timed + warnings_of_times(frame, sides)


def warnings_of_times(frame: pd.DataFrame, sides: Sequence[str] = ("",)) -> list[str]:
    """Return notes on rows without timings and on timings from several machines."""
    times = [quantity.title for quantity in quantities_in(frame) if quantity.time]
    untimed = any(((frame[f"n{side}"] > 0) & (frame[f"n {name}{side}"] == 0)).any() for name in times for side in sides)
    several = frame.attrs.get("several_machines", False)
    return [UNTIMED_NOTE] * untimed + [_SEVERAL_MACHINES] * several


def side_by_side_table(comparison: FolderComparison, frame: pd.DataFrame) -> Table:
    """Return two folders side by side: the means in A and in B, and the change with its interval.

    ``frame`` is the comparison's table, or some rows of it.
    """
    counts = zip(counts_of(frame, " A"), counts_of(frame, " B"), strict=True)
    groups = [_first_columns(frame) | {"n": [a if a == b else f"{a}, {b}" for a, b in counts]}]
    for quantity in quantities_in(frame):
        known = frame[[f"{quantity.title} A", f"{quantity.title} B"]].notna().any(axis=None)
        if known or (quantity.time and (frame["n A"] + frame["n B"]).any()):
            columns = _timings(frame, quantity, (" A", " B")) if quantity.time else {}
            for side in "AB":
                columns[f"{quantity.title} {side}"] = [
                    _missing(quantity, n) if np.isnan(mean) else typeset(format_number(mean, quantity.form))
                    for mean, n in zip(frame[f"{quantity.title} {side}"], frame[f"n {side}"], strict=True)
                ]
            if quantity.change in frame:
                form = ".3g" if quantity.ratio else f"+{quantity.form}"
                changes = frame[[f"{end}{quantity.change}" for end in ("", "low ", "high ")]].to_numpy(dtype=float)
                texts = [_with_ends(change, low, high, form) for change, low, high in changes]
                columns[quantity.change] = [f"{m}{x}" for x, m in zip(texts, _marks(frame, quantity), strict=True)]
            groups.append(columns)
    return _shown(groups, " ".join([*_comparison_notes(comparison), *time_notes(frame, (" A", " B"))]), set())


def _comparison_notes(comparison: FolderComparison) -> list[str]:
    paired = int(comparison.table["paired"].sum()) if len(comparison.table) else 0
    alone = len(comparison.table) - paired
    notes = [
        "Δ is the mean of B − A and × the geometric mean of B ÷ A, with 95 % intervals; ↑ ↓ differ at 5 %, "
        "Holm-adjusted."
    ]
    if paired:
        notes.append(
            f"{counted(paired, 'line')} paired: same data, same starts; Δ and × are of the repetitions in both."
        )
    if alone:
        notes.append(
            f"{counted(alone, 'line')} not paired because starts differ (seed, repetitions, start or n_init): Welch's "
            "t test."
        )
    if comparison.changed:
        notes.append(f"Settings differ: {'; '.join(comparison.changed)}.")
    if comparison.other_data:
        notes.append(f"Not compared because the data of that name differ: {', '.join(comparison.other_data)}.")
    if comparison.other_machine:
        notes.append("Seconds measured on different machines are not compared.")
    if comparison.other_code:
        notes.append(f"A and B were computed by different code for {', '.join(comparison.other_code)}.")
    if len(comparison.table) and (comparison.table[["versions A", "versions B"]] > 1).any(axis=None):
        notes.append(MIXED)
    notes += [f"{note}." for note in comparison.mixed]
    if any(comparison.only):
        notes.append(
            f"Only in A: {counted(comparison.only[0], 'line')}; only in B: {counted(comparison.only[1], 'line')}."
        )
    return notes


def counts_of(frame: pd.DataFrame, suffix: str = "") -> list[str]:
    """Return the repetitions of each row, marked if several versions of the code computed them."""
    versions = zip(frame[f"n{suffix}"], frame[f"versions{suffix}"], strict=True)
    return [f"{n}{_MARK if version > 1 else ''}" for n, version in versions]


def with_interval(mean: float, half: float, form: str) -> str:
    """Return a mean, with half of its interval if there is one; empty if there is no mean."""
    if np.isnan(mean):
        return ""
    shown = typeset(format_number(mean, form))
    return shown if np.isnan(half) else f"{shown} ± {format_number(half, _HALVES.get(form, form))}"


def _with_intervals(frame: pd.DataFrame, quantity: Quantity) -> list[str]:
    """Return the means, or for times the medians, with their intervals; empty where there is none."""
    title, form = quantity.title, quantity.form
    if quantity.time:
        ends = frame[[title, f"low {title}", f"high {title}"]].to_numpy(float)
        return [_with_ends(value, low, high, form) for value, low, high in ends]
    return [with_interval(mean, half, form) for mean, half in frame[[title, f"± {title}"]].to_numpy(float)]


def _with_ends(value: float, low: float, high: float, form: str) -> str:
    """Return a value, with the ends of its interval if it has one; empty if there is no value."""
    shown, *ends = (typeset(format_number(number, form)) for number in (value, low, high))
    return "" if np.isnan(value) else shown if np.isnan(low) else f"{shown} [{ends[0]}, {ends[1]}]"


def _marks(frame: pd.DataFrame, quantity: Quantity) -> list[str]:
    """Return the direction in which each row differs significantly."""
    name = f"p {quantity.title}"
    if name not in frame:
        return [""] * len(frame)
    same = 1.0 if quantity.ratio else 0.0
    return [
        ("↑ " if change > same else "↓ ") if p <= LEVEL else ""
        for change, p in zip(frame[quantity.change], frame[name], strict=True)
    ]


def _first_columns(frame: pd.DataFrame) -> dict[str, list[str]]:
    """Return the identifying columns; study and dataset only if there are several."""
    columns = {
        name: [str(value) for value in frame[name]] for name in ("study", "dataset") if frame[name].nunique() > 1
    }
    columns["method"] = method_names(frame)
    columns["r"] = [str(r) for r in frame["r"]]
    for name in settings_in(frame):
        if frame[name].nunique() > 1:
            columns[name] = [str(value) for value in frame[name]]
    return columns


def method_names(frame: pd.DataFrame) -> list[str]:
    """Return the names of the methods, as figures have them."""
    methods = list(zip(frame["reducer"], frame["params"], strict=True))
    styles = method_styles(methods)
    return [styles[method].label for method in methods]


def every_column(summary: pd.DataFrame) -> Table:
    """Return the summary of a `kmdr.api.Comparison` as text with all its columns; the caller may have changed them."""
    names = [str(name) for name in summary.columns]
    first = [name for name in names if name in ("method", "r")]
    formats = {name: _SUMMARY_FORMATS.get(name, ".3f") for name in summary.select_dtypes("number").columns}
    return Table(summary, formats, groups=[first, *([name] for name in names if name not in first)])


def _shown(groups: Sequence[Mapping[str, Sequence[str]]], note: str, bold: set[tuple[int, str]]) -> Table:
    """Return groups of columns as one table; the first group identifies a row."""
    columns = {name: column for group in groups for name, column in group.items()}
    formats = dict.fromkeys((name for name in columns if name not in ("study", "dataset", "method")), "")
    sections = [name for name in groups[0] if name not in ("method", "r", "n", "failed")]
    names = [list(group) for group in groups if group]
    return Table(pd.DataFrame(columns), formats, note, bold, groups=names, sections=sections)
