"""Finding and fetching files: only right ones, and never from the network in these tests."""

import bz2
import errno
import fcntl
import gzip
import hashlib
import http.server
import io
import json
import lzma
import re
import socket
import subprocess
import sys
import tarfile
import threading
import time
import types
import zipfile
from pathlib import Path

import pytest
import requests

from kmdr.base import paths
from kmdr.base.errors import UserError
from kmdr.datasets.acquire import archives, package_index
from kmdr.datasets.acquire import find as acquire
from kmdr.datasets.acquire.archives import UnverifiedError, open_decompressed, read_members
from kmdr.datasets.registry import entry

CONTENT = b"some verified bytes\r\n\0"


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


SHA = sha(CONTENT)


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    """An empty cache, no folders of the user's, no package index, and no host but this machine."""
    connect = socket.socket.connect

    def only_loopback(self, address):
        if isinstance(address, tuple) and address[0] == "127.0.0.1":
            return connect(self, address)
        raise OSError("the network is off in tests")

    def no_names(host, *args, **kwargs):
        if host == "127.0.0.1":
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, args[0]))]
        raise socket.gaierror("the network is off in tests")

    monkeypatch.setattr(socket.socket, "connect", only_loopback)
    monkeypatch.setattr(socket, "getaddrinfo", no_names)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy", "KMDR_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(acquire, "package_indexes", tuple)
    for name in ("_silent", "_origins"):
        monkeypatch.setattr(acquire, name, {})
    monkeypatch.setattr(acquire, "_PAUSE_SECONDS", 0.0)


@pytest.fixture
def register(monkeypatch, tmp_path):
    """Make a registry of one dataset `toy` with the given sources."""

    def make(*sources: str, **extra: str):
        lines = [
            "[toy]",
            'title = "Toy"',
            "papers = []",
            "n = 3\nd = 2\nk = 2",
            'licence = ""\ncitation = ""\nformat = "cai_mat"\ncontent_sha256 = ""',
            *(f"{key} = {value}" for key, value in extra.items()),
            f"sources = [{', '.join(sources)}]",
        ]
        path = tmp_path / f"registry-{sha(repr((sources, extra)).encode())[:8]}.toml"
        path.write_text("\n".join(lines))
        monkeypatch.setattr(paths, "REGISTRY", path)
        return entry("toy")

    return make


def local(filename="toy.mat", digest=SHA, more=""):
    return f'{{ kind = "local", filename = "{filename}", sha256 = "{digest}"{more} }}'


def url(address, digest=SHA, more=""):
    return f'{{ kind = "url", url = "{address}", filename = "toy.mat", sha256 = "{digest}"{more} }}'


@pytest.fixture
def server(tmp_path):
    """An HTTP server on this machine: (address, folder it serves, requests it saw)."""
    folder = tmp_path / "served"
    folder.mkdir()
    seen = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(folder))

        def do_GET(self):
            seen.append((self.path, self.headers.get("Authorization")))
            super().do_GET()

        def log_message(self, *args):
            pass

    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{httpd.server_port}", folder, seen
    httpd.shutdown()
    httpd.server_close()


# --- local files


def test_user_folders_are_searched_with_subfolders_and_by_hash(register, monkeypatch, tmp_path):
    first, second = tmp_path / "one", tmp_path / "two" / "deep" / "er"
    first.mkdir()
    second.mkdir(parents=True)
    (first / "toy.mat").write_bytes(b"another file of that name")
    (second / "toy.mat").write_bytes(CONTENT)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KMDR_DATA", f"{first}{acquire.os.pathsep}~/two")
    (file,) = acquire.obtain(register(local()))
    assert file.path == second / "toy.mat"
    assert not (tmp_path / "cache").exists()


def test_cache_comes_before_user_folders(register, monkeypatch, tmp_path):
    toy = register(local())
    for folder in (acquire.raw_folder("toy"), tmp_path / "mine"):
        folder.mkdir(parents=True)
        (folder / "toy.mat").write_bytes(CONTENT)
    monkeypatch.setenv("KMDR_DATA", str(tmp_path / "mine"))
    (file,) = acquire.obtain(toy)
    assert file.path == tmp_path / "cache" / "raw" / "toy" / "toy.mat"


@pytest.mark.parametrize("wrong", [CONTENT[:-1], b"", CONTENT + b"x"])
def test_file_with_wrong_hash_is_refused_and_named(register, monkeypatch, tmp_path, wrong):
    (tmp_path / "toy.mat").write_bytes(wrong)
    monkeypatch.setenv("KMDR_DATA", str(tmp_path))
    toy = register(local())
    with pytest.raises(acquire.UnavailableError, match="wrong SHA-256") as caught:
        acquire.obtain(toy)
    assert caught.value.failed_check
    assert str(tmp_path / "toy.mat") in str(caught.value)
    assert sha(wrong) in str(caught.value)


def test_message_says_what_to_put_where_and_names_a_mistyped_folder(register, monkeypatch, tmp_path):
    monkeypatch.setenv("KMDR_DATA", str(tmp_path / "typo"))
    with pytest.raises(UserError) as caught:
        acquire.obtain(register(local("a.zip"), local("b.zip", "0" * 64)))
    text = str(caught.value)
    assert "put a.zip or b.zip into" in text
    assert str(tmp_path / "cache" / "raw" / "toy") in text
    assert f"KMDR_DATA names {tmp_path / 'typo'}, which is not a folder" in text
    assert not caught.value.failed_check
    assert "\n" not in text


def test_dataset_of_two_parts_gives_them_in_order(register, monkeypatch, tmp_path):
    (tmp_path / "train").write_bytes(b"1")
    (tmp_path / "test").write_bytes(b"2")
    monkeypatch.setenv("KMDR_DATA", str(tmp_path))
    toy = register(local("train", sha(b"1"), ', part = "train"'), local("test", sha(b"2"), ', part = "test"'))
    assert [file.path.name for file in acquire.obtain(toy)] == ["train", "test"]
    (tmp_path / "test").unlink()
    assert acquire.find(toy) is None
    with pytest.raises(acquire.UnavailableError, match="put test into"):
        acquire.obtain(toy)


# --- addresses


def test_download_is_kept_under_its_name_and_not_repeated(register, server):
    address, folder, seen = server
    (folder / "file").write_bytes(CONTENT)
    toy = register(url(f"{address}/file"))
    for _ in range(2):
        (file,) = acquire.obtain(toy)
        assert file.path == acquire.raw_folder("toy") / "toy.mat"
        assert file.path.read_bytes() == CONTENT
    assert [path for path, _ in seen] == ["/file"]
    assert [path.name for path in acquire.raw_folder("toy").iterdir()] == ["toy.mat"]


def test_download_with_wrong_content_leaves_nothing_and_the_next_source_is_tried(register, server):
    address, folder, _ = server
    (folder / "bad").write_bytes(CONTENT[:-3])
    (folder / "good").write_bytes(CONTENT)
    with pytest.raises(acquire.UnavailableError, match="does not have the SHA-256") as caught:
        acquire.obtain(register(url(f"{address}/bad")))
    assert caught.value.failed_check
    assert list(acquire.raw_folder("toy").iterdir()) == []
    (file,) = acquire.obtain(register(url(f"{address}/missing"), url(f"{address}/bad"), url(f"{address}/good")))
    assert file.where == f"{address}/good"


def test_damaged_file_in_the_cache_is_replaced(register, server):
    address, folder, _ = server
    (folder / "file").write_bytes(CONTENT)
    toy = register(url(f"{address}/file"))
    acquire.raw_folder("toy").mkdir(parents=True)
    (acquire.raw_folder("toy") / "toy.mat").write_bytes(CONTENT[:4])
    (file,) = acquire.obtain(toy)
    assert file.path.read_bytes() == CONTENT


def test_download_stops_at_the_size_cap(register, server):
    address, folder, _ = server
    (folder / "file").write_bytes(CONTENT)
    acquire.obtain(register(url(f"{address}/file", more=f", max_bytes = {len(CONTENT)}")))
    (acquire.raw_folder("toy") / "toy.mat").unlink()
    with pytest.raises(acquire.UnavailableError, match=f"more than the allowed {len(CONTENT) - 1} bytes"):
        acquire.obtain(register(url(f"{address}/file", more=f", max_bytes = {len(CONTENT) - 1}")))


def no_answer(calls, error):
    def request(address, **kwargs):
        calls.append((address, kwargs["timeout"]))
        raise error

    return request


@pytest.mark.parametrize(
    ("error", "why", "times"),
    [
        (requests.ConnectTimeout("secret detail"), "no answer in time", 1),
        (requests.ReadTimeout("secret detail"), "no answer in time", 1),
        (requests.ConnectionError("secret detail"), "no connection to the host", 2),
    ],
)
def test_unreachable_hosts_are_asked_once_and_remembered(register, monkeypatch, error, why, times):
    asked = []
    monkeypatch.setattr(requests, "get", no_answer(asked, error))
    toy = register(url("http://data.invalid/a"), url("http://data.invalid/b"), url("http://other.invalid/c"))
    for _ in range(2):
        with pytest.raises(acquire.UnavailableError) as caught:
            acquire.obtain(toy)
        assert caught.value.tried == tuple(
            f"http://{address}: {why}" for address in ("data.invalid/a", "data.invalid/b", "other.invalid/c")
        )
        assert not caught.value.failed_check
        assert "secret" not in str(caught.value)
    # Only a refusal, which takes no time, is asked twice.
    assert [address for address, _ in asked] == ["http://data.invalid/a"] * times + ["http://other.invalid/c"] * times


def test_hosts_that_swallow_all_packets_cost_one_full_wait_and_a_short_one_each(register, monkeypatch):
    asked = []
    monkeypatch.setattr(requests, "get", no_answer(asked, requests.ConnectTimeout()))
    toy = register(*(url(f"http://host{i}.invalid/") for i in range(20)))
    with pytest.raises(acquire.UnavailableError) as caught:
        acquire.obtain(toy)
    assert str(caught.value).count("no answer in time") == 20
    first, *others = [connect for _, (connect, _) in asked]
    assert first <= 5
    assert len(others) == 19
    assert max(others) <= 2


def test_host_that_comes_back_is_reached_by_the_retry(register, monkeypatch, server):
    address, folder, _ = server
    (folder / "file").write_bytes(CONTENT)
    get, calls = requests.get, []

    def flaky(*args, **kwargs):
        calls.append(args)
        if len(calls) == 1:
            raise requests.ConnectionError
        return get(*args, **kwargs)

    monkeypatch.setattr(requests, "get", flaky)
    (file,) = acquire.obtain(register(url(f"{address}/file")))
    assert file.path.read_bytes() == CONTENT


# --- downloads that break off, and what is not the data

LONG = bytes(range(256)) * 2000
LONG_SHA = sha(LONG)


@pytest.fixture
def source():
    """A server of one file on this machine that can be told to misbehave; `source.seen` are the ranges asked for."""
    state = types.SimpleNamespace(
        data=LONG, ranges=True, cuts=[], seen=[], codes=[], length=True, meet=None, stall=None
    )

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            state.seen.append(self.headers.get("Range"))
            if state.codes:
                self.send_error(state.codes.pop(0))
                return
            if state.meet:
                state.meet.wait(30)
            if self.path == "/moved":
                self.send_response(302)
                self.send_header("Location", "/file")
                self.end_headers()
                return
            start = int(self.headers.get("Range", "bytes=0-")[6:-1]) if state.ranges else 0
            if start and start >= len(state.data):
                self.send_error(416)
                return
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(state.data) - 1}/{len(state.data)}")
            if state.length:
                self.send_header("Content-Length", str(len(state.data) - start))
            self.end_headers()
            end = state.cuts.pop(0) if state.cuts else len(state.data)
            self.wfile.write(state.data[start:end])
            if end < len(state.data) and state.stall:
                self.wfile.flush()
                state.stall.wait(60)

        def log_message(self, *args):
            pass

    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True).start()
    state.url = f"http://127.0.0.1:{httpd.server_port}/file"
    yield state
    httpd.shutdown()
    httpd.server_close()


def kept():
    """What the cache holds of `toy`, and how much of each."""
    folder = acquire.raw_folder("toy")
    return {path.name: path.stat().st_size for path in folder.iterdir()} if folder.exists() else {}


PART = f".toy.mat.{LONG_SHA[:16]}.part"


def test_connection_that_breaks_is_gone_on_with(register, source):
    source.cuts = [2**17, 2**18]
    (file,) = acquire.obtain(register(url(source.url, LONG_SHA)))
    assert file.path.read_bytes() == LONG
    assert source.seen == [None, f"bytes={2**17}-", f"bytes={2**18}-"]
    assert kept() == {"toy.mat": len(LONG)}


def test_what_came_is_kept_for_the_next_attempt_and_never_under_the_final_name(register, source):
    source.cuts = [2**14 * (i + 1) for i in range(acquire._TRIES)]
    toy = register(url(source.url, LONG_SHA))
    with pytest.raises(acquire.UnavailableError, match=r"broke after 65536 bytes; the next attempt") as caught:
        acquire.obtain(toy)
    assert not caught.value.failed_check
    assert kept() == {PART: 65536}
    assert acquire.find(toy) is None
    (file,) = acquire.obtain(toy)
    assert file.path.read_bytes() == LONG
    assert source.seen[-1] == "bytes=65536-"
    assert kept() == {"toy.mat": len(LONG)}


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("left", [b"what the file was before it changed", LONG + b"more", LONG])
def test_part_that_does_not_fit_is_thrown_away(register, source, ranges, left):
    source.ranges = ranges
    acquire.raw_folder("toy").mkdir(parents=True)
    (acquire.raw_folder("toy") / PART).write_bytes(left)
    (file,) = acquire.obtain(register(url(source.url, LONG_SHA)))
    assert file.path.read_bytes() == LONG
    assert source.seen[0] == f"bytes={len(left)}-"
    assert len(source.seen) == (1 if left == LONG or not ranges else 2)
    assert kept() == {"toy.mat": len(LONG)}


def test_redirection_is_followed_and_a_part_kept_on_the_way(register, source):
    acquire.raw_folder("toy").mkdir(parents=True)
    (acquire.raw_folder("toy") / PART).write_bytes(LONG[:1000])
    (file,) = acquire.obtain(register(url(source.url.replace("/file", "/moved"), LONG_SHA)))
    assert file.path.read_bytes() == LONG
    assert source.seen == ["bytes=1000-"] * 2
    assert kept() == {"toy.mat": len(LONG)}


@pytest.mark.parametrize("end", [0, 1000, len(LONG) - 1])
def test_truncated_file_is_refused_where_no_length_was_stated(register, source, end):
    source.length, source.cuts = False, [end] * 9
    with pytest.raises(acquire.UnavailableError, match="does not have the SHA-256") as caught:
        acquire.obtain(register(url(source.url, LONG_SHA)))
    assert caught.value.failed_check
    assert kept() == {}


@pytest.mark.parametrize("length", [True, False])
def test_oversized_file_is_refused_before_it_is_kept(register, source, length):
    source.length = length
    with pytest.raises(acquire.UnavailableError, match="more than the allowed 70000 bytes") as caught:
        acquire.obtain(register(url(source.url, LONG_SHA, ", max_bytes = 70000")))
    assert caught.value.failed_check
    assert kept() == {}


@pytest.mark.parametrize("page", [b"<!DOCTYPE html>\n<p>Moved", b"\xef\xbb\xbf \r\n<HTML lang=en>", b"<head></head>"])
def test_web_page_instead_of_the_data_is_named_as_such(register, source, page):
    source.data = page + LONG
    with pytest.raises(
        acquire.UnavailableError, match=r"the server sent a web page \(HTML\) instead of the data"
    ) as caught:
        acquire.obtain(register(url(source.url, LONG_SHA)))
    assert caught.value.failed_check
    assert kept() == {}


def test_server_that_is_busy_is_asked_again_but_one_that_says_no_is_not(register, source):
    source.codes = [503]
    toy = register(url(source.url, LONG_SHA))
    acquire.obtain(toy)
    assert len(source.seen) == 2
    (acquire.raw_folder("toy") / "toy.mat").unlink()
    source.codes = [404]
    with pytest.raises(acquire.UnavailableError, match="404") as caught:
        acquire.obtain(toy)
    assert len(source.seen) == 3
    assert not caught.value.failed_check


def test_part_that_another_process_writes_is_left_alone(register, source):
    acquire.raw_folder("toy").mkdir(parents=True)
    with (acquire.raw_folder("toy") / PART).open("wb") as theirs:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        theirs.write(b"theirs")
        theirs.flush()
        (file,) = acquire.obtain(register(url(source.url, LONG_SHA)))
    assert file.path.read_bytes() == LONG
    assert kept() == {"toy.mat": len(LONG), PART: 6}
    assert source.seen == [None]


def test_a_folder_that_cannot_be_written_to_is_not_a_missing_file(register, source, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(acquire, "temporary_folder", refuse)
    with pytest.raises(acquire.UnwritableError, match=r"cannot write .*raw/toy \(Permission denied\); set KMDR_CACHE"):
        acquire.obtain(register(url(source.url, LONG_SHA)))


def test_without_locks_nothing_is_left_beside_the_file(register, source, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    (file,) = acquire.obtain(register(url(source.url, LONG_SHA)))
    assert file.path.read_bytes() == LONG
    assert kept() == {"toy.mat": len(LONG)}


@pytest.mark.parametrize(("terminal", "size", "shown"), [(True, 5e6, True), (False, 5e6, False), (True, 5e5, False)])
def test_progress_bar_is_for_long_files_on_a_terminal(register, source, monkeypatch, capsys, terminal, size, shown):
    source.data = bytes(int(size))
    monkeypatch.setattr(acquire.sys.stderr, "isatty", lambda: terminal, raising=False)
    acquire.obtain(register(url(source.url, sha(source.data))))
    out, err = capsys.readouterr()
    assert ("file" in err) is shown
    assert out == ""


ELSEWHERE = """
import sys
from pathlib import Path
from kmdr.base import paths
paths.REGISTRY = Path(sys.argv[1])
from kmdr.datasets import registry
from kmdr.datasets.acquire import find
find.package_indexes = tuple
print(find.obtain(registry.entry("toy"))[0].path.stat().st_size, flush=True)
"""


def elsewhere():
    """Another process that gets `toy` into the same cache."""
    command = [sys.executable, "-c", ELSEWHERE, str(paths.REGISTRY)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_two_processes_that_get_the_same_dataset_at_once_both_succeed(register, source):
    toy = register(url(source.url, LONG_SHA))
    source.meet = threading.Barrier(2)  # no answer before both have asked
    processes = [elsewhere(), elsewhere()]
    assert [process.communicate(timeout=60)[0] for process in processes] == [f"{len(LONG)}\n"] * 2
    assert acquire.find(toy)[0].path.read_bytes() == LONG
    assert kept() == {"toy.mat": len(LONG)}


@pytest.mark.slow
def test_download_that_was_killed_is_gone_on_with(register, source):
    toy = register(url(source.url, LONG_SHA))
    source.cuts, source.stall = [2**17], threading.Event()
    process = elsewhere()
    deadline = time.monotonic() + 60
    while kept().get(PART, 0) < 2**17 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.communicate()
    source.stall.set()
    assert kept()[PART] == 2**17
    assert "toy.mat" not in kept()
    (file,) = acquire.obtain(toy)
    assert file.path.read_bytes() == LONG
    assert source.seen[-1] == f"bytes={2**17}-"
    assert PART not in kept()


# --- the package index


def tar_of(**members: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name.replace("__", "/"))
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


SDIST = tar_of(pkg__setup=b"raise SystemExit('setup.py was run')", pkg__toy=CONTENT)
SDIST_SHA = sha(SDIST)


def member(name="pkg/toy", digest=SHA):
    return f'member = "{name}", member_sha256 = "{digest}"'


TOY = member()


def package(more=TOY, digest=SDIST_SHA):
    head = 'kind = "package", package = "My_Toy.pkg", version = "1.0", archive = "My_Toy.pkg-1.0.tar.gz"'
    return f'{{ {head}, sha256 = "{digest}"{", " * bool(more)}{more} }}'


HTML = """<!DOCTYPE html><html><body><h1>Links</h1>
<a href="../../files/My_Toy.pkg-0.9.tar.gz#sha256=00" data-requires-python="&gt;=3">My_Toy.pkg-0.9.tar.gz</a>
<a href="../../files/My%5FToy.pkg-1.0.tar.gz#sha256=00">My_Toy.pkg-1.0.tar.gz</a></body></html>"""
JSON = json.dumps({"meta": {"api-version": "1.0"}, "files": [{"url": "../../files/My_Toy.pkg-1.0.tar.gz"}]})


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A package index in a folder."""
    project = tmp_path / "index" / "simple" / "my-toy-pkg"
    project.mkdir(parents=True)
    files = tmp_path / "index" / "files"
    files.mkdir()
    (files / "My_Toy.pkg-1.0.tar.gz").write_bytes(SDIST)
    (files / "My_Toy.pkg-0.9.tar.gz").write_bytes(b"old")
    site = package_index.indexes_of(f"global.index-url={str((tmp_path / 'index' / 'simple').as_uri())!r}", str)
    monkeypatch.setattr(acquire, "package_indexes", lambda: site)
    return project


@pytest.mark.parametrize(("name", "page"), [("index.html", HTML), ("index.json", JSON), ("index.html", JSON)])
def test_member_of_a_package_archive_is_kept_and_nothing_is_run(register, index, name, page):
    (index / name).write_text(page)
    (file,) = acquire.obtain(register(package()))
    assert file.path == acquire.raw_folder("toy") / "toy"
    assert file.path.read_bytes() == CONTENT
    assert [path.name for path in acquire.raw_folder("toy").iterdir()] == ["toy"]


def test_archive_without_member_is_kept_itself(register, index):
    (index / "index.html").write_text(HTML)
    (file,) = acquire.obtain(register(package(more="")))
    assert file.path.name == "My_Toy.pkg-1.0.tar.gz"
    assert file.path.read_bytes() == SDIST


def test_package_archive_in_a_user_folder_serves_too(register, monkeypatch, tmp_path):
    (tmp_path / "My_Toy.pkg-1.0.tar.gz").write_bytes(SDIST)
    monkeypatch.setenv("KMDR_DATA", str(tmp_path))
    (file,) = acquire.obtain(register(package()))
    assert file.path.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("source", "failed", "reason"),
    [
        (package(digest="0" * 64), True, "does not have the SHA-256"),
        (package(member("pkg/other")), True, "no member pkg/other"),
        (package(member(digest="0" * 64)), True, "wrong SHA-256"),
        (package().replace("1.0.tar", "2.0.tar"), False, "the index has no My_Toy.pkg-2.0.tar.gz"),
        (package().replace('"My_Toy.pkg"', '"nobody"'), False, "no such project"),
    ],
)
def test_package_source_that_fails(register, index, source, failed, reason):
    (index / "index.html").write_text(HTML)
    with pytest.raises(acquire.UnavailableError, match=reason) as caught:
        acquire.obtain(register(source))
    assert caught.value.failed_check is failed
    assert list(acquire.raw_folder("toy").glob("*")) == []


def test_second_index_is_asked_when_the_first_has_no_such_project(register, index, monkeypatch, tmp_path):
    (index / "index.html").write_text(HTML)
    (tmp_path / "empty").mkdir()
    sites = (package_index._site((tmp_path / "empty").as_uri(), True), *acquire.package_indexes())
    monkeypatch.setattr(acquire, "package_indexes", lambda: sites)
    (file,) = acquire.obtain(register(package()))
    assert file.path.read_bytes() == CONTENT


def test_silent_index_is_asked_once_and_the_next_one_serves(register, index, monkeypatch):
    (index / "index.html").write_text(HTML)
    asked = []
    sites = (package_index.Site("https://silent.invalid/simple"), *acquire.package_indexes())
    monkeypatch.setattr(acquire, "package_indexes", lambda: sites)
    monkeypatch.setattr(requests, "get", no_answer(asked, requests.ConnectTimeout()))
    toy = register(package())
    for _ in range(2):
        (file,) = acquire.obtain(toy)
        assert file.path.read_bytes() == CONTENT
        file.path.unlink()
    assert [address for address, _ in asked] == ["https://silent.invalid/simple/my-toy-pkg/"]


def test_index_over_http_gets_its_password_and_messages_do_not(register, monkeypatch, server):
    address, folder, seen = server
    project = folder / "simple" / "my-toy-pkg"
    project.mkdir(parents=True)
    (folder / "files").mkdir()
    (project / "index.html").write_text(HTML)
    (folder / "files" / "My_Toy.pkg-1.0.tar.gz").write_bytes(SDIST)
    with_password = address.replace("//", "//me:hush@") + "/simple"
    sites = package_index.indexes_of(f":env:.index-url={with_password!r}", str)
    monkeypatch.setattr(acquire, "package_indexes", lambda: sites)
    acquire.obtain(register(package()))
    assert {auth for _, auth in seen} == {requests.auth._basic_auth_str("me", "hush")}
    with pytest.raises(acquire.UnavailableError) as caught:
        acquire.obtain(register(package().replace('"My_Toy.pkg"', '"nobody"').replace("pkg/toy", "pkg/new")))
    assert "404" in str(caught.value)
    assert "hush" not in str(caught.value)


def test_page_of_a_remote_index_cannot_point_to_a_local_file(register, monkeypatch, tmp_path):
    (tmp_path / "secret").write_bytes(CONTENT)
    site = package_index._site("https://index.invalid/simple", True)
    with pytest.raises((UserError, requests.RequestException)):
        acquire._fill(site, (tmp_path / "secret").as_uri(), io.BytesIO(), 100)
    monkeypatch.setattr(acquire, "package_indexes", lambda: (site,))
    monkeypatch.setattr(acquire, "archive_url", lambda *_: (tmp_path / "secret").as_uri())
    with pytest.raises(acquire.UnavailableError, match="No connection adapters"):
        acquire.obtain(register(package()))


def test_links_honour_the_base_of_the_page():
    page = '<html><head><base href="https://files.invalid/x/"></head><a href="a.whl">a.whl</a></html>'
    assert package_index.links("https://index.invalid/simple/a/", page) == ["https://files.invalid/x/a.whl"]
    with pytest.raises(UserError, match="PEP 691"):
        package_index.links("https://index.invalid/", "{}")


HELP = "  -i, --index-url <url>  Base URL of the index (default https://default.invalid/simple). This should\n"


def test_indexes_follow_pips_precedence():
    config = "\n".join(
        [
            ":env:.index-url='https://env.invalid/simple'",
            "download.extra-index-url='https://x.invalid/s\\nhttps://y.invalid/s https://x.invalid/s'",
            "global.cert='/some/bundle.pem'",
            "global.index-url='https://global.invalid/simple'",
            "install.index-url='https://install.invalid/simple'",
        ]
    )
    sites = package_index.indexes_of(config, lambda: HELP)
    assert [site.url for site in sites] == ["https://env.invalid/simple", "https://x.invalid/s", "https://y.invalid/s"]
    assert {site.verify for site in sites} == {"/some/bundle.pem"}


def test_default_index_is_read_from_pips_help():
    (site,) = package_index.indexes_of("", lambda: HELP)
    assert (site.url, site.verify, site.auth) == ("https://default.invalid/simple", True, None)
    assert package_index.indexes_of("global.no-index='1'\n", lambda: HELP) == ()


def test_real_pip_is_understood(monkeypatch):
    monkeypatch.undo()
    for name in list(acquire.os.environ):
        if name.startswith("PIP_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", acquire.os.devnull)
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://u:p@one.invalid/simple https://two.invalid/simple")
    sites = acquire.package_indexes.__wrapped__()
    assert len(sites) == 3
    assert sites[0].url.startswith("https://")
    assert sites[0].url.endswith("/simple")
    assert sites[1] == package_index.Site("https://one.invalid/simple", ("u", "p"))


# --- archives


def zip_of(members) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return out.getvalue()


def everything(_: str) -> bool:
    return True


@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "/etc/evil", "..\\evil", "C:\\evil"])
@pytest.mark.parametrize("pack", ["zip", "tar"])
def test_archive_with_a_name_outside_it_is_refused(tmp_path, name, pack):
    path = tmp_path / "archive"
    path.write_bytes(zip_of([("good", b"1"), (name, b"2")]) if pack == "zip" else tar_of(**{"good": b"1", name: b"2"}))
    with pytest.raises(UnverifiedError, match="outside"):
        read_members(path, lambda member: member == "good", 100)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_archive_with_a_name_twice_is_refused(tmp_path):
    (tmp_path / "a.zip").write_bytes(zip_of([("x", b"1"), ("x", b"2")]))
    (tmp_path / "b.zip").write_bytes(zip_of([("d/x", b"1"), ("d/./x", b"2")]))
    for path in tmp_path.iterdir():
        with pytest.raises(UnverifiedError, match="two members"):
            read_members(path, everything, 100)


def test_archive_that_unpacks_to_too_much_is_refused(tmp_path):
    path = tmp_path / "bomb"
    for data in (zip_of([("x", bytes(10**6))]), zip_of([("x", bytes(600)), ("y", bytes(600))]), tar_of(x=bytes(1001))):
        path.write_bytes(data)
        with pytest.raises(UnverifiedError, match="more than the allowed size"):
            read_members(path, everything, 1000)


def test_link_in_a_tar_is_refused(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        info = tarfile.TarInfo("link")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/hostname"
        archive.addfile(info)
    with pytest.raises(UnverifiedError, match="not a regular file"):
        read_members(tmp_path / "a.tar", everything, 1000)


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"no archive", lambda b: b""])
@pytest.mark.parametrize("data", [zip_of([("x", bytes(range(256)) * 9)]), tar_of(x=bytes(range(256)) * 9)])
def test_truncated_archive_is_refused(tmp_path, data, damage):
    (tmp_path / "a").write_bytes(damage(data))
    with pytest.raises(UnverifiedError, match="cannot be read"):
        read_members(tmp_path / "a", everything, 10**6)


def test_member_with_flipped_bits_is_refused(tmp_path):
    data = bytearray(zip_of([("x", bytes(range(256)) * 9)]))
    data[60] ^= 0xFF
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(UnverifiedError):
        read_members(tmp_path / "a", everything, 10**6)


def test_members_are_read_as_they_are(tmp_path):
    for data in (zip_of([("d/", b""), ("d/x", CONTENT), ("y", b"2")]), tar_of(d__x=CONTENT, y=b"2")):
        (tmp_path / "a").write_bytes(data)
        assert read_members(tmp_path / "a", lambda name: name == "d/x", 100) == {"d/x": CONTENT}


@pytest.mark.parametrize("pack", ["zip", "tar"])
def test_bomb_is_refused_by_its_ratio_whatever_the_cap(tmp_path, monkeypatch, pack):
    """A member that is not wanted costs nothing in a zip, but has to be unpacked in a tar to get behind it."""
    monkeypatch.setattr(archives, "_FLOOR_BYTES", 10**6)
    path = tmp_path / "bomb"
    zeros = bytes(5 * 10**6)
    path.write_bytes(zip_of([("x", zeros), ("y", b"2")]) if pack == "zip" else tar_of(x=zeros, y=b"2"))
    with pytest.raises(UnverifiedError, match="more than the allowed size"):
        read_members(path, everything, 10**9)
    if pack == "zip":
        assert read_members(path, lambda name: name == "y", 10**9) == {"y": b"2"}
    else:
        with pytest.raises(UnverifiedError, match="more than the allowed size"):
            read_members(path, lambda name: name == "y", 10**9)


def test_an_encrypted_member_of_a_zip_is_refused_by_its_name_but_others_are_read(tmp_path):
    data = bytearray(zip_of([("secret", b"1"), ("plain", b"2")]))
    data[data.index(b"PK\x01\x02") + 8] |= 1  # the flag in the central directory, which readers follow
    data[6] |= 1
    path = tmp_path / "a.zip"
    path.write_bytes(data)
    assert archives.read_members(path, "plain".__eq__, 100) == {"plain": b"2"}
    with pytest.raises(UserError, match=r"'secret' in archive a\.zip is encrypted; unpack it and name the file"):
        archives.read_members(path, lambda name: True, 100)


def test_link_in_a_zip_is_refused(tmp_path):
    info = zipfile.ZipInfo("link")
    info.create_system, info.external_attr = 3, 0o120777 << 16
    (tmp_path / "a.zip").write_bytes(zip_of([(info, "/etc/hostname")]))
    with pytest.raises(UnverifiedError, match="not a regular file"):
        read_members(tmp_path / "a.zip", everything, 1000)


PACKERS = {"bz2": bz2.compress, "gz": gzip.compress, "xz": lzma.compress, "txt": bytes}


@pytest.mark.parametrize("pack", PACKERS)
def test_compressed_file_is_a_stream_of_its_content(tmp_path, pack):
    content = b"1 3:0.5 7:1\n" * 50_000
    path = tmp_path / f"data.{pack}"
    path.write_bytes(PACKERS[pack](content))
    for cap in (len(content), len(content) + 1):
        with open_decompressed(path, cap) as stream:
            assert sum(1 for line in stream if line == b"1 3:0.5 7:1\n") == 50_000
    with open_decompressed(path, len(content)) as stream:
        assert stream.read() == content
    path.write_bytes(PACKERS[pack](b""))
    with open_decompressed(path, 0) as stream:
        assert stream.read() == b""


@pytest.mark.parametrize("pack", PACKERS)
def test_compressed_bomb_is_refused_at_the_cap(tmp_path, pack):
    path = tmp_path / f"data.{pack}"
    path.write_bytes(PACKERS[pack](bytes(3 * 10**6)))
    with open_decompressed(path, 10**6) as stream:
        assert len(stream.read(900_000)) == 900_000
        with pytest.raises(UnverifiedError, match="more than the allowed size"):
            stream.read()


@pytest.mark.parametrize("pack", ["bz2", "gz", "xz"])
@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b[:40] + bytes(9) + b[49:]])
def test_damaged_compressed_file_is_refused(tmp_path, pack, damage):
    path = tmp_path / f"data.{pack}"
    path.write_bytes(damage(PACKERS[pack](bytes(range(256)) * 9)))
    with open_decompressed(path, 10**6) as stream, pytest.raises(UnverifiedError, match="cannot be read"):
        stream.read()


# --- the registry


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ('{ kind = "ftp" }', "kind of source"),
        ('{ kind = "local", filename = "x" }', "lacks sha256"),
        (local("../x"), "has a folder"),
        (local(digest="abc"), "no valid sha256"),
        (local(more=', colour = "red"'), "colour"),
        (package('member = "pkg/toy"'), "both of member and member_sha256"),
    ],
)
def test_malformed_registry_is_a_user_error(register, source, reason):
    with pytest.raises(UserError, match=reason):
        register(source)


def test_modules_name_no_host():
    for path in Path(acquire.__file__).parent.glob("*.py"):
        assert re.findall(r"://[\w.-]|\b[\w-]+\.(?:com|edu|io|net|org)\b", path.read_text("utf-8")) == [], path
