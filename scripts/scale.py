"""Measure peak anonymous memory, seconds and CPU seconds of a trial of each reducer on a large file.

``python scripts/scale.py --n 50000 [--d 4096 --k 100 --r 100 --folder FOLDER] [REDUCER ...] [SETTING=VALUE ...]``
writes a float32 ``.npy`` of n points in k clusters to the folder, block by block, unless it exists. It then runs one
trial of each reducer on it, each in its own process; by default of the reducers that take less than minutes at
this size. Settings are passed to that command; the default is one start of k-means. The first line is the file alone:
hashed, checked and mapped, as the first trial does it.

Anonymous memory (``RssAnon`` of ``/proc/PID/status``, sampled every few milliseconds) excludes pages of the mapped
file, which the operating system can reclaim and which other tools include in ``VmHWM``. The seconds of the steps are
taken from the row; ``CPU`` covers the whole process, imports included; ``reads`` is (prepare + reduce) ÷ the seconds in
which the same file is read once from the page cache.
"""

import argparse
import csv
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

REDUCERS = (
    *("sparse_embedding", "osnap", "random_sign", "random_sign_mailman", "gaussian", "achlioptas", "srht", "fjlt"),
    *("sparsified", "variance", "approx_svd", "svd", "leverage", "leverage_approx", "ridge_leverage", "none"),
)
_STEPS = ("prepare", "reduce", "cluster", "score")
HEAD = f"{'':20} {'anon GB':>8} {'seconds':>8} {'CPU':>8} {' '.join(f'{step:>8}' for step in _STEPS)}    reads F"
_ROWS = 1000
_BUFFER = 2**22
_LOOK_SECONDS = 0.005
_ALONE = "from kmdr import datasets; datasets.load('file', {'path': %r, 'k': %d})"


class Trial(NamedTuple):
    """The cost of a trial: peak GB of anonymous memory, seconds, CPU seconds; its error message, or else its row."""

    peak: float
    seconds: float
    cpu: float
    message: str
    row: dict[str, str]

    @property
    def reduction(self) -> float:
        """Seconds of prepare and reduce."""
        return float(self.row["prepare_seconds"]) + float(self.row["reduce_seconds"])


def blocks(n: int, d: int, k: int) -> Iterator[np.ndarray]:
    """Yield blocks of rows: clusters of unit normal noise about centres, cut off at 0 as activations are."""
    rng = np.random.default_rng(0)
    centres = 0.3 * rng.standard_normal((k, d), dtype=np.float32)
    for start in range(0, n, _ROWS):
        rows = min(_ROWS, n - start)
        points = rng.standard_normal((rows, d), dtype=np.float32) + centres[rng.integers(k, size=rows)]
        yield np.maximum(points, 0)


def write(path: Path, n: int, d: int, k: int) -> None:
    """Write the points to a ``.npy``, which has its name only when it is whole."""
    aside = path.with_suffix(".part")
    with aside.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (n, d)}
        np.lib.format.write_array_header_1_0(file, header)
        for block in blocks(n, d, k):
            file.write(block.data)
    aside.rename(path)


def read_seconds(path: Path, *, cold: bool = False) -> float:
    """Return the seconds of one read of a file from the disk, or the least of three, the later from the page cache."""
    buffer, seconds = bytearray(_BUFFER), []
    for _ in range(1 if cold else 3):
        with path.open("rb", buffering=0) as file:
            if cold:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            began = time.perf_counter()
            while file.readinto(buffer):
                pass
            seconds.append(time.perf_counter() - began)
    return min(seconds)


def anonymous(pid: int) -> int:
    """Return the anonymous bytes of a process and its children; 0 when it has ended."""
    process = Path(f"/proc/{pid}")
    try:
        lines = (process / "status").read_text("ascii").splitlines()
        children = (process / "task" / str(pid) / "children").read_text("ascii").split()
    except OSError:
        return 0
    of_this_process = next((1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon")), 0)
    return of_this_process + sum(anonymous(int(child)) for child in children)


def watched(command: Sequence[str]) -> tuple[float, float, float, str]:
    """Run a command; return its peak GB of anonymous memory, seconds and CPU seconds, and its error message."""
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        peak, state = 0, None
        while state is None:
            peak = max(peak, anonymous(process.pid))
            time.sleep(_LOOK_SECONDS)
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            state = status if ended else None
        assert process.stderr is not None
        message = process.stderr.read().decode(errors="replace").strip().splitlines() if state else [""]
        process.returncode = os.waitstatus_to_exitcode(state)
    return peak / 1e9, time.perf_counter() - began, usage.ru_utime + usage.ru_stime, (message or ["failed"])[-1]


def row_of(out: Path) -> dict[str, str]:
    """Return the only row of a folder of results."""
    with (out / "rows.csv").open(encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    return row


def trial(reducer: str, r: int, settings: Sequence[str]) -> Trial:
    """Run a trial of a reducer by the ordinary command; the settings say of which data."""
    with TemporaryDirectory() as out:
        command = [sys.executable, "-m", "kmdr", f"reducer={reducer}", f"r_grid=[{r}]", "repeats=1", f"out={out}"]
        taken = watched([*command, "runner=sequential", "kmeans.n_init=1", *settings])
        row = {} if taken[-1] else row_of(Path(out))
    return Trial(*taken[:-1], taken[-1] or row["error"], row)


def line(name: str, made: Trial, read: float) -> str:
    """Return the line of a table that says what a trial took."""
    begin = f"{name:20} {made.peak:8.2f} {made.seconds:8.1f} {made.cpu:8.1f}"
    if made.message:
        return f"{begin}  {made.message}"
    steps = [float(made.row[f"{step}_seconds"]) for step in _STEPS]
    steps_shown = " ".join(f"{step:8.2f}" for step in (*steps, made.reduction / read))
    return f"{begin} {steps_shown} {made.row['objective']:.8}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the file, and print a line for each reducer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="REDUCER or SETTING=VALUE")
    for name, default in (("n", 50_000), ("d", 4096), ("k", 100), ("r", 100)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--folder", type=Path, default=Path("scale"))
    given = parser.parse_args(arguments)
    path = (given.folder / f"points_{given.n}x{given.d}.npy").resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        write(path, given.n, given.d, given.k)
    read = read_seconds(path)
    print(f"{path.name}: {path.stat().st_size / 1e9:.2f} GB, read once from the page cache in {read:.2f} s")
    print(HEAD)
    os.environ["KMDR_CACHE"] = str(given.folder.resolve() / "cache")
    rmtree(os.environ["KMDR_CACHE"], ignore_errors=True)
    peak, seconds, cpu, message = watched([sys.executable, "-c", _ALONE % (str(path), given.k)])
    print(f"{'(the file alone)':20} {peak:8.2f} {seconds:8.1f} {cpu:8.1f}  {message}", flush=True)
    data = ["dataset=file", f"dataset.path={path}", f"dataset.k={given.k}"]
    settings = [*data, *(word for word in given.words if "=" in word)]
    for reducer in [word for word in given.words if "=" not in word] or REDUCERS:
        print(line(reducer, trial(reducer, given.r, settings), read), flush=True)


if __name__ == "__main__":
    main()
