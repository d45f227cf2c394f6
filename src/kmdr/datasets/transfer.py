"""Send prepared data to machines that have none: as blocks of arrays, or as all arrays at once."""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kmdr.base.files import private_folder
from kmdr.base.paths import cache_folder
from kmdr.datasets import UnverifiedError, content_sha256, prepared
from kmdr.datasets.verification import read_meta

_BLOCK_BYTES = 2**24
# Entries of ``meta.json`` that are valid on one machine only.
_LOCAL = ("files", "seal", "registry", "mapped", "feature_names", "warnings")


class Block(NamedTuple):
    """Consecutive entries of an array, from the flat index `start` on.

    `name` is the name of the array's file, `shape` the shape of the array.
    """

    name: str
    shape: tuple[int, ...]
    start: int
    entries: NDArray[Any]


# The results of `meta_of` and `arrays_of`.
Parcel = tuple[Mapping[str, Any], Mapping[str, NDArray[Any]]]


def meta_of(folder: Path) -> dict[str, Any]:
    """Return the entries of ``meta.json`` of a prepared folder that are valid on every machine."""
    return {key: value for key, value in read_meta(folder).items() if key not in _LOCAL}


def arrays_of(folder: Path) -> dict[str, NDArray[Any]]:
    """Map the arrays of a prepared folder, by file name."""
    return prepared.arrays(folder, read_meta(folder))


def blocks_of(folder: Path) -> Iterator[Block]:
    """Yield copies of the arrays of a prepared folder in blocks of limited size."""
    for name, array in arrays_of(folder).items():
        flat, step = array.reshape(-1), _BLOCK_BYTES // array.dtype.itemsize
        for start in range(0, max(flat.size, 1), step):
            yield Block(name, array.shape, start, np.array(flat[start : start + step]))


def _arriving(data_sha256: str) -> Path:
    return cache_folder() / "arriving" / data_sha256[:12]


def receive(data_sha256: str, block: Block) -> None:
    """Store a received block. Receiving the same block again, from any sender, changes nothing."""
    path = _arriving(data_sha256) / block.name
    private_folder(path.parent)
    if block.entries.size == np.prod(block.shape):  # an empty array cannot be mapped
        np.save(path, block.entries.reshape(block.shape))
        return
    arguments: dict[str, Any] = {"mode": "r+"}
    if not path.exists():
        arguments = {"mode": "w+", "dtype": block.entries.dtype, "shape": block.shape}
    array = np.lib.format.open_memmap(path, **arguments)
    array.reshape(-1)[block.start : block.start + block.entries.size] = block.entries
    array.flush()


def keep_received(meta: Mapping[str, Any]) -> Path:
    """Write a prepared folder from the received blocks; see `keep`."""
    folder = _arriving(meta["data_sha256"])
    kept = keep(meta, {path.name: prepared.map_array(path) for path in sorted(folder.glob("*.npy"))})
    shutil.rmtree(folder, ignore_errors=True)
    return kept


def keep(meta: Mapping[str, Any], parts: Mapping[str, NDArray[Any]]) -> Path:
    """Write a prepared folder with the results of `meta_of` and `arrays_of` on another machine, and return it.

    Data without the content hash in `meta` are an UnverifiedError, and are not kept.
    """
    A = prepared.matrix(parts, meta)
    labels = parts.get("labels.npy")
    if content_sha256(A, labels, parts.get("references.npy")) != meta["data_sha256"]:
        shutil.rmtree(_arriving(meta["data_sha256"]), ignore_errors=True)
        raise UnverifiedError(f"dataset {meta['name']!r} was damaged in transfer: its content hash differs; run again")
    folder = cache_folder() / "prepared" / f"received-{meta['data_sha256'][:12]}"
    prepared.write(folder, meta["data_sha256"], parts, meta, None)
    return folder
