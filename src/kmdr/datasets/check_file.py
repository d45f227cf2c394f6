"""Check custom data files before they are used: ``kmdr data check FILE``."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from kmdr import datasets
from kmdr.base.errors import UserError, unknown
from kmdr.base.text import aligned, path_override, single_line, tell
from kmdr.datasets.formats.profile import lines, scale_hint, warnings_of
from kmdr.datasets.registry import entry

# Options whose values are signs, some of which have a meaning in YAML.
_SIGNS = ("separator", "decimal")


def is_file(word: str) -> bool:
    """Return whether a word on the command line is a file: an existing path that is not the name of a dataset."""
    return word not in datasets.names() and ("/" in word or "." in word or Path(word).exists())


def check_files(files: Sequence[str], settings: Sequence[str]) -> int:
    """Print how files are read; return 1 if one cannot be used as it is.

    `settings` are options of the dataset ``file`` as on the command line, with or without ``dataset.`` before them.
    """
    options = dict(map(_option, settings))
    refused, printed = 0, False
    for file in files:
        try:
            report = list(_report(file, options, settings))
        except UserError as error:
            tell(f"kmdr: error: {single_line(str(error))}")
            refused += 1
            continue
        print(*[""] * printed, *report, sep="\n")
        printed = True
        refused += any(line.startswith("  refused") for line in report)
    return int(refused > 0)


def _option(text: str) -> tuple[str, Any]:
    name, _, value = text.removeprefix("dataset.").partition("=")
    if name not in entry("file").offered:
        raise unknown("option of dataset 'file'", name, entry("file").offered)
    try:
        return name, value if name in _SIGNS else yaml.safe_load(value)
    except yaml.YAMLError:
        return name, value


def _report(file: str, options: Mapping[str, Any], settings: Sequence[str]) -> Iterator[str]:
    content, seen, refusal = datasets.inspect_file({**options, "path": file})
    yield f"{file}: {content.form}"
    places = iter([where.removesuffix(",") for _, where in content.labelings])
    rows = [(topic, f"{next(places)}: {text}" if topic == "labels" else text) for topic, text in lines(seen)]
    if options.get("scale", "none") == "none" and (hint := scale_hint(seen)):
        rows = [(topic, hint if topic == "scale" else text) for topic, text in rows]
    rows += [("warning", warning) for warning in (*content.warnings, *warnings_of(seen))]
    if refusal:
        rows.append(("refused", refusal))
    else:
        given = [f"dataset.{setting.removeprefix('dataset.')}" for setting in settings]
        data = ["dataset=file", f"dataset.path={path_override(file)}", *given]
        command = ["kmdr", "-m", *data, "reducer=none,svd", f"r_grid=[{min(2, seen.d)}]"]
        rows.append(("run", shlex.join(command)))
    for line in aligned(rows):
        yield f"  {line}"
