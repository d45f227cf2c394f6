"""Measure the kernels against other libraries and against the limit, as ratios taken side by side in one run.

``python scripts/bench.py [KERNEL ...]`` writes ``results/bench/bench.csv`` and a figure: for each kernel and size the
median seconds of ours, of each peer and of the limit (reading the data once, or the bare matrix product), on one thread
and on two, and what the project asks of each ratio. Kernels that are named are measured anew in an older table, all by
default. All contenders of a case run in turn, round by round, so that a change of the machine's speed meets them alike;
one that takes long is run fewer times, and the table says how often. Where there are at least six rounds, the table has
the least and the largest ratio of a round.

At the end it prints what got slower since the committed bench. As machines differ, the seconds of ours are taken as
multiples of a calibration, fixed work of the same rounds, and where the committed table has none, of each contender
that both tables have.
"""

import argparse
import gc
import importlib.util
import io
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from operator import matmul
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl
import numba
import numpy as np
import pandas as pd
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg
from numba.core.event import install_recorder
from sklearn.cluster import KMeans
from sklearn.neighbors import kneighbors_graph
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection
from sklearn.utils.extmath import randomized_svd
from threadpoolctl import threadpool_info

from kmdr.base.errors import UserError
from kmdr.base.provenance import code_version, environment
from kmdr.base.threads import pinned
from kmdr.base.timing import Stopwatch
from kmdr.clustering.kmeans import Protocol, lloyd, starting_rows
from kmdr.datasets import load
from kmdr.figures.canvas import fewer_colours, power_of_ten
from kmdr.figures.style import METADATA, print_style
from kmdr.linalg import Dense, count_sketch, fast_frobenius_svd, sketch_size, top_right_singular_vectors
from kmdr.reducers import FJLT, RandomSign, make
from kmdr.reducers.laplacian_score import heat_kernel_graph, laplacian_scores
from plain_loop import plain_loop

OUT = Path("results/bench")
COMMITTED = Path("results/reference/bench.csv")
CALIBRATION = "calibration"
# A kernel that takes this many times what it took is named: medians of rounds scatter by about a tenth.
SLOWER = 1.25
ROUNDS = 7
# A contender that takes less than this is run once more before each measurement, so that none finds its data in a cache
# where another had to bring it there.
SHORT = 0.1
# A contender that takes longer than this many seconds is run once, after no warm-up, and not again on two threads; one
# above a tenth of it is run three times.
LONG = 20.0
DENSE = ((1440, 1024), (11000, 256), (400, 10304), (20000, 4096))
CSR = ((15564, 47236, 65), (9619, 55197, 160), (500_000, 47236, 65))
Contender = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """Contenders for one job of one size.

    Attributes
    ----------
    size : str
    contenders : dict
        ``"ours"``, peers, and limits, whose names begin with "limit".
    asked : dict
        The most that ours may take, as a multiple of a contender (``"*"``: of the fastest peer).
    """

    size: str
    contenders: dict[str, Contender]
    asked: dict[str, float] = field(default_factory=dict)


# --- limits


@numba.njit(cache=True, nogil=True, fastmath=True)
def _sum(x: Dense) -> float:
    """Add up in four streams, which reads faster than one."""
    m = len(x) // 4
    sum0 = sum1 = sum2 = sum3 = 0.0
    for i in range(m):
        sum0 += x[i]
        sum1 += x[m + i]
        sum2 += x[2 * m + i]
        sum3 += x[3 * m + i]
    return sum0 + sum1 + sum2 + sum3


def read(*arrays: Dense) -> None:
    """Read arrays once."""
    for x in arrays:
        _sum(x.reshape(-1))


def read_and_write(arrays: tuple[Dense, ...], shape: tuple[int, int]) -> Dense:
    """Read arrays once and write a fresh result."""
    read(*arrays)
    return np.full(shape, 1.0)


@cache
def _calibration_data() -> tuple[Dense, Dense]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((400, 400)), rng.standard_normal(4_000_000)


def calibrate() -> None:
    """Do fixed work of a few ten milliseconds, half of it arithmetic and half of it reading memory."""
    square, line = _calibration_data()
    for _ in range(4):
        _ = square @ square
        read(line)


# --- kernels


def sparse_embedding(rng: np.random.Generator) -> Iterator[Case]:
    """Hash features into r columns: draw, then one pass."""
    reducer = make("sparse_embedding")
    for n, d in DENSE:
        A = rng.standard_normal((n, d))
        for r in (10, 30, 100, 300, 1000):
            bucket, sign = rng.integers(r, size=d), rng.choice([-1.0, 1.0], d)
            S = sp.csr_array((sign, (np.arange(d), bucket)), shape=(d, r))
            yield Case(
                f"{n}x{d} r={r}",
                {
                    "ours": partial(count_sketch, A, bucket, sign, r),
                    "ours, drawing": partial(reducer.reduce, A, r, rng, None),
                    "scipy product": partial(matmul, A, S),
                    "scipy clarkson_woodruff": partial(scipy.linalg.clarkson_woodruff_transform, A.T, r, rng=rng),
                    "sklearn sparse projection": partial(SparseRandomProjection(min(r, d)).fit_transform, A),
                    "limit: read A, write C": partial(read_and_write, (A,), (n, r)),
                },
                {"limit: read A, write C": 5.0, "*": 0.1},
            )


def sparse_embedding_csr(rng: np.random.Generator) -> Iterator[Case]:
    """Hash the features of sparse data into r columns."""
    for n, d, row in CSR:
        indices = rng.integers(d, size=(n, row), dtype=np.int32)
        indices.sort(axis=1)
        A = sp.csr_array((rng.random(n * row), indices.ravel(), np.arange(0, n * row + 1, row, dtype=np.int32)), (n, d))
        for r in (10, 100, 1000):
            bucket, sign = rng.integers(r, size=d), rng.choice([-1.0, 1.0], d)
            S = sp.csr_array((sign, (np.arange(d), bucket)), shape=(d, r))
            yield Case(
                f"{n}x{d}, {row} a row, r={r}",
                {
                    "ours": partial(count_sketch, A, bucket, sign, r),
                    "scipy product": partial(matmul, A, S),
                    "sklearn sparse projection": partial(SparseRandomProjection(r, dense_output=True).fit_transform, A),
                    "limit: read A, write C": partial(read_and_write, (A.data, A.indices), (n, r)),
                },
                {"limit: read A, write C": 8.0 if r == 10 else 4.0, "*": 1.0},
            )


def random_sign(rng: np.random.Generator) -> Iterator[Case]:
    """Draw R and multiply."""
    reducer, mailman = RandomSign(), make("random_sign_mailman")
    for n, d in DENSE:
        A = rng.standard_normal((n, d))
        for r in (10, 100, 500, 1000):
            R = rng.standard_normal((d, r))
            yield Case(
                f"{n}x{d} r={r}",
                {
                    "ours": partial(reducer.reduce, A, r, rng, None),
                    "ours, mailman": partial(mailman.reduce, A, r, rng, None),
                    "sklearn gaussian projection": partial(GaussianRandomProjection(r).fit_transform, A),
                    "limit: A @ R": partial(matmul, A, R),
                },
                {"limit: A @ R": 0.7 if r >= 500 and d == 4096 else 1.08},
            )


def fjlt(rng: np.random.Generator) -> Iterator[Case]:
    """Rotate, then multiply by the sparse P."""
    n, d = DENSE[-1]
    A = rng.standard_normal((n, d))
    reducer = FJLT()
    for r in (10, 100, 500, 1000):
        R = rng.standard_normal((d, r))

        def rotate_and_multiply(r: int = r) -> Dense:
            return reducer.reduce(A, r, rng, reducer.prepare(A, 1, rng))

        yield Case(
            f"{n}x{d} r={r}",
            {"ours": rotate_and_multiply, "limit: A @ R": partial(matmul, A, R)},
            {"limit: A @ R": {100: 0.35, 1000: 0.08}.get(r, np.inf)},
        )


def decaying(n: int, d: int, rng: np.random.Generator) -> Dense:
    """Sixty directions of falling weight, and noise."""
    weights = 1.0 / np.sqrt(np.arange(1, 61))
    return (rng.standard_normal((n, 60)) * weights) @ rng.standard_normal((60, d)) + rng.standard_normal((n, d)) / 4


def singular_vectors(rng: np.random.Generator) -> Iterator[Case]:
    """Top k right singular vectors."""

    def gram_lanczos(A: Dense, k: int) -> Dense:
        G = A @ A.T if A.shape[0] <= A.shape[1] else A.T @ A
        return np.asarray(scipy.sparse.linalg.eigsh(G, k)[1])

    def block_krylov(A: Dense, k: int, q: int) -> Dense:
        """Rayleigh and Ritz on q powers of a block of k + 10 vectors (Musco, Musco 2015)."""
        Y = np.random.default_rng(0).standard_normal((A.shape[1], k + 10))
        blocks = [np.linalg.qr(Y)[0]]
        for _ in range(q):
            blocks.append(np.linalg.qr(A.T @ (A @ blocks[-1]))[0])
        Q, _ = np.linalg.qr(np.hstack(blocks))
        B = A @ Q
        return np.asarray(Q @ np.linalg.eigh(B.T @ B)[1][:, : -k - 1 : -1])

    def residual(A: Dense, V: Dense) -> float:
        Y = A @ V
        theta = np.square(Y).sum(axis=0)
        return float(np.linalg.norm(A.T @ Y - V * theta) / theta.max())

    def powers(A: Dense, k: int) -> int | None:
        """Return the fewest powers with which block Krylov's residual is near that of the others."""
        fit = (q for q in range(2, 13) if (q + 1) * (k + 10) <= min(A.shape))
        return next((q for q in fit if residual(A, block_krylov(A, k, q)) <= 1e-9), None)

    for n, d in (*DENSE, (184, 6314)):
        A = decaying(n, d, rng)
        full = skip_if_slow(partial(np.linalg.svd, A, full_matrices=False))
        for k in (3, 20, 68):
            q = powers(A, k)
            yield Case(
                f"{n}x{d} k={k}",
                {
                    "ours": partial(top_right_singular_vectors, A, k),
                    "numpy svd": full,
                    **({"block Krylov": partial(block_krylov, A, k, q)} if q else {}),
                    "Gram + Lanczos": partial(gram_lanczos, A, k),
                    "scipy ARPACK": partial(scipy.sparse.linalg.svds, A, k, solver="arpack"),
                    # Not of equal residual: PROPACK stops at 1e-8 or so, and a sketch after a few power iterations.
                    "scipy PROPACK": partial(scipy.sparse.linalg.svds, A, k, solver="propack"),
                    "sklearn randomized_svd": partial(randomized_svd, A, k, random_state=0),
                },
                {"numpy svd": 1 / 8, **dict.fromkeys(("Gram + Lanczos", "scipy ARPACK", "block Krylov"), 1.2)},
            )


def frobenius_svd(rng: np.random.Generator) -> Iterator[Case]:
    """Sketch the top k right singular vectors, R drawn."""

    def literal(A: Dense, k: int) -> Dense:
        """FastFrobeniusSVD written as the paper's box."""
        Q, _ = np.linalg.qr(A @ rng.standard_normal((A.shape[1], sketch_size(k, 1 / 3))))
        return np.asarray(np.linalg.svd(Q.T @ A, full_matrices=False)[2][:k])

    for n, d in (*DENSE, (184, 6314)):
        A = decaying(n, d, rng)
        for k in (3, 20, 68):
            yield Case(
                f"{n}x{d} k={k}",
                {
                    "ours": partial(fast_frobenius_svd, A, k, 1 / 3, rng),
                    "QR and SVD as written": partial(literal, A, k),
                    "sklearn randomized_svd": partial(randomized_svd, A, k, n_iter=0, random_state=0),
                },
                {"QR and SVD as written": 0.6},
            )


def laplacian_score(rng: np.random.Generator) -> Iterator[Case]:
    """Score every feature, graph included."""

    def ours(A: Dense) -> Dense:
        return laplacian_scores(A, heat_kernel_graph(A, 5, np.random.default_rng(0)))

    def skfeature(A: Dense) -> Dense:
        from skfeature.function.similarity_based.lap_score import lap_score
        from skfeature.utility.construct_W import construct_W

        graph = construct_W(A, metric="euclidean", neighbor_mode="knn", weight_mode="heat_kernel", k=5, t=10.0)
        return np.asarray(lap_score(A, mode="feature weight", W=graph))

    def products(A: Dense) -> None:
        B = A.astype(np.float32)
        for start in range(0, len(B), 2048):
            _ = B[start : start + 2048] @ B.T

    for n in (1400, 5000, 11000, 50000):
        A = rng.standard_normal((n, 256)) + 2 * rng.standard_normal((10, 256))[rng.integers(10, size=n)]
        contenders: dict[str, Contender] = {
            "ours": partial(ours, A),
            "sklearn kneighbors_graph alone": partial(kneighbors_graph, A, 5, mode="distance"),
            "limit: float32 products": partial(products, A),
        }
        if importlib.util.find_spec("skfeature") and n <= 11000:  # 59 GB beyond
            contenders["skfeature lap_score"] = partial(skfeature, A)
        asked = {"skfeature lap_score": 1 / 18, "limit: float32 products": 1.3} if n == 11000 else {}
        yield Case(f"{n}x256", contenders, asked)


def sklearn_lloyd(C: Any, starts: Dense, max_iter: int, algorithm: str, estimator: Any = KMeans) -> None:
    """Run scikit-learn, or an estimator with its parameters, from the same centres."""
    for rows in starts:
        init = C[rows].toarray() if sp.issparse(C) else C[rows]
        estimator(len(rows), init=init, n_init=1, max_iter=max_iter, tol=0, algorithm=algorithm).fit(C)


def _blas_threads() -> int:
    return max(int(pool["num_threads"]) for pool in threadpool_info())


def sklearnex_lloyd(C: Dense, starts: Dense, max_iter: int) -> None:
    """Run scikit-learn-intelex from the same centres, on as many threads as BLAS has."""
    from daal4py import daalinit
    from sklearnex.cluster import KMeans as Accelerated

    daalinit(_blas_threads())
    sklearn_lloyd(C, starts, max_iter, "lloyd", Accelerated)


def faiss_kmeans(C: Dense, starts: Dense, max_iter: int) -> None:
    """Run faiss (float32) from the same centres for as many iterations; it does not stop early."""
    import faiss

    B = C.astype(np.float32)
    for rows in starts:
        kmeans = faiss.Kmeans(
            C.shape[1], len(rows), niter=max_iter, max_points_per_centroid=len(C), min_points_per_centroid=1
        )
        kmeans.train(B, init_centroids=B[rows])
        kmeans.index.search(B, 1)


def kmeans(rng: np.random.Generator) -> Iterator[Case]:
    """Five starts of Lloyd to strict convergence, or for 20 iterations of 500,000 points."""
    sizes = [
        *((1000, r, 5) for r in (5, 20, 100)),
        *((1440, r, 20) for r in (5, 20, 100)),
        *((2856, r, 68) for r in (5, 20, 100)),
        *((11000, r, 10) for r in (5, 20, 100)),
        *((50000, r, 20) for r in (20, 100)),
        *((500_000, r, k) for r, k in ((5, 5), (20, 20), (100, 68))),
    ]
    for n, r, k in sizes:
        max_iter = 500 if n < 500_000 else 20
        C = rng.standard_normal((n, r)) + 4 * rng.standard_normal((k, r))[rng.integers(k, size=n)] / np.sqrt(r)
        starts = starting_rows(Protocol(5, max_iter), n, k, None, rng)
        contenders: dict[str, Contender] = {
            "ours": partial(lloyd, C, starts, max_iter),
            "sklearn lloyd": partial(sklearn_lloyd, C, starts, max_iter, "lloyd"),
            "sklearn elkan": partial(sklearn_lloyd, C, starts, max_iter, "elkan"),
        }
        if importlib.util.find_spec("faiss") and n == 500_000:
            contenders["faiss float32"] = partial(faiss_kmeans, C, starts, max_iter)
        yield Case(f"{n}x{r} k={k}", contenders, {"sklearn lloyd": 0.3 if n <= 1440 and r <= 20 else 0.6})


def kmeans_peers(rng: np.random.Generator) -> Iterator[Case]:
    """Ten iterations of Lloyd on 20,000 points against the fastest libraries, in both precisions."""
    n, max_iter = 20_000, 10
    for r, k in ((r, k) for r in (5, 32, 256, 1024) for k in (10, 100, 1000)):
        C = rng.standard_normal((n, r)) + 4 * rng.standard_normal((k, r))[rng.integers(k, size=n)] / np.sqrt(r)
        starts = starting_rows(Protocol(1, max_iter), n, k, None, rng)
        contenders: dict[str, Contender] = {"ours": partial(lloyd, C, starts, max_iter)}
        for data, precision in ((C, "float64"), (C.astype(np.float32), "float32")):
            contenders[f"sklearn {precision}"] = partial(sklearn_lloyd, data, starts, max_iter, "lloyd")
            if importlib.util.find_spec("sklearnex"):
                contenders[f"sklearnex {precision}"] = partial(sklearnex_lloyd, data, starts, max_iter)
        contenders["ours, float32 data"] = partial(lloyd, C.astype(np.float32), starts, max_iter)
        if importlib.util.find_spec("faiss"):
            contenders["faiss float32"] = partial(faiss_kmeans, C, starts, max_iter)
        yield Case(f"{n}x{r} k={k}", contenders, {"*": 1.05})


def sparse_kmeans(A: Any, k: int, max_iter: int) -> None:
    """Run sparsekmeans, which has no argument for centres and draws its own, on as many threads as BLAS has."""
    from sparsekmeans import LloydKmeans

    LloydKmeans(n_clusters=k, n_threads=_blas_threads(), max_iter=max_iter, tol=0, random_state=0).fit(sp.csr_matrix(A))


def kmeans_csr(rng: np.random.Generator) -> Iterator[Case]:
    """One start of Lloyd on RCV1-like text with all its features."""
    A = load("rcv1_like").A
    starts = starting_rows(Protocol(1, 30), A.shape[0], 53, None, rng)
    contenders: dict[str, Contender] = {
        "ours": partial(lloyd, A, starts, 30),
        "sklearn lloyd": partial(sklearn_lloyd, A, starts, 30, "lloyd"),
        "sklearn elkan": partial(sklearn_lloyd, A, starts, 30, "elkan"),
    }
    if importlib.util.find_spec("sparsekmeans"):
        contenders["sparsekmeans"] = partial(sparse_kmeans, A, 53, 30)
    yield Case(f"{A.shape[0]}x{A.shape[1]} k=53", contenders, {"sklearn lloyd": 0.2, "sklearn elkan": 1.0})


def bzmd15(rng: np.random.Generator) -> Iterator[Case]:
    """Figures 1–3 of bzmd15, every available dataset: kmdr on one worker, on two, and a plain loop."""
    del rng
    data = []
    for name in ("synth", "usps", "coil20", "light", "pie", "orl_64x64"):
        with suppress(UserError):  # not available here
            data.append(load(name))

    def kmdr(workers: int, repeats: int = 5, *overrides: str) -> None:  # as many as the loop makes
        with tempfile.TemporaryDirectory() as out:
            studies = "study=bzmd15_fig1,bzmd15_fig2,bzmd15_fig3"
            command = [
                sys.executable,
                "-m",
                "kmdr",
                "-m",
                studies,
                f"runner.n_jobs={workers}",
                f"repeats={repeats}",
                "timing_repeats=3",
                f"out={out}",
                *overrides,
            ]
            subprocess.run(command, check=True, capture_output=True)
            shutil.copy(Path(out) / "rows.csv", OUT / "bzmd15_ours.csv")

    def loop() -> None:
        rows = plain_loop(data)
        pd.DataFrame(rows).to_csv(OUT / "bzmd15_plain.csv", index=False)

    kmdr(2, 1, "r_grid=[5]")  # prepares the data and compiles the kernels
    yield Case(
        f"Figures 1-3, {len(data)} datasets",
        {"ours": partial(kmdr, 1), "ours, two workers": partial(kmdr, 2), "plain loop": loop},
        {"plain loop": 1 / 8},
    )


KERNELS: dict[str, Callable[[np.random.Generator], Iterator[Case]]] = {
    "sparse_embedding": sparse_embedding,
    "sparse_embedding_csr": sparse_embedding_csr,
    "random_sign": random_sign,
    "fjlt": fjlt,
    "singular_vectors": singular_vectors,
    "fast_frobenius_svd": frobenius_svd,
    "laplacian_score": laplacian_score,
    "lloyd": kmeans,
    "lloyd_peers": kmeans_peers,
    "lloyd_csr": kmeans_csr,
    "bzmd15": bzmd15,
}


# --- measuring


def skip_if_slow(run: Contender) -> Contender:
    """Return a contender that is run in the first case that has it and, if it took long, not again in later ones."""
    taken: list[float] = []

    def repeated() -> float | None:
        if taken and taken[0] > LONG:
            return taken[0]
        with Stopwatch() as watch:
            run()
        taken[:] = [watch.seconds]
        return watch.seconds

    return repeated


def measure(contenders: dict[str, Contender]) -> dict[str, list[float]]:
    """Return the seconds of each contender, run in turn, after a first round that warms up and tells who is slow.

    A first run in which Numba compiled is repeated, since compiling may take a hundred times what is measured.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    rounds = dict.fromkeys(contenders, 1)
    first: dict[str, float] = {}
    for number in range(ROUNDS + 1):
        for name, run in contenders.items():
            if number > rounds[name]:
                continue
            if number and first[name] < SHORT:
                run()
            with install_recorder("numba:compile") as compiled, Stopwatch() as watch:
                result = run()
            if compiled.buffer and not number:
                with Stopwatch() as watch:
                    result = run()
            taken = result if isinstance(result, float) else watch.seconds
            del result
            if not number:
                first[name] = taken
                rounds[name] = ROUNDS if taken < LONG / 10 else 3 if taken < LONG else 0
            if number or not rounds[name]:
                seconds[name].append(taken)
    return seconds


def _interval(values: list[float], ours: list[float]) -> tuple[float, float]:
    """Return the least and largest ratio of a round: for seven, a 98 % interval of the median; NaN below six."""
    ratios = [value / our for value, our in zip(values, ours, strict=False)]
    return (min(ratios), max(ratios)) if len(ratios) >= 6 else (np.nan, np.nan)


def rows_of(kernel: str, case: Case, threads: int, seconds: dict[str, list[float]]) -> list[dict[str, Any]]:
    """Return the table's rows of a case; ``asked`` is the most that ours may take, as a multiple of the contender."""
    medians = {name: median(values) for name, values in seconds.items()}
    peers = [name for name in medians if not name.startswith(("ours", "limit", CALIBRATION))]
    asked = {min(peers, key=medians.__getitem__) if name == "*" else name: most for name, most in case.asked.items()}
    return [
        {
            "kernel": kernel,
            "size": case.size,
            "threads": threads,
            "contender": name,
            "rounds": len(values),
            "seconds": medians[name],
            "ratio_to_ours": medians[name] / medians["ours"],
            **dict(zip(("ratio_low", "ratio_high"), _interval(values, seconds["ours"]), strict=True)),
            "asked": asked.get(name, np.nan) if threads == 1 else np.nan,
        }
        for name, values in seconds.items()
    ]


def missed(table: pd.DataFrame) -> list[str]:
    """Return what is asked and was not reached, a line each."""
    short: list[Any] = table[1 / table.ratio_to_ours > table.asked].to_dict("records")
    return [
        f"{row['kernel']} {row['size']}: {1 / row['ratio_to_ours']:.2f} × {row['contender']}, asked {row['asked']:.3g}"
        for row in short
    ]


def slowdowns(table: pd.DataFrame, before: pd.DataFrame) -> pd.Series:
    """Return how many times what it took ours takes, by kernel, size and threads, whatever machine either ran on.

    Parameters
    ----------
    table, before : DataFrame
        Tables of `main`. A case is compared where both have it, by the calibration if both have that, else by the
        median over all contenders that both have.

    Returns
    -------
    Series
        Sorted from the slowest.
    """
    case, contender = ["kernel", "size", "threads"], ["kernel", "size", "threads", "contender"]
    both = table.merge(before, on=contender, suffixes=("", "_before"))
    both = both[~both.contender.str.startswith("ours")]
    calibrated = both[both.contender == CALIBRATION]
    rest = both.merge(calibrated[case], how="left", on=case, indicator=True)
    used = pd.concat([calibrated, rest[rest._merge == "left_only"]])
    return (
        (used.ratio_to_ours_before / used.ratio_to_ours)
        .groupby([used[name] for name in case])
        .median()
        .sort_values(ascending=False)
    )


def slower(table: pd.DataFrame) -> list[str]:
    """Return what got slower since the committed bench, a line each, and the kernels' geometric means."""
    if not COMMITTED.exists():
        return [f"{COMMITTED} is not there, so nothing is compared with it"]
    factors = slowdowns(table, pd.read_csv(COMMITTED))
    kernels = np.exp(np.log(factors).groupby("kernel", sort=False).mean())
    cases: list[Any] = factors[factors > SLOWER].reset_index(name="factor").to_dict("records")
    return [
        *(
            "slower since the committed bench: {kernel} {size}, threads {threads}: {factor:.2f} ×".format(**row)
            for row in cases
        ),
        "time now ÷ then: " + ", ".join(f"{kernel} {factor:.2f}" for kernel, factor in kernels.items()),
    ]


def laplacian_peak() -> float:
    """Return the MiB that scoring a 50000×256 matrix takes above the data, in a fresh process."""
    code = (
        "import sys; sys.path.insert(0, 'scripts'); import numpy as np, bench; "
        "A = np.random.default_rng(0).standard_normal((50000, 256)); print(bench.peak_above(A))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return float(done.stdout)


def peak_above(A: Dense) -> float:
    """Return the growth of this process's peak memory in MiB while the features of A are scored."""

    def peak() -> float:
        # Of this program alone: getrusage starts with the peak of the parent process.
        (line,) = (text for text in Path("/proc/self/status").read_text().splitlines() if text.startswith("VmHWM"))
        return int(line.split()[1]) / 1024

    small = A[:500].copy()
    laplacian_scores(small, heat_kernel_graph(small, 5, np.random.default_rng(0)))  # compiled before
    before = peak()
    laplacian_scores(A, heat_kernel_graph(A, 5, np.random.default_rng(0)))
    return peak() - before


def objectives_agree() -> str:
    """Return, of kmdr's and the plain loop's F, how far their means over r and repetitions are apart."""
    keys = ["dataset", "reducer", "r", "repeat"]
    ours, plain = (pd.read_csv(OUT / f"bzmd15_{who}.csv").set_index(keys).objective for who in ("ours", "plain"))
    both: Any = pd.DataFrame({"ours": ours, "plain": plain}).dropna()
    assert len(both) == len(ours) == len(plain), "not the same trials"
    groups = (both.ours - both.plain).groupby(["dataset", "reducer"])
    z: Any = (groups.mean() / (groups.std() / np.sqrt(groups.size()))).fillna(0).abs()
    relative = (groups.mean() / both.plain.groupby(["dataset", "reducer"]).mean()).abs()
    worst = ", ".join(f"{'/'.join(name)} {relative[name]:.1e} ({z[name]:.1f})" for name in relative.nlargest(5).index)
    return f"bzmd15: largest relative differences of mean F, and in paired standard errors: {worst}"


def draw(table: pd.DataFrame) -> Path:
    """Draw every contender's time over ours, a panel for each kernel; left of 1 is where we lose."""
    mpl.use("agg")
    import matplotlib.pyplot as plt

    single = table[(table.threads == 1) & ~table.contender.isin(["ours", CALIBRATION])]
    kernels = list(dict.fromkeys(single.kernel))
    heights = [single[single.kernel == kernel]["size"].nunique() for kernel in kernels]
    with print_style():
        figure, axes = plt.subplots(
            len(kernels), 1, figsize=(7.0, 0.14 * sum(heights) + 0.75 * len(kernels)), squeeze=False,
            gridspec_kw={"height_ratios": heights}, sharex=True, layout="constrained",
        )  # fmt: skip
        for axis, kernel in zip(axes[:, 0], kernels, strict=True):
            panel = single[single.kernel == kernel]
            sizes = list(dict.fromkeys(panel["size"]))
            for number, (name, rows) in enumerate(panel.groupby("contender", sort=False)):
                limit = str(name).startswith("limit")
                axis.plot(
                    rows.ratio_to_ours, [sizes.index(size) for size in rows["size"]],
                    "|" if limit else "osv^Dd"[number % 6], color="black" if limit else f"C{number}", label=name,
                )  # fmt: skip
            axis.axvline(1, color="black", linewidth=0.6)
            axis.set(xscale="log", yticks=range(len(sizes)), yticklabels=sizes, title=kernel)
            axis.invert_yaxis()
            axis.legend(loc="center left", bbox_to_anchor=(1, 0.5))
        axes[-1, 0].xaxis.set_major_formatter(power_of_ten)
        axes[-1, 0].xaxis.set_minor_formatter("")
        axes[-1, 0].set_xlabel("time ÷ ours, one thread (left of 1: faster than ours)")
        path, picture = OUT / "bench.png", io.BytesIO()
        figure.savefig(picture, format="png", metadata=METADATA["png"])
        path.write_bytes(fewer_colours(picture))
        plt.close(figure)
    return path


def main() -> None:
    """Measure what is named, or everything; print a table, write the CSV and the figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help=", ".join(KERNELS))
    chosen = parser.parse_args().kernels
    names = chosen or list(KERNELS)
    if unknown := set(names) - set(KERNELS):
        sys.exit(f"bench: no kernel is named {', '.join(sorted(unknown))}; valid: {', '.join(KERNELS)}")
    OUT.mkdir(parents=True, exist_ok=True)
    print(f"code {code_version()}, {environment()['cpu']}, medians of up to {ROUNDS} rounds", flush=True)
    warnings.simplefilter("ignore")  # scikit-learn's, that r is larger than d
    table = pd.DataFrame()
    if chosen and (OUT / "bench.csv").exists():
        table = pd.read_csv(OUT / "bench.csv")
        table = table[~table.kernel.isin(names)]
    for kernel in names:
        slow: set[tuple[str, str]] = set()
        for threads in (1, 2) if kernel != "bzmd15" else (1,):
            for case in KERNELS[kernel](np.random.default_rng(0)):
                contenders = {
                    name: run
                    for name, run in {**case.contenders, CALIBRATION: calibrate}.items()
                    if (case.size, name) not in slow
                }
                with pinned(threads):
                    seconds = measure(contenders)
                gc.collect()
                slow |= {(case.size, name) for name, values in seconds.items() if values[0] > LONG and name != "ours"}
                rows = pd.DataFrame(rows_of(kernel, case, threads, seconds))
                ours = median(seconds["ours"])
                others = {
                    name: median(values) / ours for name, values in seconds.items() if name not in ("ours", CALIBRATION)
                }
                text = ", ".join(f"{name} {ratio:.2f}" for name, ratio in others.items())
                print(f"{kernel:21} {case.size:26} {threads} {1e3 * ours:9.2f} ms; ÷ ours: {text}")
                print("".join(f"    missed: {line}\n" for line in missed(rows)), end="", flush=True)
                table = pd.concat([table, rows], ignore_index=True)
                table.to_csv(OUT / "bench.csv", index=False)  # so that an interrupted run is not lost
    table["order"] = table.kernel.map(list(KERNELS).index)
    table = table.sort_values("order", kind="stable").drop(columns="order")
    table.to_csv(OUT / "bench.csv", index=False)
    lines = missed(table)
    print(f"{len(lines)} of what is asked was missed" + "".join(f"\n  {line}" for line in lines))
    dense = table[(table.kernel == "sparse_embedding") & (table.threads == 1)]
    ratios = 1 / dense[dense.contender.str.startswith("limit")].ratio_to_ours
    print(f"sparse_embedding: {np.exp(np.log(ratios).mean()):.2f} × the limit in the geometric mean, asked 3")
    print("\n".join(slower(table[table.kernel.isin(names)])))
    if "laplacian_score" in names:
        print(f"laplacian_score 50000x256: {laplacian_peak():.0f} MiB above the data, asked 300")
    if "bzmd15" in names:
        print(objectives_agree())
    print(f"{OUT / 'bench.csv'}\n{draw(table)}")


if __name__ == "__main__":
    main()
