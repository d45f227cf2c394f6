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
    pattern : Pattern
        Of the whole text; where it matches nothing, a value may be missing.
    low, high : float
        Of numbers.
    """

    words: str
    pattern: re.Pattern[str]
    low: float = -sys.float_info.max
    high: float = sys.float_info.max

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
_SHARE = Values("a number from 0 to 1", _NUMBER, 0, 1 + _ROUNDING)
VALUES: Mapping[str, Values] = {
    **dict.fromkeys(("study", "dataset", "reducer"), Values("a name", re.compile(r"(?!\.{1,2}$)[^/\x00-\x1f\x7f]+"))),
    "params": Values("a JSON object", re.compile(r"\{.*\}", re.DOTALL)),
    **dict.fromkeys(
        ("n", "d", "k", "r", "concurrency", "threads"), Values("a whole number of at least 1", _WHOLE, 1, _MOST)
    ),
    **dict.fromkeys(("nnz", "repeat"), Values("a whole number of at least 0", _WHOLE, 0, _MOST)),
    **dict.fromkeys(
        ("n_init", "max_iter", "n_iter", "n_init_failed"),
        Values("a whole number of at least 0", _MAYBE_WHOLE, 0, _MOST),
    ),
    "seed": Values("a whole number of at least 0", _WHOLE, 0),
    **dict.fromkeys(("objective", "accuracy", "nmi"), _SHARE),
    "ari": Values("a number from -1 to 1", _NUMBER, -1, 1 + _ROUNDING),
    "objective_ratio": Values("a number of at least 1", _NUMBER, 1),
    **dict.fromkeys(
        (name for name in COLUMNS if name.endswith("_seconds")), Values("a duration in seconds", _NUMBER, 0)
    ),
    "status": Values("ok or failed", re.compile("ok|failed")),
    "code_version": Values("a version such as 1.0.0", re.compile(r"[0-9A-Za-z.+!_-]{1,100}")),
    **dict.fromkeys(("config_hash", "env_hash"), Values("12 hexadecimal digits", _HASH)),
    "code_hash": Values("12 hexadecimal digits", re.compile(f"({_HASH.pattern})?")),
    "data_sha256": Values("64 hexadecimal digits", re.compile("[0-9a-f]{64}")),
    **dict.fromkeys(("metrics", "kmeans", "options"), Values("a JSON object", re.compile(r"(\{.*\})?", re.DOTALL))),
    **dict.fromkeys(
        ("error", "stand_in", "guests", "engine", "start", "matching"),
        Values("text", re.compile(r"[^\0]*")),
    ),
}
NUMBERS = tuple(name for name in COLUMNS if VALUES[name].pattern in (_WHOLE, _MAYBE_WHOLE, _NUMBER))
WHOLE_NUMBERS = tuple(name for name in COLUMNS if VALUES[name].pattern in (_WHOLE, _MAYBE_WHOLE))


def _is_valid(column: str, text: str) -> bool:
    values = VALUES[column]
    if not values.pattern.fullmatch(text):
        return False
    if column in NUMBERS:
        return not text or values.low <= float(text) <= values.high
    if column in ("params", "metrics", "kmeans", "options"):
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
