"""``kmdr shard I/N``: one part of a plan's tasks, for machines without a common file system or engine.

Each machine cuts the plan by itself, and all get the same parts: tasks are ordered by name, and the expected times come
from the committed reference run in whole milliseconds, so that neither existing rows nor the last bit of a mean
matters. The timed tasks of a study stay together, so that no curve mixes times of several machines.

A finished part records which cut it belongs to, so that ``kmdr merge`` can report missing parts.
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
    """Part ``number`` of ``total``, counted from 1."""

    number: int
    total: int

    def __str__(self) -> str:
        return f"{self.number}/{self.total}"


def parse_part(text: str) -> Part:
    """Return the part that a text such as ``2/5`` names.

    Examples
    --------
    >>> parse_part("2/5")
    Part(number=2, total=5)
    """
    match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
    part = Part(*map(int, match.groups())) if match else Part(0, 0)
    if not 1 <= part.number <= part.total:
        raise UserError(
            f"{shown(text)} does not name a part of a plan; write I/N with I from 1 to N, "
            "e.g. 'kmdr shard 2/5 bzmd15_fig1 out=parts/2'"
        )
    return part


def partition(tasks: Sequence[Task], parts: int, seconds: Seconds) -> list[list[Task]]:
    """Cut tasks into parts of about the same time: the longest first, each to the part with the least so far.

    No part takes longer than 4/3 of the longest in the best cut (R. L. Graham, SIAM J. Appl. Math. 17, 1969). The timed
    tasks of a study stay together, and so do tasks of the same trials. Parts may be empty. ``seconds`` must be the same
    on every machine; the order of the tasks does not matter.
    """
    units: dict[tuple[str, str, int], list[Task]] = {}
    for task in sorted(tasks, key=lambda task: (*trial_key(task), task.r_grid)):
        units.setdefault((task.study, "", 0) if task.serial else trial_key(task), []).append(task)
    cost = {unit: sum(round(1000 * seconds(task)) for task in together) for unit, together in units.items()}
    cut: list[list[Task]] = [[] for _ in range(parts)]
    loads = [(0, part) for part in range(parts)]
    for unit in sorted(units, key=lambda unit: (-cost[unit], unit)):
        load, part = loads[0]
        cut[part] += units[unit]
        heapq.heapreplace(loads, (load + cost[unit], part))
    return cut


def trial_key(task: Task) -> tuple[str, str, int]:
    """Return the key that identifies the trials of a task, apart from r."""
    return task.study, task.config_hash, task.repeat


def hash_of_cut(cut: Sequence[Sequence[Task]]) -> str:
    """Return a hash that identifies one cut of one plan."""
    return short_hash([[[*trial_key(task), task.r_grid, task.serial] for task in part] for part in cut])
