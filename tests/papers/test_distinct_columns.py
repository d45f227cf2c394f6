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
