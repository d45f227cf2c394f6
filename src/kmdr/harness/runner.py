"""Run tasks: give them to workers, and their rows to the store.

A run has two stages. The serial stage runs the timed tasks one after another, while this run alone holds the folder's
clock; the parallel stage runs the rest. Both give the same numbers, so quality figures use the rows of both. No task
runs in this process unless the backend is "sequential" and there are no limits: whatever kills the process of a task,
such as a mapped file that shrinks or the end of memory, costs that task alone.
"""

import math
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from kmdr.base.limits import Limit
from kmdr.base.outside import keep_folder_and_streams
from kmdr.base.provenance import code_version, environment, machine
from kmdr.base.signals import undisturbed
from kmdr.base.text import tell
from kmdr.base.threads import pinned
from kmdr.base.timing import Stopwatch
from kmdr.config.task import Task
from kmdr.harness.compiled import COMPILE_SECONDS, compile_kernels, is_compiled, parts
from kmdr.harness.engines.contract import Answer, Call, Perform, call_name, divide_lost_tasks, execute
from kmdr.harness.engines.local import Late, Lost, Workers
from kmdr.harness.engines.settings import Runner
from kmdr.harness.plan import ALLOWANCE_SECONDS, DRAWING_SECONDS
from kmdr.harness.progress import Progress
from kmdr.harness.task import Provenance, failed, seconds_inside
from kmdr.results.schema import Row
from kmdr.results.store import Store
from kmdr.results.text_rows import TextRow

# Task files written at once: writing mostly waits for the disk. If answers come more seldom than this, each is written
# before the next is awaited, so that progress reports it at once.
_WRITERS = 4
_SELDOM_SECONDS = 0.1


@contextmanager
def _exits_raised() -> Iterator[None]:
    """Let a call of `os._exit` by a method raise `SystemExit`: in this process it would end the command silently."""
    pid, original = os.getpid(), os._exit

    def leave(status: int) -> NoReturn:
        caller = str(sys._getframe(1).f_globals.get("__name__", "")).partition(".")[0]
        of_method = os.getpid() == pid and caller not in sys.stdlib_module_names | {"kmdr"}
        if of_method and threading.current_thread() is threading.main_thread():
            raise SystemExit(f"the method called os._exit({status})")
        if of_method:
            tell(
                f"kmdr: warning: a thread of a method called os._exit({status}); runner=loky goes on after such a trial"
            )
        original(status or of_method)

    os._exit = leave
    try:
        yield
    finally:
        os._exit = original


def _execute_here(task: Task, provenance: Provenance) -> Answer:
    with keep_folder_and_streams():
        return execute(task, provenance)


@contextmanager
def _engine(runner: Runner, workers: Workers, progress: Progress, limit: Limit) -> Iterator[Perform]:
    if runner.backend == "sequential" and not limit.is_limited:
        with pinned(runner.threads), _exits_raised():
            yield lambda calls: ((call, _execute_here(*call)) for call in calls)
    elif runner.backend in ("loky", "sequential"):

        def perform_here(calls: Iterable[Call]) -> Iterator[tuple[Call, Answer | Lost | Late]]:
            return workers.run(calls, runner.n_jobs, call_name)

        yield divide_lost_tasks(perform_here)
    else:
        with runner.connection() as cluster:
            progress.stage(f"{cluster.size()} at a time")

            def perform(calls: Iterable[Call]) -> Iterator[tuple[Call, Answer | Lost | Late]]:
                for answered in cluster.perform(calls, progress.tell, limit):
                    progress.stage(f"{cluster.size()} at a time")  # workers join and leave
                    yield answered

            yield divide_lost_tasks(perform)


@dataclass
class _Stage:
    """Totals of one stage: tasks, seconds of wall time, seconds of its workers inside trials, tasks not finished."""

    tasks: int = 0
    wall: float = 0.0
    inside: float = 0.0
    late: int = 0


class _TaskLocks:
    """The tasks in progress. Each is held against other runs on the folder until its rows are stored."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._held: dict[Path, ExitStack] = {}

    def __enter__(self) -> "_TaskLocks":
        return self

    def __exit__(self, *exc: object) -> None:
        for path in [*self._held]:
            self._held.pop(path).close()

    def take(self, task: Task) -> bool:
        """Claim a task; return False if this or another run is working on it."""
        path = self._store.path(task)
        with ExitStack() as claim:
            if path in self._held or not claim.enter_context(self._store.claim(task, wait=False)):
                return False
            self._held[path] = claim.pop_all()
        return True

    def release(self, task: Task) -> None:
        self._held.pop(self._store.path(task)).close()


def _run_stage(
    store: Store,
    tasks: Sequence[Task],
    provenance: Provenance,
    until: float,
    done: Callable[[Task, list[Row]], None],
    perform: Perform,
) -> _Stage:
    """Run some tasks, all timed or none: first those that no other run is working on, then what the others left.

    Nothing is claimed while this waits, as another run may wait for what this one holds.
    """
    stage, serial = _Stage(), tasks[0].serial

    def free(tasks: Sequence[Task], taken: list[Task]) -> Iterator[Call]:
        """Claim and yield tasks one by one; append to ``taken`` those for which this would have to wait."""
        for task in tasks:
            if (not serial and store.is_awaited()) or not locks.take(task):
                taken.append(task)
            elif store.finished(task):
                locks.release(task)
                done(task, [])
            elif time.time() > until:
                locks.release(task)
                stage.late += 1
                done(task, [])
            else:
                yield task, provenance

    def write(task: Task, answer: Answer) -> tuple[Task, list[Row]]:
        if answer.environment:
            store.add_environment(answer.environment)
        store.add(task, answer.rows)
        return task, answer.rows

    def settle(writing: deque[Future[tuple[Task, list[Row]]]], most: int) -> None:
        """Wait until at most so many tasks are being written."""
        while len(writing) > most:
            task, rows = writing.popleft().result()
            locks.release(task)
            stage.tasks += 1
            stage.inside += seconds_inside(rows)
            done(task, rows)

    writes = 0 if provenance.concurrency == 1 else _WRITERS  # nothing is written while a task is timed
    with Stopwatch() as watch, _TaskLocks(store) as locks, ThreadPoolExecutor(_WRITERS) as writers:
        while tasks:
            taken: list[Task] = []
            with store.clock(serial):
                writing: deque[Future[tuple[Task, list[Row]]]] = deque()
                asked = time.monotonic()
                for (task, _), answer in perform(free(tasks, taken)):
                    if isinstance(answer, Late):
                        locks.release(task)
                        stage.late += 1
                        done(task, [])
                        continue
                    seldom = time.monotonic() - asked >= _SELDOM_SECONDS
                    rows = Answer(failed(task, provenance, answer.reason)) if isinstance(answer, Lost) else answer
                    writing.append(writers.submit(write, task, rows))
                    settle(writing, 0 if seldom else writes)
                    asked = time.monotonic()
                settle(writing, 0)
            if len(taken) == len(tasks):
                with store.claim(taken[0], wait=True):
                    pass
            tasks = taken
    stage.wall = watch.seconds
    return stage


def run_tasks(
    left: Sequence[Task],
    runner: Runner,
    store: Store,
    seconds: Mapping[Task, float],
    progress: Progress,
    until: float = math.inf,
    shards: int = 1,
) -> tuple[list[TextRow], int]:
    """Run tasks, merge the table, and return its rows and the number of tasks that the end of the time stopped.

    Interrupting it loses at most the tasks in flight. Calls at the same time on the same folder share the work.

    Parameters
    ----------
    left : sequence of Task
        At least one, and none that is done (see `kmdr.results.outdated.unfinished_tasks`); they are run in this order.
    seconds : mapping
        Expected wall time of each task, for the time left.
    until : float
        Seconds since the epoch after which no task begins. Those that run have the time until the facts and figures,
        and are then stopped.
    shards : int
        Number of parts of the plan that may run at the same time. Their workers count in ``concurrency`` of untimed
        rows; on nodes with one core each row would otherwise look as if it had run alone, and enter time figures.
    """
    env_hash = store.add_environment(environment())
    serial = [task for task in left if task.serial]
    parallel = [task for task in left if not task.serial]
    one_worker = Runner(runner.backend if runner.backend == "sequential" else "loky", 1, runner.threads)
    limit = replace(runner.limit, until=until + ALLOWANCE_SECONDS - DRAWING_SECONDS)
    timed, other = _Stage(), _Stage()

    def done(task: Task, rows: list[Row]) -> None:
        progress.advance(rows, seconds[task])

    def provenance(concurrency: int) -> Provenance:
        return Provenance(concurrency, runner.threads, code_version(), env_hash, machine())

    try:
        if runner.backend in ("loky", "sequential") and not is_compiled() and (needed := parts(left)):
            processes = runner.n_jobs if runner.backend == "loky" else 0
            with progress.compiling(COMPILE_SECONDS / min(max(processes, 1), 2)):
                compile_kernels(needed, processes, progress.tell)
        with Workers(execute, runner.threads, progress.tell, limit=limit) as workers:
            if serial:
                progress.stage("timing, one at a time")
                with _engine(one_worker, workers, progress, limit) as perform:
                    timed = _run_stage(store, serial, provenance(1), until, done, perform)
            if parallel:
                progress.stage(f"{runner.size} at a time")
                with _engine(runner, workers, progress, limit) as perform:
                    other = _run_stage(store, parallel, provenance(runner.size * shards), until, done, perform)
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
    finally:
        with undisturbed():
            # Again, because the folder may have been moved or emptied meanwhile; rows name both by their hashes.
            store.add_environment(environment())
            store.add_configs(task.config for task in left)
            rows = store.merge()
    return rows, timed.late + other.late
