"""The options that a user gives for a registered dataset: checked, and with the files that they name located."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from kmdr.base.errors import UserError, not_one_of, unknown
from kmdr.base.files import refuse_irregular
from kmdr.base.paths import with_home
from kmdr.datasets.acquire.find import UnavailableError, local_files
from kmdr.datasets.file_options import checked_option, convert, file_and_column, is_column, labelings_of
from kmdr.datasets.registry import Entry, entry, names

ROWS = ("raw", "unit", "tfidf")


def checked_options(e: Entry, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all options of an entry, with the given values and with absolute paths.

    Options in `Entry.further` are included only if they differ from their default.
    """
    settings = dict(e.options)
    for name, value in given.items():
        if name not in e.offered:
            raise unknown(f"option of dataset {e.name!r}", name, e.offered)
        what = f"option {name} of dataset {e.name!r}"
        if name == "scale" or (e.format == "file" and name != "rows"):
            settings[name] = checked_option(name, value, what)
        else:
            settings[name] = convert(e.offered[name], value, what)
        if name not in e.options and settings[name] == e.offered[name]:
            del settings[name]
    if settings.get("scale") == "unit":
        del settings["scale"]
        settings["rows"] = "unit"
    if (rows := settings.get("rows", "raw")) not in ROWS:
        raise not_one_of("dataset.rows", rows, ROWS)
    if "path" in settings:
        paths = [_located(e, path, e.format == "file", settings.get("format", "")) for path in paths_of(settings)]
        settings["path"] = paths if isinstance(e.options["path"], list) else "".join(paths)
        if labelings := labelings_of(settings.get("labels", "")):
            located = [_located_labels(e, labels) for labels in labelings]
            settings["labels"] = located if len(located) > 1 else located[0]
    return settings


def locate_files(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a dataset that name a user's files, with absolute paths; empty if it has no such option."""
    e = entry(name)
    settings = checked_options(e, options) if e.needs_path else {}
    return {option: settings[option] for option in ("path", "labels") if settings.get(option, "") not in ("", [])}


def _located_labels(e: Entry, labels: str) -> str:
    """Return the absolute path of a file of labels, with its column, or the name of a column of the data unchanged."""
    if not is_column(labels):
        file, column = file_and_column(labels)
        return _located(e, file) + (f":{column}" if column else "")
    try:
        local = next(local_files(e.name, {labels}), None)
    except (OSError, ValueError):  # no file can have such a name
        return labels
    return labels if local is None else str(local.resolve())


def _located(e: Entry, path: str, folder: bool = False, kind: str = "") -> str:
    """Return the absolute path of a file or folder: as named, or with that name in the cache or ``KMDR_DATA``."""
    try:
        file = with_home(path, "dataset.path =")
        if not file.exists() and file.name == path:
            file = next(local_files(e.name, {path}), file)
        file = file.resolve()
        refuse_irregular(file, folder)
        if file.is_dir():
            from kmdr.datasets.formats.readers import files_in  # here because readers take a second to import

            files_in(file, kind)
    except (OSError, ValueError, RuntimeError) as error:  # a loop of links, a byte 0, a name that is too long
        raise UserError(f"{path!r} cannot be the path of a file ({error}); name another with dataset.path=…") from error
    return str(file)


def paths_of(settings: Mapping[str, Any]) -> list[str]:
    """Return the value of option ``path`` as a list."""
    path = settings.get("path", [])
    return [path] if isinstance(path, str) and path else list(path)


def files_of(settings: Mapping[str, Any]) -> list[str]:
    """Return all files of the user's that a dataset is read from."""
    if "path" not in settings:
        return []
    labelings = labelings_of(settings.get("labels", ""))
    return [*paths_of(settings), *(file_and_column(labels)[0] for labels in labelings if not is_column(labels))]


def missing_files(e: Entry, settings: Mapping[str, Any]) -> list[str]:
    """Return the files that do not exist; those that the registry names by their name only."""
    missing = [Path(path) for path in files_of(settings) if not Path(path).exists()]
    return [path.name if path.name in e.options["path"] else str(path) for path in missing]


def refuse_missing(e: Entry, settings: Mapping[str, Any]) -> None:
    """Refuse options that name no file, or one that does not exist."""
    if e.format == "file" and not paths_of(settings):
        raise UnavailableError(f"dataset {e.name!r} needs a file of your own; name it with dataset.path=…")
    missing = missing_files(e, settings)
    if missing and not e.home:
        raise UnavailableError(
            f"there is no file {' and no '.join(missing)} here or in a folder that KMDR_DATA names; "
            f"{_similar_file(missing[0]) or 'correct dataset.path or dataset.labels'}"
        )
    if missing:
        where = f" (download it from {e.home})" if e.home else ""
        raise UnavailableError(
            f"dataset {e.name!r} is not available: there is no file {' and no '.join(missing)}{where}; "
            "name it with dataset.path=… or put it into a folder that KMDR_DATA names"
        )


def _similar_file(path: str) -> str:
    """Return a question with the most similar name of a file in the folder of a path; empty if none is similar."""
    try:
        names = [file.name for file in Path(path).parent.iterdir()]
    except OSError:
        return ""
    near = get_close_matches(Path(path).name, names, n=1, cutoff=0.7)
    return f"did you mean {near[0]}?" if near else ""


def file_title(e: Entry, settings: Mapping[str, Any]) -> str:
    """Return the name of the data in rows and figures; a custom file never gets the name of a registered dataset."""
    if "title" not in settings:
        return e.name
    # It becomes the name of a folder, so it neither begins with a dot nor contains a slash.
    stem = re.sub(r"[^\w+.-]+", "_", Path(paths_of(settings)[0]).name.partition(".")[0]).lstrip("+-")
    title = settings["title"] or stem[:60] or "data"
    if not re.fullmatch(r"\w[\w+.-]{0,59}", title):
        raise UserError(f"option title is {title!r}; use up to 60 letters, digits, _ and, except at the start, + . -")
    if title not in names():
        return title
    if settings["title"]:
        raise UserError(f"option title is {title!r}, which is the name of a registered dataset; choose another name")
    return f"file_{title}"


def display_name(e: Entry, settings: Mapping[str, Any]) -> str:
    """Return the name of the data in messages: the names of their files, or of the dataset."""
    return ", ".join(Path(path).name for path in paths_of(settings)) or f"dataset {e.name!r}"
