"""Files of labels: the clusters of one task's rows as ``.npz``, which `numpy.load` reads, followed by their SHA-256."""

import io
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from kmdr.base.files import DamagedError
from kmdr.base.text import counted
from kmdr.results.checksums import verify_checksum
from kmdr.results.folder import read_file

# Pairs of r and the cluster of each point.
Labels = Iterator[tuple[int, NDArray[np.unsignedinteger]]]

# Bytes of a compressed file of labels, and of the labels of one r.
MOST_LABELS = 2**26


def packed(labels: Mapping[int, NDArray[np.int64]]) -> bytes:
    """Return the content of a file of labels, without its checksum.

    ``labels`` has for each r the cluster of each point, from 0, as an array of shape (n,).
    """
    table = np.stack(list(labels.values()))
    file = io.BytesIO()
    np.savez_compressed(file, r=np.array(list(labels), np.int64), labels=table.astype(np.min_scalar_type(table.max())))
    return file.getvalue()


def read_labels(folder: Path, path: Path) -> Labels:
    """Yield r and the cluster of each point from a file of labels; nothing if the file does not exist.

    Memory holds the compressed file and the labels of one r. Raise `DamagedError` if the file differs from its checksum
    or does not contain labels.
    """
    whole = read_file(folder, path, MOST_LABELS)
    if whole is None:
        return
    try:
        verify_checksum(whole, path)  # which stays at the end, where an archive may have anything
        with zipfile.ZipFile(io.BytesIO(whole)) as members:
            with members.open("r.npy") as file:
                count, dtype = _header(file, 1)
                if dtype != np.int64:
                    raise ValueError(f"sizes of type {dtype}")
                sizes = np.frombuffer(_exactly(file, count[0] * 8), np.int64).tolist()
            with members.open("labels.npy") as file:
                (rows, n), dtype = _header(file, 2)
                if dtype.kind != "u" or rows != len(sizes):
                    raise ValueError(f"an array of {dtype} with {counted(rows, 'row')} for {len(sizes)} sizes")
                for r in sizes:
                    yield r, np.frombuffer(_exactly(file, n * dtype.itemsize), dtype)
                if file.read(1):
                    raise ValueError("more than the array says")
    except (OSError, ValueError, KeyError, TypeError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        if isinstance(error, DamagedError):
            raise
        raise DamagedError(f"{path} is damaged: it does not contain labels ({error})") from error


def _header(file: IO[bytes], ndim: int) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return shape and type of an array in the ``.npy`` format, version 1, in C order."""
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("another version of the npy format")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    if len(shape) != ndim or fortran:
        raise ValueError(f"an array of shape {shape}")
    return shape, dtype


def _exactly(file: IO[bytes], size: int) -> bytes:
    """Read so many bytes; refuse more than the labels of one r may take, whatever the file claims."""
    if size > MOST_LABELS:
        raise ValueError(f"{size} bytes at a time, more than the limit of {MOST_LABELS}")
    content = file.read(size)
    if len(content) != size:
        raise ValueError("less than the array says")
    return content
