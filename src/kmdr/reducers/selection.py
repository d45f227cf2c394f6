"""Selection of the r features with the best score, and the simplest such score."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils.validation import check_is_fitted

from kmdr.linalg import Dense, Matrix, take_columns
from kmdr.linalg.matrix import column_deviations, column_means, is_out_of_core, normalised
from kmdr.reducers.base import Reducer, check_limit, register


class Selecting(Reducer):
    """A reducer whose C consists of columns of A, possibly rescaled."""

    @property
    def _columns(self) -> Dense:
        """Return the columns of A that C consists of, in its order."""
        return np.asarray(self.map_)

    def get_support(self, indices: bool = False) -> Dense:
        """Return the selected features.

        Parameters
        ----------
        indices : bool
            Whether to return indices in the order of the columns of C, with repetitions.

        Returns
        -------
        ndarray
            By default a mask, (d,) of bool.
        """
        check_is_fitted(self)
        if indices:
            return self._columns
        mask = np.zeros(int(self.n_features_in_), dtype=bool)
        mask[self._columns] = True
        return mask

    def get_feature_names_out(self, input_features: Any = None) -> Dense:
        """Return the names of the selected features; repetitions are numbered: ``x0``, ``x0 (2)``."""
        check_is_fitted(self)
        names = OneToOneFeatureMixin.get_feature_names_out(self, input_features)[self._columns]
        times: dict[str, int] = {}
        unique = []
        for name in names:
            times[name] = times.get(name, 0) + 1
            unique.append(f"{name} ({times[name]})" if times[name] > 1 else name)
        return np.asarray(unique, dtype=object)


class BestFeatures(Selecting):
    """C = the first r features of an order that ``prepare`` returns, neither repeated nor rescaled."""

    def check(self, n: int, d: int, k: int, r: int) -> None:
        del n, k
        check_limit(r, d, self.name, "features of this matrix")

    def draw(self, A: Matrix, r: int, rng: np.random.Generator, state: Dense) -> Dense:
        del A, rng
        return state[:r]

    def apply(self, A: Matrix, drawn: Dense) -> Dense:
        return take_columns(A, drawn)


def largest_first(scores: Dense) -> Dense:
    """Return the indices of the scores in decreasing order, ties by index."""
    return np.argsort(-scores, kind="stable")


def variances(A: Matrix) -> Dense:
    """Return the variance of each feature over the points, in float64.

    Returns
    -------
    (d,) ndarray of float64
        Of A as `normalised` returns it, so that none over- or underflows. For an out-of-core float32 matrix, whose
        squares fit into float64, of A itself, which saves one read.
    """
    if not (is_out_of_core(A) and A.dtype == np.float32):
        A = normalised(A)[0]
    if is_out_of_core(A):
        return column_deviations(A, column_means(A))[0] / len(A)
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
    """The r features of largest variance: the naive baseline (extra)."""

    deterministic = True

    def prepare(self, A: Matrix, k: int, rng: np.random.Generator) -> Dense:
        del k, rng
        return largest_first(variances(A))
