"""The law of a reported number in a universe, known from a few hundred runs, and how likely it makes what is reported.

The likelihood of a reported number is the probability of what it may have been before it was rounded, or read off a
figure. Runs are a sample of the law: each stands for a normal kernel about it, of Silverman's width, and weighs as its
probability to be the best of m by F. What n runs cannot tell, their tails above all, is left to a uniform law on [0, 1]
that weighs as much as one run more, 1/(n + 1); with weights, n is (Σw)²/Σw². So no number is impossible, and no
universe is refuted by a tail that its runs cannot show. A number that is computed without a draw is ours to the last
digit, or as near to it as the register takes two for the same (the width of its kernel), with equal probability.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr
from scipy.stats import betabinom

from kmdr.analysis.statistics import Floats, best_of
from kmdr.claims.register import F_MARGIN, P_MARGIN
from kmdr.claims.reported import Number

_LEAST = 1e-9  # weights below it decide nothing


class Law(NamedTuple):
    """A law on [0, 1].

    Attributes
    ----------
    values, weights : (n,) ndarray
        In the order of F, so that laws of several quantities of a run have it in one place; the weights sum to one.
    exact : float
        Probability that it is one of the values, and not only near one of them.
    width : float
        Standard deviation of the normal kernel about each value.
    size : float
        How many independent draws of it the values are worth; infinite where the weights allow for what is not known.
    """

    values: Floats
    weights: Floats
    exact: float
    width: float
    size: float

    @property
    def mean(self) -> float:
        """Its mean."""
        return float(self.weights @ self.values)

    @property
    def interval(self) -> tuple[float, float]:
        """Its central 95 %."""
        order = np.argsort(self.values, kind="stable")
        at = np.searchsorted(np.cumsum(self.weights[order]), np.array([0.025, 0.975]) - 1e-12)
        low, high = self.values[order[at.clip(max=len(order) - 1)]]
        return float(low), float(high)

    def log_likelihood(self, values: ArrayLike, error: float) -> Floats:
        """Return the logarithm of the probability of each value ± its reading error.

        Parameters
        ----------
        values : array_like
        error : float
            Positive.
        """
        ends = np.asarray(values, dtype=float)[..., None] + error * (1 + 1e-9) * np.array([-1.0, 1.0])
        same = ((self.values >= ends[..., :1]) & (self.values <= ends[..., 1:])) @ self.weights
        reached = ndtr((ends[..., None] - self.values) / self.width) @ self.weights
        inside = self.exact * same + (1 - self.exact) * (reached[..., 1] - reached[..., 0])
        unknown = 1 / (self.size + 1)
        return np.asarray(np.log((1 - unknown) * inside + unknown * 2 * error + 1e-300))


def law_of_best(number: Number, F: ArrayLike, values: ArrayLike, m: int) -> Law:
    """Return the law of a quantity of the best of m runs by F.

    Parameters
    ----------
    number : Number
    F, values : (N,) array_like
        Of N ≥ m runs.
    m : int
    """
    kept = best_of(F, m)
    there = kept.weights > _LEAST
    x, w = np.asarray(values, dtype=float)[kept.order[there]], kept.weights[there] / kept.weights[there].sum()
    size = 1 / float(w @ w)
    spread = math.sqrt(max(0.0, float(w @ (x - w @ x) ** 2)))
    if spread > 1e-9:
        return Law(x, w, 0.0, 1.06 * spread * size**-0.2, size)
    return Law(x, w, 0.5, F_MARGIN * float(x[0]) if number.quantity == "objective" else P_MARGIN, size)


def law_of_share(hits: int, runs: int, of: int) -> Law:
    """Return the law of the share of ``of`` runs that hit, if ``hits`` of ``runs`` did: with Jeffreys's prior.

    Parameters
    ----------
    hits, runs, of : int
    """
    counts = np.arange(of + 1)
    weights = betabinom.pmf(counts, of, hits + 0.5, runs - hits + 0.5)
    return Law(counts / of, weights / weights.sum(), 1.0, 1.0, math.inf)
