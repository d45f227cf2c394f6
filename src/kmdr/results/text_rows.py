"""Rows as text, for commands that write a table again. A row is one string, a sixth of the memory of a dictionary."""

import io
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path

from kmdr.results.csv_lines import csv_text
from kmdr.results.schema import COLUMNS
from kmdr.results.table_stream import most_bytes, too_large

_PLACES = {name: place for place, name in enumerate(COLUMNS)}
_SEPARATOR = "\0"  # no column may contain it
_BLOCK = 1000  # rows


@lru_cache(maxsize=16)
def _split(line: str) -> tuple[str, ...]:
    return tuple(line.split(_SEPARATOR))


class TextRow(Mapping[str, str]):
    """A row of a table, a mapping of column to text.

    There is a value for each of `COLUMNS`, without NUL characters.
    """

    __slots__ = ("_line",)

    def __init__(self, values: Iterable[str]) -> None:
        self._line = _SEPARATOR.join(values)

    def __getitem__(self, name: str) -> str:
        """Return the text of a column."""
        return _split(self._line)[_PLACES[name]]

    def __setitem__(self, name: str, text: str) -> None:
        """Replace the text of a column."""
        values = list(_split(self._line))
        values[_PLACES[name]] = text
        self._line = _SEPARATOR.join(values)

    def __iter__(self) -> Iterator[str]:
        return iter(COLUMNS)

    def __len__(self) -> int:
        return len(COLUMNS)

    def __repr__(self) -> str:
        return repr(dict(self))

    def texts(self) -> tuple[str, ...]:
        """Return the texts of all columns."""
        return _split(self._line)


def csv_blocks(rows: Iterable[Mapping[str, object]]) -> Iterator[bytes]:
    """Yield rows as the bytes of a CSV table, a block of rows at a time."""
    rows, header = iter(rows), [COLUMNS]
    while True:
        block = list(islice(rows, _BLOCK))
        # Floats are written by repr, which reads back to the same bits.
        lines = (row.texts() if isinstance(row, TextRow) else [row.get(name, "") for name in COLUMNS] for row in block)
        yield csv_text([*header, *lines]).encode()
        header = []
        if len(block) < _BLOCK:
            return


def csv_content(rows: Iterable[Mapping[str, object]], path: Path) -> bytes:
    """Return rows as the bytes of a CSV table.

    Raise `TooLargeError` if it is larger than the largest table that is read.
    """
    content, most = io.BytesIO(), most_bytes()
    for block in csv_blocks(rows):
        content.write(block)
        if content.tell() > most:
            raise too_large(path, f"at least {content.tell()}", most)
    return content.getvalue()  # joining a list of blocks would copy them


def add_ratios(rows: list[TextRow]) -> int:
    """Fill ``objective_ratio`` (F / F_best, empty if F_best is 0) and return the number of rows that changed."""
    changed = 0
    smallest: dict[tuple[str, str], float] = {}
    for row in rows:
        if row["objective"]:
            key = (row["data_sha256"], row["k"])
            smallest[key] = min(smallest.get(key, float("inf")), float(row["objective"]))
    for row in rows:
        least = smallest.get((row["data_sha256"], row["k"]), 0.0)
        ratio = repr(float(row["objective"]) / least) if row["objective"] and least > 0 else ""
        if row["objective_ratio"] != ratio:
            row["objective_ratio"] = ratio
            changed += 1
    return changed
