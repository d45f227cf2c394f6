"""``kmdr`` and ``python -m kmdr``."""

import sys

from kmdr.entry import WELCOME, exit_status, say_version


def _command_line() -> int | None:
    if sys.argv[1:] in (["--version"], ["version"]):
        say_version()
        return 0
    if not sys.argv[1:]:
        print(WELCOME)
        return 0
    from kmdr.cli import command_line  # a second of imports, which may be interrupted as the rest may

    return command_line()


def main() -> None:
    """Entry point: see `kmdr.cli.main`."""
    sys.exit(exit_status(_command_line, last=True))


if __name__ == "__main__":
    main()
