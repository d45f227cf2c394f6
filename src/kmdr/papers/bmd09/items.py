"""bmd09's Table 1 and Figure 1."""

import numpy as np
import pandas as pd

from kmdr.analysis.results import Results
from kmdr.claims.best_of import selection_table
from kmdr.claims.catalogue import figure, table
from kmdr.figures.canvas import Drawing, canvas, finish
from kmdr.figures.style import KNOWN, print_style
from kmdr.figures.tables import Table

from .facts import BEST_OF, FIGURE_R, NAMED, STUDY


@table("bmd09_table1", "P and F of leverage-score sampling at r = 5k, 10k, 20k and of all features", studies=[STUDY])
def table1(results: Results) -> Table:
    """As in the paper: P and F on NIPS and Bio at r = 5k, 10k, 20k and on all features, one row per cell.

    Ours is the mean of the best of 30 by F, estimated from all runs; for all features, of a single
    run. "low" and "high" bound the central 95 % of that distribution; "≤ reported" is its probability of the reported
    value or less.
    """
    note = (
        "Ours: mean of the best of 30 runs by F (all: of a single run); low to high: central 95 % of its distribution; "
        "≤ reported: the probability of the reported value or less; typical run: mean of single runs. Intervals in "
        "the claims include the uncertainty from finitely many runs and may be wider."
    )
    return selection_table(
        results, "bmd09_table1", {"leverage": STUDY, "none": STUDY}, {"leverage": BEST_OF, "none": 1}, note
    )


@figure(
    "bmd09_fig1", "Leverage score of each word of NIPS, and the words drawn at r = 30", studies=[STUDY],
    facts=["bmd09_scores"], datasets=["nips"],
)  # fmt: skip
def figure1(results: Results) -> Drawing:
    """As in the paper: scores against the word's index from 0 to 0.08, the best set at r = 30 marked, its words named.

    The order of the words is that of our file, so a word's place on the axis may differ from the paper's.
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
        absent = sorted(set(named["word"]) - set(drawn["word"]))
        notes = [
            f"Named: the {len(NAMED)} words that the paper names; ranks {int(named['rank'].min())} to "
            f"{int(named['rank'].max())} of {len(words)} here.",
            "Best set: the run of smallest F among the first 30"
            + (f"; it did not draw {', '.join(absent)}." if len(drawn) else ", which was not run."),
        ]
        return Drawing(finish(fig, notes, legend_columns=2), [words])


def _spread(named: pd.DataFrame, width: int, top: float) -> list[float]:
    """Return the heights of labels, in the order of the words: at their scores, moved up to avoid overlaps."""
    points = named[["index", "score"]].to_numpy(dtype=float)
    heights = points[:, 1].copy()
    step, placed = 0.045 * top, list[int]()
    for i in np.argsort(heights):
        for j in sorted(placed, key=lambda other: heights[other]):
            if abs(points[i, 0] - points[j, 0]) < 0.14 * width and abs(heights[i] - heights[j]) < step:
                heights[i] = heights[j] + step
        placed.append(int(i))
    return [float(height) for height in heights]


ITEMS = (table1, figure1)
