import io
import pickle
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from PIL import Image
from scipy import stats

import kmdr
from kmdr.analysis.environments import environment_notes
from kmdr.analysis.results import Recorder
from kmdr.analysis.rows import mean_interval, ratio_to_best, rows_where, standard_error, summarise, timing_note
from kmdr.base.errors import UserError
from kmdr.cli.jobs import run_jobs
from kmdr.figures.canvas import Drawing, panel_letter
from kmdr.figures.panels import figures_for_folder, figures_of, figures_of_studies, paper_grid, plot_panel
from kmdr.figures.style import KNOWN, TEXT_WIDTH, print_style
from kmdr.harness.jobs import compose
from kmdr.results.folder import write_files
from kmdr.results.manifests import read_configs
from kmdr.results.schema import COLUMNS
from kmdr.results.table import rows_of
from reports import save
from rows import hashed, make_results, make_rows

GRID = (5, 10, 20)
PAPER_METHODS = [
    ("none", "{}"),
    ("laplacian_score", "{}"),
    ("approx_svd", '{"rank":"k"}'),
    ("svd", '{"rank":"k"}'),
    ("random_sign", "{}"),
    ("leverage_approx", "{}"),
    ("leverage", "{}"),
]


def row(dataset="usps", reducer="random_sign", r=5, repeat=0, **changes):
    """One trial whose objective, accuracy and time are simple functions of its coordinates."""
    weight = 1 + list(KNOWN).index(reducer) if reducer in KNOWN else 20
    objective = 0.3 + weight / 100 + 1 / r + 0.001 * (repeat % 3)
    values = {
        "study": "bzmd15",
        "dataset": dataset,
        "reducer": reducer,
        "params": "{}",
        "n": 100,
        "d": 256,
        "nnz": 25600,
        "k": 10,
        "r": r,
        "repeat": repeat,
        "seed": 0,
        "objective": objective,
        "objective_ratio": objective / 0.3,
        "accuracy": 0.9 - objective / 2,
        "nmi": 0.5,
        "ari": 0.4,
        "prepare_seconds": 0.01,
        "reduce_seconds": 0.02,
        "cluster_seconds": 0.03 + 0.001 * repeat,
        "total_seconds": 0.06 + 0.001 * repeat,
        "score_seconds": 0.5,
        "n_iter": 10,
        "n_init_failed": 0,
        "status": "ok",
        "error": "",
        "concurrency": 1,
        "threads": 1,
        "stand_in": "",
        "config_hash": "c" * 12,
        "data_sha256": sha256(dataset.encode()).hexdigest(),
        "code_version": "v",
        "code_hash": "a" * 12,
        "env_hash": "e" * 12,
    }
    assert set(changes) <= set(values)
    return values | changes


def failed(**changes):
    empty = dict.fromkeys(("objective", "objective_ratio", "accuracy", "nmi", "ari", "total_seconds"), np.nan)
    return row(status="failed", error="out of memory", **(empty | changes))


def dataset_rows(dataset="usps", methods=PAPER_METHODS, repeats=3, **changes):
    fixed = {"none": [256], "svd": [10], "approx_svd": [10]}
    return [
        row(dataset, name, r, repeat, params=params, **changes)
        for name, params in methods
        for r in fixed.get(name, GRID)
        for repeat in range(repeats)
    ]


def panel(rows, quantity="objective", **options):
    with print_style():
        ax = Figure(figsize=(3.4, 2)).subplots()
    return ax, plot_panel(ax, pd.DataFrame(rows), quantity, **options)


def line(ax, label):
    lines = [line for line in ax.get_lines() if line.get_label() == label]
    assert len(lines) == 1, f"{len(lines)} lines are labelled {label!r}"
    return lines[0]


def title(ax):
    return ax.get_title(loc="left").replace("\n", " ")


def footnote(fig):
    return fig.get_supxlabel().replace("\n", " ")


def words(ax):
    return " ".join(text.get_text() for text in ax.texts).replace("\n", " ")


# --- statistics ---


@pytest.mark.parametrize("values", [[0.2, 0.5], [1.0, 2.0, 4.0, 4.5, 9.0]])
def test_interval_is_scipys(values):
    got = mean_interval(values)
    low, high = stats.t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=stats.sem(values))
    np.testing.assert_allclose(got, (np.mean(values), low, high, len(values)), rtol=1e-12)


def test_the_standard_error_is_scipys_to_the_last_bit(rng):
    samples = [rng.normal(size=size) * 10.0 ** rng.integers(-9, 9) for size in range(2, 400)]
    assert [standard_error(x) for x in samples] == [float(stats.sem(x)) for x in samples]


def test_interval_of_two_values_in_closed_form():
    # one degree of freedom is the Cauchy law: t = tan(0.95 π/2), and the standard error is half the distance
    got = mean_interval([1.0, 3.0])
    assert got.high - got.centre == pytest.approx(np.tan(0.95 * np.pi / 2), rel=1e-10)


def test_interval_of_one_value_and_of_equal_values():
    interval = mean_interval([0.1])
    assert interval.centre == 0.1
    assert np.isnan([interval.low, interval.high]).all()
    assert mean_interval([0.1] * 7) == (0.1, 0.1, 0.1, 7)
    with pytest.raises(ValueError, match="no values"):
        mean_interval([])


def test_interval_covers_as_often_as_it_says():
    x = np.random.default_rng(0).normal(3.0, 2.0, size=(4000, 5))
    intervals = [mean_interval(values) for values in x]
    hits = sum(i.low <= 3.0 <= i.high for i in intervals)
    assert abs(hits / 4000 - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 4000)


def test_summary_leaves_out_failed_and_empty():
    rows = [row(objective=value, repeat=i) for i, value in enumerate((0.2, 0.4))]
    rows += [failed(repeat=2), row(repeat=3, objective=np.nan), row(r=10, objective=0.1)]
    table = summarise(pd.DataFrame(rows), "objective")
    assert list(table.columns) == ["dataset", "reducer", "params", "r", "mean", "low", "high", "count"]
    assert table["r"].tolist() == [5, 10]
    assert table["count"].tolist() == [2, 1]
    assert table["mean"].tolist() == pytest.approx([0.3, 0.1])


def test_time_rule():
    rows = [row(total_seconds=1.0), row(repeat=1, total_seconds=9.0, concurrency=4)]
    rows += [row("orl", total_seconds=2.0, concurrency=3), row("orl", repeat=1, total_seconds=4.0, concurrency=3)]
    table = pd.DataFrame(rows)
    times = summarise(table, "total_seconds").set_index("dataset")
    assert times.loc["usps", ["median", "count"]].tolist() == [1.0, 1]
    assert times.loc["orl", ["median", "count"]].tolist() == [3.0, 2]
    assert timing_note(table[table["dataset"] == "usps"]) == ""
    assert timing_note(table[table["dataset"] == "orl"]) == "timed in parallel with 2 other workers"
    assert summarise(table, "objective").set_index("dataset").loc["usps", "count"] == 2


def test_failed_serial_row_does_not_count_as_timed_alone():
    rows = pd.DataFrame([failed(), row(repeat=1, concurrency=2, total_seconds=5.0)])
    assert timing_note(rows) == "timed in parallel with 1 other worker"
    assert summarise(rows, "total_seconds")["median"].tolist() == [5.0]


def test_trial_run_twice_counts_once_for_quality():
    once = [row(repeat=i, concurrency=2) for i in range(3)]
    twice = pd.DataFrame(once + [row(repeat=i, total_seconds=0.01) for i in range(2)])
    pd.testing.assert_frame_equal(summarise(pd.DataFrame(once), "objective"), summarise(twice, "objective"))
    assert summarise(twice, "total_seconds")["count"].tolist() == [2]


def test_times_are_medians_with_the_interval_of_the_sign_test_and_their_number():
    """One interrupted trial of a hundred seconds moved the mean of eight to 13 s, and its interval to 43 s."""
    seconds = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 100.0]
    rows = pd.DataFrame([row(repeat=i, total_seconds=value) for i, value in enumerate(seconds)])
    (line,) = summarise(rows, "total_seconds").to_dict("records")
    assert "mean" not in line
    assert (line["median"], line["low"], line["high"], line["count"]) == (1.35, 1.0, 100.0, 8)
    assert stats.binom.cdf(0, 8, 0.5) * 2 < 0.05 < stats.binom.cdf(1, 8, 0.5) * 2
    few = summarise(rows[rows["repeat"] < 5], "total_seconds")
    assert few["median"].tolist() == [1.2]
    assert few[["low", "high"]].isna().all(axis=None)


def test_a_panel_of_times_draws_medians_and_their_column_is_named_so(tmp_path):
    rows = [row(r=r, repeat=i, total_seconds=r * [1.0, 1.0, 9.0][i % 3]) for r in GRID for i in range(9)]
    drawing = paper_grid(pd.DataFrame(rows), ["usps"])
    times = drawing.panels[0]
    assert times["median"].tolist() == list(map(float, GRID))
    (label,) = set(times["label"])
    np.testing.assert_array_equal(line(drawing.figure.axes[0], label).get_ydata(), times["median"])
    table = pd.read_csv(save(drawing, tmp_path / "both")[1])
    of_times = table["quantity"].str.endswith("seconds")
    assert table.loc[of_times, "mean"].isna().all()
    assert table.loc[~of_times, "median"].isna().all()
    assert "Times: medians of 9 timings; bands: distribution-free 95 % interval." in footnote(drawing.figure)


# --- one column a reducer ---


def wide_by_hand(rows, quantity):
    """What `Results.wide` says of itself, trial by trial: (dataset, r, seed, repeat) to reducer to value."""
    cells, sizes = {}, {}
    for _, line in rows.iterrows():
        if not np.isnan(line[quantity]):
            key = line["dataset"], line["reducer"]
            sizes.setdefault(key, set()).add(line["r"])
            cells.setdefault((*key, line["r"], (line["seed"], line["repeat"])), []).append(line[quantity])
    table = {}
    for (dataset, reducer, r, repeat), values in cells.items():
        on_dataset = {name: rs for (on, name), rs in sizes.items() if on == dataset}
        grid = {size for rs in on_dataset.values() for size in rs if len(rs) > 1}
        if len(on_dataset[reducer]) > 1:
            at = [r]
        elif grid:  # wherever a reducer with several r has a trial of this repetition
            at = [size for size in grid if any(
                (dataset, name, size, repeat) in cells for name, rs in on_dataset.items() if len(rs) > 1)]  # fmt: skip
        else:
            at = [min(min(rs) for rs in on_dataset.values())]
        for size in at:
            table.setdefault((dataset, size, *repeat), {})[reducer] = np.mean(values)
    return table


@pytest.mark.parametrize("methods", [("none", "svd", "random_sign", "leverage"), ("none", "svd"), ("random_sign",)])
def test_wide_has_a_line_for_trials_that_started_alike(rng, methods):
    rows = pd.DataFrame(
        row(name, method, r, repeat, accuracy=rng.random(), seed=seed)
        for name in ("usps", "orl", "synth")
        for method in methods
        for seed in (0, 7)
        for r in ({"none": [256], "svd": [10]}.get(method, GRID) if name != "synth" else [7])
        for repeat in range(3)
        if rng.random() < 0.8
    )
    recorder = Recorder(make_results([rows]))
    wide = recorder.wide("bzmd15", "accuracy")
    expected = wide_by_hand(rows, "accuracy")
    assert list(wide.index) == sorted(expected)
    assert wide.index.names == ["dataset", "r", "seed", "repeat"]
    for key, line in wide.iterrows():
        assert {name: value for name, value in line.items() if not np.isnan(value)} == pytest.approx(expected[key])
    assert len(recorder.rows_read(["study"])) == len(rows)


def test_replaced_studies_leave_the_rows_of_others():
    rows = pd.DataFrame([row(), row("orl", study="other"), row("pie", study="other", status="failed")])
    results = make_results([rows])
    changed = results.replaced(rows.iloc[:1].assign(accuracy=0.25), ["bzmd15"])
    assert changed.rows("bzmd15")["accuracy"].tolist() == [0.25]
    assert changed.rows(("other", "bzmd15"))["dataset"].tolist() == ["orl", "usps"]
    assert sorted(changed.all_rows["dataset"]) == ["orl", "pie", "usps"]
    assert results.rows("bzmd15")["accuracy"].tolist() == [rows["accuracy"].iloc[0]]


def test_another_process_gets_the_same_rows_facts_and_gaps(tmp_path):
    rows = pd.DataFrame([row(), row("nan", error="a\nü"), row("orl", status="failed", accuracy=np.nan)])
    results = make_results([rows], tmp_path, {"own": pd.DataFrame({"x": [1.5]})}, {"pie": "not there"})
    received = pickle.loads(pickle.dumps(Recorder(results)))
    pd.testing.assert_frame_equal(received.all_rows, results.all_rows)
    pd.testing.assert_frame_equal(received.rows("bzmd15"), results.rows("bzmd15"))
    assert received.fact("own")["x"].tolist() == [1.5]
    assert received.missing == {"pie": "not there"}


def test_what_is_asked_of_each_combination_holds_of_its_rows():
    rows = pd.DataFrame([row("orl"), row("usps"), row("orl", "svd"), row("orl")])
    asked = []
    there = rows_where(rows, ("dataset", "reducer"), lambda *pair: asked.append(pair) or pair == ("orl", "random_sign"))
    assert there.tolist() == [True, False, False, True]
    assert len(asked) == 3
    assert rows_where(rows.iloc[:0], ("dataset",), lambda _: True).tolist() == []


def test_reduction_time_is_the_sum_of_its_parts():
    assert summarise(pd.DataFrame([row()]), "reduction_seconds")["median"].tolist() == pytest.approx([0.03])


def test_mixed_k_and_unknown_quantity_are_refused():
    with pytest.raises(UserError, match="k = 3, 10"):
        summarise(pd.DataFrame([row(), row(k=3)]), "objective")
    with pytest.raises(UserError, match="did you mean 'accuracy'"):
        summarise(pd.DataFrame([row()]), "acuracy")


def test_ratio_to_best():
    rows = [row(objective=0.5), row(repeat=1, objective=0.4), row("orl", objective=0.1), failed(repeat=2)]
    assert ratio_to_best(pd.DataFrame(rows)).tolist() == pytest.approx([1.25, 1.0, 1.0])


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.xz"])
def test_rows_survive_csv_exactly(name, tmp_path):
    rows = pd.DataFrame([row(reducer="none", objective=0.1 + 0.2), row(reducer="nan", objective=1 / 3), failed()])
    hashed(rows).to_csv(tmp_path / name, index=False)
    read = rows_of(tmp_path)
    assert read["reducer"].tolist() == ["none", "nan", "random_sign"]
    assert read["objective"].tolist()[:2] == [0.1 + 0.2, 1 / 3]
    assert np.isnan(read["objective"].iloc[2])
    assert read["r"].dtype == np.int64
    assert read["stand_in"].tolist() == ["", "", ""]


@pytest.mark.parametrize("digits", ["0eb9c159ccd4", "123456789012", "0e1234567890"])
@pytest.mark.parametrize("name", [name for name in COLUMNS if name.endswith(("_hash", "_sha256"))])
def test_a_hash_is_text_whatever_its_digits(name, digits, tmp_path):
    digits = digits.rjust(64 if name == "data_sha256" else 12, "0")
    if name == "config_hash":  # the other columns give it
        table = hashed(pd.DataFrame([row(seed=seed) for seed in range(2000)]))
        table = table[table["config_hash"].str.fullmatch(r"\d+")].iloc[:1]
        digits = table["config_hash"].iloc[0]
    else:
        table = hashed(pd.DataFrame([row(**{name: digits})]))
    table.to_csv(tmp_path / "rows.csv", index=False)
    assert rows_of(tmp_path)[name].tolist() == [digits]


# --- panels ---


def test_curves_lines_and_bands():
    rows = dataset_rows()
    ax, numbers = panel(rows)
    table = pd.DataFrame(rows)
    for name in ("random_sign", "leverage"):
        ours = table[table["reducer"] == name].groupby("r")["objective"].mean()
        np.testing.assert_array_equal(line(ax, name).get_xdata(), GRID)
        np.testing.assert_allclose(line(ax, name).get_ydata(), ours)
        assert line(ax, name).get_color() == KNOWN[name].color
    for name in ("svd", "approx_svd", "none"):
        mean = table.loc[table["reducer"] == name, "objective"].mean()
        np.testing.assert_allclose(line(ax, name).get_ydata(), [mean, mean])
        assert list(line(ax, name).get_xdata()) == [0, 1]  # axes fractions: from edge to edge
    assert line(ax, "none").get_linestyle() == "--"
    assert to_hex(line(ax, "none").get_color()) == "#000000"
    assert set(numbers.loc[numbers["drawn_as"] == "line", "reducer"]) == {"svd", "approx_svd", "none"}
    assert len(ax.collections) == 4  # bands of the four curves
    vertices = ax.collections[0].get_paths()[0].vertices
    assert vertices[:, 1].max() == pytest.approx(numbers[numbers["reducer"] == "leverage"]["high"].max())
    assert ax.get_xlim()[1] < 25  # the reference's r = d does not stretch the axis


def test_limits_hold_all_means():
    ax, numbers = panel(dataset_rows(repeats=2))
    bottom, top = ax.get_ylim()
    assert bottom < numbers["mean"].min()
    assert numbers["mean"].max() < top


def test_single_repetition_has_no_band():
    ax, numbers = panel(dataset_rows(methods=[("random_sign", "{}")], repeats=1))
    assert numbers[["low", "high"]].isna().all(axis=None)
    assert not any(
        np.isfinite(path.vertices).all() and len(path.vertices) for c in ax.collections for path in c.get_paths()
    )


def test_single_r_gives_points_not_lines():
    rows = [
        row(reducer=name, r=r, repeat=i)
        for name, r in (("random_sign", 20), ("svd", 10), ("none", 256))
        for i in (0, 1)
    ]
    ax, numbers = panel(rows)
    assert list(line(ax, "random_sign").get_xdata()) == [20]
    assert dict(zip(numbers["reducer"], numbers["drawn_as"], strict=True)) == {
        **{"random_sign": "curve", "svd": "curve", "none": "line"}
    }


def test_method_that_failed_at_all_r_but_one_is_not_made_flat():
    rows = dataset_rows() + [row(reducer="lle", r=5)] + [failed(reducer="lle", r=r) for r in (10, 20)]
    ax, _ = panel(rows)
    assert list(line(ax, "lle").get_xdata()) == [5]


def test_only_the_reference_can_be_drawn():
    ax, _ = panel(dataset_rows(methods=[("none", "{}")]))
    assert len(ax.get_xticks()) == 0
    line(ax, "none")


@pytest.mark.parametrize(("slowest", "scale"), [(0.5, "linear"), (2.0, "log")])
def test_log_time_beyond_a_decade(slowest, scale):
    rows = [row(r=r, total_seconds=t) for r, t in zip(GRID, (0.1, 0.2, slowest), strict=True)]
    assert panel(rows, "total_seconds")[0].get_yscale() == scale
    assert panel(rows, "objective")[0].get_yscale() == "linear"


def test_geometric_grid_gets_a_log_axis():
    assert panel([row(r=r) for r in (10, 20, 50, 100, 200, 500, 1000)])[0].get_xscale() == "log"
    assert panel([row(r=r) for r in range(5, 301, 5)])[0].get_xscale() == "linear"


def test_stand_in_is_in_the_title_and_described_below_as_is_the_timing():
    rows = dataset_rows("light", stand_in="68 × 21 of pie", concurrency=4)
    assert title(panel(rows, letter="b")[0]) == "(b) LIGHT (stand-in) – Objective"
    note = footnote(paper_grid(pd.DataFrame(rows), ["light"]).figure)
    assert "Stand-in: LIGHT (68 × 21 of pie)." in note
    rows = [{**row, "stand_in": np.nan} for row in rows]  # as pandas reads an empty cell
    assert "stand-in" not in title(panel(rows)[0])
    timed = paper_grid(pd.DataFrame(rows), ["light"], ["objective", "total_seconds"]).figure
    assert "LIGHT: timed in parallel with 3 other workers." in footnote(timed)


def test_runs_outside_papers_show_times_of_serially_timed_trials_only():
    """Their figures, and those of kmdr.plot, showed times of parallel trials, which tables omit."""
    parallel = pd.DataFrame(dataset_rows("light", concurrency=4))
    files = figures_of(parallel, Path("own"))
    assert set(pd.read_csv(io.BytesIO(files[Path("own.csv")]))["quantity"]) == {"objective", "accuracy"}
    assert [ax.get_ylabel() for ax in kmdr.plot(parallel).axes] == ["normalised objective F", "accuracy P"]
    assert words(kmdr.plot(parallel, "total_seconds").axes[0]) == "LIGHT: no values of running time"
    files = figures_of(pd.concat([parallel, pd.DataFrame(dataset_rows("usps"))]), Path("own"))
    numbers = pd.read_csv(io.BytesIO(files[Path("own.csv")]))
    assert set(numbers.loc[numbers["quantity"] == "total_seconds", "dataset"]) == {"usps"}


def test_panels_without_data_say_why():
    empty = pd.DataFrame([row()]).iloc[:0]
    assert words(panel(empty, name="ORL 64×64")[0]) == ("ORL 64×64: no rows; the data is not available or was not run")
    assert words(panel(empty, name="PIE", reason="licence")[0]) == "PIE: no rows; licence"
    assert words(panel([failed(), failed(r=10)])[0]) == "USPS: no results; all 2 trials failed"
    assert words(panel(dataset_rows(accuracy=np.nan), "accuracy")[0]) == "USPS: no accuracy; the data has no labels"


def test_panel_shows_one_dataset():
    with pytest.raises(ValueError, match="one dataset"):
        panel([row(), row("orl")])


# --- figures ---


def test_grid_is_laid_out_as_the_paper():
    rows = pd.DataFrame(dataset_rows("synth") + dataset_rows("usps"))
    fig = paper_grid(rows, ["synth", "usps"]).figure
    assert [title(ax) for ax in fig.axes] == [
        "(a) Synth – Running time",
        "(b) USPS – Running time",
        "(c) Synth – Objective",
        "(d) USPS – Objective",
        "(e) Synth – Accuracy of clustering",
        "(f) USPS – Accuracy of clustering",
    ]
    (legend,) = fig.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        *("leverage", "leverage_approx", "random_sign", "svd", "approx_svd", "laplacian_score", "none"),
    ]
    assert fig.axes[-1].get_xlabel() == "number of dimensions r"
    assert fig.get_figwidth() == TEXT_WIDTH
    assert "Means of 3 repetitions" in footnote(fig)
    assert "drawn as a horizontal line: svd, approx_svd" in footnote(fig)


def test_failed_missing_and_users_reducer():
    rows = dataset_rows("usps") + [row(reducer="mine", r=r, repeat=i) for r in GRID for i in range(3)]
    rows += [failed(reducer="svd", r=10, repeat=i) for i in (3, 4, 5)] + [failed(reducer="lle", r=5)]
    alone = paper_grid(pd.DataFrame(rows), ["usps"]).figure
    assert "4 failed trials omitted: lle ×1, svd ×3." in footnote(alone)
    both = paper_grid(pd.DataFrame(rows), ["usps", "orl_64x64"], labels={"orl_64x64": "ORL small"}).figure
    assert "lle ×1 (USPS), svd ×3 (USPS)." in footnote(both)
    assert "Not shown: ORL small (no rows; the data is not available or was not run)." in footnote(both)
    assert {ax.get_title(loc="left")[:8] for ax in both.axes} == {"(a) USPS", "(b) USPS", "(c) USPS"}
    labels = [text.get_text() for text in both.legends[0].get_texts()]
    assert labels[-2:] == ["mine", "none"]
    assert "lle" not in labels


def test_marks_are_as_the_paper_would_have_seen_them_and_lines_go_with_their_bands():
    rows = pd.DataFrame(dataset_rows(repeats=8))
    ax, drawn = panel(rows, paper_repeats=5)
    leverage = rows[rows["reducer"] == "leverage"]
    drawn_line = line(ax, "leverage")
    np.testing.assert_allclose(drawn_line.get_ydata(), leverage.groupby("r")["objective"].mean(), rtol=1e-12)
    assert drawn_line.get_marker() in ("", "None")
    marks = ax.get_lines()[ax.get_lines().index(drawn_line) + 1]
    assert (marks.get_linestyle(), marks.get_color()) == ("None", drawn_line.get_color())
    seen = leverage[leverage["repeat"] < 5].groupby("r")["objective"].mean()
    np.testing.assert_allclose(marks.get_ydata(), seen, rtol=1e-12)
    curve = drawn[drawn["reducer"] == "leverage"]
    np.testing.assert_allclose(curve["mean"], leverage.groupby("r")["objective"].mean(), rtol=1e-12)
    assert set(curve["shown_count"]) == {5}
    assert set(curve["count"]) == {8}
    note = footnote(paper_grid(rows, ["usps"], paper_repeats=5).figure)
    assert "Means of 8 repetitions; bands: 95 % Student-t interval of the mean. Times: medians of 8 timings" in note
    assert "Markers: the same of the first 5, the number of repetitions in the paper." in note
    some_alone = rows.assign(concurrency=np.where(rows["repeat"] < 3, 1, 2))
    note = footnote(paper_grid(some_alone, ["usps"], paper_repeats=5).figure)
    assert "Times: medians of 3 timings, so without intervals." in note
    late_alone = rows.assign(concurrency=np.where(rows["repeat"] < 5, 2, 1))
    assert panel(late_alone, "total_seconds", paper_repeats=5)[1]["shown"].isna().all()


def test_a_method_without_the_papers_repetitions_has_no_marks():
    rows = [row(r=r, repeat=i) for r in GRID for i in range(8)]
    rows += [row(reducer="svd", r=r, repeat=i) for r in GRID for i in (6, 7)]
    ax, drawn = panel(rows, paper_repeats=5)
    late = drawn[drawn["reducer"] == "svd"]
    assert late["shown"].isna().all()
    assert set(late["shown_count"]) == {0}
    assert late["mean"].notna().all()
    drawn_line = line(ax, "svd")
    np.testing.assert_allclose(drawn_line.get_ydata(), late["mean"])
    assert np.isnan(ax.get_lines()[ax.get_lines().index(drawn_line) + 1].get_ydata()).all()


def test_a_drawing_has_the_numbers_of_panels_of_any_kind(tmp_path):
    fig = Figure()
    left, _ = fig.subplots(1, 2)
    bars = pd.DataFrame({"word": ["hand", "tishby"], "score": [0.1, 0.2]})
    drawing = Drawing(fig, [plot_panel(left, pd.DataFrame(dataset_rows()), "objective"), bars])
    numbers = drawing.numbers
    assert numbers.columns[0] == "panel"
    pd.testing.assert_frame_equal(
        numbers.loc[numbers["panel"] == "b", ["word", "score"]].reset_index(drop=True), bars, check_dtype=False
    )
    assert numbers.loc[numbers["panel"] == "a", "word"].isna().all()
    save(drawing, tmp_path / "fig")
    assert pd.read_csv(tmp_path / "fig.csv")["score"].dropna().tolist() == [0.1, 0.2]


def test_colours_are_equal_across_figures():
    few = paper_grid(pd.DataFrame(dataset_rows(methods=[*PAPER_METHODS[3:5], ("mine", "{}")])), ["usps"]).figure
    many = paper_grid(
        pd.DataFrame(dataset_rows(methods=[*PAPER_METHODS, ("mine", "{}"), ("lle", "{}")])), ["usps"]
    ).figure
    for label in ("svd", "random_sign", "mine"):
        a, b = line(few.axes[1], label), line(many.axes[1], label)
        assert (a.get_color(), a.get_marker(), a.get_linestyle()) == (b.get_color(), b.get_marker(), b.get_linestyle())


def test_method_without_a_serial_time_is_named():
    rows = [row(r=r) for r in GRID] + [row(reducer="lle", r=r, concurrency=2) for r in GRID]
    assert "Not timed serially, so without a running time: lle." in footnote(
        paper_grid(pd.DataFrame(rows), ["usps"]).figure
    )


@pytest.mark.slow
@pytest.mark.parametrize("datasets", [["light"], ["light", "nips"], ["light", "nips", "usps", "orl_64x64"]])
def test_nothing_overlaps_or_leaves_the_page(datasets):
    rows = dataset_rows("light", stand_in="68 × 21 images drawn from pie, 1024 columns instead of 1014", concurrency=3)
    rows += dataset_rows("nips", accuracy=np.nan) + dataset_rows("usps") + [failed(reducer="lle")]
    with print_style():
        fig = paper_grid(pd.DataFrame(rows), datasets).figure
        fig.canvas.draw()
        page = fig.bbox
        boxes = [ax.get_tightbbox() for ax in fig.axes] + [fig.legends[0].get_window_extent()]
        boxes += [text.get_window_extent() for text in fig.texts]
    assert any("failed" in text.get_text() for text in fig.texts) == ("usps" in datasets)
    for i, box in enumerate(boxes):
        assert page.x0 - 1 <= box.x0
        assert page.y0 - 1 <= box.y0
        assert box.x1 <= page.x1 + 1
        assert box.y1 <= page.y1 + 1
        for other in boxes[i + 1 :]:
            width = min(box.x1, other.x1) - max(box.x0, other.x0)
            height = min(box.y1, other.y1) - max(box.y0, other.y0)
            assert min(width, height) < 2, f"{box} and {other} overlap"
    sizes = [text.get_fontsize() for text in fig.findobj(mpl.text.Text) if text.get_text()]
    assert min(sizes) >= 7


@pytest.mark.slow
def test_empty_grid_can_be_drawn(tmp_path):
    drawing = paper_grid(pd.DataFrame([row()]), ["pie", "orl"])
    assert not drawing.figure.legends
    paths = save(drawing, tmp_path / "gap")
    assert len(pd.read_csv(paths[1])) == 0


@pytest.mark.slow
def test_files_hold_what_was_drawn_and_are_the_same_each_time(tmp_path, monkeypatch):
    rows = pd.DataFrame(dataset_rows("synth") + dataset_rows("usps"))
    first = save(paper_grid(rows, ["synth", "usps"]), tmp_path / "a" / "lst17.fig1")
    monkeypatch.setitem(mpl.rcParams, "lines.linewidth", 7)  # a user's matplotlibrc
    again = save(paper_grid(rows.sample(frac=1, random_state=0), ["synth", "usps"]), tmp_path / "b" / "lst17.fig1")
    assert [path.name for path in first] == ["lst17.fig1.png", "lst17.fig1.csv"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == sorted(path.name for path in first)
    table = pd.read_csv(first[1], keep_default_na=False)
    drawing = paper_grid(rows, ["synth", "usps"])
    fig, shown = drawing.figure, drawing.numbers
    assert len(table) == len(shown) == 6 * (4 * 3 + 3)
    curve = table[(table["panel"] == "d") & (table["label"] == "random_sign")]
    np.testing.assert_array_equal(curve["mean"].astype(float), line(fig.axes[3], "random_sign").get_ydata())


@pytest.mark.slow
def test_a_figure_is_drawn_once_for_each_picture(tmp_path, monkeypatch):
    drawn, draw = [], Figure.draw
    monkeypatch.setattr(Figure, "draw", lambda figure, renderer: drawn.append(renderer) or draw(figure, renderer))
    save(paper_grid(pd.DataFrame(dataset_rows()), ["usps"]), tmp_path / "figure")
    assert len(drawn) == 1


@pytest.mark.slow
def test_folder(tmp_path):
    rows = dataset_rows("synth") + dataset_rows("usps", study="lf/20")
    hashed(pd.DataFrame(rows)).to_csv(tmp_path / "rows.csv", index=False)
    paths = write_files(tmp_path, figures_of_studies(rows_of(tmp_path), {"bzmd15": ["pie", "synth"], "lf/20": ()}))
    assert [str(path.relative_to(tmp_path)) for path in paths] == [
        f"figures/{study}.{kind}" for study in ("bzmd15", "lf_20") for kind in ("png", "csv")
    ]
    assert set(pd.read_csv(paths[1])["dataset"]) == {"synth"}  # pie has no rows


@pytest.mark.slow
def test_folder_splits_many_datasets_and_several_k(tmp_path):
    rows = [row(f"data{i}", r=r) for i in range(4) for r in GRID]
    rows += [row("data4", r=r, k=k) for r in GRID for k in (2, 10)]
    hashed(pd.DataFrame(rows)).to_csv(tmp_path / "rows.csv", index=False)
    paths = write_files(tmp_path, figures_of_studies(rows_of(tmp_path), {"bzmd15": ["data4"]}))
    assert [path.name for path in paths if path.suffix == ".csv"] == ["bzmd15_1.csv", "bzmd15_2.csv"]
    assert set(pd.read_csv(paths[3])["dataset"]) == {"data4 (k=0002)", "data4 (k=0010)"}


def test_what_a_killed_writer_of_figures_left_is_removed(tmp_path):
    hashed(pd.DataFrame([row()])).to_csv(tmp_path / "rows.csv", index=False)
    left = tmp_path / "figures" / f".bzmd15.csv.{'0' * 32}.tmp"
    left.parent.mkdir()
    left.write_bytes(b"half")
    figures_for_folder(tmp_path)
    assert {path.name for path in left.parent.iterdir()} == {f"bzmd15.{kind}" for kind in ("png", "csv")}


def test_folder_without_rows(tmp_path):
    with pytest.raises(UserError, match="there is no"):
        figures_for_folder(tmp_path)
    pd.DataFrame([row()]).iloc[:0].to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(UserError, match="has no rows"):
        figures_for_folder(tmp_path)


def test_letters():
    assert [panel_letter(i) for i in (0, 25, 26, 27, 51, 52)] == ["a", "z", "aa", "ab", "az", "ba"]


@pytest.mark.slow
def test_pyplot_is_not_used():
    code = "import sys, kmdr.figures.panels; print('matplotlib.pyplot' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


def test_rows_of_several_configurations_versions_or_machines_are_never_pooled_in_silence():
    plain = pd.DataFrame([row(repeat=i) for i in range(4)])
    assert not any(
        word in footnote(paper_grid(plain, ["usps"]).figure)
        for word in ("seeds", "versions of their code", "environments")
    )
    mixed = plain.assign(
        config_hash=["c", "c", "d", "d"], code_version=["1", "1", "1", "2"], env_hash=["e", "f", "f", "f"]
    )
    with pytest.raises(UserError, match="random_sign on dataset 'usps' has rows of 2 settings"):
        paper_grid(mixed, ["usps"])
    text = footnote(paper_grid(mixed.assign(seed=[0, 0, 1, 1]), ["usps"]).figure)  # a seed is of the configuration
    assert "Repetitions of 2 seeds" in text
    assert "Computed in 2 environments." in text


def test_times_of_several_machines_in_one_curve_are_told_of():
    rows = pd.concat(
        [make_rows("s", "usps", name, (5, 10), 4).assign(env_hash=["e", "e", "f", "f"] * 2) for name in ("svd", "none")]
    )
    (sentence,) = environment_notes(rows)
    assert sentence == "s: some curves have times from several environments: none on usps, svd on usps"
    assert sentence in " ".join(footnote(paper_grid(rows, ["usps"]).figure).split())
    apart = rows.assign(env_hash=rows["reducer"])  # a machine a method: two curves
    beside = rows.assign(concurrency=[1, 1, 2, 2] * 4)  # those of one were timed beside others and give no time
    assert environment_notes(apart) == environment_notes(beside) == []


def test_times_of_several_machines_are_not_pooled_and_the_machine_with_most_rows_is_taken():
    """Qualities are, whoever computed them; what older rows do not say counts as one machine."""
    few = make_rows("s", "usps", "svd", (5, 10), 2, seconds=9.0, machine="a" * 12)
    more = make_rows("s", "usps", "svd", (5, 10), 3, seconds=2.0, machine="b" * 12).assign(repeat=[2, 3, 4] * 2)
    other = make_rows("s", "orl", "svd", (5, 10), 2, seconds=7.0)
    rows = pd.concat([few, more, other], ignore_index=True)
    times = summarise(rows, "total_seconds").set_index("dataset")
    assert set(times["median"]["usps"]) == {2.0}
    assert set(times["median"]["orl"]) == {7.0}
    assert set(times["count"]["usps"]) == {3}
    assert set(summarise(rows, "objective").set_index("dataset")["count"]["usps"]) == {5}
    assert environment_notes(rows) == ["s: only times from the machine with the most trials are used: 6 of 10 on usps"]
    assert environment_notes(pd.concat([few, other])) == []


def test_the_palette_of_a_png_keeps_the_colours_of_all_methods(tmp_path):
    """Against the picture in full colour: no pixel is off by more than a tenth of the scale, at under half the size."""
    with print_style():
        fig = Figure(figsize=(7, 4))
        FigureCanvasAgg(fig)
        ax = fig.subplots()
        for i, style in enumerate(KNOWN.values()):
            ax.plot([0, 1, 2], [i, i + 0.5, i], color=style.color, marker=style.marker, linestyle=style.linestyle)
            ax.fill_between([0, 1, 2], [i - 1] * 3, [i + 1] * 3, color=style.color, alpha=0.12, linewidth=0)
        fig.savefig(tmp_path / "full.png")
    png = next(path for path in save(Drawing(fig, []), tmp_path / "small") if path.suffix == ".png")
    with Image.open(tmp_path / "full.png") as full, Image.open(png) as small:
        assert small.size == full.size
        difference = np.abs(np.asarray(full.convert("RGB"), int) - np.asarray(small.convert("RGB"), int))
    assert difference.max() <= 26
    assert png.stat().st_size < (tmp_path / "full.png").stat().st_size / 2


@pytest.mark.slow
def test_settings_that_differ_in_a_folder_get_panels_of_their_own(tmp_path):
    """Two settings of k-means are two experiments: neither their times nor their F are one mean."""
    own = {"runner": "sequential", "repeats": 2, "r_grid": "[2,5]", "out": tmp_path / "out", "reducer": "random_sign"}
    data = [f"dataset.{name}" for name in ("n=60", "d=12", "k=3")]
    settings = [f"{name}={value}" for name, value in own.items()]
    for n_init in (1, 20):
        assert run_jobs([compose("dataset=synth", *data, *settings, f"kmeans.n_init={n_init}")]) == 0
    folder = tmp_path / "out"
    numbers = pd.read_csv(next(path for path in figures_for_folder(folder) if path.suffix == ".csv"))
    assert set(numbers["dataset"]) == {"synth (n_init=0001)", "synth (n_init=0020)"}
    rows = rows_of(folder)
    assert len(rows) == 8
    for name, config in read_configs(folder)[0].items():
        drawn = numbers[numbers["dataset"] == f"synth (n_init={config['kmeans']['n_init']:04d})"]
        for quantity in ("objective", "accuracy", "total_seconds"):
            own_rows = rows[(rows["config_hash"] == name) & (rows["r"] == 5)]
            shown = drawn[(drawn["quantity"] == quantity) & (drawn["r"] == 5)]
            centre = "median" if quantity == "total_seconds" else "mean"
            assert shown[centre].tolist() == [pytest.approx(own_rows[quantity].agg(centre))]
            assert shown["count"].tolist() == [2]
    with pytest.raises(
        UserError,
        match=r"random_sign on dataset 'synth' has rows of 2 settings \(n_init = 1; n_init = 20\); expected one",
    ):
        paper_grid(rows, ["synth"])


@pytest.mark.slow
@pytest.mark.parametrize(("folders", "told"), [(("mine", "yours"), "own (data="), (("mine", "mine"), "own (data=")])
def test_other_data_of_the_same_name_get_panels_of_their_own(tmp_path, folders, told):
    """Whether files of one name lie in two folders, or one was written anew."""
    rng = np.random.default_rng(0)
    for name in folders:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        np.save(folder / "own.npy", rng.normal(size=(40, 6)))
        settings = ("dataset.k=3", "reducer=random_sign", "r_grid=[2]", "repeats=2", "runner=sequential")
        path = f"dataset.path={folder}/own.npy"
        assert run_jobs([compose("dataset=file", path, *settings, f"out={tmp_path}/out")]) == 0
    numbers = pd.read_csv(next(p for p in figures_for_folder(tmp_path / "out") if p.suffix == ".csv"))
    shown = {name: set(of_name["count"]) for name, of_name in numbers.groupby("dataset")}
    assert len(shown) == 2
    assert all(name.startswith(told) and counts == {2} for name, counts in shown.items())
