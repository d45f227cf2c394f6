"""Measure the loading of a text collection of RCV1's full size from the files that LIBSVM distributes.

``python scripts/bench_data.py [n]`` writes two svmlight files, training and test part, bz2, with n documents in all
(534,135 by default) of generated text to a temporary folder. Then it prints, each measured in a process of its own, the
seconds and the peak memory of parsing them, of preparing the dataset, and of opening it a second time.
"""

import argparse
import bz2
import json
import math
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed

from kmdr.datasets import load, registry
from kmdr.datasets.formats.common import unpacked
from kmdr.datasets.formats.svmlight import svmlight
from kmdr.datasets.sources.text_like import text_like

TRAINING = 15_564
ROWS = 5_000


def written(A: Any, labels: Any) -> bytes:
    """Return rows as compressed svmlight text, 16 digits a value as in LIBSVM's file of RCV1."""
    lines = []
    for row, label in enumerate(labels):
        entries = slice(A.indptr[row], A.indptr[row + 1])
        pairs = zip(A.indices[entries].tolist(), A.data[entries].tolist(), strict=True)
        lines.append(f"{label} {' '.join(f'{index + 1}:{value:.16g}' for index, value in pairs)}\n")
    return bz2.compress("".join(lines).encode())


def write(folder: Path, n: int) -> list[Path]:
    """Write the two files; bz2 allows streams one after the other, so that all cores compress."""
    A, labels = text_like(n, **registry.entry("rcv1_like").fixed)
    paths = [folder / "rcv1_train.multiclass.bz2", folder / "rcv1_test.multiclass.bz2"]
    first = min(TRAINING, n // 2)
    for path, start, stop in ((paths[0], 0, first), (paths[1], first, n)):
        jobs = (
            delayed(written)(A[i : min(i + ROWS, stop)], labels[i : min(i + ROWS, stop)])
            for i in range(start, stop, ROWS)
        )
        with path.open("wb") as file:
            for part in Parallel(n_jobs=-1, return_as="generator", pre_dispatch="2*n_jobs")(jobs):
                file.write(part)
    return paths


def parse(paths: list[str]) -> Any:
    """Parse only."""
    return svmlight(*map(Path, paths), d=47236)[0]


def prepare(paths: list[str]) -> Any:
    """Parse, check, hash and write; or, the second time, open."""
    return load("file", {"path": paths}).A


def measured(what: str, paths: list[Path], cache: Path) -> dict[str, Any]:
    """Run one of the two functions in a new process."""
    code = f"import bench_data; bench_data.child({what!r}, {list(map(str, paths))!r})"
    here = str(Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {here!r}); {code}"],
        env=os.environ | {"KMDR_CACHE": str(cache)},
        stdout=subprocess.PIPE,
        check=True,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def peak_bytes() -> int:
    """Peak memory of this process so far. Linux's getrusage would count that of the process that started it as well."""
    status = Path("/proc/self/status")
    if status.is_file():
        return 1024 * int(re.findall(r"VmHWM:\s*(\d+) kB", status.read_text())[0])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def child(what: str, paths: list[str]) -> None:
    """Print what one call took, and the peak memory of this process before and after it."""
    functions: dict[str, Callable[[list[str]], Any]] = {"parse": parse, "prepare": prepare}
    before = peak_bytes()
    start = time.perf_counter()
    A = functions[what](paths)
    seconds = time.perf_counter() - start
    result = {"seconds": seconds, "imports": before, "peak": peak_bytes(), "shape": A.shape, "nnz": A.nnz}
    print(json.dumps(result))


def main(n: int) -> None:
    """Write the files, and measure."""
    with tempfile.TemporaryDirectory(prefix="kmdr-bench-") as folder:
        start = time.perf_counter()
        paths = write(Path(folder), n)
        size = sum(path.stat().st_size for path in paths)
        print(f"wrote {n} documents, {size / 2**20:.0f} MiB, in {time.perf_counter() - start:.1f} s", flush=True)
        cache = Path(folder) / "cache"
        start = time.perf_counter()
        text = sum(len(block) for path in paths for block in unpacked(path, math.inf))
        seconds = time.perf_counter() - start
        print(f"{'decompress':<18} {seconds:9.3f} s   of {text / 2**20:.0f} MiB of text", flush=True)
        for title, what in (("parse", "parse"), ("prepare", "prepare"), ("open again", "prepare")):
            result = measured(what, paths, cache)
            rows, columns = result["shape"]
            print(
                f"{title:<18} {result['seconds']:9.3f} s   peak {result['peak'] / 2**20:.0f} MiB "
                f"({result['imports'] / 2**20:.0f} MiB of it imports)   {rows} x {columns}, {result['nnz']} entries",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("n", nargs="?", type=int, default=534_135)
    main(parser.parse_args().n)
