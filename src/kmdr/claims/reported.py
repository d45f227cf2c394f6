"""The numbers that papers report, for comparison with ours."""

from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from kmdr.base.errors import UserError, shown
from kmdr.base.plugins import paper_folders

_COLUMNS = ["id", "dataset", "method", "r", "quantity", "value", "reading_error", "where"]


def reported(paper: str) -> pd.DataFrame:
    """Return the numbers that a paper reports, from its ``reported.csv``.

    Returns
    -------
    DataFrame
        Columns ``id dataset method r quantity value reading_error where``; `method` as in the rows' ``reducer``. Empty
        for a paper that reports none.

    Raises
    ------
    UserError
        If the file lacks a column, or a number of it is none.
    """
    for folder in paper_folders():
        file = folder.folder / "reported.csv"
        if folder.name == paper and file.is_file():
            return _parse(file, file.read_bytes()).copy(deep=False)
    return pd.DataFrame(columns=_COLUMNS)


@lru_cache  # every claim reads it, in every universe of a multiverse
def _parse(file: Path, content: bytes) -> pd.DataFrame:
    try:
        table = pd.read_csv(BytesIO(content), keep_default_na=False, na_values={"r": [""]})
    except ValueError as error:  # also of text that is not UTF-8, and of lines with too many cells
        raise UserError(f"{file} cannot be read ({' '.join(str(error).split())}); correct it") from error
    if missing := [name for name in _COLUMNS if name not in table]:
        raise UserError(f"{file} lacks the columns {', '.join(missing)}; add them")
    for name in ("r", "value", "reading_error"):
        numbers = pd.to_numeric(table[name], errors="coerce")
        wrong = ~np.isfinite(numbers) & (table[name].notna() if name == "r" else True)
        if wrong.any():
            line = int(wrong.to_numpy().argmax())
            value = shown(str(table[name].iloc[line]))
            raise UserError(f"{file}, row {line + 1} below the header: {name} = {value} is not a number; give one")
    return table


class Number(NamedTuple):
    """A number that a paper reports; see `reported`."""

    id: str
    dataset: str
    method: str
    r: float
    quantity: str
    value: float
    reading_error: float


def numbers(id_: str, **fixed: str) -> list[Number]:
    """Return the reported numbers of an item or claim, in the order of the file.

    Parameters
    ----------
    **fixed : str
        Restricts other columns to these values, e.g. ``dataset="nips"``.
    """
    table = reported(id_.replace("-", "_").partition("_")[0])
    for name, value in {"id": id_, **fixed}.items():
        table = table[table[name] == value]
    return [Number(*line) for line in table[list(Number._fields)].itertuples(index=False)]
