"""The effects that claims are made of, and the words in which sentences report them.

A claim is a few statements, each about one of these:

* a **paired difference**: two methods on trials that started alike (`paired`), one value per repetition
  (`mean_by_repetition`); times are compared by their ratios, averaged over r by their logarithms;
* a **slope on r**: of a quantity on log r within each repetition (`slopes_on_log_r`);
* a **median** of times or of their ratios: `kmdr.analysis.statistics.median_below` and its relatives;
* a **share** of runs: `kmdr.analysis.statistics.share`;
* **equivalence**: a difference within a margin, `kmdr.analysis.statistics.equal`;
* a **tally** of many statements, each tested alone (`tally`).

Repetitions are independent, so each effect is reduced to one value per repetition before it is tested.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kmdr.analysis.results import NotRunError, Results
from kmdr.analysis.rows import REPETITION, Interval, mean_interval, quantity_rows, ratio_to_best, timed_rows
from kmdr.analysis.significance import LEVEL
from kmdr.analysis.statistics import Component, conjunction, several, slopes
from kmdr.base.text import counted, format_number
from kmdr.claims.draws import TOGETHER

Floats = NDArray[np.float64]
Outcome = Literal["supported", "mostly supported", "not supported", "undecided", "not run", "changed"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
# The outcomes of a claim whose central statements are all supported.
SUPPORTED: tuple[Outcome, ...] = ("supported", "mostly supported")


def outcome(components: Sequence[Component]) -> Outcome:
    """Return the outcome of statements that must all hold, uncorrected."""
    return decided(*conjunction(components))


def decided(p_for: float, p_against: float) -> Outcome:
    """Return the outcome of a p-value for and a p-value against at `LEVEL`."""
    if p_for <= LEVEL:
        return "supported"
    return "not supported" if p_against <= LEVEL else "undecided"


# -- effects --


def together(table: pd.DataFrame, *names: str) -> pd.DataFrame:
    """Return the columns of some methods on the trials that all of them have.

    Parameters
    ----------
    table : DataFrame
        From `kmdr.analysis.results.Results.wide`.

    Raises
    ------
    NotRunError
        If a method or every trial is missing.
    """
    absent = [name for name in names if name not in table]
    complete = table[list(names)].dropna() if not absent else table.iloc[:0]
    if complete.empty:
        raise NotRunError(f"no trials with {', '.join(absent or names)}")
    return complete


def mean_over_r(table: pd.DataFrame) -> pd.DataFrame:
    """Return the means over r, one row per repetition."""
    return table.groupby(_repetition(table.index)).mean()


def mean_by_repetition(values: "pd.Series[float]") -> Floats:
    """Return the mean over r within each repetition: one value per repetition, which are independent."""
    return np.asarray(values.groupby(_repetition(values.index)).mean(), dtype=np.float64)


def _repetition(index: pd.Index) -> list[str]:
    """Return the index levels that distinguish repetitions; a fact may have no seed."""
    return [name for name in REPETITION if name in index.names]


def paired(table: pd.DataFrame, method: str, other: str, *, logs: bool = False) -> "pd.Series[float]":
    """Return the difference of two methods (with ``logs``: of their logarithms) on the trials that both have.

    Parameters
    ----------
    table : DataFrame
        Index (r, seed, repeat), one column per method.
    """
    pair = table[[method, other]].apply(np.log) if logs else table[[method, other]]
    return (pair[method] - pair[other]).dropna()


class Pair(NamedTuple):
    """A method and a reference method on one dataset: values with index (r, seed, repeat) of shared trials."""

    dataset: str
    method: str
    values: "pd.Series[float]"
    reference: "pd.Series[float]"

    def select_r(self, sizes: Sequence[int]) -> "Pair":
        """Return the part at some r."""
        selected = self.values.index.get_level_values("r").isin(list(sizes))
        return self._replace(values=self.values[selected], reference=self.reference[selected])

    @property
    def grid(self) -> list[int]:
        """Return the r that both have."""
        return sorted({int(r) for r in self.values.index.get_level_values("r")})


def pairs(values: pd.DataFrame, datasets: Sequence[str], methods: Sequence[str], other: str) -> Iterator[Pair]:
    """Yield a `Pair` for each dataset and method that share trials with the reference method."""
    datasets_run = values.index.unique("dataset")
    for dataset in datasets:
        of_dataset = values.xs(dataset, level="dataset") if dataset in datasets_run else values.iloc[:0]
        for method in methods:
            both = of_dataset[[method, other]].dropna() if {method, other} <= set(values.columns) else values.iloc[:0]
            if len(both):
                yield Pair(dataset, method, both[method], both[other])


def slopes_on_log_r(lines: pd.DataFrame, log: Callable[[Floats], Floats] = np.log) -> Floats:
    """Return the least-squares slope on log r of each repetition that has every r; empty if r does not vary.

    Parameters
    ----------
    lines : DataFrame
        One row per repetition, one column per r (or another size).
    log : callable
        The logarithm: ``np.log10`` for a change per tenfold r.
    """
    complete = lines.dropna()
    if complete.shape[1] < 2 or complete.empty:
        return np.empty(0)
    return slopes(complete, log(complete.columns.to_numpy(dtype=np.float64)))


def share_left(lines: pd.DataFrame, before: Sequence[int], after: Sequence[int]) -> Floats:
    """Return the change from some sizes to others as a share of a curve's whole change, one value per repetition.

    The whole change is from the least size of the curve to the sizes ``after``; so F and P are judged on one scale.

    Parameters
    ----------
    lines : DataFrame
        One row per repetition, one column per size, ascending.
    """
    end = lines[[*after]].mean(axis=1)
    whole = end - lines[lines.columns[0]]
    if (whole == 0).any():
        raise NotRunError("a curve has the same value at its first and last sizes, so its change has no scale")
    return np.asarray((end - lines[[*before]].mean(axis=1)) / whole, dtype=np.float64)


def exponents(times: pd.DataFrame) -> dict[str, Interval | None]:
    """Return the slopes of log time on log n, log d and log r, the other two fixed; one value per repetition.

    Parameters
    ----------
    times : DataFrame
        Rows of one method with ``value``, its reduction time.
    """
    logs = times.assign(value=np.log(times["value"]))
    powers: dict[str, Interval | None] = {}
    for along, fixed in (("n", "d"), ("d", "n"), ("r", None)):
        cross = logs
        if fixed:  # the sizes form a cross: all n at one d, all d at one n
            sizes = logs.groupby(fixed)[along].nunique()
            cross = logs[logs[fixed] == sizes.idxmax()] if len(sizes) else logs
        slopes_of = slopes_on_log_r(cross.pivot_table(index=REPETITION, columns=along, values="value"))
        powers[along] = mean_interval(slopes_of) if slopes_of.size else None
    return powers


def ratios_and_times(
    results: Results, rows_of: Callable[[], pd.DataFrame], study: str
) -> tuple[pd.DataFrame | None, pd.DataFrame | None]:
    """Return the data of a table of provable methods; either part is None if it was not run.

    Parameters
    ----------
    rows_of : callable
        Returns the rows of the ratios.
    study : str
        Study of the exponents of the time.

    Returns
    -------
    rows : DataFrame or None
        With F/F_best as ``ratio``.
    times : DataFrame or None
        With the reduction time as ``value``.

    Raises
    ------
    NotRunError
        If neither was run.
    """
    try:
        times = quantity_rows(timed_rows(results.rows(study, mixed=True)), "reduction_seconds")
    except NotRunError:
        times = None
    try:
        rows = rows_of()
    except NotRunError:
        if times is None:
            raise
        return None, times
    return rows.assign(ratio=ratio_to_best(rows)), times


def ratio_cells(ratios: "pd.Series[float]") -> dict[str, float]:
    """Return the table cells of ratios F/F_best, with index (…, repeat): mean, its interval, and the largest."""
    mean = mean_interval(mean_by_repetition(ratios)) if len(ratios) else Interval(*(math.nan,) * 3, 0)
    return {
        "ours": mean.centre, "low": mean.low, "high": mean.high,
        "largest": float(ratios.max()) if len(ratios) else math.nan,
    }  # fmt: skip


def exponent_cells(times: pd.DataFrame | None, letters: Mapping[str, str]) -> dict[str, float]:
    """Return the table cells of `exponents`, each with the half-width of its interval.

    Parameters
    ----------
    times : DataFrame or None
        As for `exponents`.
    letters : mapping of str to str
        The paper's symbols for n, d and r.
    """
    powers = exponents(times) if times is not None else {}
    cells = {}
    for along, letter in letters.items():
        power = powers.get(along)
        cells[f"exponent of {letter}"] = power.centre if power else math.nan
        cells[f"± of {letter}"] = power.high - power.centre if power else math.nan
    return cells


def as_time(components: Sequence[Component]) -> list[Component]:
    """Mark statements as being about time: of this implementation on the machine that measured it."""
    return [component._replace(kind="time") for component in components]


def part_of(part: str, components: Sequence[Component]) -> list[Component]:
    """Assign statements to a part of their claim's sentence."""
    return [component._replace(part=part) for component in components]


def test_at_each_r(label: str, values: "pd.Series[float]", test: Callable[[str, Floats], Component]) -> Component:
    """Test at each r separately, requiring all to hold: the other reading of a statement about the mean over r.

    Parameters
    ----------
    values : Series
        Index with ``r`` and ``repeat``.
    test : callable
        From a label and one value per repetition.
    """
    groups = {f"r = {r}": [test(label, mean_by_repetition(part))] for r, part in values.groupby("r")}
    return several(f"{label}, at each of the {len(groups)} r", groups, len(groups))._replace(unit="r")


def need(parts: Sequence[object] | Mapping[str, object], what: str) -> None:
    """Raise a NotRunError if a claim has nothing to compare."""
    if not parts:
        raise NotRunError(f"no trials of {what} to compare")


# -- words --


def estimate(component: Component, form: str) -> str:
    """Return an effect and, if there is one, its interval, for a sentence.

    Examples
    --------
    >>> estimate(Component("F", 0.02, 0.01, 0.03, 0.0, 1.0, 5, "F"), "+.1%")
    '+2.0% [+1.0%, +3.0%]'
    """
    effect, low, high = (format(value, form) for value in (component.effect, component.low, component.high))
    return effect if math.isnan(component.low) else f"{effect} [{low}, {high}]"


def extremes(values: Mapping[str, float], form: str = "+.1%") -> str:
    """Return the least and the greatest of some values with their names.

    Examples
    --------
    >>> extremes({"SVD": 0.1, "RP": 0.3, "SE": 0.2})
    '+10.0% (SVD) to +30.0% (RP)'
    """
    low, high = min(values, key=lambda key: values[key]), max(values, key=lambda key: values[key])
    if low == high:
        return f"{values[low]:{form}} ({low})"
    return f"{values[low]:{form}} ({low}) to {values[high]:{form}} ({high})"


def clearness(component: Component) -> tuple[float, float]:
    """Return a key that sorts statements by how clearly they fail: p-value first, then distance from the bound.

    Sign tests of few values that all agree have the same p-value. The distance is a ratio where both numbers are
    positive.
    """
    low, high = component.bounds
    bound = min(max(component.effect, low), high)
    positive = component.effect > 0 and bound > 0
    distance = abs(math.log(component.effect / bound)) if positive else abs(component.effect - bound)
    return component.p_against, -distance


def tally(components: Sequence[Component]) -> str:
    """Return how many statements are supported, contradicted and undecided, unadjusted, and the clearest failures.

    Joint tests of several numbers are not counted. The clearest failure of each dataset (named in a label after "on")
    is given, for at most three datasets.
    """
    components = [component for component in components if component.unit != TOGETHER]
    outcomes = [outcome([component]) for component in components]
    fail = [c for c, result in zip(components, outcomes, strict=True) if result == "not supported"]
    hold, still = outcomes.count("supported"), outcomes.count("undecided")
    verb = "is" if 1 in (hold, len(components)) else "are"
    rest = ", ".join(f"{n} {what}" for n, what in ((len(fail), "contradicted"), (still, "undecided")) if n)
    text = f"unadjusted, {hold} of {counted(len(components), 'comparison')} {verb} supported"
    text += f" ({rest})" if rest else ""
    clearest: dict[str, str] = {}
    for component in sorted(fail, key=clearness):
        unsigned = "ratio" in component.unit or component.unit == "r"  # a count of r has no sign
        effect = format_number(component.effect, ".3g" if unsigned else "+.3g")
        effect += " r" if component.unit == "r" else ""
        clearest.setdefault(component.label.partition(" on ")[2] or component.label, f"{component.label}: {effect}")
    return text + (f". Contradicted most clearly: {'; '.join(list(clearest.values())[:3])}" if clearest else "")
