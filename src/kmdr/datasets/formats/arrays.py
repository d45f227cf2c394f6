"""Read files of arrays: ``.npz``, ``.npy``, MATLAB's ``.mat`` and Matrix Market.

Sparse data stay sparse, and a ``.npy`` file is mapped, not read.
"""

import math
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse

from kmdr.base.errors import UserError, unknown
from kmdr.datasets.file_options import FileOptions
from kmdr.datasets.formats.common import Content, afford, afford_shape, reading, unpacked

POINTS, CLASSES = ("X", "A", "fea", "data"), ("y", "Y", "gnd", "labels", "label")
_NAMES = ("feature_names", "words")
_CSR = {"data", "indices", "indptr"}
_NUMBERS = {"double", "single", "logical", "sparse", *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64))}
_MAT_COMPRESSED, _PIECE_BYTES = 15, 2**14


def pick(path: Path, names: Sequence[str], matrix: str = "") -> str:
    """Return the name of the matrix among the names in a file: the requested one, or a usual one."""
    if matrix:
        if matrix not in names:
            raise unknown(f"matrix in {path.name}", matrix, names)
        return matrix
    present = [name for name in POINTS if name in names]
    if not present:
        raise UserError(
            f"{path.name} has no matrix with a usual name, only {', '.join(names) or 'nothing'}; "
            f"name the points {' or '.join(POINTS)} and the labels {' or '.join(CLASSES)}, "
            "or set dataset.matrix=… and dataset.label=…"
        )
    return present[0]


def pick_classes(path: Path, names: Sequence[str], label: str = "", matrix: str = "") -> str:
    """Return the name of the labels among the names in a file in the same way; empty if there are none."""
    if label and label not in names:
        raise unknown(f"array of labels in {path.name}", label, [name for name in names if name != matrix])
    return label or next((name for name in CLASSES if name in names and name != matrix), "")


def npz(path: Path, limit: float, options: FileOptions) -> Content:
    """Read a numpy archive of arrays: a matrix, or the parts of a sparse one."""
    matrix = options.matrix
    with reading(path, "npz"):
        _refuse_claims(path, limit)
        with np.load(path, allow_pickle=False) as file:
            classes = pick_classes(path, file.files, options.label, matrix)
            labels = file[classes] if classes else None
            features = next((tuple(map(str, file[name])) for name in _NAMES if name in file.files), None)
            shape = tuple(map(int, file["shape"])) if "shape" in file.files and not matrix else None
            if shape is not None:
                afford_shape(path, shape, limit)
            if "format" in file.files and shape is not None:
                A, points = scipy.sparse.load_npz(path), "sparse matrix"
            elif set(file.files) >= _CSR and not matrix:
                parts = (file["data"], file["indices"], file["indptr"])
                A, points = scipy.sparse.csr_array(parts, shape=shape), "parts of a sparse matrix"
            else:
                points = pick(path, file.files, matrix)
                A, points = file[points], f"matrix {points!r}"
            return Content(A, labels, features, f"npz, {points}", f"array {classes!r}")


def _refuse_claims(path: Path, limit: float) -> None:
    """Refuse an npz file with two arrays of one name, or with arrays above the limit, before unpacking any."""
    if not zipfile.is_zipfile(path):
        raise UserError(
            f"{path.name} is not a readable npz file: it holds one array or none; rename a single array to .npy"
        )
    needed = 0
    with zipfile.ZipFile(path) as archive:
        held = Counter(name.removesuffix(".npy") for name in archive.namelist())
        for name, count in held.items():
            if count > 1:
                raise UserError(f"{path.name} holds {count} arrays named {name!r}; keep one of them")
        for info in archive.infolist():
            claimed = 0
            with archive.open(info) as member:
                if info.filename.endswith(".npy") and np.lib.format.read_magic(member) < (2, 0):
                    shape, _, dtype = np.lib.format.read_array_header_1_0(member)
                    claimed = math.prod(shape) * dtype.itemsize
            needed += max(claimed, info.file_size)
    afford(path, "unpacks to too much", needed, limit)


def npy(path: Path, limit: float, options: FileOptions) -> Content:
    """Map an array. It may have any size, as it is not read."""
    del limit, options
    with reading(path, "npy"):
        A = map_npy(path)
        return Content(A, form="npy, mapped in place" if isinstance(A, np.memmap) else "npy")


def map_npy(path: Path) -> Any:
    """Map a ``.npy`` file read-only; return an ordinary array if it is empty, as an empty array cannot be mapped."""
    with path.open("rb") as file:
        np.lib.format.read_magic(file)  # np.load would take any other file for a pickle
    if path.stat().st_size < 256 and 0 in (A := np.load(path, allow_pickle=False)).shape:
        return A
    return np.load(path, mmap_mode="r", allow_pickle=False)


def mat(path: Path, limit: float, options: FileOptions) -> Content:
    """Read MATLAB variables, of versions up to 7."""
    with reading(path, "MAT"):
        held = {name: (shape, kind) for name, shape, kind in scipy.io.whosmat(path)}
        points = pick(path, list(held), options.matrix)
        shape, kind = held[points]
        if kind not in _NUMBERS:
            raise UserError(f"{points} of {path.name} is of MATLAB class {kind}; choose a matrix of numbers")
        if kind == "sparse":
            afford_shape(path, shape, limit)
        else:
            claim = f"claims {points} of {' x '.join(map(str, shape))}"
            afford(path, claim, 8.0 * math.prod(map(int, shape)), limit)
        afford(path, "unpacks to too much: at least", _mat_bytes(path, limit), limit)
        classes = pick_classes(path, list(held), options.label, points)
        arrays = scipy.io.loadmat(path, variable_names=[points, classes] if classes else [points])
        labels = arrays[classes] if classes else None
        return Content(arrays[points], labels, None, f"MATLAB, variable {points!r}", f"variable {classes!r}")


def _mat_bytes(path: Path, limit: float) -> int:
    """Return the bytes to which the variables of a MAT file unpack, counted up to the limit."""
    total = 0
    with path.open("rb") as file:
        head = file.read(128)
        if 0 in head[:4]:
            return 0  # version 4 has no compression
        order = "<" if head[126:] == b"IM" else ">"
        while len(tag := file.read(8)) == 8:
            kind, left = struct.unpack(f"{order}2I", tag)
            if kind != _MAT_COMPRESSED:
                file.seek(left, 1)
                continue
            unpacking = zlib.decompressobj()
            while left and total <= limit and (packed := file.read(min(left, _PIECE_BYTES))):
                left -= len(packed)
                total += len(unpacking.decompress(packed))
    return total


def matrix_market(path: Path, limit: float, options: FileOptions) -> Content:
    """Read a Matrix Market file, sparse (``coordinate``) or dense (``array``), which may be compressed."""
    del options
    with reading(path, "Matrix Market"):
        for block in unpacked(path, limit):  # counts its bytes before any of it is kept
            if b"\0" in block:  # makes scipy's parser read out of bounds
                raise UserError(f"{path.name} is not a Matrix Market file: it has bytes of 0; write it again as text")
        n, d, entries, layout, field, symmetry = scipy.io.mminfo(str(path))
        if field == "complex":
            raise UserError(f"{path.name} holds complex numbers; a dataset is a matrix of real numbers")
        if layout == "array":
            afford(path, f"claims {n} x {d}", 8.0 * n * d, limit)
        else:
            afford_shape(path, (n, d), limit)
            # One row, column and value per entry. The file has one half of a symmetric matrix.
            afford(path, f"claims {entries} entries", 24.0 * entries * (1 if symmetry == "general" else 2), limit)
        return Content(scipy.io.mmread(str(path), spmatrix=False), form=f"Matrix Market, {layout}, {field}, {symmetry}")
