"""Names that ess22's items, claims and fact share: the instances, sizes of coresets, studies, and published numbers."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from kmdr.analysis.results import Results
from kmdr.claims.reported import reported

Floats = NDArray[np.float64]


class Instance(NamedTuple):
    """A Benchmark instance: α partitions of k^α points into k clusters, all of the same cost."""

    k: int
    alpha: int

    @property
    def n(self) -> int:
        """Return the number of points."""
        return int(self.k**self.alpha)

    @property
    def natural_cost(self) -> float:
        """Return the sum of squares of each of the α partitions: n (α − 1)(k − 1)/k."""
        return self.n * (self.alpha - 1) * (self.k - 1) / self.k

    @property
    def total(self) -> int:
        """Return ‖A‖²_F, which F is relative to: the sum of squares of k-means is F·total."""
        return self.n * self.alpha

    def least_cost(self, clusters: ArrayLike) -> Floats:
        """Return a lower bound of the sum of squares of any partition into so many clusters.

        The centred points have α(k − 1) singular values with the square k^(α − 1), and a partition into c clusters
        leaves at least all but c − 1 of these.
        """
        left = self.alpha * (self.k - 1) - (np.asarray(clusters, dtype=np.float64) - 1)
        return np.asarray(np.maximum(left, 0) * self.k ** (self.alpha - 1))


INSTANCES: Mapping[str, Instance] = {
    "benchmark_k10": Instance(10, 6),
    "benchmark_k20": Instance(20, 5),
    "benchmark_k30": Instance(30, 4),
    "benchmark_k40": Instance(40, 4),
}
# The points drawn for a coreset, in multiples of the instance's k.
SIZES = (50, 100, 200, 500)
RUNS = 10
"""Runs behind each published mean."""

# The published names of the constructions, by the method in ``reported.csv``.
CONSTRUCTIONS: Mapping[str, str] = {
    "sensitivity_sampling": "Sensitivity Sampling", "group_sampling": "Group Sampling", "bico": "BICO",
    "ray_maker": "Ray Maker", "stream_km": "StreamKM++",
}  # fmt: skip
RERUN, *OTHERS = CONSTRUCTIONS
# Seeds per cluster, and the power of the squared distance to them with which points are drawn.
AS_PUBLISHED = "published code"
VARIANTS: Mapping[str, tuple[int, float]] = {
    AS_PUBLISHED: (2, 0.5), "squared distances": (2, 1.0), "k seeds": (1, 0.5),
}  # fmt: skip
# The instances on which all variants are run.
SMALL = ("benchmark_k10", "benchmark_k30")
DISTORTIONS = "ess22_distortions"
# k-means on all points: with the instances' own k, and with other numbers of clusters.
NATURAL, NATURAL_LARGE = "ess22_natural", "ess22_natural_large"
CURVES = (
    NATURAL, NATURAL_LARGE, "ess22_k20", "ess22_k30", "ess22_k40", "ess22_k50", "ess22_k50_large", "ess22_k70",
    "ess22_k100", "ess22_k200",
)  # fmt: skip
CORESETS = tuple(f"ess22_coreset_{size}" for size in SIZES)
CORESETS_ON = "benchmark_k10"
CURVES_ID, DISTORTIONS_ID, CORESETS_ID = "ess22_figcurves", "ess22_tabledistortions", "ess22_tablecoresets"


def published_curve(dataset: str) -> "pd.Series[float]":
    """Return the published costs of k-means on an instance, by the number of clusters."""
    table = reported("ess22")
    of_curve = table[(table["id"] == CURVES_ID) & (table["dataset"] == dataset)]
    return of_curve.set_index(of_curve["r"].astype(int))["value"]


def published_runs(dataset: str, method: str = RERUN, quantity: str = "distortion") -> pd.DataFrame:
    """Return the published mean and standard deviation of a quantity over `RUNS` runs of a construction.

    Returns
    -------
    DataFrame
        Index ``points``, the sizes at which it was run; columns ``mean deviation``.
    """
    table = reported("ess22")
    of_method = table[(table["id"] == DISTORTIONS_ID) & (table["dataset"] == dataset) & (table["method"] == method)]
    by_size = of_method.assign(points=of_method["r"].astype(int)).pivot_table("value", "points", "quantity")
    return pd.DataFrame({"mean": by_size[quantity], "deviation": by_size[f"{quantity}_deviation"]})


def relative_costs(results: Results, studies: Sequence[str]) -> pd.DataFrame:
    """Return the cost of each trial of some studies, over that of a natural partition.

    Returns
    -------
    DataFrame
        Columns ``dataset k seed repeat cost``, where k is the number of clusters.
    """
    rows = results.rows([*studies], datasets=list(INSTANCES), reducers=["none"], mixed=True)
    scale = {name: instance.total / instance.natural_cost for name, instance in INSTANCES.items()}
    cost = rows["objective"] * rows["dataset"].map(scale).astype(float)
    return rows[["dataset", "k", "seed", "repeat"]].assign(k=rows["k"].astype(int), cost=cost)
