"""What tables compare and mark: no rounding errors, no times but serial ones of one machine, custom metrics as any."""

import io
import json
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.datasets import load_iris

from kmdr import compare as kmdr_compare
from kmdr import metrics
from kmdr.analysis.comparison import compare_folders, compared, with_ratio
from kmdr.analysis.ranks import mean_ranks, profiles
from kmdr.analysis.significance import LEVEL
from kmdr.analysis.statistics import above, below, equal, ratio_above
from kmdr.base.text import typeset
from kmdr.claims.repetitions import repetitions_for
from kmdr.cli import commands as cli
from kmdr.cli.arguments import COMMANDS
from kmdr.figures.comparison import side_by_side_table, table_of
from kmdr.figures.tables import latex, markdown, text
from kmdr.reporting.study_runs import study_runs
from kmdr.results.table import rows_of
from rows import make_rows, write_rows

SCALES = [1e-100, 1e-9, 1.0, 12345.6, 1e100]


def two(column, none, other, repeats=6, **changes):
    """K-means on all features and another method, with given values of a column by repetition."""
    parts = []
    for name, values in (("none", none), ("svd", other)):
        part = make_rows("custom", "d", name, 5, repeats, **changes)
        part[column] = values(part["repeat"].to_numpy()) if callable(values) else values
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def custom(name, none, other, repeats=6):
    rows = two("objective", 0.5, 0.5, repeats)
    values = [*none, *other]
    return rows.assign(metrics=[json.dumps({name: float(value)}) for value in values])


# -- rounding --------------------------------------------------------------------------------------------------------


def test_a_rounding_difference_is_no_difference():
    """On iris the table marked svd as worse in NMI, p = 0, for a difference of −4e-17."""
    rows = two("nmi", 0.7, 0.7 - 2**-53)
    frame = compared(with_ratio(rows)).set_index("reducer")
    assert frame.loc["svd", "p NMI"] == 1
    assert frame.loc["svd", "Δ NMI"] == 0
    assert not table_of(frame.reset_index()).frame["NMI"].str.contains("[↑↓]").any()
    other = rows.assign(nmi=rows["nmi"] - 2**-52)
    for sides in (compare_folders(rows, other), compare_folders(rows, other.assign(n_init=9))):
        assert (sides.table["p NMI"] == 1).all()
        assert (sides.table["Δ NMI"] == 0).all()
        assert not side_by_side_table(sides, sides.table).frame["Δ NMI"].str.contains("[↑↓−-]").any()


def test_svd_with_all_dimensions_is_not_marked_on_iris():
    iris = load_iris()
    rows = kmdr_compare(iris.data, ["svd", "none"], labels=iris.target, r_grid=[4], repeats=10).rows
    frame = compared(with_ratio(rows)).set_index("reducer")
    assert frame.loc["svd", "p NMI"] == frame.loc["svd", "p F/F_best"] == frame.loc["svd", "p P"] == 1
    table = table_of(frame.reset_index())
    quality = table.frame[["F/F_best", "P", "NMI"]].stack()
    assert not quality.str.contains("[↑↓]").any()
    assert list(table.frame["Δ F/F_best"]) == ["", "+0.0000 [+0.0000, +0.0000]"]
    assert list(table.frame["n to show"]) == ["", ""]


def test_a_difference_that_is_not_shown_has_its_effect_interval_and_the_repetitions_that_would_show_it(tmp_path):
    rng = np.random.default_rng(3)
    old = rng.uniform(0.5, 0.6, 12)
    near, far = old + rng.normal(0.004, 0.01, 12), old + 0.1 + rng.normal(0, 0.001, 12)
    sides = {"near": near, "far": far}
    rows = pd.concat(
        [two("objective", lambda _: old, lambda _, new=new: new, 12, config_hash=name) for name, new in sides.items()]
    )
    rows = rows.assign(dataset=["near"] * 24 + ["far"] * 24, data_sha256=["a" * 64] * 24 + ["b" * 64] * 24)
    frame = compared(with_ratio(rows))
    line = frame[(frame["reducer"] == "svd") & (frame["dataset"] == "near")].iloc[0]
    test = above("", (near - old) / min(near.min(), old.min()))
    tests = int(frame[[name for name in frame if name.startswith("p ")]].notna().sum().sum())
    n = line["n to show F/F_best"]
    one_sided = min(test.p_for, test.p_against)
    assert n == pytest.approx(repetitions_for(one_sided, 12, LEVEL / 2 / tests, 0.9), rel=0.05)
    shown = table_of(frame).frame.set_index(["dataset", "method"])
    assert shown.loc[("near", "svd"), "Δ F/F_best"] == typeset(
        f"{test.effect:+.4f} [{test.low:+.4f}, {test.high:+.4f}]"
    )
    assert shown.loc[("near", "svd"), "n to show"] == f"{n:.0f}"
    assert shown.loc[("far", "svd"), "F/F_best"].startswith("↑")
    assert shown.loc[("far", "svd"), "n to show"] == ""
    (own,) = study_runs(rows_of(write_rows(tmp_path, rows)), {"custom": "custom"})
    own_line = own.table.frame[own.table.frame["against none"] == "no difference shown"].iloc[0]
    assert own_line["Δ F/F_best"] == pytest.approx(test.effect)
    assert (own_line["low Δ F/F_best"], own_line["high Δ F/F_best"]) == pytest.approx((test.low, test.high))
    assert own_line["n to show F/F_best"] == n
    assert "n to show" in own.table.note
    assert "Student's, and Hall's for skewed values" in own.table.note
    assert "adjusted for all lines and quantities of the table" in own.table.note
    assert "the interval may exclude 0" in own.table.note
    assert table_of(frame).note.endswith("'kmdr help table' explains every column.")
    explained = COMMANDS["table"].parser().format_help()
    assert all(word in explained for word in ("F/F_best", "n to", "±", "Δ", "↑ ↓", "Hall's", "Seconds", "†"))
    assert "The page Answers makes another comparison" in own.table.note


@settings(max_examples=30)
@given(st.floats(0.1, 1.0), st.lists(st.floats(0.1, 1.0), min_size=6, max_size=6, unique=True), st.booleans())
def test_a_constant_sample_beside_one_that_varies_is_tested_without_a_warning(constant, values, rounding):
    """Runs that are not paired: scipy's precision warning reached the user, for a test that is sound."""
    same = two("nmi", 0.5, lambda repeat: constant + np.spacing(constant) * (repeat % 2 if rounding else 0))
    varied = two("nmi", 0.5, lambda repeat: np.array(values), n_init=9)
    table = compare_folders(same, varied).table.set_index("reducer").loc["svd"]
    half = stats.t.ppf(0.975, 5) * np.std(values, ddof=1) / np.sqrt(6)  # of the varied mean alone
    assert table["Δ NMI"] == pytest.approx(np.mean(values) - constant)
    assert table["high Δ NMI"] - table["Δ NMI"] == pytest.approx(half)


@settings(max_examples=30)
@given(
    st.lists(st.floats(0.1, 1.0), min_size=3, max_size=9),
    st.sampled_from(SCALES),
    st.randoms(use_true_random=False),
)
def test_rounding_differences_of_any_scale_change_no_test(values, scale, random):
    """Each value is moved by rounding alone, up or down: the test must be that of equal values."""
    old = np.array(values) * scale
    new = old * np.array([1 + random.choice([-3, -1, 0, 1, 3]) * 2.0**-52 for _ in values])
    frame = compared(with_ratio(custom("m", old, new, len(values)))).set_index("reducer")
    assert (frame.loc["svd", "p m"], frame.loc["svd", "Δ m"]) == (1, 0)
    by_welch = compare_folders(custom("m", old[:1].repeat(len(old)), old, len(old)).iloc[: len(old)],
                      custom("m", new[:1].repeat(len(old)), old, len(old)).iloc[: len(old)].assign(seed=1))  # fmt: skip
    assert (by_welch.table["p m"] == 1).all()


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e5])
def test_real_differences_beside_rounding_ones_are_tested_as_with_zeros(scale):
    """Some pairs differ by rounding, others by a thousandth: exact zeros in place of the first give the same test."""
    old = scale * np.array([0.3, 0.5, 0.7, 0.4, 0.6, 0.55])
    steps = scale * np.array([0, 0.001, 0, 0.002, 0.0015, 0.003])
    noise = old * np.array([2, 0, -1, 0, 0, 0]) * 2.0**-53
    frames = [compared(with_ratio(custom("m", old, old + steps + extra))).set_index("reducer") for extra in (noise, 0)]
    cells = ["Δ m", "low Δ m", "high Δ m", "p m"]
    np.testing.assert_allclose(*(frame.loc["svd", cells].astype(float) for frame in frames), rtol=1e-9)
    assert 0 < frames[0].loc["svd", "p m"] < 1


def test_a_small_difference_of_small_values_is_real():
    frame = compared(with_ratio(custom("m", [1e-15] * 6, [2e-15] * 6))).set_index("reducer")
    assert frame.loc["svd", "p m"] == 0
    assert frame.loc["svd", "Δ m"] == pytest.approx(1e-15, rel=1e-9, abs=0)


@pytest.mark.parametrize(("other", "noted"), [(0.3, True), (0.2, False), (lambda repeat: 0.3 + 0.01 * repeat, False)])
def test_a_table_states_that_equal_repetitions_count_as_certain(other, noted):
    """Two draws of the same feature gave an interval of width 0, which the mean of sixty draws was far outside of."""
    frame = compared(with_ratio(two("objective", 0.2, other, repeats=2)))
    assert ("equal values in all repetitions" in table_of(frame).note) is noted


def test_values_that_are_all_zero_do_not_differ():
    frame = compared(with_ratio(custom("m", [0.0] * 6, [-0.0] * 6))).set_index("reducer")
    assert (frame.loc["svd", "p m"], frame.loc["svd", "Δ m"]) == (1, 0)


def test_ratios_of_seconds_that_are_one_but_for_rounding_do_not_differ():
    for scale in (1e-7, 1.0, 1e5):
        rows = two("total_seconds", lambda t, s=scale: s * (1 + t), lambda t, s=scale: s * (1 + t) * (1 + 2.0**-52))
        line = compared(with_ratio(rows)).set_index("reducer").loc["svd"]
        assert (line["× seconds"], line["p seconds"]) == (1, 1)


@pytest.mark.parametrize("threshold", [0.0, 0.25, -3.0])
def test_claims_at_a_threshold_but_for_rounding_decide_nothing(threshold):
    for noise in (1e-17, -1e-17, 4e-16, -4e-16):
        for test in (above, below):
            component = test("", np.full(5, threshold) + np.array([0, 1, 1, 0, 1]) * noise, threshold)
            assert (component.p_for, component.p_against) == (1, 1)
        assert equal("", np.full(5, threshold + noise), 0.1, centre=threshold).effect == threshold
    for noise in (2**-52, -(2**-53)):
        assert ratio_above("", np.full(5, 1 + noise)).p_for == 1
        assert ratio_above("", np.full(5, 1 + noise)).p_against == 1


def test_ranks_and_profiles_share_a_place_where_rounding_alone_differs():
    table = pd.DataFrame({"a": [0.3, 0.5], "b": [0.1 + 0.2, 0.5 - 2**-54], "c": [0.9, 0.9]})
    for ascending in (True, False):
        means = mean_ranks(table, ascending)["mean"]
        assert means["a"] == means["b"] == (1.5 if ascending else 2.5)
    best = profiles(table).set_index(["method", "factor"])["share"]
    assert best["a", 1.0] == best["b", 1.0] == 1


# -- times -----------------------------------------------------------------------------------------------------------


def timed(concurrency=1, machine="", seconds=0.1, **changes):
    return pd.concat([
        make_rows("custom", "d", name, 5, 6, seconds=lambda r, t, i=i: seconds * (i + 1) + t / 1000,
                  concurrency=concurrency, machine=machine, **changes)
        for i, name in enumerate(("none", "svd"))
    ], ignore_index=True)  # fmt: skip


def test_parallel_times_are_neither_shown_nor_tested_nor_starred(tmp_path):
    frame = compared(with_ratio(timed(2)))
    assert frame["seconds"].isna().all()
    assert not frame["best seconds"].any()
    assert "p seconds" not in frame or frame["p seconds"].isna().all()
    table = table_of(frame)
    assert list(table.frame["seconds"]) == ["–", "–"]
    assert list(table.frame["n seconds"]) == ["0", "0"]
    assert "timing_repeats=" in table.note
    for form in (text, markdown, latex):
        assert "timing" in form(table)
    (own,) = study_runs(rows_of(write_rows(tmp_path, timed(2))), {"custom": "custom"})
    assert "timing_repeats=" in own.table.note
    assert markdown(own.table).count("–") >= 2
    assert set(pd.read_csv(io.BytesIO(own.files[Path("tables/own_custom.csv")]))["seconds"].isna()) == {True}


def test_the_number_of_timings_stands_beside_seconds_where_it_is_another(tmp_path):
    """The table said n = 5 where 2 were timed."""
    rows = timed(2, seconds=50)
    alone = rows["repeat"] < 2
    rows.loc[alone, "concurrency"] = 1
    rows.loc[alone, "total_seconds"] = [0.1, 0.3, 0.2, 0.6]
    rows.loc[alone, ["prepare_seconds", "reduce_seconds"]] = 0.0
    rows.loc[alone, "cluster_seconds"] = rows["total_seconds"]
    frame = compared(with_ratio(rows))
    assert list(frame["seconds"]) == pytest.approx([0.2, 0.4])
    assert list(frame["n"]) == [6, 6]
    assert list(frame["n seconds"]) == [2, 2]
    assert frame[["low seconds", "high seconds"]].isna().all(axis=None)
    table = table_of(frame)
    assert list(table.frame["n seconds"]) == ["2", "2"]
    assert "timing_repeats" not in table.note
    assert "n seconds" not in table_of(compared(with_ratio(timed()))).frame
    (own,) = study_runs(rows_of(write_rows(tmp_path, rows)), {"custom": "custom"})
    assert list(own.table.frame["n seconds"]) == [2, 2]
    sides = compare_folders(rows, timed())
    assert list(side_by_side_table(sides, sides.table).frame["n seconds"]) == ["2, 6", "2, 6"]


def test_compare_does_not_test_times_taken_at_different_concurrency():
    """Times at concurrency 2 were tested against those at 1 and said to differ at 5 %."""
    sides = compare_folders(timed(2, seconds=0.2), timed(1))
    table = side_by_side_table(sides, sides.table)
    assert "× seconds" not in table.frame
    assert list(table.frame["seconds A"]) == ["–", "–"]
    assert [float(shown) for shown in table.frame["seconds B"]] == pytest.approx([0.1025, 0.2025], abs=0.0006)
    assert "timing_repeats=" in table.note


def test_times_of_different_machines_are_not_compared():
    sides = compare_folders(timed(machine="a" * 12, seconds=0.2), timed(machine="b" * 12))
    table = side_by_side_table(sides, sides.table)
    assert "× seconds" not in table.frame
    assert "different machines" in table.note
    same = compare_folders(timed(machine="a" * 12, seconds=0.2), timed(machine="a" * 12))
    assert "× seconds" in side_by_side_table(same, same.table).frame


def test_the_fastest_of_several_machines_is_not_marked():
    rows = pd.concat([timed(machine="a" * 12, n_init=1), timed(machine="b" * 12, n_init=9, config_hash="c")])
    frame = compared(with_ratio(rows))
    assert not frame["best seconds"].any()
    assert "several machines" in table_of(frame).note
    assert compared(with_ratio(rows.assign(machine="a" * 12)))["best seconds"].any()


# -- custom metrics --------------------------------------------------------------------------------------------------


@pytest.fixture(params=["higher", "lower"])
def purity(request, monkeypatch):
    known = {**metrics.metrics()}
    known["purity"] = metrics.Metric("purity", "purity of clusters", 0.0, 1.0, request.param, lambda A, labels, y: 0.0)
    for module in ("kmdr.metrics", "kmdr.metrics.references", "kmdr.analysis.rows"):
        monkeypatch.setattr(f"{module}.metrics", lambda: known, raising=False)
    return request.param


def purities(repeats=6):
    rng = np.random.default_rng(3)
    none = rng.uniform(0.5, 0.6, repeats)
    return none, none + rng.uniform(0.1, 0.2, repeats)


def kmdr(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["kmdr", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    return stop.value.code


def test_custom_metrics_are_columns_of_every_table(purity, tmp_path, monkeypatch, capsys):
    """They were computed and never shown."""
    none, svd = purities()
    rows = custom("purity", none, svd)
    frame = compared(with_ratio(rows)).set_index("reducer")
    assert list(frame["purity of clusters"]) == pytest.approx([none.mean(), svd.mean()])
    assert list(frame["best purity of clusters"]) == ([False, True] if purity == "higher" else [True, False])
    test = above("", svd - none)
    assert frame.loc["svd", "Δ purity of clusters"] == pytest.approx((svd - none).mean())
    assert frame.loc["svd", "low Δ purity of clusters"] == pytest.approx(test.low)
    shown = table_of(frame.reset_index()).frame["purity of clusters"]
    half = stats.t.ppf(0.975, 5) * stats.sem(svd)
    assert shown[1] == f"↑ {svd.mean():.3f} ± {half:.3f}"
    sides = compare_folders(rows, custom("purity", svd, none))
    changed = side_by_side_table(sides, sides.table).frame
    assert changed["purity of clusters A"][0] == f"{none.mean():.3f}"
    assert changed["Δ purity of clusters"][0].startswith(f"↑ +{(svd - none).mean():.3f}")
    (own,) = study_runs(rows_of(write_rows(tmp_path, rows)), {"custom": "custom"})
    assert list(own.table.frame["purity of clusters"]) == pytest.approx([none.mean(), svd.mean()])
    assert kmdr(monkeypatch, "table", tmp_path) == 0
    assert "purity of clusters" in capsys.readouterr().out
    assert kmdr(monkeypatch, "table", tmp_path, "--format=csv") == 0
    read = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert list(read["purity of clusters"]) == pytest.approx([none.mean(), svd.mean()])
    assert not [name for name in read if name.startswith("best ")]


def test_a_metric_whose_plugin_is_not_here_is_shown_by_its_name_and_nothing_is_best():
    none, svd = purities()
    frame = compared(with_ratio(custom("elsewhere", none, svd)))
    assert list(frame["elsewhere"]) == pytest.approx([none.mean(), svd.mean()])
    assert not frame["best elsewhere"].any()


@pytest.mark.parametrize(
    "name", ["n", "P", "seconds", "± P", "best P", "Δ NMI", "p P", "P A", "r", "reducer", "\x1b[2J"]
)
def test_a_metric_that_has_the_name_of_a_column_keeps_both(name):
    none, svd = purities()
    rows = custom(name, none, svd)
    frame = compared(with_ratio(rows))
    assert frame.columns.is_unique
    shown = text(table_of(frame))
    assert f"{svd.mean():.4g}" in shown
    assert "\x1b" not in shown
    both = compare_folders(rows, rows)
    assert both.table.columns.is_unique
    assert f"{svd.mean():.4g}" in text(side_by_side_table(both, both.table))


@pytest.mark.parametrize("told", ["[1]", "{", '{"m": "text"}', '{"m": NaN}', '{"m": 1e999}', '{"m": {"a": 1}}', "null"])
def test_metrics_that_are_no_numbers_are_not_shown(told):
    frame = compared(with_ratio(two("objective", 0.5, 0.5).assign(metrics=told)))
    assert "m" not in frame


# -- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [1e-7, 2.5e-5, 0.03, 1.0, 25.0, 1000.0, 2500.0, 12345.6, 1e5])
def test_seconds_are_shown_to_their_digits_without_an_exponent_of_ten(seconds):
    frame = compared(with_ratio(timed(seconds=seconds)[lambda rows: rows["repeat"] < 1]))
    for form in (text, markdown, latex):
        page = form(table_of(frame))
        assert "e+" not in page
    shown = [value.replace("−", "-") for value in table_of(frame).frame["seconds"]]
    assert [float(value) for value in shown] == pytest.approx([seconds, 2 * seconds], rel=6e-3)
    if seconds >= 1000:
        assert [float(value) for value in shown] == pytest.approx([seconds, 2 * seconds], abs=0.51)


def test_the_time_of_a_table_grows_with_its_rows_even_if_each_has_its_own_line():
    rows = pd.concat([two("objective", 0.5, 0.4, repeats=1)] * 1000, ignore_index=True)
    number = pd.Series(np.arange(len(rows)) // 2)
    rows = rows.assign(study="s" + number.astype(str), dataset="d" + number.astype(str))
    began = time.process_time()
    table = compared(with_ratio(rows.assign(data_sha256=number.map("{:064x}".format))))
    assert time.process_time() - began < 15  # 2000 lines took a minute when each dataset was selected by itself
    assert table["n"].tolist() == [1] * len(rows)
    assert table["F/F_best"].tolist() == [1.25, 1.0] * 1000
