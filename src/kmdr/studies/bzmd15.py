"""bzmd15: Randomized Dimensionality Reduction for k-means Clustering (IEEE Trans. Information Theory, 2015)."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from kmdr.report.figures import paper_grid


def figure(study: Mapping[str, Any], rows: pd.DataFrame) -> Figure:
    """Draw Figure 1, 2 or 3: time, objective and accuracy against r, one column a dataset.

    Parameters
    ----------
    study : mapping
        The ``study`` tree of its configuration.
    rows : DataFrame
        The study's rows.
    """
    return paper_grid(rows, study["datasets"], note=study["note"])
