"""``kmdr`` and ``python -m kmdr``."""

import sys

from kmdr.entry import exit_status


def _command_line() -> int | None:
    from kmdr.cli import command_line  # a second of imports, which may be interrupted as the rest may

    return command_line()


def main() -> None:
    """Entry point: see `kmdr.cli.main`."""
    sys.exit(exit_status(_command_line))


if __name__ == "__main__":
    main()
