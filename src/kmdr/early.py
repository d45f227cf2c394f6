"""The first moments of a command, while Python still imports what it needs to end in good order."""

import os
import signal
import sys
from types import FrameType

INTERRUPTED = "kmdr: interrupted; finished tasks are kept, and the same command does the rest"


def is_command() -> bool:
    """Whether this process is ``kmdr`` or ``python -m kmdr``, and neither one of its workers nor somebody's program."""
    program = sys.argv[0] if getattr(sys, "argv", None) else ""
    named = os.path.basename(program) == "kmdr" or (program == "-m" and "kmdr" in sys.orig_argv)  # noqa: PTH119
    return named and "multiprocessing" not in sys.modules


def _leave(number: int, frame: FrameType | None) -> None:
    del frame
    os.write(2, f"{INTERRUPTED}\n".encode())
    os._exit(128 + number)


def answer_interrupt() -> None:
    """Let Ctrl-C end this process in one line; one that ignores it, as under ``nohup``, still does."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
