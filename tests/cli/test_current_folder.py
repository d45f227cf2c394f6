"""Nothing is imported from the current folder, neither by a command nor by its workers."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import kmdr
from kmdr.cli.jobs import run_jobs
from kmdr.harness.jobs import compose
from kmdr.results.reader import read_rows

# Modules that the interpreter, a library or a worker imports by these names.
NAMES = (
    "joblib", "numpy", "random", "signal", "types", "multiprocessing", "distributed", "dask", "scipy", "pandas",
    "numba", "conftest", "sitecustomize", "usercustomize", "pickle", "struct", "logging", "re", "hydra",
)  # fmt: skip
TINY = ("dataset=synth", "dataset.n=60", "dataset.d=10", "dataset.k=2", "r_grid=[2]", "kmeans.n_init=2", "repeats=2",
        "reducer=none,random_sign")  # fmt: skip
OWN = """
from kmdr.reducers.selection import np

class Own:
    def __init__(self, n_components):
        self.n_components = n_components

    def fit_transform(self, A):
        return np.asarray(A)[:, : self.n_components]
"""
needs_dask = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("distributed", "cryptography"))),
    reason="Dask or cryptography is not installed",
)
pytestmark = pytest.mark.slow


@pytest.fixture
def here(tmp_path):
    """Return a folder full of modules that leave a note when they are imported."""
    folder = tmp_path / "here"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'note')!r}, 'a').write({name!r} + '\\n')\n")
    script = tmp_path / "bin" / "kmdr"  # as the installed one
    script.parent.mkdir()
    script.write_text("import sys\nfrom kmdr.__main__ import main\nsys.exit(main())\n")
    return folder


def run(here, *arguments, **environment):
    python_path = environment.pop("PYTHONPATH", "")
    package = str(Path(kmdr.__file__).parents[1])
    return subprocess.run(
        [sys.executable, *map(str, arguments)], cwd=here, check=False, capture_output=True, text=True, timeout=500,
        env=os.environ | {
            "KMDR_CACHE": str(here.parent / "cache"),
            "PYTHONPATH": os.pathsep.join(filter(None, [package, python_path])), **environment,
        },
    )  # fmt: skip


def command_of(start, here):
    """Return the words that start a command, by its script or as a module."""
    if start == "script":
        return [here.parent / "bin" / "kmdr"]
    (here / "types.py").unlink()  # Python itself imports it for -m, before there is any kmdr; see SECURITY.md
    return ["-m", "kmdr"]


def executed(here):
    note = here.parent / "note"
    return note.read_text().split() if note.exists() else []


@pytest.mark.parametrize(
    ("start", "runner"),
    [
        ("script", "sequential"),
        ("script", "loky"),
        ("module", "loky"),
        pytest.param("module", "dask", marks=needs_dask),
    ],
)
def test_no_file_of_the_current_folder_is_executed_by_a_run(start, runner, here):
    command = command_of(start, here)
    jobs = () if runner == "sequential" else ("runner.n_jobs=2",)
    done = run(here, *command, "-m", *TINY, f"runner={runner}", *jobs, "out=.")
    assert (done.returncode, executed(here)) == (0, []), done.stderr
    for of_folder in (["table", "."], ["verify", ".", "ROWS=1"]) if runner == "sequential" else ():
        done = run(here, *command, *of_folder)
        assert (done.returncode, executed(here)) == (0, []), done.stderr


@pytest.mark.parametrize("start", ["script", "module"])
def test_no_file_of_the_current_folder_is_executed_by_a_report(start, here):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KMDR_CACHE", str(here.parent / "cache"))
        methods = [
            compose(*TINY[:-1], f"reducer={name}", "runner=sequential", f"out={here}") for name in ("none", "svd")
        ]
        assert run_jobs(methods) == 0
    done = run(here, *command_of(start, here), "report", ".")
    assert (done.returncode, executed(here)) == (0, []), done.stderr


def test_ones_own_module_is_found_in_pythonpath_which_the_error_names(here):
    (here / "types.py").unlink()
    (here / "own_method.py").write_text(OWN)
    settings = ("-m", "kmdr", *TINY[:-1], "reducer=outside", "reducer.path=own_method.Own", "out=o", "runner.n_jobs=2")
    done = run(here, *settings)
    assert done.returncode == 2
    assert "'own_method' lies in the current folder, which PYTHONPATH=. names" in done.stderr
    assert "`PYTHONPATH=.`" in (Path(__file__).parents[2] / "docs" / "howto" / "own-method.md").read_text("utf-8")
    for path in here.glob("*.py"):
        if path.stem in NAMES:
            path.unlink()
    done = run(here, *settings, PYTHONPATH=".")
    assert done.returncode == 0, done.stderr


def test_workers_of_a_program_execute_no_file_of_the_current_folder_and_find_the_programs_own_modules(here):
    program = here.parent / "program"
    program.mkdir()
    (program / "own_method.py").write_text(OWN)
    (program / "script.py").write_text(
        "import os\n"
        "from kmdr.harness.jobs import compose\nfrom kmdr.cli.jobs import run_jobs\n"
        "if __name__ == '__main__':\n"
        f"    settings = {TINY[:-1]!r}\n"
        "    job = compose(*settings, 'reducer=outside', 'reducer.path=own_method.Own', 'out=o', 'runner.n_jobs=2')\n"
        "    status = run_jobs([job])\n"
        "    print('STATUS', status, os.environ.get('PYTHONSAFEPATH'))\n"
    )
    done = run(here, program / "script.py")
    assert (executed(here), "STATUS 0 None" in done.stdout) == ([], True), done.stderr


def test_a_command_by_another_name_is_a_command_too(here):
    """Started through a link, it takes no configuration of numba from the current folder either."""
    script = here.parent / "bin" / "kmdr"
    script.write_text("import os\nfrom kmdr.__main__ import main\ntry:\n    main()\nfinally:\n"
                      "    print(os.environ.get('PYTHONSAFEPATH'), os.environ.get('NUMBA_CACHE_DIR'))\n")  # fmt: skip
    link = here.parent / "bin" / "reduce"
    link.symlink_to(script)
    (here / ".numba_config.yaml").write_text("cache_dir: evil")
    done = run(here, link, "list", "papers")
    assert done.stdout.splitlines()[-1] == f"1 {here.parent / 'cache' / 'numba'}", done.stderr


def test_a_checkout_runs_without_being_installed_elsewhere(here):
    source = Path(kmdr.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "kmdr", "version"], cwd=source, check=False, capture_output=True, text=True
    )
    assert done.stdout == f"kmdr {kmdr.__version__}\n", done.stderr


MOVES = f"""
import os
{{at_import}}
from kmdr.reducers.base import Reducer, register
{OWN}
class Moves(Own):
    def fit_transform(self, A):
        os.chdir({{folder!r}})
        return super().fit_transform(A)

@register("moves")
class Named(Reducer):
    def draw(self, A, r, rng, state):
        return r

    def apply(self, A, r):
        return np.ascontiguousarray(A[:, :r])
"""


@pytest.mark.parametrize(
    ("reducer", "runner", "at_import"),
    [
        ("moves_away.Moves", "sequential", False),
        ("moves_away.Own", "loky", True),
        ("moves_away.Own", "sequential", True),
        ("moves", "loky", True),
    ],
)
def test_a_method_that_changes_the_folder_does_not_move_the_results(reducer, runner, at_import, tmp_path):
    for name in ("here", "away", "plugin/reducers"):
        (tmp_path / name).mkdir(parents=True)
    away = str(tmp_path / "away")
    text = MOVES.format(at_import=f"os.chdir({away!r})" if at_import else "", folder=away)
    (tmp_path / "plugin" / "reducers" / "moves_away.py").write_text(text)
    names = {"PYTHONPATH": str(tmp_path / "plugin" / "reducers")}
    if reducer == "moves":
        names = {"KMDR_PATH": str(tmp_path / "plugin")}
    done = run(
        tmp_path / "here", "-m", "kmdr", *TINY[:-1], f"reducer={reducer}", f"runner={runner}", "out=results", **names
    )
    assert done.returncode == 0, done.stderr
    assert len(read_rows(tmp_path / "here" / "results" / "rows.csv")) == 2
    assert not any((tmp_path / "away").iterdir())
