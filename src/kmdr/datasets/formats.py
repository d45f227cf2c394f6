"""Files of any matrix: reading them, and what every matrix must be before it is used.

`read` takes a user's file by its extension; `svmlight` reads LIBSVM's text files in blocks, so that memory is bounded
by the matrix and not by the text.

scikit-learn's ``load_svmlight_file`` would do with less code and less memory: of 3.8 million entries it took 16 B an
entry and a process of 10 s, ours 27 B and one of 6 s, so for the 60.9 million of the full RCV1 1.0 GB against 1.7 GB.
But it passes over a ``qid``, names no line of what it refuses, and knows no limit of memory, so that a small archive
which unpacks to terabytes ends the process.

Sparse data are never made dense, and a ``.npy`` file is mapped, never read whole.
"""

import bz2
import csv
import gzip
import importlib.util
import lzma
import math
import stat
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pandas as pd
import scipy.io
import scipy.sparse
from numpy.typing import NDArray
from sklearn.preprocessing import normalize

from kmdr.errors import UserError, check_memory, unknown

Loaded = tuple[Any, NDArray[np.int64] | None, tuple[str, ...] | None]
"""A (ndarray or CSR array, n x d), labels (n) counted from 0 or None, names of the features or None."""

WITHOUT = "none"
"""The value of option ``labels`` that leaves out the labels that a file has."""

_EXTENSIONS = {
    ".npz": "npz", ".npy": "npy", ".mat": "mat", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".pq": "parquet",
    ".svm": "svmlight", ".svmlight": "svmlight", ".libsvm": "svmlight", ".txt": "svmlight",
}  # fmt: skip
_COMPRESSED: dict[str, Callable[..., Any]] = {".bz2": bz2.open, ".gz": gzip.open, ".xz": lzma.open}
_POINTS, _CLASSES = ("X", "A", "fea", "data"), ("y", "Y", "gnd", "labels", "label")
_NAMES = ("feature_names", "words")
_CSR = {"data", "indices", "indptr"}
# From 3.1 pandas reads numbers exactly anyhow, and warns of the option.
_PANDAS = tuple(int(number) for number in pd.__version__.split(".")[:2])
_EXACT: dict[str, Any] = {} if _PANDAS >= (3, 1) else {"float_precision": "round_trip"}
_BLOCK_BYTES = 2**24
_READ_BYTES, _LINE_BYTES = 2**22, 2**26
# What a file claims to hold or unpacks to may be so many times its size, where that is more than option ``max_gb``.
_PLAUSIBLE = 20
_MAX_GB = 0.5
_HEAD_BYTES, _MAX_COLUMNS = 2**24, 200_000
_NUMBERS = {"double", "single", "logical", "sparse", *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64))}
_MAT_COMPRESSED, _PIECE_BYTES = 15, 2**14
_KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
_LARGEST_INDEX = 2**31 - 2


def read(
    path: str | Path | Sequence[str | Path],
    *,
    labels: str = "",
    label: str = "",
    format: str = "",  # noqa: A002  the user's name for it
    d: int = 0,
    max_gb: float = _MAX_GB,
) -> Loaded:
    """Read a file of the user's.

    Parameters
    ----------
    path : path or sequence of paths
        The file; of svmlight files there may be several, whose rows follow each other.
    labels : str
        A second file with the labels, ``.npy`` or text of one label a line; ``"none"`` leaves out those of the file.
    label : str
        The column of a table that holds the labels; by default ``label``, where there is such a column.
    format : str
        ``"npz"``, ``"npy"``, ``"mat"``, ``"svmlight"``, ``"csv"``, ``"tsv"`` or ``"parquet"``; by default what the
        extension says.
    d : int
        Features of svmlight files; by default as many as occur.
    max_gb : float
        Most gigabytes (10^9 bytes) that the matrix of a compressed file, or one of a claimed shape, may take in memory
        where that is over 20 times the size of the file. A mapped ``.npy`` file may have any size.

    Returns
    -------
    A : ndarray or csr_array of shape (n, d)
        As stored; a ``.npy`` file is mapped.
    labels : ndarray of shape (n,) or None
        Classes, whatever they are in the file, counted from 0 in their sorted order.
    features : tuple of str or None

    Raises
    ------
    UserError
        The file cannot be read, or not as such a matrix.
    """
    paths = [Path(path)] if isinstance(path, str | Path) else [Path(file) for file in path]
    kinds = {format or _format(file) for file in paths}
    kind = next(iter(kinds))
    if kind not in _READERS:
        raise unknown("format of a dataset's file", kind, _READERS)
    if len(paths) > 1 and kinds != {"svmlight"}:
        raise UserError(f"{len(paths)} files were given; only svmlight files may be several, so join them into one")
    if label and kind not in _TABLES:
        raise UserError(f"option label is {label!r}, but {paths[0].name} is no table with columns; use option labels")
    for file in paths:
        refuse_irregular(file)
    limit = _limit(paths, max_gb)
    if kind in _TABLES:
        A, given, features = _TABLES[kind](paths[0], label, limit)
    elif kind == "svmlight":
        A, given, features = *svmlight(*paths, d=d, limit=limit), None
    else:
        A, given, features = _MATRICES[kind](paths[0], limit)
    if labels:
        given = None if labels == WITHOUT else _label_file(Path(labels))
    return A, None if given is None else codes(given, paths[0].name), features


def refuse_irregular(path: Path) -> None:
    """Refuse a folder, a pipe, a device or a socket, which may never end or never begin; a file may be absent."""
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except FileNotFoundError:
        return
    except OSError as e:
        raise UserError(f"{path} cannot be read ({e.strerror}); name a file that can") from e
    if kind != stat.S_IFREG:
        raise UserError(f"{path} is {_KINDS.get(kind, 'a device')}; name a regular file")


def _limit(paths: Sequence[Path], max_gb: float) -> float:
    """Bytes that the matrix of some files may take in memory."""
    if not max_gb > 0:
        raise UserError(f"option max_gb is {max_gb}; give a number over 0")
    return max(max_gb * 1e9, _PLAUSIBLE * sum(path.stat().st_size for path in paths if path.exists()))


def _afford(path: Path, what: str, needed: float, limit: float) -> None:
    if needed > limit:
        raise UserError(
            f"{path.name} {what}: {needed / 1e9:.3g} GB, where {limit / 1e9:.3g} GB are allowed for a file of its "
            "size; where that is right, allow more with dataset.max_gb=…"
        )


def _afford_shape(path: Path, shape: Sequence[int], limit: float) -> None:
    """Refuse a sparse matrix by its shape alone: every method needs at least a number a row and a number a column."""
    _afford(path, f"claims the shape {' x '.join(map(str, shape))}", 8.0 * sum(map(int, shape)), limit)


def codes(labels: Any, where: str) -> NDArray[np.int64]:
    """Classes of any kind as whole numbers from 0, in the sorted order of their values.

    Parameters
    ----------
    labels : array of n entries
        Numbers or text, as a vector, a row or a column.
    where : str
        What the sentence of an error names.

    Returns
    -------
    ndarray of shape (n,)

    Raises
    ------
    UserError
        There is a point without a label, or it is no vector.
    """
    array = np.asarray(labels)
    if array.ndim == 0 or array.size != max(array.shape):
        raise UserError(f"the labels of {where} have shape {array.shape}; give one label a point")
    array = array.ravel()
    missing = pd.isna(array)
    if missing.any():
        raise UserError(f"the labels of {where} have no value at row {int(missing.argmax())}, counted from 0; fill it")
    if array.dtype == object:
        # Text from a table, or a cell of a MAT file. An array of numpy's text would take the longest for each point.
        texts = [label if isinstance(label, str) else str(np.squeeze(label)) for label in array]
        array = np.array(texts, dtype=object)
    return np.unique(array, return_inverse=True)[1].astype(np.int64)


# --- what every matrix must be --------------------------------------------------------------------------------------


def kept_type(A: Any) -> np.dtype[Any]:
    """Type in which a matrix is kept: float32 as it is, every other real number as float64.

    Raises
    ------
    UserError
        Its entries are no real numbers.
    """
    dtype: np.dtype[Any] = A.dtype
    if dtype.kind not in "biuf":
        held = {"O": "Python objects", "c": "complex numbers", "U": "text", "S": "text"}.get(dtype.kind, str(dtype))
        raise UserError(f"a matrix of {held} was given; a dataset is a matrix of real numbers")
    return np.dtype("<f4" if dtype.kind == "f" and dtype.itemsize == 4 else "<f8")


def blocks(A: NDArray[Any], dtype: np.dtype[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
    """First row and content of successive blocks of rows, in C order; so a mapped file is never in memory whole."""
    rows = max(1, _BLOCK_BYTES // max(1, dtype.itemsize * int(np.prod(A.shape[1:]))))
    for start in range(0, len(A), rows):
        yield start, np.ascontiguousarray(A[start : start + rows], dtype)


def canonical(A: Any) -> Any:
    """CSR with sorted indices, without duplicates or stored zeros, with the index type that scipy would choose.

    The same matrix has then the same parts whatever file it came from; and with any other index type, mapping it would
    make a copy. The parts of A are changed in place where they can be.

    Raises
    ------
    UserError
        The parts do not fit each other.
    """
    A = _csr(A).astype(kept_type(A), copy=False)
    A.sum_duplicates()
    A.eliminate_zeros()
    return scipy.sparse.csr_array((A.data, A.indices, A.indptr), shape=A.shape)


def of_unit_length(A: Any) -> Any:
    """Scale each row to Euclidean length 1, whatever its scale; a row of zeros stays one.

    Raises
    ------
    UserError
        A copy of A does not fit into memory.
    """
    sparse = bool(scipy.sparse.issparse(A))
    check_memory("the rows of unit length", A.nnz if sparse else A.size)
    A = A if sparse else np.asarray(A, kept_type(A))
    largest = abs(A).max(axis=1)
    e = -np.frexp(largest.toarray().ravel() if sparse else largest)[1]  # powers of two change no digit
    if not sparse:
        return normalize(np.ldexp(A, e[:, None]))
    data = np.ldexp(A.data, np.repeat(e, np.diff(A.indptr)))
    return scipy.sparse.csr_array(normalize(scipy.sparse.csr_array((data, A.indices, A.indptr), shape=A.shape)))


def is_canonical(A: Any) -> bool:
    """Whether the parts of a CSR array fit each other, ascend in each row without a repetition, and are finite."""
    try:
        A.check_format(full_check=True)
    except ValueError:
        return False
    return bool(A.has_canonical_format and np.isfinite(A.data).all())


def _csr(A: Any) -> Any:
    try:
        if A.format in ("csr", "csc", "bsr"):
            # Compiled code takes the indices for granted, the conversion included: outside the shape they would be
            # writes to any place in memory.
            A.check_format(full_check=True)
        return scipy.sparse.csr_array(A)
    except (ValueError, TypeError) as e:
        raise UserError(f"the parts of a sparse matrix do not fit each other: {e}") from e


def check(A: Any, labels: NDArray[Any] | None, nonnegative: bool = False) -> None:
    """Refuse what is no dataset; read block by block.

    Parameters
    ----------
    A : ndarray of shape (n, d) or canonical csr_array
    labels : ndarray of shape (n,) or None
    nonnegative : bool
        Whether the entries are counts or intensities.

    Raises
    ------
    UserError
        Not a matrix of at least two rows and one column; an entry that is NaN, infinite or, for counts, negative; a
        row of a sparse matrix or of counts that has no entry; labels of another length or of one class.
    """
    if A.ndim != 2:
        raise UserError(f"an array of shape {A.shape} was given; a dataset is a matrix with one point a row")
    n, d = A.shape
    if n < 2 or d < 1:
        raise UserError(f"a matrix of {n} x {d} was given; a dataset has at least two points and one feature")
    sparse: bool = scipy.sparse.issparse(A)
    parts = [(0, A.data)] if sparse else blocks(A, kept_type(A))
    for start, block in parts:
        _entries(A, start, block, ~np.isfinite(block), "NaN or an infinite value", "put a number there or drop the row")
        if nonnegative:
            _entries(A, start, block, block < 0, "a negative value", "counts are at least 0, so mend the file")
            if not sparse:
                _rows(start, (block == 0).all(axis=1))
    if sparse:
        _rows(0, np.diff(A.indptr) == 0)
    if labels is not None:
        if labels.shape != (n,):
            raise UserError(f"there are {labels.size} labels for {n} points; give one a point, or leave the labels out")
        if (labels == labels[0]).all():
            raise UserError(
                f"all {n} points are of one class; give labels of at least two classes, or none (labels={WITHOUT})"
            )


def _entries(A: Any, start: int, block: NDArray[Any], bad: NDArray[np.bool_], what: str, remedy: str) -> None:
    if bad.any():
        first = int(bad.argmax())
        if bad.ndim == 1:
            row, column = int(np.searchsorted(A.indptr, first, "right")) - 1, int(A.indices[first])
        else:
            row, column = start + first // block.shape[1], first % block.shape[1]
        raise UserError(f"the matrix has {what} at row {row}, column {column}, counted from 0; {remedy}")


def _rows(start: int, empty: NDArray[np.bool_]) -> None:
    if empty.any():
        raise UserError(
            f"row {start + int(empty.argmax())}, counted from 0, has no entry that is not 0 "
            f"(so have {int(empty.sum()) - 1} more); drop such rows and their labels"
        )


# --- one function a format ------------------------------------------------------------------------------------------


def _format(path: Path) -> str:
    *rest, last = [suffix.lower() for suffix in path.suffixes] or [""]
    if last in _COMPRESSED:
        # LIBSVM's compressed files have no extension of their own: sector.t.bz2, rcv1_train.multiclass.bz2.
        return {".csv": "csv", ".tsv": "tsv"}.get(rest[-1] if rest else "", "svmlight")
    if last not in _EXTENSIONS:
        raise UserError(
            f"the extension of {path.name!r} says no format; name it with option format, one of {', '.join(_READERS)}"
        )
    return _EXTENSIONS[last]


@contextmanager
def _reading(path: Path, kind: str) -> Iterator[None]:
    """Make one sentence of whatever a library raises on a file that is damaged or something else."""
    try:
        yield
    except UserError:
        raise
    except FileNotFoundError as e:
        raise UserError(f"there is no file {path}") from e
    except Exception as e:  # the libraries let every kind of error through when a file is damaged
        if any(words in str(e) for words in ("allow_pickle", "pickled data", "Python objects in dtype")):
            raise UserError(
                f"{path.name} holds Python objects, which could run any code when read; save plain numbers"
            ) from e
        raise UserError(f"{path.name} is not a readable {kind} file: {' '.join(str(e).split())}") from e


def _npz(path: Path, limit: float) -> tuple[Any, Any, tuple[str, ...] | None]:
    with _reading(path, "npz"):
        _refuse_claims(path, limit)
        with np.load(path, allow_pickle=False) as file:
            labels = next((file[name] for name in _CLASSES if name in file.files), None)
            features = next((tuple(map(str, file[name])) for name in _NAMES if name in file.files), None)
            shape = tuple(map(int, file["shape"])) if "shape" in file.files else None
            if shape is not None:
                _afford_shape(path, shape, limit)
            if "format" in file.files and shape is not None:
                return _csr(scipy.sparse.load_npz(path)), labels, features
            if set(file.files) >= _CSR:
                parts = (file["data"], file["indices"], file["indptr"])
                return scipy.sparse.csr_array(parts, shape=shape), labels, features
            return file[_pick(path, file.files)], labels, features


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
    _afford(path, "unpacks to too much", needed, limit)


def _pick(path: Path, names: Sequence[str]) -> str:
    present = [name for name in _POINTS if name in names]
    if not present:
        raise UserError(
            f"{path.name} has no matrix under a known name, only {', '.join(names) or 'nothing'}; "
            f"call the points {' or '.join(_POINTS)} and the labels {' or '.join(_CLASSES)}"
        )
    return present[0]


def _npy(path: Path, limit: float) -> tuple[Any, None, None]:
    del limit  # it is mapped
    with _reading(path, "npy"):
        with path.open("rb") as file:
            np.lib.format.read_magic(file)  # anything else np.load would take for a pickle
        # An array of no bytes cannot be mapped.
        small = path.stat().st_size < 256
        if small and 0 in np.load(path, allow_pickle=False).shape:
            return np.load(path, allow_pickle=False), None, None
        return np.load(path, mmap_mode="r", allow_pickle=False), None, None


def _mat(path: Path, limit: float) -> tuple[Any, Any, None]:
    with _reading(path, "MAT"):
        try:
            held = {name: (shape, kind) for name, shape, kind in scipy.io.whosmat(path)}
            points = _pick(path, list(held))
            shape, kind = held[points]
            if kind not in _NUMBERS:
                raise UserError(f"{points} of {path.name} is of MATLAB's class {kind}; give a matrix of numbers")
            if kind == "sparse":
                _afford_shape(path, shape, limit)
            else:
                claim = f"claims {points} of {' x '.join(map(str, shape))}"
                _afford(path, claim, 8.0 * math.prod(map(int, shape)), limit)
            _afford(path, "unpacks to too much, at least", _mat_bytes(path, limit), limit)
            classes = next((name for name in _CLASSES if name in held), None)
            arrays = scipy.io.loadmat(path, variable_names=[points, classes] if classes else [points])
        except NotImplementedError as e:
            raise UserError(f"{path.name} is of MATLAB's version 7.3; save it with save(…, '-v7')") from e
        A = _csr(arrays[points]) if scipy.sparse.issparse(arrays[points]) else arrays[points]
        return A, None if classes is None else arrays[classes], None


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


def _csv(path: Path, label: str, limit: float, separator: str = ",") -> Any:
    with _reading(path, "CSV"):
        head, second = _first_lines(path, separator, limit)
        # A first line of numbers is a point, not names. Its columns are then called 0, 1, …
        named = not all(map(_is_number, head))
        if len(second) > len(head):
            # pandas would take the first column for the names of the rows.
            raise UserError(
                f"the first line of {path.name} has {len(head)} columns and the second has {len(second)}; "
                "let the first name every column, and no line end with a separator"
            )
        frame = pd.read_csv(path, sep=separator, header=0 if named else None, **_EXACT)
    return _table(path, frame, label)


def _first_lines(path: Path, separator: str, limit: float) -> tuple[list[str], list[str]]:
    """Cells of the first two lines of a table, once the whole is known to fit; read in blocks."""
    compressed = _COMPRESSED.get(path.suffix.lower())
    with compressed(path, "rb") if compressed else path.open("rb") as file:
        lines = [file.readline(_HEAD_BYTES + 1), file.readline(_HEAD_BYTES + 1)]
        columns = lines[0].count(separator.encode()) + 1
        if len(lines[0]) > _HEAD_BYTES or columns > _MAX_COLUMNS:
            raise UserError(
                f"{path.name} has a first line of {len(lines[0])} bytes or more and {columns} columns or more, where "
                f"{_HEAD_BYTES} and {_MAX_COLUMNS} are allowed; save so wide a matrix as .npy or .npz"
            )
        block, rows = b"".join(lines), 0
        while block:
            if b"\0" in block:
                raise UserError(f"{path.name} is not a readable CSV file: it has bytes of 0; save it as UTF-8 text")
            rows += block.count(b"\n")
            _afford(path, f"unpacks to at least {rows} lines of {columns} columns", 8.0 * rows * columns, limit)
            block = file.read(_READ_BYTES)
    texts = [lines[0].decode("utf-8-sig"), lines[1].decode("utf-8")]
    head, second = (next(csv.reader([text], delimiter=separator), []) for text in texts)
    return head, second


def _tsv(path: Path, label: str, limit: float) -> Any:
    return _csv(path, label, limit, "\t")


def _parquet(path: Path, label: str, limit: float) -> Any:
    if importlib.util.find_spec("pyarrow") is None:
        raise UserError(f"{path.name} needs pyarrow to be read; install it with: pip install 'kmdr[parquet]'")
    with _reading(path, "Parquet"):
        texts = _afford_parquet(path, limit)
        frame = pd.read_parquet(path, engine="pyarrow", read_dictionary=texts)
    return _table(path, frame, label)


def _afford_parquet(path: Path, limit: float) -> list[str]:
    """Refuse a Parquet file by what its end claims, before any of it is unpacked; return its columns of text.

    Text that repeats takes next to nothing in the file, whatever its length, so it is to be read as codes.
    """
    parquet = importlib.import_module("pyarrow.parquet")
    with parquet.ParquetFile(path) as file:
        held = file.metadata
        columns = [held.schema.column(i) for i in range(held.num_columns)]
        groups = [held.row_group(i) for i in range(held.num_row_groups)]
    needed = 0
    for group in groups:
        for i, column in enumerate(columns):
            chunk = group.column(i)
            needed += max(chunk.total_uncompressed_size, chunk.num_values * max(8, column.length or 0))
    _afford(path, f"claims {held.num_rows} rows of {len(columns)} columns", needed, limit)
    return [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]


def _table(path: Path, frame: pd.DataFrame, label: str) -> Any:
    frame.columns = frame.columns.map(str)
    if label and label not in frame.columns:
        raise unknown(f"column of {path.name}", label, list(frame.columns))
    column = label or "label"
    labels = _classes(frame.pop(column)) if column in frame.columns else None
    for name, dtype in zip(frame.columns, frame.dtypes, strict=True):
        if not pd.api.types.is_numeric_dtype(dtype) or pd.api.types.is_complex_dtype(dtype):
            raise UserError(
                f"column {name!r} of {path.name} does not hold numbers only; "
                "drop it, or name it with option label if it is the classes"
            )
    kept = np.float32 if len(frame.columns) and (frame.dtypes == np.float32).all() else np.float64
    return frame.to_numpy(kept, na_value=np.nan), labels, tuple(frame.columns)


def _classes(column: pd.Series) -> NDArray[Any]:
    """Return a column of labels; where it is kept as codes, with one text for all points of a class."""
    if not isinstance(column.dtype, pd.CategoricalDtype):
        return column.to_numpy()
    classes = [*column.cat.categories, None]
    return np.array(classes, dtype=object)[column.cat.codes]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _label_file(path: Path) -> Any:
    with _reading(path, "label"):
        if path.suffix.lower() == ".npy":
            return np.load(path, allow_pickle=False)
        lines = [line.strip() for line in path.read_text("utf-8").split("\n")]
        array = np.array(lines[:-1] if lines[-1] == "" else lines, dtype=object)
    return array.astype(np.float64) if all(map(_is_number, array)) else array


_MATRICES: Mapping[str, Callable[[Path, float], tuple[Any, Any, Any]]] = {"npz": _npz, "npy": _npy, "mat": _mat}
_TABLES: Mapping[str, Callable[[Path, str, float], tuple[Any, Any, Any]]] = {
    "csv": _csv,
    "tsv": _tsv,
    "parquet": _parquet,
}
_READERS = (*_MATRICES, "svmlight", *_TABLES)


# --- svmlight -------------------------------------------------------------------------------------------------------


def svmlight(*paths: Path, d: int = 0, limit: float = math.inf) -> tuple[Any, NDArray[np.int64]]:
    """Text of one ``label index:value …`` a line, as LIBSVM distributes it; also compressed by bz2, gz or xz.

    Read in blocks of a few MiB: beyond the matrix itself, memory grows by no more than its largest part.

    Parameters
    ----------
    *paths : Path
        The rows of the files follow each other. Indices count from 0 where any of the files has an index 0, else
        from 1.
    d : int
        Features; by default as many as occur.
    limit : float
        Most bytes that the matrix may take in memory.

    Returns
    -------
    A : csr_array of shape (n, d)
        float64, each value as Python reads it.
    labels : ndarray of shape (n,)
        Classes counted from 0, in the order of their numbers.

    Raises
    ------
    UserError
        A file is damaged, or a line is not of that form, with its number; several labels a line; ``qid``; indices out
        of order or beyond d.
    """
    parts: list[tuple[NDArray[Any], ...]] = []
    held = 0
    for path in paths:
        line = 1
        for text in whole_lines(path):
            part, lines = _parsed(path, np.frombuffer(text, np.uint8), line)
            parts.append(part)
            line += lines
            held += sum(array.nbytes for array in part)
            _afford(path, f"unpacks to at least {line - 1} lines", held, limit)
    # One part after the other is joined and its blocks let go, which bounds the memory.
    classes, counts, indices, values = ([part[i] for part in parts] for i in range(4))
    del parts
    joined = _joined(indices, np.int32)
    first = 0 if (joined == 0).any() else 1
    joined -= first
    widest = int(joined.max(initial=-1)) + 1
    if d and widest > d:
        raise UserError(f"{paths[0].name} has feature {widest - 1 + first}, but there are only {d}")
    _afford_shape(paths[0], (sum(map(len, classes)), d or widest), limit)
    data = _joined(values, np.float64)
    indptr = np.concatenate([[0], np.cumsum(_joined(counts, np.int64))])
    if indptr[-1] <= np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)
    A = scipy.sparse.csr_array((data, joined, indptr), shape=(len(indptr) - 1, d or widest))
    labels = _joined(classes, np.float64)
    return A, codes(labels, paths[0].name) if len(labels) else labels.astype(np.int64)


def _joined(pieces: list[NDArray[Any]], dtype: type) -> NDArray[Any]:
    whole = np.concatenate(pieces) if pieces else np.empty(0, dtype)
    pieces.clear()
    return whole


def whole_lines(path: Path) -> Iterator[bytes]:
    """Text of a file in blocks that end with a line."""
    with _reading(path, "svmlight"), _COMPRESSED.get(path.suffix.lower(), open)(path, "rb") as file:
        rest = b""
        try:
            while block := file.read(_READ_BYTES):
                head, newline, tail = block.rpartition(b"\n")
                if newline:
                    yield rest + head + newline
                    rest = tail
                else:
                    rest += block
                if len(rest) > _LINE_BYTES:
                    raise UserError(f"{path.name} is not a readable svmlight file: a line is over {_LINE_BYTES} bytes")
        except (EOFError, zlib.error, lzma.LZMAError, OSError) as e:
            raise UserError(f"{path.name} is damaged or cut off ({e}); get it again") from e
        if rest:
            yield rest + b"\n"


_MALFORMED, _QUERY, _SEVERAL, _UNLABELLED, _BEYOND, _UNSORTED = range(1, 7)
_SAID = {
    _MALFORMED: "is not of the form 'label index:value index:value …'",
    _QUERY: "has a qid, which belongs to ranking; remove it",
    _SEVERAL: "has several labels; each point must be of one class",
    _UNLABELLED: "has no label",
    _BEYOND: f"has an index beyond {_LARGEST_INDEX}",
    _UNSORTED: "has indices that do not ascend",
}


def _parsed(path: Path, text: NDArray[np.uint8], line: int) -> tuple[tuple[NDArray[Any], ...], int]:
    """Labels, entries a row, indices and values of some lines, and how many they are; `line` numbers the first."""
    lines, colons = int(np.count_nonzero(text == ord("\n"))), int(np.count_nonzero(text == ord(":")))
    labels, counts = np.empty(lines), np.empty(lines, np.int64)
    indices, values = np.empty(colons, np.int32), np.empty(colons)
    left = np.empty((lines + colons, 3), np.int64)
    rows, entries, n_left, wrong, at = _parse(text, labels, counts, indices, values, left)
    for target, start, stop in left[:n_left]:
        token = text[start:stop].tobytes()
        try:
            number = float(token.replace(b"_", b"?"))  # 1_0 is a number to Python only
        except ValueError:
            wrong, at = wrong or _MALFORMED, min(at, int(start)) if wrong else int(start)
            break
        if target < 0:
            labels[-1 - target] = number
        else:
            values[target] = number
    if wrong:
        number_of_line = line + int(np.count_nonzero(text[:at] == ord("\n")))
        raise UserError(f"line {number_of_line} of {path.name} {_SAID[wrong]}")
    return (labels[:rows], counts[:rows], indices[:entries], values[:entries]), lines


_TENS = 10.0 ** np.arange(23)


@numba.njit(cache=True)
def _number(text: Any, i: int) -> Any:  # noqa: PLR0912  a scanner
    """Read a decimal number at i: its value, where it ends, and whether the value is exact.

    With a mantissa below 2^53 and a power of ten up to 10^22 both are doubles without error, and one multiplication or
    division rounds as it should. All other numbers are left to the caller.
    """
    start = i
    negative = text[i] == 45
    if text[i] in (43, 45):
        i += 1
    mantissa, digits, power = 0, 0, 0
    first = i
    while 48 <= text[i] <= 57:
        if digits < 18:
            mantissa = 10 * mantissa + (text[i] - 48)
        digits += digits > 0 or text[i] != 48
        i += 1
    n = i - first
    if text[i] == 46:
        i += 1
        first = i
        while 48 <= text[i] <= 57:
            if digits < 18:
                mantissa = 10 * mantissa + (text[i] - 48)
            digits += digits > 0 or text[i] != 48
            i += 1
        n += i - first
        power = first - i
    if n > 0 and text[i] in (69, 101):
        i += 1
        sign = -1 if text[i] == 45 else 1
        if text[i] in (43, 45):
            i += 1
        first = i
        written = 0
        while 48 <= text[i] <= 57:
            written = min(10 * written + (text[i] - 48), 100_000)
            i += 1
        if i == first:
            n = 0
        power += sign * written
    exact = n > 0 and digits <= 18 and mantissa <= 2**53 and -22 <= power <= 22
    while text[i] not in (9, 10, 13, 32, 35, 44, 58):  # something else follows: the caller will see
        exact = False
        i += 1
    value = 0.0
    if exact:
        value = mantissa * _TENS[power] if power >= 0 else mantissa / _TENS[-power]
        if negative:
            value = -value
    return value, i, exact and i > start


@numba.njit(cache=True)
def _parse(  # noqa: PLR0911, PLR0912  a scanner
    text: Any, labels: Any, counts: Any, indices: Any, values: Any, left: Any
) -> Any:
    """Fill the arrays from whole lines; `left` gets target, start and stop of each number left to the caller."""
    i = row = entry = n_left = 0
    while i < len(text):
        while text[i] in (9, 13, 32):
            i += 1
        if text[i] not in (10, 35):
            start = i
            value, i, exact = _number(text, i)
            if text[i] == 44:
                return row, entry, n_left, _SEVERAL, i
            if text[i] == 58 or i == start:
                return row, entry, n_left, _UNLABELLED, i
            labels[row] = value
            if not exact:
                left[n_left] = -1 - row, start, i
                n_left += 1
            before, index_before = entry, -1
            while True:
                while text[i] in (9, 13, 32):
                    i += 1
                if text[i] in (10, 35):
                    break
                if text[i] == 113:  # q
                    return row, entry, n_left, _QUERY, i
                start, index = i, 0
                while 48 <= text[i] <= 57:
                    index = min(10 * index + (text[i] - 48), 2**40)
                    i += 1
                if i == start or text[i] != 58:
                    return row, entry, n_left, _MALFORMED, i if text[i] != 10 else start
                if index > _LARGEST_INDEX:
                    return row, entry, n_left, _BEYOND, i
                if index <= index_before:
                    return row, entry, n_left, _UNSORTED, i
                index_before = index
                indices[entry] = index
                start = i + 1
                value, i, exact = _number(text, start)
                if i == start or text[i] in (44, 58):
                    return row, entry, n_left, _MALFORMED, start - 1
                values[entry] = value
                if not exact:
                    left[n_left] = entry, start, i
                    n_left += 1
                entry += 1
            counts[row] = entry - before
            row += 1
        while text[i] != 10:  # a comment
            i += 1
        i += 1
    return row, entry, n_left, 0, 0
