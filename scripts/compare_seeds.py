"""Let a report compare its verdicts with another seed: ``compare_seeds.py OLD NEW``.

Both are folders of results with a report by the same code. The old central statements and their verdicts are stored
in ``NEW/seeds.csv``, and the report of NEW is made again, with ``tables/seeds.csv`` and a sentence on what differs.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import pandas as pd

from kmdr.figures.escape import spreadsheet_csv
from kmdr.reporting.seeds import FILE, central


def main() -> int:
    """Store the statements of the old folder in the new one, and make its report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path, help="folder of the earlier seed")
    parser.add_argument("new", type=Path, help="folder whose report shows the comparison")
    given = parser.parse_args()
    statements = central(*(pd.read_csv(given.old / f"{name}.csv") for name in ("verdicts", "components")))
    (given.new / FILE).write_bytes(spreadsheet_csv(statements))
    return subprocess.run([sys.executable, "-m", "kmdr", "report", str(given.new)], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
