"""Removal of folders from paths in rows, metadata and reports, because folders name a person, project or machine."""

import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from kmdr.base.errors import UserError
from kmdr.base.paths import CHECKOUT, cache_folder

# Options of a dataset that name the user's files.
_FILES = ("path", "labels")
# Options that name something within a file, which may look like a path.
_INSIDE = ("matrix", "label", "columns", "drop")
# Replacements for the data cache, within which kmdr chooses all names; the second in a checkout.
_CACHE = ("KMDR_CACHE", "datasets/cache")
# Replaces a known folder, whatever characters its name has, before the path is shortened.
_KNOWN = "\0"
_START = rf"(?:{_KNOWN}|(?:file:/{{2}})?(?<![\w./~])(?<!:/)(?:~[\w.-]*|\.{{1,2}})?)/(?!/)"
_QUOTED = re.compile(rf"(?P<quote>['\"`])(?P<path>{_START}[^\n]*?)(?P=quote)")
_PLAIN = re.compile(rf"{_START}[^\s'\"`,;:()<>\[\]{{}}|]*")


def _is_private(folder: str) -> bool:
    """Return True unless a folder is the root, which is a part of every path."""
    return len(Path(folder).parts) > 1


def _known_folders() -> Iterator[tuple[str, str]]:
    """Yield the folders of this user and process, each with its replacement in text."""
    with suppress(UserError):
        cache = cache_folder()
        yield str(cache), _CACHE[cache == CHECKOUT / _CACHE[1]]
    for folder in os.environ.get("KMDR_DATA", "").split(os.pathsep):
        if folder:
            yield os.path.expanduser(folder), "a folder of KMDR_DATA"  # noqa: PTH111  which never fails
    with suppress(OSError):
        yield str(Path.cwd()), "the current folder"
    yield tempfile.gettempdir(), "the folder for temporary files"
    with suppress(RuntimeError):
        yield str(Path.home()), "the home folder"


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2].lstrip(_KNOWN)


def without_folders(text: str, files: Iterable[str] = ()) -> str:
    """Return a text with each path replaced by the name of its file; a path within the data cache starts there.

    Parameters
    ----------
    files : iterable of str
        Paths that may occur in the text, with any characters.

    Examples
    --------
    >>> without_folders("FileNotFoundError: '/home/alice/a trial/patients.npz'; see https://example.org/a/b")
    "FileNotFoundError: 'patients.npz'; see https://example.org/a/b"
    """
    text = text.replace(_KNOWN, " ")
    if "/" not in text:
        return text
    known = {folder: label for folder, label in _known_folders() if _is_private(folder)}
    known = {os.path.realpath(folder): label for folder, label in known.items()} | known
    for file in files:
        for path in (file, os.path.realpath(os.path.expanduser(file))):  # noqa: PTH111  which never fails
            parent = os.path.dirname(path)  # noqa: PTH120  as it is written, which Path would change
            if parent.strip("./"):
                known.setdefault(parent, "the folder of the data" if parent.startswith(("/", "~")) else "")
    for folder in sorted(known, key=len, reverse=True):
        label, before = known[folder], rf"(?<![\w./~{_KNOWN}-]){re.escape(folder)}"
        text = re.sub(f"{before}/", f"{label}/" if label in _CACHE else f"{_KNOWN}/", text)
        if label:
            text = re.sub(rf"{before}(?![\w/-])", label, text)
    text = _QUOTED.sub(lambda match: f"{match['quote']}{_name(match['path']) or '/'}{match['quote']}", text)
    return _PLAIN.sub(lambda match: _name(match[0]) or "/", text).replace(_KNOWN, "")


def _file_names(value: Any) -> Any:
    if isinstance(value, list):
        return [_file_names(path) for path in value]
    return _name(value) or value if isinstance(value, str) else value


def file_names(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of a dataset with paths replaced by file names.

    Examples
    --------
    >>> file_names({"path": ["/home/alice/a.svm", "b.svm"], "matrix": "/layers/counts"})
    {'path': ['a.svm', 'b.svm'], 'matrix': '/layers/counts'}
    """
    return {
        name: _file_names(value)
        if name in _FILES
        else without_folders(value)
        if isinstance(value, str) and name not in _INSIDE
        else value
        for name, value in options.items()
    }


def paths_in(options: Mapping[str, Any]) -> list[str]:
    """Return the paths of files in the options of a dataset, without plain file names."""
    values = [options.get(name) for name in _FILES]
    paths = [path for value in values for path in (value if isinstance(value, list) else [value])]
    return [path for path in paths if isinstance(path, str) and _file_names(path) != path]
