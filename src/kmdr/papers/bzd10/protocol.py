"""Names that the paper's items and claims share."""

import numpy as np
import pandas as pd

from kmdr.analysis.results import NotRunError, Results
from kmdr.analysis.rows import REPETITION
from kmdr.claims.best_of import RUN

ORL = "orl_64x64"
FIGURE1, TABLE1, TABLE1_ORL = "bzd10_fig1", "bzd10_table1", "bzd10_table1_orl"
TABLE2, TABLE2_SIGNS = "bzd10_table2", "bzd10_table2_signs"
FIGURE1_TIMES, TABLE2_TIMES = "bzd10_fig1_times", "bzd10_table2_times"
DIMENSIONS = (10, 20, 50, 100)


def table2_runs(results: Results, method: str, t: float) -> pd.DataFrame:
    """Return the runs of a cell of Table 2, in the order of the repetitions; ``none`` does not depend on t."""
    rows = results.rows((TABLE2, TABLE2_SIGNS), datasets=[ORL], reducers=[method], columns=RUN)
    if method != "none" and not np.isnan(t):
        rows = rows[rows["r"] == t]
    if rows.empty:
        raise NotRunError(f"{method} was not run at t = {t:g}")
    return rows.sort_values(REPETITION, kind="stable")
