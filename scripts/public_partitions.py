"""Compare k-means with published partitions: ``public_partitions.py DATA RESULTS``.

DATA is a checkout of gagolews/clustering-data-v1, RESULTS one of gagolews/clustering-results-v1, which are for research
and never part of this project. For each set and each of its numbers of classes, the sum of squares of one run of
``kmeans.start=greedy kmeans.n_init=auto`` is compared with the smaller of two sums, of scikit-learn's partition and of
the one that a search optimised for the Calinski-Harabasz index, which for a given k is the sum of squares.

Exit status: 1 if one run ends more than .1 % above the better published partition.
"""

import argparse
import gzip
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from kmdr.base.seeding import generator
from kmdr.clustering.kmeans import Protocol, best_of_starts, lloyd, same_points, starter
from kmdr.harness.experiment import AUTO

_MOST = 1e-3


def sum_of_squares(X: np.ndarray, labels: np.ndarray) -> float:
    """Return the sum of squared distances of points to the mean of their cluster."""
    return float(sum(((part - part.mean(axis=0)) ** 2).sum() for part in (X[labels == j] for j in np.unique(labels))))


def published(results: Path, name: str, k: int) -> Iterator[np.ndarray]:
    """Yield the published partitions of a set into k clusters."""
    for method, column in (("sklearn_kmeans", None), ("optim_cvi", "CalinskiHarabasz")):
        file = results / "original" / method / f"{name}.result{k}.gz"
        if file.exists():
            table = pd.read_csv(file)
            yield table[column or table.columns[0]].to_numpy()


def ours(X: np.ndarray, k: int, name: str) -> float:
    """Return the sum of squares of one run of kmdr."""
    protocol = Protocol(AUTO["n_init"], 500, "greedy", until_found=AUTO["until_found"])
    starts = starter(protocol, len(X), k, None, generator(0, name, 0, "starts"))
    with same_points(object()):
        best = best_of_starts(protocol, lambda some: lloyd(X, starts(X, some), protocol.max_iter))
    return sum_of_squares(X, best.labels)


def main() -> int:
    """Compare all sets; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("results", type=Path)
    given = parser.parse_args()
    above = {}
    for file in sorted(given.data.glob("*/*.data.gz")):
        name = f"{file.parent.name}/{file.name.removesuffix('.data.gz')}"
        X = np.loadtxt(file, ndmin=2)
        for labels in sorted(file.parent.glob(f"{file.name.removesuffix('.data.gz')}.labels*.gz")):
            with gzip.open(labels) as stream:
                k = int(np.loadtxt(stream).max())  # 0 is noise
            known = [sum_of_squares(X, partition) for partition in published(given.results, name, k)]
            if known and (name, k) not in above:
                above[name, k] = ours(X, k, name) / min(known) - 1
                print(f"{name} k = {k}: {above[name, k]:+.2%}", flush=True)
    excess = np.array(list(above.values()))
    worse, better = int((excess > _MOST).sum()), int((excess < -_MOST).sum())
    print(f"{len(excess)} cells: {worse} more than {_MOST:.1%} above the published, {better} more than that below")
    print(f"worst {excess.max():+.3%}, median {np.median(excess):+.4%}")
    return int((excess > _MOST).any())


if __name__ == "__main__":
    raise SystemExit(main())
