"""No command imports what a folder of results names; ``kmdr verify`` does only what its command line names."""

import ast
import csv
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import kmdr
from forked import programs
from kmdr import reducers
from kmdr.base import outside
from kmdr.base.errors import UserError
from kmdr.base.text import canonical, short_hash
from kmdr.cli.commands import COMMANDS
from kmdr.cli.jobs import run_jobs
from kmdr.clustering import engines
from kmdr.clustering.kmeans import Protocol
from kmdr.harness.jobs import compose
from kmdr.harness.verify import check_trust, third_party, verify_sample
from kmdr.results.checksums import with_checksum
from kmdr.results.manifests import described
from kmdr.results.paths import labels_file, place
from kmdr.results.reader import read_rows
from kmdr.results.schema import COLUMNS
from kmdr.results.store import Store
from kmdr.results.text_rows import csv_content

EVIL = "evil_package.evil.Mod"
TINY = ("dataset=synth", "dataset.n=60", "dataset.d=10", "dataset.k=2", "r_grid=[2]", "kmeans.n_init=2", "repeats=2")
# Both a reducer and an engine, and a module that leaves a note whenever it is imported.
CODE = """
import os
import numpy as np
with open(os.environ["EVIL_NOTE"], "a") as file:
    file.write("imported\\n")

class Mod:
    def __init__(self, n_components=None, n_clusters=None, random_state=None):
        self.n_components, self.n_clusters = n_components, n_clusters

    def fit_transform(self, A):
        return np.asarray(A)[:, : self.n_components]

    def fit_predict(self, C):
        return np.arange(len(C)) % self.n_clusters
"""
TEXTS = ("study", "dataset", "reducer", "engine", "start", "matching", "stand_in", "guests")
# Commands on a folder, and a run into it; in one process, whose workers are forks of it. No study of a paper is run.
PROGRAM = """
import os
import sys
import kmdr.multiverse.design
import kmdr.reporting.reproduce
from kmdr.cli.commands import main

seen, statuses = [], []
sys.addaudithook(lambda event, given: seen.append(given[0]) if event == "import" and "evil" in str(given[0]) else None)
kmdr.multiverse.design.run_multiverses = kmdr.reporting.reproduce.run_jobs = lambda *_, **__: 0
folder = sys.argv[1]
for arguments in (
    ["table", folder], ["table", folder, "FORMAT=csv"], ["compare", folder, folder], ["figures", folder],
    ["report", folder], ["check", folder], ["merge", folder, "-o", f"{folder}-merged"],
    ["export", folder, "--crate", f"{folder}.zip"], ["verify", folder, "ROWS=100"],
    ["submit", folder, "NAME=evil", f"OUT={folder}-submitted"], ["accept", f"{folder}-submitted/evil", "ROWS=100"],
    [*sys.argv[2:], "reducer=none", f"out={folder}"], [*sys.argv[2:], "reducer=none", "refresh=true", f"out={folder}"],
    ["check", folder, "--repair"], ["reference", f"OUT={folder}"],
):
    sys.argv[1:] = arguments
    try:
        main()
    except SystemExit as stop:
        statuses.append((arguments[0].partition("=")[0], stop.code))
print("STATUSES", statuses)
print("AUDITED", seen)
os.environ["EVIL_NOTE"] = os.devnull
import evil_package.evil
print("HEARD", sorted(seen))
"""


def forget():
    """Be as a process in which nobody named the class, which was never imported."""
    outside._allowed.discard(EVIL)
    outside._imported.cache_clear()
    for name in [name for name in sys.modules if name.startswith("evil_package")]:
        del sys.modules[name]


@pytest.fixture
def evil(tmp_path, monkeypatch):
    """Put the package where it can be imported; return the file in which it says that it was."""
    package = tmp_path / "site" / "evil_package"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "evil.py").write_text(CODE)
    note = tmp_path / "note"
    monkeypatch.setenv("EVIL_NOTE", str(note))
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(package.parent), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.syspath_prepend(package.parent)
    forget()
    yield note
    forget()


@pytest.fixture
def folder(evil, tmp_path):
    out = tmp_path / "results"
    methods = [compose(*TINY, f"reducer={name}", "runner=sequential", f"out={out}") for name in ("none", "random_sign")]
    assert run_jobs(methods) == 0
    return out


def forge(folder, columns, settings, without=()):
    """Let the rows of random_sign, and the configurations that they name, say something else."""
    rows, store = read_rows(folder / "rows.csv"), Store(folder)
    for row in rows:
        if row["reducer"] != "random_sign":
            continue
        config = dict(described(folder, "configs", row["config_hash"]))
        for name, value in settings.items():
            if name in ("reducer", "dataset", "matching"):
                config[name] = value
            else:
                config["kmeans"] = {**config["kmeans"], name: value}
        store.add_configs([config])
        for name, value in {**columns, "config_hash": short_hash(config)}.items():
            row[name] = value
    shutil.rmtree(folder / "tasks")
    rows = [row for row in rows if row["reducer"] not in without]
    with (folder / "rows.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)


FORGERIES = {
    "a reducer": ({"reducer": EVIL}, {"reducer": EVIL}),
    "an engine": ({"engine": EVIL, "kmeans": '{"args":"{}"}'}, {"engine": EVIL, "args": "{}"}),
    "only the configuration": ({}, {"reducer": EVIL, "engine": EVIL}),
    "every text": (
        dict.fromkeys(TEXTS, EVIL)
        | {name: canonical({"_target_": EVIL, "name": EVIL}) for name in ("params", "options", "kmeans", "metrics")},
        {"reducer": EVIL, "engine": EVIL, "dataset": EVIL, "matching": EVIL},
    ),
}
# Their columns and their configurations say the same, so that no command refuses the rows before it could import.
CONSISTENT = ("a reducer", "an engine")


@pytest.mark.slow
@pytest.mark.parametrize("forgery", FORGERIES)
def test_no_command_imports_what_a_folder_names(forgery, folder, evil, tmp_path):
    forge(folder, *FORGERIES[forgery])
    done = subprocess.run(
        [programs() / "python", "-c", PROGRAM, str(folder), *TINY, "runner.n_jobs=2"],
        check=False, capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert "AUDITED []" in done.stdout, (done.stdout[-2000:], done.stderr[-2000:])
    assert "HEARD ['evil_package" in done.stdout
    statuses = ast.literal_eval(re.search(r"STATUSES (.*)", done.stdout)[1])
    assert len(statuses) == 15
    assert {status for _, status in statuses} <= ({0} if forgery in CONSISTENT else {0, 1, 2}), (statuses, done.stderr)
    assert not re.search(r"no option of|are required|unrecognized|stopped by", done.stderr), done.stderr
    assert not evil.exists()


METRIC = """
from kmdr.metrics import metric

@metric("largest", "largest cluster", 0.0, 1.0, "higher")
def largest(A, labels, truth):
    return max((labels == c).mean() for c in set(labels.tolist()))
"""


@pytest.mark.parametrize("role", ["reducer", "engine"])
def test_rows_of_a_class_that_only_the_folder_names_get_new_metrics_without_it(
    role, evil, tmp_path, monkeypatch, capsys
):
    out = tmp_path / "results"
    assert run_jobs([compose(*TINY, "reducer=random_sign", "keep_labels=true", "runner=sequential", f"out={out}")]) == 0
    labels = sorted((out / "labels").rglob("*.npz"))
    forge(out, *FORGERIES[f"a{'n' * (role == 'engine')} {role}"])
    for row, file in zip(read_rows(out / "rows.csv"), labels, strict=True):
        path = out / f"{place(row)}-{file.stem.partition('-')[2]}.csv"
        for new in (path, labels_file(out, path)):
            new.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(with_checksum(csv_content([row], path)))
        file.rename(labels_file(out, path))
    (tmp_path / "lab" / "metrics").mkdir(parents=True)
    (tmp_path / "lab" / "metrics" / "largest.py").write_text(METRIC)
    monkeypatch.setenv("KMDR_PATH", str(tmp_path / "lab"))
    assert COMMANDS["metrics"]([str(out)]) == 0
    assert "2 rows have new metrics" in capsys.readouterr().out
    assert {row[role] for row in read_rows(out / "rows.csv")} == {EVIL}
    assert not evil.exists()


def test_a_class_that_only_a_folder_names_is_not_imported_by_anything_that_makes_or_describes_it(evil):
    for use in (
        lambda: reducers.make_allowed(EVIL),
        lambda: engines.check_allowed(Protocol(1, 1, engine=EVIL)),
        lambda: engines.cluster_allowed(None, 2, None, None, Protocol(1, 1, engine=EVIL)),
    ):
        with pytest.raises(UserError, match="is third-party code that this command did not name"):
            use()
    for describe in (reducers.origin_of_reducer, engines.origin_of_engine):
        with suppress(UserError):
            describe(EVIL)
    assert not evil.exists()
    outside.allow(EVIL)
    assert reducers.make_allowed(EVIL).name == EVIL
    assert evil.exists()


@pytest.mark.parametrize("use", ["reducer", "engine check", "engine"])
def test_a_path_in_a_call_of_the_library_is_named_by_its_user(use, evil):
    """In a process where nothing else named the class: no ``kmdr.base.outside.allow`` is needed."""
    protocol, starts = Protocol(1, 1, engine=EVIL), np.array([[0, 1]])
    if use == "reducer":
        assert reducers.make(EVIL).reduce(np.eye(4), 2, np.random.default_rng(0), None).shape == (4, 2)
    elif use == "engine check":
        engines.check(protocol)
    else:
        clusters = engines.cluster(np.eye(4), 2, starts, np.random.default_rng(0), protocol)
        assert clusters.labels.tolist() == [0, 1, 0, 1]
    assert evil.exists()


def test_kmdr_itself_never_takes_a_name_for_its_users():
    """What allows a path is called only where the path is the user's: commands, the public API, workers of a driver."""
    allowing = {"make", "check", "cluster", "allow"}
    callers = set()
    for file in Path(kmdr.__file__).parent.rglob("*.py"):
        module = file.relative_to(Path(kmdr.__file__).parent).as_posix()
        if module.startswith(("cli/skeletons/", "_share/")):
            continue
        tree = ast.parse(file.read_text("utf-8"))
        names = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            and node.module in ("kmdr.base.outside", "kmdr.reducers", "kmdr.clustering.engines")
            for alias in node.names
        }
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            of = node.func
            if isinstance(of, ast.Attribute) and isinstance(of.value, ast.Name):
                if of.value.id in ("reducers", "engines", "outside") and of.attr in allowing:
                    callers.add((module, of.attr))
            elif isinstance(of, ast.Name) and of.id in names & allowing:
                callers.add((module, of.id))
    assert callers == {
        ("reducers/__init__.py", "allow"),
        ("clustering/engines.py", "allow"), ("harness/experiment.py", "allow"), ("harness/verify.py", "allow"),
        ("harness/imports.py", "allow"),  # of the settings of a command, before the experiments made from these
        ("harness/engines/contract.py", "allow"), ("harness/compiled.py", "allow"),
        ("atlas/run.py", "make"),  # of `kmdr atlas METHOD=NAME`
    }  # fmt: skip


@pytest.mark.parametrize("role", ["reducer", "kmeans.engine"])
def test_verify_reruns_third_party_code_only_if_the_command_names_it(role, folder, evil, tmp_path, capsys):
    setting = f"{role}={EVIL}"
    own = ("reducer=outside", f"reducer.path={EVIL}") if role == "reducer" else ("reducer=svd", f"kmeans.engine={EVIL}")
    assert run_jobs([compose(*TINY, *own, "runner=sequential", f"out={folder}")]) == 0
    evil.unlink()
    forget()
    capsys.readouterr()

    assert COMMANDS["verify"]([str(folder), "ROWS=100"]) == 0
    said = capsys.readouterr()
    assert not evil.exists()
    assert said.out.count(f"not verified: custom: {'svd' if role != 'reducer' else EVIL}") == 2
    assert said.out.count(f"third-party code: {setting}; --trust {setting} runs it") == 2
    assert "2 of 6 rows were not verified: third-party code" in said.err
    assert "all     4      0                 0             0          0        2" in said.out

    other = "kmeans.engine" if role == "reducer" else "reducer"
    assert COMMANDS["verify"]([str(folder), "ROWS=100", f"--trust={other}={EVIL}"]) == 0
    assert "2 of 6 rows were not verified" in capsys.readouterr().err
    assert not evil.exists()

    assert COMMANDS["verify"]([str(folder), "ROWS=100", "--trust", setting, "--trust", f"{other}={EVIL}"]) == 0
    assert "all     6      0" in capsys.readouterr().out
    assert evil.exists()


def test_rows_that_are_all_third_party_code_are_no_success(folder, evil, capsys):
    forge(folder, {"reducer": EVIL}, {"reducer": EVIL}, without=["none"])
    assert verify_sample(folder, 10, 0) == 1
    assert "no row could be compared" in capsys.readouterr().err
    assert not evil.exists()


def test_a_plugin_that_is_not_here_is_third_party_code():
    config = {"reducer": "of_a_plugin", "kmeans": {"n_init": 1, "engine": "kmdr"}}
    assert third_party(config) == ["reducer=of_a_plugin"]
    assert third_party({"reducer": "leverage", "kmeans": json.loads('{"n_init": 1}')}) == []


@pytest.mark.parametrize(
    "setting", ["", EVIL, "reducer=", "reducer=svd", "dataset=a.b", "reducer=a.b;c", "reducer=.a.b"]
)
def test_trust_names_a_setting_and_an_import_path(setting):
    with pytest.raises(UserError, match="does not name third-party code; write"):
        check_trust(setting)


@pytest.mark.parametrize("arguments", [["--trust"], ["--trust="]])
def test_trust_without_a_value_is_refused(arguments):
    with pytest.raises(UserError, match=r"expected one argument|does not name third-party code"):
        COMMANDS["verify"](arguments)
