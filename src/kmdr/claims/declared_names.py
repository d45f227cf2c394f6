"""Check that the studies, datasets, facts and claims that a paper's files name exist.

A misspelled name would be one without rows: its claim would be reported as not run, or its scope as not covered.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kmdr import datasets
from kmdr.base.errors import UserError, shown, unknown
from kmdr.claims.catalogue import Claim, Item, Paper, papers
from kmdr.claims.register import flips
from kmdr.claims.reported import reported
from kmdr.config.studies import RESERVED, config_files, studies

# A file and what in it names something; the kind of the names; the names; the valid ones.
_Reference = tuple[str, str, Collection[Any], Collection[str]]


def check_declared_names(paper: Paper) -> None:
    """Raise a UserError for the first name in a paper's modules, files or studies that stands for nothing."""
    for claim in paper.claims:
        _check_parts(claim, paper.folder.folder / "claims.py")
    for where, kind, names, valid in _references(paper):
        for name in names:
            if not isinstance(name, str) or name not in valid:
                raise UserError(f"{where}: {unknown(kind, name, valid)}")


def check_papers_of_studies() -> None:
    """Raise a UserError for a study of a paper that does not exist."""
    names = [paper.name for paper in papers()]
    for study in studies():
        paper = study.get("paper")
        if paper and paper not in names:
            file = config_files("study")[study["name"]]
            raise UserError(f"{file}: study.paper: {unknown('paper', paper, names)}")


def _check_parts(claim: Claim, file: Path) -> None:
    """Refuse parts of a sentence that are not texts by name, or that are both central and side."""
    for what, parts in (("central", claim.central), ("side", claim.side)):
        for name, words in parts.items():
            if not isinstance(name, str) or not isinstance(words, str):
                raise UserError(
                    f"{file}: {what} of {claim.id} has {shown(name)}: {shown(words)}; give texts by the names of parts"
                )
    for name in claim.central.keys() & claim.side.keys():
        raise UserError(f"{file}: part {name!r} of {claim.id} is both central and side; give it in one of them")
    letters = bool(claim.scope) and all(len(str(name)) == 1 for name in claim.scope)
    if letters and not set(claim.scope) <= set(datasets.names()):
        raise UserError(f"{file}: scope of {claim.id} is the text {''.join(claim.scope)!r}; give a list of names")


def _references(paper: Paper) -> Iterator[_Reference]:
    """Yield all names by which a paper refers to something that is defined elsewhere."""
    known = {str(study["name"]): study for study in studies()}
    facts = {fact.name: fact for other in papers() for fact in other.facts}
    registered = datasets.names()

    def datasets_of(part: Item | Claim) -> Collection[str]:
        """Return the datasets of the studies and facts that an item or a claim reads; all if it reads other rows."""
        if not set(part.studies) <= known.keys() or not (part.studies or part.facts):
            return registered
        read = {name for study in part.studies for name in known[study]["datasets"]}
        return read.union(*(facts[name].datasets for name in part.facts))

    readers: dict[str, Sequence[Item | Claim]] = {"items.py": paper.items, "claims.py": paper.claims}
    for file, parts in readers.items():
        for part in parts:
            where = f"{paper.folder.folder / file}: {{}} of {part.id}"
            yield where.format("studies"), "study", part.studies, (*known, *RESERVED)
            yield where.format("facts"), "fact", part.facts, facts
            yield where.format("datasets"), "dataset of its studies and facts", part.datasets, datasets_of(part)
            if isinstance(part, Claim):
                yield where.format("scope"), "dataset", part.scope, registered
    for fact in paper.facts:
        where = f"{paper.folder.folder / 'facts.py'}: {{}} of {fact.name}"
        yield where.format("studies"), "study", fact.studies, (*known, *RESERVED)
        yield where.format("datasets"), "dataset", fact.datasets, registered
    points = {point.id for point in paper.points}
    yield f"{paper.folder.folder / 'claims.py'}: ANSWERS", "open point of the paper", paper.answers, points
    file = str(paper.folder.folder / "paper.toml")
    for other in paper.implementations:
        yield from _replacements(f"{file}: [[implementations]] of {other.claim}", other.study, other, known)
    if paper.reconstruction:
        replaced = paper.reconstruction.facts
        yield f"{file}: facts of [reconstruction]", "fact", (*replaced, *replaced.values()), facts
        entries = {flip.entry for flip in flips([*known.values()])}
        yield f"{file}: entry of [reconstruction]", "entry of a study's flip", [paper.reconstruction.entry], entries
    table = reported(paper.name)
    file = str(paper.folder.folder / "reported.csv")
    if not (paper.folder.folder / "multiverse.yaml").is_file():  # which may compare its universes with other numbers
        ids = [part.id for parts in readers.values() for part in parts]
        yield f"{file}: id", "item or claim of the paper", table["id"].astype(str), ids
    yield f"{file}: dataset", "dataset", table["dataset"].astype(str), ("", *registered)
    yield from _references_of_flips(paper, known)


def _references_of_flips(paper: Paper, known: Mapping[str, Mapping[str, Any]]) -> Iterator[_Reference]:
    files = config_files("study")
    claims = [claim.id for other in papers() for claim in other.claims]
    entries = {name for other in papers() for name in (*other.diagnoses, *(point.id for point in other.points))}
    for flip in flips([study for study in known.values() if study.get("paper") == paper.name]):
        where = f"{files[flip.study]}: study.flip"
        yield f"{where}.claims", "claim", flip.claims, claims
        yield f"{where}.entry", "open point or diagnosis", [flip.entry], entries
        yield from _replacements(where, flip.study, flip, known)


def _replacements(where: str, study: str, other: Any, known: Mapping[str, Mapping[str, Any]]) -> Iterator[_Reference]:
    """Yield the studies of a flip or another implementation, and the datasets and reducers that replace others."""
    yield f"{where}: study", "study", [study], known
    yield f"{where}: base", "study", other.base, known
    for group, replaced in (("datasets", other.datasets), ("reducers", other.reducers)):
        kind = group.removesuffix("s")
        yield f"{where}: {group}", f"{kind} of {study}", replaced, known[study][group]
        in_base = {name for base in other.base for name in known[base][group]}
        yield f"{where}: {group}", f"{kind} of {', '.join(other.base)}", replaced.values(), in_base
