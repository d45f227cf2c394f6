"""``scripts/recompute.py`` fails on a number that does not follow from the rows, and on one that no rule recomputes."""

import importlib.util
import shutil
from pathlib import Path

import pandas as pd
import pytest

from kmdr.base.paths import CHECKOUT

REFERENCE = CHECKOUT / "results" / "reference"
spec = importlib.util.spec_from_file_location("recompute", CHECKOUT / "scripts" / "recompute.py")
recompute = importlib.util.module_from_spec(spec)
spec.loader.exec_module(recompute)

LABEL = "share of ruyter in Neuroscience and Control, at least 0.95"
NUMBERS = {"effect": 0.97, "low": 0.97, "high": 0.97}
HEADING = '### <a id="bmd09_table1"></a>Table 1. A title: ◐ in part, {} within our intervals\n'


@pytest.fixture
def folder(tmp_path):
    """A folder with one fact, the claim on it, and a table with two printed numbers, one of them inside."""
    write(tmp_path, "facts/bmd09_words", word="ruyter", section=["NS", "CN", "LT"], occurrences=[60, 37, 3])
    statement = {"n": 100, "unit": "share", "kind": "statement", "margin_of_ours": 0.95, "decides": "yes"}
    write(tmp_path, "components", claim=["bmd09-5"], label=LABEL, p_for=0.0, p_against=1.0, **NUMBERS, **statement)
    verdict = {"verdict": "supported", "statement": "supported", "p_for": 0.0, "p_against": 1.0}
    write(tmp_path, "verdicts", claim=["bmd09-5"], deciding_component=LABEL, **NUMBERS, **verdict)
    write(tmp_path, "margins", claim=["bmd09-5"], what="share", ours=0.95, margin=0.98, verdict="not supported")
    printed = {"quantity": ["P", "F"], "r": "15", "reported": [0.742, 0.764], "ours": [0.7, 0.7]}
    write(tmp_path, "tables/bmd09_table1", dataset="Bio", low=[0.6, 0.6], high=[0.75, 0.75], **printed)
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "report.md").write_text(HEADING.format("✓ 1 of 2 cells"), "utf-8")
    return tmp_path


def write(folder, name, **columns):
    path = folder / f"{name}.csv"
    path.parent.mkdir(exist_ok=True)
    pd.DataFrame(columns).to_csv(path, index=False)


def run(folder, monkeypatch):
    monkeypatch.setattr("sys.argv", ["recompute.py", str(folder)])
    return recompute.main()


def test_a_folder_whose_numbers_follow_passes(folder, monkeypatch, capsys):
    assert run(folder, monkeypatch) == 0
    out = capsys.readouterr().out
    assert "components.csv {'equal': 6}" in out
    assert "report/report.md {'equal': 1}" in out


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("components.csv", "0.97,0.97,0.97", "0.98,0.97,0.97", f"{LABEL}: effect: printed 0.98, recomputed 0.97"),
        ("components.csv", "at least 0.95", "at most 0.95", "no rule recomputes bmd09-5: share of ruyter"),
        ("margins.csv", "not supported", "supported", "printed 'supported', recomputed 'not supported'"),
        ("report/report.md", "✓ 1 of 2", "✓ 2 of 2", "agreement: printed '✓ 2 of 2', recomputed '✓ 1 of 2'"),
        ("report/report.md", "✓ 1 of 2", "◐ 1 of 2", "agreement: printed '◐ 1 of 2', recomputed '✓ 1 of 2'"),
    ],
)
def test_a_folder_with_another_number_fails_and_says_which(folder, file, old, new, message, monkeypatch, capsys):
    text = (folder / file).read_text("utf-8")
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1), "utf-8")
    assert run(folder, monkeypatch) == 1
    assert message in capsys.readouterr().out


def test_one_changed_cell_of_the_committed_results_is_found(tmp_path):
    for file in ("facts/lf20_scores.csv", "tables/lf20_table1.csv"):
        (tmp_path / file).parent.mkdir()
        shutil.copy(REFERENCE / file, tmp_path / file)
    assert differences(tmp_path) == []
    table = pd.read_csv(tmp_path / "tables" / "lf20_table1.csv")
    table.loc[2, "ours"] *= 1 + 1e-6
    table.to_csv(tmp_path / "tables" / "lf20_table1.csv", index=False)
    (found,) = differences(tmp_path)
    assert f"ours: printed {table.loc[2, 'ours']}" in found


def differences(folder: Path) -> list[str]:
    count = recompute.Count()
    recompute.check_tables(recompute.Folder(folder), count)
    return count.differences
