"""Transformers of other packages as reducers, named by their import path."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import NMF, PCA, TruncatedSVD
from sklearn.manifold import MDS
from sklearn.random_projection import SparseRandomProjection

from kmdr import reducers
from kmdr.base import outside
from kmdr.base.errors import UserError
from kmdr.base.outside import origin, seed_of
from kmdr.figures.style import reducer_styles


@pytest.fixture(autouse=True)
def named_by_the_user(monkeypatch):
    monkeypatch.setattr(outside, "is_allowed", lambda path: True)


def reduced(path, A, r, seed=0, **args):
    reducer = reducers.make(path, args)
    rng = np.random.default_rng(seed)
    return reducer.reduce(A, r, rng, reducer.prepare(A, 3, rng))


@pytest.mark.parametrize(
    ("cls", "args"),
    [
        (NMF, {"max_iter": 2000, "init": "random", "tol": 1e-2}),
        (TruncatedSVD, {}),
        (SparseRandomProjection, {}),
        (PCA, {"whiten": True}),
    ],
)
def test_c_is_what_the_class_makes_of_a(cls, args, rng):
    A = rng.random((60, 20))
    C = reduced(f"{cls.__module__.partition('._')[0]}.{cls.__name__}", A, 4, seed=7, **args)
    expected = cls(4, random_state=seed_of(np.random.default_rng(7)), **args).fit_transform(A)
    expected = expected.toarray() if sp.issparse(expected) else expected
    np.testing.assert_array_equal(C.toarray() if sp.issparse(C) else C, expected)


def test_a_class_that_cannot_transform_new_points_serves(rng):
    C = reduced("sklearn.manifold.MDS", rng.random((25, 6)), 2, n_init=1, init="random")
    assert C.shape == (25, 2)
    assert not hasattr(MDS, "transform")


def test_the_same_draw_gives_the_same_and_another_another(rng):
    A = rng.random((40, 30))
    path = "sklearn.random_projection.GaussianRandomProjection"
    np.testing.assert_array_equal(reduced(path, A, 5, seed=1), reduced(path, A, 5, seed=1))
    assert (reduced(path, A, 5, seed=1) != reduced(path, A, 5, seed=2)).any()


def test_as_a_transformer_fit_draws_and_transform_applies(rng):
    A = rng.random((40, 10))
    C = reducers.make("sklearn.decomposition.PCA").draw(A, 3, rng, None).transform(A)
    np.testing.assert_allclose(C @ C.T, PCA(3).fit_transform(A) @ PCA(3).fit_transform(A).T, atol=1e-9)


@pytest.mark.parametrize(
    ("path", "args", "said"),
    [
        ("sklearn.decomposition.NMFF", {}, "did you mean 'NMF'"),
        ("sklearn.decompositions.NMF", {}, "cannot be imported"),
        ("sklearn.cluster.DBSCAN", {}, "neither fit_transform nor transform"),
        ("sklearn.preprocessing.StandardScaler", {}, "has no argument n_components"),
        ("sklearn.decomposition.NMF", {"maxiter": 3}, "did you mean 'max_iter'"),
        ("sklearn.decomposition.NMF", {"n_components": 3}, "r_grid"),
        ("sklearn.decomposition.NMF", {"random_state": 3}, "seed"),
    ],
)
def test_what_is_no_reducer_is_refused_before_any_work(path, args, said):
    with pytest.raises(UserError, match=said):
        reducers.make(path, args)


@pytest.mark.parametrize("config", [{"path": None}, {"path": "NMF"}, {"path": 3}, {"path": "a.B", "args": [1]}])
def test_a_configuration_without_a_path_or_names_is_refused(config):
    with pytest.raises(UserError, match=r"write|named"):
        reducers.named({"name": "outside", **config})


def test_the_origin_of_a_class_names_its_distribution():
    name, version, digest = origin("sklearn.decomposition.NMF").split()
    assert name == "scikit-learn"
    assert version[0].isdigit()
    assert len(digest) == 12


def test_a_legend_calls_a_class_by_its_name_unless_that_tells_nothing_apart():
    names = ["sklearn.decomposition.NMF", "a.LLE", "b.PCA", "c.PCA", "lle", "mine"]
    assert {name: style.label for name, style in reducer_styles(names).items()} == {
        "sklearn.decomposition.NMF": "NMF", "a.LLE": "LLE", "b.PCA": "b.PCA", "c.PCA": "c.PCA", "lle": "lle",
        "mine": "mine",
    }  # fmt: skip
