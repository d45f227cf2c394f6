"""Clusterers and transformers of other packages: by their import path, and through the plugin of examples.

Packages that are not installed are replaced by fakes with the interface that their documentation states.
"""

import importlib.util
import sys
import warnings
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans

import kmdr
from blocks import ROOT
from kmdr.base.errors import UserError
from kmdr.clustering import engines
from kmdr.clustering.kmeans import Protocol, lloyd
from kmdr.config.task import entry_points, plugin_origins

ADAPTERS = ROOT / "docs" / "examples" / "adapters"


@pytest.fixture
def plugin(monkeypatch):
    monkeypatch.setenv("KMDR_PATH", str(ADAPTERS))


def groups(rng, n=90, d=12, k=3):
    """Return points in clear groups, and their groups."""
    truth = np.arange(n) % k
    return np.abs(rng.standard_normal((n, d)) + 30 * rng.random((k, d))[truth]), truth


def compare(A, truth, reducer="none", **settings):
    return kmdr.compare(A, [reducer], labels=truth, r_grid=[2], repeats=2, progress=False, **settings).rows


def fake(monkeypatch, path, cls):
    """Put a class at an import path; packages around it are made, too."""
    module, _, name = path.rpartition(".")
    for end in [i for i, letter in enumerate(module) if letter == "."] + [len(module)]:
        monkeypatch.setitem(sys.modules, module[:end], ModuleType(module[:end]))
    setattr(sys.modules[module], name, cls)


def nearest(X, centres):
    return ((np.asarray(X)[:, None] - np.asarray(centres)[None]) ** 2).sum(axis=2)


class FaissKmeans:
    """`faiss.Kmeans` as faiss 1.15 has it."""

    made: list = []  # noqa: RUF012

    def __init__(self, d, k, **kwargs):
        self.d, self.k, self.settings = d, k, kwargs
        self.made.append(self)

    def train(self, x, weights=None, init_centroids=None):
        assert x.dtype == np.float32
        assert x.shape[1] == self.d
        assert init_centroids.shape == (self.k, self.d)
        self.fit = KMeans(self.k, init=init_centroids, n_init=1, max_iter=self.settings["niter"]).fit(x)
        self.obj = np.float32([self.fit.inertia_ + 1, self.fit.inertia_, self.fit.inertia_])
        return self.obj[-1]

    def assign(self, x):
        distances = nearest(x, self.fit.cluster_centers_)
        return distances.min(axis=1).astype(np.float32), distances.argmin(axis=1).astype(np.int64)


def check_faiss(rng):
    A, truth = groups(rng)
    rows = compare(A, truth, "svd", engine="faiss.Kmeans", n_init=2, max_iter=20)
    assert rows["status"].tolist() == ["ok"] * 2, rows["error"].tolist()
    assert set(rows["engine"]) == {"faiss.Kmeans"}
    ours = compare(A, truth, "svd", n_init=2)
    np.testing.assert_allclose(rows["objective"], ours["objective"], rtol=1e-5)


def test_faiss_starts_where_all_engines_do_and_takes_every_point(plugin, monkeypatch, rng):
    fake(monkeypatch, "faiss.Kmeans", FaissKmeans)
    check_faiss(rng)
    settings = FaissKmeans.made[-1].settings
    assert (settings["niter"], settings["min_points_per_centroid"], settings["max_points_per_centroid"]) == (20, 1, 90)


def test_faiss_itself(plugin, rng):
    pytest.importorskip("faiss", reason="faiss-cpu is not installed")
    check_faiss(rng)


def test_arguments_of_an_adapted_class_are_passed_on_and_sparse_data_are_a_row(plugin, monkeypatch, rng):
    fake(monkeypatch, "faiss.Kmeans", FaissKmeans)
    A, truth = groups(rng)
    compare(A, truth, engine="faiss.Kmeans", engine_args={"spherical": True})
    assert FaissKmeans.made[-1].settings["spherical"] is True
    rows = compare(sp.csr_array(A), truth, engine="faiss.Kmeans")
    assert set(rows["error"]) == {"UserError: this engine takes no sparse data; choose a reducer whose result is dense"}


class _Tensor:
    def __init__(self, array):
        self.array = array

    def __getitem__(self, rows):
        return _Tensor(self.array[rows])

    def cpu(self):
        return self

    def numpy(self):
        return self.array


class TorchKmeans:
    """`fast_pytorch_kmeans.KMeans` as its version 0.2.2 has it."""

    def __init__(
        self, n_clusters, max_iter=100, tol=0.0001, verbose=0, mode="euclidean", init_method="random", minibatch=None
    ):
        self.n_clusters, self.max_iter = n_clusters, max_iter

    def fit_predict(self, X, centroids=None):
        assert isinstance(X, _Tensor)
        assert X.array.dtype == np.float32
        return _Tensor(KMeans(self.n_clusters, init=centroids.array, n_init=1).fit_predict(X.array))


def test_a_class_for_tensors_gets_tensors(plugin, monkeypatch, rng):
    fake(monkeypatch, "fast_pytorch_kmeans.KMeans", TorchKmeans)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(from_numpy=_Tensor))
    A, truth = groups(rng)
    rows = compare(A, truth, engine="fast_pytorch_kmeans.KMeans", n_init=2)
    np.testing.assert_allclose(rows["objective"], compare(A, truth, n_init=2)["objective"])


class _Sparse:
    """The base of the classes of sparsekmeans 0.3."""

    def __init__(self, n_clusters=8, n_threads=1, max_iter=300, tol=1e-4, random_state=None, verbose=False):
        self.n_clusters, self.max_iter, self.random_state = n_clusters, max_iter, random_state

    def fit(self, X):
        assert isinstance(X, sp.csr_matrix)
        self.labels = KMeans(self.n_clusters, random_state=self.random_state, n_init=3).fit_predict(X).astype(np.int16)
        return self.labels


class LloydKmeans(_Sparse):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)


class CoclustMod(BaseEstimator):
    """`coclust.coclustering.CoclustMod` as coclust 0.2 has it."""

    def __init__(self, n_clusters=2, init=None, max_iter=20, n_init=1, tol=1e-9, random_state=None):
        self.n_clusters, self.init, self.max_iter, self.n_init = n_clusters, init, max_iter, n_init
        self.tol, self.random_state = tol, random_state

    def fit(self, X, y=None):
        self.row_labels_ = [*KMeans(self.n_clusters, random_state=self.random_state, n_init=3).fit_predict(X)]
        return self


@pytest.mark.parametrize(
    ("path", "cls"), [("sparsekmeans.LloydKmeans", LloydKmeans), ("coclust.coclustering.CoclustMod", CoclustMod)]
)
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_classes_with_labels_in_an_attribute_are_engines(path, cls, layout, plugin, monkeypatch, rng):
    fake(monkeypatch, path, cls)
    A, truth = groups(rng)
    rows = compare(layout(A), truth, engine=path)
    assert rows["status"].tolist() == ["ok"] * 2, rows["error"].tolist()
    assert rows["accuracy"].tolist() == [1, 1]


def test_an_adapter_without_its_package_is_a_row_that_names_it(plugin, rng):
    if importlib.util.find_spec("coclust"):
        pytest.skip("coclust is installed")
    A, truth = groups(rng)
    (error,) = set(compare(A, truth, engine="coclust.coclustering.CoclustMod")["error"])
    assert "needs coclust.coclustering" in error
    assert "install its package" in error


def test_an_adapter_is_code_of_its_rows(plugin):
    assert any("adapters:faiss_kmeans" in name for name in map(str, entry_points("none", "digits", "faiss.Kmeans")))
    assert "adapters" in plugin_origins("none", "faiss.Kmeans", "digits")
    assert {"faiss.Kmeans", "sparsekmeans.LloydKmeans"} <= set(engines.names())


def test_without_the_plugin_a_class_without_fit_predict_is_refused(monkeypatch):
    monkeypatch.delenv("KMDR_PATH", raising=False)
    fake(monkeypatch, "faiss.Kmeans", FaissKmeans)
    monkeypatch.setattr("kmdr.base.outside._imported", lambda path, what: FaissKmeans)
    with pytest.raises(UserError, match="has no fit_predict"):
        engines.check(Protocol(1, 2, engine="faiss.Kmeans"))


# -- by import path alone --------------------------------------------------------------------------------------------


class CumlKMeans:
    """`cuml.cluster.KMeans` as cuML 26 has it, whose results have the type of the input."""

    def __init__(
        self, *, n_clusters=8, max_iter=300, tol=1e-4, verbose=False, random_state=None, init="scalable-k-means++",
        n_init="auto", oversampling_factor=2.0, max_samples_per_batch=32768, convert_dtype=True, output_type=None,
    ):  # fmt: skip
        self.model = KMeans(n_clusters, random_state=random_state, n_init=n_init, max_iter=max_iter)

    def fit_predict(self, X, y=None, sample_weight=None):
        labels = self.model.fit_predict(np.asarray(X, np.float32)).astype(np.int32)
        self.inertia_, self.n_iter_ = np.float32(self.model.inertia_), self.model.n_iter_
        return labels


class Weighted(BaseEstimator):
    def __init__(self, n_clusters=8):
        self.n_clusters = n_clusters

    def fit_predict(self, X, y=None, sample_weight=None):
        return KMeans(self.n_clusters, n_init=1, random_state=0).fit_predict(X, sample_weight=sample_weight)


class NeedsWeights(Weighted):
    def fit_predict(self, X, sample_weight):
        raise AssertionError


class OneCluster(Weighted):
    inertia_ = np.float32("nan")

    def fit_predict(self, X):
        return np.full(len(X), 7.0, np.float32)


class TooMany(Weighted):
    def fit_predict(self, X):
        return np.arange(len(X))


class NoInertia(Weighted):
    inertia_ = None


class Panic(BaseException):
    pass


class Panics(Weighted):
    def fit_predict(self, X):
        raise Panic("index out of bounds")


class Autoencoder:
    """A linear autoencoder with scikit-learn's methods and none of its base classes."""

    def __init__(self, n_components=2, epochs=3):
        self.n_components = n_components

    def fit(self, X, y=None):
        self.code = np.linalg.svd(np.asarray(X, np.float32), full_matrices=False)[2][: self.n_components].T
        return self

    def transform(self, X):
        return np.asarray(X, np.float32) @ self.code


class TooFew(Autoencoder):
    def transform(self, X):
        return super().transform(X)[:, :1]


HERE = "test_adapters"


@pytest.mark.parametrize(
    ("engine", "args"),
    [
        ("sklearn.cluster.MiniBatchKMeans", {"batch_size": 64}),
        ("sklearn.cluster.BisectingKMeans", {}),
        ("sklearn.cluster.KMeans", {"algorithm": "elkan"}),
        ("sklearn.mixture.GaussianMixture", {"covariance_type": "diag"}),
        ("cuml.cluster.KMeans", {"max_samples_per_batch": 100}),
        (f"{HERE}.Weighted", {}),
        (f"{HERE}.OneCluster", {}),
    ],
)
def test_clusterers_with_fit_predict_need_no_adapter(engine, args, monkeypatch, rng):
    fake(monkeypatch, "cuml.cluster.KMeans", CumlKMeans)
    A, truth = groups(rng)
    rows = compare(A, truth, engine=engine, engine_args=args)
    assert rows["status"].tolist() == ["ok"] * 2, rows["error"].tolist()
    if not engine.endswith("OneCluster"):
        assert rows["accuracy"].min() > 0.6


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("NeedsWeights", "TypeError: "),
        ("TooMany", "expected at most 3 clusters of 90 points"),
        ("NoInertia", "TypeError: "),
        ("Panics", "Panic: index out of bounds"),
    ],
)
def test_an_engine_that_does_what_none_should_is_a_row(name, said, rng):
    A, truth = groups(rng)
    rows = compare(A, truth, engine=f"{HERE}.{name}")
    assert rows["status"].tolist() == ["failed"] * 2
    assert all(said in error for error in rows["error"])


@pytest.mark.parametrize(
    ("path", "args"),
    [
        ("sklearn.decomposition.IncrementalPCA", {"batch_size": 30}),
        ("sklearn.decomposition.SparsePCA", {"max_iter": 5}),
        ("sklearn.decomposition.KernelPCA", {"kernel": "rbf"}),
        ("sklearn.kernel_approximation.Nystroem", {"gamma": 0.01}),
        (f"{HERE}.Autoencoder", {"epochs": 1}),
    ],
)
def test_transformers_need_no_adapter(path, args, rng):
    A, truth = groups(rng)
    cls = getattr(importlib.import_module(path.rpartition(".")[0]), path.rpartition(".")[2])
    rows = compare(A, truth, cls(**args) if hasattr(cls, "get_params") else path)
    assert rows["status"].tolist() == ["ok"] * 2, rows["error"].tolist()


@pytest.mark.parametrize(
    ("package", "path"), [("umap", "umap.UMAP"), ("sklearnex", "sklearnex.decomposition.PCA")]
)  # fmt: skip
def test_transformers_of_packages_that_may_not_be_installed(package, path, rng):
    pytest.importorskip(package, reason=f"{package} is not installed", exc_type=ImportError)
    A, truth = groups(rng)
    assert compare(A, truth, path)["status"].tolist() == ["ok"] * 2


def test_sklearnex_starts_where_all_engines_do(rng):
    pytest.importorskip("sklearnex.cluster", reason="sklearnex is not installed", exc_type=ImportError)
    A, truth = groups(rng)
    rows = compare(A, truth, engine="sklearnex.cluster.KMeans", n_init=2)
    np.testing.assert_allclose(rows["objective"], compare(A, truth, n_init=2)["objective"])


class Fourier(Autoencoder):
    """Its image is complex, in one of several forms."""

    form = np.asarray

    def transform(self, X):
        return type(self).form(np.fft.fft(X)[:, : self.n_components])


@pytest.mark.parametrize("form", [np.asarray, np.complex64, sp.csr_array, sp.coo_matrix])
def test_complex_results_of_a_transformer_fail_instead_of_losing_their_imaginary_part(form, monkeypatch, rng):
    A, truth = groups(rng)
    monkeypatch.setattr(Fourier, "form", form)
    warnings.simplefilter("ignore")  # as modules of such methods do
    rows = compare(A, truth, f"{HERE}.Fourier")
    assert set(rows["status"]) == {"failed"}
    assert rows["error"].str.contains("discards the imaginary part").all()


def test_masked_results_of_a_transformer_fail_instead_of_losing_their_mask(monkeypatch, rng):
    A, truth = groups(rng)
    monkeypatch.setattr(Fourier, "form", lambda C: np.ma.masked_greater(C.real, 0))
    rows = compare(A, truth, f"{HERE}.Fourier")
    assert rows["error"].str.contains("the transformer returned masked entries").all()


def test_a_transformer_with_fewer_dimensions_than_asked_is_a_row(rng):
    A, truth = groups(rng)
    (error,) = set(compare(A, truth, f"{HERE}.TooFew")["error"])
    assert "returned an array of shape (90, 1), not 90 x 2" in error


def test_an_adapted_engine_finds_what_lloyd_finds(plugin, monkeypatch, rng):
    fake(monkeypatch, "faiss.Kmeans", FaissKmeans)
    A, _ = groups(rng)
    starts = np.array([rng.choice(len(A), 3, replace=False) for _ in range(3)])
    protocol = Protocol(3, 30, engine="faiss.Kmeans")
    engines.check(protocol)
    clustering = engines.cluster(A, 3, starts, rng, protocol)
    assert clustering.labels.dtype == np.int64
    assert clustering.inertia == pytest.approx(lloyd(A, starts, 30).inertia, rel=1e-5)
    assert (clustering.n_iter, clustering.n_init_failed) == (3, 0)
