"""No reduction: k-means on all features, the reference line of every figure."""

from typing import Any

import numpy as np

from kmdr.linalg import Matrix
from kmdr.reducers.base import Reducer, register


@register("none")
class NoReduction(Reducer):
    """C = A: k-means on all features."""

    deterministic = True

    def fixed_r(self, d: int, k: int) -> int:
        del k
        return d

    def draw(self, A: Matrix, r: int, rng: np.random.Generator, state: Any) -> None:
        del A, r, rng, state

    def apply(self, A: Matrix, drawn: None) -> Matrix:
        del drawn
        return A

    def _sizes(self, n: int, d: int) -> tuple[int, int]:
        del n
        return 1, d
