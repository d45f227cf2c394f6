"""Sums over the points of each cluster, distances to centres, and the form of the points that both need."""

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import pairwise_distances_argmin

from kmdr.linalg import Dense, Matrix
from kmdr.linalg.matrix import BLOCK, canonical_csr, row_blocks


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


def compiled_form(C: Matrix) -> Matrix:
    """Return C in the form that compiled code of scikit-learn takes: canonical, with 32-bit indices, if it is CSR.

    A CSR with 2³¹ entries or more keeps its 64-bit indices.
    """
    C = canonical_csr(C)
    if isinstance(C, np.ndarray) or C.nnz >= 2**31 or max(C.indices.itemsize, C.indptr.itemsize) == 4:
        return C
    parts = (C.data, C.indices.astype(np.int32), C.indptr.astype(np.int32))
    return sp.csr_array(parts, shape=C.shape)


def nearest(C: Matrix, centres: Dense) -> tuple[Dense, Dense]:
    """Return the nearest centre of each point, and the squared distance to it.

    A product of points and centres cancels where both are far from 0 compared with the distances between them. Dense
    points are therefore compared relative to the median centre, and squared distances are sums of squared differences.

    Parameters
    ----------
    C : (n, r) array or CSR
        CSR in `compiled_form`.
    centres : (k, r) ndarray of float64

    Returns
    -------
    labels : (n,) ndarray of int64
    squares : (n,) ndarray of float64
    """
    dense = isinstance(C, np.ndarray)
    origin = np.median(centres, axis=0) if dense else np.zeros(centres.shape[1])
    labels, squares = np.empty(C.shape[0], np.int64), np.empty(C.shape[0])
    for rows, block in row_blocks(C):
        step = max(BLOCK // C.shape[1], 1) if dense else C.shape[0]
        for first in range(0, block.shape[0], step):
            piece = block[first : first + step]
            part = slice(rows.start + first, rows.start + first + piece.shape[0])
            labels[part] = pairwise_distances_argmin(piece - origin if dense else piece, centres - origin)
            squares[part] = _squares(piece, centres, labels[part])
    return labels, squares


def _squares(C: Matrix, centres: Dense, labels: Dense) -> Dense:
    """Return the squared distance of each point to its centre."""
    if isinstance(C, np.ndarray):
        differences = C - centres[labels]
        return np.asarray(np.einsum("ij,ij->i", differences, differences))
    # (x − c)² − c² at the stored entries, and c² at all.
    rows = np.repeat(labels, np.diff(C.indptr))
    at_entries = centres[rows, C.indices]
    terms = (C.data - at_entries) ** 2 - at_entries**2
    sums = np.asarray(sp.csr_array((terms, C.indices, C.indptr), shape=C.shape).sum(axis=1)).ravel()
    return np.asarray(np.maximum(sums + (centres**2).sum(axis=1)[labels], 0.0))
