"""The check of rows: a row is refused if kmdr cannot have written it. All readers of a results folder use it."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kmdr.base.text import canonical, short_hash, single_line
from kmdr.config.task import CONFIG_COLUMNS, KMEANS_COLUMNS, settings_of
from kmdr.results.manifests import read_configs
from kmdr.results.schema import COLUMNS, JSON_COLUMNS, NUMBER, NUMBERS, VALUES, WHOLE_NUMBERS
from kmdr.results.untrusted_text import parse_json

_FLOATS = tuple(name for name in NUMBERS if name not in WHOLE_NUMBERS)
_MOST_NUMBER = 1e100  # squares and sums of such numbers are finite
_MOST_NAME = 200  # bytes of a name, so that it can be a file's
_MOST_TEXT = 10_000  # bytes of another text
_MOST_NAMED = 10  # kinds of refused rows
_NAMES = ("study", "dataset", "reducer")
# The columns that together state a configuration.
_STATED_COLUMNS = ("config_hash", "dataset", "data_sha256", "reducer", "params", "k", "seed", *CONFIG_COLUMNS)
_ROUNDING_OF_TIMES = 1e-6


# -- JSON columns ----------------------------------------------------------------------------------------------------


def _is_arguments(value: Any) -> bool:
    try:
        return isinstance(parse_json(value), dict)
    except (TypeError, ValueError):
        return False


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _MOST_NUMBER


def _is(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kind)


# The objects in JSON columns: a description, and a test of each member by name, "" standing for all others.
SHAPES: Mapping[str, tuple[str, Mapping[str, Callable[[Any], bool]]]] = {
    "params": ("a JSON object", {"": _is(object)}),
    "options": ("a JSON object whose name is text", {"name": _is(str), "": _is(object)}),
    "kmeans": (
        "a JSON object of args, online, empty_action and until_found",
        {"args": _is_arguments, "online": _is(bool), "empty_action": _is(str), "until_found": _is_number},
    ),
    "metrics": ("a JSON object of finite numbers", {"": _is_number}),
}


def _has_shape(column: str, text: str) -> bool:
    tests = SHAPES[column][1]
    other = tests.get("", lambda _: False)
    try:
        value = parse_json(text or "{}")
    except ValueError:
        return False
    return isinstance(value, dict) and all(tests.get(name, other)(inner) for name, inner in value.items())


# -- rows ------------------------------------------------------------------------------------------------------------


class ValueFault(NamedTuple):
    """The reason why a row is refused: the value of a column, and what was expected."""

    column: str
    value: str
    expected: str

    def __str__(self) -> str:
        """Return the reason as part of a sentence."""
        value = self.value if len(self.value) <= 60 else f"{self.value[:60]}…"
        return single_line(f"{self.column} = {value!r}, expected {self.expected[:300]}")


def value_fault(column: str, text: str) -> ValueFault | None:
    """Return the fault of a text that is not a value of its column."""
    values = VALUES[column]
    if not values.pattern.fullmatch(text):
        return ValueFault(column, text, values.words)
    if column in NUMBERS:
        fits = not text or values.low <= float(text) <= min(values.high, _MOST_NUMBER)
        return None if fits else ValueFault(column, text, values.words)
    if len(text.encode()) > (_MOST_NAME if column in _NAMES else _MOST_TEXT):
        return ValueFault(column, text, f"at most {_MOST_NAME if column in _NAMES else _MOST_TEXT} bytes")
    fits = column not in JSON_COLUMNS or _has_shape(column, text)
    return None if fits else ValueFault(column, text, SHAPES[column][0])


def _to_floats(texts: Sequence[str]) -> NDArray[np.float64]:
    """Return texts as numbers: NaN for an empty text, infinity for any other text that is not a number."""
    if not "".join(texts).encode("utf-8", "replace").translate(None, b"0123456789.e+-"):
        numbers = [text or "nan" for text in texts] if "" in texts else texts
        with suppress(ValueError):
            return np.fromiter(map(float, numbers), np.float64, len(numbers))
    is_number = NUMBER.fullmatch
    return np.array([np.nan if not text else float(text) if is_number(text) else np.inf for text in texts])


def config_of(row: Mapping[str, str]) -> dict[str, Any]:
    """Return the configuration that a row's columns state, like `kmdr.config.task.Task.config`."""
    kmeans = {name: int(row[name]) if name in WHOLE_NUMBERS else row[name] for name in KMEANS_COLUMNS if row[name]}
    return {
        **{name: row[name] for name in ("dataset", "data_sha256", "reducer", "matching")},
        **{name: int(row[name]) for name in ("k", "seed")},
        "params": json.loads(row["params"]),
        "kmeans": kmeans | json.loads(row["kmeans"] or "{}"),
    }


def settings_in(config: Any) -> dict[str, str]:
    """Return the columns of settings of a configuration; none if kmdr cannot have written it."""
    try:
        settings = {name: str(value) for name, value in settings_of(config).items()}
    except (LookupError, TypeError, AttributeError, RecursionError):
        return {}
    valid = settings.keys() == set(CONFIG_COLUMNS) and not any(value_fault(*item) for item in settings.items())
    return settings if valid and settings["engine"] else {}


class RowCheck:
    """The check of a folder's rows, a block at a time; it counts the refused ones.

    The configuration that a row's columns state must have the hash ``config_hash``. Rows that were written before there
    were columns of settings need the configuration itself. The configurations of the folder are read when they are
    needed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sizes: dict[str, list[str]] = {}
        self._rows = 0
        self._first: dict[str, ValueFault] = {}
        self._refused: Counter[str] = Counter()

    def faults(
        self, columns: Mapping[str, Sequence[str]]
    ) -> tuple[dict[int, ValueFault], dict[str, NDArray[np.float64]]]:
        """Return the faults of refused rows by row number, and the columns of floats as numbers.

        ``columns`` are all of `COLUMNS`, as text.
        """
        faults: dict[int, ValueFault] = {}

        def refuse(keys: Sequence[Any], why: Callable[[Any], ValueFault | None]) -> None:
            """Refuse rows by a function of their keys, unless they have a fault already."""
            sound = keys if not faults else [key for row, key in enumerate(keys) if row not in faults]
            wrong = {key: fault for key in set(sound) if (fault := why(key))}
            if wrong:
                faults.update((row, wrong[key]) for row, key in enumerate(keys) if row not in faults and key in wrong)

        def refuse_rows(wrong: NDArray[np.bool_], column: str, expected: str) -> None:
            for row in np.flatnonzero(wrong).tolist():
                faults.setdefault(row, ValueFault(column, columns[column][row], expected))

        numbers = {name: _to_floats(columns[name]) for name in _FLOATS}
        for name in COLUMNS:
            if name in numbers:
                most, values = min(VALUES[name].high, _MOST_NUMBER), numbers[name]
                refuse_rows((values < VALUES[name].low) | (values > most), name, VALUES[name].words)
            else:
                refuse(columns[name], partial(value_fault, name))
        done = np.array([status == "ok" for status in columns["status"]], dtype=bool)  # also if there are no rows
        is_scored = np.isfinite(numbers["objective"])
        refuse_rows(done & ~is_scored, "objective", "a number in a trial that is ok")
        refuse_rows(~done & is_scored, "objective", "none in a trial that failed")
        parts = sum(numbers[f"{part}_seconds"] for part in ("prepare", "reduce", "cluster"))
        total = numbers["total_seconds"]
        with np.errstate(invalid="ignore"):  # ∞ − ∞, where neither text is a number and the row is refused
            apart = np.abs(total - parts) > _ROUNDING_OF_TIMES * (1 + total)
        apart |= done & (np.isnan(total) != np.isnan(parts))
        refuse_rows(apart, "total_seconds", "the sum of prepare, reduce and cluster")
        sizes = _rows_of(columns, ("data_sha256", "n", "d", "nnz", "k", "status"))
        for (data, *of_data, _, _), _ in Counter(sizes).most_common():
            self._sizes.setdefault(data, of_data)
        refuse(sizes, self._false_size)
        refuse(_rows_of(columns, _STATED_COLUMNS), self._false_config)
        self._rows += len(done)
        for fault in faults.values():
            self._first.setdefault(fault.column, fault)
            self._refused[fault.column] += 1
        return faults, numbers

    @cached_property
    def _configs(self) -> Mapping[str, Mapping[str, Any]]:
        return read_configs(self._folder)[0]

    def settings(self, key: str, engine: str) -> dict[str, str]:
        """Return the columns of settings for a row with this ``config_hash`` that was written before there were any."""
        return {} if engine else settings_in(self._configs.get(key))

    def _false_size(self, values: tuple[str, ...]) -> ValueFault | None:
        data, *sizes, k, status = values
        n, d, nnz = map(int, sizes)
        if nnz > n * d:
            return ValueFault("nnz", sizes[2], "at most n × d")
        if int(k) > n and status == "ok":
            return ValueFault("k", k, "at most n")
        for name, size, other in zip(("n", "d", "nnz"), sizes, self._sizes[data], strict=True):
            if size != other:
                return ValueFault(name, size, f"{other} as in other rows of the same data")
        return None

    def _false_config(self, values: tuple[str, ...]) -> ValueFault | None:
        row = dict(zip(_STATED_COLUMNS, values, strict=True))
        key = row["config_hash"]
        row |= self.settings(key, row["engine"])
        config = config_of(row)
        if short_hash(config) == key:
            return None
        known = self._configs.get(key, {})
        if not settings_in(known):
            return ValueFault(
                "config_hash", key, "the hash of the other columns or of a configuration in configs.jsonl"
            )
        stated = {name: str(known.get(name)) for name in _STATED_COLUMNS[1:]}
        stated |= {"params": canonical(known.get("params")), **settings_in(known)}
        name = next((name for name in stated if row[name] != stated[name]), "config_hash")
        return ValueFault(
            name, row[name], f"{stated.get(name, 'that of the other columns')!r} as in configuration {key}"
        )

    @property
    def refused(self) -> int:
        """The number of refused rows."""
        return self._refused.total()

    def sentences(self, path: Path) -> list[str]:
        """Return a sentence for each column by which rows of a file were refused; at most ten, and one for the rest."""
        lines = [
            f"{count} of {self._rows} rows of {path} {'is' if count == 1 else 'are'} refused: {self._first[column]}"
            for column, count in self._refused.most_common(_MOST_NAMED)
        ]
        left = self._refused.total() - sum(count for _, count in self._refused.most_common(_MOST_NAMED))
        return [*lines, f"and {left} more of {path}"] if left else lines


def _rows_of(columns: Mapping[str, Sequence[str]], names: Sequence[str]) -> list[tuple[str, ...]]:
    return list(zip(*(columns[name] for name in names), strict=True))
