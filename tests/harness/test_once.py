"""What draws nothing is done once for all repetitions, and nothing of a row but its times can tell."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from kmdr.base.outside import allow
from kmdr.base.seeding import generator
from kmdr.clustering import kmeans
from kmdr.clustering.kmeans import Protocol
from kmdr.config.task import Task, origins_of_methods
from kmdr.datasets import Dataset
from kmdr.harness import once as module
from kmdr.harness.once import do_once, extend
from kmdr.harness.task import Provenance, run, seconds_inside
from kmdr.reducers import names
from kmdr.results.schema import TIME_COLUMNS

BESIDE = Provenance(concurrency=2, threads=1, code_version="v", env_hash="e")
ALONE = replace(BESIDE, concurrency=1)
STARTS = (Protocol(2, 50), Protocol(1, 50, "first_of_class"), Protocol(2, 50, "plus"))


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    """Keep whatever can be kept, however fast it was, and nothing of another test."""
    monkeypatch.setattr(module, "_kept", {})
    monkeypatch.setattr(kmeans, "_last", {})
    monkeypatch.setattr(module, "_LEAST_SECONDS", 0.0)
    monkeypatch.setattr(module, "_WORTH", 0.0)


def data(sparse=False, shift=0.0, content="hash"):
    rng = np.random.default_rng(1)
    labels = np.arange(60) % 3
    A = np.maximum(rng.standard_normal((60, 20)) + 3 * rng.standard_normal((3, 20))[labels] + shift, 0)
    A.flags.writeable = False
    return Dataset("toy", sp.csr_array(A) if sparse else A, labels, 3, content, "", "")


def task(reducer, repeat=0, protocol=STARTS[0], **changes):
    fields = {"k": 3, "n": 60, "d": 20, "nnz": 1200, "r_grid": (2, 5), "serial": False, "seed": 0} | changes
    given = {"study": "s", "dataset": "toy", "data_sha256": "hash", "folder": "", "params": "{}"} | fields
    return Task(reducer=reducer, repeat=repeat, protocol=protocol, **given)


def values(rows):
    return [{key: value for key, value in row.items() if key not in (*TIME_COLUMNS, "concurrency")} for row in rows]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("reducer", names())
def test_rows_are_those_of_trials_that_share_nothing(reducer, sparse):
    """Studies with other starts, other r and another matching are woven in, as they are in a run."""
    tasks = [
        task(reducer, repeat, protocol, matching=matching, r_grid=r_grid)
        for repeat in range(3)
        for protocol in STARTS
        for matching, r_grid in (("best", (2, 5)), ("identity", (5, 3)))
        if not (reducer == "sparsified" and protocol.start == "plus")
    ]
    beside = [values(run(each, data(sparse), BESIDE)) for each in tasks]
    kept = {**module._kept}
    assert beside == [values(run(each, data(sparse), ALONE)) for each in tasks]
    assert {row["status"] for rows in beside for row in rows} == {"ok"}
    assert kept.keys() == module._kept.keys(), "a trial that runs alone keeps nothing"


@pytest.mark.parametrize(
    ("reducer", "protocol", "again"),
    [
        ("leverage_approx", STARTS[1], ["prepare", "reduce", "cluster", "score", "total"]),
        ("random_sign", STARTS[1], ["reduce", "cluster", "score"]),
        ("leverage", STARTS[0], ["reduce", "cluster", "score"]),
        ("laplacian_score", STARTS[2], ["cluster", "score"]),
        ("lle", STARTS[0], ["cluster", "score"]),
        ("svd", STARTS[1], []),
        ("none", STARTS[1], []),
    ],
)
def test_a_row_has_a_time_for_what_its_own_repetition_did(reducer, protocol, again):
    first, second = (run(task(reducer, repeat, protocol), data(), BESIDE) for repeat in (0, 1))
    for row in first:
        assert set(TIME_COLUMNS) <= row.keys()
    for row in second:
        assert row.keys() & {*TIME_COLUMNS} == {f"{step}_seconds" for step in again}
    spent = {name: sum(row.get(name, 0.0) for row in second) for name in TIME_COLUMNS}
    spent["prepare_seconds"] /= len(second)
    assert seconds_inside(second) == pytest.approx(sum(spent.values()) - spent["total_seconds"])


@pytest.mark.parametrize("reducer", ["svd", "lle", "laplacian_score", "leverage"])
def test_nothing_is_had_from_other_data_parameters_or_clusters(reducer):
    other = {"svd": '{"rank":"r"}', "leverage": '{"centred":true}'}.get(reducer, '{"n_neighbors":3}')
    single = replace(data(), A=data().A.astype(np.float32))
    cases = [
        (task(reducer, protocol=STARTS[1]), data()),
        (task(reducer, protocol=STARTS[1]), data(shift=1.0, content="other")),
        (task(reducer, protocol=STARTS[1]), single),
        (task(reducer, protocol=STARTS[1], params=other), data()),
        (task(reducer, protocol=STARTS[0], k=2), data()),
        (task(reducer, protocol=Protocol(1, 1, "first_of_class")), data()),
    ]
    beside = [run(*case, BESIDE) for case in cases]
    assert [values(rows) for rows in beside] == [values(run(*case, ALONE)) for case in cases]
    for rows in beside[:-1]:
        assert all(set(TIME_COLUMNS) <= row.keys() for row in rows)
    assert all("prepare_seconds" not in row and "cluster_seconds" in row for row in beside[-1])


@pytest.mark.parametrize(
    ("reducer", "provenance", "read"),
    [
        ("none", BESIDE, [True, False, False]),
        ("svd", BESIDE, [True, False, False]),
        ("random_sign", BESIDE, [True] * 3),
        ("none", ALONE, [True] * 3),
    ],
)
def test_what_repetitions_cluster_alike_is_read_once(reducer, provenance, read, monkeypatch):
    repetitions = [task(reducer, repeat, r_grid=(5,)) for repeat in range(3)]
    expected = [values(run(each, data(), ALONE)) for each in repetitions]
    run(repetitions[0], data(), provenance)  # which warms up
    real, seen = kmeans._kernel_input, []
    monkeypatch.setattr(kmeans, "_last", {})
    monkeypatch.setattr(kmeans, "_kernel_input", lambda *given: seen.append(given) or real(*given))
    times = []
    for each, rows in zip(repetitions, expected, strict=True):
        before = len(seen)
        assert values(run(each, data(), provenance)) == rows
        times.append(len(seen) > before)
    assert times == read


def test_what_comes_from_outside_or_is_timed_is_done_each_time():
    for given in (
        task("sklearn.decomposition.IncrementalPCA"),
        task("svd", protocol=replace(STARTS[1], engine="sklearn.cluster.KMeans")),
        task("svd", serial=True),
    ):
        for repeat in range(2):
            allow(given.reducer, given.protocol.engine)
            for row in run(replace(given, repeat=repeat), data(), BESIDE):
                assert row["status"] == "ok"
                assert set(TIME_COLUMNS) <= row.keys()
    assert not module._kept


@pytest.mark.parametrize("what", ["reducers.origin_of_reducer", "engines.origin_of_engine"])
def test_what_a_guest_brings_is_done_each_time(what, monkeypatch):
    """It may draw from a generator of its own."""
    uncached = origins_of_methods.__wrapped__
    monkeypatch.setattr("kmdr.harness.task.origins_of_methods", uncached)
    monkeypatch.setattr(f"kmdr.config.task.{what}", lambda name: "lab 1.0 0123456789ab")
    for repeat in range(2):
        assert all(set(TIME_COLUMNS) <= row.keys() for row in run(task("variance", repeat, STARTS[1]), data(), BESIDE))
    assert not module._kept


@pytest.mark.parametrize(
    ("draw", "drawn"),
    [
        (lambda rng: None, False),
        (lambda rng: rng.bit_generator.seed_seq.entropy, False),
        (lambda rng: rng.random(), True),
        (lambda rng: rng.integers(2, dtype=np.uint8), True),
        (lambda rng: rng.spawn(1), True),
        (lambda rng: rng.bit_generator.random_raw(), True),
    ],
)
def test_what_drew_is_no_function_of_its_key(draw, drawn):
    def step(rng):
        draw(rng)
        return generator(1).random(3)

    rng = generator(0)
    first = do_once(("key",), rng, lambda: step(rng))
    assert (first.key, bool(module._kept)) == ((None, False) if drawn else (("key",), True))
    assert extend(first.key, 2) == (None if drawn else ("key", 2))
    again = do_once(("key",), generator(5), lambda: generator(2).random(3))
    assert (again.seconds is None) != drawn
    assert np.array_equal(again.value, first.value) != drawn


@pytest.mark.parametrize(
    "value",
    [
        np.arange(12.0).reshape(3, 4), np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.arange(24.0, dtype=np.float32).reshape(4, 6)[::2, 1:4], sp.csr_array(np.eye(3)),
        (np.arange(3.0), None), {"a": [1, 2.5, "x"]}, None,
    ],
)  # fmt: skip
def test_a_copy_is_handed_out_that_can_be_written_to(value):
    def plain(given):
        return repr(given.toarray() if sp.issparse(given) else given)

    before = plain(value)
    do_once(("key",), None, lambda: value)
    copy = do_once(("key",), None, pytest.fail).value
    assert (type(copy), plain(copy)) == (type(value), before)
    if isinstance(copy, np.ndarray):
        assert copy.dtype == value.dtype
        assert copy.flags.c_contiguous >= value.flags.c_contiguous
        assert copy.flags.f_contiguous >= value.flags.f_contiguous
        copy += 1
        assert plain(do_once(("key",), None, pytest.fail).value) == before


def test_only_what_fits_and_was_worth_it_and_can_be_copied_is_kept(monkeypatch):
    monkeypatch.setattr(module, "_MOST_BYTES", 3000)
    for i in range(5):
        do_once((i,), None, lambda: np.zeros(100))
    assert [*module._kept] == [(0,), (1,), (2,)], "the first that fit stay, as repetitions come round in turn"
    monkeypatch.setattr(module, "_kept", {})
    do_once((0,), None, lambda: lambda: 1)
    assert not module._kept
    monkeypatch.setattr(module, "_WORTH", 1e9)
    do_once((1,), None, lambda: np.zeros(100))
    assert not module._kept


def test_a_step_that_fails_is_tried_again():
    with pytest.raises(ZeroDivisionError):
        do_once(("key",), None, lambda: 1 / 0)
    assert do_once(("key",), None, lambda: 1).value == 1
