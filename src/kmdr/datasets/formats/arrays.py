"""Files of arrays: ``.npz``, ``.npy``, MATLAB's ``.mat`` and Matrix Market.

Sparse data are never made dense, and a ``.npy`` file is mapped, never read whole.
"""

import math
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse

from kmdr.base.errors import UserError, unknown
from kmdr.datasets.formats.reading import Content, afford, afford_shape, reading, unpacked

_POINTS, CLASSES = ("X", "A", "fea", "data"), ("y", "Y", "gnd", "labels", "label")
_NAMES = ("feature_names", "words")
_CSR = {"data", "indices", "indptr"}
_NUMBERS = {"double", "single", "logical", "sparse", *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64))}
_MAT_COMPRESSED, _PIECE_BYTES = 15, 2**14


def pick(path: Path, names: Sequence[str], matrix: str = "") -> str:
    """Return the name of the matrix among those in a file: the one asked for, or one that is known.

    Raises
    ------
    UserError
        There is no such name.
    """
    if matrix:
        if matrix not in names:
            raise unknown(f"matrix in {path.name}", matrix, names)
        return matrix
    present = [name for name in _POINTS if name in names]
    if not present:
        raise UserError(
            f"{path.name} has no matrix under a known name, only {', '.join(names) or 'nothing'}; "
            f"call the points {' or '.join(_POINTS)} and the labels {' or '.join(CLASSES)}, "
            "or name them with dataset.matrix=… and dataset.label=…"
        )
    return present[0]


def pick_classes(path: Path, names: Sequence[str], label: str = "", matrix: str = "") -> str:
    """Return the name of the labels among those in a file, likewise; empty where there are none."""
    if label and label not in names:
        raise unknown(f"array of labels in {path.name}", label, [name for name in names if name != matrix])
    return label or next((name for name in CLASSES if name in names and name != matrix), "")


def npz(path: Path, limit: float, matrix: str = "", label: str = "") -> Content:
    """Read numpy's archive of arrays: a matrix, or the parts of a sparse one."""
    with reading(path, "npz"):
        _refuse_claims(path, limit)
        with np.load(path, allow_pickle=False) as file:
            classes = pick_classes(path, file.files, label, matrix)
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
    """Refuse an npz file that names an array twice, or whose arrays would not fit, before any of them is unpacked."""
    if not zipfile.is_zipfile(path):
        raise UserError(f"{path.name} is not a readable npz file: it holds one array or none; name an array .npy")
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


def npy(path: Path, limit: float) -> Content:
    """Map an array."""
    del limit  # it may have any size
    with reading(path, "npy"):
        with path.open("rb") as file:
            np.lib.format.read_magic(file)  # anything else np.load would take for a pickle
        # An array of no bytes cannot be mapped.
        small = path.stat().st_size < 256
        if small and 0 in np.load(path, allow_pickle=False).shape:
            return Content(np.load(path, allow_pickle=False), form="npy")
        return Content(np.load(path, mmap_mode="r", allow_pickle=False), form="npy, used where it lies")


def mat(path: Path, limit: float, matrix: str = "", label: str = "") -> Content:
    """Read MATLAB's variables, of versions up to 7."""
    with reading(path, "MAT"):
        try:
            held = {name: (shape, kind) for name, shape, kind in scipy.io.whosmat(path)}
            points = pick(path, list(held), matrix)
            shape, kind = held[points]
            if kind not in _NUMBERS:
                raise UserError(f"{points} of {path.name} is of MATLAB's class {kind}; give a matrix of numbers")
            if kind == "sparse":
                afford_shape(path, shape, limit)
            else:
                claim = f"claims {points} of {' x '.join(map(str, shape))}"
                afford(path, claim, 8.0 * math.prod(map(int, shape)), limit)
            afford(path, "unpacks to too much, at least", _mat_bytes(path, limit), limit)
            classes = pick_classes(path, list(held), label, points)
            arrays = scipy.io.loadmat(path, variable_names=[points, classes] if classes else [points])
        except NotImplementedError as e:
            raise UserError(f"{path.name} is of MATLAB's version 7.3; save it with save(…, '-v7')") from e
        labels = arrays[classes] if classes else None
        return Content(arrays[points], labels, None, f"MATLAB, variable {points!r}", f"variable {classes!r}")


def _mat_bytes(path: Path, limit: float) -> int:
    """Bytes to which the variables of a MAT file unpack, counted until they are beyond the limit."""
    total = 0
    with path.open("rb") as file:
        head = file.read(128)
        if 0 in head[:4]:
            return 0  # of version 4, which knows no compression
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


def matrix_market(path: Path, limit: float) -> Content:
    """Read a matrix of the Matrix Market, sparse (``coordinate``) or dense (``array``); also compressed."""
    with reading(path, "Matrix Market"):
        for block in unpacked(path, limit):  # counted before any of it is kept
            if b"\0" in block:  # at which scipy's parser reads outside of its memory
                raise UserError(f"{path.name} is not a Matrix Market file: it has bytes of 0; write it again as text")
        n, d, entries, layout, field, symmetry = scipy.io.mminfo(str(path))
        if field == "complex":
            raise UserError(f"{path.name} holds complex numbers; a dataset is a matrix of real numbers")
        if layout == "array":
            afford(path, f"claims {n} x {d}", 8.0 * n * d, limit)
        else:
            afford_shape(path, (n, d), limit)
            # A row, a column and a value each; of a symmetric matrix one half is in the file.
            afford(path, f"claims {entries} entries", 24.0 * entries * (1 if symmetry == "general" else 2), limit)
        return Content(scipy.io.mmread(str(path), spmatrix=False), form=f"Matrix Market, {layout}, {field}, {symmetry}")
