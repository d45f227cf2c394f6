"""Top right singular vectors, exact and sketched."""

import numpy as np
import scipy.linalg
import scipy.sparse.linalg

from kmdr.linalg.matrix import Dense, Matrix, squared_frobenius

# Above this short side a Gram matrix costs more than a Lanczos iteration, see `top_right_singular_vectors`.
_GRAM_LIMIT = 3000
# A Gram matrix squares the condition: below this ratio of eigenvalues it has no correct digits left to give.
_GRAM_RATIO = 1e-10


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
