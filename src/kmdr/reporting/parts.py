"""The parts of a report from results alone: tables, figures, claims, flipped choices, multiverses, atlas, views."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pandas as pd
from joblib import cpu_count, dump, load

from kmdr.analysis.departures import Departure
from kmdr.analysis.results import NotRunError, Recorder, Results, attempt
from kmdr.analysis.rows import code_notes
from kmdr.atlas.section import AtlasSection, atlas_section
from kmdr.base.errors import UserError
from kmdr.base.files import temporary_folder
from kmdr.base.process import release_memory
from kmdr.base.text import counted
from kmdr.base.text import tell as say
from kmdr.claims.agreement import agreement, reconstructed_agreement
from kmdr.claims.catalogue import Claim, Item, attempt_part, gaps, rerun_command
from kmdr.claims.implementations import basis_of
from kmdr.claims.protocols import reconstructed
from kmdr.claims.register import Change, Flip, change
from kmdr.claims.verdicts import Verdict, mark_changed_protocol, verdict_on
from kmdr.figures.canvas import FORMATS, Drawing, add_notes, figure_files
from kmdr.figures.panels import dataset_label
from kmdr.figures.tables import Table, table_files
from kmdr.harness.engines.local import Lost, Workers
from kmdr.multiverse.choices import STUDY
from kmdr.multiverse.section import MultiverseSection, multiverse_section
from kmdr.reporting.contents import AtlasRun, MultiverseRun
from kmdr.reporting.explore import explored
from kmdr.reporting.model import Reproduction, State
from kmdr.results.outdated import CODE_COLUMNS
from kmdr.results.typed_rows import to_text

# A report of so many tables and figures is made by several processes, each of which takes seconds to start.
_MANY = 8


@dataclass(frozen=True)
class Views:
    """The data of the views "Answers" and "Explore"; ``configs`` is the ``study`` tree of every study."""

    configs: Sequence[Mapping[str, Any]]


Part = Item | Flip | Claim | MultiverseRun | AtlasRun | Views
Product = Reproduction | Change | Verdict | MultiverseSection | AtlasSection | Mapping[str, Any]


@dataclass(frozen=True)
class Context:
    """The inputs of every part of a report.

    Attributes
    ----------
    datasets : mapping of str to sequence of str
        The datasets of each study.
    departures : mapping of str to Departure
        Differences between the rows of a study and its configuration.
    flips : sequence of Flip
        Of all studies.
    formats : sequence of str
        Of figures; see `kmdr.figures.canvas.figure_files`.
    every_row : DataFrame, optional
        All rows of the folder, if some are of earlier configurations, which the results lack.
    seeds : mapping of str to tuple of str
        From `kmdr.analysis.departures.seed_settings`.
    """

    results: Results
    datasets: Mapping[str, Sequence[str]]
    departures: Mapping[str, Departure]
    flips: Sequence[Flip]
    formats: Sequence[str] = FORMATS
    every_row: pd.DataFrame | None = None
    seeds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def overrides(self) -> dict[str, tuple[str, ...]]:
        """Return the settings, by study, that a command needs for the rows of the folder."""
        return {**self.seeds, **{study: departure.overrides for study, departure in self.departures.items()}}


def _content(item: Item, results: Results) -> Drawing | Table:
    content: Any = item.make(results)
    if not isinstance(content, Drawing | Table):
        raise TypeError(f"{type(content).__name__} is neither a Drawing nor a Table")
    return content


def make_item(item: Item, context: Context) -> Reproduction:
    """Make a table or figure and its files."""
    results, departures = context.results, context.departures
    recorder = Recorder(results)
    missing = gaps(results, item, context.datasets)
    command = rerun_command(item, context.overrides, results.studies)

    def not_run(reason: NotRunError) -> Reproduction:
        return Reproduction(item, "not run", {}, pd.DataFrame(), None, (str(reason), *missing), (), command)

    try:
        content = attempt_part(partial(_content, item), recorder, item.make)
    except NotRunError as reason:
        return not_run(reason)
    rows = recorder.rows_read([*CODE_COLUMNS, "stand_in", "status"])
    texts = rows[["dataset", "stand_in"]].drop_duplicates()
    stand_ins = tuple(f"{dataset_label(name)}: {text}" for name, text in texts.itertuples(index=False) if text)
    of_item = {str(study): departures[study] for study in rows["study"].unique() if study in departures}
    differences = "; ".join(departure.describe(study) for study, departure in of_item.items())
    changed = any(departure.settings for departure in of_item.values())
    notes = [f"{'Changed protocol' if changed else 'Rows'}: {differences}."] if differences else []
    if isinstance(content, Drawing):
        drawing = content
        add_notes(drawing.figure, notes)
        try:  # drawing fails on values that no scale can show
            files = attempt(lambda _: figure_files(drawing, Path("figures", item.id), context.formats), results)
        except NotRunError as reason:
            return not_run(reason)
        numbers, table = content.numbers, None
    else:
        content = replace(content, note=" ".join(filter(None, (*notes, content.note, *code_notes(rows)))))
        files = table_files(content, Path("tables", item.id))
        numbers, table = content.frame, content
    state: State = "changed" if changed else "in part" if missing or stand_ins or differences else "rerun"
    return Reproduction(
        item, state, files, numbers, table, missing, stand_ins, command, "".join(notes), agreement(item.id, numbers),
        reconstructed_agreement(item.id, numbers),
    )  # fmt: skip


def _make_multiverse(run: MultiverseRun, context: Context) -> MultiverseSection:
    """Return the section of a multiverse; for rows in their own folder, with sentences on that folder."""
    results, every = context.results, context.results.compact_rows
    configs = {config for universe in run.universes for config in universe.configs}
    others = to_text(every[every["config_hash"].isin(configs) & (every["status"] == "ok")])
    if run.rows is None:
        return multiverse_section(results, run.spec, run.universes, context.formats, others)
    rows = to_text(run.rows)
    section = multiverse_section(results.replaced(rows), run.spec, run.universes, context.formats, others)
    where = f"Its {counted(len(rows), 'row is', 'rows are')} in {run.table}."
    return replace(section, sentences=(*section.sentences, where, *run.notes, *code_notes(rows)))


def part_name(part: Part) -> str:
    """Return the name of a part, unique in a report."""
    if isinstance(part, MultiverseRun):
        return f"{part.spec.paper}, multiverse"
    if isinstance(part, AtlasRun):
        return "the atlas"
    if isinstance(part, Views):
        return "the views of all numbers"
    return part.study if isinstance(part, Flip) else part.id


def make_part(context: Context, part: Part) -> Product:
    """Make one part of a report."""
    if isinstance(part, Item):
        return make_item(part, context)
    if isinstance(part, MultiverseRun):
        return _make_multiverse(part, context)
    if isinstance(part, AtlasRun):
        section = atlas_section(part.effects, part.traits, context.formats, part.provenance)
        return replace(section, command=part.command)
    if isinstance(part, Flip):
        return change(context.results, part)
    if isinstance(part, Views):
        rows = context.results.compact_rows if context.every_row is None else context.every_row
        return explored(rows[~rows["study"].str.startswith(STUDY)], part.configs)
    verdict = verdict_on(part, context.results, context.datasets)
    verdict = replace(
        verdict,
        reconstructed=reconstructed(part, context.results, context.flips),
        basis=basis_of(verdict, context.results, context.flips),
    )
    command = rerun_command(part, context.overrides, context.results.studies)
    return replace(mark_changed_protocol(verdict, context.departures), command=command)


@cache
def _shared_context(file: Path) -> Context:
    """Return the inputs of all parts from a file, whose arrays are mapped, so that all workers share their memory."""
    context: Context = load(file, mmap_mode="c")
    return context


def _make_shared(file: Path, part: Part) -> Product:
    made = make_part(_shared_context(file), part)
    release_memory()  # other workers may need it
    return made


def make_parts(parts: Sequence[Part], context: Context, tell: Callable[[str], None]) -> Iterator[tuple[str, Product]]:
    """Make the parts of a report, on all cores if there are many figures; yield each with its name when it is ready."""
    drawn = sum(isinstance(part, Item) and not context.results.studies.isdisjoint(part.studies) for part in parts)
    size = cpu_count() if drawn >= _MANY else 1
    if size == 1:
        for part in parts:
            tell(part_name(part))
            yield part_name(part), make_part(context, part)
        return
    with (
        temporary_folder(Path(gettempdir())) as folder,
        Workers(_make_shared, 1, say, (folder / "context",)) as workers,
    ):
        dump(context, folder / "context")
        release_memory()
        for (part,), made in workers.run(((part,) for part in parts), size, lambda call: part_name(call[0])):
            name = part_name(part)
            if isinstance(made, Lost):
                raise UserError(
                    f"{name} cannot be made: {made.reason}; free memory or disk space, and the same command makes it"
                )
            tell(name)
            yield name, made
