"""Tables: CSV and its relatives, Parquet and Excel's xlsx, read to a DataFrame; and files of labels alone.

What a text separates its cells with, whether its first line names the columns and which sign is the decimal one are
found by themselves, from its first lines, unless options say so.
"""

import codecs
import re
import zipfile
from collections.abc import Mapping, Sequence
from csv import Error, reader
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kmdr.datasets.reading import COMPRESSED, READ_BYTES, Content, afford, brought, reading
from kmdr.errors import UserError, unknown

SEPARATORS: Mapping[str, str] = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|", "space": r"\s+"}
DECIMALS: Mapping[str, str] = {"point": ".", "comma": ","}
FOUND = "auto"
"""The value of an option that has a reader find out for itself."""

# From 3.1 pandas reads numbers exactly anyhow, and warns of the option.
_PANDAS = tuple(int(number) for number in pd.__version__.split(".")[:2])
_EXACT: dict[str, Any] = {} if _PANDAS >= (3, 1) else {"float_precision": "round_trip"}
_HEAD_BYTES, _MAX_COLUMNS = 2**24, 200_000
_SAMPLE_LINES, _SAMPLE_BYTES = 50, 2**20
# What a cell of a workbook takes while it is read.
_CELL_BYTES = 100
_NO_VALUE = {"", "na", "n/a", "nan", "null", "none", "?"}
_WITH_COMMA = re.compile(r"[+-]?\d+,\d+(e[+-]?\d+)?", re.IGNORECASE)


class _Sample(NamedTuple):
    """First lines of a text, and how they are to be read.

    Attributes
    ----------
    rows : list of list of str
        Their cells, after the comments.
    separator, encoding : str
    comments : int
        How many lines at the beginning are comments.
    names : list of str
        Cells of the last of these, where there are as many as in the line after it.
    """

    rows: list[list[str]]
    separator: str
    encoding: str
    comments: int
    names: list[str]


def csv(
    path: Path,
    limit: float,
    label: str = "",
    separator: str = FOUND,
    header: str = FOUND,
    decimal: str = FOUND,
    usual: str = "comma",
) -> Content:
    """Read a text of cells.

    Parameters
    ----------
    path : Path
    limit : float
        Most bytes that its numbers may take.
    label : str
        The column of the labels.
    separator, header, decimal : str
        Names in `SEPARATORS`, ``"true"`` or ``"false"``, names in `DECIMALS`; or to be found.
    usual : str
        The separator of files with its extension.
    """
    with reading(path, "CSV"):
        sample = _sample(path, usual, separator, limit)
        between = SEPARATORS[sample.separator]
        head, rest = sample.rows[0] if sample.rows else [], sample.rows[1:]
        second = rest[0] if rest else []
        if decimal == FOUND:
            decimal = _decimal(sample)
        named = names_columns(head, rest, DECIMALS[decimal]) if header == FOUND else header == "true"
        commented = bool(sample.names) and header == FOUND
        if len(second) > len(head):
            # pandas would take the first column for the names of the rows.
            raise UserError(
                f"the first line of {path.name} has {len(head)} columns and the second has {len(second)}; "
                "let the first name every column, and no line end with a separator"
            )
        frame = pd.read_csv(
            path, sep=between, header=0 if named and not commented else None, decimal=DECIMALS[decimal],
            encoding=sample.encoding, na_values=["?"], skipinitialspace=sample.separator != "space",
            skiprows=sample.comments, **_EXACT,
        )  # fmt: skip
        if commented:
            frame.columns = pd.Index(sample.names)
    said = [f"separator {sample.separator}", f"decimal {decimal}", _first_line(named or commented)]
    if sample.comments > commented:
        said.append(f"lines of comment before it: {sample.comments - commented}")
    if sample.encoding == "cp1252":
        said.append("not UTF-8, so read as Windows-1252")
    return _with_labels(path, frame, f"text, {', '.join(said)}", label)


def tsv(path: Path, limit: float, **options: str) -> Content:
    """Read a text whose cells are separated by tabs, unless it shows otherwise."""
    return csv(path, limit, usual="tab", **options)


def _first_line(named: bool) -> str:
    return "the first line names the columns" if named else "the first line is a point"


def _sample(path: Path, usual: str, separator: str, limit: float) -> _Sample:
    """Cells of the first lines of a table, once the whole is known to fit; read in blocks."""
    compressed = COMPRESSED.get(path.suffix.lower())
    with compressed(path, "rb") if compressed else path.open("rb") as file:
        lines = [file.readline(_HEAD_BYTES + 1), file.readline(_HEAD_BYTES + 1)]
        while len(lines) < _SAMPLE_LINES and sum(map(len, lines)) < _SAMPLE_BYTES and lines[-1]:
            lines.append(file.readline(_SAMPLE_BYTES))
        block, count = b"".join(lines), 0
        lines[0] = lines[0].removeprefix(codecs.BOM_UTF8)
        comments = next((i for i, line in enumerate(lines) if not line.startswith(b"#")), 0)
        if not any(lines[comments:]):
            comments = 0
        if separator == FOUND:
            separator = _separator([line.decode("latin-1") for line in lines[comments:]], usual)  # which is ASCII
        columns = len(_cells(lines[0].decode("latin-1"), separator))
        if len(lines[0]) > _HEAD_BYTES or columns > _MAX_COLUMNS:
            raise UserError(
                f"{path.name} has a first line of {len(lines[0])} bytes or more and {columns} columns or more, where "
                f"{_HEAD_BYTES} and {_MAX_COLUMNS} are allowed; save so wide a matrix as .npy or .npz"
            )
        utf8, encoding = codecs.getincrementaldecoder("utf-8-sig")(), "utf-8-sig"
        while block:
            if b"\0" in block:
                raise UserError(f"{path.name} is not a readable CSV file: it has bytes of 0; save it as UTF-8 text")
            if encoding != "cp1252":
                try:
                    utf8.decode(block)
                except UnicodeDecodeError:
                    encoding = "cp1252"
            count += block.count(b"\n")
            afford(path, f"unpacks to at least {count} lines of {columns} columns", 8.0 * count * columns, limit)
            block = file.read(READ_BYTES)
    # The last line of the sample may be cut off.
    texts = [line.decode(encoding, "replace") for line in lines[: max(comments + 1, len(lines) - 1)]]
    rows = [_cells(text, separator) for text in texts[comments:] if text.strip()]
    names = _cells(texts[comments - 1].lstrip("# "), separator) if comments else []
    if not rows or len(names) != len(rows[0]) or all(map(is_number, names)):
        names = []
    return _Sample(rows, separator, encoding, comments, names)


def _cells(line: str, separator: str) -> list[str]:
    if separator == "space":
        return line.split()
    try:
        return next(reader([line], delimiter=SEPARATORS[separator], skipinitialspace=True), [])
    except Error:  # a cell is too long for it
        return line.split(SEPARATORS[separator])


def _separator(lines: Sequence[str], usual: str) -> str:
    """Return what makes the most of the lines as long as the first, and the most of their cells numbers.

    The separator that the extension promises is taken where no other is better.
    """

    def score(separator: str) -> float:
        rows = [_cells(line, separator) for line in lines if line.strip()]
        if not rows or len(rows[0]) < 2:
            return 0.0
        alike = sum(len(row) == len(rows[0]) for row in rows) / len(rows)
        cells = [cell for row in rows for cell in row]
        numbers = sum(is_number(cell) or bool(_WITH_COMMA.fullmatch(cell.strip())) for cell in cells)
        return alike * (1 + numbers / len(cells))

    return max([usual, *SEPARATORS], key=score)  # the first of the best


def _decimal(sample: _Sample) -> str:
    cells = [cell.strip() for row in sample.rows for cell in row]
    commas = any(map(_WITH_COMMA.fullmatch, cells))
    points = any("." in cell and is_number(cell) for cell in cells)
    return "comma" if sample.separator != "comma" and commas and not points else "point"


def names_columns(first: Sequence[str], rest: Sequence[Sequence[str]], decimal: str = ".") -> bool:
    """Whether the first line of a table names its columns; else it is a point.

    Numbers and text beside each other are a point, unless the numbers count up as the names of columns do.
    """
    known = [cell.strip() for cell in first if cell.strip().lower() not in _NO_VALUE]
    numbers = [cell for cell in known if is_number(cell.replace(decimal, "."))]
    if not numbers:
        return True
    counted = [str(i) for i in range(len(known))]
    if known == counted and not first[0].strip():
        return True  # as pandas writes a matrix with its index
    if len(numbers) == len(known):
        # As pandas writes one without; but a matrix that goes on counting is one.
        follows = bool(rest) and [cell.strip() for cell in rest[0]] == [str(len(known) + i) for i in range(len(known))]
        return len(known) > 2 and known == counted and not follows
    texts = [j for j, cell in enumerate(first) if cell.strip() in known and cell.strip() not in numbers]
    recurring = all(any(j < len(row) and row[j] == first[j] for row in rest) for j in texts)
    counting = all(map(str.isdecimal, numbers)) and all(int(a) < int(b) for a, b in pairwise(numbers))
    return counting and not recurring


def is_number(text: str) -> bool:
    """Whether Python reads a text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def parquet(path: Path, limit: float, label: str = "") -> Content:
    """Read a Parquet file."""
    with reading(path, "Parquet"):
        texts = afford_parquet(path, limit)
        frame = pd.read_parquet(path, engine="pyarrow", read_dictionary=texts)
    return _with_labels(path, frame, "Parquet", label)


def afford_parquet(path: Path, limit: float) -> list[str]:
    """Refuse a Parquet file by what its end claims, before any of it is unpacked; return its columns of text.

    Text that repeats takes next to nothing in the file, whatever its length, so it is to be read as codes.
    """
    parquet = brought("pyarrow.parquet", "parquet", path)
    with parquet.ParquetFile(path) as file:
        held = file.metadata
        columns = [held.schema.column(i) for i in range(held.num_columns)]
        groups = [held.row_group(i) for i in range(held.num_row_groups)]
    needed = 0
    for group in groups:
        for i, column in enumerate(columns):
            chunk = group.column(i)
            needed += max(chunk.total_uncompressed_size, chunk.num_values * max(8, column.length or 0))
    afford(path, f"claims {held.num_rows} rows of {len(columns)} columns", needed, limit)
    return [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]


def xlsx(path: Path, limit: float, matrix: str = "", label: str = "", header: str = FOUND) -> Content:
    """Read a sheet of an Excel workbook: the one that is named as its matrix, else the first."""
    openpyxl = brought("openpyxl", "xlsx", path)
    with reading(path, "xlsx"):
        with zipfile.ZipFile(path) as archive:
            afford(path, "unpacks to too much", float(sum(info.file_size for info in archive.infolist())), limit)
        book = openpyxl.load_workbook(path, read_only=True, data_only=True, keep_links=False)
        sheets = book.sheetnames
        if matrix and matrix not in sheets:
            raise unknown(f"sheet of {path.name}", matrix, sheets)
        sheet = matrix or sheets[0]
        lines = book[sheet]
        lines.reset_dimensions()  # of which the file may claim any
        widest, sample = 0, list[list[str]]()
        for number, row in enumerate(lines.iter_rows(values_only=True), 1):
            if not any(cell is not None for cell in row):
                continue  # it counts only where there is one below it
            widest = max(widest, len(row))
            needed = float(_CELL_BYTES * number * widest)  # pandas makes all rows as wide
            afford(path, f"unpacks to at least {number} rows of {widest} cells", needed, limit)
            if len(sample) < _SAMPLE_LINES:
                sample.append(["" if cell is None else str(cell) for cell in row])
        book.close()
        if not sample:
            raise UserError(f"sheet {sheet!r} of {path.name} is empty; name another with dataset.matrix=…")
        named = names_columns(sample[0], sample[1:]) if header == FOUND else header == "true"
        frame = pd.read_excel(path, sheet_name=sheet, header=0 if named else None, engine="openpyxl", na_values=["?"])
    others = f", the first of {len(sheets)}" if len(sheets) > 1 and not matrix else ""
    return _with_labels(path, frame, f"xlsx, sheet {sheet!r}{others}, {_first_line(named)}", label)


def _with_labels(path: Path, frame: pd.DataFrame, form: str, label: str = "") -> Content:
    """Take the column of labels out of a table: the one that is named, else ``label``, where there is such a column."""
    frame.columns = frame.columns.map(str)
    if label and label not in frame.columns:
        raise unknown(f"column of {path.name}", label, list(frame.columns))
    column = label or "label"
    labels = classes_of(frame.pop(column)) if column in frame.columns else None
    return Content(frame, labels, None, form, f"column {column!r}")


def classes_of(column: pd.Series) -> NDArray[Any]:
    """Return a column of labels; where it is kept as codes, with one text for all points of a class."""
    if not isinstance(column.dtype, pd.CategoricalDtype):
        return column.to_numpy()
    classes = [*column.cat.categories, None]
    return np.array(classes, dtype=object)[column.cat.codes]


def label_file(path: Path, n: int, label: str = "") -> tuple[NDArray[Any], str]:
    """Read labels from a file of their own, and say where they are.

    Parameters
    ----------
    path : Path
        ``.npy``; text of one label a line, with or without a line that names them; or a table with a column of them.
    n : int
        Points. Text of one line more has a header.
    label : str
        The column of a table of several.
    """
    with reading(path, "label"):
        if path.suffix.lower() == ".npy":
            return np.load(path, allow_pickle=False), path.name
        if path.suffix.lower() in (".xlsx", ".parquet", ".pq"):
            limit = 20.0 * path.stat().st_size + 5e8
            frame = (xlsx if path.suffix.lower() == ".xlsx" else parquet)(path, limit).A
            rows = [list(map(str, frame.columns)), *frame.astype(object).to_numpy().tolist()]
        else:
            lines = [line.strip() for line in path.read_text("utf-8-sig").split("\n")]
            lines = lines[:-1] if lines[-1] == "" else lines
            rows = [[line] for line in lines]
            if path.suffix.lower() in (".csv", ".tsv"):
                usual = "tab" if path.suffix.lower() == ".tsv" else "comma"
                best = _separator(lines[:_SAMPLE_LINES], usual)
                split = [_cells(line, best) for line in lines] if best != "space" else rows
                rows = split if len({len(row) for row in split}) == 1 else rows
    named = len(rows) == n + 1
    width = len(rows[0]) if rows else 1
    names = list(map(str, rows[0])) if named else [str(j) for j in range(width)]
    if label and label not in names:
        raise unknown(f"column of {path.name}", label, names)
    if width > 1 and not label:
        raise UserError(f"{path.name} has {width} columns; say which are the labels: dataset.label={'|'.join(names)}")
    at = names.index(label) if label else 0
    array = np.array([row[at] for row in rows[named:]], dtype=object)
    where = f"{path.name}{f', column {label!r}' if label else ''}{', after a line that names them' if named else ''}"
    numeric = all(is_number(str(value)) for value in array)
    return array.astype(np.float64) if numeric else array, where
