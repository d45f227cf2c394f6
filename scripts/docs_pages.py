"""Write the pages of the documentation that are made from code: ``python scripts/docs_pages.py FOLDER``.

The build of the documentation calls `write_pages`; the pages are not committed.
"""

import argparse
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType

import pandas as pd

import kmdr
from kmdr import api as functions
from kmdr import reducers
from kmdr.base.paths import CHECKOUT, CONF
from kmdr.claims.catalogue import papers
from kmdr.cli import help as usage
from kmdr.cli.arguments import COMMANDS, Command
from kmdr.config.studies import studies
from kmdr.datasets import registry
from kmdr.results import dictionary

# What a plugin imports, by the module that it imports from.
PLUGIN_INTERFACE: Mapping[str, Sequence[str]] = {
    "kmdr.reducers.base": ("Reducer", "register"),
    "kmdr.clustering.engines": ("engine", "takes_arguments"),
    "kmdr.metrics": ("metric", "accuracy", "objective"),
    "kmdr.datasets": ("Dataset", "from_arrays", "load", "names"),
    "kmdr.datasets.sources.loaders": ("loader",),
    "kmdr.claims.catalogue": ("figure", "table", "claim", "fact"),
}


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; bars inside cells are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _command(command: Command) -> Iterator[str]:
    """Yield the parts of a command's section: its summary, its usage, and a table of its arguments."""
    parser = command.parser()
    yield f"## kmdr {command.name}\n\n{command.summary} {command.details}".rstrip()
    yield f"```text\n{' '.join(parser.format_usage().removeprefix('usage: ').split())}\n```"
    rows = []
    for action in parser._actions:
        value = action.metavar if isinstance(action.metavar, str) and action.nargs != 0 else ""
        value = value or ("" if action.nargs == 0 else action.dest.upper())
        names = ", ".join(f"{name} {value}".rstrip() for name in action.option_strings) or value
        rows.append((_code(names), action.help or ""))
    if rows:
        yield markdown_table(("argument", "meaning"), rows)


def command_line() -> str:
    """Return the page of all commands, from their parsers."""
    parts = [
        "# Command line",
        "Every command is listed with its arguments. An option such as `--out DIR` may also be written `out=DIR`. A "
        "wrong name or value is answered with one sentence and the nearest valid name, before any work starts.",
        markdown_table(
            ("command", "purpose"),
            [(f"[`kmdr {name}`](#kmdr-{name})", command.summary) for name, command in COMMANDS.items()],
        ),
        "## Runs",
        "Without a command, `kmdr` runs its settings. [Configuration](configuration.md) lists them all.",
        markdown_table(("example", "purpose"), [(_code(line), text) for line, text in usage._RUNS]),
        "## Options of every command",
        markdown_table(("option", "meaning"), [(_code(name), text) for name, text in usage._OPTIONS]),
        "## Exit status",
        "0 for success; 1 if a trial failed or a file was not as expected; 2 for a mistake in the request; 130, 143 or "
        "129 if INT, TERM or HUP interrupted the command.",
    ]
    for command in COMMANDS.values():
        parts += _command(command)
    return "\n\n".join(parts) + "\n"


def _settings_table(settings: Sequence[tuple[str, str, str]]) -> str:
    return markdown_table(("setting", "default", "meaning"), [(_code(n), _code(v), text) for n, v, text in settings])


def configuration() -> str:
    """Return the page of all settings, from the files in ``conf`` and the registry of datasets."""
    parts = [
        "# Configuration",
        "A run is described by settings `NAME=VALUE` on the command line. `dataset`, `reducer`, `grid`, `kmeans`, "
        "`runner` and `study` name a file in `conf/` (or a paper's folder) that sets several at once. "
        "`kmdr -m` runs every combination of comma-separated values. `kmdr … --cfg job` shows the resulting settings "
        "without running anything.",
        "## Settings of every run",
    ]
    general = [s for s in usage._settings_in(CONF / "config.yaml") if not s[0].startswith(("defaults", "hydra"))]
    parts.append(_settings_table(general))
    for group in ("dataset", "reducer", "grid", "kmeans", "runner"):
        parts.append(f"## {group}")
        parts.append(f"Default: `{group}={usage._defaults()[group]}`.")
        for name in usage._names(group):
            parts.append(f"### {group}={name}")
            parts.append(_escaped(usage._summary(group, name)))
            if settings := usage._settings(group, name):
                parts.append(_settings_table(settings))
    parts.append("## study")
    parts.append("A study names its own datasets, reducers, grid and protocol. `kmdr study=NAME --help` describes one.")
    rows = [(_code(s["name"]), s["title"], ", ".join(s["datasets"]), ", ".join(s["reducers"])) for s in studies()]
    parts.append(markdown_table(("study", "title", "datasets", "reducers"), rows))
    return "\n\n".join(part for part in parts if part) + "\n"


def _escaped(text: str) -> str:
    """Return text in which Markdown shows signs such as ``_`` and ``*`` as they are; code keeps its marks."""
    pieces = text.replace("``", "`").split("`")
    for index in range(0, len(pieces), 2):
        for sign in "\\*_[]<>":
            pieces[index] = pieces[index].replace(sign, "\\" + sign)
    return "`".join(pieces)


def datasets() -> str:
    """Return the page that states how to get each registered dataset."""
    parts = [
        "# Get each dataset",
        "`kmdr data get NAME` downloads a dataset, checks its SHA-256 and prepares it. A study gets the datasets that "
        "it needs in the same way. Datasets that cannot be downloaded are reported and skipped. `kmdr data where NAME` "
        "states where to put a file that you downloaded yourself; kmdr also searches the folders in `KMDR_DATA`.",
    ]
    rows = []
    details = []
    for name in registry.names():
        entry = registry.entry(name)
        if name == "file":
            continue
        downloads = any(source.kind != "local" for source in entry.sources)
        way = (
            "download" if downloads
            else "manual download" if entry.sources or entry.needs_path
            else "nothing to do"
        )  # fmt: skip
        rows.append((f"[`{name}`](#{name.replace('_', '-')})", entry.shape, way, ", ".join(entry.papers)))
        facts = [
            ("shape", entry.shape),
            ("used by", ", ".join(entry.papers)),
            ("sources", "; ".join(_escaped(str(source)) for source in entry.sources)),
            ("home", entry.home),
            ("licence", entry.licence),
            ("cite", entry.citation),
            ("stand-in", entry.stand_in),
        ]
        command = {
            "download": f"kmdr data get {name}",
            "manual download": f"kmdr data where {name}",
            "nothing to do": f"kmdr dataset={name}",
        }[way]
        details += [
            f"({name.replace('_', '-')})=\n## {_escaped(name)}",
            f"{_escaped(entry.title)}. Command: `{command}`.",
            markdown_table(("", ""), [(what, text) for what, text in facts if text]),
        ]
    parts.append(markdown_table(("dataset", "points x features, classes", "how", "papers"), rows))
    parts.append("For a file of your own see [Cluster your own data](../howto/own-data.md).")
    return "\n\n".join(parts + details) + "\n"


def paper_summaries() -> str:
    """Return the page about the papers: their proposals and the studies that rerun them."""
    parts = [
        "# What each paper did",
        "kmdr reruns these papers. Each section has the proposal, the parts that could be rerun, and the studies. "
        "The report compares the published numbers with ours and tests each claim.",
    ]
    for paper in papers():
        heading = paper.summary.short or paper.title
        title = f"[{paper.title}]({paper.url})" if paper.url else paper.title
        parts.append(f"## {paper.name}: {heading[:1].lower()}{heading[1:]}")
        parts.append(f"{paper.authors}: {title}. {paper.venue}.")
        parts += [_escaped(line.text if hasattr(line, "text") else str(line)) for line in paper.summary.scope]
        named = [s for s in studies() if s.get("paper") == paper.name and not s["name"].startswith("flip_")]
        rows = [(_code(s["name"]), s["title"], ", ".join(s["datasets"])) for s in named]
        if rows:
            parts.append(markdown_table(("study", "title", "datasets"), rows))
    return "\n\n".join(parts) + "\n"


def bench() -> str:
    """Return the table of the committed bench: the range of our time over that of each contender."""
    cases = pd.read_csv(CHECKOUT / "results" / "reference" / "bench.csv")
    cases = cases[~cases["contender"].str.contains("^ours|calibration")].dropna(subset="ratio_to_ours")
    cases["ratio"] = 1 / cases["ratio_to_ours"]
    groups = cases.groupby(["kernel", "threads", "contender"], sort=False)["ratio"].agg(["size", "min", "max"])
    rows = [
        (_code(str(kernel)), str(contender), str(threads), str(size), f"{low:.2f}", f"{high:.2f}")
        for (kernel, threads, contender), size, low, high in groups.itertuples()
    ]
    return markdown_table(("kernel", "contender", "threads", "sizes", "smallest ratio", "largest ratio"), rows) + "\n"


def _directives(module: ModuleType, names: Sequence[str], *, methods: bool = True) -> Iterator[str]:
    """Yield the directives that document functions and classes, classes with their methods or without."""
    for name in names:
        is_class = inspect.isclass(getattr(module, name))
        option = "\n   :members:" if is_class and methods else ""
        yield f"```{{eval-rst}}\n.. {'autoclass' if is_class else 'autofunction'}:: {name}{option}\n```"


def api() -> str:
    """Return the page of the functions that ``import kmdr`` offers."""
    names = [name for name in kmdr.__all__ if name != "__version__"]
    rows = [(f"[`kmdr.{name}`](#kmdr.{name})", _first_line(getattr(functions, name))) for name in names]
    parts = [
        "# Python API",
        "`import kmdr` offers these functions and classes. [Reducers](reducers.md) are scikit-learn transformers, and "
        "[Plugin interface](plugins.md) lists the decorators for extensions.",
        markdown_table(("name", "purpose"), rows),
    ]
    parts.append("```{eval-rst}\n.. currentmodule:: kmdr\n```")
    return "\n\n".join([*parts, *_directives(functions, names)]) + "\n"


def _first_line(thing: object) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0].replace("``", "`")


def reducer_classes() -> str:
    """Return the page of the reducers' classes."""
    classes = [getattr(reducers, name) for name in reducers.__all__ if inspect.isclass(getattr(reducers, name))]
    classes = [cls for cls in classes if cls is not reducers.Reducer]
    rows = [
        (f"[`{c.__name__}`](#kmdr.reducers.{c.__name__})", _code(c.name), _escaped(_first_line(c))) for c in classes
    ]
    parts = [
        "# Reducers",
        "Each class is a scikit-learn transformer. `fit` prepares and draws the map, `transform` applies it. The name "
        "in the second column selects it in configurations and in `kmdr.compare`. None of the rerun papers has the "
        "methods marked *extra*.",
        markdown_table(("class", "name", "map"), rows),
        "```{eval-rst}\n.. currentmodule:: kmdr.reducers\n```",
    ]
    return "\n\n".join([*parts, *_directives(reducers, [cls.__name__ for cls in classes], methods=False)]) + "\n"


def plugin_interface() -> str:
    """Return the page of the decorators and classes that plugins use."""
    parts = [
        "# Plugin interface",
        "A plugin is a folder with the layout of kmdr, named by `KMDR_PATH`. `kmdr new KIND NAME` writes a skeleton "
        "that runs. These are the classes and decorators that it imports.",
    ]
    for module, names in PLUGIN_INTERFACE.items():
        parts.append(f"## {module}")
        parts.append(f"```{{eval-rst}}\n.. currentmodule:: {module}\n```")
        parts += _directives(importlib.import_module(module), names)
    return "\n\n".join(parts) + "\n"


PAGES: Mapping[str, Callable[[], str]] = {
    "api": api,
    "bench-table": bench,
    "command-line": command_line,
    "configuration": configuration,
    "datasets": datasets,
    "papers": paper_summaries,
    "plugins": plugin_interface,
    "reducers": reducer_classes,
    "rows": dictionary.text,
}


def write_pages(folder: Path) -> None:
    """Write all pages into a folder; a page that did not change keeps its time, so that it is not built again."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in PAGES.items():
        page, text = folder / f"{name}.md", make()
        if not page.exists() or page.read_text("utf-8") != text:
            page.write_text(text, "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    write_pages(parser.parse_args().folder)
