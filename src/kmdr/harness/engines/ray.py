"""Tasks on a Ray cluster: `ray.wait` gives their rows as they come, and its object store brings data to the nodes.

Ray itself retries the tasks of a worker that died; a task that several workers died of is given up.
"""

import math
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import chdir, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import ray

from kmdr.base.errors import UserError
from kmdr.base.limits import UNLIMITED, Limit
from kmdr.base.paths import MODULES
from kmdr.datasets import transfer
from kmdr.harness.engines.contract import Answer, Call, Lacking, Refused, never_alone, serve
from kmdr.harness.engines.local import TRIES, Late, Lost, disconnected, safe_imports

# Tasks in flight per core: the running one and the next.
_TASKS_PER_CORE = 2
# Time that a head may take to answer, and interval of asking it.
_PATIENCE_SECONDS = 10
_WATCH_SECONDS = 1.0


class Cluster:
    """A cluster that this process is connected to.

    ``where`` is its name in messages. ``most`` is the largest number of tasks at once, None for what its cores take.
    """

    def __init__(self, where: str, most: int | None) -> None:
        self._where, self._most = where, most
        self._sent: dict[str, Any] = {}
        # Through a client's server (ray://) the head itself may be out of reach.
        self._head = None if ray.util.client.ray.is_connected() else ray.get_runtime_context().gcs_address
        self._seen, self._cores = -math.inf, 0

    def size(self) -> int:
        """Return the number of cores, at least 1, as the first may join later."""
        return max(1, self._look())

    def _look(self) -> int:
        """Return the recent number of cores.

        The head is probed first: without an answer, Ray would wait for a minute and then end this process.
        """
        until = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() - self._seen > _WATCH_SECONDS:
            try:
                if self._head:
                    _knock(self._head)
                self._cores = int(ray.cluster_resources().get("CPU", 0))
                self._seen = time.monotonic()
            except OSError as error:
                if time.monotonic() > until:
                    raise disconnected(f"the Ray head at {self._head}") from error
                time.sleep(_WATCH_SECONDS)
        return self._cores

    def perform(
        self, calls: Iterable[Call], tell: Callable[[str], None], limit: Limit = UNLIMITED
    ) -> Iterator[tuple[Call, Answer | Lost | Late]]:
        """Run calls and yield each with its answer, as `kmdr.harness.engines.contract.Perform` says."""
        if not self._look():
            tell(
                f"kmdr: note: the Ray cluster at {self._where} has no cores yet; the run continues when there are some"
            )
        serving = ray.remote(max_retries=TRIES - 1)(serve)
        source = iter(calls)
        in_flight: dict[Any, Call] = {}

        def submit(call: Call, parcel: Any = None) -> None:
            task, provenance = call
            in_flight[serving.remote(task, never_alone(provenance), task.current_code, parcel, limit)] = call

        while True:
            size = self.size()
            free = (self._most or _TASKS_PER_CORE * size) - len(in_flight)
            for call in islice(source, max(0, free)):
                submit(call)
            if limit.is_over() and in_flight:
                for running in in_flight:
                    ray.cancel(running, force=True)
                late = [*in_flight.values()]
                in_flight.clear()
                yield from ((call, Late()) for call in late)
                continue
            if not in_flight:
                return
            for finished in ray.wait([*in_flight], timeout=_WATCH_SECONDS)[0]:
                call = in_flight.pop(finished)
                answer = self._answer(finished)
                if isinstance(answer, Lacking):
                    submit(call, self._data_of(call[0].data_sha256, Path(call[0].folder)))
                else:
                    yield call, answer

    def _answer(self, finished: Any) -> Answer | Lacking | Lost | Late:
        try:
            answer = ray.get(finished)
        except ray.exceptions.WorkerCrashedError:
            return Lost(f"its worker died, {TRIES} times")
        except (ray.exceptions.OutOfMemoryError, ray.exceptions.NodeDiedError) as error:
            return Lost(" ".join(str(error).split())[:200])
        except ray.exceptions.RayTaskError as error:
            raise RuntimeError(str(error.cause)) from error
        if isinstance(answer, Refused):
            raise UserError(answer.reason)
        return answer  # type: ignore[no-any-return]

    def _data_of(self, digest: str, folder: Path) -> Any:
        """Return the data of a task in the object store, of which each node has one copy."""
        if digest not in self._sent:
            self._sent[digest] = ray.put((transfer.meta_of(folder), transfer.arrays_of(folder)))
        return self._sent[digest]


@contextmanager
def connected(address: str | None, workers: int | None) -> Iterator[Cluster]:
    """Connect to a cluster, or start one on this machine for the time of the block.

    Without the address of a head, one is started here. ``workers`` is the size of a cluster of this machine; of
    another, it is the largest number of tasks at once.
    """
    where = address or "this machine"
    try:
        _refuse_deaf(address)
    except OSError as error:
        raise UserError(
            f"no Ray head answers at {where} ({error}); start one with 'ray start --head', or name another by "
            "runner.address"
        ) from error
    try:
        # Workers would look for modules in this process's current folder first.
        with safe_imports(), chdir(MODULES):
            ray.init(
                address=address or "local", num_cpus=None if address else workers, log_to_driver=False,
                include_dashboard=None if address else False, logging_level="error",
            )  # fmt: skip
    except (OSError, ValueError, RuntimeError) as error:
        raise UserError(
            f"Ray at {where} cannot be joined ({' '.join(str(error).split())[:200]}); it has to be of the version "
            f"{ray.__version__}, and where it asks for a token, RAY_AUTH_MODE=token has to be set here, too"
        ) from error
    try:
        yield Cluster(where, workers if address else None)
    finally:
        ray.shutdown()


def _refuse_deaf(address: str | None) -> None:
    """Refuse a head that does not answer: Ray itself would wait for a minute and print lines of its own."""
    host, colon, port = (address or "").rpartition(":")
    if colon and host and port.isdigit() and "//" not in host:
        _knock(str(address))


def _knock(address: str) -> None:
    """Raise an OSError if nobody answers."""
    host, _, port = address.rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), _PATIENCE_SECONDS).close()
