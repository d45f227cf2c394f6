"""What a run will take, and what it leaves out when it is to be short.

The seconds of a task are those of the same trials in rows that are known: of the folder itself, else of the committed
reference run. They decide the order of tasks, the time left and what fits a budget, and no number of any row.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, cast

import numpy as np
import pandas as pd

from kmdr.base.errors import UserError
from kmdr.base.paths import CONF
from kmdr.config.task import Task
from kmdr.harness.experiment import Experiment
from kmdr.results.stream import open_table
from kmdr.results.table import rows_file

# Beside the trials of a run: starting the workers, figures, tables and the report.
ALLOWANCE_SECONDS = 60.0
# What is assumed of a trial of which nothing like it is known.
_UNKNOWN_SECONDS = 0.1
# Beside the trials of a task: sending it, writing its file.
_OVERHEAD_SECONDS = 0.01
_LEAST_REPEATS = 2
_REFERENCE = CONF.parent / "results" / "reference"

Seconds = Callable[[Task], float]


@dataclass(frozen=True)
class Limits:
    """What a run may cost; by default all that its studies ask for.

    Attributes
    ----------
    budget : float or None
        Seconds of wall time, report included, that one fraction of all repetitions is chosen for.
    repeats, timing_repeats : int or None
        Repetitions at the most, and those of them run alone.
    grid : int or None
        Numbers of dimensions at the most, out of each study's own.
    task_seconds : float or None
        Methods with a task that is expected to take longer are left out.
    """

    budget: float | None = None
    repeats: int | None = None
    timing_repeats: int | None = None
    grid: int | None = None
    task_seconds: float | None = None

    def thin(self, experiment: Experiment) -> Experiment:
        """Return an experiment cut down to these limits, its first and last r kept."""
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

    Raises
    ------
    UserError
        When it is not of that form, or leaves nothing beside `ALLOWANCE_SECONDS`.

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
            f"budget = {text!r} leaves nothing beside the {ALLOWANCE_SECONDS:.0f} s kept for starting and for the "
            "report; give more, e.g. 5m"
        )
    return total


# -- expected seconds ------------------------------------------------------------------------------------------------


_STEPS = ["reduce_seconds", "cluster_seconds", "score_seconds"]
_LIKE = (["config_hash"], ["dataset", "reducer", "params"], ["dataset"])
_COLUMNS = [*_LIKE[0], *_LIKE[1], "r", "prepare_seconds", *_STEPS, "status", "concurrency"]
# What is known of the rows of a folder or of the reference run, as text.
Known = pd.DataFrame | Sequence[Mapping[str, str]]


def _means(rows: Known) -> dict[tuple[Any, ...], float]:
    """Return the mean seconds of preparing and of a trial, for each configuration, method on a dataset, and dataset.

    Trials that ran alone and those beside others are told apart: of these, what another repetition did cost nothing.
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


def reference_rows() -> Known:
    """Return the rows of the committed reference run; none where it is not at hand or of another version."""
    with suppress(OSError, UserError, ValueError), open_table(_REFERENCE, rows_file(_REFERENCE).name) as file:
        if file is not None:
            return pd.read_csv(file, usecols=_COLUMNS, dtype=str, keep_default_na=False)
    return []


def expected_seconds(*tables: Known) -> Seconds:
    """Return the function that gives the seconds a task is expected to take.

    Parameters
    ----------
    *tables : sequence of mapping or DataFrame
        Rows that are known, as text; earlier tables are believed before later ones.
    """
    known: dict[tuple[Any, ...], float] = {}
    for table in tables:
        known = _means(table) | known

    def seconds(task: Task) -> float:
        keys = (task.config_hash, (task.dataset, task.reducer, task.params), task.dataset)
        for like in ((key, alone) for key in keys for alone in (task.serial, not task.serial)):
            if (*like, "trial") in known:
                trials = sum(known.get((*like, "trial", r), known[*like, "trial"]) for r in task.r_grid)
                return _OVERHEAD_SECONDS + known[*like, "prepare"] + trials
        return _OVERHEAD_SECONDS + _UNKNOWN_SECONDS * len(task.r_grid)

    return seconds


def wall_seconds(task: Task, seconds: Seconds, n_jobs: int) -> float:
    """Return what a task adds to the time of a run.

    A timed task has the machine for itself; the first repetition of those that run alone is preceded by an untimed one.
    """
    warm_ups = int(task.repeat == 0 and (task.serial or n_jobs == 1))
    return (1 + warm_ups) * seconds(task) / (1 if task.serial else n_jobs)


# -- what fits -------------------------------------------------------------------------------------------------------


def _line(task: Task) -> tuple[str, str]:
    return task.study, task.config_hash


def _label(task: Task) -> str:
    return f"{task.reducer}{'' if task.params == '{}' else ' ' + task.params} on {task.dataset}"


@dataclass(frozen=True)
class Plan:
    """What of a run's tasks is done.

    Attributes
    ----------
    tasks : list of Task
        Those to run.
    repeats : dict of str to int
        Repetitions of each study.
    left_out : dict of str to list of str
        Methods of each study that are not run.
    """

    tasks: list[Task]
    repeats: dict[str, int]
    left_out: dict[str, list[str]]


def choose(
    tasks: Sequence[Task], left: Sequence[Task], seconds: Seconds, n_jobs: int, limits: Limits, spent: float = 0.0
) -> Plan:
    """Choose what to run of what is left.

    One fraction of the repetitions is taken for all studies, the largest that fits the budget; but each keeps its timed
    repetitions and at least two. Where even these do not fit, the dearest methods are left out until they do. The
    grid is never thinned here.

    Parameters
    ----------
    tasks : sequence of Task
        All that the studies ask for.
    left : sequence of Task
        What of them is not done.
    seconds : callable
        Expected seconds of a task.
    n_jobs : int
    limits : Limits
    spent : float
        Seconds of the budget that are gone.

    Returns
    -------
    Plan
    """
    full = {study: 1 + max(task.repeat for task in group) for study, group in _by_study(tasks)}
    least = {
        study: min(full[study], max(_LEAST_REPEATS, 1 + max((t.repeat for t in group if t.serial), default=-1)))
        for study, group in _by_study(tasks)
    }
    cost = {task: wall_seconds(task, seconds, n_jobs) for task in left}
    out: dict[tuple[str, str], str] = {}
    if limits.task_seconds is not None:
        out = {_line(task): _label(task) for task in left if seconds(task) > limits.task_seconds}

    def repeats(fraction: float) -> dict[str, int]:
        return {study: max(least[study], int(fraction * full[study] + 1e-9)) for study in full}

    def taken(fraction: float) -> list[Task]:
        planned = repeats(fraction)
        return [task for task in left if task.repeat < planned[task.study] and _line(task) not in out]

    fraction = 1.0
    if limits.budget is not None:
        room = max(0.0, limits.budget - ALLOWANCE_SECONDS - spent)
        lines: defaultdict[tuple[str, str], float] = defaultdict(float)
        labels = {_line(task): _label(task) for task in left}
        for task in taken(0.0):
            lines[_line(task)] += cost[task]
        for line in sorted(lines, key=lambda line: (-lines[line], line)):
            if sum(cost for kept, cost in lines.items() if kept not in out) <= room:
                break
            out[line] = labels[line]
        fractions = sorted({repeat / R for R in full.values() for repeat in range(R + 1)})
        low, high = 0, len(fractions)  # the first fits, as far as anything does; `high` does not
        while high - low > 1:
            middle = (low + high) // 2
            fits = sum(cost[task] for task in taken(fractions[middle])) <= room
            low, high = (middle, high) if fits else (low, middle)
        fraction = fractions[low]
    left_out: dict[str, list[str]] = {study: [] for study in full}
    for (study, _), label in sorted(out.items(), key=lambda item: (item[0][0], item[1])):
        left_out[study].append(label)
    return Plan(taken(fraction), repeats(fraction), left_out)


def _by_study(tasks: Sequence[Task]) -> Iterable[tuple[str, list[Task]]]:
    ordered = sorted(tasks, key=lambda task: task.study)
    return ((study, list(group)) for study, group in groupby(ordered, key=lambda task: task.study))


def in_order(tasks: Iterable[Task], seconds: Seconds) -> list[Task]:
    """Return tasks so that what a stopped run leaves is balanced: each study's by the share of its repetitions.

    Among equals the long ones go first, so that short ones fill the end.
    """
    tasks = list(tasks)
    last: defaultdict[str, int] = defaultdict(int)
    for task in tasks:
        last[task.study] = max(last[task.study], task.repeat)
    return sorted(
        tasks,
        key=lambda task: (task.repeat / (1 + last[task.study]), -seconds(task), task.study, task.config_hash),
    )
