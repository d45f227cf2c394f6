"""The tables of the atlas in its results folder: effects, average ranks, tests and mean trade-offs, with checksums.

They lie in ``facts`` of the folder, where ``kmdr check`` compares them with their checksums::

    OUT/atlas/facts/effects.csv      see `kmdr.atlas.effects.effects`
    OUT/atlas/facts/ranks.csv        average rank of each method in each ranking
    OUT/atlas/facts/outcomes.csv     the test of each ranking, its winner, and what it omits
    OUT/atlas/facts/tradeoffs.csv    mean time and loss of each method at each multiple of k
    OUT/atlas/facts/explained.csv    traits that explain losses, if the folder has ``facts/traits.csv``

Numbers have `DIGITS` significant digits, which keeps the files small; nothing is computed from the rounded numbers.
"""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from kmdr.atlas.effects import effects
from kmdr.atlas.explanation import explain
from kmdr.atlas.ranking import ALL_FORMS, outcomes_table, pareto_over_datasets, rankings, ranks_table
from kmdr.base.text import short_hash
from kmdr.results.checksums import write_table
from kmdr.results.csv_lines import table_bytes
from kmdr.results.reader import fact_of
from kmdr.results.table import rows_file, rows_of, table_digest

DIGITS = 8


def tables_of(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the tables of some rows of the atlas by name."""
    of_methods = effects(rows)
    several = rankings(of_methods)
    forms = [ALL_FORMS, *sorted(of_methods["form"].unique())]
    tradeoffs = [pareto_over_datasets(of_methods, form).assign(form=form) for form in forms]
    return {
        "effects": of_methods,
        "ranks": ranks_table(several),
        "outcomes": outcomes_table(several),
        "tradeoffs": pd.concat(tradeoffs, ignore_index=True),
    }


def csv_bytes(table: pd.DataFrame) -> bytes:
    """Return a table as CSV with `DIGITS` significant digits."""
    return table_bytes(table, f"%.{DIGITS}g")


def write(folder: Path) -> Mapping[str, pd.DataFrame]:
    """Compute the tables of a folder's rows, write those that changed, and return them by name."""
    tables = tables_of(rows_of(folder))
    traits = fact_of(folder / "facts", "traits")
    if traits is not None:
        tables["explained"] = explain(tables["effects"], traits)
    made_from = short_hash(table_digest(rows_file(folder)))
    for name, table in tables.items():
        write_table(folder, f"facts/{name}.csv", csv_bytes(table), made_from)
    return tables
