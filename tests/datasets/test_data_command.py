"""The command ``kmdr data``: what is there, getting it, and where to put what cannot be got."""

import hashlib
import socket
import sys

import numpy as np
import pytest
import requests
import scipy.io

from kmdr import datasets
from kmdr.base import paths
from kmdr.cli.commands import main
from kmdr.datasets.acquire import find as acquire

ONE = """
[{name}]
title = "{name}"
papers = []
n = 3
d = 3
k = 2
licence = "licence of {name}"
citation = ""
format = "cai_mat"
content_sha256 = "{content}"
sources = [{sources}]
"""


@pytest.fixture(autouse=True)
def shelf(monkeypatch, tmp_path):
    """A registry of `mine` (manual), `theirs` (from a host that is not there) and `made`; and no network at all."""

    def off(*args, **kwargs):
        raise OSError("the network is off in tests")

    monkeypatch.setattr(socket.socket, "connect", off)
    monkeypatch.setattr(socket, "getaddrinfo", off)
    monkeypatch.setattr(acquire, "package_indexes", tuple)
    for name in ("_silent", "_origins"):
        monkeypatch.setattr(acquire, name, {})
    monkeypatch.delenv("KMDR_DATA", raising=False)
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    scipy.io.savemat(shelf / "mine.mat", {"fea": np.eye(3), "gnd": np.array([[1], [2], [1]])})
    digest = hashlib.sha256((shelf / "mine.mat").read_bytes()).hexdigest()

    local = f'{{ kind = "local", filename = "mine.mat", sha256 = "{digest}" }}'
    remote = local.replace('"local"', '"url", url = "http://data.invalid/theirs.mat"').replace("mine", "theirs")
    made = ONE.format(name="made", content="", sources="").replace("cai_mat", "synth").replace("d = 3", "d = 4")
    path = tmp_path / "registry.toml"
    path.write_text(
        ONE.format(name="mine", content="", sources=local)
        + ONE.format(name="theirs", content="", sources=remote)
        + made
        + "options = { n = 3, d = 4, k = 2, side = 2000.0, sigma = 1.0, seed = 0 }\n"
    )
    monkeypatch.setattr(paths, "REGISTRY", path)
    return shelf


def data(monkeypatch, capsys, *arguments):
    """Run ``kmdr data``; return its exit status and the lines on standard output and on standard error."""
    monkeypatch.setattr(sys, "argv", ["kmdr", "data", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    out, err = capsys.readouterr()
    return stop.value.code, out.splitlines(), err.splitlines()


def test_status_goes_through_the_states_without_network_and_without_writing(monkeypatch, capsys, tmp_path, shelf):
    def none(*args, **kwargs):
        raise AssertionError("status asked a host")

    monkeypatch.setattr(requests, "head", none)
    monkeypatch.setattr(requests, "get", none)
    code, lines, err = data(monkeypatch, capsys)
    assert (code, err) == (0, [])
    assert [line.split()[0] for line in lines] == ["dataset", "mine", "theirs", "made"]
    columns = [lines[0].index(title) for title in ("state", "on disk", "licence", "source")]
    assert [lines[1][at:].split("  ")[0] for at in columns] == [
        "manual", "-", "licence of mine", "local file mine.mat"
    ]  # fmt: skip
    assert [line[columns[0] :].split("  ")[0] for line in lines[2:]] == ["remote", "generated"]
    assert not (tmp_path / "cache").exists()
    monkeypatch.setenv("KMDR_DATA", str(shelf))
    assert data(monkeypatch, capsys, "status", "mine")[1][1].split()[:3] == [
        "mine", "local", f"{(shelf / 'mine.mat').stat().st_size}B"
    ]  # fmt: skip
    datasets.prepare("mine")
    assert data(monkeypatch, capsys, "status", "mine")[1][1].split()[1] == "prepared"


def test_get_prints_a_line_a_dataset_in_order_and_unreachable_is_no_failure(monkeypatch, capsys, tmp_path, shelf):
    monkeypatch.setenv("KMDR_DATA", str(shelf))
    code, lines, err = data(monkeypatch, capsys, "get")
    assert (code, err) == (0, [])
    assert lines[0] == f"mine: ready, 3 x 3, from {shelf / 'mine.mat'}"
    assert lines[1].startswith("theirs: missing: ")
    assert "http://data.invalid/theirs.mat: no connection to the host" in lines[1]
    assert f"put theirs.mat into {tmp_path / 'cache' / 'raw' / 'theirs'}" in lines[1]
    assert lines[2] == "made: ready, 3 x 4, from generated"
    assert len(lines) == 3
    assert [line.split(":")[0] for line in data(monkeypatch, capsys, "get", "made", "mine", "made")[1]] == [
        "made",
        "mine",
    ]


@pytest.mark.parametrize("wrong", ["file", "matrix"])
def test_get_ends_in_1_when_something_is_not_what_it_should_be(monkeypatch, capsys, shelf, wrong):
    monkeypatch.setenv("KMDR_DATA", str(shelf))
    if wrong == "file":
        (shelf / "mine.mat").write_bytes(b"something else")
    else:
        other = paths.REGISTRY.with_name("other.toml")
        other.write_text(paths.REGISTRY.read_text().replace('content_sha256 = ""', f'content_sha256 = "{"0" * 64}"', 1))
        monkeypatch.setattr(paths, "REGISTRY", other)
    code, lines, err = data(monkeypatch, capsys, "get")
    assert (code, err) == (1, [])
    assert ("wrong SHA-256" if wrong == "file" else "content hash") in lines[0]
    assert lines[2].startswith("made: ready")


def test_where_says_what_to_put_where_and_what_was_tried(monkeypatch, capsys, tmp_path, shelf):
    data(monkeypatch, capsys, "get")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KMDR_DATA", f"{tmp_path / 'typo'}{acquire.os.pathsep}{shelf}")
    code, lines, err = data(monkeypatch, capsys, "where")
    assert (code, err) == (0, [])
    digest = hashlib.sha256((shelf / "mine.mat").read_bytes()).hexdigest()
    assert lines == [
        f"cache: {tmp_path / 'cache'}",
        f"KMDR_DATA: {tmp_path / 'typo'} (no folder), {shelf}",
        f"results: {tmp_path / 'results' / 'runs'}, unless a command names another folder",
        f"mine: local, {shelf / 'mine.mat'}",
        "theirs: remote",
        "  source: http://data.invalid/theirs.mat",
        f"  manual: put theirs.mat (SHA-256 {digest}) into {tmp_path / 'cache' / 'raw' / 'theirs'} "
        "or a folder that KMDR_DATA names",
        "  last tried: http://data.invalid/theirs.mat: no connection to the host",
        f"made: prepared, {tmp_path / 'cache' / 'prepared' / 'made'}",
    ]
    # What it says works.
    (tmp_path / "cache" / "raw" / "theirs" / "theirs.mat").write_bytes((shelf / "mine.mat").read_bytes())
    assert data(monkeypatch, capsys, "get", "theirs")[1][0].startswith("theirs: ready")
    assert data(monkeypatch, capsys, "where", "theirs")[1][3:] == [
        f"theirs: prepared, {tmp_path / 'cache' / 'prepared' / 'theirs'}"
    ]


def test_where_reads_no_damaged_record(monkeypatch, capsys, tmp_path):
    (tmp_path / "cache").mkdir()
    for content in ("", "[1]", '{"theirs": 3}', "\0"):
        (tmp_path / "cache" / "last_errors.json").write_text(content)
        code, lines, _ = data(monkeypatch, capsys, "where", "theirs")
        assert code == 0
        assert not any("last tried" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["gte"], "no command of 'kmdr data' is named 'gte'; did you mean 'get'?"),
        (["get", "made", "mnie"], "no dataset is named 'mnie'; did you mean 'mine'?"),
        (["status", "thiers"], "did you mean 'theirs'?"),
        (["where", "nothing-like-it"], "no dataset is named 'nothing-like-it'"),
    ],
)
def test_misspelling_is_one_sentence_before_any_work(monkeypatch, capsys, tmp_path, arguments, sentence):
    code, lines, err = data(monkeypatch, capsys, *arguments)
    assert (code, lines, len(err)) == (2, [], 1)
    assert sentence in err[0]
    assert not (tmp_path / "cache").exists()
