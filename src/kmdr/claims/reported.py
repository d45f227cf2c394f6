"""The numbers that papers report, for comparison with ours."""

from typing import NamedTuple

import pandas as pd

from kmdr.base.plugins import paper_folders


def reported(paper: str) -> pd.DataFrame:
    """Return the numbers that a paper reports, from its ``reported.csv``.

    Returns
    -------
    DataFrame
        Columns ``id dataset method r quantity value reading_error where``; `method` as in the rows' ``reducer``. Empty
        for a paper that reports none.
    """
    columns = ["id", "dataset", "method", "r", "quantity", "value", "reading_error", "where"]
    for folder in paper_folders():
        file = folder.folder / "reported.csv"
        if folder.name == paper and file.is_file():
            return pd.read_csv(file, keep_default_na=False, na_values={"r": [""]})
    return pd.DataFrame(columns=columns)


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
