"""One page per paper in the form of a reproducibility report, and the findings that lead the report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kmdr.analysis.statistics import Component, Kind
from kmdr.base.text import format_number
from kmdr.claims.catalogue import Paper
from kmdr.claims.draws import TOGETHER
from kmdr.claims.effects import SUPPORTED
from kmdr.claims.summary import PARTS, Deviation, Sentence
from kmdr.claims.verdicts import Verdict
from kmdr.reporting.citations import Sources, cited, sources
from kmdr.reporting.model import Report

# The sentence on the failing part of a claim, by kind.
FAILS: dict[Kind, str] = {
    "number": "{fail} of {all} reported values differ from what the procedure as described gives here",
    "statement": "{fail} of {all} comparisons have the opposite direction",
    "time": "{fail} of {all} comparisons of time have the opposite direction with this implementation on this machine",
}
HOLDS: dict[Kind, str] = {
    "number": "its numbers are plausible", "statement": "its statements on F and P are supported",
    "time": "its statements on time are supported",
}  # fmt: skip
_GROUPS = {
    "Supported": SUPPORTED, "Not supported": ("not supported",), "Undecided": ("undecided",),
    "Not run, or with changed settings": ("not run", "changed"),
}  # fmt: skip


class Finding(NamedTuple):
    """A finding as the report states it."""

    paper: str
    text: str
    sentence: Sentence


class Line(NamedTuple):
    """A claim in a paper's summary: its deciding statement, the reported value and ours if it is about a number, why.

    Attributes
    ----------
    why : str
        Why the claim is not supported in full.
    """

    verdict: Verdict
    statement: Component | None
    why: str

    @property
    def ours(self) -> float:
        """Return our value of the reported number; NaN if the statement is about none."""
        return self.statement.reported - self.statement.effect if self.statement else float("nan")


@dataclass(frozen=True)
class PaperSummary:
    """The reproducibility report of one paper.

    Attributes
    ----------
    findings : list of Finding
        With their numbers.
    texts : mapping of str to list of str
        Paragraphs on the scope, what was easy, what was hard, and limitations.
    claims : mapping of str to list of Line
        By outcome; without outcomes that do not occur.
    deviations : list of Deviation
        With their numbers.
    studies : list of mapping
        The paper's studies that have rows, with the time and the largest data matrix of each.
    """

    findings: list[Finding]
    texts: Mapping[str, list[str]]
    claims: dict[str, list[Line]]
    deviations: list[Deviation]
    studies: list[Mapping[str, Any]]


def paper_summaries(report: Report) -> dict[str, PaperSummary]:
    """Return the summary of each paper that was run, by name."""
    tables = sources(report)
    summaries = {paper.name: _summary(paper, report, tables) for paper in report.papers}
    return {name: summary for name, summary in summaries.items() if summary.studies}


def _summary(paper: Paper, report: Report, tables: Sources) -> PaperSummary:
    words = paper.summary
    verdicts = [verdict for verdict in report.verdicts if verdict.claim.paper == paper.name]
    groups = {title: [v for v in verdicts if v.outcome in outcomes] for title, outcomes in _GROUPS.items()}
    findings = [Finding(paper.name, text, sentence) for text, sentence in _cited(tables, words.findings)]
    return PaperSummary(
        findings,
        {part: [text for text, _ in _cited(tables, getattr(words, part))] for part in PARTS[1:]},
        {title: [Line(v, v.weakest, reason(v)) for v in group] for title, group in groups.items() if group},
        [Deviation(*(cited(tables, Sentence(cell)) for cell in line)) for line in words.deviations],
        [study for study in report.studies if study["paper"] == paper.name and study["rows"]],
    )


def _cited(tables: Sources, sentences: Sequence[Sentence]) -> list[tuple[str, Sentence]]:
    """Return the sentences that apply, with their numbers."""
    return [(text, sentence) for sentence in sentences if (text := cited(tables, sentence))]


def leading(summaries: Mapping[str, PaperSummary]) -> list[Finding]:
    """Return the findings that lead the report, in their order."""
    every = [finding for summary in summaries.values() for finding in summary.findings if finding.sentence.lead]
    return sorted(every, key=lambda finding: finding.sentence.lead)


def reason(verdict: Verdict) -> str:
    """Return why a claim is not supported in full; empty text if it is."""
    if verdict.outcome in ("not run", "changed"):
        return verdict.sentence
    if verdict.outcome == "mostly supported":
        return f"mostly: {verdict.tally}"
    central = {kind: judged.outcome for kind, judged in verdict.kinds.items() if kind != "side"}
    parts = [_failing(verdict, kind) for kind, outcome in central.items() if outcome == "not supported"]
    parts += [_undecided(verdict, kind) for kind, outcome in central.items() if outcome == "undecided"]
    if parts:
        parts += [HOLDS[kind] for kind, outcome in central.items() if outcome == "supported"]
    reversed_by = [d.change for d in verdict.diagnoses if d.before == verdict.outcome and d.after in SUPPORTED]
    if reversed_by and verdict.outcome not in SUPPORTED:
        parts.append(f"it is supported with another choice where the paper leaves one open ({'; '.join(reversed_by)})")
    return "; ".join(parts)


def _failing(verdict: Verdict, kind: Kind) -> str:
    components = [component for component in verdict.central if component.kind == kind and component.unit != TOGETHER]
    components = components or [component for component in verdict.central if component.kind == kind]
    failing = [component for component in components if verdict.statement(component) == "not supported"]
    jointly = [c for c in verdict.central if c.unit == TOGETHER and verdict.statement(c) == "not supported"]
    if kind == "number" and jointly and not failing:
        p = format_number(jointly[0].effect, ".2g")
        return f"none of {len(components)} reported values is implausible alone, but jointly their p-value is {p}"
    clearest = min(components, key=lambda component: component.p_against)
    if len(components) == 1:
        return f"{clearest.label}: the effect is {format_number(clearest.effect, '.3g')}".replace("-", "−")
    text = FAILS[kind].format(fail=len(failing), all=len(components))
    return f"{text}, most clearly {clearest.label} ({format_number(clearest.effect, '.3g')})".replace("(-", "(−")


def _undecided(verdict: Verdict, kind: Kind) -> str:
    needed = verdict.needed
    texts = {"number": "its numbers", "statement": "its statements on F and P", "time": "its statements on time"}
    if (component := needed.component) is not None and component.kind == kind and needed.repetitions:
        return f"“{component.label}” has {component.n} repetitions and needs about {needed.repetitions}"
    return f"{texts[kind]} are undecided at this number of repetitions"
