"""Columns of a file that are chosen, refused or encoded: what the error says, and what it takes."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kmdr.base import errors
from kmdr.base.errors import UserError
from kmdr.datasets import load
from kmdr.datasets.formats.common import Content
from kmdr.datasets.formats.preprocessing import numbers, select_columns
from kmdr.datasets.formats.readers import read

COLOURS = ["red", "blue", "green", "red"]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            {"colour": COLOURS},
            "column 'colour' of a.csv is not numeric ('red', 'blue', 'green'); set 'dataset.drop=[colour]', "
            "dataset.encode=onehot (one column for each of its 3 values), or dataset.label=colour if it holds the "
            "classes",
        ),
        (
            {"colour": COLOURS, "shade": COLOURS},
            "columns 'colour', 'shade' of a.csv are not numeric ('red', 'blue', 'green'); set "
            "'dataset.drop=[colour,shade]', dataset.encode=onehot (one column for each of their values), or "
            "dataset.label=NAME if one holds the classes",
        ),
        (
            {"size": ["1", "2", "x", "3", "4"]},
            "column 'size' of a.csv is not numeric ('x'); set 'dataset.drop=[size]', or empty the cells without a "
            "number and set dataset.missing=mean",
        ),
        (
            {"size": ["1", "x"]},
            "column 'size' of a.csv is not numeric ('x'); set 'dataset.drop=[size]', dataset.encode=onehot (one column "
            "for each of its 2 values), or dataset.label=size if it holds the classes",
        ),
    ],
)
def test_columns_of_text_are_refused_with_a_remedy_for_what_they_hold(columns, expected):
    with pytest.raises(UserError) as refused:
        numbers("a.csv", pd.DataFrame({"x": range(len(next(iter(columns.values()))))} | columns))
    assert str(refused.value) == expected


def test_the_callers_remedy_replaces_the_usual_ones():
    with pytest.raises(UserError, match=r"^column 'colour' of a\.csv is not numeric \(.*\); use another file$"):
        numbers("a.csv", pd.DataFrame({"colour": COLOURS}), remedy="use another file")


def test_a_copy_of_chosen_columns_may_take_half_of_the_memory(monkeypatch):
    monkeypatch.setattr(errors, "memory", lambda: 2 * 8 * 10 * 5)
    content = Content(np.arange(200.0).reshape(10, 20), None)
    kept = select_columns(Path("a.npy"), content, ["0", "3", "4", "7", "19"], [])
    assert kept.A.tolist() == content.A[:, [0, 3, 4, 7, 19]].tolist()
    assert kept.features == ("0", "3", "4", "7", "19")
    with pytest.raises(UserError, match=r"the columns of a\.npy take"):
        select_columns(Path("a.npy"), content, ["0", "3", "4", "7", "18", "19"], [])


@pytest.mark.parametrize("scale", ["standard", "minmax"])
def test_a_table_of_labels_alone_has_no_columns_to_scale(scale, tmp_path):
    pd.DataFrame({"label": ["a", "b", "a"]}).to_csv(tmp_path / "a.csv", index=False)
    A, labels, _ = read(tmp_path / "a.csv", scale=scale)
    assert A.shape == (3, 0)
    assert labels.tolist() == [0, 1, 0]
    with pytest.raises(UserError, match="a matrix of 3 x 0 was given"):
        load("file", {"path": str(tmp_path / "a.csv"), "scale": scale})


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt"])
def test_a_file_of_empty_labels_lacks_the_label_of_each_point(suffix, tmp_path):
    np.save(tmp_path / "a.npy", np.eye(3))
    (tmp_path / f"y{suffix}").write_text("\n\n\n")
    with pytest.raises(UserError, match=r"the labels of a\.npy are missing at row 0"):
        read(tmp_path / "a.npy", labels=str(tmp_path / f"y{suffix}"))
