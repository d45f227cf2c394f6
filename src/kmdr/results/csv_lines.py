"""Lines of CSV files: written so that each can be read again, and checked for missing fields while they are read."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd

from kmdr.base.files import DamagedError
from kmdr.results.checked_bytes import CheckedBytes

_COMMA, _QUOTE, _ENDS = ord(","), ord('"'), (ord("\n"), ord("\r"))


def csv_text(lines: Iterable[Sequence[Any]]) -> str:
    r"""Return lines as CSV that ends each with ``\n`` and quotes fields where needed.

    Until Python 3.13, `csv.writer` writes a carriage return without quotes, which a reader takes for the end of a line.
    """
    text = io.StringIO(newline="")
    usual = csv.writer(text, lineterminator="\n")
    quoting = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for line in lines:
        has_return = any(isinstance(field, str) and "\r" in field for field in line)
        (quoting if has_return else usual).writerow(line)
    return text.getvalue()


def table_bytes(table: pd.DataFrame, float_format: str | None = None) -> bytes:
    """Return a table without its index as CSV in UTF-8; see `csv_text`."""
    text = table.to_csv(index=False, lineterminator="\n", float_format=float_format)
    if "\r" in text:
        text = table.to_csv(index=False, lineterminator="\n", float_format=float_format, quoting=csv.QUOTE_ALL)
    return text.encode()


class CompleteLines(CheckedBytes):
    """The bytes of a CSV file; reading raises `DamagedError` at a line of fewer fields than columns.

    `pandas.read_csv` fills such a line up with empty fields. Lines without any text are skipped, as there.
    """

    def __init__(self, file: BinaryIO, path: Path, columns: int) -> None:
        super().__init__(file)
        self._path, self._columns = path, columns
        self._number = 2  # of the line that the last block ended in; the header is read before
        # Of that line: its quotes and commas so far, and whether it has any text.
        self._quotes, self._commas, self._has_text = 0, 0, False

    def check(self, content: bytes) -> None:
        """Check the lines that end in a block."""
        if self._columns <= 1:
            return
        content = content or b"\n"  # the last line of a file needs no line end
        codes = np.frombuffer(content, np.uint8)
        quotes = self._quotes + np.cumsum(codes == _QUOTE)
        outside = quotes % 2 == 0
        commas = self._commas + np.cumsum((codes == _COMMA) & outside)
        ends = np.flatnonzero(np.isin(codes, _ENDS) & outside)
        starts = np.append(0, ends + 1)
        fields = 1 + np.diff(commas[ends], prepend=0)
        for line in np.flatnonzero(fields < self._columns):
            if content[starts[line] : ends[line]].strip() or (line == 0 and self._has_text):
                raise DamagedError(
                    f"{self._path} is damaged: line {self._number + int(line)} has {int(fields[line])} of "
                    f"{self._columns} fields; get the folder again, or run the study again"
                )
        self._has_text = bool(content[starts[-1] :].strip()) or (len(ends) == 0 and self._has_text)
        self._commas = int(commas[-1] - (commas[ends[-1]] if len(ends) else 0))
        self._quotes = int(quotes[-1]) % 2
        self._number += len(ends)


def complete_lines(file: BinaryIO, path: Path, columns: int) -> io.BufferedReader:
    """Return the rest of a CSV file as `CompleteLines`."""
    return CompleteLines(file, path, columns).buffered()
