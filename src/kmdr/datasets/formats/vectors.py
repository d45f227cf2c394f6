"""Read plain binary matrices (IDX, fvecs and its relatives, fbin) and UCI's text of word counts (docword)."""

import math
import re
import struct
import warnings
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from kmdr.base.errors import UserError
from kmdr.datasets.acquire.archives import DAMAGED
from kmdr.datasets.file_options import FileOptions
from kmdr.datasets.formats.common import Content, afford, afford_shape, open_unpacked, reading, unpacked

# Type codes of IDX; numbers are big-endian.
_IDX_TYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
_MOST_AXES = 4
# Each row is preceded by its length.
_VECTORS = {".fvecs": "<f4", ".bvecs": "<u1", ".ivecs": "<i4"}
# The file begins with the shape.
_BLOCKS = {".fbin": "<f4", ".u8bin": "<u1", ".i8bin": "<i1", ".ibin": "<i4"}
SUFFIXES = (*_VECTORS, *_BLOCKS)
_HEAD_BYTES = 4096
# So many bytes of a truncated compressed file can usually be unpacked.
_FEWEST_BYTES = 4
_DOCWORD = re.compile(rb"\s*\d+[ \t]*\r?\n\s*\d+[ \t]*\r?\n\s*\d+[ \t]*\r?\n\s*\d+[ \t]+\d+[ \t]+\d+[ \t]*(\r?\n|$)")


def sniff(path: Path) -> str:
    """Return ``"idx"`` or ``"docword"`` if a file, which may be compressed, begins like one; else an empty text."""
    head = _head(path)
    if _is_idx(head):
        return "idx"
    return "docword" if _DOCWORD.match(head) or path.name.lower().startswith("docword.") else ""


def is_binary(path: Path) -> bool:
    """Return whether a file, which may be compressed, begins with bytes that no text has."""
    return b"\0" in _head(path)


def _head(path: Path) -> bytes:
    """Return the first bytes of a file, which may be compressed; fewer of a truncated file, none of a damaged one."""
    for size in (_HEAD_BYTES, _FEWEST_BYTES):
        try:
            with open_unpacked(path) as file:
                head: bytes = file.read(size)
                return head
        except (OSError, ValueError, *DAMAGED):
            continue
    return b""


def _is_idx(head: bytes) -> bool:
    return len(head) > 3 and head[:2] == b"\0\0" and head[2] in _IDX_TYPES and 1 <= head[3] <= _MOST_AXES


def idx_array(path: Path, limit: float) -> NDArray[Any]:
    """Return the array of an IDX file, such as a file of MNIST."""
    data = b"".join(unpacked(path, limit))
    if not _is_idx(data):
        raise UserError(f"{path.name} is not a readable IDX file: it does not begin with the four bytes of that format")
    dtype, start = np.dtype(_IDX_TYPES[data[2]]), 4 + 4 * data[3]
    if len(data) < start:
        raise UserError(f"{path.name} is truncated: it ends within its header; download it again")
    shape = struct.unpack(f">{data[3]}I", data[4:start])
    _refuse_length(path, len(data), start + math.prod(shape) * dtype.itemsize)
    return np.frombuffer(data, dtype, offset=start).reshape(shape)


def idx(path: Path, limit: float, options: FileOptions) -> Content:
    """Read an IDX file; all axes after the first, such as rows and columns of images, become one."""
    del options
    with reading(path, "IDX"):
        array = idx_array(path, limit)
        if array.ndim < 2:
            raise UserError(
                f"{path.name} holds one number per point, which are labels; name the file of the points, and this one "
                "by dataset.labels=…"
            )
        if not array.size:
            raise UserError(f"{path.name} is empty; choose a file with points")
        shape = " x ".join(map(str, array.shape))
        return Content(array.reshape(len(array), -1), form=f"IDX, {array.dtype.name} of {shape}")


def vectors(path: Path, limit: float, options: FileOptions) -> Content:
    """Read vectors: fvecs, bvecs, ivecs, fbin, u8bin, i8bin or ibin."""
    del options
    suffix = path.suffix.lower()
    with reading(path, suffix[1:] or "vectors"):
        if suffix not in SUFFIXES:
            raise UserError(
                f"{path.name} has none of the extensions {', '.join(SUFFIXES)}, which say how vectors are stored; "
                "rename the file"
            )
        size = path.stat().st_size
        afford(path, "holds vectors", float(size), limit)
        data = path.read_bytes()
        if suffix in _BLOCKS:
            if size < 8:
                raise UserError(f"{path.name} is truncated: it ends within its header; download it again")
            dtype = np.dtype(_BLOCKS[suffix])
            n, d = struct.unpack("<2I", data[:8])
            _refuse_length(path, size, 8 + n * d * dtype.itemsize)
            return Content(np.frombuffer(data, dtype, offset=8).reshape(n, d), form=f"{suffix[1:]}, {dtype.name}")
        dtype = np.dtype(_VECTORS[suffix])
        d = struct.unpack("<i", data[:4])[0] if size >= 4 else 0
        width = 4 + d * dtype.itemsize
        if d < 1 or size % width:
            raise UserError(
                f"{path.name} has {size} bytes, which are not whole vectors of {d} numbers; the file is empty, damaged "
                "or truncated, so download it again"
            )
        rows = np.frombuffer(data, np.dtype([("d", "<i4"), ("x", dtype, (d,))]))
        if (rows["d"] != d).any():
            raise UserError(f"{path.name} has vectors of several lengths; a dataset is a matrix, so write one length")
        return Content(np.ascontiguousarray(rows["x"]), form=f"{suffix[1:]}, {dtype.name}")


def _refuse_length(path: Path, held: int, needed: int) -> None:
    """Refuse a file with more or fewer bytes than its header says."""
    if held != needed:
        raise UserError(
            f"{path.name} has {held} bytes, but its header says {needed}; the file is damaged or truncated, so "
            "download it again"
        )


def docword(path: Path, limit: float, options: FileOptions) -> Content:
    """Read UCI's bag of words: three lines with the numbers of documents, words and entries, then one entry per line.

    Documents and words are counted from 1. Documents without words are rows of zeros.
    """
    del options
    with reading(path, "docword"):
        for _ in unpacked(path, limit):  # counts its bytes before any of it is kept
            pass
        with open_unpacked(path) as file:
            n, d, entries = (int(line) for line in islice(file, 3))
            afford_shape(path, (n, d), limit)
            afford(path, f"claims {entries} entries", 24.0 * entries, limit)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about a file without entries, which is refused below
                table = np.loadtxt(file, np.int64, ndmin=2, comments=None) if entries else np.empty((0, 3), np.int64)
        if table.shape != (entries, 3):
            raise UserError(
                f"{path.name} has {len(table)} entries, but its third line says {entries}; the file is damaged or "
                "truncated, so download it again"
            )
        rows, columns, counts = table.T
        if (counts < 0).any():
            raise UserError(f"{path.name} has negative counts of words; write numbers of occurrences")
        A = scipy.sparse.coo_array((counts.astype(np.float64), (rows - 1, columns - 1)), shape=(n, d))
        return Content(A, form=f"docword, {entries} entries")
