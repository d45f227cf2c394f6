"""What every matrix and its labels must be before they are used, whatever file they came from."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray

from kmdr.base.errors import UserError, check_memory
from kmdr.datasets.streamed import Streamed
from kmdr.linalg.matrix import read_only

WITHOUT = "none"
"""The value of option ``labels`` that leaves out the labels that a file has."""

_BLOCK_BYTES = 2**24
_MEND = "put a number there or drop the row"


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


def blocks(A: NDArray[Any] | Streamed, dtype: np.dtype[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
    """First row and content of successive blocks of rows, in C order; so a mapped file is never in memory whole."""
    rows = max(1, _BLOCK_BYTES // max(1, dtype.itemsize * int(np.prod(A.shape[1:]))))
    for start in range(0, len(A), rows):
        yield start, np.ascontiguousarray(A[start : start + rows], dtype)


def canonical(A: Any) -> Any:
    """Return CSR with sorted indices, without duplicates or stored zeros, with 32-bit indices wherever they suffice.

    The same matrix then has the same parts whatever file it came from. The result is read-only. It shares the arrays of
    A where they are in this form already; A itself is never changed.

    Raises
    ------
    UserError
        The parts do not fit each other.
    """
    A = csr(A)
    dtype = kept_type(A)
    # Made of its parts, A carries no marks of its order, which may be out of date.
    A = scipy.sparse.csr_array((A.data, A.indices, A.indptr), shape=A.shape)
    if not (A.has_canonical_format and A.data.all()):
        # Duplicates of small integers are added up in float64, as in csr, and those of booleans by "or", as in scipy.
        A = A.copy() if A.dtype == bool else A.astype(dtype, copy=True)
        A.sum_duplicates()
        A.eliminate_zeros()
    index = np.int32 if max(A.nnz, *A.shape) <= np.iinfo(np.int32).max else np.int64
    parts = A.data.astype(dtype, copy=False), *(part.astype(index, copy=False) for part in (A.indices, A.indptr))
    return read_only(scipy.sparse.csr_array(parts, shape=A.shape))


def of_unit_length(A: Any) -> Any:
    """Scale each row to Euclidean length 1, whatever its scale; a row of zeros stays one.

    Raises
    ------
    UserError
        A copy of A does not fit into memory.
    """
    if isinstance(A, Streamed):
        # What is not finite is left to be refused.
        return A.each(lambda rows: of_unit_length(rows) if np.isfinite(rows).all() else rows, A.shape[1], kept_type(A))
    sparse = bool(scipy.sparse.issparse(A))
    check_memory("the rows of unit length", A.nnz if sparse else A.size)
    A = A if sparse else np.asarray(A, kept_type(A))
    from sklearn.preprocessing import normalize  # takes half a second that other commands need not wait for

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


def csr(A: Any) -> Any:
    """Return a sparse matrix as CSR, which may share the arrays of A, read-only; refuse parts that do not match."""
    A = read_only(A)
    try:
        if A.format in ("csr", "csc", "bsr"):
            # Compiled code takes the indices for granted, the conversion included: outside the shape they would be
            # writes to any place in memory.
            A.check_format(full_check=True)
        if A.dtype.str[1:] == "f2" or (A.format == "coo" and A.dtype.kind in "iu"):
            # scipy converts no float16, and adds up duplicates of uint8 modulo 256.
            A = A.astype(np.float64)
        return scipy.sparse.csr_array(A)
    except (ValueError, TypeError) as e:
        raise UserError(f"the parts of a sparse matrix do not fit each other: {e}") from e


def check(
    A: Any,
    labels: NDArray[Any] | None,
    nonnegative: bool = False,
    remedy: str = "",
    features: Sequence[str] | None = None,
) -> None:
    """Refuse what is no dataset; read block by block.

    Parameters
    ----------
    A : ndarray or Streamed of shape (n, d), or canonical csr_array
    labels : ndarray of shape (n,) or None
    nonnegative : bool
        Whether the entries are counts or intensities.
    remedy : str
        What is to be done about NaN, where it is more than to mend the data.
    features : sequence of str, optional
        Names of the columns.

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
        odd = ~np.isfinite(block)
        absent = odd.any() and np.isnan(block[odd][0])
        _entries(A, start, block, odd, "NaN or an infinite value", remedy if remedy and absent else _MEND, features)
        if nonnegative:
            _entries(
                A, start, block, block < 0, "a negative value", "counts are at least 0, so mend the file", features
            )
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


def _entries(
    A: Any, start: int, block: NDArray[Any], bad: NDArray[np.bool_], what: str, remedy: str, names: Sequence[str] | None
) -> None:
    if bad.any():
        first = int(bad.argmax())
        if bad.ndim == 1:
            row, column = int(np.searchsorted(A.indptr, first, "right")) - 1, int(A.indices[first])
        else:
            row, column = start + first // block.shape[1], first % block.shape[1]
        where = f"column {column}, counted from 0" if names is None else f"counted from 0, column {names[column]!r}"
        raise UserError(f"the matrix has {what} at row {row}, {where}; {remedy}")


def _rows(start: int, empty: NDArray[np.bool_]) -> None:
    if empty.any():
        raise UserError(
            f"row {start + int(empty.argmax())}, counted from 0, has no entry that is not 0 "
            f"(so have {int(empty.sum()) - 1} more); drop such rows and their labels"
        )


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
    if array.dtype.kind == "f" and isinstance(labels, Sequence):
        exact = np.array(labels, dtype=object)  # integers in a list that numpy rounds to float64
        array = exact if any(isinstance(label, int) and int(float(label)) != label for label in exact.flat) else array
    if array.ndim == 0 or array.size != max(array.shape):
        raise UserError(f"the labels of {where} have shape {array.shape}; give one label a point")
    array = array.ravel()
    missing = pd.isna(array)
    if missing.any():
        raise UserError(
            f"the labels of {where} have no value at row {int(missing.argmax())}, counted from 0; fill it or drop it"
        )
    if array.dtype == object:
        # Text from a table, or a cell of a MAT file. An array of numpy's text would take the longest for each point.
        texts = [label if isinstance(label, str) else str(np.squeeze(label)) for label in array]
        array = np.array(texts, dtype=object)
    return np.unique(array, return_inverse=True)[1].astype(np.int64)
