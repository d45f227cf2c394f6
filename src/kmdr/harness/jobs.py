"""Jobs: the requests of one command. They are composed, checked, prepared, planned, run and reported here."""

import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from kmdr import datasets
from kmdr.base.errors import UserError, section, shown, yes_or_no
from kmdr.base.paths import with_home
from kmdr.base.private_paths import paths_in, without_folders
from kmdr.base.process import CrashError
from kmdr.base.text import Volume, announce, canonical, counted, tell, wrapped
from kmdr.config.compose import compose_configs, compose_study_configs, study_configs
from kmdr.config.studies import naming_study
from kmdr.config.studies import studies as configured
from kmdr.config.task import Task
from kmdr.datasets import UnavailableError, UnverifiedError
from kmdr.harness.engines.settings import Runner
from kmdr.harness.experiment import Experiment
from kmdr.harness.imports import check_imports, third_party_names
from kmdr.harness.plan import (
    ALLOWANCE_SECONDS,
    DRAWING_SECONDS,
    Limits,
    Plan,
    Seconds,
    choose,
    duration_text,
    expected_seconds,
    reference_means,
)
from kmdr.harness.progress import Progress
from kmdr.harness.runner import run_tasks
from kmdr.harness.shard import Part, hash_of_cut, partition, trial_key
from kmdr.reducers import recorded
from kmdr.results.json_files import plan_of_studies, planned_studies, read_json, unite_asked, unite_missing, with_parts
from kmdr.results.outdated import mixed_code, outdated_code, unfinished_tasks
from kmdr.results.paths import ASKED, MISSING, PLAN, SHARDS
from kmdr.results.store import Store
from kmdr.results.table_stream import VARIABLE, most_bytes
from kmdr.results.text_rows import TextRow

# Bytes of a row on disk.
_ROW_BYTES = 400
# From this number of trials on, expected times are looked up in the reference run, which takes a second.
_MANY_TRIALS = 500
# A run that is expected to take longer is announced with what would shorten it.
_HEAVY_SECONDS = 60.0


@dataclass(frozen=True)
class Job:
    """The request of one command; ``study`` is the tree of that name in the configuration.

    With ``refresh``, rows made by older code are computed again.
    """

    study: Mapping[str, Any] | None
    experiments: tuple[Experiment, ...]
    runner: Runner
    out: Path
    refresh: bool = False

    @classmethod
    def from_configs(cls, configs: Sequence[Mapping[str, Any]]) -> "Job":
        """Check plain configurations that differ only in dataset and reducer, and return their job."""
        if not configs:
            raise UserError("the study has no datasets or no reducers; name at least one of each")
        first = configs[0]
        runner = Runner.from_config(section(first, "runner"))
        check_imports(third_party_names(configs), runner.limit)
        experiments = tuple(Experiment.from_config(config) for config in configs)
        refresh = yes_or_no("refresh", first["refresh"])
        trials = sum(len(e.r_grid) * e.repeats for e in experiments)
        if trials * _ROW_BYTES > most_bytes():
            raise UserError(
                f"repeats and r_grid ask for {counted(trials, 'trial')}, whose table is larger than the limit of "
                f"{most_bytes()} bytes; allow more, e.g. by {VARIABLE}=1G, or give fewer repeats or sizes"
            )
        return cls(first["study"], experiments, runner, _out(first["out"]), refresh)


def _out(value: Any) -> Path:
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value) or "\0" in str(value):
        raise UserError(f"out = {shown(value)} is not the name of a folder; give one, e.g. out=results/runs")
    return with_home(str(value), "out =")


# Called with the folder, the studies that were run, the limits of a reproduction, the progress and the time until which
# it may compute facts; returns the files that it wrote.
Draw = Callable[[Path, Collection[str], Limits | None, Progress, float], Iterable[Path]]
# Called with the folder and the (study, ``config_hash``) that were run.
Show = Callable[[Path, Collection[tuple[str, str]]], None]


def compose(*overrides: str) -> Job:
    """Return the job of some overrides: ``compose("study=bzmd15_fig1", "repeats=2")``."""
    return Job.from_configs(compose_configs(*overrides))


def compose_studies(out: str, seed: int | None = None, papers: Collection[str] = ()) -> list[Job]:
    """Return a job for each study that is not only run on request, with the results in folder ``out``.

    ``seed`` replaces the root seed of the configuration. If there are ``papers``, there are jobs for their studies
    alone; a class that another study names need not be available.
    """
    jobs = []
    for name, configs in compose_study_configs(out, seed).items():
        if papers and configs and configs[0]["study"].get("paper") not in papers:
            continue
        with naming_study(name):
            jobs.append(Job.from_configs(configs))
    return jobs


class Prepared:
    """Prepared datasets by name and options, each prepared once, with the error of each unavailable one."""

    def __init__(self) -> None:
        self.folders: dict[tuple[str, str], Path | UserError] = {}

    def tasks(self, experiment: Experiment) -> list[Task]:
        """Return the tasks of an experiment; none if its dataset is not available."""
        key = (experiment.dataset, repr(sorted(experiment.options.items())))
        if key not in self.folders:
            try:
                self.folders[key] = datasets.prepare(experiment.dataset, experiment.options, experiment.verify)
            except (UnavailableError, UnverifiedError) as error:
                self.folders[key] = error
        folder = self.folders[key]
        if isinstance(folder, UserError):
            return []
        return experiment.tasks(datasets.open_prepared(folder, experiment.verify), folder)


def _tasks(jobs: Sequence[Job], limits: Limits) -> tuple[list[Task], dict[str, str], int]:
    """Return all tasks, the reason each missing dataset is unavailable, and the number of checksum failures."""
    prepared = Prepared()
    tasks = [task for job in jobs for experiment in job.experiments for task in prepared.tasks(limits.thin(experiment))]
    folders = prepared.folders
    here = f"{Path.cwd()}{os.sep}"
    missing = {
        name: str(error).replace(here, "") for (name, _), error in folders.items() if isinstance(error, UserError)
    }
    wrong = sum(getattr(error, "failed_check", isinstance(error, UnverifiedError)) for error in folders.values())
    return tasks, missing, wrong


def _note(text: str) -> None:
    """Log something that is not a mistake but may be unintended, unless the command is quiet."""
    if text and Volume.level >= 0:
        line = f"kmdr: note: {text}"
        tell(wrapped(line) if sys.stderr.isatty() else line)  # a file or a program gets one line


def _tell_all(lines: Iterable[str]) -> None:
    for line in lines:
        tell(f"kmdr: warning: {line}")


def _fixed_sizes(jobs: Sequence[Job], tasks: Sequence[Task]) -> str:
    """Return a sentence on the reducers outside studies that have one r whatever ``r_grid`` says, except all features.

    The result is empty if there are none.
    """
    asked = {
        (e.reducer, canonical(recorded(e.reducer, e.params))): e
        for job in jobs
        if job.study is None
        for e in job.experiments
    }
    fixed = {
        task.reducer: (task.r_grid[0], "rank" in e.params)
        for task in tasks
        if (e := asked.get((task.reducer, task.params))) and task.r_grid != e.r_grid and task.r_grid[0] != task.d
    }
    ranked = sorted(name for name, (_, by_rank) in fixed.items() if by_rank)
    sizes = ", ".join(f"{name} uses only r = {r}" for name, (r, _) in sorted(fixed.items()))
    remedy = f"; with reducer={ranked[0]} reducer.rank=r it uses r_grid" if ranked else ""
    return f"{sizes}, as in its paper, whatever r_grid says{remedy}" if fixed else ""


def _announce_heavy(plan: Plan, seconds: float, workers: int, limits: Limits | None) -> None:
    """Log what a long run will take and how to shorten it."""
    if not plan.tasks or (seconds < _HEAVY_SECONDS and Volume.level <= 0):
        return
    if limits is None:
        shorter = "fewer repeats=, a shorter r_grid= or kmeans.n_init=1 take less"
    elif limits.grid is not None:
        shorter = "naming one paper takes less"
    else:
        shorter = "--budget 5m, naming one paper, or 'kmdr quick' takes less"
    size = counted(workers, "worker") if workers > 1 else "one worker"
    _note(
        f"{counted(len(plan.tasks), 'task')}, about {duration_text(seconds)} on {size}; {shorter}, and "
        "finished tasks are kept when it is stopped"
    )


def _plan_file(
    known: Mapping[str, Any],
    plan: Plan,
    jobs: Sequence[Job],
    limits: Limits,
    late: Mapping[str, int],
    complete: Collection[str] = (),
) -> dict[str, Any]:
    """Return the content of ``plan.json``: repetitions asked for and planned, and the ``late`` tasks of each study.

    What is known of other studies, of an earlier run in this folder, stays. The limits do not matter to studies of
    which the folder is ``complete``.
    """
    full = {job.study["name"]: max(e.repeats for e in job.experiments) for job in jobs if job.study}
    studies = {
        name: {
            "repeats_full": repeats,
            "repeats_planned": plan.repeats.get(name, 0),
            "left_out": plan.left_out.get(name, []),
            "budget_seconds": limits.budget,
            "thinned_grid": limits.grid is not None,
            "tasks_not_begun": late.get(name, 0),
        }
        for name, repeats in full.items()
    }
    for name in complete:
        studies[name] |= {
            "repeats_planned": full[name], "left_out": [], "budget_seconds": None, "thinned_grid": False,
        }  # fmt: skip
    return plan_of_studies({**planned_studies(known), **studies})


def _without_plan(known: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return the content of ``plan.json`` after some studies were run without limits, like in a folder without it."""
    studies = planned_studies(known)
    rest = {name: study for name, study in studies.items() if name not in names}
    return dict(known) if len(rest) == len(studies) else plan_of_studies(rest)


def _with_latest(
    known: Mapping[str, list[str]], latest: Mapping[str, list[str]], names: Collection[str]
) -> dict[str, list[str]]:
    """Return the configurations each study was last run with, and log where these replace others of a named study."""
    for study in sorted(set(names)):
        replaced = set(known.get(study, ())) - set(latest.get(study, known.get(study, ())))
        if replaced:
            tell(
                f"kmdr: note: figures and the report now read {study} as it was run now; rows of "
                f"{counted(len(replaced), 'other configuration')} of it stay in the table; use another out "
                "folder to have both"
            )
    return dict(sorted({**known, **latest}.items()))


def _as_done(rows: Iterable[TextRow]) -> Iterator[Mapping[str, str]]:
    """Yield rows as finished ones: rows of failed trials count as rows."""
    return ({**row, "status": "ok"} for row in rows)


@dataclass(frozen=True)
class _Request:
    """The request of all jobs of one folder.

    Attributes
    ----------
    tasks : list of Task
        The tasks to run here: all, or one part.
    asked : set of (str, str)
        Study and ``config_hash`` of the tasks of all parts.
    names : list of str
        Studies.
    cut : list of list of Task
        The tasks of each part; one list if the plan is not cut into parts.
    seconds : callable or None
        The expected times by which the plan was cut.
    wrong : int
        Number of datasets that failed a checksum.
    """

    store: Store
    jobs: Sequence[Job]
    limits: Limits | None
    part: Part | None
    tasks: list[Task]
    asked: set[tuple[str, str]]
    names: list[str]
    cut: list[list[Task]]
    seconds: Seconds | None
    wrong: int

    @property
    def bounds(self) -> Limits:
        return self.limits or Limits()

    @property
    def runner(self) -> Runner:
        return self.jobs[0].runner

    @property
    def refresh(self) -> bool:
        return self.jobs[0].refresh


@dataclass(frozen=True)
class _Planned:
    """What is left to do of a request: the plan, unfinished tasks, and the rows that the folder has already.

    ``complete`` are the studies that were asked for with limits, of which the folder has all rows that they have
    without.
    """

    plan: Plan
    left: list[Task]
    known: list[TextRow]
    total_seconds: float
    complete: frozenset[str]


def _prepare(store: Store, jobs: Sequence[Job], limits: Limits | None, part: Part | None) -> _Request:
    """Prepare the datasets, and store in the folder what is asked for."""
    names = [job.study["name"] for job in jobs if job.study]
    if limits or names:
        configured()  # refuses an invalid study file now, not after the run
        for name in names:
            study_configs(name)
    tasks, missing, wrong = _tasks(jobs, limits or Limits())
    if not tasks:
        raise UserError(" ".join(missing.values()))
    _tell_all(missing.values())
    _note(_fixed_sizes(jobs, tasks))
    asked = {(task.study, task.config_hash) for task in tasks}
    available = {task.dataset for task in tasks}
    cut, seconds = [tasks], None
    if part:
        seconds = expected_seconds([], reference_means())
        cut = partition(tasks, part.total, seconds)
        tasks = cut[part.number - 1]
    files = [path for job in jobs for experiment in job.experiments for path in paths_in(experiment.options)]
    reasons = {name: without_folders(text, files) for name, text in missing.items()}
    store.change(MISSING, lambda known: unite_missing(available, reasons, known))
    store.keep_paths(tasks)
    store.add_configs({task.config_hash: task.config for task in tasks}.values())
    return _Request(store, jobs, limits, part, tasks, asked, names, cut, seconds, wrong)


def _plan(request: _Request, start: float, *, whole: bool) -> _Planned:
    """Choose what to run of what the folder lacks."""
    store, tasks, bounds = request.store, request.tasks, request.bounds
    known = store.merge()
    keep = any(task.keep_labels for task in tasks)
    left = unfinished_tasks(tasks, store.labelled(known) if keep else known, request.refresh)
    many = request.names or sum(len(task.r_grid) for task in left) >= _MANY_TRIALS
    seconds = request.seconds or expected_seconds(known, reference_means() if left and many else None)
    workers = request.runner.size if left else 1  # a finished run needs no cluster
    plan = choose(tasks, left, seconds, workers, bounds, time.time() - start)
    for study, labels in plan.left_out.items():
        for label in labels:
            tell(f"kmdr: warning: {study}: {label} is omitted: it takes too long for this run")
    complete = _complete(request, known) if request.limits and whole else frozenset()
    if request.limits and whole:
        store.change(PLAN, lambda known: _plan_file(known, plan, request.jobs, bounds, {}, complete))
    elif request.names and whole and read_json(store.folder, PLAN):
        store.change(PLAN, lambda known: _without_plan(known, request.names))
    total = sum(plan.seconds[task] for task in plan.tasks) + (ALLOWANCE_SECONDS if request.limits else 0.0)
    _announce_heavy(plan, total, workers, request.limits)
    return _Planned(plan, left, known, total, complete)


def _complete(request: _Request, known: Sequence[TextRow]) -> frozenset[str]:
    """Return the studies of which the known rows are all that a run without limits makes of the available data."""
    have = {row["study"] for row in known}
    jobs = [job for job in request.jobs if job.study and job.study["name"] in have]
    tasks, _, _ = _tasks(jobs, Limits())
    return frozenset({task.study for task in tasks} - {task.study for task in unfinished_tasks(tasks, known)})


def _run(
    request: _Request, planned: _Planned, start: float, draw: Draw | None, *, whole: bool
) -> tuple[list[TextRow], int, list[Path]]:
    """Run the plan and draw what follows from it; return the rows, how many tasks were late, and the files."""
    limits, store, bounds, tasks = request.limits, request.store, request.bounds, planned.plan.tasks
    end = math.inf if bounds.budget is None else start + bounds.budget
    with Progress(len(tasks), planned.total_seconds) as progress:
        rows, late = planned.known, 0
        if tasks:
            until = end - ALLOWANCE_SECONDS
            seconds = planned.plan.seconds
            rows, late = run_tasks(tasks, request.runner, store, seconds, progress, until, len(request.cut))
        if limits and whole and late:
            behind = Counter(task.study for task in unfinished_tasks(tasks, _as_done(rows), request.refresh))
            store.change(
                PLAN, lambda known: _plan_file(known, planned.plan, request.jobs, bounds, behind, planned.complete)
            )
        latest: dict[str, list[str]] = {}
        for study, config in sorted(request.asked):
            latest.setdefault(study, []).append(config)
        store.change(
            ASKED, lambda known: _with_latest(known, latest, request.names) if whole else unite_asked(known, latest)
        )
        made: list[Path] = []
        if draw and not request.part and (limits or request.names):
            made += draw(store.folder, request.names, limits, progress, end - DRAWING_SECONDS)
    return rows, late, made


def _report(
    request: _Request, planned: _Planned, rows: list[TextRow], late: int, made: list[Path], show: Show | None
) -> int:
    """Return the number of trials that failed or were lost and of datasets that failed a checksum, and log them."""
    asked, part, table = request.asked, request.part, request.store.folder / "rows.csv"
    failed = sum(row["status"] != "ok" and (row["study"], row["config_hash"]) in asked for row in rows)
    if show and not request.limits and not part and Volume.level >= 0:
        show(request.store.folder, asked)
    announce(f"{table}: {counted(len(rows), 'row')}" + (f", {failed} of this run failed" if failed else ""))
    if late:
        them = "it" if late == 1 else "them"
        tell(f"kmdr: warning: the budget was over before {counted(late, 'task')} ended; the same command runs {them}")
    finished_rows = [row for row in rows if (row["study"], row["config_hash"]) in asked and row["status"] == "ok"]
    _tell_all([*mixed_code(finished_rows), *outdated_code(finished_rows)])
    # Planned tasks whose rows are not in the table.
    left_out = {*map(trial_key, planned.left)} - {*map(trial_key, planned.plan.tasks)}
    missing = unfinished_tasks(request.tasks, _as_done(rows), request.refresh)
    lost = sum(trial_key(task) not in left_out for task in missing) - late
    if lost > 0:
        tell(
            f"kmdr: warning: {counted(lost, 'planned task has', 'planned tasks have')} no rows in {table}: files were "
            f"removed or damaged meanwhile; the same command runs {'it' if lost == 1 else 'them'}"
        )
    for line in _close_part(request.store, part, request.cut, finished=lost <= 0) if part else map(str, made):
        announce(line)
    return failed + max(lost, 0) + request.wrong


def _close_part(store: Store, part: Part, cut: Sequence[Sequence[Task]], *, finished: bool) -> list[str]:
    """Record a finished part, and return what to do with it."""
    plan, tasks = hash_of_cut(cut), cut[part.number - 1]
    if finished:
        store.change(SHARDS, lambda known: with_parts(known, {plan: {"of": part.total, "parts": [part.number]}}))
    return [
        f"part {part} of the plan {plan}: {len(tasks)} of {counted(sum(map(len, cut)), 'task')}; tables, figures and "
        "the report are made from all parts together: 'kmdr merge PART … -o OUT', then 'kmdr report OUT'"
    ]


def run_jobs(
    jobs: Sequence[Job],
    limits: Limits | None = None,
    *,
    part: Part | None = None,
    whole: bool = True,
    draw: Draw | None = None,
    show: Show | None = None,
) -> int:
    """Run jobs as one: check everything, run what is missing, then draw and show the rows.

    Raise `UserError` when a value is not valid, or none of the datasets is available.

    Parameters
    ----------
    limits : Limits, optional
        Of a reproduction.
    part : Part, optional
        The part of the tasks to run; nothing is then drawn.
    whole : bool
        Whether the jobs are all of their studies: ``plan.json``, and so the report, states what was planned of them,
        and their configurations replace earlier ones. Otherwise, as in a round of the atlas, these count with them.
    draw : callable, optional
        Makes the files that follow from the rows, if studies were run or there are limits.
    show : callable, optional
        Prints the rows of a run without limits.

    Returns
    -------
    int
        Exit status: 0 when every planned row is there; 1 when a trial failed, a row was lost or a dataset failed a
        checksum. An unavailable dataset is reported and shown as a gap.
    """
    failed, start = 0, time.time()

    def destination(job: Job) -> tuple[str, str, bool]:
        return str(job.out), repr(job.runner), job.refresh

    for _, group in groupby(sorted(jobs, key=destination), key=destination):
        together = list(group)
        try:
            store = Store(together[0].out)  # refuses a folder that cannot be written to
            with store.held():
                request = _prepare(store, together, limits, part)
                planned = _plan(request, start, whole=whole)
                rows, late, made = _run(request, planned, start, draw, whole=whole)
                failed += _report(request, planned, rows, late, made, show)
        except UserError:
            raise
        except Exception as error:
            raise CrashError(together[0].out) from error
    return int(failed > 0)
