"""Score partitions that any other program made: F on a dataset, and P, NMI, ARI and other metrics against its classes.

A partition is a column of a file of labels. Labels may be whole numbers or any text; only which points share one
counts. A negative label, by which some programs mark noise, is a cluster like any other.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kmdr import datasets
from kmdr.base.errors import UserError, shown
from kmdr.base.text import counted
from kmdr.config.compose import compose_dataset
from kmdr.datasets.formats.label_files import label_columns
from kmdr.datasets.formats.tables import is_number
from kmdr.datasets.validation import codes
from kmdr.harness.rescore import scaled, score_labels


class Partition(NamedTuple):
    """A partition of the points of a dataset.

    Attributes
    ----------
    name : str
        The column of the file.
    clusters : (n,) int array
        Numbered from 0 in the sorted order of the labels.
    negative : int
        The number of points whose label is a negative number.
    """

    name: str
    clusters: NDArray[np.int64]
    negative: int


def _partition(name: str, labels: NDArray[Any], n: int, file: str) -> Partition:
    where = f"{file}, column {name!r}"
    if labels.shape != (n,):
        raise UserError(f"{where} has {labels.size} labels for {n} points; give one per point")
    if labels.dtype.kind == "S":
        try:
            labels = np.char.decode(labels, "utf-8")
        except UnicodeDecodeError as error:
            raise UserError(f"{where} is not UTF-8 text ({error.reason}); save it as UTF-8") from error
    if labels.dtype.kind not in "biufUO":
        raise UserError(f"{where} has values of type {labels.dtype}; give whole numbers or text")
    clusters = codes(labels, where)  # refuses missing labels
    if (odd := _odd(labels)).any():
        row = int(odd.argmax())
        raise UserError(
            f"{where} has {labels[row]} at row {row}, counted from 0; a label is a whole number or text, so name a "
            "file of labels, not of data"
        )
    return Partition(name, clusters, int((labels < 0).sum()) if labels.dtype.kind in "if" else 0)


def _is_label(text: str) -> bool:
    """Return whether a text can be a label: not empty, no infinite number, and not several numbers."""
    parts = text.split()
    if not all(map(is_number, parts)):
        return True
    return len(parts) == 1 and bool(np.isfinite(float(text)))


def _odd(labels: NDArray[Any]) -> NDArray[np.bool_]:
    if labels.dtype.kind == "f":
        return np.asarray(~np.isfinite(labels) | (labels != np.rint(labels)))
    if labels.dtype.kind in "UO":
        texts = labels.tolist()
        odd = {text for text in set(texts) if not _is_label(str(text))}
        return np.array([text in odd for text in texts])
    return np.zeros(len(labels), dtype=bool)


def partitions(file: Path, n: int) -> list[Partition]:
    """Return the partitions of n points in a file of labels, one per column.

    Raise `UserError` if the file cannot be read as labels, or a column does not have n of them.
    """
    columns = label_columns(file, n)
    return [_partition(name, labels, n, file.name) for name, labels in columns.items()]


def dataset_from(settings: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Return name and options of the dataset that settings ``dataset=NAME`` and ``dataset.OPTION=VALUE`` describe."""
    for text in settings:
        if not text.startswith(("dataset=", "dataset.")):
            name = text.partition("=")[0]
            raise UserError(f"{shown(name)} is not a setting of 'kmdr score'; give dataset=NAME and dataset.…=…")
    if not any(text.startswith("dataset=") for text in settings):
        raise UserError("no dataset was given; name that of the labels, e.g. dataset=digits")
    return compose_dataset(*settings)


def score_file(file: Path, settings: Sequence[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the scores of each partition in a file of labels, and notes on them.

    The file is as for `kmdr.datasets.formats.label_files.label_columns`; the settings name the dataset, as on the
    command line.
    """
    data = scaled(datasets.prepare(*dataset_from(settings)))
    rows, notes = [], []
    for partition in partitions(file, data.A.shape[0]):
        scores = score_labels(data, partition.clusters)
        rows.append({"partition": partition.name, "clusters": int(partition.clusters.max()) + 1, **scores})
        if partition.negative:
            notes.append(
                f"column {partition.name!r} has negative labels at {counted(partition.negative, 'point')}; each such "
                "label counts as a cluster, also where it means noise"
            )
    if data.classes is None:
        notes.append("the dataset has no classes, so only F and what needs none is computed")
    return rows, notes
