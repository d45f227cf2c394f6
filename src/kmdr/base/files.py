"""Write files atomically, and lock and sweep temporary ones.

A file is written to a temporary file next to it, flushed to the disk and renamed, so readers never see a part of it.
Temporary files and folders are locked while their writer lives. `sweep_abandoned` removes what killed writers left.
"""

import errno
import fcntl
import hashlib
import os
import re
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO
from uuid import uuid4

from kmdr.base.errors import UserError

# On a file system without locks, temporary files are kept for a day, because their writer may still be running.
_ABANDONED_SECONDS = 86400.0
# Temporary files and folders: as they are named now, and by two older versions.
_TEMPORARY = re.compile(r"\..+\.([0-9a-f]{32}|\d+)\.tmp|\.tmp-([0-9a-z_]{8}|[0-9a-f]{32})")
# Levels of subfolders that are swept; kmdr makes fewer.
_MOST_DEPTH = 8
# The subfolder of a results folder that is itself read and written as a results folder.
INNER = "multiverse"
# Flags for opening a folder.
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
_REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free disk space"),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "make it writable or name another folder"),
    **dict.fromkeys(_NO_LOCKS, "name a folder on a file system that has locks"),
    errno.EFBIG: "allow larger files (ulimit -f)",
    errno.EIO: "the disk is failing: name a folder on another",
}


class StorageError(UserError, OSError):
    """The operating system refused to write a file."""


class DamagedError(UserError):
    """The content of a file does not match its checksum."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn any OSError into a one-sentence StorageError about a file or folder."""
    try:
        yield
    except OSError as error:
        if isinstance(error, UserError):
            raise
        remedy = _REMEDIES.get(error.errno or 0, "check the folder")
        raise StorageError(
            f"{path} cannot be written ({error.strerror or error}); {remedy}; what is finished is kept, and the same "
            "command does the rest"
        ) from error


# -- folders, flushing and locks -------------------------------------------------------------------------------------


def flush(file: IO[Any]) -> None:
    """Flush an open file to the disk."""
    file.flush()
    os.fsync(file.fileno())


def _sync(folder: int) -> None:
    """Flush the names in an open folder to the disk, if the file system supports it."""
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, *_NO_LOCKS):
            raise


@contextmanager
def _opened(path: str | Path, flags: int = FOLDER, folder: int | None = None) -> Iterator[int]:
    """Open a file or folder by its descriptor for the length of a block."""
    number = os.open(path, flags, dir_fd=folder)
    try:
        yield number
    finally:
        os.close(number)


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk, so that they survive a loss of power."""
    with _opened(folder) as number:
        _sync(number)


def open_folder(folder: Path) -> int:
    """Open a folder and return its descriptor. Links are followed, except one named `INNER`.

    `INNER` lies in a results folder, which may come from a stranger and must not lead out of it.
    """
    try:
        return os.open(folder, FOLDER | (os.O_NOFOLLOW if folder.name == INNER else 0))
    except NotADirectoryError as error:
        if folder.is_symlink():
            raise OSError(errno.ELOOP, f"a link, which is not followed where its name is {INNER!r}") from error
        raise


def make_folder(name: str, folder: int, mode: int = 0o777) -> None:
    """Make a subfolder of an open folder, unless it exists, and flush its name to the disk."""
    with suppress(FileExistsError):
        os.mkdir(name, mode, dir_fd=folder)
        _sync(folder)


def _make_folders(folder: Path, mode: int) -> None:
    if not folder.is_dir():
        _make_folders(folder.parent, mode)
        with _opened(folder.parent) as parent:
            make_folder(folder.name, parent, mode)


def private_folder(folder: Path) -> Path:
    """Make a folder and its missing parents, accessible to their owner only, and return it."""
    _make_folders(folder, 0o700)
    return folder


def lock(number: int, *, wait: bool = True) -> bool | None:
    """Lock an open file or folder until it is closed or the process ends.

    Return True if it is locked now, False if another process holds the lock (only without `wait`), and None if the
    file system has no locks.
    """
    try:
        fcntl.flock(number, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return None
    return True


# -- writing ---------------------------------------------------------------------------------------------------------


def _temporary_name(name: str) -> str:
    return f".{name}.{uuid4().hex}.tmp"


def is_temporary(name: str) -> bool:
    """Return True if a name is that of a temporary file or folder."""
    return _TEMPORARY.fullmatch(name) is not None


def _open_temporary(name: str, folder: int, mode: int) -> tuple[str, BinaryIO]:
    """Open and lock a new temporary file in an open folder."""
    while True:
        temporary = _temporary_name(name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        number = os.open(temporary, flags, mode, dir_fd=folder)
        try:
            lock(number)
        except OSError:
            os.close(number)
            os.unlink(temporary, dir_fd=folder)
            raise
        if os.fstat(number).st_nlink:
            return temporary, os.fdopen(number, "wb")
        os.close(number)  # swept before it was locked


@contextmanager
def temporary_folder(parent: Path) -> Iterator[Path]:
    """Make a locked temporary folder in another folder, sweep its abandoned siblings, and remove it at the end."""
    private_folder(parent)
    sweep_abandoned(parent, depth=0)
    while True:
        folder = parent / _temporary_name("folder")
        folder.mkdir(0o700)
        try:
            number = os.open(folder, FOLDER)
        except FileNotFoundError:
            continue  # swept before it was opened
        try:
            lock(number)
            if os.fstat(number).st_nlink:  # else it was swept before it was locked
                yield folder
                return
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(number)


def replace_file(name: str, content: bytes, folder: int, mode: int = 0o666) -> None:
    """Write a file in an open folder atomically: temporary file, flush, rename; after an OSError it is unchanged."""
    temporary, file = _open_temporary(name, folder, mode)
    try:
        with file:
            file.write(content)
            flush(file)
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        _sync(folder)
    finally:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)


def write_atomically(path: Path, content: bytes, *, private: bool = False) -> None:
    """Write a file with `replace_file`, after making its missing parent folders.

    If private, only the owner can read the file and the folders made for it. After a StorageError the file is
    unchanged.
    """
    with writing(path):
        _make_folders(path.parent, 0o700 if private else 0o777)
        with _opened(path.parent) as folder:
            replace_file(path.name, content, folder, 0o600 if private else 0o666)


# -- sweeping --------------------------------------------------------------------------------------------------------


def sweep_abandoned(folder: Path, depth: int = _MOST_DEPTH) -> None:
    """Remove temporary files and folders that killed writers left in a folder and its subfolders, to some depth."""
    with suppress(OSError):  # the folder may not exist, or be removed meanwhile
        number = open_folder(folder)
        try:
            _sweep_below(number, depth)
        finally:
            os.close(number)


def _sweep_below(folder: int, depth: int) -> None:
    """Sweep an open folder and this many levels below it. `os.fwalk` would follow links."""
    with os.scandir(folder) as entries:
        listed = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in listed:
        if is_temporary(name):
            _sweep(name, folder, is_folder)
        elif is_folder and depth > 0:
            with suppress(OSError), _opened(name, FOLDER | os.O_NOFOLLOW, folder) as number:
                _sweep_below(number, depth - 1)


def _sweep(name: str, folder: int, is_folder: bool) -> None:
    """Remove a temporary file or folder if it is abandoned; a folder only if it belongs to this user."""
    flags = FOLDER if is_folder else os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC
    # Another process may remove it first.
    with suppress(OSError), _opened(name, flags | os.O_NOFOLLOW, folder) as number:
        if is_folder and os.fstat(number).st_uid != os.geteuid():
            return
        locked = lock(number, wait=False)
        if locked or (locked is None and time.time() - _newest(number, is_folder) > _ABANDONED_SECONDS):
            if is_folder:
                shutil.rmtree(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)


def _newest(number: int, is_folder: bool) -> float:
    """Return the time at which an open file, or an open folder or anything below it, was last modified."""
    times = [os.fstat(number).st_mtime]
    for _, folders, files, inner in os.fwalk(".", dir_fd=number) if is_folder else ():
        times += [os.stat(name, dir_fd=inner, follow_symlinks=False).st_mtime for name in (*folders, *files)]
    return max(times)


def content_hash(files: Iterable[Path]) -> str:
    """Return the SHA-256 of the names and contents of files, in the given order."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def refuse_irregular(path: Path, folder: bool = False) -> None:
    """Refuse pipes, devices and sockets, which may never end, and folders unless allowed. A file may be missing."""
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except FileNotFoundError:
        return
    except OSError as e:
        raise UserError(f"{path} cannot be read ({e.strerror}); choose a readable file") from e
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    if kind != stat.S_IFREG and not (folder and kind == stat.S_IFDIR):
        raise UserError(f"{path} is {kinds.get(kind, 'a device')}; name a regular file")
