"""Count sketch: every feature is added, with a sign, to one column of the result."""

import numba
import numpy as np

from kmdr.linalg.matrix import Dense, Matrix


@numba.njit(cache=True, fastmath={"contract"})
def _count_sketch_dense(A: Dense, bucket: Dense, sign: Dense, C: Dense) -> None:
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            C[i, bucket[j]] += sign[j] * A[i, j]


@numba.njit(cache=True, fastmath={"contract"})
def _count_sketch_csr(data: Dense, indices: Dense, indptr: Dense, bucket: Dense, sign: Dense, C: Dense) -> None:
    for i in range(len(indptr) - 1):
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            C[i, bucket[j]] += sign[j] * data[p]


def count_sketch(A: Matrix, bucket: Dense, sign: Dense, r: int) -> Dense:
    """Return C with C[:, b] = Σ_{j: bucket[j] = b} sign[j] A[:, j], in one pass over the stored entries of ``A``.

    Parameters
    ----------
    A : (n, d) array or CSR
    bucket : (d,) int array
        Column of C for each feature, 0 ≤ bucket < r.
    sign : (d,) array of ±1
    r : int

    Returns
    -------
    (n, r) ndarray of A's dtype
    """
    C = np.zeros((A.shape[0], r), dtype=A.dtype)
    sign = sign.astype(A.dtype, copy=False)
    if isinstance(A, np.ndarray):
        _count_sketch_dense(A, bucket, sign, C)
    else:
        _count_sketch_csr(A.data, A.indices, A.indptr, bucket, sign, C)
    return C
