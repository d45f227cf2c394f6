"""bmd09: Unsupervised Feature Selection for the k-means Clustering Problem (NIPS 2009)."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from kmdr.report.figures import paper_grid


def figure(study: Mapping[str, Any], rows: pd.DataFrame) -> Figure:
    """Draw F, P and time at the table's r.

    Parameters
    ----------
    study : mapping
        The ``study`` tree of its configuration.
    rows : DataFrame
        The study's rows.
    """
    quantities = ("objective", "accuracy", "total_seconds")
    return paper_grid(rows, study["datasets"], quantities, note=study["note"])
