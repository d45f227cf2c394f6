"""Rows on disk: one file a task, written once and atomically, merged to one table.

::

    OUT/tasks/<study>/<dataset>/<reducer>-<config hash>/<repetition>-<hash of the grid>.csv
    OUT/configs.jsonl                 a line each: what the config_hash of a row stands for
    OUT/environments/<hash>.json      what the env_hash of a row stands for
    OUT/labels/<as in tasks>.npz      with keep_labels=true: the cluster of each point, for every row of the task file
    OUT/rows.csv                      all of it as one tidy table; committed results keep it as rows.csv.xz
    OUT/tasks/.merged                 which state of the task files the table was made of, and the table's SHA-256
    OUT/runs.jsonl                    a line a run: when, how long, how much of it outside the trials
    OUT/.local.json                   where the user's files are on each machine; never exported or merged
    OUT/.lock                         a byte each: clock, merging, changing, in use, next; the others: one a task

Locks are byte ranges of one file, so they end with the process that holds them, however it ends. Only the process of a
command takes any and writes anything: what runs its tasks, here or elsewhere, needs no folder of results.

The last line of a task file, ``# sha256 …``, is the checksum of all before it. A comment line leaves the file one that
``pandas.read_csv(comment="#")`` reads, and, unlike a checksum in its name or beside it, is written and replaced with it
in one step. Files of older versions end without one: the values in them are checked one by one instead.
"""

import fcntl
import hashlib
import io
import json
import lzma
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

from kmdr.base.errors import UserError
from kmdr.base.files import (
    INNER,
    SEAL,
    DamagedError,
    note_of,
    noted,
    sealed,
    sweep_abandoned,
    unsealed,
    with_checksum,
    without_checksum,
    writing,
)
from kmdr.base.plugins import guests, origin_of_root
from kmdr.base.private_paths import file_names, paths_in, without_folders
from kmdr.base.provenance import machine
from kmdr.base.text import canonical, short_hash, tell
from kmdr.config.task import Task, code_identity, current_code, data_of
from kmdr.results.folder import (
    file_status,
    has_file,
    list_files,
    open_lock,
    read_file,
    read_json,
    remove_file,
    require_file,
    write_file,
    write_json,
)
from kmdr.results.labels import Labels, packed, read_labels
from kmdr.results.rows import TextRow, csv_blocks, csv_content, parse_rows
from kmdr.results.schema import COLUMNS, Row, RowCheck, settings_in
from kmdr.results.table import most_bytes, open_table, too_large

_CLOCK, _MERGE, _CHANGE, _USE, _NEXT = range(5)
_TASKS = 5
CONFIGS = "configs.jsonl"
# The configurations that each study was last run with.
ASKED = "asked.json"
# The universes of papers that were run, with the configurations of each.
UNIVERSES = "universes.json"
# Within a folder of results, that of the rows of multiverses: their best F is not that of the papers' own protocols.
MULTIVERSE = INNER
LOG = "runs.jsonl"
# The whole paths of the user's files, which rows have only the names of.
LOCAL = ".local.json"
# The columns that `mixed_code` reads.
OF_CODE = ("study", "reducer", "engine", "dataset", "options", "code_hash", "guests")
# Damaged files that are told of one by one.
_TOLD = 10
_PACKED = "rows.csv.xz"
# The columns that may state paths.
_TEXTS = ("options", "error", "stand_in")
# Bytes of a task file, which has a row for each r of a grid.
MOST_TASK = 1 << 23
# Rows whose values are checked together.
_CHECKED = 1000
_SEALED_SINCE = "code_hash"  # the column that came with the checksum


# -- rows as text ----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)  # thousands of rows have the same few
def public_text(column: str, text: str) -> str:
    """Return what a column of a row says without the folders of files, which older versions wrote."""
    if column not in _TEXTS or "/" not in text:
        return text
    if column != "options":
        return without_folders(text)
    try:
        options = json.loads(text)
        names = file_names(options)
    except (ValueError, AttributeError, RecursionError):  # no options, as who checks the row will find
        return text
    return text if names == options else canonical(names)


def table_content(path: Path) -> bytes:
    """Return the bytes of a table, decompressed where it is a ``.xz``, which carries a checksum of its own.

    Raises
    ------
    DamagedError
        When there is none, it is damaged or larger than `kmdr.results.table.most_bytes`.
    """
    with open_table(path.parent, path.name) as file:
        if file is None:
            raise DamagedError(f"there is no {path}; name a folder of results")
        return file.read()


def row_check(folder: Path) -> RowCheck:
    """Return a check of rows of a folder."""

    def configs() -> dict[str, dict[str, Any]]:
        try:
            return configs_of(folder)[0]
        except DamagedError:  # 'kmdr check' reports why
            return {}

    return RowCheck(configs)


def read_rows(path: Path, check: RowCheck | None = None) -> list[TextRow]:
    """Return the rows of a table, compressed by xz or not, as text; columns that came later are empty in older ones.

    Parameters
    ----------
    path : Path
    check : RowCheck, optional
        Counts the rows that are refused, which are left out; without it they are an error.

    Raises
    ------
    UserError
        When it has a column that this version does not know, or rows that are refused and no others.
    """
    rows = list(_table_rows(path, check))
    if check and check.refused and not rows:
        raise DamagedError(f"{path} is damaged: no row is sound; {check.sentences(path)[0]}")
    return rows


def _table_rows(path: Path, check: RowCheck | None = None) -> Iterator[TextRow]:
    with open_table(path.parent, path.name) as file:
        if file is None:
            raise DamagedError(f"there is no {path}; name a folder of results")
        yield from _checked(file, path, check or row_check(path.parent), strict=check is None)


def _checked(file: BinaryIO, path: Path, check: RowCheck, *, strict: bool = True) -> Iterator[TextRow]:
    """Yield the rows of an open table that are not refused; where it is strict, none may be."""
    rows = parse_rows(file, path)
    while block := list(islice(rows, _CHECKED)):
        columns = zip(*(row.texts() for row in block), strict=True)
        faults, _ = check.faults(dict(zip(COLUMNS, columns, strict=True)))
        if faults and strict:
            raise DamagedError(f"{path} is damaged: a row has {faults[min(faults)]}")
        for row in (row for number, row in enumerate(block) if number not in faults):
            for name in _TEXTS:
                if "/" in row[name]:
                    row[name] = public_text(name, row[name])
            yield row


def read_task(folder: Path, path: Path) -> list[TextRow]:
    """Return the rows of a task file of a folder.

    Raises
    ------
    DamagedError
        When it is cut short, its checksum is not that of its content, it has none though its columns say that it had,
        a row is refused, or its rows are not those of the task that it is named by.
    UserError
        When it has a column that this version does not know.
    """
    return _task_rows(require_file(folder, path, MOST_TASK), folder, path, row_check(folder))


def _task_rows(content: bytes, folder: Path, path: Path, check: RowCheck) -> list[TextRow]:
    if not content.endswith(b"\n"):  # which all versions wrote; its columns may be cut as well
        raise DamagedError(f"{path} is damaged: its last line is cut short")
    start = content.rfind(b"\n", 0, -1) + 1
    if content.startswith(SEAL, start):
        content = without_checksum(content, path)
    elif _SEALED_SINCE.encode() in content.partition(b"\n")[0].split(b","):
        raise DamagedError(f"{path} is damaged: its checksum is missing")
    rows, within = list(_checked(io.BytesIO(content), path, check)), str(path.relative_to(folder))
    if not all(within.startswith(f"{place(row)}-") for row in rows):
        raise DamagedError(f"{path} is damaged: its rows are not those of the task that it is named by")
    return rows


def stated_paths(table: Path) -> set[str]:
    """Return the paths of the user's files that a table states, as older versions wrote them."""
    paths: set[str] = set()
    with open_table(table.parent, table.name) as file:
        texts = {row["options"] or "{}" for row in parse_rows(file, table)} if file else set()
    for text in texts:
        with suppress(ValueError, RecursionError, AttributeError):
            paths.update(paths_in(json.loads(text)))
    return paths


def public_content(folder: Path, path: Path) -> bytes:
    """Return the content of a table or task file, without whole paths that an older version wrote into it.

    Rows of a table that are refused are reported and left out.

    Raises
    ------
    UserError
        As `read_rows` and `read_task` do.
    """
    if path.parent == folder:
        raw, content = require_file(folder, path, most_bytes()), table_content(path)
    else:
        raw = require_file(folder, path)
        content = without_checksum(raw, path) if SEAL in raw else raw
    check = row_check(folder)
    sound = read_rows(path, check) if path.parent == folder else read_task(folder, path)
    for sentence in check.sentences(path):
        tell(f"kmdr: {sentence}")
    rows = parse_rows(io.BytesIO(content), path)
    if not check.refused and all(public_text(name, row[name]) == row[name] for row in rows for name in _TEXTS):
        return raw
    public = csv_content(sound, path)
    if path.parent != folder:
        return with_checksum(public)
    return lzma.compress(public, check=lzma.CHECK_SHA256) if path.name == _PACKED else public


# -- the table of a folder -------------------------------------------------------------------------------------------


def rows_file(folder: Path) -> Path:
    """Return the table of a folder of results: ``rows.csv`` or ``rows.csv.xz``, the newer where there are both.

    Committed results have the compressed one; a run on top of them makes the other. Where there is neither it is the
    path of ``rows.csv``. Nothing is written.

    Raises
    ------
    DamagedError
        When ``rows.csv`` is neither as the last merge of the task files left it nor what they give now.
    """
    plain, compressed = folder / "rows.csv", folder / _PACKED
    written, packed = file_status(folder, plain), file_status(folder, compressed)
    if packed and not (written and written.st_mtime_ns >= packed.st_mtime_ns):
        return compressed
    while digest := _merged(folder)[1]:
        found = _digest_of_table(plain)
        if found == digest or found == _digest(csv_blocks(_merged_rows(folder, lambda _: None))):
            break
        if digest == _merged(folder)[1]:  # else another run merges at this moment
            raise DamagedError(
                f"{plain} is damaged: it is not as the last merge of the task files left it; a run into the folder or "
                f"'kmdr check {folder} --repair' makes it again"
            )
    return plain


def has_rows(folder: Path) -> bool:
    """Whether a folder has a table of rows."""
    return has_file(folder, rows_file(folder))


def _digest(blocks: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for block in blocks:
        digest.update(block)
    return digest.hexdigest()


def _digest_of_table(path: Path) -> str:
    """Return the SHA-256 of a table; nothing where there is none, or it is not one that kmdr wrote.

    Raises
    ------
    UserError
        When it is too large.
    """
    try:
        with open_table(path.parent, path.name) as file:
            return "" if file is None else hashlib.file_digest(file, "sha256").hexdigest()
    except DamagedError:
        return ""


def _merged(folder: Path) -> tuple[str, str]:
    """Return of which state of the task files ``rows.csv`` was made, and its SHA-256; empty where that is not known."""
    return noted(_content(folder, "tasks/.merged"))


def task_files(folder: Path) -> Iterator[Path]:
    """Yield the task files of a folder, ``tasks/<study>/<dataset>/<reducer>/<file>.csv``; links are not followed."""
    depth = len(folder.parts) + 5
    return (path for path in list_files(folder, "tasks") if len(path.parts) == depth and path.suffix == ".csv")


def labels_file(folder: Path, task_file: Path) -> Path:
    """Return where the labels lie that go with a task file of a folder."""
    return (folder / "labels" / task_file.relative_to(folder / "tasks")).with_suffix(".npz")


def _component(name: str) -> str:
    """Return a name as one part of a path: what would be more than that is written in hexadecimal."""
    return re.sub(r"[/%\0]|^\.", lambda character: f"%{ord(character[0]):02X}", name)


def place(row: Mapping[str, str]) -> str:
    """Return where in a folder the task file of a row lies, up to the hash of the grid."""
    where = "/".join(("tasks", _component(row["study"]), _component(row["dataset"]), _component(row["reducer"])))
    return f"{where}-{row['config_hash']}/{int(row['repeat']):04d}"


def trial_of(row: Mapping[str, str]) -> str:
    """Return a text that no row of another trial has; in one string it takes a third of the memory of a tuple.

    The texts sort as study, dataset, reducer, configuration, r and repetition do: no column has the character 0.
    """
    names = (row["study"], row["dataset"], row["reducer"], row["config_hash"])
    return "\0".join((*names, f"{int(row['r']):020d}", f"{int(row['repeat']):020d}"))


def united(folder: Path, tables: Iterable[Iterable[TextRow]]) -> list[TextRow]:
    """Return one table of several of a folder: of the rows of one trial the best, the first of equals."""
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


def _rows_at(folder: Path, name: str) -> Iterator[TextRow]:
    """Yield the rows of a table of a folder, if there is one.

    Raises
    ------
    UserError
        When they are damaged.
    """
    if has_file(folder, name):
        yield from _table_rows(folder / name)


def _merged_rows(
    folder: Path, tell: Callable[[DamagedError], None], files: Iterable[Path] | None = None
) -> list[TextRow]:
    """Return the table of a folder's task files and of what its ``rows.csv.xz`` has beside them.

    Damaged task files are told of and left out.

    Raises
    ------
    UserError
        When ``rows.csv.xz`` is damaged.
    """
    size, most, check = 0, most_bytes(), row_check(folder)

    def of_tasks() -> Iterator[list[TextRow]]:
        nonlocal size
        for file in task_files(folder) if files is None else files:
            try:
                content = require_file(folder, file, MOST_TASK)
                size += len(content)
                if size > most:
                    raise too_large(folder / "tasks", f"at least {size}", most)
                rows = _task_rows(content, folder, file, check)
            except DamagedError as error:
                tell(error)
                continue
            yield rows

    return united(folder, chain(of_tasks(), [_rows_at(folder, _PACKED)]))


def rows_in(folder: Path) -> list[TextRow]:
    """Return what rows a folder has that are in order: of its task files, else of its table. Nothing is written."""
    try:
        return _merged_rows(folder, lambda _: None) if any(task_files(folder)) else read_rows(rows_file(folder))
    except DamagedError:
        return []


def _handed_on(folder: Path) -> list[TextRow]:
    """Return the rows of a folder's tables, which has no task files."""
    return united(folder, [_rows_at(folder, "rows.csv"), _rows_at(folder, _PACKED)])


def all_rows(folder: Path) -> list[TextRow]:
    """Return the rows of a folder, of its task files or of the table that it came with. Nothing is written.

    Raises
    ------
    UserError
        When a file of them is damaged.
    """

    def refuse(error: DamagedError) -> None:
        raise error

    return _merged_rows(folder, refuse) if any(task_files(folder)) else _handed_on(folder)


def is_merged(folder: Path) -> bool:
    """Whether ``rows.csv`` is the table of the task files that are in order, and the note beside them says so."""
    damaged: list[DamagedError] = []
    digest = _digest(csv_blocks(_merged_rows(folder, damaged.append)))
    written = _digest_of_table(folder / "rows.csv")
    known = _merged(folder)[1] == written
    if known and written != digest:  # older versions wrote whole paths, which are shortened when they are read
        with suppress(UserError):
            written = _digest(csv_blocks(_rows_at(folder, "rows.csv")))
    return bool(damaged) or (known and written == digest)


def multiverse_folder(folder: Path) -> Path:
    """Return the folder of the rows of a folder's multiverses: `MULTIVERSE` within it, or that itself."""
    return folder / MULTIVERSE if has_file(folder, f"{MULTIVERSE}/{UNIVERSES}") else folder


def compress(folder: Path) -> Path:
    """Write ``rows.csv.xz`` from a folder's ``rows.csv``, unless it holds the same already; return its path.

    The bytes are a function of the table, so that committing the same rows again changes nothing. They carry the
    table's SHA-256, which is checked whenever they are read.
    """
    path = folder / _PACKED
    if has_file(folder, path) and not has_file(folder, "rows.csv"):  # nothing was to be run on top of it
        return path
    _pack(table_content(folder / "rows.csv"), path)
    return path


def _pack(content: bytes, path: Path, preset: int = 9 | lzma.PRESET_EXTREME) -> None:
    """Write a compressed table, unless it holds the same already."""
    if _digest_of_table(path) != _digest([content]):
        write_file(path.parent, path, lzma.compress(content, check=lzma.CHECK_SHA256, preset=preset))


def _config_line(key: str, config: Mapping[str, Any]) -> bytes:
    return canonical({"config_hash": key, **config}).encode()


def configs_of(folder: Path) -> tuple[dict[str, dict[str, Any]], dict[Path, str]]:
    """Return the configurations of a folder by the hash that rows have, and which of its files are damaged, and how.

    They are lines of ``configs.jsonl``; older versions wrote a file each, ``configs/<hash>.json``.
    """
    known: dict[str, dict[str, Any]] = {}
    damaged: dict[Path, str] = {}
    for path in json_files(folder, "configs"):
        try:
            known[path.stem] = _hashed(folder, path)
        except DamagedError as error:
            damaged[path] = str(error)
    table = folder / CONFIGS
    try:
        lines = (read_file(folder, table) or b"").splitlines()
    except DamagedError as error:
        damaged[table], lines = str(error), []
    for number, line in enumerate(lines, 1):
        try:
            config = json.loads(line)
            key = config.pop("config_hash")
            intact = short_hash(config) == key and _config_line(key, config) == line
        except (ValueError, LookupError, AttributeError, TypeError, RecursionError):
            intact = False
        if intact:
            known[key] = config
        else:
            damaged[table] = f"{table} is damaged: its line {number} is not what the hash in it says"
    return known, damaged


def described(folder: Path, kind: str, key: str) -> dict[str, Any]:
    """Return what a hash in a row stands for: one of the ``configs`` or of the ``environments``.

    Raises
    ------
    DamagedError
        When the key is not a hash, or what it stands for is not there or not what the key says.
    """
    if not re.fullmatch("[0-9a-f]{12}", key):
        raise DamagedError(
            f"{key[:40]!r} in {kind} of {folder} is not a hash of 12 digits; the row that has it is damaged"
        )
    if kind == "environments":
        return _hashed(folder, folder / kind / f"{key}.json")
    known, damaged = configs_of(folder)
    if key not in known:
        raise DamagedError(
            "; ".join(damaged.values())
            or f"{folder / CONFIGS} has no configuration {key}, which rows name; the run that made them writes it again"
        )
    return known[key]


def _local(folder: Path) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Return the files of the user's by machine and content hash; nothing unless this user alone wrote them."""
    try:
        status = file_status(folder, LOCAL)
        if status is None or status.st_uid != os.getuid() or status.st_mode & 0o077:
            return {}
        known = read_json(folder, LOCAL)
        paths = [each for here in known.values() for several in here.values() for each in several]
        return known if all(isinstance(each, dict) for each in paths) else {}
    except (DamagedError, AttributeError, TypeError):  # another run writes it again
        return {}


def local_paths(folder: Path, data_sha256: str) -> list[dict[str, Any]]:
    """Return the options that name the files of some data on this machine, those of the latest run first."""
    return _local(folder).get(machine(), {}).get(data_sha256, [])


def log_lines(folder: Path) -> list[str]:
    """Return the lines of ``runs.jsonl``, one a run.

    Raises
    ------
    DamagedError
        When one is not what was logged.
    """
    path = folder / LOG
    try:
        lines = (read_file(folder, path) or b"").decode().splitlines()
        for line in lines:
            unsealed(json.loads(line))
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"{path} is damaged: it has a line that is not what was logged") from error
    return lines


def json_files(folder: Path, name: str) -> list[Path]:
    """Return the JSON files that lie in one of the folders of a folder."""
    return [path for path in list_files(folder, name) if path.parent == folder / name and path.suffix == ".json"]


def _hashed(folder: Path, path: Path) -> dict[str, Any]:
    """Return the content of a JSON file that is named by its hash."""
    try:
        content = json.loads(require_file(folder, path))
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or short_hash(content) != path.stem:
        raise DamagedError(f"{path} is damaged: its content is not what its name, a hash of it, says")
    return content


# -- what is left to do ----------------------------------------------------------------------------------------------


def _code_of_row(row: Mapping[str, str]) -> str:
    return code_identity(row["code_hash"], row["guests"])


def _is_stale(row: Mapping[str, str], current: Callable[[str, str, str, str], str] = current_code) -> bool:
    """Return whether a row was computed by other code than the current one, as `current_code` or a cache of it has it.

    A row whose code is not available now is stale too, but no task asks for it.
    """
    return _code_of_row(row) != current(row["reducer"], row["engine"], row["dataset"], row["options"])


def missing(tasks: Iterable[Task], rows: Iterable[Mapping[str, str]], refresh: bool = False) -> list[Task]:
    """Return what of some tasks has no finished row yet: each task for those r, without those that have none left.

    A failed row is not finished, so the same command tries it again. Where serial times are asked for, only rows
    taken with no other worker count.

    Parameters
    ----------
    tasks : iterable of Task
    rows : iterable of mapping
        The merged table.
    refresh : bool
        Whether rows that were made by other code than today's are not finished either.
    """
    done: dict[tuple[str, str, str], dict[int, bool]] = {}
    current = cache(current_code)
    for row in rows:
        if row["status"] == "ok" and not (refresh and _is_stale(row, current)):
            trial = done.setdefault((row["study"], row["config_hash"], row["repeat"]), {})
            trial[int(row["r"])] = row["concurrency"] == "1"
    left = []
    for task in tasks:
        alone = done.get((task.study, task.config_hash, str(task.repeat)), {})
        rest = tuple(r for r in task.r_grid if r not in alone or (task.serial and not alone[r]))
        if rest:
            left.append(task.restricted(rest))
    return left


def _dataset_name(title: str, options: str) -> str:
    try:
        return data_of(title, options)[0]
    except (ValueError, TypeError, AttributeError, RecursionError):  # rows that kmdr did not write
        return title


def mixed_code(rows: Iterable[Mapping[str, str]]) -> list[str]:
    """Say which reducer of which study has rows on one dataset that were made by several versions of their code.

    Parameters
    ----------
    rows : iterable of mapping
        Of a table, or only what is different in the columns `OF_CODE`. Rows of older versions, which have no
        ``code_hash``, count as those of one code. A plugin with a metric is part of the code of all rows that it
        scored, so rows from before it was added are of another version.

    Returns
    -------
    list of str
        A sentence for each (study, reducer), sorted.
    """
    codes: dict[tuple[str, str, str, str, str], set[str]] = {}
    name_of = cache(_dataset_name)
    for row in rows:
        name = name_of(row["dataset"], row["options"])
        key = (row["study"], row["reducer"], row["engine"], row["dataset"], name)
        codes.setdefault(key, set()).add(_code_of_row(row))
    counts: dict[tuple[str, str], int] = {}
    for (study, reducer, *_), hashes in sorted(codes.items()):
        if len(hashes) > 1:
            counts[study, reducer] = max(counts.get((study, reducer), 0), len(hashes))
    return [
        f"{study}: the rows of {reducer} were made by {count} versions of the code that computes them; run the "
        "same command with --refresh to compute the older ones again"
        for (study, reducer), count in sorted(counts.items())
    ]


def outdated_code(rows: Iterable[Mapping[str, str]]) -> list[str]:
    """Report the reducers of each study that have no row of the current version of the code on some dataset.

    Parameters
    ----------
    rows : iterable of mapping
        Of a table; where they are of several versions, `mixed_code` reports that.

    Returns
    -------
    list of str
        A sentence for each study, sorted.
    """
    current = cache(current_code)
    codes: dict[tuple[str, ...], set[bool]] = {}
    for row in rows:
        key = row["study"], row["reducer"], row["engine"], row["dataset"], row["options"]
        codes.setdefault(key, set()).add(_is_stale(row, current))
    names: dict[str, set[str]] = {}
    for (study, reducer, *_), stale in codes.items():
        if stale == {True}:
            names.setdefault(study, set()).add(reducer)
    return [
        f"{study}: the rows of {', '.join(sorted(reducers))} were made by an older version of the code; run the same "
        "command with --refresh to compute them again"
        for study, reducers in sorted(names.items())
    ]


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
                fcntl.lockf(self._lock, mode, 1, offset)
                held = True
            except BlockingIOError:
                held = False
        if not held:
            yield False
            return
        try:
            yield True
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN, 1, offset)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Hold the folder for the time of a run: what cleans up removes none that is held.

        Raises
        ------
        UserError
            When it was removed since it was opened.
        """
        with self._locked(_USE, fcntl.LOCK_SH):
            lock = file_status(self.folder, ".lock")
            if lock is None or lock.st_ino != os.fstat(self._lock).st_ino:
                raise UserError(f"{self.folder} was removed at this moment; run the same command again")
            yield

    @contextmanager
    def clock(self, alone: bool) -> Iterator[None]:
        """Hold the folder's clock: ``alone`` while serial times are taken, shared while other tasks run.

        Who wants it alone is next: those that share it see so by `is_awaited`, and none gets it before.
        """
        mode = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
        with ExitStack() as held:
            with self._locked(_NEXT, mode):
                if not held.enter_context(self._locked(_CLOCK, mode | fcntl.LOCK_NB)):
                    if alone:
                        tell(f"kmdr: waiting for another run on {self.folder} to pause, so that times are taken alone")
                    held.enter_context(self._locked(_CLOCK, mode))
            yield

    def is_awaited(self) -> bool:
        """Whether another run waits for the clock that this one shares."""
        with self._locked(_NEXT, fcntl.LOCK_SH | fcntl.LOCK_NB) as free:
            return not free

    @contextmanager
    def claim(self, task: Task, wait: bool) -> Iterator[bool]:
        """Claim a task; yields False when another process works on it and ``wait`` is not set."""
        with self._holding(self.path(task), wait) as held:
            yield held

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
        """Whether a task, exactly as it is asked for, is done by the code of today: what another run may have done."""
        path = self.path(task)
        try:
            rows = read_task(self.folder, path) if has_file(self.folder, path) else []
        except DamagedError:
            return False
        done = {int(row["r"]) for row in rows if row["status"] == "ok" and not _is_stale(row)}
        return done == set(task.r_grid) and (not task.keep_labels or done <= self._labelled(path))

    def add(self, task: Task, rows: list[Row]) -> None:
        """Write the rows of a task that this process has claimed, and before them their labels where they have any."""
        path = self.path(task)
        labels = labels_file(self.folder, path)
        kept = {row["r"]: row.pop("labels") for row in rows if "labels" in row}
        files = paths_in(json.loads(task.paths or "{}"))
        for row in rows:
            row.update({name: without_folders(row[name], files) for name in ("error", "stand_in") if row.get(name)})
        if kept:
            write_file(self.folder, labels, packed(kept))
        else:  # those of older rows are not those of these
            remove_file(self.folder, labels)
        write_file(self.folder, path, with_checksum(csv_content(rows, path)))

    def change_task(self, path: Path, change: Callable[[list[TextRow], Labels], bool]) -> None:
        """Write a task file again if a function of its rows and of the labels of each r returns that it changed any."""
        with self._holding(path, wait=True):
            rows = read_task(self.folder, path)
            if change(rows, read_labels(self.folder, labels_file(self.folder, path))):
                write_file(self.folder, path, with_checksum(csv_content(rows, path)))

    def _labelled(self, path: Path) -> set[int]:
        """Return every r that a task file has labels of; none where the labels are damaged."""
        try:
            return {r for r, _ in read_labels(self.folder, labels_file(self.folder, path))}
        except DamagedError as error:
            tell(f"kmdr: {error}")
            return set()

    def labelled(self, rows: Iterable[Mapping[str, str]]) -> list[Mapping[str, str]]:
        """Return those of some rows whose labels are kept."""
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
        if _content(self.folder, path) != text:
            write_file(self.folder, path, text)
        return key

    def add_configs(self, configs: Iterable[Mapping[str, Any]]) -> None:
        """Bring configurations into ``configs.jsonl``, those of older versions' files too; damaged lines go."""
        path = self.folder / CONFIGS
        with self._locked(_CHANGE, fcntl.LOCK_EX):
            known: dict[str, Mapping[str, Any]] = {**configs_of(self.folder)[0]}
            known |= {short_hash(config): config for config in configs}
            text = b"".join(_config_line(key, config) + b"\n" for key, config in sorted(known.items()))
            if _content(self.folder, path) != text:
                write_file(self.folder, path, text)

    def log(self, entry: Mapping[str, Any]) -> None:
        """Append a line to ``runs.jsonl``."""
        with self._locked(_CHANGE, fcntl.LOCK_EX):
            logged = read_file(self.folder, LOG) or b""
            write_file(self.folder, LOG, logged + (json.dumps(sealed(entry), ensure_ascii=False) + "\n").encode())

    def change_log(self, change: Callable[[list[str]], list[str]]) -> None:
        """Replace the lines of ``runs.jsonl`` by a function of them, where it gives others."""
        with self._locked(_CHANGE, fcntl.LOCK_EX):
            logged = log_lines(self.folder)
            lines = change(logged)
            if lines != logged:
                write_file(self.folder, LOG, "".join(f"{line}\n" for line in lines).encode())

    def keep_paths(self, tasks: Iterable[Task]) -> None:
        """Note where the user's files of some tasks are on this machine, in a file for its owner alone."""
        paths = {task.data_sha256: json.loads(task.paths) for task in tasks if task.paths}
        if not paths:
            return
        with self._locked(_CHANGE, fcntl.LOCK_EX):
            known = _local(self.folder)
            here = {**known.get(machine(), {})}
            for digest, each in paths.items():
                here[digest] = [each, *(other for other in here.get(digest, []) if other != each)]
            if here != known.get(machine()):
                write_json(self.folder, LOCAL, {**known, machine(): here}, 0o600)

    def change(self, name: str, change: Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
        """Replace a JSON file of the folder by a function of what it says, so that none of several changes is lost."""
        with self._locked(_CHANGE, fcntl.LOCK_EX):
            write_json(self.folder, name, change(read_json(self.folder, name)))

    # -- the table -----------------------------------------------------------------------------------------------

    def merge(self) -> list[TextRow]:
        """Bring ``rows.csv``, the tidy table of every task's rows, up to date and return it.

        Of several rows of one trial the finished, then that of today's code, then the serial one is kept.
        ``objective_ratio`` is F over the smallest F seen here for that matrix and k. The order is that of study,
        dataset, reducer, configuration, r and repetition. The task files are read only when they, or the table, are not
        as the last merge left them. A damaged one is told of and left out, so that its rows count as missing.

        A table that came without task files, committed or handed on, stays as ``rows.csv.xz``, and its rows with it.
        """
        table, note = self.folder / "rows.csv", self.folder / "tasks" / ".merged"
        with self._locked(_MERGE, fcntl.LOCK_EX):
            sweep_abandoned(self.folder)
            files = list(task_files(self.folder))
            if not files:
                return self._without_tasks()
            state = self._state(files)  # before reading: a later change will show
            known, digest = _merged(self.folder)
            found = _digest_of_table(table)
            if known == state and found == digest:
                with suppress(DamagedError):  # who changed the table may have changed the note
                    return read_rows(table)
            damaged: list[DamagedError] = []
            rows = _merged_rows(self.folder, damaged.append, files)
            for error in damaged[:_TOLD]:
                tell(
                    f"kmdr: {error}; what was in it is left out and done again when it is asked for; "
                    f"'kmdr check {self.folder} --repair' removes the file"
                )
            if len(damaged) > _TOLD:
                tell(f"kmdr: so are {len(damaged) - _TOLD} more; 'kmdr check {self.folder}' names each")
            merged = csv_content(rows, table)
            if _digest([merged]) != found:
                remove_file(self.folder, note)  # it would tell those who read now that the new table is damaged
                write_file(self.folder, table, merged)
            if not damaged:  # else it is to be reported each time
                write_file(self.folder, note, note_of(state, merged))
        return rows

    @contextmanager
    def taking_in(self) -> Iterator[Callable[[Sequence[Mapping[str, str]]], None]]:
        """Hold the table, and yield a function that puts another in its place, which is to have all of its rows.

        It becomes ``rows.csv.xz``, so that the task files stay as they are; `merge` makes ``rows.csv`` of both.
        """

        def put(rows: Sequence[Mapping[str, str]]) -> None:
            content = csv_content(rows, self.folder / "rows.csv")
            _pack(content, self.folder / _PACKED, preset=1)  # minutes less for 100 000 rows
            if not any(task_files(self.folder)):
                write_file(self.folder, "rows.csv", content)

        with self._locked(_MERGE, fcntl.LOCK_EX):
            sweep_abandoned(self.folder)
            yield put

    def _without_tasks(self) -> list[TextRow]:
        """Return the rows of a table without task files, which the first merge of some would replace: it is packed."""
        if not has_file(self.folder, "rows.csv"):
            return list(_rows_at(self.folder, _PACKED))
        try:
            rows = _handed_on(self.folder)
        except DamagedError as error:
            raise UserError(f"{error}; move it away or use another out folder") from error
        _pack(csv_content(rows, self.folder / "rows.csv"), self.folder / _PACKED)
        return rows

    def _state(self, files: Iterable[Path]) -> str:
        """Return a hash of the files as they are, and of the code that decides between two rows of one trial."""
        stamps, code = [], set()
        configs = configs_of(self.folder)[0]
        packed_table = self.folder / _PACKED
        for file in [*files, packed_table]:
            status = file_status(self.folder, file)
            if status is None:  # the table is not compressed, or a file was removed meanwhile
                continue
            stamps.append((str(file.relative_to(self.folder)), status.st_ino, status.st_size, status.st_mtime_ns))
        for file in files:
            reducer, _, key = file.parts[-2].rpartition("-")
            code.add((reducer, configs.get(key, {}).get("kmeans", {}).get("engine", ""), file.parts[-3]))
        of_code = [[*each, current_code(*each, "")] for each in sorted(code)]
        return short_hash([stamps, COLUMNS, _TEXTS, of_code, [*map(origin_of_root, guests())]])


def _content(folder: Path, path: Path | str) -> bytes:
    """Return the bytes of a file of a folder; nothing where there is none, or it is not one that kmdr wrote."""
    try:
        return read_file(folder, path, most_bytes()) or b""
    except DamagedError:
        return b""


def _rank(row: Mapping[str, str], current: Callable[[str, str, str, str], str]) -> tuple[bool, bool, int]:
    return row["status"] != "ok", _is_stale(row, current), int(row["concurrency"])


def older_settings(folder: Path, known: Iterable[tuple[str, str]]) -> dict[str, dict[str, str]]:
    """Return what configurations say in columns that came later, for rows that were written without them.

    Parameters
    ----------
    folder : Path
    known : iterable of (str, str)
        ``config_hash`` and ``engine``, as rows have them; those without an engine are older.

    Returns
    -------
    dict
        By ``config_hash``; only of older rows whose configuration is there.
    """
    older = {key for key, engine in known if not engine}
    configs = configs_of(folder)[0] if older else {}
    return {key: settings for key in older & configs.keys() if (settings := settings_in(configs[key]))}


def _add_settings(rows: list[TextRow], folder: Path) -> None:
    """Fill the columns of settings where rows were written before there were such columns."""
    settings = older_settings(folder, {(row["config_hash"], row["engine"]) for row in rows})
    for row in rows:
        if not row["engine"] and row["config_hash"] in settings:
            for name, text in settings[row["config_hash"]].items():
                row[name] = text


def add_ratios(rows: list[TextRow]) -> int:
    """Fill ``objective_ratio`` = F/F_best, empty where F_best is 0; return how many rows had another."""
    changed = 0
    smallest: dict[tuple[str, str], float] = {}
    for row in rows:
        if row["objective"]:
            key = (row["data_sha256"], row["k"])
            smallest[key] = min(smallest.get(key, float("inf")), float(row["objective"]))
    for row in rows:
        least = smallest.get((row["data_sha256"], row["k"]), 0.0)
        ratio = repr(float(row["objective"]) / least) if row["objective"] and least > 0 else ""
        if row["objective_ratio"] != ratio:
            row["objective_ratio"] = ratio
            changed += 1
    return changed
