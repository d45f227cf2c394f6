"""The claims of lf20, each with its test, and its answers to open points that no study flips."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from kmdr.analysis.results import NotRunError, Results
from kmdr.analysis.rows import REPETITION
from kmdr.analysis.significance import LEVEL
from kmdr.analysis.statistics import (
    Component,
    Floats,
    Margin,
    above,
    below,
    best_in_blocks,
    best_of,
    equal,
    median_above,
    median_below,
    not_inferior,
    ratio_above,
    with_margin,
)
from kmdr.claims.best_of import SYMBOLS, runs
from kmdr.claims.catalogue import Finding, claim
from kmdr.claims.draws import Draw, explain_dashes, judge_best, judge_run, judge_share, judge_together
from kmdr.claims.effects import (
    as_time,
    estimate,
    mean_over_r,
    outcome,
    paired,
    part_of,
    share_left,
    test_at_each_r,
    together,
)
from kmdr.claims.reported import numbers
from kmdr.figures.panels import dataset_label

from .cells import Cell, compare_cell
from .protocol import (
    AS_SCORED,
    BEST_OF,
    ENOUGH,
    GOOD,
    MATRICES,
    NAMES,
    NEAR,
    NIPS,
    NIPS_RUNS,
    ONE_RUN,
    ORL,
    ORL_64,
    ORL_64_TIMES,
    ORL_TIMES,
    TABLE2,
    TABLE2_NIPS_R,
    WORDS_R,
    near_in_words,
    table2_runs,
)  # fmt: skip

P_MARGIN = Margin(0.02, "largest difference of P counted as small", {"one of the 400 images": 0.0025})
HARDLY = Margin(0.1, "largest share of a curve's whole change counted as hardly a change", least=0.01, most=0.9)
FAST = Margin(1.25, "largest ratio of times counted as similar", least=1.01, most=12)
SAME_IN_TABLE2 = Margin(0.03, "largest difference of P counted as almost none", {"A − AV_k in Table 2, ORL": 0.01})
SPREAD = Margin(
    1000.0, "smallest ratio of variances counted as far more", {"Table 1's own": 3.4e-3 / 2.43e-9}, most=2e6
)
MAIN = Margin(0.5, "smallest share of the time counted as its main part", least=0.01, most=0.99)
GREATER = Margin(0.5, "largest share of the bad runs that may stay bad without rescaling", least=0.05, most=0.99)
UNSCALED = "flip_rescaled_lf20"
OTHER_CODE = "flip_speed_lf20"


def _span(sizes: Sequence[int]) -> str:
    return f"{sizes[0]}–{sizes[-1]}" if len(sizes) > 1 else str(sizes[0])


@claim(
    "lf20-1", "At t = 130 F and P are almost at their best; beyond it they hardly change.", "§2.4", studies=[ORL],
    central="再继续增加t结果变化程度比较小",
)  # fmt: skip
def claim1(results: Results) -> Finding:
    """F and P change by at most 10 % of their whole change beyond t = 130, for random signs on ORL.

    Unit: a repetition. The mean over t = 115 to 130 is compared with the means over all t above 130 and over the four
    largest t (285 to 300) of the same repetition: four changes, each divided by the change of the same curve from the
    least t; two one-sided t tests within the margin (ours).
    """
    components, words = [], []
    for quantity, symbol in SYMBOLS.items():
        by_r = together(results.wide(ORL, quantity, datasets=["orl"], reducers=["random_sign"]), "random_sign")
        grid = by_r["random_sign"].unstack("r").dropna()
        sizes = [int(r) for r in grid.columns]
        at = min(sizes, key=lambda r: (abs(r - ENOUGH), r), default=0)
        before = [r for r in sizes if at - 15 <= r <= at]
        beyond = [r for r in sizes if r > at]
        if not beyond or grid.empty:
            raise NotRunError(f"{ORL} has no t beyond {ENOUGH}")
        for after in (beyond, beyond[-4:]):
            name = f"t = {_span(after)} against {_span(before)}"
            label = f"{symbol}, change as a share of its whole change, {name}, within ±{HARDLY:g}"
            components.append(equal(label, share_left(grid, before, after), HARDLY, "share of the change"))
            words.append(f"{symbol} goes {estimate(components[-1], '.1%')} of its whole change ({name})")
    return Finding(components, f"With random signs on ORL {'; '.join(words)}.")


@claim(
    "lf20-2", "The choice among the four projection matrices has little influence on P.", "§2.5.1, Figure 5",
    studies=[ORL_64], central="对于分类准确率影响不大",
)  # fmt: skip
def claim2(results: Results) -> Finding:
    """P of any two of the four matrices, averaged over t, differs by at most 0.02 on ORL 64×64.

    Unit: a repetition, in which all matrices start from the same centres; the difference of the means over the t of the
    grid. Two one-sided t tests per pair of matrices; all six pairs must be equal. Equality at each t is another
    reading.
    """
    table = results.wide(ORL_64, "accuracy", reducers=MATRICES)
    available = [name for name in MATRICES if name in table]
    if len(available) < 2:
        raise NotRunError(f"{ORL_64} has fewer than two of the matrices")
    means = mean_over_r(together(table, *available))
    components = [
        equal(f"P, {NAMES[a]} − {NAMES[b]}, within ±{P_MARGIN:g}", means[a] - means[b], P_MARGIN, "P")
        for a, b in combinations(available, 2)
    ]
    each_r = [
        test_at_each_r(f"P, {NAMES[a]} − {NAMES[b]}, within ±{P_MARGIN:g}", paired(table, a, b), _alike)
        for a, b in combinations(available, 2)
    ]
    widest = max(components, key=lambda c: abs(c.effect))
    levels = ", ".join(f"{NAMES[name]} {means[name].mean():.3f}" for name in available)
    return Finding(
        components,
        f"Averaged over t, P is {levels}; the largest difference, {widest.label.split(',')[1].strip()}, is "
        f"{estimate(widest, '+.3f')}.",
        {"another reading": each_r},
    )


def _alike(label: str, differences: ArrayLike) -> Component:
    return equal(label, differences, P_MARGIN, "P")


@claim(
    "lf20-3", "Approximate singular vectors keep P and bring the time down to that of random projection.",
    "§3.4.1, Figure 9", studies=[ORL, ORL_TIMES],
    central={"time": "它的执行时间与随机投影算法已经基本相同", "accuracy": "它的准确率却几乎没有下降"},
    side={"exact": "the sentence compares the time with that of random projections, not with exact vectors"},
)  # fmt: skip
def claim3(results: Results) -> Finding:
    """On ORL, leverage sampling by approximate vectors has the P of exact ones and the time of random signs.

    Unit: a repetition, averaged over r. P: the sentence says that it hardly falls, so the difference is above −0.02
    (one-sided t test). Time: the geometric mean over r of the ratio of serially measured total times is at most 1.25
    relative to random signs, and below 1 relative to exact vectors (sign tests of the median); the last is a side
    statement.
    """
    P = mean_over_r(together(results.wide(ORL, "accuracy", datasets=["orl"]), "leverage", "leverage_approx"))
    seconds = together(
        results.wide((ORL, ORL_TIMES), "total_seconds", datasets=["orl"]), "leverage", "leverage_approx", "random_sign"
    )
    logs = mean_over_r(seconds.apply(np.log))
    same = not_inferior(
        f"P, approximate − exact, above −{P_MARGIN:g}", P["leverage_approx"] - P["leverage"], P_MARGIN, "P"
    )
    to_signs, to_exact = (
        median_below(
            f"time, approximate ÷ {name}, below {limit:g}",
            np.exp(logs["leverage_approx"] - logs[other]),
            limit,
            "ratio of times",
        )
        for other, name, limit in (("random_sign", "random signs", FAST), ("leverage", "exact", 1.0))
    )
    return Finding(
        [
            *part_of("accuracy", [same]),
            *as_time([*part_of("time", [to_signs]), *part_of("exact", [to_exact])]),
        ],
        f"P changes by {estimate(same, '+.3f')}; the time is {estimate(to_signs, '.2f')} times the time of random "
        f"signs and {estimate(to_exact, '.2f')} times the time with exact vectors.",
    )


@claim(
    "lf20-4", "Leverage-score sampling is somewhat more accurate than random projection on ORL.", "§3.3.1, Figure 8",
    studies=[ORL, *AS_SCORED.values()],
    central="基于SVD的特征选择算法比基于随机投影的特征提取算法正确率稍高",
    paired="both methods start from the same centres; random signs have more repetitions, for F at t = 130",
)  # fmt: skip
def claim4(results: Results) -> Finding:
    """P of leverage sampling exceeds P of random signs on ORL, averaged over r, under the best matching.

    Unit: a repetition, in which both start from the same centres; one-sided t test of the difference of the means over
    r against 0. The report's code matched clusters to persons differently for each method; the effect of that is
    reported, from studies that score in the same way.
    """
    both = together(results.wide(ORL, "accuracy", datasets=["orl"]), "leverage", "random_sign")
    P = mean_over_r(both)
    each_r = test_at_each_r("P, leverage − random signs, above 0", paired(both, "leverage", "random_sign"), above)
    ahead = above("P, leverage − random signs, above 0", P["leverage"] - P["random_sign"], 0.0, "P")
    sentence = (
        f"Averaged over r, leverage has P {P['leverage'].mean():.3f} and random signs {P['random_sign'].mean():.3f}, a "
        f"difference of {estimate(ahead, '+.3f')}"
    )
    try:
        scored = {name: results.rows(study, reducers=[name])["accuracy"].mean() for name, study in AS_SCORED.items()}
        gap = scored["leverage"] - scored["random_sign"]
        sentence += (
            f"; scored as the report's code did it is {gap:+.3f}; within {NEAR} of the reported curves: "
            f"{near_in_words(results)}"
        )
    except NotRunError:
        pass  # not run with that scoring, or this is one of the flips that use it
    return Finding([ahead], f"{sentence}.", {"another reading": [each_r]})


@claim(
    "lf20-5", "With unsquared norms the runs of 100 that reach P ≥ 0.5 go up from about 30 to about 50.", "§3.4.2",
    studies=[NIPS_RUNS], central="聚类正确率达到 50% 以上的次数从约 30 次提高到约 50 次",
    paired="the gain is a difference of two methods on the same trials; each share uses all runs of its method",
)  # fmt: skip
def claim5(results: Results) -> Finding:
    """Test whether the shares are plausible for 100 runs on NIPS at r = 30, and unsquared norms have the greater one.

    Unit: a run. Numbers, by `kmdr.claims.draws.judge_share`: Fisher's exact test of their 100 runs and ours against,
    with "about" taken as ± 0.05; exact binomial tests for. Statement: a one-sided t test that the difference of the
    shares, paired by repetition, is above 0. The report does not state r; 30 is the r of its Figure 6, and the shares
    at the other r are reported. Each share is of all runs of its method.
    """
    table = results.wide(NIPS_RUNS, "accuracy", datasets=["nips"])
    pairs = together(table, "leverage", "leverage_sqrt") >= GOOD
    sizes = sorted({int(r) for r in pairs.index.get_level_values("r")})
    r = min(sizes, key=lambda size: abs(size - WORDS_R))
    at = pairs.xs(r, level="r")
    good = {
        (name, size): runs(results, NIPS_RUNS, "nips", name, size).drop_duplicates(REPETITION)["accuracy"] >= GOOD
        for name in ("leverage", "leverage_sqrt")
        for size in sizes
    }
    reported = {number.method: number for number in numbers("lf20-5")}
    components = [
        judge_share(
            f"share of P ≥ {GOOD}, {name}, reported − ours",
            reported[key],
            BEST_OF,
            int(good[key, r].sum()),
            len(good[key, r]),
        ).component
        for key, name in (("leverage", "squared"), ("leverage_sqrt", "unsquared"))
    ]
    gain = at["leverage_sqrt"].astype(float) - at["leverage"].astype(float)
    components.append(above("gain of the share, unsquared − squared, above 0", gain, 0.0, "share"))
    others = "; ".join(
        f"{good['leverage', n].mean():.0%} and {good['leverage_sqrt', n].mean():.0%} at r = {n}" for n in sizes
    )
    return Finding(
        components,
        f"The share of runs with P ≥ {GOOD}, squared and unsquared, is {others} ({len(good['leverage', r])} and "
        f"{len(good['leverage_sqrt', r])} runs at r = {r}), against about "
        f"{reported['leverage'].value:.0%} and {reported['leverage_sqrt'].value:.0%} reported; at r = {r} the gain is "
        f"{estimate(components[2], '+.2f')}.",
    )


def _compare_cells(results: Results, dataset: str) -> list[Cell]:
    """Return the comparisons of the cells of Table 2 on one dataset whose method was run."""
    compared = []
    for number in numbers("lf20_table2", dataset=dataset):
        with suppress(NotRunError):
            compared.append(compare_cell(results, number))
    return compared


@claim(
    "lf20-6", "P of AV_k is almost P of A, and P of ASD and of AR is behind both.", "§3.4.3, Table 2",
    studies=[ORL, NIPS, AS_SCORED["random_sign"]], facts=["lf20_vectors"],
    central={
        "equal": "利用 PCA 方法实际上可以得到和不降维几乎相同的聚类效果",
        "behind": "特征选择和特征提取算法尽管与前两者相比有差距",
    },
    side={
        "order": "the sentence puts ASD and AR behind the others, but only the cells of Table 2 order ASD before AR",
        "cells": "the sentence gives the order of the methods, not the values of Table 2",
    },
    paired="the order is of differences between methods, on repetitions that all four have",
)  # fmt: skip
def claim6(results: Results) -> Finding:
    """On ORL and on NIPS, P of AV_k is within ±0.03 of P of A, and P of ASD and of AR is below both.

    ORL: the unit is a repetition, averaged over r ≥ 130. NIPS at r = 60: the unit is a block of 100 successive
    repetitions, of which ASD and AR keep their run of smallest F; A and AV_k draw no features or directions that could
    be repeated (§3.4.3 calls AV_k deterministic), so theirs is one run, and the mean of the block estimates it.
    Equality by two one-sided t tests, order by one-sided t tests against 0; five components per dataset. Other readings
    are that A and AV_k are the best of 100 too, that AR is one run, and that Algorithm 3 has k random vectors, as it is
    written, instead of the 4k + 1 of FastFrobeniusSVD (bzmd15, ε = 1/3), with sampling at t = 130 on ORL.

    Side statements: P of ASD is above P of AR, which only the cells of Table 2 show; each cell is a plausible run at t
    = 130 on ORL, with normal P (`kmdr.claims.draws.judge_run`), or on NIPS a plausible run (A and AV_k) or best of 100
    by F (ASD and AR, `judge_best`); A on ORL is deterministic. The report does not state r. Our Table 2 shows the same
    distributions.
    """
    components, readings = list[Component](), list[Component]()
    for dataset, size in (("orl", 1), ("nips", BEST_OF)):
        try:
            by_method = {name: table2_runs(results, dataset, name) for name in TABLE2}
        except NotRunError:
            continue
        common = sorted(set.intersection(*(set(rows.index) for rows in by_method.values())))
        if not common:
            continue
        label = dataset_label(dataset)
        best = {name: _accuracy_of_blocks(rows.loc[common], size) for name, rows in by_method.items()}
        P = best | {name: _accuracy_of_blocks(by_method[name].loc[common], size, best=False) for name in ONE_RUN}
        components += _order(label, P)
        if size > 1:
            projected = _accuracy_of_blocks(by_method["random_sign"].loc[common], size, best=False)
            of_projected = _order(f"{label}, AR one run", P | {"random_sign": projected})
            readings += [*_order(label, best), *(c for c in of_projected if "− AR," in c.label)]
        with suppress(NotRunError):
            readings += _order(f"{label}, k vectors", P | _with_k_vectors(results, dataset, size))
    if not components:
        raise NotRunError(f"neither {ORL} nor {NIPS} has all four methods of Table 2")
    cells, levels = list[Cell](), []
    for dataset, at in (("orl", f"t = {ENOUGH}"), ("nips", f"r = {TABLE2_NIPS_R}")):
        if compared := _compare_cells(results, dataset):
            values = ", ".join(f"{_method_of(cell)} {cell.draw.mean:.3f}" for cell in compared)
            levels.append(f"on {dataset_label(dataset)} at {at} it is {values}")
            cells += compared
    plausible = sum(cell.draw.component.p_against >= LEVEL for cell in cells)
    sentence = f"P, as in our Table 2: {'; '.join(levels)}; {plausible} of {len(cells)} cells are plausible results"
    if vague := [_method_of(cell) for cell in cells if math.isinf(cell.draw.high - cell.draw.low)]:
        sentence += f", {' and '.join(vague)} on NIPS because our blocks of {BEST_OF} are too few to reject any value"
    sentence += _label_error(results)
    return Finding(
        [*components, *part_of("cells", [cell.draw.component for cell in cells])],
        f"{sentence}.",
        {"another reading": readings} if readings else {},
    )


def _with_k_vectors(results: Results, dataset: str, size: int) -> dict[str, Floats]:
    """Return P of blocks of runs of AV_k and of ASD with k random vectors in Algorithm 3."""
    table = results.fact("lf20_vectors")
    return {
        str(name): _accuracy_of_blocks(rows, size, best=name not in ONE_RUN)
        for name, rows in table[table["dataset"] == dataset].groupby("method")
    }


def _method_of(cell: Cell) -> str:
    return cell.draw.component.label.partition(": P of ")[2].partition(",")[0]


def _accuracy_of_blocks(runs: pd.DataFrame, size: int, *, best: bool = True) -> Floats:
    """Return P of each block of successive runs: of the run of smallest F, or the mean."""
    P = runs["accuracy"].to_numpy(dtype=float)
    kept = best_in_blocks(runs["objective"], size)
    return P[kept] if best else P[: len(kept) * min(size, len(P))].reshape(len(kept), -1).mean(axis=1)


def _order(dataset: str, P: Mapping[str, Floats]) -> list[Component]:
    """Test the order of Table 2's methods on one dataset, on as many blocks as all have."""
    blocks = min(map(len, P.values()))
    P = {name: values[:blocks] for name, values in P.items()}
    full, of_vectors, sampled, projected = (P[name] for name in TABLE2)
    same = f"{dataset}: P, AV_k − A, within ±{SAME_IN_TABLE2:g}"
    behind = [
        above(f"{dataset}: P, {TABLE2[ahead]} − {TABLE2[name]}, above 0", P[ahead] - P[name], 0.0, "P")
        for name in ("leverage_approx", "random_sign")
        for ahead in ONE_RUN
    ]
    return [
        *part_of("equal", [equal(same, of_vectors - full, SAME_IN_TABLE2, "P")]),
        *part_of("behind", behind),
        *part_of("order", [above(f"{dataset}: P, ASD − AR, above 0", sampled - projected, 0.0, "P")]),
    ]


def _label_error(results: Results) -> str:
    """Return whether the labelling error in the report's code, which lowers P of AR, explains ASD > AR on ORL."""
    try:
        slipped, projected, sampled = (
            rows.loc[rows["r"] >= min(ENOUGH, rows["r"].max()), "accuracy"].mean()
            for rows in (
                results.rows(AS_SCORED["random_sign"], datasets=["orl"], reducers=["random_sign"]),
                results.rows(ORL, datasets=["orl"], reducers=["random_sign"]),
                results.rows(ORL, datasets=["orl"], reducers=["leverage_approx"]),
            )
        )
    except NotRunError:
        return ""  # the claim is decided without it
    (printed,) = (number.value for number in numbers("lf20_table2", dataset="orl", method="random_sign"))
    return (
        f". Averaged over t ≥ {ENOUGH} on ORL, P of ASD is {sampled:.3f} and P of AR {projected:.3f}. A labelling "
        f"error in the report's code {'explains' if slipped < sampled else 'does not explain'} the printed order: for "
        f"AR every tenth image has the next person's label. Scored that way P of AR is {slipped:.3f} (reported "
        f"{printed:.2f})"
    )


@claim(
    "lf20-7", "The leverage scores of the selected features are far more spread on NIPS than on ORL.",
    "§3.4.2, Table 1",
    facts=["lf20_scores"], central="杠杆得分方差大",
)  # fmt: skip
def claim7(results: Results) -> Finding:
    """Test whether the variance of the selected features' scores on NIPS is at least 1000 times that on ORL.

    Unit: a draw of 130 features of ORL and of 30 of NIPS, 300 of each; t test that the mean logarithm of the ratio of
    variances is above log 1000. The report's own ratio is 1.4 million; singular vectors are of A.
    """
    drawn = results.fact("lf20_scores")
    table = drawn.pivot_table(index=["centred", "draw"], columns="dataset", values="variance_of_scores")
    both = together(table, "nips", "orl").reset_index()
    ratios = both["nips"] / both["orl"]
    of_A, of_centred = ratios[both["centred"] == 0], ratios[both["centred"] == 1]
    if of_A.empty:
        raise NotRunError("lf20_scores has no draws by singular vectors of A")
    label = f"variance of the selected scores, NIPS ÷ ORL, above {SPREAD:g}"
    component = ratio_above(label, of_A, SPREAD, "ratio of variances")
    reported = {number.dataset: number.value for number in numbers("lf20_table1", quantity="variance_of_scores")}
    centred = f"; with centred vectors {np.exp(np.log(of_centred).mean()):.2g}" if len(of_centred) else ""
    means = both[both["centred"] == 0][["nips", "orl"]].mean()
    return Finding(
        [component],
        f"The variance is {means['nips']:.2g} on NIPS and {means['orl']:.2g} on ORL (means of {component.n} draws), "
        f"the ratio {estimate(component, '.2g')} (geometric mean){centred}; "
        f"reported: {reported['nips'] / reported['orl']:.2g}.",
    )


# -- reported numbers as single draws --


@claim(
    "lf20-8", "P and F on NIPS have the values of Figure 7.", "§3.3, Figure 7", studies=[NIPS_RUNS, NIPS],
    central="从图 7 可以看出, 降维后聚类的正确率与不降维的差距不大",
)  # fmt: skip
def claim8(results: Results) -> Finding:
    """Each cell of sampling in Figure 7 is a plausible best of 100 runs by F; on all features, a plausible single run.

    §3.4.2 says that the accuracy of the feature selection algorithm in Figure 7 is of the best of a hundred repeated
    experiments. On all features nothing is drawn that could be repeated, so its cell is one run (of ten starts). That
    it is also the best of a hundred is another reading, in which P hardly varies; it is shown but does not decide.

    Unit: a run. Against: exact two-sided p-value that a draw from our distribution is at least as extreme, with the
    reading error added on the side that favours the cell; and Fisher's combination of these over the cells of F and
    over the cells of P, which come from separate runs. For: exact binomial tests, on blocks of 100 successive runs,
    that both tails beyond the cell have a probability of at least 2.5 %. With 10,000 runs, a hundred such blocks, the
    smallest p-value of a single cell is 2 %.
    """
    draws: dict[str, list[Draw]] = {}
    words, as_best = [], []
    for number in numbers("lf20_fig7"):
        try:
            rows = runs(results, NIPS_RUNS if number.method == "leverage" else NIPS, "nips", number.method, number.r)
        except NotRunError:
            continue
        rows = rows.drop_duplicates(REPETITION)
        symbol = SYMBOLS[number.quantity]
        at = "all features" if np.isnan(number.r) else f"r = {number.r:.0f}"
        kept = f"{symbol} at {at}, reported − ours, best of {BEST_OF}"
        sampled = number.method == "leverage"
        label = kept if sampled else f"{symbol} at {at}, reported − ours, one run"
        draw = judge_best(label, number, rows["objective"], rows[number.quantity], BEST_OF if sampled else 1)
        if not sampled:
            as_best.append(judge_best(kept, number, rows["objective"], rows[number.quantity], BEST_OF))
        draws.setdefault(symbol, []).append(draw)
        words.append(f"{symbol} {number.value:.4f} against {draw.law()} at {at}")
    if not draws:
        raise NotRunError(f"no rows of {NIPS_RUNS} or {NIPS} on nips")
    cells = [draw.component for of_symbol in draws.values() for draw in of_symbol]
    every = [judge_together(f"{symbol}, {len(drawn)} cells together", drawn) for symbol, drawn in draws.items()]
    plausible = sum(component.p_against >= LEVEL for component in cells)
    return Finding(
        [*cells, *every],
        f"{plausible} of {len(cells)} cells are plausible (reported against our mean [95 % prediction interval]): "
        f"{', '.join(words)}"
        + "".join(f"; as the best of {BEST_OF}, {d.component.label[:1]} is {d.law()}" for d in as_best)
        + f"{explain_dashes([draw for drawn in draws.values() for draw in drawn] + as_best)}.",
        {"another reading": [draw.component for draw in as_best]} if as_best else {},
    )


@claim(
    "lf20-9", "The leverage scores of the selected features have the least, greatest and variance of Table 1.",
    "§3.4.2, Table 1", facts=["lf20_scores"],
    central="我们对比了算法 2 在 ORL 和 NIPS 数据集上选出特征的杠杆得分",
)  # fmt: skip
def claim9(results: Results) -> Finding:
    """Each of Table 1's six numbers is a plausible draw.

    Unit: a draw of 130 features of ORL, or of 30 of NIPS (the report states neither number); 300 of each. Against:
    Student's prediction interval of the logarithm, assumed normal, with the reading error added. For: the number lies
    inside the central 95 % of the distribution (noncentral t). Singular vectors are of A, as Algorithm 2 is
    written; the report's code centres A first, which is another reading. All six must hold.
    """
    drawn = results.fact("lf20_scores")
    readings: dict[int, list[Draw]] = {0: [], 1: []}
    words = []
    for number in numbers("lf20_table1"):
        of_number = drawn[drawn["dataset"] == number.dataset]
        what = f"{number.quantity.replace('_', ' ')} on {dataset_label(number.dataset)}"
        label = f"{what}, reported − ours, inside the 95 % prediction interval of a draw"
        for centred, draws in readings.items():
            values = of_number.loc[of_number["centred"] == centred, number.quantity].to_numpy(dtype=float)
            if len(values) > 1:
                centre = " by centred vectors" if centred else ""
                draws.append(judge_run(label.replace(", reported", f"{centre}, reported"), number, values, logs=True))
                words += [] if centred else [f"{what} {number.value:.3g} against {draws[-1].law()}"]
    components, of_centred = ([draw.component for draw in draws] for draws in readings.values())
    if not components:
        raise NotRunError("lf20_scores has no draws by singular vectors of A")
    within, of_code = (sum(c.p_against >= LEVEL for c in some) for some in (components, of_centred))
    sentence = (
        f"{within} of {len(components)} numbers are inside the 95 % prediction interval of one draw: {', '.join(words)}"
    )
    if of_centred:
        outside = [c.label.partition(" by ")[0] for c in of_centred if c.p_against < LEVEL]
        sentence += (
            f"; with singular vectors of the centred A, which the report's code computes, {of_code} of "
            f"{len(of_centred)} are inside"
            + (f" (not {', '.join(outside)})" if outside else "")
            + f", and the claim would be {outcome(of_centred)}"
        )
    return Finding(components, f"{sentence}.", {"another reading": of_centred} if of_centred else {})


@claim("lf20-10", "At t = 130 on ORL F is .0422.", "§2.4, Figure 1", studies=[ORL], central="大概在维度是130的时候")
def claim10(results: Results) -> Finding:
    """F = .0422 is a plausible single run of random signs at t = 130 on ORL.

    Unit: a repetition, from the same centres as the report's one run. Against: Student's prediction interval of one
    more run, with normal F and the reading error added. For: the number lies inside the central 95 % of the
    distribution (noncentral t). P = .7075, which the report also gives, is reported, under the best matching.
    """
    (number,) = numbers("lf20_fig1", quantity="objective")
    rows = runs(results, ORL, "orl", "random_sign", number.r).drop_duplicates(REPETITION)
    F = rows["objective"].to_numpy(dtype=float)
    label = f"F at t = {number.r:.0f}, reported − ours, inside the 95 % prediction interval of one run"
    draw = judge_run(label, number, F)
    (reported_P,) = numbers("lf20_fig2", quantity="accuracy")
    return Finding(
        [draw.component],
        f"The paper reports F = {number.value:.4f} at t = {number.r:.0f}; we obtain {F.mean():.4f} (95 % prediction "
        f"interval {draw.low:.4f} to {draw.high:.4f}, range {F.min():.4f} to {F.max():.4f}, {len(F)} runs). It reports "
        f"P = {reported_P.value:.4f}; we obtain {rows['accuracy'].mean():.3f} (range {rows['accuracy'].min():.3f} to "
        f"{rows['accuracy'].max():.3f}).",
    )


def _still_bad(label: str, still: ArrayLike, bad: ArrayLike, part: float | Margin) -> Component:
    """Test that the share of bad runs is below a given part of the share among paired runs."""
    component = below(label, np.asarray(still) - float(part) * np.asarray(bad), 0.0, "share")
    return with_margin(component, part, partial(_still_bad, label, still, bad))


@claim(
    "lf20-11", "Runs on NIPS are bad because rescaling blows some features up (outliers not tested).",
    "§3.4.2, Figure 10", studies=[NIPS_RUNS, UNSCALED],
    central={"rescaling": "这是由于算法的rescale过程破坏了原始矩阵中不同特征之间的相对关系"},
    paired="runs with and without rescaling have the same columns and starts",
)  # fmt: skip
def claim11(results: Results) -> Finding:
    """Without rescaling, less than half as many runs are bad (P < 0.5) on NIPS at r = 30.

    Unit: a repetition, with the same columns and starts with and without the factors 1/√(r p_i). t test that the
    indicator of a bad run without them, minus half of the indicator with them, is below 0 on average: rescaling then
    causes the greater part of the bad runs (our margin). The shares at the other r are reported. How rescaling does it,
    by points that become outliers, is not tested: rows have no sizes of clusters.
    """
    with_, without = (
        results.rows(study, datasets=["nips"], reducers=["leverage"])
        .drop_duplicates(["r", *REPETITION])
        .set_index(["r", *REPETITION])["accuracy"]
        for study in (NIPS_RUNS, UNSCALED)
    )
    common = with_.index.intersection(without.index)
    if common.empty:
        raise NotRunError(f"{NIPS_RUNS} and {UNSCALED} share no trial")
    bad, still = ((P.loc[common] < GOOD).astype(float) for P in (with_, without))
    sizes = sorted({int(r) for r in common.get_level_values("r")})
    r = min(sizes, key=lambda size: abs(size - WORDS_R))
    component = _still_bad(
        f"share of P < {GOOD} without rescaling − {GREATER:g} of that with it, r = {r}, below 0",
        still.xs(r, level="r"), bad.xs(r, level="r"), GREATER,
    )  # fmt: skip
    others = "; ".join(
        f"{bad.xs(size, level='r').mean():.0%} and {still.xs(size, level='r').mean():.0%} at r = {size}"
        for size in sizes
    )
    return Finding(
        part_of("rescaling", [component]),
        f"The share of runs with P < {GOOD}, with and without rescaling, is {others} ({component.n} pairs of runs at "
        f"r = {r}). That points become outliers is not tested.",
    )


@claim(
    "lf20-12",
    "K-means takes the main part of the time of the whole algorithm.",
    "§2.5.1, Figure 4",
    studies=[ORL_64, ORL_64_TIMES, OTHER_CODE],
    central="k-means算法的时间是整个算法主要的时间开销",
)
def claim12(results: Results) -> Finding:
    """K-means takes more than half of the total time on ORL 64×64, with each of the four matrices.

    Unit: a serially timed repetition; the share of the clustering in the total time, averaged over the grid of t; sign
    test of the median against one half, one component per matrix. The report does not say which matrix its Figure 4
    shows. The share depends on the implementation as much as on the algorithm, so the share with scikit-learn's k-means
    and a product by BLAS, on ORL 112×92, is reported.
    """
    parts = results.wide((ORL_64, ORL_64_TIMES), "cluster_seconds", reducers=MATRICES)
    share_of_total = parts / results.wide((ORL_64, ORL_64_TIMES), "total_seconds", reducers=MATRICES)
    components = [
        median_above(f"share of k-means in the time, {NAMES[name]}, above {MAIN:g}", means, MAIN, "share of time")
        for name in MATRICES
        if name in share_of_total and (means := mean_over_r(share_of_total)[name].dropna()).size
    ]
    if not components:
        raise NotRunError(f"{ORL_64_TIMES} has no serially measured times")
    shares = ", ".join(f"{component.label.split(', ')[1]} {estimate(component, '.1%')}" for component in components)
    sentence = f"Averaged over t, k-means takes this share of the time: {shares}"
    try:
        other = mean_over_r(
            results.wide(OTHER_CODE, "cluster_seconds", reducers=["gaussian"])
            / results.wide(OTHER_CODE, "total_seconds", reducers=["gaussian"])
        )["gaussian"]
        sentence += f"; with scikit-learn's k-means and normal numbers by BLAS, on ORL 112×92: {other.mean():.1%}"
    except NotRunError:
        pass  # the claim is decided without it
    return Finding(as_time(components), f"{sentence}.")


# -- open points --


def _table2_matching(results: Results) -> str:
    """Return P of the methods behind ASD and AR at t ≥ 130 under both matchings."""
    texts = []
    for name, study in AS_SCORED.items():
        best, scored = (
            rows.loc[rows["r"] >= ENOUGH, "accuracy"].mean()
            for rows in (results.rows(where, datasets=["orl"], reducers=[name]) for where in (ORL, study))
        )
        texts.append(f"P of {NAMES[name]} is {best:.3f} one to one and {scored:.3f} as Figure 8's code scored")
    return f"At t ≥ {ENOUGH} on ORL {'; '.join(texts)}. The other columns of Table 2 were not scored in that way here."


def _kept_run(results: Results) -> str:
    """Return P and F of the run of largest F of a hundred."""
    rows = runs(results, NIPS_RUNS, "nips", "leverage", WORDS_R)
    worst = best_of(-rows["objective"], min(BEST_OF, len(rows)))
    P, F = (worst.mean(rows[name].to_numpy(dtype=float)) for name in ("accuracy", "objective"))
    return f"The run of largest F of {BEST_OF} at r = {WORDS_R} has, on average, P {P:.3f} and F {F:.3f}."


def _vectors(results: Results) -> str:
    """Return P of AV_k and of ASD with k random vectors in Algorithm 3."""
    texts = []
    for dataset, size, kept in (("orl", 1, ""), ("nips", BEST_OF, f", best of {BEST_OF}")):
        P = {name: float(values.mean()) for name, values in _with_k_vectors(results, dataset, size).items()}
        printed = {number.method: number.value for number in numbers("lf20_table2", dataset=dataset)}
        texts.append(
            f"on {dataset_label(dataset)} P of AV_k is {P['approx_svd']:.3f} (printed {printed['approx_svd']:.2f}) and "
            f"of ASD{kept} {P['leverage_approx']:.3f} ({printed['leverage_approx']:.2f})"
        )
    return f"With k random vectors, {'; '.join(texts)}. Claim 6 shows them as another reading."


def _drawing_counted(results: Results) -> str:
    """Return the share of drawing R in the reduction by random signs."""
    times = results.fact("lf20_sign_times")
    draw = (times["draw_seconds"] / (times["draw_seconds"] + times["apply_seconds"])).groupby(times["r"]).median()
    return (
        f"Drawing R is {draw.min():.0%} to {draw.max():.0%} of the reduction by random signs on ORL "
        f"(r = {draw.index.min()} to {draw.index.max()}); omitting it changes no F and no P."
    )


def _iterations(results: Results) -> str:
    """Return the iterations of the longest run."""
    rows = results.rows("lf20_orl")
    return (
        f"The longest of {len(rows)} runs took {int(rows['n_iter'].max())} iterations, so any limit of at least that "
        "gives the same partitions."
    )


def _r_of_fig10(results: Results) -> str:
    """Return the shares of Figure 10 at each r."""
    rows = results.rows("lf20_nips_runs", reducers=["leverage", "leverage_sqrt"])
    good = (rows["accuracy"] >= 0.5).groupby([rows["reducer"], rows["r"]]).mean()
    parts = [
        f"r = {r}: {good['leverage', r]:.0%} squared, {good['leverage_sqrt', r]:.0%} unsquared"
        for r in sorted(set(rows["r"]))
    ]
    return "Share of runs with P ≥ 0.5 at " + "; ".join(parts) + "."


CLAIMS = (claim1, claim2, claim3, claim4, claim5, claim6, claim7, claim8, claim9, claim10, claim11, claim12)
ANSWERS = {
    "drawing": _drawing_counted,
    "vectors": _vectors,
    "iterations": _iterations,
    "online_phase": lambda _: "Measured in the multiverse, which combines it with the other choices.",
    "r_of_fig10": _r_of_fig10,
    "table2_matching": _table2_matching,
    "kept_run": _kept_run,
}
