"""Tasks to joblib to the store.

A run has two stages. The serial stage takes the tasks whose times are wanted, one after another in this process, with
the folder's clock held alone; the parallel stage takes the rest. Both produce the same numbers, so quality figures use
the rows of both.
"""

import importlib.util
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import joblib

from kmdr.datasets import Dataset, open_prepared
from kmdr.errors import UserError, whole_number
from kmdr.progress import Progress
from kmdr.provenance import code_version, environment
from kmdr.store import Store
from kmdr.task import Row, Stamp, Task, run, seconds_inside, short_hash
from kmdr.timing import Stopwatch, pin, pinned

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
    def from_config(cls, config: Any) -> "Runner":
        """Check a plain configuration (the tree of ``conf/runner``).

        Raises
        ------
        UserError
        """
        backend = config["backend"]
        if backend not in BACKENDS:
            raise UserError(f"runner.backend = {backend!r} is not one of {', '.join(BACKENDS)}; choose one of them")
        package = BACKENDS[backend]
        if package is not None and importlib.util.find_spec(package) is None:
            raise UserError(
                f"runner.backend = {backend!r} needs the package {package}; pip install 'kmdr[{backend}]' has it"
            )
        n_jobs, threads = config["n_jobs"], config["threads"]
        if n_jobs != -1:
            whole_number("runner.n_jobs", n_jobs, 1)
        whole_number("runner.threads", threads, 1)
        workers = 1 if backend == "sequential" else joblib.cpu_count() if n_jobs == -1 else n_jobs
        return cls(backend, workers, threads, config.get("address"))


@dataclass(frozen=True)
class Outcome:
    """What a worker reports of a task: its rows, whether another process holds it, and the seconds inside trials."""

    task: Task
    rows: list[Row]
    busy: bool
    seconds: float


@cache
def _data(folder: str) -> Dataset:
    """Map a prepared dataset once a process."""
    return open_prepared(Path(folder))


@cache
def _pin_once(threads: int) -> None:
    pin(threads)


def execute(task: Task, folder: Path, stamp: Stamp, wait: bool) -> Outcome:
    """Run one task and store its rows, unless another process has it or has done it.

    Parameters
    ----------
    task : Task
    folder : Path
        Of the store.
    stamp : Stamp
    wait : bool
        Whether to wait for another process that works on it.

    Returns
    -------
    Outcome
    """
    store = _store(folder)
    with store.claim(task, wait) as mine:
        if not mine:
            return Outcome(task, [], True, 0.0)
        left = store.missing(task)
        if left is None:
            return Outcome(task, [], False, 0.0)
        if not task.serial:
            _pin_once(stamp.threads)
        with nullcontext() if task.serial else store.clock(alone=False):
            rows = run(left, _data(left.folder), stamp)
        store.add(left, rows)
        return Outcome(task, rows, False, seconds_inside(rows))


@cache
def _store(folder: Path) -> Store:
    return Store(folder)


@contextmanager
def _backend(runner: Runner) -> Iterator[Callable[[list[Any]], Iterator[Outcome]]]:
    """Yield a function that runs delayed calls and gives their outcomes as they finish."""
    if runner.n_jobs == 1 and runner.backend in ("loky", "sequential"):

        def one_by_one(calls: list[Any]) -> Iterator[Outcome]:
            for function, args, kwargs in calls:
                yield function(*args, **kwargs)

        with pinned(runner.threads):
            yield one_by_one
        return
    if runner.backend == "dask":
        from distributed import Client

        options: dict[str, Any] = {"address": runner.address} if runner.address else {"n_workers": runner.n_jobs}
        with (
            Client(**options, **({} if runner.address else {"threads_per_worker": 1, "dashboard_address": None})),
            joblib.parallel_config(backend="dask"),
        ):
            yield lambda calls: iter(joblib.Parallel(n_jobs=runner.n_jobs)(calls))
        return
    if runner.backend == "ray":
        import ray
        from ray.util.joblib import register_ray

        register_ray()
        ray.init(address=runner.address, num_cpus=None if runner.address else runner.n_jobs, log_to_driver=False)
        try:
            with joblib.parallel_config(backend="ray"):
                yield lambda calls: iter(joblib.Parallel(n_jobs=runner.n_jobs)(calls))
        finally:
            ray.shutdown()
        return
    with (
        joblib.parallel_config(backend="loky", inner_max_num_threads=runner.threads),
        joblib.Parallel(n_jobs=runner.n_jobs, return_as="generator_unordered", pre_dispatch="3*n_jobs") as parallel,
    ):
        yield parallel


def _order(task: Task) -> tuple[Any, ...]:
    """Repetition by repetition, so that whatever is there when a run is stopped is balanced."""
    return task.repeat, task.dataset, task.reducer, task.config_hash


def run_tasks(tasks: Sequence[Task], runner: Runner, folder: Path) -> list[dict[str, str]]:
    """Run what is missing of some tasks, merge the table and return it.

    Interrupting it loses at most the tasks in flight; calling it again does the rest. Calls at the same time on the
    same folder share the work.

    Parameters
    ----------
    tasks : sequence of Task
    runner : Runner
    folder : Path
        Of the results.

    Returns
    -------
    list of dict
        The rows of ``rows.csv``.
    """
    store = _store(folder.resolve())
    env = environment()
    env_hash = short_hash(env)
    store.describe("environments", env_hash, env)
    for task in {task.config_hash: task for task in tasks}.values():
        store.describe("configs", task.config_hash, task.config)
    left = sorted((m for m in map(store.missing, tasks) if m is not None), key=_order)
    progress = Progress(len(left)) if left else None
    inside = {True: 0.0, False: 0.0}
    done = 0
    walls = {True: Stopwatch(), False: Stopwatch()}

    def stage(serial: bool, how: Runner) -> None:
        nonlocal done
        assert progress is not None
        mine = [task for task in left if task.serial == serial]
        if not mine:
            return
        stamp = Stamp(how.n_jobs, how.threads, code_version(), env_hash)
        progress.stage("timing, one at a time" if serial else f"{how.n_jobs} at a time")
        with walls[serial], _backend(how) as parallel:
            for wait in (False, True):
                calls = [joblib.delayed(execute)(task, store.folder, stamp, wait) for task in mine]
                busy = []
                for outcome in parallel(calls) if calls else ():
                    if outcome.busy:
                        busy.append(outcome.task)
                        continue
                    inside[serial] += outcome.seconds
                    done += bool(outcome.rows)
                    progress.advance(outcome.rows)
                mine = busy

    try:
        if progress is not None:
            with store.clock(alone=True) if any(task.serial for task in left) else nullcontext():
                stage(True, Runner("sequential", 1, runner.threads))
            stage(False, runner)
    finally:
        if progress is not None:
            progress.close()
        rows = store.merge()
    if left:
        workers = walls[True].seconds + runner.n_jobs * walls[False].seconds
        store.log(
            {
                "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "studies": sorted({task.study for task in left}),
                "tasks_done": done,
                "serial_seconds": walls[True].seconds,
                "parallel_seconds": walls[False].seconds,
                "n_jobs": runner.n_jobs,
                "share_outside_trials": 1 - (inside[True] + inside[False]) / workers,
                "code_version": code_version(),
                "env_hash": env_hash,
            }
        )
    return rows
