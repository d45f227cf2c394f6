"""``kmdr --help`` and ``kmdr help``: every command, every setting with its comment, and every choice."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kmdr import datasets, reducers
from kmdr.base.paths import CONF
from kmdr.base.text import aligned
from kmdr.config.studies import config_files, study_names
from kmdr.datasets import registry
from kmdr.datasets.options import TEXTS
from kmdr.datasets.sources.loaders import all_loaders

_ROWS = "raw, or unit: each row scaled to length 1"
OPTIONS = (
    ("-m, --multirun", "run each of several values: kmdr -m reducer=none,svd 'r_grid=[5,10]' seed=0,1"),
    ("-q, --quiet", "say only what went wrong"),
    ("-v, --verbose", "say each task that is done, and every line of tables"),
    ("--refresh", "make rows again that were made by other code than today's"),
    ("--cfg job", "show the settings of this command and run nothing"),
    ("--config-dir DIR", "read more configurations from a folder"),
    ("--version", "say the version"),
)


def _first_line(command: Callable[..., Any]) -> tuple[str, str]:
    """Return how a command is used, and what it does."""
    usage, _, what = (inspect.getdoc(command) or "").partition("\n")[0].replace("``", "").partition(": ")
    return usage, what


def commands(known: Mapping[str, Callable[..., Any]]) -> str:
    """Return each command with what it does."""
    lines = [f"{usage}\n    {what}" for usage, what in map(_first_line, known.values())]
    more = "run what settings say; 'kmdr --help' shows them all, 'kmdr -m' sweeps over lists."
    return "\n".join([*lines, f"kmdr SETTING=VALUE …\n    {more}"])


def of_command(command: Callable[..., Any]) -> str:
    """Return what ``kmdr COMMAND --help`` says."""
    usage, what = _first_line(command)
    return f"{usage}\n    {what}"


def _settings_in(file: Path) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and comment of the settings of a configuration that stand alone on their line."""
    for line in file.read_text("utf-8").splitlines():
        if match := re.fullmatch(r"( *)(\w+): ([^#]*?)(?:\s+# (.*))?", line):
            yield match[1] + match[2], match[3], match[4] or ""


def _of_config() -> Iterator[tuple[str, str, str]]:
    """Yield the settings of no group, and those that every protocol has."""
    group = ""
    for line in (CONF / "config.yaml").read_text("utf-8").splitlines():
        if heading := re.match(r"(\w+):(?: #.*)?$", line):
            group = heading[1]
        elif match := re.fullmatch(r"( *)(\w+): ([^#]*?)(?:\s+# (.*))?", line):
            group = group if match[1] else ""
            if group in ("", "kmeans") and match[2] != "study":
                yield f"{group}.{match[2]}" if group else match[2], match[3], match[4] or ""


def _of_group(group: str, name: str) -> list[tuple[str, str, str]]:
    """Return the settings of one choice of a group; where its file has no comments, with those of the usual choice."""
    if group == "dataset":
        return _of_dataset(name)
    files = config_files(group)
    if name not in files:  # a reducer that a guest brings without a file
        settings = reducers.settings(name) if group == "reducer" and name in reducers.names() else {}
        return [(f"reducer.{key}", str(value), "") for key, value in settings.items()]
    usual = {key: comment for key, _, comment in _settings_in(files[_usual()[group]])}
    prefix = "" if group == "grid" else f"{group}."
    return [
        (f"{prefix}{key}", value, comment or usual.get(key, ""))
        for key, value, comment in _settings_in(files[name])
        if key != "name"
    ]


def _of_dataset(name: str) -> list[tuple[str, str, str]]:
    entry = registry.entry(name)
    texts = _parameters(inspect.getdoc(all_loaders()[entry.format]) or "")
    comments = {"rows": _ROWS, **texts, **(TEXTS if entry.format == "file" else {})}
    return [(f"dataset.{key}", str(value), comments.get(key, "")) for key, value in entry.offered.items()]


def _parameters(doc: str) -> dict[str, str]:
    """Return what the section Parameters of a numpydoc docstring says of each."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w[^\n]*\n-+\n|\Z)", doc, re.MULTILINE | re.DOTALL)
    told: dict[str, str] = {}
    for names, text in re.findall(r"^(\w[\w, ]*) : .*\n((?:    .*\n?)+)", section[1] if section else "", re.MULTILINE):
        told |= dict.fromkeys(names.split(", "), " ".join(text.replace("``", "").split()))
    return told


def _usual() -> dict[str, str]:
    """Return the choice of each group where none is named."""
    defaults = re.findall(r"^  - (\w+): (\w+)", (CONF / "config.yaml").read_text("utf-8"), re.MULTILINE)
    return {group: name for group, name in defaults if name != "null"}


def _names_of(group: str) -> list[str]:
    return list(datasets.names()) if group == "dataset" else sorted({*config_files(group), *_brought(group)})


def _brought(group: str) -> Sequence[str]:
    return list(reducers.names()) if group == "reducer" else []


def everything(known: Mapping[str, Callable[..., Any]], arguments: Sequence[str]) -> str:
    """Return what ``kmdr --help`` says: commands, options, choices and settings, those of the groups that are named.

    Parameters
    ----------
    known : mapping of str to callable
        The commands.
    arguments : sequence of str
        Of the command line: ``reducer=svd`` asks for the settings of that.
    """
    named = dict(text.split("=", 1) for text in arguments if re.fullmatch(r"\w+=\w+", text))
    chosen = {group: named.get(group, name) for group, name in _usual().items()}
    chosen = {group: name if name in _names_of(group) else _usual()[group] for group, name in chosen.items()}
    parts = [
        "kmdr: dimensionality reduction before k-means, measured as five papers measured it.",
        "\n== Commands ('kmdr COMMAND --help' says one alone) ==",
        *aligned([_first_line(command) for command in known.values()]),
        "\n== Runs ==",
        *aligned([
            ("kmdr dataset=digits reducer=random_sign 'r_grid=[5,10,20]'", "one method at three r"),
            ("kmdr -m dataset=digits reducer=none,svd,leverage", "several beside each other"),
            ("kmdr study=bzmd15_fig1", "a study of a paper, and its figure"),
            ("kmdr dataset=file dataset.path=my.csv reducer=svd reducer.rank=r", "data of your own"),
        ]),
        "\n== Options, anywhere on the line ==",
        *aligned(OPTIONS),
        "\n== Choices ==",
        *aligned([(f"{group}=", ", ".join(_names_of(group))) for group in chosen]),
        *aligned([("study=", ", ".join(study_names()))]),
        "\n== Settings, as they are where nothing is said ==",
        *_lines(list(_of_config())),
    ]  # fmt: skip
    for group, name in chosen.items():
        settings = _of_group(group, name)
        if settings:
            parts += [f"\n== of {group}={name} ==", *_lines(settings)]
    return "\n".join(parts)


def _lines(settings: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    """Yield a line a setting; a long value does not move the comments of all."""
    shown = [(name, value if len(value) <= 24 else f"{value[:23]}…", text) for name, value, text in settings]
    return aligned([(f"{name}={value}", text) for name, value, text in shown])
