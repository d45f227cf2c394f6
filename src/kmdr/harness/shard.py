"""``kmdr shard I/N``: a part of the tasks of a plan, for machines that share no file system and no engine.

Every machine cuts the plan by itself, and all cut it alike: the order is that of names, and what a task takes is what
it took in the committed reference run, in whole milliseconds, so that neither rows that are there already nor the last
bit of a mean decides anything. The timed tasks of a study stay together, so that no curve mixes the times of several
machines.

A finished part leaves a note of the cut that it was part of; by it ``kmdr merge`` tells which parts are not there.
"""

import heapq
import re
from collections.abc import Sequence
from typing import NamedTuple

from kmdr.base.errors import UserError, shown
from kmdr.base.text import short_hash
from kmdr.config.task import Task
from kmdr.harness.plan import Seconds


class Part(NamedTuple):
    """Part ``number``, from 1, of ``of``."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def parse_part(text: str) -> Part:
    """Return the part that a text such as ``2/5`` names.

    Raises
    ------
    UserError

    Examples
    --------
    >>> parse_part("2/5")
    Part(number=2, of=5)
    """
    match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
    part = Part(*map(int, match.groups())) if match else Part(0, 0)
    if not 1 <= part.number <= part.of:
        raise UserError(
            f"{shown(text)} is no part of a plan; write I/N with I from 1 to N, "
            "e.g. 'kmdr shard 2/5 bzmd15_fig1 out=parts/2'"
        )
    return part


def partition(tasks: Sequence[Task], parts: int, seconds: Seconds) -> list[list[Task]]:
    """Cut tasks into parts that take about the same time: the longest first, each to the part with the least so far.

    No part takes longer than 4/3 of the best cut's longest (R. L. Graham, SIAM J. Appl. Math. 17, 1969). What stays
    together is the timed tasks of a study, and tasks of the same trials.

    Parameters
    ----------
    tasks : sequence of Task
        In any order.
    parts : int
    seconds : callable
        Expected seconds of a task, the same on every machine.

    Returns
    -------
    list of list of Task
        One for each part, in the order of the parts; there may be empty ones.
    """
    units: dict[tuple[str, str, int], list[Task]] = {}
    for task in sorted(tasks, key=lambda task: (*_trials(task), task.r_grid)):
        units.setdefault((task.study, "", 0) if task.serial else _trials(task), []).append(task)
    cost = {unit: sum(round(1000 * seconds(task)) for task in together) for unit, together in units.items()}
    cut: list[list[Task]] = [[] for _ in range(parts)]
    loads = [(0, part) for part in range(parts)]
    for unit in sorted(units, key=lambda unit: (-cost[unit], unit)):
        load, part = loads[0]
        cut[part] += units[unit]
        heapq.heapreplace(loads, (load + cost[unit], part))
    return cut


def _trials(task: Task) -> tuple[str, str, int]:
    return task.study, task.config_hash, task.repeat


def hash_of_cut(cut: Sequence[Sequence[Task]]) -> str:
    """Return what tells one cut of one plan from others."""
    return short_hash([[[*_trials(task), task.r_grid, task.serial] for task in part] for part in cut])
