"""The clusters of the rows of one task as a file: ``.npz`` with its SHA-256 behind it; ``numpy.load`` reads it too."""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kmdr.files import DamagedError, read_plain, with_checksum, without_checksum

# For each r the cluster of each point.
Labels = Mapping[int, NDArray[np.unsignedinteger]]

# Of all labels of one file, unpacked.
_MOST_BYTES = 2**32


def packed(labels: Mapping[int, NDArray[np.int64]]) -> bytes:
    """Return the content of a file of labels.

    Parameters
    ----------
    labels : mapping of int to (n,) int array
        For each r the cluster of each point, from 0.
    """
    table = np.stack(list(labels.values()))
    file = io.BytesIO()
    np.savez_compressed(file, r=np.array(list(labels), np.int64), labels=table.astype(np.min_scalar_type(table.max())))
    return with_checksum(file.getvalue())


def read_labels(path: Path) -> Labels:
    """Return what `packed` was given, in the narrowest type that holds it.

    Raises
    ------
    DamagedError
        When the file is not what was written, or holds what is no labels.
    """
    content = io.BytesIO(without_checksum(read_plain(path), path))
    try:
        with zipfile.ZipFile(content) as members:
            size = sum(member.file_size for member in members.infolist())
        if size > _MOST_BYTES:
            raise ValueError(f"{size} bytes")
        with np.load(content, allow_pickle=False) as arrays:
            grid, labels = arrays["r"], arrays["labels"]
        if grid.dtype != np.int64 or labels.dtype.kind != "u" or labels.ndim != 2:
            raise ValueError(f"arrays of {grid.dtype} and {labels.dtype}")
        return dict(zip(grid.tolist(), labels, strict=True))
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise DamagedError(f"{path} is damaged: it holds no labels ({error})") from error
