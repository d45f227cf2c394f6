"""Random signs and the two products with them, against the explicit matrix."""

import numpy as np
import pytest
import scipy.sparse as sp

from kmdr.base.threads import pinned
from kmdr.linalg.signs import (
    draw_signs,
    mailman_product,
    random_signs,
    sign_matrix,
    sign_product,
)
from oracles import sign_product_error, sign_product_reference

PRODUCTS = [sign_product, mailman_product]
LAYOUTS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "every second": lambda A: np.repeat(A, 2, axis=1)[:, ::2],
    "csr": sp.csr_array,
    "csr64": lambda A: wide(sp.csr_array(A)),
}
# One row, one column, r = 1, r > d, more and fewer than a block of 64 rows and a word of 64 columns, and exactly those.
SIZES = [(1, 1, 1), (3, 1, 5), (16, 64, 8), (33, 64, 1), (19, 130, 21), (50, 63, 200), (1, 300, 9)]


def wide(A):
    return sp.csr_array((A.data, A.indices.astype(np.int64), A.indptr.astype(np.int64)), shape=A.shape)


def explicit(bits, d):
    """R, an entry at a time, by Python's integers."""
    return np.array([[1.0 if int(word) >> i % 64 & 1 else -1.0 for word in bits[i // 64]] for i in range(d)])


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "d", "r"), SIZES)
def test_products_are_those_of_the_explicit_matrix(product, layout, dtype, n, d, r, rng):
    A = (rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.5)).astype(dtype)
    A[0] = 0
    bits = draw_signs(d, r, rng)
    C = product(LAYOUTS[layout](A), bits, r, 0.3)
    assert C.dtype == dtype
    assert C.shape == (n, r)
    assert C.flags.c_contiguous
    expected = 0.3 * (A.astype(np.float64) @ explicit(bits, d))
    # An entry adds up d terms in some order: its rounding is at most about d units of its largest partial sum.
    bound = 2 * (d + 4) * np.finfo(dtype).eps * 0.3 * np.abs(A).sum(axis=1, keepdims=True)
    assert (np.abs(C - expected) <= bound).all()


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_input_may_be_read_only_and_stays_as_it_is(product, form, rng):
    A = form(rng.standard_normal((40, 70)))
    bits = draw_signs(70, 9, rng)
    expected = product(A, bits, 9, 1.0)
    kept = A.copy()
    for array in (bits, *([A] if isinstance(A, np.ndarray) else [A.data, A.indices, A.indptr])):
        array.flags.writeable = False
    np.testing.assert_array_equal(product(A, bits, 9, 1.0), expected)
    assert abs(A - kept).max() == 0


@pytest.mark.parametrize(
    ("product", "form"), [(mailman_product, np.asarray), (mailman_product, sp.csr_array), (sign_product, sp.csr_array)]
)
def test_products_do_not_depend_on_the_number_of_threads(product, form, rng):
    A = form(rng.standard_normal((101, 70)))
    bits = draw_signs(70, 9, rng)
    first = product(A, bits, 9, 0.5)
    with pinned(2):
        np.testing.assert_array_equal(product(A, bits, 9, 0.5), first)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_row_has_the_same_mailman_product_alone_and_among_others(dtype, order, rng):
    A = rng.standard_normal((70, 130)).astype(dtype)
    A[3, :50] = 0.0
    bits = draw_signs(130, 19, rng)
    together = mailman_product(A, bits, 19, 0.3)
    for n in (1, 2, 11, 12, 13):
        np.testing.assert_array_equal(mailman_product(np.array(A[:n], order=order), bits, 19, 0.3), together[:n])


@pytest.mark.parametrize("product", PRODUCTS)
def test_no_row_no_entry(product, rng):
    bits = draw_signs(70, 9, rng)
    assert product(np.empty((0, 70)), bits, 9, 1.0).shape == (0, 9)
    np.testing.assert_array_equal(product(sp.csr_array((5, 70)), bits, 9, 1.0), np.zeros((5, 9)))


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize(("d", "r"), [(64, 9), (129, 9), (70, 8)])
def test_bits_of_another_shape_are_refused(product, d, r, rng):
    with pytest.raises(ValueError, match="bits of a 70×9 sign matrix"):
        product(np.ones((4, 70)), draw_signs(d, r, rng), 9, 1.0)


def test_references_agree_with_the_explicit_matrix(rng):
    bits = draw_signs(130, 7, rng)
    np.testing.assert_array_equal(sign_matrix(bits, 130), explicit(bits, 130))
    A = rng.standard_normal((5, 130))
    np.testing.assert_allclose(sign_product_reference(A, bits, 0.5), 0.5 * A @ explicit(bits, 130), atol=1e-12)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_error_passes_what_is_right_and_finds_one_wrong_sign(form, dtype, rng):
    n, d, r = 60, 200, 30
    A = form(rng.standard_normal((n, d)).astype(dtype))
    bits = draw_signs(d, r, rng)
    C = sign_product(A, bits, r, 0.2)
    assert sign_product_error(A, bits, 0.2, C, rng) < 100 * np.finfo(dtype).eps
    bits[1, 17] ^= np.uint64(1 << 5)
    # A fixed probe: that one wrong column shows does not hang on the seed.
    assert sign_product_error(A, bits, 0.2, C, np.random.default_rng(0)) > 1e-4


def test_error_of_a_zero_matrix_is_absolute(rng):
    bits = draw_signs(70, 3, rng)
    A = np.zeros((4, 70))
    assert sign_product_error(A, bits, 1.0, np.zeros((4, 3)), rng) == 0
    assert sign_product_error(A, bits, 1.0, np.ones((4, 3)), np.random.default_rng(0)) > 0.1


@pytest.mark.parametrize("draw", [draw_signs, lambda d, r, rng: random_signs((d, r), rng)])
def test_every_bit_of_a_word_is_fair_and_independent_of_its_neighbours(draw, rng, assert_frequencies):
    d, r = 192, 1000
    signs = draw(d, r, rng)
    bits = (signs if signs.dtype == np.float64 else sign_matrix(signs, d)) > 0
    ones = bits.reshape(3, 64, r).sum(axis=(0, 2))
    assert_frequencies(np.stack([ones, 3 * r - ones]), np.full(128, 1 / 128))
    # Patterns of four entries of a column (one look-up of the product), of neighbours in a row, and across words.
    for patterns in (
        bits.reshape(-1, 4, r).transpose(1, 0, 2).reshape(4, -1),
        np.stack([bits[:, i::4] for i in range(4)]).reshape(4, -1),
        np.stack([bits[:64, ::2], bits[64:128, ::2], bits[128:, ::2], bits[:64, 1::2]]).reshape(4, -1),
    ):
        assert_frequencies(np.bincount(2 ** np.arange(4) @ patterns, minlength=16), np.full(16, 1 / 16))


@pytest.mark.parametrize("shape", [(1, 1), (1, 200), (64, 3), (7, 11)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_random_signs_are_plus_and_minus_one_and_of_the_generator_alone(shape, dtype):
    signs = random_signs(shape, np.random.default_rng(3), dtype)
    assert signs.shape == shape
    assert signs.dtype == dtype
    assert set(np.abs(signs).ravel().tolist()) == {1.0}
    np.testing.assert_array_equal(signs, random_signs(shape, np.random.default_rng(3), dtype))


def test_draws_are_of_the_generator_alone():
    np.testing.assert_array_equal(*(draw_signs(100, 9, np.random.default_rng(3)) for _ in range(2)))
    assert draw_signs(100, 9, np.random.default_rng(3)).shape == (2, 9)
