"""``kmdr submit DIR``: check a folder of results and pack it as a submission."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from kmdr.base.errors import UserError
from kmdr.base.files import temporary_folder, writing
from kmdr.base.text import announce, counted, single_line, tell
from kmdr.results.check import faults
from kmdr.results.checksums import checked_content, sha256_hex
from kmdr.results.folder import list_files, require_file, write_file
from kmdr.results.labels import MOST_LABELS
from kmdr.results.manifests import config_line, read_configs
from kmdr.results.outdated import mixed_code
from kmdr.results.packed import pack
from kmdr.results.paths import COMPRESSED_TABLE, CONFIGS, TABLE, place
from kmdr.results.store import refuse_runs
from kmdr.results.table import all_rows, table_digest
from kmdr.results.text_rows import csv_content
from kmdr.submissions.card import CARD, MOST_TOTAL, checked_name, checked_text, derived


def place_of_labels(name: str) -> str:
    """Return `kmdr.results.paths.place` of the rows that a file of labels belongs to."""
    return f"tasks/{name.removeprefix('labels/')}".rpartition("-")[0]


def packed_files(
    folder: Path, rows: Sequence[Mapping[str, str]], *, labels: bool = True, compressed: bool = True
) -> dict[str, bytes]:
    """Return the files of a submission by name, without its card; the same results give the same bytes.

    The table is plain unless it is to be compressed.
    """
    table = csv_content(rows, folder / TABLE)
    if compressed:
        table = pack(table)
    configs, _ = read_configs(folder)
    used = sorted({row["config_hash"] for row in rows} & configs.keys())
    files = {
        COMPRESSED_TABLE: table,
        CONFIGS: b"".join(config_line(key, configs[key]) + b"\n" for key in used),
    }
    for key in sorted({row["env_hash"] for row in rows}):
        name = f"environments/{key}.json"
        files[name] = require_file(folder, name)
    places = {place(row) for row in rows}
    for path in list_files(folder, "labels") if labels else ():
        name = path.relative_to(folder).as_posix()
        if path.suffix == ".npz" and place_of_labels(name) in places:
            files[name] = require_file(folder, name, MOST_LABELS)
    return files


def check_packing(folder: Path, rows: Sequence[Mapping[str, str]], files: Mapping[str, bytes]) -> None:
    """Refuse a submission with files, configurations, rows or an order of rows that `packed_files` would not give."""
    expected = packed_files(folder, rows, compressed=False)
    for name, content in expected.items():
        known = table_digest(folder / name) if name == COMPRESSED_TABLE else sha256_hex(files.get(name, b""))
        if known != sha256_hex(content):
            raise UserError(f"{folder / name} is not as 'kmdr submit' packs it; make the submission again")
    if more := sorted(files.keys() - expected.keys()):
        raise UserError(f"{folder / more[0]} belongs to no row; remove it")


def refuse_mixed_code(folder: Path, rows: Sequence[Mapping[str, str]]) -> None:
    """Refuse rows of a method on one dataset that are of several versions of its code: no version has their mean."""
    if sentences := mixed_code(row for row in rows if row["status"] == "ok"):
        raise UserError(f"{folder} cannot be submitted: {single_line(sentences[0])}")


def _default_name(folder: Path) -> str:
    return re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-")[:50].strip("-")


def submit(
    folder: Path,
    out: Path,
    name: str = "",
    method: str = "",
    author: str = "",
    licence: str = "",
    *,
    labels: bool = True,
) -> Path:
    """Pack a folder of results, which is only read, as a submission ``out/name``, which appears complete or not at all.

    Raise `UserError` for a folder with a fault, without a finished trial, with rows of several versions of a method's
    code, or with files that are too large together; for a text that is not valid; and if the target exists.
    """
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder} to submit; name a folder of results")
    refuse_runs(folder, "submit")
    if damaged := faults(folder):
        raise UserError(
            f"{folder} has {counted(len(damaged), 'fault')}, the first: {single_line(damaged[0].sentence)}; "
            f"'kmdr check {folder}' lists all"
        )
    rows = all_rows(folder)
    if not any(row["status"] == "ok" for row in rows):
        raise UserError(f"{folder} has no finished trial to submit; run one into it first")
    refuse_mixed_code(folder, rows)
    methods = sorted({row["reducer"] for row in rows} - {"none"}) or ["none"]
    stated = {
        "name": checked_name(name or _default_name(folder)),
        "method": checked_text("METHOD", method or ", ".join(methods)[:200]),
        "author": checked_text("AUTHOR", author),
        "licence": checked_text("LICENCE", licence),
    }
    files = packed_files(folder, rows, labels=labels)
    if (size := sum(map(len, files.values()))) > MOST_TOTAL:
        kept = "; --no-labels leaves the labels out" if any(n.startswith("labels/") for n in files) else ""
        raise UserError(f"the files of {folder} take {size} bytes, more than the limit of {MOST_TOTAL}{kept}")
    card = {**stated, **derived(rows, files), "verification": None}
    target = out / stated["name"]
    if target.exists() or target.is_symlink():
        raise UserError(f"{target} already exists; give another NAME=…, or remove it")
    with writing(target):
        out.mkdir(parents=True, exist_ok=True)
        with temporary_folder(out) as temporary:
            made = temporary / stated["name"]
            for file, content in {**files, CARD: checked_content(card)}.items():
                write_file(made, file, content)
            made.rename(target)
    return target


def run(folder: Path, out: Path, name: str, method: str, author: str, licence: str, labels: bool) -> None:
    """Pack a folder of results as a submission, and say what the card states and what to do with it."""
    target = submit(folder, out, name, method, author, licence, labels=labels)
    card = json.loads((target / CARD).read_bytes())
    announce(
        f"{target}: {counted(card['rows'], 'row')} of {counted(len(card['methods']), 'method')}, "
        f"{counted(card['labels'], 'file')} of labels; 'kmdr accept {target}' does what a reviewer does"
    )
    for what in ("author", "licence"):
        if not card[what]:
            tell(f"kmdr: warning: the card says no {what}; --{what} states one")
