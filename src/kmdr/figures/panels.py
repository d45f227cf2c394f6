"""Panels and grids of panels: quantities against the number of dimensions r."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from matplotlib.transforms import ScaledTranslation

from kmdr.analysis.environments import environment_notes
from kmdr.analysis.rows import (
    CELL,
    REPETITION,
    centres,
    code_notes,
    differing_settings,
    failed_counts,
    is_time,
    ok_rows,
    quantity_rows,
    settings_of,
    settings_text,
    statistic,
    summarise,
    timed_rows,
    timing_note,
)
from kmdr.base.files import sweep_abandoned
from kmdr.base.text import counted
from kmdr.datasets import registry
from kmdr.figures.canvas import (
    FORMATS,
    NO_NUMBERS,
    Drawing,
    add_legend,
    add_notes,
    blank,
    figure_files,
    panel_letter,
    text_width,
    wrap,
)
from kmdr.figures.style import COLUMN_WIDTH, PRINT, TEXT_WIDTH, Method, Style, method_styles, print_style
from kmdr.metrics import metrics
from kmdr.results.folder import write_files
from kmdr.results.table import rows_of

USUAL_QUANTITIES = ("total_seconds", "objective", "accuracy")
QUANTITY_LABELS: Mapping[str, tuple[str, str]] = {  # title, y label
    "total_seconds": ("Running time", "running time (s)"),
    "reduction_seconds": ("Reduction time", "reduction time (s)"),
    "prepare_seconds": ("Preparation time", "preparation time (s)"),
    "reduce_seconds": ("Reduction time for one r", "time for one r (s)"),
    "cluster_seconds": ("Clustering time", "clustering time (s)"),
    "score_seconds": ("Scoring time", "scoring time (s)"),
    "objective": ("Objective", "normalised objective F"),
    "objective_ratio": ("Objective ratio", "objective ratio"),
    "accuracy": ("Accuracy of clustering", "accuracy P"),
    "nmi": ("Normalised mutual information", "NMI"),
    "ari": ("Adjusted Rand index", "ARI"),
    "n_iter": ("Lloyd iterations", "iterations"),
}
NO_DATA = "the data is not available or was not run"
PER_FIGURE = 4  # datasets per figure of a folder

_CROWDED = 2.5  # length of intervals over what they cover
_MARK = 4.0  # points from one method to the next in a crowded panel
_MOST_MARKS = 30  # ticks without a label


def quantity_label(quantity: str) -> tuple[str, str]:
    """Return the title and the y label of a quantity; the metric of a plugin has one label for both."""
    if quantity in QUANTITY_LABELS:
        return QUANTITY_LABELS[quantity]
    label = metrics()[quantity].label if quantity in metrics() else quantity
    return label, label


def dataset_label(name: str, labels: Mapping[str, str] | None = None) -> str:
    """Return the display name of a dataset: the caller's, else the registry's, else the name itself."""
    known = registry.entries().get(name)
    return (labels or {}).get(name) or (known.label if known else "") or name


def methods_of(rows: pd.DataFrame) -> list[Method]:
    """Return the (reducer, params) pairs that have at least one ok row."""
    pairs = ok_rows(rows)[["reducer", "params"]].drop_duplicates()
    return [(str(name), str(params)) for name, params in pairs.itertuples(index=False)]


def plot_panel(
    ax: Axes,
    rows: pd.DataFrame,
    quantity: str,
    *,
    name: str | None = None,
    letter: str | None = None,
    styles: Mapping[Method, Style] | None = None,
    reason: str = NO_DATA,
    paper_repeats: int | None = None,
) -> pd.DataFrame:
    """Draw one quantity of one dataset against r: a line of means with markers and a 95 % band for each method.

    Of a time, the line and the markers are medians.

    A method that ran at a single r while others ran at several does not depend on r and becomes a horizontal line, with
    a marker at its r if that lies within the panel. K-means on all features (``none``) is always such a line. Where the
    intervals of most methods overlap, means and intervals are drawn side by side at some r, without lines. An empty
    panel says why it is empty.

    Parameters
    ----------
    ax : Axes
        Its title, labels, scales and limits are set.
    rows : DataFrame
        All rows of one dataset, failed ones included; may be empty.
    quantity : str
        See `kmdr.analysis.rows.summarise`.
    name : str, optional
        Display name of the dataset; by default that of the rows.
    letter : str, optional
        Put before the title as ``(a)``.
    styles : mapping, optional
        Appearance of each (reducer, params); by default `method_styles` of these rows.
    reason : str
        Why there are no rows, if there are none.
    paper_repeats : int, optional
        How often the paper repeated its experiment: markers then show means (of times, medians) of as many first
        repetitions, as the paper would have seen them, while lines and bands show all. By default markers show all.

    Returns
    -------
    DataFrame
        The numbers drawn: `mean` or, of a time, `median`, its interval and `count` of all repetitions; `shown` is the
        marker, the same of `shown_count` repetitions.
    """
    if rows["dataset"].nunique() > 1:
        raise ValueError(f"a panel shows one dataset, not {sorted(rows['dataset'].unique())}")
    if name is None:
        name = dataset_label(str(rows["dataset"].iloc[0])) if len(rows) else "dataset"
    if styles is None:
        styles = method_styles(methods_of(rows))
    title, ylabel = quantity_label(quantity)
    timing = timing_note(rows) if is_time(quantity) else ""
    ax.set_ylabel(ylabel)
    names = [f"({letter}) " * bool(letter) + name + " (stand-in)" * bool(_stand_ins(rows)), title]
    ax.set_title(" – ".join(names), loc="left")
    numbers = _with_shown(rows, quantity, paper_repeats) if len(rows) else NO_NUMBERS
    if numbers.empty:
        _write(ax, f"{name}: {_empty_panel_text(rows, quantity, reason)}")
        return NO_NUMBERS

    grid, flat = _grid_and_flat(rows)
    shown = sorted(
        {int(r) for r, method in zip(numbers["r"], _method_of_each(numbers), strict=True) if method not in flat}
    )
    _scale_x(ax, grid)
    curves = [method for method in styles if method in set(_method_of_each(numbers)) - flat]
    lines = [method for method in styles if method in set(_method_of_each(numbers)) & flat]
    crowded = is_crowded(numbers)
    if crowded:
        _widen(ax, len(curves) / 2 * _MARK / 72, (len(curves) / 2 + len(lines) + 1) * _MARK / 72)
    label_r(ax, shown or grid, len(curves) * _MARK / 72 if crowded else 0.0)
    for position, method in enumerate([*curves, *lines]):
        of_method = numbers[(numbers["reducer"] == method[0]) & (numbers["params"] == method[1])]
        place = position - (len(curves) - 1) / 2
        if method in flat:
            _draw_flat(ax, of_method, styles[method], grid, place=place + 1 if crowded else None)
        elif crowded:
            _draw_beside(ax, of_method, styles[method], place)
        else:
            _draw_curve(ax, of_method, styles[method])
    kinds = ["line" if method in flat else "curve" for method in _method_of_each(numbers)]
    _scale_y(ax, numbers, quantity)
    labels = [styles[method].label for method in _method_of_each(numbers)]
    drawn = numbers.assign(quantity=quantity, label=labels, drawn_as=kinds, timing=timing)
    return drawn[[name for name in NO_NUMBERS if name in drawn]]


def _with_shown(rows: pd.DataFrame, quantity: str, paper_repeats: int | None) -> pd.DataFrame:
    """Return the summary of all repetitions, joined with that of those that the markers show."""
    numbers = summarise(rows, quantity)
    if paper_repeats is None:
        return numbers.assign(shown=centres(numbers), shown_count=numbers["count"])
    counted = timed_rows(ok_rows(rows)) if is_time(quantity) else rows  # selects timed rows among all repetitions
    order = rows[REPETITION].drop_duplicates().sort_values(REPETITION)
    is_first = pd.MultiIndex.from_frame(counted[REPETITION]).isin(pd.MultiIndex.from_frame(order.head(paper_repeats)))
    first = summarise(counted[is_first], quantity)
    first = first.rename(columns={statistic(quantity): "shown", "count": "shown_count"}).drop(columns=["low", "high"])
    together = numbers.merge(first, how="left", on=CELL)
    return together.assign(shown_count=together["shown_count"].fillna(0).astype(int))


def paper_grid(
    rows: pd.DataFrame,
    datasets: Sequence[str],
    quantities: Sequence[str] = USUAL_QUANTITIES,
    labels: Mapping[str, str] | None = None,
    reasons: Mapping[str, str] | None = None,
    note: str = "",
    paper_repeats: int | None = None,
    styles: Mapping[Method, Style] | None = None,
) -> Drawing:
    """Draw a row of panels for each quantity and a column for each dataset.

    Parameters
    ----------
    rows : DataFrame
        Rows of one study.
    datasets : sequence of str
        The columns, also those without rows.
    quantities : sequence of str
        The rows of panels.
    labels : mapping, optional
        Display names of datasets that differ from the usual ones.
    reasons : mapping, optional
        Why a dataset has no rows; by default `NO_DATA`.
    note : str
        The first sentence below the figure.
    paper_repeats : int, optional
        See `plot_panel`.
    styles : mapping, optional
        Appearance of each (reducer, params), in legend order; by default `method_styles` of these rows.

    Returns
    -------
    Drawing
        At print width (one column for one dataset, the text width for more), with one legend above and notes below.
    """
    rows = rows[rows["dataset"].isin(datasets)]
    styles = method_styles(methods_of(rows)) if styles is None else styles
    of_dataset = {name: rows[rows["dataset"] == name] for name in datasets}
    empty = {
        (quantity, name): _empty_panel_text(of_dataset[name], quantity, (reasons or {}).get(name, NO_DATA))
        for quantity in quantities
        for name in datasets
        if quantity_rows(of_dataset[name], quantity).empty
    }
    columns = [name for name in datasets if any((quantity, name) not in empty for quantity in quantities)]
    lines = [quantity for quantity in quantities if any((quantity, name) not in empty for name in datasets)]
    absent = (
        ""
        if not lines
        else "; ".join(dict.fromkeys(f"{dataset_label(name, labels)} ({why})" for (_, name), why in empty.items()))
    )
    if not lines:  # one panel says why
        columns, lines, empty = list(datasets[:1]), list(quantities[:1]), {}
    with print_style():
        fig, axes = blank(len(lines), len(columns), COLUMN_WIDTH if len(columns) == 1 else TEXT_WIDTH, 1.0)
        panels: list[pd.DataFrame] = []
        for (i, quantity), (j, name) in product(enumerate(lines), enumerate(columns)):
            if (quantity, name) in empty:
                axes[i, j].remove()
                continue
            drawn = plot_panel(
                axes[i, j],
                of_dataset[name],
                quantity,
                name=dataset_label(name, labels),
                letter=panel_letter(len(panels)) if len(lines) * len(columns) > 1 else None,
                styles=styles,
                reason=(reasons or {}).get(name, NO_DATA),
                paper_repeats=paper_repeats,
            )
            panels.append(drawn)
            if j and (quantity, columns[j - 1]) not in empty:
                axes[i, j].set_ylabel("")
            if (len(drawn) and i == len(lines) - 1) or all((later, name) in empty for later in lines[i + 1 :]):
                axes[i, j].set_xlabel("number of dimensions r")
        drawing = Drawing(fig, panels)
        legend_lines = _add_legend(fig, fig.axes, styles)
        cut = _shorten_titles(fig.axes)
        panel = 1.45 if len(columns) > 2 else 1.6
        notes = [
            note,
            f"Not shown: {absent}." if absent else "",
            *(f"{title}." for title in cut),
            *_notes(rows, datasets, lines, styles, drawing, labels=labels),
        ]
        fig.set_figheight(len(lines) * (panel + 0.13) + 0.13 * legend_lines + 0.3)
        add_notes(fig, notes)
    return drawing


def figures_for_folder(folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Draw every study of a results folder into ``<folder>/figures/<study>.{png,csv}``; return the files.

    Raise `UserError` if the folder has no rows.
    """
    rows = rows_of(folder)
    sweep_abandoned(folder)
    studies = {str(study): () for study in sorted(rows["study"].unique())}
    return write_files(folder, figures_of_studies(rows, studies, formats=formats))


def figures_of_studies(
    rows: pd.DataFrame,
    asked: Mapping[str, Sequence[str]],
    reasons: Mapping[str, str] | None = None,
    notes: Mapping[str, str] | None = None,
    formats: Sequence[str] = FORMATS,
) -> dict[Path, bytes]:
    """Return the files of the figures of some studies, each with or without rows, as `figures_for_folder` has them.

    Parameters
    ----------
    rows : DataFrame
        Of these studies and possibly others.
    asked : mapping of study to sequence of str
        The studies, and the datasets of each, in order; datasets in the rows are always included.
    reasons : mapping, optional
        See `paper_grid`.
    notes : mapping of study to str, optional
        The first sentence below its figures.
    """
    rows, by_setting = named_by_setting(rows[rows["study"].isin(list(asked))])
    names = {name: label for name, (_, label) in by_setting.items()}
    files: dict[Path, bytes] = {}
    for study, columns in asked.items():
        of_study = rows[rows["study"] == study]
        split = {by_setting[name][0] for name in set(of_study["dataset"]) if name in by_setting}
        whole = [name for name in columns if name not in split]
        stem, note = Path("figures", re.sub(r"[^\w.+-]", "_", study)), (notes or {}).get(study, "")
        files |= figures_of(of_study, stem, names, whole, reasons, note, formats)
    return files


def figures_of(
    rows: pd.DataFrame,
    stem: Path,
    labels: Mapping[str, str] | None = None,
    asked: Sequence[str] = (),
    reasons: Mapping[str, str] | None = None,
    note: str = "",
    formats: Sequence[str] = FORMATS,
) -> dict[Path, bytes]:
    """Return the figures of one study as ``<stem>.{png,csv}``; with many datasets as ``<stem>_1`` and so on.

    Times of trials that ran in parallel are not shown.

    Parameters
    ----------
    rows : DataFrame
        One setting per dataset name, as from `named_by_setting`.
    labels, reasons, note
        See `paper_grid`.
    asked : sequence of str
        Datasets that come first, with or without rows.
    """
    rows, note = with_serial_times(rows), " ".join(filter(None, (note, _untimed_note(rows))))
    columns = [*asked, *sorted(set(rows["dataset"]) - set(asked), key=_dataset_order)]
    pages = [columns[i : i + PER_FIGURE] for i in range(0, len(columns), PER_FIGURE)]
    files: dict[Path, bytes] = {}
    for number, page in enumerate(pages, 1):
        drawing = paper_grid(rows, page, labels=labels, reasons=reasons, note=note)
        files |= figure_files(drawing, stem.with_name(f"{stem.name}_{number}") if len(pages) > 1 else stem, formats)
    return files


def with_serial_times(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows without the times of trials that ran in parallel, which may not be compared."""
    times = [str(name) for name in rows if is_time(str(name))]
    return rows.assign(**{name: rows[name].where(rows["concurrency"] == 1) for name in times})


def _untimed_note(rows: pd.DataFrame) -> str:
    """Return a sentence on how to get times, if no trial was timed serially."""
    if rows.empty or (rows["concurrency"] == 1).any():
        return ""
    return "No trial was timed serially; timing_repeats=6 times six repetitions with no other worker running."


def _dataset_order(name: str) -> tuple[int, str]:
    known = registry.names()
    return (known.index(name) if name in known else len(known)), name


def named_by_setting(rows: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, tuple[str, str]]]:
    """Rename datasets that a study ran under several settings, so that each gets its own panels.

    Settings are k, the k-means protocol, the matching, the dataset's options and, if these are equal, the data itself.

    Returns
    -------
    rows : DataFrame
    names : mapping of str to (str, str)
        For each new name, the old name and the display name.
    """
    keys = pd.concat([rows[["study", "dataset"]], settings_of(rows)], axis=1)
    kinds = keys.drop_duplicates().astype(object)
    renamed: dict[tuple[Any, ...], str] = {}
    names: dict[str, tuple[str, str]] = {}
    for (_, dataset), of_dataset in kinds.groupby(["study", "dataset"], sort=False):
        for kind, settings in zip(of_dataset.itertuples(index=False), differing_settings(of_dataset), strict=True):
            if not settings:
                continue
            # Leading zeros, so that names sort by their numbers.
            ordered = ", ".join(f"{key}={v:04d}" if isinstance(v, int) else f"{key}={v}" for key, v in settings.items())
            name = f"{dataset} ({ordered})"
            names[name] = str(dataset), f"{dataset_label(str(dataset))}, {settings_text(settings)}"
            renamed[tuple(kind)] = name
    if renamed:
        several = rows["dataset"].isin({kind[1] for kind in renamed})
        trials = keys[several].astype(object).itertuples(index=False, name=None)
        rows = rows.copy()
        rows.loc[several, "dataset"] = [renamed.get(trial, trial[1]) for trial in trials]
    return rows, names


def _stand_ins(rows: pd.DataFrame) -> list[str]:
    """Return the stand-ins for the dataset, one text each; empty text and NaN mean the real data."""
    if rows.empty:
        return []
    return sorted({str(text) for text in rows["stand_in"].dropna().unique() if str(text)})


def _panel_width(ax: Axes) -> float:
    """Return the width of a panel in inches, estimated before the layout, without its labels."""
    figure, spec = ax.get_figure(root=True), ax.get_subplotspec()
    width = figure.get_size_inches()[0] if figure else COLUMN_WIDTH
    return max(0.5, width / (spec.get_gridspec().ncols if spec else 1) - 0.5)


def _shorten_titles(axes: Sequence[Axes]) -> list[str]:
    """Keep the titles of a grid on one line: without the quantity if one is too long, then cut; return those cut."""
    size = PRINT["axes.titlesize"]
    titles = {ax: ax.get_title(loc="left") for ax in axes}

    def too_long(ax: Axes, title: str) -> bool:
        return text_width(title, size) > _panel_width(ax)

    if any(too_long(ax, title) for ax, title in titles.items()):
        titles = {ax: title.rpartition(" – ")[0] for ax, title in titles.items()}
    full = []
    for ax, title in titles.items():
        shown = title
        while too_long(ax, shown):
            shown = f"{shown.rstrip(' …')[:-1].rstrip()} …"
        ax.set_title(shown, loc="left")
        full += [title] * (shown != title)
    return full


def _write(ax: Axes, message: str) -> None:
    text = "\n".join(wrap(message, 0.85 * _panel_width(ax), PRINT["font.size"]))
    ax.text(0.5, 0.5, text, ha="center", va="center", transform=ax.transAxes)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.grid(visible=False)
    for spine in ax.spines.values():
        spine.set_color("#cccccc")


def _empty_panel_text(rows: pd.DataFrame, quantity: str, reason: str) -> str:
    if rows.empty:
        return f"no rows; {reason}"
    if ok_rows(rows).empty:
        return f"no results; all {len(rows)} trials failed"
    if quantity in ("accuracy", "nmi", "ari"):
        return f"no {quantity.upper() if quantity != 'accuracy' else quantity}; the data has no labels"
    return f"no values of {quantity_label(quantity)[0].lower()}"


def _grid_and_flat(rows: pd.DataFrame) -> tuple[list[int], set[Method]]:
    """Return the r of the panel's x axis and the methods that are drawn as horizontal lines.

    Failed trials count: a method that failed at all r but one still depends on r.
    """
    tried = {
        (str(name), str(params)): sorted({int(r) for r in group["r"].dropna()})
        for (name, params), group in rows.groupby(["reducer", "params"])
    }
    several = {method for method, rs in tried.items() if len(rs) > 1 and method[0] != "none"}
    if not several:  # a single r was run: points at their r, and the reference line
        several = {method for method in tried if method[0] != "none"}
    return sorted({r for method in several for r in tried[method]}), set(tried) - several


def _marks_differ(numbers: pd.DataFrame) -> bool:
    return bool((numbers["shown_count"] != numbers["count"]).any())


def _draw_curve(ax: Axes, numbers: pd.DataFrame, style: Style) -> None:
    r, centre = numbers["r"].to_numpy(), centres(numbers).to_numpy()
    face = style.color if style.filled else "white"
    apart = _marks_differ(numbers)
    ax.plot(
        r,
        centre,
        color=style.color,
        marker="" if apart else style.marker,
        linestyle=style.linestyle,
        markerfacecolor=face,
        markevery=math.ceil(len(r) / 25),  # touching markers would look like a thick line
        label=style.label,
    )
    if apart:  # markers of fewer repetitions, in addition to the line and its band
        ax.plot(r, numbers["shown"], color=style.color, marker=style.marker, markerfacecolor=face, linestyle="none")
    low, high = numbers["low"].to_numpy(), numbers["high"].to_numpy()
    if len(r) == 1 and not np.isnan(low[0]):  # a band needs two points
        ax.errorbar(
            r, centre, [centre - low, high - centre], fmt="none", ecolor=style.color, elinewidth=0.7, capsize=1.5
        )
    else:
        ax.fill_between(r, low, high, color=style.color, alpha=_band_alpha(numbers), linewidth=0)


def _band_alpha(numbers: pd.DataFrame) -> float:
    """Return the opacity of a band: faint if two repetitions make it so wide (t = 12.7) that it hides others."""
    return 0.12 if int(numbers["count"].max()) > 2 else 0.05


def _draw_flat(
    ax: Axes, numbers: pd.DataFrame, style: Style, grid: Sequence[int], *, place: float | None = None
) -> None:
    """Draw a horizontal line and its band; with a place, its interval there instead, counted from the last r."""
    line = numbers.iloc[0]
    ax.axhline(centres(numbers).iloc[0], color=style.color, linestyle=style.linestyle, label=style.label, zorder=2.5)
    if place is not None:
        _draw_beside(ax, numbers.iloc[:1].assign(r=grid[-1]), style, place)
        return
    if not np.isnan(line["low"]):
        ax.axhspan(line["low"], line["high"], color=style.color, alpha=_band_alpha(numbers), linewidth=0)
    if style.marker and grid and grid[0] <= line["r"] <= grid[-1]:
        face = style.color if style.filled else "white"
        ax.plot(
            [line["r"]], [line["shown"]], color=style.color, marker=style.marker, markerfacecolor=face, linestyle="none"
        )


def _draw_beside(ax: Axes, numbers: pd.DataFrame, style: Style, place: float) -> None:
    """Draw means and intervals at the labelled r only, moved sideways by a number of places."""
    numbers = numbers[numbers["r"].isin(ax.get_xticks())]
    figure = ax.get_figure(root=True)
    assert figure is not None
    moved = ax.transData + ScaledTranslation(place * _MARK / 72, 0, figure.dpi_scale_trans)
    centre = centres(numbers).to_numpy()
    ax.errorbar(
        numbers["r"], centre, [centre - numbers["low"], numbers["high"] - centre], color=style.color, fmt=style.marker,
        markerfacecolor=style.color if style.filled else "white", linestyle="none", elinewidth=0.8, transform=moved,
        label=style.label,
    )  # fmt: skip


def _widen(ax: Axes, left: float, right: float) -> None:
    """Move the ends of the x axis outwards by widths in inches."""
    scale = ax.transScale
    low, high = scale.transform([(end, 1) for end in ax.get_xlim()])[:, 0]
    inch = (high - low) / (_panel_width(ax) - left - right)
    ends = scale.inverted().transform([(low - left * inch, 0), (high + right * inch, 0)])
    ax.set_xlim(*ends[:, 0].tolist())


def draw_reported_axis(ax: Axes, low: float, high: float) -> None:
    """Draw the range of the y axis in a paper's panel as a grey bar at the right edge."""
    ax.plot(
        [0.985, 0.985], [low, high], color="#999999", linewidth=3, alpha=0.8, solid_capstyle="butt", zorder=1,
        transform=ax.get_yaxis_transform(),
    )  # fmt: skip


def is_crowded(numbers: pd.DataFrame) -> bool:
    """Return True if bands would hide each other: the intervals at a typical r are much longer than what they cover.

    Of methods at a single r, the interval is that at every r.
    """
    known = numbers.dropna(subset=["low", "high"])
    flat = known.groupby(["reducer", "params"])["r"].transform("nunique") == 1
    shares = []
    for _, at_r in known[~flat].groupby("r"):
        ends = pd.concat([at_r, known[flat]])[["low", "high"]].sort_values("low").to_numpy(dtype=float)
        reached = np.maximum.accumulate(ends[:, 1])
        gaps = np.clip(ends[1:, 0] - reached[:-1], 0, None).sum()
        covered = reached[-1] - ends[0, 0] - gaps
        shares.append((ends[:, 1] - ends[:, 0]).sum() / covered if covered > 0 else 0.0)
    return bool(shares) and float(np.median(shares)) > _CROWDED


def _method_of_each(numbers: pd.DataFrame) -> list[Method]:
    return list(zip(numbers["reducer"], numbers["params"], strict=True))


def _plain(value: float, _: int | None = None) -> str:
    return f"{value:g}"


def _plain_log_axis(ax: Axes, low: float, high: float) -> None:
    """Label a log y axis 1, 2, 5, 10, … in plain numbers; over many decades, only the powers of ten."""
    decades = math.log10(high / low)
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < 2 else (1, 3) if decades < 3 else (1,)))
    ax.yaxis.set_major_formatter(FuncFormatter(_plain))
    ax.yaxis.set_minor_formatter(NullFormatter())


def _scale_x(ax: Axes, grid: Sequence[int]) -> None:
    """Show the grid of r, on a log scale if its median is nearer the geometric than the arithmetic mean of its ends."""
    if not grid:  # only horizontal lines
        ax.set_xticks([])
        return
    low, high, middle = grid[0], grid[-1], grid[len(grid) // 2]
    if low > 0 and high >= 10 * low and abs(middle - math.sqrt(low * high)) < abs(middle - (low + high) / 2):
        pad = (high / low) ** 0.03
        ax.set_xscale("log")
        ax.set_xlim(low / pad, high * pad)
    else:
        pad = 0.03 * (high - low) or 1.0
        ax.set_xlim(low - pad, high + pad)


def label_r(ax: Axes, grid: Sequence[int], least: float) -> None:
    """Label the r of a grid, thinned such that labels do not overlap, and mark all; the scale and limits are set.

    ``least`` is the space that is kept for each label, in inches.
    """
    if not grid:
        return
    size = PRINT["xtick.labelsize"]
    ends = ax.transScale.transform([(end, 1) for end in ax.get_xlim()])[:, 0]
    places = (ax.transScale.transform([(r, 1) for r in grid])[:, 0] - ends[0]) / (ends[1] - ends[0])
    widths = [max(least, text_width(str(r), size)) / _panel_width(ax) for r in grid]
    kept = thinned_labels(grid, places, widths, text_width("0", size) / _panel_width(ax))
    ax.xaxis.set_major_locator(FixedLocator([grid[i] for i in kept]))
    ax.xaxis.set_major_formatter(FuncFormatter(_plain))
    ax.xaxis.set_minor_locator(FixedLocator(list(grid) if len(grid) <= _MOST_MARKS else []))
    ax.xaxis.set_minor_formatter(NullFormatter())


def thinned_labels(grid: Sequence[int], places: Sequence[float], widths: Sequence[float], gap: float) -> list[int]:
    """Return the values of a grid to label: the last, every so many before it, and the first if there is room.

    Of the steps that fit, the first is taken, or one that is less than twice as long and 1, 2 or 5 times a power of 10.

    Parameters
    ----------
    places, widths, gap : sequence of float, float
        Ascending centres of the labels, their widths, and the least distance between two, in the same unit.

    Examples
    --------
    >>> thinned_labels([5, 10, 15, 20, 25], [0, 1, 2, 3, 4], [1] * 5, 0.5)
    [0, 2, 4]
    """

    def overlap(some: Sequence[int]) -> bool:
        return any(places[j] - places[i] < (widths[i] + widths[j]) / 2 + gap for i, j in pairwise(some))

    def is_round(some: Sequence[int]) -> bool:
        steps = {grid[j] - grid[i] for i, j in pairwise(some)}
        return len(steps) == 1 and str(steps.pop()).rstrip("0") in ("1", "2", "5")

    every = [list(range(len(grid) - 1, -1, -step))[::-1] for step in range(1, len(grid) + 1)]
    fitting = [(step, shown) for step, shown in enumerate(every, 1) if not overlap(shown)]
    least, shown = fitting[0]
    shown = next((other for step, other in fitting if step < 2 * least and is_round(other)), shown)
    return [0, *shown] if shown[0] and not overlap([0, *shown]) else shown


def _ends(numbers: pd.DataFrame) -> tuple[float, float]:
    values = np.array([centres(numbers), numbers["shown"]], dtype=float)
    return float(np.nanmin(values)), float(np.nanmax(values))


def _y_range(numbers: pd.DataFrame) -> tuple[float, float]:
    """Return a range that shows all lines and markers, and bands as far as they do not squeeze them.

    With two repetitions t is 12.7, and a band may be ten times as high as everything else.
    """
    low, high = _ends(numbers)
    room = (high - low) / 2 or abs(high) * 0.05 or 0.05
    bottom = max(low - room, min(low, float(numbers["low"].min()))) if numbers["low"].notna().any() else low
    top = min(high + room, max(high, float(numbers["high"].max()))) if numbers["high"].notna().any() else high
    return bottom, top


def _scale_y(ax: Axes, numbers: pd.DataFrame, quantity: str) -> None:
    """Set the limits; on a log scale for times that span more than a decade."""
    least, most = _ends(numbers)
    if is_time(quantity) and least > 0 and most > 10 * least:
        pad = (most / least) ** 0.05
        ax.set_yscale("log", nonpositive="clip")
        ax.set_ylim(least / pad, most * pad)
        _plain_log_axis(ax, least, most)
        return
    bottom, top = _y_range(numbers)
    pad = 0.05 * (top - bottom) or abs(top) * 0.05 or 0.05
    low, high = bottom - pad, top + pad
    if is_time(quantity):
        low = max(low, 0.0)
    if quantity == "objective":
        low = max(low, -0.03 * high)  # F is never negative, even if a band is; zero itself stays visible
    if quantity in ("accuracy", "nmi"):
        low, high = max(low, -0.02), min(high, 1.02)
    ax.set_ylim(low, high)
    ax.yaxis.set_major_locator(MaxNLocator(nbins=5))


def _add_legend(fig: Figure, axes: Iterable[Axes], styles: Mapping[Method, Style]) -> int:
    """Add one legend above all panels; return the number of its lines."""
    shown = {label for ax in axes for label in ax.get_legend_handles_labels()[1]}
    looks = [style for style in styles.values() if style.label in shown]
    if not looks:
        return 0
    handles = [
        Line2D(
            [],
            [],
            color=style.color,
            marker=style.marker,
            linestyle=style.linestyle,
            markerfacecolor=style.color if style.filled else "white",
        )
        for style in looks
    ]
    return add_legend(fig, handles, [style.label for style in looks], len(looks))


def _span(counts: "pd.Series[int]") -> str:
    """Return the range of some counts as ``2–5``, or ``5`` if they are equal."""
    least, most = int(counts.min()), int(counts.max())
    return f"{least}–{most}" if least < most else str(most)


# How each statistic is described: its repetitions, its interval, and those without one.
_STATISTICS: Mapping[str, tuple[str, str, str]] = {
    "mean": ("Means of {} repetition", "95 % Student-t interval of the mean", "one repetition"),
    "median": ("Times: medians of {} timing", "distribution-free 95 % interval", "fewer than six timings"),
}


def _repetitions_note(numbers: pd.DataFrame, styles: Mapping[Method, Style], intervals: str, bands_cut: bool) -> str:
    """Return the description of lines, intervals (bands or bars) and markers."""
    sentences = []
    for name, (repetitions, interval, few) in _STATISTICS.items():
        part = numbers.dropna(subset=name) if name in numbers else numbers.iloc[:0]
        if part.empty:
            continue
        without = part["low"].isna()
        sentence = repetitions.format(_span(part["count"])) + "s" * (int(part["count"].max()) > 1)
        sentences.append(sentence + (", so without intervals." if without.all() else f"; {intervals}: {interval}."))
        sentences += [f"No band: {few}."] if without.any() and not without.all() else []
    if _marks_differ(numbers):
        shown = _span(numbers["shown_count"])
        sentences.append(f"Markers: the same of the first {shown}, the number of repetitions in the paper.")
    text = " ".join(sentences)
    if bands_cut:
        text += " Intervals may reach beyond the axes."
    flat = set(numbers.loc[(numbers["drawn_as"] == "line") & (numbers["reducer"] != "none"), "label"])
    if flat:
        names = ", ".join(style.label for style in styles.values() if style.label in flat)
        text += f" Run at one r only, drawn as a horizontal line: {names}."
    return text


def _notes(
    rows: pd.DataFrame,
    datasets: Sequence[str],
    quantities: Sequence[str],
    styles: Mapping[Method, Style],
    drawing: Drawing,
    *,
    labels: Mapping[str, str] | None,
) -> list[str]:
    """Return the sentences below a figure: the meaning of the bands, and everything that the panels do not show."""
    by_label = {dataset_label(name, labels): rows[rows["dataset"] == name] for name in datasets}
    suffixes = {name: f" ({dataset_label(name, labels)})" * (len(datasets) > 1) for name in datasets}
    times = list(filter(is_time, quantities))
    intervals = "bars" if all(map(is_crowded, drawing.panels)) else "bands"
    numbers = drawing.numbers
    notes = [
        _repetitions_note(numbers, styles, intervals, _any_band_cut(drawing)) if len(numbers) else "",
        _crowding_note(drawing.panels),
        _seeds_note(rows),
        _stand_ins_note(by_label),
        *(_parallel_timing_notes(by_label) if times else []),
        _environments_note(rows),
        _code_note(rows, styles),
        *(environment_notes(rows) if times else []),
        _failures_note(rows, suffixes),
        _untimed_methods_note(rows, times, styles, suffixes),
    ]
    return list(filter(None, notes))


def _crowding_note(panels: Sequence[pd.DataFrame]) -> str:
    """Return how the panels are drawn in which intervals overlap."""
    crowded = {f"({panel_letter(i)})": drawn for i, drawn in enumerate(panels) if is_crowded(drawn)}
    if not crowded:
        return ""
    where = f"In {' and '.join(crowded)}, where" if len(panels) > 1 else "Where"
    has_lines = any((drawn["drawn_as"] == "line").any() for drawn in crowded.values())
    return (
        f"{where} intervals overlap, means with their intervals are side by side and only at the labelled r"
        + ", intervals of horizontal lines on the right" * has_lines
        + "; the CSV file has every r."
    )


def _seeds_note(rows: pd.DataFrame) -> str:
    seeds = ok_rows(rows).groupby(["dataset", "reducer", "params", "k"])["seed"].nunique()
    return f"Repetitions of {seeds.max()} seeds." if (seeds > 1).any() else ""


def _stand_ins_note(by_label: Mapping[str, pd.DataFrame]) -> str:
    texts = [f"{label} ({text})" for label, rows in by_label.items() for text in _stand_ins(rows)]
    return f"Stand-in{'s' * (len(texts) > 1)}: {', '.join(texts)}." if texts else ""


def _parallel_timing_notes(by_label: Mapping[str, pd.DataFrame]) -> list[str]:
    return [f"{label}: {text}." for label, rows in by_label.items() if (text := timing_note(rows))]


def _environments_note(rows: pd.DataFrame) -> str:
    count = rows["env_hash"].nunique()
    return f"Computed in {counted(count, 'environment')}." if count > 1 else ""


def _code_note(rows: pd.DataFrame, styles: Mapping[Method, Style]) -> str:
    """Return the methods whose rows were made by several versions of their code."""
    of_methods = rows.groupby(["reducer", "params"], observed=True)
    mixed = {method for method, of_method in of_methods if code_notes(of_method)}
    names = ", ".join(style.label for method, style in styles.items() if method in mixed)
    return f"Several versions of their code made the rows of {names}." if mixed else ""


def _failures_note(rows: pd.DataFrame, suffixes: Mapping[str, str]) -> str:
    """Return the number of failed trials of each method; `suffixes` has what follows it for each dataset."""
    failed = failed_counts(rows)
    total = sum(failed.values())
    listed = ", ".join(f"{name} ×{count}{suffixes[dataset]}" for (dataset, name), count in failed.items())
    return f"{total} failed trial{'s' if total > 1 else ''} omitted: {listed}." if failed else ""


def _untimed_methods_note(
    rows: pd.DataFrame, times: Sequence[str], styles: Mapping[Method, Style], suffixes: Mapping[str, str]
) -> str:
    """Return the methods without a running time, and why they have none."""
    untimed: dict[str, None] = {}
    for quantity, (dataset, suffix) in product(times, suffixes.items()):
        of_dataset = rows[rows["dataset"] == dataset]
        without = set(methods_of(of_dataset)) - set(methods_of(quantity_rows(of_dataset, quantity)))
        untimed |= {f"{style.label}{suffix}": None for method, style in styles.items() if method in without}
    if not untimed:
        return ""
    serial = (rows["concurrency"] == 1).any()
    why = "Not timed serially, so without" if serial else "Repetitions share steps, so without"
    return f"{why} a running time: {', '.join(untimed)}."


def _any_band_cut(drawing: Drawing) -> bool:
    for ax, numbers in zip(drawing.figure.axes, drawing.panels, strict=True):
        bottom, top = ax.get_ylim()
        if len(numbers) and ((numbers["low"] < bottom) | (numbers["high"] > top)).any():
            return True
    return False
