"""Selection of the r features that a score puts first, and the plainest such score."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import OneToOneFeatureMixin

from kmdr.linalg import Dense, Matrix, take_columns
from kmdr.linalg.matrix import normalised
from kmdr.reducers.base import Reducer, at_most, register


class BestFeatures(Reducer):
    """C = the first r features of an order that ``prepare`` returns, as they are: neither repeated nor rescaled."""

    def check(self, n: int, d: int, k: int, r: int) -> None:  # noqa: D102
        del n, k
        at_most(r, d, self.name, "features of this matrix")

    def draw(self, A: Matrix, r: int, rng: np.random.Generator, state: Dense) -> Dense:  # noqa: D102
        del A, rng
        return state[:r]

    def apply(self, A: Matrix, drawn: Dense) -> Dense:  # noqa: D102
        return take_columns(A, drawn)

    def get_feature_names_out(self, input_features: Any = None) -> Dense:
        """Return the names of the features that were kept."""
        return np.asarray(OneToOneFeatureMixin.get_feature_names_out(self, input_features)[self.map_])


def largest_first(scores: Dense) -> Dense:
    """Return the indices of the scores in decreasing order, ties by index."""
    return np.argsort(-scores, kind="stable")


def variances(A: Matrix) -> Dense:
    """Return the variance of each feature over the points, in float64.

    Parameters
    ----------
    A : (n, d) array or CSR

    Returns
    -------
    (d,) ndarray of float64
        Of A as `normalised` returns it, so that none over- or underflows.
    """
    A = normalised(A)[0]
    if isinstance(A, np.ndarray):
        return np.asarray(np.var(A, axis=0, dtype=np.float64))
    A = sp.csc_array(A.astype(np.float64, copy=False))
    n = A.shape[0]
    mean = np.asarray(A.sum(axis=0)).ravel() / n
    stored = np.diff(A.indptr)
    deviations = A.data - np.repeat(mean, stored)
    feature = np.repeat(np.arange(A.shape[1]), stored)
    return np.asarray((np.bincount(feature, deviations**2, A.shape[1]) + (n - stored) * mean**2) / n)


@register("variance")
class Variance(BestFeatures):
    """C = the r features of largest variance: the naive baseline, in none of the papers (extra)."""

    deterministic = True

    def prepare(self, A: Matrix, k: int, rng: np.random.Generator) -> Dense:  # noqa: D102
        del k, rng
        return largest_first(variances(A))
