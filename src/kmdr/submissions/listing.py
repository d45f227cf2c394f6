"""The accepted submissions of a folder, with their status."""

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

from kmdr.base.errors import UserError
from kmdr.base.text import single_line, tell
from kmdr.results.checksums import sha256_hex
from kmdr.results.folder import file_status, read_file
from kmdr.results.paths import COMPRESSED_TABLE
from kmdr.results.table import rows_file
from kmdr.submissions.card import CARD, STATED, VERIFICATION, identity, stated_card

SUBMITTED = "submitted"  # name of the folder of submissions, next to other results
UNCHECKED = "as reported"
STATUSES = ("verified", "consistent", UNCHECKED)


class Submission(NamedTuple):
    """An accepted submission. Its texts are a stranger's: one printable line each, to be escaped where they are shown.

    `folder` is a folder of results, with the table of its rows; `reason` says why `status`, one of `STATUSES`, is not
    *verified*.
    """

    folder: Path
    name: str
    method: str
    author: str
    licence: str
    status: str
    reason: str
    rows: int


def submission(folder: Path) -> Submission | None:
    """Return an accepted submission; None if it was not accepted, or if the card or the rows changed since."""
    card = stated_card(folder)
    check = card.get(VERIFICATION)
    if not isinstance(check, dict) or check.get("status") not in STATUSES or check.get("card") != identity(card):
        return None
    if rows_file(folder).name != COMPRESSED_TABLE:  # a newer table, which the card does not state, would be read
        return None
    table = read_file(folder, COMPRESSED_TABLE) or b""
    stated_file = {"sha256": sha256_hex(table), "bytes": len(table)}
    files, rows = card.get("files"), card.get("rows")  # missing if somebody else wrote the outcome
    if not isinstance(files, dict) or files.get(COMPRESSED_TABLE) != stated_file or not isinstance(rows, int):
        return None
    if folder.name != card["name"]:
        return None
    stated = {name: card[name] for name in STATED}
    return Submission(
        folder, **stated, status=check["status"], reason=single_line(str(check.get("reason", ""))), rows=rows
    )


def _folders(folder: Path) -> list[Path]:
    """Return the folders that may be submissions, by name."""
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    return [path for path in paths if path.is_dir() and not path.is_symlink() and not path.name.startswith(".")]


def submissions_digest(folder: Path) -> str:
    """Return the SHA-256 of the cards and tables in a folder of submissions, accepted or not."""
    digest = hashlib.sha256()
    for path in _folders(folder):
        for name in (CARD, COMPRESSED_TABLE):
            try:
                content = read_file(path, name) or b""
            except UserError as error:  # the report says so
                content = str(error).encode()
            digest.update(os.fsencode(path.name) + f"\0{name}\0{sha256_hex(content)}\0".encode())
    return digest.hexdigest()


def submissions(folder: Path) -> list[Submission]:
    """Return the accepted submissions in a folder such as ``results/submitted``, by name; damaged ones are reported."""
    accepted = []
    for path in _folders(folder):
        try:
            if file_status(path, CARD) is not None and (listed := submission(path)):
                accepted.append(listed)
        except UserError as error:
            tell(f"kmdr: warning: {error}")
    return accepted
