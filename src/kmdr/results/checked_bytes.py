"""The bytes of a file, each block of which is checked before it is used."""

import io
from abc import abstractmethod
from typing import BinaryIO

from kmdr.results.packed import Unpacked

_BLOCK = 1 << 18


class CheckedBytes(io.RawIOBase):
    """The bytes of a file; `check` may refuse a block by an exception, which reading then raises."""

    def __init__(self, file: BinaryIO | Unpacked) -> None:
        self._file = file

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: object) -> int:
        """Read some bytes."""
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        content = self._file.read(min(len(view), _BLOCK))
        view[: len(content)] = content
        self.check(content)
        return len(content)

    @abstractmethod
    def check(self, content: bytes) -> None:
        """Check the next block, which is empty at the end of the file."""

    def buffered(self) -> io.BufferedReader:
        """Return these bytes in blocks that are checked."""
        return io.BufferedReader(self, _BLOCK)
