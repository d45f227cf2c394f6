"""Generators are addressed by name."""

import itertools

import numpy as np
import pytest

from kmdr.base.seeding import generator


def first(seed, *names):
    return generator(seed, *names).integers(2**63, size=4).tolist()


FROZEN = [6176420041986677915, 1400633817350596933, 7121801575352934206, 619070011219313037]
FROZEN_OF_ZURICH = 7957932403639049150

ADDRESSES = [
    (0,),
    (0, ""),
    (0, "1"),
    (0, 1),
    (0, "usps", 1),
    (0, 1, "usps"),
    (0, "usps", "1"),
    (0, "usps,1"),
    (0, 'usps", "1'),
    (0, "usps1"),
    (0, "ab", "c"),
    (0, "a", "bc"),
    (0, "abc"),
    (0, 12),
    (0, 1, 2),
    (0, 2, 1),
    (0, -1),
    (0, "é"),
    (0, "e\u0301"),
    (0, "\\u00e9"),
    (1, "usps", 1),
    (2**32, "usps", 1),
    (2**64, "usps", 1),
]


def test_every_address_has_its_own_numbers_whatever_the_order_of_the_calls():
    forwards = [first(*address) for address in ADDRESSES]
    backwards = [first(*address) for address in reversed(ADDRESSES)][::-1]
    assert forwards == backwards
    # 23 addresses, four 63-bit integers each: a coincidence has probability 253 · 2^-252.
    assert len({tuple(numbers) for numbers in forwards}) == len(ADDRESSES)


def test_drawing_from_one_generator_leaves_others_alone():
    a, b = generator(0, "a"), generator(0, "b")
    a.random(1000)
    assert b.integers(2**63, size=4).tolist() == first(0, "b")


def test_numbers_of_one_address_are_frozen():
    # A change here changes every published row: raise the version of the results when it is meant.
    assert first(7, "usps", "random_sign", 20, 3, "reduce") == FROZEN
    assert first(7, "Zürich")[0] == FROZEN_OF_ZURICH, "whatever the alphabet of a name"
    assert isinstance(generator(7, "x").bit_generator, np.random.PCG64)


def test_a_negative_root_seed_is_refused():
    with pytest.raises(ValueError, match="non-negative"):
        generator(-1, "x")


@pytest.mark.slow
@pytest.mark.parametrize("where", ["name", "seed", "purpose"])
def test_neighbouring_addresses_are_uniform_and_independent(where, assert_frequencies):
    address = {
        "name": lambda i: (3, "usps", i, "reduce"),
        "seed": lambda i: (i, "usps", 0, "reduce"),
        "purpose": lambda i: (3, "usps", 0, f"purpose {i}"),
    }[where]
    values = np.array([generator(*address(i)).integers(4, size=2) for i in range(20_000)])
    first, second = values.T
    # 16 equally likely cells of 1250 (a generator's first two numbers) and of 625 (disjoint pairs of neighbours).
    assert_frequencies(np.bincount(4 * first + second, minlength=16), np.full(16, 1 / 16))
    for numbers in (first, second):
        assert_frequencies(np.bincount(4 * numbers[0::2] + numbers[1::2], minlength=16), np.full(16, 1 / 16))


def test_uniform_numbers_of_neighbouring_generators_are_uncorrelated():
    draws = np.array([generator(0, "correlation", i).random(4000) for i in range(20)])
    # 4·E[(U−½)(U'−½)…]: terms in [−1, 1] of mean 0; Hoeffding: P(|mean| ≥ h) ≤ 2 exp(−N h²/2) for one of 190 pairs.
    h = np.sqrt(2 * np.log(2 * 190 / 1e-7) / draws.shape[1])
    for a, b in itertools.combinations(2 * draws - 1, 2):
        assert abs(np.mean(a * b)) < h
