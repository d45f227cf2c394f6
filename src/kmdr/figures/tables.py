"""Tables as CSV, Markdown and LaTeX."""

import io
import math
import textwrap
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from kmdr.base.text import format_number, printable
from kmdr.figures.escape import latex_escaped, markdown_escaped, spreadsheet_csv


@dataclass(frozen=True)
class Table:
    """A table, usually with reported numbers, ours, their intervals and differences.

    Attributes
    ----------
    frame : DataFrame
        Tidy: one row per cell of the paper's table, or as wide as the paper prints it; numbers unrounded.
    formats : mapping of str to str
        Format specifications of numeric columns, for Markdown, LaTeX and HTML: ``{"ours": ".3f"}``.
    note : str
        The note below the table.
    bold : collection of (int, str)
        Highlighted cells, the best of their data: row and column.
    missing : mapping of str to str
        Text for missing numbers of a column; by default empty.
    """

    frame: pd.DataFrame
    formats: dict[str, str]
    note: str = ""
    bold: Collection[tuple[int, str]] = ()
    missing: Mapping[str, str] = field(default_factory=dict)


def cell(value: Any, form: str = "", missing: str = "") -> str:
    """Return a value as a table shows it: numbers by their format, and ``missing`` for a missing one."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return missing
    return format_number(value, form) if form else printable(str(value))


def cells(table: Table) -> tuple[list[str], list[list[str]]]:
    """Return the headings and the rows of a table, as text."""
    names = [printable(str(name)) for name in table.frame.columns]
    styles = [(table.formats.get(name, ""), table.missing.get(name, "")) for name in names]
    lines = [
        [cell(value, *style) for style, value in zip(styles, line, strict=True)]
        for line in table.frame.itertuples(index=False)
    ]
    return names, lines


def footnote(table: Table, mark: str = "Bold") -> str:
    """Return the note of a table, preceded by the meaning of its bold cells."""
    return printable(" ".join(filter(None, (f"{mark}: the best of its data." if table.bold else "", table.note))))


def _emphasised(
    table: Table, names: list[str], lines: list[list[str]], escaped: Callable[[str], str], bold: str
) -> list[list[str]]:
    """Return the rows of a table escaped for a format, with bold cells marked."""
    return [
        [bold.format(escaped(text)) if (i, name) in table.bold and text else escaped(text)
         for name, text in zip(names, line, strict=True)]
        for i, line in enumerate(lines)
    ]  # fmt: skip


def text(table: Table, *, styled: bool = False) -> str:
    """Return a table for a terminal; nothing is cut off in a narrow one.

    Parameters
    ----------
    styled : bool
        Whether bold cells are printed bold; otherwise they have a star, and there are no control characters.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table as Grid
    from rich.text import Text

    names, lines = cells(table)
    grid = Grid(box=SIMPLE_HEAD, pad_edge=False, header_style="")
    for name in names:
        grid.add_column(Text(name), justify="right" if name in table.formats else "left", no_wrap=True)
    for i, line in enumerate(lines):
        bold = [(i, name) in table.bold for name in names]
        grid.add_row(*(
            Text(cell if styled or not strong else f"* {cell}", style="bold" if strong else "")
            for cell, strong in zip(line, bold, strict=True)
        ))  # fmt: skip
    page = io.StringIO()
    console = Console(file=page, force_terminal=styled, color_system="standard" if styled else None, width=10_000)
    console.width = Measurement.get(console, console.options, grid).maximum
    console.print(grid, soft_wrap=False)
    rows = (line.rstrip() for line in page.getvalue().strip("\n").splitlines())
    return "\n".join([*rows, *textwrap.wrap(footnote(table, "Bold" if styled else "*"), 100)])


def markdown(table: Table) -> str:
    """Return a table in GitHub's Markdown, numbers right-aligned."""
    names, lines = cells(table)
    rule = ["---:" if name in table.formats else "---" for name in names]
    head, body = list(map(markdown_escaped, names)), _emphasised(table, names, lines, markdown_escaped, "**{}**")
    text = "\n".join(f"| {' | '.join(line)} |" for line in [head, rule, *body])
    note = footnote(table)
    return text + "\n" + (f"\n{markdown_escaped(note)}\n" if note else "")


def latex(table: Table) -> str:
    """Return a table for LaTeX's booktabs."""
    names, lines = cells(table)
    columns = "".join("r" if name in table.formats else "l" for name in names)
    emphasised = _emphasised(table, names, lines, latex_escaped, r"\textbf{{{}}}")
    body = "\n".join(" & ".join(line) + r" \\" for line in emphasised)
    head = " & ".join(map(latex_escaped, names)) + r" \\"
    below = " ".join(footnote(table).splitlines())
    note = f"% {below}\n" if below else ""
    return (
        f"{note}\\begin{{tabular}}{{{columns}}}\n\\toprule\n{head}\n\\midrule\n{body}\n\\bottomrule\n\\end{{tabular}}\n"
    )


def table_files(table: Table, stem: Path) -> dict[Path, bytes]:
    """Return a table as CSV (unrounded; see `kmdr.figures.escape.spreadsheet_csv`), Markdown and LaTeX.

    The paths are ``stem`` with the extensions.
    """
    contents = {
        "csv": spreadsheet_csv(table.frame), "md": markdown(table).encode(), "tex": latex(table).encode(),
    }  # fmt: skip
    return {stem.with_name(f"{stem.name}.{kind}"): content for kind, content in contents.items()}
