"""Run every compiled kernel with bounds checking on what hypothesis thinks of: ``fuzz.py [SECONDS] [--seed SEED]``.

The kernels share the time, and each has one turn at least; a process for each core takes them in an order that the seed
gives, by default the date, which also says what hypothesis tries. Numba's cache takes no notice of bounds checking, nor
of a change in what a kernel calls, so the kernels are compiled, in some two minutes, into a folder of their own for the
code as it is; it is kept for the next time.
"""

import argparse
import datetime
import importlib
import multiprocessing
import os
import random
import shutil
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import seed, settings

from kmdr.base.files import content_hash

_PROJECT = Path(__file__).parents[1]
_CACHE = _PROJECT / ".fuzz_cache"
_EXAMPLES = 25  # of a test before it is asked whether there is time for more

settings.register_profile("fuzz", deadline=None)  # the first example of a test compiles its kernels
settings.load_profile("fuzz")


def _tests() -> dict[str, Any]:
    return {name: x for name, x in vars(importlib.import_module("test_fuzz")).items() if hasattr(x, "hypothesis")}


def _fuzz(name: str, base: int, seconds: float) -> tuple[str, int, str]:
    """Run a test for so long; return its name, how many examples it ran, and the traceback of its failure."""
    start = time.monotonic()
    turn = 0
    while not turn or time.monotonic() - start < seconds:
        try:
            seed(f"{base} {turn}")(_tests()[name])()
        except Exception:
            return name, turn * _EXAMPLES, f"{traceback.format_exc()}{name} failed with seed {base} in turn {turn}"
        turn += 1
    return name, turn * _EXAMPLES, ""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", nargs="?", type=float, default=600.0, metavar="SECONDS", help="in all (600)")
    parser.add_argument("--seed", type=int, default=int(f"{datetime.datetime.now(datetime.UTC):%Y%m%d}"))
    return parser.parse_args()


def main() -> int:
    """Return 0 when every kernel did what its test says, 1 otherwise."""
    arguments = _arguments()
    cache = _CACHE / content_hash(sorted((_PROJECT / "src").rglob("*.py")))[:12]
    for outdated in set(_CACHE.glob("*")) - {cache}:
        shutil.rmtree(outdated, ignore_errors=True)
    # All of this before numba is imported.
    os.environ |= {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(cache), "KMDR_FUZZ_EXAMPLES": str(_EXAMPLES)}
    os.environ["PYTHONFAULTHANDLER"] = "1"
    sys.path[:0] = [str(_PROJECT / "tests"), str(_PROJECT / "tests" / "linalg")]
    names = list(_tests())
    random.Random(arguments.seed).shuffle(names)
    print(f"seed {arguments.seed}: {', '.join(names)}", flush=True)
    workers = os.cpu_count() or 1
    share = arguments.seconds * workers / len(names)
    failures = []
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        for name, examples, failure in pool.map(partial(_fuzz, base=arguments.seed, seconds=share), names):
            print(f"{name}: {examples} examples{', then a fault' if failure else ''}", flush=True)
            failures += [failure] if failure else []
    print(*failures, f"{len(failures)} faults", sep="\n")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
