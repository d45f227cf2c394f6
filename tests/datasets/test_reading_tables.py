"""Tables written with Python's csv module are read back with the same points and the same classes, or refused."""

import csv
import io
import math
import string
import warnings
from functools import partial

import h5py
import numpy as np
import openpyxl
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kmdr import datasets
from kmdr.base.errors import UserError
from kmdr.datasets import validation
from kmdr.datasets.file_options import FileOptions
from kmdr.datasets.formats import readers as formats
from kmdr.datasets.formats import tables
from kmdr.datasets.formats.profile import lines, profile

BIG = 2**53
SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
NO_LABEL = ("", "NA", "NaN", "?", "null")
quickly = settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KMDR_DATA", raising=False)
    monkeypatch.chdir(tmp_path)


def write(name, text):
    with open(name, "w", encoding="utf-8", newline="") as file:  # noqa: PTH123
        file.write(text)
    return name


def partition(values):
    """Return the first place of each value: equal for two lists that tell the same points apart."""
    values = list(values)
    return [values.index(value) for value in values]


words = st.text(alphabet=string.ascii_letters + string.digits + " .,;|'\"-+é#", min_size=1, max_size=5)
labels = st.one_of(
    st.integers(-3, 12).map(str),
    st.integers(BIG - 2, BIG + 4).map(str),
    st.integers(2**63 - 2, 2**64 + 2).map(str),
    st.sampled_from(["1", "01", "1.0", "+1", "1e0", "True", "TRUE", "true", "None", "none", "yes", "Yes", "a b"]),
    st.floats(-3, 3, allow_nan=False).map(str),
    words.map(str.strip).filter(lambda word: word and word not in tables._NO_LABEL),
)
numbers = st.one_of(
    st.integers(-(10**6), 10**6).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["007", "1e3", "-0.0", "+2", " 4", ".5", "5."]),
)


@st.composite
def labelled(draw):
    """Return cells of a table with a header, the place of its labels, and how it is written."""
    n, d = draw(st.integers(3, 8)), draw(st.integers(1, 4))
    kind = draw(st.sampled_from([labels, st.integers(BIG - 2, BIG + 4).map(str), st.integers(0, 4).map(str)]))
    at = draw(st.integers(0, d))
    rows = [["label" if j == at else f"x{j}" for j in range(d + 1)]]
    for _ in range(n):
        label = draw(st.one_of(kind, st.sampled_from(NO_LABEL)) if draw(st.booleans()) else kind)
        feature = st.one_of(numbers, numbers, numbers, st.just("")) if d > 1 else numbers
        rows.append([label if j == at else draw(feature) for j in range(d + 1)])
    written = {
        "delimiter": draw(st.sampled_from(list(SEPARATORS))),
        "quoting": draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])),
        "lineterminator": draw(st.sampled_from(["\n", "\r\n"])),
    }
    return rows, at, written, draw(st.booleans())


@quickly
@given(labelled())
def test_points_and_classes_are_those_of_the_cells(table):
    rows, at, written, mark = table
    text = io.StringIO()
    csv.writer(text, **written).writerows(rows)
    name = write("a.csv", "\ufeff" * mark + text.getvalue())
    with open(name, encoding="utf-8-sig", newline="") as file:  # noqa: PTH123
        _, *cells = csv.reader(file, delimiter=written["delimiter"])
    kept = [row for row in cells if row[at].strip() not in NO_LABEL and all(row[:at] + row[at + 1 :])]
    assume(len(kept) >= 2)
    options = {"separator": SEPARATORS[written["delimiter"]], "decimal": "point", "missing": "drop"}
    A, coded, features = formats.read(name, **options)
    assert features == tuple(name for j, name in enumerate(rows[0]) if j != at)
    assert A.tolist() == [[float(cell) for j, cell in enumerate(row) if j != at] for row in kept]
    assert partition(coded) == partition(row[at].strip() for row in kept)
    (classes,) = profile(formats.read_content(FileOptions(name, **options))).labelings
    assert sum(count for _, count in classes) == sum(row[at].strip() not in NO_LABEL for row in cells)


@quickly
@given(st.lists(labels, min_size=3, max_size=12), st.booleans(), st.sampled_from([".txt", ".csv", ".npy"]))
def test_classes_of_a_file_of_labels_are_those_of_its_lines(texts, named, suffix):
    np.save("a.npy", np.arange(2.0 * len(texts)).reshape(-1, 2))
    name = f"labels{suffix}"
    if suffix == ".npy":
        np.save(name, texts)
    elif suffix == ".csv":
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([["class of it"]] * named + [[label] for label in texts])
        # A separator in every line makes columns of it.
        assume(not any(all(sign in label for label in texts) for sign in SEPARATORS))
        write(name, text.getvalue())
    else:
        write(name, "\n".join(["class of it"] * named + texts))
    assert partition(formats.read("a.npy", labels=name)[1]) == partition(texts)


integers, decimals = st.integers(-5, 3000).map(str), st.floats(-100, 100, allow_nan=False).map(repr)


@st.composite
def unlabelled(draw):
    """Return the names of columns, or None, and the cells of a table whose first line may be taken for the other."""
    d = draw(st.sampled_from([1, 2, 3, 4, 7, 12]))
    cell = draw(st.sampled_from([integers, decimals, st.integers(0, d).map(str)]))
    rows = draw(st.lists(st.lists(cell, min_size=d, max_size=d), min_size=2, max_size=6))
    first = draw(st.integers(0, 2000))
    names = draw(
        st.sampled_from(
            [
                None,
                [str(j) for j in range(d)],
                [str(2001 + j) for j in range(d)] if d > 2 else [f"c{j}" for j in range(d)],
                [f"c{j}" for j in range(d)],
            ]
        )
    )
    if names is None and d < 8 and cell is not decimals and draw(st.booleans()):
        rows[0] = [str(first * draw(st.integers(0, 1)) + j) for j in range(d)]
    return names, rows


@quickly
@given(unlabelled())
def test_no_point_is_lost_or_made_of_the_header_unseen(table):
    names, rows = table
    d = len(rows[0])
    goes_on = all(row == [str(i * d + j) for j in range(d)] for i, row in enumerate(rows, 1))
    assume(names is None or not goes_on)
    text = io.StringIO()
    csv.writer(text).writerows([names] * (names is not None) + rows)
    name = write("a.csv", text.getvalue())
    expected = [[float(cell) for cell in row] for row in rows]
    try:
        assert formats.read(name)[0].tolist() == expected
    except UserError as refusal:
        assert "dataset.header=true" in str(refusal)  # noqa: PT017
        assert "dataset.header=false" in str(refusal)  # noqa: PT017
        header = "false" if names is None else "true"
        assert formats.read(name, header=header)[0].tolist() == expected


# --- labels


@pytest.mark.parametrize("missing", ["refuse", "drop"])
def test_integers_beyond_2_to_the_53_stay_apart(missing):
    table = f"x,label\n1,{BIG}\n2,{BIG + 1}\n3,{BIG}\n4,{BIG + 1}\n" + "5,\n" * (missing == "drop")
    data = datasets.load("file", {"path": write("a.csv", table), "missing": missing})
    assert data.labels.tolist() == [0, 1, 0, 1]
    book = openpyxl.Workbook()
    for row in csv.reader(table.splitlines()):
        book.active.append([int(row[0]) if row[0].isdecimal() else row[0], row[1] or None])  # numbers are float64 in it
    book.save("a.xlsx")
    assert formats.read("a.xlsx", missing=missing)[1].tolist() == [0, 1, 0, 1]


def test_integers_beyond_2_to_the_53_stay_apart_in_parquet(tmp_path):
    pytest.importorskip("pyarrow.parquet", reason="the extra 'parquet' is not installed")
    frame = pd.DataFrame({"x": np.arange(5.0), "label": pd.array([BIG, BIG + 1, BIG, BIG + 1, None], "Int64")})
    frame.to_parquet("a.parquet")
    assert formats.read("a.parquet", missing="drop")[1].tolist() == [0, 1, 0, 1]
    (tmp_path / "parts").mkdir()
    frame[:2].to_parquet("parts/1.parquet")
    frame[2:].to_parquet("parts/2.parquet")
    assert formats.read("parts", missing="drop")[1].tolist() == [0, 1, 0, 1]
    np.save("b.npy", np.eye(4))
    frame[:4][["label"]].to_parquet("y.parquet")
    assert formats.read("b.npy", labels="y.parquet")[1].tolist() == [0, 1, 0, 1]


def test_integers_beyond_2_to_the_53_stay_apart_in_memory_and_are_refused_in_svmlight():
    assert validation.codes([BIG, BIG + 1, 0.5], "x").max() == 2
    assert validation.codes(np.array([2**64 - 1, 2**64 - 2], np.uint64), "x").tolist() == [1, 0]
    write("a.svm", f"{BIG} 1:1\n{BIG + 1} 1:2\n")
    with pytest.raises(UserError, match=r"labels of 2\^53 or more"):
        formats.read("a.svm")


def test_the_usual_labels_are_in_the_order_of_their_numbers():
    write("a.csv", "x,label\n1,10\n2,9\n3,\n4,10\n")
    assert formats.read("a.csv", missing="drop")[1].tolist() == [1, 0, 1]
    content = formats.read_content(FileOptions("a.csv", missing="drop"))
    assert content.labelled == "column 'label', 1 without a label,"
    assert dict(lines(profile(content)))["labels"] == "2 classes: 10 2, 9 1"
    write("b.csv", "x,label\n1,10.0\n2,9.0\n3,9.5\n")
    assert formats.read("b.csv")[1].tolist() == [2, 0, 1]


def test_labels_that_differ_in_how_they_are_written_are_named():
    content = formats.read_content(FileOptions(write("a.csv", "x,label\n1,True\n2,TRUE\n3,no\n")))
    assert "labels 'TRUE' and 'True' are different classes" in content.warnings[0]
    content = formats.read_content(FileOptions(write("b.csv", "x,label\n1,01\n2,1\n3,no\n"), drop=[]))
    assert "labels '01' and '1' are different classes" in content.warnings[0]
    assert not formats.read_content(FileOptions(write("c.csv", "x,label\n1,1\n2,2\n"))).warnings


def test_none_is_a_class_and_na_is_no_label():
    write("a.csv", "x,label\n1,None\n2,mild\n3,None\n")
    assert formats.read("a.csv")[1].tolist() == [0, 1, 0]
    write("b.csv", "x,label\n1,NA\n2,mild\n3,None\n")
    with pytest.raises(UserError, match="missing at row 0"):
        formats.read("b.csv")


def test_codes_of_categories_must_be_in_range():
    for codes, said in (([0, 1, -2], "from -2 to 1"), ([0, 1, 2], "from 0 to 2")):
        with h5py.File("a.h5ad", "w") as file:
            file["X"] = np.eye(3)
            kind = file.create_group("obs").create_group("kind")
            kind["codes"], kind["categories"] = np.array(codes, "i1"), ["a", "b"]
        with pytest.raises(UserError, match=rf"kind of a\.h5ad has codes {said}, but 2 categories"):
            formats.read("a.h5ad", label="kind")


def test_a_file_of_labels_with_a_line_too_many_is_not_shifted():
    np.save("a.npy", np.eye(4))
    write("y.txt", "1\n1\n2\n1\n2\n")
    with pytest.raises(
        UserError, match=r"y\.txt has 5 lines for 4 points, and the first line, '1', is one of the labels"
    ):
        formats.read("a.npy", labels="y.txt")
    pd.Series([0, 1, 0, 1]).to_csv("y.csv", index=False)  # its header is 0
    assert formats.read("a.npy", labels="y.csv")[1].tolist() == [0, 1, 0, 1]


# --- columns of one name


@pytest.mark.parametrize("suffix", ["csv", "xlsx"])
def test_columns_of_one_name_are_told_apart_or_refused(suffix):
    def table(rows):
        if suffix == "csv":
            return write("a.csv", "\n".join(",".join(map(str, row)) for row in rows) + "\n")
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append(row)
        book.save("a.xlsx")
        return "a.xlsx"

    with pytest.raises(UserError, match="has 2 columns named 'label', so it is not clear which one holds the labels"):
        formats.read(table([["x", "label", "label"], [1, 2, 3], [4, 5, 6]]))
    with pytest.raises(UserError, match="has 2 columns named 'kind'"):
        formats.read(table([["kind", "x", "kind"], [1, 2, 3], [4, 5, 6]]), label="kind")
    name = table([["x", "x", "x.1", "label"], [1, 2, 3, "a"], [4, 5, 6, "b"]])
    A, _, features = formats.read(name)
    assert (A.tolist(), features) == ([[1, 2, 3], [4, 5, 6]], ("x [0]", "x [1]", "x.1"))
    assert "columns of the same name renamed to 'x [0]', 'x [1]'" in formats.read_content(FileOptions(name)).form
    assert formats.read(name, drop=["x [0]"])[2] == ("x [1]", "x.1")
    with pytest.raises(UserError, match="is named 'x'"):
        formats.read(name, drop=["x"])


def test_a_second_column_of_labels_that_pandas_renamed_is_named():
    write("a.csv", "x,label,label.1\n1,2,2\n3,4,4\n")
    (warning,) = formats.read_content(FileOptions("a.csv")).warnings
    assert "column 'label.1' looks like a second column of labels" in warning
    assert not formats.read_content(FileOptions("a.csv", drop=["label.1"])).warnings


def test_features_of_one_name_are_not_dropped_by_it():
    np.savez("a.npz", X=np.eye(3), feature_names=["x", "x", "z"])
    with pytest.raises(UserError, match="has 2 columns named 'x', so it is not clear which one is meant"):
        formats.read("a.npz", drop=["x"])
    assert formats.read("a.npz", drop=["z"])[2] == ("x", "x")


# --- the first line


@pytest.mark.parametrize(
    ("text", "options", "named"),
    [
        ("0,1,2\n5,6,7\n8,9,9\n", {}, None),
        ("0,1\n5,6\n8,9\n", {}, None),
        ("2001,2002\n5,6\n8,9\n", {}, None),
        ("2001,2002,2003\n5,6,7000\n8,9,9\n", {}, None),
        ("400.5,401.0,401.5\n5.5,6.1,7.2\n8.5,9.1,9.2\n", {}, None),
        (",0,1\n0,5,6\n1,8,9\n", {}, True),
        (",0,1\n5,5,6\n7,8,9\n", {}, None),
        ('"0","1","2"\n5,6,7\n8,9,9\n', {}, True),
        ("0,1,2\n" + "5.5,6.5,7.5\n8.5,9.5,9.5\n" * 3, {}, True),
        ("0,1,2,3,4,5,6,7\n" + "5,6,7,7,7,8,9,9\n" * 3, {}, True),
        ("0,1,2,3,4,5,6,7\n" + "7,6,5,4,3,2,1,0\n" * 3, {}, None),
        ("5,3,1\n5,6,7\n8,9,9\n", {}, False),
        ("5.1,3.5,a\n4.9,3.0,b\n", {}, False),
        ("1,2,a\n3,4,b\n3,5,c\n", {}, None),
        ("1,2,a\n3,4,b\n3,5,a\n", {}, False),
        ("id,7157,672\n1,3.5,4.25\n2,3.1,5.5\n", {}, None),
        ("gene,7157,672\na,3.5,4.25\nb,3.1,5.5\n", {}, None),
        ("1,2,kind\n3,4,b\n3,5,c\n", {"label": "kind"}, True),
        ("1,2,label\n3,4,b\n3,5,c\n", {}, True),
        ("p,x\nq,x\np,y\n", {"encode": "onehot"}, False),
        ("RI,Na\n1.5,2\n3,4\n", {}, True),
    ],
)
def test_the_reading_of_the_first_line_is_stated_or_asked_for(text, options, named):
    write("a.csv", text)
    if named is None:
        with pytest.raises(UserError, match=r"first line of a\.csv .*dataset.header=true .*dataset.header=false"):
            formats.read_content(FileOptions("a.csv", **options))
        assert "names the columns" in formats.read_content(FileOptions("a.csv", header="true", **options)).form
        assert "is a point" in formats.read_content(FileOptions("a.csv", header="false", **options)).form
    else:
        said = "the first line names the columns" if named else "the first line is a point"
        assert said in formats.read_content(FileOptions("a.csv", **options)).form


# --- features


def test_integers_that_are_rounded_are_named():
    for gap in ("", "3,\n"):
        content = formats.read_content(FileOptions(write("a.csv", f"x,n\n1,{BIG + 1}\n2,5\n{gap}")))
        assert "column 'n' has integers of 2^53 or more" in content.warnings[0]
    assert not formats.read_content(FileOptions(write("b.csv", "x,n\n1,1e300\n2,5\n"))).warnings
    np.save("a.npy", np.array([[BIG + 1, 2], [3, 4]]))
    assert "a.npy has integers of 2^53 or more" in formats.read_content(FileOptions("a.npy")).warnings[0]
    A = sp.csr_array([[BIG + 1, 0], [3, 4]])
    sp.save_npz("a.npz", A)
    scipy.io.mmwrite("a.mtx", A)
    for name in ("a.npz", "a.mtx"):
        assert f"{name} has integers of 2^53 or more" in "".join(formats.read_content(FileOptions(name)).warnings)


def of_format(kind, rows):
    return sp.csr_array(rows).asformat(kind)


@pytest.mark.parametrize("make", [
    np.array, np.uint64, pd.DataFrame, lambda rows: pd.DataFrame(rows, dtype="Int64"),
    *(partial(of_format, kind) for kind in ("csr", "csc", "coo", "bsr", "lil", "dok", "dia")),
])  # fmt: skip
def test_integers_in_memory_that_are_rounded_are_named(make):
    with pytest.warns(UserWarning, match=r"has integers of 2\^53 or more, which are rounded"):
        datasets.from_arrays(make([[BIG + 1, 0, 7], [3, 4, 7]]), k=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        datasets.from_arrays(make([[BIG - 1, 0, 7], [3, 4, 7]]), k=2)


def test_a_comma_that_may_separate_thousands_is_asked_for():
    write("a.csv", "x;y\n1,234;5,678\n2,345;3,456\n")
    with pytest.raises(UserError, match=r"the comma in '1,234' of a\.csv may separate decimals or thousands"):
        formats.read("a.csv")
    assert formats.read("a.csv", decimal="comma")[0].tolist() == [[1.234, 5.678], [2.345, 3.456]]
    write("b.csv", "x;y\n0,234;5,678\n2,345;3,456\n")
    assert formats.read("b.csv")[0].tolist() == [[0.234, 5.678], [2.345, 3.456]]


def test_a_short_line_of_a_table_of_spaces_is_refused():
    write("a.txt", "a b c\n1 2 3\n4 5\n6 7 8\n")  # the value of any column may be missing
    with pytest.raises(UserError, match=r"line 3 of a\.txt has 2 cells, but the first has 3"):
        formats.read("a.txt", missing="mean")


def test_empty_rows_above_a_sheet_are_skipped():
    book = openpyxl.Workbook()
    for row in ([None, None], ["x", "label"], [1, "a"], [2, "b"]):
        book.active.append(row)
    book.save("a.xlsx")
    A, coded, features = formats.read("a.xlsx")
    assert (A.tolist(), coded.tolist(), features) == ([[1], [2]], [0, 1], ("x",))


def test_values_of_text_are_the_same_in_every_part_of_a_long_table():
    # pandas reads long tables in pieces, and would make numbers of the text in some of them.
    codes = ["01"] * 300_000 + ["x", "01"]
    pd.DataFrame({"code": codes, "v": 0.5}).to_csv("a.csv", index=False)
    A, _, features = formats.read("a.csv", encode="onehot")
    assert features == ("code=01", "code=x", "v")
    assert math.isclose(A[:, 0].sum(), 300_001)
