"""The recomputation of the atlas passes on tables that follow from their rows, and finds a number that does not."""

import importlib.util
import re
from hashlib import sha256

import pandas as pd
import pytest

from atlas_rows import atlas_rows
from kmdr.atlas.tables import write
from kmdr.base.paths import CHECKOUT
from rows import write_rows

pytestmark = pytest.mark.slow
spec = importlib.util.spec_from_file_location("recompute_atlas", CHECKOUT / "scripts" / "recompute_atlas.py")
recompute_atlas = importlib.util.module_from_spec(spec)
spec.loader.exec_module(recompute_atlas)
DATASETS = ("usps", "coil20", "coil20_128x128", "tdt2", "colon", "allaml", "nips")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with gaps: a method that failed on a dataset, a dataset without labels, a repetition without pair."""
    path = tmp_path_factory.mktemp("atlas")
    rows = atlas_rows(DATASETS, forms=("raw", "unit rows"), repeats=3, multiples=(1, 5, 20))
    failed = (rows["dataset"] == "tdt2") & (rows["reducer"] == "svd")
    failed |= (rows["dataset"] == "usps") & (rows["reducer"] == "none") & (rows["repeat"] == 2)
    rows.loc[failed, ["objective", "accuracy", "nmi", "ari", "total_seconds"]] = float("nan")
    rows.loc[failed, ["status", "error"]] = ["failed", "no memory"]
    rows.loc[rows["dataset"] == "nips", ["accuracy", "nmi", "ari"]] = float("nan")
    digests = rows["data_sha256"].map(lambda text: sha256(text.encode()).hexdigest())
    write_rows(path, rows, machine="0" * 12, guests="", data_sha256=digests)
    write(path)
    return path


def run(folder, monkeypatch):
    monkeypatch.setattr("sys.argv", ["recompute_atlas.py", str(folder)])
    return recompute_atlas.main()


def test_tables_that_follow_from_their_rows_pass(folder, monkeypatch, capsys):
    assert run(folder, monkeypatch) == 0
    out = capsys.readouterr().out
    assert "different" not in out
    assert all(name in out for name in ("effects.csv", "ranks.csv", "outcomes.csv"))


CHANGED = (
    ("effects", "loss"), ("effects", "accuracy_low"), ("effects", "speedup"), ("ranks", "rank"), ("outcomes", "chi2"),
    ("outcomes", "critical_difference"), ("outcomes", "p"),
)  # fmt: skip


def test_every_changed_number_is_found(folder, monkeypatch, capsys):
    """Numbers are compared one by one, so that all changes are listed, and nothing else."""
    before, changed = {}, []
    for file, column in CHANGED:
        path = folder / "facts" / f"{file}.csv"
        before.setdefault(path, path.read_bytes())
        table = pd.read_csv(path, keep_default_na=False)
        line = pd.to_numeric(table[column]).abs().idxmax()
        table[column] = table[column].astype(object)
        table.loc[line, column] = value = float(table.loc[line, column]) * (1 + 1e-4)
        table.to_csv(path, index=False)
        changed.append((f"{file}.csv", value))
    try:
        assert run(folder, monkeypatch) == 1
    finally:
        for path, content in before.items():
            path.write_bytes(content)
    found = re.findall(r"(\w+\.csv): .*: printed (\S+),", capsys.readouterr().out)
    assert [(file, pytest.approx(float(value))) for file, value in sorted(found)] == sorted(changed)
