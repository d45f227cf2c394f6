"""CSV files of a results folder: every text survives, and a line of fewer fields than columns is refused."""

import csv
import io
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kmdr.base.files import DamagedError
from kmdr.results import checked_bytes
from kmdr.results.checksums import write_table
from kmdr.results.csv_lines import complete_lines, csv_text, table_bytes
from kmdr.results.reader import fact_of, fact_texts
from kmdr.results.schema import COLUMNS
from kmdr.results.text_rows import TextRow, csv_blocks

TEXT = st.text(st.sampled_from('ab,;"\r\n \té'), max_size=6)


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=5))
@example([("x\ry", "")])
@settings(max_examples=60)
def test_texts_are_read_as_written(tmp_path_factory, lines):
    """Python 3.11 writes a carriage return without quotes, so a merged fact or table had broken lines."""
    folder = tmp_path_factory.mktemp("results")
    table = pd.DataFrame([("name", *line) for line in lines], columns=["key", "a", "b"])
    write_table(folder, "facts/x.csv", table_bytes(table))
    read = fact_texts(folder, folder / "facts" / "x.csv")
    assert read.to_numpy().tolist() == table.to_numpy().tolist()
    assert list(csv.reader(io.StringIO(csv_text(lines), newline=""))) == [list(line) for line in lines]


def test_a_row_with_a_carriage_return_is_written_as_one_line():
    row = TextRow("x\ry" if name == "error" else "z" for name in COLUMNS)
    (block,) = csv_blocks([row])
    assert list(csv.reader(io.StringIO(block.decode(), newline="")))[1] == list(row.values())


@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
@pytest.mark.parametrize("line", ["tdt2,1", "tdt2", '"td,t2",1', '"td\nt2",1', '"td""t,2",1', " ,"])
def test_a_fact_with_a_short_line_is_damaged(tmp_path, line, end):
    """The absent fields were read as empty."""
    write_table(tmp_path, "facts/x.csv", f"dataset,a,b\nusps,1,2\n{line}{end}".encode())
    for read in (lambda: fact_of(tmp_path / "facts", "x"), lambda: fact_texts(tmp_path, tmp_path / "facts" / "x.csv")):
        with pytest.raises(DamagedError, match=r"x\.csv is damaged: line 3 has \d of 3 fields"):
            read()


FIELD = st.text(st.sampled_from('ab,"\r\n '), max_size=4)


@given(st.lists(st.lists(FIELD, min_size=1, max_size=4), max_size=8), st.integers(1, 9), st.booleans())
@example([["a", "b"], ["", "\n"], ["a"]], 1, True)
@settings(max_examples=200)
def test_short_lines_are_found_whatever_the_blocks(lines, size, ended):
    """The oracle is Python's reader; blank lines are skipped, as by pandas."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(lines)
    content = text.getvalue() if ended else text.getvalue().removesuffix("\n")
    short = any(len(line) < 3 for line in lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checked_bytes, "_BLOCK", size)
        file = complete_lines(io.BytesIO(content.encode()), Path("x.csv"), 3)
        if short:
            with pytest.raises(DamagedError, match=r"x\.csv is damaged: line"):
                file.read()
        else:
            assert file.read().decode() == content


def test_blank_lines_are_skipped():
    content = b"\na,b,c\n\n \r\n\r\nd,e,f\n\n"
    assert complete_lines(io.BytesIO(content), Path("x.csv"), 3).read() == content
