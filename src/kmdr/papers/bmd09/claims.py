"""The claims of bmd09, each with its test."""

from itertools import permutations
from math import comb

import numpy as np
from numpy.typing import ArrayLike

from kmdr.analysis.results import NotRunError, Results
from kmdr.analysis.rows import REPETITION
from kmdr.analysis.significance import LEVEL
from kmdr.analysis.statistics import Component, Margin, above, below, best_in_blocks, certain, not_inferior
from kmdr.base.text import counted
from kmdr.claims.best_of import SYMBOLS, law, runs
from kmdr.claims.catalogue import Answer, Finding, claim
from kmdr.claims.draws import explain_dashes, judge_best, judge_together
from kmdr.claims.effects import estimate, outcome, part_of
from kmdr.claims.reported import numbers

from .facts import BEST_OF, FIGURE_R, NAMED, STUDY

SCOPE = ("nips", "bio")
# The categories in which, by the text, four words appear, as sections of the data.
CATEGORIES = {"NS": "Neuroscience", "LT": "Learning Theory", "CN": "Control"}
STANDS_FOR = {"ruyter": ("NS", "CN"), "hand": ("CN",), "information": ("NS",), "code": ("LT", "CN")}
ALMOST_ALL = Margin(0.95, "share of a word's occurrences that is almost all", least=0.5, most=1.0)
ALIKE = Margin(0.9, "smallest share of papers in the same cluster counted as approximately equal", least=0.5, most=1.0)
AMONG = Margin(
    FIGURE_R, "number of scores counted as the largest", {"words that the figure names": len(NAMED)}, least=11, most=300
)
# Table 1's results at r = 10k, of which §5 says that they are good, and of Bio's that Lloyd "worked almost perfectly".
SUFFICES = Margin(
    0.024, "excess of F over F(all) that is still good",
    {
        "Table 1 at r = 5k": 0.758 / 0.747 - 1, "at 10k": 0.751 / 0.747 - 1, "at 20k": 0.749 / 0.747 - 1,
        "Bio at 10k": 0.726 / 0.709 - 1,
    },
    most=0.1,
)  # fmt: skip
ACCURATE = Margin(
    0.065, "decrease of P against all features that is still good",
    {"Table 1 at r = 10k": 0.881 - 0.847, "Bio at 10k": 1 - 0.935},
    most=0.5,
)  # fmt: skip


def _against_table(results: Results, quantity: str) -> Finding:
    """Compare each number of the table with the distribution of its procedure, and all of them jointly."""
    symbol, words, count, draws = SYMBOLS[quantity], [], 0, []
    for number in numbers(STUDY, dataset="nips", quantity=quantity):
        try:
            rows = runs(results, STUDY, "nips", number.method, number.r)
        except NotRunError:
            continue
        m = BEST_OF if number.method == "leverage" else 1
        at = "all features" if np.isnan(number.r) else f"r = {number.r:.0f}"
        draws.append(judge_best(f"{symbol} at {at}, reported − ours", number, rows["objective"], rows[quantity], m))
        words.append(f"{at}: {number.value:.3f}, {draws[-1].law('.3f')}")
        count = max(count, len(rows))
    if not draws:
        raise NotRunError(f"no rows of {STUDY} on nips")
    every = judge_together(f"{symbol}, {counted(len(draws), 'number')} together", draws)
    return Finding(
        [*(draw.component for draw in draws), every],
        f"{symbol} reported, and ours [95 % prediction interval, {count} runs]: {'; '.join(words)}"
        f"{explain_dashes(draws)}. Jointly the reported values have p = {every.p_against:.2g}.",
    )


@claim(
    "bmd09-1",
    "At r = 5k, 10k, 20k and on all features F is .758, .751, .749 and .747 (NIPS).",
    "Table 1",
    studies=[STUDY],
    central="Results are depicted in Table 1",
    scope=SCOPE,
)
def claim1(results: Results) -> Finding:
    """F at r = 15, 30, 60 is a plausible best of 30 runs by F, and F on all features a plausible single run (NIPS).

    Null hypothesis against: the reported number is a draw from our distribution; exact two-sided p-value without any
    assumption about the distribution, with the table's rounding added on the side that favours it, and Fisher's
    combination over the numbers, which come from separate runs. For: exact binomial tests, on blocks of 30 successive
    runs, that both tails beyond the number have a probability of at least 2.5 %. One component per number and one for
    all; all must hold. There is no margin. The paper's other dataset, Bio, must be downloaded manually.
    """
    return _against_table(results, "objective")


@claim(
    "bmd09-2",
    "At r = 5k, 10k, 20k and on all features P is .847, .847, .859 and .881 (NIPS).",
    "Table 1",
    studies=[STUDY],
    central="We report the percentage of correctly classified objects (denoted by P, 0 ≤ P ≤ 1)",
    scope=SCOPE,
)
def claim2(results: Results) -> Finding:
    """P at r = 15, 30, 60 is a plausible best of 30 runs by F, and P on all features a plausible single run (NIPS).

    As for F; P is that of the run with the smallest F.
    """
    return _against_table(results, "accuracy")


@claim(
    "bmd09-3",
    "The words of largest leverage score are named in Figure 1: ruyter, hand, information, code, universality, "
    "sources, tishby, naftali, hebrew, neural, center.", "§5, Figure 1", facts=["bmd09_scores"],
    central="terms corresponding to the largest leverage scores",
)  # fmt: skip
def claim3(results: Results) -> Finding:
    """Each of the 11 words that Figure 1 names is among our 30 largest leverage scores of 6314.

    The scores are a function of the data, so one component, the greatest rank of a named word, decides with certainty.
    Our margin is 30, the number of draws of the figure.
    """
    words = results.fact("bmd09_scores")
    named = words[words["named"] == 1]
    if named.empty:
        raise NotRunError("the data contain none of the words")
    inside = int((named["rank"] <= FIGURE_R).sum())
    component = certain(
        f"greatest rank of a named word by its score, at most {AMONG}", float(named["rank"].max()), AMONG, len(NAMED),
        "(rank)", at_most=True,
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


@claim(
    "bmd09-4", "r = 10k is often sufficient for good empirical results.", "§5", studies=[STUDY],
    central={
        "objective": "for example r = 10k, is often sufficient for good empirical results",
        "accuracy": "the clustering obtained after feature selection is performed is very accurate (Table 1)",
    },
    scope=SCOPE,
    paired="single runs, another reading, are compared with the run on all features from the same starts",
)  # fmt: skip
def claim4(results: Results) -> Finding:
    """On NIPS, F at r = 10k = 30 is at most 2.4 % above F on all features, and P at most 0.065 below P on all features.

    The results that the sentence calls good are the F and P of Table 1. Both margins are the largest loss there at
    r = 10k, of Bio, of which §5 says that Lloyd's heuristic "worked almost perfectly": .726 against .709, and .935
    against 1.

    Unit: a block of 30 successive repetitions, of which the best run by F is kept, as in the paper. Its F relative to
    the mean F of all runs on all features, and its P less their mean P, are compared with the margins by t tests; the
    best of a block needs no partner, so all repetitions are used. The same for single runs, each against its run on all
    features, is reported but does not decide. "Often" is about more data than one dataset, so the verdict is about
    NIPS: the sentence can be true although r = 10k does not suffice there.
    """
    columns = ["objective", "accuracy"]
    sampled = runs(results, STUDY, "nips", "leverage", FIGURE_R).set_index(REPETITION)[columns]
    full = runs(results, STUDY, "nips", "none").set_index(REPETITION)[columns]
    pairs = sampled.join(full.add_suffix(" on all"), how="inner")
    if pairs.empty:
        raise NotRunError(f"{STUDY} has no repetition with both r = {FIGURE_R} and all features")
    kept = sampled.iloc[best_in_blocks(sampled["objective"], BEST_OF)]
    block, at = min(BEST_OF, len(sampled)), f"at r = {FIGURE_R}"
    F = below(
        f"F/F(all) − 1 {at}, best of {BEST_OF}, below {SUFFICES:g}",
        kept["objective"] / full["objective"].mean() - 1,
        SUFFICES,
        "relative F",
    )
    P = not_inferior(
        f"P − P(all) {at}, best of {BEST_OF}, above −{ACCURATE:g}",
        kept["accuracy"] - full["accuracy"].mean(),
        ACCURATE,
        "P",
    )
    typical_F = below(
        f"the same, single runs, below {SUFFICES:g}",
        pairs["objective"] / pairs["objective on all"] - 1,
        SUFFICES,
        "relative F",
    )
    typical_P = not_inferior(
        f"P − P(all) {at}, single runs, above −{ACCURATE:g}",
        pairs["accuracy"] - pairs["accuracy on all"],
        ACCURATE,
        "P",
    )
    return Finding(
        [*part_of("objective", [F]), *part_of("accuracy", [P])],
        f"On NIPS the best of {block} differs from all features by {estimate(F, '+.2%')} in F and "
        f"{estimate(P, '+.3f')} in P, over {counted(F.n, 'block')}; a typical run differs by "
        f"{estimate(typical_F, '+.2%')} and {estimate(typical_P, '+.3f')}, and for it the statements would be "
        f"{outcome([typical_F, typical_P])}. One dataset cannot refute “often”.",
        {"another reading": [*part_of("objective", [typical_F]), *part_of("accuracy", [typical_P])]},
    )


@claim(
    "bmd09-5",
    "ruyter appeared almost exclusively in documents of the first and third categories, hand in documents of the "
    "third, information in documents of the first, and code in documents of the second and third only.",
    "§5",
    facts=["bmd09_words"],
    central={
        "ruyter": "ruyter appeared almost exclusively in documents of the first and third categories",
        "hand": "hand appeared in documents of the third category",
        "information": "information appeared in documents of the first category",
        "code": "code appeared in documents of the second and third categories only",
    },
)
def claim5(results: Results) -> Finding:
    """At least 95 % of the occurrences of each of the four words are in the categories that the text gives for it.

    The text says "almost exclusively" of ruyter and "only" of code; 95 % (our margin) is the weaker reading for all of
    them. Counts are a function of the data, so each component, a word's share of occurrences, decides with certainty.
    The share of the documents that contain the word, in which one occurrence counts as much as a hundred, is the
    stricter reading; it is shown with its outcome but does not decide.
    """
    counts = results.fact("bmd09_words")
    components, of_documents, shares = list[Component](), list[Component](), []
    for word, sections in STANDS_FOR.items():
        of_word = counts[counts["word"] == word]
        if of_word.empty:
            continue
        inside = of_word["section"].isin(sections)
        total = int(of_word["occurrences"].sum())
        part = float(of_word.loc[inside, "occurrences"].sum() / total)
        where = " and ".join(CATEGORIES[section] for section in sections)
        label = f"share of {word} in {where}, at least {ALMOST_ALL:g}"
        components += part_of(word, [certain(label, part, ALMOST_ALL, total, "share")])
        documents = int(of_word["papers"].sum())
        of_papers = float(of_word.loc[inside, "papers"].sum() / documents)
        label = f"share of the documents with {word} in {where}, at least {ALMOST_ALL:g}"
        of_documents += part_of(word, [certain(label, of_papers, ALMOST_ALL, documents, "share")])
        outside = of_word[~inside]
        shares.append(
            f"{part:.1%} of {word} in {where}, and {of_papers:.1%} of its documents ({outside['papers'].sum()} of "
            f"{outside['of'].sum()} other papers have it)"
        )
    if not components:
        raise NotRunError("the data contain none of the words")
    passing = sum(outcome([component]) == "supported" for component in of_documents)
    return Finding(
        components,
        f"Share of the occurrences: {', '.join(shares)}; by documents, the share is at least {ALMOST_ALL:.0%} "
        f"for {passing} of {len(of_documents)} words, and the claim would be {outcome(of_documents)}.",
        {"another reading": of_documents},
    )


def _probability_of_drawing(p: ArrayLike, least: int, r: int) -> float:
    """Return the probability that r draws contain at least a given number of the columns, by inclusion and exclusion.

    Parameters
    ----------
    p : array_like
        Probability of each of the columns; all of their subsets are enumerated.
    """
    mass, size = np.zeros(1), np.zeros(1, dtype=int)
    for part in np.asarray(p, dtype=float):  # subsets without the column, and with it
        mass, size = np.concatenate([mass, mass + part]), np.concatenate([size, size + 1])
    # For each size, the sum over subsets of the probability that none of the subset is drawn.
    missed = np.bincount(size, weights=(1 - mass) ** r)
    few = len(missed) - 1 - least
    q = sum(
        (-1) ** (j - w) * comb(j, w) * float(missed[j]) for w in range(few + 1) for j in range(w, len(missed))
    )  # exactly w are not drawn
    return float(np.clip(q, 0.0, 1.0))


def _probability_of_distinct(p: ArrayLike, least: int, r: int, nodes: int = 200) -> float:
    """Return the probability that the first r distinct columns contain at least ``least`` of the ``least`` + 1 largest.

    With exponential waiting times of rates p, columns occur independently, and in the order of draws. The event is that
    at most r − ``least`` other columns have occurred when the ``least``-th of the largest does; it is integrated over
    the logarithm of that time.

    Parameters
    ----------
    p : array_like
        Probabilities of all columns.
    nodes : int
        Of Gauss and Legendre's rule.
    """
    scores = np.sort(np.asarray(p, dtype=float))[::-1]
    top, others = scores[: least + 1], scores[least + 1 :]
    x, weights = np.polynomial.legendre.leggauss(nodes)
    first, last = np.log([1e-6 / top[0], 50 / top[-1]])
    t = np.exp(first + (x + 1) / 2 * (last - first))
    missing = np.exp(-np.outer(t, top))
    density = np.zeros(nodes)  # of the time, by the column that occurs then and the one that occurs later
    for now, later in permutations(range(least + 1), 2):
        occurred = np.delete(1 - missing, [now, later], axis=1).prod(axis=1)
        density += top[now] * missing[:, now] * missing[:, later] * occurred
    counts = np.zeros((nodes, r - least + 1))  # of other columns; more are dropped
    counts[:, 0] = 1.0
    for rate in others[others > 0]:
        occurred = -np.expm1(-rate * t)[:, None]
        counts[:, 1:], counts[:, :1] = (
            counts[:, 1:] * (1 - occurred) + counts[:, :-1] * occurred,
            counts[:, :1] * (1 - occurred),
        )
    probability = float(np.sum(weights * density * counts.sum(axis=1) * t) * (last - first) / 2)
    return min(1.0, probability)  # which the rule may exceed by rounding


@claim(
    "bmd09-6",
    "The features that Algorithm 1 returned at r = 10k hold the words of Figure 1.",
    "§5, Figure 1",
    facts=["bmd09_scores", "bmd09_partitions"],
    central="the features returned by Algorithm 1 when the sampling parameter r is set to 10k",
)
def claim6(results: Results) -> Finding:
    """At r = 30, Algorithm 1 draws 11 or more of the 12 words of largest score with a probability of at least 0.05.

    The 11 words that the figure names are 11 of those 12. They may be named because they were drawn, so only their
    number is tested. The figure is one draw, plausible if as many are drawn with a probability of at least 0.05. The
    probability is a function of the scores (inclusion and exclusion over the 30 independent draws); it is the p-value
    against, and decides with certainty for. The figure shows the best of 30 sets by F: the number of named words in our
    best sets is reported, and the probability of exactly these 11. The other reading, that r counts
    distinct columns, is shown with its outcome but does not decide: Algorithm 1 counts draws.
    """
    words = results.fact("bmd09_scores")
    p = words["score"].nlargest(len(NAMED) + 1).to_numpy(dtype=float)
    named = words.loc[words["named"] == 1, "score"].to_numpy(dtype=float)
    if named.size < len(NAMED):
        raise NotRunError(f"the data contain only {named.size} of the {len(NAMED)} words")
    q = _probability_of_drawing(p, len(NAMED), FIGURE_R)
    very = _probability_of_drawing(named, len(NAMED), FIGURE_R)
    expected = float((1 - (1 - named) ** FIGURE_R).sum())
    label = f"probability that {FIGURE_R} draws hold {len(NAMED)} of the {len(p)} largest scores, at least {LEVEL}"
    component = Component(label, q, q, q, float(q < LEVEL), q, len(p), "probability", "number")
    distinct = _probability_of_distinct(words["score"].to_numpy(dtype=float), len(NAMED), FIGURE_R)
    other = Component(
        f"the same if draws continue until {FIGURE_R} distinct columns have occurred, at least {LEVEL}",
        distinct, distinct, distinct, float(distinct < LEVEL), distinct, len(p), "probability", "number",
    )  # fmt: skip
    sentence = (
        f"{FIGURE_R} draws contain {len(NAMED)} of the {len(p)} words of largest score with probability {q:.2g}, the "
        f"{len(NAMED)} named ones with {very:.2g}, and {expected:.1f} of these on average; if r counts "
        f"distinct columns, the first probability is {distinct:.2g}, and the claim would be {outcome([other])}"
    )
    try:
        kept = results.fact("bmd09_partitions")["named_drawn"]
        sentence += (
            f"; our {counted(len(kept), 'kept set')} (best of {BEST_OF}) contain {kept.min()} to {kept.max()} of them, "
            f"{kept.mean():.1f} on average"
        )
    except NotRunError:
        pass  # the probability does not need them
    return Finding([component], f"{sentence}.", {"another reading": [other]})


@claim(
    "bmd09-7",
    "Only a small subset of features suffices to approximately reproduce the partition obtained when all features were "
    "kept.",
    "§5",
    facts=["bmd09_partitions"],
    central="only a small subset of features suffices to approximately reproduce the partition",
    scope=SCOPE,
)
def claim7(results: Results) -> Finding:
    """At least 90 % of the papers are in the same cluster at r = 10k = 30 as on all features (NIPS).

    Unit: a block of 30 successive repetitions, whose run of smallest F is compared, as in the paper, with the run on
    all features of the same repetition. One-sided t test that the share of papers in the same cluster, under the best
    matching, is above 0.9 (our margin for "approximately"). The agreement of two runs on all features is reported.
    """
    table = results.fact("bmd09_partitions")
    if table.empty:
        raise NotRunError("no block has a run on all features to compare")
    same = above(f"share of papers in the same cluster, above {ALIKE:g}", table["agreement"], ALIKE, "share")
    sentence = (
        f"The best of {BEST_OF} at r = {FIGURE_R} assigns {estimate(same, '.1%')} of the papers like the run on all "
        f"features, over {counted(same.n, 'block')} (from {table['agreement'].min():.1%} to "
        f"{table['agreement'].max():.1%})"
    )
    sentence += f"; two runs on all features agree on {table['agreement_of_full'].mean():.1%}"
    return Finding([same], f"{sentence}.")


# -- open points


def _multiverse_answer(note: str) -> Answer:
    """Return the answer to an open point that only the multiverse addresses."""
    return lambda _: f"Measured in the multiverse, which combines it with the other choices; {note}."


def _merged(results: Results) -> str:
    """Return the mean number of distinct columns."""
    p = results.fact("bmd09_scores")["score"].to_numpy(dtype=float)
    distinct = ", ".join(f"{(1 - (1 - p) ** r).sum():.1f} of {r}" for r in (15, 30, 60))
    return (
        f"On NIPS the draws contain, on average, {distinct} distinct columns. Merging the repeats of r draws "
        "(merged=draws) preserves all distances between points, so every partition; dropping them (merged=dropped) is "
        "an option of the multiverse."
    )


def _words(results: Results) -> str:
    """Return whether the words are likely to belong to their columns."""
    counts = results.fact("bmd09_words").groupby("word")[["papers", "of"]].sum().to_dict("index")
    surnames = " and ".join(f"{word} in {counts[word]['papers']}" for word in ("tishby", "ruyter"))
    return (
        f"Hardly: in the file {surnames} of {counts['tishby']['of']} papers, though both are surnames. The paper's "
        "Figure 1 has the same words at the top, so its file had the same order."
    )


def _best_of(results: Results) -> str:
    """Return P and F of one run and of the best of 30."""
    rows = runs(results, STUDY, "nips", "leverage", FIGURE_R)
    means = [
        f"P {law(rows, m).mean(rows['accuracy']):.3f} and F {law(rows, m).mean(rows['objective']):.3f}"
        for m in (1, BEST_OF)
    ]
    return f"At r = {FIGURE_R} a single run has, on average, {means[0]}, the best of {BEST_OF} {means[1]}."


CLAIMS = (claim1, claim2, claim3, claim4, claim5, claim6, claim7)
ANSWERS = {
    "merged": _merged,
    "online_phase": _multiverse_answer(
        "kmeans.online=true runs the phase, which can only lower the k-means objective on C"
    ),
    "empty_action": _multiverse_answer(
        "the alternatives are kmeans.empty_action=drop and error; error was not measured"
    ),
    "words": _words,
    "best_of": _best_of,
}
