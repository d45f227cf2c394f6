"""How a command begins and ends: its streams, its signals, and one sentence for whatever goes wrong.

Nothing heavy is imported here, so that a command can be interrupted in one line while its modules load.
"""

import contextlib
import errno
import gc
import multiprocessing
import os
import re
import resource
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType

from kmdr.base.early import INTERRUPTED
from kmdr.base.errors import UserError, shown
from kmdr.base.paths import check_library_caches, place_library_caches
from kmdr.base.text import Output, escaped_output, one_line, silence, tell

# What asks a command to stop. A worker never gets any of them: its driver decides.
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Variables that say how many threads a library may use. Workers have their own values, set before a library reads them.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
)  # fmt: skip
# Files that a command opens at the same time, with room for a few workers.
_LEAST_FILES = 64
# Errors of a file that takes no more.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_MISTAKE = 2
_FAILURE = 1
WELCOME = f"""\
kmdr {version("kmdr")}: dimensionality reduction before k-means, measured as five papers measured it.

  kmdr demo                                begin here: real data, a table and a picture, in seconds
  kmdr list                                datasets, reducers, engines, metrics, papers, studies
  kmdr dataset=digits reducer=leverage     run one method; kmdr --help shows every setting
  kmdr -m dataset=usps,orl reducer=none,leverage,random_sign 'r_grid=[5,10,20]'   several beside each other
  kmdr table results/runs                  what has been run, as a table; kmdr figures draws it
  kmdr reproduce bzd10 BUDGET=10m          rerun a paper's experiments and write the report
  kmdr data where                          where data are kept, and how to get what is missing
  kmdr new reducer NAME                    begin a method of your own (also dataset, metric, engine, paper)
  kmdr help                                every command
"""


def say_version(arguments: Sequence[str] = ()) -> None:
    """``kmdr version``: its version, as ``kmdr --version`` says it."""
    del arguments
    print(f"kmdr {version('kmdr')}")


def check_process() -> None:
    """Refuse limits and variables of this process with which libraries fail later, each in words of its own.

    Raises
    ------
    UserError
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= files < _LEAST_FILES:
        raise UserError(f"this process may open {files} files, fewer than {_LEAST_FILES}; raise that: ulimit -n 1024")
    for name in THREAD_VARIABLES:
        text = os.environ.get(name, "").strip()
        if text and not re.fullmatch(r"[1-9][0-9]{0,3}(,[1-9][0-9]{0,3})*", text):
            raise UserError(f"{name} = {shown(text)} is not a number of threads; give one of at least 1, or unset it")
    switch = os.environ.get("NUMBA_DISABLE_JIT", "").strip()
    if switch not in ("", "0"):
        raise UserError(f"NUMBA_DISABLE_JIT = {shown(switch)} turns off the compiler that kmdr needs; unset it")
    place_library_caches()
    check_library_caches()


class Interrupted(KeyboardInterrupt):
    """A first signal of `STOPS`; its number is the argument."""


class CrashError(Exception):
    """Raised from an error that nobody foresaw, where a folder of results is open: the folder is the argument."""


class _Signals:
    """What is known of the signals of this process: it can have only one such state."""

    at_once = False
    seen = 0
    told = False
    held = False
    first: int | None = None
    saying = threading.Lock()


def _handle(number: int, frame: FrameType | None) -> None:
    del frame
    _Signals.first = _Signals.first or number
    if _Signals.at_once:
        _leave(number)
    if not _Signals.held:
        raise Interrupted(number)


def _say_interrupted() -> None:
    saying = _Signals.saying.acquire(timeout=1.0)  # not for ever: stderr may be a pipe that nobody empties
    if saying:
        if not _Signals.told:
            tell(INTERRUPTED)
            _Signals.told = True
        _Signals.saying.release()


def kill(child: BaseProcess) -> None:
    """End a child process that has not been joined."""
    if child.pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)


def _leave(number: int, frame: FrameType | None = None) -> None:
    """End this process and its workers, whatever its threads are doing."""
    del frame
    for child in multiprocessing.active_children():
        kill(child)
    _say_interrupted()
    os._exit(128 + number)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Put a first signal off to the end of a block that must not be left half done."""
    first, before = _Signals.first, _Signals.held
    _Signals.held = True
    try:
        yield
    finally:
        _Signals.held = before
        if _Signals.first and _Signals.first != first and not before:
            raise Interrupted(_Signals.first)


@contextlib.contextmanager
def at_once() -> Iterator[None]:
    """Let a first signal end the process in a block that has nothing to lose: imports may swallow exceptions."""
    before = _Signals.at_once
    _Signals.at_once = True
    try:
        yield
    finally:
        _Signals.at_once = before


@contextlib.contextmanager
def kept_for_good() -> Iterator[None]:
    """Take no object of a block for garbage, then or later: looking through what imports make is a third of them."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextlib.contextmanager
def _interruptible(last: bool) -> Iterator[None]:
    """Raise `Interrupted` in the main thread at the first signal, and leave at once at the second.

    The second is seen by a thread of its own, because a compiled kernel keeps the main thread from seeing it. A signal
    that was ignored before, as by ``nohup``, still is. After the last block of a process every signal leaves at once:
    the interpreter's own end would answer it with a traceback.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def watch() -> None:
        while number := os.read(reader, 1):
            if number[0] in STOPS:
                _Signals.seen += 1
                if _Signals.seen > 1:
                    _leave(number[0])
        os.close(reader)

    _Signals.seen, _Signals.told, _Signals.first = 0, False, None
    handlers = {number: signal.getsignal(number) for number in STOPS}
    wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=watch, daemon=True).start()
    try:
        for number, handler in handlers.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, _handle)
        yield
    finally:
        for number, handler in handlers.items():
            leave = last and handler is not signal.SIG_IGN
            signal.signal(number, _leave if leave else handler or signal.SIG_DFL)
        signal.set_wakeup_fd(wakeup)
        os.close(writer)


def _open_streams() -> None:
    """Give a command that was started without standard streams ones that lead nowhere.

    Left closed, their numbers would go to the next files that are opened, and a library's warnings into these.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False))  # noqa: SIM115
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure:
        reconfigure(errors="backslashreplace")  # a file's name may be no text


def _log(error: BaseException, out: Path | None) -> str:
    """Write what led to an error to a file, in the folder of results where there is one, and return its name."""
    text = f"kmdr {version('kmdr')}, Python {sys.version}\n{sys.argv!r}\n\n{''.join(traceback.format_exception(error))}"
    content = text.encode(errors="backslashreplace")
    for folder in (out, None) if out else (None,):  # the latter is the one for temporary files
        name = ""
        try:
            number, name = tempfile.mkstemp(prefix="kmdr-", suffix=".log", dir=folder)  # for its owner alone
            os.close(number)
            Path(name).write_bytes(content)
            # A rename replaces a link that somebody put there, instead of writing through it.
            return str(Path(name).replace(folder / "error.log")) if folder else name
        except OSError:
            if name:
                Path(name).unlink(missing_ok=True)
    return ""


def _sentence(error: BaseException) -> str:
    """Say what an error that nobody foresaw is, and where its traceback lies."""
    out = None
    if isinstance(error, CrashError):
        (out,) = error.args
        error = error.__cause__ or error
    kept = "; finished tasks are kept" if out else ""
    if _is_of(error, errno.EMFILE, errno.ENFILE):
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return f"kmdr: this process may open {files} files, too few; raise that, e.g. to 4096 by ulimit -n 4096{kept}"
    what = one_line(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
    log = _log(error, out)
    return f"kmdr: stopped by {what}{kept}; " + (f"the traceback is in {log}" if log else "no log could be written")


def _is_of(error: BaseException | None, *numbers: int) -> bool:
    """Return whether an error, or one that led to it, is one of the system's."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in numbers:
            return True
        error = error.__cause__ or error.__context__
    return False


def _output_error(error: BaseException) -> str:
    """Return why what was printed is lost; empty where an error has another cause."""
    if isinstance(error, OSError) and error.errno in _FULL and error.filename is None:
        try:  # the error does not say which file it is of
            os.write(sys.stdout.fileno(), b"\n")
        except (OSError, ValueError):
            silence(sys.stdout)  # otherwise the interpreter tries again at exit and reports it
            Output.error = error.strerror or str(error)
    return Output.error


def exit_status(command: Callable[[], int | None], *, last: bool = False) -> int:
    """Run a command to its end, whatever that is, and return the exit status.

    Parameters
    ----------
    command : callable
        Returns an exit status; None means 0.
    last : bool
        Whether the process ends with it.

    Returns
    -------
    int
        What the command returned; 2 for a mistake in what was asked; 1 for an error that nobody foresaw, whose
        traceback goes to a file that the one line names. A first INT, TERM or HUP ends the process with status 130,
        143 or 129 once the command has put its rows together, a second one at once.
    """
    _open_streams()
    with escaped_output():
        return _exit_status(command, last)


def _exit_status(command: Callable[[], int | None], last: bool) -> int:
    Output.error = ""
    try:
        with _interruptible(last):
            try:
                code = command() or 0
            except BaseException:
                # Whatever became of the exception that the signal raised: libraries put others in its place.
                if _Signals.first:
                    # Not by way of the interpreter's own end, which waits for threads that still download.
                    with contextlib.suppress(OSError):
                        sys.stdout.flush()
                    _leave(_Signals.first)
                raise
        sys.stdout.flush()
        if Output.error:
            raise OSError(Output.error)
    except UserError as error:
        tell(one_line(f"kmdr: {error}"))
        return _MISTAKE
    except KeyboardInterrupt:
        tell(INTERRUPTED)
        return 130
    except BrokenPipeError:  # e.g. `kmdr list | head`
        silence(sys.stdout)
        return 0
    except Exception as error:
        lost = _output_error(error.__cause__ if isinstance(error, CrashError) and error.__cause__ else error)
        tell(
            f"kmdr: standard output cannot be written ({lost}); what was to be printed is lost, files are kept"
            if lost
            else _sentence(error)
        )
        return _FAILURE
    return code
