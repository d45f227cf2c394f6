"""bzd10's Tables 1 and 2, Figure 1, and the comparison that §5.2 describes in words."""

import math
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.ticker import NullFormatter

from kmdr.analysis.results import NotRunError, Results
from kmdr.analysis.rows import REPETITION, statistic, without_scores
from kmdr.claims.agreement import AS_WRITTEN, RECONSTRUCTED, RECONSTRUCTED_ENDS
from kmdr.claims.catalogue import figure, table
from kmdr.claims.effects import exponent_cells, ratio_cells, ratios_and_times
from kmdr.claims.reported import Number, numbers
from kmdr.figures.canvas import Drawing, canvas, finish, power_of_ten
from kmdr.figures.panels import draw_reported_axis, paper_grid
from kmdr.figures.style import KNOWN, print_style
from kmdr.figures.tables import Table

from .protocol import DIMENSIONS, FIGURE1, FIGURE1_TIMES, ORL, TABLE1, TABLE1_ORL, TABLE2, TABLE2_SIGNS, table2_runs

QUANTITIES = ("objective", "accuracy", "cluster_seconds")
# The names of Table 2, in the order of its lines.
LINES = {"svd": "SVD", "lle": "LLE", "laplacian_score": "LS", "none": "HD", "random_sign": "RP"}
_PER_N = 20  # the t of Table 1's ratios
# The study of Table 2 under the reconstructed protocol, and the reducers that it has in place of others.
_RECONSTRUCTED, _REPLACED = "flip_matlab_bzd10", {"svd": "left_singular_vectors"}


@figure(
    FIGURE1,
    "Objective, accuracy and time of k-means of random signs on ORL 64×64 against t",
    studies=[FIGURE1, FIGURE1_TIMES],
)
def figure1(results: Results) -> Drawing:
    """As in the paper: F, P and the time of k-means against t = 5, 10, …, 300, one panel each.

    The paper has a single run per point; ours are means, and medians of times, with 95 % intervals, with k-means on
    all features. The text gives the span of the y axes and one time; the numbers of the same algorithm in Table 2 are
    drawn too.
    """
    rows = without_scores(results.rows((FIGURE1, FIGURE1_TIMES)), [FIGURE1_TIMES])
    note = (
        "The paper does not say how many runs a point represents. Open squares: reported values, P and "
        "F of the same algorithm in Table 2, and the time of one second that the text gives at t = 275. Grey bar at "
        "the right edge: range of the y axis in the paper's panel. The paper prints no other point of its curves."
    )
    drawing = paper_grid(rows, [ORL], QUANTITIES, note=note)
    of_figure = numbers(FIGURE1)
    span = {number.quantity: number.value for number in of_figure}
    panels = []
    for ax, drawn in zip(drawing.figure.axes, drawing.panels, strict=True):
        quantity = str(drawn["quantity"].iloc[0])
        stated = [*of_figure, *numbers("bzd10_table2", method="random_sign")]
        points = [number for number in stated if number.quantity == quantity]
        low, high = (span[f"{quantity}_axis_{end}"] for end in ("low", "high"))
        x, y = [number.r for number in points], [number.value for number in points]
        ax.plot(x, y, "s", color="#777777", markerfacecolor="white", markersize=4, zorder=4)
        least, most = ax.get_ylim()
        logarithmic = ax.get_yscale() == "log"  # such an axis cannot show 0
        least = least if logarithmic else min(least, low - 0.05 * (high - low))
        most = max(most, high * 1.5 if logarithmic else high + 0.05 * (high - low))
        ax.set_ylim(least, most)
        draw_reported_axis(ax, max(low, least), high)
        points_frame = pd.DataFrame(
            {"quantity": quantity, "dataset": ORL, "reducer": "random_sign", "r": x, statistic(quantity): y}
        )
        spans = pd.DataFrame([{"quantity": quantity, "dataset": ORL, "low": low, "high": high}])
        panels.append(
            pd.concat(
                [
                    drawn,
                    points_frame.assign(label="reported", drawn_as="reported"),
                    spans.assign(label="reported: the y axis", drawn_as="reported"),
                ]
            )
        )
    return Drawing(drawing.figure, panels)


class _Bound(NamedTuple):
    """A row of Table 1 as printed, and the reducer that it is about."""

    year: str
    reference: str
    description: str
    dimensions: str
    time: str
    ratio: str
    bound: float  # for an exact k-means and ε = 1/3
    reducer: str


BOUNDS = (
    _Bound("1999", "[6]", "SVD, feature extraction", "k", "nd·min{n, d}", "2", 2.0, "svd"),
    _Bound(
        "–", "Folklore", "RP, feature extraction", "Ω(log(n)/ε²)", "nd⌈ε⁻²log(n)/log(d)⌉", "1 + ε", 4 / 3,
        "random_sign_mailman",
    ),
    _Bound("2009", "[5]", "SVD, feature selection", "Ω(k log(k/ε)/ε²)", "nd·min{n, d}", "2 + ε", 7 / 3, "leverage"),
    _Bound(
        "2010", "This paper", "RP, feature extraction", "Ω(k/ε²)", "nd⌈ε⁻²k/log(d)⌉", "2 + ε", 7 / 3,
        "random_sign_mailman",
    ),
)  # fmt: skip


@table(
    "bzd10_table1",
    "Dimension reductions for k-means: dimensions, time and accuracy, with what was measured",
    studies=[TABLE1, TABLE1_ORL],
)
def reductions(results: Results) -> Table:
    """Compare the measured ratio and the exponents of the time with the paper's columns.

    Ours is F over the smallest F found on ORL 64×64, at t = 20 (k columns for SVD): mean with its 95 % interval, and
    largest value, over the repetitions. Exponents are slopes of log reduction time on log n, log d and log t on Synth
    of several sizes. The two rows of random projection differ in t only and share their measurements.
    """
    rows, times = ratios_and_times(results, lambda: results.rows(TABLE1_ORL), TABLE1)
    lines = []
    for line in BOUNDS:
        cells: dict[str, object] = {
            "year": line.year, "reference": line.reference, "description": line.description,
            "dimensions": line.dimensions, "time = O(x), x =": line.time, "accuracy": line.ratio,
            "reported, ε = 1/3": line.bound,
        }  # fmt: skip
        ratio = pd.Series(dtype=float)
        if rows is not None:
            of_method = rows[rows["reducer"] == line.reducer]
            near = of_method if of_method["r"].nunique() == 1 else of_method[of_method["r"] == _PER_N]
            ratio = near.groupby(REPETITION)["ratio"].mean()
        cells |= ratio_cells(ratio)
        seconds = None if times is None else times[times["reducer"] == line.reducer]
        cells |= exponent_cells(seconds, {"n": "n", "d": "d", "r": "t"})
        lines.append(cells)
    frame = pd.DataFrame(lines)
    formats = dict.fromkeys(frame.columns[6:], ".2f") | dict.fromkeys(("ours", "low", "high"), ".3f")
    return Table(
        frame,
        formats,
        "n points with d features. Ours is F/F_best on ORL 64×64 at t = 20; F_best, the smallest F found, is at least "
        "F_opt, so true ratios may be larger. Times are of the reduction only, with random signs by the mailman "
        "algorithm, to which the paper's bound refers.",
    )


@table("bzd10_table2", "P and F of five methods at t = 10, 20, 50, 100 on ORL 64×64", studies=[TABLE2, TABLE2_SIGNS])
def five_methods(results: Results) -> Table:
    """Compare ours with each cell of the paper's table, one row per cell.

    SVD, LLE, LS and HD are deterministic from the paper's start, so ours is one number. For RP, ours is the mean of
    single runs, low and high bound their central 95 %, and "≤ reported" is the share of runs at or below the reported
    value. Three columns have the number or mean, and the central 95 %, under the reconstructed protocol, if it was run.
    """
    lines: list[dict[str, object]] = []
    for number in numbers("bzd10_table2"):
        try:
            values = table2_runs(results, number.method, number.r)[number.quantity].to_numpy(dtype=float)
        except NotRunError:
            continue
        drawn = number.method == "random_sign"
        low, high = np.quantile(values, [0.025, 0.975]) if drawn else (math.nan, math.nan)
        lines.append(
            {
                "method": LINES[number.method],
                "t": int(number.r),
                "quantity": "P" if number.quantity == "accuracy" else "F",
                "reported": number.value,
                **_reconstructed_cell(results, number),
                AS_WRITTEN: float(values.mean()),
                "low": float(low),
                "high": float(high),
                "difference": float(values.mean()) - number.value,
                "≤ reported": float(np.mean(values <= number.value + number.reading_error)) if drawn else math.nan,
                "runs": len(values) if drawn else 1,
            }
        )
    if not lines:
        raise NotRunError(f"no rows of {TABLE2}")
    frame = pd.DataFrame(lines)
    if frame[RECONSTRUCTED].isna().all():
        frame = frame.drop(columns=[RECONSTRUCTED, *RECONSTRUCTED_ENDS])
    every = ("reported", AS_WRITTEN, "low", "high", RECONSTRUCTED, *RECONSTRUCTED_ENDS)
    numeric = [name for name in every if name in frame]
    formats = dict.fromkeys(numeric, ".4f") | {"difference": "+.4f", "≤ reported": ".3f"}
    again = (
        f" {RECONSTRUCTED.capitalize()}, low and high: under the reconstructed protocol (MATLAB's online phase, U_t "
        "for SVD, and inferred settings of the LLE and Laplacian-score codes of 2010)."
    )
    note = (
        f"{AS_WRITTEN.capitalize()}, and the columns after it: the protocol as the paper states it. HD: all features; "
        "LS: Laplacian scores; RP: random signs. All but RP are deterministic from the paper's start. RP: mean of "
        "single runs; low to high: their central 95 %; "
        f"≤ reported: the share of runs at or below the reported value.{again if RECONSTRUCTED in frame else ''} t = "
        f"{', '.join(map(str, DIMENSIONS))}."
    )
    return Table(frame, formats, note)


def _reconstructed_cell(results: Results, number: Number) -> dict[str, float]:
    """Return mean and central 95 % of a cell of Table 2 under the reconstructed protocol; NaN for what was not run."""
    columns = (RECONSTRUCTED, *RECONSTRUCTED_ENDS)
    try:
        rows = results.rows(_RECONSTRUCTED, reducers=[_REPLACED.get(number.method, number.method)])
    except NotRunError:
        return dict.fromkeys(columns, math.nan)
    values = (rows if number.method == "none" else rows[rows["r"] == number.r])[number.quantity].astype(float)
    varies = number.method == "random_sign" and len(values) > 0
    low, high = np.quantile(values, [0.025, 0.975]) if varies else (math.nan, math.nan)
    return dict(zip(columns, (float(values.mean()), float(low), float(high)), strict=True))


@figure(
    "bzd10_section5-2", "Time of A·R by three ways to multiply by a random sign matrix", facts=["bzd10_products"]
)  # fmt: skip
def products(results: Results) -> Drawing:
    """Seconds of A·R against the number of rows n, for d = 4096 and t = 100, both axes logarithmic.

    MM1 is BLAS with R stored, MM2 generates R column by column, the third is the mailman algorithm; medians, with the
    range of the repetitions as a band. The paper describes this comparison in words.
    """
    times = results.fact("bzd10_products")
    looks = {"MM1": KNOWN["none"], "MM2": KNOWN["gaussian"], "mailman": KNOWN["random_sign_mailman"]}
    with print_style():
        fig, (ax,) = canvas(1, height=2.3)
        panels = []
        for way, look in looks.items():
            by_n = times[times["way"] == way].groupby("n")["seconds"]
            drawn = pd.DataFrame({"median": by_n.median(), "low": by_n.min(), "high": by_n.max()}).reset_index()
            marker = look.marker or "o"
            ax.plot(drawn["n"], drawn["median"], color=look.color, marker=marker, linestyle=look.linestyle, label=way)
            ax.fill_between(drawn["n"], drawn["low"], drawn["high"], color=look.color, alpha=0.2, linewidth=0)
            panels.append(drawn.assign(way=way))
        ax.set_xscale("log")
        ax.set_yscale("log")
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(power_of_ten)
            axis.set_minor_formatter(NullFormatter())
        ax.set_xlabel("rows n of A")
        ax.set_ylabel("time of A·R (s)")
        ax.set_title("A of n × 4096, t = 100", loc="left")
        repeats = int(times["repeat"].nunique())
        notes = [
            "MM1: BLAS, R stored. MM2: R generated column by column. Medians; band: range of "
            f"{repeats} repetitions, one thread.",
        ]
        return Drawing(finish(fig, notes, legend_columns=3), [pd.concat(panels)])


ITEMS = (reductions, five_methods, figure1, products)
