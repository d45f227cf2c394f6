"""The public functions of kmdr: the trials, figures and reports of the command line."""

from __future__ import annotations

import html
import inspect
import json
import numbers
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import scipy.sparse
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from kmdr import datasets
from kmdr import reducers as methods
from kmdr.analysis.comparison import compared, quantities_in, with_ratio
from kmdr.analysis.rows import numeric, ok_rows
from kmdr.base.errors import ArgumentError, UserError, shown
from kmdr.base.outside import end_forks, keep_folder_and_streams, named_by_path
from kmdr.base.paths import RESULTS
from kmdr.base.provenance import code_version, environment
from kmdr.base.text import canonical, counted, short_hash, terminal_width
from kmdr.base.threads import pinned
from kmdr.claims import catalogue
from kmdr.config.protocols import choice
from kmdr.config.studies import studies
from kmdr.config.suggestions import unknown_reducer
from kmdr.datasets import Dataset, from_arrays
from kmdr.figures.comparison import every_column, method_names, table_of
from kmdr.figures.panels import paper_grid, with_serial_times
from kmdr.figures.tables import cells, footnote, text
from kmdr.harness.compiled import COMPILE_SECONDS, compile_kernels, is_compiled, parts
from kmdr.harness.experiment import Experiment
from kmdr.harness.jobs import compose, run_jobs
from kmdr.harness.plan import Limits, parse_duration
from kmdr.harness.progress import Progress
from kmdr.harness.session import call_of_session
from kmdr.harness.task import Provenance
from kmdr.harness.task import run as run_task
from kmdr.reducers.base import Reducer
from kmdr.reporting.build import build
from kmdr.reporting.reproduce import check_modules, draw, run_papers
from kmdr.results.table import has_rows, rows_of

# Most reducers and numbers of dimensions; a longer sequence may be endless.
_MOST = 10_000
_USUAL_SIZES = (2, 4, 8, 16, 32, 64)


class Summary(pd.DataFrame):
    """A DataFrame that prints all its columns, in blocks where the terminal is too narrow; pandas prints some only.

    Selections and other results of pandas are plain DataFrames.
    """

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return pd.DataFrame

    def __repr__(self) -> str:
        return text(every_column(self), width=terminal_width())


class Comparison:
    """The result of `compare`: a table in a notebook or a terminal, as of ``kmdr table``, and its rows.

    Attributes
    ----------
    rows : DataFrame
        One row per trial, with the columns of ``rows.csv``; the row of a failed trial has the reason in ``error``.
    """

    def __init__(self, rows: pd.DataFrame) -> None:
        self.rows = rows

    def summary(self) -> pd.DataFrame:
        """Return one row per method and r: means, and the median of the times.

        Returns
        -------
        DataFrame
            One that prints all its columns: ``method``; ``r``; ``n``, the number of repetitions; ``F``, the objective;
            ``F/F_full``, the mean ratio of F to that of ``"none"``, k-means on all features, in the same repetition
            (NaN without it); ``P``, the accuracy, and ``NMI`` (NaN without labels); each custom metric; ``seconds``,
            the median time of reduction and clustering, timed serially after a warm-up; and ``n seconds``, the number
            of these times.
        """
        frame = compared(with_ratio(self.rows))
        ok = ok_rows(self.rows)
        whole = ok[ok["reducer"] == "none"].set_index("repeat")["objective"]
        key = ["reducer", "params", "r"]
        F = ok.assign(**{"F/F_full": ok["objective"] / ok["repeat"].map(whole.to_dict()).astype(float)})
        means = F.rename(columns={"objective": "F"}).groupby(key)[["F", "F/F_full"]].mean()
        means = means.reindex(pd.MultiIndex.from_frame(frame[key])).reset_index(drop=True)
        columns = {
            "method": method_names(frame),
            "r": frame["r"],
            "n": frame["n"],
            **{name: means[name] for name in means},
        }
        for quantity in quantities_in(frame):
            if quantity.title != "F/F_best":
                columns[quantity.title] = frame[quantity.title]
        return Summary({**columns, "n seconds": frame["n seconds"]})

    def plot(self, quantities: Sequence[str] = ("total_seconds", "objective", "accuracy")) -> Figure:
        """Return the figure of `kmdr.plot` for these rows."""
        return plot(self, quantities)

    def __repr__(self) -> str:
        return text(self._table(), width=terminal_width())

    def _repr_html_(self) -> str:
        table = self._table()
        names, lines = cells(table)
        frame = pd.DataFrame(lines, columns=names)
        return f"{frame.to_html(index=False, border=0)}<p>{html.escape(footnote(table))}</p>"

    def _table(self) -> Any:
        table = table_of(compared(with_ratio(self.rows)))
        failed = int((self.rows["status"] != "ok").sum())
        note = f"{counted(failed, 'trial')} failed: see the column error of rows." if failed else ""
        return replace(table, note=" ".join(filter(None, (note, table.note))))


def _plain(value: Any) -> Any:
    """Return numpy's numbers and booleans as Python's, and everything else unchanged."""
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return value.item()
    return value


def _array(name: str, value: Any) -> Any:
    """Convert a value to an array; return sparse matrices and DataFrames unchanged."""
    if value is None or scipy.sparse.issparse(value) or isinstance(value, pd.DataFrame):
        return value
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):  # asarray shows masked values
        raise UserError(f"{name} has masked entries, which count as missing; fill them, e.g. by {name}.filled(0)")
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, MemoryError, OverflowError) as error:
        reason = str(error) or "it does not fit in memory"
        raise UserError(f"{name} is not an array ({reason}); give rows of equal length") from error
    if array.ndim == 0 and isinstance(value, Iterable) and not isinstance(value, str | bytes):
        raise UserError(f"{name} = {shown(value)} is not an array; give an array or a list")
    return array


def _labels(labels: Any) -> Any:
    """Return labels as `from_arrays` takes them: a list of arrays and a DataFrame unchanged, else an array."""
    if isinstance(labels, list | tuple) and any(np.ndim(part) == 1 for part in labels[:1]):
        return [_labeling(part) for part in labels]
    return _labeling(labels)


def _labeling(labels: Any) -> Any:
    """Return the labels of one labeling as an array; a list of them if float64 would round its large whole numbers."""
    array = _array("labels", labels)
    is_exact = not isinstance(labels, list | tuple) or array.dtype.kind != "f"
    return array if is_exact else labels


def _items(name: str, value: Any, what: str) -> list[Any]:
    """Return the items of a sequence; ``what`` it should hold is for the error."""
    if (
        isinstance(value, str | bytes | Mapping | pd.DataFrame)
        or scipy.sparse.issparse(value)
        or not isinstance(value, Iterable)
    ):
        raise UserError(f"{name} = {shown(value)} is not a sequence; give a list of {what}")
    items = list(islice(value, _MOST + 1))
    if len(items) > _MOST:
        raise UserError(f"{name} has more than {_MOST} entries; give fewer")
    if not items:
        raise UserError(f"{name} is empty; give at least one of the {what}")
    return items


def _sizes(r_grid: Any) -> list[Any]:
    """Return the numbers of dimensions, which may be a single one; their values are checked with the other settings."""
    r_grid = _plain(r_grid)
    if isinstance(r_grid, numbers.Real):
        return [r_grid]
    return [_plain(r) for r in _items("r_grid", r_grid, "numbers of dimensions, e.g. r_grid=[5, 10, 20]")]


def _usual_sizes(data: Dataset) -> list[int]:
    """Return the default numbers of dimensions for a dataset."""
    return [r for r in _USUAL_SIZES if r <= min(data.A.shape)] or [1]


def _usual_reducers(data: Dataset) -> list[str]:
    """Return the default reducers for a dataset; leverage scores need k singular vectors."""
    return ["none", "svd", "random_sign", *(["leverage"] if data.k <= min(data.A.shape) else [])]


def _reducers(reducers: Any) -> list[dict[str, Any]]:
    """Return reducers as in ``conf/reducer``, each once; a single one may stand for a sequence of one."""
    reducers = _plain(reducers)
    single = isinstance(reducers, str | type) or hasattr(reducers, "fit") or callable(reducers)
    what = "names of reducers or transformers, e.g. ['svd', 'none']"
    configs = map(_reducer, [reducers] if single else _items("reducers", reducers, what))
    return list({canonical(config): config for config in configs}.values())


def _reducer(reducer: Any) -> dict[str, Any]:
    """Return the configuration of a reducer given by name, as one of kmdr's, or as a transformer or its class."""
    if isinstance(reducer, str):
        if "." not in reducer:
            if reducer not in methods.names():
                raise unknown_reducer(reducer, methods.names(), settings=False)
            return choice("reducer", reducer)
        return {"name": "outside", "path": reducer, "args": {}}
    if isinstance(reducer, Reducer) and reducer.name:
        return {"name": reducer.name, **{name: getattr(reducer, name) for name in reducer.parameters()}}
    has_fit = hasattr(reducer, "fit") or hasattr(reducer, "fit_transform")
    if not has_fit or not (inspect.isclass(reducer) or hasattr(reducer, "get_params")):
        raise UserError(
            f"reducers has {shown(reducer)}, which is neither a name nor a transformer; give one, e.g. 'svd'"
        )
    path, args = named_by_path(reducer)
    return {"name": "outside", "path": path, "args": args}


@contextmanager
def _naming_arguments() -> Iterator[None]:
    """Raise an error of a setting as one of the argument that has its value."""
    try:
        yield
    except UserError as error:
        sentence = " ".join(str(error).split()) if "\n" in str(error) else str(error)
        sentence = re.sub(r"^reducer\.", "", sentence.replace("kmeans.args", "engine_args").replace("kmeans.", ""))
        raise ArgumentError(sentence) from error


def _engine_arguments(arguments: Any) -> dict[Any, Any]:
    if not isinstance(arguments, Mapping):
        raise UserError(f"engine_args = {shown(arguments)} is not a mapping; give e.g. {{'batch_size': 1000}}")
    plain = {name: _plain(value) for name, value in arguments.items()}
    try:
        json.dumps(plain)
    except (TypeError, ValueError) as error:
        raise UserError(
            f"engine_args = {shown(plain)} cannot be recorded ({error}); give numbers and strings"
        ) from error
    return plain


def _check_types(kind: type, what: str, **values: Any) -> None:
    for name, value in values.items():
        if not isinstance(value, kind):
            raise UserError(f"{name} = {shown(value)} is not {what}")


def compare(
    A: ArrayLike,
    reducers: Sequence[Any] | None = None,
    *,
    labels: ArrayLike | Sequence[ArrayLike] | None = None,
    noise: Any = None,
    k: int | None = None,
    r_grid: Sequence[int] | None = None,
    repeats: int = 5,
    engine: str = "kmdr",
    engine_args: Mapping[str, Any] | None = None,
    n_init: int | Literal["auto"] = 5,
    max_iter: int = 500,
    start: str = "sample",
    online: bool = False,
    empty_action: str = "singleton",
    seed: int = 0,
    name: str = "A",
    progress: bool = True,
) -> Comparison:
    """Compare reducers on a matrix: run each from the same starting points.

    Parameters
    ----------
    A : (n, d) array, sparse matrix or DataFrame
        One point per row, n ≥ 2; finite numbers. A is never changed: methods get a read-only view of it, or a copy.
    reducers : sequence, or a single reducer, optional
        By default ``"none"``, ``"svd"``, ``"random_sign"`` and, if A has k singular vectors, ``"leverage"``. Names of
        kmdr's reducers with the settings of the command line (`kmdr list reducers`), import paths, classes or instances
        of any scikit-learn transformer. The arguments of an instance are kept, except ``n_components`` and
        ``random_state``, which each trial sets. ``"none"`` is k-means on all features, which the others are compared
        with.
    labels : (n,) array, (n, m) array, DataFrame or list of m arrays, optional
        True classes, numbers or texts; without them only the objective F is available. In an array of objects, numbers
        are compared with texts as they are printed, so that 1, 1.0 and ``"1"`` are one class. Of several reference
        labelings, P, NMI and ARI are the best, and ``rows["metrics"]`` has those against each.
    noise : scalar, optional
        The label of points that do not count in P, NMI, ARI and the number of classes; NaN marks points without a
        label.
    k : int from 1 to n, optional
        Number of clusters; by default the number of classes.
    r_grid : sequence of int, or int, optional
        Numbers of dimensions, each at least 1. Most reducers need r ≤ d. By default the powers of two from 2 to 64
        that are at most n and d.
    repeats : int ≥ 1
        Repetitions, each with its own random draws and starts, which all reducers share.
    engine : str
        As ``kmeans.engine``: a name of `kmdr list engines`, or the import path of a class with ``fit_predict``.
    engine_args : mapping, optional
        Arguments of that engine, e.g. ``{"rows": 500}`` for ``"coreset"``, or of that class.
    n_init : int ≥ 1, or "auto"
        Starts of k-means; the partition of smallest objective on the reduced data is kept. ``"auto"`` stops when the
        smallest objective has been reached 20 times, or after 400 starts.
    max_iter : int ≥ 1
        Largest number of iterations of each start.
    start : {"sample", "first_of_class", "plus", "greedy"}
        Initial centres: points drawn uniformly, the first point of each class (needs labels and ``n_init=1``), points
        drawn by k-means++, or by greedy k-means++, which tries several candidates for each centre.
    online : bool
        Whether single points are moved after Lloyd's iterations (MATLAB's online phase).
    empty_action : {"singleton", "drop", "error"}
        Treatment of a cluster that loses all its points (MATLAB's EmptyAction).
    seed : int from 0 to 2¹²⁸ − 1
        Root of all random draws.
    name : str
        Name of the dataset in the rows: letters, digits, ``-`` and ``_``. Random draws depend on it.
    progress : bool
        Whether a bar shows the progress in a terminal or a notebook.

    Returns
    -------
    Comparison
        Its ``rows`` have one row per trial; ``summary()`` and ``plot()`` show means and times.

    Raises
    ------
    ArgumentError
        A ``ValueError``, raised before any work is done.

    Examples
    --------
    >>> import kmdr, numpy as np
    >>> A = np.random.default_rng(0).standard_normal((20, 8)) + np.repeat([[0.0], [9.0]], 10, axis=0)
    >>> result = kmdr.compare(A, ["random_sign", "none"], labels=np.repeat([0, 1], 10), r_grid=[2], repeats=1)
    >>> result.summary()["P"].tolist()
    [1.0, 1.0]
    """
    with call_of_session() as check_code:
        check_code(())  # of plugins, before a changed one is called an unknown or a double name
        with _naming_arguments():
            _check_types(str, "a string; give one", engine=engine, start=start, empty_action=empty_action, name=name)
            _check_types(bool, "a boolean; give True or False", online=_plain(online), progress=_plain(progress))
            kmeans = {
                "n_init": _plain(n_init), "max_iter": _plain(max_iter), "start": start, "engine": engine,
                "online": _plain(online), "empty_action": empty_action,
                "args": _engine_arguments({} if engine_args is None else engine_args),
            }  # fmt: skip
            settings = {
                "dataset": {"name": name}, "kmeans": kmeans, "runner": None, "study": None, "k": _plain(k),
                "matching": "best", "repeats": _plain(repeats), "timing_repeats": 0,
                "seed": _plain(seed), "refresh": False, "verify": "never", "keep_labels": False, "out": "",
            }  # fmt: skip
            settings["r_grid"] = [] if r_grid is None else _sizes(r_grid)
            configs = None if reducers is None else _reducers(reducers)
            data = from_arrays(_array("A", A), _labels(labels), settings["k"], name, noise)
            settings["r_grid"] = settings["r_grid"] or _usual_sizes(data)
            configs = configs or _reducers(_usual_reducers(data))
        paths = [str(config.get("path", "")) for config in configs if config.get("name") == "outside"]
        check_code([engine, *paths])
        with _naming_arguments():
            experiments = [Experiment.from_config({**settings, "reducer": config}) for config in configs]
            tasks = [task for experiment in experiments for task in experiment.tasks(data, Path())]
        provenance = Provenance(1, 1, code_version(), short_hash(environment()))
        rows = []
        with pinned(1), Progress(len(tasks), float(len(tasks) * progress), lines=False) as bar:
            if not is_compiled() and (needed := parts(tasks)):
                with bar.compiling(COMPILE_SECONDS):
                    compile_kernels(needed, 0, bar.tell)
            for task in tasks:
                with end_forks(), keep_folder_and_streams():
                    rows += run_task(task, data, provenance)
                bar.advance(rows[-len(task.r_grid) :], 1.0)
        return Comparison(numeric(rows))


def plot(
    rows: pd.DataFrame | Comparison, quantities: Sequence[str] = ("total_seconds", "objective", "accuracy")
) -> Figure:
    """Draw quantities against r, with one column of panels per dataset: means with 95 % confidence intervals.

    Parameters
    ----------
    rows : DataFrame or Comparison
        Rows as of `run`, or the result of `compare`.
    quantities : sequence of str
        Columns of the rows, from top to bottom; those without values are omitted. Times of trials that ran in
        parallel are not shown.

    Raises
    ------
    UserError
        When a method has rows of several settings or data on one dataset, whose mean would be meaningless.
    """
    frame = rows.rows if isinstance(rows, Comparison) else rows
    if not isinstance(frame, pd.DataFrame) or "dataset" not in frame:
        raise ArgumentError(f"rows = {shown(rows)} are not rows of trials; give the result of kmdr.compare or kmdr.run")
    if isinstance(quantities, str):
        quantities = [quantities]
    frame = with_serial_times(frame)
    names = list(dict.fromkeys(frame["dataset"]))
    available = [name for name in quantities if name not in frame or frame[name].notna().any()]
    return paper_grid(frame, names, available or quantities).figure


def load(name: str, **options: Any) -> Dataset:
    """Return a dataset of the registry, memory-mapped; it is downloaded and checked first if necessary.

    Parameters
    ----------
    name : str
        A name of `kmdr list datasets`; ``"file"`` reads a file of your own.
    **options
        As ``dataset.OPTION=…`` on the command line, e.g. ``path="my.csv"``.

    Returns
    -------
    Dataset
        ``A`` (n×d, read-only), ``labels`` (n, from 0, or None), and ``k``, the number of classes.

    Raises
    ------
    UserError
        When the dataset or an option does not exist, or the data are not available.
    """
    with call_of_session() as check_code:
        check_code(())
        return datasets.load(name, options)


@contextmanager
def _call_with_papers() -> Iterator[Callable[[Iterable[str]], None]]:
    """Let a call see the papers, plugins and files as they are now; see `call_of_session`."""
    with call_of_session() as check_code:
        catalogue._papers.cache_clear()
        check_code(())
        yield check_code


def run(study: str, out: str | Path, *overrides: str) -> pd.DataFrame:
    """Run a study into a folder and return the folder's rows; finished trials are not repeated.

    Parameters
    ----------
    study : str
        A name of `kmdr list studies`.
    out : str or Path
        Folder of the results; it is made if necessary.
    *overrides
        Settings of the command line, e.g. ``"repeats=3"``.

    Returns
    -------
    DataFrame
        One row per trial, with the columns of ``rows.csv``.
    """
    with _call_with_papers() as check_code:
        job = compose(f"study={study}", f"out={out}", *overrides)
        check_code(name for e in job.experiments for name in (e.reducer, e.protocol.engine))
        run_jobs([job], draw=draw)
    return rows_of(Path(out))


def reproduce(*papers: str, out: str | Path = RESULTS, budget: str | None = None) -> Path:
    """Run every study of some papers, or of all, and return the page of the report.

    Parameters
    ----------
    *papers
        Short names of `kmdr list papers`; none for all.
    out : str or Path
        Folder of the results.
    budget : str, optional
        Wall time such as ``"10m"``, which limits the number of repetitions.
    """
    with _call_with_papers():
        run_papers(papers, Path(out), Limits(budget=None if budget is None else parse_duration(budget)))
    return Path(out) / "report" / "index.html"


def report(folder: str | Path) -> Path:
    """Write the report of a folder of results and return its page; nothing but the folder is read.

    Parameters
    ----------
    folder : str or Path
        It holds ``rows.csv``.
    """
    if not has_rows(Path(folder)):
        raise ArgumentError(f"{folder} has no rows; name a folder that holds rows.csv")
    with _call_with_papers():
        check_modules()
        return build(Path(folder), studies(), again=True)


__all__ = ["Comparison", "compare", "load", "plot", "report", "reproduce", "run"]
