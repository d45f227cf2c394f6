"""``kmdr`` and ``python -m kmdr``."""

from kmdr.base.early import answer_interrupt, is_command

if is_command():
    answer_interrupt()

import sys

from kmdr.base.process import WELCOME, at_once, check_process, exit_status, kept_for_good, say_version


def _command_line() -> int | None:
    if sys.argv[1:] in (["--version"], ["version"]):
        say_version()
        return 0
    if not sys.argv[1:]:
        print(WELCOME)
        return 0
    check_process()
    with at_once(), kept_for_good():
        from kmdr.cli.commands import command_line  # two seconds of imports

    return command_line()


def main() -> None:
    """Entry point: see `kmdr.cli.commands.main`."""
    sys.exit(exit_status(_command_line, last=True))


if __name__ == "__main__":
    main()
