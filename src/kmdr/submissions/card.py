"""The card of a submission, ``card.json``: who submits what, and the hash of every file.

A submission is a folder of results with at most these files::

    card.json                      the card, with its own checksum
    rows.csv.xz                    all rows
    configs.jsonl                  the configuration of each config_hash
    environments/<hash>.json       the environment of each env_hash
    labels/<path of a task>.npz    the clusters of the points, of rows whose run kept them

Only name, method, author and licence are the submitter's word. All other entries follow from the files, and
`read_card` computes them again, so a card cannot state other methods, commands or plugins than its rows.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from kmdr.base.errors import UserError, shown
from kmdr.base.text import canonical
from kmdr.results.checksums import sha256_hex, without_json_checksum
from kmdr.results.commands import command_of
from kmdr.results.folder import MOST_BYTES, list_files, read_file
from kmdr.results.paths import COMPRESSED_TABLE, CONFIGS
from kmdr.results.untrusted_text import display_text

CARD = "card.json"
FORMAT = "kmdr submission 1"
# The entries that the submitter writes, and those that others write later.
STATED = ("name", "method", "author", "licence")
VERIFICATION = "verification"
# Bytes of a card, and of all files together.
_MOST_CARD = 1 << 22
MOST_TOTAL = 1 << 25
_MOST_FILES = 10_000
_MOST_TEXT = 200
_NAME = re.compile(r"[a-z0-9]+([_-][a-z0-9]+)*")
# Names that some file systems reserve.
_RESERVED = re.compile(r"con|prn|aux|nul|(com|lpt)\d")
_FILES = re.compile(
    rf"{re.escape(COMPRESSED_TABLE)}|{re.escape(CONFIGS)}|environments/[0-9a-f]{{12}}\.json|labels/.+\.npz"
)

Card = dict[str, Any]


def checked_name(name: str) -> str:
    """Return the name of a submission, which becomes a folder on any file system."""
    if len(name) > 50 or not _NAME.fullmatch(name) or _RESERVED.fullmatch(name):
        raise UserError(
            f"NAME = {shown(name)} cannot be the name of a submission; give at most 50 lower-case letters, digits, '-' "
            "and '_', e.g. NAME=my-method"
        )
    return name


def checked_text(what: str, text: str) -> str:
    """Return a text of the submitter's for the card: one line of at most 200 characters, all shown as themselves."""
    if len(text) > _MOST_TEXT or display_text(text) != text or not text.isprintable():
        raise UserError(
            f"{what} = {shown(text)} is not one line of at most {_MOST_TEXT} printable characters; shorten it"
        )
    return text


# -- what follows from the files -------------------------------------------------------------------------------------


def _methods(rows: Iterable[Mapping[str, str]]) -> list[dict[str, Any]]:
    methods: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in rows:
        key = (row["reducer"], row["engine"], row["params"])
        method = methods.setdefault(
            key,
            {
                "reducer": key[0],
                "engine": key[1],
                "params": json.loads(key[2]),
                "rows": 0,
                "code": set(),
                "plugins": set(),
            },
        )
        method["rows"] += 1
        method["code"].add(row["code_hash"])
        method["plugins"] |= set(filter(None, row["guests"].split("; ")))
    return [
        method | {"code": sorted(method["code"]), "plugins": sorted(method["plugins"])}
        for _, method in sorted(methods.items())
    ]


def _datasets(rows: Iterable[Mapping[str, str]]) -> list[dict[str, Any]]:
    names = ("dataset", "options", "data_sha256", "n", "d", "k", "stand_in")
    datasets = sorted({tuple(row[name] for name in names) for row in rows})
    return [
        dict(zip(names, values, strict=True)) | {name: int(values[names.index(name)]) for name in ("n", "d", "k")}
        for values in datasets
    ]


def _commands(rows: Iterable[Mapping[str, str]]) -> list[str]:
    configs: dict[str, tuple[Mapping[str, str], set[int], int]] = {}
    for row in rows:
        first, sizes, repeats = configs.get(row["config_hash"], (row, set(), 0))
        configs[row["config_hash"]] = first, sizes | {int(row["r"])}, max(repeats, int(row["repeat"]) + 1)
    commands = (command_of(row, sorted(sizes), repeats) for row, sizes, repeats in configs.values())
    return sorted(set(commands))


def derived(rows: Sequence[Mapping[str, str]], files: Mapping[str, bytes]) -> Card:
    """Return the entries of a card that follow from its rows and files."""
    return {
        "format": FORMAT,
        "rows": len(rows),
        "failed": sum(row["status"] != "ok" for row in rows),
        "versions": sorted({row["code_version"] for row in rows}),
        "methods": _methods(rows),
        "datasets": _datasets(rows),
        "commands": _commands(rows),
        "labels": sum(name.startswith("labels/") for name in files),
        "files": {
            name: {"sha256": sha256_hex(content), "bytes": len(content)} for name, content in sorted(files.items())
        },
    }


def identity(card: Card) -> str:
    """Return a hash of a card without the outcome of its check, which states this hash."""
    return sha256_hex(canonical({name: value for name, value in card.items() if name != VERIFICATION}).encode())


# -- reading ---------------------------------------------------------------------------------------------------------


def names_in(folder: Path) -> list[str]:
    """Return the names of all files of a submission except the card.

    Links, hidden files, and all other files that no submission has are refused.
    """
    names = []
    for path in islice(list_files(folder, hidden=True), _MOST_FILES + 1):
        name = path.relative_to(folder).as_posix()
        if name != CARD:
            if not _FILES.fullmatch(name) or not name.isprintable():
                raise UserError(f"{folder} has {shown(name)}, which is not a file of a submission; remove it")
            names.append(name)
    if len(names) >= _MOST_FILES:
        raise UserError(f"{folder} has more than {_MOST_FILES} files; split it into several submissions")
    return names


def read_files(folder: Path) -> dict[str, bytes]:
    """Return the contents of a submission's files except the card, which take a limited number of bytes together."""
    files, left = {}, MOST_TOTAL
    for name in names_in(folder):
        content = read_file(folder, name, min(left, MOST_BYTES))
        if content is None:
            raise UserError(f"{folder / name} was removed while it was read; try again")
        left -= len(content)
        files[name] = content
    return files


def stated_card(folder: Path) -> Card:
    """Return the card of a submission after checking its form, its checksum and what the submitter wrote."""
    content = read_file(folder, CARD, _MOST_CARD)
    if content is None:
        raise UserError(f"{folder} has no {CARD}; 'kmdr submit DIR' makes a submission of a folder of results")
    remedy = "make it again by 'kmdr submit'"
    try:
        card = without_json_checksum(content)
    except ValueError as error:
        raise UserError(f"{folder / CARD} is not a card ({display_text(str(error))[:100]}); {remedy}") from error
    if card.get("format") != FORMAT or not all(isinstance(card.get(name), str) for name in STATED):
        raise UserError(f"{folder / CARD} is not a card of the form {FORMAT!r} with {', '.join(STATED)}; {remedy}")
    checked_name(card["name"])
    for name in STATED[1:]:
        checked_text(name, card[name])
    return card


def check_card(folder: Path, card: Card, rows: Sequence[Mapping[str, str]], files: Mapping[str, bytes]) -> None:
    """Refuse a card that states anything else than its files hold."""
    expected = derived(rows, files)
    if unknown := sorted(card.keys() - expected.keys() - {*STATED, VERIFICATION}):
        raise UserError(
            f"{folder / CARD} has the entry {shown(unknown[0])}, which no card has; remove it by 'kmdr submit'"
        )
    for name, value in expected.items():
        if card.get(name) != value:
            what = f"its {name}" if name != "files" else _file_difference(card.get(name), value)
            raise UserError(
                f"{folder / CARD} does not describe the files of {folder}: {what} differ; run 'kmdr submit' again"
            )


def _file_difference(stated: Any, files: Mapping[str, Any]) -> str:
    stated = stated if isinstance(stated, dict) else {}
    names = [name for name in sorted({*stated, *files}) if stated.get(name) != files.get(name)]
    return f"the hashes of {', '.join(map(shown, names[:3]))}"
