"""The configurations that papers and guests bring, and the studies among them: what was asked and what they read."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from kmdr.base.errors import UserError
from kmdr.base.paths import CONF
from kmdr.base.plugins import guests, paper_folders

# Of each group of configurations that a paper may bring: its folder in the paper's, and the package of its files.
GROUPS = {"study": ("studies", "_global_"), "grid": ("grid", "_global_"), "kmeans": ("kmeans", "kmeans")}


def paper_files(group: str) -> dict[str, Path]:
    """Return the papers' configurations of one group, by name."""
    folder, _ = GROUPS[group]
    return {path.stem: path for paper in paper_folders() for path in sorted((paper.folder / folder).glob("*.yaml"))}


def brought_files(group: str) -> dict[str, Path]:
    """Return the configurations of one group that are not in kmdr's own ``conf``: the papers' and the guests'."""
    of_guests = {path.stem: path for root in guests() for path in root.files(f"conf/{group}", "*.yaml")}
    return {**(paper_files(group) if group in GROUPS else {}), **of_guests}


def config_files(group: str) -> dict[str, Path]:
    """Return all configurations of one group, by name: those brought, and those of ``conf/GROUP``, which go first."""
    return {**brought_files(group), **{path.stem: path for path in (CONF / group).glob("*.yaml")}}


def study_names() -> list[str]:
    """Return the names of the studies, sorted."""
    return sorted(config_files("study"))


def _name(entry: Any) -> str:
    return str(next(iter(entry))) if isinstance(entry, Mapping) else str(entry)


def studies() -> tuple[Mapping[str, Any], ...]:
    """Return the ``study`` tree of each, with plain names of datasets and reducers, and its ``repeats``.

    Raises
    ------
    UserError
        When a file is no study.
    """
    return _studies(tuple(sorted(config_files("study").items())))


def on_request() -> frozenset[str]:
    """Return the names of the studies that are run only when they are named, as they take hours."""
    return frozenset(study["name"] for study in studies() if study["on_request"])


@cache
def _studies(files: tuple[tuple[str, Path], ...]) -> tuple[Mapping[str, Any], ...]:
    return tuple(_study(path) for _, path in files)


def _study(path: Path) -> Mapping[str, Any]:
    try:
        config: Any = OmegaConf.to_container(OmegaConf.load(path))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, OmegaConfBaseException) as error:
        raise UserError(f"{path} cannot be read ({' '.join(str(error).split())}); mend it") from error
    try:
        defaults = {"name": path.stem, "title": "", "note": "", "on_request": False}
        study = {**defaults, **config["study"], "repeats": config["repeats"]}
        for group in ("datasets", "reducers"):
            study[group] = list(dict.fromkeys(map(_name, study[group])))
    except (KeyError, TypeError) as error:
        raise UserError(
            f"{path} is no study; it needs repeats, and datasets and reducers under study, as those of the papers have"
        ) from error
    return study
