"""Tables of the atlas in its folder, which ``kmdr check`` accepts, and its figures with the numbers that they show."""

from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from atlas_rows import atlas_rows, rank
from kmdr.atlas.effects import effects
from kmdr.atlas.figures import critical_differences, profile_curves, trade_off
from kmdr.atlas.ranking import (
    Block,
    Condition,
    compare_methods,
    pareto_over_datasets,
    performance_profiles,
)
from kmdr.atlas.tables import csv_bytes, tables_of, write
from kmdr.figures.canvas import figure_files
from kmdr.results.check import fact_faults
from kmdr.results.reader import fact_of
from rows import write_rows

AT_5K = Condition(multiple=5.0)


@pytest.fixture(scope="module")
def rows():
    return atlas_rows(forms=("raw", "unit rows"), repeats=2, multiples=(1, 5))


@pytest.fixture(scope="module")
def table(rows):
    return effects(rows)


@pytest.mark.slow
def test_the_tables_are_written_with_checksums_and_read_again(tmp_path, rows):
    digests = rows["data_sha256"].map(lambda text: sha256(text.encode()).hexdigest())
    write_rows(tmp_path, rows, machine="0" * 12, guests="", data_sha256=digests)
    written = write(tmp_path)
    assert sorted(path.name for path in (tmp_path / "facts").glob("*.csv")) == sorted(f"{name}.csv" for name in written)
    assert list(fact_faults(tmp_path)) == []
    for name, frame in written.items():
        again = fact_of(tmp_path / "facts", name)
        expected = pd.read_csv(tmp_path / "facts" / f"{name}.csv", keep_default_na=False)
        assert list(again.columns) == list(frame.columns) == list(expected.columns)
        assert len(again) == len(frame)
    assert_frame_equal(written["effects"], tables_of(rows)["effects"])
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "facts").iterdir()}
    write(tmp_path)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "facts").iterdir()} == before
    path = tmp_path / "facts" / "ranks.csv"
    path.write_text(path.read_text("utf-8").replace("svd", "SVD", 1), "utf-8")
    assert [fault.path.name for fault in fact_faults(tmp_path)] == ["ranks.csv"]


def test_numbers_are_written_with_eight_digits():
    assert csv_bytes(pd.DataFrame({"a": [1 / 3, np.nan], "b": [2, 3]})) == b"a,b\n0.33333333,2\n,3\n"


def drawings(table):
    yield critical_differences(rank(table, "loss", AT_5K))
    yield profile_curves(performance_profiles(table, AT_5K, "raw"), str(AT_5K), 1.1)
    yield trade_off(pareto_over_datasets(table, "raw"), "raw")


@pytest.mark.slow
def test_the_same_figure_gives_the_same_bytes(table):
    one, two = ([figure_files(drawing, Path("f")) for drawing in drawings(table)] for _ in range(2))
    assert one == two


def test_a_diagram_has_the_ranks_of_its_ranking(table):
    found = rank(table, "loss", AT_5K)
    numbers = critical_differences(found).numbers
    assert numbers.set_index("method")["rank"].to_dict() == found.ranks["mean"].to_dict()
    assert numbers["groups"].str.split().explode().nunique() == len(found.groups)


def bars(drawing):
    """Heights of the bars of groups: vertical lines."""
    (ax,) = drawing.figure.axes
    return [line.get_ydata() for line in ax.lines if len(set(line.get_xdata())) == 1 and len(line.get_ydata()) == 2
            and line.get_linewidth() > 1.5]  # fmt: skip


def note(drawing):
    return " ".join(drawing.figure.get_supxlabel().split())


def test_bars_span_what_is_not_distinguished(rng):
    values = pd.DataFrame(rng.random((20, 5)) * 0.01 + [0, 0, 1, 1, 2], columns=list("abcde"))
    found = compare_methods(Block(values, (), ()), "loss", AT_5K, "raw")
    drawing = critical_differences(found)
    assert len(bars(drawing)) == sum(len(group) > 1 for group in found.groups)
    assert f"{found.distance:.2f}" in note(drawing)
    same = compare_methods(Block(values * 0, (), ()), "loss", AT_5K, "raw")
    assert len(bars(critical_differences(same))) == 1
    assert "no method is better than another" in note(critical_differences(same))
    few = compare_methods(Block(values[:3], (), ()), "loss", AT_5K, "raw")
    assert "too few for a test" in note(critical_differences(few))
    best = compare_methods(Block(values[["a", "c", "e"]] * [1, 1, 5], (), ()), "loss", AT_5K, "raw")
    assert best.winner == "a"
    assert "a is better than every other" in note(critical_differences(best))


def test_a_profile_and_a_front_show_their_numbers(table):
    profiles = performance_profiles(table, AT_5K, "raw")
    assert_frame_equal(profile_curves(profiles, "r = 5 k", 1.1).numbers[profiles.columns], profiles)
    points = pareto_over_datasets(table, "raw")
    assert_frame_equal(trade_off(points, "raw").numbers[points.columns], points)
