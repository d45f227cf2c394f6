"""Files that one process appends values to and another reads as they grow, on a file system that both see.

A file is opened and closed for each turn: a network file system then hands on what is in it.
"""

import os
import pickle
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kmdr.errors import UserError

# Bytes and CRC-32 of the pickled value that follows.
_HEAD = struct.Struct(">QI")


def append(path: Path, *values: Any) -> None:
    """Add values to the end of a file that is there, in one piece."""
    content = b""
    for value in values:
        pickled = pickle.dumps(value)
        content += _HEAD.pack(len(pickled), zlib.crc32(pickled)) + pickled
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND), "wb") as file:
        file.write(content)


class Appended:
    """The values of a file, each read once.

    Parameters
    ----------
    path : Path
    """

    def __init__(self, path: Path) -> None:
        self._path, self._read = path, 0

    def new(self) -> list[Any]:
        """Return the values that came since the last time; the last is left for later where it is not all there.

        Raises
        ------
        UserError
            The file holds something else than what was appended.
        """
        with self._path.open("rb") as file:
            file.seek(self._read)
            return list(self._values(file.read()))

    def _values(self, content: bytes) -> Iterator[Any]:
        at = 0
        while len(content) >= at + _HEAD.size:
            length, checksum = _HEAD.unpack_from(content, at)
            pickled = content[at + _HEAD.size : at + _HEAD.size + length]
            if len(pickled) < length:
                return
            if zlib.crc32(pickled) != checksum:
                raise UserError(
                    f"{self._path} is damaged; what is finished is kept, and the same command does the rest"
                )
            at += _HEAD.size + length
            self._read += _HEAD.size + length
            yield pickle.loads(pickled)

    def mend(self) -> None:
        """Cut off a value that was not written to its end, by a process that is gone."""
        self.new()
        os.truncate(self._path, self._read)
