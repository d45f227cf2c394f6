"""Products of a matrix with a dense one, with a float32 kernel for out-of-core arrays and for k-means.

OpenBLAS uses a kernel of half the register width on some processors: on Zen 5 the one for Haswell.
"""

import numba
import numpy as np

from kmdr.base.threads import process_row_blocks
from kmdr.linalg.matrix import Dense, Matrix, is_out_of_core, room
from kmdr.linalg.tiles import TILE, add, load, multiply_add, read_tile, scratch, store, write_tile, zeros

# Columns whose sums stay in the 16 registers, two per vector, over _FEATURES features of a tile: 160 GFlop/s on a core
# with AVX-512 (8 columns: 165; 4: 119), 109 with AVX2 (8: 66; 4: 96), where OpenBLAS did 94 on the same core.
COLUMNS = 6
_FEATURES = 128
# Tiles that share the fetched part of B, which for large r is not in the second-level cache: at r = 1000 one tile of
# 256 features made 109 GFlop/s and these 134, at r = 100 141 and 135 (OpenBLAS: 115 at r = 1000 and 86 at r = 100).
_TILES = 8


@numba.njit(cache=True, nogil=True)
def _add_columns(tile: Dense, begin: int, B: Dense, total: Dense, end: int, step: int) -> None:
    """Add the products of a tile from ``begin`` on with ``COLUMNS`` columns to ``total``, ``step`` entries apart."""
    c0, c1, c2 = zeros(tile), zeros(tile), zeros(tile)
    c3, c4, c5 = zeros(tile), zeros(tile), zeros(tile)
    for j in range(len(B)):
        x = load(tile, begin + j * TILE)
        c0, c1, c2 = multiply_add(B[j, 0], x, c0), multiply_add(B[j, 1], x, c1), multiply_add(B[j, 2], x, c2)
        c3, c4, c5 = multiply_add(B[j, 3], x, c3), multiply_add(B[j, 4], x, c4), multiply_add(B[j, 5], x, c5)
    store(total, end, add(load(total, end), c0))
    store(total, end + step, add(load(total, end + step), c1))
    store(total, end + 2 * step, add(load(total, end + 2 * step), c2))
    store(total, end + 3 * step, add(load(total, end + 3 * step), c3))
    store(total, end + 4 * step, add(load(total, end + 4 * step), c4))
    store(total, end + 5 * step, add(load(total, end + 5 * step), c5))


@numba.njit(cache=True, nogil=True)
def write_product(A: Dense, B: Dense, C: Dense, first: int, last: int) -> None:
    """Write rows first … last of the product of a C-ordered A with columns from `group_columns`, all float32."""
    d, groups = A.shape[1], B.shape[0]
    tiles, totals = scratch(_TILES * _FEATURES, A), scratch(_TILES * groups * COLUMNS, A)
    long, wide = _FEATURES * TILE, groups * COLUMNS * TILE
    for row in range(first, last, _TILES * TILE):
        count = min(_TILES, (last - row + TILE - 1) // TILE)
        totals[:] = 0
        for start in range(0, d, _FEATURES):
            stop = min(start + _FEATURES, d)
            for t in range(count):
                read_tile(A, row + t * TILE, start, stop, tiles[t * long :])
            for g in range(groups):
                for t in range(count):
                    _add_columns(tiles, t * long, B[g, start:stop], totals, t * wide + g * COLUMNS * TILE, TILE)
        for t in range(count):
            write_tile(totals[t * wide :], C[:last], row + t * TILE)


@numba.njit(cache=True, nogil=True)
def multiply_panel(panel: Dense, B: Dense, tile: Dense, values: Dense) -> None:
    """Write the products of columns, ``COLUMNS`` per group of B, with the points of a panel; one row per column.

    For k-means it takes 0.4 to 0.9 of the time of OpenBLAS (r and k from 5 to 1000, on Zen 5).

    Parameters
    ----------
    panel : (r, m) ndarray of float32
        m points side by side, m a multiple of ``TILE``.
    B : (groups, r, COLUMNS) ndarray of float32
    tile : ndarray of float32
        Buffer of `panel_tile` vectors.
    values : (groups * COLUMNS * m,) ndarray of float32
        Row c of the result from c·m on.
    """
    r, m = panel.shape
    flat, groups = panel.reshape(-1), len(B)
    values[: groups * COLUMNS * m] = 0
    for start in range(0, r, _FEATURES):
        stop = min(start + _FEATURES, r)
        for q in range(0, m, TILE):
            for j in range(start, stop):
                store(tile, q * _FEATURES + (j - start) * TILE, load(flat, j * m + q))
        for g in range(groups):
            for q in range(0, m, TILE):
                _add_columns(tile, q * _FEATURES, B[g, start:stop], values, g * COLUMNS * m + q, m)


def panel_tile(m: int) -> Dense:
    """Return the buffer that `multiply_panel` needs for panels of m points."""
    return scratch(_FEATURES * (m // TILE), np.empty(0, np.float32))


@numba.njit(cache=True, nogil=True)
def group_columns(columns: Dense) -> Dense:
    """Return columns, the rows of (r, d), in the layout of the kernels: (groups, d, COLUMNS), padded with zeros."""
    r, d = columns.shape
    B = np.zeros((-(-r // COLUMNS), d, COLUMNS), columns.dtype)
    for c in range(r):
        for j in range(d):
            B[c // COLUMNS, j, c % COLUMNS] = columns[c, j]
    return B


def matmul(A: Matrix, B: Dense) -> Dense:
    """Return the dense product ``A @ B`` of a dense or CSR matrix with a dense one, C-contiguous.

    An out-of-core float32 array takes 0.5–0.7 of the time of OpenBLAS on Zen 5 (200,000×4096, r = 10 and 100). Entries
    are summed over 128 features, and these sums one after the other, so errors are within (127 + ⌈d/128⌉)·2⁻²⁴·Σ|a||b|:
    for d up to 32,768 no more than with OpenBLAS, which sums over 256 or more.
    """
    if not isinstance(A, np.ndarray) or A.dtype != B.dtype:
        return np.ascontiguousarray(A @ B)
    C = room((len(A), B.shape[1]), A.dtype)
    if not (is_out_of_core(A) and A.dtype == np.float32 and A.flags.c_contiguous):
        return np.matmul(A, B, out=C)
    groups = group_columns(np.ascontiguousarray(B.T))
    process_row_blocks(len(C), lambda rows: write_product(A, groups, C, rows.start, rows.stop))
    return C
