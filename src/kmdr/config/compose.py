"""Hydra composition: the plain configurations that a command line, a study or a script asks for."""

import math
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import hydra
import yaml
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
from kmdr.base.text import counted
from kmdr.config import source
from kmdr.config.overrides import as_override, checked_arguments
from kmdr.config.protocols import Config, pairs, plain
from kmdr.config.studies import config_files, load_study, naming_study, on_request, tell_unread_files
from kmdr.config.suggestions import unknown_choice, unknown_key

T = TypeVar("T")
# Hydra takes a tenth of a second to compose each.
_MOST_JOBS = 10_000
# Groups of which a study may choose a configuration in its defaults list.
_GROUPS = ("dataset", "reducer", "grid", "kmeans", "runner")


# -- errors of Hydra, as one sentence --------------------------------------------------------------------------------


def _keys(config: DictConfig, prefix: str = "") -> Iterator[str]:
    for key in map(str, config):
        yield f"{prefix}{key}"
        if OmegaConf.is_dict(config) and isinstance(config._get_node(key), DictConfig):
            node = config[key]
            if node is not None:
                yield from _keys(node, f"{prefix}{key}.")


def _first_line(error: BaseException) -> str:
    """Return the first line of an error, and the second if the first ends with a colon.

    An error without a text, such as Hydra raises from one of OmegaConf, has that of its cause.
    """
    while not str(error).strip() and error.__cause__:
        error = error.__cause__
    first, second, *_ = [*filter(None, map(str.strip, str(error).splitlines())), "", ""]
    return f"{first} {second}".rstrip() if first.endswith(":") else first or type(error).__name__


def _valid_names(overrides: Sequence[str]) -> list[str]:
    """Return the names of all settings under the choices of groups among some overrides."""
    choices = [text for text in overrides if re.fullmatch(r"(dataset|reducer|kmeans|runner|grid)=\w+", text)]
    with _hydra():
        return list(_keys(hydra.compose("config", overrides=choices)))


def _user_error(error: Exception, overrides: Sequence[str]) -> UserError:
    """Return an error of Hydra or OmegaConf as a sentence; the overrides are the command's."""
    if isinstance(error, OverrideParseException):
        return UserError(
            f"{error.override!r} cannot be read as a setting; write name=value, a list as 'r_grid=[5,10,20]', quoted"
        )
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, name = error.missing_cfg_file.rpartition("/")
        return unknown_choice(group, name, error.options or ())
    if not isinstance(error, HydraException | OmegaConfBaseException):
        is_file = isinstance(error, yaml.YAMLError | UnicodeDecodeError)
        what = "a configuration file" if is_file else shown(list(overrides))
        return UserError(f"{what} cannot be read ({' '.join(str(error).split())}); fix it")
    # Hydra's errors differ in their texts only. If another version words one differently, its first line is shown.
    named = re.search(
        r"Could not override '([^']+)'|No match in the defaults list\. To append.*?'\+?([^'=@]+)", str(error)
    )
    if named:
        within = re.search(r"not in struct\s+full_key: (\S+)", str(error.__cause__))  # of NAME={KEY:VALUE}
        names = _valid_names(overrides)
        key = within[1] if within and within[1].rpartition(".")[0] in names else named[1] or named[2]
        siblings = [name for name in names if name.rpartition(".")[0] == key.rpartition(".")[0]]
        return unknown_key(key, overrides, siblings or names)
    text = _first_line(error)
    if merged := re.match(r"Error merging override ([\w.]+)=", text):
        inner = [name for name in _valid_names(overrides) if name.rpartition(".")[0] == merged[1]]
        if inner:
            return UserError(f"{merged[1]} is a group of settings; set one of them: {', '.join(inner)}")
    if missing := re.match(r"Interpolation key '([^']+)' not found", str(error)):
        setting = next((shown(given) for given in overrides if "${" in given and missing[1] in given), "a setting")
        text = f"{setting} refers to {shown(missing[1])}, which is not a setting; name one"
    elif several := re.match(r"Ambiguous value for argument '(.*)'$", text):
        name, _, value = several[1].partition("=")
        text = f"{name} = {value} has several values; add -m to run each: kmdr -m {shlex.quote(several[1])}"
    return UserError(text)


@contextmanager
def _explained(overrides: Sequence[str]) -> Iterator[None]:
    """Turn errors that Hydra raises, about configurations and its output folder, into `UserError`."""
    try:
        yield
    except (HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError, RecursionError) as error:
        GlobalHydra.instance().clear()
        raise _user_error(error, overrides) from error
    except (AttributeError, KeyError, RuntimeError, TypeError) as error:  # Hydra raises these for its own settings
        GlobalHydra.instance().clear()
        of_hydra = [override for override in overrides if override.lstrip("+~").startswith("hydra")]
        if not of_hydra:
            raise
        raise UserError(f"{shown(of_hydra)} cannot be used ({_first_line(error)}); remove it") from error
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}; name another folder with out=…") from error


# -- from overrides and studies to plain configurations --------------------------------------------------------------


def _hydra() -> AbstractContextManager[Any]:
    """Return a context in which Hydra composes: that of the running command, if it is one of Hydra's."""
    source.register()
    tell_unread_files()
    if GlobalHydra.instance().is_initialized():
        return nullcontext()
    return hydra.initialize_config_dir(str(CONF), version_base="1.3")


def compose_configs(*overrides: str) -> list[Config]:
    """Return the configurations of some overrides, which differ only in dataset and reducer."""
    overrides = tuple(map(as_override, overrides))
    with _explained(overrides), _hydra():
        return _expanded(plain(hydra.compose("config", overrides=list(overrides))), overrides)


def compose_dataset(*overrides: str) -> tuple[str, dict[str, Any]]:
    """Return name and options of the dataset that some overrides describe; none of them names a study."""
    (config,) = compose_configs(*overrides)
    options = {str(name): value for name, value in config["dataset"].items()}
    return str(options.pop("name")), options


def _expanded(config: Config, overrides: Sequence[str]) -> list[Config]:
    """Return one composed configuration, or the configurations of all pairs of a study."""
    return [config] if config.get("study") is None else pairs(config, overrides)


@cache
def _base(overrides: tuple[str, ...], files: tuple[tuple[Path, int], ...]) -> DictConfig:
    """Return the composition of some choices of groups, whose files last changed at these times."""
    del files
    with _explained(overrides), _hydra():
        config = hydra.compose("config", overrides=list(overrides))
    OmegaConf.set_struct(config, False)
    return config


def _group_files() -> tuple[tuple[Path, int], ...]:
    files = [CONF / "config.yaml", *(file for group in _GROUPS for file in config_files(group).values())]
    return tuple((file, file.stat().st_ctime_ns) for file in files)


def _composed(file: Path, out: str, files: tuple[tuple[Path, int], ...], seed: int | None = None) -> Config:
    """Return the configuration of a study: Hydra composes the groups of its defaults list once for all studies."""
    study = load_study(file)
    overrides = tuple(_group_choices(study.pop("defaults", None) or [], file))
    settings = {"out": out} | ({} if seed is None else {"seed": seed})
    try:
        base = _base(overrides, files)
        for name in study:
            if name not in base:
                raise unknown("setting", name, map(str, base))
        return plain(OmegaConf.merge(base, study, settings))
    except (UserError, OmegaConfBaseException) as error:
        raise UserError(f"{file} cannot be read ({' '.join(str(error).split())}); fix it") from error


def _group_choices(defaults: Sequence[Any], file: Path) -> Iterator[str]:
    """Yield the choices in the defaults list of a study as overrides."""
    for item in defaults:
        if item == "_self_":
            continue
        target, name = next(iter(item.items())) if isinstance(item, dict) and len(item) == 1 else (item, None)
        group = str(target).removeprefix("override ").lstrip("/")
        if group in _GROUPS:
            yield f"{group}={name}"
        elif not group.startswith("hydra/"):
            raise UserError(f"{file} has {shown(item)} among its defaults; write 'override /GROUP: NAME'")


def composed_studies(out: str, seed: int | None = None) -> dict[str, Config]:
    """Return the configuration of each study by name, with the results folder ``out`` and, if given, another seed."""
    files = _group_files()
    return {name: _composed(file, out, files, seed) for name, file in sorted(config_files("study").items())}


def compose_study_configs(out: str, seed: int | None = None) -> dict[str, list[Config]]:
    """Return the configurations of each study that runs without being named, by its name."""
    named_only = on_request()
    configs = {}
    for name, config in composed_studies(out, seed).items():
        if name not in named_only:
            with naming_study(name):
                configs[name] = _expanded(config, [])
    return configs


def study_configs(study: str) -> list[Config]:
    """Return one configuration per dataset and reducer of a study; an empty list if the study does not exist."""
    file = config_files("study").get(study)
    with naming_study(study):
        return [] if file is None else pairs(_composed(file, "results", _group_files()))


# -- from a command line to jobs -------------------------------------------------------------------------------------


def _check_sweep(arguments: Sequence[str]) -> None:
    """Raise `UserError` for a sweep that is empty or too long, before anything is composed."""
    count = 1
    for argument in arguments:
        if argument.startswith("-") or not re.search(r"=.*[,(]", argument):
            continue
        try:
            override = OverridesParser.create().parse_override(argument)
        except (HydraException, ValueError):
            return  # Hydra reports it
        if not override.is_sweep_override():
            continue
        value: Any = override.value()
        if isinstance(value, Glob):
            group = override.key_or_group
            size = len(value.filter(list(datasets.names() if group == "dataset" else config_files(group))))
        elif isinstance(value, RangeSweep):
            start, stop, step = map(float, (value.start or 0, value.stop or 0, value.step or 1))
            size = max(0, math.ceil((stop - start) / step)) if math.isfinite(stop - start) else _MOST_JOBS + 1
        else:
            size = len(value.list) if isinstance(value, ChoiceSweep) else 1
        if not size:
            raise UserError(f"{argument!r} matches nothing; 'kmdr list' shows the available names")
        count *= size
    if count > _MOST_JOBS:
        raise UserError(
            f"the sweep has {counted(count, 'job')}, more than {_MOST_JOBS}; sweep over less, or in several commands"
        )


@contextmanager
def _no_multirun_file() -> Iterator[None]:
    """Keep Hydra's sweeper from writing ``OUT/multirun.yaml``, which would state the folders of the user's data."""
    original = OmegaConf.save

    def save(config: Any, f: Any, resolve: bool = False) -> None:
        if Path(f).name != "multirun.yaml":
            original(config, f, resolve)

    OmegaConf.save = staticmethod(save)  # type: ignore[method-assign]
    try:
        yield
    finally:
        OmegaConf.save = staticmethod(original)  # type: ignore[method-assign]


def configs_of_command_line(check: Callable[[list[Config]], T], launch: Callable[[T], object]) -> list[T]:
    """Return the jobs of ``sys.argv``: one, or all jobs of a sweep.

    `check` makes a job of configurations that differ only in dataset and reducer. A sweep in this process is collected
    and run as one, so that every value is checked before any work starts and all workers are busy to the end. Under
    another Hydra launcher, `launch` runs each job where the launcher starts it.
    """
    jobs: list[T] = []
    mistakes: list[Exception] = []

    def collect(config: DictConfig) -> None:
        run = HydraConfig.get()
        is_pattern = any(text.startswith("reducer=glob(") for text in sys.argv)
        if is_pattern and config.reducer.name == "outside" and not config.reducer.path:
            return  # a pattern stands for the reducers that have a name
        launched = str(run.mode) == "RunMode.MULTIRUN" and not run.launcher._target_.endswith("BasicLauncher")
        try:
            job = check(_expanded(plain(config), list(run.overrides.task)))
        except Exception as error:
            if launched:
                raise
            mistakes.append(error)  # raised after Hydra returned, which would print a traceback of its own
            return
        if launched:
            launch(job)
        else:
            jobs.append(job)

    sys.argv = [as_override(argument) for argument in sys.argv]
    source.register()
    tell_unread_files()
    with _explained(sys.argv[1:]):
        sys.argv[1:] = checked_arguments(sys.argv[1:])
        _check_sweep(sys.argv[1:])
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises errors instead of printing them
    with _explained(sys.argv[1:]), _no_multirun_file():
        hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(collect)()
        if mistakes:
            raise mistakes[0]
    return jobs
