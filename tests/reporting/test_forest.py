"""Forest plots, pictures of cards and the search index: against the numbers and the parts of a report."""

import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kmdr.analysis import statistics
from kmdr.analysis.statistics import Component, Margin
from kmdr.reporting.forest import forests
from kmdr.reporting.search import entries
from kmdr.reporting.sparkline import sparkline
from reports import curves, explored_report, make_report, page_and_markdown, verdicts

NUMBERS = st.floats(-1e3, 1e3).map(lambda value: round(value, 3))
TESTS = {
    "above": lambda x, bound: statistics.above("", x, bound),
    "below": lambda x, bound: statistics.below("", x, bound),
    "equal": lambda x, bound: statistics.equal("", x, abs(bound) + 0.1, centre=bound),
    "not inferior": lambda x, bound: statistics.not_inferior("", x, abs(bound)),
    "median above": lambda x, bound: statistics.median_above("", x, bound),
    "median below": lambda x, bound: statistics.median_below("", x, bound),
    "median equal": lambda x, bound: statistics.median_equal("", x, abs(bound) + 0.1, centre=bound),
    "at least": lambda x, bound: statistics.certain("", x[0], bound, 5, ""),
    "at most": lambda x, bound: statistics.certain("", x[0], bound, 5, "", at_most=True),
    "share above": lambda x, bound: statistics.share("", sum(x > bound), len(x), 0.5),
    "share below": lambda x, bound: statistics.share("", sum(x > bound), len(x), 0.5, at_most=True),
    "ratio": lambda x, bound: statistics.ratio_above("", np.exp(x / 1e3), Margin(math.exp(bound / 1e3), "ratio")),
}


@pytest.mark.parametrize("name", TESTS)
@given(st.lists(NUMBERS, min_size=8, max_size=20), NUMBERS)
def test_an_effect_is_inside_its_bounds_where_a_test_shows_the_statement_and_outside_where_it_refutes_it(
    name, values, bound
):
    component = TESTS[name](np.array(values), bound)
    low, high = component.bounds
    assert math.isfinite(low) or math.isfinite(high)
    slack = 1e-9 * max(1, abs(component.effect))
    if component.p_for <= 0.05:
        assert low - slack <= component.effect <= high + slack
    elif component.p_against <= 0.05:
        assert not low + slack < component.effect < high - slack


def statement(effect, low, high, bounds=(-math.inf, math.inf), unit="F"):
    return Component("", effect, low, high, 0.5, 0.5, 9, unit, bounds=bounds)


@given(st.lists(st.tuples(NUMBERS, st.floats(0, 50), st.floats(-50, 50)), min_size=1, max_size=6), st.booleans())
def test_positions_keep_the_order_of_the_values_on_linear_and_logarithmic_scales(given_, positive):
    parts = []
    for value, half, bound in given_:
        effect, threshold = (math.exp(value / 200), math.exp(bound / 20)) if positive else (value, bound)
        ends = (effect / (1 + half), effect * (1 + half)) if positive else (effect - half, effect + half)
        parts.append(statement(effect, *ends, bounds=(threshold, math.inf)))
    base = next(verdict for verdict in verdicts() if verdict.components)
    (forest,) = forests(replace(base, components=tuple(parts)))
    values, places = [], []
    for line in forest.lines:
        c = line.component
        values += [c.effect, c.bounds[0]]
        places += [line.effect, line.bounds[0]]
        if c.low != c.high:
            values += [c.low, c.high]
            places += [line.low, line.high]
        assert line.most == pytest.approx(100)
    assert all(-1e-9 <= place <= 100 + 1e-9 for place in places)
    order = np.argsort(values, kind="stable")
    assert (np.diff(np.array(places)[order]) >= -1e-9).all()


@given(st.lists(st.floats(allow_nan=False), min_size=6, max_size=6))
@example([0.0, 0.0, 0.0, 0.0, 1.7285510912137654e306, 0.0])
def test_no_number_is_too_great_or_too_small_for_a_plot(numbers):
    """A bound of 1e-308 ended the report with a traceback."""
    effect, other, bound, *_ = numbers
    base = next(verdict for verdict in verdicts() if verdict.components)
    parts = (statement(effect, *sorted(numbers[3:5]), bounds=(bound, math.inf)), statement(other, other, other))
    for forest in forests(replace(base, components=parts)):
        for line in forest.lines:
            for place in (line.effect, line.low, line.high, *line.bounds):
                assert math.isnan(place) or -1e-6 <= place <= 100 + 1e-6


def test_statements_without_interval_and_bound_have_no_plot_and_units_have_their_own_scales():
    base = next(verdict for verdict in verdicts() if verdict.components)
    parts = (statement(1, 0, 2), statement(3, math.nan, math.nan, unit="groups"), statement(9, 8, 10, unit="P"))
    made = list(forests(replace(base, components=parts)))
    assert [forest.unit for forest in made] == ["F", "groups", "P"]
    assert [math.isnan(forest.first) for forest in made] == [False, True, False]
    assert math.isnan(made[1].lines[0].effect)
    assert made[0].lines[0].bounds == ()


def test_a_card_draws_each_curve_of_a_figure_or_else_the_greatest_numbers_of_one():
    drawn = str(sparkline([curves(methods=("RP", "SVD", "LS"))]))
    assert drawn.count("<polyline") == 3
    assert "against r on Synth" in drawn
    scores = pd.DataFrame({"word": list("abcd"), "score": [0.25, 1.0, 0.5, 0.75]})
    (path,) = re.findall(r'points="([^"]+)"', str(sparkline([pd.DataFrame(), scores])))
    assert path == "0.0,0.0 33.3,10.0 66.7,20.0 100.0,30.0"
    assert not sparkline([pd.DataFrame({"word": ["a"]})])


def test_each_claim_item_study_and_open_choice_can_be_found_and_is_in_the_page():
    report = make_report()
    index = entries(report, [("home", "Overview")])
    addresses = [entry.address for entry in index]
    assert len(addresses) == len(set(addresses))
    for id_ in [*(v.claim.id for v in report.verdicts), *(made.item.id for made in report.items)]:
        assert f"#{id_}" in addresses
    claim = next(entry for entry in index if entry.address == "#bzmd15-1")
    assert "not supported" in claim.text


def test_search_results_and_headings_say_whether_a_name_is_a_dataset_or_a_venue():
    """NIPS was both, without a word on which."""
    report = explored_report()
    points = [(replace(report.register[0][0], question="Which points of USPS?"), *report.register[0][1:])]
    items = [replace(made, item=replace(made.item, title="P on USPS, USPS 2009 and USPSA")) for made in report.items]
    venues = [replace(paper, venue=f"USPS {paper.year}") for paper in report.papers]
    report = replace(report, papers=venues, register=points, items=items)
    page, _ = page_and_markdown(report)
    index = entries(report, [("home", "Overview"), ("paper-bmd09", "Title, USPS 2009")])
    kinds = {entry.text: entry.kind for entry in index}
    assert kinds["USPS (dataset): best method"] == kinds["Synth: best method"] == "dataset"
    assert kinds["Title, USPS 2009"] == "paper"
    assert kinds["Which points of USPS (dataset)?"] == "open choice"
    assert ">Which points of USPS (dataset)?<" in page
    assert "P on USPS (dataset), USPS 2009 and USPSA" in page
    assert not re.search(r"<h\d[^>]*>[^<]*\bUSPS\b(?! \(dataset\)| \d{4})", page.replace("USPS 2009 and USPSA", ""))
