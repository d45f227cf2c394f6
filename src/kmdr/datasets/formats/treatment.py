"""What is made of a file before it is a dataset: columns chosen, text encoded, missing values and scales dealt with."""

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
from kmdr.datasets.formats.reading import Content
from kmdr.datasets.formats.tables import is_number
from kmdr.datasets.streamed import Streamed, streamed
from kmdr.datasets.valid import blocks, kept_type
from kmdr.linalg.matrix import column_deviations

_PLAIN = re.compile(r"(?!(?:true|false|null|nan|inf)$)[A-Za-z_][\w.-]*|\d{1,9}", re.IGNORECASE)
_SHOWN = 3


def setting(option: str, values: Sequence[str]) -> str:
    """Return a list of columns as it is set on the command line, quoted for a shell."""
    words = (value if _PLAIN.fullmatch(value) else json.dumps(value, ensure_ascii=False) for value in values)
    return shlex.quote(f"dataset.{option}=[{','.join(words)}]")


def some(texts: Sequence[str]) -> str:
    """Return the first of some texts, and how many more there are."""
    more = len(texts) - _SHOWN
    return ", ".join(texts[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def names_of(content: Content) -> list[str]:
    """Names of the columns: their own, or their numbers from 0."""
    if isinstance(content.A, pd.DataFrame):
        return list(map(str, content.A.columns))
    d = content.A.shape[1] if content.A.ndim == 2 else 0
    named = content.features is not None and len(content.features) == d
    return list(content.features if named and content.features else map(str, range(d)))


def selected(path: Path, content: Content, columns: Sequence[str], drop: Sequence[str]) -> Content:
    """Keep some columns of a content, or leave some out.

    Raises
    ------
    UserError
        There is no such column, or none is left.
    """
    if not columns and not drop:
        return content
    names = names_of(content)
    kept = chosen(path, names, columns, drop)
    if isinstance(content.A, pd.DataFrame):
        return replace(content, A=content.A.iloc[:, kept])
    A = streamed(content.A)
    if isinstance(A, Streamed):
        A = A.each(lambda rows: rows[:, kept], len(kept), A.dtype)
    else:
        check_memory(f"the columns of {path.name}", A.shape[0] * len(kept))
        A = A[:, kept] if scipy.sparse.issparse(A) else np.asarray(A)[:, kept]
    return replace(content, A=A, features=tuple(names[j] for j in kept))


def chosen(path: Path, names: Sequence[str], columns: Sequence[str], drop: Sequence[str]) -> list[int]:
    """Return the places of the columns that are wanted; raises what `selected` does."""
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
    """Whether a column of a table holds real numbers only."""
    kind = column.dtype
    return bool(pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_complex_dtype(kind))


def numbers(name: str, frame: pd.DataFrame, encode: str = "none", remedy: str = "") -> tuple[Any, tuple[str, ...]]:
    """Return a table as a matrix, with the names of its columns; a missing value is NaN.

    Parameters
    ----------
    name : str
        What errors call the table.
    frame : DataFrame
    encode : {"none", "onehot"}
        What becomes of a column of text: refused, or a column of 0 and 1 for each of its values, all of them NaN where
        a value is missing.
    remedy : str, optional
        What is to be done about a column of text.
    """
    if frame.empty:
        frame = frame.astype(np.float64)
    if encode == "onehot":
        frame = _encoded(name, frame)
    if texts := [frame.iloc[:, j] for j in range(frame.shape[1]) if not is_numeric(frame.iloc[:, j])]:
        raise UserError(_of_text(name, texts, remedy))
    kept = np.float32 if len(frame.columns) and (frame.dtypes == np.float32).all() else np.float64
    return frame.to_numpy(kept, na_value=np.nan), tuple(map(str, frame.columns))


def _of_text(name: str, columns: Sequence[pd.Series], remedy: str) -> str:
    """Return a sentence on the columns of a table that do not hold numbers only."""
    heads = [str(column.name) for column in columns]
    values = list(columns[0].dropna().unique())
    odd = [repr(value) if isinstance(value, str) else str(value) for value in values if not is_number(str(value))]
    mostly = len(odd) < len(values) / 2  # numbers with a word between them
    counts = f"each of its {len(values)} values" if len(columns) == 1 else "each value"
    if not remedy:
        onehot = f"dataset.encode=onehot, which makes a column of {counts}"
        of_one = shlex.quote(f"dataset.label={heads[0]}") if len(columns) == 1 else "dataset.label=NAME"
        remedy = f"say {setting('drop', heads)}, " + (
            "or leave the cells without a number empty and say dataset.missing=mean"
            if mostly
            else f"{onehot}, or {of_one} if {'it' if len(columns) == 1 else 'one'} is the classes"
        )
    which = (
        f"columns {some(list(map(repr, heads)))} of {name} do"
        if len(columns) > 1
        else f"column {heads[0]!r} of {name} does"
    )
    return f"{which} not hold numbers only, but {some(odd or ['dates or objects'])}; {remedy}"


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
                f"column {str(series.name)!r} of {name} has another value in each row, as a name has; leave it out: "
                f"{setting('drop', [str(series.name)])}"
            )
        check_memory(f"the {len(values)} values of column {str(series.name)!r} of {name}", len(values) * len(series))
        dummies = pd.DataFrame({f"{series.name}={value}": (texts == value).astype(np.float64) for value in values})
        dummies[missing] = np.nan
        parts.append(dummies.set_index(series.index))
    return pd.concat(parts, axis=1) if parts else frame


def complete(path: Path, A: Any, labels: Any, missing: str, features: Sequence[str]) -> tuple[Any, Any]:
    """Deal with missing values, which are NaN: by the mean of the column, or without the row.

    Parameters
    ----------
    path : Path
    A : ndarray of shape (n, d)
    labels : array of n entries or None
    missing : {"refuse", "mean", "drop"}
        With ``"drop"`` also rows without a label are left out. What is refused is refused by `valid.check`.
    features : sequence of str
        Names of the columns.
    """
    if missing == "refuse" or A.dtype.kind != "f":
        return A, labels
    A = streamed(A)
    if not isinstance(A, Streamed):
        A = np.array(A)
    known, total, whole = _known(A)
    if missing == "drop":
        if labels is not None and np.size(labels) == len(whole):
            whole &= ~pd.isna(np.ravel(labels))
            labels = np.ravel(labels)[whole]
        if whole.sum() < 2:
            raise UserError(
                f"{int(whole.sum())} rows of {path.name} have a value in each column; say dataset.missing=mean"
            )
        return A.only(whole) if isinstance(A, Streamed) else A[whole], labels
    if (empty := known == 0).any():
        name = features[int(empty.argmax())]
        raise UserError(f"column {name!r} of {path.name} has no value at all; leave it out: {setting('drop', [name])}")
    means = (total / known).astype(A.dtype)

    def filled(rows: NDArray[Any]) -> NDArray[Any]:
        return np.where(np.isnan(rows), means, rows)

    return A.each(filled, A.shape[1], A.dtype) if isinstance(A, Streamed) else filled(A), labels


def _known(A: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]]:
    """Return how many values each column has and their sum, and which rows have one in each; read in blocks."""
    many = isinstance(A, Streamed)
    known, total = np.zeros(A.shape[1], np.int64), np.zeros(A.shape[1], np.float64 if many else A.dtype)
    whole = np.ones(len(A), bool)
    for start, rows in blocks(A, A.dtype) if many else [(0, A)]:
        absent = np.isnan(rows)
        known += (~absent).sum(axis=0)
        with np.errstate(over="ignore"):  # an infinite mean is refused, and without means it is no matter
            total = total + np.where(absent, 0, rows).sum(axis=0, dtype=total.dtype)
        whole[start : start + len(rows)] = ~absent.any(axis=1)
    return known, total, whole


def scaled(path: Path, A: NDArray[Any], scale: str) -> Any:
    """Scale the columns of a matrix: ``"standard"`` to mean 0 and deviation 1, ``"minmax"`` to the range 0 to 1."""
    if scale == "none":
        return A
    A = streamed(A)
    if isinstance(A, Streamed):
        return _scaled_rows(A, scale)
    check_memory(f"the scaled columns of {path.name}", A.size)
    A = np.asarray(A, kept_type(A))
    if not np.isfinite(A).all():
        return A  # which is refused
    from sklearn.preprocessing import minmax_scale
    from sklearn.preprocessing import scale as standardised

    return standardised(A) if scale == "standard" else minmax_scale(A)


def _scaled_rows(A: Streamed, scale: str) -> Streamed:
    """Do the same to what is read some rows at a time, from two reads or one."""
    kept = kept_type(A)
    low, high = np.full(A.shape[1], np.inf), np.full(A.shape[1], -np.inf)
    first, offsets, squares = np.zeros(A.shape[1]), np.zeros(A.shape[1]), np.zeros(A.shape[1])
    for start, rows in blocks(A, kept):
        if start == 0:
            first = rows[0].astype(np.float64)
        low, high = np.minimum(low, rows.min(axis=0)), np.maximum(high, rows.max(axis=0))
        if scale == "standard":
            offsets += column_deviations(rows, first)[1]
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        return A  # which is refused
    shift, spread = low, high - low
    if scale == "standard":
        shift, left = first + offsets / len(A), np.zeros(A.shape[1])
        for _, rows in blocks(A, kept):
            of_rows = column_deviations(rows, shift)
            squares, left = squares + of_rows[0], left + of_rows[1]
        spread = np.where(low == high, 0, np.sqrt(np.maximum(squares / len(A) - (left / len(A)) ** 2, 0)))
    spread[spread == 0] = 1
    return A.each(lambda rows: ((rows - shift) / spread).astype(kept), A.shape[1], kept)


def refuse_sparse(path: Path, A: Any, scale: str, missing: str) -> None:
    """Refuse what would make a sparse matrix dense."""
    if scipy.sparse.issparse(A):
        if scale != "none":
            raise UserError(
                f"option scale is {scale!r}, but {path.name} is sparse and would become dense; use dataset.rows=unit"
            )
        if missing != "refuse":
            raise UserError(
                f"option missing is {missing!r}, but {path.name} is sparse, where what is absent is 0; leave it out"
            )
