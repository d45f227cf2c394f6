"""What the columns of a table of rows hold, and the one check of rows, which all readers of a folder share."""

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kmdr.base.text import canonical, one_line, short_hash
from kmdr.config.task import SETTINGS, settings_of

Row = dict[str, Any]


# Beside what their names say: `kmeans` is a JSON object of the settings of k-means that have no column of their own,
# `options` one of those of the dataset that are not the usual ones, with its name where its title is another; rows that
# were written before there were such columns may have none; `metrics` is one of the metrics that have no column, empty
# where there are none; `code_hash` is that of the code that computes a row, so it tells rows of other code apart, as
# `code_version`, of the whole project, cannot; `guests` names, with version and hash of its files, each
# guest whose reducer, engine, dataset or metric took part, one after the other, and is empty where all is kmdr's own.
# Both together identify the code of a row: see `code_identity`.
COLUMNS = (
    "study", "dataset", "reducer", "params", "n", "d", "nnz", "k", "r", "repeat", "seed",
    *SETTINGS,
    "objective", "objective_ratio", "accuracy", "nmi", "ari", "metrics",
    "prepare_seconds", "reduce_seconds", "cluster_seconds", "total_seconds", "score_seconds",
    "n_iter", "n_init_failed", "status", "error", "concurrency", "threads", "stand_in",
    "config_hash", "data_sha256", "code_version", "code_hash", "guests", "env_hash", "machine",
)  # fmt: skip


TIME_COLUMNS = tuple(name for name in COLUMNS if name.endswith("_seconds"))


class Values(NamedTuple):
    """What a column holds.

    Attributes
    ----------
    words : str
        What a value is.
    pattern : Pattern
        Of the whole text; where it matches nothing, a value may be missing.
    low, high : float
        Of numbers.
    meaning : str
        What it says of the trial.
    unit : str
        Of numbers that have one.
    """

    words: str
    pattern: re.Pattern[str]
    low: float = -sys.float_info.max
    high: float = sys.float_info.max
    meaning: str = ""
    unit: str = ""

    @property
    def needed(self) -> bool:
        """Whether no row is without it."""
        return not self.pattern.fullmatch("")


_ROUNDING = 1e-9  # of measures that are at most 1
_WHOLE = re.compile("0|[1-9][0-9]*")
_MAYBE_WHOLE = re.compile(f"({_WHOLE.pattern})?")
_NUMBER = re.compile(r"(-?\d+(\.\d+)?(e[+-]?\d+)?)?", re.ASCII)
_MOST = 2.0**53  # whole numbers up to it are exact as floats
_HASH = re.compile("[0-9a-f]{12}")
_JSON = re.compile(r"(\{.*\})?", re.DOTALL)
_NAME = Values("a name", re.compile(r"(?!\.{1,2}$)[^\x00-\x1f\x7f]+"))
_COUNT = Values("a whole number of at least 1", _WHOLE, 1, _MOST)
_COUNT_FROM_0 = Values("a whole number of at least 0", _WHOLE, 0, _MOST)
_MAYBE_COUNT = Values("a whole number of at least 0", _MAYBE_WHOLE, 0, _MOST)
_SHARE = Values("a number from 0 to 1", _NUMBER, 0, 1 + _ROUNDING)
_SECONDS = Values("a duration in seconds", _NUMBER, 0, unit="s")
_OBJECT = Values("a JSON object", _JSON)
_TEXT = Values("text", re.compile(r"[^\0]*"))
_KEY = Values("12 hexadecimal digits", _HASH)


def _of(values: Values, meaning: str, unit: str = "") -> Values:
    return values._replace(meaning=meaning, unit=unit or values.unit)


VALUES: Mapping[str, Values] = {
    "study": _of(_NAME, "the study that the trial belongs to; `custom` outside any"),
    "dataset": _of(_NAME, "the dataset A"),
    "reducer": _of(_NAME, "the method that reduces A to C; `none` is k-means on all features"),
    "params": Values("a JSON object", re.compile(r"\{.*\}", re.DOTALL), meaning="the settings of the reducer"),
    "n": _of(_COUNT, "points: rows of A", "points"),
    "d": _of(_COUNT, "features: columns of A", "features"),
    "nnz": _of(_COUNT_FROM_0, "stored entries of A, n × d where it is dense", "entries"),
    "k": _of(_COUNT, "clusters", "clusters"),
    "r": _of(_COUNT, "dimensions: columns of C", "dimensions"),
    "repeat": _of(_COUNT_FROM_0, "the repetition, from 0; all methods start from the same points in it"),
    "seed": Values("a whole number of at least 0", _WHOLE, 0, meaning="the root seed that every draw comes from"),
    "engine": _of(_TEXT, "what clusters C"),
    "start": _of(_TEXT, "how the first centres are drawn"),
    "n_init": _of(_MAYBE_COUNT, "starts of k-means, of which the one of the least F on C is kept", "starts"),
    "max_iter": _of(_MAYBE_COUNT, "iterations of Lloyd's method at the most", "iterations"),
    "kmeans": _of(_OBJECT, "settings of k-means that have no column of their own"),
    "matching": _of(_TEXT, "how clusters are matched to classes for the accuracy P"),
    "options": _of(_OBJECT, "options of the dataset that are not the usual ones"),
    "objective": _of(_SHARE, "F: the k-means objective of the clusters on A, all features, over the squared norm of A"),
    "objective_ratio": Values(
        "a number of at least 1", _NUMBER, 1, meaning="F over the least F of the folder for the same data and k"
    ),
    "accuracy": _of(_SHARE, "P: share of points whose cluster is matched to their class"),
    "nmi": _of(_SHARE, "normalised mutual information of clusters and classes"),
    "ari": Values("a number from -1 to 1", _NUMBER, -1, 1 + _ROUNDING, "adjusted Rand index of clusters and classes"),
    "metrics": _of(_OBJECT, "measures that have no column, by name"),
    "prepare_seconds": _of(_SECONDS, "time of the reducer's work that does not depend on r, in full in each row"),
    "reduce_seconds": _of(_SECONDS, "time of the reduction to this r"),
    "cluster_seconds": _of(_SECONDS, "time of k-means on C"),
    "total_seconds": _of(_SECONDS, "prepare + reduce + cluster: the papers' running time"),
    "score_seconds": _of(_SECONDS, "time of scoring, in none of the others"),
    "n_iter": _of(_MAYBE_COUNT, "iterations of the start that was kept", "iterations"),
    "n_init_failed": _of(
        _MAYBE_COUNT, "starts that had not converged after `max_iter` iterations, or were given up", "starts"
    ),
    "status": Values("ok or failed", re.compile("ok|failed"), meaning="whether the trial ended well"),
    "error": _of(_TEXT, "why it did not"),
    "concurrency": _of(_COUNT, "workers that ran at the same time; times are fair where it is 1", "workers"),
    "threads": _of(_COUNT, "threads of BLAS and OpenMP", "threads"),
    "stand_in": _of(_TEXT, "what the data really are, where they stand in for those of a paper"),
    "config_hash": _of(_KEY, "the configuration: a line of `configs.jsonl`"),
    "data_sha256": Values("64 hexadecimal digits", re.compile("[0-9a-f]{64}"), meaning="SHA-256 of the content of A"),
    "code_version": Values(
        "a version such as 1.0.0", re.compile(r"[0-9A-Za-z.+!_-]{1,100}"), meaning="the version of kmdr"
    ),
    "code_hash": Values(
        "12 hexadecimal digits",
        re.compile(f"({_HASH.pattern})?"),
        meaning="the code that computes the row: its syntax trees, without names of locals, comments and docstrings",
    ),
    "guests": _of(_TEXT, "what is not kmdr's own and took part: name, version and hash of its files"),
    "env_hash": _of(_KEY, "the environment: `environments/<hash>.json`"),
    "machine": Values(
        "12 hexadecimal digits",
        re.compile(f"({_HASH.pattern})?"),
        meaning="the machine, by a hash that does not say its name; times of several are not put together",
    ),
}
# Columns that hold a JSON object.
JSON_COLUMNS = ("params", "metrics", "kmeans", "options")
NUMBERS = tuple(name for name in COLUMNS if VALUES[name].pattern in (_WHOLE, _MAYBE_WHOLE, _NUMBER))
WHOLE_NUMBERS = tuple(name for name in COLUMNS if VALUES[name].pattern in (_WHOLE, _MAYBE_WHOLE))


_FLOATS = tuple(name for name in NUMBERS if name not in WHOLE_NUMBERS)
_MOST_NUMBER = 1e100  # squares and sums of such numbers are finite
_MOST_DEPTH = 16  # of JSON
_MOST_NAME = 200  # bytes of a name, so that it can be a file's
_MOST_TEXT = 10_000  # bytes of another text
_MOST_NAMED = 10  # kinds of refused rows
_NAMES = ("study", "dataset", "reducer")
# The columns of the settings of k-means, and all that give a configuration.
_OF_KMEANS = SETTINGS[:4]
_OF_CONFIG = ("config_hash", "dataset", "data_sha256", "reducer", "params", "k", "seed", *SETTINGS[:6])
_ROUNDING_OF_TIMES = 1e-6


# -- JSON ------------------------------------------------------------------------------------------------------------


def _finite(text: str) -> float:
    number = float(text)
    if not abs(number) <= sys.float_info.max:
        raise ValueError(f"{text[:50]} is no number")
    return number


def _depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inner), default=0)


def parse_json(text: str | bytes) -> Any:
    """Return what JSON says: finite numbers, texts that can be encoded, and no deep nesting.

    Raises
    ------
    ValueError
        When it is anything else.
    """
    try:
        value = json.loads(text, parse_constant=_finite, parse_float=_finite)
        canonical(value).encode()  # which half a character is not
        if _depth(value) <= _MOST_DEPTH:
            return value
    except RecursionError:
        pass
    raise ValueError(f"nested deeper than {_MOST_DEPTH}")


def _is_arguments(value: Any) -> bool:
    try:
        return isinstance(parse_json(value), dict)
    except (TypeError, ValueError):
        return False


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _MOST_NUMBER


def _is(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kind)


# What the object in a JSON column holds: in words, and a test of its members by name, "" being all others.
SHAPES: Mapping[str, tuple[str, Mapping[str, Callable[[Any], bool]]]] = {
    "params": ("a JSON object", {"": _is(object)}),
    "options": ("a JSON object whose name is text", {"name": _is(str), "": _is(object)}),
    "kmeans": (
        "a JSON object of args, online and empty_action",
        {"args": _is_arguments, "online": _is(bool), "empty_action": _is(str)},
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


class Fault(NamedTuple):
    """Why a row is refused: the value of a column, and what was expected in its place."""

    column: str
    value: str
    expected: str

    def __str__(self) -> str:
        """Return it as a part of a sentence."""
        value = self.value if len(self.value) <= 60 else f"{self.value[:60]}…"
        return one_line(f"{self.column} = {value!r}, expected {self.expected[:300]}")


def _of_column(column: str, text: str) -> Fault | None:
    """Return what is wrong with a text that is not what its column holds."""
    holds = VALUES[column]
    if not holds.pattern.fullmatch(text):
        return Fault(column, text, holds.words)
    if column in NUMBERS:
        fits = not text or holds.low <= float(text) <= min(holds.high, _MOST_NUMBER)
        return None if fits else Fault(column, text, holds.words)
    if len(text.encode()) > (_MOST_NAME if column in _NAMES else _MOST_TEXT):
        return Fault(column, text, f"at most {_MOST_NAME if column in _NAMES else _MOST_TEXT} bytes")
    fits = column not in JSON_COLUMNS or _has_shape(column, text)
    return None if fits else Fault(column, text, SHAPES[column][0])


def _to_floats(texts: Sequence[str]) -> NDArray[np.float64]:
    """Return numbers, NaN where there is none and infinite where a text is not one."""
    if not "".join(texts).encode("utf-8", "replace").translate(None, b"0123456789.e+-"):
        there = [text or "nan" for text in texts] if "" in texts else texts
        with suppress(ValueError):
            return np.fromiter(map(float, there), np.float64, len(there))
    is_number = _NUMBER.fullmatch
    return np.array([np.nan if not text else float(text) if is_number(text) else np.inf for text in texts])


def config_of(row: Mapping[str, str]) -> dict[str, Any]:
    """Return the configuration that a row's columns state, as `kmdr.harness.task.Task.config` does."""
    kmeans = {name: int(row[name]) if name in WHOLE_NUMBERS else row[name] for name in _OF_KMEANS if row[name]}
    return {
        **{name: row[name] for name in ("dataset", "data_sha256", "reducer", "matching")},
        **{name: int(row[name]) for name in ("k", "seed")},
        "params": json.loads(row["params"]),
        "kmeans": kmeans | json.loads(row["kmeans"] or "{}"),
    }


def settings_in(config: Any) -> dict[str, str]:
    """Return the columns of settings of a configuration; none where it is not such as kmdr writes."""
    try:
        settings = {name: str(value) for name, value in settings_of(config).items()}
    except (LookupError, TypeError, AttributeError, RecursionError):
        return {}
    valid = settings.keys() == set(SETTINGS[:6]) and not any(_of_column(*each) for each in settings.items())
    return settings if valid and settings["engine"] else {}


class RowCheck:
    """The check of the rows of a folder, some at a time. It counts those that are refused.

    What a configuration determines is compared with ``config_hash``: it has to be the hash of the configuration that
    the row's columns state. Rows that were written before there were columns of settings need the configuration itself.

    Parameters
    ----------
    configs : callable
        Returns the configurations of the folder by their hash; it is called once, where they are needed.
    """

    def __init__(self, configs: Callable[[], Mapping[str, Mapping[str, Any]]]) -> None:
        self._configs = cache(configs)
        self._sizes: dict[str, list[str]] = {}
        self._rows = 0
        self._first: dict[str, Fault] = {}
        self._refused: Counter[str] = Counter()

    def faults(self, columns: Mapping[str, Sequence[str]]) -> tuple[dict[int, Fault], dict[str, NDArray[np.float64]]]:
        """Return why which rows are refused, by their number, and the columns of fractions as numbers.

        Parameters
        ----------
        columns : mapping of str to sequence of str
            All of `COLUMNS`, as text.
        """
        faults: dict[int, Fault] = {}

        def refuse(keys: Sequence[Any], why: Callable[[Any], Fault | None]) -> None:
            """Refuse rows that have no fault yet by a function of their keys."""
            sound = keys if not faults else [key for row, key in enumerate(keys) if row not in faults]
            wrong = {key: fault for key in set(sound) if (fault := why(key))}
            if wrong:
                faults.update((row, wrong[key]) for row, key in enumerate(keys) if row not in faults and key in wrong)

        def refuse_rows(wrong: NDArray[np.bool_], column: str, expected: str) -> None:
            for row in np.flatnonzero(wrong).tolist():
                faults.setdefault(row, Fault(column, columns[column][row], expected))

        numbers = {name: _to_floats(columns[name]) for name in _FLOATS}
        for name in COLUMNS:
            if name in numbers:
                most, found = min(VALUES[name].high, _MOST_NUMBER), numbers[name]
                refuse_rows((found < VALUES[name].low) | (found > most), name, VALUES[name].words)
            else:
                refuse(columns[name], partial(_of_column, name))
        done = np.array([status == "ok" for status in columns["status"]], dtype=bool)  # also where there are no rows
        there = np.isfinite(numbers["objective"])
        refuse_rows(done & ~there, "objective", "a number in a trial that is ok")
        refuse_rows(~done & there, "objective", "none in a trial that failed")
        parts = sum(numbers[f"{part}_seconds"] for part in ("prepare", "reduce", "cluster"))
        total = numbers["total_seconds"]
        apart = np.abs(total - parts) > _ROUNDING_OF_TIMES * (1 + total)
        apart |= done & (np.isnan(total) != np.isnan(parts))
        refuse_rows(apart, "total_seconds", "the sum of prepare, reduce and cluster")
        sizes = _rows_of(columns, ("data_sha256", "n", "d", "nnz", "k", "status"))
        for (data, *of_data, _, _), _ in Counter(sizes).most_common():
            self._sizes.setdefault(data, of_data)
        refuse(sizes, self._false_size)
        refuse(_rows_of(columns, _OF_CONFIG), self._false_config)
        self._rows += len(done)
        for fault in faults.values():
            self._first.setdefault(fault.column, fault)
            self._refused[fault.column] += 1
        return faults, numbers

    def _false_size(self, values: tuple[str, ...]) -> Fault | None:
        data, *sizes, k, status = values
        n, d, nnz = map(int, sizes)
        if nnz > n * d:
            return Fault("nnz", sizes[2], "at most n × d")
        if int(k) > n and status == "ok":
            return Fault("k", k, "at most n")
        for name, size, other in zip(("n", "d", "nnz"), sizes, self._sizes[data], strict=True):
            if size != other:
                return Fault(name, size, f"{other} as in other rows of the same data")
        return None

    def _false_config(self, values: tuple[str, ...]) -> Fault | None:
        row = dict(zip(_OF_CONFIG, values, strict=True))
        key = row["config_hash"]
        if not row["engine"]:
            row |= settings_in(self._configs().get(key, {}))
        config = config_of(row)
        if short_hash(config) == key:
            return None
        known = self._configs().get(key, {})
        if not settings_in(known):
            return Fault("config_hash", key, "the hash of the other columns or of a configuration in configs.jsonl")
        stated = {name: str(known.get(name)) for name in _OF_CONFIG[1:]}
        stated |= {"params": canonical(known.get("params")), **settings_in(known)}
        name = next((name for name in stated if row[name] != stated[name]), "config_hash")
        return Fault(name, row[name], f"{stated.get(name, 'that of the other columns')!r} as in configuration {key}")

    @property
    def refused(self) -> int:
        """How many rows were refused."""
        return self._refused.total()

    def sentences(self, path: Path) -> list[str]:
        """Return why which rows of a file were refused: a sentence for each column, at most ten, and a last one."""
        lines = [
            f"{count} of {self._rows} rows of {path} {'is' if count == 1 else 'are'} refused: {self._first[column]}"
            for column, count in self._refused.most_common(_MOST_NAMED)
        ]
        left = self._refused.total() - sum(count for _, count in self._refused.most_common(_MOST_NAMED))
        return [*lines, f"and {left} more of {path}"] if left else lines


def _rows_of(columns: Mapping[str, Sequence[str]], names: Sequence[str]) -> list[tuple[str, ...]]:
    return list(zip(*(columns[name] for name in names), strict=True))
