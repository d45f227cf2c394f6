"""The studies that are configured, as far as a report needs to know them."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from omegaconf import OmegaConf

from kmdr.paths import CONF


def study_names() -> list[str]:
    """Return the names of the studies, sorted."""
    return sorted(path.stem for path in (CONF / "study").glob("*.yaml"))


def _name(entry: Any) -> str:
    return str(next(iter(entry))) if isinstance(entry, Mapping) else str(entry)


@cache
def studies() -> tuple[Mapping[str, Any], ...]:
    """Return the ``study`` tree of each, with plain names of datasets and reducers, and its ``repeats``."""
    found = []
    for name in study_names():
        config = OmegaConf.to_container(OmegaConf.load(CONF / "study" / f"{name}.yaml"))
        assert isinstance(config, dict)
        study = dict(config["study"])
        for group in ("datasets", "reducers"):
            study[group] = list(dict.fromkeys(map(_name, study[group])))
        found.append({**study, "repeats": config["repeats"]})
    return tuple(found)
