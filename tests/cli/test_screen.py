"""Tables of rows on a terminal: against pandas and scipy, in every format, and what a run says of itself."""

import importlib
import inspect
import io
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from kmdr.analysis.comparison import compare_folders, compared, with_ratio
from kmdr.analysis.statistics import above
from kmdr.base.errors import UserError
from kmdr.base.text import Volume
from kmdr.claims.catalogue import papers
from kmdr.cli import commands as cli
from kmdr.cli import listing
from kmdr.datasets.registry import entry
from kmdr.figures.comparison import side_by_side_table, table_of, thinned
from kmdr.figures.tables import text
from kmdr.harness import jobs
from kmdr.harness.plan import duration_text
from kmdr.results.table import rows_of
from rows import make_rows, write_rows

SEED = np.random.default_rng(5)
NOISE = {(r, repeat): SEED.normal() for r in (2, 5, 9, 200) for repeat in range(6)}


def noisy(mean, scale, shift=0):
    return lambda r, repeat: mean + scale * NOISE[r, (repeat + shift) % 6] + scale * NOISE[200, repeat]


def some_rows(**changes):
    """Three methods, whose trials share half of their noise with those of k-means on all features."""
    settings = {"engine": "kmdr", "start": "sample", "n_init": 5, "max_iter": 500, "matching": "best"} | changes
    none = make_rows("custom", "d", "none", 200, 6, objective=noisy(0.3, 0.01), accuracy=noisy(0.7, 0.02), **settings)
    far = make_rows("custom", "d", "far", (2, 5), 6, objective=noisy(0.5, 0.01, 1), accuracy=noisy(0.6, 0.02, 2),
                    seconds=noisy(0.2, 0.01), **settings)  # fmt: skip
    near = make_rows(
        "custom", "d", "near", 9, 6, objective=noisy(0.302, 0.01, 3), seconds=noisy(0.1, 0.005), **settings
    )
    return pd.concat([none, far, near], ignore_index=True)


@pytest.fixture
def rows(tmp_path):
    return rows_of(write_rows(tmp_path, some_rows()))


@pytest.fixture(autouse=True)
def usual_volume(monkeypatch):
    monkeypatch.setattr(Volume, "level", 0)


def values_of(rows, reducer, r, column):
    return rows[(rows["reducer"] == reducer) & (rows["r"] == r)].sort_values("repeat")[column].to_numpy()


def step_down(p):
    """Holm's procedure as it is defined: the least level at which each hypothesis is still rejected."""
    levels = []
    for i in range(len(p)):
        level = 0.0
        for rank, j in enumerate(np.argsort(p, kind="stable")):
            level = max(level, (len(p) - rank) * p[j])
            if j == i:
                levels.append(min(level, 1.0))
                break
    return levels


def test_means_intervals_and_p_values_are_those_of_scipy_and_of_the_t_test_on_pairs(rows):
    table = compared(with_ratio(rows)).set_index(["reducer", "r"])
    best = rows["objective"].min()
    quality = {"F/F_best": ("objective", best), "P": ("accuracy", 1.0)}
    p = {}
    for (reducer, r), line in table.iterrows():
        assert line["n"] == 6
        for title, (column, unit) in quality.items():
            x = values_of(rows, reducer, r, column) / unit
            interval = stats.t.interval(0.95, 5, x.mean(), stats.sem(x)) if np.ptp(x) else (x[0], x[0])
            assert line[title] == pytest.approx(x.mean())
            assert line[f"± {title}"] == pytest.approx((interval[1] - interval[0]) / 2)
            if reducer == "none":
                assert np.isnan(line[f"p {title}"])
                continue
            test = above("", x - values_of(rows, "none", 200, column) / unit)
            ends = [line[f"{end}Δ {title}"] for end in ("", "low ", "high ")]
            assert ends == pytest.approx([test.effect, test.low, test.high])
            p[reducer, r, title] = min(1.0, 2 * min(test.p_for, test.p_against))
        if reducer != "none":
            logs = np.log(values_of(rows, reducer, r, "total_seconds") / values_of(rows, "none", 200, "total_seconds"))
            assert line["× seconds"] == pytest.approx(np.exp(logs.mean()))
            test = above("", logs)
            p[reducer, r, "seconds"] = min(1.0, 2 * min(test.p_for, test.p_against))
            p[reducer, r, "NMI"] = 1.0  # equal in all rows
    for (reducer, r, title), corrected in zip(p, step_down(list(p.values())), strict=True):
        assert table.loc[(reducer, r), f"p {title}"] == pytest.approx(corrected)


def test_marks_and_the_best_are_where_they_belong(rows):
    table = table_of(compared(with_ratio(rows)))
    lines = {(line["method"], line["r"]): (i, line) for i, line in table.frame.iterrows()}
    for r in ("2", "5"):
        assert lines["far", r][1]["F/F_best"].startswith("↑ ")
        assert lines["far", r][1]["P"].startswith("↓ ")
        assert lines["far", r][1]["seconds"].startswith("↑ ")
    assert lines["near", "9"][1]["F/F_best"][0].isdigit(), "what is shown by chance has no mark"
    assert (lines["none", "200"][0], "F/F_best") in table.bold
    assert (lines["near", "9"][0], "F/F_best") not in table.bold
    assert all((i, "NMI") in table.bold for i, _ in lines.values()), "what is shown alike is best alike"
    assert "settings" not in table.frame


def test_text_has_no_control_character_and_is_as_wide_as_it_must_be(rows, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    table = table_of(compared(with_ratio(rows)))
    plain = text(table)
    assert all(c.isprintable() or c == "\n" for c in plain)
    assert "…" not in plain
    lines = plain.splitlines()
    assert len({line.index("P") for line in lines if " P " in line}) == 1
    assert sum("± " in line and not line.startswith("*:") for line in lines) >= 4
    assert re.search(r"\* 1\.\d{4} ± 0\.\d{4}", plain), "the best has a star"
    styled = text(table, styled=True)
    assert "\x1b[1m" in styled
    assert re.sub(r"\x1b\[\d*m", "", styled).count("*") == 0


def test_nothing_is_said_of_one_repetition_or_without_all_features(tmp_path):
    one = compared(with_ratio(some_rows()[lambda rows: rows["repeat"] == 0]))
    assert one["± P"].isna().all()
    assert not [name for name in one if str(name).startswith("p ")]
    assert "at least 2 repetitions" in table_of(one).note
    assert "±" not in table_of(one).frame.iloc[0]["P"]


def test_settings_that_differ_are_columns_and_are_never_pooled(tmp_path):
    parts = [some_rows(), some_rows(n_init=20, config_hash="other")]
    table = compared(with_ratio(pd.concat(parts, ignore_index=True)))
    assert len(table) == 8
    assert set(table["n"]) == {6}
    assert sorted(table["n_init"].unique()) == [5, 20]
    shown = table_of(table).frame
    assert list(shown)[:3] == ["method", "r", "n_init"]


@pytest.mark.parametrize("name", ["n", "failed", "r", "params", "P", "seconds", "best P"])
def test_options_of_data_that_have_the_name_of_a_column_keep_both(name, tmp_path):
    one, other = (
        some_rows(options=json.dumps({name: size}), data_sha256=sha)
        for size, sha in ((500, "a" * 64), (1000, "b" * 64))
    )
    rows = rows_of(write_rows(tmp_path, pd.concat([one, other])))
    frame = compared(with_ratio(rows))
    assert frame.columns.is_unique
    assert sorted(set(frame[f"dataset.{name}"])) == [500, 1000]
    assert set(frame["n"]) == {6}
    assert f"dataset.{name}" in table_of(frame).frame
    both = compare_folders(rows, rows).table
    assert both.columns.is_unique
    assert set(both[f"dataset.{name}"]) == {500, 1000}


def test_failed_trials_and_missing_labels_are_shown():
    rows = some_rows()
    rows.loc[rows["reducer"] == "near", ["status", "error"]] = "failed", "singular"
    rows.loc[rows["reducer"] == "near", ["objective", "accuracy", "nmi", "total_seconds"]] = np.nan
    rows["accuracy"] = np.nan
    shown = table_of(compared(with_ratio(rows))).frame.set_index("method")
    assert shown.loc["near", "failed"] == "6"
    assert shown.loc["near", "F/F_best"] == ""
    assert "P" not in shown


@pytest.mark.slow
def test_a_large_grid_is_thinned_to_what_a_person_takes_in():
    grid = range(1, 41)
    rows = pd.concat([make_rows("custom", "d", name, grid, 2) for name in ("a", "b")], ignore_index=True)
    frame = compared(with_ratio(rows))
    few, told = thinned(frame)
    assert told == "30 of 80 lines"
    assert all({1, 40} <= set(group["r"]) for _, group in few.groupby("reducer"))
    assert thinned(few) == (few, "") or len(thinned(few)[0]) == 30
    many = pd.concat([make_rows("custom", f"d{i}", "a", (1, 2), 2) for i in range(40)], ignore_index=True)
    assert len(thinned(compared(with_ratio(many)))[0]) == 30


# -- two folders -----------------------------------------------------------------------------------------------------


def test_two_folders_are_compared_by_pairs_where_their_starts_are_the_same():
    a, b = some_rows(), some_rows(config_hash="later")
    b["objective"] += 0.01 + 0.001 * b["repeat"]
    sides = compare_folders(a, b)
    assert sides.table["paired"].all()
    assert (sides.changed, sides.other_data, sides.only) == ([], [], (0, 0))
    best = min(a["objective"].min(), b["objective"].min())
    for _, line in sides.table.iterrows():
        x, y = (values_of(rows, line["reducer"], line["r"], "objective") / best for rows in (a, b))
        test = above("", y - x)
        ends = [line[f"{end}Δ F/F_best"] for end in ("", "low ", "high ")]
        assert ends == pytest.approx([(y - x).mean(), test.low, test.high])
    shown = side_by_side_table(sides, sides.table).frame["Δ F/F_best"]
    assert all(re.fullmatch(r"↑ \+0\.\d{4} \[\+0\.\d{4}, \+0\.\d{4}\]", text) for text in shown)


def test_other_starts_are_compared_by_welch_and_told(tmp_path, monkeypatch, capsys):
    a, b = some_rows(), some_rows(n_init=20, config_hash="other")
    b["objective"] += 0.05
    sides = compare_folders(a, b)
    assert not sides.table["paired"].any()
    assert sides.changed == ["n_init: 5 in A, 20 in B"]
    best = min(a["objective"].min(), b["objective"].min())
    line = sides.table[sides.table["reducer"] == "near"].iloc[0]
    x, y = (values_of(rows, "near", 9, "objective") / best for rows in (a, b))
    test = stats.ttest_ind(y, x, equal_var=False)
    ends = [line[f"{end}Δ F/F_best"] for end in ("low ", "high ")]
    assert ends == pytest.approx([test.confidence_interval().low, test.confidence_interval().high])
    seeds = compare_folders(a, some_rows(seed=7, config_hash="other"))
    assert not seeds.table["paired"].any()


def test_other_data_of_one_name_are_never_compared(tmp_path):
    for name, data in (("a", "0" * 64), ("b", "1" * 64)):
        (tmp_path / name).mkdir()
        write_rows(tmp_path / name, some_rows(), data_sha256=data)
    with pytest.raises(UserError, match="hold different data of the name d;"):
        cli.COMMANDS["compare"]([str(tmp_path / "a"), str(tmp_path / "b")])
    a, b = rows_of(tmp_path / "a"), rows_of(tmp_path / "b")
    sides = compare_folders(pd.concat([a, a.assign(dataset="e")]), pd.concat([b, a.assign(dataset="e")]))
    assert set(sides.table["dataset"]) == {"e"}
    assert sides.other_data == ["d"]
    assert sides.only == (4, 4)


# -- the commands ----------------------------------------------------------------------------------------------------


def kmdr(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["kmdr", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    return stop.value.code


def test_table_prints_every_format(tmp_path, monkeypatch, capsys):
    write_rows(tmp_path, some_rows())
    frame = compared(with_ratio(rows_of(tmp_path)))
    for kind, words in (("md", "| method | r |"), ("latex", r"\toprule"), ("text", "method")):
        assert kmdr(monkeypatch, "table", tmp_path, "--format", kind) == 0
        out = capsys.readouterr().out
        assert words in out
        assert f"{frame.iloc[0]['P']:.3f}" in out
    assert kmdr(monkeypatch, "table", tmp_path, "--format=csv") == 0
    read = pd.read_csv(io.StringIO(capsys.readouterr().out))
    np.testing.assert_allclose(read["F/F_best"], frame["F/F_best"], rtol=1e-15)
    assert kmdr(monkeypatch, "table", tmp_path, "--format", "html") == 2
    assert "no format is named 'html'" in capsys.readouterr().err
    assert kmdr(monkeypatch, "table") == 2
    assert "arguments are required: DIR; usage: kmdr table" in capsys.readouterr().err
    assert kmdr(monkeypatch, "table", tmp_path, "--format") == 2
    assert "argument --format: expected one argument" in capsys.readouterr().err


def test_a_folder_of_studies_has_a_line_a_study(tmp_path, monkeypatch, capsys):
    write_rows(tmp_path, some_rows(), some_rows().assign(study="other"))
    assert kmdr(monkeypatch, "table", tmp_path) == 0
    out = capsys.readouterr().out
    assert re.findall(r"^ ?(custom|other) +d +3", out, re.MULTILINE) == ["custom", "other"]
    assert kmdr(monkeypatch, "table", tmp_path, "STUDY=other") == 0
    assert "near" in capsys.readouterr().out
    assert kmdr(monkeypatch, "table", tmp_path, "STUDY=othr") == 2
    assert "did you mean 'other'?" in capsys.readouterr().err


TINY = ("dataset.n=40", "dataset.d=12", "dataset.k=2", "r_grid=[2,3]", "repeats=2", "runner=sequential")


@pytest.fixture
def here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))


@pytest.mark.slow
def test_a_run_ends_with_its_table_and_says_what_svd_does_with_r(here, monkeypatch, capsys):
    assert kmdr(monkeypatch, *TINY, "reducer=svd,none", "-m", "out=o") == 0  # -m stands anywhere
    out, err = capsys.readouterr()
    assert re.search(r"^none +12 +2 +\S* ?1\.\d{4} ± ", out, re.MULTILINE)
    assert "o/rows.csv: 6 rows" in out
    assert "note" not in err
    assert kmdr(monkeypatch, *TINY, "reducer=svd", "reducer.rank=k", "out=o") == 0
    _, err = capsys.readouterr()
    assert "note: svd uses only r = 2, as in its paper, whatever r_grid says; with reducer=svd" in err
    for more in ([], ["seed=1"]):
        assert kmdr(monkeypatch, *TINY, "reducer=svd", *more, "out=o", "-q") == 0
        assert capsys.readouterr() == ("", "")
    assert kmdr(monkeypatch, *TINY, "reducer=random_sign", "out=o", "--verbose") == 0
    out, err = capsys.readouterr()
    assert "synth random_sign repeat=0: 2 trials" in err
    methods = re.findall(r"^(\w+) +\d+ +2 +[*↑↓]? ?1\.", out, re.MULTILINE)
    assert methods == ["none", "random_sign", "random_sign"], "no svd"


def test_a_heavy_run_says_what_it_takes_before_it_begins_and_how_to_get_less(here, monkeypatch, capsys):
    monkeypatch.setattr(jobs, "_HEAVY_SECONDS", 0.0)
    assert kmdr(monkeypatch, *TINY, "reducer=none", "out=o") == 0
    told = capsys.readouterr().err.splitlines()
    first = next(i for i, line in enumerate(told) if "tasks" in line)
    assert re.match(r"kmdr: note: 2 tasks, about \d+ s on one worker; fewer repeats=, a shorter r_grid=", told[first])
    monkeypatch.setattr(jobs, "_HEAVY_SECONDS", 60.0)
    assert kmdr(monkeypatch, *TINY, "reducer=none", "repeats=3", "out=o") == 0
    assert "about" not in capsys.readouterr().err


def test_durations_are_said_as_people_say_them():
    assert [duration_text(s) for s in (0.4, 59.4, 60, 3599, 7260)] == [
        "0 s",
        "59 s",
        "1 min",
        "1 h 0 min",
        "2 h 1 min",
    ]


@pytest.mark.slow
def test_the_demo_runs_on_real_data_and_ends_with_a_table_and_a_picture(here, monkeypatch, capsys):
    assert kmdr(monkeypatch, "demo", "OUT=o") == 0
    out = capsys.readouterr().out
    rows = rows_of(Path("o"))
    assert set(rows["dataset"]) == {"digits"}
    assert (rows["status"] == "ok").all()
    assert set(rows["n"]) == {1797}
    picture = re.search(r"^Plot saved to (.*\.png)$", out, re.MULTILINE)
    assert Path(picture[1]).is_file()
    command = re.search(r"^kmdr (-m .*)$", out, re.MULTILINE)[1]
    capsys.readouterr()
    before = Path("o/rows.csv").read_bytes()
    assert kmdr(monkeypatch, *shlex.split(command)) == 0
    assert Path("o/rows.csv").read_bytes() == before, "the command that it names is what it did"


def test_help_has_every_command_and_each_setting_with_its_comment(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    assert kmdr(monkeypatch, "--help") == 0
    out = capsys.readouterr().out
    for name in cli.COMMANDS:
        assert re.search(rf"^kmdr {name}\b.*  \S", out, re.MULTILINE), name
    settings = re.findall(r"^((?:\w+\.)?\w+)=(\S*.*)$", out.partition("== Settings")[2], re.MULTILINE)
    names = [name for name, _ in settings]
    wanted = {"repeats", "seed", "out", "k", "kmeans.n_init", "kmeans.start", "runner.n_jobs", "dataset.n", "r_grid"}
    assert wanted <= set(names)
    assert [name for name, rest in settings if not re.search(r"\S  +\S", rest)] == [], "each has a comment"
    assert kmdr(monkeypatch, "reducer=leverage", "--help") == 0
    assert re.search(r"^reducer\.merged=false +true: draw until r columns", capsys.readouterr().out, re.MULTILINE)
    assert kmdr(monkeypatch, "table", "--help") == 0
    assert capsys.readouterr().out.startswith("kmdr table [--study NAME] [--format FORMAT] DIR")


@pytest.mark.parametrize(("choice", "shown"), [
    ("reducer=svd", "C = A·V with V the top right singular vectors of A"),
    ("reducer=outside", "Any scikit-learn transformer by its import path"),
    ("dataset=synth", "1000 x 2000, k = 5"),
    ("dataset=file", "dataset.separator="),
    ("kmeans=bmd09", "kmeans.n_init=30"),
    ("grid=coarse", "r_grid=[5, 20, 50, 100]"),
    ("runner=slurm", "runner.options.walltime=null"),
    ("study=bmd09_table1", "Datasets: nips, bio."),
])  # fmt: skip
def test_help_of_a_choice_is_about_that_choice_alone(choice, shown, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    assert kmdr(monkeypatch, choice, "--help") == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{choice}\n")
    assert shown in out
    group = choice.partition("=")[0]
    settings = re.findall(r"^([\w.]+)=", out.partition("\n")[2], re.MULTILINE)
    assert all(name.startswith(f"{group}.") for name in settings if group not in ("grid", "study")), settings
    assert "== " not in out


def test_help_of_a_choice_that_does_not_exist_suggests_another(monkeypatch, capsys):
    assert kmdr(monkeypatch, "reducer=svdd", "--help") == 2
    assert "no reducer is named 'svdd'; did you mean 'svd'?" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--help"], ["help"], ["reducer=svd", "--help"], ["verify", "--help"], []])
def test_help_is_as_wide_as_the_terminal(arguments, monkeypatch, capsys):
    shown = {}
    for width in (60, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        assert kmdr(monkeypatch, *arguments) == 0
        shown[width] = capsys.readouterr().out.splitlines()
        too_wide = [line for line in shown[width] if len(line) > width and " " in line.strip()]
        assert [line for line in too_wide if not line.lstrip().startswith("kmdr ")] == []
    assert len(shown[60]) > len(shown[120])


def test_a_setting_is_an_option_by_another_name():
    parsed = {}
    for words in (["results", "--format", "md", "--study=s"], ["results", "FORMAT=md", "study=s"]):
        command = cli.COMMANDS["table"]
        parsed[words[1]] = vars(command.parser().parse_intermixed_args(command._with_options(words)))
    assert parsed["--format"] == parsed["FORMAT=md"] == {"folder": Path("results"), "format": "md", "study": "s"}


def test_every_command_has_a_function_that_takes_its_arguments():
    for command in cli.COMMANDS.values():
        module, _, name = command.function.partition(":")
        parameters = set(inspect.signature(getattr(importlib.import_module(module), name)).parameters)
        names = {"arguments"} if command.arguments is None else {action.dest for action in command.parser()._actions}
        assert parameters == names, command.name


@pytest.mark.parametrize("kind", ["reducers", "engines", "metrics", "papers"])
def test_what_is_listed_without_imports_is_what_is_registered(kind, monkeypatch):
    listed = listing._ROWS[kind]()
    if kind == "papers":
        assert listed == [(paper.name, paper.title.partition(" (")[0], "") for paper in papers()]
    else:
        monkeypatch.setattr(listing, "_has_plugins", lambda kind: True)
        assert listed == listing._ROWS[kind]()
    assert len(listed) > 2


def test_only_datasets_that_no_package_or_file_has_are_listed_as_generated():
    """The digits of scikit-learn, which are in its package, were listed as generated."""
    listed = {row[0].rstrip("*"): row[2].partition(":")[0] for row in listing._ROWS["datasets"]()}
    generated = {name for name, state in listed.items() if state == "generated"}
    assert listed["digits"] == "available"
    assert generated == {name for name in listed if not (e := entry(name)).sources and not e.home and not e.needs_path}


def test_every_argument_of_every_command_has_a_help():
    for command in cli.COMMANDS.values():
        assert all(action.help for action in command.parser()._actions), command.name


# -- Ctrl-C ----------------------------------------------------------------------------------------------------------

INTERRUPTED_AT = """
import os, signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = ["kmdr", "dataset=synth", "out=o"]
from kmdr.__main__ import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("module", [
    "kmdr.base.paths", "kmdr.base.process", "numpy.linalg", "numba.core", "kmdr.cli.commands", "omegaconf.dictconfig",
    "kmdr.reducers.identity", "hydra._internal.logging_config",
])  # fmt: skip
def test_ctrl_c_while_a_command_begins_gets_one_line(module, tmp_path):
    code = INTERRUPTED_AT.format(module=module)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stderr == "kmdr: interrupted; finished tasks are kept, and the same command does the rest\n"
    assert not list(tmp_path.iterdir())


def test_who_imports_kmdr_keeps_his_own_ctrl_c():
    code = "import signal, kmdr; assert signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    subprocess.run([sys.executable, "-c", f"import signal; signal.signal(2, signal.default_int_handler); {code}"],
                   check=True)  # fmt: skip
