"""Where each file of a results folder lies.

::

    OUT/rows.csv                      all rows as one table; committed results have rows.csv.xz
    OUT/tasks/<study>/<dataset>/<reducer>-<config hash>/<repetition>-<hash of the r-grid>.csv
    OUT/tasks/.merged                 hash of the task files that rows.csv was made from, and SHA-256 of rows.csv
    OUT/labels/<path as in tasks>.npz with keep_labels=true: the cluster of each point, for every row of the task file
    OUT/configs.jsonl                 one line per configuration (``config_hash`` of a row)
    OUT/environments/<hash>.json      one file per environment (``env_hash`` of a row)
    OUT/runs.jsonl                    one line per run: end, duration, time outside the trials
    OUT/asked.json                    configurations of the last run of each study
    OUT/universes.json                universes of papers that were run
    OUT/plan.json, missing.json       planned repetitions; unavailable datasets and the reasons
    OUT/shards.json                   finished parts of a plan that was split by ``kmdr shard``
    OUT/facts/<name>.csv, .from       a table computed from data; hash of its inputs and its SHA-256
    OUT/multiverse/, OUT/atlas/       the same files for the rows of multiverses and of an atlas
    OUT/.local.json                   paths of the user's files on each machine; never exported or merged
    OUT/.lock                         one byte per lock, see `kmdr.results.store`
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from kmdr.base.errors import UserError
from kmdr.base.files import INNER
from kmdr.results.folder import has_file, list_files

TABLE = "rows.csv"
COMPRESSED_TABLE = "rows.csv.xz"
MERGED = "tasks/.merged"
CONFIGS = "configs.jsonl"
LOG = "runs.jsonl"
ASKED = "asked.json"
UNIVERSES = "universes.json"
PLAN = "plan.json"
MISSING = "missing.json"
SHARDS = "shards.json"
LOCAL = ".local.json"
# Multiverse rows have their own folder because their best F must not enter the ratios of the papers' protocols.
MULTIVERSE = INNER
# Rows of the atlas, likewise.
ATLAS = "atlas"
# The subfolders of a results folder that are results folders themselves.
PARTS = (MULTIVERSE, ATLAS)


def require_results(folder: Path) -> None:
    """Raise `UserError` if a folder has no rows."""
    if not has_rows_in(folder):
        raise UserError(f"{folder} has neither task files nor a table of rows; name a folder of results")


def has_rows_in(folder: Path, part: str = "") -> bool:
    """Return True if a folder, or a part such as ``multiverse/`` in it, has task files or a table of rows."""
    return any(has_file(folder, f"{part}{name}") for name in ("tasks", TABLE, COMPRESSED_TABLE))


def task_files(folder: Path) -> Iterator[Path]:
    """Yield the task files of a folder; links are not followed."""
    depth = len(folder.parts) + 5
    return (path for path in list_files(folder, "tasks") if len(path.parts) == depth and path.suffix == ".csv")


def labels_file(folder: Path, task_file: Path) -> Path:
    """Return the path of the labels that belong to a task file."""
    return (folder / "labels" / task_file.relative_to(folder / "tasks")).with_suffix(".npz")


def _component(name: str) -> str:
    """Return a name as a single path component, special characters in hexadecimal."""
    return re.sub(r"[/%\0]|^\.", lambda character: f"%{ord(character[0]):02X}", name)


def place(row: Mapping[str, str]) -> str:
    """Return the path of a row's task file within the folder, up to the hash of the r-grid."""
    where = "/".join(("tasks", _component(row["study"]), _component(row["dataset"]), _component(row["reducer"])))
    return f"{where}-{row['config_hash']}/{int(row['repeat']):04d}"


def multiverse_folder(folder: Path) -> Path:
    """Return the folder with the rows of multiverses: the subfolder `MULTIVERSE`, or the folder itself."""
    return folder / MULTIVERSE if has_file(folder, f"{MULTIVERSE}/{UNIVERSES}") else folder


def parts_of(folder: Path) -> list[Path]:
    """Return a results folder and its subfolders, for multiverses and the atlas, that have task files or a table.

    Raise `DamagedError` if one of them is a link.
    """
    return [folder, *(folder / name for name in PARTS if has_rows_in(folder, f"{name}/"))]
