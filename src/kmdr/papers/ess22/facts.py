"""The fact of ess22: the distortion of coresets of the Benchmark instances by Sensitivity Sampling.

A coreset is a set of weighted points. Its distortion for some centres is the ratio of the cost of all points to the
weighted cost of the coreset, or its inverse if that is larger. On a Benchmark instance, the authors consider each block
of features and five ε. The centres are the means of the block's clusters whose weight in the coreset is at least 1 − ε
times their number of points. The largest distortion over all blocks and ε is reported.

Points are digits here: the squared distance of two points is twice the number of digits in which they differ. So draws
and costs need no matrix.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kmdr.analysis.results import Results
from kmdr.base.seeding import generator
from kmdr.claims.catalogue import fact
from kmdr.datasets import Dataset
from kmdr.datasets.sources.coreset_benchmark import benchmark_digits

from .protocol import AS_PUBLISHED, DISTORTIONS, INSTANCES, NATURAL, SIZES, SMALL, VARIANTS, Floats, Instance

DRAWS = 150
# The ε of the authors' evaluation.
DEFICIENCIES = (0.01, 0.05, 0.1, 0.3, 0.5)

Ints = NDArray[np.integer]


class Seeding(NamedTuple):
    """Clusters of the points around s of them, chosen by k-means++.

    Attributes
    ----------
    labels : (n,) int array
    differing : (n,) int array
        Number of digits in which a point differs from the seed of its cluster; half the squared distance.
    means : (s, α, k) ndarray of float64
        Share of the points of each cluster that have each digit in each block.
    """

    labels: Ints
    differing: Ints
    means: Floats


class Coreset(NamedTuple):
    """Weighted points, and the weighted means of clusters that Sensitivity Sampling adds.

    Attributes
    ----------
    digits : (α, T) int array
    weights : (T,) ndarray of float64
    means : (s, α, k) ndarray of float64
        As in `Seeding`.
    mean_weights : (s,) ndarray of float64
    """

    digits: Ints
    weights: Floats
    means: Floats
    mean_weights: Floats


class Worst(NamedTuple):
    """The largest distortion, and the cost of all points, and of the coreset, for its centres."""

    distortion: float
    real_cost: float
    coreset_cost: float


def draw_points(masses: Floats, differing: Ints, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return indices of points drawn independently in proportion to their masses, by rejection.

    Parameters
    ----------
    masses : (α + 1,) ndarray of float64
        Mass of a point by the number of its differing digits.
    """
    kept: list[NDArray[np.int64]] = []
    while (count := sum(map(len, kept))) < size:
        proposed = rng.integers(len(differing), size=2 * (size - count))
        kept.append(proposed[rng.random(len(proposed)) * masses.max() < masses[differing[proposed]]])
    return np.concatenate(kept)[:size]


def seeding(digits: Ints, k: int, seeds: int, rng: np.random.Generator) -> Seeding:
    """Return the clusters of k-means++, one candidate per seed; a tie goes to the first seed.

    Parameters
    ----------
    digits : (α, n) array of int8
        Of each point in base k.
    seeds : int
        Number of seeds, at most 127.
    """
    alpha, n = digits.shape
    labels, differing = np.zeros(n, np.int8), np.full(n, alpha, np.int8)
    squares = np.arange(alpha + 1.0)
    for c in range(seeds):
        (seed,) = draw_points(squares, differing, 1, rng)
        away = np.zeros(n, np.int8)
        for block in digits:
            away += block != block[seed]
        np.copyto(labels, c, where=away < differing, casting="unsafe")
        np.minimum(differing, away, out=differing)
    counts = np.stack([np.bincount(labels.astype(np.int16) * k + block, minlength=seeds * k) for block in digits])
    sizes = np.bincount(labels, minlength=seeds)
    means = counts.reshape(alpha, seeds, k).transpose(1, 0, 2) / sizes[:, None, None]
    return Seeding(labels, differing, means)


def sensitivity_coreset(digits: Ints, clusters: Seeding, size: int, power: float, rng: np.random.Generator) -> Coreset:
    """Return the authors' coreset by Sensitivity Sampling.

    Points are drawn in proportion to their cost d(p), a power of the squared distance to the seed of their cluster.
    Each draw has the weight Σd/(T d(p)). The mean of each cluster is added, with the weight that its draws lack of its
    size, if any.

    Parameters
    ----------
    size : int
        Number of draws, T.
    power : float
        1 for squared distances, ½ for distances.
    """
    costs = np.arange(len(digits) + 1.0) ** power
    drawn = draw_points(costs, clusters.differing, size, rng)
    total = np.bincount(clusters.differing, minlength=len(costs)) @ costs
    weights = total / (size * costs[clusters.differing[drawn]])
    seeds = len(clusters.means)
    sizes = np.bincount(clusters.labels, minlength=seeds)
    missing = np.maximum(sizes - np.bincount(clusters.labels[drawn], weights, minlength=seeds), 0.0)
    return Coreset(digits[:, drawn], weights, clusters.means, missing)


def worst_distortion(instance: Instance, coreset: Coreset) -> Worst:
    """Return the largest distortion over the centres that the authors try."""
    return max(_distortions(instance, coreset))


def _distortions(instance: Instance, coreset: Coreset) -> Iterator[Worst]:
    k, alpha = instance
    # The means belong to the clusters of the point nearest to them, whose digits are the most frequent ones.
    snapped = coreset.means.argmax(axis=2)
    for a in range(alpha):
        inside = np.bincount(coreset.digits[a], coreset.weights, minlength=k)
        inside += np.bincount(snapped[:, a], coreset.mean_weights, minlength=k)
        to_centres = _squares_to_centres(coreset.means, a)
        for deficiency in DEFICIENCIES:
            kept = inside >= (1 - deficiency) * instance.n / k
            if not kept.any():
                continue
            # A point is at the squared distance (α − 1)(k − 1)/k from its centre, or 2 more if its cluster is not kept.
            real = instance.natural_cost + 2 * instance.n / k * int((~kept).sum())
            outside = coreset.weights[~kept[coreset.digits[a]]].sum()
            cost = coreset.weights.sum() * instance.natural_cost / instance.n + 2 * outside
            cost += coreset.mean_weights @ to_centres[:, kept].min(axis=1)
            yield Worst(max(real / cost, cost / real), real, float(cost))


def _squares_to_centres(means: Floats, a: int) -> Floats:
    """Return the squared distance of each mean to the mean of each cluster of block a, (s, k).

    The mean of a cluster is its unit vector in block a, and 1/k elsewhere.
    """
    k = means.shape[2]
    others = ((np.delete(means, a, axis=1) - 1 / k) ** 2).sum(axis=(1, 2))
    inside = (means[:, a] ** 2).sum(axis=1)
    squares: Floats = (others + inside + 1)[:, None] - 2 * means[:, a]
    return squares


@fact(DISTORTIONS, [], studies=[NATURAL], slow=True)
def distortions(datasets: Sequence[Dataset], results: Results) -> pd.DataFrame:
    """Return distortion and cost of all points for its centres, over 150 coresets by Sensitivity Sampling of each size.

    Columns ``dataset construction points repeat distortion real_cost``. The sizes of a repetition share their seeds.
    """
    del datasets  # the instances follow from k and α
    seed = int(results.rows(NATURAL, mixed=True)["seed"].min())
    lines: list[tuple[object, ...]] = []
    for name, instance in INSTANCES.items():
        digits = np.ascontiguousarray(benchmark_digits(*instance).T.astype(np.int8))
        for construction, (seeds, power) in VARIANTS.items():
            if construction != AS_PUBLISHED and name not in SMALL:
                continue
            for repeat in range(DRAWS):
                rng = generator(seed, name, f"{seeds}k seeds", repeat, "prepare")
                clusters = seeding(digits, instance.k, seeds * instance.k, rng)
                for size in SIZES:
                    points = size * instance.k
                    rng = generator(seed, name, construction, points, repeat, "reduce")
                    worst = worst_distortion(instance, sensitivity_coreset(digits, clusters, points, power, rng))
                    lines.append((name, construction, points, repeat, worst.distortion, worst.real_cost))
    return pd.DataFrame(lines, columns=["dataset", "construction", "points", "repeat", "distortion", "real_cost"])


FACTS = (distortions,)
