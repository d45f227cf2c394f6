"""Run multiverses: every combination of the choices that papers leave open, or as many as a budget allows."""

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kmdr.base.errors import UserError
from kmdr.base.text import counted, tell
from kmdr.config.protocols import Config, pairs
from kmdr.config.task import Task
from kmdr.harness.experiment import Experiment
from kmdr.harness.jobs import Draw, Job, Prepared, run_jobs
from kmdr.harness.plan import (
    ALLOWANCE_SECONDS,
    Limits,
    duration_text,
    expected_seconds,
    reference_means,
    wall_seconds,
)
from kmdr.multiverse.choices import STUDY, Multiverse, name_and_settings, settings_on_dataset, settled
from kmdr.results.outdated import unfinished_tasks
from kmdr.results.paths import UNIVERSES
from kmdr.results.store import Store


class _Design:
    """The universes of one paper, composed one after the other."""

    def __init__(self, spec: Multiverse, studies: Mapping[str, Config], out: Path, prepared: Prepared) -> None:
        self.spec = spec
        self._studies, self._out, self._prepared = studies, out, prepared
        # Each configuration with its tasks; and what each configuration of a universe stands for.
        self.known: dict[str, tuple[Config, list[Task]]] = {}
        self.universes: list[dict[str, list[str]]] = []

    @property
    def part(self) -> float:
        """Share of the universes that are composed."""
        return len(self.universes) / self.spec.all

    def grow(self, size: int) -> list[Task]:
        """Compose as many more universes, and return the tasks that no earlier one has."""
        start = len(self.universes)
        before = set(self.known)
        for universe in self.spec.universes[start : start + size]:
            configs: dict[str, list[str]] = {}
            for name in self.spec.studies:
                for config, labels in self._settled(name, universe):
                    tasks = self._prepared.tasks(Experiment.from_config(config))
                    if tasks:
                        self.known.setdefault(tasks[0].config_hash, (config, tasks))
                        configs[tasks[0].config_hash] = labels
            self.universes.append(configs)
        return [task for key, (_, tasks) in self.known.items() if key not in before for task in tasks]

    def shrink(self, size: int) -> None:
        """Remove the last universes."""
        del self.universes[-size:]
        needed = {key for configs in self.universes for key in configs}
        self.known = {key: value for key, value in self.known.items() if key in needed}

    def _settled(self, name: str, universe: Sequence[str]) -> list[tuple[Config, list[str]]]:
        """Return a study's configurations in a universe, each with the study's names of study, dataset and reducer."""
        study = self.spec.narrowed(self._studies[name])
        labels = [
            [name, name_and_settings(dataset)[0], name_and_settings(reducer)[0]]
            for dataset in study["study"]["datasets"]
            for reducer in study["study"]["reducers"]
        ]
        tree = settled(study, self.spec.settings(universe))
        methods, _ = self.spec.reading(universe)
        tree["study"]["name"] = f"{STUDY}{name}"
        tree |= {"timing_repeats": 0, "out": str(self._out)}
        return [
            ({**config, "repeats": settings_on_dataset(methods[label[2]], label[1])["runs"]}, label)
            for config, label in zip(pairs(tree), labels, strict=True)
        ]

    def jobs(self) -> list[Job]:
        """Return a job for each study."""
        by_study: dict[str, list[Config]] = {}
        for config, _ in self.known.values():
            by_study.setdefault(config["study"]["name"], []).append(config)
        return [Job.from_configs(configs) for configs in by_study.values()]

    def record(self) -> list[dict[str, Any]]:
        """Return the universes as ``universes.json`` has them."""
        return [
            {"options": list(universe), "configs": configs}
            for universe, configs in zip(self.spec.universes, self.universes, strict=False)
        ]


def run_multiverses(
    specs: Sequence[Multiverse], studies: Mapping[str, Config], out: Path, budget: float | None, draw: Draw
) -> int:
    """Run the universes of some papers and make the report; return the exit status.

    Each paper has as many universes as its ``multiverse.yaml`` says or, with a budget, as many as fit: the same share
    of all papers, in whole blocks and at least one. A run with a larger budget adds to a smaller one. ``studies`` has
    the composed configuration of every study, ``budget`` is in seconds of wall time, and ``draw`` makes the report.
    """
    start = time.time()
    store, prepared = Store(out), Prepared()
    rows = store.merge()
    seconds = expected_seconds(rows, reference_means())
    designs = [_Design(spec, studies, out, prepared) for spec in specs]

    def cost(tasks: Sequence[Task]) -> float:
        return sum(wall_seconds(unfinished_tasks(tasks, rows), seconds, workers).values())

    first = [(design, design.grow(min(design.spec.block, design.spec.all))) for design in designs]
    jobs = [job for design in designs for job in design.jobs()]
    if not jobs:
        raise UserError(" ".join(str(error) for error in prepared.folders.values()))
    workers = jobs[0].runner.size
    spent = {id(design): cost(tasks) for design, tasks in first}
    available = math.inf if budget is None else budget - ALLOWANCE_SECONDS - (time.time() - start)
    growing = list(designs)
    while growing:
        design = min(growing, key=lambda design: design.part)
        size = design.spec.block
        most = design.spec.all if budget is not None else min(design.spec.size, design.spec.all)
        if len(design.universes) + size > most:
            growing.remove(design)
            continue
        more = cost(design.grow(size))
        if sum(spent.values()) + more > available:
            design.shrink(size)
            break
        spent[id(design)] += more
    for design in designs:
        tell(
            f"kmdr: note: {design.spec.paper}: {len(design.universes)} of {counted(design.spec.all, 'universe')}, by "
            f"{len(design.spec.choices)} choices; about {duration_text(spent[id(design)])}"
        )
    store.change(UNIVERSES, lambda known: {**known, **{design.spec.paper: design.record() for design in designs}})
    return run_jobs([job for design in designs for job in design.jobs()], Limits(budget=budget), whole=False, draw=draw)
