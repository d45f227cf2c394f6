"""Feature extraction by a randomised Hadamard transform: mix the features, then keep a few of the mixtures."""

from abc import abstractmethod

import numpy as np
import scipy.sparse as sp
from sklearn.random_projection import johnson_lindenstrauss_min_dim

from kmdr.base.errors import UserError
from kmdr.linalg import Dense, Matrix, padded, random_signs, rotated_product
from kmdr.reducers.base import Reducer, check_limit, register

# Failure probability δ of SRHT's theorem.
_DELTA = 0.01


def successes(trials: int, q: float, rng: np.random.Generator) -> Dense:
    """Return the indices, ascending, of the successes among ``trials`` independent trials of success probability q.

    The gaps between successes are geometric, so the cost is proportional to the successes, not to the trials.
    """
    positions = np.empty(0, dtype=np.int64)
    last = -1
    while last < trials:
        more = int((trials - last) * q * 1.05) + 10
        positions = np.concatenate([positions, last + np.cumsum(rng.geometric(q, size=more))])
        last = int(positions[-1])
    return positions[: np.searchsorted(positions, trials)]


class RandomisedHadamard(Reducer):
    """The rotation x ↦ xDH, D random signs, H the Walsh–Hadamard matrix over √d', in which no coordinate stands out.

    1. D, which does not depend on r.
    2. A sparse P (r×d'), drawn for each r: C = A·D·H·Pᵀ.
    """

    def prepare(self, A: Matrix, k: int, rng: np.random.Generator) -> Dense:
        del k
        return np.asarray(random_signs((1, A.shape[1]), rng)[0])

    def draw(self, A: Matrix, r: int, rng: np.random.Generator, state: Dense) -> tuple[Dense, sp.csr_array]:
        return state, self.mixture(A.shape[0], padded(A.shape[1]), r, rng)

    def apply(self, A: Matrix, drawn: tuple[Dense, sp.csr_array]) -> Dense:
        return rotated_product(A, *drawn)

    @abstractmethod
    def mixture(self, n: int, width: int, r: int, rng: np.random.Generator) -> sp.csr_array:
        """Return P (r×d')."""


@register("fjlt")
class FJLT(RandomisedHadamard):
    """Fast Johnson–Lindenstrauss transform Φ = P·H·D (Ailon, Chazelle 2006; lf20 §2.5.1).

    P (r×d') has N(0, 1/q) entries with probability q = min(1, c·ln²n/d), else 0; C is scaled by 1/√r, so that
    E‖Φx‖² = ‖x‖².

    Parameters
    ----------
    c : float
        Positive; lf20 uses 2.
    """

    row_by_row = True

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_clusters: int = 8,
        eps: float = 1 / 3,
        c: float = 2.0,
        random_state: object = None,
    ) -> None:
        super().__init__(n_components, n_clusters=n_clusters, eps=eps, random_state=random_state)
        self.c = c

    def validate(self) -> None:
        if isinstance(self.c, bool) or not isinstance(self.c, (int, float)) or not 0 < self.c < np.inf:
            raise UserError(f"c = {self.c!r} is not a positive number; the paper uses 2")

    def theorem_r(self, n: int, d: int, k: int, eps: float) -> int:
        """Return ⌈4 ln n/(ε²/2 − ε³/3)⌉: the theorem says O(ln n/ε²); the constants are those for a dense R."""
        del d, k
        return int(johnson_lindenstrauss_min_dim(n, eps=eps)) + 1

    def mixture(self, n: int, width: int, r: int, rng: np.random.Generator) -> sp.csr_array:
        """Return P/√r (r×d')."""
        q = min(1.0, self.c * np.log(n) ** 2 / width)
        places = successes(r * width, q, rng)
        values = rng.standard_normal(len(places)) / np.sqrt(q * r)
        indptr = np.searchsorted(places, np.arange(0, r * width + 1, width))
        return sp.csr_array((values, places % width, indptr), shape=(r, width))


@register("srht")
class SRHT(RandomisedHadamard):
    """Subsampled randomised Hadamard transform (Tropp 2011; extra): r of the d' rotated coordinates, times √(d'/r).

    The coordinates are drawn uniformly without replacement. Law: E‖Φx‖² = ‖x‖². Guarantee: σ_i²(V_kᵀΦᵀ) lies within
    1 ± ε with probability ≥ 1 − 3δ for the r of `theorem_r`.
    """

    row_by_row = True

    def check(self, n: int, d: int, k: int, r: int) -> None:
        del n, k
        check_limit(r, padded(d), self.name, "rotated coordinates of this matrix")

    def theorem_r(self, n: int, d: int, k: int, eps: float) -> int:
        """Return ⌈6 ε⁻² (√k + √(8 ln(d'/δ)))² ln(2k/δ)⌉, δ = 0.01 (Boutsidis, Gittens 2013, Lemma 4.1)."""
        del n
        spread = np.sqrt(k) + np.sqrt(8 * np.log(padded(d) / _DELTA))
        return int(np.ceil(6 * spread**2 * np.log(2 * k / _DELTA) / eps**2))

    def mixture(self, n: int, width: int, r: int, rng: np.random.Generator) -> sp.csr_array:
        """Return √(d'/r) at r coordinates, one per row."""
        del n
        columns = rng.choice(width, size=r, replace=False)
        return sp.csr_array((np.full(r, np.sqrt(width / r)), columns, np.arange(r + 1)), shape=(r, width))
