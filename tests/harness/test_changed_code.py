"""Rows and prepared data of code that was edited meanwhile: never reused as current ones, never pooled silently."""

import csv
import importlib
import os
import shutil
import sys
from itertools import product
from textwrap import dedent

import pandas as pd
import pytest

import edits
from commands import Command
from kmdr.analysis.comparison import compare_folders, compared, with_ratio
from kmdr.analysis.rows import code_notes
from kmdr.base.outside import origin
from kmdr.config.task import code_identity, current_code
from kmdr.results.outdated import mixed_code
from kmdr.results.table import rows_of

REDUCER = '''
    """A reducer."""
    from kmdr.reducers.base import Reducer, register
    from {} import columns

    @register("my_columns")
    class Columns(Reducer):
        """C = some columns of A."""

        def draw(self, A, r, rng, state):
            return columns(A.shape[1], r)

        def apply(self, A, drawn):
            return A[:, drawn]
    '''
HELPER = """
    FIRST = 0

    def columns(d, r):
        return [(FIRST + 3 * i) % d for i in range(r)]
    """
BY_PATH = """
    from sklearn.cluster import KMeans
    from .helper import columns

    class Clusterer(KMeans):
        def __init__(self, n_clusters=8, random_state=None):
            super().__init__(n_clusters, random_state=random_state, init="random", n_init=1 + 9 * columns(40, 1)[0])
    """
FILES = {
    "plugin/reducers/inside.py": REDUCER.format("..lib.core"),
    "plugin/lib/core.py": HELPER,
    "other/reducers/elsewhere.py": REDUCER.format("shared_columns"),
    "path/shared_columns.py": HELPER,
    "path/my_package/__init__.py": BY_PATH,
    "path/my_package/helper.py": HELPER,
    "metric/metrics/mine.py": """
        from kmdr.metrics import metric
        from ..lib.core import FIRST

        @metric("my_metric", "mine", 0.0, 10.0, "higher")
        def mine(A, labels, truth):
            \"\"\"A number.\"\"\"
            return FIRST
        """,
    "metric/lib/core.py": HELPER,
}  # fmt: skip
SIGN = "reducer=random_sign"
# Plugin, arguments, and the file that is edited; `tests/project/test_states.py` has those of other kinds.
CASES = {
    "helper outside of a plugin": ("other", ("reducer=my_columns",), "path/shared_columns.py"),
    "helper of an engine by path": ("", (SIGN, "kmeans.engine=my_package.Clusterer"), "path/my_package/helper.py"),
    "helper of a metric": ("metric", (SIGN,), "metric/lib/core.py"),
}


def _with_path():
    """Do what the start of an interpreter would: files that are edited within a second have no use for bytecode."""
    sys.dont_write_bytecode = True
    sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)


def write(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(dedent(text))


@pytest.fixture
def kmdr(tmp_path, monkeypatch):
    """Return a function that runs a command in a process of its own and returns its output and messages."""
    write(tmp_path, FILES)
    monkeypatch.chdir(tmp_path)

    def run(*arguments, plugin="", status=0):
        environment = {
            **os.environ, "KMDR_PATH": str(tmp_path / plugin) if plugin else "", "KMDR_CACHE": str(tmp_path / "cache"),
            "PYTHONPATH": str(tmp_path / "path"),
        }  # fmt: skip
        command = Command(*arguments, environment=environment, before=_with_path)
        said, told = command.communicate(timeout=300)
        assert command.returncode == status, told
        return said, told

    return run


def edit(path, old="FIRST = 0", new="FIRST = 1"):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def table_of(folder):
    with (folder / "rows.csv").open() as file:
        return list(csv.DictReader(file))


TINY = ("dataset=synth", "dataset.n=40", "dataset.d=12", "dataset.k=2", "k=7", "r_grid=[2]", "kmeans.n_init=2",
        "out=out", "runner=sequential", "timing_repeats=0")  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_rows_of_edited_code_are_noticed_and_computed_again(kmdr, tmp_path, case):
    plugin, arguments, edited = CASES[case]
    command, out = (*TINY, *arguments), tmp_path / "out"
    kmdr(*command, "repeats=2", plugin=plugin)
    old, before = rows_of(out), table_of(out)
    edit(tmp_path / edited)
    assert "were made by 2 versions of the code" in kmdr(*command, "repeats=4", plugin=plugin)[1]
    assert table_of(out)[:2] == before, "nothing is computed again that was not asked for"
    assert compared(with_ratio(rows_of(out)))["versions"].tolist() == [2]
    assert len(code_notes(rows_of(out))) == 1

    assert "versions of the code" not in kmdr(*command, "repeats=4", "--refresh", plugin=plugin)[1]
    rows = table_of(out)
    assert len({code_identity(row["code_hash"], row["guests"]) for row in rows}) == 1
    for name in ("objective",) if plugin != "metric" else ("metrics",):
        assert [row[name] for row in rows[:2]] != [row[name] for row in before]
    assert compared(with_ratio(rows_of(out)))["versions"].tolist() == [1]
    sides = compare_folders(old, rows_of(out))
    assert len(sides.other_code) == 1
    assert not sides.mixed
    state = {path: path.stat().st_mtime_ns for path in out.glob("tasks/*/*/*/*.csv")}
    kmdr(*command, "repeats=4", "--refresh", plugin=plugin)
    assert state == {path: path.stat().st_mtime_ns for path in out.glob("tasks/*/*/*/*.csv")}


@pytest.mark.slow
def test_a_mixture_is_marked_in_every_format_and_is_neither_tested_nor_the_best(kmdr, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")  # so that no block repeats the first columns
    command = (*TINY, "dataset=synth", "reducer=none,svd,random_sign", "-m")
    kmdr(*command, "repeats=3")
    table = pd.read_csv(tmp_path / "out/rows.csv", dtype=str, keep_default_na=False)
    table.loc[(table["reducer"] == "svd") & (table["repeat"] == "0"), "guests"] = "plugin 0123"
    shutil.copytree(tmp_path / "out", tmp_path / "mixed", ignore=shutil.ignore_patterns("tasks"))
    table.to_csv(tmp_path / "mixed/rows.csv", index=False)
    for form in ("text", "md", "latex"):
        said = " ".join(kmdr("table", "mixed", "--format", form)[0].split())
        assert said.count("3\\dag{}" if form == "latex" else "3†") == 1
        assert "2 versions of the code" in said
    frame = compared(with_ratio(rows_of(tmp_path / "mixed"))).set_index("reducer")
    assert frame["versions"].to_dict() == {"none": 1, "svd": 2, "random_sign": 1}
    assert pd.isna(frame.loc["svd", "p F/F_best"])
    assert not pd.isna(frame.loc["random_sign", "p F/F_best"])
    assert not frame.loc["svd", [name for name in frame if name.startswith("best ")]].any()
    said = " ".join(kmdr("compare", "out", "mixed")[0].split())
    assert "computed by different code for svd" in said
    assert "In B: custom: the rows of svd were made by 2 versions" in said
    assert "the rows of svd were made by 2 versions" in kmdr("check", "mixed")[0]


@pytest.mark.slow
def test_metrics_of_edited_code_are_computed_again_from_the_labels(kmdr, tmp_path):
    command = (*TINY, SIGN, "keep_labels=true", "repeats=2")
    kmdr(*command)
    kmdr("metrics", "out", plugin="metric")
    assert {row["metrics"] for row in table_of(tmp_path / "out")} == {'{"my_metric":0.0}'}
    edit(tmp_path / "metric/lib/core.py")
    assert "2 rows" in kmdr("metrics", "out", plugin="metric")[0]
    rows = table_of(tmp_path / "out")
    assert {row["metrics"] for row in rows} == {'{"my_metric":1.0}'}
    assert {row["guests"].count("metric") for row in rows} == {1}
    state = {path: path.stat().st_mtime_ns for path in tmp_path.glob("out/tasks/*/*/*/*.csv")}
    kmdr(*command, "--refresh", plugin="metric")
    assert state == {path: path.stat().st_mtime_ns for path in tmp_path.glob("out/tasks/*/*/*/*.csv")}, "all is current"


# -- prepared data ---------------------------------------------------------------------------------------------------

REGISTRY = """
    [my_data]
    title = "My data"
    papers = []
    n = 12
    d = 3
    k = 2
    licence = "CC0"
    citation = "none"
    format = "my_loader"
    content_sha256 = ""
    options = {{ shift = 0 }}
    sources = [{}]
    """
LOADER = """
    import numpy as np
    from kmdr.datasets.sources.loaders import loader
    from ..lib.core import FIRST

    @loader
    def my_loader(*paths, shift=0):
        values = np.loadtxt(paths[0]) if paths else np.arange(12.0) % 5
        return np.add.outer(values + FIRST * np.arange(12) % 7, np.arange(3.0)) + shift, np.arange(12) % 2
    """
RUN = ("dataset=my_data", "reducer=none", "r_grid=[2]", "repeats=2", "kmeans.n_init=1", "out=out", "runner=sequential")


def data_of(folder):
    return {row["data_sha256"] for row in table_of(folder)}


def write_dataset(folder, values=None):
    """Write a plugin with a dataset, which it generates or reads from a file of given values."""
    source = ""
    if values is not None:
        from kmdr.datasets.acquire.find import sha256_of

        (folder.parent / "shelf").mkdir(exist_ok=True)
        path = folder.parent / "shelf" / "values.txt"
        path.write_text("\n".join(map(str, values)))
        source = f'{{ kind = "local", filename = "values.txt", sha256 = "{sha256_of(path)}" }}'
    write(
        folder, {"datasets/registry.toml": REGISTRY.format(source), "datasets/mine.py": LOADER, "lib/core.py": HELPER}
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("edited", "options"),
    [("loader", ()), ("helper", ("dataset.shift=3",)), ("source", ()), ("source", ("dataset.shift=3",))],
)
def test_data_are_prepared_again_when_loader_helper_or_source_change(kmdr, tmp_path, monkeypatch, edited, options):
    monkeypatch.setenv("KMDR_DATA", str(tmp_path / "shelf"))
    folder = tmp_path / "data"
    write_dataset(folder, range(12) if edited == "source" else None)
    kmdr(*RUN, *options, plugin="data")
    (before,) = data_of(tmp_path / "out")
    said = kmdr("data", "check", plugin="data")[0]
    assert "outdated" not in said
    match edited:
        case "loader":
            edit(folder / "datasets/mine.py", "np.arange(3.0))", "np.arange(3.0) ** 2)")
        case "helper":
            edit(folder / "lib/core.py")
        case "source":
            write_dataset(folder, range(1, 13))
    assert "outdated" in kmdr("data", "check", plugin="data")[0]
    kmdr("verify", "out", plugin="data", status=1)
    kmdr(*RUN, *options, "--refresh", plugin="data")
    after = data_of(tmp_path / "out")
    assert len(after) == 2
    assert before in after
    assert "outdated" not in kmdr("data", "check", plugin="data")[0]
    kmdr(*RUN, *options, "out=fresh", plugin="data")
    assert data_of(tmp_path / "fresh") == after - {before}


@pytest.mark.slow
def test_two_plugins_with_a_dataset_of_one_name_share_a_cache(kmdr, tmp_path):
    for name in ("first", "second"):
        write_dataset(tmp_path / name)
    edit(tmp_path / "second/lib/core.py")
    seen = {}
    for turn, name in product(range(2), ("first", "second")):
        kmdr(*RUN[:-2], f"out={name}{turn}", "runner=sequential", plugin=name)
        (seen[name, turn],) = data_of(tmp_path / f"{name}{turn}")
    assert seen["first", 0] == seen["first", 1] != seen["second", 0] == seen["second", 1]


# -- identities ------------------------------------------------------------------------------------------------------


@pytest.fixture
def forgetful():
    """Return a function after which this process knows as little of any code as a new one."""

    def forget():
        importlib.invalidate_caches()
        origin.cache_clear()
        edits.forget()

    yield forget
    forget()


def test_the_hash_follows_all_source_that_is_reached_and_nothing_else(tmp_path, monkeypatch, forgetful):
    """Through packages, folders without __init__, relative imports and cycles; comments and places change nothing."""
    files = {
        "walked/__init__.py": "from .a import Value\n",
        "walked/a.py": "from . import b\nfrom .sub.c import other\nclass Value: pass\n",
        "walked/b.py": "import walked.a\nTWO = 2\n",
        "walked/sub/c.py": "import numpy\nimport no_such_module\nfrom .... import beyond\nother = 3\n",
        "walked/unused.py": "four = 4\n",
        "beside.py": "five = 5\n",
    }

    def origin_in(place, changes=None):
        write(tmp_path / place, files | (changes or {}))
        forgetful()
        with monkeypatch.context() as patch:
            patch.syspath_prepend(tmp_path / place)
            return origin("walked.Value")

    plain = origin_in("one")
    assert plain.split()[0] == "walked"
    assert origin_in("two") == plain
    reached = ("walked/__init__.py", "walked/a.py", "walked/b.py", "walked/sub/c.py")
    for name, text in files.items():
        assert origin_in("one", {name: f"# a comment\n{text}"}) == plain
        assert (origin_in("one", {name: f"{text}MORE = 1\n"}) != plain) == (name in reached), name
    assert "walked" not in sys.modules


def test_a_plugin_is_the_same_wherever_it_lies_and_whatever_runs_leave_in_it(tmp_path, monkeypatch):
    codes = []
    for place in ("here", "there"):
        folder = tmp_path / place / "plugin"
        write(folder, {name: FILES[f"plugin/{name}"] for name in ("reducers/inside.py", "lib/core.py")})
        if place == "there":
            write(folder, {"results/runs.jsonl": "", "results/rows.csv": "a\n", ".hidden/x.py": "1 / 0\n"})
        monkeypatch.setenv("KMDR_PATH", str(folder))
        codes.append(current_code("my_columns", "kmdr", "synth", "{}"))
        assert "plugin " in codes[-1]
    assert len(set(codes)) == 1


def test_the_name_of_a_row_is_never_imported(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    write(tmp_path, {"never_imported/__init__.py": "raise SystemExit('imported')", "never_imported/inner.py": "1 / 0"})
    assert current_code("never_imported.inner.Red", "kmdr", "synth", "{}")
    assert current_code("svd", "never_imported.inner.Engine", "synth", "{}")
    assert current_code("no_such_module.Red", "kmdr", "synth", "{}") == ""
    assert current_code("svd", "no_such_engine", "synth", "{}") == ""
    assert current_code("svd", "", "synth", "not JSON") == ""
    assert "never_imported" not in sys.modules


def test_the_order_of_plugins_and_older_rows():
    assert code_identity("a", "x 1; y 2") == code_identity("a", "y 2; x 1") != code_identity("a", "x 1")
    assert code_identity("", "") == ""
    row = dict.fromkeys(("study", "reducer", "engine", "dataset", "options", "code_hash", "guests"), "")
    assert mixed_code([row, {**row, "engine": "my.Engine", "guests": "my 1"}]) == [], "not shown in one line"
    assert len(mixed_code([row, {**row, "guests": "my 1"}])) == 1
