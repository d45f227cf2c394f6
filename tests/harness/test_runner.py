"""What becomes of a run when the data or the process of one of its tasks fails."""

import json
import math
import os
import signal
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from kmdr.datasets import open_prepared, prepare
from kmdr.harness import runner as module
from kmdr.harness.engines.settings import Runner
from kmdr.harness.jobs import compose
from kmdr.harness.progress import Progress
from kmdr.harness.runner import execute, run_tasks
from kmdr.results.check import faults
from kmdr.results.store import Store
from kmdr.results.table_stream import TooLargeError


@pytest.fixture
def experiment(tmp_path, monkeypatch):
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))
    (made,) = compose(
        "dataset=synth", "dataset.d=10", "dataset.k=2", "r_grid=[2,3]", "repeats=2", "timing_repeats=1"
    ).experiments
    return made


def tasks_on(experiment, n):
    folder = prepare("synth", experiment.options | {"n": n})
    return experiment.tasks(open_prepared(folder), folder)


@pytest.fixture
def tasks(experiment):
    """Two tasks on each of two datasets, by the number of points."""
    return {n: tasks_on(experiment, n) for n in (30, 40)}


def rows_of(tasks, runner, out):
    rows, _ = run_tasks(tasks, runner, Store(out), dict.fromkeys(tasks, 1.0), Progress(len(tasks), 1.0))
    return rows


@pytest.mark.parametrize("backend", ["sequential", "loky"])
def test_data_damaged_in_mid_run_fail_the_rows_of_their_tasks_and_no_others(backend, tasks, tmp_path):
    file = Path(tasks[30][0].folder) / "A.npy"
    os.truncate(file, 200)
    rows = rows_of([*tasks[30], *tasks[40]], Runner(backend, 1, 1), tmp_path / "o")
    assert sorted((row["n"], row["status"]) for row in rows) == [("30", "failed")] * 4 + [("40", "ok")] * 4
    assert {row["error"] for row in rows if row["n"] == "30"} == {
        f"KMDR_CACHE/prepared/{file.parent.name}/A.npy is damaged; run again to prepare it anew"
    }
    assert {(row["d"], row["nnz"]) for row in rows} == {("10", "300"), ("10", "400")}


@pytest.mark.slow
def test_a_process_does_not_keep_open_all_the_data_that_it_ever_had(experiment, tmp_path):
    """A process may open 1024 files by default, and a run has as many datasets as one likes."""
    opened = []
    for n in range(30, 120):
        rows = rows_of(tasks_on(experiment, n)[:1], Runner("sequential", 1, 1), tmp_path / str(n))
        assert [(row["n"], row["status"]) for row in rows] == [(str(n), "ok")] * 2
        opened.append(len([*Path("/dev/fd").iterdir()]))
    assert max(opened[80:]) <= max(opened[60:75])


def dies_of_the_first_repetition(task, *arguments):
    if task.repeat == 0:
        signal.raise_signal(signal.SIGBUS)
    return execute(task, *arguments)


def test_a_timed_task_that_kills_its_process_is_a_failed_row_and_the_run_goes_on(tasks, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(module, "execute", dies_of_the_first_repetition)
    rows = rows_of(tasks[30], Runner("loky", 1, 1), tmp_path / "o")
    assert [(row["repeat"], row["status"]) for row in rows] == [("0", "failed"), ("1", "ok")] * 2
    assert {row["error"] for row in rows if row["repeat"] == "0"} == {"its worker was ended by SIGBUS, 3 times"}
    assert {row["concurrency"] for row in rows} == {"1"}
    told = capsys.readouterr().err
    assert told.count("was ended by SIGBUS; the task is tried again") == 2 * 3  # as a whole, then each of two r
    assert told.count("each r is run by itself") == 1


def test_rows_of_a_folder_that_was_emptied_during_its_run_name_nothing_that_it_lacks(tasks, tmp_path, monkeypatch):
    """The table was complete, the exit status 0, and the configuration and environment of every row were gone."""
    out = tmp_path / "o"
    Store(out).add_configs(task.config for task in tasks[30])

    def empties_the_folder(task, *arguments):
        for file in [*out.glob("configs.jsonl"), *out.glob("environments/*")]:
            file.unlink()
        return execute(task, *arguments)

    monkeypatch.setattr(module, "execute", empties_the_folder)
    assert len(rows_of(tasks[30], Runner("sequential", 1, 1), out)) == 2 * len(tasks[30])
    assert faults(out) == []


def test_a_run_that_another_waits_for_lets_it_time_its_tasks_and_goes_on(tasks, tmp_path, monkeypatch):
    awaited = iter([False, True, True, False])
    monkeypatch.setattr(Store, "is_awaited", lambda store: next(awaited, False))
    beside = [task for task in tasks[30] + tasks[40] if not task.serial]
    assert len(rows_of(beside * 2, Runner("sequential", 1, 1), tmp_path / "o")) == 4
    assert next(awaited, None) is None
    (run,) = (tmp_path / "o" / "runs.jsonl").read_text().splitlines()
    assert json.loads(run)["tasks_done"] == len(beside)  # each once, though asked for twice


def test_a_run_whose_table_is_refused_is_logged(tasks, tmp_path, monkeypatch):
    monkeypatch.setenv("KMDR_MOST_TABLE", "1500")  # one task, but not two
    with pytest.raises(TooLargeError):
        rows_of(tasks[30], Runner("sequential", 1, 1), tmp_path / "o")
    (run,) = (tmp_path / "o" / "runs.jsonl").read_text().splitlines()
    assert json.loads(run)["tasks_done"] == len(tasks[30])


@pytest.mark.parametrize(("seldom", "told_before_the_next"), [(0.0, [1, 2, 3, 4]), (math.inf, [0, 0, 0, 0])])
def test_an_answer_is_told_when_it_comes_where_they_come_seldom(
    seldom, told_before_the_next, tasks, tmp_path, monkeypatch
):
    """Tasks of an hour were told of when four more were done."""
    told, counts = [], []

    @contextmanager
    def engine(*_):
        yield lambda calls: ((call, execute(*call)) for call in calls if counted())

    def counted():
        counts.append(len(told))
        return True

    monkeypatch.setattr(module, "_engine", engine)
    monkeypatch.setattr(module, "_SELDOM_SECONDS", seldom)
    monkeypatch.setattr(Progress, "advance", lambda self, rows, seconds: told.append(rows))
    beside = [replace(task, serial=False) for task in tasks[30] + tasks[40]]
    runner = Runner("sequential", 1, 1)
    run_tasks(beside, runner, Store(tmp_path / "o"), dict.fromkeys(beside, 1.0), Progress(4, 4.0), shards=2)
    assert [*counts[1:], len(told)] == [*told_before_the_next[:-1], 4]
