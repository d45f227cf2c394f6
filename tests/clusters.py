"""What tests of runs on clusters share: tiny runs, commands as processes, what rows are to have in common."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import kmdr
from kmdr.base.provenance import machine
from kmdr.results.reader import read_rows
from kmdr.results.schema import TIME_COLUMNS

# What says where and when a row was made, and with whom.
MADE = {*TIME_COLUMNS, "concurrency", "env_hash", "machine", "code_version"}
TINY = ("dataset=synth", "dataset.n=60", "dataset.d=10", "dataset.k=2", "r_grid=[2,3]", "kmeans.n_init=2")
METHODS = "reducer=none,random_sign,svd"
DEADLY_NAME = "deadly.Deadly"
DEADLY_CODE = """
import os
import signal

class Deadly:
    def __init__(self, n_components):
        self.n_components = n_components

    def fit_transform(self, A):
        os.kill(os.getpid(), signal.SIGKILL)
"""
DEADLY = ("reducer=outside", f"reducer.path={DEADLY_NAME}", "repeats=1")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def end(process):
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)


def command(tmp_path, *arguments, interpreter=sys.executable):
    environment = os.environ | {
        "KMDR_CACHE": str(tmp_path / "cache"),
        "PYTHONPATH": os.pathsep.join([str(Path(kmdr.__file__).parents[1]), str(tmp_path)]),
    }
    return subprocess.Popen(
        [interpreter, "-m", "kmdr", *arguments], cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def finished(process, seconds=300):
    _, said = process.communicate(timeout=seconds)
    return process.returncode, said


def computed(rows):
    """What rows say apart from where and when they were made."""
    return [{name: value for name, value in row.items() if name not in MADE} for row in rows]


def wait_for_rows(folder, count, seconds=120):
    until = time.monotonic() + seconds
    while len(list(folder.glob("tasks/*/*/*/*.csv"))) < count:
        assert time.monotonic() < until
        time.sleep(0.1)


def check_same_table(folder, sequential):
    """The rows of a cluster, which are returned, are those of a run here."""
    rows = read_rows(folder / "rows.csv")
    assert computed(rows) == computed(read_rows(sequential / "rows.csv"))
    check_stamps(rows, folder)
    return rows


def check_survival(tmp_path, name, kept, run, *engine):
    """The same command goes on after its driver was killed, leaves what was done, and gives a sequential run's rows."""
    status, said = finished(command(tmp_path, *run, *engine))
    assert (status, "Traceback" in said) == (0, False), said
    assert all(path.read_bytes() == content for path, content in kept.items())
    status, said = finished(command(tmp_path, *run, "runner=sequential", "out=here"))
    assert status == 0, said
    rows = check_same_table(tmp_path / name, tmp_path / "here")
    assert {(row["repeat"] == "0", row["concurrency"] == "1") for row in rows} == {(True, True), (False, False)}


def check_stamps(rows, folder):
    assert {row["machine"] for row in rows} == {machine()}
    for row in rows:
        assert json.loads((folder / "environments" / f"{row['env_hash']}.json").read_text())["cpu"]
