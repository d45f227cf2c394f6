"""Rows of a table as text, each in one string: a sixth of the memory of a dictionary, however many texts differ."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from kmdr.base.errors import UserError
from kmdr.base.files import DamagedError
from kmdr.results.schema import COLUMNS
from kmdr.results.table import check_rows, most_bytes, too_large

_PLACES = {name: place for place, name in enumerate(COLUMNS)}
_BETWEEN = "\0"  # which no column may hold
_BLOCK = 1000  # rows


@lru_cache(maxsize=16)
def _split(line: str) -> tuple[str, ...]:
    return tuple(line.split(_BETWEEN))


class TextRow(Mapping[str, str]):
    """A row of a table: a text for each of `COLUMNS`.

    Parameters
    ----------
    values : iterable of str
        In the order of `COLUMNS`, without the character 0.
    """

    __slots__ = ("_line",)

    def __init__(self, values: Iterable[str]) -> None:
        self._line = _BETWEEN.join(values)

    def __getitem__(self, name: str) -> str:
        """Return the text of a column."""
        return _split(self._line)[_PLACES[name]]

    def __setitem__(self, name: str, text: str) -> None:
        """Replace the text of a column."""
        values = list(_split(self._line))
        values[_PLACES[name]] = text
        self._line = _BETWEEN.join(values)

    def __iter__(self) -> Iterator[str]:
        return iter(COLUMNS)

    def __len__(self) -> int:
        return len(COLUMNS)

    def __repr__(self) -> str:
        return repr(dict(self))

    def texts(self) -> tuple[str, ...]:
        """Return the texts of all columns."""
        return _split(self._line)


def parse_rows(file: BinaryIO, path: Path) -> Iterator[TextRow]:
    """Yield the rows of an open table; columns that came later are empty in older ones.

    Raises
    ------
    DamagedError
        When it is not a table.
    UserError
        When it has a column that this version does not know.
    """
    text = io.TextIOWrapper(file, "utf-8", newline="")
    try:
        yield from _parsed(csv.reader(text, strict=True), path)
    except DamagedError:  # of the file itself
        raise
    except (ValueError, csv.Error) as error:
        raise DamagedError(f"{path} is damaged: it is not a table of rows ({error})") from error
    finally:
        with suppress(ValueError):  # closed already, where not all rows were taken
            text.detach()


def _parsed(lines: Iterator[list[str]], path: Path) -> Iterator[TextRow]:
    header = next(lines, [])
    if not header:
        raise DamagedError(f"{path} is damaged: it is empty")
    if len(set(header)) < len(header) or not set(header) <= set(COLUMNS):
        raise UserError(
            f"{path} has other columns than this version of kmdr ({_strange(header)}); move it away or use another "
            "out folder"
        )
    places = None if tuple(header) == COLUMNS else [header.index(name) if name in header else -1 for name in COLUMNS]
    for count, line in enumerate(lines, 1):
        if count % _BLOCK == 0:
            check_rows(count, path)
        if len(line) != len(header):
            raise ValueError(f"a line has {len(line)} fields, and the first has {len(header)}")
        row = TextRow(line if places is None else [line[place] if place >= 0 else "" for place in places])
        if row._line.count(_BETWEEN) != len(COLUMNS) - 1:
            raise ValueError("a field has the character 0")
        yield row


def _strange(header: list[str]) -> str:
    """Name some columns of a header that a table cannot have, which may be somebody else's private text."""
    names = sorted({name for name in header if name not in COLUMNS or header.count(name) > 1})
    return ", ".join(repr(name[:30]) for name in names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def csv_blocks(rows: Iterable[Mapping[str, object]]) -> Iterator[bytes]:
    """Yield a table of rows as CSV, some rows at a time."""
    rows, header = iter(rows), [COLUMNS]
    while True:
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows(header)
        block = list(islice(rows, _BLOCK))
        # Floats are written by repr, which reads back to the same bits.
        writer.writerows(
            row.texts() if isinstance(row, TextRow) else [row.get(name, "") for name in COLUMNS] for row in block
        )
        header = []
        yield text.getvalue().encode()
        if len(block) < _BLOCK:
            return


def csv_content(rows: Iterable[Mapping[str, object]], path: Path) -> bytes:
    """Return a table of rows as CSV, to be written to a path.

    Raises
    ------
    UserError
        When it is larger than what is read again.
    """
    content, most = io.BytesIO(), most_bytes()
    for block in csv_blocks(rows):
        content.write(block)
        if content.tell() > most:
            raise too_large(path, f"at least {content.tell()}", most)
    return content.getvalue()  # which is no copy, unlike that of a list of blocks
