"""The committed declarations of the claims."""

import json
from dataclasses import replace

from kmdr.claims import frozen
from kmdr.claims.catalogue import claims


def test_the_declarations_are_the_frozen_ones():
    """If a test, a margin, a central statement or the repetitions change, 'python -m kmdr.claims.frozen' records it."""
    now, then = frozen.declarations(), json.loads(frozen.FILE.read_text("utf-8"))
    changed = [f"{paper}: {key}" for paper in now for key in now[paper] if now[paper][key] != then[paper][key]]
    assert not changed
    assert frozen.FILE.read_text("utf-8") == frozen.text_of(now)


def test_the_report_says_whether_they_are(monkeypatch):
    assert " are frozen (hash " in frozen.frozen_note()
    changed = frozen.declarations()
    changed["bzd10"]["margins"]["IRRELEVANT"]["value"] = 0.2
    monkeypatch.setattr(frozen, "declarations", lambda: changed)
    assert " differ from the frozen ones (hash " in frozen.frozen_note()


def test_a_claims_parts_margins_and_repetitions_are_in_it():
    declared = frozen.declarations()["bzd10"]
    claim = next(claim for claim in claims() if claim.id == "bzd10-5")
    assert declared["claims"]["bzd10-5"]["central"] == dict(claim.central)
    assert "order" in declared["claims"]["bzd10-5"]["side"]
    assert declared["margins"]["IRRELEVANT"]["value"] == 0.1
    assert declared["repetitions"]["bzd10_table2_signs"] == 200
    other = replace(claim, side={})
    assert frozen._claim(other, next(p for p in frozen.papers() if p.name == "bzd10")) != declared["claims"]["bzd10-5"]
