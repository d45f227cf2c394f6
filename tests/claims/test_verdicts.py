"""Verdicts by kind, and what they owe to margins of ours."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from kmdr.analysis.results import Results
from kmdr.analysis.statistics import Component, Kind, Margin, above, below, certain
from kmdr.base.text import short_hash
from kmdr.claims.catalogue import Claim, Finding
from kmdr.claims.verdicts import Verdict, judge, uncorrected, verdict_on
from rows import make_results, make_rows

EMPTY = make_results([make_rows("bmd09_table1", "nips", "none", 5, 2)])


def verdict(*components: Component, id_: str = "bmd09-1", results: Results = EMPTY) -> Verdict:
    claim = Claim(id_, "It is so.", "§1", (), (), (), lambda _: Finding(components, "It is -1."))
    return verdict_on(claim, results, {})


def test_the_digest_of_the_rows_is_that_of_their_lines_as_texts():
    rows = make_rows("own", 'a "b", [ü]', "none", (5, 10), 3, objective=lambda r, repeat: 1e-7 / (r + repeat))
    rows.loc[[1, 4], "accuracy"] = np.nan
    claim = replace(
        verdict().claim, test=lambda results: Finding([certainly(True, "number")], str(results.rows("own")))
    )
    lines = rows[["study", "config_hash", "r", "repeat", "objective", "accuracy"]].astype(str).to_numpy().tolist()
    assert verdict_on(claim, make_results([rows]), {}).rows_digest == short_hash(lines)


def certainly(holds: bool, kind: Kind) -> Component:
    return Component(kind, 1.0, 1.0, 1.0, float(not holds), float(holds), 5, "", kind)


@pytest.mark.parametrize(
    ("number", "time", "expected"),
    [
        (True, True, "supported"),
        (True, False, "not supported"),
        (None, True, "undecided"),
        (None, False, "not supported"),
    ],
)
def test_each_kind_has_a_verdict_and_the_claim_holds_when_all_do(number, time, expected):
    open_ = Component("", 1.0, 0.0, 2.0, 0.5, 0.5, 5, "", "number")
    (judged,) = judge(
        [verdict(certainly(number, "number") if number is not None else open_, certainly(time, "time"))], {}
    )
    assert judged.outcome == expected
    assert judged.kinds["time"].outcome == ("supported" if time else "not supported")
    assert judged.kinds["number"].outcome == ("supported" if number else "undecided")
    assert "statement" not in judged.kinds
    assert judged.sentence.startswith("It is −1.")
    assert uncorrected(judged.claim, EMPTY).outcome == expected


def test_kinds_share_the_level_of_their_paper():
    part = Component("", 1.0, 0.5, 1.5, 0.02, 0.98, 5, "")
    alone = [verdict(part, part._replace(kind="time")), verdict(certainly(False, "number"), id_="bmd09-2")]
    first, second = judge(alone, {})
    assert {kind: judged.p_for for kind, judged in first.kinds.items()} == pytest.approx(
        {"statement": 0.04, "time": 0.04}
    )
    assert second.p_against == 0
    (more, *_) = judge([*alone, verdict(part, id_="bmd09-3")], {})
    assert more.outcome == "undecided"
    assert more.sentence.endswith(
        "Uncorrected it would be supported (p = 0.02); the correction is for the 4 tests of the paper."
    )


@pytest.mark.parametrize("rank", range(11, 29))
def test_a_whole_margin_turns_the_verdict_at_a_whole_number(rank):
    """With a greatest rank of 12, at most 12 is still true; the page said that the verdict changes at 12."""
    margin = Margin(30, "number of scores", least=2, most=300)
    (judged,) = judge([verdict(certain("rank", rank, margin, 1, "", at_most=True))], {})
    (swing,) = judged.swings
    assert swing.below == swing.nearest == rank - 1
    assert swing.otherwise(swing.below) == "not supported"


def test_where_a_margin_turns_the_verdict_is_where_its_test_reaches_the_level(rng):
    z = rng.normal(scale=0.01, size=5)
    x = np.r_[0.03 + z, 0.03 - z]  # without skewness, so that the test is Student's
    half = stats.t.isf(0.05, 9) * x.std(ddof=1) / math.sqrt(10)
    (judged,) = judge([verdict(below("F", x, Margin(0.05, "excess that is none"), "F"))], {})
    assert judged.outcome == "supported"
    (swing,) = judged.swings
    assert swing.below == pytest.approx(x.mean() + half, rel=1e-3)
    assert math.isnan(swing.above)
    assert swing.nearest == swing.below
    assert swing.otherwise(swing.below) == "undecided"
    assert swing.outcomes[0] == "not supported"
    assert swing.outcomes[-1] == "supported"
    assert (swing.values[0], swing.values[-1]) == pytest.approx((0.005, 0.5))
    assert judged.sentence.startswith(
        f"The verdict depends on our margin, excess that is none (0.05; undecided at {swing.below:.2g}). It"
    )


def test_a_margin_that_turns_nothing_is_not_in_the_first_line(rng):
    x = rng.normal(0.03, 0.0001, size=10)
    free = verdict(above("F", x, Margin(0.5, "least", least=0.4, most=0.6)))
    (judged,) = judge([free], {})
    assert judged.outcome == "not supported"
    assert math.isnan(judged.swings[0].nearest)
    assert judged.sentence == "It is −1."


def test_margins_are_moved_one_at_a_time(rng):
    x = rng.normal(0.03, 0.001, size=10)
    margin, other = Margin(0.05, "of F"), Margin(0.01, "of P")
    (judged,) = judge([verdict(below("F", x, margin), below("P", x, other), below("F again", x + 0.01, margin))], {})
    assert judged.outcome == "not supported"  # P is above its margin, whatever that of F
    of_F, of_P = judged.swings
    assert set(of_F.outcomes) == {"not supported"}
    assert of_P.outcomes[-1] == "supported"


def test_one_kind_that_was_not_run_is_no_verdict():
    claim = Claim("bmd09-1", "", "", (), (), (), lambda results: Finding([], "", {"": [results.rows("none")]}))  # type: ignore[list-item]
    alone = verdict_on(claim, EMPTY, {})
    assert alone.outcome == "not run"
    assert np.isnan(alone.p_for)
    assert judge([alone], {}) == [replace(alone)]
