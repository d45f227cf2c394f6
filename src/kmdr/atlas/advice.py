"""Advice for a new matrix: which methods and r the atlas supports, and how good such advice is on held-out data.

A *choice* is a method with a size: a multiple of k, or its only r. The *regret* of a choice on a matrix is how much
more F it loses, relative to k-means on all features, than the best choice that is at least as fast as asked; at most
`MOST_REGRET`, which is also the regret of a choice that fails or is slower than asked.

The advice for a matrix is the choices of least mean regret on some matrices of the atlas: on all of them, on all of
its domain, or on the ones with the nearest traits. Which of these is used is decided by holding out one source of data
after the other, and how good the advice is, by an outer loop of the same kind around this decision.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kmdr.atlas.effects import source_names
from kmdr.atlas.traits import TRAITS
from kmdr.base.errors import UserError
from kmdr.base.text import counted

Floats = NDArray[np.float64]

# Asked by default: half of the time of k-means on all features.
SPEEDUP = 2.0
# Beyond this, an advice is of no use, whatever the number is.
MOST_REGRET = 0.2
# The candidates: the mean regret on all matrices, on all of its domain, and on the nearest datasets.
GLOBAL, DOMAIN = "all datasets", "its domain"
NEAREST = {"the 3 nearest datasets": 3, "the 5 nearest datasets": 5, "the 10 nearest datasets": 10}
# Methods without a grid use one of these r.
_AT_K, _AT_D = "k", "d"
# Traits of which the logarithm is compared, because they span orders of magnitude.
_LOGARITHMIC = ("n", "d", "k", "aspect", "density", "stable_rank", "coherence")
_LEAST_WEIGHT = 0.5  # share of the weight on matrices where a choice must have been tried
_SAMPLES = 10_000
_MOST_ADVISED = 3  # choices
_SHARE = 0.9  # of the held-out matrices lie in the interval of an expected value


class Choice(NamedTuple):
    """A method of the atlas with its size.

    Attributes
    ----------
    multiple : float or str
        r as a multiple of k; ``"k"`` or ``"d"`` if this is the only r of the method.
    """

    method: str
    multiple: float | str

    def r(self, k: int, d: int) -> int:
        """Return the number of dimensions for some k and d."""
        if isinstance(self.multiple, str):
            return k if self.multiple == _AT_K else d
        return int(np.ceil(self.multiple * k))

    def fits(self, k: int, d: int) -> bool:
        """Return True if r is below d, or is the only r of the method."""
        return self.multiple == _AT_D or self.r(k, d) < d


class Estimate(NamedTuple):
    """An expected value with the interval that holds 90 % of the held-out matrices."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Goal:
    """What is asked for.

    Attributes
    ----------
    speedup : float
        Least time of k-means on all features over that of the method, total times; 0 for any.
    multiple : float or None
        r as a multiple of k if it is given.
    """

    speedup: float = SPEEDUP
    multiple: float | None = None

    def allows(self, choice: Choice, multiples: Sequence[float]) -> bool:
        """Return True if a choice has the r asked for, or the nearest of the atlas's multiples to it."""
        if self.multiple is None:
            return True
        if isinstance(choice.multiple, str):
            return choice.multiple == _AT_K and self.multiple == 1
        return choice.multiple == self.nearest(multiples)

    def nearest(self, multiples: Sequence[float]) -> float | None:
        """Return the multiple of the atlas that is nearest, by ratio, to the one asked for; None if none is."""
        wanted = self.multiple
        return None if wanted is None else min(multiples, key=lambda multiple: abs(np.log(multiple / wanted)))


@dataclass(frozen=True)
class Evidence:
    """The effects of the atlas, by matrix and choice.

    Attributes
    ----------
    matrices : DataFrame
        One line per dataset and form: ``dataset``, ``form``, ``domain``, ``source``, and its traits.
    choices : list of Choice
    loss : (matrices, choices) ndarray
        F over that of k-means on all features, minus 1; NaN where it was not tried or failed.
    accuracy : (matrices, choices) ndarray
        Difference of the accuracy P to that of k-means on all features; NaN without labels.
    speedup : (matrices, choices) ndarray
    failed : (matrices, choices) ndarray of bool
    """

    matrices: pd.DataFrame
    choices: list[Choice]
    loss: Floats
    accuracy: Floats
    speedup: Floats
    failed: NDArray[np.bool_]

    @cached_property
    def multiples(self) -> list[float]:
        """The multiples of k that were tried."""
        return sorted({choice.multiple for choice in self.choices if not isinstance(choice.multiple, str)})

    @cached_property
    def sources(self) -> list[str]:
        """The sources of the data, each once."""
        return list(dict.fromkeys(self.matrices["source"]))

    @cached_property
    def compared(self) -> Floats:
        """The traits of each matrix as they are compared, before standardising."""
        table = self.matrices[list(TRAITS)].astype(float)
        return np.array([comparable(dict(zip(TRAITS, line, strict=True))) for line in table.to_numpy()])

    @cached_property
    def shares(self) -> Floats:
        """The weight of each matrix: 1 for each dataset, in equal parts for its forms."""
        return 1 / self.matrices.groupby("dataset")["form"].transform("size").to_numpy(dtype=float)

    def without(self, source: str) -> "Evidence":
        """Return the evidence of the matrices of all other sources."""
        kept = (self.matrices["source"] != source).to_numpy()
        matrices = self.matrices[kept].reset_index(drop=True)
        loss, accuracy, speedup = (values[kept] for values in (self.loss, self.accuracy, self.speedup))
        return Evidence(matrices, self.choices, loss, accuracy, speedup, self.failed[kept])

    def regrets(self, goal: Goal) -> Floats:
        """Return the regret of each choice on each matrix.

        It is NaN where the choice was not tried, was not timed although a speed-up is asked for, or has another r than
        asked for, and on matrices where nothing is as fast as asked.
        """
        allowed = np.array([goal.allows(choice, self.multiples) for choice in self.choices])
        timed = np.isfinite(self.speedup) | (goal.speedup == 0)
        good = allowed & np.isfinite(self.loss) & timed & ~(self.speedup < goal.speedup)
        least = np.where(good, self.loss, np.inf).min(axis=1, keepdims=True)
        regrets = np.where(good, np.minimum(self.loss - np.where(np.isfinite(least), least, 0.0), MOST_REGRET), np.nan)
        tried = (self.failed | np.isfinite(self.loss) & timed) & allowed & np.isfinite(least)
        return np.asarray(np.where(tried & ~good, MOST_REGRET, regrets))


def comparable(traits: Mapping[str, float]) -> list[float]:
    """Return the traits of a matrix as they are compared: logarithms of those that span orders of magnitude."""
    return [float(np.log(traits[name])) if name in _LOGARITHMIC else float(traits[name]) for name in TRAITS]


def evidence(effects: pd.DataFrame, traits: pd.DataFrame) -> Evidence:
    """Return the evidence of an atlas.

    ``effects`` has one line per dataset, form, method and r; ``traits`` has ``dataset``, ``form`` and the columns of
    `TRAITS`. Matrices without traits are not used.
    """
    effects = effects.assign(multiple=_multiples(effects))
    key = ["dataset", "form"]
    known = traits.drop_duplicates(key).set_index(key)[list(TRAITS)]
    matrices = effects.drop_duplicates(key)[[*key, "domain"]].join(known, on=key, how="inner").reset_index(drop=True)
    if len(matrices) == 0:
        raise UserError("no dataset of the atlas has both effects and traits; run 'kmdr atlas' to make them")
    matrices.insert(3, "source", source_names(matrices["dataset"]))
    pairs = effects[["method", "multiple"]].drop_duplicates().itertuples(index=False)
    choices = [Choice(str(method), multiple) for method, multiple in pairs]
    lines = pd.MultiIndex.from_frame(matrices[key])
    columns = pd.MultiIndex.from_tuples([(choice.method, str(choice.multiple)) for choice in choices])
    labelled = effects.assign(multiple=effects["multiple"].astype(str))
    # Two r of a grid may be nearest to the same multiple; the first stands for it.
    cells = labelled.drop_duplicates([*key, "method", "multiple"]).set_index([*key, "method", "multiple"])

    def wide(column: "pd.Series[float]") -> Floats:
        table = column.unstack(["method", "multiple"])
        return table.reindex(index=lines, columns=columns).to_numpy(dtype=float)

    failed = cells["failed"].fillna("").astype(str) != ""
    values = {name: cells[name].astype(float).where(~failed) for name in ("loss", "accuracy", "speedup")}
    return Evidence(
        matrices, choices, **{name: wide(column) for name, column in values.items()},
        failed=wide(failed.astype(float)) == 1,
    )  # fmt: skip


def _multiples(effects: pd.DataFrame) -> list[float | str]:
    """Return the multiple of each line; for methods with one r, whether it is k or d."""
    single = effects["multiple"].isna()
    at_k = effects.assign(at_k=(effects["r"] == effects["k"]) | ~single).groupby("method")["at_k"].all()
    return [
        float(multiple) if pd.notna(multiple) else _AT_K if at_k[method] else _AT_D
        for multiple, method in zip(effects["multiple"], effects["method"], strict=True)
    ]


# -- predicting ------------------------------------------------------------------------------------------------------


def candidates(*, with_domain: bool) -> list[str]:
    """Return the names of the ways to predict, from the simplest; that by domain only where a domain is known."""
    return [GLOBAL, *([DOMAIN] if with_domain else []), *NEAREST]


def weights(
    candidate: str, known: Evidence, traits: Floats, domains: Sequence[str], usable: NDArray[np.bool_]
) -> Floats:
    """Return the weight of each matrix of the atlas in the prediction for some others.

    Parameters
    ----------
    traits : (targets, traits) ndarray
        Of `comparable`.
    domains : sequence of str
        Of the targets.
    usable : (targets, matrices) ndarray of bool
        False for the matrices that are held out.

    Returns
    -------
    (targets, matrices) ndarray
        Without a usable matrix of the domain, the weights of `GLOBAL`.
    """
    everything = usable * known.shares
    if candidate == GLOBAL:
        return np.asarray(everything)
    if candidate == DOMAIN:
        alike = np.array(domains)[:, None] == known.matrices["domain"].to_numpy()[None, :]
        within = everything * alike
        return np.where(within.any(axis=1, keepdims=True), within, everything)
    distances = np.empty(usable.shape)
    for lines in _alike(usable):
        train = known.compared[usable[lines[0]]]
        spread = train.std(axis=0)
        scale = np.where(spread > 1e-9, spread, np.inf)  # a trait that all share tells nothing
        distances[lines] = (((traits[lines][:, None] - known.compared) / scale) ** 2).sum(axis=2)
    distances = np.where(usable, distances, np.inf)
    # Of each dataset, the nearest form; of these, the nearest datasets.
    result = np.zeros(usable.shape)
    names = known.matrices["dataset"].to_numpy()
    nearest = np.stack([_nearest_form(distances, names == name) for name in dict.fromkeys(names)], axis=1)
    reached = np.take_along_axis(distances, nearest, axis=1)
    order = np.argsort(reached, axis=1, kind="stable")[:, : NEAREST[candidate]]
    chosen = np.take_along_axis(nearest, order, axis=1)
    np.put_along_axis(result, chosen, 1.0, axis=1)
    return result * usable


def _alike(usable: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
    """Return the positions of the targets that have the same usable matrices."""
    groups: dict[bytes, list[int]] = {}
    for line, mask in enumerate(usable):
        groups.setdefault(mask.tobytes(), []).append(line)
    return [np.array(lines) for lines in groups.values()]


def _nearest_form(distances: Floats, of_dataset: NDArray[np.bool_]) -> NDArray[np.int64]:
    positions = np.flatnonzero(of_dataset)
    return np.asarray(positions[distances[:, positions].argmin(axis=1)])


def average(W: Floats, values: Floats) -> Floats:
    """Return the weighted mean of each column over the lines that have it; NaN where half of the weight lacks it."""
    has = np.isfinite(values)
    share = W @ has
    with np.errstate(invalid="ignore", divide="ignore"):
        means = (W @ np.where(has, values, 0.0)) / share
    return np.where(share >= _LEAST_WEIGHT * W.sum(axis=1, keepdims=True), means, np.nan)


def median(W: Floats, column: Floats) -> Floats:
    """Return, for each line of weights, the weighted median of a column; NaN where half of the weight lacks a value.

    Examples
    --------
    >>> median(np.array([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0]]), np.array([3.0, 1.0, 8.0])).tolist()
    [3.0, 2.0]
    """
    order = np.argsort(column, kind="stable")
    values = column[order]
    known = np.where(np.isfinite(values), W[:, order], 0.0)
    total = known.sum(axis=1, keepdims=True)
    reached = np.cumsum(known, axis=1) - total / 2
    low = (reached >= -1e-9).argmax(axis=1)
    high = (reached > 1e-9).argmax(axis=1)
    middle = (values[low] + values[high]) / 2
    return np.where(total[:, 0] >= np.maximum(_LEAST_WEIGHT * W.sum(axis=1), 1e-9), middle, np.nan)


def _least(expected: Floats) -> NDArray[np.int64]:
    """Return the position of the least value of each line; −1 where it has none."""
    filled = np.where(np.isfinite(expected), expected, np.inf)
    return np.where(np.isfinite(filled).any(axis=1), filled.argmin(axis=1), -1)


# -- how good it is --------------------------------------------------------------------------------------------------


class Comparison(NamedTuple):
    """The mean regret of a simple rule, and that of the advice minus it, with a 95 % bootstrap interval."""

    rule: str
    regret: float
    difference: Estimate

    @property
    def difference_text(self) -> str:
        """The difference with its interval."""
        value, low, high = (percent(number, signed=True) for number in self.difference)
        return f"{value} [95 % interval {low}, {high}]"

    @property
    def verdict(self) -> str:
        """Whether the advice is better, worse or neither."""
        if self.difference.high < 0:
            return "better than"
        return "worse than" if self.difference.low > 0 else "not shown to be better than"


@dataclass(frozen=True)
class Validation:
    """How good advice is on datasets whose source was held out.

    Attributes
    ----------
    candidate : str
        The way to predict that had the least mean regret; it is used for new data.
    regret : Estimate
        Mean regret of the advice, the way to predict being chosen without the held-out source, too.
    kept : float
        Share of the datasets where the advised choice was as fast as asked and its regret less than `MOST_REGRET`.
    comparisons : list of Comparison
        With simple rules.
    datasets, sources : int
        The number of datasets on which something is as fast as asked, and of their sources.
    """

    candidate: str
    regret: Estimate
    kept: float
    comparisons: list[Comparison]
    datasets: int
    sources: int

    @property
    def sentence(self) -> str:
        """Whether the advice is better than random signs at r = 20 k, in words."""
        rule = self.comparisons[0]
        return (
            f"On {counted(self.datasets, 'dataset')}, each held out in turn with all others of its source, the advised "
            f"choice loses {percent(self.regret.value)} more of F than the best one that is as fast as asked; for "
            f"{rule.rule} it is {percent(rule.regret)} (means over datasets, compared with that best one, not with all "
            f"features). The difference is {rule.difference_text}: the advice is {rule.verdict} {rule.rule}."
        )


def percent(value: float, *, signed: bool = False) -> str:
    """Return a share in percent.

    Examples
    --------
    >>> percent(0.01234), percent(-0.2, signed=True), percent(0.00001, signed=True)
    ('1.2 %', '−20.0 %', '0.0 %')
    """
    text = f"{100 * value:+z.1f}" if signed else f"{100 * value:z.1f}"
    return f"{text.lstrip('+') if float(text) == 0 else text} %".replace("-", "−")


def validate(known: Evidence, goal: Goal, rules: Mapping[str, Choice], *, with_domain: bool) -> Validation:
    """Return the quality of advice on held-out data, compared with simple rules.

    Raise `UserError` if fewer than three sources have a choice that is as fast as asked.

    Parameters
    ----------
    rules : mapping of str to Choice
        The first is the one that the advice must beat. A rule whose r does not fit a matrix uses the largest r of its
        method that does. ``"the choice that is best on average"`` is added.
    with_domain : bool
        Whether the domain of the new data is known.
    """
    R = known.regrets(goal)
    tested: NDArray[np.bool_] = np.asarray(np.isfinite(R).any(axis=1))
    source, dataset = known.matrices["source"].to_numpy(), known.matrices["dataset"].to_numpy()
    sources = list(dict.fromkeys(source[tested]))
    if len(sources) < 3:
        raise UserError(
            f"a method that is {goal.speedup:g} times as fast as k-means on all features is known for data of "
            f"{counted(len(sources), 'source')} only; ask for a smaller speed-up"
        )
    R = np.where(tested[:, None], R, np.nan)
    names = candidates(with_domain=with_domain)
    apart = source[:, None] != source[None, :]
    inner = {name: _regret_of(R, _picks(known, R, name, apart & tested)) for name in names}
    advised = np.full(len(source), np.nan)
    for left in sources:
        kept_in = apart & tested & (source != left)[None, :]
        scores = {}
        for name in names:
            regrets = _regret_of(R, _picks(known, R, name, kept_in))
            scores[name] = _mean(regrets, dataset, tested & (source != left))
        best = min(names, key=lambda name: scores[name])
        advised[source == left] = inner[best][source == left]
    by_rule = {
        **{name: _regret_of(R, _rule_picks(known, R, choice)) for name, choice in rules.items()},
        "the choice that is best on average": inner[GLOBAL],
    }
    by_candidate = {name: _mean(regrets, dataset, tested) for name, regrets in inner.items()}
    return Validation(
        min(names, key=lambda name: by_candidate[name]),
        _bootstrap(advised, dataset, source, tested),
        float(np.mean(pd.Series(advised[tested] < MOST_REGRET).groupby(dataset[tested]).mean())),
        [
            Comparison(name, _mean(regrets, dataset, tested), _bootstrap(advised - regrets, dataset, source, tested))
            for name, regrets in by_rule.items()
        ],
        len(set(dataset[tested])),
        len(sources),
    )


def _picks(known: Evidence, R: Floats, candidate: str, usable: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the choice advised for each matrix of the atlas, of those tried there, from the usable ones."""
    W = weights(candidate, known, known.compared, known.matrices["domain"].tolist(), usable)
    return _least(np.where(np.isfinite(R), average(W, R), np.nan))


def _rule_picks(known: Evidence, R: Floats, rule: Choice) -> NDArray[np.int64]:
    """Return the choice of a rule for each matrix: its r, or else the largest smaller one; −1 without any."""
    size = [choice.multiple if not isinstance(choice.multiple, str) else 0.0 for choice in known.choices]
    wanted = rule.multiple if not isinstance(rule.multiple, str) else 0.0
    order = [
        position
        for position in sorted(range(len(size)), key=lambda position: -size[position])
        if known.choices[position].method == rule.method and size[position] <= wanted
    ]
    picks = np.full(len(R), -1)
    for position in reversed(order):
        picks[np.isfinite(R[:, position])] = position
    return picks


def _regret_of(R: Floats, picks: NDArray[np.int64]) -> Floats:
    """Return the regret of one choice per matrix; the largest where there is none."""
    regrets = R[np.arange(len(R)), picks]
    return np.where((picks >= 0) & np.isfinite(regrets), regrets, MOST_REGRET)


def _mean(values: Floats, dataset: NDArray[np.object_], lines: NDArray[np.bool_]) -> float:
    """Return the mean over datasets of the mean over their forms."""
    return float(pd.Series(values[lines]).groupby(dataset[lines]).mean().mean())


def _bootstrap(
    values: Floats, dataset: NDArray[np.object_], source: NDArray[np.object_], lines: NDArray[np.bool_]
) -> Estimate:
    """Return the mean over datasets with its 95 % percentile interval from samples of sources."""
    table = pd.DataFrame({"value": values[lines], "dataset": dataset[lines], "source": source[lines]})
    by_dataset = table.groupby(["source", "dataset"])["value"].mean()
    by_source = by_dataset.groupby("source").agg(["sum", "size"]).to_numpy(dtype=float)
    drawn = np.random.default_rng(0).integers(len(by_source), size=(_SAMPLES, len(by_source)))
    sums = by_source[drawn].sum(axis=1)
    low, high = np.quantile(sums[:, 0] / sums[:, 1], [0.025, 0.975])
    return Estimate(float(by_dataset.mean()), float(low), float(high))


# -- for new data ----------------------------------------------------------------------------------------------------


class Advice(NamedTuple):
    """An advised choice with what the atlas lets expect of it.

    Attributes
    ----------
    loss, speedup : Estimate
        F over that of k-means on all features, minus 1; total time of k-means on all features over that of the method.
        Medians over the matrices that the prediction rests on.
    accuracy : float
        Median difference of the accuracy P to that of k-means on all features; NaN if unknown.
    regret : float
        The mean regret on these matrices.
    matrices : int
        Their number.
    """

    choice: Choice
    r: int
    loss: Estimate
    accuracy: float
    speedup: Estimate
    regret: float
    matrices: int


def advise(
    known: Evidence, traits: Mapping[str, float], goal: Goal, candidate: str, domain: str = ""
) -> tuple[list[Advice], list[str]]:
    """Return the advised choices, best first and of different methods, and the datasets that these rest on.

    Raise `UserError` if no choice is known to be possible for such data.

    Parameters
    ----------
    candidate : str
        The way to predict, from `validate`.
    domain : str
        Of the new data; empty if it is not known.
    """
    R = known.regrets(goal)
    tested: NDArray[np.bool_] = np.asarray(np.isfinite(R).any(axis=1))
    k, d = int(traits["k"]), int(traits["d"])
    fitting = np.array([choice.fits(k, d) for choice in known.choices])
    target = np.array([comparable(traits)])
    W = weights(candidate, known, target, [domain], tested[None, :])
    expected = np.where(fitting, average(W, R)[0], np.nan)
    expected[expected >= MOST_REGRET] = np.nan
    if not np.isfinite(expected).any():
        raise UserError(
            f"the atlas knows no method for k = {k} and {counted(d, 'feature')} at this r and speed-up; ask for "
            "another r or a smaller speed-up"
        )
    advised: list[Advice] = []
    source = known.matrices["source"].to_numpy()
    outside = (source[:, None] != source[None, :]) & tested
    of_held_out = weights(candidate, known, known.compared, known.matrices["domain"].tolist(), outside)
    for position in np.argsort(np.where(np.isfinite(expected), expected, np.inf), kind="stable"):
        choice = known.choices[position]
        if not np.isfinite(expected[position]) or len(advised) == _MOST_ADVISED:
            break
        if choice.method in {other.choice.method for other in advised}:
            continue
        loss = _expected(W, of_held_out, np.log1p(known.loss[:, position]), tested)
        speedup = _expected(W, of_held_out, np.log(known.speedup[:, position]), tested)
        advised.append(
            Advice(
                choice,
                choice.r(k, d),
                Estimate(*np.expm1(loss)),
                float(median(W, known.accuracy[:, position])[0]),
                Estimate(*np.exp(speedup)),
                float(expected[position]),
                int(np.count_nonzero(W[0] * np.isfinite(R[:, position]))),
            )
        )
    by_weight = np.argsort(-W[0], kind="stable")
    names = known.matrices["dataset"].to_numpy()
    return advised, list(dict.fromkeys(str(names[line]) for line in by_weight if W[0, line] > 0))


def _expected(W: Floats, of_held_out: Floats, values: Floats, tested: NDArray[np.bool_]) -> Estimate:
    """Return the median of a column, with an interval from its errors on the held-out matrices."""
    value = float(median(W, values)[0])
    errors = (values - median(of_held_out, values))[tested]
    errors = errors[np.isfinite(errors)]
    if len(errors) < 3:
        return Estimate(value, np.nan, np.nan)
    low, high = np.quantile(errors, [(1 - _SHARE) / 2, (1 + _SHARE) / 2])
    return Estimate(value, value + float(low), value + float(high))
