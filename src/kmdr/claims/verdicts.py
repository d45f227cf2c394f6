"""Verdicts: what the rows say of each claim, corrected for the number of claims of its paper."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from kmdr.analysis.results import NotRunError, Recorder, Results, attempt
from kmdr.analysis.statistics import Component, conjunction, directional
from kmdr.claims.catalogue import Claim, Finding, gaps, rerun_command
from kmdr.claims.effects import Outcome, decided
from kmdr.claims.repetitions import NOTHING, Need, needed
from kmdr.run.task import short_hash


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


@dataclass(frozen=True)
class Verdict:
    """The outcome of one claim.

    Attributes
    ----------
    claim : Claim
    outcome : {"reproduced", "not reproduced", "inconclusive", "not run"}
    sentence : str
        The explanation; for "not run" the reason.
    components, aside : tuple of Component
        What decides, and what is shown beside it, of data that stand in.
    p_for, p_against : float
        Of all components together, corrected within the paper by `directional`; NaN when not run.
    rows : mapping of str to int
        How many rows of each study were used.
    rows_digest : str
        Hash of the identity and values of those rows.
    command : str
        What reruns it.
    gaps : tuple of str
        Datasets that the claim speaks of and that could not be had, with the reason.
    diagnoses : tuple of Diagnosis
    needed : Need
        Repetitions that it takes to decide the claim.
    """

    claim: Claim
    outcome: Outcome
    sentence: str
    components: tuple[Component, ...] = ()
    p_for: float = float("nan")
    p_against: float = float("nan")
    rows: Mapping[str, int] = field(default_factory=dict)
    rows_digest: str = ""
    command: str = ""
    gaps: tuple[str, ...] = ()
    diagnoses: tuple[Diagnosis, ...] = ()
    needed: Need = NOTHING
    aside: tuple[Component, ...] = ()

    @property
    def weakest(self) -> Component | None:
        """The component that decides: against the claim where it fails, else the least certain."""
        if not self.components:
            return None
        if self.outcome == "not reproduced":
            return min(self.components, key=lambda c: c.p_against)
        return max(self.components, key=lambda c: c.p_for)


def _found(claim: Claim, results: Results) -> tuple[Finding, tuple[float, float]]:
    finding = claim.test(results)
    return finding, conjunction(finding.components)


def verdict_on(claim: Claim, results: Results, datasets: Mapping[str, Sequence[str]]) -> Verdict:
    """Test one claim, uncorrected.

    Parameters
    ----------
    claim : Claim
    results : Results
    datasets : mapping
        Those of each study, to tell which of them are missing.
    """
    recorder = Recorder(results)
    missing = gaps(results, claim, datasets)
    command = rerun_command(claim)
    try:
        finding, (p_for, p_against) = attempt(partial(_found, claim), recorder)
    except NotRunError as reason:
        return Verdict(claim, "not run", str(reason), command=command, gaps=missing)
    used = recorder.rows_read()
    identity = used[["study", "config_hash", "r", "repeat", "objective", "accuracy"]].astype(str)
    return Verdict(
        claim,
        decided(p_for, p_against),
        _minus(finding.sentence),
        tuple(finding.components),
        p_for,
        p_against,
        {str(name): int(count) for name, count in used["study"].value_counts(sort=False).items()},
        short_hash(identity.to_numpy().tolist()) if len(used) else "",
        command,
        missing,
        aside=tuple(finding.aside),
    )


def judge(alone: Sequence[Verdict], diagnoses: Mapping[str, Sequence[Diagnosis]]) -> list[Verdict]:
    """Return the verdicts on all claims, each of which was tested.

    The p-values of a paper's claims are corrected together, by `kmdr.analysis.statistics.directional`.

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
        ran = [verdict for verdict in of_paper if verdict.outcome != "not run"]
        adjusted = directional([(verdict.p_for, verdict.p_against) for verdict in ran])
        corrected = {verdict.claim.id: pair for verdict, pair in zip(ran, adjusted, strict=True)}
        for verdict in of_paper:
            if verdict.claim.id in corrected:
                p_for, p_against = corrected[verdict.claim.id]
            else:
                p_for = p_against = float("nan")
            final = verdict.outcome if verdict.outcome == "not run" else decided(p_for, p_against)
            verdicts.append(
                replace(
                    verdict,
                    outcome=final,
                    p_for=p_for,
                    p_against=p_against,
                    diagnoses=tuple(diagnoses.get(verdict.claim.id, ())),
                    needed=needed(final, verdict.components, len(ran)),
                )
            )
    return verdicts


def _minus(text: str) -> str:
    """Return a text with minus signs before numbers, where formatting has put hyphens."""
    return re.sub(r"(?<![\w.−-])-(?=\d)", "−", text)


def uncorrected(claim: Claim, results: Results) -> tuple[Outcome, Finding | None, str]:
    """Return outcome, finding and explanation of one claim on some rows, without correction."""
    try:
        finding, p_values = attempt(partial(_found, claim), results)
    except NotRunError as reason:
        return "not run", None, str(reason)
    return decided(*p_values), finding, _minus(finding.sentence)
