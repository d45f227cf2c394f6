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
    # A report that was made before papers had summaries has neither an answer nor findings.
    assert renewed(README, report, [] if "\n## Findings\n" in report else ["scorecard"]) == README
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
    of_study, timed = (
        rows[rows["study"].str.fullmatch(name) & (rows["dataset"] != "synth")]
        for name in (study, f"{study}|bzmd15_times")
    )
    reduced = of_study[(of_study["reducer"] == reducer) & (of_study["r"] == r)].groupby("dataset")
    full = of_study[of_study["reducer"] == "none"].groupby("dataset")
    timed = timed[timed["concurrency"] == 1]
    seconds = [
        part.groupby("dataset")["total_seconds"].median()
        for part in (timed[(timed["reducer"] == reducer) & (timed["r"] == r)], timed[timed["reducer"] == "none"])
    ]
    return pd.DataFrame({
        "F": reduced["objective"].mean() / full["objective"].mean(),
        "P": reduced["accuracy"].mean() - full["accuracy"].mean(),
        "time": seconds[0] / seconds[1],
    }).dropna(subset="F")  # fmt: skip


@pytest.mark.slow
def test_the_figures_of_the_answer_follow_from_the_rows(rows):
    images = to_all_features(rows, r"bzmd15_fig\d", "random_sign", 100)
    assert sorted(images.index) == ["coil20", "orl_64x64", "pie", "usps"]
    F, P = images["F"], images["P"]
    text = " ".join(README.split()).replace("−", "-")
    assert f"100 random projections give {F.min():.3f} to {F.max():.3f} times the objective F" in text
    assert f"change the accuracy P by {P.min():+.3f} to {P.max():+.3f}," in text
    shares = 100 * images["time"]
    assert f"take {shares.min():.0f} to {shares.max():.0f} % of the time" in text
    nips = rows[(rows["study"] == "lf20_nips") & rows["reducer"].isin(["random_sign", "leverage_approx"])]
    typical = nips[nips["r"] == 60].groupby("reducer")["accuracy"].mean()
    assert f"60 random projections give {typical['random_sign']:.2f} in P in a typical run" in text
    assert f"60 words sampled by leverage scores give {typical['leverage_approx']:.2f}" in text


@pytest.mark.slow
def test_the_figures_of_the_findings_follow_from_the_rows(rows):
    text = " ".join(README.split())
    at_30 = pd.concat(
        to_all_features(rows, r"bzmd15_fig\d", reducer, 30)
        for reducer in ("random_sign", "leverage", "leverage_approx")
    )
    F = at_30["F"]
    assert f"F of sampling and of random signs is {F.min():.2f} to {F.max():.2f} times that of all features" in text
    table = pd.read_csv(REFERENCE / "tables" / "bmd09_table1.csv")
    at_15 = table[(table["dataset"] == "NIPS") & (table["r"].astype(str) == "15")].set_index("quantity")
    reported, ours = (at_15[column].astype(float).map("{:.3f}".format) for column in ("reported", "ours"))
    assert f"At r = 15 the paper reports F = {reported['F']} and P = {reported['P']}" in text
    assert f"gives {ours['F']} and {ours['P']} on average, best of 30" in text


def test_the_pictures_and_files_that_pages_link_are_there():
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
            assert target.startswith("http") or (page.parent / target).exists(), f"{page.name}: {target}"
