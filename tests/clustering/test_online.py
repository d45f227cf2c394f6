"""MATLAB's online phase and EmptyAction against exact rational arithmetic and a plain reading of the docstring."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from kmdr import reducers
from kmdr.base import paths
from kmdr.base.errors import UserError
from kmdr.base.threads import pinned
from kmdr.clustering import engines, kmeans
from kmdr.clustering.kmeans import Protocol, lloyd
from kmdr.results.manifests import read_configs
from oracles import lloyd_error, lloyd_reference

LAYOUTS = [np.copy, sp.csr_array]
layouts = pytest.mark.parametrize("layout", LAYOUTS, ids=["dense", "csr"])


def draw_starts(rng, n, k, n_init=1):
    return np.array([rng.choice(n, size=k, replace=False) for _ in range(n_init)])


def mean(points):
    return [Fraction(sum(column), len(points)) for column in zip(*points, strict=True)]


def square(x, centre):
    return sum((a - b) ** 2 for a, b in zip(x, centre, strict=True))


def objective(points, labels):
    """Sum of squared distances to the means, exactly."""
    clusters = [[x for x, c in zip(points, labels, strict=True) if c == label] for label in set(labels)]
    return sum(square(x, mean(cluster)) for cluster in clusters for x in cluster)


def online_reference(points, labels, k, most):
    """The docstring of `kmdr.clustering.kmeans`, one point after the other, every objective from scratch."""
    labels, last, passes = list(labels), 1, 0
    while True:
        passes += 1
        moved = False
        for i, source in enumerate(list(labels)):
            if labels.count(source) == 1:
                continue
            ways = [[*labels[:i], c, *labels[i + 1 :]] for c in range(k) if c == source or c in labels]
            best = min(ways, key=lambda way: objective(points, way))
            if objective(points, best) < objective(points, labels):
                if passes > most:
                    return labels, most, False
                labels, moved, last = best, True, passes
        if not moved:
            return labels, last, True


def integers(rng, n, r, largest):
    return rng.integers(-largest, largest + 1, size=(n, r))


@pytest.mark.slow
@layouts
def test_the_online_phase_is_that_of_the_docstring_step_by_step(layout, rng):
    """For every limit of iterations from where Lloyd is done to one more than both phases need."""
    moved = cut = 0
    for _ in range(25):
        n, r, k = (int(rng.integers(*ends)) for ends in ((8, 18), (1, 4), (2, 5)))
        X = integers(rng, n, r, 10_000)
        rows = draw_starts(rng, n, k)
        before = lloyd(layout(X.astype(float)), rows, 100)
        needed = lloyd(layout(X.astype(float)), rows, 100, online=True).n_iter
        for max_iter in range(before.n_iter - 1, needed + 2):
            after = lloyd(layout(X.astype(float)), rows, max_iter, online=True)
            if max_iter < before.n_iter:  # Lloyd was cut off
                assert after.n_init_failed == 1
                continue
            most = max_iter - before.n_iter + 1
            labels, passes, done = online_reference(X.tolist(), before.labels.tolist(), k, most)
            np.testing.assert_array_equal(after.labels, labels)
            assert (after.n_iter, after.n_init_failed) == (before.n_iter - 1 + passes, int(not done))
            assert after.inertia == pytest.approx(float(objective(X.tolist(), labels)), rel=1e-12)
            moved += labels != before.labels.tolist()
            cut += not done
    assert moved > 4
    assert cut > 0


@layouts
def test_no_move_of_a_single_point_lowers_the_objective(layout, rng):
    # On a coarse grid, with ties and copies, where what rounding feigns would be taken for a gain.
    for _ in range(40):
        n, k = int(rng.integers(6, 16)), int(rng.integers(2, 5))
        X = integers(rng, n, 2, 2)
        rows = draw_starts(rng, n, k)
        labels = lloyd(layout(X.astype(float)), rows, 1000, online=True).labels.tolist()
        least = objective(X.tolist(), labels)
        assert least <= objective(X.tolist(), lloyd(layout(X.astype(float)), rows, 1000).labels.tolist())
        assert sorted(set(labels)) == list(range(k))
        for i in range(n):
            for c in range(k):
                assert objective(X.tolist(), [*labels[:i], c, *labels[i + 1 :]]) >= least


@layouts
def test_a_larger_problem_is_a_fixed_point_of_both_phases(layout, rng):
    C = rng.random((1200, 6))
    rows = draw_starts(rng, 1200, 25, 3)
    plain, online = lloyd(layout(C), rows, 500), lloyd(layout(C), rows, 500, online=True)
    assert online.inertia < plain.inertia
    assert lloyd_error(layout(C), online.labels) < 1e-12
    counts = np.bincount(online.labels)
    centres = np.array([C[online.labels == c].mean(axis=0) for c in range(25)])
    s = ((C[:, None] - centres) ** 2).sum(axis=2)
    own = s[np.arange(1200), online.labels] * counts[online.labels] / (counts[online.labels] - 1)
    s[np.arange(1200), online.labels] = np.inf
    assert (own <= (s * counts / (counts + 1)).min(axis=1) + 1e-12).all()
    again = lloyd(layout(C), rows, 500, online=True)
    np.testing.assert_array_equal(again.labels, online.labels)


def test_dense_and_csr_give_the_same_partitions(rng):
    for _ in range(20):
        C = rng.standard_normal((150, 5)) * (rng.random((150, 5)) < 0.6)
        rows = draw_starts(rng, 150, 6, 3)
        dense, sparse = (lloyd(layout(C), rows, 300, online=True) for layout in LAYOUTS)
        np.testing.assert_array_equal(dense.labels, sparse.labels)
        assert dense.n_iter == sparse.n_iter


@layouts
def test_the_online_phase_by_hand(layout):
    # Means 2 and 7: the point 4 is nearer to 2. Without it cluster 0 loses 2·2² = 8, with it cluster 1 gains ¾·3².
    C = np.array([[0.0], [4.0], [7.0], [7.0], [7.0]])
    plain, online = lloyd(layout(C), [[1, 2]], 9), lloyd(layout(C), [[1, 2]], 9, online=True)
    assert (plain.labels.tolist(), plain.n_iter) == ([0, 0, 1, 1, 1], 2)
    assert (online.labels.tolist(), online.n_iter, online.n_init_failed) == ([0, 1, 1, 1, 1], 2, 0)
    assert (plain.inertia, online.inertia) == (pytest.approx(8), pytest.approx(6.75))
    # Its pass is the second iteration in place of Lloyd's idle one, which cannot be had from a limit of 1.
    for max_iter, labels, failed in ((2, [0, 1, 1, 1, 1], 0), (1, [0, 0, 1, 1, 1], 1)):
        clustering = lloyd(layout(C), [[1, 2]], max_iter, online=True)
        assert (clustering.labels.tolist(), clustering.n_init_failed) == (labels, failed)


@layouts
def test_the_best_start_is_taken_after_the_phase(layout, rng):
    C = rng.random((60, 2))
    differ = 0
    for _ in range(30):
        rows = draw_starts(rng, 60, 8, 4)
        alone = [lloyd(layout(C), [start], 500, online=True) for start in rows]
        best = int(np.argmin([each.inertia for each in alone]))
        with pinned(2):
            clustering = lloyd(layout(C), rows, 500, online=True)
        np.testing.assert_array_equal(clustering.labels, alone[best].labels)
        differ += best != int(np.argmin([lloyd(layout(C), [start], 500).inertia for start in rows]))
    assert differ > 0


# --- EmptyAction


def dropping_reference(C, rows, max_iter):
    """Lloyd in plain numpy; a cluster without points is left out from then on. Labels, iterations, whether one was."""
    centres, labels, alive = C[rows], None, np.ones(len(rows), bool)
    for iteration in range(1, max_iter + 1):
        s = np.array([((C - centre) ** 2).sum(axis=1) for centre in centres])
        s[~alive] = np.inf
        nearest = s.argmin(axis=0)
        if labels is not None and np.array_equal(nearest, labels):
            return labels, iteration, not alive.all()
        labels = nearest
        alive = np.bincount(labels, minlength=len(rows)) > 0
        for c in np.flatnonzero(alive):
            centres[c] = C[labels == c].mean(axis=0)
    return labels, max_iter, not alive.all()


def points_with_copies(rng):
    half = np.round(rng.standard_normal((int(rng.integers(3, 9)), 2)) * 2**12) / 2**12
    C = np.repeat(np.vstack([half, -half]), int(rng.integers(2, 4)), axis=0)
    return C[rng.permutation(len(C))]


@layouts
@pytest.mark.parametrize("by_gram", [False, True])
def test_what_becomes_of_an_empty_cluster(layout, by_gram, monkeypatch, rng):
    if by_gram:
        monkeypatch.setattr(kmeans, "_GRAM_COST", 2**40)
        monkeypatch.setattr(kmeans, "_GRAM_SHARE", 2**40)
    emptied = 0
    for _ in range(150):
        C = points_with_copies(rng)
        rows = draw_starts(rng, len(C), int(rng.integers(2, 7)))
        labels, n_iter, lost = dropping_reference(C, rows[0], 40)
        dropped = lloyd(layout(C), rows, 40, empty_action="drop")
        np.testing.assert_array_equal(dropped.labels, labels)
        assert (dropped.n_iter, dropped.n_init_failed) == (n_iter, 0)
        refilled = lloyd(layout(C), rows, 40)
        if lost:
            assert lloyd_reference(C, rows[0], 40)[3] > 0
            with pytest.raises(UserError, match=r"in each of 1 starts.*empty_action = 'error'.*use 'singleton'"):
                lloyd(layout(C), rows, 40, empty_action="error")
        else:
            for action in ("drop", "error"):
                other = lloyd(layout(C), rows, 40, empty_action=action)
                np.testing.assert_array_equal(other.labels, refilled.labels)
                assert other.inertia == refilled.inertia
        online = lloyd(layout(C), rows, 40, online=True, empty_action="drop")
        assert set(online.labels) == set(dropped.labels)  # no point goes to a cluster that is gone
        emptied += lost
    assert emptied > 40


@layouts
def test_a_start_that_is_given_up_leaves_the_others(layout):
    C = np.array([[0.0], [0.0], [0.0], [8.0]]) - 2  # both centres of the first start at −2
    kept = lloyd(layout(C), [[0, 1], [0, 3]], 10, empty_action="error")
    assert (kept.labels.tolist(), kept.n_init_failed) == ([0, 0, 0, 1], 1)
    assert lloyd(layout(C), [[0, 1]], 10, empty_action="drop").labels.tolist() == [0, 0, 0, 0]


# --- settings


def test_settings_enter_the_identity_only_where_they_differ():
    plain = {"n_init": 5, "max_iter": 500, "start": "sample", "engine": "kmdr"}
    assert Protocol(5, 500).identity == plain
    assert Protocol(5, 500, online=False, empty_action="singleton").identity == plain
    assert Protocol(5, 500, online=True).identity == {**plain, "online": True}
    assert Protocol(5, 500, empty_action="drop").identity == {**plain, "empty_action": "drop"}


def test_configurations_of_committed_rows_are_told_as_they_were():
    configs, _ = read_configs(paths.CONF.parent / "results" / "reference")
    assert len(configs) > 100
    for config in configs.values():
        assert Protocol(**config["kmeans"]).identity == config["kmeans"]
        name = config["reducer"]
        if "." not in name:
            assert reducers.recorded(name, reducers.settings(name) | config["params"]) == config["params"]


@pytest.mark.parametrize("setting", [{"online": True}, {"empty_action": "drop"}, {"empty_action": "error"}])
def test_settings_that_an_engine_or_a_reducer_cannot_follow_are_refused(setting):
    for engine in ("sklearn", "sklearn_elkan", "sklearn.cluster.KMeans"):
        with pytest.raises(UserError, match=rf"work with kmeans.engine=kmdr only, not with '{engine}'"):
            engines.check(Protocol(1, 9, engine=engine, **setting))
    engines.check(Protocol(1, 9, **setting))
    with pytest.raises(UserError, match=r"online and kmeans.empty_action do not work with reducer sparsified"):
        reducers.make("sparsified").check_protocol(Protocol(1, 9, **setting))
    reducers.make("leverage").check_protocol(Protocol(1, 9, **setting))


@pytest.mark.parametrize("value", [1, "yes", None])
def test_values_that_are_none_are_refused(value):
    with pytest.raises(UserError, match=rf"kmeans.online = {value!r} is not a choice; give true or false"):
        Protocol(1, 9, online=value)
    with pytest.raises(UserError, match=r"kmeans.empty_action = .* is not one of singleton, drop, error"):
        Protocol(1, 9, empty_action=value)
