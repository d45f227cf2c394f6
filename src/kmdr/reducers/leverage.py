"""Feature selection by leverage-score sampling."""

import numpy as np

from kmdr.linalg import Dense, Matrix, fast_frobenius_svd, take_columns, top_right_singular_vectors
from kmdr.reducers.base import Reducer, at_most, open_unit_interval, register


def leverage_scores(V: Dense) -> Dense:
    """Return the sampling probabilities p_i = ‖V_(i)‖²/k of orthonormal columns V (d×k); they sum to one."""
    scores = np.einsum("ij,ij->i", V, V)
    return np.asarray(scores / scores.sum())


def sample_columns(A: Matrix, p: Dense, r: int, rng: np.random.Generator) -> Dense:
    """Draw r columns i.i.d. with replacement by ``p`` and rescale each by 1/√(r p_i), so that E[CCᵀ] = AAᵀ."""
    columns = rng.choice(len(p), size=r, replace=True, p=p)
    return take_columns(A, columns, 1.0 / np.sqrt(r * p[columns]))


@register("leverage")
class LeverageScores(Reducer):
    """Sampling by exact leverage scores (bmd09 Algorithm 1; bzmd15 Sampl/SVD).

    1. V_k: the top k right singular vectors of A.
    2. p_i = ‖(V_k)_(i)‖²/k.
    3. r i.i.d. draws with replacement; column i of A, rescaled by 1/√(r p_i).

    Guarantee (bzmd15 Theorem 11, with ε = 0 for exact singular vectors): for r = Ω(k log k/ε²), with constant
    probability, F ≤ (1 + (2 + ε)γ)F_opt for a γ-approximate k-means.
    """

    def check(self, n: int, d: int, k: int, r: int) -> None:  # noqa: D102
        del r  # draws are with replacement, so r may exceed d
        at_most(k, min(n, d), "leverage sampling", "singular vectors (one a cluster)")

    def prepare(self, A: Matrix, k: int, rng: np.random.Generator) -> Dense:  # noqa: D102
        del rng
        return leverage_scores(top_right_singular_vectors(A, k))

    def reduce(self, A: Matrix, r: int, rng: np.random.Generator, state: Dense) -> Dense:  # noqa: D102
        return sample_columns(A, state, r, rng)


@register("leverage_approx")
class ApproximateLeverageScores(LeverageScores):
    """The same with Z = FastFrobeniusSVD(A, k, ε) in place of V_k (bzmd15 Algorithm 1; Sampl/ApproxSVD).

    Parameters
    ----------
    eps : float
        0 < ε < 1; the paper's experiments use 1/3.
    """

    def __init__(self, eps: float = 1 / 3) -> None:
        self.eps = open_unit_interval(eps, "eps")

    def prepare(self, A: Matrix, k: int, rng: np.random.Generator) -> Dense:  # noqa: D102
        return leverage_scores(fast_frobenius_svd(A, k, self.eps, rng))
