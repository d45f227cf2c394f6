"""Datasets: acquired, checked, and kept as files that every worker process maps.

`prepare` does the work once and writes a folder; `open_prepared` maps that folder; `load` does both. `availability`
says without any network access where a dataset would come from.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from shutil import rmtree
from typing import Any
from uuid import uuid4

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from kmdr.datasets.acquire import TEMPORARY, UnavailableError, find, obtain, raw_folder, sweep
from kmdr.datasets.archives import UnverifiedError
from kmdr.datasets.loaders import LOADERS
from kmdr.datasets.registry import Entry, entry, names
from kmdr.errors import UserError, unknown
from kmdr.paths import cache_folder

__all__ = [
    "Availability",
    "Dataset",
    "UnavailableError",
    "UnverifiedError",
    "availability",
    "content_sha256",
    "fetch_all",
    "load",
    "names",
    "open_prepared",
    "prepare",
]

# Part of what a prepared folder must match; to be raised when a loader's output or the files of the folder change.
_LAYOUT = 1
_CSR = ("data", "indices", "indptr")


@dataclass(frozen=True, eq=False)
class Dataset:
    """A dataset in memory, or mapped from a prepared folder.

    Attributes
    ----------
    name : str
        Name in the registry.
    A : ndarray or scipy.sparse.csr_array of shape (n, d)
        A point a row, float64 in all registered datasets; read-only when it is mapped.
    labels : ndarray of shape (n,) or None
        True classes.
    k : int
        Clusters to find.
    data_sha256 : str
        `content_sha256` of A and labels.
    stand_in : str
        What the data really are, where they only stand in for what a paper used; else empty.
    source : str
        Where the files came from.
    """

    name: str
    A: Any
    labels: NDArray[np.int64] | None
    k: int
    data_sha256: str
    stand_in: str
    source: str


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


def prepare(name: str, options: Mapping[str, Any] | None = None) -> Path:
    """Acquire, load, check and write a dataset, once.

    Parameters
    ----------
    name : str
        Name in the registry.
    options : mapping, optional
        Options that differ from the registry's defaults.

    Returns
    -------
    Path
        Folder for `open_prepared`. A folder that is there and fits the registry is returned at once; its matrix is
        not read.

    Raises
    ------
    UserError
        Unknown dataset or option; an option out of range.
    UnavailableError
        A file cannot be had: what was tried, and which file to put where.
    UnverifiedError
        What was loaded is not what the registry says. Nothing is kept of it.
    """
    e = entry(name)
    chosen = _options(e, options or {})
    folder, fingerprint = _prepared(e, chosen)
    if _is_current(folder, fingerprint):
        return folder
    found = obtain(e)
    load_files = LOADERS[_format(e, [f.source.format for f in found])]
    A, labels = load_files(*(f.path for f in found), **chosen)
    if _is_sparse(A):
        A = _canonical(A)
    k = int(chosen.get("k", e.k))
    digest = content_sha256(A, labels)
    if chosen == dict(e.options):
        _check(e, A, labels, digest)
    n, d = A.shape
    meta = {
        "name": name,
        "k": k,
        "data_sha256": digest,
        "source": "; ".join(f.where for f in found) or "generated",
        "stand_in": e.stand_in,
        "n": n,
        "d": d,
        "nnz": int(A.nnz) if _is_sparse(A) else n * d,
        "options": chosen,
        "registry": fingerprint,
    }
    try:
        _write(folder, fingerprint, dict(_arrays(A, labels)), meta)
    except OSError as error:
        raise UserError(
            f"cannot write {folder} ({error.strerror}); let KMDR_CACHE name a folder with room that can be written"
        ) from error
    return folder


def open_prepared(folder: Path) -> Dataset:
    """Map the dataset of a folder that `prepare` returned.

    Parameters
    ----------
    folder : Path
        The folder.

    Returns
    -------
    Dataset
        Its A is mapped read-only, so that processes share one copy in memory.

    Raises
    ------
    UserError
        The folder does not hold a prepared dataset.
    """
    try:
        meta = json.loads((folder / "meta.json").read_text("utf-8"))
        arrays = {name: _map(folder / name) for name in meta["files"]}
    except (OSError, ValueError, KeyError) as e:
        raise UserError(f"{folder} does not hold a prepared dataset ({e}); prepare it again") from e
    if "A.npy" in arrays:
        A: Any = arrays["A.npy"]
    else:
        parts = tuple(arrays[f"{part}.npy"] for part in _CSR)
        A = scipy.sparse.csr_array(parts, shape=(meta["n"], meta["d"]), copy=False)
        # It was brought to this form when it was written; left to find out, scipy would read it all.
        A.has_canonical_format = True
    return Dataset(
        name=meta["name"],
        A=A,
        labels=arrays.get("labels.npy"),
        k=meta["k"],
        data_sha256=meta["data_sha256"],
        stand_in=meta["stand_in"],
        source=meta["source"],
    )


def load(name: str, options: Mapping[str, Any] | None = None) -> Dataset:
    """Prepare a dataset where that is not done yet, and map it.

    Parameters and errors are those of `prepare`.
    """
    return open_prepared(prepare(name, options))


def availability(name: str) -> Availability:
    """Where a dataset, with its default options, would come from; without network access and without writing.

    Raises
    ------
    UserError
        There is no such dataset.
    """
    e = entry(name)
    folder, fingerprint = _prepared(e, dict(e.options))
    if _is_current(folder, fingerprint):
        state, where = "prepared", str(folder)
    elif not e.sources:
        state, where = "generated", "generated"
    elif found := find(e):
        in_cache = all(f.path.is_relative_to(raw_folder(name)) for f in found)
        state, where = "cached" if in_cache else "local", "; ".join(f.where for f in found)
    elif all(any(s.kind != "local" for s in e.sources if s.part == part) for part in e.parts):
        state, where = "remote", "; ".join(str(s) for s in e.sources if s.kind != "local")
    else:
        state, where = "by hand", "; ".join(s.filename for s in e.sources if s.kind == "local")
    return Availability(name, e.title, e.shape, state, where)


def fetch_all(which: Iterable[str] | None = None) -> Iterator[tuple[str, bool]]:
    """Prepare datasets one after the other; one that cannot be had does not stop the others.

    Parameters
    ----------
    which : iterable of str, optional
        Names; all of the registry by default.

    Yields
    ------
    line : str
        Ready and from where, or missing and why.
    ok : bool
        False where a file or a matrix was there but failed its check; True for ready and for merely unreachable.
    """
    for name in names() if which is None else which:
        try:
            dataset = load(name)
        except UnavailableError as e:
            yield f"{name}: missing: {e}", not e.failed_check
        except UserError as e:
            yield f"{name}: failed: {e}", False
        else:
            n, d = dataset.A.shape
            yield f"{name}: ready, {n} x {d}, from {dataset.source}", True


def content_sha256(A: Any, labels: NDArray[Any] | None) -> str:
    """Hash of a matrix and its labels, the same whatever file they came from.

    Parameters
    ----------
    A : ndarray or csr_array of shape (n, d)
        A CSR array counts by its parts as they are.
    labels : ndarray of shape (n,) or None

    Returns
    -------
    str
        SHA-256 over, for each array, its name, dtype and shape in a line of text, and its little-endian bytes in C
        order; for CSR the arrays are indptr, indices, data and the shape goes first.
    """
    digest = hashlib.sha256()
    if _is_sparse(A):
        digest.update(f"csr {tuple(A.shape)}\n".encode())
        arrays = [("indptr", A.indptr), ("indices", A.indices), ("data", A.data)]
    else:
        arrays = [("A", A)]
    for name, array in [*arrays, ("labels", labels)]:
        if array is not None:
            plain = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
            digest.update(f"{name} {plain.dtype.str} {plain.shape}\n".encode())
            digest.update(plain.data.cast("B"))
    return digest.hexdigest()


def _is_sparse(A: Any) -> bool:
    return bool(scipy.sparse.issparse(A))


def _canonical(A: Any) -> Any:
    """CSR with sorted indices, without duplicates, with the index type that scipy itself would choose.

    With any other index type, mapping it would make a copy.
    """
    A = scipy.sparse.csr_array(A)
    A.sum_duplicates()
    return scipy.sparse.csr_array((A.data, A.indices, A.indptr), shape=A.shape)


def _options(e: Entry, given: Mapping[str, Any]) -> dict[str, Any]:
    chosen = dict(e.options)
    for name, value in given.items():
        if name not in chosen:
            if not chosen:
                raise UserError(f"dataset {e.name!r} has no options; {name!r} was given")
            raise unknown(f"option of dataset {e.name!r}", name, chosen)
        chosen[name] = _like(e.options[name], value, f"option {name} of dataset {e.name!r}")
    return chosen


def _like(default: Any, value: Any, what: str) -> Any:
    """Bring a value to the type of the default; equal values must give equal folders."""
    match default:
        case bool():
            good = isinstance(value, bool)
        case int():
            good = isinstance(value, Integral) and not isinstance(value, bool)
        case float():
            good = isinstance(value, Real) and not isinstance(value, bool)
        case _:
            good = isinstance(value, type(default))
    if not good:
        raise UserError(f"{what} is {value!r}; it must be of type {type(default).__name__}")
    return type(default)(value)


def _format(e: Entry, formats: list[str]) -> str:
    distinct = set(formats or [e.format])
    if len(distinct) > 1:
        raise UserError(
            f"the files found for dataset {e.name!r} are of different formats: {', '.join(sorted(distinct))}"
        )
    (only,) = distinct
    if only not in LOADERS:
        raise unknown("dataset format", only, LOADERS)
    return only


def _check(e: Entry, A: Any, labels: NDArray[Any] | None, digest: str) -> None:
    if A.shape != (e.n, e.d):
        raise UnverifiedError(f"dataset {e.name!r} came out with shape {A.shape}, the registry says {e.shape}")
    if labels is not None and labels.shape != (e.n,):
        raise UnverifiedError(f"dataset {e.name!r} came out with {labels.size} labels for {e.n} points")
    if e.content_sha256 and digest != e.content_sha256:
        raise UnverifiedError(
            f"dataset {e.name!r} came out with content hash {digest}, the registry says {e.content_sha256}"
        )


# --- prepared folders -----------------------------------------------------------------------------------------------


def _prepared(e: Entry, chosen: Mapping[str, Any]) -> tuple[Path, str]:
    """Folder of a dataset with these options, and the hash of all that its content depends on."""
    suffix = "" if dict(chosen) == dict(e.options) else f"-{_json_hash(chosen)[:12]}"
    determines = [_LAYOUT, e.name, e.n, e.d, e.k, e.format, e.content_sha256, e.stand_in, dict(chosen)]
    return cache_folder() / "prepared" / f"{e.name}{suffix}", _json_hash(determines)


def _json_hash(value: Any) -> str:
    plain = dict(value) if isinstance(value, Mapping) else value
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _is_current(folder: Path, fingerprint: str) -> bool:
    try:
        meta = json.loads((folder / "meta.json").read_text("utf-8"))
        return meta["registry"] == fingerprint and all(
            (folder / name).stat().st_size == size for name, size in meta["files"].items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _arrays(A: Any, labels: NDArray[Any] | None) -> Iterator[tuple[str, NDArray[Any]]]:
    if _is_sparse(A):
        yield from ((f"{part}.npy", getattr(A, part)) for part in _CSR)
    else:
        yield "A.npy", np.ascontiguousarray(A)
    if labels is not None:
        yield "labels.npy", labels


def _write(folder: Path, fingerprint: str, arrays: Mapping[str, NDArray[Any]], meta: dict[str, Any]) -> None:
    """Write a prepared folder under another name, then rename it: it is there in full or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    sweep(folder.parent)
    aside = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=folder.parent))
    try:
        files = {}
        for name, array in arrays.items():
            with (aside / name).open("wb") as file:
                np.save(file, array, allow_pickle=False)
                os.fsync(file.fileno())
            files[name] = (aside / name).stat().st_size
        with (aside / "meta.json").open("w", encoding="utf-8") as text:
            json.dump({**meta, "files": files}, text, indent=1)
            text.flush()
            os.fsync(text.fileno())
        aside.chmod(0o755)  # mkdtemp makes it private, but a cache may be shared
        _put(aside, folder, fingerprint)
    finally:
        rmtree(aside, ignore_errors=True)


def _put(aside: Path, folder: Path, fingerprint: str) -> None:
    for _ in range(100):
        try:
            aside.rename(folder)
        except OSError:
            if _is_current(folder, fingerprint):
                return  # another process was first, with the same content
            if not folder.exists():
                continue
            # An outdated folder cannot be replaced in one step. A process that has it mapped keeps its pages.
            outdated = folder.parent / f"{TEMPORARY}{uuid4().hex}"
            with suppress(OSError):
                folder.rename(outdated)
            rmtree(outdated, ignore_errors=True)
        else:
            return
    raise UserError(f"cannot write {folder}; remove it and try again")


def _map(path: Path) -> NDArray[Any]:
    # An array of no bytes cannot be mapped.
    empty = 0 in np.load(path, allow_pickle=False).shape if path.stat().st_size < 256 else False
    array = np.load(path, mmap_mode=None if empty else "r", allow_pickle=False)
    return np.asarray(array)  # without the subclass, which some compiled code refuses
