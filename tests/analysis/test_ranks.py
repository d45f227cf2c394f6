"""Ranks and profiles over problems, against scipy and a count by hand."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import rankdata
from scipy.stats import t as student

from kmdr.analysis.ranks import mean_ranks, profiles, rank_methods


def wilson(successes, n, z=1.959963984540054):
    """Wilson's interval by its closed form."""
    p = successes / n
    middle, half = p + z**2 / (2 * n), z * (p * (1 - p) / n + z**2 / (4 * n**2)) ** 0.5
    return (middle - half) / (1 + z**2 / n), (middle + half) / (1 + z**2 / n)


def values(rng, n=9):
    return pd.DataFrame(rng.random((n, 3)) + 0.1, columns=list("abc"))


@pytest.mark.parametrize("ascending", [True, False])
def test_mean_ranks_are_those_of_scipy_with_student_s_interval(rng, ascending):
    table = values(rng)
    table.loc[2, "b"] = table.loc[2, "a"]  # a tie
    by_hand = rankdata(table if ascending else -table, axis=1)
    found = mean_ranks(table, ascending)
    assert list(found["mean"]) == sorted(found["mean"])
    for j, name in enumerate("abc"):
        column = by_hand[:, j]
        low, high = student.interval(0.95, len(column) - 1, column.mean(), column.std(ddof=1) / len(column) ** 0.5)
        assert found.loc[name, "mean"] == pytest.approx(column.mean())
        assert found.loc[name, "low"] == pytest.approx(max(1, low))
        assert found.loc[name, "high"] == pytest.approx(min(3, high))


@pytest.mark.parametrize("n", range(1, 9))
def test_mean_ranks_over_fewer_than_six_problems_have_no_interval(rng, n):
    ranks = mean_ranks(values(rng, n))
    assert ranks["mean"].notna().all()
    assert (ranks[["low", "high"]].notna().to_numpy() == (n >= 6)).all()


def test_problems_with_a_gap_are_left_out_and_one_method_has_no_rank(rng):
    table = values(rng)
    table.loc[0, "c"] = np.nan
    assert set(mean_ranks(table)["count"]) == {8}
    assert mean_ranks(table[["a"]]).empty
    assert profiles(table[["a"]]).empty


@pytest.mark.parametrize("ascending", [True, False])
def test_a_profile_counts_problems_within_a_factor_of_the_best(rng, ascending):
    table = values(rng)
    found = profiles(table, ascending)
    best = table.min(axis=1) if ascending else table.max(axis=1)
    for name, of in found.groupby("method"):
        factors = table[name] / best if ascending else best / table[name]
        for _, line in of.iterrows():
            within = int((factors <= line["factor"] + 1e-12).sum())
            assert line["share"] == pytest.approx(within / len(table))
            assert (line["low"], line["high"]) == pytest.approx(wilson(within, len(table)))
        assert of["share"].iloc[-1] == 1
    shares = [(found[(found["method"] == name) & (found["factor"] == 1)]["share"]).item() for name in "abc"]
    assert sum(shares) == pytest.approx(1)  # without ties one method is the best on each


def test_with_gaps_a_method_is_not_within_any_factor_where_it_has_no_value(rng):
    table = values(rng)
    table.loc[0, "c"] = np.nan
    table.loc[1, "c"] = np.inf
    found = profiles(table, with_gaps=True)
    assert found.groupby("method")["share"].max().to_dict() == {"a": 1.0, "b": 1.0, "c": pytest.approx(7 / 9)}
    assert np.isfinite(found["factor"]).all()
    rest = profiles(table.loc[2:], with_gaps=True)
    assert rest.equals(profiles(table))


def test_infinite_values_are_ranked_last_and_tied(rng):
    table = pd.DataFrame([[1.0, np.inf, np.inf, -3.0]], columns=list("abcd"))
    assert rank_methods(table).iloc[0].tolist() == [2, 3.5, 3.5, 1]
    assert rank_methods(-table, ascending=False).iloc[0].tolist() == [2, 3.5, 3.5, 1]
