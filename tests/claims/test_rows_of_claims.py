"""Claims use all rows that they could: rows without a partner are left unused only where a claim says why."""

from dataclasses import replace

import pandas as pd
import pytest
from scipy.stats import ttest_ind

from kmdr.analysis.results import NotRunError, Recorder, Results
from kmdr.analysis.statistics import Component
from kmdr.base.paths import CHECKOUT
from kmdr.claims.catalogue import Claim, claims
from kmdr.claims.register import SPEED, Flip, flipped, flips
from kmdr.claims.verdicts import Verdict, uncorrected
from kmdr.config.studies import studies
from kmdr.figures.panels import dataset_label

REFERENCE = CHECKOUT / "results" / "reference"
PAPERS = ("bmd09", "bzd10", "bzmd15", "lst17", "lf20")
BUILT_IN = [claim for claim in claims() if claim.studies and claim.paper in PAPERS]
FLIPS = flips(list(studies()))
CELL = ["study", "dataset", "reducer", "r"]


@pytest.fixture(scope="module")
def results() -> Results:
    return Results.from_folder(REFERENCE)


def judged_statements(verdict: Verdict) -> list[Component]:
    """Return the components of a claim, and the single ones of a component that rests on several."""
    return [*verdict.components, *verdict.aside.get("one of several", ())]


def unused(claim: Claim, results: Results) -> list[tuple[object, ...]]:
    """Return the methods whose surplus repetitions a claim does not use."""
    recorder = Recorder(results)
    verdict = uncorrected(claim, recorder)
    if not verdict.components:
        return []
    rows = recorder.rows_read(list(results.compact_rows))
    rows = rows[rows["study"].isin(claim.studies) & (rows["stand_in"] == "")]  # stand-ins decide nothing
    counts = rows.groupby(CELL)["repeat"].nunique().groupby(["study", "dataset", "reducer"]).max()
    fewest = counts.groupby(["dataset"]).transform("min")

    def changes(kept: "pd.Series[bool]") -> bool:
        """Return whether a test on a part of the rows gives other components, or none."""
        other = uncorrected(claim, results.replaced(rows[kept], claim.studies))
        return [c[:6] for c in judged_statements(other)] != [c[:6] for c in judged_statements(verdict)]

    idle = []
    for method in counts.index[counts > fewest]:
        study, dataset, reducer = method
        limit = (counts[method] + fewest[method]) // 2
        of_method = (rows["study"] == study) & (rows["dataset"] == dataset) & (rows["reducer"] == reducer)
        # A method that another claim of the same studies is about may go as a whole.
        if not changes(~(of_method & (rows["repeat"] >= limit))) and changes(~of_method):
            idle.append(method)
    return idle


@pytest.mark.slow
@pytest.mark.parametrize("claim", BUILT_IN, ids=lambda claim: claim.id)
def test_a_claim_uses_all_its_rows_or_says_why_not(claim, results):
    assert claim.paired or not unused(claim, results)


def test_a_claim_on_a_subset_is_found(results):
    claim = next(claim for claim in claims() if claim.id == "lf20-5")

    def half(given: Results):
        rows = given.rows("lf20_nips_runs")
        return claim.test(given.replaced(rows[rows["repeat"] < 1000], ["lf20_nips_runs"]))

    assert ("lf20_nips_runs", "nips", "leverage") not in unused(claim, results)
    assert ("lf20_nips_runs", "nips", "leverage") in unused(replace(claim, test=half), results)


def test_shares_are_of_all_runs_of_their_method(results):
    claim = next(claim for claim in claims() if claim.id == "lf20-5")
    counts = results.rows("lf20_nips_runs").query("r == 30").groupby("reducer")["repeat"].nunique()
    squared, unsquared, gain = claim(results).components
    assert (squared.n, unsquared.n) == (counts["leverage"], counts["leverage_sqrt"])
    assert gain.n == min(squared.n, unsquared.n)


def _replaces_trials(flip: Flip) -> bool:
    """Return whether a flip replaces F and P, and not only times."""
    return flip.entry != SPEED and not all("times" in name for name in flip.base)


@pytest.mark.parametrize("flip", [*filter(_replaces_trials, FLIPS)], ids=lambda flip: flip.study)
def test_a_flip_replaces_all_rows_of_the_configurations_that_its_claims_read(flip, results):
    """The rows of another study of the same configuration stayed, and means mixed both choices."""
    try:
        after = flipped(results, flip)[1]
    except NotRunError:
        pytest.skip("not run")
    new = after.rows(flip.base, mixed=True)
    before = results.rows(flip.base, mixed=True)
    of_flip = results.rows(flip.study, mixed=True)["config_hash"]
    changed = new.loc[new["config_hash"].isin(of_flip), ["dataset", "reducer"]].drop_duplicates()
    replaced_hashes = {*before.merge(changed)["config_hash"]} - {*of_flip}
    for claim in (claim for claim in BUILT_IN if claim.id in flip.claims):
        assert not {*after.rows(claim.studies, mixed=True)["config_hash"]} & replaced_hashes, claim.id


def test_runs_on_different_datasets_are_compared_without_pairs(results):
    """Claim 8 paired two datasets by the number of the repetition, and used 10 of up to 300 runs."""
    claim = next(claim for claim in claims() if claim.id == "bzmd15-8")
    ends = ("bzmd15_ends", "bzmd15_ends_orl", "bzmd15_synth")
    rows = results.rows((*(f"bzmd15_fig{i}" for i in (1, 2, 3)), *ends), mixed=True)
    runs = rows[rows["reducer"] == "none"].drop_duplicates(["dataset", "seed", "repeat"]).set_index("dataset")
    pairs = [component for component in claim(results).aside["one of several"] if " − " in component.label]
    assert len(pairs) == 6
    for component in pairs:
        lower, higher = (
            next(part for name, part in runs["accuracy"].groupby(level=0) if dataset_label(str(name)) == label)
            for label in component.label.removeprefix("P of kMeans, ").removesuffix(", below 0").split(" − ")
        )
        expected = ttest_ind(lower, higher, equal_var=False, alternative="less")
        assert component.effect == pytest.approx(lower.mean() - higher.mean())
        assert (component.p_for, component.n) == (pytest.approx(expected.pvalue), min(len(lower), len(higher)))
