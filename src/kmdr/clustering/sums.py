"""Weighted sums of the points of each cluster."""

import numpy as np
import scipy.sparse as sp

from kmdr.linalg import Dense, Matrix


def cluster_sums(C: Matrix, labels: Dense, k: int, weights: Dense) -> Dense:
    """Return the weighted sum of the rows in each of k clusters, as a dense array.

    Parameters
    ----------
    C : (n, r) array or CSR
    labels : (n,) int array
        Cluster of each row, from 0 to k − 1.
    weights : (n,) array

    Returns
    -------
    (k, r) ndarray of float64
    """
    members = sp.csc_array((weights, labels, np.arange(len(labels) + 1)), shape=(k, len(labels)))
    sums = members @ C
    return np.asarray(sums if isinstance(sums, np.ndarray) else sums.toarray())
