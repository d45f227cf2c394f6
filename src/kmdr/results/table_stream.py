"""The table of a results folder as a stream of bytes, decompressed and limited in size while it is read."""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from kmdr.base.errors import UserError
from kmdr.base.files import DamagedError
from kmdr.base.limits import parse_size
from kmdr.results.checked_bytes import CheckedBytes
from kmdr.results.checksums import check_note, read_note
from kmdr.results.folder import open_file
from kmdr.results.packed import SUFFIX, Unpacked

# Bytes of a table, decompressed, that are read unless the user allows more: about 330 000 rows.
# All studies together have 200 000.
MOST_BYTES = 1 << 27
# One row is allowed for each so many bytes, because even a short row takes memory; the rows of kmdr have 400 bytes.
_BYTES_PER_ROW = 320
# Bytes of a line.
MOST_LINE = 1 << 20
# Environment variable by which the user allows larger tables, such as ``2G``.
VARIABLE = "KMDR_MOST_TABLE"
_UNLIMITED = 1 << 62
_REMEDY = "get it again or run the study again"


def most_bytes() -> int:
    """Return the largest size in bytes of a decompressed table.

    Raises
    ------
    UserError
        If the environment variable `VARIABLE` is not a number of bytes.
    """
    text = os.environ.get(VARIABLE, "")
    if not text:
        return MOST_BYTES
    size = parse_size(text)
    if size is None:
        raise UserError(f"{VARIABLE} = {text!r} is not a size; write e.g. {VARIABLE}=2G")
    return size


class TooLargeError(UserError):
    """A table, or all task files together, are larger than the user allows."""


def too_large(path: Path, size: str, most: int) -> TooLargeError:
    """Return the error for a table that is larger than the user allows."""
    return TooLargeError(
        f"{path} has {size} bytes, more than the limit of {most}; if you trust it, allow more with e.g. "
        f"{VARIABLE}=1G; memory takes several times as much"
    )


def check_rows(count: int, path: Path) -> None:
    """Refuse a table with more rows than a table of `most_bytes` with short rows has."""
    if count > (most := most_bytes() // _BYTES_PER_ROW):
        raise TooLargeError(
            f"{path} has at least {count} rows, more than the limit of {most}; if you trust it, allow more with e.g. "
            f"{VARIABLE}=1G; memory takes several times as much"
        )


def refuse_zeros(content: bytes, path: Path) -> None:
    """Refuse bytes of a table with a NUL byte, at which its parser would end a field."""
    if b"\0" in content:
        raise DamagedError(f"{path} is damaged: it has a NUL byte; {_REMEDY}")


class _Bounded(CheckedBytes):
    """The bytes of a table; reading raises `DamagedError` if it is damaged, too large or has too long a line."""

    def __init__(self, file: BinaryIO | Unpacked, path: Path, is_packed: bool) -> None:
        super().__init__(file)
        self._path, self._is_packed = path, is_packed
        size = os.fstat(file.fileno()).st_size
        self._most, self._read, self._line = most_bytes(), 0, 0
        if size > self._most and not is_packed:
            self._refuse_size(size)

    def check(self, content: bytes) -> None:
        """Check the size so far, and the lines of a block."""
        self._read += len(content)
        if self._read > self._most:
            self._refuse_size(self._read)
        refuse_zeros(content, self._path)
        first, last = content.find(b"\n"), content.rfind(b"\n")
        longest = self._line + (len(content) if first < 0 else first)
        if longest > MOST_LINE:
            raise DamagedError(f"{self._path} has a line of more than {MOST_LINE} bytes, the limit; {_REMEDY}")
        self._line = longest if first < 0 else len(content) - last - 1  # a block is shorter than the longest line

    def _refuse_size(self, size: int) -> None:
        packed = os.fstat(self._file.fileno()).st_size
        text = f"{packed} bytes, decompressed at least {size}" if self._is_packed else str(size)
        raise too_large(self._path, text, self._most)


def _bounded(file: BinaryIO | Unpacked, path: Path, is_packed: bool) -> io.BufferedReader:
    return _Bounded(file, path, is_packed).buffered()


@contextmanager
def open_table(folder: Path, name: str) -> Iterator[io.BufferedReader | None]:
    """Open a table within a folder, decompressed if it is stored as ``.xz``; yield None if it does not exist.

    Raises
    ------
    DamagedError
        At once or while it is read: if it is not a regular file, is damaged, too large or has too long a line.
    """
    while True:
        note = read_note(folder, name)
        with open_file(folder, name, _UNLIMITED) as file:
            if read_note(folder, name) != note:  # another process is writing the table, and its note after it
                continue
            if file is None:
                yield None
                return
            path, is_packed = folder / name, isinstance(file.raw, Unpacked)
            source = Unpacked(file, path, _UNLIMITED) if path.suffix == SUFFIX else file
            table = _bounded(source, path, is_packed or source is not file)  # refuses a large file before it is hashed
            check_note(_bounded(file, path, is_packed) if is_packed else file, note, folder, name)
            file.seek(0)
            yield table
            return
