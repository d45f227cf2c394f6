"""Commands on a results folder that a run is writing say so, or refuse to publish a part of it; none changes it."""

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from kmdr.base.errors import UserError
from kmdr.base.provenance import environment
from kmdr.base.text import short_hash
from kmdr.cli.arguments import COMMANDS
from kmdr.clustering.kmeans import Protocol
from kmdr.config.task import Task
from kmdr.export.crate import write_crate
from kmdr.results import store as stores
from kmdr.results.store import Store
from kmdr.results.table import compress
from rows import trial
from running import run_in

# Commands that take a folder of results, without those that say by themselves what they do: these write into it.
READERS = [
    name
    for name, command in COMMANDS.items()
    for names, _ in command.arguments or ()
    if names[0] in ("folder", "folders", "path") and name not in ("check", "metrics", "new")
]
PUBLISHING = {"export", "submit"}


def words(name, folder):
    others = {"compare": [folder], "export": ["--crate", folder / "out"], "submit": ["--out", folder / "out"]}
    if name == "merge":
        others["merge"] = ["-o", folder.parent / "merged"]
    if name == "verify":
        others["verify"] = ["--rows", "1"]
    return [str(word) for word in (folder, *others.get(name, ()))]


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def folder(tmp_path):
    """A folder of finished tasks without their table, as it is during a run or after one that was killed."""
    store, manifest = Store(tmp_path / "run"), environment()
    store.add_environment(manifest)
    tasks = [Task("s", "toy", "5" * 64, "", name, "{}", 3, (2, 5), repeat, 0, Protocol(1, 9), False)
             for name in ("none", "svd") for repeat in range(2)]  # fmt: skip
    store.add_configs(task.config for task in tasks)
    for task in tasks:
        store.add(task, [trial(task, r, 0.1 + 0.01 * r, short_hash(manifest)) for r in (2, 5)])
    return store.folder


@pytest.fixture
def run(folder):
    with run_in(folder):
        yield


def test_all_commands_that_read_a_folder_are_tested():
    assert {"table", "compare", "figures", "report", "merge", "verify"} | PUBLISHING == {*READERS}


@pytest.mark.parametrize("with_table", [True, False])
@pytest.mark.parametrize("name", READERS)
def test_a_command_says_that_a_run_is_writing_its_folder(name, with_table, folder, run, capsys):
    if with_table:
        killed_run(folder)
    before, error = contents(folder), ""
    try:
        COMMANDS[name](words(name, folder))
    except UserError as raised:
        error = str(raised)
    said = capsys.readouterr().err + error
    assert re.findall("a run is writing (.*?);", said) == [str(folder)], error
    assert "lacks" not in said
    if name in PUBLISHING:
        assert error == f"a run is writing {folder}; {name} {folder} when it has ended"
    elif name != "merge" and not with_table:
        assert error.startswith(f"{folder} has finished tasks, but no rows.csv, which a run makes when it ends")
    after = contents(folder)
    assert {path: after.get(path) for path in before} == before
    assert {path.relative_to(folder).parts[0] for path in after.keys() - before.keys()} <= {
        "figures", "report", "tables", "verdicts.csv", "components.csv", "margins.csv",
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted({*READERS} - {"merge", "submit"}))
def test_tasks_without_a_table_are_not_called_no_rows(name, folder):
    """They said 'run has no rows; run a study into it first' after a run that was killed, and during one."""
    with pytest.raises(UserError, match=f"{folder} has finished tasks, but no rows.csv.*check {folder} --repair'"):
        COMMANDS[name](words(name, folder))


def killed_run(folder):
    """Make the table, and add finished tasks as a run does that is killed before it makes the table."""
    Store(folder).merge()
    killed_run_of_another_method(folder)


def killed_run_of_another_method(folder):
    row = short_hash(environment())
    task = Task("s", "toy", "5" * 64, "", "srht", "{}", 3, (2, 5), 0, 0, Protocol(1, 9), False)
    Store(folder).add_configs([task.config])
    Store(folder).add(task, [trial(task, r, 0.3, row) for r in (2, 5)])


@pytest.mark.parametrize("name", sorted({*READERS} - {"merge", "submit"}))
def test_a_table_that_lacks_finished_tasks_is_not_shown_without_a_note(name, folder, capsys):
    """The older rows were shown without a word, as if the run that was killed had not been."""
    killed_run(folder)
    before = contents(folder)
    with suppress(UserError):
        COMMANDS[name](words(name, folder))
    note = f"{folder} has finished tasks that its table lacks, as after a run that was killed; the same run or "
    assert note in capsys.readouterr().err
    after = contents(folder)
    assert {path: after.get(path) for path in before} == before


def test_a_committed_table_that_lacks_finished_tasks_is_not_shown_without_a_note(folder, capsys):
    """Its `rows.csv.xz` stays the table until the run ends."""
    Store(folder).merge()
    compress(folder)
    shutil.rmtree(folder / "tasks")
    (folder / "rows.csv").unlink()
    for run in (0, 1):
        capsys.readouterr()
        COMMANDS["table"]([str(folder)])
        assert ("its table lacks" in capsys.readouterr().err) == bool(run)
        killed_run_of_another_method(folder)


@pytest.mark.parametrize("name", ["table", "figures"])
def test_a_complete_table_gets_no_note_whatever_the_times_of_its_files(name, folder, rng, capsys):
    killed_run(folder)
    COMMANDS["check"]([str(folder), "--repair"])
    for path in folder.rglob("*"):  # as after copying it
        seconds = float(rng.integers(10**9))
        os.utime(path, (seconds, seconds))
    for _ in range(3):
        capsys.readouterr()
        COMMANDS[name](words(name, folder))
        assert "lacks" not in capsys.readouterr().err
        os.utime(folder / "rows.csv", (1, 1))


def test_a_run_that_begins_during_an_export_stops_it(folder, tmp_path, monkeypatch):
    Store(folder).merge()
    answers = iter([False, False, True])
    monkeypatch.setattr(stores, "is_in_use", lambda _: next(answers))
    with pytest.raises(UserError, match="a run is writing"):
        write_crate(folder, tmp_path / "crate")
    assert [path.name for path in Path(tmp_path).iterdir()] == ["run"]
