"""A folder of parts of one matrix, ``.npy`` or Parquet, whose rows follow each other in the order of their names."""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kmdr.base.errors import UserError, check_memory, unknown
from kmdr.datasets.formats import arrays, tables
from kmdr.datasets.formats.reading import Content, brought, hidden, natural, reading
from kmdr.datasets.formats.treatment import chosen, is_numeric, selected, setting, some
from kmdr.datasets.streamed import Streamed, stacked

SUFFIXES = {".npy": "npy", ".parquet": "Parquet", ".pq": "Parquet"}
_NUMBER = re.compile(r"\d{1,18}")


def in_folder(folder: Path) -> list[Path]:
    """Return the parts of a folder in the order of their names, numbers as such; none where it holds no parts.

    Raises
    ------
    UserError
        They are of several kinds.
    """
    parts = [path for path in _visible(folder) if path.suffix.lower() in SUFFIXES and not _is_labels(path)]
    parts.sort(key=lambda path: (natural(path.name), path.name))
    first = {kind: path for path in reversed(parts) for kind in [SUFFIXES[path.suffix.lower()]]}
    if len(first) > 1:
        odd = " and ".join(sorted(path.name for path in first.values()))
        raise UserError(f"{folder.name} holds parts of several kinds, as {odd}; keep those of one kind")
    return parts


def labels_in(folder: Path) -> list[Path]:
    """Return the file of the labels in a folder of parts, where there is one.

    Raises
    ------
    UserError
        There are several.
    """
    files = sorted(path for path in _visible(folder) if _is_labels(path))
    if len(files) > 1:
        raise UserError(
            f"{folder.name} holds labels in {' and in '.join(path.name for path in files)}; keep one of them"
        )
    return files


def parts(
    folder: Path, limit: float, label: str = "", columns: Sequence[str] = (), drop: Sequence[str] = ()
) -> Content:
    """Read a folder of parts, of which some rows are in memory at a time.

    Parameters
    ----------
    folder : Path
    limit : float
        Most bytes that a Parquet part may claim; ``.npy`` is mapped.
    label : str
        The column of the labels, of Parquet.
    columns, drop : sequence of str
        Columns to keep and to leave out.
    """
    files = in_folder(folder)
    if not files:
        raise UserError(f"{folder.name} holds no part of a matrix ({', '.join(SUFFIXES)}); put some there")
    kind = SUFFIXES[files[0].suffix.lower()]
    if kind == "Parquet":
        content = _parquet(files, limit, label, columns, drop)
    elif label:
        raise UserError(
            f"option label means nothing for {folder.name}, whose parts are npy; put a labels.npy there, or name a "
            "file with dataset.labels=…"
        )
    else:
        content = selected(folder, _npy(files, limit), columns, drop)
    left = len(_visible(folder)) - len(files)
    if (apart := labels_in(folder)) and content.labels is None:
        content.labels, content.labelled = tables.label_file(apart[0], len(content.A))
        left -= 1
    span = files[0].name if len(files) == 1 else f"{files[0].name} to {files[-1].name}"
    content.form = f"{len(files)} part{'s' * (len(files) > 1)}, {kind}, {span}"
    content.form += f"; {left} other file{'s' * (left > 1)} left aside" if left else ""
    content.warnings = _gaps(files)
    return content


def _visible(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.is_file() and not hidden(folder, path)]
    except OSError as e:
        raise UserError(f"{folder} cannot be read ({e.strerror}); name a folder that can") from e


def _is_labels(path: Path) -> bool:
    return path.suffix.lower() == ".npy" and path.stem in arrays.CLASSES


def _gaps(files: Sequence[Path]) -> tuple[str, ...]:
    """Return a warning where the names count up by ones, but for some that are not there."""
    texts = {_NUMBER.sub("\0", path.name) for path in files}
    counts = (
        np.array([list(map(int, _NUMBER.findall(path.name))) for path in files]) if len(texts) == 1 else np.empty(0)
    )
    if counts.ndim != 2 or len(counts) < 3:
        return ()
    counting = np.flatnonzero((counts != counts[0]).any(axis=0))
    steps = np.diff(counts[:, counting[0]]) if len(counting) == 1 else np.empty(0)
    wide = [(a.name, b.name) for (a, b), step in zip(pairwise(files), steps, strict=False) if step != 1]
    # Of what counts otherwise, as first rows or days do, nothing can be told.
    if not wide or 2 * len(wide) > len(steps):
        return ()
    between = some([f"between {a} and {b}" for a, b in wide])
    return (f"parts seem to be lacking {between}; where they are, put them back",)


def _alike(first: Path, of_first: str, other: Path, of_other: str) -> None:
    """Refuse a part that is not like the first."""
    if of_first != of_other:
        raise UserError(
            f"{other.name} has {of_other}, where {first.name} has {of_first}; parts of one matrix are alike, so make "
            "them so, or take what is no part out of the folder"
        )


def _npy(files: Sequence[Path], limit: float) -> Content:
    held = []
    for path in files:
        A = arrays.npy(path, limit).A
        if A.ndim != 2:
            raise UserError(f"{path.name} has the shape {A.shape}; a part of a matrix has one point a row")
        held.append(Streamed(A.shape, A.dtype, partial(_mapped_rows, path)))
        said = [f"{part.shape[1]} columns of {part.dtype}" for part in (held[0], A)]
        _alike(files[0], said[0], path, said[1])
    return Content(stacked(held))


def _mapped_rows(path: Path, start: int, stop: int) -> NDArray[Any]:
    """Return rows of a part, which is mapped anew each time: there may be more of them than files may be open."""
    return np.asarray(arrays.npy(path, np.inf).A[start:stop])


def _parquet(files: Sequence[Path], limit: float, label: str, columns: Sequence[str], drop: Sequence[str]) -> Content:
    pq = brought("pyarrow.parquet", "parquet", files[0])
    schemas, groups, texts = [], list[tuple[Path, int, int]](), list[str]()
    for path in files:
        with reading(path, "Parquet"):
            texts = tables.afford_parquet(path, limit)
            with pq.ParquetFile(path) as file:
                schemas.append(file.schema_arrow)
                counts = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        of_first, of_other = _told_apart(schemas[0], schemas[-1])
        _alike(files[0], of_first, path, of_other)
        groups += [(path, number, rows) for number, rows in enumerate(counts) if rows]
    if not groups:
        raise UserError(f"{files[0].name} has no rows, nor has any other part; put parts there that have some")
    with reading(files[0], "Parquet"):
        empty = schemas[0].empty_table().to_pandas()  # without what pandas wrote as its index
    empty.columns = empty.columns.map(str)
    if twice := [name for name, again in zip(empty.columns, empty.columns.duplicated(), strict=True) if again]:
        raise UserError(f"{files[0].name} has several columns named {twice[0]!r}; rename them in the parts")
    if label and label not in empty.columns:
        raise unknown(f"column of {files[0].name}", label, list(empty.columns))
    column = label or ("label" if "label" in empty.columns and "label" not in drop else "")
    empty = empty.drop(columns=column or [])
    names = [str(empty.columns[j]) for j in chosen(files[0], list(empty.columns), columns, drop)]
    if odd := [name for name in names if not is_numeric(empty[name])]:
        raise UserError(
            f"columns {some(list(map(repr, odd)))} of {files[0].name} hold no numbers; say {setting('drop', odd)}, or "
            "dataset.label=NAME if one is the classes"
        )
    dtype = np.dtype(np.float32 if (empty[names].dtypes == np.float32).all() else np.float64)
    rows_of = lru_cache(maxsize=1)(partial(_group, names, dtype))  # of all files together
    held = []
    for path, number, rows in groups:
        check_memory(f"{rows} rows of {path.name}, a row group,", rows * len(names))
        held.append(Streamed((rows, len(names)), dtype, partial(_within, rows_of, path, number)))
    content = Content(stacked(held), None, tuple(names))
    if column:
        coded = [column] if column in texts else []
        held_labels = [_labels(path, column, coded) for path in files]
        if any(isinstance(part.dtype, pd.CategoricalDtype) for part in held_labels):
            content.labels = np.concatenate([tables.classes_of(part) for part in held_labels])
        else:
            content.labels = tables.classes_of(pd.concat(held_labels))
        content.labelled = f"column {column!r}"
    return content


def _told_apart(*schemas: Any) -> tuple[str, str]:
    """Return in words what tells the columns of two parts from each other: twice the same where nothing does."""
    said = [
        [f"column {name!r} of {kind}" for name, kind in zip(schema.names, schema.types, strict=True)]
        for schema in schemas
    ]
    if len(said[0]) != len(said[1]):
        return f"{len(said[0])} columns", f"{len(said[1])} columns"
    return next(((a, b) for a, b in zip(*said, strict=True) if a != b), ("", ""))


def _group(names: Sequence[str], dtype: np.dtype[Any], path: Path, number: int) -> NDArray[Any]:
    pq = brought("pyarrow.parquet", "parquet", path)
    with reading(path, "Parquet"), pq.ParquetFile(path) as file:
        frame = file.read_row_group(number, columns=list(names)).to_pandas()
        return np.asarray(frame.to_numpy(dtype, na_value=np.nan))


def _within(
    rows_of: Callable[[Path, int], NDArray[Any]], path: Path, number: int, start: int, stop: int
) -> NDArray[Any]:
    return rows_of(path, number)[start:stop]


def _labels(path: Path, column: str, coded: Sequence[str]) -> pd.Series:
    with reading(path, "Parquet"):
        return tables.parquet_labels(path, column, coded)
