"""The engines prone, coreset and spherical, compared with plain numpy, with scikit-learn and with their guarantees."""

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans

import kmdr
from inputs import bytes_of, dense_matrices
from kmdr import datasets
from kmdr.base.errors import UserError
from kmdr.base.outside import seed_of
from kmdr.base.text import canonical
from kmdr.clustering import engines
from kmdr.clustering.coreset import sensitivity_sample
from kmdr.clustering.kmeans import Protocol, plus_rows
from kmdr.clustering.prone import seed_on_line
from kmdr.clustering.sums import nearest
from kmdr.linalg.matrix import treat_as_out_of_core
from kmdr.metrics import accuracy, residual

NAMES = ("prone", "coreset", "spherical")


def run(C, k, engine, starts=None, seed=0, n_init=1, max_iter=100, **args):
    rng = np.random.default_rng(seed)
    if starts is None:
        starts = [rng.choice(C.shape[0], k, replace=False) for _ in range(n_init)]
    protocol = Protocol(len(starts), max_iter, engine=engine, args=canonical(args))
    return engines.cluster(C, k, np.asarray(starts), np.random.default_rng(seed), protocol)


def directions(rng, n=120, d=6, k=4):
    """Points near k directions, with cosines below .5 between them in the mean, at many distances from 0."""
    truth = np.arange(n) % k
    unit = np.linalg.qr(rng.standard_normal((d, k)))[0].T
    return (unit[truth] + 0.05 * rng.standard_normal((n, d))) * 10 ** rng.uniform(-2, 2, (n, 1)), truth


# --- all three


@pytest.mark.parametrize("engine", NAMES)
@pytest.mark.parametrize(
    "layout", [np.float32, np.asfortranarray, sp.csr_array, lambda C: np.repeat(C, 2, axis=1)[:, ::2]]
)
def test_types_and_layouts_give_the_same_partition(layout, engine, rng):
    C = rng.standard_normal((150, 7)).astype(np.float32).astype(np.float64)
    given_points = layout(C)
    before = bytes_of(given_points)
    one, other = run(C, 5, engine, n_init=3), run(given_points, 5, engine, n_init=3)
    assert accuracy(one.labels, other.labels) == 1
    assert other.inertia == pytest.approx(one.inertia, rel=1e-6)
    assert other.labels.dtype == np.int64
    assert other.labels.shape == (150,)
    assert bytes_of(given_points) == before


@pytest.mark.parametrize("engine", NAMES)
def test_blocks_of_an_out_of_core_matrix_give_the_same_partition(engine, rng, monkeypatch):
    C = rng.standard_normal((300, 5))
    one = run(C, 4, engine, n_init=2)
    monkeypatch.setattr("kmdr.linalg.matrix.BLOCK", 5 * 37)
    monkeypatch.setattr("kmdr.clustering.spherical.BLOCK", 4 * 11)
    with treat_as_out_of_core(100):
        other = run(C, 4, engine, n_init=2)
    assert accuracy(one.labels, other.labels) == 1
    assert other.inertia == pytest.approx(one.inertia)


@pytest.mark.parametrize("engine", NAMES)
@settings(max_examples=40)
@given(C=dense_matrices(types=("float64",)), data=st.data())
def test_any_small_matrix_is_partitioned(engine, C, data):
    k = data.draw(st.integers(1, len(C)))
    clustering = run(C, k, engine, seed=data.draw(st.integers(0, 99)), n_init=2)
    assert clustering.labels.min() >= 0
    assert clustering.labels.max() < k
    assert clustering.inertia >= 0
    if engine != "spherical":  # which measures angles
        assert clustering.inertia >= residual(C, clustering.labels) * (1 - 1e-9) - 1e-9
        if len(np.unique(C, axis=0)) <= k:
            assert residual(C, clustering.labels) < 1e-9


@pytest.mark.parametrize("engine", NAMES)
def test_the_smallest_and_largest_k(engine, rng):
    C = rng.standard_normal((30, 4))
    assert not run(C, 1, engine).labels.any()
    assert len(np.unique(run(C, 30, engine).labels)) == 30
    assert run(C, 30, engine).inertia == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("engine", NAMES)
def test_constant_data_are_one_cluster_and_copies_of_a_point_are_together(engine, rng):
    C = np.full((20, 3), 2.5)
    args = {"rows": 4} if engine == "coreset" else {}
    assert not run(C, 4, engine, **args).labels.any()
    C = np.repeat(rng.standard_normal((12, 3)), 5, axis=0)
    labels = run(C, 4, engine).labels.reshape(12, 5)
    assert (labels == labels[:, :1]).all()


@pytest.mark.parametrize("engine", ["prone", "spherical"])
def test_the_order_of_the_points_does_not_matter(engine, rng):
    C, order = rng.standard_normal((200, 5)), rng.permutation(200)
    starts = rng.choice(200, 6, replace=False)
    one, other = run(C, 6, engine, [starts]), run(C[order], 6, engine, [np.argsort(order)[starts]])
    assert accuracy(one.labels[order], other.labels) == 1


@pytest.mark.parametrize("engine", NAMES)
@pytest.mark.parametrize("e", [-600, 600])
def test_powers_of_two_change_nothing(engine, e, rng):
    C = rng.standard_normal((90, 5))
    np.testing.assert_array_equal(run(C, 5, engine).labels, run(np.ldexp(C, e), 5, engine).labels)


@pytest.mark.parametrize("engine", NAMES)
def test_rows_of_a_comparison_state_the_engine(engine, rng):
    A, truth = directions(rng)
    args = {"rows": 60} if engine == "coreset" else {}
    how = {"labels": truth, "r_grid": [3], "repeats": 2, "progress": False}
    rows = kmdr.compare(A, ["none", "svd"], engine=engine, engine_args=args, **how).rows
    assert set(rows["status"]) == {"ok"}
    assert set(rows["engine"]) == {engine}
    again = kmdr.compare(A, ["none", "svd"], engine=engine, engine_args=args, **how).rows
    assert rows["objective"].tolist() == again["objective"].tolist()


@pytest.mark.parametrize(
    ("engine", "args", "message"),
    [
        ("prone", {"rows": 5}, "engine 'prone' takes no arguments"),
        ("coreset", {"row": 5}, "did you mean 'rows'"),
        ("coreset", {"rows": 0}, "kmeans.args.rows = 0 is not a whole number of at least 1"),
        ("coreset", {"rows": 1.5}, "kmeans.args.rows = 1.5 is not a whole number"),
    ],
)
def test_wrong_arguments_are_refused_before_any_work(engine, args, message):
    with pytest.raises(UserError, match=message):
        engines.check(Protocol(1, 10, engine=engine, args=canonical(args)))


@pytest.mark.parametrize("engine", NAMES)
def test_the_storage_of_a_sparse_matrix_does_not_matter(engine, rng):
    """64-bit indices, unsorted columns, entries in parts, stored zeros."""
    C = rng.standard_normal((150, 7)) * (rng.random((150, 7)) < 0.6)
    C[:, 0] += 1  # no row is 0
    canonical, one = sp.csr_array(C), run(C, 5, engine, n_init=2)
    data, indices, indptr = canonical.data, canonical.indices, canonical.indptr
    rows = np.repeat(np.arange(150), np.diff(indptr))
    share = rng.integers(1, 4, len(data)) / 4
    backwards = np.lexsort((-indices, rows))
    stored = {
        "64 bits": (data, indices.astype(np.int64), indptr.astype(np.int64)),
        "unsorted": (data[backwards], indices[backwards], indptr),
        "in parts": (np.c_[data * share, data * (1 - share)].ravel(), np.repeat(indices, 2), 2 * indptr),
        "with zeros": (C.ravel(), np.tile(np.arange(7), 150), np.arange(0, 151 * 7, 7)),
    }
    for name, parts in stored.items():
        given_points = sp.csr_array(parts, shape=C.shape)
        before = bytes_of(given_points)
        other = run(given_points, 5, engine, n_init=2)
        assert accuracy(one.labels, other.labels) == 1, name
        assert other.inertia == pytest.approx(one.inertia), name
        assert bytes_of(given_points) == before, name


@pytest.mark.parametrize("engine", ["prone", "coreset"])
@pytest.mark.parametrize("origin", [1e3, 1e6, 1e8])
def test_a_shift_changes_neither_the_partition_nor_the_inertia(engine, origin, rng):
    truth = np.arange(300) % 4
    C = (
        np.rint(64 * (6 * rng.standard_normal((4, 5))[truth] + rng.standard_normal((300, 5)))) / 64
    )  # exact after a shift
    args = {"rows": 100} if engine == "coreset" else {}
    one, other = run(C, 4, engine, **args), run(C + origin, 4, engine, **args)
    assert accuracy(one.labels, other.labels) == 1
    assert other.inertia == pytest.approx(one.inertia, rel=1e-6)


@pytest.mark.parametrize("layout", [np.copy, sp.csr_array])
def test_squared_distances_are_exact_with_a_point_far_away(layout, rng):
    """The square of the distant point is 10²⁴ times that of the others."""
    C = np.r_[rng.standard_normal((299, 5)), 1e12 * np.ones((1, 5))]
    centres = C[[0, 1, 2, 299]]
    exact = ((C[:, None] - centres) ** 2).sum(axis=2)
    labels, squares = nearest(layout(C), centres)
    np.testing.assert_array_equal(labels, exact.argmin(axis=1))
    np.testing.assert_allclose(squares, exact.min(axis=1), rtol=1e-9, atol=1e-9)


# --- prone


def seed_reference(x, k, rng):
    """D² sampling with all n distances computed for each centre; the same draws choose the same points."""
    chosen = [int(rng.integers(len(x)))]
    squares = (x - x[chosen[0]]) ** 2
    while len(chosen) < k and squares.any():
        ends = np.cumsum(squares)
        chosen.append(int(np.searchsorted(ends, rng.random() * ends[-1], "right")))
        squares = np.minimum(squares, (x - x[chosen[-1]]) ** 2)
    return np.sort(chosen)


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 500])
def test_the_tree_draws_what_plain_d2_sampling_draws(n, rng):
    x = np.sort(rng.standard_normal(n) ** 3)
    for k in {1, min(n, 2), min(n, 10), n}:
        seed = int(rng.integers(2**32))
        one, other = (draw(x, k, np.random.default_rng(seed)) for draw in (seed_on_line, seed_reference))
        np.testing.assert_array_equal(one, other)


def test_centres_are_drawn_by_their_squared_distance(rng, assert_frequencies):
    x = np.array([0.0, 1.0, 1.5, 4.0])
    pairs = [tuple(seed_on_line(x, 2, rng)) for _ in range(20_000)]
    squares = (x[:, None] - x) ** 2
    p = squares / squares.sum(axis=1, keepdims=True) / 4
    cells = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    assert_frequencies([pairs.count(cell) for cell in cells], [p[i, j] + p[j, i] for i, j in cells])


def test_each_point_joins_the_nearest_centre_on_the_line(rng):
    C, k = rng.standard_normal((400, 9)), 12
    clustering = run(C, k, "prone", seed=3)
    draws = np.random.default_rng(3)
    x = C @ draws.standard_normal(9)
    centres = np.sort(x)[seed_reference(np.sort(x), k, draws)]
    np.testing.assert_array_equal(clustering.labels, np.abs(x[:, None] - centres).argmin(axis=1))
    assert clustering.inertia == pytest.approx(residual(C, clustering.labels))


def test_the_best_of_several_lines_is_kept(rng):
    C, _ = directions(rng)
    many = run(C, 4, "prone", n_init=20)
    draws, inertias = np.random.default_rng(0), []
    for _ in range(20):
        x = C @ draws.standard_normal(C.shape[1])
        centres = np.sort(x)[seed_reference(np.sort(x), 4, draws)]
        inertias.append(residual(C, np.abs(x[:, None] - centres).argmin(axis=1)))
    assert many.inertia == pytest.approx(min(inertias))


def least_possible(A, k):
    """Energy outside of the first k − 1 singular vectors of the centred points: no partition into k parts has less."""
    A = A.toarray() if sp.issparse(A) else np.asarray(A, np.float64)
    A = A - A.mean(axis=0)
    energies = np.linalg.eigvalsh(A @ A.T if len(A) < A.shape[1] else A.T @ A)
    return max(energies[: -(k - 1)].sum() if k > 1 else energies.sum(), 0.0)


def mean_cost(A, k, lines=20):
    return np.mean([run(A, k, "prone", seed=seed).inertia for seed in range(lines)])


@pytest.mark.parametrize("k", [2, 3, 8, 30])
@pytest.mark.parametrize("spread", [0.1, 1, 10])
def test_the_mean_cost_is_within_k_to_the_fourth_of_the_least(k, spread, rng):
    """The theorem bounds the expectation by Õ(k⁴) times the optimum; here by 1·k⁴ times a lower bound of it."""
    A = spread * rng.standard_normal((k, 50))[np.arange(600) % k] + rng.standard_normal((600, 50))
    assert mean_cost(A, k) <= k**4 * least_possible(A, k)


@cache
def locally(name):
    return datasets.availability_of(name).is_local


ATLAS = (
    "digits", "usps", "orl_64x64", "yale", "warpar10p", "isolet", "colon", "glioma", "leukemia", "lung_small",
    "lymphoma", "cstr",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ATLAS)
def test_the_mean_cost_on_datasets_is_within_k_to_the_fourth_of_the_least(name):
    """As above, at the dataset's number of classes; the mean of 20 lines."""
    if not locally(name):
        pytest.skip(f"{name} is not available locally")
    data = datasets.load(name)
    ratio = mean_cost(data.A, data.k) / least_possible(data.A, data.k)
    assert 1 - 1e-9 <= ratio <= data.k**4


# --- coreset


def sensitivities(C, k, rng):
    """The bound of Algorithm 2 of Bachem, Lucic and Krause, term by term."""
    seeds = C[plus_rows(C, k, [seed_of(rng)])[0]]
    distances = ((C[:, None] - seeds) ** 2).sum(axis=2)
    part, d = distances.argmin(axis=1), distances.min(axis=1)
    alpha, c = 16 * (np.log(k) + 2), d.mean()
    sizes, means = np.bincount(part), np.bincount(part, d) / np.maximum(np.bincount(part), 1)
    return alpha * d / c + 2 * alpha * means[part] / c + 4 * len(C) / sizes[part]


def test_rows_are_drawn_by_their_sensitivity(rng, assert_frequencies):
    C, m = np.r_[rng.standard_normal((40, 3)), 8 + rng.standard_normal((5, 3))], 10**6
    sample, weights = sensitivity_sample(C, 3, m, np.random.default_rng(7))
    s = sensitivities(C, 3, np.random.default_rng(7))
    q = s / s.sum()
    draws = weights * m * q[sample]
    np.testing.assert_allclose(draws, np.rint(draws), rtol=1e-9)
    assert np.rint(draws).sum() == m
    counts = np.zeros(len(C))
    counts[sample] = draws
    assert_frequencies(counts, q)


def test_the_weighted_cost_is_an_unbiased_estimate(rng, bernstein):
    C = np.r_[rng.standard_normal((300, 4)), 30 + rng.standard_normal((3, 4))]
    cost = ((C[:, None] - rng.standard_normal((5, 4)) * 3) ** 2).sum(axis=2).min(axis=1)
    N, m = 60, 1000
    estimates, variances, largest = [], [], []
    for seed in range(N):
        sample, weights = sensitivity_sample(C, 5, m, np.random.default_rng(seed))
        estimates.append(weights @ cost[sample])
        s = sensitivities(C, 5, np.random.default_rng(seed))
        q = s / s.sum()
        variances.append(((cost**2 / q).sum() - cost.sum() ** 2) / m)
        largest.append((cost / q).max() / m)
    h = bernstein(N * m, max(variances) * m, max(largest) * m)
    assert abs(np.mean(estimates) - cost.sum()) < h
    assert h < 0.2 * cost.sum()


def test_the_centres_are_a_fixed_point_of_weighted_lloyd_on_the_sample(rng):
    C, k = rng.standard_normal((500, 3)), 6
    clustering = run(C, k, "coreset", seed=5, rows=80)
    sample, weights = sensitivity_sample(C, k, 80, np.random.default_rng(5))
    labels = clustering.labels[sample]
    means = np.array([np.average(C[sample][labels == c], axis=0, weights=weights[labels == c]) for c in range(k)])
    distances = ((C[:, None] - means) ** 2).sum(axis=2)
    np.testing.assert_array_equal(clustering.labels, distances.argmin(axis=1))
    assert clustering.inertia == pytest.approx(distances.min(axis=1).sum())
    assert clustering.n_init_failed == 0


def test_it_is_k_means_of_scikit_learn_on_the_same_sample(rng):
    truth = np.arange(600) % 5
    C = 20 * rng.standard_normal((5, 4))[truth] + rng.standard_normal((600, 4))
    clustering = run(C, 5, "coreset", seed=2, n_init=10, rows=100)
    sample, weights = sensitivity_sample(C, 5, 100, np.random.default_rng(2))
    model = KMeans(5, n_init=10, tol=0, random_state=0).fit(C[sample], sample_weight=weights)
    np.testing.assert_array_equal(accuracy(model.predict(C), clustering.labels), 1)


def test_all_points_are_used_if_there_are_no_more(rng):
    C = 20 * rng.standard_normal((4, 3))[np.arange(80) % 4] + rng.standard_normal((80, 3))
    assert run(C, 4, "coreset", rows=80, n_init=5).inertia == pytest.approx(KMeans(4, n_init=20).fit(C).inertia_)
    with pytest.raises(UserError, match=r"kmeans\.args\.rows = 3 is less than k = 4"):
        run(C, 4, "coreset", rows=3)


# --- spherical


def spherical_reference(C, rows, max_iter):
    """Spherical k-means by its definition, cluster by cluster."""
    U = C / np.linalg.norm(C, axis=1, keepdims=True)
    centres, labels = U[rows], None
    for _ in range(max_iter):
        nearest = (U @ centres.T).argmax(axis=1)
        if labels is not None and (nearest == labels).all():
            break
        labels = nearest
        for c in np.unique(labels):
            total = U[labels == c].sum(axis=0)
            centres[c] = total / np.linalg.norm(total)
    return labels, ((U - centres[labels]) ** 2).sum()


@pytest.mark.parametrize("layout", [np.copy, sp.csr_array])
def test_spherical_k_means_equals_its_definition(layout, rng):
    C = rng.standard_normal((300, 5)) * 10 ** rng.uniform(-3, 3, (300, 1))
    starts = [rng.choice(300, 7, replace=False) for _ in range(6)]
    clustering = run(layout(C), 7, "spherical", starts)
    labels, inertia = min((spherical_reference(C, rows, 100) for rows in starts), key=lambda fit: fit[1])
    np.testing.assert_array_equal(clustering.labels, labels)
    assert clustering.inertia == pytest.approx(inertia)
    assert clustering.n_init_failed == 0
    assert run(C, 7, "spherical", starts, max_iter=1).n_init_failed == 6


def test_the_lengths_of_the_rows_change_nothing(rng):
    C, _ = directions(rng)
    scaled = C * 2.0 ** rng.integers(-40, 40, (len(C), 1))
    starts = [rng.choice(len(C), 4, replace=False) for _ in range(3)]
    np.testing.assert_array_equal(run(C, 4, "spherical", starts).labels, run(scaled, 4, "spherical", starts).labels)


@pytest.mark.parametrize("layout", [np.copy, sp.csr_array])
def test_rows_too_short_to_be_squared_have_a_direction(layout, rng):
    C, _ = directions(rng)
    scaled = C * np.where(np.arange(len(C)) % 2, 2.0**-900, 1)[:, None]
    starts = [rng.choice(len(C), 4, replace=False) for _ in range(3)]
    np.testing.assert_array_equal(
        run(C, 4, "spherical", starts).labels, run(layout(scaled), 4, "spherical", starts).labels
    )


def test_it_recovers_directions_that_k_means_mixes(rng):
    C, truth = directions(rng)
    assert accuracy(truth, run(C, 4, "spherical", n_init=20).labels) == 1
    assert accuracy(truth, run(C, 4, "kmdr", n_init=20).labels) < 0.9


@pytest.mark.parametrize("layout", [np.copy, sp.csr_array])
def test_rows_of_zeros_have_no_direction(layout, rng):
    C = rng.standard_normal((20, 3))
    C[[4, 7]] = 0
    with pytest.raises(UserError, match="2 of 20 rows are 0 and have no direction"):
        run(layout(C), 3, "spherical")
