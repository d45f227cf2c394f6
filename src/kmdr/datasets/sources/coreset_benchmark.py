"""The Benchmark instances of ess22: hard for coresets, and without randomness."""

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from kmdr.base.errors import UserError, check_memory


def coreset_benchmark(k: int, alpha: int) -> tuple[scipy.sparse.csr_array, NDArray[np.int64]]:
    """Return k^α points of αk features, as CSR, and the partition by the first block of features.

    Block a of point i is the unit vector of digit a of i in base k. So each of the α blocks splits the points into k
    clusters of k^(α − 1), any two of these partitions are as different as possible, and each has the sum of squares
    k^α (α − 1)(k − 1)/k, the least possible one. The paper subtracts 1/k from every entry. No distance depends on that,
    and without it only α entries of a point are not 0.

    Parameters
    ----------
    k : int
        Number of clusters.
    alpha : int
        Number of blocks of k features; there are k^alpha points. The paper has 6 blocks for k = 10, 5 for k = 20, and 4
        for k = 30 and 40.

    References
    ----------
    Schwiegelshohn, Sheikh-Omar, An Empirical Evaluation of k-Means Coresets, ESA 2022.
    """
    if k < 2 or alpha < 1 or k**alpha * alpha >= 2**31:
        raise UserError(
            f"k = {k} and alpha = {alpha} are not k ≥ 2, alpha ≥ 1 and alpha·k^alpha < 2³¹; choose such numbers"
        )
    n = k**alpha
    check_memory(f"{n} points of {alpha} entries", 4 * n * alpha)
    digits = benchmark_digits(k, alpha)
    columns = (digits + k * np.arange(alpha, dtype=np.int32)).ravel()
    indptr = np.arange(0, n * alpha + 1, alpha, dtype=np.int32)
    A = scipy.sparse.csr_array((np.ones(n * alpha), columns, indptr), shape=(n, alpha * k))
    return A, digits[:, 0].astype(np.int64)


def benchmark_digits(k: int, alpha: int) -> NDArray[np.int32]:
    """Return the α digits of 0, …, k^α − 1 in base k, the least significant one first, of shape (k^α, α)."""
    points, powers = np.arange(k**alpha, dtype=np.int32), k ** np.arange(alpha, dtype=np.int32)
    digits: NDArray[np.int32] = points[:, None] // powers % k
    return digits
