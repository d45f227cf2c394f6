"""What a run leaves out so that it fits, and the order in which it goes."""

import math
from dataclasses import replace
from itertools import pairwise

import pandas as pd
import pytest

from kmdr.base.errors import UserError
from kmdr.clustering.kmeans import Protocol
from kmdr.config.task import Task
from kmdr.harness import plan as run_plan
from kmdr.harness.experiment import Experiment
from kmdr.harness.plan import (
    ALLOWANCE_SECONDS,
    Limits,
    balanced_order,
    choose,
    duration_text,
    expected_seconds,
    parse_duration,
    reference_means,
    wall_seconds,
)


def tasks(study="s", reducer="svd", repeats=5, timed=0, r_grid=(2, 5)):
    return [
        Task(study, "toy", "hash", "", reducer, "{}", 3, r_grid, repeat, 0, Protocol(1, 9), repeat < timed)
        for repeat in range(repeats)
    ]


def row(of, r, prepare=0.0, reduce=0.0, cluster=0.0, score=0.0, concurrency=2):
    return {"dataset": of.dataset, "reducer": of.reducer, "params": of.params, "config_hash": of.config_hash,
            "status": "ok", "r": str(r), "prepare_seconds": str(prepare), "reduce_seconds": str(reduce),
            "cluster_seconds": str(cluster), "score_seconds": str(score), "concurrency": str(concurrency)}  # fmt: skip


def one_second(task):
    return 1.0


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("1h", 3600), ("1h30m", 5400), ("1h0m5s", 3605)]
)
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.4, "59 s"), (60, "1 min"), (3569, "59 min"), (3571, "1 h 0 min"), (7140, "1 h 59 min"),
     (7200, "2 h 0 min"), (360_000, "100 h 0 min")],
)  # fmt: skip
def test_durations_in_words(seconds, text):
    assert duration_text(seconds) == text


@pytest.mark.parametrize("text", ["", "10", "ten minutes", "30m1h", "-5m", "1.5h", "30s", "0m"])
def test_what_is_no_duration_or_too_short_is_refused_with_an_example(text):
    with pytest.raises(UserError, match=r"budget = .*(write|give more),? e\.g\."):
        parse_duration(text)


def test_a_task_takes_its_preparation_once_and_each_of_its_trials():
    (task,) = tasks(repeats=1, r_grid=(2, 5))
    known = [row(task, 2, 10, 1, 2, 3), row(task, 5, 10, 10, 20, 30)]
    assert expected_seconds(known)(task) == pytest.approx(10 + 6 + 60, abs=0.1)
    assert expected_seconds(known)(task.restricted((5,))) == pytest.approx(10 + 60, abs=0.1)
    assert expected_seconds(known)(task.restricted((2, 7))) == pytest.approx(10 + 6 + 33, abs=0.1), "a new r: the mean"


def test_own_rows_count_before_the_reference_and_the_nearest_thing_known_before_others():
    (task,) = tasks(repeats=1, r_grid=(2,))
    own, reference = [row(task, 2, cluster=3)], run_plan._means([row(task, 2, cluster=50)])
    assert expected_seconds(own, reference)(task) == pytest.approx(3, abs=0.1)
    assert expected_seconds([], reference)(task) == pytest.approx(50, abs=0.1)
    of_two_methods = [*own, row(replace(task, reducer="lle"), 2, cluster=90)]
    assert expected_seconds(of_two_methods)(replace(task, seed=1)) == pytest.approx(3, abs=0.1), "other protocol"
    assert expected_seconds(own)(replace(task, reducer="lle")) == pytest.approx(3, abs=0.1), "same dataset"
    assert expected_seconds(own)(replace(task, dataset="other", reducer="lle")) < 1
    failed = [{**own[0], "status": "failed", "cluster_seconds": ""}]
    assert expected_seconds(failed, reference)(task) == pytest.approx(50, abs=0.1)


def test_of_the_reference_the_rows_are_read_if_there_are_any_of_this_version(tmp_path, monkeypatch):
    monkeypatch.setattr(run_plan, "_REFERENCE", tmp_path)
    assert reference_means() == {}
    (task,) = tasks(repeats=1, r_grid=(2,))
    known = pd.DataFrame([row(task, 2, cluster=3)])
    known.assign(another="x").to_csv(tmp_path / "rows.csv", index=False)
    assert expected_seconds([], reference_means())(task) == pytest.approx(3, abs=0.1)
    known.assign(cluster_seconds="50").to_csv(tmp_path / "rows.csv", index=False)
    assert expected_seconds([], reference_means())(task) == pytest.approx(50, abs=0.1), "the file has changed"
    known.drop(columns="concurrency").to_csv(tmp_path / "rows.csv", index=False)
    assert reference_means() == {}


def test_a_timed_task_takes_what_those_alone_took_and_what_is_done_once_is_shared_by_the_others():
    timed, beside = tasks(repeats=2, timed=1, r_grid=(2,))
    known = [row(timed, 2, 12, 6, 3, 3, concurrency=1), row(beside, 2, 12, 6, 3, 3), row(beside, 2, "", "", 3, "")]
    assert expected_seconds(known)(timed) == pytest.approx(24, abs=0.1)
    assert expected_seconds(known)(beside) == pytest.approx(6 + 3 + 3 + 1.5, abs=0.1)
    assert expected_seconds(known[1:])(timed) == expected_seconds(known)(beside), "none ran alone: what there is"


def test_without_limits_everything_that_is_left_is_run():
    all_of_it = [*tasks("a", repeats=5), *tasks("b", repeats=30)]
    plan = choose(all_of_it, all_of_it[3:], one_second, 2, Limits())
    assert set(plan.tasks) == set(all_of_it[3:])
    assert plan.repeats == {"a": 5, "b": 30}
    assert plan.left_out == {"a": [], "b": []}


@pytest.mark.parametrize("room", [7, 20, 57, 100, 313])
def test_the_largest_common_fraction_of_repetitions_that_fits_is_taken(room):
    all_of_it = [*tasks("a", repeats=10, timed=3), *tasks("b", "lle", repeats=200), *tasks("c", "pca", repeats=1000)]
    limits = Limits(budget=ALLOWANCE_SECONDS + room)

    def planned(fraction):
        return {"a": max(3, int(fraction * 10)), "b": max(2, int(fraction * 200)), "c": max(2, int(fraction * 1000))}

    def cost(repeats):
        serial = min(3, repeats["a"])
        warm_up = 1
        return warm_up + serial + (repeats["a"] - serial + repeats["b"] + repeats["c"]) / 2

    plan = choose(all_of_it, all_of_it, one_second, 2, limits)
    assert sum(wall_seconds(plan.tasks, one_second, 2).values()) == cost(plan.repeats) <= room
    assert sum(plan.seconds[task] for task in plan.tasks) == cost(plan.repeats)
    brute_force = max((planned(i / 1000) for i in range(1001) if cost(planned(i / 1000)) <= room), key=cost)
    assert plan.repeats == brute_force
    assert not any(plan.left_out.values())
    for study, repeats in plan.repeats.items():
        of_study = [task for task in plan.tasks if task.study == study]
        assert {task.repeat for task in of_study} == set(range(repeats))
        assert {task.r_grid for task in of_study} == {(2, 5)}, "the grid is never thinned by a budget"


def test_what_is_done_costs_nothing_and_a_larger_budget_does_only_what_is_missing():
    all_of_it = tasks(repeats=100)
    small = choose(all_of_it, all_of_it, one_second, 1, Limits(budget=ALLOWANCE_SECONDS + 20))
    assert small.repeats == {"s": 19}, "the first is preceded by an untimed one"
    left = [task for task in all_of_it if task not in small.tasks]
    assert choose(all_of_it, left, one_second, 1, Limits(budget=ALLOWANCE_SECONDS + 30)).repeats == {"s": 48}
    assert choose(all_of_it, left, one_second, 1, Limits(budget=ALLOWANCE_SECONDS + 30), spent=10).repeats == {"s": 38}
    assert set(choose(all_of_it, left, one_second, 1, Limits()).tasks) == set(left)
    nothing = choose(all_of_it, left, one_second, 1, Limits(budget=ALLOWANCE_SECONDS + 30), spent=90)
    assert (nothing.tasks, nothing.repeats) == ([], {"s": 19})


def test_the_warm_up_of_a_configuration_is_counted_once_and_not_in_each_study_or_after_a_pause():
    first, second = tasks("a", timed=3), tasks("b", timed=3)
    assert sum(wall_seconds([*first[:3], *second[:3]], one_second, 2).values()) == 7
    assert wall_seconds(first[1:3], one_second, 2) == {first[1]: 2, first[2]: 1}, "a later run warms up again"
    more = tasks("c", timed=1, r_grid=(2, 9))
    assert wall_seconds([*first[:1], more[0]], one_second, 2)[more[0]] == 1.5, "one of two r is new"
    assert sum(wall_seconds(first[3:], one_second, 2).values()) == 1, "parallel tasks have none"


def test_methods_whose_least_repetitions_do_not_fit_are_left_out_dearest_first_and_named():
    cheap, dear, dearer = tasks("a", "svd"), tasks("a", "lle"), tasks("b", "none")
    price = {"svd": 1.0, "lle": 10.0, "none": 100.0}
    all_of_it = [*cheap, *dear, *dearer]

    def seconds(task):
        return price[task.reducer]

    def choice(room):
        return choose(all_of_it, all_of_it, seconds, 1, Limits(budget=ALLOWANCE_SECONDS + room))

    assert choice(333).left_out == {"a": [], "b": []}
    assert choice(332).left_out == {"a": [], "b": ["none on toy"]}
    assert choice(332).repeats["a"] == 5, "what that frees goes to the others"
    assert choice(32).left_out == {"a": ["lle on toy"], "b": ["none on toy"]}
    assert choice(1).tasks == []


def test_methods_with_a_task_beyond_the_limit_are_left_out_and_named_in_alphabetical_order():
    slow = ["count_sketch", "leverage", "lle", "none", "pca"]
    all_of_it = [task for name in ["svd", *slow[::-1]] for task in tasks(reducer=name)]
    plan = choose(all_of_it, all_of_it, lambda task: 3.0 * (task.reducer in slow), 2, Limits(task_seconds=2.0))
    assert {task.reducer for task in plan.tasks} == {"svd"}
    assert plan.left_out == {"s": [f"{name} on toy" for name in slow]}


@pytest.mark.parametrize("r_grid", [(7,), (15, 30, 60), (5, 10, 15, 20), tuple(range(5, 305, 5)), tuple(range(10, 60))])
def test_a_thinned_grid_is_of_the_studys_own_values_from_first_to_last(r_grid):
    whole = Experiment("s", "toy", {}, "svd", {}, None, r_grid, 30, 3, 0, Protocol(1, 9), "best")
    thin = Limits(repeats=2, timing_repeats=1, grid=4).thin(whole)
    assert set(thin.r_grid) <= set(r_grid)
    assert len(thin.r_grid) == min(4, len(r_grid))
    assert (thin.r_grid[0], thin.r_grid[-1]) == (r_grid[0], r_grid[-1])
    if len(r_grid) > 4:
        steps = [b - a for a, b in pairwise(map(r_grid.index, thin.r_grid))]
        assert max(steps) - min(steps) <= 1, "evenly spaced"
    assert (thin.repeats, thin.timing_repeats) == (2, 1)
    assert Limits().thin(whole) == whole


def test_wherever_a_run_stops_all_studies_have_about_the_same_share_of_their_repetitions():
    repeats = {"a": 5, "b": 30, "c": 1000}
    ordered = balanced_order([task for study, R in repeats.items() for task in tasks(study, repeats=R)], one_second)
    assert len(ordered) == sum(repeats.values())
    for stop in range(0, len(ordered), 37):
        for study, R in repeats.items():
            begun = sum(task.study == study for task in ordered[:stop])
            share = stop / len(ordered)
            assert math.floor(share * R) - 1 <= begun <= math.ceil(share * R) + 1
