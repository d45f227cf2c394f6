"""Check matrices and labels, and bring them to one form, whatever file they came from."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray

from kmdr.base.errors import UserError, check_memory
from kmdr.datasets.streamed import Streamed
from kmdr.linalg.matrix import read_only

_BLOCK_BYTES = 2**24
_REMEDY = "put a number there or drop the row"


def kept_type(A: Any) -> np.dtype[Any]:
    """Return the type in which a matrix is kept: float32 for float32, float64 for all other real numbers."""
    dtype: np.dtype[Any] = A.dtype
    if dtype.kind not in "biuf":
        held = {"O": "Python objects", "c": "complex numbers", "U": "text", "S": "text"}.get(dtype.kind, str(dtype))
        raise UserError(f"a matrix of {held} was given; a dataset is a matrix of real numbers")
    return np.dtype("<f4" if dtype.kind == "f" and dtype.itemsize == 4 else "<f8")


def blocks(A: NDArray[Any] | Streamed, dtype: np.dtype[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield blocks of rows in C order, with the number of their first row. A mapped file is never read whole."""
    rows = max(1, _BLOCK_BYTES // max(1, dtype.itemsize * int(np.prod(A.shape[1:]))))
    for start in range(0, len(A), rows):
        yield start, np.ascontiguousarray(A[start : start + rows], dtype)


def canonical(A: Any) -> Any:
    """Return read-only CSR with sorted indices, no duplicates or stored zeros, and 32-bit indices if they suffice.

    The same matrix then has the same parts whatever file it came from. A is never changed; the result shares its arrays
    if they are in this form already.
    """
    A = csr(A)
    dtype = kept_type(A)
    # Built from its parts, A has no flags about its order, which may be out of date.
    A = scipy.sparse.csr_array((A.data, A.indices, A.indptr), shape=A.shape)
    if not (A.has_canonical_format and A.data.all()):
        # Duplicate small integers are added in float64, as in csr, and duplicate booleans by "or", as in scipy.
        A = A.copy() if A.dtype == bool else A.astype(dtype, copy=True)
        A.sum_duplicates()
        A.eliminate_zeros()
    index = np.int32 if max(A.nnz, *A.shape) <= np.iinfo(np.int32).max else np.int64
    parts = A.data.astype(dtype, copy=False), *(part.astype(index, copy=False) for part in (A.indices, A.indptr))
    return read_only(scipy.sparse.csr_array(parts, shape=A.shape))


def unit_rows(A: Any) -> Any:
    """Scale each row to Euclidean length 1, without overflow or underflow; rows of zeros stay zero."""
    if isinstance(A, Streamed):
        # Infinite and missing values stay, and are refused later.
        return A.map_rows(lambda rows: unit_rows(rows) if np.isfinite(rows).all() else rows, A.shape[1], kept_type(A))
    sparse = bool(scipy.sparse.issparse(A))
    check_memory("the rows of unit length", A.nnz if sparse else A.size)
    A = A if sparse else np.asarray(A, kept_type(A))
    from sklearn.preprocessing import normalize  # takes half a second that other commands need not wait for

    largest = abs(A).max(axis=1)
    e = -np.frexp(largest.toarray().ravel() if sparse else largest)[1]  # a power of two changes no digit
    if not sparse:
        return normalize(np.ldexp(A, e[:, None]))
    data = np.ldexp(A.data, np.repeat(e, np.diff(A.indptr)))
    return scipy.sparse.csr_array(normalize(scipy.sparse.csr_array((data, A.indices, A.indptr), shape=A.shape)))


def tfidf_rows(A: Any) -> Any:
    """Weight counts by tf-idf, then scale each row to length 1 (scikit-learn's ``TfidfTransformer``).

    Negative entries, and a matrix that is so large that it is read in blocks, are refused.
    """
    if isinstance(A, Streamed):
        raise UserError("option rows is 'tfidf', but the matrix is dense and read in blocks; give it as a sparse one")
    if (A.data if scipy.sparse.issparse(A) else A).min(initial=0) < 0:
        raise UserError("option rows is 'tfidf', but there are negative entries, unlike in counts; use rows=unit")
    from sklearn.feature_extraction.text import TfidfTransformer

    weighted = scipy.sparse.csr_array(TfidfTransformer().fit_transform(A))
    return weighted if scipy.sparse.issparse(A) else weighted.toarray()


def is_canonical(A: Any) -> bool:
    """Return whether a CSR array is consistent and finite, with ascending and distinct indices in each row."""
    try:
        A.check_format(full_check=True)
    except ValueError:
        return False
    return bool(A.has_canonical_format and np.isfinite(A.data).all())


def csr(A: Any) -> Any:
    """Return a sparse matrix as read-only CSR, which may share the arrays of A; refuse inconsistent parts."""
    A = read_only(A)
    try:
        if A.format in ("csr", "csc", "bsr"):
            # Compiled code, including the conversion, relies on the indices: outside the shape, it would write
            # anywhere in memory.
            A.check_format(full_check=True)
        if A.dtype.str[1:] == "f2" or (A.format == "coo" and A.dtype.kind in "iu"):
            # scipy does not convert float16, and adds duplicates of uint8 modulo 256.
            A = A.astype(np.float64)
        return scipy.sparse.csr_array(A)
    except (ValueError, TypeError) as e:
        raise UserError(f"the parts of a sparse matrix are inconsistent: {e}") from e


def check(
    A: Any,
    labels: NDArray[Any] | None,
    nonnegative: bool = False,
    remedy: str = "",
    features: Sequence[str] | None = None,
    without_labels: str = "set dataset.labels=none",
) -> None:
    """Refuse data that are not a valid dataset. The matrix is read block by block.

    Refused are a matrix of fewer than two rows or one column; an entry that is NaN, infinite or, if counts or
    intensities are to be `nonnegative`, negative; a row of zeros in counts; labels of another
    length or of a single class. Sparse A is canonical. `remedy` says how to deal with NaN without changing the file,
    and `without_labels` how to cluster without labels.
    """
    if A.ndim != 2:
        raise UserError(f"an array of shape {A.shape} was given; a dataset is a matrix with one point per row")
    n, d = A.shape
    if n < 2 or d < 1:
        raise UserError(f"a matrix of {n} x {d} was given; a dataset has at least two points and one feature")
    sparse: bool = scipy.sparse.issparse(A)
    parts = [(0, A.data)] if sparse else blocks(A, kept_type(A))
    for start, block in parts:
        odd = ~np.isfinite(block)
        absent = odd.any() and np.isnan(block[odd][0])
        _refuse_entries(
            A, start, block, odd, "NaN or an infinite value", remedy if remedy and absent else _REMEDY, features
        )
        if nonnegative:
            _refuse_entries(
                A, start, block, block < 0, "a negative value", "counts are at least 0, so fix the file", features
            )
            if not sparse:
                _refuse_empty_rows(start, (block == 0).all(axis=1))
    if sparse and nonnegative:
        _refuse_empty_rows(0, np.diff(A.indptr) == 0)
    if labels is not None:
        if labels.shape != (n,):
            raise UserError(f"there are {labels.size} labels for {n} points; give one per point, or omit the labels")
        if (labels == labels[0]).all():
            raise UserError(
                f"all {n} points are of one class; give labels of at least two classes, or {without_labels}"
            )


def _refuse_entries(
    A: Any, start: int, block: NDArray[Any], bad: NDArray[np.bool_], what: str, remedy: str, names: Sequence[str] | None
) -> None:
    """Refuse a block in which an entry is bad."""
    if bad.any():
        first = int(bad.argmax())
        if bad.ndim == 1:
            row, column = int(np.searchsorted(A.indptr, first, "right")) - 1, int(A.indices[first])
        else:
            row, column = start + first // block.shape[1], first % block.shape[1]
        where = f"column {column}, counted from 0" if names is None else f"counted from 0, column {names[column]!r}"
        raise UserError(f"the matrix has {what} at row {row}, {where}; {remedy}")


def _refuse_empty_rows(start: int, empty: NDArray[np.bool_]) -> None:
    if empty.any():
        raise UserError(
            f"row {start + int(empty.argmax())}, counted from 0, has only zeros (number of such rows: "
            f"{int(empty.sum())}); drop them and their labels"
        )


def codes(labels: Any, where: str) -> NDArray[np.int64]:
    """Return classes of any type as integers from 0, in the sorted order of their values.

    The labels are a vector, a row or a column; errors call the data `where`.
    """
    array = np.asarray(labels)
    if array.dtype.kind == "f" and isinstance(labels, Sequence):
        exact = np.array(labels, dtype=object)  # integers in a list that numpy rounds to float64
        array = exact if any(isinstance(label, int) and int(float(label)) != label for label in exact.flat) else array
    if array.ndim == 0 or array.size != max(array.shape):
        raise UserError(f"the labels of {where} have shape {array.shape}; give one label per point")
    array = array.ravel()
    missing = pd.isna(array)
    if missing.any():
        raise UserError(
            f"the labels of {where} are missing at row {int(missing.argmax())}, counted from 0; fill it or drop the row"
        )
    if array.dtype == object:
        # Text from a table, or cells of a MAT file. An array of numpy strings would need the longest length for each.
        array = np.array([label_text(label) for label in array], dtype=object)
    return np.unique(array, return_inverse=True)[1].astype(np.int64)


def without_empty(labels: Any) -> Any:
    """Return labels in which an empty text is a missing label, as in tables.

    Texts of equal length, as in an array of numpy or of MATLAB, are filled up with spaces.
    """
    array = np.asarray(labels)
    if array.dtype.kind == "O":
        empty = np.array([_is_empty(label) for label in array.flat], bool).reshape(array.shape)
    elif array.dtype.kind in "US":
        empty = np.strings.str_len(np.strings.strip(array)) == 0
    else:
        return labels
    if not empty.any():
        return labels
    known = array.astype(object)
    known[empty] = None
    return known


def _is_empty(label: Any) -> bool:
    if isinstance(label, np.ndarray):  # a cell of a MAT file
        return label.size == 0 or (label.size == 1 and _is_empty(label.item()))
    return isinstance(label, str | bytes) and not label


def label_text(label: Any) -> str:
    """Return a label in an array of objects as text, the same for equal numbers such as 1 and 1.0."""
    if isinstance(label, str):
        return label
    value = np.squeeze(label)
    is_whole = value.ndim == 0 and value.dtype.kind == "f" and float(value).is_integer()
    return str(int(value)) if is_whole else str(value)
