import pickle
from itertools import combinations
from math import comb

import numpy as np
import pytest
from scipy import stats

from kmdr.analysis.significance import directional, holm
from kmdr.analysis.statistics import (
    Component,
    Margin,
    above,
    below,
    best_in_blocks,
    best_of,
    certain,
    conjunction,
    equal,
    is_rounding,
    median_above,
    median_below,
    median_equal,
    median_interval,
    not_inferior,
    ratio_above,
    retest,
    several,
    share,
    slopes,
)


def symmetric(rng, mean, scale, n):
    """Values of which as many lie as far above a mean as below it: no skewness, so the t test is Student's."""
    z = rng.normal(scale=scale, size=n // 2)
    return rng.permutation(np.r_[mean + z, mean - z, [mean] * (n % 2)])


@pytest.mark.parametrize("n", [2, 5, 30])
@pytest.mark.parametrize("threshold", [0.0, 0.4])
def test_above_and_below_are_scipys_t_tests_where_values_are_not_skewed(n, threshold, rng):
    x = symmetric(rng, 0.3, 1.0, n)
    greater = stats.ttest_1samp(x, threshold, alternative="greater")
    less = stats.ttest_1samp(x, threshold, alternative="less")
    low, high = stats.ttest_1samp(x, threshold).confidence_interval(0.95)
    up, down = above("u", x, threshold, "F"), below("d", x, threshold, "F")
    assert up.p_for == pytest.approx(greater.pvalue, rel=1e-9)
    assert up.p_against == pytest.approx(less.pvalue, rel=1e-9)
    assert (down.p_for, down.p_against) == (up.p_against, up.p_for)
    assert (up.effect, up.low, up.high) == pytest.approx((x.mean(), low, high), rel=1e-9)
    assert (up.n, up.unit, up.label) == (n, "F", "u")


def test_values_have_no_unit_unless_it_is_given():
    x = np.array([1.0, 2.0, 4.0])
    made = [above("m", x), below("m", x), equal("m", x, 1.0), median_above("m", x), median_below("m", x)]
    assert [component.unit for component in [*made, ratio_above("m", x)]] == [*[""] * 5, "ratio of times"]


@pytest.mark.parametrize(
    ("test", "usual"), [(above, 0.0), (below, 0.0), (ratio_above, 1.0), (median_above, 0.0), (median_below, 0.0)]
)
def test_the_usual_threshold_is_no_difference(test, usual, rng):
    x = rng.lognormal(size=7)
    assert test("", x)[:8] == test("", x, usual)[:8]


def test_a_margin_is_used_and_shown_as_its_value():
    assert f"{Margin(0.25, 'what'):.1%}" == "25.0%"
    assert float(Margin(0.25, "what")) == 0.25


def test_differences_to_a_trillionth_of_the_scale_are_rounding():
    assert is_rounding([1e-12, -1e-12, 1.01e-12, -1.01e-12, np.inf]).tolist() == [True, True, False, False, False]
    assert is_rounding([0.0, 5e-11, 2e-10], 100.0).tolist() == [True, True, False]


def hall_polynomial(x):
    """Hall (1992): √n times this cubic of (x̄ − θ)/s, the skewness enlarged by 2/√n, is taken for a t statistic."""
    n, g = len(x), stats.skew(x, bias=False) * (1 + 2 / np.sqrt(len(x)))
    return np.poly1d([g**2 / 27, g / 3, 1.0, g / (6 * n)])


def of_skewed(kind, n, rng):
    return {
        "exponential": lambda: rng.exponential(size=n),
        "to the left": lambda: -(rng.gamma(0.3, size=n)),
        "an outlier": lambda: np.r_[np.linspace(1.0, 1.1, n - 1), 9.0],
        "two values": lambda: np.r_[[0.2] * (n - 1), 0.7],
    }[kind]()


@pytest.mark.parametrize("kind", ["exponential", "to the left", "an outlier", "two values"])
@pytest.mark.parametrize("n", [3, 5, 12, 30])
def test_it_is_the_larger_p_value_of_students_and_halls_test(kind, n, rng):
    x = of_skewed(kind, n, rng)
    cubic = hall_polynomial(x)
    for threshold in x.mean() + x.std() * np.linspace(-3, 3, 7):
        got = above("", x, threshold)
        T = np.sqrt(n) * cubic((x.mean() - threshold) / x.std(ddof=1))
        greater = stats.ttest_1samp(x, threshold, alternative="greater").pvalue
        less = stats.ttest_1samp(x, threshold, alternative="less").pvalue
        assert got.p_for == pytest.approx(max(greater, stats.t.sf(T, n - 1)), rel=1e-6)
        assert got.p_against == pytest.approx(max(less, stats.t.cdf(T, n - 1)), rel=1e-6)


@pytest.mark.parametrize("kind", ["exponential", "to the left", "an outlier", "two values"])
@pytest.mark.parametrize("n", [3, 5, 12, 30])
def test_the_interval_is_the_one_tested_and_the_wider_of_the_two(kind, n, rng):
    x = of_skewed(kind, n, rng)
    q = stats.t.isf(0.025, n - 1) / np.sqrt(n)
    student = stats.ttest_1samp(x, 0).confidence_interval(0.95)
    # A cubic that grows has one real root; the polynomial is inverted by eigenvalues.
    roots = [min((hall_polynomial(x) - end).roots, key=lambda z: abs(z.imag)).real for end in (q, -q)]
    low, high = (x.mean() - x.std(ddof=1) * root for root in roots)
    got = above("", x, 0.0)
    assert (got.low, got.high) == pytest.approx((min(low, student.low), max(high, student.high)), rel=1e-4)
    assert above("", x, got.low).p_for == pytest.approx(0.025, rel=1e-6)
    assert above("", x, got.high).p_against == pytest.approx(0.025, rel=1e-6)


def test_on_skewed_values_it_is_wrong_no_more_often_than_its_level(rng):
    """Exponential values, whose mean is 1; Student's test, which finds it below in 13 %, would not pass."""
    runs = 2500
    values = rng.exponential(size=(runs, 12))
    most = stats.binom.isf(1e-6, runs, 0.05)
    parts = [above("", x, 1.0) for x in values]
    assert sum(part.p_against <= 0.05 for part in parts) <= most
    assert sum(part.p_for <= 0.05 for part in parts) <= most
    assert sum(stats.ttest_1samp(values, 1.0, axis=1, alternative="less").pvalue <= 0.05) > most
    assert sum(not part.low <= 1.0 <= part.high for part in parts) <= most


def test_on_skewed_values_equality_is_shown_wrongly_no_more_often_than_its_level(rng):
    runs = 1000
    wrong = sum(equal("", x, 1.0).p_for <= 0.05 for x in rng.exponential(size=(runs, 30)))
    assert wrong <= stats.binom.isf(1e-6, runs, 0.05)


def test_pairs_enter_as_differences(rng):
    b = rng.normal(1.0, 1.0, 12)
    a = b + symmetric(rng, 0.2, 1.0, 12)
    assert above("", a - b).p_for == pytest.approx(stats.ttest_rel(a, b, alternative="greater").pvalue, rel=1e-9)


def test_one_value_decides_nothing_and_equal_values_decide():
    component = above("", [0.7])
    assert (component.effect, component.p_for, component.p_against) == (0.7, 1.0, 1.0)
    assert np.isnan([component.low, component.high]).all()
    assert above("", [0.7] * 3).p_for == 0.0
    assert above("", [0.7] * 3, 0.8).p_against == 0.0


@pytest.mark.parametrize("values", [[], [1.0, np.nan], [np.inf, 1.0]])
def test_values_must_be_finite(values):
    with pytest.raises(ValueError, match="finite"):
        above("", values)


@pytest.mark.parametrize("mean", [0.0, 0.02, 0.2])
def test_equality_is_two_one_sided_tests(mean, rng):
    x = symmetric(rng, mean, 0.03, 20)
    margin = 0.05
    over = stats.ttest_1samp(x, -margin, alternative="greater").pvalue
    under = stats.ttest_1samp(x, margin, alternative="less").pvalue
    got = equal("", x, margin)
    assert got.p_for == pytest.approx(max(over, under), rel=1e-9)
    sides = [
        stats.ttest_1samp(x, -margin, alternative="less").pvalue,
        stats.ttest_1samp(x, margin, alternative="greater").pvalue,
    ]
    assert got.p_against == pytest.approx(min(1.0, 2 * min(sides)), rel=1e-9)


def test_few_noisy_data_do_not_pass_for_equality():
    got = equal("", [-0.3, 0.3, 0.1], 0.05)
    assert min(got.p_for, got.p_against) > 0.05


@pytest.mark.parametrize(("successes", "n"), [(0, 12), (3, 12), (12, 12), (40, 100)])
@pytest.mark.parametrize("threshold", [0.04, 0.5])
def test_share_is_scipys_binomial_test(successes, n, threshold):
    more = stats.binomtest(successes, n, threshold, alternative="greater").pvalue
    fewer = stats.binomtest(successes, n, threshold, alternative="less").pvalue
    interval = stats.binomtest(successes, n).proportion_ci(0.95, method="exact")
    got, other = share("", successes, n, threshold), share("", successes, n, threshold, at_most=True)
    assert (got.p_for, got.p_against) == pytest.approx((more, fewer), rel=1e-9, abs=1e-15)
    assert (other.p_for, other.p_against) == (got.p_against, got.p_for)
    assert (got.effect, got.low, got.high) == pytest.approx((successes / n, interval.low, interval.high), rel=1e-9)


def test_ratios_are_tested_by_their_logarithms(rng):
    ratios = np.exp(symmetric(rng, -0.2, 0.3, 10))
    expected = stats.ttest_1samp(np.log(ratios), np.log(1.1), alternative="greater")
    got = ratio_above("", ratios, 1.1)
    assert got.p_for == pytest.approx(expected.pvalue, rel=1e-9)
    assert got.effect == pytest.approx(stats.gmean(ratios), rel=1e-12)
    low, high = stats.ttest_1samp(np.log(ratios), 0).confidence_interval()
    assert (got.low, got.high) == pytest.approx((np.exp(low), np.exp(high)), rel=1e-9)
    # a half and a double weigh the same
    assert ratio_above("", [0.5, 2.0]).effect == pytest.approx(1.0)


@pytest.mark.parametrize("n", [1, 5, 6, 12, 30])
def test_medians_are_tested_by_the_exact_sign_test(n, rng):
    x = rng.exponential(size=n)
    more = stats.binomtest(int((x > 0.6).sum()), n, 0.5, alternative="greater").pvalue
    fewer = stats.binomtest(int((x < 0.6).sum()), n, 0.5, alternative="greater").pvalue
    got, other = median_above("", x, 0.6), median_below("", x, 0.6)
    assert (got.p_for, got.p_against) == pytest.approx((more, fewer), rel=1e-9)
    assert (other.p_for, other.p_against) == (got.p_against, got.p_for)
    expected = stats.quantile_test(x, q=0, p=0.5).confidence_interval(0.95) if n > 5 else (np.nan, np.nan)
    assert (got.effect, got.low, got.high) == pytest.approx((np.median(x), *expected), nan_ok=True)
    equal_ = median_equal("", x, 0.5, centre=0.7)
    below_, above_ = median_below("", x, 1.2), median_above("", x, 0.7 - 0.5)
    assert equal_.p_for == max(below_.p_for, above_.p_for)
    assert equal_.p_against == min(1.0, 2 * min(below_.p_against, above_.p_against))


def test_an_interrupted_trial_decides_nothing_about_a_median():
    """The mean of twelve equal times and one that took 100 times as long is far above them."""
    times = np.r_[np.linspace(0.9, 0.95, 12), 95.0]
    assert above("", times, 1.0).effect > 8
    assert median_below("", times, 1.0).p_for < 0.002


def test_the_interval_of_a_median_holds_it_in_95_percent_of_samples(rng):
    held = {}
    for n in (6, 12, 30):
        intervals = [median_interval(rng.exponential(size=n)) for _ in range(2000)]
        held[n] = np.mean([low <= np.log(2) <= high for _, low, high, _ in intervals])
    assert all(0.945 <= share_held <= 0.99 for share_held in held.values()), held


@pytest.mark.parametrize("m", [1, 3, 7])
def test_best_of_is_the_mean_over_all_subsets(m, rng):
    F = rng.permutation(7) / 10
    P = rng.random(7)
    kept = [min(subset, key=lambda i: F[i]) for subset in combinations(range(7), m)]
    law = best_of(F, m)
    assert law.mean(P) == pytest.approx(np.mean(P[kept]), rel=1e-12)
    assert law.mean(F) == pytest.approx(np.mean(F[kept]), rel=1e-12)
    value = float(np.median(P))
    assert law.place(P, value) == pytest.approx((np.mean(P[kept] <= value), np.mean(P[kept] >= value)), rel=1e-12)
    for level in (0.025, 0.5, 0.975):
        expected = np.quantile(P[kept], level, method="inverted_cdf")
        assert law.quantile(P, level) == expected


def test_best_of_many_runs_does_not_overflow():
    law = best_of(np.arange(2000.0), 30)
    assert law.weights.sum() == pytest.approx(1.0)
    assert law.weights[0] == pytest.approx(comb(1999, 29) / comb(2000, 30))


def test_best_of_needs_enough_runs():
    with pytest.raises(ValueError, match="best of m = 4 runs cannot be estimated from N = 3"):
        best_of([1.0, 2.0, 3.0], 4)


def test_blocks_are_successive_and_whole():
    F = [3.0, 1.0, 2.0, 5.0, 4.0, 6.0, 0.0]
    assert best_in_blocks(F, 3).tolist() == [1, 4]
    assert best_in_blocks(F[:2], 3).tolist() == [1]


def test_holm_on_a_worked_example():
    # Holm's procedure by hand: 4·.005, 3·.01, 2·.03, 1·.04, none below its predecessor
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.7, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_of_many_claims_any_is_decided_wrongly_at_the_level_only(rng):
    """2000 papers of eight claims about means, some as near to false and to true as can be, some far from either."""
    wrong, decided = 0, 0
    means = np.array([-1e-9, 1e-9, -1e-9, 1e-9, -0.5, 0.5, -2.0, 2.0])
    for _ in range(2000):
        z = rng.normal(means * np.sqrt(20))
        adjusted = directional(list(zip(stats.norm.sf(z), stats.norm.cdf(z), strict=True)))
        wrong += any(p[0] <= 0.05 for p, mean in zip(adjusted, means, strict=True) if mean < 0) or any(
            p[1] <= 0.05 for p, mean in zip(adjusted, means, strict=True) if mean > 0
        )
        decided += sum(min(p) <= 0.05 for p in adjusted[4:])
    assert wrong <= stats.binom.isf(0.001, 2000, 0.05)
    assert decided > 2000 * 2.5  # the four that are not near are mostly decided
    assert directional([(0.01, 0.99), (0.9, 0.002), (0.04, 0.96)]) == [
        (0.02, 1.0),
        (1.0, pytest.approx(0.006)),
        (0.04, 1.0),
    ]
    assert directional([]) == []


def test_all_statements_must_hold():
    def part(p_for, p_against):
        return Component("", 0.0, 0.0, 0.0, p_for, p_against, 5, "")

    assert conjunction([part(0.01, 0.99), part(0.03, 0.5)]) == (0.03, 1.0)
    assert conjunction([part(0.01, 0.99), part(0.9, 0.01), part(0.9, 0.02)]) == (0.9, pytest.approx(0.03))
    for wrong in (np.nan, -0.01, 1.01):
        for p in ((wrong, 0.5), (0.5, wrong)):
            with pytest.raises(ValueError, match=f"p-values {p[0]} and {p[1]}"):
                conjunction([part(0.01, 0.99), part(*p)])


def test_slopes_are_numpys_fits(rng):
    x, lines = rng.normal(size=7), rng.normal(size=(4, 7))
    expected = [np.polyfit(x, line, 1)[0] for line in lines]
    np.testing.assert_allclose(slopes(lines, x), expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("make", "moved"),
    [
        (lambda x, m: above("", x, m), 0.1),
        (lambda x, m: below("", x, m), 0.9),
        (lambda x, m: equal("", x - 0.4, m, centre=0.1), 0.3),
        (lambda x, m: not_inferior("", x - 0.5, m), 0.02),
        (lambda x, m: ratio_above("", x + 1, m), 1.3),
        (lambda x, m: median_above("", x, m), 0.1),
        (lambda x, m: median_below("", x, m), 0.9),
        (lambda x, m: median_equal("", x - 0.4, m, centre=0.1), 0.3),
        (lambda x, m: certain("", float(x.mean()), m, 5, "share", at_most=True), 0.2),
        (lambda x, m: several("", {"a": [above("", x, m)], "b": [above("", x + 1, m)]}, 2), 0.1),
    ],
)
def test_a_margin_can_be_moved_and_the_test_is_as_if_it_had_been_so(make, moved, rng):
    x = rng.random(9)
    with_margin = make(x, Margin(0.5, "what"))
    assert with_margin.margin == Margin(0.5, "what")
    assert pickle.loads(pickle.dumps(with_margin)).margin == with_margin.margin  # it crosses processes
    fresh, again = make(x, moved), retest(with_margin, moved)
    np.testing.assert_equal(again[1:8], fresh[1:8])
    assert retest(fresh, 0.7) is fresh  # a bound of the paper's does not move
    assert make(x, 0.5)[1:8] == pytest.approx(with_margin[1:8], nan_ok=True)


def test_not_inferior_is_a_t_test_against_minus_the_margin(rng):
    x = symmetric(rng, -0.01, 0.05, 12)
    assert not_inferior("", x, 0.05).p_for == pytest.approx(stats.ttest_1samp(x, -0.05, alternative="greater").pvalue)


def test_several_is_a_partial_conjunction():
    """All is the conjunction, one is Bonferroni's; of what lies between, the closed form for independent p-values."""

    def groups(*pairs):
        return {
            str(i): [Component("", 0.0, 0.0, 0.0, p_for, p_against, 5, "")]
            for i, (p_for, p_against) in enumerate(pairs)
        }

    three = groups((0.01, 0.9), (0.03, 0.8), (0.7, 0.002))
    assert several("", three, 3)[4:6] == conjunction([parts[0] for parts in three.values()])
    assert several("", three, 1)[4:6] == (pytest.approx(3 * 0.01), pytest.approx(0.9))
    assert several("", three, 2)[4:6] == (pytest.approx(2 * 0.03), pytest.approx(min(1, 2 * 0.8)))
    assert several("", three, 2).effect == 2
    assert several("", three, 9)[4:6] == several("", three, 3)[4:6]


def test_several_is_wrong_no_more_often_than_its_level(rng):
    """With one group of four true, and any test of the others at its edge, three are found in 5 % at most."""
    wrong = 0
    for _ in range(2000):
        p = [0.0, *rng.random(3)]
        parts = {str(i): [Component("", 0.0, 0.0, 0.0, value, 1 - value, 5, "")] for i, value in enumerate(p)}
        wrong += several("", parts, 2).p_for <= 0.05
    assert wrong / 2000 <= 0.05 + 3 * (0.05 * 0.95 / 2000) ** 0.5
