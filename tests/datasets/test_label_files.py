"""Label files: the label of each point, whatever the form of the file, or one sentence on what is wrong."""

import csv
import gzip
import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kmdr.base.errors import UserError
from kmdr.datasets.formats.label_files import read_labels

TEXT = st.text(st.sampled_from("abz,;\t\"'#é_"), min_size=1, max_size=5).map(str.strip).filter(bool)
LABEL = st.one_of(TEXT.filter(lambda text: text not in ("", "nan")), st.just(""), st.integers(-3, 12).map(str))


def test_empty_cells_at_either_end_of_a_line_of_a_tsv_are_kept(tmp_path):
    """Their tabs were removed, so that columns were shifted."""
    path = tmp_path / "y.tsv"
    path.write_text("\t5\t0\n\t6\t0\n\t7\t1\n\t8\t1\n")
    assert read_labels(path, 4, "1")[0].tolist() == [5, 6, 7, 8]
    pd.Series(["a", "b", None, "a"], name="y").to_csv(path, sep="\t")
    assert read_labels(path, 4, "y")[0].tolist() == ["a", "b", None, "a"]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(TEXT, LABEL, LABEL), min_size=2, max_size=6), st.sampled_from([".csv", ".tsv", ".csv.gz"]),
    st.sampled_from(["\n", "\r\n", "\r"]), st.booleans(), st.sampled_from(["", "\ufeff"]), st.booleans(),
)  # fmt: skip
def test_a_column_of_a_table_is_read_as_written(tmp_path_factory, lines, suffix, end, ended, mark, quoted):
    text = io.StringIO(newline="")
    writer = csv.writer(
        text, delimiter="\t" if "tsv" in suffix else ",", lineterminator=end,
        quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL,
    )  # fmt: skip
    writer.writerows([("key", "group", "other"), *lines])
    content = mark + (text.getvalue() if ended else text.getvalue().removesuffix(end))
    path = tmp_path_factory.mktemp("labels") / f"y{suffix}"
    path.write_bytes(gzip.compress(content.encode()) if suffix.endswith("gz") else content.encode())
    read = read_labels(path, len(lines), "group")[0]
    assert ["" if pd.isna(label) else str(label).removesuffix(".0") for label in read] == [line[1] for line in lines]


@pytest.mark.parametrize("blank", range(6))
def test_blank_lines_of_a_table_are_skipped(tmp_path, blank):
    """The table was refused, because it has no column of this name."""
    lines = ["key,y", "1,a", "2,a", "3,b", "4,b"]
    lines.insert(blank, "")
    (tmp_path / "y.csv").write_text("\n".join(lines) + "\n")
    assert read_labels(tmp_path / "y.csv", 4, "y")[0].tolist() == ["a", "a", "b", "b"]


@pytest.mark.parametrize(
    ("name", "content", "column", "sentence"),
    [
        ("y.csv", "key,y\n1,a\n2,a\n3\n4,b\n", "y", "line 4 of y.csv, '3', has 1 cell, but the first has 2; write"),
        ("y.csv", 'key,y\n"1\n2",a\n2,a\n3,b\n4,b\n', "y", "line 2 of y.csv, '\"1', has 1 cell, but the first has 2"),
        ("y.csv", "key,y\n1,a\n2,b\n3,b\n", "y", "y.csv has 3 lines below its header for 4 points; give one label"),
        ("y.csv", "y\na\nb\nb\n", "y", "y.csv has 3 lines below its header for 4 points; give one label"),
        ("y.csv", "", "y", "no column of y.csv is named 'y'; valid: 0"),
        ("y.txt", "0\n0\n1\n1\n\n", "", "y.txt has 5 lines for 4 points, one of them blank, so the first line, '0'"),
        ("y.txt", "0\n\n0\n1\n1\n", "", "y.txt has 5 lines for 4 points, one of them blank, so the first line, '0'"),
        ("y.txt", "0\n" * 99, "", "y.txt has 99 lines for 4 points; give one label per point"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(tmp_path, name, content, column, sentence):
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError) as caught:
        read_labels(tmp_path / name, 4, column)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("array", [np.array([0, 0, 1, 1]), np.array([[0], [0], [1], [1]])])
def test_a_column_that_an_array_has_not_is_refused(tmp_path, array):
    """It was ignored."""
    np.save(tmp_path / "y.npy", array)
    assert read_labels(tmp_path / "y.npy", 4, "0")[0].ravel().tolist() == [0, 0, 1, 1]
    (tmp_path / "y.idx").write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 4, 0, 0, 1, 1]))
    for name in ("y.npy", "y.idx"):
        with pytest.raises(UserError, match=rf"no column of {name} is named '3'; valid: 0"):
            read_labels(tmp_path / name, 4, "3")
