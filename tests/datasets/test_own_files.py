"""A user's file is looked at first: what is understood, what is warned of, and what each option makes of it."""

import bz2
import gzip
import re
import shlex
import shutil
import sys
import warnings
from pathlib import Path

import h5py
import numpy as np
import openpyxl
import pandas as pd
import pytest
import scipy.io
import scipy.sparse
from PIL import Image
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import kmdr
import own_files
from kmdr import datasets
from kmdr.base.errors import UserError
from kmdr.cli.commands import main
from kmdr.datasets import check_file, readme, registry
from kmdr.datasets.dataset_options import checked_options
from kmdr.datasets.file_options import AUTO, TEXTS, FileOptions
from kmdr.datasets.formats import readers as formats
from kmdr.datasets.formats import tables
from kmdr.datasets.formats.common import Content
from kmdr.datasets.formats.profile import lines, profile, scale_hint
from kmdr.harness.jobs import compose

A = np.array([[0.5, 2.0, 7.0], [1.5, 2.5, -3.0], [2.25, 4.0, 0.0], [9.0, -1.0, 1.0], [3.0, 3.5, 2.0]])
KINDS = ["b", "a", "b", "c", "a"]
CODED = [1, 0, 1, 2, 0]


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KMDR_DATA", raising=False)
    monkeypatch.chdir(tmp_path)


def load(path, **options):
    return datasets.load("file", {"path": str(path), **options})


def text(name, content):
    with open(name, "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(content)
    return name


def read(name, **options):
    B, labels, features = formats.read(name, **options)
    return B.tolist(), None if labels is None else labels.tolist(), features


def command(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["kmdr", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    out, err = capsys.readouterr()
    return stop.value.code, out, err


# --- files as people have them


@pytest.mark.slow
def test_each_of_twelve_files_is_right_at_once_or_names_the_setting(tmp_path, rng, capsys):
    for file in own_files.write(tmp_path, rng):
        first, right = (
            compose(
                "dataset=file", f"dataset.path={file.file}", *settings, "reducer=svd", "r_grid=[2]", "out=o"
            ).experiments[0].options
            for settings in ((), file.needed)
        )  # fmt: skip
        said = ""
        try:
            datasets.prepare("file", first)
        except UserError as error:
            said = str(error)
        said += capsys.readouterr().err
        if file.said:
            assert re.search(file.said, said), (file.file, said)
            assert max(map(len, said.splitlines())) < 400
        else:
            assert "looks like" not in said
        data = datasets.load("file", right)
        B, expected = (M.toarray() if scipy.sparse.issparse(M) else M for M in (data.A, file.A))
        np.testing.assert_allclose(B, expected, rtol=1e-15, err_msg=file.file)
        assert data.labels.tolist() == own_files.CLASSES.tolist()


def test_a_warning_is_told_each_time_and_what_was_understood_once(tmp_path, capsys):
    pd.DataFrame(A, columns=list("xyz")).assign(label=KINDS).to_csv("a.csv")
    for said in (2, 1, 1):
        load("a.csv")
        err = capsys.readouterr().err.splitlines()
        assert len(err) == said
        assert "column 'Unnamed: 0' looks like an index" in err[-1]
    load("a.csv", drop=["Unnamed: 0"])
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        "kmdr: note: a.csv: 5 x 3, float64; read as text, separator comma, decimal point, the first line names the "
        "columns; column 'label' has 3 classes: a 2, b 2, c 1"
    )


# --- looking


def frame_profile(frame, labels=None):
    return profile(Content(frame, labels))


def test_profile_is_what_pandas_says(rng):
    frame = pd.DataFrame(rng.standard_normal((50, 4)) * [1, 10, 100, 1000], columns=list("abcd"))
    frame["same"], frame["twin"], frame["text"] = 3.0, frame["b"], rng.choice(["u", "v", None], 50)
    frame.loc[[4, 9], "c"] = np.nan
    frame = pd.concat([frame, frame.iloc[[7, 7, 20]]], ignore_index=True)
    seen = frame_profile(frame, rng.choice(["x", "y"], 53))
    assert (seen.n, seen.d, seen.text) == (*frame.shape, {"text": frame["text"].nunique()})
    assert seen.missing == {name: count for name, count in frame.isna().sum().items() if count}
    assert seen.constant == [name for name in frame if frame[name].nunique(dropna=False) == 1]
    assert seen.repeated == [("twin", "b")]
    assert seen.repeated_rows == frame.duplicated().sum() == 3
    spread = frame[list("abcd")].std(ddof=0)
    np.testing.assert_allclose(seen.deviations, (spread.min(), spread.max()))
    assert "dataset.scale=standard" in scale_hint(seen)
    assert [sum(count for _, count in labeling) for labeling in seen.labelings] == [53]
    assert {about for about, _ in lines(seen)} == {
        "points", "labels", "columns", "text", "missing", "constant", "repeated", "scale"
    }  # fmt: skip


def test_profile_of_sparse_and_of_mapped_data_is_that_of_the_array(rng, tmp_path, monkeypatch):
    dense = rng.poisson(0.6, (40, 9)).astype(float)
    dense[:, 3], dense[:, 5], dense[11], dense[12, 0] = 0, dense[:, 2], dense[30], -0.0
    expected = profile(Content(dense))
    assert (expected.constant, expected.repeated) == (["3"], [("5", "2")])
    assert expected.repeated_rows == len(dense) - len(np.unique(dense, axis=0))
    sparse = profile(Content(scipy.sparse.csr_array(dense)))
    monkeypatch.setattr("kmdr.datasets.validation._BLOCK_BYTES", 200)
    np.save("a.npy", dense)
    mapped = profile(formats.read_content(FileOptions("a.npy")))
    for other in (sparse, mapped):
        assert other.constant == expected.constant
        assert other.repeated == expected.repeated
        assert other.repeated_rows == expected.repeated_rows
        np.testing.assert_allclose(other.deviations, expected.deviations)


@pytest.mark.parametrize(
    ("name", "values", "warned"),
    [
        ("Unnamed: 0", range(9), True),
        ("PassengerId", [4, 4, 1, 9, 2, 0, 0, 0, 1], True),
        ("customer_id", [4, 4, 1, 9, 2, 0, 0, 0, 1], True),
        ("Unnamed: 3", [3, 1, 2, 4, 5, 6, 7, 9, 8], False),
        ("index", [3, 1, 2, 4, 5, 6, 7, 9, 8], True),
        ("year", range(1990, 1999), True),  # rises by one
        ("stock", [1, 3, 9, 10, 30, 31, 40, 50, 77], True),  # whole and rising
        ("falling", range(9, 0, -1), True),
        ("weight", [1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5], False),
        ("count", [1, 2, 2, 3, 4, 5, 6, 7, 8], False),
        ("humid", [3, 1, 2, 4, 5, 6, 7, 9, 8], False),
        ("width", [3, 1, 2, 4, 5, 6, 7, 9, 8], False),
    ],
)
def test_identifiers_are_seen_by_name_or_by_rising(name, values, warned):
    frame = pd.DataFrame({"x": [0.3, 0.1] * 4 + [0.0], name: list(values)})
    assert frame_profile(frame).identifiers == ([name] if warned else [])
    sorted_points = np.array(list(values), float)[:, None]
    by_order = warned and sorted(values) in (list(values), list(values)[::-1]) and len(set(values)) == 9
    assert profile(Content(sorted_points)).identifiers == (["0"] if by_order else [])


def test_a_column_that_is_likely_the_classes_is_told(capsys):
    pd.DataFrame(A, columns=list("xyz")).assign(Class=CODED).to_csv("a.csv", index=False)
    load("a.csv", k=2)
    err = capsys.readouterr().err
    assert "column 'Class' may hold the classes but is a feature; set dataset.label=Class" in err
    assert "'y'" not in err  # a coordinate beside x
    load("a.csv", label="Class")
    assert "may hold" not in capsys.readouterr().err


def test_data_check_tells_files_from_datasets(monkeypatch, capsys, tmp_path):
    pd.DataFrame(A, columns=list("xyz")).assign(kind=KINDS).to_csv("a.csv", index=False, sep=";")
    code, out, err = command(monkeypatch, capsys, "data", "check", "a.csv")
    assert (code, err) == (1, "")
    assert out.splitlines()[0] == "a.csv: text, separator semicolon, decimal point, the first line names the columns"
    assert "  points   5 x 4, 3 float64, 1 text" in out.splitlines()
    assert "refused  column 'kind' of a.csv" in out
    code, out, err = command(monkeypatch, capsys, "data", "check", "a.csv", "dataset.label=kind", "drop=[y]")
    assert (code, err) == (0, "")
    assert "labels   column 'kind': 3 classes: a 2, b 2, c 1" in out
    (run,) = [line for line in out.splitlines() if line.startswith("  run")]
    words = shlex.split(run)[1:]
    assert words[:4] == ["kmdr", "-m", "dataset=file", "dataset.path=a.csv"]
    assert (
        datasets.load("file", compose(*words[2:-2], "reducer=none", words[-1]).experiments[0].options).A.tolist()
        == A[:, [0, 2]].tolist()
    )
    code, out, err = command(monkeypatch, capsys, "data", "check", "b.csv", "a.csv")
    assert code == 1
    assert "there is no file" in err
    assert out.startswith("a.csv: ")
    # A folder of a dataset's name is the dataset; with a slash it is the folder.
    (tmp_path / "usps").mkdir()
    assert command(monkeypatch, capsys, "data", "check", "usps")[:2] == (0, "the cache is empty\n")
    assert (
        "is a folder; name a regular file, or a folder of images"
        in command(monkeypatch, capsys, "data", "check", "./usps")[2]
    )
    for words, said in (
        (("usps", "a.csv"), "one after the other"), (("a.csv", "--repair"), "'--repair'"),
        (("k=2",), "settings only"), (("a.csv", "sep=;"), "did you mean"), (("uspss",), "did you mean 'usps'"),
    ):  # fmt: skip
        code, _, err = command(monkeypatch, capsys, "data", "check", *words)
        assert code == 2
        assert said in err


# --- text: separator, decimal sign, first line


@pytest.mark.parametrize(
    ("content", "options", "expected"),
    [
        ("a,b\n1,2\n3,4\n", {}, ([[1, 2], [3, 4]], ("a", "b"))),
        ("a;b\n1,5;2\n3;4,25\n", {}, ([[1.5, 2], [3, 4.25]], ("a", "b"))),
        ("1,5;2,5\n3,5;4,5\n", {}, ([[1.5, 2.5], [3.5, 4.5]], ("0", "1"))),
        ("a\tb\n1\t2\n3\t4\n", {}, ([[1, 2], [3, 4]], ("a", "b"))),
        ("a|b\n1|2\n3|4\n", {}, ([[1, 2], [3, 4]], ("a", "b"))),
        ("  1.0   2.0\n 3.5 4\n", {}, ([[1, 2], [3.5, 4]], ("0", "1"))),
        ("a b\n1,5 2\n3 4\n", {}, ([[1.5, 2], [3, 4]], ("a", "b"))),
        ("a, b\n1, 2\n3, 4\n", {}, ([[1, 2], [3, 4]], ("a", "b"))),
        ("\ufeffa,b\r\n1,2\r\n3,4\r\n", {}, ([[1, 2], [3, 4]], ("a", "b"))),
        ('"a;x";"b"\n1;2\n3;4\n', {}, ([[1, 2], [3, 4]], ("a;x", "b"))),
        # comments before it, the last of which may be the names
        ("# made by hand\na,b\n1,2\n3,4\n", {}, ([[1, 2], [3, 4]], ("a", "b"))),
        ("# a b\n1 2\n3 4\n", {}, ([[1, 2], [3, 4]], ("a", "b"))),
        ("#a,b\n1,2\n3,4\n", {}, ([[1, 2], [3, 4]], ("a", "b"))),
        # as pandas writes a matrix, with its index and without
        (",0,1,2\n0,5,6,7\n1,8,9,9\n", {"drop": ["Unnamed: 0"]}, ([[5, 6, 7], [8, 9, 9]], ("0", "1", "2"))),
        ("0,1,2\n5.5,6,7\n8,9,9\n", {"header": "true"}, ([[5.5, 6, 7], [8, 9, 9]], ("0", "1", "2"))),
        ("0,1,2\n3,4,5\n6,7,8\n", {}, ([[0, 1, 2], [3, 4, 5], [6, 7, 8]], ("0", "1", "2"))),
        ("0,1,2\n5.5,6,7\n8,9,9\n", {"header": "false"}, ([[0, 1, 2], [5.5, 6, 7], [8, 9, 9]], ("0", "1", "2"))),
        ("7,1\n3,4\n", {"header": "true"}, ([[3, 4]], ("7", "1"))),
        ("1,5\n2,5\n", {"separator": "semicolon", "decimal": "comma"}, ([[1.5], [2.5]], ("0",))),
        ("1,?\n2,3\nNA,1\n", {"missing": "drop"}, ([[2, 3]], None)),
    ],
)
def test_text_is_understood(content, options, expected):
    if options.get("missing"):
        with pytest.raises(UserError, match=r"1 rows of a\.csv have a value in each column; set dataset.missing=mean"):
            formats.read(text("a.csv", content), **options)
        return
    assert read(text("a.csv", content), **options)[::2] == expected


def test_a_first_line_of_numbers_and_a_class_is_a_point():
    iris = "5.1,3.5,setosa\n4.9,3.0,setosa\n6.3,3.3,virginica\n"
    assert read(text("iris.data", iris), label="2") == ([[5.1, 3.5], [4.9, 3.0], [6.3, 3.3]], [0, 0, 1], ("0", "1"))
    once = "5.1,3.5,one\n4.9,3.0,two\n6.3,3.3,three\n"
    assert read(text("once.csv", once), label="2")[1] == [0, 2, 1]
    years = "country,1990,1991\nx,3.4,2.2\ny,1.5,2.0\n"
    assert read(text("years.csv", years), label="country") == ([[3.4, 2.2], [1.5, 2.0]], [0, 1], ("1990", "1991"))
    numbered = "0,1,label\n3.4,2.2,u\n1.5,2.0,v\n"
    assert read(text("numbered.csv", numbered)) == ([[3.4, 2.2], [1.5, 2.0]], [0, 1], ("0", "1"))


def test_text_with_spaces_is_a_table_and_svmlight_stays_what_it_is():
    np.savetxt("a.txt", A)
    assert np.array_equal(formats.read("a.txt")[0], A)
    B, labels, _ = formats.read(text("b.txt", "1 1:2 3:4\n2 2:5\n"))
    assert (B.toarray().tolist(), labels.tolist()) == ([[2, 0, 4], [0, 5, 0]], [0, 1])


def test_a_table_of_another_encoding_is_read_and_says_so(tmp_path):
    (tmp_path / "a.csv").write_bytes("größe;höhe\n1,5;2\n3;4\n".encode("cp1252"))
    content = formats.read_content(FileOptions("a.csv"))
    assert list(content.A.columns) == ["größe", "höhe"]
    assert "not UTF-8, so read as Windows-1252" in content.form


# --- options


def table(**columns):
    pd.DataFrame(A, columns=list("xyz")).assign(label=KINDS, **columns).to_csv("t.csv", index=False)
    return "t.csv"


def test_columns_are_chosen_by_name_or_by_number():
    name = table()
    assert read(name, drop=["y"]) == (A[:, [0, 2]].tolist(), CODED, ("x", "z"))
    assert read(name, columns=["z", "x"]) == (A[:, [0, 2]].tolist(), CODED, ("x", "z"))
    assert read(name, columns=["x", "y"], drop=["y"])[2] == ("x",)
    assert read(name, drop=["label"]) == (A.tolist(), None, ("x", "y", "z"))
    for path, save in (("a.npy", lambda p: np.save(p, A)), ("a.mat", lambda p: scipy.io.savemat(p, {"X": A}))):
        save(path)
        assert read(path, drop=["1"]) == (A[:, [0, 2]].tolist(), None, ("0", "2"))
    scipy.sparse.save_npz("s.npz", scipy.sparse.csr_array(A))
    B, _, features = formats.read("s.npz", columns=["2"])
    assert (B.toarray().tolist(), features) == (A[:, 2:].tolist(), ("2",))
    with pytest.raises(
        UserError, match=r"no column of t\.csv is named 'w'; did|no column of t\.csv is named 'w'; valid"
    ):
        formats.read(name, drop=["w"])
    with pytest.raises(UserError, match=r"no column of t\.csv is left"):
        formats.read(name, drop=["x", "y", "z"])


def test_text_becomes_columns_of_its_values():
    name = table(site=["n", "s", None, "n", "n"], on=[True, False, True, True, False])
    with pytest.raises(UserError, match=r"column 'site' of t\.csv .*'n', 's'\); set 'dataset.drop=\[site\]'"):
        formats.read(name)
    B, _, features = formats.read(name, encode="onehot", drop=["on"])
    assert features == ("x", "y", "z", "site=n", "site=s")
    np.testing.assert_array_equal(B[:, 3:], [[1, 0], [0, 1], [np.nan, np.nan], [1, 0], [1, 0]])
    B, _, _ = formats.read(name, encode="onehot", columns=["site"], missing="mean")
    assert B[2].tolist() == [0.75, 0.25]
    with pytest.raises(UserError, match=r"a different value in each row, like a name; omit it: 'dataset.drop=\[who\]'"):
        formats.read(table(who=list("vwxyz")), encode="onehot")


def test_missing_values_become_means_or_the_row_goes(capsys):
    B = A.copy()
    B[1, 0] = B[1, 2] = B[4, 2] = np.nan
    pd.DataFrame(B, columns=list("xyz")).assign(label=KINDS).to_csv("m.csv", index=False)
    with pytest.raises(
        UserError, match=r"m\.csv: the matrix has NaN .* row 1, counted from 0, column 'x'; .*missing=mean"
    ):
        load("m.csv")
    filled = pd.DataFrame(B).fillna(pd.DataFrame(B).mean()).to_numpy()
    np.testing.assert_allclose(load("m.csv", missing="mean").A, filled, rtol=1e-15)
    data = load("m.csv", missing="drop")
    assert (data.A.tolist(), data.labels.tolist()) == (A[[0, 2, 3]].tolist(), [0, 0, 1])
    said = capsys.readouterr().err.splitlines()
    assert said[1::2] == [
        "kmdr: note: m.csv: missing: 3 values, in x (1), z (2)",
        "kmdr: note: m.csv: missing: 3 values, in x (1), z (2); used as 3 x 3",
    ]
    assert formats.read("m.csv", missing="drop")[0].shape == (3, 3)
    np.savez("m.npz", X=B, y=KINDS)
    np.save("m.npy", B)
    np.testing.assert_allclose(load("m.npz", missing="mean").A, filled, rtol=1e-15)
    assert load("m.npy", missing="drop", k=2).A.shape == (3, 3)
    B[:, 1] = np.nan
    np.save("m.npy", B)
    with pytest.raises(UserError, match=r"column '1' of m\.npy has no values; omit it: 'dataset.drop=\[1\]'"):
        load("m.npy", missing="mean", k=2)
    B[:, 1], B[0, 1] = 0, np.inf
    np.save("m.npy", B)
    with pytest.raises(UserError, match=r"infinite value at row 0.* or drop the row$"):  # which is no missing one
        load("m.npy", missing="mean", k=2)


def test_scale_is_that_of_sklearn_and_unit_is_the_option_of_rows(rng):
    X = rng.standard_normal((30, 3)) * [1, 50, 1000] + 7
    np.save("s.npy", X)
    np.testing.assert_allclose(load("s.npy", k=2, scale="standard").A, StandardScaler().fit_transform(X))
    np.testing.assert_allclose(load("s.npy", k=2, scale="minmax").A, MinMaxScaler().fit_transform(X))
    np.testing.assert_allclose(np.linalg.norm(load("s.npy", k=2, scale="unit").A, axis=1), 1)
    options = {"path": "s.npy", "k": 2}
    assert datasets.prepare("file", {**options, "scale": "unit"}) == datasets.prepare(
        "file", {**options, "rows": "unit"}
    )


def test_a_sparse_matrix_is_not_made_dense():
    scipy.sparse.save_npz("s.npz", scipy.sparse.csr_array(A))
    for option, value in (("scale", "standard"), ("missing", "mean")):
        with pytest.raises(UserError, match=rf"option {option} is '{value}', but s\.npz is sparse"):
            formats.read("s.npz", **{option: value})


def test_variables_of_other_names_can_be_named():
    held = {"dtm": A, "classid": np.array(CODED)[:, None], "other": np.eye(2)}
    scipy.io.savemat("a.mat", held)
    np.savez("a.npz", **held, none=[9, 9, 9, 1, 1])
    with h5py.File("a.h5", "w") as file:
        for name, values in held.items():
            file[f"deep/{name}"] = file[name] = values
    for name in ("a.mat", "a.npz", "a.h5"):
        with pytest.raises(UserError, match=r"no matrix with a usual name.*dataset.matrix=….*dataset.label=…"):
            formats.read(name)
        assert read(name, matrix="dtm", label="classid")[:2] == (A.tolist(), CODED)
        with pytest.raises(UserError, match=r"no matrix in a\.\w+ is named 'dtn'; did you mean 'dtm'"):
            formats.read(name, matrix="dtn")
        with pytest.raises(UserError, match=r"is named 'class'; did you mean 'classid'"):
            formats.read(name, matrix="dtm", label="class")
    assert read("a.npz", matrix="dtm", label="none")[1] == [1, 1, 1, 0, 0]  # a name like any other
    assert read("a.h5", matrix="deep/dtm")[0] == A.tolist()


@pytest.mark.parametrize("named", [True, False])
def test_labels_of_another_file_with_or_without_a_header(named):
    np.save("a.npy", A)
    head = ["class"] if named else []
    for name, rows in (("y.txt", KINDS), ("y.csv", KINDS), ("n.txt", [str(code) for code in CODED])):
        assert read("a.npy", labels=text(name, "\n".join(head + rows)))[1] == CODED
    spaced = ["new york" if kind == "b" else kind for kind in KINDS]
    assert read("a.npy", labels=text("s.csv", "\n".join(head + spaced)))[1] == [2, 0, 2, 1, 0]
    several = "\n".join([*(["id;class"] if named else []), *(f"{i};{kind}" for i, kind in enumerate(KINDS))])
    text("several.csv", several)
    with pytest.raises(UserError, match=r"several\.csv has 2 columns; choose the labels, e.g. dataset.labels=several"):
        formats.read("a.npy", labels="several.csv")
    assert read("a.npy", labels="several.csv", label="class" if named else "1")[1] == CODED
    pd.DataFrame({"class": CODED}).to_excel("y.xlsx", index=False, header=named)
    assert read("a.npy", labels="y.xlsx")[1] == CODED
    with pytest.raises(UserError, match="3 labels for 5 points"):
        load("a.npy", labels=text("few.txt", "a\nb\nc\n"))


def test_what_an_option_does_not_mean_is_refused():
    np.save("a.npy", A)
    scipy.io.mmwrite("a.mtx", A)
    text("a.csv", "a,b\n1,2\n")
    for name, options, said in (
        (
            "a.npy",
            {"separator": "tab"},
            "option separator does not apply to a.npy, which is read as npy, only to csv, tsv",
        ),
        ("a.npy", {"matrix": "X"}, "option matrix does not apply to"),
        ("a.mtx", {"encode": "onehot"}, "option encode does not apply to"),
        ("a.csv", {"size": (2, 2)}, "option size does not apply to .* only to images; remove it"),
        ("a.csv", {"matrix": "X"}, "option matrix does not apply to"),
    ):
        with pytest.raises(UserError, match=said):
            formats.read(name, **options)
    for option, value in (
        ("scale", "std"),
        ("missing", "zero"),
        ("header", "maybe"),
        ("separator", "x"),
        ("encode", 1),
    ):
        with pytest.raises(UserError, match=rf"dataset.{option} = .* is not one of .*; (did you mean|choose one)"):
            load("a.csv", **{option: value})
    with pytest.raises(UserError, match=r"option size of dataset 'file' is \[3\]"):
        load("a.csv", size=[3])


def test_options_that_came_later_leave_what_is_prepared(tmp_path):
    np.savez("a.npz", X=A, y=KINDS)
    e = registry.entry("file")
    every = dict(registry.entry("file").offered) | {"path": "a.npz"}
    assert checked_options(e, every) == {**e.options, "path": [str(tmp_path / "a.npz")]}
    assert datasets.prepare("file", every) == datasets.prepare("file", {"path": "a.npz"})
    signs = {"path": "a.csv", "separator": ";", "decimal": ",", "header": True, "drop": [0]}
    words = {"path": "a.csv", "separator": "semicolon", "decimal": "comma", "header": "true", "drop": ["0"]}
    assert checked_options(e, signs) == checked_options(e, words)


@pytest.mark.parametrize("value", [",", ";", "|", "\\t", "comma", "auto"])
def test_signs_are_settings_of_the_command_line(value):
    (experiment,) = compose("dataset=file", "dataset.path=a.csv", f"dataset.separator={value}", "out=o").experiments
    assert experiment.options["separator"] == value


# --- formats


def test_xlsx_is_what_pandas_reads(tmp_path):
    frame = pd.DataFrame(A, columns=list("xyz"))
    with pd.ExcelWriter("a.xlsx") as book:
        frame.assign(label=KINDS).to_excel(book, sheet_name="one", index=False)
        (frame + 1).to_excel(book, sheet_name="two", index=False, header=False)
    assert read("a.xlsx") == (A.tolist(), CODED, ("x", "y", "z"))
    assert read("a.xlsx", matrix="two") == ((A + 1).tolist(), None, ("0", "1", "2"))
    assert "sheet 'one', the first of 2" in formats.read_content(FileOptions("a.xlsx")).form
    with pytest.raises(UserError, match=r"no sheet of a\.xlsx is named 'tow'; did you mean 'two'"):
        formats.read("a.xlsx", matrix="tow")
    with pytest.raises(UserError, match=r"a\.xlsx unpacks to .*dataset.max_gb"):
        tables.xlsx(tmp_path / "a.xlsx", 1000.0, FileOptions())
    book = openpyxl.Workbook()
    book.active["A1"], book.active["XFD1048576"] = "a", 3.0  # a table of 17 billion cells to pandas
    book.save("corner.xlsx")
    with pytest.raises(UserError, match=r"corner\.xlsx unpacks to at least 1048576 rows of 16384 cells"):
        formats.read("corner.xlsx")
    whole = (tmp_path / "a.xlsx").read_bytes()
    (tmp_path / "a.xlsx").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match=r"a\.xlsx is not a readable xlsx file"):
        formats.read("a.xlsx")


@pytest.mark.parametrize(("module", "file", "extra"), [("openpyxl", "a.xlsx", "xlsx"), ("h5py", "a.h5ad", "hdf5")])
def test_a_reader_that_is_missing_is_named(monkeypatch, module, file, extra):
    text(file, "x")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        UserError, match=rf"reading {file} requires {module}; install it with: pip install 'kmdr\[{extra}\]'"
    ):
        formats.read(file)


@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2"])
def test_matrix_market_is_what_scipy_reads(tmp_path, suffix):
    for name, matrix in (("s.mtx", scipy.sparse.coo_array(A)), ("d.mtx", A)):
        scipy.io.mmwrite(name, matrix)
        if suffix:
            opener = gzip.open if suffix == ".gz" else bz2.open
            with opener(name + suffix, "wb") as file:
                file.write((tmp_path / name).read_bytes())
        B = formats.read(name + suffix)[0]
        assert scipy.sparse.issparse(B) == (name == "s.mtx")
        assert (B.toarray() if scipy.sparse.issparse(B) else B).tolist() == A.tolist()
    symmetric = "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 3\n"
    assert formats.read(text("p.mtx", symmetric))[0].toarray().tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1]]
    for content, said in (
        (
            "%%MatrixMarket matrix coordinate real general\n1000000000000 9 1\n1 1 1\n",
            "claims the shape 1000000000000 x 9",
        ),
        ("%%MatrixMarket matrix array real general\n1000000 100000\n1\n", "claims 1000000 x 100000: 800 GB"),
        ("%%MatrixMarket matrix coordinate real general\n9 9 99999999999\n1 1 1\n", "claims 99999999999 entries"),
        ("%%MatrixMarket matrix coordinate complex general\n2 2 1\n1 1 1 1\n", "complex numbers"),
        ("%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n", "not a readable Matrix Market file"),
        ("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 9 1\n", "not a readable Matrix Market file"),
        ("nothing", "not a readable Matrix Market file"),
    ):
        with pytest.raises(UserError, match=said):
            formats.read(text("bad.mtx", content))


def sparse_group(file, name, matrix, layout="csr", **attributes):
    group = file.create_group(name)
    group.attrs.update({"encoding-type": f"{layout}_matrix", "shape": matrix.shape, **attributes})
    parts = matrix.asformat(layout)
    for part in ("data", "indices", "indptr"):
        group[part] = getattr(parts, part)
    return group


def annotated(name, layout="csr", old=False):
    with h5py.File(name, "w") as file:
        if layout == "dense":
            file["X"] = A
        else:
            sparse_group(file, "X", scipy.sparse.csr_array(A), layout)
        if old:
            rows = [(f"c{i}".encode(), code) for i, code in enumerate(CODED)]
            file["obs"] = np.array(rows, [("index", "S5"), ("kind", "i8")])
        else:
            obs, var = file.create_group("obs"), file.create_group("var")
            obs.attrs["_index"] = var.attrs["_index"] = "names"
            obs["names"], var["names"] = [f"c{i}" for i in range(5)], ["g0", "g1", "g2"]
            obs["plain"] = KINDS
            kind = obs.create_group("kind")
            kind["codes"], kind["categories"] = np.array(CODED, "i1"), ["a", "b", "c"]
            gap = obs.create_group("gap")
            gap["codes"], gap["categories"] = np.array([0, -1, 1, 0, 1], "i1"), ["a", "b"]
    return name


@pytest.mark.parametrize("layout", ["csr", "csc", "dense"])
def test_h5ad_is_what_was_written(layout):
    name = annotated("a.h5ad", layout)
    B, labels, features = formats.read(name, label="kind")
    assert (B if layout == "dense" else B.toarray()).tolist() == A.tolist()
    assert (labels.tolist(), features) == (CODED, ("g0", "g1", "g2"))
    assert formats.read(name, label="plain")[1].tolist() == CODED
    assert formats.read(name)[1] is None
    assert "columns of obs: gap, kind, plain" in formats.read_content(FileOptions(name)).form
    with pytest.raises(UserError, match=r"no column of obs in a\.h5ad is named 'kin'; did you mean 'kind'"):
        formats.read(name, label="kin")
    with pytest.raises(UserError, match="missing at row 1"):
        formats.read(name, label="gap")
    assert formats.read(annotated("b.h5ad", layout, old=True), label="kind")[1].tolist() == CODED


def counts_of_cells(name, **changes):
    """Write a file of Cell Ranger: two features of three cells, whose counts are those of CELLS, or changed parts."""
    parts = {
        "data": [5, 1, 7], "indices": [0, 1, 1], "indptr": [0, 2, 2, 3], "shape": [2, 3],
        "barcodes": ["AA-1", "AC-1", "AG-1"], "features/id": ["ENSG1", "ENSG2"],
    }  # fmt: skip
    with h5py.File(name, "w") as file:
        for part, values in (parts | changes).items():
            file[f"matrix/{part}"] = values
    return name


CELLS = [[5, 1], [0, 0], [0, 7]]


def test_a_file_of_cell_ranger_has_the_cells_as_points_and_is_not_changed():
    name = counts_of_cells("filtered.h5")
    before = Path(name).read_bytes()
    content = formats.read_content(FileOptions(name))
    assert content.A.format == "csr"
    assert content.A.toarray().tolist() == CELLS
    assert (content.features, content.labels) == (("ENSG1", "ENSG2"), None)
    assert content.form == "HDF5, 10x Genomics, cells of 'matrix'"
    with pytest.raises(ValueError, match="read-only"):
        content.A.data[0] = 3
    assert Path(name).read_bytes() == before
    unsorted = counts_of_cells("unsorted.h5", data=[1, 5, 7], indices=[1, 0, 1])
    assert formats.read(unsorted)[0].toarray().tolist() == CELLS
    assert formats.read(name, columns=["ENSG2"])[0].toarray().tolist() == [[1], [0], [7]]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"indices": [0, 2, 1]}, r"a\.h5: the parts of a sparse matrix are inconsistent: indices must be < 2"),
        ({"indices": [0, -1, 1]}, r"a\.h5: the parts of a sparse matrix are inconsistent: indices must be >= 0"),
        ({"indices": [1, 1, 1]}, r"matrix of a\.h5 has 1 entries of a cell and a feature that have one already"),
        ({"indices": [0, 1]}, r"a\.h5"),
        ({"indices": [0, 1.5, 1]}, r"matrix/indices of a\.h5 has numbers that are not whole"),
        ({"indptr": [0, 2, np.nan, 3]}, r"matrix/indptr of a\.h5 has numbers that are not whole"),
        ({"shape": [2.5, 3]}, r"the shape of matrix of a\.h5 has numbers that are not whole"),
        ({"indptr": [0, 2, 3]}, r"a\.h5.*index pointer"),
        ({"indptr": [0, 2, 1, 3]}, r"a\.h5: the parts of a sparse matrix are inconsistent: indptr must be"),
        ({"indptr": [0, 2, 2, 900]}, r"a\.h5"),
        ({"shape": [3, 2]}, r"a\.h5.*index pointer"),
        ({"shape": [2]}, r"a\.h5"),
        ({"shape": [1, 3]}, r"a\.h5: the parts of a sparse matrix are inconsistent: indices must be < 1"),
        ({"shape": [4, 3]}, r"has the shape 4 features x 3 cells, but features/id has the shape \(2,\)"),
        ({"shape": [10**12, 3]}, r"claims the shape 1000000000000 x 3"),
        ({"barcodes": ["AA-1"]}, r"has the shape 2 features x 3 cells, but barcodes has the shape \(1,\)"),
        ({"data": ["a", "b", "c"]}, r"a\.h5"),
    ],
)
def test_a_damaged_file_of_cell_ranger_is_refused_in_a_sentence(changes, said):
    with pytest.raises(UserError, match=said) as raised:
        formats.read(counts_of_cells("a.h5", **changes))
    assert "\n" not in str(raised.value)


def test_names_and_labels_that_claim_too_much_memory_are_refused():
    name = counts_of_cells("a.h5")
    with h5py.File(name, "a") as file:
        del file["matrix/features/id"]
        file.create_dataset("matrix/features/id", (2,), "S1000000000", chunks=(1,))
        file.create_dataset("y", (3,), "S1000000000", chunks=(1,))
    with pytest.raises(UserError, match=r"a\.h5 claims the values of features/id: 2 GB, but 0\.5 GB are allowed"):
        formats.read(name)
    with h5py.File(name, "a") as file:
        del file["matrix/features/id"]
    with pytest.raises(UserError, match=r"a\.h5 claims the values of y: 3 GB, but 0\.5 GB are allowed"):
        formats.read(name)


def test_hdf5_reads_nothing_of_other_files_and_nothing_too_large():
    with h5py.File("other.h5", "w") as file:
        file["secret"] = A
    with h5py.File("a.h5", "w") as file:
        file["link"] = h5py.ExternalLink("other.h5", "/secret")
        layout = h5py.VirtualLayout(A.shape, "f8")
        layout[:] = h5py.VirtualSource("other.h5", "secret", A.shape)
        file.create_virtual_dataset("virtual", layout)
        file["soft"] = h5py.SoftLink("/link")
        file.create_dataset("huge", (10**6, 10**6), "f8", chunks=(1000, 1000))
        file["words"] = ["a", "b"]
        file.create_group("group")["inner"] = A
        sparse_group(file, "bad", scipy.sparse.csr_array(A))["indices"][:] = 10**6
    for name, said in (
        ("link", "to another file"), ("virtual", "to another file"), ("soft", "to another file"),
        ("huge", "claims huge of 1000000 x 1000000: 8e[+]03 GB"), ("words", "words of a.h5 does not hold real numbers"),
        ("group", "group of a.h5 is a group, not a matrix; .*group/inner"),
        ("bad", r"a\.h5: the parts .* are inconsistent"),
    ):  # fmt: skip
        with pytest.raises(UserError, match=said):
            formats.read("a.h5", matrix=name)
    for content in ("", "nothing of the kind"):
        with pytest.raises(UserError, match=r"b\.h5 is not a readable HDF5 file"):
            formats.read(text("b.h5", content))


def picture(path, pixels, mode=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(np.asarray(pixels, np.uint8))
    (image.convert(mode) if mode else image).save(path)


def test_a_folder_of_images_is_a_class_a_subfolder(tmp_path, rng):
    folder = tmp_path / "pics"
    pixels = rng.integers(0, 256, (12, 4, 3))
    for i, image in enumerate(pixels):
        picture(folder / ("oak" if i < 7 else "elm") / f"{i}.{'png' if i % 2 else 'pgm'}", image)
    (folder / "notes.txt").write_text("x")
    (folder / ".hidden.png").write_text("x")
    data = load(folder)
    order = [7, 8, 9, 10, 11, *range(7)]  # elm, then oak; 10 after 9
    assert np.array_equal(data.A, pixels[order].reshape(12, 12))
    assert (data.labels.tolist(), data.name) == ([0] * 5 + [1] * 7, "pics")
    assert "1 other file ignored" in formats.read_content(FileOptions(folder)).form
    before = datasets.prepare("file", {"path": str(folder)})
    picture(folder / "elm" / "7.png", pixels[0])
    after = load(folder)
    assert after.data_sha256 != data.data_sha256
    assert datasets.prepare("file", {"path": str(folder)}) == before  # prepared anew
    picture(folder / "elm" / "wide.png", np.zeros((4, 6)))
    with pytest.raises(
        UserError, match=r"12 of 13 images of pics have 4 x 3 pixels.*elm/wide\.png.*'dataset.size=\[4,3\]'"
    ):
        load(folder)
    assert load(folder, size=[4, 3]).A.shape == (13, 12)
    assert load(folder, size=[2, 2]).A.shape == (13, 4)


def test_images_flat_coloured_odd_and_damaged(tmp_path):
    flat = tmp_path / "flat"
    for i in range(3):
        picture(flat / f"{i}.png", np.full((2, 2, 3), [255, 0, 0]) if i else np.full((2, 2, 3), 9))
    data = load(flat, k=2)
    assert data.A.tolist() == [[9] * 4, [76] * 4, [76] * 4]  # red is 0.299 of a grey of 255
    assert data.labels is None
    (flat / "cut.png").write_bytes((flat / "0.png").read_bytes()[:40])
    with pytest.raises(UserError, match=r"cut\.png is not a readable image file"):
        load(flat, k=2)
    (flat / "cut.png").unlink()
    picture(flat / "class" / "a.png", np.zeros((2, 2)))
    with pytest.raises(UserError, match="flat holds 3 images itself and 1 in subfolders"):
        load(flat, k=2)
    picture(flat / "class" / "deep" / "a.png", np.zeros((2, 2)))
    with pytest.raises(UserError, match=r"deep/a\.png is deeper than flat/CLASS/IMAGE"):
        load(flat, k=2)
    deep = np.array([[0, 300], [70, 65535]], np.uint16)
    (tmp_path / "grey").mkdir()
    for i in range(2):
        Image.fromarray(deep).save(tmp_path / "grey" / f"{i}.png")
    assert load(tmp_path / "grey", k=2).A[0].tolist() == [0, 300, 70, 65535]
    wide = np.array([[0, 2**24 + 1], [-(2**31), 2**31 - 1]], np.int32)  # float32 holds neither of the odd ones
    (tmp_path / "wide").mkdir()
    for i in range(2):
        Image.fromarray(wide).save(tmp_path / "wide" / f"{i}.tif")
    assert load(tmp_path / "wide", k=2).A[0].tolist() == wide.ravel().tolist()
    with pytest.raises(UserError, match=r"grey holds 2 images of 10000 x 10000 pixels: 1\.6 GB.*max_gb"):
        load(tmp_path / "grey", k=2, size=[10_000, 10_000])


@pytest.mark.parametrize("odd", range(3))
@pytest.mark.parametrize("others", range(3))
def test_images_of_different_numbers_of_bits_are_not_read_as_one_matrix(tmp_path, odd, others):
    """One of 16 bits among images of 8 had grey levels up to 65535 instead of 255, and decided the clusters."""
    forms = [np.uint8, np.uint16, np.float32]
    for i in range(4):
        Image.fromarray(np.full((2, 3), 1, forms[odd if i == 2 else others])).save(tmp_path / f"{i}.tif")
    if odd == others:
        assert load(tmp_path, k=2).A.tolist() == [[1.0] * 6] * 4
        return
    with pytest.raises(
        UserError, match=r"most images of .* have grey levels of .*, others do not, such as 2\.tif; save"
    ):
        load(tmp_path, k=2, size=[2, 2])


def test_a_linked_folder_is_a_class_and_a_loop_is_not_followed(tmp_path, rng):
    """A class that was a link to a folder was left out without a word."""
    for name, folder in (("a", tmp_path / "pics" / "a"), ("b", tmp_path / "elsewhere")):
        for i in range(3):
            picture(folder / f"{name}{i}.png", rng.integers(0, 256, (2, 2)))
    plain = tmp_path / "plain" / "pics"
    shutil.copytree(tmp_path / "pics", plain)
    shutil.copytree(tmp_path / "elsewhere", plain / "b")
    (tmp_path / "pics" / "b").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "pics" / "a" / "loop").symlink_to(tmp_path / "pics")
    assert load(tmp_path / "pics").data_sha256 == load(plain).data_sha256
    (tmp_path / "pics" / "c").symlink_to(tmp_path / "pics")
    with pytest.raises(UserError, match="is deeper than pics/CLASS/IMAGE"):
        load(tmp_path / "pics")


# --- a matrix in memory


def test_compare_warns_of_an_index_and_names_a_column_of_text():
    frame = pd.DataFrame(A, columns=list("xyz"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert datasets.from_arrays(frame, CODED).feature_names == ("x", "y", "z")
    for name, values in (("id", [5, 3, 9, 1, 2]), ("number", [10, 11, 12, 13, 14])):
        with pytest.warns(UserWarning, match=f"column '{name}' looks like an index or identifier"):
            rows = kmdr.compare(frame.assign(**{name: values}), ["svd"], labels=CODED, r_grid=[2], repeats=1).rows
        assert rows["status"].tolist() == ["ok"]
    with pytest.raises(UserError, match=r"column 'site' of A is not numeric \('n', 's'\)"):
        kmdr.compare(frame.assign(site=list("nsnsn")), ["svd"], labels=CODED, r_grid=[2], repeats=1)


def test_help_and_the_page_of_datasets_say_what_each_option_is(monkeypatch, capsys):
    assert set(TEXTS) == set(registry.entry("file").offered) - {"rows"}
    monkeypatch.setenv("COLUMNS", "1000")  # no text is wrapped
    help_ = command(monkeypatch, capsys, "dataset=file", "--help")[1]
    for name, meaning in TEXTS.items():
        assert re.search(rf"^dataset\.{name}=.*{re.escape(meaning)}$", help_, re.MULTILINE), name
        assert f"| `dataset.{name}` |" in readme.options()


def test_own_and_tables_agree_on_their_names():
    assert check_file._SIGNS == ("separator", "decimal")
    offered = registry.entry("file").offered
    assert set(offered) >= {"matrix", "columns", "drop", "separator", "header", "decimal", "encode", "missing", "scale"}
    assert offered["separator"] == offered["decimal"] == offered["header"] == AUTO
