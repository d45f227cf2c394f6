"""Engines: those with a name, and any class with fit_predict by its import path."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import BisectingKMeans, KMeans, MiniBatchKMeans
from sklearn.mixture import GaussianMixture

from kmdr.base import outside
from kmdr.base.errors import UserError
from kmdr.base.outside import seed_of
from kmdr.base.text import canonical
from kmdr.clustering import engines
from kmdr.clustering.kmeans import Protocol
from kmdr.metrics import accuracy
from oracles import lloyd_error, lloyd_reference


@pytest.fixture(autouse=True)
def named_by_the_user(monkeypatch):
    monkeypatch.setattr(outside, "is_allowed", lambda path: True)


def clear_clusters(rng, n=120, r=5, k=4):
    truth = np.arange(n) % k
    return rng.standard_normal((n, r)) + 20 * rng.standard_normal((k, r))[truth], truth


def draw_starts(rng, n, k, n_init=1):
    return np.array([rng.choice(n, k, replace=False) for _ in range(n_init)])


def starts_without_empty_clusters(C, k, rng, n_init):
    """Starts from which no cluster loses its points: scikit-learn refills by another rule."""
    starts = []
    while len(starts) < n_init:
        rows = draw_starts(rng, len(C), k)[0]
        if lloyd_reference(np.asarray(C, dtype=np.float64), rows, 1000)[3] == 0:
            starts.append(rows)
    return np.array(starts)


def run(C, k, starts, protocol, seed=0):
    return engines.cluster(C, k, np.asarray(starts), np.random.default_rng(seed), protocol)


@pytest.mark.parametrize("engine", ["sklearn", "sklearn_elkan"])
@pytest.mark.parametrize("layout", [np.copy, np.float32, sp.csr_array])
def test_engines_find_the_same_from_the_same_starts(layout, engine, rng):
    dense = np.float32(rng.random((200, 4)))
    rows = starts_without_empty_clusters(dense, 6, rng, 5)
    C = layout(dense)
    ours, theirs = (run(C, 6, rows, Protocol(5, 500, engine=name)) for name in ("kmdr", engine))
    np.testing.assert_array_equal(ours.labels, theirs.labels)
    assert (ours.n_init_failed, theirs.n_init_failed) == (0, 0)
    if engine == "sklearn":
        assert ours.n_iter == theirs.n_iter
    assert theirs.inertia == pytest.approx(ours.inertia, rel=1e-6)
    assert theirs.labels.dtype == np.int64
    assert lloyd_error(dense, theirs.labels) < 1e-9


def test_scikit_learn_counts_starts_that_used_all_iterations(rng):
    C = rng.standard_normal((150, 3))
    rows = starts_without_empty_clusters(C, 4, rng, 20)
    models = [KMeans(4, algorithm="lloyd", tol=0, n_init=1, init=C[start], max_iter=1000).fit(C) for start in rows]
    needed = [model.n_iter_ for model in models]
    for max_iter in (1, 5, 8):
        failed = run(C, 4, rows, Protocol(20, max_iter, engine="sklearn")).n_init_failed
        assert failed == sum(count >= max_iter for count in needed)


def test_scikit_learn_does_not_warn_of_copies():
    C = np.repeat([[0.0], [1.0]], 5, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(C, 3, [[0, 1, 5]], Protocol(1, 10, engine="sklearn")).inertia == 0


# --- by import path


def test_a_class_gets_k_seed_and_the_protocol(rng):
    C, _ = clear_clusters(rng)
    protocol = Protocol(
        3, 17, engine="sklearn.cluster.BisectingKMeans", args=canonical({"bisecting_strategy": "largest_cluster"})
    )
    clustering = run(C, 4, draw_starts(rng, len(C), 4, 3), protocol, seed=5)
    seed = seed_of(np.random.default_rng(5))
    model = BisectingKMeans(4, n_init=3, max_iter=17, random_state=seed, bisecting_strategy="largest_cluster")
    assert accuracy(model.fit_predict(C), clustering.labels) == 1
    assert clustering.inertia == pytest.approx(model.inertia_)


def test_a_k_means_begins_at_the_protocols_starts_and_the_best_is_kept(rng):
    C, _ = clear_clusters(rng)
    starts = draw_starts(rng, len(C), 4, 6)
    clustering = run(C, 4, starts, Protocol(6, 50, engine="sklearn.cluster.KMeans"))
    fits = [KMeans(4, init=C[rows], n_init=1, max_iter=50).fit(C) for rows in starts]
    best = min(fits, key=lambda fit: fit.inertia_)
    assert clustering.inertia == best.inertia_
    assert accuracy(best.labels_, clustering.labels) == 1


def test_a_mixture_is_an_engine_too(rng):
    C, _ = clear_clusters(rng)
    clustering = run(
        C, 4, draw_starts(rng, len(C), 4), Protocol(1, 100, engine="sklearn.mixture.GaussianMixture"), seed=2
    )
    model = GaussianMixture(4, max_iter=100, n_init=1, random_state=seed_of(np.random.default_rng(2)))
    assert accuracy(model.fit_predict(C), clustering.labels) == 1


def test_mini_batches_take_sparse_data(rng):
    C, _ = clear_clusters(rng)
    C = sp.csr_array(np.abs(C))
    starts, draws = draw_starts(rng, 120, 4, 2), np.random.default_rng(3)
    protocol = Protocol(2, 20, engine="sklearn.cluster.MiniBatchKMeans", args='{"batch_size":40}')
    clustering = run(C, 4, starts, protocol, seed=3)
    settings = {"n_init": 1, "max_iter": 20, "batch_size": 40}
    fits = [
        MiniBatchKMeans(4, init=C[rows].toarray(), random_state=seed_of(draws), **settings).fit(C) for rows in starts
    ]
    best = min(fits, key=lambda fit: fit.inertia_)
    assert clustering.inertia == best.inertia_
    assert accuracy(best.labels_, clustering.labels) == 1


@pytest.mark.parametrize(
    ("engine", "args", "said"),
    [
        ("kmdrr", "{}", "did you mean 'kmdr'"),
        ("sklearn.cluster.KMean", "{}", "did you mean 'KMeans'"),
        ("no.such.Class", "{}", "cannot be imported"),
        ("sklearn.cluster.DBSCAN", "{}", "has no argument n_clusters"),
        ("sklearn.decomposition.PCA", "{}", "no fit_predict"),
        ("sklearn.cluster.BisectingKMeans", '{"bisecting":1}', "bisecting_strategy"),
        ("kmdr", '{"tol":1}', "import path"),
        ("matlab", "{}", "no kmeans.engine is named 'matlab'; valid: .*kmdr, .*sklearn"),
    ],
)
def test_what_is_no_engine_is_refused_before_any_work(engine, args, said):
    with pytest.raises(UserError, match=said):
        engines.check(Protocol(1, 10, engine=engine, args=args))


def test_a_protocol_without_arguments_keeps_its_identity():
    assert Protocol(5, 500).identity == {"n_init": 5, "max_iter": 500, "start": "sample", "engine": "kmdr"}
    assert Protocol(5, 500, args='{"a":1}').identity["args"] == '{"a":1}'
