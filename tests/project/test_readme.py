"""The README: its commands run, its output is what they print, and its figures follow from the committed rows."""

import re
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from sklearn.datasets import load_iris

from blocks import blocks, environment, run_page
from kmdr.claims.catalogue import papers
from kmdr.claims.summary import Sentence
from kmdr.reporting.readme import PAGES, renewed, stated

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "README.md"
README = PAGE.read_text(encoding="utf-8")
REFERENCE = ROOT / "results" / "reference"


@pytest.mark.slow
def test_the_commands_run_in_an_empty_home(tmp_path):
    """The reader has a file my.csv, and the committed results as in a checkout."""
    home, folder = tmp_path / "home", tmp_path / "folder"
    home.mkdir()
    (folder / "results").mkdir(parents=True)
    (folder / "results" / "reference").symlink_to(REFERENCE)
    iris = load_iris(as_frame=True)
    iris.data.assign(species=iris.target_names[iris.target]).to_csv(folder / "my.csv", index=False)
    run_page(PAGE, home, folder)
    assert (folder / "digits.png").stat().st_size > 10_000
    assert (folder / "mine" / "report" / "index.html").exists()


@pytest.mark.slow
def test_the_lines_of_the_demo_are_what_it_prints(tmp_path):
    (shown,) = [block.code for block in blocks(PAGE) if block.language == "text"]
    command = ["kmdr", "demo", "--out", str(tmp_path / "demo")]
    output = subprocess.run(command, env=environment(tmp_path), check=True, capture_output=True, text=True).stdout
    # The last column is the time, whose width differs.
    lines = [re.sub(r"[ *↑↓]+\S+$|─+$", "", line) for line in shown.splitlines()]
    assert len(lines) == 8
    assert [line for line in lines if not any(printed.startswith(line) for printed in output.splitlines())] == []


def test_make_setup_ends_with_the_command_that_follows():
    recipe = (ROOT / "Makefile").read_text("utf-8").partition("\nsetup:")[2].partition("\n\n")[0]
    assert "Ready: source $(BIN)/activate && kmdr demo" in recipe
    assert "source .venv/bin/activate" in README


def test_the_page_is_short_and_defines_its_symbols_before_the_results():
    assert len(README.splitlines()) <= 130
    before = README.partition("## ")[0]
    assert all(f"{symbol}" in before for symbol in ("*k* is", "*r* the", "**F** is", "**P** (accuracy) is"))


def test_a_finding_is_found_with_its_numbers():
    sentence = Sentence("F is {a b=c:.2f} at\n r = 3, and P {d}.")
    assert stated(sentence, "So. F is 0.56 at r = 3, and P 0.7. More") == "F is 0.56 at r = 3, and P 0.7."
    assert stated(sentence, "F is 0.56 at r = 4, and P 0.7.") == ""


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_the_numbers_of_a_page_are_those_of_the_committed_results(page):
    text = page.read_text("utf-8")
    assert "python -m kmdr.reporting.readme" in text
    assert renewed(text) == text, "run: python -m kmdr.reporting.readme"


def test_the_counts_of_a_paper_add_up_to_its_claims():
    for paper in papers():
        counts = re.search(rf"^\| \[{paper.name}\].*?\| (\d+) \| (\d+) \| (\d+) \| (\d+) \|", README, re.MULTILINE)
        assert sum(map(int, counts.groups())) == len(paper.claims)


@pytest.fixture(scope="module")
def rows():
    table = pd.read_csv(REFERENCE / "rows.csv.xz", low_memory=False)
    return table[(table["status"] == "ok") & table["stand_in"].isna()]


def to_all_features(rows, studies, reducer, r):
    """Return, by dataset, the mean ratio of F, the mean difference of P and the median ratio of times.

    Each is taken over pairs of a trial and that of k-means on all features in the same repetition, of times over those
    that were timed serially.
    """
    rows = rows[rows["study"].str.fullmatch(studies) & (rows["dataset"] != "synth")]
    trial = ["dataset", "seed", "repeat"]

    def paired(column, some):
        some = some.drop_duplicates([*trial, "reducer", "r"]).set_index(trial)
        reduced, full = some[(some["reducer"] == reducer) & (some["r"] == r)], some[some["reducer"] == "none"]
        return reduced[column].to_frame("reduced").join(full[column].rename("full"), how="inner")

    F, P = paired("objective", rows), paired("accuracy", rows)
    seconds = paired("total_seconds", rows[rows["concurrency"] == 1])
    return pd.DataFrame({
        "F": (F["reduced"] / F["full"]).groupby("dataset").mean(),
        "P": P["reduced"].groupby("dataset").mean() - P["full"].groupby("dataset").mean(),
        "time": (seconds["reduced"] / seconds["full"]).groupby("dataset").median(),
    })  # fmt: skip


@pytest.mark.slow
def test_the_figures_of_the_answer_follow_from_the_rows(rows):
    images = to_all_features(rows, r"bzmd15_(fig\d|ends(_orl)?|times)", "random_sign", 100)
    assert sorted(images.index) == ["coil20", "orl_64x64", "pie", "usps"]
    F, P = images["F"], images["P"]
    text = " ".join(README.split()).replace("−", "-")
    assert f"random projection to 100 dimensions gives {F.min():.3f} to {F.max():.3f} times the objective F" in text
    assert f"changes the accuracy P by {P.min():+.3f} to {P.max():+.3f}," in text
    shares = 100 * images["time"]
    assert f"takes {shares.min():.0f} to {shares.max():.0f} % of the time" in text
    nips = rows[(rows["study"] == "lf20_nips") & rows["reducer"].isin(["random_sign", "leverage_approx"])]
    typical = nips[nips["r"] == 60].groupby("reducer")["accuracy"].mean()
    assert f"random projection to 60 dimensions gives P = {typical['random_sign']:.2f} in a typical run" in text
    assert f"60 words sampled by approximate leverage scores give {typical['leverage_approx']:.2f}" in text


@pytest.mark.slow
def test_the_figures_of_the_first_finding_follow_from_the_tables():
    text = " ".join(README.split())
    table = pd.read_csv(REFERENCE / "tables" / "bmd09_table1.csv")
    at_15 = table[(table["dataset"] == "NIPS") & (table["r"].astype(str) == "15")].set_index("quantity")
    reported, ours = (at_15[column].astype(float).map("{:.3f}".format) for column in ("reported", "ours"))
    assert f"At r = 15 the paper reports F = {reported['F']} and P = {reported['P']}" in text
    assert f"gives {ours['F']} and {ours['P']} on average, best of 30" in text


def test_the_pictures_and_files_that_pages_link_are_there():
    for page in (PAGE, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", ROOT / "CHANGELOG.md"):
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text("utf-8")):
            assert target.startswith("http") or (page.parent / target).exists(), f"{page.name}: {target}"
