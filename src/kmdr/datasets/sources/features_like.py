"""Generated features with the shape and classes of those that a network makes of the images of ILSVRC2012."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kmdr.base.errors import UserError
from kmdr.base.seeding import generator
from kmdr.datasets.streamed import Streamed

# What is taken off before the cut, so that 67 % of the entries are 0.
_BELOW = np.float32(0.5)


def features_like(n: int, seed: int = 0, *, d: int, k: int) -> tuple[Streamed, NDArray[np.int64]]:
    """Clusters that are cut off at 0, as the activations of a rectified layer are: max(0, u_c z_c + z − ½).

    z_c is one normal vector a class and z one a point; u_c, uniform from 0 to 1, says how far a class lies from the
    others. So some are found from few dimensions, some from many, and some hardly at all: k-means of 60,000 points has
    P of 4 % from 10 dimensions, 20 % from 50 and 40 % from 200 and from 1000, about where lst17's Figure 1 ends for
    ILSVRC2012. k points that follow each other are one of each class, in a drawn order, and come from a generator of
    their own: so a block of rows is the same whichever are asked for with it, and the first points of more are those of
    fewer.

    Parameters
    ----------
    n : int
        Points.
    seed : int
    d, k : int
        Features, classes.

    Returns
    -------
    A : Streamed of shape (n, d), float32
        Made when it is read.
    labels : ndarray of shape (n,)

    Raises
    ------
    UserError
        An option is out of range.
    """
    if seed < 0:
        raise UserError(f"option seed of generated features is {seed}; it must be at least 0")
    if n < k:
        raise UserError(f"option n of generated features is {n}; it must be at least k, which is {k}")
    name = f"features_like {d} {k}"
    rng = generator(seed, name, "centres")
    centres = rng.standard_normal((k, d), np.float32)
    centres *= rng.random((k, 1), np.float32)
    centres -= _BELOW

    @lru_cache(maxsize=2)  # a reader's rows end in the middle of a block, and the next begin there
    def block(number: int) -> NDArray[np.float32]:
        points = generator(seed, name, "points", number).standard_normal((k, d), np.float32)
        points += centres[_order(seed, name, k, number)]
        return np.maximum(points, 0, out=points)

    def read(start: int, stop: int) -> NDArray[np.float32]:
        rows = np.empty((stop - start, d), np.float32)
        for number in range(start // k, -(-stop // k)):
            first = number * k
            low, high = max(start, first), min(stop, first + k)
            rows[low - start : high - start] = block(number)[low - first : high - first]
        return rows

    labels = np.concatenate([_order(seed, name, k, number) for number in range(-(-n // k))])[:n]
    return Streamed((n, d), np.dtype(np.float32), read), labels


def _order(seed: int, name: str, k: int, number: int) -> NDArray[np.int64]:
    """Classes of the points of a block."""
    return generator(seed, name, "classes", number).permutation(k)
