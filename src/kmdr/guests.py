"""Where papers and methods come from: the built-in folder, then folders of the user's with the same layout.

A root is a folder that may hold ``papers/``. The built-in one is this package; others, the guests, are named by
``KMDR_PATH``. A guest's modules are imported under a package name of their own, which its path determines, so that
relative imports work inside it and nothing of it can be mistaken for another's.
"""

import importlib
import os
import sys
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import ModuleType

from kmdr.errors import UserError


@dataclass(frozen=True)
class Root:
    """A folder with the layout of the built-in one.

    Attributes
    ----------
    folder : Path
    package : str
        Under which its modules are imported.
    """

    folder: Path
    package: str


@dataclass(frozen=True)
class PaperFolder:
    """A folder that holds all there is of one paper.

    Attributes
    ----------
    name : str
        Short name of the paper, with which the ids of its items and claims begin.
    folder : Path
    package : str
        Under which its modules are imported.
    """

    name: str
    folder: Path
    package: str

    def module(self, name: str) -> ModuleType | None:
        """Return one of the paper's modules; None where it has none of that name."""
        return importlib.import_module(f"{self.package}.{name}") if (self.folder / f"{name}.py").is_file() else None


_BUILT_IN = Root(Path(__file__).resolve().parent, __package__ or "kmdr")


def roots() -> tuple[Root, ...]:
    """Return the built-in root, and those that ``KMDR_PATH`` names.

    Raises
    ------
    UserError
        When one of them is not a folder.
    """
    named = [Path(text).expanduser() for text in os.environ.get("KMDR_PATH", "").split(os.pathsep) if text]
    return (_BUILT_IN, *map(_guest, named))


def _guest(folder: Path) -> Root:
    """Return a user's folder as a root, and let its modules be imported under their own package name."""
    if not folder.is_dir():
        raise UserError(f"KMDR_PATH names {folder}, which is no folder; name folders that hold papers/")
    place = folder.resolve()
    package = f"kmdr_guest_{sha256(str(place).encode()).hexdigest()[:12]}"
    if package not in sys.modules:
        module = ModuleType(package)
        module.__path__ = [str(place)]
        sys.modules[package] = module
    return Root(place, package)


def paper_folders() -> tuple[PaperFolder, ...]:
    """Return the folders of all papers, those that hold a ``paper.toml``, by name.

    Raises
    ------
    UserError
        When two have one name, or a name that no id can begin with.
    """
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
