"""Rows on disk: one file a task, written once and atomically, merged to one table.

::

    OUT/tasks/<study>/<dataset>/<reducer>-<config hash>/<repetition>-<hash of the grid>.csv
    OUT/configs/<config hash>.json    OUT/environments/<environment hash>.json
    OUT/rows.csv                      all of it as one tidy table; committed results keep it as rows.csv.xz
    OUT/tasks/.merged                 which state of the task files the table was made of
    OUT/runs.jsonl                    a line a run: when, how long, how much of it outside the trials
    OUT/.lock                         byte 0: the clock; the others: one a task

Locks are byte ranges of one file, so they end with the process that holds them, however it ends.
"""

import csv
import fcntl
import io
import json
import lzma
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kmdr.errors import UserError
from kmdr.files import sweep_asides, write_atomically
from kmdr.task import COLUMNS, Row, Task, short_hash

_CLOCK = 0
_MERGE = 1
_TASKS = 2


def _to_csv(rows: Iterable[Mapping[str, Any]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)  # floats are written by repr, which reads back to the same bits
    return text.getvalue().encode()


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of one CSV file, compressed by xz or not, as text.

    Raises
    ------
    UserError
        When its header is not that of this version.
    """
    compressed = path.suffix == ".xz"
    with (lzma.open if compressed else open)(path, "rt", encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise UserError(
                f"{path} has not the columns of this version of kmdr; move it away or use another out folder"
            )
        return list(reader)


def rows_file(folder: Path) -> Path:
    """Return the table of a folder of results: ``rows.csv`` or ``rows.csv.xz``, the newer where there are both.

    Committed results have the compressed one; a run on top of them makes the other. Where there is neither it is the
    path of ``rows.csv``.
    """
    plain, compressed = folder / "rows.csv", folder / "rows.csv.xz"
    if compressed.exists() and not (plain.exists() and plain.stat().st_mtime_ns >= compressed.stat().st_mtime_ns):
        return compressed
    return plain


def compress(folder: Path) -> Path:
    """Write ``rows.csv.xz`` from a folder's ``rows.csv``, unless it holds the same already; return its path.

    The bytes are a function of the table, so that committing the same rows again changes nothing.
    """
    content = (folder / "rows.csv").read_bytes()
    path = folder / "rows.csv.xz"
    try:
        same = lzma.decompress(path.read_bytes()) == content
    except (OSError, lzma.LZMAError):
        same = False
    if not same:
        write_atomically(path, lzma.compress(content, preset=9 | lzma.PRESET_EXTREME))
    return path


def missing(tasks: Iterable[Task], rows: Iterable[Mapping[str, str]]) -> list[Task]:
    """Return what of some tasks has no finished row yet: each task for those r, without those that have none left.

    A failed row is not finished, so the same command tries it again. Where serial times are asked for, only rows
    taken with no other worker count.

    Parameters
    ----------
    tasks : iterable of Task
    rows : iterable of mapping
        The merged table.
    """
    done: dict[tuple[str, str, str], dict[int, bool]] = {}
    for row in rows:
        if row["status"] == "ok":
            trial = done.setdefault((row["study"], row["config_hash"], row["repeat"]), {})
            trial[int(row["r"])] = row["concurrency"] == "1"
    left = []
    for task in tasks:
        alone = done.get((task.study, task.config_hash, str(task.repeat)), {})
        rest = tuple(r for r in task.r_grid if r not in alone or (task.serial and not alone[r]))
        if rest:
            left.append(task.restricted(rest))
    return left


class Store:
    """A folder of results.

    Parameters
    ----------
    folder : Path
        Made when it does not exist.

    Raises
    ------
    UserError
        When it cannot be made or written to.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise UserError(
                f"out = {str(folder)!r} is not a folder that can be written to ({error.strerror}); name another"
            ) from error

    # -- locks ---------------------------------------------------------------------------------------------------

    @contextmanager
    def _locked(self, offset: int, mode: int) -> Iterator[bool]:
        try:
            fcntl.lockf(self._lock, mode, 1, offset)
        except BlockingIOError:
            yield False
            return
        try:
            yield True
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN, 1, offset)

    @contextmanager
    def clock(self, alone: bool) -> Iterator[None]:
        """Hold the folder's clock: ``alone`` while serial times are taken, shared while other tasks run."""
        mode = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
        with self._locked(_CLOCK, mode | fcntl.LOCK_NB) as mine:
            if mine:
                yield
                return
        if alone:
            print(f"waiting for another run on {self.folder} to pause, so that times are taken alone", file=sys.stderr)
        with self._locked(_CLOCK, mode):
            yield

    @contextmanager
    def claim(self, task: Task, wait: bool) -> Iterator[bool]:
        """Claim a task; yields False when another process works on it and ``wait`` is not set."""
        offset = _TASKS + int(short_hash(str(self.path(task))), 16)
        with self._locked(offset, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB)) as mine:
            yield mine

    # -- tasks ---------------------------------------------------------------------------------------------------

    def path(self, task: Task) -> Path:
        """Return the file of a task."""
        where = self.folder / "tasks" / task.study / task.dataset / f"{task.reducer}-{task.config_hash}"
        return where / f"{task.repeat:04d}-{short_hash([task.r_grid, task.serial])}.csv"

    def finished(self, task: Task) -> bool:
        """Whether a task, exactly as it is asked for, is done: what another run may have done since the last merge."""
        path = self.path(task)
        return path.exists() and all(row["status"] == "ok" for row in read_rows(path))

    def add(self, task: Task, rows: list[Row]) -> None:
        """Write the rows of a task that this process has claimed."""
        sweep_asides(self.path(task))
        write_atomically(self.path(task), _to_csv(rows))

    def describe(self, kind: str, key: str, content: Mapping[str, Any]) -> None:
        """Write ``<kind>/<key>.json`` unless it is there: the key is a hash of the content."""
        path = self.folder / kind / f"{key}.json"
        if not path.exists():
            text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False)
            write_atomically(path, (text + "\n").encode())

    def log(self, entry: Mapping[str, Any]) -> None:
        """Append a line to ``runs.jsonl``."""
        with (self.folder / "runs.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")

    # -- the table -----------------------------------------------------------------------------------------------

    def merge(self) -> list[dict[str, str]]:
        """Bring ``rows.csv``, the tidy table of every task's rows, up to date and return it.

        Of several rows of one trial the finished, then the serial one is kept. ``objective_ratio`` is F over the
        smallest F seen here for that matrix and k. The order is that of study, dataset, reducer, configuration, r and
        repetition. The task files are read only when they, or the table, are not as the last merge left them.
        """
        table, note = self.folder / "rows.csv", self.folder / "tasks" / ".merged"
        with self._locked(_MERGE, fcntl.LOCK_EX):
            files = sorted(self.folder.glob("tasks/*/*/*/*.csv"))
            if not files:
                return []
            state = short_hash([_stamp(file) for file in files])  # before reading: a later change will show
            if table.exists() and _content(note) == _note(state, table):
                return read_rows(table)
            best: dict[tuple[Any, ...], dict[str, str]] = {}
            for file in files:
                for row in read_rows(file):
                    key = (
                        row["study"], row["dataset"], row["reducer"], row["config_hash"], int(row["r"]),
                        int(row["repeat"]),
                    )  # fmt: skip
                    if key not in best or _rank(row) < _rank(best[key]):
                        best[key] = row
            rows = [best[key] for key in sorted(best)]
            _add_ratios(rows)
            content = _to_csv(rows)
            sweep_asides(table)
            if _content(table) != content:
                write_atomically(table, content)
            write_atomically(note, _note(state, table))
        return rows


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _stamp(path: Path) -> tuple[str, int, int, int]:
    status = path.stat()
    return str(path), status.st_ino, status.st_size, status.st_mtime_ns


def _note(state: str, table: Path) -> bytes:
    return f"{state} {short_hash(_stamp(table))}\n".encode()


def _rank(row: Mapping[str, str]) -> tuple[bool, int]:
    return row["status"] != "ok", int(row["concurrency"])


def _add_ratios(rows: list[dict[str, str]]) -> None:
    """Fill ``objective_ratio`` = F/F_best; empty where F_best is 0."""
    smallest: dict[tuple[str, str], float] = {}
    for row in rows:
        if row["objective"]:
            key = (row["data_sha256"], row["k"])
            smallest[key] = min(smallest.get(key, float("inf")), float(row["objective"]))
    for row in rows:
        least = smallest.get((row["data_sha256"], row["k"]), 0.0)
        row["objective_ratio"] = repr(float(row["objective"]) / least) if row["objective"] and least > 0 else ""
