"""The distribution of a reported number in a universe, estimated from a few hundred runs, and its likelihood.

The likelihood of a reported number is the probability of the values that it may have had before it was rounded or read
off a figure. Each run stands for a normal kernel about it, of Silverman's width, weighted by its probability to be the
best of m by F. The part that n runs cannot show, above all the tails, is left to a uniform distribution on [0, 1] with
the weight of one more run, 1/(n + 1); with weights, n is (Σw)²/Σw². So no number with chance is impossible, and no
universe is rejected because of a tail that its runs cannot show; but neither do few runs of the best of many show that
a number is possible (`kmdr.multiverse.plausibility.least_p`). A number that is the same in all runs is deterministic:
it is ours to the last digit, or as near to it as the register takes two numbers for the same (the width of its kernel),
with equal probability, and no part of it is unknown.
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

_LEAST = 1e-9  # smaller weights are ignored


class Distribution(NamedTuple):
    """A distribution on [0, 1].

    Attributes
    ----------
    values, weights : (n,) ndarray
        Ordered by F, so that the distributions of several quantities of a run have it at one position; the weights sum
        to one.
    exact : float
        Probability that the number equals one of the values, and is not only near one.
    width : float
        Standard deviation of the normal kernel about each value.
    size : float
        Effective number of independent draws; infinite if nothing is unknown, or the weights account for it.
    """

    values: Floats
    weights: Floats
    exact: float
    width: float
    size: float

    @property
    def unknown(self) -> float:
        """The weight of what the runs cannot show."""
        return 1 / (self.size + 1)

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
        """Return the logarithm of the probability of each value ± its reading error, which is positive."""
        ends = np.asarray(values, dtype=float)[..., None] + error * (1 + 1e-9) * np.array([-1.0, 1.0])
        same = ((self.values >= ends[..., :1]) & (self.values <= ends[..., 1:])) @ self.weights
        low, high = np.moveaxis((ends[..., None] - self.values) / self.width, -2, 0)
        # Far above a value both probabilities are almost 1; their difference is that of the mirrored ends.
        sign = np.where(low > 0, -1.0, 1.0)
        near = (sign * (ndtr(sign * high) - ndtr(sign * low))) @ self.weights
        inside = self.exact * same + (1 - self.exact) * near
        return np.asarray(np.log((1 - self.unknown) * inside + self.unknown * 2 * error + 1e-300))

    def tail(self, value: float, error: float) -> float:
        """Return the two-sided probability of a value at least as extreme as one ± its reading error."""
        slack = error * (1 + 1e-9)
        return min(1.0, 2 * min(self._below(value + slack), 1 - self._below(value - slack, open_=True)))

    def _below(self, value: float, *, open_: bool = False) -> float:
        """Return the probability of at most a value, or of less than it."""
        same = float(((self.values < value) if open_ else (self.values <= value)) @ self.weights)
        near = float(ndtr((value - self.values) / self.width) @ self.weights)
        known = self.exact * same + (1 - self.exact) * near
        return (1 - self.unknown) * known + self.unknown * min(1.0, max(0.0, value))


def distribution_of_best(number: Number, F: ArrayLike, values: ArrayLike, m: int) -> Distribution:
    """Return the distribution of a quantity of the best of m runs by F, from the F and values of N ≥ m runs."""
    kept = best_of(F, m)
    used = kept.weights > _LEAST
    x, w = np.asarray(values, dtype=float)[kept.order[used]], kept.weights[used] / kept.weights[used].sum()
    size = 1 / float(w @ w)
    spread = math.sqrt(max(0.0, float(w @ (x - w @ x) ** 2)))
    if spread > 1e-9:
        return Distribution(x, w, 0.0, 1.06 * spread * size**-0.2, size)
    width = F_MARGIN * float(x[0]) if number.quantity == "objective" else P_MARGIN
    return Distribution(x, w, 0.5, width, math.inf)


def distribution_of_share(hits: int, runs: int, size: int) -> Distribution:
    """Return the distribution of the share of hits in ``size`` runs after ``hits`` in ``runs``, by Jeffreys's prior."""
    counts = np.arange(size + 1)
    weights = betabinom.pmf(counts, size, hits + 0.5, runs - hits + 0.5)
    return Distribution(counts / size, weights / weights.sum(), 1.0, 1.0, math.inf)
