"""Calls of kmdr in one process have the rows and the provenance of a new process, whatever changed between them."""

import importlib
import linecache
import os
import py_compile
import shutil
import subprocess
import sys
import sysconfig
import warnings
import zipfile
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

import kmdr
from kmdr.base.errors import UserError
from kmdr.base.plugins import Registry
from kmdr.config.compose import compose_configs
from kmdr.config.task import code_of
from kmdr.datasets.acquire import find
from kmdr.reducers.base import REGISTRY

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


@pytest.mark.slow
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


@pytest.mark.slow
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
    what = "removed or renamed" if change == "removed" else "changed"
    with pytest.raises(UserError, match=f"was {what} after this process imported it.*restart"):
        rows("session_columns")
    with pytest.raises(UserError, match=rf"columns\.py was {what}"):
        kmdr.run("bmd09_table1", tmp_path / "out")
    if change != "removed":
        importlib.invalidate_caches()
        shutil.rmtree(file.parent / "__pycache__", ignore_errors=True)
        for name in [name for name in sys.modules if name.endswith(".reducers.columns")]:
            if str(sys.modules[name].__file__) == str(file):
                importlib.reload(sys.modules[name])
        assert rows("session_columns") == rows_of_new_process("session_columns")


@pytest.mark.slow
def test_files_that_a_plugin_gains_are_read(tmp_path, monkeypatch):
    """A new module was not loaded, and the origin in the rows was that of the files before."""
    write(tmp_path / "reducers/columns.py", REDUCER, 4)
    monkeypatch.setenv("KMDR_PATH", str(tmp_path))
    rows("session_columns")
    write(tmp_path / "reducers/more.py", REDUCER.replace("session_columns", "session_more"), 1)
    write(tmp_path / "conf/reducer/preset.yaml", "name: session_more", 0)
    assert rows("session_more") == rows_of_new_process("session_more")


@pytest.mark.slow
def test_a_module_that_was_edited_after_its_import_is_refused_until_it_is_reloaded(module):
    """Rows had the hash of the file, and the code that ran was what had been imported."""
    name = module.stem
    imported = importlib.import_module(name)
    write(module, TRANSFORMER, 5)
    with pytest.raises(UserError, match="was changed after this process imported it"):
        rows(imported.Columns)
    with pytest.raises(UserError, match="was changed after this process imported it"):
        rows(f"{name}.Columns")
    shutil.rmtree(module.parent / "__pycache__")
    importlib.reload(imported)
    expected = rows_of_new_process(f"{name}.Columns", PYTHONPATH=os.pathsep.join(sys.path))
    assert rows(imported.Columns) == rows(f"{name}.Columns") == expected


@pytest.mark.slow
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


def reloaded(module):
    shutil.rmtree(module.parent / "__pycache__", ignore_errors=True)
    importlib.invalidate_caches()
    return importlib.reload(sys.modules[module.stem])


@pytest.mark.slow
@pytest.mark.parametrize("order", ["as told", "the other way round"])
def test_a_module_is_refused_until_it_is_loaded_after_what_it_imports(order, module, tmp_path):
    """After the helper alone was reloaded, the old number in the class ran under the hash of the new helper."""
    helper = write(tmp_path / f"{module.stem}_helper.py", "FIRST = {first}", 0)
    write(module, TRANSFORMER.replace("FIRST = {first}", f"from {helper.stem} import FIRST"), 0)
    path = f"{module.stem}.Columns"
    rows(path)
    write(helper, "FIRST = {first}", 5)
    files = [helper, module]
    if order != "as told":
        reloaded(module)  # which imports the old number again
    for file in files:
        with pytest.raises(UserError, match=f"{file} .*was changed after this process imported it"):
            rows(path)
        reloaded(file)
    assert rows(path) == rows_of_new_process(path, PYTHONPATH=os.pathsep.join(sys.path))
    sys.modules.pop(helper.stem)


@pytest.mark.slow
def test_a_module_that_was_missing_at_first_has_the_hash_of_its_code(module):
    """What was missing once was taken for code without source for the rest of the process."""
    text = module.read_text()
    module.unlink()
    path = f"{module.stem}.Columns"
    with pytest.raises(UserError, match="cannot be imported"):
        rows(path)
    found = []
    for first in (0, 5):
        write(module, text.replace("FIRST = 0", "FIRST = {first}"), first)
        if first:
            reloaded(module)
        found += rows(path)
    assert found[0]["guests"] != found[1]["guests"]
    assert found[1:] == rows_of_new_process(path, PYTHONPATH=os.pathsep.join(sys.path))


@pytest.fixture
def registry(monkeypatch):
    """A registry of reducers that is as before at the end."""
    monkeypatch.setattr(REGISTRY, "_made", dict(REGISTRY._made))
    yield
    Registry._known.cache_clear()


@pytest.mark.usefixtures("registry")
def test_a_reducer_registered_by_an_imported_module_is_checked(module):
    """Only modules of plugins and import paths were, and the name of a registered reducer is neither."""
    name = f"{module.stem}_columns"
    write(module, REDUCER.replace("session_columns", name), 4)
    importlib.import_module(module.stem)
    rows(name)
    write(module, REDUCER.replace("session_columns", name), 1)
    with pytest.raises(UserError, match="was changed after this process imported it"):
        rows(name)


def test_data_are_not_loaded_by_the_old_code_of_a_plugin(tmp_path, monkeypatch):
    file = write(tmp_path / "reducers/columns.py", REDUCER, 4)
    monkeypatch.setenv("KMDR_PATH", str(tmp_path))
    kmdr.load("digits")
    rows("session_columns")
    write(file, REDUCER, 1)
    with pytest.raises(UserError, match="was changed after this process imported it"):
        kmdr.load("digits")


def test_the_refusal_names_the_file_whatever_its_name(module, tmp_path):
    file = write(tmp_path / f"{module.stem}_kmeans.py", TRANSFORMER, 0)
    imported = importlib.import_module(file.stem)
    rows(imported.Columns)
    write(file, TRANSFORMER, 5)
    with pytest.raises(UserError, match=f"{file} was changed.*modules.'{file.stem}'"):
        rows(imported.Columns)
    sys.modules.pop(file.stem)


def test_a_class_from_before_a_reload_is_refused_as_such(module):
    imported = importlib.import_module(module.stem)
    old = imported.Columns
    rows(old)
    write(module, TRANSFORMER, 5)
    reloaded(module)
    with pytest.raises(UserError, match="was defined again after this class was; give the new class"):
        rows(old)


@pytest.mark.parametrize("text", ["a stale file that cannot be replaced", "a docstring with a warning"])
def test_a_module_that_was_not_edited_is_accepted(text, module, monkeypatch):
    if text.startswith("a stale"):
        importlib.import_module(module.stem)
        sys.modules.pop(module.stem)
        write(module, TRANSFORMER, 5)
        monkeypatch.setattr(os, "access", lambda *_: False)
    else:
        module.write_text(module.read_text() + '\nTEXT = "\\d"\n')
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module(module.stem)
        warnings.simplefilter("error", SyntaxWarning)
        warnings.simplefilter("error", DeprecationWarning)
        os.utime(module, (1, 1))
        assert rows(f"{module.stem}.Columns")[0]["status"] == "ok"


@pytest.mark.parametrize(
    "bodies",
    [
        ("scale = 1", "scale = 9"),
        ("@staticmethod\n    def f(): return 1", "@staticmethod\n    def f(): return 9"),
        ("f = lambda self: 1", "f = lambda self: 9"),
        ("@property\n    def f(self): return [1]", "@property\n    def f(self): return [9]"),
    ],
)
@pytest.mark.parametrize("has_source", [True, False])
def test_a_notebook_class_has_another_hash_if_its_body_is_another(bodies, has_source, monkeypatch):
    namespace = type(sys)("session_notebook_bodies")
    monkeypatch.setitem(sys.modules, "session_notebook_bodies", namespace)
    text = "from sklearn.base import BaseEstimator\nclass C(BaseEstimator):\n    {}\n"
    text += "    def __init__(self, n_components=2): self.n_components = n_components\n"
    text += "    def fit(self, X, y=None): return self\n"
    text += "    def transform(self, X): return X[:, :self.n_components]\n"
    known = []
    for body in (*bodies, bodies[0]):
        cell = f"<cell {body}>"
        source = text.format(body)
        if has_source:
            linecache.cache[cell] = len(source), None, source.splitlines(keepends=True), cell
        exec(compile(source, cell, "exec"), vars(namespace))
        known.append(rows(namespace.C)[0]["guests"])
        assert len(known[-1].split()) == 2
    assert known[0] == known[2] != known[1]


@pytest.fixture
def notebook(monkeypatch):
    """Return a function that runs a cell of a notebook, and the namespace of its cells."""
    namespace = type(sys)("session_cells")
    monkeypatch.setitem(sys.modules, namespace.__name__, namespace)

    def run(text):
        cell = f"<cell {len(linecache.cache)}>"
        linecache.cache[cell] = len(text), None, text.splitlines(keepends=True), cell
        exec(compile(text, cell, "exec"), vars(namespace))
        return namespace

    return run


DERIVED = """
class Columns(Base):
    pass
"""
FACTORY = """
def make(first):
    class Columns(BaseEstimator):
        def __init__(self, n_components=2): self.n_components = n_components
        def fit(self, X, y=None): return self
        def transform(self, X): return X[:, first : first + self.n_components]
    Columns.__qualname__ = "Columns"
    return Columns
Columns = make({first})
"""


def with_base(text, first):
    return text.replace("X[:, FIRST : FIRST", f"X[:, {first} : {first}").replace("Columns", "Base") + DERIVED


def with_closure(text, first):
    return text + FACTORY.format(first=first)


def with_default(text, first):
    text = text.replace("self, X):", "self, X, f=[0]):").replace("FIRST : FIRST", "f[0] : f[0]")
    return f"{text}Columns.transform.__defaults__[0][0] = {first}\n"


def with_constant(text, first):
    return text.replace("FIRST = 0", f"FIRST = {first}")


def with_array(text, first):
    return text.replace("FIRST = 0", f"import numpy\nFIRST = numpy.array({first})")


# Definitions of a function `first` that returns a number.
FUNCTIONS = {
    "that calls another": "def second(v=(lambda: {first})):\n    return v()\ndef first():\n    return second()\n",
    "compiled": "from numba import njit\n@njit\ndef first():\n    return {first}\n",
    "partial": "from functools import partial\nfirst = partial(lambda value: value, value={first})\n",
    "cached": "from functools import cache\n@cache\ndef first():\n    return {first}\n",
    "of another class": "class C:\n    first = staticmethod(lambda: {first})\ndef first():\n    return C.first()\n",
    "that returns numpy's number": "import numpy\nNUMBER = numpy.int64({first})\ndef first():\n    return NUMBER\n",
}


def with_function(definition):
    def change(text, first):
        return f"{text.replace('FIRST : FIRST', 'first() : first()')}\n{definition.format(first=first)}"

    return change


@pytest.mark.parametrize(
    "change",
    [with_base, with_closure, with_default, with_constant, with_array,
     *(pytest.param(with_function(text), id=f"function {name}") for name, text in FUNCTIONS.items())],
)  # fmt: skip
def test_a_notebook_class_has_another_hash_if_what_it_is_made_of_is_another(change, notebook):
    """A class without a body of its own had the hash of nothing, whatever it derived from."""
    text = dedent(TRANSFORMER).format(first=0)
    known = [rows(notebook(change(text, first)).Columns) for first in (0, 5, 0)]
    assert known[0] == known[2]
    assert known[0][0]["objective"] != known[1][0]["objective"]
    assert known[0][0]["guests"] != known[1][0]["guests"]


@pytest.mark.parametrize(
    "cell",
    [
        "import NAME\nclass Columns(NAME.Columns):\n    pass\n",
        "import NAME\nclass Columns(BaseEstimator):\n"
        "    def transform(self, X): return NAME.Columns(self.n_components).transform(X)\n",
        "from NAME import Columns as Used\nclass Columns(BaseEstimator):\n"
        "    def transform(self, X): return Used(self.n_components).transform(X)\n",
    ],
)
def test_a_notebook_class_that_uses_an_edited_module_is_refused_until_that_is_reloaded(cell, module, notebook):
    body = "    def __init__(self, n_components=2): self.n_components = n_components\n"
    body += "    def fit(self, X, y=None): return self\n"
    cell = f"from sklearn.base import BaseEstimator\n{cell}".replace("NAME", module.stem)
    cell = cell.replace("(BaseEstimator):\n", f"(BaseEstimator):\n{body}")
    before = rows(notebook(cell).Columns)
    write(module, TRANSFORMER, 5)
    with pytest.raises(UserError, match=f"{module} was changed after this process imported it"):
        rows(notebook(cell).Columns)
    reloaded(module)
    after = rows(notebook(cell).Columns)
    assert after[0]["objective"] != before[0]["objective"]
    assert after[0]["guests"] != before[0]["guests"]


@pytest.mark.usefixtures("registry")
def test_a_reducer_that_a_notebook_registers_has_the_hash_of_its_code(notebook):
    """The rows of both definitions looked like those of one of kmdr's own reducers."""
    found = []
    for first in (0, 5, 0):
        notebook(dedent(REDUCER).format(first=first).replace("FIRST, FIRST", f"{first}, {first}"))
        found += rows("session_columns")
    assert found[0] == found[2]
    assert found[0]["objective"] != found[1]["objective"]
    assert found[0]["guests"] != found[1]["guests"]


SCRIPT = """
import sys
from pathlib import Path
import numpy as np
import kmdr
from sklearn.base import BaseEstimator

class Columns(BaseEstimator):
    def __init__(self, n_components=2):
        self.n_components = n_components

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X[:, {first} : {first} + self.n_components]

Path(__file__).write_text(Path(__file__).read_text().replace("X[:, 0 : 0", sys.argv[1]))
A = np.random.default_rng(0).standard_normal((40, 8))
rows = kmdr.compare(A, [Columns], k=3, r_grid=[2], repeats=1, progress=False).rows
print(rows.iloc[0][["objective", "guests"]].tolist())
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["session_script.py", "-m session_script"])
def test_a_script_that_is_edited_while_it_runs_does_not_have_the_hash_of_its_new_code(how, tmp_path):
    """With ``-m`` every script had the hash of nothing, and else that of the file at the time of the call."""

    def run(first, edit):
        write(tmp_path / "session_script.py", SCRIPT, first)
        command = [sys.executable, *how.split(), edit]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return eval(done.stdout) if not done.returncode else done.stderr

    old, new, edited = run(0, "X[:, 0 : 0"), run(5, ""), run(0, "X[:, 5 : 5")
    assert old[0] != new[0]
    assert old[1] != new[1]
    if how.startswith("-m"):
        assert "session_script.py was changed after this process imported it" in edited
        assert "importlib.reload" not in edited
    else:
        assert edited[0] == old[0]
        assert edited[1] != new[1]


@pytest.mark.parametrize("how", ["nothing compiled", "compiled file removed", "compiled by another process"])
def test_a_module_edited_before_the_first_call_is_refused_whatever_compiled_file_there_is(how, module, monkeypatch):
    """The digest of the new file was recorded as that of the imported code."""
    text = TRANSFORMER.replace("X[:, FIRST : FIRST", "X[:, {first} : {first}")
    module.write_text(dedent(text).format(first=0))
    monkeypatch.setattr(sys, "dont_write_bytecode", how == "nothing compiled")
    importlib.import_module(module.stem)
    module.write_text(dedent(text).format(first=5))
    shutil.rmtree(module.parent / "__pycache__", ignore_errors=True)
    if how == "compiled by another process":
        py_compile.compile(str(module))
    with pytest.raises(UserError, match=f"{module} was changed after this process imported it"):
        rows(f"{module.stem}.Columns")
    reloaded(module)
    assert rows(f"{module.stem}.Columns")[0]["status"] == "ok"


def test_a_module_of_an_archive_has_its_new_hash_after_a_reload(tmp_path, monkeypatch):
    archive, name, found = tmp_path / "session.zip", "session_zipped", []
    monkeypatch.syspath_prepend(archive)
    for first in (0, 5):
        with zipfile.ZipFile(archive, "w") as members:
            members.writestr(f"{name}.py", dedent(TRANSFORMER).format(first=first))
        if first:
            with pytest.raises(UserError, match="was changed after this process imported it"):
                rows(f"{name}.Columns")
            importlib.reload(sys.modules[name])
        importlib.invalidate_caches()
        found += rows(f"{name}.Columns")
    sys.modules.pop(name)
    assert found[0]["objective"] != found[1]["objective"]
    assert found[0]["guests"] != found[1]["guests"]


@pytest.mark.slow
def test_a_renamed_file_of_a_plugin_is_refused_as_such(tmp_path, monkeypatch):
    """Two reducers were said to have the same name, and to rename one of them."""
    file = write(tmp_path / "reducers/columns.py", REDUCER, 4)
    monkeypatch.setenv("KMDR_PATH", str(tmp_path))
    rows("session_columns")
    file.rename(file.with_name("other.py"))
    with pytest.raises(UserError, match=f"{file} was removed or renamed after this process imported it.*restart"):
        rows("session_columns")


def test_a_comparison_needs_no_standard_error(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert kmdr.compare(A, ["svd"], k=3, r_grid=[2], repeats=1).rows["status"].tolist() == ["ok"]


EXTENSION = """
#include <Python.h>
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "session_extension", NULL, -1, NULL};
PyMODINIT_FUNC PyInit_session_extension(void) {
    PyObject *module = PyModule_Create(&definition);
    PyModule_AddIntConstant(module, "FIRST", NUMBER);
    return module;
}
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not shutil.which("cc") or not (Path(sysconfig.get_path("include")) / "Python.h").is_file(),
    reason="needs a C compiler and the headers of Python",
)
def test_a_compiled_module_is_not_accepted_after_a_reload_which_does_not_load_it_again(module, tmp_path):
    def build(number):
        source, made = tmp_path / "extension.c", tmp_path / "new.so"
        source.write_text(EXTENSION.replace("NUMBER", str(number)))
        include = sysconfig.get_path("include")
        subprocess.run(["cc", "-shared", "-fPIC", f"-I{include}", source, "-o", made], check=True)
        made.rename(tmp_path / "session_extension.so")

    build(0)
    module.write_text(dedent(TRANSFORMER).replace("FIRST = {first}", "from session_extension import FIRST"))
    path = f"{module.stem}.Columns"
    rows(path)
    build(5)
    importlib.reload(sys.modules["session_extension"])
    reloaded(module)
    with pytest.raises(UserError, match=r"session_extension\.so was changed .*restart the process$"):
        rows(path)
    sys.modules.pop("session_extension")
