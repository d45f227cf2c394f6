"""What a results folder says of several runs into it."""

import json
from types import SimpleNamespace

import pytest

from kmdr.cli.jobs import run_jobs
from kmdr.harness import jobs
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
    return _plan_file(known, plan, [job(study, 8)], Limits(**limits), {study: late})


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


@pytest.mark.parametrize(
    "short", [{"repeats": 2, "budget": 60.0}, {"repeats": 8, "grid": 3}, {"repeats": 8, "late": 5}]
)
def test_a_plan_is_full_once_each_study_ran_in_full(short):
    plan = {}
    for study in "aba":
        plan = planned(plan, study, **short)
    assert not plan["full"]
    assert plan["tasks_not_begun"] == 2 * short.get("late", 0)
    plan = planned(plan, "a", 8)
    assert not plan["full"]
    assert planned(plan, "b", 8) == planned(planned({}, "b", 8), "a", 8)


@pytest.mark.parametrize(
    "short", [{"repeats": 2, "budget": 60.0}, {"repeats": 8, "grid": 3}, {"repeats": 8, "late": 5}]
)
def test_a_plan_of_an_earlier_version_is_full_once_each_study_ran_in_full(short):
    plan = planned(planned({}, "a", **short), "b", **short)
    keys = ("repeats_full", "repeats_planned", "left_out")
    plan["studies"] = {name: {key: study[key] for key in keys} for name, study in plan["studies"].items()}
    plan = planned(plan, "b", 8)
    assert not plan["full"]
    assert planned(plan, "a", 8)["full"]


def test_a_study_that_is_run_by_itself_no_longer_counts_as_short(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = (
        "study=bmd09_table1", "repeats=2", "study.datasets=[digits]", "study.reducers=[none]", "r_grid=[2,3]",
        "kmeans.n_init=1", "out=o",
    )  # fmt: skip
    jobs.run_jobs([compose(*study)], Limits(repeats=1, grid=1))
    plan = json.loads((tmp_path / "o" / "plan.json").read_text())
    assert plan["thinned_grid"]
    run_jobs([compose(*study)])
    plan = json.loads((tmp_path / "o" / "plan.json").read_text())
    assert (plan["full"], plan["studies"]) == (True, {})


@pytest.mark.parametrize("limits", [{"repeats": 1, "grid": 1}, {"budget": 61.0}])
def test_a_short_run_into_a_folder_with_all_rows_of_a_study_does_not_make_it_short(limits, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def study(name):
        return compose(
            f"study={name}", "repeats=2", "study.datasets=[digits]", "study.reducers=[none]", "r_grid=[2,3]",
            "kmeans.n_init=1", "out=o",
        )  # fmt: skip

    jobs.run_jobs([study("bmd09_table1")], Limits())
    whole = json.loads((tmp_path / "o" / "plan.json").read_text())["studies"]
    jobs.run_jobs([study("bmd09_table1"), study("bzmd15_fig1")], Limits(repeats=1, grid=1))
    plan = json.loads((tmp_path / "o" / "plan.json").read_text())
    assert plan["studies"]["bmd09_table1"] == whole["bmd09_table1"]
    assert plan["studies"]["bzmd15_fig1"]["thinned_grid"]
    jobs.run_jobs([study("bmd09_table1")], Limits(**limits))
    assert json.loads((tmp_path / "o" / "plan.json").read_text())["studies"]["bmd09_table1"] == whole["bmd09_table1"]


def test_rounds_of_a_study_count_together_and_its_last_run_replaces_earlier_ones(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    study = ("study=bmd09_table1", *TINY[3:5], "study.datasets=[digits]", "kmeans.n_init=1", "out=o")
    first, second = (compose(*study, f"study.reducers=[{name}]") for name in ("svd", "none"))

    def asked():
        return set(json.loads((tmp_path / "o" / "asked.json").read_text())["bmd09_table1"])

    jobs.run_jobs([first], Limits(), whole=False)
    known = asked()
    jobs.run_jobs([second], Limits(), whole=False)
    assert asked() > known
    assert "as it was run now" not in capsys.readouterr().err
    jobs.run_jobs([first])
    assert asked() == known
    assert "now read bmd09_table1 as it was run now; rows of 1 other" in capsys.readouterr().err
