"""Verdicts under a reconstructed protocol."""

from dataclasses import replace

import numpy as np
import pandas as pd
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


def test_the_fact_of_the_protocol_replaces_the_one_as_written(tmp_path):
    columns = {"repeat": range(6), "agreement_of_full": 1.0, "named_drawn": 5}
    facts = {
        "bmd09_partitions": pd.DataFrame({"agreement": [0.7, 0.71, 0.72, 0.7, 0.71, 0.72], **columns}),
        "bmd09_partitions_online": pd.DataFrame({"agreement": [0.95, 0.96, 0.97, 0.95, 0.96, 0.97], **columns}),
    }
    rows, claim = [make_rows("lst17_coil20", "coil20", "none", 5, 2)], CLAIMS["bmd09-7"]
    results = make_results(rows, tmp_path, facts)
    assert verdict_on(claim, results, {}).outcome == "not supported"
    assert reconstructed(claim, results, FLIPS).outcome == "supported"
    (tmp_path / "facts" / "bmd09_partitions_online.csv").unlink()
    missing = reconstructed(claim, make_results(rows, tmp_path), FLIPS)
    assert missing.outcome == "not run"
    assert "bmd09_partitions is missing" in missing.sentence


def test_claims_on_time_have_times_under_a_reconstruction():
    studies = {
        "bzmd15_synth_times": 2.0, "flip_matlab_synth_times_bzmd15": 0.5,  # these have times
        "bzmd15_synth": np.nan, "flip_matlab_bzmd15": np.nan,
    }  # fmt: skip
    rows = [
        make_rows(study, "synth", name, r, 30, seconds=1.0 if name == "none" else seconds)
        for study, seconds in studies.items()
        for name, r in (("none", 2000), ("random_sign", (5, 20)))
    ]
    rows = [part.assign(concurrency=1 + part["study"].isin(["bzmd15_synth", "flip_matlab_bzmd15"])) for part in rows]
    claim, results = CLAIMS["bzmd15-1"], make_results(rows)
    effects = [
        verdict.components[0].effect
        for verdict in (verdict_on(claim, results, {}), reconstructed(claim, results, FLIPS))
    ]
    assert effects == pytest.approx([2.0, 0.5])


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
