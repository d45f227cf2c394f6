"""Is a folder of results what runs wrote? ``kmdr check DIR [--repair]``: a line a fault, and what can be made again.

Every file that rows rest on is read: task files and labels against their checksums and their names, configurations and
environments against the hashes that they are named by, notes and log against their seals, the table against the task
files or, where these are not kept, against its own checksum and values, and facts against the notes beside them.
Figures, tables and the report are made of these by ``kmdr report DIR``, and are not read.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kmdr.base.errors import UserError
from kmdr.base.files import DamagedError, noted
from kmdr.base.provenance import environment
from kmdr.base.text import one_line, short_hash
from kmdr.results.folder import has_file, is_link, list_files, read_file, read_json, remove_file, require_file
from kmdr.results.labels import read_labels
from kmdr.results.shards import SHARDS
from kmdr.results.store import (
    ASKED,
    CONFIGS,
    LOG,
    UNIVERSES,
    Store,
    add_ratios,
    configs_of,
    described,
    is_merged,
    json_files,
    log_lines,
    mixed_code,
    multiverse_folder,
    read_rows,
    read_task,
    row_check,
    rows_in,
    task_files,
)


class Fault(NamedTuple):
    """What is wrong with a file, and whether a run or a merge makes it again once it is removed."""

    path: Path
    sentence: str
    again: bool


def _damage(path: Path, read: Callable[[], object], again: bool = True) -> Iterator[Fault]:
    """Yield what is wrong with a file by what reading it raises."""
    try:
        read()
    except UserError as error:
        yield Fault(path, str(error), again and isinstance(error, DamagedError))


def _links(folder: Path) -> Iterator[Fault]:
    for path in list_files(folder):
        if is_link(folder, path):
            sentence = f"{path} is a link, which kmdr does not follow; put the file or folder itself there"
            yield Fault(path, sentence, bool(path.suffix))  # the link to a folder may be somebody's other disk


def _tasks(folder: Path) -> Iterator[Fault]:
    for path in task_files(folder):
        yield from _damage(path, lambda path=path: read_task(folder, path))  # type: ignore[misc]


def of_labels(folder: Path) -> Iterator[Fault]:
    """Yield which files of labels are damaged."""

    def read(path: Path) -> None:
        task_file = (folder / "tasks" / path.relative_to(folder / "labels")).with_suffix(".csv")
        rows = read_task(folder, task_file) if has_file(folder, task_file) else []
        sizes = {int(row["r"]): int(row["n"]) for row in rows}
        if any(rows and sizes.get(r) != len(of_r) for r, of_r in read_labels(folder, path)):
            raise DamagedError(f"{path} is damaged: its labels are not those of {task_file}")

    for path in (path for path in list_files(folder, "labels") if path.suffix == ".npz"):
        yield from _damage(path, lambda path=path: read(path))  # type: ignore[misc]


def _tables(folder: Path) -> Iterator[Fault]:
    plain, compressed = folder / "rows.csv", folder / "rows.csv.xz"
    files = list(task_files(folder))
    if files and not is_merged(folder):
        yield Fault(plain, f"{plain} is not the table of the task files; a run or --repair makes it again", True)
    for table in (plain, compressed):
        if has_file(folder, table) and not (files and table == plain):
            yield from _rows(folder, table)


def _rows(folder: Path, table: Path) -> Iterator[Fault]:
    check = row_check(folder)
    try:
        rows = read_rows(table, check)
    except UserError as error:
        yield Fault(table, str(error), False)
        return
    for sentence in check.sentences(table):
        yield Fault(table, sentence, False)
    if not check.refused and (changed := add_ratios(rows)):
        yield Fault(table, f"{table} has {changed} rows whose objective_ratio is not F over the least F", False)


def _described(folder: Path) -> Iterator[Fault]:
    rows = rows_in(folder)
    known, damaged = configs_of(folder)
    for path, sentence in damaged.items():
        yield Fault(path, sentence, True)
    for key in sorted({row["config_hash"] for row in rows} - known.keys()):
        if not damaged:  # else it may be what is damaged
            yield from _damage(folder / CONFIGS, lambda key=key: described(folder, "configs", key), True)  # type: ignore[misc]
    here = short_hash(environment())
    files = {path.stem for path in json_files(folder, "environments")}
    for key in sorted(files | {row["env_hash"] for row in rows}):
        path = folder / "environments" / f"{key}.json"
        yield from _damage(path, lambda key=key: described(folder, "environments", key), key == here)  # type: ignore[misc]


def _notes(folder: Path) -> Iterator[Fault]:
    for path in (folder / name for name in (ASKED, UNIVERSES, SHARDS, "plan.json", "missing.json")):
        yield from _damage(path, lambda path=path: read_json(folder, path))  # type: ignore[misc]
    yield from _damage(folder / LOG, lambda: log_lines(folder), again=False)


def of_facts(folder: Path) -> Iterator[Fault]:
    """Yield which facts are not what the notes beside them say."""

    def read(path: Path) -> None:
        digest = noted(read_file(folder, path.with_suffix(".from")))[1]
        if digest not in ("", hashlib.sha256(require_file(folder, path)).hexdigest()):
            raise DamagedError(
                f"{path} is damaged: it is not what its note says; 'kmdr reproduce OUT={folder}' computes it "
                "again if its data are available"
            )

    for path in (path for path in list_files(folder, "facts") if path.suffix == ".csv"):
        yield from _damage(path, lambda path=path: read(path))  # type: ignore[misc]


def faults(folder: Path) -> list[Fault]:
    """Return what is wrong with a folder of results; nothing is written.

    Raises
    ------
    UserError
        When it is no folder of results.
    """
    if not any(has_file(folder, name) for name in ("tasks", "rows.csv", "rows.csv.xz")):
        raise UserError(f"{folder} has neither task files nor a table of rows; name a folder of results")
    return list(_links(folder)) or [
        *_tasks(folder),
        *of_labels(folder),
        *_tables(folder),
        *_described(folder),
        *_notes(folder),
        *of_facts(folder),
    ]


def repair(folder: Path, what: Sequence[Fault]) -> None:
    """Remove the files of some faults that are made again, and make again what needs no run."""
    for fault in what:
        if fault.again and (fault.path.name != CONFIGS or is_link(folder, fault.path)):
            remove_file(folder, fault.path)
    store = Store(folder)
    store.add_configs([])
    manifest = environment()
    if any(row["env_hash"] == short_hash(manifest) for row in store.merge()):
        store.add_environment(manifest)


def run(folder: Path, *, repairs: bool = False) -> int:
    """Print every fault of a results folder, and repair them if asked; return 1 if there was a fault, else 0."""
    status = 0
    for place in dict.fromkeys((folder, multiverse_folder(folder))):
        wrong = faults(place)
        for fault in wrong:
            print(one_line(fault.sentence))  # a file's name may be anything
        if not wrong:
            print(f"{place}: no fault")
            for sentence in mixed_code(row for row in rows_in(place) if row["status"] == "ok"):
                print(one_line(f"{sentence}."))
            continue
        status = 1
        if repairs:
            repair(place, wrong)
            removed = sum(fault.again for fault in wrong)
            print(
                f"{place}: {removed} of {len(wrong)} files removed; the commands that made them do what is lost again"
            )
    return status
