"""The kinds of the values of a ``paper.toml``."""

from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any

from kmdr.base.errors import UserError, not_one_of, shown
from kmdr.claims.effects import OUTCOMES

# Types and their names in messages.
_TEXT, _NUMBER, _EITHER = ((str,), "text"), ((int,), "a whole number"), ((int, str), "a whole number or text")
_CHOICE = (bool,), "true or false"
_DATE = (str, date), "a date as 2026-01-31"
# The kind of a value: types, a list with the kind of its entries, or a table with the kinds of its keys, in which ""
# stands for all other keys. Which keys a table needs is checked where it is read.
_TEXTS: dict[str, Any] = {"": _TEXT}
_SENTENCE = _TEXTS | {"when": [_TEXT], "lead": _NUMBER, "answer": _CHOICE}
_KINDS: dict[str, Any] = _TEXTS | {
    "year": _NUMBER,
    "tables": [_EITHER],
    "figures": [_EITHER],
    "sections": [_TEXT],
    "claims": [_EITHER],
    "diagnoses": [_TEXT],
    "quotes": _TEXTS,
    "open": [_TEXTS],
    "reconstruction": _TEXTS | {"facts": _TEXTS},
    "summary": {"": [_SENTENCE], "short": _TEXT, "deviations": [_TEXTS]},
    "implementations": [_TEXTS | {"claim": _EITHER, "base": [_TEXT], "datasets": _TEXTS, "reducers": _TEXTS}],
    "amendments": [_TEXTS | {"claim": _EITHER, "date": _DATE}],
}


def check_kinds(file: Path, table: Any) -> None:
    """Refuse values of a ``paper.toml`` that are of another kind than its keys need."""
    _check(file, "", table, _KINDS)
    for amendment in table.get("amendments", ()):
        _check_amendment(file, amendment)


def _check_amendment(file: Path, amendment: Mapping[str, Any]) -> None:
    """Refuse an amendment that does not say when, from which verdict, how or why a test was changed."""
    if not _is_day(amendment.get("date", date.min)):
        raise UserError(f"{file}: amendments.date = {shown(amendment['date'])} is not {_DATE[1]}; correct it")
    if (before := amendment.get("before", OUTCOMES[0])) not in OUTCOMES:
        raise not_one_of(f"{file}: amendments.before", before, OUTCOMES)
    for name in ("change", "reason"):
        if not amendment.get(name, name).strip():
            raise UserError(f"{file}: amendments.{name} is empty; write a sentence")


def _is_day(value: date | str) -> bool:
    """Return True for a date without a time, or its text as YYYY-MM-DD."""
    try:
        day = date.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        return False
    return not isinstance(day, datetime) and str(day) == str(value)


def _check(file: Path, key: str, value: Any, kind: Any) -> None:
    if isinstance(kind, list):
        expected = "a list"
        valid = isinstance(value, list)
    elif isinstance(kind, dict):
        # A sentence without conditions may be its text alone.
        expected = "text or a table" if kind is _SENTENCE else "a table"
        valid = isinstance(value, dict) or (kind is _SENTENCE and isinstance(value, str))
    else:
        types, expected = kind
        valid = isinstance(value, types) and (bool in types or not isinstance(value, bool))
    if not valid:
        raise UserError(f"{file}: {key} = {shown(value)} is not {expected}; correct it")
    if isinstance(value, list):
        for entry in value:
            _check(file, key, entry, kind[0])
    elif isinstance(value, dict):
        for name, entry in value.items():
            _check(file, f"{key}.{name}" if key else name, entry, kind.get(name, kind.get("")))
