"""Prepared data on their way to machines that have none: taken apart in one cache, put together in another."""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from kmdr.base.paths import cache_folder, private_folder
from kmdr.datasets import UnverifiedError, content_sha256, prepared, valid

_BLOCK_BYTES = 2**24
# What holds for one machine alone: files and what they looked like.
_LOCAL = ("files", "seal", "registry", "mapped", "feature_names", "warnings")


class Block(NamedTuple):
    """A part of an array: entries that follow each other, from ``start`` on.

    Attributes
    ----------
    name : str
        Of the array's file.
    shape : tuple of int
        Of the array.
    start : int
    entries : ndarray
    """

    name: str
    shape: tuple[int, ...]
    start: int
    entries: NDArray[Any]


# What `meta_of` and `arrays_of` return.
Parcel = tuple[Mapping[str, Any], Mapping[str, NDArray[Any]]]


def meta_of(folder: Path) -> dict[str, Any]:
    """Return what the ``meta.json`` of a prepared folder says that holds on every machine."""
    return {key: value for key, value in prepared.read_meta(folder).items() if key not in _LOCAL}


def arrays_of(folder: Path) -> dict[str, NDArray[Any]]:
    """Map the arrays of a prepared folder, by the names of their files."""
    return prepared.arrays(folder, prepared.read_meta(folder))


def blocks_of(folder: Path) -> Iterator[Block]:
    """Yield the arrays of a prepared folder in blocks of bounded size, each a copy."""
    for name, array in arrays_of(folder).items():
        flat, step = array.reshape(-1), _BLOCK_BYTES // array.dtype.itemsize
        for start in range(0, max(flat.size, 1), step):
            yield Block(name, array.shape, start, np.array(flat[start : start + step]))


def copy(folder: Path, target: Path) -> None:
    """Write a prepared folder again, with all that it takes to use it elsewhere."""
    meta = meta_of(folder)
    prepared.write(target, meta["data_sha256"], arrays_of(folder), meta, None)


def _arriving(data_sha256: str) -> Path:
    return cache_folder() / "arriving" / data_sha256[:12]


def receive(data_sha256: str, block: Block) -> None:
    """Put a block where the data are collected; the same block twice, from whomever, changes nothing."""
    path = _arriving(data_sha256) / block.name
    private_folder(path.parent)
    if block.entries.size == np.prod(block.shape):  # an array of no entries cannot be mapped
        np.save(path, block.entries.reshape(block.shape))
        return
    how: dict[str, Any] = {"mode": "r+"}
    if not path.exists():
        how = {"mode": "w+", "dtype": block.entries.dtype, "shape": block.shape}
    array = np.lib.format.open_memmap(path, **how)
    array.reshape(-1)[block.start : block.start + block.entries.size] = block.entries
    array.flush()


def keep_received(meta: Mapping[str, Any]) -> Path:
    """Make a prepared folder of the blocks that arrived; see `keep`."""
    folder = _arriving(meta["data_sha256"])
    kept = keep(meta, {path.name: prepared.mapped(path) for path in sorted(folder.glob("*.npy"))})
    shutil.rmtree(folder, ignore_errors=True)
    return kept


def keep(meta: Mapping[str, Any], parts: Mapping[str, NDArray[Any]]) -> Path:
    """Make a prepared folder of data that another machine sent.

    Parameters
    ----------
    meta : mapping
        As `meta_of` gives it.
    parts : mapping of str to ndarray
        As `arrays_of` gives them.

    Returns
    -------
    Path
        The folder, which `kmdr.datasets.prepared_by_content` finds.

    Raises
    ------
    UnverifiedError
        What arrived has not the content hash that it was sent with. Nothing is kept of it.
    """
    if "A.npy" in parts:
        A: Any = parts["A.npy"]
    else:
        csr = tuple(parts[f"{part}.npy"] for part in ("data", "indices", "indptr"))
        A = scipy.sparse.csr_array(csr, shape=(meta["n"], meta["d"]), copy=False)
    labels = parts.get("labels.npy")
    if content_sha256(A, labels, valid.kept_type(A)) != meta["data_sha256"]:
        shutil.rmtree(_arriving(meta["data_sha256"]), ignore_errors=True)
        raise UnverifiedError(f"dataset {meta['name']!r} arrived with another content than it was sent with; run again")
    folder = cache_folder() / "prepared" / f"received-{meta['data_sha256'][:12]}"
    prepared.write(folder, meta["data_sha256"], parts, meta, None)
    return folder
