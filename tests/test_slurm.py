"""Runs on a real Slurm: munged, slurmctld and two slurmd of this machine, with ports and folders of their own."""

import importlib.util
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from uuid import uuid4

import pytest

from clusters import (
    DEADLY,
    DEADLY_CODE,
    DEADLY_NAME,
    METHODS,
    TINY,
    check_same_table,
    check_survival,
    command,
    computed,
    end,
    finished,
    free_port,
    wait_for_rows,
)
from kmdr.compose import compose
from kmdr.errors import UserError
from kmdr.jobs import run_jobs
from kmdr.run.appended import Appended, append
from kmdr.run.store import read_rows
from kmdr.run.work import Answer
from kmdr.run.workers import Lost

with suppress(ImportError):
    from kmdr.run import slurm as slurm_jobs

needs_submitit = pytest.mark.skipif(importlib.util.find_spec("submitit") is None, reason="submitit is not installed")
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "squeue", "scancel")
CONFIGURATION = """\
ClusterName=kmdr
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdPidFile={folder}/%n.pid
SlurmdLogFile={folder}/%n.log
SlurmdSpoolDir={folder}/%n
StateSaveLocation={folder}/state
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=2,batch_sched_delay=1
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=1
NodeName=node2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=1
PartitionName=all Nodes=node1,node2 Default=YES MaxTime=INFINITE State=UP
"""


# -- files that grow -------------------------------------------------------------------------------------------------


def test_values_are_read_once_and_only_when_they_are_there_in_full(tmp_path):
    path = tmp_path / "answers"
    path.touch()
    file = Appended(path)
    append(path, 1, {"a": 2})
    assert file.new() == [1, {"a": 2}]
    whole = path.read_bytes()
    append(path, "three")
    content = path.read_bytes()
    for length in range(len(whole), len(content)):
        path.write_bytes(content[:length])
        assert file.new() == []
    mended = Appended(path)
    mended.mend()
    assert path.read_bytes() == whole
    append(path, "four")
    assert file.new() == ["four"]


def test_a_damaged_value_is_not_read(tmp_path):
    path = tmp_path / "answers"
    path.touch()
    append(path, "text")
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match="is damaged"):
        Appended(path).new()


# -- settings --------------------------------------------------------------------------------------------------------


@needs_submitit
@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("runner.n_jobs=-1", "Slurm has no number of its own"),
        ("runner.slurm.time=0", "runner.slurm.time = 0 is not a whole number"),
        ("runner.slurm.time='1:00:00'", "runner.slurm.time = '1:00:00' is not a whole number"),
        ("+runner.slurm.nodes=2", "runner.slurm.nodes is kmdr's to say"),
        ("runner.folder=3", "runner.folder = 3 is no folder"),
        ("runner.slurm=3", "runner.slurm = 3 are no parameters"),
    ],
)
def test_settings_are_refused_before_anything_is_done(setting, sentence):
    with pytest.raises(UserError, match=re.escape(sentence)):
        compose(*TINY, "reducer=svd", "runner=slurm", setting)


@needs_submitit
def test_that_there_is_no_slurm_is_told_of_in_a_sentence(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="no Slurm answers here"):
        run_jobs([compose(*TINY, "reducer=svd", "runner=slurm", "out=o")])


# -- the driver, with elements that are threads here -----------------------------------------------------------------


class Played:
    """A Slurm whose elements answer every call with its number, but for those that it is told of.

    Parameters
    ----------
    fates : mapping of int to list of str
        What becomes of the elements that are at a call, one time after the other: they vanish, or are stopped and
        begin again.
    """

    def __init__(self, fates, begins=True):
        self.fates, self.begins, self.known, self.threads = fates, begins, [], []

    def submit_array(self, elements):
        jobs = [SimpleNamespace(job_id=f"{len(self.known)}_{i}") for i, _ in enumerate(elements)]
        if self.begins:
            self.known += [job.job_id for job in jobs]
            self.threads += [Thread(target=self.play, args=pair) for pair in zip(elements, jobs, strict=True)]
            for thread in self.threads[-len(jobs) :]:
                thread.start()
        return jobs

    def play(self, element, job):
        with suppress(FileNotFoundError):  # the run is over
            while self.live(element) == "is stopped":
                pass
        self.known.remove(job.job_id)

    def live(self, element):
        life, calls = uuid4().hex, Appended(element._calls)
        append(element._answers, slurm_jobs._Alive(life))
        while True:
            for given in calls.new():
                if given.life != life:
                    continue
                if given.call is None:
                    return "ends"
                (number,) = given.call
                append(element._answers, slurm_jobs._Begun(given.number))
                if self.fates.get(number):
                    fate = self.fates[number].pop()
                    if fate == "is stopped":
                        append(element._answers, slurm_jobs._Stopped())
                    return fate
                append(element._answers, slurm_jobs._Answered(given.number, Answer([{"number": number}])))
            time.sleep(0.01)

    def ask(self, *command):
        return [f"{job} None" for job in self.known] if command[0] == "squeue" else []


@pytest.fixture
def play(tmp_path, monkeypatch):
    """Return a function that does calls by elements with these fates, and gives numbers, reasons and what was told."""
    monkeypatch.setattr(slurm_jobs, "_TURN_SECONDS", 0.01)
    monkeypatch.setattr(slurm_jobs, "_LOOK_SECONDS", 0.03)
    monkeypatch.setattr(slurm_jobs, "named", lambda call: f"call {call[0]}")
    monkeypatch.setattr(slurm_jobs.Cluster, "_arguments", lambda self, call: call)

    def play(calls, size, fates, **how):
        played, told = Played(fates, **how), []
        monkeypatch.setattr(slurm_jobs.Cluster, "_executor", lambda self: played)
        monkeypatch.setattr(slurm_jobs, "_ask", played.ask)
        with slurm_jobs.connected(str(tmp_path / "shared"), {}, size, 1) as cluster:
            answers = list(cluster.perform(((i,) for i in range(calls)), told.append))
        for thread in played.threads:
            thread.join()
        assert not (tmp_path / "shared").exists()
        assert all(answer.rows == [{"number": i}] for (i,), answer in answers if isinstance(answer, Answer))
        return (
            sorted(i for (i,), answer in answers if isinstance(answer, Answer)),
            {i: answer.reason for (i,), answer in answers if isinstance(answer, Lost)},
            told,
        )

    return play


@needs_submitit
@pytest.mark.parametrize("size", [1, 3, 20])
def test_every_call_is_answered_once_whatever_becomes_of_elements(play, size):
    fates = {3: ["vanishes"], 7: ["is stopped", "vanishes"], 11: ["is stopped"], 12: ["vanishes", "vanishes"]}
    answered, lost, told = play(40, size, fates)
    assert (answered, lost) == (list(range(40)), {})
    assert "kmdr: call 3: its job ended; the task is tried again" in told


@needs_submitit
def test_a_call_that_ends_its_elements_three_times_is_lost_and_no_other_is(play):
    answered, lost, _ = play(20, 2, {5: ["vanishes"] * 9, 6: ["is stopped"] * 9})
    assert answered == [i for i in range(20) if i not in (5, 6)]
    assert lost[5] == "its job ended, 3 times"
    assert lost[6] == "its job was stopped before it was done, 3 times"


@needs_submitit
def test_elements_that_do_not_begin_are_told_of(play):
    with pytest.raises(UserError, match=r"jobs of Slurm end before they begin, 3 times; is .*/shared a folder that"):
        play(5, 2, {}, begins=False)


# -- Slurm -----------------------------------------------------------------------------------------------------------


class Slurm:
    """Daemons, each a session of its own."""

    def __init__(self, folder, stack):
        self.folder, self.stack = folder, stack
        self.folder.mkdir(mode=0o755)
        (folder / "state").mkdir()
        key = folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        settings = {"host": socket.gethostname().partition(".")[0], "user": pwd.getpwuid(os.getuid()).pw_name}
        text = CONFIGURATION.format(**settings, folder=folder, ports=[free_port() for _ in range(3)])
        (folder / "slurm.conf").write_text(text)
        self.environment = os.environ | {"SLURM_CONF": str(folder / "slurm.conf")}
        self.start(
            "munged", "--foreground", "--force", "--num-threads=2", f"--key-file={key}",
            *(f"--{name}-file={folder}/munge.{name}" for name in ("log", "pid", "seed")),
            f"--socket={folder}/munge.socket",
        )  # fmt: skip
        self.start_controller()
        for name in ("node1", "node2"):
            self.start("slurmd", "-D", "-N", name)

    def start(self, *arguments):
        log = self.stack.enter_context((self.folder / f"{arguments[0]}.out").open("a"))
        process = subprocess.Popen(
            arguments, cwd=self.folder, env=self.environment, stdout=log, stderr=log, start_new_session=True
        )
        self.stack.callback(end, process)
        return process

    def start_controller(self):
        self.controller = self.start("slurmctld", "-D")

    def ask(self, *arguments):
        done = subprocess.run(arguments, env=self.environment, capture_output=True, text=True, check=False)
        return done.stdout.split("\n")[:-1]

    def jobs(self, *how):
        return self.ask("squeue", "-h", "-r", "-o", "%i", *how)

    def running(self):
        return self.jobs("--states=RUNNING")

    def wait(self, seconds, condition, why):
        until = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > until:
                logs = [path.read_text(errors="replace")[-1500:] for path in self.folder.glob("*.log")]
                pytest.fail("\n".join([why, *logs]))
            time.sleep(0.2)

    def stop(self):
        for job in self.jobs():
            self.ask("scancel", job)
        with suppress(pytest.fail.Exception):
            self.wait(20, lambda: not self.jobs(), "jobs go on")


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    lacking = [program for program in PROGRAMS if not shutil.which(program)]
    if lacking:
        pytest.skip(f"{', '.join(lacking)} not installed")
    with ExitStack() as stack:
        slurm = Slurm(tmp_path_factory.mktemp("slurm") / "daemons", stack)
        stack.callback(slurm.stop)
        slurm.wait(60, lambda: slurm.ask("sinfo", "-h", "-o", "%T %D") == ["idle 2"], "nodes do not come up")
        yield slurm


@pytest.fixture
def here(slurm, tmp_path, monkeypatch):
    """A working folder with a cache, and Slurm at hand."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
    return tmp_path


ON_SLURM = ("runner=slurm", "runner.n_jobs=2", "out=slurm")


@needs_submitit
@pytest.mark.slow
def test_a_run_on_slurm_has_the_rows_of_a_run_here(slurm, here):
    settings = (*TINY, "repeats=4", "reducer=random_sign")
    assert run_jobs([compose(*settings, *ON_SLURM)]) == 0
    assert run_jobs([compose(*settings, "runner=sequential", "out=here")]) == 0
    rows = check_same_table(here / "slurm", here / "here")
    assert {row["concurrency"] for row in rows} == {"2"}
    assert not (here / "slurm" / "slurm").exists()


@needs_submitit
@pytest.mark.long
def test_nodes_without_the_data_read_them_where_the_driver_has_or_puts_them(slurm, here, monkeypatch):
    """Nodes have no cache that could be written, so they can make nothing of the file either."""
    (here / "own.csv").write_text("".join(f"{i % 7},{i * i % 11},{i % 3}\n" for i in range(40)))
    settings = ("dataset=file", "dataset.path=own.csv", "dataset.k=2", "r_grid=[2]", "reducer=svd", "repeats=3")
    assert run_jobs([compose(*settings, "runner=sequential", "out=here")]) == 0
    rows = read_rows(here / "here" / "rows.csv")
    arguments = slurm_jobs.Cluster._arguments
    for name, places in (
        ("seen", lambda self, call: (call[0].folder,)),
        ("put", lambda self, call: (str(self._data_of(call[0])),)),
    ):
        monkeypatch.setattr(
            slurm_jobs.Cluster,
            "_arguments",
            lambda self, call, places=places: (*arguments(self, call)[:-1], places(self, call)),
        )
        setup = "+runner.slurm.setup=['export KMDR_CACHE=/dev/null/cache']"
        on_slurm = ("runner=slurm", "runner.n_jobs=2", f"out={name}", setup)
        assert run_jobs([compose(*settings, *on_slurm)]) == 0
        assert computed(read_rows(here / name / "rows.csv")) == computed(rows)


@needs_submitit
@pytest.mark.long
def test_a_task_that_ends_its_jobs_three_times_is_a_failed_row(slurm, here, monkeypatch):
    """Its worker is ended and what watches over it too, as when memory runs out; other tasks go on."""
    (here / "deadly.py").write_text(DEADLY_CODE.replace("os.getpid()", "os.getppid()"))
    monkeypatch.syspath_prepend(here)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(here), os.environ.get("PYTHONPATH", "")]))
    settings = (*TINY, *ON_SLURM)
    assert run_jobs([compose(*settings, "repeats=4", "reducer=svd"), compose(*settings, *DEADLY)]) == 1
    rows = read_rows(here / "slurm" / "rows.csv")
    errors = {(row["reducer"], row["status"], row["error"]) for row in rows}
    assert errors == {("svd", "ok", ""), (DEADLY_NAME, "failed", "its job ended, 3 times")}


@needs_submitit
@pytest.mark.long
def test_jobs_that_slurm_does_not_take_or_that_end_before_they_begin_are_told_of_in_a_sentence(slurm, here):
    settings = (*TINY, "reducer=svd", *ON_SLURM)
    for setting, sentence in (
        ("runner.slurm.partition=nowhere", "Slurm takes no jobs (sbatch: error: invalid partition specified: nowhere"),
        ("+runner.slurm.nodelst=node1", "runner.slurm: Unavailable parameter(s): ['nodelst']"),
        ("+runner.slurm.setup=['echo no more >&2; exit 3']", "jobs of Slurm end before they begin, 3 times"),
    ):
        with pytest.raises(UserError, match=re.escape(sentence)):
            run_jobs([compose(*settings, setting)])
        slurm.wait(10, lambda: not slurm.jobs(), "jobs go on")


def end_elements(folder):
    """End the processes of jobs, and nothing else, as if their nodes had gone."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if b"submitit.core._submit" in words and any(word.startswith(bytes(folder)) for word in words):
                os.kill(int(process.name), signal.SIGKILL)


RUN = ("-m", *TINY, METHODS, "timing_repeats=1")


@needs_submitit
@pytest.mark.long
def test_a_run_on_slurm_survives_its_jobs_and_its_controller_and_ends_as_on_one_machine(slurm, here):
    """A job is cancelled in the middle, another requeued as when its time is over; Slurm and its nodes go; the driver
    dies.
    """
    run = (*RUN, "repeats=100")
    first = command(here, *run, *ON_SLURM)
    wait_for_rows(here / "slurm", 8)
    slurm.ask("scancel", slurm.running()[0])
    wait_for_rows(here / "slurm", 60)
    slurm.wait(30, slurm.running, "no job runs")
    slurm.ask("scancel", "--signal=USR2", slurm.running()[-1])
    wait_for_rows(here / "slurm", 120)
    end(slurm.controller)
    end_elements(here)
    status, said = finished(first)
    slurm.start_controller()
    assert status == 2
    assert "kmdr: Slurm is gone" in said
    assert "Traceback" not in said, said
    kept = {path: path.read_bytes() for path in (here / "slurm").glob("tasks/*/*/*/*.csv")}

    second = command(here, *run, *ON_SLURM)
    wait_for_rows(here / "slurm", len(kept) + 5)
    os.killpg(second.pid, signal.SIGKILL)
    finished(second)
    slurm.wait(15, lambda: not slurm.running(), "jobs go on without a driver")

    check_survival(here, "slurm", kept, run, *ON_SLURM)


@needs_submitit
@pytest.mark.long
def test_an_interrupted_run_leaves_no_jobs(slurm, here):
    process = command(here, *RUN, "repeats=100", *ON_SLURM)
    wait_for_rows(here / "slurm", 8)
    process.send_signal(signal.SIGINT)
    status, said = finished(process)
    assert (status, "Traceback" in said) == (130, False), said
    slurm.wait(10, lambda: not slurm.jobs(), "jobs go on")
    assert not (here / "slurm" / "slurm").exists()
