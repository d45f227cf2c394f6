"""Read partitions that any program wrote: every column of a file of labels is one.

`kmdr.datasets.formats.label_files` reads the labels of a dataset from a file or one of its columns.
"""

from collections.abc import Sequence
from csv import reader
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from kmdr.base.errors import UserError, check_memory
from kmdr.base.files import refuse_irregular
from kmdr.base.text import counted
from kmdr.datasets.file_options import DEFAULTS, FileOptions
from kmdr.datasets.formats import tables
from kmdr.datasets.formats.arrays import map_npy
from kmdr.datasets.formats.common import memory_limit, reading, unpacked
from kmdr.datasets.formats.label_files import (
    USUAL_SEPARATORS,
    refuse_label_as_name,
    split_lines,
    uncompressed_suffix,
)

# Numbers of eight bytes that a cell of text takes in memory.
_CELL = 10


def label_columns(path: Path, n: int) -> dict[str, NDArray[Any]]:
    """Read every column of a file of labels of n points, by its name, or by its number from 0.

    The file is ``.npy``, Parquet, or text, which may be compressed. Lines of text are split at commas, semicolons, tabs
    or bars, and at spaces if all cells below the first line are whole numbers. Text with one line more than the n
    points has a header. Columns of arrays and Parquet may have any length.

    Raises
    ------
    UserError
        If the file cannot be read, or text does not have n lines of equally many cells.
    """
    refuse_irregular(path)
    with reading(path, "label"):
        limit = memory_limit([path], DEFAULTS["max_gb"])
        if path.suffix.lower() == ".npy":
            return _array_columns(path)
        if path.suffix.lower() in (".parquet", ".pq"):
            frame = tables.parquet(path, limit, FileOptions()).A
            whole = [str(name) for name in frame if tables.lost_integers(frame[name])]
            exact = {name: tables.parquet_labels(path, name) for name in whole}
            return {str(name): tables.classes_of(exact.get(str(name), frame[name])) for name in frame}
        rows = _rows(path, n, limit)
    named = len(rows) == n + 1
    names = [cell.strip() for cell in rows[0]] if named else [str(j) for j in range(len(rows[0]))]
    if len(set(names)) < len(names):
        raise UserError(f"{path.name} has several columns of the same name; rename them in the first line")
    columns = {}
    for j, name in enumerate(names):
        texts = [row[j].strip() for row in rows[named:]]
        if named:
            refuse_label_as_name(path, name, texts)
        columns[name] = tables.as_labels(texts)
    return columns


def _array_columns(path: Path) -> dict[str, NDArray[Any]]:
    array = map_npy(path)
    if array.ndim not in (1, 2) or not array.size:
        raise UserError(f"{path.name} has an array of shape {array.shape}; give one label per point")
    columns = array[:, None] if array.ndim == 1 else array.T if array.shape[0] == 1 else array
    return {str(j): columns[:, j] for j in range(columns.shape[1])}


def _rows(path: Path, n: int, limit: float) -> list[list[str]]:
    """Return the cells of n or n + 1 lines of text, equally many in each."""
    content = b"".join(unpacked(path, limit))
    if b"\0" in content:
        raise UserError(f"{path.name} contains null bytes; save it as UTF-8 text")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path.name} is not UTF-8 text ({error.reason}); save it as UTF-8") from error
    lines = split_lines(text)
    if len(lines) not in (n, n + 1):
        raise UserError(f"{path.name} has {counted(len(lines), 'line')} for {n} points; give one line per point")
    separator = tables.likely_separator(lines, USUAL_SEPARATORS.get(uncompressed_suffix(path), "comma"))
    first = tables.split_cells(lines[0], separator)
    check_memory(f"the labels of {path.name}", float(_CELL * len(lines) * len(first)))
    rows = [tables.split_cells(line, separator) for line in lines]
    if separator == "space" and not all(tables.is_whole(cell) for row in rows[1:] for cell in row):
        return [[line] for line in lines]  # labels of several words
    _refuse_ragged(path, rows)
    # A single column may be quoted.
    return rows if len(first) > 1 else [next(reader([line]), [""])[:1] or [""] for line in lines]


def _refuse_ragged(path: Path, rows: Sequence[Sequence[str]]) -> None:
    for number, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            raise UserError(
                f"line {number} of {path.name} has {counted(len(row), 'cell')}, but the first has {len(rows[0])}; give "
                "one cell per partition in each line"
            )
