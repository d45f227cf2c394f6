"""Change single nodes of modules and count the changes that the modules' tests notice: ``mutants.py [MODULE ...]``.

A mutant differs from a module in one operator, constant, argument, name or statement, drawn by ``--seed``. It is killed
if its tests fail, if one takes more than five times its CPU time, or if all take twenty times as long as usual. Each
runs in a fork of this process, which has imported the libraries but nothing of kmdr; the fork imports the mutant in the
module's place, and compiles its kernels anew. Survivors are printed as they come, with the line before and after: each
is a test to write, or a change that makes no difference.

A change in the body of a function is shown only to the tests that call the function, the quickest files first; a first
run of all tests notes the calls. Calls in other processes do not count, since these import the unchanged module; nor do
calls whose result an earlier test left in a cache. All tests run for a function with a decorator, which may be
compiled, and for one that no test calls.

Exit status: 1 if the tests of an unchanged module fail.
"""

import argparse
import ast
import importlib
import io
import os
import pickle
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import pytest

_PROJECT = Path(__file__).resolve().parents[1]
# Modules, and the folders or files of tests that should notice a change of them.
TESTS = {
    "analysis.statistics": ("analysis/test_statistics.py", "claims/test_repetitions.py"),
    "analysis.significance": ("analysis/test_statistics.py", "claims/test_graded_claims.py"),
    "results.reader": (
        "results/test_store.py", "results/test_task_files_together.py", "results/test_hostile_results.py",
        "results/test_check.py", "results/test_older_folders.py", "results/test_folder_memory.py",
        "results/test_forged_rows.py",
    ),
    "base.seeding": ("base/test_seeding.py",),
    "metrics.scores": ("metrics", "linalg/test_large.py"),
    "metrics.kernels": ("metrics", "linalg/test_large.py"),
    "clustering.kmeans": ("clustering/test_kmeans.py", "clustering/test_online.py", "linalg/test_large.py"),
    "reducers.leverage": ("reducers/test_transformers.py", "reducers/test_reducers.py", "reducers/test_theory.py"),
    "harness.plan": ("harness/test_plan.py",),
    "datasets.formats.preprocessing": (
        "datasets/test_preprocessing.py", "datasets/test_own_files.py", "datasets/test_reading_tables.py",
        "datasets/test_parts.py",
    ),
}  # fmt: skip
_LIBRARIES = ("numpy", "scipy.stats", "pandas", "sklearn.cluster", "numba", "matplotlib.pyplot", "hypothesis", "pytest")


@dataclass(frozen=True)
class Mutant:
    """The source of a module with one change, and the changed line before and after."""

    source: str
    line: int
    before: str
    after: str


def path_of(module: str) -> Path:
    """Return the source file of a module, named without the package."""
    return _PROJECT / "src" / "kmdr" / Path(*module.split(".")).with_suffix(".py")


def mutants(source: str, count: int, choose: random.Random, edits: Any) -> Iterator[Mutant]:
    """Yield different mutants of a source, made by `tests/edits.py`."""
    places = list(enumerate(edits.counted_nodes(ast.parse(source))))
    choose.shuffle(places)
    plain = ast.unparse(ast.parse(source)).splitlines()
    for number, _ in places:
        tree = ast.parse(source)
        parent, field, place = list(edits.counted_nodes(tree))[number]
        node = getattr(parent, field) if place is None else getattr(parent, field)[place]
        changed = edits.mutated(node, choose)
        if changed is None:
            continue
        if place is None:
            setattr(parent, field, changed)
        else:
            getattr(parent, field)[place] = changed
        with suppress(ValueError, SyntaxError, RecursionError):
            text = ast.unparse(ast.fix_missing_locations(tree))
            compile(text, "", "exec")
            lines = text.splitlines()
            at = next((i for i, pair in enumerate(zip(plain, lines, strict=False)) if pair[0] != pair[1]), None)
            if at is None:
                continue
            yield Mutant(
                text, getattr(node, "lineno", getattr(parent, "lineno", 0)), plain[at].strip(), lines[at].strip()
            )
            count -= 1
            if not count:
                return


class Cost(NamedTuple):
    """The CPU seconds of a test, and the first lines of the functions of a module that it calls."""

    cpu: float
    calls: frozenset[int]


class _Recorder:
    """A plugin of pytest that writes the `Cost` of each test into a file."""

    def __init__(self, path: Path, kept: Path) -> None:
        self.path, self.kept, self.costs = str(path), kept, dict[str, Cost]()
        self.calls, self.of_fixtures = set[int](), defaultdict[str, set[int]](set)

    def _trace(self, frame: FrameType, event: str, argument: object) -> None:
        del event, argument
        if frame.f_code.co_filename == self.path:
            self.calls.add(frame.f_code.co_firstlineno)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        begun, self.calls = time.process_time(), set()
        threading.settrace(self._trace)
        sys.settrace(self._trace)
        yield
        sys.settrace(None)
        # A fixture that several tests share was made for the first of them.
        calls = self.calls.union(*(self.of_fixtures[name] for name in item.fixturenames))
        self.costs[item.nodeid] = Cost(time.process_time() - begun, frozenset(calls))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        before, self.calls = self.calls, set()
        yield
        self.of_fixtures[fixturedef.argname] |= self.calls
        self.calls |= before

    def pytest_sessionfinish(self) -> None:
        self.kept.write_bytes(pickle.dumps(self.costs))


class _Order:
    """A plugin of pytest that runs some tests in their order, and ends the process where one takes far longer."""

    def __init__(self, tests: Mapping[str, Cost]) -> None:
        self.tests, self.places = tests, {test: place for place, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = sorted((i for i in items if i.nodeid in self.places), key=lambda item: self.places[item.nodeid])

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        # CPU time, since time alone would depend on what else runs; a fixture may have been made for another test.
        signal.setitimer(signal.ITIMER_PROF, 5 * self.tests[item.nodeid].cpu + 30)
        yield
        signal.setitimer(signal.ITIMER_PROF, 0)


def tests_of(costs: Mapping[str, Cost], source: str, line: int) -> dict[str, Cost]:
    """Return the tests that a change in a line of a module is shown to, in the order in which they run."""
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    # A default value is also seen by tests that inspect a signature and call nothing.
    around = [node for node in functions if node.body[0].lineno <= line <= (node.end_lineno or 0)]
    outer = min(around, key=lambda node: node.lineno, default=None)
    calling = [test for test in costs if outer and not outer.decorator_list and outer.lineno in costs[test].calls]
    tests = calling or list(costs)
    cpu = Counter[str]()
    for test in tests:
        cpu[test.partition("::")[0]] += costs[test].cpu  # type: ignore[assignment]
    # A file's tests stay together, or its fixtures would be made more than once.
    tests.sort(key=lambda test: (cpu[file := test.partition("::")[0]], file, costs[test].cpu))
    return {test: costs[test] for test in tests}


def _child(name: str, path: Path, source: str, arguments: Sequence[str], plugin: object) -> int:
    """Run tests with another source of a module, and return their exit status."""
    from numba.core.dispatcher import Dispatcher

    enable = Dispatcher.enable_caching

    def enable_caching(self: Any) -> None:
        if self.py_func.__module__ != name:  # numba would load what it compiled of the unchanged module
            enable(self)

    def get_code(self: Any, fullname: str) -> CodeType | None:
        return compile(source, str(path), "exec") if fullname == name else code_of(self, fullname)

    code_of = SourceFileLoader.get_code
    Dispatcher.enable_caching, SourceFileLoader.get_code = enable_caching, get_code  # type: ignore[method-assign]
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        return int(pytest.main([*arguments], plugins=[plugin]))


class Passed(NamedTuple):
    """Whether tests passed, and the seconds that they took."""

    passed: bool
    seconds: float


def passes(module: str, source: str, files: Iterable[str], plugin: object, seconds: float) -> Passed:
    """Run files of tests with a source of a module and a plugin of pytest, for at most so many seconds."""
    path, begun = path_of(module), time.monotonic()
    options = ["-x", "-q", "-m", "not long", "-p", "no:cacheprovider", "--hypothesis-seed=0", f"--rootdir={_PROJECT}"]
    arguments = [*options, *(str(_PROJECT / name) for name in files)]
    pid = os.fork()
    if pid == 0:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(null, stream)
        ended = 1
        with suppress(BaseException):
            ended = _child(f"kmdr.{module}", path, source, arguments, plugin)
        os._exit(ended)
    ended = 0
    while not ended and time.monotonic() - begun < seconds:
        time.sleep(0.02)
        ended, status = os.waitpid(pid, os.WNOHANG)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)  # with what its tests started
    if not ended:
        _, status = os.waitpid(pid, 0)
    return Passed(status == 0, time.monotonic() - begun)


def usual_costs(module: str, source: str) -> tuple[dict[str, Cost], Passed]:
    """Run the tests of an unchanged module, and return their costs, and how they passed."""
    with tempfile.TemporaryDirectory() as folder:
        recorder = _Recorder(path_of(module), Path(folder, "costs"))
        passed = passes(module, source, [f"tests/{name}" for name in TESTS[module]], recorder, 3600.0)
        return pickle.loads(recorder.kept.read_bytes()) if passed.passed else {}, passed


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", metavar="MODULE", default=list(TESTS), help=f"of {', '.join(TESTS)}")
    parser.add_argument("--count", type=int, default=25, help="mutants of each module (25)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants at once")
    arguments = parser.parse_args()
    if unknown := set(arguments.modules) - set(TESTS):
        parser.error(f"no tests are listed for {', '.join(sorted(unknown))}")
    return arguments


def main() -> int:
    """Return 0 when all was counted, 1 when a module's tests fail without any change."""
    arguments = _arguments()
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    sys.path.insert(0, str(_PROJECT / "tests"))
    os.chdir(_PROJECT)
    for library in _LIBRARIES:
        importlib.import_module(library)
    edits = importlib.import_module("edits")
    for name in [name for name in sys.modules if name.partition(".")[0] in ("kmdr", "edits")]:
        del sys.modules[name]
    failed = 0
    for module in arguments.modules:
        source = path_of(module).read_text(encoding="utf-8")
        costs, usual = usual_costs(module, source)
        if not usual.passed:
            print(f"{module}: its tests fail without any change", flush=True)
            failed += 1
            continue
        drawn = list(mutants(source, arguments.count, random.Random(f"{arguments.seed} {module}"), edits))

        def survives(mutant: Mutant) -> bool:
            tests = tests_of(costs, source, mutant.line)  # noqa: B023
            files = dict.fromkeys(test.partition("::")[0] for test in tests)
            return passes(module, mutant.source, files, _Order(tests), 20 * usual.seconds + 60).passed  # noqa: B023

        survived = 0
        with ThreadPoolExecutor(arguments.jobs) as pool:
            outcomes = pool.map(survives, drawn)
            for mutant, alive in zip(drawn, outcomes, strict=True):
                if alive:
                    survived += 1
                    print(f"  {path_of(module).relative_to(_PROJECT)}:{mutant.line}")
                    print(f"    - {mutant.before}\n    + {mutant.after}", flush=True)
        print(f"{module}: {len(drawn) - survived} of {len(drawn)} mutants killed", flush=True)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
