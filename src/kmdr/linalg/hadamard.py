"""The randomised Walsh–Hadamard transform of the rows of a matrix, and products with a sparse random matrix.

The Walsh–Hadamard matrix H of order d' = 2^m is Sylvester's over √d': symmetric and orthogonal.
"""

from collections.abc import Callable, Iterator

import numba
import numpy as np
import scipy.sparse as sp

from kmdr.base.threads import process_row_blocks
from kmdr.linalg.matrix import Dense, Matrix, check_floating, check_structure, mapped_rows, room

# Rows of a matrix in another layout that are converted to a C-ordered array at a time.
_DENSE_ROWS = 64

# Share of non-zeros above which BLAS multiplies by the dense P. At a tenth the kernel took 0.7–1.4 of the time of BLAS
# (r = 100 and 300, rotation included), and at a fifth 1.3–2.8.
_DENSE = 0.15

# Rotating a row costs as much as this many products of an entry of HD with a non-zero per column: 5 to 6 ns against
# .4 ns (15564×47236).
_ENTRIES = 8


def padded(d: int) -> int:
    """Return the least power of two that is at least d."""
    return 1 << (d - 1).bit_length()


@numba.njit(cache=True, nogil=True)
def _two_stages(x: Dense, y: Dense) -> None:
    """Write two stages of the transform of x to y, and rotate the index of each entry by two bits."""
    quarter = len(x) // 4
    for i in range(quarter):
        a, b, c, d = x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]
        a, b, c, d = a + b, a - b, c + d, c - d
        y[i], y[quarter + i], y[2 * quarter + i], y[3 * quarter + i] = a + c, b + d, a - c, b - d


@numba.njit(cache=True, nogil=True)
def _apply_stage(x: Dense, y: Dense) -> None:
    """Replace neighbours a, b by a + b, a − b, and rotate the index of each entry by one bit."""
    half = len(x) // 2
    for i in range(half):
        a, b = x[2 * i], x[2 * i + 1]
        y[i], y[half + i] = a + b, a - b


@numba.njit(cache=True, nogil=True)
def _rotate_row(a: Dense, signs: Dense, x: Dense, y: Dense) -> Dense:
    """Return the one of the buffers x and y that holds HDa; ``signs`` include H's 1/√d'.

    Every stage combines neighbours and moves them apart (Pease 1968), so that all stages run over consecutive entries.
    """
    for j in range(len(a)):
        x[j] = a[j] * signs[j]
    x[len(a) :] = 0
    left = len(x)
    while left >= 4:
        _two_stages(x, y)
        x, y = y, x
        left //= 4
    if left == 2:
        _apply_stage(x, y)
        x, y = y, x
    return x


@numba.njit(cache=True, nogil=True)
def _rotate(A: Dense, signs: Dense, C: Dense, first: int, last: int) -> None:
    x, y = np.empty(C.shape[1], A.dtype), np.empty(C.shape[1], A.dtype)
    for i in range(first, last):
        rotated, row = _rotate_row(A[i], signs, x, y), C[i]
        for j in range(len(row)):
            row[j] = rotated[j]


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _rotated_product(
    A: Dense, signs: Dense, width: int, data: Dense, indices: Dense, indptr: Dense, C: Dense, first: int, last: int
) -> None:
    """Write P times each rotated row, P in CSR; unsigned positions avoid the check for counting from the end."""
    one = np.uint64(1)
    x, y = np.empty(width, A.dtype), np.empty(width, A.dtype)
    for i in range(first, last):
        rotated = _rotate_row(A[i], signs, x, y)
        for j in range(C.shape[1]):
            p, end = indptr[j], indptr[j + 1]
            even = odd = signs[0] - signs[0]  # two chains of additions hide each other's latency
            while p + one < end:
                even += data[p] * rotated[np.uint64(indices[p])]
                odd += data[p + one] * rotated[np.uint64(indices[p + one])]
                p += one + one
            if p < end:
                even += data[p] * rotated[np.uint64(indices[p])]
            C[i, j] = even + odd


def _dense_blocks(A: Matrix, rows: slice) -> Iterator[tuple[Dense, int, int, int]]:
    """Yield C-ordered arrays that together hold those rows of A, with first row, end and offset."""
    if isinstance(A, np.ndarray) and A.flags.c_contiguous:
        yield A, rows.start, rows.stop, 0
        return
    for start in range(rows.start, rows.stop, _DENSE_ROWS):
        block = A[start : min(start + _DENSE_ROWS, rows.stop)]
        dense = np.ascontiguousarray(block) if isinstance(block, np.ndarray) else block.toarray()
        yield dense, 0, len(dense), start


def _apply_to_blocks(A: Matrix, width: int, kernel: Callable[[Dense, Dense, int, int], None]) -> Dense:
    """Return the C of ``width`` columns whose rows ``kernel(A, C, first, last)`` writes, A dense and C-ordered."""
    if isinstance(A, np.ndarray):
        A = np.ascontiguousarray(A)
    C = room((A.shape[0], width), A.dtype)

    def work(rows: slice) -> None:
        for block, first, last, offset in _dense_blocks(A, rows):
            kernel(block, C[offset:], first, last)

    process_row_blocks(len(C), work)
    return C


def _check_signs(A: Matrix, signs: Dense) -> Dense:
    """Return D's entries times H's 1/√d', in A's dtype."""
    check_floating(A)
    if signs.shape != A.shape[1:] or not signs.size:
        raise ValueError(f"signs have shape {signs.shape}, but the matrix has {A.shape[1]} columns; give one sign each")
    return np.asarray(signs / np.sqrt(padded(A.shape[1])), dtype=A.dtype)


def rotate(A: Matrix, signs: Dense) -> Dense:
    """Return A·D·H: the features with random signs, padded with zeros to a power of two, mixed evenly.

    Parameters
    ----------
    A : (n, d) array or CSR
        float64 or float32.
    signs : (d,) array of ±1
        The diagonal of D.

    Returns
    -------
    (n, d') ndarray of A's dtype
        d' = :func:`padded` (d). Norms and inner products of rows equal those in A.

    Raises
    ------
    ValueError
        If the number of signs differs from d.
    """
    scaled = _check_signs(A, signs)
    width = padded(A.shape[1])
    return _apply_to_blocks(A, width, lambda X, C, first, last: _rotate(X, scaled, C, first, last))


def rotated_product(A: Matrix, signs: Dense, P: sp.csr_array) -> Dense:
    """Return A·D·H·Pᵀ for a sparse P, with few rows of A·D·H in memory at a time unless P is nearly dense.

    On 20000×4096 the rotation itself costs less than writing its result to memory and reading it back, so this is
    faster even for many P.

    Parameters
    ----------
    A : (n, d) array or CSR
        float64 or float32.
    signs : (d,) array of ±1
        The diagonal of D.
    P : (r, d') CSR
        Each row defines one column of the result.

    Returns
    -------
    (n, r) ndarray of A's dtype

    Raises
    ------
    ValueError
        If the number of signs differs from d, or P does not have d' columns.
    """
    scaled = _check_signs(A, signs)
    width = padded(A.shape[1])
    if P.shape[1] != width:
        raise ValueError(f"P has {P.shape[1]} columns; the rotated matrix has {width}")
    check_structure(P)
    if P.nnz > _DENSE * P.shape[0] * width:
        C, mixture = room((A.shape[0], P.shape[0]), A.dtype), P.astype(A.dtype).toarray().T
        for rows in mapped_rows(A):
            np.matmul(rotate(A[rows], signs), mixture, out=C[rows])
        return C
    csr = P.data.astype(A.dtype, copy=False), P.indices, P.indptr.astype(np.uint64)
    return _apply_to_blocks(
        A, P.shape[0], lambda X, C, first, last: _rotated_product(X, scaled, width, *csr, C, first, last)
    )


@numba.njit(cache=True, nogil=True)
def _entries(data: Dense, indices: Dense, indptr: Dense, signs: Dense, kept: Dense, C: Dense) -> None:
    """Sum the kept entries of CSR rows times DH; H is −1 if row and column number share an odd number of 1 bits."""
    for i in range(len(indptr) - 1):
        row, columns = C[i], kept[i]
        row[:] = 0
        for p in range(indptr[i], indptr[i + 1]):
            j, x = np.int32(indices[p]), data[p] * signs[indices[p]]
            for c in range(len(columns)):
                bits = j & columns[c]
                for half in (16, 8, 4, 2, 1):
                    bits ^= bits >> half
                row[c] += -x if bits & 1 else x


@numba.njit(cache=True, nogil=True)
def _rotated_entries(A: Dense, signs: Dense, width: int, kept: Dense, C: Dense, first: int, last: int) -> None:
    x, y = np.empty(width, A.dtype), np.empty(width, A.dtype)
    for i in range(first, last):
        rotated = _rotate_row(A[i], signs, x, y)
        for c in range(kept.shape[1]):
            C[i, c] = rotated[np.uint64(kept[i, c])]


def rotated_entries(A: Matrix, signs: Dense, kept: Dense) -> Dense:
    """Return some entries of each row of A·D·H; for a sparse A, without computing the others.

    Parameters
    ----------
    A : (n, d) array or CSR
        float64 or float32.
    signs : (d,) array of ±1
        The diagonal of D.
    kept : (n, r) array of int32
        Columns of each row, from 0 to d' − 1.

    Returns
    -------
    (n, r) ndarray of A's dtype

    Raises
    ------
    ValueError
        If the number of signs differs from d, or ``kept`` does not have one row per row of A or names other columns.
    """
    scaled = _check_signs(A, signs)
    width = padded(A.shape[1])
    if kept.ndim != 2 or len(kept) != A.shape[0] or (kept.size and not 0 <= kept.min() <= kept.max() < width):
        raise ValueError(f"kept has shape {kept.shape}; it needs {A.shape[0]} rows of columns from 0 to {width - 1}")
    C = room(kept.shape, A.dtype)
    if not isinstance(A, np.ndarray) and A.nnz * kept.shape[1] <= _ENTRIES * A.shape[0] * width:
        check_structure(A)

        def work(rows: slice) -> None:
            indptr = A.indptr[rows.start : rows.stop + 1]
            _entries(A.data, A.indices, indptr, scaled, kept[rows], C[rows])

        process_row_blocks(len(C), work)
        return C

    def rotated(rows: slice) -> None:
        for block, first, last, offset in _dense_blocks(A, rows):
            _rotated_entries(block, scaled, width, kept[offset:], C[offset:], first, last)

    process_row_blocks(len(C), rotated)
    return C
