"""What of the rows of a folder a terminal shows: the table of a run, of a folder, and of two side by side."""

import shlex
import sys
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from kmdr.analysis.comparison import beside, compared, only_compared, with_ratio
from kmdr.analysis.rows import REPETITION, TOLD_APART, code_notes, ok_rows
from kmdr.base.errors import UserError, unknown
from kmdr.base.text import Volume, announce, unescaped
from kmdr.figures.comparison import beside_table, table_of, thinned
from kmdr.figures.escape import spreadsheet_csv
from kmdr.figures.tables import Table, latex, markdown, text
from kmdr.results.table import rows_of

FORMATS = ("text", "md", "latex", "csv")


def _on_terminal(table: Table) -> str:
    from rich.console import Console

    console = Console(file=sys.stdout)
    return text(table, styled=console.is_terminal and not console.is_dumb_terminal)


def formatted(table: Table, frame: pd.DataFrame, kind: str) -> str:
    """Return a table in one of `FORMATS`, without a line's end; CSV has the numbers of the frame, unrounded."""
    if kind == "csv":
        marks = {f"best {quantity.title}" for quantity in frame.attrs.get("quantities", ())}
        return spreadsheet_csv(frame[[name for name in frame if name not in marks]]).decode().rstrip()
    return {"md": markdown, "latex": latex, "text": _on_terminal}[kind](table).rstrip("\n")


def _print_table(table: Table, frame: pd.DataFrame, kind: str) -> None:
    """Print a table in one of `FORMATS`; that for a terminal may have bold cells, and the rest of it is escaped."""
    print(formatted(table, frame, kind), file=unescaped(sys.stdout) if kind == "text" else sys.stdout)


def show_run(folder: Path, asked: Collection[tuple[str, str]]) -> None:
    """Print the table of what a run asked for: some thirty lines at the most, all with ``--verbose``.

    Parameters
    ----------
    folder : Path
    asked : collection of (str, str)
        Study and ``config_hash``. K-means on all features is shown with them wherever the folder has it.
    """
    rows = with_ratio(rows_of(folder))
    where = pd.MultiIndex.from_frame(rows[["study", "dataset", *TOLD_APART]].fillna(""))
    own = pd.MultiIndex.from_frame(rows[["study", "config_hash"]]).isin(list(asked))
    frame = compared(rows[own | ((rows["reducer"] == "none") & where.isin(where[own].unique()))])
    shown, told = (frame, "") if Volume.level > 0 else thinned(frame)
    announce(f"\n{_on_terminal(table_of(shown))}", styled=True)
    if told:
        announce(f"{told}; 'kmdr table {shlex.quote(str(folder))}' shows all.")


def _overview(rows: pd.DataFrame) -> Table:
    """Return a line a study."""
    lines = []
    for study, group in rows.groupby("study", sort=True):
        ok = ok_rows(group)
        r = sorted({int(r) for r in group["r"]})
        distinct = ok.drop_duplicates(["dataset", *TOLD_APART, "reducer", "params", "r", *REPETITION])
        repetitions = distinct.groupby(["dataset", *TOLD_APART, "reducer", "params", "r"], dropna=False).size()
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
    return Table(pd.DataFrame(lines), formats, _in_sentences(code_notes(rows)))


def _in_sentences(notes: Sequence[str]) -> str:
    return " ".join(f"{note}." for note in notes)


def _folders_and_options(
    command: str, arguments: Sequence[str], count: int, valid: Sequence[str]
) -> tuple[list[Path], dict[str, str]]:
    """Return the folders and the options of a command: ``--format md``, ``--format=md`` or ``FORMAT=md``."""
    words, options, left = [], {"FORMAT": "text"}, list(arguments)
    while left:
        key, equals, value = left.pop(0).partition("=")
        name = key.lstrip("-").upper()
        if not equals and not key.startswith("-"):
            words.append(Path(key).expanduser())
        elif name not in valid:
            raise unknown(f"setting of 'kmdr {command}'", name, [f"{each}=…" for each in valid])
        elif not equals and not left:
            raise UserError(f"{key} has no value; give one, e.g. {key} {'md' if name == 'FORMAT' else 'NAME'}")
        else:
            options[name] = value if equals else left.pop(0)
    if len(words) != count:
        folders = "one folder of results" if count == 1 else f"{count} folders of results"
        example = " ".join(("results/runs", "results/reference")[:count])
        raise UserError(f"'kmdr {command}' takes {folders}, not {len(words)}; e.g. 'kmdr {command} {example}'")
    if options["FORMAT"] not in FORMATS:
        raise unknown("format", options["FORMAT"], FORMATS)
    return words, options


def table(arguments: Sequence[str]) -> None:
    """``kmdr table DIR [STUDY=NAME] [--format text|md|latex|csv]``: means, intervals, and what differs from k-means."""
    (folder,), options = _folders_and_options("table", arguments, 1, ("STUDY", "FORMAT"))
    rows = with_ratio(rows_of(folder))
    names = sorted(set(rows["study"]))
    if "STUDY" not in options and len(names) > 1:
        overview = _overview(rows)
        _print_table(overview, overview.frame, options["FORMAT"])
        if options["FORMAT"] == "text":
            print(f"'kmdr table {shlex.quote(str(folder))} STUDY=NAME' shows the lines of one, STUDY=all of all.")
        return
    study = options.get("STUDY", "all")
    if study not in (*names, "all"):
        raise unknown(f"study with rows in {folder}", study, names)
    rows = rows if study == "all" else rows[rows["study"] == study]
    frame = compared(rows)
    lines = table_of(frame)
    lines = replace(lines, note=" ".join(filter(None, (lines.note, _in_sentences(code_notes(rows))))))
    _print_table(lines, frame, options["FORMAT"])


def compare(arguments: Sequence[str]) -> None:
    """``kmdr compare A B [--format text|md|latex|csv]``: two folders side by side, and what changes."""
    folders, options = _folders_and_options("compare", arguments, 2, ("FORMAT",))
    sides = beside(*(only_compared(rows_of(folder)) for folder in folders))
    if sides.table.empty:
        why = f"{', '.join(sides.other_data)} hold other data there" if sides.other_data else "nothing was run in both"
        raise UserError(
            f"{folders[0]} and {folders[1]} have no line in common: {why}; a line is a study, data, k, method and r"
        )
    frame, told = sides.table, ""
    if options["FORMAT"] == "text":
        print(f"A = {folders[0]}, B = {folders[1]}")
        if Volume.level <= 0:
            frame, told = thinned(frame)
    _print_table(beside_table(sides, frame), frame, options["FORMAT"])
    if told:
        print(f"{told}; -v or --format csv has all.")
