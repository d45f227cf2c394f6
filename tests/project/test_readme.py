"""The README and the pages of docs: their examples run, and their figures follow from the committed rows."""

import re
from pathlib import Path

import pandas as pd
import pytest

from kmdr import datasets, reducers
from kmdr.claims.catalogue import claims, papers
from kmdr.datasets import UnavailableError
from kmdr.metrics import accuracy
from kmdr.reporting.readme import renewed

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
METHODS = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
REFERENCE = ROOT / "results" / "reference"


@pytest.mark.slow
def test_the_python_examples_cluster_real_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    compared, pipeline = re.findall(r"^```python\n(.*?)^```$", README + METHODS, re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}
    try:
        exec(pipeline, names)
        exec(compared, names)
    except UnavailableError as error:
        pytest.skip(str(error))
    assert set(names["rows"]["status"]) == {"ok"}
    assert Path("coil20.png").stat().st_size > 10_000
    truth = datasets.load("usps").labels
    # Ten digits: far above chance with all 256 features, and not much less so with 64 mixtures of them.
    full, reduced = (accuracy(truth, names[name]) for name in ("full", "reduced"))
    assert full > 0.4
    assert reduced > full - 0.1


def test_the_table_names_every_reducer_that_kmdr_offers_and_its_class():
    table = METHODS[: METHODS.index("## Speed")]
    named = set(re.findall(r"`(\w+)`", table))
    classes = {name: type(reducers.make(name)).__name__ for name in reducers.names()}
    offered = {name for name, cls in classes.items() if cls in reducers.__all__}
    assert {"none", *offered} <= named
    assert {classes[name] for name in offered} <= named
    assert set(reducers.__all__) - {"Reducer"} - {name for name in reducers.__all__ if name.islower()} <= named


def test_the_scorecard_counts_the_entries_of_the_committed_report():
    report = (REFERENCE / "report" / "report.md").read_text(encoding="utf-8")
    assert renewed(README, report) == README
    verdicts = pd.read_csv(REFERENCE / "verdicts.csv")
    for paper in papers():
        counts = re.search(rf"^\| \[{paper.name}\].*?\| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", README, re.MULTILINE)
        names = [claim.id for claim in claims() if claim.id.startswith(f"{paper.name}-")]
        of_paper = verdicts[verdicts["claim"].isin(names)]["verdict"].value_counts()
        assert sum(map(int, counts.groups())) == len(names)
        # A report that was made before verdicts were graded says "reproduced".
        assert int(counts[1]) == of_paper.get("supported", 0) + of_paper.get("reproduced", 0)


@pytest.fixture(scope="module")
def rows():
    table = pd.read_csv(REFERENCE / "rows.csv.xz", low_memory=False)
    return table[(table["status"] == "ok") & table["stand_in"].isna()]


def to_all_features(rows, study, reducer, r):
    """Return, by dataset, F as a ratio, P as a difference and the median time as a ratio to k-means on all features."""
    of_study = rows[rows["study"].str.fullmatch(study) & (rows["dataset"] != "synth")]
    reduced = of_study[(of_study["reducer"] == reducer) & (of_study["r"] == r)].groupby("dataset")
    full = of_study[of_study["reducer"] == "none"].groupby("dataset")
    seconds = [
        part.apply(lambda rows: rows.loc[rows["concurrency"] == 1, "total_seconds"].median())
        for part in (reduced, full)
    ]
    return pd.DataFrame({
        "F": reduced["objective"].mean() / full["objective"].mean(),
        "P": reduced["accuracy"].mean() - full["accuracy"].mean(),
        "time": seconds[0] / seconds[1],
    }).dropna()  # fmt: skip


@pytest.mark.slow
def test_the_figures_of_the_first_paragraphs_follow_from_the_rows(rows):
    images = to_all_features(rows, r"bzmd15_fig\d", "random_sign", 80)
    assert sorted(images.index) == ["coil20", "orl_64x64", "pie", "usps"]
    text = " ".join(README.split())
    low, high = 100 * (images["F"].min() - 1), 100 * (images["F"].max() - 1)
    assert f"keep the objective F within {low:.0f} to {high:.0f} % of k-means on all features" in text
    assert f"accuracy P within {images['P'].abs().max():.2f}".replace(" 0.", " .") in text
    assert f"in {100 * images['time'].min():.0f} to {100 * images['time'].max():.0f} % of the time" in text
    words = to_all_features(rows, "lf20_nips", "random_sign", 60).loc["nips"]
    sampled = to_all_features(rows, "lf20_nips", "leverage_approx", 60).loc["nips"]
    change = f"60 projections keep F within {100 * (words['F'] - 1):.0f} %, but P falls by {-words['P']:.2f}"
    assert change.replace(" 0.", " .") in text
    assert f"sampling 60 words by leverage scores loses {-sampled['P']:.2f}".replace(" 0.", " .") in text


@pytest.mark.slow
def test_the_figures_of_the_results_follow_from_the_rows(rows):
    text = " ".join(README.split())
    at_30 = pd.concat(
        to_all_features(rows, r"bzmd15_fig\d", reducer, 30)
        for reducer in ("random_sign", "leverage", "leverage_approx")
    )
    low, high = 100 * (at_30["F"].min() - 1), 100 * (at_30["F"].max() - 1)
    assert f"F of sampling and random signs is still {low:.0f} to {high:.0f} % above" in text
    table = pd.read_csv(REFERENCE / "tables" / "bmd09_table1.csv")
    at_15 = table[(table["dataset"] == "NIPS") & (table["r"].astype(str) == "15")].set_index("quantity")
    reported, ours = (
        at_15[column].astype(float).map("{:.3f}".format).str.lstrip("0") for column in ("reported", "ours")
    )
    both = f"the paper reports F = {reported['F']} and P = {reported['P']}; we obtain {ours['F']} and {ours['P']}."
    assert f"at r = 15 {both}" in text


def test_the_pictures_and_files_that_pages_link_are_there():
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
            assert target.startswith("http") or (page.parent / target).exists(), f"{page.name}: {target}"
