"""The committed declarations of the claims."""

import json
from dataclasses import replace

import pytest

from kmdr.claims import frozen


@pytest.mark.parametrize("paper", frozen.built_in(), ids=lambda paper: paper.name)
def test_the_declarations_are_the_frozen_ones(paper):
    """If a test, a margin, a central statement or the repetitions change, 'python -m kmdr.claims.frozen' records it."""
    now, then = frozen.declarations(paper), json.loads(frozen.file_of(paper).read_text("utf-8"))
    assert not [key for key in now if now[key] != then[key]]
    assert frozen.file_of(paper).read_text("utf-8") == frozen.text_of(now)


def test_the_report_says_whether_they_are(monkeypatch):
    assert " are frozen (hash " in frozen.frozen_note()
    declared = frozen.declarations
    monkeypatch.setattr(frozen, "declarations", lambda paper: declared(paper) | {"margins": {}})
    assert " differ from the frozen ones (hash " in frozen.frozen_note()


def test_a_claims_parts_margins_and_repetitions_are_in_it():
    paper = next(paper for paper in frozen.built_in() if paper.name == "bzd10")
    declared = frozen.declarations(paper)
    claim = next(claim for claim in paper.claims if claim.id == "bzd10-5")
    assert declared["claims"]["bzd10-5"]["central"] == dict(claim.central)
    assert "order" in declared["claims"]["bzd10-5"]["side"]
    assert declared["margins"]["IRRELEVANT"]["value"] == 0.1
    assert declared["repetitions"]["bzd10_table2_signs"] == 200
    assert frozen._claim(replace(claim, side={}), paper) != declared["claims"]["bzd10-5"]
