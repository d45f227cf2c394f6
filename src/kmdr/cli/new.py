"""``kmdr new``: a working skeleton of a plugin, with its test.

The skeletons lie in ``skeletons/KIND`` with the layout of a plugin folder. They run as they are; only names change.
"""

import keyword
import os
import re
from collections.abc import Callable, Collection
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from kmdr import datasets, metrics, reducers
from kmdr.base.errors import UserError, shown
from kmdr.base.files import write_atomically
from kmdr.base.plugins import paper_folders
from kmdr.clustering import engines

_SKELETONS = Path(__file__).with_name("skeletons")
_FOLDER = "plugin"


class _Kind(NamedTuple):
    placeholder: str  # the name in the skeleton's files and file names
    existing: Callable[[], Collection[str]]  # names that cannot be used again
    tried: str  # what the next command does
    command: str  # arguments of kmdr that try the skeleton


KINDS = {
    "reducer": _Kind(
        "my_reducer",
        lambda: [*reducers.names(), "outside"],
        "Run it next to k-means on all features",
        "-m dataset=digits reducer=none,{name} 'r_grid=[5,20]' repeats=2 out=results/{name}",
    ),
    "dataset": _Kind(
        "my_dataset",
        datasets.names,
        "Run two methods on it",
        "-m dataset={name} reducer=none,random_sign 'r_grid=[2,5]' repeats=2 out=results/{name}",
    ),
    "metric": _Kind(
        "my_metric",
        metrics.metrics,
        "Run two methods and score them by it, too",
        "-m dataset=digits reducer=none,random_sign 'r_grid=[5,20]' repeats=2 out=results/{name}",
    ),
    "engine": _Kind(
        "my_engine",
        engines.names,
        "Run it next to kmdr's k-means",
        "-m dataset=digits reducer=none kmeans.engine=kmdr,{name} repeats=2 out=results/{name}",
    ),
    "paper": _Kind(
        "mypaper",
        lambda: [paper.name for paper in paper_folders()],
        "Run its study and write the report",
        "reproduce {name} --out results/{name}",
    ),
}


def _check_name(kind: str, name: str) -> None:
    letters = "letters and digits" if kind == "paper" else "letters, digits and _"
    article = "an" if kind == "engine" else "a"
    if (
        not re.fullmatch(r"[A-Za-z]\w{0,60}", name, re.ASCII)
        or keyword.iskeyword(name)
        or (kind == "paper" and "_" in name)
    ):
        raise UserError(
            f"{shown(name)} cannot name {article} {kind}; give {letters}, beginning with a letter, and no keyword of "
            "Python"
        )
    if name in KINDS[kind].existing():
        raise UserError(f"{name!r} names {article} {kind} already, as 'kmdr list {kind}s' shows; give another name")


def write(kind: str, name: str, folder: Path) -> list[Path]:
    """Write the skeleton of a reducer, dataset, metric, engine or paper into a folder, and return its files.

    None is written if the name is not available, or one of the files exists already.
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
            raise UserError(f"{target} exists already, and nothing is overwritten; give another name or folder")
    for target, text in files.items():
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(target, text.encode())
        except OSError as error:
            raise UserError(f"{target} cannot be written ({error.strerror}); name another folder") from error
    return list(files)


def run(kind: str, name: str, folder: Path | None) -> None:
    """Write a skeleton, by default into the first folder that ``KMDR_PATH`` names, and print what to do next."""
    named = [path for path in os.environ.get("KMDR_PATH", "").split(os.pathsep) if path]
    folder = folder or Path(next(iter(named), _FOLDER)).expanduser()
    files = write(kind, name, folder)
    print(f"The {kind} and its test:", *(f"  {file}" for file in files), sep="\n")
    place = folder.resolve()
    if place not in [Path(path).expanduser().resolve() for path in named]:
        print("\nLet kmdr find it, in this shell:")
        print(f"  export KMDR_PATH={quote(os.pathsep.join([*named, str(place)]))}")
    print(f"\n{KINDS[kind].tried}:\n  kmdr {KINDS[kind].command.format(name=name)}")
    test = next(file for file in files if file.parent.name == "tests")
    print(f"\nTest it:\n  python -m pytest {quote(str(test))}")
