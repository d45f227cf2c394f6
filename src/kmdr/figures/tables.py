"""Tables as CSV, Markdown and LaTeX."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from kmdr.figures.escape import latex_escaped, markdown_escaped, spreadsheet_csv
from kmdr.files import write_atomically


@dataclass(frozen=True)
class Table:
    """A table of a paper with what is reported, ours, its interval and the difference.

    Attributes
    ----------
    frame : DataFrame
        Tidy: a line a cell of the paper's table, or as wide as the paper prints it; numbers unrounded.
    formats : mapping of str to str
        Format specifications of numeric columns, for Markdown, LaTeX and HTML: ``{"ours": ".3f"}``.
    note : str
        What a reader needs to know below it.
    """

    frame: pd.DataFrame
    formats: dict[str, str]
    note: str = ""


def cell(value: Any, form: str = "") -> str:
    """Return a value as a table shows it: numbers by their format, nothing for a missing one."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return format(value, form) if form else str(value)


def cells(table: Table) -> tuple[list[str], list[list[str]]]:
    """Return the headings and the lines of a table, as text."""
    names = [str(name) for name in table.frame.columns]
    lines = [
        [cell(value, table.formats.get(name, "")) for name, value in zip(names, line, strict=True)]
        for line in table.frame.itertuples(index=False)
    ]
    return names, lines


def markdown(table: Table) -> str:
    """Return a table in GitHub's Markdown, numbers to the right."""
    names, lines = cells(table)
    rule = ["---:" if name in table.formats else "---" for name in names]
    head, *body = [list(map(markdown_escaped, line)) for line in (names, *lines)]
    text = "\n".join(f"| {' | '.join(line)} |" for line in [head, rule, *body])
    return text + "\n" + (f"\n{markdown_escaped(table.note)}\n" if table.note else "")


def latex(table: Table) -> str:
    """Return a table for LaTeX's booktabs."""
    names, lines = cells(table)
    columns = "".join("r" if name in table.formats else "l" for name in names)
    body = "\n".join(" & ".join(map(latex_escaped, line)) + r" \\" for line in lines)
    head = " & ".join(map(latex_escaped, names)) + r" \\"
    note = f"% {' '.join(table.note.splitlines())}\n" if table.note else ""
    return (
        f"{note}\\begin{{tabular}}{{{columns}}}\n\\toprule\n{head}\n\\midrule\n{body}\n\\bottomrule\n\\end{{tabular}}\n"
    )


def save_table(table: Table, stem: Path) -> list[Path]:
    """Write a table as CSV (unrounded; see `kmdr.figures.escape.spreadsheet_csv`), Markdown and LaTeX.

    Parameters
    ----------
    table : Table
    stem : Path
        Path without extension; missing folders are made.
    """
    contents = {
        "csv": spreadsheet_csv(table.frame), "md": markdown(table).encode(), "tex": latex(table).encode(),
    }  # fmt: skip
    paths = []
    for kind, content in contents.items():
        path = stem.with_name(f"{stem.name}.{kind}")
        write_atomically(path, content)
        paths.append(path)
    return paths
