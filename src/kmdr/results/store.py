"""A results folder that a run writes into: locks, task files, and the merged table.

Locks are byte ranges of one file, so they end with the process that holds them, however it ends. Only the process of a
command takes locks and writes files; workers need no results folder.
"""

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from kmdr.base.errors import UserError
from kmdr.base.files import DamagedError, sweep_abandoned, writing
from kmdr.base.plugins import origin_of_root, plugin_roots
from kmdr.base.private_paths import paths_in, without_folders
from kmdr.base.provenance import machine
from kmdr.base.text import short_hash, tell
from kmdr.config.task import Task, current_code
from kmdr.results.checksums import UNKNOWN, read_note, write_checked, write_table
from kmdr.results.folder import (
    file_status,
    has_file,
    open_lock,
    pack_file,
    packable_files,
    read_file,
    remove_file,
    write_file,
)
from kmdr.results.json_files import read_json
from kmdr.results.labels import Labels, packed, read_labels
from kmdr.results.manifests import config_line, files_by_machine, log_line, log_lines, read_configs
from kmdr.results.outdated import is_stale
from kmdr.results.paths import (
    COMPRESSED_TABLE,
    CONFIGS,
    LOCAL,
    LOG,
    MERGED,
    TABLE,
    labels_file,
    parts_of,
    place,
    task_files,
)
from kmdr.results.reader import read_rows, read_task
from kmdr.results.schema import COLUMNS, Row
from kmdr.results.table import (
    all_rows,
    compressed_digest,
    content_or_nothing,
    has_rows,
    lacks_tasks,
    merged_rows,
    write_compressed,
)
from kmdr.results.text_rows import TextRow, csv_content
from kmdr.results.untrusted_text import PATH_COLUMNS

# What each byte of the lock file stands for; from `_TASKS` on, one per task.
_CLOCK, _MERGE, _CHANGE, _USE, _NEXT = range(5)
_TASKS = 5
_MAX_REPORTED = 10  # damaged files that are reported one by one


class Store:
    """A results folder that a run writes into.

    The folder is created if it does not exist. Raise `UserError` if it cannot be created or written to.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = open_lock(folder)
        except OSError as error:
            raise UserError(
                f"out = {str(folder)!r} is not a folder that can be written to ({error.strerror}); name another"
            ) from error

    # -- locks ---------------------------------------------------------------------------------------------------

    @contextmanager
    def _locked(self, offset: int, mode: int) -> Iterator[bool]:
        with writing(self.folder / ".lock"):
            try:
                fcntl.lockf(self._lock.descriptor, mode, 1, offset)
                held = True
            except BlockingIOError:
                held = False
        if not held:
            yield False
            return
        try:
            yield True
        finally:
            fcntl.lockf(self._lock.descriptor, fcntl.LOCK_UN, 1, offset)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder during a run, so that a cleanup does not remove it.

        Raise `UserError` if it was removed since it was opened.
        """
        with self._locked(_USE, fcntl.LOCK_SH):
            lock = file_status(self.folder, ".lock")
            if lock is None or lock.st_ino != os.fstat(self._lock.descriptor).st_ino:
                raise UserError(f"{self.folder} was removed at this moment; run the same command again")
            yield

    @contextmanager
    def clock(self, alone: bool) -> Iterator[None]:
        """Hold the folder's clock: ``alone`` while tasks are timed serially, else shared with other runs.

        A run that waits for it alone is next: the others learn this from `is_awaited`, and none gets it first.
        """
        mode = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
        with ExitStack() as held:
            with self._locked(_NEXT, mode):
                if not held.enter_context(self._locked(_CLOCK, mode | fcntl.LOCK_NB)):
                    if alone:
                        tell(
                            f"kmdr: note: waiting for another run on {self.folder} to pause, so that tasks are timed "
                            "serially"
                        )
                    held.enter_context(self._locked(_CLOCK, mode))
            yield

    def is_awaited(self) -> bool:
        """Return True if another run waits for the clock that this one shares."""
        with self._locked(_NEXT, fcntl.LOCK_SH | fcntl.LOCK_NB) as free:
            return not free

    def claim(self, task: Task, wait: bool) -> AbstractContextManager[bool]:
        """Claim a task; the context is False if another process works on it and ``wait`` is False."""
        return self._holding(self.path(task), wait)

    @contextmanager
    def _holding(self, path: Path, wait: bool) -> Iterator[bool]:
        # By the path within the folder, which may be mounted elsewhere on another machine.
        offset = _TASKS + int(short_hash(str(path.relative_to(self.folder))), 16)
        with self._locked(offset, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB)) as held:
            yield held

    # -- tasks ---------------------------------------------------------------------------------------------------

    def path(self, task: Task) -> Path:
        """Return the file of a task."""
        where = place(
            {
                "study": task.study, "dataset": task.dataset, "reducer": task.reducer, "config_hash": task.config_hash,
                "repeat": str(task.repeat),
            }
        )  # fmt: skip
        return self.folder / f"{where}-{short_hash([task.r_grid, task.serial])}.csv"

    def finished(self, task: Task) -> bool:
        """Return True if exactly this task was finished by the current code, perhaps by another run."""
        path = self.path(task)
        try:
            rows = read_task(self.folder, path) if has_file(self.folder, path) else []
        except DamagedError:
            return False
        done = {int(row["r"]) for row in rows if row["status"] == "ok" and not is_stale(row)}
        return done == set(task.r_grid) and (not task.keep_labels or done <= self._labelled(path))

    def add(self, task: Task, rows: list[Row]) -> None:
        """Write the rows of a task that this process has claimed, after their labels if they have any."""
        path = self.path(task)
        labels = labels_file(self.folder, path)
        kept = {row["r"]: row.pop("labels") for row in rows if "labels" in row}
        files = paths_in(json.loads(task.paths or "{}"))
        for row in rows:
            row.update({name: without_folders(row[name], files) for name in ("error", "stand_in") if row.get(name)})
            if row.get("error"):  # names of files that are not UTF-8 are lone surrogates in a message
                row["error"] = row["error"].encode(errors="backslashreplace").decode()
        if kept:
            write_checked(self.folder, labels, packed(kept))
        else:  # labels of older rows do not belong to these
            remove_file(self.folder, labels)
        write_checked(self.folder, path, csv_content(rows, path))

    def change_task(self, path: Path, change: Callable[[list[TextRow], Labels], bool]) -> None:
        """Apply a function to the rows and labels of a task file; if it returns True, write the rows again."""
        with self._holding(path, wait=True):
            rows = read_task(self.folder, path)
            if change(rows, read_labels(self.folder, labels_file(self.folder, path))):
                write_checked(self.folder, path, csv_content(rows, path))

    def _labelled(self, path: Path) -> set[int]:
        """Return each r for which a task file has labels; none if they are damaged."""
        try:
            return {r for r, _ in read_labels(self.folder, labels_file(self.folder, path))}
        except DamagedError as error:
            tell(f"kmdr: warning: {error}")
            return set()

    def labelled(self, rows: Iterable[Mapping[str, str]]) -> list[Mapping[str, str]]:
        """Return the rows whose labels are kept."""
        kept = self.labels_kept()
        return [row for row in rows if (place(row), int(row["r"])) in kept]

    def labels_kept(self) -> set[tuple[str, int]]:
        """Return `place` and r of the rows whose labels are kept."""
        return {
            (str(file.relative_to(self.folder)).rpartition("-")[0], r)
            for file in task_files(self.folder)
            for r in self._labelled(file)
        }

    def add_environment(self, manifest: Mapping[str, Any]) -> str:
        """Write the manifest of an environment, unless it is there, and return its hash."""
        key = short_hash(manifest)
        path = self.folder / "environments" / f"{key}.json"
        text = (json.dumps(manifest, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()
        if content_or_nothing(self.folder, path) != text:
            write_file(self.folder, path, text)
        return key

    def add_configs(self, configs: Iterable[Mapping[str, Any]]) -> None:
        """Add configurations to ``configs.jsonl``, also those in files of older versions; damaged lines are removed."""
        path = self.folder / CONFIGS
        with self._locked(_CHANGE, fcntl.LOCK_EX):
            known: dict[str, Mapping[str, Any]] = {**read_configs(self.folder)[0]}
            known |= {short_hash(config): config for config in configs}
            text = b"".join(config_line(key, config) + b"\n" for key, config in sorted(known.items()))
            if content_or_nothing(self.folder, path) != text:
                write_file(self.folder, path, text)

    def log(self, entry: Mapping[str, Any]) -> None:
        """Append a line to ``runs.jsonl``."""
        with self._locked(_CHANGE, fcntl.LOCK_EX):
            logged = read_file(self.folder, LOG) or b""
            write_file(self.folder, LOG, logged + f"{log_line(entry)}\n".encode())

    def change_log(self, change: Callable[[list[str]], list[str]]) -> None:
        """Replace the lines of ``runs.jsonl`` by the result of a function of them."""
        with self._locked(_CHANGE, fcntl.LOCK_EX):
            logged = log_lines(self.folder)
            lines = change(logged)
            if lines != logged:
                write_file(self.folder, LOG, "".join(f"{line}\n" for line in lines).encode())

    def keep_paths(self, tasks: Iterable[Task]) -> None:
        """Record the paths of the tasks' data files on this machine, in a file that only its owner can read."""
        paths = {task.data_sha256: json.loads(task.paths) for task in tasks if task.paths}
        if not paths:
            return
        with self._locked(_CHANGE, fcntl.LOCK_EX):
            known = files_by_machine(self.folder)
            local = {**known.get(machine(), {})}
            for digest, files in paths.items():
                local[digest] = [files, *(others for others in local.get(digest, []) if others != files)]
            if local != known.get(machine()):
                write_checked(self.folder, LOCAL, {**known, machine(): local}, mode=0o600)

    def change(self, name: str, change: Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
        """Replace a JSON file by the result of a function of its content, under a lock so that no change is lost."""
        with self._locked(_CHANGE, fcntl.LOCK_EX):
            write_checked(self.folder, name, change(read_json(self.folder, name)))

    def pack(self, least: int) -> list[Path]:
        """Compress the files of at least so many bytes that may be compressed, and return their new paths."""
        with self._locked(_CHANGE, fcntl.LOCK_EX):
            sizes = {file: file_status(self.folder, file) for file in packable_files(self.folder)}
            large = [file for file, status in sizes.items() if status and status.st_size >= least]
            return [pack_file(self.folder, file) for file in large]

    # -- the table -----------------------------------------------------------------------------------------------

    def merge(self) -> list[TextRow]:
        """Update ``rows.csv``, the table of all tasks' rows (see `kmdr.results.table`), and return it.

        Task files are read only if they or the table changed since the last merge. Damaged ones are reported and
        omitted, so that their rows count as missing. A table without task files, such as a committed one, is kept as
        ``rows.csv.xz``, and its rows become part of the table.
        """
        table = self.folder / TABLE
        with self._locked(_MERGE, fcntl.LOCK_EX):
            sweep_abandoned(self.folder)
            files = list(task_files(self.folder))
            if not files:
                return self._without_tasks()
            state = self._state(files)  # before reading, so that a later change is noticed
            if read_note(self.folder, TABLE).made_from == state:
                with suppress(DamagedError):
                    return read_rows(table)
            included = compressed_digest(self.folder)
            damaged: list[str] = []
            rows = merged_rows(self.folder, damaged.append, files)
            for sentence in damaged[:_MAX_REPORTED]:
                tell(
                    f"kmdr: warning: {sentence}; its rows are omitted, and a run that needs them computes them again; "
                    f"'kmdr check {self.folder} --repair' removes the file"
                )
            if len(damaged) > _MAX_REPORTED:
                tell(
                    f"kmdr: warning: {len(damaged) - _MAX_REPORTED} more are damaged; 'kmdr check {self.folder}' lists "
                    "them"
                )
            made_from = UNKNOWN if damaged else state  # damaged files are reported each time
            write_table(self.folder, TABLE, csv_content(rows, table), made_from, included)
        return rows

    @contextmanager
    def taking_in(self) -> Iterator[Callable[[Sequence[Mapping[str, str]]], None]]:
        """Hold the table, and yield a function that replaces it by another, which must contain all of its rows.

        That becomes ``rows.csv.xz``, so that the task files stay as they are; `merge` makes ``rows.csv`` of both.
        """

        def put(rows: Sequence[Mapping[str, str]]) -> None:
            content = csv_content(rows, self.folder / TABLE)
            write_compressed(content, self.folder / COMPRESSED_TABLE, preset=1)  # saves minutes for 100,000 rows
            if not any(task_files(self.folder)):
                remove_file(self.folder, MERGED)  # it would be of task files that were removed
                write_file(self.folder, TABLE, content)

        with self._locked(_MERGE, fcntl.LOCK_EX):
            sweep_abandoned(self.folder)
            yield put

    def _without_tasks(self) -> list[TextRow]:
        """Return the rows of a table without task files, and compress it so that no merge replaces it."""
        if not has_file(self.folder, TABLE):
            return all_rows(self.folder)
        try:
            rows = all_rows(self.folder)
        except DamagedError as error:
            raise UserError(f"{error}; move it away or use another out folder") from error
        write_compressed(csv_content(rows, self.folder / TABLE), self.folder / COMPRESSED_TABLE)
        return rows

    def _state(self, files: Iterable[Path]) -> str:
        """Return a hash of the state of the files and of the code that decides between two rows of one trial."""
        files_state, code = [], set()
        configs = read_configs(self.folder)[0]
        for file in [*files, self.folder / COMPRESSED_TABLE]:
            status = file_status(self.folder, file)
            if status is None:  # there is no such table, or the file was removed meanwhile
                continue
            files_state.append((str(file.relative_to(self.folder)), status.st_ino, status.st_size, status.st_mtime_ns))
        for file in files:
            reducer, _, key = file.parts[-2].rpartition("-")
            code.add((reducer, configs.get(key, {}).get("kmeans", {}).get("engine", ""), file.parts[-3]))
        hashes = [[*names, current_code(*names, "")] for names in sorted(code)]
        return short_hash([files_state, COLUMNS, PATH_COLUMNS, hashes, [*map(origin_of_root, plugin_roots())]])


def is_in_use(folder: Path) -> bool:
    """Return whether another process is writing a results folder; False where its lock cannot be opened."""
    if not has_file(folder, ".lock"):
        return False
    try:
        with Store(folder)._locked(_USE, fcntl.LOCK_EX | fcntl.LOCK_NB) as free:
            return not free
    except UserError:
        return False


def _places_in_use(folder: Path) -> list[Path]:
    """Return which of the parts of a results folder a run is writing."""
    return list(filter(is_in_use, parts_of(folder)))


def note_runs(folder: Path) -> None:
    """Report that a run is writing a results folder, of which a command then reads a part."""
    for written in _places_in_use(folder):
        tell(f"kmdr: note: a run is writing {written}; repeat this command when it has ended, for all of its rows")


def note_killed_runs(folder: Path) -> None:
    """Report that a table lacks finished tasks, unless a run is writing them now."""
    for part in parts_of(folder):
        with suppress(UserError):  # of damaged files, which the command reports
            if has_rows(part) and not is_in_use(part) and lacks_tasks(part):
                tell(
                    f"kmdr: note: {part} has finished tasks that its table lacks, as after a run that was killed; the "
                    f"same run or 'kmdr check {folder} --repair' adds their rows"
                )


def refuse_runs(folder: Path, what: str) -> None:
    """Raise `UserError` if a run is writing a results folder, because a part of it would be published."""
    if written := _places_in_use(folder):
        raise UserError(f"a run is writing {written[0]}; {what} {folder} when it has ended")
