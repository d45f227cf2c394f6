"""Measure many tiny tasks: tasks per second, the start of a finished run, and the report of many rows.

``python scripts/tasks.py [--tasks 20000 --finished 5000 --rows 1000000 --workers 2 --folder FOLDER]`` runs that many
tasks of one millisecond each by the command, in its own process. It then runs others, and repeats their command,
which has nothing left to do. Finally it makes the reports of two tables of that many rows: of the first run, and of
the committed reference rows repeated as further repetitions. 0 skips a part. Seconds are wall time of the whole
command; CPU seconds and memory cover all its processes (``anonymous`` in ``scripts/scale.py``).
"""

import argparse
import csv
import json
import lzma
import os
import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from shutil import copytree, ignore_patterns, rmtree

import numpy as np

from kmdr.results.table import rows_file
from scale import watched

REFERENCE = Path(__file__).resolve().parents[1] / "results" / "reference"
_POINTS, _FEATURES = 50, 8


def run(folder: Path, tasks: int, workers: int) -> list[str]:
    """Return the command that runs some tiny tasks into a folder."""
    points = folder.parent / "tiny.npy"
    np.save(points, np.random.default_rng(0).standard_normal((_POINTS, _FEATURES)))
    data = ["dataset=file", f"dataset.path={points}", "dataset.k=2"]
    tiny = ["reducer=random_sign", "r_grid=[2]", f"repeats={tasks}", "kmeans.n_init=1", f"runner.n_jobs={workers}"]
    return [sys.executable, "-m", "kmdr", "--quiet", *data, *tiny, f"out={folder}"]


def write_many(source: Path, folder: Path, rows: int) -> None:
    """Write a folder like another with so many rows: again and again its own, as further repetitions."""
    copytree(source, folder, ignore=ignore_patterns("figures", "tables", "tasks", "report", "multiverse", "*.csv*"))
    table = rows_file(source)
    with (lzma.open if table.suffix == ".xz" else open)(table, "rt", encoding="utf-8", newline="") as file:
        header, *known = csv.reader(file)
    repeat = header.index("repeat")
    more = 1 + max(int(row[repeat]) for row in known)
    with (folder / "rows.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        for turn in count():
            some = known[: rows - turn * len(known)]
            writer.writerows([*row[:repeat], int(row[repeat]) + turn * more, *row[repeat + 1 :]] for row in some)
            if len(some) < len(known):
                return


def tell(what: str, command: Sequence[str], tasks: int = 0) -> None:
    """Run a command, and print what it took."""
    peak, seconds, cpu, message = watched(command)
    rate = f", {tasks / seconds:.0f} a second" if tasks else ""
    print(f"{what}: {seconds:.1f} s{rate}, {cpu:.1f} s of CPU, {peak:.2f} GB{message and f'; {message}'}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure each, and remove what was written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("tasks", 20_000), ("finished", 5000), ("rows", 1_000_000), ("workers", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--folder", type=Path, default=Path("tasks"))
    given = parser.parse_args(arguments)
    folder = given.folder.resolve()
    rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.environ.setdefault("KMDR_MOST_TABLE", "4G")  # a million rows are more than kmdr reads unasked
    if given.tasks:
        tell("a task, so that kernels are compiled", run(folder / "one", 1, given.workers))
        tell(f"{given.tasks} tasks", run(folder / "many", given.tasks, given.workers), given.tasks)
        (line,) = (folder / "many" / "runs.jsonl").read_text("utf-8").splitlines()
        seconds = json.loads(line)["parallel_seconds"]
        print(f"  of which at work: {seconds:.1f} s, {given.tasks / seconds:.0f} a second", flush=True)
    reports = {"the papers": REFERENCE}
    if given.finished:
        command = run(folder / "finished", given.finished, given.workers)
        watched(command)
        tell(f"a finished run of {given.finished} rows", command)
        reports = {"one method": folder / "finished", **reports}
    for name, source in reports.items() if given.rows else ():
        write_many(source, folder / "report", given.rows)
        tell(f"the report of {given.rows} rows of {name}", [sys.executable, "-m", "kmdr", "report", f"{folder}/report"])
        rmtree(folder / "report")
    rmtree(folder)


if __name__ == "__main__":
    main()
