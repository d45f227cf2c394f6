"""Why claims fail: the claims that are not supported, by cause."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kmdr.claims.effects import SUPPORTED
from kmdr.claims.verdicts import RestsOn, Verdict


class Cause(NamedTuple):
    """A cause for which claims are not supported: its anchor, its title, its meaning, and why it may have no claim."""

    id: str
    title: str
    meaning: str
    none: str = "None."


NUMBER = Cause("number", "Number", "A reported value is not within what our runs give.")
ORDERING = Cause("ordering", "Ordering", "A direction, an order of methods or a bound is contradicted.")
ALIKE = Cause(
    "alike",
    "Time, with every implementation timed here",
    "All implementations that were timed here contradict the statement. The paper's own had another outcome, so its "
    "code or its machine may be the reason.",
)
IMPLEMENTATION = Cause(
    "implementation", "Time, because of the implementation", "Another implementation gives a different outcome."
)
HARDWARE = Cause(
    "hardware",
    "Time, because of hardware",
    "The statement is on seconds, or its outcome depends on the machine.",
    "None: no failing statement is on seconds. Effects of hardware can only be detected if several machines were "
    "measured; `kmdr merge` adds the rows of another machine.",
)
UNMEASURED = Cause(
    "unmeasured", "Time, cause not measured", "No other implementation was timed, or none decides the statement."
)
UNAVAILABLE = Cause(
    "unavailable",
    "Data not available",
    "The claim was not run, or a central part of its sentence has no statement, for want of data. A claim that is "
    "undecided or fails on the available data is listed by what decides there; its heading names these data.",
)
UNDECIDED = Cause(
    "undecided",
    "Undecided",
    "The runs neither support nor contradict the claim, or a word of it has readings that disagree.",
)
RULE = (
    "A claim has statements of three kinds: reported numbers, statements on F and P, and statements on time. Each kind "
    "that is not supported is a cause: Number for reported numbers, and Ordering for statements on F and P. Statements "
    "on time are listed by what their outcome rests on. A claim may have several causes."
)
CAUSES = (NUMBER, ORDERING, ALIKE, IMPLEMENTATION, HARDWARE, UNMEASURED, UNAVAILABLE, UNDECIDED)
_TIME: Mapping[RestsOn, Cause] = {
    "methods": ALIKE, "methods in part": ALIKE, "implementation": IMPLEMENTATION, "hardware": HARDWARE,
    "not measured": UNMEASURED,
}  # fmt: skip


def failures(verdicts: Iterable[Verdict]) -> dict[Cause, list[Verdict]]:
    """Return the claims that are not supported, by cause; a claim may have several."""
    by_cause: dict[Cause, list[Verdict]] = {cause: [] for cause in CAUSES}
    for verdict in verdicts:
        for cause in _causes(verdict):
            by_cause[cause].append(verdict)
    return by_cause


def _causes(verdict: Verdict) -> set[Cause]:
    if verdict.outcome in SUPPORTED:
        return set()
    failing = {kind for kind, judged in verdict.kinds.items() if judged.outcome == "not supported"}
    causes = {cause for kind, cause in (("number", NUMBER), ("statement", ORDERING)) if kind in failing}
    if "time" in failing:
        causes.add(_TIME[verdict.basis.word if verdict.basis else "not measured"])
    if _lacks_data(verdict):
        return causes | {UNAVAILABLE}
    return causes | {UNDECIDED} if verdict.outcome == "undecided" else causes


def _lacks_data(verdict: Verdict) -> bool:
    """Return True if only missing data leave a claim without a verdict: all its statements on other data are supported.

    Further data cannot support a claim whose statements on the available data are undecided, as all of them must hold.
    """
    if not (verdict.gaps or verdict.scope) or verdict.outcome not in ("undecided", "not run"):
        return False
    return all(judged.outcome == "supported" for group, judged in verdict.kinds.items() if group != "side")
