"""Facts of the papers as tasks: which of them a folder's rows call for, and what each is computed from."""

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from kmdr.analysis.results import NotRunError, Results, attempt
from kmdr.base.errors import UserError, raised_by, shown
from kmdr.base.files import StorageError
from kmdr.base.identity import code_hash, is_own
from kmdr.base.plugins import PaperFolder, origin_of
from kmdr.base.signals import is_interrupt
from kmdr.claims.catalogue import Claim, Fact, Item, Paper, claims, items, papers
from kmdr.config.task import current_code
from kmdr.datasets import Dataset
from kmdr.harness.facts import FactTask
from kmdr.results.json_files import plan_of, read_or_note


def fact_tasks(folder: Path, studies: Collection[str] | None = None) -> Iterator[FactTask]:
    """Yield the facts of each paper whose rows a folder has; without the slow ones if its rows have a thinned grid.

    Parameters
    ----------
    studies : collection of str, optional
        Yield only facts of these studies, or that items and claims read together with one of them.
    """
    results = Results.from_folder(folder)
    readers: Sequence[Item | Claim] = [*items(), *claims()]
    read = {name for reader in readers if set(reader.studies) & set(studies or ()) for name in reader.facts}
    thinned = bool(read_or_note(plan_of, folder, []).get("thinned_grid"))
    facts = [
        (fact, paper.folder)
        for paper in papers()
        if not (of_paper := _studies(paper)) or of_paper & results.studies
        for fact in paper.facts
        if not (fact.slow and thinned)
    ]
    for fact, paper in sorted(facts, key=lambda pair: pair[0].name):
        if studies is not None and fact.name not in read and not set(fact.studies) & set(studies):
            continue
        try:
            rows = results.rows(fact.studies, mixed=True) if fact.studies else results.all_rows.iloc[:0]
        except NotRunError:
            continue
        values = rows[["study", "dataset", "reducer", "params", "r", "repeat", "objective"]].astype(str)
        compute = partial(_compute, fact, results)
        yield FactTask(fact.name, fact.datasets, _code(paper, rows), values.to_numpy().tolist(), compute)


def _studies(paper: Paper) -> set[str]:
    """Return the studies that a paper's items and claims read; empty for a paper that rests on facts alone."""
    readers: Sequence[Item | Claim] = [*paper.items, *paper.claims]
    return {name for reader in readers for name in reader.studies}


def _code(paper: PaperFolder, rows: pd.DataFrame) -> list[str]:
    """Return hashes of the code that computes a paper's facts of some rows, whose random draws they may repeat."""
    module = f"{paper.package}.facts"
    drawn = rows[["reducer", "engine", "dataset", "options"]].astype(object).fillna("").drop_duplicates()
    codes = {current_code(*map(str, columns)) for columns in drawn.itertuples(index=False)}
    return [code_hash(module), origin_of(module), *sorted(codes)]


def _compute(fact: Fact, results: Results, datasets: Sequence[Dataset]) -> pd.DataFrame | None:
    """Return a fact's table, or None if the rows do not allow it; raise a UserError for any error of a plugin's."""
    make = partial(fact.make, datasets)
    try:
        if is_own(fact.make.__module__):
            return attempt(make, results)
        table = make(results)
    except NotRunError:
        return None
    except BaseException as error:  # whatever a plugin's function raises
        if is_own(fact.make.__module__) or is_interrupt(error) or isinstance(error, UserError | StorageError):
            raise
        raise UserError(f"{raised_by(error)} raised {type(error).__name__}: {error}; correct it") from error
    if not isinstance(table, pd.DataFrame):
        raise UserError(f"its function returned {shown(table)}, not a DataFrame; return one")
    return table
