"""Rows on disk: one file a task, written once and atomically, merged to one table.

::

    OUT/tasks/<study>/<dataset>/<reducer>-<config hash>/<repetition>-<hash of the grid>.csv
    OUT/configs/<config hash>.json    OUT/environments/<environment hash>.json
    OUT/rows.csv                      all of it as one tidy table
    OUT/runs.jsonl                    a line a run: when, how long, how much of it outside the trials
    OUT/.lock                         byte 0: the clock; the others: one a task

Locks are byte ranges of one file, so they end with the process that holds them, however it ends.
"""

import csv
import fcntl
import io
import json
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
    """Return the rows of one CSV file as text.

    Raises
    ------
    UserError
        When its header is not that of this version.
    """
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise UserError(
                f"{path} has not the columns of this version of kmdr; move it away or use another out folder"
            )
        return list(reader)


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

    def missing(self, task: Task) -> Task | None:
        """Return what of a task has no finished row yet: the task for those r, or None when nothing is missing.

        A failed row is not finished, so the same command tries it again. Where serial times are asked for, only rows
        taken with no other worker count.
        """
        done: set[int] = set()
        for file in self.path(task).parent.glob(f"{task.repeat:04d}-*.csv"):
            for row in read_rows(file):
                if row["status"] == "ok" and (not task.serial or row["concurrency"] == "1"):
                    done.add(int(row["r"]))
        rest = tuple(r for r in task.r_grid if r not in done)
        return task.restricted(rest) if rest else None

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
        """Write ``rows.csv``, the tidy table of every task's rows, and return it.

        Of several rows of one trial the finished, then the serial one is kept. ``objective_ratio`` is F over the
        smallest F seen here for that matrix and k. The order is that of study, dataset, reducer, configuration, r and
        repetition.
        """
        with self._locked(_MERGE, fcntl.LOCK_EX):
            best: dict[tuple[Any, ...], dict[str, str]] = {}
            for file in self.folder.glob("tasks/*/*/*/*.csv"):
                for row in read_rows(file):
                    key = (
                        row["study"], row["dataset"], row["reducer"], row["config_hash"], int(row["r"]),
                        int(row["repeat"]),
                    )  # fmt: skip
                    if key not in best or _rank(row) < _rank(best[key]):
                        best[key] = row
            rows = [best[key] for key in sorted(best)]
            _add_ratios(rows)
            sweep_asides(self.folder / "rows.csv")
            write_atomically(self.folder / "rows.csv", _to_csv(rows))
        return rows


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
