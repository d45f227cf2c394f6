"""A dataset in memory or mapped from a file, and the hash of its content."""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from kmdr.datasets import validation
from kmdr.datasets.streamed import Streamed
from kmdr.linalg import Matrix
from kmdr.linalg.matrix import read_only


@dataclass(frozen=True, eq=False)
class Dataset:
    """A dataset in memory, or mapped from a prepared folder.

    The last field has the path and the `kmdr.datasets.prepared.file_state` of each mapped file.

    Attributes
    ----------
    name : str
        Name in the registry, or for a custom file its title.
    A : ndarray or scipy.sparse.csr_array of shape (n, d)
        One point per row, float64 or, if a custom file has that type, float32; read-only.
    labels : ndarray of shape (n,) or None
        True classes.
    k : int
        Number of clusters to find.
    data_sha256 : str
        `content_sha256` of A and labels.
    stand_in : str
        What the data really are, if they stand in for data that a paper used; else empty.
    source : str
        Where the files came from.
    feature_names : tuple of str or None
        Names of the columns.
    """

    name: str
    A: Matrix
    labels: NDArray[np.int64] | None
    k: int
    data_sha256: str
    stand_in: str
    source: str
    feature_names: tuple[str, ...] | None = None
    stamps: tuple[tuple[str, tuple[int, ...]], ...] = ()


def kept_form(A: Any) -> Any:
    """Return A as canonical CSR, or as float64 or float32 in C order; read-only. Matrices read in blocks stay as is."""
    if scipy.sparse.issparse(A):
        return validation.canonical(A)
    return A if isinstance(A, np.memmap | Streamed) else read_only(np.ascontiguousarray(A, validation.kept_type(A)))


def content_sha256(A: Any, labels: NDArray[Any] | None, references: NDArray[Any] | None = None) -> str:
    """Return a hash of a matrix and its labels that does not depend on the file they came from.

    It is the SHA-256 over, for each array, a line of text with its name, dtype and shape, and its little-endian bytes
    in C order. A dense A is converted to the type in which it is kept. For CSR, which should be canonical, the shape of
    the matrix goes first, and the arrays are indptr, indices and data.
    """
    digest = hashlib.sha256()

    def add(name: str, array: NDArray[Any], dtype: np.dtype[Any]) -> None:
        little = dtype.newbyteorder("<")
        digest.update(f"{name} {little.str} {array.shape}\n".encode())
        for _, block in validation.blocks(array, little):
            digest.update(block.data.cast("B"))

    if scipy.sparse.issparse(A):
        digest.update(f"csr {tuple(A.shape)}\n".encode())
        for part in ("indptr", "indices", "data"):
            add(part, getattr(A, part), getattr(A, part).dtype)
    else:
        add("A", A, validation.kept_type(A))
    if labels is not None:
        add("labels", labels, labels.dtype)
    if references is not None:
        add("references", references, references.dtype)
    return digest.hexdigest()
