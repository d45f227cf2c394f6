"""The report as a value: computed by `kmdr.reporting.build`, laid out by `kmdr.reporting.html`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from kmdr.atlas.section import AtlasSection
from kmdr.claims.agreement import Agreement
from kmdr.claims.catalogue import Item, OpenPoint, Paper
from kmdr.claims.register import Change
from kmdr.claims.verdicts import Verdict
from kmdr.figures.tables import Table
from kmdr.multiverse.section import MultiverseSection
from kmdr.reporting.study_runs import StudyRuns

State = Literal["rerun", "in part", "not run", "changed"]


@dataclass(frozen=True)
class Reproduction:
    """A table or figure of a paper, or the reasons why it was not made.

    Attributes
    ----------
    state : {"rerun", "in part", "not run", "changed"}
        In part: some datasets are not available or replaced by stand-ins, or repetitions are missing. Changed: some
        rows have other settings than the paper's.
    files : mapping of Path to bytes
        By their paths within the folder: PDF, PNG, CSV, or CSV, Markdown, LaTeX.
    numbers : DataFrame
        The numbers that it shows.
    gaps : tuple of str
        Missing parts, with the reasons.
    stand_ins : tuple of str
        Datasets and their stand-ins.
    command : str
        The command that reruns it.
    changed : str
        Changed settings and missing repetitions, by study; empty if everything is as configured.
    agreement : Agreement or None
        With the numbers that the paper prints; None if they are not comparable.
    reconstructed : Agreement or None
        The same under the paper's reconstructed protocol; None if the item has no numbers of it.
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
    agreement: Agreement | None = None
    reconstructed: Agreement | None = None

    @property
    def agreements(self) -> list[tuple[str, Agreement]]:
        """Return the agreement as written and, if there is one, as reconstructed, each with the name of the protocol.

        Without a reconstruction the name is empty.
        """
        if self.agreement is None:
            return []
        if self.reconstructed is None:
            return [("", self.agreement)]
        return [("as written", self.agreement), ("reconstructed", self.reconstructed)]


@dataclass(frozen=True)
class Report:
    """The content of a report.

    Attributes
    ----------
    papers : sequence of Paper
        The papers of which something was run; ``items``, ``verdicts`` and ``register`` are theirs.
    register : sequence of (OpenPoint, list of Change, str)
        The open points, with the changes by their alternatives, or with an answer in words.
    environments : mapping
        By hash: the manifests of the environments that the rows name.
    code_versions : mapping of str to int
        Number of rows by code version.
    code_notes : sequence of str
        Sentences on refused rows, damaged files, rows of several code versions and times from several environments.
    studies : sequence of mapping
        Name, title, datasets, reducers, repetitions, rows, failed rows, seconds, bytes (of the largest
        data matrix), command.
    missing : mapping
        Unavailable datasets and the reasons.
    plan : mapping
        What was planned: a budget, a thinned grid (``plan.json``); empty for a full run.
    multiverses : mapping of str to MultiverseSection
        By paper.
    custom, beyond : sequence of StudyRuns
        Runs outside the papers, and runs that extend a paper.
    made_on : mapping of str to mapping of str to int
        Number of rows by study and environment.
    explored : mapping
        Data of the interactive plots, from `kmdr.reporting.explore.explored`; may be empty.
    others : sequence of Paper
        The papers of which nothing was run.
    atlas : AtlasSection or None
        The page "Which method?", if an atlas was run.
    seeds : DataFrame or None
        Central statements under this and an earlier seed, see `kmdr.reporting.seeds`.
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
    custom: Sequence[StudyRuns] = ()
    beyond: Sequence[StudyRuns] = ()
    made_on: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    explored: Mapping[str, Any] = field(default_factory=dict)
    others: Sequence[Paper] = ()
    seeds: pd.DataFrame | None = None
    atlas: AtlasSection | None = None

    @property
    def files(self) -> dict[Path, bytes]:
        """Return the files of all figures and tables, by their paths within the folder."""
        pieces = [piece for section in self.multiverses.values() for piece in section.pieces]
        files = [part.files for parts in (self.items, pieces, self.custom, self.beyond) for part in parts]
        of_atlas = self.atlas.files if self.atlas else {}
        return {path: content for of_part in files for path, content in of_part.items()} | of_atlas
