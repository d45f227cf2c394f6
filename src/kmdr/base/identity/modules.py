"""Modules as code identity sees them: found and read, but never imported."""

import ast
import hashlib
import importlib.util
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import metadata
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

# Distributions whose versions are in every row's environment.
PACKAGES = (
    "numpy", "scipy", "scikit-learn", "numba", "llvmlite", "pandas", "joblib", "hydra-core", "omegaconf", "matplotlib",
    "pooch", "threadpoolctl", "tqdm",
)  # fmt: skip
OWN = __name__.partition(".")[0]
_RECORDED = frozenset({*sys.stdlib_module_names, *PACKAGES, "hydra", "sklearn", OWN})
_INSTALLED = frozenset({"site-packages", "dist-packages"})


def find_module(module: str) -> ModuleSpec | None:
    """Return the specification of a module, without importing it or the packages around it; None if there is none."""
    if known := getattr(sys.modules.get(module), "__spec__", None):
        return known  # type: ignore[no-any-return]
    first, *others = module.split(".")
    spec = None
    with suppress(ImportError, ValueError):  # ValueError: it was made without a specification, as plugins' packages are
        spec = importlib.util.find_spec(first)
    places = spec.submodule_search_locations if spec else getattr(sys.modules.get(first), "__path__", None)
    for name in others:
        first = f"{first}.{name}"
        spec = _find_in(first, list(places or ()))
        places = spec.submodule_search_locations if spec else None
    return spec


def _find_in(module: str, places: list[str]) -> ModuleSpec | None:
    """Find a module in the places of its package, as Python's own finder does after it imported the package."""
    portions: list[str] = []
    for place in places:
        finder = pkgutil.get_importer(place)
        spec = finder.find_spec(module, None) if finder else None
        if spec and spec.loader:
            return spec
        portions += (spec.submodule_search_locations or ()) if spec else ()
    if not portions:
        return None
    folder = ModuleSpec(module, None, is_package=True)  # without __init__.py
    folder.submodule_search_locations = portions
    return folder


@cache
def tree(module: str) -> ast.Module:
    """Return the syntax tree of a module, in a folder or in an archive; an empty one where it has no Python source."""
    spec = find_module(module)
    source: Any = None
    with suppress(ImportError, AttributeError, UnicodeError, OSError):  # compiled, or the folder of a namespace package
        source = spec.loader.get_source(module)  # type: ignore[union-attr]
    try:
        return ast.parse(source or "")
    except (SyntaxError, ValueError):  # reached, perhaps, but never imported
        return ast.parse("")


def is_own(module: str) -> bool:
    """Return whether a module belongs to this package."""
    return module.partition(".")[0] == OWN


@cache
def is_source(module: str) -> bool:
    """Return whether a module is read: one of this package, or outside of Python and of installed distributions."""
    package = module.partition(".")[0]
    if is_own(module):
        return find_module(module) is not None
    return package not in _RECORDED and not distribution(package) and find_module(module) is not None


@cache
def distributions() -> Mapping[str, list[str]]:
    """Return the names of the distributions that installed each package."""
    return metadata.packages_distributions()


@cache
def distribution(package: str) -> str:
    """Return name and version of the distribution that a package was installed with; nothing for source elsewhere.

    What is installed in place for development is source: its version stays the same while it is edited.
    """
    spec = find_module(package)
    where = [spec.origin, *(spec.submodule_search_locations or ())] if spec else []
    if not any(_INSTALLED & set(Path(place).parts) for place in where if place):
        return ""
    return next((f"{name} {metadata.version(name)}" for name in distributions().get(package, [])), "")


def aliases(node: ast.Import | ast.ImportFrom, module: str) -> Iterator[tuple[str, str, str]]:
    """Yield the names that an import binds, the module of each, and its name there or nothing for the module itself."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            top = alias.name.partition(".")[0]
            yield alias.asname or top, alias.name if alias.asname else top, ""
        return
    spec = find_module(module)
    with suppress(ImportError):  # beyond the outermost package
        base = importlib.util.resolve_name("." * node.level + (node.module or ""), (spec.parent if spec else "") or "")
        for alias in node.names:
            yield alias.asname or alias.name, base, alias.name


@cache
def imported_names(module: str) -> tuple[str, ...]:
    """Return the dotted names of what a module imports, anywhere in it, in order: modules, and what is in them."""
    names: dict[str, None] = {}
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            names |= dict.fromkeys(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for _, base, name in aliases(node, module):
                names |= dict.fromkeys((base, f"{base}.{name}"))
    return tuple(names)


def sources(*modules: str) -> tuple[str, ...]:
    """Return some modules, and the modules outside of this package and of installed distributions that they import.

    The packages around what they import count too, as Python runs them.
    """
    reached = dict.fromkeys(modules)
    queue = list(modules)
    for module in queue:
        names = [name for name in imported_names(module) if not is_own(name)]
        for name in names:
            around = [name[: dot.start()] for dot in re.finditer(r"\.", name)]
            for imported in (*around, name):
                if imported not in reached and is_source(imported):
                    reached[imported] = None
                    queue.append(imported)
    return tuple(reached)


def origins(modules: Iterable[str]) -> list[str]:
    """Return the versions of what modules outside of this package import, and hashes of those that are compiled."""
    lines: set[str] = set()
    for module in modules:
        packages = {name.partition(".")[0] for name in imported_names(module)} - _RECORDED
        spec = find_module(module)
        path = Path(spec.origin) if spec and spec.has_location and spec.origin else None
        lines |= {text for package in packages if (text := distribution(package))}
        if path and path.suffix != ".py" and path.is_file():
            lines.add(hashlib.sha256(path.read_bytes()).hexdigest())
    return sorted(lines)
