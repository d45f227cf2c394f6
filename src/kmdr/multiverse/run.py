"""What the rows of a multiverse say: of each reported number, of all of a paper's together, and of its claims.

* Each number has a law in each universe (`kmdr.multiverse.laws`); how far apart the universes are, and how much of that
  each choice makes, are Shapley shares of the variance of the laws' means, with intervals by the bootstrap over
  repetitions, which all universes share.
* A universe's log-likelihood is that of all numbers together, each by its law. The nearest one has the largest; those
  not rejected are the ones in which tables that are drawn from their laws are as unlikely as the reported one with a
  probability of 5 % at the least. As the nearest was picked among many, it is also picked by half of the cells and
  judged by the other half, again and again.
* A claim is tested, uncorrected, on the rows of each universe as if they were those of the paper's studies.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import logsumexp

from kmdr.analysis.results import NotRunError, Results
from kmdr.analysis.statistics import LEVEL, best_of
from kmdr.claims.catalogue import claims
from kmdr.claims.effects import Outcome
from kmdr.claims.reported import Number, numbers
from kmdr.claims.verdicts import verdict_on
from kmdr.metrics import BUILT_IN
from kmdr.multiverse.choices import Multiverse
from kmdr.multiverse.factorial import Floats, shapley_shares
from kmdr.multiverse.laws import Law, law_of_best, law_of_share
from kmdr.results.json_files import Settled

# Of the rows of a paper's multiverse, the beginning of their study's name; the rest is the study they settle.
STUDY = "multiverse_"
_TABLES, _BOOTSTRAPS, _SPLITS = 400, 200, 400
_SEED = 0


@dataclass(frozen=True)
class Check:
    """What picking the nearest universe by half of the cells, and judging it by the other half, says.

    Attributes
    ----------
    splits : int
    again : float
        Share of the splits in which the first half picks the universe that is nearest by all.
    picked, own, any : float
        Mean log-likelihood of the other half: of the universe picked, of the paper's own, and over all universes.
    """

    splits: int
    again: float
    picked: float
    own: float
    any: float


@dataclass(frozen=True)
class Findings:
    """What the rows of a paper's multiverse say.

    Attributes
    ----------
    spec : Multiverse
    universes : list of tuple of str
        Those that have rows; the first is the paper's own.
    numbers : list of Number
    laws : list of list of Law
        Of each universe and number.
    logs : (universes, numbers) ndarray
        Log-likelihoods.
    p : (universes,) ndarray
        How likely a table of the universe is as unlikely as the reported one.
    shares : (choices, numbers, 3) ndarray
        Share of the variance, and its 95 % interval.
    check : Check or None
        None with fewer than two cells.
    outcomes : mapping of str to list of Outcome
        Of each claim in each universe, uncorrected; where it is of several kinds, also of each of these.
    """

    spec: Multiverse
    universes: list[tuple[str, ...]]
    numbers: list[Number]
    laws: list[list[Law]]
    logs: Floats
    p: Floats
    shares: Floats
    check: Check | None
    outcomes: Mapping[str, list[Outcome]]

    @property
    def together(self) -> Floats:
        """Log-likelihood of each universe."""
        return np.asarray(self.logs.sum(axis=1))

    @property
    def nearest(self) -> int:
        """Position of the universe of largest log-likelihood, the first of equals."""
        return int(self.together.argmax())

    @property
    def not_rejected(self) -> list[int]:
        """Positions of the universes whose tables may well be as unlikely as the reported one."""
        return [int(i) for i in np.flatnonzero(self.p > LEVEL)]

    def table(self) -> pd.DataFrame:
        """Return a line a universe: its options, its log-likelihood and p, and the outcome of each claim."""
        frame = pd.DataFrame(self.universes, columns=list(self.spec.choices))
        if self.numbers:
            frame = frame.assign(log_likelihood=self.together, p=self.p)
        return frame.assign(**self.outcomes)

    def options(self) -> pd.DataFrame:
        """Return a line an option: its universes, its share of the likelihood, and in how many each claim holds.

        The share is that of the mean likelihood of its universes in those of all options of its choice.
        """
        lines: list[dict[str, object]] = []
        for column, (choice, options) in enumerate(self.spec.choices.items()):
            those = {name: [i for i, u in enumerate(self.universes) if u[column] == name] for name in options}
            means = {name: logsumexp(self.together[some]) - np.log(len(some)) for name, some in those.items() if some}
            for name, some in those.items():
                line: dict[str, object] = {"choice": choice, "option": name, "universes": len(some)}
                if self.numbers and some:
                    line["likelihood"] = float(np.exp(means[name] - logsumexp(list(means.values()))))
                held = {
                    claim: sum(outcomes[i] == "reproduced" for i in some) for claim, outcomes in self.outcomes.items()
                }
                lines.append(line | held)
        return pd.DataFrame(lines)


def _rows_of(rows: Mapping[str, pd.DataFrame], settled: Settled) -> pd.DataFrame | None:
    """Return the rows of a universe under the names of the paper's studies; None where some are missing."""
    if not settled.configs or not set(settled.configs) <= set(rows):
        return None
    parts = [
        rows[key].assign(study=study, dataset=dataset, reducer=reducer)
        for key, (study, dataset, reducer) in settled.configs.items()
    ]
    return pd.concat(parts)


def _runs(rows: pd.DataFrame, number: Number) -> pd.DataFrame:
    """Return the runs that a number is of, in the order of the repetitions; all r of a method that has one."""
    rows = rows[(rows["dataset"] == number.dataset) & (rows["reducer"] == number.method)]
    if rows["r"].nunique() > 1:
        rows = rows[rows["r"] == number.r]
    return rows.drop_duplicates("repeat").sort_values("repeat", kind="stable")


class _Reader:
    """Reads the numbers of universes from their rows, what many of them share once."""

    def __init__(self, spec: Multiverse) -> None:
        self._spec, self._numbers = spec, numbers_of(spec)
        self._known: dict[object, tuple[Law, Floats]] = {}

    def laws(self, rows: pd.DataFrame, universe: Sequence[str]) -> dict[int, tuple[Law, Floats]]:
        """Return, by the number's position, its law, and the mean of that in each draw of repetitions."""
        methods, reading = self._spec.reading(universe)
        read = {}
        for position, reported in enumerate(self._numbers):
            r = reading[reported.id].get("r", reported.r) if np.isnan(reported.r) else reported.r
            number = reported._replace(r=r)
            runs = _runs(rows, number)
            share, m = reading[number.id].get("share"), methods[number.method].get("best_of", 1)
            if len(runs) < max(2, m if not share else 2):
                continue
            key = (str(runs["config_hash"].iloc[0]), repr(number), m, repr(share))
            if key not in self._known:
                self._known[key] = self._of_share(runs, share) if share else self._of_best(runs, number, m)
            read[position] = self._known[key]
        return read

    def _of_best(self, runs: pd.DataFrame, number: Number, m: int) -> tuple[Law, Floats]:
        F, x = (runs[name].to_numpy(dtype=float) for name in ("objective", number.quantity))
        again = _drawn_again(len(F))
        order = np.take_along_axis(again, np.argsort(F[again], axis=1, kind="stable"), axis=1)
        return law_of_best(number, F, x, m), np.asarray(x[order] @ best_of(F, m).weights)

    def _of_share(self, runs: pd.DataFrame, share: Mapping[str, float]) -> tuple[Law, Floats]:
        hits = (runs[share["of"]] >= share["at_least"]).to_numpy()
        return (
            law_of_share(int(hits.sum()), len(hits), int(share["runs"])),
            np.asarray(hits[_drawn_again(len(hits))].mean(axis=1)),
        )


def _drawn_again(n: int) -> NDArray[np.int64]:
    """Return which of n repetitions each bootstrap draws: the same in all universes that have as many."""
    return np.random.default_rng(_SEED).integers(n, size=(_BOOTSTRAPS, n))


def numbers_of(spec: Multiverse) -> list[Number]:
    """Return the reported numbers that a multiverse is about: of its datasets and methods, and in [0, 1]."""
    return [
        number
        for id_ in spec.numbers
        for number in numbers(id_)
        if number.dataset in spec.datasets and number.method in spec.methods and number.reading_error > 0
        if number.quantity in BUILT_IN or "share" in spec.numbers[id_]
    ]


def _once(several: Sequence[Number], rows: pd.DataFrame) -> list[int]:
    """Return the positions of numbers without those of a method with one r that are printed again at another r."""
    sizes = rows.groupby(["dataset", "reducer"])["r"].nunique()
    keys = [
        number._replace(r=np.nan) if sizes.get((number.dataset, number.method)) == 1 else number for number in several
    ]
    texts = [repr(key) for key in keys]
    return [position for position, text in enumerate(texts) if text not in texts[:position]]


def cells(several: Sequence[Number]) -> list[list[int]]:
    """Return the positions of numbers, those that are of one run together."""
    by_cell: dict[tuple[str, str, str], list[int]] = {}
    for position, number in enumerate(several):
        by_cell.setdefault((number.dataset, number.method, f"{number.r}"), []).append(position)
    return list(by_cell.values())


def _tables(laws: Sequence[Law], own: Sequence[list[int]], rng: np.random.Generator) -> Floats:
    """Draw tables of a universe: the numbers of a cell from one run, or anywhere with what is not known of the law."""
    drawn = np.empty((_TABLES, len(laws)))
    for cell in own:
        place, anywhere = rng.random(_TABLES), rng.random(_TABLES)
        for position in cell:
            law = laws[position]
            at = np.searchsorted(np.cumsum(law.weights), place).clip(max=len(law.values) - 1)
            near = law.width * rng.standard_normal(_TABLES)
            inside = law.values[at] + np.where(rng.random(_TABLES) < law.exact, 0.0, near)
            drawn[:, position] = np.where(anywhere < 1 / (law.size + 1), rng.random(_TABLES), inside)
    return drawn


def plausibility(
    laws: Sequence[Law], several: Sequence[Number], log_likelihood: float, rng: np.random.Generator
) -> float:
    """Return how likely a table that is drawn from some laws is as unlikely as one that is given.

    Parameters
    ----------
    laws : sequence of Law
    several : sequence of Number
        Of which they are, with their reading errors.
    log_likelihood : float
        Of the given table.
    rng : numpy.random.Generator
    """
    drawn = _tables(laws, cells(several), rng)
    logs = sum(
        law.log_likelihood(column, number.reading_error)
        for law, number, column in zip(laws, several, drawn.T, strict=True)
    )
    return float((1 + np.count_nonzero(logs <= log_likelihood + 1e-9)) / (_TABLES + 1))


def cross_validated(logs: Floats, own: Sequence[list[int]]) -> Check | None:
    """Pick a universe by half of the cells and judge it by the others, for all halves or as many at random.

    Parameters
    ----------
    logs : (universes, numbers) array_like
        Log-likelihoods; the first universe is the paper's own.
    own : sequence of list of int
        The positions of the numbers of each cell.

    Returns
    -------
    Check or None
        None with fewer than two cells.
    """
    by_cell = np.stack([logs[:, cell].sum(axis=1) for cell in own], axis=1) if own else np.empty((len(logs), 0))
    count = by_cell.shape[1]
    if count < 2:
        return None
    half, best = count // 2, int(by_cell.sum(axis=1).argmax())
    rng = np.random.default_rng(_SEED)
    if comb(count, half) <= _SPLITS:
        splits = [list(few) for few in combinations(range(count), half)]
    else:
        splits = [list(rng.permutation(count)[:half]) for _ in range(_SPLITS)]
    told = []
    for first in splits:
        second = [i for i in range(count) if i not in first]
        by_first, by_second = by_cell[:, first].sum(axis=1), by_cell[:, second].sum(axis=1)
        picked = int(by_first.argmax())
        told.append((by_first[best] >= by_first[picked], by_second[picked], by_second[0], by_second.mean()))
    again, *means = np.mean(told, axis=0)
    return Check(len(splits), float(again), *map(float, means))


def _outcomes(results: Results, spec: Multiverse, tables: Sequence[pd.DataFrame]) -> dict[str, list[Outcome]]:
    """Return the outcomes of the claims in each universe; where universes share all rows they are tested once."""
    known: dict[tuple[str, ...], dict[str, Outcome]] = {}
    keys = [tuple(sorted(rows["config_hash"].unique())) for rows in tables]
    for key, rows in zip(keys, tables, strict=True):
        if key not in known:
            universe = results.replaced(rows, spec.studies)
            known[key] = {}
            for claim in claims():
                if claim.id in spec.claims:
                    verdict = verdict_on(claim, universe, {})
                    several = verdict.kinds if len(verdict.kinds) > 1 else {}
                    kinds: dict[str, Outcome] = {
                        f"{claim.id}, {kind}": judged.outcome for kind, judged in several.items()
                    }
                    known[key] |= {claim.id: verdict.outcome} | kinds
    names = dict.fromkeys(name for outcomes in known.values() for name in outcomes)
    return {name: [known[key].get(name, "not run") for key in keys] for name in names}


def find(results: Results, spec: Multiverse, settled: Sequence[Settled]) -> Findings:
    """Return what the rows of a multiverse say.

    Parameters
    ----------
    results : Results
    spec : Multiverse
    settled : sequence of Settled
        The universes that were run, with the configurations of each.

    Raises
    ------
    NotRunError
        When fewer than two universes have rows.
    """
    rows = results.rows([f"{STUDY}{name}" for name in spec.studies], mixed=True)
    by_config = {str(key): group for key, group in rows.groupby("config_hash")}
    reader, names = _Reader(spec), set(spec.universes)
    universes, tables, read = [], [], []
    for each in settled:
        of_universe = _rows_of(by_config, each) if each.options in names else None
        if of_universe is not None:
            universes.append(each.options)
            tables.append(of_universe)
            read.append(reader.laws(of_universe, each.options))
    if len(universes) < 2:
        raise NotRunError(f"fewer than two universes of {spec.paper} have rows")
    every, counts = numbers_of(spec), Counter(position for each in read for position in each)
    there = [position for position in _once(every, tables[0]) if counts[position] == len(universes)]
    several = [every[position] for position in there]
    laws = [[each[position][0] for position in there] for each in read]
    logs = np.array(
        [
            [float(law.log_likelihood(n.value, n.reading_error)) for law, n in zip(own, several, strict=True)]
            for own in laws
        ]
    ).reshape(len(universes), len(several))
    rng = np.random.default_rng(_SEED)
    p = np.array([plausibility(own, several, line.sum(), rng) for own, line in zip(laws, logs, strict=True)])
    return Findings(
        spec, universes, several, laws, logs, p, _shares(spec, universes, read, there),
        cross_validated(logs, cells(several)), _outcomes(results, spec, tables),
    )  # fmt: skip


def _shares(
    spec: Multiverse,
    universes: Sequence[tuple[str, ...]],
    read: Sequence[Mapping[int, tuple[Law, Floats]]],
    there: Sequence[int],
) -> Floats:
    """Return the share of the variance of each number's mean that each choice explains, with its 95 % interval."""
    options = [list(names) for names in spec.choices.values()]
    points = [[names.index(name) for names, name in zip(options, each, strict=True)] for each in universes]
    shares = np.empty((len(options), len(there), 3))
    for column, position in enumerate(there):
        means = np.array([np.r_[each[position][0].mean, each[position][1]] for each in read])
        of_number = shapley_shares(points, means)
        shares[:, column, 0] = of_number[:, 0]
        if not np.isnan(of_number[:, 1:]).all():
            shares[:, column, 1:] = np.nanquantile(of_number[:, 1:], [0.025, 0.975], axis=1).T
        else:
            shares[:, column, 1:] = of_number[:, :1]
    return shares
