"""The opening of a report: supported, unsupported and undecided claims, with the reasons in words."""

from collections.abc import Sequence
from dataclasses import dataclass

from kmdr.analysis.statistics import Kind
from kmdr.base.text import format_number
from kmdr.claims.draws import TOGETHER
from kmdr.claims.effects import SUPPORTED
from kmdr.claims.verdicts import Verdict

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


@dataclass(frozen=True)
class Line:
    """A verdict, and the reason why it is not "supported" (else empty), in words."""

    verdict: Verdict
    why: str


@dataclass(frozen=True)
class Opening:
    """Verdicts by outcome, in the order of the papers; ``not_run`` includes rows of a changed protocol."""

    holds: list[Line]
    fails: list[Line]
    undecided: list[Line]
    not_run: list[Line]


def opening(verdicts: Sequence[Verdict]) -> Opening:
    """Return verdicts by outcome, with the reason for each that does not support the paper."""

    def lines(*outcomes: str) -> list[Line]:
        return [Line(verdict, _reason(verdict)) for verdict in verdicts if verdict.outcome in outcomes]

    return Opening(lines(*SUPPORTED), lines("not supported"), lines("undecided"), lines("not run", "changed"))


def _reason(verdict: Verdict) -> str:
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
    clearest = min(components, key=lambda component: component.p_against)
    if len(components) == 1:
        return f"{clearest.label}: the effect is {format_number(clearest.effect, '.3g')}".replace("-", "−")
    text = FAILS[kind].format(fail=max(1, len(failing)), all=len(components))
    return f"{text}, most clearly {clearest.label} ({format_number(clearest.effect, '.3g')})".replace("(-", "(−")


def _undecided(verdict: Verdict, kind: Kind) -> str:
    needed = verdict.needed
    texts = {"number": "its numbers", "statement": "its statements on F and P", "time": "its statements on time"}
    if needed.component is not None and needed.component.kind == kind and needed.repetitions:
        return f"{texts[kind]} need about {needed.repetitions} repetitions; this run has {needed.component.n}"
    return f"{texts[kind]} are undecided at this number of repetitions"
