"""Run every study: ``reproduce.py`` in full, ``reproduce.py quick`` thinned, ``reproduce.py reference`` to commit."""

import sys

from kmdr.cli import compose, study_names
from kmdr.errors import UserError
from kmdr.studies import run_jobs

MODES = {
    "full": ["out=results/runs"],
    "reference": ["out=results/reference"],
    "quick": [
        "out=results/quick", "r_grid=[5,20,50,100]", "repeats=2", "timing_repeats=1",
        "study.note='thinned grid, 2 repetitions: a check that all works, not the result'",
    ],
}  # fmt: skip


def main() -> int:
    """Return the exit status of one mode."""
    mode = sys.argv[1] if len(sys.argv) > 1 else "full"
    if mode not in MODES:
        print(f"reproduce.py: {mode!r} is not one of {', '.join(MODES)}", file=sys.stderr)
        return 2
    try:
        return run_jobs([compose(f"study={name}", *MODES[mode]) for name in study_names()])
    except UserError as error:
        print(f"kmdr: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("kmdr: interrupted; finished tasks are kept, and the same command does the rest", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
