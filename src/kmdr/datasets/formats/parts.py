"""Read a folder of parts of one matrix, ``.npy`` or Parquet, whose rows are stacked in the order of the file names."""

import re
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kmdr.base.errors import UserError, check_memory, unknown
from kmdr.base.text import counted, first_few
from kmdr.datasets.file_options import FileOptions
from kmdr.datasets.formats import arrays, tables
from kmdr.datasets.formats.common import Content, import_extra, natural_key, reading, visible_files
from kmdr.datasets.formats.label_files import read_labels
from kmdr.datasets.formats.preprocessing import column_places, is_numeric, select_columns, setting
from kmdr.datasets.streamed import Streamed, from_blocks, stack_rows

SUFFIXES = {".npy": "npy", ".parquet": "Parquet", ".pq": "Parquet"}
_NUMBER = re.compile(r"\d{1,18}")


def part_files(folder: Path) -> list[Path]:
    """Return the parts in a folder, if any, in natural order (2 before 10)."""
    parts = [
        path for path in visible_files(folder, deep=False) if path.suffix.lower() in SUFFIXES and not _is_labels(path)
    ]
    parts.sort(key=lambda path: (natural_key(path.name), path.name))
    first = {kind: path for path in reversed(parts) for kind in [SUFFIXES[path.suffix.lower()]]}
    if len(first) > 1:
        odd = " and ".join(sorted(path.name for path in first.values()))
        raise UserError(f"{folder.name} holds parts of several kinds, such as {odd}; keep the parts of one kind")
    return parts


def label_files(folder: Path) -> list[Path]:
    """Return the label file in a folder of parts, if any."""
    files = sorted(path for path in visible_files(folder, deep=False) if _is_labels(path))
    if len(files) > 1:
        raise UserError(
            f"{folder.name} holds labels in {' and in '.join(path.name for path in files)}; keep one of them"
        )
    return files


def parts(folder: Path, limit: float, options: FileOptions) -> Content:
    """Read a folder of parts in blocks of rows.

    `limit` bounds the bytes that a Parquet part may claim; ``.npy`` parts are mapped.
    """
    files = part_files(folder)
    if not files:
        raise UserError(f"{folder.name} holds no parts of a matrix ({', '.join(SUFFIXES)}); choose a folder with parts")
    kind = SUFFIXES[files[0].suffix.lower()]
    if kind == "Parquet":
        content = _parquet(files, limit, options)
    elif options.label:
        raise UserError(
            f"option label does not apply to {folder.name}, whose parts are npy; put a labels.npy there, or set "
            "dataset.labels=… to a file"
        )
    else:
        content = select_columns(folder, _npy(files, limit, options), options.columns, options.drop)
    unused = len(visible_files(folder, deep=False)) - len(files)
    if (label_file := label_files(folder)) and content.labels is None:
        content.labels, content.labelled = read_labels(label_file[0], len(content.A))
        unused -= 1
    span = files[0].name if len(files) == 1 else f"{files[0].name} to {files[-1].name}"
    content.form = f"{len(files)} part{'s' * (len(files) > 1)}, {kind}, {span}"
    content.form += f"; {unused} other file{'s' * (unused > 1)} ignored" if unused else ""
    content.warnings = _gaps(files)
    return content


def _is_labels(path: Path) -> bool:
    return path.suffix.lower() == ".npy" and path.stem in arrays.CLASSES


def _gaps(files: Sequence[Path]) -> tuple[str, ...]:
    """Return a warning if the numbers in the names count up by one, with a few gaps."""
    texts = {_NUMBER.sub("\0", path.name) for path in files}
    counts = (
        np.array([list(map(int, _NUMBER.findall(path.name))) for path in files]) if len(texts) == 1 else np.empty(0)
    )
    if counts.ndim != 2 or len(counts) < 3:
        return ()
    counting = np.flatnonzero((counts != counts[0]).any(axis=0))
    steps = np.diff(counts[:, counting[0]]) if len(counting) == 1 else np.empty(0)
    wide = [(a.name, b.name) for (a, b), step in zip(pairwise(files), steps, strict=False) if step != 1]
    # Numbers that count otherwise, such as first rows or days, show no gaps.
    if not wide or 2 * len(wide) > len(steps):
        return ()
    between = first_few([f"between {a} and {b}" for a, b in wide])
    return (f"parts seem to be missing {between}; restore them if they are",)


def _refuse_different(first: Path, first_columns: str, other: Path, other_columns: str) -> None:
    """Refuse a part whose columns are not like those in the first part."""
    if first_columns != other_columns:
        raise UserError(
            f"{other.name} has {other_columns}, but {first.name} has {first_columns}; give all parts the same columns, "
            "or move other files out of the folder"
        )


def _npy(files: Sequence[Path], limit: float, options: FileOptions) -> Content:
    stacked = []
    for path in files:
        A = arrays.npy(path, limit, options).A
        if A.ndim != 2:
            raise UserError(f"{path.name} has the shape {A.shape}; a part of a matrix has one point per row")
        stacked.append(Streamed(A.shape, A.dtype, partial(_mapped_rows, path)))
        columns = [f"{part.shape[1]} columns of {part.dtype}" for part in (stacked[0], A)]
        _refuse_different(files[0], columns[0], path, columns[1])
    return Content(stack_rows(stacked))


def _mapped_rows(path: Path, start: int, stop: int) -> NDArray[Any]:
    """Return rows of a part. It is mapped for each call, because there may be more parts than files can be open."""
    with reading(path, "npy"):
        return np.asarray(arrays.map_npy(path)[start:stop])


def _parquet(files: Sequence[Path], limit: float, options: FileOptions) -> Content:
    label, drop = options.label, options.drop
    pq = import_extra("pyarrow.parquet", "parquet", files[0])
    schemas, groups, texts = [], list[tuple[Path, int, int]](), list[str]()
    for path in files:
        with reading(path, "Parquet"):
            texts, _ = tables.afford_parquet(path, limit)
            with pq.ParquetFile(path) as file:
                schemas.append(file.schema_arrow)
                counts = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        first_columns, other_columns = _difference(schemas[0], schemas[-1])
        _refuse_different(files[0], first_columns, path, other_columns)
        groups += [(path, number, rows) for number, rows in enumerate(counts) if rows]
    if not groups:
        raise UserError(f"{files[0].name} has no rows, and neither has any other part; add parts with rows")
    with reading(files[0], "Parquet"):
        empty = schemas[0].empty_table().to_pandas()  # without the index that pandas wrote
    empty.columns = empty.columns.map(str)
    if twice := [name for name, again in zip(empty.columns, empty.columns.duplicated(), strict=True) if again]:
        raise UserError(f"{files[0].name} has several columns named {twice[0]!r}; rename them in the parts")
    if label and label not in empty.columns:
        raise unknown(f"column of {files[0].name}", label, list(empty.columns))
    column = label or ("label" if "label" in empty.columns and "label" not in drop else "")
    empty = empty.drop(columns=column or [])
    names = [str(empty.columns[j]) for j in column_places(files[0], list(empty.columns), options.columns, drop)]
    if odd := [name for name in names if not is_numeric(empty[name])]:
        raise UserError(
            f"columns {first_few(list(map(repr, odd)))} of {files[0].name} are not numeric; set "
            f"{setting('drop', odd)}, or dataset.label=NAME if one holds the classes"
        )
    dtype = np.dtype(np.float32 if (empty[names].dtypes == np.float32).all() else np.float64)
    for path, _, rows in groups:
        check_memory(f"the {rows} rows of a row group of {path.name}", rows * len(names))

    def read(group: int) -> NDArray[Any]:
        path, number, _ = groups[group]
        with reading(path, "Parquet"), pq.ParquetFile(path) as file:
            frame = file.read_row_group(number, columns=names).to_pandas()
            return np.asarray(frame.to_numpy(dtype, na_value=np.nan))

    content = Content(from_blocks([rows for _, _, rows in groups], len(names), dtype, read), None, tuple(names))
    if column:
        coded = [column] if column in texts else []
        labels = [_labels(path, column, coded) for path in files]
        if any(isinstance(part.dtype, pd.CategoricalDtype) for part in labels):
            content.labels = np.concatenate([tables.classes_of(part) for part in labels])
        else:
            content.labels = tables.classes_of(pd.concat(labels))
        content.labelled = f"column {column!r}"
    return content


def _difference(*schemas: Any) -> tuple[str, str]:
    """Return descriptions of the columns of two parts, which are equal if the columns are."""
    columns = [
        [f"column {name!r} of {kind}" for name, kind in zip(schema.names, schema.types, strict=True)]
        for schema in schemas
    ]
    if len(columns[0]) != len(columns[1]):
        return counted(len(columns[0]), "column"), counted(len(columns[1]), "column")
    return next(((a, b) for a, b in zip(*columns, strict=True) if a != b), ("", ""))


def _labels(path: Path, column: str, coded: Sequence[str]) -> pd.Series:
    with reading(path, "Parquet"):
        return tables.parquet_labels(path, column, coded)
