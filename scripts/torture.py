"""Kill, interrupt and break commands of kmdr at random moments, repeat them, and check the folder afterwards.

``torture.py`` does 1000 kills and 200 other signals; ``--kills``, ``--signals``, ``--faults``, ``--flips`` and
``--sharing`` set how much of each. Moments are drawn uniformly over the time that the undisturbed command takes,
which is measured first. A kill counts if the process died of it. After one to six kills the same command runs to its
end, and the folder is compared, file by file, with that of the undisturbed command. A tenth of the kills
(``--whole``) hits whole ``python -m kmdr`` processes, the others children of a process that has imported kmdr
(`sandbox`).

kills    SIGKILL during runs with one and two workers, merges, reports, figures, preparations and downloads
signals  TERM, INT, two INT, HUP, a killed worker, STOP and CONT, during runs, merges and reports
faults   the N-th write, open, rename, fsync, lock … in the folder fails, for each N in turn (needs a C compiler)
flips    one bit of the results or of the prepared data is inverted
sharing  several runs on one folder at once, with the same process numbers, under another mount, many ends at once

Exit status: 1 if anything was lost, wrong, left behind, not reported, or reported in more than one sentence.
"""

import argparse
import ctypes
import dataclasses
import errno
import functools
import http.server
import json
import os
import random
import re
import shutil
import signal
import socketserver
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import kmdr.harness.jobs
import sandbox
from kmdr.base.text import aligned
from kmdr.cli import commands as cli
from kmdr.datasets import command as data_command
from sandbox import HANG_SECONDS, KINDS, Command, Kind, Sandbox, compared, is_worker

_IN_A_ROW = 6
_PART = 8
_NOISE = re.compile(r"Traceback|Exception ignored|Fatal Python error")
_COLUMNS = (
    "done",
    "too early",
    "too late",
    "repeated",
    "equal",
    "unequal",
    "hang",
    "traceback",
    "left behind",
    "output",
    "exit",
)
_INTERRUPTED = {130, 129, 143}
_GO_ON = ("worker KILL", "STOP CONT")  # signals after which a command goes on

# Signals: what is sent, and how often of all.
SIGNALS: dict[str, tuple[float, tuple[str, ...]]] = {
    "TERM": (0.2, ("run", "run, 2 workers", "merge", "report")),
    "INT": (0.2, ("run", "run, 2 workers", "merge", "report")),
    "INT INT": (0.2, ("run", "run, 2 workers")),
    "HUP": (0.15, ("run", "run, 2 workers", "merge")),
    "worker KILL": (0.15, ("run, 2 workers",)),
    "STOP CONT": (0.1, ("run", "run, 2 workers")),
}


# Seconds of an undisturbed command, the folder it makes, the files of which differ from run to run.
Reference = tuple[float, dict[str, Any], frozenset[str]]


class Tally:
    """Counts by kind; each failure is also printed at once."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def count(self, kind: str, what: str, failure: str = "", seconds: float = 0.0) -> None:
        """Count an outcome and its duration; print the failure, if any."""
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps([kind, what, failure, seconds]) + "\n")
        if failure:
            print(f"FAILED {kind}: {what}: {failure}", flush=True)


def _tail(text: str, lines: int = 6) -> str:
    return " | ".join(line.strip() for line in text.strip().splitlines()[-lines:])[-1500:]


def _sentences(text: str) -> list[str]:
    # `kmdr data get` says what became of each dataset in a line of the dataset's own.
    return [line for line in text.splitlines() if re.match(r"kmdr: (?!note: )|\w+: (missing|failed): ", line)]


@dataclasses.dataclass
class Lane:
    """One of several processes that torture side by side: its folder, its counts, what undisturbed commands do.

    Attributes
    ----------
    box : Sandbox
    tally : Tally
    seed : int
    until : float
        When to stop, on the monotonic clock.
    whole : float
        Share of whole processes.
    number, lanes : int
        Which of how many it is.
    """

    box: Sandbox
    tally: Tally
    seed: int
    until: float
    whole: float
    number: int
    lanes: int
    known: dict[tuple[str, bool], Reference] = dataclasses.field(default_factory=dict)

    def reference(self, kind: Kind, whole: bool = False) -> Reference:
        """Return how long a command takes undisturbed, the folder it makes, and which files differ from run to run."""
        key = (kind.name, whole)
        if key not in self.known:
            seconds, made = [], []
            for _ in range(2):
                self.box.reset(kind.start)
                command = self.box.start(kind.argv, whole=whole)
                if not command.wait(120) or command.status:
                    raise RuntimeError(f"{kind.name} fails by itself: {command.status}: {command.output()}")
                seconds.append(time.monotonic() - command.started)
                if left := self.box.left_behind([command]):
                    self.tally.count(kind.name, "left behind", f"undisturbed: {'; '.join(left)}")
                if _NOISE.search(command.output()):
                    self.tally.count(kind.name, "traceback", f"undisturbed: {_tail(command.output())}")
                made.append(self.box.snapshot())
            volatile = frozenset(name for name in made[0] if made[0][name] != made[1].get(name))
            self.known[key] = min(seconds), made[0], volatile
        return self.known[key]

    def finish(self, kind: Kind, label: str, commands: list[Command], whole: bool = False, note: str = "") -> None:
        """Run the command to its end and compare."""
        seconds, made, volatile = self.reference(kind, whole)
        command = self.box.start(kind.argv, whole=whole)
        commands.append(command)
        if not command.wait(HANG_SECONDS + 10 * seconds):
            self.hang(label, command, note)
            return
        self.tally.count(label, "repeated")
        if command.status:
            self.tally.count(
                label, "exit", f"{note}: the repeated command gives {command.status}: {_tail(command.output())}"
            )
        if _NOISE.search(command.output()):
            self.tally.count(label, "traceback", f"{note}: the repeated command: {_tail(command.output(), 30)}")
        left = self.box.left_behind(commands)
        if left:
            self.tally.count(label, "left behind", f"{note}: {'; '.join(left)}")
        self.compare(label, made, volatile, note)

    def hang(self, label: str, command: Command, note: str) -> None:
        """Count a command that does not end, with where it stands, and end it."""
        with suppress(ProcessLookupError):
            command.signal(signal.SIGABRT)  # faulthandler tells the stacks
            command.wait(5)
            command.signal(signal.SIGKILL, group=True)
        command.wait(10)
        self.tally.count(label, "hang", f"{note}: {_tail(command.output(), 40)}")

    def compare(self, label: str, made: dict[str, Any], volatile: frozenset[str], note: str) -> None:
        """Count the folder as equal or not."""
        differ = compared(self.box.snapshot(), made, volatile)
        over = [text for text in differ if text.endswith("left over")]
        if over:
            self.tally.count(label, "left behind", f"{note}: {'; '.join(over)[:600]}")
        if differ[: len(differ) - len(over)]:
            self.tally.count(label, "unequal", f"{note}: {'; '.join(differ)[:600]}")
        else:
            self.tally.count(label, "equal")

    # -- kills -------------------------------------------------------------------------------------------------------

    def kill(self, kind: Kind, kills: int, part: int) -> None:
        """Kill a command so many times, as one of several parts of all its kills."""
        killed = trial = 0
        while killed < kills and time.monotonic() < self.until:
            trial += 1
            rng = random.Random(f"{self.seed} {kind.name} {part} {trial}")
            whole = kind.whole and rng.random() < self.whole / _WHOLE_KINDS
            seconds, *_ = self.reference(kind, whole)
            self.box.reset(kind.start)
            commands: list[Command] = []
            moments = []
            for _ in range(rng.randint(1, _IN_A_ROW)):
                if killed == kills:
                    break
                command = self.box.start(kind.argv, whole=whole)
                commands.append(command)
                moments.append(rng.uniform(0, seconds))
                if command.wait(moments[-1]):
                    self.tally.count(kind.name, "too late")
                    break
                command.signal(signal.SIGKILL)
                command.wait(10)
                if command.status == -signal.SIGKILL:
                    killed += 1
                    self.tally.count(kind.name, "done")
                if _NOISE.search(command.output()):
                    self.tally.count(kind.name, "traceback", _tail(command.output(), 30))
            note = f"seed {self.seed}, {part}, {trial} {'whole ' if whole else ''}at {[f'{m:.2f}' for m in moments]}"
            self.finish(kind, kind.name, commands, whole, note)

    # -- other signals -----------------------------------------------------------------------------------------------

    def disturb(self, name: str, times: int, part: int) -> None:
        """Send a signal, or a row of them, so many times, as one of several parts."""
        done = trial = 0
        while done < times and trial < 4 * times + 10 and time.monotonic() < self.until:
            trial += 1
            rng = random.Random(f"{self.seed} {name} {part} {trial}")
            kind = KINDS[rng.choice(SIGNALS[name][1])]
            whole = kind.whole and rng.random() < self.whole
            seconds, *_ = self.reference(kind, whole)
            self.box.reset(kind.start)
            label = f"{name}: {kind.name}"
            command = self.box.start(kind.argv, whole=whole)
            moment = rng.uniform(0, seconds)
            note = f"seed {self.seed}, {part}, {trial} {'whole ' if whole else ''}at {moment:.2f} of {seconds:.2f}"
            late, sent = command.wait(moment), time.monotonic()
            if late or not _send(name, command, rng, seconds):
                self.tally.count(label, "too late")
                self.end(command, label, note, seconds)
                continue
            done += 1
            goes_on = name in _GO_ON
            ended = self.end(command, label, note, 10 * seconds if goes_on else 0.0)
            self.tally.count(label, "done", seconds=0.0 if goes_on else time.monotonic() - sent)
            if ended:
                self.judge(name, command, kind.start, label, note)
                self.finish(kind, label, [command], whole, note)

    def end(self, command: Command, label: str, note: str, seconds: float) -> bool:
        """Wait for the end of a command that was signalled; return whether it came in time."""
        if command.wait(HANG_SECONDS + seconds):
            return True
        self.hang(label, command, note)
        self.box.left_behind([command])
        return False

    def judge(self, name: str, command: Command, start: str, label: str, note: str) -> None:
        """Check the output and exit status of a signalled command, and whether it merged its table."""
        output = command.output()
        if _NOISE.search(output):
            self.tally.count(label, "traceback", f"{note}: {_tail(output, 30)}")
        if (command.status or 0) < 0 and not output and self.box.is_at(start):
            self.tally.count(label, "too early")  # for the handlers of signals: nothing has begun
        elif command.status and (name in _GO_ON or command.status not in _INTERRUPTED):
            self.tally.count(label, "exit", f"{note}: it ended with {command.status}: {_tail(output)}")
        elif command.status and len(_sentences(output)) != 1:
            self.tally.count(label, "output", f"{note}: it output {_sentences(output)}: {_tail(output)}")
        elif command.status and "run" in label and name != "INT INT":  # the second ends it at once
            rows, kept = len(self.box.table()), _rows_of_tasks(self.box)
            if rows < kept:
                self.tally.count(label, "unequal", f"{note}: {kept} rows in task files, {rows} in the table")

    # -- faults ------------------------------------------------------------------------------------------------------

    def fail(self, kind: Kind, times: int, part: int) -> None:
        """Let calls of a command fail, one in each run: a part of all calls in a random order."""
        _, made, volatile = self.reference(kind)
        calls = self.calls(kind)
        every = [(number, error) for number, call in enumerate(calls, 1) for error in FAULTS[call.split()[0]]]
        random.Random(f"{self.seed - self.number} {kind.name} faults").shuffle(every)  # the same in all lanes
        for number, error in every[self.number :: self.lanes][part * _PART :][:times]:
            if time.monotonic() > self.until:
                return
            label, lasting = f"faults: {kind.name}", error in ("ENOSPC", "EROFS", "ENOLCK")
            self.box.reset(kind.start)
            protocol = self.box.base / "protocol"
            code = 0 if error == "SHORT" else getattr(errno, error)
            armed = functools.partial(_arm, self.box, protocol, number, code, lasting)
            command = self.box.start(kind.argv, before=armed)
            note = f"{error} at call {number}, {calls[number - 1].replace(str(self.box.work), '.')}"
            if not command.wait(HANG_SECONDS + 10 * self.reference(kind)[0]):
                self.hang(label, command, note)
            hit = [line for line in protocol.read_text().splitlines() if line.startswith("! ")]
            if not hit:
                self.tally.count(label, "too late")
                continue
            note = f"{error} at call {number}, {hit[0][2:].replace(str(self.box.work), '.')}"
            self.tally.count(label, "done")
            output = command.output()
            if _NOISE.search(output):
                self.tally.count(label, "traceback", f"{note}: {_tail(output, 30)}")
            elif command.status:
                sentences = _sentences(output)
                if len(sentences) != 1 or not re.search(rf"\bout\b|cache|/{self.box.work.name}/", sentences[0]):
                    self.tally.count(label, "output", f"{note}: it ended with {command.status} and output {sentences}")
            else:
                self.compare(f"{label}, tolerated", made, volatile, f"{note}, tolerated")
            kept = _task_files(self.box)
            self.finish(kind, label, [command], note=note)
            lost = [path for path, content in kept.items() if _task_files(self.box).get(path) != content]
            if lost:
                self.tally.count(label, "unequal", f"{note}: computed again: {lost}")

    def calls(self, kind: Kind) -> list[str]:
        """Return the calls of an undisturbed command that can fail, each as its name and path."""
        self.box.reset(kind.start)
        protocol = self.box.base / "protocol"
        command = self.box.start(kind.argv, before=functools.partial(_arm, self.box, protocol, 0, 0, False))
        if not command.wait(120) or command.status:
            raise RuntimeError(f"{kind.name} fails by itself: {command.output()}")
        return protocol.read_text().splitlines()

    # -- flips -------------------------------------------------------------------------------------------------------

    def flip(self, times: int, part: int) -> None:
        """Flip one bit so many times, as one of several parts."""
        kind = KINDS["run"]
        _, made, _ = self.reference(dataclasses.replace(kind, name="run again", start="done"))
        for trial in range(times):
            if time.monotonic() > self.until:
                return
            rng = random.Random(f"{self.seed} flip {part} {trial}")
            self.box.reset("done")
            where = self.box.work / rng.choice(("out", "cache"))
            files = sorted(p for p in where.rglob("*") if p.is_file() and p.stat().st_size)
            path = rng.choices(files, [p.stat().st_size for p in files])[0] if trial % 2 else rng.choice(files)
            before, content = path.stat(), bytearray(path.read_bytes())
            place = rng.randrange(len(content))
            content[place] ^= 1 << rng.randrange(8)
            path.write_bytes(content)
            silent = rng.random() < 0.5
            if silent:  # as a failing disk does it
                os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
            name = str(path.relative_to(self.box.work))
            label = f"flips: {'/'.join(name.split('/')[:2])}"
            note = f"seed {self.seed}, {part}, {trial}: byte {place} of {name}{' (same mtime)' if silent else ''}"
            self.tally.count(label, "done")
            output, codes = "", []
            for argv in (*_checks(), kind.argv):
                command = self.box.start(argv)
                if not command.wait(60):
                    self.hang(label, command, note)
                output += command.output()
                codes.append(command.status)
            if _NOISE.search(output):
                self.tally.count(label, "traceback", f"{note}: {_tail(output, 30)}")
            named = path.name in output or path.parent.name in output or name in output
            whole = not path.is_file() or path.read_bytes() != bytes(content)
            equal = self.box.table() == made["out/rows.csv"]
            self.tally.count(label, "equal" if equal else "table differs")
            if not equal and not any(codes):
                self.tally.count(label, "unequal", f"{note}: another table and status 0: {_tail(output)}")
            elif not named and not whole:
                self.tally.count(label, "output", f"{note}: neither repaired nor named: {codes} {_tail(output)}")
            else:
                self.tally.count(label, "named" if named else "repaired")

    # -- sharing -----------------------------------------------------------------------------------------------------

    def share(self) -> None:
        """Run several commands on one folder at once."""
        kind = KINDS["run"]
        seconds, made, volatile = self.reference(kind)
        for trial in range(10):
            rng = random.Random(f"{self.seed} two {trial}")
            self.box.reset("empty")
            commands = []
            for label in ("log", "log2", "log3"):
                commands.append(self.box.start(kind.argv, label=label))
                time.sleep(rng.uniform(0, seconds / 2))
            self._ended("sharing: three runs at once", commands, made, volatile, f"trial {trial}")
        for what, around in WRAPPED.items():
            label = f"sharing: {what}"
            if subprocess.run([*around(self.box), "true"], capture_output=True, check=False).returncode:
                print(f"{label} is skipped: {around(self.box)[0]} is not allowed here")
                continue
            _, made, volatile = self.reference(kind, whole=True)
            for trial in range(2):
                self.box.reset("empty")
                commands = [
                    self._wrapped(around(self.box) if number or "same" in what else [], kind, f"log{number}")
                    for number in range(2)
                ]
                self._ended(label, commands, made, volatile, f"trial {trial}")
        self._many_ends()

    def _wrapped(self, around: list[str], kind: Kind, label: str) -> Command:
        log = self.box.base / label
        with log.open("wb") as file:
            process = subprocess.Popen(
                [*around, sys.executable, "-m", "kmdr", *kind.argv],
                stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=self.box.work, env=self.box.environment(),
                start_new_session=True,
            )  # fmt: skip
        process.returncode = 0
        return Command(process.pid, log, time.monotonic())

    def _ended(
        self, label: str, commands: list[Command], made: dict[str, Any], volatile: frozenset[str], note: str
    ) -> None:
        self.tally.count(label, "done")
        for command in commands:
            if not command.wait(120):
                self.hang(label, command, note)
            elif command.status:
                self.tally.count(label, "exit", f"{note}: {command.status}: {_tail(command.output())}")
            if _NOISE.search(command.output()):
                self.tally.count(label, "traceback", f"{note}: {_tail(command.output(), 30)}")
        if left := self.box.left_behind(commands):
            self.tally.count(label, "left behind", f"{note}: {'; '.join(left)}")
        self.compare(label, made, volatile, note)

    def _many_ends(self) -> None:
        """Let 40 studies end at once on one folder: each must be noted in ``asked.json``."""
        label = "sharing: 40 ends at once"
        (job,) = sandbox.jobs_of(KINDS["merge"].argv)[:1]
        names = [f"study{number:02d}" for number in range(40)]
        for trial in range(2):
            self.box.reset("done")
            commands = []
            for name in names:
                study = {**dict.fromkeys(("title", "note", "paper"), ""), "name": name, "datasets": [], "reducers": []}
                experiments = tuple(dataclasses.replace(e, study=name, repeats=1) for e in job.experiments)
                own_job = dataclasses.replace(job, study=study, experiments=experiments)
                commands.append(
                    self.box.start(KINDS["run"].argv, label=name, before=functools.partial(_run_lightly, [own_job]))
                )
            self.tally.count(label, "done")
            for command in commands:
                if not command.wait(180):
                    self.hang(label, command, "")
                elif command.status:
                    self.tally.count(label, "exit", f"{command.status}: {_tail(command.output())}")
            asked = json.loads((self.box.work / "out" / "asked.json").read_text())
            lost = [name for name in names if name not in asked]
            studies = {dict(row)["study"] for row in self.box.table()}
            lost += [f"{name} in the table" for name in names if name not in studies]
            self.tally.count(label, "unequal" if lost else "equal", f"trial {trial}: lost {lost}" if lost else "")
            if left := self.box.left_behind(commands):
                self.tally.count(label, "left behind", "; ".join(left))


WRAPPED: dict[str, Callable[[Sandbox], list[str]]] = {
    "the same process numbers": lambda _: ["unshare", "-pf", "--mount-proc"],
    "another mount": lambda box: [
        "unshare", "-m", "sh", "-c",
        f'cd {box.base} && mkdir -p {box.mounted} && mount --bind {box.work} {box.mounted} && cd {box.mounted} && "$@"',
        "sh",
    ],
}  # fmt: skip

FAULTS = {
    "open": ("ENOSPC", "EACCES", "EROFS", "EIO"),
    "write": ("ENOSPC", "EIO", "EFBIG", "SHORT"),
    "pwrite": ("ENOSPC", "EIO", "SHORT"),
    "writev": ("ENOSPC",),
    "copy_file_range": ("ENOSPC",),
    "sendfile": ("ENOSPC",),
    "fsync": ("EIO", "ENOSPC"),
    "ftruncate": ("EFBIG", "EIO"),
    "rename": ("EACCES", "EROFS", "ENOSPC"),
    "link": ("EACCES", "ENOSPC"),
    "mkdir": ("ENOSPC", "EACCES", "EROFS"),
    "lock": ("ENOLCK", "EIO"),
}
_FAULTED = ("run", "report", "figures", "prepare synth", "download http")
_WHOLE_KINDS = sum(kind.share for kind in KINDS.values() if kind.whole)


def _run_lightly(jobs: list[Any]) -> None:
    """Run jobs without the expected seconds of studies from the reference run, which has 62,000 rows."""
    kmdr.harness.jobs.reference_means = dict  # type: ignore[attr-defined]
    sandbox.run_instead(jobs)


def _checks() -> list[tuple[str, ...]]:
    """Return the commands that look for damage."""
    known = (("check", "out"), ("data", "check"))
    return [argv for argv in known if "check" in (cli.COMMANDS if argv[0] == "check" else data_command._ACTIONS)]


def _arm(box: Sandbox, protocol: Path, number: int, code: int, lasting: bool) -> None:
    descriptor = os.open(protocol, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    ctypes.CDLL(None).fault_arm(f"{box.work}/".encode(), ctypes.c_long(number), code, int(lasting), descriptor)


def _task_files(box: Sandbox) -> dict[str, bytes]:
    return {str(p.relative_to(box.work)): p.read_bytes() for p in (box.work / "out").glob("tasks/*/*/*/*.csv")}


def _rows_of_tasks(box: Sandbox) -> int:
    return sum(content.count(b"custom,") for content in _task_files(box).values())


def _send(name: str, command: Command, rng: random.Random, seconds: float) -> bool:
    """Send what a name says; return whether the command was there to get it."""
    with suppress(ProcessLookupError):
        if name == "worker KILL":
            until = time.monotonic() + 2 * seconds
            while time.monotonic() < until and not command.wait(0.005):
                if workers := [pid for pid in command.session_processes() if is_worker(pid)]:
                    os.kill(rng.choice(workers), signal.SIGKILL)
                    return True
            return False
        if name == "STOP CONT":
            command.signal(signal.SIGSTOP, group=True)
            time.sleep(0.3)
            command.signal(signal.SIGCONT, group=True)
            return True
        group = name.startswith("INT") and rng.random() < 0.7  # a terminal's Ctrl-C goes to all
        for position, part in enumerate(name.split()):
            if position and command.wait(rng.uniform(0, 0.3)):
                break
            command.signal(getattr(signal, f"SIG{part}"), group)
        return True
    return False


# -- the server of the downloads -------------------------------------------------------------------------------------


class _Slow(http.server.SimpleHTTPRequestHandler):
    """Serves a folder in small pieces, and parts of files as well."""

    def do_GET(self) -> None:
        content = (Path(self.directory) / Path(self.path).name).read_bytes()
        start = int((re.search(r"bytes=(\d+)-", self.headers.get("Range", "")) or ["", "0"])[1])
        if start > len(content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        with suppress(OSError):
            for place in range(start, len(content), 2**14):
                self.wfile.write(content[place : place + 2**14])
                time.sleep(0.01)

    def log_message(self, *_: Any) -> None:
        pass


def _serve(folder: Path) -> tuple[int, int]:
    """Serve a folder from a child; return its process and port."""
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), functools.partial(_Slow, directory=str(folder)))
    server.daemon_threads = True
    pid = os.fork()
    if pid == 0:
        try:
            server.serve_forever()
        finally:
            os._exit(0)
    server.socket.close()
    return pid, int(server.server_address[1])


# -- all of it -------------------------------------------------------------------------------------------------------


def _dealt(total: int, shares: dict[str, float], lanes: int) -> list[dict[str, int]]:
    """Deal a number out to names by their shares, and to lanes."""
    scale = sum(shares.values())
    counts = {name: round(total * share / scale) for name, share in shares.items()}
    first = next(iter(counts), None)
    if first is not None:
        counts[first] += total - sum(counts.values())
    return [{name: (n + lane) // lanes for name, n in counts.items()} for lane in range(lanes)]


def _parts(count: int) -> list[tuple[int, int]]:
    return [(first // _PART, min(_PART, count - first)) for first in range(0, count, _PART)]


def _work(lane: Lane, arguments: argparse.Namespace) -> None:
    sandbox.make_starts(lane.box)
    only = arguments.only
    shares = {name: kind.share for name, kind in KINDS.items() if not only or only in name}
    parts: list[Callable[[], None]] = []
    for name, count in _dealt(arguments.kills, shares, arguments.lanes)[lane.number].items():
        parts += [functools.partial(lane.kill, KINDS[name], size, part) for part, size in _parts(count)]
    chances = {name: share for name, (share, _) in SIGNALS.items() if not only or only in name}
    for name, count in _dealt(arguments.signals, chances, arguments.lanes)[lane.number].items():
        parts += [functools.partial(lane.disturb, name, size, part) for part, size in _parts(count)]
    kinds = {name: 1.0 for name in _FAULTED if not only or only in name}
    for name, count in _dealt(arguments.faults, kinds, arguments.lanes)[lane.number].items():
        parts += [functools.partial(lane.fail, KINDS[name], size, part) for part, size in _parts(count)]
    flips = (arguments.flips + lane.number) // arguments.lanes
    parts += [functools.partial(lane.flip, size, part) for part, size in _parts(flips)]
    random.Random(lane.seed).shuffle(parts)  # so that a limit of seconds cuts all kinds alike
    for part in parts:
        if time.monotonic() < lane.until:
            part()
    if arguments.sharing and lane.number == 0:
        lane.share()


def _library(folder: Path) -> Path | None:
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    path = folder / "faults.so"
    source = Path(__file__).with_name("faults.c")
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", str(path), str(source), "-ldl"], check=True)
    return path


def _torture(base: Path, arguments: argparse.Namespace) -> int:
    server, port = _serve(base / "served")
    try:
        sandbox.write_inputs(base / "warm" / "in", port)
        (base / "served").symlink_to(base / "warm" / "in")
        sandbox.warm_up(Sandbox(base / "warm"))
        tally = Tally(base / "counts")
        until = time.monotonic() + arguments.seconds
        children = []
        for number in range(arguments.lanes):
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    folder = base / f"lane{number}"
                    sandbox.write_inputs(folder / "in", port)
                    seed, lanes = arguments.seed + number, arguments.lanes
                    lane = Lane(Sandbox(folder), tally, seed, until, arguments.whole, number, lanes)
                    _work(lane, arguments)
                    code = 0
                except BaseException:
                    tally.count("the script", "exit", traceback.format_exc())
                finally:
                    os._exit(code)
            children.append(pid)
        for pid in children:
            os.waitpid(pid, 0)
    finally:
        os.kill(server, signal.SIGKILL)
    return _print_counts(base / "counts", time.monotonic() > until)


def _print_counts(file: Path, late: bool) -> int:
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    counts = Counter((kind, what) for kind, what, *_ in lines)
    failures = [line for line in lines if line[2]]
    longest = {kind: max(line[3] for line in lines if line[0] == kind) for kind, _ in counts}
    seen = dict.fromkeys(what for _, what in counts)
    whats = dict.fromkeys([*(what for what in _COLUMNS if what in seen), *seen])
    kinds = list(dict.fromkeys(kind for kind, _ in counts))
    rows = [("kind", *whats, "longest from signal to exit, s")]
    rows += [
        (kind, *(str(counts[kind, what] or "") for what in whats), f"{longest[kind]:.2f}" if longest[kind] else "")
        for kind in kinds
    ]
    rows += [("all", *(str(sum(counts[kind, what] for kind in kinds)) for what in whats), "")]
    print(*aligned(rows), sep="\n")
    print(f"{len(failures)} failures" + (", stopped at the limit of seconds" if late else ""))
    return int(bool(failures))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("kills", "signals", "faults", "flips"):
        parser.add_argument(f"--{name}", type=int, metavar="N")
    parser.add_argument("--sharing", action="store_true")
    parser.add_argument("--seconds", type=float, default=3600.0, help="start nothing new after so long")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--whole", type=float, default=0.1, metavar="SHARE", help="of whole processes (0.1)")
    parser.add_argument("--only", default="", metavar="KIND", help="only the kinds whose name contains this")
    parser.add_argument("--lanes", type=int, default=os.cpu_count() or 1, help="commands tortured at once")
    arguments = parser.parse_args()
    asked = any(getattr(arguments, name) is not None for name in ("kills", "signals", "faults", "flips"))
    for name, usual in (("kills", 1000), ("signals", 200), ("faults", 0), ("flips", 0)):
        if getattr(arguments, name) is None:
            setattr(arguments, name, 0 if asked or arguments.sharing else usual)
    return arguments


def _preloaded() -> bool:
    return hasattr(ctypes.CDLL(None), "fault_arm")


def main() -> int:
    """Return 1 when anything failed."""
    for number in (signal.SIGHUP, signal.SIGINT):  # which nohup or a shell's & may have let be ignored
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    arguments = _arguments()
    base = Path(tempfile.mkdtemp(prefix="kmdr-torture.")).resolve()
    try:  # no TemporaryDirectory: forked commands end as whole ones do, which would remove it
        if arguments.faults and not _preloaded():
            library = _library(base)
            if library is not None:
                again = [sys.executable, __file__, *sys.argv[1:], "--seed", str(arguments.seed)]
                return subprocess.run(again, env=os.environ | {"LD_PRELOAD": str(library)}, check=False).returncode
            print("no faults: there is no C compiler (cc)")
            arguments.faults = 0
        print(f"seed {arguments.seed}, {arguments.lanes} lanes", flush=True)
        return _torture(base, arguments)
    finally:
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
