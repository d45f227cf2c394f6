"""Tasks on a Dask cluster, by the client of ``distributed``.

The driver keeps a few tasks per worker in flight, so that workers may join and leave at any time, and takes the rows as
they come. Workers are processes of an existing cluster, of this machine, or of jobs of a batch system
(`kmdr.harness.engines.batch`). Dask itself retries the tasks of a worker that died, and gives them up after several
deaths, also those that only waited at these workers. Such a task is run again with no other in flight, and is given up
if workers die then, too. A worker that cannot import kmdr is excluded. Nothing stays on the cluster when the driver
ends, however it ends: Dask drops tasks without a client.
"""

import ipaddress
import logging
import math
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import astuple, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask
import distributed
from distributed.comm import CommClosedError

from kmdr.base.errors import UserError
from kmdr.base.limits import UNLIMITED, Limit
from kmdr.base.signals import undisturbed
from kmdr.base.text import counted, short_hash, single_line
from kmdr.base.text import tell as warn
from kmdr.base.timing import Stopwatch
from kmdr.config.task import Task
from kmdr.datasets import transfer
from kmdr.harness.engines.contract import Answer, Call, Lacking, Refused, check_installation, never_alone, serve
from kmdr.harness.engines.local import TRIES, Late, Lost, disconnected, safe_imports

if TYPE_CHECKING:
    from kmdr.harness.engines.batch import Jobs

# Time that a scheduler may take to answer, and a worker to receive a block of data.
_PATIENCE_SECONDS = 10
_BLOCK_SECONDS = 120
# Time that a worker of this machine may take to start again.
_RESTART_TIME = "24h"
# Largest age of what is known about the workers.
_FRESH_SECONDS = 1.0
# Tasks in flight for each worker: at least the one that it runs and the next, and otherwise so many that they take this
# long. An adaptive cluster requests another worker for each five seconds of work that it knows of.
_LEAST_TASKS, _MOST_TASKS = 2, 100
_AHEAD_SECONDS = 15.0
# Jobs that wait in the queue of a batch system for longer are reported.
_QUEUE_SECONDS = 30.0


@dataclass(frozen=True)
class _Served:
    """The answer of `serve`, the address of its worker, and the seconds that the task took."""

    answer: Answer | Lacking | Refused | Lost | Late
    worker: str
    seconds: float


def _serve(*call: Any) -> _Served:
    with Stopwatch() as watch:
        answer = serve(*call)
    return _Served(answer, distributed.get_worker().address, watch.seconds)


@dataclass(frozen=True)
class _Attempt:
    """A call, how often it was submitted before, and the workers that may do it; None for any.

    While one that is ``alone`` is in flight, no other is.
    """

    call: Call
    number: int = 0
    workers: list[str] | None = None
    alone: bool = False


@dataclass
class _Work:
    """Attempts to submit, attempts in flight by their keys, and attempts at which workers died, perhaps of others."""

    queue: deque[_Attempt] = field(default_factory=deque)
    in_flight: dict[str, tuple[Any, _Attempt]] = field(default_factory=dict)
    suspects: deque[_Attempt] = field(default_factory=deque)

    def _active(self) -> list[_Attempt]:
        return [*self.queue, *(attempt for _, attempt in self.in_flight.values())]

    def take(self, source: Iterator[Call], most: int) -> None:
        """Take calls until so many are active; a suspect only if nothing else is, and nothing next to it."""
        active = self._active()
        if not any(attempt.alone for attempt in active):
            self.queue.extend(_Attempt(call) for call in islice(source, max(0, most - len(active))))
        if self.suspects and not self._active():
            self.queue.append(self.suspects.popleft())

    def is_empty(self) -> bool:
        return not (self.queue or self.in_flight or self.suspects)

    def give_up(self) -> list[_Attempt]:
        """Remove all attempts and return them."""
        attempts = [*self._active(), *self.suspects]
        for some in (self.queue, self.in_flight, self.suspects):
            some.clear()
        return attempts


class Cluster:
    """A cluster that a client is connected to.

    ``where`` names its scheduler in messages. ``most`` is the largest number of tasks at once, None for what its
    workers take. ``jobs`` are the jobs of a batch system that are its workers.
    """

    def __init__(self, client: Any, where: str, most: int | None, jobs: "Jobs | None" = None) -> None:
        self._client, self._where, self._most, self._jobs = client, where, most, jobs
        self._task_seconds = math.inf
        self._seen, self._hosts = -_FRESH_SECONDS, Counter[str]()
        # Why each worker cannot run tasks, empty if it can; and what is to be reported.
        self._faults: dict[str, str] = {}
        self._lines: list[str] = []

    def size(self) -> int:
        """Return the number of workers, at least 1, as the first may join later."""
        with self._connection():
            return max(1, min(self._look().total(), self._most or sys.maxsize))

    def _look(self) -> Counter[str]:
        """Return the recent number of usable workers per machine.

        Raise `UserError` when there are workers and none of them is usable, or a batch system runs no jobs.
        """
        if time.monotonic() - self._seen > _FRESH_SECONDS:
            workers = self._client.scheduler_info(n_workers=-1)["workers"]
            if self._jobs:
                self._lines += self._jobs.replace_ended({str(worker["name"]) for worker in workers.values()})
            self._probe([address for address in workers if address not in self._faults])
            self._faults = {address: self._faults[address] for address in workers if address in self._faults}
            if self._faults and all(self._faults.values()):
                raise UserError(
                    f"none of the {counted(len(workers), 'worker')} of {self._where} can run kmdr "
                    f"({self._faults[min(workers)]}); "
                    "install the same kmdr there"
                )
            self._hosts = Counter(str(workers[address]["host"]) for address in self._usable())
            self._seen = time.monotonic()
        return self._hosts

    def _usable(self) -> list[str]:
        return [address for address, fault in self._faults.items() if not fault]

    def _probe(self, addresses: list[str]) -> None:
        """Find out whether some workers can import kmdr and read its registries."""
        if addresses:
            answers = self._client.run(check_installation, workers=addresses, on_error="return")
            for address in addresses:
                answer = answers.get(address)
                if type(answer) is OSError or isinstance(answer, TimeoutError | CommClosedError):
                    continue  # it is busy, e.g. with its imports: asked again
                fault = " ".join(f"{type(answer).__name__}: {answer}".split()) if isinstance(answer, Exception) else ""
                self._faults[address] = fault
            if excluded := [address for address in addresses if self._faults.get(address)]:
                self._lines.append(
                    f"kmdr: warning: excluded {', '.join(excluded)} of {self._where}, which cannot run kmdr "
                    f"({self._faults[excluded[0]]}); install the same kmdr there"
                )

    @contextmanager
    def _connection(self) -> Iterator[None]:
        """Report a disconnected scheduler in one sentence."""
        try:
            yield
        except (OSError, distributed.CancelledError, RuntimeError) as error:
            if isinstance(error, UserError) or (isinstance(error, RuntimeError) and self._client.status == "running"):
                raise
            raise disconnected(f"the scheduler at {self._where}") from error

    def perform(
        self, calls: Iterable[Call], tell: Callable[[str], None], limit: Limit = UNLIMITED
    ) -> Iterator[tuple[Call, Answer | Lost | Late]]:
        """Run calls and yield each with its answer, as `kmdr.harness.engines.contract.Perform` says."""
        source, work = iter(calls), _Work()
        finished = distributed.as_completed(with_results=True, raise_errors=False, loop=self._client.loop)

        def submit(attempt: _Attempt) -> None:
            task, provenance = attempt.call
            provenance = never_alone(provenance, max(self._look().values(), default=2))
            workers = attempt.workers or (self._usable() if any(self._faults.values()) else None)
            future = self._client.submit(
                _serve, task, provenance, task.current_code, None, limit,
                key=f"kmdr-{short_hash([repr(task), *astuple(provenance), attempt.number])}",
                retries=TRIES - 1, workers=workers, allow_other_workers=bool(workers),
            )  # fmt: skip
            work.in_flight[future.key] = future, attempt
            finished.add(future)

        started, reported = time.monotonic(), False
        while True:
            with self._connection():
                workers = self._look().total()
                work.take(source, self._capacity(workers))
            while self._lines:
                tell(self._lines.pop(0))
            if limit.is_over() and not work.is_empty():
                with self._connection():
                    self._client.cancel([future for future, _ in work.in_flight.values()])
                yield from ((attempt.call, Late()) for attempt in work.give_up())
                continue
            if work.is_empty():
                return
            if not workers and not reported and time.monotonic() - started >= (_QUEUE_SECONDS if self._jobs else 0):
                reported = True
                tell(f"kmdr: note: {self._where} has no workers yet; the run continues when one connects")
            with self._connection():
                while work.queue:
                    submit(work.queue.popleft())
                if not _wait_for_one(finished):
                    continue
                future, result = next(finished)
                _, attempt = work.in_flight.pop(future.key)
                answer = self._settle(work, attempt, future, result)
            if answer is not None:
                yield attempt.call, answer

    def _settle(self, work: _Work, attempt: _Attempt, future: Any, result: Any) -> Answer | Lost | Late | None:
        """Return the answer of an attempt that finished; None if there is another attempt."""
        if attempt.number < TRIES and self._fell_to_unusable(future):
            work.queue.append(replace(attempt, number=attempt.number + 1, workers=None))
            return None
        answer, worker = self._answer(future, result)
        if isinstance(answer, Lost) and not worker and not attempt.alone:
            work.suspects.append(_Attempt(attempt.call, attempt.number + 1, alone=True))
            return None
        if isinstance(answer, Lacking):
            if attempt.number < TRIES:
                self._send_data(attempt.call[0], worker)
                work.queue.appendleft(replace(attempt, number=attempt.number + 1, workers=[worker]))
                return None
            return Lost(f"its worker does not have the data and could not receive them, {TRIES} times")
        return answer

    def _capacity(self, workers: int) -> int:
        if self._most:
            return self._most
        ahead = _AHEAD_SECONDS / max(self._task_seconds, _AHEAD_SECONDS / _MOST_TASKS)
        least = self._jobs.most if self._jobs else 1  # otherwise no more jobs would be requested
        return max(least, math.ceil(max(_LEAST_TASKS, ahead) * workers))

    def _fell_to_unusable(self, future: Any) -> bool:
        """Return whether a task may have failed because its worker cannot import kmdr."""
        if future.status != "error" or isinstance(future.exception(), distributed.KilledWorker):
            return False
        self._seen = -_FRESH_SECONDS  # it may have joined recently
        self._look()
        return any(self._faults.values())

    def _answer(self, future: Any, result: Any) -> tuple[Answer | Lacking | Lost | Late, str]:
        """Return the answer in a finished future, and the address of the worker if it has one."""
        # The status of the future does not matter: it changes when the worker dies after it has returned the result.
        if isinstance(result, _Served):
            seconds = result.seconds
            # A moving average, as Dask itself estimates it.
            self._task_seconds = seconds if self._task_seconds == math.inf else (self._task_seconds + seconds) / 2
            if isinstance(result.answer, Refused):
                raise UserError(f"{result.answer.reason} ({result.worker})")
            return result.answer, result.worker
        if future.status != "error":
            raise distributed.CancelledError(future.key)
        error = future.exception()
        if isinstance(error, distributed.KilledWorker):
            return Lost(f"its worker died, {error.allowed_failures + 1} times"), ""
        if isinstance(error, ImportError):
            raise UserError(f"a worker of {self._where} lacks a module ({error}); install the same kmdr there")
        raise RuntimeError(f"{type(error).__name__}: {error}") from error

    def _send_data(self, task: Task, worker: str) -> None:
        """Send the data of a task to a worker, block by block, unless the worker has left."""
        here = {"workers": [worker], "pure": False}
        with suppress(TimeoutError, distributed.KilledWorker):
            for block in transfer.blocks_of(Path(task.folder)):
                (arrived,) = self._client.scatter([block], workers=[worker], hash=False)
                self._client.submit(transfer.receive, task.data_sha256, arrived, **here).result(_BLOCK_SECONDS)
            self._client.submit(transfer.keep_received, transfer.meta_of(Path(task.folder)), **here).result(
                _BLOCK_SECONDS
            )


def _wait_for_one(finished: Any) -> bool:
    """Wait briefly for a finished future, and return whether there is one."""
    with finished.thread_condition:
        if not finished.has_ready():
            finished.thread_condition.wait(_FRESH_SECONDS)
    return bool(finished.has_ready())


@contextmanager
def connected(
    address: str | None, scheduler_file: str | None, workers: int | None, batch: Mapping[str, Any] | None = None
) -> Iterator[Cluster]:
    """Connect to a cluster, or start one for the time of the block: on this machine, or of jobs.

    With neither an address of a scheduler nor the file that it wrote, one is started here. ``workers`` is the size of a
    cluster of this machine; of another, it is the largest number of tasks at once. ``batch`` has arguments of
    `kmdr.harness.engines.batch.started`, to start jobs as workers.
    """
    where = address or scheduler_file or (batch["system"] if batch else "this machine")
    settings = {
        "distributed.comm.timeouts.connect": f"{_PATIENCE_SECONDS}s",
        # The web pages of a local cluster would show its tasks and the folders of their data to everybody.
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
        "distributed.scheduler.allowed-failures": TRIES - 1,  # of a local cluster; others have their own
    }
    if not (address or scheduler_file or batch):
        # A local cluster removes a worker that is not back by then, and starts no other.
        settings["distributed.deploy.lost-worker-timeout"] = _RESTART_TIME
    # kmdr reports in one sentence what these would log.
    for name in ("asyncio", *_loggers("tornado"), *_loggers("distributed")):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with dask.config.set(settings), _closed_undisturbed() as stack:
        jobs = None
        try:
            if address or scheduler_file:
                _refuse_no_file(scheduler_file)
                client = distributed.Client(address, scheduler_file=scheduler_file, timeout=_PATIENCE_SECONDS)
            elif batch:
                from kmdr.harness.engines.batch import started

                jobs = stack.enter_context(started(**batch, security=_temporary_credentials()))
                client = distributed.Client(jobs.cluster)
            else:
                stack.enter_context(safe_imports())  # also for restarted workers
                cluster = stack.enter_context(
                    distributed.LocalCluster(
                        n_workers=workers,
                        threads_per_worker=1,
                        host="127.0.0.1",
                        protocol="tls://",
                        security=_temporary_credentials(),
                        dashboard_address=None,
                        memory_limit=0,
                        silence_logs=logging.CRITICAL,
                    )
                )
                client = distributed.Client(cluster)
            stack.enter_context(client)
            _warn_of_open(client.scheduler.address)
        except UserError:
            raise
        except (OSError, ValueError, RuntimeError) as error:
            raise UserError(
                f"no Dask scheduler answers at {where} ({' '.join(str(error).split())[:200]}); start one with 'dask "
                "scheduler', or name another by runner.address or runner.scheduler_file"
            ) from error
        yield Cluster(client, where, workers if address or scheduler_file else None, jobs)


@contextmanager
def _closed_undisturbed() -> Iterator[ExitStack]:
    """Yield a stack that is closed in full whatever signal arrives meanwhile, so that no job outlives the command."""
    stack = ExitStack()
    try:
        yield stack
    finally:
        with undisturbed():
            stack.close()


def _temporary_credentials() -> Any:
    """Return new credentials: whoever may talk to a scheduler can run code as its owner."""
    try:
        return distributed.Security.temporary()
    except ImportError as error:
        raise UserError(
            "runner=dask without an address needs the package cryptography, which keeps other users out; pip install "
            "'kmdr[dask]'"
        ) from error


def _warn_of_open(address: str) -> None:
    """Warn about a scheduler on another machine that is reached without TLS."""
    scheme, _, place = address.rpartition("://")
    if scheme in ("tls", "wss", "inproc"):
        return
    host = place.partition("/")[0].rpartition(":")[0].strip("[]") or place
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    if not local:
        warn(
            f"kmdr: warning: the scheduler at {single_line(address)} is reached without TLS: whoever reaches it can "
            "run code as its owner; use an address tls://HOST:PORT, or a firewall that admits your machines alone"
        )


def _loggers(package: str) -> list[str]:
    """Return the names of a package's loggers, which have levels of their own."""
    return [package, *(name for name in logging.root.manager.loggerDict if name.startswith(f"{package}."))]


def _refuse_no_file(path: str | None) -> None:
    if path is not None and not Path(path).is_file():  # the client would wait for it forever
        raise UserError(
            f"runner.scheduler_file = {path!r} is not a file; name the one of 'dask scheduler --scheduler-file FILE'"
        )
