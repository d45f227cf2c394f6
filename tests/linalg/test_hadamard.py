"""The Walsh–Hadamard transform and products with sparse matrices, against explicit matrices."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp

from kmdr.base.threads import pinned
from kmdr.linalg.hadamard import padded, rotate, rotated_entries, rotated_product
from kmdr.linalg.signs import random_signs
from oracles import rotate_error, rotate_reference, rotated_product_error, rotated_product_reference

LAYOUTS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "every second": lambda A: np.repeat(A, 2, axis=1)[:, ::2],
    "csr": sp.csr_array,
    "csr64": lambda A: wide(sp.csr_array(A)),
}
# Every order up to 64 and orders beyond the 64 that are transformed together, padded and not; rows beside a tile of 16.
SIZES = [(1, 1), (5, 2), (16, 3), (17, 8), (33, 16), (2, 29), (20, 64), (70, 65), (9, 256), (16, 300), (3, 1024)]


def wide(A):
    return sp.csr_array((A.data, A.indices.astype(np.int64), A.indptr.astype(np.int64)), shape=A.shape)


def hadamard(A, signs):
    """A·D·H/√d' from scipy's matrix, padded with explicit zeros."""
    n, d = A.shape
    X = np.hstack([A * signs, np.zeros((n, padded(d) - d))])
    return X @ scipy.linalg.hadamard(padded(d)) / np.sqrt(padded(d))


def sparse(rng, r, d, density):
    return sp.csr_array(np.where(rng.random((r, d)) < density, rng.standard_normal((r, d)), 0))


def test_padded_is_the_least_power_of_two():
    assert [padded(d) for d in (1, 2, 3, 4, 5, 1024, 1025)] == [1, 2, 4, 4, 8, 1024, 2048]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "d"), SIZES)
def test_rotation_is_that_of_the_explicit_matrix(layout, dtype, n, d, rng):
    A = (rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.5)).astype(dtype)
    A[0] = 0
    signs = random_signs((1, d), rng)[0]
    C = rotate(LAYOUTS[layout](A), signs)
    assert C.dtype == dtype
    assert C.shape == (n, padded(d))
    expected = hadamard(A.astype(np.float64), signs)
    np.testing.assert_allclose(C, expected, rtol=0, atol=60 * np.finfo(dtype).eps * np.abs(A).max(initial=1))
    np.testing.assert_allclose(rotate_reference(A.astype(np.float64), signs), expected, atol=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("density", [0.0, 0.1, 0.9])
@pytest.mark.parametrize(("n", "d", "r"), [(1, 1, 1), (33, 100, 21), (16, 64, 8), (40, 9, 50), (65, 700, 3)])
def test_rotated_products_are_those_of_the_dense_matrices(layout, dtype, density, n, d, r, rng):
    A = rng.standard_normal((n, d)).astype(dtype)
    signs = random_signs((1, d), rng)[0]
    P = sparse(rng, r, padded(d), density)
    C = rotated_product(LAYOUTS[layout](A), signs, P)
    assert C.dtype == dtype
    expected = hadamard(A.astype(np.float64), signs) @ P.toarray().T
    atol = 40 * np.sqrt(d) * np.finfo(dtype).eps
    np.testing.assert_allclose(C, expected, rtol=0, atol=atol)
    np.testing.assert_allclose(rotated_product_reference(A, signs, P), expected, rtol=0, atol=atol)


def test_p_may_have_wide_unsorted_and_repeated_indices(rng):
    A, signs = rng.standard_normal((20, 30)), random_signs((1, 30), rng)[0]
    X = rotate(A, signs)
    P = sp.csr_array((np.array([1.0, 2.0, 3.0]), np.array([7, 2, 7]), np.array([0, 3])), shape=(1, 32))
    for form in (P, wide(P), P.astype(np.float32)):
        np.testing.assert_allclose(rotated_product(A, signs, form), 4 * X[:, [7]] + 2 * X[:, [2]], atol=1e-14)


def test_rotation_of_a_csr_matrix_takes_unsorted_and_repeated_indices(rng):
    A = sp.csr_array((np.array([1.0, 2.0, 3.0]), np.array([7, 2, 7]), np.array([0, 3])), shape=(1, 11))
    signs = random_signs((1, 11), rng)[0]
    np.testing.assert_allclose(rotate(A, signs), hadamard(A.toarray(), signs), atol=1e-14)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("density", [0.0, 0.05, 0.9])  # the last is rotated as a whole
@pytest.mark.parametrize(("n", "d", "r"), [(1, 1, 1), (33, 100, 21), (16, 64, 8), (40, 9, 50), (1100, 700, 3)])
def test_kept_entries_are_those_of_the_explicit_matrix(layout, dtype, density, n, d, r, rng):
    A = (rng.standard_normal((n, d)) * (rng.random((n, d)) < density)).astype(dtype)
    signs = random_signs((1, d), rng)[0]
    kept = rng.integers(padded(d), size=(n, r), dtype=np.int32)
    C = rotated_entries(LAYOUTS[layout](A), signs, kept)
    assert C.dtype == dtype
    expected = np.take_along_axis(hadamard(A.astype(np.float64), signs), kept, axis=1)
    np.testing.assert_allclose(C, expected, rtol=0, atol=60 * np.finfo(dtype).eps * np.abs(A).max(initial=1))
    with pinned(2):
        np.testing.assert_array_equal(rotated_entries(LAYOUTS[layout](A), signs, kept), C)


def test_rotation_keeps_inner_products_and_undoes_itself(rng):
    A = rng.standard_normal((30, 128))
    signs = random_signs((1, 128), rng)[0]
    C = rotate(A, signs)
    np.testing.assert_allclose(C @ C.T, A @ A.T, atol=1e-10)
    np.testing.assert_allclose(rotate(C, np.ones(128)) * signs, A, atol=1e-12)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_input_may_be_read_only_and_stays_as_it_is(form, rng):
    A = form(rng.standard_normal((40, 70)))
    signs = random_signs((1, 70), rng)[0]
    P = sparse(rng, 9, 128, 0.2)
    expected = rotate(A, signs), rotated_product(A, signs, P)
    kept = A.copy()
    for matrix in (A, P, signs):
        for array in [matrix] if isinstance(matrix, np.ndarray) else [matrix.data, matrix.indices, matrix.indptr]:
            array.flags.writeable = False
    np.testing.assert_array_equal(rotate(A, signs), expected[0])
    np.testing.assert_array_equal(rotated_product(A, signs, P), expected[1])
    assert abs(A - kept).max() == 0


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_results_do_not_depend_on_the_number_of_threads(form, rng):
    A = form(rng.standard_normal((101, 70)))
    signs = random_signs((1, 70), rng)[0]
    P = sparse(rng, 9, 128, 0.2)
    first = rotate(A, signs), rotated_product(A, signs, P)
    with pinned(2):
        second = rotate(A, signs), rotated_product(A, signs, P)
    for x, y in zip(first, second, strict=True):
        np.testing.assert_array_equal(x, y)


def test_operands_that_do_not_fit_are_refused(rng):
    A = rng.standard_normal((4, 6))
    for signs in (np.ones(5), np.ones(8), np.ones((1, 6))):
        with pytest.raises(ValueError, match=r"signs have shape .* but the matrix has 6 columns"):
            rotate(A, signs)
        with pytest.raises(ValueError, match=r"signs have shape .* but the matrix has 6 columns"):
            rotated_product(A, signs, sparse(rng, 2, 8, 0.2))
    for density in (0.1, 1.0):
        with pytest.raises(ValueError, match="P has 6 columns"):
            rotated_product(A, np.ones(6), sparse(rng, 2, 6, density))
    for kept in (np.zeros((3, 2)), np.zeros(4), np.full((4, 2), 8), np.full((4, 2), -1)):
        with pytest.raises(ValueError, match="it needs 4 rows of columns from 0 to 7"):
            rotated_entries(sp.csr_array(A), np.ones(6), kept.astype(np.int32))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_errors_pass_what_is_right_and_find_what_is_wrong(dtype, form, rng):
    A = form(rng.standard_normal((50, 100)).astype(dtype))
    signs = random_signs((1, 100), rng)[0]
    right = 100 * np.finfo(dtype).eps
    C = rotate(A, signs)
    assert rotate_error(A, signs, C, rng) < right
    P = sparse(rng, 20, 128, 0.3)
    D = rotated_product(A, signs, P)
    assert rotated_product_error(A, signs, P, D, rng) < right
    probe = np.random.default_rng(0)  # a fixed probe: that one wrong entry shows does not hang on the seed
    flipped = signs.copy()
    flipped[13] *= -1
    assert rotate_error(A, flipped, C, probe) > 1e-3
    C[3, 60] += 1
    assert rotate_error(A, signs, C, probe) > 1e-4
    D[3, 7] += 1
    assert rotated_product_error(A, signs, P, D, probe) > 1e-4
