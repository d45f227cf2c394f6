"""The best of m runs by F, which bmd09 and lf20 report: its law, and tables of it beside the reported numbers."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from kmdr import reducers
from kmdr.datasets import Dataset
from kmdr.linalg import Dense, Matrix
from kmdr.report.figures import dataset_label
from kmdr.report.statistics import BestOf, Component, best_of
from kmdr.seeding import generator
from kmdr.studies.catalogue import Table
from kmdr.studies.results import NotRunError, Results, reported


class Number(NamedTuple):
    """A number that a paper reports; see `kmdr.studies.results.reported`."""

    id: str
    dataset: str
    method: str
    r: float
    quantity: str
    value: float
    reading_error: float


SYMBOLS = {"accuracy": "P", "objective": "F"}


def shown(component: Component, form: str) -> str:
    """Return an effect and, where there is one, its interval, for a sentence.

    Examples
    --------
    >>> shown(Component("F", 0.02, 0.01, 0.03, 0.0, 1.0, 5, "F"), "+.1%")
    '+2.0% [+1.0%, +3.0%]'
    """
    effect, low, high = (format(value, form) for value in (component.effect, component.low, component.high))
    return f"{effect} [{low}, {high}]" if component.n > 1 else effect


def counted(n: int, what: str) -> str:
    """Return ``1 block`` or ``2 blocks``."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def numbers(id_: str, **fixed: str) -> list[Number]:
    """Return the reported numbers of an item or claim, in the order of the file.

    Parameters
    ----------
    id_ : str
    **fixed : str
        Only those with these values of other columns, e.g. ``dataset="nips"``.
    """
    table = reported(id_.replace("-", "_").partition("_")[0])
    for name, value in {"id": id_, **fixed}.items():
        table = table[table[name] == value]
    return [Number(*line) for line in table[list(Number._fields)].itertuples(index=False)]


def runs(results: Results, study: str, dataset: str, method: str, r: float = np.nan) -> pd.DataFrame:
    """Return the runs of one method at one r, in the order of the repetitions.

    Parameters
    ----------
    results : Results
    study, dataset, method : str
    r : float
        NaN for a method that has one width whatever r.

    Raises
    ------
    NotRunError
    """
    rows = results.rows(study, datasets=[dataset], reducers=[method])
    if not np.isnan(r):
        rows = rows[rows["r"] == r]
    if rows.empty:
        raise NotRunError(f"{study} was not run with {method} at r = {r:g}")
    return rows.sort_values("repeat", kind="stable")


def law(rows: pd.DataFrame, m: int) -> BestOf:
    """Return the law of the best of m of some runs by F; of all of them where they are fewer than m."""
    return best_of(rows["objective"], min(m, len(rows)))


def kept_run(rows: pd.DataFrame) -> "pd.Series[Any]":
    """Return the run of smallest F, the first of them where there are several."""
    return rows.sort_values(["objective", "repeat"]).iloc[0]


def drawn_again(data: Dataset, run: "pd.Series[Any]") -> tuple[Dense, Matrix]:
    """Return the columns that a run of leverage sampling drew, and its C, drawn again from the run's address.

    Parameters
    ----------
    data : Dataset
    run : Series
        A row.
    """
    reducer = reducers.make(str(run["reducer"]), json.loads(str(run["params"])))
    seed, r, repeat = int(run["seed"]), int(run["r"]), int(run["repeat"])
    address = (str(run["dataset"]), str(run["reducer"]))
    state = reducer.prepare(data.A, data.k, generator(seed, *address, repeat, "prepare"))
    drawn = reducer.draw(data.A, r, generator(seed, *address, r, repeat, "reduce"), state)
    return np.asarray(drawn[0]), reducer.apply(data.A, drawn)


def selection_table(
    results: Results, id_: str, studies: Mapping[str, str], kept: Mapping[str, int], note: str
) -> Table:
    """Return P and F of the best of m runs beside the reported ones, a line a cell of the paper's table.

    Parameters
    ----------
    results : Results
    id_ : str
        Of the table, to find its reported numbers.
    studies : mapping of str to str
        The study that has the runs of each method.
    kept : mapping of str to int
        m of each method; 1 for a single run.
    note : str

    Raises
    ------
    NotRunError
        When there are no runs for any cell.
    """
    lines: list[dict[str, object]] = []
    gaps: dict[str, str] = {}
    for one in numbers(id_):
        line: dict[str, object] = {
            "dataset": dataset_label(one.dataset),
            "quantity": SYMBOLS[one.quantity],
            "r": "all" if np.isnan(one.r) else f"{one.r:.0f}",
            "reported": one.value,
        }
        try:
            rows = runs(results, studies[one.method], one.dataset, one.method, one.r)
        except NotRunError as reason:
            gaps[dataset_label(one.dataset)] = str(reason)
            lines.append(line)
            continue
        chosen, values = law(rows, kept[one.method]), rows[one.quantity].to_numpy(dtype=float)
        ours = chosen.mean(values)
        lines.append(
            line
            | {
                "ours": ours,
                "low": chosen.quantile(values, 0.025),
                "high": chosen.quantile(values, 0.975),
                "difference": ours - one.value,
                "≤ reported": chosen.place(values, one.value + one.reading_error)[0],
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
