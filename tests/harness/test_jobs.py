"""What a results folder says of several runs into it."""

import json
from types import SimpleNamespace

import pytest

from kmdr.cli.jobs import run_jobs
from kmdr.harness.jobs import _plan_file, compose
from kmdr.harness.plan import Limits, Plan

TINY = ("dataset=synth", "dataset.n=60", "dataset.d=20", "r_grid=[2]", "repeats=2", "kmeans.n_init=1", "out=o")


def test_a_run_of_other_data_keeps_the_reasons_why_data_are_missing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KMDR_DATA", "")
    run_jobs([compose(*TINY), compose("dataset=bio", *TINY[3:])])
    reasons = json.loads((tmp_path / "o" / "missing.json").read_text())
    assert "manually" in reasons["bio"]
    run_jobs([compose(*TINY, "reducer=svd")])
    assert json.loads((tmp_path / "o" / "missing.json").read_text()) == reasons


def job(study, repeats):
    return SimpleNamespace(study={"name": study}, experiments=[SimpleNamespace(repeats=repeats)])


def planned(known, study, repeats, *, late=0, **limits):
    plan = Plan([], {}, {study: repeats}, {study: []})
    return _plan_file(known, plan, [job(study, 8)], Limits(**limits), late)


@pytest.mark.parametrize(
    ("short", "key", "value"),
    [
        ({"repeats": 2, "budget": 60.0}, "budget_seconds", 60.0),
        ({"repeats": 8, "grid": 3}, "thinned_grid", True),
        ({"repeats": 8, "late": 5}, "tasks_not_begun", 5),
    ],
)
def test_a_full_run_of_other_studies_does_not_hide_that_the_first_was_short(short, key, value):
    first = planned({}, "a", **short)
    both = planned(first, "b", 8)
    assert not both["full"]
    assert both[key] == value
    assert both["studies"]["a"] == first["studies"]["a"]
    assert planned(both, "b", 8) == both
    alone = planned(first, "a", 8)
    assert alone["full"]
    assert alone == planned({}, "a", 8)
