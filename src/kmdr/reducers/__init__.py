"""Reducers: maps from A (n×d) to C (n×r), one family per module, found by name.

Every module of this folder is imported once, and each class decorated with `register` can be named in a configuration.
A new reducer is one module here and one YAML file in ``conf/reducer``.

All reducers are scikit-learn transformers too. The reducers of the papers, and the additional ones, can be imported
from here.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from functools import cache
from typing import Any

from kmdr.base.errors import UserError, plain_name, shown, unknown
from kmdr.base.identity import name_of
from kmdr.base.outside import allow, origin
from kmdr.base.plugins import origin_of
from kmdr.reducers.base import REGISTRY, Reducer
from kmdr.reducers.fast_transform import FJLT, SRHT
from kmdr.reducers.laplacian_score import LaplacianScore
from kmdr.reducers.leverage import (
    ApproximateLeverageScores,
    LeverageScores,
    RidgeLeverageScores,
    SquareRootLeverageScores,
    TopLeverageScores,
)
from kmdr.reducers.lle import LLE
from kmdr.reducers.outside import Outside
from kmdr.reducers.plugin_output import check_output as _check_output
from kmdr.reducers.random_projection import Achlioptas, Gaussian, MailmanRandomSign, RandomSign
from kmdr.reducers.selection import Variance
from kmdr.reducers.singular_vectors import SVD, ApproximateSVD, LeftSingularVectors
from kmdr.reducers.sparse_embedding import OSNAP, SparseEmbedding
from kmdr.reducers.sparsified import Sparsified


@cache
def _import_own() -> None:
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")


def _all() -> dict[str, type[Reducer]]:
    _import_own()
    return REGISTRY.known()


def names() -> list[str]:
    """Return the names of all reducers, sorted."""
    return sorted(_all())


def __getattr__(name: str) -> Any:
    """Return the class of that name among all reducers, so that a new one can be imported from here like the others."""
    for cls in _all().values() if name[:1].isupper() else ():
        if cls.__name__ == name:
            return cls
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def summary(name: str) -> str:
    """Return the first line of a reducer's description."""
    return (_all()[name].__doc__ or "").strip().splitlines()[0]


def module_of(name: str) -> str:
    """Return the name of the module that defines a reducer."""
    return Outside.__module__ if "." in name else _all()[name].__module__


def entry_point(name: str) -> str:
    """Return the entry point of a reducer's code, for `kmdr.base.identity.reach`."""
    return name_of(Outside if "." in name else _all()[name])


def origin_of_reducer(name: str) -> str:
    """Return name, version and hash of the plugin or package that provides a reducer; empty for kmdr's own."""
    return origin(name) if "." in name else origin_of(module_of(name))


def check_output(name: str) -> None:
    """Let the trials of this process refuse a third-party result that is not an n×r matrix of real numbers."""
    if "." not in name and origin_of_reducer(name):
        _check_output(_all()[name])


def settings(name: str) -> dict[str, Any]:
    """Return the parameters of a registered reducer with their defaults, for reducers without a configuration file."""
    cls = _all()[name]
    signature = inspect.signature(cls).parameters
    return {key: signature[key].default for key in cls.parameters()}


def recorded(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that rows record: all, without later ones at the values of earlier rows."""
    later = {} if "." in name else _all()[name].later
    return {key: value for key, value in params.items() if key not in later or value != later[key]}


def named(config: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return name and parameters of a reducer from the tree of ``conf/reducer``.

    The name of a third-party class is its import path; its parameters are the arguments of its constructor.

    Raises
    ------
    UserError
        If a third-party class has no path, or its arguments have no names.
    """
    params = dict(config)
    name = plain_name("reducer.name", params.pop("name", None))
    if name != "outside":
        return name, params
    path, args = params.get("path"), params.get("args") or {}
    if not isinstance(path, str) or "." not in path:
        raise UserError(
            f"reducer.path = {shown(path)} is not an import path; write e.g. reducer.path=sklearn.decomposition.NMF"
        )
    if not isinstance(args, Mapping):
        raise UserError(f"reducer.args = {shown(args)} must be named arguments; write e.g. reducer.args.max_iter=500")
    return path, dict(args)


def make(name: str, params: Mapping[str, Any] | None = None) -> Reducer:
    """Return the reducer of that name, importing it if the name is an import path.

    Call it only where the author or the user chose the name. Use `make_allowed` for a name that was read from a results
    folder.

    Parameters
    ----------
    name : str
        A registered name, or the import path of any scikit-learn transformer.
    params : mapping, optional
        Arguments of its constructor.

    Raises
    ------
    UserError
        If the reducer or one of its parameters does not exist, or a value is out of range.
    """
    allow(name)
    return make_allowed(name, params)


def make_allowed(name: str, params: Mapping[str, Any] | None = None) -> Reducer:
    """Return the reducer of that name from any source, e.g. a row or a configuration.

    Parameters and errors are as for `make`; in addition, an import path is refused unless the user of this process
    named it (`kmdr.base.outside.is_allowed`).
    """
    if "." in name:
        outside = Outside(name, params)
        outside.validate()
        return outside
    known = _all()
    if name not in known:
        raise unknown("reducer", name, known)
    valid = known[name].parameters()
    for key in params or {}:
        if key not in valid:
            raise (
                unknown(f"parameter of reducer {name}", key, valid)
                if valid
                else UserError(f"reducer {name} takes no parameters, but was given {key!r}; remove it")
            )
    reducer = known[name](**(params or {}))
    reducer.validate()
    return reducer


__all__ = [
    "FJLT",
    "LLE",
    "OSNAP",
    "SRHT",
    "SVD",
    "Achlioptas",
    "ApproximateLeverageScores",
    "ApproximateSVD",
    "Gaussian",
    "LaplacianScore",
    "LeftSingularVectors",
    "LeverageScores",
    "MailmanRandomSign",
    "RandomSign",
    "Reducer",
    "RidgeLeverageScores",
    "SparseEmbedding",
    "Sparsified",
    "SquareRootLeverageScores",
    "TopLeverageScores",
    "Variance",
    "check_output",
    "make",
    "make_allowed",
    "module_of",
    "named",
    "names",
    "origin_of_reducer",
    "recorded",
    "settings",
    "summary",
]
