"""Tables on a terminal: of a run, of a folder of results, and of two folders side by side."""

import json
import os
import shlex
import sys
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from kmdr.analysis.comparison import compare_folders, compared, compared_columns, with_ratio
from kmdr.analysis.rows import REPETITION, SETTING_COLUMNS, code_notes, ok_rows
from kmdr.base.errors import UserError, unknown
from kmdr.base.text import Volume, announce, tell, terminal_width, unescaped, wrapped
from kmdr.figures.comparison import side_by_side_table, table_of, thinned
from kmdr.figures.escape import spreadsheet_csv
from kmdr.figures.tables import Table, latex, markdown, text
from kmdr.results.table import rows_of


def _for_terminal(table: Table) -> str:
    from rich.console import Console

    console = Console(file=sys.stdout)
    styled = console.is_terminal and not console.is_dumb_terminal and not os.environ.get("NO_COLOR")
    shown = text(table, width=terminal_width(), styled=styled)
    try:
        "─".encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # every character of the rule would be escaped
        return shown.replace("─", "-")
    return shown


def formatted(table: Table, frame: pd.DataFrame, kind: str) -> str:
    """Return a table as text, md, latex or csv, without a final newline; CSV has the unrounded numbers of the frame."""
    if kind == "csv":
        marks = {f"best {quantity.title}" for quantity in frame.attrs.get("quantities", ())}
        return spreadsheet_csv(frame[[name for name in frame if name not in marks]]).decode().rstrip()
    return {"md": markdown, "latex": latex, "text": _for_terminal}[kind](table).rstrip("\n")


def _print_table(table: Table, frame: pd.DataFrame, kind: str) -> None:
    """Print a table; the one for a terminal may have bold cells, and is otherwise escaped."""
    print(formatted(table, frame, kind), file=unescaped(sys.stdout) if kind == "text" else sys.stdout)


def show_run(folder: Path, asked: Collection[tuple[str, str]]) -> None:
    """Print the table of a run, given its pairs of study and ``config_hash``; of k-means on all features too.

    It has about thirty lines at most, and all of them with ``--verbose``.
    """
    rows = with_ratio(rows_of(folder))
    cells = pd.MultiIndex.from_frame(rows[["study", "dataset", *SETTING_COLUMNS]].fillna(""))
    requested = pd.MultiIndex.from_frame(rows[["study", "config_hash"]]).isin(list(asked))
    frame = compared(rows[requested | ((rows["reducer"] == "none") & cells.isin(cells[requested].unique()))])
    shown, omitted = (frame, "") if Volume.level > 0 else thinned(frame)
    announce(f"\n{_for_terminal(table_of(shown))}", styled=True)
    if omitted:
        announce(f"{omitted}; 'kmdr table {shlex.quote(str(folder))}' shows all.")


def _overview(rows: pd.DataFrame) -> Table:
    """Return a table with one line per study."""
    lines = []
    for study, group in rows.groupby("study", sort=True):
        ok = ok_rows(group)
        r = sorted({int(r) for r in group["r"]})
        distinct = ok.drop_duplicates(["dataset", *SETTING_COLUMNS, "reducer", "params", "r", *REPETITION])
        repetitions = distinct.groupby(["dataset", *SETTING_COLUMNS, "reducer", "params", "r"], dropna=False).size()
        least, most = (int(repetitions.min()), int(repetitions.max())) if len(ok) else (0, 0)
        lines.append({
            "study": str(study),
            "datasets": ", ".join(sorted(set(group["dataset"]))),
            "methods": str(group["reducer"].nunique()),
            "r": str(r[0]) if len(r) == 1 else f"{r[0]}–{r[-1]}",
            "n": str(most) if least == most else f"{least}–{most}",
            "rows": str(len(group)),
            "failed": str(len(group) - len(ok) or ""),
        })  # fmt: skip
    formats = dict.fromkeys(("methods", "r", "n", "rows", "failed"), "")
    groups = [["study"], ["datasets", *formats]]
    return Table(pd.DataFrame(lines), formats, _join_sentences(code_notes(rows)), groups=groups)


def _join_sentences(notes: Sequence[str]) -> str:
    return " ".join(f"{note}." for note in notes)


def table(folder: Path, study: str | None, format: str) -> None:  # noqa: A002
    """Print the table of a folder or of one study; one line per study if there are several and ``study`` is not all."""
    rows = with_ratio(rows_of(folder))
    names = sorted(set(rows["study"]))
    if study is None and len(names) > 1:
        overview = _overview(rows)
        _print_table(overview, overview.frame, format)
        if format == "text":
            command = f"kmdr table {shlex.quote(str(folder))}"
            print(wrapped(f"'{command} --study NAME' shows the lines of one, --study all of all."))
        return
    if study not in (*names, "all", None):
        raise unknown(f"study with rows in {folder}", study, names)
    rows = rows if study in ("all", None) else rows[rows["study"] == study]
    frame = compared(rows)
    lines = table_of(frame)
    lines = replace(lines, note=" ".join(filter(None, (lines.note, _join_sentences(code_notes(rows))))))
    _print_table(lines, frame, format)


def compare(folders: Sequence[Path], format: str) -> None:  # noqa: A002
    """Print two folders side by side, with their differences."""
    sides = compare_folders(*(compared_columns(rows_of(folder)) for folder in folders))
    if sides.table.empty:
        other = ", ".join(sides.other_data)
        reason = f"hold different data of the name {other}" if other else "share no study, dataset, k, method and r"
        raise UserError(f"{folders[0]} and {folders[1]} {reason}; run the same command into both")
    frame, omitted = sides.table, ""
    if format == "text":
        print(f"A = {folders[0]}, B = {folders[1]}")
        if Volume.level <= 0:
            frame, omitted = thinned(frame)
    _print_table(side_by_side_table(sides, frame), frame, format)
    if omitted:
        print(f"{omitted}; -v or --format csv has all.")


# Short headings of the built-in metrics; metrics of plugins have their labels.
_HEADINGS = {"objective": "F", "accuracy": "P", "nmi": "NMI", "ari": "ARI"}


def score(labels: Path, settings: Sequence[str], format: str) -> None:  # noqa: A002
    """Print the scores of each partition in a file of labels, on the dataset that settings describe."""
    from kmdr.harness.score import score_file
    from kmdr.metrics.references import known_metric

    rows, notes = score_file(labels, settings)
    if format == "json":
        print(json.dumps(rows, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        frame = pd.DataFrame(rows)
        measures = {name: measure for name in map(str, frame) if (measure := known_metric(name))}
        headings = {name: _HEADINGS.get(name, measure.label) for name, measure in measures.items()}
        formats = {"clusters": "", **dict.fromkeys(headings.values(), ".4f")}
        _print_table(Table(frame.rename(columns=headings), formats), frame, format)
    for note in notes:
        tell(f"kmdr: note: {note}")
