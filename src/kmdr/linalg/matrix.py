"""Matrices, dense or CSR, and the few operations on them that every reducer shares."""

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

# Entries of a dense matrix up to which it may be copied, as float64 if need be (256 MB). A larger one, which may be a
# mapped file, is passed over in blocks of rows of so many entries (32 MB), whatever memory there is, so that the sums
# and with them all results are the same on every machine.
WHOLE = 1 << 25
BLOCK = 1 << 22
# Entries of a large matrix that are taken at a time where each is used but once: their temporary copies stay in a
# second-level cache, while those of a block are new pages (variances of 20,000×4096 in float32: 0.9 s, and 3.0 s).
CACHED = 1 << 16
# Bytes of a result that is in memory in any case.
_HELD = 8 * WHOLE
# Rows whose deviations are added to a column's sums while these are in registers (4: 1.1 times as long; 16: the same).
_TOGETHER = 8
# What is computed from A is of degree 4 in it at the most, and of degree 1 where it is float32. While ‖A‖² lies between
# these nothing of it over- or underflows.
_SAFE = 2.0**-128, 2.0**128


def read_only(A: Any) -> Any:
    """Return a view of an array or sparse matrix that cannot be used to change it; anything else is returned as it is.

    Many methods of scipy's sparse matrices, such as ``abs`` and ``max``, sort and merge entries in place, and a
    converted matrix may share the index arrays of the original. Neither can happen to read-only arrays unnoticed.
    """
    if isinstance(A, np.ndarray):
        view = A.view()
        view.flags.writeable = False
        return view
    if not sp.issparse(A):
        return A
    if A.format in ("lil", "dok"):  # they hold Python's lists and numbers; their conversion shares nothing
        return read_only(A.tocsr())
    B = copy(A)
    for name, part in vars(A).items():
        # The coordinates of COO are a tuple of arrays.
        vars(B)[name] = tuple(map(read_only, part)) if isinstance(part, tuple) else read_only(part)
    return B


def held() -> int:
    """Return the bytes that a result may take in memory: a sixteenth of the machine's."""
    return memory() // 16


def room(shape: tuple[int, ...], dtype: Any) -> Dense:
    """Return an array of any content, for a result such as C that may be too large for memory.

    What would take more than `held` is mapped from a file, whose pages the system writes
    out and takes back as it needs memory. The file has no name and goes with the array, however the process ends. It is
    in ``TMPDIR`` where that is set, else in the cache; where neither has room for it, the array is in memory after all.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size <= _HELD or size <= held():
        return np.empty(shape, dtype)
    try:
        with TemporaryFile(dir=os.environ.get("TMPDIR") or cache_folder()) as file:
            os.posix_fallocate(file.fileno(), 0, size)  # or a full disk would end the process in the middle
            return np.asarray(np.memmap(file, dtype, "r+", shape=shape))
    except (OSError, AttributeError):  # the latter where the system cannot allocate
        return np.empty(shape, dtype)


def _entries(A: Matrix) -> Dense:
    """Return the stored entries in a row, as they lie in memory."""
    return A.ravel(order="K") if isinstance(A, np.ndarray) else A.data


@dataclass(frozen=True)
class Shifted:
    """A large matrix less a vector that is taken off in float64, from whatever is read of it.

    Attributes
    ----------
    A : (n, d) array
    shift : (1, d) or (n, 1) ndarray of float64
    """

    A: Dense
    shift: Dense

    @property
    def shape(self) -> tuple[int, int]:
        """N and d."""
        n, d = self.A.shape
        return n, d

    @property
    def T(self) -> "Shifted":  # noqa: N802  as arrays have it
        """The transpose."""
        return Shifted(self.A.T, self.shift.T)

    def __len__(self) -> int:
        return len(self.A)

    def __getitem__(self, rows: slice) -> Dense:
        return np.asarray(self.A[rows] - (self.shift if len(self.shift) == 1 else self.shift[rows]))

    def toarray(self) -> Dense:
        """Return all of it."""
        return self[:]


def is_large(A: Matrix) -> bool:
    """Whether a matrix is dense and so large that it is passed over in blocks, and never copied."""
    return isinstance(A, Shifted) or (isinstance(A, np.ndarray) and A.size > WHOLE)


@contextmanager
def large_beyond(entries: int) -> Iterator[None]:
    """Take a dense matrix of more entries for large while a block runs."""
    global WHOLE  # noqa: PLW0603
    before, WHOLE = WHOLE, entries
    try:
        yield
    finally:
        WHOLE = before


def as_float64(A: Matrix) -> Matrix:
    """Return A in float64, but a large one as it is: `row_blocks` and `panels` convert what they yield of it."""
    return A if is_large(A) else A.astype(np.float64, copy=False)


def row_blocks(A: Matrix, entries: int | None = None) -> Iterator[tuple[slice, Matrix]]:
    """Yield a matrix in float64 with the places of its rows: whole, or some rows after the other where it is large.

    Parameters
    ----------
    A : (n, d) array or CSR
    entries : int, optional
        Of some rows; by default `BLOCK`, which a product needs.
    """
    n, d = A.shape
    if not is_large(A):
        yield slice(0, n), A.astype(np.float64, copy=False)
        return
    step = max(1, (entries or BLOCK) // d)
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        yield rows, A[rows].astype(np.float64, copy=False)


def panels(S: Matrix) -> Iterator[tuple[slice, Matrix]]:
    """Yield the same by columns."""
    yield from ((columns, rows.T) for columns, rows in row_blocks(S.T))


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def add_deviations(A: Dense, labels: Dense, means: Dense, parts: Dense, shift: Dense) -> None:
    """Add the differences of each row from the mean of its cluster to ``shift``, and their squares to ``parts``."""
    for i in range(A.shape[0]):
        c = labels[i]
        for j in range(A.shape[1]):
            x = A[i, j] - means[c, j]
            parts[c, j] += x * x
            shift[c, j] += x


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _add_column_deviations(A: Dense, centre: Dense, first: int, rows: int, parts: Dense, shift: Dense) -> None:
    """Add those of the rows from ``first`` on, one after the other; of each column's they stay in registers."""
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
        One c a column.
    """
    parts, shift = np.zeros(A.shape[1]), np.zeros(A.shape[1])
    _column_deviations(A, centre, parts, shift)
    return parts, shift


def column_means(A: Dense) -> Dense:
    """Return the mean of each column in float64, from one read; of a constant column exactly."""
    first = A[0].astype(np.float64)
    return np.asarray(first + column_deviations(A, first)[1] / len(A))


def squares_at_once(A: Matrix) -> int:
    """Return how many squares `squared_frobenius` adds up at a time."""
    return CACHED if is_large(A) else WHOLE


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

    Whatever is homogeneous in A, as all reducers, F and Lloyd's iteration are, is computed from A·2^−e without over- or
    underflow, and a result of degree g is scaled back by 2^(ge). Where ‖A‖ is between 2⁻⁶⁴ and 2⁶⁴ there is no need:
    e = 0, and A is returned itself, read once. Otherwise it is copied.

    Parameters
    ----------
    A : (n, d) array or CSR

    Returns
    -------
    A : (n, d) array or CSR
        Exact, but for entries 2¹⁰²² (float32: 2¹²⁶) times smaller than the largest.
    total : float
        Zero only where A is.

    Raises
    ------
    ArgumentError
        When A has no entries, or some that are not finite.
    """
    if 0 in A.shape:
        raise ArgumentError(f"a matrix of shape {A.shape} has no entries; give at least one row and one column")
    total = squared_frobenius(A)
    if _SAFE[0] <= total <= _SAFE[1] or isinstance(A, Shifted):  # which is made of what was in the range
        return A, 0, total
    values = _entries(A)
    largest = max(float(values.max(initial=0)), -float(values.min(initial=0)))
    if not np.isfinite(largest):
        raise ArgumentError(f"the matrix has {largest} among its entries; replace or remove what is not finite")
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
    """Return value·2^e; infinite or 0 where that is beyond float64."""
    with np.errstate(over="ignore", under="ignore"):
        return float(np.ldexp(value, e))


def is_finite(A: Matrix) -> bool:
    """Tell whether all entries are finite, in blocks."""
    values = _entries(A)
    return all(bool(np.isfinite(values[i : i + BLOCK]).all()) for i in range(0, values.size, BLOCK))


def canonical_csr(A: T) -> T:
    """Return A itself, unless it is CSR whose rows have columns out of order or twice: then in order, added up."""
    if isinstance(A, np.ndarray) or A.has_canonical_format:
        return A
    B: sp.csr_array = A.copy()
    B.sum_duplicates()
    return B  # type: ignore[no-any-return]


def check_structure(A: Matrix) -> None:
    """Refuse CSR whose arrays do not fit together: compiled code would read outside of them."""
    if isinstance(A, np.ndarray):
        return
    try:
        A.check_format(full_check=True)
    except ValueError as error:
        raise ArgumentError(f"the CSR arrays of this matrix do not fit together ({error}); make it anew") from error


def check_floating(A: Matrix) -> None:
    """Refuse what is neither float64 nor float32, which the results of a compiled product could not hold."""
    if A.dtype not in (np.float64, np.float32):
        raise ArgumentError(f"the matrix is of type {A.dtype}; convert it to float64 or float32")


@numba.njit(cache=True, nogil=True)
def _take_csr(data: Dense, indices: Dense, indptr: Dense, first: Dense, places: Dense, scale: Dense, C: Dense) -> None:
    """Add up each entry of CSR in the columns of C that are copies of its own: places[first[j]], … of column j."""
    for i in range(len(C)):
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            for q in range(first[j], first[j + 1]):
                C[i, places[q]] += data[p] * scale[places[q]]


def take_columns(A: Matrix, columns: Dense, scale: Dense | None = None) -> Dense:
    """Return the chosen columns of ``A`` as a dense n×r array, each times its ``scale``.

    Parameters
    ----------
    A : (n, d) array or CSR
    columns : (r,) int array
        Repetitions allowed.
    scale : (r,) array, optional

    Returns
    -------
    (n, r) ndarray
    """
    if not isinstance(A, np.ndarray):
        n, d = A.shape
        times = np.ones(len(columns), A.dtype) if scale is None else scale.astype(A.dtype)
        first = np.append(0, np.cumsum(np.bincount(columns, minlength=d)))
        if len(first) > d + 1:
            raise IndexError(f"column {columns.max()} was asked of a matrix with {d}")
        C = np.zeros((n, len(columns)), A.dtype)
        _take_csr(A.data, A.indices, A.indptr, first, np.argsort(columns, kind="stable"), times, C)
        return C
    if is_large(A):
        C = room((len(A), len(columns)), A.dtype)
        step = max(1, BLOCK // A.shape[1])
        for start in range(0, len(A), step):
            C[start : start + step] = np.take(A[start : start + step], columns, axis=1)
    else:
        C = np.take(A, columns, axis=1)
    if scale is not None:
        C *= scale.astype(A.dtype)
    return C
