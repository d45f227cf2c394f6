"""Labels kept beside the rows, and metrics computed of them without a trial."""

import csv
from textwrap import dedent

import numpy as np
import pytest

from kmdr import metrics
from kmdr.analysis.results import Results
from kmdr.base.errors import UserError
from kmdr.base.files import DamagedError
from kmdr.cli.jobs import run_jobs
from kmdr.datasets import load
from kmdr.harness import rescore
from kmdr.harness.jobs import compose
from kmdr.results import check
from kmdr.results.checksums import with_checksum
from kmdr.results.labels import packed, read_labels
from kmdr.results.paths import labels_file, task_files
from kmdr.results.schema import TIME_COLUMNS

SETTINGS = (
    "dataset=synth", "dataset.n=60", "dataset.d=12", "dataset.k=3", "reducer=random_sign", "r_grid=[2,5]", "repeats=2",
    "runner=sequential", "kmeans.n_init=2",
)  # fmt: skip
METRIC = """
    from kmdr.metrics import metric


    @metric("largest", "largest cluster", 0.0, 1.0, "higher")
    def largest(A, labels, truth):
        return max((labels == c).mean() for c in set(labels.tolist()))
"""


def run(out, *overrides):
    assert run_jobs([compose(*SETTINGS, f"out={out}", *overrides)]) == 0
    with (out / "rows.csv").open() as file:
        return list(csv.DictReader(file))


def plain(rows):
    return [{name: value for name, value in row.items() if name not in TIME_COLUMNS} for row in rows]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def kept(tmp_path):
    """A folder of results with labels, and its rows."""
    return tmp_path / "kept", run(tmp_path / "kept", "keep_labels=true")


def bring_metric(tmp_path, monkeypatch, text=METRIC):
    (tmp_path / "lab" / "metrics").mkdir(parents=True)
    (tmp_path / "lab" / "metrics" / "largest.py").write_text(dedent(text))
    monkeypatch.setenv("KMDR_PATH", str(tmp_path / "lab"))


def test_rows_and_their_identity_are_the_same_whether_labels_are_kept_or_not(kept, tmp_path):
    assert plain(kept[1]) == plain(run(tmp_path / "without"))
    assert not (tmp_path / "without" / "labels").exists()


def test_the_kept_labels_are_those_that_were_scored(kept):
    folder, rows = kept
    data = load("synth", {"n": 60, "d": 12, "k": 3})
    scored = {(row["repeat"], row["r"]): row for row in rows}
    for file in task_files(folder):
        with np.load(labels_file(folder, file)) as arrays:  # as anyone would read it
            grid, labels = arrays["r"], arrays["labels"]
        assert labels.dtype == np.uint8
        for r, of_r in zip(grid, labels, strict=True):
            row = scored.pop((str(int(file.stem.partition("-")[0])), str(r)))
            assert metrics.objective(data.A, of_r) == float(row["objective"])
            assert metrics.accuracy(data.labels, of_r) == float(row["accuracy"])
    assert not scored


def test_a_new_metric_is_computed_without_a_trial(kept, tmp_path, monkeypatch):
    folder, old = kept
    bring_metric(tmp_path, monkeypatch)
    with monkeypatch.context() as patched:
        patched.setattr("kmdr.harness.task._trials", None)  # whoever calls it fails
        assert rescore.fill(folder) == (4, 0)
        assert rescore.fill(folder) == (0, 0)
    with (folder / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert plain(rows) == plain(run(tmp_path / "anew")), "as if the metric had been there from the first"
    assert {key: old[0][key] for key in TIME_COLUMNS} == {key: rows[0][key] for key in TIME_COLUMNS}
    assert not check.faults(folder)


@pytest.mark.slow
def test_rows_without_labels_are_done_again_where_labels_are_asked_for(tmp_path):
    folder = tmp_path / "out"
    before = run(folder)
    after = run(folder, "keep_labels=true", "repeats=1")
    assert plain(before) == plain(after)
    assert len(list((folder / "labels").rglob("*.npz"))) == 1
    times = [row["total_seconds"] for row in run(folder, "keep_labels=true")]
    assert times == [row["total_seconds"] for row in run(folder, "keep_labels=true")], "done once"


def test_labels_of_older_rows_go_with_them(kept):
    folder, _ = kept
    for file in [*task_files(folder), folder / "rows.csv"]:
        file.unlink()
    run(folder)
    assert not list((folder / "labels").rglob("*.npz"))


def test_damaged_labels_are_told_of_and_made_again(kept, capsys):
    folder, rows = kept
    path = sorted((folder / "labels").rglob("*.npz"))[0]
    content = bytearray(path.read_bytes())
    content[40] ^= 1
    path.write_bytes(content)
    (fault,) = check.faults(folder)
    assert fault.path == path
    assert fault.is_removable
    check.repair(folder, [fault])
    assert plain(run(folder, "keep_labels=true")) == plain(rows)
    assert path.exists()
    assert not check.faults(folder)


def test_labels_of_other_rows_are_not_scored(kept, tmp_path, monkeypatch, capfd):
    folder, _ = kept
    bring_metric(tmp_path, monkeypatch)
    path = sorted((folder / "labels").rglob("*.npz"))[0]
    path.write_bytes(with_checksum(packed({r: np.arange(60) % 3 for r in (2, 5)})))
    assert rescore.run(folder) == 1
    captured = capfd.readouterr()
    assert "2 rows have new metrics, 2 could not be scored" in captured.out
    assert "r=2 repeat=0: the labels do not belong to this row" in captured.err
    path.write_bytes(with_checksum(packed({r: np.arange(50) % 3 for r in (2, 5)})))
    assert check.faults(folder)[0].path == path


def test_a_metric_that_raises_costs_its_rows_alone(kept, tmp_path, monkeypatch, capfd):
    folder, rows = kept
    bring_metric(tmp_path, monkeypatch, METRIC.replace("return", "assert truth is None; return"))
    assert rescore.fill(folder) == (0, 4)
    with (folder / "rows.csv").open() as file:
        assert list(csv.DictReader(file)) == rows


def test_a_folder_without_labels_is_told_in_a_sentence(tmp_path):
    run(tmp_path / "out")
    with pytest.raises(UserError, match=r"has no labels.*run with keep_labels=true"):
        rescore.run(tmp_path / "out")


def test_data_that_are_not_here_are_told(kept, tmp_path, monkeypatch, capfd):
    folder, _ = kept
    bring_metric(tmp_path, monkeypatch)
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "empty"))
    assert rescore.fill(folder) == (0, 4)
    assert "synth is not prepared here" in capfd.readouterr().err


@pytest.mark.parametrize("content", [b"", b"x" * 100, with_checksum(b"x"), packed({1: np.zeros(3, int)})])
def test_what_is_no_file_of_labels_is_refused(tmp_path, content):
    path = tmp_path / "x.npz"
    path.write_bytes(content)
    with pytest.raises(DamagedError):
        list(read_labels(tmp_path, path))


def test_the_type_of_labels_holds_them(tmp_path):
    path = tmp_path / "x.npz"
    for most, dtype in ((255, np.uint8), (256, np.uint16), (70_000, np.uint32)):
        path.write_bytes(with_checksum(packed({3: np.array([0, most, 1]), 9: np.array([1, 0, 0])})))
        labels = dict(read_labels(tmp_path, path))
        assert list(labels) == [3, 9]
        assert labels[3].dtype == dtype
        assert labels[3].tolist() == [0, most, 1]


def test_a_table_without_the_column_of_metrics_is_read_with_it_empty(tmp_path):
    rows = run(tmp_path / "out")
    folder = tmp_path / "old"
    folder.mkdir()
    with (folder / "rows.csv").open("w", newline="") as file:
        names = [name for name in rows[0] if name not in ("metrics", "guests")]
        writer = csv.DictWriter(file, names, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    table = Results.from_folder(folder).rows("custom")
    assert table["metrics"].fillna("").tolist() == [""] * 4
    assert [float(row["objective"]) for row in rows] == table["objective"].tolist()
