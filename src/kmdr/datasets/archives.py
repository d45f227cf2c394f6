"""Members of zip and tar archives as bytes. Nothing is ever extracted to a path that an archive names."""

import tarfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from typing import IO

from kmdr.errors import UserError


class UnverifiedError(UserError):
    """A file or a matrix is not what the registry says: wrong hash, wrong shape, damaged content."""


def read_members(path: Path, wanted: Callable[[str], bool], max_bytes: int) -> dict[str, bytes]:
    """Read some members of an archive.

    Parameters
    ----------
    path : Path
        A zip archive (a wheel is one) or a tar archive, compressed or not.
    wanted : callable
        Whether to read the member of that name.
    max_bytes : int
        Most bytes that the wanted members may have in all.

    Returns
    -------
    dict
        Content by member name.

    Raises
    ------
    UnverifiedError
        It is no archive or a damaged one; any of its names is absolute, holds ``..`` or occurs twice; a wanted member
        is no regular file; the wanted members are too long.
    """
    read = _read_zip if zipfile.is_zipfile(path) else _read_tar
    try:
        return read(path, wanted, max_bytes)
    except (
        zipfile.BadZipFile,
        tarfile.TarError,
        EOFError,
        OSError,
        RuntimeError,
        ValueError,
        NotImplementedError,
    ) as e:
        raise UnverifiedError(f"archive {path.name} cannot be read: {e}") from e


def _read_zip(path: Path, wanted: Callable[[str], bool], max_bytes: int) -> dict[str, bytes]:
    out: dict[str, bytes] = {}
    with zipfile.ZipFile(path) as archive:
        _refuse_bad_names(path, archive.namelist())
        for info in archive.infolist():
            if not info.is_dir() and wanted(info.filename):
                with archive.open(info) as member:
                    out[info.filename] = _bounded(path, member, max_bytes - sum(map(len, out.values())))
    return out


def _read_tar(path: Path, wanted: Callable[[str], bool], max_bytes: int) -> dict[str, bytes]:
    out: dict[str, bytes] = {}
    with tarfile.open(path) as archive:
        members = archive.getmembers()
        _refuse_bad_names(path, (info.name for info in members if not info.isdir()))
        for info in members:
            if info.isdir() or not wanted(info.name):
                continue
            member = archive.extractfile(info) if info.isfile() else None
            if member is None:
                raise UnverifiedError(f"{info.name!r} in archive {path.name} is not a regular file")
            out[info.name] = _bounded(path, member, max_bytes - sum(map(len, out.values())))
    return out


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
    # The size in the archive's directory may lie, so the bytes are counted.
    data = member.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise UnverifiedError(f"archive {path.name} unpacks to more than the allowed size")
    return data
