"""The accepted submissions of a folder, with their stamps."""

from pathlib import Path
from typing import NamedTuple

from kmdr.base.errors import UserError
from kmdr.base.text import tell
from kmdr.results.folder import file_status, read_file
from kmdr.results.paths import COMPRESSED_TABLE
from kmdr.submissions.card import CARD, STAMP, STATED, identity, sha256, stated_card

STAMPS = ("verified", "consistent", "as reported")


class Submission(NamedTuple):
    """An accepted submission. Its texts are a stranger's: one printable line each, to be escaped where they are shown.

    Attributes
    ----------
    folder : Path
        A folder of results, with the table of its rows.
    name, method, author, licence : str
    stamp : str
        One of `STAMPS`.
    reason : str
        Why it is not *verified*.
    rows : int
    """

    folder: Path
    name: str
    method: str
    author: str
    licence: str
    stamp: str
    reason: str
    rows: int


def submission(folder: Path) -> Submission | None:
    """Return an accepted submission; None if it has no stamp, or if the card or the rows changed since.

    Raises
    ------
    UserError
        If there is no valid card.
    """
    card = stated_card(folder)
    stamp = card.get(STAMP)
    if not isinstance(stamp, dict) or stamp.get("stamp") not in STAMPS or stamp.get("card") != identity(card):
        return None
    table = read_file(folder, COMPRESSED_TABLE) or b""
    if folder.name != card["name"] or card["files"].get(COMPRESSED_TABLE, {}).get("sha256") != sha256(table):
        return None
    stated = {name: card[name] for name in STATED}
    return Submission(folder, **stated, stamp=stamp["stamp"], reason=str(stamp.get("reason", "")), rows=card["rows"])


def submissions(folder: Path) -> list[Submission]:
    """Return the accepted submissions in a folder such as ``results/submitted``, by name; damaged ones are reported."""
    found = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        try:
            is_folder = path.is_dir() and not path.is_symlink() and not path.name.startswith(".")
            status = file_status(path, CARD) if is_folder else None
            if status and (accepted := submission(path)):
                found.append(accepted)
        except UserError as error:
            tell(f"kmdr: {error}")
    return found
