"""Agreement of tables and figures with the printed numbers."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from kmdr.claims.agreement import Agreement, agreement, reconstructed_agreement
from kmdr.claims.reported import numbers


def cells(**columns):
    return pd.DataFrame({"dataset": "NIPS", "quantity": "P", "r": [15, 30, 60], **columns})


def test_a_cell_agrees_if_a_number_that_is_printed_like_it_is_inside_the_interval():
    printed = [number.value for number in numbers("bmd09_table1", dataset="nips", quantity="accuracy")][:3]
    error = numbers("bmd09_table1")[0].reading_error
    table = cells(reported=printed, ours=0.7, low=np.add(printed, [-0.1, 0.9 * error, 2 * error]), high=1.0)
    assert agreement("bmd09_table1", table) == Agreement(2, 3, "cell")


def test_a_deterministic_cell_agrees_if_it_is_ours_to_its_last_digit():
    number = numbers("bzd10_table2")[0]
    ours = number.value + number.reading_error * np.array([0.0, 0.9, 1.1])
    table = cells(reported=number.value, ours=ours, low=np.nan, high=np.nan)
    assert agreement("bzd10_table2", table) == Agreement(2, 3, "cell")


def test_cells_without_our_number_are_not_compared_and_variants_of_a_cell_count_once():
    table = cells(reported=0.5, ours=[0.5, np.nan, 0.5], low=0.4, high=0.6)
    variants = pd.concat([table, table.assign(low=0.55)])
    assert agreement("bmd09_table1", variants) == Agreement(2, 2, "cell")


def test_a_table_with_a_reconstruction_is_compared_under_both_protocols():
    """Table 2 of bzd10 had a cross under the finding that its numbers are reproduced to the last digit."""
    ends = {"low": 0.6, "high": 0.7, "low reconstructed": [np.nan, 0.4, 0.6], "high reconstructed": [np.nan, 0.6, 0.7]}
    table = cells(reported=0.5, **ends).assign(**{"ours as written": 0.65, "ours reconstructed": [0.5, 0.55, 0.65]})
    assert agreement("bmd09_table1", table) == Agreement(0, 3, "cell")
    assert reconstructed_agreement("bmd09_table1", table) == Agreement(2, 3, "cell")
    assert reconstructed_agreement("bmd09_table1", cells(reported=0.5, ours=0.5, low=0.4, high=0.6)) is None


def curve(mean, low, high, count, quantity="accuracy", params="{}"):
    ours = {"drawn_as": "curve", "params": params, "mean": mean, "low": low, "high": high, "count": count}
    return pd.DataFrame({"quantity": quantity, "dataset": "orl", "reducer": "random_sign", "r": 130, **ours}, index=[0])


def point(mean, quantity="accuracy", params=None):
    return curve(mean, np.nan, np.nan, np.nan, quantity, params).assign(drawn_as="reported")


@pytest.mark.parametrize("seed", range(3))
def test_a_point_is_inside_the_prediction_interval_of_one_more_run(seed):
    rng = np.random.default_rng(seed)
    runs = rng.normal(size=30)
    mean, error = runs.mean(), runs.std(ddof=1) / np.sqrt(30)
    low, high = stats.t(29, mean, error).interval(0.95)
    ours = curve(mean, low, high, 30)
    end = mean + stats.t(29).ppf(0.975) * runs.std(ddof=1) * np.sqrt(1 + 1 / 30)
    for value, inside in ((end - 1e-9, 1), (end + 1e-9, 0)):
        assert agreement("lf20_fig2", pd.concat([ours, point(value)])) == Agreement(inside, 1, "point")


def test_a_point_is_compared_with_the_curve_of_its_settings():
    curves = [curve(0.5, 0.49, 0.51, 30, params="a"), curve(0.9, 0.89, 0.91, 30, params="b")]
    assert agreement("lf20_fig8", pd.concat([*curves, point(0.5, params="b")])) == Agreement(0, 1, "point")
    assert agreement("lf20_fig8", pd.concat([*curves, point(0.9, params="b")])) == Agreement(1, 1, "point")


def test_times_and_items_without_printed_numbers_are_not_comparable():
    timed = pd.concat([curve(1.0, 0.9, 1.1, 5, "total_seconds"), point(1.0, "total_seconds")])
    assert agreement("lf20_fig8", timed) is None
    assert agreement("lf20_fig2", curve(0.5, 0.4, 0.6, 30)) is None
    assert agreement("bmd09_fig1", pd.DataFrame({"word": ["ruyter"], "score": [0.1]})) is None
    assert agreement("bzmd15_table1", pd.DataFrame({"ours": [1.2], "reported, ε = 1/3": [2.3]})) is None


@pytest.mark.parametrize(
    ("inside", "compared", "outcome"),
    [(0, 1, "differs"), (1, 1, "agrees"), (7, 8, "agrees"), (4, 8, "agrees in part"), (3, 8, "differs"),
     (95, 100, "agrees"), (91, 100, "agrees"), (90, 100, "agrees in part"), (100, 100, "agrees")],
)  # fmt: skip
def test_the_outcome_is_what_95_percent_intervals_would_give(inside, compared, outcome):
    assert Agreement(inside, compared, "cell").outcome == outcome


def test_the_numbers_are_in_words():
    assert str(Agreement(7, 8, "cell")) == "7 of 8 cells"
    assert str(Agreement(1, 1, "point")) == "1 of 1 point"
