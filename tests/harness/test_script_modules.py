"""Classes of the module beside a user's script, or of the script itself, run in its process and in its workers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kmdr

MODULE = """
import numpy as np

class Mine:
    def __init__(self, n_components=None):
        self.n_components = n_components

    def fit_transform(self, A):
        return np.asarray(A)[:, : self.n_components]
"""
SCRIPT = """
import sys

import kmdr
import numpy as np
from mymod import Mine

class Own(Mine):
    def __init__(self, n_components=None):
        self.n_components = n_components

def main():
    A = np.random.default_rng(0).random((60, 8))
    rows = kmdr.compare(A, [Mine, Own, "mymod.Mine"], k=2, r_grid=[2], repeats=2).rows
    assert set(rows["status"]) == {"ok"}, rows["error"]
    rows = kmdr.run(
        "bzmd15_fig1", "out", "study.datasets=[{synth:{n:60,d:10,k:2}}]", "r_grid=[2]", "repeats=3",
        "timing_repeats=1", "study.reducers=[{outside:{path:mymod.Mine}}]", "runner.n_jobs=2",
    )
    assert list(rows["status"]) == ["ok"] * 3, rows["error"]
    assert set(rows["reducer"]) == {"mymod.Mine"}

if __name__ == "__main__":
    main()
"""


def run(folder, *arguments):
    package = str(Path(kmdr.__file__).parents[1])
    return subprocess.run(
        [sys.executable, *map(str, arguments)], cwd=folder, check=False, capture_output=True, text=True, timeout=500,
        env=os.environ | {
            "KMDR_CACHE": str(folder / "cache"), "PYTHONPATH": package,
        },
    )  # fmt: skip


@pytest.mark.slow
def test_a_script_uses_its_own_classes_here_and_in_workers(tmp_path):
    (tmp_path / "mymod.py").write_text(MODULE)
    (tmp_path / "script.py").write_text(SCRIPT)
    done = run(tmp_path, "script.py")
    assert done.returncode == 0, done.stderr
