"""Access to the files of a results folder, which may come from a stranger; there is no other way.

A file is named by its path within the folder. The path is opened one folder at a time, by directory descriptors and
without following links, so nothing outside the folder is read, written or removed, even if the folder is changed
meanwhile. The folder itself may be a link, because the user named it, unless it is called ``multiverse``, like the one
inside a results folder. Only regular files are read, and only up to a stated size.

Some text files may be stored compressed, as ``NAME.xz`` (see `kmdr.results.packed`). They are read as ``NAME``.
"""

import errno
import os
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from weakref import WeakValueDictionary, finalize

from kmdr.base.files import FOLDER, DamagedError, make_folder, open_folder, replace_file, writing
from kmdr.results.packed import NAMES, SUFFIX, Unpacked, logical, may_be_packed, pack

# Bytes of a file other than the table, by default; the largest that kmdr writes is a report of some megabytes.
MOST_BYTES = 1 << 26
# Bytes by which a compressed file may be larger than its content.
_OVERHEAD = 1 << 12
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
# Levels of folders below a results folder, of which kmdr makes at most four.
_MOST_DEPTH = 8


def _parts(root: Path, path: Path | str) -> list[str]:
    name = path if isinstance(path, str) else path.relative_to(root).as_posix()
    parts = name.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise DamagedError(f"{name!r} does not name a file below {root}")
    return parts


def _reason(error: OSError) -> str:
    return "a link" if error.errno == errno.ELOOP else error.strerror or str(error)


def _shown(root: Path, path: Path | str) -> Path:
    """Return the path of a file for messages; `path` begins with the root, which may be relative, or is below it."""
    return path if isinstance(path, Path) and path.is_relative_to(root) else root / path


def _refused(root: Path, path: Path | str, reason: str) -> DamagedError:
    if root.exists() and not root.is_dir():
        return DamagedError(f"{root} is not a folder; name a folder of results")
    shown = _shown(root, path)
    return DamagedError(f"{shown} cannot be read ({reason}); expected a file that kmdr wrote there, so remove it")


@contextmanager
def _descend(root: Path, parts: list[str], *, make: bool = False) -> Iterator[int]:
    """Open the folder at some components below a root and yield its descriptor.

    Raise `OSError` if a component is a link (``ELOOP`` or ``ENOTDIR``), another kind of file or does not exist.
    """
    number = open_folder(root)
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
    """Return True if the error means that the file or a folder above it does not exist, not that it is a link."""
    if error.errno == errno.ENOENT:
        return True
    if error.errno != errno.ENOTDIR:
        return False
    for depth in range(1, len(parts)):  # O_NOFOLLOW reports a link in the place of a folder as ENOTDIR
        with suppress(OSError), _descend(root, parts[: depth - 1]) as number:
            if stat.S_ISLNK(os.stat(parts[depth - 1], dir_fd=number, follow_symlinks=False).st_mode):
                return False
    return False


def file_status(root: Path, path: Path | str) -> os.stat_result | None:
    """Return the status of a file within a folder (of a link, not its target); None if it does not exist.

    Raise `DamagedError` if a folder on the way is a link or another kind of file.
    """
    *above, last = parts = _parts(root, path)
    try:
        with _descend(root, above) as number:
            return os.stat(last, dir_fd=number, follow_symlinks=False)
    except OSError as error:
        if _is_absent(error, root, parts):
            return None
        raise _refused(root, path, _reason(error)) from error


def has_file(root: Path, path: Path | str) -> bool:
    """Return True if a path within a folder exists, even as a link; `read_file` accepts regular files only."""
    name = "/".join(_parts(root, path))
    # a writer may replace NAME.xz by NAME between two looks
    names = (name, name + SUFFIX, name) if may_be_packed(name) else (name,)
    return any(file_status(root, place) is not None for place in names)


def is_packed(root: Path, path: Path | str) -> bool:
    """Return True if a file is there as ``NAME.xz`` only."""
    name = "/".join(_parts(root, path))
    return may_be_packed(name) and file_status(root, name) is None and file_status(root, name + SUFFIX) is not None


def file_size(root: Path, path: Path | str, most: int = MOST_BYTES) -> int:
    """Return the size of a file in bytes, decompressed; 0 if it does not exist.

    Raise `DamagedError` if it is compressed and damaged, or larger than ``most`` decompressed.
    """
    if not is_packed(root, path):
        return status.st_size if (status := file_status(root, path)) else 0
    with open_file(root, path, most) as file:
        return sum(map(len, iter(lambda: file.read(1 << 18), b""))) if file else 0


def is_link(root: Path, path: Path | str) -> bool:
    """Return True if a path within a folder is a link."""
    status = file_status(root, path)
    return status is not None and stat.S_ISLNK(status.st_mode)


@contextmanager
def open_file(root: Path, path: Path | str, most: int = MOST_BYTES) -> Iterator[BufferedReader | None]:
    """Open a regular file within a folder; yield None if it does not exist.

    The path begins with ``root`` or is relative to it; ``most`` is the largest size in bytes. A file that is stored as
    ``NAME.xz`` only is decompressed, up to the same size. Raise `DamagedError` if it or a folder on the way is a link
    or another kind of file, or if it is too large or unreadable.
    """
    *above, last = parts = _parts(root, path)
    try:
        with _descend(root, above) as folder:
            number = os.open(last, _FILE, dir_fd=folder)
    except OSError as error:
        if not _is_absent(error, root, parts):
            raise _refused(root, path, _reason(error)) from error
        number = -1
    if number < 0:
        with _open_packed(root, "/".join(parts), most) as unpacked:
            yield unpacked
        return
    status = os.fstat(number)
    if not stat.S_ISREG(status.st_mode):
        os.close(number)
        raise _refused(root, path, "not a regular file")
    with os.fdopen(number, "rb") as file:
        if status.st_size > most:
            raise _refused(root, path, f"{status.st_size} bytes, more than the limit of {most}")
        yield file


@contextmanager
def _open_packed(root: Path, name: str, most: int) -> Iterator[BufferedReader | None]:
    """Open ``NAME.xz`` in the place of an absent file, decompressed; yield None if there is none."""
    if not may_be_packed(name):
        yield None
        return
    with open_file(root, name + SUFFIX, most + _OVERHEAD) as file:
        if file is not None:
            yield BufferedReader(Unpacked(file, root / (name + SUFFIX), most))
            return
    if file_status(root, name) is None:
        yield None
        return
    with open_file(root, name, most) as file:  # written meanwhile
        yield file


def read_file(root: Path, path: Path | str, most: int = MOST_BYTES) -> bytes | None:
    """Return the content of a regular file within a folder, None if it does not exist; see `open_file`."""
    with open_file(root, path, most) as file:
        if file is None:
            return None
        try:
            content = file.read(most + 1)  # it may grow while it is read
        except OSError as error:
            raise _refused(root, path, _reason(error)) from error
    if len(content) > most:
        raise _refused(root, path, f"more than the limit of {most} bytes")
    return content


def require_file(root: Path, path: Path | str, most: int = MOST_BYTES) -> bytes:
    """Return the content of a regular file within a folder, which must exist; see `open_file`."""
    content = read_file(root, path, most)
    if content is None:
        raise _refused(root, path, os.strerror(errno.ENOENT))
    return content


def list_files(root: Path, path: Path | str = "", *, hidden: bool = False) -> Iterator[Path]:
    """Yield the sorted paths of all files within a folder, or a subfolder, except hidden ones by default.

    Links are yielded but not followed; `read_file` refuses them. Raise `DamagedError` if a folder on the way is a link,
    or there are more than eight levels.
    """
    parts = _parts(root, path) if path else []
    if len(parts) > _MOST_DEPTH:
        raise _refused(root, path, f"more than {_MOST_DEPTH} levels of folders")
    try:
        with _descend(root, parts) as number, os.scandir(number) as entries:
            listed = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
    except OSError as error:
        if _is_absent(error, root, [*parts, ""]):
            return
        raise _refused(root, path, _reason(error)) from error
    for name, is_folder in listed:
        if hidden or not name.startswith("."):
            within = root.joinpath(*parts, name)
            yield from list_files(root, within, hidden=hidden) if is_folder else (within,)


def list_contents(root: Path, path: Path | str = "") -> list[Path]:
    """Return the sorted paths that `list_files` yields, but ``NAME`` for a file that is stored as ``NAME.xz``."""
    return sorted({root / logical(file.relative_to(root).as_posix()) for file in list_files(root, path)})


def files_at(root: Path, path: Path) -> list[Path]:
    """Return the file at a path, or all files below it if it is a folder; none if it does not exist.

    A file that is stored as ``NAME.xz`` is named ``NAME``.
    """
    status = file_status(root, path)
    if status is None:
        return [path] if is_packed(root, path) else []
    return list_contents(root, path) if stat.S_ISDIR(status.st_mode) else [path]


def write_file(root: Path, path: Path | str, content: bytes, mode: int = 0o666) -> None:
    """Write a file within a folder atomically; folders on the way are created.

    ``mode`` is the mode of a new file, before the umask. If there is a ``NAME.xz``, it is removed afterwards; ``NAME``
    is read as long as there are both. Raise `StorageError` if a folder on the way is a link, or the system refuses the
    write. The file is then unchanged.
    """
    *above, last = _parts(root, path)
    with writing(_shown(root, path)):
        root.mkdir(parents=True, exist_ok=True)
    with writing(_shown(root, path)), _descend(root, above, make=True) as folder:
        replace_file(last, content, folder, mode)
        if may_be_packed("/".join((*above, last))):
            with suppress(FileNotFoundError):
                os.unlink(last + SUFFIX, dir_fd=folder)


def write_files(root: Path, files: Mapping[Path, bytes]) -> list[Path]:
    """Write files within a folder, given by their relative paths, and return their paths; see `write_file`."""
    for path, content in files.items():
        write_file(root, root / path, content)
    return [root / path for path in files]


def remove_file(root: Path, path: Path | str) -> None:
    """Remove a file within a folder, if it exists, also as ``NAME.xz``; of a link, the link itself.

    Raise `StorageError` if a folder on the way is a link, or the system refuses.
    """
    *above, last = parts = _parts(root, path)
    with writing(_shown(root, path)):
        try:
            with _descend(root, above) as folder:
                for name in (last + SUFFIX, last) if may_be_packed("/".join(parts)) else (last,):
                    with suppress(FileNotFoundError):
                        os.unlink(name, dir_fd=folder)
        except OSError as error:
            if not _is_absent(error, root, parts):
                raise


def packable_files(root: Path) -> list[Path]:
    """Return the files directly in a folder and its facts that may be compressed and are not."""
    listed = [root / name for name in NAMES] + list(list_files(root, "facts"))
    return [file for file in listed if may_be_packed(file.relative_to(root).as_posix()) and file_status(root, file)]


def unread_files(root: Path) -> list[Path]:
    """Return the compressed files in a folder and its facts that are not read, because there is ``NAME`` too."""
    packed = [file.with_name(file.name + SUFFIX) for file in packable_files(root)]
    return [file for file in packed if file_status(root, file)]


def pack_file(root: Path, path: Path) -> Path:
    """Replace a file by a compressed one and return its path; until it is complete, the other is read."""
    packed = path.with_name(path.name + SUFFIX)
    write_file(root, packed, pack(require_file(root, path)))
    *above, last = _parts(root, path)
    with writing(path), _descend(root, above) as folder:
        os.unlink(last, dir_fd=folder)
    return packed


class LockFile:
    """An open lock file, which is closed when nothing refers to it any more."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        finalize(self, os.close, descriptor).atexit = False


# By device and inode. A process opens a lock file once, as closing a descriptor ends all its locks on that file.
_lock_files: WeakValueDictionary[tuple[int, int], LockFile] = WeakValueDictionary()
_opening = threading.Lock()


def open_lock(root: Path) -> LockFile:
    """Open the lock file of a folder, creating it if needed."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    with _opening, _descend(root, []) as folder:
        with suppress(FileNotFoundError):
            status = os.stat(".lock", dir_fd=folder, follow_symlinks=False)
            if lock := _lock_files.get((status.st_dev, status.st_ino)):
                return lock
        lock = LockFile(os.open(".lock", flags, 0o666, dir_fd=folder))
        status = os.fstat(lock.descriptor)
        _lock_files[status.st_dev, status.st_ino] = lock
        return lock
