"""Give rows the hash of today's code, after trials of them were run again: ``restamp.py DIR``.

For rows whose code was renamed, moved or hashed in another way while their numbers stayed the same. A random sample of
the rows is run again, as `kmdr verify` does it, and of each kind of row (reducer, engine and dataset) one at least.
Only rows of machines with the same BLAS kernels as this one are drawn, because other kernels round differently
(``OPENBLAS_CORETYPE`` selects them). Nothing is written unless all rows of this processor are exact and 95 % of the
others are; the processor decides between starts of k-means that are equal but for rounding. Kinds without an exact row
keep the hashes that they have.

With ``--same-as CHECKOUT`` the proof is another one, for a machine with other kernels than the rows have:
``scripts/same_rows.py CHECKOUT`` has found that the code of that checkout and of this one compute the same rows. Rows
with the hash of the checkout's code then get today's, unless one of the sample is different by more than rounding.

A line of ``runs.jsonl`` states what was done. The rows of multiverses, in DIR/multiverse, are treated in the same way.
"""

import argparse
import json
import os
import subprocess
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
from kmdr.results.store import Store
from kmdr.results.table import compress, rows_file
from kmdr.results.text_rows import TextRow

Kind = tuple[str, str, str]


def kind_of(row: Mapping[str, str]) -> Kind:
    """Return what decides which code computes a row."""
    return row["reducer"], row["engine"] or "kmdr", data_of(row["dataset"], row["options"])[0]


def same_kernels(folder: Path, rows: list[TextRow]) -> list[TextRow]:
    """Return the rows of machines that have the same BLAS libraries and kernels as this one."""
    here = environment()["blas"]
    same = {
        path.stem
        for path in (folder / "environments").glob("*.json")
        if json.loads(path.read_text(encoding="utf-8"))["blas"] == here
    }
    return [row for row in rows if row["env_hash"] in same]


def run_again(
    folder: Path, rows: list[TextRow], size: int, seed: int, *, every_kind: bool
) -> tuple[set[Kind], Counter[str]]:
    """Return the kinds of rows of which some were run again, and how many rows had which outcome."""
    chosen = sample(rows, size, seed)
    drawn = {kind_of(row) for row in chosen}
    for row in sample(rows, len(rows), seed) if every_kind else []:
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


def hashes_of(checkout: Path, kinds: set[Kind]) -> dict[Kind, str]:
    """Return the code hash of each kind of row by the code of another checkout."""
    code = (
        "import json, sys\nfrom kmdr.config.task import code_of\n"
        "print(json.dumps([code_of(r, d, e) for r, e, d in json.load(sys.stdin)]))"
    )
    ordered = sorted(kinds)
    done = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(ordered), capture_output=True, text=True, check=True,
        cwd=checkout, env={**os.environ, "PYTHONPATH": str(checkout / "src")},
    )  # fmt: skip
    return dict(zip(ordered, json.loads(done.stdout), strict=True))


def restamp(folder: Path, size: int, seed: int, checkout: Path | None = None) -> int:
    """Update the code hashes of a folder's rows; return the exit status."""
    rows = read_rows(rows_file(folder))
    drawn_from = rows if checkout else same_kernels(folder, rows)
    kinds, outcomes = run_again(folder, drawn_from, size, seed, every_kind=checkout is None)
    other_processor = outcomes["within tolerance"] + outcomes["another path"]  # never of rows of this processor
    before: dict[Kind, str] = {}
    if checkout:
        kinds = {kind_of(row) for row in rows}
        before = hashes_of(checkout, kinds)
    if outcomes["different"] or (not checkout and other_processor > 0.05 * outcomes["exact"]) or not kinds:
        print(f"{folder}: {dict(outcomes)}; nothing is written")
        return 1
    changed = 0
    for row in rows:
        kind = kind_of(row)
        code = code_of(kind[0], kind[2], kind[1]) if kind in kinds else row["code_hash"]
        current = current_code(kind[0], kind[1], row["dataset"], row["options"])
        if checkout and row["code_hash"] != before[kind]:
            continue
        if row["code_hash"] != code and code_identity(code, row["guests"]) == current:
            row["code_hash"] = code
            changed += 1
    store = Store(folder)
    with store.taking_in() as put:
        put(rows)
    (folder / "rows.csv.xz").unlink()  # it was written in haste
    compress(folder)
    (folder / "rows.csv").unlink()
    done = {"rows_updated": changed, "rows_run_again": dict(outcomes), "seed": seed}
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    store.log({"finished": now, **done, "code_version": code_version(), "env_hash": short_hash(environment())})
    print(f"{folder}: {changed} of {len(rows)} rows updated; run again: {dict(outcomes)}")
    return 0


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--same-as", type=Path, metavar="CHECKOUT", help="one that same_rows.py found the same")
    given = parser.parse_args()
    folders = [folder for folder in (given.folder, given.folder / MULTIVERSE) if rows_file(folder).is_file()]
    return max(restamp(folder, given.rows, given.seed, given.same_as) for folder in folders)


if __name__ == "__main__":
    sys.exit(main())
