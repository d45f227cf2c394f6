"""The catalogue: every paper with its tables, figures, claims, facts and open points, found by its folder.

A paper is a folder with a ``paper.toml``. Its modules create values with the decorators below and list them:
``items.py`` has ``ITEMS``, ``claims.py`` has ``CLAIMS`` and, for open points that no study flips, ``ANSWERS``,
``facts.py`` has ``FACTS``. Items and claims read a folder of results (`Results`) and the reported numbers, never a
dataset, so that a report needs only the folder. Anything else that is computed from a dataset, such as the leverage
score of every word, is a fact: a table that the run stores.
"""

import shlex
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

import pandas as pd

from kmdr.analysis.results import NotRunError, Results, attempt
from kmdr.analysis.rows import timed_rows
from kmdr.analysis.statistics import Component
from kmdr.base.errors import UserError, plain_name, raised_by, shown, unknown
from kmdr.base.files import StorageError
from kmdr.base.identity import is_own
from kmdr.base.plugins import PaperFolder, paper_folders
from kmdr.base.text import printable
from kmdr.claims.paper_file import check_kinds
from kmdr.claims.summary import Summary, read_summary
from kmdr.config.studies import on_request
from kmdr.datasets import Dataset
from kmdr.figures.canvas import Drawing
from kmdr.figures.tables import Table

Kind = Literal["figure", "table"]
T = TypeVar("T")
P = TypeVar("P", "Item", "Claim")


@dataclass(frozen=True)
class Item:
    """A table or figure of a paper.

    Attributes
    ----------
    id : str
        ``<paper>_fig1`` or ``<paper>_table1``: the stem of its files.
    kind : {"figure", "table"}
    title : str
        The caption's first sentence and the alternative text of the picture.
    studies, facts : tuple of str
        Its data.
    datasets : tuple of str
        The datasets of those studies that it shows; empty for all.
    make : callable
        From `Results` to a `Drawing` or a `Table`; its docstring describes the layout and possible differences.
    """

    id: str
    kind: Kind
    title: str
    studies: tuple[str, ...]
    facts: tuple[str, ...]
    datasets: tuple[str, ...]
    make: Callable[[Results], Drawing | Table]

    def __call__(self, results: Results) -> Drawing | Table:
        """Create the table or figure."""
        return self.make(results)

    def __reduce__(self) -> tuple[Callable[[str], "Item"], tuple[str]]:
        """Pickle by id, because the decorator hides the function that pickle would look up by name."""
        return item, (self.id,)

    @property
    def paper(self) -> str:
        """Short name of the paper."""
        return self.id.partition("_")[0]

    @property
    def label(self) -> str:
        """Return the paper's name for it: ``Figure 1`` or ``Table 1``, whatever its kind here, or ``§5.2``."""
        stem = self.id.rpartition("_")[2]
        if stem.startswith("section"):
            return f"§{stem.removeprefix('section').replace('-', '.')}"
        return f"Figure {stem.removeprefix('fig')}" if stem.startswith("fig") else f"Table {stem.removeprefix('table')}"


@dataclass(frozen=True)
class Finding:
    """The result of a claim's test.

    Attributes
    ----------
    components : sequence of Component
        The statements: the claim is supported if all of them hold, and mostly supported if the central ones do.
    sentence : str
        One sentence that explains the outcome with its numbers.
    """

    components: Sequence[Component]
    sentence: str
    # Components that are shown but do not decide, by the reason: the same statements on stand-in data, in another
    # reading of the paper's words, or one by one if several must hold.
    aside: Mapping[str, Sequence[Component]] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper that rows can support or refute.

    Attributes
    ----------
    id : str
        ``<paper>-<number>``.
    sentence : str
        The paper's statement.
    where : str
        Section, table or figure of the paper.
    studies, facts : tuple of str
        The data of its test.
    datasets : tuple of str
        The datasets of those studies that it is about; empty for all.
    test : callable
        From `Results` to a `Finding`; its docstring states the test, the margins and the unit of repetition.
    central : mapping of str to str
        The parts of the sentence that decide the claim, each with the paper's words for it. The statements of a part
        have its name; the part ``""`` is the whole sentence.
    side : mapping of str to str
        The parts that only decide between supported and mostly supported, each with the reason.
    scope : tuple of str
        The datasets that the sentence is about, stand-ins excluded; empty if it is about none in particular.
    paired : str
        Why trials without a partner are not used, if the claim does not use all rows that it reads.
    """

    id: str
    sentence: str
    where: str
    studies: tuple[str, ...]
    facts: tuple[str, ...]
    datasets: tuple[str, ...]
    test: Callable[[Results], Finding]
    central: Mapping[str, str] = field(default_factory=lambda: {"": ""})
    side: Mapping[str, str] = field(default_factory=dict)
    scope: tuple[str, ...] = ()
    paired: str = ""

    def __call__(self, results: Results) -> Finding:
        """Test the claim."""
        return self.test(results)

    def __reduce__(self) -> tuple[Callable[[str], "Claim"], tuple[str]]:
        """Pickle by id."""
        return _claim_of, (self.id,)

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
        Stem of its file in ``OUT/facts``; begins with the short name of the paper and an underscore.
    datasets : tuple of str
        Required datasets; without them it is not computed.
    studies : tuple of str
        Studies whose rows it needs (for example the repetition whose draw is shown).
    make : callable
        From the datasets, in order, and `Results` to a DataFrame.
    slow : bool
        Whether it takes too long for a run on a thinned grid.
    """

    name: str
    datasets: tuple[str, ...]
    studies: tuple[str, ...]
    make: Callable[[Sequence[Dataset], Results], pd.DataFrame]
    slow: bool = False

    def __call__(self, datasets: Sequence[Dataset], results: Results) -> pd.DataFrame:
        """Compute the table."""
        return self.make(datasets, results)


Answer = Callable[[Results], str]


def unmeasured(why: str) -> Answer:
    """Return the answer to an open point that neither rows nor facts can address."""
    return lambda _: f"Not measured here: {why}."


def within_reduction(study: str, dataset: str) -> Answer:
    """Return the answer to whether drawing R is counted: the share of the whole reduction, an upper limit."""

    def answer(results: Results) -> str:
        rows = timed_rows(results.rows(study, datasets=[dataset], reducers=["random_sign"]))
        share = (rows["reduce_seconds"] / rows["total_seconds"]).groupby(rows["r"]).median()
        return (
            f"In {study} the whole reduction by random signs, drawing R included, is {share.min():.0%} to "
            f"{share.max():.0%} of the time on {dataset} (r = {share.index.min()} to {share.index.max()})."
        )

    return answer


@dataclass(frozen=True)
class OpenPoint:
    """A choice that papers leave open.

    Attributes
    ----------
    id : str
        The ``entry`` of the studies that flip it.
    papers : tuple of str
        The papers that leave it open.
    chosen : str
        Our choice, with the reason.
    other : str
        The alternatives.
    answers : mapping of str to callable
        For a point that no study flips, by paper: from `Results` to a sentence.
    """

    id: str
    question: str
    papers: tuple[str, ...]
    chosen: str
    other: str
    answers: Mapping[str, Answer] = field(default_factory=dict)


@dataclass(frozen=True)
class Reconstruction:
    """A protocol other than the one that a paper describes.

    Attributes
    ----------
    entry : str
        The entry of the flips that run it.
    settings : str
        What differs from the protocol as written.
    basis : str
        What speaks for it: a documented search, or a hypothesis and its test.
    facts : mapping of str to str
        The facts that depend on the settings, and the fact that replaces each.
    """

    entry: str
    settings: str
    basis: str
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Amendment:
    """A change of what a claim's test declares, made after its rows were judged for the first time.

    Attributes
    ----------
    claim : str
        Id of the claim.
    date : str
        As YYYY-MM-DD.
    before : str
        The verdict by the earlier test.
    change, reason : str
        What was changed and why, each a sentence.
    """

    claim: str
    date: str
    before: str
    change: str
    reason: str


@dataclass(frozen=True)
class Implementation:
    """A study that times the methods of a claim with another implementation.

    Attributes
    ----------
    claim : str
        Id of the claim.
    base : tuple of str
        The studies whose rows its rows replace.
    about : str
        Text in the labels of the statements whose methods have another implementation; empty for all.
    datasets, reducers : mapping
        The dataset or reducer of the base that one of another name replaces.
    """

    claim: str
    study: str
    base: tuple[str, ...]
    about: str = ""
    datasets: Mapping[str, str] = field(default_factory=dict)
    reducers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Paper:
    """A paper.

    Attributes
    ----------
    year : int
        Papers are shown in the order of their years.
    table_ids, figure_ids, claim_ids : tuple of str
        Its items and claims, listed by number in ``paper.toml``; its modules must create exactly these. A section whose
        text a figure shows counts as a figure.
    diagnoses : tuple of str
        Entries of its flips that are known departures rather than open points.
    points : tuple of OpenPoint
        The choices that it leaves open.
    quotes : mapping of str to str
        The paper's own words that a claim is about, by the claim's id, if given.
    implementations : tuple of Implementation
        Studies with other implementations, beyond the flips that name the claims.
    amendments : tuple of Amendment
        In the order of the file, oldest first.
    """

    folder: PaperFolder
    title: str
    authors: str
    venue: str
    url: str
    year: int
    table_ids: tuple[str, ...]
    figure_ids: tuple[str, ...]
    claim_ids: tuple[str, ...]
    diagnoses: tuple[str, ...]
    points: tuple[OpenPoint, ...]
    quotes: Mapping[str, str] = field(default_factory=dict)
    reconstruction: Reconstruction | None = None
    summary: Summary = field(default_factory=Summary)
    implementations: tuple[Implementation, ...] = ()
    amendments: tuple[Amendment, ...] = ()

    @property
    def name(self) -> str:
        """Return the short name, with which the ids of its items and claims begin."""
        return self.folder.name

    def _stated(self, module: str, name: str) -> Any:
        """Return what a module of the paper has under a name, or (); raise a UserError if it cannot be imported."""
        file = self.folder.folder / f"{module}.py"
        try:
            return getattr(self.folder.module(module), name, ())
        except UserError as error:
            raise UserError(f"{file}: {error}") from error
        except Exception as error:  # whatever a user's module raises
            raise UserError(f"{file} cannot be imported ({type(error).__name__}: {error}); fix it") from error

    def _listed(self, module: str, name: str, kind: type[T]) -> tuple[T, ...]:
        """Return what a module of the paper lists under a name; raise a UserError if it lists anything else."""
        listed = self._stated(module, name)
        parts = tuple(listed) if isinstance(listed, Iterable) and not isinstance(listed, Mapping) else None
        if parts is None or not all(isinstance(part, kind) for part in parts):
            raise UserError(
                f"{name} of {self.folder.folder / module}.py is {shown(listed)}; give a list of what the decorators of "
                "kmdr.claims.catalogue return"
            )
        return parts

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """Return its tables and figures, each by number."""
        return _ordered(self, self._listed("items", "ITEMS", Item), (*self.table_ids, *self.figure_ids))

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """Return its claims, by number."""
        return _ordered(self, self._listed("claims", "CLAIMS", Claim), self.claim_ids)

    @cached_property
    def facts(self) -> tuple[Fact, ...]:
        """Return its facts."""
        facts = self._listed("facts", "FACTS", Fact)
        file = self.folder.folder / "facts.py"
        names = [plain_name(f"the name of a fact of {file}", fact.name) for fact in facts]
        for fact in facts:
            if not fact.name.startswith(f"{self.name}_") or names.count(fact.name) > 1:
                raise UserError(f"{file} names a fact {fact.name!r}; begin each name with {self.name}_ and use it once")
            # The letters of a text: @fact is in the hash of each fact, which a check there would make old.
            for what, given in (("datasets", fact.datasets), ("studies", fact.studies)):
                if given and all(len(str(name)) == 1 for name in given):
                    raise UserError(
                        f"{file}: {what} of {fact.name} is the text {''.join(given)!r}; give a list of names"
                    )
        return facts

    @cached_property
    def answers(self) -> Mapping[str, Answer]:
        """Return the answers to open points that no study flips, by the point's id."""
        answers = self._stated("claims", "ANSWERS") or {}
        if not isinstance(answers, Mapping) or not all(map(callable, answers.values())):
            raise UserError(
                f"ANSWERS of {self.folder.folder / 'claims.py'} is {shown(answers)}; give functions of results by the "
                "ids of open points"
            )
        return answers


def _ordered(paper: Paper, made: Sequence[P], stated: Sequence[str]) -> tuple[P, ...]:
    """Return items or claims in the order of ``paper.toml``; raise a UserError unless each of these was made once."""
    times = Counter(part.id for part in made)
    if differing := set(times) ^ set(stated) | {id_ for id_, count in times.items() if count > 1}:
        raise UserError(
            f"{paper.folder.folder}: paper.toml and the modules differ in {', '.join(sorted(differing))}; list the "
            "same numbers in both, each once"
        )
    return tuple(sorted(made, key=lambda part: stated.index(part.id)))


_PAPER_NEEDS = ("title", "authors", "venue", "year")
_PAPER_MAY = (
    "url", "tables", "figures", "sections", "claims", "diagnoses", "quotes", "open", "reconstruction", "summary",
    "implementations", "amendments",
)  # fmt: skip
_POINT_NEEDS = {"id", "question", "chosen", "other"}


def _read(folder: PaperFolder) -> Paper:
    """Return the paper of a ``paper.toml``; raise a UserError if the file is malformed."""
    file = folder.folder / "paper.toml"
    try:
        table = tomllib.loads(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{file} cannot be read: {error}; follow the other papers' files") from error
    if missing := [key for key in _PAPER_NEEDS if key not in table]:
        raise UserError(f"{file} lacks {', '.join(missing)}; add it")
    for key in table.keys() - {*_PAPER_NEEDS, *_PAPER_MAY}:
        raise unknown(f"key in {file}", key, (*_PAPER_NEEDS, *_PAPER_MAY))
    check_kinds(file, table)
    for point in table.get("open", ()):
        if point.keys() != _POINT_NEEDS:
            raise UserError(
                f"an open point of {file} has {', '.join(point)}; it needs {', '.join(sorted(_POINT_NEEDS))}"
            )
    name = folder.name
    protocol = table.get("reconstruction")
    if protocol is not None and protocol.keys() - {"facts"} != {"entry", "settings", "basis"}:
        raise UserError(f"[reconstruction] of {file} needs entry, settings and basis")
    return Paper(
        folder, table["title"], table["authors"], table["venue"], table.get("url", ""), table["year"],
        tuple(f"{name}_table{number}" for number in table.get("tables", ())),
        (
            *(f"{name}_fig{number}" for number in table.get("figures", ())),
            *(f"{name}_section{number.replace('.', '-')}" for number in table.get("sections", ())),
        ),
        tuple(f"{name}-{number}" for number in table.get("claims", ())),
        tuple(table.get("diagnoses", ())),
        tuple(OpenPoint(papers=(name,), **point) for point in table.get("open", ())),
        _quotes(file, name, table), Reconstruction(**protocol) if protocol else None,
        read_summary(file, table.get("summary", {})), _implementations(file, name, table),
        _amendments(file, name, table),
    )  # fmt: skip


def _implementations(file: Path, name: str, table: Mapping[str, Any]) -> tuple[Implementation, ...]:
    """Return the other implementations of a ``paper.toml``; raise a UserError if one is malformed."""
    needs, may = {"claim", "study", "base"}, {"about", "datasets", "reducers"}
    for given in table.get("implementations", ()):
        if not needs <= given.keys() <= needs | may or given["claim"] not in table.get("claims", ()):
            raise UserError(
                f"[[implementations]] of {file} needs a claim of the paper, a study and base, and may have "
                f"{', '.join(sorted(may))}"
            )
    return tuple(
        Implementation(f"{name}-{given['claim']}", base=tuple(given["base"]), **_without(given, "claim", "base"))
        for given in table.get("implementations", ())
    )


def _amendments(file: Path, name: str, table: Mapping[str, Any]) -> tuple[Amendment, ...]:
    """Return the amendments of a ``paper.toml``; raise a UserError if one is malformed."""
    needs = {"claim", "date", "before", "change", "reason"}
    for given in table.get("amendments", ()):
        if given.keys() != needs or given["claim"] not in table.get("claims", ()):
            raise UserError(f"[[amendments]] of {file} needs a claim of the paper, date, before, change and reason")
    return tuple(
        Amendment(f"{name}-{given['claim']}", str(given["date"]), **_without(given, "claim", "date"))
        for given in table.get("amendments", ())
    )


def _without(table: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name not in names}


def _quotes(file: Path, name: str, table: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the quotes of a ``paper.toml`` by claim id; raise a UserError for an unknown claim or a non-text."""
    numbers = [str(number) for number in table.get("claims", ())]
    quotes = table.get("quotes", {})
    for number, text in quotes.items():
        if number not in numbers:
            raise unknown(f"claim under [quotes] of {file}", number, numbers)
        if not isinstance(text, str):
            raise UserError(
                f"quote {number} of {file} is {text!r}; it needs the paper's words, between quotation marks"
            )
    return {f"{name}-{number}": text for number, text in quotes.items()}


@cache
def _papers(folders: tuple[PaperFolder, ...]) -> tuple[Paper, ...]:
    return tuple(sorted(map(_read, folders), key=lambda paper: (paper.year, paper.name)))


def papers() -> tuple[Paper, ...]:
    """Return every paper, built in or from a plugin, by year."""
    return _papers(paper_folders())


def items() -> list[Item]:
    """Return every table and figure, paper by paper."""
    return [item for paper in papers() for item in paper.items]


def claims() -> list[Claim]:
    """Return every claim, paper by paper."""
    return [claim for paper in papers() for claim in paper.claims]


def _claim_of(id_: str) -> Claim:
    return next(claim for claim in claims() if claim.id == id_)


def item(id_: str) -> Item:
    """Return the table or figure with an id; raise a UserError if it does not exist."""
    by_id = {item.id: item for item in items()}
    if id_ not in by_id:
        raise unknown("table or figure", id_, by_id)
    return by_id[id_]


# -- decorators with which a paper's modules create items, claims and facts --


def _names(what: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return names as a tuple; raise a UserError for a text, whose letters would count as names."""
    if isinstance(names, str):
        raise UserError(f"{what} = {shown(names)} is a text; give a list of names, as in {what}=[{names!r}]")
    return tuple(names)


def _item(
    kind: Kind, id_: str, title: str, studies: Sequence[str], facts: Sequence[str], datasets: Sequence[str]
) -> Callable[[Callable[[Results], Drawing | Table]], Item]:
    read = _names("studies", studies), _names("facts", facts), _names("datasets", datasets)
    return lambda make: Item(id_, kind, title, *read, make)


def figure(
    id_: str, title: str, *, studies: Sequence[str] = (), facts: Sequence[str] = (), datasets: Sequence[str] = ()
) -> Callable[[Callable[[Results], Drawing]], Item]:
    """Return a decorator that turns the function that draws a figure of a paper into an item."""
    return _item("figure", id_, title, studies, facts, datasets)


def table(
    id_: str, title: str, *, studies: Sequence[str] = (), facts: Sequence[str] = (), datasets: Sequence[str] = ()
) -> Callable[[Callable[[Results], Table]], Item]:
    """Return a decorator that turns the function that makes a table of a paper into an item."""
    return _item("table", id_, title, studies, facts, datasets)


def claim(
    id_: str,
    sentence: str,
    where: str,
    *,
    studies: Sequence[str] = (),
    facts: Sequence[str] = (),
    datasets: Sequence[str] = (),
    central: str | Mapping[str, str] = "",
    side: Mapping[str, str] | None = None,
    scope: Sequence[str] = (),
    paired: str = "",
) -> Callable[[Callable[[Results], Finding]], Claim]:
    """Return a decorator that turns the function that tests a claim into a claim.

    Parameters
    ----------
    central : str or mapping of str to str
        The paper's words for the part that decides, or for each of several parts.
    """
    parts = {"": central} if isinstance(central, str) else dict(central)
    read = _names("studies", studies), _names("facts", facts), _names("datasets", datasets)
    return lambda test: Claim(
        id_, sentence, where, *read, test, parts, dict(side or {}),
        tuple(scope), paired,
    )  # fmt: skip


def fact(
    name: str, datasets: Sequence[str], *, studies: Sequence[str] = (), slow: bool = False
) -> Callable[[Callable[[Sequence[Dataset], Results], pd.DataFrame]], Fact]:
    """Return a decorator that turns the function that computes a fact into a fact."""
    return lambda make: Fact(name, tuple(datasets), tuple(studies), make, slow)


# -- reproducing an item or a claim --


def attempt_part(make: Callable[[Results], T], results: Results, function: Callable[..., Any]) -> T:
    """Return what `attempt` does; for a function of a plugin, any exception is a `NotRunError` that names its place."""
    if is_own(function.__module__):
        return attempt(make, results)
    try:
        return make(results)
    except (NotRunError, StorageError):
        raise
    except UserError as error:
        raise NotRunError(str(error)) from error
    except Exception as error:  # whatever a plugin's function raises
        what = printable(" ".join(f"{type(error).__name__}: {error}".split())[:200])
        place = Path(raised_by(error)).name or f"its function {function.__name__} returned no valid value"
        raise NotRunError(f"{place} ({what}); correct it, or run its studies again if rows are missing") from error


def rerun_command(
    reader: Item | Claim, overrides: Mapping[str, Sequence[str]] | None = None, run: Collection[str] = ()
) -> str:
    """Return the command that runs the studies of an item or a claim, and of its facts, and writes their report.

    Studies with the same settings are run together. Without any study, the command reproduces the whole paper.

    Parameters
    ----------
    overrides : mapping, optional
        Settings, by study, in which the rows differ from the study.
    run : collection of str
        Studies that have rows. Studies on request are named only if they are among them.
    """
    later, settings = on_request(), dict(overrides or {})
    of_facts = [name for fact in _facts_of(reader) for name in fact.studies]
    names = [name for name in dict.fromkeys([*reader.studies, *of_facts]) if name not in later or name in run]
    if not names:
        return f"kmdr reproduce {reader.paper}"
    seeds = {tuple(t for t in settings.get(name, ()) if t.startswith("seed=")) for name in names if name in run}
    common = seeds.pop() if len(seeds) == 1 else ()  # a study without rows takes the seed of all others
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        groups.setdefault(tuple(settings.get(name, () if name in run else common)), []).append(name)
    commands = [
        shlex.join(["kmdr", *(["-m"] if len(group) > 1 else []), f"study={','.join(group)}", *given])
        for given, group in groups.items()
    ]
    return " && ".join([*commands, "kmdr report results/runs"])


def _facts_of(reader: Item | Claim) -> list[Fact]:
    """Return the facts that an item or a claim reads."""
    every = {fact.name: fact for paper in papers() if paper.name == reader.paper for fact in paper.facts}
    return [every[name] for name in reader.facts if name in every]


def gaps(results: Results, reader: Item | Claim, datasets: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the datasets and facts that an item or a claim reads and that are missing, with the reasons.

    Parameters
    ----------
    datasets : mapping
        The datasets of each study.
    """
    asked = dict.fromkeys(name for study in reader.studies for name in datasets.get(study, ()))
    reasons = [
        f"{name}: {results.missing[name]}"
        for name in asked
        if name in results.missing and (not reader.datasets or name in reader.datasets)
    ]
    for name in reader.facts:
        try:
            results.fact(name)
        except NotRunError as reason:
            reasons.append(str(reason))
    return tuple(reasons)
