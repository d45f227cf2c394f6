"""The multiverse and the atlas of a results folder are checked, merged, exported and watched with the folder."""

import re
import shutil

import pytest

from kmdr.base.errors import UserError
from kmdr.base.provenance import environment
from kmdr.base.text import short_hash
from kmdr.cli.arguments import COMMANDS
from kmdr.clustering.kmeans import Protocol
from kmdr.config.task import Task
from kmdr.results.paths import PARTS, parts_of
from kmdr.results.store import Store
from kmdr.results.table import all_rows, compress
from rows import trial
from running import run_in


def write_results(folder, reducers):
    store, manifest = Store(folder), environment()
    store.add_environment(manifest)
    tasks = [Task("s", "toy", "5" * 64, "", name, "{}", 3, (2, 5), repeat, 0, Protocol(1, 9), False)
             for name in reducers for repeat in range(2)]  # fmt: skip
    store.add_configs(task.config for task in tasks)
    for task in tasks:
        store.add(task, [trial(task, r, 0.1 + 0.01 * r, short_hash(manifest)) for r in (2, 5)])
    (folder / "facts").mkdir()
    (folder / "facts" / "spectra.csv").write_text("a\n1\n")


def whole(folder):
    """Write a results folder with tables in all of its parts, and return it."""
    for place in (folder, *(folder / name for name in PARTS)):
        write_results(place, ["none", "svd"])
        Store(place).merge()
    return folder


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("[!.]*") if path.is_file()}


@pytest.fixture(params=PARTS)
def name(request):
    return request.param


def status_of(folder, *options):
    return COMMANDS["check"]([str(folder), *options])


def test_a_subfolder_of_another_name_or_without_rows_is_no_part(tmp_path):
    folder = whole(tmp_path / "run")
    shutil.copytree(folder / "atlas", folder / "other")
    shutil.rmtree(folder / "multiverse")
    (folder / "multiverse").mkdir()
    assert parts_of(folder) == [folder, folder / "atlas"]


@pytest.mark.parametrize(
    "spoiled", ["rows.csv", "facts/spectra.csv", "configs.jsonl", "environments/*", "tasks/**/*.csv"]
)
def test_a_fault_of_a_part_is_a_fault_of_the_folder(spoiled, name, tmp_path, capsys):
    """`kmdr check` found no fault in results whose atlas was damaged."""
    folder = whole(tmp_path / "run")
    assert status_of(folder) == 0
    file = min((folder / name).glob(spoiled))
    file.write_bytes(b"\xff")
    assert status_of(folder / name) == 1
    alone = capsys.readouterr().out.splitlines()[len(parts_of(folder)) :]
    assert alone
    assert status_of(folder) == 1
    assert {*alone} <= {*capsys.readouterr().out.splitlines()}
    shutil.copytree(folder, tmp_path / "copy")
    status_of(folder, "--repair")
    status_of(tmp_path / "copy" / name, "--repair")
    assert contents(folder) == contents(tmp_path / "copy")


def test_merging_keeps_the_rows_of_all_parts(name, tmp_path):
    """`kmdr merge` lost the atlas of the folders without a word."""
    folders = [whole(tmp_path / number) for number in "12"]
    for folder, method in zip(folders, ("srht", "gaussian"), strict=True):
        shutil.rmtree(folder / name)
        write_results(folder / name, ["none", method])
    COMMANDS["merge"]([*map(str, folders), "-o", str(tmp_path / "both")])
    for place in parts_of(folders[0]):
        inner = place.relative_to(folders[0])
        methods = {row["reducer"] for folder in folders for row in all_rows(folder / inner)}
        assert {row["reducer"] for row in all_rows(tmp_path / "both" / inner)} == methods
        assert (tmp_path / "both" / inner / "facts" / "spectra.csv").is_file()
    assert status_of(tmp_path / "both") == 0


@pytest.mark.parametrize("compressed", [False, True])
def test_an_export_has_all_parts_and_no_fault(compressed, tmp_path):
    """The crate had the report on an atlas but not its rows."""
    folder, crate = whole(tmp_path / "run"), tmp_path / "crate"
    for place in parts_of(folder) if compressed else ():
        compress(place)
    COMMANDS["export"]([str(folder), "--crate", str(crate)])
    assert [place.relative_to(crate) for place in parts_of(crate)] == [p.relative_to(folder) for p in parts_of(folder)]
    for place in parts_of(folder):
        inner = place.relative_to(folder)
        assert [*map(dict, all_rows(crate / inner))] == [*map(dict, all_rows(place))]
        assert (crate / inner / "facts" / "spectra.csv").is_file()
    assert status_of(crate) == 0


def test_an_export_refuses_a_part_without_its_table(name, tmp_path):
    folder = whole(tmp_path / "run")
    (folder / name / "rows.csv").unlink()
    with pytest.raises(UserError, match=f"{folder / name} has finished tasks, but no rows.csv"):
        COMMANDS["export"]([str(folder), "--crate", str(tmp_path / "crate")])
    assert not (tmp_path / "crate").exists()


@pytest.mark.parametrize("command", ["table", "compare", "report", "merge", "export", "submit"])
def test_a_run_that_writes_a_part_is_told_of(command, name, tmp_path, capsys):
    folder = whole(tmp_path / "run")
    words = {"compare": [folder], "merge": ["-o", tmp_path / "out"], "export": ["--crate", tmp_path / "out"],
             "submit": ["--out", tmp_path / "out"]}.get(command, [])  # fmt: skip
    error = ""
    with run_in(folder / name):
        try:
            COMMANDS[command](list(map(str, [folder, *words])))
        except UserError as raised:
            error = str(raised)
    assert re.findall("a run is writing (.*?);", capsys.readouterr().err + error) == [str(folder / name)]


def test_finished_tasks_that_the_table_of_a_part_lacks_are_told_of(name, tmp_path, capsys):
    folder = whole(tmp_path / "run")
    task = Task("s", "toy", "5" * 64, "", "srht", "{}", 3, (2, 5), 0, 0, Protocol(1, 9), False)
    Store(folder / name).add(task, [trial(task, r, 0.3) for r in (2, 5)])
    COMMANDS["table"]([str(folder)])
    assert f"{folder / name} has finished tasks that its table lacks" in capsys.readouterr().err
