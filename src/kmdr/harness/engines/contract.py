"""The work of a worker: a task comes in, its rows go out. Nothing is written here and no lock is taken.

Workers of this machine also get the folder of the prepared data. Workers of other machines (`serve`) find the data by
their content: in their own cache, prepared from files available there, or sent by the driver.
"""

import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, Protocol

from kmdr import datasets, reducers
from kmdr.base.errors import UserError
from kmdr.base.limits import UNLIMITED, Limit, begin
from kmdr.base.outside import allow, end_forks
from kmdr.base.provenance import code_version, environment, machine
from kmdr.base.text import short_hash, tell
from kmdr.base.threads import pin
from kmdr.config.task import Task, data_of
from kmdr.datasets import Dataset, open_prepared, registry, transfer
from kmdr.harness.engines.local import Late, Lost, Workers
from kmdr.harness.task import Provenance, failed, run
from kmdr.results.schema import Row


@dataclass(frozen=True)
class Answer:
    """Rows of a task, with the environment that their ``env_hash`` refers to if it is not the driver's."""

    rows: list[Row]
    environment: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Lacking:
    """The answer of a worker that does not have the data of its task and cannot prepare them."""


@dataclass(frozen=True)
class Refused:
    """The answer of a worker that must not run a task, with the reason."""

    reason: str


# Arguments of `execute`.
Call = tuple[Task, Provenance]
# Yields the answers of calls as they come, and takes the calls one by one, each when a worker is free for it.
Perform = Callable[[Iterable[Call]], Iterator[tuple[Call, Answer | Lost | Late]]]


class Cluster(Protocol):
    """An engine of many machines, as the runner uses it."""

    def size(self) -> int:
        """Return the number of its workers, at least 1."""
        ...

    def perform(
        self, calls: Iterable[Call], tell: Callable[[str], None], limit: Limit
    ) -> Iterator[tuple[Call, Answer | Lost | Late]]:
        """Run calls as `Perform` does, within the limits of each trial, and report problems by ``tell``."""
        ...


def never_alone(provenance: Provenance, workers: int = 0) -> Provenance:
    """Return the provenance of a trial on a cluster: never serial, as other workers may join unnoticed."""
    return replace(provenance, concurrency=max(2, workers or provenance.concurrency))


def call_name(call: tuple[Any, ...]) -> str:
    """Return the name of a call for messages."""
    task = call[0]
    return f"{task.dataset} {task.reducer} repeat={task.repeat}"


@lru_cache(maxsize=64)  # a process may open some hundreds of files, and mapped data are two or three
def _data(folder: str, data_sha256: str, verify: str) -> Dataset:
    """Map a prepared dataset once per process, and again if the folder has other content in a later run."""
    del data_sha256
    return open_prepared(Path(folder), verify)


_pin_once = cache(pin)


def execute(task: Task, provenance: Provenance, *, timed: bool = True) -> Answer:
    """Run one task of the driver, which is trusted, on the data in its folder; ``timed`` is as for `run`."""
    allow(task.reducer, task.protocol.engine)
    _pin_once(provenance.threads)
    try:
        data = _data(task.folder, task.data_sha256, task.verify)
        if data.data_sha256 != task.data_sha256:
            raise UserError(
                f"{task.folder} has other data than when this run began; another command prepared {task.dataset} "
                "again, so run the same command again"
            )
        with end_forks():
            return Answer(run(task, data, provenance, timed=timed))
    except UserError as error:  # damaged or changed data: the other tasks continue
        return Answer(failed(task, provenance, str(error)))


# -- lost tasks ------------------------------------------------------------------------------------------------------


@dataclass
class _Divided:
    """A call whose r are run one by one, and the answers that there are by now."""

    call: Call
    answers: dict[int, Answer | Late]


class _Source(Iterator[Call]):
    """Calls to do: first those that are added, then the others; it may have another one after it had none."""

    def __init__(self, calls: Iterable[Call], divide: Callable[[Call], bool]) -> None:
        self.first: deque[Call] = deque()
        self._calls, self._divide = iter(calls), divide

    def __next__(self) -> Call:
        if not self.first:
            call = next(self._calls)
            if not self._divide(call):
                return call
        return self.first.popleft()


def divide_lost_tasks(perform: Perform) -> Perform:
    """Return the function that runs each r of a task by itself if the task as a whole is lost.

    So a limit is one of each trial, and a trial that exceeds it or ends its process is the only one that fails. The
    other repetitions of such a configuration are run that way from the beginning.
    """

    def run(calls: Iterable[Call]) -> Iterator[tuple[Call, Answer | Lost | Late]]:
        divided: dict[Call, _Divided] = {}
        configurations: set[str] = set()

        def divide(call: Call) -> bool:
            task, provenance = call
            if len(task.r_grid) == 1 or task.config_hash not in configurations:
                return False
            whole = _Divided(call, {})
            parts = [(task.restricted((r,)), provenance) for r in task.r_grid]
            divided.update(dict.fromkeys(parts, whole))
            source.first.extend(parts)
            return True

        source = _Source(calls, divide)
        for call, answer in perform(source):
            task, provenance = call
            if isinstance(answer, Lost):
                configurations.add(task.config_hash)
                if divide(call):
                    tell(f"kmdr: warning: {call_name(call)}: {answer.reason}; each r is run by itself")
                    continue
            whole = divided.pop(call, None)
            if whole is None:
                yield call, answer
                continue
            whole.answers[task.r_grid[0]] = (
                Answer(failed(task, provenance, answer.reason)) if isinstance(answer, Lost) else answer
            )
            if len(whole.answers) == len(whole.call[0].r_grid):
                yield whole.call, _united(whole)

    return run


def _united(whole: _Divided) -> Answer | Late:
    """Return the rows of all r of a call, in their order."""
    answers = [answer for r in whole.call[0].r_grid if isinstance(answer := whole.answers[r], Answer)]
    if len(answers) < len(whole.answers):
        return Late()
    environment = next((answer.environment for answer in answers if answer.environment), None)
    return Answer([row for answer in answers for row in answer.rows], environment)


# The process that does the calls of this one, by its limits and threads, and by whether they are timed.
_children: dict[tuple[Limit, int, bool], Workers] = {}


def attempt(task: Task, provenance: Provenance, limit: Limit, *, timed: bool = True) -> Answer | Lost | Late:
    """Run a task as `execute` does; with limits, in a process of its own that is killed if a trial exceeds them."""
    if not limit.is_limited:
        return execute(task, provenance, timed=timed)
    key = (limit, provenance.threads, timed)
    if key not in _children:
        end_children()
        _children[key] = Workers(partial(execute, timed=timed), provenance.threads, tell, limit=limit)

    def perform(calls: Iterable[Call]) -> Iterator[tuple[Call, Answer | Lost | Late]]:
        yield from _children[key].run(calls, 1, call_name)

    ((_, answer),) = divide_lost_tasks(perform)([(task, provenance)])
    return answer


def end_children() -> None:
    """End the processes of `attempt`, which otherwise serve later calls, and end when idle."""
    while _children:
        _children.popitem()[1].__exit__()


@contextmanager
def limited(
    function: Callable[..., Any], limit: Limit, name: Callable[[tuple[Any, ...]], str]
) -> Iterator[Callable[..., Any]]:
    """Call a function in a process that is killed if a call exceeds the limit; the answer is then `Lost`.

    ``function`` is defined at the top level of a module. Its `UserError` is raised here unchanged, any other error as
    a `RuntimeError`. ``name`` returns the name of a call for messages.
    """
    with Workers(partial(_begun, function), 1, tell, limit=limit) as workers:

        def call(*arguments: Any) -> Any:
            ((_, answer),) = workers.run([arguments], 1, name)
            return answer

        yield call


def _begun(function: Callable[..., Any], *arguments: Any) -> Any:
    begin()
    with end_forks():
        return function(*arguments)


# -- on another machine ----------------------------------------------------------------------------------------------

# The folder in which this process found each dataset, by content hash.
_folders: dict[str, Path] = {}
_at_work = threading.Lock()


def check_installation() -> None:
    """Fail if kmdr cannot be imported, or lacks a file that every task needs."""
    reducers.names()
    registry.names()
    code_version()


def serve(
    task: Task,
    provenance: Provenance,
    code: str,
    parcel: transfer.Parcel | None = None,
    limit: Limit = UNLIMITED,
) -> Answer | Lacking | Refused | Late:
    """Run one task far from the driver, on data found by their content, and name this machine in its rows.

    The task's folder is the driver's and is not used. ``code`` is `Task.current_code` on the driver; other code is
    refused. ``parcel`` has the data, if this machine lacked them. ``limit`` is that of each trial.
    """
    allow(task.reducer, task.protocol.engine)
    with _at_work:  # one task at a time per process, to which times and pinned threads belong
        if task.current_code != code:
            return Refused(
                f"a worker has other code of {task.reducer} on {task.dataset} than this command; install the same "
                "version of kmdr there, and what KMDR_PATH names, and start the workers again"
            )
        try:
            folder = transfer.keep(*parcel) if parcel else _folder(task)
        except UserError as error:
            return Answer(failed(task, provenance, str(error)))
        if folder is None:
            return Lacking()
        manifest, key = _this_environment()
        provenance = replace(provenance, code_version=code_version(), env_hash=key, machine=machine())
        answer = attempt(replace(task, folder=str(folder)), provenance, limit)
        if isinstance(answer, Lost):  # it exceeds a limit
            answer = Answer(failed(task, provenance, answer.reason))
        return replace(answer, environment=manifest) if isinstance(answer, Answer) else answer


@cache
def _this_environment() -> tuple[Mapping[str, Any], str]:
    manifest = environment()
    return manifest, short_hash(manifest)


def _folder(task: Task) -> Path | None:
    """Return the folder with the data of a task in this machine's cache, prepared from local files if necessary."""
    digest = task.data_sha256
    if digest not in _folders:
        prepared = datasets.prepared_by_content().get(digest) or _prepared(task)
        if prepared is None:
            return None
        _folders[digest] = prepared
    return _folders[digest]


def _prepared(task: Task) -> Path | None:
    name, options = data_of(task.dataset, task.options)
    if name not in registry.names():
        return None
    # The user's files may be where the driver has them, or where this machine looks for files of their names.
    for paths in filter(None, (task.paths, "{}")):
        with suppress(UserError):  # the driver will send them
            if registry.entry(name).needs_path or datasets.availability_of(name).is_local:
                folder = datasets.prepare(name, options | json.loads(paths), task.verify)
                if open_prepared(folder, task.verify).data_sha256 == task.data_sha256:
                    return folder
    return None
