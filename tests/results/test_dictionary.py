"""The data dictionary says what the code checks and what the rows hold."""

import json

import pandas as pd

from kmdr.results import dictionary
from kmdr.results.schema import COLUMNS, VALUES


def test_the_page_is_current():
    assert dictionary.README.read_text("utf-8") == dictionary.text(), "run: python -m kmdr.results.dictionary"


def test_every_column_is_told_of_once_in_the_order_of_the_table():
    assert tuple(VALUES) == COLUMNS
    lines = dictionary.table().splitlines()[2:]
    assert [line.split("`")[1] for line in lines] == list(COLUMNS)
    assert all(values.meaning for values in VALUES.values())
    assert all(line.count("|") == 7 for line in lines)


def test_the_committed_rows_are_of_the_types_that_it_says():
    """Each type by what Python makes of the text."""
    table = dictionary.README.parent / "reference" / "rows.csv.xz"
    rows = pd.read_csv(table, dtype=str, keep_default_na=False, nrows=3000)
    assert set(rows) <= set(COLUMNS)
    read = {"integer": int, "number": float, "JSON": json.loads, "text": str}
    for name, texts in rows.items():
        assert not (VALUES[name].needed and "" in set(texts))
        for text in set(texts) - {""}:
            read[dictionary.type_of(name)](text)
