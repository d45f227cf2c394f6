"""Worker processes of this machine, and what happens to a call whose process dies.

A worker does one call at a time, so it is known which call it died at, and no other call is affected. Only a pipe
connects it to the driver, so nothing stays in shared memory or on disk, however either ends. A call that takes more
than its limit is ended by killing its worker.
"""

import os
import pickle
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from multiprocessing import Pipe, current_process, resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from joblib.externals.loky.backend import get_context

from kmdr.base.errors import UserError
from kmdr.base.limits import UNLIMITED, Begun, Limit, watch
from kmdr.base.process import THREAD_VARIABLES
from kmdr.base.signals import STOPS, adopt_orphans, kill_orphans, kill_tree, process_tree, survive_signals, undisturbed
from kmdr.base.text import escaped_output

# Poll interval for the liveness of the parent and of workers, and for the end of the run.
_WATCH_SECONDS = 0.5
# Poll interval for the time and the memory of trials that have a limit.
_LIMIT_SECONDS = 0.05
# A worker with limits may be that of another engine's worker, which outlives the run, and ends when idle for longer.
_IDLE_SECONDS = 120.0
# How often a call is tried whose worker dies.
TRIES = 3

# A variable of workers, and thereby of the processes they start: the number of the process that the workers belong to.
_OWNER = "KMDR_WORKER_OF"

# Set to 1, Python does not look for modules in the current folder.
SAFE_PATH = "PYTHONSAFEPATH"

# The arguments of a call.
Call = tuple[Any, ...]


@dataclass(frozen=True)
class Lost:
    """The answer of a call that no worker survived, or that exceeded a limit, with the reason."""

    reason: str


@dataclass(frozen=True)
class Late:
    """The answer of a call that was not done because the time budget of its run ended."""


def disconnected(what: str) -> UserError:
    """Return the error to raise when a scheduler no longer answers."""
    return UserError(
        f"{what} no longer answers; finished tasks are kept, and the same command continues when there is one again"
    )


@dataclass
class _Job:
    """A call, and how many workers have died at it."""

    call: Call
    lost: int = 0


@dataclass
class _Worker:
    """A process and its current call; None while it starts and while it is idle.

    ``clock`` is when the current trial of the call began, and the memory that the process had by then.
    """

    process: Any
    begun: bool = False
    ready: bool = False
    job: _Job | None = None
    clock: tuple[float, int] | None = None


@contextmanager
def safe_imports() -> Iterator[None]:
    """Start processes in this block without the current folder on their import path.

    Interpreters started with ``-m`` or ``-c`` look there first. Workers get the driver's own path later.
    """
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SAFE_PATH]
        else:
            os.environ[SAFE_PATH] = before


@contextmanager
def _children_allowed() -> Iterator[None]:
    """Let this process start another, even if it is a worker of an engine that forbids that."""
    config = current_process()._config  # type: ignore[attr-defined]
    daemon = config.pop("daemon", None)
    try:
        yield
    finally:
        if daemon is not None:
            config["daemon"] = daemon


def _end_with(parent: int) -> None:
    """End this worker and its descendants soon after its parent, instead of idling for minutes next to a later run."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH_SECONDS)
        for child in process_tree(os.getpid())[1:]:
            kill_tree(child)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _serve(function: Callable[..., Any], pipe: Connection, parent: int) -> None:
    """Do the calls that come through a pipe, one after another, until it is closed."""
    adopt_orphans()
    _end_with(parent)
    survive_signals()
    # A driver that was killed before it had read everything resets the pipe.
    with escaped_output(), suppress(EOFError, ConnectionError):
        pipe.send(None)
        shared, limit = pipe.recv()
        if limit.limits_trials:
            watch(limit, pipe.send)
        pipe.send(None)
        while pipe.poll(_IDLE_SECONDS if limit.is_limited else None):
            arguments = pipe.recv()
            try:
                answer = function(*shared, *arguments)
            except UserError as error:
                answer = UserError(str(error))
            except BaseException as error:  # its own class may not be picklable
                answer = RuntimeError(f"{type(error).__name__}: {error}")
                answer.add_note("".join(traceback.format_exception(error)))
            pipe.send(answer)


def _end_of(process: Any) -> str:
    """Return a description of how a worker ended, after its pipe was closed."""
    process.join(_WATCH_SECONDS)
    if process.exitcode is None:  # it still runs, without its pipe
        kill_tree(process.pid)
        process.join()
        return "no longer answered"
    code = process.exitcode
    if code is None or code >= 0:
        return f"ended with exit status {code}"
    hint = ", as happens when memory runs out" if -code == signal.SIGKILL else ""
    return f"was ended by {signal.Signals(-code).name}{hint}"


class Workers:
    """Worker processes, ended with the ``with`` block however it is left.

    ``function`` is their work, defined at the top level of a module, and ``threads`` the number of BLAS and OpenMP
    threads of each. ``tell`` is called with a sentence for each worker that dies. ``shared`` has arguments that come
    before the arguments of each call; they are sent to each worker once. ``limit`` is that of each trial of a call.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        threads: int,
        tell: Callable[[str], None],
        shared: Call = (),
        limit: Limit = UNLIMITED,
    ) -> None:
        self._function, self._threads, self._tell, self._shared, self._limit = function, threads, tell, shared, limit
        self._pool: dict[Connection, _Worker] = {}

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *exc: object) -> None:
        with undisturbed():
            for worker in self._pool.values():
                kill_tree(worker.process.pid)
            for pipe, worker in self._pool.items():
                worker.process.join()
                pipe.close()
            self._pool.clear()
            kill_orphans(_OWNER)

    def _has_ended(self, pipe: Connection) -> bool:
        """Return whether a worker ended; a process that it started may keep its pipe open."""
        return self._pool[pipe].process.exitcode is not None

    def _receive(self, pipe: Connection) -> Any:
        """Return a message of a worker; raise an error if it has sent none and ended."""
        if self._has_ended(pipe) and not pipe.poll():
            raise EOFError
        return pipe.recv()

    def _remove(self, pipe: Connection) -> str:
        """Remove a worker that ended, with the processes that it left, and return how it ended."""
        worker = self._pool.pop(pipe)
        pipe.close()
        end = _end_of(worker.process)
        kill_orphans(_OWNER)
        return end

    def _stop(self, pipe: Connection) -> None:
        """Kill a worker with the processes that its call has started."""
        worker = self._pool.pop(pipe)
        kill_tree(worker.process.pid)
        worker.process.join()
        pipe.close()

    def _stop_all(self) -> list[_Job]:
        """Stop the workers that have a job, and return their jobs."""
        at_work = [(pipe, worker.job) for pipe, worker in self._pool.items() if worker.job]
        for pipe, _ in at_work:
            self._stop(pipe)
        return [job for _, job in at_work]

    def _stop_excessive(self) -> Iterator[tuple[Call, Lost]]:
        """Stop the workers whose trials exceed the limits, and yield their calls, each with the reason."""
        for pipe, worker in [*self._pool.items()]:
            if worker.job and worker.clock:
                excess = self._limit.excess(worker.process.pid, *worker.clock)
                if excess:
                    self._stop(pipe)
                    yield worker.job.call, Lost(excess)

    def _receive_note(self, pipe: Connection, worker: _Worker, message: Any) -> bool:
        """Take a message of a worker that is not the answer of its call; return whether it was one."""
        if not worker.begun:
            worker.begun = True
            with suppress(OSError):  # it died, which the next wait will show
                pipe.send((self._shared, self._limit))
            return True
        if isinstance(message, Begun):
            worker.clock = time.monotonic(), message.memory
            return True
        return False

    def _start(self) -> None:
        ours, theirs = Pipe()
        environment = dict.fromkeys(THREAD_VARIABLES, str(self._threads)) | {_OWNER: str(os.getpid())}
        # loky's processes are new interpreters that do not run the driver's main module again
        process = get_context("loky").Process(
            target=_serve, args=(self._function, theirs, os.getpid()), env=environment, daemon=True
        )
        if self._limit.limits_trials:
            adopt_orphans()
        with undisturbed(), safe_imports(), _children_allowed():
            resource_tracker.ensure_running()  # would change the mask if it were started with the process
            # A worker keeps this mask: signals reach all processes of a command, but only the driver handles them.
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
            try:
                process.start()
                self._pool[ours] = _Worker(process)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                theirs.close()

    def run(self, calls: Iterable[Call], size: int, name: Callable[[Call], str]) -> Iterator[tuple[Call, Any]]:
        """Do calls and yield each with its answer, as they finish.

        A worker that dies is replaced and its call is tried again, two times; after that the answer is `Lost`. So it is
        at once if a trial of the call exceeds its limit. When the time of all is over, the answer is `Late`.

        Parameters
        ----------
        calls : iterable of tuple
            Taken one by one, each when a worker is free for it.
        size : int
            Largest number of calls at once; the calls of earlier runs have ended. While the caller handles an answer,
            other workers continue. With size 1 nothing runs then, so that nothing disturbs what is timed.
        name : callable
            Returns the name of a call for messages.

        Raises
        ------
        UserError
            When several workers in a row die before they are ready for a call.
        Exception
            What the function raised, with the worker's traceback as a note.
        """
        source, queue = iter(calls), deque[_Job]()
        never_ready = 0
        while self._dispatch(source, queue, size):
            if self._limit.is_over():
                yield from ((job.call, Late()) for job in [*self._stop_all(), *queue])
                queue.clear()
                continue
            for pipe in self._wait():
                worker = self._pool[pipe]
                job = worker.job
                try:
                    message = self._receive(pipe)
                except (EOFError, OSError, pickle.UnpicklingError):
                    end = self._remove(pipe)
                    if job is None:
                        never_ready += not worker.ready
                        _refuse_many(never_ready, end)
                    elif lost := self._retry(job, end, queue, name):
                        yield job.call, lost
                    continue
                if self._receive_note(pipe, worker, message):
                    continue
                worker.ready, worker.job, worker.clock, never_ready = True, None, None, 0
                if isinstance(message, Exception):
                    raise message
                if job is not None:
                    if size > 1:
                        self._dispatch(source, queue, size)
                    yield job.call, message
            yield from self._stop_excessive()

    def _dispatch(self, source: Iterator[Call], queue: deque[_Job], size: int) -> int:
        """Give calls to the workers that have none, and return how many of the calls taken from `source` are not done.

        Calls in the queue come first. Workers are started for calls that have none.
        """
        at_work = sum(worker.job is not None for worker in self._pool.values())
        queue.extend(_Job(call) for call in islice(source, size - at_work - len(queue)))
        not_done = at_work + len(queue)
        while len(self._pool) < not_done:
            self._start()
        for pipe, worker in self._pool.items():
            if queue and worker.ready and worker.job is None:
                worker.job, worker.clock = queue.popleft(), None
                with suppress(OSError):  # it died, which the next wait will show
                    pipe.send(worker.job.call)
        return not_done

    def _wait(self) -> list[Connection]:
        """Wait until a worker has sent a message or time is up; return the workers that have, or that ended."""
        interval = _LIMIT_SECONDS if self._limit.limits_trials else _WATCH_SECONDS
        readable = {pipe for pipe in wait([*self._pool], interval) if isinstance(pipe, Connection)}
        return [pipe for pipe in self._pool if pipe in readable or self._has_ended(pipe)]

    def _retry(self, job: _Job, end: str, queue: deque[_Job], name: Callable[[Call], str]) -> Lost | None:
        """Put a call whose worker died first in the queue; after the last try, return its answer instead."""
        job.lost += 1
        if job.lost == TRIES:
            return Lost(f"its worker {end}, {TRIES} times")
        self._tell(f"kmdr: warning: the worker of {name(job.call)} {end}; the task is tried again")
        queue.appendleft(job)
        return None


def _refuse_many(never_ready: int, end: str) -> None:
    if never_ready == TRIES:
        raise UserError(
            f"no worker can be started: {never_ready} of them died, and the last {end}; free some memory, or use "
            "runner=sequential, which needs none"
        )
