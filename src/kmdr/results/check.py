"""``kmdr check DIR [--repair]``: check that every file of a results folder is what a run wrote; one line per fault.

It reads every file that rows rest on: task files and labels (against their checksums and paths), configurations and
environments (against their hashes), JSON files and log (against their checksums), the table (against the task files or,
without these, its own checksum and values), and facts (against their checksums, and whether they are tables). Figures,
tables and the report, which ``kmdr report DIR`` makes, are not read.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from kmdr.base.errors import UserError
from kmdr.base.files import DamagedError
from kmdr.base.provenance import environment
from kmdr.base.text import counted, short_hash, single_line
from kmdr.results.folder import has_file, is_link, list_contents, list_files, remove_file, unread_files
from kmdr.results.json_files import SCHEMAS, read_json
from kmdr.results.labels import read_labels
from kmdr.results.manifests import described, json_files, log_lines, read_configs
from kmdr.results.outdated import mixed_code
from kmdr.results.paths import (
    COMPRESSED_TABLE,
    CONFIGS,
    LOCAL,
    LOG,
    TABLE,
    parts_of,
    require_results,
    task_files,
)
from kmdr.results.reader import fact_texts, read_rows, read_task
from kmdr.results.row_check import RowCheck
from kmdr.results.store import Store, is_in_use
from kmdr.results.table import content_or_nothing, is_merged, rows_in
from kmdr.results.text_rows import add_ratios


class FileFault(NamedTuple):
    """A fault of a file, and whether ``--repair`` removes the file because a run or merge writes it again."""

    path: Path
    sentence: str
    is_removable: bool


def _fault(path: Path, read: Callable[[], object], is_removable: bool = True) -> Iterator[FileFault]:
    """Yield the error that reading a file raises, if any, as a fault."""
    try:
        read()
    except UserError as error:
        yield FileFault(path, str(error), is_removable and isinstance(error, DamagedError))


def _link_faults(folder: Path) -> Iterator[FileFault]:
    for path in list_files(folder):
        if is_link(folder, path):
            sentence = f"{path} is a link, which kmdr does not follow; put the file or folder itself there"
            yield FileFault(path, sentence, bool(path.suffix))  # a link to a folder may be the user's other disk


def label_faults(folder: Path) -> Iterator[FileFault]:
    """Yield the faults of label files."""

    def read(path: Path) -> None:
        task_file = (folder / "tasks" / path.relative_to(folder / "labels")).with_suffix(".csv")
        rows = read_task(folder, task_file) if has_file(folder, task_file) else []
        sizes = {int(row["r"]): int(row["n"]) for row in rows}
        if any(rows and sizes.get(r) != len(labels) for r, labels in read_labels(folder, path)):
            raise DamagedError(f"{path} is damaged: its labels do not belong to {task_file}")

    for path in (path for path in list_files(folder, "labels") if path.suffix == ".npz"):
        yield from _fault(path, partial(read, path))


def _table_faults(folder: Path) -> Iterator[FileFault]:
    plain = folder / TABLE
    files = list(task_files(folder))
    if files and not is_merged(folder):
        yield FileFault(plain, f"{plain} is not the table of the task files; a run or --repair makes it again", True)
    for table in (plain, folder / COMPRESSED_TABLE):
        if has_file(folder, table) and not (files and table == plain):
            yield from _row_faults(folder, table)


def _row_faults(folder: Path, table: Path) -> Iterator[FileFault]:
    check = RowCheck(folder)
    try:
        rows = read_rows(table, check)
    except UserError as error:
        yield FileFault(table, str(error), False)
        return
    for sentence in check.sentences(table):
        yield FileFault(table, sentence, False)
    if not check.refused and (changed := add_ratios(rows)):
        yield FileFault(
            table, f"{table} has {counted(changed, 'row')} whose objective_ratio is not F over the least F", False
        )


def _manifest_faults(folder: Path) -> Iterator[FileFault]:
    """Yield the faults of configurations and environments."""
    rows = rows_in(folder)
    configs, damaged = read_configs(folder)
    for path, sentence in damaged.items():
        yield FileFault(path, sentence, True)
    for key in sorted({row["config_hash"] for row in rows} - configs.keys()):
        if not damaged:  # else it may be in the damaged file
            yield from _fault(folder / CONFIGS, partial(described, folder, "configs", key), True)
    this_machine = short_hash(environment())
    files = {path.stem for path in json_files(folder, "environments")}
    for key in sorted(files | {row["env_hash"] for row in rows}):
        path = folder / "environments" / f"{key}.json"
        yield from _fault(path, partial(described, folder, "environments", key), key == this_machine)


def _json_faults(folder: Path) -> Iterator[FileFault]:
    for name in SCHEMAS:
        if name != LOCAL:
            yield from _fault(folder / name, partial(read_json, folder, name))
    yield from _fault(folder / LOG, partial(log_lines, folder), is_removable=False)


def fact_faults(folder: Path) -> Iterator[FileFault]:
    """Yield the faults of facts."""
    for path in (path for path in list_contents(folder, "facts") if path.suffix == ".csv"):
        yield from _fault(path, partial(fact_texts, folder, path))


def faults(folder: Path) -> list[FileFault]:
    """Return the faults of a results folder, which is only read; raise `UserError` if it is not a results folder."""
    require_results(folder)
    return list(_link_faults(folder)) or [
        *(
            FileFault(path, f"{path} is not read, because {path.stem} is there; --repair removes it", True)
            for path in unread_files(folder)
        ),
        *(fault for path in task_files(folder) for fault in _fault(path, partial(read_task, folder, path))),
        *label_faults(folder),
        *_table_faults(folder),
        *_manifest_faults(folder),
        *_json_faults(folder),
        *fact_faults(folder),
    ]


def repair(folder: Path, damaged: Sequence[FileFault]) -> None:
    """Remove the files of faults that a run writes again, and write again what needs no run."""
    for fault in damaged:
        if fault.is_removable and (fault.path.name != CONFIGS or not content_or_nothing(folder, fault.path)):
            remove_file(folder, fault.path)
    store = Store(folder)
    store.add_configs([])
    manifest = environment()
    if any(row["env_hash"] == short_hash(manifest) for row in store.merge()):
        store.add_environment(manifest)


def run(folder: Path, *, repairs: bool = False) -> int:
    """Print every fault of a results folder, and repair them if asked; return 1 if there was a fault, else 0."""
    status = 0
    for place in parts_of(folder):
        in_use = is_in_use(place)  # the run makes the table at its end
        damaged = [fault for fault in faults(place) if not (in_use and fault.path == place / TABLE)]
        for fault in damaged:
            print(single_line(fault.sentence))  # a file's name may be anything
        if not damaged:
            print(f"{place}: no fault{'; a run is writing it' if in_use else ''}")
            for sentence in mixed_code(row for row in rows_in(place) if row["status"] == "ok"):
                print(single_line(f"{sentence}."))
            continue
        status = 1
        if repairs:
            repair(place, damaged)
            removed = sum(fault.is_removable for fault in damaged)
            print(
                f"{place}: {removed} of {counted(len(damaged), 'file')} removed; the commands that made them write "
                "them again"
            )
    return status
