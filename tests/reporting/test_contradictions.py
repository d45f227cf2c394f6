"""The report does not contradict itself: a number that is stated twice is the same twice."""

import inspect
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kmdr.analysis.statistics import Component
from kmdr.base.text import counted
from kmdr.claims.catalogue import papers
from kmdr.claims.draws import TOGETHER
from kmdr.claims.effects import tally
from kmdr.claims.register import answered, open_points
from kmdr.claims.repetitions import Need
from kmdr.claims.summary import PARTS, Sentence, Summary
from kmdr.claims.verdicts import Judgement
from kmdr.multiverse.choices import multiverses
from kmdr.reporting.citations import cited, sources
from kmdr.reporting.explore import explored
from kmdr.reporting.html import report_pages
from kmdr.reporting.numbers import effect
from kmdr.reporting.summaries import paper_summaries
from kmdr.reporting.verdict_tables import verdict_tables
from reports import explored_report, make_report, page_and_markdown
from rows import make_results, make_rows


def number(label, effect, p_against, unit="F", ends=None):
    low, high = ends or (effect - 0.1, effect + 0.1)
    return Component(label, effect, low, high, 0.5, p_against, 30, unit, "number", reported=effect + 1)


def spoiled_report():
    """Return a report with claims that rest on facts, on joint p-values and on too few runs."""
    report = make_report()
    values = tuple(number(f"F at r = {r}", -0.5, 0.3) for r in (5, 10, 20))
    joint = number("F, 3 numbers together", 0.0039, 0.0039, TOGETHER, (math.nan, math.nan))
    unbounded = number("P at r = 5", 0.1, 1.0, "P", (-math.inf, math.inf))
    few = replace(
        report.verdicts[2], outcome="undecided", components=(*values, joint, unbounded), rows={}, rows_digest="",
        kinds={"number": Judgement("undecided", 0.5, 0.3)}, needed=Need(values[1]._replace(n=10_000), 12_000),
    )  # fmt: skip
    fact = replace(few.claim, facts=("bzmd15_bound_usps",))
    return replace(report, verdicts=[*report.verdicts[:2], replace(few, claim=fact), *report.verdicts[3:]])


@pytest.fixture(scope="module")
def report():
    return spoiled_report()


@pytest.fixture(scope="module")
def pages(report):
    return page_and_markdown(report)


def test_no_page_shows_an_interval_without_bounds_or_evidence_from_no_rows(pages):
    for page in pages:
        assert "[−∞, ∞]" not in page
        assert not re.search(r"(?<!\d)0 rows", page)
        assert not re.search(r"\[(?:−?inf|nan|–,)", page)
    assert "<dt>Facts</dt><dd><code>bzmd15_bound_usps</code></dd>" in pages[0]


def test_an_interval_without_bounds_is_a_dash():
    assert effect(number("P", 0.1, 1.0, "P", (-math.inf, math.inf))) == "0.1 [—]"
    assert effect(number("P", 0.1, 1.0, "P", (-math.inf, 0.5))) == "0.1 [−∞, 0.5]"


def test_a_number_that_too_few_runs_compare_has_no_interval_anywhere(report):
    """lf20-6 had [-inf, inf] for three cells."""
    verdict = report.verdicts[2]
    unbounded = replace(verdict, components=(verdict.components[-1],))
    alone = replace(report, verdicts=[*report.verdicts[:2], unbounded, *report.verdicts[3:]])
    for table in (verdict_tables(report), verdict_tables(alone)):
        assert not any(re.search(rb"\binf\b", content) for content in table.values())
    assert "0.1 [—] P" in report_pages(alone, "0")[Path("report", "index.html")].decode().partition("All claims")[2]


def test_counts_of_claims_agree_between_scorecard_summary_and_tables(report, pages):
    verdicts = verdict_tables(report)[Path("verdicts.csv")].decode()
    for verdict in report.verdicts:
        assert f"{verdict.claim.id},{verdict.outcome}," in verdicts
    for name, summary in paper_summaries(report).items():
        shown = [id_ for part in summary.parts.values() if hasattr(part, "frame") and "claim" in part.frame
                 for id_ in part.frame["claim"]]  # fmt: skip
        assert sorted(shown) == sorted(v.claim.id for v in report.verdicts if v.claim.paper == name)
    counts = re.findall(r"Claims: ([^.]*)\.", pages[1].partition("## Scorecard")[2])[0]
    stated = {state: int(n) for n, state in re.findall(r"(\d+) ([a-z ]+)", counts)}
    assert stated == {state: [v.outcome for v in report.verdicts].count(state) for state in stated}
    assert sum(stated.values()) == len(report.verdicts)


def test_a_ratio_to_all_features_is_the_same_number_in_a_text_and_in_the_view_answers():
    """A text had the ratio of medians, .48, and the view the median of ratios, .49."""
    measured = {
        "none": (lambda r, t: 1 + t % 3, lambda r, t: 1 + t**2),
        "svd": (lambda r, t: 2 + t % 2, lambda r, t: 9 - t),
    }
    rows = [
        make_rows("bzmd15_fig1", "usps", name, (256,) if name == "none" else (5, 10), 9, objective=F, seconds=seconds)
        for name, (F, seconds) in measured.items()
    ]
    data = explored(pd.concat(rows, ignore_index=True), [])
    words = (
        "{answers dataset=usps method=svd r=10 quantity=relative_objective centre:.4f} of F, "
        "{answers dataset=usps method=svd r=10 quantity=relative_seconds centre:.4g} of the time, "
        "{answers dataset=usps method=svd r=10 quantity=accuracy change:+.3f} in P"
    )
    base = replace(make_report(), explored=data)
    summary = Summary(findings=(Sentence(words, answer=True),))
    report = replace(
        base, papers=[replace(p, summary=summary if p.name == "bzmd15" else Summary()) for p in base.papers]
    )
    (view,) = data["views"]
    shown_F, shown_seconds = (
        next(line["centre"][1] for line in view["lines"][name] if view["methods"][line["method"]] == "svd")
        for name in ("relative_objective", "relative_seconds")
    )
    t = np.arange(9)
    assert shown_F == pytest.approx(np.mean((2 + t % 2) / (1 + t % 3)), abs=1e-4)
    assert shown_seconds == pytest.approx(np.median((9 - t) / (1 + t**2)), rel=1e-3)
    for page in page_and_markdown(report):
        assert f"{shown_F:.4f} of F, {shown_seconds:.4g} of the time, +0.000 in P" in " ".join(page.split()).replace(
            "\\", ""
        )


def test_no_source_but_the_view_answers_has_ratios_to_all_features():
    """So that a second definition of them does not come back unseen."""
    tables = sources(replace(explored_report(), verdicts=[]))
    assert {"relative_objective", "relative_seconds"} <= set(tables["answers"]["quantity"])
    assert all("relative" not in table for table in tables.values())


def test_joint_p_values_are_not_counted_as_statements(report, pages):
    verdict = next(verdict for verdict in report.verdicts if verdict.claim.id == "bzmd15-1")
    assert verdict.tally == "0 of 4 statements supported, 0 of 1 joint tests"
    assert tally(verdict.components).startswith("unadjusted, 0 of 4 comparisons are supported")
    for page in pages:
        assert "of 5 statements" not in page


def test_needed_repetitions_name_the_statement_whose_repetitions_they_are(report):
    line = paper_summaries(report)["bzmd15"].parts["Undecided"].frame.set_index("claim").loc["bzmd15-1"]
    assert "“F at r = 10” has 10000 repetitions and needs about 12000" in line["reason"]


def test_a_finding_on_the_likelihood_of_choices_depends_on_whether_the_papers_own_are_rejected():
    """bmd09's said that its own choices were not rejected, with the runs of a universe; with all runs they are."""
    (finding,) = (
        finding
        for paper in papers()
        for finding in paper.summary.findings
        if "bmd09_multiverse_options" in finding.text
    )
    reported = pd.DataFrame({"dataset": "NIPS", "quantity": ["F", "P"], "r": "15", "reported": 0.8, "ours": 0.7})
    likelihood = pd.DataFrame({"choice": ["rescaled"], "option": "as they are", "likelihood": 0.95})
    label = "P, leverage, r = 15"
    columns = {"own": [True, False], "p": [0.01, 0.4], f"probability of {label}": [0.03, 0.2]}
    universes = pd.DataFrame(columns | {"numbers": ["rejected", "not rejected"], "least_likely": label})

    def stated(table):
        tables = {"bmd09_table1": reported, "bmd09_multiverse_options": likelihood, "bmd09_multiverse_universes": table}
        return cited(tables, finding)

    assert "p = 0.03 under the paper's own choices (0.03 to 0.2 over" in stated(universes)
    assert "reject the paper's own choices (unadjusted p = 0.01)" in stated(universes)
    assert "Of the 1 other combinations they reject 0 and do not reject 1; 0 have too few runs" in stated(universes)
    assert not stated(universes.assign(p=[0.19, 0.4]))
    assert not stated(universes.assign(numbers=["rejected", "too few runs"]))
    assert not stated(universes.assign(least_likely="F, leverage, r = 15"))


def test_no_choice_that_a_multiverse_varies_is_said_to_be_unmeasured():
    choices = {paper.name: set() for paper in papers()}
    for spec in multiverses():
        choices[spec.paper] |= set(spec.choices)
    for paper in papers():
        for point in choices[paper.name] & set(paper.answers):
            answer = paper.answers[point]
            assert "unmeasured" not in answer.__qualname__, f"{paper.name}: {point}"
            assert "not measured" not in inspect.getsource(answer), f"{paper.name}: {point}"


def test_each_answer_to_an_open_point_of_several_papers_names_the_paper():
    """One answer said "not measured" next to a measured one."""
    (point,) = (point for point in open_points() if point.id == "laplacian_code")
    assert point.papers == ("bzd10", "bzmd15", "lst17")
    answer = answered(point, make_results([make_rows("custom", "d", "none", 5, 2)]))
    assert answer.startswith("bzd10: Reconstructed")
    assert " bzmd15: Not run: " in answer
    assert " lst17: Measured in the multiverse" in answer
    (alone,) = (point for point in open_points() if point.id == "lle_code")
    assert answered(alone, make_results([make_rows("custom", "d", "none", 5, 2)])).startswith("Reconstructed")


def test_claims_in_summaries_exist_and_no_result_is_typed_into_their_words():
    ids = {claim.id for paper in papers() for claim in paper.claims}
    for paper in papers():
        words = paper.summary
        texts = [sentence.text for part in PARTS for sentence in getattr(words, part)]
        for text in (*texts, *(cell for line in words.deviations for cell in line)):
            assert set(re.findall(r"\b[a-z]+\d\d-\d+\b", text)) <= ids
            prose = re.sub(r"\{[^{}]*\}", "", text)
            # Decimals are results; whole numbers may be settings such as r = 15.
            assert not re.findall(r"\d\.\d|\B\.\d", prose), prose


@pytest.mark.parametrize("fails", range(4))
@pytest.mark.parametrize("open_", range(4))
def test_a_tally_is_grammatical_and_shows_counts_without_a_sign(fails: int, open_: int) -> None:
    """It said "1 are undecided", and "(+8)" of 8 r."""
    failing, unknown = (Component("s, at each of the 20 r", 8, math.nan, math.nan, 1.0, p, 9, "r") for p in (0.0, 1.0))
    text = tally([*[failing] * fails, *[unknown] * open_])
    start = f"unadjusted, 0 of {counted(fails + open_, 'comparison')} {'is' if fails + open_ == 1 else 'are'} supported"
    rest = [f"{fails} contradicted"] * bool(fails) + [f"{open_} undecided"] * bool(open_)
    assert text.partition(". ")[0] == start + (f" ({', '.join(rest)})" if rest else "")
    assert text.endswith(": 8 r") == (fails > 0)
    assert "+8" not in text
