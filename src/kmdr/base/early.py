"""The first moments of a command, while Python still imports what it needs to end in good order."""

import os
import sys

_PACKAGE = os.path.realpath(os.path.join(os.path.dirname(__file__), ".."))  # noqa: PTH118, PTH120
_MAIN = os.path.join(_PACKAGE, "__main__.py")  # noqa: PTH118


def is_command() -> bool:
    """Whether this process is ``kmdr`` or ``python -m kmdr``, and neither one of its workers nor somebody's program."""
    program = sys.argv[0] if getattr(sys, "argv", None) else ""
    named = os.path.basename(program) == "kmdr" or os.path.realpath(program) == _MAIN  # noqa: PTH119
    return named and "multiprocessing" not in sys.modules


def import_safely() -> None:
    """Import nothing from the current folder, here or in the processes of this command; PYTHONPATH says what else.

    A results folder may contain any file, and a user's own file, such as ``random.py``, may have the name of a module.
    """
    os.environ["PYTHONSAFEPATH"] = "1"
    if folders := os.environ.get("PYTHONPATH"):  # whatever folder a worker is started in
        os.environ["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, folders.split(os.pathsep)))
    if os.path.realpath(sys.argv[0]) == _MAIN and not sys.flags.safe_path:  # as `python -m` has it
        folder = sys.path.pop(0)
        if os.path.dirname(_PACKAGE) == os.path.realpath(folder):  # noqa: PTH120
            sys.path.append(folder)  # kmdr itself may be there and nowhere else


if is_command():
    import_safely()

import signal  # noqa: E402
from types import FrameType  # noqa: E402

INTERRUPTED = "kmdr: interrupted; finished tasks are kept, and the same command does the rest"


def _leave(number: int, frame: FrameType | None) -> None:
    del frame
    os.write(2, f"{INTERRUPTED}\n".encode())
    os._exit(128 + number)


def answer_interrupt() -> None:
    """Let Ctrl-C end this process in one line; one that ignores it, as under ``nohup``, still does."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
