"""Reported numbers as single draws, against simulated papers."""

import math

import numpy as np
import pytest
from scipy import stats

from kmdr.base.seeding import generator
from kmdr.claims.draws import explain_dashes, judge_best, judge_computed, judge_run, judge_share, judge_together
from kmdr.claims.reported import Number


def number(value, quantity="objective", reading_error=0.0):
    return Number("id", "data", "method", math.nan, quantity, float(value), reading_error)


def test_the_best_of_m_is_refuted_as_often_as_the_rank_of_their_best_among_ours_allows():
    """Against the exact law: that theirs, the least of m, is below all of our N has probability m/(N + m)."""
    ours = np.arange(1.0, 301.0)
    for m in (1, 10, 30):
        below, above = judge_best("", number(0.0), ours, ours, m), judge_best("", number(301.0), ours, ours, m)
        assert below.component.p_against == pytest.approx(2 * m / (300 + m), rel=1e-9)
        assert above.component.p_against == pytest.approx(2 * m / (300 + m), rel=1e-9)
    few = judge_best("", number(0.0), ours[:60], ours[:60], 30)
    assert few.component.p_against > 0.5  # two blocks show no tail
    assert math.isinf(few.low)
    assert few.law("z.0f").endswith(" [–]")
    assert explain_dashes([few]) == " ([–]: too few runs for an interval)"


@pytest.mark.parametrize("m", [1, 5])
@pytest.mark.parametrize("quantity", ["objective", "accuracy"])
def test_a_paper_that_did_what_it_says_is_rarely_refuted(m, quantity):
    """300 simulated papers of skewed F, and P that follows it loosely: refuted at 5 % in no more than 5 %."""
    rng, refuted, inside = generator(0, "test_draws", m, quantity), 0, 0
    for _ in range(300):
        F = np.exp(rng.normal(size=100 + m))
        P = 1 / (1 + F) + 0.1 * rng.normal(size=100 + m)
        values = F if quantity == "objective" else P
        theirs = values[-m:][np.argmin(F[-m:])]
        draw = judge_best("", number(theirs, quantity), F[:-m], values[:-m], m)
        refuted += draw.component.p_against <= 0.05
        inside += draw.low <= theirs <= draw.high
        assert (draw.component.p_against > 0.05) == (draw.low <= theirs <= draw.high)
    assert refuted <= stats.binom.isf(0.001, 300, 0.05)
    assert inside >= 300 - stats.binom.isf(0.001, 300, 0.05)


def test_a_number_far_out_of_the_law_is_rarely_confirmed_and_a_central_one_often():
    rng, confirmed, found = generator(1, "test_draws"), 0, 0
    out = stats.norm.ppf(0.025)  # just at the end of the central 95 %
    for _ in range(300):
        F = rng.normal(size=200)
        confirmed += judge_best("", number(out), F, F, 1).component.p_for <= 0.05
        found += judge_best("", number(0.0), F, F, 1).component.p_for <= 0.05
    assert confirmed <= stats.binom.isf(0.001, 300, 0.05)
    assert found > 295


@pytest.mark.parametrize("logs", [False, True])
def test_normal_runs_predict_one_more_and_confirm_at_their_level(logs):
    rng = generator(2, "test_draws")
    scale = np.exp if logs else np.asarray
    refuted = confirmed = 0
    out = stats.norm.ppf(0.975)
    for _ in range(400):
        x = scale(rng.normal(size=9))
        refuted += judge_run("", number(x[-1]), x[:-1], logs=logs).component.p_against <= 0.05
        confirmed += judge_run("", number(scale(out)), x[:-1], logs=logs).component.p_for <= 0.05
    for count in (refuted, confirmed):
        assert stats.binomtest(count, 400, 0.05).pvalue > 0.001  # exact: neither more nor less often


def test_the_reading_error_counts_for_the_number():
    x = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    near, far = (judge_run("", number(9.0, reading_error=error), x).component for error in (6.0, 0.0))
    assert near.p_against == 1.0
    assert far.p_against < 0.05
    assert judge_best("", number(5.001, reading_error=0.001), x, x, 1).component.p_against == pytest.approx(2 * 2 / 6)
    assert judge_computed("", number(0.59, reading_error=0.00005), 0.59004).component.p_for == 0.0
    assert judge_computed("", number(0.59, reading_error=0.00005), 0.59006).component.p_against == 0.0
    assert judge_run("", number(2.0), [2.0, 2.0]).component.p_against == 1.0
    assert judge_run("", number(2.1), [2.0, 2.0]).component.p_against == 0.0


def test_several_a_little_far_out_are_refuted_together():
    ours = np.arange(1.0, 101.0)
    single = judge_best("", number(3.0), ours, ours, 1)
    assert single.component.p_against == pytest.approx(2 * 4 / 101)
    every = judge_together("", [single] * 3)
    statistic = -2 * 3 * math.log(8 / 101)
    assert every.p_against == pytest.approx(
        math.exp(-statistic / 2) * sum((statistic / 2) ** i / math.factorial(i) for i in range(3))
    )
    assert every.p_against < 0.05 < single.component.p_against
    assert every.p_for == single.component.p_for


@pytest.mark.parametrize(("n", "gap"), [(30, 0.5), (300, 0.2), (300, 1.9), (1000, 1.95)])
def test_many_runs_have_a_p_value_too(n, gap):
    """Against simulation: runs of mean 0 and deviation 1 about a number that lies 1.96 deviations away."""
    x = generator(3, "test_draws").normal(size=n)
    x = (x - x.mean()) / x.std(ddof=1)
    rng = generator(4, "test_draws")
    z, v = rng.normal(1.959964 * np.sqrt(n), 1.0, 40_000), np.sqrt(rng.chisquare(n - 1, 40_000) / (n - 1))
    nearer = float(np.mean(np.abs(z / v) <= gap * np.sqrt(n)))
    assert judge_run("", number(gap), x).component.p_for == pytest.approx(nearer, abs=0.01)


@pytest.mark.parametrize(("told", "successes"), [(0.3, 512), (0.3, 300), (0.5, 400), (0.0, 30), (1.0, 900)])
def test_a_share_is_judged_by_fishers_exact_test(told, successes):
    n, runs = 1000, 100
    draw = judge_share("", number(told), runs, successes, n)
    k = round(told * runs)
    table = [[k, runs - k], [successes, n - successes]]
    tails = [stats.fisher_exact(table, alternative=side).pvalue for side in ("less", "greater")]
    assert draw.component.p_against == pytest.approx(min(1, 2 * min(tails)))
    assert draw.component.kind == "number"
    assert draw.mean == successes / n
    # what is told as not refuted is what Fisher's test does not refute
    low, high = (round(end * runs) for end in (draw.low, draw.high))
    for j, side in ((low, "less"), (low - 1, "less"), (high, "greater"), (high + 1, "greater")):
        if 0 <= j <= runs:
            p = stats.fisher_exact([[j, runs - j], [successes, n - successes]], alternative=side).pvalue
            assert (p > 0.025) == (low <= j <= high)


@pytest.mark.slow
def test_a_share_is_confirmed_and_refuted_at_its_level():
    """Of papers that drew from our law few are refuted; of ours at the edge of what gives theirs, few confirmed."""
    rng = generator(0, "share")
    theirs, ours = rng.binomial(100, 0.3, 400), rng.binomial(1000, 0.3, 400)
    pairs = zip(theirs, ours, strict=True)
    refuted = [judge_share("", number(k / 100), 100, int(s), 1000).component.p_against <= 0.05 for k, s in pairs]
    assert np.mean(refuted) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)
    edge = stats.beta.isf(0.025, 31, 70)  # with which 30 or fewer of 100 have 2.5 %
    confirmed = [
        judge_share("", number(0.3), 100, int(s), 1000).component.p_for <= 0.05 for s in rng.binomial(1000, edge, 400)
    ]
    assert np.mean(confirmed) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)
    assert judge_share("", number(0.3), 100, 300, 1000).component.p_for < 0.05


def test_a_share_has_its_unit():
    """The share of runs in lf20-5 was a "score"."""
    number = Number("paper", "share_of_good_runs", "nips", "leverage", 30.0, 0.3, 0.05)
    assert judge_share("share", number, 100, 40, 100).component.unit == "share"
