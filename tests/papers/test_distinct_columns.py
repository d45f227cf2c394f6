"""The probability that draws until r distinct columns contain the largest ones, against simulated draws."""

import numpy as np
import pytest

from kmdr.papers.bmd09.claims import _probability_of_distinct


def test_it_is_the_share_of_simulated_draws(rng):
    p = np.r_[np.linspace(0.12, 0.03, 6), np.full(30, 0.55 / 30)]
    p /= p.sum()
    times = rng.exponential(size=(20000, len(p))) / p  # in the order of draws without replacement
    first = np.argsort(times, axis=1)[:, :12]
    simulated = ((first < 6).sum(axis=1) >= 5).mean()
    assert 0.2 < simulated < 0.8
    assert _probability_of_distinct(p, 5, 12) == pytest.approx(simulated, abs=0.012)


def test_all_columns_hold_them():
    assert _probability_of_distinct(np.full(8, 1 / 8), 3, 8) == pytest.approx(1.0, abs=1e-6)


def exactly(p, least, r):
    """Sum over every order of the first r distinct columns, one draw after another."""

    def after(drawn):
        if len(drawn) == r:
            return float(len(drawn & set(range(least + 1))) >= least)
        rest = 1 - sum(p[i] for i in drawn)
        return sum(p[i] / rest * after(drawn | {i}) for i in range(len(p)) if i not in drawn)

    return after(frozenset())


def test_it_is_the_sum_over_all_orders_to_nine_digits():
    p = np.array([0.3, 0.2, 0.15, 0.1, 0.1, 0.08, 0.05, 0.02])
    for least, r in ((2, 3), (2, 5), (3, 4)):
        assert _probability_of_distinct(p, least, r) == pytest.approx(exactly(p, least, r), rel=1e-9)
