"""The data dictionary of ``rows.csv``: ``python -m kmdr.results.dictionary`` writes the page ``results/README.md``."""

import argparse

from kmdr.base.paths import CHECKOUT
from kmdr.results.schema import COLUMNS, NUMBERS, VALUES, WHOLE_NUMBERS

README = CHECKOUT / "results" / "README.md"
_HEAD = """# Columns of rows.csv

A row is a trial: a dataset, a method that reduces it to r dimensions, and a repetition. The table of a results folder
is `rows.csv`, or compressed `rows.csv.xz`: UTF-8, commas, one header, numbers in full precision. Values are empty if
the trial failed, the data have no classes, or nothing was measured. Tables of older versions may lack columns. This
page is written by `python -m kmdr.results.dictionary`.

"""


def type_of(column: str) -> str:
    """Return the type of a column: integer, number, JSON or text."""
    if column in NUMBERS:
        return "integer" if column in WHOLE_NUMBERS else "number"
    return "JSON" if VALUES[column].words == "a JSON object" else "text"


def table() -> str:
    """Return the Markdown table of the columns."""
    rows = [("column", "type", "unit", "may be empty", "values", "meaning"), ("---",) * 6]
    for name in COLUMNS:
        holds = VALUES[name]
        empty = "no" if holds.needed else "yes"
        rows.append((f"`{name}`", type_of(name), holds.unit or "–", empty, holds.words, holds.meaning))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def text() -> str:
    """Return the whole page."""
    return f"{_HEAD}{table()}\n"


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()  # answers --help instead of writing
    README.write_text(text(), "utf-8")
