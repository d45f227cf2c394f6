"""The count sketch against explicit matrices."""

import numpy as np
import pytest
import scipy.sparse as sp

from kmdr.linalg import count_sketch

LAYOUTS = [np.asarray, np.asfortranarray, sp.csr_array]


def read_only(A):
    for part in (A.data, A.indices, A.indptr) if sp.issparse(A) else (A,):
        part.flags.writeable = False
    return A


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "d", "r"), [(20, 30, 4), (3, 5, 11), (7, 1, 1), (1, 9, 1)])
def test_count_sketch_equals_explicit_matrices(layout, dtype, n, d, r, rng):
    dense = (rng.integers(-9, 10, size=(n, d)) * (rng.random((n, d)) < 0.5)).astype(dtype)
    bucket, sign = rng.integers(r, size=d), rng.choice([-1.0, 1.0], size=d)
    Phi = np.zeros((d, r))
    Phi[np.arange(d), bucket] = 1
    C = count_sketch(read_only(layout(dense)), bucket, sign, r)
    assert C.dtype == dtype
    np.testing.assert_array_equal(C, dense @ np.diag(sign) @ Phi)  # small whole numbers: exact
