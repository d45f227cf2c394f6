"""Files that appear complete or not at all, that are read only where they lie, and what is said when that fails."""

import errno
import fcntl
import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

from kmdr.base.errors import UserError

# Where there are no locks, nobody can tell whether the writer of a temporary file lives: it is kept for a day.
_ABANDONED_SECONDS = 86400.0
_TEMPORARY = re.compile(r"\..+\.([0-9a-f]{32}|\d+)\.tmp")  # a number: as older versions named them
# Levels of folders below one that is swept; kmdr makes fewer.
_MOST_DEPTH = 8
# The folder within a results folder that is read and written as one of its own.
INNER = "multiverse"
# How a folder is opened.
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
_REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "make room"),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "make it writable or name another folder"),
    **dict.fromkeys(_NO_LOCKS, "name a folder on a file system that has locks"),
    errno.EFBIG: "allow larger files (ulimit -f)",
    errno.EIO: "the disk is failing: name a folder on another",
}


class StorageError(UserError, OSError):
    """The system did not let a file be written."""


class DamagedError(UserError):
    """A file is not as it was written."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say in one sentence what the system has against writing a file or a folder.

    Raises
    ------
    StorageError
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, UserError):
            raise
        remedy = _REMEDIES.get(error.errno or 0, "see to it")
        raise StorageError(
            f"{path} cannot be written ({error.strerror or error}); {remedy}; what is finished is kept, and the same "
            "command does the rest"
        ) from error


# -- writing ---------------------------------------------------------------------------------------------------------


def _sync(folder: int) -> None:
    """Bring the names in an open folder to the disk, where the file system can."""
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, *_NO_LOCKS):
            raise


def open_folder(folder: Path) -> int:
    """Open a folder and return its descriptor; links are followed, except to one that is named `INNER`.

    That one lies in a results folder, which may come from a stranger, and so may not lead out of it.

    Raises
    ------
    OSError
    """
    try:
        return os.open(folder, FOLDER | (os.O_NOFOLLOW if folder.name == INNER else 0))
    except NotADirectoryError as error:
        if folder.is_symlink():
            raise OSError(errno.ELOOP, f"a link, which is not followed where its name is {INNER!r}") from error
        raise


def make_folder(name: str, folder: int, mode: int = 0o777) -> None:
    """Make a folder in an open folder, unless there is one, and bring its name to the disk."""
    with suppress(FileExistsError):
        os.mkdir(name, mode, dir_fd=folder)
        _sync(folder)


def _make(folder: Path, mode: int) -> None:
    if not folder.is_dir():
        _make(folder.parent, mode)
        number = os.open(folder.parent, FOLDER)
        try:
            make_folder(folder.name, number, mode)
        finally:
            os.close(number)


def _open_temporary(name: str, folder: int, mode: int) -> tuple[str, BinaryIO]:
    """Open a new temporary file in an open folder, and hold a lock on it so that nobody sweeps it."""
    while True:
        temporary = f".{name}.{uuid4().hex}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        number = os.open(temporary, flags, mode, dir_fd=folder)
        try:
            fcntl.flock(number, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                os.close(number)
                os.unlink(temporary, dir_fd=folder)
                raise
        if os.fstat(number).st_nlink:
            return temporary, os.fdopen(number, "wb")
        os.close(number)  # swept before it was locked


def replace_file(name: str, content: bytes, folder: int, mode: int = 0o666) -> None:
    """Write a temporary file in an open folder, flush it to disk and rename it, so that no part of it is ever seen.

    Raises
    ------
    OSError
        The file is then as it was.
    """
    temporary, file = _open_temporary(name, folder, mode)
    try:
        with file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        _sync(folder)
    finally:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)


def write_atomically(path: Path, content: bytes, *, private: bool = False) -> None:
    """Write a file with `replace_file`; folders above it are made.

    A private file, and the folders that are made for it, can be read by their owner alone.

    Raises
    ------
    StorageError
        The file is then as it was.
    """
    with writing(path):
        _make(path.parent, 0o700 if private else 0o777)
        folder = os.open(path.parent, FOLDER)
        try:
            replace_file(path.name, content, folder, 0o600 if private else 0o666)
        finally:
            os.close(folder)


def sweep_abandoned(folder: Path) -> None:
    """Remove what writers that were killed left in a folder and below; what others are writing is left alone."""
    with suppress(OSError):  # it may not be there, or be removed meanwhile
        number = open_folder(folder)
        try:
            _sweep_below(number, _MOST_DEPTH)
        finally:
            os.close(number)


def _sweep_below(folder: int, depth: int) -> None:
    """Sweep an open folder and so many levels below it; `os.fwalk` would open what links lead to."""
    with os.scandir(folder) as entries:
        listed = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in listed:
        if not is_folder:
            if _TEMPORARY.fullmatch(name):
                _sweep(name, folder)
        elif depth > 0:
            with suppress(OSError):
                number = os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=folder)
                try:
                    _sweep_below(number, depth - 1)
                finally:
                    os.close(number)


def _sweep(temporary: str, folder: int) -> None:
    with suppress(OSError):
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        number = os.open(temporary, flags, dir_fd=folder)
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        except OSError as error:
            age = time.time() - os.fstat(number).st_mtime
            free = error.errno in _NO_LOCKS and age > _ABANDONED_SECONDS
        try:
            if free:
                os.unlink(temporary, dir_fd=folder)
        finally:
            os.close(number)


# -- reading ---------------------------------------------------------------------------------------------------------


# With which the last line of a file begins that ends with the checksum of all before it.
SEAL = b"# sha256 "


def with_checksum(content: bytes) -> bytes:
    """Return the content of a file with, as its last line, its SHA-256."""
    return content + SEAL + hashlib.sha256(content).hexdigest().encode() + b"\n"


def without_checksum(content: bytes, path: Path) -> bytes:
    """Return what `with_checksum` was given.

    Raises
    ------
    DamagedError
    """
    plain = content[: -len(with_checksum(b""))]
    if not content.endswith(SEAL + hashlib.sha256(plain).hexdigest().encode() + b"\n"):
        raise DamagedError(f"{path} is damaged: it is not what its checksum says")
    return plain


def note_of(made_from: str, content: bytes) -> bytes:
    """Return the note beside a file that is made of others: a hash of what it was made from, and its own SHA-256."""
    return f"{made_from} {hashlib.sha256(content).hexdigest()}\n".encode()


def noted(note: bytes | None) -> tuple[str, str]:
    """Return what `note_of` was given and the SHA-256; empty where they are not known, as beside older files."""
    parts = re.fullmatch(rb"([0-9a-f]{12}) ([0-9a-f]{64})\n", note or b"")
    return (parts[1].decode(), parts[2].decode()) if parts else ("", "")


def seal_of(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a JSON object."""
    return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON object with, as its last entry, the SHA-256 of all others."""
    return {**content, "sha256": seal_of(content)}


def unsealed(content: Any) -> dict[str, Any]:
    """Return what `sealed` was given. What has no seal, as older versions wrote it, is taken as it is.

    Raises
    ------
    ValueError
        When it is no JSON object, or its seal is not that of its content or is there under a spoilt name.
    """
    if isinstance(content, dict):
        seal = content.pop("sha256", None)
        spoilt = seal is None and any(re.fullmatch("[0-9a-f]{64}", str(value)) for value in content.values())
        if not spoilt and seal in (None, seal_of(content)):
            return content
    raise ValueError("not what was sealed")


def content_hash(files: Iterable[Path]) -> str:
    """Return the SHA-256 of some files' names and contents, in the order given."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()
