"""Clustering engines, found by name or by import path.

An engine is a function of C (n×r, dense or CSR), k, the rows at which the centres of each start lie, a random generator
and the protocol; it returns a `Clustering`. An engine with its own initialisation ignores the rows.
"""

import inspect
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning

from kmdr.base.errors import UserError, plain_name, unknown, whole_number
from kmdr.base.identity import name_of
from kmdr.base.outside import allow, arguments, check_arguments, find_class, origin, seed_of
from kmdr.base.plugins import Registry, origin_of
from kmdr.clustering.kmeans import Clustering, Protocol, checked_starts, lloyd
from kmdr.linalg import Dense, Matrix
from kmdr.linalg.matrix import normalised, scaled_back

Engine = Callable[[Matrix, int, Dense, np.random.Generator, Protocol], Clustering]
_registry: Registry[Engine] = Registry("engines")


def built_in_engine(name: str) -> Callable[[Engine], Engine]:
    """Register a function under a name, which configurations select by ``kmeans.engine=NAME``."""

    def add(function: Engine) -> Engine:
        _registry.add(name, function.__module__, function)
        return function

    return add


def engine(name: str) -> Callable[[Engine], Engine]:
    """Register a plugin's function under a name, which configurations select by ``kmeans.engine=NAME``.

    It gets a copy of the starting rows, which all r of a repetition share.

    Raises
    ------
    UserError
        If the name is not one of letters, digits, ``-`` and ``_``, nor the import path of a class that the function
        adapts, as where the decorator is written without it.
    """
    for part in name.split(".") if isinstance(name, str) else [name]:
        plain_name("the name of an engine", part)

    def add(function: Engine) -> Engine:
        @wraps(function)
        def run(C: Matrix, k: int, starts: Dense, rng: np.random.Generator, protocol: Protocol) -> Clustering:
            result = function(C, k, starts.copy(), rng, protocol)
            if not isinstance(result, Clustering):
                raise UserError(
                    f"engine {name} returned {type(result).__name__}; return a Clustering of kmdr.clustering.kmeans"
                )
            return result

        built_in_engine(name)(run)
        return function

    return add


def takes_arguments(function: Callable[..., Clustering]) -> Engine:
    """Let an engine take ``kmeans.args``: values of its keyword-only parameters, all whole numbers from 1."""

    @wraps(function)
    def run(C: Matrix, k: int, starts: Dense, rng: np.random.Generator, protocol: Protocol) -> Clustering:
        return function(C, k, starts, rng, protocol, **protocol.arguments)

    return run


def names() -> list[str]:
    """Return the names of all engines, sorted."""
    return sorted(_registry.known())


def summary(name: str) -> str:
    """Return the first line of an engine's description."""
    return (inspect.getdoc(_registry.known()[name]) or "").partition("\n")[0]


def module_of(name: str) -> str:
    """Return the name of the module that defines an engine; for an import path, the module that calls it."""
    return entry_point(name).partition(":")[0]


def entry_point(name: str) -> str:
    """Return the entry point of an engine's code, for `kmdr.base.identity.reach`."""
    known = _registry.known()
    return name_of(_outside if "." in name and name not in known else known[name])


def origin_of_engine(name: str) -> str:
    """Return name, version and hash of the plugin or package that provides an engine; empty for kmdr's own.

    An adapter of a plugin for an import path has both, of the plugin and of the package.
    """
    return "; ".join(filter(None, (origin_of(module_of(name)), origin(name) if "." in name else "")))


@built_in_engine("kmdr")
def kmdr_lloyd(C: Matrix, k: int, starts: Dense, rng: np.random.Generator, protocol: Protocol) -> Clustering:
    """Lloyd's algorithm from the starts of the protocol: `kmdr.clustering.kmeans.lloyd`."""
    del k, rng
    return lloyd(C, starts, protocol.max_iter, online=protocol.online, empty_action=protocol.empty_action)


def sklearn_kmeans(C: Matrix, starts: Dense, max_iter: int, algorithm: str = "lloyd") -> Clustering:
    """Fit scikit-learn's ``KMeans(tol=0)`` from each start and keep the partition of smallest inertia.

    scikit-learn does not report whether the last allowed iteration changed anything, so ``n_init_failed`` counts every
    start that used ``max_iter`` iterations.
    """
    starts = checked_starts(starts, C.shape[0], max_iter)
    C, e, _ = normalised(C)
    C = C.astype(np.float64, copy=False)
    fits = []
    for rows in starts:
        model = KMeans(len(rows), init=_centres(C, rows), n_init=1, max_iter=max_iter, tol=0, algorithm=algorithm)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct points than clusters
            fits.append(model.fit(C))
    best = min(fits, key=lambda fit: fit.inertia_)
    failed = sum(fit.n_iter_ == max_iter for fit in fits)
    inertia = scaled_back(best.inertia_, 2 * e)
    return Clustering(best.labels_.astype(np.int64), inertia, int(best.n_iter_), failed)


@built_in_engine("sklearn")
def sklearn_lloyd(C: Matrix, k: int, starts: Dense, rng: np.random.Generator, protocol: Protocol) -> Clustering:
    """scikit-learn's Lloyd from the same starts; differs where a cluster loses all its points."""
    del k, rng
    return sklearn_kmeans(C, starts, protocol.max_iter)


@built_in_engine("sklearn_elkan")
def sklearn_elkan(C: Matrix, k: int, starts: Dense, rng: np.random.Generator, protocol: Protocol) -> Clustering:
    """scikit-learn's Elkan from the same starts; skips distances that the triangle inequality bounds."""
    del k, rng
    return sklearn_kmeans(C, starts, protocol.max_iter, "elkan")


def _centres(C: Matrix, rows: Dense) -> Dense:
    centres = C[np.asarray(rows)]
    return centres if isinstance(centres, np.ndarray) else centres.toarray()


# --- any class with fit_predict

# Names of the argument k: in scikit-learn's clusterers, and in its mixtures.
_K = ("n_clusters", "n_components")


def _size_argument(cls: type) -> str | None:
    return next((name for name in _K if name in arguments(cls)), None)


def _outside(C: Matrix, k: int, starts: Dense, rng: np.random.Generator, protocol: Protocol) -> Clustering:
    """Fit a class of another package, from the protocol's starts if it is a k-means that accepts initial centres."""
    cls = find_class(protocol.engine, "engine")
    valid = arguments(cls)
    settings: dict[str, Any] = {str(_size_argument(cls)): k, "max_iter": protocol.max_iter, "n_init": len(starts)}
    settings |= protocol.arguments
    takes_centres = issubclass(cls, KMeans | MiniBatchKMeans) and "init" not in protocol.arguments
    fits = []
    for rows in starts if takes_centres else starts[:1]:
        if takes_centres:
            settings |= {"init": _centres(C, rows), "n_init": 1}
        if "random_state" in valid:
            settings["random_state"] = seed_of(rng)
        model = cls(**{name: value for name, value in settings.items() if name in valid})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            labels = np.asarray(model.fit_predict(C))
        fits.append((float(getattr(model, "inertia_", 0.0)), labels, int(getattr(model, "n_iter_", 0))))
    inertia, labels, n_iter = min(fits, key=lambda fit: fit[0])
    clusters, numbered = np.unique(labels, return_inverse=True)
    if numbered.shape != (C.shape[0],) or len(clusters) > k:
        raise UserError(
            f"engine {protocol.engine!r} returned {len(clusters)} clusters in labels of shape {labels.shape}; expected "
            f"at most {k} clusters of {C.shape[0]} points"
        )
    return Clustering(numbered.astype(np.int64), inertia, n_iter, 0)


def check(protocol: Protocol) -> None:
    """Refuse an engine that does not exist or does not accept k, before any work is done.

    This imports an engine given by its path, so call it only where the author or the user chose the engine. Use
    `check_allowed` for a protocol that was read from a results folder.
    """
    allow(protocol.engine)
    check_allowed(protocol)


def check_allowed(protocol: Protocol) -> None:
    """Check a protocol from any source as `check` does.

    Raises
    ------
    UserError
        Also if the engine is an import path that the user of this process did not name.
    """
    if protocol.engine != "kmdr" and not protocol.plain:
        raise UserError(
            f"kmeans.online and kmeans.empty_action work with kmeans.engine=kmdr only, not with {protocol.engine!r}; "
            "remove them, or use kmeans.engine=kmdr"
        )
    if protocol.engine in names():
        if "." not in protocol.engine:
            _check_arguments(protocol)
        return
    if not isinstance(protocol.engine, str) or "." not in protocol.engine:
        raise unknown("kmeans.engine", protocol.engine, [*names(), "an import path package.module.Class"])
    cls = find_class(protocol.engine, "engine")
    if not hasattr(cls, "fit_predict"):
        raise UserError(f"engine {protocol.engine!r} has no fit_predict; name a clusterer")
    if _size_argument(cls) is None:
        raise UserError(
            f"engine {protocol.engine!r} has no argument {' or '.join(_K)}, so the number of clusters cannot be set; "
            "name a clusterer that has one, or write a wrapper class"
        )
    check_arguments(cls, protocol.arguments, f"engine {protocol.engine}")


def _check_arguments(protocol: Protocol) -> None:
    """Refuse arguments that an engine with a name does not take."""
    parameters = inspect.signature(_registry.known()[protocol.engine]).parameters.values()
    valid = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    if protocol.arguments and not valid:
        raise UserError(
            f"kmeans.args = {protocol.args}, but engine {protocol.engine!r} takes no arguments; give an engine by its "
            "import path, or omit kmeans.args"
        )
    for name, value in protocol.arguments.items():
        if name not in valid:
            raise unknown(f"argument of engine {protocol.engine}", name, valid)
        whole_number(f"kmeans.args.{name}", value, 1)


def cluster(C: Matrix, k: int, starts: Dense, rng: np.random.Generator, protocol: Protocol) -> Clustering:
    """Run the protocol's engine, importing it if it is a path.

    Call it only where the author or the user chose the engine. Use `cluster_allowed` for a protocol that was read from
    a results folder.

    Parameters
    ----------
    starts : (n_init, k) int array
        Rows of C at which the centres of each start lie.
    rng : numpy.random.Generator
        For engines that draw random numbers.
    """
    allow(protocol.engine)
    return cluster_allowed(C, k, starts, rng, protocol)


def cluster_allowed(C: Matrix, k: int, starts: Dense, rng: np.random.Generator, protocol: Protocol) -> Clustering:
    """Run the engine of a protocol from any source as `cluster` does.

    Raises
    ------
    UserError
        If the engine is an import path that the user of this process did not name.
    """
    return _registry.known().get(protocol.engine, _outside)(C, k, starts, rng, protocol)
