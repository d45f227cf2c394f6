"""Rankings over datasets: against scipy, Demšar's example and enumeration, and under changes that must not matter."""

import math
from itertools import chain, combinations

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from scipy.stats import friedmanchisquare, rankdata

from atlas_rows import METHODS, atlas_rows, rank
from kmdr.atlas.effects import effects
from kmdr.atlas.ranking import (
    ALL_FORMS,
    Block,
    Condition,
    chosen_lines,
    compare_methods,
    groups_within,
    is_on_front,
    largest_block,
    outcomes_table,
    pareto_over_datasets,
    performance_profiles,
    rankings,
    ranks_table,
    values_of,
)

AT_5K = Condition(multiple=5.0)
# Demšar 2006, table 6: area under the curve of C4.5, and of C4.5 with tuned m, cf, and both, on 14 datasets.
# One number has a digit more than printed there, because its printed rank is 2, not 2.5.
DEMSAR = pd.DataFrame(
    [
        (0.763, 0.768, 0.771, 0.798), (0.599, 0.591, 0.590, 0.569), (0.954, 0.971, 0.968, 0.967),
        (0.628, 0.661, 0.654, 0.657), (0.882, 0.888, 0.886, 0.898), (0.936, 0.931, 0.916, 0.931),
        (0.661, 0.668, 0.609, 0.685), (0.583, 0.583, 0.563, 0.625), (0.775, 0.838, 0.866, 0.875),
        (1.000, 1.000, 1.000, 1.000), (0.940, 0.962, 0.965, 0.962), (0.619, 0.666, 0.614, 0.669),
        (0.972, 0.981, 0.9752, 0.975), (0.957, 0.978, 0.946, 0.970),
    ],
    columns=["C4.5", "m", "cf", "m and cf"],
)  # fmt: skip


@pytest.fixture(scope="module")
def rows():
    return atlas_rows(forms=("raw", "unit rows"))


@pytest.fixture(scope="module")
def table(rows):
    return effects(rows)


def test_the_example_of_demsar_has_his_ranks_statistics_and_groups():
    found = compare_methods(Block(DEMSAR, (), ()), "accuracy", AT_5K, "raw")
    assert found.ranks["mean"].round(3).to_dict() == {"m and cf": 1.964, "m": 2.000, "cf": 2.893, "C4.5": 3.143}
    # His statistic is without the correction for ties.
    N, k = DEMSAR.shape
    uncorrected = 12 * N / (k * (k + 1)) * ((found.ranks["mean"] ** 2).sum() - k * (k + 1) ** 2 / 4)
    assert round(uncorrected, 2) == 9.28
    assert round((N - 1) * uncorrected / (N * (k - 1) - uncorrected), 2) == 3.69
    assert found.chi2 == pytest.approx(friedmanchisquare(*DEMSAR.to_numpy().T).statistic)
    assert found.chi2 > uncorrected
    assert round(found.distance, 2) == 1.25
    assert found.is_rejected
    # "at p = 0.05 (CD = 1.25) … the data is not sufficient to reach any conclusion" on all pairs
    assert found.groups == (("m and cf", "m", "cf", "C4.5"),)
    assert found.winner == ""


def test_ranks_and_statistic_are_those_of_scipy(table):
    found = rank(table, "loss", AT_5K, "raw")
    raw = table.query("form == 'raw' and (multiple == 5 or method == 'none')")
    values = raw.pivot(index="dataset", columns="method", values="loss")
    ranks = pd.Series(rankdata(values, axis=1).mean(axis=0), values.columns)
    assert found.ranks["mean"].to_dict() == pytest.approx(ranks.to_dict())
    assert found.chi2 == pytest.approx(friedmanchisquare(*values.to_numpy().T).statistic)
    assert (found.ranks["count"] == 8).all()
    assert list(found.ranks.index[:2]) == ["none", "svd"]
    assert found.ranks.index[-1] == "variance"


def renamed(table, column, rng):
    names = sorted(table[column].unique())
    names = [name for name in names if name != "none"]
    new = dict(zip(names, rng.permutation([f"new {i}" for i in range(len(names))]), strict=True))
    return table.replace({column: new}), new


def test_other_names_of_datasets_change_nothing(table, rng):
    other, _ = renamed(table, "dataset", rng)
    one, two = rank(table, "loss", AT_5K), rank(other, "loss", AT_5K)
    assert_frame_equal(one.ranks, two.ranks)
    assert one[5:] == two[5:]


def test_other_names_of_methods_rename_the_ranking(table, rng):
    other, new = renamed(table, "method", rng)
    one, two = rank(table, "accuracy", AT_5K), rank(other, "accuracy", AT_5K)
    assert two.ranks["mean"].to_dict() == {new.get(name, name): mean for name, mean in one.ranks["mean"].items()}
    assert (one.chi2, one.p, one.distance) == pytest.approx((two.chi2, two.p, two.distance))


def test_another_scale_of_the_objective_changes_nothing(rows, table):
    scaled = effects(rows.assign(objective=rows["objective"] / 4))
    assert_frame_equal(rank(scaled, "loss", AT_5K).ranks, rank(table, "loss", AT_5K).ranks)


def test_a_dominated_method_does_not_alter_the_order(table):
    worst = table.query("method == 'variance'").assign(method="worse")
    worst = worst.assign(loss=worst["loss"] + 1)
    one, two = (rank(some, "loss", AT_5K) for some in (table, pd.concat([table, worst])))
    assert list(two.ranks.index) == [*one.ranks.index, "worse"]
    assert two.ranks["mean"].drop("worse").to_dict() == one.ranks["mean"].to_dict()


def test_a_copy_of_a_method_shares_its_rank(table):
    copy = table.query("method == 'svd'").assign(method="again")
    found = rank(pd.concat([table, copy]), "loss", AT_5K).ranks["mean"]
    assert found["svd"] == found["again"] == 2.5


def test_methods_that_differ_by_rounding_are_tied(table):
    copy = table.query("method == 'none'").assign(method="identical", loss=1e-16, multiple=5.0)
    found = rank(pd.concat([table, copy]), "loss", AT_5K).ranks["mean"]
    assert found["none"] == found["identical"] == 1.5


def test_equal_methods_have_no_winner_and_one_group(table):
    equal = table.assign(accuracy=0.0)
    found = rank(equal, "accuracy", AT_5K)
    assert (found.chi2, found.p, found.winner) == (0, 1, "")
    assert set(found.groups[0]) == set(METHODS)
    assert len(found.groups) == 1


def test_there_is_a_winner_only_where_it_differs_from_the_second(rng):
    values = pd.DataFrame(rng.random((30, 4)), columns=list("abcd"))
    noise = compare_methods(Block(values, (), ()), "loss", AT_5K, "raw")
    best = compare_methods(Block(values.assign(a=-0.5), (), ()), "loss", AT_5K, "raw")
    two = compare_methods(Block(values.assign(a=-0.5, b=-0.5), (), ()), "loss", AT_5K, "raw")
    assert best.winner == "a"
    assert best.groups[0] == ("a",)
    assert two.winner == ""
    assert set(two.leaders) == {"a", "b"}
    assert noise.winner == "" or noise.p < 0.05


def test_too_few_datasets_or_methods_are_ranked_without_a_test(table):
    few = rank(table[table["dataset"].isin(["usps", "nips", "colon"])], "loss", AT_5K)
    assert math.isnan(few.p)
    assert not few.is_rejected
    assert (len(few.groups), few.winner) == (1, "")
    pair = rank(table[table["method"].isin(["svd", "leverage"])], "loss", AT_5K)
    assert math.isnan(pair.p)
    assert list(pair.ranks["mean"]) == [1, 2]
    assert rank(table[table["method"] == "svd"], "loss", AT_5K) is None


def test_groups_are_the_largest_sets_within_the_distance(rng):
    ranks = pd.Series(np.sort(rng.uniform(1, 8, 8)), list("abcdefgh"))
    subsets = chain.from_iterable(combinations(ranks.index, size) for size in range(1, 9))
    within = [set(some) for some in subsets if np.ptp(ranks[list(some)]) <= 2.0]
    largest = [some for some in within if not any(some < other for other in within)]
    found = groups_within(ranks, 2.0)
    assert [set(group) for group in found] == sorted(largest, key=lambda some: ranks[list(some)].min())


def brute_force(values):
    names = sorted(values.columns)
    subsets = chain.from_iterable(combinations(names, size) for size in range(1, len(names) + 1))
    return max(int(values[list(some)].notna().all(axis=1).sum()) * len(some) for some in subsets)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.1, 0.3, 0.6])
def test_no_block_without_gaps_is_larger(share, rng):
    for _ in range(10):
        values = pd.DataFrame(rng.random((9, 6)), columns=list("abcdef")).mask(rng.random((9, 6)) < share)
        block = largest_block(values)
        assert block.values.notna().all(axis=None)
        assert block.values.size == brute_force(values)
        assert {*block.values.columns, *block.methods} == set("abcdef")
        assert {*block.values.index, *block.datasets} == set(range(9))


def test_a_method_that_cannot_run_on_some_data_is_stated(table):
    text = table["domain"] == "text"
    gap = table[~((table["method"] == "svd") & text)]
    found = rank(gap, "loss", AT_5K)
    assert found.block.methods == ("svd",)
    assert found.block.datasets == ()
    line = outcomes_table([found]).iloc[0]
    assert (line["omitted_methods"], line["omitted_datasets"], line["datasets"], line["methods"]) == ("svd", "", 8, 5)
    gap = table[~((table["method"] != "none") & (table["dataset"] == "nips"))]
    assert rank(gap, "loss", AT_5K).block.datasets == ("nips",)


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_the_trials_that_succeed_do_not_stand_for_a_line_with_failed_ones(rows, table, share, rng):
    of_svd = rows["reducer"] == "svd"
    failed = of_svd & (rows["dataset"].isin(["tdt2", "colon"])) & (rng.random(len(rows)) < share)
    with_failed = effects(rows.assign(status=rows["status"].mask(failed, "failed"), error="no convergence"))
    lines = with_failed["failed"] != ""
    assert with_failed.loc[lines, "loss"].notna().any()
    assert_frame_equal(ranks_table(rankings(with_failed)), ranks_table(rankings(table[~lines])))
    assert_frame_equal(pareto_over_datasets(with_failed), pareto_over_datasets(table[~lines]))


def test_data_with_fewer_features_than_r_take_no_part_and_are_stated(table):
    found = rank(table, "loss", Condition(multiple=100.0))
    assert found.block.datasets == ("coil20", "isolet", "usps")
    assert len(found.block.values) == 5


def test_datasets_of_one_source_are_one_block(table):
    other = table[table["dataset"] == "coil20"].assign(dataset="coil20_128x128", d=16384)
    other = other.assign(loss=other["loss"] * 3)
    both = pd.concat([table, other])
    one, two = values_of(table, "loss", AT_5K, "raw"), values_of(both, "loss", AT_5K, "raw")
    assert len(two) == len(one) == 8
    assert_frame_equal(two.drop("coil20"), one.drop("coil20"))
    assert_frame_equal(two.loc[["coil20"]], one.loc[["coil20"]] * 2)


def test_forms_are_averaged_within_a_dataset_and_are_not_blocks_of_their_own(table):
    both = values_of(table, "loss", AT_5K, ALL_FORMS)
    parts = [values_of(table, "loss", AT_5K, form) for form in ("raw", "unit rows")]
    assert_frame_equal(both, sum(parts) / 2, check_names=False)
    assert len(both) == table["dataset"].nunique()
    without = table[~((table["form"] == "unit rows") & (table["method"] == "svd") & (table["dataset"] == "usps"))]
    missing = values_of(without, "loss", AT_5K, ALL_FORMS)
    assert missing.isna().sum().sum() == 1
    assert math.isnan(missing.loc["usps", "svd"])


def test_methods_with_one_r_take_part_where_it_is_small_enough(table):
    one = table.query("method == 'svd' and multiple == 1").assign(method="svd k", multiple=np.nan)
    both = pd.concat([table, one])
    assert "svd k" in values_of(both, "loss", AT_5K)
    assert "svd k" in values_of(both, "loss", Condition(1.0))
    assert "svd k" not in values_of(both, "loss", Condition(0.5))
    assert "none" in values_of(both, "loss", Condition(0.5))


def test_within_a_time_each_method_has_its_r_of_least_objective(table):
    # leverage takes 40 % of the time of all features at every r, svd 60 %
    lines = chosen_lines(table, Condition(budget=0.5))
    assert "none" not in set(lines["method"])
    fast = lines[lines["method"] == "leverage"].set_index(["dataset", "form"])
    largest = table[table["method"] == "leverage"].groupby(["dataset", "form"])["r"].max()
    assert fast["r"].astype(int).to_dict() == largest.to_dict()
    slow = lines[lines["method"] == "svd"]
    assert np.isposinf(slow["loss"]).all()
    assert np.isneginf(slow["accuracy"]).all()
    assert slow["r"].isna().all()
    found = rank(table, "loss", Condition(budget=0.5))
    assert list(found.ranks.index) == ["random signs", "Gaussian", "leverage", "variance", "svd"] or list(
        found.ranks.index
    ) == ["Gaussian", "random signs", "leverage", "variance", "svd"]
    assert rank(table, "loss", Condition(budget=0.02)) is None
    assert "none" in set(chosen_lines(table, Condition(budget=1.0))["method"])


@pytest.mark.slow
def test_without_labels_there_is_no_ranking_by_accuracy(rows):
    unlabelled = effects(rows.assign(accuracy=np.nan, ari=np.nan))
    assert rank(unlabelled, "accuracy", AT_5K) is None
    assert {ranking.quantity for ranking in rankings(unlabelled)} == {"loss", "time"}
    some = effects(rows.assign(accuracy=rows["accuracy"].where(rows["dataset"] != "nips")))
    assert rank(some, "accuracy", AT_5K).block.values.shape == (7, 6)


@pytest.mark.slow
def test_the_tables_of_all_rankings_agree(table):
    several = rankings(table)
    ranks, tests = ranks_table(several), outcomes_table(several)
    key = ["form", "quantity", "condition"]
    assert not tests.duplicated(key).any()
    assert len(ranks.drop_duplicates(key)) == len(tests)
    merged = ranks.merge(tests, on=key)
    assert (merged.groupby(key)["method"].size() == merged.groupby(key)["methods"].first()).all()
    assert set(tests["form"]) == {"all forms", "raw", "unit rows"}
    assert {"r = 5 k", "time ≤ 50 %"} <= set(tests["condition"])
    first = merged[merged["groups"].str.split().str[0] == "1"]
    leaders = {name: set(some["method"]) for name, some in first.groupby(key)}
    assert all(leaders[tuple(line[key])] == set(line["leaders"].split("; ")) for _, line in tests.iterrows())
    assert ranks_table([]).empty
    assert outcomes_table([]).empty


def test_a_profile_ends_below_1_for_a_method_that_cannot_run_everywhere(table):
    gap = table[~((table["method"] == "svd") & table["dataset"].isin(["nips", "tdt2"]))]
    found = performance_profiles(gap, AT_5K, "raw")
    assert found.groupby("method")["share"].max().to_dict() == {
        name: 1.0 if name != "svd" else 0.75 for name in METHODS
    }
    assert found[found["method"] == "none"]["share"].tolist() == [1.0]


def test_third_parties_join_the_ranking_of_the_others_and_take_no_dataset_from_it(rng):
    """Some methods that were run on two datasets only left these two for all methods."""
    values = pd.DataFrame(rng.random((12, 6)), columns=list("abcdef"))
    values.loc[0, "f"] = np.nan
    alone = largest_block(values)
    few = {f"third party {i}": values["a"].where(values.index < 2) for i in range(60)}
    table = values.assign(complete=values["b"], **few)
    assert len(largest_block(table).values) == 2
    block = largest_block(table, ["complete", *few])
    assert_frame_equal(block.values.drop(columns="complete"), alone.values)
    assert set(block.methods) == {*alone.methods, *few}
    assert block.datasets == alone.datasets
    assert_frame_equal(largest_block(values[["a"]], ["a"]).values, values[["a"]])  # no others


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("condition", [Condition(multiple=20.0), Condition(budget=0.5)])
def test_third_parties_change_no_rank_and_no_test_however_many_there_are(table, condition, seed):
    """Copies of a submission made the critical difference so large that no method was better than another."""
    rng = np.random.default_rng(seed)
    some = table[table["form"] == "raw"]
    template = some[some["method"] == rng.choice(some["method"][some["method"] != "none"])]

    def noisy(name):
        return template.assign(method=name, loss=template["loss"] * rng.uniform(0.5, 2, len(template)))

    def ranked(*parts):
        effects = pd.concat([some, *parts], ignore_index=True)
        theirs = [part["method"].iloc[0] for part in parts]
        return rank(effects, "loss", condition, "raw", theirs)

    submitted = noisy("theirs")
    copies = [submitted.assign(method=f"copy {i}") for i in range(30)] + [noisy(f"other {i}") for i in range(30)]
    alone, one, flooded = ranked(), ranked(submitted), ranked(*copies[:17], submitted, *copies[17:])
    for ranking in (one, flooded):
        assert_frame_equal(ranking.ranks, alone.ranks)
        assert_frame_equal(ranking.block.values, alone.block.values)
        assert ranking[5:10] == alone[5:10]  # the test and the groups
        assert set(ranking.best) - {*ranking.joined} == set(alone.best)
        pair = ranking.joined["theirs"]
        together = alone.block._replace(values=alone.block.values.assign(theirs=pair.block.values["theirs"]))
        assert_frame_equal(pair.ranks, compare_methods(together, "loss", condition, "raw").ranks)
        assert ("theirs" in ranking.best) == (pair.is_rejected and "theirs" in pair.leaders)
        assert ranking.mean_ranks["theirs"] == pair.ranks["mean"]["theirs"]
        assert ranking.mean_ranks.is_monotonic_increasing
    assert flooded.joined.keys() == {"theirs", *(copy["method"].iloc[0] for copy in copies)}


def test_the_front_is_that_of_all_pairs(rng):
    points = pd.DataFrame(rng.integers(0, 12, (60, 2)), columns=["time", "loss"]).astype(float)
    points.loc[7] = np.nan
    known = points.dropna()
    by_hand = [
        not ((known <= point).all(axis=1) & (known < point).any(axis=1)).any() and point.notna().all()
        for _, point in points.iterrows()
    ]
    assert is_on_front(points["time"], points["loss"]).tolist() == by_hand


def test_trade_offs_over_datasets_are_geometric_means_over_common_datasets(table):
    found = pareto_over_datasets(table, "raw")
    raw = table[table["form"] == "raw"]
    for _, line in found.iterrows():
        some = raw[raw["method"] == line["method"]]
        some = some if math.isnan(line["multiple"]) else some[some["multiple"] == line["multiple"]]
        assert line["datasets"] == len(some) == 8
        assert line["time"] == pytest.approx(np.exp(np.log(some["seconds"] / some["seconds_none"]).mean()))
        assert line["loss"] == pytest.approx(np.expm1(np.log1p(some["loss"]).mean()), abs=1e-15)
        assert line["loss_low"] <= line["loss"] <= line["loss_high"]
    assert found["front"].equals(is_on_front(found["time"], found["loss"]))
    assert pareto_over_datasets(table.assign(seconds=np.nan)).empty
