"""The opening of a report: in plain words what holds, what does not and why, and what these rows cannot tell."""

from collections.abc import Sequence
from dataclasses import dataclass

from kmdr.analysis.statistics import Kind
from kmdr.base.text import format_number
from kmdr.claims.draws import TOGETHER
from kmdr.claims.effects import SUPPORTED
from kmdr.claims.verdicts import Verdict

# What fails of a claim of each kind, with places for how many of how many.
FAILS: dict[Kind, str] = {
    "number": "{fail} of {all} reported values are not what the procedure gives here as it is described",
    "statement": "{fail} of {all} comparisons go the other way",
    "time": "{fail} of {all} comparisons of time go the other way with this implementation on this machine",
}
HOLDS: dict[Kind, str] = {
    "number": "its numbers are plausible", "statement": "what it says of F and P holds", "time": "its times hold",
}  # fmt: skip


@dataclass(frozen=True)
class Line:
    """A claim with what is said of it in a sentence.

    Attributes
    ----------
    verdict : Verdict
    why : str
        Why it is not supported, or not decided; empty for one that is.
    """

    verdict: Verdict
    why: str


@dataclass(frozen=True)
class Opening:
    """What a report begins with; each part has its lines in the order of the papers.

    Attributes
    ----------
    holds, fails, undecided, not_run : list of Line
        Not run are those, too, whose rows are of a changed protocol.
    """

    holds: list[Line]
    fails: list[Line]
    undecided: list[Line]
    not_run: list[Line]


def opening(verdicts: Sequence[Verdict]) -> Opening:
    """Sort verdicts by outcome, and say in a sentence why each is not what the paper says."""

    def lines(*outcomes: str) -> list[Line]:
        return [Line(verdict, _why(verdict)) for verdict in verdicts if verdict.outcome in outcomes]

    return Opening(lines(*SUPPORTED), lines("not supported"), lines("undecided"), lines("not run", "changed"))


def _why(verdict: Verdict) -> str:
    if verdict.outcome in ("not run", "changed"):
        return verdict.sentence
    if verdict.outcome == "mostly supported":
        return f"mostly: {verdict.tally}"
    central = {kind: judged.outcome for kind, judged in verdict.kinds.items() if kind != "side"}
    parts = [_failing(verdict, kind) for kind, outcome in central.items() if outcome == "not supported"]
    parts += [_open(verdict, kind) for kind, outcome in central.items() if outcome == "undecided"]
    if parts:
        parts += [HOLDS[kind] for kind, outcome in central.items() if outcome == "supported"]
    turned = [
        each.change
        for each in verdict.diagnoses
        if each.before == verdict.outcome and each.after in SUPPORTED and verdict.outcome not in SUPPORTED
    ]
    if turned:
        parts.append(f"it holds once a choice that is left open is made otherwise ({'; '.join(turned)})")
    return "; ".join(parts)


def _failing(verdict: Verdict, kind: Kind) -> str:
    components = [component for component in verdict.central if component.kind == kind and component.unit != TOGETHER]
    components = components or [component for component in verdict.central if component.kind == kind]
    failing = [component for component in components if verdict.statement(component) == "not supported"]
    clearest = min(components, key=lambda component: component.p_against)
    if len(components) == 1:
        return f"{clearest.label}: it is {format_number(clearest.effect, '.3g')}".replace("-", "−")
    text = FAILS[kind].format(fail=max(1, len(failing)), all=len(components))
    return f"{text}, most clearly {clearest.label} ({format_number(clearest.effect, '.3g')})".replace("(-", "(−")


def _open(verdict: Verdict, kind: Kind) -> str:
    needed = verdict.needed
    text = {"number": "its numbers", "statement": "what it says of F and P", "time": "its times"}[kind]
    if needed.component is not None and needed.component.kind == kind and needed.repetitions:
        return f"{text} would take about {needed.repetitions} repetitions, of which there are {needed.component.n}"
    return f"{text} cannot be decided by such rows"
