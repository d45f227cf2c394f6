"""Tables: CSV and its relatives, Parquet and Excel's xlsx, read to a DataFrame; and files of labels alone.

What a text separates its cells with, whether its first line names the columns and which sign is the decimal one are
found by themselves, from its first lines, unless options say so. Labels are compared as they are written.
"""

import codecs
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from csv import Error, reader
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kmdr.base.errors import UserError, unknown
from kmdr.datasets.formats.reading import COMPRESSED, READ_BYTES, Content, afford, brought, reading

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
# Cells of a label column that hold no label. "None" is a class like any other.
_NO_LABEL = {"", "?", "#N/A", "N/A", "n/a", "NA", "<NA>", "NaN", "nan", "-NaN", "-nan", "null", "NULL"}
_WITH_COMMA = re.compile(r"[+-]?\d+,\d+(e[+-]?\d+)?", re.IGNORECASE)
_WITH_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
# A first line 0, 1, 2, … of so many columns is pandas' header, unless another row counts as well.
_FEWEST_COUNTED = 8
# Of so many cells with decimals, that there are none in the first line shows that it is no point.
_FEWEST_DECIMALS = 8
# From this integer on, float64 does not hold every integer.
_EXACT_BELOW = 2**53
_BEYOND = 2**63
# Whole numbers in the first line that are so many times as large as any number below may be years or identifiers.
_FAR = 10
_SHOWN_CELLS = 4
# Digits of the longest whole number that is read as one; Python refuses more than 4300.
_LONGEST = 4000


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
    quoted : bool
        Whether every cell of the first line is in quotes, and not every cell of another line.
    """

    rows: list[list[str]]
    separator: str
    encoding: str
    comments: int
    names: list[str]
    quoted: bool


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
        if len(second) > len(head):
            # pandas would take the first column for the names of the rows.
            raise UserError(
                f"the first line of {path.name} has {len(head)} columns and the second has {len(second)}; "
                "let the first name every column, and no line end with a separator"
            )
        if decimal == FOUND:
            decimal = _decimal(path, sample)
        commented = bool(sample.names) and header == FOUND
        named = _is_header(path, head, rest, header, DECIMALS[decimal], label, sample.quoted or commented)
        columns = _columns(path, sample.names if commented else head if named else None, len(head), label)
        frame = pd.read_csv(
            path, sep=between, header=0 if named and not commented else None, decimal=DECIMALS[decimal],
            encoding=sample.encoding, na_values=["?"], skipinitialspace=sample.separator != "space",
            skiprows=sample.comments, converters=columns.converters(), low_memory=False, **_EXACT,
        )  # fmt: skip
        if sample.separator == "space":
            _refuse_short(path, len(head), sample.comments)
    said = [f"separator {sample.separator}", f"decimal {decimal}", _first_line(named)]
    if sample.comments > commented:
        said.append(f"lines of comment before it: {sample.comments - commented}")
    if sample.encoding == "cp1252":
        said.append("not UTF-8, so read as Windows-1252")
    return _with_labels(path, frame, f"text, {', '.join(said)}", columns)


def _refuse_short(path: Path, columns: int, comments: int) -> None:
    """Refuse a line with too few cells in a table of spaces, which do not show which cell is missing."""
    with COMPRESSED.get(path.suffix.lower(), open)(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if number > comments and b'"' not in line and 0 < len(line.split()) < columns:
                raise UserError(
                    f"line {number} of {path.name} has {len(line.split())} cells, and the first has {columns}; write "
                    "nan for a missing value"
                )


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
    quotes = [text.count('"') >= 2 * columns for text in texts[comments:] if text.strip()]
    return _Sample(rows, separator, encoding, comments, names, quotes[:1] == [True] and not all(quotes))


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


def _decimal(path: Path, sample: _Sample) -> str:
    cells = [cell.strip() for row in sample.rows for cell in row]
    with_comma = [cell for cell in cells if _WITH_COMMA.fullmatch(cell)]
    points = any("." in cell and is_number(cell) for cell in cells)
    if sample.separator == "comma" or not with_comma or points:
        return "point"
    small = all(len(cell.lstrip("+-")) <= 3 for cell in cells if _INTEGER.fullmatch(cell))
    if small and all(map(_WITH_THOUSANDS.fullmatch, with_comma)):
        raise UserError(
            f"the comma in {with_comma[0]!r} of {path.name} may separate decimals or thousands; set "
            "dataset.decimal=comma if it separates decimals, else remove it from the file"
        )
    return "comma"


def _is_header(
    path: Path, head: Sequence[str], rest: Sequence[Sequence[str]], header: str, decimal: str, label: str, marked: bool
) -> bool:
    """Return whether the first line names the columns: as the option says, or by the evidence.

    Parameters
    ----------
    marked : bool
        Whether the way in which the line is written shows that it names the columns.

    Raises
    ------
    UserError
        The line may be either.
    """
    if header != FOUND:
        return header == "true"
    named = marked or names_columns(head, rest, decimal, label)
    if named is None:
        shown = ",".join(head[:_SHOWN_CELLS]) + (",…" if len(head) > _SHOWN_CELLS else "")
        raise UserError(
            f"the first line of {path.name} ({shown}) may name the columns or be a point; set dataset.header=true if "
            "it names them, or dataset.header=false if it is a point"
        )
    return named


def names_columns(
    first: Sequence[str], rest: Sequence[Sequence[str]], decimal: str = ".", label: str = ""
) -> bool | None:
    """Return whether the first line of a table names its columns (True), is a point (False), or may be either (None).

    A name differs in kind from what is below it: text above numbers, text that does not recur in its column, whole
    numbers above decimals. Numbers are taken for names only if they are whole and count up.
    """
    first = [cell.strip() for cell in first]
    rest = [[cell.strip() for cell in row] for row in rest]
    known = [j for j, cell in enumerate(first) if cell.lower() not in _NO_VALUE]
    numbers = [j for j in known if is_number(first[j].replace(decimal, "."))]
    texts = [j for j in known if j not in set(numbers)]
    if texts and {"label", label} & {first[j] for j in texts}:
        return True
    if not texts:
        return _numbers_name(first, rest, numbers, decimal) if numbers else True
    return _texts_name(first, rest, texts, numbers, decimal)


def _texts_name(
    first: Sequence[str], rest: Sequence[Sequence[str]], texts: Sequence[int], numbers: Sequence[int], decimal: str
) -> bool | None:
    """Return whether a first line with text names the columns, likewise."""
    recurring = sum(any(j < len(row) and row[j] == first[j] for row in rest) for j in texts)
    above_numbers = any(_mostly_numbers(_below(rest, j), decimal) for j in texts)
    if not numbers:
        if 0 < recurring < len(texts) / 2:
            return None
        return not recurring or (None if above_numbers else False)
    values = [float(first[j].replace(decimal, ".")) for j in numbers]
    whole, rising = all(_INTEGER.fullmatch(first[j]) for j in numbers), all(a < b for a, b in pairwise(values))
    differs = above_numbers or all(_decimals(_below(rest, j), decimal) for j in numbers)
    if not (whole and rising):
        # Identifiers and wavelengths name columns, too.
        doubtful = differs and not recurring and ((whole and len(set(values)) == len(values)) or _even(values))
        return None if doubtful else False
    if recurring:
        return None if differs else False
    return True if differs else None


def _numbers_name(
    first: Sequence[str], rest: Sequence[Sequence[str]], numbers: Sequence[int], decimal: str
) -> bool | None:
    """Return whether a first line of numbers alone names the columns, likewise."""
    d = len(numbers)
    values = [float(first[j].replace(decimal, ".")) for j in numbers]
    counted = [first[j] for j in numbers] == [str(i) for i in range(d)]
    goes_on = all(row == [str(i * d + j) for j in range(d)] for i, row in enumerate(rest, 1))
    if not rest or goes_on or len(set(values)) < d:
        return False
    regular = counted or _even(values)
    below = [_below(rest, j) for j in numbers]
    decimals = [cells for cells in below if _decimals(cells, decimal)]
    if all(_INTEGER.fullmatch(first[j]) for j in numbers):
        if counted and not first[0]:
            # As pandas writes a matrix with its index.
            index = _below(rest, 0)
            if index == [str(i) for i in range(len(rest))] or not _mostly_numbers(index, decimal):
                return True
        # As pandas writes a matrix without; but each row of a table of ranks has the same numbers.
        elif counted and d >= _FEWEST_COUNTED and all(sorted(row) != sorted(first) for row in rest):
            return True
        if regular and sum(map(len, decimals)) >= _FEWEST_DECIMALS:
            return True
        numeric = [float(cell.replace(decimal, ".")) for cells in below for cell in cells if _is_finite(cell, decimal)]
        beyond = len(rest) > 1 and min(map(abs, values)) > _FAR * max(map(abs, numeric), default=np.inf)
        regular |= len(decimals) == d or beyond
    return None if regular else False


def _below(rest: Sequence[Sequence[str]], j: int) -> list[str]:
    """Return the cells of a column below the first line that have a value."""
    return [row[j] for row in rest if j < len(row) and row[j].lower() not in _NO_VALUE]


def _is_finite(cell: str, decimal: str) -> bool:
    text = cell.replace(decimal, ".")
    return is_number(text) and bool(np.isfinite(float(text)))


def _mostly_numbers(cells: Sequence[str], decimal: str) -> bool:
    return 2 * sum(is_number(cell.replace(decimal, ".")) for cell in cells) > len(cells)


def _decimals(cells: Sequence[str], decimal: str) -> bool:
    """Return whether all of some cells are numbers with decimals."""
    numbers = (is_number(cell.replace(decimal, ".")) and not _INTEGER.fullmatch(cell) for cell in cells)
    return bool(cells) and all(numbers)


def _even(values: Sequence[float]) -> bool:
    """Return whether three numbers or more rise in equal steps."""
    steps = np.diff(values)
    return len(steps) > 1 and bool(steps[0] > 0) and bool(np.allclose(steps, steps[0], rtol=1e-6, atol=0))


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
        columns = _columns(path, list(map(str, frame.columns)), frame.shape[1], label)
        if columns.labels is not None and _lost_integers(frame.iloc[:, columns.labels]):
            name = frame.columns[columns.labels]
            frame[name] = parquet_labels(path, name)
    return _with_labels(path, frame, "Parquet", columns)


def parquet_labels(path: Path, column: str, coded: Sequence[str] = ()) -> pd.Series:
    """Read a column of labels of a Parquet file: integers as such, also where one is missing."""
    labels = pd.read_parquet(path, engine="pyarrow", columns=[column], read_dictionary=list(coded))[column]
    if _lost_integers(labels):
        labels = pd.read_parquet(path, engine="pyarrow", columns=[column], dtype_backend="numpy_nullable")[column]
    return labels


def _lost_integers(column: pd.Series) -> bool:
    """Return whether a column may hold integers that pandas made float64 because one is missing."""
    return column.dtype.kind == "f" and bool(column.hasnans)


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


def _sheet(path: Path, limit: float, matrix: str = "") -> tuple[str, int, int, list[list[str]]]:
    """Return the name of a sheet, how many there are, how many empty rows it begins with, and the first rows after."""
    openpyxl = brought("openpyxl", "xlsx", path)
    with zipfile.ZipFile(path) as archive:
        afford(path, "unpacks to too much", float(sum(info.file_size for info in archive.infolist())), limit)
    book = openpyxl.load_workbook(path, read_only=True, data_only=True, keep_links=False)
    sheets = book.sheetnames
    if matrix and matrix not in sheets:
        raise unknown(f"sheet of {path.name}", matrix, sheets)
    sheet = matrix or sheets[0]
    lines = book[sheet]
    lines.reset_dimensions()  # of which the file may claim any
    widest, above, sample = 0, 0, list[list[str]]()
    for number, row in enumerate(lines.iter_rows(values_only=True), 1):
        if not any(cell is not None for cell in row):
            above += not sample
            continue  # it counts only where there is one below it
        widest = max(widest, len(row))
        needed = float(_CELL_BYTES * number * widest)  # pandas makes all rows as wide
        afford(path, f"unpacks to at least {number} rows of {widest} cells", needed, limit)
        if len(sample) < _SAMPLE_LINES:
            sample.append(["" if cell is None else str(cell) for cell in row])
    book.close()
    if not sample:
        raise UserError(f"sheet {sheet!r} of {path.name} is empty; name another with dataset.matrix=…")
    return sheet, len(sheets), above, [row + [""] * (widest - len(row)) for row in sample]


def xlsx(path: Path, limit: float, matrix: str = "", label: str = "", header: str = FOUND) -> Content:
    """Read a sheet of an Excel workbook: the one that is named as its matrix, else the first."""
    brought("openpyxl", "xlsx", path)
    with reading(path, "xlsx"):
        sheet, sheets, above, sample = _sheet(path, limit, matrix)
        named = _is_header(path, sample[0], sample[1:], header, ".", label, False)
        columns = _columns(path, sample[0] if named else None, len(sample[0]), label)
        frame = pd.read_excel(
            path, sheet_name=sheet, header=0 if named else None, engine="openpyxl", na_values=["?"], skiprows=above,
            converters=columns.converters(),
        )  # fmt: skip
    others = f", the first of {sheets}" if sheets > 1 and not matrix else ""
    return _with_labels(path, frame, f"xlsx, sheet {sheet!r}{others}, {_first_line(named)}", columns)


class _Columns(NamedTuple):
    """Columns of a table.

    Attributes
    ----------
    names : list of str
        Each once.
    repeated : list of str
        Names that several columns have in the file.
    labels : int or None
        Place of the column of labels.
    texts : dict of str to int
        Codes of the labels that were read, by their texts.
    """

    names: list[str]
    repeated: list[str]
    labels: int | None
    texts: dict[str, int]

    def converters(self) -> dict[int | str, Any]:
        """Return what has pandas read codes for the labels, of whose texts it would make numbers or NaN."""
        return {} if self.labels is None else {self.labels: self._code}

    def _code(self, cell: Any) -> int:
        return self.texts.setdefault(str(cell).strip(), len(self.texts))


def _columns(path: Path, head: Sequence[str] | None, d: int, label: str) -> _Columns:
    """Return the columns of a table; columns with the same name are numbered.

    Parameters
    ----------
    head : sequence of str or None
        The names; without them columns are called by their numbers from 0.
    label : str
        The column of the labels; by default ``label``, where there is one.

    Raises
    ------
    UserError
        There is no such column, or there are several.
    """
    names = [str(j) for j in range(d)] if head is None else [cell.strip() for cell in head]
    names = [name or f"Unnamed: {j}" for j, name in enumerate(names)]
    column = label or "label"
    counts = Counter(names)
    if counts[column] > 1:
        raise UserError(
            f"{path.name} has {counts[column]} columns named {column!r}, so it is not clear which one holds the "
            "labels; rename the others in the file"
        )
    if label and label not in counts:
        raise unknown(f"column of {path.name}", label, list(counts))
    repeated = [name for name, count in counts.items() if count > 1]
    for j, name in enumerate(names):
        if name in repeated:
            apart = f"{name} [{j}]"
            while apart in counts:
                apart += "'"
            names[j] = apart
    return _Columns(names, repeated, names.index(column) if column in counts else None, {})


def _with_labels(path: Path, frame: pd.DataFrame, form: str, columns: _Columns) -> Content:
    """Take the column of labels out of a table, and name the others."""
    if frame.shape[1] != len(columns.names):
        raise UserError(
            f"the first line of {path.name} has {len(columns.names)} columns, but the table has {frame.shape[1]}; let "
            "all lines have as many"
        )
    frame.columns = pd.Index(columns.names, dtype=object)
    at = columns.labels
    if columns.repeated:
        apart = [name for name in columns.names if name.partition(" [")[0] in columns.repeated]
        form += f", columns of the same name told apart as {', '.join(map(repr, apart[:_SHOWN_CELLS]))}"
        form += ", …" if len(apart) > _SHOWN_CELLS else ""
    labelled = "column 'label'" if at is None else f"column {columns.names[at]!r}"
    labels = None
    if at is not None:
        column = frame.pop(columns.names[at])
        labels = as_labels(map([*columns.texts].__getitem__, column)) if columns.texts else classes_of(column)
    return Content(frame, labels, None, form, labelled)


def doubts(content: Content, name: str) -> Iterable[str]:
    """Yield warnings of what a file lost or mixed up: rounded integers, a second column of labels, similar labels."""
    if isinstance(content.A, pd.DataFrame):
        yield from _rounded(content.A)
        for column in content.A:
            first, renamed = str(column).removesuffix(".1"), str(column).endswith(".1")
            if renamed and content.labels is not None and content.labelled == f"column {first!r}":
                yield (
                    f"column {column!r} looks like a second column of labels, as pandas renames one, but is clustered "
                    f"on; leave it out: dataset.drop=[{column}]"
                )
    elif _beyond_float(content.A):
        yield _rounded_warning(name)
    if content.labels is not None and (warning := _alike(content.labels)):
        yield warning


def _rounded(frame: pd.DataFrame) -> Iterable[str]:
    """Yield a warning of whole numbers that float64 does not hold."""
    for name, kind in frame.dtypes.items():
        column = frame[name]
        if getattr(kind, "kind", "") == "f" and column.hasnans:  # integers, where one is missing
            known = column.dropna()
            column = known if (known % 1 == 0).all() and (known.abs() < _BEYOND).all() else known[:0]
        elif getattr(kind, "kind", "O") in "iu":
            column = column.dropna()
        else:
            continue
        if len(column) and max(int(column.max()), -int(column.min())) >= _EXACT_BELOW:
            yield _rounded_warning(f"column {name!r}")


def _rounded_warning(what: str) -> str:
    """Return a warning of integers that become float64."""
    return (
        f"{what} has integers of 2^53 or more, which are rounded to the nearest float64 and may become equal; remove "
        "them if they are identifiers"
    )


def _beyond_float(A: Any) -> bool:
    """Return whether an array has integers that float64 does not hold."""
    if not isinstance(A, np.ndarray) or A.dtype.kind not in "iu" or A.dtype.itemsize < 8 or not A.size:
        return False
    return max(int(A.max()), -int(A.min())) >= _EXACT_BELOW


def classes_of(column: pd.Series) -> NDArray[Any]:
    """Return a column of labels; where it is kept as codes, with one text for all points of a class."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        classes = [*column.cat.categories, None]
        return np.array(classes, dtype=object)[column.cat.codes]
    if isinstance(column.dtype, pd.api.extensions.ExtensionDtype) and column.dtype.kind in "biuf" and column.hasnans:
        if column.dtype.kind == "f":
            return column.to_numpy(np.float64, na_value=np.nan)
        return as_labels(["" if value is pd.NA else str(value) for value in column])
    return column.to_numpy()


def as_labels(texts: Iterable[str]) -> NDArray[Any]:
    """Return labels that are equal exactly where their texts are, apart from spaces around them.

    They are numbers where that keeps them apart, so that classes are in the order of their numbers, else text; NaN or
    None where a cell has no label.
    """
    written = [text.strip() for text in texts]
    values = {text: _number(text) for text in written if text not in _NO_LABEL}
    absent = len(values) < len(set(written))
    known = [value for value in values.values() if value is not None]
    if values and len(known) == len(set(known)) == len(values):
        floats = absent or any(isinstance(value, float) for value in known)
        # Python compares whole numbers with floats exactly.
        if all(abs(value) < _BEYOND and float(value) == value if floats else abs(value) < _BEYOND for value in known):
            return np.array([values.get(text, np.nan) for text in written], np.float64 if floats else np.int64)
    unique = dict.fromkeys(_NO_LABEL, None) | {text: text for text in values}
    labels = np.empty(len(written), dtype=object)
    labels[:] = [unique[text] for text in written]
    return labels


def _number(text: str) -> int | float | None:
    if _INTEGER.fullmatch(text) and len(text) <= _LONGEST:
        return int(text)
    return float(text) if is_number(text) else None


def _alike(labels: Any) -> str:
    """Return a warning of classes that differ only in how they are written, or nothing."""
    array = np.ravel(np.asarray(labels))
    if array.dtype.kind not in "OU":
        return ""
    groups: dict[Any, list[str]] = {}
    for text in sorted({value for value in array.tolist() if isinstance(value, str)}):
        number = _number(text)
        groups.setdefault(" ".join(text.casefold().split()) if number is None else number, []).append(text)
    several = next((texts for texts in groups.values() if len(texts) > 1), None)
    if several is None:
        return ""
    return (
        f"labels {' and '.join(map(repr, several))} are different classes, because labels are compared as they are "
        "written; write them alike if they are one class"
    )


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
    suffix = path.suffix.lower()
    with reading(path, "label"):
        if suffix == ".npy":
            return np.load(path, allow_pickle=False), path.name
        limit = 20.0 * path.stat().st_size + 5e8
        if suffix in (".parquet", ".pq"):
            content = parquet(path, limit, label)
            if content.labels is None:
                names = list(map(str, content.A.columns))
                content = parquet(path, limit, _only(path, names))
            return content.labels, f"{path.name}, {content.labelled}"
        if suffix in (".xlsx", ".xlsm"):
            sheet, _, above, _ = _sheet(path, limit)
            cells = pd.read_excel(
                path, sheet_name=sheet, header=None, engine="openpyxl", dtype=object, na_filter=False, skiprows=above
            )
            rows = [[str(cell).strip() for cell in row] for row in cells.to_numpy(object)]
        else:
            lines = [line.strip() for line in path.read_text("utf-8-sig").split("\n")]
            lines = lines[:-1] if lines[-1] == "" else lines
            rows = [[line] for line in lines]
            if suffix in (".csv", ".tsv"):
                usual = "tab" if suffix == ".tsv" else "comma"
                best = _separator(lines[:_SAMPLE_LINES], usual)
                split = [_cells(line, best) for line in lines] if best != "space" else rows
                # A line of one column may be quoted.
                split = split if max(map(len, split), default=1) > 1 else [next(reader([line]), [""]) for line in lines]
                rows = split if len({len(row) for row in split}) == 1 else rows
    named = len(rows) == n + 1
    names = [cell.strip() for cell in rows[0]] if named else [str(j) for j in range(len(rows[0]) if rows else 1)]
    if label and label not in names:
        raise unknown(f"column of {path.name}", label, names)
    if names.count(label) > 1:
        raise UserError(f"{path.name} has {names.count(label)} columns named {label!r}; rename the others in the file")
    at = names.index(label or _only(path, names))
    texts = [row[at] for row in rows[named:]]
    if named and names[at] != "0" and names[at] in texts:  # pandas calls a column without a name 0
        raise UserError(
            f"{path.name} has {len(rows)} lines for {n} points, and the first, {names[at]!r}, is one of the labels "
            "below it; remove the line that is too many"
        )
    where = f"{path.name}{f', column {label!r}' if label else ''}{', after a line that names them' if named else ''}"
    return as_labels(texts), where


def _only(path: Path, names: Sequence[str]) -> str:
    """Return the name of the only column of a file of labels."""
    if len(names) > 1:
        raise UserError(
            f"{path.name} has {len(names)} columns; say which are the labels: dataset.label={'|'.join(names)}"
        )
    return names[0]
