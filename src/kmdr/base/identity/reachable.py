"""The hash of all definitions that some entry points reach."""

import hashlib
import sys
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from typing import Any

from kmdr.base.identity import modules, names, normal_form
from kmdr.base.identity.names import ALL, EFFECTS, NAMED, Definition
from kmdr.base.identity.normal_form import Parameter


def reach(*entries: str) -> list[Definition]:
    """Return all that some entry points reach, in the order in which they are reached.

    Parameters
    ----------
    *entries : str
        ``"module:name"``, or ``"module"`` for all of a module.
    """
    queue: dict[Definition, None] = {}
    for entry in entries:
        module, _, name = entry.partition(":")
        target = names.member(module, name.partition(".")[0]) if name else None
        queue[target if isinstance(target, Definition) else Definition(module, ALL)] = None
    seen: set[str] = set()
    order = list(queue)
    for definition in order:
        more: list[Definition] = []
        if definition.module not in seen:
            seen.add(definition.module)
            if not modules.is_own(definition.module):
                more += [Definition(module, ALL) for module in modules.sources(definition.module)]
            if names.namespace(definition.module).effects:
                more.append(Definition(definition.module, EFFECTS))
        more += [part for part in normal_form.form(definition).parts if isinstance(part, Definition)]
        for reached in more:
            if reached not in queue:
                queue[reached] = None
                order.append(reached)
    return order


def hash_of(lines: Iterable[str]) -> str:
    """Return 12 hexadecimal digits of the SHA-256 of some lines."""
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:12]


@cache
def code_hash(*entries: str) -> str:
    """Return the hash, 12 hexadecimal digits, of all that some entry points of `reach` reach."""
    reached = reach(*entries)
    number = {definition: f"#{i}" for i, definition in enumerate(reached)}
    named = set(reached[: len(entries)])  # functions whose parameters anyone may name
    named |= {
        Definition(definition.module, name)
        for definition in reached
        if definition.name in (ALL, NAMED)
        for name in names.namespace(definition.module).bound
    }
    keywords = {keyword for definition in reached for keyword in normal_form.form(definition).keywords}
    texts: list[str] = []
    for definition in reached:
        for part in normal_form.form(definition).parts:
            if isinstance(part, Parameter):
                known = part.owner is not None and (part.owner in named or (part.owner, "*") in keywords)
                kept = known or (part.owner, part.name) in keywords or (None, part.name) in keywords
                texts.append(part.name if kept else "")
            else:
                texts.append(part if isinstance(part, str) else number[part])
            texts.append("\n")
    outside = dict.fromkeys(definition.module for definition in reached if not modules.is_own(definition.module))
    return hash_of([*texts, *modules.origins(outside)])


def forget_code() -> None:
    """Forget the syntax trees of all modules and the hashes of all code, e.g. when a plugin has changed."""
    for module in (modules, names, normal_form):
        for kept in vars(module).values():
            if getattr(kept, "__module__", "") == module.__name__ and hasattr(kept, "cache_clear"):
                kept.cache_clear()
    code_hash.cache_clear()
    third_party_origin.cache_clear()


def name_of(made: Any) -> str:
    """Return the entry point for `reach` that is a class or a function."""
    return f"{made.__module__}:{made.__qualname__}"


@cache
def third_party_origin(module: str, name: str = "") -> str:
    """Return the origin of a module outside this package and its plugins, and the hash of its code.

    Nothing is imported, so that the names in rows from elsewhere can be asked for.

    Parameters
    ----------
    name : str
        A class in it, which may be defined in another module of the same distribution.

    Returns
    -------
    str
        Distribution and version, or the name of the outermost package; then `code_hash`. Empty where there is no such
        module.
    """
    package = module.partition(".")[0]
    loaded = sys.modules.get(module)
    if modules.find_module(module) is None:
        return package if loaded is not None else ""  # defined in a notebook
    installed = () if modules.is_own(module) else modules.distributions().get(package, ())
    known = next((f"{name} {metadata.version(name)}" for name in installed), package)
    return f"{known} {code_hash(*_definers(module, name))}"


def _definers(module: str, name: str) -> list[str]:
    """Return a module, and those from which it imports a name, one after the other."""
    definers = [module]
    while name:
        bases = [
            imported.rpartition(".")[0]
            for imported in modules.imported_names(definers[-1])
            if imported.endswith(f".{name}")
        ]
        bases = [base for base in bases if base not in definers and modules.find_module(base) is not None]
        if not bases:
            break
        definers.append(bases[0])
    return definers
