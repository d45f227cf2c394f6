"""Read Zarr stores, an array or a group of arrays, in blocks of rows. A store is a folder or a zip archive of one."""

import json
import math
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kmdr.base.errors import UserError, check_memory, unknown
from kmdr.datasets.acquire.archives import read_members
from kmdr.datasets.file_options import FileOptions
from kmdr.datasets.formats.arrays import POINTS, pick, pick_classes
from kmdr.datasets.formats.common import Content, afford, import_extra, reading
from kmdr.datasets.formats.unpacking import limit_chunks
from kmdr.datasets.streamed import from_blocks

_METADATA = (".zarray", ".zgroup", "zarr.json")
_CONSOLIDATED = ".zmetadata"
# Largest number of chunks, each of which is looked for when the store is opened.
_MOST_CHUNKS = 10**7
# A filter may pack numbers of up to 8 bytes as the content of an array of bytes. Few bytes are never refused.
_FILTERED, _SMALL_BYTES = 8, 2**20
# Accepted codecs. Of the others, at least one runs code from the store.
_CODECS = {
    *("blosc", "zstd", "gzip", "zlib", "bz2", "lzma", "lz4", "shuffle", "delta", "packbits", "fixedscaleoffset"),
    *("bytes", "transpose", "crc32c", "sharding_indexed", "vlen-utf8"),
}


def is_store(path: Path) -> bool:
    """Return whether a folder, or a zip archive, is a Zarr store."""
    return any((path / name).is_file() for name in _METADATA) or zipped_root(path) is not None


def zipped_root(path: Path) -> str | None:
    """Return the folder of the only Zarr store in a zip archive, empty if it is the archive; None without one."""
    if path.suffix.lower() != ".zip" or not path.is_file() or not zipfile.is_zipfile(path):
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            members = [PurePosixPath(name) for name in archive.namelist()]
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return None
    groups = {member.parent for member in members if member.name in _METADATA}
    roots = [group for group in groups if groups.isdisjoint(group.parents)]
    return "/".join(roots[0].parts) if len(roots) == 1 else None


def store_files(folder: Path) -> list[Path]:
    """Return all files of a store."""
    return sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else [folder]


def _metadata(folder: Path, limit: float) -> Iterable[bytes]:
    names = (*_METADATA, _CONSOLIDATED)
    if folder.is_dir():
        return [path.read_bytes() for path in store_files(folder) if path.name in names]
    return read_members(folder, lambda name: PurePosixPath(name).name in names, int(limit)).values()


def _opened(library: Any, folder: Path, limit: float) -> Any:
    """Return the array or group of a store; of an archive, no member may unpack to more than the limit."""
    root = zipped_root(folder)
    if root is None:
        return library.open(store=folder, mode="r")
    with zipfile.ZipFile(folder) as archive:
        largest = max(member.file_size for member in archive.infolist())
    afford(folder, "has a member that unpacks to too much", largest, limit)
    return library.open(store=library.storage.ZipStore(folder, mode="r"), path=root, mode="r")


def zarr(folder: Path, limit: float, options: FileOptions) -> Content:
    """Read a store of one array, or the matrix and the labels of a group.

    `limit` bounds the bytes of one chunk and of the labels.
    """
    library = import_extra("zarr", "zarr", folder)
    with reading(folder, "Zarr"):
        for content in _metadata(folder, limit):
            _refuse_codecs(folder, content)
        store, classes, form = _opened(library, folder, limit), "", "Zarr, an array"
        if hasattr(store, "array_keys"):
            names = sorted(store.array_keys())
            _refuse_groups(folder, options.matrix or next(filter(store.__contains__, POINTS), ""), names, store)
            points = pick(folder, names, options.matrix)
            classes = pick_classes(folder, names, options.label, points)
            array, form = store[points], f"Zarr, array {points!r}"
        elif options.matrix or options.label:
            raise unknown(f"array in {folder.name}", options.matrix or options.label, ())
        else:
            array = store
        labels = _labels(folder, store[classes], limit) if classes else None
        _refuse_many_chunks(folder, array)
        missing = array.nchunks - array.nchunks_initialized
    warnings = (
        f"{missing} of its {array.nchunks} chunks are missing and read as {array.fill_value}; restore them if that is "
        "not intended",
    )
    A = _rows_of(folder, array, limit)
    labelled = f"array {classes!r}" if classes else ""
    return Content(A, labels, None, form, labelled, warnings=warnings if missing else ())


def _refuse_codecs(folder: Path, content: bytes) -> None:
    """Refuse an array with a codec that is not known to be harmless."""
    if odd := sorted(set(_codecs(json.loads(content))) - _CODECS):
        known = ", ".join(sorted(_CODECS))
        raise UserError(f"{folder.name} uses the codec {odd[0]}, which is not supported; write it with one of {known}")


def _codecs(value: Any, within: bool = False) -> Iterator[str]:
    """Yield the names of all codecs in the metadata of an array or a group."""
    if isinstance(value, list):
        for entry in value:
            yield from _codecs(entry, within)
    elif isinstance(value, dict):
        if within and (name := value.get("id", value.get("name"))) is not None:
            yield str(name)
        for key, entry in value.items():
            yield from _codecs(entry, within or key in ("compressor", "filters", "codecs", "index_codecs"))


def _refuse_groups(folder: Path, name: str, arrays: Iterable[str], store: Any) -> None:
    """Refuse a matrix that is a group: AnnData's stores have sparse matrices as groups of their parts."""
    if name and name in store and name not in arrays:
        raise UserError(
            f"{name} of {folder.name} is not an array at the top of the store; write sparse matrices and layers as "
            "h5ad, by write_h5ad of anndata"
        )


def _refuse_many_chunks(folder: Path, array: Any) -> None:
    if array.nchunks > _MOST_CHUNKS:
        raise UserError(
            f"{folder.name} claims {array.nchunks} chunks in an array, but at most {_MOST_CHUNKS} are read; write it "
            "with larger chunks"
        )


def _chunk_bytes(array: Any) -> float:
    return float(math.prod(array.chunks) * array.dtype.itemsize)


def _labels(folder: Path, array: Any, limit: float) -> NDArray[Any]:
    afford(folder, "claims labels", float(math.prod(array.shape) * array.dtype.itemsize), limit)
    _refuse_many_chunks(folder, array)
    with limit_chunks(limit):
        values = np.asarray(array[...])
    return values if values.dtype.kind in "biufU" else values.astype(object)  # variable-length text


def _rows_of(folder: Path, array: Any, limit: float) -> Any:
    """Return a matrix that is read one row of chunks at a time."""
    if len(array.shape) != 2:
        raise UserError(f"{folder.name} has the shape {array.shape}; a dataset is a matrix with one point per row")
    n, d = array.shape
    rows, dtype = array.chunks[0], np.dtype(array.dtype)
    check_memory(f"{rows} rows of {folder.name}, a row of chunks,", rows * d)
    afford(folder, "claims chunks", _chunk_bytes(array), limit)

    def read(number: int) -> NDArray[Any]:
        with reading(folder, "Zarr"), limit_chunks(max(_FILTERED * _chunk_bytes(array), _SMALL_BYTES)):
            return np.asarray(array[number * rows : (number + 1) * rows])

    lengths = [min(rows, n - start) for start in range(0, n, rows)]
    return from_blocks(lengths, d, dtype, read) if lengths else np.empty((n, d), dtype)
