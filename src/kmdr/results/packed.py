"""Text files of a results folder that may be compressed by xz, and the reading of such files from strangers.

Of these files, which committed results have compressed, ``NAME.xz`` is read in the place of ``NAME`` if there is no
``NAME``. A run writes ``NAME`` and removes ``NAME.xz``. The table of rows and the figures' tables are not among them:
each of their readers chooses the file.
"""

import io
import lzma
import re
from pathlib import Path
from typing import BinaryIO

from kmdr.base.files import DamagedError

SUFFIX = ".xz"
NAMES = ("configs.jsonl", "asked.json", "universes.json")
# The files by their path within a results folder or within the folder of multiverses or of the atlas in it.
_PACKED = re.compile(rf"(?:[^/]+/)?(?:{'|'.join(map(re.escape, NAMES))}|facts/[^/]+\.csv)")
# Bytes that xz may take for itself: its strongest preset takes half.
_MEMORY = 1 << 27
_BLOCK = 1 << 18
_REMEDY = "get it again or run the study again"


def may_be_packed(name: str) -> bool:
    """Return True if a file, by its path within a results folder, may be compressed."""
    return _PACKED.fullmatch(name) is not None


def logical(name: str) -> str:
    """Return the name of a file's content: without ``.xz`` if that stands for a file that may be compressed."""
    plain = name.removesuffix(SUFFIX)
    return plain if may_be_packed(plain) else name


def pack(content: bytes) -> bytes:
    """Compress a file by xz with its SHA-256; the bytes are a function of the content."""
    return lzma.compress(content, check=lzma.CHECK_SHA256, preset=9 | lzma.PRESET_EXTREME)


class Unpacked(io.RawIOBase):
    """The decompressed bytes of a file; reading raises `DamagedError` if it is damaged or has more than ``most``."""

    def __init__(self, file: BinaryIO, path: Path, most: int) -> None:
        self._file, self._path, self._most = file, path, most
        self._begin()

    def _begin(self) -> None:
        self._unpack, self._read = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY), 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the descriptor of the compressed file."""
        return self._file.fileno()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Begin again, or return the position; other places are not supported."""
        if offset or whence not in (io.SEEK_SET, io.SEEK_CUR):
            raise io.UnsupportedOperation("only the beginning of a compressed file can be sought")
        if whence == io.SEEK_SET:
            self._file.seek(0)
            self._begin()
        return self._read

    def readinto(self, buffer: object) -> int:
        """Read some bytes."""
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        content = self._next(min(len(view), _BLOCK))
        view[: len(content)] = content
        self._read += len(content)
        if self._read > self._most:
            raise DamagedError(f"{self._path} has more than {self._most} bytes decompressed, the limit; {_REMEDY}")
        return len(content)

    def _next(self, size: int) -> bytes:
        unpack = self._unpack
        try:
            while not unpack.eof:
                given = self._file.read(_BLOCK) if unpack.needs_input else b""
                if unpack.needs_input and not given:
                    raise DamagedError(f"{self._path} is damaged: it ends too early; {_REMEDY}")
                content = unpack.decompress(given, max_length=size)
                if content:
                    return content
        except lzma.LZMAError as error:
            raise DamagedError(f"{self._path} is damaged or not compressed by xz ({error}); {_REMEDY}") from error
        if unpack.unused_data or self._file.read(1):
            raise DamagedError(f"{self._path} is damaged: it has something after its end; get it again")
        return b""
