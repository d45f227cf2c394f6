"""Read tables (CSV and its relatives, Parquet, Excel's xlsx) to a DataFrame.

Unless options set them, the separator, the decimal sign and whether the first line names the columns are determined
from the first lines of a text. Labels are compared as they are written.
"""

import codecs
import math
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from csv import Error, reader
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray

from kmdr.base.errors import UserError, unknown
from kmdr.datasets.file_options import AUTO, DECIMALS, SEPARATORS, FileOptions
from kmdr.datasets.formats.common import (
    READ_BYTES,
    Content,
    afford,
    import_extra,
    open_unpacked,
    reading,
    text_encoding,
)

# pandas 3.1 always reads numbers exactly, and warns of the option.
_PANDAS = tuple(int(number) for number in pd.__version__.split(".")[:2])
_EXACT: dict[str, Any] = {} if _PANDAS >= (3, 1) else {"float_precision": "round_trip"}
_HEAD_BYTES, _MAX_COLUMNS = 2**24, 200_000
_SAMPLE_LINES, _SAMPLE_BYTES = 50, 2**20
# Memory that a cell of a workbook takes while it is read.
_CELL_BYTES = 100
_NO_VALUE = {"", "na", "n/a", "nan", "null", "none", "?"}
# Cells of a label column without a label. "None" is a class.
_NO_LABEL = {"", "?", "#N/A", "N/A", "n/a", "NA", "<NA>", "NaN", "nan", "-NaN", "-nan", "null", "NULL"}
_WITH_COMMA = re.compile(r"[+-]?\d+,\d+(e[+-]?\d+)?", re.IGNORECASE)
_WITH_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")
# A first line by which Excel takes the separator of a text.
_EXCEL_SEPARATOR = re.compile(rb'"?sep=(.)"?\s*', re.IGNORECASE)
_SEPARATOR_NAMES = {sign: name for name, sign in SEPARATORS.items()}
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
# A first line 0, 1, 2, … with at least this many columns is a header by pandas, unless another row counts as well.
_FEWEST_COUNTED = 8
# At least this many cells with decimals below a first line without any show that it names the columns.
_FEWEST_DECIMALS = 8
# float64 holds every integer below this one, and int64 none from this one on.
EXACT_BELOW = 2**53
BEYOND = 2**63
# Whole numbers in the first line that exceed all numbers below by this factor may be years or identifiers.
_FAR = 10
_SHOWN_CELLS = 4
# At least this many labels are doubtful if all are different.
_FEWEST_DISTINCT = 10
# Most digits of a whole number that is read as such; Python refuses more than 4300.
_LONGEST = 4000


class _Sample(NamedTuple):
    """The first lines of a text, and how to read it.

    `rows` are the cells after the comment lines at the beginning, whose number is `comments`. `names` are the cells of
    the last comment line, if there are as many as in the line after it. `quoted` is true if all cells of the first line
    are quoted, but not all cells of every other line.
    """

    rows: list[list[str]]
    separator: str
    encoding: str
    comments: int
    names: list[str]
    quoted: bool


def csv(path: Path, limit: float, options: FileOptions, usual: str = "comma") -> Content:
    """Read a text of cells; `usual` is the name of the usual separator of files with its extension."""
    header, label, decimal = options.header, options.label, options.decimal
    with reading(path, "CSV"):
        sample = _sample(path, usual, options.separator, limit)
        between = SEPARATORS[sample.separator]
        head, rest = sample.rows[0] if sample.rows else [], sample.rows[1:]
        second = rest[0] if rest else []
        if len(second) > len(head):
            # pandas would take the first column for names of rows.
            raise UserError(
                f"the first line of {path.name} has {len(head)} columns and the second has {len(second)}; "
                "name every column in the first line, and end no line with a separator"
            )
        if decimal == AUTO:
            decimal = _decimal(path, sample)
        commented = bool(sample.names) and header == AUTO
        named = _decide_header(path, head, rest, header, DECIMALS[decimal], label, sample.quoted or commented)
        columns = _columns(path, sample.names if commented else head if named else None, len(head), label)
        frame = pd.read_csv(
            path, sep=between, header=0 if named and not commented else None, decimal=DECIMALS[decimal],
            encoding=sample.encoding, na_values=["?"], skipinitialspace=sample.separator != "space",
            skiprows=sample.comments, converters=columns.converters(), low_memory=False, **_EXACT,
        )  # fmt: skip
        if sample.separator == "space":
            _refuse_short(path, len(head), sample.comments)
    form = [f"separator {sample.separator}", f"decimal {decimal}", _first_line(named)]
    if sample.comments > commented:
        form.append(f"comment lines before it: {sample.comments - commented}")
    if sample.encoding == "cp1252":
        form.append("not UTF-8, so read as Windows-1252")
    return _with_labels(path, frame, f"text, {', '.join(form)}", columns)


def _refuse_short(path: Path, columns: int, comments: int) -> None:
    """Refuse a line with too few cells in a table separated by spaces, where it is unclear which cell is missing."""
    with open_unpacked(path, "rt", encoding="latin-1") as file:
        for number, line in enumerate(file, 1):
            if number > comments and '"' not in line and 0 < len(line.split()) < columns:
                raise UserError(
                    f"line {number} of {path.name} has {len(line.split())} cells, but the first has {columns}; write "
                    "nan for a missing value"
                )


def _first_line(named: bool) -> str:
    return "the first line names the columns" if named else "the first line is a point"


def _sample(path: Path, usual: str, separator: str, limit: float) -> _Sample:
    """Return the first lines of a table, after reading all of it in blocks to check its size."""
    with open_unpacked(path) as file:
        head, lines = _first_lines(file)
        excel_line = _EXCEL_SEPARATOR.fullmatch(lines[0])
        comments = _count_comments(lines, first_counts=bool(excel_line))
        if separator == AUTO and excel_line:
            separator = _SEPARATOR_NAMES.get(excel_line[1].decode("latin-1"), AUTO)
        if separator == AUTO:
            # Separators are ASCII.
            separator = likely_separator([line.decode("latin-1") for line in lines[comments:]], usual)
        columns = len(split_cells(lines[comments if excel_line else 0].decode("latin-1"), separator))
        _refuse_wide(path, len(lines[0]), columns)
        encoding = text_encoding(path, "CSV", _affordable_blocks(path, file, head, columns, limit))
    # The last line of the sample may be incomplete.
    texts = [line.decode(encoding, "replace") for line in lines[: max(comments + 1, len(lines) - 1)]]
    texts_of_rows = [text for text in texts[comments:] if text.strip()]
    rows = [split_cells(text, separator) for text in texts_of_rows]
    if rows and separator != "space":
        _refuse_open_quote(path, rows[0])
    has_comment = comments > bool(excel_line)
    names = split_cells(texts[comments - 1].lstrip("# "), separator) if has_comment else []
    if not rows or len(names) != len(rows[0]) or all(map(is_number, names)):
        names = []
    quoted = [text.count('"') >= 2 * columns for text in texts_of_rows]
    return _Sample(rows, separator, encoding, comments, names, quoted[:1] == [True] and not all(quoted))


def _first_lines(file: IO[bytes]) -> tuple[bytes, list[bytes]]:
    """Return what was read from the beginning of a file, and its lines without a byte order mark.

    Lines end with LF, or with CR if the first has one that is not part of a quoted cell.
    """
    lines = [file.readline(_HEAD_BYTES + 1), file.readline(_HEAD_BYTES + 1)]
    may_quote_cr = lines[0].endswith(b"\n") and b'"' in lines[0]
    if b"\r" in lines[0].rstrip(b"\r\n") and not may_quote_cr:
        head = b"".join(lines)
        lines = [line + b"\r" for line in head.splitlines()[:_SAMPLE_LINES]]
    else:
        while len(lines) < _SAMPLE_LINES and sum(map(len, lines)) < _SAMPLE_BYTES and lines[-1]:
            lines.append(file.readline(_SAMPLE_BYTES))
        head = b"".join(lines)
    return head, [lines[0].removeprefix(codecs.BOM_UTF8), *lines[1:]]


def _count_comments(lines: Sequence[bytes], first_counts: bool) -> int:
    """Return the number of comment lines at the beginning, 0 if no table follows them in these lines.

    The first line is one if it begins with ``#``, or if `first_counts`.
    """
    is_comment = [line.startswith(b"#") or (first_counts and i == 0) for i, line in enumerate(lines)]
    comments = is_comment.index(False) if False in is_comment else 0
    return comments if any(lines[comments:]) else 0


def _refuse_wide(path: Path, length: int, columns: int) -> None:
    """Refuse a first line of too many bytes or columns, which would take too long to read as text."""
    if length > _HEAD_BYTES or columns > _MAX_COLUMNS:
        raise UserError(
            f"{path.name} has a first line of {length} bytes or more and {columns} columns or more, but "
            f"{_HEAD_BYTES} and {_MAX_COLUMNS} are allowed; save such a wide matrix as .npy or .npz"
        )


def _affordable_blocks(path: Path, file: IO[bytes], head: bytes, columns: int, limit: float) -> Iterator[bytes]:
    """Yield the content of a file whose `head` was read; refuse more lines than the memory limit allows."""
    count, block = 0, head
    while block:
        yield block
        count += max(block.count(b"\n"), block.count(b"\r"))
        afford(path, f"unpacks to at least {count} lines of {columns} columns", 8.0 * count * columns, limit)
        block = file.read(READ_BYTES)


def _refuse_open_quote(path: Path, first: Sequence[str]) -> None:
    """Refuse a first row whose last cell has a quotation mark that the line does not close."""
    if first and first[-1].endswith(("\n", "\r")):
        raise UserError(
            f"the first line of {path.name} ends within a quoted cell; remove the line breaks from its names, or the "
            "quotation mark"
        )


def split_cells(line: str, separator: str) -> list[str]:
    """Return the cells of a line of text, split at the separator of this name in `SEPARATORS`."""
    if separator == "space":
        return line.split()
    try:
        return next(reader([line], delimiter=SEPARATORS[separator], skipinitialspace=True), [])
    except Error:  # a cell is too long for the csv module
        return line.split(SEPARATORS[separator])


def likely_separator(lines: Sequence[str], usual: str) -> str:
    """Return the separator with which most of the first lines are as long as the first, and most cells are numbers.

    If none is better, it is the usual one of the extension.
    """
    sample = [line for line in lines[:_SAMPLE_LINES] if line.strip()]

    def score(separator: str) -> float:
        rows = [split_cells(line, separator) for line in sample]
        if not rows or len(rows[0]) < 2:
            return 0.0
        alike = sum(len(row) == len(rows[0]) for row in rows) / len(rows)
        cells = [cell for row in rows for cell in row]
        numbers = sum(is_number(cell) or bool(_WITH_COMMA.fullmatch(cell.strip())) for cell in cells)
        return alike * (1 + numbers / len(cells))

    return max([usual, *SEPARATORS], key=score)  # the first among equals


def _decimal(path: Path, sample: _Sample) -> str:
    cells = [cell.strip() for row in sample.rows for cell in row]
    with_comma = [cell for cell in cells if _WITH_COMMA.fullmatch(cell)]
    points = any("." in cell and is_number(cell) for cell in cells)
    if sample.separator == "comma" or not with_comma or points:
        return "point"
    small = all(len(cell.lstrip("+-")) <= 3 for cell in cells if is_whole(cell))
    if small and all(map(_WITH_THOUSANDS.fullmatch, with_comma)):
        raise UserError(
            f"the comma in {with_comma[0]!r} of {path.name} may separate decimals or thousands; set "
            "dataset.decimal=comma if it separates decimals, otherwise remove it from the file"
        )
    return "comma"


def _decide_header(
    path: Path, head: Sequence[str], rest: Sequence[Sequence[str]], header: str, decimal: str, label: str, marked: bool
) -> bool:
    """Return whether the first line names the columns: by the option, its formatting (`marked`) or the content."""
    if header != AUTO:
        return header == "true"
    named = marked or is_header(head, rest, decimal, label)
    if named is None:
        shown = ",".join(head[:_SHOWN_CELLS]) + (",…" if len(head) > _SHOWN_CELLS else "")
        raise UserError(
            f"the first line of {path.name} ({shown}) may name the columns or be a point; set dataset.header=true if "
            "it names them, or dataset.header=false if it is a point"
        )
    return named


def is_header(first: Sequence[str], rest: Sequence[Sequence[str]], decimal: str = ".", label: str = "") -> bool | None:
    """Return whether the first line of a table names its columns (True), is a point (False), or may be either (None).

    A name differs in kind from the cells below it: text above numbers, text that does not recur in its column, whole
    numbers above decimals. Numbers are taken for names only if they are whole and count up.
    """
    first = [cell.strip() for cell in first]
    rest = [[cell.strip() for cell in row] for row in rest]
    known = [j for j, cell in enumerate(first) if cell.lower() not in _NO_VALUE]
    numbers = [j for j in known if _is_decimal_number(first[j], decimal)]
    texts = [j for j in known if j not in set(numbers)]
    if not known or {"label", label} & {first[j] for j in texts}:
        return True
    if not texts:
        return _is_number_header(first, rest, numbers, decimal)
    recurring = sum(first[j] in _below(rest, j) for j in texts)
    above_numbers = any(_mostly_numbers(_below(rest, j), decimal) for j in texts)
    if not numbers:
        return _is_text_header(len(texts), recurring, above_numbers)
    differs = above_numbers or all(_decimals(_below(rest, j), decimal) for j in numbers)
    return _is_mixed_header([first[j] for j in numbers], decimal, differs, recurs=recurring > 0)


def _is_text_header(texts: int, recurring: int, above_numbers: bool) -> bool | None:
    """Return whether a first line of texts is a header; None if that cannot be decided.

    ``cell,size`` is one if neither text recurs in its column below. If texts recur, it is doubtful if they are fewer
    than half, or if a text is above numbers.
    """
    if not recurring:
        return True
    doubtful = above_numbers or recurring < texts / 2
    return None if doubtful else False


def _is_mixed_header(numbers: Sequence[str], decimal: str, differs: bool, recurs: bool) -> bool | None:
    """Return whether a first line of texts and `numbers` is a header; None if that cannot be decided.

    Two facts suggest it: a cell differs in kind from those below it, and no text recurs. If the numbers count up, as
    in ``cell,1,2``, it is a header by both and doubtful by one. If they may be identifiers or wavelengths, as in
    ``cell,7,3`` or ``cell,0.5,1.0``, it is doubtful by both.
    """
    values = _values(numbers, decimal)
    whole = all(map(is_whole, numbers))
    suggested = differs + (not recurs)
    if whole and all(a < b for a, b in pairwise(values)):
        return (False, None, True)[suggested]
    may_name = (whole and len(set(values)) == len(values)) or _even(values)
    return None if may_name and suggested == 2 else False


def _is_number_header(
    first: Sequence[str], rest: Sequence[Sequence[str]], numbers: Sequence[int], decimal: str
) -> bool | None:
    """Return whether a first line of numbers is a header; None if that cannot be decided."""
    cells = [first[j] for j in numbers]
    values = _values(cells, decimal)
    if not rest or len(set(values)) < len(values) or _continues(rest, len(values)):
        return False
    counted = cells == _count_up(len(cells))
    regular = counted or _even(values)
    if not all(map(is_whole, cells)):
        return None if regular else False
    below = [_below(rest, j) for j in numbers]
    decimals = [column for column in below if _decimals(column, decimal)]
    if counted and _is_pandas_header(first, rest, len(cells), decimal):
        return True
    if regular and sum(map(len, decimals)) >= _FEWEST_DECIMALS:
        return True
    doubtful = regular or len(decimals) == len(below) or (len(rest) > 1 and _is_far_above(values, below, decimal))
    return None if doubtful else False


def _count_up(n: int, start: int = 0) -> list[str]:
    """Return n whole numbers as texts: ``0``, ``1``, ``2`` and so on."""
    return [str(i) for i in range(start, start + n)]


def _continues(rest: Sequence[Sequence[str]], d: int) -> bool:
    """Return whether the lines below ``0,1,2`` continue to count: ``3,4,5`` and so on."""
    return all(row == _count_up(d, i * d) for i, row in enumerate(rest, 1))


def _is_pandas_header(first: Sequence[str], rest: Sequence[Sequence[str]], d: int, decimal: str) -> bool:
    """Return whether pandas wrote a first line of d numbers: ``,0,1,2`` of a matrix with its index, or ``0,1,2``.

    The index below an empty first cell is 0, 1, … or text. Without an index there are to be many columns, and no line
    with the same numbers in another order, as in a table of ranks.
    """
    if not first[0]:
        index = _below(rest, 0)
        return index == _count_up(len(rest)) or not _mostly_numbers(index, decimal)
    return d >= _FEWEST_COUNTED and all(sorted(row) != sorted(first) for row in rest)


def _is_far_above(values: Sequence[float], below: Sequence[Sequence[str]], decimal: str) -> bool:
    """Return whether all values are far larger than the numbers below, as years (``1990,1991``) may be."""
    cells = [cell for column in below for cell in column if _is_finite(cell, decimal)]
    return min(map(abs, values)) > _FAR * max(map(abs, _values(cells, decimal)), default=np.inf)


def _below(rest: Sequence[Sequence[str]], j: int) -> list[str]:
    """Return the cells with a value in a column, below the first line."""
    return [row[j] for row in rest if j < len(row) and row[j].lower() not in _NO_VALUE]


def _values(cells: Sequence[str], decimal: str) -> list[float]:
    return [float(cell.replace(decimal, ".")) for cell in cells]


def _is_decimal_number(cell: str, decimal: str) -> bool:
    return is_number(cell.replace(decimal, "."))


def _is_finite(cell: str, decimal: str) -> bool:
    return _is_decimal_number(cell, decimal) and bool(np.isfinite(_values([cell], decimal)[0]))


def _mostly_numbers(cells: Sequence[str], decimal: str) -> bool:
    return 2 * sum(_is_decimal_number(cell, decimal) for cell in cells) > len(cells)


def _decimals(cells: Sequence[str], decimal: str) -> bool:
    """Return whether there are cells, and all are numbers with decimals."""
    return bool(cells) and all(_is_decimal_number(cell, decimal) and not is_whole(cell) for cell in cells)


def _even(values: Sequence[float]) -> bool:
    """Return whether at least three numbers rise in equal steps."""
    steps = np.diff(values)
    return len(steps) > 1 and bool(steps[0] > 0) and bool(np.allclose(steps, steps[0], rtol=1e-6, atol=0))


def is_number(text: str) -> bool:
    """Return whether Python reads a text as a number, which may not have underscores between digits."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def is_whole(text: str) -> bool:
    """Return whether a text is a whole number in ASCII digits."""
    return _INTEGER.fullmatch(text) is not None


def parquet(path: Path, limit: float, options: FileOptions) -> Content:
    """Read a Parquet file."""
    with reading(path, "Parquet"):
        texts, repeated = afford_parquet(path, limit)
        if repeated:
            return _repeated_parquet(path, texts, options.label)
        frame = pd.read_parquet(path, engine="pyarrow", read_dictionary=texts)
        columns = _columns(path, list(map(str, frame.columns)), frame.shape[1], options.label)
        if columns.labels is not None and lost_integers(frame.iloc[:, columns.labels]):
            name = frame.columns[columns.labels]
            frame[name] = parquet_labels(path, name)
    return _with_labels(path, _without_empty_texts(frame), "Parquet", columns)


def _repeated_parquet(path: Path, texts: Sequence[str], label: str) -> Content:
    """Read a Parquet file with columns of the same name, which pandas refuses."""
    with import_extra("pyarrow.parquet", "parquet", path).ParquetFile(path, read_dictionary=list(texts)) as file:
        table = file.read()
    names = list(map(str, table.column_names))
    frame = table.rename_columns(list(map(str, range(len(names))))).to_pandas(ignore_metadata=True)
    at = _columns(path, names, len(names), label).labels
    if at is not None and lost_integers(frame.iloc[:, at]):
        frame.isetitem(at, exact_column(table.column(at)).array)
    return table_content(path, frame, names, "Parquet", label)


def exact_column(column: Any) -> pd.Series:
    """Return a column of Arrow whose integers stay integers even if one is missing."""
    types = import_module("pyarrow").types
    series: pd.Series = column.to_pandas(integer_object_nulls=True)
    if not types.is_integer(column.type):
        return series
    return series.astype("UInt64" if types.is_unsigned_integer(column.type) else "Int64")


def parquet_labels(path: Path, column: str, coded: Sequence[str] = ()) -> pd.Series:
    """Read a column of labels of a Parquet file; integers stay integers even if one is missing."""
    labels = pd.read_parquet(path, engine="pyarrow", columns=[column], read_dictionary=list(coded))[column]
    if lost_integers(labels):
        labels = pd.read_parquet(path, engine="pyarrow", columns=[column], dtype_backend="numpy_nullable")[column]
    return labels


def lost_integers(column: pd.Series) -> bool:
    """Return whether a column may hold integers that pandas converted to float64 because one is missing."""
    return column.dtype.kind == "f" and bool(column.hasnans)


def afford_parquet(path: Path, limit: float) -> tuple[list[str], bool]:
    """Refuse a Parquet file whose metadata claim too much, before unpacking any of it.

    Return its columns of text, and whether columns share a name. Texts are to be read as codes, because repeated text
    takes almost no space in the file, however long it is.
    """
    parquet = import_extra("pyarrow.parquet", "parquet", path)
    with parquet.ParquetFile(path) as file:
        metadata = file.metadata
        columns = [metadata.schema.column(i) for i in range(metadata.num_columns)]
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        names = file.schema_arrow.names
    needed = 0
    for group in groups:
        for i, column in enumerate(columns):
            chunk = group.column(i)
            needed += max(chunk.total_uncompressed_size, chunk.num_values * max(8, column.length or 0))
    afford(path, f"claims {metadata.num_rows} rows of {len(columns)} columns", needed, limit)
    texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
    return texts, len(set(names)) < len(names)


def inspect_sheet(path: Path, limit: float, matrix: str = "") -> tuple[str, int, int, list[list[str]]]:
    """Return the name of a sheet, the number of sheets, its number of empty first rows, and the rows after these.

    The sheet is `matrix`, or by default the first.
    """
    openpyxl = import_extra("openpyxl", "xlsx", path)
    with zipfile.ZipFile(path) as archive:
        afford(path, "unpacks to too much", float(sum(info.file_size for info in archive.infolist())), limit)
    book = openpyxl.load_workbook(path, read_only=True, data_only=True, keep_links=False)
    sheets = book.sheetnames
    if matrix and matrix not in sheets:
        raise unknown(f"sheet of {path.name}", matrix, sheets)
    sheet = matrix or sheets[0]
    lines = book[sheet]
    lines.reset_dimensions()  # the file may claim any dimensions
    widest, above, sample = 0, 0, list[list[str]]()
    for number, row in enumerate(lines.iter_rows(values_only=True), 1):
        if not any(cell is not None for cell in row):
            above += not sample
            continue  # it counts only if another row follows
        widest = max(widest, len(row))
        needed = float(_CELL_BYTES * number * widest)  # pandas pads all rows to this width
        afford(path, f"unpacks to at least {number} rows of {widest} cells", needed, limit)
        if len(sample) < _SAMPLE_LINES:
            sample.append(["" if cell is None else str(cell) for cell in row])
    book.close()
    if not sample:
        raise UserError(f"sheet {sheet!r} of {path.name} is empty; choose another with dataset.matrix=…")
    return sheet, len(sheets), above, [row + [""] * (widest - len(row)) for row in sample]


def xlsx(path: Path, limit: float, options: FileOptions) -> Content:
    """Read a sheet of an Excel workbook: option ``matrix``, or the first."""
    matrix, label = options.matrix, options.label
    import_extra("openpyxl", "xlsx", path)
    with reading(path, "xlsx"):
        sheet, sheets, above, sample = inspect_sheet(path, limit, matrix)
        named = _decide_header(path, sample[0], sample[1:], options.header, ".", label, False)
        columns = _columns(path, sample[0] if named else None, len(sample[0]), label)
        frame = pd.read_excel(
            path, sheet_name=sheet, header=0 if named else None, engine="openpyxl", na_values=["?"], skiprows=above,
            converters=columns.converters(),
        )  # fmt: skip
    others = f", the first of {sheets}" if sheets > 1 and not matrix else ""
    return _with_labels(path, frame, f"xlsx, sheet {sheet!r}{others}, {_first_line(named)}", columns)


class _Columns(NamedTuple):
    """The columns of a table: unique names, names that are repeated in the file, the position of the labels.

    `texts` has the code of each text in the column of labels.
    """

    names: list[str]
    repeated: list[str]
    labels: int | None
    texts: dict[str, int]

    def converters(self) -> dict[int | str, Any]:
        """Return converters that make pandas read labels as codes, instead of turning text into numbers or NaN."""
        return {} if self.labels is None else {self.labels: self._code}

    def _code(self, cell: Any) -> int:
        return self.texts.setdefault(str(cell).strip(), len(self.texts))


def _columns(path: Path, head: Sequence[str] | None, d: int, label: str) -> _Columns:
    """Return the columns of a table, numbered where names are missing (no `head`) or repeated.

    The column of the labels is `label`, or by default the column named ``label``, if there is one.
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
            numbered = f"{name} [{j}]"
            while numbered in counts:
                numbered += "'"
            names[j] = numbered
    return _Columns(names, repeated, names.index(column) if column in counts else None, {})


def _with_labels(path: Path, frame: pd.DataFrame, form: str, columns: _Columns) -> Content:
    """Separate the column of labels from a table, and name the other columns."""
    if frame.shape[1] != len(columns.names):
        raise UserError(
            f"the first line of {path.name} has {len(columns.names)} columns, but the table has {frame.shape[1]}; "
            "write the same number of cells in all lines"
        )
    frame.columns = pd.Index(columns.names, dtype=object)
    at = columns.labels
    if columns.repeated:
        numbered = [name for name in columns.names if name.partition(" [")[0] in columns.repeated]
        form += f", columns of the same name renamed to {', '.join(map(repr, numbered[:_SHOWN_CELLS]))}"
        form += ", …" if len(numbered) > _SHOWN_CELLS else ""
    labelled = "column 'label'" if at is None else f"column {columns.names[at]!r}"
    labels = None
    if at is not None:
        column = frame.pop(columns.names[at])
        if _is_nested(column):
            raise UserError(_nested_error(columns.names[at], path.name, "name another column with dataset.label=…"))
        labels = as_labels(map([*columns.texts].__getitem__, column)) if columns.texts else classes_of(column)
    for j, kind in enumerate(frame.dtypes):
        if kind == np.dtype(object) or isinstance(kind, pd.CategoricalDtype):
            frame.isetitem(j, _plain_values(frame.iloc[:, j]).array)
    return Content(frame, labels, None, form, labelled)


def _plain_values(column: pd.Series) -> pd.Series:
    """Return a column of objects as it would be read from a text: decimals as floats, bytes as text."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        kind = pd.api.types.infer_dtype(column.cat.categories)
        return column.cat.rename_categories(_texts(column.cat.categories)) if kind == "bytes" else column
    kind = pd.api.types.infer_dtype(column, skipna=True)
    if kind in ("decimal", "empty"):
        return column.map(float, na_action="ignore").astype(np.float64)
    return _texts(column) if kind == "bytes" else column


def _texts(values: Any) -> Any:
    """Return a Series or Index of bytes as text; as Python writes bytes if some are not UTF-8."""
    try:
        return values.map(bytes.decode, na_action="ignore")
    except UnicodeDecodeError:
        return values.map(str, na_action="ignore")


def _is_nested(column: pd.Series) -> bool:
    """Return whether the cells of a column are lists or records; all cells of a column are alike."""
    if column.dtype != np.dtype(object):
        return False
    known = column[column.notna()]
    return len(known) > 0 and isinstance(known.iloc[0], list | dict | np.ndarray)


def refuse_nested(content: Content, name: str) -> None:
    """Refuse a table with a column of lists or records that was not dropped."""
    if not isinstance(content.A, pd.DataFrame):
        return
    for column in content.A.columns[content.A.dtypes == np.dtype(object)]:
        if _is_nested(content.A[column]):
            remedy = "omit it with dataset.drop=…, or write it as one column per number"
            raise UserError(_nested_error(str(column), name, remedy))


def _nested_error(column: str, name: str, remedy: str) -> str:
    return f"column {column!r} of {name} has lists or records as cells, but a cell must be one number or text; {remedy}"


def table_content(path: Path, frame: pd.DataFrame, names: Sequence[str], form: str, label: str) -> Content:
    """Return a table that another library read, with its column of labels separated; empty texts are missing values."""
    return _with_labels(path, _without_empty_texts(frame), form, _columns(path, names, len(names), label))


def _without_empty_texts(frame: pd.DataFrame) -> pd.DataFrame:
    for j in range(frame.shape[1]):
        column = frame.iloc[:, j]
        is_text = not pd.api.types.is_numeric_dtype(column.dtype) and not _is_nested(column)
        if is_text and (empty := column == "").any():
            frame.isetitem(j, column.where(~empty, None).array)
    return frame


def doubts(content: Content, name: str) -> Iterable[str]:
    """Yield warnings about rounded integers, a second column of labels, and similar or distinct labels."""
    if not scipy.sparse.issparse(content.A):  # whose integers are floats by now
        yield from rounded(content.A, name)
    if isinstance(content.A, pd.DataFrame):
        for column in content.A:
            first, renamed = str(column).removesuffix(".1"), str(column).endswith(".1")
            if renamed and content.labels is not None and content.labelled == f"column {first!r}":
                yield (
                    f"column {column!r} looks like a second column of labels, renamed by pandas, but is used as a "
                    f"feature; omit it: dataset.drop=[{column}]"
                )
    if content.labels is not None and (warning := _similar_labels(content.labels)):
        yield warning
    yield from filter(None, (distinct_labels(labels, where) for labels, where in content.labelings))


def distinct_labels(labels: Any, where: str, of_lines: str = ", and that no line has more than the label") -> str:
    """Return a warning about labels of which no two are equal, as in lines of a number and a label; else nothing."""
    known = [label for label in np.ravel(np.asarray(labels)).tolist() if not _is_missing(label)]
    if len(known) < _FEWEST_DISTINCT or len(set(map(str, known))) < len(known):
        return ""
    return (
        f"all {len(known)} labels of {where} are different, so each point is a class; check that they are "
        f"labels{of_lines}"
    )


def _is_missing(label: Any) -> bool:
    return label is None or (isinstance(label, float) and math.isnan(label))


def rounded(A: Any, name: str) -> Iterable[str]:
    """Yield a warning if a matrix has integers that float64 does not hold exactly; of a table, one for each column."""
    if isinstance(A, pd.DataFrame):
        parts: Iterable[tuple[str, Any]] = (
            (f"column {title!r}", _integers(A.iloc[:, j])) for j, title in enumerate(A.columns)
        )
    else:
        values = A if not scipy.sparse.issparse(A) else A.tocoo().data if A.format in ("dok", "lil") else A.data
        is_long = isinstance(values, np.ndarray) and values.dtype.kind in "iu" and values.dtype.itemsize >= 8
        parts = [(name, values)] if is_long else []
    for what, values in parts:
        if values.size and max(int(values.max()), -int(values.min())) >= EXACT_BELOW:
            yield (
                f"{what} has integers of 2^53 or more, which are rounded to the nearest float64 and may become equal; "
                "remove them if they are identifiers"
            )


def _integers(column: pd.Series) -> pd.Series:
    """Return the integers of a column, also of one that holds floats because some are missing; empty for another."""
    kind, known = getattr(column.dtype, "kind", "O"), column.dropna()
    if kind == "f" and len(known) < len(column):
        known = known.astype(np.float64)  # float16 does not hold 2^63
        return known if (known % 1 == 0).all() and (known.abs() < BEYOND).all() else known[:0]
    return known if kind in "iu" else known[:0]


def classes_of(column: pd.Series) -> NDArray[Any]:
    """Return a column of labels as an array; a categorical column shares one text per class."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        classes = [*column.cat.categories, None]
        return np.array(classes, dtype=object)[column.cat.codes]
    if isinstance(column.dtype, pd.api.extensions.ExtensionDtype) and column.dtype.kind in "biuf" and column.hasnans:
        if column.dtype.kind == "f":
            return column.to_numpy(np.float64, na_value=np.nan)
        return as_labels(["" if value is pd.NA else str(value) for value in column])
    if column.dtype == np.dtype(object) and pd.api.types.infer_dtype(column, skipna=True) == "decimal":
        return as_labels("" if pd.isna(value) else str(value) for value in column)
    return column.to_numpy()


def as_labels(texts: Iterable[str]) -> NDArray[Any]:
    """Return labels that are equal exactly if their texts are, ignoring surrounding spaces.

    They are numbers if different texts are different numbers, so that classes are in numerical order, else text. A cell
    without a label gives NaN or None.
    """
    written = [text.strip() for text in texts]
    values = {text: _number(text) for text in written if text not in _NO_LABEL}
    absent = len(values) < len(set(written))
    known = [value for value in values.values() if value is not None]
    if values and len(known) == len(set(known)) == len(values):
        floats = absent or any(isinstance(value, float) for value in known)
        # Python compares whole numbers with floats exactly.
        if all(abs(value) < BEYOND and float(value) == value if floats else abs(value) < BEYOND for value in known):
            return np.array([values.get(text, np.nan) for text in written], np.float64 if floats else np.int64)
    unique = dict.fromkeys(_NO_LABEL, None) | {text: text for text in values}
    labels = np.empty(len(written), dtype=object)
    labels[:] = [unique[text] for text in written]
    return labels


def whole_number(text: str) -> int | None:
    """Return the whole number that a text is; None if it is another text or has more digits than Python reads."""
    return int(text) if is_whole(text) and len(text) <= _LONGEST else None


def _number(text: str) -> int | float | None:
    whole = whole_number(text)
    return whole if whole is not None or not is_number(text) else float(text)


def _similar_labels(labels: Any) -> str:
    """Return a warning about classes that differ only in how they are written; empty if there are none."""
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
