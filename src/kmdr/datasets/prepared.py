"""Prepared folders: a dataset as files that every process maps, with digests that show whether they are intact.

``meta.json`` describes the dataset, has a digest of each block of every other file, and a digest of itself. A folder is
verified once per boot of the machine: the state of its files (size, times, inode) is then remembered under ``verified``
in the cache, and files in the same state are not read again. Only digests of states are remembered, so damage to the
memory itself can only cause another verification.
"""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import IO, Any

import joblib
import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from kmdr.base.errors import UserError
from kmdr.base.files import flush, sweep_abandoned, sync_folder, temporary_folder, write_atomically
from kmdr.base.paths import cache_folder
from kmdr.datasets import validation
from kmdr.datasets.dataset import Dataset
from kmdr.datasets.formats.arrays import map_npy
from kmdr.datasets.references import ReferencedDataset
from kmdr.datasets.streamed import Streamed

VERIFY = ("always", "once", "never")
"""When prepared files are verified: by every process that opens them, once per boot of the machine, or not at all."""
CSR_PARTS = ("data", "indices", "indptr")

_BLOCK_BYTES = 2**22
_REMEMBERED = 16
# Resolution of the coarsest clock of a file system. A file that changed more recently may change again unnoticed.
_CLOCK_SECONDS = 2

# States that this process has verified.
_verified: set[str] = set()


class DamagedDataError(UserError):
    """The content of a prepared file has changed since it was written; `path` is that file."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is damaged; run again to prepare it anew")
        self.path = path


def checked_verify(value: Any) -> str:
    """Return a value of `VERIFY`, or raise a UserError for any other value."""
    if value not in VERIFY:
        raise UserError(f"verify = {value!r} is not one of {', '.join(VERIFY)}; choose one of them")
    return str(value)


def file_state(path: Path) -> tuple[int, ...]:
    """Return size, time of modification, inode and time of its change; empty if there is no such file.

    Unlike the time of modification, the time of the inode cannot be set back.
    """
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns


# --- opening --------------------------------------------------------------------------------------------------------


def open_prepared(folder: Path, verify: str = "once") -> Dataset:
    """Map the dataset of a folder that `kmdr.datasets.prepare` returned.

    A is mapped read-only, so that processes share one copy in memory. With `verify` ``"never"``, the structure of a
    sparse matrix is checked instead, because compiled code relies on it.

    Raises
    ------
    UserError
        The folder does not hold a prepared dataset, one of its files is damaged (`DamagedDataError`), or a user's file
        that it refers to has changed.
    """
    try:
        meta = read_meta(folder)
        if not _is_unchanged(meta):
            path = meta["mapped"]["path"]
            raise UserError(f"{path} has changed since it was prepared; run again to prepare it anew")
        states = tuple((str(path), file_state(path)) for path in _files(folder, meta) if path.suffix == ".npy")
        check(folder, meta, verify)
        parts = arrays(folder, meta)
        listed = meta.get("feature_names")
        feature_names = tuple(json.loads((folder / listed).read_text("utf-8"))) if listed else None
    except (OSError, ValueError, KeyError) as e:
        raise UserError(f"{folder} does not hold a prepared dataset ({e}); prepare it again") from e
    A = matrix(parts, meta)
    if scipy.sparse.issparse(A):
        if verify == "never" and not validation.is_canonical(A):
            raise DamagedDataError(folder)
        # It was written in this form; to find that out, scipy would read all of it.
        A.has_canonical_format = True
    references = parts.get("references.npy")
    make = Dataset if references is None else partial(ReferencedDataset, references=references)
    return make(
        name=meta["name"],
        A=A,
        labels=parts.get("labels.npy"),
        k=meta["k"],
        data_sha256=meta["data_sha256"],
        stand_in=meta["stand_in"],
        source=meta["source"],
        feature_names=feature_names,
        stamps=states,
    )


def matrix(parts: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> Any:
    """Return the matrix of a prepared folder, given its arrays by file name; it shares their memory."""
    if "A.npy" in parts:
        return parts["A.npy"]
    csr = tuple(parts[f"{part}.npy"] for part in CSR_PARTS)
    return scipy.sparse.csr_array(csr, shape=(meta["n"], meta["d"]), copy=False)


def prepared_by_content() -> dict[str, Path]:
    """Return the prepared folders of the cache by the `content_sha256` of their data."""
    folders = {}
    for folder in sorted((cache_folder() / "prepared").glob("[!.]*")):
        with suppress(OSError, UserError):
            folders[str(read_meta(folder).get("data_sha256", ""))] = folder
    return folders


def changed(data: Dataset) -> str:
    """Return a sentence about a mapped file that has changed since the dataset was opened; empty if there is none."""
    for path, before in data.stamps:
        if file_state(Path(path)) != before:
            return f"{path} changed during the run; leave it unchanged and run again"
    return ""


# --- verifying ------------------------------------------------------------------------------------------------------


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
    if meta.get("registry") != fingerprint or not _is_unchanged(meta):
        return False
    check(folder, meta, verify)
    return True


def _is_unchanged(meta: Mapping[str, Any]) -> bool:
    """Return whether the user's file that is mapped in place, if any, has not changed."""
    mapped = meta.get("mapped")
    return not mapped or list(file_state(Path(mapped["path"]))) == mapped["stamp"]


def check(folder: Path, meta: Mapping[str, Any], verify: str) -> None:
    """Refuse files whose content has changed; with ``"never"``, only files whose size has changed."""
    if "seal" not in meta:
        raise DamagedDataError(folder / "meta.json")
    files = _files(folder, meta)
    for path, digested in files.items():
        if file_state(path)[:1] != (digested["bytes"],):
            raise DamagedDataError(path)
    if verify == "never":
        return
    state, newest = _state(folder, meta["seal"], files)
    if state in _verified or (verify == "once" and state in _remembered(folder)):
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
    if newest < began - _CLOCK_SECONDS:
        _remember(folder, state)


def digests(path: Path) -> list[str]:
    """Return a digest of each block of a file. Threads compute them in parallel."""
    with path.open("rb") as file:

        def digest(start: int) -> str:
            return _digest(os.pread(file.fileno(), _BLOCK_BYTES, start))

        with ThreadPoolExecutor(joblib.cpu_count()) as pool:
            return list(pool.map(digest, range(0, os.fstat(file.fileno()).st_size, _BLOCK_BYTES)))


def arrays(folder: Path, meta: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Map the arrays of a folder read-only, by file name."""
    in_place = {"A.npy": Path(meta["mapped"]["path"])} if "mapped" in meta else {}
    paths = {name: folder / name for name in meta["files"] if name.endswith(".npy")} | in_place
    return {name: map_array(path) for name, path in paths.items()}


# --- writing --------------------------------------------------------------------------------------------------------


def store(path: Path, A: Streamed) -> NDArray[Any]:
    """Write a matrix to a ``.npy`` file block by block, and map it. `write` moves the file."""
    dtype = validation.kept_type(A)
    needed, free = A.size * dtype.itemsize, shutil.disk_usage(path.parent).free
    if needed > free:
        raise UserError(
            f"a matrix of {len(A)} x {A.shape[1]} takes {needed / 1e9:.3g} GB and {path.parent.parent} has "
            f"{free / 1e9:.3g} GB left; set KMDR_CACHE to a folder with more space"
        )
    with path.open("wb") as file:
        _save(file, A, dtype)
        flush(file)
    return np.load(path, mmap_mode="r")  # type: ignore[no-any-return]


def write(
    folder: Path,
    fingerprint: str,
    parts: Mapping[str, NDArray[Any] | Path],
    meta: Mapping[str, Any],
    feature_names: tuple[str, ...] | None,
) -> None:
    """Write a prepared folder under a temporary name, then rename it, so that it is complete or absent.

    `parts` are arrays, or paths of ``.npy`` files to be moved, by file name; `meta` is the content of ``meta.json``.
    """
    with temporary_folder(folder.parent) as temporary:
        for name, array in parts.items():
            if isinstance(array, Path):
                array.rename(temporary / name)
                continue
            with (temporary / name).open("wb") as file:
                _save(file, array, validation.kept_type(array) if name == "A.npy" else array.dtype)
                flush(file)
        if feature_names is not None:
            with (temporary / meta["feature_names"]).open("wb") as file:
                file.write(json.dumps(feature_names, ensure_ascii=False).encode())
                flush(file)
        # Dated back, so that any later change of a file changes its time, however coarse the clock.
        began = time.time()
        for path in temporary.iterdir():
            path.chmod(0o600)
            os.utime(path, (began - 2 * _CLOCK_SECONDS,) * 2)
        files = {
            path.name: {"bytes": path.stat().st_size, "blocks": digests(path)} for path in sorted(temporary.iterdir())
        }
        whole = {**meta, "registry": fingerprint, "files": files}
        if "mapped" in meta:
            path = Path(meta["mapped"]["path"])
            whole["mapped"] = {**meta["mapped"], "bytes": meta["mapped"]["stamp"][0], "blocks": digests(path)}
        digest = _meta_digest(whole)
        with (temporary / "meta.json").open("w", encoding="utf-8") as text:
            json.dump({**whole, "seal": digest}, text, indent=1)
            flush(text)
        (temporary / "meta.json").chmod(0o600)
        _publish(temporary, folder, fingerprint)
    # Unless they were written to since, the files have these digests and need no verification.
    state, newest = _state(folder, digest, _files(folder, whole))
    if newest < began - _CLOCK_SECONDS:
        _remember(folder, state)


def forget(folder: Path) -> None:
    """Forget that a folder was verified."""
    _verified.clear()
    with suppress(OSError):
        _memo(folder).unlink(missing_ok=True)


# --- remembered states ----------------------------------------------------------------------------------------------


def _memo(folder: Path) -> Path:
    return folder.parent.parent / "verified" / folder.name


@cache
def _boot() -> str:
    """Return an identifier of this boot of the machine; empty if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def _state(folder: Path, meta_digest: str, files: Mapping[Path, Any]) -> tuple[str, float]:
    """Return a digest of the current state of the files, and when the newest of them was modified."""
    states_now, newest = [], 0.0
    for path in files:
        with suppress(OSError):
            status = path.stat()
            states_now.append([str(path), *file_state(path)])
            newest = max(newest, status.st_mtime)
    return _digest(json.dumps([_boot(), str(folder), meta_digest, states_now]).encode()), newest


def _remembered(folder: Path) -> list[str]:
    """Return the states in which the folder was verified, the last first; a shared cache has one per machine."""
    try:
        return _memo(folder).read_text("ascii").split() if _boot() else []
    except (OSError, ValueError):
        return []


def _remember(folder: Path, state: str) -> None:
    _verified.add(state)
    if _boot():
        states = list(dict.fromkeys([state, *_remembered(folder)]))[:_REMEMBERED]
        with suppress(OSError, UserError):  # if the cache cannot be written, each process verifies for itself
            sweep_abandoned(_memo(folder).parent)
            write_atomically(_memo(folder), "\n".join(states).encode(), private=True)


# --- files ----------------------------------------------------------------------------------------------------------


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _meta_digest(meta: Mapping[str, Any]) -> str:
    """Return a digest of ``meta.json`` without the digest itself."""
    rest = {key: value for key, value in meta.items() if key != "seal"}
    return _digest(json.dumps(rest, sort_keys=True).encode())


def _files(folder: Path, meta: Mapping[str, Any]) -> dict[Path, Any]:
    """Return size and digests of each file except ``meta.json``, including a user's file that is mapped in place."""
    files = {folder / name: digested for name, digested in meta["files"].items()}
    return files | ({Path(meta["mapped"]["path"]): meta["mapped"]} if "mapped" in meta else {})


def _save(file: IO[bytes], array: NDArray[Any] | Streamed, dtype: np.dtype[Any]) -> None:
    """Write a ``.npy`` file block by block."""
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": array.shape}
    np.lib.format.write_array_header_1_0(file, header)
    for _, block in validation.blocks(array, dtype):
        file.write(block.data.cast("B"))


def _publish(temporary: Path, folder: Path, fingerprint: str) -> None:
    """Rename a temporary folder to its final name, unless another process has written the same data first."""
    sync_folder(temporary)
    for _ in range(100):
        try:
            temporary.rename(folder)
        except OSError:
            with suppress(DamagedDataError):
                if is_current(folder, fingerprint, "once"):
                    return
            if folder.exists():
                # An outdated folder cannot be replaced in one step. A process that has it mapped keeps its pages.
                with temporary_folder(folder.parent) as outdated, suppress(OSError):
                    folder.rename(outdated / folder.name)
        else:
            sync_folder(folder.parent)
            return
    raise UserError(f"cannot write {folder}; remove it and try again")


def map_array(path: Path) -> NDArray[Any]:
    """Map a ``.npy`` file read-only."""
    return np.asarray(map_npy(path))  # not a memmap, which some compiled code refuses
