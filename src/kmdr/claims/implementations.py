"""The basis of the outcome of a claim on time: the methods, the implementation, or the hardware.

Studies of the entry `SPEED` time the methods of a claim with other implementations, such as scikit-learn's k-means and
LAPACK's SVD. The claim's test is repeated with their rows alone; for statements that these do not measure, ours are
taken. A paper may name further studies for its claims (``[[implementations]]`` in ``paper.toml``). If the rows were
timed on several machines, it is repeated on each.

Other implementations replace some methods only, because no library here has Laplacian scores, for example. A statement
is *replaced* if the code that takes most of each of its times is another one.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pandas as pd

from kmdr.analysis.results import NotRunError, Results
from kmdr.analysis.rows import serial_rows
from kmdr.analysis.significance import LEVEL
from kmdr.analysis.statistics import Component
from kmdr.claims.catalogue import Claim, papers
from kmdr.claims.effects import outcome
from kmdr.claims.register import SPEED, Flip, flipped, named_as_base, rows_of_methods
from kmdr.claims.verdicts import Basis, OtherTimes, RestsOn, Verdict, uncorrected
from kmdr.figures.panels import dataset_label

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
    if any(_decides(other, ours, other.replaced) for other in others):
        return "methods"
    return "methods in part" if any(_decides(other, ours, {*other.components}) for other in others) else "not measured"


def _decides(other: OtherTimes, ours: Sequence[Component], measured: Collection[str]) -> bool:
    """Return True if the statements that decide an outcome are among the measured ones, and decide it there."""
    if other.outcome != outcome(ours):
        return False
    if outcome(ours) == "supported":
        return {component.label for component in ours} <= {*measured}
    failing = (component.label for component in ours if len(ours) * component.p_against <= LEVEL)
    return any(label in measured and other.components[label].p_against <= LEVEL for label in failing)


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
        theirs = results.rows(flip.study, mixed=True)
        theirs = theirs.assign(code=theirs["reducer"].astype(str) + theirs["params"].astype(str))
        theirs = named_as_base(theirs, flip)
        timed = rows_of_methods(timed, theirs)
        touched = (*claim.studies, *flip.base, flip.study)
        replaced = _without_times_of_same_code(timed, theirs, results.rows(flip.base, mixed=True))
        in_full = {
            label
            for measured in _measure_times(claim, results.replaced(replaced, touched), "", about)
            for label in measured.components
        }
        for other in _measure_times(claim, results.replaced(timed, touched), _describe(flip), about):
            yield other._replace(replaced=frozenset(in_full))


def _without_times_of_same_code(timed: pd.DataFrame, theirs: pd.DataFrame, base: pd.DataFrame) -> pd.DataFrame:
    """Return rows with another implementation without the times of steps, and totals of mostly steps, of the same code.

    Parameters
    ----------
    theirs : DataFrame
        The rows of the study under the names of the base, with the reducer and parameters that ran in column ``code``.
    base : DataFrame
        The rows that they replace.
    """
    steps = {"code": ["prepare_seconds", "reduce_seconds"], "engine": ["cluster_seconds"]}
    base = base.assign(code=base["reducer"].astype(str) + base["params"].astype(str))
    result = timed.copy()
    for (dataset, reducer), rows in theirs.groupby(["dataset", "reducer"], observed=True):
        ours = base[(base["dataset"] == dataset) & (base["reducer"] == reducer)]
        reduction = rows[["prepare_seconds", "reduce_seconds"]].fillna(0).sum(axis=1).median()
        most = "code" if reduction > rows["cluster_seconds"].median() else "engine"
        kept = [what for what in ("code", "engine") if {*rows[what].astype(str)} & {*ours[what].astype(str)}]
        columns = [column for what in kept for column in steps[what]] + ["total_seconds"] * (most in kept)
        result.loc[(result["dataset"] == dataset) & (result["reducer"] == reducer), columns] = math.nan
    return result


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
