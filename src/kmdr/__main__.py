"""``kmdr`` and ``python -m kmdr``."""

import sys

from kmdr.entry import WELCOME, at_once, check_process, exit_status, kept_for_good, say_version


def _command_line() -> int | None:
    if sys.argv[1:] in (["--version"], ["version"]):
        say_version()
        return 0
    if not sys.argv[1:]:
        print(WELCOME)
        return 0
    check_process()
    with at_once(), kept_for_good():
        from kmdr.cli import command_line  # two seconds of imports

    return command_line()


def main() -> None:
    """Entry point: see `kmdr.cli.main`."""
    sys.exit(exit_status(_command_line, last=True))


if __name__ == "__main__":
    main()
