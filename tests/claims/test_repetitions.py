"""How many repetitions verdicts need, against simulated repetitions."""

import numpy as np
import pytest
from scipy import stats

from kmdr.analysis.statistics import Component, above, conjunction, median_above, median_below, median_equal, share
from kmdr.base.seeding import generator
from kmdr.claims.effects import as_time
from kmdr.claims.repetitions import POWER, needed, repetitions_for, timings_for, trials_for


def _power(effect: float, n: int, level: float) -> float:
    """Return how often a one-sided t test of n normal values of mean ``effect`` reaches a level, of 20,000."""
    x = generator(0, "test_repetitions").normal(effect, 1.0, size=(20_000, n))
    t = x.mean(axis=1) / (x.std(axis=1, ddof=1) / np.sqrt(n))
    return float(np.mean(stats.t.sf(t, n - 1) <= level))


@pytest.mark.parametrize(("effect", "level"), [(0.6, 0.05), (1.0, 0.005), (2.5, 0.0025), (6.0, 0.002)])
def test_it_is_the_least_number_that_reaches_the_power(effect: float, level: float) -> None:
    pilot = 30
    p = float(stats.t.sf(effect * np.sqrt(pilot), pilot - 1))
    n = repetitions_for(p, pilot, level, POWER)
    assert n is not None
    assert _power(effect, n, level) > POWER - 0.01
    assert n == 2 or _power(effect, n - 1, level) < POWER + 0.01


def test_what_leans_the_other_way_or_too_little_has_no_number() -> None:
    assert repetitions_for(0.7, 30, 0.05, POWER) is None
    assert repetitions_for(0.49, 30, 0.05, POWER) is None  # t = .025 of 30: 400,000
    assert repetitions_for(1e-9, 1, 0.05, POWER) is None


def test_what_is_certain_needs_two() -> None:
    for p in (0.0, 1e-300, 1e-250, 1e-20):
        assert repetitions_for(p, 300, 0.5, POWER) == 2
        assert repetitions_for(p, 1000, 0.003, POWER) is not None
        assert repetitions_for(p, 2, 0.003, POWER) == 2  # two values that are all but equal


def test_a_claim_needs_what_its_weakest_statement_needs_and_against_it_one_is_enough() -> None:
    rng = generator(1, "test_repetitions")
    strong, weak = above("strong", rng.normal(3.0, 1.0, 30)), above("weak", rng.normal(1.0, 1.0, 30))
    failing = above("failing", rng.normal(-3.0, 1.0, 30))
    both = needed("supported", [strong, weak], 9)
    assert both.component == weak
    alone = needed("supported", [weak], 9)
    assert both.repetitions is not None
    assert alone.repetitions is not None
    assert both.repetitions >= alone.repetitions  # each statement takes its share of what may go wrong
    against = needed("not supported", [weak, failing], 9)
    assert against.component == failing
    assert against.repetitions is not None
    assert against.repetitions < both.repetitions
    assert conjunction([weak, failing])[1] < 0.05


def test_an_open_claim_needs_what_the_nearer_way_takes_or_more_than_can_be_told() -> None:
    rng = generator(2, "test_repetitions")
    leaning = above("leaning", rng.normal(0.4, 1.0, 10) - 0.05)
    need = needed("undecided", [leaning], 2)
    assert need == needed("supported", [leaning], 2)
    assert need.repetitions is None or need.repetitions > 10
    nothing = needed("not run", [], 2)
    assert (nothing.component, nothing.repetitions) == (None, None)


def test_what_is_computed_without_a_draw_needs_none() -> None:
    computed = Component("computed", 0.7, 0.7, 0.7, 1.0, 0.0, 12, "share")
    drawn = above("drawn", generator(3, "test_repetitions").normal(1.0, 1.0, 30))
    assert needed("not supported", [computed], 5).component is None
    assert needed("not supported", [computed, drawn], 5).component is None  # one that fails for certain is enough
    holds = computed._replace(p_for=0.0, p_against=1.0)
    assert needed("supported", [holds], 5).component is None
    assert needed("supported", [holds, drawn], 5) == needed("supported", [drawn], 5)


def _sign_power(share: float, n: int, level: float) -> float:
    """Return the probability that the sign test of n values reaches a level, by summing the binomial probabilities."""
    reaching = [k for k in range(n + 1) if stats.binomtest(k, n, 0.5, alternative="greater").pvalue <= level]
    return float(sum(stats.binom.pmf(k, n, share) for k in reaching))


@pytest.mark.parametrize("level", [0.05, 0.05 / 14, 0.05 / 14 / 16])
@pytest.mark.parametrize(("k", "n"), [(12, 12), (11, 12), (8, 8), (25, 30), (20, 30), (10, 15)])
def test_timings_reach_the_power_of_the_sign_test_and_so_does_every_larger_number(k: int, n: int, level: float) -> None:
    p = float(stats.binom.sf(k - 1, n, 0.5))
    found = timings_for(p, n, level, POWER)
    assert found is not None
    assert all(_sign_power(k / n, N, level) >= POWER for N in range(found, found + 30))
    assert found == 1 or _sign_power(k / n, found - 1, level) < POWER


def test_timings_that_all_agree_need_as_many_as_reach_the_level() -> None:
    """By the noncentral t distribution, twelve timings that agree needed 29 to reach 0.05/14/16 again; 13 reach it."""
    for level in (0.05, 0.01, 1e-4, 1e-6):
        assert timings_for(2.0**-12, 12, level, POWER) == np.ceil(-np.log2(level))


def test_timings_that_lean_the_other_way_or_hardly_have_no_number() -> None:
    assert timings_for(0.5, 31, 0.05, POWER) is None
    assert timings_for(0.7, 30, 0.05, POWER) is None
    assert timings_for(float(stats.binom.sf(2504, 5000, 0.5)), 5000, 0.05, POWER) is None  # half a permille off


@pytest.mark.parametrize("test", [median_above, median_below])
def test_a_claim_on_time_needs_what_its_sign_test_needs(test) -> None:
    rng = generator(4, "test_repetitions")
    sign = 1 if test is median_above else -1
    values = np.abs(rng.normal(0.5, 0.1, 30)) * np.where(np.arange(30) < 24, sign, -sign)
    (component,) = as_time([test("time", values, 0.0)])
    found = needed("undecided", [component], 4)
    assert found.repetitions == timings_for(component.p_for, 30, 0.05 / 4, POWER)
    assert found.repetitions is not None
    assert _sign_power(0.8, found.repetitions, 0.05 / 4) >= POWER
    assert needed("undecided", [component._replace(kind="statement")], 4).repetitions != found.repetitions


def test_equality_of_times_has_a_number_though_its_p_value_against_is_doubled() -> None:
    (component,) = as_time([median_equal("equal", np.linspace(0.3, 0.5, 12), 0.25, centre=0.0)])
    assert component.p_against == 2 * 0.5**12
    assert needed("not supported", [component], 5).repetitions is not None


@pytest.mark.parametrize(("first", "second"), [(10, 46), (30, 160)])
def test_a_second_look_at_more_values_is_wrong_in_nine_percent_as_the_docs_say(first: int, second: int) -> None:
    x = generator(0, "second_look").normal(size=(40_000, second))
    p = [stats.ttest_1samp(x[:, :n], 0.0, axis=1, alternative="greater").pvalue for n in (first, second)]
    assert np.mean(np.minimum(*p) <= 0.05) == pytest.approx(0.09, abs=0.005)


def _shown(successes: int, n: int, threshold: float, level: float, *, at_most: bool, against: bool) -> bool:
    test = share("share", successes, n, threshold, at_most=at_most)
    return (test.p_against if against else test.p_for) <= level


@pytest.mark.parametrize(
    ("successes", "n", "threshold", "at_most", "against"),
    [
        (1, 150, 0.04, True, False), (0, 150, 0.04, True, False), (20, 60, 0.04, True, True), (7, 40, 0.2, True, False),
        (11, 30, 0.1, False, False), (30, 30, 0.5, False, False), (2, 40, 0.5, False, True), (40, 40, 0.9, True, True),
    ],
)  # fmt: skip
def test_a_claim_on_a_share_needs_what_its_binomial_test_needs(successes, n, threshold, at_most, against) -> None:
    """By the t distribution, a share of 1 in 150 below 0.04 needed 1929 repetitions; by its own, hundreds."""
    tested, level = share("share", successes, n, threshold, at_most=at_most), 0.05 / 4
    found = needed("not supported" if against else "supported", [tested], 4)
    assert found.repetitions is not None
    for N in (*range(found.repetitions, found.repetitions + 12), found.repetitions - 1):
        k = np.arange(N + 1)
        shown = [_shown(i, N, threshold, level, at_most=at_most, against=against) for i in k] if N else [False]
        power = stats.binom.pmf(k, N, successes / n)[shown].sum()
        enough = found.repetitions <= N
        assert (power >= POWER) == enough or power == pytest.approx(POWER)


def test_an_open_claim_needs_what_the_statement_needs_that_has_too_few() -> None:
    """bzmd15-7 named a statement that has more repetitions than it needs, because that needs most."""
    enough, short = share("enough", 0, 2240, 0.01, at_most=True), share("short", 1, 150, 0.04, at_most=True)
    needs = {test.label: needed("supported", [test], 11).repetitions or 0 for test in (enough, short)}
    assert needs["short"] < needs["enough"] < 2240
    for components in ([enough, short], [short, enough]):
        need = needed("undecided", components, 11)
        assert need.component == short
        assert 150 < (need.repetitions or 0) < 1000
    assert needed("supported", [enough, share("short", 1, 900, 0.04, at_most=True)], 11).component == enough


def test_a_share_on_the_other_side_of_its_bound_has_no_number() -> None:
    assert trials_for(0.5, 0.5, 0.01, POWER) is None
    assert trials_for(0.3, 0.5, 0.01, POWER) is None
    assert needed("supported", [share("share", 12, 30, 0.5)], 4).repetitions is None
    assert needed("undecided", [share("share", 12, 30, 0.5)], 4) == needed(
        "not supported", [share("share", 12, 30, 0.5)], 4
    )
