"""No number depends on the unit of measurement: A times 2^k gives the same rows, up to the ends of its type."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from kmdr import reducers
from kmdr.base.errors import ArgumentError
from kmdr.clustering.engines import sklearn_kmeans
from kmdr.clustering.kmeans import Protocol, lloyd, plus_rows
from kmdr.clustering.masked_kmeans import masked_lloyd
from kmdr.config.task import Task
from kmdr.datasets import Dataset
from kmdr.harness.task import Provenance, run
from kmdr.linalg import mean_distance, nearest_neighbours, top_right_singular_vectors
from kmdr.linalg.matrix import check_structure, normalised, squared_frobenius
from kmdr.metrics import objective, residual
from kmdr.reducers import LaplacianScore

LAYOUTS = [np.asarray, sp.csr_array]
# Whole numbers below 2⁷ times these are exact, the smallest denormal and the largest near the end of the type.
EXPONENTS = {np.float64: [-1074, -540, -60, 50, 505, 1016], np.float32: [-149, -80, -60, 50, 110, 120]}


def whole_numbers(dtype, n=40, d=24, k=3):
    rng = np.random.default_rng(1)
    centres = rng.integers(-60, 60, (k, d))
    A = centres[np.arange(n) % k] + rng.integers(-60, 60, (n, d))
    return (A * (rng.random((n, d)) < 0.7)).astype(dtype)


def row(A, reducer, r=6, k=3):
    task = Task("s", "toy", "hash", "", reducer, "{}", k, (r,), 0, 0, Protocol(2, 30), False)
    labels = np.arange(A.shape[0]) % k
    return run(task, Dataset("toy", A, labels, k, "hash", "", ""), Provenance(1, 1, "v", "e"))[0]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", EXPONENTS)
@pytest.mark.parametrize("reducer", reducers.names())
def test_f_and_p_do_not_depend_on_the_unit(reducer, dtype, layout):
    A = whole_numbers(dtype)
    expected = row(layout(A), reducer)
    assert expected["status"] == "ok", expected["error"]
    for exponent in EXPONENTS[dtype]:
        scaled = np.ldexp(A, exponent)
        np.testing.assert_array_equal(np.ldexp(scaled, -exponent), A)
        trial = row(layout(scaled), reducer)
        assert trial["status"] == "ok", trial.get("error")
        assert trial["objective"] == pytest.approx(expected["objective"], rel=1e-12)
        assert trial["accuracy"] == expected["accuracy"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_fails_with_a_sentence(layout, value):
    A = whole_numbers(np.float64)
    A[3, 4] = value
    trial = row(layout(A), "none")
    assert trial["status"] == "failed"
    assert "; replace or remove entries that are not finite" in trial["error"]
    assert "objective" not in trial


def test_a_reducer_that_returns_what_is_not_finite_fails(monkeypatch):
    from kmdr.reducers.random_projection import Gaussian

    monkeypatch.setattr(Gaussian, "apply", lambda self, A, drawn: np.full((A.shape[0], 6), np.inf))
    trial = row(whole_numbers(np.float64), "gaussian")
    assert (trial["status"], trial["error"]) == (
        "failed",
        "ArithmeticError: reducer gaussian returned what is not finite",
    )


def test_measures_out_of_range_fail(monkeypatch):

    monkeypatch.setattr("kmdr.metrics.registry.agreement", lambda *_: {"accuracy": 1.5, "nmi": 0.5, "ari": 0.5})
    trial = row(whole_numbers(np.float64), "none")
    assert trial["status"] == "failed"
    assert "accuracy = 1.5 is outside its range, 0 to 1" in trial["error"]
    assert "objective" not in trial


def exact_objective(A, labels):
    """F in rational arithmetic."""
    rows = [[Fraction(float(value)) for value in row] for row in A.tolist()]
    total = sum(value * value for row in rows for value in row)
    left = total
    for cluster in set(labels.tolist()):
        members = [row for row, label in zip(rows, labels, strict=True) if label == cluster]
        left -= sum(sum(column) ** 2 for column in zip(*members, strict=True)) / len(members)
    return left / total if total else Fraction(0)


def hard_cases(dtype):
    """Matrices on which a plain float64 formula fails, by name."""
    rng = np.random.default_rng(2)
    plain = rng.standard_normal((30, 5))
    top = np.finfo(dtype).max
    return {
        "plain": plain,
        "offset 1e3": plain + 1e3,
        "offset 1e6": plain + 1e6,
        "offset 1e8": plain + 1e8,
        "offset 1e15": np.round(plain * 4) + 1e15,
        "huge": plain / 4 * top,
        "1e152": plain * min(1e152, top / 8),
        "1e-162": plain * max(1e-162, float(np.finfo(dtype).smallest_subnormal)) * 8,
        "denormal": np.round(plain * 50) * float(np.finfo(dtype).smallest_subnormal),
        "huge and tiny": plain * np.array([top / 8, 1, np.finfo(dtype).tiny, 1e-20, 0]),
        "constant but for one": np.where(np.arange(30)[:, None] == 7, 0.1 * (1 + np.finfo(dtype).eps), 0.1) + 0 * plain,
    }


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("case", hard_cases(np.float64))
def test_f_is_that_of_rational_arithmetic(case, dtype, layout, rng):
    with np.errstate(all="ignore"):
        A = hard_cases(dtype)[case].astype(dtype)
    for k in (1, 4, 30):
        labels = rng.permutation(np.arange(30) % k)
        expected = exact_objective(A, labels)
        F = objective(layout(A), labels)
        assert abs(Fraction(F) - expected) <= Fraction(1e-9) * expected + Fraction(1e-40)
        assert 0 <= F <= 1 + 1e-14


def test_f_whose_rounding_cannot_be_bounded_is_refused(monkeypatch, rng):
    A, labels = rng.standard_normal((20, 3)), np.arange(20) % 2
    assert 0 < objective(A, labels) <= 1
    monkeypatch.setattr("kmdr.metrics.scores._TOLERANCE", 1e-18)
    for layout in LAYOUTS:
        with pytest.raises(ArithmeticError, match=r"F = 0\.\d+ may be wrong by \S+ by rounding"):
            objective(layout(A), labels)


def test_normalisation_leaves_normal_data_alone_and_is_exact():
    A = whole_numbers(np.float64)
    for layout in LAYOUTS:
        same, e, total = normalised(B := layout(A))
        assert same is B
        assert (e, total) == (0, float((A * A).sum()))
        for exponent in (-1074, -200, 200, 1016):
            scaled, e, total = normalised(layout(np.ldexp(A, exponent)))
            largest = np.abs(A).max()
            assert e == exponent + int(np.frexp(largest)[1])
            assert total == squared_frobenius(scaled)
            dense = scaled if isinstance(scaled, np.ndarray) else scaled.toarray()
            np.testing.assert_array_equal(np.ldexp(dense, int(np.frexp(largest)[1])), A)
    assert normalised(np.zeros((2, 3)))[1:] == (0, 0.0)
    for shape in ((0, 3), (3, 0)):
        with pytest.raises(ArgumentError, match="has no entries"):
            normalised(np.zeros(shape))


def test_squares_of_large_matrices_are_added_in_blocks(monkeypatch, rng):
    from kmdr.linalg import matrix

    A = rng.standard_normal((50, 9)).astype(np.float32)
    expected = squared_frobenius(A)
    for name, size in (("WHOLE", 64), ("BLOCK", 32), ("CACHED", 16)):
        monkeypatch.setattr(matrix, name, size)
    assert squared_frobenius(A) == pytest.approx(expected, rel=1e-14)
    assert matrix.is_finite(A)
    A[-1, -1] = np.nan
    assert not matrix.is_finite(A)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("exponent", [-1074, -500, 500, 1010])
def test_kernels_scale_with_their_data(layout, exponent):
    A = whole_numbers(np.float64)
    plain, scaled = layout(A), layout(np.ldexp(A, exponent))
    for a, b in zip(nearest_neighbours(plain, 4), nearest_neighbours(scaled, 4), strict=True):
        np.testing.assert_allclose(b, np.ldexp(a, exponent) if a.dtype == np.float64 else a, rtol=1e-12)
    assert mean_distance(scaled) == pytest.approx(np.ldexp(mean_distance(plain), exponent), rel=1e-12)
    V, W = (top_right_singular_vectors(B, 3) for B in (plain, scaled))
    np.testing.assert_allclose(V, W, atol=1e-12)
    np.testing.assert_array_equal(plus_rows(plain, 3, np.array([1, 2])), plus_rows(scaled, 3, np.array([1, 2])))
    starts = np.array([[0, 1, 2], [5, 6, 10]])
    for engine in (lloyd, sklearn_kmeans):
        a, b = engine(plain, starts, 50), engine(scaled, starts, 50)
        np.testing.assert_array_equal(a.labels, b.labels)
        with np.errstate(over="ignore", under="ignore"):
            assert b.inertia == pytest.approx(np.ldexp(a.inertia, 2 * exponent), rel=1e-12)
    labels = np.arange(len(A)) % 3
    with np.errstate(over="ignore", under="ignore"):
        assert residual(scaled, labels) == pytest.approx(np.ldexp(residual(plain, labels), 2 * exponent), rel=1e-12)


@pytest.mark.parametrize("exponent", [-1070, -300, 300, 1010])
def test_masked_k_means_scales_with_its_data(exponent):
    values = np.random.default_rng(3).integers(-9, 9, 40).astype(float)
    indices, indptr = np.tile([0, 2], 20), np.arange(0, 41, 2)
    a, b = (
        masked_lloyd(sp.csr_array((x, indices, indptr), shape=(20, 3)), [[0, 1]], 20)
        for x in (values, np.ldexp(values, exponent))
    )
    np.testing.assert_array_equal(a.labels, b.labels)


def test_laplacian_scores_of_denormal_data_do_not_leave_the_heap():
    A = np.abs(np.random.default_rng(0).standard_normal((120, 12)))
    small = A * 2.0**-1070
    indices, distances = nearest_neighbours(small, 5)
    assert indices.max() < 120
    assert np.isfinite(distances).all()
    assert LaplacianScore(2).fit_transform(small).shape == (120, 2)
    same = np.ldexp(np.round(A * 2**20), -1070)
    np.testing.assert_array_equal(
        np.ldexp(LaplacianScore(2).fit_transform(same), 1070), LaplacianScore(2).fit_transform(np.round(A * 2**20))
    )


def test_transformers_take_huge_and_tiny_data_or_refuse_them():
    A = whole_numbers(np.float64)
    for name in set(reducers.names()) - {"none"}:
        for exponent in (-1074, 1016):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = reducers.make(name).set_params(n_components=3, n_clusters=3, random_state=0)
                try:
                    C = model.fit_transform(np.ldexp(A, exponent))
                except ArgumentError as error:
                    assert "is beyond float64; scale X down" in str(error)  # noqa: PT017
                    continue
            assert np.isfinite(C.data if sp.issparse(C) else C).all()


def test_csr_arrays_that_do_not_fit_together_are_refused():
    A = sp.csr_array(whole_numbers(np.float64))
    for broken in (np.full_like(A.indices, 10**6), np.full_like(A.indices, -1)):
        B = sp.csr_array((A.data, A.indices, A.indptr), shape=A.shape)
        B.indices = broken
        with pytest.raises(ArgumentError, match="CSR arrays of this matrix do not fit together"):
            check_structure(B)
        trial = row(B, "none")
        assert trial["status"] == "failed"
        assert "do not fit together" in trial["error"]
