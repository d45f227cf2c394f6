"""Jobs: what one command asks for, composed, checked and run as one."""

import math
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from kmdr import datasets
from kmdr.base.errors import UserError, section, shown, yes_or_no
from kmdr.base.private_paths import paths_in, without_folders
from kmdr.base.process import CrashError
from kmdr.base.text import Volume, announce, canonical, tell
from kmdr.config.compose import compose_configs, compose_study_configs
from kmdr.config.studies import studies as configured
from kmdr.config.task import Task
from kmdr.datasets import UnavailableError, UnverifiedError
from kmdr.harness.experiment import Experiment
from kmdr.harness.plan import (
    ALLOWANCE_SECONDS,
    Limits,
    Plan,
    Seconds,
    choose,
    expected_seconds,
    reference_rows,
    wall_seconds,
)
from kmdr.harness.progress import Progress
from kmdr.harness.runner import Runner, run_tasks
from kmdr.harness.shard import Part, hash_of_cut, partition
from kmdr.reducers import recorded
from kmdr.results.json_files import write_json
from kmdr.results.outdated import missing as unfinished
from kmdr.results.outdated import mixed_code, outdated_code
from kmdr.results.paths import ASKED, SHARDS
from kmdr.results.rows import TextRow
from kmdr.results.shards import with_parts
from kmdr.results.store import Store
from kmdr.results.stream import VARIABLE, most_bytes

# Rows of one table: a row takes 2 kB of memory while tables are merged.
_MOST_TRIALS = 500_000
# Of a row in that table.
_ROW_BYTES = 400
# Of so many the expected time is looked up in the reference run, which takes a second.
_MANY_TRIALS = 500
# A run that is expected to take longer says so before it begins.
_HEAVY_SECONDS = 60.0


Rows = list[TextRow]


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
    refresh : bool
        Whether rows that were made by other code than today's are made again.
    """

    study: Mapping[str, Any] | None
    experiments: tuple[Experiment, ...]
    runner: Runner
    out: Path
    refresh: bool = False

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
        refresh = yes_or_no("refresh", first["refresh"])
        trials = sum(len(e.r_grid) * e.repeats for e in experiments)
        if trials > _MOST_TRIALS:
            raise UserError(
                f"repeats and r_grid ask for {trials} trials, more than the {_MOST_TRIALS} of one table; give fewer "
                "repeats or sizes, or several folders"
            )
        if trials * _ROW_BYTES > most_bytes():
            raise UserError(
                f"repeats and r_grid ask for {trials} trials, whose table is larger than the limit of {most_bytes()} "
                f"bytes; allow more, e.g. by {VARIABLE}=1G, or give fewer repeats or sizes"
            )
        return cls(
            first["study"], experiments, Runner.from_config(section(first, "runner")), _out(first["out"]), refresh
        )


def _out(value: Any) -> Path:
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value) or "\0" in str(value):
        raise UserError(f"out = {shown(value)} is not the name of a folder; give one, e.g. out=results/runs")
    try:
        return Path(str(value)).expanduser()
    except RuntimeError as error:
        raise UserError(f"out = {shown(value)} names a home folder that is not known; give the whole path") from error


# Called with the folder, the studies that were run and the limits of a reproduction; returns the files that it made.
Draw = Callable[[Path, Collection[str], Limits | None, Progress], Iterable[Path]]
# Called with the folder and the (study, ``config_hash``) that were run.
Show = Callable[[Path, Collection[tuple[str, str]]], None]


def compose(*overrides: str) -> Job:
    """Return the job of some overrides: ``compose("study=bzmd15_fig1", "repeats=2")``.

    Raises
    ------
    UserError
        When an override or a value is not valid.
    """
    return Job.from_configs(compose_configs(*overrides))


def compose_studies(out: str) -> list[Job]:
    """Return a job for each study that runs without being named, with the results in folder ``out``."""
    return [Job.from_configs(configs) for configs in compose_study_configs(out)]


class Prepared:
    """Datasets of experiments, each prepared once; why those cannot be had that cannot."""

    def __init__(self) -> None:
        self.folders: dict[tuple[str, str], Path | UserError] = {}

    def tasks(self, experiment: Experiment) -> list[Task]:
        """Return the tasks of an experiment; none where its dataset cannot be had."""
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
    """Return the tasks of all jobs, why which datasets cannot be had, and how many of these for a wrong file."""
    prepared = Prepared()
    tasks = [task for job in jobs for each in job.experiments for task in prepared.tasks(limits.thin(each))]
    folders = prepared.folders
    here = f"{Path.cwd()}{os.sep}"
    missing = {
        name: str(error).replace(here, "") for (name, _), error in folders.items() if isinstance(error, UserError)
    }
    wrong = sum(getattr(error, "failed_check", isinstance(error, UnverifiedError)) for error in folders.values())
    return tasks, missing, wrong


def _public(missing: Mapping[str, str], jobs: Sequence[Job]) -> dict[str, str]:
    """Return why datasets are not available without the folders of files, as it is stored."""
    files = [path for job in jobs for experiment in job.experiments for path in paths_in(experiment.options)]
    return {name: without_folders(reason, files) for name, reason in missing.items()}


def _note(text: str) -> None:
    """Tell what is no mistake but may not be what was meant; nothing to a command that is to be quiet."""
    if text and Volume.level >= 0:
        tell(f"note: {text}")


def _of_one_size(jobs: Sequence[Job], tasks: Sequence[Task]) -> str:
    """Say which reducers outside any study give one r whatever ``r_grid`` says, all features apart."""
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
    sizes = ", ".join(f"{name} has r = {r}" for name, (r, _) in sorted(fixed.items()))
    remedy = f"; a run of reducer={ranked[0]} reducer.rank=r follows it" if ranked else ""
    return f"{sizes} alone here, as its paper has it, whatever r_grid says{remedy}" if fixed else ""


def _in_words(seconds: float) -> str:
    """Return a duration as one says it.

    Examples
    --------
    >>> _in_words(40), _in_words(100), _in_words(5000)
    ('40 s', '2 min', '1 h 23 min')
    """
    minutes = round(seconds / 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min" if seconds >= 60 else f"{seconds:.0f} s"


def _before(plan: Plan, seconds: float, workers: int, limits: Limits | None) -> None:
    """Say of a heavy run what it will take, and how to get less."""
    if seconds < _HEAVY_SECONDS and Volume.level <= 0:
        return
    if limits is None:
        less = "fewer repeats=, a shorter r_grid= or kmeans.n_init=1 take less"
    elif limits.grid is not None:
        less = "naming one paper takes less"
    else:
        less = "BUDGET=5m, naming one paper, or 'kmdr quick' takes less"
    beside = f"{workers} workers" if workers > 1 else "one worker"
    _note(
        f"{len(plan.tasks)} tasks, about {_in_words(seconds)} on {beside}; {less}, and what is done when it is "
        "stopped is kept"
    )


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


def _with_asked(
    known: Mapping[str, list[str]], asked: Collection[tuple[str, str]], names: Collection[str]
) -> dict[str, list[str]]:
    """Return which configurations each study was last run with, and say where these replace others of a named one."""
    latest = {study: sorted(config for name, config in asked if name == study) for study, _ in asked}
    for study in sorted(set(names)):
        others = set(known.get(study, ())) - set(latest.get(study, known.get(study, ())))
        if others:
            tell(
                f"kmdr: figures and the report now read {study} as it was run now; rows of {len(others)} other "
                "configurations of it stay in the table; use another out folder to have both"
            )
    return dict(sorted({**known, **latest}.items()))


def _lost(
    tasks: Sequence[Task], left_out: Collection[tuple[str, str, int]], rows: Sequence[Mapping[str, str]], refresh: bool
) -> int:
    """Return how many planned tasks have rows that are neither in the table nor told of there as failed."""
    told = ({**row, "status": "ok"} for row in rows)
    return sum((t.study, t.config_hash, t.repeat) not in left_out for t in unfinished(tasks, told, refresh))


def _tell_each(lines: Iterable[str]) -> None:
    for line in lines:
        tell(f"kmdr: {line}")


@dataclass(frozen=True)
class _Request:
    """What the jobs of one folder ask for.

    Attributes
    ----------
    tasks : list of Task
        Those to be run here: all, or a part's.
    asked : set of (str, str)
        Study and ``config_hash`` of the tasks of all parts.
    names : list of str
        Studies.
    cut : list of list of Task
        The tasks of each part.
    seconds : callable or None
        The expected times by which the plan was cut.
    wrong : int
        Datasets with a file that is not what it should be.
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
    """What of a request is left to do: the plan, what it costs, and what the folder has already."""

    plan: Plan
    seconds: Seconds
    left: list[Task]
    known: Rows
    whole: float


def _prepare(store: Store, jobs: Sequence[Job], limits: Limits | None, part: Part | None) -> _Request:
    """Prepare the datasets, and note in the folder what is asked for."""
    names = [job.study["name"] for job in jobs if job.study]
    if limits or names:
        configured()  # what is no study is refused now, not when all is done and drawn
    tasks, missing, wrong = _tasks(jobs, limits or Limits())
    if not tasks:
        raise UserError(" ".join(missing.values()))
    _tell_each(missing.values())
    _note(_of_one_size(jobs, tasks))
    asked = {(task.study, task.config_hash) for task in tasks}
    cut, seconds = _cut(tasks, part)
    tasks = cut[part.number - 1] if part else tasks
    write_json(store.folder, "missing.json", _public(missing, jobs))
    store.keep_paths(tasks)
    store.add_configs({task.config_hash: task.config for task in tasks}.values())
    return _Request(store, jobs, limits, part, tasks, asked, names, cut, seconds, wrong)


def _plan(request: _Request, start: float, *, stated: bool) -> _Planned:
    """Choose what to run of what the folder lacks."""
    store, tasks, bounds = request.store, request.tasks, request.bounds
    known = store.merge()
    keep = any(task.keep_labels for task in tasks)
    left = unfinished(tasks, store.labelled(known) if keep else known, request.refresh)
    many = request.names or sum(len(task.r_grid) for task in left) >= _MANY_TRIALS
    seconds = request.seconds or expected_seconds(known, reference_rows() if left and many else [])
    workers = request.runner.size if left else 1  # a cluster is not asked for what is finished
    plan = choose(tasks, left, seconds, workers, bounds, time.time() - start)
    for study, labels in plan.left_out.items():
        for label in labels:
            tell(f"kmdr: {study}: {label} is left out: it takes too long for this run")
    if request.limits and stated:
        write_json(store.folder, "plan.json", _described(plan, request.jobs, bounds, late=0))
    work = sum(wall_seconds(task, seconds, workers) for task in plan.tasks)
    whole = work + (ALLOWANCE_SECONDS if request.limits else 0.0)
    _before(plan, whole, workers, request.limits)
    return _Planned(plan, seconds, left, known, whole)


def _run(
    request: _Request, planned: _Planned, start: float, draw: Draw | None, *, stated: bool
) -> tuple[Rows, int, list[Path]]:
    """Run the plan and draw what follows from it; return the rows, how many tasks were late, and the files."""
    limits, out, bounds, tasks = request.limits, request.store.folder, request.bounds, planned.plan.tasks
    until = math.inf if bounds.budget is None else start + bounds.budget - ALLOWANCE_SECONDS
    with closing(Progress(len(tasks), planned.whole)) as progress:
        rows, late = planned.known, 0
        if tasks:
            rows, late = run_tasks(tasks, request.runner, out, planned.seconds, progress, until, len(request.cut))
        if limits and stated and late:
            write_json(out, "plan.json", _described(planned.plan, request.jobs, bounds, late))
        request.store.change(ASKED, lambda known: _with_asked(known, request.asked, request.names))
        wanted = not request.part and (limits or request.names)
        made = list(draw(out, request.names, limits, progress)) if draw and wanted else []
    return rows, late, made


def _report(request: _Request, planned: _Planned, rows: Rows, late: int, made: list[Path], show: Show | None) -> int:
    """Say what was done; return how many trials failed or were lost, and datasets are wrong."""
    asked, part, table = request.asked, request.part, request.store.folder / "rows.csv"
    failed = sum(row["status"] != "ok" and (row["study"], row["config_hash"]) in asked for row in rows)
    if show and not request.limits and not part and Volume.level >= 0:
        show(request.store.folder, asked)
    announce(f"{table}: {len(rows)} rows" + (f", {failed} of this run failed" if failed else ""))
    if late:
        tell(f"kmdr: the budget was over before {late} tasks began; the same command does them")
    shown = [row for row in rows if (row["study"], row["config_hash"]) in asked and row["status"] == "ok"]
    _tell_each([*mixed_code(shown), *outdated_code(shown)])
    left_out = {(t.study, t.config_hash, t.repeat) for t in planned.left} - {
        (t.study, t.config_hash, t.repeat) for t in planned.plan.tasks
    }
    lost = _lost(request.tasks, left_out, rows, request.refresh) - late
    if lost > 0:
        tell(
            f"kmdr: {lost} planned tasks have no rows in {table}: files were removed or damaged meanwhile; the same "
            "command does them",
        )
    for line in _close(request.store, part, request.cut, finished=lost <= 0) if part else map(str, made):
        announce(line)
    return failed + max(lost, 0) + request.wrong


def _cut(tasks: Sequence[Task], part: Part | None) -> tuple[list[list[Task]], Seconds | None]:
    """Return the parts of a plan, and the seconds by which they were cut; the whole as one where no part is wanted."""
    if not part:
        return [list(tasks)], None
    seconds = expected_seconds(reference_rows())
    return partition(tasks, part.of, seconds), seconds


def _close(store: Store, part: Part, cut: Sequence[Sequence[Task]], *, finished: bool) -> list[str]:
    """Note that a part is finished, where it is, and return what is to be done with it."""
    plan, tasks = hash_of_cut(cut), cut[part.number - 1]
    if finished:
        store.change(SHARDS, lambda known: with_parts(known, {plan: {"of": part.of, "parts": [part.number]}}))
    return [
        f"part {part} of the plan {plan}: {len(tasks)} of {sum(map(len, cut))} tasks; tables, figures and the report "
        "are made of all parts together: 'kmdr merge PART … -o OUT', then 'kmdr report OUT'"
    ]


def run_jobs(
    jobs: Sequence[Job],
    limits: Limits | None = None,
    *,
    part: Part | None = None,
    stated: bool = True,
    draw: Draw | None = None,
    show: Show | None = None,
) -> int:
    """Run jobs as one: check everything, run what is missing, then draw and show the rows.

    Parameters
    ----------
    jobs : sequence of Job
    limits : Limits, optional
        Of a reproduction.
    part : Part, optional
        The part of the tasks to run; nothing is then drawn.
    stated : bool
        Whether ``plan.json``, and so the report, states what was planned of the studies.
    draw : callable, optional
        Makes the files that follow from the rows, where studies were run or there are limits.
    show : callable, optional
        Prints the rows of a run without limits.

    Returns
    -------
    int
        Exit status: 0 when every planned row is there, 1 when a trial failed, its row was lost or a file of a dataset
        is not what it should be; a dataset that cannot be had is told of and shown as a gap.

    Raises
    ------
    UserError
        When a value is not valid, or none of the datasets can be had.
    """
    failed, start = 0, time.time()

    def where(job: Job) -> tuple[str, str, bool]:
        return str(job.out), repr(job.runner), job.refresh

    for _, group in groupby(sorted(jobs, key=where), key=where):
        together = list(group)
        try:
            store = Store(together[0].out)  # refuses a folder that cannot be written to
            with store.held():
                request = _prepare(store, together, limits, part)
                planned = _plan(request, start, stated=stated)
                rows, late, made = _run(request, planned, start, draw, stated=stated)
                failed += _report(request, planned, rows, late, made, show)
        except UserError:
            raise
        except Exception as error:
            raise CrashError(together[0].out) from error
    return int(failed > 0)
