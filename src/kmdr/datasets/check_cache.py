"""Check the whole cache: obtained files by SHA-256, prepared folders by their digests, and leftovers."""

from collections.abc import Collection, Iterator
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple

from kmdr import datasets
from kmdr.base.errors import UserError
from kmdr.base.files import is_temporary
from kmdr.base.paths import cache_folder
from kmdr.datasets.acquire.find import file_names, obtain, sha256_of
from kmdr.datasets.fingerprint import dataset_of, is_outdated
from kmdr.datasets.registry import entry
from kmdr.datasets.verification import DamagedDataError, forget, read_meta


class Finding(NamedTuple):
    """The state of a file or folder of the cache, and what was done, or why it could not be done.

    The state is ``"intact"``, ``"damaged"``, ``"repaired"``, ``"outdated"`` (prepared again at the next use),
    ``"unknown"`` (its hash is not known), ``"unfinished"`` (a download, resumed the next time) or ``"leftover"``
    (temporary, of a process that was killed or is still running).
    """

    path: Path
    state: str
    reason: str = ""


def check_cache(which: Collection[str], repair: bool = False, verify: str = "always") -> Iterator[Finding]:
    """Check the files of the named datasets in the cache; without names, the whole cache with its leftovers.

    With `repair`, damaged files are obtained and damaged folders prepared again. `verify` is how prepared folders are
    verified.
    """
    for path in sorted((cache_folder() / "raw").glob("*/*")):
        if not which or path.parent.name in which:
            yield _check_file(path, repair)
    for folder in sorted((cache_folder() / "prepared").glob("*")):
        if is_temporary(folder.name):
            if not which:
                yield Finding(folder, "leftover")
        elif not which or dataset_of(folder) in which:
            yield _check_folder(folder, repair, verify)


def _check_file(path: Path, repair: bool) -> Finding:
    name = path.parent.name
    known = file_names(entry(name).sources) if name in datasets.names() else {}
    if path.name not in known:
        state = "leftover" if is_temporary(path.name) else "unfinished" if path.suffix == ".part" else "unknown"
        return Finding(path, state)
    try:
        if sha256_of(path) == known[path.name]:
            return Finding(path, "intact")
        if repair:
            obtain(entry(name))  # from elsewhere, because a file with a wrong hash is not accepted
            if sha256_of(path) == known[path.name]:
                return Finding(path, "repaired")
            path.unlink()
            return Finding(path, "repaired", "removed; there is an intact copy elsewhere")
    except (UserError, OSError) as e:
        return Finding(path, "damaged", str(e))
    return Finding(path, "damaged")


def _check_folder(folder: Path, repair: bool, verify: str) -> Finding:
    options: dict[str, Any] | None = None
    try:
        options = read_meta(folder)["options"]
        if is_outdated(folder):
            return Finding(folder, "outdated")
        if verify == "always":
            forget(folder)
        datasets.open_prepared(folder, verify)
    except DamagedDataError as damage:
        return _repair(folder, options, damage) if repair else Finding(damage.path, "damaged")
    except (UserError, OSError, KeyError):
        return Finding(folder, "outdated")
    return Finding(folder, "intact")


def _repair(folder: Path, options: dict[str, Any] | None, damage: DamagedDataError) -> Finding:
    """Prepare a folder again, or remove it if its options are not known."""
    name = dataset_of(folder)
    try:
        if options is None and folder.name != name:
            rmtree(folder)
            return Finding(damage.path, "repaired", "removed; it is prepared again at the next use")
        datasets.prepare(name, options)
    except (UserError, OSError) as e:
        return Finding(damage.path, "damaged", str(e))
    return Finding(damage.path, "repaired")
