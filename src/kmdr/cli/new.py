"""The command ``kmdr new``: a working skeleton, with its test, in a folder of the user's.

The skeletons lie in ``skeletons/KIND``, laid out as a guest's folder, and run as they stand: only their names change.
"""

import keyword
import os
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from kmdr import datasets, metrics, reducers
from kmdr.base.errors import UserError, shown, unknown
from kmdr.base.files import write_atomically
from kmdr.base.plugins import paper_folders
from kmdr.clustering import engines

_SKELETONS = Path(__file__).with_name("skeletons")
_FOLDER = "guest"


class _Kind(NamedTuple):
    """What can be begun.

    Attributes
    ----------
    placeholder : str
        The name in the skeleton's files and in their names.
    taken : callable
        Returns the names that there are already.
    command : str
        Arguments of kmdr that try it.
    """

    placeholder: str
    taken: Callable[[], Collection[str]]
    command: str


KINDS = {
    "reducer": _Kind(
        "my_reducer",
        lambda: [*reducers.names(), "outside"],
        "reducer={name} 'r_grid=[5,20]' repeats=2 out=results/{name}",
    ),
    "dataset": _Kind("my_dataset", datasets.names, "dataset={name} 'r_grid=[2,5]' repeats=2 out=results/{name}"),
    "metric": _Kind("my_metric", metrics.metrics, "reducer=none repeats=2 out=results/{name}"),
    "engine": _Kind("my_engine", engines.names, "kmeans.engine={name} 'r_grid=[5,20]' repeats=2 out=results/{name}"),
    "paper": _Kind("mypaper", lambda: [paper.name for paper in paper_folders()], "reproduce {name} OUT=results/{name}"),
}


def _check_name(kind: str, name: str) -> None:
    letters = "letters and digits" if kind == "paper" else "letters, digits and _"
    if (
        not re.fullmatch(r"[A-Za-z]\w{0,60}", name, re.ASCII)
        or keyword.iskeyword(name)
        or (kind, "_" in name) == ("paper", True)
    ):
        raise UserError(
            f"{shown(name)} cannot name a {kind}; give {letters}, a letter first, and no word of Python's own"
        )
    if name in KINDS[kind].taken():
        raise UserError(
            f"the name {name!r} is taken, by one of the {kind}s, as 'kmdr list {kind}s' shows; give another"
        )


def write(kind: str, name: str, folder: Path) -> list[Path]:
    """Write the skeleton of a reducer, dataset, metric, engine or paper, and return its files.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    name : str
    folder : Path
        Made where it is not there.

    Raises
    ------
    UserError
        When the name cannot be had, or one of the files is there already: then none is written.
    """
    _check_name(kind, name)
    source, placeholder = _SKELETONS / kind, KINDS[kind].placeholder
    class_name = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
    files = {}
    for file in sorted(source.rglob("*")):
        if file.suffix in (".py", ".toml", ".yaml", ".csv"):
            target = folder / str(file.relative_to(source)).replace(placeholder, name)
            text = file.read_text("utf-8").replace(placeholder, name)
            files[target] = text.replace("".join(part.title() for part in placeholder.split("_")), class_name)
    for target in files:
        if target.exists():
            raise UserError(f"{target} is there already, and nothing is overwritten; give another name or folder")
    for target, text in files.items():
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(target, text.encode())
        except OSError as error:
            raise UserError(f"{target} cannot be written ({error.strerror}); name another folder") from error
    return list(files)


def run(arguments: Sequence[str]) -> None:
    """``kmdr new reducer|dataset|metric|engine|paper NAME [FOLDER]``: begin one of your own: a skeleton and its test.

    The folder is the first that ``KMDR_PATH`` names, else ``guest``.
    """
    if not 2 <= len(arguments) <= 3:
        raise UserError("'kmdr new' takes a kind, a name and perhaps a folder, e.g. 'kmdr new reducer mine my_folder'")
    kind, name = arguments[:2]
    if kind not in KINDS:
        raise unknown("kind of skeleton", kind, KINDS)
    known = [path for path in os.environ.get("KMDR_PATH", "").split(os.pathsep) if path]
    folder = Path(arguments[2] if len(arguments) > 2 else next(iter(known), _FOLDER)).expanduser()
    files = write(kind, name, folder)
    for file in files:
        print(file)
    there = folder.resolve()
    if there not in [Path(path).expanduser().resolve() for path in known]:
        print(f"export KMDR_PATH={quote(os.pathsep.join([*known, str(there)]))}")
    print(f"kmdr {KINDS[kind].command.format(name=name)}")
    print(f"python -m pytest {quote(str(next(file for file in files if file.parent.name == 'tests')))}")
