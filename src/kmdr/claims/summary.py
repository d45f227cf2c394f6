"""The words of a paper's summary, from its ``paper.toml``; a report fills in the numbers.

A text may cite numbers of a report in braces, and may be restricted to a condition on them (``when``); see
`kmdr.reporting.citations`. So no text states a number that the rows do not give.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from kmdr.base.errors import UserError, unknown


class Sentence(NamedTuple):
    """A text, the conditions under which it is true, and, for a finding, its title and its place in the report's lead.

    Attributes
    ----------
    lead : int
        From 1; 0 for a finding that only its paper's page shows.
    answer : bool
        Whether it is part of the answer to the question of the README and the report.
    """

    text: str
    when: tuple[str, ...] = ()
    title: str = ""
    lead: int = 0
    answer: bool = False


class Deviation(NamedTuple):
    """A difference between a paper and this project: in its data, its code or MATLAB; how each does it; the effect."""

    subject: str
    paper: str
    here: str
    effect: str


@dataclass(frozen=True)
class Summary:
    """The words of a paper's summary.

    Attributes
    ----------
    short : str
        A title of a few words.
    findings, scope, easy, hard, limitations : sequence of Sentence
        The findings, most important first; what the paper and the rerun cover; what was easy and what was hard to
        reproduce; what the results cannot show.
    deviations : sequence of Deviation
        Differences from the paper.
    """

    short: str = ""
    findings: Sequence[Sentence] = ()
    scope: Sequence[Sentence] = ()
    easy: Sequence[Sentence] = ()
    hard: Sequence[Sentence] = ()
    limitations: Sequence[Sentence] = ()
    deviations: Sequence[Deviation] = ()


PARTS = ("findings", "scope", "easy", "hard", "limitations")


def read_summary(file: Path, table: Mapping[str, Any]) -> Summary:
    """Return the summary under ``[summary]`` of a ``paper.toml``; raise a UserError if it is malformed."""
    for key in table.keys() - {"short", "deviations", *PARTS}:
        raise unknown(f"key under [summary] of {file}", key, ("short", "deviations", *PARTS))
    try:
        parts = {part: tuple(map(_sentence, table.get(part, ()))) for part in PARTS}
        deviations = tuple(Deviation(**line) for line in table.get("deviations", ()))
    except TypeError as error:
        raise UserError(f"[summary] of {file} is malformed ({error}); follow the other papers' files") from error
    return Summary(table.get("short", ""), deviations=deviations, **parts)


def _sentence(entry: Any) -> Sentence:
    if isinstance(entry, str):
        return Sentence(entry)
    return Sentence(**{**entry, "when": tuple(entry.get("when", ()))})
