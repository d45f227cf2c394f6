"""Which universe of a multiverse is nearest to the reported numbers, and whether these are plausible in a universe.

Tables are drawn from a universe's distributions (`kmdr.multiverse.distributions`); the reported one is plausible if at
least 5 % of them are as unlikely. As the nearest universe was selected among many, it is also selected by half of the
cells and evaluated on the other half, repeatedly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, prod

import numpy as np

from kmdr.claims.reported import Number
from kmdr.multiverse.distributions import Distribution
from kmdr.multiverse.factorial import Floats

_TABLES, _SPLITS, _SEED = 400, 400, 0


@dataclass(frozen=True)
class Check:
    """Result of selecting the nearest universe by half of the cells and evaluating it on the other half.

    Attributes
    ----------
    again : float
        Share of the splits in which the first half selects the universe that is nearest by all cells.
    picked, paper, any : float
        Mean log-likelihood of the other half: of the selected universe, of the paper's own, and over all universes.
    """

    splits: int
    again: float
    picked: float
    paper: float
    any: float


def cells(several: Sequence[Number]) -> list[list[int]]:
    """Return the positions of numbers, grouped by run."""
    by_cell: dict[tuple[str, str, str], list[int]] = {}
    for position, number in enumerate(several):
        by_cell.setdefault((number.dataset, number.method, f"{number.r}"), []).append(position)
    return list(by_cell.values())


def _tables(distributions: Sequence[Distribution], cells: Sequence[list[int]], rng: np.random.Generator) -> Floats:
    """Draw tables of a universe: the numbers of a cell from one run, or uniformly with the weight of the unknown."""
    drawn = np.empty((_TABLES, len(distributions)))
    for cell in cells:
        place, anywhere = rng.random(_TABLES), rng.random(_TABLES)
        for position in cell:
            distribution = distributions[position]
            at = np.searchsorted(np.cumsum(distribution.weights), place).clip(max=len(distribution.values) - 1)
            near = distribution.width * rng.standard_normal(_TABLES)
            inside = distribution.values[at] + np.where(rng.random(_TABLES) < distribution.exact, 0.0, near)
            drawn[:, position] = np.where(anywhere < distribution.unknown, rng.random(_TABLES), inside)
    return drawn


def plausibility(
    distributions: Sequence[Distribution], several: Sequence[Number], log_likelihood: float, rng: np.random.Generator
) -> float:
    """Return the probability that a table drawn from some distributions is as unlikely as the reported one."""
    drawn = _tables(distributions, cells(several), rng)
    logs = sum(
        distribution.log_likelihood(column, number.reading_error)
        for distribution, number, column in zip(distributions, several, drawn.T, strict=True)
    )
    return float((1 + np.count_nonzero(logs <= log_likelihood + 1e-9)) / (_TABLES + 1))


def least_p(distributions: Sequence[Distribution], cells: Sequence[list[int]]) -> float:
    """Return about the least `plausibility` of a table with one number that no run of the universe shows.

    Tables are as unlikely whenever a number of theirs is drawn from what the runs cannot show. If this is above the
    level, the runs are too few to reject the universe for a single number, so that not to be rejected says little.
    """
    return 1 - prod(1 - max(distributions[position].unknown for position in cell) for cell in cells)


def cross_validated(logs: Floats, cells: Sequence[list[int]]) -> Check | None:
    """Select a universe by half of the cells and evaluate it on the others, for all halves or as many at random.

    Return None with fewer than two cells.

    Parameters
    ----------
    logs : (universes, numbers) array_like
        Log-likelihoods; the first universe is the paper's own.
    cells : sequence of list of int
        The positions of the numbers of each cell.
    """
    by_cell = np.stack([logs[:, cell].sum(axis=1) for cell in cells], axis=1) if cells else np.empty((len(logs), 0))
    count = by_cell.shape[1]
    if count < 2:
        return None
    half, best = count // 2, int(by_cell.sum(axis=1).argmax())
    rng = np.random.default_rng(_SEED)
    if comb(count, half) <= _SPLITS:
        splits = [list(few) for few in combinations(range(count), half)]
    else:
        splits = [list(rng.permutation(count)[:half]) for _ in range(_SPLITS)]
    outcomes = []
    for first in splits:
        second = [i for i in range(count) if i not in first]
        by_first, by_second = by_cell[:, first].sum(axis=1), by_cell[:, second].sum(axis=1)
        picked = int(by_first.argmax())
        outcomes.append((by_first[best] >= by_first[picked], by_second[picked], by_second[0], by_second.mean()))
    again, *means = np.mean(outcomes, axis=0)
    return Check(len(splits), float(again), *map(float, means))
