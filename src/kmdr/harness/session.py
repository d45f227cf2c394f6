"""Calls of `kmdr` in one Python process, between which files, plugins and classes may change, as in a notebook."""

import hashlib
import importlib.util
import marshal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.machinery import ModuleSpec
from pathlib import Path

from kmdr.base import outside, plugins
from kmdr.base.errors import UserError
from kmdr.base.identity import forget_code, is_own, sources
from kmdr.base.identity.modules import find_module, is_source
from kmdr.base.plugins import plugin_roots
from kmdr.config import task
from kmdr.datasets import registry
from kmdr.datasets.acquire import find
from kmdr.harness.engines import contract

# The specification with which each third-party module was loaded, and the digest of its source. A reload makes another.
_loaded: dict[str, tuple[ModuleSpec, str]] = {}
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
        registry._read, task.origins_of_methods, contract._data,
    ):  # fmt: skip
        cached.cache_clear()
    find.forget_hosts()
    importlib.invalidate_caches()


def _third_party(names: Iterable[str]) -> list[str]:
    """Return the modules of the plugins that are loaded, of some import paths, and what these import."""
    packages = tuple(f"{root.package}." for root in plugin_roots())
    modules = [name for name in list(sys.modules) if packages and name.startswith(packages)]
    named = [name.rpartition(".")[0] for name in names if "." in name]
    modules += [name for name in named if not is_own(name) and is_source(name)]
    return [name for name in sources(*dict.fromkeys(modules)) if not is_own(name)]


def _check(names: Iterable[str]) -> None:
    """Refuse modules whose source changed after they were imported; forget the hashes of other code that changed."""
    digests = {name: _digest(find_module(name)) for name in names}
    if any(_hashed.get(name) != digest for name, digest in digests.items()):
        forget_code()
        task.forget_code()
        contract.end_children()
    _hashed.update(digests)
    for name in digests:
        if (file := _changed_file(name)) is not None:
            raise UserError(
                f"{file} was changed after this process imported it, so that the old code would run under the name of "
                f"the new one; restart the process, or reload the module: importlib.reload(sys.modules[{name!r}])"
            )


def _record(names: Iterable[str]) -> None:
    """Record the source with which modules were loaded, where it is not known yet."""
    for name in names:
        _changed_file(name)


def _changed_file(name: str) -> str | None:
    """Return the file of a module if its source is not that with which the module was loaded."""
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    if module is None or spec is None or not str(spec.origin).endswith(".py"):
        return None
    digest = _digest(spec)
    if name not in _loaded or _loaded[name][0] is not spec:
        if not _is_compiled_from(spec, Path(spec.origin)):
            return str(spec.origin)
        _loaded[name] = spec, digest
    return None if _loaded[name][1] == digest else str(spec.origin)


def _digest(spec: ModuleSpec | None) -> str:
    """Return a digest of the file of a module; empty without a readable one."""
    if spec is None or not spec.has_location or spec.origin is None:
        return ""
    try:
        return hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()
    except OSError:
        return ""


def _is_compiled_from(spec: ModuleSpec, source: Path) -> bool:
    """Return whether the compiled file that Python wrote when it imported a module has the code of its source now.

    True if there is no such file, since nothing then shows the code that the module ran.
    """
    if spec.cached is None or sys.dont_write_bytecode:
        return True
    try:
        content = Path(spec.cached).read_bytes()
        if content[:4] != importlib.util.MAGIC_NUMBER:
            return True
        return bool(marshal.loads(content[16:]) == compile(source.read_bytes(), str(source), "exec", dont_inherit=True))
    except (OSError, ValueError, EOFError, TypeError):
        return True
    except SyntaxError:
        return False
