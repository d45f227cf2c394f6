"""ess22's cost curves and distortions of the Benchmark instances, and k-means on a coreset.

The paper's text was not available, so its tables and figures have the names of the authors' published files.
"""

import math

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy.stats import t as student

from kmdr.analysis.results import NotRunError, Results
from kmdr.analysis.rows import Interval, mean_interval
from kmdr.analysis.significance import LEVEL
from kmdr.claims.catalogue import figure, table
from kmdr.figures.canvas import Drawing, canvas, finish
from kmdr.figures.panels import dataset_label
from kmdr.figures.style import KNOWN, print_style
from kmdr.figures.tables import Table

from .protocol import (
    AS_PUBLISHED,
    CONSTRUCTIONS,
    CORESETS,
    CORESETS_ID,
    CORESETS_ON,
    CURVES,
    CURVES_ID,
    DISTORTIONS,
    DISTORTIONS_ID,
    INSTANCES,
    NATURAL,
    OTHERS,
    RERUN,
    RUNS,
    SIZES,
    Floats,
    published_curve,
    published_runs,
    relative_costs,
)  # fmt: skip

_LABEL = "k-means, mean of single starts"


def _curve(rows: pd.DataFrame, dataset: str) -> pd.DataFrame:
    """Return mean costs with 95 % intervals, relative to the natural cost, one row per number of clusters."""
    lines = []
    for clusters, values in rows.groupby("k")["cost"]:
        interval = (
            mean_interval(values.to_numpy()) if len(values) > 1 else Interval(values.iloc[0], *(math.nan,) * 2, 1)
        )
        lines.append((clusters, interval.centre, interval.low, interval.high, len(values)))
    table = pd.DataFrame(lines, columns=["clusters", "mean", "low", "high", "count"], dtype=float)
    return table.assign(dataset=dataset, quantity="cost relative to natural", label=_LABEL)


def _published(dataset: str) -> pd.DataFrame:
    costs = published_curve(dataset) / INSTANCES[dataset].natural_cost
    line = {"dataset": dataset, "quantity": "cost relative to natural", "label": "reported: best of 10 starts"}
    return costs.rename("mean").rename_axis("clusters").reset_index().assign(**line)


def _draw_panel(ax: Axes, dataset: str, ours: pd.DataFrame, theirs: pd.DataFrame) -> pd.DataFrame:
    """Draw one instance; return the lower bound that was drawn."""
    instance = INSTANCES[dataset]
    clusters = np.arange(10, 201)
    bound = instance.least_cost(clusters) / instance.natural_cost
    ax.plot(clusters, bound, color="#999999", linestyle=":", label="no partition costs less")
    ax.plot(theirs["clusters"], theirs["mean"], "o-", color=KNOWN["random_sign"].color, markerfacecolor="none",
            label=theirs["label"].iloc[0])  # fmt: skip
    if len(ours):
        half = np.nan_to_num(np.stack([ours["mean"] - ours["low"], ours["high"] - ours["mean"]]))
        ax.errorbar(ours["clusters"], ours["mean"], half, fmt="s", color=KNOWN["leverage"].color, capsize=2,
                    label=_LABEL)  # fmt: skip
    ax.plot([instance.k], [1], "*", color="black", markersize=7, label="natural partition")
    ax.set_xscale("log")
    ax.set_xticks([10, 20, 50, 100, 200], ["10", "20", "50", "100", "200"])
    ax.minorticks_off()
    least, most = theirs["mean"].min(), theirs["mean"].max()
    ax.set_ylim(least - 0.05, max(most, ours["high"].max(), ours["mean"].max(), 1) + 0.05)
    ax.set_title(f"{dataset_label(dataset)}, α = {instance.alpha}", loc="left")
    ax.set_xlabel("clusters")
    kept = np.isin(clusters, theirs["clusters"])
    line = {"dataset": dataset, "quantity": "cost relative to natural", "label": "no partition costs less"}
    return pd.DataFrame({"clusters": clusters[kept], "mean": bound[kept]}).assign(**line)


@figure(CURVES_ID, "Cost of k-means against the number of clusters on the Benchmark instances", studies=CURVES)
def cost_curves(results: Results) -> Drawing:
    """One panel per instance: cost over that of a natural partition, against 10 to 200 clusters on a log axis.

    The authors' plot scales each curve to [0, 1]; here the published costs are shown over that of a natural partition.
    The bound follows from the singular values of the instance.
    """
    rows = relative_costs(results, CURVES)
    panels = []
    with print_style():
        fig, axes = canvas(len(INSTANCES), height=2.1)
        for ax, dataset in zip(axes, INSTANCES, strict=True):
            ours = _curve(rows[rows["dataset"] == dataset], dataset)
            theirs = _published(dataset)
            panels.append(pd.concat([ours, theirs, _draw_panel(ax, dataset, ours, theirs)], ignore_index=True))
        axes[0].set_ylabel("cost / natural cost")
        notes = [
            "Ours: mean of single starts, with its 95 % interval if there are several. Reported costs are the best of "
            "ten starts, each of which scikit-learn's tolerance may end early.",
            "α partitions into k clusters are natural. The bound, of the singular values, shows that they are optimal.",
        ]
        return Drawing(finish(fig, notes, legend_columns=4), panels)


def mean_of_ten(values: Floats) -> Interval:
    """Return the mean of some runs, and the 95 % prediction interval of the mean of `RUNS` further ones."""
    n = len(values)
    half = student.isf(LEVEL / 2, n - 1) * values.std(ddof=1) * math.sqrt(1 / n + 1 / RUNS) if n > 1 else math.nan
    return Interval(float(values.mean()), float(values.mean() - half), float(values.mean() + half), n)


@table(DISTORTIONS_ID, "Mean distortion of coresets of the Benchmark instances", studies=[NATURAL], facts=[DISTORTIONS])
def distortion_table(results: Results) -> Table:
    """One row per instance and size: Sensitivity Sampling, reported and ours, and the reported other constructions.

    The cost is that of all points for the centres of largest distortion, over the cost of a natural partition; it is 1
    if all clusters of a block are among these centres.
    """
    drawn = results.fact(DISTORTIONS)
    drawn = drawn[drawn["construction"] == AS_PUBLISHED]
    lines = []
    for dataset, instance in INSTANCES.items():
        theirs, costs = published_runs(dataset), published_runs(dataset, quantity="real_cost")
        for points in (size * instance.k for size in SIZES):
            runs = drawn[(drawn["dataset"] == dataset) & (drawn["points"] == points)]
            if runs.empty:
                raise NotRunError(f"fact {DISTORTIONS} has no coresets of {points} points of {dataset}")
            ours = mean_of_ten(runs["distortion"].to_numpy())
            reported = _reported_mean(dataset, RERUN, points)
            lines.append(
                {
                    "dataset": dataset_label(dataset),
                    "points": points,
                    "reported": reported,
                    "ours": ours.centre,
                    "low": ours.low,
                    "high": ours.high,
                    "difference": ours.centre - reported,
                    "deviation, reported": float(theirs["deviation"][points]),
                    "deviation, ours": runs["distortion"].std(),
                    "cost, reported": float(costs["mean"][points]) / instance.natural_cost,
                    "cost, ours": runs["real_cost"].mean() / instance.natural_cost,
                    **{CONSTRUCTIONS[name]: _reported_mean(dataset, name, points) for name in OTHERS},
                }
            )
    formats = {
        "points": "d", **dict.fromkeys(("reported", "ours", "low", "high"), ".4f"), "difference": "+.4f",
        **dict.fromkeys(("deviation, reported", "deviation, ours"), ".4f"),
        **dict.fromkeys(("cost, reported", "cost, ours"), ".3f"),
        **{CONSTRUCTIONS[name]: ".3f" for name in OTHERS},
    }  # fmt: skip
    note = (
        f"Reported: means of {RUNS} runs. Ours: mean of {int(drawn['repeat'].nunique())} runs of the published code's "
        "construction; low to high: 95 % prediction interval of a mean of ten. Points: draws, without the 2k means. "
        "Cost: of all points for the centres with the largest distortion, over that of a natural partition. The last "
        "four columns are reported distortions of constructions that were not run here; StreamKM++ was not run at 500k."
    )
    return Table(pd.DataFrame(lines), formats, note)


def _reported_mean(dataset: str, name: str, points: int) -> float:
    return float(published_runs(dataset, name)["mean"].get(points, math.nan))


@table(CORESETS_ID, "k-means on a coreset instead of all points, Benchmark k10", studies=(NATURAL, *CORESETS))
def coreset_table(results: Results) -> Table:
    """One row per size: the cost of the clustering of all points, over that of a natural partition.

    The coresets are by kmdr's engine (Bachem, Lucic and Krause 2017), not by the paper's construction. The published
    real costs are of prescribed centres, not of a clustering, so they are not comparable. The last row is k-means on
    all points.
    """
    lines = [
        _coreset_line(f"{size * INSTANCES[CORESETS_ON].k} points", results, study)
        for size, study in zip(SIZES, CORESETS, strict=True)
        if study in results.studies
    ]
    if not lines:
        raise NotRunError(f"{', '.join(CORESETS)} were not run; they run on request")
    lines.append(_coreset_line("all points", results, NATURAL))
    formats = {"runs": "d", **dict.fromkeys(("cost / natural", "low", "high", "lowest", "highest"), ".4f")}
    best = published_curve(CORESETS_ON)[INSTANCES[CORESETS_ON].k] / INSTANCES[CORESETS_ON].natural_cost
    note = (
        "Single starts, and the 95 % interval of their mean. The published best of ten starts on all points is "
        f"{best:.4f}."
    )
    return Table(pd.DataFrame(lines), formats, note)


def _coreset_line(name: str, results: Results, study: str) -> dict[str, object]:
    values = relative_costs(results, [study])
    costs = values.loc[values["dataset"] == CORESETS_ON, "cost"].to_numpy()
    if not len(costs):
        raise NotRunError(f"{study} was not run on {CORESETS_ON}")
    mean = mean_interval(costs)
    return {
        "clustered": name, "runs": len(costs), "cost / natural": mean.centre, "low": mean.low, "high": mean.high,
        "lowest": costs.min(), "highest": costs.max(),
    }  # fmt: skip


ITEMS = (distortion_table, coreset_table, cost_curves)
