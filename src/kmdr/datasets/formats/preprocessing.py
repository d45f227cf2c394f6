"""Treat the content of a file: select columns, encode text, deal with missing values, scale columns."""

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray

from kmdr.base.errors import UserError, check_memory, unknown
from kmdr.base.text import first_few
from kmdr.datasets.formats.common import Content
from kmdr.datasets.formats.tables import BEYOND, is_number, whole_number
from kmdr.datasets.streamed import Streamed, stream_if_large
from kmdr.datasets.validation import blocks, kept_type
from kmdr.linalg.matrix import column_deviations

_PLAIN = re.compile(r"(?!(?:true|false|null|nan|inf)$)[A-Za-z_][\w.-]*|\d{1,9}", re.IGNORECASE)


def setting(option: str, values: Sequence[str]) -> str:
    """Return the command-line setting of a list of columns, quoted for a shell."""
    words = (value if _PLAIN.fullmatch(value) else json.dumps(value, ensure_ascii=False) for value in values)
    return shlex.quote(f"dataset.{option}=[{','.join(words)}]")


def column_names(content: Content) -> list[str]:
    """Return the names of the columns, or their numbers from 0."""
    if isinstance(content.A, pd.DataFrame):
        return list(map(str, content.A.columns))
    d = content.A.shape[1] if content.A.ndim == 2 else 0
    named = content.features is not None and len(content.features) == d
    return list(content.features if named and content.features else map(str, range(d)))


def select_columns(path: Path, content: Content, columns: Sequence[str], drop: Sequence[str]) -> Content:
    """Keep only some columns of a file, or drop some."""
    if not columns and not drop:
        return content
    names = column_names(content)
    kept = column_places(path, names, columns, drop)
    if isinstance(content.A, pd.DataFrame):
        return replace(content, A=content.A.iloc[:, kept])
    A = stream_if_large(content.A)
    if isinstance(A, Streamed):
        A = A.map_rows(lambda rows: rows[:, kept], len(kept), A.dtype)
    else:
        check_memory(f"the columns of {path.name}", A.shape[0] * len(kept))
        A = A[:, kept] if scipy.sparse.issparse(A) else np.asarray(A)[:, kept]
    return replace(content, A=A, features=tuple(names[j] for j in kept))


def column_places(path: Path, names: Sequence[str], columns: Sequence[str], drop: Sequence[str]) -> list[int]:
    """Return the positions of the columns to keep; raise the errors of `select_columns`."""
    for name in (*columns, *drop):
        if name not in names:
            raise unknown(f"column of {path.name}", name, names)
        if names.count(name) > 1:
            raise UserError(
                f"{path.name} has {names.count(name)} columns named {name!r}, so it is not clear which one is meant; "
                "rename them in the file"
            )
    kept = [j for j, name in enumerate(names) if (name in columns or not columns) and name not in drop]
    if not kept:
        raise UserError(f"no column of {path.name} is left; choose others with dataset.drop=… or dataset.columns=…")
    return kept


def is_numeric(column: pd.Series) -> bool:
    """Return whether a column of a table holds real numbers only."""
    kind = column.dtype
    return bool(pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_complex_dtype(kind))


def numbers(name: str, frame: pd.DataFrame, encode: str = "none", remedy: str = "") -> tuple[Any, tuple[str, ...]]:
    """Return a table as a matrix with NaN for missing values, and the names of its columns.

    Columns of text are refused, with a `remedy` in the error, or encoded: each becomes one column of 0 and 1 per value,
    or NaN if the value is missing. Errors call the table `name`.
    """
    if frame.empty:
        frame = frame.astype(np.float64)
    if encode == "onehot":
        frame = _encoded(name, frame)
    if texts := [frame.iloc[:, j] for j in range(frame.shape[1]) if not is_numeric(frame.iloc[:, j])]:
        raise UserError(_text_error(name, texts, remedy))
    kept = np.float32 if len(frame.columns) and (frame.dtypes == np.float32).all() else np.float64
    return frame.to_numpy(kept, na_value=np.nan), tuple(map(str, frame.columns))


def _text_error(name: str, columns: Sequence[pd.Series], remedy: str) -> str:
    """Return an error message about the columns of a table that are not numeric."""
    names = [str(column.name) for column in columns]
    values = list(columns[0].dropna().unique())
    odd = [repr(value) if isinstance(value, str) else str(value) for value in values if not is_number(str(value))]
    one = len(columns) == 1
    what = first_few(odd or ["dates or objects"])
    if values and not odd:
        whole = [number for value in values if (number := whole_number(str(value).strip())) is not None]
        long = len(whole) == len(values) and any(abs(number) >= BEYOND for number in whole)
        what = "whole numbers of more than 64 bits" if long else "numbers written as text"
        remedy = remedy or f"write {'shorter numbers' if long else 'them as numbers'}, or set {setting('drop', names)}"
    if not remedy and len(odd) < len(values) / 2:  # a column of numbers with a few words
        remedy = f"set {setting('drop', names)}, or empty the cells without a number and set dataset.missing=mean"
    elif not remedy:
        label = shlex.quote(f"dataset.label={names[0]}") if one else "dataset.label=NAME"
        count = f"its {len(values)}" if one else "their"
        remedy = (
            f"set {setting('drop', names)}, dataset.encode=onehot (one column for each of {count} values), or {label} "
            f"if {'it' if one else 'one'} holds the classes"
        )
    which = f"column {names[0]!r} of {name} is" if one else f"columns {first_few(list(map(repr, names)))} of {name} are"
    return f"{which} not numeric ({what}); {remedy}"


def _encoded(name: str, frame: pd.DataFrame) -> pd.DataFrame:
    parts: list[pd.DataFrame] = []
    for column in range(frame.shape[1]):
        series = frame.iloc[:, column]
        if is_numeric(series):
            parts.append(series.to_frame())
            continue
        missing = series.isna()
        texts = series.astype(str)
        values = sorted(texts[~missing].unique())
        if len(values) > 2 and len(values) == int((~missing).sum()):
            raise UserError(
                f"column {str(series.name)!r} of {name} has a different value in each row, like a name; omit it: "
                f"{setting('drop', [str(series.name)])}"
            )
        check_memory(f"the {len(values)} values of column {str(series.name)!r} of {name}", len(values) * len(series))
        dummies = pd.DataFrame({f"{series.name}={value}": (texts == value).astype(np.float64) for value in values})
        dummies[missing] = np.nan
        parts.append(dummies.set_index(series.index))
    return pd.concat(parts, axis=1) if parts else frame


def complete(
    path: Path, A: Any, labelings: Sequence[Any], missing: str, features: Sequence[str]
) -> tuple[Any, Sequence[Any]]:
    """Replace missing values, which are NaN, by the mean of their column, or drop their rows.

    ``"drop"`` also drops rows that lack a label in any labeling. With ``"refuse"``, `validation.check` refuses missing
    values.
    """
    if missing == "refuse" or A.dtype.kind not in ("f" if missing == "mean" else "biuf"):
        return A, labelings
    A = stream_if_large(A)
    if not isinstance(A, Streamed):
        A = np.array(A)
    known, total, whole = _known(A)
    if missing == "drop":
        fitting = all(np.size(labels) == len(whole) for labels in labelings)
        for labels in labelings if fitting else ():
            whole &= ~pd.isna(np.ravel(labels))
        labelings = [np.ravel(labels)[whole] for labels in labelings] if fitting else labelings
        if whole.sum() < 2:
            raise UserError(
                f"{int(whole.sum())} rows of {path.name} have a value in each column; set dataset.missing=mean instead"
            )
        return A.select_rows(whole) if isinstance(A, Streamed) else A[whole], labelings
    if (empty := known == 0).any():
        name = features[int(empty.argmax())]
        raise UserError(f"column {name!r} of {path.name} has no values; omit it: {setting('drop', [name])}")
    means = (total / known).astype(A.dtype)

    def filled(rows: NDArray[Any]) -> NDArray[Any]:
        return np.where(np.isnan(rows), means, rows)

    return A.map_rows(filled, A.shape[1], A.dtype) if isinstance(A, Streamed) else filled(A), labelings


def _known(A: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]]:
    """Return the number of values and their sum in each column, and which rows are complete; reads in blocks."""
    in_blocks = isinstance(A, Streamed)
    known, total = np.zeros(A.shape[1], np.int64), np.zeros(A.shape[1], np.float64 if in_blocks else A.dtype)
    whole = np.ones(len(A), bool)
    for start, rows in blocks(A, A.dtype) if in_blocks else [(0, A)]:
        absent = np.isnan(rows)
        known += (~absent).sum(axis=0)
        with np.errstate(over="ignore"):  # an infinite mean is refused later, and does not matter without means
            total = total + np.where(absent, 0, rows).sum(axis=0, dtype=total.dtype)
        whole[start : start + len(rows)] = ~absent.any(axis=1)
    return known, total, whole


def scale_columns(path: Path, A: NDArray[Any], how: str) -> Any:
    """Scale columns: ``"standard"`` to mean 0 and standard deviation 1, ``"minmax"`` to the range 0 to 1."""
    if how == "none" or not A.size:
        return A
    A = stream_if_large(A)
    if isinstance(A, Streamed):
        return _scale_in_blocks(A, how)
    check_memory(f"the scaled columns of {path.name}", A.size)
    A = np.asarray(A, kept_type(A))
    if not np.isfinite(A).all():
        return A  # refused later
    from sklearn.preprocessing import minmax_scale
    from sklearn.preprocessing import scale as standardise

    return standardise(A) if how == "standard" else minmax_scale(A)


def _scale_in_blocks(A: Streamed, how: str) -> Streamed:
    """Scale the columns of a matrix that is read in blocks, which takes one or two extra reads."""
    kept = kept_type(A)
    low, high = np.full(A.shape[1], np.inf), np.full(A.shape[1], -np.inf)
    first, offsets, squares = np.zeros(A.shape[1]), np.zeros(A.shape[1]), np.zeros(A.shape[1])
    for start, rows in blocks(A, kept):
        if start == 0:
            first = rows[0].astype(np.float64)
        low, high = np.minimum(low, rows.min(axis=0)), np.maximum(high, rows.max(axis=0))
        if how == "standard":
            offsets += column_deviations(rows, first)[1]
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        return A  # refused later
    shift, spread = low, high - low
    if how == "standard":
        shift, residues = first + offsets / len(A), np.zeros(A.shape[1])
        for _, rows in blocks(A, kept):
            deviations = column_deviations(rows, shift)
            squares, residues = squares + deviations[0], residues + deviations[1]
        spread = np.where(low == high, 0, np.sqrt(np.maximum(squares / len(A) - (residues / len(A)) ** 2, 0)))
    spread[spread == 0] = 1
    return A.map_rows(lambda rows: ((rows - shift) / spread).astype(kept), A.shape[1], kept)


def refuse_sparse(path: Path, A: Any, scale: str, missing: str) -> None:
    """Refuse treatments that would make a sparse matrix dense."""
    if scipy.sparse.issparse(A):
        if scale != "none":
            raise UserError(
                f"option scale is {scale!r}, but {path.name} is sparse and would become dense; use dataset.rows=unit"
            )
        if missing != "refuse":
            raise UserError(
                f"option missing is {missing!r}, but {path.name} is sparse, where absent entries are 0; remove it"
            )
