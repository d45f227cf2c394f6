"""The examples of CONTRIBUTING.md work as they stand, and touch the files that they say and no others."""

import csv
import os
import re
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_wine

PROJECT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```\w+ (\S+/\S+?)( \(append\))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TESTS = ("pytest", "-m", "not long", "--numprocesses", "auto", "--dist", "worksteal")


def examples():
    text = (PROJECT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return [(path, bool(append), code) for path, append, code in BLOCK.findall(text)]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of the project, with what is compiled already, and the examples typed in."""
    root = tmp_path_factory.mktemp("copy") / "project"
    patterns = shutil.ignore_patterns(".git", ".venv", ".*_cache", "cache")

    def left_out(folder, names):  # runs and built documentation are in `results`, but no part of the project
        made = set(names) - {"reference", "README.md"} if Path(folder) == PROJECT / "results" else set()
        return made | patterns(folder, names)

    shutil.copytree(PROJECT, root, ignore=left_out)
    for path, append, code in examples():
        assert (root / path).exists() == append, f"{path}: a new file is new, an old one is appended to"
        with (root / path).open("a", encoding="utf-8") as file:
            file.write("\n\n" * append + code)
    return root


def kmdr(root, *arguments):
    data = str(files("sklearn.datasets") / "data")
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "KMDR_DATA": data, "KMDR_CACHE": str(root / "cache")}
    command = [sys.executable, "-m", "kmdr", *arguments]
    done = subprocess.run(command, check=False, env=environment, cwd=root, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(root, out):
    with (root / out / "rows.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_reducer_is_one_python_file_and_one_yaml():
    touched = [path for path, _, _ in examples() if "loaders" not in path and "registry" not in path]
    assert touched == ["src/kmdr/reducers/uniform.py", "conf/reducer/uniform.yaml"]


@pytest.mark.slow
def test_the_new_reducer_runs_beside_the_others_from_the_same_starts(project):
    tiny = ["dataset.n=80", "dataset.d=40", "r_grid=[5,40]", "repeats=2", "runner.n_jobs=1", "out=o"]
    kmdr(project, "-m", "reducer=uniform,leverage,none", *tiny)
    trials = rows(project, "o")
    assert {(row["reducer"], row["status"]) for row in trials} == {(n, "ok") for n in ("uniform", "leverage", "none")}
    assert "uniform" in kmdr(project, "list", "reducers")
    kmdr(project, "figures", "o")
    assert "uniform" in (project / "o" / "figures" / "custom.csv").read_text()


@pytest.mark.slow
def test_the_new_reducer_keeps_its_law(project):
    script = (
        "import numpy as np; from kmdr.reducers import make\n"
        "A = np.arange(12.0).reshape(2, 6); rng = np.random.default_rng(0); u = make('uniform')\n"
        "C = [u.reduce(A, 3, rng, None) for _ in range(20000)]\n"
        "print(repr(np.mean([c @ c.T for c in C], axis=0).tolist()))"
    )
    environment = {**os.environ, "PYTHONPATH": str(project / "src")}
    out = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    A = np.arange(12.0).reshape(2, 6)
    # 60000 draws: six standard errors of the largest entry are below 4 % of it.
    assert np.allclose(eval(out.stdout), A @ A.T, rtol=0.04)


@pytest.mark.slow
def test_the_new_dataset_loads_and_runs(project):
    assert re.search(r"wine\s+178 x 13, k = 3\s+available", kmdr(project, "list", "datasets"))
    kmdr(project, "dataset=wine", "reducer=none", "repeats=4", "runner.n_jobs=1", "out=d")
    trials = rows(project, "d")
    assert {(row["n"], row["d"], row["k"]) for row in trials} == {("178", "13", "3")}
    X = load_wine().data
    reference = KMeans(3, init="random", n_init=20, random_state=0).fit(X).inertia_ / np.sum(X**2)
    assert min(float(row["objective"]) for row in trials) == pytest.approx(reference, rel=5e-3)


@pytest.mark.long
def test_the_tests_of_all_that_there_is_pass_with_the_examples(project):
    """Nothing but the typed files and the table of datasets that a command renews is changed."""
    environment = {**os.environ, "PYTHONPATH": "src", "KMDR_CACHE": str(project / "cache"), "KMDR_DATA": ""}

    def run(*arguments):
        command = [sys.executable, "-m", *arguments]
        done = subprocess.run(command, cwd=project, env=environment, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]

    run("kmdr.datasets.readme")
    run("ruff", "check", ".")
    run("ruff", "format", "--check", ".")
    run("mypy")
    # This file cannot type them in a second time.
    run(*TESTS, "--ignore", "tests/project/test_contributing.py")
