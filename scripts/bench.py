"""Measure the kernels against other libraries and against the limit, as ratios taken side by side in one run.

``python scripts/bench.py`` writes ``results/bench/bench.csv``: for each kernel and size the median seconds of ours, of
each peer and of the limit (reading the data once, or the bare matrix product), and their ratios to ours. All of a case
run in turn, round by round, so that a change of the machine's speed meets them alike.
"""

import csv
from collections.abc import Callable, Iterator
from functools import partial
from operator import matmul
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg
from sklearn.cluster import KMeans
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

from kmdr.kmeans import Protocol, lloyd, starting_rows
from kmdr.linalg import Dense, count_sketch, fast_frobenius_svd, sketch_size, top_right_singular_vectors
from kmdr.provenance import code_version, environment
from kmdr.reducers import make
from kmdr.threads import pinned
from kmdr.timing import Stopwatch

ROUNDS = 7
DENSE = ((1440, 1024), (11000, 256), (400, 10304))
Contender = Callable[[], Any]
Case = tuple[str, str, dict[str, Contender]]


def sparse_embedding(rng: np.random.Generator) -> Iterator[Case]:
    """Hash features into r columns."""
    for n, d in DENSE:
        A = rng.standard_normal((n, d))
        for r in (10, 100):
            bucket, sign = rng.integers(r, size=d), rng.choice([-1.0, 1.0], d)
            S = sp.csr_array((sign, (np.arange(d), bucket)), shape=(d, r))
            yield (
                "sparse_embedding",
                f"{n}x{d} r={r}",
                {
                    "ours": partial(count_sketch, A, bucket, sign, r),
                    "scipy product": partial(matmul, A, S),
                    "sklearn sparse projection": partial(SparseRandomProjection(r).fit_transform, A),
                    "limit: read A": partial(np.sum, A),
                },
            )


def random_sign(rng: np.random.Generator) -> Iterator[Case]:
    """Draw R and multiply."""
    reducer = make("random_sign")
    for n, d in DENSE:
        A = rng.standard_normal((n, d))
        for r in (10, 100):
            R = rng.standard_normal((d, r))
            yield (
                "random_sign",
                f"{n}x{d} r={r}",
                {
                    "ours": partial(reducer.reduce, A, r, rng, None),
                    "sklearn gaussian projection": partial(GaussianRandomProjection(r).fit_transform, A),
                    "limit: A @ R": partial(matmul, A, R),
                },
            )


def literal(A: Dense, k: int, R: Dense) -> Dense:
    """Run FastFrobeniusSVD written as the paper's box."""
    Q, _ = np.linalg.qr(A @ R)
    return np.linalg.svd(Q.T @ A, full_matrices=False)[2][:k]


def sklearn_lloyd(C: Dense, starts: Dense, algorithm: str) -> None:
    """Run scikit-learn from the same centres."""
    for rows in starts:
        KMeans(len(rows), init=C[rows], n_init=1, max_iter=500, tol=0, algorithm=algorithm).fit(C)


def singular_vectors(rng: np.random.Generator) -> Iterator[Case]:
    """Top k right singular vectors, exact and sketched."""
    for (n, d), k in zip(DENSE, (20, 10, 40), strict=True):
        A = rng.standard_normal((n, 60)) @ rng.standard_normal((60, d)) + rng.standard_normal((n, d))
        R = rng.standard_normal((d, sketch_size(k, 1 / 3)))
        yield (
            "top_right_singular_vectors",
            f"{n}x{d} k={k}",
            {
                "ours": partial(top_right_singular_vectors, A, k),
                "numpy svd": partial(np.linalg.svd, A, full_matrices=False),
                "scipy svds": partial(scipy.sparse.linalg.svds, A, k),
            },
        )
        yield (
            "fast_frobenius_svd",
            f"{n}x{d} k={k}",
            {"ours": partial(fast_frobenius_svd, A, k, 1 / 3, rng), "QR and SVD as written": partial(literal, A, k, R)},
        )


def kmeans(rng: np.random.Generator) -> Iterator[Case]:
    """Five starts of Lloyd to strict convergence."""
    for n, r, k in ((1000, 5, 5), (1000, 100, 5), (1440, 20, 20), (11000, 10, 10), (11000, 100, 10), (400, 50, 40)):
        C = rng.standard_normal((n, r)) + 4 * rng.standard_normal((k, r))[rng.integers(k, size=n)] / np.sqrt(r)
        starts = starting_rows(Protocol(5, 500), n, k, None, rng)
        yield (
            "lloyd",
            f"{n}x{r} k={k}",
            {
                "ours": partial(lloyd, C, starts, 500),
                "sklearn lloyd": partial(sklearn_lloyd, C, starts, "lloyd"),
                "sklearn elkan": partial(sklearn_lloyd, C, starts, "elkan"),
            },
        )


def measure(contenders: dict[str, Contender]) -> dict[str, float]:
    """Return the median seconds of each contender, run in turn after one warm-up round."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for round_number in range(ROUNDS + 1):
        for name, run in contenders.items():
            with Stopwatch() as watch:
                run()
            if round_number:
                seconds[name].append(watch.seconds)
    return {name: median(values) for name, values in seconds.items()}


def main() -> None:
    """Measure everything, print a table and write the CSV."""
    folder = Path("results/bench")
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    print(f"code {code_version()}, {environment()['cpu']}, one thread, medians of {ROUNDS} rounds")
    with (folder / "bench.csv").open("w", newline="") as file, pinned(1):
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("kernel", "size", "contender", "seconds", "ratio_to_ours"))
        for family in (sparse_embedding, random_sign, singular_vectors, kmeans):
            for kernel, size, contenders in family(rng):
                found = measure(contenders)
                for name, seconds in found.items():
                    table.writerow((kernel, size, name, repr(seconds), repr(seconds / found["ours"])))
                others = ", ".join(f"{name} {s / found['ours']:.2f}" for name, s in found.items() if name != "ours")
                slower = [name for name, s in found.items() if s < found["ours"] and not name.startswith("limit")]
                lost = f"   <- slower than {', '.join(slower)}" if slower else ""
                print(f"{kernel:27} {size:18} {1e3 * found['ours']:8.2f} ms; ÷ ours: {others}{lost}", flush=True)
    print(folder / "bench.csv")


if __name__ == "__main__":
    main()
