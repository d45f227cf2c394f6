"""Text and JSON from a results folder: what is accepted, and how it is shown. The folder may come from a stranger."""

import json
import re
import sys
from typing import Any

from kmdr.base.private_paths import file_names, without_folders
from kmdr.base.text import canonical

# Line ends, terminal commands and changes of text direction, and surrogates, which cannot be encoded.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_MAX_DEPTH = 16
# The columns that may contain paths.
PATH_COLUMNS = ("options", "error", "stand_in")


def _finite(text: str) -> float:
    number = float(text)
    if not abs(number) <= sys.float_info.max:
        raise ValueError(f"{text[:50]} is not a finite number")
    return number


def _depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inner), default=0)


def parse_json(text: str | bytes) -> Any:
    """Return the value of JSON text with finite numbers, texts that can be encoded and at most 16 levels.

    Raises
    ------
    ValueError
        For any other text.
    """
    try:
        value = json.loads(text, parse_constant=_finite, parse_float=_finite)
        canonical(value).encode()  # fails for lone surrogates
        if _depth(value) <= _MAX_DEPTH:
            return value
    except RecursionError:
        pass
    raise ValueError(f"nested deeper than {_MAX_DEPTH}")


def display_text(text: str) -> str:
    r"""Return text with each character that is not shown as itself, such as a line end, replaced by a space.

    Examples
    --------
    >>> display_text("a\nb")
    'a b'
    """
    return _UNPRINTABLE.sub(" ", text)


def for_display(value: Any) -> Any:
    """Return a JSON value with `display_text` applied to every text in it."""
    if isinstance(value, str):
        return display_text(value)
    if isinstance(value, dict):
        return {display_text(key): for_display(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [for_display(inner) for inner in value]
    return value


def public_text(column: str, text: str) -> str:
    """Return the text of a column without the folders of files, which older versions wrote."""
    if column not in PATH_COLUMNS or "/" not in text:
        return text
    if column != "options":
        return without_folders(text)
    try:
        options = json.loads(text)
        names = file_names(options)
    except (ValueError, AttributeError, RecursionError):  # not options; the check of the row reports it
        return text
    return text if names == options else canonical(names)
