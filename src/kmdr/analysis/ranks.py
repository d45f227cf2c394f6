"""Methods over many problems: their ranks, and their performance profiles."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import binomtest

from kmdr.analysis.rows import mean_interval
from kmdr.analysis.statistics import is_rounding


def _tied(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return values, equal where they differ by rounding alone."""
    order = np.argsort(values)
    x = values[order]
    first = np.r_[True, ~is_rounding(np.diff(x), np.maximum(abs(x[1:]), abs(x[:-1])))]
    tied = np.empty_like(x)
    tied[order] = x[first][np.cumsum(first) - 1]
    return tied


def mean_ranks(values: pd.DataFrame, ascending: bool = True) -> pd.DataFrame:
    """Rank methods within each problem, and return the mean rank of each with its 95 % interval.

    Parameters
    ----------
    values : DataFrame
        A line a problem, a column a method. Problems on which a method has no value are left out.
    ascending : bool
        Whether the least value is the best, and so has rank 1. Equal values share the mean of their ranks.

    Returns
    -------
    DataFrame
        Index the methods, best first; columns ``mean low high count``. The problems are the sample: the interval is of
        the mean rank over problems like these (Student's t), not of the repetitions on them; it is kept within the
        possible ranks.

    Examples
    --------
    >>> mean_ranks(pd.DataFrame({"a": [1.0, 1.0], "b": [2.0, 3.0]}))["mean"].to_dict()
    {'a': 1.0, 'b': 2.0}
    """
    whole = values.dropna()
    if whole.empty or whole.shape[1] < 2:
        return pd.DataFrame(columns=["mean", "low", "high", "count"])
    tied = np.array([_tied(line) for line in whole.to_numpy(dtype=float)])
    ranks = pd.DataFrame(tied, whole.index, whole.columns).rank(axis=1, ascending=ascending)
    lines = {}
    for method in ranks:
        interval = mean_interval(ranks[method].to_numpy())
        low, high = np.clip([interval.low, interval.high], 1, whole.shape[1])
        lines[method] = {"mean": interval.mean, "low": low, "high": high, "count": interval.size}
    return pd.DataFrame.from_dict(lines, orient="index").sort_values("mean", kind="stable")


def profiles(values: pd.DataFrame, ascending: bool = True) -> pd.DataFrame:
    """Return the performance profile of each method: on what share of problems it is within a factor of the best.

    Parameters
    ----------
    values : DataFrame
        Positive; a line a problem, a column a method. Problems on which a method has no value are left out.
    ascending : bool
        Whether the least value is the best.

    Returns
    -------
    DataFrame
        Columns ``method factor share low high``: a line at factor 1 and at each factor at which the share grows, with
        the Wilson interval of 95 % of the share, the problems taken for a sample.

    References
    ----------
    Dolan, Moré, Benchmarking optimization software with performance profiles, Mathematical Programming 91, 2002.
    """
    whole = values[(values > 0).all(axis=1)].dropna()
    lines = []
    if len(whole) and whole.shape[1] > 1:
        best = whole.min(axis=1) if ascending else whole.max(axis=1)
        factors = whole.div(best, axis=0) if ascending else whole.rdiv(best, axis=0)
        factors = factors.mask(is_rounding(factors - 1), 1.0)
        for method in factors:
            own = np.sort(factors[method].to_numpy())
            for factor in np.unique(np.r_[1.0, own]):
                within = int(np.searchsorted(own, factor, side="right"))
                interval = binomtest(within, len(own)).proportion_ci(method="wilson")
                lines.append((method, float(factor), within / len(own), interval.low, interval.high))
    return pd.DataFrame(lines, columns=["method", "factor", "share", "low", "high"])
