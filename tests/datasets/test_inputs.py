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
from inputs import TYPES, bytes_of, dense_matrices, sparse_matrices
from kmdr import datasets, linalg, metrics, reducers
from kmdr.base.errors import ArgumentError
from kmdr.datasets import validation
from kmdr.datasets.formats.common import Content
from kmdr.datasets.formats.profile import lines, profile
from kmdr.linalg import matrix
from kmdr.linalg.matrix import read_only, treat_as_out_of_core
from kmdr.reducers.base import REGISTRY

some = settings(max_examples=150, suppress_health_check=list(HealthCheck))
any_matrix = st.one_of(
    dense_matrices(), dense_matrices().map(pd.DataFrame), sparse_matrices().map(lambda pair: pair[0])
)


def inspect(A):
    list(lines(profile(Content(A))))


def prepare(A):
    return datasets.from_arrays(A, k=2)


def check(A):
    A = prepare(A).A
    validation.check(A, None)
    validation.unit_rows(A)
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


def duplicates(A):
    """Return the columns that equal an earlier one, each with the first such, and the number of such rows, by pandas.

    Constant columns are reported as such alone.
    """
    frame = pd.DataFrame(np.asarray(A, np.float64))
    rows = int(frame.duplicated().sum())
    across = frame.T
    first = across.reset_index().groupby(list(across.columns), dropna=False)["index"].transform("min").to_numpy()
    spread = frame.nunique(dropna=False).to_numpy() > 1
    return [(str(j), str(i)) for j, i in enumerate(first) if j != i and spread[j]], rows


def found(A):
    seen = profile(Content(A))
    return seen.repeated, seen.repeated_rows


@pytest.mark.parametrize("bound", [None, 0])
@some
@given(dense_matrices(types=(*TYPES, "float16", ">f4", "uint64"), density=(0.05, 0.5, 1.0)), st.booleans())
def test_duplicates_are_those_that_pandas_finds(bound, A, absent):
    if absent and A.dtype.kind == "f":
        A = np.where(A[0, 1] == A, np.nan, A)
    with treat_as_out_of_core(
        matrix.WHOLE if bound is None else bound
    ):  # rows of a large matrix are compared by hashes alone
        assert found(A) == duplicates(A)
    if not absent and A.dtype not in (np.float16, np.dtype(">f4")):
        assert found(sp.csr_array(A)) == duplicates(A)


TALL = {
    "bits": lambda rng: rng.integers(0, 2, (1000, 500)).astype(np.float64),
    "bytes": lambda rng: rng.integers(0, 256, (10_000, 64)).astype(np.uint8),
    "counts": lambda rng: rng.poisson(3, (2000, 500)).astype(np.float32),
    "ones": lambda rng: (rng.random((3000, 500)) < 0.02).astype(np.int8),
}


@pytest.mark.parametrize("kind", TALL)
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_many_rows_of_few_values_are_told_apart(kind, layout, rng):
    A = TALL[kind](rng)
    rows, columns = (len(A) - len(np.unique(B.astype(np.float64), axis=0)) for B in (A, A.T))
    columns += A.shape[1] - A.shape[0]
    seen = profile(Content(layout(A)))
    assert (seen.repeated_rows, len(seen.repeated)) == (rows, columns)


def npz(path, S):
    sp.save_npz(path / "a.npz", S)
    return path / "a.npz"


def matrix_market(path, S):
    scipy.io.mmwrite(path / "a.mtx", S, symmetry="general")  # to find a symmetry it negates, which booleans refuse
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
        content, _, refusal = datasets.inspect_file({"path": str(path), "k": 2})
        assert not refusal
        assert np.array_equal(content.A.toarray(), D)
        data = datasets.load("file", {"path": str(path), "k": 2})
        assert np.array_equal(data.A.toarray(), D)
        assert data.data_sha256 == datasets.content_sha256(
            validation.canonical(sp.csr_array(D.astype(data.A.dtype))), None
        )


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
        with suppress(ArgumentError):
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
    rows = kmdr.compare(A, [Scrambler], k=2, r_grid=[2], repeats=1, n_init=1).rows
    assert rows["status"].tolist() == ["failed"]
    assert "read-only" in rows["error"].iloc[0]
    assert np.array_equal(A, before)
