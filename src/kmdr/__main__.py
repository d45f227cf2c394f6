"""``kmdr`` and ``python -m kmdr``: whoever calls `main` is the command.

At its top this module imports only what Python has already loaded, because `main` first removes the current folder from
the places that modules are imported from.
"""

import gc
import os
import sys


def _import_nothing_from_the_current_folder() -> None:
    """Let neither this process nor its child processes import from the current folder, unless PYTHONPATH names it.

    A results folder may contain any file, and a user's own file, such as ``random.py``, may have the name of a module.
    """
    os.environ["PYTHONSAFEPATH"] = "1"
    if folders := os.environ.get("PYTHONPATH"):  # relative to this folder, wherever a worker is started
        os.environ["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, folders.split(os.pathsep)))
    if __name__ == "__main__" and not sys.flags.safe_path:  # python -m put the current folder first
        folder = sys.path.pop(0)
        if os.path.realpath(folder) == os.path.dirname(os.path.dirname(os.path.realpath(__file__))):  # noqa: PTH120
            sys.path.append(folder)  # kmdr itself may be there and nowhere else


def _command_line() -> int | None:
    if sys.argv[1:] not in ([], ["version"], ["--version"]):  # these work in any process
        from kmdr.base.process import check_process

        check_process()
    from kmdr.cli.commands import command_line

    return command_line()


def _name_the_line_of_a_crash() -> None:
    """Let Python write which line was executed when compiled code, such as a method's, ends this process."""
    if sys.stderr is not None:
        import faulthandler

        faulthandler.enable()


def _exit(status: int) -> None:
    """End this process, also if a method left a thread or a process, for which the interpreter would wait."""
    import atexit
    import threading
    from contextlib import suppress

    from kmdr.base.signals import kill_children

    kill_children()
    if any(not thread.daemon and thread is not threading.main_thread() for thread in threading.enumerate()):
        atexit._run_exitfuncs()
        with suppress(OSError, AttributeError):  # a reader that left, or no output at all
            sys.stdout.flush()
        os._exit(status)
    sys.exit(status)


def main() -> None:
    """Run the command of ``sys.argv`` and exit: see `kmdr.cli.commands.main`."""
    _import_nothing_from_the_current_folder()
    _name_the_line_of_a_crash()
    from kmdr.base.signals import leave_when_signalled

    leave_when_signalled()
    from kmdr.base.process import exit_status

    gc.set_threshold(50_000)  # imports make many objects of which none is garbage
    status = exit_status(_command_line)
    gc.freeze()  # nor need the interpreter look for garbage when it exits
    _exit(status)


if __name__ == "__main__":
    main()
