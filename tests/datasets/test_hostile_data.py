"""Files that mean harm or are merely odd: one sentence that names the file, and little memory."""

import gzip
import io
import os
import re
import resource
import struct
import sys
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from kmdr import datasets
from kmdr.base.errors import UserError

A = np.arange(24.0).reshape(8, 3)
MEMORY = 2**29
STATUS = Path("/proc/self/status")


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KMDR_DATA", raising=False)


def load(path, **options):
    return datasets.load("file", {"path": str(path), "k": 2, **options})


def peak():
    """Return the largest memory of this process since `forget_peak`, or since its start where that is impossible."""
    if STATUS.exists():
        return 1024 * int(re.search(r"VmHWM:\s*(\d+)", STATUS.read_text())[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def forget_peak():
    """Let the largest memory be what it is now: the tests before this one may have taken more than it may."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak()


def zipped(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)


def npy(array, shape=None):
    """Bytes of a ``.npy`` file, whose header may claim another shape."""
    file = io.BytesIO()
    header = {"descr": array.dtype.str, "fortran_order": False, "shape": shape or array.shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + array.tobytes()


def csv_of_zeros(path):
    zeros = gzip.compress(b"0,0,0,0,0,0,0,0\n" * 2**16)
    path.write_bytes(gzip.compress(b"a,b,c,d,e,f,g,h\n") + 100 * zeros)  # 105 MB of text in a tenth of a megabyte


def ragged(path):
    path.write_bytes(b",".join(b"c%d" % i for i in range(100_000)) + b"\n" + b"1\n" * 10_000)


def svm_of_zeros(path):
    path.write_bytes(60 * gzip.compress(b"1 1:0 2:0 3:0 4:0\n" * 2**16))


def dia(path):
    scipy.sparse.save_npz(path, scipy.sparse.dia_array((np.ones((1, 4)), [0]), shape=(10**9, 10**9)))


def npz_of_zeros(path):
    np.savez_compressed(path, X=np.zeros((2**13, 9 * 2**10)))


def mat_of_zeros(path):
    scipy.io.savemat(path, {"X": scipy.sparse.csc_array(A), "other": 1}, do_compression=False)
    packed = zlib.compress(struct.pack("<2I", 14, 2**31) + bytes(2**29), 9)
    with path.open("ab") as file:
        file.write(struct.pack("<2I", 15, len(packed)) + packed)


BOMBS = {
    "a.csv.gz": (csv_of_zeros, r"at least \d+ lines of 8 columns: 0\.1\d* GB"),
    "ragged.csv": (ragged, r"lines of 100000 columns: .* GB, but 0\.1 GB"),
    "a.svm.gz": (svm_of_zeros, r"unpacks to at least \d+ lines: 0\.\d+ GB"),
    "dia.npz": (dia, r"claims the shape 1000000000 x 1000000000: 16 GB"),
    "zeros.npz": (npz_of_zeros, r"unpacks to too much: 0\.604 GB"),
    "zeros.mat": (mat_of_zeros, r"zeros\.mat"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_with_numbers_and_the_remedy_before_it_takes_memory(name, tmp_path):
    make, said = BOMBS[name]
    make(tmp_path / name)
    before = forget_peak()
    with pytest.raises(UserError, match=said) as caught:
        load(tmp_path / name, max_gb=0.1)
    assert peak() - before < MEMORY
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)
    if name != "zeros.mat":  # there the damage is seen first, or the size, as the library has it
        assert "allow more with dataset.max_gb=…" in str(caught.value)


def test_a_plausible_compressed_file_is_read_and_the_option_allows_more(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", X=np.pad(A, ((0, 2000), (0, 1000))) + 1)
    with pytest.raises(UserError, match=r"0\.0161 GB, but 0\.00\d+ GB are allowed"):
        load(tmp_path / "a.npz", max_gb=1e-3)
    assert load(tmp_path / "a.npz").A.shape == (2008, 1003)
    with pytest.raises(UserError, match=r"max_gb is 0\.0"):
        load(tmp_path / "a.npz", max_gb=0)


def two_of_a_name(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", npy(A))
        archive.writestr("X.npy", npy(A + 1))


def csr(path, **parts):
    good = {"data": [1.0, 2.0], "indices": [0, 1], "indptr": [0, 1, 2], "shape": [2, 3]}
    np.savez(path, **{**good, **parts})


ODD = {
    "two.npz": (two_of_a_name, "holds 2 arrays named 'X'"),
    "claimed.npz": (lambda path: zipped(path, X=npy(A, (10**6, 10**6))), "8e.03 GB"),
    "negative.npz": (lambda path: zipped(path, X=npy(A, (-8, 3))), "is not a readable npz file"),
    "bare.npz": (lambda path: path.write_bytes(npy(A)), "rename a single array to .npy"),
    "objects.npz": (lambda path: np.savez(path, X=A.astype(object)), "Python objects"),
    "objects.npy": (lambda path: np.save(path, A.astype(object)), "Python objects"),
    "records.npy": (lambda path: np.save(path, np.zeros((8, 3), [("a", "f8")])), "a matrix of .*was given"),
    "claimed.npy": (lambda path: path.write_bytes(npy(A, (10**6, 10**6))), "is not a readable npy file"),
    "huge.npy": (lambda path: path.write_bytes(npy(A, (2**62, 2**62))), "is not a readable npy file"),
    "header.npy": (
        lambda path: path.write_bytes(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{" + b" " * 99),
        "is not a readable npy",
    ),
    "low.npz": (lambda path: csr(path, indices=[0, -1]), "are inconsistent|readable npz"),
    "high.npz": (lambda path: csr(path, indices=[0, 3]), "are inconsistent|readable npz"),
    "back.npz": (lambda path: csr(path, indptr=[0, 2, 1]), "are inconsistent|readable npz"),
    "long.npz": (lambda path: csr(path, indptr=[0, 1, 10**9]), "are inconsistent|readable npz"),
    "short.npz": (lambda path: csr(path, indptr=[0, 2]), "are inconsistent|readable npz"),
    "wide.npz": (lambda path: csr(path, shape=[2, 10**12]), "claims the shape 2 x 1000000000000: 8e.03 GB"),
    "shape.npz": (lambda path: csr(path, shape=[2, -3]), r"shape\.npz"),
    "coo.npz": (
        lambda path: np.savez(path, format="coo", shape=[2, 2], row=[0, 5], col=[0, 1], data=[1.0, 2.0]),
        "readable npz|fit each other",
    ),
    "cell.mat": (
        lambda path: scipy.io.savemat(path, {"X": np.array([A, "a"], object)}),
        "of MATLAB class cell",
    ),
    "cut.mat": (
        lambda path: path.write_bytes(b"MATLAB 5.0".ljust(124) + b"\0\1IM" + b"\x0f\0\0\0"),
        "MAT file",
    ),
    "index.csv": (lambda path: path.write_text("a,b\n1,2,3\n4,5,6\n"), "has 2 columns and the second has 3"),
    "trailing.csv": (lambda path: path.write_text("a,b\n1,2,\n4,5,\n"), "end no line with a separator"),
    "nul.csv": (lambda path: path.write_bytes(b"a,b\n1,\x002\n"), "null bytes"),
    "utf16.csv": (lambda path: path.write_text("a,b\n1,2\n", "utf-16"), "null bytes"),
    "wide.csv": (lambda path: path.write_bytes(b"1," * 300_000), "300001 columns"),
    "header.csv": (lambda path: path.write_bytes(b"a" * 2**25), "first line of 16777217 bytes"),
    "empty.csv": (lambda path: path.write_bytes(b""), "is not a readable CSV file"),
    "index.svm": (lambda path: path.write_text("1 1:1 2000000000:1\n2 1:1\n"), "2 x 2000000000: 16 GB"),
    "folder.npy": (lambda path: path.mkdir(), "is a folder; name a regular file"),
    "pipe.csv": (os.mkfifo, "is a pipe; name a regular file"),
    "loop.npy": (lambda path: path.symlink_to(path), r"loop\.npy"),
    "zero.csv": (lambda path: path.symlink_to("/dev/zero"), "is a device; name a regular file"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ODD)
def test_an_odd_file_is_one_sentence(name, tmp_path):
    make, said = ODD[name]
    path = tmp_path / name
    make(path)
    before = forget_peak()
    with pytest.raises(UserError, match=said) as caught:
        load(path)
    assert peak() - before < MEMORY
    assert "\n" not in str(caught.value)
    if name != "zero.csv":
        assert name in str(caught.value)


def test_a_folder_in_the_place_of_a_file_of_labels_is_one_sentence(tmp_path):
    np.save(tmp_path / "a.npy", A)
    with pytest.raises(UserError, match="is a folder; name a regular file") as caught:
        load(tmp_path / "a.npy", labels=str(tmp_path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("a\0b.npy", r"cannot be the path of a file .*; name another with dataset.path=…"),
        ("a" * 5000 + ".npy", r"cannot be the path of a file .*; name another with dataset.path=…"),
        ("~nobody-of-this-name/a.npy", r"names an unknown home folder; give the whole path"),
    ],
)
def test_a_path_that_cannot_be_one_is_a_sentence(path, said):
    with pytest.raises(UserError, match=said):
        load(path)


@pytest.mark.parametrize("title", ["..", ".", ".hidden", "a/b", "../a", "-rf", "+x", "a\0b", "a" * 61])
def test_a_title_is_never_a_path(title, tmp_path):
    np.save(tmp_path / "a.npy", A)
    with pytest.raises(UserError, match="option title is"):
        load(tmp_path / "a.npy", title=title)


@pytest.mark.parametrize(
    ("name", "title"), [(".npy", "data"), ("-rf.npy", "rf"), ("..npy", "data"), ("a" * 90 + ".npy", "a" * 60)]
)
def test_the_name_of_a_file_makes_a_title_that_is_no_path(name, title, tmp_path):
    np.save(tmp_path / "a.npy", A)
    (tmp_path / "a.npy").rename(tmp_path / name)
    assert load(tmp_path / name, format="npy").name == title
