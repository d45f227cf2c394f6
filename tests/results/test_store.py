"""Rows on disk: atomic, resumable, shared between processes."""

import csv
import errno
import fcntl
import lzma
import multiprocessing
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from kmdr.base.errors import UserError
from kmdr.base.files import sweep_abandoned, write_atomically
from kmdr.base.paths import CONF
from kmdr.clustering.kmeans import Protocol
from kmdr.config.task import Task
from kmdr.results import checksums, table_stream
from kmdr.results.json_files import read_json
from kmdr.results.outdated import mixed_code, unfinished_tasks
from kmdr.results.reader import read_rows
from kmdr.results.schema import COLUMNS
from kmdr.results.store import Store, is_in_use
from kmdr.results.table import compress, rows_file
from rows import trial

SHA = "5" * 64


def task(r_grid=(2, 5), serial=False, repeat=0, study="s"):
    return Task(study, "toy", SHA, "", "random_sign", "{}", 3, r_grid, repeat, 0, Protocol(1, 9), serial)


def row(of, r, objective=0.5, status="ok", concurrency=2):
    made = trial(of, r, objective) | {"status": status, "concurrency": concurrency}
    return made if status == "ok" else made | {"objective": ""}


def written(path):
    """Return what changes when a file is written, and not when it is read."""
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def left(store, of):
    """Return what is left of one task: None, or the task for the r that are left."""
    return next(iter(unfinished_tasks([of], store.merge())), None)


def test_missing_shrinks_to_what_has_no_finished_row(tmp_path):
    store = Store(tmp_path)
    assert left(store, task()) == task()
    store.add(task(), [row(task(), 2), row(task(), 5, status="failed")])
    assert left(store, task()).r_grid == (5,)
    store.add(task(r_grid=(5,)), [row(task(), 5)])
    assert left(store, task()) is None
    assert left(store, task(r_grid=(2, 5, 7))).r_grid == (7,)
    assert left(store, task(repeat=1)).r_grid == (2, 5)
    assert left(store, task(study="t")).r_grid == (2, 5)


def test_a_serial_time_is_not_had_from_a_row_timed_beside_others(tmp_path):
    store = Store(tmp_path)
    store.add(task(), [row(task(), 2), row(task(), 5)])
    assert left(store, task(serial=True)).r_grid == (2, 5)
    store.add(task(serial=True), [row(task(), 2, concurrency=1), row(task(), 5, concurrency=1)])
    assert left(store, task(serial=True)) is None
    assert left(store, task()) is None
    assert [r["concurrency"] for r in store.merge()] == ["1", "1"]


def test_a_task_is_finished_when_all_its_rows_are_there_and_none_failed(tmp_path):
    store = Store(tmp_path)
    assert not store.finished(task())
    store.add(task(), [row(task(), 2), row(task(), 5, status="failed")])
    assert not store.finished(task())
    store.add(task(), [row(task(), 2), row(task(), 5)])
    assert store.finished(task())
    assert not store.finished(task(repeat=1))
    assert not store.finished(task(serial=True))


def test_the_table_has_each_trial_once_sorted_with_ratios_to_the_smallest_objective(tmp_path):
    store = Store(tmp_path)
    store.add(task(repeat=1), [row(task(repeat=1), 10, 0.3), row(task(repeat=1), 9, 0.1 + 0.2)])
    store.add(task(), [row(task(), 2, 0.25), row(task(), 5, status="failed")])
    store.add(task(r_grid=(5,)), [row(task(), 5, 0.5)])
    store.add(task(study="t"), [row(task(study="t"), 2, 0.2)])
    merged = store.merge()
    assert [(r["study"], r["r"], r["repeat"], r["status"]) for r in merged] == [
        ("s", "2", "0", "ok"), ("s", "5", "0", "ok"), ("s", "9", "1", "ok"), ("s", "10", "1", "ok"),
        ("t", "2", "0", "ok"),
    ]  # fmt: skip
    assert [float(r["objective_ratio"]) for r in merged] == [0.25 / 0.2, 0.5 / 0.2, (0.1 + 0.2) / 0.2, 0.3 / 0.2, 1.0]
    assert read_rows(tmp_path / "rows.csv") == merged
    assert float(merged[2]["objective"]) == 0.1 + 0.2, "full precision"
    with (tmp_path / "rows.csv").open(newline="") as file:
        assert tuple(next(csv.reader(file))) == COLUMNS


def test_an_objective_of_zero_has_no_ratio(tmp_path):
    store = Store(tmp_path)
    store.add(task(), [row(task(), 2, 0.0), row(task(), 5, 0.5)])
    assert [r["objective_ratio"] for r in store.merge()] == ["", ""]


def test_rows_of_another_version_are_refused(tmp_path):
    store = Store(tmp_path)
    path = store.path(task())
    path.parent.mkdir(parents=True)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(UserError, match="other columns than this version"):
        store.merge()


def test_a_table_that_would_not_change_is_not_written_again(tmp_path):
    store, table = Store(tmp_path), tmp_path / "rows.csv"
    store.add(task(), [row(task(), 2), row(task(), 5, status="failed")])
    merged = store.merge()
    before = written(table)
    assert store.merge() == merged
    store.add(task(serial=True), [row(task(), 2, concurrency=3)])  # worse than what is there
    assert store.merge() == merged
    assert written(table) == before


def test_the_table_follows_every_change_of_the_task_files_and_mends_itself(tmp_path):
    store, table = Store(tmp_path), tmp_path / "rows.csv"
    store.add(task(), [row(task(), 2), row(task(), 5, status="failed")])
    store.merge()
    store.add(task(), [row(task(), 2), row(task(), 5)])  # rewritten under the same name
    assert [r["status"] for r in store.merge()] == ["ok", "ok"]
    good = table.read_bytes()
    for spoilt in (b"", good[:-20]):
        table.write_bytes(spoilt)
        store.merge()
        assert table.read_bytes() == good
    table.unlink()
    assert len(store.merge()) == 2
    assert table.read_bytes() == good
    store.path(task()).unlink()
    store.add(task(repeat=1), [row(task(repeat=1), 2)])
    assert [r["repeat"] for r in Store(tmp_path).merge()] == ["1"]


def test_a_table_that_another_run_is_merging_is_not_called_damaged(tmp_path, monkeypatch):
    store = Store(tmp_path)
    store.add(task(), [row(task(), 2)])
    store.merge()
    store.add(task(repeat=1), [row(task(repeat=1), 2)])
    write = checksums.write_file

    def write_and_read(root, path, content, *mode):
        write(root, path, content, *mode)
        if Path(path).name == "rows.csv":  # its note is still to come, and the next task is done already
            store.add(task(repeat=2), [row(task(repeat=2), 2)])
            assert len(read_rows(rows_file(tmp_path))) == 2

    with monkeypatch.context() as patch:
        patch.setattr(checksums, "write_file", write_and_read)
        store.merge()

    open_file = table_stream.open_file

    def open_too_late(*arguments):  # once the note was read
        monkeypatch.undo()
        store.merge()
        store.add(task(repeat=3), [row(task(repeat=3), 2)])
        return open_file(*arguments)

    monkeypatch.setattr(table_stream, "open_file", open_too_late)
    assert len(read_rows(rows_file(tmp_path))) == 3


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.xz"])
def test_rows_that_came_without_task_files_stay_when_others_come(tmp_path, name):
    first, folder = Store(tmp_path / "first"), tmp_path / "folder"
    first.add(task(), [row(task(), 2, 0.25), row(task(), 5)])
    committed = first.merge()
    compress(tmp_path / "first")
    folder.mkdir()
    shutil.copy(tmp_path / "first" / name, folder)
    store = Store(folder)
    assert store.merge() == committed
    assert left(store, task()) is None  # what came is done
    assert left(store, task(r_grid=(2, 7))).r_grid == (7,)
    store.add(task(study="t"), [row(task(study="t"), 2, 0.5)])
    rows = store.merge()
    assert [r for r in rows if r["study"] == "s"] == committed
    assert [(r["r"], r["objective_ratio"]) for r in rows if r["study"] == "t"] == [("2", "2.0")]
    assert read_rows(rows_file(folder)) == rows == Store(folder).merge()
    compress(folder)
    assert read_rows(folder / "rows.csv.xz") == rows == store.merge()
    shutil.rmtree(folder / "tasks")
    (folder / "rows.csv").unlink()
    assert Store(folder).merge() == rows
    compress(folder)
    assert read_rows(rows_file(folder)) == rows


def test_of_a_trial_that_came_and_was_done_again_the_better_row_is_kept(tmp_path):
    first, folder = Store(tmp_path / "first"), tmp_path / "folder"
    first.add(task(), [row(task(), 2, status="failed"), row(task(), 5, 0.5, concurrency=1)])
    first.merge()
    folder.mkdir()
    shutil.copy(compress(tmp_path / "first"), folder)
    store = Store(folder)
    assert left(store, task()).r_grid == (2,)
    store.add(task(), [row(task(), 2, 0.25), row(task(), 5, 0.5, concurrency=2)])
    assert [(r["r"], r["status"], r["concurrency"]) for r in store.merge()] == [("2", "ok", "2"), ("5", "ok", "1")]


def test_what_came_and_is_no_table_or_damaged_is_refused_and_left_alone(tmp_path):
    (tmp_path / "rows.csv").write_text("from elsewhere")
    with pytest.raises(UserError, match=r"other columns .* move it away or use another out folder"):
        Store(tmp_path).merge()
    assert (tmp_path / "rows.csv").read_text() == "from elsewhere"
    (tmp_path / "rows.csv").write_text('study,dataset\n"')
    with pytest.raises(UserError, match=r"damaged: .* move it away or use another out folder"):
        Store(tmp_path).merge()
    (tmp_path / "rows.csv").unlink()
    (tmp_path / "rows.csv.xz").write_bytes(b"half a fi")
    store = Store(tmp_path)
    store.add(task(), [row(task(), 2)])
    with pytest.raises(UserError, match=r"rows.csv.xz is damaged: it ends too early; get it again"):
        store.merge()
    assert (tmp_path / "rows.csv.xz").read_bytes() == b"half a fi"


def test_compressed_rows_are_the_same_rows_with_the_same_bytes_each_time(tmp_path):
    store = Store(tmp_path)
    store.add(task(), [row(task(), 2), row(task(), 5)])
    merged = store.merge()
    compressed = compress(tmp_path)
    assert compressed == tmp_path / "rows.csv.xz"
    packed, plain = (
        list(csv.DictReader(text.decode().splitlines()))
        for text in (lzma.decompress(compressed.read_bytes()), (tmp_path / "rows.csv").read_bytes())
    )
    assert packed == [{**line, "objective_ratio": ""} for line in plain]
    assert read_rows(compressed) == merged
    assert all(line["objective_ratio"] for line in merged)
    before, content = compressed.stat(), compressed.read_bytes()
    compress(tmp_path)
    assert compressed.stat() == before
    compressed.write_bytes(b"half a fi")
    compress(tmp_path)
    assert compressed.read_bytes() == content


def test_the_newer_of_the_two_tables_is_the_one_to_read(tmp_path):
    plain, compressed = tmp_path / "rows.csv", tmp_path / "rows.csv.xz"
    assert rows_file(tmp_path) == plain
    compressed.touch()
    assert rows_file(tmp_path) == compressed
    plain.touch()
    os.utime(compressed, (1000, 1000))
    assert rows_file(tmp_path) == plain
    os.utime(plain, (999, 999))
    assert rows_file(tmp_path) == compressed


@pytest.mark.parametrize("newest", ["rows.csv", "rows.csv.xz"])
def test_a_copy_of_a_folder_has_the_same_rows_whatever_the_times_of_its_files(tmp_path, newest):
    def run(folder, repeat):
        store = Store(folder)
        store.add(task(repeat=repeat), [row(task(repeat=repeat), 2)])
        return store.merge()

    folder, copy = tmp_path / "folder", tmp_path / "copy"
    run(folder, 0)
    compress(folder)
    shutil.rmtree(folder / "tasks")
    (folder / "rows.csv").unlink()
    rows = run(folder, 1)
    assert len(rows) == 2
    shutil.copytree(folder, copy)
    for path in copy.glob("rows.csv*"):
        os.utime(path, (2000, 2000) if path.name == newest else (1000, 1000))
    assert read_rows(rows_file(copy)) == rows == Store(copy).merge() == read_rows(rows_file(copy))
    run(tmp_path / "published", 0)
    run(tmp_path / "published", 2)
    shutil.copy(compress(tmp_path / "published"), copy)  # newer rows, which no run has included yet
    assert rows_file(copy).name == "rows.csv.xz"
    assert len(Store(copy).merge()) == 3
    assert rows_file(copy).name == "rows.csv"


def test_a_write_that_fails_leaves_the_old_file_and_no_rubbish(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")
    monkeypatch.setattr("os.fsync", lambda fd: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_writer_left_is_swept_when_its_task_is_done_again(tmp_path):
    store = Store(tmp_path)
    path = store.path(task())
    path.parent.mkdir(parents=True)
    for aside in (path.with_name(f".{path.name}.999.tmp"), tmp_path / ".rows.csv.999.tmp"):
        aside.write_text("half a ro")
    assert left(store, task()) == task()
    store.add(task(), [row(task(), 2), row(task(), 5)])
    assert len(store.merge()) == 2
    assert not list(tmp_path.glob("**/*.tmp"))


def _hold(folder, ready, release):
    with Store(folder).claim(task(), wait=True), Store(folder).clock(alone=True):
        ready.set()
        release.wait(30)


@pytest.mark.slow
def test_claims_and_the_clock_are_between_processes_and_end_with_them(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    ready, release = spawn.Event(), spawn.Event()
    holder = spawn.Process(target=_hold, args=(tmp_path, ready, release))
    holder.start()
    assert ready.wait(60)
    store = Store(tmp_path)
    with store.claim(task(), wait=False) as claimed:
        assert not claimed
    with store.claim(task(repeat=1), wait=False) as claimed:
        assert claimed
    entered = threading.Event()

    def enter():
        with store.clock(alone=False):
            entered.set()

    waiting = threading.Thread(target=enter)
    waiting.start()
    time.sleep(0.2)
    assert not entered.is_set()
    holder.kill()  # nothing is released by the holder itself
    holder.join()
    waiting.join(30)
    assert entered.is_set()
    with store.claim(task(), wait=False) as claimed:
        assert claimed


def _is_held(folder):
    """Return whether another process finds a task of the folder claimed."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_claimed, folder).result()


def _claimed(folder):
    with Store(folder).claim(task(), wait=False) as claimed:
        return not claimed


@pytest.mark.slow
def test_a_store_that_is_dropped_takes_its_descriptor_with_it_and_no_lock_of_another(tmp_path):
    before = len([*Path("/dev/fd").iterdir()])
    with Store(tmp_path).claim(task(), wait=False) as claimed:
        assert claimed
        for _ in range(3):
            assert is_in_use(tmp_path) is False
            with Store(tmp_path / ".." / tmp_path.name).claim(task(repeat=1), wait=False) as another:
                assert another
        assert _is_held(tmp_path)
    assert len([*Path("/dev/fd").iterdir()]) == before
    assert not _is_held(tmp_path)


def _time_alone(folder, entered):
    with Store(folder).clock(alone=True):
        entered.set()


@pytest.mark.slow
def test_who_wants_the_clock_alone_is_seen_by_those_that_share_it_and_gets_it_next(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    entered = spawn.Event()
    store = Store(tmp_path)
    other = spawn.Process(target=_time_alone, args=(tmp_path, entered))
    with store.clock(alone=False):
        assert not store.is_awaited()
        other.start()
        until = time.monotonic() + 60
        while not store.is_awaited():
            assert time.monotonic() < until
            time.sleep(0.05)
        assert not entered.is_set()
    with store.clock(alone=False):  # not before the other has had it
        assert entered.is_set()
    other.join(60)
    assert not store.is_awaited()


def _use(folder, ready, release):
    with Store(folder).claim(task(), wait=True), Store(folder).held():
        ready.set()
        release.wait(30)


@pytest.mark.slow
def test_a_claim_holds_where_the_folder_is_mounted_elsewhere_and_cleaning_leaves_what_is_in_use(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    ready, release = spawn.Event(), spawn.Event()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.symlink_to(tmp_path / "out")
    holder = spawn.Process(target=_use, args=(tmp_path / "out", ready, release))
    holder.start()
    assert ready.wait(60)
    with Store(elsewhere).claim(task(), wait=False) as claimed:
        assert not claimed
    clean = [sys.executable, CONF.parent / "scripts" / "clean.py", tmp_path / "out"]
    refused = subprocess.run(clean, check=False, capture_output=True, text=True)
    assert (refused.returncode, (tmp_path / "out").exists()) == (1, True)
    assert "is in use by a run" in refused.stderr
    release.set()
    holder.join()
    subprocess.run(clean, check=True)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_was_removed_since_it_was_opened_is_not_run_in(tmp_path):
    store = Store(tmp_path / "out")
    shutil.rmtree(tmp_path / "out")
    with pytest.raises(UserError, match="run the same command again"), store.held():
        pass


def test_a_file_with_a_header_only_is_not_a_finished_task(tmp_path):
    store = Store(tmp_path)
    store.add(task(), [])
    assert not store.finished(task())
    store.add(task(), [row(task(), 2)])
    assert not store.finished(task()), "r = 5 is missing"


def test_rows_of_other_code_are_kept_until_they_are_to_be_made_again(tmp_path):
    store = Store(tmp_path)
    old = {"code_hash": "0" * 12}
    store.add(task(), [row(task(), 2) | old, row(task(), 5, concurrency=1) | old])
    rows = store.merge()
    assert unfinished_tasks([task()], rows) == []
    assert unfinished_tasks([task()], rows, refresh=True) == [task()]
    assert not store.finished(task())
    assert mixed_code(rows) == []
    store.add(task(r_grid=(5,)), [row(task(), 5, 0.25)])
    rows = store.merge()
    assert [r["objective"] for r in rows] == ["0.5", "0.25"], "today's code comes first, though the other ran alone"
    assert unfinished_tasks([task()], rows, refresh=True) == [task(r_grid=(2,))]
    (sentence,) = mixed_code(rows)
    assert sentence.startswith("s: the rows of random_sign were made by 2 versions of the code")


def test_a_name_is_one_part_of_a_path(tmp_path):
    for name in ("..", "/etc", "a/../../b", ".hidden"):
        path = Store(tmp_path / "out").path(replace(task(study=name), dataset=name))
        assert path.resolve().is_relative_to(tmp_path / "out" / "tasks")
        assert len(path.relative_to(tmp_path / "out").parts) == 5
    assert "tasks/s/toy/random_sign-" in str(Store(tmp_path).path(task())), "ordinary names stay as they are"


def _change(folder, i):
    Store(folder).change("asked.json", lambda known: known | {f"s{i}": []})


@pytest.mark.slow
def test_of_many_changes_at_once_none_is_lost(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(4) as pool:
        pool.starmap(_change, [(tmp_path, i) for i in range(40)], chunksize=1)
    assert set(read_json(tmp_path, "asked.json")) == {f"s{i}" for i in range(40)}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EFBIG, errno.EIO])
@pytest.mark.parametrize("call", ["os.open", "os.fsync", "fcntl.flock", "os.replace"])
def test_what_the_system_refuses_is_one_sentence_and_all_goes_on_when_it_does_not(tmp_path, monkeypatch, number, call):
    store = Store(tmp_path)
    store.add(task(repeat=1), [row(task(repeat=1), 2), row(task(repeat=1), 5)])

    def refuse(*arguments, **options):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(call, refuse)
        with pytest.raises(UserError) as refused:
            store.add(task(), [row(task(), 2), row(task(), 5)])
        with pytest.raises(UserError):
            store.log({"tasks_done": 1})
    assert store.path(task()).stem in str(refused.value)
    assert os.strerror(number) in str(refused.value)
    assert "the same command does the rest" in str(refused.value)
    assert left(store, task()) == task()
    store.add(task(), [row(task(), 2), row(task(), 5)])
    assert len(store.merge()) == 4
    assert not list(tmp_path.glob("**/*.tmp"))


def test_a_file_system_without_locks_is_one_sentence(tmp_path, monkeypatch):
    def refuse(*arguments):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.lockf", refuse)
    with pytest.raises(UserError, match="on a file system that has locks"):
        Store(tmp_path).merge()


def test_an_aside_is_never_written_through_a_link(tmp_path, monkeypatch):
    kept = tmp_path / "kept"
    kept.write_bytes(b"kept")
    names = iter(["0" * 32, "1" * 32])
    monkeypatch.setattr("kmdr.base.files.uuid4", lambda: type("Name", (), {"hex": next(names)}))
    (tmp_path / f".file.{'0' * 32}.tmp").symlink_to(kept)
    with pytest.raises(UserError, match="exists"):
        write_atomically(tmp_path / "file", b"new")
    assert kept.read_bytes() == b"kept"
    write_atomically(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="not a folder that can be written to"):
        Store(tmp_path / "file")


@pytest.mark.parametrize("place", ["", "configs", "environments", "figures", "facts", "tasks/s/toy/svd-0"])
def test_what_killed_writers_left_is_swept_and_what_others_write_is_not(tmp_path, place):
    folder = tmp_path / place
    folder.mkdir(parents=True, exist_ok=True)
    theirs, gone = folder / f".a.png.{uuid4().hex}.tmp", folder / f".a.png.{uuid4().hex}.tmp"
    same_pid, other = folder / f".a.png.{os.getpid()}.tmp", folder / ".notes.tmp"  # as on another machine
    for path in (theirs, gone, same_pid, other, folder / "a.png"):
        path.write_bytes(b"x")
    with theirs.open("rb") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        sweep_abandoned(tmp_path)
        assert {path.name for path in folder.iterdir()} == {theirs.name, other.name, "a.png"}
    sweep_abandoned(tmp_path)
    assert not theirs.exists(), "its writer has ended"


def test_what_is_written_outlives_a_loss_of_power_with_the_name_of_its_file(tmp_path, monkeypatch):
    synced = []
    sync = os.fsync

    def note(descriptor):
        synced.append(os.fstat(descriptor).st_ino)
        sync(descriptor)

    monkeypatch.setattr("os.fsync", note)
    store = Store(tmp_path)
    store.add(task(), [row(task(), 2), row(task(), 5)])
    file = store.path(task())
    store.merge()
    for path in (file, tmp_path / "rows.csv"):
        assert path.parent.stat().st_ino in synced[synced.index(path.stat().st_ino) :]
