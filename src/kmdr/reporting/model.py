"""What a report shows, as values: made by `kmdr.reporting.build`, laid out by `kmdr.reporting.html`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from kmdr.claims.catalogue import Item, OpenPoint, Paper
from kmdr.claims.register import Change
from kmdr.claims.verdicts import Verdict
from kmdr.figures.tables import Table
from kmdr.multiverse.section import MultiverseSection
from kmdr.reporting.study_runs import StudyRuns

State = Literal["rerun", "in part", "not run", "changed"]


@dataclass(frozen=True)
class Reproduction:
    """A table or figure as it was made, or why it was not.

    Attributes
    ----------
    item : Item
    state : {"rerun", "in part", "not run", "changed"}
        In part: some of its datasets could not be had, stand-ins took their place, or repetitions are missing. Changed:
        rows that it shows are of other settings than the paper's.
    files : mapping of Path to bytes
        By their paths within the folder: PDF, PNG, CSV, or CSV, Markdown, LaTeX.
    numbers : DataFrame
        What it shows.
    table : Table or None
    gaps : tuple of str
        What is missing, with the reason.
    stand_ins : tuple of str
        What stood in for what.
    command : str
        What reruns it.
    changed : str
        Which settings of which study are others, and how many repetitions there are; empty where all is as configured.
    """

    item: Item
    state: State
    files: Mapping[Path, bytes]
    numbers: pd.DataFrame
    table: Table | None
    gaps: tuple[str, ...]
    stand_ins: tuple[str, ...]
    command: str
    changed: str = ""


@dataclass(frozen=True)
class Report:
    """What the report shows.

    Attributes
    ----------
    papers : sequence of Paper
    items : sequence of Reproduction
    verdicts : sequence of Verdict
    register : sequence of (OpenPoint, list of Change, str)
        The last is the answer of a point that no study flips.
    environments : mapping
        Manifests by hash, of those that the rows name.
    code_versions : mapping of str to int
        Rows of each version of the code.
    code_notes : sequence of str
        Which rows are refused and which files are damaged, which rows that are shown together were made by several
        versions of the code that computes them, and which times are of several environments.
    studies : sequence of mapping
        Name, title, datasets, reducers, repetitions, rows, failed rows, seconds, command.
    missing : mapping
        Why which datasets could not be had.
    plan : mapping
        What was asked for: a budget, a thinned grid (``plan.json``); empty for a full run.
    multiverses : mapping of str to MultiverseSection
        By paper, of those that have rows.
    own, beyond : sequence of StudyRuns
        What no paper knows, and what goes beyond one.
    made_on : mapping of str to mapping of str to int
        How many rows of each study each environment made.
    explored : mapping
        What the page lets its reader explore, as `kmdr.reporting.explore.explored` gives it; empty for none.
    """

    papers: Sequence[Paper]
    items: Sequence[Reproduction]
    verdicts: Sequence[Verdict]
    register: Sequence[tuple[OpenPoint, list[Change], str]]
    environments: Mapping[str, Mapping[str, Any]]
    code_versions: Mapping[str, int]
    code_notes: Sequence[str]
    studies: Sequence[Mapping[str, Any]]
    missing: Mapping[str, str]
    plan: Mapping[str, Any]
    multiverses: Mapping[str, MultiverseSection] = field(default_factory=dict)
    own: Sequence[StudyRuns] = ()
    beyond: Sequence[StudyRuns] = ()
    made_on: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    explored: Mapping[str, Any] = field(default_factory=dict)

    @property
    def files(self) -> dict[Path, bytes]:
        """Return the files of all figures and tables, by their paths within the folder."""
        pieces = [piece for section in self.multiverses.values() for piece in section.pieces]
        files = [part.files for parts in (self.items, pieces, self.own, self.beyond) for part in parts]
        return {path: content for of_part in files for path, content in of_part.items()}
