"""Products, norms and columns against numpy."""

import numpy as np
import pytest
import scipy.sparse as sp

from kmdr.base.threads import pinned
from kmdr.linalg import matmul, squared_frobenius, take_columns
from kmdr.linalg.matrix import treat_as_out_of_core

LAYOUTS = [np.asarray, np.asfortranarray, sp.csr_array]


def read_only(A):
    for part in (A.data, A.indices, A.indptr) if sp.issparse(A) else (A,):
        part.flags.writeable = False
    return A


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products_norms_and_columns_equal_numpy(layout, dtype, rng):
    dense = (rng.standard_normal((30, 12)) * (rng.random((30, 12)) < 0.4)).astype(dtype)
    A, B = read_only(layout(dense)), rng.standard_normal((12, 5)).astype(dtype)
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    product = matmul(A, B)
    assert product.dtype == dtype
    assert product.flags.c_contiguous
    np.testing.assert_allclose(product, dense @ B, atol=tolerance)
    assert squared_frobenius(A) == pytest.approx(np.sum(dense.astype(np.float64) ** 2), rel=1e-12)
    columns, scale = np.array([3, 0, 3, 11, 7]), rng.random(5)
    for taken, expected in [
        (take_columns(A, columns), dense[:, columns]),
        (take_columns(A, columns, scale), dense[:, columns] * scale.astype(dtype)),
    ]:
        assert isinstance(taken, np.ndarray)
        assert taken.dtype == dtype
        np.testing.assert_array_equal(taken, expected)


@pytest.mark.parametrize(("n", "d", "r"), [(1, 1, 1), (16, 128, 6), (17, 129, 7), (300, 1000, 40), (129, 5, 5)])
def test_products_of_large_float32_are_within_their_bound(n, d, r, rng):
    A, B = rng.standard_normal((n, d)).astype(np.float32), rng.standard_normal((d, r)).astype(np.float32)
    exact, terms = A.astype(np.float64) @ B, np.abs(A) @ np.abs(B)
    with treat_as_out_of_core(0):
        C = matmul(read_only(A), B)
        whole = matmul(np.rint(A), np.rint(B))
        with pinned(2):
            threaded = matmul(A, B)
    assert C.dtype == np.float32
    assert C.flags.c_contiguous
    for product in (C, threaded):
        assert (np.abs(product - exact) <= (d + 1) * 2.0**-24 * terms).all()
    np.testing.assert_array_equal(whole, np.rint(A).astype(np.float64) @ np.rint(B))  # sums are exact


def test_squared_frobenius_of_float32_is_summed_in_float64():
    # Each of 10^6 squares is 1; a float32 accumulator of larger terms would round: 4097² = 2^24 + 8193 has 25 bits.
    A = np.full((1000, 1000), 4097, dtype=np.float32)
    assert squared_frobenius(A) == 4097.0**2 * 10**6


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_a_column_that_is_not_there_is_refused(layout):
    for columns in ([0, 3], [-4, 0]):
        with pytest.raises((IndexError, ValueError)):
            take_columns(layout(np.eye(3)), np.array(columns))
