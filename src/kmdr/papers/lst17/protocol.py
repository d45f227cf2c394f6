"""Names that lst17's figures, table and claims share: its studies and datasets, and its names of the methods."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from kmdr.claims.effects import Floats, slopes_on_log_r

TIMES = "lst17_times"
STUDIES = (
    "lst17_coil20",
    TIMES,
    *("lst17_sector", "lst17_sector_slow", "lst17_sector_lle"),
    *("lst17_rcv1", "lst17_rcv1_slow"),
    *("lst17_ilsvrc2012", "lst17_ilsvrc"),
)
GROWTH = "lst17_growth"
# The paper's datasets in the order of the panels, each with its possible stand-ins.
DATASETS: Mapping[str, tuple[str, ...]] = {
    "coil20": (), "sector": ("sector_like",), "rcv1": ("rcv1_like",), "ilsvrc2012": ("ilsvrc_like",),
}  # fmt: skip
# The kind of data that each stand-in generates.
GENERATED = {"sector_like": "text", "rcv1_like": "text", "ilsvrc_like": "features"}
UNSTATED = {"ilsvrc2012": "the paper states neither its size nor its features"}
NAMES = {
    "none": "k-means", "svd": "SVD", "lle": "LLE", "laplacian_score": "LS", "random_sign": "RP", "sparsified": "PD",
    "sparse_embedding": "SE",
}  # fmt: skip
REDUCERS = [name for name in NAMES if name != "none"]


def powers_of_r(values: pd.DataFrame, method: str) -> Floats:
    """Return the slope of a quantity on log₁₀ r within each repetition that has every r.

    Parameters
    ----------
    values : DataFrame
        Index (r, seed, repeat), one column per method.
    """
    return slopes_on_log_r(values[method].dropna().unstack("r"), np.log10)
