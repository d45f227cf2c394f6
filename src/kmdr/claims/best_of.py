"""The best of m runs by F, which some papers report: its distribution, and tables with the reported numbers."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from kmdr import reducers
from kmdr.analysis.results import NotRunError, Results
from kmdr.analysis.rows import REPETITION, TRIAL, distinct_trials
from kmdr.analysis.statistics import BestOf, best_of
from kmdr.base.seeding import generator
from kmdr.claims.reported import numbers
from kmdr.datasets import Dataset
from kmdr.figures.panels import dataset_label
from kmdr.figures.tables import Table
from kmdr.linalg import Dense, Matrix

SYMBOLS = {"accuracy": "P", "objective": "F"}
# What `runs` returns.
RUN = ("study", *TRIAL, "concurrency", "objective", "objective_ratio", "accuracy", "nmi", "ari")


def runs(results: Results, study: str, dataset: str, method: str, r: float = np.nan) -> pd.DataFrame:
    """Return the runs of one method at one r, in the order of the repetitions, with the columns `RUN`.

    Parameters
    ----------
    r : float
        NaN for a method whose C does not depend on r.
    """
    rows = results.rows(study, datasets=[dataset], reducers=[method], columns=RUN)
    if not np.isnan(r):
        rows = rows[rows["r"] == r]
    if rows.empty:
        raise NotRunError(f"{study} was not run with {method} at r = {r:g}")
    return distinct_trials(rows).sort_values(REPETITION, kind="stable")


def law(rows: pd.DataFrame, m: int) -> BestOf:
    """Return the distribution of the best of m runs by F; of all runs if there are fewer than m."""
    return best_of(rows["objective"], min(m, len(rows)))


def kept_run(rows: pd.DataFrame) -> "pd.Series[Any]":
    """Return the run of smallest F, the first one if there are several."""
    return rows.sort_values(["objective", *REPETITION]).iloc[0]


def drawn_again(data: Dataset, run: "pd.Series[Any]") -> tuple[Dense, Matrix]:
    """Return the columns that a run of leverage sampling drew, and its C, regenerated from the run's seeds."""
    reducer = reducers.make_allowed(str(run["reducer"]), json.loads(str(run["params"])))
    seed, r, repeat = int(run["seed"]), int(run["r"]), int(run["repeat"])
    address = (str(run["dataset"]), str(run["reducer"]))
    state = reducer.prepare(data.A, data.k, generator(seed, *address, repeat, "prepare"))
    drawn = reducer.draw(data.A, r, generator(seed, *address, r, repeat, "reduce"), state)
    return np.asarray(drawn[0]), reducer.apply(data.A, drawn)


def selection_table(
    results: Results, id_: str, studies: Mapping[str, str], kept: Mapping[str, int], note: str
) -> Table:
    """Return P and F of the best of m runs next to the reported ones, one row per cell of the paper's table.

    Parameters
    ----------
    id_ : str
        Of the table, to find its reported numbers.
    studies : mapping of str to str
        The study with the runs of each method.
    kept : mapping of str to int
        m of each method; 1 for a single run.

    Raises
    ------
    NotRunError
        If no cell has runs.
    """
    lines: list[dict[str, object]] = []
    gaps: dict[str, str] = {}
    for number in numbers(id_):
        line: dict[str, object] = {
            "dataset": dataset_label(number.dataset),
            "quantity": SYMBOLS[number.quantity],
            "r": "all" if np.isnan(number.r) else f"{number.r:.0f}",
            "reported": number.value,
        }
        try:
            rows = runs(results, studies[number.method], number.dataset, number.method, number.r)
        except NotRunError as reason:
            gaps[dataset_label(number.dataset)] = str(reason)
            lines.append(line)
            continue
        best, values = law(rows, kept[number.method]), rows[number.quantity].to_numpy(dtype=float)
        ours = best.mean(values)
        lines.append(
            line
            | {
                "ours": ours,
                "low": best.quantile(values, 0.025),
                "high": best.quantile(values, 0.975),
                "difference": ours - number.value,
                "≤ reported": best.place(values, number.value + number.reading_error)[0],
                "typical run": values.mean(),
                "runs": len(rows),
            }
        )
    frame = pd.DataFrame(lines)
    if "ours" not in frame:
        raise NotRunError("; ".join(dict.fromkeys(gaps.values())))
    missing = "".join(f" {name} was not run: {reason}." for name, reason in gaps.items())
    digits = dict.fromkeys(("ours", "low", "high", "typical run"), ".3f")
    formats = {"reported": ".4g", **digits, "difference": "+.3f", "≤ reported": ".3f", "runs": ".0f"}
    return Table(frame, formats, note + missing)
