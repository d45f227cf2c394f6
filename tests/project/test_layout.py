"""The layers: imports point down, and nothing of a paper is outside its folder."""

import ast
import os
import re
import shutil
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
SOURCE = PROJECT / "src" / "kmdr"


def layers():
    """Return the packages in the order of the table of CONTRIBUTING.md: each may import from those before it."""
    text = (PROJECT / "CONTRIBUTING.md").read_text("utf-8")
    lines = re.search(r"^\| package \|.*\n((?:\|.*\n)+)", text, re.MULTILINE)[1].splitlines()
    return [name for line in lines for name in re.findall(r"`(\w+)`", line.split("|")[1])]


LAYERS = layers()
PAPERS = [path.parent.name for path in sorted(SOURCE.glob("papers/*/paper.toml"))]


def imports(file):
    """Names of the project's modules that a file imports, at whatever depth."""
    package = file.relative_to(SOURCE.parent).parent.parts
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("kmdr"))
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) + "." if node.level else ""
            module = f"{base}{node.module or ''}".rstrip(".")
            if module.startswith("kmdr"):
                yield module
                yield from (f"{module}.{alias.name}" for alias in node.names)


def layer(module):
    """Return the place of a module's package in the table; what is loose in ``kmdr`` comes last."""
    part = module.partition(".")[2].partition(".")[0]
    return LAYERS.index(part) if part in LAYERS else len(LAYERS)


@pytest.mark.parametrize("file", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_package_imports_only_itself_and_packages_before_it_in_the_table_of_contributing(file):
    own = ".".join(file.relative_to(SOURCE.parent).with_suffix("").parts)
    for module in imports(file):
        # `from kmdr import datasets` names the package itself, which has nothing but the functions of the top.
        assert module == "kmdr" or layer(module) <= layer(own), f"{own} imports {module}, which comes after it"
        if module.startswith("kmdr.papers.") and layer(own) < len(LAYERS):
            assert own.startswith(".".join(module.split(".")[:3])), f"{own} imports {module} by name"


def test_no_modules_import_each_other_in_a_circle():
    """Imports within functions count; the faces of packages, which only hand names on, do not."""
    files = {".".join(file.relative_to(SOURCE.parent).with_suffix("").parts): file for file in SOURCE.rglob("*.py")}
    order = TopologicalSorter({name: {*imports(file)} & {*files} - {name} for name, file in files.items()})
    order.prepare()  # raises an error that names the modules


def test_every_package_has_a_layer_and_the_top_has_few_modules():
    assert sorted([*(path.parent.name for path in SOURCE.glob("*/__init__.py")), "api"]) == sorted(LAYERS)
    assert {path.name for path in SOURCE.glob("*.py")} == {"__init__.py", "__main__.py", "api.py"}


def test_importing_the_package_changes_nothing():
    """No signal handler, no variable of the environment, no folder probed, no module of kmdr or another package."""
    script = (
        "import os, signal, sys; before = dict(os.environ), signal.getsignal(signal.SIGINT), set(sys.modules)\n"
        "touched = []\n"
        "watch = lambda event, arguments: touched.append((event, arguments[0])) if event.startswith('os.') else None\n"
        "sys.addaudithook(watch)\n"
        "import kmdr\n"
        "assert not [each for each in touched if each[0] != 'os.listdir'], touched  # which the import system does\n"
        "assert before == (dict(os.environ), signal.getsignal(signal.SIGINT), set(sys.modules) - {'kmdr'})\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("name", PAPERS)
def test_code_above_the_rows_names_no_paper(name):
    for folder in ("analysis", "figures", "claims", "multiverse", "reporting"):
        for file in (SOURCE / folder).rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                assert name not in file.read_text("utf-8"), f"{file.relative_to(PROJECT)} names {name}"


@pytest.mark.long
@pytest.mark.skipif(not (PROJECT / ".git").exists(), reason="what belongs to the project is what git says")
@pytest.mark.parametrize("name", ["lf20", "lst17", "bzd10"])
def test_the_folder_of_a_paper_can_be_deleted(name, tmp_path):
    """Without the folder and its tests, lint passes, and so do the tests of what is made of papers.

    Studies of the other two answer points that later papers leave open as well, which a test wants answered.
    """
    listed = subprocess.run(["git", "ls-files"], cwd=PROJECT, check=True, capture_output=True, text=True).stdout
    for file in listed.splitlines():
        if (PROJECT / file).is_file():
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(PROJECT / file, tmp_path / file)
    shutil.rmtree(tmp_path / "src" / "kmdr" / "papers" / name)
    (tmp_path / "tests" / "papers" / f"test_{name}.py").unlink()

    def run(*arguments):
        environment = {**os.environ, "PYTHONPATH": "src", "KMDR_CACHE": str(tmp_path / "cache")}
        command = [sys.executable, "-m", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]

    run("ruff", "check", ".")
    run("ruff", "format", "--check", ".")
    run("mypy")
    run("kmdr", "report", "results/reference")
    run("kmdr.reporting.readme")
    tests = ("catalogue", "layout", "readme", "html", "metrics", "report", "statistics", "cli")
    run("pytest", "-q", "-m", "not slow", *(next((tmp_path / "tests").rglob(f"test_{name}.py")) for name in tests))
    scorecard = (tmp_path / "README.md").read_text("utf-8").partition("<!-- scorecard")[2].partition("<!-- end of")[0]
    assert name not in scorecard


def test_every_package_that_make_installs_is_pinned_by_its_hash():
    locks = sorted(path.name for path in PROJECT.glob("requirements*.lock"))
    extras = ("audit", "bench", "docs", "pip")
    assert locks == [*(f"requirements-{name}.lock" for name in extras), "requirements.lock"]
    for name in locks:
        pins = re.split(r"\n(?=\w)", (PROJECT / name).read_text().strip())
        assert [pin for pin in pins if not re.search(r"==\S+.*--hash=sha256:[0-9a-f]{64}", pin, re.DOTALL)] == []
    recipes = (PROJECT / "Makefile").read_text().replace("\\\n", " ")
    installs = re.findall(r"(?:pip install|\$\(INSTALL\)) .*?(?:\.lock|--editable \.)", recipes)
    assert len(installs) == 6
    for install in installs:
        assert "--require-hashes" in install or "--no-deps" in install
