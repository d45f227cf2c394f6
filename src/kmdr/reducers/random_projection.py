"""Feature extraction by dense random matrices with independent entries: C = AR."""

import numpy as np
from sklearn.random_projection import johnson_lindenstrauss_min_dim

from kmdr.linalg import Dense, Matrix, draw_signs, mailman_product, matmul, sign_product
from kmdr.reducers.base import Reducer, register


@register("random_sign")
class RandomSign(Reducer):
    """C = AR with R_ij = ±1/√r, i.i.d. (bzmd15 Algorithm 2; lst17 RP; lf20 Algorithm 1).

    Law: E‖xR‖² = ‖x‖². Guarantee (bzmd15 Theorem 12): for r = Ω(k/ε²), with probability ≥ 0.96 − δ_γ,
    F ≤ (1 + (1 + ε)γ)F_opt for a γ-approximate k-means.
    """

    row_by_row = True

    def theorem_r(self, n: int, d: int, k: int, eps: float) -> int:
        """Return ⌈3330 k/ε²⌉ (bzmd15 Lemma 10; the proof of Theorem 12 rescales ε and has 3330·15²)."""
        del n, d
        return int(np.ceil(3330 * k / eps**2))

    def draw(self, A: Matrix, r: int, rng: np.random.Generator, state: None) -> tuple[Dense, int]:
        del state
        return draw_signs(A.shape[1], r, rng), r

    def apply(self, A: Matrix, drawn: tuple[Dense, int]) -> Dense:
        bits, r = drawn
        return sign_product(A, bits, r, 1 / np.sqrt(r))


@register("random_sign_mailman")
class MailmanRandomSign(RandomSign):
    """C = AR as by random_sign, by the mailman algorithm (Liberty, Zucker 2009; bzmd15 §5; lf20 §2.5.2)."""

    row_by_row = True

    def apply(self, A: Matrix, drawn: tuple[Dense, int]) -> Dense:
        bits, r = drawn
        return mailman_product(A, bits, r, 1 / np.sqrt(r))


@register("gaussian")
class Gaussian(Reducer):
    """C = AR with R_ij = N(0, 1)/√r, i.i.d. (lf20 §2.5.1).

    Law: ‖xR‖² = ‖x‖²·χ²_r/r. Guarantee (Dasgupta, Gupta 2003): for r ≥ 4 ln n/(ε²/2 − ε³/3) all distances between n
    points are preserved within 1 ± ε with positive probability.
    """

    def theorem_r(self, n: int, d: int, k: int, eps: float) -> int:
        """Return ⌈4 ln n/(ε²/2 − ε³/3)⌉."""
        del d, k
        return int(johnson_lindenstrauss_min_dim(n, eps=eps)) + 1

    def draw(self, A: Matrix, r: int, rng: np.random.Generator, state: None) -> Dense:
        del state
        return np.asarray(rng.standard_normal((A.shape[1], r)) / np.sqrt(r), dtype=A.dtype)

    def apply(self, A: Matrix, drawn: Dense) -> Dense:
        return matmul(A, drawn.astype(A.dtype, copy=False))


@register("achlioptas")
class Achlioptas(Gaussian):
    """C = AR with two thirds of R zero (Achlioptas 2003; lf20 §2.5.1).

    R_ij = ±√(3/r) with probability 1/6 each, else 0.

    Law: E‖xR‖² = ‖x‖². Guarantee (Achlioptas 2003, Theorem 1.1): as for ``gaussian``.
    """

    def draw(self, A: Matrix, r: int, rng: np.random.Generator, state: None) -> Dense:
        del state
        faces = rng.integers(6, size=(A.shape[1], r), dtype=np.uint8)
        entries = np.sqrt(3 / r) * np.array([1, -1, 0, 0, 0, 0])
        return np.asarray(entries.astype(A.dtype)[faces])
