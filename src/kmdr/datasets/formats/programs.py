"""Read tables and matrices of other programs: Weka's ARFF, JSON, Stata's dta."""

import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse

from kmdr.base.errors import UserError, unknown
from kmdr.base.text import counted
from kmdr.datasets.file_options import FileOptions
from kmdr.datasets.formats.common import READ_BYTES, Content, afford, afford_shape, decoded, reading, text_encoding
from kmdr.datasets.formats.tables import EXACT_BELOW, as_labels, is_number, table_content, whole_number
from kmdr.datasets.validation import label_text

_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_ATTRIBUTE = re.compile(rf"@attribute\s+({_QUOTED}|[^\s{{]+)\s*(.*)", re.IGNORECASE | re.DOTALL)
_NOMINAL = re.compile(rf"(\{{(?:{_QUOTED}|[^'\"}}])*\}}).*", re.DOTALL)
_CELL = re.compile(rf"\s*({_QUOTED}|(?!['\"])[^,]*?)\s*(,|$)")
# Weka takes spaces for commas, and several commas for one.
_WORD = re.compile(rf"{_QUOTED}|[^\s,'\"][^\s,]*")
_PAIR = re.compile(rf"\s*(\d+)\s+({_QUOTED}|[^,]*?)\s*(,|$)")
_COMMENT = re.compile(rf"({_QUOTED})|%.*")
_WEIGHT = re.compile(r"[,\s]\s*\{[^{},]*\}$")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_NUMERIC = ("numeric", "real", "integer")


def arff(path: Path, limit: float, options: FileOptions) -> Content:
    """Read an ARFF file, dense or sparse, with numeric, nominal, string and date columns.

    By default the labels are the column ``label`` or, if it is nominal, ``class``.
    """
    with reading(path, "ARFF"):
        lines = _lines(path)
        names, kinds = _attributes(path, lines)
        first = next(lines, None)
        if first is None:
            raise UserError(f"{path.name} has no rows after @data; choose a file with points")
        nominal = next((j for j, name in enumerate(names) if name.lower() == "class" and kinds[j][:1] == "{"), None)
        label = options.label or (names[nominal] if nominal is not None and "label" not in names else "")
        if label and label not in names:
            raise unknown(f"column of {path.name}", label, names)
        sparse = first[1].startswith("{")
        if (
            sparse
            and names.count(label or "label") < 2
            and all(kind in _NUMERIC or name == (label or "label") for name, kind in zip(names, kinds, strict=True))
        ):
            return _sparse_arff(path, chain([first], lines), names, kinds, label, limit)
        cells: list[list[str | None]] = [[] for _ in names]
        for number, line in chain([first], lines):
            needed = 8.0 * (len(cells[0]) + 1) * len(names)
            afford(path, f"unpacks to at least {number} lines of {len(names)} columns", needed, limit)
            row = _sparse_row(path, number, line, names) if sparse else {}
            values = [row.get(j, _absent(kinds[j])) for j in range(len(names))] if sparse else _words(line)
            if len(values) != len(names):
                values = _cells(line)
            if len(values) != len(names):
                _refuse_weight(path, number, line)
                raise UserError(
                    f"line {number} of {path.name} has {len(values)} cells, but there are {len(names)} attributes; "
                    "write one cell for each, and ? for a missing value"
                )
            for column, value in zip(cells, values, strict=True):
                column.append(value)
        if (wanted := label or "label") in names:  # also if its values are numbers
            at = names.index(wanted)
            _refuse_undeclared(path, wanted, kinds[at], cells[at])
        frame = pd.DataFrame({j: _column(path, names[j], kinds[j], column) for j, column in enumerate(cells)})
        if names.count(wanted) == 1:
            frame.isetitem(at, _labels(frame.iloc[:, at], kinds[at], cells[at]).array)
        form = f"ARFF{', sparse' if sparse else ''}, {counted(len(names), 'column')}"
        return table_content(path, frame, names, form, label)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text in UTF-8, or else Windows-1252, with their numbers; not empty ones and comments."""
    with path.open("rb") as file:
        encoding = text_encoding(path, "ARFF", iter(lambda: file.read(READ_BYTES), b""))
    with path.open(encoding=encoding, errors="replace") as file:
        for number, line in enumerate(file, 1):
            if text := (_COMMENT.sub(lambda match: match[1] or "", line) if "%" in line else line).strip():
                yield number, text


def _attributes(path: Path, lines: Iterator[tuple[int, str]]) -> tuple[list[str], list[str]]:
    """Return names and types of the attributes, and leave the lines after ``@data``."""
    names, kinds = list[str](), list[str]()
    for number, line in lines:
        if line.lower().startswith("@relation"):
            continue
        if line.lower().startswith("@data"):
            if not names:
                raise UserError(f"{path.name} has no @attribute before @data; declare one for each column")
            return names, kinds
        if not (match := _ATTRIBUTE.fullmatch(line)):
            raise UserError(f"line {number} of {path.name} is neither an @attribute nor @data; it is not an ARFF file")
        name, kind = _unquoted(match[1]) or "", match[2].strip()
        while kind.startswith("{") and "}" not in kind and (following := next(lines, None)):
            kind += f" {following[1]}"
        if not kind.startswith("{"):
            kind = kind.split(None, 1)[0].lower() if kind else ""
        if kind == "relational":
            raise UserError(f"column {name!r} of {path.name} is relational; write a table with one row per point")
        names.append(name)
        kinds.append(match[1] if (match := _NOMINAL.fullmatch(kind)) else kind)  # without a weight
    raise UserError(f"{path.name} has no line @data; the file is damaged or truncated, so download it again")


def _cells(line: str) -> list[str | None]:
    """Return the cells of a line between single commas, for texts with spaces and empty cells.

    A missing value is None. The result is empty if there is more than a comma after a quoted cell.
    """
    cells, at = list[str | None](), 0
    while match := _CELL.match(line, at):
        cells.append(_unquoted(match[1]))
        at = match.end()
        if match[2] != ",":
            break
    return cells if at == len(line) else []


def _words(line: str) -> list[str | None]:
    """Return the cells of a line as Weka separates them."""
    if re.search(r"['\"]", _WORD.sub("", line)):
        raise ValueError(f"the quotes of the line {line[:40]!r} are not closed")
    return [_unquoted(word) for word in _WORD.findall(line)]


def _unquoted(cell: str) -> str | None:
    if cell[:1] in ("'", '"') and len(cell) > 1:
        return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), cell[1:-1])
    return None if cell in ("?", "") else cell


def _sparse_row(path: Path, number: int, line: str, names: list[str]) -> dict[int, str | None]:
    """Return the cells of a sparse line by their column."""
    row, at, body = dict[int, str | None](), 0, line[1:-1].strip()
    good = line.startswith("{") and line.endswith("}")
    while good and at < len(body):
        match = _PAIR.match(body, at)
        good = match is not None and int(match[1]) < len(names) and int(match[1]) not in row
        if match is not None and good:
            row[int(match[1])], at = _unquoted(match[2]), match.end()
    if not good:
        _refuse_weight(path, number, line)
        raise UserError(
            f"line {number} of {path.name} is not of the form '{{column value, column value}}'; write it so"
        )
    return row


def _refuse_weight(path: Path, number: int, line: str) -> None:
    if match := _WEIGHT.search(line):
        raise UserError(
            f"line {number} of {path.name} ends with the weight {match[0].strip(', ')} of a point, which kmdr does not "
            "use; remove the weights from the file"
        )


def _declared(kind: str) -> list[str | None]:
    text = kind[1:].rstrip("} \t")
    return (_cells(text) if "," in text else []) or _words(text)


def _absent(kind: str) -> str | None:
    """Return the value of a column that a sparse line omits: 0, or the first nominal value."""
    return next(iter(_declared(kind)), None) if kind.startswith("{") else "0"


def _refuse_undeclared(path: Path, name: str, kind: str, cells: Iterable[str | None]) -> None:
    """Refuse a nominal column with a value that the file does not declare, as Weka does."""
    declared = {None, *_declared(kind)} if kind.startswith("{") else None
    if declared and (odd := next((cell for cell in cells if cell not in declared), None)):
        raise UserError(
            f"column {name!r} of {path.name} holds {odd!r}, which its @attribute does not declare; correct it or "
            "declare it"
        )


def _column(path: Path, name: str, kind: str, cells: list[str | None]) -> pd.Series:
    known = [cell for cell in cells if cell is not None]
    if kind in _NUMERIC or (kind != "date" and all(map(is_number, known))):
        if odd := next((cell for cell in known if not is_number(cell)), None):
            raise UserError(
                f"column {name!r} of {path.name} is {kind} but holds {odd!r}; write a number, or ? for none"
            )
        return pd.Series([np.nan if cell is None else float(cell) for cell in cells], dtype=np.float64)
    _refuse_undeclared(path, name, kind, known)
    return pd.Series(cells, dtype=object)


def _labels(column: pd.Series, kind: str, cells: list[str | None]) -> pd.Series:
    """Return a column of labels: of a numeric one the numbers, of another the values as they are written."""
    if kind not in _NUMERIC and column.dtype.kind == "f":
        return pd.Series(as_labels(cell or "" for cell in cells))
    return _exact_labels(column, [cell if (whole := whole_number(cell or "")) is None else whole for cell in cells])


def _sparse_arff(
    path: Path, lines: Iterator[tuple[int, str]], names: list[str], kinds: list[str], label: str, limit: float
) -> Content:
    """Read sparse lines whose columns are all numeric, apart from the labels, to a sparse matrix."""
    at = names.index(label or "label") if (label or "label") in names else -1
    data, indices, ends, labels = list[float](), list[int](), [0], list[str]()
    for number, line in lines:
        row = _sparse_row(path, number, line, names)
        if at >= 0:
            labels.append(row.pop(at, _absent(kinds[at])) or "?")
        for j, cell in row.items():
            if cell is not None and not is_number(cell):
                raise UserError(
                    f"line {number} of {path.name} holds {cell!r} in the column {names[j]!r}; write a number, or ? "
                    "for none"
                )
            indices.append(j - (0 <= at < j))
            data.append(np.nan if cell is None else float(cell))
        ends.append(len(data))
        afford(path, f"unpacks to at least {number} lines", 16.0 * len(data), limit)
    if at >= 0:
        _refuse_undeclared(path, names[at], kinds[at], [label for label in labels if label != "?"])
    d = len(names) - (at >= 0)
    afford_shape(path, (len(ends) - 1, d), limit)
    A = scipy.sparse.csr_array((data, indices, ends), shape=(len(ends) - 1, d))
    features = tuple(name for j, name in enumerate(names) if j != at)
    return Content(A, as_labels(labels) if at >= 0 else None, features, "ARFF, sparse", f"column {names[at]!r}")


def json_table(path: Path, limit: float, options: FileOptions) -> Content:
    """Read JSON lines, or one JSON array: each row is an object of named cells, or an array of cells."""
    with reading(path, "JSON"):
        text, encoding = decoded(path, "JSON", path.read_bytes())
        load = partial(json.loads, object_pairs_hook=partial(_record, path))
        if text.lstrip().startswith("[") and path.suffix.lower() == ".json":
            rows = load(text)
        else:
            rows = [load(line) for line in text.split("\n") if line.strip()]
            rows = rows[0] if len(rows) == 1 and isinstance(rows[0], list) and path.suffix.lower() == ".json" else rows
        if not rows or not (all(isinstance(row, dict) for row in rows) or all(isinstance(row, list) for row in rows)):
            raise UserError(f"{path.name} does not hold one JSON object or array per row; write one for each point")
        named = isinstance(rows[0], dict)
        keys = dict.fromkeys(chain.from_iterable(rows)) if named else dict.fromkeys(range(max(map(len, rows))))
        afford(path, f"unpacks to {len(rows)} rows of {len(keys)} columns", 8.0 * len(rows) * len(keys), limit)
        if not named and len({len(row) for row in rows}) > 1:
            raise UserError(f"{path.name} has rows of several lengths; write the same number of cells in all rows")
        columns = {key: [row.get(key) for row in rows] if named else [row[key] for row in rows] for key in keys}
        frame = pd.DataFrame({key: _cells_of_json(cells) for key, cells in columns.items()})
        names = list(map(str, frame.columns))
        if names.count(wanted := options.label or "label") == 1:
            at = names.index(wanted)
            frame.isetitem(at, _exact_labels(frame.iloc[:, at], [*columns.values()][at]).array)
        texts = (
            cell for column in frame.select_dtypes(exclude="number") for cell in frame[column] if isinstance(cell, str)
        )
        for text in chain(names, texts):
            text.encode()  # JSON may escape half of a character
        form = "JSON, not UTF-8, so read as Windows-1252" if encoding == "cp1252" else "JSON"
        return table_content(path, frame, names, form, options.label)


def _record(path: Path, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; refuse one with two cells of the same name, of which Python keeps the last."""
    record = dict(pairs)
    if len(record) < len(pairs):
        name = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise UserError(f"{path.name} has a row with several cells named {name!r}; rename them in the file")
    return record


def _cells_of_json(cells: list[Any]) -> list[Any]:
    """Return the cells of a column; if some are arrays or objects, all are, so that it is refused or dropped."""
    return [[] for _ in cells] if any(isinstance(cell, dict | list) for cell in cells) else cells


def _exact_labels(column: pd.Series, cells: list[Any]) -> pd.Series:
    """Return a column of labels, with integers that pandas rounds to float64 as they are written."""
    large = (isinstance(cell, int) and not isinstance(cell, bool) and abs(cell) >= EXACT_BELOW for cell in cells)
    if column.dtype.kind != "f" or not any(large):
        return column
    return pd.Series(as_labels("" if cell is None else label_text(cell) for cell in cells))


def stata(path: Path, limit: float, options: FileOptions) -> Content:
    """Read a table of Stata; values with a label are read as this label."""
    with reading(path, "Stata"):
        afford(path, "holds a table", float(path.stat().st_size), limit)
        frame = pd.read_stata(io.BytesIO(path.read_bytes()))
        return table_content(path, frame, list(map(str, frame.columns)), "Stata", options.label)
