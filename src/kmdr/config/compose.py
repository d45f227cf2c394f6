"""Composition by Hydra: what a command line, a study or a script asks for, as plain configurations."""

import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import hydra
import yaml
from hydra._internal.utils import get_args_parser
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Glob, RangeSweep
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from kmdr import datasets
from kmdr.base.errors import UserError, shown, unknown
from kmdr.base.paths import CONF
from kmdr.config import source
from kmdr.config.protocols import Config, composed_studies, pairs, plain
from kmdr.config.studies import config_files, on_request

T = TypeVar("T")
Write = Callable[[Path, str, bytes], object]
# Each takes Hydra a tenth of a second to compose.
_MOST_JOBS = 10_000
# Settings whose names belong to another package, so that no configuration file lists them.
_FREE = ("reducer.args.", "kmeans.args.", "runner.options.")
# A configuration file has some tens of values.
_MOST_YAML_BYTES = 2**20
_MOST_VALUES = 100_000


# -- what Hydra says of a mistake, in one sentence -------------------------------------------------------------------


def _keys(config: DictConfig, prefix: str = "") -> Iterator[str]:
    for key in map(str, config):
        yield f"{prefix}{key}"
        if OmegaConf.is_dict(config) and isinstance(config._get_node(key), DictConfig):
            node = config[key]
            if node is not None:
                yield from _keys(node, f"{prefix}{key}.")


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _sentence(error: Exception, overrides: Sequence[str]) -> UserError:
    """Say what a Hydra or OmegaConf error means; the overrides are those of the command."""
    if isinstance(error, OverrideParseException):
        return UserError(
            f"{error.override!r} cannot be read as a setting; write name=value, a list as 'r_grid=[5,10,20]', quoted"
        )
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, name = error.missing_cfg_file.rpartition("/")
        return unknown(group or "configuration", name, error.options or ())
    if not isinstance(error, HydraException | OmegaConfBaseException):
        what = (
            "a configuration file" if isinstance(error, yaml.YAMLError | UnicodeDecodeError) else shown(list(overrides))
        )
        return UserError(f"{what} cannot be read ({' '.join(str(error).split())}); mend it")
    # Hydra's errors say what they are in their text alone; where a newer one words it otherwise, its own line is told.
    named = re.search(
        r"Could not override '([^']+)'|No match in the defaults list\. To append.*?'\+?([^'=@]+)", str(error)
    )
    if named:
        key = named[1] or named[2]
        choices = [text for text in overrides if re.fullmatch(r"(dataset|reducer|kmeans|runner|grid)=\w+", text)]
        with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
            names = list(_keys(hydra.compose("config", overrides=choices)))
        siblings = [name for name in names if name.rpartition(".")[0] == key.rpartition(".")[0]]
        return unknown("setting", key, siblings or names)
    if "Ambiguous value" in str(error):
        return UserError(f"{_first_line(error)}; to run one after the other, say 'kmdr -m …'")
    return UserError(_first_line(error))


@contextmanager
def _explained(overrides: Sequence[str]) -> Iterator[None]:
    """Turn the errors that Hydra raises, of configurations and of its output folder, into `UserError`."""
    try:
        yield
    except (HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError, RecursionError) as error:
        GlobalHydra.instance().clear()
        raise _sentence(error, overrides) from error
    except (
        AttributeError,
        KeyError,
        RuntimeError,
        TypeError,
    ) as error:  # so Hydra takes settings of its own that are none
        GlobalHydra.instance().clear()
        own = [override for override in overrides if override.lstrip("+~").startswith("hydra")]
        if not own:
            raise
        raise UserError(f"{shown(own)} cannot be taken ({_first_line(error)}); leave it away") from error
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}; name another folder with out=…") from error


# -- from a composed configuration to jobs ---------------------------------------------------------------------------


def _expanded(config: Config, overrides: Sequence[str]) -> list[Config]:
    """Return one composed configuration, or those of all pairs of a study. Hydra is initialised."""
    return [config] if config.get("study") is None else pairs(config, overrides)


def compose_configs(*overrides: str) -> list[Config]:
    """Return the configurations of some overrides, which differ only in dataset and reducer.

    Raises
    ------
    UserError
        When an override or a value is not valid.
    """
    source.register()
    overrides = tuple(map(_plain_setting, overrides))
    with _explained(overrides), hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        return _expanded(plain(hydra.compose("config", overrides=list(overrides))), overrides)


def compose_study_configs(out: str) -> list[list[Config]]:
    """Return the configurations of each study that runs without being named: `compose_configs` of all at once.

    Parameters
    ----------
    out : str
        Folder of the results.
    """
    later = on_request()
    return [_expanded(config, []) for name, config in composed_studies(out).items() if name not in later]


def _check_sweep(arguments: Sequence[str]) -> None:
    """Refuse a sweep that is empty or too long, before anything of it is composed.

    Raises
    ------
    UserError
    """
    count = 1
    for argument in arguments:
        if argument.startswith("-") or not re.search(r"=.*[,(]", argument):
            continue
        try:
            override = OverridesParser.create().parse_override(argument)
        except (HydraException, ValueError):
            return  # which Hydra tells of
        if not override.is_sweep_override():
            continue
        value: Any = override.value()
        if isinstance(value, Glob):
            size = len(value.filter(_choices(override.key_or_group)))
        elif isinstance(value, RangeSweep):
            start, stop, step = map(float, (value.start or 0, value.stop or 0, value.step or 1))
            size = max(0, math.ceil((stop - start) / step)) if math.isfinite(stop - start) else _MOST_JOBS + 1
        else:
            size = len(value.list) if isinstance(value, ChoiceSweep) else 1
        if not size:
            raise UserError(f"{argument!r} matches nothing; 'kmdr list' says which names there are")
        count *= size
    if count > _MOST_JOBS:
        raise UserError(f"the sweep has {count} jobs, more than {_MOST_JOBS}; sweep over less, or in several commands")


def _choices(group: str) -> list[str]:
    return list(datasets.names()) if group == "dataset" else list(config_files(group))


def _plain_setting(argument: str) -> str:
    """Return what Hydra takes for ``--refresh``, a sign, or an argument of another package, which no file lists.

    Signs are quoted: a comma would be a list to it.
    """
    if argument == "--refresh":
        return "refresh=true"
    if sign := re.fullmatch(r"(dataset\.(?:decimal|separator)=)([,;| ]|\t|\\t)", argument):
        return f"{sign[1]}'{sign[2]}'"
    return f"++{argument}" if argument.startswith(_FREE) else argument


def _checked_arguments(arguments: Sequence[str]) -> list[str]:
    """Return arguments in the order that Hydra takes: its options, which may stand anywhere, before the settings.

    Refused is what Hydra would answer with its usage, take from a pickle, read without end or not read at all.

    Raises
    ------
    UserError
    """
    parser = get_args_parser()

    def refuse(message: str) -> NoReturn:
        raise UserError(f"{message}; 'kmdr --help' says what can be asked for")

    parser.error = refuse  # type: ignore[method-assign]
    options = parser.parse_intermixed_args(arguments)
    if options.experimental_rerun:
        raise UserError("--experimental-rerun takes a pickle, which could do anything; repeat the command itself")
    settings = list(options.overrides)
    ordered = [text for text in arguments if text not in settings] + settings
    if options.config_dir is None:
        return ordered
    folder = Path(options.config_dir)
    if options.config_name is None and (folder / "config.yaml").exists():
        raise UserError(
            f"{folder / 'config.yaml'} would not be read, because kmdr's own comes first; give it another name, "
            "and say it with --config-name"
        )
    for file in [*folder.glob("*.yaml"), *folder.glob("*/*.yaml")]:
        _check_yaml(file)
    return ordered


def _check_yaml(file: Path) -> None:
    """Refuse a configuration file that is no file, or that its aliases make endless; one that is no YAML, Hydra does.

    Raises
    ------
    UserError
    """
    sizes: dict[int, float] = {}

    def size(node: Any) -> float:
        """Return how many values a node has once its aliases are written out."""
        if id(node) not in sizes:
            sizes[id(node)] = math.inf  # met again on the way down, it holds itself
            pairs = node.value if isinstance(node, yaml.MappingNode) else ()
            items = node.value if isinstance(node, yaml.SequenceNode) else [part for pair in pairs for part in pair]
            sizes[id(node)] = 1 + sum(map(size, items))
        return sizes[id(node)]

    if not file.is_file() or file.stat().st_size > _MOST_YAML_BYTES:
        raise UserError(f"{file} is not a file of at most {_MOST_YAML_BYTES} bytes; take it out of the folder")
    with suppress(yaml.YAMLError, UnicodeDecodeError):
        count = size(yaml.compose(file.read_text("utf-8"), yaml.SafeLoader))
        if count > _MOST_VALUES:
            raise UserError(f"{file} has {count:.0f} values, more than {_MOST_VALUES}; write it with fewer aliases")


def _nameless(config: DictConfig) -> bool:
    """Whether the reducer is one of another package that no path names."""
    return bool(config.reducer.name == "outside" and not config.reducer.path)


@contextmanager
def _saved_by(write: Write) -> Iterator[None]:
    """Let Hydra write ``OUT/multirun.yaml`` as every other file of a results folder is written."""

    def save(config: Any, f: str | Path, resolve: bool = False) -> None:
        path = Path(f)
        write(path.parent, path.name, OmegaConf.to_yaml(config, resolve=resolve).encode())

    hydras, OmegaConf.save = OmegaConf.save, staticmethod(save)  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        OmegaConf.save = staticmethod(hydras)  # type: ignore[method-assign]


def configs_of_command_line(check: Callable[[list[Config]], T], launch: Callable[[T], object], write: Write) -> list[T]:
    """Return the jobs of ``sys.argv``: one, or those of a sweep.

    A sweep in this process is gathered and run as one, so that every value is checked before any work starts and all
    workers are busy to the end. Under another Hydra launcher each job runs where the launcher puts it.

    Parameters
    ----------
    check : callable
        Makes a job of configurations that differ only in dataset and reducer.
    launch : callable
        Runs a job where another launcher put it.
    write : callable
        Writes a file of a folder of results, given the folder, the file's name and its content.
    """
    jobs: list[T] = []
    mistakes: list[Exception] = []

    def gather(config: DictConfig) -> None:
        here = HydraConfig.get()
        if any(text.startswith("reducer=glob(") for text in sys.argv) and _nameless(config):
            return  # a pattern means the reducers that have a name
        elsewhere = str(here.mode) == "RunMode.MULTIRUN" and not here.launcher._target_.endswith("BasicLauncher")
        try:
            job = check(_expanded(plain(config), list(here.overrides.task)))
        except Exception as error:
            if elsewhere:
                raise
            mistakes.append(error)  # raised once Hydra is left, which would print a traceback of its own
            return
        if elsewhere:
            launch(job)
        else:
            jobs.append(job)

    sys.argv = [_plain_setting(argument) for argument in sys.argv]
    source.register()
    with _explained(sys.argv[1:]):
        sys.argv[1:] = _checked_arguments(sys.argv[1:])
        _check_sweep(sys.argv[1:])
    os.environ["HYDRA_FULL_ERROR"] = "1"  # errors come to us instead of being printed
    with _explained(sys.argv[1:]), _saved_by(write):
        hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(gather)()
        if mistakes:
            raise mistakes[0]
    return jobs
