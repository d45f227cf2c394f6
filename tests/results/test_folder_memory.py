"""Commands on folders of results that would fill the memory: little is taken, and the error states size and limit."""

import io
import lzma
import os
import shutil
import subprocess
import sys
import tracemalloc
import zipfile
from contextlib import nullcontext
from functools import cache

import numpy as np
import pytest

from commands import START
from kmdr.base.files import DamagedError
from kmdr.results.checksums import note_content, with_checksum, without_checksum
from kmdr.results.json_files import read_json
from kmdr.results.labels import read_labels
from kmdr.results.paths import place
from kmdr.results.reader import MOST_TASK, _text_blocks, read_rows, read_task
from kmdr.results.schema import COLUMNS
from kmdr.results.store import Store
from kmdr.results.table import rows_in, rows_of
from kmdr.results.table_stream import MOST_BYTES, VARIABLE, TooLargeError, open_table
from kmdr.results.text_rows import TextRow, csv_blocks, csv_content
from rows import make_rows, write_rows

MOST_MEGABYTES = 512
COMMANDS = (
    ("table", "run"), ("compare", "run", "honest"), ("figures", "run"), ("check", "run"), ("merge", "run", "-o", "out"),
    ("verify", "run", "ROWS=1"), ("export", "run", "--crate", "out"), ("submit", "run", "--out", "out"),
)  # fmt: skip
VALUES = {"params": "{}", "status": "ok", "objective": "0.5"}
LINE = ",".join(VALUES.get(name, "1") for name in COLUMNS).encode()
LONG_LINE = ",".join((VALUES | {"error": "x" * 400}).get(name, "1") for name in COLUMNS).encode()
HEADER = ",".join(COLUMNS).encode()


@cache  # seconds to make, and a few kilobytes
def bomb(size):
    packer, part = lzma.LZMACompressor(preset=0), (LONG_LINE + b"\n") * 10_000
    head = packer.compress(HEADER + b"\n")
    return head + b"".join(packer.compress(part) for _ in range(size // len(part))) + packer.flush()


def compressed_table(folder):
    """Newer than the plain table, so it is the one to read."""
    (folder / "rows.csv.xz").write_bytes(bomb(1 << 28))


def compressed_table_with_a_forged_note(folder):
    content = bomb(1 << 28)
    (folder / "rows.csv.xz").write_bytes(content)
    (folder / "tasks").mkdir()
    (folder / "tasks" / ".merged").write_bytes(note_content("0" * 12, content))
    os.utime(folder / "rows.csv.xz", (1, 1))  # so that the other counts as what was merged


def sparse_table(folder):
    with (folder / "rows.csv").open("wb") as file:
        file.truncate(6 << 30)


def large_task_files(folder, count=24):
    for number in range(count):
        path = folder / "tasks" / "s" / "d" / "none-0123456789ab" / f"{number:04d}-0123456789ab.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(with_checksum(HEADER + b"\n" + (LINE + b"\n") * (MOST_TASK // (len(LINE) + 2))))


def peak_of(*command):
    said = subprocess.run([sys.executable, "-S", "-c", START, *command], capture_output=True, text=True, check=True)
    status, kilobytes = map(int, said.stdout.splitlines()[-1].split())
    return status, kilobytes / 1024, said.stdout + said.stderr


@pytest.mark.slow
@pytest.mark.parametrize("spoil", [compressed_table_with_a_forged_note, sparse_table, large_task_files])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_no_folder_takes_more_than_half_a_gibibyte(tmp_path, spoil, command):
    text = refused(tmp_path, spoil, command)
    assert "more than the limit of" in text or spoil is not sparse_table, text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "reason"), [("table", "decompressed at least"), ("merge", "is damaged: a row has kmeans = '1'")]
)
def test_no_compressed_table_takes_more_than_half_a_gibibyte(tmp_path, command, reason):
    """A merge reads rows one by one, and ends at the first that is wrong; a table is first read whole."""
    (arguments,) = (each for each in COMMANDS if each[0] == command)
    assert reason in refused(tmp_path, compressed_table, arguments)


def refused(tmp_path, spoil, command):
    """Return what a command writes on a spoiled folder, which takes little memory."""
    for name in ("run", "honest"):
        (tmp_path / name).mkdir()
        write_rows(tmp_path / name)
    spoil(tmp_path / "run")
    arguments = [str(tmp_path / word) if word in ("run", "honest", "out") else word for word in command]
    status, peak, text = peak_of(sys.executable, "-m", "kmdr", *arguments)
    assert peak < MOST_MEGABYTES
    assert status in (0, 1, 2)
    assert "stopped by" not in text
    return text


@pytest.mark.slow
def test_damaged_task_files_are_not_kept_in_memory(tmp_path):
    folders = [tmp_path / "one", tmp_path / "seven"]
    for folder, count in zip(folders, (1, 7), strict=True):
        folder.mkdir()
        write_rows(folder)
        large_task_files(folder, count)
    (_, one, _), (_, seven, _) = (peak_of(sys.executable, "-m", "kmdr", "check", str(folder)) for folder in folders)
    assert seven < one + 50


def test_a_larger_table_is_refused_with_size_and_limit(tmp_path, monkeypatch):
    sparse_table(tmp_path)
    with pytest.raises(TooLargeError, match=rf"has {6 << 30} bytes, more than the limit of {MOST_BYTES}; .*{VARIABLE}"):
        read_rows(tmp_path / "rows.csv")
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    large_task_files(tmp_path)
    with pytest.raises(TooLargeError, match=f"tasks has .* bytes, more than the limit of {MOST_BYTES}"):
        rows_in(tmp_path)
    path = next(tmp_path.rglob("*.csv"))
    path.write_bytes(b"x" * (MOST_TASK + 1))
    with pytest.raises(DamagedError, match=f"{MOST_TASK + 1} bytes, more than the limit of {MOST_TASK}"):
        read_task(tmp_path, path)
    monkeypatch.setenv(VARIABLE, "1K")
    with pytest.raises(TooLargeError, match="more than the limit of 1024"):
        csv_content([dict.fromkeys(COLUMNS, "x")] * 100, path)


@pytest.mark.parametrize("name", ["plan.json", "environments/0123456789ab.json"])
@pytest.mark.parametrize("excess", [0, 1])
def test_a_larger_json_file_is_refused_with_size_and_limit(tmp_path, name, excess):
    """SECURITY.md states the limit."""
    most = 16 << 20
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"{}" + b" " * (most + excess - 2))
    expected = pytest.raises(DamagedError, match=f"{most + 1} bytes, more than the limit of {most}")
    with expected if excess else nullcontext():
        assert read_json(tmp_path, name) == {}


@pytest.mark.parametrize("spare", [0, -1])
def test_task_files_may_be_as_large_as_the_table_of_their_rows(tmp_path, monkeypatch, spare):
    rows = read_rows(write_rows(tmp_path, make_rows("s", "d", "m", 10, 50, stand_in="x" * 120)) / "rows.csv")
    files = {tmp_path / f"{place(row)}-0123456789ab.csv": [] for row in rows}
    for row in rows:
        files[tmp_path / f"{place(row)}-0123456789ab.csv"].append(row)
    for path, of_task in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(with_checksum(csv_content(of_task, path)))
    table = len(csv_content(rows, tmp_path / "rows.csv"))
    assert sum(path.stat().st_size for path in files) > 1.3 * table
    monkeypatch.setenv(VARIABLE, str(table + spare))
    if not spare:
        assert Store(tmp_path).merge() == rows
        return
    with pytest.raises(TooLargeError):
        Store(tmp_path).merge()


def test_a_table_of_too_many_short_rows_is_refused_with_the_limit(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "1M")
    path, rows = tmp_path / "rows.csv", 4000  # of fewer than 262 bytes
    write_rows(tmp_path, make_rows("s", "d", "m", 10, rows, seconds=10))
    content = path.read_bytes()
    assert len(content) < 1 << 20
    for read in (read_rows, lambda path: rows_of(path.parent)):
        with pytest.raises(
            TooLargeError, match=f"rows.csv has at least 4000 rows, more than the limit of 3276; .*{VARIABLE}"
        ):
            read(path)


@pytest.mark.parametrize("claimed", [2**47, 2**27])
def test_labels_that_claim_more_than_they_are_take_no_memory(tmp_path, claimed):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as members:
        with members.open("r.npy", "w") as member:
            np.lib.format.write_array(member, np.array([4]))
        with members.open("labels.npy", "w") as member:
            np.lib.format.write_array_header_1_0(
                member, {"descr": "|u1", "fortran_order": False, "shape": (1, claimed)}
            )
    (tmp_path / "a.npz").write_bytes(with_checksum(file.getvalue()))
    with pytest.raises(DamagedError, match=f"{claimed} bytes at a time, more than the limit of {1 << 26}"):
        list(read_labels(tmp_path, tmp_path / "a.npz"))


def test_a_checksum_is_compared_without_another_copy_of_the_file(tmp_path, rng):
    content = with_checksum(rng.bytes(1 << 24))
    tracemalloc.start()
    try:
        plain = without_checksum(content, tmp_path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1.1 * len(plain)


def test_rows_of_text_are_what_dictionaries_would_be(rng, tmp_path):
    alphabet = ["a", '"', ",", "\n", "\r\n", "é", " ", "\u2028", "'"]
    rows = [{name: "".join(rng.choice(alphabet, rng.integers(4))) for name in COLUMNS} for _ in range(2500)]
    content = b"".join(csv_blocks(rows))
    blocks = _text_blocks(io.BytesIO(content), tmp_path / "rows.csv", exact=True)
    read = [TextRow(texts) for block in blocks for texts in block.itertuples(index=False)]
    assert read == rows
    assert b"".join(csv_blocks(read)) == content
    read[7]["params"] = rows[7]["params"] = "{}"
    assert read == rows
    assert dict(read[7]) == rows[7]
    (tmp_path / "rows.csv").write_bytes(content.replace("é".encode(), b"\0"))
    with pytest.raises(DamagedError, match="it has a NUL byte"):
        read_rows(tmp_path / "rows.csv")
    assert sys.getsizeof(TextRow([""] * len(COLUMNS))) < 64


def test_a_folder_on_top_of_too_large_a_table_is_left_alone(tmp_path):
    sparse_table(tmp_path)
    with pytest.raises(TooLargeError):
        Store(tmp_path).merge()
    assert (tmp_path / "rows.csv").stat().st_size == 6 << 30


def test_a_table_of_equal_rows_is_read_however_well_it_compresses(tmp_path):
    content = HEADER + b"\n" + (LINE + b"\n") * 40_000
    path = tmp_path / "rows.csv.xz"
    path.write_bytes(packed := lzma.compress(content))
    assert len(packed) * 100 < len(content)
    with open_table(tmp_path, path.name) as file:
        assert file is not None
        assert file.read() == content
