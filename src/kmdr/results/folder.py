"""The only way to the files of a results folder, which may come from a stranger.

A file is named by its place below the folder. Its path is descended by directory descriptors that follow no link, so
nothing outside the folder is read, written or removed, whatever the folder holds and whoever changes it meanwhile. Only
the folder itself may be a link, as the user named it. Only regular files are read, and only up to a stated size.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from kmdr.errors import UserError
from kmdr.files import FOLDER, DamagedError, make_folder, replace_file, writing

# Bytes of a file other than the table, by default; the largest that kmdr writes is a report of some megabytes.
MOST_BYTES = 1 << 26
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
# Levels of folders below a results folder, of which kmdr makes at most four.
_MOST_DEPTH = 8


def _parts(name: str) -> list[str]:
    """Split a name below a folder into its components."""
    parts = name.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise ValueError(f"{name!r} does not name a place below a folder")
    return parts


def _reason(error: OSError) -> str:
    return "a link" if error.errno == errno.ELOOP else error.strerror or str(error)


def _refused(root: Path, name: str, reason: str) -> DamagedError:
    return DamagedError(f"{root / name} cannot be read ({reason}); expected a file that kmdr wrote there, so remove it")


@contextmanager
def _descend(root: Path, parts: list[str], *, make: bool = False) -> Iterator[int]:
    """Open the folder at some components below a root and yield its descriptor.

    Raises
    ------
    OSError
        When a component is a link (``ELOOP`` or ``ENOTDIR``), another kind of file or not there.
    """
    number = os.open(root, FOLDER)
    try:
        for part in parts:
            if make:
                make_folder(part, number)
            inner = os.open(part, FOLDER | os.O_NOFOLLOW, dir_fd=number)
            os.close(number)
            number = inner
        yield number
    finally:
        os.close(number)


def _is_absent(error: OSError, root: Path, parts: list[str]) -> bool:
    """Whether the reason is that the file, or a folder above it, is not there, rather than a link or another kind."""
    if error.errno == errno.ENOENT:
        return True
    if error.errno != errno.ENOTDIR:
        return False
    for depth in range(1, len(parts)):  # O_NOFOLLOW reports a link in the place of a folder as ENOTDIR
        with suppress(OSError), _descend(root, parts[: depth - 1]) as number:
            if stat.S_ISLNK(os.stat(parts[depth - 1], dir_fd=number, follow_symlinks=False).st_mode):
                return False
    return False


def file_status(root: Path, name: str) -> os.stat_result | None:
    """Return the status of a file below a folder, of a link its own; None where there is nothing of that name.

    Raises
    ------
    DamagedError
        When a folder on the way is a link or another kind of file.
    """
    *above, last = parts = _parts(name)
    try:
        with _descend(root, above) as number:
            return os.stat(last, dir_fd=number, follow_symlinks=False)
    except OSError as error:
        if _is_absent(error, root, parts):
            return None
        raise _refused(root, name, _reason(error)) from error


def has_file(root: Path, name: str) -> bool:
    """Whether there is anything of that name below a folder, even a link; `read_file` refuses what is no file."""
    return file_status(root, name) is not None


@contextmanager
def open_file(root: Path, name: str, most: int = MOST_BYTES) -> Iterator[BinaryIO | None]:
    """Open a regular file below a folder; yields None where there is nothing of that name.

    Parameters
    ----------
    root : Path
    name : str
        Components joined by ``/``.
    most : int
        Bytes that it may have.

    Raises
    ------
    DamagedError
        When it, or a folder on the way, is a link or another kind of file, when it is larger than ``most`` or has
        holes, or cannot be read.
    """
    *above, last = parts = _parts(name)
    try:
        with _descend(root, above) as folder:
            number = os.open(last, _FILE, dir_fd=folder)
    except OSError as error:
        if not _is_absent(error, root, parts):
            raise _refused(root, name, _reason(error)) from error
        number = -1
    if number < 0:
        yield None
        return
    with os.fdopen(number, "rb") as file:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode):
            raise _refused(root, name, "not a regular file")
        if status.st_size > most:
            raise _refused(root, name, f"{status.st_size} bytes, more than the limit of {most}")
        yield file


def read_file(root: Path, name: str, most: int = MOST_BYTES) -> bytes | None:
    """Return the content of a regular file below a folder, None where there is nothing of that name.

    Parameters and errors are those of `open_file`.
    """
    with open_file(root, name, most) as file:
        if file is None:
            return None
        try:
            content = file.read(most + 1)  # it may grow while it is read
        except OSError as error:
            raise _refused(root, name, _reason(error)) from error
    if len(content) > most:
        raise _refused(root, name, f"more than the limit of {most} bytes")
    return content


def list_files(root: Path, name: str = "") -> Iterator[str]:
    """Yield the names of all regular files and links below a folder, or below one in it, sorted; hidden ones left out.

    Links are named but not followed.

    Raises
    ------
    DamagedError
        When a folder on the way is a link, or there are more than eight levels.
    """
    parts = _parts(name) if name else []
    try:
        with _descend(root, parts) as number, os.scandir(number) as entries:
            listed = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
    except OSError as error:
        if _is_absent(error, root, [*parts, ""]):
            return
        raise _refused(root, name, _reason(error)) from error
    if len(parts) == _MOST_DEPTH:
        raise _refused(root, name, f"more than {_MOST_DEPTH} levels of folders")
    for entry, is_folder in listed:
        if entry.startswith("."):
            continue
        within = str(PurePosixPath(name, entry))
        if is_folder:
            yield from list_files(root, within)
        else:
            yield within


def write_file(root: Path, name: str, content: bytes) -> None:
    """Write a file below a folder so that its name never shows a part of it; folders on the way are made.

    Raises
    ------
    StorageError
        When a folder on the way is a link, or the system does not let it be written. The file is then as it was.
    """
    *above, last = _parts(name)
    with writing(root / name), _descend(root, above, make=True) as folder:
        replace_file(last, content, folder)


def remove_file(root: Path, name: str) -> None:
    """Remove a file below a folder, of a link the link itself; nothing where there is none.

    Raises
    ------
    StorageError
        When a folder on the way is a link, or the system does not let it be removed.
    """
    *above, last = parts = _parts(name)
    with writing(root / name):
        try:
            with _descend(root, above) as folder:
                os.unlink(last, dir_fd=folder)
        except OSError as error:
            if not _is_absent(error, root, parts):
                raise


def check_folder(root: Path) -> None:
    """Check that a path names a folder that can be read.

    Raises
    ------
    UserError
    """
    try:
        os.close(os.open(root, FOLDER))
    except OSError as error:
        raise UserError(f"{root} is not a readable folder ({_reason(error)}); name a folder of results") from error
