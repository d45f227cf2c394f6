"""Figures and tables of studies that no paper's table, figure or claim reads.

Custom runs come first in a report; studies that extend a paper come after the papers.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from kmdr.analysis.comparison import QUANTITIES, TO_SHOW, compared, quantities_in, with_ratio
from kmdr.analysis.ranks import FEWEST_PROBLEMS, mean_ranks
from kmdr.analysis.rows import code_notes
from kmdr.analysis.significance import LEVEL
from kmdr.base.text import counted
from kmdr.figures.canvas import FORMATS
from kmdr.figures.comparison import DIFFERENCES, MIXED, UNTIMED, counts_of, method_names, time_notes
from kmdr.figures.panels import figures_of, named_by_setting
from kmdr.figures.tables import Table, table_files
from kmdr.reporting.answers import depends_on_r, restrict_to_shared_r
from kmdr.results.commands import command_of
from kmdr.results.typed_rows import to_text


@dataclass(frozen=True)
class StudyRuns:
    """Figures and tables of one study.

    Attributes
    ----------
    study, title : str
        Its name and its title.
    files : mapping of Path to bytes
        Its figures and its tables, by their paths within the folder.
    table : Table
        One row per dataset, method and r.
    commands : mapping of str to str
        The commands that rerun it, each with its method and dataset.
    ranks : Table or None
        Mean rank of each method over the datasets, if there are several.
    """

    study: str
    title: str
    files: Mapping[Path, bytes]
    table: Table
    commands: Mapping[str, str]
    ranks: Table | None = None


def study_runs(rows: pd.DataFrame, studies: Mapping[str, str], formats: Sequence[str] = FORMATS) -> list[StudyRuns]:
    """Return figures and tables of some studies, in all settings that they were run with.

    ``rows`` are all rows of the folder, their text perhaps as categories, and ``studies`` has the titles of these
    studies.
    """
    if not studies:
        return []
    # F_best is the smallest F on the same data in the whole folder, of any study and settings.
    selected = to_text(with_ratio(rows)[rows["study"].isin(list(studies))])
    renamed, names = named_by_setting(selected)
    runs = []
    for study, of_study in renamed.groupby("study", sort=True):
        stem = re.sub(r"[^\w.+-]", "_", str(study))
        labels = {name: label for name, (_, label) in names.items()}
        lines = compared(of_study)
        table, ranks = _table(lines, names), _ranks(lines)
        table = replace(table, note=" ".join((table.note, *(f"{note}." for note in code_notes(of_study)))))
        files = figures_of(of_study, Path(f"figures/own_{stem}"), labels, formats=formats) | table_files(
            table, Path(f"tables/own_{stem}")
        )
        files |= table_files(ranks, Path(f"tables/own_{stem}_ranks")) if ranks else {}
        commands = _commands(selected[selected["study"] == study])
        runs.append(StudyRuns(str(study), studies[str(study)], files, table, commands, ranks))
    return runs


def _table(lines: pd.DataFrame, names: Mapping[str, tuple[str, str]]) -> Table:
    """Return means with intervals, and a comparison of F with k-means on all features."""
    keys = {
        "dataset": [names.get(dataset, (dataset, dataset))[1] for dataset in lines["dataset"]],
        "method": method_names(lines),
        "r": lines["r"],
        "n": counts_of(lines) if (lines["versions"] > 1).any() else lines["n"],
    }
    shown = [q for q in quantities_in(lines) if lines[q.title].notna().any() or (q.time and lines["n"].any())]
    means: dict[str, pd.Series[float]] = {}
    for q in shown:
        if q.time and (lines[f"n {q.title}"] != lines["n"]).any():
            means[f"n {q.title}"] = lines[f"n {q.title}"]
        ends = ("low ", "high ") if q.time else ("± ",)
        means |= {name: lines[name] for name in (q.title, *(f"{end}{q.title}" for end in ends))}
    F = QUANTITIES["ratio"]
    if F.change in lines:
        compared_by = [f"{end}{F.change}" for end in ("", "low ", "high ")]
        means |= {name: lines[name] for name in (*compared_by, f"{TO_SHOW}{F.title}")}
    frame = pd.DataFrame({**keys, **means, "against none": _against_all_features(lines)})
    formats = {f"{sign}{q.title}": q.form for q in shown for sign in ("", "± ", "low ", "high ")}
    formats |= {name: f"+{F.form}" for name in means if name.endswith(F.change)}
    formats |= {name: ".0f" for name in means if name.startswith("n ")}
    note = (
        "± is half the width of the 95 % interval of a mean; against none: F compared with k-means on all features "
        f"from the same starts, by paired t tests at {100 * LEVEL:g} %, Holm-adjusted over the table. {DIFFERENCES} "
        "Where no difference is shown, n to show is about how many repetitions would show one as large with a power of "
        "90 %. The page Answers makes another comparison: at one r, each method with every other, adjusted for the "
        "number of methods alone."
    )
    note = " ".join([note, *time_notes(lines), *([MIXED] if (lines["versions"] > 1).any() else [])])
    best = {q.title: [int(i) for i in np.flatnonzero(lines[f"best {q.title}"])] for q in shown}
    untimed = {q.title: UNTIMED for q in shown if q.time}
    return Table(frame, formats, note, {(i, q.title) for q in shown for i in best[q.title]}, untimed)


def _ranks(lines: pd.DataFrame) -> Table | None:
    """Return the mean rank of each method by each quantity; None if fewer than two datasets have the same methods.

    On each dataset, means are over the r at which all methods that depend on r have values.
    """
    varies = [
        depends_on_r(str(name), str(params)) for name, params in zip(lines["reducer"], lines["params"], strict=True)
    ]
    labelled = lines.assign(method=method_names(lines), varies=varies)[lines["versions"] <= 1]
    columns: dict[str, pd.Series[float]] = {}
    problems = 0
    for quantity in quantities_in(lines):
        if quantity.less is None:
            continue
        known = restrict_to_shared_r(labelled.dropna(subset=quantity.title))
        values = known.groupby(["dataset", "method"])[quantity.title].mean().unstack("method").dropna()
        ranks = mean_ranks(values, ascending=quantity.less)
        if len(values) > 1 and len(ranks):
            problems = max(problems, len(values))
            columns[quantity.title] = ranks["mean"]
            if ranks["high"].notna().any():
                columns[f"± {quantity.title}"] = ranks["high"] - ranks["mean"]
    if not columns:
        return None
    frame = pd.DataFrame(columns).rename_axis("method").reset_index()
    first = frame.columns[1]
    note = (
        f"Mean rank over the {counted(problems, 'dataset')} (in each of their settings) on which all of these methods "
        "ran; rank 1 is the best mean over the r that all of them have. ± is the distance to the upper end of the 95 % "
        f"interval over datasets, which fewer than {FEWEST_PROBLEMS} datasets do not have."
    )
    return Table(frame.sort_values(first, ignore_index=True), dict.fromkeys(columns, ".2f"), note)


def _against_all_features(lines: pd.DataFrame) -> list[str]:
    """Return for each line whether F is higher or lower than on all features."""
    F = QUANTITIES["ratio"]
    if f"p {F.title}" not in lines:
        return [""] * len(lines)
    return [
        "" if np.isnan(p) else "no difference shown" if p > LEVEL else "F higher" if change > 0 else "F lower"
        for p, change in zip(lines[f"p {F.title}"], lines[F.change], strict=True)
    ]


def _commands(rows: pd.DataFrame) -> dict[str, str]:
    commands: dict[str, str] = {}
    for _, group in rows.groupby("config_hash", sort=False):
        sizes = sorted({int(r) for r in group["r"]})
        row = {str(name): value for name, value in group.iloc[0].items()}
        command = command_of(row, sizes, int(group["repeat"].max()) + 1)
        commands.setdefault(command, f"{row['reducer']} on {row['dataset']}")
    return commands
