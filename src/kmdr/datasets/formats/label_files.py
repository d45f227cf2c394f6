"""Read files of labels, with one line or entry per point.

`read_labels` reads the labels of a dataset from a file or one of its columns: it is named by option ``labels``, or lies
in a folder of parts. `label_columns` reads partitions that any program wrote: every column is one.
"""

from collections.abc import Sequence
from csv import reader
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kmdr.base.errors import UserError, check_memory, shown, unknown
from kmdr.base.files import refuse_irregular
from kmdr.base.text import counted
from kmdr.datasets.file_options import DEFAULTS, FileOptions
from kmdr.datasets.formats import arrays, hdf5, tables, vectors
from kmdr.datasets.formats.common import COMPRESSED, decoded, memory_limit, reading, unpacked

_USUAL_SEPARATORS = {".csv": "comma", ".tsv": "tab"}
_SHOWN_COLUMNS = 4
# Numbers of eight bytes that a cell of text takes in memory.
_CELL = 10

# Labels, and where they are in words.
Labels = tuple[NDArray[Any], str]


def read_labels(path: Path, n: int, label: str = "") -> Labels:
    """Read the labels of n points from a separate file, and say where in it they are.

    The file is an array (``.npy``, IDX, a variable of ``.mat``), a table whose column `label` is read (Parquet, Excel,
    ``.csv``, ``.tsv``), or else text with one label per line. A text or an Excel sheet with n + 1 lines has a header.
    """
    with reading(path, "label"):
        limit = memory_limit([path], DEFAULTS["max_gb"])
        outer, inner = path.suffix.lower(), _uncompressed_suffix(path)
        if outer == ".npy":
            return _npy_labels(path, n, label)
        if outer == ".mat":
            return _mat_labels(path, limit, label)
        if vectors.sniff(path) == "idx":
            _choose_column(path, ["0"], label)
            return vectors.idx_array(path, limit), path.name
        if inner in (".parquet", ".pq"):
            return _parquet_labels(path, limit, label)
        if inner in (".xlsx", ".xlsm"):
            rows, encoding = _sheet_rows(path, limit), ""
        else:
            text, encoding = decoded(path, "label", b"".join(unpacked(path, limit)))
            _refuse_many_lines(path, text, n)
            rows = _text_rows(path, _split_lines(text), inner, label)
    labels, where = _column_labels(path, rows, n, label)
    return labels, where + (", not UTF-8, so read as Windows-1252" if encoding == "cp1252" else "")


def _uncompressed_suffix(path: Path) -> str:
    """Return the extension of a file in lower case; that of ``labels.csv.gz`` is ``.csv``."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix in COMPRESSED else suffix


def _split_lines(text: str) -> list[str]:
    """Return the lines of a text, ended by LF, CR LF or CR, without the spaces around them; tabs separate cells."""
    lines = [line.strip(" ") for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    return lines[:-1] if lines[-1] == "" else lines


def _npy_labels(path: Path, n: int, label: str) -> Labels:
    """Read labels from an array, of which a column is named by its number from 0."""
    array = np.load(path, allow_pickle=False)
    if array.ndim != 2 or 1 in array.shape or len(array) != n:
        if array.ndim < 2 or 1 in array.shape:
            _choose_column(path, ["0"], label)
        return array, path.name
    column = _choose_column(path, [str(j) for j in range(array.shape[1])], label)
    return array[:, int(column)], f"{path.name}, column {column!r}"


def _mat_labels(path: Path, limit: float, label: str) -> Labels:
    """Read labels from a variable of a MAT file: the named one, one with a usual name, or the only one."""
    held = hdf5.mat_variables(path)
    name = arrays.pick_classes(path, held, label) or _single_column(path, held or [""])
    return np.asarray(hdf5.mat(path, limit, FileOptions(matrix=name)).A), f"{path.name}, variable {name!r}"


def _parquet_labels(path: Path, limit: float, label: str) -> Labels:
    """Read labels from a column of a Parquet file: the named one, ``label``, or the only one."""
    content = tables.parquet(path, limit, FileOptions(label=label))
    if content.labels is None:
        names = list(map(str, content.A.columns))
        content = tables.parquet(path, limit, FileOptions(label=_single_column(path, names)))
    return content.labels, f"{path.name}, {content.labelled}"


def _sheet_rows(path: Path, limit: float) -> list[list[str]]:
    """Return the cells of the first sheet of a workbook as text."""
    sheet, _, above, _ = tables.inspect_sheet(path, limit)
    cells = pd.read_excel(
        path, sheet_name=sheet, header=None, engine="openpyxl", dtype=object, na_filter=False, skiprows=above
    )
    return [[str(cell).strip() for cell in row] for row in cells.to_numpy(object)]


def _refuse_many_lines(path: Path, text: str, n: int) -> None:
    """Refuse a text of far more lines than points before it is split into them, which takes much memory."""
    lines = max(text.count("\n"), text.count("\r"))
    if lines > 2 * n + 2:
        raise UserError(f"{path.name} has {lines} lines for {n} points; give one label per point")


def _text_rows(path: Path, lines: Sequence[str], suffix: str, label: str) -> list[list[str]]:
    """Return the cells of the lines of a text.

    A line is one cell unless the extension is that of a table and all lines have the same number of cells. Blank lines
    of a table with several columns are skipped. If its first line has a cell with the name `label`, lines of another
    number of cells are an error.
    """
    whole = [[line] for line in lines]
    if suffix not in _USUAL_SEPARATORS:
        return whole
    separator = tables.likely_separator(lines, _USUAL_SEPARATORS[suffix])
    if separator == "space":  # labels of several words
        separator = _USUAL_SEPARATORS[suffix]
    rows = [tables.split_cells(line, separator) for line in lines]
    if all(len(row) <= 1 for row in rows):  # a single column, which may be quoted
        rows = [next(reader([line]), [""]) for line in lines]
    else:
        lines, rows = [line for line in lines if line.strip()], [row for row in rows if row]
    is_table = len({len(row) for row in rows}) == 1 and any(rows)
    if not is_table and label and rows and len(rows[0]) > 1 and label in map(str.strip, rows[0]):
        odd, row = next((number, row) for number, row in enumerate(rows) if len(row) != len(rows[0]))
        raise UserError(
            f"line {odd + 1} of {path.name}, {shown(lines[odd])}, has {counted(len(row), 'cell')}, but the first has "
            f"{len(rows[0])}; write a text with a line end or a separator in one line, between quotes"
        )
    return rows if is_table else whole


def _column_labels(path: Path, rows: Sequence[Sequence[str]], n: int, label: str) -> Labels:
    """Return the labels in the column `label`, or the only one, of the rows of a text or a sheet."""
    named = len(rows) == n + 1
    names = [cell.strip() for cell in rows[0]] if named else [str(j) for j in range(len(rows[0]) if rows else 1)]
    if label and not named and label not in names and rows and label in map(str.strip, rows[0]):
        raise UserError(
            f"{path.name} has {counted(len(rows) - 1, 'line')} below its header for {n} points; give one label per "
            "point"
        )
    column = _choose_column(path, names, label)
    at = names.index(column)
    where = f"{path.name}{f', column {label!r}' if label else ''}{', after a header line' if named else ''}"
    return _labels_below(path, rows[named:], at, column if named else None), where


def _labels_below(path: Path, rows: Sequence[Sequence[str]], at: int, name: str | None) -> NDArray[Any]:
    """Return the labels in a column of rows, whose name is that in the line above, if there is one."""
    texts = [row[at].strip() for row in rows]
    if name is not None:
        _refuse_label_as_name(path, name, texts)
    return tables.as_labels(texts)


def _refuse_label_as_name(path: Path, name: str, labels: Sequence[str]) -> None:
    """Refuse a first line beyond one line per point if it does not seem to name the column of labels."""
    if name == "0" and name in labels and "" in labels:
        raise UserError(
            f"{path.name} has {len(labels) + 1} lines for {len(labels)} points, one of them blank, so the first line, "
            "'0', may be a name or a label; remove the blank line, or name the column"
        )
    if name != "0" and name in labels:  # pandas names an unnamed column 0
        raise UserError(
            f"{path.name} has {len(labels) + 1} lines for {len(labels)} points, and the first line, {name!r}, is one "
            "of the labels below it; remove the extra line"
        )


def _choose_column(path: Path, names: Sequence[str], label: str) -> str:
    """Return the name of the column of the labels: `label`, or the only one; refuse a missing or ambiguous name."""
    if label and label not in names:
        raise unknown(f"column of {path.name}", label, names)
    if names.count(label) > 1:
        raise UserError(f"{path.name} has {names.count(label)} columns named {label!r}; rename the others in the file")
    return label or _single_column(path, names)


def _single_column(path: Path, names: Sequence[str]) -> str:
    if len(names) > 1:
        raise UserError(
            f"{path.name} has {len(names)} columns; choose the labels, e.g. dataset.labels={path.name}:{names[0]} "
            f"(columns: {', '.join(names[:_SHOWN_COLUMNS])}{', …' * (len(names) > _SHOWN_COLUMNS)})"
        )
    return names[0]


# -- partitions ------------------------------------------------------------------------------------------------------


def label_columns(path: Path, n: int) -> dict[str, NDArray[Any]]:
    """Read every column of a file of labels of n points, by its name, or by its number from 0.

    The file is ``.npy``, Parquet, or text, which may be compressed. Lines of text are split at commas, semicolons, tabs
    or bars, and at spaces if all cells below the first line are whole numbers. Text with one line more than the n
    points has a header; without n lines of equally many cells it is refused. Columns of arrays and Parquet may have any
    length.
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
        rows = _rows_of_partitions(path, n, limit)
    named = len(rows) == n + 1
    names = [cell.strip() for cell in rows[0]] if named else [str(j) for j in range(len(rows[0]))]
    if len(set(names)) < len(names):
        raise UserError(f"{path.name} has several columns of the same name; rename them in the first line")
    return {name: _labels_below(path, rows[named:], j, name if named else None) for j, name in enumerate(names)}


def _array_columns(path: Path) -> dict[str, NDArray[Any]]:
    array = arrays.map_npy(path)
    if array.ndim not in (1, 2) or not array.size:
        raise UserError(f"{path.name} has an array of shape {array.shape}; give one label per point")
    columns = array[:, None] if array.ndim == 1 else array.T if array.shape[0] == 1 else array
    return {str(j): columns[:, j] for j in range(columns.shape[1])}


def _rows_of_partitions(path: Path, n: int, limit: float) -> list[list[str]]:
    """Return the cells of n or n + 1 lines of text, equally many in each."""
    text, encoding = decoded(path, "label", b"".join(unpacked(path, limit)))
    if encoding == "cp1252":
        raise UserError(f"{path.name} is not UTF-8 text; save it as UTF-8")
    lines = _split_lines(text)
    if len(lines) not in (n, n + 1):
        raise UserError(f"{path.name} has {counted(len(lines), 'line')} for {n} points; give one line per point")
    separator = tables.likely_separator(lines, _USUAL_SEPARATORS.get(_uncompressed_suffix(path), "comma"))
    first = tables.split_cells(lines[0], separator)
    check_memory(f"the labels of {path.name}", float(_CELL * len(lines) * len(first)))
    rows = [tables.split_cells(line, separator) for line in lines]
    if separator == "space" and not all(tables.is_whole(cell) for row in rows[1:] for cell in row):
        return [[line] for line in lines]  # labels of several words
    for number, row in enumerate(rows, 1):
        if len(row) != len(first):
            raise UserError(
                f"line {number} of {path.name} has {counted(len(row), 'cell')}, but the first has {len(first)}; give "
                "one cell per partition in each line"
            )
    # A single column may be quoted.
    return rows if len(first) > 1 else [next(reader([line]), [""])[:1] or [""] for line in lines]
