"""Feature selection by leverage scores: sampling in the papers' variants, and two methods from later work."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from kmdr.base.errors import UserError
from kmdr.linalg import Dense, Matrix, fast_frobenius_svd, squared_frobenius, take_columns, top_right_singular_vectors
from kmdr.linalg.matrix import as_float64, normalised, panels, row_blocks
from kmdr.linalg.singular_vectors import gram
from kmdr.reducers.base import (
    Reducer,
    check_bool,
    check_choice,
    check_limit,
    check_memory,
    check_unit_interval,
    column_centred,
    register,
)
from kmdr.reducers.selection import BestFeatures, Selecting, largest_first
from kmdr.reducers.singular_vectors import SOLVERS, right_singular_vectors

# Failure probability of Lemma 6 in the number of columns that bzmd15's Algorithm 1 asks for: 4k ln(200k)/ε².
_DELTA = 0.01
# Number of draws after which `sample_distinct_columns` stops.
_MOST_DRAWS = 10**7
_MERGING = ("draws", "dropped")


def leverage_scores(V: Dense) -> Dense:
    """Return the sampling probabilities p_i = ‖V_(i)‖²/k of orthonormal columns V (d×k); they sum to one."""
    scores = np.einsum("ij,ij->i", V, V)
    return np.asarray(scores / scores.sum())


def sample_columns(p: Dense, r: int, rng: np.random.Generator) -> tuple[Dense, Dense]:
    """Draw r columns i.i.d. with replacement by ``p``, and their scales 1/√(r p_i), so that E[CCᵀ] = AAᵀ.

    The sampling of bzmd15 Definition 5 (RandomizedSampling).
    """
    columns = rng.choice(len(p), size=r, replace=True, p=p)
    return columns, 1.0 / np.sqrt(r * p[columns])


def sample_distinct_columns(p: Dense, r: int, rng: np.random.Generator) -> tuple[Dense, Dense]:
    """Draw columns as `sample_columns` does until r distinct ones have occurred, and merge the repetitions.

    A column drawn m times out of M has the scale √(m/(M p_i)): CCᵀ equals that of all M draws.

    Parameters
    ----------
    p : (d,) ndarray
        Probabilities.

    Returns
    -------
    columns : (r,) ndarray of int64
        In the order of their first draws.
    scale : (r,) ndarray

    Raises
    ------
    UserError
        If fewer than r columns have a positive probability, or 10⁷ draws yield fewer than r distinct columns.
    """
    positive = int(np.count_nonzero(p))
    if positive < r:
        raise UserError(
            f"r = {r} distinct columns were requested, but only {positive} have a positive leverage score; choose "
            f"r ≤ {positive}"
        )
    draws, first = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    while len(first) < r:
        if len(draws) >= _MOST_DRAWS:
            raise UserError(
                f"r = {r} distinct columns were requested, but {len(draws)} draws gave only {len(first)}: the scores "
                "are too concentrated; choose a smaller r"
            )
        draws = np.concatenate([draws, rng.choice(len(p), size=max(r, len(draws)), p=p)])
        first = np.sort(np.unique(draws, return_index=True)[1])
    M = first[r - 1] + 1
    columns, counts = draws[first[:r]], np.bincount(draws[:M], minlength=len(p))
    return columns, np.sqrt(counts[columns] / (M * p[columns]))


def merge_columns(columns: Dense, scale: Dense, weighted: bool) -> tuple[Dense, Dense]:
    """Merge repeated columns, in the order of their first draws; if ``weighted``, m draws multiply the scale by √m.

    CCᵀ, and with it every distance between points, then stays the same.
    """
    _, first, counts = np.unique(columns, return_index=True, return_counts=True)
    order = np.argsort(first)
    first, weight = first[order], np.sqrt(counts[order]) if weighted else 1.0
    return columns[first], scale[first] * weight


class _Sampling(Selecting):
    """Columns drawn by probabilities that ``prepare`` returns, each rescaled."""

    @property
    def _columns(self) -> Dense:
        return np.asarray(self.map_[0])

    def draw(self, A: Matrix, r: int, rng: np.random.Generator, state: Dense) -> tuple[Dense, Dense]:
        del A
        return sample_columns(state, r, rng)

    def apply(self, A: Matrix, drawn: tuple[Dense, Dense]) -> Dense:
        return take_columns(A, *drawn)


@register("leverage")
class LeverageScores(_Sampling):
    """Sampling by exact leverage scores (bmd09 Algorithm 1; bzmd15 Sampl/SVD).

    1. V_k: the top k right singular vectors of A.
    2. p_i = ‖(V_k)_(i)‖²/k.
    3. r i.i.d. draws with replacement; column i of A, rescaled by 1/√(r p_i).

    Guarantee (bzmd15 Theorem 11, with ε = 0 for exact singular vectors): for r = Ω(k log k/ε²), with constant
    probability, F ≤ (1 + (2 + ε)γ)F_opt for a γ-approximate k-means.

    Parameters
    ----------
    centred : bool
        Whether the singular vectors are computed from the column-centred A, as in principal component analysis (lf20's
        code). The columns are taken from A itself.
    merged : bool or {"draws", "dropped"}
        Treatment of a column that is drawn again. False: it is repeated. True: r counts distinct columns; drawing
        continues until r have occurred, and a column drawn m times out of M is taken once, rescaled by √(m/(M p_i)).
        "draws": r counts draws, and a column drawn m times is taken once, rescaled by √(m/(r p_i)); C has fewer than r
        columns, and distances, so k-means too, are as with False. "dropped": the same, but rescaled by 1/√(r p_i) as if
        drawn once; no theorem covers that.
    rescaled : bool
        Whether columns are rescaled by the probabilities. No theorem covers False.
    solver : {"kmdr", "lapack"}
        Solver for V_k, as for ``svd``.
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_clusters: int = 8,
        eps: float = 1 / 3,
        centred: bool = False,
        merged: bool | str = False,
        rescaled: bool = True,
        solver: str = "kmdr",
        random_state: object = None,
    ) -> None:
        super().__init__(n_components, n_clusters=n_clusters, eps=eps, random_state=random_state)
        self.centred = centred
        self.merged = merged
        self.rescaled = rescaled
        self.solver = solver

    def validate(self) -> None:
        check_bool(self.centred, "centred")
        if not isinstance(self.merged, bool) and self.merged not in _MERGING:
            raise UserError(f"merged = {self.merged!r} is not one of false, true, draws, dropped; choose one of them")
        check_bool(self.rescaled, "rescaled")
        check_choice(self.solver, SOLVERS, "solver")

    def check(self, n: int, d: int, k: int, r: int) -> None:
        check_limit(k, min(n, d), "leverage sampling", "singular vectors (one a cluster)", "k")
        if self.merged is True:  # else draws are with replacement, so r may exceed d
            check_limit(r, d, "leverage sampling", "distinct columns of this matrix")

    def theorem_r(self, n: int, d: int, k: int, eps: float) -> int:
        """Return ⌈4k ln(2k/δ)/ε²⌉, δ = 0.01 (bzmd15 Algorithm 1, step 2, with c₁ = 1; its proof has c₁ = 1.6e7).

        Then σ_i²(V_kᵀΩS) lies within 1 ± ε with probability ≥ 1 − δ (Lemma 6).
        """
        del n, d
        return int(np.ceil(4 * k * np.log(2 * k / _DELTA) / eps**2))

    def prepare(self, A: Matrix, k: int, rng: np.random.Generator) -> Dense:
        A = column_centred(normalised(A)[0], self.name)[0] if self.centred else A
        return leverage_scores(self._vectors(A, k, rng))

    def draw(self, A: Matrix, r: int, rng: np.random.Generator, state: Dense) -> tuple[Dense, Dense]:
        distinct = self.merged is True
        columns, scale = sample_distinct_columns(state, r, rng) if distinct else super().draw(A, r, rng, state)
        scale = scale if self.rescaled else np.ones_like(scale)
        return merge_columns(columns, scale, self.merged == "draws") if self.merged in _MERGING else (columns, scale)

    def _vectors(self, A: Matrix, k: int, rng: np.random.Generator) -> Dense:
        del rng
        return right_singular_vectors(A, k, self.solver, self.name)


@register("leverage_approx")
class ApproximateLeverageScores(LeverageScores):
    """Sampling by approximate leverage scores (bzmd15 Algorithm 1; Sampl/ApproxSVD).

    As ``leverage``, with Z = FastFrobeniusSVD(A, k, ε) in place of V_k.

    Parameters
    ----------
    svd_eps : float
        ε of FastFrobeniusSVD, 0 < ε < 1; the paper's experiments use 1/3.
    centred, merged, rescaled
        As for ``leverage``.
    """

    later: ClassVar[Mapping[str, Any]] = {"centred": False, "merged": False, "rescaled": True}

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_clusters: int = 8,
        eps: float = 1 / 3,
        svd_eps: float = 1 / 3,
        centred: bool = False,
        merged: bool | str = False,
        rescaled: bool = True,
        random_state: object = None,
    ) -> None:
        super().__init__(
            n_components, n_clusters=n_clusters, eps=eps, centred=centred, merged=merged, rescaled=rescaled,
            random_state=random_state,
        )  # fmt: skip
        self.svd_eps = svd_eps

    def validate(self) -> None:
        super().validate()
        check_unit_interval(self.svd_eps, "svd_eps")

    def _vectors(self, A: Matrix, k: int, rng: np.random.Generator) -> Dense:
        return fast_frobenius_svd(A, k, self.svd_eps, rng)


@register("leverage_sqrt")
class SquareRootLeverageScores(LeverageScores):
    """Sampling by p_i ∝ ‖(V_k)_(i)‖, not its square (lf20 §3.4.2); no theorem covers it."""

    def prepare(self, A: Matrix, k: int, rng: np.random.Generator) -> Dense:
        p = np.sqrt(super().prepare(A, k, rng))
        return np.asarray(p / p.sum())

    def theorem_r(self, n: int, d: int, k: int, eps: float) -> int:
        return Reducer.theorem_r(self, n, d, k, eps)


def ridge_leverage_scores(A: Matrix, k: int) -> Dense:
    """Return the rank-k ridge leverage scores of the columns, τ_i = a_iᵀ(AAᵀ + λI)⁺a_i with λ = ‖A − A_k‖²_F/k.

    They sum to at most 2k (Cohen, Musco, Musco 2017, Definition 1).

    Returns
    -------
    (d,) ndarray of float64
        In [0, 1].

    Raises
    ------
    UserError
        If the Gram matrix of the shorter side does not fit into memory.
    """
    n, d = A.shape
    check_memory(2 * min(n, d) ** 2, "ridge_leverage", f"the Gram matrix of {min(n, d)} rows")
    A = as_float64(normalised(A)[0])
    V = top_right_singular_vectors(A, k)
    # ‖A − A_k‖² relative to ‖A‖²: if A has rank k it is rounding error only, and V_k gives the scores.
    total = squared_frobenius(A)
    ridge = (total - sum(squared_frobenius(block @ V) for _, block in row_blocks(A))) / k
    if ridge <= 1e-12 * total:
        return np.asarray(np.einsum("ij,ij->i", V, V))
    G = gram(A if n <= d else A.T)
    G[np.diag_indices_from(G)] += ridge
    L = scipy.linalg.cholesky(G, lower=True, overwrite_a=True, check_finite=False)
    if n <= d:
        A = A if isinstance(A, np.ndarray) else A.toarray()
        whitened = (scipy.linalg.solve_triangular(L, panel, lower=True, check_finite=False) for _, panel in panels(A))
        return np.concatenate([np.einsum("ij,ij->j", panel, panel) for panel in whitened])
    # AᵀA(AᵀA + λI)⁻¹ = I − λ(AᵀA + λI)⁻¹
    inverse = scipy.linalg.solve_triangular(L, np.eye(d), lower=True, check_finite=False)
    return np.asarray(np.clip(1.0 - ridge * np.einsum("ij,ij->j", inverse, inverse), 0.0, 1.0))


@register("ridge_leverage")
class RidgeLeverageScores(_Sampling):
    """Sampling by rank-k ridge leverage scores, p_i ∝ τ_i (Cohen et al. 2015; Cohen, Musco, Musco 2017; extra).

    Guarantee (Cohen, Musco, Musco 2017, Theorem 6): for r = O(k log(k/δ)/ε²), with probability ≥ 1 − δ, C is a
    projection-cost-preserving sketch: every k-clustering costs the same on C and on A within 1 ± ε.
    """

    def check(self, n: int, d: int, k: int, r: int) -> None:
        del r
        check_limit(k, min(n, d), self.name, "singular vectors (one a cluster)", "k")

    def theorem_r(self, n: int, d: int, k: int, eps: float) -> int:
        """Return ⌈2k ln(2k/δ)·4/ε²⌉, δ = 0.01: Lemma 6 for scores that sum to at most 2k."""
        del n, d
        return int(np.ceil(8 * k * np.log(2 * k / _DELTA) / eps**2))

    def prepare(self, A: Matrix, k: int, rng: np.random.Generator) -> Dense:
        del rng
        scores = ridge_leverage_scores(A, k)
        return np.asarray(scores / scores.sum())


@register("top_leverage")
class TopLeverageScores(BestFeatures):
    """The r features of largest leverage score, not rescaled (extra).

    Guarantee (Papailiopoulos, Kyrillidis, Boutsidis 2014, Theorem 2): if the kept scores ‖(V_k)_(i)‖² sum to more than
    k − ε, ‖A − CC⁺A‖² ≤ ‖A − A_k‖²/(1 − ε) in the spectral and the Frobenius norm.
    """

    deterministic = True

    def check(self, n: int, d: int, k: int, r: int) -> None:
        check_limit(k, min(n, d), self.name, "singular vectors (one a cluster)", "k")
        super().check(n, d, k, r)

    def prepare(self, A: Matrix, k: int, rng: np.random.Generator) -> Dense:
        del rng
        return largest_first(leverage_scores(top_right_singular_vectors(A, k)))
