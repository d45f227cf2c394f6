"""Tasks to workers to the store.

A run has two stages. The serial stage takes the tasks whose times are wanted, one after another, with the folder's
clock held alone; the parallel stage takes the rest. Both produce the same numbers, so quality figures use the rows of
both. No task runs in this process unless the backend is "sequential": what kills the process of a task, be it a file
that shrinks while it is mapped or the end of memory, costs that task alone.
"""

import importlib.util
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import joblib

from kmdr.datasets import Dataset, open_prepared
from kmdr.entry import undisturbed
from kmdr.errors import UserError, shown, unknown, whole_number
from kmdr.run.plan import Seconds, in_order, wall_seconds
from kmdr.run.progress import Progress
from kmdr.run.provenance import code_version, environment
from kmdr.run.store import Store
from kmdr.run.task import Row, Stamp, Task, failed, run, seconds_inside
from kmdr.run.workers import Lost, Workers
from kmdr.threads import pin, pinned
from kmdr.timing import Stopwatch

# Workers and threads a core at the most, where they are of this machine.
_MOST_A_CORE = 32
_SETTINGS = ("backend", "n_jobs", "threads", "address")
# Each backend, and the package that it needs beyond kmdr's own.
BACKENDS = {"loky": None, "sequential": None, "dask": "distributed", "ray": "ray"}


@dataclass(frozen=True)
class Runner:
    """How tasks are run.

    Attributes
    ----------
    backend : {"loky", "sequential", "dask", "ray"}
    n_jobs : int
        Workers of the parallel stage; −1 for one a core.
    threads : int
        BLAS and OpenMP threads of each worker.
    address : str or None
        Scheduler of dask or ray; None starts one here.
    """

    backend: str
    n_jobs: int
    threads: int
    address: str | None = None

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "Runner":
        """Check a plain configuration (the tree of ``conf/runner``).

        Raises
        ------
        UserError
        """
        backend = config.get("backend")
        if not isinstance(backend, str) or backend not in BACKENDS:
            raise UserError(
                f"runner.backend = {shown(backend)} is not one of {', '.join(BACKENDS)}; choose one of them"
            )
        package = BACKENDS[backend]
        if package is not None and importlib.util.find_spec(package) is None:
            raise UserError(
                f"runner.backend = {backend!r} needs the package {package}; pip install 'kmdr[{backend}]' has it"
            )
        for name in config:
            if name not in _SETTINGS:
                raise unknown("setting of runner", name, _SETTINGS)
        settings: dict[str, Any] = {name: config.get(name) for name in _SETTINGS}
        n_jobs, threads, address = (settings[name] for name in _SETTINGS[1:])
        most = _MOST_A_CORE * joblib.cpu_count()
        if n_jobs != -1:
            whole_number("runner.n_jobs", n_jobs, 1, *([most] if address is None else []))
        whole_number("runner.threads", threads, 1, most)
        if address is not None and not isinstance(address, str):
            raise UserError(f"runner.address = {shown(address)} is no address; give one as text, or null")
        workers = 1 if backend == "sequential" else joblib.cpu_count() if n_jobs == -1 else n_jobs
        return cls(backend, workers, threads, address)


@dataclass(frozen=True)
class Outcome:
    """What a worker reports of a task.

    Attributes
    ----------
    task : Task
    rows : list of dict
        Its rows; none where it was not run.
    busy : bool
        Whether another process holds it.
    seconds : float
        Inside trials.
    late : bool
        Whether it was not begun, because the time was over.
    """

    task: Task
    rows: list[Row]
    busy: bool = False
    seconds: float = 0.0
    late: bool = False


@cache
def _data(folder: str, data_sha256: str, verify: str) -> Dataset:
    """Map a prepared dataset once a process, and again where the folder has another content in a later run."""
    del data_sha256
    return open_prepared(Path(folder), verify)


@cache
def _pin_once(threads: int) -> None:
    pin(threads)


def execute(task: Task, folder: Path, stamp: Stamp, wait: bool, until: float) -> Outcome:
    """Run one task and store its rows, unless another process has it or has done it, or it is too late.

    Parameters
    ----------
    task : Task
    folder : Path
        Of the store.
    stamp : Stamp
    wait : bool
        Whether to wait for another process that works on it.
    until : float
        Seconds since the epoch after which no task begins.

    Returns
    -------
    Outcome
    """
    store = _store(folder)
    with store.claim(task, wait) as claimed:
        if not claimed:
            return Outcome(task, [], busy=True)
        if store.finished(task):
            return Outcome(task, [])
        if time.time() > until:
            return Outcome(task, [], late=True)
        _pin_once(stamp.threads)
        with nullcontext() if task.serial else store.clock(alone=False):
            try:
                rows = run(task, _data(task.folder, task.data_sha256, task.verify), stamp)
            except UserError as error:  # of the data, damaged or changed since the run began: the other tasks go on
                rows = failed(task, stamp, str(error))
        store.add(task, rows)
        return Outcome(task, rows, seconds=seconds_inside(rows))


@cache
def _store(folder: Path) -> Store:
    return Store(folder)


def give_up(task: Task, folder: Path, stamp: Stamp, reason: str) -> Outcome:
    """Store failed rows of a task that no worker survives, unless another process did better.

    Parameters
    ----------
    task : Task
    folder : Path
        Of the store.
    stamp : Stamp
    reason : str
        What the rows say.

    Returns
    -------
    Outcome
    """
    store = _store(folder)
    with store.claim(task, wait=True):
        if store.finished(task):
            return Outcome(task, [])
        rows = failed(task, stamp, reason)
        store.add(task, rows)
        return Outcome(task, rows)


# What `execute` is called with.
Call = tuple[Task, Path, Stamp, bool, float]


def _named(call: tuple[Any, ...]) -> str:
    task = call[0]
    return f"{task.dataset} {task.reducer} repeat={task.repeat}"


@contextmanager
def _backend(runner: Runner, workers: Workers) -> Iterator[Callable[[Sequence[Call]], Iterator[Outcome]]]:
    """Yield a function that runs calls of `execute` and gives their outcomes as they finish."""
    if runner.backend == "sequential":
        with pinned(runner.threads):
            yield lambda calls: (execute(*call) for call in calls)
        return
    if runner.backend == "loky":

        def by_workers(calls: Sequence[Call]) -> Iterator[Outcome]:
            for (task, folder, stamp, *_), answer in workers.run(calls, runner.n_jobs, _named):
                yield give_up(task, folder, stamp, answer.reason) if isinstance(answer, Lost) else answer

        yield by_workers
        return

    def by_joblib(calls: Sequence[Call]) -> Iterator[Outcome]:
        return iter(joblib.Parallel(n_jobs=runner.n_jobs)(joblib.delayed(execute)(*call) for call in calls))

    if runner.backend == "dask":
        from distributed import Client

        options: dict[str, Any] = {"address": runner.address} if runner.address else {"n_workers": runner.n_jobs}
        with (
            Client(**options, **({} if runner.address else {"threads_per_worker": 1, "dashboard_address": None})),
            joblib.parallel_config(backend="dask"),
        ):
            yield by_joblib
        return
    import ray
    from ray.util.joblib import register_ray

    register_ray()
    ray.init(address=runner.address, num_cpus=None if runner.address else runner.n_jobs, log_to_driver=False)
    try:
        with joblib.parallel_config(backend="ray"):
            yield by_joblib
    finally:
        ray.shutdown()


@dataclass
class _Stage:
    """What one stage did: tasks, seconds of wall time, seconds of its workers inside trials, tasks not begun."""

    tasks: int = 0
    wall: float = 0.0
    inside: float = 0.0
    late: int = 0


def _run_stage(
    store: Store,
    tasks: Sequence[Task],
    runner: Runner,
    stamp: Stamp,
    until: float,
    done: Callable[[Outcome], None],
    workers: Workers,
) -> _Stage:
    """Run some tasks, first those that no other process holds, then whatever of the others is left."""
    stage = _Stage()
    with Stopwatch() as watch, _backend(runner, workers) as perform:
        for wait in (False, True):
            calls = [(task, store.folder, stamp, wait, until) for task in tasks]
            tasks = []
            for outcome in perform(calls) if calls else ():
                if outcome.busy:
                    tasks.append(outcome.task)
                    continue
                stage.tasks += bool(outcome.rows)
                stage.inside += outcome.seconds
                stage.late += outcome.late
                done(outcome)
    stage.wall = watch.seconds
    return stage


def run_tasks(
    left: Sequence[Task],
    runner: Runner,
    folder: Path,
    seconds: Seconds,
    progress: Progress,
    until: float = math.inf,
    shards: int = 1,
) -> tuple[list[dict[str, str]], int]:
    """Run tasks, merge the table and return it.

    Interrupting it loses at most the tasks in flight. Calls at the same time on the same folder share the work.

    Parameters
    ----------
    left : sequence of Task
        At least one, none of which is done: see `kmdr.run.store.missing`.
    runner : Runner
    folder : Path
        Of the results.
    seconds : callable
        What a task is expected to take, for their order and the time left.
    progress : Progress
        Told of each task that is done.
    until : float
        Seconds since the epoch after which no task begins.
    shards : int
        Parts of the plan that may run at the same time, on this machine or others. Their workers count as neighbours of
        what is not timed: on nodes of one core it would else look as if it had run alone, and be drawn in one curve.

    Returns
    -------
    rows : list of dict
        The rows of ``rows.csv``.
    late : int
        Tasks that were not begun because the time was over.
    """
    store = _store(folder.resolve())
    env_hash = store.add_environment(environment())
    serial = in_order((task for task in left if task.serial), seconds)
    beside = in_order((task for task in left if not task.serial), seconds)
    alone = Runner(runner.backend if runner.backend == "sequential" else "loky", 1, runner.threads)
    timed, other = _Stage(), _Stage()

    def done(outcome: Outcome) -> None:
        progress.advance(outcome.rows, wall_seconds(outcome.task, seconds, runner.n_jobs))

    def stamp(concurrency: int) -> Stamp:
        return Stamp(concurrency, runner.threads, code_version(), env_hash)

    try:
        with Workers(execute, runner.threads, progress.tell) as workers:
            if serial:
                progress.stage("timing, one at a time")
                with store.clock(alone=True):
                    timed = _run_stage(store, serial, alone, stamp(1), until, done, workers)
            if beside:
                progress.stage(f"{runner.n_jobs} at a time")
                other = _run_stage(store, beside, runner, stamp(runner.n_jobs * shards), until, done, workers)
    finally:
        with undisturbed():
            rows = store.merge()
    store.log(
        {
            "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "studies": sorted({task.study for task in left}),
            "tasks_done": timed.tasks + other.tasks,
            "serial_seconds": timed.wall,
            "parallel_seconds": other.wall,
            "n_jobs": runner.n_jobs,
            "share_outside_trials": 1 - (timed.inside + other.inside) / (timed.wall + runner.n_jobs * other.wall),
            "code_version": code_version(),
            "env_hash": env_hash,
        }
    )
    return rows, timed.late + other.late
