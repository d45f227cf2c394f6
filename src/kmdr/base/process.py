"""The process of a command: its limits, its streams, its exit status, and one sentence for any error.

Nothing heavy is imported here, so a command starts quickly.
"""

import errno
import os
import re
import resource
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

from kmdr.base.errors import UserError, imported_at, raised_by, shown
from kmdr.base.paths import check_library_caches, place_library_caches
from kmdr.base.signals import INTERRUPTED, interruptible
from kmdr.base.text import Output, escaped_output, silence, single_line, tell

# Variables that set the number of threads of a library. Workers get their own values before a library reads them.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
)  # fmt: skip
# Files that a command with a few workers opens at the same time.
_LEAST_FILES = 64
# Error numbers of a write to a full or broken device.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_MISTAKE = 2
_FAILURE = 1


class CrashError(Exception):
    """Wraps an unforeseen error while a results folder is open; its argument is the folder."""


def version() -> str:
    """Return the version of kmdr."""
    from importlib import metadata  # takes longer to import than this module

    return metadata.version("kmdr")


def release_memory() -> None:
    """Return freed memory to the operating system, which glibc otherwise keeps for later; elsewhere do nothing."""
    import ctypes  # only reports need it

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def check_process() -> None:
    """Raise `UserError` for limits and variables of this process under which libraries fail later."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= files < _LEAST_FILES:
        raise UserError(
            f"this process may open {files} files, fewer than {_LEAST_FILES}; raise the limit, e.g. ulimit -n 1024"
        )
    for name in THREAD_VARIABLES:
        text = os.environ.get(name, "").strip()
        if text and not re.fullmatch(r"[1-9][0-9]{0,3}(,[1-9][0-9]{0,3})*", text):
            raise UserError(f"{name} = {shown(text)} is not a number of threads; give one of at least 1, or unset it")
    switch = os.environ.get("NUMBA_DISABLE_JIT", "").strip()
    if switch not in ("", "0"):
        raise UserError(f"NUMBA_DISABLE_JIT = {shown(switch)} turns off the compiler that kmdr needs; unset it")
    place_library_caches()
    check_library_caches()


def _open_streams() -> None:
    """Open standard streams on /dev/null if the command was started without them.

    Otherwise the next files to be opened would get their numbers, and warnings of libraries would go into these files.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False))  # noqa: SIM115
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure:
        reconfigure(errors="backslashreplace")  # file names may not be valid UTF-8


def _write_log(error: BaseException, out: Path | None) -> str:
    """Write the traceback of an error to the results folder, else to a temporary file; return its name, if any."""
    text = f"kmdr {version()}, Python {sys.version}\n{sys.argv!r}\n\n{''.join(traceback.format_exception(error))}"
    content = text.encode(errors="backslashreplace")
    for folder in (out, None) if out else (None,):  # None is the folder for temporary files
        name = ""
        try:
            number, name = tempfile.mkstemp(prefix="kmdr-", suffix=".log", dir=folder)  # readable by its owner only
            os.close(number)
            Path(name).write_bytes(content)
            # A rename replaces a link that somebody else put there, instead of writing through it.
            return str(Path(name).replace(folder / "error.log")) if folder else name
        except OSError:
            if name:
                Path(name).unlink(missing_ok=True)
    return ""


def _describe(error: BaseException) -> str:
    """Return a sentence about an unforeseen error that names the file with its traceback."""
    out = None
    if isinstance(error, CrashError):
        (out,) = error.args
        error = error.__cause__ or error
    kept = "; finished tasks are kept" if out else ""
    if _has_number(error, errno.EMFILE, errno.ENFILE):
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        remedy = f"raise the limit, e.g. to 4096 by ulimit -n 4096{kept}"
        return f"kmdr: error: this process may open {files} files, too few; {remedy}"
    what = single_line(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
    log = _write_log(error, out)
    return f"kmdr: error: stopped by {what}{kept}; " + (
        f"the traceback is in {log}" if log else "no log could be written"
    )


def _has_number(error: BaseException | None, *numbers: int) -> bool:
    """Return whether an error, or one that led to it, is an `OSError` with one of these numbers."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in numbers:
            return True
        error = error.__cause__ or error.__context__
    return False


def _output_error(error: BaseException) -> str:
    """Return the reason why standard output cannot be written; empty if the error has another cause."""
    if isinstance(error, OSError) and error.errno in _FULL and error.filename is None:
        try:  # the error does not say which file it is about
            os.write(sys.stdout.fileno(), b"\n")
        except (OSError, ValueError):
            silence(sys.stdout)  # otherwise the interpreter tries again at exit and reports it
            Output.error = error.strerror or str(error)
    return Output.error


def exit_status(command: Callable[[], int | None]) -> int:
    """Run a command and return its exit status: its own (None means 0), 2 for `UserError`, or 1 for other errors.

    The traceback of an unforeseen error goes to a file, which the error message names. A first INT, TERM or HUP ends
    the process with status 130, 143 or 129 once the command has merged its rows, and a second one at once.
    """
    _open_streams()
    with escaped_output():
        return _exit_status(command)


def _fix_plugin_path() -> None:
    """Make the folders of KMDR_PATH absolute, each once: they stay the same if this command or a job changes folder."""
    folders: dict[str, str] = {}
    for text in filter(None, os.environ.get("KMDR_PATH", "").split(os.pathsep)):
        try:
            path = Path(text).expanduser().absolute()
            folders.setdefault(str(path.resolve()), str(path))
        except (OSError, RuntimeError) as error:
            raise UserError(f"KMDR_PATH names {text}, which is not a folder ({error}); give the whole path") from error
    if folders:
        os.environ["KMDR_PATH"] = os.pathsep.join(folders.values())


def report_mistakes(errors: Iterable[UserError]) -> int:
    """Print each error once, on one line, and return the exit status: 0 if there is none."""
    lines = {}
    for error in errors:
        place = imported_at(error)
        lines[str(error)] = f" (raised at {place})" if place and place not in str(error) else ""
    for text, suffix in lines.items():
        tell(single_line(f"kmdr: error: {text}{suffix}"))
    return _MISTAKE if lines else 0


def _exit_status(command: Callable[[], int | None]) -> int:
    Output.error = ""
    try:
        _fix_plugin_path()
        with interruptible():
            code = command() or 0
        sys.stdout.flush()
        if Output.error:
            raise OSError(Output.error)
    except UserError as error:
        return report_mistakes([error])
    except KeyboardInterrupt:  # raised by something other than a signal
        tell(INTERRUPTED)
        return 130
    except BrokenPipeError:  # e.g. `kmdr list | head`
        silence(sys.stdout)
        return 0
    except Exception as error:
        reason = _output_error(error.__cause__ if isinstance(error, CrashError) and error.__cause__ else error)
        tell(
            f"kmdr: error: standard output cannot be written ({reason}); printed lines are lost, files are kept"
            if reason
            else _describe(error)
        )
        return _FAILURE
    except BaseException as error:  # of a plugin, or of the parser of the command line after its help
        if not (place := raised_by(error)):
            raise
        what = f"{type(error).__name__}: {error}"
        tell(single_line(f"kmdr: error: {place} ended the command ({what}); remove what ends it from that file"))
        return _MISTAKE
    return code
