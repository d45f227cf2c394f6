"""The datasets and reducers of a study as plain configurations: one for each pair."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from omegaconf import OmegaConf

from kmdr import reducers
from kmdr.base.errors import UserError, section, shown, unknown, whole_number
from kmdr.config.studies import config_files, load_config
from kmdr.config.suggestions import is_import_path
from kmdr.datasets import registry

Config = dict[str, Any]


def plain(config: Any) -> Config:
    """Return a configuration as plain values, with interpolations resolved."""
    resolved = OmegaConf.to_container(config, resolve=True)
    assert isinstance(resolved, dict)
    return {str(key): value for key, value in resolved.items()}


def choice(group: str, name: str) -> Config:
    """Return the configuration of one dataset or reducer."""
    if group == "dataset":
        return {"name": name, **registry.entry(name).offered}
    files = config_files(group)
    if group == "reducer" and name not in files and name in reducers.names():
        return {"name": name, **reducers.settings(name)}
    if name not in files:
        raise unknown(group, name, files)
    return plain(OmegaConf.create(load_config(files[name])))


def _variants(group: str, items: Sequence[Any]) -> list[tuple[str, Config]]:
    """Return the names and configurations of a study's datasets or reducers.

    They are names, or ``{svd: {rank: r}}`` with settings; a reducer's import path has the arguments of its class.
    """
    if not isinstance(items, list):
        raise UserError(f"study.{group}s = {shown(items)} is not a list; give one, e.g. 'study.{group}s=[NAME]'")
    configs = []
    for item in items:
        single = isinstance(item, Mapping) and len(item) == 1
        name, settings = next(iter(item.items())) if single else (item, {})
        if not isinstance(name, str) or not isinstance(settings, Mapping):
            raise UserError(
                f"study.{group}s has {shown(item)}, which is neither a name nor one name with settings as "
                "'{svd: {rank: r}}'; give either"
            )
        if group == "reducer" and is_import_path(name):
            configs.append((name, {**choice(group, "outside"), "path": name, "args": dict(settings)}))
            continue
        composed = choice(group, name)
        for key in settings:
            if key not in composed:
                raise unknown(f"setting of {group} {name}", key, composed)
        configs.append((name, {**composed, **settings}))
    return configs


def pairs(config: Config, overrides: Sequence[str] = ()) -> list[Config]:
    """Return a configuration for each pair of a study's datasets and reducers, given the study's configuration."""
    study = section(config, "study")
    for key in ("name", "datasets", "reducers"):
        if key not in study:
            raise UserError(f"study.{key} is not set; give study=NAME, as 'kmdr list studies' names them")
    for override in overrides:
        key = override.partition("=")[0].lstrip("+~")
        if key == "study.name":
            raise UserError(f"{override!r} would give the rows of study={study['name']} to another study; remove it")
        group = key.partition(".")[0]
        if group in ("dataset", "reducer"):
            raise UserError(
                f"study={study['name']} names its own {group}s, which {override!r} cannot change; "
                f"use 'study.{group}s=[…]' instead"
            )
    choices = {group: _variants(group, study[f"{group}s"]) for group in ("dataset", "reducer")}
    named = {f"{group}s": [name for name, _ in variants] for group, variants in choices.items()}
    shared = {**config, "study": {**study, **named}}
    most = _most_repeats(study, named["reducers"])
    repeats = whole_number("repeats", config["repeats"], 1)
    return [
        {
            **shared,
            "dataset": dataset,
            "reducer": reducer,
            "repeats": min(repeats, most.get(name, repeats)),
        }
        for (_, dataset), (name, reducer) in product(choices["dataset"], choices["reducer"])
    ]


def _most_repeats(study: Config, names: Sequence[str]) -> dict[str, int]:
    """Return the maximal number of repetitions of the reducers of a study that have one.

    Other known reducers are allowed, because ``study.reducers=[…]`` on a command line may leave some of a study out.
    """
    most = study.get("most_repeats") or {}
    if not isinstance(most, Mapping):
        raise UserError(f"study.most_repeats = {shown(most)} is not a mapping; write e.g. '{{none: 1000}}'")
    known = {*names, *config_files("reducer"), *reducers.names()}
    for name in most:
        if name not in known:
            raise unknown("reducer under study.most_repeats", str(name), names)
    return {name: whole_number(f"study.most_repeats.{name}", count, 1) for name, count in most.items()}
