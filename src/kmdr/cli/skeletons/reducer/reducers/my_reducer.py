"""my_reducer: describe here what it does."""

import numpy as np

from kmdr.linalg import Dense, Matrix, take_columns
from kmdr.reducers.base import Reducer, register


@register("my_reducer")
class MyReducer(Reducer):
    """C = r columns of A drawn uniformly with replacement, each times √(d/r), so that E[CCᵀ] = AAᵀ."""

    def draw(self, A: Matrix, r: int, rng: np.random.Generator, state: None) -> Dense:
        """Return the indices of r columns."""
        del state
        return np.asarray(rng.integers(A.shape[1], size=r))

    def apply(self, A: Matrix, drawn: Dense) -> Dense:
        """Return those columns, scaled."""
        r = len(drawn)
        return take_columns(A, drawn, np.full(r, np.sqrt(A.shape[1] / r)))
