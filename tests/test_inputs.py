"""A user's matrix stays as it was, to the last bit, whatever is done with it; and its dataset has its entries."""

import warnings
from contextlib import suppress

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA

import kmdr
from inputs import bytes_of, dense_matrices, sparse_matrices
from kmdr import datasets, linalg, metrics, reducers
from kmdr.datasets import valid
from kmdr.datasets.profile import lines, profile
from kmdr.datasets.reading import Content
from kmdr.errors import ArgumentError
from kmdr.linalg.matrix import read_only
from kmdr.reducers.base import REGISTRY

some = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
any_matrix = st.one_of(
    dense_matrices(), dense_matrices().map(pd.DataFrame), sparse_matrices().map(lambda pair: pair[0])
)


def inspect(A):
    list(lines(profile(Content(A))))


def prepare(A):
    return datasets.from_arrays(A, k=2)


def check(A):
    A = prepare(A).A
    valid.check(A, None)
    valid.of_unit_length(A)
    datasets.content_sha256(A, None)


def measure(A):
    A = prepare(A).A
    labels = np.arange(A.shape[0]) % 2
    metrics.objective(A, labels)
    metrics.residual(A, labels)
    linalg.nearest_neighbours(A, 2)
    linalg.mean_distance(A)
    linalg.squared_frobenius(A)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("look", [inspect, prepare, check, measure])
@some
@given(any_matrix)
def test_a_matrix_that_is_inspected_or_prepared_stays_as_it_was(look, A):
    before = bytes_of(A)
    look(A)
    assert bytes_of(A) == before


@pytest.mark.filterwarnings("ignore::UserWarning")
@some
@given(sparse_matrices())
def test_a_sparse_matrix_is_the_dataset_that_its_dense_equal_is(pair):
    S, D = pair
    data = prepare(S)
    assert np.array_equal(data.A.toarray(), prepare(D).A)
    assert data.A.has_canonical_format
    assert data.A.data.all()
    assert data.data_sha256 == prepare(sp.csr_array(D)).data_sha256
    dense, sparse = (profile(Content(A)) for A in (D, S))
    assert (dense.constant, dense.repeated, dense.repeated_rows) == (
        sparse.constant,
        sparse.repeated,
        sparse.repeated_rows,
    )


def npz(path, S):
    sp.save_npz(path / "a.npz", S)
    return path / "a.npz"


def matrix_market(path, S):
    scipy.io.mmwrite(path / "a.mtx", S)
    return path / "a.mtx"


def h5ad(path, S):
    S = S.tocsr() if S.format == "coo" else S
    with h5py.File(path / "a.h5ad", "w") as file:
        for name in ("obs", "var"):
            file.create_group(name).attrs["_index"] = "id"
            file[name]["id"] = [f"{name}{i}" for i in range(S.shape[name == "var"])]
        group = file.create_group("X")
        group.attrs.update({"encoding-type": f"{S.format}_matrix", "shape": S.shape})
        for part in ("data", "indices", "indptr"):
            group[part] = getattr(S, part)
    return path / "a.h5ad"


@pytest.mark.parametrize("save", [npz, matrix_market, h5ad])
@settings(some, max_examples=60)
@given(pair=sparse_matrices())
def test_a_file_of_a_sparse_matrix_is_clustered_as_it_was_saved(save, pair, tmp_path_factory):
    S, D = pair
    folder = tmp_path_factory.mktemp("a")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KMDR_CACHE", str(folder / "cache"))
        path = save(folder, S)
        content, _, refusal = datasets.look_at({"path": str(path), "k": 2})
        assert not refusal
        assert np.array_equal(content.A.toarray(), D)
        data = datasets.load("file", {"path": str(path), "k": 2})
        assert np.array_equal(data.A.toarray(), D)
        assert data.data_sha256 == datasets.content_sha256(valid.canonical(sp.csr_array(D.astype(data.A.dtype))), None)


def test_a_read_only_view_shares_the_arrays_and_refuses_every_change():
    def unsorted():
        return sp.csr_array((np.array([1.0, 2.0, 0.0]), np.array([1, 0, 1]), np.array([0, 2, 3])), shape=(2, 2))

    S = unsorted()
    for A in (S, S.tocsc(), S.tocoo(), S.tobsr(), S.todia(), S.tolil(), S.todok(), S.toarray()):
        view = read_only(A)
        assert view is not A
        for name, part in vars(view).items() if sp.issparse(view) else [("A", view)]:
            for array in part if isinstance(part, tuple) else [part]:
                assert not isinstance(array, np.ndarray) or not array.flags.writeable, name
    S = unsorted()
    assert np.shares_memory(read_only(S).indices, S.indices)
    for change in (sp.csr_array.sum_duplicates, sp.csr_array.sort_indices, sp.csr_array.eliminate_zeros, abs):
        with pytest.raises(ValueError, match="read-only"):
            change(read_only(S))
    assert S.indices.tolist() == [1, 0, 1]


reducers.names()  # imports every module
CLASSES = [cls for name, cls in sorted(REGISTRY.known().items()) if name != "none"]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.name)
@settings(some, max_examples=12)
@given(A=any_matrix)
def test_a_transformer_leaves_the_matrix_of_its_user_as_it_was(cls, A):
    before = bytes_of(A)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = cls(n_components=2, n_clusters=2, random_state=0)
        with suppress(ArgumentError):
            model.fit(A).transform(A)
            model.fit_transform(A)
    assert bytes_of(A) == before


class Scrambler(PCA):
    """A transformer that changes what it is given where it can."""

    def fit_transform(self, X, y=None):
        """Sort the entries of the user's matrix."""
        del y
        X.sort()
        return X[:, : self.n_components]


@settings(some, max_examples=10)
@given(A=any_matrix)
def test_compare_leaves_the_matrix_of_its_user_as_it_was(A):
    before = bytes_of(A)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kmdr.compare(A, ["random_sign", "none", PCA], k=2, r_grid=[2], repeats=1, n_init=1)
    assert bytes_of(A) == before


def test_a_transformer_that_would_change_the_matrix_of_its_user_fails_instead(rng):
    A = rng.random((9, 4))
    before = A.copy()
    rows = kmdr.compare(A, [Scrambler], k=2, r_grid=[2], repeats=1, n_init=1)
    assert rows["status"].tolist() == ["failed"]
    assert "read-only" in rows["error"].iloc[0]
    assert np.array_equal(A, before)
