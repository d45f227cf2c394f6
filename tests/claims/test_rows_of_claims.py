"""Claims use all rows that they could: rows without a partner are left unused only where a claim says why."""

from dataclasses import replace

import pandas as pd
import pytest

from kmdr.analysis.results import Recorder, Results
from kmdr.base.paths import CHECKOUT
from kmdr.claims.catalogue import Claim, claims
from kmdr.claims.verdicts import uncorrected

REFERENCE = CHECKOUT / "results" / "reference"
PAPERS = ("bmd09", "bzd10", "bzmd15", "lst17", "lf20")
BUILT_IN = [claim for claim in claims() if claim.studies and claim.paper in PAPERS]
CELL = ["study", "dataset", "reducer", "r"]


@pytest.fixture(scope="module")
def results() -> Results:
    return Results.from_folder(REFERENCE)


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
        return [c[:6] for c in other.components] != [c[:6] for c in verdict.components]

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
