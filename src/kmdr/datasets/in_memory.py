"""Make datasets of matrices and labels in memory."""

import warnings
from collections.abc import Iterable, Sequence
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray

from kmdr.base.errors import UserError, plain_name, shown, whole_number
from kmdr.datasets import validation
from kmdr.datasets.dataset import Dataset, content_sha256, kept_form
from kmdr.datasets.file_options import label_of_noise
from kmdr.datasets.formats import preprocessing
from kmdr.datasets.formats.common import Content
from kmdr.datasets.formats.profile import column_warnings, profile
from kmdr.datasets.formats.tables import distinct_labels, rounded
from kmdr.datasets.references import NOISE, ReferencedDataset, classes_of_labelings, split_labelings


def from_arrays(A: Any, labels: Any = None, k: int | None = None, name: str = "A", noise: Any = None) -> Dataset:
    """Return a dataset of a matrix in memory.

    Parameters
    ----------
    A : (n, d) array, sparse matrix or DataFrame
        Kept as float32 if it has that type, else as float64. It is never changed; the dataset may be a read-only view
        of it.
    labels : (n,) array, (n, m) array, DataFrame or list of m arrays, optional
        Classes of any type; several are reference labelings.
    k : int, optional
        Number of clusters; by default the number of classes.
    noise : scalar, optional
        The label of points that do not count in scores against classes; NaN marks those without a label.

    Raises
    ------
    UserError
        A or the labels are not valid (`kmdr.datasets.validation.check`), or neither k nor labels are given.
    """
    features = None
    A = _without_objects(A if scipy.sparse.issparse(A) or isinstance(A, pd.DataFrame) else np.asarray(A))
    doubts = [*rounded(A, name), *_order_warnings(A, labels)]
    if isinstance(A, pd.DataFrame):
        A, features = preprocessing.numbers(
            name, A.set_axis(A.columns.map(str), axis=1), remedy="remove or encode what is not a number"
        )
    A = kept_form(A)
    labelings = [] if labels is None else _labelings(labels, A.shape[0])
    labelings = [(validation.without_empty(part), place) for part, place in labelings]
    doubts.extend(filter(None, (distinct_labels(part, name, "") for part, _ in labelings)))
    mark = "" if noise is None else label_of_noise(noise)
    if not isinstance(mark, str) or (mark and not labelings):
        raise UserError(f"noise = {shown(noise)} is not a label; give labels, and one of them or NaN")
    named = [(part, f"{name} ({place})" if len(labelings) > 1 else name) for part, place in labelings]
    classes, references = split_labelings(classes_of_labelings(named, mark))
    validation.check(A, classes, without_labels="give labels=None")
    further = () if references is None else tuple((row, "") for row in references[1:])
    seen = profile(Content(A, classes, features, further=further), str(NOISE))
    doubts.extend(f"{name}: {warning}" for warning in column_warnings(seen, "give A without it"))
    for warning in doubts:
        warnings.warn(warning, stacklevel=3)
    if k is not None:
        k = whole_number("k", k, 1)
    elif classes is None:
        raise UserError("neither k nor labels were given; give the number of clusters, or the classes")
    else:
        k = len(np.unique(classes[classes >= 0]))
    if k > A.shape[0]:
        raise UserError(f"k = {k} is larger than the number of points ({A.shape[0]}); choose k ≤ {A.shape[0]}")
    digest = content_sha256(A, classes, references)
    data = Dataset(plain_name("name", name), A, classes, k, digest, "", "memory", features)
    return data if references is None else ReferencedDataset(**vars(data), references=references)


def _without_objects(A: Any) -> Any:
    """Return a matrix in which numbers that were Python objects have a type of numpy, with NaN for a missing one.

    Columns of a DataFrame with texts are left as they are; other objects are refused.
    """
    if isinstance(A, pd.DataFrame):
        if all(dtype.kind != "O" for dtype in A.dtypes):
            return A
        columns = {j: _without_numbers_as_objects(A.iloc[:, j]) for j in range(A.shape[1])}
        return pd.DataFrame(columns, A.index).set_axis(A.columns, axis=1)
    if scipy.sparse.issparse(A) or A.dtype != object or A.ndim != 2:
        return A
    entries = A.ravel().tolist()
    for place, entry in enumerate(entries):
        if not _is_number(entry):
            raise _not_a_number(entry, place // A.shape[1], str(place % A.shape[1]))
    return _number_array(entries).reshape(A.shape)


def _without_numbers_as_objects(column: "pd.Series[Any]") -> Any:
    """Return a column of a DataFrame, as numbers if all of its objects are."""
    if column.dtype != object:
        return column
    entries = column.tolist()
    for row, entry in enumerate(entries):
        if not _is_number(entry) and not isinstance(entry, str):
            raise _not_a_number(entry, row, repr(str(column.name)))
    return column if any(isinstance(entry, str) for entry in entries) else _number_array(entries)


def _not_a_number(entry: Any, row: int, column: str) -> UserError:
    return UserError(
        f"the matrix has {shown(entry)} at row {row}, counted from 0, column {column}; a dataset is a matrix of real "
        "numbers"
    )


def _is_number(entry: Any) -> bool:
    return entry is None or entry is pd.NA or isinstance(entry, Real | Decimal | np.bool_)


def _number_array(entries: Iterable[Any]) -> NDArray[Any]:
    """Return numbers as an array of integers if all are, else of floats; refuse integers that floats do not hold."""
    known = [np.nan if entry is None or entry is pd.NA else entry for entry in entries]
    whole = [isinstance(entry, Integral) for entry in known]
    if known and all(whole) and all(-(2**63) <= entry < 2**63 for entry in known):
        return np.array(known, np.int64)
    try:
        floats = np.array([float(entry) for entry in known], np.float64)
    except (OverflowError, ValueError) as error:
        raise UserError(f"the matrix has an object that is not a finite number ({error}); give numbers") from error
    if any(is_whole and abs(entry) > 2**53 for is_whole, entry in zip(whole, known, strict=True)):
        raise UserError("the matrix has whole numbers above 2^53, which float64 does not hold; give shorter ones")
    return floats


def _order_warnings(A: Any, labels: Any) -> list[str]:
    """Return a warning if labels have the index of A in another order, because an index is not used; else nothing."""
    for part in labels if isinstance(labels, list | tuple) else [labels]:
        if not (isinstance(A, pd.DataFrame) and isinstance(part, pd.Series | pd.DataFrame)) or len(A) != len(part):
            continue
        is_same_set = A.index.is_unique and part.index.is_unique and part.index.isin(A.index).all()
        if is_same_set and not A.index.equals(part.index):
            return [
                "the index of the labels is that of A in another order, and labels belong to points by their position; "
                "give labels.reindex(A.index) if they belong by index, else labels.to_numpy()"
            ]
    return []


def _labelings(labels: Any, n: int) -> list[tuple[Any, str]]:
    """Return the labelings of n points, each with the name that errors call it: columns, or arrays in a list."""
    parts: list[tuple[Any, str]]
    if any(map(scipy.sparse.issparse, [labels, *(labels if isinstance(labels, list | tuple) else ())])):
        raise UserError("labels are a sparse array; give an array with one entry per point, e.g. labels.toarray()")
    is_list = isinstance(labels, list | tuple) and bool(labels) and bool(np.ndim(labels[0]))
    if isinstance(labels, pd.DataFrame):
        parts = [(labels.iloc[:, j], f"labels, column {str(name)!r}") for j, name in enumerate(labels)]
    elif is_list and not (len(labels) == n != np.size(labels[0]) == sum(map(np.size, labels)) // n):
        parts = [(part, f"labels[{j}]") for j, part in enumerate(labels)]
    elif is_list or (np.ndim(labels) == 2 and 1 not in np.shape(labels) and len(labels) == n):
        parts = [(column, f"labels, column {j}") for j, column in enumerate(np.asarray(labels).T)]
    else:
        return [(labels, "labels")]
    for part, place in parts:
        if np.size(part) != n:
            raise UserError(f"{place} has {np.size(part)} entries for {n} points; give one per point")
    if _is_one_hot([part for part, _ in parts]):
        raise UserError(
            f"the labels have {len(parts)} columns of zeros and ones with a single one per point (one-hot), but a "
            "column of labels is a labeling; give np.argmax(labels, axis=1)"
        )
    return parts


def _is_one_hot(labelings: Sequence[Any]) -> bool:
    """Return whether three or more labelings encode one: every point is 1 in one of them and 0 in the others."""
    columns = [np.asarray(labeling).ravel() for labeling in labelings]
    if len(columns) < 3 or any(column.dtype.kind not in "biuf" for column in columns):
        return False
    table = np.stack(columns)
    return bool(((table == 0) | (table == 1)).all() and (table.sum(axis=0) == 1).all())
