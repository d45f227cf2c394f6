"""Run a study on every available engine, compare the rows bit for bit with those from loky, and print the times.

``python scripts/engines.py [--study bzmd15_fig1 --repeats 3 --workers 2] [ENGINE ...]`` runs the command in its own
process, without timed repetitions: on loky, on a Dask scheduler and workers that it starts, on a local Ray, and in
jobs of Slurm if ``squeue`` answers. Missing engines are reported and skipped. All engines use the same prepared data.
Rows are compared in all columns except times and provenance.

``start`` is the additional time of a run of two tiny trials compared with loky: processes, imports, the queue of Slurm.
``ratio`` is the time of the study without ``start``, relative to loky. The exit status is 1 if rows differ.
"""

import argparse
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from kmdr.harness.engines.settings import BACKENDS
from kmdr.results.reader import read_rows
from kmdr.results.schema import TIME_COLUMNS

# Presets of conf/runner, and the package that each needs beyond kmdr's own.
ENGINES = {**BACKENDS, "slurm": "dask_jobqueue"}
TINY = ("dataset=synth", "dataset.n=60", "dataset.d=10", "dataset.k=2", "r_grid=[2]", "reducer=none", "repeats=2")
MADE = {*TIME_COLUMNS, "concurrency", "env_hash", "machine"}


def ready(engine: str) -> bool:
    """Return whether an engine is installed here."""
    package = ENGINES[engine]
    if package is not None and importlib.util.find_spec(package) is None:
        return False
    try:
        return engine != "slurm" or subprocess.run(["squeue"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@contextmanager
def settings(engine: str, workers: int, folder: Path) -> Iterator[list[str]]:
    """Start what an engine needs, and yield the settings of the command."""
    common = [f"runner={engine}", f"runner.n_jobs={workers}"]
    with ExitStack() as stack:
        if engine == "dask":
            file = folder / "scheduler.json"
            for words in (
                ("scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)),
                ("worker", "--scheduler-file", str(file), "--nworkers", str(workers), "--nthreads", "1"),
            ):
                log = stack.enter_context((folder / f"{words[0]}.log").open("w"))
                command = [sys.executable, "-m", f"distributed.cli.dask_{words[0]}", *words[1:]]
                process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
                stack.callback(process.wait)
                stack.callback(process.terminate)
                while not file.exists():
                    time.sleep(0.1)
            common.append(f"runner.scheduler_file={file}")
        yield common


def seconds_of(arguments: Sequence[str]) -> float:
    """Run a command of kmdr to its end and return the seconds that it took."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "kmdr", "-q", *arguments], check=True)
    return time.perf_counter() - start


def quality(folder: Path) -> list[dict[str, str]]:
    """Return what the rows of a folder say apart from when and where they were made."""
    return [{name: value for name, value in row.items() if name not in MADE} for row in read_rows(folder / "rows.csv")]


def main() -> int:
    """Run everything and print one line per engine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engines", nargs="*", metavar="ENGINE", default=[name for name in ENGINES if name != "loky"])
    parser.add_argument("--study", default="bzmd15_fig1")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    study = [f"study={arguments.study}", f"repeats={arguments.repeats}", "timing_repeats=0"]
    failed = False
    print(f"{'engine':<12}{'seconds':>9}{'start':>8}{'ratio':>8}  rows")
    with TemporaryDirectory(dir=Path.cwd()) as work:
        folder, wall, tiny = Path(work), {}, {}
        for engine in dict.fromkeys(("loky", *arguments.engines)):
            if not ready(engine):
                print(f"{engine:<12}is not available here")
                continue
            out = folder / engine
            with settings(engine, arguments.workers, folder) as how:
                if engine == "loky":  # data are prepared and kernels compiled for all
                    seconds_of([*TINY, *how, f"out={folder / 'before' / 'tiny'}"])
                    seconds_of([*study, *how, f"out={folder / 'before' / 'study'}"])
                tiny[engine] = seconds_of([*TINY, *how, f"out={folder / 'tiny' / engine}"])
                wall[engine] = seconds_of([*study, *how, f"out={out}"])
            start = tiny[engine] - tiny["loky"]
            rows, expected = quality(out), quality(folder / "loky")
            failed |= rows != expected
            outcome = f"{len(rows)} equal" if rows == expected else f"DIFFER ({len(rows)}, {len(expected)})"
            print(f"{engine:<12}{wall[engine]:9.1f}{start:8.1f}{(wall[engine] - start) / wall['loky']:8.2f}  {outcome}",
                  flush=True)  # fmt: skip
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
