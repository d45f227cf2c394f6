"""What each study asks for, as its YAML and those it names say it: plain configurations, without Hydra.

Hydra takes a tenth of a second a study, with those of all papers several seconds before any work begins. Only that is
done here which a study may use: overrides of groups in its defaults list, then its own settings; a test composes each
both ways and compares.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from kmdr import reducers
from kmdr.base.errors import UserError, section, shown, unknown, whole_number
from kmdr.base.paths import CONF
from kmdr.config.studies import config_files
from kmdr.datasets import registry

Config = dict[str, Any]


def plain(config: DictConfig) -> Config:
    """Return a configuration as plain values."""
    resolved = OmegaConf.to_container(config, resolve=True)
    assert isinstance(resolved, dict)
    return {str(key): value for key, value in resolved.items()}


@cache
def choice(group: str, name: str) -> Config:
    """Return the configuration of one dataset or reducer, read as it stands."""
    if group == "dataset":
        return {"name": name, **registry.entry(name).offered}
    files = config_files(group)
    if group == "reducer" and name not in files and name in reducers.names():
        return {"name": name, **reducers.settings(name)}
    if name not in files:
        raise unknown(group, name, files)
    return plain(OmegaConf.create(_loaded(files[name])))


def _loaded(file: Path) -> Config:
    """Return what a file says, its interpolations as they stand; the caller may change it."""
    try:
        return copy.deepcopy(_read(file, file.stat().st_mtime_ns))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, OmegaConfBaseException) as error:
        raise UserError(f"{file} cannot be read ({' '.join(str(error).split())}); mend it") from error


@cache  # parsing YAML is most of what composing fifty studies takes
def _read(file: Path, changed: int) -> Config:
    del changed  # asked again when the file is another
    config: Any = OmegaConf.to_container(OmegaConf.load(file))
    if not isinstance(config, dict):
        raise UserError(f"{file} has no settings but {shown(config)}; write NAME: VALUE")
    return {str(key): value for key, value in config.items()}


def _variants(group: str, items: Sequence[Any]) -> list[Config]:
    """Return the configurations of a study's datasets or reducers: names, or ``{svd: {rank: r}}`` with settings."""
    if not isinstance(items, list):
        raise UserError(f"study.{group}s = {shown(items)} is no list; give one, e.g. 'study.{group}s=[NAME]'")
    configs = []
    for item in items:
        single = isinstance(item, Mapping) and len(item) == 1
        name, settings = next(iter(item.items())) if single else (item, {})
        if not isinstance(name, str) or not isinstance(settings, Mapping):
            raise UserError(
                f"study.{group}s has {shown(item)}, which is neither a name nor one name with settings as "
                "'{svd: {rank: r}}'; give either"
            )
        composed = choice(group, name)
        for key in settings:
            if key not in composed:
                raise unknown(f"setting of {group} {name}", key, composed)
        configs.append({**composed, **settings})
    return configs


def pairs(config: Config, overrides: Sequence[str] = ()) -> list[Config]:
    """Return a configuration for each pair of a study's datasets and reducers, from that of the study."""
    study = section(config, "study")
    for key in ("name", "datasets", "reducers"):
        if key not in study:
            raise UserError(f"study.{key} is not set; say study=NAME, as 'kmdr list studies' names them")
    for override in overrides:
        group = override.partition("=")[0].lstrip("+~").partition(".")[0]
        if group in ("dataset", "reducer"):
            raise UserError(
                f"study={study['name']} names its own {group}s, which {override!r} cannot change; "
                f"use 'study.{group}s=[…]' instead"
            )
    choices = {group: _variants(group, study[f"{group}s"]) for group in ("dataset", "reducer")}
    named = {f"{group}s": [variant["name"] for variant in variants] for group, variants in choices.items()}
    shared = {**config, "study": {**study, **named}}
    most = _most_repeats(study, named["reducers"])
    repeats = whole_number("repeats", config["repeats"], 1)
    return [
        {
            **shared,
            "dataset": dataset,
            "reducer": reducer,
            "repeats": min(repeats, most.get(reducer["name"], repeats)),
        }
        for dataset, reducer in product(choices["dataset"], choices["reducer"])
    ]


def _most_repeats(study: Config, names: Sequence[str]) -> dict[str, int]:
    """Return how many repetitions some reducers of a study have at most, where others need more.

    Raises
    ------
    UserError
        When it is no mapping of the study's reducers to whole numbers.
    """
    most = study.get("most_repeats") or {}
    if not isinstance(most, Mapping):
        raise UserError(f"study.most_repeats = {shown(most)} is no mapping; write e.g. '{{none: 1000}}'")
    for name in most:
        if name not in names:
            raise unknown("reducer under study.most_repeats", str(name), names)
    return {name: whole_number(f"study.most_repeats.{name}", count, 1) for name, count in most.items()}


def composed_studies(out: str) -> dict[str, Config]:
    """Return the composed configuration of each study, by name, with another folder.

    Parameters
    ----------
    out : str
        Folder of the results.

    Raises
    ------
    UserError
        When a file is not what such a file is.
    """
    return {name: _composed(file, out) for name, file in sorted(config_files("study").items())}


def _composed(file: Path, out: str) -> Config:
    base, study = _loaded(CONF / "config.yaml"), _loaded(file)
    del base["hydra"]
    base["out"] = out
    choices = dict(_choices(base.pop("defaults"), file)) | dict(_choices(study.pop("defaults", None) or [], file))
    for group, name in choices.items():
        if name is None or group == "study":
            continue
        files = config_files(group)
        if group in ("dataset", "reducer"):
            layer = choice(group, name)
        elif name in files:
            layer = _loaded(files[name])
        else:
            raise unknown(f"{group} in {file}", name, files)
        # A grid is of the package _global_.
        base = _laid_over(base, layer if group == "grid" else {group: layer})
    config = _laid_over(base, study)
    if "${" not in repr(config):
        return config
    try:
        return plain(OmegaConf.create(config))
    except OmegaConfBaseException as error:
        raise UserError(f"{file} cannot be read ({' '.join(str(error).split())}); mend it") from error


def _laid_over(base: Config, layer: Config) -> Config:
    """Return a configuration with another laid over it, as Hydra does: mappings are united, all else is replaced."""
    united = dict(base)
    for key, value in layer.items():
        below = united.get(key)
        united[key] = _laid_over(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return united


def _choices(defaults: Sequence[Any], file: Path) -> Iterator[tuple[str, str | None]]:
    """Yield group and name of each choice in a list of defaults."""
    for choice in defaults:
        if choice == "_self_":
            continue
        if not isinstance(choice, Mapping) or len(choice) != 1:
            raise UserError(f"{file} has {shown(choice)} among its defaults; write 'override /GROUP: NAME'")
        ((target, name),) = choice.items()
        if "hydra" not in str(target):
            yield str(target).removeprefix("override ").lstrip("/"), name


def study_configs(study: str) -> list[Config]:
    """Return one configuration per dataset and reducer of a study; an empty list if the study does not exist."""
    file = config_files("study").get(study)
    return [] if file is None else pairs(_composed(file, "results"))
