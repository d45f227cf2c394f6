"""Strategies for matrices as users bring them: any type, order and stride, sparse ones in any state."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

TYPES = ("float64", "float32", "int8", "uint8", "int32", "int64", "bool")


@st.composite
def dense_matrices(draw, points=(4, 24), features=(2, 12), types=TYPES, density=(0.3, 0.7, 1.0)):
    """Draw a dense matrix of small whole numbers, in any order or stride, some rows and columns of which may be equal.

    At least two rows differ, and none is 0.
    """
    n, d = draw(st.integers(*points)), draw(st.integers(*features))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = np.dtype(draw(st.sampled_from(types)))
    low, high = {"b": (0, 2), "u": (0, 9)}.get(dtype.kind, (-6, 7))
    A = (rng.integers(low, high, (n, d)) * (rng.random((n, d)) < draw(st.sampled_from(density)))).astype(dtype)
    A = A[rng.integers(0, n, n)][:, rng.integers(0, d, d)] if draw(st.booleans()) else A
    A[~A.any(axis=1), 0] = 1
    A[0, :2] = [0, 1]
    A[1, :2] = [1, 0]
    layout = draw(st.sampled_from(["C", "F", "reversed", "strided"]))
    if layout == "reversed":
        return np.ascontiguousarray(A[::-1, ::-1])[::-1, ::-1]
    if layout == "strided":
        return np.repeat(np.repeat(A, 2, axis=0), 3, axis=1)[::2, ::3]
    return np.asarray(A, order=layout)


@st.composite
def sparse_matrices(draw, **how: Any):
    """Draw a sparse matrix and its dense equal: unsorted, with entries in several parts, stored zeros, wide indices."""
    D = np.ascontiguousarray(draw(dense_matrices(**how)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows, columns = np.nonzero(D)
    data = D[rows, columns]
    if draw(st.booleans()) and D.dtype != bool:  # where True + True is a matter of taste
        split = rng.random(len(data)) < 0.5
        part = (data[split] // 2).astype(D.dtype)
        rows, columns = np.r_[rows, rows[split]], np.r_[columns, columns[split]]
        data = np.r_[data, part]
        data[: len(split)][split] -= part
    if draw(st.booleans()):
        zeros = np.argwhere(D == 0)
        zeros = zeros[rng.random(len(zeros)) < 0.5]
        rows, columns = np.r_[rows, zeros[:, 0]], np.r_[columns, zeros[:, 1]]
        data = np.r_[data, np.zeros(len(zeros), D.dtype)]
    order = rng.permutation(len(data)) if draw(st.booleans()) else np.lexsort((columns, rows))
    rows, columns, data = rows[order], columns[order], data[order]
    index = draw(st.sampled_from([np.int32, np.int64]))
    kind = draw(st.sampled_from(["csr", "csc", "coo"]))
    if kind == "coo":
        return sp.coo_array((data, (rows.astype(index), columns.astype(index))), shape=D.shape), D
    major, minor = (rows, columns) if kind == "csr" else (columns, rows)
    count = D.shape[kind == "csc"]
    order = np.argsort(major, kind="stable")
    ends = np.concatenate([[0], np.cumsum(np.bincount(major, minlength=count))]).astype(index)
    made = sp.csr_array if kind == "csr" else sp.csc_array
    S = made((data[order], minor[order].astype(index), ends), shape=D.shape)
    S.indices, S.indptr = S.indices.astype(index), S.indptr.astype(index)
    return S, D


def bytes_of(A: Any) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """Return type, shape and content of each array that a matrix is made of, to compare before and after."""
    if hasattr(A, "to_numpy"):
        A = A.to_numpy()
    parts = {"A": A} if isinstance(A, np.ndarray) else {name: getattr(A, name) for name in _parts(A)}
    arrays = {
        f"{name} {i}": array
        for name, part in parts.items()
        for i, array in enumerate(part if isinstance(part, tuple) else [part])
    }
    return {name: (str(array.dtype), array.shape, array.tobytes()) for name, array in arrays.items()}


def _parts(A: Any) -> tuple[str, ...]:
    return ("data", "coords") if A.format == "coo" else ("data", "indices", "indptr")
