"""The advice of the atlas: on invented data whose best methods are known, and its error on held-out data."""

import numpy as np
import pandas as pd
import pytest

from atlas_evidence import invented
from kmdr.atlas import advice
from kmdr.atlas.advice import (
    DOMAIN,
    GLOBAL,
    MOST_REGRET,
    NEAREST,
    Choice,
    Goal,
    advise,
    average,
    candidates,
    evidence,
    validate,
    weights,
)
from kmdr.base.errors import UserError

RULES = {"random signs at r = 20 k": Choice("random_sign", 20.0), "exact SVD at r = k": Choice("svd rank k", "k")}


@pytest.fixture
def known(rng):
    return evidence(*invented(rng))


def cell(known, dataset, method, multiple):
    line = known.matrices["dataset"].tolist().index(dataset)
    return line, known.choices.index(Choice(method, multiple))


def test_evidence_has_each_effect_in_its_place(rng):
    effects, traits = invented(rng)
    known = evidence(effects.sample(frac=1, random_state=1), traits.sample(frac=1, random_state=2))
    assert len(known.matrices) == 18
    assert {choice.multiple for choice in known.choices if isinstance(choice.multiple, str)} == {"k", "d"}
    assert Choice("none", "d") in known.choices
    for row in effects.sample(60, random_state=3).itertuples():
        multiple = row.multiple if np.isfinite(row.multiple) else {"none": "d", "svd rank k": "k"}[row.method]
        at = cell(known, row.dataset, row.method, multiple)
        np.testing.assert_equal(known.loss[at], row.loss)
        np.testing.assert_equal(known.speedup[at], row.speedup)
        assert known.failed[at] == (row.failed != "")


def test_regret_is_measured_from_the_best_choice_that_is_fast_enough(known):
    """At least four times as fast leaves r up to 10 k; anything slower, and what fails, has the largest regret."""
    R = known.regrets(Goal(4.0))
    line = 0  # variance is the best method there
    best = 0.2 * 0.3 / np.sqrt(10)
    assert R[cell(known, "data00", "variance", 10.0)] == pytest.approx(0)
    assert R[cell(known, "data00", "random_sign", 10.0)] == pytest.approx(0.3 / np.sqrt(10) - best)
    assert R[cell(known, "data00", "leverage", 0.5)] == MOST_REGRET
    for slow in (Choice("random_sign", 20.0), Choice("none", "d"), Choice("svd rank k", "k")):
        assert R[line, known.choices.index(slow)] == MOST_REGRET
    assert R[cell(known, "data00", "variance", 50.0)] == MOST_REGRET
    assert np.nanmin(R, axis=1) == pytest.approx(0)


def test_regrets_without_a_limit_on_time_compare_at_the_r_asked_for(known):
    R = known.regrets(Goal(0, 18.0))
    allowed = [choice.multiple for choice, column in zip(known.choices, R.T, strict=True) if np.isfinite(column).any()]
    assert set(allowed) == {20.0}
    at_k = known.regrets(Goal(0, 1.0))
    assert np.isfinite(at_k[:, known.choices.index(Choice("svd rank k", "k"))]).all()


def test_nothing_fast_enough_is_no_evidence(known):
    assert np.isnan(known.regrets(Goal(1000.0))).all()
    with pytest.raises(UserError, match="ask for a smaller speed-up"):
        validate(known, Goal(1000.0), RULES, with_domain=True)


def test_weighted_means_need_half_of_the_weight():
    values = np.array([[1.0, 2.0, np.nan], [3.0, np.nan, np.nan], [5.0, np.nan, 7.0]])
    W = np.array([[1.0, 1.0, 2.0], [0.0, 0.0, 1.0]])
    np.testing.assert_allclose(average(W, values), [[3.5, np.nan, 7.0], [5.0, np.nan, 7.0]])


@pytest.mark.parametrize("candidate", candidates(with_domain=True))
def test_matrices_left_out_have_no_weight(known, candidate):
    domains = known.matrices["domain"].tolist()
    apart = ~np.eye(len(domains), dtype=bool)
    W = weights(candidate, known, known.compared, domains, apart)
    assert (np.diag(W) == 0).all()
    assert (W >= 0).all()
    assert (W.sum(axis=1) > 0).all()
    if candidate in NEAREST:
        assert (np.count_nonzero(W, axis=1) == NEAREST[candidate]).all()
    if candidate == DOMAIN:
        assert all(domains[i] == domains[j] for i, j in np.argwhere(W > 0))


def test_the_nearest_form_stands_for_a_dataset(rng):
    effects, traits = invented(rng, 6)
    unit = traits.assign(form="unit rows", row_spread=0.0)
    known = evidence(pd.concat([effects, effects.assign(form="unit rows")]), pd.concat([traits, unit]))
    apart = known.matrices["source"].to_numpy()[:, None] != known.matrices["source"].to_numpy()[None, :]
    W = weights("the 3 nearest datasets", known, known.compared, [""] * 12, apart)
    forms = known.matrices["form"].to_numpy()
    assert (np.count_nonzero(W, axis=1) == 3).all()
    assert all(forms[i] == forms[j] for i, j in np.argwhere(W > 0))
    assert weights(GLOBAL, known, known.compared, [""] * 12, apart).sum(axis=1) == pytest.approx(5)


def test_a_trait_that_all_data_share_does_not_separate_new_data(known):
    """Standardising it would divide by zero, or by rounding errors."""
    target = known.compared[:1].copy()
    target[0, 5] += 0.1
    W = weights("the 3 nearest datasets", known, target, [""], np.ones((1, 18), bool))
    assert np.isfinite(W).all()
    assert W[0, 0] == 1


def test_advice_that_follows_the_traits_beats_the_same_choice_for_all(known):
    found = validate(known, Goal(4.0), RULES, with_domain=False)
    assert found.candidate in NEAREST
    assert found.regret.value == pytest.approx(0, abs=1e-9)
    assert found.kept == 1
    by_rule = {comparison.rule: comparison for comparison in found.comparisons}
    assert by_rule["exact SVD at r = k"].regret == pytest.approx(MOST_REGRET)
    assert all(comparison.verdict == "better than" for comparison in found.comparisons)
    assert "the advice is better than random signs at r = 20 k" in found.sentence
    assert (found.datasets, found.sources) == (18, 18)


def test_advice_that_cannot_know_says_that_it_is_no_better(rng):
    """The kind of a dataset is drawn, whatever its traits, and random signs are good on all."""
    effects, traits = invented(rng, 24, follows_traits=False)
    effects.loc[effects["method"] == "random_sign", "loss"] *= 0.2
    known = evidence(effects.assign(domain="text"), traits)
    rules = {"random signs at r = 20 k": Choice("random_sign", 20.0)}
    found = validate(known, Goal(2.0), rules, with_domain=False)
    first = found.comparisons[0]
    assert first.difference.low <= 0 <= first.difference.high or first.verdict == "worse than"
    assert f"the advice is {first.verdict} random signs at r = 20 k" in found.sentence


def test_a_verdict_follows_the_interval():
    for low, high, verdict in ((-2, -1, "better than"), (-1, 1, "not shown to be better than"), (1, 2, "worse than")):
        assert advice.Comparison("a rule", 0.1, advice.Estimate(0, low, high)).verdict == verdict


def test_the_regret_of_a_source_left_out_does_not_depend_on_its_own_effects(rng):
    """Changing the effects of a dataset changes the advice for others only: nested leaving out leaks nothing."""
    effects, traits = invented(rng, 8, noise=0.02)
    before = evidence(effects, traits)
    changed = effects.copy()
    own = changed["dataset"] == "data03"
    changed.loc[own, "loss"] = rng.permutation(changed.loc[own, "loss"])
    after = evidence(changed, traits)
    source = before.matrices["source"].to_numpy()
    apart = source[:, None] != source[None, :]
    for name in candidates(with_domain=True):
        picks = [advice._picks(known, np.nan_to_num(known.regrets(Goal(2.0)), nan=MOST_REGRET), name, apart)[3]
                 for known in (before, after)]  # fmt: skip
        assert picks[0] == picks[1], name


def test_datasets_of_one_source_are_left_out_together(rng):
    effects, traits = invented(rng, 6)
    names = {"data00": "orl", "data02": "orl_64x64", "data04": "orlraws10p"}
    effects, traits = (frame.assign(dataset=frame["dataset"].replace(names)) for frame in (effects, traits))
    found = validate(evidence(effects, traits), Goal(4.0), RULES, with_domain=True)
    assert (found.datasets, found.sources) == (6, 4)


def test_the_bootstrap_interval_of_equal_values_is_that_value(known):
    ones, names = np.ones(18), known.matrices["dataset"].to_numpy()
    assert advice._bootstrap(ones, names, names, np.ones(18, bool)) == (1, 1, 1)


def test_a_rule_uses_the_largest_r_that_fits():
    """At r = 20 k or more than d features, a user of the rule would take the largest smaller r."""
    effects, traits = invented(np.random.default_rng(0), 6)
    effects = effects[~((effects["dataset"] == "data01") & (effects["multiple"] > 5))]
    known = evidence(effects, traits)
    R = known.regrets(Goal(0.0))
    picks = advice._rule_picks(known, R, Choice("random_sign", 20.0))
    assert [known.choices[pick].multiple for pick in picks[:3]] == [20.0, 5.0, 20.0]


def test_advised_choices_are_of_different_methods_and_fit_the_data(known):
    traits = known.matrices.iloc[1].to_dict() | {"k": 4, "d": 70}
    advised, rests_on = advise(known, traits, Goal(2.0), "the 3 nearest datasets")
    assert advised[0].choice.method == "leverage"
    assert len({each.choice.method for each in advised}) == len(advised) == 3
    assert all(each.r < 70 for each in advised)
    assert [each.r for each in advised] == [each.choice.r(4, 70) for each in advised]
    assert advised == sorted(advised, key=lambda each: each.regret)
    assert len(rests_on) == 3


def test_expected_values_are_means_over_the_nearest_data(known):
    traits = known.matrices.iloc[1].to_dict()
    (first, *_), rests_on = advise(known, traits, Goal(4.0), "the 3 nearest datasets")
    assert {int(name[4:]) % 2 for name in rests_on} == {1}
    assert first.choice == Choice("leverage", 10.0)
    assert first.loss.value == pytest.approx(0.2 * 0.3 / np.sqrt(10))
    assert first.accuracy == pytest.approx(-first.loss.value / 2)
    assert first.speedup.value == pytest.approx(5)
    assert first.loss.low <= first.loss.value <= first.loss.high


def test_data_unlike_any_of_the_atlas_get_an_error(known):
    """Only k-means on all features fits one feature, and it is not four times as fast as itself."""
    traits = known.matrices.iloc[1].to_dict() | {"k": 1, "d": 1}
    with pytest.raises(UserError, match="the atlas knows no method for k = 1 and 1 feature"):
        advise(known, traits, Goal(4.0), GLOBAL)


def test_effects_without_traits_are_refused(rng):
    effects, traits = invented(rng, 4)
    with pytest.raises(UserError, match="no dataset of the atlas has both"):
        evidence(effects, traits.iloc[:0])
