"""What bmd09 claims, each statement with its test."""

from math import comb

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from kmdr.analysis.results import NotRunError, Results
from kmdr.analysis.rows import REPETITION
from kmdr.analysis.statistics import LEVEL, Component, Margin, above, below, best_in_blocks, certain
from kmdr.claims.best_of import SYMBOLS, law, runs
from kmdr.claims.catalogue import Finding, claim, unmeasured
from kmdr.claims.draws import judge_best, judge_together
from kmdr.claims.effects import counted, estimate, outcome
from kmdr.claims.reported import numbers

from .facts import BEST_OF, FIGURE_R, NAMED, STUDY

# What the text says where four words appear, its categories by the data's sections.
CATEGORIES = {"NS": "Neuroscience", "LT": "Learning Theory", "CN": "Control"}
STANDS_FOR = {"ruyter": ("NS", "CN"), "hand": ("CN",), "information": ("NS",), "code": ("LT", "CN")}
ALMOST_ALL = Margin(0.95, "share of a word's occurrences that is almost all", least=0.5, most=1.0)
ALIKE = Margin(
    0.9, "share of the papers that are together in partitions which are approximately one", least=0.5, most=1.0
)
AMONG = Margin(
    FIGURE_R, "number of scores that are the largest", {"words that the figure names": len(NAMED)}, least=11, most=300
)
SUFFICES = Margin(
    0.01, "excess of F over F(all) that is still good",
    {"Table 1 at r = 5k": 0.758 / 0.747 - 1, "at 10k": 0.751 / 0.747 - 1, "at 20k": 0.749 / 0.747 - 1},
)  # fmt: skip


def _against_table(results: Results, quantity: str) -> Finding:
    """Judge each number of the table as a draw of what it is of, and all of them together."""
    symbol, words, count, draws = SYMBOLS[quantity], [], 0, []
    for number in numbers(STUDY, dataset="nips", quantity=quantity):
        try:
            rows = runs(results, STUDY, "nips", number.method, number.r)
        except NotRunError:
            continue
        m = BEST_OF if number.method == "leverage" else 1
        at = "all features" if np.isnan(number.r) else f"r = {number.r:.0f}"
        draws.append(judge_best(f"{symbol} at {at}, reported − ours", number, rows["objective"], rows[quantity], m))
        words.append(f"{number.value:.3f} against {draws[-1].law('.3f')} at {at}")
        count = max(count, len(rows))
    if not draws:
        raise NotRunError(f"no rows of {STUDY} on nips")
    every = judge_together(f"{symbol}, {counted(len(draws), 'number')} together", draws)
    return Finding(
        [*(draw.component for draw in draws), every],
        f"Reported against our law (mean, and what {count} runs would not refute) is {symbol} "
        f"{', '.join(words)}; as draws of it they are together as far out with probability {every.p_against:.2g}.",
    )


@claim(
    "bmd09-1",
    "At r = 5k, 10k, 20k and on all features F is .758, .751, .749 and .747 (NIPS).",
    "Table 1",
    studies=[STUDY],
)
def claim1(results: Results) -> Finding:
    """F at r = 15, 30, 60 is a plausible draw of the best of 30 runs by F, and F on all features one of a run (NIPS).

    Against: the exact probability that a draw of the same law falls as far out beside ours, two-sided, the table's
    rounding added on the side that favours it, with no assumption about the law; and, as the numbers are of separate
    runs, Fisher's combination of these. For: exact binomial tests that the law reaches as far out on either side with a
    probability of 2.5 % at least, on blocks of 30 successive runs. One component a number and one for all; all must
    hold. There is no margin. Bio, the paper's other dataset, has to be got by hand.
    """
    return _against_table(results, "objective")


@claim(
    "bmd09-2",
    "At r = 5k, 10k, 20k and on all features P is .847, .847, .859 and .881 (NIPS).",
    "Table 1",
    studies=[STUDY],
)
def claim2(results: Results) -> Finding:
    """P at r = 15, 30, 60 is a plausible draw of the best of 30 runs by F, and P on all features one of a run (NIPS).

    As for F, of the run that is kept by its F.
    """
    return _against_table(results, "accuracy")


@claim(
    "bmd09-3",
    "The words of largest leverage score are those of Figure 1: ruyter, hand, information, code, universality, "
    "sources, tishby, naftali, hebrew, neural, center.", "§5, Figure 1", facts=["bmd09_scores"],
)  # fmt: skip
def claim3(results: Results) -> Finding:
    """Each of the 11 words that Figure 1 names is among our 30 largest leverage scores of 6314.

    The scores are a function of the data, so one component, the greatest rank of a named word, decides with certainty.
    30, the number of draws of the figure, is our margin.
    """
    words = results.fact("bmd09_scores")
    named = words[words["named"] == 1]
    if named.empty:
        raise NotRunError("the data have none of the words")
    inside = int((named["rank"] <= FIGURE_R).sum())
    component = certain(
        f"greatest rank of a named word by its score, at most {AMONG}", float(named["rank"].max()), AMONG, len(NAMED),
        "rank", at_most=True,
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
    sampled = runs(results, STUDY, "nips", "leverage", FIGURE_R).set_index(REPETITION)["objective"]
    full = runs(results, STUDY, "nips", "none").set_index(REPETITION)["objective"]
    pairs = pd.concat({"sampled": sampled, "full": full}, axis=1).dropna()
    if pairs.empty:
        raise NotRunError(f"{STUDY} has no repetition with both r = {FIGURE_R} and all features")
    F, all_F = pairs["sampled"].to_numpy(), pairs["full"].to_numpy()
    kept = best_in_blocks(F, BEST_OF)
    block = min(BEST_OF, len(F))
    level = np.array([all_F[i // block * block :][:block].mean() for i in kept])
    best = below(
        f"F/F(all) − 1 at r = {FIGURE_R}, best of {BEST_OF}, below {SUFFICES:g}", F[kept] / level - 1, SUFFICES, "F"
    )
    typical = below(f"the same, single runs, below {SUFFICES:g}", F / all_F - 1, SUFFICES, "F")
    verdict = outcome([typical])
    return Finding(
        [best],
        f"F of the best of {block} is {estimate(best, '+.2%')} from F on all features, over "
        f"{counted(best.n, 'block')}; a typical run is {estimate(typical, '+.2%')} away, and for it alone "
        f"the statement would be {verdict}.",
        {"another reading": [typical]},
    )


@claim(
    "bmd09-5",
    "ruyter appeared almost exclusively in documents of the first and third categories, hand in documents of the "
    "third, information in documents of the first, and code in documents of the second and third only.",
    "§5",
    facts=["bmd09_words"],
)
def claim5(results: Results) -> Finding:
    """At least 95 % of the occurrences of each of the four words are in the categories that the text gives it.

    The text says "almost exclusively" of ruyter and "only" of code; 95 % (our margin) asks no more than the first of
    any of them. Counts are a function of the data, so each component, the share of a word's occurrences that are there,
    decides with certainty. The papers outside in which it occurs are told.
    """
    counts = results.fact("bmd09_words")
    components, shares = [], []
    for word, sections in STANDS_FOR.items():
        of_word = counts[counts["word"] == word]
        if of_word.empty:
            continue
        inside = of_word["section"].isin(sections)
        total = int(of_word["occurrences"].sum())
        part = float(of_word.loc[inside, "occurrences"].sum() / total)
        where = " and ".join(CATEGORIES[section] for section in sections)
        components.append(
            certain(f"share of {word} in {where}, at least {ALMOST_ALL:g}", part, ALMOST_ALL, total, "share")
        )
        outside = of_word[~inside]
        shares.append(
            f"{part:.1%} of {word} in {where} ({outside['papers'].sum()} of {outside['of'].sum()} other papers have it)"
        )
    if not components:
        raise NotRunError("the data have none of the words")
    return Finding(components, f"Of their occurrences are {', '.join(shares)}.")


def _probability_of_drawing(p: ArrayLike, least: int, r: int) -> float:
    """Return the probability that at least some number of columns are among r draws, by inclusion and exclusion.

    Parameters
    ----------
    p : array_like
        Probability of each of the columns; all subsets of them are gone through.
    """
    mass, size = np.zeros(1), np.zeros(1, dtype=int)
    for part in np.asarray(p, dtype=float):  # subsets without the column, and with it
        mass, size = np.concatenate([mass, mass + part]), np.concatenate([size, size + 1])
    # By size, the sum over subsets of the probability that none of the subset is drawn.
    missed = np.bincount(size, weights=(1 - mass) ** r)
    few = len(missed) - 1 - least
    q = sum(
        (-1) ** (j - w) * comb(j, w) * float(missed[j]) for w in range(few + 1) for j in range(w, len(missed))
    )  # exactly w are not drawn
    return float(np.clip(q, 0.0, 1.0))


@claim(
    "bmd09-6",
    "The features that Algorithm 1 returned at r = 10k hold the words of Figure 1.",
    "§5, Figure 1",
    facts=["bmd09_scores", "bmd09_partitions"],
)
def claim6(results: Results) -> Finding:
    """At r = 30, Algorithm 1 draws 11 or more of the 12 words of largest score with a probability of at least 0.05.

    The 11 words that the figure names are 11 of those 12; that they and no others are named may be because they were
    drawn, so their number is judged. The figure is one draw, and plausible when its law gives as many with no less than
    0.05. The probability is a function of the scores (inclusion and exclusion over the 30 independent draws); it is the
    p-value against, and decides with certainty for. The figure shows the set that was kept, the best of 30 by F: how
    many of the named words our kept sets have is told, and the probability of the very 11.
    """
    words = results.fact("bmd09_scores")
    p = words["score"].nlargest(len(NAMED) + 1).to_numpy(dtype=float)
    named = words.loc[words["named"] == 1, "score"].to_numpy(dtype=float)
    if named.size < len(NAMED):
        raise NotRunError(f"the data have {named.size} of the {len(NAMED)} words")
    q = _probability_of_drawing(p, len(NAMED), FIGURE_R)
    very = _probability_of_drawing(named, len(NAMED), FIGURE_R)
    expected = float((1 - (1 - named) ** FIGURE_R).sum())
    label = f"probability that {FIGURE_R} draws hold {len(NAMED)} of the {len(p)} largest scores, at least {LEVEL}"
    component = Component(label, q, q, q, float(q < LEVEL), q, len(p), "probability", "number")
    sentence = (
        f"{FIGURE_R} draws hold {len(NAMED)} of the {len(p)} words of largest score with probability {q:.2g}, the very "
        f"{len(NAMED)} named ones with {very:.2g}, and {expected:.1f} of these on average"
    )
    try:
        kept = results.fact("bmd09_partitions")["named_drawn"]
        sentence += (
            f"; our {counted(len(kept), 'kept set')} (best of {BEST_OF}) hold {kept.min()} to {kept.max()} of them, "
            f"{kept.mean():.1f} on average"
        )
    except NotRunError:
        pass  # the law is known without them
    return Finding([component], f"{sentence}.")


@claim(
    "bmd09-7",
    "Only a small subset of features suffices to approximately reproduce the partition obtained when all features were "
    "kept.",
    "§5",
    facts=["bmd09_partitions"],
)
def claim7(results: Results) -> Finding:
    """At least 90 % of the papers are in the same cluster at r = 10k = 30 as on all features (NIPS).

    Unit: a block of 30 successive repetitions, of which the run of smallest F is kept, as the paper did, and compared
    with the run on all features of the same repetition. The share of papers in the same cluster under the best matching
    is above 0.9 (our margin for "approximately"); one-sided t test. How far two runs on all features agree is told.
    """
    table = results.fact("bmd09_partitions")
    if table.empty:
        raise NotRunError("no block has a run on all features to compare")
    same = above(f"share of papers in the same cluster, above {ALIKE:g}", table["agreement"], ALIKE, "share")
    sentence = (
        f"The best of {BEST_OF} at r = {FIGURE_R} puts {estimate(same, '.1%')} of the papers as the run on all "
        f"features does, over {counted(same.n, 'block')} (from {table['agreement'].min():.1%} to "
        f"{table['agreement'].max():.1%})"
    )
    sentence += f"; two runs on all features agree on {table['agreement_of_full'].mean():.1%}"
    return Finding([same], f"{sentence}.")


# -- open points


def _merged(results: Results) -> str:
    """Give the mean number of distinct columns."""
    p = results.fact("bmd09_scores")["score"].to_numpy(dtype=float)
    distinct = ", ".join(f"{(1 - (1 - p) ** r).sum():.1f} of {r}" for r in (15, 30, 60))
    return (
        f"On NIPS the draws hold, on average, {distinct} distinct columns. Merging the repeats of r draws "
        "(merged=draws) leaves all distances between points, so every partition, as they are; dropping them "
        "(merged=dropped) was not measured here."
    )


def _words(results: Results) -> str:
    """Tell whether the words are likely to name their columns."""
    counts = results.fact("bmd09_words").groupby("word")[["papers", "of"]].sum().to_dict("index")
    surnames = " and ".join(f"{word} in {counts[word]['papers']}" for word in ("tishby", "ruyter"))
    return (
        f"Hardly: in the file {surnames} of {counts['tishby']['of']} papers, though both are names of persons. The "
        "paper's Figure 1 has the same words at the top, so its file had them so too."
    )


def _best_of(results: Results) -> str:
    """Give P and F of one run and of the best of 30."""
    rows = runs(results, STUDY, "nips", "leverage", FIGURE_R)
    means = [
        f"P {law(rows, m).mean(rows['accuracy']):.3f} and F {law(rows, m).mean(rows['objective']):.3f}"
        for m in (1, BEST_OF)
    ]
    return f"At r = {FIGURE_R} a single run has, on average, {means[0]}, the best of {BEST_OF} {means[1]}."


CLAIMS = (claim1, claim2, claim3, claim4, claim5, claim6, claim7)
ANSWERS = {
    "merged": _merged,
    "online_phase": unmeasured("the phase, which can only lower the k-means objective on C, is kmeans.online=true"),
    "empty_action": unmeasured("the others are kmeans.empty_action=drop and error"),
    "words": _words,
    "best_of": _best_of,
}
