"""The opening of a report: which claim is where, and the reason that is given."""

from dataclasses import replace

from kmdr.analysis.statistics import Component
from kmdr.claims.repetitions import Need
from kmdr.claims.verdicts import Diagnosis, Judgement, Verdict
from kmdr.reporting.opening import opening
from reports import verdicts

GOOD, BAD, OPEN = (
    Judgement("supported", 0.01, 1.0),
    Judgement("not supported", 1.0, 0.01),
    Judgement("undecided", 0.4, 0.4),
)


def part(label: str, p_against: float, effect: float = -0.5, kind: str = "statement") -> Component:
    return Component(label, effect, effect, effect, 1 - p_against, p_against, 7, "P", kind)  # type: ignore[arg-type]


def verdict(**changes: object) -> Verdict:
    return replace(verdicts()[2], diagnoses=(), **changes)  # type: ignore[arg-type]


def test_every_claim_is_in_one_place():
    every = opening(verdicts())
    parts = (every.holds, every.fails, every.undecided, every.not_run)
    assert [len(lines) for lines in parts] == [3, 1, 2, 1]
    assert not any(line.why for line in every.holds)
    assert every.not_run[0].why == "no rows of it"


def test_what_fails_is_told_by_kind_with_the_clearest():
    mixed = verdict(
        kinds={"statement": GOOD, "time": BAD},
        components=(
            part("P", 0.9),
            part("A", 0.01, 3.0, "time"),
            part("B", 0.001, 5.0, "time"),
            part("C", 1.0, 0.1, "time"),
        ),
    )
    (line,) = opening([mixed]).fails
    assert line.why == (
        "2 of 3 comparisons of time have the opposite direction with this implementation on this machine, most clearly "
        "B (5); its statements on F and P are supported"
    )
    single = verdict(kinds={"statement": BAD}, components=(part("P − P of kMeans, above 0", 0.001),))
    assert opening([single]).fails[0].why == "P − P of kMeans, above 0: the effect is −0.5"


def test_a_choice_that_turns_it_is_named():
    flips = (
        Diagnosis("flip_a", "centred vectors", "not supported", "supported", ""),
        Diagnosis("flip_b", "other starts", "not supported", "undecided", ""),
    )
    turned = replace(verdict(kinds={"statement": BAD}, components=(part("P", 0.001),)), diagnoses=flips)
    why = opening([turned]).fails[0].why
    assert why.endswith("; it is supported with another choice where the paper leaves one open (centred vectors)")


def test_what_is_open_says_how_many_repetitions_it_would_take():
    component = part("P", 0.4)
    still = verdict(outcome="undecided", kinds={"statement": OPEN}, components=(component,))
    assert opening([still]).undecided[0].why == "its statements on F and P are undecided at this number of repetitions"
    told = replace(still, needed=Need(component, 120))
    expected = "its statements on F and P need about 120 repetitions; this run has 7"
    assert opening([told]).undecided[0].why == expected
