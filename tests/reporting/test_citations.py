"""Every number that a paper's summary cites exists in the committed results, so that no sentence is omitted unseen."""

import shlex
from collections.abc import Mapping
from dataclasses import replace

import pandas as pd
import pytest

from kmdr.analysis.results import NotRunError, attempt
from kmdr.base.paths import CHECKOUT
from kmdr.claims.catalogue import claims, items, papers
from kmdr.claims.register import flips
from kmdr.claims.summary import PARTS, Sentence
from kmdr.config.studies import studies
from kmdr.figures.canvas import Drawing
from kmdr.multiverse import plausibility
from kmdr.multiverse.choices import multiverses
from kmdr.multiverse.section import MultiverseSection
from kmdr.reporting.citations import _FIELD, answers_table, select, source_names, statements_of
from kmdr.reporting.contents import read_contents
from kmdr.reporting.explore import explored
from kmdr.reporting.parts import Context, make_part
from rows import make_rows


def fields(sentence: Sentence) -> list[str]:
    """Return the fields that a sentence and its conditions cite."""
    conditions = (shlex.join(shlex.split(condition)[:-2]) for condition in sentence.when)
    return [*conditions, *(match[1] for match in _FIELD.finditer(sentence.text))]


BUILT_IN = [paper for paper in papers() if paper.folder.package.startswith("kmdr.papers")]
SENTENCES = {
    f"{paper.name}-{part}-{number}": sentence
    for paper in BUILT_IN
    for part, several in (
        *((part, getattr(paper.summary, part)) for part in PARTS),
        ("deviations", [Sentence(cell) for line in paper.summary.deviations for cell in line]),
    )
    for number, sentence in enumerate(several, 1)
    if fields(sentence)
}
TABLES = ("options", "nearest", "shares", "universes")


def known_sources() -> set[str]:
    ids = [claim.id for claim in claims()]
    of_multiverses = [f"{spec.paper}_multiverse_{table}" for spec in multiverses() for table in TABLES]
    return {
        "verdicts",
        "answers",
        *(item.id for item in items()),
        *ids,
        *(f"{id_}/reconstructed" for id_ in ids),
        *of_multiverses,
    }


def cited_datasets() -> set[str]:
    """Return the datasets whose answers some sentence cites; the answers of one are made of its rows alone."""
    cited = [shlex.split(field) for sentence in SENTENCES.values() for field in fields(sentence)]
    of_answers = [words for words in cited if words[0] == "answers"]
    named = [word.removeprefix("dataset=") for words in of_answers for word in words if word.startswith("dataset=")]
    assert len(named) == len(of_answers)
    return {dataset for names in named for dataset in names.split(",")}


class Committed(dict[str, pd.DataFrame]):
    """The sources of citations from the committed rows, each made by the present code when it is first cited."""

    def __init__(self) -> None:
        super().__init__()
        contents, configs = read_contents(CHECKOUT / "results" / "reference"), studies()
        datasets = {study["name"]: study["datasets"] for study in configs}
        self.context = Context(contents.results, datasets, {}, flips(configs), formats=())
        self.multiverses = {run.spec.paper: run for run in contents.multiverses}

    def __missing__(self, name: str) -> pd.DataFrame:
        self.update(self.made(name))
        return self[name] if name in self else pd.DataFrame()

    def made(self, name: str) -> Mapping[str, pd.DataFrame]:
        if name == "verdicts":  # only the names are looked up, not the outcomes
            lines = [(claim.id, claim.paper, "", "") for claim in claims()]
            return {name: pd.DataFrame(lines, columns=["claim", "paper", "outcome", "reconstructed"])}
        if name == "answers":
            rows = self.context.results.every_row
            return {name: answers_table(explored(rows[rows["dataset"].isin(cited_datasets())], studies()))}
        for item in items():
            if item.id == name:
                return self.of_item(item)
        for claim in claims():
            if claim.id == name.removesuffix("/reconstructed"):
                return statements_of(make_part(self.context, claim))
        paper = name.partition("_")[0]
        if paper not in self.multiverses:
            return {}
        run, cited = self.multiverses[paper], " ".join(field for s in SENTENCES.values() for field in fields(s))
        spec = replace(run.spec, claims=tuple(claim for claim in run.spec.claims if f" {claim}" in cited))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(plausibility, "_TABLES", 10)  # the value of p is not compared
            section = make_part(self.context, replace(run, spec=spec))
        assert isinstance(section, MultiverseSection)
        tables = {next(iter(p.files)).stem: p.table.frame for p in section.pieces if p.table is not None}
        return tables | {f"{paper}_multiverse_universes": section.universes}

    def of_item(self, item) -> Mapping[str, pd.DataFrame]:
        try:
            content = attempt(item.make, self.context.results)
        except NotRunError:
            return {}
        return {item.id: content.numbers if isinstance(content, Drawing) else content.frame}


def test_sentences_cite_only_what_a_report_has():
    names = {name for sentence in SENTENCES.values() for field in fields(sentence) for name in source_names(field)}
    assert names <= known_sources()


def test_the_fields_of_a_sentence_are_those_of_its_text_and_of_its_conditions():
    sentence = Sentence("{a x:.2f} of {'b' 'y z'}", when=("c 'd=e f' ours > 0",))
    assert fields(sentence) == ["c 'd=e f' ours", "a x", "'b' 'y z'"]
    assert source_names("a+b x=1 ours") == ["a", "b"]


@pytest.fixture(scope="module")
def committed() -> Committed:
    return Committed()


@pytest.mark.slow
@pytest.mark.parametrize("sentence", SENTENCES.values(), ids=SENTENCES)
def test_every_citation_names_a_value_of_the_committed_results(sentence, committed):
    """A renamed label dropped its sentence without a word."""
    for field in fields(sentence):
        missing = [name for name in source_names(field) if committed[name].empty]
        if missing:
            pytest.skip(f"results/reference has no rows of {', '.join(missing)}")
        try:
            select(committed, field)
        except LookupError as error:
            pytest.fail(f"the sentence “{sentence.text}” is omitted because {field!r} names no value ({error})")


def test_a_change_is_rounded_once():
    """The means differ by 0.0025, and the rounded means by 0.191 − 0.189."""
    rows = [
        make_rows("s", "usps", "none", 256, accuracy=0.18869),
        make_rows("s", "usps", "gaussian", 9, accuracy=0.19124),
    ]
    table = answers_table(explored(pd.concat(rows), [])).set_index(["quantity", "r"])["change"]
    assert (table["accuracy", 9], table["accuracy", 256]) == (0.003, 0.0)
    assert table["objective"].isna().all()
