"""A task as a value: what to run, which code computes its rows, and the configuration that names them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

from kmdr import datasets, metrics, reducers
from kmdr.base.errors import UserError
from kmdr.base.identity import code_hash, is_own, name_of, third_party_origin
from kmdr.base.outside import origin
from kmdr.base.plugins import Root, guests, origin_of
from kmdr.base.text import canonical, short_hash
from kmdr.clustering import engines
from kmdr.clustering.kmeans import Protocol
from kmdr.datasets import Dataset, registry

# What a configuration says beside data, reducer, k and seed; they follow from ``config_hash``, but for the options,
# which follow from the content of the data.
SETTINGS = ("engine", "start", "n_init", "max_iter", "kmeans", "matching", "options")
# Where the code of every row begins, above this module.
_EVERY_ROW = ("kmdr.harness.task:_trials", "kmdr.harness.task:_shared_key")


def data_of(dataset: str, options: str) -> tuple[str, dict[str, Any]]:
    """Return the registered name and the options of a dataset, of its title and options as tasks and rows have them."""
    told = json.loads(options or "{}")
    return str(told.pop("name", dataset)), told


@lru_cache(maxsize=1024)  # thousands of tasks have the same few
def _configured(
    dataset: str, data_sha256: str, reducer: str, params: str, k: int, seed: int, protocol: Protocol, matching: str
) -> tuple[Mapping[str, Any], str]:
    """Return the configuration of tasks, and its hash."""
    config = {
        "dataset": dataset,
        "data_sha256": data_sha256,
        "reducer": reducer,
        "params": json.loads(params),
        "k": k,
        "seed": seed,
        "kmeans": protocol.identity,
        "matching": matching,
    }
    return config, short_hash(config)


@dataclass(frozen=True)
class Task:
    """What to run; every number of its rows but the times is a function of these fields.

    Attributes
    ----------
    study : str
        Name of the study it belongs to.
    dataset : str
    data_sha256 : str
        Content hash of the matrix.
    folder : str
        Where the prepared matrix lies; not part of the identity.
    reducer : str
    params : str
        Canonical JSON of the reducer's parameters.
    k : int
    r_grid : tuple of int
    repeat : int
        Repetition, from 0.
    seed : int
        Root seed.
    protocol : Protocol
    serial : bool
        Whether its times must be taken with no other worker running.
    matching : str
        Of clusters to classes, one of `kmdr.metrics.matchings`.
    verify : str
        When prepared data are verified; not part of the identity.
    keep_labels : bool
        Whether the clusters of the rows go with their numbers, under ``labels``; not part of the identity either.
    n, d, nnz : int
        Shape and stored entries of the matrix; they, too, and the next, follow from ``data_sha256``.
    stand_in : str
        For what the matrix stands in; empty where it is what its name says.
    options : str
        Canonical JSON of the options that the matrix was prepared with, where they are not the usual ones; not part of
        the identity: the content hash is. Empty where they are not known. Of files it has only the names.
    paths : str
        Canonical JSON of those options that name the user's files, with whole paths, by which other machines may find
        them; never part of a row. Empty where there are none.
    """

    study: str
    dataset: str
    data_sha256: str
    folder: str
    reducer: str
    params: str
    k: int
    r_grid: tuple[int, ...]
    repeat: int
    seed: int
    protocol: Protocol
    serial: bool
    matching: str = "best"
    verify: str = "once"
    keep_labels: bool = False
    n: int = 0
    d: int = 0
    nnz: int = 0
    stand_in: str = ""
    options: str = ""
    paths: str = ""

    @property
    def config(self) -> Mapping[str, Any]:
        """Everything that determines the values of a row, apart from r and the repetition."""
        return self._configured[0]

    @property
    def config_hash(self) -> str:
        """Hash of `config`."""
        return self._configured[1]

    @property
    def current_code(self) -> str:
        """`code_identity` of the rows that it would give now."""
        return current_code(self.reducer, self.protocol.engine, self.dataset, self.options)

    @property
    def _configured(self) -> tuple[Mapping[str, Any], str]:
        data = self.dataset, self.data_sha256
        return _configured(*data, self.reducer, self.params, self.k, self.seed, self.protocol, self.matching)

    def restricted(self, r_grid: tuple[int, ...]) -> "Task":
        """Return the same task for fewer r."""
        return replace(self, r_grid=r_grid)


def settings_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a configuration, as `Task.config` gives it, says in the columns `SETTINGS`, but for ``options``."""
    others = {name: value for name, value in config["kmeans"].items() if name not in SETTINGS}
    of_kmeans = {name: config["kmeans"][name] for name in SETTINGS if name in config["kmeans"]}
    return {**of_kmeans, "kmeans": canonical(others), "matching": config["matching"]}


def entry_points(reducer: str, dataset: str, engine: str = "kmdr") -> list[str]:
    """Return where the code of the rows of a reducer on a dataset begins, for `kmdr.base.identity.reach`.

    They are what every row runs, and what its configuration selects by name. The dataset has its registered name.
    """
    selected = [reducers.entry_point(reducer), engines.entry_point(engine)]
    generators = datasets.generated_by(dataset) if dataset in datasets.names() else []
    measures = [name_of(measure.function) for measure in metrics.metrics().values()]
    scores = filter(is_own, [*measures, *metrics.matching_modules()])
    return [*_EVERY_ROW, *map(name_of, (Protocol, Dataset)), *selected, *scores, *generators]


@cache
def code_of(reducer: str, dataset: str, engine: str = "kmdr") -> str:
    """Return the hash of the code that computes the rows of a reducer on a dataset; empty where there is none now.

    Of a class named by its import path, only the code that calls it counts; `guests_of` has the rest.
    """
    if "." not in reducer and reducer not in reducers.names():
        return ""
    return code_hash(*entry_points(reducer, dataset, engine))


@cache
def origins_of_methods(reducer: str, engine: str, places: tuple[Root, ...]) -> tuple[str, ...]:
    """Return name, version and hash of what brings a reducer and an engine, where it is not kmdr's own."""
    del places  # asked again when a guest came or went
    return tuple(filter(None, (reducers.origin_of_reducer(reducer), engines.origin_of_engine(engine))))


def guests_of(reducer: str, engine: str, dataset: str) -> str:
    """Return name, version and hash of whatever a trial takes that is not kmdr's own, one after the other.

    The dataset has its registered name. Every metric takes part: a plugin with a metric is named in all rows.
    """
    brought = [*methods_from(reducer, engine, dataset), *map(origin_of_metric, metrics.metrics())]
    return "; ".join(dict.fromkeys(filter(None, brought)))


def methods_from(reducer: str, engine: str, dataset: str) -> list[str]:
    """Return name, version and hash of what brings reducer, engine and dataset, where they are not kmdr's own."""
    of_data = registry.entry(dataset).guest if dataset in datasets.names() else ""
    return list(filter(None, (*origins_of_methods(reducer, engine, guests()), of_data)))


def origin_of_metric(name: str) -> str:
    """Return name, version and hash of what brings a metric, where it is not kmdr's own."""
    module = metrics.metrics()[name].function.__module__
    return origin_of(module) or ("" if is_own(module) else third_party_origin(module))


def code_identity(code_hash: str, guests: str) -> str:
    """Return one text for the columns ``code_hash`` and ``guests`` of a row: the same for rows of the same code."""
    return "; ".join([code_hash, *sorted(set(guests.split("; ")) - {""})])


def current_code(reducer: str, engine: str, dataset: str, options: str) -> str:
    """Return the `code_identity` that a row with these columns would have if it were computed now.

    Empty where a part of the code is not available, so that no such row can be computed.
    """
    try:
        name, engine = data_of(dataset, options)[0], engine or "kmdr"
        paths = [path for path in (reducer, engine) if "." in path]
        if not all(origin(path) for path in paths) or not (code := code_of(reducer, name, engine)):
            return ""
        return code_identity(code, guests_of(reducer, engine, name))
    except (UserError, LookupError, ValueError, TypeError, AttributeError):
        return ""
