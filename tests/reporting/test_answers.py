"""The ranking of methods and the causes of failed claims, against means by pandas and simulated repetitions."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kmdr.analysis.comparison import Quantity, Sample, Trials
from kmdr.base.paths import CHECKOUT
from kmdr.claims.verdicts import Basis, Judgement
from kmdr.config.studies import studies
from kmdr.figures.style import KNOWN
from kmdr.reporting.answers import QUANTITIES, contenders, experiments_of, restrict_to_shared_r
from kmdr.reporting.causes import (
    ALIKE,
    CAUSES,
    HARDWARE,
    IMPLEMENTATION,
    NUMBER,
    ORDERING,
    UNAVAILABLE,
    UNDECIDED,
    UNMEASURED,
    failures,
)
from kmdr.reporting.explore import explored, shown
from kmdr.results.table import rows_of
from reports import verdicts
from rows import make_rows

LESS = Quantity("F", ".4f", less=True)
TIME = Quantity("s", ".4g", less=True, time=True)


def trials_with(values, first=0):
    repetitions = np.array([(0, first + i) for i in range(len(values))]).reshape(-1, 2)
    return Trials({"x": Sample(repetitions, np.asarray(values, dtype=float))}, len(values), 0)


def named(*samples):
    return {(f"m{i}", "{}"): trials_with(values) for i, values in enumerate(samples)}


def names(found):
    return {name for name, _ in found}


# -- experiments ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows():
    def noise(scale, level):
        return lambda r, t: level + scale * ((7 * t + r) % 5) / r

    parts = [
        make_rows("a", "usps", "none", 256, 6, objective=noise(1, 1.0), seconds=noise(0, 2.0), n_init=5),
        make_rows("a", "usps", "svd", (5, 10), 6, objective=noise(2, 1.5), seconds=noise(1, 1.0), n_init=5),
        make_rows("b", "usps", "svd", (10, 20), 9, objective=noise(2, 1.5), concurrency=2, n_init=5),
        make_rows("c", "usps", "svd", (10, 20), 4, objective=noise(2, 9.0), n_init=1),
        make_rows("c", "usps", "lle", 7, 4, n_init=1),
        make_rows("c", "usps", "svd", 5, 4, n_init=1, params='{"rank":"k"}', config_hash="rank k"),
        make_rows("d", "synth", "svd", 10, 3, concurrency=2),
    ]
    return pd.concat(parts, ignore_index=True)


def experiment(rows, study):
    (found,) = [each for each in experiments_of(rows) if study in each.studies]
    return found


def test_studies_with_the_same_settings_are_one_experiment_and_other_settings_another(rows):
    assert [(each.dataset, sorted(each.studies)) for each in experiments_of(rows)] == [
        ("synth", ["d"]), ("usps", ["c"]), ("usps", ["a", "b"]),
    ]  # fmt: skip
    assert experiment(rows, "a").grid == [5, 10, 20]


def test_a_trial_that_two_studies_share_counts_once(rows):
    svd = experiment(rows, "a").trials["svd", "{}"]
    assert {r: trials.n for r, trials in svd.items()} == {5: 6, 10: 9, 20: 9}
    own = rows[rows["study"].isin(["a", "b"]) & (rows["reducer"] == "svd") & (rows["r"] == 10)]
    expected = own.drop_duplicates("repeat")["objective"]
    assert sorted(svd[10].samples["objective"].values) == sorted(expected)


def test_only_times_that_were_measured_serially_count(rows):
    svd = experiment(rows, "a").trials["svd", "{}"]
    assert {r: len(trials.samples["total_seconds"].values) for r, trials in svd.items()} == {5: 6, 10: 6, 20: 0}


@pytest.mark.parametrize(
    ("name", "column"), [("relative_objective", "objective"), ("relative_seconds", "total_seconds")]
)
def test_relative_values_are_ratios_within_a_repetition(rows, name, column):
    own = rows[(rows["study"] == "a")].set_index("repeat")
    whole = own.loc[own["reducer"] == "none", column]
    for r, trials in experiment(rows, "a").trials["svd", "{}"].items():
        at_r = rows[rows["study"].isin(["a", "b"]) & (rows["reducer"] == "svd") & (rows["r"] == r)]
        at_r = at_r[at_r["concurrency"] == 1] if column == "total_seconds" else at_r
        expected = (at_r.drop_duplicates("repeat").set_index("repeat")[column] / whole).dropna()
        assert sorted(trials.samples[name].values) == pytest.approx(sorted(expected))


def test_without_all_features_nothing_is_relative_to_them(rows):
    assert all(
        len(trials.samples["relative_objective"].values) == 0
        for by_r in experiment(rows, "c").trials.values()
        for trials in by_r.values()
    )


def test_a_method_of_one_r_is_independent_of_it_only_if_its_width_is_and_others_have_several(rows):
    """A method that was run at one r only was called the best at every r of the others."""
    assert experiment(rows, "a").flat == {("none", "{}")}
    assert experiment(rows, "c").flat == {("svd", '{"rank":"k"}')}
    assert experiment(rows, "d").flat == set()
    assert experiment(rows, "c").grid == [7, 10, 20]
    assert set(experiment(rows, "c").trials_at(20)) == {("svd", "{}"), ("svd", '{"rank":"k"}')}
    assert set(experiment(rows, "c").trials_at(7)) == {("lle", "{}"), ("svd", '{"rank":"k"}')}


# -- the possibly best ------------------------------------------------------------------------------------------------


@given(
    st.lists(st.lists(st.floats(-5, 5), min_size=2, max_size=8), min_size=1, max_size=6), st.sampled_from([LESS, TIME])
)
def test_the_method_of_best_mean_may_be_the_best(samples, quantity):
    samples = [np.exp(values) for values in samples]
    centre = np.median if quantity.time else np.mean
    best = int(np.argmin([centre(values) for values in samples]))
    assert f"m{best}" in names(contenders(named(*samples), "x", quantity))


def test_a_method_that_is_shown_to_be_worse_is_no_contender():
    noise = np.linspace(-0.1, 0.1, 20)
    samples = named(1 + noise, 1 + noise[::-1], 3 + noise)
    assert names(contenders(samples, "x", LESS)) == {"m0", "m1"}
    assert names(contenders(samples, "x", LESS._replace(less=False))) == {"m2"}
    assert names(contenders(samples, "x", TIME)) == {"m0", "m1"}


def test_too_few_repetitions_or_none_in_common_exclude_no_method():
    assert names(contenders(named([1.0], [2.0]), "x", LESS)) == {"m0", "m1"}
    apart = {("a", ""): trials_with([1.0, 1.1, 0.9]), ("b", ""): trials_with([5.0, 5.1, 4.9], first=10)}
    assert names(contenders(apart, "x", LESS)) == {"a", "b"}


def test_a_method_without_values_is_not_ranked():
    assert names(contenders(named([1.0, 2.0], []), "x", LESS)) == {"m0"}


@pytest.mark.parametrize("quantity", [LESS, TIME])
@pytest.mark.parametrize("gap", [0.0, 0.3])
def test_the_best_method_is_among_the_contenders_in_95_of_100_experiments(quantity, gap):
    """Six methods, of which the first is the best or as good as the others; repetitions share their noise."""
    rng = np.random.default_rng(7)
    kept = 0
    for _ in range(400):
        values = 1 + rng.gamma(4, 0.1, (1, 12)) + rng.gamma(2, 0.2, (6, 12)) + gap * (np.arange(6) > 0)[:, None]
        kept += "m0" in names(contenders(named(*values), "x", quantity))
    assert kept >= 0.95 * 400 - 2 * (400 * 0.05 * 0.95) ** 0.5


# -- numbers and marks of the page ------------------------------------------------------------------------------------


@given(st.floats(-1e6, 1e6), st.sampled_from(sorted({quantity.form for quantity in QUANTITIES.values()})))
def test_a_number_is_off_by_at_most_half_of_its_last_digit(value, form):
    last = 10.0 ** -int(form[1])
    if form.endswith("g"):
        last = max(abs(value) * last * 10, 1e-300) if abs(value) < 1000 else 1.0
    assert abs(shown(value, form) - value) <= last / 2 * (1 + 1e-9)


def test_every_method_has_a_mark_of_its_own_shape_and_size():
    rows = pd.concat([make_rows("s", "usps", name, (5, 10)) for name in KNOWN])
    styles = explored(rows, [])["styles"]
    assert len(styles) == len(KNOWN)
    for style in (style for style in styles.values() if style["path"]):
        numbers = [float(text) for text in style["path"].replace("M", " ").replace("L", " ").replace("C", " ")
                   .replace("Q", " ").replace("Z", " ").split()]  # fmt: skip
        assert 0.2 <= max(map(abs, numbers)) <= 1


def test_ranks_over_datasets_compare_methods_at_the_r_that_they_share():
    """Leverage scores are worse at an r at which the Gaussian projection did not run; all features count at any r."""
    rows = pd.concat(
        make_rows("s", dataset, name, r, objective=value)
        for dataset in ("usps", "digits")
        for name, r, value in [("leverage", 5, 9.0), ("leverage", 10, 1.0), ("gaussian", 10, 2.0), ("none", 64, 3.0)]
    )
    ranks = explored(rows, [])["overviews"][""]["objective"]["ranks"]
    assert [line["label"] for line in ranks] == ["leverage", "gaussian", "none"]


@given(
    st.lists(
        st.tuples(st.sampled_from("AB"), st.sampled_from("abcd"), st.sampled_from([2, 3, 5])), unique=True, min_size=1
    )
)
def test_shared_r_are_those_of_all_methods_of_a_dataset(cells):
    values = pd.DataFrame(cells, columns=["dataset", "method", "r"]).assign(varies=lambda table: table["method"] != "d")
    kept = restrict_to_shared_r(values)
    expected = [
        (dataset, method, r)
        for dataset, method, r in cells
        if method == "d"
        or all((dataset, other, r) in cells for data, other, _ in cells if data == dataset and other != "d")
    ]
    assert list(kept[["dataset", "method", "r"]].itertuples(index=False, name=None)) == expected


def assert_looks_differ(content):
    """No two lines of one view have the same colour and dashes."""
    groups = [view["methods"] for view in content["views"]]
    groups += [[line["label"] for line in o["ranks"]] for of in content["overviews"].values() for o in of.values()]
    for labels in groups:
        looks = [(content["styles"][label]["color"], content["styles"][label]["dash"]) for label in labels]
        assert len(set(looks)) == len(set(labels)), labels


def test_a_method_and_its_variant_look_different_where_another_view_has_the_method_alone():
    usual, variant = ('{"rescaled":true}', '{"rescaled":false}')
    alone = make_rows("paper", "usps", "leverage", (2, 5), 3, params=usual)
    both = [make_rows("paper", "coil20", "leverage", (2, 5), 3, params=usual)]
    both.append(make_rows("other", "coil20", "leverage", (2, 5), 3, params=variant))
    configs = [{"name": "paper", "paper": "lf20"}, {"name": "other", "title": "Not rescaled", "flip": {}}]
    content = explored(pd.concat([alone, *both]), configs)
    assert [sorted(view["methods"]) for view in content["views"]] == [
        ["leverage", "leverage (rescaled = False)"], ["leverage"],
    ]  # fmt: skip
    assert_looks_differ(content)


@pytest.mark.slow
def test_no_two_lines_of_a_view_of_the_committed_results_look_alike():
    rows = rows_of(CHECKOUT / "results" / "reference")
    shown = (rows["repeat"] < 2) & ~rows["study"].str.startswith("atlas")  # more repetitions change no look
    assert_looks_differ(explored(rows[shown], studies()))


# -- causes -----------------------------------------------------------------------------------------------------------


def judged(outcome, basis="methods", gaps=(), **kinds):
    outcomes = {kind: Judgement(value, 0.5, 0.5) for kind, value in kinds.items()}
    return replace(verdicts()[0], outcome=outcome, kinds=outcomes, basis=Basis(basis, ()), gaps=gaps)


@pytest.mark.parametrize(
    ("verdict", "causes"),
    [
        (judged("not supported", number="not supported", statement="supported"), {NUMBER}),
        (judged("not supported", statement="not supported"), {ORDERING}),
        (judged("not supported", "methods", time="not supported"), {ALIKE}),
        (judged("not supported", "methods in part", time="not supported"), {ALIKE}),
        (judged("not supported", "implementation", time="not supported"), {IMPLEMENTATION}),
        (judged("not supported", "hardware", time="not supported", number="not supported"), {HARDWARE, NUMBER}),
        (judged("not supported", "not measured", time="not supported"), {UNMEASURED}),
        (judged("not run", gaps=("bio: must be downloaded",)), {UNAVAILABLE}),
        (judged("undecided", gaps=("bio: must be downloaded",), number="undecided"), {UNDECIDED}),
        (judged("undecided", gaps=("bio: must be downloaded",), number="supported"), {UNAVAILABLE}),
        (replace(judged("undecided", number="supported"), scope="on 4 of 5 datasets"), {UNAVAILABLE}),
        (judged("undecided", number="supported"), {UNDECIDED}),
        (judged("not supported", gaps=("bio: must be downloaded",), statement="not supported"), {ORDERING}),
        (judged("mostly supported", number="supported", side="not supported"), set()),
        (judged("supported", gaps=("bio: must be downloaded",), number="supported"), set()),
    ],
)
def test_each_claim_that_fails_is_listed_by_its_causes(verdict, causes):
    assert {cause for cause, listed in failures([verdict]).items() if listed} == causes


def test_a_cause_without_claims_says_why():
    assert "another machine" in HARDWARE.none


def test_every_cause_has_its_place_in_the_page():
    assert tuple(failures([])) == CAUSES
    assert len({cause.id for cause in CAUSES}) == len(CAUSES)
