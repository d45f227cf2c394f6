"""Claims on time in the report: what they rest on, and what more repetitions would cost."""

import io
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from kmdr.analysis.statistics import Component
from kmdr.claims.repetitions import MOST, MOST_SECONDS, Need
from kmdr.claims.verdicts import Basis, Judgement, OtherTimes
from kmdr.reporting.html import left_open
from kmdr.reporting.summaries import paper_summaries
from kmdr.reporting.verdict_tables import verdict_tables
from reports import make_report, page_and_markdown

OURS = Component("SVD: total time ÷ that of kMeans, below 1", 0.99, 0.88, 1.2, 0.1, 0.3, 30, "ratio of times", "time")
LAPACK = OURS._replace(effect=4.5, low=4.25, high=4.75, p_for=1.0, p_against=0.004, n=8)


@pytest.fixture(scope="module")
def report():
    made = make_report()
    basis = Basis("implementation", (OtherTimes("LAPACK & scikit-learn", "not supported", {OURS.label: LAPACK}),))
    timed = replace(
        made.verdicts[2], outcome="undecided", components=(OURS,), kinds={"time": Judgement("undecided", 0.4, 1.0)},
        needed=Need(OURS, 89), basis=basis, repetition_seconds={"time": 2.0}, aside={}, swings=(),
    )  # fmt: skip
    return replace(made, verdicts=[*made.verdicts[:2], timed, *made.verdicts[3:]])


def test_every_page_states_what_a_claim_on_time_rests_on_with_both_ratios(report):
    html, markdown = page_and_markdown(report)
    why = "the implementation, as the claim has another outcome with another one"
    assert f"<dt>Times rest on</dt><dd>{why}; LAPACK &amp; scikit-learn: not supported" in html
    assert f"* Times rest on: {why}; LAPACK & scikit-learn: not supported" in markdown
    for page in (html, markdown):
        assert "0.99 [0.88, 1.2] with ours, 4.5 [4.25, 4.75] ratio of times there, 8 timings" in page.replace("\\", "")
    (cell,) = (
        cell
        for summary in paper_summaries(report).values()
        for part in summary.parts.values()
        if "times rest on" in getattr(part, "frame", pd.DataFrame())
        for cell in part.frame["times rest on"]
        if cell
    )
    assert cell.startswith("implementation; LAPACK & scikit-learn: not supported (SVD: total time")


def test_the_tables_have_the_ratio_with_another_implementation_beside_ours(report):
    files = verdict_tables(report)
    verdicts, components = (pd.read_csv(io.BytesIO(files[Path(f"{name}.csv")])) for name in ("verdicts", "components"))
    line = verdicts.set_index("claim").loc[report.verdicts[2].claim.id]
    assert line["times_rest_on"] == "implementation"
    assert "4.5 [4.25, 4.75]" in line["other_implementations"]
    assert line["seconds_needed"] == 2.0 * (89 - 30)
    components = components.set_index("label")
    ours = components.loc[OURS.label]
    assert ours["other_implementation"] == "LAPACK & scikit-learn"
    assert ours[["other_effect", "other_low", "other_high", "other_n"]].tolist() == [4.5, 4.25, 4.75, 8]
    assert components.loc[components["kind"] != "time", "other_effect"].isna().all()


def test_open_claims_are_listed_with_the_cost_of_the_repetitions_that_they_need(report):
    timed = report.verdicts[2]
    assert (
        left_open(timed) == f"{OURS.label}: 30 repetitions, 89 would decide it (at most 1 min 58 s of computing more)"
    )
    dear = replace(timed, repetition_seconds={"time": 60.0})
    assert dear.seconds_needed > MOST_SECONDS
    assert left_open(dear).endswith("(at most 59 min 0 s of computing more, more than the limit)")
    assert left_open(replace(timed, needed=Need(OURS, None))).startswith("more than 10000 repetitions would be needed")
    many = replace(timed, needed=Need(OURS, None), components=(OURS._replace(n=2 * MOST),))
    assert left_open(many).startswith(f"more than {2 * MOST} repetitions would be needed")
    # It said that more runs would hardly change the p-values, which 20,000 instead of 10,000 halve for the best of 30.
    number = replace(many, components=(OURS._replace(n=MOST, kind="number"),))
    assert left_open(number).startswith(f"more than {MOST} repetitions would be needed")
    assert "readings disagree" in left_open(replace(timed, needed=Need(OURS._replace(unit="readings"), None)))
    for page in page_and_markdown(report):
        assert "Claims left open" in page
        assert "1 min 58 s of computing more" in page
