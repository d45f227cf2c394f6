"""The same table in every format gives the same points and classes, or is refused."""

import csv
import gzip
import json
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import h5py
import numpy as np
import openpyxl
import pandas as pd
import pytest
import rdata
import scipy.io
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rdata.conversion.to_r import build_r_object
from rdata.parser import RObjectType

import kmdr
from kmdr.base.errors import UserError
from kmdr.datasets.check_file import check_files
from kmdr.datasets.formats import readers

BIG = 2**60
EPOCH = date(1970, 1, 1)


@dataclass
class RVector:
    """A vector or a list of R with attributes, some of which are not of any Python object."""

    values: object
    attributes: dict


def r_object(data, converter):
    kinds = {"f": RObjectType.REAL, "i": RObjectType.INT, "b": RObjectType.LGL}
    if isinstance(data.values, list):
        kind, values = RObjectType.VEC, [converter.convert_to_r_object(value) for value in data.values]
    else:
        kind, values = kinds[data.values.dtype.kind], data.values
    attributes = converter.convert_to_r_attributes(data.attributes) if data.attributes else None
    return build_r_object(kind, value=values, is_object="class" in data.attributes, attributes=attributes)


def write_r(path, data):
    rdata.write_rds(path, data, constructor_dict={RVector: r_object})


def write_slots(path, slots):
    """Write an object of R that has slots: its type, instead of the type and the length of an empty vector."""
    rdata.write_rds(path, RVector(np.empty(0), slots), constructor_dict={RVector: r_object}, compression=None)
    content = path.read_bytes()
    empty = bytes([0, 0, 3, RObjectType.REAL.value, 0, 0, 0, 0])
    assert content.count(empty) == 1
    path.write_bytes(content.replace(empty, bytes([0, 0, 3, RObjectType.S4.value])))


def r_column(values):
    known = [value for value in values if value is not None]
    if all(isinstance(value, date) for value in known):
        days = [np.nan if value is None else (value - EPOCH).days for value in values]
        return RVector(np.array(days, float), {"class": "Date"})
    if all(isinstance(value, int) for value in known):
        whole = np.array([np.iinfo(np.int64).min if value is None else value for value in values], np.int64)
        return RVector(whole.view(np.float64), {"class": "integer64"})
    if all(isinstance(value, int | float) for value in known):
        return RVector(np.array([np.nan if value is None else value for value in values], float), {})
    return np.array(values, object)


def r_frame(names, columns):
    n = len(columns[0])
    attributes = {"names": np.array(names), "class": "data.frame", "row.names": np.array([str(i) for i in range(n)])}
    return RVector([r_column(column) for column in columns], attributes)


def arrow(names, columns):
    pa = pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
    return pa.Table.from_arrays([pa.array(column) for column in columns], names)


def arff_type(column):
    known = [value for value in column if value is not None]
    if all(isinstance(value, date) for value in known):
        return 'date "yyyy-MM-dd"'
    return "string" if any(isinstance(value, str) for value in known) else "numeric"


def write(path, names, columns):
    """Write a table of equally long columns in the format of the extension."""
    rows = [*zip(*columns, strict=True)]
    match path.suffix:
        case ".csv":
            with path.open("w", newline="") as file:
                csv.writer(file).writerows([names, *(["" if cell is None else cell for cell in row] for row in rows)])
        case ".xlsx":
            book = openpyxl.Workbook()
            for row in [names, *rows]:
                # Excel's numbers have 15 digits, so longer ones are text.
                book.active.append([str(cell) if isinstance(cell, int) and cell >= BIG else cell for cell in row])
            book.save(path)
        case ".jsonl":
            named = ([*zip(names, row, strict=True)] for row in rows)
            records = ([f'"{name}": {json.dumps(cell, default=str)}' for name, cell in row] for row in named)
            path.write_text("".join(f"{{{', '.join(record)}}}\n" for record in records))
        case ".arff":
            head = [f"@attribute {name} {arff_type(column)}" for name, column in zip(names, columns, strict=True)]
            body = [",".join("?" if cell is None else str(cell) for cell in row) for row in rows]
            path.write_text("\n".join(["@relation a", *head, "@data", *body, ""]))
        case ".rds":
            write_r(path, r_frame(names, columns))
        case ".feather":
            arrow(names, columns)
            from pyarrow import feather

            feather.write_feather(arrow(names, columns), path)
        case ".parquet":
            arrow(names, columns)
            from pyarrow import parquet

            parquet.write_table(arrow(names, columns), path)


def outcome(path, **options):
    """The matrix, the names and the classes, as the first place of each; or a text for a refused file."""
    try:
        A, labels, names = readers.read(path, **options)
    except UserError as error:
        return "the message of a library" if "not a readable" in str(error) else "refused"
    classes = None if labels is None else np.atleast_2d(labels)[0].tolist()
    return np.asarray(A).tolist(), names, classes and [classes.index(label) if label >= 0 else -1 for label in classes]


FORMATS = (".xlsx", ".jsonl", ".arff", ".rds", ".feather", ".parquet")
features = st.sampled_from(["x", "y", "x", "z"])
cells = {
    "floats": st.integers(-40, 40).map(lambda value: value / 4 + 1 / 8),
    "dates": st.dates(date(1990, 1, 1), date(2020, 1, 1)),
    "text": st.sampled_from(["ash", "birch"]),
}
label_cells = {
    "text": st.sampled_from(["ash", "birch", None]),
    "large integers": st.one_of(st.integers(BIG, BIG + 3), st.none()),
    "dates": st.dates(date(2000, 1, 1), date(2000, 1, 3)),
}


@st.composite
def tables(draw):
    n = draw(st.integers(8, 12))
    kinds = draw(st.lists(st.sampled_from(["floats", "floats", "floats", *cells]), min_size=1, max_size=4))
    columns = [draw(st.lists(cells[kind], min_size=n, max_size=n)) for kind in kinds]
    labels = draw(st.lists(label_cells[draw(st.sampled_from([*label_cells]))], min_size=n, max_size=n))
    return [*(draw(features) for _ in kinds), "label"], [*columns, labels]


@pytest.mark.parametrize("suffix", FORMATS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=tables())
def test_a_table_is_the_same_in_every_format_or_refused(tmp_path, suffix, table):
    names, columns = table
    write(tmp_path / "t.csv", names, columns)
    write(tmp_path / f"t{suffix}", names, columns)
    expected, held = outcome(tmp_path / "t.csv", noise="nan"), outcome(tmp_path / f"t{suffix}", noise="nan")
    # A record of JSON has one cell of a name.
    assert held == ("refused" if suffix == ".jsonl" and len({*names}) < len(names) else expected)


@pytest.mark.parametrize("kind", ["d", "l", "n"])
@pytest.mark.parametrize("layout", ["C", "R"])
@pytest.mark.parametrize("uplo", ["", "U", "L"])
def test_sparse_matrices_of_r_are_read_by_their_class(tmp_path, rng, kind, layout, uplo):
    dense = rng.integers(1, 9, (6, 6 if uplo else 4)) * (rng.random((6, 6 if uplo else 4)) < 0.5)
    half = {"": dense, "U": np.triu(dense), "L": np.tril(dense)}[uplo]
    full = half + np.triu(half, 1).T + np.tril(half, -1).T if uplo else half
    parts = (scipy.sparse.csr_array if layout == "R" else scipy.sparse.csc_array)(half)
    slots = {"i" if layout == "C" else "j": parts.indices, "p": parts.indptr, "Dim": np.array(dense.shape)}
    slots |= {} if kind == "n" else {"x": parts.data.astype(float) if kind == "d" else parts.data > 0}
    slots |= {"uplo": uplo} if uplo else {}
    write_slots(tmp_path / "a.rds", {**slots, "class": f"{kind}{'s' if uplo else 'g'}{layout}Matrix"})
    A, _, _ = readers.read(tmp_path / "a.rds")
    assert np.array_equal(A.toarray(), full if kind == "d" else full > 0)


def test_another_matrix_of_r_is_refused_by_its_class(tmp_path):
    write_slots(tmp_path / "a.rds", {"x": np.arange(4.0), "Dim": np.array([2, 2]), "class": "dgeMatrix"})
    with pytest.raises(UserError, match=r"holds a matrix of class dgeMatrix, .* as\(x, 'dgCMatrix'\)"):
        readers.read(tmp_path / "a.rds")


def test_integers_of_64_bits_dates_and_names_of_r_are_not_changed(tmp_path):
    values = [BIG + 1, None, -3, 5]
    labels = np.array([*"abab"], object)
    columns = [r_column(values), r_column([1.5, 2.5, 1.0, 0.5]), labels]
    attributes = {"names": np.array(["id", "id", "label"]), "class": "data.frame", "row.names": np.array([*"1234"])}
    write_r(tmp_path / "a.rds", RVector(columns, attributes))
    A, classes, names = readers.read(tmp_path / "a.rds")
    assert (names, classes.tolist()) == (("id [0]", "id [1]"), [0, 1, 0, 1])
    assert np.array_equal(A[:, 0], [float(BIG + 1), np.nan, -3, 5], equal_nan=True)
    matrix = {"dim": np.array([2, 2]), "class": "integer64"}
    write_r(tmp_path / "b.rds", RVector(np.array([1, 2, BIG + 1, 4], np.int64).view(np.float64), matrix))
    assert readers.read(tmp_path / "b.rds")[0].tolist() == [[1, BIG + 1], [2, 4]]
    for name, seconds in (("Date", 86400), ("POSIXct", 1), ("difftime", 1)):
        column = RVector(np.array([1.0, 2.0, np.nan, 3.5]) / seconds * 86400, {"class": name})
        write_r(tmp_path / "c.rds", RVector([column, *columns[1:]], attributes))
        with pytest.raises(UserError, match=r"column 'id \[0\]' of c\.rds is not numeric"):
            readers.read(tmp_path / "c.rds")
    write_r(tmp_path / "d.rds", RVector([np.eye(3), np.eye(3)], {"names": np.array(["X", "X"])}))
    with pytest.raises(UserError, match=r"d\.rds holds 2 objects named 'X'; keep one of them"):
        readers.read(tmp_path / "d.rds")


def label_files(folder, texts):
    """Files of labels and of a matrix with labels, by the options that read their labels for the points of x.npy."""
    x, wide = np.eye(len(texts)), np.array(texts)
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", wide)
    np.save(folder / "bytes.npy", wide.astype("S"))
    (folder / "y.txt").write_text("".join(f"{text}\n" for text in texts))
    scipy.io.savemat(folder / "x.mat", {"X": x, "y": np.array(texts, object)[:, None]})
    scipy.io.savemat(folder / "chars.mat", {"X": x, "y": wide})
    with h5py.File(folder / "x.h5", "w") as file:
        file["X"], file["y"] = x, [text.encode() for text in texts]
    for name in ("y.npy", "bytes.npy", "y.txt"):
        yield {"path": folder / "x.npy", "labels": str(folder / name)}
    yield {"path": folder / "x.mat"}
    yield {"path": folder / "chars.mat"}
    yield {"path": folder / "x.h5"}


@pytest.mark.parametrize("texts", [["a", "", "b", "a", "b"], ["", "a", "a", "b", ""], ["a", "b", "bb", "b", ""]])
def test_an_empty_label_is_missing_in_every_format_and_in_memory(tmp_path, texts):
    expected = [-1 if not text else sorted({*texts} - {""}).index(text) for text in texts]
    for options in label_files(tmp_path, texts):
        assert readers.read(**options, noise="nan")[1][0].tolist() == expected, options
        with pytest.raises(UserError, match=r"the labels of .* are missing at row"):
            readers.read(**options)
    for labels in (texts, np.array(texts), np.array(texts, "S"), pd.Series(texts), pd.Categorical(texts)):
        with pytest.raises(UserError, match="the labels of A are missing at row"):
            kmdr.compare(np.eye(5), ["svd"], labels=labels, r_grid=[2], repeats=1)


@pytest.mark.parametrize("different", [True, False])
def test_labels_that_are_all_different_are_named(tmp_path, different):
    np.save(tmp_path / "x.npy", np.eye(12))
    lines = [f"{i if different else i % 3} k{i % 3}" for i in range(12)]
    (tmp_path / "y.txt").write_text("\n".join(lines))
    warnings = readers.read_content(readers.FileOptions(tmp_path / "x.npy", labels=str(tmp_path / "y.txt"))).warnings
    assert [warning[:40] for warning in warnings] == ["all 12 labels of y.txt are different, so"] * different


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_text_of_another_encoding_is_read_alike_and_named(tmp_path, encoding, end):
    labels = [*"öäöä"]
    (tmp_path / "y.txt").write_bytes(end.join(labels).encode(encoding))
    (tmp_path / "x.csv").write_bytes("".join(f"{i},{i * i}\n" for i in range(4)).encode())
    records = "\n".join(f'{{"a": {i}, "label": "{label}"}}' for i, label in enumerate(labels))
    (tmp_path / "x.jsonl").write_bytes(records.encode(encoding))
    named = readers.FileOptions(tmp_path / "x.csv", labels=str(tmp_path / "y.txt"), header="false")
    for options in (named, readers.FileOptions(tmp_path / "x.jsonl")):
        content = readers.read_content(options)
        assert list(content.labels) == labels
        assert ("Windows-1252" in content.form + content.labelled) == (encoding == "latin-1")


@pytest.mark.parametrize("name", ["y.txt", "x.jsonl"])
def test_text_of_no_known_encoding_is_refused_in_a_sentence(tmp_path, name):
    np.save(tmp_path / "x.npy", np.eye(2))
    options = {"labels": str(tmp_path / name)} if name == "y.txt" else {}
    path = tmp_path / ("x.npy" if options else name)
    for content, reason in ((b"\x81\n\xff", "neither UTF-8 nor Windows-1252"), ("é\nö".encode("utf-16"), "null bytes")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match=f"{name} is not a readable .* file: .*{reason}.*; save it as UTF-8 text"):
            readers.read(path, **options)


def test_a_column_of_json_with_nested_cells_may_be_dropped(tmp_path):
    for nested in ("[1]", '{"c": 1}'):
        cells = ["1", nested, "null", '"b"']
        (tmp_path / "a.jsonl").write_text("".join(f'{{"a": {i}, "b": {cell}}}\n' for i, cell in enumerate(cells)))
        assert readers.read(tmp_path / "a.jsonl", drop=["b"])[0].ravel().tolist() == [0, 1, 2, 3]
        with pytest.raises(UserError, match=r"column 'b' of a\.jsonl has lists or records as cells.*dataset.drop"):
            readers.read(tmp_path / "a.jsonl")


@pytest.mark.parametrize("name", ["x.npy", "x.npy.gz", "x.mat.gz", "x.csv.gz"])
def test_noise_of_a_file_of_labels_is_read_for_every_container(tmp_path, name, capsys):
    x = np.array([[1.5, 2], [3.5, 5], [7.5, 8], [4.5, 4], [0.5, 1]])
    np.save(tmp_path / "x.npy", x)
    scipy.io.savemat(tmp_path / "x.mat", {"X": x})
    (tmp_path / "x.csv").write_text("\n".join(f"{a},{b}" for a, b in x))
    if name.endswith(".gz"):
        (tmp_path / name).write_bytes(gzip.compress((tmp_path / name).with_suffix("").read_bytes()))
    (tmp_path / "y.txt").write_text("0\n1\n2\n\n2\n")
    labels = f"labels={tmp_path / 'y.txt'}"
    A, classes, _ = readers.read(tmp_path / name, labels=str(tmp_path / "y.txt"), noise="0", missing="drop")
    assert (A.tolist(), classes[0].tolist()) == (x[[0, 1, 2, 4]].tolist(), [-1, 0, 1, 1])
    assert check_files([str(tmp_path / name)], [labels, "noise=0", "missing=drop"]) == 0
    assert "y.txt, 1 without a label: 2 classes: 2 2, 1 1, and 1 of noise" in capsys.readouterr().out


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("separator", [",", ";", "\t", " "])
@pytest.mark.parametrize("head", ["", "# made by a test", "sep={}"])
def test_text_of_any_line_end_is_the_same_table(tmp_path, end, separator, head):
    rows = [[f"{i / 4:g}", f"{i * i / 8:g}", "ab"[i % 2]] for i in range(1, 9)]
    lines = [head.format(separator)] * bool(head) + [separator.join(row) for row in [["x", "y", "label"], *rows]]
    (tmp_path / "a.csv").write_bytes(end.join([*lines, ""]).encode())
    A, labels, names = readers.read(tmp_path / "a.csv")
    assert (names, labels.tolist()) == (("x", "y"), [1, 0] * 4)
    assert A.tolist() == [[float(x), float(y)] for x, y, _ in rows]
    if separator == " ":
        (tmp_path / "a.csv").write_bytes(end.join([*lines, "1 2", ""]).encode())
        with pytest.raises(UserError, match=f"line {len(lines) + 1} of a.csv has 2 cells, but the first has 3"):
            readers.read(tmp_path / "a.csv")


def test_a_line_break_in_a_name_of_a_column_is_named(tmp_path):
    (tmp_path / "a.csv").write_text('x,"y\n(mm)",label\n1,2,a\n3,5,b\n')
    with pytest.raises(UserError, match=r"the first line of a\.csv ends within a quoted cell; remove the line breaks"):
        readers.read(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("cells", "what"),
    [
        (['"1"', '"2.5"', '"3"'], r"numbers written as text\); write them as numbers"),
        (["1", str(2**70), "3"], r"whole numbers of more than 64 bits\); write shorter numbers"),
        (['"1"', '"2"', '"x"'], r"'x'\); set .*, or empty the cells without a number"),
    ],
)
def test_why_a_column_of_numbers_is_not_numeric_is_named(tmp_path, cells, what):
    (tmp_path / "a.jsonl").write_text("".join(f'{{"a": {cell}, "b": 1}}\n' for cell in cells))
    with pytest.raises(UserError, match=f"column 'a' of a.jsonl is not numeric \\({what}"):
        readers.read(tmp_path / "a.jsonl")


def test_a_compressed_file_of_an_unknown_format_is_named(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, 60_000, np.uint8).tobytes()
    packed = gzip.compress(bytes([0, 0, 8, 1, 0, 0, 234, 96]) + noise)
    for name, content, reason in (
        ("a.csv.zip.gz", gzip.compress(b"PK"), "holds an archive, a.csv.zip; unpack it"),
        ("images-ubyte.gz", packed[:40_000], "is damaged or truncated"),
        ("a.gz", gzip.compress(b"\1" + noise), "the format of the file in a.gz is not known, and it is not text"),
        ("a.pkl.gz", b"", r"import numpy, gzip, pickle; .*pickle.load\(gzip.open\(FILE, 'rb'\)\)"),
        ("a.pkl.xz", b"", r"pickle.load\(lzma.open\(FILE, 'rb'\)\)"),
        ("a.joblib.gz", b"", r"numpy.save\('data.npy', joblib.load\(FILE\)\)"),
        ("a.sav.bz2", b"", "convert it, e.g. after unpacking it, by pandas"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match=reason):
            readers.read(tmp_path / name)


@pytest.mark.parametrize("values", [[1, 7, 1, 2], [True, True, False, True]])
def test_missing_integer_and_logical_labels_of_r_are_missing(tmp_path, values):
    """They were a class: −2147483648, or TRUE."""
    labels = np.ma.masked_array(np.array(values, np.int32 if values[1] == 7 else bool), [0, 1, 0, 0])
    write_r(tmp_path / "a.rds", RVector([np.arange(8.0).reshape(4, 2), labels], {"names": np.array(["X", "y"])}))
    with pytest.raises(UserError, match=r"labels of a\.rds are missing at row 1"):
        readers.read(tmp_path / "a.rds")


def test_notes_of_the_same_name_do_not_keep_an_object_of_r_from_being_read(tmp_path):
    note = np.array(["made in spring"])
    write_r(tmp_path / "a.rds", RVector([np.eye(3), note, note], {"names": np.array(["X", "note", "note"])}))
    assert readers.read(tmp_path / "a.rds")[0].tolist() == np.eye(3).tolist()


@pytest.mark.parametrize("ends", ["\r\r\r\n", "\r\n\n\n", "\r\r\r\r", "\n\n\n\n", "\r\n\r\n"])
def test_lines_may_end_in_any_way_and_not_all_alike(tmp_path, ends):
    rows = ["a,b,c", "1.5,2,3", "2.5,3,4", "0.5,1,7"]
    marks = ["\r\n"] * 4 if ends == "\r\n\r\n" else list(ends)
    (tmp_path / "a.csv").write_text("".join(map("".join, zip(rows, marks, strict=True))), newline="")
    A, _, names = readers.read(tmp_path / "a.csv")
    assert (names, A.tolist()) == (("a", "b", "c"), [[1.5, 2, 3], [2.5, 3, 4], [0.5, 1, 7]])


# Labels of three classes, with spaces around some.
SPACED = ["a", "a ", "b", " b", "a\t", "c"]


def _write_spaced(name, table):
    if name.endswith(".csv"):
        table.to_csv(name, index=False)
    elif name.endswith(".jsonl"):
        table.to_json(name, orient="records", lines=True)
    elif name.endswith(".dta"):
        table.to_stata(name, write_index=False)
    elif name.endswith(".npz"):
        np.savez(name, X=table[["x", "y"]].to_numpy(), y=table["label"].to_numpy(str))
    elif name.endswith(".mat"):
        scipy.io.savemat(name, {"X": table[["x", "y"]].to_numpy(), "y": table["label"].to_numpy(object)})
    else:
        lines = [f"{row.x},{row.y},'{row.label}'" for row in table.itertuples()]
        classes = ",".join(map(repr, SPACED[:4]))
        head = (
            f"@relation t\n@attribute x numeric\n@attribute y numeric\n@attribute label {{{classes},'a\t','c'}}\n@data"
        )
        Path(name).write_text("\n".join([head, *lines, ""]))


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.dta", "t.npz", "t.mat", "t.arff"])
def test_spaces_around_labels_are_no_part_of_them_in_any_format(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame({"x": [1.0, 2, 3, 4, 5, 6], "y": [2.0, 1, 0, 3, 4, 4], "label": SPACED})
    _write_spaced(name, table)
    _, classes, _ = readers.read(name)
    assert classes.tolist() == [0, 0, 1, 1, 0, 2]
