"""Facts: tables that are computed from datasets once, and stored with the rows."""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path

from kmdr.analysis.results import NotRunError, Results, attempt
from kmdr.analysis.untrusted import contents
from kmdr.claims.catalogue import Claim, Item, claims, items, papers
from kmdr.datasets import availability, load
from kmdr.files import note_of, write_atomically
from kmdr.run.provenance import code_version
from kmdr.run.task import short_hash


def write_facts(
    folder: Path, wanted: Collection[str] | None = None, tell: Callable[[str], None] = lambda _: None
) -> None:
    """Compute the facts whose data are prepared and that are not in a folder yet, or were made from other data or rows.

    Parameters
    ----------
    folder : Path
        Of the results; facts go to ``folder/facts``, each with a note of what it was made from and of its SHA-256.
    wanted : collection of str, optional
        Names of studies: only the facts that items and claims read together with one of them.
    tell : callable
        Gets the name of each fact before it is made.
    """
    results = Results.of_folder(folder)
    readers: Sequence[Item | Claim] = [*items(), *claims()]
    needed = {
        name for reader in readers if wanted is None or set(reader.studies) & set(wanted) for name in reader.facts
    }
    for fact in sorted((fact for paper in papers() for fact in paper.facts), key=lambda fact: fact.name):
        if wanted is not None and fact.name not in needed:
            continue
        if any(availability(name).state != "prepared" for name in fact.datasets):
            continue  # a report gets no data: what could be had was prepared when the rows were run
        try:
            rows = results.rows(fact.studies) if fact.studies else results.all_rows.iloc[:0]
        except NotRunError:
            continue
        values = rows[["study", "dataset", "reducer", "params", "r", "repeat", "objective"]].astype(str)
        data = [load(name) for name in fact.datasets]
        made_from = short_hash([code_version(), [dataset.data_sha256 for dataset in data], values.to_numpy().tolist()])
        file, stamp = folder / "facts" / f"{fact.name}.csv", folder / "facts" / f"{fact.name}.from"
        content, note = (contents(folder, f"facts/{fact.name}.{kind}") for kind in ("csv", "from"))
        if content is not None and note == note_of(made_from, content):
            continue
        tell(fact.name)
        try:
            table = attempt(partial(fact.make, data), results)
        except NotRunError:  # e.g. no repetition of the kind to be shown
            continue
        content = table.to_csv(index=False, lineterminator="\n").encode()
        write_atomically(stamp, note_of(made_from, content))
        write_atomically(file, content)
