"""Matrices, dense or CSR, and the few operations on them that every reducer shares."""

from typing import TypeAlias, TypeVar

import numba
import numpy as np
import scipy.sparse as sp

from kmdr.errors import ArgumentError

Dense: TypeAlias = np.ndarray
Matrix: TypeAlias = np.ndarray | sp.csr_array
T = TypeVar("T", bound=Matrix)

# Entries whose squares are added up at a time: float32 ones are copied to float64 for it.
SQUARES = 1 << 25
# What is computed from A is of degree 4 in it at the most, and of degree 1 where it is float32. While ‖A‖² lies between
# these nothing of it over- or underflows.
_SAFE = 2.0**-128, 2.0**128


def matmul(A: Matrix, B: Dense) -> Dense:
    """Return the dense product ``A @ B`` of a dense or CSR matrix with a dense one, C-contiguous."""
    return np.ascontiguousarray(A @ B)


def _entries(A: Matrix) -> Dense:
    """Return the stored entries in a row, as they lie in memory."""
    return A.ravel(order="K") if isinstance(A, np.ndarray) else A.data


def squared_frobenius(A: Matrix) -> float:
    """Return ‖A‖²_F, accumulated in float64."""
    values = _entries(A)
    blocks = (values[i : i + SQUARES].astype(np.float64, copy=False) for i in range(0, values.size, SQUARES))
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
    e : int
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
    if _SAFE[0] <= total <= _SAFE[1]:
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
    return all(bool(np.isfinite(values[i : i + SQUARES]).all()) for i in range(0, values.size, SQUARES))


def canonical_csr(A: T) -> T:
    """Return A itself, unless it is CSR whose rows have columns out of order or twice: then in order, added up."""
    if isinstance(A, np.ndarray) or A.has_canonical_format:
        return A
    B: sp.csr_array = A.copy()
    B.sum_duplicates()
    return B  # type: ignore[no-any-return]


def check_structure(A: Matrix) -> None:
    """Refuse CSR whose arrays do not fit together: compiled code would read outside of them.

    Raises
    ------
    ArgumentError
    """
    if isinstance(A, np.ndarray):
        return
    try:
        A.check_format(full_check=True)
    except ValueError as error:
        raise ArgumentError(f"the CSR arrays of this matrix do not fit together ({error}); make it anew") from error


def check_floating(A: Matrix) -> None:
    """Refuse what is neither float64 nor float32, which the results of a compiled product could not hold.

    Raises
    ------
    ArgumentError
    """
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
    C = np.take(A, columns, axis=1)
    if scale is not None:
        C *= scale.astype(A.dtype)
    return C
