"""``kmdr --help`` and ``kmdr help``: the commands, and every setting of a run with its comment."""

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import yaml

from kmdr.base.errors import unknown
from kmdr.base.paths import CONF
from kmdr.base.process import version
from kmdr.base.text import two_columns, wrapped
from kmdr.cli.arguments import COMMANDS
from kmdr.config.studies import config_files, read_study
from kmdr.config.suggestions import is_import_path

_TITLE = "dimensionality reduction before k-means, measured as published papers measured it"
_FIRST_STEPS = (
    ("kmdr demo", "begin here: real data, a table and a picture, in seconds"),
    ("kmdr list", "datasets, reducers, engines, metrics, papers, studies"),
    ("kmdr dataset=digits reducer=leverage", "run one method; kmdr --help shows every setting"),
    ("kmdr -m dataset=usps,orl reducer=none,leverage 'r_grid=[5,10,20]'", "compare several"),
    ("kmdr table results/runs", "show a table of what has been run; kmdr figures draws it"),
    ("kmdr reproduce bzd10 --budget 10m", "rerun a paper's experiments and write the report"),
    ("kmdr data where", "where data are stored, and how to get missing data"),
    ("kmdr new reducer NAME", "begin a method of your own (also dataset, metric, engine, paper)"),
    ("kmdr help", "every command"),
)
_RUNS = (
    ("kmdr dataset=digits reducer=random_sign 'r_grid=[5,10,20]'", "one method at three r"),
    ("kmdr -m dataset=digits reducer=none,svd,leverage", "several methods"),
    ("kmdr study=bzmd15_fig1", "a study of a paper, and its figure"),
    ("kmdr dataset=file dataset.path=my.csv reducer=svd", "your own data"),
)
_OPTIONS = (
    ("-m, --multirun", "run each of several values: kmdr -m reducer=none,svd 'r_grid=[5,10]' seed=0,1"),
    ("-q, --quiet", "report only what went wrong"),
    ("-v, --verbose", "report each finished task, and show every line of tables"),
    ("--refresh", "recompute rows that an earlier version of the code made"),
    ("--cfg job", "show the settings of this command and run nothing"),
    ("--config-dir DIR", "read more configurations from a folder"),
    ("--version", "show the version"),
)
_COMMON = {
    "rows": "raw; unit: each row scaled to length 1; tfidf: counts weighted by tf-idf, then unit",
    "scale": "columns: none, standard (mean 0, standard deviation 1), minmax (0 to 1)",
}


Setting = tuple[str, str, str]  # name, value and comment


def show_welcome() -> None:
    """Print what to do first."""
    print(wrapped(f"kmdr {version()}: {_TITLE}."), "", *two_columns(_FIRST_STEPS, "  "), sep="\n")


def run(command: str | None) -> None:
    """Print each command with its usage, or the help of one."""
    if command is not None:
        show([command])
        return
    for listed in COMMANDS.values():
        print(listed.parser().format_usage().removeprefix("usage: ").rstrip())
        print(wrapped(listed.summary, "    "))
    print("kmdr SETTING=VALUE …")
    print(wrapped("Run what settings ask for; 'kmdr --help' shows all, 'kmdr -m' runs several values.", "    "))


def show(arguments: Sequence[str]) -> None:
    """Print the help of a command, of a choice such as ``reducer=svd``, or else of everything."""
    words = [text for text in arguments if not text.startswith("-")]
    if words and "=" not in words[0]:
        if words[0] not in COMMANDS:
            raise unknown("command", words[0], COMMANDS)
        print(COMMANDS[words[0]].parser().format_help().removeprefix("usage: ").rstrip())
        return
    defaults = _defaults()
    choices = dict(text.split("=", 1) for text in words if text.partition("=")[0] in (*defaults, "study"))
    if is_import_path(choices.get("reducer", "")):
        choices["reducer"] = "outside"
    for group, name in choices.items():
        if name not in _names(group):
            raise unknown(group, name, _names(group))
        print(f"{group}={name}", wrapped(_summary(group, name)), "", *_lines(_settings(group, name)), sep="\n")
    if not choices:
        print(*_everything(defaults), sep="\n")


def _everything(defaults: Mapping[str, str]) -> Iterator[str]:
    yield wrapped(f"kmdr: {_TITLE}.")
    yield from ("", "== Commands ==", "'kmdr COMMAND --help' shows the arguments of one.")
    yield from two_columns([(f"kmdr {command.name}", command.summary) for command in COMMANDS.values()])
    yield from ("", "== Runs ==", *two_columns(_RUNS))
    yield from ("", "== Options, anywhere on the line ==", *two_columns(_OPTIONS))
    yield from ("", "== Choices ==", "'kmdr reducer=svd --help' shows the settings of one.")
    yield from two_columns([(f"{group}=", ", ".join(_names(group))) for group in (*defaults, "study")])
    hidden = ("defaults", "hydra", "study")
    settings = [setting for setting in _settings_in(CONF / "config.yaml") if not setting[0].startswith(hidden)]
    yield from ("", "== Settings, with their defaults ==", *_lines(settings))
    for group, name in defaults.items():
        if settings := _settings(group, name):
            yield from ("", f"== {group}={name} ==", *_lines(settings))


def _summary(group: str, name: str) -> str:
    if group == "dataset":
        from kmdr.datasets.registry import entry

        shape = f": {entry(name).shape}" if entry(name).n else ""
        return f"{entry(name).title}{shape}."
    if group == "study":
        study = read_study(name)
        return (
            f"{study['title']}. {study['note']} Datasets: {', '.join(study['datasets'])}. "
            f"Reducers: {', '.join(study['reducers'])}."
        )
    if group == "reducer" and name != "outside":
        from kmdr import reducers

        return reducers.summary(name)
    lines = config_files(group)[name].read_text("utf-8").splitlines()
    return " ".join(line[1:].strip() for line in lines if line.startswith("#") and "@package" not in line)


def choices_of_groups() -> dict[str, list[str]]:
    """Return the names that each group of settings can be set to."""
    return {group: _names(group) for group in (*_defaults(), "study")}


def _names(group: str) -> list[str]:
    if group == "dataset":
        from kmdr import datasets

        return list(datasets.names())
    if group == "reducer":
        from kmdr import reducers

        return sorted({*config_files(group), *reducers.names()})
    return sorted(config_files(group))


def _defaults() -> dict[str, str]:
    items = yaml.safe_load((CONF / "config.yaml").read_text("utf-8"))["defaults"]
    pairs = [pair for item in items if isinstance(item, dict) for pair in item.items()]
    return {group: name for group, name in pairs if name and not group.startswith("override ")}


def _settings(group: str, name: str) -> list[Setting]:
    """Return the settings of a choice; a setting without a comment gets that of the default choice."""
    if group == "dataset":
        return _dataset_settings(name)
    files = config_files(group)
    if name not in files:  # a reducer of a plugin without a file
        from kmdr import reducers

        return [(f"reducer.{key}", str(value), "") for key, value in reducers.settings(name).items()]
    usual = _defaults().get(group)
    comments = {key: comment for key, _, comment in _settings_in(files[usual])} if usual else {}
    prefix = "" if group in ("grid", "study") else f"{group}."
    return [
        (f"{prefix}{key}", value, comment or comments.get(key, ""))
        for key, value, comment in _settings_in(files[name])
        if key != "name" and not key.startswith(("study.", "defaults"))
    ]


def _settings_in(file: Path) -> list[Setting]:
    """Return the settings of a YAML file in the order of its lines, each with the comment at the end of its line."""
    text = file.read_text("utf-8")
    lines = text.splitlines()

    def flatten(node: yaml.Node, prefix: str) -> Iterator[Setting]:
        for key, value in node.value:
            if isinstance(value, yaml.MappingNode) and not value.flow_style:
                yield from flatten(value, f"{prefix}{key.value}.")
            elif isinstance(value, yaml.ScalarNode) or value.flow_style:
                end = value.end_mark
                comment = lines[end.line][end.column :].partition("#")[2].strip()
                yield f"{prefix}{key.value}", text[value.start_mark.index : end.index], comment

    return list(flatten(yaml.compose(text, yaml.SafeLoader), ""))


def _dataset_settings(name: str) -> list[Setting]:
    from kmdr.datasets import registry
    from kmdr.datasets.file_options import TEXTS
    from kmdr.datasets.sources.loaders import all_loaders

    entry = registry.entry(name)
    comments = {**_COMMON, **_parameters(inspect.getdoc(all_loaders()[entry.format]) or "")}
    if entry.format == "file":
        comments |= TEXTS
    return [(f"dataset.{key}", str(value), comments.get(key, "")) for key, value in entry.offered.items()]


def _parameters(doc: str) -> dict[str, str]:
    """Return the text of each parameter in a numpydoc docstring."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w[^\n]*\n-+\n|\Z)", doc, re.MULTILINE | re.DOTALL)
    texts: dict[str, str] = {}
    for names, text in re.findall(r"^(\w[\w, ]*) : .*\n((?:    .*\n?)+)", section[1] if section else "", re.MULTILINE):
        texts |= dict.fromkeys(names.split(", "), " ".join(text.replace("``", "").split()))
    return texts


def _lines(settings: Sequence[Setting]) -> Iterator[str]:
    """Yield a line for each setting, with long values truncated."""
    shown = [(name, value if len(value) <= 24 else f"{value[:23]}…", comment) for name, value, comment in settings]
    return two_columns([(f"{name}={value}", comment) for name, value, comment in shown])
