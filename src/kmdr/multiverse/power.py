"""Whether the runs of a universe can decide a claim: the power of its statements for the differences that matter.

A universe has far fewer runs than the paper's study. A claim that they leave open says nothing if they could not have
decided it. The power of a statement is the probability that its test refutes it if it is wrong by the difference that
matters. That difference is our margin, if the statement has one, and else what the register of choices counts as none:
1 % of F, .02 of P; of a share of runs it is .05. The power follows from the standard error of the effect, by the
noncentral t distribution.

A reported number is refuted if it lies outside the 95 % prediction interval of the procedure. The interval is bounded
only with enough runs: of the best of m, with at least 39 m. Bounded counts as power 1, unbounded as power 0.
"""

import math
from collections.abc import Mapping

import pandas as pd
from scipy.stats import ncf
from scipy.stats import t as student

from kmdr.analysis.significance import LEVEL
from kmdr.analysis.statistics import Component
from kmdr.claims.register import F_MARGIN, P_MARGIN
from kmdr.claims.verdicts import Verdict
from kmdr.figures.panels import dataset_label

POWER = 0.8
# The differences that matter, by the unit of an effect; of F as a share of it.
DIFFERENCES: Mapping[str, float] = {"P": P_MARGIN, "F": F_MARGIN, "relative F": F_MARGIN, "share": 0.05}


def claim_power(verdict: Verdict, rows: pd.DataFrame) -> float:
    """Return the least power of a claim's central statements on the rows of a universe.

    The verdict is uncorrected.
    """
    statements = [*verdict.central, *verdict.aside.get("one of several", ())]
    size = max(1, len(verdict.central))
    powers = [power(component, rows, size) for component in statements]
    return min((value for value in powers if not math.isnan(value)), default=0.0)


def power(component: Component, rows: pd.DataFrame, size: int) -> float:
    """Return the power of one of ``size`` statements; NaN if it has none of its own, but rests on others."""
    low, high, n = component.low, component.high, component.n
    if math.isnan(low):
        return math.nan
    if component.kind == "number":
        return float(math.isfinite(low) and math.isfinite(high))
    if low == high or n < 2:
        return float(low == high)
    error = (high - low) / 2 / float(student.isf(LEVEL / 2, n - 1))
    bound = float(student.isf(LEVEL / size, n - 1))
    return float(ncf.sf(bound**2, 1, n - 1, (_difference(component, rows) / error) ** 2))


def _difference(component: Component, rows: pd.DataFrame) -> float:
    """Return the difference that matters, in the unit of the effect."""
    if component.margin is not None:
        return float(component.margin)
    difference = DIFFERENCES[component.unit]
    if component.unit != "F":
        return difference
    named = rows["dataset"].isin([name for name in rows["dataset"].unique() if dataset_label(name) in component.label])
    return difference * float((rows[named] if named.any() else rows)["objective"].mean())
