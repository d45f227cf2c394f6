"""Checks of what reducers of plugins return.

kmdr's kernels trust its own reducers. From others, a row would state an r that C does not have, and a malformed CSR
array would let compiled code read outside of it.
"""

from functools import wraps
from typing import Any

import numpy as np
import scipy.sparse as sp

from kmdr.base.errors import UserError
from kmdr.linalg import Matrix
from kmdr.linalg.matrix import check_structure
from kmdr.reducers.base import Reducer
from kmdr.reducers.outside import as_matrix, refuse_masked


def check_output(cls: type[Reducer]) -> None:
    """Let ``reduce`` of a class refuse a C that is not an n×r matrix of real numbers, from now on.

    A reducer with a k-means of its own may return anything.
    """
    if cls.own_kmeans or getattr(cls.reduce, "checks_output", False):
        return
    reduce = cls.reduce

    @wraps(reduce)
    def checked(self: Reducer, A: Matrix, r: int, rng: np.random.Generator, state: Any) -> Matrix:
        C = reduce(self, A, r, rng, state)
        return A if C is A and r == A.shape[1] else _checked(C, A.shape[0], r)

    checked.checks_output = True  # type: ignore[attr-defined]
    cls.reduce = checked  # type: ignore[method-assign]


def _checked(C: Any, n: int, r: int) -> Matrix:
    """Return C as an n×r array, or a CSR array whose parts fit together, of float64 or float32."""
    refuse_masked(C, "reducer")
    if not sp.issparse(C):
        C = np.asarray(C)
    if C.dtype.kind not in "fiub":
        raise UserError(f"the reducer returned entries of type {C.dtype}; return an array of real numbers")
    matrix = as_matrix(C, n, r)
    if sp.issparse(matrix):
        check_structure(matrix)
        matrix = matrix.astype(np.promote_types(matrix.dtype, np.float32), copy=False)
    return matrix
