"""Reference labelings of a dataset: several, or with a label that marks noise, as matrices of classes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kmdr.base.errors import UserError
from kmdr.datasets.dataset import Dataset
from kmdr.datasets.validation import codes

NOISE = -1
"""The class of a point that a labeling marks as noise."""


@dataclass(frozen=True, eq=False)
class ReferencedDataset(Dataset):
    """A dataset with several reference labelings, or with noise in one.

    Attributes
    ----------
    references : (m, n) int64 array
        The classes of each labeling, from 0, and `NOISE`; the first row is ``labels``.
    """

    references: NDArray[np.int64] = field(kw_only=True)


def references_of(data: Dataset) -> NDArray[np.int64] | None:
    """Return the reference labelings of a dataset, one per row; None if its labels are the only one, without noise."""
    return data.references if isinstance(data, ReferencedDataset) else None


def split_labelings(labels: NDArray[np.int64] | None) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]:
    """Return the first labeling and all of them as `classes_of_labelings` gives them; not all if it is the only one."""
    return (labels, None) if labels is None or labels.ndim == 1 else (labels[0].copy(), labels)


def classes_of_labelings(labelings: Sequence[Any], where: str, noise: str) -> NDArray[np.int64] | None:
    """Return the classes of a single labeling without noise (n), else one row per labeling with `NOISE`; None without.

    Errors call the data `where`.
    """
    if not labelings:
        return None
    classes = [codes(labels, where) for labels in labelings]
    masks = [_is_noise(labels, noise) for labels in labelings]
    if len(classes) == 1 and not masks[0].any():
        return classes[0]
    rows = [np.full(len(row), NOISE, np.int64) for row in classes]
    for number, (row, of_row, mask) in enumerate(zip(rows, classes, masks, strict=True)):
        row[~mask] = np.unique(of_row[~mask], return_inverse=True)[1]
        if row.max(initial=NOISE) < 1:
            which = f"labeling {number}, counted from 0, of {where}" if len(rows) > 1 else f"the labels of {where}"
            held = "noise" if mask.all() else "of one class or noise" if mask.any() else "of one class"
            raise UserError(f"all {len(row)} points are {held} by {which}; give labels of at least two classes")
    return np.array(rows)


def _is_noise(labels: Any, noise: str) -> NDArray[np.bool_]:
    """Return which labels are the label of noise: equal as numbers if the labels are numbers, else as text."""
    array = np.ravel(np.asarray(labels))
    if not noise:
        return np.zeros(array.size, bool)
    if array.dtype.kind in "iufb":
        try:
            return np.asarray(array == float(noise))
        except ValueError:
            return np.zeros(array.size, bool)
    texts = (value if isinstance(value, str) else str(np.squeeze(value)) for value in array.tolist())
    return np.fromiter((text.strip() == noise for text in texts), bool, array.size)
