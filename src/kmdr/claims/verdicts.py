"""Verdicts: the outcome of each claim's tests, corrected for the number of claims of its paper."""

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
from kmdr.analysis.statistics import KINDS, Component, Kind, Margin, conjunction, directional, retest
from kmdr.claims.catalogue import Claim, Finding, gaps, rerun_command
from kmdr.claims.effects import Outcome, decided
from kmdr.claims.repetitions import NOTHING, Need, needed


@dataclass(frozen=True)
class Diagnosis:
    """The result of a claim's test after one choice is flipped.

    Attributes
    ----------
    flip : str
        The study that flips it.
    change : str
        The choice, in words.
    before, after : str
        Uncorrected outcome, on the shared trials, with the choice of the papers' protocol and with the flipped one.
    sentence : str
        The explanation of the flipped test.
    """

    flip: str
    change: str
    before: Outcome
    after: Outcome
    sentence: str


class Judgement(NamedTuple):
    """The outcome of the components of one kind, and their p-values for and against."""

    outcome: Outcome
    p_for: float
    p_against: float


class Swing(NamedTuple):
    """How a verdict depends on one of our margins.

    Attributes
    ----------
    values : tuple of float
        Margins, ascending.
    outcomes : tuple of str
        The claim's outcome at each.
    below, above : float
        The nearest values with another outcome; NaN if there is none on that side.
    """

    margin: Margin
    values: tuple[float, ...]
    outcomes: tuple[Outcome, ...]
    below: float
    above: float

    @property
    def nearest(self) -> float:
        """Return the value with another outcome that is nearest to the margin by ratio; NaN if there is none."""
        changes = [value for value in (self.below, self.above) if not math.isnan(value)]
        return min(changes, key=lambda value: abs(math.log(value / self.margin.value)), default=math.nan)

    def otherwise(self, value: float) -> Outcome:
        """Return the outcome beyond ``below`` or ``above``."""
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
        Of all its kinds together: reproduced if each is, not reproduced if any is not; changed if it reads rows of
        other settings than the paper's, which allow no conclusion about the paper.
    sentence : str
        The explanation; for "not run" the reason, for "changed" the changes.
    components : tuple of Component
        The statements that decide.
    kinds : mapping of str to Judgement
        The judgement on the components of each kind, corrected within the paper by `directional`.
    swings : tuple of Swing
        How the outcome depends on each of our margins.
    rows : mapping of str to int
        Number of rows of each study that were used.
    rows_digest : str
        Hash of the identity and values of those rows.
    command : str
        The command that runs it again.
    gaps : tuple of str
        Unavailable datasets that the claim is about, with the reason.
    needed : Need
        Repetitions needed to decide the claim.
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
    aside: Mapping[str, Sequence[Component]] = field(default_factory=dict)  # shown but not decisive, by the reason
    swings: tuple[Swing, ...] = ()

    @property
    def p_for(self) -> float:
        """Return the greatest corrected p-value for, over the kinds; NaN if not run."""
        return max((judged.p_for for judged in self.kinds.values()), default=math.nan)

    @property
    def p_against(self) -> float:
        """Return the least corrected p-value against, over the kinds; NaN if not run."""
        return min((judged.p_against for judged in self.kinds.values()), default=math.nan)

    @property
    def weakest(self) -> Component | None:
        """Return the component that decides: the clearest failure of a claim that fails, else the least certain."""
        if not self.components:
            return None
        if self.outcome == "not reproduced":
            return min(self.components, key=lambda c: c.p_against)
        return max(self.components, key=lambda c: c.p_for)


def _p_values_by_kind(components: Sequence[Component]) -> dict[Kind, tuple[float, float]]:
    """Return the p-values for and against of the components of each kind that occurs."""
    groups = {kind: [component for component in components if component.kind == kind] for kind in KINDS}
    return {kind: conjunction(group) for kind, group in groups.items() if group}


def _outcome(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the outcome of a claim from the outcomes of its kinds."""
    if "not reproduced" in outcomes:
        return "not reproduced"
    return "reproduced" if all(outcome == "reproduced" for outcome in outcomes) else "inconclusive"


def _found(claim: Claim, results: Results) -> tuple[Finding, dict[Kind, Judgement]]:
    finding = claim.test(results)
    pairs = _p_values_by_kind(finding.components)
    return finding, {kind: Judgement(decided(*pair), *pair) for kind, pair in pairs.items()}


def _texts(column: "pd.Series[Any]") -> list[str]:
    """Return the canonical JSON of each value; equal values are converted once."""
    codes, values = pd.factorize(column, use_na_sentinel=False)
    texts = json.dumps(pd.Series(values).astype(str).tolist(), separators=("\n", ":"), ensure_ascii=False)
    return list(np.array(texts[1:-1].split("\n"), dtype=object)[codes])


def _digest(rows: pd.DataFrame) -> str:
    """Return `kmdr.base.text.short_hash` of the rows of a table as lists of texts."""
    lines = zip(*(_texts(rows[name]) for name in rows), strict=True)
    return hashlib.sha256(f"[[{'],['.join(map(','.join, lines))}]]".encode()).hexdigest()[:12]


def verdict_on(claim: Claim, results: Results, datasets: Mapping[str, Sequence[str]]) -> Verdict:
    """Test one claim, uncorrected.

    Parameters
    ----------
    datasets : mapping
        The datasets of each study, to report missing ones.
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
    """Return a verdict unchanged, or, if its rows have other settings than their studies, as one on a changed protocol.

    Parameters
    ----------
    verdict : Verdict
        From `verdict_on`.
    departures : mapping
        Of studies, by name.
    """
    read = {study: departures[study] for study in verdict.rows if study in departures}
    if verdict.outcome == "not run" or not read:
        return verdict
    changes = "; ".join(departure.describe(study) for study, departure in read.items())
    command = rerun_command(verdict.claim, {study: departure.overrides for study, departure in read.items()})
    if not any(departure.settings for departure in read.values()):
        return replace(verdict, sentence=f"Rows: {changes}. {verdict.sentence}", command=command)
    return replace(
        verdict,
        outcome="changed",
        sentence=f"The protocol was changed, so no conclusion about the paper is possible: {changes}. With these "
        f"settings the uncorrected outcome would be {verdict.outcome}: {verdict.sentence}",
        kinds={},
        command=command,
    )


def judge(alone: Sequence[Verdict], diagnoses: Mapping[str, Sequence[Diagnosis]]) -> list[Verdict]:
    """Return the verdicts on all claims, corrected within each paper.

    The p-values of a paper's claims, one pair per kind and claim, are corrected together by
    `kmdr.analysis.statistics.directional`.

    Parameters
    ----------
    alone : sequence of Verdict
        From `verdict_on`.
    diagnoses : mapping
        Diagnoses of each claim.
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
    """Return the judgement on each kind in each claim of a paper, corrected together."""
    adjusted = iter(directional([pair for of_claim in pairs.values() for pair in of_claim.values()]))
    judged = {id_: {kind: next(adjusted) for kind in of_claim} for id_, of_claim in pairs.items()}
    return {id_: {kind: Judgement(decided(*p), *p) for kind, p in kinds.items()} for id_, kinds in judged.items()}


# Number of margins over the drawn range, and of bisections of a change of outcome.
_STEPS, _HALVINGS = 40, 10


def _swings(verdict: Verdict, pairs: Pairs, final: Outcome) -> Iterator[Swing]:
    """Yield the dependence of a verdict on each of its margins, everything else fixed."""
    margins = {part.margin.what: part.margin for part in verdict.components if part.margin is not None}
    for margin in margins.values():

        def outcome_at(value: float, what: str = margin.what) -> Outcome:
            moved = [
                retest(part, value) if part.margin and part.margin.what == what else part for part in verdict.components
            ]
            kinds = _corrected({**pairs, verdict.claim.id: _p_values_by_kind(moved)})[verdict.claim.id]
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
    """Bisect a change of outcome; return the nearest margin known to have another outcome."""
    for _ in range(_HALVINGS):
        middle = (same * other) ** 0.5
        if outcome_at(middle) == final:
            same = middle
        else:
            other = middle
    return other


def _last_line(verdict: Verdict, final: Outcome, parts: int) -> str:
    """Return the notes on times and on the effect of the correction."""
    text = " Times are of this implementation on the machine that measured them." if "time" in verdict.kinds else ""
    if final != verdict.outcome:
        p = min(min(judged.p_for, judged.p_against) for judged in verdict.kinds.values() if judged.outcome != final)
        text += (
            f" Uncorrected it would be {verdict.outcome} (p = {p:.2g}); the correction is for the {parts} tests of the "
            "paper."
        )
    return text


def _first_line(swings: Sequence[Swing]) -> str:
    """Return the margins that a verdict depends on, with the values at which it would change."""
    texts = [
        f"{swing.margin.what} ({swing.margin:g}; at {swing.nearest:.2g} it would be {swing.otherwise(swing.nearest)})"
        for swing in swings
        if not math.isnan(swing.nearest)
    ]
    return f"The verdict depends on our margin: {'; '.join(texts)}. " if texts else ""


def _minus(text: str) -> str:
    """Return a text with minus signs in place of hyphens before numbers."""
    return re.sub(r"(?<![\w.−-])-(?=\d)", "−", text)


def uncorrected(claim: Claim, results: Results) -> tuple[Outcome, Finding | None, str]:
    """Return the uncorrected outcome, finding and explanation of one claim on some rows."""
    try:
        finding, kinds = attempt(partial(_found, claim), results)
    except NotRunError as reason:
        return "not run", None, str(reason)
    return _outcome([judged.outcome for judged in kinds.values()]), finding, _minus(finding.sentence)
