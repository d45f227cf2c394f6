"""``scripts/recompute.py`` fails on a number that does not follow from the rows, and on one that no rule recomputes."""

import importlib.util
import shutil
from pathlib import Path

import pandas as pd
import pytest

from kmdr.base.paths import CHECKOUT
from kmdr.results.folder import require_file

REFERENCE = CHECKOUT / "results" / "reference"
spec = importlib.util.spec_from_file_location("recompute", CHECKOUT / "scripts" / "recompute.py")
recompute = importlib.util.module_from_spec(spec)
spec.loader.exec_module(recompute)

LABEL = "share of ruyter in Neuroscience and Control, at least 0.95"
NUMBERS = {"effect": 0.97, "low": 0.97, "high": 0.97}
HEADING = '## <a id="bmd09_table1"></a>Table 1. A title: ◐ in part, {} within our intervals\n'


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
    (tmp_path / "report" / "bmd09.md").write_text(HEADING.format("✓ 1 of 2 cells"), "utf-8")
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
    assert "report/*.md {'equal': 1}" in out


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("components.csv", "0.97,0.97,0.97", "0.98,0.97,0.97", f"{LABEL}: effect: printed 0.98, recomputed 0.97"),
        ("components.csv", "at least 0.95", "at most 0.95", "no rule recomputes bmd09-5: share of ruyter"),
        ("margins.csv", "not supported", "supported", "printed 'supported', recomputed 'not supported'"),
        ("report/bmd09.md", "✓ 1 of 2", "✓ 2 of 2", "agreement: printed '✓ 2 of 2', recomputed '✓ 1 of 2'"),
        ("report/bmd09.md", "✓ 1 of 2", "◐ 1 of 2", "agreement: printed '◐ 1 of 2', recomputed '✓ 1 of 2'"),
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
        (tmp_path / file).write_bytes(require_file(REFERENCE, file))
    assert differences(tmp_path) == []
    table = pd.read_csv(tmp_path / "tables" / "lf20_table1.csv")
    table.loc[2, "ours"] *= 1 + 1e-6
    table.to_csv(tmp_path / "tables" / "lf20_table1.csv", index=False)
    (found,) = differences(tmp_path)
    assert f"ours: printed {table.loc[2, 'ours']}" in found


def copy_seeds(folder):
    (folder / "tables").mkdir()
    for file in ("components.csv", "verdicts.csv", "seeds.csv", "tables/seeds.csv"):
        shutil.copy(REFERENCE / file, folder / file)
    return pd.read_csv(folder / "tables" / "seeds.csv")


def test_the_committed_comparison_of_two_seeds_follows_from_both(tmp_path):
    copy_seeds(tmp_path)
    assert differences(tmp_path) == []


@pytest.mark.parametrize(
    "column", ["effect", "high, earlier seed", "verdict", "statement_verdict, earlier seed", "same_verdict", "label"]
)
def test_one_changed_cell_of_the_comparison_of_two_seeds_is_found(tmp_path, column, rng):
    table = copy_seeds(tmp_path)
    line = int(rng.choice(table.index[table["effect"].ne(0) & table["high, earlier seed"].between(1e-9, 1e9)]))
    value = table.loc[line, column]
    if column in ("effect", "high, earlier seed"):
        table.loc[line, column] *= 1 + 1e-6
    else:
        table[column] = table[column].astype(object)
        table.loc[line, column] = not value if column == "same_verdict" else f"{value}?"
    table.to_csv(tmp_path / "tables" / "seeds.csv", index=False)
    (found,) = differences(tmp_path)
    assert ("statements of both seeds" if column == "label" else f": {column}: printed") in found


def differences(folder: Path) -> list[str]:
    count = recompute.Count()
    recompute.check_tables(recompute.Folder(folder), count)
    return count.differences


# --- any changed number ---

STUDIES = [f"bzmd15_{name}" for name in ("fig1", "fig2", "fig3", "ends", "ends_orl")]
NAMES = ["usps", "coil20", "pie", "orl_64x64"], ["leverage", "leverage_approx", "random_sign", "approx_svd", "none"]


@pytest.fixture(scope="module")
def committed():
    """The committed statements of one claim, and the rows that they rest on."""
    components = pd.read_csv(REFERENCE / "components.csv")
    rows = pd.read_csv(REFERENCE / "rows.csv.xz", low_memory=False)
    rows = rows[rows["study"].isin(STUDIES)]
    return components[components["claim"] == "bzmd15-3"].reset_index(drop=True), rows.reset_index(drop=True)


def recomputed(folder, components, rows, monkeypatch, capsys):
    """Return the exit status and output of the script on these statements and rows."""
    components.to_csv(folder / "components.csv", index=False)
    rows.to_csv(folder / "rows.csv.xz", index=False, compression={"method": "xz", "preset": 0})
    for name in ("verdicts", "margins"):
        pd.read_csv(REFERENCE / f"{name}.csv").iloc[:0].to_csv(folder / f"{name}.csv", index=False)
    return run(folder, monkeypatch), capsys.readouterr().out


def test_the_committed_statements_follow_from_their_rows(tmp_path, committed, monkeypatch, capsys):
    status, out = recomputed(tmp_path, *committed, monkeypatch, capsys)
    assert (status, out) == (0, f"components.csv {{'equal': {6 * len(committed[0])}}}\n")


@pytest.mark.parametrize("column", ["effect", "low", "high", "p_for", "p_against", "n"])
def test_one_changed_number_of_a_statement_is_named(tmp_path, committed, column, rng, monkeypatch, capsys):
    components, rows = committed
    line = int(rng.choice(components.index[components[column].between(1e-300, 1e6, "neither")]))
    changed = components.astype({column: float})
    changed.loc[line, column] *= 1 + 1e-6
    status, out = recomputed(tmp_path, changed, rows, monkeypatch, capsys)
    assert status == 1
    differences = [text for text in out.splitlines() if "printed" in text]
    assert len(differences) == 1
    assert differences[0].startswith(f"components.csv: bzmd15-3: {components.loc[line, 'label']}: {column}: printed ")


@pytest.mark.parametrize("change", ["objective", "gone", "failed", "moved"])
def test_one_changed_row_is_found_in_the_statements_that_rest_on_it(
    tmp_path, committed, change, rng, monkeypatch, capsys
):
    components, rows = committed
    used = rows["dataset"].isin(NAMES[0]) & rows["reducer"].isin(NAMES[1]) & rows["study"].str.startswith("bzmd15_ends")
    row = int(rng.choice(rows.index[used & (rows["repeat"] >= 10)]))
    changed = rows.copy()
    if change == "objective":
        changed.loc[row, "objective"] *= 1 + 1e-6
    elif change == "gone":
        changed = changed.drop(index=row)
    elif change == "failed":
        changed.loc[row, "status"] = "failed"
    else:
        changed.loc[row, "repeat"] = 10_000
    status, out = recomputed(tmp_path, components, changed, monkeypatch, capsys)
    assert status == 1
    assert "components.csv: bzmd15-3: " in out
    assert "printed" in out
