"""Run every compiled kernel with bounds checking on what hypothesis thinks of: ``fuzz.py [SECONDS]``, 600 by default.

Numba's cache takes no notice of bounds checking, so the kernels are compiled anew into a folder of their own.
"""

import importlib
import os
import sys
import tempfile
import time
import traceback
from collections import Counter
from itertools import count
from pathlib import Path

from hypothesis import seed

_TESTS = Path(__file__).parents[1] / "tests"
_EXAMPLES = 25  # of a test before the next has its turn


def _run(seconds: float) -> int:
    sys.path.insert(0, str(_TESTS))
    module = importlib.import_module("test_fuzz")
    tests = {name: test for name, test in vars(module).items() if hasattr(test, "hypothesis")}
    runs: Counter[str] = Counter()
    start = time.monotonic()
    for turn in count():
        for name, test in tests.items():
            if time.monotonic() - start > seconds:
                print(f"{sum(runs.values())} examples in {seconds:.0f} s: {dict(runs)}; no fault")
                return 0
            try:
                seed(turn)(test)()
            except Exception:
                traceback.print_exc()
                print(f"{name} failed in turn {turn}, after {sum(runs.values())} examples of all", file=sys.stderr)
                return 1
            runs[name] += _EXAMPLES
    raise AssertionError


def main() -> int:
    """Return 0 when every kernel did what its test says for so long, 1 otherwise."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 600.0
    if os.environ.get("NUMBA_BOUNDSCHECK") == "1":
        return _run(seconds)
    with tempfile.TemporaryDirectory() as cache:
        checked = {
            **os.environ,
            "NUMBA_BOUNDSCHECK": "1",
            "NUMBA_CACHE_DIR": cache,
            "KMDR_FUZZ_EXAMPLES": str(_EXAMPLES),
        }
        return os.spawnve(os.P_WAIT, sys.executable, [sys.executable, __file__, str(seconds)], checked)


if __name__ == "__main__":
    sys.exit(main())
