"""What the README says can be typed works."""

import re
from pathlib import Path

import pytest

from kmdr import datasets, reducers
from kmdr.claims.catalogue import claims, items, papers
from kmdr.datasets import UnavailableError
from kmdr.metrics import accuracy
from kmdr.reporting.readme import renewed

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_python_examples_cluster_real_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    compared, pipeline = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
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
    table = README[README.index("## Methods") : README.index("Each reads like its algorithm box")]
    named = set(re.findall(r"`(\w+)`", table))
    classes = {name: type(reducers.make(name)).__name__ for name in reducers.names()}
    offered = {name for name, cls in classes.items() if cls in reducers.__all__}
    assert {"none", *offered} <= named
    assert {classes[name] for name in offered} <= named
    assert set(reducers.__all__) - {"Reducer"} - {name for name in reducers.__all__ if name.islower()} <= named


def test_the_scorecard_is_that_of_the_committed_report():
    report = (ROOT / "results" / "reference" / "report" / "report.md").read_text(encoding="utf-8")
    assert renewed(README, report) == README
    card = README[README.index("<!-- scorecard") : README.index("<!-- end of scorecard")]
    for entry in [*papers(), *items(), *claims()]:
        anchor = f"report.md#{getattr(entry, 'id', None) or entry.name})"
        assert anchor in card, f"{anchor} is not in the scorecard"


def test_the_pictures_and_files_it_shows_are_there():
    for target in re.findall(r"\]\(([^)#\s]+)", README):
        assert target.startswith("http") or (ROOT / target).exists(), target
