"""Third-party classes, named by their import path: ``package.module.Class``.

A path from a folder of results is never imported. `kmdr.reducers.make`, `kmdr.clustering.engines.check` and
``cluster``, and `kmdr.compare` are for callers who name the path, and allow it. ``make_allowed``, ``check_allowed`` and
``cluster_allowed``, which kmdr itself uses, take any name and import only what was allowed before.
"""

import importlib
import inspect
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from kmdr.base.errors import UserError, raised_by, shown, unknown
from kmdr.base.identity import third_party_origin
from kmdr.base.identity.in_memory import origin_in_memory
from kmdr.base.signals import is_interrupt

# Import paths that the user of this process named. A worker gets them with each task of its driver.
_allowed: set[str] = set()


def allow(*names: Any) -> None:
    """Allow imports of those names that are import paths. Never call this with names from a folder of results."""
    _allowed.update(name for name in names if isinstance(name, str) and "." in name)


def is_allowed(path: str) -> bool:
    """Return whether the user of this process named an import path, so that its class may be imported."""
    return path in _allowed


def find_class(path: str, what: str) -> type:
    """Return the class that an import path names, if the user named that path.

    Parameters
    ----------
    path : str
        ``package.module.Class``; the module may be of an installed package or in a folder of ``PYTHONPATH``.
    what : str
        Its role for error messages, e.g. ``"reducer"``.

    Raises
    ------
    UserError
        When nobody allowed the path, it is not one, the module cannot be imported, or has no such class.
    """
    if not is_allowed(path):
        raise UserError(
            f"{what} {shown(path)} is third-party code that this command did not name, so it is not imported; name it "
            f"in a setting of the command, or call kmdr.base.outside.allow({shown(path)}) first"
        )
    return _imported(path, what)


@contextmanager
def keep_folder_and_streams() -> Iterator[None]:
    """Restore the current folder, which relative paths are in, and `sys.stdout` and `sys.stderr` at the end.

    Third-party code may change them.
    """
    streams = sys.stdout, sys.stderr
    folder = None
    with suppress(OSError):  # it may have been removed
        folder = Path.cwd()
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams
        if folder:
            os.chdir(folder)


@contextmanager
def end_forks() -> Iterator[None]:
    """End the processes that third-party code forked in this block and let return from it, as a copy of this one.

    They would continue with the work of this process: write its rows, and answer in its place.
    """
    process = os.getpid()
    try:
        yield
    finally:
        if os.getpid() != process:
            os._exit(0)


@contextmanager
def import_errors(name: Any) -> Iterator[None]:
    """Turn exceptions of third-party modules that end a process, such as `SystemExit`, into a `UserError`.

    The current folder and the streams stay the same.
    """
    try:
        with keep_folder_and_streams():
            yield
    except BaseException as error:
        if isinstance(error, Exception) or is_interrupt(error):
            raise
        raise UserError(
            f"{raised_by(error) or 'its module'} ended the import of {name!r} ({type(error).__name__}: {error}); "
            "remove what ends the process from it"
        ) from error


@cache
def _imported(path: str, what: str) -> type:
    if not all(part.isidentifier() for part in path.split(".")):
        raise UserError(f"{what} {shown(path)} is not an import path; give one like package.module.Class")
    module, _, name = path.rpartition(".")
    try:
        cls = getattr(importlib.import_module(module), name, None)
    except Exception as error:  # whatever the module raises while it is imported
        raise UserError(
            f"{what} {path!r}: the module {module!r} cannot be imported ({type(error).__name__}: {error}); install its "
            f"package, or name the folder of your own module in PYTHONPATH{_hint(module)}"
        ) from error
    if not inspect.isclass(cls):
        names = [key for key, value in vars(importlib.import_module(module)).items() if inspect.isclass(value)]
        raise unknown(f"class of the module {module}", name, names)
    return cls


def _hint(module: str) -> str:
    """Return the remedy for a module of the current folder, from which nothing is imported by default."""
    package = module.partition(".")[0]
    here = any(Path(name).exists() for name in (f"{package}.py", f"{package}/__init__.py"))
    return f"; {package!r} lies in the current folder, which PYTHONPATH=. names" if here else ""


def arguments(cls: type) -> list[str]:
    """Return the names of a constructor's arguments."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [name for name, parameter in inspect.signature(cls).parameters.items() if parameter.kind in kinds]


def check_arguments(cls: type, given: Mapping[str, Any], what: str) -> None:
    """Refuse arguments that a constructor does not take."""
    valid = arguments(cls)
    for name in given:
        if name not in valid:
            raise unknown(f"argument of {what}", name, valid)


def seed_of(rng: np.random.Generator) -> int:
    """Return a seed for a class that takes ``random_state`` as a number."""
    return int(rng.integers(2**31 - 1))


def named_by_path(transformer: Any) -> tuple[str, dict[str, Any]]:
    """Return the import path of a class or an instance, and the arguments in which an instance differs from a new one.

    A class that cannot be imported by its path is refused, and so is an argument that cannot be written as JSON.
    """
    cls = transformer if inspect.isclass(transformer) else type(transformer)
    path = f"{cls.__module__}.{cls.__qualname__}"
    allow(path)
    imported = None if "<locals>" in path else find_class(path, "reducer")
    if imported is not cls:
        if imported is not None and f"{imported.__module__}.{imported.__qualname__}" == path:
            raise UserError(f"{path} was defined again after this class was; give the new class, or a new instance")
        raise UserError(f"{path} cannot be imported by its name; define the class at the top level of a module")
    given = {} if transformer is cls else transformer.get_params(deep=False)
    defaults = {name: value.default for name, value in inspect.signature(cls).parameters.items()}
    ours = ("n_components", "random_state")
    args = {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in given.items()
        if name not in ours and not _is_equal(value, defaults.get(name))
    }
    try:
        json.dumps(args)
    except (TypeError, ValueError) as error:  # ValueError: a list that contains itself
        raise UserError(
            f"the arguments {shown(args)} of {path} cannot be written as JSON ({error}); give plain values"
        ) from error
    return path, args


def _is_equal(value: Any, default: Any) -> bool:
    """Return whether an argument is its default; an array, which is compared entry by entry, never is."""
    if value is default:
        return True
    same = value == default
    return isinstance(same, bool | np.bool_) and bool(same)


@cache
def origin(path: str) -> str:
    """Return the origin of a class: its distribution and version, and the hash of the code that it reaches.

    Empty if its module is not available.

    Examples
    --------
    >>> allow("sklearn.decomposition.NMF")
    >>> origin("sklearn.decomposition.NMF").split()[0]
    'scikit-learn'
    """
    module, _, name = path.rpartition(".")
    known = third_party_origin(module, name)
    if module not in (known, "__main__"):
        return known
    try:
        return origin_in_memory(find_class(path, "class"))
    except UserError:
        return known
