"""Effects of the atlas, against a direct computation of each number and under changes that must not matter."""

import json

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from scipy import stats

from atlas_rows import METHODS, atlas_rows
from kmdr.atlas.effects import COLUMNS, domain_of, effects, names_of, third_party_effects
from kmdr.atlas.ranking import Condition, chosen_lines


@pytest.fixture(scope="module")
def rows():
    return atlas_rows(["usps", "colon", "nips"], forms=("raw", "unit rows"))


def line(table, dataset, form, method, r):
    found = table[table[["dataset", "form", "method", "r"]].eq([dataset, form, method, r]).all(axis=1)]
    assert len(found) == 1
    return found.iloc[0]


def of(rows, dataset, options, reducer, r=None):
    some = rows[(rows["dataset"] == dataset) & (rows["options"] == options) & (rows["reducer"] == reducer)]
    return (some if r is None else some[some["r"] == r]).sort_values("repeat")


def test_each_number_is_that_of_scipy_on_the_paired_repetitions(rows):
    found = line(effects(rows), "colon", "unit rows", "leverage", 40)
    none, own = (of(rows, "colon", '{"rows":"unit"}', *which) for which in (("none",), ("leverage", 40)))
    for name, differences in {
        "loss": own["objective"].to_numpy() / none["objective"].to_numpy() - 1,
        "accuracy": own["accuracy"].to_numpy() - none["accuracy"].to_numpy(),
    }.items():
        interval = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
        assert found[name] == pytest.approx(differences.mean(), abs=1e-15)
        assert (found[f"{name}_low"], found[f"{name}_high"]) == pytest.approx(tuple(interval), abs=1e-12)
    seconds, seconds_none = (some.loc[some["concurrency"] == 1, "total_seconds"].median() for some in (own, none))
    assert (found["seconds"], found["seconds_none"], found["speedup"]) == (
        seconds, seconds_none, pytest.approx(seconds_none / seconds),
    )  # fmt: skip
    assert (found["domain"], found["k"], found["n"], found["d"], found["multiple"], found["runs"]) == (
        "gene expression", 2, 62, 2000, 20.0, 4,
    )  # fmt: skip
    assert found["failed"] == ""


def test_there_is_one_line_per_dataset_form_method_and_r(rows):
    table = effects(rows)
    assert list(table.columns) == COLUMNS
    key = ["dataset", "form", "method", "r"]
    assert not table.duplicated(key).any()
    assert len(table) == len(rows.drop_duplicates(["dataset", "options", "reducer", "r"]))
    assert table[key].equals(table[key].sort_values(key, ignore_index=True))


def test_features_as_they_are_lose_nothing_and_take_their_own_time(rows):
    none = effects(rows).query("method == 'none'")
    ends = [f"{name}{end}" for name in ("loss", "accuracy", "ari", "nmi") for end in ("", "_low", "_high")]
    assert (none[ends] == 0).all(axis=None)
    assert (none["speedup"] == 1).all()
    assert none["multiple"].isna().all()


def test_the_order_of_the_rows_does_not_matter(rows, rng):
    shuffled = rows.iloc[rng.permutation(len(rows))].reset_index(drop=True)
    assert_frame_equal(effects(shuffled), effects(rows), check_exact=True)


def test_another_scale_of_the_objective_leaves_the_losses(rows):
    scaled = rows.assign(objective=0.25 * rows["objective"])
    assert_frame_equal(effects(scaled), effects(rows), check_exact=True)


def test_a_method_with_the_values_of_all_features_loses_nothing(rows):
    none = of(rows, "usps", "{}", "none")
    copy = pd.concat([none.assign(reducer="identical", r=r) for r in (10, 20)])
    found = effects(pd.concat([rows, copy])).query("method == 'identical'")
    assert len(found) == 2
    assert (found[["loss", "loss_low", "loss_high", "accuracy"]] == 0).all(axis=None)


def test_repetitions_without_all_features_are_not_paired(rows):
    broken = rows.copy()
    failed = (rows["dataset"] == "usps") & (rows["reducer"] == "none") & (rows["repeat"] == 1)
    broken.loc[failed, ["status", "error", "objective", "accuracy"]] = ["failed", "killed", np.nan, np.nan]
    table, whole = effects(broken), effects(rows)
    without = effects(rows[(rows["dataset"] != "usps") | (rows["repeat"] != 1)])
    numbers = table["method"] != "none"
    assert_frame_equal(table[numbers].drop(columns="failed"), without[numbers].drop(columns="failed"))
    assert line(table, "usps", "raw", "none", 256)["failed"] == "1 of 4 trials: killed"
    others = table["dataset"] != "usps"
    assert_frame_equal(table[others], whole[others])


def test_data_on_which_all_features_failed_keep_their_lines_without_losses(rows):
    gone = rows[~((rows["dataset"] == "nips") & (rows["reducer"] == "none"))]
    table = effects(gone)
    some = table[table["dataset"] == "nips"]
    assert len(some)
    assert (some["runs"] == 0).all()
    assert some[["loss", "loss_low", "accuracy", "speedup", "seconds_none"]].isna().all(axis=None)
    assert some["seconds"].notna().all()


def test_a_method_that_cannot_run_is_a_line_with_the_reason(rows):
    some = of(rows, "colon", "{}", "svd")
    reason = {"status": "failed", "error": "needs a dense array;\nit would take 9 GB"}
    reason |= dict.fromkeys(("objective", "accuracy", "total_seconds"), np.nan)
    table = effects(pd.concat([rows, some.assign(reducer="lle", params="{}", **reason)]))
    found = table[table["method"].str.startswith("lle") & (table["r"] == 2)].iloc[0]
    assert found["failed"].startswith("needs a dense array")
    assert "\n" not in found["failed"]
    assert found["runs"] == 0
    assert np.isnan([found["loss"], found["accuracy"], found["seconds"]]).all()


def test_a_failed_trial_that_succeeded_when_it_was_run_again_does_not_count(rows):
    again = of(rows, "colon", "{}", "svd", 10).assign(status="failed", error="killed", concurrency=3)
    assert_frame_equal(effects(pd.concat([again, rows])), effects(rows))


def test_without_labels_only_the_loss_is_known(rows):
    table = effects(rows.assign(accuracy=np.nan, nmi=np.nan, ari=np.nan))
    assert table[["accuracy", "accuracy_low", "nmi", "ari_high"]].isna().all(axis=None)
    assert_frame_equal(table[["loss", "runs"]], effects(rows)[["loss", "runs"]])


def test_a_trial_that_was_run_twice_counts_once(rows):
    assert (effects(pd.concat([rows, rows.assign(concurrency=2)]))["runs"] == 4).all()


def test_only_serial_rows_of_one_machine_are_timed(rows):
    other = rows[rows["concurrency"] == 1].assign(machine="other", total_seconds=1e6, repeat=9)
    few = other[(other["dataset"] == "usps") & (other["reducer"] == "none")]
    columns = ["seconds", "seconds_none", "speedup"]
    assert_frame_equal(effects(pd.concat([rows, few]))[columns], effects(rows)[columns])
    assert effects(rows.assign(concurrency=2))[columns].isna().all(axis=None)


def test_one_repetition_has_no_interval(rows):
    table = effects(rows[rows["repeat"] == 0]).query("method != 'none'")
    assert table["loss"].notna().all()
    assert table["loss_low"].isna().all()


def test_methods_with_one_r_have_no_multiple(rows):
    k = rows.drop_duplicates("dataset").set_index("dataset")["k"]
    params = '{"centred":false,"rank":"k","solver":"kmdr"}'
    only = rows[(rows["reducer"] == "svd") & (rows["r"] == rows["dataset"].map(k))].assign(params=params)
    table = effects(pd.concat([rows, only]))
    one = table[table["method"] == "svd, rank k"]
    assert len(one) == 6
    assert one["multiple"].isna().all()
    others = table.drop(one.index).query("method != 'none'")
    assert others["multiple"].notna().all()


def test_no_rows_give_an_empty_table(rows):
    assert list(effects(rows.iloc[:0]).columns) == COLUMNS


def test_methods_have_the_names_of_the_atlas_and_others_that_of_their_reducer(rows):
    pairs = [
        ("none", "{}"), ("sklearn.decomposition.PCA", '{"whiten":true}'), ("random_sign", "{}"),
        ("mine.Reducer", '{"a":1}'), ("other", '{"a":1,"b":2}'), ("other", '{"a":1,"b":3}'),
    ]  # fmt: skip
    names = names_of(pd.DataFrame(pairs, columns=["reducer", "params"]))
    expected = ["none", "PCA, whitened", "random signs", "Reducer", "other (b = 2)", "other (b = 3)"]
    assert [names[pair] for pair in pairs] == expected
    assert set(names_of(rows).values()) == set(METHODS)
    assert names_of(rows, {})["none", "{}"] == "none"


@pytest.mark.parametrize(("reducer", "names"), [
    ("none", {"Kmeans", "coreset", "coreset (rows = 50)"}),
    ("random_sign", {"random_sign, Kmeans", "random_sign, coreset (rows = 50)", "random_sign, coreset (rows = 500)"}),
])  # fmt: skip
def test_another_engine_makes_another_method(rows, reducer, names):
    ours = rows[rows["reducer"] == reducer]
    settings = {"faiss.Kmeans": ["{}"], "coreset": [json.dumps({"args": json.dumps({"rows": n})}) for n in (500, 50)]}
    others = [
        ours.assign(engine=engine, kmeans=text, objective=3 * ours["objective"])
        for engine, texts in settings.items()
        for text in texts
    ]
    lines = effects(pd.concat([*others, rows]))
    is_new = ~lines["method"].isin(METHODS)
    assert_frame_equal(lines[~is_new].reset_index(drop=True), effects(rows))
    assert set(lines.loc[is_new, "method"]) == names
    if reducer == "none":
        np.testing.assert_allclose(lines.loc[is_new, "loss"], 2.0)


def test_domains_are_those_of_the_registry():
    assert domain_of("tdt2") == "text"
    assert domain_of("COIL-20 objects, 32 x 32") == "image"
    assert domain_of("mine") == ""


def test_other_options_of_a_dataset_are_other_data(rows):
    other = rows[rows["options"] == "{}"].assign(options='{"d":500}', objective=0.9)
    table = effects(pd.concat([rows, other]))
    assert set(table["form"]) == {"raw", "unit rows", '{"d":500}'}
    assert_frame_equal(table[table["form"].isin(["raw", "unit rows"])].reset_index(drop=True), effects(rows))


def test_third_party_methods_are_compared_on_their_rows_with_the_same_data_and_settings():
    atlas = atlas_rows(datasets=("usps", "colon"))
    theirs = atlas_rows(datasets=("usps", "colon"), methods=("none", "variance", "svd"))
    theirs["reducer"] = theirs["reducer"].astype(str).replace({"variance": "package.Theirs"})
    lines = third_party_effects(theirs, atlas)
    assert set(lines["method"]) == {"Theirs"}  # kmdr's methods are not taken from strangers
    expected = effects(atlas).query("method == 'variance'").reset_index(drop=True)
    assert_frame_equal(lines.drop(columns="method"), expected.drop(columns="method"))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("n_init", 1),
        ("data_sha256", "0" * 64),
        ("k", 3),
        ("kmeans", '{"online":true}'),
        ("options", '{"rows":"unit"}'),
        ("seed", 7),
        ("matching", "greedy"),
        ("threads", 64),
        ("n", 100),
        ("d", 10**9),
    ],
)
def test_rows_of_an_easier_task_do_not_count(column, value):
    atlas = atlas_rows(datasets=("usps",))
    theirs = atlas_rows(datasets=("usps",), methods=("none", "variance"))
    theirs["reducer"] = theirs["reducer"].astype(str).replace({"variance": "package.Theirs"})
    assert len(third_party_effects(theirs, atlas))
    assert third_party_effects(theirs.assign(**{column: value}), atlas).empty
    assert third_party_effects(theirs.head(0), atlas).empty


def submitted_rows(name, **changes):
    """Return rows of a third-party method next to k-means on all features, some columns of the former changed."""
    theirs = atlas_rows(datasets=("usps", "colon"), methods=("none", "variance"))
    is_theirs = theirs["reducer"] == "variance"
    changes = {"reducer": name, **changes}
    return theirs.assign(**{n: theirs[n].astype(object).where(~is_theirs, value) for n, value in changes.items()})


@pytest.mark.parametrize(
    "name", ["package.none", "package.svd", "package.NMF", "random signs", "package.", "..", "a. "]
)
def test_a_method_that_is_called_like_one_of_the_atlas_is_a_method_of_its_own(name):
    """A class named ``none`` took part in the reference, and one named ``svd`` was taken for kmdr's."""
    atlas = atlas_rows(datasets=("usps", "colon"))
    usual = third_party_effects(submitted_rows("package.Theirs"), atlas)
    theirs = pd.concat([submitted_rows("package.Theirs"), submitted_rows(name, objective=0.99)])
    lines = third_party_effects(theirs, atlas)
    assert lines["method"].nunique() == 2
    assert all(text.strip() for text in lines["method"])
    assert_frame_equal(lines[lines["method"] == "Theirs"].reset_index(drop=True), usual)


def test_classes_of_one_name_are_methods_of_their_own():
    theirs = pd.concat([submitted_rows("a.PCA"), submitted_rows("b.PCA", objective=0.9)])
    assert set(third_party_effects(theirs, atlas_rows(datasets=("usps", "colon")))["method"]) == {"a.PCA", "b.PCA"}


@pytest.mark.parametrize("whose", ["none", "package.Theirs"])
@pytest.mark.parametrize("damage", ["failed", "missing", "truncated", "without P"])
def test_nobody_chooses_among_repetitions_of_a_method_or_of_its_reference(damage, whose):
    atlas, theirs = atlas_rows(datasets=("usps", "colon")), submitted_rows("package.Theirs")
    some = (theirs["dataset"] == "usps") & (theirs["reducer"] == whose)
    assert {"usps", "colon"} == set(third_party_effects(theirs, atlas)["dataset"])
    if damage == "failed":
        nothing = {"status": "failed", "error": "killed", "objective": np.nan, "accuracy": np.nan}
        theirs.loc[some & (theirs["repeat"] == 0), list(nothing)] = list(nothing.values())
    elif damage == "without P":
        theirs.loc[some & (theirs["repeat"] == 0), "accuracy"] = np.nan
    else:
        theirs = theirs[~some | (theirs["repeat"] > 0 if damage == "missing" else theirs["repeat"] == 0)]
    assert {"colon"} == set(third_party_effects(theirs, atlas)["dataset"])


def test_an_engine_that_is_called_none_is_no_reference():
    atlas, theirs = atlas_rows(datasets=("usps", "colon")), submitted_rows("package.Theirs").assign(engine="kmdr")
    easy = theirs[theirs["reducer"] == "none"].assign(engine="none", objective=0.99, concurrency=1)
    expected = third_party_effects(theirs, atlas)
    assert_frame_equal(third_party_effects(pd.concat([easy, theirs]), atlas), expected)


def test_lines_at_another_r_than_the_atlas_has_count_only_for_a_method_with_one_r():
    """At 1.4 k a method would otherwise be ranked among those at k."""
    atlas = atlas_rows(datasets=("usps",))
    theirs = submitted_rows("package.Theirs").query("dataset == 'usps'")
    at_k = theirs[theirs["r"] == 10]
    several = pd.concat([theirs, at_k.assign(r=14), at_k.assign(r=200 * 10)])
    expected = third_party_effects(theirs, atlas)
    assert expected["multiple"].tolist() == [0.5, 1.0, 2.0, 5.0, 10.0, 20.0]
    assert_frame_equal(third_party_effects(several, atlas), expected)
    one = third_party_effects(pd.concat([theirs[theirs["reducer"] == "none"], at_k.assign(r=14)]), atlas)
    assert one["r"].tolist() == [14]
    assert one["multiple"].isna().all()


@pytest.mark.parametrize("r", [1, 33])
def test_a_line_at_another_r_does_not_stand_for_that_at_a_multiple_of_k(r):
    """The smallest r of a submission that the atlas does not have was shown, and ranked, as "r = 20 k"."""
    atlas, theirs = atlas_rows(), atlas_rows(methods=("none", "variance"))
    theirs["reducer"] = theirs["reducer"].astype(str).replace({"variance": "package.Theirs"})
    best = theirs[theirs["reducer"] != "none"].drop_duplicates(["dataset", "repeat"]).assign(r=r, objective=0.01)
    for condition in (Condition(multiple=1.0), Condition(multiple=20.0)):
        usual, more = (
            chosen_lines(third_party_effects(rows, atlas), condition) for rows in (theirs, pd.concat([theirs, best]))
        )
        assert_frame_equal(more.reset_index(drop=True), usual.reset_index(drop=True))


@pytest.mark.parametrize(
    ("column", "value"), [("n_init", 1), ("data_sha256", "0" * 64), ("threads", 64), ("matching", "greedy")]
)
def test_rows_that_do_not_count_do_not_stand_for_a_repetition_of_those_that_do(column, value):
    """Two of four repetitions, the other two with another number of starts, were shown as two repetitions."""
    atlas, theirs = atlas_rows(datasets=("usps",)), submitted_rows("package.Theirs").query("dataset == 'usps'")
    worst = (theirs["reducer"] == "package.Theirs") & theirs["repeat"].isin([0, 2])
    assert len(third_party_effects(theirs, atlas))
    changed = theirs.assign(**{column: theirs[column].astype(object).where(~worst, value)})
    assert third_party_effects(changed, atlas).empty


def test_rows_that_all_failed_have_lines_with_the_reason(rows):
    """As without k-means on all features, they were an error."""
    failed = rows.assign(status="failed", error="out of memory", objective=np.nan)
    for some in (failed, rows[rows["reducer"] != "none"]):
        table = effects(some)
        assert len(table)
        assert (table["runs"] == 0).all()
        assert table["loss"].isna().all()
    assert (effects(failed)["failed"] == "out of memory").all()


@pytest.mark.parametrize("change", ["failed", "missing"])
def test_who_submits_a_method_cannot_choose_among_its_repetitions(change):
    """Failed trials are not rerun, and nobody sees which were not handed in."""
    atlas = atlas_rows(datasets=("usps", "colon"))
    theirs = atlas_rows(datasets=("usps", "colon"), methods=("none", "variance"))
    theirs["reducer"] = theirs["reducer"].astype(str).replace({"variance": "package.Theirs"})
    every = third_party_effects(theirs, atlas)
    r = every["r"].max()
    worst = (
        (theirs["reducer"] == "package.Theirs") & (theirs["r"].astype(int) == r) & (theirs["repeat"].astype(int) == 1)
    )
    assert worst.any()
    chosen = theirs.assign(status=theirs["status"].where(~worst, "failed")) if change == "failed" else theirs[~worst]
    lines = third_party_effects(chosen.reset_index(drop=True), atlas)
    assert_frame_equal(lines, every[every["r"] != r].reset_index(drop=True))
