"""``kmdr`` and ``python -m kmdr``."""

import sys

from kmdr import __version__
from kmdr.entry import exit_status


def _command_line() -> int | None:
    if sys.argv[1:] in (["--version"], ["version"]):
        print(f"kmdr {__version__}")
        return 0
    from kmdr.cli import command_line  # a second of imports, which may be interrupted as the rest may

    return command_line()


def main() -> None:
    """Entry point: see `kmdr.cli.main`."""
    sys.exit(exit_status(_command_line))


if __name__ == "__main__":
    main()
