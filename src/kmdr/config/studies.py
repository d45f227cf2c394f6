"""Configuration files of kmdr, papers and plugins, and the studies among them."""

import copy
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf._utils import get_yaml_loader
from omegaconf.errors import OmegaConfBaseException

from kmdr.base.errors import UserError, shown
from kmdr.base.paths import CONF
from kmdr.base.plugins import paper_folders, plugin_roots

# For each group of configurations that a paper may have: its folder in the paper's, and the package of its files.
GROUPS = {"study": ("studies", "_global_"), "grid": ("grid", "_global_"), "kmeans": ("kmeans", "kmeans")}
# OmegaConf's reader of YAML on libyaml, where PyYAML has it: a tenth of the time, with the same values and checks.
_Loader: Any = type("_Loader", ((yaml.CSafeLoader,) if yaml.__with_libyaml__ else ()) + (get_yaml_loader(),), {})


def external_files(group: str) -> dict[str, Path]:
    """Return the configurations of one group outside ``conf``, which papers and plugins have."""
    papers = [paper.folder / GROUPS[group][0] for paper in paper_folders()] if group in GROUPS else []
    folders = [*papers, *(root.folder / "conf" / group for root in plugin_roots())]
    return {path.stem: path for folder in folders for path in sorted(folder.glob("*.yaml"))}


def config_files(group: str) -> dict[str, Path]:
    """Return all configurations of one group, by name; files in ``conf/GROUP`` take precedence."""
    return {**external_files(group), **{path.stem: path for path in (CONF / group).glob("*.yaml")}}


def load_config(file: Path) -> dict[str, Any]:
    """Return a configuration with unresolved interpolations; the caller may change it.

    Raises
    ------
    UserError
        When the file cannot be read or is not a mapping.
    """
    return copy.deepcopy(_current(file))


def _current(file: Path) -> dict[str, Any]:
    """Return a configuration that its callers share."""
    try:
        return _read(file, file.stat().st_mtime_ns)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, OmegaConfBaseException) as error:
        raise UserError(f"{file} cannot be read ({' '.join(str(error).split())}); fix it") from error


@cache
def _read(file: Path, changed: int) -> dict[str, Any]:
    del changed  # the file is read again after it was modified
    text = file.read_text("utf-8")
    config = yaml.load(text, _Loader)
    if "${" in text:
        OmegaConf.create(config)  # refuses malformed interpolations
    if not isinstance(config, dict | None):
        raise UserError(f"{file} has no settings but {shown(config)}; write NAME: VALUE")
    return {str(key): value for key, value in (config or {}).items()}


def study_names() -> list[str]:
    """Return the names of the studies, sorted."""
    return sorted(config_files("study"))


def studies() -> tuple[Mapping[str, Any], ...]:
    """Return the ``study`` tree of each study, with plain names of datasets and reducers, and its ``repeats``.

    Raises
    ------
    UserError
        When a file is not a valid study.
    """
    return tuple(_study(path) for _, path in sorted(config_files("study").items()))


def on_request() -> frozenset[str]:
    """Return the names of the studies that run only when they are named, because they take hours."""
    return frozenset(study["name"] for study in studies() if study["on_request"])


def _study(path: Path) -> Mapping[str, Any]:
    config = _current(path)  # a copy takes ten times as long as the rest, and reports ask for all studies often
    try:
        defaults = {"name": path.stem, "title": "", "note": "", "on_request": False}
        study = {**defaults, **config["study"], "repeats": config["repeats"]}
        for group in ("datasets", "reducers"):
            names = [str(next(iter(item)) if isinstance(item, Mapping) else item) for item in study[group]]
            study[group] = list(dict.fromkeys(names))
    except (KeyError, TypeError) as error:
        raise UserError(
            f"{path} is not a valid study; it needs repeats, and datasets and reducers under study, as the papers' "
            "studies have"
        ) from error
    return study
