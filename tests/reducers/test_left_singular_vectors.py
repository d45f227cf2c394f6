"""C = U_r against numpy's decomposition."""

import numpy as np
import pytest
import scipy.sparse as sp

from kmdr import reducers


def reduced(A, r, rng):
    reducer = reducers.make("left_singular_vectors")
    return reducer.reduce(A, r, rng, reducer.prepare(A, 3, rng))


@pytest.mark.parametrize("layout", [np.copy, sp.csr_array])
@pytest.mark.parametrize("shape", [(40, 15), (15, 40)])
def test_columns_are_the_left_singular_vectors(layout, shape, rng):
    A = rng.standard_normal(shape) * (rng.random(shape) < 0.5)
    U, _, _ = np.linalg.svd(A, full_matrices=False)
    C = reduced(layout(A), 6, rng)
    np.testing.assert_allclose(np.abs((U[:, :6] * C).sum(axis=0)), 1, atol=1e-9)
    np.testing.assert_allclose(C.T @ C, np.eye(6), atol=1e-9)


def test_a_direction_that_is_not_there_gives_zeros(rng):
    A = np.outer(rng.random(20), rng.random(10))
    C = reduced(A, 3, rng)
    np.testing.assert_allclose((C**2).sum(axis=0), [1, 0, 0], atol=1e-9)
