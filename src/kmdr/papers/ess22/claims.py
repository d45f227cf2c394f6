"""The claims of ess22 on its Benchmark instances, each with its test, and its answers to open points."""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd
from scipy.stats import t as student

from kmdr.analysis.results import NotRunError, Results
from kmdr.analysis.significance import LEVEL
from kmdr.analysis.statistics import Component, Margin, above, below, with_margin
from kmdr.base.text import counted
from kmdr.claims.catalogue import Answer, Finding, claim
from kmdr.claims.effects import estimate, extremes, slopes_on_log_r
from kmdr.figures.panels import dataset_label

from .protocol import (
    AS_PUBLISHED,
    CONSTRUCTIONS,
    DISTORTIONS,
    INSTANCES,
    NATURAL,
    NATURAL_LARGE,
    OTHERS,
    RUNS,
    SMALL,
    Floats,
    published_curve,
    published_runs,
    relative_costs,
)

CLOSE = Margin(
    0.002,
    "largest difference of mean distortions counted as small",
    {"largest published standard error": 0.0017},
    least=0.0002,
)


def _distortions(results: Results, dataset: str, construction: str = AS_PUBLISHED) -> pd.DataFrame:
    """Return the distortions on one instance, one row per repetition and one column per size."""
    drawn = results.fact(DISTORTIONS)
    kept = drawn[(drawn["dataset"] == dataset) & (drawn["construction"] == construction)]
    if kept.empty:
        raise NotRunError(f"fact {DISTORTIONS} has no coresets of {dataset} by the {construction}")
    return kept.pivot_table("distortion", "repeat", "points")


def _against(
    label: str, ours: Floats, theirs: pd.DataFrame, margin: float | Margin | None = None, *, unit: str = "distortion"
) -> Component:
    """Compare a mean of ours with the mean over the sizes of published means, by Welch's t test.

    Parameters
    ----------
    ours : (n,) ndarray of float64
        One value per repetition.
    theirs : DataFrame
        Columns ``mean deviation``, one row per size, each from `RUNS` independent runs.
    margin : float or Margin, optional
        Test that the difference is within ± the margin; by default, that it is below 0.
    """
    variances = np.array([ours.var(ddof=1) / len(ours), *(theirs["deviation"] ** 2 / RUNS / len(theirs) ** 2)])
    freedom = np.array([len(ours) - 1, *([RUNS - 1] * len(theirs))])
    error = math.sqrt(variances.sum())
    df = variances.sum() ** 2 / (variances**2 / freedom).sum()  # Satterthwaite
    difference = float(ours.mean() - theirs["mean"].mean())
    half = float(student.isf(LEVEL / 2, df)) * error
    bound = 0.0 if margin is None else float(margin)
    p_too_high, p_not_too_high = (float(tail((difference - bound) / error, df)) for tail in (student.sf, student.cdf))
    if margin is None:
        p_for, p_against, bounds = p_not_too_high, p_too_high, (-math.inf, 0.0)
    else:
        p_too_low, p_not_too_low = (float(tail((difference + bound) / error, df)) for tail in (student.cdf, student.sf))
        p_for, p_against = max(p_not_too_high, p_not_too_low), min(1.0, 2 * min(p_too_high, p_too_low))
        bounds = (-bound, bound)
    component = Component(
        label, difference, difference - half, difference + half, p_for, p_against, len(ours), unit, bounds=bounds
    )
    if margin is None:
        return component
    return with_margin(component, margin, partial(_against, label, ours, theirs, unit=unit))


@claim(
    "ess22-1",
    "On the Benchmark, the mean distortion of Sensitivity Sampling with 50k, 100k, 200k and 500k points is 1.018, "
    "1.012, 1.009 and 1.005 for k = 10; 1.017, 1.014, 1.009 and 1.006 for k = 20; 1.024, 1.018, 1.012 and 1.007 for "
    "k = 30; and 1.025, 1.016, 1.011 and 1.008 for k = 40.",
    "published rows (results-raw.csv)", facts=[DISTORTIONS],
    central="exhaustive evaluation of the most commonly used coreset algorithms",
)  # fmt: skip
def claim1(results: Results) -> Finding:
    """Our mean distortion over the four sizes is within ±0.002 of the published one on each of the four instances.

    Unit: a repetition, which draws coresets of the four sizes from one set of seeds, as the published code does; its
    distortions are averaged over the sizes. Published are mean and standard deviation of ten runs of each size. Two
    one-sided Welch tests within the margin (ours), which take the errors of both means into account; one statement per
    instance, all must hold. The paper's real datasets are not available, so that only the Benchmark is judged.
    """
    components, single_sizes = list[Component](), dict[str, float]()
    for dataset in INSTANCES:
        ours = _distortions(results, dataset)
        theirs = published_runs(dataset).loc[list(ours.columns)]
        differences = ours.mean() - theirs["mean"]
        single_sizes |= {f"{dataset_label(dataset)}, {T} points": gap for T, gap in differences.items()}
        label = f"mean distortion, ours − reported, within ±{CLOSE:g}, {dataset_label(dataset)}"
        means = ours.mean(axis=1).to_numpy()
        single = _against(label, means, theirs, CLOSE)
        components.append(single._replace(reported=float(theirs["mean"].mean())))
    texts = [
        f"{c.reported + c.effect:.4f} against {c.reported:.4f} reported, a difference of {estimate(c, '+.4f')}, on "
        f"{dataset_label(name)}"
        for name, c in zip(INSTANCES, components, strict=True)
    ]
    return Finding(
        components,
        f"Averaged over the sizes, the mean distortion is {'; '.join(texts)}. At single sizes, "
        f"which are not tested, the differences are {extremes(single_sizes, '+.4f')}.",
    )


@claim(
    "ess22-2",
    "The distortion of Sensitivity Sampling on the Benchmark falls as the coreset grows.",
    "published rows (results-raw.csv)",
    facts=[DISTORTIONS],
    central="allows us an easy (heuristic) evaluation of coresets",
)
def claim2(results: Results) -> Finding:
    """Every instance has a slope of log(distortion − 1) on log T below 0.

    Unit: a repetition with its four sizes T; one-sided t test of the slopes. The same slope of the published means is
    reported; −½ is the rate of independent draws. One statement per instance, all must hold.
    """
    components, texts = [], []
    for dataset in INSTANCES:
        slopes = slopes_on_log_r((_distortions(results, dataset) - 1).apply(np.log))
        theirs = (published_runs(dataset)[["mean"]].T - 1).apply(np.log)
        label = f"slope of log(distortion − 1) on log T < 0, {dataset_label(dataset)}"
        components.append(below(label, slopes, 0.0, "power of T"))
        reported = float(slopes_on_log_r(theirs)[0])
        texts.append(
            f"{estimate(components[-1], '+.2f')} on {dataset_label(dataset)} (published means: {reported:+.2f})"
        )
    return Finding(components, f"The excess of the distortion over 1 grows with T to the power {'; '.join(texts)}.")


@claim(
    "ess22-3",
    "On the Benchmark, Sensitivity Sampling has a smaller mean distortion than Group Sampling, BICO, Ray Maker and "
    "StreamKM++.",
    "published rows (results-raw.csv)",
    facts=[DISTORTIONS],
    central="exhaustive evaluation of the most commonly used coreset algorithms",
)
def claim3(results: Results) -> Finding:
    """Our mean distortion is below the published one of each other construction on each instance, averaged over sizes.

    The other constructions are not run here: the statement is whether an independent Sensitivity Sampling keeps the
    published order. Unit: a repetition, averaged over the sizes at which the other was run. One-sided Welch tests
    without a margin, from mean and standard deviation of the ten published runs; 16 statements, all must hold.
    """
    components = []
    for dataset in INSTANCES:
        ours = _distortions(results, dataset)
        for other in OTHERS:
            theirs = published_runs(dataset, other)
            means = ours[list(theirs.index)].mean(axis=1).to_numpy()
            label = f"mean distortion, ours − {CONSTRUCTIONS[other]} < 0, {dataset_label(dataset)}"
            components.append(_against(label, means, theirs))
    nearest = max(components, key=lambda component: component.p_for)
    groups = {
        CONSTRUCTIONS[other]: [c.effect for c in components if f"− {CONSTRUCTIONS[other]} <" in c.label]
        for other in OTHERS
    }
    texts = [f"{min(effects):+.4f} to {max(effects):+.4f} for {name}" for name, effects in groups.items()]
    return Finding(
        components,
        f"Ours minus the published mean is {', '.join(texts)}; the least certain difference is "
        f"{estimate(nearest, '+.4f')} ({nearest.label}).",
    )


HARD = ("benchmark_k20", "benchmark_k30", "benchmark_k40")


@claim(
    "ess22-4",
    "On average, a single start of k-means costs more than a natural partition of the Benchmark instances with k = 20, "
    "30 and 40; the published best of ten starts costs 1.2, 1.1 and 2.3 % more.",
    "published rows (cluster_curves.txt)",
    studies=[NATURAL, NATURAL_LARGE],
    central="a benchmark for which we argue that computing coresets is challenging",
    scope=HARD,
)
def claim4(results: Results) -> Finding:
    """On average, a start of k-means with the instance's k costs more than a natural partition, which is optimal.

    Unit: a start; t test that cost over natural cost − 1 is above 0, without a margin; one statement per instance that
    was run. A start is greedy k-means++ and Lloyd's algorithm, as in the published script, which keeps the best of ten;
    the lowest of ours is reported next to it. The instance with k = 10, whose natural partition the published best of
    ten reaches, is reported but does not decide.
    """
    rows = relative_costs(results, [NATURAL, NATURAL_LARGE])
    components, texts = [], []
    for dataset in HARD:
        costs = rows.loc[rows["dataset"] == dataset, "cost"].to_numpy()
        if not len(costs):
            continue
        components.append(
            above(f"cost / natural cost − 1 > 0, {dataset_label(dataset)}", costs - 1, 0.0, "relative cost")
        )
        texts.append(f"{_above_natural(components[-1], costs, dataset)}")
    if not components:
        raise NotRunError(f"{NATURAL} was not run on {', '.join(HARD)}")
    easy = rows.loc[rows["dataset"] == "benchmark_k10", "cost"].to_numpy()
    at_ten = (
        f"; with k = 10, {int(np.isclose(easy, 1).sum())} of {counted(len(easy), 'start')} reach it"
        if len(easy)
        else ""
    )
    return Finding(components, f"The cost of a start is above the natural one by {'; '.join(texts)}{at_ten}.")


def _above_natural(component: Component, costs: Floats, dataset: str) -> str:
    instance = INSTANCES[dataset]
    theirs = float(published_curve(dataset)[instance.k]) / instance.natural_cost - 1
    return (
        f"{estimate(component, '.1%')} on {dataset_label(dataset)} (lowest of {len(costs)}: {costs.min() - 1:.1%}; "
        f"published best of ten: {theirs:.1%})"
    )


# -- open points


def _compared(results: Results, constructions: Sequence[str], what: str) -> str:
    """Return mean and deviation of the distortion by some constructions on the small instances, averaged over sizes."""
    texts = []
    for dataset in SMALL:
        theirs = published_runs(dataset)
        parts = []
        for construction in constructions:
            ours = _distortions(results, dataset, construction)
            parts.append(f"{construction} {ours.mean().mean():.4f} ({ours.std().mean():.4f})")
        parts.append(f"reported {theirs['mean'].mean():.4f} ({theirs['deviation'].mean():.4f})")
        texts.append(f"on {dataset_label(dataset)}: {', '.join(parts)}")
    return f"{what}: mean distortion over the sizes, and its deviation between runs, {'; '.join(texts)}."


def _answer(construction: str, what: str) -> Answer:
    return lambda results: _compared(results, (AS_PUBLISHED, construction), what)


CLAIMS = (claim1, claim2, claim3, claim4)
ANSWERS = {
    "coreset_seeds": _answer("k seeds", "With k instead of 2k seeds"),
    "coreset_cost": _answer("squared distances", "With squared distances instead of distances"),
}
