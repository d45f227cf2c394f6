"""Prepared data are what was written, or are made again, or are refused: never another number."""

import errno
import fcntl
import os
import socket
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from kmdr import datasets
from kmdr.base import paths
from kmdr.base.errors import UserError
from kmdr.base.files import is_temporary, sweep_abandoned, temporary_folder
from kmdr.cli.arguments import COMMANDS
from kmdr.datasets import prepared, verification
from kmdr.datasets.acquire import find as acquire
from kmdr.datasets.verification import DamagedDataError
from kmdr.harness.jobs import compose
from kmdr.harness.task import Provenance, run

A = np.random.default_rng(0).random((40, 12))
Y = np.arange(40) % 4
PROVENANCE = Provenance(1, 1, "", "")


@pytest.fixture(autouse=True)
def shelf(monkeypatch, tmp_path):
    """An empty cache, no network, and a registry of `dense` and `sparse`, whose files KMDR_DATA has, and of `file`."""

    def off(*args, **kwargs):
        raise OSError("the network is off in tests")

    monkeypatch.setattr(socket.socket, "connect", off)
    monkeypatch.setattr(acquire, "package_indexes", tuple)
    monkeypatch.setattr(verification, "_verified", set())
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("KMDR_DATA", str(tmp_path / "shelf"))
    (tmp_path / "shelf").mkdir()
    tables = [paths.REGISTRY.read_text("utf-8")]
    for name, fea in (("dense", A), ("sparse", scipy.sparse.csc_array(np.where(A < 0.5, 0, A)))):
        path = tmp_path / "shelf" / f"{name}.mat"
        scipy.io.savemat(path, {"fea": fea, "gnd": Y + 1})
        tables.append(
            f'[{name}]\ntitle = "{name}"\npapers = []\nn = 40\nd = 12\nk = 4\nlicence = ""\ncitation = ""\n'
            f'format = "cai_mat"\ncontent_sha256 = ""\nsources = [{{ kind = "local", filename = "{name}.mat", '
            f'sha256 = "{acquire.sha256_of(path)}" }}]\n'
        )
    (tmp_path / "registry.toml").write_text("\n".join(tables), "utf-8")
    monkeypatch.setattr(paths, "REGISTRY", tmp_path / "registry.toml")
    return tmp_path / "shelf"


def flip(path: Path, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))


def same(data, other):
    dense = [d.A.toarray() if scipy.sparse.issparse(d.A) else d.A for d in (data, other)]
    return (
        np.array_equal(*dense) and np.array_equal(data.labels, other.labels) and data.data_sha256 == other.data_sha256
    )


@pytest.fixture
def forgetful(monkeypatch):
    """Return a function after which this process knows as little as a new one."""
    return lambda: monkeypatch.setattr(verification, "_verified", set())


@pytest.mark.parametrize("name", ["dense", "sparse"])
def test_each_flipped_bit_is_found_and_the_data_are_prepared_again(name, capsys, rng, forgetful):
    before = datasets.load(name)
    before = datasets.Dataset(name, before.A.copy(), before.labels.copy(), 4, before.data_sha256, "", "")
    folder = datasets.prepare(name)
    for path in sorted(folder.iterdir()):
        for bit in rng.integers(8 * path.stat().st_size, size=6):
            flip(path, int(bit))
            forgetful()
            assert same(datasets.load(name), before)
            said = capsys.readouterr().err
            # A flip in the name of the seal, or of the fingerprint, looks like a folder of an earlier version.
            if path.name != "meta.json" or said:
                assert said == f"kmdr: warning: dataset {name!r}: {path} was damaged; prepared again\n"


def test_a_zeroed_block_and_a_nan_are_found_however_old_the_file_says_it_is(capsys, forgetful):
    folder = datasets.prepare("dense")
    for damage in (b"\0" * 64, np.float64("nan").tobytes()):
        times = (folder / "A.npy").stat()
        with (folder / "A.npy").open("r+b") as file:
            file.seek(-256, os.SEEK_END)
            file.write(damage)
        os.utime(folder / "A.npy", ns=(times.st_atime_ns, times.st_mtime_ns))
        forgetful()
        assert np.array_equal(datasets.load("dense").A, A)
        assert "A.npy was damaged; prepared again" in capsys.readouterr().err


def test_a_memo_that_a_killed_process_left_half_written_is_swept(tmp_path):
    left = tmp_path / "cache" / "verified" / f".dense.{'0' * 32}.tmp"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    datasets.load("dense")
    assert [path.name for path in left.parent.iterdir()] == ["dense"]


def test_a_flip_in_the_memo_only_makes_it_verify_again(monkeypatch, tmp_path, forgetful):
    folder = datasets.prepare("dense")
    datasets.open_prepared(folder)
    memo = tmp_path / "cache" / "verified" / "dense"
    forgetful()
    read = []
    digests = verification.digests
    monkeypatch.setattr(verification, "digests", lambda path: read.append(path) or digests(path))
    assert datasets.prepare("dense") == folder
    assert read == []  # a warm memo costs a few stats
    for bit in range(0, 8 * memo.stat().st_size, 37):
        flip(memo, bit)
        forgetful()
        datasets.prepare("dense")
        assert len(read) == 2
        read.clear()
    forgetful()
    datasets.prepare("dense", verify="always")
    assert len(read) == 2
    monkeypatch.setattr(verification, "_boot", lambda: "another boot of the machine")
    forgetful()
    datasets.open_prepared(folder)
    assert len(read) == 4


def test_never_reads_nothing_but_the_structure_of_a_sparse_matrix(monkeypatch):
    folder = datasets.prepare("sparse")
    assert same(datasets.open_prepared(folder, "never"), datasets.load("sparse"))
    monkeypatch.setattr(verification, "digests", None)
    indices = np.load(folder / "indices.npy")
    for at, value in ((5, 12), (5, -1), (1, indices[0]), (0, 2**31 - 1)):
        wrong = indices.copy()
        wrong[at] = value
        np.save(folder / "indices.npy", wrong)
        assert datasets.prepare("sparse", verify="never") == folder
        with pytest.raises(DamagedDataError, match="sparse is damaged"):
            datasets.open_prepared(folder, "never")
    np.save(folder / "indices.npy", indices)
    indptr = np.load(folder / "indptr.npy")
    for at, value in ((3, 10**6), (3, -1), (40, 3)):
        wrong = indptr.copy()
        wrong[at] = value
        np.save(folder / "indptr.npy", wrong)
        with pytest.raises(UserError, match=r"damaged|does not hold"):
            datasets.open_prepared(folder, "never")


def test_damage_that_cannot_be_mended_is_one_sentence(monkeypatch, forgetful):
    folder = datasets.prepare("dense")
    flip(folder / "A.npy", 8000)
    monkeypatch.delenv("KMDR_DATA")
    forgetful()
    with pytest.raises(datasets.UnavailableError, match=r"A.npy is damaged and cannot be prepared again: .*dense.mat"):
        datasets.load("dense")
    with pytest.raises(DamagedDataError, match=r"A.npy is damaged; run again"):
        datasets.open_prepared(folder)


def test_a_cache_that_cannot_be_written_is_verified_by_each_process(monkeypatch, tmp_path, forgetful):
    datasets.load("dense")
    verification.forget(tmp_path / "cache" / "prepared" / "dense")

    def full(*args, **kwargs):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(verification, "write_atomically", full)
    read, digests = [], verification.digests
    monkeypatch.setattr(verification, "digests", lambda path: read.append(path.name) or digests(path))
    for processes in (1, 2):
        forgetful()
        assert np.array_equal(datasets.load("dense").A, A)
        assert read == ["A.npy", "labels.npy"] * processes
    assert not (tmp_path / "cache" / "verified" / "dense").exists()


def test_verify_is_a_setting_that_no_row_knows(tmp_path):
    out = f"out={tmp_path / 'out'}"
    hashes = set()
    for word in ("always", "once", "never"):
        (experiment,) = compose("dataset=dense", "r_grid=[2]", "repeats=1", f"verify={word}", out).experiments
        folder = datasets.prepare("dense")
        (task,) = experiment.tasks(datasets.open_prepared(folder), folder)
        assert task.verify == word
        hashes.add(task.config_hash)
    assert len(hashes) == 1
    with pytest.raises(UserError, match=r"verify = 'sometimes' is not one of always, once, never"):
        compose("dataset=dense", "verify=sometimes", out)


# --- files that change while they are used


def task_on(path, **options):
    (experiment,) = compose(
        "dataset=file", f"dataset.path={path}", "dataset.k=3", *(f"dataset.{k}={v}" for k, v in options.items()),
        "reducer=none", "r_grid=[12]", "repeats=1",
    ).experiments  # fmt: skip
    folder = datasets.prepare(experiment.dataset, experiment.options)
    data = datasets.open_prepared(folder)
    (task,) = experiment.tasks(data, folder)
    return task, data, folder


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "within"])
def test_rows_of_a_file_that_changes_under_a_task_are_failed(when, tmp_path, monkeypatch):
    path = tmp_path / "a.npy"
    np.save(path, A)
    task, data, folder = task_on(path)
    (row,) = run(task, data, PROVENANCE)
    assert row["status"] == "ok"
    if when == "before":
        flip(path, 8000)
    else:
        trials = run.__globals__["_trials"]
        monkeypatch.setattr("kmdr.harness.task._trials", lambda *a, **k: (trials(*a, **k), flip(path, 8000))[0])
    (row,) = run(task, data, PROVENANCE)
    assert row["status"] == "failed"
    assert row["error"].startswith(f"{path} changed during the run")
    assert "objective" not in row
    with pytest.raises(UserError, match=r"a.npy has changed since it was prepared; run again"):
        datasets.open_prepared(folder)


def test_a_prepared_file_that_changes_under_a_task_fails_its_rows():
    (experiment,) = compose("dataset=sparse", "reducer=none", "r_grid=[12]", "repeats=1").experiments
    folder = datasets.prepare("sparse")
    data = datasets.open_prepared(folder)
    (task,) = experiment.tasks(data, folder)
    flip(folder / "data.npy", 4000)
    (row,) = run(task, data, PROVENANCE)
    assert (row["status"], row["error"][: len(str(folder))]) == ("failed", str(folder))


def test_a_copy_does_not_change_with_the_file(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, A)
    mapped, _, _ = task_on(path)
    task, data, folder = task_on(path, copy=True)
    assert (folder / "A.npy").stat().st_size == path.stat().st_size
    assert (task.data_sha256, task.config_hash) == (mapped.data_sha256, mapped.config_hash)
    np.save(path, A + 1)
    (row,) = run(task, data, PROVENANCE)
    assert row["status"] == "ok"
    assert np.array_equal(data.A, A)


def test_a_bit_that_rots_in_a_file_of_the_users_gives_other_data_not_another_number(tmp_path, forgetful):
    path = tmp_path / "a.npy"
    np.save(path, A)
    _, before, _ = task_on(path)
    times = path.stat()
    flip(path, 8000)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    forgetful()
    _, after, _ = task_on(path)
    assert after.data_sha256 != before.data_sha256
    assert after.data_sha256 == datasets.content_sha256(np.load(path), None)


# --- the whole cache


def check(*arguments):
    return COMMANDS["data"](["check", *arguments])


def test_data_check_names_each_damaged_file_and_repair_mends_it(tmp_path, shelf, capsys, monkeypatch, forgetful):
    cache = tmp_path / "cache"
    raw = cache / "raw" / "dense" / "dense.mat"
    raw.parent.mkdir(parents=True)
    raw.write_bytes((shelf / "dense.mat").read_bytes())
    for name in ("dense", "sparse"):
        datasets.load(name)
    other = datasets.prepare("synth", {"n": 20, "d": 4, "k": 2})
    (cache / "raw" / "dense" / "notes.txt").write_text("mine")
    left = cache / "prepared" / ".tmp-abcd1234"
    left.mkdir()
    assert check() == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{raw.parent / 'notes.txt'}: unknown", f"{left}: leftover", "4 intact, 1 leftover, 1 unknown"
    ]  # fmt: skip
    damaged = [raw, cache / "prepared" / "dense" / "A.npy", other / "meta.json", cache / "prepared/sparse/indptr.npy"]
    for path in damaged:
        times = path.stat()
        flip(path, 8 * 150 + 1)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    forgetful()
    assert check() == 1
    out, err = capsys.readouterr()
    assert {f"{path}: damaged" for path in damaged} <= set(out.splitlines())
    assert "--repair" in err
    assert check("sparse") == 1
    assert str(damaged[1]) not in capsys.readouterr().out
    old = 1.0
    os.utime(left, (old, old))
    assert check("--repair", "--verify=always") == 0
    assert "repaired" in capsys.readouterr().out
    assert not left.exists()
    assert check() == 0
    assert "damaged" not in capsys.readouterr().out
    assert np.array_equal(datasets.load("dense").A, A)
    assert not other.exists()  # with which options it was prepared is not known


def test_data_check_says_what_cannot_be_mended(monkeypatch, capsys):
    folder = datasets.prepare("dense")
    flip(folder / "labels.npy", 1100)
    monkeypatch.delenv("KMDR_DATA")
    assert check("dense", "--repair") == 1
    assert f"{folder / 'labels.npy'}: damaged; {folder / 'labels.npy'} is damaged and cannot" in capsys.readouterr().out
    with pytest.raises(UserError, match="option of 'kmdr data' is named '--mend'"):
        check("--mend")
    with pytest.raises(UserError, match="belong to 'kmdr data check'"):
        COMMANDS["data"](["get", "--repair"])


def test_no_flipped_bit_anywhere_in_the_cache_changes_a_number(tmp_path, shelf, capsys, rng, forgetful):
    raw = tmp_path / "cache" / "raw" / "dense" / "dense.mat"
    raw.parent.mkdir(parents=True)
    raw.write_bytes((shelf / "dense.mat").read_bytes())
    before = datasets.load("dense").data_sha256
    for _ in range(40):
        files = sorted(path for path in (tmp_path / "cache").rglob("*") if path.is_file())
        path = files[rng.integers(len(files))]
        flip(path, int(rng.integers(8 * path.stat().st_size)))
        forgetful()
        data = datasets.load("dense")
        assert {before} == {data.data_sha256, datasets.content_sha256(data.A, data.labels)}
        capsys.readouterr()
        if path == raw:
            assert check() == 1
            assert f"{path}: damaged" in capsys.readouterr().out
            assert check("--repair") == 0
            raw.write_bytes((shelf / "dense.mat").read_bytes())
        assert check() == 0


# --- a cache that cannot be written


def test_a_full_disk_is_one_sentence_that_names_the_folder(monkeypatch, tmp_path):
    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(prepared, "_save", full)
    with pytest.raises(UserError, match=r"cannot write .*prepared/dense \(No space left on device\)"):
        datasets.load("dense")
    assert not list((tmp_path / "cache" / "prepared").iterdir())


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EFBIG, errno.EIO])
def test_a_full_or_failing_disk_ends_the_search_for_sources(number, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError(number, "refused by the disk")

    monkeypatch.setattr(acquire, "_download", refuse)
    with pytest.raises(UserError, match=r"cannot write .*raw/nips \(refused by the disk\)"):
        datasets.load("nips")


def test_an_unfinished_download_that_is_a_link_is_not_followed(tmp_path):
    precious = tmp_path / "precious"
    precious.write_bytes(b"mine")
    (tmp_path / ".a.0123456789abcdef.part").symlink_to(precious)
    (tmp_path / "private").mkdir()
    with acquire._part(tmp_path, "a", "0123456789abcdef", tmp_path / "private") as file:
        file.write(b"from elsewhere")
    assert precious.read_bytes() == b"mine"
    assert (tmp_path / "private" / ".a.0123456789abcdef.part").read_bytes() == b"from elsewhere"


def test_what_another_user_left_or_what_is_being_made_is_not_swept(tmp_path, monkeypatch):
    left = tmp_path / ".tmp-abcd1234"
    left.mkdir()
    (left / "A.npy").write_bytes(b"1")
    monkeypatch.setattr(os, "geteuid", lambda: 12345678)
    sweep_abandoned(tmp_path)
    assert left.exists()
    monkeypatch.undo()
    with temporary_folder(tmp_path) as being_made:
        assert not left.exists()
        sweep_abandoned(tmp_path)
        assert being_made.exists()
    assert not being_made.exists()


def test_without_locks_what_is_not_old_is_not_swept(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with temporary_folder(tmp_path) as left:
        (left / "A.npy").write_bytes(b"1")
        os.utime(left, (1, 1))
        sweep_abandoned(tmp_path)
        assert left.exists()  # a file in it is new
        os.utime(left / "A.npy", (1, 1))
        os.utime(left, (1, 1))
        sweep_abandoned(tmp_path)
        assert not left.exists()


def test_a_folder_that_is_swept_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    flock, swept = fcntl.flock, []

    def late(number, how):
        if not swept:
            swept.extend(path for path in tmp_path.iterdir() if is_temporary(path.name))
            swept[0].rmdir()
        return flock(number, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with temporary_folder(tmp_path) as folder:
        assert folder.exists()
        assert folder != swept[0]
