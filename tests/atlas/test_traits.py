"""The traits of a matrix against numpy's decomposition, and what does not change them."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

from kmdr.atlas.traits import TRAITS, gini, traits
from kmdr.base.errors import ArgumentError
from kmdr.linalg.matrix import read_only, treat_as_out_of_core


def clustered(rng, n=90, d=60, k=4, share=0.4):
    """Points around k centres; a share of the entries is not 0."""
    A = 3 * rng.standard_normal((k, d))[rng.integers(k, size=n)] + rng.standard_normal((n, d))
    return A * (rng.random((n, d)) < share)


def assert_same(left, right, but=(), tolerance=1e-8):
    assert list(left) == list(right)
    for name, value in left.items():
        if name not in but:
            assert value == pytest.approx(right[name], rel=tolerance, abs=tolerance), name


def by_definition(A, k):
    """The traits from numpy's full decomposition and plain formulas."""
    (n, d), total = A.shape, (A**2).sum()
    _, s, Vt = np.linalg.svd(A, full_matrices=False)
    leverage = (Vt[:k] ** 2).sum(axis=0)
    norms = np.linalg.norm(A, axis=1)
    m = min(max(2 * k, 20), n, d)
    design = np.c_[np.ones(m), np.log(np.arange(1, m + 1))]

    def differences(x):
        return np.abs(x[:, None] - x).sum() / (2 * len(x) ** 2 * x.mean())

    return {
        "n": n, "d": d, "k": k, "aspect": d / n, "density": (A != 0).mean(), "negative": float((A < 0).any()),
        "mean_share": n * (A.mean(axis=0) ** 2).sum() / total, "row_spread": norms.std() / norms.mean(),
        "column_gini": differences((A**2).sum(axis=0)), "stable_rank": total / s[0] ** 2,
        "top_share": (s[:k] ** 2).sum() / total, "decay": -np.linalg.lstsq(design, np.log(s[:m]))[0][1],
        "gap": 1 - s[k] / s[k - 1], "coherence": leverage.max() / leverage.mean(),
        "leverage_gini": differences(leverage),
    }  # fmt: skip


@pytest.mark.parametrize("form", [np.asarray, np.asfortranarray, sp.csr_array])
@pytest.mark.parametrize(("n", "d", "k"), [(90, 60, 4), (40, 150, 12), (25, 25, 1)])
def test_traits_equal_their_definitions(rng, form, n, d, k):
    A = clustered(rng, n, d, k)
    found = traits(read_only(form(A)), k)
    assert_same(found, by_definition(A, k), tolerance=1e-7)
    assert list(found) == list(TRAITS)
    assert all(type(value) is float for value in found.values())
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_dense_sparse_and_mapped_matrices_have_the_same_traits(rng, dtype, tmp_path):
    A = clustered(rng).astype(dtype)
    np.save(tmp_path / "A.npy", A)
    expected = traits(A, 4)
    S = sp.csr_array(A)
    assert_same(traits(S, 4), expected)
    assert_same(traits(np.load(tmp_path / "A.npy", mmap_mode="r"), 4), expected)
    with treat_as_out_of_core(500):
        assert_same(traits(np.load(tmp_path / "A.npy", mmap_mode="r"), 4), expected)
    assert_same(traits(A.astype(np.float64), 4), expected)


def test_a_matrix_is_not_changed(rng):
    A = clustered(rng)
    S = sp.csr_array(A)
    S.indices[:2], S.data[:2] = S.indices[1::-1].copy(), S.data[1::-1].copy()  # not sorted
    S.has_sorted_indices = False
    before = [A.copy(), *(part.copy() for part in (S.data, S.indices, S.indptr))]
    assert_same(traits(S, 4), traits(A, 4))
    for part, earlier in zip((A, S.data, S.indices, S.indptr), before, strict=True):
        np.testing.assert_array_equal(part, earlier)


def test_stored_zeros_and_duplicate_entries_do_not_count(rng):
    A = clustered(rng)
    rows, columns = np.nonzero(A)
    values = A[rows, columns]
    S = sp.csr_array(A.shape)
    order = np.argsort(np.r_[rows, rows, rows], kind="stable")
    S.data = np.r_[values / 2, values / 2, 0 * values][order]
    S.indices = np.r_[columns, columns, columns][order]
    S.indptr = np.r_[0, np.cumsum(3 * np.bincount(rows, minlength=len(A)))]
    assert_same(traits(S, 4), traits(A, 4))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_order_and_scale_do_not_matter(rng, form):
    A = clustered(rng)
    expected = traits(form(A), 4)
    assert_same(traits(form(A[rng.permutation(len(A))]), 4), expected)
    assert_same(traits(form(A[:, rng.permutation(A.shape[1])]), 4), expected)
    assert traits(form(A), 4) == expected
    for power in (-700, -3, 40, 800):  # far beyond the range in which squares are finite
        assert_same(traits(form(np.ldexp(A, power)), 4), expected, tolerance=1e-12)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_duplicates_change_only_the_shape(rng, form):
    A = clustered(rng)
    expected = traits(form(A), 4)
    assert_same(traits(form(np.vstack([A, A])), 4), expected, ("n", "aspect"))
    assert_same(traits(form(np.hstack([A, A])), 4), expected, ("d", "aspect"))


def test_a_matrix_of_low_rank_has_traits_of_its_rank(rng):
    A = rng.standard_normal((50, 2)) @ rng.standard_normal((2, 40))
    for k, gap in ((2, 1.0), (5, 0.0)):
        found = traits(A, k)
        assert found["top_share"] == pytest.approx(1)
        assert found["gap"] == gap
        assert_same(found, traits(sp.csr_array(A), k), tolerance=1e-6)
    assert traits(np.ones((3, 4)), 1)["decay"] == 0


def test_gini_is_that_of_known_distributions():
    assert gini(np.ones(7)) == 0
    assert gini(np.zeros(7)) == 0
    assert gini(np.r_[np.zeros(9), 1.0]) == pytest.approx(0.9)
    assert gini(np.arange(1, 10001.0)) == pytest.approx(1 / 3, abs=1e-4)


def test_refusals_name_the_remedy():
    with pytest.raises(ArgumentError, match=r"k = 5 is out of range for a 4×9 matrix; choose 1 ≤ k ≤ 4"):
        traits(np.ones((4, 9)), 5)
    with pytest.raises(ArgumentError, match="all entries"):
        traits(np.zeros((4, 9)), 2)
    with pytest.raises(ArgumentError, match="nan"):
        traits(np.full((4, 9), np.nan), 2)
