"""Locally linear embedding."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg

from kmdr.base.errors import UserError, whole_number
from kmdr.linalg import Dense, Matrix, nearest_neighbours
from kmdr.linalg.matrix import normalised, times_power
from kmdr.reducers.base import Reducer, check_bool, check_limit, check_memory, check_neighbours, dense, register

# Share of the trace that is added to each local Gram matrix, so that it can be solved. The original code does so if
# there are more neighbours than features.
_RIDGE = 1e-3
# Number of differences to neighbours in memory at a time.
_BLOCK = 2**19
# Up to this many points, or for more than this share of the eigenvectors, LAPACK is faster than a sparse factorisation:
# 1440 points took 0.6 s against 0.1 s for 10 vectors, and 1.1 s for 1000, where Lanczos did not converge.
_DENSE_POINTS, _DENSE_SHARE = 500, 0.1
# With more points the factorisation uses the symmetry of the matrix: without, its factors have 36 times the entries and
# take 80 times as long, at 8000 points of 4096 features. Committed rows have fewer points and were made without.
_SYMMETRIC_POINTS = 4096
_SYMMETRIC: Mapping[str, Any] = {
    "permc_spec": "MMD_AT_PLUS_A",
    "diag_pivot_thresh": 0.0,
    "options": {"SymmetricMode": True},
}


def reconstruction_weights(A: Matrix, points: Matrix, neighbours: Dense, ridge: float = _RIDGE) -> Dense:
    """Return the weights that best write each point as a mixture of its neighbours, each row summing to 1.

    They solve (G + εI)w ∝ 1 with G the Gram matrix of the differences to the neighbours and ε = ridge·tr G (Saul,
    Roweis 2003, §2 and its appendix).

    Parameters
    ----------
    A : (n, d) array or CSR
        Contains the neighbours.
    points : (m, d) array or CSR
    neighbours : (m, q) int array
        Rows of A.
    ridge : float
        At least 0.

    Returns
    -------
    (m, q) ndarray of float64

    Raises
    ------
    UserError
        If ridge = 0 and the differences to the neighbours of a point are linearly dependent.
    """
    m, q = neighbours.shape
    weights = np.empty((m, q))
    step = max(1, _BLOCK // (q * A.shape[1])) if isinstance(A, np.ndarray) else 1
    for start in range(0, m, step):
        rows = slice(start, min(start + step, m))
        if isinstance(A, np.ndarray):
            Z = A[neighbours[rows]].astype(np.float64, copy=False) - points[rows, None]
            G = Z @ Z.transpose(0, 2, 1)
        else:
            differences = A[neighbours[start]].astype(np.float64) - sp.vstack([points[rows]] * q)
            G = (differences @ differences.T).toarray()[None]
        trace = np.trace(G, axis1=1, axis2=2)[:, None]
        # If all neighbours coincide with the point, any weights will do.
        G[:, np.arange(q), np.arange(q)] += np.where(trace > 0, ridge * trace, 1.0)
        try:
            weights[rows] = np.linalg.solve(G, np.ones((len(G), q, 1)))[:, :, 0]
        except np.linalg.LinAlgError as error:
            raise UserError(
                f"the {q} neighbours of a point are linearly dependent, so its weights are not unique without a ridge; "
                f"use ridge = {_RIDGE}"
            ) from error
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def cost_matrix(A: Matrix, n_neighbors: int, ridge: float = _RIDGE) -> sp.csr_array:
    """Return M = (I − W)ᵀ(I − W), the quadratic form of the error of reconstructing an embedding with the weights W."""
    n = A.shape[0]
    A = normalised(A)[0]
    neighbours, _ = nearest_neighbours(A, n_neighbors)
    weights = reconstruction_weights(A, A, neighbours, ridge)
    W = sp.csr_array((weights.ravel(), neighbours.ravel(), np.arange(0, n * n_neighbors + 1, n_neighbors)), (n, n))
    residual = sp.csr_array(sp.eye_array(n) - W)
    return sp.csr_array(residual.T @ residual)


def bottom_eigenvectors(M: sp.csr_array, r: int) -> Dense:
    """Return the unit eigenvectors of the r smallest eigenvalues of M on the complement of the constant vector.

    Parameters
    ----------
    M : (n, n) csr_array
        Positive semidefinite, with M1 = 0.
    r : int
        At most n − 1.

    Returns
    -------
    (n, r) ndarray
        The smallest eigenvalue first; the entry of largest modulus of each vector is positive.
    """
    n = M.shape[0]
    trace = float(M.diagonal().sum())
    if n <= _DENSE_POINTS or r > _DENSE_SHARE * n:
        # Move the constant vector, of eigenvalue 0, to the other end of the spectrum.
        shifted = M.toarray() + trace / n
        vectors = scipy.linalg.eigh(shifted, subset_by_index=(0, r - 1), overwrite_a=True, check_finite=False)[1]
    else:
        shift = -1e-10 * trace
        how = _SYMMETRIC if n > _SYMMETRIC_POINTS else {}
        factor = scipy.sparse.linalg.splu(sp.csc_array(M - shift * sp.eye_array(n)), **how)

        def inverse(x: Dense) -> Dense:
            y = factor.solve(x - x.mean())
            return np.asarray(y - y.mean())

        operator = scipy.sparse.linalg.LinearOperator((n, n), matvec=inverse, dtype=np.float64)
        v0 = np.random.default_rng(0).standard_normal(n)
        values, vectors = scipy.sparse.linalg.eigsh(operator, r, which="LM", v0=v0 - v0.mean())
        vectors = vectors[:, np.argsort(-values, kind="stable")]
    peak = vectors[np.abs(vectors).argmax(axis=0), np.arange(r)]
    return np.asarray(vectors * np.where(peak < 0, -1.0, 1.0))


@dataclass(frozen=True)
class Embedding:
    """Points and their coordinates in the embedding."""

    A: Matrix
    C: Dense


@register("lle")
class LLE(Reducer):
    """Locally linear embedding in r dimensions (lst17 LLE; Roweis, Saul 2000).

    C has the r coordinates that the local mixtures of neighbours reconstruct best:

    1. The nearest neighbours of each point, and the least-squares weights W, which sum to 1 for each point.
    2. C/√n: the eigenvectors of the smallest eigenvalues of (I − W)ᵀ(I − W), without the constant one.

    New points are mixtures of their nearest points of the fit, with weights found as in step 1.

    Parameters
    ----------
    n_neighbors : int
        12 is the default of the original code.
    ridge : float
        Share of the trace that is added to local Gram matrices, at least 0. The original code has 0, but 1e-3 if there
        are more neighbours than features.
    constant : bool
        Whether the constant eigenvector is the first of the r, instead of being omitted. The original code drops the
        one that MATLAB's ``eigs`` returns first: the constant one or, if the smallest come last, the one after the
        r-th.
    """

    deterministic = True
    later: ClassVar[Mapping[str, Any]] = {"ridge": _RIDGE, "constant": False}

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_clusters: int = 8,
        eps: float = 1 / 3,
        n_neighbors: int = 12,
        ridge: float = _RIDGE,
        constant: bool = False,
        random_state: object = None,
    ) -> None:
        super().__init__(n_components, n_clusters=n_clusters, eps=eps, random_state=random_state)
        self.n_neighbors = n_neighbors
        self.ridge = ridge
        self.constant = constant

    def validate(self) -> None:
        whole_number("n_neighbors", self.n_neighbors, 1)
        if isinstance(self.ridge, bool) or not isinstance(self.ridge, int | float) or not 0 <= self.ridge < 1:
            raise UserError(f"ridge = {self.ridge!r} is outside 0 ≤ ridge < 1; the original code has 0 or {_RIDGE}")
        check_bool(self.constant, "constant")

    def check(self, n: int, d: int, k: int, r: int) -> None:
        del k
        check_neighbours(self.n_neighbors, n)
        if self.ridge == 0 and self.n_neighbors > d:
            raise UserError(
                f"n_neighbors = {self.n_neighbors} is more than the {d} features, so the weights are not unique "
                f"without a ridge; use ridge = {_RIDGE}"
            )
        check_limit(r, n - 1, self.name, "coordinates of so many points")

    def prepare(self, A: Matrix, k: int, rng: np.random.Generator) -> sp.csr_array:
        del k, rng
        return cost_matrix(A, self.n_neighbors, self.ridge)

    def draw(self, A: Matrix, r: int, rng: np.random.Generator, state: sp.csr_array) -> Embedding:
        del rng
        n = A.shape[0]
        if r > _DENSE_SHARE * n:
            check_memory(n * n, self.name, f"a dense decomposition of {n} points")
        if not self.constant:
            return Embedding(A, np.sqrt(n) * bottom_eigenvectors(state, r))
        others = bottom_eigenvectors(state, r - 1) if r > 1 else np.empty((n, 0))
        return Embedding(A, np.column_stack([np.ones(n), np.sqrt(n) * others]))

    def reduce(self, A: Matrix, r: int, rng: np.random.Generator, state: sp.csr_array) -> Dense:
        return np.asarray(self.draw(A, r, rng, state).C, dtype=A.dtype)

    def apply(self, A: Matrix, drawn: Embedding) -> Dense:
        from sklearn.neighbors import NearestNeighbors  # a tenth of a second that only new points need

        fitted, e, _ = normalised(drawn.A)
        dtype, A = A.dtype, times_power(A, -e)
        if sp.issparse(fitted):
            A = sp.csr_array(A)
        elif sp.issparse(A):
            A = dense(A, self.name)
        search = NearestNeighbors(n_neighbors=self.n_neighbors, algorithm="brute").fit(fitted)
        neighbours = search.kneighbors(A, return_distance=False)
        weights = reconstruction_weights(fitted, A, neighbours, self.ridge)
        # A point of the fit is its own nearest neighbour and keeps its coordinates.
        known = abs(A - fitted[neighbours[:, 0]]).sum(axis=1) == 0
        weights[known] = np.eye(1, self.n_neighbors)
        return np.asarray(np.einsum("ij,ijr->ir", weights, drawn.C[neighbours]), dtype=dtype)

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Dense:
        """Fit, and return the coordinates of the fitted points."""
        del y, params
        fitted: Embedding = self.fit(X).map_
        return np.asarray(fitted.C, dtype=fitted.A.dtype)
