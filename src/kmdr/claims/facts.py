"""Facts: tables computed once from datasets, and stored with the rows."""

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
from kmdr.results.reader import plan_of, read_or_note


def _code(paper: PaperFolder, rows: pd.DataFrame) -> list[str]:
    """Return hashes of the code that computes a paper's facts and of the code behind the rows that they repeat."""
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
    """Compute the facts whose datasets are prepared and that a folder lacks or has from other data, rows or code.

    Slow facts are omitted if the rows are of a thinned grid.

    Parameters
    ----------
    folder : Path
        Facts go to ``folder/facts``, each with a file that records its inputs and its SHA-256.
    results : Results
        Of that folder.
    wanted : collection of str, optional
        Names of studies: compute only facts that items and claims read together with one of them.
    tell : callable
        Called with the name of each fact before it is computed.
    """
    readers: Sequence[Item | Claim] = [*items(), *claims()]
    needed = {
        name for reader in readers if wanted is None or set(reader.studies) & set(wanted) for name in reader.facts
    }
    is_thinned = bool(read_or_note(plan_of, folder, []).get("thinned_grid"))
    facts = [(fact, paper.folder) for paper in papers() for fact in paper.facts if not (fact.slow and is_thinned)]
    for fact, paper in sorted(facts, key=lambda pair: pair[0].name):
        if wanted is not None and fact.name not in needed:
            continue
        if any(availability(name).state != "prepared" for name in fact.datasets):
            continue  # this never downloads: available data were prepared when the rows were run
        try:
            rows = results.rows(fact.studies, mixed=True) if fact.studies else results.all_rows.iloc[:0]
        except NotRunError:
            continue
        values = rows[["study", "dataset", "reducer", "params", "r", "repeat", "objective"]].astype(str)
        data = [load(name) for name in fact.datasets]
        made_from = short_hash(
            [_code(paper, rows), [dataset.data_sha256 for dataset in data], values.to_numpy().tolist()]
        )
        file, origin_file = folder / "facts" / f"{fact.name}.csv", folder / "facts" / f"{fact.name}.from"
        try:
            content, note = (read_file(folder, f"facts/{fact.name}.{kind}") for kind in ("csv", "from"))
        except DamagedError:  # reported when it is read
            continue
        if content is not None and note == note_of(made_from, content):
            continue
        tell(fact.name)
        try:
            table = attempt(partial(fact.make, data), results)
        except NotRunError:  # e.g. no repetition of the kind that the fact shows
            continue
        content = table.to_csv(index=False, lineterminator="\n").encode()
        write_file(folder, origin_file, note_of(made_from, content))
        write_file(folder, file, content)
