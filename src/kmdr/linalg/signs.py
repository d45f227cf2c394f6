"""Products with a random sign matrix, stored as bits.

The d×r sign matrix R is kept as 64 rows per word: bit i mod 64 of ``bits[i // 64, j]`` is set if R_ij = +1.
"""

from typing import Any, NamedTuple

import numba
import numpy as np

from kmdr.base.threads import process_row_blocks
from kmdr.linalg.matrix import Dense, Matrix, check_floating, matmul, room, transpose_block

_WORD = 64
# Fewer dense rows than these are multiplied one by one: in a block of 64 they would take as long as 64.
_FEW_ROWS = 12
_ROWS = 64  # rows that the mailman serves together


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
def _write_signs(bits: Dense, R: Dense) -> None:
    for i in range(R.shape[0]):
        words, shift = bits[i // _WORD], np.uint64(i % _WORD)
        for j in range(R.shape[1]):
            R[i, j] = 2 * np.int64(words[j] >> shift & np.uint64(1)) - 1


def sign_matrix(bits: Dense, d: int, dtype: Any = np.float64) -> Dense:
    """Return the d×r matrix of ±1 of ``bits``."""
    R = np.empty((d, bits.shape[1]), dtype)
    _write_signs(bits, R)
    return R


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

    BLAS multiplies a dense A by ±1. On CSR a kernel takes 0.25 of scipy's time with R given (rcv1's shape, r = 100 and
    1000), because R stays 64 times smaller.

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
    factor = A.dtype.type(scale)
    if isinstance(A, np.ndarray):
        C = matmul(A, sign_matrix(bits, A.shape[1], A.dtype))
        C *= factor
        return C
    C = room((A.shape[0], r), A.dtype)
    data, indices, indptr = A.data, A.indices, A.indptr
    process_row_blocks(
        len(C), lambda rows: _sign_product_csr(data, indices, indptr, bits, factor, C, rows.start, rows.stop)
    )
    return C


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
    columns, mail = np.zeros((A.shape[1], _ROWS), A.dtype), np.empty((1 << m, _ROWS), A.dtype)
    x = np.empty(_ROWS, A.dtype)
    for row in range(first, last, _ROWS):
        rows = min(_ROWS, last - row)
        transpose_block(A, row, rows, 0, columns, len(columns))
        for g in range(codes.shape[0]):
            width = min(m, C.shape[1] - g * m)
            mail[: 1 << width] = 0
            for j in range(len(columns)):  # z = Px
                box, column = mail[np.uint64(codes[g, j])], columns[j]
                for t in range(_ROWS):
                    box[t] += column[t]
            for b in range(width - 1, -1, -1):  # Uz, halved with every bit: U_n = [U_½ U_½; −1 … −1 1 … 1]
                half = 1 << b
                x[:] = 0
                for address in range(half):
                    low, high = mail[address], mail[address + half]
                    for t in range(_ROWS):
                        x[t] += high[t] - low[t]
                        low[t] += high[t]
                for t in range(rows):
                    C[row + t, g * m + b] = x[t] * scale


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


class MailmanFactor(NamedTuple):
    """A sign matrix R as the mailman algorithm takes it: blocks of m rows of Rᵀ, each UP.

    Attributes
    ----------
    codes : (⌈r/m⌉, d) ndarray of uint16
        P of each block: the number of the column of U that equals each column of the block.
    m : int
        Rows of a block.
    r : int
        Columns of R.
    """

    codes: Dense
    m: int
    r: int


def mailman_factor(A: Matrix, bits: Dense, r: int) -> MailmanFactor:
    """Prepare the d×r sign matrix of ``bits`` for products with A and with other matrices of as many entries in a row.

    As in the papers m = ⌊log₂ d⌋; for CSR the mean number of entries of a row takes the place of d. m is at most r, and
    at most 16, the bits of an address here.

    Parameters and errors are as for :func:`sign_product`.
    """
    _check(A, bits, r)
    n, d = A.shape
    additions = d if isinstance(A, np.ndarray) else A.nnz // max(n, 1)
    m = min(max(additions.bit_length() - 1, 1), 16, r)
    codes = np.empty((-(-r // m), d), np.uint16)
    _addresses(bits, m, codes)
    return MailmanFactor(codes, m, r)


def multiply_by_mail(A: Matrix, factor: MailmanFactor, scale: float) -> Dense:
    """Return C = scale·AR for the sign matrix R of ``factor``; few rows one by one, more in blocks of 64.

    Parameters
    ----------
    A : (n, d) array or CSR
        float64 or float32.

    Returns
    -------
    (n, r) ndarray of A's dtype
    """
    codes, m, r = factor
    n, d = A.shape
    C = room((n, r), A.dtype)
    dtype_scale = A.dtype.type(scale)
    if isinstance(A, np.ndarray) and n >= _FEW_ROWS:
        dense = np.ascontiguousarray(A)
        process_row_blocks(n, lambda rows: _mailman_dense(dense, codes, m, dtype_scale, C, rows.start, rows.stop))
        return C
    if isinstance(A, np.ndarray):
        data, indices, indptr = A.ravel(), np.tile(np.arange(d, dtype=np.int32), n), np.arange(n + 1) * d
    else:
        data, indices, indptr = A.data, A.indices, A.indptr
    process_row_blocks(
        n, lambda rows: _mailman_csr(data, indices, indptr, codes, m, dtype_scale, C, rows.start, rows.stop)
    )
    return C


def mailman_product(A: Matrix, bits: Dense, r: int, scale: float) -> Dense:
    """Return C = scale·AR by the mailman algorithm (Liberty, Zucker 2009; bzmd15 §5; lf20 §2.5.2).

    Rᵀ is cut into blocks of m rows. A block is UP: the columns of U are all 2^m sign vectors, and P, with a single 1
    per column, selects one for each column of the block. Px costs d additions and U(Px), by recursion, 2^(m + 1). The
    whole costs O(nnz·r/m) additions. `mailman_factor` gives m.

    Parameters, result and errors are as for :func:`sign_product`.
    """
    return multiply_by_mail(A, mailman_factor(A, bits, r), scale)
