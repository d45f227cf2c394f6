"""Graded verdicts: the outcome of each claim's statements, corrected for the number of claims of its paper.

A claim declares which parts of its sentence are central. Its statements form groups: the central ones of each kind, and
the side statements. A group holds if all its statements do (an intersection-union test), and fails if one does
(Bonferroni). All groups of a paper's claims are tested together by Holm's procedure. A claim is

* **supported** if all its groups hold,
* **mostly supported** if its central groups hold, but the side statements are not shown to,
* **not supported** if a central group fails,
* **undecided** otherwise.

So the probability that any claim of a paper gets a grade above the true one, or is not supported though its central
statements are true, is at most `kmdr.analysis.significance.LEVEL`.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from kmdr.analysis.departures import Departure
from kmdr.analysis.results import NotRunError, Recorder, Results
from kmdr.analysis.rows import SECONDS, computing_seconds, serial_rows
from kmdr.analysis.significance import LEVEL, directional, final_level
from kmdr.analysis.statistics import KINDS, Component, Kind, Margin, conjunction, retest
from kmdr.base.text import typeset
from kmdr.claims.catalogue import Claim, Finding, attempt_part, gaps, rerun_command
from kmdr.claims.draws import TOGETHER
from kmdr.claims.effects import Outcome, clearness, decided
from kmdr.claims.repetitions import NOTHING, Need, needed
from kmdr.figures.panels import dataset_label


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
    departs : str
        For a choice that the paper does not leave open, the departure from its text or the error that it repeats.
    deciding : tuple of (Component or None, Component or None)
        The statement that decides the flipped test, with the choice of the papers' protocol and with the flipped one;
        None where it has none.
    """

    flip: str
    change: str
    before: Outcome
    after: Outcome
    sentence: str
    departs: str = ""
    deciding: tuple[Component | None, Component | None] = (None, None)


RestsOn = Literal["methods", "methods in part", "implementation", "hardware", "not measured"]


class OtherTimes(NamedTuple):
    """The statements on time of a claim with another implementation, or on another machine.

    Attributes
    ----------
    what : str
        The implementation or the machine.
    outcome : str
        Of all central ones together, uncorrected; of statements that it does not measure, as with ours.
    components : mapping of str to Component
        The statements whose methods have the other implementation, by their labels.
    replaced : frozenset of str
        Labels of the statements of which no method is timed mostly with our code.
    """

    what: str
    outcome: Outcome
    components: Mapping[str, Component]
    replaced: frozenset[str] = frozenset()


class Basis(NamedTuple):
    """The basis of the outcome of a claim on time.

    Attributes
    ----------
    word : {"methods", "methods in part", "implementation", "hardware", "not measured"}
        The methods, if the outcome of the claim is the same with every implementation that was measured, in part if
        some methods that decide run our code in all of them; the implementation or the hardware, if it differs between
        them.
    """

    word: RestsOn
    others: tuple[OtherTimes, ...]


Group = Kind | Literal["side"]
GROUPS: tuple[Group, ...] = (*KINDS, "side")


class Judgement(NamedTuple):
    """The outcome of a group of statements, and its p-values for and against."""

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
    outcome : {"supported", "mostly supported", "not supported", "undecided", "not run", "changed"}
        See `grade`; changed if it reads rows of other settings than the paper's, which allow no conclusion about the
        paper.
    sentence : str
        The explanation; for "not run" the reason, for "changed" the changes.
    components : tuple of Component
        The statements.
    kinds : mapping of str to Judgement
        The judgement on the central statements of each kind and on the side statements, corrected within the paper by
        `directional`.
    scope : str
        On how many of the datasets of its sentence the claim was judged, if not on all.
    reconstructed : Verdict or None
        The verdict under the paper's reconstructed protocol, if it has one.
    level : float
        The level at which every group of the paper's statements was tested.
    swings : tuple of Swing
        How the outcome depends on each of our margins.
    rows : mapping of str to int
        Number of rows of each study that were used.
    methods : tuple of str
        Names of the reducers whose rows were used.
    rows_digest : str
        Hash of the identity and values of those rows.
    command : str
        The command that runs it again.
    gaps : tuple of str
        Unavailable datasets that the claim is about, with the reason.
    needed : Need
        Repetitions needed to decide the claim.
    basis : Basis or None
        The basis of the outcome of its statements on time; None if it has none.
    repetition_seconds : mapping of str to float
        Computing time of one repetition of the rows that were used: of the serially timed ones for ``time``, of all for
        the other kinds.
    """

    claim: Claim
    outcome: Outcome
    sentence: str
    components: tuple[Component, ...] = ()
    kinds: Mapping[Group, Judgement] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    rows_digest: str = ""
    command: str = ""
    gaps: tuple[str, ...] = ()
    diagnoses: tuple[Diagnosis, ...] = ()
    needed: Need = NOTHING
    aside: Mapping[str, Sequence[Component]] = field(default_factory=dict)  # shown but not decisive, by the reason
    swings: tuple[Swing, ...] = ()
    level: float = LEVEL
    scope: str = ""
    reconstructed: "Verdict | None" = None
    basis: Basis | None = None
    repetition_seconds: Mapping[Kind, float] = field(default_factory=dict)
    methods: tuple[str, ...] = ()

    @property
    def seconds_needed(self) -> float:
        """Return the computing time of repetitions beyond those that were run; 0 for none, NaN if not recorded."""
        component, repetitions = self.needed
        if component is None or repetitions is None:
            return 0.0
        return max(0, repetitions - component.n) * self.repetition_seconds.get(component.kind, math.nan)

    @property
    def central(self) -> list[Component]:
        """Return the central statements."""
        return [component for component in self.components if component.part not in self.claim.side]

    @property
    def p_for(self) -> float:
        """Return the greatest corrected p-value for, over the kinds of central statements; NaN if not run."""
        return max((judged.p_for for group, judged in self.kinds.items() if group != "side"), default=math.nan)

    @property
    def p_against(self) -> float:
        """Return the least corrected p-value against, over the kinds of central statements; NaN if not run."""
        return min((judged.p_against for group, judged in self.kinds.items() if group != "side"), default=math.nan)

    @property
    def weakest(self) -> Component | None:
        """Return the deciding central statement: the clearest failure if the claim fails, else the least certain."""
        if not self.central:
            return None
        if self.outcome == "not supported":
            return min(self.central, key=clearness)
        return max(self.central, key=lambda c: c.p_for)

    def statement(self, component: Component) -> Outcome:
        """Return the outcome of one of the statements, at the level of its group; the group's follows from them."""
        if component.p_for <= min(self.level, component.p_against):
            return "supported"
        size = next(len(group) for group in grouped(self.claim, self.components).values() if component in group)
        return "not supported" if size * component.p_against <= self.level else "undecided"

    def count(self, components: Sequence[Component], *, joint: bool = False) -> str:
        """Return how many of some statements are supported, as ``5 of 6``: single ones, or joint tests of numbers."""
        counted = [component for component in components if (component.unit == TOGETHER) == joint]
        return f"{sum(self.statement(component) == 'supported' for component in counted)} of {len(counted)}"

    @property
    def tally(self) -> str:
        """Return how many statements are supported, how many central ones, and on what data; empty if not run."""
        if not self.kinds:
            return ""
        joint = [component for component in self.components if component.unit == TOGETHER]
        text = f"{self.count(self.components)} {'statement' if len(self.components) == 1 else 'statements'} supported"
        text += f", {self.count(self.central)} central" if "side" in self.kinds else ""
        text += f", {self.count(joint, joint=True)} joint tests" if joint else ""
        if untested := sorted({*self.claim.central} - {component.part for component in self.components}):
            text += f", no statement on the central part {', '.join(untested)}"
        return text + (f", {self.scope}" if self.scope else "")


def evidence(verdict: Verdict) -> list[tuple[Component, str]]:
    """Return the statements of a verdict, each with the reason why it does not count, or empty text if it counts."""
    uncounted = [(component, why) for why, components in verdict.aside.items() for component in components]
    return [*((component, "") for component in verdict.components), *uncounted]


def grouped(claim: Claim, components: Sequence[Component]) -> dict[Group, list[Component]]:
    """Return the central statements of each kind that occurs, and the side statements if there are any.

    Raises
    ------
    ValueError
        If a statement belongs to no declared part of the sentence.
    """
    for component in components:
        if component.part not in claim.central and component.part not in claim.side:
            raise ValueError(f"{claim.id} declares no part {component.part!r} for {component.label!r}")
    central = [component for component in components if component.part not in claim.side]
    groups: dict[Group, list[Component]] = {kind: [c for c in central if c.kind == kind] for kind in KINDS}
    groups["side"] = [component for component in components if component.part in claim.side]
    return {name: group for name, group in groups.items() if group}


def _p_values(claim: Claim, components: Sequence[Component]) -> dict[Group, tuple[float, float]]:
    return {name: conjunction(group) for name, group in grouped(claim, components).items()}


def grade(claim: Claim, outcomes: Mapping[Group, Outcome], components: Sequence[Component]) -> Outcome:
    """Return the outcome of a claim from the outcomes of its groups.

    Without a statement on some central part of the sentence, a claim can be refuted, but not supported.
    """
    central = [outcome for group, outcome in outcomes.items() if group != "side"]
    if "not supported" in central:
        return "not supported"
    complete = {*claim.central} <= {component.part for component in components}
    if not (complete and central and all(outcome == "supported" for outcome in central)):
        return "undecided"
    return "supported" if outcomes.get("side", "supported") == "supported" else "mostly supported"


def _grade(claim: Claim, kinds: Mapping[Group, Judgement], components: Sequence[Component]) -> Outcome:
    return grade(claim, {group: judged.outcome for group, judged in kinds.items()}, components)


def _found(claim: Claim, results: Results) -> tuple[Finding, dict[Group, tuple[float, float]]]:
    finding = claim.test(results)
    return replace(finding, sentence=typeset(finding.sentence)), _p_values(claim, finding.components)


def uncorrected(claim: Claim, results: Results) -> Verdict:
    """Test one claim on some rows, uncorrected, without saying what it rests on."""
    try:
        finding, pairs = attempt_part(partial(_found, claim), results, claim.test)
    except NotRunError as reason:
        return Verdict(claim, "not run", str(reason))
    kinds = {group: Judgement(decided(*pair), *pair) for group, pair in pairs.items()}
    return Verdict(
        claim,
        _grade(claim, kinds, finding.components),
        finding.sentence,
        tuple(finding.components),
        kinds,
        aside=dict(finding.aside),
    )


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
    verdict = replace(uncorrected(claim, recorder), command=rerun_command(claim), gaps=gaps(results, claim, datasets))
    if verdict.outcome == "not run":
        return verdict
    digested = ["study", "config_hash", "r", "repeat", "objective", "accuracy"]
    used = recorder.rows_read([*digested, "dataset", "reducer", "stand_in", "concurrency", *SECONDS])
    return replace(
        verdict,
        rows={str(name): int(count) for name, count in used["study"].value_counts(sort=False).items()},
        rows_digest=_digest(used[digested]) if len(used) else "",
        scope=_scope(claim, results, used),
        repetition_seconds={kind: _repetition_seconds(serial_rows(used) if kind == "time" else used) for kind in KINDS},
        methods=tuple(sorted(map(str, used["reducer"].unique()))),
    )


def _repetition_seconds(rows: pd.DataFrame) -> float:
    """Return the computing time of one repetition of each study in some rows; NaN without rows, as of facts."""
    if rows.empty:
        return math.nan
    studies = (of_study for _, of_study in rows.groupby("study"))
    return float(sum(computing_seconds(of_study) / of_study["repeat"].nunique() for of_study in studies))


def _scope(claim: Claim, results: Results, used: pd.DataFrame) -> str:
    """Return on how many of the datasets of its sentence a claim was judged; empty if on all."""
    real = set(used.loc[used["stand_in"] == "", "dataset"]) if len(used) else {*claim.scope}
    judged = [name for name in claim.scope if name in real and name not in results.missing]
    if len(judged) == len(claim.scope):
        return ""
    names = f" ({', '.join(map(dataset_label, judged))})" if judged else ""
    return f"on {len(judged)} of {len(claim.scope)} datasets{names}"


def mark_changed_protocol(verdict: Verdict, departures: Mapping[str, Departure]) -> Verdict:
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
    if not any(departure.settings for departure in read.values()):
        return replace(verdict, sentence=f"Rows: {changes}. {verdict.sentence}")
    return replace(
        verdict,
        outcome="changed",
        sentence=f"The protocol was changed, so no conclusion about the paper is possible: {changes}. With these "
        f"settings the uncorrected outcome would be {verdict.outcome}: {verdict.sentence}",
        kinds={},
    )


def judge(alone: Sequence[Verdict], diagnoses: Mapping[str, Sequence[Diagnosis]]) -> list[Verdict]:
    """Return the verdicts on all claims, corrected within each paper.

    The p-values of a paper's claims, one pair per kind and claim, are corrected together by
    `kmdr.analysis.significance.directional`.

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
        level = final_level([pair for of_claim in pairs.values() for pair in of_claim.values()])
        for verdict in of_paper:
            if verdict.outcome in ("not run", "changed"):
                verdicts.append(replace(verdict, diagnoses=tuple(diagnoses.get(verdict.claim.id, ()))))
                continue
            kinds = corrected[verdict.claim.id]
            final = _grade(verdict.claim, kinds, verdict.components)
            swings = tuple(_swings(verdict, pairs, final))
            verdicts.append(
                replace(
                    verdict,
                    outcome=final,
                    sentence=_first_line(swings) + verdict.sentence + _last_line(verdict, kinds, final, parts),
                    kinds=kinds,
                    diagnoses=tuple(diagnoses.get(verdict.claim.id, ())),
                    needed=needed(final, verdict.central, parts),
                    swings=swings,
                    level=level,
                )
            )
    others = [verdict.reconstructed for verdict in verdicts if verdict.reconstructed]
    if not others:
        return verdicts
    by_claim = {verdict.claim.id: verdict for verdict in judge(others, {})}
    return [replace(verdict, reconstructed=by_claim.get(verdict.claim.id)) for verdict in verdicts]


Pairs = Mapping[str, Mapping[Group, tuple[float, float]]]


def _corrected(pairs: Pairs) -> dict[str, dict[Group, Judgement]]:
    """Return the judgement on each group of each claim of a paper, corrected together."""
    adjusted = iter(directional([pair for of_claim in pairs.values() for pair in of_claim.values()]))
    judged = {id_: {kind: next(adjusted) for kind in of_claim} for id_, of_claim in pairs.items()}
    return {id_: {kind: Judgement(decided(*p), *p) for kind, p in kinds.items()} for id_, kinds in judged.items()}


# Number of margins over the drawn range, and of bisections of a change of outcome.
_STEPS, _HALVINGS = 40, 10


def _beyond(edge: float, margin: Margin, rounded: Callable[[float], int]) -> float:
    """Return an edge, or the nearest whole number beyond it if the margin is whole."""
    return rounded(edge) if isinstance(margin.value, int) else edge


def _swings(verdict: Verdict, pairs: Pairs, final: Outcome) -> Iterator[Swing]:
    """Yield the dependence of a verdict on each of its margins, everything else fixed."""
    margins = {part.margin.what: part.margin for part in verdict.components if part.margin is not None}
    for margin in margins.values():

        def outcome_at(value: float, what: str = margin.what) -> Outcome:
            moved = [
                retest(part, value) if part.margin and part.margin.what == what else part for part in verdict.components
            ]
            kinds = _corrected({**pairs, verdict.claim.id: _p_values(verdict.claim, moved)})[verdict.claim.id]
            return _grade(verdict.claim, kinds, moved)

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
            math.nan
            if down is None
            else _beyond(_edge(values[down + 1], values[down], outcome_at, final), margin, math.floor),
            math.nan
            if up is None
            else _beyond(_edge(values[up], values[up + 1], outcome_at, final), margin, math.ceil),
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


def _last_line(verdict: Verdict, kinds: Mapping[Group, Judgement], final: Outcome, parts: int) -> str:
    """Return the note on the effect of the correction."""
    if final == verdict.outcome:
        return ""
    changed = [judged for group, judged in verdict.kinds.items() if judged.outcome != kinds[group].outcome]
    p = min(min(judged.p_for, judged.p_against) for judged in changed)
    why = f"the correction is for the {parts} tests of the paper"
    return f" Uncorrected it would be {verdict.outcome} (p = {p:.2g}); {why}."


def _first_line(swings: Sequence[Swing]) -> str:
    """Return the margins that a verdict depends on, with the values at which it would change."""
    texts = [
        f"{swing.margin.what} ({swing.margin:g}; {swing.otherwise(swing.nearest)} at {swing.nearest:.2g})"
        for swing in swings
        if not math.isnan(swing.nearest)
    ]
    return f"The verdict depends on our margin{'s' * (len(texts) > 1)}, {'; '.join(texts)}. " if texts else ""
