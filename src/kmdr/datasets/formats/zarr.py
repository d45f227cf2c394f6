"""Zarr stores: an array, or a group of arrays, of which some rows are in memory at a time."""

import json
import math
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kmdr.base.errors import UserError, check_memory, unknown
from kmdr.datasets.formats.arrays import pick, pick_classes
from kmdr.datasets.formats.reading import Content, afford, brought, reading
from kmdr.datasets.streamed import Streamed, stacked

_METADATA = (".zarray", ".zgroup", "zarr.json")
_CONSOLIDATED = ".zmetadata"
# What an array may be packed with. Of what else there is, one runs code that the store brings.
_CODECS = {
    *("blosc", "zstd", "gzip", "zlib", "bz2", "lzma", "lz4", "shuffle", "delta", "packbits", "fixedscaleoffset"),
    *("bytes", "transpose", "crc32c", "sharding_indexed", "vlen-utf8"),
}


def is_store(folder: Path) -> bool:
    """Whether a folder is a Zarr store."""
    return any((folder / name).is_file() for name in _METADATA)


def files_of(folder: Path) -> list[Path]:
    """Return all files of a store."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def zarr(folder: Path, limit: float, matrix: str = "", label: str = "") -> Content:
    """Read a store of one array, or the matrix and the labels of a group.

    Parameters
    ----------
    folder : Path
    limit : float
        Most bytes that a chunk, or the labels, may take.
    matrix, label : str
        Arrays of a group.
    """
    library = brought("zarr", "zarr", folder)
    with reading(folder, "Zarr"):
        for path in files_of(folder):
            if path.name in (*_METADATA, _CONSOLIDATED):
                _refuse_codecs(folder, path)
        store, classes, form = library.open(store=folder, mode="r"), "", "Zarr, an array"
        if hasattr(store, "array_keys"):
            names = sorted(store.array_keys())
            points = pick(folder, names, matrix)
            classes = pick_classes(folder, names, label, points)
            array, form = store[points], f"Zarr, array {points!r}"
        elif matrix or label:
            raise unknown(f"array in {folder.name}", matrix or label, ())
        else:
            array = store
        labels = _labels(folder, store[classes], limit) if classes else None
        lacking = array.nchunks - array.nchunks_initialized
    warnings = (
        f"{lacking} of its {array.nchunks} chunks are not there and are read as {array.fill_value}; where that is not "
        "meant, put them back",
    )
    A = _rows_of(folder, array, limit)
    return Content(A, labels, None, form, f"array {classes!r}" if classes else "", warnings if lacking else ())


def _refuse_codecs(folder: Path, path: Path) -> None:
    """Refuse an array that is packed with what is not known to be harmless."""
    if odd := sorted(set(_codecs(json.loads(path.read_text("utf-8")))) - _CODECS):
        known = ", ".join(sorted(_CODECS))
        raise UserError(f"{folder.name} is packed with {odd[0]}, which is not read; write it with one of {known}")


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


def _labels(folder: Path, array: Any, limit: float) -> NDArray[Any]:
    afford(folder, "claims labels", float(math.prod(array.shape) * array.dtype.itemsize), limit)
    values = np.asarray(array[...])
    return values if values.dtype.kind in "biufU" else values.astype(object)  # text of any length


def _rows_of(folder: Path, array: Any, limit: float) -> Any:
    """Return a matrix of which the chunks of one row of chunks are in memory at a time."""
    if len(array.shape) != 2:
        raise UserError(f"{folder.name} has the shape {array.shape}; a dataset is a matrix with one point a row")
    n, d = array.shape
    rows, dtype = array.chunks[0], np.dtype(array.dtype)
    check_memory(f"{rows} rows of {folder.name}, a row of chunks,", rows * d)
    afford(folder, "claims chunks", float(math.prod(array.chunks) * dtype.itemsize), limit)
    of_chunks = lru_cache(maxsize=1)(partial(_read, folder, array, rows))
    starts = range(0, n, rows)
    parts = [Streamed((min(rows, n - start), d), dtype, partial(_within, of_chunks, start)) for start in starts]
    return stacked(parts) if parts else np.empty((n, d), dtype)


def _read(folder: Path, array: Any, rows: int, start: int) -> NDArray[Any]:
    with reading(folder, "Zarr"):
        return np.asarray(array[start : start + rows])


def _within(of_chunks: Callable[[int], NDArray[Any]], first: int, start: int, stop: int) -> NDArray[Any]:
    return of_chunks(first)[start:stop]
