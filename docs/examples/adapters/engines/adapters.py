"""Clusterers without ``fit_predict`` for arrays, by their import path, e.g. ``kmeans.engine=faiss.Kmeans``.

Classes with scikit-learn's interface need no adapter: kmdr accepts MiniBatchKMeans, BisectingKMeans, sklearnex and cuML
as they are. The packages are imported only when a trial runs. Arguments of a class follow ``kmeans.args``.
"""

import importlib
from typing import Any

import numpy as np
import scipy.sparse as sp

from kmdr.base.errors import UserError
from kmdr.base.outside import arguments, seed_of
from kmdr.clustering.engines import engine
from kmdr.clustering.kmeans import Clustering, Protocol
from kmdr.linalg import Dense, Matrix
from kmdr.metrics import residual

# Labels of the points in a fitted object, by the names that packages use.
_LABELS = ("labels_", "row_labels_", "labels")


def _class(protocol: Protocol) -> Any:
    module, _, name = protocol.engine.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError as error:
        raise UserError(f"kmeans.engine={protocol.engine} needs {module} ({error}); install its package") from error


def _single_precision(C: Matrix) -> Dense:
    if not isinstance(C, np.ndarray):
        raise UserError("this engine takes no sparse data; choose a reducer whose result is dense")
    return np.ascontiguousarray(C, np.float32)


def _best(C: Matrix, fits: list[tuple[Any, int, bool]]) -> Clustering:
    """Return the labels of least inertia, which is computed here because classes state it differently.

    Each fit has labels, the number of iterations, and whether it converged.
    """
    numbered = [np.unique(np.asarray(labels).ravel(), return_inverse=True)[1] for labels, _, _ in fits]
    inertias = [residual(C, labels) for labels in numbered]
    best = int(np.argmin(inertias))
    failed = sum(not converged for _, _, converged in fits)
    return Clustering(numbered[best].astype(np.int64), inertias[best], fits[best][1], failed)


@engine("faiss.Kmeans")
def faiss_kmeans(C: Matrix, k: int, starts: Dense, rng: np.random.Generator, protocol: Protocol) -> Clustering:
    """Lloyd of faiss in float32, on all points, from the starts of the protocol; it always uses all iterations."""
    points, kmeans = _single_precision(C), _class(protocol)
    settings = {"niter": protocol.max_iter, "min_points_per_centroid": 1, "max_points_per_centroid": len(points)}
    fits = []
    for rows in starts:
        model = kmeans(points.shape[1], k, **{**settings, "seed": seed_of(rng), **protocol.arguments})
        model.train(points, init_centroids=points[rows])
        fits.append((model.assign(points)[1], len(model.obj), len(model.obj) > 1 and model.obj[-1] == model.obj[-2]))
    return _best(C, fits)


@engine("fast_pytorch_kmeans.KMeans")
def torch_kmeans(C: Matrix, k: int, starts: Dense, rng: np.random.Generator, protocol: Protocol) -> Clustering:
    """Lloyd in PyTorch in float32, from the starts of the protocol; the number of its iterations is not known."""
    del rng
    import torch

    points = torch.from_numpy(_single_precision(C).copy())
    kmeans = _class(protocol)
    fits = []
    for rows in starts:
        model = kmeans(**{"n_clusters": k, "max_iter": protocol.max_iter, **protocol.arguments})
        fits.append((model.fit_predict(points, points[np.array(rows)]).cpu().numpy(), 0, True))
    return _best(C, fits)


def fit_only(C: Matrix, k: int, starts: Dense, rng: np.random.Generator, protocol: Protocol) -> Clustering:
    """A class for sparse data that draws its own starts, and whose ``fit`` leaves the labels in an attribute."""
    del starts
    cls = _class(protocol)
    settings = {"n_clusters": k, "max_iter": protocol.max_iter, "random_state": seed_of(rng)}
    valid = {name for base in cls.__mro__[:-1] for name in arguments(base)}
    model = cls(**{name: value for name, value in settings.items() if name in valid} | protocol.arguments)
    model.fit(sp.csr_matrix(C))
    labels = next((getattr(model, name) for name in _LABELS if hasattr(model, name)), None)
    if labels is None or np.size(labels) != C.shape[0]:
        raise UserError(f"{protocol.engine} left labels of shape {np.shape(labels)} for {C.shape[0]} points")
    return _best(C, [(labels, int(getattr(model, "n_iter_", 0)), True)])


for name in ("sparsekmeans.LloydKmeans", "sparsekmeans.ElkanKmeans", "coclust.coclustering.CoclustMod"):
    engine(name)(fit_only)
