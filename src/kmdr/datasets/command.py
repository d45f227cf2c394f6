"""The command ``kmdr data``: show the state of datasets, get them, check them, and say where files belong."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from multiprocessing.pool import ThreadPool
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple

from tqdm import tqdm

from kmdr import datasets
from kmdr.base.errors import UserError
from kmdr.base.files import is_temporary, sweep_abandoned, write_atomically
from kmdr.base.paths import RESULTS, cache_folder
from kmdr.base.text import aligned, tell, unescaped
from kmdr.datasets.acquire.find import UnavailableError, file_names, find, obtain, raw_folder, sha256_of, user_folders
from kmdr.datasets.check_file import check_files, is_file
from kmdr.datasets.fingerprint import dataset_of, is_outdated
from kmdr.datasets.registry import Entry, entry
from kmdr.datasets.verification import DamagedDataError, checked_verify, forget, read_meta

_PARALLEL_DOWNLOADS = 4


def run(action: str, names: Sequence[str], *, repair: bool = False, verify: str | None = None) -> int:
    """Show, download, locate or check datasets, all by default; ``check`` also reports how files are read.

    Returns 1 if ``get`` met a file or a matrix that failed its check, or ``check`` one that is still damaged; else 0.
    """
    if action == "check" and any("=" in name or is_file(name) for name in names):
        return _check_files(names, ["--repair"] * repair + [f"--verify={verify}"] * (verify is not None))
    if action != "check" and (repair or verify is not None):
        raise UserError(f"--repair and --verify belong to 'kmdr data check'; remove them from 'kmdr data {action}'")
    for name in names:
        entry(name)  # raises an error for a misspelt name before any work
    names = list(dict.fromkeys(names))
    return _check(names, repair, verify) if action == "check" else _ACTIONS[action](names)


def _status(names: Sequence[str]) -> int:
    rows = [("dataset", "state", "on disk", "licence", "source")]
    for name in names or datasets.names():
        e = entry(name)
        available = datasets.availability_of(name)
        source = "; ".join(map(str, e.sources)) or (e.home or ("your own file" if e.needs_path else "generated"))
        rows.append((name, available.state, _size(_bytes_on_disk(e, available.state)), e.licence, source))
    for line in aligned(rows):
        print(line)
    return 0


def _get(names: Sequence[str]) -> int:
    fetched = []
    for dataset in fetch_all(names or None):
        with tqdm.external_write_mode(unescaped(sys.stderr)):  # above the progress bars of the other downloads
            print(dataset.line)
        fetched.append(dataset)
    _keep_errors({dataset.name: list(dataset.tried) for dataset in fetched})
    return int(not all(dataset.ok for dataset in fetched))


def _show_places(names: Sequence[str]) -> int:
    folders = [f"{folder}{'' if folder.is_dir() else ' (no folder)'}" for folder in user_folders()]
    print(f"cache: {cache_folder()}")
    print(f"KMDR_DATA: {', '.join(folders) or 'not set'}")
    remembered = _read_errors()
    print(f"results: {Path(RESULTS).resolve()}, unless a command names another folder")
    for name in names or datasets.names():
        e = entry(name)
        available = datasets.availability_of(name)
        print(f"{name}: {available.state}{f', {available.where}' if available.is_local else ''}")
        if available.is_local:
            continue
        if e.needs_path:
            print(f"  manual: {_path_instruction(e)}")
        for part in e.parts:
            sources = [source for source in e.sources if source.part == part]
            for source in sources:
                if source.kind != "local":
                    print(f"  source: {source}")
            files = " or ".join(f"{file} (SHA-256 {digest})" for file, digest in file_names(sources).items())
            print(f"  manual: put {files} into {raw_folder(name)} or a folder that KMDR_DATA names")
        for error in remembered.get(name, []):
            print(f"  last tried: {error}")
    return 0


def _check(names: Sequence[str], repair: bool, verify: str | None) -> int:
    verify = "always" if verify is None else checked_verify(verify)
    if repair and not names:
        for folder in ("prepared", "raw"):
            sweep_abandoned(cache_folder() / folder)
    counts: Counter[str] = Counter()
    for finding in _check_cache(names, repair, verify):
        counts[finding.state] += 1
        if finding.state != "intact":
            print(f"{finding.path}: {'; '.join(filter(None, (finding.state, finding.reason)))}")
    print(", ".join(f"{count} {state}" for state, count in sorted(counts.items())) or "the cache is empty")
    if counts["damaged"] and not repair:
        tell("kmdr: note: 'kmdr data check --repair' gets or prepares again what is damaged")
    return int(counts["damaged"] > 0)


def _check_files(words: Sequence[str], options: Sequence[str]) -> int:
    """Check custom files. A word that names a dataset is that dataset; ``./NAME`` is a file."""
    files = [word for word in words if "=" not in word or Path(word).exists()]
    names = [word for word in files if not is_file(word)]
    if names or options or not files:
        odd = [*names, *options]
        raise UserError(
            f"'kmdr data check' takes either files and their settings, or names of datasets, but was given "
            f"{odd[0] if odd else 'settings only'!r} among them; check one after the other"
        )
    return check_files(files, [word for word in words if word not in files])


def _path_instruction(e: Entry) -> str:
    given = e.options["path"]
    files = [given] if isinstance(given, str) and given else list(given)
    named = f"name your file with dataset={e.name} dataset.path=FILE"
    if "sha256" in e.options:
        named += " dataset.sha256=ITS_SHA256"
    if files:
        named = f"put {' and '.join(files)} into {raw_folder(e.name)} or a folder that KMDR_DATA names, or {named}"
    return f"{named}; download it from {e.home}" if e.home else named


_ACTIONS: dict[str, Callable[[Sequence[str]], int]] = {
    "status": _status,
    "get": _get,
    "where": _show_places,
}


def _bytes_on_disk(e: Entry, state: str) -> int:
    prepared = cache_folder() / "prepared"
    folders = [raw_folder(e.name), *prepared.glob(f"{e.name}-*"), prepared / e.name]
    kept = sum(path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file())
    files = find(e) if state == "local" else None
    return kept + sum(f.path.stat().st_size for f in files or ())


def _size(count: int) -> str:
    return tqdm.format_sizeof(count, "B", 1024) if count else "-"


# The errors of `get` are kept for a later `where`.


def _errors_file() -> Path:
    return cache_folder() / "last_errors.json"


def _read_errors() -> dict[str, list[str]]:
    try:
        read = json.loads(_errors_file().read_text("utf-8"))
        return {str(name): list(map(str, errors)) for name, errors in read.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _keep_errors(new: dict[str, list[str]]) -> None:
    before = _read_errors()
    now = {name: errors for name, errors in (before | new).items() if errors}
    if now != before:
        write_atomically(_errors_file(), json.dumps(now, indent=1).encode(), private=True)


# -- getting all datasets ----------------------------------------------------------------------------------------------


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
    wanted = list(dict.fromkeys([name for name in datasets.names() if name != "file"] if which is None else which))
    # Unlike the threads of an executor, these do not keep the process alive.
    with ThreadPool(_PARALLEL_DOWNLOADS) as pool:
        fetched = {name: pool.apply_async(_fetch, (name,)) for name in wanted}
        for name in wanted:
            try:
                fetched[name].get()
                dataset = datasets.load(name)
            except UnavailableError as e:
                yield Fetched(name, f"{name}: missing: {e}", not e.failed_check, e.tried)
            except (UserError, OSError) as e:
                yield Fetched(name, f"{name}: failed: {e}", False)
            else:
                n, d = dataset.A.shape
                yield Fetched(name, f"{name}: ready, {n} x {d}, from {dataset.source}", True)


def _fetch(name: str) -> None:
    if datasets.availability_of(name).state == "remote":
        obtain(entry(name))


# -- checking the cache ------------------------------------------------------------------------------------------------


class _Finding(NamedTuple):
    """The state of a file or folder of the cache, and what was done, or why it could not be done.

    The state is ``"intact"``, ``"damaged"``, ``"repaired"``, ``"outdated"`` (prepared again at the next use),
    ``"unknown"`` (its hash is not known), ``"unfinished"`` (a download, resumed the next time) or ``"leftover"``
    (temporary, of a process that was killed or is still running).
    """

    path: Path
    state: str
    reason: str = ""


def _check_cache(which: Collection[str], repair: bool = False, verify: str = "always") -> Iterator[_Finding]:
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
                yield _Finding(folder, "leftover")
        elif not which or dataset_of(folder) in which:
            yield _check_folder(folder, repair, verify)


def _check_file(path: Path, repair: bool) -> _Finding:
    name = path.parent.name
    known = file_names(entry(name).sources) if name in datasets.names() else {}
    if path.name not in known:
        state = "leftover" if is_temporary(path.name) else "unfinished" if path.suffix == ".part" else "unknown"
        return _Finding(path, state)
    try:
        if sha256_of(path) == known[path.name]:
            return _Finding(path, "intact")
        if repair:
            obtain(entry(name))  # from elsewhere, because a file with a wrong hash is not accepted
            if sha256_of(path) == known[path.name]:
                return _Finding(path, "repaired")
            path.unlink()
            return _Finding(path, "repaired", "removed; there is an intact copy elsewhere")
    except (UserError, OSError) as e:
        return _Finding(path, "damaged", str(e))
    return _Finding(path, "damaged")


def _check_folder(folder: Path, repair: bool, verify: str) -> _Finding:
    options: dict[str, Any] | None = None
    try:
        options = read_meta(folder)["options"]
        if is_outdated(folder):
            return _Finding(folder, "outdated")
        if verify == "always":
            forget(folder)
        datasets.open_prepared(folder, verify)
    except DamagedDataError as damage:
        return _repair(folder, options, damage) if repair else _Finding(damage.path, "damaged")
    except (UserError, OSError, KeyError):
        return _Finding(folder, "outdated")
    return _Finding(folder, "intact")


def _repair(folder: Path, options: dict[str, Any] | None, damage: DamagedDataError) -> _Finding:
    """Prepare a folder again, or remove it if its options are not known."""
    name = dataset_of(folder)
    try:
        if options is None and folder.name != name:
            rmtree(folder)
            return _Finding(damage.path, "repaired", "removed; it is prepared again at the next use")
        datasets.prepare(name, options)
    except (UserError, OSError) as e:
        return _Finding(damage.path, "damaged", str(e))
    return _Finding(damage.path, "repaired")
