"""Whether prepared folders are intact: digests of their files, and the states in which they were verified.

``meta.json`` of a folder has a digest of each block of every other file, and a digest of itself. A folder is verified
once per boot of the machine: the state of its files (size, times, inode) is then remembered under ``verified`` in the
cache, and files in the same state are not read again. Only digests of states are remembered, so damage to the memory
itself can only cause another verification.
"""

import hashlib
import json
import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kmdr.base.errors import UserError, not_one_of
from kmdr.base.files import sweep_abandoned, write_atomically

VERIFY = ("always", "once", "never")
"""When prepared files are verified: by every process that opens them, once per boot of the machine, or not at all."""

_BLOCK_BYTES = 2**22
_REMEMBERED = 16
CLOCK_SECONDS = 2
"""Resolution of the coarsest clock of a file system. A file that changed more recently may change again unnoticed."""

# States that this process has verified.
_verified: set[str] = set()


class States(NamedTuple):
    """A digest of the states of several files, and when the newest of them was modified, in seconds."""

    digest: str
    newest: float


class DamagedDataError(UserError):
    """The content of a prepared file has changed since it was written; `path` is that file."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is damaged; run again to prepare it anew")
        self.path = path


def checked_verify(value: Any) -> str:
    """Return a value of `VERIFY`, or raise a UserError for any other value."""
    if value not in VERIFY:
        raise not_one_of("verify", value, VERIFY)
    return str(value)


def file_state(path: Path) -> tuple[int, ...]:
    """Return a file's size, modification time, inode and inode change time; empty if there is no such file.

    Unlike the modification time, the inode change time cannot be set back.
    """
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns


def read_meta(folder: Path) -> dict[str, Any]:
    """Return the content of ``meta.json`` of a prepared folder; raise a DamagedDataError if it is damaged."""
    path = folder / "meta.json"
    text = path.read_bytes()
    try:
        meta: dict[str, Any] = json.loads(text)
        # A folder of an earlier layout has no digest of itself; it is not current.
        intact = "seal" not in meta or (
            meta["seal"] == _meta_digest(meta) and text == json.dumps(meta, indent=1).encode()
        )
        intact &= isinstance(meta, dict)
    except (ValueError, TypeError, AttributeError, RecursionError) as e:
        raise DamagedDataError(path) from e
    if not intact:
        raise DamagedDataError(path)
    return meta


def is_current(folder: Path, fingerprint: str, verify: str) -> bool:
    """Return whether a folder holds data with this fingerprint; raise a DamagedDataError if they are damaged."""
    if not folder.exists():
        return False
    try:
        meta = read_meta(folder)
    except OSError as e:
        raise DamagedDataError(folder / "meta.json") from e
    if meta.get("registry") != fingerprint or not is_unchanged(meta):
        return False
    check(folder, meta, verify)
    return True


def is_unchanged(meta: Mapping[str, Any]) -> bool:
    """Return whether the user's file that is mapped in place, if any, has not changed."""
    mapped = meta.get("mapped")
    return not mapped or list(file_state(Path(mapped["path"]))) == mapped["stamp"]


def check(folder: Path, meta: Mapping[str, Any], verify: str) -> None:
    """Refuse files whose content has changed; with ``"never"``, only files whose size has changed."""
    if "seal" not in meta:
        raise DamagedDataError(folder / "meta.json")
    files = digested_files(folder, meta)
    for path, digested in files.items():
        if file_state(path)[:1] != (digested["bytes"],):
            raise DamagedDataError(path)
    if verify == "never":
        return
    state = states(folder, meta)
    if state.digest in _verified or (verify == "once" and state.digest in _remembered(folder)):
        return
    began = time.time()
    for path, digested in files.items():
        try:
            intact = digests(path) == digested["blocks"]
        except OSError as e:
            raise DamagedDataError(path) from e
        if not intact:
            forget(folder)
            raise DamagedDataError(path)
    remember(folder, state, began)


def digests(path: Path) -> list[str]:
    """Return a digest of each block of a file. Threads compute them in parallel."""
    from joblib import cpu_count  # here because it takes .2 s, and most folders were verified before

    with path.open("rb") as file:

        def digest(start: int) -> str:
            return _digest(os.pread(file.fileno(), _BLOCK_BYTES, start))

        with ThreadPoolExecutor(cpu_count()) as pool:
            return list(pool.map(digest, range(0, os.fstat(file.fileno()).st_size, _BLOCK_BYTES)))


def forget(folder: Path) -> None:
    """Forget that a folder was verified."""
    _verified.clear()
    with suppress(OSError):
        _memo(folder).unlink(missing_ok=True)


def _memo(folder: Path) -> Path:
    return folder.parent.parent / "verified" / folder.name


@cache
def _boot() -> str:
    """Return an identifier of this boot of the machine; empty if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def states(folder: Path, meta: Mapping[str, Any]) -> States:
    """Return a digest of the current states of a folder's files, and when the newest of them was modified."""
    states_now, newest = [], 0.0
    for path in digested_files(folder, meta):
        with suppress(OSError):
            status = path.stat()
            states_now.append([str(path), *file_state(path)])
            newest = max(newest, status.st_mtime)
    return States(_digest(json.dumps([_boot(), str(folder), meta["seal"], states_now]).encode()), newest)


def _remembered(folder: Path) -> list[str]:
    """Return the states in which the folder was verified, the last first; a shared cache has one per machine."""
    try:
        return _memo(folder).read_text("ascii").split() if _boot() else []
    except (OSError, ValueError):
        return []


def remember(folder: Path, state: States, began: float) -> None:
    """Remember that files in these states are intact, unless they may have been written to since the time `began`."""
    if state.newest >= began - CLOCK_SECONDS:
        return
    _verified.add(state.digest)
    if _boot():
        digests_now = list(dict.fromkeys([state.digest, *_remembered(folder)]))[:_REMEMBERED]
        with suppress(OSError, UserError):  # if the cache cannot be written, each process verifies for itself
            sweep_abandoned(_memo(folder).parent)
            write_atomically(_memo(folder), "\n".join(digests_now).encode(), private=True)


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def sealed(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of ``meta.json`` with a digest of itself."""
    return {**meta, "seal": _meta_digest(meta)}


def _meta_digest(meta: Mapping[str, Any]) -> str:
    """Return a digest of ``meta.json`` without the digest itself."""
    rest = {key: value for key, value in meta.items() if key != "seal"}
    return _digest(json.dumps(rest, sort_keys=True).encode())


def digested_files(folder: Path, meta: Mapping[str, Any]) -> dict[Path, Any]:
    """Return size and digests of each file except ``meta.json``, including a user's file that is mapped in place."""
    files = {folder / name: digested for name, digested in meta["files"].items()}
    return files | ({Path(meta["mapped"]["path"]): meta["mapped"]} if "mapped" in meta else {})
