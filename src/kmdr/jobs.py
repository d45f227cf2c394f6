"""Jobs: what one command asks for, run as one; then what is made of the rows."""

import json
import math
import os
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from kmdr import datasets
from kmdr.datasets import UnavailableError, UnverifiedError
from kmdr.errors import UserError
from kmdr.experiment import Experiment
from kmdr.files import read_json, write_atomically
from kmdr.plan import ALLOWANCE_SECONDS, Limits, Plan, choose, expected_seconds, reference_rows, wall_seconds
from kmdr.progress import Progress
from kmdr.report.build import build, draw_items
from kmdr.runner import Runner, run_tasks
from kmdr.store import Store
from kmdr.store import missing as unfinished
from kmdr.studies.configs import studies as configured
from kmdr.studies.results import ASKED
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


def _tasks(jobs: Sequence[Job], limits: Limits) -> tuple[list[Task], dict[str, str]]:
    """Return the tasks of all jobs, checked against their data, and why which datasets cannot be had."""
    folders: dict[tuple[str, str], Path | UserError] = {}
    tasks: list[Task] = []
    for job in jobs:
        for experiment in job.experiments:
            key = (experiment.dataset, repr(sorted(experiment.options.items())))
            if key not in folders:
                try:
                    folders[key] = datasets.prepare(experiment.dataset, experiment.options, experiment.verify)
                except (UnavailableError, UnverifiedError) as error:
                    folders[key] = error
            folder = folders[key]
            if isinstance(folder, Path):
                tasks += limits.thin(experiment).tasks(datasets.open_prepared(folder, experiment.verify), folder)
    # Stored and shown: paths inside the project are told from there, so that they say nothing of the machine.
    here = f"{Path.cwd()}{os.sep}"
    missing = {
        name: str(error).replace(here, "") for (name, _), error in folders.items() if isinstance(error, UserError)
    }
    return tasks, missing


def _described(plan: Plan, jobs: Sequence[Job], limits: Limits, late: int) -> dict[str, Any]:
    """Return what ``plan.json`` says: what studies ask for, what of it was planned, how many tasks came too late."""
    full = {job.study["name"]: max(e.repeats for e in job.experiments) for job in jobs if job.study}
    studies = {
        name: {
            "repeats_full": repeats,
            "repeats_planned": plan.repeats.get(name, 0),
            "left_out": plan.left_out.get(name, []),
        }
        for name, repeats in sorted(full.items())
    }
    cut = any(name in plan.repeats and plan.repeats[name] < repeats for name, repeats in full.items())
    return {
        "budget_seconds": limits.budget,
        "full": not (cut or late or limits.grid is not None or any(plan.left_out.values())),
        "thinned_grid": limits.grid is not None,
        "tasks_not_begun": late,
        "studies": studies,
    }


def _write_json(path: Path, content: Any) -> None:
    write_atomically(path, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())


def _add_asked(out: Path, asked: Collection[tuple[str, str]]) -> None:
    """Note which configurations a study was last run with: a folder may hold others, which are not to be mixed in."""
    file = out / ASKED
    known = read_json(file)
    for study in {name for name, _ in asked}:
        known[study] = sorted(config for name, config in asked if name == study)
    _write_json(file, dict(sorted(known.items())))


def _run_together(jobs: Sequence[Job], limits: Limits | None, start: float) -> int:
    """Run jobs that share a folder and a runner, and return how many of their trials failed."""
    bounds, out, runner = limits or Limits(), jobs[0].out, jobs[0].runner
    names = [job.study["name"] for job in jobs if job.study]
    store = Store(out)  # refuses a folder that cannot be written to
    tasks, missing = _tasks(jobs, bounds)
    if not tasks:
        raise UserError(" ".join(missing.values()))
    for line in missing.values():
        print(f"kmdr: {line}", file=sys.stderr)
    _write_json(out / "missing.json", missing)

    known = store.merge()
    left = unfinished(tasks, known)
    seconds = expected_seconds(known, reference_rows() if left and names else [])
    plan = choose(tasks, left, seconds, runner.n_jobs, bounds, time.time() - start)
    for study, labels in plan.left_out.items():
        for label in labels:
            print(f"kmdr: {study}: {label} is left out: it takes too long for this run", file=sys.stderr)
    if limits:
        _write_json(out / "plan.json", _described(plan, jobs, bounds, late=0))
    until = math.inf if bounds.budget is None else start + bounds.budget - ALLOWANCE_SECONDS
    work = sum(wall_seconds(task, seconds, runner.n_jobs) for task in plan.tasks)
    asked = {(task.study, task.config_hash) for task in tasks}
    made: list[Path] = []
    with closing(Progress(len(plan.tasks), work + (ALLOWANCE_SECONDS if limits else 0.0))) as progress:
        rows, late = run_tasks(plan.tasks, runner, out, seconds, progress, until) if plan.tasks else (known, 0)
        if limits and late:
            _write_json(out / "plan.json", _described(plan, jobs, bounds, late))
        _add_asked(out, asked)
        if limits:
            made = [build(out, configured(), tell=progress.making)]
        elif names:
            made = draw_items(out, names, configured())
    failed = sum(row["status"] != "ok" and (row["study"], row["config_hash"]) in asked for row in rows)
    print(f"{out / 'rows.csv'}: {len(rows)} rows" + (f", {failed} of this run failed" if failed else ""))
    if late:
        print(f"kmdr: the budget was over before {late} tasks began; the same command does them", file=sys.stderr)
    for path in made:
        print(path)
    return failed


def run_jobs(jobs: Sequence[Job], limits: Limits | None = None) -> int:
    """Run jobs as one: check everything, then run what is missing, then make what is made of the rows.

    With limits that is the whole report; else the tables and figures that read the studies.

    Parameters
    ----------
    jobs : sequence of Job
    limits : Limits, optional
        Where they are given, also if they limit nothing, ``plan.json`` tells what was planned of the studies.

    Returns
    -------
    int
        Exit status: 1 when a trial failed, else 0; a dataset that cannot be had is told of and shown as a gap.

    Raises
    ------
    UserError
        When a value is not valid, or none of the datasets can be had.
    """
    failed, start = 0, time.time()

    def where(job: Job) -> tuple[str, str]:
        return str(job.out), repr(job.runner)

    for _, group in groupby(sorted(jobs, key=where), key=where):
        failed += _run_together(list(group), limits, start)
    return int(failed > 0)
