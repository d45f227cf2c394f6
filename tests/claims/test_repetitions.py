"""How many repetitions verdicts need, against simulated repetitions."""

import numpy as np
import pytest
from scipy import stats

from kmdr.analysis.statistics import Component, above, conjunction
from kmdr.base.seeding import generator
from kmdr.claims.repetitions import POWER, needed, repetitions_for


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
