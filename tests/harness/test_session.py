"""Calls of kmdr in one process have the rows and the provenance of a new process, whatever changed between them."""

import importlib
import linecache
import os
import shutil
import subprocess
import sys
from textwrap import dedent

import numpy as np
import pytest

import kmdr
from kmdr.base.errors import ArgumentError, UserError
from kmdr.config.compose import compose_configs
from kmdr.config.task import code_of
from kmdr.datasets.acquire import find

A = np.random.default_rng(0).standard_normal((40, 8))
COLUMNS = ["objective", "code_hash", "guests", "status"]
REDUCER = """
    import numpy as np
    from kmdr.reducers.base import Reducer, register

    FIRST = {first}

    @register("session_columns")
    class Columns(Reducer):
        \"\"\"Some columns.\"\"\"

        def draw(self, A, r, rng, state):
            return np.arange(FIRST, FIRST + r)

        def apply(self, A, drawn):
            return np.asarray(A[:, drawn])
    """
TRANSFORMER = """
    from sklearn.base import BaseEstimator

    FIRST = {first}

    class Columns(BaseEstimator):
        def __init__(self, n_components=2):
            self.n_components = n_components

        def fit(self, X, y=None):
            return self

        def transform(self, X):
            return X[:, FIRST : FIRST + self.n_components]
    """


def write(file, text, first):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(dedent(text).format(first=first))
    return file


def rows(reducer, **settings):
    comparison = kmdr.compare(A, [reducer], k=3, r_grid=[2], repeats=1, progress=False, **settings)
    return comparison.rows[COLUMNS].to_dict("records")


def rows_of_new_process(reducer, **variables):
    """Return what `rows` does, from a process that knows nothing of this one."""
    script = (
        "import numpy as np, kmdr; A = np.random.default_rng(0).standard_normal((40, 8)); "
        f"print(kmdr.compare(A, [{reducer!r}], k=3, r_grid=[2], repeats=1, progress=False).rows[{COLUMNS}]"
        ".to_dict('records'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | variables, capture_output=True, text=True, check=True
    )
    return eval(done.stdout)


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Return the file of a module outside of kmdr, which Python compiles to a file; it is forgotten at the end."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    name = f"session_{tmp_path.name}".replace("-", "_")
    yield write(tmp_path / f"{name}.py", TRANSFORMER, 0)
    sys.modules.pop(name, None)


def test_a_plugin_with_a_reducer_of_the_same_name_has_its_own_code_hash(tmp_path, monkeypatch):
    """Rows had the code hash of the plugin that had a reducer of this name first."""
    for first in (4, 1):
        write(tmp_path / str(first) / "reducers/columns.py", REDUCER, first)
        monkeypatch.setenv("KMDR_PATH", str(tmp_path / str(first)))
        known = rows("session_columns")
    assert known == rows_of_new_process("session_columns")


def test_a_reducer_that_was_unknown_at_first_has_a_code_hash(tmp_path, monkeypatch):
    assert code_of("session_columns", "synth") == ""
    write(tmp_path / "reducers/columns.py", REDUCER, 1)
    monkeypatch.setenv("KMDR_PATH", str(tmp_path))
    assert len(code_of("session_columns", "synth")) == 12


@pytest.mark.parametrize("before", ["svd", "session_columns"])
@pytest.mark.parametrize("change", ["edited", "replaced", "removed"])
def test_old_code_of_a_plugin_never_runs_under_the_name_of_the_new(before, change, tmp_path, monkeypatch):
    """With another reducer first, the hash was that of the new file, and the code that ran was the old one."""
    folder = tmp_path / "plugin"
    file = write(folder / "reducers/columns.py", REDUCER, 4)
    monkeypatch.setenv("KMDR_PATH", str(folder))
    rows(before)
    if change == "replaced":
        shutil.rmtree(folder)
    if change == "removed":
        file.unlink()
    else:
        write(file, REDUCER, 1)
    with pytest.raises(ArgumentError, match=r"was changed after this process imported it.*restart"):
        rows("session_columns")
    with pytest.raises(UserError, match=r"columns\.py was changed"):
        kmdr.run("bmd09_table1", tmp_path / "out")
    if change != "removed":
        importlib.invalidate_caches()
        shutil.rmtree(file.parent / "__pycache__", ignore_errors=True)
        for name in [name for name in sys.modules if name.endswith(".reducers.columns")]:
            if str(sys.modules[name].__file__) == str(file):
                importlib.reload(sys.modules[name])
        assert rows("session_columns") == rows_of_new_process("session_columns")


def test_files_that_a_plugin_gains_are_read(tmp_path, monkeypatch):
    """A new module was not loaded, and the origin in the rows was that of the files before."""
    write(tmp_path / "reducers/columns.py", REDUCER, 4)
    monkeypatch.setenv("KMDR_PATH", str(tmp_path))
    rows("session_columns")
    write(tmp_path / "reducers/more.py", REDUCER.replace("session_columns", "session_more"), 1)
    write(tmp_path / "conf/reducer/preset.yaml", "name: session_more", 0)
    assert rows("session_more") == rows_of_new_process("session_more")


def test_a_module_that_was_edited_after_its_import_is_refused_until_it_is_reloaded(module):
    """Rows had the hash of the file, and the code that ran was what had been imported."""
    name = module.stem
    imported = importlib.import_module(name)
    write(module, TRANSFORMER, 5)
    with pytest.raises(ArgumentError, match="was changed after this process imported it"):
        rows(imported.Columns)
    with pytest.raises(ArgumentError, match="was changed after this process imported it"):
        rows(f"{name}.Columns")
    shutil.rmtree(module.parent / "__pycache__")
    importlib.reload(imported)
    expected = rows_of_new_process(f"{name}.Columns", PYTHONPATH=os.pathsep.join(sys.path))
    assert rows(imported.Columns) == rows(f"{name}.Columns") == expected


def test_a_module_reloaded_between_calls_has_its_new_hash(module):
    """A reloaded class was refused, as one that cannot be imported by its name."""
    imported = importlib.import_module(module.stem)
    before = rows(imported.Columns)
    write(module, TRANSFORMER, 5)
    shutil.rmtree(module.parent / "__pycache__")
    importlib.reload(imported)
    after = rows(imported.Columns)
    assert after == rows_of_new_process(f"{module.stem}.Columns", PYTHONPATH=os.pathsep.join(sys.path))
    assert after[0]["guests"] != before[0]["guests"]


def test_a_module_without_changes_is_accepted_whenever_its_file_was_touched(module):
    imported = importlib.import_module(module.stem)
    before = rows(imported.Columns)
    os.utime(module, (1, 1))
    assert rows(imported.Columns) == before


def test_a_class_that_a_notebook_defines_again_runs_with_its_new_code(monkeypatch):
    """The second definition was refused, as if the class could not be imported by its name."""
    namespace = type(sys)("session_notebook")
    monkeypatch.setitem(sys.modules, "session_notebook", namespace)
    found = []
    for first in (0, 5):
        text, cell = dedent(TRANSFORMER).format(first=0).replace("X[:, FIRST : FIRST", f"X[:, {first} : {first}"), ""
        cell = f"<cell {first}>"
        linecache.cache[cell] = len(text), None, text.splitlines(keepends=True), cell
        exec(compile(text, cell, "exec"), vars(namespace))
        found += [rows(namespace.Columns), rows("session_notebook.Columns")]
    assert found[0] == found[1] != found[2] == found[3]
    assert found[0][0]["guests"] != found[2][0]["guests"]
    assert len(found[0][0]["guests"].split()) == 2


def test_a_configuration_of_the_same_time_and_size_is_read_again(tmp_path, monkeypatch):
    """The time of modification alone does not show that another file took the place of this one."""
    monkeypatch.setenv("KMDR_PATH", str(tmp_path))
    found = []
    for epsilon in (0.25, 0.5):
        file = tmp_path / "conf/reducer/session_preset.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"name: svd\nrank: {'k' if epsilon == 0.25 else 'r'}\n")
        os.utime(file, (1, 1))
        found.append(compose_configs("reducer=session_preset")[0]["reducer"]["rank"])
    assert found == ["k", "r"]


def test_a_host_that_did_not_answer_is_asked_again_by_the_next_call(monkeypatch):
    monkeypatch.setattr(find, "_silent", {"example.org": "no answer"})
    with pytest.raises(UserError):
        kmdr.load("no such dataset")
    assert not find._silent
