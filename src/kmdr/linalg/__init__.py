"""Numerical kernels that reducers use, one per module; ``tests/oracles.py`` has plain numpy versions.

Unless a docstring says otherwise, A is an n×d array or CSR array, d' is d rounded up to a power of two, V has one
vector per column, and C is the n×r result.
"""

from kmdr.base.paths import place_library_caches

place_library_caches()  # before numba is imported, which needs a folder for compiled kernels

from kmdr.linalg.count_sketch import count_sketch
from kmdr.linalg.hadamard import padded, rotate, rotated_entries, rotated_product
from kmdr.linalg.matrix import Dense, Matrix, matmul, squared_frobenius, take_columns
from kmdr.linalg.neighbours import mean_distance, nearest_neighbours
from kmdr.linalg.signs import draw_signs, mailman_product, random_signs, sign_product
from kmdr.linalg.singular_vectors import fast_frobenius_svd, sketch_size, top_right_singular_vectors

__all__ = [
    "Dense",
    "Matrix",
    "count_sketch",
    "draw_signs",
    "fast_frobenius_svd",
    "mailman_product",
    "matmul",
    "mean_distance",
    "nearest_neighbours",
    "padded",
    "random_signs",
    "rotate",
    "rotated_entries",
    "rotated_product",
    "sign_product",
    "sketch_size",
    "squared_frobenius",
    "take_columns",
    "top_right_singular_vectors",
]
