"""A dataset in memory or mapped from a file, and the hash of its content."""

import hashlib
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray

from kmdr.base.errors import UserError, plain_name, whole_number
from kmdr.datasets import validation
from kmdr.datasets.formats import preprocessing
from kmdr.datasets.formats.common import Content
from kmdr.datasets.formats.profile import identifier_warning, profile
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


def from_arrays(A: Any, labels: Any = None, k: int | None = None, name: str = "A") -> Dataset:
    """Return a dataset of a matrix in memory.

    Parameters
    ----------
    A : (n, d) array, sparse matrix or DataFrame
        Kept as float32 if it has that type, else as float64. It is never changed; the dataset may be a read-only view
        of it.
    labels : (n,) array, optional
        Classes of any type.
    k : int, optional
        Number of clusters; by default the number of classes.
    name : str

    Raises
    ------
    UserError
        A or the labels are not valid (`kmdr.datasets.validation.check`), or neither k nor labels are given.
    """
    features = None
    if isinstance(A, pd.DataFrame):
        A, features = preprocessing.numbers(
            name, A.set_axis(A.columns.map(str), axis=1), remedy="remove it, or encode it"
        )
    A = kept_form(A if scipy.sparse.issparse(A) else np.asarray(A))
    classes = None if labels is None else validation.codes(labels, name)
    validation.check(A, classes)
    if warning := identifier_warning(profile(Content(A, classes, features)), "give A without it"):
        warnings.warn(f"{name}: {warning}", stacklevel=3)
    if k is None and classes is None:
        raise UserError("neither k nor labels were given; give the number of clusters, or the classes")
    k = len(np.unique(classes)) if k is None else whole_number("k", k, 1)  # type: ignore[arg-type]
    if k > A.shape[0]:
        raise UserError(f"k = {k} is larger than the number of points ({A.shape[0]}); choose k ≤ {A.shape[0]}")
    return Dataset(plain_name("name", name), A, classes, k, content_sha256(A, classes), "", "memory", features)


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
