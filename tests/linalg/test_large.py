"""Matrices that are too large to be copied: results against numpy on the whole, and what memory they take.

What is large is made small here, so that 32 MB as float64 are some dozens of blocks.
"""

import errno
import json
import os
import tracemalloc

import numpy as np
import pytest
from sklearn.preprocessing import normalize

from kmdr import reducers
from kmdr.base.text import canonical
from kmdr.clustering import kmeans
from kmdr.config.task import Task
from kmdr.datasets import Dataset, registry
from kmdr.harness.task import Provenance, run
from kmdr.linalg import (
    fast_frobenius_svd,
    matrix,
    mean_distance,
    nearest_neighbours,
    neighbours,
    squared_frobenius,
    top_right_singular_vectors,
)
from kmdr.metrics import objective, residual, residuals
from kmdr.reducers.laplacian_score import LaplacianScore, neighbour_graph, row_lengths
from kmdr.reducers.leverage import ridge_leverage_scores
from kmdr.reducers.selection import variances
from kmdr.reducers.singular_vectors import SVD, ApproximateSVD
from oracles import (
    frobenius_excess,
    lloyd_error,
    mean_distance_reference,
    nearest_neighbours_reference,
    singular_vectors_error,
)

SHAPES = [(900, 60), (60, 900), (300, 290)]
DTYPES = [np.float64, np.float32]


@pytest.fixture
def small_blocks(monkeypatch):
    """Let 1000 entries be large, and blocks of 500."""
    for name, size in (("WHOLE", 1000), ("BLOCK", 500), ("CACHED", 100)):
        monkeypatch.setattr(matrix, name, size)


def clustered(rng, n, d, dtype, spread=1.0):
    """Points of 6 clusters beside the origin, read-only as a mapped file is, and their clusters."""
    labels = np.arange(n) % 6
    A = (5 + 3 * rng.standard_normal((6, d))[labels] + spread * rng.standard_normal((n, d))).astype(dtype)
    A.flags.writeable = False
    return A, labels


def test_every_committed_dense_dataset_is_passed_over_whole():
    """Their rows were made so, and blocks would change the last bits."""
    largest = registry.entry("coil20_128x128")
    assert largest.n * largest.d <= matrix.WHOLE
    A = np.zeros((4, 3))
    ((rows, block),) = matrix.row_blocks(A)
    assert rows == slice(0, 4)
    assert np.shares_memory(block, A)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_blocks_are_the_matrix(n, d, dtype, small_blocks, rng):
    A, _ = clustered(rng, n, d, dtype)
    parts = list(matrix.row_blocks(A))
    assert len(parts) > 10
    assert all(part.dtype == np.float64 and part.size <= max(500, d) for _, part in parts)
    np.testing.assert_array_equal(np.vstack([part for _, part in parts]), A)
    np.testing.assert_array_equal(np.hstack([part for _, part in matrix.panels(A)]), A)
    np.testing.assert_array_equal(np.vstack([A[rows] for rows, _ in parts]), A)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_sums_over_blocks_are_those_of_numpy(n, d, dtype, small_blocks, rng):
    A, labels = clustered(rng, n, d, dtype)
    B = A.astype(np.float64)
    assert squared_frobenius(A) == pytest.approx(np.sum(B**2), rel=1e-13)
    np.testing.assert_allclose(matrix.column_means(A), B.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(variances(A), B.var(axis=0), rtol=1e-12)
    wrong = rng.permutation(labels)
    for partition in (labels, wrong, np.zeros(n, np.int64), 7 * labels):
        means = np.array([B[partition == c].mean(axis=0) for c in partition])
        expected = np.sum((B - means) ** 2)
        assert residual(A, partition) == pytest.approx(expected, rel=1e-11)
        assert objective(A, partition) == pytest.approx(expected / np.sum(B**2), rel=1e-11)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spread", [1.0, 1e-4])
def test_partitions_of_large_data_that_are_scored_together_get_what_each_gets_alone(
    dtype, spread, small_blocks, monkeypatch, rng
):
    """The tight clusters leave too little of ‖A‖² for it to be computed as a difference."""
    A, labels = clustered(rng, 300, 40, dtype, spread)
    partitions = [labels, labels // 2, labels // 3]
    monkeypatch.setattr("kmdr.metrics.kernels._SUMS", 2 * 6 * 40)  # two partitions a read
    _, _, total = matrix.normalised(A)
    together = residuals(A, partitions, total)
    for (value, error), partition in zip(together, partitions, strict=True):
        assert value == pytest.approx(residual(A, partition), rel=1e-12)
        means = np.array([A[partition == c].mean(axis=0, dtype=np.float64) for c in partition])
        assert value == pytest.approx(np.sum((A - means) ** 2), rel=1e-11, abs=error)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_singular_vectors_of_blocks_are_those_of_numpy(n, d, dtype, small_blocks, rng):
    A, _ = clustered(rng, n, d, dtype)
    V = top_right_singular_vectors(A, 6)
    expected = np.linalg.svd(A.astype(np.float64), full_matrices=False)[2][:6].T
    np.testing.assert_allclose(V @ V.T, expected @ expected.T, atol=1e-11)
    best = np.linalg.svd(A.astype(np.float64), compute_uv=False)[:6]
    Z = fast_frobenius_svd(A, 6, 0.9, np.random.default_rng(0))
    np.testing.assert_allclose(Z.T @ Z, np.eye(6), atol=1e-11)
    assert -1e-9 < frobenius_excess(A.astype(np.float64), Z, best) < 0.9


@pytest.mark.parametrize(("n", "d"), [(900, 60), (60, 900), (1200, 700)])
def test_what_a_gram_matrix_squares_away_is_found_in_blocks_too(n, d, small_blocks, rng):
    """700 is beyond LAPACK's side, so that another route finds the small singular values."""
    s = np.logspace(0, -6, 8)
    U, V = (np.linalg.qr(rng.standard_normal((m, 8)))[0] for m in (n, d))
    A = (U * s) @ V.T
    found = top_right_singular_vectors(A, 8)
    np.testing.assert_allclose(np.abs(np.einsum("ij,ij->j", found, V)), 1.0, atol=1e-8)
    assert singular_vectors_error(A, found)[1] < 1e-12
    Z = fast_frobenius_svd(A, 8, 0.9, np.random.default_rng(0))
    np.testing.assert_allclose(Z @ Z.T, V @ V.T, atol=1e-8)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("solver", ["kmdr", "lapack"])
@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_singular_vectors_of_centred_blocks_are_those_of_numpy(n, d, solver, dtype, small_blocks, rng):
    A, _ = clustered(rng, n, d, dtype)
    centred = A - A.mean(axis=0, dtype=np.float64)
    expected = np.linalg.svd(centred, full_matrices=False)[2][:4].T
    V, shift = SVD(rank="r", centred=True, solver=solver).draw(A, 4, rng, None)
    np.testing.assert_allclose(V @ V.T, expected @ expected.T, atol=1e-10)
    np.testing.assert_allclose(shift, A.mean(axis=0, dtype=np.float64) @ V, atol=1e-9)
    Z, _ = ApproximateSVD(rank="r", centred=True).draw(A, 4, rng, None)
    best = np.linalg.svd(centred, compute_uv=False)[:4]
    assert -1e-9 < frobenius_excess(centred, Z, best) < 1 / 3


def test_columns_of_a_shifted_matrix_are_rows_of_its_transpose(small_blocks, rng):
    A = rng.standard_normal((70, 90))
    shifted = matrix.Shifted(A, A.mean(axis=0)[None])
    np.testing.assert_array_equal(np.hstack([part for _, part in matrix.panels(shifted)]), A - A.mean(axis=0))
    assert squared_frobenius(shifted) == pytest.approx(np.sum((A - A.mean(axis=0)) ** 2), rel=1e-13)


@pytest.mark.parametrize(("n", "d"), [(900, 60), (60, 900)])
def test_ridge_leverage_scores_of_blocks_are_those_of_the_definition(n, d, small_blocks, rng):
    A = clustered(rng, n, d, np.float32)[0]
    B = A.astype(np.float64)
    ridge = np.sum(np.linalg.svd(B, compute_uv=False)[5:] ** 2) / 5
    expected = np.einsum("ij,ij->j", B, np.linalg.solve(B @ B.T + ridge * np.eye(n), B))
    np.testing.assert_allclose(ridge_leverage_scores(A, 5), expected, rtol=1e-9)


@pytest.mark.parametrize("dtype", DTYPES)
def test_neighbours_from_blocks_are_those_of_all_distances(dtype, small_blocks, rng):
    A, _ = clustered(rng, 700, 30, dtype)
    indices, distances = nearest_neighbours(A, 4)
    expected, lengths = nearest_neighbours_reference(A, 4)
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_allclose(distances, lengths, rtol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_neighbours_by_cosine_from_blocks_are_those_of_rows_made_unit(dtype, small_blocks, rng):
    A, _ = clustered(rng, 700, 30, dtype)
    A = A * rng.uniform(0.1, 10, 700)[:, None].astype(dtype)
    A[0] = 0
    expected, lengths = nearest_neighbours_reference(normalize(A), 4)
    W = neighbour_graph(A, 4, "cosine", "kernel")
    indices, _ = nearest_neighbours(A, 4, row_lengths(A))
    np.testing.assert_array_equal(indices[1:], expected[1:])  # all others are as far from 0
    cosines = [W[[i], neighbours] for i, neighbours in enumerate(expected)][1:]
    np.testing.assert_allclose(cosines, 1 - lengths[1:] ** 2 / 2, atol=1e-12)
    assert W[[0]].sum() == 0


def test_a_mean_distance_from_blocks_is_that_of_all(small_blocks, rng):
    A, _ = clustered(rng, 700, 30, np.float32)
    assert mean_distance(A) == pytest.approx(mean_distance_reference(A), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_laplacian_scores_copy_no_large_matrix(metric, monkeypatch, rng):
    """As numpy counts: half of the matrix is 8 MB."""
    A, _ = clustered(rng, 2048, 2048, np.float32)
    for name, size in (("WHOLE", 2**16), ("BLOCK", 2**14)):
        monkeypatch.setattr(matrix, name, size)
    monkeypatch.setattr(neighbours, "_TILE_DENSE", (32, 32))
    scoring = LaplacianScore(n_neighbors=5, width_sample=None, metric=metric)
    scoring.prepare(A, 6, rng)  # compiles
    tracemalloc.start()
    scoring.prepare(A, 6, rng)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < A.nbytes / 2


@pytest.mark.slow
def test_lloyd_without_a_copy_finds_what_it_finds_with_one(monkeypatch, rng):
    A, _ = clustered(rng, 2000, 24, np.float32, spread=6.0)
    starts = np.array([rng.choice(2000, 6, replace=False) for _ in range(3)])
    whole = kmeans.lloyd(A, starts, 100)
    for name, size in (("WHOLE", 1000), ("BLOCK", 500)):
        monkeypatch.setattr(matrix, name, size)
    large = kmeans.lloyd(A, starts, 100)
    assert whole.n_iter > 3
    np.testing.assert_array_equal(large.labels, whole.labels)
    assert (large.n_iter, large.n_init_failed) == (whole.n_iter, whole.n_init_failed)
    assert large.inertia == pytest.approx(whole.inertia, rel=1e-13)
    assert lloyd_error(A, large.labels) < 1e-9
    np.testing.assert_array_equal(
        kmeans.lloyd(np.asfortranarray(A), starts, 100).labels, whole.labels, "whatever its layout"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reducer", "params"),
    [
        ("sparse_embedding", {}),
        ("random_sign", {}),
        ("srht", {}),
        ("variance", {}),
        ("svd", {"rank": "k", "centred": False, "solver": "kmdr"}),
        ("svd", {"rank": "r", "centred": True, "solver": "kmdr"}),
        ("approx_svd", {"rank": "k", "svd_eps": 1 / 3}),
        ("leverage", {"centred": False, "merged": False, "rescaled": True, "solver": "kmdr"}),
        ("leverage_approx", {"svd_eps": 1 / 3, "centred": True}),
        ("ridge_leverage", {}),
        ("none", {}),
    ],
)
def test_no_trial_copies_a_large_matrix(reducer, params, monkeypatch, rng):
    """As numpy counts: half of the matrix would be 4 MB, its float64 form 16 MB."""
    A, labels = clustered(rng, 16384, 128, np.float32)
    for name, size in (("WHOLE", 2**16), ("BLOCK", 2**14)):
        monkeypatch.setattr(matrix, name, size)
    data = Dataset("large", A, labels, 6, "0" * 64, "", "memory")
    protocol = kmeans.Protocol(n_init=1, max_iter=10)
    task = Task("", "large", "0" * 64, "", reducer, canonical(params), 6, (4,), 0, 0, protocol, True)
    run(task, data, Provenance(1, 1, "", ""))  # compiles
    tracemalloc.start()
    (row,) = run(task, data, Provenance(1, 1, "", ""))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert row["status"] == "ok", row.get("error")
    assert json.loads(row["params"]) == params
    assert peak < A.nbytes / 2


# --- results that are too large


def mapped(array):
    """Whether an array, or what it is a view of, is mapped from a file."""
    return array is not None and (isinstance(array, np.memmap) or mapped(getattr(array, "base", None)))


@pytest.fixture
def little_memory(monkeypatch, tmp_path):
    """Let 4 KB be a sixteenth of all memory, and return the folder of temporary files."""
    monkeypatch.setattr(matrix, "_HELD", 0)
    monkeypatch.setattr(matrix, "memory", lambda: 2**16)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


METHODS = [
    *("sparse_embedding", "osnap", "random_sign", "random_sign_mailman", "gaussian", "achlioptas", "srht", "fjlt"),
    *("sparsified", "variance", "leverage_approx", "svd"),
]


@pytest.mark.parametrize("name", METHODS)
def test_a_c_that_would_fill_memory_lies_in_a_file_without_a_name(name, little_memory, small_blocks, rng):
    A, _ = clustered(rng, 900, 60, np.float32)
    dense = {"c": 100.0} if name == "fjlt" else {}  # whose mixture is dense then
    reducer, images = reducers.make(name, dense), []
    for there in (2**40, 2**16):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(matrix, "memory", lambda there=there: there)
            prepared = reducer.prepare(A, 6, np.random.default_rng(1))
            images.append(reducer.reduce(A, 20, np.random.default_rng(2), prepared))
    of_memory, of_file = (image if isinstance(image, np.ndarray) else image.data for image in images)
    assert not mapped(of_memory)
    assert mapped(of_file)
    np.testing.assert_array_equal(of_memory, of_file)
    assert not isinstance(of_file, np.memmap)  # so that kernels are compiled for one type
    assert not list(little_memory.iterdir())


def test_a_c_for_which_no_disk_has_room_is_held_in_memory(little_memory, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    assert mapped(matrix.room((1000, 2), np.float32))
    monkeypatch.setattr(os, "posix_fallocate", full)
    assert not mapped(matrix.room((1000, 2), np.float32))
    monkeypatch.undo()
    assert not mapped(matrix.room((1000, 2), np.float32))  # which is small


def test_without_a_folder_for_temporary_files_a_large_c_lies_in_the_cache(little_memory, monkeypatch):
    asked = []

    def refuse(**where):
        asked.append(where["dir"])
        raise FileNotFoundError

    monkeypatch.delenv("TMPDIR")
    monkeypatch.setenv("KMDR_CACHE", str(little_memory / "cache"))
    monkeypatch.setattr(matrix, "TemporaryFile", refuse)
    assert not mapped(matrix.room((1000, 2), np.float32))
    assert asked == [little_memory / "cache"]
