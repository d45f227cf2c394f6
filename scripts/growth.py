"""Measure how time and memory grow with n: reductions of ILSVRC-like features at 1/16, 1/8, 1/4, 1/2 and 1 of a size.

``python scripts/growth.py --n 160000 [--r 100 --folder FOLDER] [REDUCER ...] [SETTING=VALUE ...]`` runs a trial of
each reducer (by default lst17's SE, RP and PD, and SRHT) at each size, each in its own process, and prints one line
per trial, in the columns of ``scripts/scale.py``. At the end it prints exponents for each reducer: slopes of log time
(prepare + reduce) and of log peak anonymous memory on log n, with standard errors.

The features are generated into a cache in the folder (by default ``growth``), which is deleted after each size.
``reads`` is the time of the reduction relative to one read from the disk; a trial reads all data for their norm
before it reduces them, so the reduction may read from memory. K-means stops after one iteration unless
``kmeans.max_iter`` is set.
"""

import argparse
import os
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import rmtree

import numpy as np
from scipy.stats import linregress

from scale import HEAD, Trial, line, read_seconds, trial, watched

REDUCERS = ("sparse_embedding", "random_sign", "sparsified", "srht")
SHARES = (16, 8, 4, 2, 1)
_ALONE = "from kmdr import datasets; datasets.load('ilsvrc_like', {'n': %d})"


def measure(n: int, r: int, reducers: Sequence[str], settings: Sequence[str]) -> dict[str, Trial]:
    """Generate n points, print what a trial of each reducer took, and return those that did not fail."""
    cache = Path(os.environ["KMDR_CACHE"])
    peak, seconds, cpu, message = watched([sys.executable, "-c", _ALONE % n])
    (path,) = cache.glob("prepared/*/A.npy")
    read = read_seconds(path, cold=True)
    print(f"\nn = {n}: {path.stat().st_size / 1e9:.2f} GB, read from the disk in {read:.1f} s")
    print(f"{HEAD}\n{'(generated)':20} {peak:8.2f} {seconds:8.1f} {cpu:8.1f}  {message}", flush=True)
    made = {}
    for reducer in reducers:
        made[reducer] = trial(reducer, r, ["dataset=ilsvrc_like", f"dataset.n={n}", "kmeans.max_iter=1", *settings])
        print(line(reducer, made[reducer], read), flush=True)
    rmtree(cache)
    return {reducer: of_reducer for reducer, of_reducer in made.items() if not of_reducer.message}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure each size, and fit what grows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="REDUCER or SETTING=VALUE")
    parser.add_argument("--n", type=int, default=160_000)
    parser.add_argument("--r", type=int, default=100)
    parser.add_argument("--folder", type=Path, default=Path("growth"))
    given = parser.parse_args(arguments)
    os.environ["KMDR_CACHE"] = str(given.folder.resolve() / "cache")
    rmtree(os.environ["KMDR_CACHE"], ignore_errors=True)
    reducers = [word for word in given.words if "=" not in word] or REDUCERS
    grown: dict[str, list[tuple[int, Trial]]] = defaultdict(list)
    for share in SHARES:
        n = given.n // share
        for reducer, made in measure(n, given.r, reducers, [word for word in given.words if "=" in word]).items():
            grown[reducer].append((n, made))
    print_fits(grown)


def print_fits(grown: Mapping[str, Sequence[tuple[int, Trial]]]) -> None:
    """Print what grows how, of reducers that were measured at three sizes at least."""
    print(f"\n{'exponents in n':20} {'seconds':>14} {'anon GB':>14}")
    for reducer, trials in grown.items():
        if len(trials) > 2:
            sizes = [n for n, _ in trials]
            taken = ([made.reduction for _, made in trials], [made.peak for _, made in trials])
            fits = [linregress(np.log(sizes), np.log(values)) for values in taken]
            print(f"{reducer:20} {'  '.join(f'{fit.slope:6.2f} ± {fit.stderr:.2f}' for fit in fits)}")


if __name__ == "__main__":
    main()
