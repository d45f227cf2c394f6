"""From an installed wheel in an empty folder, far from any checkout: all of a user's own, run, drawn, reported."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import own_files
from kmdr import compare

PROJECT = Path(__file__).resolve().parents[2]
OWN = {"reducer": "few", "dataset": "lines", "metric": "worth", "engine": "nearest", "paper": "own26"}


@pytest.fixture
def kmdr(tmp_path):
    """Return a function that runs a command of the wheel in an empty folder and returns what it printed."""
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    build = ["wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(PROJECT)]
    subprocess.run([*pip, *build], check=True)
    (wheel,) = tmp_path.glob("kmdr-*.whl")
    install = ["install", "--no-deps", "--no-index", "--target", str(tmp_path / "site"), str(wheel)]
    subprocess.run([*pip, *install], check=True)
    empty = tmp_path / "empty"
    empty.mkdir()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("KMDR_")},
        "PYTHONPATH": str(tmp_path / "site"), "XDG_CACHE_HOME": str(tmp_path / "cache"), "COLUMNS": "300",
    }  # fmt: skip

    def run(*arguments, guest=True, status=0):
        done = subprocess.run(
            [sys.executable, "-m", "kmdr", *arguments], cwd=empty, check=False, capture_output=True, text=True,
            env={**environment, "KMDR_PATH": "lab"} if guest else environment,
        )  # fmt: skip
        assert done.returncode == status, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    return run


@pytest.mark.long
def test_everything_of_ones_own_runs_from_an_installed_wheel(kmdr, tmp_path):
    empty = tmp_path / "empty"
    version = next(tmp_path.glob("kmdr-*.whl")).name.split("-")[1]
    for kind, name in OWN.items():
        kmdr("new", kind, name, "lab", guest=False)
    where = kmdr("data", "where", "lines").splitlines()
    assert where[0] == f"cache: {tmp_path / 'cache' / 'kmdr'}"
    assert f"results: {empty / 'results' / 'runs'}, unless a command names another folder" in where

    kmdr(
        "dataset=lines", "reducer=few", "kmeans.engine=nearest", "r_grid=[2,5]", "repeats=2", "runner.n_jobs=2", "out=o"
    )
    kmdr("study=own26_fig1", "repeats=3", "timing_repeats=1", "runner=sequential", "out=o")
    kmdr("figures", "o")
    kmdr("report", "o")

    with (empty / "o" / "rows.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["status"] for row in rows} == {"ok"}
    own = [row for row in rows if row["dataset"] == "lines"]
    assert [(row["reducer"], row["r"], row["repeat"]) for row in own] == [
        ("few", "2", "0"), ("few", "2", "1"), ("few", "5", "0"), ("few", "5", "1")
    ]  # fmt: skip
    for row in own:
        assert float(row["accuracy"]) <= json.loads(row["metrics"])["worth"] <= 1
        assert re.fullmatch(r"lab [0-9a-f]{12}", row["guests"])
        assert row["code_version"] == version
    for stem in ("custom", "own26_fig1"):
        assert {path.suffix for path in (empty / "o" / "figures").glob(f"{stem}.*")} == {".csv", ".png"}
    assert "few" in (empty / "o" / "figures" / "custom.csv").read_text("utf-8")
    with (empty / "o" / "verdicts.csv").open(newline="") as file:
        verdicts = {row["claim"]: row for row in csv.DictReader(file)}
    assert "not run" not in verdicts["own26-1"].values()
    assert "own26-1" in (empty / "o" / "report" / "own26.md").read_text("utf-8")
    listed = kmdr("list")
    for name in OWN.values():
        assert re.search(rf"^  {name} .* lab [0-9a-f]{{12}}$", listed, re.MULTILINE), name


@pytest.mark.long
def test_twelve_files_are_right_at_once_or_name_the_setting(kmdr, tmp_path, rng):
    empty = tmp_path / "empty"
    files = own_files.write(empty, rng)
    said = kmdr("data", "check", *(file.file for file in files), guest=False, status=1).strip().split("\n\n")
    for file, block in zip(files, said, strict=True):
        assert block.startswith(f"{file.file}: ")
        sentences = [line for line in block.splitlines() if line.startswith(("  refused", "  warning"))]
        assert len(sentences) == bool(file.said), block
        assert re.search(file.said, block), block
        out = empty / "out" / file.file
        kmdr(
            "dataset=file", f"dataset.path={file.file}", "dataset.title=t", *file.needed, "reducer=svd", "r_grid=[2]",
            "repeats=1", "runner=sequential", f"out={out}", guest=False,
        )  # fmt: skip
        with (out / "rows.csv").open(newline="") as rows:
            (row,) = csv.DictReader(rows)
        assert (int(row["n"]), int(row["d"]), int(row["k"])) == (*file.A.shape, 3)
        rows = compare(file.A, ["svd"], labels=own_files.CLASSES, r_grid=[2], repeats=1, name="t").rows
        (expected,) = rows.itertuples()
        for name in ("objective", "accuracy", "nmi", "ari"):
            np.testing.assert_allclose(float(row[name]), getattr(expected, name), rtol=1e-9, err_msg=file.file)
