"""A task: one dataset, one reducer, one repetition, every r of a grid. Configuration and seed determine its rows."""

import json
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import zip_longest
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from kmdr import metrics, reducers
from kmdr.base.limits import begin, is_watched
from kmdr.base.plugins import plugin_roots
from kmdr.base.seeding import generator
from kmdr.base.signals import is_interrupt
from kmdr.base.text import canonical
from kmdr.base.timing import Stopwatch
from kmdr.clustering import engines
from kmdr.clustering.kmeans import Clustering, Protocol, best_of_starts, same_points, starter
from kmdr.config.task import Task, code_of, data_of, has_labelings, origins_of_methods, plugin_origins, settings_of
from kmdr.datasets import Dataset, changed
from kmdr.datasets.references import references_of
from kmdr.harness.once import Done, Key, do_once, extend, is_kept, make_and_check
from kmdr.linalg import Matrix
from kmdr.linalg.matrix import (
    canonical_csr,
    check_structure,
    held,
    is_finite,
    is_out_of_core,
    normalised,
    read_only,
    treat_as_out_of_core,
)
from kmdr.metrics.references import agreements, lacking
from kmdr.reducers.base import images, maps_in_blocks
from kmdr.results.row_check import value_fault
from kmdr.results.schema import Row

# Largest number of entries of C that trials may have together to share work, unless A is large.
_ENTRIES = 2**22
# Columns with values that an engine, a reducer or a metric of a third party may return.
_BY_OTHERS = ("metrics", "n_iter", "n_init_failed")


@dataclass(frozen=True)
class Provenance:
    """Provenance of a task's rows: the machine and the circumstances of the run."""

    concurrency: int
    threads: int
    code_version: str
    env_hash: str
    machine: str = ""


@cache
def warm_up(
    reducer: str,
    params: str,
    protocol: Protocol,
    sparse: bool,
    large: bool,
    dtype: str,
    together: bool,
    *,
    custom_metrics: bool = True,
) -> None:
    """Run tiny trials once per process, so that no compilation or first import falls into a measured time.

    Compiled kernels are specific to types of matrices, and some steps to whether these are large.
    """
    labels = np.arange(48) % 2
    for A in tiny_matrices(sparse, dtype):
        data = Dataset("warm-up", A, labels, 2, "", "", "")
        short = replace(protocol, n_init=1, max_iter=2)
        tiny_task = Task("", "", "", "", reducer, params, 2, (2, 2), 0, 0, short, False)
        with treat_as_out_of_core(A.shape[0] * A.shape[1] - 1) if large else nullcontext():
            _guarded_trials(tiny_task, data, {}, together=together, custom_metrics=custom_metrics)


def tiny_matrices(sparse: bool, dtype: str) -> list[Matrix]:
    """Return two matrices of the type that datasets are mapped as; they are read-only, too.

    They are wide enough for sparse maps to be sparse. The second has most of its points in one place, where other
    kernels find the neighbours.
    """
    rng = generator(0, "warm-up")
    plain = rng.standard_normal((48, 256)).astype(dtype)
    if sparse:
        plain *= rng.random(plain.shape) < 0.05
    matrices: list[Matrix] = []
    for tiny in (plain, np.r_[plain[:12], np.repeat(plain[:1], 36, axis=0)]):
        A: Matrix = sp.csr_array(tiny) if sparse else tiny
        for part in (A.data, A.indices, A.indptr) if not isinstance(A, np.ndarray) else (A,):
            part.flags.writeable = False
        matrices.append(A)
    return matrices


def _failure(error: BaseException) -> dict[str, Any]:
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return {"status": "failed", "error": " ".join(text.split())[:2000]}


def _trials(
    task: Task,
    data: Dataset,
    shared: Row,
    key: Key | None = None,
    together: bool = False,
    score: bool = True,
    custom_metrics: bool = True,
) -> list[Row]:
    """Prepare once, then reduce, cluster and score for each r; for dense A, many r are scored together.

    With ``together`` they are reduced together, too. With a key, deterministic steps are computed once for all
    repetitions. Without ``score``, nothing is scored and no time is kept.
    """
    reducer = reducers.make_allowed(task.reducer, json.loads(task.params))
    address = (task.dataset, task.reducer)
    try:
        rng = generator(task.seed, task.dataset, task.repeat, "starts")
        starts, same_starts = make_and_check(
            rng, lambda rng: starter(task.protocol, data.A.shape[0], task.k, data.labels, rng)
        )
        # Both also load a mapped matrix into memory before any time is taken. Every reducer and F are homogeneous.
        check_structure(data.A)
        A, _, total = normalised(canonical_csr(data.A))
        rng = generator(task.seed, *address, task.repeat, "prepare")
        prepared = do_once(key, rng, partial(reducer.prepare, A, task.k, rng))
    except Exception as error:
        return [{**shared, "r": r, **_failure(error)} for r in task.r_grid]

    def cluster(C: Matrix, C_key: Key | None, draws: np.random.Generator) -> Clustering:
        # Starts that run one after the other share the points, too, even if no other repetition does.
        with same_points(C_key or (object() if task.protocol.until_found else None)):
            return best_of_starts(
                task.protocol, lambda some: reducer.cluster(C, task.k, starts(C, some), draws, task.protocol)
            )

    def to_reduce(r: int) -> np.random.Generator:
        return generator(task.seed, *address, r, task.repeat, "reduce")

    def reduced_together(r_grid: Sequence[int]) -> dict[int, Done]:
        reduced: list[Matrix] = []
        if not maps_in_blocks(reducer, A):
            return {}
        with Stopwatch() as watch, suppress(Exception):  # each is then reduced by itself, and fails by itself
            reduced = images(reducer, A, [reducer.draw(A, r, to_reduce(r), prepared.value) for r in r_grid])
        return {r: Done(C, watch.seconds / len(reduced), None) for r, C in zip(r_grid, reduced, strict=False)}

    def clustered(r: int, reduced: Done | None) -> tuple[Done, Row]:
        rng = to_reduce(r)
        if reduced is None:
            reduced = do_once(extend(prepared.key, r), rng, partial(reducer.reduce, A, r, rng, prepared.value))
        C = reduced.value
        if C is not A and not is_finite(C):
            raise ArithmeticError(f"reducer {task.reducer} returned what is not finite")
        draws = generator(task.seed, *address, r, task.repeat, "cluster")
        start_key = extend(reduced.key, task.protocol) if same_starts else None
        done = do_once(start_key, draws, partial(cluster, C, reduced.key, draws))
        return done, _times(prepare=prepared.seconds, reduce=reduced.seconds, cluster=done.seconds)

    def scored(clustered: Done, residual: metrics.Residual | None, spent: float) -> Row:
        clustering = clustered.value
        score = partial(
            metrics.score, A, clustering.labels, data.labels, task.matching, total, residual, custom=custom_metrics
        )
        done = do_once(extend(clustered.key, task.matching), None, score, spent)
        scores = dict(done.value)
        row: Row = {name: scores.pop(name) for name in metrics.BUILT_IN if name in scores}
        row |= {"metrics": canonical(scores) if scores else "", **_times(score=done.seconds)}
        row |= {"n_iter": clustering.n_iter, "n_init_failed": clustering.n_init_failed, "status": "ok"}
        return row | ({"labels": clustering.labels} if task.keep_labels else {})

    rows: list[Row] = [{**shared, "r": r} for r in task.r_grid]
    for some in _groups(rows, A.shape[0], _together(A)):
        reduced = reduced_together([row["r"] for row in some]) if together and len(some) > 1 else {}
        results: list[tuple[Row, Done, Row]] = []
        for row in some:
            try:
                results.append((row, *clustered(row["r"], reduced.pop(row["r"], None))))
            except Exception as error:
                row.update(_failure(error))
        kept = not score or all(is_kept(extend(done.key, task.matching)) for _, done, _ in results)
        residuals, seconds = _residuals(A, [] if kept else [done.value for _, done, _ in results], total)
        for (row, done, times), residual in zip_longest(results if score else [], residuals):
            try:
                row.update(times | scored(done, residual, seconds))
            except Exception as error:
                row.update(_failure(error))
    return rows


def _guarded_trials(task: Task, data: Dataset, shared: Row, **settings: Any) -> list[Row]:
    """Return the rows of `_trials`, with failed rows for exceptions such as `SystemExit` and a panic of compiled code.

    They end all trials of a task, so each r is then run by itself. An interrupt of the user is raised.
    """
    try:
        return _trials(task, data, shared, **settings)
    except BaseException as error:
        if is_interrupt(error):
            raise
        if len(task.r_grid) == 1:
            return [{**shared, "r": task.r_grid[0], **_failure_of_any(error)}]
        return [row for r in task.r_grid for row in _guarded_trials(task.restricted((r,)), data, shared, **settings)]


def _failure_of_any(error: BaseException) -> dict[str, Any]:
    """Return what `_failure` does, also of an exception whose message cannot be read."""
    try:
        return _failure(error)
    except BaseException as other:
        if is_interrupt(other):
            raise
        reason = f"{type(error).__name__}, whose message raises {type(other).__name__}"
        return {"status": "failed", "error": reason}


def _residuals(A: Matrix, clusterings: Sequence[Clustering], total: float) -> tuple[list[metrics.Residual], float]:
    """Return the residuals of several clusterings and the seconds of each; none if each is scored by itself."""
    residuals: list[metrics.Residual] = []
    with Stopwatch() as watch, suppress(Exception):  # each is then scored by itself
        if len(clusterings) > 1:
            residuals = metrics.residuals(np.asarray(A), [clustering.labels for clustering in clusterings], total)
    return residuals, watch.seconds / max(len(clusterings), 1)


def _together(A: Matrix) -> int:
    """Return the largest number of entries of C that trials may have together to share work: more if A is large."""
    if is_out_of_core(A):
        return max(_ENTRIES, held() // A.dtype.itemsize)
    return _ENTRIES if isinstance(A, np.ndarray) else 0


def _groups(rows: Sequence[Row], n: int, entries: int) -> list[list[Row]]:
    """Return rows of n points in consecutive groups, each of one row or with at most so many entries of C."""
    groups: list[list[Row]] = [[]]
    for row in rows:
        if groups[-1] and n * sum(other["r"] for other in (*groups[-1], row)) > entries:
            groups.append([])
        groups[-1].append(row)
    return groups


def _times(**seconds: float | None) -> Row:
    """Return the time columns; a step whose result came from another repetition has none.

    Times are rounded to a tenth of a microsecond, about what reading the clock takes.
    """
    times = {f"{name}_seconds": round(taken, 7) for name, taken in seconds.items() if taken is not None}
    whole = [taken for name in ("prepare", "reduce", "cluster") if (taken := times.get(f"{name}_seconds")) is not None]
    return times | ({"total_seconds": round(sum(whole), 7)} if len(whole) == 3 else {})


def _shared(task: Task, provenance: Provenance) -> Row:
    name, options = data_of(task.dataset, task.options)
    return {
        "study": task.study,
        "dataset": task.dataset,
        "reducer": task.reducer,
        "params": task.params,
        "n": task.n,
        "d": task.d,
        "nnz": task.nnz,
        "k": task.k,
        "repeat": task.repeat,
        "seed": task.seed,
        **settings_of(task.config),
        "options": task.options,
        "stand_in": task.stand_in,
        "config_hash": task.config_hash,
        "data_sha256": task.data_sha256,
        "code_hash": code_of(task.reducer, name, task.protocol.engine, has_labelings(name, options)),
        "guests": plugin_origins(task.reducer, task.protocol.engine, name),
        **asdict(provenance),
    }


# The cells that this process has run serially, each with everything that decides which code runs.
_warm: set[Key] = set()


def _warm_cells(task: Task, data: Dataset, threads: int) -> None:
    """Run each cell of a task once, unscored and untimed, unless this process has run it before.

    The first trial of a process finds neither data nor code in the caches, and takes up to 60 times as long as the
    next. Each trial makes its own reducer and generators, so that nothing of this one enters a row.
    """
    cell = (data.data_sha256, data.A.dtype.name, task.reducer, task.params, task.k, task.protocol, threads)
    cells = {r: (*cell, r) for r in task.r_grid}
    if cold := tuple(r for r in task.r_grid if cells[r] not in _warm):
        _guarded_trials(task.restricted(cold), data, {}, score=False)
        _warm.update(cells.values())


def _shared_key(task: Task, data: Dataset, threads: int) -> Key:
    """Return everything that steps shared by all repetitions depend on."""
    return (data.data_sha256, data.A.dtype.name, task.reducer, task.params, task.k, threads)


def run(task: Task, data: Dataset, provenance: Provenance, *, timed: bool = True) -> list[Row]:
    """Run a task and return its rows.

    Parameters
    ----------
    timed : bool
        Whether the times of a serial trial will be used, so that each of its cells is run once untimed before.

    Returns
    -------
    list of dict
        One row for each r, in the order of the grid, with the columns that have a value, and ``labels``, the cluster of
        each point, if the task keeps them. A trial that raised has ``status`` "failed" and its message; an error in the
        shared work, or a data file that changed before the end, fails every r.

    Notes
    -----
    A serial trial prepares, reduces and clusters by itself, so that its times are measured; the first of a
    cell (dataset, reducer, r) in a process follows the same trial untimed. In parallel runs, a deterministic step is
    computed once per process and its time is empty in the other repetitions; the trials of a task are reduced together
    if that is faster, and share the time equally. In both cases they are scored together, with equal shares too.
    Third-party code may draw from a generator that is not observed here, so it is never shared.
    """
    if reason := changed(data):
        return failed(task, provenance, reason)
    reducers.check_output(task.reducer)
    alone = task.serial or provenance.concurrency == 1
    third_party = origins_of_methods(task.reducer, task.protocol.engine, plugin_roots())
    key = None if alone or third_party else _shared_key(task, data, provenance.threads)
    kind = sp.issparse(data.A), is_out_of_core(data.A), data.A.dtype.name
    if third_party or metrics.has_custom():
        data = _protected(data)
    # Third-party code may never end, but what kmdr compiles and loads does not count.
    if (third_party or metrics.has_custom()) and is_watched():
        engine = "sklearn" if engines.origin_of_engine(task.protocol.engine) else task.protocol.engine
        warm_up("none", "{}", Protocol(1, 2, engine=engine), *kind, not alone, custom_metrics=False)
        begin()
    warm_up(task.reducer, task.params, task.protocol, *kind, not alone)
    begin()
    if alone and timed:
        _warm_cells(task, data, provenance.threads)
        begin()
    references, settings = references_of(data), {"key": key, "together": not alone}
    labelled = replace(task, keep_labels=True) if third_party else task
    if references is None:
        rows = _guarded_trials(labelled, data, _shared(task, provenance), **settings)
    else:
        rows = _trials_against(references, labelled, data, _shared(task, provenance), **settings)
    if reason := changed(data):
        return failed(task, provenance, reason)
    return [_checked(row, task, provenance) for row in rows]


def _protected(data: Dataset) -> Dataset:
    """Return a dataset that third-party code cannot change: read-only, and normalised, because a copy is writable."""
    A = data.A
    with suppress(Exception):  # each trial then fails by itself
        A = normalised(canonical_csr(A))[0]
    return replace(data, A=read_only(A), labels=read_only(data.labels))


def _checked(row: Row, task: Task, provenance: Provenance) -> Row:
    """Return a row, or a failed one if third-party code returned too many clusters or a value that no table has."""
    labels = row.get("labels") if task.keep_labels else row.pop("labels", None)
    texts = {name: "" if row.get(name) is None else str(row[name]) for name in _BY_OTHERS}
    reasons = [str(fault) for name, text in texts.items() if (fault := value_fault(name, text))]
    if labels is not None and (count := len(np.unique(labels))) > task.k:
        reasons.append(f"{count} clusters, expected at most {task.k}")
    if not reasons:
        return row
    return failed(task.restricted((row["r"],)), provenance, f"third-party code returned {reasons[0]}")[0]


def _trials_against(
    references: NDArray[np.int64], task: Task, data: Dataset, shared: Row, **settings: Any
) -> list[Row]:
    """Return the rows of `_guarded_trials`, scored against several reference labelings or without noise."""
    has_noise = bool((references[0] < 0).any())
    known = replace(data, labels=None) if has_noise else data
    rows = _guarded_trials(replace(task, keep_labels=True), known, shared, **settings)
    A = normalised(canonical_csr(data.A))[0] if has_noise and any(row["status"] == "ok" for row in rows) else data.A
    for row in (row for row in rows if row["status"] == "ok"):
        labels = row["labels"] if task.keep_labels else row.pop("labels")
        scores = json.loads(row["metrics"] or "{}")
        try:
            with Stopwatch() as watch:
                scores |= agreements(references, labels, task.matching)
                scores |= lacking(A, references, labels, scores)
        except BaseException as error:  # whatever a metric raises
            if is_interrupt(error):
                raise
            r = row["r"]
            row.clear()
            row.update({**shared, "r": r, **_failure_of_any(error)})
            continue
        row.update({name: scores.pop(name) for name in metrics.BUILT_IN if name in scores})
        row["metrics"] = canonical(scores) if scores else ""
        if "score_seconds" in row:
            row.update(_times(score=row["score_seconds"] + watch.seconds))
    return rows


def failed(task: Task, provenance: Provenance, reason: str) -> list[Row]:
    """Return the rows of a task that could not be run to its end, in the form of `run`."""
    error = " ".join(reason.split())
    return [{**_shared(task, provenance), "r": r, "status": "failed", "error": error} for r in task.r_grid]


def seconds_inside(rows: list[Row]) -> float:
    """Return the seconds that a task spent in prepare (once), reduce, cluster and score."""
    prepare = max((row.get("prepare_seconds", 0.0) for row in rows), default=0.0)
    parts = ("reduce_seconds", "cluster_seconds", "score_seconds")
    return float(prepare + sum(row.get(name, 0.0) for row in rows for name in parts))
