"""The linear algebra that reducers rest on: singular vectors, range finder, count sketch, sparse-aware products."""

from typing import TypeAlias

import numba
import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg

Dense: TypeAlias = np.ndarray
Matrix: TypeAlias = np.ndarray | sp.csr_array

# Above this short side a Gram matrix costs more than a Lanczos iteration, see `top_right_singular_vectors`.
_GRAM_LIMIT = 3000
# A Gram matrix squares the condition: below this ratio of eigenvalues it has no correct digits left to give.
_GRAM_RATIO = 1e-10


def matmul(A: Matrix, B: Dense) -> Dense:
    """Return the dense product ``A @ B`` of a dense or CSR matrix with a dense one, C-contiguous."""
    return np.ascontiguousarray(A @ B)


def squared_frobenius(A: Matrix) -> float:
    """Return ‖A‖²_F, accumulated in float64."""
    values: Dense = A.reshape(-1) if isinstance(A, np.ndarray) else A.data
    values = values.astype(np.float64, copy=False)
    return float(values @ values)


def take_columns(A: Matrix, columns: Dense, scale: Dense | None = None) -> Dense:
    """Return the chosen columns of ``A`` as a dense n×r array, each times its ``scale``.

    Parameters
    ----------
    A : (n, d) array or CSR
    columns : (r,) int array
        Repetitions allowed.
    scale : (r,) array, optional

    Returns
    -------
    (n, r) ndarray
    """
    if sp.issparse(A):
        # A selection matrix keeps the work at O(nnz + n·r), whereas column indexing of CSR sorts.
        ones = np.ones(len(columns), dtype=A.dtype) if scale is None else scale.astype(A.dtype)
        selection = sp.csr_array((ones, (columns, np.arange(len(columns)))), shape=(A.shape[1], len(columns)))
        return np.ascontiguousarray((A @ selection).toarray())
    C = np.take(A, columns, axis=1)
    if scale is not None:
        C *= scale.astype(A.dtype)
    return C


def _canonical_signs(V: Dense) -> Dense:
    """Flip each column so that its entry of largest modulus is positive: vectors are unique only up to sign."""
    peak = V[np.abs(V).argmax(axis=0), np.arange(V.shape[1])]
    return V * np.where(peak < 0, -1.0, 1.0)


def _gram_eigh(G: Dense, k: int) -> tuple[Dense, Dense]:
    """Top ``k`` eigenpairs of a symmetric positive semidefinite matrix, largest first."""
    m = G.shape[0]
    values, vectors = scipy.linalg.eigh(G, subset_by_index=(m - k, m - 1), overwrite_a=True, check_finite=False)
    return values[::-1], vectors[:, ::-1]


def _lanczos(A: Matrix, k: int) -> Dense:
    """Top ``k`` right singular vectors by ARPACK, from a fixed start so that the result is a function of ``A``."""
    v0 = np.random.default_rng(0).standard_normal(min(A.shape))
    if squared_frobenius(A) == 0:
        return np.eye(A.shape[1], k)  # any orthonormal columns; ARPACK refuses a zero matrix
    _, s, Vt = scipy.sparse.linalg.svds(A, k=k, v0=v0, solver="arpack", return_singular_vectors="vh")
    return np.asarray(Vt[np.argsort(s)[::-1]].T)


def top_right_singular_vectors(A: Matrix, k: int) -> Dense:
    """Return V_k, the right singular vectors of the ``k`` largest singular values of ``A``.

    The eigenvectors of the Gram matrix of the shorter side give them at the cost of one symmetric product while that
    side is short; long sides go to Lanczos. A Gram matrix squares the condition number, so a spectrum in which it
    would lose the k-th value falls back to the full decomposition.

    Parameters
    ----------
    A : (n, d) array or CSR
        float32 is decomposed in float64.
    k : int
        1 ≤ k ≤ min(n, d).

    Returns
    -------
    (d, k) ndarray of float64
        Orthonormal columns, the largest singular value first; signs canonical.

    Raises
    ------
    ValueError
        When ``k`` is outside 1 … min(n, d).
    """
    n, d = A.shape
    short = min(n, d)
    if not 1 <= k <= short:
        raise ValueError(f"{k} singular vectors were asked of a {n}×{d} matrix, which has {short}")
    A = A.astype(np.float64, copy=False)
    if short > _GRAM_LIMIT and k < short // 4:
        return _canonical_signs(_lanczos(A, k))
    G = A @ A.T if n <= d else A.T @ A
    values, vectors = _gram_eigh(G if isinstance(G, np.ndarray) else G.toarray(), k)
    if values[-1] <= _GRAM_RATIO * values[0]:
        full = A if isinstance(A, np.ndarray) else A.toarray()
        return _canonical_signs(np.linalg.svd(full, full_matrices=False)[2][:k].T)
    if n > d:
        return _canonical_signs(vectors)
    # AᵀU = VΣ: a QR restores the orthogonality that the squared condition cost; its R is diagonal up to rounding.
    V, _ = np.linalg.qr(A.T @ vectors)
    return _canonical_signs(V)


def sketch_size(k: int, eps: float) -> int:
    """Columns of the Gaussian matrix in FastFrobeniusSVD: k + ⌈k/ε + 1⌉ (bzmd15, after Lemma 4)."""
    return k + int(np.ceil(k / eps + 1))


def fast_frobenius_svd(A: Matrix, k: int, eps: float, rng: np.random.Generator) -> Dense:
    """Return Z, approximate top ``k`` right singular vectors (bzmd15, Lemma 4; FastFrobeniusSVD).

    A Gaussian R of k + ⌈k/ε + 1⌉ columns; Y = AR; Q an orthonormal basis of Y; Z the top right singular vectors of
    QᵀA. No power iterations.

    Parameters
    ----------
    A : (n, d) array or CSR
    k : int
        1 ≤ k ≤ min(n, d).
    eps : float
        0 < ε < 1.
    rng : numpy.random.Generator

    Returns
    -------
    (d, k) ndarray of float64
        ZᵀZ = I and E‖A − AZZᵀ‖²_F ≤ (1 + ε)‖A − A_k‖²_F for k ≥ 2.
    """
    n, d = A.shape
    A = A.astype(np.float64, copy=False)
    width = min(sketch_size(k, eps), n, d)
    Q, _ = np.linalg.qr(A @ rng.standard_normal((d, width)))
    return top_right_singular_vectors((A.T @ Q).T, k)


@numba.njit(cache=True, fastmath={"contract"})
def _count_sketch_dense(A: Dense, bucket: Dense, sign: Dense, C: Dense) -> None:
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            C[i, bucket[j]] += sign[j] * A[i, j]


@numba.njit(cache=True, fastmath={"contract"})
def _count_sketch_csr(data: Dense, indices: Dense, indptr: Dense, bucket: Dense, sign: Dense, C: Dense) -> None:
    for i in range(len(indptr) - 1):
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            C[i, bucket[j]] += sign[j] * data[p]


def count_sketch(A: Matrix, bucket: Dense, sign: Dense, r: int) -> Dense:
    """Return C with C[:, b] = Σ_{j: bucket[j] = b} sign[j] A[:, j], in one pass over the stored entries of ``A``.

    Parameters
    ----------
    A : (n, d) array or CSR
    bucket : (d,) int array
        Column of C for each feature, 0 ≤ bucket < r.
    sign : (d,) array of ±1
    r : int

    Returns
    -------
    (n, r) ndarray of A's dtype
    """
    C = np.zeros((A.shape[0], r), dtype=A.dtype)
    sign = sign.astype(A.dtype, copy=False)
    if isinstance(A, np.ndarray):
        _count_sketch_dense(A, bucket, sign, C)
    else:
        _count_sketch_csr(A.data, A.indices, A.indptr, bucket, sign, C)
    return C
