"""How the parts of a report are made: by one process or by several, and what becomes of one that dies."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from kmdr.base.errors import UserError
from kmdr.claims.register import Flip
from kmdr.config.studies import studies
from kmdr.reporting import build, parts
from kmdr.reporting.contents import read_contents
from rows import make_rows, write_rows

IDS = ("bzmd15_fig1", "bzmd15_table1", "lf20_fig2", "bzmd15-1", "bzmd15-2", "lf20-1")


def trials(study, dataset, **changes):
    methods = (("none", 256), ("svd", 10), ("random_sign", (5, 10, 20)), ("leverage", (5, 10, 20)))
    return [make_rows(study, dataset, name, r, accuracy=lambda r, i: 0.5 + 0.01 * i + 1 / r, **changes)
            for name, r in methods]  # fmt: skip


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Two folders with the same rows, and few parts in place of all."""
    for kind in ("items", "claims"):
        few = [part for part in getattr(build, kind)() if part.id in IDS]
        monkeypatch.setattr(build, kind, lambda few=few: few)
    flip = Flip("flip_rank_bzmd15", "Rank r", "rank", ("bzmd15_fig1",), ("bzmd15-2",))
    monkeypatch.setattr(build, "flips", lambda configs: [flip])
    rows = [*trials("bzmd15_fig1", "usps"), *trials("bzmd15_fig1", "synth"), *trials("lf20_orl", "orl"),
             *trials("flip_rank_bzmd15", "usps", objective=0.25)]  # fmt: skip
    made = []
    for name in ("alone", "together"):
        (tmp_path / name).mkdir()
        made.append(write_rows(tmp_path / name, *rows))
    return made


@pytest.fixture
def by_several(monkeypatch):
    monkeypatch.setattr(parts, "_MANY", 1)
    monkeypatch.setattr(parts, "cpu_count", lambda: 2)


def written(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_one_process_and_several_make_the_same_report_and_need_no_folder_for_it(folders, by_several, monkeypatch):
    alone, together = folders
    contents, told = read_contents(alone), []
    shutil.rmtree(alone)
    with monkeypatch.context() as patch:
        patch.setattr(parts, "cpu_count", lambda: 1)
        report = build.report_of(contents, studies(), tell=told.append)
    assert not alone.exists()
    files = report.files | build.verdict_tables(report) | build.report_pages(report, build.code_version())
    before = written(together)
    told.append("the page")
    page = build.build(together, studies(), tell=told.remove)
    assert told == []
    assert page == together / "report" / "index.html"
    made = {path: content for path, content in written(together).items() if path not in {*before, build._MADE_FROM}}
    assert made == {Path(path): content for path, content in files.items()}
    assert {path.name for path in made} >= {"bzmd15_fig1.png", "verdicts.csv"}


def _die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_part_that_no_process_survives_is_named(folders, by_several, monkeypatch):
    monkeypatch.setattr(parts, "_make_shared", _die)
    with pytest.raises(
        UserError, match=r"cannot be made: its worker was ended by SIGKILL.*3 times; free memory or disk space"
    ):
        build.build(folders[0], studies())
