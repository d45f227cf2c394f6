"""Checking the whole cache: files as obtained by their SHA-256, prepared folders by their digests, and leftovers."""

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple

from kmdr import datasets
from kmdr.base.errors import UserError
from kmdr.base.paths import cache_folder
from kmdr.datasets import DamagedError, fingerprint, prepared
from kmdr.datasets.acquire.find import TEMPORARY, file_names, obtain, sha256_of
from kmdr.datasets.registry import entry


class Finding(NamedTuple):
    """What is to say of a file or folder of the cache.

    Attributes
    ----------
    path : Path
    state : str
        ``"intact"``, ``"damaged"``, ``"repaired"``, ``"outdated"`` (prepared again when it is asked for),
        ``"unknown"`` (no hash of it is known), ``"unfinished"`` (a download, gone on with the next time) or
        ``"leftover"`` (of a process that was killed, or another's at work).
    why : str
        What was done, or why nothing could be.
    """

    path: Path
    state: str
    why: str = ""


def check_cache(which: Collection[str], repair: bool = False, verify: str = "always") -> Iterator[Finding]:
    """Check the files of some datasets in the cache.

    Parameters
    ----------
    which : collection of str
        Names of datasets; all of the cache, with what killed processes left, where it is empty.
    repair : bool
        Whether to get damaged files and prepare damaged folders again.
    verify : {"always", "once", "never"}
        How prepared folders are verified.

    Yields
    ------
    Finding
    """
    for path in sorted((cache_folder() / "raw").glob("*/*")):
        if not which or path.parent.name in which:
            yield _raw(path, repair)
    for folder in sorted((cache_folder() / "prepared").glob("*")):
        name = re.sub(r"-[0-9a-f]{12}$", "", folder.name)
        if folder.name.startswith(TEMPORARY):
            if not which:
                yield Finding(folder, "leftover")
        elif not which or name in which:
            yield _folder(folder, name, repair, verify)


def _raw(path: Path, repair: bool) -> Finding:
    name = path.parent.name
    known = file_names(entry(name).sources) if name in datasets.names() else {}
    if path.name not in known:
        left = path.name.startswith(TEMPORARY)
        return Finding(path, "leftover" if left else "unfinished" if path.suffix == ".part" else "unknown")
    try:
        if sha256_of(path) == known[path.name]:
            return Finding(path, "intact")
        if repair:
            obtain(entry(name))  # from elsewhere: what has the wrong hash is no source
            if sha256_of(path) == known[path.name]:
                return Finding(path, "repaired")
            path.unlink()
            return Finding(path, "repaired", "removed; there is an intact one elsewhere")
    except (UserError, OSError) as e:
        return Finding(path, "damaged", str(e))
    return Finding(path, "damaged")


def _folder(folder: Path, name: str, repair: bool, verify: str) -> Finding:
    options: dict[str, Any] | None = None
    try:
        meta = prepared.read_meta(folder)
        options = meta["options"]
        if name not in datasets.names() or fingerprint(name, meta["options"]) != meta["registry"]:
            return Finding(folder, "outdated")
        if verify == "always":
            prepared.forget(folder)
        datasets.open_prepared(folder, verify)
    except DamagedError as damage:
        return _mended(folder, name, options, damage) if repair else Finding(damage.path, "damaged")
    except (UserError, OSError, KeyError):
        return Finding(folder, "outdated")
    return Finding(folder, "intact")


def _mended(folder: Path, name: str, options: dict[str, Any] | None, damage: DamagedError) -> Finding:
    """Prepare a folder again; one of which it cannot be told with what options is removed."""
    try:
        if options is None and folder.name != name:
            rmtree(folder)
            return Finding(damage.path, "repaired", "removed; it is prepared again when it is asked for")
        datasets.prepare(name, options)
    except (UserError, OSError) as e:
        return Finding(damage.path, "damaged", str(e))
    return Finding(damage.path, "repaired")
