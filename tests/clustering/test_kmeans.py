"""Lloyd against scikit-learn and against a plain reading of its docstring."""

import itertools

import numba
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans, kmeans_plusplus

from kmdr.base.errors import ArgumentError, UserError
from kmdr.base.threads import pinned
from kmdr.clustering import kmeans
from kmdr.clustering.kmeans import (
    Clustering,
    Protocol,
    best_of_starts,
    lloyd,
    plus_rows,
    same_points,
    starter,
    starting_rows,
)
from kmdr.clustering.lloyd import _add_rows, _find_two_smallest, block_size, run_starts
from oracles import lloyd_error, lloyd_reference


def read_only(A):
    for part in (A.data, A.indices, A.indptr) if sp.issparse(A) else (A,):
        part.flags.writeable = False
    return A


def draw_starts(rng, n, k, n_init=1):
    return np.array([rng.choice(n, size=k, replace=False) for _ in range(n_init)])


def sklearn_model(C, rows):
    C = np.asarray(C, dtype=np.float64)
    return KMeans(len(rows), algorithm="lloyd", tol=0, n_init=1, init=C[rows], max_iter=1000).fit(C)


def within(C, labels):
    return sum(((C[labels == c] - C[labels == c].mean(axis=0)) ** 2).sum() for c in np.unique(labels))


def starts_without_empty_clusters(C, k, rng, n_init=1):
    """Starts from which no cluster loses its points: scikit-learn refills by another rule."""
    starts = []
    while len(starts) < n_init:
        rows = draw_starts(rng, len(C), k)[0]
        if lloyd_reference(np.asarray(C, dtype=np.float64), rows, 1000)[3] == 0:
            starts.append(rows)
    return np.array(starts)


SHAPES = [
    (1, 1, 1),
    (2, 3, 2),
    (40, 1, 3),
    (40, 2, 1),
    (40, 5, 40),
    (150, 1, 8),
    (150, 300, 6),  # wider than the transposed copy
    (200, 256, 5),
    (200, 257, 5),
    (600, 20, 25),
    (8192, 2, 3),
    (8193, 3, 4),  # one point more than a block
    (20000, 4, 7),
]


@pytest.mark.parametrize(("n", "r", "k"), SHAPES)
@pytest.mark.parametrize("kind", ["float64", "float32", "fortran", "csr", "csr32"])
def test_lloyd_equals_scikit_learn(kind, n, r, k, rng):
    dense = rng.standard_normal((n, r)) + 3 * rng.standard_normal((5, r))[rng.integers(5, size=n)] + 1
    if kind.startswith("csr"):
        dense *= rng.random((n, r)) < 0.7
        dense[dense.any(axis=1) == 0] = rng.standard_normal((int((dense.any(axis=1) == 0).sum()), r))
    if kind in ("float32", "csr32"):
        dense = dense.astype(np.float32)
    C = {"fortran": np.asfortranarray, "csr": sp.csr_array, "csr32": sp.csr_array}.get(kind, np.copy)(dense)
    rows = starts_without_empty_clusters(dense, k, rng)
    clustering = lloyd(read_only(C), rows, max_iter=1000)
    model = sklearn_model(dense, rows[0])
    np.testing.assert_array_equal(clustering.labels, model.labels_)
    # With a cluster a point no centre ever moves: scikit-learn stops there, kmdr sees first that no label changes.
    assert clustering.n_iter == (2 if k == n else model.n_iter_)
    scale = float(np.sum(np.asarray(dense, dtype=np.float64) ** 2))
    assert clustering.inertia == pytest.approx(
        within(dense.astype(np.float64), clustering.labels), rel=1e-9, abs=1e-13 * scale
    )
    assert clustering.inertia == pytest.approx(model.inertia_, rel=1e-9, abs=1e-13 * scale)
    assert clustering.n_init_failed == 0
    assert clustering.labels.dtype == np.int64


@pytest.mark.parametrize("layout", [np.copy, sp.csr_array])
def test_many_small_random_runs_equal_scikit_learn(layout, rng):
    for _ in range(60):
        n, r, k = int(rng.integers(10, 120)), int(rng.integers(1, 9)), int(rng.integers(1, 8))
        C = rng.random((n, r))
        rows = starts_without_empty_clusters(C, k, rng)
        clustering, model = lloyd(layout(C), rows, max_iter=1000), sklearn_model(C, rows[0])
        np.testing.assert_array_equal(clustering.labels, model.labels_)
        assert clustering.n_iter == model.n_iter_
        assert clustering.inertia == pytest.approx(model.inertia_, rel=1e-9, abs=1e-12)


def test_far_from_the_origin_the_partition_is_the_same(rng):
    # Multiples of 2^-16: the shift is exact.
    C = np.round(rng.standard_normal((300, 4)) * 2**16) / 2**16
    rows = draw_starts(rng, 300, 5, 3)
    near, far = lloyd(C, rows, 500), lloyd(C + 2.0**24, rows, 500)
    np.testing.assert_array_equal(near.labels, far.labels)
    assert far.inertia == pytest.approx(near.inertia, rel=1e-9)


@pytest.mark.parametrize("layout", [np.copy, sp.csr_array])
def test_objective_never_rises_with_more_iterations(layout, rng):
    for k in (2, 5, 12):
        C = rng.random((400, 3))
        rows = draw_starts(rng, 400, k)
        inertias = [lloyd(layout(C), rows, max_iter).inertia for max_iter in range(1, 25)]
        assert all(b <= a * (1 + 1e-12) for a, b in itertools.pairwise(inertias))
        assert inertias[-1] < inertias[0]


def test_the_start_of_smallest_inertia_is_kept(rng):
    C = rng.standard_normal((120, 3))
    rows = starts_without_empty_clusters(C, 6, rng, 15)
    models = [sklearn_model(C, start) for start in rows]
    best = int(np.argmin([model.inertia_ for model in models]))
    clustering = lloyd(C, rows, 1000)
    np.testing.assert_array_equal(clustering.labels, models[best].labels_)
    assert clustering.inertia == pytest.approx(models[best].inertia_, rel=1e-10)
    assert clustering.n_iter == models[best].n_iter_
    # A list of arrays is as good as a matrix.
    np.testing.assert_array_equal(lloyd(C, list(rows), 1000).labels, clustering.labels)


def test_ties_between_starts_go_to_the_first():
    # A square has two best halvings of equal inertia; each start converges to its own at once.
    square = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
    left_right, down_up = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    # Row 0 against row 2: points 1 and 3 follow the nearest. Row 0 against row 1: points 2 and 3 do.
    np.testing.assert_array_equal(lloyd(square, [[0, 2], [0, 1]], 50).labels, left_right)
    np.testing.assert_array_equal(lloyd(square, [[0, 1], [0, 2]], 50).labels, down_up)
    np.testing.assert_array_equal(lloyd(square, [[2, 0], [0, 2]], 50).labels, 1 - left_right)


def test_ties_between_centres_go_to_the_lowest_index():
    # The middle point is as near to either start.
    line = np.array([[-2.0], [0.0], [2.0]])
    np.testing.assert_array_equal(lloyd(line, [[0, 2]], 50).labels, [0, 0, 1])
    np.testing.assert_array_equal(lloyd(line, [[2, 0]], 50).labels, [1, 0, 0])


@pytest.mark.parametrize("max_iter", [1, 2, 5, 8, 1000])
def test_starts_that_did_not_converge_are_counted(max_iter, rng):
    C = rng.standard_normal((150, 3))
    rows = starts_without_empty_clusters(C, 4, rng, 20)
    # The number of iterations that strict convergence takes, the idle last one included.
    needed = [sklearn_model(C, start).n_iter_ for start in rows]
    clustering = lloyd(C, rows, max_iter)
    assert clustering.n_init_failed == sum(iterations > max_iter for iterations in needed)
    assert clustering.n_iter <= max_iter
    if max_iter == 1:
        assert clustering.n_init_failed == 20  # no assignment can be known to repeat


def test_one_iteration_assigns_to_the_starts(rng):
    C = rng.standard_normal((80, 4))
    rows = draw_starts(rng, 80, 5)
    nearest = ((C[:, None] - C[rows[0]]) ** 2).sum(axis=2).argmin(axis=1)
    clustering = lloyd(C, rows, 1)
    np.testing.assert_array_equal(clustering.labels, nearest)
    assert clustering.inertia == pytest.approx(within(C, nearest), rel=1e-12)


def points_with_copies(rng, distinct, copies, r):
    """Dyadic points whose mean is exactly 0, each several times: copies tie exactly and centring changes nothing."""
    half = np.round(rng.standard_normal((distinct, r)) * 2**12) / 2**12
    C = np.repeat(np.vstack([half, -half]), copies, axis=0)
    return C[rng.permutation(len(C))]


@pytest.mark.parametrize("layout", [np.copy, sp.csr_array])
def test_empty_clusters_are_refilled_as_the_docstring_says(layout, rng):
    refilled = unsettled = 0
    for _ in range(200):
        C = points_with_copies(rng, int(rng.integers(3, 9)), int(rng.integers(2, 4)), 2)
        k = int(rng.integers(2, 7))
        rows = draw_starts(rng, len(C), k)
        labels, n_iter, converged, refills = lloyd_reference(C, rows[0], 40)
        clustering = lloyd(layout(C), rows, 40)
        np.testing.assert_array_equal(clustering.labels, labels)
        assert (clustering.n_iter, clustering.n_init_failed) == (n_iter, int(not converged))
        assert clustering.inertia == pytest.approx(within(C, labels), rel=1e-9, abs=1e-12)
        assert len(np.unique(clustering.labels)) == k
        refilled += refills > 0
        unsettled += not converged
    assert refilled > 50  # the case is there, in a quarter of the runs at least
    assert unsettled < 50


@pytest.mark.parametrize("layout", [np.copy, sp.csr_array])
def test_empty_cluster_by_hand(layout):
    # Both centres at 0; the second loses the tie. All points join cluster 0, whose centre becomes (0+0+0+8)/4 = 2; the
    # farthest point from it, 8, becomes cluster 1 and all is settled in the next iteration.
    C = np.array([[0.0], [0.0], [0.0], [8.0]]) - 2
    clustering = lloyd(layout(C), [[0, 1]], 10)
    np.testing.assert_array_equal(clustering.labels, [0, 0, 0, 1])
    assert (clustering.n_iter, clustering.n_init_failed) == (2, 0)
    assert clustering.inertia == pytest.approx(0, abs=1e-14)


@pytest.mark.parametrize("layout", [np.copy, sp.csr_array])
def test_a_point_alone_in_its_cluster_is_not_taken(layout):
    # Clusters: the point 30 alone; −10, 2×(−11) and 2 more starts on the copies of −11, of which one stays empty.
    C = np.array([[33.0], [-11.0], [-11.0], [-11.0]])
    clustering = lloyd(layout(C), [[0, 1, 2]], 1)
    # The farthest point from its own centre is any copy of −11 (all at distance 0, as is 33, which may not be taken).
    np.testing.assert_array_equal(clustering.labels, [0, 2, 1, 1])


@pytest.mark.parametrize("layout", [np.copy, sp.csr_array])
@pytest.mark.parametrize("value", [0.0, 0.1, -7.0])
def test_identical_points_make_k_clusters_of_inertia_zero(layout, value):
    C = np.full((9, 3), value)
    clustering = lloyd(layout(C), [[0, 4, 8]], 20)
    assert set(clustering.labels) == {0, 1, 2}
    assert clustering.inertia == pytest.approx(0, abs=1e-13)


@pytest.mark.parametrize("layout", [np.copy, sp.csr_array])
@pytest.mark.parametrize("max_iter", [1, 2, 3, 12])
def test_no_cluster_is_ever_empty(layout, max_iter, rng):
    # On a coarse grid with many copies, with fewer distinct points than clusters at times.
    for _ in range(20):
        C = rng.integers(-1, 2, size=(30, 2)).astype(float)
        k = int(rng.integers(1, 31))
        clustering = lloyd(layout(C), draw_starts(rng, 30, k), max_iter)
        np.testing.assert_array_equal(np.unique(clustering.labels), np.arange(k))


@pytest.mark.parametrize("layout", [np.copy, sp.csr_array])
def test_a_run_is_reproducible_and_leaves_its_input_alone(layout, rng):
    C = layout(rng.random((60, 4)))
    before, rows = C.copy(), draw_starts(rng, 60, 5, 4)
    starts = rows.copy()
    first, second = lloyd(C, rows, 100), lloyd(C, rows, 100)
    np.testing.assert_array_equal(first.labels, second.labels)
    assert first.inertia == second.inertia
    assert abs(C - before).max() == 0
    np.testing.assert_array_equal(rows, starts)


@pytest.mark.parametrize("layout", [np.copy, sp.csr_array])
@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-8, 1e-10])
@pytest.mark.parametrize("r", [1, 7, 64])
def test_near_ties_that_float32_cannot_tell_are_decided_as_in_float64(gap, r, layout, rng):
    # Points on the bisecting plane of two centres, off by ±gap along their difference; float32 sees ties below 1e-7.
    side = np.zeros(r)
    side[0] = 1.0
    along = rng.standard_normal((400, r))
    along[:, 0] = gap * rng.choice([-1.0, 1.0], 400)
    C = np.vstack([along, -along, [side, -side]])  # of mean 0
    clustering = lloyd(layout(C), [[800, 801]], 1)
    np.testing.assert_array_equal(clustering.labels, np.r_[along[:, 0] < 0, along[:, 0] > 0, False, True])


@pytest.mark.parametrize("exponent", [-500, -130, 130, 500])
@pytest.mark.parametrize("layout", [np.copy, sp.csr_array])
def test_the_scale_of_the_data_changes_nothing(layout, exponent, rng):
    C, rows = rng.random((200, 3)), draw_starts(rng, 200, 6, 3)
    plain, scaled = lloyd(layout(C), rows, 300), lloyd(layout(C * 2.0**exponent), rows, 300)
    np.testing.assert_array_equal(scaled.labels, plain.labels)
    assert scaled.inertia == pytest.approx(plain.inertia * 4.0**exponent, rel=1e-12)


def test_one_outlier_does_not_spoil_the_others(rng):
    # Float32 cannot tell the clusters apart beside the outlier; float64 can.
    C = np.vstack([rng.standard_normal((300, 3)), [[1e8, 0, 0]]])
    rows = np.r_[draw_starts(rng, 300, 4)[0], 300]
    np.testing.assert_array_equal(lloyd(C, [rows], 500).labels, sklearn_model(C, rows).labels_)


@pytest.mark.parametrize("layout", [np.copy, sp.csr_array])
def test_long_runs_equal_the_reference(layout, rng):
    # Noise without clusters takes tens of iterations, so that bounds age.
    for r in (2, 10, 40):
        C = rng.random((1500, r))
        rows = starts_without_empty_clusters(C, 30, rng)
        labels, n_iter, converged, _ = lloyd_reference(C, rows[0], 500)
        clustering = lloyd(layout(C), rows, 500)
        np.testing.assert_array_equal(clustering.labels, labels)
        assert (clustering.n_iter, clustering.n_init_failed) == (n_iter, int(not converged))
        assert n_iter > 15
        assert lloyd_error(layout(C), clustering.labels) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.05, 1.0])
def test_blocks_that_wait_in_part_are_gathered_as_they_should(noise, rng):
    # Clusters in the order of the rows: some blocks settle early while others are multiplied whole, and the points that
    # wait here and there fill more than one block.
    centres = rng.standard_normal((30, 5))
    C = centres[np.sort(rng.integers(30, size=9001))] + noise * rng.standard_normal((9001, 5))
    rows = starts_without_empty_clusters(C, 30, rng)
    labels, n_iter, converged, _ = lloyd_reference(C, rows[0], 60)
    clustering = lloyd(C, rows, 60)
    np.testing.assert_array_equal(clustering.labels, labels)
    assert (clustering.n_iter, clustering.n_init_failed) == (n_iter, int(not converged))


@pytest.mark.parametrize(("r", "k"), [(1, 1), (5, 5), (100, 68), (10_304, 40)])
@pytest.mark.parametrize("n", [1, 15, 16, 17, 512, 513, 500_000])
def test_blocks_are_whole_cache_lines_and_leave_little_over(n, r, k):
    m = block_size(n, r, k)
    blocks = -(-n // m)
    assert m % 16 == 0
    assert m <= 512
    assert blocks * m < n + 16 * blocks


def test_every_kind_of_input_runs_the_same_compiled_kernel(rng):
    C, rows = rng.random((40, 3)), draw_starts(rng, 40, 4)
    lloyd(C, rows, 5)
    compiled = len(run_starts.signatures)  # other tests of this process may have compiled more
    for given in (C.astype(np.float32), np.asfortranarray(C), read_only(C.copy()), sp.csr_array(C)):
        lloyd(given, rows, 5)
    assert len(run_starts.signatures) == compiled


@pytest.mark.parametrize("seed", range(30))
def test_inner_products_of_the_points_change_nothing_but_the_time(seed, monkeypatch):
    """With ties, repeated points, points of zeros, clusters that lose all their points and entries of any size."""
    from kmdr.clustering import kmeans as module

    rng = np.random.default_rng(seed)
    n, d, k = rng.integers([2, 1, 1], [60, 200, 12])
    k = min(k, n)
    X = np.round(rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.4) * (1, 3, 40)[seed % 3])
    X[rng.integers(n, size=n // 3)] = X[0]
    X *= 2.0 ** ((0, 300, -300)[seed % 3])
    if seed % 2:
        X += rng.standard_normal((n, d)) * (X != 0)
    C, rows = sp.csr_array(X), draw_starts(rng, n, k, 4)
    results = []
    for entries in (0, 2**40):
        monkeypatch.setattr(module, "_GRAM_ENTRIES", entries)
        monkeypatch.setattr(module, "_GRAM_COST", 2**40)
        monkeypatch.setattr(module, "_GRAM_SHARE", 2**40)
        results.append([lloyd(C, starts, 300) for starts in (rows, *rows[:, None])])
    for alone, by_gram in zip(*results, strict=True):
        np.testing.assert_array_equal(by_gram.labels, alone.labels)
        assert (by_gram.inertia, by_gram.n_iter, by_gram.n_init_failed) == (
            alone.inertia,
            alone.n_iter,
            alone.n_init_failed,
        )


@pytest.mark.parametrize("layout", [np.copy, sp.csr_array])
def test_lloyd_error_is_the_gain_of_the_best_move(layout):
    C = np.array([[0.0, 1.0], [2.0, 1.0], [10.0, 1.0], [4.0, 1.0]])
    assert lloyd_error(layout(C), np.array([5, 5, 9, 9])) == 0  # means 1, 7; 4 is as near to either
    # Means 6 and 2: the point at 2 is at 4² from its own mean and at 0 from the other; no other gains as much.
    assert lloyd_error(layout(C), np.array([1, 0, 0, 1])) == pytest.approx(16)


@pytest.mark.parametrize("layout", [np.copy, sp.csr_array])
def test_neither_threads_nor_other_starts_change_a_start(layout, rng):
    C = rng.random((700, 6))
    rows = draw_starts(rng, 700, 9, 7)
    alone = [lloyd(layout(C), [start], 300) for start in rows]
    best = min(alone, key=lambda alone_clustering: alone_clustering.inertia)
    for count in (1, 2, 3):
        with pinned(count):
            clustering = lloyd(layout(C), rows, 300)
        np.testing.assert_array_equal(clustering.labels, best.labels)
        assert (clustering.inertia, clustering.n_iter) == (best.inertia, best.n_iter)


def test_csr_need_not_be_canonical(rng):
    C = sp.random_array((80, 12), density=0.3, rng=rng, format="csr")
    halves = sp.csr_array(
        (np.repeat(C.data / 2, 2), np.repeat(C.indices, 2).astype(np.int64), 2 * C.indptr.astype(np.int64)),
        shape=C.shape,
    )
    rows = draw_starts(rng, 80, 4, 3)
    np.testing.assert_array_equal(lloyd(read_only(halves), rows, 100).labels, lloyd(C, rows, 100).labels)


def test_no_start_is_an_error():
    with pytest.raises(ValueError, match="no start"):
        lloyd(np.zeros((3, 1)), [], 5)


@pytest.mark.parametrize("starts", [[[0, 3]], [[-1, 0]], [[0.0, 1.0]], [0, 1], [[]], [[True, False]]])
def test_starts_that_are_not_row_indices_are_refused(starts):
    with pytest.raises(ArgumentError, match="must each hold k row indices from 0 to 2"):
        lloyd(np.zeros((3, 1)), starts, 5)
    with pytest.raises(ArgumentError, match=r"max_iter = 0 is below 1"):
        lloyd(np.zeros((3, 1)), [[0]], 0)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_points_of_one_name_are_read_once_and_only_the_last_are_kept(layout, rng, monkeypatch):
    monkeypatch.setattr(kmeans, "_last", {})
    data = [layout(rng.standard_normal((60, 4))) for _ in range(2)]
    starts = draw_starts(rng, 60, 3, 2)
    alone = [lloyd(C, starts, 100).labels for C in data]
    kernel_input, reads = kmeans._kernel_input, []
    monkeypatch.setattr(kmeans, "_kernel_input", lambda *given: reads.append(1) or kernel_input(*given))
    for name in (0, 1, 0):
        with same_points(name):
            for _ in range(3):
                np.testing.assert_array_equal(lloyd(data[name], starts, 100).labels, alone[name])
        assert len(kmeans._last) == 1
    assert len(reads) == 3
    lloyd(data[0], starts, 100)  # outside of the blocks
    with same_points(None):
        lloyd(data[0], starts, 100)
    assert len(reads) == 5


def test_starting_rows_are_distinct_rows_of_the_data(rng):
    for n, k in [(1, 1), (5, 5), (100, 7)]:
        rows = starting_rows(Protocol(n_init=30, max_iter=1), n, k, None, rng)
        assert rows.shape == (30, k)
        assert rows.dtype == np.int64
        assert rows.min() >= 0
        assert rows.max() < n
        assert all(len(set(row)) == k for row in rows.tolist())


def test_starting_rows_are_uniform_over_ordered_choices(rng, assert_frequencies):
    rows = starting_rows(Protocol(n_init=40_000, max_iter=1), 5, 3, None, rng)
    codes = {choice: i for i, choice in enumerate(itertools.permutations(range(5), 3))}
    counts = np.bincount([codes[tuple(row)] for row in rows.tolist()], minlength=60)
    assert_frequencies(counts, np.full(60, 1 / 60))  # 667 a cell


def test_starts_are_independent_of_each_other(rng, assert_frequencies):
    rows = starting_rows(Protocol(n_init=40_000, max_iter=1), 5, 2, None, rng)
    for position in (0, 1):
        pairs = 5 * rows[0::2, position] + rows[1::2, position]
        assert_frequencies(np.bincount(pairs, minlength=25), np.full(25, 1 / 25))  # 800 a cell


def test_more_clusters_than_points_are_refused(rng):
    with pytest.raises(UserError, match=r"k = 4 .*points \(3\)"):
        starting_rows(Protocol(1, 1), 3, 4, None, rng)


def test_first_of_class_takes_the_first_row_of_each_class(rng):
    protocol = Protocol(1, 10, "first_of_class")
    truth = np.array([3, 1, 1, 3, 0, 0, 1])
    rows = starting_rows(protocol, 7, 3, truth, rng)
    np.testing.assert_array_equal(rows, [[0, 1, 4]])
    assert rows.dtype == np.int64
    before = rng.bit_generator.state
    starting_rows(protocol, 7, 3, truth, rng)
    assert rng.bit_generator.state == before


def test_first_of_class_refuses_what_it_cannot_serve(rng):
    protocol = Protocol(1, 10, "first_of_class")
    with pytest.raises(UserError, match="labels"):
        starting_rows(protocol, 7, 3, None, rng)
    with pytest.raises(UserError, match=r"2 centres.* k = 3"):
        starting_rows(protocol, 4, 3, np.array([0, 1, 0, 1]), rng)


@pytest.mark.parametrize("name", ["n_init", "max_iter"])
@pytest.mark.parametrize("value", [0, -1, 1.5, 5.0, True, "3", None])
def test_protocol_refuses_what_is_no_positive_whole_number(name, value):
    with pytest.raises(UserError, match=rf"^kmeans\.{name} "):
        Protocol(**({"n_init": 1, "max_iter": 1} | {name: value}))


def test_protocol_refuses_unknown_and_repeated_deterministic_starts():
    with pytest.raises(UserError, match=r"kmeans.start = 'cluster'.*sample, first_of_class, plus"):
        Protocol(1, 1, "cluster")
    with pytest.raises(UserError, match="n_init = 2"):
        Protocol(2, 1, "first_of_class")


# --- k-means++


@pytest.mark.slow
def test_plus_draws_by_squared_distances(rng, assert_frequencies):
    # The law by its definition, over all ordered choices of three of four points; other layouts draw the same rows.
    C = np.array([[0.0, 1.0], [3.0, 0.0], [0.0, 5.0], [2.0, 2.0]])
    square = ((C[:, None] - C) ** 2).sum(axis=2)
    choices = list(itertools.permutations(range(4), 3))
    p = [
        1
        / 4
        * square[a, b]
        / square[a].sum()
        * min(square[a, c], square[b, c])
        / np.minimum(square[a], square[b]).sum()
        for a, b, c in choices
    ]
    assert sum(p) == pytest.approx(1)
    rows = plus_rows(C, 3, rng.integers(2**32, size=6000))
    assert (rows.shape, rows.dtype) == ((6000, 3), np.int64)
    drawn = [choices.index(tuple(row)) for row in rows.tolist()]
    assert_frequencies(np.bincount(drawn, minlength=24), p)


def test_plus_is_a_function_of_the_generator_and_the_data(rng):
    protocol, C, D = Protocol(4, 9, "plus"), rng.random((50, 3)), rng.random((50, 6))
    draw, same, other = (starter(protocol, 50, 5, None, np.random.default_rng(seed)) for seed in (1, 1, 2))
    for data in (C, D, C):  # one after the other: no state is kept
        np.testing.assert_array_equal(draw(data), same(data))
    assert (draw(C) != other(C)).any()
    assert (draw(C) != draw(D)).any()
    assert len({tuple(row) for row in draw(C).tolist()}) == 4


def test_starts_that_need_no_data_are_those_of_starting_rows(rng):
    truth = np.arange(30) % 3
    for protocol in (Protocol(3, 9), Protocol(1, 9, "first_of_class")):
        given = starter(protocol, 30, 3, truth, np.random.default_rng(1))(rng.random((30, 2)))
        np.testing.assert_array_equal(given, starting_rows(protocol, 30, 3, truth, np.random.default_rng(1)))


@pytest.mark.parametrize("layout", [np.copy, sp.csr_array, np.float32])
@pytest.mark.parametrize(("start", "candidates"), [("plus", 1), ("greedy", None)])
def test_k_means_plus_plus_is_that_of_scikit_learn(layout, start, candidates, rng):
    C = layout(rng.integers(0, 9, (60, 4)).astype(float))
    draw = starter(Protocol(3, 9, start), 60, 7, None, np.random.default_rng(1))
    seeds = np.random.default_rng(1).integers(2**32, size=3)
    # A power of two scales the data before, which changes no choice.
    for row, seed in zip(draw(C), seeds, strict=True):
        given = sp.csr_matrix(C.astype(np.float64)) if sp.issparse(C) else np.asarray(C, np.float64)
        expected = kmeans_plusplus(given, 7, n_local_trials=candidates, random_state=int(seed))[1]
        np.testing.assert_array_equal(row, expected)
    np.testing.assert_array_equal(draw(C, slice(1, 2)), draw(C)[1:2])


def _clusterings(inertias):
    """Return a function that has these inertias for the starts of a slice, and the starts it was called for."""
    called = []

    def cluster(some):
        starts = range(*some.indices(len(inertias)))
        called.extend(starts)
        best = min(starts, key=lambda start: inertias[start])
        return Clustering(np.array([best]), inertias[best], 1, len(starts))

    return cluster, called


def test_starts_end_when_the_best_was_found_often_enough():
    for inertias, until, expected in [
        ([5.0, 4.0, 4.003, 4.0039, 1.0], 3, (1, 4)),  # 4.003 and 4.0039 are within .1 % of 4
        ([5.0, 4.0, 4.01, 4.0, 4.02, 4.0], 3, (1, 6)),
        ([4.0, 4.001, 3.0, 3.5, 3.0], 3, (2, 5)),  # a better one starts the count again
        ([3.0, 2.0, 1.0], 1, (0, 1)),
        ([0.0, 0.0, 1.0], 2, (0, 2)),
        ([3.0, 2.0, 1.0], 9, (2, 3)),
    ]:
        cluster, called = _clusterings(inertias)
        best = best_of_starts(Protocol(len(inertias), 9, until_found=until), cluster)
        assert (int(best.labels[0]), len(called), best.n_init_failed) == (*expected, expected[1])
        assert called == list(range(expected[1]))


def test_all_starts_are_one_call_without_a_number_of_times():
    cluster, called = _clusterings([3.0, 1.0, 1.0, 1.0])
    assert (best_of_starts(Protocol(4, 9), cluster).inertia, called) == (1.0, [0, 1, 2, 3])


def test_starts_one_after_the_other_are_those_that_run_together(rng):
    C = rng.random((80, 3))
    for start in ("sample", "plus", "greedy"):
        together, one_by_one = Protocol(6, 90, start), Protocol(6, 90, start, until_found=99)
        results = []
        for protocol in (together, one_by_one):
            rows = starter(protocol, 80, 8, None, np.random.default_rng(3))
            results.append(best_of_starts(protocol, lambda some, rows=rows: lloyd(C, rows(C, some), 90)))
        np.testing.assert_array_equal(results[0].labels, results[1].labels)
        assert results[0].inertia == results[1].inertia
        assert results[0].n_init_failed == results[1].n_init_failed


def test_greedy_starts_are_better_on_many_clusters(rng):
    C = rng.normal(size=(40, 2))[np.arange(1200) % 40] * 50 + rng.normal(size=(1200, 2))
    F = {
        start: np.mean([
            lloyd(C, starter(Protocol(1, 99, start), 1200, 40, None, np.random.default_rng(seed))(C), 99).inertia
            for seed in range(10)
        ])
        for start in ("plus", "greedy")
    }  # fmt: skip
    assert F["greedy"] < F["plus"]


def test_until_found_is_part_of_the_configuration_only_where_it_is_set():
    assert "until_found" not in Protocol(3, 9).identity
    assert Protocol(3, 9, until_found=2).identity["until_found"] == 2
    for value in (-1, 1.5, True, "3"):
        with pytest.raises(UserError, match="until_found"):
            Protocol(3, 9, until_found=value)


@pytest.mark.parametrize("start", ["sample", "plus", "greedy"])
def test_no_start_can_make_more_clusters_than_points(start, rng):
    with pytest.raises(UserError, match=r"k = 4 .*points \(3\)"):
        starter(Protocol(1, 1, start), 3, 4, None, rng)


@pytest.mark.parametrize("layout", [np.copy, sp.csr_array])
def test_plus_has_starts_even_for_points_that_coincide(layout):
    C = layout(np.full((9, 2), 3.0))
    clustering = lloyd(C, plus_rows(C, 3, np.arange(2)), 20)
    assert set(clustering.labels) == {0, 1, 2}


SINGLE, DOUBLE = numba.float32, numba.float64


@pytest.mark.parametrize(
    ("kernel", "signature"),
    [
        (_find_two_smallest, (SINGLE[:, ::1], SINGLE[::1], SINGLE[::1], SINGLE[::1], numba.int32[::1])),
        (_add_rows, (DOUBLE[:, ::1], DOUBLE[::1], DOUBLE[::1], DOUBLE[::1])),
    ],
)
def test_loops_over_all_points_have_no_masked_stores(kernel, signature):
    """On processors of AMD with AVX2 these took three quarters of the time of Lloyd's iterations with many clusters."""
    compiled = numba.njit(signature, fastmath=kernel.targetoptions["fastmath"])(kernel.py_func)
    (assembly,) = compiled.inspect_asm().values()
    assert "ret" in assembly
    assert "vmaskmov" not in assembly
