"""Measure how much another process on the machine changes the times of a trial.

``python scripts/clock.py [ROUNDS]`` times a trial of one method of each kind on a dataset of each size, once serially
and once in parallel with another process that repeats the same trial. It prints the median and the quartiles of the
ratio of the two times, for each step. This is the evidence for using only times with ``concurrency`` 1.
"""

import argparse
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import get_context

import numpy as np
import pandas as pd

from kmdr import datasets
from kmdr.base.text import canonical
from kmdr.base.threads import pinned
from kmdr.clustering.kmeans import Protocol
from kmdr.config.task import Task
from kmdr.harness.task import Provenance, run

DATASETS = ("nips", "orl_64x64", "coil20", "usps", "pie", "synth")
REDUCERS: Mapping[str, Mapping[str, object]] = {"random_sign": {}, "leverage": {}, "none": {}}
STEPS = ("prepare_seconds", "reduce_seconds", "cluster_seconds")
_PROVENANCE = Provenance(concurrency=1, threads=1, code_version="", env_hash="")
# The clock's own scatter dominates shorter steps.
_LEAST_SECONDS = 1e-3


def task_of(dataset: str, reducer: str, repeat: int) -> tuple[Task, datasets.Dataset]:
    """Return a timed task of bzmd15's protocol, and its dataset."""
    data = datasets.load(dataset)
    k = len(np.unique(data.labels)) if data.labels is not None else 10
    protocol = Protocol(n_init=5, max_iter=100)
    params = canonical(REDUCERS[reducer])
    return Task("", dataset, data.data_sha256, "", reducer, params, k, (30,), repeat, 0, protocol, True), data


def _repeat(dataset: str, reducer: str) -> None:
    """Run a trial again and again: the neighbour."""
    with pinned(1):
        repeat = 0
        while True:
            repeat += 1
            run(*task_of(dataset, reducer, repeat), _PROVENANCE)


@contextmanager
def neighbour(dataset: str, reducer: str) -> Iterator[int]:
    """Start a neighbour, stop it, and give its process number."""
    process = get_context("spawn").Process(target=_repeat, args=(dataset, reducer), daemon=True)
    process.start()
    assert process.pid is not None
    try:
        time.sleep(15)  # until it has compiled what it needs
        os.kill(process.pid, signal.SIGSTOP)
        yield process.pid
    finally:
        process.kill()
        process.join()


def measured(dataset: str, reducer: str, rounds: int) -> Iterator[dict[str, float | str]]:
    """Yield the ratio of the parallel to the serial time, for each step and round."""
    with neighbour(dataset, reducer) as pid:
        run(*task_of(dataset, reducer, 0), _PROVENANCE)
        for repeat in range(rounds):
            task, data = task_of(dataset, reducer, repeat)
            (serial,) = run(task, data, _PROVENANCE)
            os.kill(pid, signal.SIGCONT)
            (parallel,) = run(task, data, _PROVENANCE)
            os.kill(pid, signal.SIGSTOP)
            megabytes = data.A.nbytes / 1e6 if isinstance(data.A, np.ndarray) else data.A.data.nbytes * 1.5 / 1e6
            for step in STEPS:
                if serial[step] > _LEAST_SECONDS:
                    ratio = parallel[step] / serial[step]
                    yield {"dataset": dataset, "MB": megabytes, "reducer": reducer, "step": step, "ratio": ratio}


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rounds", nargs="?", type=int, default=9)
    rounds = parser.parse_args().rounds
    rows: list[dict[str, float | str]] = []
    with pinned(1):
        for dataset in DATASETS:
            for reducer in REDUCERS:
                rows += measured(dataset, reducer, rounds)
    table = pd.DataFrame(rows)
    by = ["dataset", "MB", "reducer", "step"]
    print(table.groupby(by, sort=False)["ratio"].describe(percentiles=[0.25, 0.5, 0.75]).round(2).to_string())


if __name__ == "__main__":
    main()
