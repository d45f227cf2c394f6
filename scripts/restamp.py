"""Give rows the hash of today's code, after trials of them were run again: ``restamp.py DIR``.

For rows whose code was renamed, moved or hashed in another way while their numbers stayed the same. A random sample of
the rows is run again, as `kmdr verify` does it, and of each kind of row (reducer, engine and dataset) one at least.
Nothing is written unless all of them are exact; kinds that cannot be run here keep the hashes that they have. A line
of ``runs.jsonl`` states what was done. The rows of multiverses, in DIR/multiverse, are treated in the same way.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from kmdr.base.provenance import code_version, environment
from kmdr.base.text import short_hash
from kmdr.config.task import code_identity, code_of, current_code, data_of
from kmdr.harness.verify import folders_by_content, sample, verify
from kmdr.results.paths import MULTIVERSE
from kmdr.results.reader import read_rows
from kmdr.results.rows import TextRow
from kmdr.results.store import Store
from kmdr.results.table import compress, rows_file

Kind = tuple[str, str, str]


def kind_of(row: Mapping[str, str]) -> Kind:
    """Return what decides which code computes a row."""
    return row["reducer"], row["engine"] or "kmdr", data_of(row["dataset"], row["options"])[0]


def run_again(folder: Path, rows: list[TextRow], size: int, seed: int) -> tuple[set[Kind], Counter[str]]:
    """Return the kinds of rows of which some were run again, and how many rows had which outcome."""
    chosen = sample(rows, size, seed)
    drawn = {kind_of(row) for row in chosen}
    for row in sample(rows, len(rows), seed):
        if kind_of(row) not in drawn:
            drawn.add(kind_of(row))
            chosen.append(row)
    folders, here = folders_by_content(chosen, folder), environment()
    kinds, outcomes = set(), Counter[str]()
    for row in chosen:
        comparison = verify(row, folder, folders, here)
        outcomes[comparison.outcome] += 1
        if comparison.outcome == "exact":
            kinds.add(kind_of(row))
        elif comparison.outcome not in ("skipped", "not verified"):
            print(f"{comparison.outcome}: {row['study']}, {row['reducer']} on {row['dataset']}: {comparison.detail}")
    return kinds, outcomes


def restamp(folder: Path, size: int, seed: int) -> int:
    """Stamp the rows of a folder; return the exit status."""
    rows = read_rows(rows_file(folder))
    kinds, outcomes = run_again(folder, rows, size, seed)
    if set(outcomes) - {"exact", "skipped", "not verified"} or not kinds:
        print(f"{folder}: {dict(outcomes)}; nothing is written")
        return 1
    changed = 0
    for row in rows:
        kind = kind_of(row)
        code = code_of(kind[0], kind[2], kind[1]) if kind in kinds else row["code_hash"]
        current = current_code(kind[0], kind[1], row["dataset"], row["options"])
        if row["code_hash"] != code and code_identity(code, row["guests"]) == current:
            row["code_hash"] = code
            changed += 1
    store = Store(folder)
    with store.taking_in() as put:
        put(rows)
    (folder / "rows.csv.xz").unlink()  # it was written in haste
    compress(folder)
    (folder / "rows.csv").unlink()
    done = {"rows_restamped": changed, "rows_run_again_exact": outcomes["exact"], "seed": seed}
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    store.log({"finished": now, **done, "code_version": code_version(), "env_hash": short_hash(environment())})
    print(f"{folder}: {changed} of {len(rows)} rows restamped; run again: {dict(outcomes)}")
    return 0


def main() -> int:
    """Restamp a folder as the command line says; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    folders = [folder for folder in (given.folder, given.folder / MULTIVERSE) if rows_file(folder).is_file()]
    return max(restamp(folder, given.rows, given.seed) for folder in folders)


if __name__ == "__main__":
    sys.exit(main())
