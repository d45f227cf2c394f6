"""Graded verdicts: central and side statements, and the number of statements that are supported."""

import math
from dataclasses import replace
from itertools import permutations

import pytest

from kmdr.analysis.significance import LEVEL, directional, final_level
from kmdr.analysis.statistics import Component, Margin, below, retest
from kmdr.claims.catalogue import Claim, Finding, claims, papers
from kmdr.claims.effects import tally
from kmdr.claims.verdicts import Verdict, judge, uncorrected, verdict_on
from rows import make_results, make_rows

EMPTY = make_results([make_rows("bmd09_table1", "nips", "none", 5, 2)])
TRUE, FALSE, OPEN = (0.0, 1.0), (1.0, 0.0), (0.5, 0.5)
BUILT_IN = [claim for claim in claims() if claim.paper in ("bmd09", "bzd10", "bzmd15", "lst17", "lf20")]


def statement(p: tuple[float, float], part: str = "", label: str = "") -> Component:
    return Component(label, 1.0, 0.5, 1.5, *p, 5, "F", part=part)


def verdict(*components: Component, id_: str = "bmd09-1", **changes: object) -> Verdict:
    claim = Claim(id_, "It is so.", "§1", (), (), (), lambda _: Finding(components, "It is 1."))
    changes = {"central": {"": "so"}, "side": {"more": "the sentence does not say it"}} | changes
    return verdict_on(replace(claim, **changes), EMPTY, {})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("central", "side", "expected", "tally"),
    [
        (TRUE, TRUE, "supported", "2 of 2 statements supported, 1 of 1 central"),
        (TRUE, FALSE, "mostly supported", "1 of 2 statements supported, 1 of 1 central"),
        (TRUE, OPEN, "mostly supported", "1 of 2 statements supported, 1 of 1 central"),
        (FALSE, TRUE, "not supported", "1 of 2 statements supported, 0 of 1 central"),
        (OPEN, TRUE, "undecided", "1 of 2 statements supported, 0 of 1 central"),
        (OPEN, FALSE, "undecided", "0 of 2 statements supported, 0 of 1 central"),
    ],
)
def test_side_statements_only_decide_between_supported_and_mostly_supported(central, side, expected, tally):
    alone = verdict(statement(central), statement(side, "more"))
    (judged,) = judge([alone], {})
    assert judged.outcome == expected
    assert judged.tally == tally
    assert uncorrected(alone.claim, EMPTY).outcome == expected


def test_p_values_and_the_deciding_statement_are_of_central_statements():
    (judged,) = judge([verdict(statement((0.01, 0.99)), statement(FALSE, "more"))], {})
    assert judged.weakest.p_for == 0.01
    assert judged.p_against == 1
    assert judged.needed.component.part == ""


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_of_failures_with_one_p_value_the_farthest_from_its_bound_is_the_clearest(order):
    """Of four ratios with one p-value, the first was called the clearest: 130, where 4.7 was."""
    effects = (130.0, 6.9, 4.7, 190.0)
    made = [
        statement((1.0, 2.0**-12), label=f"{effect:g} × on {effect:g}")._replace(
            effect=effect, bounds=(200.0, math.inf)
        )
        for effect in effects
    ]
    (judged,) = judge([verdict(*(made[i] for i in order))], {})
    assert judged.weakest.effect == 4.7
    assert tally([made[i] for i in order]).endswith("4.7 × on 4.7: +4.7; 6.9 × on 6.9: +6.9; 130 × on 130: +130")
    surer = statement((1.0, 2.0**-13))._replace(effect=199.0, bounds=(200.0, math.inf))
    assert verdict(*(made[i] for i in order), surer).weakest.effect == 199


def test_a_claim_without_a_statement_on_a_central_part_is_not_supported_but_may_be_refuted():
    two = {"central": {"": "so", "too": "too"}}
    assert verdict(statement(TRUE), **two).outcome == "undecided"
    assert verdict(statement(FALSE), **two).outcome == "not supported"
    assert verdict(statement(TRUE), statement(TRUE, "too"), **two).outcome == "supported"


def test_an_undecided_claim_names_the_central_part_on_which_it_has_no_statement():
    (judged,) = judge([verdict(statement(TRUE), **{"central": {"": "so", "too": "too"}})], {})
    assert judged.tally == "1 of 1 statement supported, no statement on the central part too"


def test_a_statement_on_an_undeclared_part_is_refused():
    alone = verdict(statement(TRUE, "another"))
    assert alone.outcome == "not run"
    assert "declares no part 'another'" in alone.sentence


def test_statements_are_counted_at_the_level_of_their_paper_so_that_counts_and_grades_agree():
    weak = statement((0.02, 0.98))
    alone = [verdict(weak, weak), verdict(weak, id_="bmd09-2"), verdict(weak, id_="bmd09-3")]
    first, *_ = judge(alone, {})
    assert (first.outcome, first.tally) == ("undecided", "0 of 2 statements supported")
    sure = [verdict(statement(FALSE), id_=f"bmd09-{number}") for number in (2, 3)]
    first, *_ = judge([alone[0], *sure], {})
    assert (first.outcome, first.tally) == ("supported", "2 of 2 statements supported")
    failing = statement((0.98, 0.02))
    (both,) = judge([verdict(weak, failing, failing)], {})
    assert both.outcome == "undecided"  # three chances to err
    assert both.statement(failing) == "undecided"
    (one,) = judge([verdict(failing)], {})
    assert (one.outcome, one.statement(failing)) == ("not supported", "not supported")


def test_the_level_of_holms_procedure_reproduces_its_decisions(rng):
    for _ in range(200):
        pairs = [(p, 1 - p) for p in rng.beta(0.3, 0.3, size=6)]
        level = final_level(pairs)
        assert [min(pair) <= level for pair in pairs] == [min(pair) <= LEVEL for pair in directional(pairs)]


@pytest.mark.parametrize("claim", BUILT_IN, ids=lambda claim: claim.id)
def test_central_parts_are_declared_in_the_papers_words(claim):
    quotes = next(paper.quotes for paper in papers() if paper.name == claim.paper)
    for words in claim.central.values():
        assert words, "a central part without the paper's words"
        for piece in words.split(" […] "):
            assert piece in quotes[claim.id]
    assert all(claim.side.values())
    assert not set(claim.central) & set(claim.side)


def test_a_statement_keeps_its_kind_and_part_at_another_margin():
    component = below("F", [0.1, 0.2, 0.3], Margin(0.5, "little"))._replace(kind="time", part="more")
    moved = retest(component, 0.1)
    assert (moved.kind, moved.part) == ("time", "more")
    assert moved.p_for > component.p_for
