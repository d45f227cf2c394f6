"""Rows drawn again and compared: a spoilt one is found, one without its data is not called good."""

import csv
import os
import shutil
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from kmdr import datasets
from kmdr.base import paths
from kmdr.base.provenance import environment
from kmdr.base.text import short_hash
from kmdr.cli.jobs import run_jobs
from kmdr.config.task import Task
from kmdr.harness.jobs import compose
from kmdr.harness.verify import folders_by_content, rebuild, sample, verify, verify_sample
from kmdr.results.compare import compare, platform_of
from kmdr.results.folder import has_file
from kmdr.results.manifests import described
from kmdr.results.reader import read_rows
from kmdr.results.row_check import config_of
from kmdr.results.schema import COLUMNS
from kmdr.results.store import Store

REFERENCE = paths.CONF.parent / "results" / "reference"


def row(study="s", objective=0.5, accuracy="0.75", status="ok"):
    return {"study": study, "objective": repr(objective), "accuracy": accuracy, "nmi": accuracy, "ari": accuracy,
            "n_iter": "7", "n_init_failed": "0", "status": status}  # fmt: skip


def again(**changes):
    same = {"objective": 0.5, "accuracy": 0.75, "nmi": 0.75, "ari": 0.75, "n_iter": 7, "n_init_failed": 0}
    return {**same, "status": "ok", **changes}


@pytest.mark.parametrize(
    ("rerun", "same_platform", "other_platform"),
    [
        (again(), "exact", "exact"),
        (again(objective=0.5 * (1 + 2**-52)), "different", "within tolerance"),
        (again(objective=0.5 * (1 + 9e-7)), "different", "within tolerance"),
        (again(nmi=0.75 + 1e-12), "different", "within tolerance"),
        (again(objective=0.5 * (1 + 2e-6)), "different", "another path"),
        (again(n_iter=8), "different", "another path"),
        (again(objective=0.5 * 0.995, accuracy=0.25, n_iter=3), "different", "another path"),
        (again(objective=0.5 * 1.011), "different", "different"),
        (again(objective=float("nan")), "different", "different"),
        ({**again(), "status": "failed", "error": "ValueError: no"}, "different", "different"),
        ({name: value for name, value in again().items() if name != "accuracy"}, "different", "different"),
    ],
)
def test_the_rule_of_comparison(rerun, same_platform, other_platform):
    assert compare(row(), rerun, same_platform=True)[0] == same_platform
    outcome, detail = compare(row(), rerun, same_platform=False)
    assert outcome == other_platform
    assert bool(detail) == (outcome != "exact")


def test_a_row_without_labels_is_compared_by_what_it_has():
    without = {name: value for name, value in again().items() if name not in ("accuracy", "nmi", "ari")}
    assert compare(row(accuracy=""), without, same_platform=True) == ("exact", "")


def test_the_sample_is_of_all_studies_without_failures_or_repeats_and_follows_its_seed():
    rows = [row(study, i) for study, size in (("a", 1000), ("b", 50), ("c", 3)) for i in range(size)]
    rows += [row("d", status="failed")] * 20
    drawn = sample(rows, 40, 1)
    assert Counter(r["study"] for r in drawn).keys() == {"a", "b", "c"}
    assert [r for r in drawn if r["study"] == "c"] != []
    counts = Counter(r["study"] for r in drawn)
    assert counts["c"] == 3
    assert abs(counts["a"] - counts["b"]) <= 1
    assert len({(r["study"], r["objective"]) for r in drawn}) == 40
    assert sample(rows, 40, 1) == drawn
    assert sample(rows, 40, 2) != drawn
    assert len(sample(rows, 5000, 1)) == 1053
    assert sample([], 40, 1) == []


def test_every_row_has_the_same_chance_within_its_study():
    rows = [row("a", i) for i in range(20)]
    times = Counter(r["objective"] for seed in range(4000) for r in sample(rows, 5, seed))
    assert len(times) == 20
    assert all(abs(count - 1000) < 6 * 750**0.5 for count in times.values())  # binomial; false alarm below 1e-7


def test_the_platform_is_what_decides_the_last_bits():
    here = environment()
    assert platform_of(here) == platform_of({**here, "os": "other", "python": "other", "cores": 64})
    for part in ("cpu", "blas"):
        assert platform_of(here) != platform_of({**here, part: "other"})
    other = {**here["packages"], "numpy": "0.1"}
    assert platform_of(here) != platform_of({**here, "packages": other})


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Return a small folder of results of a generated dataset with options, and the cache that it was made with."""
    out, cache = tmp_path_factory.mktemp("reference"), tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KMDR_CACHE", str(cache))
        job = compose(
            "study=bzmd15_fig1", "study.datasets=[{synth: {n: 60, d: 40}}]", "study.reducers=[random_sign, {svd: {}}]",
            "r_grid=[2,5]", "repeats=2", "timing_repeats=0", "kmeans.n_init=2", "runner=sequential", f"out={out}",
        )  # fmt: skip
        with pytest.MonkeyPatch.context() as quiet:
            quiet.setattr("kmdr.reporting.build.draw_items", lambda *arguments: [])
            assert run_jobs([job]) == 0
        yield out, folders_by_content(read_rows(out / "rows.csv"))


@pytest.mark.slow
def test_a_trial_is_rebuilt_from_its_row_and_its_configuration_alone(results):
    out, folders = results
    for row in read_rows(out / "rows.csv"):
        verdict = verify(row, out, folders, environment())
        assert (verdict.outcome, verdict.detail) == ("exact", "")


def test_the_rebuilt_task_has_the_configuration_hash_of_its_row(results):
    out, folders = results
    for row in read_rows(out / "rows.csv"):
        config = described(out, "configs", row["config_hash"])
        task = rebuild(row, config, folders[row["data_sha256"]])
        assert isinstance(task, Task)
        assert task.config_hash == row["config_hash"]


def test_a_spoilt_row_is_found_and_missing_data_are_skipped(results):
    out, folders = results
    row = read_rows(out / "rows.csv")[0]
    spoilt = {**row, "objective": repr(float(row["objective"]) + 1e-15)}
    verdict = verify(spoilt, out, folders, environment())
    assert verdict.outcome == "different"
    assert verdict.detail.startswith("objective ")
    assert verify({**row, "data_sha256": "0" * 64}, out, folders, environment()).outcome == "skipped"
    assert verify(row, out, {}, environment()).outcome == "skipped"


def test_rows_of_own_data_are_compared_where_the_file_is(tmp_path, monkeypatch, rng):
    """Of a run outside any study, in another cache than its own; without the file, the sentence names it."""
    file, out = tmp_path / "own.csv", tmp_path / "out"
    np.savetxt(file, np.c_[rng.standard_normal((40, 6)), np.arange(40) % 3], delimiter=",", fmt="%.4g")
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "first"))
    monkeypatch.setattr("kmdr.reporting.build.draw_items", lambda *arguments: [])
    own = compose(
        "dataset=file", f"dataset.path={file}", "dataset.label=6", "dataset.header=false", "reducer=random_sign",
        "r_grid=[2]", "repeats=2", "timing_repeats=0", "runner=sequential", f"out={out}",
    )  # fmt: skip
    assert run_jobs([own]) == 0
    rows = read_rows(out / "rows.csv")
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "second"))
    folders = folders_by_content(rows, out)
    assert {verify(r, out, folders, environment()).outcome for r in rows} == {"exact"}
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "third"))
    file.unlink()
    assert folders_by_content(rows, out) == {}
    told = verify(rows[0], out, {}, environment())
    assert (told.outcome, str(file) in told.detail) == ("skipped", True)


def command(reference, *arguments, **environ):
    return subprocess.run(
        [sys.executable, "-m", "kmdr", "verify", str(reference), *arguments],
        check=False, capture_output=True, text=True, timeout=300, env={**os.environ, **environ},
    )  # fmt: skip


@pytest.fixture
def made_by_synth(tmp_path, monkeypatch):
    """Return a folder of rows of a study whose dataset is generated, so that the command needs no data."""
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("kmdr.reporting.build.draw_items", lambda *arguments: [])
    out = tmp_path / "reference"
    job = compose(
        "study=bzmd15_fig1", "study.datasets=[synth]", "study.reducers=[random_sign]", "r_grid=[5]", "repeats=3",
        "timing_repeats=0", "runner=sequential", f"out={out}",
    )  # fmt: skip
    assert run_jobs([job]) == 0
    shutil.rmtree(out / "tasks")
    return out


@pytest.mark.slow
def test_the_command_reports_outcomes_and_its_status_and_writes_nothing(made_by_synth, tmp_path):
    cache = {"KMDR_CACHE": str(tmp_path / "cache"), "KMDR_DATA": ""}
    table = made_by_synth / "rows.csv"
    before = {path: path.stat().st_mtime_ns for path in made_by_synth.rglob("*")}
    done = command(made_by_synth, "ROWS=2", "seed=3", **cache)
    assert done.returncode == 0, done.stderr
    assert "bzmd15_fig1  2      0" in done.stdout
    assert "2 rows drawn with seed 3" in done.stdout
    assert {path: path.stat().st_mtime_ns for path in made_by_synth.rglob("*")} == before

    rows = read_rows(table)
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows({**r, "n_iter": int(r["n_iter"]) + 1} for r in rows)
    done = command(made_by_synth, **cache)
    assert done.returncode == 1
    assert "different: bzmd15_fig1: random_sign {} on synth, r = 5, repetition" in done.stdout

    other = {"data_sha256": "0" * 64}
    for forged, status in (({"config_hash": rows[0]["config_hash"]}, 2), ({}, 1)):
        with table.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(
                {**r, **other, "config_hash": short_hash(config_of({**r, **other})), **forged} for r in rows
            )
        Store(made_by_synth).add_configs(config_of({**r, **other}) for r in rows)
        done = command(made_by_synth, **cache)
        assert done.returncode == status, "refused, or nothing could be compared"
        assert not forged or "data_sha256 = '000" in done.stderr
    assert "no row could be compared" in done.stderr


@pytest.mark.slow
def test_rows_without_data_are_followed_by_rows_that_can_be_compared(results, tmp_path, capsys):
    made, _ = results
    out = tmp_path / "mixed"
    shutil.copytree(made, out)
    shutil.rmtree(out / "tasks")
    rows = [r for r in read_rows(made / "rows.csv") if r["reducer"] == "random_sign"]
    missing = [{**r, "data_sha256": str(n % 3) * 64, "study": "elsewhere"} for n, r in enumerate(rows * 8)]
    missing = [{**r, "repeat": str(n), "config_hash": short_hash(config_of(r))} for n, r in enumerate(missing)]
    Store(out).add_configs(map(config_of, missing))
    with (out / "rows.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows([*missing, *rows])
    for seed in range(6):
        assert verify_sample(out, 3, seed) == 0
        output = capsys.readouterr().out
        skipped = output.count("skipped: elsewhere")
        assert 1 <= skipped <= 3
        assert f"{3 + skipped} rows drawn with seed {seed}" in output
    assert verify_sample(out, len(rows) + len(missing), 0) == 0
    assert f"{len(rows) + len(missing)} rows drawn" in capsys.readouterr().out


@pytest.mark.slow
def test_no_reference_is_one_sentence(tmp_path):
    done = command(tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("kmdr: error: there is no ")
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not has_file(REFERENCE, "configs.jsonl"), reason="no committed results")
def test_committed_rows_of_generated_data_are_had_again():
    table = next((path for path in (REFERENCE / "rows.csv.xz", REFERENCE / "rows.csv") if path.exists()), None)
    assert table is not None
    folder = datasets.prepare("synth")
    folders = {datasets.open_prepared(folder).data_sha256: folder}
    rows = [r for r in read_rows(table) if r["data_sha256"] in folders and r["reducer"] in ("random_sign", "none")]
    if not rows:
        pytest.skip("Synth has other last digits here than where the reference was run")
    outcomes = {verify(r, REFERENCE, folders, environment()).outcome for r in sample(rows, 3, 0)}
    assert outcomes <= {"exact", "within tolerance", "another path"}
