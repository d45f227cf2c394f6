"""Runs on real clusters: processes of a scheduler and of workers that share nothing with the driver but a socket."""

import importlib.util
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import kmdr
from clusters import (
    DEADLY,
    DEADLY_CODE,
    DEADLY_NAME,
    METHODS,
    TINY,
    check_same_table,
    check_stamps,
    check_survival,
    command,
    computed,
    end,
    finished,
    free_port,
    wait_for_rows,
)
from forked import programs
from kmdr import datasets
from kmdr.base.errors import UserError
from kmdr.base.provenance import machine
from kmdr.cli.jobs import run_jobs
from kmdr.datasets import prepare, prepared_by_content
from kmdr.datasets import transfer as sent
from kmdr.harness.engines import contract as work
from kmdr.harness.engines.contract import Answer, Lacking, Refused, serve
from kmdr.harness.engines.local import Lost
from kmdr.harness.jobs import compose
from kmdr.harness.task import Provenance
from kmdr.results.reader import read_rows

needs_dask = pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="distributed is not installed")
needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")


# -- what a worker does ----------------------------------------------------------------------------------------------


@pytest.fixture
def task(tmp_path, monkeypatch):
    """A task whose data lie in the driver's cache, and this process with a cache of its own, as a worker."""
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "driver"))
    monkeypatch.setattr(work, "_folders", {})
    file = tmp_path / "own.csv"
    np.savetxt(file, np.random.default_rng(0).standard_normal((40, 6)), delimiter=",")
    (experiment,) = compose("dataset=file", f"dataset.path={file}", "dataset.k=2", "r_grid=[2]").experiments
    folder = prepare("file", experiment.options)
    task = experiment.tasks(datasets.open_prepared(folder), folder)[0]
    file.unlink()
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "worker"))
    return task


PROVENANCE = Provenance(concurrency=2, threads=1, code_version="driver", env_hash="0" * 12)


def test_a_worker_without_the_data_says_so_and_takes_them_in_blocks_or_as_a_whole(task, monkeypatch):
    code = task.current_code
    assert serve(task, PROVENANCE, code) == Lacking()
    monkeypatch.setattr(sent, "_BLOCK_BYTES", 200)
    folder = Path(task.folder)
    blocks = list(sent.blocks_of(folder))
    assert len(blocks) > 5
    for block in [*blocks[::-1], blocks[0]]:
        sent.receive(task.data_sha256, block)
    kept = sent.keep_received(sent.meta_of(folder))
    assert prepared_by_content() == {task.data_sha256: kept}
    answer = serve(task, PROVENANCE, code)
    assert [row["status"] for row in answer.rows] == ["ok"]
    (row,) = answer.rows
    assert row["machine"] == machine() != ""
    assert row["code_version"] != "driver"
    assert row["env_hash"] != PROVENANCE.env_hash
    assert answer.environment["cpu"]
    again = serve(task, PROVENANCE, code, (sent.meta_of(folder), sent.arrays_of(folder)))
    assert again.rows[0]["objective"] == row["objective"]


def test_data_that_arrive_damaged_are_not_kept(task):
    folder = Path(task.folder)
    arrays = {name: array.copy() for name, array in sent.arrays_of(folder).items()}
    arrays["A.npy"][3, 2] += 1e-12
    answer = serve(task, PROVENANCE, task.current_code, (sent.meta_of(folder), arrays))
    assert [row["status"] for row in answer.rows] == ["failed"]
    assert "was damaged in transfer" in answer.rows[0]["error"]
    assert prepared_by_content() == {}


NO_CORES = "kmdr: note: the Ray cluster at node1:6379 has no cores yet; the run continues when there are some"


@pytest.mark.parametrize(("resources", "expected"), [({"memory": 1.0}, [NO_CORES]), ({"CPU": 2.0}, [])])
def test_a_ray_cluster_without_a_core_is_told_of_once(resources, expected, task, monkeypatch):
    """Nodes may join later, so the run waits, as it does on Dask; Ray itself says nothing."""
    waits = iter([False, False, False, True])
    fake = SimpleNamespace(
        util=SimpleNamespace(client=SimpleNamespace(ray=SimpleNamespace(is_connected=lambda: True))),
        cluster_resources=lambda: resources,
        remote=lambda **_: lambda _function: SimpleNamespace(remote=lambda *_given: "task"),
        wait=lambda tasks, timeout: (tasks, []) if next(waits) else ([], tasks),
        get=lambda _task: Answer([], {}),
        exceptions=SimpleNamespace(),
    )
    monkeypatch.setitem(sys.modules, "ray", fake)
    spec = importlib.util.find_spec("kmdr.harness.engines.ray")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    told = []
    (done,) = module.Cluster("node1:6379", None).perform([(task, PROVENANCE)], told.append)
    assert done == ((task, PROVENANCE), Answer([], {}))
    assert told == expected


def test_a_worker_with_other_code_makes_no_rows(task):
    answer = serve(task, PROVENANCE, "f" * 12)
    assert isinstance(answer, Refused)
    assert "install the same version of kmdr" in answer.reason


def test_a_worker_generates_what_needs_no_files(tmp_path, monkeypatch):
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "driver"))
    monkeypatch.setattr(work, "_folders", {})
    (experiment,) = compose(*TINY, "reducer=svd").experiments
    folder = prepare("synth", experiment.options)
    task = experiment.tasks(datasets.open_prepared(folder), folder)[0]
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "worker"))
    answer = serve(task, PROVENANCE, task.current_code)
    assert isinstance(answer, Answer)
    assert {row["status"] for row in answer.rows} == {"ok"}
    assert list(prepared_by_content()) == [task.data_sha256]


# -- workers that die at a task --------------------------------------------------------------------------------------


class OneWorker:
    """A scheduler with one worker, which runs tasks in their order and dies at some, as Dask treats it.

    Every task that it has then is suspected, also those that wait. If it dies after it has returned a result, the
    status of that future is no longer that of a finished one.
    """

    status, loop = "running", None

    def __init__(self, deadly, statuses):
        self.deadly, self.statuses, self.in_flight, self.ready = deadly, statuses, [], []
        self.thread_condition = threading.Condition()

    def scheduler_info(self, n_workers):
        return {"workers": {"tls://1": {"name": "1", "host": "here"}}}

    def run(self, function, workers, on_error):
        return dict.fromkeys(workers)

    def submit(self, function, task, *arguments, key, **settings):
        return SimpleNamespace(key=key, task=task, status="pending")

    def add(self, future):
        self.in_flight.append(future)

    def has_ready(self):
        return True

    def __next__(self):
        from distributed import KilledWorker

        from kmdr.harness.engines.dask import _Served

        if not self.ready and self.in_flight[0].task in self.deadly:
            self.ready, self.in_flight = self.in_flight, []
            for future in self.ready:
                future.status, future.exception = "error", lambda: KilledWorker("task", "tls://1", 2)
        if self.ready:
            return self.ready.pop(0), None
        future = self.in_flight.pop(0)
        future.status = next(self.statuses)
        return future, _Served(Answer([]), "tls://1", 0.1)


@needs_dask
@pytest.mark.parametrize("seed", range(8))
def test_only_tasks_at_which_workers_die_are_lost(seed, task, monkeypatch):
    from kmdr.harness.engines import dask

    rng = np.random.default_rng(seed)
    calls = [(replace(task, repeat=i), PROVENANCE) for i in range(12)]
    deadly = {calls[i][0] for i in rng.choice(12, size=rng.integers(0, 7), replace=False)}
    scheduler = OneWorker(
        deadly, (str(status) for status in iter(lambda: rng.choice(["finished", "lost", "pending"]), None))
    )
    monkeypatch.setattr(dask.distributed, "as_completed", lambda **_: scheduler)
    most = [None, 1, 3, 20][seed % 4]
    answers = list(dask.Cluster(scheduler, "here", most).perform(calls, print))
    assert sorted(call[0].repeat for call, _ in answers) == list(range(12))
    for call, answer in answers:
        assert answer == (Lost("its worker died, 3 times") if call[0] in deadly else Answer([]))


RESTART = """
import os, signal, time
import dask
from kmdr.harness.engines.dask import connected

with dask.config.set({"distributed.deploy.lost-worker-timeout": "10ms"}), connected(None, None, 1) as cluster:
    (first,) = cluster._client.run(os.getpid).values()
    os.kill(first, signal.SIGKILL)
    until = time.monotonic() + 120
    while first in (numbers := set(cluster._client.run(os.getpid, on_error="ignore").values())) or not numbers:
        assert time.monotonic() < until
        time.sleep(0.2)
print("another worker")
"""


@needs_dask
@pytest.mark.slow
def test_a_worker_of_a_local_cluster_that_died_comes_back_however_long_it_takes():
    # In a process of its own, so that this one keeps none of its threads.
    done = subprocess.run([sys.executable, "-c", RESTART], check=False, capture_output=True, text=True, timeout=300)
    assert done.stdout == "another worker\n", done.stderr


# -- real clusters ---------------------------------------------------------------------------------------------------


def listens(port):
    """Whether somebody answers at a port of this machine."""
    with socket.socket() as plain:
        return plain.connect_ex(("127.0.0.1", port)) == 0


class Cluster:
    """A head and workers, each a session of its own with a working folder and a cache that nobody else has.

    With `forked.programs` as its ``interpreter``, they are forks that need no imports; these cannot be stopped.
    """

    interpreter = sys.executable

    def __init__(self, folder, stack):
        self.folder, self.stack = folder, stack
        self.port = free_port()
        self.workers = []

    def start(self, name, *arguments, **environment):
        place = self.folder / name
        place.mkdir(parents=True, exist_ok=True)
        environment = {
            "KMDR_CACHE": str(place / "cache"), "PYTHONPATH": f"{Path(datasets.__file__).parents[2]}:{self.folder}",
            "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **environment
        }  # fmt: skip
        environment = {name: value for name, value in os.environ.items() if name != "KMDR_DATA"} | environment
        log = self.stack.enter_context((place / "log").open("a"))
        process = subprocess.Popen(
            [self.interpreter, "-m", *arguments], cwd=place, env=environment, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
        self.stack.callback(end, process)
        return process


class Dask(Cluster):
    repeats = 60

    @property
    def settings(self):
        return ("runner=dask", f"runner.address=tcp://127.0.0.1:{self.port}")

    def start_head(self):
        arguments = ("distributed.cli.dask_scheduler", "--port", str(self.port), "--no-dashboard")
        self.head = self.start("head", *arguments, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="2")
        until = time.monotonic() + 60  # the first fork waits for the imports of the server
        while not listens(self.port):
            assert time.monotonic() < until, (self.folder / "head" / "log").read_text()
            time.sleep(0.1)

    def start_worker(self, **environment):
        alone = ("--nworkers", "1", "--nthreads", "1", "--no-dashboard", "--local-directory", "tmp")
        arguments = ("distributed.cli.dask_worker", f"tcp://127.0.0.1:{self.port}", *alone)
        self.workers.append(self.start(f"worker{len(self.workers)}", *arguments, **environment))

    def wait_for_workers(self):
        from distributed import Client

        with Client(f"tcp://127.0.0.1:{self.port}", timeout=20) as client:
            client.wait_for_workers(len(self.workers), timeout=60)

    def busy(self):
        """Tasks that workers are at."""
        from distributed import Client

        with Client(f"tcp://127.0.0.1:{self.port}", timeout=20) as client:
            return sum(map(len, client.processing().values()))


class ForkedDask(Dask):
    @property
    def interpreter(self):
        return programs() / "python"


class Ray(Cluster):
    repeats = 1500  # whose nodes take seconds to start

    @property
    def settings(self):
        return ("runner=ray", f"runner.address=127.0.0.1:{self.port}")

    def start_head(self):
        self.port = free_port()  # a head that was killed leaves notes that its place and its port are taken
        place = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="ray"))  # its sockets have short names only
        arguments = ("--port", str(self.port), "--num-cpus", "0", "--include-dashboard=false", "--temp-dir", place)
        self.head = self.node(f"head{self.port}", "--head", *arguments)

    def start_worker(self):
        node = ("--address", f"127.0.0.1:{self.port}", "--num-cpus", "1")
        self.workers.append(self.node(f"worker{len(self.workers)}", *node))

    def node(self, name, *arguments, **environment):
        """Start a head or a node, and wait until it is there: two of one machine must not start at once."""
        process = self.start(name, "ray.scripts.scripts", "start", *arguments, "--block", **environment)
        until = time.monotonic() + 60
        while "Ray runtime started" not in (self.folder / name / "log").read_text():
            assert time.monotonic() < until, (self.folder / name / "log").read_text()
            time.sleep(0.2)
        return process

    def busy(self):
        return subprocess.check_output(["ps", "-eo", "args"], text=True).count("ray::serve")


@pytest.fixture
def cluster(request, tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    with ExitStack() as stack:
        cluster = request.param(tmp_path / "cluster", stack)
        cluster.start_head()
        for _ in range(2):
            cluster.start_worker()
        yield cluster


def on(dask_cluster=Dask, **marks):
    """On each engine that is installed."""
    engines = [
        pytest.param(dask_cluster, marks=[needs_dask, marks["dask"]], id="dask"),
        pytest.param(Ray, marks=[needs_ray, marks["ray"]], id="ray"),
    ]
    return pytest.mark.parametrize("cluster", engines, indirect=True)


@on(ForkedDask, dask=pytest.mark.slow, ray=pytest.mark.long)
def test_a_run_on_a_cluster_has_the_rows_of_a_run_here(cluster, tmp_path, monkeypatch):
    """Workers have caches and working folders of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))

    def run(out, *runner):
        settings = (*TINY, "repeats=4", *runner, f"out={out}")
        assert run_jobs([compose(*settings, f"reducer={name}") for name in ("none", "random_sign")]) == 0
        return read_rows(tmp_path / out / "rows.csv")

    rows = run("there", *cluster.settings)
    assert computed(rows) == computed(run("here", "runner=sequential"))
    check_stamps(rows, tmp_path / "there")
    assert {row["concurrency"] for row in rows} == {"2"}
    assert not any(path.name in ("rows.csv", ".lock", "tasks") for path in cluster.folder.rglob("*"))


def broken_package(folder):
    """A package kmdr that cannot be imported."""
    (folder / "kmdr").mkdir(parents=True)
    (folder / "kmdr" / "__init__.py").write_text("raise RuntimeError('half an installation')")
    return {"PYTHONPATH": str(folder)}


def package_without_registry(folder):
    """A copy of the package alone, without the registry of datasets and the configurations."""
    shutil.copytree(Path(kmdr.__file__).parent, folder / "kmdr", ignore=shutil.ignore_patterns("__pycache__"))
    return {"PYTHONPATH": str(folder)}


@needs_dask
@pytest.mark.slow
def test_dask_workers_that_cannot_run_kmdr_are_left_out(tmp_path):
    with ExitStack() as stack:
        cluster, forked = (kind(tmp_path / "cluster", stack) for kind in (Dask, ForkedDask))
        forked.port, forked.workers = cluster.port, cluster.workers
        forked.start_head()
        cluster.start_worker(**broken_package(tmp_path / "broken"))  # what a fork has, it does not import
        cluster.start_worker(**package_without_registry(tmp_path / "partial"))
        cluster.wait_for_workers()
        run = (*TINY, "repeats=4", "reducer=random_sign", *cluster.settings, "out=there")
        status, said = finished(command(tmp_path, *run, interpreter=forked.interpreter))
        assert (status, "Traceback" in said) == (2, False), said
        assert said.count("kmdr: error: none of the 2 workers of") == 1, said
        forked.start_worker()
        cluster.wait_for_workers()
        status, said = finished(command(tmp_path, *run, interpreter=forked.interpreter))
        assert (status, "Traceback" in said) == (0, False), said
        (line,) = [line for line in said.splitlines() if "excluded" in line]
        assert line.count("tcp://") >= 2
    rows = read_rows(tmp_path / "there" / "rows.csv")
    assert [row["status"] for row in rows] == ["ok"] * 8


@needs_dask
@pytest.mark.slow
def test_a_dask_worker_that_cannot_run_kmdr_and_joins_late_is_left_out(tmp_path):
    with ExitStack() as stack:
        cluster = Dask(tmp_path / "cluster", stack)
        cluster.start_head()
        cluster.start_worker()
        cluster.wait_for_workers()
        run = (*TINY, "repeats=300", "reducer=random_sign", *cluster.settings, "out=there")
        process = command(tmp_path, *run, interpreter=programs() / "python")
        wait_for_rows(tmp_path / "there", 4)
        (good,) = cluster.workers
        os.killpg(good.pid, signal.SIGSTOP)  # so that the other joins before the end
        cluster.start_worker(**broken_package(tmp_path / "broken"))
        log, until = cluster.folder / "worker1" / "log", time.monotonic() + 60
        while "Registered to" not in log.read_text() and time.monotonic() < until:
            time.sleep(0.1)
        os.killpg(good.pid, signal.SIGCONT)
        status, said = finished(process)
        # A worker that Dask gives a task before the run looks at it cannot read the message, and ends by itself.
        ended = "half an installation" in log.read_text()
    assert (status, "Traceback" in said) == (0, False), said
    assert said.count("left out") == 1 or ended, said
    rows = read_rows(tmp_path / "there" / "rows.csv")
    assert [row["status"] for row in rows] == ["ok"] * 600


@needs_ray
def test_a_head_that_is_not_there_is_told_of_in_a_sentence(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(UserError, match=re.escape(f"no Ray head answers at {address}")):
        run_jobs([compose(*TINY, "reducer=svd", "runner=ray", f"runner.address={address}", "out=o")])


@needs_ray
@pytest.mark.long
@pytest.mark.parametrize("cluster", [Ray], indirect=True)
def test_a_head_that_asks_for_a_token_is_told_of_in_a_sentence(cluster, tmp_path):
    """Ray's heads do since a token was ever made on their machine, as `ray.init` does; whoever joins has to say so."""
    cluster.port = free_port()
    tokens = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 2}
    arguments = ("--head", "--port", str(cluster.port), "--num-cpus", "1", "--include-dashboard=false")
    cluster.node("guarded", *arguments, **tokens)
    status, said = finished(command(tmp_path, *TINY, "reducer=svd", *cluster.settings, "out=ray"))
    assert (status, "Traceback" in said) == (2, False), said
    assert f"kmdr: error: Ray at 127.0.0.1:{cluster.port} cannot be joined" in said
    assert "RAY_AUTH_MODE=token" in said


@on(dask=pytest.mark.long, ray=pytest.mark.long)
def test_a_task_that_kills_its_worker_three_times_is_a_failed_row(cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))
    (cluster.folder / "deadly.py").write_text(DEADLY_CODE)
    monkeypatch.syspath_prepend(cluster.folder)
    there = (*TINY, *cluster.settings, "out=there")
    assert run_jobs([compose(*there, "repeats=4", "reducer=svd"), compose(*there, *DEADLY)]) == 1
    rows = read_rows(tmp_path / "there" / "rows.csv")
    errors = {(row["reducer"], row["status"], row["error"]) for row in rows}
    assert errors == {("svd", "ok", ""), (DEADLY_NAME, "failed", "its worker died, 3 times")}


@needs_dask
def test_a_scheduler_that_is_not_there_is_told_of_in_a_sentence(monkeypatch, tmp_path):
    from kmdr.harness.engines import dask

    monkeypatch.setattr(dask, "_PATIENCE_SECONDS", 1)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))
    for setting, words in (
        (f"runner.address=tcp://127.0.0.1:{free_port()}", "no Dask scheduler answers at tcp://127.0.0.1"),
        ("runner.address=nonsense", "no Dask scheduler answers at nonsense"),
        ("runner.scheduler_file=nowhere.json", "runner.scheduler_file = 'nowhere.json' is not a file"),
    ):
        with pytest.raises(UserError, match=re.escape(words)):
            run_jobs([compose(*TINY, "reducer=svd", "runner=dask", setting, "out=o")])
    # Where a scheduler goes in the middle these would tell of it, with a traceback, beside the sentence.
    told = ("asyncio", "distributed.client", "distributed.comm.tcp", "tornado.application", "tornado.general")
    assert not [name for name in told if logging.getLogger(name).isEnabledFor(logging.ERROR)]


@on(dask=pytest.mark.long, ray=pytest.mark.long)
def test_a_run_survives_its_workers_and_its_head_and_ends_as_on_one_machine(cluster, tmp_path):
    """Workers with caches of their own; one dies in the middle twice; the head dies; the driver dies."""
    run = ("-m", *TINY, METHODS, f"repeats={cluster.repeats}", "timing_repeats=1")
    there = (*cluster.settings, "out=there")
    first = command(tmp_path, *run, *there)
    for count in (8, 20):
        wait_for_rows(tmp_path / "there", count)
        end(cluster.workers[-1])
        cluster.start_worker()
    wait_for_rows(tmp_path / "there", 30)
    end(cluster.head)
    status, said = finished(first)
    assert status == 2
    (sentence,) = [line for line in said.splitlines() if line.startswith("kmdr: ")]
    assert re.match(
        r"kmdr: error: the (scheduler|Ray head) at \S+ no longer answers; finished tasks are kept", sentence
    )
    assert "Traceback" not in said, said
    kept = {path: path.read_bytes() for path in (tmp_path / "there").glob("tasks/*/*/*/*.csv")}
    assert len(kept) >= 30

    cluster.start_head()
    for _ in range(2):
        cluster.start_worker()
    there = (*cluster.settings, "out=there")
    second = command(tmp_path, *run, *there)
    wait_for_rows(tmp_path / "there", len(kept) + 5)
    os.killpg(second.pid, signal.SIGKILL)
    finished(second)
    until = time.monotonic() + 10
    while cluster.busy():
        assert time.monotonic() < until
        time.sleep(0.2)

    check_survival(tmp_path, "there", kept, run, *there)


@needs_ray
@pytest.mark.long
def test_a_run_on_ray_that_it_starts_itself_has_the_rows_of_a_run_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))
    settings = (*TINY, "reducer=random_sign", "repeats=4")
    assert run_jobs([compose(*settings, "runner=ray", "runner.n_jobs=2", "out=ray")]) == 0
    assert run_jobs([compose(*settings, "runner=sequential", "out=here")]) == 0
    check_same_table(tmp_path / "ray", tmp_path / "here")
