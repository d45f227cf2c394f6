"""The commands ``reproduce``, ``quick``, ``reference`` on two studies made tiny: whole, killed, thinned, cut short."""

import csv
import json
import os
import random
import time
from collections import Counter

import pytest

from commands import Command
from kmdr.harness import jobs
from kmdr.harness import plan as run_plan
from kmdr.harness.jobs import compose
from kmdr.multiverse import choices
from kmdr.reporting import build, reproduce
from kmdr.results.outdated import unfinished_tasks
from kmdr.results.reader import read_rows
from kmdr.results.schema import TIME_COLUMNS
from kmdr.results.store import Store
from kmdr.results.table import rows_file


def _tiny_studies():
    """Let commands run two studies on a tiny generated dataset; nothing is known of how long anything takes."""

    def tiny(name, repeats, out):
        return compose(
            f"study={name}", "study.datasets=[{synth: {n: 100, d: 60}}]",
            "study.reducers=[leverage, random_sign, none]", "r_grid=[2,3,5,8,13,21]", f"repeats={repeats}",
            "timing_repeats=1", "kmeans.n_init=2", "runner.n_jobs=2", f"out={out}",
        )  # fmt: skip

    studies = {"bzmd15_fig1": 4, "bzmd15_fig2": 12}
    reproduce.compose_studies = lambda out, *_: [tiny(name, repeats, out) for name, repeats in studies.items()]
    choices.multiverses = list
    jobs.reference_means = dict
    if not os.environ.get("TINY_REPORT"):
        build.build = lambda out, *arguments, **options: out
    run_plan._UNKNOWN_SECONDS = float(os.environ.get("TINY_TRIAL_SECONDS", "0.1"))


TRIALS = {"bzmd15_fig1": 4 * (6 + 6 + 1), "bzmd15_fig2": 12 * (6 + 6 + 1)}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Return a function that starts a command on the tiny studies."""
    cache = tmp_path_factory.mktemp("tiny") / "cache"

    def start(*arguments, report=False):
        environment = {**os.environ, "KMDR_CACHE": str(cache), "TINY_REPORT": "1" * report}
        return Command(*arguments, environment=environment, before=_tiny_studies)

    return start


def finish(process, status=0):
    out, err = process.communicate(timeout=300)
    assert process.returncode == status, err
    return out + err


def table(folder):
    """Return every column but the times, as text: what must be the same bit for bit."""
    rows = read_rows(folder / "rows.csv")
    return [{key: value for key, value in row.items() if key not in TIME_COLUMNS} for row in rows]


def judged(folder):
    """Return what the report says of the claims that no measured time enters, and the names of all that it made."""
    timed = {row["claim"] for row in csv.DictReader((folder / "components.csv").open()) if "time" in row["unit"]}
    verdicts = [row for row in csv.DictReader((folder / "verdicts.csv").open()) if row["claim"] not in timed]
    made = {path.relative_to(folder) for kind in ("figures", "tables", "report") for path in folder.glob(f"{kind}/*")}
    return verdicts, made


def plan(folder):
    return json.loads((folder / "plan.json").read_text())


@pytest.fixture(scope="module")
def whole(tiny, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole")
    finish(tiny("reproduce", f"OUT={out}", report=True))
    return out


@pytest.mark.slow
def test_a_full_run_has_every_trial_and_says_that_it_is_full(whole):
    assert Counter(row["study"] for row in table(whole)) == TRIALS
    assert plan(whole)["full"]
    assert not plan(whole)["thinned_grid"]
    assert plan(whole)["budget_seconds"] is None
    limits = {"budget_seconds": None, "thinned_grid": False, "tasks_not_begun": 0}
    planned = {"repeats_full": 12, "repeats_planned": 12, "left_out": []}
    assert plan(whole)["studies"]["bzmd15_fig2"] == planned | limits


@pytest.mark.slow
def test_a_second_run_has_nothing_to_do_and_touches_nothing(tiny, whole):
    def state():
        kept = [*whole.glob("tasks/**/*.csv"), *whole.glob("report/*"), whole / "rows.csv", whole / "runs.jsonl"]
        return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in kept}

    before = state()
    finish(tiny("reproduce", f"OUT={whole}", report=True))
    assert state() == before


@pytest.mark.slow
def test_killed_anywhere_and_repeated_it_ends_with_the_same_rows_and_report(tiny, whole, tmp_path):
    moments = random.Random(1)
    killed = 0
    while killed < 4:
        process = tiny("reproduce", f"OUT={tmp_path}")
        done = len(list(tmp_path.glob("tasks/**/*.csv")))
        while process.poll() is None and len(list(tmp_path.glob("tasks/**/*.csv"))) <= done:
            time.sleep(0.005)
        time.sleep(moments.uniform(0, 0.05))
        if process.poll() is not None:
            break
        process.kill(group=killed % 2)  # with its workers, or without
        process.wait()
        killed += 1
    assert killed >= 1, "the run was over before it could be killed"
    report = tiny("reproduce", f"OUT={tmp_path}", report=True)  # killed while it writes the report
    while report.poll() is None and not list(tmp_path.glob("figures/*")):
        time.sleep(0.02)
    report.kill(group=True)
    report.wait()
    finish(tiny("reproduce", f"OUT={tmp_path}", report=True))
    assert table(tmp_path) == table(whole)
    assert plan(tmp_path) == plan(whole)
    assert judged(tmp_path) == judged(whole)
    assert not list(tmp_path.glob("**/*.tmp"))


@pytest.mark.slow
def test_a_quick_run_thins_each_studys_own_grid_and_never_passes_for_a_full_one(tiny, tmp_path):
    finish(tiny("quick", f"OUT={tmp_path}"))
    rows = table(tmp_path)
    assert {int(row["r"]) for row in rows if row["reducer"] != "none"} == {2, 5, 21}
    assert {row["repeat"] for row in rows} == {"0", "1"}
    assert {row["repeat"] for row in rows if row["concurrency"] == "1"} == {"0"}
    assert plan(tmp_path)["thinned_grid"]
    assert not plan(tmp_path)["full"]
    assert plan(tmp_path)["studies"]["bzmd15_fig2"]["repeats_full"] == 12
    assert plan(tmp_path)["studies"]["bzmd15_fig2"]["repeats_planned"] == 2


@pytest.mark.slow
def test_a_budget_cuts_repetitions_alike_and_a_later_run_adds_the_rest(tiny, whole, tmp_path, monkeypatch):
    # A repetition has 13 trials; were each to take 10 s, it would take 65 s in parallel and 130 s if it is timed. The
    # studies have the same trials, so one warm-up of 130 s serves both timed repetitions. The budget leaves 950 s: 2 of
    # 4 and 8 of 12 repetitions take 910 s, and the next ones, 3 and 9, would take 1040 s.
    monkeypatch.setenv("TINY_TRIAL_SECONDS", "10")
    finish(tiny("reproduce", "BUDGET=16m50s", f"OUT={tmp_path}"))
    monkeypatch.delenv("TINY_TRIAL_SECONDS")
    planned = plan(tmp_path)
    assert planned["budget_seconds"] == 1010
    assert not planned["full"]
    assert not planned["thinned_grid"]
    repeats = {name: study["repeats_planned"] for name, study in planned["studies"].items()}
    assert repeats == {"bzmd15_fig1": 2, "bzmd15_fig2": 8}
    first = table(tmp_path)
    assert {(row["study"], int(row["repeat"])) for row in first} == {
        (n, i) for n, R in repeats.items() for i in range(R)
    }
    assert {int(row["r"]) for row in first if row["reducer"] == "leverage"} == {2, 3, 5, 8, 13, 21}

    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("tasks/**/*.csv")}
    finish(tiny("reproduce", f"OUT={tmp_path}"))
    assert table(tmp_path) == table(whole)
    assert plan(tmp_path)["full"]
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


@pytest.mark.slow
def test_a_budget_in_which_no_trial_fits_is_called_too_small(tiny, whole, tmp_path, monkeypatch):
    """It ended with 'there is no rows.csv, so the folder has no rows; run a study into it first'."""
    monkeypatch.setenv("TINY_TRIAL_SECONDS", "1000")
    said = finish(tiny("reproduce", "BUDGET=61s", f"OUT={tmp_path}"), status=2)
    assert f"no trial ended in the time of this run, so {tmp_path} has no rows to report; give it more" in said
    assert "run a study into it" not in said
    monkeypatch.delenv("TINY_TRIAL_SECONDS")
    finish(tiny("reproduce", f"OUT={tmp_path}"))
    assert table(tmp_path) == table(whole)


@pytest.mark.slow
def test_the_reference_is_compressed_and_reads_back(tiny, whole, tmp_path):
    finish(tiny("reference", f"OUT={tmp_path}"))
    compressed = tmp_path / "rows.csv.xz"
    assert rows_file(tmp_path) == compressed
    assert read_rows(compressed) == read_rows(tmp_path / "rows.csv")
    content = compressed.read_bytes()
    compressed.unlink()
    finish(tiny("reference", f"OUT={tmp_path}"))
    assert compressed.read_bytes() == content


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["reproduce", "BUDGET=soon"], "budget = 'soon' is not a duration; write e.g. 90s"),
        (["reproduce", "BUDGET=30s"], "budget = '30s' leaves nothing"),
        (["quick", "BUDGET=10m"], "no option of 'kmdr quick' is named '--budget'; valid: --out"),
    ],
)
def test_a_mistake_is_one_sentence(tiny, tmp_path, arguments, words):
    said = finish(tiny(*arguments, f"OUT={tmp_path}/none"), status=2)
    assert words in said
    assert "Traceback" not in said
    assert not (tmp_path / "none").exists()


def test_no_task_begins_when_the_time_is_over(whole, tmp_path, monkeypatch):
    from kmdr.datasets import open_prepared, prepare
    from kmdr.harness.engines.settings import Runner
    from kmdr.harness.jobs import compose
    from kmdr.harness.progress import Progress
    from kmdr.harness.runner import run_tasks

    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))
    (experiment,) = compose("dataset=synth", "dataset.n=30", "dataset.d=10", "r_grid=[2]", "repeats=3").experiments
    folder = prepare("synth", experiment.options)
    tasks = experiment.tasks(open_prepared(folder), folder)
    runner = Runner("sequential", 1, 1)
    store, seconds = Store(tmp_path / "o"), dict.fromkeys(tasks, 1.0)
    assert run_tasks(tasks, runner, store, seconds, Progress(3, 3.0), until=time.time() - 1) == ([], 3)
    rows, late = run_tasks(tasks, runner, store, seconds, Progress(3, 3.0), until=time.time() + 300)
    assert (len(rows), late) == (3, 0)
    assert unfinished_tasks(tasks, rows) == []
