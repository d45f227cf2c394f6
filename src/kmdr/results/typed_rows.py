"""Rows as a typed frame: numbers as arrays, and each text as the number of a category, which takes one or two bytes."""

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray


class TextColumn:
    """A column of text that is built block by block; each distinct text is stored once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._blocks: list[NDArray[np.int32]] = []

    def add(self, texts: "pd.Series[str]", convert: Callable[[str], str]) -> None:
        """Append texts, each distinct one converted once."""
        places, distinct = pd.factorize(texts)
        numbers = [self._numbers.setdefault(convert(text), len(self._numbers)) for text in distinct]
        self._blocks.append(np.array(numbers, dtype=np.int32)[places])

    def categorical(self) -> pd.Categorical:
        """Return the whole column; its categories are sorted."""
        categories = sorted(self._numbers)
        ranks = np.empty(len(categories), dtype=np.int32)
        ranks[[self._numbers[text] for text in categories]] = np.arange(len(categories))
        return pd.Categorical.from_codes(ranks[np.concatenate(self._blocks)], pd.Index(categories, dtype="str"))


def to_categories(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with text columns as categories: a fifth of the memory."""
    return rows.astype({name: "category" for name, dtype in rows.dtypes.items() if dtype == "str"})


def to_text(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with categories as text columns, the inverse of `to_categories`."""
    # `astype` takes five times as long, because it checks each column of text anew.
    columns = {str(name): rows[name].array for name, dtype in rows.dtypes.items() if dtype == "category"}
    return rows.assign(**{name: c.categories.array.take(c.codes, allow_fill=True) for name, c in columns.items()})
