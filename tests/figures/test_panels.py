"""Panels: every text is whole, the r of the grid are labelled, and what would hide itself is drawn side by side."""

import re
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kmdr.figures.canvas import WITH_PDF, figure_files, text_width, wrap
from kmdr.figures.description import panels_in_words
from kmdr.figures.panels import is_crowded, paper_grid, thinned_labels
from kmdr.figures.style import print_style
from rows import make_rows

GRIDS = st.lists(st.integers(1, 2000), min_size=1, max_size=60, unique=True).map(sorted)


@given(GRIDS, st.floats(0.5, 400), st.booleans())
def test_labels_of_r_do_not_overlap_and_the_last_has_one(grid, width, log):
    places = np.log(grid) * 300 if log else np.array(grid, float)
    kept = thinned_labels(grid, places, [width] * len(grid), width / 4)
    assert kept[-1] == len(grid) - 1
    assert kept == sorted(set(kept))
    assert all(places[j] - places[i] >= 1.25 * width for i, j in pairwise(kept))


def test_labels_of_an_even_grid_are_round():
    grid = list(range(5, 301, 5))
    labels = [grid[i] for i in thinned_labels(grid, grid, [24] * len(grid), 6)]
    assert labels == [5, 50, 100, 150, 200, 250, 300]


@given(st.lists(st.text("abc", min_size=1, max_size=30), min_size=1, max_size=40), st.floats(0.5, 7))
def test_notes_are_wrapped_to_their_width_and_keep_every_word(words, width):
    lines = wrap(" ".join(words), width, 7)
    assert " ".join(lines).split() == words
    assert all(text_width(line, 7) <= width for line in lines if " " in line)


def spread(rows, **scales):
    """Return rows whose objective is that of their method, moved by repetition."""
    noise = np.resize([-1.0, 0.0, 1.0], len(rows))
    level = rows["reducer"].map(scales).to_numpy()
    return rows.assign(objective=0.5 + level + 0.02 * noise)


def grid_rows(methods, levels):
    rows = pd.concat([make_rows("s", "usps", name, tuple(range(5, 101, 5)), 3) for name in methods])
    return spread(rows, **dict(zip(methods, levels, strict=True)))


METHODS = ("leverage", "leverage_approx", "random_sign", "svd", "laplacian_score", "gaussian")


def test_intervals_that_hide_each_other_are_drawn_side_by_side_at_the_labelled_r():
    drawing = paper_grid(grid_rows(METHODS, [0.0] * 6), ["usps"], ["objective"])
    (ax,) = drawing.figure.axes
    assert is_crowded(drawing.numbers)
    assert not [line for line in ax.get_lines() if len(line.get_xdata()) > len(ax.get_xticks())]
    assert len(ax.containers) == len(METHODS)
    assert "the CSV file has every r" in " ".join(drawing.figure.get_supxlabel().split())
    assert set(drawing.numbers["r"]) == set(range(5, 101, 5))
    apart = paper_grid(grid_rows(METHODS, np.arange(6) / 5), ["usps"], ["objective"])
    assert not is_crowded(apart.numbers)
    assert not apart.figure.axes[0].containers


@pytest.mark.parametrize("columns", [1, 2, 3, 4])
def test_titles_are_on_one_line_and_no_text_leaves_the_page(columns):
    names = [f"dataset with a long name {i}" for i in range(columns)]
    rows = pd.concat([grid_rows(METHODS, [0.0] * 6).assign(dataset=name, stand_in="generated data") for name in names])
    with print_style():
        figure = paper_grid(rows, names).figure
        figure.canvas.draw()
        for ax in figure.axes:
            assert "\n" not in ax.get_title(loc="left")
        boxes = [text.get_window_extent() for text in figure.findobj(mpl.text.Text) if text.get_text()]
        titles = [ax.get_tightbbox() for ax in figure.axes]
    assert min(box.x0 for box in boxes + titles) >= -1
    assert max(box.x1 for box in boxes + titles) <= figure.bbox.x1 + 1
    if columns == 4:
        assert "dataset with a long name 3" in " ".join(figure.get_supxlabel().split())


def test_panels_without_data_are_left_out_with_a_note():
    rows = pd.concat([make_rows("s", "usps", "svd", (5, 10), 3), make_rows("s", "orl", "svd", (5, 10), 3)])
    rows.loc[rows["dataset"] == "orl", "accuracy"] = np.nan
    drawing = paper_grid(rows, ["pie", "usps", "orl"], ["objective", "accuracy"])
    assert [ax.get_title(loc="left")[:3] for ax in drawing.figure.axes] == ["(a)", "(b)", "(c)"]
    assert not drawing.figure.findobj(
        lambda artist: isinstance(artist, mpl.text.Text) and "no rows" in artist.get_text() and artist.axes
    )
    note = " ".join(drawing.figure.get_supxlabel().split())
    assert "Not shown: PIE (no rows;" in note
    assert "(no accuracy; the data has no labels)." in note
    assert set(drawing.numbers["panel"]) == {"a", "b", "c"}


def test_the_fonts_of_a_pdf_are_embedded_as_truetype(tmp_path):
    drawing = paper_grid(make_rows("s", "usps", "svd", (5, 10), 3), ["usps"], ["objective"])
    files = figure_files(drawing, tmp_path / "figure", WITH_PDF)
    content = files[tmp_path / "figure.pdf"]
    assert set(re.findall(rb"/Subtype /(Type0|Type1|Type3|TrueType)\b", content)) == {b"Type0"}
    assert re.findall(rb"/Subtype /CIDFontType2", content)
    assert content.count(b"/FontFile2") == content.count(b"/Type /FontDescriptor") > 0


def test_a_figure_in_words_orders_the_methods_and_says_what_rises_and_falls():
    rows = grid_rows(METHODS[:2], (0.2, 0.12))
    rows["objective"] = np.where(rows["reducer"] == "leverage", 0.7 - rows["r"] / 1000, 0.5 + rows["r"] / 1000)
    assert panels_in_words(paper_grid(rows, ["usps"], ["objective"]).numbers) == (
        "USPS, objective at r = 100, in ascending order: leverage 0.6; leverage_approx 0.6; "
        "rising from r = 5 on: leverage_approx (0.505); falling from r = 5 on: leverage (0.695)."
    )
