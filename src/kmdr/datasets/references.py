"""Reference labelings of a dataset: several, or with a label that marks noise, as matrices of classes.

Files of labels are read by `kmdr.datasets.formats.label_files`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kmdr.base.errors import UserError
from kmdr.datasets.dataset import Dataset
from kmdr.datasets.formats.tables import as_labels
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


def classes_of_labelings(labelings: Sequence[tuple[Any, str]], noise: str) -> NDArray[np.int64] | None:
    """Return the classes of a single labeling without noise (n), else one row per labeling with `NOISE`; None without.

    Each labeling comes with the name that errors call it.
    """
    if not labelings:
        return None
    masks = [is_noise(labels, noise) for labels, _ in labelings]
    if len(labelings) == 1 and not masks[0].any():
        return codes(*labelings[0])
    rows = [np.full(mask.size, NOISE, np.int64) for mask in masks]
    for row, mask, (labels, where) in zip(rows, masks, labelings, strict=True):
        if not mask.all():
            row[~mask] = codes(np.ravel(_array(labels))[~mask] if mask.any() else labels, where)
        if row.max(initial=NOISE) < 1:
            held = "noise" if mask.all() else "of one class or noise" if mask.any() else "of one class"
            raise UserError(
                f"all {len(row)} points are {held} by the labels of {where}; give labels of at least two classes"
            )
    return np.array(rows)


def is_noise(labels: Any, noise: str) -> NDArray[np.bool_]:
    """Return a mask of the labels that mark noise.

    They are equal to the label of noise as numbers, if they are numbers, else as texts; without surrounding spaces if
    no label has the same ones. A label of noise by which
    tables mark a missing value, such as ``nan``, is equal to missing labels.
    """
    array = np.ravel(_array(labels))
    if not noise:
        return np.zeros(array.size, bool)
    value = as_labels([noise])[0]
    if value is None:
        return np.asarray(pd.isna(array))
    number = None if isinstance(value, str) else value.item()
    if number is not None and array.dtype.kind in "iufb":
        return np.asarray(array == number)
    texts = {noise.strip(), noise.strip().title()} if noise.strip().lower() in ("true", "false") else {noise.strip()}
    is_written_so = any(isinstance(label, str) and label == noise for label in array.tolist())

    def marks(label: Any) -> bool:
        label = np.squeeze(label).item() if isinstance(label, np.ndarray) and label.size == 1 else label
        if number is not None and isinstance(label, int | float) and not isinstance(label, bool):
            return bool(label == number)
        if is_written_so and isinstance(label, str):  # such as "a", where "a " is another class
            return label == noise
        return (label.decode("utf-8", "replace") if isinstance(label, bytes) else str(label)).strip() in texts

    return np.fromiter(map(marks, array.tolist()), bool, array.size)


def _array(labels: Any) -> NDArray[Any]:
    """Return labels as an array that holds whole numbers in a list exactly, also where one is missing."""
    array = np.asarray(labels)
    return array if isinstance(labels, np.ndarray) or array.dtype.kind != "f" else np.array(labels, dtype=object)
