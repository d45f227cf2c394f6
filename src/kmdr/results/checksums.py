"""The checksums of a results folder's files. Only this module writes and checks them.

A file has one SHA-256. Its place depends on the format:

* Task files and labels: the last line, ``# sha256 …``. CSV readers skip it as a comment, and `numpy.load` ignores it.
* JSON objects, each a file or a line of ``runs.jsonl``: the last entry, ``"sha256"``, because JSON has no comments.
* ``rows.csv`` and facts: a note, which is a file of its own, because other programs read these tables as they are. It
  also has a hash of what the table was made from, so it tells whether the table is current, and for ``rows.csv`` the
  SHA-256 of the ``rows.csv.xz`` whose rows are among its own, if there was one.

Other files need none: the rows name configurations and environments by a hash of their content, and ``rows.csv.xz`` has
the SHA-256 of the xz format. Files without a checksum, as older versions wrote them, are accepted.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple

from kmdr.base.files import DamagedError
from kmdr.results.folder import MOST_BYTES, open_file, read_file, remove_file, write_file
from kmdr.results.paths import MERGED, TABLE
from kmdr.results.untrusted_text import parse_json

_LINE = b"# sha256 "
UNKNOWN = "0" * 12  # in a note: the table was made from something unknown
_MOST_INDENTED = 2**16  # characters of a JSON file


def sha256_hex(content: bytes | memoryview) -> str:
    """Return the SHA-256 of bytes in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


# -- in the last line ------------------------------------------------------------------------------------------------


def _last_line(content: bytes | memoryview) -> bytes:
    return b"%b%b\n" % (_LINE, sha256_hex(content).encode())


def with_checksum(content: bytes) -> bytes:
    """Return the content of a file with its checksum as the last line."""
    return content + _last_line(content)


def has_checksum(content: bytes) -> bool:
    """Return True if the last line of a file is a checksum, correct or not."""
    return content.startswith(_LINE, content.rfind(b"\n", 0, -1) + 1)


def verify_checksum(content: bytes, path: Path) -> int:
    """Return the length of the content of a file without the checksum in its last line, which is not copied.

    Raise `DamagedError` if the checksum is wrong.
    """
    length = len(content) - len(_last_line(b""))
    if length < 0 or content[length:] != _last_line(memoryview(content)[:length]):
        raise DamagedError(f"{path} is damaged: its content does not match its checksum")
    return length


def without_checksum(content: bytes, path: Path) -> bytes:
    """Return the content of a file without the checksum in its last line; raise `DamagedError` if that is wrong."""
    return content[: verify_checksum(content, path)]


# -- in JSON objects -------------------------------------------------------------------------------------------------


def _json_sha256(content: Mapping[str, Any]) -> str:
    return sha256_hex(json.dumps(content, ensure_ascii=False).encode())


def with_json_checksum(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON object with its checksum as the last entry."""
    return {**content, "sha256": _json_sha256(content)}


def without_json_checksum(text: str | bytes) -> dict[str, Any]:
    """Return the JSON object of a text without its checksum.

    Raises
    ------
    ValueError
        The text is not a JSON object, its checksum does not match, or the name of the checksum is damaged.
    """
    content = parse_json(text)
    if isinstance(content, dict):
        checksum = content.pop("sha256", None)
        misnamed = checksum is None and any(re.fullmatch("[0-9a-f]{64}", str(value)) for value in content.values())
        if not misnamed and checksum in (None, _json_sha256(content)):
            return content
    raise ValueError("the content does not match its checksum")


# -- in notes --------------------------------------------------------------------------------------------------------


class Note(NamedTuple):
    """The hash of what a table was made from, its SHA-256, and that of the compressed table whose rows it includes.

    All are empty without a valid note, the last one also if there was no compressed table.
    """

    made_from: str = ""
    sha256: str = ""
    included: str = ""


def note_content(made_from: str, content: bytes, included: str = "") -> bytes:
    """Return the note of a table with some content; see `write_table`."""
    return f"{made_from} {sha256_hex(content)} {included}".strip().encode() + b"\n"


def _note_path(root: Path, path: Path | str) -> str:
    """Return the path of the note of a table within a folder; empty for a file that has no note."""
    name = path if isinstance(path, str) else path.relative_to(root).as_posix()
    if name == TABLE:
        return MERGED
    return name.removesuffix(".csv") + ".from" if name.startswith("facts/") and name.endswith(".csv") else ""


def read_note(root: Path, path: Path | str) -> Note:
    """Return the note of a table within a folder."""
    name, content = _note_path(root, path), None
    with suppress(DamagedError):
        content = read_file(root, name) if name else None
    match = re.fullmatch(r"([0-9a-f]{12}) ([0-9a-f]{64})(?: ([0-9a-f]{64}))?\n", (content or b"").decode("latin-1"))
    return Note(*match.groups(default="")) if match else Note()


def check_note(file: BufferedReader, note: Note, root: Path, path: Path | str) -> None:
    """Read an open table to its end; raise `DamagedError` if it differs from its note."""
    if note.sha256 and hashlib.file_digest(file, "sha256").hexdigest() != note.sha256:
        raise DamagedError(
            f"{root / path} is damaged: it differs from its checksum; a run into the folder writes it again, or "
            f"'kmdr check {root} --repair' repairs the folder"
        )


def is_current(root: Path, path: Path | str, made_from: str) -> bool:
    """Return True if a table matches its note and was made from this; raise `DamagedError` if it cannot be read."""
    return read_note(root, path)[:2] == (made_from, _file_sha256(root, path, MOST_BYTES))


def _file_sha256(root: Path, path: Path | str, most: int) -> str:
    with open_file(root, path, most) as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if file else ""


# -- writing ---------------------------------------------------------------------------------------------------------


def checked_content(content: bytes | Mapping[str, Any]) -> bytes:
    """Return the bytes of a file with its checksum, from its plain bytes or its JSON object."""
    if isinstance(content, bytes):
        return with_checksum(content)
    entry = with_json_checksum(content)
    text = json.dumps(entry, ensure_ascii=False)
    if len(text) < _MOST_INDENTED:  # indentation may take half of a large file
        text = json.dumps(entry, indent=2, ensure_ascii=False)
    return f"{text}\n".encode()


def write_checked(root: Path, path: Path | str, content: bytes | Mapping[str, Any], mode: int = 0o666) -> None:
    """Write a file within a folder with its checksum in it; a mapping becomes a JSON object.

    ``mode`` is as in `kmdr.results.folder.write_file`.
    """
    write_file(root, path, checked_content(content), mode)


def write_table(root: Path, path: Path | str, content: bytes, made_from: str = UNKNOWN, included: str = "") -> None:
    """Write a table with a note, unless its content is the same.

    ``made_from`` is a hash of 12 digits; by default the table is not current for any. ``included`` is the SHA-256 of
    the compressed table whose rows it includes.
    """
    note = _note_path(root, path)
    before, sha256 = "", sha256_hex(content)
    with suppress(DamagedError):
        before = _file_sha256(root, path, len(content))
    if before != sha256:
        remove_file(root, note)  # a killed process must not leave a note that contradicts the table
        write_file(root, path, content)
    if read_note(root, path) != (made_from, sha256, included):
        write_file(root, note, note_content(made_from, content, included))
