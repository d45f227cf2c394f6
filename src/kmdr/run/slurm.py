"""Tasks in jobs of Slurm, submitted by submitit.

The jobs are elements of an array, and all that joins them to the driver is a folder that both see, with two files an
element: the driver appends calls to one, a few ahead of what the element is at, and the element its answers to the
other. An element is requeued when its time is over or others need its place; what it has not answered by then, or
when it vanishes, is given to others. A task that ends its jobs several times is given up.

The driver touches a file every second, and elements end soon after it stopped, however it ended.
"""

import os
import shutil
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from types import FrameType
from typing import Any
from uuid import uuid4

import submitit

from kmdr.datasets import sent
from kmdr.entry import undisturbed
from kmdr.errors import UserError, shown, whole_number
from kmdr.files import writing
from kmdr.run.appended import Appended, append
from kmdr.run.task import Task
from kmdr.run.work import Answer, Call, Lacking, Refused, beside, named, serve
from kmdr.run.workers import SAFE_PATH, TRIES, Lost, Workers

# How often files are looked into, the driver's sign of life is given, and Slurm is asked for the jobs it knows.
_TURN_SECONDS = 0.2
_BEAT_SECONDS = 1.0
_LOOK_SECONDS = 5.0
# How long elements do without a sign of life, and the driver without an answer of Slurm.
_SILENCE_SECONDS = 8.0
_PATIENCE_SECONDS = 30.0
# After so long, jobs that wait are told of; a run of another driver that was silent for so long is over.
_WAIT_SECONDS = 30.0
_OVER_SECONDS = 60.0
# Calls ahead for each element: one that it is at, one that follows, and twice as many as it did in the last turn.
_DEEP = 2
# How often an element is requeued: the driver decides which task is given up.
_EVER = 10**6
# What kmdr says of jobs itself.
_OWN = ("job_name", "nodes", "ntasks_per_node", "array_parallelism")


# -- what an element and the driver tell each other ------------------------------------------------------------------


@dataclass(frozen=True)
class _Given:
    """A call for one life of an element; no call ends it."""

    life: str
    number: int
    call: tuple[Any, ...] | None


@dataclass(frozen=True)
class _Alive:
    """An element began, perhaps not for the first time; it does what is given to this life alone."""

    life: str


@dataclass(frozen=True)
class _Begun:
    number: int


@dataclass(frozen=True)
class _Answered:
    number: int
    answer: Answer | Lacking | Refused | Lost


@dataclass(frozen=True)
class _Told:
    line: str


@dataclass(frozen=True)
class _Stopped:
    """A life ends because Slurm, or a person, wants it to."""


@dataclass(frozen=True)
class _Crashed:
    reason: str


# -- in a job --------------------------------------------------------------------------------------------------------


class Element:
    """What a job does: calls that are appended to one file, their answers to another, in a process that may die.

    Parameters
    ----------
    run : Path
        Folder of the run.
    number : int
        Of this element in it.
    threads : int
        BLAS and OpenMP threads.
    """

    def __init__(self, run: Path, number: int, threads: int) -> None:
        self._beat, self._threads = run / "beat", threads
        self._calls, self._answers = _files(run, number)

    def __call__(self) -> None:
        """Do calls until there are to be no more."""
        Appended(self._answers).mend()
        signal.signal(signal.SIGTERM, self._stop)
        threading.Thread(target=self._end_with_driver, daemon=True).start()
        life, at = uuid4().hex, 0
        self._say(_Alive(life))

        def calls() -> Iterator[tuple[Any, ...]]:
            nonlocal at
            file = Appended(self._calls)
            while True:
                for given in file.new():
                    if given.life == life:
                        if given.call is None:
                            return
                        at = given.number
                        self._say(_Begun(at))
                        yield given.call
                time.sleep(_TURN_SECONDS)

        try:
            with Workers(serve, self._threads, lambda line: self._say(_Told(line))) as workers:
                for _, answer in workers.run(calls(), 1, named):
                    self._say(_Answered(at, answer))
        except UserError as error:
            self._say(_Answered(at, Refused(str(error))))
        except Exception as error:
            self._say(_Crashed("\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])))

    def checkpoint(self) -> submitit.helpers.DelayedSubmission:
        """Return what to do when the job is requeued, as submitit asks when its time is over or its place needed."""
        with suppress(OSError):
            self._say(_Stopped())
        return submitit.helpers.DelayedSubmission(self)

    def _say(self, value: object) -> None:
        append(self._answers, value)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        with suppress(OSError):
            self._say(_Stopped())
        raise SystemExit

    def _end_with_driver(self) -> None:
        seen, since = -1, time.monotonic()
        while time.monotonic() - since < _SILENCE_SECONDS:
            try:
                with self._beat.open() as file:  # not its `stat`, which a network file system may remember
                    now = os.fstat(file.fileno()).st_mtime_ns
            except FileNotFoundError:  # it ended in good order
                break
            except OSError:
                now = seen
            if now != seen:
                seen, since = now, time.monotonic()
            time.sleep(_BEAT_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_SILENCE_SECONDS)
        os._exit(1)


def _files(run: Path, number: int) -> tuple[Path, Path]:
    return run / f"{number}.calls", run / f"{number}.answers"


# -- in the driver ---------------------------------------------------------------------------------------------------


@dataclass
class _Job:
    """A call, how many jobs have ended at it, and how many lacked its data."""

    call: Call
    lost: int = 0
    lacked: int = 0


@dataclass
class _State:
    """What is known of an element; without a life it is given nothing."""

    calls: Path
    answers: Appended
    job_id: str
    life: str = ""
    given: dict[int, _Job] = field(default_factory=dict)
    begun: int = -1
    answered: int = 0
    recent: int = 0
    not_seen: int = 0


class Cluster:
    """Slurm, as `kmdr.run.work.Cluster` has it.

    Parameters
    ----------
    folder : Path
        In which the run has a folder of its own.
    parameters : mapping
        Of the jobs, as `submitit.SlurmExecutor` takes them.
    size : int
        Jobs at once.
    threads : int
        BLAS and OpenMP threads of each.
    """

    def __init__(self, folder: Path, parameters: Mapping[str, Any], size: int, threads: int) -> None:
        self._name = f"kmdr-{uuid4().hex[:12]}"
        self._folder, self._size, self._threads = folder.expanduser().resolve(), size, threads
        self._run = self._folder / self._name
        setup = [*(parameters.get("setup") or ()), f"export {SAFE_PATH}=1"]
        own = {"job_name": self._name, "array_parallelism": size, "setup": setup}
        self._parameters = {"cpus_per_task": threads, "signal_delay_s": 30, **parameters, **own}
        self._numbers, self._calls = count(), count()
        self._elements: list[_State] = []
        self._queue: deque[_Job] = deque()
        self._over = threading.Event()
        self._answer_of_slurm, self._looked = time.monotonic(), 0.0
        self._submitted, self._barren = 0.0, 0

    def size(self) -> int:
        """Return the number of jobs at once."""
        return self._size

    def check(self) -> None:
        """Refuse parameters that are none of a job, and a place where no Slurm answers.

        Raises
        ------
        UserError
        """
        try:
            self._executor()
            _ask("squeue", "-h", f"--name={self._name}")
        except ValueError as error:
            raise UserError(f"runner.slurm: {' '.join(str(error).split())}") from error
        except (OSError, RuntimeError) as error:
            raise UserError(
                f"no Slurm answers here ({error}); run this where sbatch works, or choose another runner"
            ) from error

    def _executor(self) -> submitit.SlurmExecutor:
        executor = submitit.SlurmExecutor(self._run / "jobs", max_num_timeout=_EVER)
        executor.update_parameters(**self._parameters)
        return executor

    def perform(self, calls: Iterable[Call], tell: Callable[[str], None]) -> Iterator[tuple[Call, Answer | Lost]]:
        """Run calls and yield each with its answer, as `kmdr.run.work.Perform` says.

        Raises
        ------
        UserError
            When Slurm is gone, ends all jobs before they begin, or a job must not or cannot run a task.
        """
        source = iter(calls)
        told_of_wait = False
        while True:
            for element in self._elements:
                yield from self._hear(element, tell)
            under_way = sum(len(element.given) for element in self._elements)
            self._queue.extend(map(_Job, islice(source, max(0, self._size - under_way - len(self._queue)))))
            self._give(source)
            if not self._queue and not any(element.given for element in self._elements):
                return
            to_come = sum(not element.life for element in self._elements)
            self._submit(min(self._size - len(self._elements), len(self._queue) - to_come))
            if time.monotonic() - self._looked > _LOOK_SECONDS:
                reasons = self._look()
                for element in [each for each in self._elements if each.not_seen > 1]:
                    yield from self._hear(element, tell)
                    yield from self._take_back(element, "its job ended", tell)
                    self._elements.remove(element)
                waits = not any(element.life for element in self._elements)
                if waits and not told_of_wait and time.monotonic() - self._submitted > _WAIT_SECONDS:
                    told_of_wait = True
                    why = ", ".join(sorted(reasons)) or "for no reason that it tells"
                    tell(f"kmdr: all jobs of this run wait in Slurm ({why}); it goes on when one begins")
            time.sleep(_TURN_SECONDS)

    # -- calls and answers

    def _give(self, source: Iterator[Call]) -> None:
        """Give the elements that run as many calls as each has room for, and end those that nothing is left for."""
        for element in sorted(self._elements, key=lambda element: len(element.given)):
            if not element.life:
                continue
            room = _DEEP + 2 * element.recent - len(element.given)
            self._queue.extend(map(_Job, islice(source, max(0, room - len(self._queue)))))
            jobs = {next(self._calls): self._queue.popleft() for _ in range(min(room, len(self._queue)))}
            if jobs:
                element.given |= jobs
                append(
                    element.calls,
                    *(_Given(element.life, number, self._arguments(job.call)) for number, job in jobs.items()),
                )
            elif not element.given:
                append(element.calls, _Given(element.life, -1, None))
                self._elements.remove(element)

    def _arguments(self, call: Call) -> tuple[Any, ...]:
        task, stamp = call
        places = task.folder, str(self._data_of(task))
        return task, beside(stamp), task.current_code, None, places

    def _data_of(self, task: Task) -> Path:
        """Return the folder for the data of a task, where elements lack them."""
        return self._run / "data" / task.data_sha256[:12]

    def _hear(self, element: _State, tell: Callable[[str], None]) -> Iterator[tuple[Call, Answer | Lost]]:
        """Take in what an element has said since the last time."""
        before = element.answered
        for said in element.answers.new():
            match said:
                case _Alive(life):
                    yield from self._take_back(element, "its job ended", tell)
                    element.life, element.answered, before = life, 0, 0
                    self._barren = 0
                case _Begun(number):
                    element.begun = number
                case _Told(line):
                    tell(line)
                case _Stopped():
                    # A task that had a job from its beginning to its end has no better chance in the next.
                    alone = "its job was stopped before it was done" if not element.answered else ""
                    yield from self._take_back(element, alone, tell)
                case _Crashed(reason):
                    raise RuntimeError(reason)
                case _Answered(_, Refused(reason)):
                    raise UserError(f"{reason} (Slurm job {element.job_id})")
                case _Answered(number, answer) if number in element.given:
                    element.answered += 1
                    job = element.given.pop(number)
                    if isinstance(answer, Answer | Lost):
                        yield job.call, answer
                    elif job.lacked < TRIES:
                        job.lacked += 1
                        self._put_data(job.call[0])
                        self._queue.appendleft(job)
                    else:
                        yield job.call, Lost(f"its job has not the data and cannot read {self._run}, {TRIES} times")
        element.recent = element.answered - before

    def _put_data(self, task: Task) -> None:
        folder = self._data_of(task)
        if not folder.exists():
            with writing(folder):
                sent.copy(Path(task.folder), folder)

    def _take_back(
        self, element: _State, why: str, tell: Callable[[str], None]
    ) -> Iterator[tuple[Call, Answer | Lost]]:
        """End a life: what it has not answered is for others, but what it was at is given up after a few times."""
        at = element.given.get(element.begun)
        if at is not None and why:
            at.lost += 1
            if at.lost == TRIES:
                del element.given[element.begun]
                yield at.call, Lost(f"{why}, {TRIES} times")
            else:
                tell(f"kmdr: {named(at.call)}: {why}; the task is tried again")
        self._queue.extendleft(reversed(element.given.values()))
        element.given = {}
        element.life, element.begun = "", -1

    # -- jobs

    def _submit(self, elements: int) -> None:
        """Submit an array of so many elements."""
        if elements <= 0:
            return
        if self._barren == TRIES:
            raise UserError(
                f"jobs of Slurm end before they begin, {TRIES} times{self._last_words()}; see to that, or change "
                "runner.slurm; the same command goes on"
            )
        self._barren += 1
        self._open()
        numbers = list(islice(self._numbers, elements))
        for number in numbers:
            for path in _files(self._run, number):
                path.touch()  # looked for before it is there, a network file system may not show it for a while
        try:
            with undisturbed(), _as_outside_of_jobs():
                jobs = self._executor().submit_array([Element(self._run, number, self._threads) for number in numbers])
        except (RuntimeError, OSError) as error:
            raise UserError(
                f"Slurm takes no jobs ({' '.join(str(error).split())[:300]}); change runner.slurm or runner.n_jobs; "
                "the same command goes on"
            ) from error
        for number, job in zip(numbers, jobs, strict=True):
            calls, answers = _files(self._run, number)
            self._elements.append(_State(calls, Appended(answers), job.job_id))
        self._submitted = self._looked = self._answer_of_slurm = time.monotonic()

    def _open(self) -> None:
        """Make the folder of the run and keep giving signs of life there; end what other drivers left."""
        if self._run.exists():
            return
        with writing(self._run):
            self._run.mkdir(mode=0o700, parents=True)
            beat = self._run / "beat"
            beat.touch()
        for other in self._folder.glob("kmdr-*/beat"):
            with suppress(OSError):  # both times are of the file system's clock
                if beat.stat().st_mtime - other.stat().st_mtime > _OVER_SECONDS:
                    _cancel(other.parent.name)
                    shutil.rmtree(other.parent, ignore_errors=True)

        def give_signs() -> None:
            while not self._over.wait(_BEAT_SECONDS):
                with suppress(OSError):
                    os.utime(beat)

        threading.Thread(target=give_signs, daemon=True).start()

    def _look(self) -> set[str]:
        """Note which elements Slurm has not, and return why others wait.

        Raises
        ------
        UserError
            When Slurm has not answered for some time.
        """
        try:
            lines = _ask("squeue", "-h", "-r", "-o", "%i %r", f"--name={self._name}")
        except OSError as error:
            if time.monotonic() - self._answer_of_slurm > _PATIENCE_SECONDS:
                raise UserError(
                    f"Slurm is gone ({error}); finished tasks are kept, and the same command goes on once it is back"
                ) from error
        else:
            self._answer_of_slurm = time.monotonic()
            reasons = dict(line.split(maxsplit=1) for line in lines)
            for element in self._elements:
                element.not_seen = 0 if element.job_id in reasons else element.not_seen + 1
            return set(reasons.values())
        finally:
            self._looked = time.monotonic()
        return set()

    def _last_words(self) -> str:
        """Return the last line that a job wrote, in brackets."""
        for path in sorted((self._run / "jobs").glob("*_log.err"), key=lambda path: path.stat().st_mtime)[-1:]:
            lines = path.read_text("utf-8", "replace").split("\n")
            return "".join(f" ({line.strip()[:200]})" for line in [line for line in lines if line.strip()][-1:])
        return f"; is {self._run.parent} a folder that its nodes see?"

    def close(self) -> None:
        """End all jobs."""
        self._over.set()
        if self._run.exists():
            with suppress(OSError):
                (self._run / "beat").unlink()
            _cancel(self._name)
            shutil.rmtree(self._run, ignore_errors=True)
            with suppress(OSError):
                self._folder.rmdir()  # of other runs there may be some


@contextmanager
def _as_outside_of_jobs() -> Iterator[None]:
    """Hide what says that this process is in a job itself, where it is: the jobs that it submits would take it over."""
    configuration = {name: os.environ[name] for name in ("SLURM_CONF",) if name in os.environ}
    with submitit.helpers.clean_env():
        os.environ.update(configuration)
        yield


def _ask(*command: str) -> list[str]:
    """Run a command of Slurm and return its lines; an OSError says what it has against that."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=60, start_new_session=True, errors="replace"
        )
    except subprocess.CalledProcessError as error:
        raise OSError(" ".join(error.stderr.split())[:200]) from error
    except subprocess.TimeoutExpired as error:
        raise OSError(f"{command[0]} has not ended after {error.timeout:.0f} s") from error
    return done.stdout.splitlines()


def _cancel(name: str) -> None:
    """Cancel the jobs of a run; where Slurm is gone they end without a sign of life."""
    with suppress(OSError):
        _ask("scancel", f"--name={name}", f"--user={os.getuid()}")


def check(size: int, folder: Any, parameters: Any) -> None:
    """Refuse settings with which no job can be submitted, as far as they tell without Slurm.

    Raises
    ------
    UserError
    """
    if size == -1:
        raise UserError("runner.n_jobs = -1: Slurm has no number of its own; say how many jobs there may be at once")
    if not isinstance(folder, str) or not folder or "\0" in folder:
        raise UserError(f"runner.folder = {shown(folder)} is no folder; name one that Slurm's nodes see too")
    if not isinstance(parameters, Mapping):
        raise UserError(f"runner.slurm = {shown(parameters)} are no parameters; write e.g. runner.slurm.time=60")
    for name in _OWN:
        if name in parameters:
            raise UserError(f"runner.slurm.{name} is kmdr's to say; leave it out")
    whole_number("runner.slurm.time", parameters.get("time"), 1)


@contextmanager
def connected(folder: str, parameters: Mapping[str, Any], size: int, threads: int) -> Iterator[Cluster]:
    """Give access to Slurm for the time of the block; its jobs end with it.

    Parameters
    ----------
    folder : str
        On a file system that the nodes see too; the run has a folder of its own in it, removed at the end.
    parameters : mapping
        Of the jobs, as `submitit.SlurmExecutor` takes them.
    size : int
        Jobs at once.
    threads : int
        BLAS and OpenMP threads of each, and cores unless ``parameters`` say otherwise.

    Raises
    ------
    UserError
        When Slurm does not answer or ``parameters`` are none of a job.
    """
    cluster = Cluster(Path(folder), parameters, size, threads)
    cluster.check()
    try:
        yield cluster
    finally:
        with undisturbed():
            cluster.close()
