"""Where each dataset would come from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kmdr.datasets.acquire.find import file_names, find, raw_folder
from kmdr.datasets.dataset_options import checked_options, missing_files, paths_of
from kmdr.datasets.fingerprint import fingerprint_of, prepared_folder
from kmdr.datasets.registry import Entry, entry
from kmdr.datasets.verification import DamagedDataError, is_current


@dataclass(frozen=True)
class Availability:
    """Where a dataset would come from.

    Attributes
    ----------
    name, title, shape : str
        As in the registry; the shape in words.
    state : str
        ``"prepared"`` (ready to be mapped), ``"cached"`` (its files are in the cache), ``"local"`` (in a folder of
        ``KMDR_DATA``), ``"generated"``, ``"remote"`` (to be downloaded), or ``"manual"`` (the user must download it).
    where : str
        The folder, the files, the sources, or the files to supply.
    """

    name: str
    title: str
    shape: str
    state: str
    where: str

    @property
    def is_local(self) -> bool:
        """Return whether it is available without a network."""
        return self.state in ("prepared", "cached", "local", "generated")


def availability_of(name: str, brief: bool = False) -> Availability:
    """Return the place that a dataset with its default options would come from, without network access or writing.

    If `brief`, data that are generated or in the user's files are not looked for among the prepared ones, because their
    fingerprints need loaders, which take a second to import.
    """
    e = entry(name)
    settings = checked_options(e, {})
    missing = missing_files(e, settings)
    if missing or (e.needs_path and not paths_of(settings)):
        where = " and ".join(missing) or "a file named by dataset.path=…"
        return Availability(name, e.title, e.shape, "manual", where)
    if not (brief and (e.needs_path or not e.sources)) and _is_prepared(e, settings):
        state, where = "prepared", str(prepared_folder(e, settings))
    elif e.needs_path:
        state, where = "local", "; ".join(paths_of(settings))
    elif not e.sources:
        state, where = "generated", e.home or "generated"
    elif files := find(e):
        in_cache = all(f.path.is_relative_to(raw_folder(name)) for f in files)
        state, where = "cached" if in_cache else "local", "; ".join(f.where for f in files)
    elif all(any(s.kind != "local" for s in e.sources if s.part == part) for part in e.parts):
        state, where = "remote", "; ".join(str(s) for s in e.sources if s.kind != "local")
    else:
        state, where = "manual", " or ".join(file_names(e.sources))
    return Availability(name, e.title, e.shape, state, where)


def _is_prepared(e: Entry, settings: Mapping[str, Any]) -> bool:
    folder = prepared_folder(e, settings)
    try:
        return folder.exists() and is_current(folder, fingerprint_of(e, settings), "never")
    except DamagedDataError:
        return False
