"""Folders of several machines as one: nothing is lost, nothing counted twice, and a contradiction is refused."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kmdr.base.errors import UserError
from kmdr.base.files import DamagedError
from kmdr.base.process import exit_status
from kmdr.base.text import short_hash
from kmdr.cli.arguments import COMMANDS
from kmdr.clustering.kmeans import Protocol
from kmdr.config.task import Task
from kmdr.results import merge as module
from kmdr.results import store as stores
from kmdr.results import table as tables
from kmdr.results.check import faults
from kmdr.results.checksums import UNKNOWN, write_checked, write_table
from kmdr.results.json_files import read_json
from kmdr.results.merge import merge
from kmdr.results.outdated import unfinished_tasks
from kmdr.results.paths import task_files
from kmdr.results.reader import fact_texts
from kmdr.results.store import Store
from kmdr.results.table import all_rows, compress, trial_of
from kmdr.results.table_stream import VARIABLE, TooLargeError
from rows import make_rows, trial, write_rows

PLATFORM = {"cpu": "A", "blas": [], "packages": {"numpy": "2", "scipy": "1", "numba": "0"}, "cores": 2}


def tasks(repeats, name="svd", r_grid=(2, 5)):
    return [
        Task("s", "toy", "5" * 64, "", name, "{}", 3, r_grid, repeat, 0, Protocol(1, 9), False) for repeat in repeats
    ]


def results(folder, of, manifest=PLATFORM, **changes):
    """A folder of results whose F is a function of r and the repetition."""
    store, key = Store(folder), short_hash(manifest)
    store.add_environment(manifest)
    store.add_configs(task.config for task in of)
    for task in of:
        store.add(task, [{**trial(task, r, 0.1 + r / 100 + task.repeat / 1000, key), **changes} for r in task.r_grid])
    store.change("asked.json", lambda _: {"s": sorted({task.config_hash for task in of})})
    store.log({"finished": "2026-01-01", "tasks_done": len(of), "env_hash": key})
    store.merge()
    return folder


def files_of(folder):
    """Content of each file; the lock of a folder is none of its content."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def trials(folder):
    return {trial_of(row): row["objective"] for row in all_rows(folder)}


def handed_on(folder, kind):
    """The same folder without its task files, with nothing but the table."""
    if kind == "rows.csv.xz":
        compress(folder)
    if kind != "tasks":
        for path in folder.iterdir():
            if path.name != kind:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    return folder


@pytest.mark.parametrize("first", ["tasks", "rows.csv", "rows.csv.xz"])
@pytest.mark.parametrize("second", ["tasks", "rows.csv.xz"])
def test_a_merge_has_the_rows_of_both(tmp_path, first, second, capsys):
    a = handed_on(results(tmp_path / "a", tasks(range(3))), first)
    b = handed_on(results(tmp_path / "b", tasks(range(2, 5)), {**PLATFORM, "cores": 64}), second)
    c = tmp_path / "c"
    assert exit_status(lambda: COMMANDS["merge"]([str(a), str(b), "-o", str(c)])) == 0
    assert "10 rows" in capsys.readouterr().out
    whole = results(tmp_path / "whole", tasks(range(5)))
    assert trials(c) == trials(whole)
    table, expected = (pd.read_csv(folder / "rows.csv") for folder in (c, whole))
    pd.testing.assert_frame_equal(table.drop(columns="env_hash"), expected.drop(columns="env_hash"))
    assert unfinished_tasks(tasks(range(5)), all_rows(c)) == []
    if first == second == "tasks":
        assert faults(c) == []
        assert len(list((c / "environments").iterdir())) == 2
        assert set(read_json(c, "asked.json")["s"]) == {tasks([0])[0].config_hash}
        assert [json.loads(line)["tasks_done"] for line in (c / "runs.jsonl").read_text().splitlines()] == [3, 3]


def test_into_a_folder_that_has_rows_and_twice_is_the_same_as_once(tmp_path):
    a, b = results(tmp_path / "a", tasks(range(2))), results(tmp_path / "b", tasks(range(1, 4), r_grid=(5, 9)))
    before = files_of(b)
    merge([b], a)
    assert trials(a) == trials(results(tmp_path / "c", tasks(range(2)))) | trials(b)
    after = files_of(a)
    merge([b, a], a)
    assert files_of(a) == after
    assert files_of(b) == before
    assert faults(a) == []


@pytest.mark.parametrize("below", ["environments", "facts", "new/deeper"])
def test_a_target_inside_a_folder_that_is_only_read_is_refused(tmp_path, below, capsys):
    a, b = results(tmp_path / "a", tasks([0])), results(tmp_path / "b", tasks([1]))
    before = files_of(a)
    assert exit_status(lambda: COMMANDS["merge"]([str(a), str(b), "-o", str(a / below)])) == 2
    assert f"{a / below} is inside {a}" in capsys.readouterr().err
    assert files_of(a) == before


@pytest.mark.parametrize("existing", [True, False])
@pytest.mark.parametrize(
    "change", [{"objective": 0.7}, {"accuracy": 0.25}, {"metrics": '{"mine":2}'}], ids=lambda change: next(iter(change))
)
def test_a_contradiction_is_refused_and_nothing_written(tmp_path, change, existing, capsys):
    a = results(tmp_path / "a", tasks([0]), metrics='{"mine":1}')
    b = results(tmp_path / "b", tasks([0]), **{"metrics": '{"mine":1}', **change})
    c = tmp_path / "c"
    if existing:
        results(c, tasks([7], "variance"))
    before = files_of(c)
    assert exit_status(lambda: COMMANDS["merge"]([str(a), str(b), "-o", str(c)])) == 2
    (line,) = capsys.readouterr().err.splitlines()
    name, value = next(iter(change.items()))
    for part in (str(a), str(b), "svd on toy", "r = 2", "repetition 0", tasks([0])[0].config_hash):
        assert part in line
    assert "mine 1 → 2" in line if name == "metrics" else f" → {value}" in line
    assert files_of(c) == before
    assert c.exists() == existing


def test_what_rounding_makes_of_it_on_another_machine_is_no_contradiction(tmp_path):
    """By the rule of ``kmdr verify``: to the last bit on one platform, up to rounding across two."""
    a = results(tmp_path / "a", tasks([0], r_grid=(2,)))
    objective = float(np.nextafter(0.1 + 2 / 100, 1))
    same = results(tmp_path / "same", tasks([0], r_grid=(2,)), objective=objective)
    with pytest.raises(UserError, match="other values"):
        merge([a, same], tmp_path / "c")
    other = results(tmp_path / "other", tasks([0], r_grid=(2,)), {**PLATFORM, "cpu": "B"}, objective=objective)
    assert merge([a, other], tmp_path / "c").shared == 1
    assert list(trials(tmp_path / "c").values()) == list(trials(a).values())


def test_other_times_are_no_contradiction_and_the_better_ranked_row_is_kept(tmp_path, capsys):
    a = results(tmp_path / "a", tasks([0]), cluster_seconds=2.25, total_seconds=3.0)
    b = results(tmp_path / "b", tasks([0]), cluster_seconds=1.25, total_seconds=2.0, concurrency=1)  # timed alone
    failed = {"status": "failed", "error": "out of memory", "objective": ""}
    worse = results(tmp_path / "worse", tasks([0]), **failed)
    COMMANDS["merge"]([str(worse), str(a), str(b), f"OUT={tmp_path / 'c'}"])
    assert {row["total_seconds"] for row in all_rows(tmp_path / "c")} == {"2.0"}
    assert "2 trials in several of them are kept once, 2 of these with other times" in capsys.readouterr().out


def test_labels_come_with_their_rows(tmp_path):
    label = {"labels": np.arange(9) % 3}
    a = results(tmp_path / "a", tasks([0]), **label)
    b = results(tmp_path / "b", tasks(range(2)), **label, cluster_seconds=3.25, total_seconds=4.0)
    c = results(tmp_path / "c", tasks([0]), cluster_seconds=4.25, total_seconds=5.0)  # the same trial, without labels
    merge([a, b], c)
    store = Store(c)
    assert len(store.labelled(store.merge())) == 4
    assert faults(c) == []
    assert len(list(task_files(c))) == 3


def test_tables_with_too_many_rows_together_are_refused_and_nothing_is_written(tmp_path, monkeypatch):
    for number, name in enumerate(("a", "b")):
        (tmp_path / name).mkdir()
        rows = [make_rows("s", f"d{number}", "m", 10, 2000, seconds=10)]
        write_rows(tmp_path / name, *rows)
    monkeypatch.setenv(VARIABLE, "1M")
    with pytest.raises(TooLargeError, match="c has at least 3277 rows, more than the limit of 3276"):
        merge([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_damaged_input_is_refused_and_nothing_written(tmp_path, capsys):
    a = results(tmp_path / "a", tasks([0]))
    for number, spoil in enumerate(
        ("tasks/*/*/*/*.csv", "configs.jsonl", "environments/*", "asked.json", "runs.jsonl")
    ):
        b = results(tmp_path / f"b{number}", tasks([1]))
        (path,) = b.glob(spoil)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        assert exit_status(lambda b=b: COMMANDS["merge"]([str(a), str(b), "-o", str(tmp_path / "c")])) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert str(path) in line
        assert not (tmp_path / "c").exists()
    for wrong in ([], [str(a)], [str(a), str(tmp_path / "none"), "-o", "c"], [str(a), "--output", "c"]):
        assert exit_status(lambda wrong=wrong: COMMANDS["merge"](wrong)) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("form", ["tasks", "rows.csv"])
def test_an_interrupted_merge_is_finished_by_the_same_command(tmp_path, monkeypatch, form):
    """Stopped before its n-th write, for every other n: no row of the target is lost, and the next merge ends it."""
    a = results(tmp_path / "a", tasks(range(2)), labels=np.arange(9) % 3)
    b = results(tmp_path / "b", tasks(range(2, 4)), {**PLATFORM, "cpu": "B"})
    target = handed_on(results(tmp_path / "c", tasks(range(4, 6))), form)
    merge([a, b], shutil.copytree(target, tmp_path / "whole"))
    wanted, own = trials(tmp_path / "whole"), trials(target)
    for writes in range(0, 40, 2):
        copy = shutil.copytree(target, tmp_path / f"copy{writes}")
        left = [writes]
        with monkeypatch.context() as patch:
            for owner in (module, stores, tables):
                real = owner.write_file

                def counted(root, path, content, real=real, left=left):
                    if not left[0]:
                        raise KeyboardInterrupt
                    left[0] -= 1
                    real(root, path, content)

                patch.setattr(owner, "write_file", counted)
            try:
                merge([a, b], copy)
                break
            except KeyboardInterrupt:
                assert own.items() <= trials(copy).items()
                read = pd.read_csv(module.read(copy).folder / "rows.csv") if form == "tasks" else None
                assert read is None or len(read) in (4, 12)
        merge([a, b], copy)
        assert trials(copy) == wanted
        assert [fault for fault in faults(copy) if "environments" not in str(fault.path)] == []
    assert writes > 6


def test_facts_of_data_are_united_and_facts_of_rows_are_not(tmp_path, capsys):
    parts = {"a": ("usps,1.5", 'tdt2,"x, y"'), "b": ("usps,1.5", "colon,3"), "c": ("isolet,4",)}
    for number, (name, lines) in enumerate(parts.items()):
        folder = results(tmp_path / name, tasks([number]))
        text = "\n".join(("dataset,number", *lines, "")).encode()
        write_table(folder, "facts/traits.csv", text)
        write_table(folder, "facts/ranks.csv", text, short_hash(name))
    write_table(tmp_path / "c", "facts/traits.csv", b"dataset,other\nisolet,4\n")
    merge([tmp_path / "a", tmp_path / "b", tmp_path / "c"], tmp_path / "out")
    facts = tmp_path / "out" / "facts"
    assert (facts / "traits.csv").read_text() == 'dataset,number\nusps,1.5\ntdt2,"x, y"\ncolon,3\n'
    assert (facts / "ranks.csv").read_text() == (tmp_path / "a" / "facts" / "ranks.csv").read_text()
    assert not list(faults(tmp_path / "out"))
    warnings = capsys.readouterr().err.splitlines()  # the lines of c were omitted in silence
    assert [line.partition(", as of")[0] for line in warnings] == [
        f"kmdr: warning: facts/traits.csv has other columns in {tmp_path / name} than in {tmp_path / 'c'}"
        for name in "ab"
    ]


def write_fact(folder, text, made_from=UNKNOWN, name="traits"):
    write_table(folder, f"facts/{name}.csv", text.encode(), made_from)


@pytest.mark.parametrize("made_from", [UNKNOWN, short_hash("the same")], ids=["of data", "of rows"])
@pytest.mark.parametrize("into", ["new", "known"])
@pytest.mark.parametrize("other", ["usps,raw,2.5,9", "usps,raw,,9", "usps,raw,x,9", "usps,raw,1.50001,9"])
def test_contradicting_facts_are_refused_and_named(tmp_path, made_from, into, other):
    """The first folder's were kept in silence."""
    for number, (name, line) in enumerate((("a", "usps,raw,1.5,1"), ("b", other))):
        write_fact(results(tmp_path / name, tasks([number])), f"dataset,form,number,draw_seconds\n{line}\n", made_from)
    folders, target = [tmp_path / "a", tmp_path / "b"], tmp_path / "out"
    if into == "known":
        folders, target = [tmp_path / "b"], tmp_path / "a"
    before = files_of(tmp_path)
    with pytest.raises(UserError, match=r"traits\.csv has other values in .*a than in .*b \(.*1\.5 → .*nothing is"):
        merge(folders, target)
    assert files_of(tmp_path) == before


def test_facts_that_differ_by_rounding_times_or_other_rows_are_no_contradiction(tmp_path, capsys):
    header = "dataset,form,number,draw_seconds"
    for number, (name, value) in enumerate((("a", "1.5,1"), ("b", "1.5000000001,9"))):
        folder = results(tmp_path / name, tasks([number]))
        write_fact(folder, f"{header}\nusps,raw,{value}\nusps,{name},{number},\n")
        write_fact(folder, f"{header}\nusps,raw,{value}\n", short_hash("the same"), "same")
        write_fact(folder, f"{header}\nusps,raw,{number},1\n", short_hash(name), "ranks")
    merge([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    facts = tmp_path / "out" / "facts"
    assert (facts / "traits.csv").read_text() == f"{header}\nusps,raw,1.5,1\nusps,a,0,\nusps,b,1,\n"
    assert (facts / "same.csv").read_text() == f"{header}\nusps,raw,1.5,1\n"
    assert capsys.readouterr().err == ""


def test_contradicting_facts_of_other_platforms_are_named(tmp_path, capsys):
    for number, (name, value) in enumerate((("a", "1.5"), ("b", "2.5"))):
        folder = results(tmp_path / name, tasks([number]), PLATFORM | {"cpu": name})
        write_fact(folder, f"dataset,number\nusps,{value}\n")
    merge([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    assert (tmp_path / "out" / "facts" / "traits.csv").read_text() == "dataset,number\nusps,1.5\n"
    assert "traits.csv has other values in" in capsys.readouterr().err


@pytest.mark.parametrize(
    "content",
    [b"\x93\xff", b"", b"dataset,number\n\x93,1\n", b'dataset,number\n"usps,1\n'],
    ids=["noise", "empty", "noise below the header", "open quote"],
)
def test_a_fact_that_is_no_table_is_refused_before_anything_is_written(tmp_path, content):
    for number, name in enumerate("ab"):
        write_table(results(tmp_path / name, tasks([number])), "facts/traits.csv", b"dataset,number\nusps,1.5\n")
    write_table(tmp_path / "b", "facts/traits.csv", content)
    with pytest.raises(DamagedError, match=r"traits\.csv is damaged"):
        merge([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert [fault.path.name for fault in faults(tmp_path / "b")] == ["traits.csv"]


NAMES = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), min_size=1), min_size=1, unique=True)


@given(NAMES, NAMES)
@settings(max_examples=20)
def test_texts_of_facts_survive_their_union(tmp_path_factory, known, new):
    folder = tmp_path_factory.mktemp("facts")
    for number, (name, datasets) in enumerate((("a", known), ("b", new))):
        table = pd.DataFrame({"dataset": datasets, "number": "1e-3"}).to_csv(index=False, lineterminator="\n")
        write_table(results(folder / name, tasks([number])), "facts/traits.csv", table.encode())
    merge([folder / "a", folder / "b"], folder / "out")
    united = fact_texts(folder / "out", folder / "out" / "facts" / "traits.csv")
    assert united["dataset"].tolist() == list(dict.fromkeys([*known, *new]))
    assert {*united["number"]} == {"1e-3"}


def test_plans_and_what_is_missing_are_united(tmp_path):
    a, b = results(tmp_path / "a", tasks([0])), results(tmp_path / "b", tasks([1]))
    study = {"repeats_full": 4, "repeats_planned": 2, "left_out": ["x", "y"]}
    plan = {"budget_seconds": 60, "full": False, "thinned_grid": False, "tasks_not_begun": 1, "studies": {"s": study}}
    write_checked(a, "plan.json", plan)
    other = {"s": {**study, "repeats_planned": 4, "left_out": ["y"]}}
    write_checked(b, "plan.json", {**plan, "tasks_not_begun": 0, "budget_seconds": None, "studies": other})
    write_checked(a, "missing.json", {"toy": "not here", "bio": "by hand"})
    write_checked(a, "universes.json", {"p": [{"options": ["x"], "configs": {"1": ["s", "toy", "svd"]}}]})
    write_checked(b, "universes.json", {"p": [{"options": ["x"], "configs": {"2": ["s", "toy", "svd"]}},
                                            {"options": ["y"], "configs": {}}]})  # fmt: skip
    merge([a, b], tmp_path / "c")
    united = read_json(tmp_path / "c", "plan.json")
    limits = {"budget_seconds": 60, "thinned_grid": False, "tasks_not_begun": 1}
    assert united["studies"]["s"] == {"repeats_full": 4, "repeats_planned": 4, "left_out": ["y"], **limits}
    assert united["budget_seconds"] == 60
    assert read_json(tmp_path / "c", "missing.json") == {"bio": "by hand"}
    assert [sorted(each["configs"]) for each in read_json(tmp_path / "c", "universes.json")["p"]] == [["1", "2"], []]
