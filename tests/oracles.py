"""Plain numpy forms of the kernels, ``*_reference``, and checks that judge a result without one, ``*_error``."""

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from kmdr.linalg import squared_frobenius, take_columns
from kmdr.linalg.signs import sign_matrix
from kmdr.reducers.laplacian_score import least_variance


def lloyd_reference(C, rows, max_iter):
    """Run Lloyd from one start as the docstring of `kmdr.clustering.kmeans` defines it, without any economy.

    Returns
    -------
    labels : (n,) ndarray of int64
    n_iter : int
    converged : bool
    refills : int
        Clusters that lost all their points and were given one.
    """
    C = C.astype(np.float64)
    k, refills, refilled = len(rows), 0, np.inf
    centres, labels = C[rows], np.full(len(C), -1)
    for iteration in range(1, max_iter + 1):
        nearest = np.argmin([((C - centre) ** 2).sum(axis=1) for centre in centres], axis=0)
        if np.array_equal(nearest, labels):
            return labels, iteration, True, refills
        labels = nearest
        counts = np.bincount(labels, minlength=k)
        for c in np.flatnonzero(counts):
            centres[c] = C[labels == c].mean(axis=0)
        for empty in np.flatnonzero(counts == 0):
            own = ((C - centres[labels]) ** 2).sum(axis=1)
            own[np.bincount(labels, minlength=k)[labels] < 2] = -1
            taken = own.argmax()
            source, labels[taken] = labels[taken], empty
            centres[empty], centres[source] = C[taken], C[labels == source].mean(axis=0)
            refills += 1
        if not counts.all():
            before, refilled = refilled, float(((C - centres[labels]) ** 2).sum())
            if refilled >= before:
                return labels, iteration, True, refills
    return labels, max_iter, False, refills


def lloyd_error(C, labels):
    """Return how far a partition is from a fixed point of Lloyd's iteration, judged from the partition alone.

    This is the most that the squared distance of a point to the mean of its cluster exceeds that to the nearest mean;
    0, to rounding, where Lloyd has converged.
    """
    names, labels = np.unique(labels, return_inverse=True)
    nearest, own = np.full(C.shape[0], np.inf), np.empty(C.shape[0])
    for c in range(len(names)):
        mean = C[labels == c].mean(axis=0, dtype=np.float64)
        if isinstance(C, np.ndarray):
            distance = ((C - mean) ** 2).sum(axis=1)
        else:
            distance = np.asarray(C.multiply(C).sum(axis=1, dtype=np.float64)).ravel() + mean @ mean - 2 * (C @ mean)
        np.minimum(nearest, distance, out=nearest)
        own[labels == c] = distance[labels == c]
    return float((own - nearest).max())


def _squared_distances(A, i):
    """Return ‖x − y‖² of point i to every point, from the differences, in float64."""
    point = A[[i]].astype(np.float64)
    if isinstance(A, np.ndarray):
        return np.square(A - point).sum(axis=1)
    copies = sp.csr_array(np.ones((A.shape[0], 1))) @ point
    return np.asarray(sp.csr_array(A - copies).power(2).sum(axis=1))


def nearest_neighbours_reference(A, n_neighbors):
    """Return what `nearest_neighbours` does, point by point: all distances, sorted."""
    indices, distances = [], []
    for i in range(A.shape[0]):
        squares = _squared_distances(A, i)
        squares[i] = np.inf
        indices.append(np.argsort(squares, kind="stable")[:n_neighbors])
        distances.append(np.sqrt(squares[indices[-1]]))
    return np.array(indices), np.array(distances)


def nearest_neighbours_error(A, indices, distances, rng, sample=100):
    """Return how wrong the neighbours of some points are: 0 but for rounding when they are right.

    Compares with all the distances of ``sample`` points, O(sample·n·d). A share p of wrong rows stays unseen with
    probability at most (1 − p)^sample.

    Returns
    -------
    float
        The largest difference of a reported distance from the distance to the point reported, or from the one that
        belongs in its place, in units of the point's largest distance; infinite if a point is reported as its own
        neighbour or twice. Which of several equally distant points is reported is not judged.
    """
    n, m = indices.shape
    worst = 0.0
    for i in rng.choice(n, min(sample, n), replace=False):
        if i in indices[i] or len(np.unique(indices[i])) < m:
            return float("inf")
        true = np.sqrt(_squared_distances(A, i))
        unit = true.max() or 1.0
        claimed = true[indices[i]]
        true[i] = np.inf
        right = np.sort(true)[:m]
        worst = max(worst, *(np.abs(distances[i] - other).max() / unit for other in (claimed, right)))
    return worst


def mean_distance_reference(A):
    """Return the mean of all n² distances, point by point."""
    return float(np.mean([np.sqrt(_squared_distances(A, i)) for i in range(A.shape[0])]))


def rotate_reference(A, signs):
    """Return what `rotate` does, in float64, by the explicit matrix."""
    d = A.shape[1]
    padded = 1 << (d - 1).bit_length()
    H = scipy.linalg.hadamard(padded) / np.sqrt(padded)
    return np.asarray(A @ (signs[:, None] * H[:d]))


def rotated_product_reference(A, signs, P):
    """Return what `rotated_product` does, in float64."""
    return np.asarray(rotate_reference(A, signs) @ P.toarray().T)


def _product_error(A, Mw, w, C):
    """Return ‖Cw − A(Mw)‖₂ / (‖A‖_F ‖Mw‖₂), a few units of rounding if C = AM; ‖Cw‖₂ where the divisor is 0."""
    residual = np.linalg.norm(C @ w - A @ Mw)
    return float(residual / (np.sqrt(squared_frobenius(A)) * np.linalg.norm(Mw) or 1))


def _apply_rotation(signs, w):
    """Return DHw for a vector w of d' entries."""
    Hw = w / np.sqrt(len(w))
    for h in (1 << stage for stage in range(len(w).bit_length() - 1)):
        x, y = Hw.reshape(-1, 2, h).transpose(1, 0, 2)
        Hw = np.stack([x + y, x - y], axis=1).reshape(-1)
    return signs * Hw[: len(signs)]


def rotate_error(A, signs, C, rng):
    """Return ‖Cw − A(DHw)‖₂ / (‖A‖_F ‖DHw‖₂) for a Gaussian w: a few units of rounding if C = ADH.

    It costs O(nnz + nd'). A wrong C goes unnoticed with probability 0.
    """
    w = rng.standard_normal(C.shape[1])
    return _product_error(A, _apply_rotation(signs, w), w, C)


def rotated_product_error(A, signs, P, C, rng):
    """Return ‖Cw − A(DHPᵀw)‖₂ / (‖A‖_F ‖DHPᵀw‖₂) for a Gaussian w: a few units of rounding if C = ADHPᵀ.

    It costs O(nnz + nr + nnz of P). A wrong C goes unnoticed with probability 0.
    """
    w = rng.standard_normal(C.shape[1])
    return _product_error(A, _apply_rotation(signs, P.T @ w), w, C)


def singular_vectors_error(A, V):
    """Judge right singular vectors without knowing them.

    Returns
    -------
    residual : float
        ‖AᵀAV − VΘ‖_F/θ_1, where Θ holds the Rayleigh quotients ‖AV_j‖² and θ_1 the largest. It does not tell whether
        a larger singular value is missing; `frobenius_excess` does.
    loss : float
        max |VᵀV − I|.
    """
    Y = A @ V
    theta = np.einsum("ij,ij->j", Y, Y)
    residual = np.linalg.norm(A.T @ Y - V * theta)
    loss = np.abs(V.T @ V - np.eye(V.shape[1])).max()
    return float(residual / theta.max()) if residual else 0.0, float(loss)


def frobenius_excess(A, Z, best):
    """Return ‖A − AZZᵀ‖²_F / ‖A − A_k‖²_F − 1, what Z misses beyond the best of its rank: at least 0, up to rounding.

    Lemma 4 of bzmd15 bounds its expectation by ε for `fast_frobenius_svd`. `best` holds the k largest singular values
    of A, whose rank is above k.
    """
    Y = A @ Z
    tail = squared_frobenius(A) - float(best @ best)
    return float(best @ best - np.vdot(Y, Y)) / tail


def fast_frobenius_svd_reference(A, k, R):
    """Return the result of `fast_frobenius_svd`, up to signs, for a Gaussian R: QR and SVD as the paper writes them."""
    Q, _ = np.linalg.qr(A @ R)
    return np.linalg.svd(Q.T @ A, full_matrices=False)[2][:k].T


def sign_product_reference(A, bits, scale):
    """Return what `sign_product` does, in float64, from the explicit sign matrix."""
    return np.asarray(scale * (A @ sign_matrix(bits, A.shape[1])))


def sign_product_error(A, bits, scale, C, rng):
    """Return ‖Cw − scale·A(Rw)‖₂ / (scale·‖A‖_F ‖Rw‖₂) for a Gaussian w: a few units of rounding if C is right.

    It costs O(nnz + (n + d)r) and holds 64 rows of R at a time. A wrong C goes unnoticed with probability 0. Where the
    divisor is 0 it is left out.
    """
    w = rng.standard_normal(bits.shape[1])
    Rw = np.concatenate([sign_matrix(row[None], 64) @ w for row in bits])[: A.shape[1]]
    residual = np.linalg.norm(C @ w - scale * (A @ Rw))
    return float(residual / (abs(scale) * np.sqrt(squared_frobenius(A)) * np.linalg.norm(Rw) or 1))


def count_sketch_reference(A, bucket, sign, r):
    """Return what `count_sketch` returns, by its definition: the product with the matrix S."""
    S = np.zeros((A.shape[1], r), dtype=A.dtype)
    np.add.at(S, (np.arange(A.shape[1]), bucket.T), sign.T)
    return np.asarray(A @ S)


def count_sketch_error(A, bucket, sign, C, rng):
    """Return how far C is from A·S, by products with three Gaussian vectors w: C·w against A·(S·w).

    S·w has the elements Σ_t sign[j, t] w[bucket[j, t]], so S is not formed: O(nnz(A) + d·s + n·r). Where the error of a
    row of C has the norm δ‖aᵢ‖, aᵢ the row of A, the value falls below h·δ with probability < 0.52h³, as the density of
    a normal number is below 0.4. Rounding makes it a few √d times the precision of A's dtype.

    Returns
    -------
    float
        The largest |C·w − A·S·w| in any row and for any w, relative to the norm of that row of A; infinite where that
        row is zero and the row of C is not, and NaN if C has a NaN.
    """
    w = rng.standard_normal((C.shape[1], 3)).astype(A.dtype)
    Sw = (sign[..., None] * w[bucket]).sum(axis=tuple(range(1, bucket.ndim)))
    difference = np.abs(C @ w - A @ Sw.astype(A.dtype)).max(axis=1)
    squares = np.einsum("ij,ij->i", A, A) if isinstance(A, np.ndarray) else A.multiply(A).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = difference / np.sqrt(squares)
    return float(np.where((difference == 0) & (squares == 0), 0, relative).max(initial=0))


def laplacian_scores_reference(A, W):
    """Return what `laplacian_scores` does, a feature at a time, densely (He, Cai, Niyogi 2005, (2)–(4))."""
    D = np.diag(W.toarray().sum(axis=1))
    L, ones, scores = D - W.toarray(), np.ones(len(A)), []
    for f in A.astype(np.float64).T:
        tilde = f - (f @ D @ ones) / (ones @ D @ ones) * ones
        variance = tilde @ D @ tilde
        scores.append(tilde @ L @ tilde / variance if variance > least_variance(A) else 1.0)
    return np.array(scores)


def laplacian_scores_error(A, W, scores, rng, sample=20):
    """Return how far the scores of some features are from f̃ᵀLf̃ / f̃ᵀDf̃ by sparse products, O(sample·nnz of W).

    A share p of wrong scores stays unseen with probability at most (1 − p)^sample.
    """
    columns = rng.integers(A.shape[1], size=sample)
    F = take_columns(A, columns).astype(np.float64)
    degree = np.asarray(W.sum(axis=1)).ravel()
    F -= F[0]  # neither side changes with a shift, and this one is exact for a constant feature
    F -= degree @ F / degree.sum()
    scale, cross = degree @ F**2, np.einsum("ij,ij->j", F, degree[:, None] * F - W @ F)
    expected = np.divide(cross, scale, out=np.ones(sample), where=scale > least_variance(A))
    return float(np.abs(scores[columns] - expected).max())
