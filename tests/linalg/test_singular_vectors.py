"""The kernels against numpy, explicit matrices and the bounds of the papers."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

from kmdr.linalg import singular_vectors
from kmdr.linalg.singular_vectors import (
    fast_frobenius_svd,
    lapack_right_singular_vectors,
    sketch_size,
    top_right_singular_vectors,
)
from oracles import fast_frobenius_svd_reference, frobenius_excess, singular_vectors_error

LAYOUTS = [np.asarray, np.asfortranarray, sp.csr_array]


def read_only(A):
    for part in (A.data, A.indices, A.indptr) if sp.issparse(A) else (A,):
        part.flags.writeable = False
    return A


def orthonormal(rng, n, m):
    return np.linalg.qr(rng.standard_normal((n, m)))[0]


def with_singular_values(rng, n, d, s):
    """A matrix of known singular vectors: A and its right ones."""
    U, V = orthonormal(rng, n, len(s)), orthonormal(rng, d, len(s))
    return (U * s) @ V.T, V


def assert_orthonormal(V, tolerance=1e-12):
    np.testing.assert_allclose(V.T @ V, np.eye(V.shape[1]), atol=tolerance, rtol=0)


def assert_same_up_to_sign(V, W, tolerance):
    assert V.shape == W.shape
    signs = np.sign(np.einsum("ij,ij->j", V, W))
    np.testing.assert_allclose(V * signs, W, atol=tolerance, rtol=0)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("n", "d"), [(200, 30), (30, 200), (60, 60), (40, 1), (1, 40), (1, 1)])
def test_singular_vectors_equal_numpy(layout, n, d, rng):
    dense = rng.standard_normal((n, d))
    expected = np.linalg.svd(dense, full_matrices=False)[2].T
    for k in {1, min(3, n, d), min(n, d)}:
        V = top_right_singular_vectors(read_only(layout(dense)), k)
        assert V.dtype == np.float64
        assert_orthonormal(V)
        # Neighbouring singular values of a Gaussian matrix of this size differ by about 1e-2 … 1e-4 of the largest.
        assert_same_up_to_sign(V, expected[:, :k], 1e-7)
        assert all(V[peak, j] > 0 for j, peak in enumerate(np.abs(V).argmax(axis=0)))


def test_float32_is_decomposed_in_float64(rng):
    A = rng.standard_normal((50, 20)).astype(np.float32)
    V = top_right_singular_vectors(A, 4)
    assert V.dtype == np.float64
    assert_same_up_to_sign(V, np.linalg.svd(A.astype(np.float64))[2][:4].T, 1e-10)


@pytest.mark.parametrize("k", [0, -1, 6])
def test_too_few_or_too_many_singular_vectors_are_refused(k):
    with pytest.raises(ValueError, match="5"):
        top_right_singular_vectors(np.ones((5, 9)), k)


# Every route: LAPACK on the Gram matrix (or its fallback), Krylov on the Gram matrix (and its fallbacks), and Krylov on
# the matrix alone; the last two with a small basis, so that they restart and lock.
@pytest.fixture(params=["lapack", "krylov on gram", "krylov"])
def branch(request, monkeypatch):
    if request.param != "lapack":
        monkeypatch.setattr(singular_vectors, "_LAPACK_SIDE", 10)
        monkeypatch.setattr(singular_vectors, "_basis_size", lambda k: 2 * k + 32)
    if request.param == "krylov":
        monkeypatch.setattr(singular_vectors, "_GRAM_SIDE", 10)
        monkeypatch.setattr(singular_vectors, "_lapack", None)
    return request.param


SIDES = [(220, 160), (160, 220), (160, 160)]
M = 160


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(("n", "d"), SIDES)
def test_decaying_spectrum(branch, layout, n, d, rng):
    A, V = with_singular_values(rng, n, d, 1 / np.arange(1, M + 1))
    for k in (1, 5, 14):
        V_hat = top_right_singular_vectors(layout(A), k)
        assert_orthonormal(V_hat)
        assert_same_up_to_sign(V_hat, V[:, :k] * 1.0, 1e-9)


@pytest.mark.parametrize(("n", "d"), SIDES)
def test_large_gap(branch, n, d, rng):
    s = np.r_[1e6, np.linspace(2, 1, M - 1)]
    A, V = with_singular_values(rng, n, d, s)
    for k in (1, 2, 10):
        V_hat = top_right_singular_vectors(A, k)
        assert_orthonormal(V_hat)
        # Backward stability: angle ≤ c·ε·σ_1/gap = c · 2e-16 · 1e6 / 0.006.
        assert_same_up_to_sign(V_hat, V[:, :k], 1e-6)


@pytest.mark.parametrize(("n", "d"), SIDES)
def test_singular_values_down_to_a_billionth(branch, n, d, rng):
    s = np.r_[10.0 ** -np.arange(10), np.zeros(M - 10)]
    A, V = with_singular_values(rng, n, d, s)
    for k in range(1, 11):
        V_hat = top_right_singular_vectors(A, k)
        assert_orthonormal(V_hat)
        # A full SVD errs by c·ε·σ_1/σ_k ≤ c·2e-7; a Gram matrix by c·ε·(σ_1/σ_k)², below 1e-5 where it may be used.
        assert_same_up_to_sign(V_hat, V[:, :k], 1e-4)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(("n", "d"), SIDES)
def test_rank_deficient(branch, layout, n, d, rng):
    A, V = with_singular_values(rng, n, d, np.array([5.0, 4, 3]))
    for k in (3, 4, 10):
        V_hat = top_right_singular_vectors(layout(A), k)
        assert_orthonormal(V_hat)
        assert_same_up_to_sign(V_hat[:, :3], V, 1e-10)
        np.testing.assert_allclose(A @ V_hat @ V_hat.T, A, atol=1e-10)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(("n", "d"), SIDES)
def test_repeated_singular_values(branch, layout, n, d, rng):
    s = np.r_[[7.0] * 4, [3.0] * 3, np.linspace(1, 0.5, M - 7)]
    A, V = with_singular_values(rng, n, d, s)
    for k in (4, 7, 10):
        V_hat = top_right_singular_vectors(layout(A), k)
        assert_orthonormal(V_hat)
        np.testing.assert_allclose(V_hat @ V_hat.T, V[:, :k] @ V[:, :k].T, atol=1e-9)
    # Inside a group the space is free, but what it captures is not.
    for k in (1, 2, 5):
        V_hat = top_right_singular_vectors(layout(A), k)
        assert_orthonormal(V_hat)
        assert np.linalg.norm(A @ V_hat) ** 2 == pytest.approx(np.sum(s[:k] ** 2), rel=1e-10)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("copies", [8, 9, 12, 30])
@pytest.mark.parametrize("rest", [1, 3, 4])
def test_more_copies_than_a_block_has_columns(branch, layout, copies, rest, rng):
    # A block of 8 columns sees 8 copies; 5 and what follows would then pass for the others. Rounding errors bring a
    # missing copy in after as many steps as the others took, so what tells is a spectrum that converges neither fast
    # (rest 1) nor slowly.
    s = np.r_[[7.0] * copies, 5, np.linspace(rest, 0.5, M - copies - 1)]
    A, V = with_singular_values(rng, 200, M, s)
    k = copies + 1
    V_hat = top_right_singular_vectors(layout(A), k)
    assert_orthonormal(V_hat)
    np.testing.assert_allclose(V_hat @ V_hat.T, V[:, :k] @ V[:, :k].T, atol=1e-9)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_a_copy_that_the_first_block_cannot_see_is_searched_for(layout, monkeypatch):
    # Products with a diagonal matrix leave an exact zero zero, so not even rounding errors lead to the first axis.
    monkeypatch.setattr(singular_vectors, "_LAPACK_SIDE", 10)
    monkeypatch.setattr(singular_vectors, "_basis_size", lambda k: 2 * k + 32)
    monkeypatch.setattr(singular_vectors, "_GRAM_SIDE", 10)
    monkeypatch.setattr(singular_vectors, "_lapack", None)
    fresh, calls = singular_vectors._fresh_block, []

    def blind_at_first(rng, b, Q):
        calls.append(b)
        if len(calls) > 1:
            return fresh(rng, b, Q)
        return np.linalg.qr(np.vstack([np.zeros(b), rng.standard_normal((M - 1, b))]))[0].T

    monkeypatch.setattr(singular_vectors, "_fresh_block", blind_at_first)
    A = layout(np.diag(np.r_[[7.0] * 9, np.linspace(5, 0.5, M - 9)]))
    V_hat = top_right_singular_vectors(A, 9)
    np.testing.assert_allclose(V_hat @ V_hat.T, np.diag(np.arange(M) < 9), atol=1e-9)
    assert len(calls) > 1


@pytest.mark.parametrize("width", [0, 1e-12, 1e-6])
def test_cluster_wider_than_a_block(branch, width, rng):
    s = np.r_[2 + width * rng.random(20), 1.5, np.linspace(1, 0.5, M - 21)]
    A, V = with_singular_values(rng, 200, M, s)
    V_hat = top_right_singular_vectors(A, 21)
    assert_orthonormal(V_hat)
    np.testing.assert_allclose(V_hat @ V_hat.T, V[:, :21] @ V[:, :21].T, atol=1e-9)


def test_identity(branch):
    V_hat = top_right_singular_vectors(np.eye(M), 12)
    assert_orthonormal(V_hat)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("n", "d"), [(800, 700), (700, 800)])
def test_residual_bound_without_any_patch(layout, n, d, rng):
    dense = rng.standard_normal((n, d)) * np.arange(1, d + 1.0) ** -0.7
    A = layout(dense * (rng.random((n, d)) < 0.1) if layout is sp.csr_array else dense)
    exact = np.linalg.svd(A.toarray() if sp.issparse(A) else A, compute_uv=False)
    for k in (1, 15, 19, 20, 200, 700):
        V = top_right_singular_vectors(A, k)
        residual, loss = singular_vectors_error(A, V)
        assert residual <= 2e-12
        assert loss <= 1e-12
        np.testing.assert_allclose(np.linalg.norm(A @ V, axis=0), exact[:k], rtol=1e-9)


def test_int64_indices_and_empty_rows(branch, rng):
    dense = rng.standard_normal((200, M)) * np.arange(1, M + 1.0) ** -0.5
    dense[::3] = 0
    A = sp.csr_array(dense)
    A.indices, A.indptr = A.indices.astype(np.int64), A.indptr.astype(np.int64)
    V_hat = top_right_singular_vectors(read_only(A), 5)
    assert_same_up_to_sign(V_hat, lapack_right_singular_vectors(dense, 5), 1e-9)


def test_error_tells_wrong_vectors(rng):
    A, V = with_singular_values(rng, 40, 30, np.array([3.0, 2, 1]))
    residual, loss = singular_vectors_error(A, V)
    assert residual < 1e-14
    assert loss < 1e-14
    # Turned by t in the plane of v_1, v_2: AᵀAv − θv has length |sin t cos t|·(9 − 4).
    t = 1e-3
    v = np.cos(t) * V[:, 0] + np.sin(t) * V[:, 1]
    theta = 9 * np.cos(t) ** 2 + 4 * np.sin(t) ** 2
    assert singular_vectors_error(A, v[:, None])[0] == pytest.approx(5 * np.sin(t) * np.cos(t) / theta, rel=1e-9)
    assert singular_vectors_error(A, 2 * V)[1] == pytest.approx(3)


def test_excess_by_hand(rng):
    A, V = with_singular_values(rng, 40, 30, np.array([3.0, 2, 1]))
    assert frobenius_excess(A, V[:, :1], np.array([3.0])) == pytest.approx(0, abs=1e-12)
    assert frobenius_excess(A, V[:, 1:2], np.array([3.0])) == pytest.approx((9 + 1) / (4 + 1) - 1)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_zero_matrix_still_gives_orthonormal_columns(layout):
    assert_orthonormal(top_right_singular_vectors(layout(np.zeros((50, 60))), 3))


def test_the_result_is_a_function_of_the_matrix(branch, rng):
    A = rng.standard_normal((50, 60))
    np.random.seed(1)  # noqa: NPY002 - ARPACK's own start would come from here
    first = top_right_singular_vectors(A, 4)
    np.random.seed(2)  # noqa: NPY002
    np.testing.assert_array_equal(first, top_right_singular_vectors(A, 4))


@pytest.mark.parametrize("eps", [1 / 3, 0.5, 0.1, 0.9])
@pytest.mark.parametrize("k", [1, 2, 3, 10, 68])
def test_sketch_width_is_k_plus_ceil_of_k_over_eps_plus_one(k, eps):
    assert sketch_size(k, eps) == k + math.ceil(k / eps + 1)


def test_sketch_widths_by_hand():
    assert [sketch_size(k, 1 / 3) for k in (1, 2, 5, 10)] == [5, 9, 21, 41]
    assert sketch_size(3, 0.5) == 10


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(("n", "d"), [(80, 40), (40, 80), (50, 50)])
def test_fast_frobenius_svd_is_orthonormal_and_exact_at_low_rank(layout, n, d, rng):
    for rank, k in [(1, 1), (3, 3), (3, 5), (6, 6)]:
        A, V = with_singular_values(rng, n, d, np.linspace(3, 1, rank))
        Z = fast_frobenius_svd(read_only(layout(A)), k, 1 / 3, rng)
        assert Z.shape == (d, k)
        assert_orthonormal(Z)
        np.testing.assert_allclose(A @ Z @ Z.T, A, atol=1e-9)
        assert_same_up_to_sign(Z[:, :rank], V, 1e-9)


@pytest.mark.parametrize(("n", "d", "k"), [(6, 9, 5), (9, 6, 6), (4, 4, 4), (1, 5, 1), (5, 1, 1)])
def test_a_sketch_as_wide_as_the_matrix_gives_the_svd(n, d, k, rng):
    A = rng.standard_normal((n, d))
    Z = fast_frobenius_svd(A, k, 1 / 3, rng)
    assert_orthonormal(Z)
    assert_same_up_to_sign(Z, np.linalg.svd(A, full_matrices=False)[2][:k].T, 1e-7)


# Three routes: the products as written (narrow sketches), through AᵀA, and – wide – through AAᵀ and a Gaussian R'.
def wide_route(n, d, width):
    return n <= d and n * n / 2 < (2 * n + 240) * width


@pytest.mark.parametrize("layout", [np.asarray, np.asfortranarray, sp.csr_array])
@pytest.mark.parametrize("shape", [(60, 50), (400, 40), (400, 15), (900, 400), (800, 900), (800, 2300)])
def test_fast_frobenius_svd_follows_its_box_step_by_step(layout, shape, rng):
    A, k, eps = rng.standard_normal(shape), 3, 0.5
    assert not wide_route(*shape, 10)
    Z = fast_frobenius_svd(layout(A), k, eps, np.random.default_rng(5))
    # The same Gaussian numbers, numpy's QR and SVD: Y = AR, Q = orth(Y), top right singular vectors of QᵀA.
    W = fast_frobenius_svd_reference(A, k, np.random.default_rng(5).standard_normal((shape[1], 3 + 7)))
    assert_same_up_to_sign(Z, W, 1e-9)


@pytest.mark.parametrize("layout", [np.asarray, np.asfortranarray, sp.csr_array])
@pytest.mark.parametrize("shape", [(50, 60), (30, 500), (40, 40)])
def test_fast_frobenius_svd_of_a_wide_matrix_follows_its_box_on_the_row_space(layout, shape, rng):
    A, k, eps = rng.standard_normal(shape), 3, 0.5
    n, _ = shape
    assert wide_route(*shape, 10)
    Z = fast_frobenius_svd(layout(A), k, eps, np.random.default_rng(5))
    # Aᵀ = PLᵀ with orthonormal P: only PᵀR counts, which is Gaussian again. R = PR' gives AR = LR'.
    P, Lt = np.linalg.qr(A.T)
    P *= np.sign(Lt.diagonal())
    R = P @ np.random.default_rng(5).standard_normal((n, 3 + 7))
    assert_same_up_to_sign(Z, fast_frobenius_svd_reference(A, k, R), 1e-9)


@pytest.mark.parametrize("smallest", [0.1, 0.03, 0.01, 0.003, 1e-3, 1e-4, 1e-6])
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_the_condition_of_the_sketch_does_not_matter(layout, smallest, rng):
    # From well to badly conditioned sketches, across the condition at which the route changes.
    s = np.r_[np.linspace(2, 1, 3), np.full(297, smallest)]
    A, _ = with_singular_values(rng, 400, 300, s)
    Z = fast_frobenius_svd(layout(A), 3, 1 / 3, np.random.default_rng(5))
    W = fast_frobenius_svd_reference(A, 3, np.random.default_rng(5).standard_normal((300, 13)))
    # The differences of `frobenius_excess` would cancel: the tail is down to 1e-11 of the whole.
    missed, expected = (np.linalg.norm(A - A @ V @ V.T) ** 2 for V in (Z, W))
    assert missed == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("scale", [1e-40, 1e-25, 1e-10, 1e10, 1e18, 1e25, 1e40])
def test_the_scale_of_a_matrix_does_not_matter(scale, rng):
    A = rng.standard_normal((200, 60))
    Z = fast_frobenius_svd(A * scale, 3, 0.5, np.random.default_rng(5))
    assert_orthonormal(Z)
    assert_same_up_to_sign(
        Z, fast_frobenius_svd_reference(A, 3, np.random.default_rng(5).standard_normal((60, 10))), 1e-9
    )


def test_a_float32_matrix_is_sketched_as_its_float64_copy(rng):
    A = rng.standard_normal((300, 60)).astype(np.float32)
    first, other = (fast_frobenius_svd(B, 3, 0.5, np.random.default_rng(5)) for B in (read_only(A), A.astype(float)))
    assert first.dtype == np.float64
    np.testing.assert_array_equal(first, other)


@pytest.mark.parametrize("shape", [(120, 100), (100, 120)])
def test_fast_frobenius_svd_of_an_ill_conditioned_matrix(shape, rng):
    # Cholesky would lose everything below 1e-8 of the largest value; the excess tells.
    A, V = with_singular_values(rng, *shape, np.r_[1, 1e-5, 1e-9 * np.linspace(2, 1, 98)])
    Z = fast_frobenius_svd(A, 2, 1 / 3, rng)
    assert_orthonormal(Z)
    assert_same_up_to_sign(Z, V[:, :2], 1e-3)


@pytest.mark.parametrize("shape", [(40, 30), (30, 40)])
@pytest.mark.parametrize("eps", [1 / 3, 0.9])
@pytest.mark.parametrize("decay", [0.5, 1.0, 2.0])
def test_mean_excess_of_fast_frobenius_svd_is_within_lemma_4(shape, eps, decay, rng):
    # E‖A − AZZᵀ‖² ≤ (1 + ε)‖A − A_k‖² (bzmd15 Lemma 4, k ≥ 2). The ratio of the two lies in [1, ‖A‖²/‖A − A_k‖²], an
    # interval of length B = ‖A_k‖²/‖A − A_k‖²; Hoeffding: P(mean ≥ 1 + ε + h) ≤ exp(−2Nh²/B²) = 1e-7.
    k, N = 2, 1500
    s = np.arange(1, 31.0) ** -decay
    A, _ = with_singular_values(rng, *shape, s)
    tail = np.sum(s[k:] ** 2)
    total = np.sum(s**2)
    ratios = [(total - np.linalg.norm(A @ fast_frobenius_svd(A, k, eps, rng)) ** 2) / tail for _ in range(N)]
    assert min(ratios) >= 1 - 1e-9
    h = (total / tail - 1) * np.sqrt(np.log(1e7) / (2 * N))
    assert np.mean(ratios) <= 1 + eps + h
