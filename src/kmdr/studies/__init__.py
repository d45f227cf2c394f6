"""Studies: the experiments that one table or figure of a paper needs, and what is made of their rows.

One module a paper draws its figures; it is found by the ``paper`` entry of the study's configuration.
"""

import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

from kmdr import datasets
from kmdr.datasets import UnavailableError, UnverifiedError
from kmdr.errors import UserError
from kmdr.experiment import Experiment
from kmdr.files import write_atomically
from kmdr.report.figures import save
from kmdr.report.summary import read_rows
from kmdr.runner import Runner, run_tasks
from kmdr.store import Store
from kmdr.task import Task


@dataclass(frozen=True)
class Job:
    """What one command asks for.

    Attributes
    ----------
    study : mapping or None
        The ``study`` tree of the configuration.
    experiments : tuple of Experiment
    runner : Runner
    out : Path
    """

    study: Mapping[str, Any] | None
    experiments: tuple[Experiment, ...]
    runner: Runner
    out: Path

    @classmethod
    def from_configs(cls, configs: Sequence[Mapping[str, Any]]) -> "Job":
        """Check plain configurations that differ only in dataset and reducer.

        Raises
        ------
        UserError
        """
        if not configs:
            raise UserError("the study has no datasets or no reducers; name at least one of each")
        first = configs[0]
        experiments = tuple(Experiment.from_config(config) for config in configs)
        return cls(first["study"], experiments, Runner.from_config(first["runner"]), Path(str(first["out"])))


def _tasks(jobs: Sequence[Job]) -> tuple[list[Task], dict[str, str]]:
    """Return the tasks of all jobs, checked against their data, and why which datasets cannot be had."""
    folders: dict[tuple[str, str], Path | UserError] = {}
    tasks: list[Task] = []
    for job in jobs:
        for experiment in job.experiments:
            key = (experiment.dataset, repr(sorted(experiment.options.items())))
            if key not in folders:
                try:
                    folders[key] = datasets.prepare(experiment.dataset, experiment.options)
                except (UnavailableError, UnverifiedError) as error:
                    folders[key] = error
            folder = folders[key]
            if isinstance(folder, Path):
                tasks += experiment.tasks(datasets.open_prepared(folder), folder)
    missing = {name: str(error) for (name, _), error in folders.items() if isinstance(error, UserError)}
    return tasks, missing


def run_jobs(jobs: Sequence[Job]) -> int:
    """Run jobs as one: check everything, then run what is missing, then draw the studies' figures.

    Returns
    -------
    int
        Exit status: 1 when a trial failed, else 0; a dataset that cannot be had is told of and shown as a gap.

    Raises
    ------
    UserError
        When a value is not valid, or none of the datasets can be had.
    """
    status = 0

    def where(job: Job) -> tuple[str, str]:
        return str(job.out), repr(job.runner)

    for _, group in groupby(sorted(jobs, key=where), key=where):
        together = list(group)
        out, runner = together[0].out, together[0].runner
        Store(out)  # refuses a folder that cannot be written to
        tasks, missing = _tasks(together)
        if not tasks:
            raise UserError(" ".join(missing.values()))
        for line in missing.values():
            print(f"kmdr: {line}", file=sys.stderr)
        write_atomically(out / "missing.json", (json.dumps(missing, indent=2, ensure_ascii=False) + "\n").encode())
        rows = run_tasks(tasks, runner, out)
        asked = {(task.study, task.config_hash) for task in tasks}
        failed = sum(row["status"] != "ok" and (row["study"], row["config_hash"]) in asked for row in rows)
        studies = [job.study for job in together if job.study]
        table = read_rows(out / "rows.csv") if studies else pd.DataFrame()
        drawn = [path for study in studies for path in draw(study, out, table, tasks)]
        print(f"{out / 'rows.csv'}: {len(rows)} rows" + (f", {failed} of this run failed" if failed else ""))
        for path in drawn:
            print(path)
        status = max(status, int(failed > 0))
    return status


def draw(study: Mapping[str, Any], folder: Path, rows: pd.DataFrame, tasks: Sequence[Task]) -> list[Path]:
    """Draw a study's figure from a folder of results, as its paper's module lays it out.

    Parameters
    ----------
    study : mapping
        The ``study`` tree of its configuration.
    folder : Path
    rows : DataFrame
        The folder's merged table.
    tasks : sequence of Task
        Whose rows to draw: the folder may hold others of the same study, under other settings.

    Returns
    -------
    list of Path
        The files written, in ``folder/figures``.
    """
    module = importlib.import_module(f"{__name__}.{study['paper']}")
    wanted = {(task.study, task.config_hash, r, task.repeat) for task in tasks for r in task.r_grid}
    keys = zip(rows["study"], rows["config_hash"], rows["r"], rows["repeat"], strict=True)
    mine = rows[[key[0] == study["name"] and key in wanted for key in keys]]
    return save(module.figure(study, mine), folder / "figures" / study["name"])
