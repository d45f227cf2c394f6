"""A plan cut into parts: each task in one of them, alike on every machine, and together what one run gives."""

import random
from collections import Counter
from dataclasses import replace
from itertools import groupby, product

import pandas as pd
import pytest

from kmdr.base.process import exit_status
from kmdr.base.text import canonical
from kmdr.cli import commands as cli
from kmdr.clustering.kmeans import Protocol
from kmdr.config.studies import studies
from kmdr.config.task import Task
from kmdr.harness import plan
from kmdr.harness.experiment import experiments
from kmdr.harness.plan import expected_seconds, reference_means
from kmdr.harness.shard import hash_of_cut, parse_part, partition
from kmdr.results.check import faults
from kmdr.results.json_files import missing_parts, read_json, with_parts
from kmdr.results.paths import SHARDS
from kmdr.results.schema import TIME_COLUMNS
from kmdr.results.store import Store

STUDIES = ("bmd09_table1", "bzmd15_times", "bzmd15_theorem12", "lf20_times", "bzd10_table2_times", "lst17_rcv1")


def tasks_of(study):
    """The tasks of a study as it is configured, its data left unread: their hash is that of their name."""
    return [
        Task(study, e.dataset, e.dataset, "", e.reducer, canonical(e.params), 3, e.r_grid, repeat, e.seed, e.protocol,
             repeat < e.timing_repeats, e.matching)
        for e in experiments(study) for repeat in range(min(e.repeats, 1000))
    ]  # fmt: skip


@pytest.fixture(scope="module")
def tasks():
    return [task for study in STUDIES for task in tasks_of(study)]


@pytest.fixture(scope="module")
def reference():
    return expected_seconds([], reference_means())


# Where there is no reference run the number of r decides.
by_grid = expected_seconds([])


@pytest.mark.slow
@pytest.mark.parametrize("parts", range(1, 8))
def test_each_task_is_in_one_part_and_the_timed_ones_of_a_study_in_the_same(tasks, reference, parts):
    for seconds in (reference, by_grid):
        cut = partition(tasks, parts, seconds)
        assert len(cut) == parts
        assert Counter(task for part in cut for task in part) == Counter(tasks)
        timed = [(task.study, number) for number, part in enumerate(cut) for task in part if task.serial]
        assert len(set(timed)) == len({study for study, _ in timed}) == 4, "two studies take no times"


@pytest.mark.parametrize("parts", range(1, 8))
def test_the_parts_take_about_the_same_time(tasks, reference, parts):
    """Graham: the part that ends last got its last unit when no other had less, so all are within a unit of it."""
    timed = {study: [t for t in tasks if t.serial and t.study == study] for study in STUDIES}
    units = [*timed.values(), *([task] for task in tasks if not task.serial)]
    longest = max(sum(map(reference, unit)) for unit in units)
    loads = [sum(map(reference, part)) for part in partition(tasks, parts, reference)]
    assert max(loads) - min(loads) <= longest + 0.001 * len(tasks)


def test_the_best_cut_of_a_few_tasks_is_no_more_than_a_third_shorter(rng):
    (first, *_), parts = tasks_of("bzmd15_theorem12"), 3
    for _ in range(20):
        cost = {replace(first, repeat=i, serial=False): float(rng.integers(1, 50)) for i in range(7)}
        longest = max(sum(map(cost.get, part)) for part in partition(list(cost), parts, cost.get))
        placed = product(range(parts), repeat=len(cost))
        best = min(max(sum(s for s, p in zip(cost.values(), where, strict=True) if p == part) for part in range(parts))
                   for where in placed)  # fmt: skip
        assert longest <= (4 / 3 - 1 / (3 * parts)) * best


@pytest.mark.slow
def test_the_cut_is_the_same_on_every_machine(tasks, reference):
    """In another order, from another folder, with the last bits of the expected seconds otherwise."""
    cut = partition(tasks, 5, reference)
    moved = [replace(task, folder="/elsewhere", verify="always") for task in tasks]
    there = random.Random(1)
    there.shuffle(moved)
    other = partition(moved, 5, lambda task: reference(task) * there.uniform(1 - 1e-12, 1 + 1e-12))
    assert hash_of_cut(other) == hash_of_cut(cut)
    fewer = partition(tasks[1:], 5, reference)
    assert len({hash_of_cut(each) for each in (cut, fewer, partition(tasks, 4, reference))}) == 3


def test_tasks_of_the_same_trials_stay_together():
    both = [
        Task("s", "toy", "5" * 64, "", "svd", "{}", 3, grid, repeat, 0, Protocol(1, 9), False)
        for grid in ((2,), (2, 5)) for repeat in range(4)
    ]  # fmt: skip
    for part in partition(both, 4, by_grid):
        assert [len(list(same)) for _, same in groupby(part, key=lambda task: task.repeat)] == [2]


@pytest.mark.parametrize(
    "text", ["0/5", "6/5", "2/0", "0/0", "-1/5", "2", "two/five", "2/5/7", "2/", "", "²/5", "1/9999999"]
)
def test_what_is_no_part_is_refused_in_a_sentence(text, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["kmdr", "shard", text, "bzmd15_fig1", "out=part"])
    assert exit_status(cli.command_line) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert repr(text) in line
    assert "I/N with I from 1 to N" in line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["bzmd15_fig1"], "out=parts/2"),
        (["bzmd15_fig9", "out=p"], "did you mean 'bzmd15_fig"),
        (["bzmd15_fig1", "out=p", "hydra/launcher=joblib"], "hydra/launcher"),
        (["bzmd15_fig1", "out=p", "dataset=usps"], "names its own datasets"),
        (["bzmd15_fig1", "out=p", "repeats=no"], "repeats"),
    ],
)
def test_what_cannot_be_cut_is_refused_in_a_sentence(arguments, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["kmdr", "shard", "2/5", *arguments])
    assert exit_status(cli.command_line) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


@pytest.mark.slow
def test_what_a_command_cuts(tmp_path, monkeypatch):
    """Studies, papers, all, or what settings say; each once."""
    monkeypatch.chdir(tmp_path)
    asked = []
    monkeypatch.setattr("kmdr.cli.jobs.run_jobs", lambda jobs, part: asked.append((jobs, part)) or 0)

    def cut(*arguments):
        monkeypatch.setattr("sys.argv", ["kmdr", "shard", "2/5", *arguments, "out=part"])
        assert exit_status(cli.command_line) == 0
        jobs, part = asked.pop()
        assert part == parse_part("2/5") == (2, 5)
        assert {str(job.out) for job in jobs} == {"part"}
        return jobs

    papers = {study["name"]: study["paper"] for study in studies() if not study["on_request"]}
    of_paper = {name for name, paper in papers.items() if paper == "bmd09"}
    whole = {job.study["name"] for job in cut("lst17", "runner=sequential")}
    assert whole == {name for name, paper in papers.items() if paper == "lst17"}
    assert [job.study["name"] for job in cut("lst17_ilsvrc")] == ["lst17_ilsvrc"]
    jobs = cut("bmd09_table1", "bmd09", "lf20_orl", "repeats=3")
    assert Counter(job.study["name"] for job in jobs) == Counter({*of_paper, "lf20_orl"})
    assert {e.repeats for job in jobs for e in job.experiments} == {3}
    methods = [(e.dataset, e.reducer) for job in cut("dataset=digits", "reducer=svd,none") for e in job.experiments]
    assert methods == [("digits", "svd"), ("digits", "none")]
    monkeypatch.setattr("kmdr.config.studies.study_names", lambda: ["bmd09_table1", "lf20_orl"])
    assert [job.study["name"] for job in cut("runner=sequential")] == ["bmd09_table1", "lf20_orl"]


def test_parts_that_are_not_there_are_told():
    one, other = (
        {"a" * 12: {"of": 3, "parts": [2]}},
        {"a" * 12: {"of": 3, "parts": [1, 2]}, "b" * 12: {"of": 1, "parts": [1]}},
    )
    both = with_parts(one, other)
    assert both == with_parts(other, one) == {"a" * 12: {"of": 3, "parts": [1, 2]}, "b" * 12: {"of": 1, "parts": [1]}}
    (sentence,) = missing_parts(both)
    assert "a" * 12 in sentence
    assert sentence.endswith(": 3")


SETTINGS = (
    "study=bzmd15_theorem13", "study.datasets=[digits]", "study.reducers=[none,random_sign]", "r_grid=[3,5]",
    "repeats=3", "timing_repeats=1", "kmeans.n_init=1", "kmeans.max_iter=5", "runner=sequential",
)  # fmt: skip


def table(folder):
    rows = pd.read_csv(folder / "rows.csv", dtype=str, keep_default_na=False)
    return rows.drop(columns=[*TIME_COLUMNS, "concurrency"])


@pytest.mark.slow
def test_the_parts_together_have_the_rows_of_one_run(tmp_path, monkeypatch, capsys):
    """To the bit, though one of them was interrupted, and one has no tasks; but for times and who ran beside."""
    monkeypatch.setattr(plan, "_REFERENCE", tmp_path / "none")

    def kmdr(*arguments):
        monkeypatch.setattr("sys.argv", ["kmdr", *map(str, arguments)])
        return exit_status(cli.command_line)

    def interrupted(store, *_):
        raise KeyboardInterrupt

    assert kmdr(*SETTINGS, f"out={tmp_path / 'whole'}") == 0
    folders = [tmp_path / str(number) for number in range(1, 7)]
    for number, folder in enumerate(folders, 1):
        command = ("shard", f"{number}/6", *SETTINGS, f"out={folder}")
        if number == 2:
            with monkeypatch.context() as patch:
                patch.setattr(Store, "add", interrupted)
                assert kmdr(*command) == 130
            assert not (folder / SHARDS).exists()
        capsys.readouterr()
        assert kmdr(*command) == 0
        said = capsys.readouterr().out
        assert f"part {number}/6 of the plan" in said
        assert "kmdr merge PART" in said
        assert not (folder / "figures").exists()
    rows = [len(pd.read_csv(folder / "rows.csv")) for folder in folders[:5]]
    assert sum(rows) == len(table(tmp_path / "whole")) == 9
    assert not (folders[5] / "rows.csv").exists()
    timed = [folder for folder in folders[:5] if (pd.read_csv(folder / "rows.csv")["concurrency"] == 1).any()]
    assert len(timed) == 1, "what is not timed may have other parts beside it"

    assert kmdr("merge", *folders[1:], "-o", tmp_path / "lacking") == 1
    assert len(table(tmp_path / "lacking")) == 9 - rows[0]
    assert "in 6 parts, these are not finished or not among the folders: 1" in capsys.readouterr().err
    assert kmdr("merge", *folders, "-o", tmp_path / "all") == 0
    assert not capsys.readouterr().err
    pd.testing.assert_frame_equal(table(tmp_path / "all"), table(tmp_path / "whole"))
    assert read_json(tmp_path / "all", "asked.json") == read_json(tmp_path / "whole", "asked.json")
    (each,) = read_json(tmp_path / "all", SHARDS).values()
    assert each == {"of": 6, "parts": [1, 2, 3, 4, 5, 6]}
    assert faults(tmp_path / "all") == []
    with monkeypatch.context() as patch:
        patch.setattr(Store, "add", interrupted)
        assert kmdr(*SETTINGS, f"out={tmp_path / 'all'}") == 0, "nothing is left to run"
