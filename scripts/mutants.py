"""Change single nodes of modules and count the changes that the modules' tests notice: ``mutants.py [MODULE ...]``.

A mutant differs from a module in one operator, constant, argument, name or statement, drawn by ``--seed``. It is killed
if its tests fail, take five times their CPU time, or wait twenty times as long as usual. Each runs in a fork of this
process, which has imported the libraries but nothing of kmdr; the fork imports the mutant in the module's place, and
compiles its kernels anew. Survivors are printed as they come, with the line before and after: each is a test to write,
or a change that makes no difference.

Exit status: 1 if the tests of an unchanged module fail.
"""

import argparse
import ast
import importlib
import io
import math
import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from resource import RLIMIT_CPU, setrlimit
from types import CodeType
from typing import Any, NamedTuple

_PROJECT = Path(__file__).resolve().parents[1]
# Modules, and the folders or files of tests that should notice a change of them.
TESTS = {
    "analysis.statistics": ("analysis/test_statistics.py", "claims/test_repetitions.py"),
    # The last take longest, so they run for the mutants that the others miss.
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


def _child(name: str, path: Path, source: str, arguments: Sequence[str]) -> int:
    """Run tests with another source of a module, and return their exit status."""
    import pytest
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
        return int(pytest.main([*arguments]))


class Passed(NamedTuple):
    """Whether tests passed, and the seconds and CPU seconds that they took."""

    passed: bool
    seconds: float
    cpu: float


def passes(module: str, source: str, seconds: float, cpu: float) -> Passed:
    """Run the tests of a module with a source, for at most so many seconds and CPU seconds."""
    path, begun = path_of(module), time.monotonic()
    tests = [str(_PROJECT / "tests" / name) for name in TESTS[module]]
    options = ["-x", "-q", "-m", "not long", "-p", "no:cacheprovider", "--hypothesis-seed=0", f"--rootdir={_PROJECT}"]
    arguments = [*options, *tests]
    pid = os.fork()
    if pid == 0:
        os.setsid()
        setrlimit(RLIMIT_CPU, (math.ceil(cpu), math.ceil(cpu)))  # time alone would depend on what else runs
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(null, stream)
        ended = 1
        with suppress(BaseException):
            ended = _child(f"kmdr.{module}", path, source, arguments)
        os._exit(ended)
    ended = 0
    while not ended and time.monotonic() - begun < seconds:
        time.sleep(0.02)
        ended, status, usage = os.wait4(pid, os.WNOHANG)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)  # with what its tests started
    if not ended:
        _, status, usage = os.wait4(pid, 0)
    return Passed(status == 0, time.monotonic() - begun, usage.ru_utime + usage.ru_stime)


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
        usual = passes(module, source, 3600.0, 3600.0)
        if not usual.passed:
            print(f"{module}: its tests fail without any change", flush=True)
            failed += 1
            continue
        drawn = list(mutants(source, arguments.count, random.Random(f"{arguments.seed} {module}"), edits))
        limits = 20 * usual.seconds + 60, 5 * usual.cpu + 5
        survived = 0
        with ThreadPoolExecutor(arguments.jobs) as pool:
            outcomes = pool.map(lambda mutant: passes(module, mutant.source, *limits).passed, drawn)  # noqa: B023
            for mutant, alive in zip(drawn, outcomes, strict=True):
                if alive:
                    survived += 1
                    print(f"  {path_of(module).relative_to(_PROJECT)}:{mutant.line}")
                    print(f"    - {mutant.before}\n    + {mutant.after}", flush=True)
        print(f"{module}: {len(drawn) - survived} of {len(drawn)} mutants killed", flush=True)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
