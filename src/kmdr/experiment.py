"""From a configuration to tasks: every value is checked here, before any work starts."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from kmdr import reducers
from kmdr.datasets import Dataset, checked_verify
from kmdr.errors import UserError, unknown, whole_number
from kmdr.kmeans import Protocol, starter
from kmdr.metrics import MATCHINGS, check_matching
from kmdr.seeding import generator
from kmdr.task import Task, canonical


def _grid(value: Any) -> tuple[int, ...]:
    entries = value if isinstance(value, list) else [value]
    for r in entries:
        if isinstance(r, bool) or not isinstance(r, int) or r < 1:
            raise UserError(f"r_grid has {r!r}, but a number of dimensions is a whole number of at least 1")
    if not entries:
        raise UserError("r_grid is empty; name at least one number of dimensions, e.g. 'r_grid=[5,10,20]'")
    return tuple(sorted(set(entries)))


def _protocol(config: Any) -> Protocol:
    settings = dict(config)
    valid = [field.name for field in fields(Protocol)]
    for name in settings:
        if name not in valid:
            raise unknown("setting of kmeans", name, valid)
    return Protocol(**settings)


def _matching(value: Any, protocol: Protocol) -> str:
    if value not in MATCHINGS:
        raise UserError(f"matching = {value!r} is not one of {', '.join(MATCHINGS)}; choose one of them")
    if value != "best" and protocol.start != "first_of_class":
        raise UserError(
            f"matching = {value!r} takes cluster j for class j, which needs kmeans.start = 'first_of_class', not "
            f"{protocol.start!r}; use 'best' or that start"
        )
    return str(value)


SETTINGS = (
    "dataset", "reducer", "kmeans", "runner", "study", "k", "matching", "r_grid", "repeats", "timing_repeats", "seed",
    "refresh", "verify", "out",
)  # fmt: skip


@dataclass(frozen=True)
class Experiment:
    """One dataset and one reducer over a grid, repeated.

    Attributes
    ----------
    study : str
    dataset : str
    options : dict
        Options of the dataset.
    reducer : str
    params : dict
        Parameters of the reducer.
    k : int or None
        Clusters; None for the dataset's own number of classes.
    r_grid : tuple of int
    repeats : int
    timing_repeats : int
        How many of the repetitions are run with no other worker, for their times.
    seed : int
    protocol : Protocol
    matching : str
        Of clusters to classes, one of `kmdr.metrics.MATCHINGS`.
    verify : str
        When prepared data are verified, one of `kmdr.datasets.VERIFY`; no part of any row.
    """

    study: str
    dataset: str
    options: dict[str, Any]
    reducer: str
    params: dict[str, Any]
    k: int | None
    r_grid: tuple[int, ...]
    repeats: int
    timing_repeats: int
    seed: int
    protocol: Protocol
    matching: str
    verify: str = "once"

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "Experiment":
        """Check a plain configuration (the tree of ``conf/config.yaml``) and return the experiment it describes.

        Raises
        ------
        UserError
            With one sentence that names the value and the remedy.
        """
        for name in config:
            if name not in SETTINGS:
                raise unknown("setting", name, SETTINGS)
        dataset, reducer = dict(config["dataset"]), dict(config["reducer"])
        repeats = whole_number("repeats", config["repeats"], 1)
        timing_repeats = whole_number("timing_repeats", config["timing_repeats"], 0)
        name, params = reducer.pop("name"), reducer
        protocol = _protocol(config["kmeans"])
        reducers.make(name, params).check_protocol(protocol)
        return cls(
            study=config["study"]["name"] if config.get("study") else "custom",
            dataset=dataset.pop("name"),
            options=dataset,
            reducer=name,
            params=params,
            k=None if config["k"] is None else whole_number("k", config["k"], 1),
            r_grid=_grid(config["r_grid"]),
            repeats=repeats,
            timing_repeats=min(timing_repeats, repeats),
            seed=whole_number("seed", config["seed"], 0),
            protocol=protocol,
            matching=_matching(config["matching"], protocol),
            verify=checked_verify(config["verify"]),
        )

    def tasks(self, data: Dataset, folder: Path) -> list[Task]:
        """Return the tasks of this experiment on a loaded dataset, after checking it against the data.

        Parameters
        ----------
        data : Dataset
        folder : Path
            Where its prepared matrix lies.

        Raises
        ------
        UserError
            When k > n, when the reducer cannot give some r, or when the start or the matching needs labels that are not
            there.
        """
        n, d = data.A.shape
        k = data.k if self.k is None else self.k
        starter(self.protocol, n, k, data.labels, generator(self.seed))
        check_matching(self.matching, data.labels)
        reducer = reducers.make(self.reducer, self.params)
        fixed = reducer.fixed_r(d, k)
        r_grid = self.r_grid if fixed is None else (fixed,)
        for r in r_grid:
            reducer.check(n, d, k, r)
        return [
            Task(
                study=self.study,
                dataset=data.name,
                data_sha256=data.data_sha256,
                folder=str(folder),
                reducer=self.reducer,
                params=canonical(self.params),
                k=k,
                r_grid=r_grid,
                repeat=repeat,
                seed=self.seed,
                protocol=self.protocol,
                serial=repeat < self.timing_repeats,
                matching=self.matching,
                verify=self.verify,
            )
            for repeat in range(self.repeats)
        ]
