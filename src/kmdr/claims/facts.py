"""Facts: tables that are computed from datasets once, and stored with the rows."""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from kmdr.analysis.results import NotRunError, Results, attempt
from kmdr.base.files import DamagedError, note_of
from kmdr.base.identity import code_hash
from kmdr.base.plugins import PaperFolder, origin_of
from kmdr.base.text import short_hash
from kmdr.claims.catalogue import Claim, Item, claims, items, papers
from kmdr.config.task import current_code
from kmdr.datasets import availability, load
from kmdr.results.folder import read_file, write_file
from kmdr.results.json_files import plan_of, read_or_note


def _code(paper: PaperFolder, rows: pd.DataFrame) -> list[str]:
    """Return hashes of the code that computes a paper's facts of some rows, whose draws they may repeat."""
    module = f"{paper.package}.facts"
    drawn = rows[["reducer", "engine", "dataset", "options"]].astype(object).fillna("").drop_duplicates()
    codes = {current_code(*map(str, columns)) for columns in drawn.itertuples(index=False)}
    return [code_hash(module), origin_of(module), *sorted(codes)]


def write_facts(
    folder: Path,
    results: Results,
    wanted: Collection[str] | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> None:
    """Compute the facts whose data are prepared and that a folder lacks or has of other data, other rows or other code.

    Those that are slow are left out where the rows are of a thinned grid.

    Parameters
    ----------
    folder : Path
        Facts go to ``folder/facts``, each with a note of what it was made from and of its SHA-256.
    results : Results
        Of that folder.
    wanted : collection of str, optional
        Names of studies: only the facts that items and claims read together with one of them.
    tell : callable
        Gets the name of each fact before it is made.
    """
    readers: Sequence[Item | Claim] = [*items(), *claims()]
    needed = {
        name for reader in readers if wanted is None or set(reader.studies) & set(wanted) for name in reader.facts
    }
    in_haste = bool(read_or_note(plan_of, folder, []).get("thinned_grid"))
    facts = [(fact, paper.folder) for paper in papers() for fact in paper.facts if not (fact.slow and in_haste)]
    for fact, paper in sorted(facts, key=lambda pair: pair[0].name):
        if wanted is not None and fact.name not in needed:
            continue
        if any(availability(name).state != "prepared" for name in fact.datasets):
            continue  # a report gets no data: what could be had was prepared when the rows were run
        try:
            rows = results.rows(fact.studies, mixed=True) if fact.studies else results.all_rows.iloc[:0]
        except NotRunError:
            continue
        values = rows[["study", "dataset", "reducer", "params", "r", "repeat", "objective"]].astype(str)
        data = [load(name) for name in fact.datasets]
        made_from = short_hash(
            [_code(paper, rows), [dataset.data_sha256 for dataset in data], values.to_numpy().tolist()]
        )
        file, stamp = folder / "facts" / f"{fact.name}.csv", folder / "facts" / f"{fact.name}.from"
        try:
            content, note = (read_file(folder, f"facts/{fact.name}.{kind}") for kind in ("csv", "from"))
        except DamagedError:  # what reads it says so
            continue
        if content is not None and note == note_of(made_from, content):
            continue
        tell(fact.name)
        try:
            table = attempt(partial(fact.make, data), results)
        except NotRunError:  # e.g. no repetition of the kind to be shown
            continue
        content = table.to_csv(index=False, lineterminator="\n").encode()
        write_file(folder, stamp, note_of(made_from, content))
        write_file(folder, file, content)
