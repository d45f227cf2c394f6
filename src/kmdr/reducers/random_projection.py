"""Feature extraction by random matrices with independent entries."""

from typing import Any

import numpy as np

from kmdr.linalg import Dense, Matrix, matmul
from kmdr.reducers.base import Reducer, register


def random_signs(shape: tuple[int, int], rng: np.random.Generator, dtype: Any = np.float64) -> Dense:
    """Return independent ±1, each with probability 1/2, at the cost of one random bit an entry."""
    count = shape[0] * shape[1]
    bits = np.unpackbits(np.frombuffer(rng.bytes(-(-count // 8)), dtype=np.uint8), count=count)
    signs = bits.reshape(shape).astype(dtype)
    signs *= 2
    signs -= 1
    return signs


@register("random_sign")
class RandomSign(Reducer):
    """C = AR with R_ij = ±1/√r, i.i.d. (bzmd15 Algorithm 2; lst17 RP; lf20 Algorithm 1).

    Law: E‖xR‖² = ‖x‖². Guarantee (bzmd15 Theorem 12): for r = Ω(k/ε²), with probability ≥ 0.96 − δ_γ,
    F ≤ (1 + (1 + ε)γ)F_opt for a γ-approximate k-means.
    """

    def reduce(self, A: Matrix, r: int, rng: np.random.Generator, state: None) -> Dense:  # noqa: D102
        del state
        R = random_signs((A.shape[1], r), rng, A.dtype)
        R *= 1 / np.sqrt(r)
        return matmul(A, R)
