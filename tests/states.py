"""A user's project in a folder, what was done to it, and what its commands may therefore show.

`Project` runs commands, edits data, code and results, and remembers of every row that appears which data, which
versions of the code and which settings made it. Each new row is computed again from the files as they are, by a fresh
process that reads neither prepared data nor results. `Project.look` then compares every mean that the commands show
with the means of the rows that belong together: same data, same code, same settings. `kmdr.analysis` is not used.
"""

import base64
import contextlib
import csv
import gc
import gzip
import io
import json
import math
import os
import pickle
import re
import select
import shutil
import signal
import sys
import time
import traceback
from collections import defaultdict
from functools import cache
from itertools import combinations
from pathlib import Path
from statistics import median
from textwrap import dedent
from typing import NamedTuple

import numpy as np
from hydra._internal.hydra import Hydra
from PIL import Image

from kmdr.base.identity import code_hash
from kmdr.base.threads import pinned

TIMEOUT_SECONDS = 300
MOST_REPEATS = 4
N, D, K = 20, 5, 3
# All of a project's code; `VERSION` stands for a number, which an edit changes and which every result depends on.
CODE = {
    "lab/datasets/lab_points.py": """
        import numpy as np
        from kmdr.datasets.sources.loaders import loader
        from ..lib.points import SHIFT

        @loader
        def lab_points():
            rng = np.random.default_rng([11, VERSION, SHIFT])
            groups = np.arange(20) % 3
            return rng.standard_normal((20, 5)) + 2 * groups[:, None], groups
        """,
    "lab/lib/points.py": "SHIFT = VERSION\n",
    "lab/reducers/lab_columns.py": """
        import numpy as np
        from kmdr.linalg import take_columns
        from kmdr.reducers.base import Reducer, register
        from ..lib.columns import SHIFT

        @register("lab_columns")
        class Columns(Reducer):
            \"\"\"C = r neighbouring columns.\"\"\"

            def draw(self, A, r, rng, state):
                first = rng.integers(A.shape[1])
                if VERSION == 3 and first % 2:
                    raise ArithmeticError("this version fails for some draws")
                return (first + 2 * VERSION + SHIFT + np.arange(r)) % A.shape[1]

            def apply(self, A, drawn):
                return take_columns(A, drawn)
        """,
    "lab/lib/columns.py": "SHIFT = VERSION\n",
    "lab/engines/lab_engine.py": """
        import numpy as np
        from kmdr.clustering.engines import engine
        from kmdr.clustering.kmeans import Clustering
        from ..lib.rows import SHIFT

        @engine("lab_engine")
        def nearest(C, k, starts, rng, protocol):
            \"\"\"Each point goes to the nearest of k rows.\"\"\"
            rows = (starts[0] + 2 * VERSION + SHIFT) % len(C)
            distance = ((C[:, None] - C[rows][None]) ** 2).sum(axis=2)
            return Clustering(distance.argmin(axis=1).astype(np.int64), float(distance.min(axis=1).sum()), 1, 0)
        """,
    "lab/lib/rows.py": "SHIFT = VERSION\n",
    "lab/metrics/lab_score.py": """
        import numpy as np
        from kmdr.metrics import metric
        from ..lib.score import SHIFT

        @metric("lab_score", "lab score", 0.0, 100.0, "higher")
        def score(A, labels, truth):
            return 10.0 * VERSION + 20.0 * SHIFT + float(np.bincount(labels).max()) / len(labels)
        """,
    "lab/lib/score.py": "SHIFT = VERSION\n",
    "outer.py": """
        import numpy as np
        import outer_helper

        class Pick:
            def __init__(self, n_components=2, random_state=None):
                self.n_components, self.random_state = n_components, random_state

            def fit(self, X, y=None):
                first = np.random.RandomState(self.random_state).randint(X.shape[1])
                self.columns = (first + 2 * VERSION + outer_helper.SHIFT + np.arange(self.n_components)) % X.shape[1]
                return self

            def transform(self, X):
                return X[:, self.columns]

        class Split:
            def __init__(self, n_clusters=3, random_state=None):
                self.n_clusters, self.random_state = n_clusters, random_state

            def fit_predict(self, X):
                first = np.random.RandomState(self.random_state).randint(len(X))
                rows = (first + 2 * VERSION + outer_helper.SHIFT + 5 * np.arange(self.n_clusters)) % len(X)
                return ((X[:, None] - X[rows][None]) ** 2).sum(axis=2).argmin(axis=1)
        """,
    "outer_helper.py": "SHIFT = VERSION\n",
}
REGISTRY = """
    [lab_points]
    title = "Points"
    papers = []
    n = 20
    d = 5
    k = 3
    licence = "CC0"
    citation = "none"
    format = "lab_points"
    content_sha256 = ""
    sources = []
    """
# What each thing that a row takes is made of.
PARTS = {
    "lab_points": ("lab/datasets/lab_points.py", "lab/lib/points.py"),
    "lab_columns": ("lab/reducers/lab_columns.py", "lab/lib/columns.py"),
    "lab_engine": ("lab/engines/lab_engine.py", "lab/lib/rows.py"),
    "lab_score": ("lab/metrics/lab_score.py", "lab/lib/score.py"),
    "outer.Pick": ("outer.py", "outer_helper.py"),
    "outer.Split": ("outer.py", "outer_helper.py"),
}
REDUCERS = ("none", "random_sign", "lab_columns", "outer.Pick")
ENGINES = ("kmdr", "lab_engine", "outer.Split")
# Commands that refuse what contradicts itself, is damaged or has nothing in common.
REFUSING = ("merge", "compare", "table", "figures", "report")
# What figures and the page call methods that have another name there.
LABELS = {"outer.Pick": "Pick"}
# What a row says of a finished trial, in each view's own words.
TABLE = {"F/F_best": "ratio", "P": "accuracy", "NMI": "nmi", "seconds": "total_seconds", "lab score": "lab_score"}
NOT_KEPT = {"objective_ratio"}


# -- commands ----------------------------------------------------------------------------------------------------------


class Said(NamedTuple):
    """Exit status, output and error output of a command, and what its drawings say."""

    status: int
    out: str
    error: str
    drawn: str = ""

    @property
    def text(self):
        """All that is said; a note on stderr has a line of its own, so that none joins a table with its names."""
        return "\n".join(" ".join(part.split()) for part in (self.out, *self.error.splitlines(), self.drawn))

    def notes_on(self, lines):
        """Return what is said below a table in CSV, whose head names versions, and a sentence on lines of several."""
        marks = {
            f"{line['reducer']} has rows of {line['versions']} versions" for line in lines if int(line["versions"]) > 1
        }
        return "\n".join([" ".join(self.error.split()), *sorted(marks)])


def in_a_fork(function, *arguments):
    """Return what a function returns in a fork of this process; None where that was killed."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(reader)
            gc.disable()
            signal.signal(signal.SIGINT, signal.default_int_handler)
            content = pickle.dumps(function(*arguments))
            with os.fdopen(writer, "wb") as pipe:
                pipe.write(content)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writer)
    content, until = b"", time.monotonic() + TIMEOUT_SECONDS
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        arrival = select.poll()  # `select.select` takes no descriptor above 1023
        arrival.register(pipe, select.POLLIN)
        while arrival.poll(1000 * max(0.0, until - time.monotonic())):
            part = pipe.read(1 << 16)
            if not part:
                break
            content += part
        else:
            os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        assert time.monotonic() < until, "a command did not end"
        return None
    assert status == 0, "see the traceback above"
    return pickle.loads(content)


def enter(folder):
    """Make this process one that was started in a project."""
    sys.dont_write_bytecode = True  # an edit within a second that keeps the size is not seen by Python otherwise
    os.chdir(folder)
    os.environ.update(KMDR_CACHE=str(folder / "cache"), KMDR_PATH=str(folder / "lab"))
    sys.path.insert(0, str(folder))
    Hydra.get_mode = lambda *_, **__: (
        None
    )  # composes all of the configuration once more, for a setting that is not there


def command(arguments):
    """Run a command in this process, which must not be used for much else."""
    from kmdr.base.process import exit_status
    from kmdr.cli import commands as cli

    sys.argv = ["kmdr", *arguments]
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            status = exit_status(cli.command_line)
        except SystemExit as stop:
            status = int(stop.code or 0)
    return Said(status, out.getvalue(), error.getvalue())


@cache
def warm_up(folder):
    """Have this process compile and import what its forks need, with nothing of any project in it."""
    np.savez(folder / "warm.npz", X=np.random.default_rng(0).standard_normal((N, D)), y=np.arange(N) % K)
    with changed_environment(KMDR_CACHE=str(folder / "cache"), KMDR_PATH=""):
        for method in ("random_sign", "none"):
            said = command([
                "dataset=file", f"dataset.path={folder}/warm.npz", f"reducer={method}", "r_grid=[2,3]", "repeats=2",
                "runner=sequential", "kmeans.n_init=2", f"out={folder}/out",
            ])  # fmt: skip
            assert said.status == 0, said.error
        assert command(["table", f"{folder}/out"]).status == 0
        with sketched():
            assert command(["figures", f"{folder}/out"]).status == 0
    code_hash(*sorted(name for name in sys.modules if name.startswith("kmdr.")))
    gc.collect()
    gc.freeze()  # what forks need not copy when they collect


@contextlib.contextmanager
def changed_environment(**settings):
    before = dict(os.environ)
    os.environ.update(settings)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def sketched():
    """Draw nothing but the texts of figures, which are yielded: their pixels are not what is looked at."""
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    texts, layout, save = [], Figure.get_layout_engine, Figure.savefig

    def write(figure, buffer, format, **_):  # noqa: A002
        texts.append(" ".join(text.get_text() for text in figure.findobj(Text)))
        if format == "png":
            Image.new("RGB", (1, 1)).save(buffer, "PNG", dpi=(200, 200))

    Figure.get_layout_engine, Figure.savefig = lambda _: None, write
    try:
        yield texts
    finally:
        Figure.get_layout_engine, Figure.savefig = layout, save


def _commands(folder, commands, killed_after):
    enter(folder)
    if killed_after is not None:
        from kmdr.results.store import Store

        add, left = Store.add, iter(range(killed_after))

        def add_some(*arguments):
            if next(left, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            add(*arguments)

        Store.add = add_some
    said = []
    for arguments in commands:
        with sketched() as texts:
            said.append(command(arguments)._replace(drawn=" ".join(texts)))
    return said


# -- what is right -----------------------------------------------------------------------------------------------------


class Trial(NamedTuple):
    """All that determines the numbers of a row: the data, the method, the settings, and the code of each."""

    dataset: str
    content: tuple  # of the data: the kind, then versions
    reducer: str
    k: int
    engine: str
    n_init: int
    seed: int
    code: tuple  # versions of the reducer and of the engine
    metric: tuple  # versions of the metric

    @property
    def group(self):
        """What trials have in common that are repetitions of each other."""
        return self._replace(seed=0, metric=())


def points(content):
    """Return the matrix and the classes of data, of the versions that made them."""
    kind, *versions = content
    groups = np.arange(N) % K
    rng = np.random.default_rng([11 if kind == "lab" else 7, *versions])
    return rng.standard_normal((N, D)) + 2 * groups[:, None], groups


def _recompute(folder, trial, r_grid):
    enter(folder)
    from kmdr.base.outside import allow
    from kmdr.clustering.kmeans import Protocol
    from kmdr.config.task import Task
    from kmdr.datasets import Dataset
    from kmdr.harness.task import Provenance, run

    allow(trial.reducer, trial.engine)
    A, groups = points(trial.content)
    data = Dataset(trial.dataset, A, groups, K, "", "", "")
    protocol = Protocol(trial.n_init, 500, engine=trial.engine)
    of_trial = "", trial.dataset, "", "", trial.reducer, "{}", trial.k, r_grid
    tasks = [Task(*of_trial, repeat, trial.seed, protocol, serial=True) for repeat in range(MOST_REPEATS)]
    with pinned(1):
        rows = [row for task in tasks for row in run(task, data, Provenance(1, 1, "", ""))]
    return {(row["repeat"], row["r"]): numbers(row) for row in rows}


def numbers(row):
    """Return the numbers of a row that its trial determines; None where it failed."""
    if row["status"] != "ok":
        return None
    own = json.loads(row["metrics"] or "{}")
    return {
        **{name: float(row[name]) for name in ("objective", "accuracy", "nmi", "ari", "n_iter")},
        **{name: float(value) for name, value in own.items()},
    }


_known = {}


def recomputed(folder, trial, repeat, r):
    """Return the numbers of a trial by the code of a project, computed anew once for each version of that code."""
    r_grid = (D,) if trial.reducer == "none" else (2, 3)
    if trial not in _known:
        _known[trial] = in_a_fork(_recompute, folder, trial, r_grid)
    return _known[trial].get((repeat, r))


def close(a, b, digits=9):
    return math.isclose(a, b, rel_tol=10.0**-digits, abs_tol=10.0**-digits)


def mean(values):
    return math.fsum(values) / len(values)


class Group(NamedTuple):
    """Rows that are repetitions of each other, by seed and repetition, and the settings that a view may show."""

    trial: Trial
    rows: dict
    shown: dict

    def values(self, quantity, best):
        """Return the values of one quantity by repetition."""
        values = {}
        for key, row in self.rows.items():
            F = float(row["objective"])
            if quantity in ("ratio", "objective_ratio"):
                values[key] = F / best[row["dataset"], row["k"], row["data_sha256"]]
            elif quantity == "lab_score":
                values[key] = json.loads(row["metrics"])["lab_score"]
            elif row[quantity] != "":
                values[key] = float(row[quantity])
        return values

    def __or__(self, other):
        return self._replace(rows={**self.rows, **{(*key, 1): row for key, row in other.rows.items()}})


class Shown(NamedTuple):
    """A line of a view: what it is of, n, and means by quantity."""

    dataset: str
    reducer: str
    r: int
    settings: dict
    n: int
    means: dict


def least_of(rows):
    """Return F_best: the least F of finished rows on the same data with the same k."""
    best = {}
    for row in rows:
        if row["status"] == "ok":
            key = row["dataset"], row["k"], row["data_sha256"]
            best[key] = min(best.get(key, math.inf), float(row["objective"]))
    return best


def is_marked(text, names):
    """Whether a sentence names one of some methods and says that several versions of code made its rows."""
    known = {*names, *(name.rpartition(".")[2] for name in names)}  # figures name a class without its module
    sentences = re.split(r"(?<=[a-z);])[.;] |\n|(?= \w+: the rows )", text)
    return any(
        re.search(r"version|other code|older code|code of", sentence)
        and any(re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", sentence) for name in known)
        for sentence in sentences
    )


def differing(groups):
    """Return in what trials differ that are shown as one: data, settings or code."""
    fields = {"content": "data", "dataset": "data", "code": "code"}
    trials = [group.trial for group in groups]
    kinds = {fields.get(name, "settings") for name in Trial._fields if len({getattr(t, name) for t in trials}) > 1} - {
        "metric"
    }
    return "+".join(sorted(kinds)) or "metric"


# -- the project -------------------------------------------------------------------------------------------------------


class Project:
    """See the module; `wrong` has what was shown and does not follow from the files, a kind and a sentence each."""

    def __init__(self, folder):
        self.folder = folder
        self.versions = {}
        self.file, self.data = "points.npz", 0
        self.origins, self.spoiled = {}, set()
        self.wrong, self.stopped = [], []
        self.hashes = {}
        for name in CODE:
            self.edit(name, 1)
        (folder / "lab/datasets/registry.toml").write_text(dedent(REGISTRY))
        self.edit_data(1)

    @property
    def results(self):
        """The folders of results that there are."""
        return sorted(path.name for path in self.folder.glob("out_*") if (path / "rows.csv").exists())

    def call(self, *commands, killed_after=None):
        said = in_a_fork(_commands, self.folder, commands, killed_after)
        for arguments, each in zip(commands, said or (), strict=False):
            if (each.status not in (0, 1) and arguments[0] not in REFUSING) or "stopped by" in each.error:
                self.stopped.append((" ".join(arguments), " ".join(each.error.split())[-300:]))
        return said

    # -- what a user does

    def edit(self, name, version):
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(CODE[name]).replace("VERSION", str(version)))
        self.versions[name] = version

    def edit_data(self, version):
        self.data = version
        A, groups = points(("file", version))
        if self.file.endswith(".npz"):
            np.savez(self.folder / self.file, X=A, y=groups)
        else:
            lines = [",".join([*map(repr, row.tolist()), str(group)]) for row, group in zip(A, groups, strict=True)]
            (self.folder / self.file).write_text("\n".join(["a,b,c,d,e,label", *lines, ""]))

    def rename_data(self, name):
        (self.folder / self.file).unlink()
        self.file = name
        self.edit_data(self.data)

    def run(self, *, out, data, methods, engine, n_init, k, r_grid, seed, repeats, labels, refresh, killed_after=None):
        of_data = ["dataset=lab_points"] if data == "lab" else ["dataset=file", f"dataset.path={self.file}"]
        of_method = [f"reducer={','.join(methods)}"]
        if "." in methods[0]:
            of_method = ["reducer=outside", f"reducer.path={methods[0]}"]
        arguments = [
            *(["-m"] if len(methods) > 1 else []), *of_data, *of_method, f"kmeans.engine={engine}",
            f"kmeans.n_init={n_init}", f"k={k}", f"r_grid={str(list(r_grid)).replace(' ', '')}", f"seed={seed}",
            f"repeats={repeats}", f"keep_labels={labels}", "runner=sequential", f"out={out}",
            *(["--refresh"] if refresh else []),
        ]  # fmt: skip
        said = self.call(arguments, killed_after=killed_after)
        title, content = ("lab_points", ("lab", *self._versions("lab_points"))) if data == "lab" else (
            Path(self.file).stem, ("file", self.data)
        )  # fmt: skip
        code = self._versions(engine)
        asked = {
            method: Trial(
                title, content, method, k, engine, n_init, seed, (*self._versions(method), *code),
                self._versions("lab_score"),
            )
            for method in methods
        }  # fmt: skip
        self._see(out, asked)
        if said and said[0].status in (0, 1) and "stopped by" not in said[0].error:
            self._check_run(said[0], out, asked, r_grid, repeats, refresh)

    @staticmethod
    def code_of(*, data, methods, engine, **_):
        """Return the files of code that a run takes."""
        parts = ["lab_points" if data == "lab" else "", *methods, engine, "lab_score"]
        return [file for part in parts for file in PARTS.get(part, ())]

    def _versions(self, name):
        return tuple(self.versions[file] for file in PARTS.get(name, ()))

    def _see(self, out, asked):
        """Take note of the rows that are new in a folder, and compare those of a run with a plain recomputation."""
        folder = self.folder / out
        for file in [folder / "rows.csv", *folder.glob("tasks/*/*/*/*.csv")]:
            for row in rows_in(file):
                if row_key(row) in self.origins or row_key(row) in self.spoiled:
                    continue
                trial = asked.get(row["reducer"])
                if trial is None or not self._is_of(row, trial):
                    continue  # a row that nobody can have made: shown as damaged, if it is shown
                self.origins[row_key(row)] = trial
                right = recomputed(self.folder, trial, int(row["repeat"]), int(row["r"]))
                seen = numbers(row)
                if (right is None) != (seen is None) or (right and any(not close(right[x], seen[x]) for x in right)):
                    self._blame("a new row is not of these files", f"{trial}: {seen}, not {right}")
                known = self.hashes.setdefault((trial.dataset, trial.content), row["data_sha256"])
                if known != row["data_sha256"]:
                    self._blame("a new row is not of these files", f"{trial}: data {row['data_sha256'][:8]}")

    @staticmethod
    def _is_of(row, trial):
        told = (trial.dataset, trial.k, trial.engine, trial.n_init, trial.seed)
        names = ("dataset", "k", "engine", "n_init", "seed")
        return all(row[name] == str(value) for name, value in zip(names, told, strict=True))

    def _check_run(self, said, out, asked, r_grid, repeats, refresh):
        for trial in asked.values():
            rows = [
                row
                for row in rows_in(self.folder / out / "rows.csv")
                if row["reducer"] == trial.reducer
                and self._is_of(row, trial)
                and row["data_sha256"] == self.hashes.get((trial.dataset, trial.content))
            ]
            wanted = {(repeat, r) for repeat in range(repeats) for r in ([D] if trial.reducer == "none" else r_grid)}
            asked_rows = [row for row in rows if (int(row["repeat"]), int(row["r"])) in wanted]
            if {(int(row["repeat"]), int(row["r"])) for row in asked_rows} != wanted and "missing" not in said.error:
                self._blame("run: no rows of these files", f"{len(asked_rows)} of {len(wanted)}: {said.text[-300:]}")
            shown = [row for row in rows if row["status"] == "ok" and row_key(row) in self.origins]
            codes = {self.origins[row_key(row)].code for row in shown or rows if row_key(row) in self.origins}
            scores = {self.origins[row_key(row)].metric for row in shown or rows if row_key(row) in self.origins}
            if refresh and any(
                (origin := self.origins.get(row_key(row)))
                and (origin.code, origin.metric) != (trial.code, trial.metric)
                for row in asked_rows
            ):
                self._blame("--refresh left rows of other code", f"{trial}: {codes}")
            if codes != {trial.code} and not is_marked(said.text, [trial.reducer]):
                kind = "run: pooled code" if len(codes) > 1 else "run: rows of other code only"
                self._blame(kind, f"{trial}: {codes}; {said.text[-300:]}")
            elif "lab score" in said.out and scores != {trial.metric} and not is_marked(said.text, [trial.reducer]):
                self._blame("run: metric of other code", f"{trial}: {scores}")

    def merge(self, sources, target):
        self.call(["merge", *sources, "-o", target])

    def rename(self, old, new):
        (self.folder / old).rename(self.folder / new)

    def damage(self, out, number, where, cut):
        """Cut a file of rows, or change a digit of it; the first is the table."""
        files = [self.folder / out / "rows.csv", *sorted((self.folder / out).glob("tasks/*/*/*/*.csv"))]
        file = files[number % len(files)]
        content = file.read_bytes()
        digits = [match.start() for match in re.finditer(rb"(?<=\.)\d(?=\d{4})", content)]
        if cut:
            file.write_bytes(content[: int(where * len(content))])
        elif digits:
            at = digits[int(where * len(digits))]
            file.write_bytes(content[:at] + str((int(content[at : at + 1]) + 3) % 10).encode() + content[at + 1 :])
        self.spoiled |= {row_key(row) for row in rows_in(file)} - self.origins.keys()

    def repair(self, out):
        self.call(["check", out, "--repair"])

    # -- what it then sees

    def look(self, report=False):
        """Compare all that the commands show of all folders with the rows that belong together."""
        names = self.results
        views = []
        for name in names:
            shutil.rmtree(self.folder / name / "figures", ignore_errors=True)
            shutil.rmtree(self.folder / name / "report", ignore_errors=True)
            views += [(self._see_table, name, ["table", name, "--format", "csv"])]
            views += [(self._see_figures, name, ["figures", name])]
            views += [(self._see_page, name, ["report", name])] if report else []
        views += [(self._see_compared, pair, ["compare", *pair, "--format", "csv"]) for pair in combinations(names, 2)]
        if not views:
            return
        for (check, name, _), said in zip(views, self.call(*(view[2] for view in views)), strict=True):
            if said.status == 0:
                check(name, said)

    def _blame(self, kind, sentence):
        self.wrong.append((kind, sentence))

    def _groups(self, view, name, said):
        """Return the groups of a folder's rows, those rows, and whether all of them are known."""
        rows = list(rows_in(self.folder / name / "rows.csv"))
        unknown = [row for row in rows if row_key(row) not in self.origins]
        if unknown and "damaged" not in said.text:
            self._blame(f"{view}: damaged rows", f"{len(unknown)} rows of {name} are of no run: {row_key(unknown[0])}")
        if unknown:
            return None, rows
        groups = defaultdict(dict)
        for row in rows:
            if row["status"] == "ok":
                trial = self.origins[row_key(row)]
                repetition = int(row["seed"]), int(row["repeat"])
                groups[trial.group, int(row["r"]), row["data_sha256"], row["options"]][repetition] = row
        shown = ("k", "n_init", "engine", "data_sha256")
        by_line = defaultdict(list)
        for (trial, r, *_), of_group in groups.items():
            row = next(iter(of_group.values()))
            path = json.loads(row["options"] or "{}").get("path", "–")
            group = Group(trial, of_group, {**{column: row[column] for column in shown}, "path": path})
            by_line[trial.dataset, trial.reducer, r].append(group)
        return by_line, rows

    def _match(self, view, line, by_line, best, text, digits=9):
        """Return the group that a line is of; blame it where there is none and the text does not say why."""
        groups = [
            group
            for group in by_line.get((line.dataset, line.reducer, line.r), ())
            if all(str(group.shown.get(name, value)) == value for name, value in line.settings.items())
        ]

        def agrees(group):
            for quantity, shown in line.means.items():
                values = group.values(quantity, best).values()
                centre = median if quantity == "total_seconds" else mean
                if not values or not close(centre(list(values)), shown, digits):
                    return False
            return len(group.rows) == line.n

        for group in groups:
            if agrees(group):
                self._check_metric(view, group, line, text)
                return group
        if is_marked(text, [line.reducer]):
            return None
        for size in range(2, len(groups) + 1):
            for some in combinations(groups, size):
                pooled = some[0]
                for other in some[1:]:
                    pooled |= other
                if agrees(pooled):
                    self._blame(f"{view}: pooled {differing(some)}", f"{line}; {text[-300:]}")
                    return None
        self._blame(f"{view}: another mean", f"{line} is of none of {[len(g.rows) for g in groups]}; {text[-300:]}")
        return None

    def _check_metric(self, view, group, line, text):
        versions = {self.origins[row_key(row)].metric for row in group.rows.values()}
        if "lab_score" in line.means and len(versions) > 1 and not is_marked(text, [line.reducer, "lab_score"]):
            self._blame(f"{view}: pooled metric", f"{line}: {versions}")

    def _check_all(self, view, lines, by_line, best, text, digits=9):
        """Check that each line is of a group, and that each group has a line; return the lines' groups."""
        matched = [self._match(view, line, by_line, best, text, digits) for line in lines]
        shown = {id(group) for group in matched if group}
        for (dataset, reducer, r), groups in by_line.items():
            for group in groups:
                if id(group) in shown or is_marked(text, [reducer]):
                    continue
                if not any(blamed.startswith(view) for blamed, _ in self.wrong):
                    self._blame(f"{view}: rows not shown", f"{dataset}, {reducer}, r = {r}: {group.trial}")
        return matched

    def _see_table(self, name, said):
        by_line, rows = self._groups("table", name, said)
        if by_line is None:
            return
        best, table = least_of(rows), list(csv.DictReader(io.StringIO(said.out)))
        table = [line for line in table if line.get("reducer")]
        if sum(int(line["failed"]) for line in table) != sum(row["status"] != "ok" for row in rows):
            self._blame("table: failed rows not counted", said.out[:500])
        shown = [line for line in table if int(line["n"])]
        lines, notes = [_line(line) for line in shown], said.notes_on(shown)
        matched = self._check_all("table", lines, by_line, best, notes)
        whole = {
            (group.trial, *group.shown.values()): group
            for groups in by_line.values()
            for group in groups
            if group.trial.reducer == "none"
        }
        for line, group in zip(shown, matched, strict=True):
            if group is None or not line.get("Δ P") or group.trial.reducer == "none":
                continue
            code = group.trial.code[len(self._versions(group.trial.reducer)) :]
            beside = whole.get((group.trial._replace(reducer="none", code=code), *group.shown.values()))
            self._check_change("table", line, beside, group, (best, best), notes)

    def _check_change(self, view, line, before, after, bests, text):
        for title, quantity in (("Δ P", "accuracy"), ("Δ NMI", "nmi"), ("Δ F/F_best", "ratio")):
            if not line.get(title):
                continue
            old, new = (
                group.values(quantity, best) if group else {}
                for group, best in zip((before, after), bests, strict=True)
            )
            pairs = [new[key] - old[key] for key in old.keys() & new.keys()]
            apart = [mean(list(new.values())) - mean(list(old.values()))] if old and new else []
            if not any(close(float(line[title]), value, 8) for value in [*apart, *([mean(pairs)] if pairs else [])]):
                names = ["none", after.trial.reducer]
                if not is_marked(text, names):
                    self._blame(
                        f"{view}: another change", f"{title} of {line['reducer']} is {line[title]}: {text[-200:]}"
                    )
                return

    def _see_figures(self, name, said):
        by_line, rows = self._groups("figures", name, said)
        if by_line is None:
            return
        lines = defaultdict(dict)
        for file in (self.folder / name / "figures").glob("*.csv"):
            for line in rows_in(file):
                key = line["dataset"], line["reducer"], int(line["r"])
                lines[key] |= {"n": int(line["count"])} if line["quantity"] == "objective" else {}
                if line["quantity"] in ("objective", "accuracy", "total_seconds", "lab_score"):
                    lines[key][line["quantity"]] = float(line["mean"] or line["median"])
        shown = []
        for (dataset, reducer, r), means in lines.items():
            title, settings = _named(dataset)
            shown.append(Shown(title, reducer, r, settings, means.pop("n", 0), means))
        self._check_all("figures", shown, by_line, least_of(rows), said.text)

    def _see_page(self, name, said):
        by_line, rows = self._groups("explorer", name, said)
        if by_line is None:
            return
        folder = self.folder / name / "report"
        page, text = (
            (folder / "index.html").read_text("utf-8"),
            "".join(page.read_text("utf-8") for page in folder.glob("*.md")),
        )
        carried = re.search(r'id="measured"[^>]*>\s*([A-Za-z0-9+/=\s]+?)\s*<', page)[1]
        content = json.loads(gzip.decompress(base64.b64decode(carried)))
        lines = defaultdict(dict)
        methods = {LABELS.get(name, name): name for name in REDUCERS}
        for number, view in enumerate(content["views"]):
            for quantity in ("objective", "objective_ratio", "accuracy", "nmi", "lab_score"):
                for curve in view["lines"].get(quantity, ()):
                    for r, n, value in zip(curve["r"], curve["n"], curve["centre"], strict=True):
                        label = view["methods"][curve["method"]]
                        key = number, methods.get(label, label), r
                        lines[key] |= {"n": n, quantity: value}
        shown = []
        for (number, reducer, r), means in lines.items():
            view = content["views"][number]
            settings = dict(re.findall(r"(\w+) = ([^,]+)", view["settings"]))
            shown.append(Shown(view["dataset"], reducer, r, settings, means.pop("n"), means))
        self._check_all("explorer", shown, by_line, least_of(rows), f"{text} {said.text}", digits=3)  # as shown

    def _see_compared(self, names, said):
        sides = [self._groups("compare", name, said) for name in names]
        if any(by_line is None for by_line, _ in sides):
            return
        best, compared = least_of([row for _, rows in sides for row in rows]), set()
        for line in csv.DictReader(io.StringIO(said.out)):
            if not line.get("reducer"):
                continue
            compared.add((line["dataset"], line["reducer"], int(line["r"])))
            matched, sides_of_line = [], []
            for side, (by_line, _) in zip("AB", sides, strict=True):
                own = {
                    key.removesuffix(f" {side}"): value
                    for key, value in line.items()
                    if not key.endswith(f" {'BA'['AB'.index(side)]}")
                }
                sides_of_line.append(own)
                if int(own["n"]):
                    matched.append(self._match("compare", _line(own), by_line, best, said.notes_on([own])))
            if len(matched) == 2 and all(matched):
                if matched[0].trial.content != matched[1].trial.content:
                    self._blame("compare: other data", f"{matched}")
                self._check_change("compare", line, *matched, (best, best), said.notes_on(sides_of_line))
        settings = [
            {
                (*key, group.trial._replace(seed=0, code=(), metric=()))
                for key, some in by_line.items()
                for group in some
            }
            for by_line, _ in sides
        ]
        for dataset, reducer, r, trial in settings[0] & settings[1]:
            if (dataset, reducer, r) not in compared and not is_marked(said.notes_on([]), [reducer]):
                self._blame("compare: rows not shown", f"{dataset}, {reducer}, r = {r}: {trial}")


def _line(line):
    """Return a line of a table in CSV."""
    settings = {
        name: line[name]
        for name in ("k", "n_init", "engine", "data_sha256", "path")
        if line.get(name) not in (None, "–")
    }
    means = {}
    for title, quantity in TABLE.items():
        if line.get(title) not in (None, "", "–"):
            means[quantity] = float(line[title])
    return Shown(line["dataset"], line["reducer"], int(line["r"]), settings, int(line["n"]), means)


def _named(dataset):
    """Return the title of a dataset that figures name with its settings, and those settings."""
    title, _, told = dataset.partition(" (")
    settings = dict(part.split("=", 1) for part in told.rstrip(")").split(", ") if "=" in part)
    return title, {
        name: str(int(value)) if value.isdecimal() else value
        for name, value in settings.items()
        if name in ("k", "n_init", "engine", "path")
    }


def rows_in(file):
    """Return the lines of a CSV file as far as they are whole."""
    if not file.exists():
        return []
    with file.open(encoding="utf-8", errors="replace", newline="") as lines:
        try:
            rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
        except csv.Error:
            return []
    return [row for row in rows if None not in row and None not in row.values()]


def row_key(row):
    """Return what tells a row from every other; its times do, even from the same trial run again."""
    return tuple((name, row.get(name)) for name in row if name not in NOT_KEPT)
