"""Everything that is made of a folder of results: figures, tables, verdicts, the register and the report.

Only the folder and the reported numbers are read, so the same folder gives the same report, with or without the data.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from kmdr.files import sweep_abandoned, write_atomically
from kmdr.paths import REPORTED
from kmdr.provenance import code_version
from kmdr.report.escape import spreadsheet_csv
from kmdr.report.figures import drawn_numbers, paper_grid, save
from kmdr.report.tables import save_table
from kmdr.report.untrusted import check_places, contents, environments_of, plan_of, table_bytes
from kmdr.store import rows_file
from kmdr.studies.catalogue import PAPERS, Item, Paper, Table, items, rerun_command, write_facts
from kmdr.studies.register import OPEN_POINTS, Change, OpenPoint, change, flips
from kmdr.studies.results import ASKED, NotRunError, Results, attempt
from kmdr.studies.verdicts import Diagnosis, Verdict, judge

State = Literal["rerun", "in part", "not run"]


@dataclass(frozen=True)
class Made:
    """A table or figure as it was made, or why it was not.

    Attributes
    ----------
    item : Item
    state : {"rerun", "in part", "not run"}
        In part: some of its datasets could not be had, or stand-ins took their place.
    files : tuple of Path
        Relative to the folder: PDF, PNG, CSV, or CSV, Markdown, LaTeX.
    numbers : DataFrame
        What it shows.
    table : Table or None
    gaps : tuple of str
        What is missing, with the reason.
    stand_ins : tuple of str
        What stood in for what.
    command : str
        What reruns it.
    """

    item: Item
    state: State
    files: tuple[Path, ...]
    numbers: pd.DataFrame
    table: Table | None
    gaps: tuple[str, ...]
    stand_ins: tuple[str, ...]
    command: str


@dataclass(frozen=True)
class Report:
    """What the report shows.

    Attributes
    ----------
    folder : Path
    papers : sequence of Paper
    items : sequence of Made
    verdicts : sequence of Verdict
    register : sequence of (OpenPoint, list of Change, str)
        The last is the answer of a point that no study flips.
    environments : mapping
        Manifests by hash, of those that the rows name.
    code_versions : mapping of str to int
        Rows of each version of the code.
    studies : sequence of mapping
        Name, title, datasets, reducers, repetitions, rows, failed rows, seconds, command.
    missing : mapping
        Why which datasets could not be had.
    plan : mapping
        What was asked for: a budget, a thinned grid (``plan.json``); empty for a full run.
    """

    folder: Path
    papers: Sequence[Paper]
    items: Sequence[Made]
    verdicts: Sequence[Verdict]
    register: Sequence[tuple[OpenPoint, list[Change], str]]
    environments: Mapping[str, Mapping[str, Any]]
    code_versions: Mapping[str, int]
    studies: Sequence[Mapping[str, Any]]
    missing: Mapping[str, str]
    plan: Mapping[str, Any]


def _make(item: Item, results: Results, gaps: Mapping[str, Sequence[str]], folder: Path) -> Made:
    mine = results.fresh()
    missing = mine.gaps(item, gaps)
    command = rerun_command(item)
    try:
        made = attempt(item.make, mine)
    except NotRunError as reason:
        return Made(item, "not run", (), pd.DataFrame(), None, (str(reason), *missing), (), command)
    texts = mine.all_rows.loc[sorted(mine.used), ["dataset", "stand_in"]].drop_duplicates()
    stand_ins = tuple(f"{name}: {text}" for name, text in texts.itertuples(index=False) if text)
    if isinstance(made, Figure):
        files = save(made, folder / "figures" / item.id)
        numbers, table = drawn_numbers(made), None
    else:
        files = save_table(made, folder / "tables" / item.id)
        numbers, table = made.frame, made
    relative = tuple(file.relative_to(folder) for file in files)
    return Made(
        item, "in part" if missing or stand_ins else "rerun", relative, numbers, table, missing, stand_ins, command
    )


def _studies(results: Results, configs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return what was run of each study."""
    found: list[Mapping[str, Any]] = []
    for study in configs:
        rows = results.all_rows[results.all_rows["study"] == study["name"]]
        seconds = np.nansum(rows[["reduce_seconds", "cluster_seconds", "score_seconds"]].to_numpy(dtype=float))
        prepare = rows.groupby(["config_hash", "repeat"])["prepare_seconds"].max().sum() if len(rows) else 0.0
        found.append(
            {
                **study,
                "rows": len(rows),
                "failed": int((rows["status"] != "ok").sum()),
                "repetitions": int(rows.groupby("config_hash")["repeat"].nunique().max()) if len(rows) else 0,
                "seconds": float(seconds + prepare),
                "command": f"kmdr study={study['name']}",
            }
        )
    return found


def report_of(
    folder: Path, configs: Sequence[Mapping[str, Any]], tell: Callable[[str], None] = lambda _: None
) -> Report:
    """Make figures and tables of a folder, judge the claims, and gather what the report shows.

    Parameters
    ----------
    folder : Path
        Holds rows, facts, ``missing.json``.
    configs : sequence of mapping
        The ``study`` tree of every study's configuration, with ``repeats``.
    tell : callable
        Gets the name of each thing before it is made, for a progress bar.

    Returns
    -------
    Report
    """
    results = Results.of_folder(folder)
    environments, plan = environments_of(folder, results.all_rows), plan_of(folder)
    gaps = {study["name"]: study["datasets"] for study in configs}
    made = []
    for item in items():
        tell(item.id)
        made.append(_make(item, results, gaps, folder))
    changes: dict[str, list[Change]] = {}
    diagnoses: dict[str, list[Diagnosis]] = {}
    for flip in flips(configs):
        tell(flip.study)
        one = change(results, flip)
        changes.setdefault(flip.entry, []).append(one)
        for claim, diagnosis in one.diagnoses.items():
            diagnoses.setdefault(claim, []).append(diagnosis)
    tell("verdicts")
    verdicts = judge(results, gaps, diagnoses)
    register = []
    for point in OPEN_POINTS:
        try:
            answer = attempt(point.answer, results.fresh()) if point.answer else ""
        except NotRunError as reason:
            answer = f"not run: {reason}"
        register.append((point, changes.get(point.id, []), answer))
    return Report(
        folder,
        list(PAPERS.values()),
        made,
        verdicts,
        register,
        environments,
        {str(k): int(v) for k, v in results.all_rows["code_version"].value_counts().items()},
        _studies(results, configs),
        results.missing,
        plan,
    )


def write_verdicts(report: Report) -> list[Path]:
    """Write ``verdicts.csv``, a line a claim, and ``components.csv``, a line a statement that a claim is made of."""
    lines = [
        {
            "claim": verdict.claim.id,
            "verdict": verdict.outcome,
            "sentence": verdict.claim.sentence,
            "explanation": verdict.sentence,
            "p_for": verdict.p_for,
            "p_against": verdict.p_against,
            "deciding_component": verdict.weakest.label if verdict.weakest else "",
            "effect": verdict.weakest.effect if verdict.weakest else np.nan,
            "low": verdict.weakest.low if verdict.weakest else np.nan,
            "high": verdict.weakest.high if verdict.weakest else np.nan,
            "unit": verdict.weakest.unit if verdict.weakest else "",
            "rows": " ".join(f"{name}:{count}" for name, count in verdict.rows.items()),
            "rows_digest": verdict.rows_digest,
            "command": verdict.command,
        }
        for verdict in report.verdicts
    ]
    components = [
        {"claim": verdict.claim.id, **component._asdict()}
        for verdict in report.verdicts
        for component in verdict.components
    ]
    written = []
    for name, table in (("verdicts", lines), ("components", components)):
        path = report.folder / f"{name}.csv"
        write_atomically(path, spreadsheet_csv(pd.DataFrame(table)))
        written.append(path)
    return written


def draw_items(folder: Path, wanted: Collection[str], configs: Sequence[Mapping[str, Any]]) -> list[Path]:
    """Make the tables and figures that read some studies, and no report; a study that none reads gets a plain figure.

    Parameters
    ----------
    folder : Path
        Holds the rows and facts.
    wanted : collection of str
        Names of the studies.
    configs : sequence of mapping
        Every study.

    Returns
    -------
    list of Path
        What was written.
    """
    write_facts(folder, wanted)
    results = Results.of_folder(folder)
    gaps = {study["name"]: study["datasets"] for study in configs}
    written = [
        folder / file
        for item in items()
        if set(item.studies) & set(wanted)
        for file in _make(item, results, gaps, folder).files
    ]
    shown = {name for item in items() for name in item.studies}
    for study in configs:
        if study["name"] in set(wanted) - shown:
            rows = results.all_rows[results.all_rows["study"] == study["name"]]
            drawn = paper_grid(rows, study["datasets"], reasons=results.missing, note=study["note"])
            written += save(drawn, folder / "figures" / study["name"])
    return written


def build(
    folder: Path,
    configs: Sequence[Mapping[str, Any]],
    *,
    again: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> Path:
    """Make facts, figures, tables, verdicts and the report of a folder; nothing where all that is there already.

    Parameters
    ----------
    folder : Path
    configs : sequence of mapping
        Every study.
    again : bool
        Whether to make it again even if nothing that it is made from has changed.
    tell : callable
        Gets the name of each thing before it is made, for a progress bar.

    Returns
    -------
    Path
        The report.

    Raises
    ------
    UserError
        When the folder has no rows, or holds what kmdr does not write.
    """
    from kmdr.report.html import write_report  # which knows `Report`

    check_places(folder)
    page, stamp = folder / "report" / "index.html", folder / "report" / ".made_from"
    if not again and page.is_file() and contents(folder, "report/.made_from") == _made_from(folder):
        return page
    for place in (folder, *(folder / name for name in ("facts", "figures", "tables", "report"))):
        sweep_abandoned(place)
    write_facts(folder, tell=tell)
    report = report_of(folder, configs, tell)
    write_verdicts(report)
    tell("the page")
    write_report(report, code_version())
    write_atomically(stamp, _made_from(folder))
    return page


def _made_from(folder: Path) -> bytes:
    """Return a hash of what a report is made from: rows, facts, what is missing, the plan, the code and its papers."""
    digest = sha256(code_version().encode())
    inputs = [rows_file(folder).name, ASKED, "missing.json", "plan.json"]
    inputs += sorted(f"facts/{file.name}" for file in (folder / "facts").glob("*.csv"))
    for name in inputs:
        content = table_bytes(folder, name)  # the same rows, compressed or not, give the same report
        if content is not None:
            digest.update(Path(name).name.removesuffix(".xz").encode() + sha256(content).digest())
    for file in sorted(REPORTED.glob("*.csv")):
        digest.update(file.name.encode() + sha256(file.read_bytes()).digest())
    return f"{digest.hexdigest()}\n".encode()
