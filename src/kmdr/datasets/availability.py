"""Where each dataset would come from, and getting all of them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import NamedTuple

from kmdr.base.errors import UserError
from kmdr.datasets import prepared
from kmdr.datasets.acquire.find import UnavailableError, file_names, find, obtain, raw_folder
from kmdr.datasets.dataset_options import checked_options, missing_files, paths_of
from kmdr.datasets.fingerprint import prepared_folder
from kmdr.datasets.prepare import load
from kmdr.datasets.prepared import DamagedDataError
from kmdr.datasets.registry import entry, names

_PARALLEL_DOWNLOADS = 4


@dataclass(frozen=True)
class Availability:
    """Where a dataset would come from.

    Attributes
    ----------
    name, title, shape : str
        As in the registry; the shape in words.
    state : str
        ``"prepared"`` (ready to be mapped), ``"cached"`` (its files are in the cache), ``"local"`` (in a folder of
        ``KMDR_DATA``), ``"generated"``, ``"remote"`` (to be downloaded), or ``"by hand"`` (the user must supply it).
    where : str
        The folder, the files, the sources, or the files to supply.
    """

    name: str
    title: str
    shape: str
    state: str
    where: str


def availability(name: str) -> Availability:
    """Return where a dataset, with its default options, would come from; without network access and without writing."""
    e = entry(name)
    settings = checked_options(e, {})
    missing = missing_files(e, settings)
    if missing or (e.needs_path and not paths_of(settings)):
        where = " and ".join(missing) or "a file named by dataset.path=…"
        return Availability(name, e.title, e.shape, "by hand", where)
    folder, fingerprint = prepared_folder(e, settings)
    if _seems_current(folder, fingerprint):
        state, where = "prepared", str(folder)
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
        state, where = "by hand", " or ".join(file_names(e.sources))
    return Availability(name, e.title, e.shape, state, where)


def _seems_current(folder: Path, fingerprint: str) -> bool:
    try:
        return prepared.is_current(folder, fingerprint, "never")
    except DamagedDataError:
        return False


class Fetched(NamedTuple):
    """The result of fetching a dataset.

    `line` says that it is ready and its source, or why it is missing. `ok` is False if a file or a matrix failed its
    check; True if the dataset is ready or merely not reachable. `tried` is that of an `UnavailableError`.
    """

    name: str
    line: str
    ok: bool
    tried: tuple[str, ...] = ()


def fetch_all(which: Iterable[str] | None = None) -> Iterator[Fetched]:
    """Prepare datasets, by default all except ``file``; one that is not available does not stop the others.

    Files are downloaded in parallel. Matrices are loaded one after the other, so that only one is in memory at a time.
    """
    wanted = list(dict.fromkeys([name for name in names() if name != "file"] if which is None else which))
    # Unlike the threads of an executor, these do not keep the process alive.
    with ThreadPool(_PARALLEL_DOWNLOADS) as pool:
        fetched = {name: pool.apply_async(_fetch, (name,)) for name in wanted}
        for name in wanted:
            try:
                fetched[name].get()
                dataset = load(name)
            except UnavailableError as e:
                yield Fetched(name, f"{name}: missing: {e}", not e.failed_check, e.tried)
            except (UserError, OSError) as e:
                yield Fetched(name, f"{name}: failed: {e}", False)
            else:
                n, d = dataset.A.shape
                yield Fetched(name, f"{name}: ready, {n} x {d}, from {dataset.source}", True)


def _fetch(name: str) -> None:
    if availability(name).state == "remote":
        obtain(entry(name))
