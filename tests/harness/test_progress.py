"""Progress: what a terminal, a notebook and a log show of a run."""

import io
import re
import time

import pytest

from kmdr.base.text import Volume, counted
from kmdr.harness import progress as module
from kmdr.harness.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def stream(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(Volume, "level", 0)

    def use(kind):
        shown = kind()
        monkeypatch.setattr("sys.stderr", shown)
        return shown

    return use


def last_frame(shown):
    return [frame for frame in re.split(r"[\r\n]", shown.getvalue()) if frame.strip()][-1]


@pytest.mark.parametrize("share", [0.0, 0.02, 1.0])
def test_a_finished_run_ends_at_100_percent_whatever_was_expected(share, stream):
    shown = stream(Terminal)
    with Progress(10, 100.0) as progress:
        progress.stage("2 at a time")
        for _ in range(10):
            progress.advance([], 10.0 * share)
    assert re.fullmatch(r"100%\|.{20}\| 10/10 tasks, 00:0\d *", last_frame(shown))


def test_a_run_that_stops_does_not_look_finished(stream):
    shown = stream(Terminal)

    def interrupted():
        with Progress(2, 2.0) as progress:
            progress.advance([], 1.0)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert "100%" not in last_frame(shown)
    assert shown.getvalue().endswith("\n")


def test_a_compilation_says_why_and_how_long_and_moves(stream, monkeypatch):
    shown = stream(Terminal)
    with Progress(2, 2.0) as progress, progress.compiling(4.0):
        time.sleep(2.5)
        frames = re.findall(r"(\d+)%\|.{20}\| (compiling kernels, first run only, about 4 s: 00:0\d)", shown.getvalue())
    shares = [int(share) for share, _ in frames]
    assert shares == sorted(shares)
    assert 20 < shares[-1] < 100


def test_a_log_gets_lines_and_a_quiet_run_nothing(stream, monkeypatch):
    monkeypatch.setattr(module, "_LINE_SECONDS", -1.0)
    for level in (0, -1):
        monkeypatch.setattr(Volume, "level", level)
        shown = stream(io.StringIO)
        with Progress(2, 2.0) as progress:
            with progress.compiling(20.0):
                pass
            progress.advance([], 1.0)
            progress.advance([], 1.0)
        lines = shown.getvalue().splitlines()
        assert lines[:1] == ["compiling kernels, first run only, about 20 s"] * (level + 1)
        assert len(lines) == 5 * (level + 1)
        assert level or re.fullmatch(r"100% 2/2 tasks, 00:0\d", lines[-1])


def test_a_dumb_terminal_gets_lines_and_a_run_without_work_nothing(stream, monkeypatch):
    shown = stream(Terminal)
    with Progress(0, 0.0):
        pass
    assert shown.getvalue() == ""
    monkeypatch.setenv("TERM", "dumb")
    with Progress(1, 1.0) as progress:
        progress.advance([], 1.0)
    assert "\r" not in shown.getvalue()
    assert shown.getvalue().startswith("100% 1/1 tasks")


def test_a_notebook_gets_a_bar(stream):
    kernel = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})
    shown = stream(kernel)
    with Progress(1, 1.0, lines=False) as progress:
        progress.advance([], 1.0)
    assert "100%|" in shown.getvalue()


def test_one_is_singular():
    assert [counted(n, "row") for n in (0, 1, 2)] == ["0 rows", "1 row", "2 rows"]
