"""The basis of the outcome of a claim on time: the methods, the implementation, or the hardware.

Studies of the entry `SPEED` time the methods of a claim with other implementations, such as scikit-learn's k-means and
LAPACK's SVD. The claim's test is repeated with their rows alone; for statements that these do not measure, ours are
taken. A paper may name further studies for its claims (``[[implementations]]`` in ``paper.toml``). If the rows were
timed on several machines, it is repeated on each.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from kmdr.analysis.results import NotRunError, Results
from kmdr.analysis.rows import serial_rows
from kmdr.analysis.significance import LEVEL
from kmdr.analysis.statistics import Component
from kmdr.claims.catalogue import Claim, papers
from kmdr.claims.effects import outcome
from kmdr.claims.register import Flip, flipped
from kmdr.claims.verdicts import Basis, OtherTimes, RestsOn, Verdict, uncorrected
from kmdr.figures.panels import dataset_label

SPEED = "speed"
_SECONDS = ("s", "seconds")
_OPEN = {"undecided"}


def central_times(claim: Claim, components: Sequence[Component]) -> list[Component]:
    """Return the central statements on time."""
    return [component for component in components if component.kind == "time" and component.part not in claim.side]


def basis_of(verdict: Verdict, results: Results, flips: Sequence[Flip]) -> Basis | None:
    """Return what the outcome of a claim's statements on time rests on; None if it has none.

    Parameters
    ----------
    verdict : Verdict
        From `kmdr.claims.verdicts.verdict_on`.
    flips : sequence of Flip
        Of all studies.
    """
    ours = central_times(verdict.claim, verdict.components)
    if not ours:
        return None
    others = tuple(
        other._replace(outcome=outcome([other.components.get(c.label, c) for c in ours]))
        for other in _measure_implementations(verdict.claim, results, flips)
    )
    machines = tuple(_measure_machines(verdict.claim, results))
    return Basis(_rests_on(ours, others, machines), others + machines)


def times_by_other_code(verdict: Verdict, component: Component) -> dict[str, Any]:
    """Return the columns of a statement on time with another implementation; empty ones if there is none."""
    others = verdict.basis.others if verdict.basis and component.kind == "time" else ()
    what, other = next(
        ((other.what, other.components[component.label]) for other in others if component.label in other.components),
        ("", None),
    )
    ends = {f"other_{name}": getattr(other, name) if other else math.nan for name in ("effect", "low", "high", "n")}
    return {"other_implementation": what, **ends}


def _rests_on(ours: Sequence[Component], others: Sequence[OtherTimes], machines: Sequence[OtherTimes]) -> RestsOn:
    """Return what an outcome rests on; an undecided one with another implementation shows nothing."""
    if all(component.unit in _SECONDS for component in ours) or len({m.outcome for m in machines} - _OPEN) > 1:
        return "hardware"
    if any(other.outcome not in {*_OPEN, outcome(ours)} for other in others):
        return "implementation"
    return "methods" if any(_decides(other, ours) for other in others) else "not measured"


def _decides(other: OtherTimes, ours: Sequence[Component]) -> bool:
    """Return True if the statements that decide an outcome were measured with another implementation, and do there."""
    if other.outcome != outcome(ours):
        return False
    if outcome(ours) == "supported":
        return {component.label for component in ours} <= {*other.components}
    failing = (component.label for component in ours if len(ours) * component.p_against <= LEVEL)
    return any(label in other.components and other.components[label].p_against <= LEVEL for label in failing)


def _measure_implementations(claim: Claim, results: Results, flips: Sequence[Flip]) -> Iterator[OtherTimes]:
    known = {flip.study: flip for flip in flips}
    sources = [(flip, "") for flip in flips if flip.entry == SPEED and claim.id in flip.claims]
    for named in (named for paper in papers() for named in paper.implementations if named.claim == claim.id):
        if named.study in known:
            title = known[named.study].title
            flip = Flip(named.study, title, SPEED, named.base, (claim.id,), named.datasets, named.reducers)
            sources.append((flip, named.about))
    for flip, about in sources:
        try:
            _, after = flipped(results, flip)
        except NotRunError:
            continue
        timed = after.rows(flip.base, mixed=True)
        other = results.rows(flip.study, mixed=True)[["dataset", "reducer"]]
        other = other.replace({"dataset": dict(flip.datasets), "reducer": dict(flip.reducers)}).drop_duplicates()
        timed = timed.merge(other, on=["dataset", "reducer"])
        only_theirs = results.replaced(timed, (*claim.studies, *flip.base, flip.study))
        yield from _measure_times(claim, only_theirs, _describe(flip), about)


def _describe(flip: Flip) -> str:
    """Return the title of a flip, and what stands for what in it; of an import path, the class."""
    datasets = (f"{dataset_label(new)} stands for {dataset_label(old)}" for new, old in flip.datasets.items())
    reducers = (f"{new.rpartition('.')[2]} stands for {old}" for new, old in flip.reducers.items())
    return "; ".join([flip.title, *datasets, *reducers])


def _measure_machines(claim: Claim, results: Results) -> Iterator[OtherTimes]:
    try:
        rows = results.rows(claim.studies, mixed=True)
    except NotRunError:  # a claim that reads facts alone
        return
    timed = serial_rows(rows)["machine"]
    for machine in timed.unique() if timed.nunique() > 1 else ():
        of_machine = rows[(rows["machine"] == machine) | ~rows.index.isin(timed.index)]
        yield from _measure_times(claim, results.replaced(of_machine, claim.studies), f"machine {machine}", "")


def _measure_times(claim: Claim, results: Results, what: str, about: str) -> Iterator[OtherTimes]:
    """Yield the statements on time on other rows, if there are any; those whose labels have a text, if one is given."""
    verdict = uncorrected(claim, results)
    times = [part for part in verdict.components if part.kind == "time" and about in part.label]
    if central := central_times(claim, times):
        yield OtherTimes(what, outcome(central), {part.label: part for part in times})
