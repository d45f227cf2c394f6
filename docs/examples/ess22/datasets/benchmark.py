"""The Benchmark instance of Schwiegelshohn and Sheikh-Omar (ESA 2022): hard for coresets, and without randomness.

Its α blocks of k columns describe α partitions of the same k^α points. Each splits the points into k equal
clusters, any two of these partitions are as different as possible, and each has the same sum of squares.
"""

import numpy as np
from numpy.typing import NDArray

from kmdr.base.errors import UserError
from kmdr.datasets.sources.loaders import loader
from kmdr.datasets.streamed import Streamed


@loader
def ess22_benchmark(k: int, alpha: int) -> tuple[Streamed, NDArray[np.int64]]:
    """Return k^α points of αk features, and the partition by the first block.

    Block j of point i is the unit vector of digit j of i in base k, minus the mean 1/k of all unit vectors. The
    partition by any block has the sum of squares k^α (α − 1)(k − 1)/k.
    """
    if k < 2 or alpha < 1 or k**alpha > 2**31:
        raise UserError(f"k = {k} and alpha = {alpha} are not k ≥ 2, alpha ≥ 1 and k^alpha ≤ 2³¹; choose such numbers")

    def read(start: int, stop: int) -> NDArray[np.float64]:
        digits = np.arange(start, stop)[:, None] // k ** np.arange(alpha) % k
        return ((digits[:, :, None] == np.arange(k)) - 1 / k).reshape(stop - start, alpha * k)

    return Streamed((k**alpha, alpha * k), np.dtype(np.float64), read), np.arange(k**alpha) % k
