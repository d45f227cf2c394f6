"""Arguments of a run as Hydra takes them, checked before the modules that runs need are imported."""

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import yaml
from hydra._internal.utils import get_args_parser

from kmdr.base.errors import UserError, shown
from kmdr.base.plugins import plugin_roots
from kmdr.base.text import counted, quoted, tell
from kmdr.config.studies import MOST_BYTES, check_yaml, config_files
from kmdr.config.suggestions import (
    check_words,
    is_import_path,
    setting_names,
    unknown_choice,
    unknown_setting,
    values_of_sweep,
)

# Settings whose names belong to another package, so no configuration file lists them.
_FREE = ("reducer.args.", "kmeans.args.", "runner.options.")
# Settings whose values are names of configurations.
_GROUPS = ("dataset", "reducer", "grid", "kmeans", "runner", "study")


def as_override(argument: str) -> str:
    """Return an argument as Hydra takes it: ``--refresh``, a separator, a path, or a setting of another package.

    Separators and paths are quoted, because Hydra would read a comma as a list and 1e3 as a number, and refuse ~ and é.
    A path stays as it is if it begins with Hydra's syntax, or has a backslash, an interpolation, or more than one part,
    unless there is a file of this name.
    """
    if argument == "--refresh":
        return "refresh=true"
    if separator := re.fullmatch(r"(dataset\.(?:decimal|separator)=)([,;| ]|\t|\\t)", argument):
        return f"{separator[1]}'{separator[2]}'"
    named = re.fullmatch(r"(dataset\.(?:path|labels)=)(?!null$)(.+)", argument, re.DOTALL)
    if named and _is_path(named[2]):
        return f"{named[1]}{quoted(named[2])}"
    path = re.fullmatch(r"((?:dataset\.(?:path|labels)|out)=)(?!null$)([^\[\"'{$\\][^\\]*)", argument)
    several = path and ("," in path[2]) and re.search(r"[\[\"'{]|^[\w./~+,-]*$", path[2], re.ASCII)
    if path and not several and "${" not in path[2]:
        return f"{path[1]}{quoted(path[2])}"
    return f"++{argument}" if argument.startswith(_FREE) else argument


def _is_path(text: str) -> bool:
    """Return whether a text is the path of a file, perhaps with a column."""
    with suppress(OSError, ValueError, RuntimeError):  # such as a name that is too long
        return any(name and Path(name).expanduser().exists() for name in (text, text.rpartition(":")[0]))
    return False


def _parsed(arguments: Sequence[str]) -> Any:
    """Return Hydra's options and the overrides; Hydra itself would answer a mistake with its usage."""
    parser = get_args_parser()

    def refuse(message: str) -> NoReturn:
        raise UserError(f"{message}; 'kmdr --help' lists the options and settings")

    parser.error = refuse  # type: ignore[method-assign]
    return parser.parse_intermixed_args(arguments)


def _choices(group: str) -> Sequence[str] | None:
    """Return the names of the configurations of a group; None if plugins have to be imported to list them."""
    if group == "dataset":
        from kmdr.datasets import registry

        return sorted(registry.names())
    if group == "reducer" and any(root.files("reducers", "*.py") for root in plugin_roots()):
        return None
    return sorted(config_files(group))


def _check_choices(group: str, names: Sequence[str]) -> None:
    """Raise `UserError` if no configuration of a group has one of these names."""
    choices = _choices(group)
    for name in names:
        if name == "null":
            raise UserError(f"{group} = null names no configuration; remove it, or choose one that 'kmdr --help' lists")
        is_path = group == "reducer" and is_import_path(name)
        if choices is not None and name not in choices and not is_path:
            raise unknown_choice(group, name, choices)


def check_names(arguments: Sequence[str]) -> None:
    """Raise `UserError` for an unknown option, an unknown first word of a setting, or an unknown choice."""
    known = setting_names()
    check_words(arguments, known)
    options = _parsed([as_override(argument) for argument in arguments])
    if options.config_dir or options.config_name:  # which may bring settings of their own
        return
    for override in options.overrides:
        name = re.match(r"[~+]*(\w+)(?=[\w./@]*=)", override)
        if name and name[1] not in known:
            raise unknown_setting(override, name[1], known, options.overrides)
    if any(override.lstrip("+").startswith("hydra.searchpath=") for override in options.overrides):
        return  # it adds folders with further choices
    for override in options.overrides:
        group, _, value = override.partition("=")
        if group in _GROUPS:
            _check_choices(group, values_of_sweep(value))


def _warn_of_repeated(settings: Sequence[str]) -> None:
    """Report each setting with several values, of which Hydra takes the last; it merges groups in braces."""
    values: dict[str, list[str]] = {}
    for setting in settings:
        name, _, value = setting.lstrip("+").partition("=")
        if not name.startswith("~"):
            values.setdefault(name, []).append(value)
    for name, given in values.items():
        if len({*given}) > 1 and not any(value.startswith("{") for value in given):
            tell(
                f"kmdr: warning: {name} is set {counted(len(given), 'time')}; only the last value counts, "
                f"{shown(given[-1])}; remove the others, or run several values by kmdr -m {name}=VALUE,VALUE"
            )


def checked_arguments(arguments: Sequence[str]) -> list[str]:
    """Return arguments in the order that Hydra takes: its options, which may stand anywhere, before the settings.

    A setting with several values is reported. Arguments that Hydra would answer with its usage, load from a pickle,
    read without end, or ignore are refused.
    """
    options = _parsed(arguments)
    if options.experimental_rerun:
        raise UserError("--experimental-rerun loads a pickle, which can run any code; repeat the command itself")
    settings = list(options.overrides)
    _warn_of_repeated(settings)
    ordered = [text for text in arguments if text not in settings] + settings
    if options.config_dir is None:
        return ordered
    folder = Path(options.config_dir)
    if options.config_name is None and (folder / "config.yaml").exists():
        raise UserError(
            f"{folder / 'config.yaml'} would not be read, because kmdr's own comes first; give it another name, "
            "and pass that name with --config-name"
        )
    for file in [*folder.glob("*.yaml"), *folder.glob("*/*.yaml")]:
        _check_yaml(file)
    return ordered


def _check_yaml(file: Path) -> None:
    """Raise `UserError` for a configuration that is not a regular file, or that `check_yaml` refuses.

    Errors of syntax are left to Hydra.
    """
    if not file.is_file() or file.stat().st_size > MOST_BYTES:
        raise UserError(f"{file} is not a file of at most {MOST_BYTES} bytes; remove it from the folder")
    with suppress(yaml.YAMLError, UnicodeDecodeError):
        check_yaml(file, file.read_text("utf-8"))
