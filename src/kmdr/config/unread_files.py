"""Configuration files of plugins that lie where kmdr reads none."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from kmdr.base.plugins import Root, paper_folders, plugin_roots
from kmdr.base.text import first_few, tell
from kmdr.config.studies import GROUPS

# Folders of a plugin's ``conf`` that are read.
_READ = ("grid", "kmeans", "reducer", "runner", "study")
_MOST = 5
_SUFFIXES = (".yaml", ".yml")


def unread_files() -> list[Path]:
    """Return the configuration files of plugins and their papers that nothing reads, by name."""
    roots = plugin_roots()
    folders = {root.folder / "conf" / group for root in roots for group in _READ}
    places = [root.folder / "conf" for root in roots]
    for paper in paper_folders():
        if any(root.folder in paper.folder.parents for root in roots):
            of_paper = [paper.folder / folder for folder, _ in GROUPS.values()]
            folders.update(of_paper)
            places += of_paper
    files = {file for place in places for file in _configurations(place)}
    return sorted(file for file in files if file.suffix != ".yaml" or file.parent not in folders)


def _configurations(folder: Path) -> Iterator[Path]:
    """Yield the YAML files of a folder and its subfolders, except hidden ones."""
    for file in folder.rglob("*"):
        is_hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
        if file.suffix in _SUFFIXES and not is_hidden and file.is_file():
            yield file


def tell_unread_files() -> None:
    """Name, once per process, the configuration files of plugins that nothing reads."""
    _tell(plugin_roots())


@cache
def _tell(places: tuple[Root, ...]) -> None:
    del places  # of other plugins there may be other files
    if files := unread_files():
        tell(
            f"kmdr: note: kmdr does not read {first_few(list(map(str, files)), _MOST)}; a plugin has configurations in "
            f"conf/GROUP/NAME.yaml, with the groups {', '.join(_READ)}, and datasets in datasets/registry.toml"
        )
