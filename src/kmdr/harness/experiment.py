"""From a configuration to tasks: every value is checked here, before any work starts."""

import inspect
import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from kmdr import reducers
from kmdr.base.errors import (
    UserError,
    check_memory,
    not_one_of,
    plain_name,
    section,
    shown,
    unknown,
    whole_number,
    yes_or_no,
)
from kmdr.base.outside import allow, arguments, find_class, import_errors
from kmdr.base.private_paths import file_names
from kmdr.base.seeding import generator
from kmdr.base.text import canonical
from kmdr.clustering import engines
from kmdr.clustering.kmeans import Protocol, starter
from kmdr.config.compose import study_configs
from kmdr.config.studies import naming_study
from kmdr.config.task import Task, settings_of
from kmdr.datasets import Dataset, registry
from kmdr.datasets.dataset_options import locate_files
from kmdr.datasets.references import references_of
from kmdr.datasets.verification import checked_verify
from kmdr.metrics import check_matching, matchings
from kmdr.metrics.references import refuse_taken_names
from kmdr.results.row_check import value_fault
from kmdr.results.untrusted_text import parse_json

# Usual names of ways to start k-means, and ours.
_STARTS = {"kmeans++": "plus", "k-means++": "plus", "random": "sample"}
_MOST_SIZES = 10_000
_MOST_DIMENSIONS = 10**9
_MOST_SEED = 2**128 - 1
# The starts of ``kmeans.n_init=auto``: with a fourth, one run in three ends .2 % above the best on some public data.
AUTO = {"n_init": 400, "until_found": 20}


def _grid(value: Any) -> tuple[int, ...]:
    entries = value if isinstance(value, list) else [value]
    if len(entries) > _MOST_SIZES:
        raise UserError(f"r_grid has {len(entries)} entries, more than {_MOST_SIZES}; give fewer")
    for r in entries:
        if isinstance(r, bool) or not isinstance(r, int) or not 1 <= r <= _MOST_DIMENSIONS:
            raise UserError(
                f"r_grid has {shown(r)}, but a number of dimensions is a whole number of at least 1 and at most "
                f"{_MOST_DIMENSIONS}; give such numbers"
            )
    if not entries:
        raise UserError("r_grid is empty; name at least one number of dimensions, e.g. 'r_grid=[5,10,20]'")
    return tuple(sorted(set(entries)))


# Arguments of classes, which trials set.
_SET_BY_KMDR = ("n_components", "n_clusters", "random_state", "max_iter", "n_init", "init")


def _values(value: Any) -> Iterator[Any]:
    """Yield a value and all values in nested mappings and lists."""
    yield value
    for inner in value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ():
        yield from _values(inner)


def _as_recorded(setting: str, values: Mapping[str, Any]) -> str:
    """Return values as the JSON text with which rows record them, and from which trials read them.

    Raise `UserError` if no reader of rows would accept the text, or trials would read other values from it.
    """
    try:
        inside = list(_values(values))
        if any(not isinstance(key, str) for value in inside if isinstance(value, Mapping) for key in value):
            raise TypeError("a name in it is not a text")
        if any(isinstance(value, tuple) for value in inside):
            raise TypeError("rows have lists instead of tuples")
        text = canonical(values)
        parse_json(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(
            f"{setting} = {shown(values)} cannot be recorded with the rows ({error}); give texts, finite numbers, "
            "lists, and mappings with texts as names"
        ) from error
    return text


def _check_row_columns(task: Task) -> None:
    """Refuse a task whose rows no reader would accept, such as one with a text that is too long for its column."""
    columns = {name: getattr(task, name) for name in ("study", "dataset", "reducer", "params", "options", "stand_in")}
    for name, value in {**columns, **settings_of(task.config)}.items():
        if fault := value_fault(name, str(value)):
            raise UserError(f"rows cannot record these settings: {fault}; give others")


def _protocol(config: Mapping[str, Any]) -> Protocol:
    settings = section(config, "kmeans")
    valid = [field.name for field in fields(Protocol)]
    for name in settings:
        if name not in valid:
            raise unknown("setting of kmeans", name, valid)
    for name in ("n_init", "max_iter"):
        if name not in settings:
            raise UserError(f"kmeans.{name} is not set; remove '~kmeans.{name}'")
    if isinstance(settings["n_init"], str) and settings["n_init"] == "auto":  # a table compares its entries
        settings |= AUTO
    if isinstance(start := settings.get("start"), str):
        settings["start"] = _STARTS.get(start, start)
    args = settings.pop("args", None) or {}
    if not isinstance(args, Mapping):
        raise UserError(f"kmeans.args = {shown(args)} is not a mapping; write e.g. kmeans.args.batch_size=1000")
    protocol = Protocol(**settings, args=_as_recorded("kmeans.args", args))
    engines.check_allowed(protocol)
    _check_engine_arguments(protocol)
    return protocol


def _check_complete(setting: str, what: str, cls: type, given: Collection[str]) -> None:
    """Refuse a class whose constructor needs an argument that is neither given nor set by kmdr."""
    parameters = inspect.signature(cls).parameters
    for name in arguments(cls):
        if parameters[name].default is inspect.Parameter.empty and name not in {*given, *_SET_BY_KMDR}:
            raise UserError(f"{what} {cls.__name__} needs the argument {name!r}; give it, e.g. {setting}.{name}=1")


def _check_engine_arguments(protocol: Protocol) -> None:
    """Refuse arguments of a class that the settings have, which rows record, such as the number of clusters."""
    if "." not in protocol.engine or protocol.engine in engines.names():
        return
    cls = find_class(protocol.engine, "engine")
    _check_complete("kmeans.args", "engine", cls, protocol.arguments)
    names = arguments(cls)
    size = "n_clusters" if "n_clusters" in names else "n_components"
    same = {size: "k", "random_state": "seed", "max_iter": "kmeans.max_iter", "n_init": "kmeans.n_init"}
    for name, setting in same.items():
        if name in protocol.arguments:
            raise UserError(f"kmeans.args.{name} is set by kmdr from {setting}; remove it, and set {setting} instead")


def _matching(value: Any, protocol: Protocol) -> str:
    if not isinstance(value, str) or value not in matchings():
        raise not_one_of("matching", value, matchings())
    if value != "best" and protocol.start != "first_of_class":
        raise UserError(
            f"matching = {value!r} matches cluster j with class j, which needs kmeans.start = 'first_of_class', not "
            f"{protocol.start!r}; use 'best' or that start"
        )
    return str(value)


@contextmanager
def _naming_group(group: str, names: Collection[str]) -> Iterator[None]:
    """Let an error that begins with ``NAME = `` begin with the group of this setting."""
    try:
        yield
    except UserError as error:
        if str(error).partition(" = ")[0] not in names:
            raise
        raise UserError(f"{group}.{error}") from error


SETTINGS = (
    "dataset", "reducer", "kmeans", "runner", "study", "k", "matching", "r_grid", "repeats", "timing_repeats", "seed",
    "refresh", "verify", "keep_labels", "out",
)  # fmt: skip


@dataclass(frozen=True)
class Experiment:
    """One dataset and one reducer over a grid of r, repeated.

    Attributes
    ----------
    options : dict
        Options of the dataset.
    params : dict
        Parameters of the reducer.
    k : int or None
        Clusters; None for the dataset's number of classes.
    timing_repeats : int
        Number of repetitions that are timed, with no other worker running.
    matching : str
        Of clusters to classes, one of `kmdr.metrics.matchings`.
    verify : str
        When prepared data are verified, one of `kmdr.datasets.verification.VERIFY`; does not affect rows.
    keep_labels : bool
        Whether the clusters of the points are stored with the rows; does not affect rows.
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
    keep_labels: bool = False

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "Experiment":
        """Check a plain configuration (the tree of ``conf/config.yaml``) and return the experiment it describes."""
        for name in config:
            if name not in SETTINGS:
                raise unknown("setting", name, SETTINGS)
        for name in SETTINGS:
            if name not in config:
                raise UserError(f"the setting {name!r} was removed, but a run needs it; remove '~{name}'")
        dataset, reducer = section(config, "dataset"), section(config, "reducer")
        repeats = whole_number("repeats", config["repeats"], 1)
        timing_repeats = whole_number("timing_repeats", config["timing_repeats"], 0)
        name, params = reducers.named(reducer)
        _as_recorded("reducer.args" if "." in name else "reducer", params)
        engine = section(config, "kmeans").get("engine")
        allow(name, engine)  # named by the user, from whom all tasks come
        with import_errors(engine):
            protocol = _protocol(config)
        try:
            with import_errors(name), _naming_group("reducer", params):
                reducers.make_allowed(name, params).check_protocol(protocol)
                if "." in name and name not in reducers.names():
                    _check_complete("reducer.args", "reducer", find_class(name, "reducer"), params)
        except (TypeError, ValueError) as error:
            raise UserError(
                f"reducer {name} cannot be made from {shown(params)} ({error}); give other values"
            ) from error
        return cls(
            study="custom"
            if config["study"] is None
            else plain_name("study.name", section(config, "study").get("name")),
            dataset=plain_name("dataset.name", dataset.pop("name", None)),
            options=dataset,
            reducer=name,
            params=params,
            k=None if config["k"] is None else whole_number("k", config["k"], 1),
            r_grid=_grid(config["r_grid"]),
            repeats=repeats,
            timing_repeats=min(timing_repeats, repeats),
            seed=whole_number("seed", config["seed"], 0, _MOST_SEED),
            protocol=protocol,
            matching=_matching(config["matching"], protocol),
            verify=checked_verify(config["verify"]),
            keep_labels=yes_or_no("keep_labels", config["keep_labels"]),
        )

    def tasks(self, data: Dataset, folder: Path) -> list[Task]:
        """Return the tasks of this experiment on a loaded dataset, after checking it against the data.

        ``folder`` is that of its prepared matrix. Raise `UserError` when a metric has the name of another score, when k
        > n, when the reducer does not fit the protocol or some r, when C is larger than the memory, or when the start
        or the matching needs labels that are missing.
        """
        refuse_taken_names()
        n, d = data.A.shape
        k = data.k if self.k is None else self.k
        references = references_of(data)
        if references is not None and self.protocol.start == "first_of_class" and (references[0] < 0).any():
            raise UserError(
                f"kmeans.start = 'first_of_class' needs a class for every point, but {int((references[0] < 0).sum())} "
                "points are noise; use 'sample'"
            )
        starter(self.protocol, n, k, data.labels, generator(self.seed))
        check_matching(self.matching, data.labels)
        reducer = reducers.make_allowed(self.reducer, self.params)
        reducer.check_protocol(self.protocol)
        fixed = reducer.fixed_r(d, k)
        r_grid = self.r_grid if fixed is None else (fixed,)
        for r in r_grid:
            reducer.check(n, d, k, r)
            # Without a reducer C is A, which is mapped; only the centres take memory.
            points = k if fixed == d else n
            check_memory(f"{points} points in {r} dimensions", points * r)
        params = canonical(reducers.recorded(self.reducer, self.params))
        options = _as_recorded("dataset", self.stated_options(data.name))
        files = locate_files(self.dataset, self.options) if self.dataset in registry.names() else {}
        paths = canonical(files) if files else ""
        tasks = [
            Task(
                study=self.study,
                dataset=data.name,
                data_sha256=data.data_sha256,
                folder=str(folder),
                reducer=self.reducer,
                params=params,
                k=k,
                r_grid=r_grid,
                repeat=repeat,
                seed=self.seed,
                protocol=self.protocol,
                serial=repeat < self.timing_repeats,
                matching=self.matching,
                verify=self.verify,
                keep_labels=self.keep_labels,
                n=n,
                d=d,
                nnz=n * d if isinstance(data.A, np.ndarray) else data.A.nnz,
                stand_in=data.stand_in,
                options=options,
                paths=paths,
            )
            for repeat in range(self.repeats)
        ]
        _check_row_columns(tasks[0])  # repetitions differ in no such column
        return tasks

    def stated_options(self, title: str) -> dict[str, Any]:
        """Return the dataset's options as rows state them, and its name if rows have another title for it.

        Only options that differ from the defaults are stated, and only the names of files. Numbers that JSON does not
        have, such as ``noise=nan``, are stated as texts, which the options accept likewise.
        """
        usual = registry.entry(self.dataset).offered if self.dataset in registry.names() else {}
        stated = {name: value for name, value in self.options.items() if value != usual.get(name)}
        not_finite = {n: str(v) for n, v in stated.items() if isinstance(v, float) and not math.isfinite(v)}
        return file_names(stated | not_finite) | ({} if title == self.dataset else {"name": self.dataset})


def experiments(study: str) -> tuple[Experiment, ...]:
    """Return the experiments of a study as it is configured; none if the study does not exist."""
    configs = study_configs(study)
    with naming_study(study):
        return tuple(map(Experiment.from_config, configs))
