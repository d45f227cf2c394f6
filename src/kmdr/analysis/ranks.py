"""Comparison of methods over many problems: mean ranks and performance profiles."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import binomtest

from kmdr.analysis.rows import mean_interval
from kmdr.analysis.statistics import is_rounding

# Fewer problems give no interval of a mean rank, as fewer values give no exact interval of a median.
FEWEST_PROBLEMS = 6


def _tied(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return values with differences due to rounding removed."""
    order = np.argsort(values)
    x = values[order]
    first = np.r_[True, ~is_rounding(np.diff(x), np.maximum(abs(x[1:]), abs(x[:-1])))]
    tied = np.empty_like(x)
    tied[order] = x[first][np.cumsum(first) - 1]
    return tied


def rank_methods(values: pd.DataFrame, ascending: bool = True) -> pd.DataFrame:
    """Return the rank of each method on each problem; equal values, up to rounding, get the mean of their ranks.

    Parameters
    ----------
    values : DataFrame
        One row per problem, one column per method, without gaps. An infinite value is worse or better than any other.
    ascending : bool
        Whether the smallest value is the best, with rank 1.
    """
    numbers = values.to_numpy(dtype=float)
    most = abs(numbers[np.isfinite(numbers)]).max(initial=0.0)
    numbers = np.clip(numbers, -2 * most - 1, 2 * most + 1)
    tied = np.array([_tied(line) for line in numbers]).reshape(numbers.shape)
    return pd.DataFrame(tied, values.index, values.columns).rank(axis=1, ascending=ascending)


def mean_ranks(values: pd.DataFrame, ascending: bool = True) -> pd.DataFrame:
    """Return the mean rank of each method over problems, with its 95 % interval.

    Parameters
    ----------
    values : DataFrame
        One row per problem, one column per method. Problems on which a method has no value are omitted.
    ascending : bool
        Whether the smallest value is the best, with rank 1. Equal values get the mean of their ranks.

    Returns
    -------
    DataFrame
        One row per method, the best first; columns ``mean low high count``. The sample consists of problems: Student's
        t interval is that of the mean rank over such problems, clipped to the possible ranks; NaN for fewer than
        `FEWEST_PROBLEMS`.

    Examples
    --------
    >>> mean_ranks(pd.DataFrame({"a": [1.0, 1.0], "b": [2.0, 3.0]}))["mean"].to_dict()
    {'a': 1.0, 'b': 2.0}
    """
    whole = values.dropna()
    if whole.empty or whole.shape[1] < 2:
        return pd.DataFrame(columns=["mean", "low", "high", "count"])
    ranks = rank_methods(whole, ascending)
    lines = {}
    for method in ranks:
        interval = mean_interval(ranks[method].to_numpy())
        ends = [interval.low, interval.high] if interval.size >= FEWEST_PROBLEMS else [np.nan, np.nan]
        low, high = np.clip(ends, 1, whole.shape[1])
        lines[method] = {"mean": interval.centre, "low": low, "high": high, "count": interval.size}
    return pd.DataFrame.from_dict(lines, orient="index").sort_values("mean", kind="stable")


def profiles(values: pd.DataFrame, ascending: bool = True, with_gaps: bool = False) -> pd.DataFrame:
    """Return the performance profile of each method: the share of problems on which it is within a factor of the best.

    Parameters
    ----------
    values : DataFrame
        Positive; one row per problem, one column per method. Problems on which a method has no value are omitted.
    ascending : bool
        Whether the smallest value is the best.
    with_gaps : bool
        Keep problems with a value of some methods: the others are not within any factor there, so that their shares
        end below 1.

    Returns
    -------
    DataFrame
        Columns ``method factor share low high``: one row at factor 1 and at each factor at which the share grows, with
        the 95 % Wilson interval of the share over problems.

    References
    ----------
    Dolan, Moré, Benchmarking optimization software with performance profiles, Mathematical Programming 91, 2002.
    """
    known = values.gt(0) & values.lt(np.inf)
    whole = values.where(known)[known.any(axis=1) if with_gaps else known.all(axis=1)]
    lines = []
    if len(whole) and whole.shape[1] > 1:
        best = whole.min(axis=1) if ascending else whole.max(axis=1)
        factors = whole.div(best, axis=0) if ascending else whole.rdiv(best, axis=0)
        factors = factors.mask(is_rounding(factors - 1), 1.0)
        for method in factors:
            ordered = np.sort(factors[method].to_numpy())  # NaN last
            for factor in np.unique(np.r_[1.0, ordered[np.isfinite(ordered)]]):
                within = int(np.searchsorted(ordered, factor, side="right"))
                interval = binomtest(within, len(ordered)).proportion_ci(method="wilson")
                lines.append((method, float(factor), within / len(ordered), interval.low, interval.high))
    return pd.DataFrame(lines, columns=["method", "factor", "share", "low", "high"])
