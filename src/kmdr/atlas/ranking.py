"""Rankings of methods over datasets: average ranks, a test of equality, groups that no test separates; and trade-offs.

A block is a dataset, whatever the number of its forms and repetitions; datasets of one source (`SAME_SOURCE`) are one
block, because they are not independent. Friedman's test comes first; if it does not
reject equality, all methods are one group. Otherwise two methods differ if their average ranks are further apart than
Nemenyi's critical difference, and there is a winner only if it differs from the second.

Methods of third parties are ranked one at a time, each among kmdr's methods and itself alone. However many there are,
they change neither the ranks and tests of the others nor each other's.

Two packages offer such comparisons. autorank chooses the test from tests of normality; for more than two methods with
data like these it takes Friedman's and Nemenyi's too, so it gives the same ranks and distance. baycomp computes, for
one pair, the posterior probabilities that one method is better, practically equal, or worse (Bayesian signed-rank).
It can show equality, which a test cannot, and a pair does not depend on the other methods. But it needs a margin and a
prior, draws at random, and makes no joint statement on hundreds of pairs. The atlas takes Friedman and Nemenyi from
scipy: one statement for all methods, a figure that shows it, and an error rate that holds for all pairs together. Its
price is that the critical difference grows with the number of methods, so fewer differences are shown.

References
----------
Demšar, Statistical comparisons of classifiers over multiple data sets, JMLR 7, 2006.
Benavoli, Corani, Mangili, Should we really use post-hoc tests based on mean-ranks?, JMLR 17, 2016.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import f as fisher
from scipy.stats import friedmanchisquare, studentized_range

from kmdr.analysis.ranks import mean_ranks, profiles, rank_methods
from kmdr.analysis.rows import mean_interval
from kmdr.analysis.significance import LEVEL
from kmdr.atlas.design import design
from kmdr.atlas.effects import DATA, LEAST, REFERENCE, source_names

# Whether the smallest value is the best.
ASCENDING = {"loss": True, "accuracy": False, "ari": False, "nmi": False, "time": True}
BUDGETS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
ALL_FORMS = "all forms"
# The F approximation is poor for fewer blocks or methods.
FEWEST_DATASETS, FEWEST_METHODS = 5, 3
ALONE = "Each submission is ranked and tested among kmdr's methods and itself alone."
_SETS = 20_000  # sets of methods that are compared in the search for the largest block


class Condition(NamedTuple):
    """Where methods are compared: at r, as a multiple of k, or within a time, as a share of that of all features."""

    multiple: float = math.nan
    budget: float = math.nan

    def __str__(self) -> str:
        """Return the condition in words, e.g. ``r = 20 k`` or ``time ≤ 10 %``."""
        if math.isnan(self.budget):
            return f"r = {self.multiple:g} k"
        return f"time ≤ {100 * self.budget:g} %"


class Block(NamedTuple):
    """The largest set of datasets and methods without a gap.

    Attributes
    ----------
    values : DataFrame
        One row per dataset, or source of several, one column per method.
    methods, datasets : tuple of str
        The omitted methods and datasets, the latter also because the condition does not apply to them.
    """

    values: pd.DataFrame
    methods: tuple[str, ...]
    datasets: tuple[str, ...]


class Ranking(NamedTuple):
    """A comparison of methods over datasets.

    Attributes
    ----------
    ranks : DataFrame
        `kmdr.analysis.ranks.mean_ranks`: one row per method, the best first.
    chi2 : float
        Friedman's statistic, corrected for ties.
    F, p : float
        Iman and Davenport's statistic, and its p-value; NaN with too few datasets or methods for the test.
    distance : float
        Nemenyi's critical difference of average ranks at 5 %.
    groups : tuple of tuple of str
        The largest sets of methods that are not distinguished, the best first.
    joined : mapping of str to Ranking
        By method of a third party: the ranking of these methods and it alone.
    """

    quantity: str
    condition: Condition
    form: str
    block: Block
    ranks: pd.DataFrame
    chi2: float
    F: float
    p: float
    distance: float
    groups: tuple[tuple[str, ...], ...]
    joined: "Mapping[str, Ranking]"

    @property
    def is_rejected(self) -> bool:
        """True if the test rejects that all methods are equal."""
        return self.p <= LEVEL

    @property
    def leaders(self) -> tuple[str, ...]:
        """The methods that are not distinguished from the one with the best average rank."""
        return self.groups[0] if self.groups else ()

    @property
    def best(self) -> tuple[str, ...]:
        """The methods that the test does not show to be worse than the best, third parties' methods among them."""
        shown = self.leaders if self.is_rejected else ()
        return (*shown, *(name for name, alone in self.joined.items() if name in alone.best))

    @property
    def mean_ranks(self) -> "pd.Series[float]":
        """The average rank of each method, third parties' methods among them, the best first."""
        theirs = {name: float(alone.ranks["mean"][name]) for name, alone in self.joined.items()}
        ranks: pd.Series[float] = pd.concat([self.ranks["mean"], pd.Series(theirs, dtype=float)])
        return ranks.sort_values(kind="stable")

    @property
    def group_numbers(self) -> list[str]:
        """The numbers of the groups of each method, from 1 and separated by spaces, the best method first."""
        return [
            " ".join(str(i) for i, group in enumerate(self.groups, 1) if name in group) for name in self.ranks.index
        ]

    @property
    def winner(self) -> str:
        """The method that is better than every other; empty if the test shows none."""
        return self.leaders[0] if self.is_rejected and len(self.leaders) == 1 else ""


# -- values ----------------------------------------------------------------------------------------------------------


def usable(effects: pd.DataFrame) -> pd.DataFrame:
    """Return the lines without a failed trial, because the trials that succeed may differ from the others.

    They have ``time``, the seconds as a share of that of all features, and ``source``.
    """
    some: pd.DataFrame = effects[effects["loss"].notna() & (effects["failed"] == "")]
    time = some["seconds"] / some["seconds_none"].where(some["seconds_none"] > LEAST)
    return some.assign(time=time, source=source_names(some["dataset"]))


def chosen_lines(effects: pd.DataFrame, condition: Condition) -> pd.DataFrame:
    """Return the line of each method on each form of each dataset under a condition.

    At a multiple of k, data with more features than that take part, and methods with one r if it is not larger. K-means
    on all features is the reference: it takes part at every r.

    Within a time, a method has the r of least F, which is known without labels; methods of which no r is fast enough
    have a line with infinite loss, and NaN as r. K-means on all features takes part from 100 % on.
    """
    some = usable(effects)
    key = [*DATA, "method"]
    if math.isnan(condition.budget):
        most = np.ceil(condition.multiple * some["k"])
        at = (some["multiple"] == condition.multiple) | (some["multiple"].isna() & (some["r"] <= most))
        lines: pd.DataFrame = some[(at | (some["method"] == REFERENCE)) & (most < some["d"])]
        return lines.sort_values("r", kind="stable").drop_duplicates(key)
    some = some[some["time"].notna()]
    if condition.budget < 1:
        some = some[some["method"] != REFERENCE]
    fast = some[some["time"] <= condition.budget].sort_values(["loss", "r"], kind="stable").drop_duplicates(key)
    others = some.drop_duplicates(key).merge(fast[key], how="left", indicator=True).query("_merge == 'left_only'")
    worst = {name: math.inf if ascending else -math.inf for name, ascending in ASCENDING.items()}
    known = {name: np.where(others[name].notna(), value, np.nan) for name, value in worst.items()}
    return pd.concat([fast, others.drop(columns="_merge").assign(r=np.nan, **known)], ignore_index=True)


def values_of(effects: pd.DataFrame, quantity: str, condition: Condition, form: str = ALL_FORMS) -> pd.DataFrame:
    """Return a quantity under a condition: one row per source of data, one column per method, NaN where there is none.

    It is the mean over the datasets of the source and their forms; a method that lacks one of these has none.
    """
    return _tabulate(chosen_lines(effects, condition), quantity, form)


def _tabulate(lines: pd.DataFrame, quantity: str, form: str, columns: str = "method") -> pd.DataFrame:
    """Return a quantity of some lines as `values_of` does."""
    lines = lines if form == ALL_FORMS else lines[lines["form"] == form]
    table = lines.pivot(index=["source", *DATA], columns=columns, values=quantity)
    table = table.dropna(how="all").dropna(axis=1, how="all")
    by_dataset = table.groupby(["source", "dataset"])
    mean: pd.DataFrame = by_dataset.mean().where(by_dataset.count().eq(by_dataset.size(), axis=0))
    by_source = mean.groupby("source")
    means: pd.DataFrame = by_source.mean().where(by_source.count().eq(by_source.size(), axis=0))
    return means


def largest_block(values: pd.DataFrame, third_parties: Collection[str] = ()) -> Block:
    """Return the datasets and methods without a gap that have the most values together.

    Of equally many values, the block with more datasets is taken, then with the methods that come first by name.
    Methods of third parties do not choose the datasets: those without a gap on the block of the others join it.

    Examples
    --------
    >>> table = pd.DataFrame({"a": [1.0, 2, 3], "b": [1.0, 2, np.nan], "c": [1.0, np.nan, np.nan]})
    >>> list(largest_block(table).values.columns), largest_block(table).datasets
    (['a', 'b'], (2,))
    """
    every, hosts = sorted(values.columns), sorted(set(values.columns) - {*third_parties})
    names = hosts or every
    known = values[names].notna()
    patterns = {frozenset(known.columns[line]) for line in known.to_numpy()}
    # The methods of the best block are those that some datasets have in common.
    sets = {frozenset(names)}
    for pattern in sorted(patterns, key=lambda some: (-len(some), sorted(some))):
        sets |= {some & pattern for some in sets}
        if len(sets) > _SETS:
            sets = set(sorted(sets, key=lambda some: (-_size(known, some)[0], sorted(some)))[: _SETS // 2])
    best = min((some for some in sets if some), key=lambda some: (*(-n for n in _size(known, some)), sorted(some)))
    complete = known[sorted(best)].all(axis=1)
    joining = {name for name in every if name not in names and values.loc[complete, name].notna().all()}
    columns = [name for name in every if name in best | joining]
    block = values.loc[complete, columns].sort_index()
    return Block(block, tuple(n for n in every if n not in columns), tuple(values.index[~complete].sort_values()))


def _size(known: pd.DataFrame, methods: Iterable[str]) -> tuple[int, int]:
    """Return the number of values of the block with some methods, and its number of datasets."""
    columns = sorted(methods)
    datasets = int(known[columns].all(axis=1).sum()) if columns else 0
    return datasets * len(columns), datasets


# -- tests -----------------------------------------------------------------------------------------------------------


@cache  # the quantile takes a tenth of a second
def critical_difference(methods: int, datasets: int) -> float:
    """Return Nemenyi's critical difference of average ranks.

    Examples
    --------
    >>> round(critical_difference(4, 14), 2)
    1.25
    """
    quantile = studentized_range.ppf(1 - LEVEL, methods, np.inf) / math.sqrt(2)
    return float(quantile * math.sqrt(methods * (methods + 1) / (6 * datasets)))


def groups_within(ranks: "pd.Series[float]", distance: float) -> tuple[tuple[str, ...], ...]:
    """Return the largest sets of methods whose average ranks, in ascending order, are within a distance.

    Examples
    --------
    >>> groups_within(pd.Series({"a": 1.0, "b": 1.6, "c": 2.4}), 1.0)
    (('a', 'b'), ('b', 'c'))
    """
    names, values = [str(name) for name in ranks.index], ranks.to_numpy(dtype=float)
    ends = np.searchsorted(values, values + distance, side="right")
    groups, covered = [], 0
    for start, end in enumerate(ends):
        if end > covered:
            groups.append(tuple(names[start:end]))
            covered = int(end)
    return tuple(groups)


def sources_of(effects: pd.DataFrame) -> set[str]:
    """Return the sources of the data of some effects."""
    return set(source_names(effects["dataset"]))


def rank(
    lines: pd.DataFrame,
    quantity: str,
    condition: Condition,
    form: str,
    sources: set[str],
    third_parties: Collection[str] = (),
) -> Ranking | None:
    """Return the ranking of methods by a quantity under a condition; None if there are no two to compare.

    Parameters
    ----------
    lines : DataFrame
        From `chosen_lines` under the condition.
    quantity : str
        One of `ASCENDING`: ``loss`` (of F), ``accuracy``, ``ari``, ``nmi`` or ``time``.
    form : str
        A form of the data, or `ALL_FORMS`.
    sources : set of str
        From `sources_of`: the sources of all data, of which the condition may exclude some.
    third_parties : collection of str
        Methods that are ranked one at a time, and do not choose the datasets, see `largest_block`.
    """
    values = _tabulate(lines, quantity, form)
    if not np.isfinite(values).any(axis=None):  # as when no method is fast enough
        return None
    block = largest_block(values, third_parties)
    if block.values.shape[1] < 2:
        return None
    block = block._replace(datasets=tuple(sorted(sources - set(block.values.index))))
    ranking = partial(compare_methods, quantity=quantity, condition=condition, form=form)
    joined = [name for name in block.values if name in {*third_parties}]
    hosts = block.values.drop(columns=joined)
    if hosts.shape[1] < 2:
        return ranking(block)
    alone = {name: ranking(block._replace(values=hosts.assign(**{name: block.values[name]}))) for name in joined}
    return ranking(block._replace(values=hosts))._replace(joined=alone)


def compare_methods(block: Block, quantity: str, condition: Condition, form: str) -> Ranking:
    """Return the ranking of the methods of a block, with Friedman's test and Nemenyi's groups."""
    # Of order 1, so that rounding errors of losses and differences near 0 are ties.
    values = block.values + 1.0 if quantity != "time" else block.values
    ordered = mean_ranks(values, ASCENDING[quantity])
    N, k = values.shape
    chi2, F, p, distance = math.nan, math.nan, math.nan, math.nan
    if N >= FEWEST_DATASETS and k >= FEWEST_METHODS:
        by_dataset = rank_methods(values, ASCENDING[quantity]).to_numpy()
        distance = critical_difference(k, N)
        chi2, F, p = 0.0, 0.0, 1.0
        if np.ptp(by_dataset, axis=1).any():
            chi2 = float(friedmanchisquare(*by_dataset.T).statistic)
            rest = N * (k - 1) - chi2
            F = (N - 1) * chi2 / rest if rest > 1e-9 * chi2 else math.inf
            p = float(fisher.sf(F, k - 1, (k - 1) * (N - 1)))
    groups = groups_within(ordered["mean"], distance if p <= LEVEL else math.inf)
    return Ranking(quantity, condition, form, block, ordered, chi2, F, p, distance, groups, {})


# -- all rankings ----------------------------------------------------------------------------------------------------


def conditions(effects: pd.DataFrame, budgets: Iterable[float] = BUDGETS) -> list[Condition]:
    """Return the conditions that some effects allow: multiples of k, then budgets of time."""
    multiples = [Condition(multiple=m) for m in design().multiples if (effects["multiple"] == m).any()]
    return multiples + ([Condition(budget=b) for b in budgets] if effects["seconds"].notna().any() else [])


def rankings(effects: pd.DataFrame) -> list[Ranking]:
    """Return the rankings by each quantity under each condition, for all forms together and each form."""
    forms = sorted(effects["form"].unique())
    forms = [*([ALL_FORMS] if len(forms) > 1 else []), *forms]
    several, sources = [], sources_of(effects)
    for condition in conditions(effects):
        lines = chosen_lines(effects, condition)
        some = ["loss", "accuracy", "ari", *(["time"] if math.isnan(condition.budget) else [])]
        several += [rank(lines, name, condition, form, sources) for form in forms for name in some]
    return [ranking for ranking in several if ranking is not None]


def outcomes_table(several: Iterable[Ranking]) -> pd.DataFrame:
    """Return one line per ranking: its block, test, critical difference, winner, and what was omitted."""
    lines = [
        {
            "form": r.form, "quantity": r.quantity, "condition": str(r.condition),
            "datasets": len(r.block.values), "methods": r.block.values.shape[1],
            "chi2": r.chi2, "F": r.F, "p": r.p, "critical_difference": r.distance,
            "winner": r.winner, "leaders": "; ".join(r.leaders),
            "omitted_methods": "; ".join(r.block.methods), "omitted_datasets": "; ".join(r.block.datasets),
        }
        for r in several
    ]  # fmt: skip
    columns = ["form", "quantity", "condition", "datasets", "methods", "chi2", "F", "p", "critical_difference",
               "winner", "leaders", "omitted_methods", "omitted_datasets"]  # fmt: skip
    return pd.DataFrame(lines, columns=columns)


def ranks_table(several: Iterable[Ranking]) -> pd.DataFrame:
    """Return one line per ranking and method, the best first: average rank, its 95 % interval, and the groups."""
    parts = []
    for ranking in several:
        ranks = ranking.ranks
        parts.append(
            pd.DataFrame(
                {
                    "form": ranking.form, "quantity": ranking.quantity, "condition": str(ranking.condition),
                    "method": ranks.index, "rank": ranks["mean"].to_numpy(), "low": ranks["low"].to_numpy(),
                    "high": ranks["high"].to_numpy(), "datasets": ranks["count"].to_numpy(),
                    "groups": ranking.group_numbers,
                }
            )
        )  # fmt: skip
    columns = ["form", "quantity", "condition", "method", "rank", "low", "high", "datasets", "groups"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


# -- profiles and trade-offs -----------------------------------------------------------------------------------------


def performance_profiles(effects: pd.DataFrame, condition: Condition, form: str) -> pd.DataFrame:
    """Return the share of datasets on which each method's F is within a factor of the best (Dolan–Moré).

    A method without a value on a dataset is not within any factor there. Columns as of
    `kmdr.analysis.ranks.profiles`.
    """
    return profiles(values_of(effects, "loss", condition, form) + 1.0, with_gaps=True)


def is_on_front(time: "pd.Series[float]", loss: "pd.Series[float]") -> "pd.Series[bool]":
    """Return a mask of the points on the Pareto front: none is at least as good in both and better in one.

    Examples
    --------
    >>> is_on_front(pd.Series([1.0, 2.0, 2.0, 3.0]), pd.Series([5.0, 4.0, 4.0, 4.5])).tolist()
    [True, True, True, False]
    """
    points = pd.DataFrame({"time": time, "loss": loss})
    known = points.dropna().sort_values(["time", "loss"], kind="stable")
    least_before = known.groupby("time")["loss"].min().cummin().shift(fill_value=math.inf)
    best_now = known.groupby("time")["loss"].transform("min")
    front = (known["loss"] == best_now) & (known["loss"] < known["time"].map(least_before))
    return front.reindex(points.index, fill_value=False)


def pareto_over_datasets(
    effects: pd.DataFrame, form: str = ALL_FORMS, third_parties: Collection[str] = ()
) -> pd.DataFrame:
    """Return the mean time and loss of each method at each multiple of k, and which are on the front.

    The means are over the datasets that these have in common, see `largest_block`.

    Means are geometric, of the time as a share of that of all features and of F/F_none; each has its 95 % t interval
    over datasets. Columns ``method multiple datasets time time_low time_high loss loss_low loss_high front``.
    """
    points = usable(effects)
    points = points[(points["time"] > 0) & (points["loss"] > -1)]
    points = points.assign(
        multiple=points["multiple"].fillna(0.0), loss=np.log1p(points["loss"]), time=np.log(points["time"])
    )
    points = points.drop_duplicates([*DATA, "method", "multiple"])
    pairs = list(zip(points["method"], points["multiple"], strict=True))
    labels = {pair: f"{number:06d}" for number, pair in enumerate(sorted(set(pairs)))}
    points = points.assign(key=[labels[pair] for pair in pairs])
    columns = ["method", "multiple", "datasets", *(f"{n}{e}" for n in ("time", "loss") for e in ("", "_low", "_high"))]
    tables = {name: _tabulate(points, name, form, "key") for name in ("time", "loss")}
    if tables["time"].empty:
        return pd.DataFrame(columns=[*columns, "front"])
    block = largest_block(
        tables["time"], [key for (method, _), key in labels.items() if method in third_parties]
    ).values
    lines = []
    for (method, multiple), key in labels.items():
        if key not in block.columns:
            continue
        line: dict[str, object] = {"method": method, "multiple": multiple or math.nan, "datasets": len(block)}
        for name, inverse in (("time", math.exp), ("loss", math.expm1)):
            interval = mean_interval(tables[name].loc[block.index, key])
            line |= dict(zip((name, f"{name}_low", f"{name}_high"), map(inverse, interval[:3]), strict=True))
        lines.append(line)
    table = pd.DataFrame(lines, columns=columns)
    return table.assign(front=is_on_front(table["time"], table["loss"]))
