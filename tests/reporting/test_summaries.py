"""The summaries of papers: which claim is where, with which numbers, and the reason that is given."""

from dataclasses import replace

import pandas as pd
import pytest

from kmdr.analysis.statistics import Component
from kmdr.claims import register
from kmdr.claims.catalogue import claims
from kmdr.claims.draws import TOGETHER
from kmdr.claims.repetitions import Need
from kmdr.claims.summary import Deviation, Sentence, Summary
from kmdr.claims.verdicts import Diagnosis, Judgement, Verdict
from kmdr.config.studies import studies
from kmdr.figures.tables import cells
from kmdr.multiverse.section import MultiverseSection
from kmdr.reporting.citations import cited, select
from kmdr.reporting.names import claim_sources
from kmdr.reporting.numbers import effect
from kmdr.reporting.summaries import diagnosed, leading, paper_summaries, reason
from reports import make_report, page_and_markdown, verdicts

GOOD, BAD, OPEN = (
    Judgement("supported", 0.01, 1.0),
    Judgement("not supported", 1.0, 0.01),
    Judgement("undecided", 0.4, 0.4),
)


def part(label: str, p_against: float, effect: float = -0.5, kind: str = "statement") -> Component:
    return Component(label, effect, effect, effect, 1 - p_against, p_against, 7, "P", kind)  # type: ignore[arg-type]


def verdict(**changes: object) -> Verdict:
    return replace(verdicts()[2], diagnoses=(), **changes)  # type: ignore[arg-type]


def test_every_claim_of_a_paper_that_was_run_is_in_one_place():
    report = make_report()
    parts = paper_summaries(report)["bzmd15"].parts
    assert list(parts["Not supported"].frame["claim"]) == ["bzmd15-1"]
    assert list(parts["Undecided"].frame["claim"]) == ["bzmd15-2"]
    assert "Supported" not in parts
    assert set(paper_summaries(report)) == {"bzmd15"}  # the only one with rows


def test_a_line_gives_the_reported_value_and_ours():
    number = Component("F at r = 15", -0.0125, -0.02, 0.0, 1.0, 0.01, 30, "F", "number", reported=0.7585)
    report = replace(make_report(), verdicts=[replace(verdicts()[2], kinds={"number": BAD}, components=(number,))])
    line = paper_summaries(report)["bzmd15"].parts["Not supported"].frame.iloc[0]
    assert line["reported"] == 0.7585
    assert line["ours"] == pytest.approx(0.771)


def test_claims_without_a_reported_number_have_no_columns_for_one():
    """Of the lines of most papers, all had a dash for what is reported and for ours."""
    report = make_report()
    without = replace(verdicts()[2], kinds={"statement": BAD}, components=(part("P of SVD", 0.01),))
    table = paper_summaries(replace(report, verdicts=[without]))["bzmd15"].parts["Not supported"].frame
    assert "claim" in table
    assert not {"reported", "ours"} & set(table.columns)


def test_a_summary_has_the_limitations_of_its_papers_file_only():
    """Every paper's page said that no author was contacted, also that of a paper whose file says nothing of it."""
    assert paper_summaries(make_report())["bzmd15"].parts["Limitations"] == ["Times are ours."]


def test_the_computing_time_and_the_largest_matrix_of_each_study_are_formatted():
    table = paper_summaries(make_report())["bzmd15"].parts["Computing time and memory"]
    names, lines = cells(table)
    assert names == ["study", "rows", "time", "largest data matrix (MB)"]
    assert lines[0] == ["bzmd15_fig1", "900", "1 min 15 s", "7200"]


def test_the_computing_time_of_a_paper_includes_its_multiverse():
    section = MultiverseSection("bzmd15", (), (), {}, cost={"rows": 70, "seconds": 60.0, "bytes": 8e6})
    parts = paper_summaries(replace(make_report(), multiverses={"bzmd15": section}))["bzmd15"].parts
    _, lines = cells(parts["Computing time and memory"])
    assert ["multiverse", "70", "1 min 0 s", "8"] in lines
    assert "In all 2 min 15 s" in parts["Computing time and memory"].note


def test_the_explanation_of_a_multiverse_reaches_the_summary_of_its_paper():
    explanation = "The numbers favour merged: repeats dropped (99 % of the likelihood)."
    section = MultiverseSection("bzmd15", ("5 universes were run.", explanation), (), {}, explanation)
    report = replace(make_report(), multiverses={"bzmd15": section})
    assert paper_summaries(report)["bzmd15"].parts["Open choices and the reported numbers"] == [explanation]
    for page in page_and_markdown(report):
        summary = page.partition("Open choices and the reported numbers")[2].partition("Deviations")[0]
        assert explanation in summary.replace("\\_", "_")
    silent = replace(section, explanation="")
    parts = paper_summaries(replace(report, multiverses={"bzmd15": silent}))["bzmd15"].parts
    assert "Open choices and the reported numbers" not in parts


def test_names_of_code_are_code_on_both_pages_and_plain_in_tables():
    words = Summary(easy=(Sentence("`lle.m` returns U_t."),), deviations=(Deviation("code", "`svds`", "ours", "none"),))
    report = make_report()
    papers = [replace(paper, summary=words if paper.name == "bzmd15" else Summary()) for paper in report.papers]
    page, text = page_and_markdown(replace(report, papers=papers))
    assert "<li><code>lle.m</code> returns U_t.</li>" in page
    assert "* `lle.m` returns U\\_t." in text
    assert "<td>svds</td>" in page
    assert "| code | svds | ours | none |" in text


TABLES = {
    "a_table": pd.DataFrame(
        {"method": ["SVD", "RP, twice"], "r": [5.0, 15.0], "ours": [0.5, -0.25], "nearest: low": [1, 2]}
    ),
    "b": pd.DataFrame({"method": ["LS"], "ours": [0.25], "word": ["hand"]}),
}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{a_table r=15 ours:.2f}", "−0.25"),
        ("{a_table ours:.1%}", "−25.0 to 50.0 %"),
        ("{a_table 'method=RP, twice' 'nearest: low':.1f}", "2.0"),
        ("{a_table method~RP ours:+.3f} of {a_table rows:.0f}", "−0.250 of 2"),
        ("{a_table method!=SVD ours:g}", "−0.25"),
        ("{a_table+b method=SVD,LS ours:g}", "0.25 to 0.5"),
        ("{b word}", "hand"),
        ("{absent ours}", ""),
        ("{a_table r=7 ours}", ""),
    ],
)
def test_a_text_cites_numbers_and_is_omitted_without_them(text, shown):
    assert cited(TABLES, Sentence(text)) == shown


@pytest.mark.parametrize("condition", ["a_table ours > 0", "a_table r=5 ours == 0.6", "b word != hand"])
def test_a_sentence_whose_condition_is_not_met_is_omitted(condition):
    assert cited(TABLES, Sentence("True.", (condition,))) == ""
    assert cited(TABLES, Sentence("True.", ("a_table r=5 ours == 0.5",))) == "True."


def test_an_unknown_column_is_an_error_not_an_omission_of_a_value():
    with pytest.raises(LookupError, match="hers"):
        select(TABLES, "a_table hers")


def test_findings_lead_in_their_order_and_deviations_cite_numbers():
    report = make_report()
    words = Summary(
        findings=(Sentence("B", title="b", lead=2), Sentence("A", title="a", lead=1), Sentence("C")),
        deviations=(Deviation("data", "x", "{verdicts claim=bzmd15-2 outcome}", ""),),
    )
    papers = [replace(paper, summary=words if paper.name == "bzmd15" else Summary()) for paper in report.papers]
    summaries = paper_summaries(replace(report, papers=papers))
    assert [finding.text for finding in leading(summaries)] == ["A", "B"]
    assert summaries["bzmd15"].parts["Deviations"].frame["here"][0] == "undecided"


def test_a_joint_p_value_is_not_counted_as_a_reported_value():
    values = [part(f"P at r = {r}", 0.2, kind="number") for r in (5, 10)]
    joint = part("P, 2 numbers together", 0.001, 0.0039, "number")._replace(unit=TOGETHER)
    judged = verdict(kinds={"number": BAD}, components=(*values, joint))
    assert judged.tally == "0 of 2 statements supported, 0 of 1 joint tests"
    assert reason(judged) == "none of 2 reported values is implausible alone, but jointly their p-value is 0.0039"


def test_what_fails_is_told_by_kind_with_the_clearest():
    mixed = verdict(
        kinds={"statement": GOOD, "time": BAD},
        components=(
            part("P", 0.9),
            part("A", 0.01, 3.0, "time"),
            part("B", 0.001, 5.0, "time"),
            part("C", 1.0, 0.1, "time"),
        ),
    )
    assert reason(mixed) == (
        "2 of 3 statements on time are contradicted with this implementation on this machine, after correction; "
        "clearest: B (5); its statements on F and P are supported"
    )
    single = verdict(kinds={"statement": BAD}, components=(part("P − P of k-means, above 0", 0.001),))
    assert reason(single) == "P − P of k-means, above 0: the effect is −0.5"
    one = verdict(kinds={"statement": BAD}, components=(part("P", 0.001), part("F", 1.0, 0.1)))
    assert reason(one) == "1 of 2 statements on F and P is contradicted, after correction; clearest: P (−0.5)"


def test_a_choice_that_turns_it_is_named():
    flips = (
        Diagnosis("flip_a", "centred vectors", "not supported", "supported", ""),
        Diagnosis("flip_b", "other starts", "not supported", "undecided", ""),
    )
    turned = replace(verdict(kinds={"statement": BAD}, components=(part("P", 0.001),)), diagnoses=flips)
    why = reason(turned)
    assert why.endswith("; it is supported with another choice where the paper leaves one open (centred vectors)")


def test_an_error_that_turns_it_is_not_called_an_open_choice():
    """The slip in the labels of Figure 8 was listed as a choice that lf20 leaves open."""
    slip = Diagnosis("flip_c", "signs as scored", "not supported", "supported", "", "the slip in the report's code")
    turned = replace(verdict(kinds={"statement": BAD}, components=(part("P", 0.001),)), diagnoses=(slip,))
    assert reason(turned).endswith("; it is supported only with the slip in the report's code (signs as scored)")
    flips = {flip.study: flip for flip in register.flips(studies())}
    assert "label" in flips["lf20_fig8_random_sign"].departs
    assert "§5" in flips["flip_rescaled_bmd09"].departs
    assert not flips["flip_starts_bmd09"].departs


def test_claims_on_published_rows_are_counted_apart():
    """The README said that all claims were of the papers' text, but the text of ess22 was not available."""
    every = [claim for claim in claims() if claim.paper in {"bmd09", "bzd10", "bzmd15", "lst17", "lf20", "ess22"}]
    ours = "4 claims in our words on the published rows of ess22"
    assert claim_sources(every) == f"44 claims of 5 papers and {ours}"
    assert claim_sources([claim for claim in every if claim.paper == "ess22"]) == ours
    assert claim_sources(every[:1]) == "1 claim of 1 paper"
    report = make_report()
    page, markdown = page_and_markdown(report)
    stated = claim_sources([verdict.claim for verdict in report.verdicts])
    assert stated in page
    assert f" These are {stated}.\n\n|" in markdown


def test_what_is_open_says_how_many_repetitions_it_would_take():
    component = part("P", 0.4)
    still = verdict(outcome="undecided", kinds={"statement": OPEN}, components=(component,))
    assert reason(still) == "its statements on F and P are undecided"
    never = replace(still, needed=Need(component, None))
    assert reason(never).endswith("undecided; more than 10000 repetitions would be needed if our estimates are right")
    readings = replace(still, needed=Need(component._replace(unit="readings"), None))
    assert reason(readings) == "the readings of a word in “P” disagree"
    needing = replace(still, needed=Need(component, 120))
    expected = "“P” has 7 repetitions and needs about 120"
    assert reason(needing) == expected


def test_flipped_choices_are_one_table_with_the_effects_that_decide():
    """Each flip repeated the whole sentence of the claim."""
    before, after = part("P", 0.9, -0.5), part("P", 0.01, 0.25)
    flips = (
        Diagnosis(
            "flip_a", "centred vectors", "not supported", "supported", "A long sentence.", deciding=(before, after)
        ),
        Diagnosis(
            "flip_b", "other starts", "not supported", "not supported", "A long sentence.", deciding=(None, before)
        ),
        Diagnosis("flip_c", "other data", "undecided", "not run", "no rows of flip_c"),
    )
    table = diagnosed(replace(verdict(components=(before,)), diagnoses=flips)).frame
    assert table["verdict"].tolist() == ["not supported → supported", "not supported", "undecided → not run"]
    first, second, third = table["deciding effect"]
    assert first == f"P: {effect(before)} → {effect(after)} {after.unit}"
    assert second == f"P: {effect(before)} {before.unit}"
    assert third == "no rows of flip_c"


def test_the_clearest_of_some_reported_values_is_named_with_its_difference():
    values = [part(f"P at r = {r}, reported − ours", p, kind="number") for r, p in ((5, 0.001), (10, 0.9))]
    judged = verdict(kinds={"number": BAD}, components=tuple(values))
    assert reason(judged) == (
        "1 of 2 reported values is not reproduced as written, after correction; clearest: P at r = 5 "
        "(reported − ours = −0.5)"
    )
