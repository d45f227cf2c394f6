"""Matrices, dense or CSR, and the few operations on them that every reducer shares."""

from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

Dense: TypeAlias = np.ndarray
Matrix: TypeAlias = np.ndarray | sp.csr_array


def matmul(A: Matrix, B: Dense) -> Dense:
    """Return the dense product ``A @ B`` of a dense or CSR matrix with a dense one, C-contiguous."""
    return np.ascontiguousarray(A @ B)


def squared_frobenius(A: Matrix) -> float:
    """Return ‖A‖²_F, accumulated in float64."""
    values: Dense = A.reshape(-1) if isinstance(A, np.ndarray) else A.data
    values = values.astype(np.float64, copy=False)
    return float(values @ values)


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
    if sp.issparse(A):
        # A selection matrix keeps the work at O(nnz + n·r), whereas column indexing of CSR sorts.
        ones = np.ones(len(columns), dtype=A.dtype) if scale is None else scale.astype(A.dtype)
        selection = sp.csr_array((ones, (columns, np.arange(len(columns)))), shape=(A.shape[1], len(columns)))
        return np.ascontiguousarray((A @ selection).toarray())
    C = np.take(A, columns, axis=1)
    if scale is not None:
        C *= scale.astype(A.dtype)
    return C
