"""Run every study: ``reproduce.py`` in full, ``quick`` thinned, ``reference`` to commit; ``--budget 10m`` what fits."""

import argparse
import sys
from pathlib import Path

from kmdr.cli import compose_studies
from kmdr.entry import exit_status
from kmdr.errors import UserError
from kmdr.jobs import run_jobs
from kmdr.run.plan import Limits, parse_duration
from kmdr.run.store import compress

# The folder of each mode, relative to where it is run, and what it leaves out.
MODES = {
    "full": ("results/runs", Limits()),
    "reference": ("results/reference", Limits()),
    "quick": ("results/quick", Limits(repeats=2, timing_repeats=1, grid=3, task_seconds=0.8)),
}


def main() -> int:
    """Return the exit status of one mode."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", nargs="?", choices=MODES, default="full")
    parser.add_argument("--budget", help="wall time that the full run may take, e.g. 90s, 10m or 1h30m")
    parser.add_argument("--out", help="folder of the results, where it is not to be the mode's own")
    arguments = parser.parse_args()
    out, limits = MODES[arguments.mode]
    out = arguments.out or out
    if arguments.budget:
        if arguments.mode != "full":
            raise UserError(f"a budget is for the full run, not for {arguments.mode!r}; leave one of the two out")
        limits = Limits(budget=parse_duration(arguments.budget))
    status = run_jobs(compose_studies(out), limits)
    if arguments.mode == "reference":
        print(compress(Path(out)))
    return status


if __name__ == "__main__":
    sys.exit(exit_status(main))
