"""Feature extraction by singular vectors: C = A·V."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from kmdr.linalg import Dense, Matrix, fast_frobenius_svd, matmul, top_right_singular_vectors
from kmdr.linalg.matrix import normalised
from kmdr.linalg.singular_vectors import lapack_right_singular_vectors
from kmdr.reducers.base import (
    Reducer,
    check_bool,
    check_choice,
    check_limit,
    check_unit_interval,
    column_centred,
    dense,
    register,
)

SOLVERS = ("kmdr", "lapack")


def right_singular_vectors(A: Matrix, k: int, solver: str, name: str) -> Dense:
    """Return V_k by the cheapest method for this k, or by LAPACK's full decomposition for any k.

    Parameters
    ----------
    k : int
    solver : {"kmdr", "lapack"}
    name : str
        The reducer, for the error.

    Returns
    -------
    (d, k) ndarray of float64

    Raises
    ------
    UserError
        If LAPACK would have to decompose sparse data that do not fit into memory when made dense.
    """
    if solver == "lapack":
        return lapack_right_singular_vectors(dense(A, name), k)
    return top_right_singular_vectors(A, k)


# V, and the vector that is subtracted from each row of AV, if any.
_Map: TypeAlias = tuple[Dense, Dense | None]


@register("svd")
class SVD(Reducer):
    """C = A·V with V the top right singular vectors of A (bzmd15 SVD; lst17 SVD; lf20 §3.4.3).

    Guarantee (bzmd15 §6, after Drineas et al. 1999): with k columns F ≤ (1 + γ)F_opt for a γ-approximate k-means.

    Parameters
    ----------
    rank : {"k", "r"}
        ``"k"``: V_k, k columns for every r (bmd09, bzmd15, lf20). ``"r"``: V_r (lst17). As a transformer the rank is
        ``n_components``, or else ``n_clusters``.
    centred : bool
        Whether the column-centred A is decomposed and mapped, so that C has the scores of principal component analysis
        (lf20's code). For k-means only the change of V matters: it does not see the shift.
    solver : {"kmdr", "lapack"}
        How V is computed: see `right_singular_vectors`. MATLAB's ``svd``, which the papers used, is LAPACK's full
        decomposition.
    """

    deterministic = True

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_clusters: int = 8,
        eps: float = 1 / 3,
        rank: str = "k",
        centred: bool = False,
        solver: str = "kmdr",
        random_state: object = None,
    ) -> None:
        super().__init__(n_components, n_clusters=n_clusters, eps=eps, random_state=random_state)
        self.rank = rank
        self.centred = centred
        self.solver = solver

    def validate(self) -> None:
        check_choice(self.rank, ("k", "r"), "rank")
        check_bool(self.centred, "centred")
        check_choice(self.solver, SOLVERS, "solver")

    def check(self, n: int, d: int, k: int, r: int) -> None:
        symbol: Literal["r", "k"] = "k" if self.rank == "k" else "r"
        check_limit(k if symbol == "k" else r, min(n, d), "a decomposition of this matrix", "singular vectors", symbol)

    def fixed_r(self, d: int, k: int) -> int | None:
        del d
        return k if self.rank == "k" else None

    def theorem_r(self, n: int, d: int, k: int, eps: float) -> int:
        """Return k."""
        del n, d, eps
        return k

    def prepare(self, A: Matrix, k: int, rng: np.random.Generator) -> _Map | None:
        return self._map(A, k, rng) if self.rank == "k" else None

    def draw(self, A: Matrix, r: int, rng: np.random.Generator, state: _Map | None) -> _Map:
        return self._map(A, r, rng) if state is None else state

    def apply(self, A: Matrix, drawn: _Map) -> Dense:
        V, shift = drawn
        C = matmul(A, V.astype(A.dtype, copy=False))
        return C if shift is None else C - shift.astype(A.dtype)

    def _map(self, A: Matrix, rank: int, rng: np.random.Generator) -> _Map:
        if not self.centred:
            return self._vectors(A, rank, rng), None
        A, e, _ = normalised(A)
        A, mean = column_centred(A, self.name)
        V = self._vectors(A, rank, rng)
        return V, np.ldexp(mean @ V, e)

    def _vectors(self, A: Matrix, rank: int, rng: np.random.Generator) -> Dense:
        del rng
        return right_singular_vectors(A, rank, self.solver, self.name)

    def _argument(self, letter: str) -> str:
        del letter  # the rank is both
        return "n_clusters" if self.n_components is None else "n_components"

    def _sizes(self, n: int, d: int) -> tuple[int, int]:
        r = super()._sizes(n, d)[1]
        return r, r


@register("approx_svd")
class ApproximateSVD(SVD):
    """C = A·Z with Z = FastFrobeniusSVD(A, rank, ε) (bzmd15 Algorithm 3; ApprSVD).

    Guarantee (bzmd15 Theorem 13): with k columns, with probability ≥ 0.99 − δ_γ, F ≤ (1 + (1 + ε)γ)F_opt.

    Parameters
    ----------
    rank : {"k", "r"}
        As for ``svd``.
    svd_eps : float
        ε of FastFrobeniusSVD, 0 < ε < 1; the paper's experiments use 1/3.
    centred : bool
        As for ``svd``.
    """

    deterministic = False
    later: ClassVar[Mapping[str, Any]] = {"centred": False}

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_clusters: int = 8,
        eps: float = 1 / 3,
        rank: str = "k",
        svd_eps: float = 1 / 3,
        centred: bool = False,
        random_state: object = None,
    ) -> None:
        super().__init__(
            n_components, n_clusters=n_clusters, eps=eps, rank=rank, centred=centred, random_state=random_state
        )
        self.svd_eps = svd_eps

    def validate(self) -> None:
        super().validate()
        check_unit_interval(self.svd_eps, "svd_eps")

    def _vectors(self, A: Matrix, rank: int, rng: np.random.Generator) -> Dense:
        return fast_frobenius_svd(A, rank, self.svd_eps, rng)


@register("left_singular_vectors")
class LeftSingularVectors(SVD):
    """C = U_r, the top left singular vectors of A (bzd10 §5.1): A·V_r·Σ_r⁻¹, the first output of ``svds``.

    All r coordinates have equal weight, whatever the singular values. A direction whose singular value is zero to
    rounding gives a column of zeros.
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_clusters: int = 8,
        eps: float = 1 / 3,
        random_state: object = None,
    ) -> None:
        super().__init__(n_components, n_clusters=n_clusters, eps=eps, rank="r", random_state=random_state)

    def _map(self, A: Matrix, rank: int, rng: np.random.Generator) -> _Map:
        V = self._vectors(A, rank, rng)
        sigma = np.linalg.norm(matmul(A, V.astype(A.dtype, copy=False)).astype(np.float64), axis=0)
        least = max(A.shape) * np.finfo(A.dtype).eps * sigma.max(initial=0.0)
        return V * np.divide(1.0, sigma, out=np.zeros_like(sigma), where=sigma > least), None
