"""The columns of ``rows.csv``: their names, order, values, meaning and units."""

import re
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from kmdr.config.task import SETTINGS

Row = dict[str, Any]

# `code_hash` and the column of plugins together identify the code of a row (see `kmdr.config.task.code_identity`);
# `code_version` is the version of the whole project. `options` contains the dataset's name if its title differs.
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
    """The values that a column may have.

    Attributes
    ----------
    words : str
        A description of a value, for messages.
    pattern : Pattern
        It matches the whole text; if it matches the empty text, a value may be missing.
    low, high : float
        The range of numbers.
    meaning : str
        What a value states about the trial, for the data dictionary.
    unit : str
        The unit of numbers that have one.
    """

    words: str
    pattern: re.Pattern[str]
    low: float = -sys.float_info.max
    high: float = sys.float_info.max
    meaning: str = ""
    unit: str = ""

    @property
    def needed(self) -> bool:
        """True if no row may lack it."""
        return not self.pattern.fullmatch("")


_ROUNDING = 1e-9  # of measures that are at most 1
_WHOLE = re.compile("0|[1-9][0-9]*")
_MAYBE_WHOLE = re.compile(f"({_WHOLE.pattern})?")
NUMBER = re.compile(r"(-?\d+(\.\d+)?(e[+-]?\d+)?)?", re.ASCII)
_MOST = 2.0**53  # whole numbers up to it are exact as floats
_HASH = re.compile("[0-9a-f]{12}")
_JSON = re.compile(r"(\{.*\})?", re.DOTALL)
_NAME = Values("a name", re.compile(r"(?!\.{1,2}$)[^\x00-\x1f\x7f]+"))
_COUNT = Values("a whole number of at least 1", _WHOLE, 1, _MOST)
_COUNT_FROM_0 = Values("a whole number of at least 0", _WHOLE, 0, _MOST)
_MAYBE_COUNT = Values("a whole number of at least 0", _MAYBE_WHOLE, 0, _MOST)
_SHARE = Values("a number from 0 to 1", NUMBER, 0, 1 + _ROUNDING)
_SECONDS = Values("a duration in seconds", NUMBER, 0, unit="s")
_OBJECT = Values("a JSON object", _JSON)
_TEXT = Values("text", re.compile(r"[^\0]*"))
_KEY = Values("12 hexadecimal digits", _HASH)


def _values(values: Values, meaning: str, unit: str = "") -> Values:
    return values._replace(meaning=meaning, unit=unit or values.unit)


VALUES: Mapping[str, Values] = {
    "study": _values(_NAME, "the study that the trial belongs to; `custom` outside any"),
    "dataset": _values(_NAME, "the dataset A"),
    "reducer": _values(_NAME, "the method that reduces A to C; `none` is k-means on all features"),
    "params": Values("a JSON object", re.compile(r"\{.*\}", re.DOTALL), meaning="the settings of the reducer"),
    "n": _values(_COUNT, "points: rows of A", "points"),
    "d": _values(_COUNT, "features: columns of A", "features"),
    "nnz": _values(_COUNT_FROM_0, "stored entries of A; n × d if A is dense", "entries"),
    "k": _values(_COUNT, "clusters", "clusters"),
    "r": _values(_COUNT, "dimensions: columns of C", "dimensions"),
    "repeat": _values(_COUNT_FROM_0, "the repetition, from 0; all methods start from the same points in it"),
    "seed": Values("a whole number of at least 0", _WHOLE, 0, meaning="the root seed that every draw comes from"),
    "engine": _values(_TEXT, "the engine that clusters C"),
    "start": _values(_TEXT, "the method that draws the first centres"),
    "n_init": _values(_MAYBE_COUNT, "starts of k-means; the one with the smallest F on C is kept", "starts"),
    "max_iter": _values(_MAYBE_COUNT, "largest number of iterations of Lloyd's method", "iterations"),
    "kmeans": _values(_OBJECT, "settings of k-means without a column"),
    "matching": _values(_TEXT, "the method that matches clusters to classes for the accuracy P"),
    "options": _values(_OBJECT, "options of the dataset that differ from the defaults"),
    "objective": _values(
        _SHARE, "F: the k-means objective of the clusters on A, all features, over the squared norm of A"
    ),
    "objective_ratio": Values(
        "a number of at least 1",
        NUMBER,
        1,
        meaning="F over the smallest F in the folder for the same data and k, or empty",
    ),
    "accuracy": _values(_SHARE, "P: share of points whose cluster is matched to their class"),
    "nmi": _values(_SHARE, "normalised mutual information of clusters and classes"),
    "ari": Values(
        "a number from -0.5 to 1",
        NUMBER,
        -0.5 - _ROUNDING,
        1 + _ROUNDING,
        "adjusted Rand index of clusters and classes",
    ),
    "metrics": _values(_OBJECT, "metrics without a column, by name"),
    "prepare_seconds": _values(_SECONDS, "time of the reducer's steps that do not depend on r, in full in each row"),
    "reduce_seconds": _values(_SECONDS, "time of the reduction to this r"),
    "cluster_seconds": _values(_SECONDS, "time of k-means on C"),
    "total_seconds": _values(_SECONDS, "prepare + reduce + cluster: the papers' running time"),
    "score_seconds": _values(_SECONDS, "time of scoring, not part of the other times"),
    "n_iter": _values(_MAYBE_COUNT, "iterations of the start that was kept", "iterations"),
    "n_init_failed": _values(
        _MAYBE_COUNT, "starts that did not converge within `max_iter` iterations, or failed", "starts"
    ),
    "status": Values("ok or failed", re.compile("ok|failed"), meaning="whether the trial succeeded"),
    "error": _values(_TEXT, "the error message of a failed trial"),
    "concurrency": _values(_COUNT, "workers that ran at the same time; only times with 1 are compared", "workers"),
    "threads": _values(_COUNT, "threads of BLAS and OpenMP", "threads"),
    "stand_in": _values(_TEXT, "a description of the data, if they replace unavailable data of a paper"),
    "config_hash": _values(_KEY, "the configuration: a line of `configs.jsonl`"),
    "data_sha256": Values("64 hexadecimal digits", re.compile("[0-9a-f]{64}"), meaning="SHA-256 of the content of A"),
    "code_version": Values(
        "a version such as 1.0.0", re.compile(r"[0-9A-Za-z.+!_-]{1,100}"), meaning="the version of kmdr"
    ),
    "code_hash": Values(
        "12 hexadecimal digits",
        re.compile(f"({_HASH.pattern})?"),
        meaning="hash of the code that computes the row: its syntax without names of locals, comments and docstrings",
    ),
    "guests": _values(_TEXT, "plugins that took part: name, version and hash of their files"),
    "env_hash": _values(_KEY, "the environment: `environments/<hash>.json`"),
    "machine": Values(
        "12 hexadecimal digits",
        re.compile(f"({_HASH.pattern})?"),
        meaning="hash of the machine's identity; times of several machines are not combined",
    ),
}
# Columns that hold a JSON object.
JSON_COLUMNS = ("params", "metrics", "kmeans", "options")
NUMBERS = tuple(name for name in COLUMNS if VALUES[name].pattern in (_WHOLE, _MAYBE_WHOLE, NUMBER))
WHOLE_NUMBERS = tuple(name for name in COLUMNS if VALUES[name].pattern in (_WHOLE, _MAYBE_WHOLE))
