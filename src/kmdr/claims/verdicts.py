"""Verdicts: what the rows say of each claim, corrected for the number of claims of its paper."""

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from kmdr.analysis.departures import Departure
from kmdr.analysis.results import NotRunError, Recorder, Results, attempt
from kmdr.analysis.statistics import KINDS, Component, Kind, Margin, at, conjunction, directional
from kmdr.claims.catalogue import Claim, Finding, gaps, rerun_command
from kmdr.claims.effects import Outcome, decided
from kmdr.claims.repetitions import NOTHING, Need, needed


@dataclass(frozen=True)
class Diagnosis:
    """What a claim's test finds once one choice is flipped.

    Attributes
    ----------
    flip : str
        The study that flips it.
    change : str
        The choice, in words.
    before, after : str
        Outcome (uncorrected, on the trials that both have) with the choice as in the papers' protocol, and flipped.
    sentence : str
        The explanation of the flipped test.
    """

    flip: str
    change: str
    before: Outcome
    after: Outcome
    sentence: str


class Judgement(NamedTuple):
    """What is said of the components of one kind: outcome, and p-values for and against."""

    outcome: Outcome
    p_for: float
    p_against: float


class Swing(NamedTuple):
    """How a verdict hangs on a margin of ours.

    Attributes
    ----------
    values : tuple of float
        Of the margin, ascending.
    outcomes : tuple of str
        The claim's outcome with each.
    below, above : float
        The nearest values with another outcome; NaN where there is none on that side.
    """

    margin: Margin
    values: tuple[float, ...]
    outcomes: tuple[Outcome, ...]
    below: float
    above: float

    @property
    def nearest(self) -> float:
        """The value with another outcome that is nearest by its ratio to the margin; NaN where there is none."""
        there = [value for value in (self.below, self.above) if not math.isnan(value)]
        return min(there, key=lambda value: abs(math.log(value / self.margin.value)), default=math.nan)

    def otherwise(self, value: float) -> Outcome:
        """Return the outcome beyond a value of ``below`` or ``above``."""
        pairs = list(zip(self.values, self.outcomes, strict=True))
        if value > self.margin.value:
            return next(outcome for at_value, outcome in pairs if at_value >= value)
        return next(outcome for at_value, outcome in reversed(pairs) if at_value <= value)


@dataclass(frozen=True)
class Verdict:
    """The outcome of one claim.

    Attributes
    ----------
    outcome : {"reproduced", "not reproduced", "inconclusive", "not run", "changed"}
        Of all its kinds together: reproduced if each is, not reproduced if any is not; changed where rows that it reads
        are of other settings than the paper's, and nothing is said of the paper.
    sentence : str
        The explanation; for "not run" the reason, for "changed" how.
    components : tuple of Component
        What decides.
    kinds : mapping of str to Judgement
        What is said of the components of each kind that it has, corrected within the paper by `directional`.
    aside : mapping of str to sequence of Component
        What is shown beside it, by the reason why it does not decide.
    swings : tuple of Swing
        How the outcome hangs on each margin of ours.
    rows : mapping of str to int
        How many rows of each study were used.
    rows_digest : str
        Hash of the identity and values of those rows.
    command : str
        What reruns it.
    gaps : tuple of str
        Datasets that the claim speaks of and that could not be had, with the reason.
    needed : Need
        Repetitions that it takes to decide the claim.
    """

    claim: Claim
    outcome: Outcome
    sentence: str
    components: tuple[Component, ...] = ()
    kinds: Mapping[Kind, Judgement] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    rows_digest: str = ""
    command: str = ""
    gaps: tuple[str, ...] = ()
    diagnoses: tuple[Diagnosis, ...] = ()
    needed: Need = NOTHING
    aside: Mapping[str, Sequence[Component]] = field(default_factory=dict)
    swings: tuple[Swing, ...] = ()

    @property
    def p_for(self) -> float:
        """The greatest of its kinds', corrected; NaN when not run."""
        return max((judged.p_for for judged in self.kinds.values()), default=math.nan)

    @property
    def p_against(self) -> float:
        """The least of its kinds', corrected; NaN when not run."""
        return min((judged.p_against for judged in self.kinds.values()), default=math.nan)

    @property
    def weakest(self) -> Component | None:
        """The component that decides: against the claim where it fails, else the least certain."""
        if not self.components:
            return None
        if self.outcome == "not reproduced":
            return min(self.components, key=lambda c: c.p_against)
        return max(self.components, key=lambda c: c.p_for)


def _by_kind(components: Sequence[Component]) -> dict[Kind, tuple[float, float]]:
    """Return the p-values for and against of the components of each kind that occurs."""
    of_kind = {kind: [component for component in components if component.kind == kind] for kind in KINDS}
    return {kind: conjunction(of) for kind, of in of_kind.items() if of}


def _outcome(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the outcome of a claim from those of its kinds."""
    if "not reproduced" in outcomes:
        return "not reproduced"
    return "reproduced" if all(outcome == "reproduced" for outcome in outcomes) else "inconclusive"


def _found(claim: Claim, results: Results) -> tuple[Finding, dict[Kind, Judgement]]:
    finding = claim.test(results)
    pairs = _by_kind(finding.components)
    return finding, {kind: Judgement(decided(*pair), *pair) for kind, pair in pairs.items()}


def _texts(column: "pd.Series[Any]") -> list[str]:
    """Return the canonical JSON of each value as a text, made once of each: many rows have the same."""
    codes, values = pd.factorize(column, use_na_sentinel=False)
    told = json.dumps(pd.Series(values).astype(str).tolist(), separators=("\n", ":"), ensure_ascii=False)
    return list(np.array(told[1:-1].split("\n"), dtype=object)[codes])


def _digest(rows: pd.DataFrame) -> str:
    """Return `kmdr.base.text.short_hash` of the lines of a table as lists of texts."""
    lines = zip(*(_texts(rows[name]) for name in rows), strict=True)
    return hashlib.sha256(f"[[{'],['.join(map(','.join, lines))}]]".encode()).hexdigest()[:12]


def verdict_on(claim: Claim, results: Results, datasets: Mapping[str, Sequence[str]]) -> Verdict:
    """Test one claim, uncorrected.

    Parameters
    ----------
    datasets : mapping
        Those of each study, to tell which of them are missing.
    """
    recorder = Recorder(results)
    missing = gaps(results, claim, datasets)
    command = rerun_command(claim)
    try:
        finding, kinds = attempt(partial(_found, claim), recorder)
    except NotRunError as reason:
        return Verdict(claim, "not run", str(reason), command=command, gaps=missing)
    used = recorder.rows_read()
    return Verdict(
        claim,
        _outcome([judged.outcome for judged in kinds.values()]),
        _minus(finding.sentence),
        tuple(finding.components),
        kinds,
        {str(name): int(count) for name, count in used["study"].value_counts(sort=False).items()},
        _digest(used[["study", "config_hash", "r", "repeat", "objective", "accuracy"]]) if len(used) else "",
        command,
        missing,
        aside=dict(finding.aside),
    )


def under_changed_protocol(verdict: Verdict, departures: Mapping[str, Departure]) -> Verdict:
    """Return a verdict as it is, or, where rows of other settings than a study's made it, what it would have been.

    Parameters
    ----------
    verdict : Verdict
        As `verdict_on` gives it.
    departures : mapping
        Of studies, by name.
    """
    read = {study: departures[study] for study in verdict.rows if study in departures}
    if verdict.outcome == "not run" or not read:
        return verdict
    told = "; ".join(departure.told(study) for study, departure in read.items())
    command = rerun_command(verdict.claim, {study: departure.overrides for study, departure in read.items()})
    if not any(departure.settings for departure in read.values()):
        return replace(verdict, sentence=f"Of {told}. {verdict.sentence}", command=command)
    return replace(
        verdict,
        outcome="changed",
        sentence=f"Changed protocol, which says nothing of the paper: {told}. With these settings, uncorrected, it "
        f"would be {verdict.outcome}: {verdict.sentence}",
        kinds={},
        command=command,
    )


def judge(alone: Sequence[Verdict], diagnoses: Mapping[str, Sequence[Diagnosis]]) -> list[Verdict]:
    """Return the verdicts on all claims, each of which was tested.

    The p-values of a paper's claims, of each kind in each claim, are corrected together, by
    `kmdr.analysis.statistics.directional`.

    Parameters
    ----------
    alone : sequence of Verdict
        As `verdict_on` gives them.
    diagnoses : mapping
        Those of each claim.
    """
    verdicts: list[Verdict] = []
    for paper in dict.fromkeys(verdict.claim.paper for verdict in alone):
        of_paper = [verdict for verdict in alone if verdict.claim.paper == paper]
        pairs = {
            verdict.claim.id: {kind: (judged.p_for, judged.p_against) for kind, judged in verdict.kinds.items()}
            for verdict in of_paper
        }
        parts = sum(map(len, pairs.values()))
        corrected = _corrected(pairs)
        for verdict in of_paper:
            if verdict.outcome in ("not run", "changed"):
                verdicts.append(replace(verdict, diagnoses=tuple(diagnoses.get(verdict.claim.id, ()))))
                continue
            kinds = corrected[verdict.claim.id]
            final = _outcome([judged.outcome for judged in kinds.values()])
            swings = tuple(_swings(verdict, pairs, final))
            verdicts.append(
                replace(
                    verdict,
                    outcome=final,
                    sentence=_first_line(swings) + verdict.sentence + _last_line(verdict, final, parts),
                    kinds=kinds,
                    diagnoses=tuple(diagnoses.get(verdict.claim.id, ())),
                    needed=needed(final, verdict.components, parts),
                    swings=swings,
                )
            )
    return verdicts


Pairs = Mapping[str, Mapping[Kind, tuple[float, float]]]


def _corrected(pairs: Pairs) -> dict[str, dict[Kind, Judgement]]:
    """Return what is said of each kind in each claim of a paper, corrected together."""
    adjusted = iter(directional([pair for of_claim in pairs.values() for pair in of_claim.values()]))
    judged = {id_: {kind: next(adjusted) for kind in of_claim} for id_, of_claim in pairs.items()}
    return {id_: {kind: Judgement(decided(*p), *p) for kind, p in of.items()} for id_, of in judged.items()}


# How finely a margin is varied over the range that is drawn, and how often a change is closed in on.
_STEPS, _HALVINGS = 40, 10


def _swings(verdict: Verdict, pairs: Pairs, final: Outcome) -> Iterator[Swing]:
    """Vary each margin of a claim, all else as it is."""
    margins = {part.margin.what: part.margin for part in verdict.components if part.margin is not None}
    for margin in margins.values():

        def outcome_at(value: float, what: str = margin.what) -> Outcome:
            moved = [
                at(part, value) if part.margin and part.margin.what == what else part for part in verdict.components
            ]
            kinds = _corrected({**pairs, verdict.claim.id: _by_kind(moved)})[verdict.claim.id]
            return _outcome([judged.outcome for judged in kinds.values()])

        least = margin.value / 10 if margin.least is None else margin.least
        most = margin.value * 10 if margin.most is None else margin.most
        values = sorted({*map(float, np.geomspace(least, most, _STEPS)), margin.value})
        outcomes = [outcome_at(value) for value in values]
        home = values.index(margin.value)
        changes = [i for i, (a, b) in enumerate(pairwise(outcomes)) if a != b]
        down = max((i for i in changes if i < home), default=None)
        up = min((i for i in changes if i >= home), default=None)
        yield Swing(
            margin,
            tuple(values),
            tuple(outcomes),
            math.nan if down is None else _edge(values[down + 1], values[down], outcome_at, final),
            math.nan if up is None else _edge(values[up], values[up + 1], outcome_at, final),
        )


def _edge(same: float, other: float, outcome_at: Callable[[float], Outcome], final: Outcome) -> float:
    """Close in on where the outcome changes; return the nearest value known to have another."""
    for _ in range(_HALVINGS):
        middle = (same * other) ** 0.5
        if outcome_at(middle) == final:
            same = middle
        else:
            other = middle
    return other


def _last_line(verdict: Verdict, final: Outcome, parts: int) -> str:
    """Say what times are of, and what the correction has changed."""
    text = " Times are of this implementation on the machine that took them." if "time" in verdict.kinds else ""
    if final != verdict.outcome:
        p = min(min(judged.p_for, judged.p_against) for judged in verdict.kinds.values() if judged.outcome != final)
        text += f" By itself it would be {verdict.outcome} (p = {p:.2g}); {parts} tests of the paper share the level."
    return text


def _first_line(swings: Sequence[Swing]) -> str:
    """Say on which margins of ours a verdict hangs, and where it would be another."""
    texts = [
        f"{swing.margin.what} ({swing.margin:g}; at {swing.nearest:.2g} it would be {swing.otherwise(swing.nearest)})"
        for swing in swings
        if not math.isnan(swing.nearest)
    ]
    return f"This rests on a margin of ours: {'; '.join(texts)}. " if texts else ""


def _minus(text: str) -> str:
    """Return a text with minus signs before numbers, where formatting has put hyphens."""
    return re.sub(r"(?<![\w.−-])-(?=\d)", "−", text)


def uncorrected(claim: Claim, results: Results) -> tuple[Outcome, Finding | None, str]:
    """Return outcome, finding and explanation of one claim on some rows, without correction."""
    try:
        finding, kinds = attempt(partial(_found, claim), results)
    except NotRunError as reason:
        return "not run", None, str(reason)
    return _outcome([judged.outcome for judged in kinds.values()]), finding, _minus(finding.sentence)
