"""One page per paper in the form of a reproducibility report, and the findings that lead the report."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from kmdr.analysis.statistics import Kind
from kmdr.base.text import counted, format_number, typeset
from kmdr.claims.catalogue import Paper
from kmdr.claims.draws import TOGETHER
from kmdr.claims.effects import SUPPORTED, clearness, outcome
from kmdr.claims.implementations import central_times
from kmdr.claims.repetitions import MOST
from kmdr.claims.summary import Sentence
from kmdr.claims.verdicts import Diagnosis, RestsOn, Verdict
from kmdr.figures.tables import Table
from kmdr.reporting.citations import Sources, cited, sources
from kmdr.reporting.model import Report
from kmdr.reporting.numbers import duration, effect

# The sentence on the failing part of a claim, by kind.
FAILS: dict[Kind, str] = {
    "number": "{fail} of {all} reported values {are} not reproduced as written, after correction",
    "statement": "{fail} of {all} statements on F and P {are} contradicted, after correction",
    "time": "{fail} of {all} statements on time {are} contradicted with this implementation on this machine, after "
    "correction",
}
HOLDS: dict[Kind, str] = {
    "number": "its numbers are plausible", "statement": "its statements on F and P are supported",
    "time": "its statements on time are supported",
}  # fmt: skip
_DIFFERENCE = "reported − ours"  # ends the label of a statement on a number
_NO_NUMBER = {"reported": "–", "ours": "–"}
_MATRIX = "largest data matrix (MB)"
# The outcomes of the claims that a summary lists under a title.
OUTCOME_TITLES = {
    "Supported": SUPPORTED, "Not supported": ("not supported",), "Undecided": ("undecided",),
    "Not run, or with changed settings": ("not run", "changed"),
}  # fmt: skip


class Finding(NamedTuple):
    """A finding as the report states it."""

    paper: str
    text: str
    sentence: Sentence


@dataclass(frozen=True)
class PaperSummary:
    """The reproducibility report of one paper.

    Attributes
    ----------
    findings : list of Finding
        With their numbers.
    parts : mapping of str to list of str or Table
        By title: paragraphs, the claims by outcome, deviations, and computing time.
    """

    findings: list[Finding]
    parts: Mapping[str, list[str] | Table]

    @property
    def headline(self) -> str:
        """The title or the first sentence of the first finding that is not part of the report's answer, or else is."""
        finding = min(self.findings, key=lambda finding: finding.sentence.answer, default=None)
        return (finding.sentence.title or re.split(r"(?<=[.])\s+(?=[A-Z])", finding.text)[0]) if finding else ""


def paper_summaries(report: Report) -> dict[str, PaperSummary]:
    """Return the summary of each paper that was run, by name."""
    tables = sources(report)
    ran = {study.get("paper") for study in report.studies if study["rows"]}
    return {paper.name: _summary(paper, report, tables) for paper in report.papers if paper.name in ran}


def _summary(paper: Paper, report: Report, tables: Sources) -> PaperSummary:
    words = paper.summary
    verdicts = [verdict for verdict in report.verdicts if verdict.claim.paper == paper.name]
    groups = {title: [v for v in verdicts if v.outcome in outcomes] for title, outcomes in OUTCOME_TITLES.items()}
    studies = [study for study in report.studies if study.get("paper") == paper.name and study["rows"]]

    def paragraphs(sentences: Sequence[Sentence]) -> list[str]:
        return [text for sentence in sentences if (text := cited(tables, sentence))]

    multiverse = report.multiverses.get(paper.name)
    explanation = multiverse.explanation if multiverse else ""
    # A table has no code spans.
    deviations = [[cited(tables, Sentence(cell)).replace("`", "") for cell in line] for line in words.deviations]
    parts: dict[str, list[str] | Table] = {
        "Scope": paragraphs(words.scope),
        **{title: _claims(group) for title, group in groups.items() if group},
        "Easy to reproduce": paragraphs(words.easy),
        "Hard to reproduce": paragraphs(words.hard),
        "Open choices and the reported numbers": [explanation] if explanation else [],
        "Amended tests and repetitions": [
            f"{a.claim} ({a.date}; the verdict was “{a.before}”): {a.change} {a.reason}" for a in paper.amendments
        ],
        "Deviations": Table(pd.DataFrame(deviations, columns=["subject", "in the paper", "here", "effect"]), {}),
        "Computing time and memory": _computing(
            [*studies, *([{"name": "multiverse", **multiverse.cost}] if multiverse and multiverse.cost else [])]
        ),
        "Limitations": paragraphs(words.limitations),
    }
    findings = [Finding(paper.name, text, s) for s in words.findings if (text := cited(tables, s))]
    return PaperSummary(findings, {title: part for title, part in parts.items() if not _is_empty(part)})


def _is_empty(part: list[str] | Table) -> bool:
    return part.frame.empty if isinstance(part, Table) else not part


# The basis of an outcome on time, in words.
BASES: Mapping[RestsOn, str] = {
    "methods": "the methods, as the claim has the same outcome with every implementation that was timed here",
    "methods in part": "the methods in part: the claim has the same outcome with every implementation that was timed "
    "here, but some methods that decide it run our code in all of them",
    "implementation": "the implementation, as the claim has another outcome with another one",
    "hardware": "the machine",
    "not measured": "not measured, as no other implementation timed all the statements that decide",
}


def describe_other_times(verdict: Verdict) -> list[str]:
    """Return the deciding statement on time with our implementation and with each other one, in words.

    That is the one that most clearly fails with ours, or else the least certain one, of the measured ones that have the
    claim's outcome there. All others that have another outcome there than with ours follow.
    """
    texts = []
    for other in verdict.basis.others if verdict.basis else ():
        both = [component for component in verdict.components if component.label in other.components]
        fails = verdict.kinds["time"].outcome == "not supported" if "time" in verdict.kinds else False
        outcomes = {component.label: outcome([other.components[component.label]]) for component in both}
        alike = [component for component in both if outcomes[component.label] == other.outcome]
        shown = min(alike, key=clearness, default=None) if fails else max(alike, key=lambda c: c.p_for, default=None)
        text = f"{other.what}: {other.outcome}"
        if shown is not None:
            measured = other.components[shown.label]
            text += f" ({shown.label}: {effect(shown)} with ours, {effect(measured)} {shown.unit} there, "
            text += f"{counted(measured.n, 'timing')})"
        if changed := [c for c in both if c is not shown and outcome([c]) != outcomes[c.label]]:
            listed = "; ".join(f"{c.label}: {effect(c)}, there {effect(other.components[c.label])}" for c in changed)
            text += f"; {counted(len(changed), 'single statement')} with another outcome there: {listed}"
        central = central_times(verdict.claim, verdict.components)
        if missing := sum(component.label not in other.components for component in central):
            text += f"; {counted(missing, 'statement')} not measured there, for which ours are taken"
        texts.append(text)
    return texts


def deciding_change(diagnosis: Diagnosis) -> str:
    """Return the deciding statement of a flipped test with its effect before and after, or why it was not run."""
    before, after = diagnosis.deciding
    if after is None:
        return diagnosis.sentence
    start = f"{effect(before)} → " if before is not None else ""
    return f"{after.label}: {start}{effect(after)} {after.unit}"


def diagnosed(verdict: Verdict) -> Table:
    """Return the flipped choices of a claim: its verdict before and after, and the effect that decides it."""
    lines = [
        {
            "choice": diagnosis.change,
            "study": diagnosis.flip,
            "verdict": f"{diagnosis.before} → {diagnosis.after}"
            if diagnosis.before != diagnosis.after
            else diagnosis.after,
            "deciding effect": deciding_change(diagnosis),
        }
        for diagnosis in verdict.diagnoses
    ]
    return Table(pd.DataFrame(lines), {})


def _claims(verdicts: Sequence[Verdict]) -> Table:
    """Return one line per claim with its deciding statement and, if that is about a number, the paper's and ours."""
    lines = []
    for verdict in verdicts:
        statement, why = verdict.weakest, reason(verdict)
        if statement and statement.unit == TOGETHER:  # show the number that differs most
            statement = min((c for c in verdict.central if c.unit != TOGETHER), key=clearness)
        reported = statement.reported if statement else math.nan
        lines.append(
            {
                "claim": verdict.claim.id,
                "sentence": verdict.claim.sentence,
                "reason": f"{why[0].upper()}{why[1:]}." if why else "",
                "deciding statement": statement.label if statement else "",
                "reported": reported,
                "ours": reported - statement.effect if statement else math.nan,
                "effect [95 % interval]": f"{effect(statement)} {statement.unit}" if statement else "",
                "times rest on": "; ".join([verdict.basis.word, *describe_other_times(verdict)])
                if verdict.basis
                else "",
                "reconstructed protocol": verdict.reconstructed.outcome if verdict.reconstructed else "",
            }
        )
    frame = pd.DataFrame(lines)
    shown = (frame.notna() & (frame != "")).any()
    numbers = {name: ".4g" for name in ("reported", "ours") if shown[name]}
    return Table(frame.loc[:, shown], numbers, missing=_NO_NUMBER)


def _computing(studies: Sequence[Mapping[str, Any]]) -> Table:
    lines = [
        {
            "study": study["name"],
            "rows": study["rows"],
            "time": duration(study["seconds"]),
            _MATRIX: study["bytes"] / 1e6,
        }
        for study in studies
    ]
    total = duration(sum(study["seconds"] for study in studies))
    note = f"In all {total}, over all workers. Peak memory is not recorded; the largest data matrix is a lower bound."
    return Table(pd.DataFrame(lines), {"rows": "d", _MATRIX: ".3g"}, note)


def leading(summaries: Mapping[str, PaperSummary]) -> list[Finding]:
    """Return the findings that lead the report, in their order."""
    every = [finding for summary in summaries.values() for finding in summary.findings if finding.sentence.lead]
    return sorted(every, key=lambda finding: finding.sentence.lead)


def reason(verdict: Verdict) -> str:
    """Return the reason why a claim is not supported in full; an empty string if it is."""
    if verdict.outcome in ("not run", "changed"):
        return verdict.sentence
    if verdict.outcome == "mostly supported":
        return f"mostly: {verdict.tally}"
    central = {kind: judged.outcome for kind, judged in verdict.kinds.items() if kind != "side"}
    parts = [_failing(verdict, kind) for kind, outcome in central.items() if outcome == "not supported"]
    parts += [_undecided(verdict, kind) for kind, outcome in central.items() if outcome == "undecided"]
    if parts:
        parts += [HOLDS[kind] for kind, outcome in central.items() if outcome == "supported"]
    reversed_by = [d for d in verdict.diagnoses if d.before == verdict.outcome and d.after in SUPPORTED]
    if verdict.outcome not in SUPPORTED:
        if choices := [d.change for d in reversed_by if not d.departs]:
            parts.append(f"it is supported with another choice where the paper leaves one open ({'; '.join(choices)})")
        parts += [f"it is supported only with {d.departs} ({d.change})" for d in reversed_by if d.departs]
    return "; ".join(parts)


def _failing(verdict: Verdict, kind: Kind) -> str:
    components = [component for component in verdict.central if component.kind == kind and component.unit != TOGETHER]
    components = components or [component for component in verdict.central if component.kind == kind]
    failing = [component for component in components if verdict.statement(component) == "not supported"]
    jointly = [c for c in verdict.central if c.unit == TOGETHER and verdict.statement(c) == "not supported"]
    if kind == "number" and jointly and not failing:
        p = format_number(jointly[0].effect, ".2g")
        values = counted(len(components), "reported value")
        return f"none of {values} is implausible alone, but jointly their p-value is {p}"
    clearest = min(components, key=clearness)
    if len(components) == 1:
        return f"{clearest.label}: the effect is {typeset(format_number(clearest.effect, '.3g'))}"
    text = FAILS[kind].format(fail=len(failing), all=len(components), are="is" if len(failing) == 1 else "are")
    size = typeset(format_number(clearest.effect, ".3g"))
    if clearest.label.endswith(end := f", {_DIFFERENCE}"):
        return f"{text}; clearest: {clearest.label.removesuffix(end)} ({_DIFFERENCE} = {size})"
    return f"{text}; clearest: {clearest.label} ({size})"


def _undecided(verdict: Verdict, kind: Kind) -> str:
    needed = verdict.needed
    texts = {"number": "its numbers", "statement": "its statements on F and P", "time": "its statements on time"}
    if (component := needed.component) is not None and component.kind == kind and needed.repetitions:
        return f"“{component.label}” has {counted(component.n, 'repetition')} and needs about {needed.repetitions}"
    if component is not None and component.kind == kind and component.unit == "readings":
        return f"the readings of a word in “{component.label}” disagree"
    if component is not None and component.kind == kind:
        most = counted(max(MOST, component.n), "repetition")
        return f"{texts[kind]} are undecided; more than {most} would be needed if our estimates are right"
    return f"{texts[kind]} are undecided"
