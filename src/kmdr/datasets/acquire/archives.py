"""Read members of zip and tar archives, and compressed files, with a limit on what they unpack to.

Nothing is extracted to a path that an archive names, and sizes that an archive states are not trusted.
"""

import bz2
import gzip
import io
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from typing import IO, Any

from kmdr.base.errors import UserError

# An archive that unpacks to more than both this size and this multiple of its packed size is refused.
_FLOOR_BYTES = 64 * 2**20
_MAX_RATIO = 200
_ENCRYPTED = 1  # a flag of a member of a zip archive
# What decompressors raise on damaged or truncated content.
DAMAGED = (EOFError, zlib.error, lzma.LZMAError)
_OPENERS: dict[bytes, Callable[[Path], io.BufferedIOBase]] = {
    b"BZh": bz2.BZ2File,
    b"\x1f\x8b": gzip.GzipFile,
    b"\xfd7zXZ\0": lzma.LZMAFile,
}


class UnverifiedError(UserError):
    """A file or a matrix is not what the registry says: wrong hash, wrong shape, damaged content."""


def read_members(path: Path, wanted: Callable[[str], bool], max_bytes: int) -> dict[str, bytes]:
    """Return the content of the wanted members of a zip archive, such as a wheel, or a tar archive, by name.

    `wanted` says whether to read the member with a given name; `max_bytes` bounds the total size of these members.

    Raises
    ------
    UnverifiedError
        The file is not an archive or is damaged; a member's name is absolute, contains ``..`` or occurs twice; a wanted
        member is encrypted or not a regular file; the wanted members are too large.
    """
    read = _read_zip if zipfile.is_zipfile(path) else _read_tar
    try:
        return read(path, wanted, max_bytes)
    except (zipfile.BadZipFile, tarfile.TarError, OSError, RuntimeError, ValueError, *DAMAGED) as e:
        raise UnverifiedError(f"archive {path.name} cannot be read: {e}") from e


def open_decompressed(path: Path, max_bytes: int) -> io.BufferedReader:
    """Open a file as a stream of its content, which is unpacked if it is a bzip2, gzip or xz file.

    The first bytes decide, not the name. The stream only goes forward and unpacks no more than is read, at most
    `max_bytes`. The caller closes it.

    Raises
    ------
    UnverifiedError
        During reading: the content is larger than `max_bytes`, damaged or truncated.
    OSError
        The file cannot be opened.
    """
    with path.open("rb") as file:
        first = file.read(max(map(len, _OPENERS)))
    opener = next((opener for magic, opener in _OPENERS.items() if first.startswith(magic)), None)
    return io.BufferedReader(_Counted(path, opener(path) if opener else path.open("rb"), max_bytes), 2**16)


class _Counted(io.RawIOBase):
    """A stream that raises an error once it has more than the allowed bytes."""

    def __init__(self, path: Path, stream: io.BufferedIOBase, max_bytes: int) -> None:
        self._path, self._stream, self._left = path, stream, max_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer)
        try:
            data = self._stream.read(min(len(view), self._left + 1))
        except (OSError, ValueError, *DAMAGED) as e:
            raise UnverifiedError(f"{self._path.name} cannot be read: {e}") from e
        if len(data) > self._left:
            raise UnverifiedError(f"{self._path.name} unpacks to more than the allowed size")
        self._left -= len(data)
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


def _read_zip(path: Path, wanted: Callable[[str], bool], max_bytes: int) -> dict[str, bytes]:
    out: dict[str, bytes] = {}
    with zipfile.ZipFile(path) as archive:
        _refuse_bad_names(path, archive.namelist())
        for info in archive.infolist():
            if info.is_dir() or not wanted(info.filename):
                continue
            if stat.S_ISLNK(info.external_attr >> 16):
                raise UnverifiedError(f"{info.filename!r} in archive {path.name} is not a regular file")
            if info.flag_bits & _ENCRYPTED:
                raise UnverifiedError(
                    f"{info.filename!r} in archive {path.name} is encrypted; unpack it and name the file"
                )
            left = max_bytes - sum(map(len, out.values()))
            with archive.open(info) as member:
                out[info.filename] = _bounded(path, member, min(left, _plausible(info.compress_size)))
    return out


def _read_tar(path: Path, wanted: Callable[[str], bool], max_bytes: int) -> dict[str, bytes]:
    out: dict[str, bytes] = {}
    names: list[str] = []
    # All members are unpacked on the way to the wanted ones, hence a limit on the total.
    with (
        open_decompressed(path, _plausible(path.stat().st_size)) as stream,
        tarfile.open(fileobj=stream, mode="r|") as archive,
    ):
        for info in archive:
            if info.isdir():
                continue
            names.append(info.name)
            if not wanted(info.name):
                continue
            member = archive.extractfile(info) if info.isfile() else None
            if member is None:
                raise UnverifiedError(f"{info.name!r} in archive {path.name} is not a regular file")
            out[info.name] = _bounded(path, member, max_bytes - sum(map(len, out.values())))
    _refuse_bad_names(path, names)
    return out


def _plausible(packed_bytes: int) -> int:
    return max(_FLOOR_BYTES, _MAX_RATIO * packed_bytes)


def _refuse_bad_names(path: Path, names: Iterable[str]) -> None:
    seen: set[PurePosixPath] = set()
    for name in names:
        pure = PurePosixPath(name.replace("\\", "/"))
        if pure.is_absolute() or ".." in pure.parts or name[1:2] == ":":
            raise UnverifiedError(f"archive {path.name} has a member that points outside it: {name!r}")
        if pure in seen:
            raise UnverifiedError(f"archive {path.name} has two members named {name!r}")
        seen.add(pure)


def _bounded(path: Path, member: IO[bytes], max_bytes: int) -> bytes:
    # The size in the archive's directory may be wrong, so the bytes are counted.
    data = member.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise UnverifiedError(f"archive {path.name} unpacks to more than the allowed size")
    return data
