"""Runs as a person starts them: interrupted, repeated, side by side, with one worker or several."""

import csv
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from commands import Command
from forked import programs
from kmdr.base.files import is_temporary
from kmdr.results.manifests import described
from kmdr.results.schema import COLUMNS, TIME_COLUMNS

SWEEP = [
    "-m", "dataset=synth", "dataset.n=150", "dataset.d=300", "reducer=none,random_sign,leverage_approx,svd",
    "r_grid=[2,3,5]", "repeats=6", "timing_repeats=2", "kmeans.n_init=2",
]  # fmt: skip
ROWS = 6 * (1 + 3 + 3 + 3)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def start(cache, *arguments, **popen):
    environment = {**os.environ, "KMDR_CACHE": str(cache)}
    command = [sys.executable, "-m", "kmdr", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=environment, **(pipes | popen))


def start_warm(cache, *arguments):
    """Start a command whose imports are not what a test is about."""
    return Command(*arguments, environment={**os.environ, "KMDR_CACHE": str(cache)})


def kmdr(cache, *arguments):
    process = start_warm(cache, *arguments)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out + err


def table(folder):
    """Return every column but the times, as text: what must be the same bit for bit."""
    with (folder / "rows.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    return [{key: value for key, value in row.items() if key not in TIME_COLUMNS} for row in rows]


@pytest.fixture(scope="module")
def uninterrupted(cache, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole")
    kmdr(cache, *SWEEP, "runner.n_jobs=2", f"out={out}")
    return out


def test_a_run_writes_every_row_with_its_provenance(uninterrupted):
    rows = table(uninterrupted)
    assert len(rows) == ROWS
    assert {row["status"] for row in rows} == {"ok"}
    for row in rows:
        config = described(uninterrupted, "configs", row["config_hash"])
        assert config["reducer"] == row["reducer"]
        assert config["data_sha256"] == row["data_sha256"]
        assert config["kmeans"] == {"n_init": 2, "max_iter": 500, "start": "sample", "engine": "kmdr"}
        environment = json.loads((uninterrupted / "environments" / f"{row['env_hash']}.json").read_text())
        assert {"python", "os", "cpu", "blas", "packages"} <= set(environment)
    assert {(row["repeat"], row["concurrency"]) for row in rows} == {(str(i), "1" if i < 2 else "2") for i in range(6)}


def test_no_path_or_host_name_of_the_machine_gets_into_results(cache, uninterrupted):
    names = [str(Path.home()), str(cache), str(uninterrupted), os.uname().nodename]
    files = [path for path in uninterrupted.rglob("*") if path.suffix in (".csv", ".json", ".jsonl")]
    assert len(files) > 24
    for path in files:
        text = path.read_text()
        assert not [name for name in names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)], path


def test_one_worker_gives_the_values_of_two(cache, uninterrupted, tmp_path):
    kmdr(cache, *SWEEP, "runner.n_jobs=1", f"out={tmp_path}")
    for again, before in zip(table(tmp_path), table(uninterrupted), strict=True):
        assert again.pop("concurrency") == "1"
        before.pop("concurrency")
        assert again == before


def test_a_second_run_has_nothing_to_do(cache, uninterrupted):
    before = {path: path.stat().st_mtime_ns for path in uninterrupted.glob("tasks/**/*.csv")}
    assert len(before) == 24
    content = (uninterrupted / "rows.csv").read_bytes()
    kmdr(cache, *SWEEP, "runner.n_jobs=2", f"out={uninterrupted}")
    assert {path: path.stat().st_mtime_ns for path in uninterrupted.glob("tasks/**/*.csv")} == before
    assert (uninterrupted / "rows.csv").read_bytes() == content


@pytest.mark.slow
def test_killed_at_random_moments_and_repeated_it_ends_with_the_same_table(cache, uninterrupted, tmp_path):
    moments = random.Random(0)
    killed = 0
    while killed < 4:
        process = start_warm(cache, *SWEEP, "runner.n_jobs=2", f"out={tmp_path}")
        # Wait until the run does something new, then a moment more.
        done = len(list(tmp_path.glob("tasks/**/*.csv")))
        while process.poll() is None and len(list(tmp_path.glob("tasks/**/*.csv"))) <= done:
            time.sleep(0.005)
        time.sleep(moments.uniform(0, 0.1))
        if process.poll() is not None:
            break
        process.kill(group=bool(killed % 2))  # with its workers, or without
        process.wait()
        killed += 1
    assert killed >= 2, "the run was over before it could be killed; make it longer"
    kmdr(cache, *SWEEP, "runner.n_jobs=2", f"out={tmp_path}")
    assert table(tmp_path) == table(uninterrupted)
    assert not [path for path in tmp_path.rglob("*") if is_temporary(path.name)]


def is_running(pid):
    """Return whether a process runs; one that ended stays in /proc until its parent asks for its status."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the children of a process from /proc")
def test_workers_do_not_outlive_a_killed_run(cache, tmp_path):
    process = start(cache, *SWEEP, "repeats=400", "timing_repeats=0", "runner.n_jobs=2", f"out={tmp_path}")
    while not list(tmp_path.glob("tasks/**/*.csv")):
        time.sleep(0.01)
    workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    workers = [pid for pid in workers if "LokyProcess" in Path(f"/proc/{pid}/cmdline").read_text()]
    assert len(workers) == 2
    process.kill()
    process.communicate()
    until = time.monotonic() + 30
    while any(map(is_running, workers)):
        assert time.monotonic() < until, "workers idle on"
        time.sleep(0.1)


@pytest.mark.slow
def test_two_runs_at_once_on_one_folder_share_the_work(cache, uninterrupted, tmp_path):
    both = [start_warm(cache, *SWEEP, "runner.n_jobs=2", f"out={tmp_path}") for _ in range(2)]
    for process in both:
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
    assert table(tmp_path) == table(uninterrupted)
    logged = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    assert sum(entry["tasks_done"] for entry in logged) == 24, "no task was run twice"


@pytest.mark.slow
def test_interrupted_from_the_keyboard_it_says_how_to_go_on_and_keeps_what_is_done(cache, tmp_path):
    def listening():
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # shells let what runs in the background ignore it

    arguments = (*SWEEP, "repeats=400", "runner.n_jobs=1", f"out={tmp_path}")
    process = start(cache, *arguments, preexec_fn=listening)
    while not list(tmp_path.glob("tasks/**/*.csv")):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command does the rest" in err
    assert "Traceback" not in err
    assert table(tmp_path)


@pytest.mark.slow
def test_more_repetitions_or_another_r_add_rows_and_change_none(cache, uninterrupted, tmp_path):
    small = [*SWEEP, "runner.n_jobs=2", f"out={tmp_path}"]
    kmdr(cache, *small, "repeats=2", "r_grid=[3]")
    kmdr(cache, *small)
    assert table(tmp_path) == table(uninterrupted)


@pytest.mark.slow
def test_a_failure_is_told_and_kept_as_a_row_and_tried_again(cache, tmp_path):
    module = tmp_path / "broken.py"
    module.write_text(
        "import kmdr.reducers.random_projection as m\n"
        "real = m.RandomSign.reduce\n"
        "def reduce(self, A, r, rng, state):\n"
        "    if r == 3: raise ValueError('three is out')\n"
        "    return real(self, A, r, rng, state)\n"
        "m.RandomSign.reduce = reduce\n"
        "import sys\nfrom kmdr.cli.commands import main\n"
        "sys.argv = ['kmdr', *sys.argv[1:]]\nmain()\n"
    )
    arguments = ["dataset.n=60", "dataset.d=30", "r_grid=[2,3]", "repeats=2", "runner=sequential", f"out={tmp_path}/o"]
    environment = {**os.environ, "KMDR_CACHE": str(cache)}
    done = subprocess.run(
        [programs() / "python", module, *arguments],
        check=False, env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.count("failed: synth random_sign r=3 repeat=0: ValueError: three is out") == 1
    statuses = [(row["r"], row["status"]) for row in table(tmp_path / "o")]
    assert statuses == [("2", "ok"), ("2", "ok"), ("3", "failed"), ("3", "failed")]
    kmdr(cache, *arguments)
    assert [row["status"] for row in table(tmp_path / "o")] == ["ok"] * 4
