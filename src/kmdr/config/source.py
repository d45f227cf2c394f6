"""A Hydra source for the configurations outside ``conf``: datasets, papers, plugins, and reducers without a file."""

from pathlib import Path

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

from kmdr import datasets, reducers
from kmdr.config.studies import GROUPS, config_files, external_files, load_config, load_study
from kmdr.config.suggestions import is_import_path
from kmdr.datasets import registry


def _offered() -> dict[str, dict[str, Path | None]]:
    """Return the file of each configuration by group and name; None for one that has no file."""
    without_file = set(reducers.names()) - set(config_files("reducer"))
    return {
        "dataset": dict.fromkeys(datasets.names()),
        "reducer": {**external_files("reducer"), **dict.fromkeys(without_file)},
        **{group: dict(external_files(group)) for group in ("runner", *GROUPS)},
    }


class ExternalSource(ConfigSource):
    """Configurations that are read when they are composed.

    Hydra's own store would need all of them before it composes one, which takes a second for a hundred.
    """

    def __init__(self, provider: str, path: str) -> None:
        super().__init__(provider=provider, path=path)
        self._offered = _offered()

    @staticmethod
    def scheme() -> str:
        """Return the scheme of the path that `ExternalPath` adds."""
        return "kmdr"

    def available(self) -> bool:
        """Return True."""
        return True

    def load_config(self, config_path: str) -> ConfigResult:
        """Read one existing configuration, or make that of a reducer named by its import path."""
        group, name = self._split(config_path)
        package = GROUPS[group][1] if group in GROUPS else group
        if group == "reducer" and is_import_path(name):
            config = OmegaConf.create({**load_config(config_files(group)["outside"]), "path": name})
            return ConfigResult("kmdr", self.full_path(), config, {"package": package})
        if file := self._offered[group][name]:
            config = OmegaConf.create(load_study(file) if group == "study" else load_config(file))
            return ConfigResult(str(file), self.full_path(), config, {"package": package})
        settings = registry.entry(name).offered if group == "dataset" else reducers.settings(name)
        config = OmegaConf.create({"name": name, **settings})
        return ConfigResult("kmdr", self.full_path(), config, {"package": package})

    def is_group(self, config_path: str) -> bool:
        """Return whether a path is a group of configurations."""
        return config_path.rstrip("/") in ("", *self._offered)

    def is_config(self, config_path: str) -> bool:
        """Return whether a path is a configuration."""
        group, name = self._split(config_path)
        return name in self._offered.get(group, ()) or (group == "reducer" and is_import_path(name))

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """Return the groups, or the configurations of one, sorted."""
        group = config_path.rstrip("/")
        kind, names = (ObjectType.CONFIG, self._offered.get(group, {})) if group else (ObjectType.GROUP, self._offered)
        return sorted(names) if results_filter in (None, kind) else []

    @staticmethod
    def _split(config_path: str) -> tuple[str, str]:
        group, _, name = config_path.removesuffix(".yaml").rpartition("/")
        return group, name


class ExternalPath(SearchPathPlugin):
    """Lets Hydra search `ExternalSource` after ``conf``."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Append the source to the search path."""
        search_path.append(provider="kmdr", path=f"{ExternalSource.scheme()}://")


def register() -> None:
    """Register both with Hydra; a second call changes nothing."""
    for plugin in (ExternalSource, ExternalPath):
        Plugins.instance().register(plugin)
