"""The kernels that reducers rest on, one a module.

Beside each stands its plain numpy form, ``…_reference``, which tests compare it with, and a check of a result that
needs neither, ``…_error``.
"""

from kmdr.linalg.count_sketch import count_sketch
from kmdr.linalg.matrix import Dense, Matrix, matmul, squared_frobenius, take_columns
from kmdr.linalg.singular_vectors import fast_frobenius_svd, sketch_size, top_right_singular_vectors

__all__ = [
    "Dense",
    "Matrix",
    "count_sketch",
    "fast_frobenius_svd",
    "matmul",
    "sketch_size",
    "squared_frobenius",
    "take_columns",
    "top_right_singular_vectors",
]
