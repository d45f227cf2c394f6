"""Reducers: maps from A (n×d) to C (n×r), one family a module, found by name.

Every module of this folder is imported once, and each class it decorates with `register` can be named in a
configuration. A new reducer is one module here and one YAML in ``conf/reducer``.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from typing import Any

from kmdr.errors import UserError, unknown
from kmdr.reducers.base import Reducer, registered


@cache
def _all() -> dict[str, type[Reducer]]:
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return registered()


def names() -> list[str]:
    """Return the names of all reducers, sorted."""
    return sorted(_all())


def summary(name: str) -> str:
    """Return the first line of a reducer's description."""
    return (_all()[name].__doc__ or "").strip().splitlines()[0]


def make(name: str, params: Mapping[str, Any] | None = None) -> Reducer:
    """Return the reducer of that name.

    Parameters
    ----------
    name : str
    params : mapping, optional
        Arguments of its constructor.

    Raises
    ------
    UserError
        When there is no such reducer, it has no such parameter, or a value is outside its range.
    """
    known = _all()
    if name not in known:
        raise unknown("reducer", name, known)
    valid = known[name].parameters()
    for key in params or {}:
        if key not in valid:
            raise (
                unknown(f"parameter of reducer {name}", key, valid)
                if valid
                else UserError(f"reducer {name} takes no parameters, but was given {key!r}; leave it out")
            )
    return known[name](**(params or {}))


__all__ = ["Reducer", "make", "names", "summary"]
