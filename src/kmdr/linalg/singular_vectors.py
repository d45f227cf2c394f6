"""Top right singular vectors, exact and sketched.

Both work on S, which is A or Aᵀ with the short side first (m × long): the left singular vectors U of S are computed on
the short side, where SSᵀ lives, and are V itself if A is tall; otherwise V = SᵀU Σ⁻¹.

Three routes lead to U: the Gram matrix SSᵀ with LAPACK, block Krylov on SSᵀ, and the full decomposition if the Gram
matrix, which squares singular values, loses the requested ones and the largest cannot be subtracted from S beforehand.
"""

from functools import partial, reduce

import numpy as np
import scipy.linalg

from kmdr.linalg.matrix import (
    Dense,
    Matrix,
    as_float64,
    is_out_of_core,
    normalised,
    panels,
    row_blocks,
)

# Residual bound ‖SSᵀU − UΘ‖_F ≤ 1e-12·θ_1. The error of a subspace is residual/gap, so a relative gap of 1e-5 between
# θ_k and θ_{k+1} (as in COIL20 and PIE) leaves seven digits of a leverage score. 1e-10 would save one product in ten.
_TOLERANCE = 1e-12
# Eigenvalues of SSᵀ below this share of the largest are recomputed in the complement of the larger ones: a Gram matrix
# squares the condition number, and at 1e-6 it still gives ten digits.
_GRAM_RATIO = 1e-6
# LAPACK on the Gram matrix takes a quarter of the time of forming it at 400×10304 and less if A is longer; Krylov would
# save half of that quarter. From 1024 on LAPACK takes three times as long as forming it.
_LAPACK_SIDE = 512
# Up to this side LAPACK handles the complement of the largest values, whose spectrum is nearly flat: at 1000×2000
# (Synth) in .13 s, where Krylov took .3 to .6. It takes about 1 s at this side.
_COMPLEMENT_SIDE = 2048
# No route forms an m×m matrix beyond this side (512 MiB).
_GRAM_SIDE = 8192
_EPS = float(np.finfo(float).eps)
# Singular values below this share of the largest are hardly more than the rounding errors of subtracting that one.
_LEAST_VALUE = 1e3 * _EPS
# A sketch's triangular factor may be divided by if its diagonal's smallest over largest entry is at least this. Images
# and noisy low-rank matrices give 0.04 … 0.6.
_LEAST_DIAGONAL = 1e-3


def _canonical_signs(V: Dense) -> Dense:
    """Flip each column so that its entry of largest modulus is positive: vectors are unique only up to sign."""
    peak = V[np.abs(V).argmax(axis=0), np.arange(V.shape[1])]
    return V * np.where(peak < 0, -1.0, 1.0)


def gram(S: Matrix) -> Dense:
    """Return SSᵀ; numpy detects the transpose and does half the work of a product."""
    if is_out_of_core(S):
        lower: Dense = np.zeros((len(S), len(S)), order="F")
        for _, panel in panels(S):
            lower = scipy.linalg.blas.dsyrk(1.0, panel, beta=1.0, c=lower, lower=1, overwrite_c=1)
        for j in range(len(S)):
            lower[j, j + 1 :] = lower[j + 1 :, j]
        return lower
    G = S @ S.T
    return G if isinstance(G, np.ndarray) else G.toarray()


def _product(N: Dense, S: Matrix) -> Dense:
    """Return N S, C-ordered."""
    if not is_out_of_core(S):
        return np.ascontiguousarray(N @ S)
    W: Dense = np.empty((len(N), S.shape[1]))
    for columns, panel in panels(S):
        W[:, columns] = N @ panel
    return W


def _triangular(S: Dense) -> Dense:
    """Return L with SSᵀ = LLᵀ for an out-of-core S by successive QR decompositions, which square nothing."""

    def enlarged(R: Dense, panel: tuple[slice, Dense]) -> Dense:
        return np.asarray(np.linalg.qr(np.vstack([R, panel[1].T]), mode="r"))

    return reduce(enlarged, panels(S), np.empty((0, len(S)))).T


def _eigh(G: Dense, k: int) -> tuple[Dense, Dense]:
    """Return the top ``k`` eigenpairs of a symmetric matrix, largest first; reads the lower triangle."""
    m = len(G)
    if 6 * k > m:  # divide and conquer for all pairs costs less than inverse iteration for k, at m = 150 … 400
        values, vectors = scipy.linalg.eigh(G, driver="evd", check_finite=False)
    else:
        values, vectors = scipy.linalg.eigh(G, subset_by_index=(m - k, m - 1), check_finite=False)
    return values[: -k - 1 : -1], vectors[:, : -k - 1 : -1]


def _block_size(S: Matrix) -> int:
    """Return the columns of a Krylov block: 8 need a quarter fewer products, but reading a large S favours 16."""
    return 16 if isinstance(S, np.ndarray) and S.shape[0] > 2048 else 8


def _gram_product(N: Dense, S: Matrix) -> Dense:
    """Return (N S)Sᵀ, in panels of S that stay in the cache for the second product: 0.6 of the time for 8 rows N."""
    if is_out_of_core(S):
        return np.asarray(sum((N @ panel) @ panel.T for _, panel in panels(S)))
    if not isinstance(S, np.ndarray) or len(N) > 8:
        return np.ascontiguousarray((N @ S) @ S.T)
    W = np.zeros_like(N)
    for start in range(0, S.shape[1], 64):
        panel = S[:, start : start + 64]
        W += (N @ panel) @ panel.T
    return W


def _next_block(W: Dense, Q: Dense) -> tuple[Dense, Dense]:
    """Return orthonormal rows N, orthogonal to Q, and R with W = RᵀN, for W orthogonal to Q up to rounding."""
    N, R = np.linalg.qr(W.T)
    C = Q @ N
    N -= Q.T @ C
    if np.abs(C).max(initial=0) > 1e-8:  # cancellation left W mostly rounding errors: orthogonalise the rest again
        N, T = np.linalg.qr(N)
        N -= Q.T @ (Q @ N)
        R = T @ R
    return N.T, R


def _basis_size(k: int) -> int:
    """Return the number of rows at which a Krylov basis restarts."""
    return 5 * k + 600


def _krylov(S: Matrix, k: int, locked: Dense, scale: float) -> tuple[Dense, Dense] | None:
    """Return the top ``k`` eigenpairs of SSᵀ on the complement of the rows ``locked``, by thick-restarted block Krylov.

    Full reorthogonalisation; a random start with a fixed seed. Products run through S until they have cost as much as
    SSᵀ would, which is then formed if small. Returns None if LAPACK on SSᵀ would have been cheaper.

    A block of b columns finds min(b, multiplicity) copies of a singular value, and no residual reveals the others. So
    if b of the k values nearly agree, the search continues from a new random block until their sum no longer grows.

    ``scale`` is the largest eigenvalue of SSᵀ: on the complement the error of a product is ε·√scale times its own √θ.
    """
    m, f = S.shape[0], len(locked)
    b = _block_size(S)
    size = f + _basis_size(k)
    Q, T = np.empty((size, m)), np.zeros((size, size))  # orthonormal rows, the locked first; T = QSSᵀQᵀ beyond those
    Q[:f] = locked
    # Over k = 3 … 68 and six spectra 2k + 100 products were needed, half to twice that. Forming SSᵀ costs m/7 of them.
    formable = m <= _GRAM_SIDE and f == 0
    G = gram(S) if formable and (2 * k + 100 > m // 7 or is_out_of_core(S)) else None  # one read of an out-of-core S
    rng = np.random.default_rng(0)
    N = _fresh_block(rng, b, Q[:f])
    j, products, check, settled = f, 0, f + 3 * k // 2 + 40, 0.0
    last = (0, 0.0)  # products and log residual of the previous check
    while products <= (m // 2 if m <= _GRAM_SIDE else 100 * m):
        Q[j : j + b] = N
        j += b
        products += b
        if G is None and formable and products > m // 4:
            G = gram(S)
        known = Q[:j]
        W = _gram_product(N, S) if G is None else N @ G
        C = W @ known.T
        T[j - b : j, :j] = C
        W -= C @ known
        W -= (W @ known.T) @ known
        N, R = _next_block(W, known)
        full = j + b > size
        if j < check and not full:
            continue
        values, X = _eigh(T[f:j, f:j], (size - f) // 2 if full else k)
        theta = abs(values[0])
        target = _TOLERANCE * theta + 10 * _EPS * np.sqrt(scale * theta)
        kept = int(np.sum(values[:k] >= _GRAM_RATIO * theta))  # the others are computed again
        residual = float(np.linalg.norm(R.T @ X[-b:, : max(kept, 1)]))
        converged = residual <= target
        if converged:
            values, X = values[:k], X[:, :k]
            total = float(values.sum())
            if not _crowded(values[:kept], b) or total <= settled * (1 + 1e-10):
                return values, Q[f:j].T @ X
            settled, check = total, f + k + 8 * b
        else:
            here = (products, float(np.log(residual / theta)))
            check, last = j + _wait(last, here, np.log(target / theta), j), here
        if converged or full:
            j = f + len(values)
            Q[f:j] = X.T @ Q[f : f + len(X)]
            T[f:j, f:j] = np.diag(values)
            if converged:
                N = _fresh_block(rng, b, Q[:j])
    if m <= _GRAM_SIDE:
        return None
    raise np.linalg.LinAlgError(f"{k} singular vectors did not converge in {products} products")


def _wait(last: tuple[int, float], here: tuple[int, float], target: float, j: int) -> int:
    """Return the products until the next check, extrapolating the log residual; a check costs several products."""
    speed = (last[1] - here[1]) / (here[0] - last[0])
    wait = 0.8 * (here[1] - target) / speed if speed > 0 else np.inf
    return int(np.clip(wait, j / 8, j / 3))


def _fresh_block(rng: np.random.Generator, b: int, Q: Dense) -> Dense:
    """Return b orthonormal random rows, orthogonal to the rows of Q."""
    W = rng.standard_normal((b, Q.shape[1]))
    return _next_block(W - (W @ Q.T) @ Q, Q)[0]


def _crowded(values: Dense, b: int) -> bool:
    """Return True if b of these descending values agree to 1e-3."""
    spread = values[: 1 - b] - values[b - 1 :]
    return bool(np.any(spread <= 1e-3 * values[: len(spread)]))


def _lapack(S: Matrix, k: int) -> Dense:
    """Return the top ``k`` left singular vectors from SSᵀ, the inaccurate ones from the complement of the others."""
    values, U = _eigh(gram(S), k)
    accurate = values >= _GRAM_RATIO * values[0]
    if accurate.all():
        return U
    S = _triangular(S) if is_out_of_core(S) else S if isinstance(S, np.ndarray) else S.toarray()
    if not accurate.any():
        return _decomposed(S, k)
    return _completed(S, U[:, accurate], k, float(values[0]))


def _decomposed(S: Dense, k: int) -> Dense:
    """Return the top ``k`` left singular vectors from the full decomposition, which squares nothing."""
    return np.linalg.svd(S, full_matrices=False)[0][:, :k]


def _completed(S: Dense, U: Dense, k: int, scale: float) -> Dense:
    """Extend U to the top ``k`` left singular vectors: each step subtracts the known ones from S before forming SSᵀ.

    Subtracting a matrix whose largest singular value is √scale adds rounding errors relative to that, as the full
    decomposition does, which computes the values near that level.
    """
    R = S
    new = U
    while U.shape[1] < k:
        R = R - new @ (new.T @ R)
        values, vectors = _eigh(gram(R), k - U.shape[1])
        accurate = values >= _GRAM_RATIO * abs(values[0])
        if values[0] <= _LEAST_VALUE**2 * scale or not accurate.any():
            return _decomposed(S, k)
        vectors = vectors[:, accurate]
        new = np.linalg.qr(vectors - U @ (U.T @ vectors))[0]
        U = np.hstack([U, new])
    return U


def _left_singular_vectors(S: Matrix, k: int) -> Dense:
    """Return the top ``k`` left singular vectors, by the cheapest route."""
    m = S.shape[0]
    # LAPACK costs less than Krylov if k is a good part of m, and no more memory if a basis would be as large as m.
    if m <= _LAPACK_SIDE or m <= _basis_size(k) or (m <= _GRAM_SIDE and k > m // 12):
        return _lapack(S, k)
    U, scale = np.empty((m, 0)), 0.0
    while True:
        pairs = _krylov(S, k - U.shape[1], U.T, scale)
        if pairs is None:
            return _lapack(S, k)
        values, vectors = pairs
        accurate = values >= _GRAM_RATIO * abs(values[0])
        if accurate.all() or not accurate.any():
            return np.hstack([U, vectors])
        if isinstance(S, np.ndarray) and not is_out_of_core(S) and m <= min(_COMPLEMENT_SIDE, _GRAM_SIDE):
            return _completed(S, vectors[:, accurate], k, float(values[0]))
        U, scale = np.hstack([U, vectors[:, accurate]]), scale or float(values[0])


def _right_from_left(S: Matrix, U: Dense) -> Dense:
    """Return V = SᵀU Σ⁻¹, orthonormal to rounding even if a small σ costs digits."""
    W = _product(U.T, S)  # rows: the faster of the two products, and all that follows streams
    lengths = np.linalg.norm(W, axis=1)
    W /= np.where(lengths > 0, lengths, 1.0)[:, None]
    loss = W @ W.T - np.eye(len(W))
    if np.abs(loss).max() > 1e-7:
        return np.linalg.qr(W.T)[0]
    W -= (loss / 2) @ W  # a Newton–Schulz step squares the loss
    return W.T


def top_right_singular_vectors(A: Matrix, k: int) -> Dense:
    """Return V_k, the right singular vectors of the ``k`` largest singular values of ``A``.

    Accuracy: ‖AᵀAV − VΘ‖_F ≤ 1e-12·θ_1 with Θ = Σ² (plus rounding), checked on every route that iterates and met by
    LAPACK's backward stability on the others. The error of a subspace is at most this over the relative gap (θ_k −
    θ_{k+1})/θ_1. Vectors of θ_j < 1e-6·θ_1 are computed separately from the larger ones, so the bound holds for them
    with their own largest θ in place of θ_1, down to the rounding errors of A. Copies of repeated values are searched
    for.

    An out-of-core A is read once for its Gram matrix, and again only if that loses the requested values by squaring.

    Memory: an m×m matrix, m = min(n, d), only if m ≤ max(8192, 5k + 600); otherwise a basis of 5k + 600 vectors of
    length m. CSR is made dense only if it is that short and numerically of rank below k.

    Parameters
    ----------
    A : (n, d) array or CSR
        float32 is decomposed in float64.
    k : int
        1 ≤ k ≤ min(n, d).

    Returns
    -------
    (d, k) ndarray of float64
        Orthonormal columns, the largest singular value first; signs canonical. A deterministic function of ``A``.

    Raises
    ------
    ValueError
        If ``k`` is outside 1 … min(n, d), or A is not finite.
    numpy.linalg.LinAlgError
        If min(n, d) > 8192 and the residual stays above its bound for 100·min(n, d) products.
    """
    n, d = A.shape
    if not 1 <= k <= min(n, d):
        raise ValueError(f"k = {k} singular vectors are out of range for a {n}×{d} matrix; choose 1 ≤ k ≤ {min(n, d)}")
    A = as_float64(normalised(A)[0])
    if n > d:
        return _canonical_signs(_left_singular_vectors(A.T, k))
    return _canonical_signs(_right_from_left(A, _left_singular_vectors(A, k)))


def lapack_right_singular_vectors(A: Dense, k: int) -> Dense:
    """Return V_k from numpy's full decomposition."""
    return _canonical_signs(np.linalg.svd(A.astype(np.float64), full_matrices=False)[2][:k].T)


def sketch_size(k: int, eps: float) -> int:
    """Return the columns of the Gaussian matrix in FastFrobeniusSVD: k + ⌈k/ε + 1⌉ (bzmd15, after Lemma 4)."""
    return k + int(np.ceil(k / eps + 1))


def _cholesky(G: Dense) -> Dense | None:
    """Return L with G = LLᵀ, or None if the squared condition leaves fewer than ten digits."""
    L, failed = scipy.linalg.lapack.dpotrf(G, lower=True, clean=True)
    diagonal = L.diagonal()
    return L if not failed and diagonal.min() >= _LEAST_DIAGONAL * diagonal.max() else None


def _products(A: Matrix, R: Dense) -> tuple[Dense, Dense]:
    """Return YᵀY and YᵀA for Y = A R.

    Below 16 columns in one pass, in tiles that stay in the cache for the second product and are small enough for BLAS
    not to copy them: 0.8 of the time of two passes for 13 columns at 1440×1024. From 41 columns on two passes are
    faster. An out-of-core A is read once, with one block of Y in memory.
    """
    d, width = R.shape
    if is_out_of_core(A):
        YtY, YtA = np.zeros((width, width)), np.zeros((width, d))
        for _, block in row_blocks(A):
            Y = block @ R
            YtY += Y.T @ Y
            YtA += Y.T @ block
        return YtY, YtA
    if not isinstance(A, np.ndarray):
        Yt = np.ascontiguousarray((A @ R).T)
        return Yt @ Yt.T, Yt @ A
    if width >= 16 or d > 1024:
        Yt = np.ascontiguousarray(R.T) @ A.T  # rows of R in a row: two thirds of the time at 11000×256
        return Yt @ Yt.T, Yt @ A
    Yt, YtA = np.empty((width, len(A))), np.zeros((width, d))
    height = 2**16 // d
    for start in range(0, len(A), height):
        tile = A[start : start + height]
        Y = tile @ R
        YtA += Y.T @ tile
        Yt[:, start : start + height] = Y.T
    return Yt @ Yt.T, YtA


def _wide_sketch(A: Matrix, k: int, width: int, rng: np.random.Generator) -> Dense | None:
    """Run FastFrobeniusSVD of a wide matrix through G = AAᵀ; return None if squaring loses the requested values.

    R enters only through Y = AR, whose columns are N(0, G): with G = LLᵀ so are the columns of L R', R' an n × width
    Gaussian. That saves the product with A and most of the normal numbers. QᵀA has the Gram matrix QᵀGQ.
    """
    G = gram(A)
    L = _cholesky(G)
    if L is None:
        return None
    Q, _ = np.linalg.qr(L @ rng.standard_normal((len(G), width)))
    values, W = _eigh(Q.T @ (G @ Q), k)
    return _right_from_left(A, Q @ W) if values[-1] >= _GRAM_RATIO * values[0] else None


def fast_frobenius_svd(A: Matrix, k: int, eps: float, rng: np.random.Generator) -> Dense:
    """Return Z, approximate top ``k`` right singular vectors (bzmd15, Lemma 4; FastFrobeniusSVD).

    1. A Gaussian R of k + ⌈k/ε + 1⌉ columns.
    2. Y = AR, and Q, an orthonormal basis of Y. No power iterations.
    3. Z: the top right singular vectors of QᵀA.

    If R would have min(n, d) columns or more, Y spans the range of A and Z = V_k. An out-of-core A whose small singular
    values are lost by squaring in YᵀY also gives V_k.

    Parameters
    ----------
    k : int
        1 ≤ k ≤ min(n, d).
    eps : float
        0 < ε < 1.

    Returns
    -------
    (d, k) ndarray of float64
        ZᵀZ = I and E‖A − AZZᵀ‖²_F ≤ (1 + ε)‖A − A_k‖²_F for k ≥ 2.
    """
    n, d = A.shape
    width = sketch_size(k, eps)
    if width >= min(n, d):
        return top_right_singular_vectors(A, k)
    A = as_float64(normalised(A)[0])
    # A normal number takes the time of 240 multiplications.
    if n <= d and n * n / 2 < (2 * n + 240) * width:
        Z = _wide_sketch(A, k, width, rng)
        if Z is not None:
            return _canonical_signs(Z)
    R = rng.standard_normal((d, width))
    # QᵀA = L⁻¹YᵀA with YᵀY = LLᵀ. Both products through AᵀA when that costs less than A R and YᵀA.
    if isinstance(A, np.ndarray) and d * (n + 2 * width) < 4 * n * width:
        YtA = R.T @ gram(A.T)
        YtY = YtA @ R
    else:
        YtY, YtA = _products(A, R)
    L = _cholesky(YtY)
    if L is not None:
        # The left singular vectors of QᵀA from its Gram matrix, which needs no QᵀA. dtrsm divides by L or Lᵀ.
        divide = partial(scipy.linalg.blas.dtrsm, 1.0, L, lower=1)
        values, W = _eigh(divide(divide(YtA @ YtA.T), side=1, trans_a=1), k)
        if values[-1] >= _GRAM_RATIO * values[0]:
            return _canonical_signs(_right_from_left(YtA, divide(W, trans_a=1)))
    if is_out_of_core(A):  # Y does not fit into memory, and a matrix of such low rank needs no sketch
        return top_right_singular_vectors(A, k)
    Q, _ = np.linalg.qr(A @ R)
    return top_right_singular_vectors((A.T @ Q).T, k)
