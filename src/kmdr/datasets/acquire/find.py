"""Find or fetch the files of a dataset.

The order is: the cache; the folders of ``KMDR_DATA``; the sources of the registry entry. No file is opened, and none
gets its final name in the cache, before its SHA-256 is verified. An interrupted download is kept in the same folder as
``.NAME.HASH.part``, and the next one resumes it.

A process does not ask a host again that did not answer, and gives further hosts less time to connect.
"""

import errno
import hashlib
import os
import re
import stat
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit
from urllib.request import url2pathname

import requests
from tqdm import tqdm

from kmdr.base.errors import UserError
from kmdr.base.files import StorageError, flush, lock, temporary_folder, write_atomically
from kmdr.base.paths import cache_folder, with_home
from kmdr.base.text import single_line, unescaped
from kmdr.datasets.acquire.archives import UnverifiedError, read_members
from kmdr.datasets.acquire.package_index import Site, archive_url, package_indexes
from kmdr.datasets.registry import Entry, Source

_CONNECT_SECONDS, _READ_SECONDS = 5.0, 60.0
# Time to connect once some host has not answered.
_LATER_SECONDS = 2.0
# Number of requests for one file, each resuming the previous one, before a download counts as failed.
_TRIES = 4
_PAUSE_SECONDS = 1.0
_BUSY = frozenset({429, 500, 502, 503, 504})
_CHUNK_BYTES = 2**14
_BAR_BYTES = 4 * 2**20
_HTML = re.compile(rb"(\xef\xbb\xbf)?\s*<(!doctype\s+html|html|head|body|script|meta)\b", re.IGNORECASE)
_UNWRITABLE = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO),
    *(errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR),
}
_WRONG_HASH = "the downloaded file does not have the SHA-256 of the registry"

# Error message of each host that did not answer this process.
_silent: dict[str, str] = {}
_pip_lock = threading.Lock()
_origins: dict[Path, str] = {}


def forget_hosts() -> None:
    """Ask hosts that did not answer, and pip's configuration, again."""
    _silent.clear()
    package_indexes.cache_clear()


class UnwritableError(UserError):
    """A folder of the cache cannot be written to, so that no source would help."""

    def __init__(self, folder: Path, error: BaseException) -> None:
        reason = getattr(error, "strerror", None) or error
        super().__init__(
            f"cannot write {folder} ({reason}); set KMDR_CACHE to a writable folder with free space, or free space "
            "there and run again: complete files are kept"
        )


class UnavailableError(UserError):
    """A dataset is not available now.

    `failed_check` is True if a file was found or downloaded but failed its check. `tried` has each thing that was
    tried, with its result.
    """

    def __init__(self, message: str, failed_check: bool = False, tried: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.failed_check = failed_check
        self.tried = tried


@dataclass(frozen=True)
class Found:
    """A verified file, the matching source, and where it came from in words."""

    path: Path
    source: Source
    where: str


def raw_folder(name: str) -> Path:
    """Return the folder of the cache for a dataset's files as they were obtained."""
    return cache_folder() / "raw" / name


def obtain(entry: Entry) -> tuple[Found, ...]:
    """Find or download one verified file for each part of a dataset, in the order of ``entry.parts``.

    If one is not available, the error says what was tried, and which file to put where.
    """
    return tuple(_obtain(entry, part) for part in entry.parts)


def find(entry: Entry) -> tuple[Found, ...] | None:
    """Find the files in the cache and the folders of ``KMDR_DATA`` only, without network and without writing.

    A package archive is returned as it is, not unpacked. The result is None if a part is missing.
    """
    files = [_find(entry.name, _sources(entry, part), []) for part in entry.parts]
    return None if None in files else tuple(f for f in files if f is not None)


def _sources(entry: Entry, part: str) -> list[Source]:
    return [source for source in entry.sources if source.part == part]


def _obtain(entry: Entry, part: str) -> Found:
    """Return the file of one part: from the cache, else from a user's folder, else downloaded."""
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
    tried += [f"KMDR_DATA names {folder}, which is not a folder" for folder in absent]
    tried = tried or ["not in the cache and not in a folder of KMDR_DATA"]
    raise UnavailableError(
        f"dataset {entry.name!r} is not available ({'; '.join(tried)}); "
        f"put {wanted} into {raw_folder(entry.name)} or into a folder that KMDR_DATA names",
        failed_check,
        tuple(tried),
    )


def _accepted_files(sources: Iterable[Source]) -> Iterator[tuple[str, str, Source]]:
    """Yield name and SHA-256 of the files that loaders read and of the archives that contain them."""
    for source in sources:
        yield source.filename, source.sha256, source
        if source.archive:
            yield source.archive, source.archive_sha256, source


def file_names(sources: Iterable[Source]) -> dict[str, str]:
    """Return the SHA-256 by name of the files of which one suffices."""
    names: dict[str, str] = {}
    for name, digest, _ in _accepted_files(sources):
        names.setdefault(name, digest)
    return names


def _find(name: str, sources: list[Source], wrong: list[str]) -> Found | None:
    """Return the first file with a right name and hash; describe files with a wrong hash in `wrong`."""
    hashes: dict[tuple[str, str], Source] = {}
    for filename, digest, source in _accepted_files(sources):
        hashes.setdefault((filename, digest), source)
    for path in local_files(name, {filename for filename, _ in hashes}):
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
    """Yield the files with given names in the cache folder of a dataset, then in the folders of ``KMDR_DATA``."""
    for filename in sorted(wanted):
        if (raw_folder(name) / filename).is_file():
            yield raw_folder(name) / filename
    for folder in user_folders():
        for base, folders, files in os.walk(folder):
            folders.sort()
            paths = (Path(base, file) for file in sorted(wanted & set(files)))
            yield from (path for path in paths if path.is_file())  # reading a pipe or a device may never end


def user_folders() -> list[Path]:
    """Return the folders that ``KMDR_DATA`` names, in its order."""
    return [with_home(folder, "KMDR_DATA =") for folder in os.environ.get("KMDR_DATA", "").split(os.pathsep) if folder]


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- downloading ----------------------------------------------------------------------------------------------------


def _raise_unwritable(folder: Path, error: Exception) -> None:
    if isinstance(error, UnwritableError):
        raise error
    if isinstance(error, OSError) and not isinstance(error, requests.RequestException) and error.errno in _UNWRITABLE:
        raise UnwritableError(folder, error) from error


def _fetch(name: str, source: Source) -> Path:
    folder = raw_folder(name)
    if source.kind == "url":
        path = folder / source.filename
        return _download(Site(source.url), source.url, path, source.sha256, source.max_bytes, folder)
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
    raise failed("; ".join(tried) or "pip has no package index configured")


def _fetch_from_index(name: str, source: Source, site: Site) -> Path:
    folder = raw_folder(name)
    with _remember_silent_host(site.url):
        url = archive_url(site, source, _timeout())
    if urlsplit(url).scheme == "file" == urlsplit(site.url).scheme:
        archive = Path(url2pathname(urlsplit(url).path))
        if sha256_of(archive) != source.archive_sha256:
            raise UnverifiedError(_WRONG_HASH)
        return _keep_member(name, source, archive) if source.member else _keep(name, source, archive.read_bytes())
    if not source.member:
        return _download(site, url, folder / source.filename, source.sha256, source.max_bytes, folder)
    with temporary_folder(folder) as private:
        path = private / source.archive
        _download(site, url, path, source.archive_sha256, source.max_bytes, folder)
        return _keep_member(name, source, path)


def _keep_member(name: str, source: Source, archive: Path) -> Path:
    """Copy the needed member of a verified archive to the cache."""
    members = read_members(archive, lambda member: member == source.member, source.max_bytes)
    if source.member not in members:
        raise UnverifiedError(f"{archive.name} has no member {source.member}")
    data = members[source.member]
    if hashlib.sha256(data).hexdigest() != source.sha256:
        raise UnverifiedError(f"{source.member} in {archive.name} has the wrong SHA-256")
    return _keep(name, source, data)


def _keep(name: str, source: Source, data: bytes) -> Path:
    target = raw_folder(name) / source.filename
    try:
        write_atomically(target, data, private=True)
    except StorageError as e:
        raise UnwritableError(target.parent, e.__cause__ or e) from e
    return target


def _download(site: Site, url: str, target: Path, sha256: str, max_bytes: int, parts: Path) -> Path:
    """Download a file, verify it and only then rename it to `target`; `parts` is the folder of unfinished downloads."""
    with temporary_folder(target.parent) as private:
        for last_try in (False, True):
            with _part(parts, target.name, sha256, private) as file:
                resumed = _fill(site, url, file, max_bytes)
                flush(file)
                if sha256_of(Path(file.name)) == sha256:
                    os.fchmod(file.fileno(), 0o600)
                    return Path(file.name).replace(target)
                if last_try or not resumed:
                    raise UnverifiedError(_WRONG_HASH)
                file.truncate(0)  # the file at the source may have changed since its first part was downloaded
    raise AssertionError


def _shared_part(path: Path) -> IO[bytes] | None:
    """Open and lock an unfinished download; return None if another process has it, or it is a link."""
    try:
        file = open(path, "a+b", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o666))  # noqa: SIM115
    except OSError as e:
        if e.errno in _UNWRITABLE:
            raise
        return None
    locked, status = lock(file.fileno(), wait=False), os.fstat(file.fileno())
    # Another process may have completed it, and so renamed it, after it was opened here.
    with suppress(OSError):
        if locked and stat.S_ISREG(status.st_mode) and os.path.samestat(status, path.stat()):
            return file
    if locked is None and not status.st_size:  # without locks it cannot be shared
        path.unlink(missing_ok=True)
    file.close()
    return None


@contextmanager
def _part(folder: Path, filename: str, sha256: str, private: Path) -> Iterator[IO[bytes]]:
    """Open the file that a download is appended to.

    It contains what an earlier download of the same content left, from whatever source. While another process uses that
    file, it is a new one in the folder `private`. A file with wrong content is not kept.
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
    """Append the rest of a download to a file; return whether its first part is from an earlier request."""
    refused = False
    with _remember_silent_host(url):
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
                    raise UserError(f"the connection broke after {size} bytes; the next attempt resumes there") from e
    raise AssertionError


@contextmanager
def _remember_silent_host(url: str) -> Iterator[None]:
    """Fail at once for a host that did not answer before, and remember a host that does not."""
    host = urlsplit(url).netloc
    if host in _silent:
        raise UserError(_silent[host])
    try:
        yield
    except (requests.ConnectionError, requests.Timeout) as e:
        _silent[host] = _short(e)
        raise


def _timeout() -> tuple[float, float]:
    """Return the seconds to wait for a connection and for each answer. Offline, only the first host takes long."""
    return _LATER_SECONDS if _silent else _CONNECT_SECONDS, _READ_SECONDS


def _request(site: Site, url: str, file: IO[bytes], start: int, max_bytes: int) -> bool:
    """Append the rest of a download to a file of `start` bytes; return whether these were kept."""
    # Offsets count bytes of the file itself, not of a compressed encoding.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    # A password is sent only to the host that it was given for.
    auth = site.auth if urlsplit(url).netloc == urlsplit(site.url).netloc else None
    with requests.get(url, headers=headers, auth=auth, verify=site.verify, timeout=_timeout(), stream=True) as response:
        if start and response.status_code == requests.codes.requested_range_not_satisfiable:
            return True  # the file may be complete, which its hash shows
        response.raise_for_status()
        if start and not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
            start = file.truncate(0)
        length = int(response.headers.get("Content-Length", 0))
        size = start
        if size + length > max_bytes:
            raise UnverifiedError(f"the file has {size + length} bytes, more than the allowed {max_bytes} bytes")
        with tqdm(
            desc=single_line(Path(urlsplit(url).path).name), total=length, unit="B", unit_scale=True, leave=False,
            dynamic_ncols=True, file=unescaped(sys.stderr), disable=length < _BAR_BYTES or not sys.stderr.isatty(),
        ) as progress:  # fmt: skip
            for chunk in response.iter_content(_CHUNK_BYTES):
                if not size and _HTML.match(chunk):
                    raise UnverifiedError("the server sent a web page (HTML) instead of the data")
                size += len(chunk)
                if size > max_bytes:
                    raise UnverifiedError(f"the file has more than the allowed {max_bytes} bytes")
                file.write(chunk)
                progress.update(len(chunk))
    return start > 0


def _short(error: Exception) -> str:
    """Return an error message in one line, without passwords."""
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    if isinstance(error, requests.ConnectionError):
        return "no connection to the host"
    if isinstance(error, OSError) and not isinstance(error, requests.RequestException):
        return f"{error.strerror}: {error.filename}" if error.strerror else str(error)
    return re.sub(r"//[^/@\s]*@", "//", " ".join(str(error).split()))
