"""Everything that is made from a folder of results: figures, tables, verdicts, the register and the report.

A report is made in three steps: `kmdr.reporting.contents` reads the folder, `report_of` computes the report, and
`build` writes its files. Only the folder and the papers' reported numbers are read, so the same folder gives the same
report with or without the data; facts are computed by the run (`kmdr.harness.facts`).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pandas as pd

from kmdr.analysis.departures import departures, seed_settings
from kmdr.analysis.environments import ENVIRONMENT_COLUMNS, environment_notes, rows_by_environment
from kmdr.analysis.results import Results
from kmdr.analysis.rows import SECONDS, code_notes, computing_cost
from kmdr.atlas.design import STUDY as ATLAS
from kmdr.atlas.design import TIMES as ATLAS_TIMES
from kmdr.atlas.section import AtlasSection
from kmdr.base.errors import UserError
from kmdr.base.files import sweep_abandoned
from kmdr.base.provenance import code_version
from kmdr.base.text import tell as warn
from kmdr.claims.catalogue import Claim, Item, Paper, claims, items, papers
from kmdr.claims.register import Change, answered, flips, open_points
from kmdr.claims.verdicts import Diagnosis, Verdict, judge
from kmdr.figures.canvas import FORMATS
from kmdr.figures.panels import figures_of_studies
from kmdr.harness.experiment import Experiment, experiments
from kmdr.multiverse.choices import STUDY
from kmdr.multiverse.section import MultiverseSection
from kmdr.reporting.contents import Contents, fingerprint, read_contents
from kmdr.reporting.html import report_pages
from kmdr.reporting.model import Report, Reproduction
from kmdr.reporting.parts import Context, Part, Views, make_item, make_parts, part_name
from kmdr.reporting.study_runs import study_runs
from kmdr.reporting.verdict_tables import verdict_tables, with_seeds
from kmdr.results.folder import file_status, read_file, remove_file, write_files
from kmdr.results.json_files import plan_of, read_or_note
from kmdr.results.reader import check_places

_PAGE, _MADE_FROM = Path("report", "index.html"), Path("report", ".made_from")


def _studies(
    results: Results, configs: Sequence[Mapping[str, Any]], every_setting: bool = False
) -> list[Mapping[str, Any]]:
    """Return a summary of the run of each study; studies on request only if they have rows."""
    summaries: list[Mapping[str, Any]] = []
    sizes = ["n", "d", "nnz"]
    every = results.columns(["study", "config_hash", "repeat", "status", *SECONDS, *sizes], every=every_setting)
    of_studies = {str(name): of_study for name, of_study in every.groupby("study")}
    for study in configs:
        rows = of_studies.get(study["name"], every.iloc[:0])
        if study.get("on_request") and rows.empty:
            continue
        summaries.append(
            {
                **study,
                **computing_cost(rows),
                "failed": int((rows["status"] != "ok").sum()),
                "repetitions": int(rows.groupby("config_hash")["repeat"].nunique().max()) if len(rows) else 0,
                "command": f"kmdr study={study['name']}",
            }
        )
    return summaries


def _papers_run(contents: Contents, configs: Sequence[Mapping[str, Any]]) -> list[Paper]:
    """Return the papers of which the folder has, or its run was to make, rows of a study, a multiverse or a fact."""
    studies = contents.results.studies | contents.plan.get("studies", {}).keys()
    names = {str(study.get("paper")) for study in configs if study["name"] in studies}
    names |= {run.spec.paper for run in contents.multiverses}
    names |= {name.partition("_")[0] for name in contents.results.facts}
    return [paper for paper in papers() if paper.name in names]


def _unread(results: Results, configs: Sequence[Mapping[str, Any]]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the titles of the studies that no item, claim or flip reads: custom ones, and those beyond their paper."""
    readers: list[Item | Claim] = [*items(), *claims()]
    read = {name for reader in readers for name in reader.studies} | {flip.study for flip in flips(configs)}
    known = {"custom": {"title": "Your runs"}, **{study["name"]: study for study in configs}}
    custom, beyond = dict[str, str](), dict[str, str]()
    for name in results.columns(["study"], every=True)["study"].unique():
        if name not in read and not name.startswith(STUDY) and name not in (ATLAS, ATLAS_TIMES):
            config = known.get(name, {})
            (beyond if config.get("beyond_paper") else custom)[name] = config.get("title") or name
    return custom, beyond


def _config(rows: pd.DataFrame, study: str, title: str) -> Mapping[str, Any]:
    """Return the datasets and reducers of rows outside the configured studies in the form of a configuration."""
    of_study = rows[rows["study"] == study]
    names = {f"{column}s": sorted(map(str, of_study[column].unique())) for column in ("dataset", "reducer")}
    return {"name": study, "paper": "", "title": title, **names}


def report_of(
    contents: Contents,
    configs: Sequence[Mapping[str, Any]],
    tell: Callable[[str], None] = lambda _: None,
    formats: Sequence[str] = FORMATS,
) -> Report:
    """Make figures and tables of a folder, judge the claims, and gather what the report shows.

    ``configs`` has the ``study`` tree of every study's configuration, with ``repeats``; ``tell`` is called with the
    name of each part, for a progress bar.
    """
    results = contents.results
    shown = _papers_run(contents, configs)
    names = {paper.name for paper in shown}
    configs = [study for study in configs if study["name"] in results.studies or study.get("paper") in names]
    views = Views(configs)
    parts: list[Part] = [
        *([contents.atlas] if contents.atlas else []),  # what takes longest comes first, so that no worker is idle
        *contents.multiverses,
        views,
        *(item for item in items() if item.paper in names),
        *flips(configs),
        *(claim for claim in claims() if claim.paper in names),
    ]
    by_name = dict(make_parts(parts, _context(results, contents.plan, configs, formats), tell))
    made = [by_name[part_name(part)] for part in parts]
    changes: dict[str, list[Change]] = {}
    diagnoses: dict[str, list[Diagnosis]] = {}
    for flipped in (part for part in made if isinstance(part, Change)):
        changes.setdefault(flipped.flip.entry, []).append(flipped)
        for claim, diagnosis in flipped.diagnoses.items():
            diagnoses.setdefault(claim, []).append(diagnosis)
    custom, beyond = _unread(results, configs)
    rows, every_row = results.compact_rows, results.every_compact_row
    known = {study["name"] for study in configs}
    others = [_config(every_row, name, title) for name, title in custom.items() if name not in known]
    timed = results.columns(ENVIRONMENT_COLUMNS)
    register = [(point, changes.get(point.id, []), answered(point, results)) for point in open_points(shown)]
    return Report(
        shown,
        [part for part in made if isinstance(part, Reproduction)],
        judge([part for part in made if isinstance(part, Verdict)], diagnoses),
        register,
        contents.environments,
        {
            str(k): int(v)
            for k, v in results.columns(["code_version"], every=True)["code_version"].value_counts().items()
        },
        [*contents.notes, *code_notes(rows), *environment_notes(timed)],
        [*_studies(results, configs), *_studies(results, others, every_setting=True)],
        results.missing,
        contents.plan,
        {part.paper: part for part in made if isinstance(part, MultiverseSection)},
        study_runs(every_row, custom, formats),
        study_runs(every_row, beyond, formats),
        rows_by_environment(timed),
        cast("Mapping[str, Any]", by_name[part_name(views)]),
        others=[paper for paper in papers() if paper not in shown],
        atlas=next((part for part in made if isinstance(part, AtlasSection)), None),
    )


def _experiments(study: str) -> Sequence[Experiment]:
    """Return the experiments of a study; none, with a message, if a module of a class that it names is missing here."""
    try:
        return experiments(study)
    except UserError as error:
        cause: BaseException | None = error
        while cause and not isinstance(cause, ImportError):
            cause = cause.__cause__
        if not cause:
            raise
        warn(f"kmdr: warning: {error}; so the rows of {study} are not compared with what the study asks for")
        return ()


def _context(
    results: Results, plan: Mapping[str, Any], configs: Sequence[Mapping[str, Any]], formats: Sequence[str] = FORMATS
) -> Context:
    datasets = {study["name"]: study["datasets"] for study in configs}
    differences = departures(results.compact_rows, _experiments, plan, results.missing)
    rows, every_row = results.compact_rows, results.every_compact_row
    other_rows = None if every_row is rows else every_row
    return Context(results, datasets, differences, flips(configs), formats, other_rows, seed_settings(rows))


def draw_items(folder: Path, wanted: Collection[str], configs: Sequence[Mapping[str, Any]]) -> list[Path]:
    """Write the tables and figures that read some studies, but no report; a study that none reads gets a plain figure.

    ``configs`` has every study.
    """
    results = Results.from_folder(folder)
    context = _context(results, read_or_note(plan_of, folder, []), configs)
    made = [make_item(item, context) for item in items() if set(item.studies) & set(wanted)]
    shown = {name for item in items() for name in item.studies}
    plain = {study["name"]: study for study in configs if study["name"] in set(wanted) - shown}
    asked, notes = ({name: study[what] for name, study in plain.items()} for what in ("datasets", "note"))
    files = {path: content for item in made for path, content in item.files.items()}
    return write_files(folder, files | figures_of_studies(results.every_row, asked, results.missing, notes))


def build(
    folder: Path,
    configs: Sequence[Mapping[str, Any]],
    *,
    again: bool = False,
    tell: Callable[[str], None] = lambda _: None,
    formats: Sequence[str] = FORMATS,
) -> Path:
    """Write figures, tables, verdicts and the report of a folder, unless they are current; return the page.

    ``configs`` has every study. With ``again`` they are written even if they are current; ``tell`` is called with the
    name of each part, for a progress bar. Raise `UserError` when the folder has no rows, or holds what kmdr does not
    write.
    """
    check_places(folder)
    made_from = fingerprint(folder)
    if again or not _is_made_from(folder, made_from):
        sweep_abandoned(folder)
        contents = read_contents(folder)
        report = with_seeds(report_of(contents, configs, tell, formats), contents.earlier)
        tell("the page")
        pages = report_pages(report, code_version())
        files = report.files | verdict_tables(report) | pages | {_MADE_FROM: made_from}
        for path in files:
            other = path.with_suffix("") if path.suffix == ".xz" else path.with_name(f"{path.name}.xz")
            if path.suffix in (".xz", ".csv"):
                remove_file(folder, folder / other)  # of an earlier report, plain or compressed
        write_files(folder, files)
    return folder / _PAGE


def is_current(folder: Path) -> bool:
    """Return True if a folder has a report that was made by this code from what the folder holds now."""
    return _is_made_from(folder, fingerprint(folder))


def _is_made_from(folder: Path, made_from: bytes) -> bool:
    return file_status(folder, folder / _PAGE) is not None and read_file(folder, folder / _MADE_FROM) == made_from
