"""The reducers as scikit-learn transformers: its own checks, pipelines, and the r of the theorems."""

import doctest
import inspect
import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.random_projection import johnson_lindenstrauss_min_dim
from sklearn.utils.estimator_checks import parametrize_with_checks

import kmdr.reducers
from kmdr import reducers
from kmdr.reducers.base import REGISTRY, Reducer

reducers.names()  # imports every module
CLASSES = [cls for name, cls in sorted(REGISTRY.known().items()) if name != "none"]
LAYOUTS = (np.asarray, np.asfortranarray, sp.csr_array, sp.csc_array, sp.coo_array, sp.csr_matrix)
# What a row keeps is drawn by its place in X, so a part of X does not give a part of the result.
POSITION = "which entries a row keeps is drawn by the row's position"
BY_POSITION = {f"check_methods_{kind}_invariance": POSITION for kind in ("subset", "sample_order")}


def small(cls):
    """A reducer for the few points of scikit-learn's checks."""
    return cls(n_components=2, n_clusters=2, **({"n_neighbors": 4} if cls.name == "lle" else {}))


@parametrize_with_checks(
    [small(cls) for cls in CLASSES],
    expected_failed_checks=lambda reducer: BY_POSITION if reducer.name == "sparsified" else {},
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_every_reducer_can_be_imported_by_the_name_of_its_class():
    assert [getattr(kmdr.reducers, cls.__name__) for cls in CLASSES] == CLASSES
    offered = [getattr(kmdr.reducers, name) for name in kmdr.reducers.__all__]
    assert Reducer in offered
    with pytest.raises(ImportError):
        from kmdr.reducers import NoSuchReducer  # noqa: F401


every_class = pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.name)


def points(rng, n=90, d=20, k=3):
    return rng.random((n, d)) + 3 * rng.random((k, d))[np.arange(n) % k]


@every_class
def test_fit_transform_is_what_the_harness_computes(cls, rng):
    # With one seed's generator for both steps: the map is the harness's, and so is C.
    A = points(rng)
    model = cls(n_components=5, n_clusters=3, random_state=np.random.default_rng(4)).fit(A)
    reducer, both = cls(n_components=5, n_clusters=5 if cls.name.endswith("svd") else 3), np.random.default_rng(4)
    C = reducer.reduce(A, 5, both, reducer.prepare(A, reducer.n_clusters, both))
    as_dense = (lambda M: M.toarray()) if sp.issparse(C) else np.asarray
    np.testing.assert_allclose(as_dense(model.transform(A)), as_dense(C), rtol=1e-6, atol=1e-9)
    again = clone(model).set_params(random_state=np.random.default_rng(4)).fit_transform(A)
    np.testing.assert_allclose(as_dense(again), as_dense(C), rtol=1e-6, atol=1e-9)


@every_class
def test_in_a_pipeline_with_k_means(cls, rng):
    A = points(rng)
    model = make_pipeline(cls(n_components=8, n_clusters=3, random_state=1), KMeans(3, n_init=10, random_state=0))
    labels = clone(model).fit_predict(A)
    assert len(np.unique(labels)) == 3
    np.testing.assert_array_equal(clone(model).fit_predict(A), labels)
    search = GridSearchCV(model, {f"{model.steps[0][0]}__n_components": [2, 9]}, cv=2).fit(A)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@every_class
@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(layouts=st.tuples(*[st.sampled_from(LAYOUTS)] * 2), dtypes=st.tuples(*[st.sampled_from(["f4", "f8"])] * 2),
       seed=st.integers(0, 2**32 - 1), new=st.booleans())  # fmt: skip
def test_what_is_transformed_may_have_another_layout_than_what_was_fitted(cls, layouts, dtypes, seed, new):
    # Sums of whole numbers and means of 32 of them are exact, so features of equal variance stay equal. But rounding
    # chooses among neighbours at equal distances, which they often have.
    ties = cls is not reducers.LLE
    assume(ties or "f4" not in dtypes)
    rng = np.random.default_rng(seed)
    A = 4 * points(rng, 32, 12) * (rng.random((32, 12)) < 0.5)
    X = 4 * points(rng, 9, 12) if new else A[rng.permutation(32)[:9]]
    A, X = (np.rint(M) if ties else M for M in (A, X))
    plain = small(cls).set_params(random_state=1).fit(A.astype(dtypes[0])).transform(X.astype(dtypes[1]))
    fitted = small(cls).set_params(random_state=1).fit(layouts[0](A.astype(dtypes[0])))
    mixed = fitted.transform(layouts[1](X.astype(dtypes[1])))
    assert (mixed.shape, mixed.dtype) == (plain.shape, np.dtype(dtypes[1]))
    plain, mixed = (M.toarray() if sp.issparse(M) else M for M in (plain, mixed))
    scale = 1e-3 if "f4" in dtypes else 1e-7 if ties else 1e-5
    np.testing.assert_allclose(mixed, plain, rtol=scale, atol=scale * np.abs(plain).max())


@every_class
def test_sparse_and_dense_give_the_same(cls, rng):
    dense = points(rng) * (rng.random((90, 20)) < 0.5)
    for layout in (sp.csr_array, sp.csc_array, sp.coo_matrix):
        first = cls(n_components=4, n_clusters=2, random_state=3).fit_transform(layout(dense))
        second = cls(n_components=4, n_clusters=2, random_state=3).fit_transform(dense)
        first, second = (M.toarray() if sp.issparse(M) else M for M in (first, second))
        np.testing.assert_allclose(first, second, atol=1e-8 * np.abs(second).max())


@every_class
def test_names_and_frames(cls, rng):
    A = pd.DataFrame(points(rng, d=6), columns=[f"gene {i}" for i in range(6)])
    reducer = cls(n_components=3, n_clusters=2, random_state=0)
    plain = clone(reducer).fit_transform(A)
    frame = reducer.set_output(transform="pandas").fit_transform(A)
    assert list(frame.columns) == list(reducer.get_feature_names_out())
    assert len(set(frame.columns)) == frame.shape[1]
    np.testing.assert_array_equal(frame.to_numpy(), plain.toarray() if sp.issparse(plain) else plain)
    if cls.name == "sparsified":
        assert all(isinstance(kind, pd.SparseDtype) for kind in frame.dtypes)
        with pytest.raises(ValueError, match="has no sparse columns; use 'pandas'"):
            reducer.set_output(transform="polars").transform(A)
    if not hasattr(cls, "get_support"):
        assert list(frame.columns) == [f"{cls.__name__.lower()}{i}" for i in range(frame.shape[1])]
        return
    kept = reducer.get_support(indices=True)
    np.testing.assert_array_equal(reducer.get_support(), np.isin(np.arange(6), kept))
    for name, column, i in zip(frame.columns, frame.to_numpy().T, kept, strict=True):
        assert name.partition(" (")[0] == f"gene {i}"
        own = A[f"gene {i}"].to_numpy()
        np.testing.assert_allclose(column / column.max(), own / own.max())  # as it is, or rescaled


def test_an_error_names_the_argument_at_fault():
    """The papers' k is ``n_clusters`` and their r ``n_components``; the one that was too large is blamed."""
    A = np.random.default_rng(0).random((150, 4))
    with pytest.raises(
        ValueError, match=r"^n_clusters = 8 is more than the 4 .* choose n_clusters ≤ 4 \(n_samples=150"
    ):
        kmdr.reducers.LeverageScores(3).fit(A)
    with pytest.raises(ValueError, match=r"^n_components = 9 is more than the 4 .* choose n_components ≤ 4"):
        kmdr.reducers.SVD(9).fit(A)
    with pytest.raises(ValueError, match=r"^n_components = 9 is more than the 4"):
        kmdr.reducers.Variance(9).fit(A)


@every_class
def test_a_docstring_has_every_parameter_and_an_example_that_runs(cls):
    names = inspect.signature(cls).parameters
    assert [name for name in names if not re.search(rf"^{name} : ", cls.__doc__, re.MULTILINE)] == []
    examples = doctest.DocTestFinder(recurse=False).find(cls, cls.__name__, globs={cls.__name__: cls})
    assert sum(len(each.examples) for each in examples) >= 2
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert all(runner.run(each).failed == 0 for each in examples)


@every_class
def test_new_points_are_mapped_by_the_fitted_map(cls, rng):
    A = points(rng)
    model = cls(n_components=4, n_clusters=3, random_state=0).fit(A[:60])
    C = model.transform(A[60:])
    assert C.shape == (30, 32 if cls.name == "sparsified" else 4)
    with pytest.raises(ValueError, match="features"):
        model.transform(A[:, :7])
    with pytest.raises(NotFittedError):
        clone(model).transform(A)


@every_class
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"n_components": 0}, "n_components = 0"),
        ({"n_components": 2.5}, "n_components = 2.5"),
        ({"n_components": 2, "n_clusters": 0}, "n_clusters = 0"),
    ],
    ids=str,
)
def test_arguments_out_of_range_are_value_errors(cls, arguments, named, rng):
    with pytest.raises(ValueError, match=named):
        cls(**arguments).fit(points(rng))


THEOREMS = {
    "leverage": lambda n, k, eps: 4 * k * np.log(200 * k) / eps**2,
    "leverage_approx": lambda n, k, eps: 4 * k * np.log(200 * k) / eps**2,
    "ridge_leverage": lambda n, k, eps: 8 * k * np.log(200 * k) / eps**2,
    "random_sign": lambda n, k, eps: 3330 * k / eps**2,
    "random_sign_mailman": lambda n, k, eps: 3330 * k / eps**2,
    "gaussian": lambda n, k, eps: johnson_lindenstrauss_min_dim(n, eps=eps),
    "achlioptas": lambda n, k, eps: johnson_lindenstrauss_min_dim(n, eps=eps),
    "sparse_embedding": lambda n, k, eps: max((k + np.log(10)) / eps**2, 60 / eps**2),
    "osnap": lambda n, k, eps: k * np.log(10 * k) / eps**2,
    "fjlt": lambda n, k, eps: johnson_lindenstrauss_min_dim(n, eps=eps),
    "svd": lambda n, k, eps: k,
    "approx_svd": lambda n, k, eps: k,
}


@pytest.mark.parametrize("name", THEOREMS)
@pytest.mark.parametrize(("k", "eps"), [(2, 0.5), (3, 0.9), (70, 0.3)])
def test_r_of_the_theorem(name, k, eps, rng):
    expected = THEOREMS[name](500, k, eps)
    cls = REGISTRY.known()[name]
    r = cls().theorem_r(500, 10**6, k, eps)
    assert expected <= r <= expected + 1
    d = min(r, 300)
    model = cls(n_clusters=k, eps=eps, random_state=0)
    if r <= d:
        assert model.fit_transform(points(rng, 500, d, 5)).shape == (500, r)
        assert model.n_components_ == r
    else:
        with pytest.raises(ValueError, match=rf"asks for {r} dimensions.*has only {d}; set n_components"):
            model.fit(points(rng, 500, d, 5))


@pytest.mark.parametrize(("d", "padded"), [(1000, 1024), (1024, 1024), (1025, 2048)])
def test_r_of_the_theorem_for_srht_grows_with_the_padded_width(d, padded):
    expected = 6 * (3**0.5 + (8 * np.log(100 * padded)) ** 0.5) ** 2 * np.log(200 * 3) / 0.5**2
    assert expected <= REGISTRY.known()["srht"]().theorem_r(500, d, 3, 0.5) <= expected + 1


@pytest.mark.parametrize("cls", CLASSES)
def test_arguments_that_reducers_share_have_the_same_default(cls):
    shared = {"n_components": None, "n_clusters": 8, "eps": 1 / 3, "random_state": None}
    parameters = inspect.signature(cls).parameters
    assert {name: parameters[name].default for name in shared if name in parameters} == {
        name: default for name, default in shared.items() if name in parameters
    }


@pytest.mark.parametrize("name", ["laplacian_score", "variance", "leverage_sqrt", "top_leverage", "sparsified", "lle"])
def test_where_no_theorem_gives_r_it_has_to_be_set(name, rng):
    with pytest.raises(ValueError, match=r"no theorem gives the r of .*; set n_components"):
        REGISTRY.known()[name](n_clusters=2).fit(points(rng))


@pytest.mark.parametrize("eps", [0, 1, -1, "x", None])
def test_eps_outside_the_unit_interval_is_refused(eps, rng):
    with pytest.raises(ValueError, match="eps = "):
        REGISTRY.known()["random_sign"](eps=eps).fit(points(rng))
