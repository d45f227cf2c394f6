"""A task's rows are a function of its fields: of nothing before it, beside it or around it."""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from kmdr import metrics
from kmdr.clustering.kmeans import Protocol
from kmdr.config.task import Task
from kmdr.datasets import Dataset
from kmdr.harness.task import Provenance, run, seconds_inside
from kmdr.linalg import matrix
from kmdr.reducers import Gaussian, SparseEmbedding, base, make, names
from kmdr.results.schema import COLUMNS, TIME_COLUMNS

PROVENANCE = Provenance(concurrency=1, threads=1, code_version="v", env_hash="e")


def data(labelled=True):
    rng = np.random.default_rng(1)
    labels = np.arange(60) % 3
    A = rng.standard_normal((60, 20)) + 3 * rng.standard_normal((3, 20))[labels]
    A.flags.writeable = False
    return Dataset("toy", A, labels if labelled else None, 3, "hash", "", "")


def task(reducer="random_sign", r_grid=(2, 5, 9), repeat=0, seed=0, params="{}", **changes):
    fields = {"k": 3, "protocol": Protocol(3, 50), "serial": False, "n": 60, "d": 20, "nnz": 1200} | changes
    return Task("s", "toy", "hash", "", reducer, params, r_grid=r_grid, repeat=repeat, seed=seed, **fields)


def values(rows):
    return [{key: value for key, value in row.items() if key not in TIME_COLUMNS} for row in rows]


@pytest.mark.parametrize("reducer", names())
def test_a_row_does_not_depend_on_which_others_were_asked_for(reducer):
    together = values(run(task(reducer), data(), PROVENANCE))
    alone = [values(run(task(reducer, r_grid=(r,)), data(), PROVENANCE))[0] for r in (9, 2, 5)]
    assert sorted(alone, key=lambda row: row["r"]) == together
    assert all(row["status"] == "ok" for row in together)


def test_repetitions_and_seeds_give_other_rows():
    rows = [
        values(run(task(repeat=repeat, seed=seed), data(), PROVENANCE)) for repeat, seed in ((0, 0), (1, 0), (0, 1))
    ]
    objectives = [tuple(row["objective"] for row in group) for group in rows]
    assert len(set(objectives)) == 3


def test_all_reducers_and_all_r_start_from_the_same_points(monkeypatch):
    seen = []
    import kmdr.reducers.base as module

    real = module.cluster_allowed
    monkeypatch.setattr(
        module, "cluster_allowed", lambda C, k, starts, *rest: seen.append(starts.tolist()) or real(C, k, starts, *rest)
    )
    for reducer in ("none", "random_sign", "svd"):
        run(task(reducer, repeat=4), data(), PROVENANCE)
    first_repeat = len(seen)
    run(task("none", repeat=5), data(), PROVENANCE)
    warm_up = [starts for starts in seen if len(starts) == 1]  # its protocol has a single start
    runs = [starts for starts in seen[:first_repeat] if starts not in warm_up]
    assert len(runs) == 9
    assert all(starts == runs[0] for starts in runs)
    assert seen[-1] != runs[0]


def test_rows_say_what_they_are():
    (row,) = run(task(r_grid=(5,)), data(), PROVENANCE)
    assert set(row) <= set(COLUMNS)
    assert (row["n"], row["d"], row["nnz"], row["k"], row["r"]) == (60, 20, 1200, 3, 5)
    assert (row["concurrency"], row["threads"], row["code_version"], row["env_hash"]) == (1, 1, "v", "e")
    parts = row["prepare_seconds"] + row["reduce_seconds"] + row["cluster_seconds"]
    assert row["total_seconds"] == pytest.approx(parts)
    assert all(row[name] >= 0 for name in TIME_COLUMNS)


def test_prepare_is_charged_in_full_to_every_r_but_counted_once():
    rows = run(task("svd", params='{"rank":"k"}'), data(), PROVENANCE)
    assert len({row["prepare_seconds"] for row in rows}) == 1
    spent = sum(row["reduce_seconds"] + row["cluster_seconds"] + row["score_seconds"] for row in rows)
    assert seconds_inside(rows) == pytest.approx(spent + rows[0]["prepare_seconds"])


def test_without_labels_p_is_empty_and_f_is_there():
    rows = run(task(), data(labelled=False), PROVENANCE)
    assert all("accuracy" not in row and "nmi" not in row and 0 < row["objective"] < 1 for row in rows)


def test_csr_and_dense_data_give_the_same_partition():
    dense = data()
    sparse = Dataset("toy", sp.csr_array(dense.A), dense.labels, 3, "hash", "", "")
    for reducer in ("none", "random_sign", "sparse_embedding", "leverage"):
        a, b = run(task(reducer), dense, PROVENANCE), run(task(reducer), sparse, PROVENANCE)
        assert [row["objective"] for row in a] == pytest.approx([row["objective"] for row in b], rel=1e-10)


def test_a_failed_trial_is_a_row_and_the_others_go_on(monkeypatch):
    from kmdr.reducers.random_projection import RandomSign

    real = RandomSign.reduce

    def broken(self, A, r, rng, state):
        if r == 5:
            raise MemoryError("no room for\n  5 columns")
        return real(self, A, r, rng, state)

    monkeypatch.setattr(RandomSign, "reduce", broken)
    rows = run(task(), data(), PROVENANCE)
    assert [row["status"] for row in rows] == ["ok", "failed", "ok"]
    assert rows[1]["error"] == "MemoryError: no room for 5 columns"
    assert "objective" not in rows[1]


@pytest.mark.parametrize(("entries", "scored"), [(2**22, [5]), (720, [3]), (1, [])])
@pytest.mark.parametrize("reducer", ["random_sign", "random_sign_mailman", "none"])
def test_trials_that_are_done_together_have_the_rows_of_those_done_alone(reducer, entries, scored, monkeypatch):
    monkeypatch.setattr("kmdr.harness.once._kept", {})
    several = task(reducer, r_grid=(2, 3, 5, 7, 9), keep_labels=True)
    monkeypatch.setattr("kmdr.harness.task._ENTRIES", 1)
    alone = run(several, data(), PROVENANCE)
    residuals, sizes = metrics.residuals, []
    monkeypatch.setattr("kmdr.harness.task._ENTRIES", entries)
    monkeypatch.setattr(
        metrics, "residuals", lambda A, labels, total: sizes.append(len(labels)) or residuals(A, labels, total)
    )
    together = run(several, data(), replace(PROVENANCE, concurrency=2))
    assert sizes[-1:] == scored
    for row, expected in zip(together, alone, strict=True):
        assert row["reduce_seconds"] > 0
        assert row["score_seconds"] > 0
        assert row.pop("labels").tolist() == expected.pop("labels").tolist()
    assert values(together) == [{**row, "concurrency": 2} for row in values(alone)]


@pytest.mark.parametrize(
    "reducer",
    ["sparse_embedding", "osnap", "random_sign", "random_sign_mailman", "srht", "fjlt", "gaussian", "sparsified"],
)
def test_a_large_matrix_is_read_once_for_all_r_with_the_rows_of_a_read_for_each(reducer, monkeypatch):
    for name, value in (("WHOLE", 100), ("_ROWS", 16)):
        monkeypatch.setattr(matrix, name, value)
    several = task(reducer, r_grid=(2, 3, 5), keep_labels=True)
    beside = replace(PROVENANCE, concurrency=2)
    alone, _ = run(several, data(), PROVENANCE), run(several, data(), beside)  # the other has all compiled
    cls, asked = type(make(reducer)), []
    apply = cls.apply
    monkeypatch.setattr(cls, "apply", lambda self, A, drawn: asked.append(len(A)) or apply(self, A, drawn))
    together = run(several, data(), beside)
    for row, expected in zip(together, alone, strict=True):
        assert row.pop("labels").tolist() == expected.pop("labels").tolist()
    assert values(together) == [{**row, "concurrency": 2} for row in values(alone)]
    n = data().A.shape[0]
    blocks = [min(16, n - start) for start in range(0, n, 16) for _ in several.r_grid]
    assert asked == ([n] * 3 if reducer in ("gaussian", "sparsified") else blocks)


def test_a_class_says_itself_whether_it_works_row_by_row(monkeypatch):
    """One derived from a reducer may map a row by what stands in others."""

    class Centred(SparseEmbedding):
        def apply(self, A, drawn):
            return super().apply(A - A.mean(axis=0), drawn)

    monkeypatch.setattr(matrix, "WHOLE", 100)
    A = data().A
    assert base.maps_in_blocks(SparseEmbedding(), A)
    assert not base.maps_in_blocks(Centred(), A)
    assert not base.maps_in_blocks(Gaussian(), A)  # it does not say so


def test_images_that_fail_together_are_computed_one_by_one(monkeypatch):
    asked = []

    def broken(reducer, A, maps):
        asked.append((A.shape, len(maps)))
        raise MemoryError

    monkeypatch.setattr(matrix, "WHOLE", 100)
    beside = replace(PROVENANCE, concurrency=2)
    expected = values(run(task(), data(), beside))
    monkeypatch.setattr("kmdr.harness.task.images", broken)
    assert values(run(task(), data(), beside)) == expected
    assert asked == [((60, 20), 3)]


@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_trial_that_cannot_be_scored_fails_alone(concurrency, monkeypatch):
    import kmdr.reducers.base as module

    real = module.cluster_allowed

    def broken(C, *rest):
        clustering = real(C, *rest)
        return replace(clustering, labels=clustering.labels - (C.shape[1] == 5))

    monkeypatch.setattr(module, "cluster_allowed", broken)
    rows = run(task(), data(), replace(PROVENANCE, concurrency=concurrency))
    assert [row["status"] for row in rows] == ["ok", "failed", "ok"]
    assert "whole numbers from 0" in rows[1]["error"]
    assert not rows[1].keys() & {"objective", "n_iter", *TIME_COLUMNS}


def test_a_failure_in_the_shared_work_fails_every_r(monkeypatch):
    from kmdr.reducers.leverage import LeverageScores

    def broken(self, A, k, rng):
        raise ValueError("no")

    monkeypatch.setattr(LeverageScores, "prepare", broken)
    rows = run(task("leverage"), data(), PROVENANCE)
    assert [(row["r"], row["status"], row["error"]) for row in rows] == [
        (r, "failed", "ValueError: no") for r in (2, 5, 9)
    ]


def test_the_configuration_hash_covers_what_determines_a_row_and_nothing_else():
    base = task()
    same = [task(r_grid=(1,)), task(repeat=3), task(serial=True)]
    other = [
        task(seed=1), task("gaussian"), task(params='{"eps":0.5}'), task(k=4), task(protocol=Protocol(3, 51)),
        task(protocol=Protocol(1, 50, "first_of_class")), task(protocol=Protocol(3, 50, "plus")),
        task(protocol=Protocol(3, 50, engine="sklearn")), task(matching="identity"),
    ]  # fmt: skip
    assert {each.config_hash for each in same} == {base.config_hash}
    assert len({each.config_hash for each in [base, *other]}) == 1 + len(other)
    assert json.loads(json.dumps(base.config)) == base.config


def test_the_matching_changes_p_alone():
    # From these starts the clusters are the classes in another order.
    best, same = (values(run(task("none", matching=each), data(), PROVENANCE)) for each in ("best", "identity"))
    for rows in zip(best, same, strict=True):
        P = [row.pop("accuracy") for row in rows]
        assert P[0] > P[1]
        assert len({row.pop("config_hash") for row in rows}) == 2
        assert [row.pop("matching") for row in rows] == ["best", "identity"]
        assert rows[0] == rows[1]


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_both_engines_and_k_means_plus_plus_reach_the_same_best_of_many(layout):
    given = data()
    given = Dataset("toy", layout(given.A), given.labels, 3, "hash", "", "")
    protocols = [Protocol(30, 100), Protocol(30, 100, engine="sklearn"), Protocol(30, 100, "plus")]
    F = [run(task("none", r_grid=(20,), protocol=each), given, PROVENANCE)[0]["objective"] for each in protocols]
    np.testing.assert_allclose(F, F[0], rtol=1e-9)


@pytest.fixture
def cold(monkeypatch):
    """A process that has run nothing yet, and a list of the dimensions of what each k-means clusters."""
    import kmdr.reducers.base as module

    monkeypatch.setattr("kmdr.harness.task._warm", set())
    real, seen = module.cluster_allowed, []
    monkeypatch.setattr(module, "cluster_allowed", lambda C, *rest: seen.append(C.shape) or real(C, *rest))
    run(task("none", repeat=9), data(), replace(PROVENANCE, concurrency=2))  # what is compiled once a process
    return seen


def counts(seen):
    """How often data of 60 points, not the tiny ones of `warm_up`, were clustered in each dimension."""
    return Counter(d for n, d in seen if n == 60)


def test_each_timed_cell_is_run_once_untimed_before_it_is_timed(cold):
    """The first trial of a process took 60 times as long as the next and entered the mean."""
    cold.clear()
    run(task("gaussian", r_grid=(2, 5)), data(), PROVENANCE)
    assert counts(cold) == {2: 2, 5: 2}
    run(task("gaussian", r_grid=(2, 5), repeat=1), data(), PROVENANCE)
    assert counts(cold) == {2: 3, 5: 3}, "once a process and cell, not for each repetition"
    run(task("gaussian", r_grid=(2, 9), repeat=2, serial=True), data(), PROVENANCE)
    assert counts(cold) == {2: 4, 5: 3, 9: 2}, "only a cell that is new"
    other = [{"protocol": Protocol(2, 50)}, {"k": 4}]
    for changes in other:
        cold.clear()
        run(task("gaussian", r_grid=(2,), **changes), data(), PROVENANCE)
        assert counts(cold) == {2: 2}


def test_what_is_not_timed_is_not_run_twice(cold):
    cold.clear()
    run(task("gaussian", r_grid=(2,)), data(), replace(PROVENANCE, concurrency=2))
    run(task("gaussian", r_grid=(2,)), data(), PROVENANCE, timed=False)
    assert counts(cold) == {2: 2}


@pytest.mark.parametrize("reducer", ["gaussian", "leverage", "svd", "none"])
def test_the_untimed_trial_changes_no_number(reducer, cold):
    warmed, again = (run(task(reducer, keep_labels=True), data(), PROVENANCE) for _ in range(2))
    untimed = run(task(reducer, keep_labels=True), data(), PROVENANCE, timed=False)
    for rows in zip(warmed, again, untimed, strict=True):
        labels = [row.pop("labels").tolist() for row in rows]
        assert labels[0] == labels[1] == labels[2]
    assert values(warmed) == values(again) == values(untimed)


def test_a_cell_that_fails_is_tried_again_and_fails_as_a_row(cold, monkeypatch):
    from kmdr.reducers.random_projection import Gaussian as Cls

    tried = []

    def broken(self, A, r, rng, state):
        tried.append(r)
        raise MemoryError("no")

    monkeypatch.setattr(Cls, "reduce", broken)
    assert [row["error"] for row in run(task("gaussian"), data(), PROVENANCE)] == ["MemoryError: no"] * 3
    assert tried == [2, 5, 9] * 2
