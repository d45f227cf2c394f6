"""Everything that a report is made from, read from a folder of results once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

import pandas as pd

from kmdr.analysis.results import Results
from kmdr.atlas.design import STUDY as ATLAS
from kmdr.atlas.effects import KEY, effects, third_party_effects
from kmdr.atlas.evidence import TRAITS_FACT, atlas_folder, select_atlas, with_forms
from kmdr.atlas.run import command_of
from kmdr.base.errors import UserError
from kmdr.base.identity import is_own
from kmdr.base.plugins import origin_of_paper, origin_of_root, plugin_roots
from kmdr.base.private_paths import without_folders
from kmdr.base.process import release_memory
from kmdr.base.provenance import code_version
from kmdr.claims.catalogue import papers
from kmdr.multiverse.choices import FILE, STUDY, Multiverse, multiverses
from kmdr.reporting.seeds import FILE as SEEDS
from kmdr.reporting.seeds import read_earlier
from kmdr.results.folder import list_contents
from kmdr.results.json_files import Settled, environments_of, plan_of, read_or_note, universes_of
from kmdr.results.paths import ASKED, MISSING, PLAN, UNIVERSES, multiverse_folder
from kmdr.results.table import rows_file
from kmdr.results.table_stream import open_table
from kmdr.results.typed_rows import to_categories
from kmdr.submissions import SUBMITTED, UNCHECKED, submissions, submissions_digest


@dataclass(frozen=True)
class MultiverseRun:
    """A multiverse that was run.

    Attributes
    ----------
    rows : DataFrame or None
        Its rows with text as categories, if they have a folder of their own.
    table : str
        Where these rows are, within the folder of results.
    notes : tuple of str
        Sentences on refused rows and damaged files of that folder.
    """

    spec: Multiverse
    universes: list[Settled]
    rows: pd.DataFrame | None = None
    table: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class AtlasRun:
    """An atlas that was run.

    Attributes
    ----------
    effects : DataFrame
        From `kmdr.atlas.effects.effects`.
    traits : DataFrame or None
        Of its data, by ``dataset`` and ``form``; None if the folder has none.
    provenance : mapping of str to str
        By submitted method: who submitted it, and how its rows were checked.
    command : str
        That runs its methods again.
    """

    effects: pd.DataFrame
    traits: pd.DataFrame | None
    provenance: Mapping[str, str] = field(default_factory=dict)
    command: str = "kmdr atlas"


@dataclass(frozen=True)
class Contents:
    """The contents of a folder of results, as far as a report shows them.

    Attributes
    ----------
    results : Results
        Rows, facts and missing datasets.
    environments : mapping
        By hash: the manifests of the environments that the rows name.
    plan : mapping
        What was planned (``plan.json``).
    notes : list of str
        Sentences on refused rows and damaged files.
    earlier : DataFrame or None
        Statements of an earlier seed, see `kmdr.reporting.seeds`.
    atlas : AtlasRun or None
        The atlas, if it was run into the folder or its subfolder.
    """

    results: Results
    environments: Mapping[str, Mapping[str, Any]]
    plan: Mapping[str, Any]
    multiverses: list[MultiverseRun]
    notes: list[str]
    earlier: pd.DataFrame | None = None
    atlas: AtlasRun | None = None


def read_contents(folder: Path) -> Contents:
    """Read a folder of results; raise `UserError` if it has no valid rows."""
    results = Results.from_folder(folder)
    notes = [*results.notes]
    rows = results.columns(["env_hash"])
    environments = environments_of(folder, rows, notes)
    plan = read_or_note(plan_of, folder, notes)
    try:
        earlier = read_earlier(folder)
    except UserError as error:
        earlier = None
        notes.append(without_folders(str(error)))
    runs, atlas = _multiverse_runs(folder, notes), _atlas_run(folder, results, notes)
    contents = Contents(results, environments, plan, runs, notes, earlier, atlas)
    release_memory()  # of the rows as text
    return contents


def _atlas_run(folder: Path, results: Results, notes: list[str]) -> AtlasRun | None:
    """Return the atlas that was run into a folder, or into its subfolder for the rows of an atlas."""
    home = atlas_folder(folder)
    if home != folder:
        results = Results.from_folder(home)
        notes += results.notes
    if ATLAS not in results.studies:
        return None
    traits = results.fact(TRAITS_FACT) if TRAITS_FACT in results.facts else None
    rows = select_atlas(results.every_row)
    lines, provenance = _with_submitted(effects(rows), rows, folder, notes)
    return AtlasRun(lines, None if traits is None else with_forms(traits), provenance, command_of(rows))


def _with_submitted(
    lines: pd.DataFrame, rows: pd.DataFrame, folder: Path, notes: list[str]
) -> tuple[pd.DataFrame, Mapping[str, str]]:
    """Return effects, with submissions next to a folder of results, and who submitted which method.

    Each name ends with that of its submission, so that no two are equal, none is one of kmdr's, and no submission
    changes the names of another. Methods whose rows nobody could recompute say so, because sentences name the leaders.
    """
    several: list[pd.DataFrame] = [lines]
    provenance: dict[str, str] = {}
    for submission in submissions(folder.absolute().parent / SUBMITTED):
        try:
            results = Results.from_folder(submission.folder)
        except UserError as error:
            notes.append(without_folders(str(error)))
            continue
        notes += results.notes
        submitted = third_party_effects(select_atlas(results.every_row), rows)
        status = f", {UNCHECKED}" if submission.status == UNCHECKED else ""
        names = {name: f"{name} ({submission.name}{status})" for name in submitted["method"].unique()}
        several.append(submitted.assign(method=submitted["method"].map(names)))
        provenance |= dict.fromkeys(names.values(), f"{submission.author or 'no author'}: {submission.status}")
    table = pd.concat([some for some in several if len(some)] or [lines], ignore_index=True)
    return table.sort_values(KEY, kind="stable", ignore_index=True), provenance


def _multiverse_runs(folder: Path, notes: list[str]) -> list[MultiverseRun]:
    """Return the multiverses that were run into a folder, or into its subfolder for their rows."""
    home = multiverse_folder(folder)
    universes = read_or_note(universes_of, home, notes)
    specs = multiverses(universes)
    if home == folder or not specs:
        return [MultiverseRun(spec, universes[spec.paper]) for spec in specs]
    results, table = Results.from_folder(home), f"{home.name}/{rows_file(home).name}"
    runs = []
    for spec in specs:
        rows = to_categories(results.trials([f"{STUDY}{name}" for name in spec.studies]))
        runs.append(MultiverseRun(spec, universes[spec.paper], rows, table, tuple(results.notes)))
    return runs


def fingerprint(folder: Path) -> bytes:
    """Return a hash of what a report is made from: rows, facts, missing datasets, plan, code, plugins and papers."""
    digest = sha256(code_version().encode())
    inputs = [rows_file(folder).name, ASKED, MISSING, PLAN, UNIVERSES, SEEDS]
    home = multiverse_folder(folder)
    if home != folder:
        inputs += [f"{home.name}/{name}" for name in (rows_file(home).name, ASKED, UNIVERSES)]
    inputs += sorted(f"facts/{file.name}" for file in list_contents(folder, "facts") if file.suffix == ".csv")
    atlas = atlas_folder(folder)
    if atlas != folder:
        inputs += [f"{atlas.name}/{name}" for name in (rows_file(atlas).name, ASKED, f"facts/{TRAITS_FACT}.csv")]
    digest.update(submissions_digest(folder.absolute().parent / SUBMITTED).encode())
    for name in inputs:
        try:
            with open_table(folder, name) as table:  # the same rows, compressed or not, give the same report
                if table is not None:
                    digest.update(Path(name).name.removesuffix(".xz").encode() + file_digest(table, "sha256").digest())
        except UserError as error:  # the report says so
            digest.update(str(error).encode())
    # code_version() is of kmdr alone.
    external = [paper.folder for paper in papers() if not is_own(paper.folder.package)]
    digest.update("\n".join([*map(origin_of_root, plugin_roots()), *map(origin_of_paper, external)]).encode())
    read = ("paper.toml", "reported.csv", "counts.csv", FILE)
    for file in (paper.folder.folder / name for paper in papers() for name in read):
        digest.update(file.name.encode() + (sha256(file.read_bytes()).digest() if file.is_file() else b""))
    return f"{digest.hexdigest()}\n".encode()
