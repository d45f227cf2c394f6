"""Runs whose workers are jobs: on a Slurm made of shell scripts, and on a real one where it is installed."""

import functools
import importlib.util
import os
import pwd
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace

import dask as configuration
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
    end,
    finished,
    free_port,
)
from forked import programs
from kmdr.base.errors import UserError
from kmdr.base.signals import INTERRUPTED
from kmdr.cli.jobs import run_jobs
from kmdr.harness.engines.settings import SYSTEMS
from kmdr.harness.jobs import compose
from kmdr.results.reader import read_rows

if importlib.util.find_spec("dask_jobqueue") is None or importlib.util.find_spec("cryptography") is None:
    pytest.skip("dask-jobqueue or cryptography is not installed", allow_module_level=True)

import dask_jobqueue  # noqa: F401 - its defaults are there before a test changes some of them
import distributed

from kmdr.harness.engines import batch, dask

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
# Jobs are local processes, each in a session of its own. A job's number is that of its session.
SBATCH = """\
#!/bin/bash
script="${@: -1}"
if grep -q '^#SBATCH -p nowhere' "$script"; then
  echo 'sbatch: error: invalid partition specified: nowhere' >&2
  exit 1
fi
log=$(sed -n 's/^#SBATCH -e //p' "$script")
job=$(mktemp "$FAKE_SLURM/script.XXXXXX")
cp "$script" "$job"
setsid bash -c 'exec 2> "${0/\\%J/$$}"; exec bash "$1"' "$log" "$job" < /dev/null > /dev/null 2>&1 &
touch "$FAKE_SLURM/job.$!"
echo "Submitted batch job $!"
"""
SCANCEL = """\
#!/bin/bash
pkill -TERM --session "$1"
for _ in 1 2 3 4 5; do
  pgrep --session "$1" > /dev/null || exit 0
  sleep 0.2
done
pkill -KILL --session "$1"
exit 0
"""


class Scripts:
    """A Slurm of two shell scripts."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "bin").mkdir(parents=True)
        for name, text in (("sbatch", SBATCH), ("scancel", SCANCEL)):
            (folder / "bin" / name).write_text(text)
            (folder / "bin" / name).chmod(0o755)
        path = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])
        self.environment = {"PATH": path, "FAKE_SLURM": str(folder)}

    def submitted(self):
        return len(list(self.folder.glob("job.*")))

    def jobs(self):
        """Return the jobs of which a process is left."""
        numbers = sorted(path.suffix[1:] for path in self.folder.glob("job.*"))
        return [
            job
            for job in numbers
            if subprocess.run(["pgrep", "--session", job], stdout=-3, check=False).returncode == 0
        ]

    def kill(self, job):
        """End a job as when its node fails."""
        subprocess.run(["pkill", "-KILL", "--session", job], check=False)

    def stop(self):
        for job in self.jobs():
            self.kill(job)


class Slurm:
    """Munged, slurmctld and two slurmd of this machine, with ports and folders of their own."""

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
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf")}
        self.start(
            "munged", "--foreground", "--force", "--num-threads=2", f"--key-file={key}",
            *(f"--{name}-file={folder}/munge.{name}" for name in ("log", "pid", "seed")),
            f"--socket={folder}/munge.socket",
        )  # fmt: skip
        self.start("slurmctld", "-D")
        for name in ("node1", "node2"):
            self.start("slurmd", "-D", "-N", name)

    def start(self, *arguments):
        log = self.stack.enter_context((self.folder / f"{arguments[0]}.out").open("a"))
        process = subprocess.Popen(
            arguments, cwd=self.folder, env=os.environ | self.environment, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
        self.stack.callback(end, process)

    def ask(self, *arguments):
        environment = os.environ | self.environment
        return subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False).stdout.split()

    def submitted(self):
        return len(self.ask("squeue", "-h", "--states=all", "-o", "%i"))

    def jobs(self):
        return self.ask("squeue", "-h", "-o", "%i")

    def kill(self, job):
        self.ask("scancel", "--signal=KILL", "--full", job)

    def stop(self):
        for job in self.jobs():
            self.ask("scancel", job)


@functools.cache
def lacking():
    return [program for program in PROGRAMS if not shutil.which(program)]


@pytest.fixture(params=["scripts", "slurm"])
def slurm(request, tmp_path, monkeypatch):
    """A Slurm, in a working folder with a cache."""
    with ExitStack() as stack:
        if request.param == "scripts":
            slurm = Scripts(tmp_path / "daemons")
        elif lacking():
            pytest.skip(f"{', '.join(lacking())} not installed")
        else:
            slurm = Slurm(tmp_path / "daemons", stack)
            wait(60, lambda: slurm.ask("sinfo", "-h", "-o", "%T %D") == ["idle", "2"])
        stack.callback(slurm.stop)
        monkeypatch.chdir(tmp_path)
        for name, value in {**slurm.environment, "KMDR_CACHE": str(tmp_path / "cache")}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(batch.__file__).parents[3]), str(tmp_path)]))
        monkeypatch.setenv("DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT", "1s")
        # Commands read the variable, runs in this process the configuration.
        monkeypatch.setenv("DASK_JOBQUEUE__SLURM__PYTHON", python := str(programs() / "python"))
        stack.enter_context(configuration.config.set({"jobqueue.slurm.python": python}))
        yield slurm


def forked_command(tmp_path, *arguments):
    """Start a command as a fork that needs no imports."""
    return command(tmp_path, *arguments, interpreter=programs() / "python")


def wait(seconds, condition):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.1)


def wait_for_rows(process, folder, count):
    """Wait until a command has stored so many tasks."""
    until = time.monotonic() + 300
    while len(list(folder.glob("tasks/*/*/*/*.csv"))) < count:
        assert process.poll() is None, finished(process)
        assert time.monotonic() < until
        time.sleep(0.1)


ON_SLURM = ("runner=slurm", "runner.n_jobs=2", "out=slurm")
SLOW_CODE = """
import os
import time
from sklearn.decomposition import TruncatedSVD

class Slow(TruncatedSVD):
    def fit_transform(self, A):
        time.sleep(0 if os.path.exists({fast!r}) else 0.2)
        return super().fit_transform(A)
"""
SLOW = ("reducer=outside", "reducer.path=slow.Slow")


def write_slow_method(tmp_path):
    """Write a method that takes 0.2 s until there is a file, of which the path is returned."""
    fast = tmp_path / "fast"
    (tmp_path / "slow.py").write_text(SLOW_CODE.format(fast=str(fast)))
    return fast


# -- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["runner=slurm", "runner.n_jobs=-1"], "runner.n_jobs = -1 is not possible with slurm"),
        (["runner=slurm", "runner.folder=3"], "runner.folder = 3 is not a folder"),
        (["runner=slurm", "runner.options=3"], "runner.options = 3 is not a mapping"),
        (["runner=slurm", "runner.options.n_workers=3"], "runner.options.n_workers is set by kmdr"),
        (["runner=slurm", "runner.address=tcp://node1:8786"], "use runner=dask without an address"),
        (["runner=dask", "runner.cluster=slrum", "runner.n_jobs=2"], "did you mean 'slurm'?"),
        (["runner=dask", "runner.options.queue=short"], "name the system by runner.cluster"),
        (["runner=loky", "+runner.cluster=slurm"], "use runner=dask"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_done(settings, sentence):
    with pytest.raises(UserError, match=re.escape(sentence)):
        compose(*TINY, "reducer=svd", *settings)


def test_a_preset_of_slurm_is_the_runner_dask_with_that_cluster():
    settings = ["queue=short", "walltime=02:00:00", "job_extra_directives=['--qos=high','--constraint=avx2']"]
    options = [f"runner.options.{setting}" for setting in settings]
    preset = compose(*TINY, "reducer=svd", "runner=slurm", *options).runner
    assert (preset.backend, preset.cluster) == ("dask", "slurm")
    assert {name: value for name, value in preset.options.items() if value} == {
        "queue": "short", "walltime": "02:00:00", "job_extra_directives": ["--qos=high", "--constraint=avx2"]
    }  # fmt: skip
    assert preset.folder == "results/runs/jobs"


def test_a_missing_batch_system_is_reported_in_a_sentence(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="the command sbatch is not available"):
        run_jobs([compose(*TINY, "reducer=svd", "runner=slurm", "out=o")])
    assert not (tmp_path / "o" / "jobs").exists()


def ask_without_certificate(address):
    """Connect to a scheduler as a stranger, and raise an error if it ends the connection."""
    host, _, port = address.removeprefix("tls://").rpartition(":")
    stranger = ssl.create_default_context()
    stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((host, int(port)), 10) as plain, stranger.wrap_socket(plain) as connection:
        if not connection.recv(1):
            raise ConnectionError


@pytest.mark.parametrize("system", SYSTEMS)
def test_jobs_of_every_batch_system_run_one_task_at_a_time_over_tls(system, tmp_path, monkeypatch):
    for name in ("sbatch", "qsub", "bsub", "condor_submit"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path), os.environ["PATH"]]))
    options = {"disk": "1GB"} if system == "htcondor" else {"queue": "short"}
    options |= {"memory": "6GB", "job_script_prologue": ["export MINE=1"]}
    started = {
        "system": system, "class_name": SYSTEMS[system], "size": 3, "threads": 2, "options": options,
        "folder": str(tmp_path / "jobs"),
    }  # fmt: skip
    with dask.connected(None, None, None, started) as cluster:
        script = cluster._jobs.cluster.job_script()
        assert "tls://" in script
        assert re.search("short|RequestDisk", script)
        assert re.search(r"--nthreads 1 --memory-limit 0 --no-dashboard", script)
        assert script.index("PYTHONSAFEPATH=1") < script.index("MINE=1") < script.index("dask_worker")
        assert cluster._client.scheduler.address.startswith("tls://")
        (folder,) = (tmp_path / "jobs").iterdir()
        keys = [path for path in folder.iterdir() if "key" in path.name]
        assert {path.stat().st_mode & 0o777 for path in [folder, *keys]} == {0o700, 0o600}
        with pytest.raises((ssl.SSLError, ConnectionError)):
            ask_without_certificate(cluster._client.scheduler.address)
    assert not (tmp_path / "jobs").exists()


def test_options_come_from_the_command_then_from_dask_then_from_kmdr(tmp_path):
    with configuration.config.set(
        {"jobqueue.slurm.memory": "3GB", "jobqueue.slurm.worker-extra-args": ["--lifetime", "1h"]}
    ):
        options = batch._options("slurm", 2, {"processes": 3, "queue": None}, tmp_path)
        assert (options["memory"], options["cores"], options["processes"]) == ("3GB", 6, 3)
        assert options["worker_extra_args"][-2:] == ["--lifetime", "1h"]
        assert "queue" not in options
        assert batch._options("slurm", 2, {"memory": "5GB", "cores": 8}, tmp_path)["memory"] == "5GB"


# -- runs ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_in_jobs_has_the_rows_of_a_run_here_and_leaves_nothing(slurm, tmp_path):
    settings = (*TINY, "repeats=8", "reducer=random_sign")
    assert run_jobs([compose(*settings, *ON_SLURM)]) == 0
    wait(10, lambda: not slurm.jobs())
    assert run_jobs([compose(*settings, "runner=sequential", "out=here")]) == 0
    rows = check_same_table(tmp_path / "slurm", tmp_path / "here")
    assert {row["concurrency"] for row in rows} == {"2"}
    assert not (tmp_path / "slurm" / "jobs").exists()
    assert slurm.submitted() == 2


@pytest.mark.slow
def test_no_more_jobs_are_submitted_than_there_are_tasks(slurm):
    settings = (*TINY, "repeats=1", "timing_repeats=0", "reducer=random_sign", "runner=slurm", "runner.n_jobs=20")
    assert run_jobs([compose(*settings, "out=slurm")]) == 0
    assert slurm.submitted() == 1


@pytest.mark.slow
def test_a_killed_job_is_replaced(slurm, tmp_path):
    fast = write_slow_method(tmp_path)
    process = forked_command(tmp_path, *TINY, *SLOW, "repeats=60", *ON_SLURM)
    wait_for_rows(process, tmp_path / "slurm", 8)
    wait(120, lambda: len(slurm.jobs()) == 2)
    slurm.kill(slurm.jobs()[0])
    wait(120, lambda: slurm.submitted() >= 3 and len(slurm.jobs()) == 2)
    wait_for_rows(process, tmp_path / "slurm", len([*(tmp_path / "slurm").glob("tasks/*/*/*/*.csv")]) + 4)
    fast.touch()
    status, said = finished(process)
    assert (status, "Traceback" in said) == (0, False), said
    rows = read_rows(tmp_path / "slurm" / "rows.csv")
    assert [row["status"] for row in rows] == ["ok"] * 120
    wait(10, lambda: not slurm.jobs())


@pytest.mark.slow
def test_an_interrupted_run_says_so_and_leaves_no_jobs(slurm, tmp_path):
    write_slow_method(tmp_path)
    process = forked_command(tmp_path, *TINY, *SLOW, "repeats=200", *ON_SLURM)
    wait_for_rows(process, tmp_path / "slurm", 8)
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does: to all processes of the terminal
    status, said = finished(process)
    assert (status, said.count(INTERRUPTED), "Traceback" in said) == (130, 1, False), said
    wait(10, lambda: not slurm.jobs())
    assert not (tmp_path / "slurm" / "jobs").exists()


@pytest.mark.slow
def test_jobs_end_by_themselves_when_the_command_was_killed_and_the_next_run_removes_its_folder(slurm, tmp_path):
    fast = write_slow_method(tmp_path)
    run = (*TINY, *SLOW, "repeats=20", *ON_SLURM)
    process = forked_command(tmp_path, *run)
    wait_for_rows(process, tmp_path / "slurm", 8)
    os.killpg(process.pid, signal.SIGKILL)
    finished(process)
    wait(30, lambda: not slurm.jobs())
    assert (tmp_path / "slurm" / "jobs").exists()
    fast.touch()
    status, said = finished(forked_command(tmp_path, *run))
    assert (status, "Traceback" in said) == (0, False), said
    assert not (tmp_path / "slurm" / "jobs").exists()


@pytest.mark.slow
def test_a_job_that_cannot_import_kmdr_gets_no_task(slurm, tmp_path, monkeypatch):
    monkeypatch.delenv("DASK_JOBQUEUE__SLURM__PYTHON")  # a fork has imported kmdr
    broken = tmp_path / "broken" / "kmdr"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise RuntimeError('half an installation')")
    fast = write_slow_method(tmp_path)
    first = f"mkdir {tmp_path}/first && export PYTHONPATH={broken.parent}"
    process = forked_command(
        tmp_path, *TINY, *SLOW, "repeats=30", *ON_SLURM, f"runner.options.job_script_prologue=['{first}']"
    )
    wait(120, lambda: slurm.submitted() >= 3 or process.poll() is not None)
    fast.touch()
    status, said = finished(process)
    assert (status, "Traceback" in said) == (0, False), said
    (line,) = [line for line in said.splitlines() if "a job of slurm" in line]
    assert "ended before its worker connected (RuntimeError: half an installation); another is submitted" in line
    rows = read_rows(tmp_path / "slurm" / "rows.csv")
    assert [row["status"] for row in rows] == ["ok"] * 60


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("queue=nowhere", "the last was refused (sbatch: error: invalid partition specified: nowhere"),
        (
            "job_script_prologue=['echo no more >&2','exit 3']",
            "the last ended before its worker connected (no more); change",
        ),
        ("nodelst=node1", "runner.options: Got unexpected keyword argument 'nodelst'"),
    ],
)
def test_jobs_that_never_run_end_the_command_with_a_sentence(slurm, tmp_path, option, sentence):
    with pytest.raises(UserError, match=re.escape(sentence)):
        run_jobs([compose(*TINY, "repeats=8", "reducer=svd", *ON_SLURM, f"runner.options.{option}")])
    wait(10, lambda: not slurm.jobs())
    assert not (tmp_path / "slurm" / "jobs").exists()


@pytest.mark.long
def test_a_task_that_kills_its_worker_three_times_is_a_failed_row(slurm, tmp_path, monkeypatch):
    (tmp_path / "deadly.py").write_text(DEADLY_CODE)
    monkeypatch.syspath_prepend(tmp_path)
    settings = (*TINY, *ON_SLURM)
    assert run_jobs([compose(*settings, "repeats=4", "reducer=svd"), compose(*settings, *DEADLY)]) == 1
    rows = read_rows(tmp_path / "slurm" / "rows.csv")
    errors = {(row["reducer"], row["status"], row["error"]) for row in rows}
    assert errors == {("svd", "ok", ""), (DEADLY_NAME, "failed", "its worker died, 3 times")}


@pytest.mark.long
def test_a_run_survives_its_jobs_and_its_driver_and_ends_as_on_one_machine(slurm, tmp_path):
    run = ("-m", *TINY, METHODS, "timing_repeats=1", "repeats=100")
    first = command(tmp_path, *run, *ON_SLURM)
    for count in (8, 60):
        wait_for_rows(first, tmp_path / "slurm", count)
        with suppress(IndexError):
            slurm.kill(slurm.jobs()[-1])
    wait_for_rows(first, tmp_path / "slurm", 80)
    os.killpg(first.pid, signal.SIGKILL)
    finished(first)
    kept = {path: path.read_bytes() for path in (tmp_path / "slurm").glob("tasks/*/*/*/*.csv")}
    wait(30, lambda: not slurm.jobs())
    check_survival(tmp_path, "slurm", kept, run, *ON_SLURM)


# -- adaptive clusters of others -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_adaptive_cluster_grows(tmp_path, monkeypatch):
    """Tasks take 0.2 s, and such a cluster requests another worker for each five seconds of work that it knows of."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(batch.__file__).parents[3]), str(tmp_path)]))
    monkeypatch.syspath_prepend(tmp_path)  # which workers of this process take over
    grown = write_slow_method(tmp_path)
    most = 0
    with distributed.LocalCluster(
        n_workers=0, threads_per_worker=1, dashboard_address=None, protocol="tcp://", memory_limit=0
    ) as cluster:
        cluster.adapt(minimum=0, maximum=2)
        process = forked_command(
            tmp_path,
            *TINY,
            *SLOW,
            "repeats=120",
            "runner=dask",
            f"runner.address={cluster.scheduler_address}",
            "out=there",
        )
        while process.poll() is None:
            most = max(most, len(cluster.scheduler_info["workers"]))
            if most == 2:
                grown.touch()
            time.sleep(0.1)
        status, said = finished(process)
    assert (status, "Traceback" in said) == (0, False), said
    assert most == 2
    rows = read_rows(tmp_path / "there" / "rows.csv")
    assert [row["status"] for row in rows] == ["ok"] * 240


def test_a_job_that_ends_before_dask_lists_it_is_not_taken_for_cancelled(tmp_path):
    """Jobs submitted together are listed when the last one was submitted; the run waited for such a job for ever."""
    jobs = batch.Jobs(tmp_path, "slurm", 2)
    listed = {}
    jobs.cluster = SimpleNamespace(workers=listed, loop=SimpleNamespace(add_callback=lambda *_: None, call_later=None))
    job = SimpleNamespace(
        name="0", connected=False, status=distributed.core.Status.running, log_directory=tmp_path, job_id="7"
    )
    mark = tmp_path / "a.ended"
    jobs._jobs[mark] = job
    mark.touch()
    assert jobs.replace_ended(()) == []
    listed["0"] = job
    (line,) = jobs.replace_ended(())
    assert "ended before its worker connected" in line
    assert not mark.exists()
    for status in ("closed", "failed"):  # it was cancelled, or its submission failed
        jobs._jobs[mark] = SimpleNamespace(name="1", status=distributed.core.Status[status])
        mark.touch()
        assert jobs.replace_ended(()) == []
        assert not mark.exists()


def jobs_of_a_cluster(folder, *names):
    """Return the jobs of a cluster that lists one of each name, which is also its number."""
    jobs = batch.Jobs(folder, "slurm", len(names))
    later = SimpleNamespace(add_callback=lambda *_: None, call_later=None)
    jobs.cluster = SimpleNamespace(workers={}, loop=later)
    for name in names:
        status = distributed.core.Status.running
        job = SimpleNamespace(name=name, connected=False, status=status, log_directory=folder, job_id=name)
        jobs._jobs[folder / f"{name}.ended"] = jobs.cluster.workers[name] = job
    return jobs


@pytest.mark.parametrize("connected", [False, True])
def test_a_job_that_is_requeued_may_end_twice(tmp_path, connected):
    """The second end stopped the run with a KeyError."""
    jobs = jobs_of_a_cluster(tmp_path, "0")
    mark = tmp_path / "0.ended"
    for time_of_ending in range(3):
        mark.touch()
        lines = jobs.replace_ended(["0"] if connected else [])
        assert len(lines) == (time_of_ending == 0 and not connected)
        assert not mark.exists()


def test_the_last_words_of_a_job_are_from_its_own_log(tmp_path):
    """Those of job 12 were taken for those of job 1, and a folder or an unreadable file among the logs was an error."""
    (tmp_path / "kmdr-1").mkdir()
    (tmp_path / "kmdr-12.err").write_text("of 12\n")
    (tmp_path / "a-link-to-nothing-1").symlink_to(tmp_path / "nothing")
    jobs = jobs_of_a_cluster(tmp_path, "1", "12")
    job = jobs.cluster.workers["1"]
    assert jobs._last_words(job) == ""
    for name in ("kmdr-1.err", "kmdr.e1"):  # of Slurm and of PBS
        log = tmp_path / name
        log.write_bytes(b"x" * 100_000 + b"\n\xff of 1\n\n")
        assert jobs._last_words(job) == " (\ufffd of 1)"
        log.unlink()
    assert jobs._last_words(jobs.cluster.workers["12"]) == " (of 12)"
    job.log_directory = tmp_path / "removed"
    assert jobs._last_words(job) == ""


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_job_that_is_removed_before_it_starts_is_replaced(tmp_path, monkeypatch, system):
    """It writes nothing when it ends, so the run waited for it without end."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.setattr(batch, "_QUEUE_SECONDS", 0)

    def list_jobs(text, status=0):
        program = tmp_path / "bin" / batch._QUEUE_COMMANDS[system][0]
        program.write_text(f"#!/bin/sh\nprintf '{text}'\nexit {status}\n")
        program.chmod(0o755)

    jobs = jobs_of_a_cluster(tmp_path, "71", "72", "73", "74")
    jobs._system = system
    listed = jobs.cluster.workers
    listed["73"].connected = True
    listed["72"].job_id = "72.0"  # of HTCondor
    listed["74"].job_id = None  # not submitted yet
    list_jobs("72.server\\n")
    assert jobs.replace_ended(["73"]) == [], "a queue may list a new job later"
    list_jobs("71\\n72\\n")
    assert jobs.replace_ended(["73"]) == []
    for text, status in (("", 1), ("72\\n", 0), ("", 1), ("72\\n", 0)):  # a queue that cannot be read says nothing
        list_jobs(text, status)
        assert jobs.replace_ended(["73"]) == []
    (line,) = jobs.replace_ended(["73"])
    assert line.startswith(f"kmdr: warning: a job of {system} was removed before it started; another is submitted in")
    assert jobs.replace_ended(["73"]) == []
    assert {job.name for job in jobs._jobs.values()} == {"72", "73", "74"}


def test_removed_jobs_end_a_run_without_workers(tmp_path, monkeypatch):
    monkeypatch.setattr(batch, "_QUEUE_SECONDS", 0)
    monkeypatch.setattr(batch, "_listed_jobs", lambda system: set())
    jobs = jobs_of_a_cluster(tmp_path, *map(str, range(batch.TRIES)))
    assert jobs.replace_ended([]) == []
    with pytest.raises(UserError, match="and none has a worker: the last was removed before it started; change"):
        jobs.replace_ended([])
