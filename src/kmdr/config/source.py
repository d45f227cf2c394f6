"""The configurations that have no file in ``conf``, as Hydra finds them: each is read when it is composed."""

from pathlib import Path

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

from kmdr import datasets, reducers
from kmdr.config.studies import GROUPS, brought_files, config_files
from kmdr.datasets import registry


def _offered() -> dict[str, dict[str, Path | None]]:
    """Return the file of each configuration by group and name; None for one that has no file."""
    own_reducers = set(reducers.names()) - set(config_files("reducer"))
    return {
        "dataset": dict.fromkeys(datasets.names()),
        "reducer": {**brought_files("reducer"), **dict.fromkeys(own_reducers)},
        **{group: dict(brought_files(group)) for group in ("runner", *GROUPS)},
    }


class BroughtSource(ConfigSource):
    """Datasets, what papers and guests bring, and reducers without a file.

    Hydra's own store of configurations would want all of them read before it composes one: a second for a hundred.
    """

    def __init__(self, provider: str, path: str) -> None:
        super().__init__(provider=provider, path=path)
        self._offered = _offered()

    @staticmethod
    def scheme() -> str:
        """Begin the place that `BroughtPath` gives."""
        return "kmdr"

    def available(self) -> bool:
        """Whether the place is there."""
        return True

    def load_config(self, config_path: str) -> ConfigResult:
        """Read one configuration, which there is."""
        group, name = self._split(config_path)
        package = GROUPS[group][1] if group in GROUPS else group
        if file := self._offered[group][name]:
            return ConfigResult(str(file), self.full_path(), OmegaConf.load(file), {"package": package})
        settings = registry.entry(name).offered if group == "dataset" else reducers.settings(name)
        return ConfigResult(
            "kmdr", self.full_path(), OmegaConf.create({"name": name, **settings}), {"package": package}
        )

    def is_group(self, config_path: str) -> bool:
        """Whether a path is a group of configurations."""
        return config_path.rstrip("/") in ("", *self._offered)

    def is_config(self, config_path: str) -> bool:
        """Whether a path is a configuration."""
        group, name = self._split(config_path)
        return name in self._offered.get(group, ())

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """List the groups, or the configurations of one, sorted."""
        group = config_path.rstrip("/")
        kind, names = (ObjectType.CONFIG, self._offered.get(group, {})) if group else (ObjectType.GROUP, self._offered)
        return sorted(names) if results_filter in (None, kind) else []

    @staticmethod
    def _split(config_path: str) -> tuple[str, str]:
        group, _, name = config_path.removesuffix(".yaml").rpartition("/")
        return group, name


class BroughtPath(SearchPathPlugin):
    """Lets Hydra look there after ``conf``."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Append the place."""
        search_path.append(provider="kmdr", path=f"{BroughtSource.scheme()}://")


def register() -> None:
    """Tell Hydra of both; a second time changes nothing."""
    for plugin in (BroughtSource, BroughtPath):
        Plugins.instance().register(plugin)
