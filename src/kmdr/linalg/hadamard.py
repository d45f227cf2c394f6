"""The randomised Walsh–Hadamard transform of the rows of a matrix, and products with a sparse random matrix.

The Walsh–Hadamard matrix H of order d' = 2^m is Sylvester's over √d': symmetric and orthogonal.
"""

from collections.abc import Callable, Iterator

import numba
import numpy as np
import scipy.sparse as sp

from kmdr.base.threads import process_row_blocks
from kmdr.linalg.matrix import Dense, Matrix, check_floating, check_structure, is_out_of_core, room
from kmdr.linalg.tiles import (
    TILE,
    add,
    load,
    multiply_add,
    read_tile,
    scratch,
    store,
    subtract,
    write_tile,
    zeros,
)

# The first stages combine neighbours, so they run over this many at a time, which stay in L1.
_NEAR = 64
# Rows of a matrix in another layout that are converted to a C-ordered array at a time.
_DENSE_ROWS = 4 * TILE

# Share of non-zeros above which BLAS multiplies by the dense P. At 1/3 the kernel took 0.4–1.2 of the time of BLAS; at
# 0.68 (d = 256, rotation included) 0.4, 0.8, 1.05, 1.15 at r = 10, 100, 500, 1000.
_DENSE = 0.75

# Rows of an out-of-core matrix that are rotated at a time if P is dense, so that memory does not grow with n.
_ROTATED_ROWS = 1024
# Rotating a row costs as much as this many products of an entry of HD with a non-zero per column: 5 to 6 ns against
# .4 ns (15564×47236).
_ENTRIES = 8


def padded(d: int) -> int:
    """Return the least power of two that is at least d."""
    return 1 << (d - 1).bit_length()


@numba.njit(cache=True, nogil=True)
def _stage(tile: Dense, start: int, stop: int, h: int) -> None:
    """Replace x, y by x + y, x − y for all pairs at distance h."""
    s = h * TILE
    for block in range(start, stop, 2 * s):
        for i in range(block, block + s, TILE):
            x, y = load(tile, i), load(tile, i + s)
            store(tile, i, add(x, y))
            store(tile, i + s, subtract(x, y))


@numba.njit(cache=True, nogil=True)
def _three_stages(tile: Dense, start: int, stop: int, h: int) -> None:
    """Run the stages of distances h, 2h and 4h on eight vectors in registers."""
    s = h * TILE
    for block in range(start, stop, 8 * s):
        for i in range(block, block + s, TILE):
            x0, x1, x2, x3 = load(tile, i), load(tile, i + s), load(tile, i + 2 * s), load(tile, i + 3 * s)
            x4, x5, x6, x7 = load(tile, i + 4 * s), load(tile, i + 5 * s), load(tile, i + 6 * s), load(tile, i + 7 * s)
            x0, x1, x2, x3 = add(x0, x1), subtract(x0, x1), add(x2, x3), subtract(x2, x3)
            x4, x5, x6, x7 = add(x4, x5), subtract(x4, x5), add(x6, x7), subtract(x6, x7)
            x0, x2, x1, x3 = add(x0, x2), subtract(x0, x2), add(x1, x3), subtract(x1, x3)
            x4, x6, x5, x7 = add(x4, x6), subtract(x4, x6), add(x5, x7), subtract(x5, x7)
            store(tile, i, add(x0, x4))
            store(tile, i + s, add(x1, x5))
            store(tile, i + 2 * s, add(x2, x6))
            store(tile, i + 3 * s, add(x3, x7))
            store(tile, i + 4 * s, subtract(x0, x4))
            store(tile, i + 5 * s, subtract(x1, x5))
            store(tile, i + 6 * s, subtract(x2, x6))
            store(tile, i + 7 * s, subtract(x3, x7))


@numba.njit(cache=True, nogil=True)
def _stages(tile: Dense, start: int, stop: int, h: int, last: int) -> None:
    """Run the stages of distances h, 2h, …, last/2."""
    while 8 * h <= last:
        _three_stages(tile, start, stop, h)
        h *= 8
    while h < last:
        _stage(tile, start, stop, h)
        h *= 2


@numba.njit(cache=True, nogil=True)
def _rotate_tile(A: Dense, row: int, signs: Dense, tile: Dense) -> None:
    """Write HD of a tile of A to ``tile``; ``signs`` include H's 1/√d'."""
    d = A.shape[1]
    near = min(_NEAR * TILE, len(tile))
    for start in range(0, len(tile), near):
        block = tile[start : start + near]
        first = start // TILE
        width = max(0, min(near // TILE, d - first))
        read_tile(A, row, first, first + width, block)
        for j in range(width):
            store(block, j * TILE, multiply_add(signs[first + j], load(block, j * TILE), zeros(block)))
        block[width * TILE :] = 0
        _stages(block, 0, near, 1, near // TILE)
    _stages(tile, 0, len(tile), near // TILE, len(tile) // TILE)


@numba.njit(cache=True, nogil=True)
def _combine(tile: Dense, data: Dense, indices: Dense, indptr: Dense, total: Dense) -> None:
    """Write P times a tile to ``total``, P in CSR; unsigned positions avoid the check for counting from the end."""
    one = np.uint64(1)
    for j in range(len(indptr) - 1):
        p, end = indptr[j], indptr[j + 1]
        even, odd = zeros(tile), zeros(tile)  # two chains of additions hide each other's latency
        while p + one < end:
            even = multiply_add(data[p], load(tile, np.int64(indices[p]) * TILE), even)
            odd = multiply_add(data[p + one], load(tile, np.int64(indices[p + one]) * TILE), odd)
            p += one + one
        if p < end:
            even = multiply_add(data[p], load(tile, np.int64(indices[p]) * TILE), even)
        store(total, j * TILE, add(even, odd))


@numba.njit(cache=True, nogil=True)
def _rotate(A: Dense, signs: Dense, C: Dense, first: int, last: int) -> None:
    tile = scratch(C.shape[1], A)
    for row in range(first, last, TILE):
        _rotate_tile(A, row, signs, tile)
        write_tile(tile, C[:last], row)


@numba.njit(cache=True, nogil=True)
def _rotated_product(
    A: Dense, signs: Dense, width: int, data: Dense, indices: Dense, indptr: Dense, C: Dense, first: int, last: int
) -> None:
    tile, total = scratch(width, A), scratch(C.shape[1], A)
    for row in range(first, last, TILE):
        _rotate_tile(A, row, signs, tile)
        _combine(tile, data, indices, indptr, total)
        write_tile(total, C[:last], row)


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
        step = _ROTATED_ROWS if is_out_of_core(A) else len(C)
        for start in range(0, len(C), step):
            block = slice(start, start + step)
            np.matmul(rotate(A[block], signs), mixture, out=C[block])
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
    tile = scratch(width, A)
    for row in range(first, last, TILE):
        _rotate_tile(A, row, signs, tile)
        for i in range(row, min(row + TILE, last)):
            for c in range(kept.shape[1]):
                C[i, c] = tile[np.uint64(kept[i, c]) * np.uint64(TILE) + np.uint64(i - row)]


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
