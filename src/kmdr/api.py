"""The public functions of kmdr: the trials, figures and reports of the command line."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from kmdr import datasets
from kmdr.analysis.rows import numeric
from kmdr.base.errors import ArgumentError, UserError
from kmdr.base.outside import allow, named_by_path
from kmdr.base.paths import RESULTS
from kmdr.base.provenance import code_version, environment
from kmdr.base.text import canonical, short_hash
from kmdr.base.threads import pinned
from kmdr.clustering import engines
from kmdr.clustering.kmeans import Protocol
from kmdr.config.studies import studies
from kmdr.datasets import Dataset, from_arrays
from kmdr.figures.panels import paper_grid
from kmdr.harness.experiment import Experiment
from kmdr.harness.jobs import compose, run_jobs
from kmdr.harness.plan import Limits, parse_duration
from kmdr.harness.task import Stamp
from kmdr.harness.task import run as run_task
from kmdr.reducers.base import Reducer
from kmdr.reporting.build import build
from kmdr.reporting.reproduce import draw, run_papers
from kmdr.results.table import has_rows, rows_of


def _name_and_params(reducer: str | Reducer | type | Any) -> tuple[str, dict[str, Any]]:
    """Return name and parameters of a reducer given by name, as one of kmdr's, or as a transformer or its class."""
    if isinstance(reducer, str):
        return reducer, {}
    if isinstance(reducer, Reducer) and reducer.name:
        return reducer.name, {name: getattr(reducer, name) for name in reducer.parameters()}
    return named_by_path(reducer)


def compare(
    A: ArrayLike,
    reducers: Sequence[Any],
    *,
    labels: ArrayLike | None = None,
    k: int | None = None,
    r_grid: Sequence[int],
    repeats: int = 5,
    engine: str = "kmdr",
    engine_args: Mapping[str, Any] | None = None,
    n_init: int = 5,
    max_iter: int = 500,
    start: str = "sample",
    online: bool = False,
    empty_action: str = "singleton",
    seed: int = 0,
    name: str = "A",
) -> pd.DataFrame:
    """Compare reducers on a matrix: run each from the same starting points, and return one row per trial.

    Parameters
    ----------
    A : (n, d) array or sparse matrix
        One point per row.
    reducers : sequence
        Names of kmdr's reducers, import paths, classes or instances of any scikit-learn transformer. The arguments of
        an instance are kept, except ``n_components`` and ``random_state``, which each trial sets.
    labels : (n,) array, optional
        True classes; without them only the objective F is available.
    k : int, optional
        Number of clusters; by default the number of classes.
    r_grid : sequence of int
        Numbers of dimensions.
    engine : str
        As ``kmeans.engine``: a name, or the import path of a class with ``fit_predict``.
    engine_args : mapping, optional
        Arguments of that class.
    start : {"sample", "first_of_class", "plus"}
    online, empty_action
        As ``kmeans.online`` and ``kmeans.empty_action``, which are MATLAB's.
    name : str
        Name of the dataset in the rows; random draws depend on it.

    Returns
    -------
    DataFrame
        The columns of ``rows.csv``; the row of a failed trial has the reason in ``error``.

    Raises
    ------
    ArgumentError
        A ``ValueError``, raised before any work is done.

    Examples
    --------
    >>> import kmdr, numpy as np
    >>> A = np.add.outer(np.repeat([0.0, 9.0], 10), np.linspace(0, 1, 8))
    >>> rows = kmdr.compare(A, ["random_sign"], labels=np.repeat([0, 1], 10), r_grid=[2], repeats=1)
    >>> float(rows["accuracy"].iloc[0])
    1.0
    """
    try:
        data = from_arrays(A, labels, k, name)
        args = canonical(dict(engine_args or {}))
        protocol = Protocol(n_init, max_iter, start, engine, args, online, empty_action)
        engines.check(protocol)
        tasks = []
        for reducer in reducers:
            method, params = _name_and_params(reducer)
            allow(method)
            experiment = Experiment(
                "custom", data.name, {}, method, params, data.k, tuple(sorted({int(r) for r in r_grid})), repeats, 0,
                seed, protocol, "best",
            )  # fmt: skip
            tasks += experiment.tasks(data, Path())
    except UserError as error:
        raise ArgumentError(str(error)) from error
    stamp = Stamp(1, 1, code_version(), short_hash(environment()))
    with pinned(1):
        rows = [row for task in tasks for row in run_task(task, data, stamp)]
    return numeric(rows)


def plot(rows: pd.DataFrame, quantities: Sequence[str] = ("total_seconds", "objective", "accuracy")) -> Figure:
    """Draw quantities against r, with one column of panels per dataset: means with 95 % confidence intervals.

    Raises
    ------
    UserError
        When a method has rows of several settings or data on one dataset, whose mean would be meaningless.
    """
    names = list(dict.fromkeys(rows["dataset"]))
    available = [name for name in quantities if name not in rows or rows[name].notna().any()]
    return paper_grid(rows, names, available).figure


def load(name: str, **options: Any) -> Dataset:
    """Return a dataset of the registry, memory-mapped; it is downloaded and checked first if necessary.

    Its options are as ``dataset.OPTION=…`` on the command line.
    """
    return datasets.load(name, options)


def run(study: str, out: str | Path, *overrides: str) -> pd.DataFrame:
    """Run a study into a folder and return the folder's rows; finished trials are not repeated.

    The overrides are settings of the command line, e.g. ``"repeats=3"``.
    """
    run_jobs([compose(f"study={study}", f"out={out}", *overrides)], draw=draw)
    return rows_of(Path(out))


def reproduce(*papers: str, out: str | Path = RESULTS, budget: str | None = None) -> Path:
    """Run every study of some papers (short names), or of all, and return the page of the report.

    ``budget`` is a wall time such as ``"10m"``, which limits the number of repetitions.
    """
    run_papers(papers, Path(out), Limits(budget=None if budget is None else parse_duration(budget)))
    return Path(out) / "report" / "index.html"


def report(folder: str | Path) -> Path:
    """Write the report of a folder of results and return its page; nothing but the folder is read."""
    if not has_rows(Path(folder)):
        raise ArgumentError(f"{folder} has no rows; name a folder that holds rows.csv")
    return build(Path(folder), studies(), again=True)


__all__ = ["compare", "load", "plot", "report", "reproduce", "run"]
