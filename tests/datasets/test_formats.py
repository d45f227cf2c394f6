"""Readers of matrix files, on files written here in their original form, and the checks of every matrix."""

import bz2
import gzip
import lzma
import pickle
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file, load_svmlight_files

from kmdr.base.errors import UserError
from kmdr.datasets import validation
from kmdr.datasets.formats import readers as formats
from kmdr.datasets.formats import svmlight, tables
from kmdr.datasets.formats.label_files import read_labels
from kmdr.datasets.sources import text_like

DENSE = np.array([[0.0, 1.5, 0.0], [2.0, 0.0, -3.0], [0.0, 0.25, 0.0], [7.0, 0.0, 0.0]])
CLASSES = np.array([3, 1, 3, 2])
CODED = [2, 0, 2, 1]


def same(read, expected=DENSE, labels=CODED):
    A, coded, _ = read
    assert np.array_equal(A.toarray() if scipy.sparse.issparse(A) else A, expected)
    assert (coded.dtype, coded.tolist()) == (np.int64, labels) if labels else coded is None


# --- svmlight


def svm(path, text, opener=open):
    with opener(path, "wb") as file:
        file.write(text.encode())
    return path


@pytest.mark.parametrize("zero_based", [True, False])
@pytest.mark.parametrize(("suffix", "opener"), [("", open), (".bz2", bz2.open), (".gz", gzip.open), (".xz", lzma.open)])
def test_svmlight_is_what_sklearn_reads_bit_by_bit(tmp_path, rng, zero_based, suffix, opener):
    # Magnitudes from denormal to near overflow, so that both ways of reading a number are taken.
    values = rng.standard_normal(3000) * 10.0 ** rng.integers(-300, 300, 3000)
    values[:1500] = np.round(rng.random(1500), rng.integers(1, 12))
    A = scipy.sparse.random_array(
        (200, 150), density=0.1, rng=rng, data_sampler=lambda size: values[:size], format="csr"
    )
    y = rng.integers(-3, 4, 200)
    with opener(tmp_path / f"a.svm{suffix}", "wb") as file:
        dump_svmlight_file(A, y, file, zero_based=zero_based, comment="written by a test")
    theirs, classes = load_svmlight_file(str(tmp_path / "a.svm"), zero_based="auto") if not suffix else (None, None)
    B, labels, _ = formats.read(tmp_path / f"a.svm{suffix}")
    if theirs is None:
        with opener(tmp_path / f"a.svm{suffix}", "rb") as file:
            theirs, classes = load_svmlight_file(file, zero_based="auto")
    assert B.shape == theirs.shape
    for part in ("data", "indices", "indptr"):
        assert np.array_equal(getattr(B, part), getattr(theirs, part)), part
    assert np.array_equal(np.unique(classes)[labels], classes)


def test_svmlight_number_is_what_python_reads(tmp_path):
    numbers = [
        "1", "+1", "-1", "0.1", ".5", "5.", "1e3", "1E+3", "1e-3", "-0", "9007199254740993", "0.30000000000000004",
        "123456789012345678", "1234567890123456789012", "1e22", "1e23", "4.9e-324", "1.7976931348623157e308", "1e-400",
        "0.000000000000000000000000012345", "00012.5000", "2.2250738585072011e-308", "1e00002", "8.5e-23",
    ]  # fmt: skip
    svm(tmp_path / "a.svm", "".join(f"{i} 1:{number}\n" for i, number in enumerate(numbers)))
    A, _, _ = formats.read(tmp_path / "a.svm")
    assert A.data.tobytes() == np.array([float(number) for number in numbers]).tobytes()


def test_svmlight_by_hand(tmp_path):
    text = "# comment\n\n+1 1:2 3:4.5 # more\r\n-1\t2:1e-1\n   1 3:7   \n-1 1:1"
    A, labels, features = formats.read(svm(tmp_path / "a.txt", text))
    assert A.toarray().tolist() == [[2, 0, 4.5], [0, 0.1, 0], [0, 0, 7], [1, 0, 0]]
    assert labels.tolist() == [1, 0, 1, 0]
    assert features is None
    assert A.indices.dtype == A.indptr.dtype == np.int32


def test_parts_follow_each_other_and_share_the_base_of_their_indices(tmp_path):
    first, second = svm(tmp_path / "a.bz2", "1 1:2\n", bz2.open), svm(tmp_path / "a.t.bz2", "2 0:3 4:1\n", bz2.open)
    A, labels, _ = formats.read([first, second])
    theirs = load_svmlight_files([str(first), str(second)])
    assert np.array_equal(A.toarray(), np.vstack([theirs[0].toarray(), theirs[2].toarray()]))
    assert labels.tolist() == [0, 1]
    assert svmlight.svmlight(first, d=9)[0].shape == (1, 9)
    with pytest.raises(UserError, match=r"a.bz2 has feature 4, but the dataset has only 3"):
        svmlight.svmlight(first, second, d=3)
    scipy.io.savemat(tmp_path / "b.mat", {"X": DENSE})
    with pytest.raises(UserError, match="only svmlight files may be several"):
        formats.read([tmp_path / "b.mat", tmp_path / "b.mat"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1 1:2\n2 qid:3 1:2\n", "line 2 of a.svm has a qid"),
        ("1 1:2\n\n1,2 1:2\n", "line 3 of a.svm has several labels"),
        ("1:2 2:3\n", "line 1 of a.svm has no label"),
        ("1 1:2\n,1:2\n", "line 2 of a.svm has several labels"),
        ("1 2:2 1:3\n", "line 1 of a.svm has indices that do not ascend"),
        ("1 2:2 2:3\n", "do not ascend"),
        ("1 99999999999:2\n", "beyond 2147483646"),
        ("1 1:2\n1 -1:2\n", "line 2 of a.svm is not of the form"),
        ("1 1:x\n", "line 1 of a.svm is not of the form"),
        ("1 1:1_0\n", "is not of the form"),
        ("1 1:\n2 1:3\n", "line 1 of a.svm is not of the form"),
        ("1 1\n2 1:3\n", "line 1 of a.svm is not of the form"),
        ("1 1 :2\n", "is not of the form"),
        ("1 1:2:3\n", "is not of the form"),
        ("1 1:--2\n", "is not of the form"),
        ("a 1:2\n", "line 1 of a.svm is not of the form"),
        ("<!DOCTYPE html>\n<html>", "line 1 of a.svm is not of the form"),
        ("1 1:2\nnan 1:2\n", "labels of a.svm are missing at row 1"),
    ],
)
def test_other_text_is_no_svmlight(tmp_path, text, reason):
    with pytest.raises(UserError, match=reason):
        formats.read(svm(tmp_path / "a.svm", text))


def test_damaged_and_endless_text_is_refused(tmp_path, monkeypatch):
    whole = svm(tmp_path / "a.bz2", "1 1:2\n" * 5000, bz2.open).read_bytes()
    (tmp_path / "a.bz2").write_bytes(whole[:-7])
    with pytest.raises(UserError, match="damaged or truncated"):
        formats.read(tmp_path / "a.bz2")
    (tmp_path / "a.gz").write_bytes(whole)
    with pytest.raises(UserError, match="damaged or truncated"):
        formats.read(tmp_path / "a.gz")
    monkeypatch.setattr(svmlight, "_LINE_BYTES", 1000)
    with pytest.raises(UserError, match="a line has more than 1000 bytes"):
        formats.read(svm(tmp_path / "b.bz2", "1" * 10**6, bz2.open))
    with pytest.raises(UserError, match="there is no file"):
        formats.read(tmp_path / "none.svm")


# --- the other formats


def test_npz(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, X=DENSE, y=CLASSES)
    same(formats.read(path))
    np.savez_compressed(path, data=DENSE.astype(np.float32))
    A, labels, _ = formats.read(path)
    assert A.dtype == np.float32
    assert labels is None
    sparse = scipy.sparse.csr_array(DENSE)
    for layout in ("csr", "csc", "coo"):
        scipy.sparse.save_npz(path, sparse.asformat(layout))
        result = formats.read(path)
        assert isinstance(result[0], scipy.sparse.csr_array)
        same(result, labels=None)
    parts = {"data": sparse.data, "indices": sparse.indices, "indptr": sparse.indptr}
    np.savez(path, **parts, shape=DENSE.shape, labels=["c", "a", "c", "b"], words=["one", "two", "three"])
    same(formats.read(path))
    assert formats.read(path)[2] == ("one", "two", "three")


def test_npy_is_mapped(tmp_path):
    np.save(tmp_path / "a.npy", DENSE)
    np.save(tmp_path / "y.npy", CLASSES)
    (tmp_path / "y.txt").write_text("c\na\nc\nb\n")
    A, labels, _ = formats.read(tmp_path / "a.npy")
    assert isinstance(A, np.memmap)
    assert labels is None
    same(formats.read(tmp_path / "a.npy", labels=str(tmp_path / "y.npy")))
    same(formats.read(tmp_path / "a.npy", labels=str(tmp_path / "y.txt")))
    (tmp_path / "y.txt").write_text("10\n2\n10\n9")
    same(formats.read(tmp_path / "a.npy", labels=str(tmp_path / "y.txt")))


@pytest.mark.parametrize("names", [("fea", "gnd"), ("X", "Y"), ("X", "y"), ("data", "labels")])
@pytest.mark.parametrize("points", [DENSE, scipy.sparse.csc_array(DENSE)])
def test_mat(tmp_path, names, points):
    scipy.io.savemat(tmp_path / "a.mat", {names[0]: points, names[1]: CLASSES[:, None], "other": 3})
    same(formats.read(tmp_path / "a.mat"))
    scipy.io.savemat(tmp_path / "a.mat", {names[0]: points, names[1]: np.array([["c", "a", "c", "b"]], object)})
    same(formats.read(tmp_path / "a.mat"))
    same(formats.read(tmp_path / "a.mat", labels="none"), labels=None)


def test_tables(tmp_path):
    frame = pd.DataFrame(DENSE, columns=["one", "two", "three"]).assign(label=["c", "a", "c", "b"])
    for name, settings in (("a.csv", {}), ("a.tsv", {"sep": "\t"}), ("a.csv.gz", {}), ("a.TSV.bz2", {"sep": "\t"})):
        frame.to_csv(tmp_path / name, index=False, **settings)
        result = formats.read(tmp_path / name)
        same(result)
        assert result[2] == ("one", "two", "three")
    frame.rename(columns={"label": "kind"}).to_csv(tmp_path / "a.csv", index=False)
    same(formats.read(tmp_path / "a.csv", label="kind"))
    with pytest.raises(UserError, match=r"column 'kind' of a.csv is not numeric"):
        formats.read(tmp_path / "a.csv")
    with pytest.raises(UserError, match="did you mean 'kind'"):
        formats.read(tmp_path / "a.csv", label="kinds")
    # Without a head no row is lost, and columns are called by their place.
    np.savetxt(tmp_path / "b.csv", np.c_[DENSE, CLASSES], delimiter=",")
    same(formats.read(tmp_path / "b.csv", label="3"))
    same(formats.read(tmp_path / "b.csv"), expected=np.c_[DENSE, CLASSES], labels=None)
    values = ["0.1", "0.30000000000000004", "1e-310", "123456789.123456789"]
    (tmp_path / "c.csv").write_text("x\n" + "\n".join(values))
    assert formats.read(tmp_path / "c.csv")[0].ravel().tolist() == [float(value) for value in values]


def test_parquet_without_pyarrow_names_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "pyarrow.parquet", raising=False)
    with pytest.raises(UserError, match=r"pip install 'kmdr\[parquet\]'"):
        formats.read(tmp_path / "a.parquet")


class Claims:
    """What pyarrow's ParquetFile says of the end of a file: one group of rows, columns of 8 bytes and one of text."""

    def __init__(self, rows, columns, bytes_a_column=0):
        kinds = ["DOUBLE"] * columns + ["BYTE_ARRAY"]
        named = [SimpleNamespace(path=f"c{i}", physical_type=kind, length=None) for i, kind in enumerate(kinds)]
        chunk = SimpleNamespace(num_values=rows, total_uncompressed_size=bytes_a_column)
        group = SimpleNamespace(num_rows=rows, column=lambda _: chunk)
        self.schema_arrow = SimpleNamespace(names=[column.path for column in named])
        self.metadata = SimpleNamespace(
            num_rows=rows, num_columns=len(named), num_row_groups=1,
            schema=SimpleNamespace(column=named.__getitem__), row_group=lambda _: group,
        )  # fmt: skip

    def __call__(self, path):
        return nullcontext(self)


def test_parquet_is_read_as_a_table(tmp_path, monkeypatch):
    frame = pd.DataFrame(DENSE.astype(np.float32), columns=["one", "two", "three"]).assign(label=CLASSES)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", SimpleNamespace(ParquetFile=Claims(4, 3)))
    read = []

    def read_parquet(path, engine, read_dictionary):
        read.append((engine, read_dictionary))
        return frame.copy()

    monkeypatch.setattr(tables.pd, "read_parquet", read_parquet)
    result = formats.read(tmp_path / "a.pq")
    same(result)
    assert result[0].dtype == np.float32
    assert read == [("pyarrow", ["c3"])]  # text as codes: one that repeats may have any length
    frame["label"] = pd.Categorical(["z", "x", "z", "y"])
    same(formats.read(tmp_path / "a.pq"))
    frame["label"] = pd.Categorical(["z", "x", None, "y"])
    with pytest.raises(UserError, match="missing at row 2"):
        formats.read(tmp_path / "a.pq")


@pytest.mark.parametrize(("rows", "width"), [(10**9, 0), (4, 2**33)])
def test_parquet_that_claims_too_much_is_refused_unread(tmp_path, monkeypatch, rows, width):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", SimpleNamespace(ParquetFile=Claims(rows, 3, width)))
    monkeypatch.setattr(tables.pd, "read_parquet", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(UserError, match=rf"a\.pq claims {rows} rows of 4 columns: 3\S+ GB, but 0\.5 GB are allowed"):
        formats.read(tmp_path / "a.pq")


def test_parquet_of_zeros_is_refused_by_what_it_unpacks_to(tmp_path):
    pytest.importorskip("pyarrow.parquet", reason="the extra 'parquet' is not installed")
    frame = pd.DataFrame({"a": np.zeros(10**6), "label": ["x" * 1000, "y" * 1000] * (10**6 // 2)})
    frame.to_parquet(tmp_path / "a.pq")
    with pytest.raises(UserError, match=r"claims 1000000 rows of 2 columns: 0\.016 GB"):
        formats.read(tmp_path / "a.pq", max_gb=1e-3)
    A, labels, features = formats.read(tmp_path / "a.pq")
    assert (A.shape, features, labels[:4].tolist()) == ((10**6, 1), ("a",), [0, 1, 0, 1])


def test_labels_take_memory_by_their_own_lengths(tmp_path):
    # The longest of them times all points, as an array of numpy's text takes, would be 400 GB.
    labels = np.array(["b" * 10**6, *["a", "c"] * 50_000], dtype=object)
    assert validation.codes(labels, "a.csv")[:3].tolist() == [1, 0, 2]
    (tmp_path / "labels.txt").write_text("\n".join(labels))
    read, _ = read_labels(tmp_path / "labels.txt", len(labels))
    assert validation.codes(read, "labels.txt")[:3].tolist() == [1, 0, 2]


class Bomb:
    def __reduce__(self):
        return exec, ("raise SystemExit('a pickle was run')",)


def test_pickles_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.array([[Bomb()]], object), allow_pickle=True)
    np.savez(tmp_path / "a.npz", X=np.array([[Bomb()]], object))
    for name in ("a.npy", "a.npz"):
        with pytest.raises(UserError, match=f"{name} holds Python objects"):
            formats.read(tmp_path / name)
    (tmp_path / "b.npy").write_bytes(pickle.dumps(Bomb()))
    (tmp_path / "b.npz").write_bytes(pickle.dumps(Bomb()))
    for name in ("b.npy", "b.npz"):
        with pytest.raises(UserError, match=rf"{name} (holds Python objects|is not a readable)"):
            formats.read(tmp_path / name)


def test_damaged_files_are_refused_in_one_sentence(tmp_path):
    np.savez(tmp_path / "a.npz", X=DENSE)
    np.save(tmp_path / "a.npy", DENSE)
    scipy.io.savemat(tmp_path / "a.mat", {"X": np.arange(1e4)}, do_compression=True)
    for name in ("a.npz", "a.npy", "a.mat"):
        path = tmp_path / name
        path.write_bytes(path.read_bytes()[:-20])
        with pytest.raises(UserError, match=rf"{name} (is not a readable|has no matrix)") as caught:
            formats.read(path)
        assert "\n" not in str(caught.value)
    (tmp_path / "b.csv").write_text("a,b\n1,2\n3,4,5,6\n")
    with pytest.raises(UserError, match=r"b.csv is not a readable CSV file"):
        formats.read(tmp_path / "b.csv")


@pytest.mark.parametrize("suffix", [".mtx", ".mtx.gz"])
def test_zero_bytes_in_matrix_market_are_refused_before_they_are_parsed(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    with (gzip.open if suffix.endswith(".gz") else open)(path, "wb") as file:
        # As scipy.io.mmwrite writes with precision=17; scipy.io.mmread ends the process at it.
        file.write(b"%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 2.5\0\0\0\n2 2 1.5\0\0\0\n")
    with pytest.raises(UserError, match=r"a\.mtx\S* is not a Matrix Market file: it has bytes of 0; write it again"):
        formats.read(path)


def test_duplicates_and_float16_are_the_same_in_every_sparse_container(tmp_path):
    rows, columns = np.array([0, 0, 1]), np.array([1, 1, 0])
    for dtype, values, total in (("uint8", [200, 100, 7], 300), ("bool", [1, 1, 1], 1), ("float16", [0.5, 2, 7], 2.5)):
        coo = scipy.sparse.coo_array((np.array(values, np.float64), (rows, columns)), shape=(2, 2))
        coo.data = coo.data.astype(dtype)
        parts = coo.data, columns, np.array([0, 2, 3])
        csr = scipy.sparse.csr_array(parts, shape=(2, 2))
        csc = scipy.sparse.csc_array((coo.data[[2, 0, 1]], np.array([1, 0, 0]), np.array([0, 1, 3])), shape=(2, 2))
        for A in (coo, csr, csc):
            A = validation.canonical(A)  # noqa: PLW2901
            assert A.dtype == np.float64
            assert A.toarray().tolist() == [[0, total], [values[2], 0]]


def test_names_that_say_nothing(tmp_path):
    np.savez(tmp_path / "a.npz", points=DENSE)
    with pytest.raises(UserError, match=r"no matrix with a usual name, only points; name the points X or"):
        formats.read(tmp_path / "a.npz")
    with pytest.raises(UserError, match=r"the extension of 'a.dat' is not known"):
        formats.read(tmp_path / "a.dat")
    with pytest.raises(UserError, match="did you mean 'svmlight'"):
        formats.read(tmp_path / "a.dat", format="svmlite")
    same(formats.read(svm(tmp_path / "a.dat", "3 2:1.5\n1 1:2 3:-3\n3 2:0.25\n2 1:7\n"), format="svmlight"))
    with pytest.raises(UserError, match=r"no array of labels in a\.npz is named 'kind'; valid: points"):
        formats.read(tmp_path / "a.npz", label="kind")
    same(formats.read(tmp_path / "a.npz", matrix="points"), labels=None)


# --- labels


def test_labels_of_any_kind_become_codes():
    assert validation.codes(["b", "a", "b"], "x").tolist() == [1, 0, 1]
    assert validation.codes(np.array([[-1.5], [2.0], [-1.5]]), "x").tolist() == [0, 1, 0]
    assert validation.codes(np.array([True, False]), "x").tolist() == [1, 0]
    assert validation.codes(np.array(["b", "a"], object), "x").tolist() == [1, 0]
    with pytest.raises(UserError, match="missing at row 1"):
        validation.codes(np.array([1.0, np.nan]), "x")
    with pytest.raises(UserError, match="missing at row 0"):
        validation.codes(np.array([None, "a"], object), "x")
    with pytest.raises(UserError, match=r"shape \(2, 2\)"):
        validation.codes(np.eye(2), "x")


# --- what every matrix must be


def with_value(value):
    A = np.ones((5, 4))
    A[3, 2] = value
    return A


@pytest.mark.parametrize("sparse", [False, True])
def test_entries_are_checked_wherever_they_are(monkeypatch, sparse):
    monkeypatch.setattr(validation, "_BLOCK_BYTES", 70)
    make = scipy.sparse.csr_array if sparse else np.array
    for value in (np.nan, np.inf, -np.inf):
        with pytest.raises(UserError, match="NaN or an infinite value at row 3, column 2"):
            validation.check(make(with_value(value)), None)
    validation.check(make(with_value(-1.0)), None)
    with pytest.raises(UserError, match="negative value at row 3, column 2"):
        validation.check(make(with_value(-1.0)), None, nonnegative=True)


def test_rows_of_zeros_are_points_in_dense_and_sparse_data_but_refused_in_counts(monkeypatch):
    monkeypatch.setattr(validation, "_BLOCK_BYTES", 70)
    A = np.ones((5, 4))
    A[[2, 4]] = 0
    validation.check(A, None)  # the origin is a point like any other
    validation.check(scipy.sparse.csr_array(A), None)
    with pytest.raises(UserError, match=r"row 2, counted from 0, has only zeros .*: 2\)"):
        validation.check(scipy.sparse.csr_array(A), None, nonnegative=True)
    with pytest.raises(UserError, match="row 2, counted from 0"):
        validation.check(A, None, nonnegative=True)
    stored = scipy.sparse.csr_array((np.array([1.0, 0.0]), ([0, 1], [0, 0])))
    with pytest.raises(UserError, match="row 1"):
        validation.check(validation.canonical(stored), None, nonnegative=True)


@pytest.mark.parametrize(
    ("A", "labels", "reason"),
    [
        (np.ones(4), None, r"shape \(4,\)"),
        (np.ones((4, 2, 2)), None, r"shape \(4, 2, 2\)"),
        (np.ones((1, 3)), None, "1 x 3"),
        (np.ones((0, 3)), None, "0 x 3"),
        (np.ones((3, 0)), None, "3 x 0"),
        (np.ones((3, 2)), np.array([0, 1]), "2 labels for 3 points"),
        (np.ones((3, 2)), np.array([1, 1, 1]), "of one class"),
    ],
)
def test_what_is_no_dataset(A, labels, reason):
    with pytest.raises(UserError, match=reason):
        validation.check(A, labels)


@pytest.mark.parametrize("A", [np.ones((3, 2), complex), np.array([["a"], ["b"]]), np.array([[None], [1]], object)])
def test_what_is_no_real_number(A):
    with pytest.raises(UserError, match="matrix of real numbers"):
        validation.kept_type(A)


def test_canonical_is_one_form_and_refuses_parts_that_do_not_fit():
    messy = scipy.sparse.csr_array((np.array([3, 1, 2, 0]), np.array([2, 0, 0, 1]), np.array([0, 3, 4])), shape=(2, 3))
    neat = validation.canonical(messy)
    assert (neat.data.tolist(), neat.indices.tolist(), neat.indptr.tolist()) == ([3.0, 3.0], [0, 2], [0, 2, 2])
    for layout in (scipy.sparse.csr_array, scipy.sparse.csc_array):
        for indices, indptr in (([5], [0, 1, 1, 1]), ([0], [0, 1, 1, 9]), ([-1], [0, 1, 1, 1])):
            bad = layout((3, 3))
            bad.data, bad.indices, bad.indptr = np.ones(1), np.array(indices), np.array(indptr)
            with pytest.raises(UserError, match="are inconsistent"):
                validation.canonical(bad)


# --- generated text


def test_text_like_is_what_it_says():
    settings = {"d": 5000, "k": 7, "terms": 40.0, "skew": 1.0}
    A, labels = text_like.text_like(20_000, **settings)
    assert A.shape == (20_000, 5000)
    assert A.has_canonical_format
    assert (A.data > 0).all()
    np.testing.assert_allclose(A.multiply(A).sum(axis=1), 1)
    validation.check(A, labels, nonnegative=True)
    sizes = np.bincount(labels)
    # Shares 1 / (c H_7), H_7 = 2.593: the first class has 38.6 %, the last 5.5 %.
    assert len(sizes) == 7
    np.testing.assert_allclose(sizes[[0, -1]] / 20_000, [0.386, 0.0551], atol=0.02)
    again, _ = text_like.text_like(20_000, **settings)
    assert (again.data.tobytes(), again.indices.tobytes()) == (A.data.tobytes(), A.indices.tobytes())
    other, _ = text_like.text_like(20_000, seed=1, **settings)
    assert other.data.tobytes() != A.data.tobytes()
    # Documents of a class share their topic's terms.
    means = np.stack([A[labels == c][:50].mean(axis=0) for c in range(7)])
    likeness = (A[labels == 6][50:150] @ means.T).mean(axis=0)
    assert likeness.argmax() == 6
    with pytest.raises(UserError, match="at least k, which is 7"):
        text_like.text_like(6, **settings)
    with pytest.raises(UserError, match="at least 0"):
        text_like.text_like(20, seed=-1, **settings)
    with pytest.raises(UserError, match=r"1000000000000 documents of 40 terms take 1\.62e\+06 GB, more than half of"):
        text_like.text_like(10**12, **settings)
