"""Check that two checkouts compute the same rows: ``same_rows.py BEFORE [AFTER] [--tasks 2000 --seed 0]``.

Each runs the same random tasks by its own command: datasets, reducers, dimensions, seeds and settings of k-means.
All columns but times and those that identify code and machine are compared as text.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
DATASETS = ("synth", "digits", "nips", "orl_64x64", "coil20")
REDUCERS = tuple(sorted(path.stem for path in (ROOT / "conf" / "reducer").glob("*.yaml")))
NEED_SETTINGS = ("outside", "none", "lle")  # the last takes minutes per matrix
STARTS = ("sample", "plus")
PER_COMMAND = 20
DIFFERENT = ("seconds", "time", "hash", "version", "environment", "machine", "git", "threads", "guests", "study")


def commands(tasks: int, seed: int) -> Iterator[list[str]]:
    """Yield the arguments of commands that run so many tasks in all."""
    draw = random.Random(seed)
    methods = [name for name in REDUCERS if name not in NEED_SETTINGS]
    for _ in range(0, tasks, PER_COMMAND):
        chosen = ",".join(draw.sample(methods, 4))
        grid = ",".join(map(str, sorted(draw.sample(range(2, 60), 5))))
        yield [
            "-m", f"dataset={draw.choice(DATASETS)}", f"reducer={chosen}", f"r_grid=[{grid}]",
            f"kmeans.start={draw.choice(STARTS)}", f"kmeans.n_init={draw.randint(1, 3)}",
            f"kmeans.max_iter={draw.choice([5, 100])}",
            f"kmeans.online={draw.choice(['true', 'false'])}", f"seed={draw.randrange(10**6)}", "repeats=1",
        ]  # fmt: skip


def run(checkout: Path, folder: Path, tasks: int, seed: int) -> pd.DataFrame:
    """Return the rows of the tasks by the code of a checkout, sorted."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(checkout / "src"),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    frames = []
    for number, arguments in enumerate(commands(tasks, seed)):
        out = folder / str(number)
        subprocess.run(
            [sys.executable, "-m", "kmdr", *arguments, f"out={out}"], env=environment, cwd=checkout,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        if (out / "rows.csv").is_file():  # refused settings leave none in either
            frames.append(
                pd.read_csv(out / "rows.csv", dtype=str, keep_default_na=False, comment="#").assign(job=number)
            )
    rows = pd.concat(frames, ignore_index=True)
    return rows.sort_values(["job", "dataset", "reducer", "r", "params", "repeat"], ignore_index=True)


def main() -> int:
    """Return 0 when all rows are the same, 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path, help="a checkout")
    parser.add_argument("after", type=Path, nargs="?", default=ROOT, help="another; by default this one")
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        before, after = (
            run(checkout.resolve(), Path(scratch) / name, arguments.tasks, arguments.seed)
            for name, checkout in (("before", arguments.before), ("after", arguments.after))
        )
    columns = [name for name in map(str, before) if name in after and not any(word in name for word in DIFFERENT)]
    print(f"{len(before)} and {len(after)} rows; compared: {', '.join(columns)}")
    if len(before) != len(after):
        return 1
    unequal = before[columns].ne(after[columns])
    for name in columns:
        if unequal[name].any():
            row = int(unequal[name].to_numpy().argmax())
            print(f"{name}: {unequal[name].sum()} differ, first {before[name][row]!r} and {after[name][row]!r}")
    same, ok = int((~unequal.any(axis=1)).sum()), int((before["status"] == "ok").sum())
    print(f"{same} of {len(before)} rows are the same; {ok} are ok")
    return int(unequal.to_numpy().any())


if __name__ == "__main__":
    sys.exit(main())
