"""Make datasets of matrices and labels in memory."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse

from kmdr.base.errors import UserError, plain_name, shown, whole_number
from kmdr.datasets import validation
from kmdr.datasets.dataset import Dataset, content_sha256, kept_form
from kmdr.datasets.file_options import label_of_noise
from kmdr.datasets.formats import preprocessing
from kmdr.datasets.formats.common import Content
from kmdr.datasets.formats.profile import identifier_warning, profile
from kmdr.datasets.formats.tables import distinct_labels, rounded
from kmdr.datasets.references import ReferencedDataset, classes_of_labelings, split_labelings


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
    A = A if scipy.sparse.issparse(A) or isinstance(A, pd.DataFrame) else np.asarray(A)
    doubts = list(rounded(A, name))
    if isinstance(A, pd.DataFrame):
        A, features = preprocessing.numbers(
            name, A.set_axis(A.columns.map(str), axis=1), remedy="remove it, or encode it"
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
    if warning := identifier_warning(profile(Content(A, classes, features)), "give A without it"):
        doubts.append(f"{name}: {warning}")
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
    return parts
