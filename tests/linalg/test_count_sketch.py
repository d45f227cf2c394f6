"""The count sketch and OSNAP against explicit matrices, the independent check against planted errors."""

import numpy as np
import pytest
import scipy.sparse as sp

from kmdr.base.threads import pinned
from kmdr.linalg.count_sketch import count_sketch
from oracles import count_sketch_error, count_sketch_reference


def csr_int64(A):
    A = sp.csr_array(A)
    A.indices, A.indptr = A.indices.astype(np.int64), A.indptr.astype(np.int64)
    return A


def every_other(A):
    return np.repeat(np.repeat(A, 2, axis=0), 2, axis=1)[::2, ::2]


LAYOUTS = [np.asarray, np.asfortranarray, every_other, sp.csr_array, csr_int64]
SHAPES = [(20, 30, 4), (3, 5, 11), (7, 1, 1), (1, 9, 1), (1, 1, 1), (6, 0, 2), (0, 5, 2), (4, 8, 8), (23, 17, 5000)]


def read_only(A):
    for part in (A.data, A.indices, A.indptr) if sp.issparse(A) else (A,):
        part.flags.writeable = False
    return A


def whole_numbers(n, d, rng, dtype=np.float64):
    """Small whole numbers, half of them and every fifth row zero: their sums are exact."""
    A = rng.integers(-9, 10, size=(n, d)) * (rng.random((n, d)) < 0.5)
    A[4::5] = 0
    return A.astype(dtype)


def osnap(d, r, s, rng):
    """The block construction: column t of the hash is in the t-th block of r/s columns."""
    bucket = rng.integers(r // s, size=(d, s)) + r // s * np.arange(s)
    return bucket, rng.choice([-1.0, 1.0], size=(d, s)) / np.sqrt(s)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "d", "r"), SHAPES)
def test_count_sketch_equals_explicit_matrices(layout, dtype, n, d, r, rng):
    dense = whole_numbers(n, d, rng, dtype)
    bucket, sign = rng.integers(r, size=d), rng.choice([-1.0, 1.0], size=d)
    Phi = np.zeros((d, r))
    Phi[np.arange(d), bucket] = 1
    A = read_only(layout(dense))
    C = count_sketch(A, read_only(bucket), read_only(sign), r)
    assert C.dtype == dtype
    assert C.flags.c_contiguous
    np.testing.assert_array_equal(C, dense @ np.diag(sign) @ Phi)
    np.testing.assert_array_equal(C, count_sketch_reference(A, bucket, sign, r))
    assert count_sketch_error(A, bucket, sign, C, rng) < 1e3 * np.finfo(dtype).eps


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("s", [1, 2, 4, 5])
def test_osnap_adds_each_feature_to_s_columns(layout, dtype, s, rng):
    n, d, r = 21, 300, 40
    dense = whole_numbers(n, d, rng, dtype)
    bucket, sign = osnap(d, r, s, rng)
    S = sp.coo_array((np.sign(sign).ravel(), (np.repeat(np.arange(d), s), bucket.ravel())), shape=(d, r))
    A = read_only(layout(dense))
    C = count_sketch(A, bucket, sign, r)
    assert C.dtype == dtype
    np.testing.assert_allclose(C, dense @ S.toarray() / np.sqrt(s), rtol=4 * np.finfo(dtype).eps)
    np.testing.assert_allclose(C, count_sketch_reference(A, bucket, sign, r), rtol=0, atol=2e3 * np.finfo(dtype).eps)
    assert count_sketch_error(A, bucket, sign, C, rng) < 1e3 * np.finfo(dtype).eps
    signs_alone = count_sketch(A, bucket, np.sign(sign).astype(np.int8), r)
    np.testing.assert_array_equal(signs_alone, dense @ S.toarray())  # whole numbers: exact


def test_a_column_named_twice_gets_the_feature_twice(rng):
    A = whole_numbers(9, 3, rng)
    bucket, sign = np.array([[0, 0], [1, 1], [1, 0]]), np.array([[1, 1], [1, -1], [-1, 1]])
    expected = np.column_stack([2 * A[:, 0] + A[:, 2], -A[:, 2]])
    for layout in LAYOUTS:
        np.testing.assert_array_equal(count_sketch(layout(A), bucket, sign, 2), expected)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("n", "r"), [(4099, 3), (4101, 16), (2 * 13 + 5, 5000), (140, 1000)])
def test_rows_beyond_one_block(layout, n, r, rng):
    A = layout(whole_numbers(n, 6, rng))
    bucket, sign = osnap(6, r, 1, rng)
    np.testing.assert_array_equal(count_sketch(A, bucket, sign, r), count_sketch_reference(A, bucket, sign, r))


def test_csr_needs_neither_order_nor_uniqueness_of_a_rows_entries(rng):
    A = sp.csr_array((np.array([3.0, 1, 2, 5]), np.array([2, 0, 2, 1]), np.array([0, 3, 3, 4])), shape=(3, 4))
    C = count_sketch(A, np.array([0, 1, 2, 0]), np.array([1.0, 1, -1, -1]), 3)
    np.testing.assert_array_equal(C, [[1, 0, -5], [0, 0, 0], [0, 5, 0]])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("s", [1, 3])
def test_bits_do_not_depend_on_layout_or_threads(layout, dtype, s, rng):
    dense = rng.standard_normal((1031, 300)).astype(dtype) * (rng.random((1031, 300)) < 0.7)
    bucket, sign = osnap(300, 9, s, rng)
    A = layout(dense)
    sketch = count_sketch(A, bucket, sign, 9)
    with pinned(2):
        np.testing.assert_array_equal(count_sketch(A, bucket, sign, 9), sketch)
    if s == 1:  # else columns add the terms of a row of A in another order than rows do
        np.testing.assert_array_equal(sketch, count_sketch(dense, bucket, sign, 9))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("s", [1, 2])
def test_norms_are_kept_in_the_mean(layout, s, rng, bernstein):
    """E‖xS‖² = ‖x‖²; ‖xS‖² ≤ ‖x‖₁² bounds each draw."""
    d, r, draws = 12, 4, 2000
    x = np.arange(1.0, d + 1)
    A = layout(np.vstack([x, np.zeros(d)]))
    squares = np.array([(count_sketch(A, *osnap(d, r, s, rng), r)[0] ** 2).sum() for _ in range(draws)])
    expected, bound = (x**2).sum(), x.sum() ** 2
    variance = 2 * expected**2 / r  # Var ‖xS‖² = (2/r) Σ_{i≠j} xᵢ²xⱼ² for any s
    assert abs(squares.mean() - expected) < bernstein(draws, variance, bound, 1e-8)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("s", [1, 4])
def test_the_error_check_finds_a_wrong_result(layout, s, rng):
    """An entry wrong by 1e-6 of its row's norm: missed at 1e-6·h with probability < 0.52h³, h = 1e-3."""
    A = layout(rng.standard_normal((30, 25)))
    bucket, sign = osnap(25, 8, s, rng)
    C = count_sketch(A, bucket, sign, 8)
    assert count_sketch_error(A, bucket, sign, C, rng) < 1e-12
    scale = np.linalg.norm(np.asarray(A[[17]].toarray() if sp.issparse(A) else A[17]))
    C[17, 3] += 1e-6 * scale
    assert count_sketch_error(A, bucket, sign, C, rng) > 1e-9
    C[17, 3] = np.nan
    assert not count_sketch_error(A, bucket, sign, C, rng) < 1


def test_the_error_check_is_infinite_where_a_zero_row_has_a_sketch(rng):
    A, bucket, sign = np.zeros((3, 4)), np.zeros(4, dtype=int), np.ones(4)
    C = count_sketch(A, bucket, sign, 1)
    assert count_sketch_error(A, bucket, sign, C, rng) == 0
    C[1] = 1e-300
    assert count_sketch_error(A, bucket, sign, C, rng) == np.inf


@pytest.mark.parametrize(
    ("bucket", "sign"),
    [
        ([0, 1, 3], [1, 1, 1]),
        ([0, -1, 2], [1, 1, 1]),
        ([0, 1, 2], [1, 2, 1]),
        ([0, 1, 2], [1, np.nan, 1]),
        ([0.0, 1.0, 2.0], [1, 1, 1]),
        ([0, 1], [1, 1]),
        ([0, 1, 2], [1, 1]),
        ([[0, 1, 2]], [[1, 1, 1]]),
        ([[[0]], [[1]], [[2]]], [[[1]], [[1]], [[1]]]),
    ],
)
def test_what_would_write_out_of_bounds_is_refused(bucket, sign):
    with pytest.raises(ValueError, match="buckets"):
        count_sketch(np.ones((2, 3)), np.array(bucket), np.array(sign), 3)
