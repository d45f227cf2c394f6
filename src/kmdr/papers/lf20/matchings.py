"""The matching of clusters to persons of ORL in the report's code for random projections."""

import numpy as np

from kmdr.base.errors import UserError
from kmdr.linalg import Dense


def class_numbers(truth: Dense) -> Dense:
    """Return the labels with lf20's mistake: the last row of each class has the number of the next class.

    For ten images per person its code takes ⌊i/10⌋ + 1 for the person of image i = 1, 2, …, instead of ⌊(i − 1)/10⌋ +
    1. So one row of every class is wrong, the very last one has a number that no class has, and for classes of m rows
    no partition has P > 1 − 1/m.

    Parameters
    ----------
    truth : (n,) int array
        Rows in the order of their classes, the same number of each.

    Returns
    -------
    (n,) ndarray of int64
        From 0.

    Raises
    ------
    UserError
        If the rows are not such blocks.
    """
    n, k = len(truth), len(np.unique(truth))
    m = n // k
    if n % k or (truth.reshape(k, m) != truth[::m, None]).any():
        raise UserError(
            f"matching = 'identity_lf20' needs the {n} rows in {k} blocks of equal size, one per class; "
            "use 'best' for this data"
        )
    return np.arange(1, n + 1) // m


MATCHINGS = {"identity_lf20": class_numbers}
