"""The table of a results folder: which file it is, and the rows of its task files and tables united.

Of several rows of one trial the finished one is kept, then the one of today's code, then the one timed serially.
``objective_ratio`` is F over the smallest F in the folder for the same data and k. Rows are sorted by study, dataset,
reducer, configuration, r and repetition.
"""

import csv
import hashlib
import io
import lzma
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import chain
from pathlib import Path

import pandas as pd

from kmdr.base.errors import UserError
from kmdr.base.files import DamagedError
from kmdr.base.text import tell
from kmdr.config.task import current_code
from kmdr.results.checksums import read_note, sha256_hex
from kmdr.results.folder import file_status, has_file, read_file, require_file, write_file
from kmdr.results.outdated import is_stale
from kmdr.results.paths import COMPRESSED_TABLE, TABLE, place, task_files
from kmdr.results.reader import MOST_TASK, check_places, parse_tasks, read_frame, size_of_rows, table_rows
from kmdr.results.row_check import RowCheck
from kmdr.results.table_stream import check_rows, most_bytes, open_table, too_large
from kmdr.results.text_rows import TextRow, add_ratios, csv_blocks
from kmdr.results.typed_rows import to_text

# The columns whose values differ most between rows, in the order of a compressed table; the others come before them.
_LAST = (
    "r", "n_init_failed", "repeat", "n_iter", "accuracy", "objective", "nmi", "ari", "cluster_seconds",
    "reduce_seconds", "total_seconds", "score_seconds", "prepare_seconds",
)  # fmt: skip
# Bytes of task files that are parsed together.
_BLOCK = 1 << 22

# -- which file ------------------------------------------------------------------------------------------------------


def rows_file(folder: Path) -> Path:
    """Return the path of a folder's table: ``rows.csv`` or ``rows.csv.xz``.

    Committed results have the compressed one; a run on top of them writes the other, whose note then states that it
    includes the rows of the first. Without such a note, it is the newer of both; the times of a copied folder are those
    of the copying. If there is neither, it is the path of ``rows.csv``.
    """
    plain, compressed = folder / TABLE, folder / COMPRESSED_TABLE
    status, compressed_status = file_status(folder, plain), file_status(folder, compressed)
    if not compressed_status or (status and status.st_mtime_ns >= compressed_status.st_mtime_ns):
        return plain
    included = read_note(folder, TABLE).included if status else ""
    return plain if included and included == compressed_digest(folder) else compressed


def compressed_digest(folder: Path) -> str:
    """Return the SHA-256 of the file ``rows.csv.xz``; empty if there is none."""
    content = content_or_nothing(folder, COMPRESSED_TABLE)
    return sha256_hex(content) if content else ""


def has_rows(folder: Path) -> bool:
    """Return True if the folder has a table of rows."""
    return has_file(folder, rows_file(folder))


def refuse_missing_table(folder: Path) -> None:
    """Raise `UserError` if a folder has finished tasks but no table, which a run makes at its end."""
    if not has_rows(folder) and any(task_files(folder)):
        raise UserError(
            f"{folder} has finished tasks, but no {TABLE}, which a run makes when it ends; after a run that was "
            f"killed, the same command or 'kmdr check {folder} --repair' makes it"
        )


def lacks_tasks(folder: Path) -> bool:
    """Return True if finished tasks are not in a folder's table, as after a run that was killed.

    The table is read only if a folder of tasks is newer, as it may also be in a copy of the results.
    """
    path = rows_file(folder)
    table, files = file_status(folder, path), list(task_files(folder))
    statuses = (file_status(folder, parent) for parent in {file.parent for file in files})
    if not any(status and table and status.st_mtime_ns > table.st_mtime_ns for status in statuses):
        return False
    known = {place(row) for row in _rows_at(folder, path.name)}
    return any(file.relative_to(folder).as_posix().rpartition("-")[0] not in known for file in files)


def content_or_nothing(folder: Path, path: Path | str) -> bytes:
    """Return the content of a file; nothing if it is absent or refused."""
    try:
        return read_file(folder, path, most_bytes()) or b""
    except DamagedError:
        return b""


def digest_of(blocks: Iterable[bytes]) -> str:
    """Return the SHA-256 of bytes in blocks."""
    digest = hashlib.sha256()
    for block in blocks:
        digest.update(block)
    return digest.hexdigest()


def table_digest(path: Path) -> str:
    """Return the SHA-256 of a table, decompressed; empty if it is absent or damaged.

    Raise `UserError` if it is too large.
    """
    with suppress(DamagedError), open_table(path.parent, path.name) as file:
        return "" if file is None else hashlib.file_digest(file, "sha256").hexdigest()
    return ""


# -- all rows --------------------------------------------------------------------------------------------------------


def load_rows(folder: Path) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows of a folder's table as `kmdr.results.reader.read_frame` does, and sentences on refused rows."""
    check_places(folder)
    return read_frame(folder, rows_file(folder))


def rows_of(folder: Path) -> pd.DataFrame:
    """Return the rows of a folder's table with columns of text and numbers; report refused rows on stderr."""
    rows, refused = load_rows(folder)
    for sentence in refused:
        tell(f"kmdr: warning: {sentence}")
    return to_text(rows)


def _rows_at(folder: Path, name: str) -> Iterator[TextRow]:
    if has_file(folder, name):
        yield from table_rows(folder / name)


def merged_rows(folder: Path, report: Callable[[str], None], files: Collection[Path] | None = None) -> list[TextRow]:
    """Return the rows of a folder's task files and of ``rows.csv.xz``, or of both tables if it has no task files.

    Damaged task files are omitted, and the sentences on them are reported. Raise `UserError` if a table is damaged, or
    the task files are too large.
    """
    files = list(task_files(folder)) if files is None else files
    tables = [COMPRESSED_TABLE] if files else [TABLE, COMPRESSED_TABLE]
    return united(folder, chain(_task_rows(folder, files, report), (_rows_at(folder, name) for name in tables)))


def _task_rows(folder: Path, files: Collection[Path], report: Callable[[str], None]) -> Iterator[list[TextRow]]:
    """Yield the rows of each undamaged task file; together they may take the memory of one table."""
    check, count = RowCheck(folder), 0
    for contents in _read_tasks(folder, files, report):
        for rows in parse_tasks(contents, folder, check):
            if isinstance(rows, str):
                report(rows)
                continue
            count += len(rows)
            check_rows(count, folder / "tasks")
            yield rows


def _read_tasks(folder: Path, files: Collection[Path], report: Callable[[str], None]) -> Iterator[dict[Path, bytes]]:
    """Yield the contents of task files, a block at a time; all rows together may be as large as one table."""
    size, most = 0, most_bytes()
    contents: dict[Path, bytes] = {}
    block = 0
    for file in files:
        try:
            content = require_file(folder, file, MOST_TASK)
        except DamagedError as error:
            report(str(error))
            continue
        size += size_of_rows(content)
        if size > most:
            raise too_large(folder / "tasks", f"at least {size}", most)
        contents[file] = content
        block += len(content)
        if block > _BLOCK:
            yield contents
            contents, block = {}, 0
    yield contents


def all_rows(folder: Path) -> list[TextRow]:
    """Return the rows of a folder as `merged_rows` does; raise `DamagedError` if a task file is damaged."""

    def refuse(sentence: str) -> None:
        raise DamagedError(sentence)

    return merged_rows(folder, refuse)


def rows_in(folder: Path) -> list[TextRow]:
    """Return the rows of a folder's undamaged task files, or of its tables if it has no task files."""
    try:
        return merged_rows(folder, lambda _: None)
    except DamagedError:
        return []


def is_merged(folder: Path) -> bool:
    """Return True if ``rows.csv`` matches its checksum and is the table of the task files, which may be damaged."""
    damaged: list[str] = []
    digest = digest_of(csv_blocks(merged_rows(folder, damaged.append)))
    if damaged:
        return True
    if not (read_note(folder, TABLE).sha256 and (written := table_digest(folder / TABLE))):
        return False
    if written != digest:  # older versions wrote whole paths, which are shortened when they are read
        with suppress(UserError):
            written = digest_of(csv_blocks(_rows_at(folder, TABLE)))
    return written == digest


# -- uniting ---------------------------------------------------------------------------------------------------------


def trial_of(row: Mapping[str, str]) -> str:
    """Return a text that identifies a trial; it takes a third of the memory of a tuple.

    The texts sort as study, dataset, reducer, configuration, r and repetition: no column has a NUL character.
    """
    names = (row["study"], row["dataset"], row["reducer"], row["config_hash"])
    return "\0".join((*names, f"{int(row['r']):020d}", f"{int(row['repeat']):020d}"))


def united(folder: Path, tables: Iterable[Iterable[TextRow]]) -> list[TextRow]:
    """Return one sorted table of several: the best row of each trial, the first of equals."""
    best: dict[str, TextRow] = {}
    current = cache(current_code)
    for row in chain.from_iterable(tables):
        key = trial_of(row)
        if key not in best or _rank(row, current) < _rank(best[key], current):
            best[key] = row
    table = [best[key] for key in sorted(best)]
    add_ratios(table)
    _add_settings(table, folder)
    return table


def _rank(row: Mapping[str, str], current: Callable[[str, str, str, str], str]) -> tuple[bool, bool, int]:
    return row["status"] != "ok", is_stale(row, current), int(row["concurrency"])


def _add_settings(rows: list[TextRow], folder: Path) -> None:
    """Fill the columns of settings in rows that were written before these columns were added."""
    check = RowCheck(folder)
    settings = {key: check.settings(key, "") for key in {row["config_hash"] for row in rows if not row["engine"]}}
    for row in (row for row in rows if not row["engine"]):
        for name, text in settings[row["config_hash"]].items():
            row[name] = text


# -- compressing -----------------------------------------------------------------------------------------------------


def compress(folder: Path) -> Path:
    """Write ``rows.csv.xz`` from a folder's ``rows.csv``, unless it has the same content; return its path.

    The bytes are a function of the table, so committing the same rows again changes nothing. The file contains the
    table's SHA-256, which is checked whenever it is read. ``objective_ratio`` is empty, because every reader computes
    it and its digits take a seventh of the file. The numbers that a trial measures come last, which saves some percent.
    """
    path = folder / COMPRESSED_TABLE
    if has_file(folder, path) and not has_file(folder, TABLE):
        return path
    with open_table(folder, TABLE) as file:
        if file is None:
            raise DamagedError(f"there is no {folder / TABLE}; name a folder of results")
        write_compressed(_shortened(file), path)
    return path


def _shortened(table: io.BufferedReader) -> bytes:
    """Return a table with an empty ``objective_ratio`` and the columns in the order that compresses best."""
    text = io.TextIOWrapper(table, "utf-8", newline="")
    lines = csv.reader(text)
    header = next(lines, [])
    places = sorted(
        range(len(header)), key=lambda place: _LAST.index(header[place]) + 1 if header[place] in _LAST else 0
    )
    content = io.StringIO()
    writer = csv.writer(content, lineterminator="\n")
    writer.writerow([header[place] for place in places])
    emptied = header.index("objective_ratio") if "objective_ratio" in header else -1
    for line in lines:
        if len(line) == len(header):  # readers refuse other lines
            line = ["" if place == emptied else line[place] for place in places]  # noqa: PLW2901
        writer.writerow(line)
    text.detach()
    return content.getvalue().encode()


def write_compressed(content: bytes, path: Path, preset: int = 9 | lzma.PRESET_EXTREME) -> None:
    """Write a compressed table, unless the file has the same content."""
    if table_digest(path) != sha256_hex(content):
        write_file(path.parent, path, lzma.compress(content, check=lzma.CHECK_SHA256, preset=preset))
