"""Tasks as values: what to run, which code computes its rows, and the configuration that identifies them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

from kmdr import datasets, metrics, reducers
from kmdr.base.errors import UserError
from kmdr.base.identity import code_hash, is_own, name_of, third_party_origin
from kmdr.base.identity.in_memory import origin_in_memory
from kmdr.base.outside import origin
from kmdr.base.plugins import Root, origin_of, plugin_roots
from kmdr.base.text import canonical, short_hash
from kmdr.clustering import engines
from kmdr.clustering.kmeans import Protocol
from kmdr.datasets import Dataset, registry
from kmdr.reducers.base import REGISTRY

# The settings of k-means that have columns of their own; the column ``kmeans`` has the others.
KMEANS_COLUMNS = ("engine", "start", "n_init", "max_iter")
# Columns that follow from ``config_hash``, as data, reducer, k and seed do.
CONFIG_COLUMNS = (*KMEANS_COLUMNS, "kmeans", "matching")
# The options follow from the content of the data instead.
SETTINGS = (*CONFIG_COLUMNS, "options")
# Entry points of the code of every row; they are above this module.
_EVERY_ROW = ("kmdr.harness.task:_trials", "kmdr.harness.task:_shared_key")
# That of rows of data with several reference labelings, or noise.
_AGAINST_LABELINGS = "kmdr.harness.task:_trials_against"


def data_of(dataset: str, options: str) -> tuple[str, dict[str, Any]]:
    """Return the registered name and the options of a dataset, given its title and options in tasks and rows."""
    values = json.loads(options or "{}")
    return str(values.pop("name", dataset)), values


@lru_cache(maxsize=1024)  # thousands of tasks share a few configurations
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
    """What to run; all numbers of its rows except the times are functions of these fields.

    Attributes
    ----------
    study : str
        Name of the study.
    data_sha256 : str
        Content hash of the matrix, which ``n``, ``d``, ``nnz`` (stored entries) and ``stand_in`` follow from.
    folder : str
        Folder of the prepared matrix; not part of the identity.
    params : str
        Canonical JSON of the reducer's parameters.
    repeat : int
        Repetition, from 0.
    seed : int
        Root seed.
    serial : bool
        Whether no other worker may run while it is timed.
    matching : str
        How clusters are matched to classes, one of `kmdr.metrics.matchings`.
    verify : str
        When prepared data are verified; not part of the identity.
    keep_labels : bool
        Whether the clusters of each point are stored under ``labels``; not part of the identity.
    stand_in : str
        The dataset that the matrix stands in for, if any.
    options : str
        Canonical JSON of the options of the dataset that differ from the defaults, with names of files without their
        folders; not part of the identity, because the content hash is. Empty if they are not known.
    paths : str
        Canonical JSON of the options that name the user's files, with whole paths, so other machines may find them;
        never part of a row.
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
        """`code_identity` of the rows that it would give with the current code."""
        return current_code(self.reducer, self.protocol.engine, self.dataset, self.options)

    @property
    def _configured(self) -> tuple[Mapping[str, Any], str]:
        data = self.dataset, self.data_sha256
        return _configured(*data, self.reducer, self.params, self.k, self.seed, self.protocol, self.matching)

    def restricted(self, r_grid: tuple[int, ...]) -> "Task":
        """Return this task restricted to some of its r."""
        return replace(self, r_grid=r_grid)


def settings_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns `SETTINGS` of a `Task.config`, without ``options``."""
    others = {name: value for name, value in config["kmeans"].items() if name not in SETTINGS}
    of_kmeans = {name: config["kmeans"][name] for name in SETTINGS if name in config["kmeans"]}
    return {**of_kmeans, "kmeans": canonical(others), "matching": config["matching"]}


def entry_points(reducer: str, dataset: str, engine: str = "kmdr", labelings: bool = False) -> list[str]:
    """Return the entry points of the code of rows of a reducer on a dataset, for `kmdr.base.identity.reach`.

    These are the functions that every row runs, and those that its configuration selects by name. The dataset is given
    by its registered name, and whether it has several reference labelings or noise.
    """
    selected = [reducers.entry_point(reducer), engines.entry_point(engine)]
    generators = datasets.generated_by(dataset) if dataset in datasets.names() else []
    measures = [name_of(measure.function) for measure in metrics.metrics().values()]
    scores = filter(is_own, [*measures, *metrics.matching_modules()])
    trials = [*_EVERY_ROW, *([_AGAINST_LABELINGS] if labelings else [])]
    return [*trials, *map(name_of, (Protocol, Dataset)), *selected, *scores, *generators]


def has_labelings(dataset: str, options: Mapping[str, Any]) -> bool:
    """Return whether a dataset, given by its registered name and options, has several reference labelings or noise."""
    usual = registry.entry(dataset).offered if dataset in datasets.names() else {}
    values = {**usual, **options}
    return isinstance(values.get("labels"), list) or values.get("noise", "") != ""


def code_of(reducer: str, dataset: str, engine: str = "kmdr", labelings: bool = False) -> str:
    """Return the hash of the code that computes the rows of a reducer on a dataset; empty if it is not available.

    For a class named by its import path, only the code that calls it counts; `plugin_origins` has the rest.
    """
    return _code_of(reducer, dataset, engine, labelings, plugin_roots())


@cache
def _code_of(reducer: str, dataset: str, engine: str, labelings: bool, places: tuple[Root, ...]) -> str:
    del places  # a change of the plugins invalidates the cache: another one may have a reducer of the same name
    if "." not in reducer and reducer not in reducers.names():
        return ""
    return code_hash(*entry_points(reducer, dataset, engine, labelings))


def forget_code() -> None:
    """Forget the hashes of `code_of`, e.g. when the code of a plugin has changed."""
    _code_of.cache_clear()


@cache
def origins_of_methods(reducer: str, engine: str, places: tuple[Root, ...]) -> tuple[str, ...]:
    """Return name, version and hash of the packages of a reducer and an engine, unless they are built in."""
    del places  # a change of the plugins invalidates the cache
    known = REGISTRY.known().get(reducer), engines._registry.known().get(engine)
    in_memory = [origin_in_memory(made) for made in known if made is not None]  # registered by a notebook
    return tuple(filter(None, (reducers.origin_of_reducer(reducer), engines.origin_of_engine(engine), *in_memory)))


def plugin_origins(reducer: str, engine: str, dataset: str) -> str:
    """Return names, versions and hashes of the third-party code of a trial, joined by semicolons.

    The dataset is given by its registered name. Every metric counts: a plugin with a metric is named in all rows.
    """
    parts = [*methods_from(reducer, engine, dataset), *map(origin_of_metric, metrics.metrics())]
    return "; ".join(dict.fromkeys(filter(None, parts)))


def methods_from(reducer: str, engine: str, dataset: str) -> list[str]:
    """Return name, version and hash of the packages of reducer, engine and dataset, unless they are built in."""
    of_data = registry.entry(dataset).plugin if dataset in datasets.names() else ""
    return list(filter(None, (*origins_of_methods(reducer, engine, plugin_roots()), of_data)))


def origin_of_metric(name: str) -> str:
    """Return name, version and hash of the package of a metric; empty if it is built in."""
    function = metrics.metrics()[name].function
    module = function.__module__
    return origin_of(module) or origin_in_memory(function) or ("" if is_own(module) else third_party_origin(module))


def code_identity(code_hash: str, plugins: str) -> str:
    """Return one text for the code hash and the plugins in the columns of a row, the same for rows of the same code."""
    return "; ".join([code_hash, *sorted(set(plugins.split("; ")) - {""})])


def current_code(reducer: str, engine: str, dataset: str, options: str) -> str:
    """Return the `code_identity` that a row with these columns would have if it were computed now.

    It is empty if a part of the code is not available, so that no such row can be computed.
    """
    try:
        (name, stated), engine = data_of(dataset, options), engine or "kmdr"
        paths = [path for path in (reducer, engine) if "." in path]
        if not all(origin(path) for path in paths) or not (
            code := code_of(reducer, name, engine, has_labelings(name, stated))
        ):
            return ""
        return code_identity(code, plugin_origins(reducer, engine, name))
    except (UserError, LookupError, ValueError, TypeError, AttributeError):
        return ""
