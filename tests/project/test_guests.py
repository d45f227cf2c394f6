"""Methods, metrics, engines and data of a user's folder, each from one file outside the tree."""

import csv
import json
import os
import re
import sys
from textwrap import dedent

import numpy as np
import pytest

import kmdr
from commands import Command
from kmdr import datasets, metrics, reducers
from kmdr.analysis.results import Results
from kmdr.analysis.rows import summarise
from kmdr.base import plugins as guests
from kmdr.base.errors import UserError
from kmdr.base.process import exit_status
from kmdr.cli.jobs import run_jobs
from kmdr.clustering import engines
from kmdr.datasets.sources.loaders import all_loaders
from kmdr.harness import rescore
from kmdr.harness.jobs import compose
from kmdr.harness.verify import verify
from kmdr.metrics.scores import matchings
from kmdr.reporting.reproduce import check_modules
from kmdr.results.check import faults
from kmdr.results.table import rows_of

FILES = {
    "reducers/uniform.py": '''
        """Uniform sampling."""
        import numpy as np
        from kmdr.linalg import take_columns
        from kmdr.reducers.base import Reducer, register

        @register("guest_uniform")
        class Uniform(Reducer):
            """C = r columns drawn uniformly."""

            def __init__(self, n_components=None, *, n_clusters=8, eps=1 / 3, scaled=True, random_state=None):
                super().__init__(n_components, n_clusters=n_clusters, eps=eps, random_state=random_state)
                self.scaled = scaled

            def draw(self, A, r, rng, state):
                return rng.integers(A.shape[1], size=r)

            def apply(self, A, drawn):
                return take_columns(A, drawn)
        ''',
    "engines/first.py": '''
        import numpy as np
        from kmdr.clustering.engines import engine
        from kmdr.clustering.kmeans import Clustering

        @engine("guest_first")
        def first(C, k, starts, rng, protocol):
            """Each point to the nearest of the first start's rows."""
            distance = ((C[:, None] - C[starts[0]][None]) ** 2).sum(axis=2)
            return Clustering(distance.argmin(axis=1).astype(np.int64), float(distance.min(axis=1).sum()), 1, 0)
        ''',
    "metrics/purity.py": '''
        import numpy as np
        from kmdr.metrics import metric

        @metric("guest_purity", "purity", 0.0, 1.0, "higher")
        def purity(A, labels, truth):
            """Share of points whose class is the most frequent one of their cluster."""
            if truth is None:
                return None
            return sum(np.bincount(truth[labels == c]).max() for c in np.unique(labels)) / len(truth)
        ''',
    "datasets/grid.py": '''
        import numpy as np
        from kmdr.datasets.sources.loaders import loader

        @loader
        def guest_grid(n=60):
            """Points on a line, in three groups."""
            truth = np.arange(n) % 3
            return np.add.outer(truth * 10.0 + np.linspace(0, 1, n), np.arange(12.0)), truth
        ''',
    "datasets/registry.toml": """
        [guest_grid]
        title = "Points on a line"
        papers = []
        n = 60
        d = 12
        k = 3
        licence = "CC0"
        citation = "none"
        format = "guest_grid"
        content_sha256 = ""
        options = { n = 60 }
        sources = []
        """,
}


@pytest.fixture
def guest(tmp_path, monkeypatch):
    folder = tmp_path / "lab"
    for name, text in FILES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text))
    monkeypatch.setenv("KMDR_PATH", str(folder))
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))
    return folder


def run(out, *overrides, status=0):
    job = compose(
        "dataset=guest_grid", "reducer=guest_uniform", "r_grid=[2,4]", "repeats=2", "runner=sequential",
        "kmeans.n_init=2", f"out={out}", *overrides,
    )  # fmt: skip
    assert run_jobs([job]) == status
    with (out / "rows.csv").open() as file:
        return list(csv.DictReader(file))


def test_one_file_each_is_found_run_and_read(guest, tmp_path):
    rows = run(tmp_path / "out")
    assert len(rows) == 4
    (root,) = guests.plugin_roots()
    for row in rows:
        assert (row["status"], row["reducer"], row["params"]) == ("ok", "guest_uniform", '{"scaled":true}')
        purity = json.loads(row["metrics"])["guest_purity"]
        assert float(row["accuracy"]) <= purity <= 1
        assert row["guests"] == guests.origin_of_root(root)
        assert row["guests"].startswith("lab ")
    table = summarise(rows_of(tmp_path / "out"), "guest_purity")
    assert table["count"].tolist() == [2, 2]
    assert Results.from_folder(tmp_path / "out").rows("custom").shape[0] == 4


def test_an_engine_of_a_guest_clusters(guest, tmp_path):
    rows = run(tmp_path / "out", "kmeans.engine=guest_first")
    assert {row["n_iter"] for row in rows} == {"1"}
    assert "guest_first" in engines.names()


ENGINE = """
import numpy as np
from kmdr.clustering.engines import engine
from kmdr.clustering.kmeans import Clustering

@engine("guest_odd")
def odd(C, k, starts, rng, protocol):
    labels = np.arange(len(C)) % {clusters}
    {line}
    return Clustering(labels, 0.0, {n_iter}, 0)
"""
METRIC = """
from kmdr.metrics import metric

@metric("guest_odd", "odd", 0.0, float("inf"), "lower")
def odd(A, labels, truth):
    return float("inf")
"""


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"clusters": 60}, "returned 60 clusters, expected at most 3"),
        ({"n_iter": -5}, "returned n_iter = '-5', expected a whole number"),
        ({"n_iter": "float('nan')"}, "returned n_iter = 'nan', expected a whole number"),
        ({"line": r"raise FileNotFoundError('caf\udce9.npy')"}, r"FileNotFoundError: caf\udce9.npy"),
        (METRIC, """returned metrics = '{"guest_odd":Infinity,"""),
    ],
)
@pytest.mark.parametrize("labels", ["keep_labels=false", "keep_labels=true"])
def test_what_no_row_may_have_makes_a_failed_row_that_every_reader_accepts(change, reason, labels, guest, tmp_path):
    engine = {"clusters": 3, "line": "", "n_iter": 1} | ({} if change is METRIC else change)
    (guest / "engines/odd.py").write_text(ENGINE.format(**engine))
    if change is METRIC:
        (guest / "metrics/odd.py").write_text(METRIC)
    settings = ("dataset=guest_grid", "reducer=none", "repeats=1", "runner=sequential", "kmeans.engine=guest_odd")
    assert run_jobs([compose(*settings, labels, f"out={tmp_path / 'out'}")]) == 1
    (row,) = csv.DictReader((tmp_path / "out/rows.csv").open())
    assert (row["status"], row["objective"]) == ("failed", "")
    assert reason in row["error"]
    assert not faults(tmp_path / "out")


REDUCER = """
import numpy as np
import pandas as pd
import scipy.sparse as sp
from kmdr.reducers.base import Reducer, register

@register("guest_odd")
class Odd(Reducer):
    def draw(self, A, r, rng, state):
        return r

    def apply(self, A, r):
        C, n = A[:, :r].copy(), len(A)
        return {image}
"""


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        ("A[:, : r + 1]", "returned an array of shape (60, 3), not 60 x 2"),
        ("A[:, : r - 1]", "returned an array of shape (60, 1), not 60 x 2"),
        ("A", "returned an array of shape (60, 12), not 60 x 2"),
        ("C[1:]", "returned an array of shape (59, 2), not 60 x 2"),
        ("C[:, 0]", "returned an array of shape (60,), not 60 x 2"),
        ("C * 1j", "returned entries of type complex128"),
        ("None", "returned entries of type object"),
        ("np.ma.masked_less(C, 15)", "returned masked entries"),
        (
            "sp.csr_array((np.ones(n), np.full(n, 999), np.arange(n + 1)), shape=(n, r))",
            "the CSR arrays of this matrix do not fit together",
        ),
    ],
)
def test_a_reducer_that_returns_no_matrix_of_r_columns_makes_a_failed_row(image, reason, guest, tmp_path):
    (guest / "reducers/odd.py").write_text(REDUCER.format(image=image))
    settings = ("dataset=guest_grid", "reducer=guest_odd", "repeats=1", "r_grid=[2]", "runner=sequential")
    assert run_jobs([compose(*settings, f"out={tmp_path / 'out'}")]) == 1
    (row,) = csv.DictReader((tmp_path / "out/rows.csv").open())
    assert (row["status"], row["objective"]) == ("failed", "")
    assert reason in row["error"]


@pytest.mark.parametrize(
    "image",
    [
        "C.astype(np.longdouble)", "C.astype('>f8')", "C.tolist()", "np.asfortranarray(C)",
        "pd.DataFrame(C)", "np.ma.masked_array(C)", "sp.coo_array(C)", "sp.csc_matrix(C)",
    ],
)  # fmt: skip
def test_other_forms_of_the_same_matrix_give_the_same_row(image, guest, tmp_path):
    (guest / "reducers/odd.py").write_text(REDUCER.format(image=image))
    (guest / "reducers/plain.py").write_text(REDUCER.format(image="C").replace("guest_odd", "guest_plain"))
    odd, plain = (
        run(tmp_path / name, f"reducer={name}", "repeats=1", "r_grid=[4]") for name in ("guest_odd", "guest_plain")
    )
    assert odd[0]["status"] == "ok"
    assert float(odd[0]["objective"]) == pytest.approx(float(plain[0]["objective"]), rel=1e-12)


WRITES = """
from kmdr.metrics import metric

@metric("aaa_writes", "writes", 0.0, 1.0, "higher")
def writes(A, labels, truth):
    {line}
    return 0.5
"""


@pytest.mark.parametrize("line", ["labels[:] = 0", "truth[:] = 0", "A[:] = 0", "labels.sort()"])
@pytest.mark.parametrize("settings", [["kmeans.n_init=2"], ["keep_labels=true"]])
def test_a_metric_that_writes_into_what_it_scores_fails_and_changes_nothing(line, settings, guest, tmp_path):
    (guest / "metrics/aaa.py").write_text(WRITES.format(line=line))
    job = ["dataset=guest_grid", "reducer=guest_uniform", "r_grid=[2,4]", "repeats=1", "runner=sequential", *settings]
    assert run_jobs([compose(*job, f"out={tmp_path / 'out'}")]) == 1
    rows = list(csv.DictReader((tmp_path / "out/rows.csv").open()))
    assert ["read-only" in row["error"] for row in rows] == [True, True]
    A, labels = np.arange(8.0).reshape(4, 2), np.arange(4) % 2
    with pytest.raises(ValueError, match="read-only"):
        metrics.score(A, labels, labels)
    assert labels.tolist() == [0, 1, 0, 1]
    assert A.tolist() == np.arange(8.0).reshape(4, 2).tolist()


@pytest.mark.parametrize("scale", [1.0, 2.0**200])
def test_a_reducer_that_writes_into_the_data_fails_and_changes_no_row_of_another_r(scale, guest):
    (guest / "reducers/odd.py").write_text(REDUCER.format(image="np.subtract(A, A[0], out=A)[:, :r] if r == 2 else C"))
    A = np.random.default_rng(0).standard_normal((60, 12)) * scale
    both, last = (kmdr.compare(A, "guest_odd", k=3, r_grid=r_grid, repeats=1).rows for r_grid in ([2, 4], [4]))
    assert both["status"].tolist() == ["failed", "ok"]
    assert both["objective"].iloc[1] == last["objective"].iloc[0]


def test_an_engine_that_writes_into_its_starts_changes_no_row_of_another_r(guest, tmp_path):
    line = "total = int(starts.sum()); starts[:] = 0"
    (guest / "engines/odd.py").write_text(ENGINE.format(clusters=3, n_iter="total", line=line))
    job = ["kmeans.engine=guest_odd", "repeats=1"]
    both = run(tmp_path / "both", *job, "r_grid=[2,4]")
    (last,) = run(tmp_path / "last", *job, "r_grid=[4]")
    assert both[1]["n_iter"] == last["n_iter"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("'<b>', 'label', 0, 1, 'higher'", "the name of a metric = '<b>' is not a name"),
        ("3, 'label', 0, 1, 'higher'", "the name of a metric = 3 is not a name"),
        ("'guest_m', 4, 0, 1, 'higher'", "metric guest_m: the label 4 is not a string"),
        ("'guest_m', 'label', 1, 0, 'higher'", "metric guest_m: 1 to 0 is not a range"),
        ("'guest_m', 'label', '0', 1, 'higher'", "metric guest_m: '0' to 1 is not a range"),
        ("'guest_m', 'label', 0, float('nan'), 'higher'", "metric guest_m: 0 to nan is not a range"),
        ("'guest_m', 'label', 0, 1, 'up'", "metric guest_m: better = 'up' is not a direction"),
    ],
)
def test_a_metric_without_a_valid_name_label_range_or_direction_is_refused(arguments, reason, guest):
    (guest / "metrics/m.py").write_text(
        f"from kmdr.metrics import metric\n@metric({arguments})\ndef m(A, labels, truth):\n    return 0.5\n"
    )
    with pytest.raises(UserError, match=re.escape(reason)):
        metrics.metrics()


def test_an_engine_that_returns_no_clustering_is_a_failed_row_that_says_so(guest, tmp_path):
    (guest / "engines/odd.py").write_text(ENGINE.format(clusters=3, n_iter=1, line="return labels, 0.0"))
    rows = run(tmp_path / "out", "kmeans.engine=guest_odd", status=1)
    assert {row["status"] for row in rows} == {"failed"}
    assert all("engine guest_odd returned tuple; return a Clustering" in row["error"] for row in rows)


@pytest.mark.parametrize("name", ["", "('a b')"])
def test_an_engine_without_a_valid_name_is_refused(name, guest):
    """Without its parentheses the decorator took the function for the name, and registered nothing."""
    (guest / "engines/e.py").write_text(
        f"from kmdr.clustering.engines import engine\n@engine{name}\ndef e(C, k, starts, rng, protocol):\n    pass\n"
    )
    with pytest.raises(UserError, match=r"the name of an engine = .* is not a name"):
        engines.names()


def test_new_metrics_that_no_row_may_have_leave_the_rows_as_they_are(guest, tmp_path, monkeypatch):
    before = run(tmp_path / "out", "keep_labels=true")
    (tmp_path / "new/metrics").mkdir(parents=True)
    (tmp_path / "new/metrics/odd.py").write_text(METRIC)
    monkeypatch.setenv("KMDR_PATH", f"{guest}:{tmp_path / 'new'}")
    assert rescore.fill(tmp_path / "out") == (0, 4)
    assert list(csv.DictReader((tmp_path / "out/rows.csv").open())) == before
    assert not faults(tmp_path / "out")


@pytest.mark.parametrize("is_link", [False, True])
def test_a_changed_file_changes_the_origin(guest, tmp_path, is_link):
    if is_link:
        (guest / "metrics").rename(tmp_path / "real")
        (guest / "metrics").symlink_to(tmp_path / "real")
        (tmp_path / "real" / "loop").symlink_to(guest)
    (before,) = guests.plugin_roots()
    guests.origin_of_root.cache_clear()
    known = guests.origin_of_root(before)
    guests.origin_of_root.cache_clear()
    (guest / "metrics/purity.py").write_text((guest / "metrics/purity.py").read_text() + "# changed\n")
    assert guests.origin_of_root(before) != known


def test_without_the_guest_nothing_of_it_is_known_and_its_rows_stay_readable(guest, tmp_path, monkeypatch):
    run(tmp_path / "out")
    monkeypatch.delenv("KMDR_PATH")
    assert "guest_uniform" not in reducers.names()
    assert "guest_purity" not in metrics.metrics()
    assert "guest_first" not in engines.names()
    assert "guest_grid" not in datasets.names()
    assert len(rows_of(tmp_path / "out")) == 4


def test_verify_names_a_remedy_that_works_for_a_method_of_a_plugin_that_is_not_installed(guest, tmp_path, monkeypatch):
    row, *_ = run(tmp_path / "out")
    monkeypatch.delenv("KMDR_PATH")
    outcome = verify(row, tmp_path / "out", {}, {})
    assert outcome.outcome == "not verified"
    assert outcome.detail == "third-party code: reducer=guest_uniform; KMDR_PATH=PLUGIN runs it"


@pytest.mark.parametrize("form", ["twice", "link", "relative"])
def test_a_command_takes_a_folder_that_is_named_twice_once_and_keeps_a_relative_one(form, guest, tmp_path, monkeypatch):
    """The papers of a folder that was named twice were refused, and another current folder meant other plugins."""
    (guest / "papers" / "own25").mkdir(parents=True)
    (guest / "papers" / "own25" / "paper.toml").write_text("title = 'T'\nauthors = 'A'\nvenue = 'V'\nyear = 2025\n")
    (tmp_path / "link").symlink_to(guest)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    several = {"twice": [str(guest), "", str(guest)], "link": [str(guest), "link"], "relative": ["lab"]}[form]
    monkeypatch.setenv("KMDR_PATH", ":".join(several))

    def look():
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert "own25" in {paper.name for paper in guests.paper_folders()}
        assert "guest_uniform" in reducers.names()
        assert [root.folder for root in guests.plugin_roots()] == [guest]

    assert exit_status(look) == 0


@pytest.mark.parametrize("folder", ["nowhere", "~nobody-at-all/plugin"])
def test_a_plugin_folder_that_does_not_exist_is_named(folder, monkeypatch, capsys):
    monkeypatch.setenv("KMDR_PATH", folder)
    assert exit_status(guests.plugin_roots) == 2
    assert folder in capsys.readouterr().err


def test_two_of_one_name_are_refused(guest):
    (guest / "reducers/other.py").write_text((guest / "reducers/uniform.py").read_text())
    with pytest.raises(UserError, match="two reducers are named 'guest_uniform'"):
        reducers.names()


def test_a_module_that_raises_is_named(guest):
    (guest / "engines/broken.py").write_text("1 / 0\n")
    with pytest.raises(UserError, match=r"broken\.py cannot be imported \(ZeroDivisionError"):
        engines.names()


@pytest.mark.parametrize("helper", [False, True])
@pytest.mark.parametrize(
    "line",
    [
        "1 / 0",
        "import numpy.nothing",
        "import json; json.loads('{')",
        "from kmdr.base.errors import UserError; raise UserError('why')",
        "from kmdr.metrics import metric; metric('no name!', 'x', 0, 1, 'higher')(print)",
    ],
)
@pytest.mark.parametrize("kind", ["reducers", "engines", "metrics", "datasets", "papers/own25"])
def test_the_message_on_a_module_that_raises_has_its_file_and_line(kind, line, helper, guest, capsys):
    look = {"reducers": reducers.names, "engines": engines.names, "metrics": metrics.metrics, "datasets": all_loaders}
    folder = guest / kind
    folder.mkdir(parents=True, exist_ok=True)
    if kind == "papers/own25":
        (folder / "paper.toml").write_text("title = 'T'\nauthors = 'A'\nvenue = 'V'\nyear = 2025\n")
    (folder / "broken.py" if helper else folder / "claims.py").write_text(f"\n\n{line}\n")
    if helper:
        (folder / "claims.py").write_text("from .broken import x\n")
    assert exit_status(look.get(kind, check_modules)) == 2
    assert f"{folder.resolve()}/{'broken' if helper else 'claims'}.py:3)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("1 / 0", r"matchings\.py cannot be imported \(ZeroDivisionError"),
        ("MATCHING = {}", r"MATCHINGS of .*matchings\.py is None; give functions"),
        ("MATCHINGS = 5", r"MATCHINGS of .*matchings\.py is 5; give functions"),
        ("MATCHINGS = {'own25': 5}", r"MATCHINGS of .*matchings\.py is .*; give functions"),
        ("MATCHINGS = {5: len}", r"matchings\.py has a matching named 5, which is not a string or is taken"),
        ("MATCHINGS = {'best': len}", r"matchings\.py has a matching named 'best', .* is taken"),
        ("MATCHINGS = {'lf20_rows': len}", r"matchings\.py has a matching named 'lf20_rows', .* is taken"),
    ],
)
def test_matchings_of_a_paper_that_are_none_are_refused_with_their_file(content, words, guest, tmp_path):
    folder = guest / "papers" / "own25"
    folder.mkdir(parents=True)
    (folder / "paper.toml").write_text("title = 'T'\nauthors = 'A'\nvenue = 'V'\nyear = 2025\n")
    taken = next(name for name in matchings() if name not in ("best", "identity"))
    (folder / "matchings.py").write_text(content.replace("lf20_rows", taken))
    with pytest.raises(UserError, match=words.replace("lf20_rows", taken)):
        run(tmp_path / "o")


@pytest.mark.parametrize(
    "ending",
    [
        "raise SystemExit",
        "raise SystemExit(3)",
        "raise SystemExit('why')",
        "exit(0)",
        "import sys; sys.exit()",
        "from argparse import ArgumentParser; ArgumentParser().parse_args(['-h'])",
        "from argparse import ArgumentParser; ArgumentParser().parse_args(['--nothing'])",
        "raise GeneratorExit",
        "raise type('Panic', (BaseException,), {})",
    ],
)
@pytest.mark.parametrize(
    ("kind", "look"),
    [
        ("reducers", reducers.names),
        ("engines", engines.names),
        ("metrics", metrics.metrics),
        ("datasets", all_loaders),
    ],
)
def test_a_module_that_ends_the_process_is_named_and_the_command_fails(kind, look, ending, guest, capsys):
    (guest / kind / "ends.py").write_text(ending)
    assert exit_status(look) == 2
    assert "ends.py:1 ended the command (" in capsys.readouterr().err


@pytest.mark.parametrize("status", [0, 3])
@pytest.mark.parametrize("place", ["draw", "thread", "child"])
def test_a_reducer_that_ends_the_process_is_a_failed_row_or_named(place, status, guest, tmp_path):
    """With runner=sequential, the command ended without a word, and with status 0 if the reducer gave that."""
    call = {
        "draw": f"os._exit({status})",
        "thread": f"t = threading.Thread(target=lambda: os._exit({status})); t.start(); t.join()",
        "child": f"p = os.fork(); os._exit({status}) if not p else os.waitpid(p, 0)",
    }[place]
    file = guest / "reducers" / "uniform.py"
    text = file.read_text().replace(
        "def draw(self, A, r, rng, state):", f"def draw(self, A, r, rng, state):\n        {call}"
    )
    file.write_text(f"import os, threading\n{text}")
    settings = ("dataset=guest_grid", "reducer=guest_uniform", "r_grid=[2]", "repeats=1", "runner=sequential")
    done = Command(*settings, f"out={tmp_path / 'o'}", environment=os.environ)
    _, error = done.communicate()
    assert done.returncode == {"draw": 1, "thread": status or 1, "child": 0}[place], error
    if place == "thread":
        assert f"a thread of a method called os._exit({status})" in error
    else:
        (row,) = csv.DictReader((tmp_path / "o" / "rows.csv").open())
        assert (f"the method called os._exit({status})" in row["error"]) == (place == "draw")


def test_a_packages_entry_point_names_a_guest(tmp_path, monkeypatch):
    package = tmp_path / "site" / "guest_package"
    (package / "reducers").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "reducers" / "__init__.py").write_text("")
    text = dedent(FILES["reducers/uniform.py"]).replace("guest_uniform", "packaged_uniform")
    (package / "reducers" / "uniform.py").write_text(text)
    info = tmp_path / "site" / "guest_package-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: guest-package\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[kmdr.guests]\nlab = guest_package\n")
    try:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
            patch.setattr(reducers.REGISTRY, "_made", {**reducers.REGISTRY._made})  # so that no later test has it
            guests._packages.cache_clear()
            assert "packaged_uniform" in reducers.names()
            assert reducers.origin_of_reducer("packaged_uniform").startswith("guest-package 1.2 ")
    finally:
        guests._packages.cache_clear()
    assert "packaged_uniform" not in reducers.names()


def test_a_transformer_and_a_clusterer_by_import_path_run_from_the_command_line(guest, tmp_path):
    rows = run(
        tmp_path / "out", "reducer=outside", "reducer.path=sklearn.decomposition.TruncatedSVD",
        "reducer.args.n_iter=7", "kmeans.engine=sklearn.cluster.BisectingKMeans", "kmeans.args.tol=0.001",
    )  # fmt: skip
    assert {(row["reducer"], row["params"], row["status"]) for row in rows} == {
        ("sklearn.decomposition.TruncatedSVD", '{"n_iter":7}', "ok")
    }
    assert np.all([float(row["objective"]) < 0.1 for row in rows])
    assert all(row["guests"].count("scikit-learn") == 2 for row in rows)
