"""K-means on known coordinates alone, against Lloyd where all are known and against NaN arithmetic where not."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import hadamard

from kmdr import reducers
from kmdr.base.threads import pinned
from kmdr.clustering import masked_kmeans
from kmdr.clustering.kmeans import Protocol, lloyd
from kmdr.clustering.masked_kmeans import masked_lloyd, random_subsets
from kmdr.metrics import accuracy


def masked(dense, known):
    """CSR with the known entries of each row stored, zeros among them too; and the same with NaN for the unknown."""
    n, r = known.shape
    values = np.take_along_axis(dense, known, axis=1)
    C = sp.csr_array((values.ravel(), known.ravel(), np.arange(0, n * r + 1, r)), shape=dense.shape)
    holes = np.full(dense.shape, np.nan)
    np.put_along_axis(holes, known, values, axis=1)
    return C, holes


def plain(holes, rows, max_iter):
    """The module's docstring with NaN for what is unknown: labels, objective, iterations, converged, refills."""
    k, mean = len(rows), np.nan_to_num(_nanmean(holes))
    centres = np.where(np.isnan(holes[rows]), mean, holes[rows])
    labels, n_iter, converged, refills, refilled = None, 0, False, 0, np.inf

    def means(labels):
        return np.array([np.where(np.isnan(m := _nanmean(holes[labels == c])), mean, m) for c in range(k)])

    def objective(labels):
        return np.nansum((holes - means(labels)[labels]) ** 2)

    while not converged and n_iter < max_iter:
        n_iter += 1
        nearest = np.nansum((holes[:, None] - centres) ** 2, axis=2).argmin(axis=1)
        converged = labels is not None and np.array_equal(nearest, labels)
        labels = nearest
        empties = [c for c in range(k) if not (labels == c).any()]
        for empty in empties:
            refills += 1
            own = np.nansum((holes - means(labels)[labels]) ** 2, axis=1)
            own[np.bincount(labels, minlength=k)[labels] < 2] = -1
            labels[own.argmax()] = empty
        centres = means(labels)
        if empties:
            before, refilled = refilled, objective(labels)
            converged = refilled >= before
    return labels, objective(labels), n_iter, converged, refills


def _nanmean(block):
    known = ~np.isnan(block)
    counts = known.sum(axis=0)
    return np.where(counts > 0, np.where(known, block, 0).sum(axis=0) / np.maximum(counts, 1), np.nan)


@pytest.mark.parametrize(
    ("n", "d", "r", "k"), [(40, 8, 3, 4), (120, 5, 2, 6), (30, 12, 12, 3), (25, 6, 1, 5), (6, 4, 2, 6)]
)
def test_it_does_what_its_docstring_says(n, d, r, k, rng):
    for _ in range(8):
        dense = rng.standard_normal((n, d)) + 3 * rng.standard_normal((k, d))[rng.integers(k, size=n)]
        C, holes = masked(dense, random_subsets(n, d, r, rng))
        rows = rng.choice(n, k, replace=False)
        labels, objective, n_iter, converged, _ = plain(holes, rows, 60)
        clustering = masked_lloyd(C, [rows], 60)
        np.testing.assert_array_equal(clustering.labels, labels)
        assert clustering.inertia == pytest.approx(objective, rel=1e-9, abs=1e-12)
        assert (clustering.n_iter, clustering.n_init_failed) == (n_iter, int(not converged))


def test_empty_clusters_are_refilled(rng):
    refilled = 0
    for _ in range(60):
        dense = np.repeat(np.round(rng.standard_normal((6, 4)) * 8) / 8, 3, axis=0)
        C, holes = masked(dense, random_subsets(18, 4, 3, rng))
        rows = rng.choice(18, 5, replace=False)
        refilled += plain(holes, rows, 1)[4] > 0
        assert len(np.unique(masked_lloyd(C, [rows], 1).labels)) == 5
    assert refilled > 5


def test_with_every_coordinate_known_it_is_lloyd(rng):
    dense = rng.standard_normal((200, 6)) + 4 * rng.standard_normal((4, 6))[rng.integers(4, size=200)]
    C, _ = masked(dense, np.tile(np.arange(6, dtype=np.int32), (200, 1)))
    for _ in range(5):  # one by one: which of several starts that end alike is kept is a matter of rounding
        start = [rng.choice(200, 4, replace=False)]
        ours, lloyds = masked_lloyd(C, start, 300), lloyd(dense, start, 300)
        np.testing.assert_array_equal(ours.labels, lloyds.labels)
        assert ours.inertia == pytest.approx(lloyds.inertia, rel=1e-10)


def test_the_objective_never_rises(rng):
    dense = rng.standard_normal((300, 10))
    C, _ = masked(dense, random_subsets(300, 10, 4, rng))
    rows = rng.choice(300, 6, replace=False)
    inertias = [masked_lloyd(C, [rows], m).inertia for m in range(1, 20)]
    assert all(b <= a * (1 + 1e-12) for a, b in itertools.pairwise(inertias))
    assert inertias[-1] < inertias[0]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("step", [2.0**-40, 2.0**-3, 2.0**60])
def test_what_single_precision_cannot_tell_is_told_exactly(dtype, step, rng):
    # Whole multiples of a step about 1, whose squares are exact: in single precision all are 1, or differ, or are huge.
    offset = 1.0 if step < 1 else 0.0
    if dtype == np.float32 and step == 2.0**-40:
        step = 2.0**-23
    whole, near = rng.integers(-9, 10, (400, 50)), rng.integers(-9, 10, (70, 50))
    known = random_subsets(400, 50, 6, rng)
    C, _ = masked((offset + whole * step).astype(dtype), known)
    apart = np.take_along_axis(whole, known, axis=1)[:, None] - near[:, known].transpose(1, 0, 2)
    square = (apart**2).sum(axis=2)
    assert (np.sort(square, axis=1)[:, 0] == np.sort(square, axis=1)[:, 1]).any()  # ties
    points = masked_kmeans._Points(C)
    for guess in (np.full(400, -1), rng.integers(70, size=400)):
        labels = points.assign(offset + near * step, guess)
        np.testing.assert_array_equal(labels, square.argmin(axis=1))


def test_centres_move_to_the_means_of_what_changed(rng):
    dense = rng.standard_normal((300, 9))
    C, holes = masked(dense, random_subsets(300, 9, 3, rng))
    points, before, labels = masked_kmeans._Points(C), np.full(300, -1), rng.integers(40, size=300)
    centres = np.full((40, 9), np.nan)
    for _ in range(3):
        points.move(centres, labels, before)
        means = [_nanmean(holes[labels == c]) for c in range(40)]
        np.testing.assert_allclose(centres, np.where(np.isnan(means), _nanmean(holes), means), rtol=1e-12, atol=1e-12)
        before, labels = labels, np.where(rng.random(300) < 0.02, rng.integers(40, size=300), labels)
    with pinned(2):
        again = np.empty_like(centres)
        points.move(again, before, np.full(300, -1))
    np.testing.assert_array_equal(again, centres)


def test_threads_do_not_change_the_result(rng):
    dense = rng.standard_normal((500, 10))
    C, _ = masked(dense, random_subsets(500, 10, 4, rng))
    starts = np.array([rng.choice(500, 6, replace=False) for _ in range(3)])
    first = masked_lloyd(C, starts, 50)
    with pinned(2):
        second = masked_lloyd(C, starts, 50)
    np.testing.assert_array_equal(first.labels, second.labels)
    assert first.inertia == second.inertia


@pytest.mark.parametrize("r", [3, 9, 130])
def test_distances_to_own_centres_are_the_same_in_blocks(r, monkeypatch, rng):
    dense = rng.standard_normal((500, 200))
    points = masked_kmeans._Points(masked(dense, random_subsets(500, 200, r, rng))[0])
    labels, centres = rng.integers(6, size=500), rng.standard_normal((6, 200))
    whole = points.own(centres, labels)
    apart = points.values - centres[labels[:, None], points.known]
    np.testing.assert_array_equal(whole, (apart**2).sum(axis=1))
    monkeypatch.setattr(masked_kmeans, "BLOCK", 7 * r)
    np.testing.assert_array_equal(points.own(centres, labels), whole)
    monkeypatch.setattr(masked_kmeans, "BLOCK", 1)
    np.testing.assert_array_equal(points.own(centres, labels), whole)


def test_subsets_are_uniform(rng, assert_frequencies):
    kept = random_subsets(30_000, 6, 3, rng)
    assert (np.diff(kept, axis=1) > 0).all()
    codes = {subset: i for i, subset in enumerate(itertools.combinations(range(6), 3))}
    assert_frequencies(np.bincount([codes[tuple(row)] for row in kept.tolist()], minlength=20), np.full(20, 1 / 20))
    np.testing.assert_array_equal(random_subsets(3, 5, 5, rng), np.tile(np.arange(5), (3, 1)))


def test_subsets_are_the_same_in_blocks(monkeypatch):
    whole = random_subsets(50, 9, 4, np.random.default_rng(1))
    monkeypatch.setattr(masked_kmeans, "BLOCK", 30)
    np.testing.assert_array_equal(random_subsets(50, 9, 4, np.random.default_rng(1)), whole)


def test_sparsified_points_keep_scaled_entries_of_the_rotated_ones(rng):
    A = rng.standard_normal((50, 20))
    reducer = reducers.make("sparsified")
    signs = reducer.prepare(A, 3, np.random.default_rng(1))
    C = reducer.reduce(A, 8, np.random.default_rng(2), signs)
    kept = C.indices.reshape(50, 8)
    rotated = np.hstack([A * signs, np.zeros((50, 12))]) @ hadamard(32) / np.sqrt(32)
    expected = np.take_along_axis(rotated, kept, axis=1) * np.sqrt(32 / 8)
    np.testing.assert_allclose(C.data.reshape(50, 8), expected, atol=1e-12)


def test_sparsified_k_means_finds_clear_clusters(rng):
    truth = np.arange(300) % 3
    A = rng.standard_normal((300, 64)) + 3 * rng.standard_normal((3, 64))[truth]
    reducer = reducers.make("sparsified")
    C = reducer.reduce(A, 24, rng, reducer.prepare(A, 3, rng))
    starts = np.array([rng.choice(300, 3, replace=False) for _ in range(20)])
    assert accuracy(truth, reducer.cluster(C, 3, starts, rng, Protocol(20, 100)).labels) > 0.97
