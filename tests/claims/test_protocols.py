"""Verdicts under a reconstructed protocol."""

from dataclasses import replace

import pytest

from kmdr.claims.catalogue import claims, papers
from kmdr.claims.protocols import reconstructed, reconstructed_rows
from kmdr.claims.register import flips
from kmdr.claims.verdicts import judge, verdict_on
from kmdr.config import protocols
from kmdr.config.compose import composed_studies
from kmdr.config.studies import studies
from rows import make_results, make_rows

FLIPS = flips(studies())
CLAIMS = {claim.id: claim for claim in claims()}
T = (10, 20, 50, 100)


def table2(study: str, rp: float, *, svd: str = "svd"):
    return [
        make_rows(study if svd != "svd" else "bzd10_table2", "orl_64x64", svd, T, 2, accuracy=0.6),
        make_rows(study if svd != "svd" else "bzd10_table2", "orl_64x64", "lle", T, 2, accuracy=0.6),
        make_rows(
            study, "orl_64x64", "random_sign", T, 20,
            accuracy=lambda t, i: rp + 0.1 * (t == 100) + 1e-3 * (i % 5),
        ),
    ]  # fmt: skip


def test_a_claim_is_judged_on_the_rows_of_the_reconstruction_alone():
    rows = [*table2("bzd10_table2_signs", 0.7), *table2("flip_matlab_bzd10", 0.55, svd="left_singular_vectors")]
    results = make_results(rows)
    claim = CLAIMS["bzd10-6"]
    assert verdict_on(claim, results, {}).outcome == "not supported"
    other = reconstructed(claim, results, FLIPS)
    assert other.outcome == "supported"
    assert set(other.rows) <= {"bzd10_table2", "bzd10_table2_signs"}
    shown = reconstructed_rows(results, [flip for flip in FLIPS if flip.entry == "codes"])
    assert set(shown["reducer"]) == {"svd", "lle", "random_sign"}


def test_both_verdicts_are_corrected_apart():
    results = make_results([*table2("bzd10_table2_signs", 0.7)])
    alone = verdict_on(CLAIMS["bzd10-6"], results, {})
    (judged,) = judge([replace(alone, reconstructed=reconstructed(alone.claim, results, FLIPS))], {})
    assert judged.outcome == "not supported"
    assert judged.reconstructed.outcome == "not run"
    assert "flip_matlab_bzd10" in judged.reconstructed.sentence


@pytest.mark.parametrize("name", ["bzd10", "bmd09", "bzmd15"])
def test_a_reconstruction_is_run_by_studies_and_documented(name):
    paper = next(paper for paper in papers() if paper.name == name)
    assert any(flip.entry == paper.reconstruction.entry and flip.study.endswith(name) for flip in FLIPS)
    if "reconstruction.md" in paper.reconstruction.basis:
        assert "held out" in (paper.folder.folder / "reconstruction.md").read_text("utf-8")
    empty = make_results([make_rows("lst17_coil20", "coil20", "none", 5, 2)])
    for claim in paper.claims:
        assert reconstructed(claim, empty, FLIPS) is not None
    assert reconstructed(CLAIMS["lst17-1"], empty, FLIPS) is None


def test_partitions_are_of_the_protocol_as_written():
    empty = make_results([make_rows("lst17_coil20", "coil20", "none", 5, 2)])
    assert reconstructed(CLAIMS["bmd09-7"], empty, FLIPS).sentence.startswith("Its fact is computed")


def test_the_rank_of_every_study_is_its_own_and_not_the_default(monkeypatch):
    of_default = protocols.choice
    assert {of_default("reducer", name)["rank"] for name in ("svd", "approx_svd")} == {"r"}

    def without_rank(group, name):
        config = of_default(group, name)
        return {**config, "rank": None} if "rank" in config else config

    monkeypatch.setattr(protocols, "choice", without_rank)
    ranks = [
        config["reducer"]["rank"]
        for study in composed_studies("results/none").values()
        for config in protocols.pairs(study)
        if "rank" in config["reducer"]
    ]
    assert len(ranks) > 50
    assert set(ranks) == {"k", "r"}
