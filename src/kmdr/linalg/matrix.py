"""Matrices, dense or CSR, and the few operations on them that every reducer shares.

A dense matrix of more than `WHOLE` entries counts as out-of-core (`is_out_of_core`): it may be a mapped file, is read
in blocks of rows, and is never copied.
"""

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import Any, TypeAlias, TypeVar

import numba
import numpy as np
import scipy.sparse as sp

from kmdr.base.errors import ArgumentError, memory
from kmdr.base.paths import cache_folder

Dense: TypeAlias = np.ndarray
Matrix: TypeAlias = np.ndarray | sp.csr_array
T = TypeVar("T", bound=Matrix)

# A dense matrix of up to WHOLE entries may be copied, as float64 if need be (256 MB). A larger one is read in blocks of
# BLOCK entries (32 MB), however much memory there is, so that sums, and all results, are the same on every machine.
WHOLE = 1 << 25
BLOCK = 1 << 22
# Entries of an out-of-core matrix that are read at a time if each is used only once: their temporary copies stay in a
# second-level cache, while a block takes new pages (variances of 20,000×4096 in float32: 0.9 s against 3.0 s).
CACHED = 1 << 16
# Out-of-core matrices are mapped in blocks of a multiple of this many rows.
_ROWS = 1024
# A result of at most this many bytes is always in memory.
_HELD = 8 * WHOLE
# Rows that are added to a column's sums while these are in registers (4: 1.1 times as long; 16: the same).
_TOGETHER = 8
# Everything computed from A has degree at most 4 in A, and degree 1 in float32. While ‖A‖² lies between these bounds,
# nothing over- or underflows.
_SAFE = 2.0**-128, 2.0**128


def read_only(A: Any) -> Any:
    """Return a read-only view of an array or sparse matrix; anything else is returned as it is.

    Many methods of scipy's sparse matrices, such as ``abs`` and ``max``, sort and merge entries in place, and a
    converted matrix may share the index arrays of the original. With read-only arrays neither happens unnoticed.
    """
    if isinstance(A, np.ndarray):
        view = A.view()
        view.flags.writeable = False
        return view
    if not sp.issparse(A):
        return A
    if A.format in ("lil", "dok"):  # they hold Python lists and numbers; the converted matrix shares nothing
        return read_only(A.tocsr())
    B = copy(A)
    for name, part in vars(A).items():
        # The coordinates of COO are a tuple of arrays.
        vars(B)[name] = tuple(map(read_only, part)) if isinstance(part, tuple) else read_only(part)
    return B


def held() -> int:
    """Return the number of bytes that a result may take in memory: a sixteenth of the machine's memory."""
    return memory() // 16


def room(shape: tuple[int, ...], dtype: Any) -> Dense:
    """Return an uninitialised array, C-ordered, for a result such as C that may not fit into memory.

    An array of more than `held` bytes is mapped from a nameless file, whose pages the system writes out and reads as it
    needs memory; the file is deleted with the array, however the process ends. It is in ``TMPDIR`` if that is set, else
    in the cache; if neither has enough space, the array is in memory.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size <= _HELD or size <= held():
        return np.empty(shape, dtype)
    try:
        with TemporaryFile(dir=os.environ.get("TMPDIR") or cache_folder()) as file:
            os.posix_fallocate(file.fileno(), 0, size)  # otherwise a full disk would kill the process later
            return np.asarray(np.memmap(file, dtype, "r+", shape=shape))
    except (OSError, AttributeError):  # AttributeError: the system has no posix_fallocate
        return np.empty(shape, dtype)


def _entries(A: Matrix) -> Dense:
    """Return the stored entries as a flat array, in memory order."""
    return A.ravel(order="K") if isinstance(A, np.ndarray) else A.data


@dataclass(frozen=True)
class Shifted:
    """An out-of-core matrix minus a vector, which is subtracted in float64 from every part that is read.

    Attributes
    ----------
    A : (n, d) array
    shift : (1, d) or (n, 1) ndarray of float64
    """

    A: Dense
    shift: Dense

    @property
    def shape(self) -> tuple[int, int]:
        """Return n and d."""
        n, d = self.A.shape
        return n, d

    @property
    def T(self) -> "Shifted":  # noqa: N802  as arrays have it
        """Return the transpose."""
        return Shifted(self.A.T, self.shift.T)

    def __len__(self) -> int:
        return len(self.A)

    def __getitem__(self, rows: slice) -> Dense:
        return np.asarray(self.A[rows] - (self.shift if len(self.shift) == 1 else self.shift[rows]))

    def toarray(self) -> Dense:
        """Return the whole matrix."""
        return self[:]


def is_out_of_core(A: Matrix) -> bool:
    """Return True if a matrix is dense and out-of-core: read in blocks, and never copied."""
    return isinstance(A, Shifted) or (isinstance(A, np.ndarray) and A.size > WHOLE)


@contextmanager
def treat_as_out_of_core(entries: int) -> Iterator[None]:
    """Treat dense matrices of more entries as out-of-core within a block."""
    global WHOLE  # noqa: PLW0603
    before, WHOLE = WHOLE, entries
    try:
        yield
    finally:
        WHOLE = before


def as_float64(A: Matrix) -> Matrix:
    """Return A in float64; an out-of-core A is returned as it is, and `row_blocks` and `panels` convert its blocks."""
    return A if is_out_of_core(A) else A.astype(np.float64, copy=False)


def row_blocks(A: Matrix, entries: int | None = None) -> Iterator[tuple[slice, Matrix]]:
    """Yield a matrix in float64 with the slices of its rows: whole, or in blocks of rows if it is out-of-core.

    Parameters
    ----------
    entries : int, optional
        Entries per block; by default `BLOCK`, which a product needs.
    """
    n, d = A.shape
    if not is_out_of_core(A):
        yield slice(0, n), A.astype(np.float64, copy=False)
        return
    step = max(1, (entries or BLOCK) // d)
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        yield rows, A[rows].astype(np.float64, copy=False)


def panels(S: Matrix) -> Iterator[tuple[slice, Matrix]]:
    """Yield a matrix in float64 by blocks of columns."""
    yield from ((columns, rows.T) for columns, rows in row_blocks(S.T))


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def add_deviations(A: Dense, labels: Dense, means: Dense, parts: Dense, shift: Dense) -> None:
    """Add each row's difference from the mean of its cluster to ``shift``, and its squares to ``parts``."""
    for i in range(A.shape[0]):
        c = labels[i]
        for j in range(A.shape[1]):
            x = A[i, j] - means[c, j]
            parts[c, j] += x * x
            shift[c, j] += x


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _add_column_deviations(A: Dense, centre: Dense, first: int, rows: int, parts: Dense, shift: Dense) -> None:
    """Add the deviations of ``rows`` rows from ``first`` on, column by column, so that the sums stay in registers."""
    for j in range(A.shape[1]):
        c, part, total = centre[j], parts[j], shift[j]
        for i in range(first, first + rows):
            x = A[i, j] - c
            part += x * x
            total += x
        parts[j], shift[j] = part, total


@numba.njit(cache=True, nogil=True)
def _column_deviations(A: Dense, centre: Dense, parts: Dense, shift: Dense) -> None:
    n = A.shape[0]
    whole = n - n % _TOGETHER
    for i in range(0, whole, _TOGETHER):
        _add_column_deviations(A, centre, i, _TOGETHER, parts, shift)
    for i in range(whole, n):
        _add_column_deviations(A, centre, i, 1, parts, shift)


def column_deviations(A: Dense, centre: Dense) -> tuple[Dense, Dense]:
    """Return Σ(a − c)² and Σ(a − c) of each column in float64, from one read.

    Parameters
    ----------
    A : (n, d) array
    centre : (d,) ndarray of float64
        One c per column.
    """
    parts, shift = np.zeros(A.shape[1]), np.zeros(A.shape[1])
    _column_deviations(A, centre, parts, shift)
    return parts, shift


def column_means(A: Dense) -> Dense:
    """Return the mean of each column in float64, from one read; exact for a constant column."""
    first = A[0].astype(np.float64)
    return np.asarray(first + column_deviations(A, first)[1] / len(A))


def squares_at_once(A: Matrix) -> int:
    """Return the number of squares that `squared_frobenius` adds up at a time."""
    return CACHED if is_out_of_core(A) else WHOLE


def squared_frobenius(A: Matrix) -> float:
    """Return ‖A‖²_F, accumulated in float64."""
    if isinstance(A, Shifted):
        return float(sum(squared_frobenius(block) for _, block in row_blocks(A, CACHED)))
    values = _entries(A)
    step = squares_at_once(A)
    blocks = (values[i : i + step].astype(np.float64, copy=False) for i in range(0, values.size, step))
    with np.errstate(over="ignore", invalid="ignore"):
        return float(sum(block @ block for block in blocks))


def normalised(A: Matrix) -> tuple[Matrix, int, float]:
    """Return A·2^−e, e and ‖A·2^−e‖²_F, where e brings the largest entry to between ½ and 1.

    Everything homogeneous in A, such as all reducers, F and Lloyd's iteration, is computed from A·2^−e without over- or
    underflow; a result of degree g is scaled back by 2^(ge). If ‖A‖ is between 2⁻⁶⁴ and 2⁶⁴, e = 0 and A itself is
    returned after one read; otherwise it is copied.

    Returns
    -------
    A : (n, d) array or CSR
        Exact, except for entries 2¹⁰²² (float32: 2¹²⁶) times smaller than the largest.
    e : int
    total : float
        Zero only if A is zero.

    Raises
    ------
    ArgumentError
        If A has no entries, or some that are not finite.
    """
    if 0 in A.shape:
        raise ArgumentError(f"a matrix of shape {A.shape} has no entries; give at least one row and one column")
    total = squared_frobenius(A)
    if _SAFE[0] <= total <= _SAFE[1] or isinstance(A, Shifted):  # Shifted wraps a normalised matrix
        return A, 0, total
    values = _entries(A)
    largest = max(float(values.max(initial=0)), -float(values.min(initial=0)))
    if not np.isfinite(largest):
        raise ArgumentError(f"the matrix contains {largest}; replace or remove entries that are not finite")
    e = int(np.frexp(largest)[1])
    A = times_power(A, -e)
    return A, e, squared_frobenius(A)


def times_power(A: Matrix, e: int) -> Matrix:
    """Return A·2^e; A itself for e = 0."""
    if e == 0:
        return A
    with np.errstate(over="ignore", under="ignore"):
        scaled = np.ldexp(A if isinstance(A, np.ndarray) else A.data, e)
    return scaled if isinstance(A, np.ndarray) else sp.csr_array((scaled, A.indices, A.indptr), shape=A.shape)


def scaled_back(value: float, e: int) -> float:
    """Return value·2^e; infinite or 0 if that is outside the range of float64."""
    with np.errstate(over="ignore", under="ignore"):
        return float(np.ldexp(value, e))


def is_finite(A: Matrix) -> bool:
    """Return True if all entries are finite, checking them in blocks."""
    values = _entries(A)
    return all(bool(np.isfinite(values[i : i + BLOCK]).all()) for i in range(0, values.size, BLOCK))


def canonical_csr(A: T) -> T:
    """Return A itself, or a copy with sorted columns and summed duplicates if A is CSR that needs it."""
    if isinstance(A, np.ndarray) or A.has_canonical_format:
        return A
    B: sp.csr_array = A.copy()
    B.sum_duplicates()
    return B  # type: ignore[no-any-return]


def check_structure(A: Matrix) -> None:
    """Refuse CSR arrays that do not fit together, because compiled code would read outside of them."""
    if isinstance(A, np.ndarray):
        return
    try:
        A.check_format(full_check=True)
    except ValueError as error:
        raise ArgumentError(f"the CSR arrays of this matrix do not fit together ({error}); build it again") from error


def check_floating(A: Matrix) -> None:
    """Refuse dtypes other than float64 and float32, which compiled products return."""
    if A.dtype not in (np.float64, np.float32):
        raise ArgumentError(f"the matrix has dtype {A.dtype}; convert it to float64 or float32")


@numba.njit(cache=True, nogil=True)
def transpose_block(A: Dense, row: int, rows: int, first: int, columns: Dense, width: int) -> None:
    """Write ``rows`` × ``width`` entries of A, from A[row, first] on, transposed to ``columns``."""
    for lo in range(0, width, _TOGETHER):
        hi = min(lo + _TOGETHER, width)
        for t in range(rows):
            a = A[row + t]
            for j in range(lo, hi):
                columns[j, t] = a[first + j]


def mapped_rows(A: Dense) -> Iterator[slice]:
    """Yield the rows of A that are mapped together: all, or blocks of about half of `WHOLE` entries if out-of-core.

    BLAS may sum an entry in another order if the matrix has fewer rows, so a map that is applied to these blocks, one
    after the other, gives the same bits as one that is applied to A.
    """
    n, d = A.shape
    step = _ROWS * max(1, WHOLE // 2 // (_ROWS * d)) if is_out_of_core(A) else max(n, 1)
    yield from (slice(start, min(start + step, n)) for start in range(0, n, step))


def matmul(A: Matrix, B: Dense) -> Dense:
    """Return the dense product ``A @ B`` of a dense or CSR matrix with a dense one, C-contiguous."""
    if not isinstance(A, np.ndarray) or A.dtype != B.dtype:
        return np.ascontiguousarray(A @ B)
    C = room((len(A), B.shape[1]), A.dtype)
    for rows in mapped_rows(A):
        np.matmul(A[rows], B, out=C[rows])
    return C


@numba.njit(cache=True, nogil=True)
def _take_csr(data: Dense, indices: Dense, indptr: Dense, first: Dense, places: Dense, scale: Dense, C: Dense) -> None:
    """Add each CSR entry of column j to the columns places[first[j]], … of C, which are copies of column j."""
    for i in range(len(C)):
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            for q in range(first[j], first[j + 1]):
                C[i, places[q]] += data[p] * scale[places[q]]


def take_columns(A: Matrix, columns: Dense, scale: Dense | None = None) -> Dense:
    """Return the chosen columns of ``A`` as a dense n×r array, each times its ``scale``.

    Parameters
    ----------
    columns : (r,) int array
        Repetitions allowed.
    scale : (r,) array, optional
    """
    if not isinstance(A, np.ndarray):
        n, d = A.shape
        times = np.ones(len(columns), A.dtype) if scale is None else scale.astype(A.dtype)
        first = np.append(0, np.cumsum(np.bincount(columns, minlength=d)))
        if len(first) > d + 1:
            raise IndexError(f"column {columns.max()} is out of range for a matrix with {d} columns")
        C = np.zeros((n, len(columns)), A.dtype)
        _take_csr(A.data, A.indices, A.indptr, first, np.argsort(columns, kind="stable"), times, C)
        return C
    if is_out_of_core(A):
        C = room((len(A), len(columns)), A.dtype)
        step = max(1, BLOCK // A.shape[1])
        for start in range(0, len(A), step):
            C[start : start + step] = np.take(A[start : start + step], columns, axis=1)
    else:
        C = np.take(A, columns, axis=1)
    if scale is not None:
        C *= scale.astype(A.dtype)
    return C
