"""Prepared folders: a dataset as files that every process maps; ``meta.json`` describes it and has their digests."""

import json
import os
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from kmdr.base.errors import UserError
from kmdr.base.files import flush, sync_folder, temporary_folder
from kmdr.base.paths import cache_folder
from kmdr.datasets import validation
from kmdr.datasets.dataset import Dataset
from kmdr.datasets.formats.arrays import map_npy
from kmdr.datasets.references import ReferencedDataset
from kmdr.datasets.streamed import Streamed
from kmdr.datasets.verification import (
    CLOCK_SECONDS,
    DamagedDataError,
    check,
    digested_files,
    digests,
    file_state,
    is_current,
    is_unchanged,
    read_meta,
    remember,
    sealed,
    states,
)

CSR_PARTS = ("data", "indices", "indptr")

# --- opening --------------------------------------------------------------------------------------------------------


def open_prepared(folder: Path, verify: str = "once") -> Dataset:
    """Map the dataset of a folder that `kmdr.datasets.prepare` returned.

    A is mapped read-only, so that processes share one copy in memory. With `verify` ``"never"``, the structure of a
    sparse matrix is checked instead, because compiled code relies on it. Raise
    `DamagedDataError` for a damaged file, and `UserError` for a folder without a prepared dataset, or of a user's file
    that has changed.
    """
    try:
        meta = read_meta(folder)
        if not is_unchanged(meta):
            path = meta["mapped"]["path"]
            raise UserError(f"{path} has changed since it was prepared; run again to prepare it anew")
        stamps = tuple((str(path), file_state(path)) for path in digested_files(folder, meta) if path.suffix == ".npy")
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
        stamps=stamps,
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
            os.utime(path, (began - 2 * CLOCK_SECONDS,) * 2)
        files = {
            path.name: {"bytes": path.stat().st_size, "blocks": digests(path)} for path in sorted(temporary.iterdir())
        }
        whole = {**meta, "registry": fingerprint, "files": files}
        if "mapped" in meta:
            path = Path(meta["mapped"]["path"])
            whole["mapped"] = {**meta["mapped"], "bytes": meta["mapped"]["stamp"][0], "blocks": digests(path)}
        whole = sealed(whole)
        with (temporary / "meta.json").open("w", encoding="utf-8") as text:
            json.dump(whole, text, indent=1)
            flush(text)
        (temporary / "meta.json").chmod(0o600)
        _publish(temporary, folder, fingerprint)
    # Unless they were written to since, the files have these digests and need no verification.
    remember(folder, states(folder, whole), began)


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
