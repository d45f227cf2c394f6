"""Columns of a matrix that hold the labels: a feature that tells the class of every point."""

from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray

from kmdr.datasets.references import is_noise
from kmdr.linalg.matrix import BLOCK

# Rows of the first block, after which few columns are left in most data.
_FIRST_ROWS = 32


def numbered(labels: Any, noise: str) -> NDArray[np.intp]:
    """Return labels as numbers from 0, in the order in which they first occur, and −1 for noise and missing ones."""
    array, known = np.ravel(np.asarray(labels)), ~is_noise(labels, noise)
    codes = np.full(array.size, -1, np.intp)
    codes[known] = pd.factorize(array[known])[0]
    return codes


def label_columns(A: Any, codes: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the columns whose values are in one-to-one correspondence with the classes.

    Rows are read in blocks until no column is left.

    Parameters
    ----------
    A : (n, d) ndarray, CSR or Streamed
    codes : (n,) ndarray
        From `numbered`.
    """
    first = np.unique(codes[codes >= 0], return_index=True)[1]
    first = np.flatnonzero(codes >= 0)[first]
    none = np.empty(0, np.intp)
    if len(codes) != A.shape[0] or len(first) < 2 or len(first) == np.count_nonzero(codes >= 0):
        return none
    # Most columns of sparse data are equal, as zeros, in two points of different classes.
    one, other = (_entries(A, row, row + 1, np.arange(A.shape[1])) for row in first[:2])
    columns = np.flatnonzero((one != other)[0])
    if len(first) * len(columns) > BLOCK:
        return none  # thousands of classes and columns
    values = np.zeros((len(first), len(columns)))
    start, rows = 0, _FIRST_ROWS
    while start < len(codes) and columns.size:
        stop = min(start + rows, len(codes))
        block, classes = _entries(A, start, stop, columns), codes[start:stop]
        new = first[(start <= first) & (first < stop)]
        values[codes[new]] = block[new - start]
        same = (block == values[classes])[classes >= 0].all(axis=0)
        columns, values = columns[same], values[:, same]
        start, rows = stop, max(_FIRST_ROWS, BLOCK // A.shape[1])
    differ = [len(np.unique(column)) == len(first) for column in values.T]
    return np.asarray(columns[np.array(differ, bool)])


def _entries(A: Any, start: int, stop: int, columns: NDArray[np.intp]) -> NDArray[np.float64]:
    block = A[start:stop][:, columns]
    return np.asarray(block.toarray() if scipy.sparse.issparse(block) else block, np.float64)
