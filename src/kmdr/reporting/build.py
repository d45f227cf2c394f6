"""Everything that is made of a folder of results: figures, tables, verdicts, the register and the report.

Only the folder and the reported numbers are read, so the same folder gives the same report, with or without the data:
facts are computed by the run (`kmdr.harness.facts`).
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import cpu_count

from kmdr.analysis.departures import Departure, departures
from kmdr.analysis.environments import environment_notes, rows_by_environment
from kmdr.analysis.results import NotRunError, Recorder, Results, attempt
from kmdr.analysis.rows import code_notes
from kmdr.base.errors import UserError
from kmdr.base.files import sweep_abandoned
from kmdr.base.provenance import code_version
from kmdr.base.text import tell as say
from kmdr.claims.catalogue import Claim, Item, claims, gaps, items, papers, rerun_command
from kmdr.claims.protocols import reconstructed
from kmdr.claims.register import Change, Flip, answered, change, flips, open_points
from kmdr.claims.verdicts import GROUPS, Diagnosis, Verdict, judge, under_changed_protocol, verdict_on
from kmdr.config.studies import studies
from kmdr.figures.canvas import Drawing, add_notes, save
from kmdr.figures.escape import spreadsheet_csv
from kmdr.figures.panels import figures_of_studies
from kmdr.figures.tables import save_table
from kmdr.harness.engines.local import Lost, Workers
from kmdr.harness.experiment import experiments
from kmdr.multiverse.choices import FILE, Multiverse, multiverses
from kmdr.multiverse.run import STUDY
from kmdr.multiverse.section import MultiverseSection, multiverse_section
from kmdr.reporting.explore import explored
from kmdr.reporting.html import changes_at, evidence, write_report
from kmdr.reporting.model import Report, Reproduction, State
from kmdr.reporting.own import own_runs
from kmdr.results.folder import file_status, list_files, read_file, write_file
from kmdr.results.json_files import environments_of, plan_of, read_or_note, universes_of
from kmdr.results.paths import ASKED, UNIVERSES, multiverse_folder
from kmdr.results.reader import check_places
from kmdr.results.stream import open_table
from kmdr.results.table import rows_file


def _reproduce(
    item: Item,
    results: Results,
    datasets: Mapping[str, Sequence[str]],
    folder: Path,
    departures: Mapping[str, Departure],
) -> Reproduction:
    """Make one table or figure and its files.

    Parameters
    ----------
    item : Item
    results : Results
    datasets : mapping
        Those of each study, to tell which of them are missing.
    folder : Path
    departures : mapping
        How the rows of a study differ from what it asks for.
    """
    recorder = Recorder(results)
    missing = gaps(results, item, datasets)
    command = rerun_command(item, {study: departure.overrides for study, departure in departures.items()})

    def not_run(reason: NotRunError) -> Reproduction:
        return Reproduction(item, "not run", (), pd.DataFrame(), None, (str(reason), *missing), (), command)

    try:
        content = attempt(item.make, recorder)
    except NotRunError as reason:
        return not_run(reason)
    rows = recorder.rows_read()
    texts = rows[["dataset", "stand_in"]].drop_duplicates()
    stand_ins = tuple(f"{name}: {text}" for name, text in texts.itertuples(index=False) if text)
    of_item = {str(study): departures[study] for study in rows["study"].unique() if study in departures}
    told = "; ".join(departure.told(study) for study, departure in of_item.items())
    changed = any(departure.settings for departure in of_item.values())
    notes = [f"Changed protocol: {told}."] if changed else [f"Of {told}."] if told else []
    if isinstance(content, Drawing):
        drawing = content
        add_notes(drawing.figure, [*notes, *code_notes(rows)])
        try:  # values that no scale can show are found when it is drawn
            files = attempt(lambda _: save(drawing, folder / "figures" / item.id), results)
        except NotRunError as reason:
            return not_run(reason)
        numbers, table = content.numbers, None
    else:
        content = replace(content, note=" ".join(filter(None, (*notes, content.note, *code_notes(rows)))))
        files = save_table(content, folder / "tables" / item.id)
        numbers, table = content.frame, content
    relative = tuple(file.relative_to(folder) for file in files)
    state: State = "changed" if changed else "in part" if missing or stand_ins or told else "rerun"
    return Reproduction(item, state, relative, numbers, table, missing, stand_ins, command, "".join(notes))


# Figures and tables from which on a report is made by several processes, each of which takes seconds to start.
_MANY = 8
Part = Item | Flip | Claim | Multiverse
Product = Reproduction | Change | Verdict | MultiverseSection


def _name(part: Part) -> str:
    if isinstance(part, Multiverse):
        return f"{part.paper}, multiverse"
    return part.study if isinstance(part, Flip) else part.id


@cache
def _results(folder: Path, changed: int) -> Results:
    """Read a folder once a process, and again when its table has changed."""
    del changed
    return Results.of_folder(folder)


def _read_once(folder: Path) -> Results:
    status = file_status(folder, rows_file(folder))
    return _results(folder, status.st_mtime_ns if status else 0)


def _settled(spec: Multiverse, results: Results, folder: Path) -> MultiverseSection:
    """Make what is shown of a multiverse; of one whose rows have a folder of their own, say so, and which code ran."""
    home = multiverse_folder(folder)
    if home == folder:
        return multiverse_section(results, spec, universes_of(home)[spec.paper], folder)
    of_home = _read_once(home)
    studies = [f"{STUDY}{name}" for name in spec.studies]
    of_paper = of_home.trials(studies)
    section = multiverse_section(results.replaced(of_paper), spec, universes_of(home)[spec.paper], folder)
    where = f"Its {len(of_paper)} rows are in {home.name}/{rows_file(home).name}."
    return replace(section, sentences=(*section.sentences, where, *of_home.notes, *code_notes(of_paper)))


def _made(
    results: Results,
    datasets: Mapping[str, Sequence[str]],
    folder: Path,
    departures: Mapping[str, Departure],
    part: Part,
) -> Product:
    """Make one part of a report: a table or figure, what a flip changes, what a claim's test finds, or a multiverse."""
    if isinstance(part, Item):
        return _reproduce(part, results, datasets, folder, departures)
    if isinstance(part, Multiverse):
        return _settled(part, results, folder)
    if isinstance(part, Flip):
        return change(results, part)
    verdict = replace(verdict_on(part, results, datasets), reconstructed=reconstructed(part, results, flips(studies())))
    return under_changed_protocol(verdict, departures)


def _all_made(
    parts: Sequence[Part],
    results: Results,
    datasets: Mapping[str, Sequence[str]],
    folder: Path,
    departing: Mapping[str, Departure],
    tell: Callable[[str], None],
) -> Iterator[tuple[str, Product]]:
    """Make parts of a report, on all cores where there is enough to be made; yield each with its name when it is."""
    drawn = sum(isinstance(part, Item) and not results.studies.isdisjoint(part.studies) for part in parts)
    size = cpu_count() if drawn >= _MANY else 1
    if size == 1:
        for part in parts:
            tell(_name(part))
            yield _name(part), _made(results, datasets, folder, departing, part)
        return
    with Workers(_made, 1, say, (results, datasets, folder, departing)) as workers:
        for (part,), made in workers.run(((part,) for part in parts), size, lambda call: _name(call[0])):
            name = _name(part)
            if isinstance(made, Lost):
                raise UserError(f"{name} cannot be made: {made.reason}; make room, and the same command does it")
            tell(name)
            yield name, made


def _studies(results: Results, configs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return what was run of each study; of one on request, if there is anything."""
    summaries: list[Mapping[str, Any]] = []
    steps = ["reduce_seconds", "cluster_seconds", "score_seconds"]
    every = results.columns(["study", "config_hash", "repeat", "status", "prepare_seconds", *steps])
    of_studies = {str(name): of_study for name, of_study in every.groupby("study")}
    for study in configs:
        rows = of_studies.get(study["name"], every.iloc[:0])
        if study.get("on_request") and rows.empty:
            continue
        seconds = np.nansum(rows[steps].to_numpy(dtype=float))
        prepare = rows.groupby(["config_hash", "repeat"])["prepare_seconds"].max().sum() if len(rows) else 0.0
        summaries.append(
            {
                **study,
                "rows": len(rows),
                "failed": int((rows["status"] != "ok").sum()),
                "repetitions": int(rows.groupby("config_hash")["repeat"].nunique().max()) if len(rows) else 0,
                "seconds": float(seconds + prepare),
                "command": f"kmdr study={study['name']}",
            }
        )
    return summaries


def _unread(results: Results, configs: Sequence[Mapping[str, Any]]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the titles of the studies that nothing reads: somebody's own, and those of ours beyond their papers."""
    readers: list[Item | Claim] = [*items(), *claims()]
    read = {name for reader in readers for name in reader.studies} | {flip.study for flip in flips(configs)}
    known = {"custom": {"title": "Runs outside any study"}, **{study["name"]: study for study in configs}}
    own, beyond = dict[str, str](), dict[str, str]()
    for name in results.columns(["study"], every=True)["study"].unique():
        if name not in read and not name.startswith(STUDY):
            config = known.get(name, {})
            (beyond if config.get("beyond_paper") else own)[name] = config.get("title") or name
    return own, beyond


def report_of(
    folder: Path,
    results: Results,
    configs: Sequence[Mapping[str, Any]],
    tell: Callable[[str], None] = lambda _: None,
) -> Report:
    """Make figures and tables of a folder, judge the claims, and gather what the report shows.

    Parameters
    ----------
    folder : Path
        Holds rows, facts, ``missing.json``.
    results : Results
        Of that folder.
    configs : sequence of mapping
        The ``study`` tree of every study's configuration, with ``repeats``.
    tell : callable
        Gets the name of each thing that is made, for a progress bar.

    Returns
    -------
    Report
    """
    notes = [*results.notes]
    environments = environments_of(folder, results.columns(["env_hash"]), notes)
    plan = read_or_note(plan_of, folder, notes)
    datasets = {study["name"]: study["datasets"] for study in configs}
    run = read_or_note(universes_of, multiverse_folder(folder), notes)
    parts: list[Part] = [*items(), *flips(configs), *claims(), *multiverses(run)]
    departing = departures(results.all_rows, experiments, plan, results.missing)
    by_name = dict(_all_made(parts, results, datasets, folder, departing, tell))
    made = [by_name[_name(part)] for part in parts]
    changes: dict[str, list[Change]] = {}
    diagnoses: dict[str, list[Diagnosis]] = {}
    for flipped in (part for part in made if isinstance(part, Change)):
        changes.setdefault(flipped.flip.entry, []).append(flipped)
        for claim, diagnosis in flipped.diagnoses.items():
            diagnoses.setdefault(claim, []).append(diagnosis)
    own, beyond = _unread(results, configs)
    rows, every_row = results.all_rows, results.every_row
    register = [(point, changes.get(point.id, []), answered(point, results)) for point in open_points()]
    return Report(
        folder,
        papers(),
        [part for part in made if isinstance(part, Reproduction)],
        judge([part for part in made if isinstance(part, Verdict)], diagnoses),
        register,
        environments,
        {str(k): int(v) for k, v in results.columns(["code_version"])["code_version"].value_counts().items()},
        [*notes, *code_notes(rows), *environment_notes(rows)],
        _studies(results, configs),
        results.missing,
        plan,
        {part.paper: part for part in made if isinstance(part, MultiverseSection)},
        own_runs(folder, every_row, own),
        own_runs(folder, every_row, beyond),
        rows_by_environment(rows),
        explored(every_row[~every_row["study"].str.startswith(STUDY)], configs),
    )


def write_verdicts(report: Report) -> list[Path]:
    """Write ``verdicts.csv``, a line a claim, ``components.csv``, a line a statement, and ``margins.csv``.

    The last has a line a value of a margin that is ours, with the verdict that it would give.
    """
    quotes = {id_: text for paper in report.papers for id_, text in paper.quotes.items()}
    universes = {id_: text for section in report.multiverses.values() for id_, text in section.holds.items()}
    lines = [
        {
            "claim": verdict.claim.id,
            "verdict": verdict.outcome,
            "statements_supported": verdict.count(verdict.components) if verdict.kinds else "",
            "scope": verdict.scope,
            "reconstructed_protocol": verdict.reconstructed.outcome if verdict.reconstructed else "",
            "reconstructed_statements": verdict.reconstructed.tally if verdict.reconstructed else "",
            "central_supported": verdict.count(verdict.central) if verdict.kinds else "",
            **{kind: verdict.kinds[kind].outcome if kind in verdict.kinds else "" for kind in GROUPS},
            "sentence": verdict.claim.sentence,
            "where": verdict.claim.where,
            "quote": quotes.get(verdict.claim.id, ""),
            "explanation": verdict.sentence,
            "p_for": verdict.p_for,
            "p_against": verdict.p_against,
            "deciding_component": verdict.weakest.label if verdict.weakest else "",
            "effect": verdict.weakest.effect if verdict.weakest else np.nan,
            "low": verdict.weakest.low if verdict.weakest else np.nan,
            "high": verdict.weakest.high if verdict.weakest else np.nan,
            "unit": verdict.weakest.unit if verdict.weakest else "",
            "repetitions": verdict.needed.component.n if verdict.needed.component else "",
            "repetitions_needed": verdict.needed.repetitions or "",
            "margins_of_ours": "; ".join(f"{swing.margin.what}: {swing.margin:g}" for swing in verdict.swings),
            "verdict_changes_at": "; ".join(changes_at(swing) for swing in verdict.swings),
            "universes": universes.get(verdict.claim.id, ""),
            "rows": " ".join(f"{name}:{count}" for name, count in verdict.rows.items()),
            "rows_digest": verdict.rows_digest,
            "command": verdict.command,
        }
        for verdict in report.verdicts
    ]
    components = [
        {
            "claim": verdict.claim.id,
            **{name: value for name, value in component._asdict().items() if name not in ("margin", "against")},
            "margin_of_ours": float(component.margin) if component.margin else "",
            "statement_verdict": "" if why else verdict.statement(component),
            "decides": f"no, {why}" if why else "side" if component.part in verdict.claim.side else "yes",
        }
        for verdict in report.verdicts
        for component, why in evidence(verdict)
    ]
    margins = [
        {
            "claim": verdict.claim.id,
            "what": swing.margin.what,
            "ours": float(swing.margin),
            "margin": value,
            "verdict": o,
        }
        for verdict in report.verdicts
        for swing in verdict.swings
        for value, o in zip(swing.values, swing.outcomes, strict=True)
    ]
    written = []
    for name, table in (("verdicts", lines), ("components", components), ("margins", margins)):
        path = report.folder / f"{name}.csv"
        write_file(report.folder, path, spreadsheet_csv(pd.DataFrame(table)))
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
    results = Results.of_folder(folder)
    datasets = {study["name"]: study["datasets"] for study in configs}
    plan = read_or_note(plan_of, folder, [])
    departing = departures(results.all_rows, experiments, plan, results.missing)
    written = [
        folder / file
        for item in items()
        if set(item.studies) & set(wanted)
        for file in _reproduce(item, results, datasets, folder, departing).files
    ]
    shown = {name for item in items() for name in item.studies}
    plain = {study["name"]: study for study in configs if study["name"] in set(wanted) - shown}
    asked, notes = ({name: study[what] for name, study in plain.items()} for what in ("datasets", "note"))
    return written + figures_of_studies(results.every_row, folder, asked, reasons=results.missing, notes=notes)


def build(
    folder: Path,
    configs: Sequence[Mapping[str, Any]],
    *,
    again: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> Path:
    """Make figures, tables, verdicts and the report of a folder; nothing where all that is there already.

    Parameters
    ----------
    folder : Path
    configs : sequence of mapping
        Every study.
    again : bool
        Whether to make it again even if nothing that it is made from has changed.
    tell : callable
        Gets the name of each thing that is made, for a progress bar.

    Returns
    -------
    Path
        The report.

    Raises
    ------
    UserError
        When the folder has no rows, or holds what kmdr does not write.
    """
    check_places(folder)
    page = folder / "report" / "index.html"
    if not again and is_current(folder):
        return page
    sweep_abandoned(folder)
    results = Results.of_folder(folder)
    report = report_of(folder, results, configs, tell)
    write_verdicts(report)
    tell("the page")
    write_report(report, code_version())
    write_file(folder, folder / "report" / ".made_from", _made_from(folder))
    return page


def is_current(folder: Path) -> bool:
    """Return whether a folder has a report, made from what the folder holds now by the current code."""
    page = file_status(folder, folder / "report" / "index.html")
    return page is not None and read_file(folder, "report/.made_from") == _made_from(folder)


def _made_from(folder: Path) -> bytes:
    """Return a hash of what a report is made from: rows, facts, what is missing, the plan, the code and its papers."""
    digest = sha256(code_version().encode())
    inputs = [rows_file(folder).name, ASKED, "missing.json", "plan.json", UNIVERSES]
    home = multiverse_folder(folder)
    if home != folder:
        inputs += [f"{home.name}/{name}" for name in (rows_file(home).name, ASKED, UNIVERSES)]
    inputs += sorted(f"facts/{file.name}" for file in list_files(folder, "facts") if file.suffix == ".csv")
    for name in inputs:
        try:
            with open_table(folder, name) as table:  # the same rows, compressed or not, give the same report
                if table is not None:
                    digest.update(Path(name).name.removesuffix(".xz").encode() + file_digest(table, "sha256").digest())
        except UserError as error:  # the report says so
            digest.update(str(error).encode())
    read = ("paper.toml", "reported.csv", "counts.csv", FILE)
    for file in (paper.folder.folder / name for paper in papers() for name in read):
        digest.update(file.name.encode() + (sha256(file.read_bytes()).digest() if file.is_file() else b""))
    return f"{digest.hexdigest()}\n".encode()
