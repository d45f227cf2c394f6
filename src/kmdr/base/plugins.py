"""Where papers, methods and data come from: the built-in folder, and plugins with the same layout.

A root is a folder that may hold ``reducers/ engines/ metrics/ datasets/ papers/ conf/``. The built-in one is this
package. Plugins are packages with an entry point in the group `ENTRY_POINTS`, then the folders that ``KMDR_PATH``
names. A folder's modules are imported under a package name derived from its path, so that relative imports work inside
it and its modules cannot be confused with others. They are the user's own code, run from where the user named them and
from nowhere else.
"""

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Generic, TypeVar

from kmdr.base.errors import UserError
from kmdr.base.files import content_hash
from kmdr.base.identity import code_hash, hash_of, is_own, origins, sources

ENTRY_POINTS = "kmdr.guests"
# The packages of folders that KMDR_PATH names; their names depend on where the folder lies.
PLUGIN_PREFIX = "kmdr_guest_"
# Folders whose modules are loaded; modules elsewhere are only imported by these.
_KINDS = ("reducers", "engines", "metrics", "datasets")
# Folders of the layout: these, and what lies in them, may be links.
_LAYOUT = (*_KINDS, "papers", "conf")
# Files of a plugin that can change a number.
_COUNTED = (".py", ".yaml", ".toml", ".csv")
# Files that mark a folder in a plugin's as something other than code: results of runs, or a Python environment.
_NOT_CODE = ("runs.jsonl", "configs.jsonl", "pyvenv.cfg")


@dataclass(frozen=True)
class Root:
    """A folder with the layout of the built-in one.

    Attributes
    ----------
    package : str
        Under which its modules are imported.
    name, version : str
        Of its distribution; a folder has its own name and no version.
    """

    folder: Path
    package: str
    name: str
    version: str = ""

    def files(self, kind: str, pattern: str) -> list[Path]:
        """Return the files of a pattern in one of its folders, by name."""
        return sorted((self.folder / kind).glob(pattern))


@dataclass(frozen=True)
class PaperFolder:
    """The folder of one paper.

    Attributes
    ----------
    name : str
        Short name of the paper, with which the ids of its items and claims begin.
    package : str
        Under which its modules are imported.
    """

    name: str
    folder: Path
    package: str

    def module(self, name: str) -> ModuleType | None:
        """Return one of the paper's modules; None if it has none of that name."""
        return importlib.import_module(f"{self.package}.{name}") if (self.folder / f"{name}.py").is_file() else None


_BUILT_IN = Root(Path(__file__).resolve().parents[1], "kmdr", "kmdr")


@cache
def origin_of_root(root: Root) -> str:
    """Return name, version and hash of a plugin: of its files, and of what its modules import elsewhere."""
    digest = content_hash(sorted(file for file in _files(root.folder) if file.suffix in _COUNTED))[:12]
    modules = [f"{root.package}.{kind}.{file.stem}" for kind in _KINDS for file in root.files(kind, "*.py")]
    inside = [name for name in sources(*modules) if f"{name}.".startswith(f"{root.package}.")]
    elsewhere = [name for name in sources(*modules) if name not in inside and not is_own(name)]
    if more := [*map(code_hash, elsewhere), *origins(inside)]:
        digest = hash_of([digest, *more])
    return " ".join(filter(None, (root.name, root.version, digest)))


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files of a plugin, also behind links to folders of the layout, but not results or environments."""
    seen: set[str] = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        path, real = Path(place), os.path.realpath(place)
        if real in seen or (path != folder and any((path / name).exists() for name in _NOT_CODE)):
            folders.clear()
            continue
        seen.add(real)
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".")
            and name != "__pycache__"
            and (name in _LAYOUT or path.name in _LAYOUT or not (path / name).is_symlink())
        ]
        yield from (file for name in names if (file := path / name).is_file())


def origin_of_paper(paper: PaperFolder) -> str:
    """Return a hash of a plugin's paper: of its files, and of what its modules import from outside of the plugin.

    Of other files than code and tables the hash has size and time, because they may be large.
    """
    modules = [f"{paper.package}.{file.stem}" for file in sorted(paper.folder.glob("*.py"))]
    inside = f"{paper.package.rpartition('.papers.')[0]}."
    elsewhere = [name for name in sources(*modules) if not f"{name}.".startswith(inside) and not is_own(name)]
    files = sorted(_files(paper.folder))
    others = [(file, file.stat()) for file in files if file.suffix not in _COUNTED]
    return hash_of(
        [
            content_hash(file for file in files if file.suffix in _COUNTED),
            *(f"{file.name} {status.st_size} {status.st_mtime_ns}" for file, status in others),
            *map(code_hash, elsewhere),
        ]
    )


@cache
def _packages() -> tuple[Root, ...]:
    plugins = []
    for point in sorted(metadata.entry_points(group=ENTRY_POINTS), key=lambda point: point.name):
        spec = importlib.util.find_spec(point.value)
        places = list(spec.submodule_search_locations or ()) if spec else []
        if not places:
            raise UserError(f"the entry point {point.name} names {point.value!r}, which is not a package; name one")
        known = point.dist
        plugins.append(
            Root(Path(places[0]), point.value, known.name if known else point.name, known.version if known else "")
        )
    return tuple(plugins)


def roots() -> tuple[Root, ...]:
    """Return the built-in root, the installed plugins, and the folders that ``KMDR_PATH`` names."""
    named = [Path(text).expanduser() for text in os.environ.get("KMDR_PATH", "").split(os.pathsep) if text]
    return (_BUILT_IN, *_packages(), *map(_folder_root, named))


def plugin_roots() -> tuple[Root, ...]:
    """Return the plugins: all roots but the built-in one."""
    return roots()[1:]


def _load(kind: str, root: Root) -> None:
    """Import every module of one of a root's folders, whose decorators register what it defines."""
    for file in root.files(kind, "*.py"):
        try:
            importlib.import_module(f"{root.package}.{kind}.{file.stem}")
        except UserError:
            raise
        except Exception as error:  # whatever a user's module raises
            raise UserError(f"{file} cannot be imported ({type(error).__name__}: {error}); fix it") from error


T = TypeVar("T")


class Registry(Generic[T]):
    """Registered objects by name: kmdr's own, and those from the current plugins.

    ``kind`` is the folder of a plugin whose modules are loaded.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._made: dict[tuple[str, str], T] = {}

    def add(self, name: str, module: str, made: T) -> None:
        """Register an object under a name; the module that defines it may do so again."""
        self._made[name, module] = made

    def known(self) -> dict[str, T]:
        """Return the registered objects by name, after loading the plugins' modules."""
        return dict(self._known(plugin_roots(), len(self._made)))

    @cache  # noqa: B019  registries live as long as the process
    def _known(self, places: tuple[Root, ...], count: int) -> dict[str, T]:
        del count  # asked again when something was added
        for root in places:
            _load(self._kind, root)
        here = tuple(f"{root.package}." for root in places)
        where: dict[str, str] = {}
        for name, module in self._made:
            removed = module.startswith(PLUGIN_PREFIX) and not module.startswith(here)
            if not removed and where.setdefault(name, module) != module:
                raise UserError(
                    f"two {self._kind} are named {name!r}, in {where[name]} and {module}; rename one of them"
                )
        return {name: self._made[name, module] for name, module in where.items()}


def origin_of(module: str) -> str:
    """Return the origin of the plugin that a module belongs to; empty for kmdr's own modules."""
    return next((origin_of_root(root) for root in plugin_roots() if module.startswith(f"{root.package}.")), "")


def _folder_root(folder: Path) -> Root:
    """Return a user's folder as a root, and let its modules be imported under their own package name."""
    if not folder.is_dir():
        raise UserError(
            f"KMDR_PATH names {folder}, which is not a folder; name folders that hold reducers/, datasets/, papers/ …"
        )
    place = folder.resolve()
    package = f"{PLUGIN_PREFIX}{sha256(str(place).encode()).hexdigest()[:12]}"
    if package not in sys.modules:
        module = ModuleType(package)
        module.__path__ = [str(place)]
        sys.modules[package] = module
    return Root(place, package, place.name)


def paper_folders() -> tuple[PaperFolder, ...]:
    """Return the folders of all papers, each with a ``paper.toml``, by name."""
    return _paper_folders(roots())


@cache
def _paper_folders(places: tuple[Root, ...]) -> tuple[PaperFolder, ...]:
    papers: dict[str, PaperFolder] = {}
    for root in places:
        for file in sorted(root.folder.glob("papers/*/paper.toml")):
            name = file.parent.name
            if not (name.isidentifier() and name.isalnum()):
                raise UserError(f"{file.parent} is not named with letters and digits alone, as a paper is; rename it")
            if name in papers:
                raise UserError(f"{file.parent} and {papers[name].folder} are both named {name}; rename one of them")
            papers[name] = PaperFolder(name, file.parent, f"{root.package}.papers.{name}")
    return tuple(papers[name] for name in sorted(papers))
