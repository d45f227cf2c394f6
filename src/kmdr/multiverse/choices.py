"""The choices that a paper leaves open, with their options: ``multiverse.yaml`` in its folder.

A universe takes one option of each choice. The first option of a choice is the paper's own, as its studies have it; any
other is a set of settings laid over the studies, or over how a reported number is read from the rows::

    studies: [mypaper_table1]          # run in each universe
    datasets: [usps]                   # of the studies' datasets
    methods:                           # of the studies' methods: runs per universe, and of how many runs the paper
      leverage: {runs: 240, best_of: 30}   # reports the best by F
      none: {runs: 60, by_dataset: {usps: {runs: 5}}}
    r_grid: {mypaper_table1: [15, 30]} # of the studies whose r differ, or a list for all
    universes: 64                      # number of universes to run without a budget
    numbers: {mypaper_table1: {}}      # reported numbers by id, with their r if they are reported without
    claims: [mypaper-1]                # claims that may depend on the choices
    choices:
      rescaled:                        # an open point of the paper
        "yes": {}
        "no": {reducers: {leverage: {rescaled: false}}}

An option sets ``kmeans``, ``reducers``, ``datasets`` (by the studies' names) or ``matching``, for all studies or, under
``studies`` and its name, for one; and ``methods`` or ``numbers``, which change how a number is read.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

from kmdr.base.errors import UserError, shown, unknown, whole_number
from kmdr.base.text import counted
from kmdr.claims.catalogue import Paper, papers
from kmdr.claims.reported import numbers as reported_numbers
from kmdr.config.studies import load_config, studies, study_names
from kmdr.multiverse.factorial import block_size, design

FILE = "multiverse.yaml"
# The shares of variance take a fit for each set of choices.
_MOST_UNIVERSES, _MOST_CHOICES = 10_000, 12
_SEED = 0
_NEEDS = ("studies", "datasets", "methods", "universes", "choices")
_MAY = ("r_grid", "numbers", "claims")
# What an option may set: in the studies, and in how a number is read from the rows.
_OF_STUDY, _OF_READING = ("kmeans", "reducers", "datasets", "matching"), ("methods", "numbers")
_OF_METHOD, _OF_NUMBER, _OF_SHARE = ("runs", "best_of", "by_dataset"), ("r", "share"), ("of", "at_least", "runs")

Settings = Mapping[str, Any]

# Prefix of the study of a multiverse's rows; the rest is the name of the paper's study.
STUDY = "multiverse_"


@dataclass(frozen=True)
class Multiverse:
    """The content of a ``multiverse.yaml``.

    Attributes
    ----------
    methods : mapping of str to Settings
        By reducer, as the studies name it: ``runs`` of each universe, ``best_of``, and other values ``by_dataset``.
    r_grid : mapping of str to tuple of int
        By study; a study without has its own.
    size : int
        Number of universes to run without a budget.
    numbers : mapping of str to Settings
        By id: ``r`` of numbers that are reported without, and ``share`` of numbers that are a share of runs.
    choices : mapping of str to (mapping of str to Settings)
        By open point: the options in words, with their settings.
    """

    paper: str
    studies: tuple[str, ...]
    datasets: tuple[str, ...]
    methods: Mapping[str, Settings]
    r_grid: Mapping[str, tuple[int, ...]]
    size: int
    numbers: Mapping[str, Settings]
    claims: tuple[str, ...]
    choices: Mapping[str, Mapping[str, Settings]]

    @cached_property
    def labels(self) -> dict[str, str]:
        """Return the choices in words, for figures and sentences."""
        return {choice: choice.removesuffix(f"_{self.paper}").replace("_", " ") for choice in self.choices}

    @property
    def levels(self) -> list[int]:
        """Number of options of each choice."""
        return [len(options) for options in self.choices.values()]

    @property
    def block(self) -> int:
        """Number of universes in which each option of a choice can occur equally often."""
        return block_size(self.levels)

    @property
    def all(self) -> int:
        """Number of universes."""
        return prod(self.levels)

    @cached_property
    def universes(self) -> list[tuple[str, ...]]:
        """Every universe, one option per choice, in the order in which they are run; the first is the paper's own.

        Each `block` of them is balanced. The order depends only on the number of options of each choice.
        """
        names = [list(options) for options in self.choices.values()]
        points = design(self.levels, _SEED)
        return [tuple(options[i] for options, i in zip(names, point, strict=True)) for point in points]

    def settings(self, universe: Sequence[str]) -> dict[str, Any]:
        """Return what the options of a universe set, all together."""
        together: dict[str, Any] = {}
        for options, option in zip(self.choices.values(), universe, strict=True):
            together = _laid_over(together, options[option])
        return together

    def narrowed(self, study: Settings) -> dict[str, Any]:
        """Return the composed configuration of a study with only this multiverse's datasets, methods and r."""
        tree = dict(study["study"])
        for group, wanted in (("datasets", self.datasets), ("reducers", self.methods)):
            tree[group] = [item for item in tree[group] if name_and_settings(item)[0] in wanted]
        sizes = self.r_grid.get(tree["name"])
        return {**study, "study": tree} | ({"r_grid": list(sizes)} if sizes else {})

    def reading(self, universe: Sequence[str]) -> tuple[Mapping[str, Settings], Mapping[str, Settings]]:
        """Return the methods and numbers as a universe reads them."""
        settings = self.settings(universe)
        methods, numbers = (settings.get(key, {}) for key in _OF_READING)
        return _laid_over(self.methods, methods), _laid_over(self.numbers, numbers)


def settings_on_dataset(of_method: Settings, dataset: str) -> Settings:
    """Return the settings of a method on a dataset."""
    return {**of_method, **of_method.get("by_dataset", {}).get(dataset, {})}


def _laid_over(settings: Settings, others: Settings) -> dict[str, Any]:
    """Return settings with others laid over them, branch by branch."""
    result = dict(settings)
    for name, value in others.items():
        both = isinstance(value, Mapping) and isinstance(result.get(name), Mapping)
        result[name] = _laid_over(result[name], value) if both else value
    return result


def settled(study: Settings, settings: Settings) -> dict[str, Any]:
    """Return the composed configuration of a study with the settings of a universe laid over it.

    Settings under ``studies`` and the study's name are for it alone. A reducer or dataset with another ``name`` is
    replaced by that one, with the other settings.
    """
    tree = dict(study["study"])
    settings = _laid_over(settings, settings.get("studies", {}).get(tree["name"], {}))
    for group in ("datasets", "reducers"):
        tree[group] = [_replaced(item, settings.get(group, {})) for item in tree[group]]
    changed: dict[str, Any] = {**study, "study": tree, "kmeans": {**study["kmeans"], **settings.get("kmeans", {})}}
    return changed | ({"matching": settings["matching"]} if "matching" in settings else {})


def _replaced(item: Any, settings: Settings) -> Any:
    """Return an entry of a study's datasets or reducers, a name or ``{name: settings}``, with settings laid over it."""
    name, settings_of_item = name_and_settings(item)
    if name not in settings:
        return item
    other = settings[name]
    merged = dict(other) if "name" in other else {**settings_of_item, **other}
    return {merged.pop("name", name): merged}


def name_and_settings(item: Any) -> tuple[str, Settings]:
    """Return name and settings of an entry of a study's datasets or reducers."""
    return next(iter(item.items())) if isinstance(item, Mapping) else (str(item), {})


def multiverse_of(paper: Paper) -> Multiverse | None:
    """Return the multiverse of a paper; None if it has no ``multiverse.yaml``."""
    file = paper.folder.folder / FILE
    return _checked(load_config(file), paper, file) if file.is_file() else None


def multiverses(wanted: Collection[str] | None = None) -> list[Multiverse]:
    """Return the multiverses of all papers, or of the wanted ones."""
    some = (paper for paper in papers() if wanted is None or paper.name in wanted)
    return [multiverse for multiverse in map(multiverse_of, some) if multiverse is not None]


def _checked(tree: Any, paper: Paper, file: Path) -> Multiverse:
    _mapping(tree, str(file), (*_NEEDS, *_MAY))
    if missing := [key for key in _NEEDS if not tree.get(key)]:
        raise UserError(f"{file} lacks {', '.join(missing)}; add it")
    named = _names(tree["studies"], f"studies of {file}", study_names())
    known = [study for study in studies() if study["name"] in named]
    of_studies = {group: {name for study in known for name in study[group]} for group in ("datasets", "reducers")}
    datasets = _names(tree["datasets"], f"datasets of {file}", of_studies["datasets"])
    methods = _mapping(tree["methods"], f"methods of {file}", of_studies["reducers"])
    for name, settings in methods.items():
        where = f"methods.{name} of {file}"
        _check_method(settings, where, datasets)
        if "runs" not in settings:
            raise UserError(f"{where} lacks runs; give the number of runs per universe")
    numbers = _mapping(tree.get("numbers") or {}, f"numbers of {file}")
    for id_, settings in numbers.items():
        _check_number(settings, f"numbers.{id_} of {file}")
        if not id_.startswith(paper.name) or not reported_numbers(id_):
            raise UserError(
                f"numbers of {file} has {id_!r}, which is not an id of the paper's reported.csv; name one of these"
            )
    choices = _mapping(tree["choices"], f"choices of {file}", [point.id for point in paper.points])
    for point, options in choices.items():
        _check_options(options, f"choices.{point} of {file}", named, of_studies, methods, numbers)
    result = Multiverse(
        paper.name, named, datasets, methods, _grids(tree.get("r_grid") or {}, f"r_grid of {file}", named),
        whole_number(f"universes of {file}", tree["universes"], 1), numbers,
        _names(tree.get("claims") or [], f"claims of {file}", paper.claim_ids), choices,
    )  # fmt: skip
    if result.all > _MOST_UNIVERSES or len(choices) > _MOST_CHOICES:
        raise UserError(
            f"{file} has {len(choices)} choices and {counted(result.all, 'universe')}, more than {_MOST_CHOICES} and "
            f"{_MOST_UNIVERSES}; omit some options"
        )
    return result


def _mapping(value: Any, what: str, valid: Collection[str] | None = None) -> Mapping[str, Any]:
    """Return a value after checking that it is a mapping from valid names."""
    if not isinstance(value, Mapping):
        raise UserError(f"{what} is {shown(value)}, not a mapping; write one 'name: value' per line")
    for name in value:
        if not isinstance(name, str):
            raise UserError(f"{what} has {shown(name)}, which is not a text; put it in quotes")
        if valid is not None and name not in valid:
            raise unknown(f"key in {what}", name, valid)
    return value


def _names(value: Any, what: str, valid: Collection[str] | None = None) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise UserError(f"{what} are {shown(value)}, which is not a list of names; write e.g. [NAME, NAME]")
    for name in value:
        if valid is not None and name not in valid:
            raise unknown(f"name for {what}", name, valid)
    return tuple(value)


def _sizes(value: Any, what: str) -> tuple[int, ...]:
    return tuple(whole_number(what, r, 1) for r in (value if isinstance(value, list) else [value]))


def _grids(value: Any, what: str, studies: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return the r of each study, from one list for all or from one list per study."""
    if not isinstance(value, Mapping):
        return dict.fromkeys(studies, _sizes(value, what))
    return {name: _sizes(sizes, f"{name} in {what}") for name, sizes in _mapping(value, what, studies).items()}


def _check_method(settings: Any, where: str, datasets: Sequence[str] = ()) -> None:
    for key, value in _mapping(settings, where, _OF_METHOD).items():
        if key == "by_dataset":
            for dataset, others in _mapping(value, f"by_dataset in {where}", datasets).items():
                _check_method(others, f"{dataset} in {where}")
        else:
            whole_number(f"{key} in {where}", value, 1)


def _check_number(settings: Any, where: str) -> None:
    for key, value in _mapping(settings, where, _OF_NUMBER).items():
        if key == "r":
            whole_number(f"r in {where}", value, 1)
        elif set(_mapping(value, f"share in {where}", _OF_SHARE)) != set(_OF_SHARE):
            raise UserError(f"share in {where} lacks one of {', '.join(_OF_SHARE)}; give them all")


def _check_study(settings: Settings, where: str, of_studies: Mapping[str, Collection[str]]) -> None:
    for key in _OF_STUDY[:3]:
        _mapping(settings.get(key, {}), f"{key} of {where}", of_studies.get(key))


def _check_options(
    options: Any,
    where: str,
    named: Sequence[str],
    of_studies: Mapping[str, Collection[str]],
    methods: Settings,
    numbers: Settings,
) -> None:
    """Refuse fewer than two options, a first one that sets something, and settings that an option cannot have."""
    _mapping(options, where)
    if len(options) < 2:
        raise UserError(f"{where} has {len(options)} options; a choice has at least two")
    if next(iter(options.values())):
        raise UserError(f"the first option of {where} sets something; it is the paper's own choice, so write {{}}")
    known = {"methods": [*methods], "numbers": [*numbers]}
    for name, settings in options.items():
        of_option = f"{name!r} in {where}"
        _mapping(settings, of_option, (*_OF_STUDY, "studies", *_OF_READING))
        _check_study(settings, of_option, of_studies)
        for study, of_study in _mapping(settings.get("studies", {}), f"studies of {of_option}", named).items():
            where_in_study = f"{study} of {of_option}"
            _check_study(_mapping(of_study, where_in_study, _OF_STUDY), where_in_study, of_studies)
        for key in _OF_READING:
            _mapping(settings.get(key, {}), f"{key} of {of_option}", known.get(key))
        for method, of_method in settings.get("methods", {}).items():
            _check_method(of_method, f"{method} of {of_option}")
        for id_, of_number in settings.get("numbers", {}).items():
            _check_number(of_number, f"{id_} of {of_option}")
