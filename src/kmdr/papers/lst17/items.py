"""lst17's Figures 1–3 and Table 1, and the growth of the times that its §4.2 describes."""

from collections.abc import Callable, Sequence
from textwrap import shorten
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.ticker import LogLocator, NullFormatter, PercentFormatter

from kmdr.analysis.results import Results
from kmdr.analysis.rows import (
    Interval,
    mean_interval,
    median_interval,
    quantity_rows,
    ratio_to_best,
    timed_rows,
    without_scores,
)
from kmdr.claims.catalogue import figure, table
from kmdr.claims.effects import Floats, exponent_cells
from kmdr.claims.reported import reported
from kmdr.figures.canvas import Drawing, power_of_ten
from kmdr.figures.panels import dataset_label, draw_reported_axis, methods_of, paper_grid
from kmdr.figures.style import Method, Style, method_styles, names_in_paper
from kmdr.figures.tables import Table

from .protocol import DATASETS, GENERATED, GROWTH, NAMES, STUDIES, TIMES, UNSTATED, powers_of_r


def _shown(results: Results) -> dict[str, str]:
    """Return for each dataset of the paper the one that its panel shows: itself, or its stand-in."""
    have = set(results.rows(STUDIES, mixed=True)["dataset"])
    return {
        name: next((shown for shown in (name, *others) if shown in have), name) for name, others in DATASETS.items()
    }


def _styles(rows: pd.DataFrame) -> dict[Method, Style]:
    """Return the appearance of the methods in the order of the paper's legend."""
    looks = method_styles(methods_of(rows))
    known = list(NAMES)
    ordered = sorted(looks, key=lambda method: known.index(method[0]) if method[0] in known else len(known))
    return {method: looks[method] for method in ordered}


def _fewer_r(rows: pd.DataFrame, shown: Sequence[str]) -> str:
    """Return which methods were run at fewer r than the others of their panel."""
    parts = []
    for dataset in shown:
        reduced = rows[(rows["dataset"] == dataset) & (rows["reducer"] != "none")]
        few: dict[tuple[int, ...], list[str]] = {}
        for reducer, group in reduced.groupby("reducer"):
            if set(group["r"]) < set(reduced["r"]):
                few.setdefault(tuple(sorted(set(group["r"]))), []).append(str(reducer))
        name = dataset_label(dataset)
        parts += [f"{' and '.join(who)} on {name} at r = {', '.join(map(str, rs))}" for rs, who in few.items()]
    return f"Run at some r only, because they take long: {'; '.join(parts)}." if parts else ""


def _generated(stand_ins: Sequence[str]) -> list[str]:
    """Return the descriptions of generated stand-ins."""
    return [
        f"{' and '.join(names)}: synthetic {what} with the dimensions of the unavailable dataset."
        for what in dict.fromkeys(GENERATED.values())
        if (names := [dataset_label(name) for name in stand_ins if GENERATED[name] == what])
    ]


def _against_r(results: Results, id_: str, quantity: str, ylabel: str, note: str) -> Drawing:
    """Draw one quantity against r, on a log axis, in each of the paper's four panels that has data."""
    results.rows(STUDIES, mixed=True)  # records the use, and raises if there are none
    rows = without_scores(results.trials(STUDIES), [TIMES])  # including failed ones, which the notes count
    rows = rows[rows["reducer"].isin(NAMES)]  # another method is timed for Table 1
    if quantity == "reduction_seconds":
        rows = rows[rows["reducer"] != "none"]
    shown = _shown(results)
    stand_ins = [name for paper, name in shown.items() if name != paper]
    published = reported("lst17")
    axis = published[published["id"] == id_].set_index(["dataset", "quantity"])["value"]
    notes = [
        note,
        names_in_paper(NAMES),
        "The grey bar at the right edge is the range of the y axis in the paper's panel, which prints no numbers of "
        "its curves.",
        *_generated(stand_ins),
        "The paper has no svd, lle and laplacian_score on RCV1 and ILSVRC2012: they gave no result within three days."
        + (" lle is not run on SECTOR-like, where it takes minutes for each r." if "sector_like" in stand_ins else ""),
        _fewer_r(rows, list(shown.values())),
    ]
    drawing = paper_grid(
        rows,
        list(shown.values()),
        (quantity,),
        None,
        {name: shorten(text, 100, placeholder=" …") for name, text in (results.missing | UNSTATED).items()},
        " ".join(text for text in notes if text),
        styles=_styles(rows),
    )
    drawing.figure.axes[0].set_ylabel(ylabel)
    of_paper = {name: paper for paper, name in shown.items()}
    panels = []
    for ax, numbers in zip(drawing.figure.axes, drawing.panels, strict=True):
        paper = of_paper[numbers["dataset"].iloc[0]]
        low, high = (axis.xs((paper, f"{quantity}_axis_{end}")).item() for end in ("low", "high"))
        draw_reported_axis(ax, low, high)
        least, most = min(low, numbers["shown"].min()), max(high, numbers["shown"].max())
        if quantity == "accuracy":
            ax.set_ylim(max(-0.02, least - 0.03), min(1.02, most + 0.03))
            ax.yaxis.set_major_formatter(PercentFormatter(1, symbol=""))
        else:
            ax.set_yscale("log", nonpositive="clip")
            ax.set_ylim(least / 1.5, most * 1.5)
            ax.yaxis.set_major_locator(LogLocator(numticks=7))
            ax.yaxis.set_major_formatter(power_of_ten)
            ax.yaxis.set_minor_formatter(NullFormatter())
        span = {"dataset": paper, "quantity": quantity, "low": low, "high": high, "label": "reported: the y axis"}
        panels.append(pd.concat([numbers, pd.DataFrame([{**span, "drawn_as": "reported"}])]))
    return Drawing(drawing.figure, panels)


@figure("lst17_fig1", "Accuracy of clustering against the number of dimensions", studies=STUDIES)
def fig1(results: Results) -> Drawing:
    """Panels in a row, P in % against r up to 1000 on a log axis: COIL20, SECTOR, RCV1, ILSVRC2012."""
    return _against_r(results, "lst17_fig1", "accuracy", "accuracy P (%)", "")


@figure("lst17_fig2", "Dimension reduction time against the number of dimensions", studies=STUDIES)
def fig2(results: Results) -> Drawing:
    """Panels as in Figure 1, logarithmic y: the reduction time, including r-independent work, at each r."""
    note = "Reduction time: everything that a method does before k-means, for a single r."
    return _against_r(results, "lst17_fig2", "reduction_seconds", "reduction time (s)", note)


@figure("lst17_fig3", "Clustering time against the number of dimensions", studies=STUDIES)
def fig3(results: Results) -> Drawing:
    """Panels as in Figure 1, logarithmic y: the time of k-means on the reduced points, and on all features."""
    return _against_r(results, "lst17_fig3", "cluster_seconds", "clustering time (s)", "")


class Row(NamedTuple):
    """A row of the paper's Table 1, its reducer, and the power of r in its time."""

    method: str
    description: str
    dimensions: str
    time: str
    accuracy: str
    reducer: str
    exponent: float


FOLKLORE = "Folklore"
# The numbers in brackets are the paper's references.
TABLE1 = (
    Row("Drineas et al. [13]", "SVD-FE", "k", "O(nd min{n, d})", "2", "svd", 0),
    Row(FOLKLORE, "RP-FE", "O(log(n)/ε²)", "O(nd log(n)/(ε² log(d)))", "1 + ε", "random_sign", 1),
    Row("bmd09 [12]", "SVD-FS", "O(k log(k/ε)/ε²)", "O(nd min{n, d})", "2 + ε", "leverage", 0),
    Row("Feldman et al. [14]", "SVD-FE", "O(k/ε²)", "O(nd min{n, d})", "1 + ε", "svd", 0),
    Row("bzmd15 [1]", "RP-FE", "O(k/ε²)", "O(ndk/(ε² log(d)))", "2 + ε", "random_sign", 1),
    Row("Pourkamali-Anaraki, Becker [15]", "RP-FE", "O(log(n)/n)", "O(d log(d) n + d log(n))", "N/A", "sparsified", 0),
    Row("This paper", "SE-FE", "O(max((k + log(1/δ))/ε², 6/(ε²δ)))", "O(nnz(X))", "1 + ε", "sparse_embedding", 0),
    Row("k-means", "all features", "d", "", "", "none", np.nan),
)  # fmt: skip
R_TABLE1 = 100


def _known(interval: Callable[[Floats], Interval], values: Floats) -> Interval:
    return interval(values) if values.size else Interval(np.nan, np.nan, np.nan, 0)


@table(
    "lst17_table1",
    "Dimension reduction methods for k-means: the paper's bounds, and time and approximation ratio measured on COIL20",
    studies=("lst17_coil20", "lst17_table1", TIMES, "bzmd15_fig2"),
)
def table1(results: Results) -> Table:
    """Print the paper's rows and columns, and what was measured on COIL20 at r = 100 (row [13]: r = k).

    The power of r in the reduction time is the median slope of log time on log r over the grid, one slope per serially
    timed repetition; reported is the power of r = k/ε² (or log(n)/ε²) in the paper's time. F/F_best is the objective
    over the smallest of any run.
    """
    studies = ("lst17_coil20", "lst17_table1", TIMES)
    rows = results.rows(studies, datasets=["coil20"])
    best = results.rows((*studies, "bzmd15_fig2"), datasets=["coil20"], mixed=True)
    ratios = quantity_rows(best.assign(ratio=ratio_to_best(best)), "ratio")
    seconds = quantity_rows(rows, "reduction_seconds")
    times = results.wide(studies, "reduction_seconds", datasets=["coil20"]).droplevel("dataset").apply(np.log10)
    times = times.reindex(columns=sorted({row.reducer for row in TABLE1}))
    k = int(rows["k"].iloc[0])
    lines = []
    for row in TABLE1:
        grid = sorted(set(rows.loc[rows["reducer"] == row.reducer, "r"]))
        if not grid:
            continue
        r = min(grid, key=lambda size: abs(np.log(size / (k if row.dimensions == "k" else R_TABLE1))))
        here = [
            frame.loc[frame["study"].isin(studies) & (frame["reducer"] == row.reducer) & (frame["r"] == r), "value"]
            for frame in (seconds, ratios)
        ]
        reduces = row.reducer != "none"
        power = _known(median_interval, powers_of_r(times, row.reducer) if reduces else np.empty(0))
        timed = _known(median_interval, here[0].to_numpy() if reduces else np.empty(0))
        ratio = _known(mean_interval, here[1].to_numpy())
        lines.append(
            {
                "method": row.method,
                "description": row.description,
                "dimensions": row.dimensions,
                "time": row.time,
                "accuracy": row.accuracy,
                "r": r,
                "timings": timed.size,
                "median seconds": timed.centre,
                "seconds low": timed.low,
                "seconds high": timed.high,
                "power of r, reported": row.exponent,
                "power of r, ours": power.centre,
                "power low": power.low,
                "power high": power.high,
                "difference": power.centre - row.exponent,
                "F/F_best": ratio.centre,
                "F/F_best low": ratio.low,
                "F/F_best high": ratio.high,
            }
        )
    formats = {
        "r": "d", "timings": "d", **dict.fromkeys(("median seconds", "seconds low", "seconds high"), ".2g"),
        "power of r, reported": ".0f", "power of r, ours": ".2f", "power low": ".2f",
        "power high": ".2f", "difference": "+.2f", "F/F_best": ".3f", "F/F_best low": ".3f", "F/F_best high": ".3f",
    }  # fmt: skip
    note = (
        "The columns from r on are measured on COIL20. Seconds and the power of r are medians over serially timed "
        "repetitions, with distribution-free 95 % intervals; F/F_best is a mean with its Student-t interval. The "
        "paper's accuracies bound F/F_opt if the reduced points are clustered optimally; the measured ratio, of one "
        "k-means start to the smallest F found, also includes the loss of that start, which the last row shows "
        "separately. [12] is Sampl/SVD, [13] and [14] are SVD, [1] and Folklore are RP, [15] is PD. Our SVD computes "
        "only r singular vectors, so its time grows with r, unlike the paper's."
    )
    return Table(pd.DataFrame(lines), formats, note)


@table(
    "lst17_section4-2",
    "Growth of the reduction time with the entries of sparse data and with r, and the paper's complexities",
    studies=[GROWTH],
)
def growth(results: Results) -> Table:
    """Compare measured exponents of the reduction time with the paper's times, one row per method.

    Exponents are slopes of log time on log n, one per serially timed repetition. The number of entries per point is the
    same, so they are also exponents of nnz(X). Likewise on log r.
    """
    times = quantity_rows(timed_rows(results.rows(GROWTH, mixed=True)), "reduction_seconds")
    largest = times[(times["n"] == times["n"].max()) & (times["r"] == times["r"].max())]
    lines = []
    for row in TABLE1:
        of_method = times[times["reducer"] == row.reducer]
        if row.method == FOLKLORE or of_method.empty:  # Folklore uses the random signs of [1]
            continue
        ours = exponent_cells(of_method, {"n": "n", "r": "r"})
        lines.append(
            {
                "method": row.method,
                "description": row.description,
                "time": row.time,
                "exponent of nnz(X), reported": 1.0,
                **ours,
                "exponent of r, reported": row.exponent,
                "median seconds": largest.loc[largest["reducer"] == row.reducer, "value"].median(),
            }
        )
    frame = pd.DataFrame(lines)
    n, r = int(times["n"].max()), int(times["r"].max())
    note = (
        f"n from {int(times['n'].min())} to {n}, {times['nnz'].max() / n:.0f} entries per point, so nnz(X) grows like "
        f"n; the seconds are at n = {n} and r = {r}, too few timings for an interval. ±: half-widths of 95 % Student-t "
        "intervals of the mean slope. The fixed cost of a call makes exponents smaller, and memory beyond the "
        "processor's caches makes them larger."
    )
    return Table(frame, dict.fromkeys(frame.columns[3:], ".2f") | {"median seconds": ".2g"}, note)


ITEMS = (fig1, fig2, fig3, table1, growth)
