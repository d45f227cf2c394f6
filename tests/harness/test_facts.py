"""Facts: computed and stored by the run, and only read by the report."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from forked import programs
from kmdr.cli import new

FACTS = '''
"""Two tables: one of data that kmdr generates, one of data that nobody has here."""

import pandas as pd

from kmdr.claims.catalogue import fact


@fact("own26_total", ["digits"])
def total(datasets, results):
    """Return the sum of all entries."""
    return pd.DataFrame({"total": [float(datasets[0].A.sum())]})


@fact("own26_absent", ["nips"], studies=["own26_fig1"])
def absent(datasets, results):
    """Return what nobody can compute without the data."""
    raise AssertionError("computed without data")


FACTS = (total, absent)
'''
RUN = "dataset=digits reducer=none r_grid=[2] repeats=1 runner=sequential"
STUDY = ("study=own26_fig1", "repeats=2", "timing_repeats=0", "runner=sequential", "out=run")
# Fails when anything in a folder of data is opened or listed, by imports too: it needs an interpreter of its own.
WATCHED = """
import os, sys
places = tuple(os.path.realpath(os.environ[name]) for name in ("KMDR_CACHE", "KMDR_DATA"))
def watch(event, arguments):
    if event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], (str, bytes, os.PathLike)):
        path = os.path.realpath(os.fsdecode(arguments[0]))
        assert not path.startswith(places), f"{event} {path}"
sys.addaudithook(watch)
import joblib
joblib.cpu_count = lambda: 1  # one process, which is watched
from kmdr.cli.commands import main
main()
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Return a folder with a paper that has two facts, and a function that runs a command there."""
    place = tmp_path_factory.mktemp("lab")
    (place / "absent").mkdir()
    paths = new.write("paper", "own26", place / "guest")
    items = next(path for path in paths if path.name == "items.py")
    (items.parent / "facts.py").write_text(FACTS)
    items.write_text(
        items.read_text().replace("studies=[STUDY])", 'studies=[STUDY], facts=["own26_total", "own26_absent"])')
    )

    kmdr = programs() / "kmdr"

    def run(*arguments, cache="cache", program=(kmdr,)):
        environment = {
            **os.environ, "KMDR_PATH": str(place / "guest"), "KMDR_CACHE": str(place / cache),
            "KMDR_DATA": str(place / "absent"), "HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9",
        }  # fmt: skip
        done = subprocess.run(
            [*program, *arguments], env=environment, check=False, capture_output=True, text=True, cwd=place
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    run(*RUN.split(), "out=first")  # prepares the data
    return place, run


@pytest.fixture(scope="module")
def study(lab):
    """Return the folder of a run of the paper's study, and what the run printed."""
    place, run = lab
    return place / "run", run(*STUDY)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_a_report_opens_no_data_and_is_the_same_with_them_and_without(lab, study):
    place, run = lab
    for name in ("with", "without"):
        shutil.copytree(study[0], place / name)
        shutil.rmtree(place / name / "facts")
    run("report", "with", program=(sys.executable, "-c", WATCHED))
    run("report", "without", cache="empty")
    assert contents(place / "with") == contents(place / "without")
    assert not (place / "with" / "facts").exists()
    page = (place / "with" / "report" / "index.html").read_text()
    assert "fact own26_total is missing; &#39;kmdr reproduce own26&#39; computes it if its data are available" in page


@pytest.mark.slow
def test_a_run_computes_the_facts_that_its_studies_need_and_names_those_without_data(lab, study):
    folder, said = study
    assert "facts whose data are not prepared are not computed: own26_absent (nips)" in said
    table = folder / "facts" / "own26_total.csv"
    assert sorted(table.parent.iterdir()) == [table, table.with_suffix(".from")]
    before = table.stat().st_mtime_ns
    _, run = lab
    run(*STUDY)
    assert table.stat().st_mtime_ns == before, "it is computed once"


@pytest.mark.slow
def test_a_reproduction_computes_facts_and_the_report_shows_them(lab):
    place, run = lab
    run("reproduce", "own26", "OUT=whole")
    assert (place / "whole" / "facts" / "own26_total.csv").is_file()
    assert "own26_total is missing" not in (place / "whole" / "report" / "index.html").read_text()


def test_no_fact_is_begun_when_the_time_is_over(tmp_path, capsys):
    from kmdr.harness.facts import FactTask, run_facts

    task = FactTask("mine_x", (), [], [], lambda datasets: pytest.fail("computed"))
    run_facts([task], tmp_path, SimpleNamespace(making=pytest.fail, tell=print), until=time.time() - 1)
    assert "the budget was over before the facts mine_x; the same command computes them" in capsys.readouterr().out
    assert not (tmp_path / "facts").exists()


def test_a_dataset_that_cannot_be_loaded_is_a_reason_and_no_crash(tmp_path, capsys, monkeypatch):
    from kmdr.base.errors import UserError
    from kmdr.harness import facts

    def load(name):
        raise UserError(f"{name} is damaged")

    monkeypatch.setattr(facts, "availability_of", lambda name: SimpleNamespace(state="prepared"))
    monkeypatch.setattr(facts, "load", load)
    task = facts.FactTask("mine_x", ("digits",), [], [], lambda datasets: pytest.fail("computed"))
    facts.run_facts([task], tmp_path, SimpleNamespace(making=pytest.fail, tell=print))
    assert "the fact mine_x is not computed: digits is damaged" in capsys.readouterr().out
