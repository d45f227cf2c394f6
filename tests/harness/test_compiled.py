"""Kernels are compiled on all cores before the first run, and only then."""

import os
import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from kmdr.base.errors import UserError
from kmdr.clustering.kmeans import Protocol
from kmdr.harness import compiled
from kmdr.harness import runner as module
from kmdr.harness.engines.settings import Runner
from kmdr.harness.progress import Progress
from kmdr.harness.runner import run_tasks
from kmdr.results.store import Store

_COMPILE = """
from types import SimpleNamespace
from kmdr.clustering.kmeans import Protocol
from kmdr.harness import compiled
if __name__ == "__main__":
    task = SimpleNamespace(reducer="sparse_embedding", params="{}", n=3, d=3, nnz=4, protocol=Protocol(1, 2))
    print(compiled.is_compiled())
    compiled.compile_kernels(compiled.parts([task]), 2, print)
    print(compiled.is_compiled())
"""
_WARM_UP = """
from kmdr.clustering.kmeans import Protocol
from kmdr.harness.task import warm_up
for reducer in ("sparse_embedding", "none"):
    warm_up(reducer, "{}", Protocol(5, 300), True, False, "float64", False)
"""


def task(reducer, params="{}", nnz=9, engine="kmdr"):
    return SimpleNamespace(reducer=reducer, params=params, n=3, d=3, nnz=nnz, protocol=Protocol(1, 2, engine=engine))


def test_parts_are_what_the_tasks_take_and_the_longest_come_first():
    tasks = [task("svd"), task("svd"), task("svd", '{"rank":"r"}'), task("random_sign", nnz=4)]
    assert compiled.parts(tasks) == [
        ("none", "{}", False), ("none", "{}", True),
        ("random_sign", "{}", True), ("svd", '{"rank":"r"}', False), ("svd", "{}", False),
    ]  # fmt: skip
    assert compiled.parts([task("none")]) == [("none", "{}", False)]
    assert compiled.parts([task("svd", engine="sklearn")]) == []


@pytest.mark.parametrize("part", [("svd", '{"rank": "nonsense"}', False), ("no reducer at all", "{}", True)])
def test_a_part_that_fails_is_left_to_its_trial(part, monkeypatch):
    compiled.compile_part(*part)
    monkeypatch.setattr(compiled, "suppress", lambda *_: nullcontext())
    with pytest.raises(UserError):
        compiled.compile_part(*part)


def test_nothing_is_to_be_compiled_where_numba_does_not(monkeypatch, tmp_path):
    monkeypatch.setattr(compiled, "run_starts", lambda: None)  # what numba gives with NUMBA_DISABLE_JIT=1
    assert compiled.is_compiled()
    kept = SimpleNamespace(_cache=SimpleNamespace(cache_path=str(tmp_path / "none yet")))
    monkeypatch.setattr(compiled, "run_starts", kept)
    assert not compiled.is_compiled()


@pytest.mark.parametrize(
    ("backend", "n_jobs", "kept", "processes"),
    [("loky", 2, False, 2), ("loky", 2, True, None), ("loky", 1, False, 1), ("sequential", 1, False, 0)],
)
def test_a_run_compiles_first_what_nobody_has(backend, n_jobs, kept, processes, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(module, "is_compiled", lambda: kept)
    monkeypatch.setattr(module, "compile_kernels", lambda parts, n, tell: seen.append((parts, n)))
    monkeypatch.setattr(module, "_run_stage", lambda *_: module._Stage(wall=1.0))
    settings = {**vars(task("svd")), "serial": True, "study": "s", "config": {}, "config_hash": ""}
    some = [SimpleNamespace(**settings, repeat=i) for i in range(3)]
    run_tasks(some, Runner(backend, n_jobs, 1), Store(tmp_path / "o"), {}, Progress(3, 1.0))
    assert seen == ([] if processes is None else [(compiled.parts(some), processes)])


@pytest.mark.slow
def test_nothing_is_left_to_compile_afterwards(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    program = tmp_path / "program.py"
    program.write_text(_COMPILE)
    said = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True, check=True)
    assert (said.stdout.split(), said.stderr) == (["False", "True"], "")
    kernels = {path.name for path in (tmp_path / "numba").rglob("*.nbc")}
    assert any("count" in name or "sketch" in name for name in kernels)
    subprocess.run([sys.executable, "-c", _WARM_UP], env=environment, check=True)
    assert {path.name for path in (tmp_path / "numba").rglob("*.nbc")} == kernels
