"""Signals that stop a command: the first ends it in order, the second kills it, and a critical section is completed.

Python runs signal handlers in the main thread, which a compiled kernel may keep busy for minutes. A second thread
therefore reads the number of each signal from a pipe, and kills the process at the second one.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from multiprocessing.process import active_children
from pathlib import Path
from types import FrameType

# Workers never receive these signals; the driver decides when they stop.
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# An option of prctl.
_SET_CHILD_SUBREAPER = 36
INTERRUPTED = "kmdr: interrupted; finished tasks are kept, and the same command does the rest"


class Interrupted(KeyboardInterrupt):
    """Raised in the main thread by the first signal of `STOPS`; its argument is the number of the signal."""


class _State:
    first = 0  # the first signal that this command received
    in_critical_section = False
    nothing_to_lose = False
    leaving = threading.Lock()


def process_tree(pid: int) -> list[int]:
    """Return a process and its descendants, parents first; elsewhere than on Linux the process alone."""
    tree = [pid]
    for parent in tree:
        with suppress(OSError):
            for thread in Path(f"/proc/{parent}/task").iterdir():
                tree += map(int, (thread / "children").read_text("ascii").split())
    return tree


def kill_tree(pid: int | None) -> None:
    """Kill a process that has not been joined, and its descendants."""
    for process in process_tree(pid) if pid is not None else ():
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of each descendant whose parent ends, so that `process_tree` has it; only on Linux."""
    if sys.platform == "linux":
        import ctypes  # only workers and those who limit them need it

        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_orphans(variable: str) -> None:
    """Kill the children that this process has adopted from workers, and their descendants.

    Processes inherit from a worker an environment variable, whose value is the number of the worker's parent.
    """
    workers = {child.pid for child in active_children()}
    mark = f"{variable}={os.getpid()}".encode()
    for pid in process_tree(os.getpid())[1:]:
        with suppress(OSError):
            if pid not in workers and mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                kill_tree(pid)
                os.waitpid(pid, 0)


def kill_children() -> None:
    """Kill the processes that this one started by `multiprocessing`, which waits for them when the interpreter ends."""
    for child in active_children():
        kill_tree(child.pid)


def leave(number: int, frame: FrameType | None = None) -> None:
    """Kill the workers of this process and end it with status 128 + ``number``, whatever its threads do."""
    del frame
    kill_children()
    if _State.leaving.acquire(timeout=1.0):  # not forever: nobody may be reading stderr, which can be a full pipe
        with suppress(OSError):
            os.write(2, f"{INTERRUPTED}\n".encode())
    os._exit(128 + number)


def leave_when_signalled() -> None:
    """Let every signal of `STOPS` end this process at once, except those that it ignores, for example under nohup."""
    _set_handler(leave)


def _set_handler(handler: Callable[[int, FrameType | None], None], numbers: Sequence[int] = STOPS) -> None:
    """Let a function handle the signals that this process does not ignore, but not in processes that it forks."""
    _reset_in_forks()
    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _survive(number: int, frame: FrameType | None) -> None:
    """Do nothing: the driver decides when its workers stop."""


def survive_signals() -> None:
    """Let no signal of `STOPS` end this worker, but let them end the processes that a method starts.

    These inherit blocked signals, and not handlers. SIGINT stays blocked, which `is_interrupt` recognises a worker by.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # inherited, unless a server has started this process
    if threading.current_thread() is threading.main_thread():
        _set_handler(_survive, STOPS[1:])
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS[1:])


@cache
def _reset_in_forks() -> None:
    """Let signals end the processes that third-party code forks from this one, instead of being handled by it.

    They would write to the same pipe, so that terminating two of them would end the command.
    """
    masks = threading.local()

    def block() -> None:
        masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)

    def restore() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.before)

    def reset() -> None:
        for number in STOPS:
            if signal.getsignal(number) in (_handle, leave, _survive):
                signal.signal(number, signal.SIG_DFL)
                signal.set_wakeup_fd(-1)
        restore()

    os.register_at_fork(before=block, after_in_parent=restore, after_in_child=reset)


def _handle(number: int, frame: FrameType | None) -> None:
    _State.first = _State.first or number
    if _State.nothing_to_lose:
        leave(number, frame)
    if not _State.in_critical_section:
        raise Interrupted(number)


def is_interrupt(error: BaseException) -> bool:
    """Return whether an exception may come from a user who interrupts this process, and not from a method."""
    if not isinstance(error, KeyboardInterrupt) or threading.current_thread() is not threading.main_thread():
        return False
    if signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()):  # as in a worker
        return False
    return isinstance(error, Interrupted) or signal.getsignal(signal.SIGINT) is not _handle


@contextmanager
def undisturbed() -> Iterator[None]:
    """Postpone a first signal to the end of a critical section."""
    first, outer = _State.first, _State.in_critical_section
    _State.in_critical_section = True
    try:
        yield
    finally:
        _State.in_critical_section = outer
        if _State.first and _State.first != first and not outer:
            raise Interrupted(_State.first)


@contextmanager
def nothing_to_lose() -> Iterator[None]:
    """Let a first signal end the process at once: code that imports modules may swallow exceptions."""
    outer, _State.nothing_to_lose = _State.nothing_to_lose, True
    try:
        yield
    finally:
        _State.nothing_to_lose = outer


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise `Interrupted` at the first signal, end the process once the block handled it, and kill it at the second.

    The exit status is 128 plus the signal, whatever exception leaves the block, because libraries may replace ours.
    Outside the main thread, where Python allows no handlers, this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def watch() -> None:
        received = 0
        while number := os.read(reader, 1):
            received += number[0] in STOPS
            if received > 1:
                leave(number[0])
        os.close(reader)

    _State.first = 0
    handlers = {number: signal.getsignal(number) for number in STOPS}
    wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=watch, daemon=True).start()
    try:
        _set_handler(_handle)
        yield
    except BaseException:
        if _State.first:  # the interpreter's own exit would wait for threads that still download
            with suppress(OSError, ValueError):
                sys.stdout.flush()
            leave(_State.first)
        raise
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler or signal.SIG_DFL)
        signal.set_wakeup_fd(wakeup)
        os.close(writer)
