"""The generated dataset of bzmd15."""

import math

import numpy as np
from numpy.typing import NDArray

from kmdr.base.errors import UserError, check_memory
from kmdr.base.seeding import generator


def synth(
    n: int = 1000, d: int = 2000, k: int = 5, side: float = 2000.0, sigma: float = 1.0, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return Gaussian clusters, one after the other, around centres that are uniform in a cube, and their numbers.

    Parameters
    ----------
    n : int
        Number of points. If k does not divide it, cluster sizes differ by one.
    d : int
        Number of features.
    k : int
        Number of centres.
    side : float
        The centres are uniform in [0, side]^d.
    sigma : float
        Standard deviation of every feature within a cluster.
    seed : int
        Seed of the data. Centres and noise have separate generators, so that n and sigma do not change the centres.

    References
    ----------
    Boutsidis, Zouzias, Mahoney, Drineas, IEEE Trans. Inf. Theory 61(2), 2015, section VII: n = 1000, d = 2000,
    k = 5, side = 2000, sigma = 1.
    """
    for name, value, least in (("n", n, 1), ("d", d, 1), ("k", k, 1), ("seed", seed, 0)):
        if value < least:
            raise UserError(f"option {name} of dataset 'synth' is {value}; it must be at least {least}")
    if k > n:
        raise UserError(f"option k of dataset 'synth' is {k}; it must be at most n, which is {n}")
    for name, real in (("side", side), ("sigma", sigma)):
        if not (math.isfinite(real) and real >= 0):
            raise UserError(f"option {name} of dataset 'synth' is {real}; it must be finite and at least 0")
    check_memory(f"{n} points in {d} dimensions with {k} centres", (n + k) * d + 2 * n)
    centres = side * generator(seed, "synth", "centres").random((k, d))
    labels = np.arange(n, dtype=np.int64) * k // n
    A = generator(seed, "synth", "noise").standard_normal((n, d))
    A *= sigma
    bounds = np.searchsorted(labels, np.arange(k + 1))
    for centre, start, stop in zip(centres, bounds[:-1], bounds[1:], strict=True):
        A[start:stop] += centre
    return A, labels
