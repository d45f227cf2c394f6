"""Folders in which commands of kmdr are run, killed and repeated; used by ``torture.py``.

A command starts in about 0.1 s instead of 3 s: this process imports kmdr once and forks a child for each command, which
calls `kmdr.__main__.main` in its own session. Configurations are composed and kernels compiled before the fork, and
workers are forks as well. A share of all commands are therefore whole ``python -m kmdr`` processes. Needs Linux.
"""

import atexit
import csv
import faulthandler
import fcntl
import gc
import hashlib
import json
import multiprocessing
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import tqdm

import kmdr.base.paths
from kmdr.__main__ import main
from kmdr.cli import commands as cli
from kmdr.cli import jobs as cli_jobs
from kmdr.cli.jobs import from_command_line
from kmdr.datasets.acquire.find import sha256_of
from kmdr.datasets.sources import loaders
from kmdr.harness import facts
from kmdr.harness.engines import local as workers

HANG_SECONDS = 10.0
SHARED_MEMORY = Path("/dev/shm")
# Columns of provenance, which differ between runs.
_STAMPS = ("_seconds", "_version", "env_hash", "code_hash")
# One line longer by every run that did something; what last went wrong, also where that is nothing.
_JOURNALS = ("runs.jsonl", "last_errors.json")
# What tells the time, or whether a file came from the network or from the cache.
_NOTE = ".merged"
_META, _ORIGIN = "meta.json", ("source", "seal")

_OWN = ("-m", "dataset=file", "dataset.path=../in/own.csv", "dataset.k=3", "r_grid=[2,4]", "out=out")
_RUN = (*_OWN, "reducer=none,svd,random_sign,variance", "repeats=3")


@dataclass(frozen=True)
class Kind:
    """A command, and the folder in which it is run.

    Attributes
    ----------
    name : str
    argv : tuple of str
    share : float
        Of all kills.
    start : {"empty", "done", "unmerged"}
        What the folder holds before: nothing; a finished run; its task files without their table.
    whole : bool
        Whether it can be run as a whole process.
    """

    name: str
    argv: tuple[str, ...]
    share: float
    start: str = "empty"
    whole: bool = False


KINDS = {
    kind.name: kind
    for kind in (
        Kind("run", (*_RUN, "runner=sequential"), 0.40, whole=True),
        Kind("run, 2 workers", (*_RUN, "runner=loky", "runner.n_jobs=2"), 0.10, whole=True),
        Kind("merge", (*_RUN, "runner=sequential"), 0.14, start="unmerged", whole=True),
        Kind("report", ("report", "out"), 0.08, start="done"),
        Kind("figures", ("figures", "out"), 0.04, start="done"),
        Kind("prepare own file", (*_OWN[:2], "dataset.path=../in/large.csv", *_OWN[3:], "reducer=none", "repeats=1",
                                  "runner=sequential"), 0.08, whole=True),
        Kind("prepare synth", ("data", "get", "synth"), 0.06),
        Kind("download http", ("data", "get", "by_http"), 0.06),
        Kind("download file", ("data", "get", "by_file"), 0.04),
    )
}  # fmt: skip


@loaders.loader
def sandbox_npy(path: Path) -> loaders.Loaded:
    """Read the matrix that the sandbox's own registry offers."""
    return np.load(path, allow_pickle=False), None


_REGISTRY = """
[synth]
title = "Synth"
papers = []
n = 1000
d = 2000
k = 5
licence = "generated"
citation = "none"
format = "synth"
content_sha256 = ""
options = {{ n = 1000, d = 2000, k = 5, side = 2000.0, sigma = 1.0, seed = 0 }}
sources = []
"""
_DOWNLOAD = """
[{name}]
title = "A matrix to download"
papers = []
n = 2000
d = 16
k = 2
licence = "generated"
citation = "none"
format = "sandbox_npy"
content_sha256 = ""
sources = [{{ kind = "url", url = "{url}", filename = "{name}.npy", sha256 = "{sha256}" }}]
"""


def write_inputs(folder: Path, port: int) -> None:
    """Write what the commands read: tables of the user's, a matrix to download, a registry that offers it."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name, n in (("own", 60), ("large", 3000)):
        A = rng.standard_normal((n, 8)) + 4 * (np.arange(n) % 3)[:, None]
        header = ",".join(f"f{column}" for column in range(8))
        np.savetxt(folder / f"{name}.csv", A, delimiter=",", header=header, comments="")
    np.save(folder / "matrix.npy", rng.standard_normal((2000, 16)))
    digest = sha256_of(folder / "matrix.npy")
    sources = {"by_http": f"http://127.0.0.1:{port}/matrix.npy", "by_file": (folder / "matrix.npy").as_uri()}
    text = _REGISTRY.format() + "".join(
        _DOWNLOAD.format(name=name, url=url, sha256=digest) for name, url in sources.items()
    )
    (folder / "registry.toml").write_text(text, encoding="utf-8")


# -- commands as processes -------------------------------------------------------------------------------------------


@dataclass
class Command:
    """A command that was started in a folder: its process, which leads a session, and the file of what it says."""

    pid: int
    log: Path
    started: float
    status: int | None = None

    def wait(self, seconds: float) -> bool:
        """Wait for its end; return whether it came."""
        if self.status is not None:
            return True
        descriptor = os.pidfd_open(self.pid)
        try:
            if select.select([descriptor], [], [], max(0.0, seconds))[0]:
                self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        finally:
            os.close(descriptor)
        return self.status is not None

    def signal(self, number: int, group: bool = False) -> None:
        """Signal it, or all of its session as a terminal does."""
        if group:
            os.killpg(self.pid, number)
        else:
            os.kill(self.pid, number)

    def session_processes(self) -> list[int]:
        """Return the other living processes of its session."""
        return [pid for pid in _session(self.pid) if pid != self.pid]

    def output(self) -> str:
        """Return the text of both output streams."""
        return self.log.read_text(encoding="utf-8", errors="replace")


def _session(leader: int) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            except OSError:
                continue
            if session == str(leader) and state not in "ZX":
                yield int(entry.name)


def is_worker(pid: int) -> bool:
    """Whether a process of a command's session is a worker, and none of the helpers."""
    try:
        return b"resource_tracker" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def run_instead(jobs: Any) -> None:
    """Let commands run these jobs, whatever the command line says."""
    vars(cli_jobs)["from_command_line"] = lambda: jobs


@cache
def jobs_of(argv: tuple[str, ...]) -> Any:
    """Return the jobs of a command, composed once."""
    sys.argv = ["kmdr", *argv]
    return from_command_line()


def _finish() -> None:
    """Do what the interpreter does at its end, but for taking itself apart."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()


@dataclass
class Sandbox:
    """A folder in which one command is run at a time, set to the same start each time.

    Attributes
    ----------
    base : Path
        Holds ``in``, the inputs; ``work``, where commands run; ``start``, what the folder is set to.
    """

    base: Path
    pids: list[int] = field(default_factory=list)

    @property
    def work(self) -> Path:
        """Folder that commands run in: ``out``, ``cache``, ``tmp``."""
        return self.base / "work"

    @property
    def mounted(self) -> Path:
        """The same folder where it is mounted a second time."""
        return self.base / "bound"

    def reset(self, start: str) -> None:
        """Set the folder to one of the starts."""
        shutil.rmtree(self.work, ignore_errors=True)
        kept = self.base / "start" / start
        if kept.is_dir():
            shutil.copytree(kept, self.work)
        (self.work / "tmp").mkdir(parents=True, exist_ok=True)
        self.pids.clear()

    def keep(self, start: str) -> None:
        """Keep the folder as it is as a start."""
        shutil.copytree(self.work, self.base / "start" / start)

    def is_at(self, start: str) -> bool:
        """Whether the folder still is at a start: no command has written anything."""

        def files(folder: Path) -> dict[str, int]:
            paths = [path for path in folder.rglob("*") if path.is_file()]
            return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in paths}

        return files(self.work) == files(self.base / "start" / start)

    def environment(self) -> dict[str, str]:
        """Return what commands see."""
        kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        kept.pop("KMDR_DATA", None)
        return kept | {
            "KMDR_CACHE": str(self.work / "cache"),
            "TMPDIR": str(self.work / "tmp"),
            "PYTHONFAULTHANDLER": "1",
        }

    def start(
        self, argv: Sequence[str], *, whole: bool = False, before: Callable[[], None] | None = None, label: str = "log"
    ) -> Command:
        """Start a command; with ``whole`` as a process of its own, else as a fork of this one.

        Parameters
        ----------
        argv : sequence of str
        whole : bool
        before : callable, optional
            Called in the child before the command begins.
        label : str
            Name of the file of what it says, for commands that run at once.
        """
        log = self.base / label
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        if whole:
            with os.fdopen(os.open(log, flags), "wb") as file:
                process = subprocess.Popen(
                    [sys.executable, "-m", "kmdr", *argv],
                    stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                    cwd=self.work, env=self.environment(), start_new_session=True,
                )  # fmt: skip
            process.returncode = 0  # it is waited for here
            command = Command(process.pid, log, time.monotonic())
        else:
            composed = None if argv[0] in cli.COMMANDS else jobs_of(tuple(argv))
            ready, begun = os.pipe()
            pid = os.fork()
            if pid == 0:
                self._be(argv, composed, log, flags, begun, before)
            os.close(begun)
            os.read(ready, 1)
            os.close(ready)
            command = Command(pid, log, time.monotonic())
        self.pids.append(command.pid)
        return command

    def _be(
        self, argv: Sequence[str], composed: Any, log: Path, flags: int, begun: int, before: Callable[[], None] | None
    ) -> None:
        code: Any = 70
        try:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the command begins
            os.setsid()
            os.chdir(self.work)
            null, file = os.open(os.devnull, os.O_RDONLY), os.open(log, flags)
            for target, source in ((0, null), (1, file), (2, file)):
                os.dup2(source, target)
            environment = self.environment()
            os.environ.clear()
            os.environ.update(environment)
            if argv[:2] == ("data", "get"):
                kmdr.base.paths.REGISTRY = self.base / "in" / "registry.toml"
            if composed is not None:
                run_instead(composed)
            sys.argv = ["kmdr", *argv]
            tqdm.tqdm.monitor_interval = 10
            tqdm.tqdm.set_lock(threading.RLock())  # its own: the usual one is shared with all forks, and one was killed
            faulthandler.enable(all_threads=True)
            if before:
                before()
            os.write(begun, b".")
            os.close(begun)
            try:
                main()
            except SystemExit as end:
                code = end.code
            _finish()
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code if isinstance(code, int) else int(code is not None))

    # -- what is there afterwards ------------------------------------------------------------------------------------

    def table(self) -> list[tuple[tuple[str, str], ...]]:
        """Return the rows of the table without times and provenance."""
        try:
            with (self.work / "out" / "rows.csv").open(newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
        except (OSError, ValueError):
            return []
        return [tuple((k, v) for k, v in row.items() if not str(k).endswith(_STAMPS)) for row in rows]

    def snapshot(self) -> dict[str, Any]:
        """Return what every file of the folder holds: the table as its rows, others as their hash."""
        state: dict[str, Any] = {}
        for path in sorted(self.work.rglob("*")):
            name = str(path.relative_to(self.work))
            if path.name in _JOURNALS or name.startswith("tmp/"):
                continue
            if name == "out/rows.csv":
                state[name] = self.table()
            elif path.name == _NOTE:
                state[name] = "a note"
            elif path.name == _META:
                state[name] = {k: v for k, v in json.loads(path.read_bytes()).items() if k not in _ORIGIN}
            elif path.is_file() and not path.is_symlink():
                # Hydra records where it ran.
                content = path.read_bytes().replace(bytes(self.mounted), bytes(self.work))
                state[name] = hashlib.blake2b(content).hexdigest()
            elif not path.is_dir():
                state[name] = "no plain file"
        return state

    def left_behind(self, commands: Sequence[Command]) -> list[str]:
        """Return what processes of this folder left: temporary files, shared memory, held locks, processes.

        Processes get `HANG_SECONDS` to end and are then killed.
        """
        until = time.monotonic() + HANG_SECONDS
        while (
            alive := [pid for command in commands for pid in command.session_processes()]
        ) and time.monotonic() < until:
            time.sleep(0.02)
        remains = [f"process {pid} ({_name(pid)})" for pid in alive]
        for pid in alive:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        remains += [f"tmp/{path.name}" for path in (self.work / "tmp").iterdir()]
        for path in self.work.rglob(".lock*"):
            with path.open("r+b") as file:
                try:
                    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    remains.append(f"a lock held on {path.name}")
        for path in SHARED_MEMORY.iterdir():
            if any(f"-{pid}-" in path.name or f"_{pid}_" in path.name for pid in self.pids):
                remains.append(f"{SHARED_MEMORY.name}/{path.name}")
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
        return remains


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")[:80]
    except OSError:
        return "?"


def compared(now: Mapping[str, Any], reference: Mapping[str, Any], volatile: frozenset[str]) -> list[str]:
    """Return how a folder differs from the one that an uninterrupted command made."""
    steady = [name for name in reference if name not in volatile]
    return [
        *(f"{name} differs" for name in steady if name in now and now[name] != reference[name]),
        *(f"{name} is missing" for name in steady if name not in now),
        *(f"{name} is left over" for name in now if name not in reference),
    ]


class _Forks:
    """In the place of a context of loky: workers that need no imports."""

    @staticmethod
    def Process(*, env: dict[str, str], **arguments: Any) -> Any:  # noqa: N802
        """Return a process that is a fork; what it reads at its start, it has read."""
        del env
        return multiprocessing.get_context("fork").Process(**arguments)


def warm_up(sandbox: Sandbox) -> None:
    """Bring into this process what every command needs."""
    tqdm.tqdm.monitor_interval = 0  # no thread may run where one forks
    warnings.simplefilter("ignore")
    facts.run_facts = lambda *_, **__: None  # those without data take a minute
    workers.get_context = lambda _: _Forks  # type: ignore[attr-defined]
    os.environ.update(sandbox.environment())
    import matplotlib.pyplot  # noqa: F401

    run, here = KINDS["run"], Path.cwd()
    sandbox.reset("empty")
    os.chdir(sandbox.work)
    try:
        for argv in (run.argv, ("figures", "out"), ("report", "out")):
            sys.argv = ["kmdr", *argv]
            try:
                cli.main()
            except SystemExit as end:
                if end.code:
                    raise RuntimeError(f"the command {argv} fails by itself") from end
        for kind in KINDS.values():
            if kind.argv[0] not in cli.COMMANDS:
                jobs_of(kind.argv)
    finally:
        os.chdir(here)
    gc.collect()
    gc.freeze()


def make_starts(sandbox: Sandbox) -> None:
    """Make the starts "done" and "unmerged"."""
    run = KINDS["run"]
    sandbox.reset("empty")
    command = sandbox.start(run.argv)
    if not command.wait(60) or command.status:
        raise RuntimeError(f"the run fails by itself: {command.output()}")
    sandbox.keep("done")
    (sandbox.work / "out" / "rows.csv").unlink()
    (sandbox.work / "out" / "tasks" / ".merged").unlink(missing_ok=True)
    sandbox.keep("unmerged")
