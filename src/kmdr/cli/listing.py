"""``kmdr list``: the available datasets, reducers, engines, metrics, papers and studies.

Built-in reducers, engines, metrics and papers are read without importing them, because scikit-learn and matplotlib take
a second. Plugins may register in any way, so they are imported if there are any.
"""

import ast
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import kmdr
from kmdr.base.errors import UserError
from kmdr.base.plugins import PaperFolder, origin_of, paper_folders, plugin_roots
from kmdr.base.process import report_mistakes
from kmdr.base.text import aligned, two_columns, wrapped
from kmdr.cli.arguments import LISTED

Row = tuple[str, ...]
# What the states of datasets mean to a user.
_STATES = {"prepared": "available", "cached": "available", "local": "available", "remote": "download"}
_IN_ATLAS = "*"
_NOTES = {
    "datasets": "*: in the collection atlas. Those marked manual need a file that you download yourself: "
    "'kmdr data where NAME' states which. More on one: kmdr dataset=NAME --help",
    "reducers": "More on one: kmdr reducer=NAME --help",
    "papers": "Rerun one, with its tables, figures and claims: kmdr reproduce NAME",
    "engines": "An engine is chosen by kmeans.engine=NAME.",
    "studies": "More on one: kmdr study=NAME --help",
}


def show(kinds: Sequence[str]) -> int:
    """Print one line per available thing of each kind; lines of plugins end with their name, version and hash.

    Invalid files are named on stderr after the valid ones, and the exit status is that of a mistake.
    """
    sections, errors = [], list[UserError]()
    for kind in kinds or LISTED:
        try:
            rows = _ROWS[kind]()
            errors += [row for row in rows if isinstance(row, UserError)]
            sections.append("\n".join(_section(kind, [row for row in rows if not isinstance(row, UserError)])))
        except UserError as error:
            errors.append(error)
    if sections:
        print("\n\n".join(sections))
    status = report_mistakes(errors)
    if not errors:
        from kmdr.config.studies import tell_unread_files

        tell_unread_files()
    return status


def _section(kind: str, rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of a kind; all columns but the last two, the text and the plugin, are aligned."""
    yield kind
    texts = ["; ".join(filter(None, row[-2:])) for row in rows]
    lines = list(two_columns(list(zip(aligned([row[:-2] for row in rows]), texts, strict=True)), "  "))
    yield from _group_by_domain(rows, lines) if kind == "datasets" else lines
    if kind in _NOTES:
        yield wrapped(_NOTES[kind], "  ")


def _group_by_domain(rows: Sequence[Row], lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines of datasets below the name of their domain, in the order in which domains occur."""
    from kmdr.datasets.registry import entry

    domains: dict[str, list[str]] = {}
    names = iter(row[0].rstrip(_IN_ATLAS) for row in rows)
    domain = ""
    for line in lines:
        if not line.startswith("   "):  # or else it continues an entry
            domain = entry(next(names)).domain or "other"
        domains.setdefault(domain, []).append(line)
    for domain, of_domain in domains.items():
        yield f" {domain}"
        yield from of_domain


def _brief(summary: str) -> str:
    """Return the beginning of a docstring: without citations, references to code, details, and its full stop."""
    return re.sub(r"(?<!i\.i\.d)\.$", "", re.split(r" \(|: `|; ", summary)[0]).replace("``", "")


def _registered(kind: str, decorator: str) -> Iterator[tuple[list[Any], str]]:
    """Yield the arguments of a decorator and the first docstring line of each built-in definition that it registers."""
    for file in sorted((Path(kmdr.__path__[0]) / kind).glob("*.py")):
        for node in ast.parse(file.read_text("utf-8")).body:
            for call in node.decorator_list if isinstance(node, ast.ClassDef | ast.FunctionDef) else ():
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == decorator:
                    arguments = [ast.literal_eval(argument) for argument in call.args]
                    yield arguments, (ast.get_docstring(node) or "").partition("\n")[0]  # type: ignore[arg-type]


def _has_plugins(kind: str) -> bool:
    return any(root.files(kind, "*.py") for root in plugin_roots())


def _datasets() -> list[Row]:
    from kmdr import datasets
    from kmdr.datasets.registry import entry

    available = [datasets.availability_of(name, brief=True) for name in datasets.names()]
    states = ["available" if entry(a.name).home and a.state == "generated" else a.state for a in available]
    titles = [
        f"{_STATES.get(state, state)}: {re.split('[,;]|(?<=.{10}):', a.title)[0]}"
        for a, state in zip(available, states, strict=True)
    ]
    return [
        (a.name + _IN_ATLAS * ("atlas" in entry(a.name).collections), a.shape, title, entry(a.name).plugin)
        for a, title in zip(available, titles, strict=True)
    ]


def _reducers() -> list[Row]:
    outside = ("outside", "Any scikit-learn transformer, by reducer.path=CLASS", "")
    if not _has_plugins("reducers"):
        rows = [(name, _brief(summary), "") for (name,), summary in _registered("reducers", "register")]
    else:
        from kmdr import reducers

        rows = [(name, _brief(reducers.summary(name)), reducers.origin_of_reducer(name)) for name in reducers.names()]
    return sorted([*rows, outside])


def _engines() -> list[Row]:
    outside = ("package.Class", "any clusterer by its import path, e.g. sklearn.cluster.Birch", "")
    if not _has_plugins("engines"):
        rows = [(name, _brief(summary), "") for (name,), summary in _registered("clustering", "built_in_engine")]
    else:
        from kmdr.clustering import engines

        rows = [(name, _brief(engines.summary(name)), engines.origin_of_engine(name)) for name in engines.names()]
    return [*sorted(rows), outside]


def _metrics() -> list[Row]:
    if not _has_plugins("metrics"):
        return [
            (name, label, f"{low:g} to {high:g}", "")
            for (name, label, low, high, _), _ in _registered("metrics", "built_in_metric")
        ]
    from kmdr import metrics

    known = metrics.metrics().values()
    return [(m.name, m.label, f"{m.low:g} to {m.high:g}", origin_of(m.function.__module__)) for m in known]


def _papers() -> list[Row | UserError]:
    rows = []
    errors: list[Row | UserError] = []
    for paper in paper_folders():
        try:
            table = tomllib.loads((paper.folder / "paper.toml").read_text("utf-8"))
            title = str(table["title"]).partition(" (")[0]
            rows.append((int(table["year"]), paper.name, title, origin_of(f"{paper.package}.")))
        except (ValueError, KeyError, TypeError):
            errors.append(_paper_error(paper))
    return [*(row[1:] for row in sorted(rows)), *errors]


def _paper_error(paper: PaperFolder) -> UserError:
    """Return the error in a ``paper.toml``, in words."""
    from kmdr.claims import catalogue

    try:
        catalogue._read(paper)
    except UserError as error:
        return error
    return UserError(f"{paper.folder / 'paper.toml'} cannot be read; follow the other papers' files")


def _studies() -> list[Row | UserError]:
    from kmdr.config.studies import readable_studies

    valid, errors = readable_studies()
    return [*((study["name"], study["title"].partition(" (")[0], "") for study in valid), *errors]


_ROWS: dict[str, Callable[[], Sequence[Row | UserError]]] = {
    "datasets": _datasets, "reducers": _reducers, "engines": _engines, "metrics": _metrics, "papers": _papers,
    "studies": _studies,
}  # fmt: skip
