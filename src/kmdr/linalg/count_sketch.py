"""Count sketch and OSNAP: every feature is added, with signs, to one or a few columns of the result.

The kernels read a table of ``codes``, 2·bucket + (sign < 0), one word per feature, so that an entry costs one look-up.
Codes are unsigned, and CSR's indices are cast to unsigned, because the compiler otherwise prepares each index for
Python's counting from the end: CSR with signed indices took 1.4–1.8 times as long.
"""

import numba
import numpy as np

from kmdr.base.threads import process_row_blocks
from kmdr.linalg.matrix import Dense, Matrix, check_floating, room

# Rows that are scattered together: independent chains of load, add and store hide each other's latency. Eight took
# 1.0–1.3 times as long, and summing features sorted by bucket in registers 1.1–1.8 times.
_ROWS = 4
# A Fortran-ordered matrix is added up in a transposed block of this many entries (512 KB of float64, which stay in the
# second-level cache; twice as many took 0.95–1.1 times as long) and of at most _LENGTH rows.
_BLOCK = 1 << 16
_LENGTH = 4096


@numba.njit(cache=True, nogil=True)
def _encode(bucket: Dense, sign: Dense, r: int, weight: float, codes: Dense) -> bool:
    """Write the codes of (d, s) buckets and signs into an (s, d) table; return False if any of them is invalid."""
    valid = True
    for j in range(bucket.shape[0]):
        for t in range(bucket.shape[1]):
            valid &= (0 <= bucket[j, t] < r) & (abs(sign[j, t]) == weight)
            codes[t, j] = 2 * bucket[j, t] + (sign[j, t] < 0)
    return valid


@numba.njit(cache=True, nogil=True)
def _scatter(A: Dense, codes: Dense, i: int, rows: int, C: Dense) -> None:
    # Multiplying by a sign from a table never branches; a choice between a and −a became a branch, twice as slow for
    # d = 10304, where it is not predicted.
    signs = np.array([1, -1]).astype(A.dtype)
    C[i : i + rows] = 0
    for t in range(codes.shape[0]):
        code_of = codes[t]
        for j in range(A.shape[1]):
            code = code_of[j]
            sign = signs[code & 1]
            for q in range(i, i + rows):
                C[q, code >> 1] += sign * A[q, j]


@numba.njit(cache=True, nogil=True)
def _sketch_rows(A: Dense, codes: Dense, C: Dense) -> None:
    """Write C from row-major A, a few rows at a time."""
    n = A.shape[0]
    whole = n - n % _ROWS
    for i in range(0, whole, _ROWS):
        _scatter(A, codes, i, _ROWS, C)
    for i in range(whole, n):
        _scatter(A, codes, i, 1, C)


@numba.njit(cache=True, nogil=True)
def _sketch_columns(AT: Dense, first: int, codes: Dense, C: Dense) -> None:
    """Write C from the transpose of A, for as many rows of A as C has, from ``first`` on."""
    signs = np.array([1, -1]).astype(AT.dtype)
    n, r = C.shape
    length = min(_LENGTH, max(16, _BLOCK // r), n)
    CT = np.empty((r, length + 8), AT.dtype)  # + 8: rows a power of two apart would share one set of the cache
    for lo in range(0, n, length):
        rows = min(length, n - lo)
        CT[:] = 0
        for j in range(AT.shape[0]):
            a = AT[j, first + lo : first + lo + rows]
            for t in range(codes.shape[0]):
                code = codes[t, j]
                c, sign = CT[code >> 1], signs[code & 1]
                for i in range(rows):
                    c[i] += sign * a[i]
        for i in range(rows):
            for b in range(r):
                C[lo + i, b] = CT[b, i]


@numba.njit(cache=True, nogil=True)
def _sketch_csr(data: Dense, indices: Dense, indptr: Dense, codes: Dense, C: Dense) -> None:
    """Write C from CSR rows."""
    for i in range(C.shape[0]):
        c = C[i]
        c[:] = 0
        for t in range(codes.shape[0]):
            code_of = codes[t]
            for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                code = code_of[np.uint64(indices[p])]
                c[code >> 1] += -data[p] if code & 1 else data[p]


def count_sketch(A: Matrix, bucket: Dense, sign: Dense, r: int) -> Dense:
    """Return C = A·S, where row j of S (d×r) holds ``sign[j]`` in the columns ``bucket[j]`` and zeros elsewhere.

    With one column per feature this is the count sketch, C[:, b] = Σ_{j: bucket[j] = b} sign[j] A[:, j] (Clarkson,
    Woodruff 2013). With s columns and signs ±1/√s it is OSNAP (Nelson, Nguyen 2013), where the columns of a feature lie
    one in each of s blocks or are any s distinct ones. It costs O(s·nnz(A) + n·r), in one pass over A's memory.

    Parameters
    ----------
    A : (n, d) array or CSR of float64 or float32
    bucket : (d,) or (d, s) int array
        Columns of C for each feature, 0 ≤ bucket < r. A column that a feature names twice is added twice.
    sign : array of the shape of ``bucket``
        ±w with one weight w for all, such as 1 or 1/√s.

    Returns
    -------
    (n, r) ndarray of A's dtype, C-ordered
        Summed in that precision; independent of the number of threads.

    Raises
    ------
    ValueError
        If the shapes do not match, a bucket is not a column of C, the signs differ in magnitude, or A has another
        dtype.
    """
    check_floating(A)
    n, d = A.shape
    if bucket.shape != sign.shape or bucket.shape not in {(d,), (d, *bucket.shape[1:2])}:
        raise ValueError(f"buckets {bucket.shape} and signs {sign.shape} must both be ({d},) or ({d}, s)")
    bucket, sign = (part[:, None] if part.ndim == 1 else part for part in (bucket, sign))
    weight = abs(float(sign[0, 0])) if sign.size else 1.0
    codes = np.empty(bucket.shape[::-1], dtype=np.uint32)
    if r < 1 or bucket.dtype.kind not in "iu" or not _encode(bucket, sign, min(r, 1 << 31), weight, codes):
        raise ValueError(f"buckets must be whole numbers from 0 to {r - 1}, and signs ±w with one w")
    if isinstance(A, np.ndarray) and not A.flags.f_contiguous:
        A = np.ascontiguousarray(A)
    C = room((n, r), A.dtype)

    def work(rows: slice) -> None:
        if not isinstance(A, np.ndarray):
            _sketch_csr(A.data, A.indices, A.indptr[rows.start : rows.stop + 1], codes, C[rows])
        elif A.flags.c_contiguous:
            _sketch_rows(A[rows], codes, C[rows])
        else:
            _sketch_columns(A.T, rows.start, codes, C[rows])
        if weight != 1:
            C[rows] *= weight

    process_row_blocks(n, work)
    return C
