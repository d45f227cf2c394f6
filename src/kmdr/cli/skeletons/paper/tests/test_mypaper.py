"""mypaper's study runs, its figure is drawn, and its claim gets a verdict."""

import json
from pathlib import Path

import pytest

import kmdr


@pytest.fixture(autouse=True)
def _folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KMDR_PATH", str(Path(__file__).resolve().parents[1]))
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))


def test_from_rows_to_a_verdict(tmp_path: Path) -> None:
    rows = kmdr.run("mypaper_fig1", tmp_path / "out", "repeats=2", "runner=sequential")
    assert rows["status"].eq("ok").all()
    page = kmdr.report(tmp_path / "out")
    assert (tmp_path / "out" / "figures" / "mypaper_fig1.png").is_file()
    verdicts = (tmp_path / "out" / "verdicts.csv").read_text("utf-8")
    assert "mypaper-1" in verdicts
    assert json.dumps("mypaper-1") in page.read_text("utf-8")
