"""Feature extraction by hashing features."""

import numpy as np

from kmdr.base.errors import whole_number
from kmdr.linalg import Dense, Matrix, count_sketch, random_signs
from kmdr.reducers.base import Reducer, register

# Failure probability δ of lst17's Theorem 1.
_DELTA = 0.1


@register("sparse_embedding")
class SparseEmbedding(Reducer):
    """C = A·Q·Φ: each feature is added to one random column (lst17 Algorithm 1), with a random sign.

    1. Φ (d×r) has a single one in each row, uniformly placed.
    2. Q is diagonal with random ±1.
    3. C = AQΦ, in O(nnz(A)).

    Law: E‖xQΦ‖² = ‖x‖². Guarantee (lst17 Theorem 1): for r = O(max((k + log(1/δ))/ε², 6/(ε²δ))), with probability
    ≥ 1 − O(δ), the best clustering of C is within 1 + ε of the best of A.
    """

    row_by_row = True

    def theorem_r(self, n: int, d: int, k: int, eps: float) -> int:
        """Return ⌈max(k + ln(1/δ), 6/δ)/ε²⌉, δ = 0.1 (lst17 Algorithm 1, step 1, with constant 1)."""
        del n, d
        return int(np.ceil(max(k + np.log(1 / _DELTA), 6 / _DELTA) / eps**2))

    def draw(self, A: Matrix, r: int, rng: np.random.Generator, state: None) -> tuple[Dense, Dense, int]:
        del state
        d = A.shape[1]
        return np.asarray(rng.integers(r, size=d)), random_signs((1, d), rng)[0], r

    def apply(self, A: Matrix, drawn: tuple[Dense, Dense, int]) -> Dense:
        return count_sketch(A, *drawn)


@register("osnap")
class OSNAP(SparseEmbedding):
    """C = A·S, S with s entries ±1/√s per feature (Nelson, Nguyen 2013; extra), one in each of s blocks of columns.

    Also called sparse Johnson–Lindenstrauss transform (Kane, Nelson 2014, block construction). If s does not divide r,
    the first blocks are one column wider. Law: E‖xS‖² = ‖x‖², with 1/s of the variance that each colliding pair gives
    for s = 1.

    Parameters
    ----------
    s : int
        Non-zeros per feature, at least 1; at most r of them are used.
    """

    row_by_row = True

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_clusters: int = 8,
        eps: float = 1 / 3,
        s: int = 4,
        random_state: object = None,
    ) -> None:
        super().__init__(n_components, n_clusters=n_clusters, eps=eps, random_state=random_state)
        self.s = s

    def validate(self) -> None:
        whole_number("s", self.s, 1)

    def theorem_r(self, n: int, d: int, k: int, eps: float) -> int:
        """Return ⌈k ln(k/δ)/ε²⌉, δ = 0.1 (Cohen 2016, Theorem 4.2, with constant 1)."""
        del n, d
        return int(np.ceil(k * np.log(k / _DELTA) / eps**2))

    def draw(self, A: Matrix, r: int, rng: np.random.Generator, state: None) -> tuple[Dense, Dense, int]:
        del state
        d, s = A.shape[1], min(self.s, r)
        edges = [len(block) for block in np.array_split(np.arange(r), s)]
        first = np.concatenate([[0], np.cumsum(edges)[:-1]])
        bucket = first + rng.integers(np.asarray(edges), size=(d, s))
        return bucket, random_signs((d, s), rng) / np.sqrt(s), r
