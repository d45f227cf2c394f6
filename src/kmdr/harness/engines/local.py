"""Processes of this machine that do calls, and what becomes of a call whose process dies.

A worker does one call at a time, so that when it dies it is plain which call it was at, and no other call is touched.
All that joins it to the driver is a pipe: nothing of it is left in shared memory or on disk, however either ends.
"""

import os
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from multiprocessing import Pipe, resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from joblib.externals.loky.backend import get_context

from kmdr.base.errors import UserError
from kmdr.base.process import THREAD_VARIABLES
from kmdr.base.signals import STOPS, kill, undisturbed
from kmdr.base.text import escaped_output

_WATCH_SECONDS = 0.5
# How often a call is begun whose worker dies.
TRIES = 3

# Set to 1, Python does not look for modules in the current folder.
SAFE_PATH = "PYTHONSAFEPATH"

# The arguments of a call.
Call = tuple[Any, ...]


@dataclass(frozen=True)
class Lost:
    """The answer of a call that no worker survives: how the last of them ended."""

    reason: str


def gone(what: str) -> UserError:
    """Return what to raise when that which hands out calls elsewhere no longer answers."""
    return UserError(f"{what} is gone; finished tasks are kept, and the same command goes on once there is one again")


@dataclass
class _Job:
    """A call, and how many workers have died at it."""

    call: Call
    lost: int = 0


@dataclass
class _Worker:
    """``job`` is what it is at, None while it starts and while there is nothing to do."""

    process: Any
    begun: bool = False
    ready: bool = False
    job: _Job | None = None


@contextmanager
def safe_imports() -> Iterator[None]:
    """Let processes that are started in a block import nothing from the current folder.

    Interpreters that are started with ``-m`` or ``-c`` look there first. Workers get the driver's own path later.
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


def _end_with(parent: int) -> None:
    """End this worker soon after its parent is gone: left alone it would idle for minutes beside the next run."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _serve(function: Callable[..., Any], pipe: Connection, parent: int) -> None:
    """Do the calls that come through a pipe, one after another, until it is closed: all there is of a worker."""
    _end_with(parent)
    # The pipe of a driver that was killed before it read all is reset.
    with escaped_output(), suppress(EOFError, ConnectionError):
        pipe.send(None)
        shared = pipe.recv()
        pipe.send(None)
        while True:
            arguments = pipe.recv()
            try:
                answer = function(*shared, *arguments)
            except UserError as error:
                answer = UserError(str(error))
            except Exception as error:  # which, of a class of its own, may not survive the way
                answer = RuntimeError(f"{type(error).__name__}: {error}")
                answer.add_note("".join(traceback.format_exception(error)))
            pipe.send(answer)


def _end_of(process: Any) -> str:
    """Return how a worker ended whose pipe is closed."""
    process.join(_WATCH_SECONDS)
    if process.exitcode is None:  # it lives on without its pipe
        kill(process)
        process.join()
    code = process.exitcode
    if code is None or code >= 0:
        return f"ended with exit status {code}"
    hint = ", as happens when memory runs out" if -code == signal.SIGKILL else ""
    return f"was ended by {signal.Signals(-code).name}{hint}"


class Workers:
    """Worker processes, ended with the ``with`` block however it is left.

    Parameters
    ----------
    function : callable
        What they do; of a module's top level.
    threads : int
        BLAS and OpenMP threads of each.
    tell : callable
        Given a sentence for each worker that dies.
    shared : tuple
        Arguments before those of each call, which each worker is sent once.
    """

    def __init__(
        self, function: Callable[..., Any], threads: int, tell: Callable[[str], None], shared: Call = ()
    ) -> None:
        self._function, self._threads, self._tell, self._shared = function, threads, tell, shared
        self._pool: dict[Connection, _Worker] = {}

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *exc: object) -> None:
        with undisturbed():
            for worker in self._pool.values():
                kill(worker.process)
            for pipe, worker in self._pool.items():
                worker.process.join()
                pipe.close()

    def _start(self) -> None:
        ours, theirs = Pipe()
        environment = dict.fromkeys(THREAD_VARIABLES, str(self._threads))
        # loky's processes are new interpreters that do not run the driver's main module again
        process = get_context("loky").Process(
            target=_serve, args=(self._function, theirs, os.getpid()), env=environment, daemon=True
        )
        with undisturbed(), safe_imports():
            resource_tracker.ensure_running()  # started with the process, it would change the mask
            # A worker keeps this mask: what stops a command reaches all its processes, but the driver decides.
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
            try:
                process.start()
                self._pool[ours] = _Worker(process)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                theirs.close()

    def run(self, calls: Iterable[Call], size: int, name: Callable[[Call], str]) -> Iterator[tuple[Call, Any]]:
        """Do calls and yield each with its answer, as they finish.

        A worker that dies is replaced and its call tried again, two times; after that the answer is `Lost`.

        Parameters
        ----------
        calls : iterable of tuple
            Taken one by one, each when a worker is free for it.
        size : int
            Calls at once, at the most; those of before are at an end. While an answer is dealt with, other workers are
            at the next calls; where it is 1 nothing is done then, so that nothing disturbs what is timed.
        name : callable
            What a call is in words, to tell of a worker that died.

        Raises
        ------
        UserError
            When workers die before they are ready for a call.
        Exception
            What the function raised, with the worker's traceback as a note.
        """
        source = iter(calls)
        queue: deque[_Job] = deque()
        never_ready = 0

        def give() -> int:
            """Give calls to the workers that have none, and return how many calls are not done."""
            at_work = sum(worker.job is not None for worker in self._pool.values())
            queue.extend(_Job(call) for call in islice(source, size - at_work - len(queue)))
            not_done = at_work + len(queue)
            while len(self._pool) < not_done:
                self._start()
            for pipe, worker in self._pool.items():
                if queue and worker.ready and worker.job is None:
                    worker.job = queue.popleft()
                    with suppress(OSError):  # it is dead, as the next wait will tell
                        pipe.send(worker.job.call)
            return not_done

        while give():
            for pipe in [pipe for pipe in wait([*self._pool]) if isinstance(pipe, Connection)]:
                worker = self._pool[pipe]
                job = worker.job
                try:
                    answer = pipe.recv()
                except (EOFError, OSError):
                    del self._pool[pipe]
                    pipe.close()
                    end = _end_of(worker.process)
                    if job is None:
                        never_ready += not worker.ready
                        _refuse_many(never_ready, end)
                        continue
                    job.lost += 1
                    if job.lost == TRIES:
                        yield job.call, Lost(f"its worker {end}, {TRIES} times")
                        continue
                    self._tell(f"kmdr: the worker of {name(job.call)} {end}; the task is tried again")
                    queue.appendleft(job)
                    continue
                if not worker.begun:
                    worker.begun = True
                    with suppress(OSError):  # as above
                        pipe.send(self._shared)
                    continue
                worker.ready, worker.job = True, None
                if isinstance(answer, Exception):
                    raise answer
                if job is not None:
                    if size > 1:
                        give()
                    yield job.call, answer


def _refuse_many(never_ready: int, end: str) -> None:
    if never_ready == TRIES:
        raise UserError(
            f"no worker can be started: {never_ready} of them {end}, the last one; make room, or say "
            "runner=sequential, which needs none"
        )
