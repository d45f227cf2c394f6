"""The user's own files as datasets, and the registered ones that are read as such or generated."""

import bz2
import csv
import json
import os
import re
import socket
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from sklearn.datasets import dump_svmlight_file

from kmdr import datasets
from kmdr.base import paths
from kmdr.base.errors import UserError
from kmdr.cli.jobs import run_jobs
from kmdr.datasets import UnavailableError, UnverifiedError, fingerprint, prepared, validation, verification
from kmdr.datasets.acquire.find import sha256_of
from kmdr.datasets.formats import readers as formats
from kmdr.datasets.registry import entry
from kmdr.harness.jobs import compose

A = np.arange(24.0).reshape(8, 3) % 7
Y = np.array([5, 5, 5, 5, 9, 9, 9, 9])


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("KMDR_DATA", "")

    def refused(*args, **kwargs):
        raise OSError("the network is off in tests")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)


def npz(path, **arrays):
    np.savez(path, **arrays)
    return str(path)


def load(path, **options):
    return datasets.load("file", {"path": str(path), **options})


def kept(tmp_path):
    """Names in the cache, where a failure leaves nothing."""
    return [path.name for path in (tmp_path / "cache").rglob("*")]


# --- a file of the user's


def test_file_with_labels(tmp_path):
    data = load(npz(tmp_path / "my points.npz", X=A, y=Y, feature_names=["a", "b", "c"]))
    assert (data.name, data.k, data.stand_in) == ("my_points", 2, "")
    assert np.array_equal(data.A, A)
    assert data.labels.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert data.feature_names == ("a", "b", "c")
    assert data.source == str(tmp_path / "my points.npz")
    assert load(tmp_path / "my points.npz", title="ours", k=3).name == "ours"
    assert load(tmp_path / "my points.npz", k=3).k == 3


def test_file_without_labels_needs_k(tmp_path):
    path = npz(tmp_path / "a.npz", X=A)
    with pytest.raises(UserError, match=r"a.npz has no labels, so give the number of clusters: dataset.k=…"):
        load(path)
    assert not kept(tmp_path)
    data = load(path, k=2)
    assert (data.k, data.labels, data.feature_names) == (2, None, None)
    with pytest.raises(UserError, match=r"k = 9 is larger than the number of points of a.npz \(8\)"):
        load(path, k=9)


def test_file_never_gets_the_name_of_a_registered_dataset(tmp_path):
    path = npz(tmp_path / "usps.npz", X=A, y=Y)
    assert load(path).name == "file_usps"
    with pytest.raises(UserError, match="'usps', which is the name of a registered dataset"):
        load(path, title="usps")
    with pytest.raises(UserError, match="up to 60 letters"):
        load(path, title="a/b")


def test_rows_of_a_run_carry_the_users_name_and_no_accuracy_without_labels(tmp_path, rng):
    path = npz(tmp_path / "mine.npz", X=rng.standard_normal((40, 6)))
    job = compose(
        "dataset=file", f"dataset.path={path}", "dataset.k=2", "reducer=svd", "r_grid=[2]", "repeats=1",
        "timing_repeats=0", "runner=sequential", f"out={tmp_path / 'out'}",
    )  # fmt: skip
    assert run_jobs([job]) == 0
    (row,) = csv.DictReader((tmp_path / "out" / "rows.csv").read_text().splitlines())
    assert (row["dataset"], row["status"], row["accuracy"]) == ("mine", "ok", "")


def test_several_files_from_the_command_line(tmp_path):
    for name in ("a.bz2", "a.t.bz2"):
        with bz2.open(tmp_path / name, "wb") as file:
            dump_svmlight_file(A[:4] + 1, Y[2:6], file, zero_based=False)
    job = compose("dataset=file", f"dataset.path=[{tmp_path}/a.bz2,{tmp_path}/a.t.bz2]", f"out={tmp_path / 'out'}")
    (experiment,) = job.experiments
    data = datasets.load(experiment.dataset, experiment.options)
    assert np.array_equal(data.A.toarray(), np.r_[A[:4], A[:4]] + 1)
    assert data.name == "a"


def test_changed_file_is_noticed(tmp_path, monkeypatch):
    path = npz(tmp_path / "a.npz", X=A, y=Y)
    folder = datasets.prepare("file", {"path": path})
    written = (folder / "meta.json").stat().st_ino
    os.utime(path)
    assert (datasets.prepare("file", {"path": [path]}) / "meta.json").stat().st_ino == written
    npz(tmp_path / "a.npz", X=A + 1, y=Y)
    assert np.array_equal(load(path).A, A + 1)
    monkeypatch.setattr(fingerprint, "_HASHED_BYTES", 0)  # as if it were large
    npz(tmp_path / "a.npz", X=A + 2, y=Y)
    os.utime(path, ns=(1, 1))
    assert np.array_equal(load(path).A, A + 2)


@contextmanager
def unnoticed(path):
    """Set the time of a file back after it was written to; its size and inode are to be as before."""
    before = path.stat()
    yield
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns, after.st_ino) == (before.st_size, before.st_mtime_ns, before.st_ino)


@pytest.mark.parametrize("known", [0, 2**26])
def test_a_file_that_is_changed_in_place_is_noticed_though_its_size_and_time_are_kept(tmp_path, monkeypatch, known):
    monkeypatch.setattr(fingerprint, "_HASHED_BYTES", known)  # at 0, as if it were large
    path, labels = tmp_path / "a.npz", tmp_path / "y.npy"
    npz(path, X=A)
    np.save(labels, Y)
    assert np.array_equal(load(path, labels=str(labels)).A, A)
    with unnoticed(path):
        npz(path, X=A + 1)
    assert np.array_equal(load(path, labels=str(labels)).A, A + 1)
    with unnoticed(labels):
        np.save(labels, Y[[0, 4, 4, 4, 0, 0, 0, 0]])
    assert load(path, labels=str(labels)).labels.tolist() == [0, 1, 1, 1, 0, 0, 0, 0]


def test_a_folder_of_parts_that_is_changed_in_place_is_noticed_though_size_and_time_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(fingerprint, "_HASHED_BYTES", 0)  # as if they were large together
    (tmp_path / "parts").mkdir()
    for i, part in enumerate((A[:4], A[4:])):
        np.save(tmp_path / "parts" / f"{i}.npy", part)
    assert np.array_equal(load(tmp_path / "parts", k=2).A, A)
    with unnoticed(tmp_path / "parts" / "1.npy"):
        np.save(tmp_path / "parts" / "1.npy", A[4:] + 1)
    assert np.array_equal(load(tmp_path / "parts", k=2).A, np.r_[A[:4], A[4:] + 1])


def test_a_folder_prepared_before_stamps_had_the_time_of_the_inode_is_prepared_again(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", A)
    current = verification.file_state
    with monkeypatch.context() as patch:
        for module in (verification, prepared, sys.modules[datasets.prepare.__module__]):
            patch.setattr(module, "file_state", lambda path: current(path)[:3])
        folder = datasets.prepare("file", {"path": str(tmp_path / "a.npy"), "k": 2})
    before = (folder / "meta.json").stat().st_ino
    assert len(verification.read_meta(folder)["mapped"]["stamp"]) == 3
    assert np.array_equal(load(tmp_path / "a.npy", k=2).A, A)
    assert (folder / "meta.json").stat().st_ino != before
    assert len(verification.read_meta(folder)["mapped"]["stamp"]) == 4


def test_file_that_changes_while_it_is_read_is_refused(tmp_path, monkeypatch):
    path = npz(tmp_path / "a.npz", X=A, y=Y)
    read_content = formats.read_content

    def slowly(options):
        data = read_content(options)
        npz(path, X=A + 1, y=Y)
        return data

    monkeypatch.setattr(formats, "read_content", slowly)
    with pytest.raises(UserError, match="changed while it was read"):
        load(path)
    assert not kept(tmp_path)


def test_file_is_found_in_the_folders_of_kmdr_data(tmp_path, monkeypatch):
    (tmp_path / "data" / "deep").mkdir(parents=True)
    npz(tmp_path / "data" / "deep" / "a.npz", X=A)
    np.save(tmp_path / "data" / "y.npy", Y)
    with pytest.raises(UnavailableError, match=r"there is no file .*a.npz.*KMDR_DATA"):
        load("a.npz")
    monkeypatch.setenv("KMDR_DATA", str(tmp_path / "data"))
    assert load("a.npz", labels="y.npy").k == 2
    with pytest.raises(UnavailableError, match=r"name it with dataset.path=…"):
        datasets.load("file")


def test_missing_file_leaves_the_other_datasets_of_a_study(tmp_path, capsys):
    said = "there is no file .*none.npz here or in a folder that KMDR_DATA names"
    with pytest.raises(UnavailableError, match=said):
        load(tmp_path / "none.npz")
    own = f"{{file:{{path:{tmp_path / 'none.npz'},k:2}}}}"
    job = compose(
        "study=bzmd15_fig1", f"study.datasets=[{own},{{synth:{{n:40,d:10,k:2}}}}]", "study.reducers=[none]",
        "repeats=1", "timing_repeats=0", "kmeans.n_init=1", "runner=sequential", f"out={tmp_path / 'out'}",
    )  # fmt: skip
    run_jobs([job])
    assert re.search(said, capsys.readouterr().err)
    (row,) = csv.DictReader((tmp_path / "out" / "rows.csv").read_text().splitlines())
    assert (row["dataset"], row["status"]) == ("synth", "ok")


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"X": np.where(A == 6, np.nan, A), "y": Y}, "NaN or an infinite value at row 2, column 0"),
        ({"X": A, "y": Y[:-1]}, "7 labels for 8 points"),
        ({"X": A, "y": np.ones(8)}, "all 8 points are of one class"),
        ({"X": A[:1], "y": Y[:1]}, "1 x 3"),
        ({"X": A[0], "y": Y}, r"shape \(3,\)"),
        ({"X": A + 1j, "y": Y}, "complex numbers"),
        ({"X": A.astype(str), "y": Y}, "a matrix of text"),
        ({"X": A.astype(object), "y": Y}, "holds Python objects"),
        ({"X": A, "feature_names": ["a", "b"]}, "2 names for 3 features"),
        ({"data": [1.0], "indices": [7], "indptr": [0, 1, 1], "shape": [2, 3]}, "are inconsistent"),
    ],
)
def test_what_is_no_dataset_is_refused_and_nothing_is_kept(tmp_path, arrays, reason):
    path = npz(tmp_path / "a.npz", **arrays)
    with pytest.raises(UserError, match=reason) as caught:
        load(path)
    assert "a.npz" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not kept(tmp_path)


# --- mapped, shared, exact


def test_npy_is_used_where_it_lies(tmp_path):
    np.save(tmp_path / "a.npy", A)
    folder = datasets.prepare("file", {"path": str(tmp_path / "a.npy"), "k": 2})
    assert [path.name for path in folder.iterdir()] == ["meta.json"]
    data = datasets.open_prepared(folder)
    assert isinstance(data.A.base, np.memmap)
    assert str(data.A.base.filename) == str(tmp_path / "a.npy")
    assert not data.A.flags.writeable
    assert data.data_sha256 == datasets.content_sha256(A, None)
    np.save(tmp_path / "a.npy", A + 1)
    with pytest.raises(UserError, match=r"a.npy has changed since it was prepared"):
        datasets.open_prepared(folder)
    assert np.array_equal(load(tmp_path / "a.npy", k=2).A, A + 1)


@pytest.mark.parametrize(
    "stored", [A.astype(np.int16), np.asfortranarray(A), A.astype(">f8"), A.astype(np.float16), A > 3, A.astype("f4")]
)
def test_npy_of_another_layout_is_converted_block_by_block(tmp_path, monkeypatch, stored):
    monkeypatch.setattr(validation, "_BLOCK_BYTES", 50)
    np.save(tmp_path / "a.npy", stored)
    data = load(tmp_path / "a.npy", k=2)
    assert data.A.dtype == (np.float32 if stored.dtype == np.float32 else np.float64)
    assert np.array_equal(data.A, stored)
    assert data.A.flags.c_contiguous
    assert datasets.content_sha256(np.array(data.A), None) == data.data_sha256


def in_child(code):
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=os.environ | {})


@pytest.mark.slow
def test_large_npy_is_never_in_memory_whole(tmp_path):
    size = 2**28
    header = {"descr": "<i1", "fortran_order": False, "shape": (size // 256, 256)}
    with (tmp_path / "a.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + size)  # zeros, a hole in the file
    code = f"""
import re
from kmdr.datasets import validation
from kmdr.datasets.formats import readers as formats
def private():
    return sum(map(int, re.findall(r"RssAnon:\\s*(\\d+)", open("/proc/self/status").read())))
A = formats.read({str(tmp_path / "a.npy")!r})[0]
before, most, rows = private(), 0, 0
for _, block in validation.blocks(A, validation.kept_type(A)):
    most, rows = max(most, private()), rows + len(block)
print(most - before, rows)
"""
    if not os.path.exists("/proc/self/status"):  # noqa: PTH110
        pytest.skip("no /proc")
    process = in_child(code)
    taken, rows = map(int, process.communicate(timeout=120)[0].split())
    assert taken < 64 * 1024  # KiB; as float64 it would be 2 GiB
    assert rows == size // 256
    assert process.returncode == 0


@pytest.mark.slow
def test_two_processes_at_once_both_succeed(tmp_path):
    path = npz(tmp_path / "a.npz", data=[1.0, 2.0, 3.0], indices=[0, 2, 1], indptr=[0, 2, 3], shape=[2, 3])
    code = f"""
import time
from pathlib import Path
from kmdr import datasets
from kmdr.datasets import prepared
write = prepared._publish
def wait(*args):
    Path({str(tmp_path)!r}, str(time.time_ns()) + ".here").touch()
    while len(list(Path({str(tmp_path)!r}).glob("*.here"))) < 2:
        time.sleep(0.01)
    write(*args)
prepared._publish = wait
print(datasets.load("file", {{"path": {path!r}, "k": 2}}).data_sha256)
"""
    both = [in_child(code), in_child(code)]
    hashes = {process.communicate(timeout=120)[0].strip() for process in both}
    assert [process.returncode for process in both] == [0, 0]
    assert hashes == {load(path, k=2).data_sha256}


def test_sparse_file_opens_as_maps_without_being_read(tmp_path, monkeypatch):
    folder = datasets.prepare("rcv1_like")
    monkeypatch.setattr(scipy.sparse.csr_array, "sum_duplicates", None)
    monkeypatch.setattr(scipy.sparse.csr_array, "sort_indices", None)
    data = datasets.load("rcv1_like")
    for part in ("data", "indices", "indptr"):
        owner = getattr(data.A, part)
        while owner.base is not None and not isinstance(owner, np.memmap):
            owner = owner.base
        assert str(owner.filename) == str(folder / f"{part}.npy")
    assert data.A.has_canonical_format
    assert data.A.has_sorted_indices


# --- datasets of the registry


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n", "d", "k", "terms"), [("rcv1_like", 15564, 47236, 53, 65), ("sector_like", 9619, 55197, 105, 160)]
)
def test_generated_text_has_the_shape_of_the_original_and_says_what_it_is(name, n, d, k, terms):
    data = datasets.load(name)
    assert (data.A.shape, data.k, len(np.unique(data.labels))) == ((n, d), k, k)
    assert abs(data.A.nnz / n / terms - 1) < 0.1
    assert data.stand_in.startswith("generated: ")
    assert len(data.stand_in) <= 40
    larger = datasets.load(name, {"n": n + 10})
    assert (larger.A.shape[0], larger.stand_in) == (n + 10, data.stand_in)


def dumped(folder, name, X, y):
    with bz2.open(folder / name, "wb") as file:
        dump_svmlight_file(X, y, file, zero_based=False)


@pytest.fixture
def smaller(monkeypatch, tmp_path):
    """The registry with the text collections cut down to 30 x 20 and 3 classes; their own files are too large here."""
    text = paths.REGISTRY.read_text()
    for n, d, k in (("9619", "55197", "105"), ("15564", "47236", "53"), ("534135", "47236", "53")):
        text = text.replace(f"n = {n}\nd = {d}\nk = {k}", "n = 30\nd = 20\nk = 3").replace(f"{{ d = {d}", "{ d = 20")
    path = tmp_path / "registry.toml"
    path.write_text(text)
    monkeypatch.setattr(paths, "REGISTRY", path)
    monkeypatch.setenv("KMDR_DATA", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def test_sector_of_two_parts(smaller, rng):
    X = np.round(rng.random((30, 20)), 3) * (rng.random((30, 20)) < 0.5)
    X[:, 19] = 0  # a feature that no document has
    X[:, 0] = 1
    y = np.arange(30) % 3 + 1
    with pytest.raises(
        UnavailableError, match=r"no file sector\.bz2 and no sector\.t\.bz2 \(download it from https://.*sector\)"
    ):
        datasets.load("sector")
    assert datasets.availability_of("sector").state == "manual"
    assert datasets.availability_of("sector").where == "sector.bz2 and sector.t.bz2"
    dumped(smaller, "sector.bz2", X[:20], y[:20])
    dumped(smaller, "sector.t.bz2", X[20:], y[20:])
    assert datasets.availability_of("sector").state == "local"
    data = datasets.load("sector")
    assert datasets.availability_of("sector").state == "prepared"
    assert isinstance(data.A, scipy.sparse.csr_array)
    assert np.array_equal(data.A.toarray(), X)
    assert (data.name, data.k, data.labels.tolist()) == ("sector", 3, (y - 1).tolist())
    dumped(smaller, "sector.t.bz2", X[20:], np.ones(10))
    datasets.load("sector")
    dumped(smaller, "sector.bz2", X[:20], y[:20] % 2)
    with pytest.raises(UnverifiedError, match="2 classes, but the registry says 3"):
        datasets.load("sector")
    dumped(smaller, "sector.bz2", X[:19], y[:19])
    with pytest.raises(UnverifiedError, match=r"shape \(29, 20\), but the registry says 30 x 20"):
        datasets.load("sector")
    dumped(smaller, "sector.bz2", -X[:20], y[:20])
    with pytest.raises(UserError, match="negative value at row 0"):
        datasets.load("sector")


def test_rcv1_is_checked_by_its_hash_before_it_is_read(smaller, monkeypatch, rng):
    X = np.round(rng.random((30, 20)), 3)
    X[:, 0] = 1
    X[:, 19] = 0
    dumped(smaller, "rcv1_train.multiclass.bz2", X, np.arange(30) % 3 + 1)
    path = smaller / "rcv1_train.multiclass.bz2"
    with monkeypatch.context() as patch:
        module = sys.modules[datasets.prepare.__module__]
        patch.setattr(module, "all_loaders", lambda: {"svmlight": lambda *_, **__: pytest.fail("the file was read")})
        with pytest.raises(UnavailableError, match=r"has the wrong SHA-256"):
            datasets.load("rcv1")
    known = entry("rcv1").sources[0].sha256
    other = smaller / "registry.toml"
    other.write_text(paths.REGISTRY.read_text().replace(known, sha256_of(path)))
    monkeypatch.setattr(paths, "REGISTRY", other)
    data = datasets.load("rcv1")
    assert np.array_equal(data.A.toarray(), X)
    assert data.source == str(path)


def test_features_of_ilsvrc2012(tmp_path):
    with pytest.raises(
        UnavailableError, match=r"dataset 'ilsvrc2012' needs a file of your own; name it with dataset.path=…"
    ):
        datasets.load("ilsvrc2012")
    np.save(tmp_path / "features.npy", A.astype(np.float32))
    np.save(tmp_path / "classes.npy", Y)
    options = {"path": str(tmp_path / "features.npy"), "labels": str(tmp_path / "classes.npy")}
    folder = datasets.prepare("ilsvrc2012", options)
    assert sorted(path.name for path in folder.iterdir()) == ["labels.npy", "meta.json"]
    data = datasets.open_prepared(folder)
    assert (data.name, data.k, data.A.dtype) == ("ilsvrc2012", 2, np.float32)
    assert json.loads((folder / "meta.json").read_text())["mapped"]["path"] == options["path"]
    scipy.io.savemat(tmp_path / "features.mat", {"X": A, "y": Y})
    assert datasets.load("ilsvrc2012", {"path": str(tmp_path / "features.mat")}).k == 2
