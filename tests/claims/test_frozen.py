"""The committed declarations of the claims."""

import json
from dataclasses import replace
from hashlib import sha256

import pytest

from kmdr.base.errors import UserError
from kmdr.claims import frozen
from kmdr.claims.catalogue import papers
from kmdr.cli import new


@pytest.mark.parametrize("paper", frozen.built_in(), ids=lambda paper: paper.name)
def test_the_declarations_are_the_frozen_ones(paper):
    """If a test, a margin, a central statement or the repetitions change, 'python -m kmdr.claims.frozen' records it."""
    now, then = frozen.declarations(paper), json.loads(frozen.file_of(paper).read_text("utf-8"))
    assert not [key for key in now if now[key] != then[key]]
    assert frozen.file_of(paper).read_text("utf-8") == frozen.text_of(now)


def test_the_report_says_whether_they_are(monkeypatch):
    built_in = frozen.built_in()
    assert " repetitions are frozen (hash " in frozen.frozen_note(built_in)
    declared = frozen.declarations
    monkeypatch.setattr(frozen, "declarations", lambda paper: declared(paper) | {"margins": {}})
    assert " differ from the frozen ones (hash " in frozen.frozen_note(built_in)


def test_the_note_is_about_the_shown_papers(monkeypatch, tmp_path):
    """A folder with only a custom paper showed the hash of the built-in ones."""
    new.write("paper", "smith24", tmp_path)
    monkeypatch.setenv("KMDR_PATH", str(tmp_path))
    custom, first, *others = sorted(papers(), key=lambda paper: paper.name != "smith24")
    text = frozen.file_of(first).read_bytes()
    assert frozen.frozen_note([]) == frozen.frozen_note([custom]) == ""
    assert f"(hash {sha256(text).hexdigest()[:12]})" in frozen.frozen_note([first])
    assert f" repetitions of {first.name} are frozen" in frozen.frozen_note([custom, first])
    every = b"".join(frozen.file_of(paper).read_bytes() for paper in (first, *others))
    assert f"(hash {sha256(every).hexdigest()[:12]})" in frozen.frozen_note([*reversed(others), first])


def test_a_claims_parts_margins_and_repetitions_are_in_it():
    paper = next(paper for paper in frozen.built_in() if paper.name == "bzd10")
    declared = frozen.declarations(paper)
    claim = next(claim for claim in paper.claims if claim.id == "bzd10-5")
    assert declared["claims"]["bzd10-5"]["central"] == dict(claim.central)
    assert "order" in declared["claims"]["bzd10-5"]["side"]
    assert declared["margins"]["IRRELEVANT"]["value"] == 0.1
    assert declared["repetitions"]["bzd10_table2_signs"] == 200
    assert frozen._claim(replace(claim, side={}), paper) != declared["claims"]["bzd10-5"]


def _declared(**changes):
    paper = next(paper for paper in frozen.built_in() if paper.name == "bzd10")
    return json.loads(frozen.text_of(frozen.declarations(paper))) | changes


def test_a_change_of_a_test_needs_an_amendment():
    old = _declared(amendments=[])
    amended = {"claim": "bzd10-5", "date": "2026-01-01", "before": "supported", "change": "A.", "reason": "B."}

    def after(change):
        new = _declared(amendments=[])
        change(new)
        return new

    def set_side(new):
        new["claims"]["bzd10-5"]["side"] = {}

    def set_margin(new):
        new["margins"]["IRRELEVANT"]["value"] = 0.2

    def set_repetitions(new):
        new["repetitions"]["bzd10_table2_signs"] = 10

    def set_words(new):
        new["code"] = "0"
        new["claims"]["bzd10-5"]["test"] = "In other words."
        new["margins"]["IRRELEVANT"]["what"] = "in other words"

    def drop(new):
        del new["claims"]["bzd10-5"]

    def use_another_margin(new):
        new["margins"]["SIGNIFICANTLY"] = {"value": 0.5}

    for change, name in (
        (set_side, "bzd10-5"), (set_margin, "IRRELEVANT"), (set_repetitions, "bzd10_table2_signs"), (drop, "bzd10-5"),
        (use_another_margin, "SIGNIFICANTLY"),
    ):  # fmt: skip
        assert frozen.not_amended(old, after(change)) == [name]
        assert frozen.not_amended(old, after(change) | {"amendments": [amended]}) == []
        # An amendment that was there before is of another change.
        assert frozen.not_amended(old | {"amendments": [amended]}, after(change) | {"amendments": [amended]}) == [name]
    assert frozen.not_amended(old, after(set_words)) == []
    assert frozen.not_amended(old | {"amendments": [amended]}, old) == ["bzd10-5"]


def test_a_changed_test_is_not_frozen_without_an_amendment(tmp_path, monkeypatch):
    paper = next(paper for paper in frozen.built_in() if paper.name == "bzd10")
    file = tmp_path / "frozen.json"
    monkeypatch.setattr(frozen, "file_of", lambda paper: file)
    frozen.freeze(paper)
    first = file.read_text("utf-8")
    half = frozen.declarations(paper) | {"repetitions": {}}
    monkeypatch.setattr(frozen, "declarations", lambda paper: half)
    with pytest.raises(UserError, match=r"the declarations of .*bzd10_table2.* changed; say in \[\[amendments\]\]"):
        frozen.freeze(paper)
    assert file.read_text("utf-8") == first


@pytest.fixture
def custom(tmp_path, monkeypatch):
    """The folder of a plugin's paper."""
    new.write("paper", "smith24", tmp_path)
    monkeypatch.setenv("KMDR_PATH", str(tmp_path))
    return tmp_path / "papers" / "smith24"


def _amended(folder, **changes):
    values = {"date": '"2026-01-31"', "before": '"supported"', "change": '"A."', "reason": '"B."'} | changes
    lines = ["[[amendments]]", "claim = 1", *(f"{name} = {value}" for name, value in values.items())]
    with (folder / "paper.toml").open("a", encoding="utf-8") as file:
        file.write("\n".join(["", *lines, ""]))


@pytest.mark.parametrize("date", ["2026-01-31", '"2026-01-31"'])
def test_the_date_of_an_amendment_may_be_a_date_of_toml(custom, date):
    """Only a text was read, of any form."""
    _amended(custom, date=date)
    (amendment,) = next(paper for paper in papers() if paper.name == "smith24").amendments
    assert (amendment.claim, amendment.date) == ("smith24-1", "2026-01-31")


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        *[("date", value, "is not a date as 2026-01-31; correct it")
          for value in ('"yesterday"', '""', '"2026-02-30"', '"20260131"', "2026-01-31T10:00:00", "20260131")],
        ("before", '"held"', "amendments.before = 'held' is not one of supported, mostly supported, not supported,"),
        ("before", '"suported"', "did you mean 'supported'?"), ("before", '""', "is not one of"),
        ("change", '""', "amendments.change is empty; write a sentence"),
        ("reason", '" "', "amendments.reason is empty; write a sentence"),
    ],
)  # fmt: skip
def test_an_amendment_that_does_not_say_what_it_must_is_refused(custom, name, value, sentence):
    _amended(custom, **{name: value})
    with pytest.raises(UserError) as caught:
        papers()
    assert str(caught.value).startswith(f"{custom / 'paper.toml'}: amendments.")
    assert sentence in str(caught.value)


@pytest.mark.parametrize("content", [b"\xff", b"", b"[1]"])
def test_a_damaged_frozen_file_of_a_plugin_differs(custom, content):
    """Bytes that are not UTF-8 stopped the report with a traceback."""
    (custom / "frozen.json").write_bytes(content)
    paper = next(paper for paper in papers() if paper.name == "smith24")
    assert frozen.frozen_note([paper]).startswith("Tests, margins, central statements or repetitions of smith24 differ")


def test_amendments_are_named_in_the_note():
    shown = frozen.built_in()
    amended = {amendment.claim for paper in shown for amendment in paper.amendments}
    assert amended
    assert all(claim in frozen.frozen_note(shown) for claim in amended)
    plain = [replace(paper, amendments=()) for paper in shown]
    assert amended.isdisjoint(frozen.frozen_note(plain).replace(",", " ").split())
