"""The design of the atlas, from ``atlas.yaml``: datasets, forms of the data, methods, and r in multiples of k."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from kmdr.base.text import canonical
from kmdr.config.protocols import Config, choice
from kmdr.config.studies import load_config
from kmdr.datasets import registry
from kmdr.reducers import named, recorded

STUDY, TIMES = "atlas", "atlas_times"
ALL_FEATURES = "none"
_FILE = Path(__file__).with_name("atlas.yaml")


@dataclass(frozen=True)
class Form:
    """A form of the data: options of a dataset, and the domains that it makes sense for.

    Attributes
    ----------
    options : mapping
        As ``dataset.NAME=VALUE`` on the command line.
    only, but : sequence of str
        The domains that have this form, if not all, and those that do not.
    multiples : sequence of float
        The multiples of k that are run, if not all.
    methods : {"all", "some"}
        Whether methods with ``some: false`` are omitted.
    """

    options: Mapping[str, Any]
    only: Sequence[str] = ()
    but: Sequence[str] = ()
    multiples: Sequence[float] = ()
    methods: str = "all"

    def suits(self, domain: str) -> bool:
        """Return whether data of a domain have this form."""
        return domain not in self.but and (not self.only or domain in self.only)


@dataclass(frozen=True)
class Method:
    """A reducer with settings.

    Attributes
    ----------
    settings : mapping
        As ``reducer.NAME=VALUE`` on the command line.
    kmeans : mapping
        Settings of k-means that differ from the atlas's.
    most : float
        Largest multiple of k.
    some : bool
        Whether forms of the data with ``methods: some`` have it.
    """

    reducer: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    kmeans: Mapping[str, Any] = field(default_factory=dict)
    most: float = float("inf")
    some: bool = True

    @property
    def config(self) -> Config:
        """The configuration of the reducer."""
        return {**choice("reducer", self.reducer), **self.settings}


class Rule(NamedTuple):
    """How many repetitions are run: ``least``, then more until the intervals are narrow, at most ``most``.

    ``width`` has the widest 95 % interval of a paired difference to k-means on all features, by quantity.
    """

    least: int
    most: int
    width: Mapping[str, float]


class Large(NamedTuple):
    """The methods and multiples of k of matrices with at least so many entries."""

    entries: float
    methods: str
    multiples: Sequence[float]

    def includes(self, entry: registry.Entry) -> bool:
        """Return whether the matrix of a registry entry is large."""
        return entry.n * entry.d >= self.entries


class Costly(NamedTuple):
    """Settings of k-means that differ where n·d·k is at least ``multiplications``."""

    multiplications: float
    kmeans: Mapping[str, Any]

    def includes(self, n: int, d: int, k: int) -> bool:
        """Return whether k-means on an n × d matrix with k clusters is costly."""
        return n * d * k >= self.multiplications


class Timed(NamedTuple):
    """The multiples of k that are timed serially, and how often."""

    multiples: Sequence[float]
    repeats: int


@dataclass(frozen=True)
class Design:
    """The content of ``atlas.yaml``."""

    collection: str
    kmeans: Mapping[str, Any]
    multiples: Sequence[float]
    forms: Mapping[str, Form]
    large: Large
    costly: Costly
    timed: Timed
    repeats: Rule
    methods: Mapping[str, Method]

    @property
    def datasets(self) -> list[str]:
        """The registered datasets of the collection."""
        return [name for name, entry in registry.entries().items() if self.collection in entry.collections]

    def kmeans_of(self, n: int, d: int, k: int) -> Mapping[str, Any]:
        """Return the settings of k-means for an n × d matrix with k clusters."""
        return {**self.kmeans, **(self.costly.kmeans if self.costly.includes(n, d, k) else {})}


@cache
def design() -> Design:
    """Return the content of ``atlas.yaml``."""
    content = load_config(_FILE)
    return Design(
        **content
        | {
            "forms": {name: Form(**form) for name, form in content["forms"].items()},
            "methods": {name: Method(**method) for name, method in content["methods"].items()},
            "large": Large(**content["large"]),
            "costly": Costly(**content["costly"]),
            "timed": Timed(**content["timed"]),
            "repeats": Rule(**content["repeats"]),
        }
    )


def sizes(k: int, d: int, multiples: Sequence[float]) -> dict[float, int]:
    """Return r for each multiple of k, rounded up, that is below d; the smallest multiple of equal ones.

    Examples
    --------
    >>> sizes(3, 100, [0.5, 1, 2, 50])
    {0.5: 2, 1: 3, 2: 6}
    """
    r_of = {multiple: ceil(multiple * k) for multiple in multiples if ceil(multiple * k) < d}
    return {multiple: r for multiple, r in r_of.items() if next(m for m in r_of if r_of[m] == r) == multiple}


def run_key(reducer: str, params: str, engine: str, arguments: Mapping[str, Any]) -> tuple[str, str]:
    """Return the key of the method of a run: the reducer and its parameters, as rows have them.

    Another engine of k-means than kmdr's makes another method of a reducer; its arguments count as parameters.

    Examples
    --------
    >>> run_key("svd", '{"rank":"k"}', "kmdr", {})
    ('svd', '{"rank":"k"}')
    >>> run_key("svd", '{"rank":"k"}', "prone", {}), run_key("none", "{}", "coreset", {"rows": 500})
    (('svd, prone', '{"rank":"k"}'), ('coreset', '{"rows":500}'))
    """
    if engine in ("", "kmdr"):  # older rows do not name it
        return reducer, params
    name = engine if reducer == ALL_FEATURES else f"{reducer}, {engine}"
    return name, canonical({**json.loads(params), **arguments}) if arguments else params


@cache
def method_names() -> Mapping[tuple[str, str], str]:
    """Return the name of each method by the `run_key` of its rows."""
    return {key_of(method): name for name, method in design().methods.items()}


def key_of(method: Method) -> tuple[str, str]:
    """Return the `run_key` of a method's rows."""
    reducer, params = named(method.config)
    kmeans = {**design().kmeans, **method.kmeans}
    return run_key(reducer, canonical(recorded(reducer, params)), kmeans["engine"], kmeans.get("args", {}))


@cache
def form_names() -> Mapping[str, str]:
    """Return the name of each form of the data by the options as rows have them."""
    return {canonical(dict(form.options)): name for name, form in design().forms.items()}
