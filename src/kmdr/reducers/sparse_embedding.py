"""Feature extraction by hashing features."""

import numpy as np

from kmdr.linalg import Dense, Matrix, count_sketch
from kmdr.reducers.base import Reducer, register
from kmdr.reducers.random_projection import random_signs


@register("sparse_embedding")
class SparseEmbedding(Reducer):
    """C = A·Q·Φ: each feature gets one random sign and is added to one random column (lst17 Algorithm 1).

    Q is diagonal with ±1, Φ (d×r) has a single one in each row, uniformly placed; the product costs O(nnz(A)).
    Law: E‖xQΦ‖² = ‖x‖².
    """

    def reduce(self, A: Matrix, r: int, rng: np.random.Generator, state: None) -> Dense:  # noqa: D102
        del state
        d = A.shape[1]
        bucket = np.asarray(rng.integers(r, size=d))
        sign = random_signs((1, d), rng)[0]
        return count_sketch(A, bucket, sign, r)
