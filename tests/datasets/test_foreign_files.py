"""Files of other programs: the same matrix in every format, damaged and hostile files, archives, label files."""

import gzip
import io
import itertools
import json
import struct
import tarfile
import tracemalloc
import zipfile
from datetime import date
from decimal import Decimal

import h5py
import numpy as np
import pandas as pd
import pytest
import rdata
import scipy.io
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from kmdr import datasets
from kmdr.base.errors import UserError
from kmdr.datasets import validation
from kmdr.datasets.file_options import FileOptions
from kmdr.datasets.formats import readers
from kmdr.datasets.formats.label_files import read_labels
from kmdr.datasets.formats.profile import lines, profile

A = np.array([[1.0, 0.0, 2.5], [0.0, 3.0, 0.0], [4.0, 5.0, 6.0], [0.0, 0.0, 1.0]])
Y = ["b", "a", "b", "a"]
FRAME = pd.DataFrame(A, columns=["x", "y one", "z"]).assign(label=Y)


def arff_text(A, labels=None, sparse=False):
    head = ["% made by a test", "@relation 'a b'", *(f"@ATTRIBUTE 'column {j}' real" for j in range(A.shape[1]))]
    head += ["@attribute label {b, a}"] if labels is not None else []
    body = []
    for i, row in enumerate(A):
        cells = [repr(float(value)) for value in row] + ([labels[i]] if labels is not None else [])
        if sparse:
            cells = [f"{j} {cell}" for j, cell in enumerate(cells) if cell not in ("0.0", "b")]
        body.append("{" + ", ".join(cells) + "}" if sparse else ",".join(cells))
    return "\n".join([*head, "", "@DATA", *body])


def idx_bytes(array, code):
    return (
        struct.pack(f">HBB{array.ndim}I", 0, code, array.ndim, *array.shape)
        + array.astype(array.dtype.newbyteorder(">")).tobytes()
    )


def vector_bytes(A, dtype):
    return b"".join(struct.pack("<i", len(row)) + row.astype(dtype).tobytes() for row in A)


def docword_text(A):
    rows, columns = np.nonzero(A)
    entries = "".join(f"{i + 1} {j + 1} {A[i, j]:g}\n" for i, j in zip(rows, columns, strict=True))
    return f"{A.shape[0]}\n{A.shape[1]}\n{len(rows)}\n{entries}"


def mat73(path, **variables):
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, value in variables.items():
            if scipy.sparse.issparse(value):
                csc = scipy.sparse.csc_array(value)
                group = file.create_group(name)
                group.attrs["MATLAB_sparse"] = np.uint64(csc.shape[0])
                group["data"], group["ir"], group["jc"] = csc.data, csc.indices, csc.indptr
            else:
                file[name] = np.atleast_2d(value).T
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\0\2IM")


def write(path, A):  # noqa: PLR0912
    """Write a matrix in the format that the name says."""
    name = path.name
    if ".fbin" in name:
        path.write_bytes(struct.pack("<2I", *A.shape) + A.astype("<f4").tobytes())
    elif ".fvecs" in name:
        path.write_bytes(vector_bytes(A, "<f4"))
    elif ".ivecs" in name:
        path.write_bytes(vector_bytes(A, "<i4"))
    elif ".bvecs" in name:
        path.write_bytes(vector_bytes(A, "<u1"))
    elif "ubyte" in name:
        path.write_bytes(idx_bytes(A.astype("u1"), 8))
    elif ".idx" in name:
        path.write_bytes(idx_bytes(A.astype("f8"), 14))
    elif "sparse.arff" in name:
        path.write_text(arff_text(A, sparse=True))
    elif ".arff" in name:
        path.write_text(arff_text(A))
    elif ".jsonl" in name:
        path.write_text("".join(json.dumps(row.tolist()) + "\n" for row in A))
    elif ".json" in name:
        path.write_text(json.dumps([{f"c{j}": value for j, value in enumerate(row)} for row in A.tolist()]))
    elif ".dta" in name:
        pd.DataFrame(A, columns=[f"c{j}" for j in range(A.shape[1])]).to_stata(path, write_index=False)
    elif ".rds" in name:
        rdata.write_rds(path, pd.DataFrame(A, columns=[f"c{j}" for j in range(A.shape[1])]))
    elif ".RData" in name:
        rdata.write_rda(path, {"X": A})
    elif ".mat" in name:
        mat73(path, X=A)
    elif "docword" in name:
        path.write_text(docword_text(A))
    else:
        np.save(path, A.astype(">f8"))


NAMES = (
    "a.fbin", "a.fvecs", "a.ivecs", "a.bvecs", "images-idx2-ubyte", "a.idx", "sparse.arff", "a.arff", "a.jsonl",
    "a.json", "a.dta", "a.rds", "a.RData", "a.mat", "docword.a.txt", "a.npy",
)  # fmt: skip


BY_ROW = ("arff", "jsonl", "vecs")


def message_of(path):
    try:
        return "", read(path)[0]
    except UserError as error:
        return str(error), None


def read(path, **options):
    matrix, labels, _ = readers.read(path, **options)
    return np.asarray(matrix.toarray() if scipy.sparse.issparse(matrix) else matrix, np.float64), labels


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(B=arrays.arrays(np.uint8, st.tuples(st.integers(2, 6), st.integers(1, 5)), elements=st.integers(0, 200)))
def test_a_matrix_is_the_same_through_every_format(tmp_path, name, B):
    path = tmp_path / name
    write(path, B.astype(float))
    assert np.array_equal(read(path)[0], B)
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert np.array_equal(read(packed)[0], B)
    with zipfile.ZipFile(tmp_path / f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(path, f"folder/{name}")
        archive.writestr("README.txt", "text")
    assert np.array_equal(read(tmp_path / f"{name}.zip")[0], B)


@pytest.mark.parametrize("name", NAMES)
def test_a_truncated_file_is_refused_in_one_sentence_or_holds_fewer_points(tmp_path, name):
    path = tmp_path / name
    write(path, A.round())
    whole = path.read_bytes()
    for length in range(0, len(whole), max(1, len(whole) // 97)):
        path.write_bytes(whole[:length])
        refused, B = message_of(path)
        assert "\n" not in refused
        # Some formats do not say how many points follow, and only the last line end is missing from a text.
        by_row = name.endswith((*BY_ROW, ".mat")) or length == len(whole) - 1
        assert refused or (by_row and len(B) <= len(A))


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", ">f8", "<i2", ">i2", ">u8", "<f2"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_numpy_of_any_endianness_and_order_is_read(tmp_path, dtype, order):
    np.save(tmp_path / "a.npy", np.asarray(A.round(), dtype, order=order))
    assert np.array_equal(read(tmp_path / "a.npy")[0], A.round())


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_arff_has_labels_line_ends_and_byte_order_marks(tmp_path, sparse, end, bom):
    (tmp_path / "a.arff").write_bytes(bom + arff_text(A, Y, sparse).replace("\n", end).encode())
    B, labels = read(tmp_path / "a.arff")
    assert np.array_equal(B, A)
    assert labels.tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize("separator", [",", " ", "\t", "  ", ",,", " ,, "])
@pytest.mark.parametrize("end", ["", ",", " ,", "\t", "\r"])
def test_arff_is_separated_as_weka_separates_it(tmp_path, separator, end):
    rows = [separator.join(map(repr, row)) + end for row in A.tolist()]
    attributes = [f"@attribute a{j} real" for j in range(A.shape[1])]
    (tmp_path / "a.arff").write_text("\n".join([*attributes, "@data", *rows, f"?{separator}1{separator}2{end}"]))
    B, _ = read(tmp_path / "a.arff", missing="mean")
    assert np.array_equal(B, np.vstack([A, [A[:, 0].mean(), 1, 2]]))


def cells_of_weka(line):
    """Return the cells of a line by the rules of Java's StreamTokenizer, as Weka's ArffLoader sets it up."""
    cells, at = [], 0
    while at < len(line) and line[at] != "%":
        start = at
        if line[at] <= " " or line[at] == ",":
            at += 1
        elif line[at] in "'\"":
            text = ""
            while line[at := at + 1] != line[start]:
                at += line[at] == "\\"
                text += {"t": "\t", "n": "\n"}.get(line[at], line[at]) if line[at - 1] == "\\" else line[at]
            cells.append(text)
            at += 1
        else:
            while at < len(line) and line[at] > " " and line[at] not in ",%'\"{}":
                at += 1
            cells.append(None if line[start:at] == "?" else line[start:at])
    return cells


def quoted_as_by_weka(text, mark):
    special = {"\\": "\\\\", "'": "\\'", '"': '\\"', "\t": "\\t", "\n": "\\n", "%": "\\%"}
    return mark + "".join(special.get(c, c) for c in text) + mark


words = st.text(alphabet="ab ,%'\"\\?{}\t\né", min_size=1, max_size=4)
classes = st.lists(words, min_size=2, max_size=4, unique=True)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), values=classes, marks=st.lists(st.sampled_from("'\""), min_size=1))
def test_arff_is_read_by_the_rules_of_weka(tmp_path, data, values, marks):
    mark = itertools.cycle(marks)
    spaces, ends = (
        st.sampled_from([",", " ,", ", ", "\t", "  "]),
        st.sampled_from(["", " ", ",", " % a, 'comment", "%", "\r"]),
    )
    numbers = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False), st.integers(-9, 9).map(float))
    rows = data.draw(st.lists(st.tuples(numbers, st.sampled_from(values), numbers), min_size=1, max_size=5))
    lines = ["@relation 'a % b'% c", f"@attribute 'a {{' real {data.draw(ends)}"]
    lines.append(
        f"@attribute class {{{', '.join(quoted_as_by_weka(v, next(mark)) for v in values)}}} {{2}} % a {{comment"
    )
    lines += ["% a comment", "@attribute b numeric", "@data"]
    body = []
    for a, value, b in rows:
        row = ["?" if a is None else repr(a), quoted_as_by_weka(value, next(mark)), "?" if b is None else repr(b)]
        body += [data.draw(spaces).join(row) + data.draw(ends), data.draw(st.sampled_from(["", "  ", "% 1,2", "\t"]))]
    parsed = [cells_of_weka(line) for line in body if cells_of_weka(line)]
    assert [
        (x and float(x), value, y and float(y)) for x, value, y in parsed
    ] == rows  # the oracle reads what is written
    (tmp_path / "a.arff").write_bytes("\n".join(lines + body).encode())
    content = readers.read_content(readers.FileOptions([tmp_path / "a.arff"]))
    assert [*content.A] == ["a {", "b"]
    assert np.array_equal(content.A.to_numpy(), np.array([(a, b) for a, _, b in rows], float), equal_nan=True)
    # Spaces around a label are no part of it, quoted or not, and a blank one is none.
    assert list(content.labels) == [value.strip() or None for _, value, _ in rows]


@pytest.mark.parametrize("kind", ["{1,01,'1.0',1e3,1000}", "string"])
@pytest.mark.parametrize("sparse", [False, True])
def test_nominal_labels_of_arff_are_compared_as_they_are_written(tmp_path, kind, sparse):
    labels = ["1", "01", "'1.0'", "1e3", "1000", "01"]
    rows = [f"{{0 {i}, 1 {label}}}" if sparse else f"{i},{label}" for i, label in enumerate(labels)]
    head = ["@attribute x real", f"@attribute label {kind}", "@data"]
    (tmp_path / "a.arff").write_text("\n".join([*head, *rows]))
    _, classes = read(tmp_path / "a.arff")
    assert np.array_equal(classes, np.unique([label.strip("'") for label in labels], return_inverse=True)[1])


def test_arff_quotes_nominal_columns_and_missing_values(tmp_path):
    (tmp_path / "a.arff").write_text(
        "@relation r\n@attribute 'it\\'s' {'a b', \"c,d\"}\n@attribute n {0, 1}\n@attribute t string\n"
        "@attribute class {yes,\n no}\n@data\n'a b', 1, 'x, y', yes % a comment\n"
        "\"c,d\",?,z,no\n% a comment\n\n'a b',0,z,yes"
    )
    content = readers.read_content(readers.FileOptions([tmp_path / "a.arff"]))
    assert list(content.A.columns) == ["it's", "n", "t"]
    assert content.A["it's"].tolist() == ["a b", "c,d", "a b"]
    assert content.A["t"].tolist() == ["x, y", "z", "z"]
    assert content.labelled == "column 'class'"
    assert list(content.labels) == ["yes", "no", "yes"]
    B, _ = read(tmp_path / "a.arff", encode="onehot", missing="mean")
    assert np.array_equal(B, [[1, 0, 1, 1, 0], [0, 1, 0.5, 0, 1], [1, 0, 0, 0, 1]])


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.arff", "", "no line @data"),
        ("a.arff", "@attribute a real\n@data\n", "no rows after @data"),
        ("a.arff", "@data\n1", "no @attribute"),
        ("a.arff", "@attribute a real\n@data\n1,2", "2 cells, but there are 1 attributes"),
        ("a.arff", "@attribute a real\n@data\nx", "real but holds 'x'"),
        ("a.arff", "@attribute a real\n@data\n{7 1}", "not of the form"),
        ("a.arff", "@attribute a real\n@data\n1_0", "real but holds '1_0'"),
        ("a.arff", "@attribute a real\n@data\n{0 1_0}", "line 3 of a.arff holds '1_0' in the column 'a'"),
        ("a.arff", "@attribute a real\n@data\n1,{2}", "line 3 of a.arff ends with the weight .2. of a point"),
        ("a.arff", "@attribute a real\n@data\n{0 1}, {.5}", "line 3 of a.arff ends with the weight {.5}"),
        (
            "a.arff",
            "@attribute b relational\n@attribute a real\n@end b\n@data\n'1'",
            "column 'b' of a.arff is relational",
        ),
        ("a.arff", "@attribute a real\n@attribute class {x,y}\n@data\n1,z", "holds 'z', which its @attribute does not"),
        (
            "a.arff",
            "@attribute a real\n@attribute class {x,y}\n@data\n{1 z}",
            "holds 'z', which its @attribute does not",
        ),
        (
            "a.arff",
            "@attribute a real\n@attribute d date yyyyMMdd\n@data\n1,20010101\n2,20020101",
            "'d' .* not numeric",
        ),
        ("a.jsonl", "[1, 2]\n[1]", "several lengths"),
        ("a.jsonl", "3", "one JSON object or array per row"),
        ("a.jsonl", "[[1]]", "lists or records as cells"),
        ("a.json", "[" * 100_000, "not a readable JSON file"),
        ("a.jsonl", '{"a": 1, "label": "\\ud801"}\n{"a": 2, "label": "y"}', "not a readable JSON file"),
        ("a.jsonl", '{"\\ud800": 1}\n{"\\ud800": 2}', "not a readable JSON file"),
        ("docword.a.txt", "2\n2\n3\n1 1 1\n2 2 1\n", "2 entries, but its third line says 3"),
        ("docword.a.txt", "2\n2\n1\n3 1 1\n", "not a readable docword file"),
        ("docword.a.txt", "2\n2\n1\n2 1 -1\n", "negative counts"),
        ("docword.a.txt", "99999999999\n2\n1\n1 1 1\n", "are allowed for a file of its size"),
        ("a.pkl", "", "can run any code"),
        ("a.joblib", "", "joblib.load"),
        ("a.pt", "", "weights_only=True"),
        ("a.pkl.gz", "", "can run any code|is not a readable"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_the_reason(tmp_path, name, text, reason):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=reason) as caught:
        read(tmp_path / name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["a.arff.gz", "a.csv.zip", "docword.a.txt.gz", "images-idx3-ubyte.gz", "a.rds"])
def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path, name):
    data = b"1,2\n" * 2_000_000
    data = b"\0\0\x08\2" + bytes(8_000_000) if "ubyte" in name else data
    data = b"2\n2\n2\n" + b"1 1 1\n" * 1_000_000 if "docword" in name else data
    if name.endswith("zip"):
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a.csv", data)
    else:
        (tmp_path / name).write_bytes(gzip.compress(data))
    with pytest.raises(UserError, match=r"max_gb|allowed size"):
        read(tmp_path / name, max_gb=1e-4)


def test_an_archive_holds_one_table(tmp_path):
    table = FRAME.to_csv(index=False)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        info = tarfile.TarInfo("folder/a.csv")
        info.size = len(table)
        archive.addfile(info, io.BytesIO(table.encode()))
    (tmp_path / "a.tar.gz").write_bytes(buffer.getvalue())
    B, labels = read(tmp_path / "a.tar.gz")
    assert np.array_equal(B, A)
    assert labels.tolist() == [1, 0, 1, 0]
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as several:
        several.writestr("a.csv", table)
        several.writestr("b.csv", table)
    with pytest.raises(UserError, match=r"b\.zip holds several files, such as a\.csv and b\.csv"):
        read(tmp_path / "b.zip")
    with zipfile.ZipFile(tmp_path / "c.zip", "w"):
        pass
    with pytest.raises(UserError, match="no file of data"):
        read(tmp_path / "c.zip")


def test_images_and_labels_of_mnist_are_read_by_their_names(tmp_path):
    images = np.arange(4 * 2 * 3, dtype="u1").reshape(4, 2, 3)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx_bytes(images, 8)))
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_bytes(np.array([7, 3, 7, 0], "u1"), 8)))
    labels = str(tmp_path / "train-labels-idx1-ubyte.gz")
    B, classes = read(tmp_path / "train-images-idx3-ubyte.gz", labels=labels)
    assert np.array_equal(B, images.reshape(4, 6))
    assert classes.tolist() == [2, 1, 2, 0]
    with pytest.raises(UserError, match="one number per point"):
        read(labels)


def test_mat_73_holds_sparse_matrices_and_labels(tmp_path):
    mat73(tmp_path / "a.mat", fea=scipy.sparse.csr_array(A), gnd=np.array([2, 1, 2, 1.0]))
    matrix, labels, _ = readers.read(tmp_path / "a.mat")
    assert scipy.sparse.issparse(matrix)
    assert np.array_equal(matrix.toarray(), A)
    assert labels.tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize("place", ["fea", "fea/data", "fea/jc", "text of gnd"])
def test_mat_73_that_leads_to_another_file_is_refused(tmp_path, place):
    mat73(tmp_path / "a.mat", fea=scipy.sparse.csr_array(A))
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["secret"] = np.arange(5.0)
    with h5py.File(tmp_path / "a.mat", "r+") as file:
        if place in file:
            del file[place]
            file[place] = h5py.ExternalLink(tmp_path / "other.h5", "secret")
        else:
            layout = h5py.VirtualLayout(5, "f8")
            layout[:] = h5py.VirtualSource(tmp_path / "other.h5", "secret", 5)
            text = file.create_virtual_dataset("#text", layout)
            file["gnd"] = np.array([[text.ref] * 4], dtype=h5py.ref_dtype)
    with pytest.raises(UserError, match="to another file; choose that file instead"):
        read(tmp_path / "a.mat")


def test_texts_of_mat_73_have_a_limit_together(tmp_path):
    mat73(tmp_path / "a.mat", fea=A)
    with h5py.File(tmp_path / "a.mat", "r+") as file:
        text = file.create_dataset("#text", 1 << 25, dtype="u2", chunks=(1 << 16,), compression="gzip")
        file["gnd"] = np.array([[text.ref] * 4], dtype=h5py.ref_dtype)
    with pytest.raises(UserError, match="claims the texts of gnd"):
        read(tmp_path / "a.mat")


@pytest.mark.parametrize("name", ["a.txt", "a.labels0.gz", "a.csv", "a.csv.gz", "a.npy", "a.mat", "b.mat"])
def test_labels_are_read_from_files_of_many_kinds(tmp_path, name):
    path, values = tmp_path / name, np.array([2, 1, 2, 1])
    if name == "a.npy":
        np.save(path, values)
    elif name == "a.mat":
        scipy.io.savemat(path, {"other": values})
    elif name == "b.mat":
        mat73(path, gnd=values.astype(float))
    else:
        data = "".join(f"{value}\n" for value in values).encode()
        path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    labels, where = read_labels(path, 4)
    assert validation.codes(labels, "a").tolist() == [1, 0, 1, 0]
    assert where.startswith(name)


def test_rows_of_zeros_are_counted_in_dense_and_sparse_data():
    B = A.copy()
    B[1] = 0
    for matrix in (B, scipy.sparse.csr_array(B)):
        seen = profile(readers.Content(matrix))
        assert ("zeros", "1 row has only zeros") in list(lines(seen))


def test_objects_of_r_that_are_no_matrix_are_refused_and_sequences_have_a_limit(tmp_path):
    folder = rdata.TESTDATA_PATH
    for file in sorted(folder.rglob("test_*.rds")):
        refused, B = message_of(file)
        assert refused or B.ndim == 2, file
        assert "\n" not in refused
        assert "not a readable" not in refused or "expression" in file.name, refused
    sequence = next(folder.rglob("test_altrep_compact_intseq__ascii__version_3.rds"))
    text = gzip.decompress(sequence.read_bytes()) if sequence.read_bytes()[:2] == b"\x1f\x8b" else sequence.read_bytes()
    assert b"\n1000\n" in text
    (tmp_path / "a.rds").write_bytes(text.replace(b"\n1000\n", b"\n1000000000000\n"))
    with pytest.raises(UserError, match="claims a sequence of 1000000000000 numbers"):
        read(tmp_path / "a.rds")


def test_a_damaged_archive_is_refused_in_one_sentence_wherever_the_damage_is(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.csv.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.csv", FRAME.to_csv(index=False))
    content = (tmp_path / "a.csv.zip").read_bytes()
    outcomes = []
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 128
        (tmp_path / "a.csv.zip").write_bytes(damaged)
        refused, B = message_of(tmp_path / "a.csv.zip")
        assert "\n" not in refused
        assert refused or np.array_equal(B, A), place  # damage to a date, say, changes no number
        outcomes.append(bool(refused))
    assert sum(outcomes) > len(outcomes) / 2


@pytest.mark.parametrize("name", ["y.jsonl", "y.arff", "y.arff.gz", "y.zip", "y.pkl", "y.dta", "y.svm"])
def test_labels_in_a_format_that_is_no_list_of_them_are_refused(tmp_path, name):
    np.save(tmp_path / "a.npy", A)
    (tmp_path / name).write_text('{"a": 1}\n{"a": 2}\n{"a": 3}\n{"a": 4}\n')
    with pytest.raises(UserError, match=f"{name} is not read as a file of labels; write them as text"):
        readers.read(tmp_path / "a.npy", labels=str(tmp_path / name))


def test_an_empty_text_is_no_label(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        "".join(f'{{"x": {j}, "label": "{"ab"[j % 2] if j else ""}"}}\n' for j in range(4))
    )
    labels = readers.read_content(readers.FileOptions([tmp_path / "a.jsonl"])).labels
    assert [None if pd.isna(label) else label for label in labels] == [None, "b", "a", "b"]


def test_comments_of_arff_take_no_memory_and_any_line_end_is_read(tmp_path):
    (tmp_path / "a.arff").write_bytes(b"% x\n" * 300_000 + arff_text(A, Y).replace("\n", "\r").encode())
    tracemalloc.start()
    B, _ = read(tmp_path / "a.arff")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.array_equal(B, A)
    assert peak < 12 << 20


def test_characters_of_mat_73_are_not_numbers(tmp_path):
    mat73(tmp_path / "a.mat", fea=A)
    with h5py.File(tmp_path / "a.mat", "r+") as file:
        file["fea"].attrs["MATLAB_class"] = np.bytes_("char")
    with pytest.raises(UserError, match="is not a matrix of numbers"):
        read(tmp_path / "a.mat")


@pytest.mark.parametrize("compression", ["zstd", "lz4", "uncompressed", "stream"])
def test_feather_is_the_table_that_was_written(tmp_path, compression, rng):
    pyarrow = pytest.importorskip("pyarrow.feather", reason="the extra 'parquet' is not installed")
    frame = pd.DataFrame(rng.standard_normal((50, 3)), columns=list("xyz"))
    frame = frame.assign(label=rng.integers(0, 3, 50), kind=pd.Categorical([*"abcde"] * 10))
    path = str(tmp_path / "t.feather")
    if compression == "stream":
        table = pyarrow.Table.from_pandas(frame)
        with pytest.importorskip("pyarrow").ipc.new_stream(path, table.schema) as stream:
            stream.write_table(table)
    else:
        pyarrow.write_feather(frame, path, compression=compression, chunksize=7)
    data = datasets.load("file", {"path": path, "labels": ["kind", "label"]})
    assert np.array_equal(data.A, frame[[*"xyz"]])
    assert np.array_equal(data.references, [frame["kind"].cat.codes, frame["label"]])


def arrow_columns():
    """Columns of Arrow by what is odd about them; the same values can be written as CSV and Parquet."""
    pa = pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
    decimals, dates = [*map(Decimal, ("10.25", "9.5", "3"))] * 4, [date(2020, 1, 1 + i % 3) for i in range(12)]
    return {
        "codes of integers": pa.array([7, 5, 9] * 4).dictionary_encode(),
        "codes of floats": pa.array([7.5, 5, 9] * 4).dictionary_encode(),
        "codes of truth values": pa.array([True, False, True] * 4).dictionary_encode(),
        "codes of dates": pa.array(dates).dictionary_encode(),
        "codes and nulls": pa.array([7, None, 9] * 4).dictionary_encode(),
        "decimals": pa.array(decimals),
        "decimals of 256 bits": pa.array(decimals, pa.decimal256(40, 5)),
        "codes of decimals": pa.array(decimals).dictionary_encode(),
        "decimals and nulls": pa.array([None, *decimals[1:]]),
        "only nulls": pa.nulls(12),
        "float16 and nulls": pa.array([np.float16(1), None, np.float16(2)] * 4, pa.float16()),
        "text": pa.array([*"abc"] * 4),
        "bytes": pa.array([b"a", b"b", b"c"] * 4),
        "dates": pa.array(dates),
        "uint64": pa.array([2**63, 2**53, 5] * 4, pa.uint64()),
    }


ARROW = (
    "codes of integers", "codes of floats", "codes of truth values", "codes of dates", "codes and nulls", "decimals",
    "decimals of 256 bits", "codes of decimals", "decimals and nulls", "only nulls", "float16 and nulls", "text",
    "bytes", "dates", "uint64",
)  # fmt: skip


def write_arrow(path, table, stream=False, rows=5, **options):
    ipc = pytest.importorskip("pyarrow.ipc", reason="the extra 'parquet' is not installed")
    new, options = ipc.new_stream if stream else ipc.new_file, ipc.IpcWriteOptions(**options)
    with new(str(path), table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rows)
    return path.read_bytes()


def table_outcome(path, **options):
    """The matrix, names and classes that a file gives, or the error without the name of the file."""
    try:
        B, labels, names = readers.read(path, **options)
    except UserError as error:
        return str(error).replace(path.name, "FILE")
    return B.tolist(), names, None if labels is None else labels.tolist()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ARROW)
def test_a_column_of_arrow_is_read_as_the_same_column_of_other_tables(tmp_path, name, rng):
    pa, pq = (
        pytest.importorskip(name, reason="the extra 'parquet' is not installed")
        for name in ("pyarrow", "pyarrow.parquet")
    )
    table = pa.table({"x": rng.standard_normal(12), "v": arrow_columns()[name], "label": [0, 1, 2] * 4})
    write_arrow(tmp_path / "t.feather", table)
    write_arrow(tmp_path / "t.arrows", table, stream=True)
    plain = arrow_columns()[name]
    plain = plain.dictionary_decode() if pa.types.is_dictionary(plain.type) else plain
    plain = plain.cast(pa.string()) if name == "bytes" else plain
    table.set_column(1, "v", plain).to_pandas().to_csv(tmp_path / "t.csv", index=False)
    others = ["t.arrows", "t.csv"]
    if name not in ("codes of decimals", "decimals of 256 bits"):  # which pyarrow cannot write
        pq.write_table(table, tmp_path / "t.parquet")
        others.append("t.parquet")
    for options in ({"missing": "mean"}, {"missing": "drop"}, {"encode": "onehot", "missing": "drop"}, {"label": "v"}):
        told = table_outcome(tmp_path / "t.feather", **options)
        for other in others:
            assert table_outcome(tmp_path / other, **options) == told or isinstance(told, str), (options, other)
            assert isinstance(table_outcome(tmp_path / other, **options), str) == isinstance(told, str), (
                options,
                other,
            )


@pytest.mark.parametrize("suffix", [".feather", ".arrow", ".parquet"])
@pytest.mark.parametrize("kind", ["lists", "records"])
def test_a_column_of_lists_or_records_is_refused_and_can_be_dropped(tmp_path, suffix, kind, rng):
    pa, pq = (
        pytest.importorskip(name, reason="the extra 'parquet' is not installed")
        for name in ("pyarrow", "pyarrow.parquet")
    )
    cells = [[1, 2]] * 12 if kind == "lists" else [{"a": 1}] * 12
    table = pa.table({"x": rng.standard_normal(12), "v": cells, "label": [0, 1, 2] * 4})
    path = tmp_path / f"t{suffix}"
    if suffix == ".parquet":
        pq.write_table(table, path)
    else:
        write_arrow(path, table, stream=suffix == ".arrow")
    for encode in ("none", "onehot"):
        with pytest.raises(UserError, match=r"column 'v' of t.* has lists or records as cells.*omit it"):
            datasets.load("file", {"path": str(path), "encode": encode})
    with pytest.raises(UserError, match=r"column 'v' of t.* has lists or records as cells.*name another column"):
        datasets.load("file", {"path": str(path), "label": "v"})
    assert np.array_equal(datasets.load("file", {"path": str(path), "drop": ["v"]}).A[:, 0], table["x"])


@pytest.mark.parametrize("suffix", [".feather", ".parquet"])
def test_bytes_that_are_not_text_are_distinct_values(tmp_path, suffix):
    pa, pq = (
        pytest.importorskip(name, reason="the extra 'parquet' is not installed")
        for name in ("pyarrow", "pyarrow.parquet")
    )
    table = pa.table({"x": np.arange(12.0) ** 2, "v": [b"\\xff", b"\xff", b"a"] * 4, "label": [0, 1, 2] * 4})
    path = tmp_path / f"t{suffix}"
    pq.write_table(table, path) if suffix == ".parquet" else write_arrow(path, table)
    with pytest.raises(UserError, match=r"column 'v' of t.* is not numeric"):
        datasets.load("file", {"path": str(path)})
    assert datasets.load("file", {"path": str(path), "encode": "onehot"}).A[:, 1:].sum(axis=0).tolist() == [4, 4, 4]


@pytest.mark.parametrize("stream", [False, True])
def test_a_truncated_arrow_table_is_not_read_as_a_shorter_one(tmp_path, stream):
    pa = pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
    path, table = tmp_path / "t.arrow", pa.table({"x": np.arange(40.0), "label": [0, 1] * 20})
    whole = write_arrow(path, table, stream, rows=10)
    assert not readers.read_content(FileOptions([path])).warnings
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        try:
            content = readers.read_content(FileOptions([path]))
        except UserError:
            continue
        assert stream
        assert "may be truncated" in content.warnings[0]
    if not stream:
        with pytest.raises(UserError, match=r"t.arrow is truncated: a feather file ends with ARROW1; copy"):
            read(path)


@pytest.mark.parametrize("values", [["ab", "", "c", "d"], [b"ab", b"", b"c", b"d"]])
def test_damaged_offsets_of_text_do_not_end_the_process(tmp_path, values):
    pa = pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
    kind, data = pa.array(values).type, pa.py_buffer(b"abcd")
    for offsets in ([0, 2, 2, 1 << 30, 4], [0, 2, -(1 << 30), 3, 4], [0, 4, 1, 3, 4]):
        text = pa.Array.from_buffers(kind, 4, [None, pa.py_buffer(np.array(offsets, np.int32)), data])
        write_arrow(tmp_path / "t.feather", pa.table({"x": [1.0, 2, 3, 4], "t": text}))
        with pytest.raises(UserError, match=r"t.feather is not a readable feather file: .*offset"):
            read(tmp_path / "t.feather", drop=["t"])


@pytest.mark.parametrize("form", ["views", "runs", "views of bytes"])
def test_rows_of_arrow_that_share_one_long_text_are_refused_before_they_are_copied(tmp_path, form):
    pa = pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
    n, text = 1000, b"a" * 10**6  # 1 GB if each row has its own
    if form == "runs":
        column = pa.RunEndEncodedArray.from_arrays([n], [text.decode()])
    else:
        view = np.array([len(text), int.from_bytes(text[:4], "little"), 0, 0], np.int32)
        kind = pa.string_view() if form == "views" else pa.binary_view()
        column = pa.Array.from_buffers(kind, n, [None, pa.py_buffer(np.tile(view, n)), pa.py_buffer(text)])
    write_arrow(tmp_path / "t.feather", pa.table({"x": np.zeros(n), "v": column}), rows=n)
    with pytest.raises(UserError, match=r"t.feather has texts in column 'v' that unfold to too much: 1 GB, but"):
        read(tmp_path / "t.feather", drop=["v"])


def test_lists_that_overlap_take_no_memory_if_they_are_dropped(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
    lists = pa.ListViewArray.from_arrays(np.zeros(10**4, np.int32), np.full(10**4, 10**5, np.int32), np.zeros(10**5))
    write_arrow(tmp_path / "t.feather", pa.table({"x": np.zeros(10**4), "v": lists}), rows=10**4)
    assert read(tmp_path / "t.feather", drop=["v"])[0].shape == (10**4, 1)


def test_text_of_arrow_that_is_not_utf8_is_refused(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
    text = pa.array([b"a", b"\xff"]).view(pa.string())
    write_arrow(tmp_path / "t.feather", pa.table({"x": [1.0, 2], "t": text}))
    with pytest.raises(UserError, match=r"t.feather is not a readable feather file: .*UTF8"):
        read(tmp_path / "t.feather")


@pytest.mark.parametrize(
    "frame", [pd.DataFrame({"x": np.zeros(2 * 10**6)}), pd.DataFrame({"x": [1.0, 2.0], "t": ["a" * 10**7, "b"]})]
)
def test_feather_that_unpacks_to_too_much_is_refused(tmp_path, frame):
    pyarrow = pytest.importorskip("pyarrow.feather", reason="the extra 'parquet' is not installed")
    path = tmp_path / "t.feather"
    pyarrow.write_feather(frame, str(path), compression="zstd")
    with pytest.raises(UserError, match=r"t.feather claims \d+ rows of . columns: .* GB, but"):
        datasets.load("file", {"path": str(path), "k": 2, "max_gb": 0.005})
