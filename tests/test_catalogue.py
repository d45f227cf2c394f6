"""The catalogue is complete: every table, figure and claim of the papers, every open point; and nothing dangles."""

import importlib

import pytest
from omegaconf import OmegaConf

from kmdr import datasets
from kmdr.cli import compose
from kmdr.paths import CONF, REPORTED
from kmdr.studies.catalogue import PAPERS, claims, facts, item, items
from kmdr.studies.configs import studies, study_names
from kmdr.studies.register import OPEN_POINTS, Flip
from kmdr.studies.results import reported

# Counted in the papers themselves: how many tables, figures and claims each has.
TABLES = {"bmd09": 1, "bzmd15": 1, "lst17": 1, "lf20": 2}
FIGURES = {"bmd09": 1, "bzmd15": 3, "lst17": 3, "lf20": 10}
CLAIMS = {"bmd09": 4, "bzmd15": 7, "lst17": 6, "lf20": 7}
# What flips of a diagnosis serve that are not left open by a paper: they are known to be otherwise.
DIAGNOSES = {"matching", "label_mistake", "speed"}
# What the papers leave open, one word each.
OPEN = {
    "starts", "centred", "rank", "coil20_size", "pixels", "width", "drawing", "merged", "rescaled", "repetitions",
    "text_variant", "fjlt_density", "iterations", "r_of_fig10",
}  # fmt: skip


def test_every_table_and_figure_is_there():
    expected = {f"{p}_table{i}" for p, n in TABLES.items() for i in range(1, n + 1)}
    expected |= {f"{p}_fig{i}" for p, n in FIGURES.items() for i in range(1, n + 1)}
    assert {one.id for one in items()} == expected


def test_every_claim_is_there():
    assert {one.id for one in claims()} == {f"{p}-{i}" for p, n in CLAIMS.items() for i in range(1, n + 1)}


def test_every_open_point_is_answered():
    assert {point.id for point in OPEN_POINTS} == OPEN
    flipped = {study["flip"]["entry"] for study in studies() if study.get("flip")}
    assert flipped <= OPEN | DIAGNOSES
    for point in OPEN_POINTS:
        assert point.answer is not None or point.id in flipped, f"nothing answers {point.id}"


@pytest.mark.parametrize("one", [*items(), *claims()], ids=lambda one: one.id)
def test_what_it_reads_exists(one):
    assert one.studies or one.facts
    assert set(one.studies) <= set(study_names())
    assert set(one.facts) <= {fact.name for fact in facts()}
    make = one.make if hasattr(one, "make") else one.test
    assert len((make.__doc__ or "").split()) > 10, f"{one.id} does not say how it is made or tested"


@pytest.mark.parametrize("name", study_names())
def test_a_study_is_read_by_something(name):
    study = next(one for one in studies() if one["name"] == name)
    assert study["paper"] in PAPERS
    assert importlib.import_module(f"kmdr.studies.{study['paper']}")
    if flip := Flip.from_study(study):
        assert set(flip.base) <= set(study_names())
        assert set(flip.claims) <= {claim.id for claim in claims()}
        assert set(flip.datasets) <= set(study["datasets"])
        reads = {claim.id: set(claim.studies) for claim in claims()}
        for claim in flip.claims:
            assert reads[claim] & set(flip.base), f"{claim} reads no base of {name}"
    elif name != "bzmd15_fig3_orl":  # beyond the paper
        assert any(name in one.studies for one in [*items(), *claims()]), f"nothing reads {name}"


@pytest.mark.parametrize("name", [study["name"] for study in studies() if study.get("flip")])
def test_a_flip_changes_one_thing(name):
    """A flip's protocol is that of its base but for one setting, or its reducers or datasets have one setting more."""
    flip = Flip.from_study(next(one for one in studies() if one["name"] == name))
    mine, base = compose(f"study={name}").experiments, compose(f"study={flip.base[0]}").experiments
    bases = [one for study in flip.base for one in compose(f"study={study}").experiments]
    differences = set()
    for one in mine:
        other = next(
            b
            for b in bases
            if b.reducer == flip.reducers.get(one.reducer, one.reducer)
            and b.dataset == flip.datasets.get(one.dataset, one.dataset)
        )
        if one.protocol != other.protocol:
            differences.add("protocol")
        if (one.reducer, one.params) != (other.reducer, other.params):
            differences.add("reducer")
        if one.options != other.options or one.dataset != other.dataset:
            differences.add("dataset")
        if one.matching != other.matching:
            differences.add("matching")
        assert one.seed == other.seed
        assert one.repeats <= other.repeats, "a flip repeats trials that the base has"
        assert set(one.r_grid) <= set(other.r_grid), "a flip is on the base's grid"
    allowed = {"protocol", "reducer"} if flip.entry == "speed" else None
    assert differences == allowed or (allowed is None and len(differences) == 1), differences
    assert base


@pytest.mark.parametrize("paper", PAPERS)
def test_reported_numbers_name_what_exists(paper):
    table = reported(paper)
    assert list(table.columns) == ["id", "dataset", "method", "r", "quantity", "value", "reading_error", "where"]
    assert set(table["id"]) <= {one.id for one in [*items(), *claims()]}
    assert set(table["dataset"]) - {""} <= set(datasets.names())
    assert (table["reading_error"] >= 0).all()
    assert (REPORTED / f"{paper}.csv").is_file()


def test_an_unknown_item_is_refused():
    with pytest.raises(Exception, match="did you mean 'lf20_fig8'"):
        item("lf20_fig88")


def test_every_study_has_its_own_file():
    for name in study_names():
        assert OmegaConf.load(CONF / "study" / f"{name}.yaml").study.name == name
