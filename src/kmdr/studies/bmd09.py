"""bmd09: Unsupervised Feature Selection for the k-means Clustering Problem (NIPS 2009)."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from kmdr.datasets import Dataset
from kmdr.linalg import top_right_singular_vectors
from kmdr.reducers.leverage import leverage_scores
from kmdr.report.canvas import canvas, finish
from kmdr.report.figures import record
from kmdr.report.statistics import Component, below, best_in_blocks, conjunction, equal
from kmdr.report.style import KNOWN, print_style
from kmdr.studies.best import SYMBOLS, counted, drawn_again, kept_run, law, numbers, runs, selection_table, shown
from kmdr.studies.catalogue import Finding, Table, claim, fact, figure, table
from kmdr.studies.results import NotRunError, Results
from kmdr.studies.verdicts import outcome

STUDY = "bmd09_table1"
BEST_OF = 30
FIGURE_R = 30
# Figure 1's labels.
NAMED = (
    *("ruyter", "hand", "information", "code", "universality", "sources"),
    *("tishby", "naftali", "hebrew", "neural", "center"),
)
# What counts as the table's number beyond its reading error: the spread of F and P over starts.
TOLERANCE = {"objective": 0.002, "accuracy": 0.02}
SUFFICES = 0.01


@fact("bmd09_scores", ["nips"], studies=[STUDY])
def scores(datasets: Sequence[Dataset], results: Results) -> pd.DataFrame:
    """Leverage score p_i = ‖(V_k)_(i)‖²/k of every word, and how often the best of 30 runs drew it at r = 30."""
    nips = datasets[0]
    p = leverage_scores(top_right_singular_vectors(nips.A, nips.k))
    words = nips.feature_names or tuple(str(i) for i in range(len(p)))
    times = np.zeros(len(p), dtype=int)
    try:
        best = kept_run(runs(results, STUDY, "nips", "leverage", FIGURE_R).head(BEST_OF))
        times += np.bincount(drawn_again(nips, best)[0], minlength=len(p))
    except NotRunError:
        pass  # the scores are worth having without the sample
    return pd.DataFrame(
        {
            "index": np.arange(1, len(p) + 1),
            "word": words,
            "score": p,
            "rank": (-p).argsort(kind="stable").argsort(kind="stable") + 1,
            "named": np.isin(words, NAMED).astype(int),
            "drawn": times,
        }
    )


@table(f"{STUDY}", "P and F of leverage-score sampling at r = 5k, 10k, 20k and of all features", studies=[STUDY])
def table1(results: Results) -> Table:
    """As in the paper: P and F on NIPS and Bio at r = 5k, 10k, 20k and on all features, a line a cell.

    Ours is the mean of the law of the best of 30 by F, estimated from all runs (1000 in a full run); for all features,
    of a single run. "low" and "high" hold that law's central 95 %; "≤ reported" is the probability that it gives the
    reported value or less.
    """
    note = (
        "Ours: mean of the law of the best of 30 runs by F (all: of a single run); low to high: its central 95 %; "
        "≤ reported: the probability of the reported value or less; typical run: mean of single runs."
    )
    return selection_table(results, STUDY, {"leverage": STUDY, "none": STUDY}, {"leverage": BEST_OF, "none": 1}, note)


@figure(
    "bmd09_fig1", "Leverage score of each NIPS word, and the words drawn at r = 30", studies=[STUDY],
    facts=["bmd09_scores"], datasets=["nips"],
)  # fmt: skip
def figure1(results: Results) -> Figure:
    """As in the paper: scores against the word's index from 0 to 0.08, the best set at r = 30 marked, its words named.

    The order of the words is that of our file, so that a word's place on the axis need not be the paper's.
    """
    words = results.fact("bmd09_scores")
    drawn = words[words["drawn"] > 0]
    named = words[words["named"] == 1].sort_values("score", ascending=False)
    sampling, plain = KNOWN["random_sign"].color, KNOWN["leverage"].color
    with print_style():
        fig, (ax,) = canvas(1, height=3.0, width=7.0)
        ax.vlines(words["index"], 0, words["score"], color=plain, linewidth=0.6, label="all leverage scores")
        ax.plot(
            drawn["index"], drawn["score"], "o", color=sampling, markerfacecolor="none", markersize=4,
            label=f"best set (r = {FIGURE_R})",
        )  # fmt: skip
        top = max(0.08, float(words["score"].max()) * 1.05)
        ax.set_xlim(0, len(words) + 1)
        ax.set_ylim(0, top)
        points = zip(named["word"], named["index"], named["score"], _spread(named, len(words), top), strict=True)
        for word, x, score, y in points:
            right = x > 0.85 * len(words)
            ax.annotate(
                word, (x, score), (x + (-0.012 if right else 0.012) * len(words), y), va="center", fontsize=7,
                ha="right" if right else "left",
                arrowprops={"arrowstyle": "-", "linewidth": 0.3, "color": "#888888", "shrinkA": 0, "shrinkB": 2},
            )  # fmt: skip
        ax.set_xlabel("features (words, in the order of the file)")
        ax.set_ylabel("leverage score p")
        ax.set_title("NIPS", loc="left")
        record(ax, words)
        absent = sorted(set(named["word"]) - set(drawn["word"]))
        notes = [
            f"Named: the {len(NAMED)} words that the paper names; ranks {int(named['rank'].min())} to "
            f"{int(named['rank'].max())} of {len(words)} here.",
            "Best set: the run of smallest F among the first 30"
            + (f"; it did not draw {', '.join(absent)}." if len(drawn) else ", which was not run."),
        ]
        return finish(fig, notes, legend_columns=2)


def _spread(named: pd.DataFrame, width: int, top: float) -> list[float]:
    """Return the heights of labels, in the order of the words: at their scores, moved up where two would touch."""
    points = named[["index", "score"]].to_numpy(dtype=float)
    heights = points[:, 1].copy()
    step, placed = 0.045 * top, list[int]()
    for i in np.argsort(heights):
        for j in sorted(placed, key=lambda other: heights[other]):
            if abs(points[i, 0] - points[j, 0]) < 0.14 * width and abs(heights[i] - heights[j]) < step:
                heights[i] = heights[j] + step
        placed.append(int(i))
    return [float(height) for height in heights]


def _against_table(results: Results, quantity: str) -> Finding:
    """Compare the best of 30 with the table, r by r, and a single run on all features."""
    symbol, components, words, count = SYMBOLS[quantity], [], [], 0
    for one in numbers(STUDY, dataset="nips", quantity=quantity):
        try:
            rows = runs(results, STUDY, "nips", one.method, one.r)
        except NotRunError:
            continue
        m = BEST_OF if one.method == "leverage" else 1
        at = "all features" if np.isnan(one.r) else f"r = {one.r:.0f}"
        values = rows[quantity].to_numpy(dtype=float)
        blocks = best_in_blocks(rows["objective"], m)
        margin = one.reading_error + TOLERANCE[quantity]
        same = equal(
            f"{symbol} at {at}, ours − reported, within ±{margin:.4g}", values[blocks] - one.value, margin, symbol
        )
        chosen = law(rows, m)
        tail = 2 * min(
            chosen.place(values, one.value + one.reading_error)[0],
            chosen.place(values, one.value - one.reading_error)[1],
        )
        components.append(same._replace(p_against=min(1.0, max(tail, 1 / len(rows)))))
        words.append(
            f"{chosen.mean(values):.3f} [{chosen.quantile(values, 0.025):.3f}, {chosen.quantile(values, 0.975):.3f}] "
            f"against {one.value:.3f} at {at}"
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
    verdict = outcome(*conjunction([typical]))
    return Finding(
        [best],
        f"F of the best of {block} is {shown(best, '+.2%')} from F on all features, over {counted(best.n, 'block')}; a "
        f"typical run is {shown(typical, '+.2%')} away, and for it alone the statement would be {verdict}.",
    )
