"""Choices with several options each: the order in which to try combinations, and how much each choice explains."""

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
# Relative rounding error of a sum of squares.
_ROUNDING = 1e-12
# Orders of blocks that are drawn, and the largest number of blocks in all of them.
_ORDERS, _MOST_BLOCKS = 50, 5000


def block_size(levels: Sequence[int]) -> int:
    """Return the number of combinations in which all options occur equally often: the least common multiple."""
    return math.lcm(*levels)


def design(levels: Sequence[int], seed: int) -> NDArray[np.int64]:
    """Return every combination of options once, ordered in balanced blocks; the first is all zeros.

    The blocks, of `block_size` combinations, are the orbits of the step that moves every choice to its next option at
    once: in each an option occurs as often as any other of its choice, and with two options per choice a combination is
    next to its opposite, so that no interaction of two choices is taken for the effect of one. Each next block is the
    one that leaves the pairs of options of any two choices most evenly distributed, so that no choice is taken for
    another. The order of options, and of equal blocks, is random. A longer beginning only adds to a shorter one.

    Parameters
    ----------
    levels : sequence of int
        Number of options of each choice.

    Returns
    -------
    (∏ levels, len(levels)) ndarray of int64
    """
    rng = np.random.default_rng(seed)
    labels = [np.r_[0, 1 + rng.permutation(size - 1)] for size in levels]
    points = np.indices(levels).reshape(len(levels), -1).T
    shifted = np.stack([(points + step) % np.array(levels) for step in range(block_size(levels))])
    codes = np.ravel_multi_index(tuple(np.moveaxis(shifted, -1, 0)), tuple(levels))
    first = np.flatnonzero(codes[0] == codes.min(axis=0))  # of each orbit; that of zeros comes first
    blocks = np.moveaxis(shifted[:, first], 0, 1)
    blocks = blocks[_evenly(blocks, levels, rng)].reshape(-1, len(levels))
    return np.stack([label[column] for label, column in zip(labels, blocks.T, strict=True)], axis=1)


def _evenly(blocks: NDArray[np.int64], levels: Sequence[int], rng: np.random.Generator) -> list[int]:
    """Return an order of blocks in which each leaves the pairs of options of any two choices most evenly distributed.

    Several orders are drawn, with random choice among equal blocks; the one that is most even over all its beginnings
    is returned.
    """
    pairs = [np.zeros((len(blocks), 1))]
    for i, j in combinations(range(len(levels)), 2):
        together = blocks[..., i] * levels[j] + blocks[..., j]
        counts = (together[..., None] == np.arange(levels[i] * levels[j])).sum(axis=1)
        pairs.append(counts - blocks.shape[1] / (levels[i] * levels[j]))
    uneven = np.hstack(pairs)
    squares = (uneven**2).sum(axis=1)

    def drawn() -> tuple[float, list[int]]:
        order, so_far, left, worse = [0], uneven[0], 1 + rng.permutation(len(blocks) - 1), 0.0
        while left.size:
            at = int((squares[left] + 2 * uneven[left] @ so_far).round(6).argmin())
            order.append(int(left[at]))
            so_far = so_far + uneven[left[at]]
            worse += float(so_far @ so_far) / len(order)
            left = np.delete(left, at)
        return worse, order

    return min(drawn() for _ in range(max(1, min(_ORDERS, _MOST_BLOCKS // len(blocks)))))[1]


def shapley_shares(points: ArrayLike, values: ArrayLike) -> Floats:
    """Return the share of the variance of some values that each choice explains, by Shapley.

    A set of choices explains the sum of squares of the least-squares fit with additive effects; a choice's Shapley
    value is what it adds to that, averaged over all orders of the choices (Owen, SIAM/ASA J. Uncertainty Quantification
    2, 2014). On a balanced factorial it is the choice's sum of squares in the analysis of variance. The rest up to one
    is due to interactions and chance.

    Parameters
    ----------
    points : (n, d) array_like of int
        The option of each choice.
    values : (n, m) array_like
        m quantities of each combination.

    Returns
    -------
    (d, m) ndarray
        NaN for a quantity that does not vary.
    """
    x, y = np.asarray(points), np.asarray(values, dtype=float)
    level = np.abs(y).max(axis=0, initial=0.0)
    y = y - y.mean(axis=0)
    d, total = x.shape[1], (y**2).sum(axis=0)
    effects = [(x[:, [i]] == np.unique(x[:, i])).astype(float) for i in range(d)]

    def explained(some: int) -> Floats:
        columns = [effects[i] for i in range(d) if some >> i & 1]
        if not columns:
            return np.zeros_like(total)
        centred = np.hstack(columns)
        basis, scale, _ = np.linalg.svd(centred - centred.mean(axis=0), full_matrices=False)
        basis = basis[:, scale > _ROUNDING * len(x)]
        return np.asarray(((basis.T @ y) ** 2).sum(axis=0))

    by_set = np.stack([explained(some) for some in range(1 << d)])
    shares = np.zeros((d, y.shape[1]))
    for some in range(1 << d):
        size = some.bit_count()
        if size == d:
            continue
        weight = 1 / (d * math.comb(d - 1, size))
        for i in range(d):
            if not some >> i & 1:
                shares[i] += weight * (by_set[some | 1 << i] - by_set[some])
    varies = total > len(x) * (_ROUNDING * level) ** 2
    # Only rounding makes a share negative.
    return np.where(varies, np.maximum(shares, 0.0) / np.where(varies, total, 1.0), np.nan)
