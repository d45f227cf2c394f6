"""Tasks to workers to the store.

A run has two stages. The serial stage takes the tasks whose times are wanted, one after another, with the folder's
clock held alone; the parallel stage takes the rest. Both produce the same numbers, so quality figures use the rows of
both. No task runs in this process unless the backend is "sequential": what kills the process of a task, be it a file
that shrinks while it is mapped or the end of memory, costs that task alone.
"""

import importlib.util
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import joblib

from kmdr.base.errors import UserError, shown, unknown, whole_number
from kmdr.base.provenance import code_version, environment, machine
from kmdr.base.signals import undisturbed
from kmdr.base.threads import pinned
from kmdr.base.timing import Stopwatch
from kmdr.config.task import Task
from kmdr.harness.compiled import compile_kernels, is_compiled, parts
from kmdr.harness.engines.contract import Answer, Call, Cluster, Perform, execute, named
from kmdr.harness.engines.local import Lost, Workers
from kmdr.harness.plan import Seconds, in_order, wall_seconds
from kmdr.harness.progress import Progress
from kmdr.harness.task import Stamp, failed, seconds_inside
from kmdr.results.rows import TextRow
from kmdr.results.schema import Row
from kmdr.results.store import Store

# Workers and threads a core at the most, where they are of this machine.
_MOST_A_CORE = 32
# Task files written at once: most of the time that takes is waiting for the disk. Where answers come more seldom than
# this, there is time to wait for each, so that it is told when it comes.
_WRITERS = 4
_SELDOM_SECONDS = 0.1
_SETTINGS = ("backend", "n_jobs", "threads", "address", "scheduler_file", "cluster", "options", "folder")
# Each backend, and the package that it needs beyond kmdr's own.
BACKENDS = {"loky": None, "sequential": None, "dask": "distributed", "ray": "ray"}
# Each batch system whose jobs can be workers of dask, and the class of dask-jobqueue that submits them.
SYSTEMS = {
    "slurm": "SLURMCluster", "pbs": "PBSCluster", "lsf": "LSFCluster", "sge": "SGECluster",
    "htcondor": "HTCondorCluster",
}  # fmt: skip


# Options of the class that kmdr gives it.
_OWN_OPTIONS = (
    "asynchronous",
    "job_cls",
    "loop",
    "n_workers",
    "name",
    "security",
    "shared_temp_directory",
    "silence_logs",
)


@dataclass(frozen=True)
class Runner:
    """How tasks are run.

    Attributes
    ----------
    backend : {"loky", "sequential", "dask", "ray"}
    n_jobs : int
        Workers of the parallel stage; −1 for all that a cluster has; of a batch system, jobs at once.
    threads : int
        BLAS and OpenMP threads of each worker.
    address : str or None
        Scheduler of dask or ray; None starts one here.
    scheduler_file : str or None
        The same as a file that a scheduler of dask wrote.
    cluster : str or None
        Batch system whose jobs are the workers of dask, one of `SYSTEMS`.
    options : mapping
        Of the jobs, as the batch system's class of dask-jobqueue takes them.
    folder : str or None
        For credentials and logs of the jobs, on a file system that their nodes share.
    """

    backend: str
    n_jobs: int
    threads: int
    address: str | None = None
    scheduler_file: str | None = None
    cluster: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    folder: str | None = None

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "Runner":
        """Check a plain configuration (the tree of ``conf/runner``).

        Raises
        ------
        UserError
        """
        backend = _checked_backend(config.get("backend"))
        for name in config:
            if name not in _SETTINGS:
                raise unknown("setting of runner", name, _SETTINGS)
        settings: dict[str, Any] = {name: config.get(name) for name in _SETTINGS}
        _, n_jobs, threads, address, scheduler_file, cluster, options, folder = settings.values()
        places = {"address": address, "scheduler_file": scheduler_file}
        elsewhere = any(place is not None for place in (address, scheduler_file, cluster))
        most = _MOST_A_CORE * joblib.cpu_count()
        if n_jobs != -1:
            whole_number("runner.n_jobs", n_jobs, 1, *([] if elsewhere else [most]))
        whole_number("runner.threads", threads, 1, most)
        for name, place in places.items():
            if place is not None and not (isinstance(place, str) and place):
                raise UserError(f"runner.{name} = {shown(place)} is no address; give one as text, or null")
        if None not in places.values():
            raise UserError("runner.address and runner.scheduler_file both name a scheduler; give one of them")
        if cluster is not None:
            _check_batch(settings)
        elif options:
            raise UserError("runner.options are those of the jobs of a batch system; name it by runner.cluster")
        if backend == "sequential":
            n_jobs = 1
        elif n_jobs == -1 and not (elsewhere and BACKENDS[backend]):
            n_jobs = joblib.cpu_count()
        return cls(backend, n_jobs, threads, address, scheduler_file, cluster, options or {}, folder)

    @cached_property
    def size(self) -> int:
        """Workers of the parallel stage; a cluster is asked for its own.

        Raises
        ------
        UserError
            When it does not answer.
        """
        if self.n_jobs != -1 and self.cluster is None:
            return self.n_jobs
        with self.connection() as cluster:  # of a batch system, to find what is wrong before anything is timed
            return cluster.size() if self.n_jobs == -1 else self.n_jobs

    def connection(self) -> "AbstractContextManager[Cluster]":
        """Return the connection to the cluster of a backend that has one."""
        workers = None if self.n_jobs == -1 else self.n_jobs
        if self.backend == "dask":
            from kmdr.harness.engines import dask

            batch = {
                "system": self.cluster, "size": self.n_jobs, "threads": self.threads, "options": self.options,
                "folder": self.folder,
            }  # fmt: skip
            return dask.connected(self.address, self.scheduler_file, workers, batch if self.cluster else None)
        from kmdr.harness.engines import ray

        return ray.connected(self.address, workers)


def _checked_backend(backend: Any) -> str:
    """Return the name of a backend that can be used here.

    Raises
    ------
    UserError
    """
    if isinstance(backend, str) and backend in SYSTEMS:
        raise UserError(f"runner.backend = {backend!r} is a batch system; use runner=dask runner.cluster={backend}")
    if not isinstance(backend, str) or backend not in BACKENDS:
        raise UserError(f"runner.backend = {shown(backend)} is not one of {', '.join(BACKENDS)}; choose one of them")
    package = BACKENDS[backend]
    if package is not None and importlib.util.find_spec(package) is None:
        raise UserError(
            f"runner.backend = {backend!r} needs the package {package}; pip install 'kmdr[{backend}]' has it"
        )
    return backend


def _check_batch(settings: Mapping[str, Any]) -> None:
    """Refuse settings with which no job of a batch system can be submitted.

    Raises
    ------
    UserError
    """
    cluster, options, folder = settings["cluster"], settings["options"], settings["folder"]
    if not isinstance(cluster, str) or cluster not in SYSTEMS:
        raise unknown("batch system", cluster, SYSTEMS)
    if settings["backend"] != "dask" or settings["address"] is not None or settings["scheduler_file"] is not None:
        raise UserError(f"runner.cluster = {cluster!r} starts a cluster of Dask; use runner=dask without an address")
    if importlib.util.find_spec("dask_jobqueue") is None:
        raise UserError(
            f"runner.cluster = {cluster!r} needs the package dask-jobqueue; pip install 'kmdr[dask]' has it"
        )
    if settings["n_jobs"] == -1:
        raise UserError(f"runner.n_jobs = -1: {cluster} has no number of its own; give the largest number of jobs")
    if not isinstance(folder, str) or not folder or "\0" in folder:
        raise UserError(f"runner.folder = {shown(folder)} is not a folder; give one that the nodes share")
    if options is not None and not isinstance(options, Mapping):
        raise UserError(f"runner.options = {shown(options)} is not a mapping; write e.g. runner.options.queue=short")
    for name in options or ():
        if name in _OWN_OPTIONS:
            raise UserError(f"runner.options.{name} is set by kmdr; remove it")


@contextmanager
def _engine(runner: Runner, workers: Workers, progress: Progress) -> Iterator[Perform]:
    if runner.backend == "sequential":
        with pinned(runner.threads):
            yield lambda calls: ((call, execute(*call)) for call in calls)
    elif runner.backend == "loky":
        yield lambda calls: workers.run(calls, runner.n_jobs, named)
    else:
        with runner.connection() as cluster:
            progress.stage(f"{cluster.size()} at a time")

            def perform(calls: Iterable[Call]) -> Iterator[tuple[Call, Answer | Lost]]:
                for answered in cluster.perform(calls, progress.tell):
                    progress.stage(f"{cluster.size()} at a time")  # workers join and leave
                    yield answered

            yield perform


@cache
def _store(folder: Path) -> Store:
    return Store(folder)


@dataclass
class _Stage:
    """What one stage did: tasks, seconds of wall time, seconds of its workers inside trials, tasks not begun."""

    tasks: int = 0
    wall: float = 0.0
    inside: float = 0.0
    late: int = 0


class _Claims:
    """The tasks that are being worked on, each held against other runs on the folder until its rows are stored."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._held: dict[Path, ExitStack] = {}

    def __enter__(self) -> "_Claims":
        return self

    def __exit__(self, *exc: object) -> None:
        for path in [*self._held]:
            self._held.pop(path).close()

    def take(self, task: Task) -> bool:
        """Claim a task; False where another run, or this one, is at it."""
        path = self._store.path(task)
        with ExitStack() as claim:
            if path in self._held or not claim.enter_context(self._store.claim(task, wait=False)):
                return False
            self._held[path] = claim.pop_all()
        return True

    def give_back(self, task: Task) -> None:
        """End the claim of a task."""
        self._held.pop(self._store.path(task)).close()


def _run_stage(
    store: Store,
    tasks: Sequence[Task],
    stamp: Stamp,
    until: float,
    done: Callable[[Task, list[Row]], None],
    perform: Perform,
) -> _Stage:
    """Run some tasks, all of them timed or none, first those that no other run is at, then what it leaves of them.

    Nothing is claimed while this waits: another run may wait for what this one holds.
    """
    stage, alone = _Stage(), tasks[0].serial

    def free(tasks: Sequence[Task], others: list[Task]) -> Iterator[Call]:
        """Claim and yield tasks one by one; put those aside for which this would have to wait."""
        for task in tasks:
            if (not alone and store.is_awaited()) or not claims.take(task):
                others.append(task)
            elif store.finished(task):
                claims.give_back(task)
                done(task, [])
            elif time.time() > until:
                claims.give_back(task)
                stage.late += 1
                done(task, [])
            else:
                yield task, stamp

    def write(task: Task, answer: Answer) -> tuple[Task, list[Row]]:
        if answer.environment:
            store.add_environment(answer.environment)
        store.add(task, answer.rows)
        return task, answer.rows

    def settle(writing: deque[Future[tuple[Task, list[Row]]]], most: int) -> None:
        """Wait until at most so many tasks are being written."""
        while len(writing) > most:
            task, rows = writing.popleft().result()
            claims.give_back(task)
            stage.tasks += 1
            stage.inside += seconds_inside(rows)
            done(task, rows)

    beside = 0 if stamp.concurrency == 1 else _WRITERS  # what runs alone is not disturbed by writing either
    with Stopwatch() as watch, _Claims(store) as claims, ThreadPoolExecutor(_WRITERS) as writers:
        while tasks:
            others: list[Task] = []
            with store.clock(alone):
                writing: deque[Future[tuple[Task, list[Row]]]] = deque()
                asked = time.monotonic()
                for (task, _), answer in perform(free(tasks, others)):
                    seldom = time.monotonic() - asked >= _SELDOM_SECONDS
                    given = Answer(failed(task, stamp, answer.reason)) if isinstance(answer, Lost) else answer
                    writing.append(writers.submit(write, task, given))
                    settle(writing, 0 if seldom else beside)
                    asked = time.monotonic()
                settle(writing, 0)
            if len(others) == len(tasks):
                with store.claim(others[0], wait=True):
                    pass
            tasks = others
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
) -> tuple[list[TextRow], int]:
    """Run tasks, merge the table and return it.

    Interrupting it loses at most the tasks in flight. Calls at the same time on the same folder share the work.

    Parameters
    ----------
    left : sequence of Task
        At least one, none of which is done: see `kmdr.results.store.missing`.
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

    def done(task: Task, rows: list[Row]) -> None:
        progress.advance(rows, wall_seconds(task, seconds, runner.size))

    def stamp(concurrency: int) -> Stamp:
        return Stamp(concurrency, runner.threads, code_version(), env_hash, machine())

    try:
        if runner.backend == "loky" and runner.n_jobs > 1 and not is_compiled():
            progress.stage("compiling, once an installation")
            compile_kernels(parts(left), runner.n_jobs, progress.tell)
        with Workers(execute, runner.threads, progress.tell) as workers:
            if serial:
                progress.stage("timing, one at a time")
                with _engine(alone, workers, progress) as perform:
                    timed = _run_stage(store, serial, stamp(1), until, done, perform)
            if beside:
                progress.stage(f"{runner.size} at a time")
                with _engine(runner, workers, progress) as perform:
                    other = _run_stage(store, beside, stamp(runner.size * shards), until, done, perform)
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
            "n_jobs": runner.size,
            "share_outside_trials": 1 - (timed.inside + other.inside) / (timed.wall + runner.size * other.wall),
            "code_version": code_version(),
            "env_hash": env_hash,
        }
    )
    return rows, timed.late + other.late
