"""Locally linear embedding against scikit-learn's and against its definition."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_swiss_roll
from sklearn.manifold import LocallyLinearEmbedding

from kmdr import reducers
from kmdr.base.errors import UserError
from kmdr.linalg import nearest_neighbours
from kmdr.reducers import lle
from kmdr.reducers.lle import bottom_eigenvectors, cost_matrix, reconstruction_weights


def roll(rng, n=400):
    return make_swiss_roll(n, noise=0.3, random_state=int(rng.integers(2**31)))[0]


def projector(C):
    Q, _ = np.linalg.qr(C)
    return Q @ Q.T


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("m", [3, 12])
def test_weights_solve_the_least_squares_problem_with_its_ridge(layout, m, rng):
    A = rng.standard_normal((40, 6)) * (rng.random((40, 6)) < 0.7)
    neighbours = np.array([rng.choice(np.delete(np.arange(40), i), m, replace=False) for i in range(40)])
    weights = reconstruction_weights(layout(A), layout(A), neighbours)
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    for i in range(40):
        # Lagrange: (G + εI)w is the same number everywhere.
        G = (A[neighbours[i]] - A[i]) @ (A[neighbours[i]] - A[i]).T
        gradient = G @ weights[i] + 1e-3 * np.trace(G) * weights[i]
        np.testing.assert_allclose(gradient, gradient.mean(), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("dense", [False, True])
def test_the_embedding_is_scikit_learns(dense, monkeypatch, rng):
    monkeypatch.setattr(lle, "_DENSE_POINTS", 10_000 if dense else 0)
    A = roll(rng)
    for r in (1, 2, 3):
        reducer = reducers.make("lle")
        C = reducer.reduce(A, r, rng, reducer.prepare(A, 2, rng))
        other = LocallyLinearEmbedding(n_neighbors=12, n_components=r, eigen_solver="dense").fit(A)
        np.testing.assert_allclose(projector(C), projector(other.embedding_), atol=1e-5)
        np.testing.assert_allclose(C.T @ C, 400 * np.eye(r), atol=1e-6)
        np.testing.assert_allclose(C.sum(axis=0), 0, atol=1e-6)
        M = cost_matrix(A, 12)
        assert np.trace(C.T @ (M @ C)) / 400 == pytest.approx(other.reconstruction_error_, rel=1e-4, abs=1e-12)


@pytest.mark.parametrize("symmetric_beyond", [0, 10_000])
def test_all_ways_of_decomposing_give_the_same(symmetric_beyond, monkeypatch, rng):
    M = cost_matrix(roll(rng, 300), 8)
    dense = bottom_eigenvectors(M, 6)
    monkeypatch.setattr(lle, "_DENSE_POINTS", 0)
    monkeypatch.setattr(lle, "_SYMMETRIC_POINTS", symmetric_beyond)
    np.testing.assert_allclose(bottom_eigenvectors(M, 6), dense, atol=1e-5)


def test_several_components_and_coinciding_points(rng):
    # Three groups far apart: indicators of groups cost nothing, so two coordinates beyond the constant tell them apart.
    centres = 100 * np.eye(3)[np.arange(90) % 3]
    A = np.hstack([centres, np.zeros((90, 2))]) + rng.standard_normal((90, 5))
    A[:30:3] = A[0]
    reducer = reducers.make("lle", {"n_neighbors": 12})
    C = reducer.reduce(A, 2, rng, reducer.prepare(A, 3, rng))
    for group in range(3):
        np.testing.assert_allclose(C[group::3], np.tile(C[group], (30, 1)), atol=1e-4)
    assert np.linalg.norm(C[0] - C[1]) > 1
    assert np.linalg.norm(C[1] - C[2]) > 1


def test_points_of_the_fit_are_mapped_to_their_place_and_new_ones_between_neighbours(rng):
    A = roll(rng)
    model = reducers.LLE(2).fit(A)
    np.testing.assert_allclose(model.transform(A), model.map_.C)
    between = model.transform(A + 1e-6 * rng.standard_normal(A.shape))
    assert np.median(np.abs(between - model.map_.C)) < 0.1


def test_a_dense_decomposition_that_does_not_fit_is_refused(monkeypatch, rng):

    monkeypatch.setattr("os.sysconf", lambda name: {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 10}[name])
    A = roll(rng)
    reducer = reducers.make("lle")
    with pytest.raises(reducers.base.UserError, match=r"lle needs .* GiB for a dense decomposition of 400 points"):
        reducer.reduce(A, 100, rng, reducer.prepare(A, 2, rng))


def test_without_a_ridge_the_weights_are_those_of_exact_least_squares(rng):
    """Against the constrained least squares of each point, through its Lagrange system."""
    A = rng.standard_normal((30, 12))
    neighbours, _ = nearest_neighbours(A, 5)
    for i, weights in enumerate(reconstruction_weights(A, A, neighbours, 0.0)):
        Z = A[neighbours[i]] - A[i]
        system = np.block([[2 * Z @ Z.T, np.ones((5, 1))], [np.ones((1, 5)), np.zeros((1, 1))]])
        np.testing.assert_allclose(weights, np.linalg.solve(system, np.r_[np.zeros(5), 1])[:5], rtol=1e-8)
    line = np.arange(20.0)[:, None] @ np.ones((1, 8))
    neighbours, _ = nearest_neighbours(line, 5)
    with pytest.raises(UserError, match=r"the 5 neighbours of a point are linearly dependent.*use ridge = 0\.001"):
        reconstruction_weights(line, line, neighbours, 0.0)
    with pytest.raises(UserError, match=r"n_neighbors = 5 is more than the 4 features.*use ridge = 0\.001"):
        reducers.make("lle", {"n_neighbors": 5, "ridge": 0}).check(30, 4, 2, 3)


def test_the_constant_vector_takes_the_place_of_the_last(rng):
    A = roll(rng, 120)
    plain, constant = (
        reducers.make("lle", {"n_neighbors": 8, "constant": constant}).set_params(n_components=r).fit_transform(A)
        for constant, r in ((False, 4), (True, 5))
    )
    np.testing.assert_array_equal(constant[:, 0], 1)
    np.testing.assert_allclose(constant[:, 1:], plain, atol=1e-6)
    alone = reducers.make("lle", {"constant": True}).set_params(n_components=1).fit_transform(A)
    np.testing.assert_array_equal(alone, np.ones((120, 1)))
