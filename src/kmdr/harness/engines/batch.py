"""Jobs of a batch system as workers of a Dask cluster, submitted by dask-jobqueue.

The scheduler runs in this process, and its connections use TLS with credentials made for one run. As many jobs are
requested as there are tasks for, up to a limit. dask-jobqueue replaces a job whose worker disconnected. It does not
notice a job that was refused, that was removed before it started, or that ended before its worker connected:
`Jobs.replace_ended` does.
"""

import logging
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import dask
import distributed
from distributed.core import Status

from kmdr.base.errors import UserError
from kmdr.base.files import temporary_folder, write_atomically, writing
from kmdr.harness.engines.local import SAFE_PATH, TRIES

# A worker runs one task at a time, so that the times of its process belong to that task. The batch system limits its
# memory; Dask would count mapped files as memory. The web pages of a worker would show its tasks to other users.
_WORKER_ARGUMENTS = ("--nthreads", "1", "--memory-limit", "0", "--no-dashboard")
_PROLOGUE = (f"export {SAFE_PATH}=1", "export DASK_DISTRIBUTED__WORKER__HTTP__ROUTES='[]'")
# Run by a job before its worker starts, so that a node that cannot run kmdr never connects.
_CHECK = "from kmdr.harness.engines.contract import check_installation; check_installation()"
# A job that failed is submitted again after so many seconds, the next time after their square, and so on.
_PAUSE_SECONDS = 4
_MOST_BYTES_OF_LOG = 2**14
# Commands that print the numbers of the user's jobs, pending ones too, and the time between two of their runs.
_QUEUE_COMMANDS = {
    "slurm": ("squeue", "--me", "--noheader", "--format=%A"),
    "pbs": ("qstat",),
    "sge": ("qstat",),
    "lsf": ("bjobs", "-noheader", "-o", "jobid"),
    "htcondor": ("condor_q", "-autoformat", "ClusterId"),
}
_QUEUE_SECONDS = 60


class Jobs:
    """The jobs of one run.

    ``folder`` is for the credentials and logs of the jobs, ``system`` is the batch system, and ``most`` is the largest
    number of jobs at once.
    """

    def __init__(self, folder: Path, system: str, most: int) -> None:
        self._folder, self._system, self.most = folder, system, most
        self.cluster: Any = None
        # Each job by the file that it writes when it ends; jobs that were not submitted, with the reason; and how
        # often the jobs of each name failed since one connected.
        self._jobs: dict[Path, Any] = {}
        self._refused: list[tuple[Any, str]] = []
        self._failures = Counter[str]()
        # When the queue is read next, and the jobs that were not in it the last time, by the same files.
        self._next_look = time.monotonic() + _QUEUE_SECONDS
        self._absent: set[Path] = set()

    def job_class(self, base: Any) -> Any:
        """Return a class of jobs that also report how they are submitted and when they end."""
        jobs = self

        class Job(base):  # type: ignore[misc]
            connected = False

            def __init__(
                self, scheduler: Any = None, name: Any = None, job_script_prologue: Any = (), **options: Any
            ) -> None:
                mark = jobs._folder / f"{uuid4().hex}.ended"
                ended, check = shlex.quote(f"touch {shlex.quote(str(mark))}"), shlex.quote(_CHECK)
                prologue = [
                    f"trap {ended} EXIT", *_PROLOGUE, *job_script_prologue, f"{options['python']} -c {check} || exit 1"
                ]  # fmt: skip
                super().__init__(scheduler, name, job_script_prologue=prologue, **options)
                jobs._jobs[mark] = self

            async def start(self) -> None:
                try:
                    await super().start()
                except Exception as error:
                    self.status = Status.failed
                    jobs._refused.append((self, _reason(error)))
                    raise

            async def close(self) -> None:
                await super().close()
                self.status = Status.closed

            @staticmethod
            async def _call(command: Any, **options: Any) -> Any:
                # In a session of its own, so that Ctrl-C in a terminal does not interrupt sbatch or scancel.
                return await base._call(command, start_new_session=True, **options)

        return Job

    def replace_ended(self, workers: Collection[str]) -> list[str]:
        """Submit jobs again that were refused, were removed or ended, and return what to report.

        Connected workers are named like their jobs, with a suffix if a job has several. Raise `UserError` without
        workers, when several jobs in succession were refused or ended before they connected.
        """
        current: dict[str, Any] = dict(self.cluster.workers)
        names = {worker if worker in current else worker.rpartition("-")[0] for worker in workers}
        for name in names & current.keys():
            if not current[name].connected:
                current[name].connected = True
                self._failures.clear()
        failed = []
        while self._refused:
            job, reason = self._refused.pop()
            failed.append((job, f"was refused ({reason})"))
        for mark in self._folder.glob("*.ended"):
            job = self._jobs.get(mark)
            if job is None:  # it ended before; batch systems requeue jobs, e.g. after another job preempted them
                mark.unlink(missing_ok=True)
                continue
            is_listed = current.get(job.name) is job
            # Dask lists jobs that were submitted together only when the last one was, and one may have ended by then.
            if not is_listed and job.status not in (Status.closed, Status.failed):
                continue
            mark.unlink(missing_ok=True)
            del self._jobs[mark]
            if not is_listed:
                continue  # it was cancelled, or its submission failed
            if job.connected:
                self._submit_again(job, 0)
            else:
                failed.append((job, f"ended before its worker connected{self._last_words(job)}"))
        failed += [(job, "was removed before it started") for job in self._removed(current)]
        return [self._tolerate(job, fate, bool(workers)) for job, fate in failed]

    def _removed(self, current: Mapping[str, Any]) -> list[Any]:
        """Return the jobs without a worker that the queue of the batch system did not list, twice in succession.

        A job that is removed while it is pending, such as by ``scancel``, never runs, so it writes no file.
        """
        waiting = {
            mark: str(job.job_id).partition(".")[0]
            for mark, job in self._jobs.items()
            if job.name in current and current[job.name] is job and not job.connected and job.job_id
        }
        if not waiting or time.monotonic() < self._next_look:
            return []
        self._next_look = time.monotonic() + _QUEUE_SECONDS
        listed = _listed_jobs(self._system)
        absent = set() if listed is None else {mark for mark, number in waiting.items() if number not in listed}
        removed = sorted(absent & self._absent)
        self._absent = absent.difference(removed)
        return [self._jobs.pop(mark) for mark in removed]

    def _tolerate(self, job: Any, fate: str, others: bool) -> str:
        """Submit a failed job again, later each time, and return what to report."""
        self._failures[job.name] += 1
        if self._failures.total() >= TRIES and not others:
            raise UserError(
                f"{TRIES} jobs of {self._system} failed, and none has a worker: the last {fate}; change "
                "runner.options; finished tasks are kept"
            )
        seconds = _PAUSE_SECONDS ** self._failures[job.name]
        self._submit_again(job, seconds)
        return f"kmdr: warning: a job of {self._system} {fate}; another is submitted in {seconds} s"

    def _submit_again(self, job: Any, seconds: float) -> None:
        """Forget a job later: dask-jobqueue then submits another in its place, if there are still tasks for it."""
        loop, workers = self.cluster.loop, self.cluster.workers

        def forget() -> None:
            if workers.get(job.name) is job:
                del workers[job.name]

        loop.add_callback(loop.call_later, seconds, forget)

    def _last_words(self, job: Any) -> str:
        """Return the last line that a job wrote, in brackets; the folder of logs may be the user's and have others."""
        is_named = re.compile(rf"(?<![0-9]){re.escape(str(job.job_id))}(?![0-9])").search
        with suppress(OSError):
            for path in Path(job.log_directory).iterdir():
                if not is_named(path.name) or not path.is_file():
                    continue
                lines = [line.strip() for line in _end_of(path).split("\n") if line.strip()]
                if lines:
                    return f" ({lines[-1][:200]})"
        return ""


def _listed_jobs(system: str) -> set[str] | None:
    """Return the numbers in the queue of a batch system, some of which may be others than jobs'; None if unknown."""
    command = _QUEUE_COMMANDS.get(system, ())
    if not command or shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=30,
            check=False, start_new_session=True,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0 and "No unfinished job" not in done.stderr:  # what LSF reports of an empty queue
        return None
    return set(re.findall(r"\d+", done.stdout))


def _end_of(path: Path) -> str:
    """Return the last kilobytes of a log; nothing if it cannot be read."""
    with suppress(OSError), path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _MOST_BYTES_OF_LOG))
        return file.read().decode("utf-8", "replace")
    return ""


def _import_jobqueue() -> Any:
    """Import dask-jobqueue, and undo its handler of SIGINT, which exits with status 0."""
    handler = signal.getsignal(signal.SIGINT)
    import dask_jobqueue

    if signal.getsignal(signal.SIGINT) is not handler:
        signal.signal(signal.SIGINT, handler)
    return dask_jobqueue


def _reason(error: Exception) -> str:
    """Return the reason why a job was not submitted: the stderr of the failed command."""
    return " ".join(str(error).rpartition("stderr:")[2].split())[:300] or type(error).__name__


def _options(system: str, threads: int, given: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the options of a cluster class: given ones first, then Dask's configuration, then kmdr's defaults."""
    defaults: dict[str, Any] = {
        "cores": None, "memory": "4GB", "processes": 1, "log_directory": str(folder), "job_script_prologue": [],
        "worker_extra_args": [], "scheduler_options": {}, "python": sys.executable,
    }  # fmt: skip
    configured = dask.config.get(f"jobqueue.{system}")
    options = {name: configured.get(name.replace("_", "-")) or value for name, value in defaults.items()}
    options |= {"job_name": "kmdr"} | {name: value for name, value in given.items() if value is not None}
    options["cores"] = options["cores"] or threads * options["processes"]
    options["worker_extra_args"] = [*_WORKER_ARGUMENTS, *options["worker_extra_args"]]
    options["scheduler_options"] = {"dashboard": False, "dashboard_address": "127.0.0.1:0"} | options[
        "scheduler_options"
    ]
    return options


def _write_credentials(security: distributed.Security, folder: Path) -> distributed.Security:
    """Return these credentials as files that only the owner of the jobs can read."""
    paths = {name: str(folder / f"{name}.pem") for name in ("ca_file", "cert", "key")}
    for name, path in paths.items():
        write_atomically(Path(path), security.get_tls_config_for_role("worker")[name].encode(), private=True)
    roles = {
        f"tls_{role}_{name}": paths[name] for role in ("client", "scheduler", "worker") for name in ("cert", "key")
    }
    return distributed.Security(require_encryption=True, tls_ca_file=paths["ca_file"], **roles)


@contextmanager
def started(
    system: str, class_name: str, size: int, threads: int, options: Mapping[str, Any], folder: str, security: Any
) -> Iterator[Jobs]:
    """Start a scheduler whose workers are jobs of a batch system; all jobs are cancelled at the end of the block.

    ``class_name`` is the class of dask-jobqueue for ``system``, ``size`` the largest number of jobs at once,
    ``threads`` the number of BLAS and OpenMP threads of each worker, and ``options`` go to that class. ``folder`` is
    for credentials and logs, on a file system that the nodes share; its content is removed at the end.
    """
    cluster_class = getattr(_import_jobqueue(), class_name)
    command = shlex.split(cluster_class.job_cls.submit_command)[0]
    if shutil.which(command) is None:
        raise UserError(
            f"the command {command} is not available; run this where {system} accepts jobs, or choose another runner"
        )
    parent = Path(folder).expanduser().resolve()
    with ExitStack() as stack:
        stack.callback(_remove_empty, parent)
        with writing(parent):
            place = stack.enter_context(temporary_folder(parent))
        jobs = Jobs(place, system, size)
        try:
            cluster = cluster_class(
                **_options(system, threads, options, place), job_cls=jobs.job_class(cluster_class.job_cls),
                name="kmdr", security=_write_credentials(security, place), silence_logs=logging.CRITICAL,
            )  # fmt: skip
        except (TypeError, ValueError, AttributeError) as error:
            raise UserError(f"runner.options: {' '.join(str(error).split())[:300]}") from error
        jobs.cluster = stack.enter_context(cluster)
        # One job for each task: by default Dask requests more jobs only for tasks of more than five seconds in all.
        cluster.adapt(minimum=0, maximum_jobs=size, target_duration="1ms")
        yield jobs


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):  # another run uses it
        folder.rmdir()
