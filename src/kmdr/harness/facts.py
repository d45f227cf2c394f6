"""Facts: tables computed from datasets instead of by trials. The run that makes rows computes and stores them."""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from kmdr.base.errors import UserError
from kmdr.base.files import DamagedError
from kmdr.base.text import Volume, short_hash
from kmdr.datasets import Dataset, availability_of, load
from kmdr.harness.progress import Progress
from kmdr.results.checksums import is_current, write_table
from kmdr.results.csv_lines import table_bytes


@dataclass(frozen=True)
class FactTask:
    """A table to compute.

    Attributes
    ----------
    name : str
        Stem of its files in the folder ``facts``.
    datasets : tuple of str
        Names of the datasets that it is computed from.
    code : list of str
        Hashes of all code that computes it.
    rows : list of list of str
        The rows that it is computed from.
    compute : callable
        From the datasets to the table; None if the rows do not allow it, e.g. without a repetition of the kind shown.
    """

    name: str
    datasets: tuple[str, ...]
    code: list[str]
    rows: list[list[str]]
    compute: Callable[[Sequence[Dataset]], pd.DataFrame | None]


def run_facts(tasks: Iterable[FactTask], folder: Path, progress: Progress, until: float = math.inf) -> None:
    """Compute the facts that a folder lacks, or has from other data, rows or code, and report those it must omit.

    Each is stored as ``facts/NAME.csv``, with a hash of what it was made from and its SHA-256 in ``facts/NAME.from``.
    A fact whose data are not prepared is omitted: a run prepares everything that is available before its first trial.

    No fact is begun after ``until``, in seconds since the epoch.
    """
    late, without_data = [], []
    for task in tasks:
        if missing := [name for name in task.datasets if availability_of(name).state != "prepared"]:
            without_data.append(f"{task.name} ({', '.join(missing)})")
            continue
        try:
            datasets = [load(name) for name in task.datasets]
            made_from = short_hash([task.code, [data.data_sha256 for data in datasets], task.rows])
            if is_current(folder, f"facts/{task.name}.csv", made_from):
                continue
        except DamagedError:  # the report says so
            continue
        except UserError as error:
            progress.tell(f"kmdr: warning: the fact {task.name} is not computed: {error}")
            continue
        if time.time() > until:
            late.append(task.name)
            continue
        progress.making(task.name)
        try:
            table = task.compute(datasets)
        except UserError as error:
            progress.tell(f"kmdr: warning: the fact {task.name} is not computed: {error}")
            continue
        if table is not None:
            write_table(folder, f"facts/{task.name}.csv", table_bytes(table), made_from)
    if without_data and Volume.level >= 0:
        progress.tell(f"kmdr: warning: facts whose data are not prepared are not computed: {', '.join(without_data)}")
    if late:
        progress.tell(
            f"kmdr: warning: the budget was over before the facts {', '.join(late)}; the same command computes them"
        )
