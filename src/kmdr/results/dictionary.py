"""The columns of a table of rows: the page ``results/README.md``, written by ``python -m kmdr.results.dictionary``."""

from kmdr.base.paths import CHECKOUT
from kmdr.results.schema import COLUMNS, NUMBERS, VALUES, WHOLE_NUMBERS

README = CHECKOUT / "results" / "README.md"
_HEAD = """# Columns of rows.csv

A row is a trial: a dataset, a method that reduces it to r dimensions, and a repetition. The table of a folder of
results is `rows.csv`, or `rows.csv.xz` where it is handed on; UTF-8, commas, one header, numbers in full precision.
What may be empty is so where the trial failed, the data have no classes, or nothing was measured; a table of an older
version may lack columns. It is made by `python -m kmdr.results.dictionary`.

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
    README.write_text(text(), "utf-8")
