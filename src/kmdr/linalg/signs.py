"""Products with a random sign matrix, stored as bits.

The d×r sign matrix R is kept as 64 rows per word: bit i mod 64 of ``bits[i // 64, j]`` is set if R_ij = +1.
"""

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np

from kmdr.base.threads import process_row_blocks
from kmdr.linalg.matrix import Dense, Matrix, check_floating, room
from kmdr.linalg.tiles import TILE, add, load, read_tile, scratch, store, subtract, write_tile, zeros

_WORD = 64
_GROUP = 4  # columns of A that one table combines; the 16 sums of 16 rows of all tables of a word stay in L1
_SUMS = 1 << _GROUP
_TABLES = _WORD // _GROUP


def draw_signs(d: int, r: int, rng: np.random.Generator) -> Dense:
    """Return the bits of a d×r matrix of independent fair signs.

    Returns
    -------
    (⌈d/64⌉, r) ndarray of uint64
        Bits beyond row d are drawn too and never used.
    """
    return rng.integers(2**64, size=(-(-d // _WORD), r), dtype=np.uint64)


@numba.njit(cache=True, nogil=True)
def _unpack(words: Dense, signs: Dense) -> None:
    for i in range(len(signs)):
        signs[i] = 2 * np.int64(words[i // _WORD] >> np.uint64(i % _WORD) & np.uint64(1)) - 1


def random_signs(shape: tuple[int, int], rng: np.random.Generator, dtype: Any = np.float64) -> Dense:
    """Return independent ±1, each with probability 1/2, at the cost of one random bit per entry."""
    signs = np.empty(shape, dtype)
    _unpack(draw_signs(signs.size, 1, rng)[:, 0], signs.reshape(-1))
    return signs


def _check(A: Matrix, bits: Dense, r: int) -> None:
    check_floating(A)
    expected = (-(-A.shape[1] // _WORD), r)
    if r < 1 or bits.shape != expected or bits.dtype != np.uint64:
        raise ValueError(
            f"the bits of a {A.shape[1]}×{r} sign matrix, r ≥ 1, must be uint64 of shape {expected}, not {bits.dtype} "
            f"of shape {bits.shape}"
        )


@numba.njit(cache=True, nogil=True)
def _signed_sums(tile: Dense, table: Dense) -> None:
    """Tabulate the 16 signed sums of every 4 columns: bit c of the index is set where column c is added."""
    for g in range(_TABLES):
        first = g * _SUMS * TILE
        store(table, first, zeros(table))
        for c in range(_GROUP):
            a = load(tile, (g * _GROUP + c) * TILE)
            half = (1 << c) * TILE
            for entry in range(first, first + half, TILE):
                x = load(table, entry)
                store(table, entry + half, add(x, a))
                store(table, entry, subtract(x, a))


@numba.njit(cache=True, nogil=True)
def _sign_product_dense(A: Dense, bits: Dense, scale: Any, C: Dense, first: int, last: int) -> None:
    d, r = A.shape[1], C.shape[1]
    tile = scratch(_WORD, A)
    table = scratch(_TABLES * _SUMS, A)
    total = scratch(r, A)
    for row in range(first, last, TILE):
        total[:] = 0
        for w in range(bits.shape[0]):
            width = min(_WORD, d - w * _WORD)
            read_tile(A, row, w * _WORD, w * _WORD + width, tile)
            tile[width * TILE :] = 0
            _signed_sums(tile, table)
            for j in range(r):
                word = bits[w, j]
                even, odd = load(total, j * TILE), zeros(total)
                for g in range(0, _TABLES, 2):
                    low, high = word >> np.uint64(_GROUP * g), word >> np.uint64(_GROUP * (g + 1))
                    even = add(even, load(table, (g * _SUMS + np.int64(low % np.uint64(_SUMS))) * TILE))
                    odd = add(odd, load(table, ((g + 1) * _SUMS + np.int64(high % np.uint64(_SUMS))) * TILE))
                store(total, j * TILE, add(even, odd))
        total *= scale
        write_tile(total, C[:last], row)


@numba.njit(cache=True, nogil=True)
def _sign_product_csr(
    data: Dense, indices: Dense, indptr: Dense, bits: Dense, scale: Any, C: Dense, first: int, last: int
) -> None:
    for i in range(first, last):
        total = C[i]
        total[:] = 0
        for p in range(indptr[i], indptr[i + 1]):
            column = np.uint64(indices[p])
            words, shift, a = bits[column // np.uint64(_WORD)], column % np.uint64(_WORD), data[p]
            for j in range(len(total)):
                total[j] += a if words[j] >> shift & np.uint64(1) else -a
        total *= scale


def sign_product(A: Matrix, bits: Dense, r: int, scale: float) -> Dense:
    """Return C = scale·AR for the d×r sign matrix R of ``bits``.

    Dense A by the method of Four Russians: the 16 signed sums of every 4 columns of A are tabulated, and each entry of
    C adds one look-up per 4 entries of R, without a multiplication. It took 0.31–0.80 of the time of BLAS with R given
    (float32: 0.41–0.91; r = 10 … 1000, d = 256 … 10304). On CSR it took 0.25 of scipy's time with R given (rcv1's
    shape, r = 100 and 1000).

    Parameters
    ----------
    A : (n, d) array or CSR
        float64 or float32.
    bits : (⌈d/64⌉, r) ndarray of uint64
        From :func:`draw_signs`.

    Returns
    -------
    (n, r) ndarray of A's dtype

    Raises
    ------
    ValueError
        If ``bits`` do not have the shape of a d×r matrix.
    """
    _check(A, bits, r)
    C = room((A.shape[0], r), A.dtype)
    factor = A.dtype.type(scale)
    if isinstance(A, np.ndarray):
        dense = np.ascontiguousarray(A)
        process_row_blocks(len(C), lambda rows: _sign_product_dense(dense, bits, factor, C, rows.start, rows.stop))
    else:
        data, indices, indptr = A.data, A.indices, A.indptr
        process_row_blocks(
            len(C), lambda rows: _sign_product_csr(data, indices, indptr, bits, factor, C, rows.start, rows.stop)
        )
    return C


def sign_products(A: Matrix, maps: Sequence[tuple[Dense, int]], scales: Sequence[float]) -> list[Dense]:
    """Return the results of :func:`sign_product` for the bits and the r of several maps, equal to the last bit.

    Dense A is read once, and its sums are tabulated once: 0.65–0.7 of the time of separate products for r = 5, 10, …,
    300 (400×4096, 400×10304), and 0.35–0.65 for 5, 10, …, 100 (1440×1024, 1000×2000, 11000×256), measured on a busy
    machine.

    Parameters
    ----------
    A : (n, d) array or CSR
        float64 or float32.
    maps : sequence of ((⌈d/64⌉, r) ndarray of uint64, int)
        Bits and r of each map.

    Returns
    -------
    list of (n, r) ndarray of A's dtype
    """
    if not isinstance(A, np.ndarray):
        return [sign_product(A, bits, r, scale) for (bits, r), scale in zip(maps, scales, strict=True)]
    ends = np.cumsum([r for _, r in maps])
    C = sign_product(A, np.hstack([bits for bits, _ in maps]), int(ends[-1]), 1.0)
    return [part * A.dtype.type(scale) for part, scale in zip(np.split(C, ends[:-1], axis=1), scales, strict=True)]


@numba.njit(cache=True, nogil=True)
def _addresses(bits: Dense, m: int, codes: Dense) -> None:
    """Write P: the column of U that equals each column of the g-th m rows of Rᵀ, read as a number of m bits."""
    r = bits.shape[1]
    for g in range(codes.shape[0]):
        for j in range(codes.shape[1]):
            code = np.int64(0)
            for b in range(min(m, r - g * m)):
                code |= np.int64(bits[j // _WORD, g * m + b] >> np.uint64(j % _WORD) & np.uint64(1)) << b
            codes[g, j] = code


@numba.njit(cache=True, nogil=True)
def _mailman_dense(A: Dense, codes: Dense, m: int, scale: Any, C: Dense, first: int, last: int) -> None:
    d, r = A.shape[1], C.shape[1]
    tile, mail, total = scratch(d, A), scratch(1 << m, A), scratch(r, A)
    for row in range(first, last, TILE):
        read_tile(A, row, 0, d, tile)
        for g in range(codes.shape[0]):
            width = min(m, r - g * m)
            mail[: TILE << width] = 0
            for j in range(d):  # z = Px
                box = np.int64(codes[g, j]) * TILE
                store(mail, box, add(load(mail, box), load(tile, j * TILE)))
            for b in range(width - 1, -1, -1):  # Uz, halved with every bit: U_n = [U_½ U_½; −1 … −1 1 … 1]
                x = zeros(mail)
                half = TILE << b
                for address in range(0, half, TILE):
                    low, high = load(mail, address), load(mail, address + half)
                    x = add(x, subtract(high, low))
                    store(mail, address, add(low, high))
                store(total, (g * m + b) * TILE, x)
        total *= scale
        write_tile(total, C[:last], row)


@numba.njit(cache=True, nogil=True)
def _mailman_csr(
    data: Dense, indices: Dense, indptr: Dense, codes: Dense, m: int, scale: Any, C: Dense, first: int, last: int
) -> None:
    r = C.shape[1]
    mail = np.empty(1 << m, data.dtype)
    for g in range(codes.shape[0]):
        width = min(m, r - g * m)
        for i in range(first, last):
            mail[: 1 << width] = 0
            for p in range(indptr[i], indptr[i + 1]):
                mail[codes[g, np.uint64(indices[p])]] += data[p]
            for b in range(width - 1, -1, -1):
                half = 1 << b
                x = mail[0] - mail[0]
                for address in range(half):
                    low, high = mail[address], mail[address + half]
                    x += high - low
                    mail[address] = low + high
                C[i, g * m + b] = x * scale


def mailman_product(A: Matrix, bits: Dense, r: int, scale: float) -> Dense:
    """Return C = scale·AR by the mailman algorithm (Liberty, Zucker 2009; bzmd15 §5; lf20 §2.5.2).

    Rᵀ is cut into blocks of m rows. A block is UP: the columns of U are all 2^m sign vectors, and P, with a single 1
    per column, selects one for each column of the block. Px costs d additions and U(Px), by recursion, 2^(m + 1). As in
    the papers m = ⌊log₂ d⌋; for CSR the mean number of entries of a row takes the place of d. The whole costs
    O(nnz·r/m) additions. m is at most r, and at most 16, the bits of an address here.

    Parameters, result and errors are as for :func:`sign_product`.
    """
    _check(A, bits, r)
    n, d = A.shape
    additions = d if isinstance(A, np.ndarray) else A.nnz // max(n, 1)
    m = min(max(additions.bit_length() - 1, 1), 16, r)
    codes = np.empty((-(-r // m), d), np.uint16)
    _addresses(bits, m, codes)
    C = room((n, r), A.dtype)
    factor = A.dtype.type(scale)
    if isinstance(A, np.ndarray):
        dense = np.ascontiguousarray(A)
        process_row_blocks(len(C), lambda rows: _mailman_dense(dense, codes, m, factor, C, rows.start, rows.stop))
    else:
        data, indices, indptr = A.data, A.indices, A.indptr
        process_row_blocks(
            len(C), lambda rows: _mailman_csr(data, indices, indptr, codes, m, factor, C, rows.start, rows.stop)
        )
    return C


def sign_matrix_reference(bits: Dense, d: int) -> Dense:
    """Return the d×r matrix of ±1 of ``bits``, float64."""
    by_word = np.unpackbits(bits.astype("<u8")[..., None].view(np.uint8), axis=-1, bitorder="little")
    return by_word.transpose(0, 2, 1).reshape(-1, bits.shape[1])[:d] * 2.0 - 1
