"""Nearest neighbours and mean distances: against scikit-learn, closed forms, and plain float64."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import NearestNeighbors

from kmdr.base.threads import pinned
from kmdr.linalg import neighbours
from kmdr.linalg.neighbours import mean_distance, nearest_neighbours
from oracles import mean_distance_reference, nearest_neighbours_error, nearest_neighbours_reference


@pytest.fixture
def small_tiles(monkeypatch):
    """Many tiles on few points."""
    monkeypatch.setattr(neighbours, "_TILE_DENSE", (32, 32))
    monkeypatch.setattr(neighbours, "_TILE_CSR", (16, 48))


def sparse_data(rng, n, d, density=0.1):
    return sp.csr_array(rng.standard_normal((n, d)) * (rng.random((n, d)) < density))


def assert_equal_neighbours(A, n_neighbors):
    indices, distances = nearest_neighbours(A, n_neighbors)
    expected, lengths = nearest_neighbours_reference(A, n_neighbors)
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_allclose(distances, lengths, rtol=1e-12)


@pytest.mark.parametrize("n_neighbors", [1, 5, 12])
def test_agrees_with_scikit_learn(n_neighbors, rng):
    A = rng.standard_normal((700, 30))
    indices, distances = nearest_neighbours(A, n_neighbors)
    lengths, expected = NearestNeighbors(n_neighbors=n_neighbors, algorithm="kd_tree").fit(A).kneighbors()
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_allclose(distances, lengths, rtol=1e-12)
    assert indices.shape == distances.shape == (700, n_neighbors)
    assert indices.dtype == np.int64
    assert distances.dtype == np.float64


@pytest.mark.parametrize("n", [2, 3, 9, 31, 32, 33, 64, 97])
def test_block_boundaries(n, rng, small_tiles):
    for n_neighbors in {1, min(5, n - 1), n - 1}:
        assert_equal_neighbours(rng.standard_normal((n, 6)), n_neighbors)
        assert_equal_neighbours(sparse_data(rng, n, 40), n_neighbors)


@pytest.mark.parametrize("n", [511, 512, 513])
def test_tiles_as_they_are(n, rng):
    assert_equal_neighbours(rng.standard_normal((n, 5)), 4)


def test_layouts_agree(rng):
    A = (rng.standard_normal((200, 80)) * (rng.random((200, 80)) < 0.1)).astype(np.float32)
    assert_equal_neighbours(A, 5)
    expected, lengths = nearest_neighbours(A, 5)
    read_only = A.copy()
    read_only.flags.writeable = False
    wide = sp.csr_array(A)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    coo = sp.coo_array(A)
    halves = sp.csr_array((np.repeat(coo.data / 2, 2), np.repeat(coo.col, 2), 2 * sp.csr_array(A).indptr), A.shape)
    filled = sp.csr_array(A + 1)  # denser than is multiplied as sparse
    strided = np.repeat(A, 2, axis=1)[:, ::2]
    for other in (A.astype(np.float64), np.asfortranarray(A), read_only, strided, sp.csr_array(A), wide, halves):
        indices, distances = nearest_neighbours(other, 5)
        np.testing.assert_array_equal(indices, expected)
        np.testing.assert_allclose(distances, lengths, rtol=1e-12)
    assert_equal_neighbours(filled, 5)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("shape", [(200, 1), (150, 2), (120, 9)])
def test_ties_go_to_the_lowest_index(layout, shape, rng, small_tiles):
    grid = rng.integers(0, 3, shape).astype(np.float64)  # distances are exact, most of them tied, many points equal
    assert_equal_neighbours(layout(grid), 4)
    squares = ((grid[:, None] - grid) ** 2).sum(axis=2)
    np.fill_diagonal(squares, np.inf)
    np.testing.assert_array_equal(nearest_neighbours(layout(grid), 4)[0], squares.argsort(kind="stable")[:, :4])


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("value", [0.0, 0.1, 1e6])
def test_equal_points(layout, value):
    indices, distances = nearest_neighbours(layout(np.full((90, 7), value)), 3)
    np.testing.assert_array_equal(distances, 0)
    np.testing.assert_array_equal(indices[:5], [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2], [0, 1, 2]])
    np.testing.assert_array_equal(indices[4:], np.tile([0, 1, 2], (86, 1)))
    assert mean_distance(layout(np.full((90, 7), value))) == 0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_far_from_the_origin(dtype, rng, small_tiles):
    A = (1e6 + rng.integers(-500, 500, (200, 8)) / (1e3 if dtype == np.float64 else 1)).astype(dtype)
    assert_equal_neighbours(A, 5)
    np.testing.assert_allclose(mean_distance(A), mean_distance_reference(A), rtol=1e-12)
    outlier = rng.standard_normal((200, 8))
    outlier[7] = 1e9  # leaves all other points within the error bound of float32
    assert_equal_neighbours(outlier.astype(dtype), 5)


@pytest.mark.parametrize("scale", [1e-150, 1e-30, 1e30, 1e150])
def test_scale_does_not_matter(scale, rng):
    A = rng.standard_normal((100, 9))
    indices, distances = nearest_neighbours(A * scale, 5)
    np.testing.assert_array_equal(indices, nearest_neighbours(A, 5)[0])
    np.testing.assert_allclose(distances, scale * nearest_neighbours(A, 5)[1], rtol=1e-9)


def test_more_points_within_rounding_than_candidates(rng, small_tiles):
    # Corners of a simplex, moved less than float32 can tell: all 150 points are candidates of each other.
    A = np.eye(150) + 1e-9 * rng.standard_normal((150, 150))
    assert_equal_neighbours(A, 5)
    assert_equal_neighbours(sp.csr_array(np.eye(150)), 5)


def test_empty_rows(rng):
    A = sparse_data(rng, 60, 50).toarray()
    A[[0, 5, 59]] = 0
    assert_equal_neighbours(sp.csr_array(A), 4)
    assert_equal_neighbours(sp.csr_array((20, 30)), 3)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_threads_do_not_change_the_result(layout, rng, small_tiles):
    A = np.r_[sparse_data(rng, 150, 40).toarray(), rng.integers(0, 2, (150, 40))]
    first, mean = nearest_neighbours(layout(A), 5), mean_distance(layout(A))
    with pinned(2):
        second = nearest_neighbours(layout(A), 5)
        assert mean_distance(layout(A)) == mean
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1], second[1])


@pytest.mark.parametrize("n_neighbors", [0, -1, 10, 11])
def test_a_number_that_cannot_be_given_is_refused(n_neighbors, rng):
    with pytest.raises(ValueError, match=f"n_neighbors = {n_neighbors} is outside"):
        nearest_neighbours(rng.standard_normal((10, 3)), n_neighbors)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_the_error_finds_a_planted_mistake(layout, rng):
    A = layout(sparse_data(rng, 80, 60).toarray())
    indices, distances = nearest_neighbours(A, 6)
    assert nearest_neighbours_error(A, indices, distances, rng, 80) < 1e-14
    for kind, least in (("distance", 1e-6), ("far", 1e-3), ("self", np.inf), ("twice", np.inf)):
        i, x = indices.copy(), distances.copy()
        if kind == "distance":
            x[17, 3] *= 1 + 1e-4
        elif kind == "far":
            every = pairwise_distances(A)[17]
            i[17, 5] = every.argmax()
            x[17, 5] = every.max()
        elif kind == "self":
            i[17, 0] = 17
        else:
            i[17, 1] = i[17, 0]
        assert nearest_neighbours_error(A, i, x, rng, 80) >= least


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("n", [1, 2, 33, 130])
def test_mean_distance(layout, n, rng, small_tiles):
    A = sparse_data(rng, n, 50).toarray()
    A[n // 2 :] = A[: n - n // 2] + 1e-7 * (A[: n - n // 2] != 0)  # pairs whose distance is lost in ‖x‖² + ‖y‖² − 2xᵀy
    expected = np.mean([[np.linalg.norm(x - y) for x in A] for y in A])
    np.testing.assert_allclose(mean_distance(layout(A)), expected, rtol=1e-12, atol=0)
    np.testing.assert_allclose(mean_distance_reference(layout(A)), expected, rtol=1e-12, atol=0)
    single = layout(A.astype(np.float32))
    np.testing.assert_allclose(mean_distance(single), mean_distance_reference(single), rtol=1e-12, atol=0)


def test_mean_distance_of_a_line():
    # Points 0 … n − 1: the mean of |i − j| over all ordered pairs is (n² − 1)/(3n).
    np.testing.assert_allclose(mean_distance(np.arange(700.0)[:, None]), (700**2 - 1) / 2100, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_tight_clusters_far_apart_are_screened_again_in_float64(dtype, monkeypatch, rng):
    # Within a cluster all distances are below what float32 products can tell apart.
    A = (1000 * rng.random((5, 300))[np.arange(200) % 5] + rng.standard_normal((200, 300))).astype(dtype)
    kinds = []
    real = neighbours._candidates
    monkeypatch.setattr(neighbours, "_candidates", lambda *args: kinds.append(args[2]) or real(*args))
    indices, distances = nearest_neighbours(A, 5)
    assert kinds == [np.float32, np.float64]
    expected = nearest_neighbours_reference(A, 5)
    np.testing.assert_array_equal(indices, expected[0])
    np.testing.assert_allclose(distances, expected[1], rtol=1e-12)
