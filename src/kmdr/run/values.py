"""What the columns of a table of rows hold: for whoever reads one, a run or a report."""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kmdr.files import DamagedError
from kmdr.run.task import COLUMNS


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
_NAME = Values("a name", re.compile(r"(?!\.{1,2}$)[^/\x00-\x1f\x7f]+"))
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
        "12 hexadecimal digits", re.compile(f"({_HASH.pattern})?"), meaning="the modules that compute the row"
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


def _is_valid(column: str, text: str) -> bool:
    values = VALUES[column]
    if not values.pattern.fullmatch(text):
        return False
    if column in NUMBERS:
        return not text or values.low <= float(text) <= values.high
    if column in JSON_COLUMNS:
        try:
            json.loads(text or "{}")
        except (ValueError, RecursionError):
            return False
    return True


def check_values(columns: Mapping[str, Sequence[str]], path: Path) -> None:
    """Check that the values of a table can be those of trials.

    Parameters
    ----------
    columns : mapping of str to sequence of str
        All of `COLUMNS`, as text.
    path : Path
        Of the table.

    Raises
    ------
    DamagedError
        With the first value that is not what its column holds.
    """
    for name, texts in columns.items():
        for text in sorted(set(texts)):
            if not _is_valid(name, text):
                raise DamagedError(f"{path} is damaged: {name} has {text[:40]!r}, which is not {VALUES[name].words}")
    for status, objective in zip(columns["status"], columns["objective"], strict=True):
        if (status == "ok") != bool(objective):
            raise DamagedError(f"{path} is damaged: a trial that is {status} has objective {objective!r}")
