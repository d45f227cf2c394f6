"""Calls of `kmdr` in one Python process, between which files, plugins and classes may change, as in a notebook."""

import hashlib
import importlib.util
import marshal
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.machinery import ExtensionFileLoader, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import NamedTuple
from zipfile import BadZipFile, ZipFile

from kmdr.base import outside, plugins
from kmdr.base.errors import UserError
from kmdr.base.identity import forget_code, is_own, sources
from kmdr.base.identity.compiled import content_of, contents_in, functions_in
from kmdr.base.identity.in_memory import modules_used
from kmdr.base.identity.modules import find_module, is_source
from kmdr.base.plugins import PLUGIN_PREFIX, plugin_roots
from kmdr.clustering import engines
from kmdr.config import task
from kmdr.datasets import registry
from kmdr.datasets.acquire import find
from kmdr.harness.engines import contract
from kmdr.harness.task import warm_up
from kmdr.metrics import registry as metrics
from kmdr.reducers import base as reducers


class _Loaded(NamedTuple):
    """A third-party module as this process loaded it; a reload makes another specification.

    ``digests`` has the digest of its source and of each module that it imports, by name.
    """

    spec: ModuleSpec
    digests: Mapping[str, str]


_loaded: dict[str, _Loaded] = {}
# The digests of the sources of third-party code whose hashes this process may have kept.
_hashed: dict[str, str] = {}


@contextmanager
def call_of_session() -> Iterator[Callable[[Iterable[str]], None]]:
    """Let a call see files, plugins and classes as they are now, and yield a function that checks third-party code.

    The function takes the import paths of the reducers and engines of the call. It raises `UserError` when the source
    of a module of them or of a plugin changed after this process imported it: the old code would run, and the rows
    would name the new code.
    """
    _forget()
    named: set[str] = set()

    def check(names: Iterable[str]) -> None:
        named.update(names)
        _check(_third_party(named))

    try:
        yield check
    finally:
        with suppress(UserError, OSError):  # modules that this call imported
            _record(_third_party(named))


def _forget() -> None:
    """Forget what is quickly read again."""
    for cached in (
        outside._imported, outside.origin, plugins.origin_of_root, plugins._paper_folders, plugins.Registry._known,
        registry._read, task.origins_of_methods, contract._data, is_source,
    ):  # fmt: skip
        cached.cache_clear()
    find.forget_hosts()
    importlib.invalidate_caches()


def _third_party(names: Iterable[str]) -> list[str]:
    """Return the loaded modules of plugins, registered methods, import paths and notebooks, and what these import."""
    packages = tuple(f"{root.package}." for root in plugin_roots())
    registered = {
        module for made in (reducers.REGISTRY, engines._registry, metrics._registry) for _, module in made._made
    }
    named = [name.rpartition(".")[0] for name in names if "." in name]
    classes = [getattr(sys.modules.get(name.rpartition(".")[0]), name.rpartition(".")[2], None) for name in names]
    for made_by in (reducers.REGISTRY, engines._registry, metrics._registry):
        classes += [getattr(made, "function", made) for made in made_by._made.values()]  # metrics have one
    used = [name for made in classes if made is not None for name in modules_used(made)]
    modules = [name for name in list(sys.modules) if packages and name.startswith(packages)]
    others = {*registered, *named, *used}
    modules += [name for name in sorted(others) if not name.startswith(PLUGIN_PREFIX) and is_source(name)]
    return [name for name in sources(*dict.fromkeys(modules)) if not is_own(name)]


def _check(names: Iterable[str]) -> None:
    """Refuse modules whose source changed after they were imported; forget the hashes of other code that changed."""
    digests = {name: _digest(find_module(name)) for name in names}
    if any(_hashed.get(name) != digest for name, digest in digests.items()):
        forget_code()
        task.forget_code()
        warm_up.cache_clear()
        contract.end_children()
    _hashed.update(digests)
    for name in _changed(digests):
        spec, known = _loaded[name]
        others = [other for other in known if other != name and known[other] != digests.get(other)]
        if known[name] != digests[name] == "absent":
            raise UserError(
                f"{spec.origin} was removed or renamed after this process imported it, and its code would still run; "
                "restart the process"
            )
        what = "was changed" if known[name] != digests[name] else f"imports {', '.join(others)}, which was changed"
        # A script is not known by its name there, and a compiled file is loaded once.
        can_reload = spec.name == name and not isinstance(spec.loader, ExtensionFileLoader)
        remedy = f", or reload the module: importlib.reload(sys.modules[{name!r}])" if can_reload else ""
        raise UserError(
            f"{spec.origin} {what} after this process imported it, so that the old code would run under the name of "
            f"the new one; restart the process{remedy}"
        )


def _record(names: Iterable[str]) -> None:
    """Record the sources with which modules were loaded, where they are not known yet."""
    _changed({name: _digest(find_module(name)) for name in names})


def _changed(digests: Mapping[str, str]) -> list[str]:
    """Return the modules whose source, or that of what they import, is not that with which they were loaded.

    A module comes after what it imports, so that reloading one after the other loads all of the new code.
    """
    imports = {name: digests.keys() & set(sources(name)) for name in digests}
    changed = []
    for name in sorted(digests, key=lambda name: len(imports[name])):
        spec = getattr(sys.modules.get(name), "__spec__", None)
        if spec is None or not spec.has_location:
            continue
        if name not in _loaded or _is_loaded_again(_loaded[name].spec, spec):
            inside = {other: _loaded[other].digests[other] for other in imports[name] & _loaded.keys()}
            _loaded[name] = _Loaded(spec, {**inside, name: digests[name] if _is_from_source(name, spec) else ""})
        if any(digest != digests.get(other) for other, digest in _loaded[name].digests.items()):
            changed.append(name)
    return changed


def _is_loaded_again(before: ModuleSpec, spec: ModuleSpec) -> bool:
    """Return whether Python loaded a module again; it never loads a compiled file of the same name twice."""
    return before is not spec and not (isinstance(spec.loader, ExtensionFileLoader) and before.origin == spec.origin)


def _digest(spec: ModuleSpec | None) -> str:
    """Return a digest of the file of a module, which may be in an archive; ``absent`` without a readable one."""
    if spec is None or not spec.has_location or spec.origin is None:
        return "absent"
    file = Path(spec.origin)
    try:
        if archive := next(filter(Path.is_file, file.parents), None):
            with ZipFile(archive) as members:
                return hashlib.sha256(members.read(file.relative_to(archive).as_posix())).hexdigest()
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except (OSError, KeyError, BadZipFile):
        return "absent"


def _is_from_source(name: str, spec: ModuleSpec) -> bool:
    """Return whether a module was loaded from its source as it is now, as far as Python shows.

    The functions of the module show it, and the compiled file that Python wrote, if it belongs to this module.
    """
    if type(spec.loader) is not SourceFileLoader or spec.origin is None:
        return True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python gave them when it imported the module
            code = compile(Path(spec.origin).read_bytes(), spec.origin, "exec", dont_inherit=True)
    except SyntaxError:
        return False
    except (OSError, ValueError):
        return True
    functions = functions_in(name, list(vars(sys.modules[name]).values()))
    loaded = {content_of(made.__code__) for made in functions if made.__code__.co_filename == spec.origin}
    return loaded <= contents_in(code) and _compiled_file(spec) in (None, code)


def _compiled_file(spec: ModuleSpec) -> CodeType | None:
    """Return the code in the compiled file of a module; None without one, or if Python could not replace it."""
    if spec.cached is None or sys.dont_write_bytecode or not os.access(Path(spec.cached).parent, os.W_OK):
        return None
    try:
        content = Path(spec.cached).read_bytes()
        if content[:8] != importlib.util.MAGIC_NUMBER + bytes(4):  # of another Python, or checked in another way
            return None
        code = marshal.loads(content[16:])
    except (OSError, ValueError, EOFError, TypeError):
        return None
    return code if isinstance(code, CodeType) else None
