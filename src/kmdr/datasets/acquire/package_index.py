"""Find the package indexes that pip is configured with, and the files of a project on them (PEP 503, PEP 691)."""

import ast
import functools
import html.parser
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit
from urllib.request import url2pathname

import requests

from kmdr.base.errors import UserError
from kmdr.datasets.registry import Source

_MAX_PAGE_BYTES = 32 * 2**20


@dataclass(frozen=True)
class Site:
    """An address without its credentials, the credentials (user, password), and how to verify TLS."""

    url: str
    auth: tuple[str, str] | None = None
    verify: str | bool = True


@functools.cache
def package_indexes() -> tuple[Site, ...]:
    """Return the package indexes that pip is configured with, in pip's order.

    pip itself does not download: for a source archive it would run the project's ``setup.py``.
    """
    return indexes_of(_pip("config", "list"), lambda: _pip("download", "--help"))


def _pip(*arguments: str) -> str:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    # On a wide terminal, the default index in the help text is not broken across lines.
    environment = os.environ | {"COLUMNS": "1000", "PYTHONIOENCODING": "utf-8"}
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", env=environment, check=False, timeout=20)
    except subprocess.TimeoutExpired as e:
        raise UserError("pip did not report its package index within 20 seconds") from e
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(f"pip cannot report its package index: {last}")
    return done.stdout


def indexes_of(config: str, help_text: Callable[[], str]) -> tuple[Site, ...]:
    """Return the indexes in the output of ``pip config list`` or, for pip's default, of ``pip download --help``."""
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


def _site(url: str, verify: str | bool) -> Site:
    parts = urlsplit(url)
    auth = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
    return Site(urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])), auth, verify)


def archive_url(site: Site, source: Source, timeout: tuple[float, float]) -> str:
    """Return the address of a source's archive, found on the page of its project on an index."""
    project = re.sub(r"[-_.]+", "-", source.package).lower()
    base = f"{site.url.rstrip('/')}/{project}/"
    for link in links(*_page(site, base, timeout)):
        if unquote(urlsplit(link).path.rpartition("/")[2]) == source.archive:
            return link
    raise UserError(f"the index has no {source.archive}")


def _page(site: Site, base: str, timeout: tuple[float, float]) -> tuple[str, str]:
    if urlsplit(base).scheme == "file":
        folder = Path(url2pathname(urlsplit(base).path))
        page = next((p for p in (folder / "index.html", folder / "index.json") if p.is_file()), None)
        if page is None:
            raise UserError("the folder that serves as package index has no such project")
        return base, page.read_text("utf-8")
    accept = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
    with requests.get(
        base, headers={"Accept": accept}, auth=site.auth, verify=site.verify, timeout=timeout, stream=True
    ) as response:
        response.raise_for_status()
        body = b""
        for chunk in response.iter_content(2**16):
            body += chunk
            if len(body) > _MAX_PAGE_BYTES:
                raise UserError("the index's page is too long")
        return response.url, body.decode("utf-8", "replace")


def links(base: str, text: str) -> list[str]:
    """Return the absolute addresses of the files on a project's page (PEP 503 HTML or PEP 691 JSON)."""
    if text.lstrip().startswith("{"):
        try:
            return [urljoin(base, file["url"]) for file in json.loads(text)["files"]]
        except (ValueError, KeyError, TypeError) as e:
            raise UserError("the index's page does not follow PEP 691") from e
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
