"""What bmd09 claims, each statement with its test."""

import numpy as np
import pandas as pd

from kmdr.analysis.results import NotRunError, Results
from kmdr.analysis.statistics import Component, below, best_in_blocks, equal
from kmdr.claims.best_of import SYMBOLS, law, runs
from kmdr.claims.catalogue import Finding, claim
from kmdr.claims.effects import counted, estimate, outcome
from kmdr.claims.reported import numbers

from .facts import BEST_OF, FIGURE_R, NAMED, STUDY

# What counts as the table's number beyond its reading error: the spread of F and P over starts.
TOLERANCE = {"objective": 0.002, "accuracy": 0.02}
SUFFICES = 0.01


def _against_table(results: Results, quantity: str) -> Finding:
    """Compare the best of 30 with the table, r by r, and a single run on all features."""
    symbol, components, words, count = SYMBOLS[quantity], [], [], 0
    for number in numbers(STUDY, dataset="nips", quantity=quantity):
        try:
            rows = runs(results, STUDY, "nips", number.method, number.r)
        except NotRunError:
            continue
        m = BEST_OF if number.method == "leverage" else 1
        at = "all features" if np.isnan(number.r) else f"r = {number.r:.0f}"
        values = rows[quantity].to_numpy(dtype=float)
        blocks = best_in_blocks(rows["objective"], m)
        margin = number.reading_error + TOLERANCE[quantity]
        same = equal(
            f"{symbol} at {at}, ours − reported, within ±{margin:.4g}", values[blocks] - number.value, margin, symbol
        )
        best = law(rows, m)
        tail = 2 * min(
            best.place(values, number.value + number.reading_error)[0],
            best.place(values, number.value - number.reading_error)[1],
        )
        components.append(same._replace(p_against=min(1.0, max(tail, 1 / len(rows)))))
        words.append(
            f"{best.mean(values):.3f} [{best.quantile(values, 0.025):.3f}, {best.quantile(values, 0.975):.3f}] "
            f"against {number.value:.3f} at {at}"
        )
        count = max(count, len(rows))
    if not components:
        raise NotRunError(f"no rows of {STUDY} on nips")
    return Finding(
        components,
        f"{symbol} of the best of {min(BEST_OF, count)} by F (mean and central 95 % of its law, from {count} runs) is "
        + ", ".join(words)
        + ".",
    )


@claim(
    "bmd09-1",
    "At r = 5k, 10k, 20k and on all features F is .758, .751, .749 and .747 (NIPS).",
    "Table 1",
    studies=[STUDY],
)
def claim1(results: Results) -> Finding:
    """F of the best of 30 runs by F equals the table's at r = 15, 30, 60, as does F of a run on all features (NIPS).

    Unit: a block of 30 successive repetitions, of which the run of smallest F is kept, as the paper did (1000
    repetitions make 33 blocks); on all features a single run. For: two one-sided t tests that the mean lies within
    the table's reading error plus 0.002 of the table's number. Against: the two-sided probability that the law of the
    best of 30, estimated from all runs, is as far out as the reported number. One component a number; all must hold.
    Bio, the paper's other dataset, has to be got by hand.
    """
    return _against_table(results, "objective")


@claim(
    "bmd09-2",
    "At r = 5k, 10k, 20k and on all features P is .847, .847, .859 and .881 (NIPS).",
    "Table 1",
    studies=[STUDY],
)
def claim2(results: Results) -> Finding:
    """P of the best of 30 runs by F equals the table's at r = 15, 30, 60, as does P of a run on all features (NIPS).

    As for F, within the reading error plus 0.02 (four of the 184 papers).
    """
    return _against_table(results, "accuracy")


@claim(
    "bmd09-3",
    "The words of largest leverage score are those of Figure 1: ruyter, hand, information, code, universality, "
    "sources, tishby, naftali, hebrew, neural, center.", "§5, Figure 1", facts=["bmd09_scores"],
)  # fmt: skip
def claim3(results: Results) -> Finding:
    """Each of the 11 words that Figure 1 names is among our 30 largest leverage scores of 6314.

    The scores are a function of the data, so one component, the share of the words that are, decides with certainty.
    """
    words = results.fact("bmd09_scores")
    named = words[words["named"] == 1]
    inside = int((named["rank"] <= FIGURE_R).sum())
    part = inside / len(NAMED)
    all_in = inside == len(NAMED)
    component = Component(
        f"share of the named words among the {FIGURE_R} largest scores, against 1", part, part, part,
        float(not all_in), float(all_in), len(NAMED), "share",
    )  # fmt: skip
    outside = ", ".join(named.loc[named["rank"] > FIGURE_R, "word"])
    largest = float(words["score"].max())
    (number,) = numbers("bmd09_fig1", quantity="largest_score")
    low, high = number.value - number.reading_error, number.value + number.reading_error
    first = words.sort_values("rank").iloc[0]
    return Finding(
        [component],
        f"{inside} of the {len(NAMED)} named words are among the {FIGURE_R} largest of {len(words)} scores"
        + (f" (not {outside})" if outside else "")
        + f", at ranks {named['rank'].min()} to {named['rank'].max()}; the largest score, of "
        f"{first['word']}, is {largest:.3f}, "
        f"{'between' if low <= largest <= high else 'not between'} the figure's {low:.2f} and {high:.2f}.",
    )


@claim("bmd09-4", "r = 10k is often sufficient for good empirical results.", "§5", studies=[STUDY])
def claim4(results: Results) -> Finding:
    """F at r = 10k = 30 is at most 1 % above F on all features (NIPS), for the best of 30 by F as the paper took it.

    Unit: a block of 30 successive repetitions; the F of the run that is kept over the mean F on all features in the
    same block, against 1.01 by a t test. The same for the typical run, each repetition against its own run on all
    features, is told in the explanation and does not decide.
    """
    sampled = runs(results, STUDY, "nips", "leverage", FIGURE_R).set_index("repeat")["objective"]
    full = runs(results, STUDY, "nips", "none").set_index("repeat")["objective"]
    pairs = pd.concat({"sampled": sampled, "full": full}, axis=1).dropna()
    if pairs.empty:
        raise NotRunError(f"{STUDY} has no repetition with both r = {FIGURE_R} and all features")
    F, all_F = pairs["sampled"].to_numpy(), pairs["full"].to_numpy()
    kept = best_in_blocks(F, BEST_OF)
    block = min(BEST_OF, len(F))
    level = np.array([all_F[i // block * block :][:block].mean() for i in kept])
    best = below(
        f"F/F(all) − 1 at r = {FIGURE_R}, best of {BEST_OF}, below {SUFFICES}", F[kept] / level - 1, SUFFICES, "F"
    )
    typical = below(f"the same, single runs, below {SUFFICES}", F / all_F - 1, SUFFICES, "F")
    verdict = outcome([typical])
    return Finding(
        [best],
        f"F of the best of {block} is {estimate(best, '+.2%')} from F on all features, over "
        f"{counted(best.n, 'block')}; a typical run is {estimate(typical, '+.2%')} away, and for it alone "
        f"the statement would be {verdict}.",
    )


CLAIMS = (claim1, claim2, claim3, claim4)
