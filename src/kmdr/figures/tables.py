"""Tables as CSV, Markdown and LaTeX."""

import math
import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pandas as pd
from rich.cells import cell_len, chop_cells

from kmdr.base.text import format_number, printable, typeset
from kmdr.figures.escape import latex_escaped, markdown_escaped, markdown_prose, spreadsheet_csv

# What separates two cells on a terminal, and the columns of the narrowest wrapped text and of the widest note.
_GAP = "  "
_LEAST_TEXT, _NOTE = 12, 100


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
    groups : sequence of sequence of str
        Columns that a terminal shows together, all columns once. The first group identifies a row: where not all groups
        fit, it is repeated. By default each column is a group.
    sections : sequence of str
        Columns of the first group that a narrow terminal shows as headings over their rows.
    """

    frame: pd.DataFrame
    formats: dict[str, str]
    note: str = ""
    bold: Collection[tuple[int, str]] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    groups: Sequence[Sequence[str]] = ()
    sections: Sequence[str] = ()

    @property
    def texts(self) -> Collection[str]:
        """Return the names of the columns of text, which are aligned left and may be wrapped."""
        return {str(name) for name in self.frame.columns if name not in self.formats}


@dataclass(frozen=True)
class Piece:
    """A titled figure of the report, or table if there is one, with its files by their paths within the folder.

    ``alt`` says in words what the figure shows.
    """

    title: str
    files: Mapping[Path, bytes]
    table: Table | None = None
    alt: str = ""


def cell(value: Any, form: str = "", missing: str = "") -> str:
    """Return a value as a table shows it: numbers by their format, and ``missing`` for a missing one."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return missing
    return typeset(format_number(value, form)) if form else printable(str(value))


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


def text(table: Table, *, width: int | None = None, styled: bool = False) -> str:
    """Return a table for a terminal.

    One that is too wide has its ``sections`` as headings, and its other columns in blocks. Nothing is cut off: where
    not even one group fits, texts are wrapped, and numbers take what they need.

    Parameters
    ----------
    width : int, optional
        Number of columns of the terminal, by default as many as the table needs.
    styled : bool
        Whether bold cells are printed bold; otherwise they have a star, and there are no control characters.
    """
    names, lines = cells(table)
    marked = _emphasised(table, names, lines, str, "{}" if styled else "* {}")
    columns = {name: list(column) for name, *column in zip(names, *marked, strict=True)}
    groups = [list(group) for group in table.groups or [[name] for name in names]]
    headings: list[str] = [""] * len(lines)
    if width is not None and _width(columns, columns) > width and table.sections:
        headings = _headings(table, columns)
        groups = [[name for name in group if name not in table.sections] for group in groups]
    parts = [
        "\n".join(_grid(table, block, columns, headings, width, styled=styled))
        for block in _blocks(table, groups, columns, width)
    ]
    note = textwrap.wrap(footnote(table, "Bold" if styled else "*"), min(width or _NOTE, _NOTE))
    return "\n\n".join([*parts, *(["\n".join(note)] if note else [])])


def _headings(table: Table, columns: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the sections of each row in words; settings that a row does not have are omitted."""
    of_rows = zip(*(columns[name] for name in table.sections), strict=True)
    return [
        ", ".join(
            value if name in table.texts else f"{name} = {value}"
            for name, value in zip(table.sections, values, strict=True)
            if value != "–"
        )
        for values in of_rows
    ]


def _width(names: Iterable[str], columns: Mapping[str, Sequence[str]]) -> int:
    return sum(max(map(cell_len, (name, *columns[name]))) + len(_GAP) for name in names) - len(_GAP)


def _blocks(
    table: Table, groups: Sequence[list[str]], columns: Mapping[str, Sequence[str]], width: int | None
) -> Iterator[list[str]]:
    """Yield the columns of each block: the first group, then as many of the others as fit.

    A group that does not fit by itself is split into its columns.
    """
    first, *wholes = groups
    others: list[list[str]] = []
    for group in wholes:
        texts = [max(0, _width([name], columns) - _LEAST_TEXT) for name in (*first, *group) if name in table.texts]
        fits = width is None or _width([*first, *group], columns) - sum(texts) <= width
        others += [group] if fits else [[name] for name in group]
    block = first
    for group in others:
        if block != first and width is not None and _width([*block, *group], columns) > width:
            yield block
            block = first
        block = [*block, *group]
    yield block


def _grid(
    table: Table,
    block: Sequence[str],
    columns: Mapping[str, Sequence[str]],
    headings: Sequence[str],
    width: int | None,
    *,
    styled: bool,
) -> Iterator[str]:
    """Yield the lines of some columns, with a rule below their names, and a heading over the rows that share one."""
    widths = {name: _width([name], columns) for name in block}
    excess = 0 if width is None else _width(block, columns) - width
    for name in sorted(block, key=lambda name: -widths[name]):  # the longest texts are wrapped first
        if name in table.texts and excess > 0:
            kept = max(min(widths[name], _LEAST_TEXT), widths[name] - excess)
            excess -= widths[name] - kept
            widths[name] = kept

    def lines_of(row: Mapping[str, str], bold: Collection[str] = ()) -> Iterator[str]:
        parts = {name: _wrapped(text, widths[name]) if name in table.texts else [text] for name, text in row.items()}
        for texts in zip_longest(*parts.values(), fillvalue=""):
            shown = []
            for name, part in zip(parts, texts, strict=True):
                padding = " " * (widths[name] - cell_len(part))
                text = f"\x1b[1m{part}\x1b[0m" if name in bold and part else part
                shown.append(f"{text}{padding}" if name in table.texts else f"{padding}{text}")
            yield _GAP.join(shown).rstrip()

    yield from lines_of({name: name for name in block})
    yield "─" * (sum(widths.values()) + len(_GAP) * (len(block) - 1))
    for i, heading in enumerate(headings):
        if i == 0 or heading != headings[i - 1]:
            yield from [""] * (i > 0)
            yield from textwrap.wrap(heading, width or _NOTE)
        bold = [name for name in block if styled and (i, name) in table.bold]
        yield from lines_of({name: columns[name][i] for name in block}, bold)


def _wrapped(text: str, width: int) -> list[str]:
    """Return a text in lines of at most a width, which end at spaces, or after punctuation in longer words."""
    if cell_len(text) <= width:
        return [text]
    lines = [""]
    for word in text.split():
        parts = [word] if cell_len(word) <= width else re.findall(r"[^._,/=(-]*[._,/=(-]?", word)
        for i, piece in enumerate(piece for part in parts for piece in chop_cells(part, width)):
            longer = f"{lines[-1]}{' ' if i == 0 and lines[-1] else ''}{piece}"
            if cell_len(longer) > width:
                lines.append(piece)
            else:
                lines[-1] = longer
    return lines


def markdown(table: Table) -> str:
    """Return a table in GitHub's Markdown, numbers right-aligned."""
    names, lines = cells(table)
    rule = ["---:" if name in table.formats else "---" for name in names]
    head, body = list(map(markdown_escaped, names)), _emphasised(table, names, lines, markdown_escaped, "**{}**")
    text = "\n".join(f"| {' | '.join(line)} |" for line in [head, rule, *body])
    note = footnote(table)
    return text + "\n" + (f"\n{markdown_prose(note)}\n" if note else "")


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
