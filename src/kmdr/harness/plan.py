"""Estimate the time of a run, and choose what it omits to fit a time budget.

The expected seconds of a task come from the same trials in known rows: of the folder itself, else of the committed
reference run. They decide the order of tasks, the time left and what fits a budget, but never a number in a row.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from kmdr.base.errors import UserError
from kmdr.base.paths import CONF
from kmdr.config.task import Task
from kmdr.harness.experiment import Experiment
from kmdr.results.table import rows_file
from kmdr.results.table_stream import open_table

# Time of a budget that is kept for all but trials: starting workers, facts, figures, tables and the report; and, of
# that, for what follows the facts.
ALLOWANCE_SECONDS = 60.0
DRAWING_SECONDS = 30.0
# Assumed for a trial unlike any known one.
_UNKNOWN_SECONDS = 0.1
# Sending a task and writing its file.
_OVERHEAD_SECONDS = 0.01
_LEAST_REPEATS = 2
_REFERENCE = CONF.parent / "results" / "reference"

Seconds = Callable[[Task], float]


@dataclass(frozen=True)
class Limits:
    """Limits on the cost of a run; by default none.

    Attributes
    ----------
    budget : float or None
        Seconds of wall time, report included. One fraction of all repetitions is chosen to fit it.
    repeats, timing_repeats : int or None
        Largest number of repetitions, and of timed ones.
    grid : int or None
        Largest number of r, taken from each study's own grid.
    task_seconds : float or None
        Methods with a task that is expected to take longer are omitted.
    """

    budget: float | None = None
    repeats: int | None = None
    timing_repeats: int | None = None
    grid: int | None = None
    task_seconds: float | None = None

    def thin(self, experiment: Experiment) -> Experiment:
        """Return an experiment within these limits; its first and last r stay."""
        r_grid = experiment.r_grid
        if self.grid is not None and len(r_grid) > self.grid:
            r_grid = tuple(r_grid[i] for i in np.linspace(0, len(r_grid) - 1, self.grid).round().astype(int))
        repeats, timing = experiment.repeats, experiment.timing_repeats
        return replace(
            experiment,
            r_grid=r_grid,
            repeats=repeats if self.repeats is None else min(repeats, self.repeats),
            timing_repeats=timing if self.timing_repeats is None else min(timing, self.timing_repeats),
        )


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as ``90s``, ``10m``, ``1h`` or ``1h30m``.

    Raise `UserError` when it does not have that form, or is not longer than `ALLOWANCE_SECONDS`.

    Examples
    --------
    >>> parse_duration("1h30m")
    5400.0
    """
    match = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", text)
    if not text or not match:
        raise UserError(f"budget = {text!r} is not a duration; write e.g. 90s, 10m, 1h or 1h30m")
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    total = float(3600 * hours + 60 * minutes + seconds)
    if total <= ALLOWANCE_SECONDS:
        raise UserError(
            f"budget = {text!r} leaves nothing but the {ALLOWANCE_SECONDS:.0f} s kept for starting and for the "
            "report; give more, e.g. 5m"
        )
    return total


def duration_text(seconds: float) -> str:
    """Return a duration in words.

    Examples
    --------
    >>> duration_text(40), duration_text(100), duration_text(5000)
    ('40 s', '2 min', '1 h 23 min')
    """
    minutes = round(seconds / 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min" if seconds >= 60 else f"{seconds:.0f} s"


# -- expected seconds ------------------------------------------------------------------------------------------------


_STEPS = ["reduce_seconds", "cluster_seconds", "score_seconds"]
_LIKE = (["config_hash"], ["dataset", "reducer", "params"], ["dataset"])
_COLUMNS = [*_LIKE[0], *_LIKE[1], "r", "prepare_seconds", *_STEPS, "status", "concurrency"]
# Rows of a folder, as text.
Known = pd.DataFrame | Sequence[Mapping[str, str]]
# Mean seconds of rows, as `_means` returns them.
Means = Mapping[tuple[Any, ...], float]


def _means(rows: Known) -> Means:
    """Return mean seconds of preparing and of a trial, by configuration, by method and dataset, and by dataset.

    Serial and parallel trials are kept apart: in parallel, a step shared with another repetition took no time.
    """
    table = pd.DataFrame(rows, columns=_COLUMNS)
    table = table[table["status"] == "ok"]
    seconds = table[["prepare_seconds", *_STEPS]].replace("", "0").astype(float)
    table = table.assign(
        alone=table["concurrency"] == "1",
        r=table["r"].astype(int),
        prepare=seconds["prepare_seconds"],
        trial=seconds[_STEPS].sum(axis=1),
    )
    means: dict[tuple[Any, ...], float] = {}
    for like in _LIKE:
        for what, by in (("prepare", []), ("trial", []), ("trial", ["r"])):
            for labels, mean in table.groupby(["alone", *like, *by])[what].mean().items():
                alone, *key = cast(tuple[Any, ...], labels)
                r = [int(key.pop())] if by else []
                means[tuple(key) if len(key) > 1 else key[0], bool(alone), what, *r] = float(mean)
    return means


def reference_means() -> Means:
    """Return the mean seconds of the committed reference run; none if it is missing or from another version."""
    with suppress(OSError, UserError):
        path = rows_file(_REFERENCE)
        status = path.stat()
        return _reference_means(path, status.st_mtime_ns, status.st_size)
    return {}


@lru_cache(maxsize=1)
def _reference_means(path: Path, modified: int, size: int) -> Means:
    """Read the means once per process, and again when the file has changed."""
    del modified, size
    with suppress(OSError, UserError, ValueError), open_table(path.parent, path.name) as file:
        if file is not None:
            return _means(pd.read_csv(file, usecols=_COLUMNS, dtype=str, keep_default_na=False))
    return {}


def expected_seconds(rows: Known, others: Means | None = None) -> Seconds:
    """Return the function that estimates the seconds of a task from rows, and from means of other rows where needed."""
    known = {**(others or {}), **_means(rows)}

    def seconds(task: Task) -> float:
        keys = (task.config_hash, (task.dataset, task.reducer, task.params), task.dataset)
        for like in ((key, alone) for key in keys for alone in (task.serial, not task.serial)):
            if (*like, "trial") in known:
                trials = sum(known.get((*like, "trial", r), known[*like, "trial"]) for r in task.r_grid)
                return _OVERHEAD_SECONDS + known[*like, "prepare"] + trials
        return _OVERHEAD_SECONDS + _UNKNOWN_SECONDS * len(task.r_grid)

    return seconds


def wall_seconds(tasks: Iterable[Task], seconds: Seconds, n_jobs: int) -> dict[Task, float]:
    """Return the seconds that each task adds to the time of a run.

    A timed task has the machine to itself. Serial trials of a configuration follow one untimed warm-up.
    """
    wall: dict[Task, float] = {}
    warm: set[tuple[str, int]] = set()
    for task in sorted(tasks, key=lambda task: task.repeat):
        cells = {(task.config_hash, r) for r in task.r_grid} if task.serial or n_jobs == 1 else set()
        warm_ups = len(cells - warm) / len(task.r_grid)
        warm |= cells
        wall[task] = (1 + warm_ups) * seconds(task) / (1 if task.serial else n_jobs)
    return wall


# -- what fits -------------------------------------------------------------------------------------------------------


# A study and the hash of a configuration in it: a method on a dataset.
Configuration = tuple[str, str]


def _configuration(task: Task) -> Configuration:
    return task.study, task.config_hash


def _label(task: Task) -> str:
    return f"{task.reducer}{'' if task.params == '{}' else ' ' + task.params} on {task.dataset}"


@dataclass(frozen=True)
class Plan:
    """What is done of a run's tasks, in order, with the wall time that each adds.

    ``repeats`` has the repetitions of each study, ``left_out`` the labels of the methods that it omits.
    """

    tasks: list[Task]
    seconds: Mapping[Task, float]
    repeats: dict[str, int]
    left_out: dict[str, list[str]]


def choose(
    tasks: Sequence[Task], left: Sequence[Task], seconds: Seconds, n_jobs: int, limits: Limits, spent: float = 0.0
) -> Plan:
    """Choose what to run of what is left.

    One fraction of the repetitions is taken for all studies, the largest that fits the budget, but at least their timed
    repetitions and two. If even these do not fit, the most expensive methods are omitted until they do. The grid is
    never thinned here.

    ``tasks`` are all tasks of the studies, ``left`` those that are not done; ``spent`` are the seconds of the budget
    that have passed.
    """
    full = {study: 1 + max(task.repeat for task in group) for study, group in _group_by_study(tasks)}
    least = {
        study: min(full[study], max(_LEAST_REPEATS, 1 + max((t.repeat for t in group if t.serial), default=-1)))
        for study, group in _group_by_study(tasks)
    }
    cost = wall_seconds(left, seconds, n_jobs)
    omitted: set[Configuration] = set()
    if limits.task_seconds is not None:
        omitted = {_configuration(task) for task in left if seconds(task) > limits.task_seconds}

    def repeats(fraction: float) -> dict[str, int]:
        return {study: max(least[study], int(fraction * full[study] + 1e-9)) for study in full}

    def planned(fraction: float) -> list[Task]:
        repeats_of = repeats(fraction)
        return [task for task in left if task.repeat < repeats_of[task.study] and _configuration(task) not in omitted]

    fraction = 1.0
    if limits.budget is not None:
        available = max(0.0, limits.budget - ALLOWANCE_SECONDS - spent)
        omitted |= _choose_expensive(planned(0.0), cost, available)

        def fits(fraction: float) -> bool:
            return sum(cost[task] for task in planned(fraction)) <= available

        fraction = _largest_fitting_fraction(full, fits)
    labels = {_configuration(task): _label(task) for task in left}
    left_out = {study: sorted(labels[key] for key in omitted if key[0] == study) for study in full}
    return Plan(balanced_order(planned(fraction), seconds), cost, repeats(fraction), left_out)


def _choose_expensive(tasks: Sequence[Task], cost: Mapping[Task, float], available: float) -> set[Configuration]:
    """Return the configurations to omit, the most expensive first, so that the others fit in the time available."""
    costs: defaultdict[Configuration, float] = defaultdict(float)
    for task in tasks:
        costs[_configuration(task)] += cost[task]
    omitted: set[Configuration] = set()
    for most_expensive in sorted(costs, key=lambda key: (-costs[key], key)):
        if sum(seconds for key, seconds in costs.items() if key not in omitted) <= available:
            break
        omitted.add(most_expensive)
    return omitted


def _largest_fitting_fraction(full: Mapping[str, int], fits: Callable[[float], bool]) -> float:
    """Return the largest fraction of the repetitions of all studies that fits; 0 if none does.

    A larger fraction fits only if all smaller ones do. `full` has all repetitions of each study.
    """
    fractions = sorted({repeat / R for R in full.values() for repeat in range(R + 1)})
    fitting = bisect_left(fractions, True, key=lambda fraction: not fits(fraction))
    return fractions[max(0, fitting - 1)]


def _group_by_study(tasks: Sequence[Task]) -> Iterable[tuple[str, list[Task]]]:
    ordered = sorted(tasks, key=lambda task: task.study)
    return ((study, list(group)) for study, group in groupby(ordered, key=lambda task: task.study))


def balanced_order(tasks: Iterable[Task], seconds: Seconds) -> list[Task]:
    """Return tasks in an order that leaves a stopped run balanced: all studies at the same share of repetitions.

    Among equals the long tasks come first, so that short ones fill the end.
    """
    tasks = list(tasks)
    last: defaultdict[str, int] = defaultdict(int)
    for task in tasks:
        last[task.study] = max(last[task.study], task.repeat)
    return sorted(
        tasks,
        key=lambda task: (task.repeat / (1 + last[task.study]), -seconds(task), task.study, task.config_hash),
    )
