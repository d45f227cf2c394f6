"""Findings from the rows of a multiverse, about reported numbers and claims.

* Each number has a distribution in each universe (`kmdr.multiverse.distributions`), from all runs of its configuration,
  also from further repetitions in other studies. The variance of the means over universes is divided among the choices
  by Shapley shares, with intervals by the bootstrap over the repetitions of the multiverse, which all universes share.
* A universe's log-likelihood is that of all numbers together. The nearest universe has the largest. A universe is
  rejected if, of the tables drawn from its distributions, less than 5 % are as unlikely as the reported one; if it is
  not, it counts only if its runs could have rejected it for a single number. As the nearest was selected among many, it
  is also selected by half of the cells and evaluated on the other half, repeatedly.
* A claim is tested, uncorrected, on the rows of each universe as if they were rows of the paper's studies. Its outcomes
  are counted over the universes whose runs can decide it (`kmdr.multiverse.power`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import logsumexp

from kmdr.analysis.results import NotRunError, Results
from kmdr.analysis.significance import LEVEL
from kmdr.analysis.statistics import best_of
from kmdr.claims.catalogue import claims
from kmdr.claims.effects import SUPPORTED, Outcome
from kmdr.claims.reported import Number, numbers
from kmdr.claims.verdicts import uncorrected
from kmdr.metrics import BUILT_IN
from kmdr.multiverse.choices import STUDY, Multiverse, settings_on_dataset
from kmdr.multiverse.distributions import Distribution, distribution_of_best, distribution_of_share
from kmdr.multiverse.factorial import Floats, shapley_shares
from kmdr.multiverse.plausibility import Check, cells, cross_validated, least_p, plausibility
from kmdr.multiverse.power import POWER, claim_power
from kmdr.results.json_files import Settled

_SAMPLES, _SEED = 200, 0
_OF_RUNS = {"config_hash", "dataset", "reducer", "r", "repeat", "objective", "further"}

Agreement = Literal["rejected", "not rejected", "too few runs"]


@dataclass(frozen=True)
class Findings:
    """Findings from the rows of a paper's multiverse.

    Attributes
    ----------
    universes : list of tuple of str
        Those that have rows; the first is the paper's own.
    distributions : list of list of Distribution
        By universe and number.
    logs : (universes, numbers) ndarray
        Log-likelihoods.
    p, least_p : (universes,) ndarray
        Probability that a table drawn in the universe is as unlikely as the reported one, and as one with a number that
        no run shows.
    runs : (numbers,) ndarray
        Number of runs of each number with the paper's own choices.
    shares : (choices, numbers, 3) ndarray
        Share of the variance, and its 95 % interval.
    check : Check or None
        None with fewer than two cells.
    tails : (universes, numbers) ndarray
        Two-sided probability of each reported number.
    outcomes : mapping of str to list of Outcome
        Of each claim in each universe, uncorrected; if a claim has several kinds of statements, also of each kind.
    powers : mapping of str to list of float
        Power of each claim in each universe; see `kmdr.multiverse.power.claim_power`.
    """

    spec: Multiverse
    universes: list[tuple[str, ...]]
    numbers: list[Number]
    distributions: list[list[Distribution]]
    logs: Floats
    p: Floats
    least_p: Floats
    runs: NDArray[np.int64]
    shares: Floats
    check: Check | None
    tails: Floats
    outcomes: Mapping[str, list[Outcome]]
    powers: Mapping[str, list[float]]

    def decidable(self, name: str) -> list[int]:
        """Return the positions of the universes whose runs can decide a claim, or its statements of one kind."""
        return [i for i, power in enumerate(self.powers[name.partition(", ")[0]]) if power >= POWER]

    @property
    def together(self) -> Floats:
        """Log-likelihood of each universe."""
        return np.asarray(self.logs.sum(axis=1))

    @property
    def nearest(self) -> int:
        """Position of the universe of largest log-likelihood, the first of equals."""
        return int(self.together.argmax())

    @property
    def agreement(self) -> list[Agreement]:
        """Whether the reported numbers together reject each universe; too few runs if they could not for one number."""
        return [
            "rejected" if p <= LEVEL else "not rejected" if least <= LEVEL else "too few runs"
            for p, least in zip(self.p, self.least_p, strict=True)
        ]

    def table(self) -> pd.DataFrame:
        """Return one line per universe: options, log-likelihood and p, and the outcome and power of each claim."""
        frame = pd.DataFrame(self.universes, columns=list(self.spec.choices))
        if self.numbers:
            frame = frame.assign(log_likelihood=self.together, p=self.p, least_p=self.least_p, numbers=self.agreement)
        return frame.assign(**self.outcomes, **{f"power of {claim}": some for claim, some in self.powers.items()})

    def options(self) -> pd.DataFrame:
        """Return one line per option: its universes, their share of the likelihood, and how many support each claim.

        The share is the mean likelihood of its universes, relative to the sum over all options of its choice. Claims
        have ``a of b``: of the b universes that can decide the claim.
        """
        lines: list[dict[str, object]] = []
        for column, (choice, options) in enumerate(self.spec.choices.items()):
            with_option = {name: [i for i, u in enumerate(self.universes) if u[column] == name] for name in options}
            means = {
                name: logsumexp(self.together[some]) - np.log(len(some)) for name, some in with_option.items() if some
            }
            for name, some in with_option.items():
                line: dict[str, object] = {"choice": choice, "option": name, "universes": len(some)}
                if self.numbers and some:
                    line["likelihood"] = float(np.exp(means[name] - logsumexp(list(means.values()))))
                lines.append(line | {claim: self._held(claim, some) for claim in self.outcomes})
        return pd.DataFrame(lines)

    def _held(self, claim: str, universes: Sequence[int]) -> str:
        some = set(universes) & set(self.decidable(claim))
        return f"{sum(self.outcomes[claim][i] in SUPPORTED for i in some)} of {len(some)}" if some else "no power"


def _rows_of(rows: Mapping[str, pd.DataFrame], settled: Settled) -> pd.DataFrame | None:
    """Return the rows of a universe under the names of the paper's studies; None if some are missing."""
    if not settled.configs or not set(settled.configs) <= set(rows):
        return None
    parts = [
        rows[key].assign(study=study, dataset=dataset, reducer=reducer)
        for key, (study, dataset, reducer) in settled.configs.items()
    ]
    return pd.concat(parts)


def _runs(rows: pd.DataFrame, number: Number) -> pd.DataFrame:
    """Return the runs of a number in the order of the repetitions, from the rows of its method on its dataset.

    A method with a single r has it at all r.
    """
    if rows["r"].nunique() > 1:
        rows = rows[rows["r"] == number.r]
    return rows.drop_duplicates("repeat").sort_values("repeat", kind="stable")


def _with_further(rows: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a multiverse, marked, with further repetitions of their configurations from other studies."""
    cell = ["config_hash", "seed", "r"]
    further = others.merge(rows[cell].drop_duplicates(), on=cell)
    together = pd.concat([rows.assign(further=False), further.assign(further=True)[[*rows.columns, "further"]]])
    return together.drop_duplicates([*cell, "repeat"], ignore_index=True)


class _Estimate(NamedTuple):
    """A number in a universe.

    Attributes
    ----------
    distribution : Distribution
        Its distribution, from all runs.
    means : (1 + bootstraps,) ndarray
        Its mean over the runs of the multiverse, and in each bootstrap sample of these.
    runs : int
        Number of all runs.
    """

    distribution: Distribution
    means: Floats
    runs: int


class _Universe(NamedTuple):
    """A universe that was run: its options, its rows in the multiverse, and the estimates by the number's position."""

    options: tuple[str, ...]
    rows: pd.DataFrame
    estimates: Mapping[int, _Estimate]


class _Reader:
    """Reads the numbers of universes from their rows; what many universes share is read once."""

    def __init__(self, spec: Multiverse) -> None:
        self._spec, self._numbers = spec, numbers_of(spec)
        self._known: dict[object, _Estimate | None] = {}

    def estimates(self, rows: pd.DataFrame, universe: Sequence[str]) -> dict[int, _Estimate]:
        """Return the estimate of each number, by the number's position."""
        methods, reading = self._spec.reading(universe)
        quantities = {number.quantity for number in self._numbers}
        quantities |= {of_number["share"]["of"] for of_number in reading.values() if "share" in of_number}
        # Each number selects some rows; of all columns, that takes several times as long.
        rows = rows[[name for name in rows if name in _OF_RUNS | quantities]]
        of_methods = {
            method: (tuple(part["config_hash"].unique()), part)
            for method, part in rows.groupby(["dataset", "reducer"], sort=False, observed=True)
        }
        read = {}
        for position, reported in enumerate(self._numbers):
            r = reading[reported.id].get("r", reported.r) if np.isnan(reported.r) else reported.r
            number = reported._replace(r=r)
            share = reading[number.id].get("share")
            m = settings_on_dataset(methods[number.method], number.dataset).get("best_of", 1)
            configs, of_method = of_methods.get((number.dataset, number.method), ((), rows.iloc[:0]))
            key = (configs, repr(number), m, repr(share))
            if key not in self._known:
                self._known[key] = self._read(_runs(of_method, number), number, m, share)
            if estimate := self._known[key]:
                read[position] = estimate
        return read

    def _read(self, runs: pd.DataFrame, number: Number, m: int, share: Mapping[str, float] | None) -> _Estimate | None:
        of_multiverse = (~runs["further"]).to_numpy()
        if of_multiverse.sum() < (2 if share else max(2, m)):
            return None
        if share:
            hits = (runs[share["of"]] >= share["at_least"]).to_numpy()
            distribution = distribution_of_share(int(hits.sum()), len(hits), int(share["runs"]))
            some = hits[of_multiverse]
            return _Estimate(distribution, np.r_[some.mean(), some[_bootstraps(len(some))].mean(axis=1)], len(hits))
        F, x = (runs[name].to_numpy(dtype=float) for name in ("objective", number.quantity))
        distribution = distribution_of_best(number, F, x, m)
        F, x = F[of_multiverse], x[of_multiverse]
        samples = np.vstack([np.arange(len(F)), _bootstraps(len(F))])
        order = np.take_along_axis(samples, np.argsort(F[samples], axis=1, kind="stable"), axis=1)
        return _Estimate(distribution, np.asarray(x[order] @ best_of(F, m).weights), len(runs))


@lru_cache(4)
def _bootstraps(n: int) -> NDArray[np.int64]:
    """Return the repetitions that each bootstrap draws: the same in all universes with n repetitions."""
    return np.random.default_rng(_SEED).integers(n, size=(_SAMPLES, n))


def numbers_of(spec: Multiverse) -> list[Number]:
    """Return the reported numbers that a multiverse is about: of its datasets and methods, and in [0, 1]."""
    return [
        number
        for id_ in spec.numbers
        for number in numbers(id_)
        if number.dataset in spec.datasets and number.method in spec.methods and number.reading_error > 0
        if number.quantity in BUILT_IN or "share" in spec.numbers[id_]
    ]


def _without_repeats(several: Sequence[Number], rows: pd.DataFrame) -> list[int]:
    """Return the positions of numbers, without those that a method with one r repeats at other r."""
    sizes = rows.groupby(["dataset", "reducer"])["r"].nunique()
    keys = [
        number._replace(r=np.nan) if sizes.get((number.dataset, number.method)) == 1 else number for number in several
    ]
    texts = [repr(key) for key in keys]
    return [position for position, text in enumerate(texts) if text not in texts[:position]]


def _outcomes(
    results: Results, spec: Multiverse, tables: Sequence[pd.DataFrame]
) -> tuple[dict[str, list[Outcome]], dict[str, list[float]]]:
    """Return outcomes and power of the claims in each universe; universes that share all rows are tested once."""
    known: dict[tuple[str, ...], dict[str, Outcome]] = {}
    powers: dict[tuple[str, ...], dict[str, float]] = {}
    keys = [tuple(sorted(rows["config_hash"].unique())) for rows in tables]
    for key, rows in zip(keys, tables, strict=True):
        if key not in known:
            universe = results.replaced(rows, spec.studies)
            known[key], powers[key] = {}, {}
            for claim in claims():
                if claim.id in spec.claims:
                    verdict = uncorrected(claim, universe)
                    several = verdict.kinds if len(verdict.kinds) > 1 else {}
                    kinds: dict[str, Outcome] = {
                        f"{claim.id}, {kind}": judged.outcome for kind, judged in several.items()
                    }
                    known[key] |= {claim.id: verdict.outcome} | kinds
                    powers[key][claim.id] = claim_power(verdict, rows)
    names = dict.fromkeys(name for outcomes in known.values() for name in outcomes)
    return (
        {name: [known[key].get(name, "not run") for key in keys] for name in names},
        {claim: [powers[key][claim] for key in keys] for claim in spec.claims if claim in powers[keys[0]]},
    )


def compute_findings(
    results: Results, spec: Multiverse, settled: Sequence[Settled], others: pd.DataFrame | None = None
) -> Findings:
    """Return the findings from the rows of a multiverse.

    ``settled`` are the universes that were run, with the configurations of each. ``others`` are successful rows of
    other studies, which may have further repetitions of these configurations. Raise `NotRunError` when fewer than two
    universes have rows.
    """
    universes = _universes_with_rows(results, spec, settled, others)
    if len(universes) < 2:
        raise NotRunError(f"fewer than two universes of {spec.paper} have rows")
    every = numbers_of(spec)
    positions = [
        position
        for position in _without_repeats(every, universes[0].rows)
        if all(position in universe.estimates for universe in universes)
    ]
    several = [every[position] for position in positions]
    estimates = [[universe.estimates[position] for position in positions] for universe in universes]
    distributions = [[estimate.distribution for estimate in of_universe] for of_universe in estimates]
    logs = _evaluate(Distribution.log_likelihood, distributions, several)
    rng, of_cells = np.random.default_rng(_SEED), cells(several)
    together = logs.sum(axis=1)
    outcomes, powers = _outcomes(results, spec, [universe.rows for universe in universes])
    return Findings(
        spec, [universe.options for universe in universes], several, distributions, logs,
        p=np.array([plausibility(some, several, log, rng) for some, log in zip(distributions, together, strict=True)]),
        least_p=np.array([least_p(some, of_cells) for some in distributions]),
        runs=np.array([estimate.runs for estimate in estimates[0]], dtype=np.int64),
        shares=_shares(spec, universes, positions), check=cross_validated(logs, of_cells),
        tails=_evaluate(Distribution.tail, distributions, several), outcomes=outcomes, powers=powers,
    )  # fmt: skip


def _universes_with_rows(
    results: Results, spec: Multiverse, settled: Sequence[Settled], others: pd.DataFrame | None
) -> list[_Universe]:
    """Return the universes of a multiverse that have all their rows, with the estimates of the numbers in each."""
    rows = results.rows([f"{STUDY}{name}" for name in spec.studies], mixed=True)
    by_config = {str(key): group for key, group in rows.groupby("config_hash")}
    every_run = _with_further(rows, rows.iloc[:0] if others is None else others)
    runs_by_config = {str(key): group for key, group in every_run.groupby("config_hash")}
    reader, names = _Reader(spec), set(spec.universes)
    universes = []
    for universe in settled:
        of_universe = _rows_of(by_config, universe) if universe.options in names else None
        runs = _rows_of(runs_by_config, universe)
        if of_universe is not None and runs is not None:
            estimates = reader.estimates(runs, universe.options)
            universes.append(_Universe(universe.options, of_universe, estimates))
    return universes


def _evaluate(
    measure: Callable[[Distribution, float, float], Any],
    distributions: Sequence[Sequence[Distribution]],
    several: Sequence[Number],
) -> Floats:
    """Return a measure of each reported number by its distribution in each universe, as (universes, numbers) array."""
    values = [
        [
            measure(distribution, number.value, number.reading_error)
            for distribution, number in zip(of_universe, several, strict=True)
        ]
        for of_universe in distributions
    ]
    return np.array(values, dtype=float).reshape(len(distributions), len(several))


def _shares(spec: Multiverse, universes: Sequence[_Universe], positions: Sequence[int]) -> Floats:
    """Return the share of the variance of each number's mean that each choice explains, with its 95 % interval."""
    options = [list(names) for names in spec.choices.values()]
    points = [
        [names.index(name) for names, name in zip(options, universe.options, strict=True)] for universe in universes
    ]
    shares = np.empty((len(options), len(positions), 3))
    for column, position in enumerate(positions):
        means = np.array([universe.estimates[position].means for universe in universes])
        of_number = shapley_shares(points, means)
        shares[:, column, 0] = of_number[:, 0]
        if not np.isnan(of_number[:, 1:]).all():
            shares[:, column, 1:] = np.nanquantile(of_number[:, 1:], [0.025, 0.975], axis=1).T
        else:
            shares[:, column, 1:] = of_number[:, :1]
    return shares
