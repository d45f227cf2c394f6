"""bzmd15's Figures 1–3 and Table 1."""

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pandas as pd

from kmdr.analysis.results import Results
from kmdr.analysis.rows import REPETITION, without_scores
from kmdr.claims.catalogue import figure, table
from kmdr.claims.effects import exponent_cells, ratio_cells, ratios_and_times
from kmdr.claims.reported import reported
from kmdr.figures.canvas import Drawing
from kmdr.figures.panels import dataset_label, paper_grid
from kmdr.figures.style import names_in_paper
from kmdr.figures.tables import Table

from .facts import BOUNDS, COLUMNS, FIGURES, NAMES, REAL, REPEATS, SYNTH_TIMES, TIMES, bounds, label


def _figure_of(study: str, datasets: tuple[str, str], timed: Sequence[str]) -> Callable[[Results], Drawing]:
    def make(results: Results) -> Drawing:
        """Draw running time, objective and accuracy against r, top to bottom; one column of panels per dataset.

        Markers are means of the first five repetitions, as in the paper; lines and bands are means of all repetitions
        and their 95 % intervals. Times are medians, from the studies of times, at fewer r. SVD and ApprSVD have k
        columns for every r, so their lines are horizontal, like that of k-means on all features.
        """
        results.rows((study, *timed), datasets=datasets)
        rows = without_scores(results.trials((study, *timed)), timed)
        note = f"{names_in_paper(NAMES)} It prints no numbers for its curves or axes, so no reported values are drawn."
        return paper_grid(rows, datasets, reasons=results.missing, note=note, paper_repeats=REPEATS)

    return make


_FIGURES = tuple(
    figure(
        study,
        "Running time, objective and accuracy against the number of dimensions on "
        + " and ".join(map(dataset_label, datasets)),
        studies=(study, *timed),
    )(_figure_of(study, datasets, timed))
    for study, datasets in COLUMNS.items()
    for timed in [(TIMES, SYNTH_TIMES) if "synth" in datasets else (TIMES,)]
)


class _Line(NamedTuple):
    """A row of Table 1 as printed, and the reducer (with the rank of an SVD) that it is about."""

    reference: str
    description: str
    dimensions: str
    time: str
    ratio: str
    reducer: str
    rank: str | None


# m points, n features: the paper's letters.
LINES = (
    _Line("Folklore", "RP", "O(log(m)/ε²)", "mn⌈ε⁻²log(m)/log(n)⌉", "1 + ε", "random_sign", None),
    _Line("[12]", "Exact SVD", "k", "mn·min{m, n}", "2", "svd", "k"),
    _Line("[14]", "Exact SVD", "O(k/ε²)", "mn·min{m, n}", "1 + ε", "svd", "r"),
    _Line("Theorem 11", "RS", "O(k log(k)/ε²)", "mnk/ε", "3 + ε", "leverage_approx", None),
    _Line("Theorem 12", "RP", "O(k/ε²)", "mn⌈ε⁻²k/log(n)⌉", "2 + ε", "random_sign", None),
    _Line("Theorem 13", "Approx. SVD", "k", "mnk/ε", "2 + ε", "approx_svd", "k"),
)


def _rows_of_line(rows: pd.DataFrame, line: _Line) -> pd.DataFrame:
    """Return the rows of a line's method."""
    of_reducer = rows[rows["reducer"] == line.reducer]
    return of_reducer[[json.loads(params or "{}").get("rank") == line.rank for params in of_reducer["params"]]]


def _ratios(rows: pd.DataFrame) -> "pd.Series[float]":
    """Return F/F_best at the r nearest 20, with index (dataset, seed, repeat)."""
    nearest = (rows["r"] - 20).abs()
    near = rows[nearest == nearest.groupby(rows["dataset"]).transform("min")]
    return near.groupby(["dataset", *REPETITION])["ratio"].mean()


@table(
    "bzmd15_table1",
    "Provably accurate dimensionality reductions: dimensions, time and approximation ratio, with what was measured",
    studies=("bzmd15_table1", *FIGURES, "flip_rank_bzmd15"),
    facts=tuple(BOUNDS.values()),
)
def provable_methods(results: Results) -> Table:
    """Compare measured ratios and exponents of the time with the paper's five columns.

    Reported and ours are approximation ratios. Ours is F over the smallest F found on the dataset, at r = 20 (k columns
    if the method has k): mean with its 95 % interval, and largest value, over repetitions and the datasets that the
    note names: all of the paper's except Synth, with the stand-in of an unavailable one.
    Exponents are slopes of log reduction time on log n, log d and log r on Synth of several sizes, with the half-widths
    of their 95 % intervals.
    """
    rows, times = ratios_and_times(
        results, lambda: results.rows((*FIGURES, "flip_rank_bzmd15"), datasets=REAL), "bzmd15_table1"
    )
    stated = reported("bzmd15").query("id == 'bzmd15_table1'")["value"].tolist()
    lines = []
    for line, bound in zip(LINES, stated, strict=True):
        cells: dict[str, Any] = {
            "reference": line.reference,
            "description": line.description,
            "dimensions": line.dimensions,
            "time = O(x), x =": line.time,
            "ratio": line.ratio,
            "reported, ε = 1/3": float(bound),
        }
        ours = ratio_cells(pd.Series(dtype=float) if rows is None else _ratios(_rows_of_line(rows, line)))
        largest = ours.pop("largest")
        cells |= {**ours, "difference": ours["ours"] - float(bound), "largest": largest}
        cells |= exponent_cells(None if times is None else _rows_of_line(times, line), {"n": "n", "d": "d", "r": "r"})
        lines.append(cells)
    frame = pd.DataFrame(lines)
    formats = dict.fromkeys(frame.columns[5:], ".2f") | dict.fromkeys(("ours", "low", "high"), ".3f")
    return Table(frame, formats, _table_note(results, rows))


def _table_note(results: Results, rows: pd.DataFrame | None) -> str:
    note = (
        "The paper's columns refer to m points with n features, the exponents to n points with d features. Ours is "
        "F/F_best; F_best, the smallest F found, is at least F_opt, so true ratios may be larger. Times are of the "
        "reduction only; a method with k columns for every r has no exponent of r."
    )
    if rows is not None:
        best = rows.groupby("dataset")["objective"].min()
        note += f" Ratios are measured on {', '.join(label(results, name) for name in REAL if name in best)}."
        floors = {label(results, name): best[name] / bound for name, bound in bounds(results).items() if name in best}
        if floors:
            listed = ", ".join(f"{value:.2f} on {name}" for name, value in floors.items())
            note += f" Because ‖A − A_k‖² ≤ F_opt, true ratios are larger by a factor of at most {listed}."
    return note


ITEMS = (*_FIGURES, provable_methods)
