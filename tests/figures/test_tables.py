"""Tables as CSV, Markdown and LaTeX: numbers as formatted, nothing lost, nothing that breaks the format."""

import csv
import math
import re
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kmdr.figures.escape import latex_escaped
from kmdr.figures.tables import Table, cells, latex, markdown, table_files, text
from reports import save_table

REFERENCE = Path(__file__).resolve().parents[2] / "results" / "reference" / "tables"


@pytest.fixture
def table():
    frame = pd.DataFrame(
        {"method": ["SVD | exact", "a_b & 50 %"], "ours": [0.123456789, math.nan], "time": ["O(n·d/ε²)", "⌈k⌉"]}
    )
    return Table(frame, {"ours": ".3f"}, "A note.")


def test_numbers_are_formatted_and_missing_ones_left_empty(table):
    names, lines = cells(table)
    assert names == ["method", "ours", "time"]
    assert [line[1] for line in lines] == ["0.123", ""]


def test_markdown_has_a_line_a_row_and_as_many_cells_as_columns(table):
    lines = [line for line in markdown(table).splitlines() if line.startswith("|")]
    assert len(lines) == 2 + len(table.frame)
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {4}
    assert lines[1] == "| --- | ---: | --- |"
    assert markdown(table).rstrip().endswith("A note.")


def test_latex_escapes_what_it_would_read_as_its_own(table):
    body = latex(table).split(r"\midrule")[1]
    assert r"a\_b \& 50 \%" in body
    assert r"$\varepsilon$$^2$" in body
    assert latex(table).count(r"\\") == 1 + len(table.frame)


def test_greek_letters_and_digits_above_and_below_need_no_unicode_fonts_in_latex():
    assert latex_escaped("λ Λ σ Σ ς Α ο x⁰ x₉") == r"$\lambda$ $\Lambda$ $\sigma$ $\Sigma$ $\varsigma$ A o x$^0$ x$_9$"
    letters = [chr(code) for code in range(0x391, 0x3CA) if chr(code).isalpha() and chr(code) not in "ΪΫάέήίΰ"]
    assert len(letters) == 24 + 25
    assert all(latex_escaped(letter).isascii() for letter in letters)


def test_the_csv_is_unrounded(table, tmp_path):
    paths = save_table(table, tmp_path / "deep" / "x")
    assert [path.suffix for path in paths] == [".csv", ".md", ".tex"]
    with paths[0].open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert float(rows[0]["ours"]) == 0.123456789
    assert rows[1]["ours"] == ""


@pytest.mark.parametrize("file", sorted(REFERENCE.glob("*.tex")), ids=lambda file: file.stem)
def test_the_committed_tables_need_no_unicode_fonts_in_latex(file):
    body = "".join(line for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("%"))
    assert body.isascii(), sorted({c for c in body if not c.isascii()})
    assert body.count("{") == body.count("}")


# -- width -----------------------------------------------------------------------------------------------------------


@st.composite
def wide_tables(draw):
    rows, words = draw(st.integers(1, 4)), st.text("ab_.9 é", min_size=1, max_size=40).map(str.strip).filter(bool)
    first = {name: draw(st.lists(words, min_size=rows, max_size=rows)) for name in ("dataset", "method")}
    columns = {**first, "r": ["5"] * rows}
    for i in range(draw(st.integers(1, 6))):
        columns[f"value {i}"] = draw(st.lists(st.text("0123.±", min_size=1, max_size=12), min_size=rows, max_size=rows))
    values = [name for name in columns if name.startswith("value")]
    formats = dict.fromkeys(["r", *values], "")
    groups = [["dataset", "method", "r"], *([name] for name in values)]
    return Table(pd.DataFrame(columns), formats, "A note of several words.", groups=groups, sections=["dataset"])


@settings(max_examples=200)
@given(table=wide_tables(), width=st.integers(20, 300))
def test_a_table_fits_its_width_and_keeps_every_number(table, width):
    shown = text(table, width=width)
    plain = text(table)
    for name in table.frame:
        for value in table.frame[name]:
            letters = "".join(value.split())
            assert letters in "".join(plain.split())
            if name in table.formats:
                assert value in shown
    needed = 12 + 2 + 1 + 2 + 14  # the narrowest method, r, and the widest value
    assert max(map(len, shown.splitlines())) <= max(width, needed)
    if max(map(len, plain.splitlines())) <= width:
        assert shown.splitlines()[: len(table.frame) + 2] == plain.splitlines()[: len(table.frame) + 2]


def test_what_does_not_fit_is_in_blocks_that_repeat_the_method_under_headings():
    frame = pd.DataFrame({"dataset": ["usps"] * 2 + ["orl"], "method": ["a", "b", "a"], "r": ["5"] * 3,
                          "F": ["1.0 ± 0.1"] * 3, "P": ["0.5 ± 0.1"] * 3})  # fmt: skip
    table = Table(frame, dict.fromkeys(["r", "F", "P"], ""), groups=[["dataset", "method", "r"], ["F"], ["P"]],
                  sections=["dataset"])  # fmt: skip
    blocks = text(table, width=22).split("\n\n")
    assert blocks[0].splitlines()[0].split() == ["method", "r", "F"]
    assert blocks[0].splitlines()[2:] == ["usps", "a       5  1.0 ± 0.1", "b       5  1.0 ± 0.1"]
    assert blocks[1].splitlines()[0] == "orl"
    assert blocks[2].splitlines()[0].split() == ["method", "r", "P"]
    assert text(table, width=40).splitlines()[0].split() == ["dataset", "method", "r", "F", "P"]


def test_long_texts_are_wrapped_before_their_group_is_split():
    frame = pd.DataFrame({"study": ["s"], "datasets": ["usps, orl, pie, coil20, light, synth"], "n": ["10"]})
    shown = text(Table(frame, {"n": ""}, groups=[["study"], ["datasets", "n"]]), width=40).splitlines()
    assert shown[0].split() == ["study", "datasets", "n"]
    assert max(map(len, shown)) <= 40


def test_readers_see_minus_signs_and_programs_read_hyphens():
    """The page had hyphens in its tables of numbers, and minus signs elsewhere."""
    table = Table(pd.DataFrame({"change": [-0.25, 1.0], "p": [0.5, -1e-9]}), {"change": "+.2f", "p": ".1e"})
    for shown in (text(table), markdown(table)):
        assert "−0.25" in shown
        assert "−1.0e−09" in shown
        assert "-0" not in shown
    assert "$-$0.25" in latex(table)
    assert table_files(table, Path("a"))[Path("a.csv")] == b"change,p\n-0.25,0.5\n1.0,-1e-09\n"


def test_settings_and_file_names_in_a_note_are_code_in_markdown():
    table = Table(pd.DataFrame({"a": [1.0]}), {"a": ".0f"}, "With kmeans.online=true, as in lle.m.")
    assert markdown(table).endswith("\nWith `kmeans.online=true`, as in `lle.m`.\n")
