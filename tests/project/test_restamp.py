"""``scripts/restamp.py``: rows get the hash of today's code when trials of them give the same numbers again."""

import importlib.util
import json
import lzma
import os
from pathlib import Path

import pandas as pd
import pytest

from commands import Command
from kmdr.config.task import code_of
from kmdr.results.manifests import log_lines
from kmdr.results.outdated import outdated_code, unfinished_tasks
from kmdr.results.reader import read_rows
from kmdr.results.table import rows_file

spec = importlib.util.spec_from_file_location("restamp", Path(__file__).parents[2] / "scripts" / "restamp.py")
restamp = importlib.util.module_from_spec(spec)
spec.loader.exec_module(restamp)


@pytest.fixture
def older(tmp_path):
    """Return a folder of results whose rows have the hash of an earlier scheme."""
    command = Command(
        "dataset=synth", "dataset.n=60", "dataset.d=8", "dataset.k=3", "reducer=none,random_sign", "r_grid=[2,3]",
        "repeats=3", "kmeans.n_init=2", f"out={tmp_path}/out", "runner=sequential", "timing_repeats=0", "-m",
        environment=dict(os.environ),
    )  # fmt: skip
    error = command.communicate(timeout=300)[1]
    assert command.returncode == 0, error
    folder = tmp_path / "handed_on"
    (folder / "environments").mkdir(parents=True)
    for name in ("configs.jsonl", *(f"environments/{path.name}" for path in tmp_path.glob("out/environments/*"))):
        (folder / name).write_bytes((tmp_path / "out" / name).read_bytes())
    text = (tmp_path / "out" / "rows.csv").read_text()
    for reducer in ("none", "random_sign"):
        text = text.replace(code_of(reducer, "synth"), "0" * 12)
    (folder / "rows.csv").write_text(text)
    return folder


@pytest.mark.slow
def test_rows_that_give_the_same_numbers_are_restamped_and_those_that_do_not_are_left(older):
    before = read_rows(rows_file(older))
    assert {row["code_hash"] for row in before} == {"0" * 12}
    assert "were made by an older version of the code" in " ".join(outdated_code(before))
    assert restamp.restamp(older, 4, 0) == 0
    after = read_rows(rows_file(older))
    assert [path.name for path in older.glob("rows.csv*")] == ["rows.csv.xz"]
    assert [{**row, "code_hash": ""} for row in after] == [{**row, "code_hash": ""} for row in before]
    assert all(row["code_hash"] == code_of(row["reducer"], "synth") for row in after)
    assert outdated_code(after) == []
    packed = (older / "rows.csv.xz").read_bytes()
    smallest = lzma.compress(lzma.decompress(packed), check=lzma.CHECK_SHA256, preset=9 | lzma.PRESET_EXTREME)
    assert packed == smallest
    assert unfinished_tasks([], after, refresh=True) == []
    (line,) = log_lines(older)
    assert json.loads(line)["rows_updated"] == len(before) == 9
    assert restamp.restamp(older, 4, 0) == 0
    assert json.loads(log_lines(older)[1])["rows_updated"] == 0


@pytest.mark.slow
def test_nothing_is_restamped_where_a_number_differs(older):
    table = pd.read_csv(older / "rows.csv", dtype=str, keep_default_na=False)
    table.loc[table["reducer"] == "random_sign", "n_iter"] = "77"
    table.to_csv(older / "rows.csv", index=False, lineterminator="\n")
    before = (older / "rows.csv").read_bytes()
    assert restamp.restamp(older, 4, 0) == 1
    assert (older / "rows.csv").read_bytes() == before
    assert log_lines(older) == []


@pytest.mark.slow
def test_rows_of_other_blas_kernels_are_not_run_again(older):
    (path,) = (older / "environments").glob("*.json")
    machine = json.loads(path.read_text())
    machine["blas"] = [{**library, "architecture": "another"} for library in machine["blas"]]
    path.write_text(json.dumps(machine))
    assert restamp.same_kernels(older, read_rows(rows_file(older))) == []
    before = (older / "rows.csv").read_bytes()
    assert restamp.restamp(older, 4, 0) == 1
    assert (older / "rows.csv").read_bytes() == before
