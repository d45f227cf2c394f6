"""Prepared folders: a dataset as files that every process maps, with the proof that they are as they were written.

``meta.json`` says what the dataset is, gives a digest of each block of every other file, and is sealed by a digest of
itself. A folder is verified once a boot of the machine: what the files looked like then (size, times, inode) is
remembered under ``verified`` in the cache, and a file that still looks so is not read again. The memo holds digests
only, so that one that is damaged remembers nothing.
"""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import joblib
import numpy as np
from numpy.typing import NDArray

from kmdr.base.errors import UserError
from kmdr.base.files import sweep_abandoned, write_atomically
from kmdr.datasets import valid
from kmdr.datasets.acquire.find import TEMPORARY, temporary
from kmdr.datasets.streamed import Streamed

VERIFY = ("always", "once", "never")
"""When prepared files are verified: by every process that opens them, once a boot of the machine, or not at all."""

_BLOCK_BYTES = 2**22
_REMEMBERED = 16
# The coarsest clock of a file system. What changed less long ago may change again and look the same.
_CLOCK_SECONDS = 2

# What this process has verified.
_verified: set[str] = set()


class DamagedError(UserError):
    """A prepared file is not what was written.

    Attributes
    ----------
    path : Path
        The file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is damaged; run again, which prepares it anew")
        self.path = path


def checked_verify(value: Any) -> str:
    """Return ``value`` where it is one of `VERIFY`; else a UserError is raised."""
    if value not in VERIFY:
        raise UserError(f"verify = {value!r} is not one of {', '.join(VERIFY)}; choose one of them")
    return str(value)


def stamp(path: Path) -> tuple[int, ...]:
    """Return size, times of change and inode of a file; empty where there is none.

    The second time, that of the inode, cannot be set back as the first can.
    """
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns


def read_meta(folder: Path) -> dict[str, Any]:
    """Return what ``meta.json`` of a prepared folder says.

    Raises
    ------
    DamagedError
        It is not what was written.
    OSError
        There is none that can be read.
    """
    path = folder / "meta.json"
    text = path.read_bytes()
    try:
        meta: dict[str, Any] = json.loads(text)
        # A folder of an earlier layout has no seal, and what it holds is not current.
        intact = "seal" not in meta or (meta["seal"] == _seal(meta) and text == json.dumps(meta, indent=1).encode())
        intact &= isinstance(meta, dict)
    except (ValueError, TypeError, AttributeError, RecursionError) as e:
        raise DamagedError(path) from e
    if not intact:
        raise DamagedError(path)
    return meta


def is_current(folder: Path, fingerprint: str, verify: str) -> bool:
    """Whether a folder holds what has this fingerprint.

    Raises
    ------
    DamagedError
        It does, but for a file that is damaged.
    """
    if not folder.exists():
        return False
    try:
        meta = read_meta(folder)
    except OSError as e:
        raise DamagedError(folder / "meta.json") from e
    mapped = meta.get("mapped")
    if meta.get("registry") != fingerprint or (mapped and list(stamp(Path(mapped["path"]))) != mapped["stamp"]):
        return False
    check(folder, meta, verify)
    return True


def check(folder: Path, meta: Mapping[str, Any], verify: str) -> None:
    """Refuse files that are not what was written; with ``"never"``, only those of another size.

    Raises
    ------
    DamagedError
    """
    if "seal" not in meta:
        raise DamagedError(folder / "meta.json")
    files = _files(folder, meta)
    for path, of_file in files.items():
        if stamp(path)[:1] != (of_file["bytes"],):
            raise DamagedError(path)
    if verify == "never":
        return
    state, newest = _state(folder, meta["seal"], files)
    if state in _verified or (verify == "once" and state in _remembered(folder)):
        return
    began = time.time()
    for path, of_file in files.items():
        try:
            intact = digests(path) == of_file["blocks"]
        except OSError as e:
            raise DamagedError(path) from e
        if not intact:
            forget(folder)
            raise DamagedError(path)
    if newest < began - _CLOCK_SECONDS:
        _remember(folder, state)


def digests(path: Path) -> list[str]:
    """Digest of each block of a file. They are taken side by side: hashing and reading let other threads run."""
    with path.open("rb") as file:

        def digest(start: int) -> str:
            return _digest(os.pread(file.fileno(), _BLOCK_BYTES, start))

        with ThreadPoolExecutor(joblib.cpu_count()) as pool:
            return list(pool.map(digest, range(0, os.fstat(file.fileno()).st_size, _BLOCK_BYTES)))


def arrays(folder: Path, meta: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Map the arrays of a folder read-only, by the names of their files."""
    in_place = {"A.npy": Path(meta["mapped"]["path"])} if "mapped" in meta else {}
    paths = {name: folder / name for name in meta["files"] if name.endswith(".npy")} | in_place
    return {name: mapped(path) for name, path in paths.items()}


def stamps(folder: Path, meta: Mapping[str, Any]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Path and `stamp` of each file that `arrays` maps."""
    return tuple((str(path), stamp(path)) for path in _files(folder, meta) if path.suffix == ".npy")


def lay(path: Path, A: Streamed) -> NDArray[Any]:
    """Write a matrix to a ``.npy`` file block by block, and map it.

    Parameters
    ----------
    path : Path
        To be handed to `write`, which moves it.
    A : Streamed

    Raises
    ------
    UserError
        There is no room for it.
    """
    dtype = valid.kept_type(A)
    needed, free = A.size * dtype.itemsize, shutil.disk_usage(path.parent).free
    if needed > free:
        raise UserError(
            f"a matrix of {len(A)} x {A.shape[1]} takes {needed / 1e9:.3g} GB and {path.parent.parent} has room for "
            f"{free / 1e9:.3g}; let KMDR_CACHE name a folder with more"
        )
    with path.open("wb") as file:
        _save(file, A, dtype)
        _flush(file)
    return np.load(path, mmap_mode="r")  # type: ignore[no-any-return]


def write(
    folder: Path,
    fingerprint: str,
    parts: Mapping[str, NDArray[Any] | Path],
    meta: Mapping[str, Any],
    feature_names: tuple[str, ...] | None,
) -> None:
    """Write a prepared folder under another name, then rename it: it is there in full or not at all.

    Parameters
    ----------
    folder : Path
    fingerprint : str
        What `is_current` is to find.
    parts : mapping of str to ndarray or Path
        Arrays by the name of their file; a file of one is moved.
    meta : mapping
        What ``meta.json`` is to say of the dataset; of a file that stays where it lies, its path and `stamp`.
    feature_names : tuple of str or None
    """
    with temporary(folder.parent) as aside:
        for name, array in parts.items():
            if isinstance(array, Path):
                array.rename(aside / name)
                continue
            with (aside / name).open("wb") as file:
                _save(file, array, valid.kept_type(array) if name == "A.npy" else array.dtype)
                _flush(file)
        if feature_names is not None:
            with (aside / meta["feature_names"]).open("wb") as file:
                file.write(json.dumps(feature_names, ensure_ascii=False).encode())
                _flush(file)
        # Dated back, so that whatever is written to a file from now on shows, however coarse the clock.
        began = time.time()
        for path in aside.iterdir():
            path.chmod(0o600)
            os.utime(path, (began - 2 * _CLOCK_SECONDS,) * 2)
        files = {path.name: {"bytes": path.stat().st_size, "blocks": digests(path)} for path in sorted(aside.iterdir())}
        whole = {**meta, "registry": fingerprint, "files": files}
        if "mapped" in meta:
            path = Path(meta["mapped"]["path"])
            whole["mapped"] = {**meta["mapped"], "bytes": meta["mapped"]["stamp"][0], "blocks": digests(path)}
        seal = _seal(whole)
        with (aside / "meta.json").open("w", encoding="utf-8") as text:
            json.dump({**whole, "seal": seal}, text, indent=1)
            _flush(text)
        (aside / "meta.json").chmod(0o600)
        _put(aside, folder, fingerprint)
    # What lies there, unless it was written to since, has these digests, so that nobody needs to read it again.
    state, newest = _state(folder, seal, _files(folder, whole))
    if newest < began - _CLOCK_SECONDS:
        _remember(folder, state)


def forget(folder: Path) -> None:
    """Forget that a folder was verified."""
    _verified.clear()
    with suppress(OSError):
        _memo(folder).unlink(missing_ok=True)


# --- what is remembered ---------------------------------------------------------------------------------------------


def _memo(folder: Path) -> Path:
    return folder.parent.parent / "verified" / folder.name


@cache
def _boot() -> str:
    """Return what tells one boot of the machine from another; empty where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def _state(folder: Path, seal: str, files: Mapping[Path, Any]) -> tuple[str, float]:
    """Digest of what the files look like now, and the time at which the newest of them changed."""
    looks, newest = [], 0.0
    for path in files:
        with suppress(OSError):
            status = path.stat()
            looks.append([str(path), *stamp(path)])
            newest = max(newest, status.st_mtime)
    return _digest(json.dumps([_boot(), str(folder), seal, looks]).encode()), newest


def _remembered(folder: Path) -> list[str]:
    """States in which the folder was verified, the last first; a shared cache has one of each machine."""
    try:
        return _memo(folder).read_text("ascii").split() if _boot() else []
    except (OSError, ValueError):
        return []


def _remember(folder: Path, state: str) -> None:
    _verified.add(state)
    if _boot():
        states = list(dict.fromkeys([state, *_remembered(folder)]))[:_REMEMBERED]
        with suppress(OSError, UserError):  # where the cache cannot be written, each process verifies for itself
            sweep_abandoned(_memo(folder).parent)
            write_atomically(_memo(folder), "\n".join(states).encode(), private=True)


# --- files ----------------------------------------------------------------------------------------------------------


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _seal(meta: Mapping[str, Any]) -> str:
    """Digest of all that ``meta.json`` says beside it."""
    rest = {key: value for key, value in meta.items() if key != "seal"}
    return _digest(json.dumps(rest, sort_keys=True).encode())


def _files(folder: Path, meta: Mapping[str, Any]) -> dict[Path, Any]:
    """Return what is known of each file but ``meta.json``, the user's own that is mapped where it lies included."""
    files = {folder / name: of_file for name, of_file in meta["files"].items()}
    return files | ({Path(meta["mapped"]["path"]): meta["mapped"]} if "mapped" in meta else {})


def _flush(file: IO[Any]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _flush_folder(folder: Path) -> None:
    """Have the names in a folder outlive a loss of power, where its file system can do that."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def _save(file: IO[bytes], array: NDArray[Any] | Streamed, dtype: np.dtype[Any]) -> None:
    """Write a ``.npy`` file block by block."""
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": array.shape}
    np.lib.format.write_array_header_1_0(file, header)
    for _, block in valid.blocks(array, dtype):
        file.write(block.data.cast("B"))


def _put(aside: Path, folder: Path, fingerprint: str) -> None:
    _flush_folder(aside)
    for _ in range(100):
        try:
            aside.rename(folder)
        except OSError:
            with suppress(DamagedError):
                if is_current(folder, fingerprint, "once"):
                    return  # another process was first, with the same content
            if not folder.exists():
                continue
            # An outdated folder cannot be replaced in one step. A process that has it mapped keeps its pages.
            outdated = folder.parent / f"{TEMPORARY}{uuid4().hex}"
            with suppress(OSError):
                folder.rename(outdated)
            shutil.rmtree(outdated, ignore_errors=True)
        else:
            _flush_folder(folder.parent)
            return
    raise UserError(f"cannot write {folder}; remove it and try again")


def mapped(path: Path) -> NDArray[Any]:
    """Map a ``.npy`` file read-only."""
    # An array of no bytes cannot be mapped.
    empty = 0 in np.load(path, allow_pickle=False).shape if path.stat().st_size < 256 else False
    array = np.load(path, mmap_mode=None if empty else "r", allow_pickle=False)
    return np.asarray(array)  # without the subclass, which some compiled code refuses
