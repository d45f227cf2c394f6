"""Rerun a random sample of the rows in results/reference and compare: ``verify.py [--rows 40] [--seed S]``."""

import argparse
import random
import sys
from collections import Counter
from pathlib import Path

from kmdr.cli import compose
from kmdr.entry import exit_status
from kmdr.errors import UserError
from kmdr.run.progress import Progress
from kmdr.run.provenance import code_version, environment
from kmdr.run.store import read_rows, rows_file
from kmdr.run.verify import OUTCOMES, Comparison, folders_by_content, sample, verify, version_note
from kmdr.studies import study_names
from kmdr.text import aligned


def _check(reference: Path, size: int, seed: int) -> list[Comparison]:
    table = rows_file(reference)
    if not table.exists():
        raise UserError(f"there is no {table}; expected the rows of a reference run; 'make reference' makes one")
    rows = sample(read_rows(table), size, seed)
    studies = {row["study"] for row in rows} & set(study_names())
    folders = folders_by_content(e for study in sorted(studies) for e in compose(f"study={study}").experiments)
    here = environment()
    progress = Progress(len(rows), float(len(rows)))
    verdicts = []
    for row in rows:
        verdicts.append(verify(row, reference, folders, here))
        progress.advance([], 1.0)
    progress.close()
    return verdicts


def main() -> int:
    """Return 0 when some rows were compared and none is different, 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=40)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--reference", type=Path, default=Path("results/reference"))
    arguments = parser.parse_args()
    verdicts = _check(arguments.reference, arguments.rows, arguments.seed)
    studies = sorted({verdict.row["study"] for verdict in verdicts})
    counts = Counter((verdict.row["study"], verdict.outcome) for verdict in verdicts)
    lines = [(study, *(str(counts[study, outcome]) for outcome in OUTCOMES)) for study in studies]
    totals = Counter(verdict.outcome for verdict in verdicts)
    print(*aligned([("study", *OUTCOMES), *lines, ("all", *(str(totals[outcome]) for outcome in OUTCOMES))]), sep="\n")
    for verdict in verdicts:
        if verdict.detail:
            row = verdict.row
            where = f"{row['study']}: {row['reducer']} {row['params']} on {row['dataset']}, r = {row['r']}"
            print(f"{verdict.outcome}: {where}, repetition {row['repeat']}: {verdict.detail}")
    for version in sorted({verdict.row["code_version"] for verdict in verdicts}):
        print("; ".join(filter(None, (f"rows of {version}, checked with {code_version()}", version_note(version)))))
    print(f"{len(verdicts)} rows drawn with seed {arguments.seed}")
    compared = len(verdicts) - totals["skipped"]
    if not compared:
        print("kmdr: no row could be compared; 'kmdr data status' says which data are missing", file=sys.stderr)
    return int(totals["different"] > 0 or not compared)


if __name__ == "__main__":
    sys.exit(exit_status(main))
