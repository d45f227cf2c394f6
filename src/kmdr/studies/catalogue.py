"""The catalogue: every table, figure, claim and fact of the papers, found by its id.

A paper's module registers functions with the decorators below. Items and claims read a folder of results (`Results`)
and the reported numbers, never a dataset, so that a report can be made again wherever the folder is. What has to be
computed from a dataset and is not a trial, such as the leverage score of every word, is a fact: a table that the run
stores.
"""

import importlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

import pandas as pd
from matplotlib.figure import Figure

from kmdr.datasets import Dataset, availability, load
from kmdr.errors import unknown
from kmdr.files import write_atomically
from kmdr.provenance import code_version
from kmdr.report.statistics import Component
from kmdr.report.untrusted import contents
from kmdr.studies.results import NotRunError, Results, attempt
from kmdr.task import short_hash


class Paper(NamedTuple):
    """Short name, authors, title, where it appeared and its address."""

    name: str
    authors: str
    title: str
    venue: str
    url: str


PAPERS = {
    paper.name: paper
    for paper in (
        Paper(
            "bmd09",
            "Boutsidis, Mahoney, Drineas",
            "Unsupervised Feature Selection for the k-means Clustering Problem",
            "NIPS 2009",
            "https://papers.nips.cc/paper/3724-unsupervised-feature-selection-for-the-k-means-clustering-problem",
        ),
        Paper(
            "bzmd15",
            "Boutsidis, Zouzias, Mahoney, Drineas",
            "Randomized Dimensionality Reduction for k-means Clustering",
            "IEEE Transactions on Information Theory 61(2), 2015",
            "https://doi.org/10.1109/TIT.2014.2375327",
        ),
        Paper(
            "lst17",
            "Liu, Shen, Tsang",
            "Sparse Embedded k-Means Clustering",
            "NIPS 2017",
            "https://papers.nips.cc/paper/6924-sparse-embedded-k-means-clustering",
        ),
        Paper(
            "lf20",
            "Li, Fan",
            "Dimensionality reduction for k-means clustering (course report, in Chinese)",
            "2020",
            "",
        ),
    )
}


@dataclass(frozen=True)
class Table:
    """A table of a paper with what is reported, ours, its interval and the difference.

    Attributes
    ----------
    frame : DataFrame
        Tidy: a line a cell of the paper's table, or as wide as the paper prints it; numbers unrounded.
    formats : mapping of str to str
        Format specifications of numeric columns, for Markdown, LaTeX and HTML: ``{"ours": ".3f"}``.
    note : str
        What a reader needs to know below it.
    """

    frame: pd.DataFrame
    formats: dict[str, str]
    note: str = ""


@dataclass(frozen=True)
class Item:
    """A table or figure of a paper.

    Attributes
    ----------
    id : str
        ``<paper>_fig1`` or ``<paper>_table1``: the stem of its files.
    kind : {"figure", "table"}
    title : str
        What it shows, in words: the caption's first sentence and the alternative text of the picture.
    studies, facts : tuple of str
        What it reads.
    datasets : tuple of str
        Of those studies' datasets, the ones that it shows; empty for all.
    make : callable
        From `Results` to a `Figure` or a `Table`; its docstring says how the item is laid out and what may differ.
    """

    id: str
    kind: Literal["figure", "table"]
    title: str
    studies: tuple[str, ...]
    facts: tuple[str, ...]
    datasets: tuple[str, ...]
    make: Callable[[Results], Figure | Table]

    @property
    def paper(self) -> str:
        """Short name of the paper."""
        return self.id.partition("_")[0]

    @property
    def label(self) -> str:
        """``Figure 1`` or ``Table 1``, as the paper calls it, be it set as the one or the other."""
        stem = self.id.rpartition("_")[2]
        return f"Figure {stem.removeprefix('fig')}" if stem.startswith("fig") else f"Table {stem.removeprefix('table')}"


@dataclass(frozen=True)
class Finding:
    """What a claim's test found.

    Attributes
    ----------
    components : sequence of Component
        The claim holds when all of them do.
    sentence : str
        One sentence that explains the outcome with its numbers.
    """

    components: Sequence[Component]
    sentence: str


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper that rows can confirm or refute.

    Attributes
    ----------
    id : str
        ``<paper>-<number>``.
    sentence : str
        What the paper says.
    where : str
        Section, table or figure of the paper.
    studies, facts : tuple of str
        What its test reads.
    datasets : tuple of str
        Of those studies' datasets, the ones that it speaks of; empty for all.
    test : callable
        From `Results` to a `Finding`; its docstring states the test, the margins and the unit of repetition.
    """

    id: str
    sentence: str
    where: str
    studies: tuple[str, ...]
    facts: tuple[str, ...]
    datasets: tuple[str, ...]
    test: Callable[[Results], Finding]

    @property
    def paper(self) -> str:
        """Short name of the paper."""
        return self.id.partition("-")[0]


@dataclass(frozen=True)
class Fact:
    """A table that is computed from a dataset once, and stored with the rows.

    Attributes
    ----------
    name : str
        Stem of its file in ``OUT/facts``.
    datasets : tuple of str
        What it needs; without them it is not made.
    studies : tuple of str
        Studies whose rows it needs (for example the repetition whose draw is to be shown).
    make : callable
        From the datasets, in order, and `Results` to a DataFrame.
    """

    name: str
    datasets: tuple[str, ...]
    studies: tuple[str, ...]
    make: Callable[[Sequence[Dataset], Results], pd.DataFrame]


Make = TypeVar("Make", bound=Callable[[Results], Figure | Table])
_items: dict[str, Item] = {}
_claims: dict[str, Claim] = {}
_facts: dict[str, Fact] = {}


def _adds_item(
    kind: Literal["figure", "table"],
    id_: str,
    title: str,
    studies: Sequence[str],
    facts: Sequence[str],
    datasets: Sequence[str],
) -> Callable[[Make], Make]:
    def add(make: Make) -> Make:
        _items[id_] = Item(id_, kind, title, tuple(studies), tuple(facts), tuple(datasets), make)
        return make

    return add


def figure(
    id_: str, title: str, *, studies: Sequence[str] = (), facts: Sequence[str] = (), datasets: Sequence[str] = ()
) -> Callable[[Callable[[Results], Figure]], Callable[[Results], Figure]]:
    """Register the function that draws a figure of a paper."""
    return _adds_item("figure", id_, title, studies, facts, datasets)


def table(
    id_: str, title: str, *, studies: Sequence[str] = (), facts: Sequence[str] = (), datasets: Sequence[str] = ()
) -> Callable[[Callable[[Results], Table]], Callable[[Results], Table]]:
    """Register the function that makes a table of a paper."""
    return _adds_item("table", id_, title, studies, facts, datasets)


def claim(
    id_: str,
    sentence: str,
    where: str,
    *,
    studies: Sequence[str] = (),
    facts: Sequence[str] = (),
    datasets: Sequence[str] = (),
) -> Callable[[Callable[[Results], Finding]], Callable[[Results], Finding]]:
    """Register the function that tests a claim."""

    def add(test: Callable[[Results], Finding]) -> Callable[[Results], Finding]:
        _claims[id_] = Claim(id_, sentence, where, tuple(studies), tuple(facts), tuple(datasets), test)
        return test

    return add


MakeFact = Callable[[Sequence[Dataset], Results], pd.DataFrame]


def fact(name: str, datasets: Sequence[str], *, studies: Sequence[str] = ()) -> Callable[[MakeFact], MakeFact]:
    """Register the function that computes a fact."""

    def add(make: MakeFact) -> MakeFact:
        _facts[name] = Fact(name, tuple(datasets), tuple(studies), make)
        return make

    return add


def _load() -> None:
    for name in PAPERS:
        importlib.import_module(f"kmdr.studies.{name}")


def _natural(id_: str) -> tuple[int, int, str, int]:
    """Papers in their order, figures and tables by number."""
    paper = next(i for i, name in enumerate(PAPERS) if id_.startswith(name))
    stem = id_.rstrip("0123456789")
    return paper, 0 if stem.endswith("table") else 1, stem, int(id_[len(stem) :])


def items() -> list[Item]:
    """Return every table and figure, paper by paper."""
    _load()
    return [_items[id_] for id_ in sorted(_items, key=_natural)]


def claims() -> list[Claim]:
    """Return every claim, paper by paper."""
    _load()
    return [_claims[id_] for id_ in sorted(_claims, key=_natural)]


def facts() -> list[Fact]:
    """Return every fact, by name."""
    _load()
    return [_facts[name] for name in sorted(_facts)]


def item(id_: str) -> Item:
    """Return one item.

    Raises
    ------
    UserError
        When there is none of that id.
    """
    _load()
    if id_ not in _items:
        raise unknown("table or figure", id_, _items)
    return _items[id_]


def rerun_command(reader: Item | Claim) -> str:
    """Return what runs the studies of an item or a claim again and makes the report of them."""
    return " && ".join([*(f"kmdr study={name}" for name in reader.studies), "kmdr report results/runs"])


def write_facts(
    folder: Path, wanted: Collection[str] | None = None, tell: Callable[[str], None] = lambda _: None
) -> None:
    """Compute the facts whose data are prepared and that are not in a folder yet, or were made from other data or rows.

    Parameters
    ----------
    folder : Path
        Of the results; facts go to ``folder/facts``, each with the hash of what it was made from.
    wanted : collection of str, optional
        Names of studies: only the facts that items and claims read together with one of them.
    tell : callable
        Gets the name of each fact before it is made.
    """
    results = Results.of_folder(folder)
    readers: Sequence[Item | Claim] = [*items(), *claims()]
    needed = {
        name for reader in readers if wanted is None or set(reader.studies) & set(wanted) for name in reader.facts
    }
    for one in facts():
        if wanted is not None and one.name not in needed:
            continue
        if any(availability(name).state != "prepared" for name in one.datasets):
            continue  # a report gets no data: what could be had was prepared when the rows were run
        try:
            rows = results.rows(one.studies) if one.studies else results.all_rows.iloc[:0]
        except NotRunError:
            continue
        values = rows[["study", "dataset", "reducer", "params", "r", "repeat", "objective"]].astype(str)
        data = [load(name) for name in one.datasets]
        made_from = short_hash([code_version(), [one.data_sha256 for one in data], values.to_numpy().tolist()])
        file, stamp = folder / "facts" / f"{one.name}.csv", folder / "facts" / f"{one.name}.from"
        if file.is_file() and contents(folder, f"facts/{one.name}.from") == f"{made_from}\n".encode():
            continue
        tell(one.name)
        try:
            table = attempt(partial(one.make, data), results.fresh())
        except NotRunError:  # e.g. no repetition of the kind to be shown
            continue
        write_atomically(file, table.to_csv(index=False, lineterminator="\n").encode())
        write_atomically(stamp, f"{made_from}\n".encode())
