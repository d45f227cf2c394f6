"""Run commands on hostile folders of results: ``fuzz_folder.py [--count N] [--seconds S] [--seed SEED]``.

A folder is a small honest one with some changes by a grammar: links, other kinds of files, sizes and bombs, JSON,
control characters, forged values, damage, odd names, permissions and folders that are exchanged for links meanwhile.
Eight commands run on each. Nothing outside the folder may be opened or changed (a folder next to it is watched by
inotify), nor its text appear anywhere; a command must end by itself, with status 0, 1 or 2, no traceback, no control
character on the terminal, and within 512 MB of memory. Needs Linux.

A command is a fork of this process, which has run every command once, so that no fork imports or compiles anything.
For one folder in `--real`, separate processes run the commands as well, on a second copy, and must end the same way.
A fork that takes too much memory counts only if such a process does too, because a fork starts with all modules.

Exit status: 1 if any of this did not hold. The folder is kept then, and the command that makes it again is printed.
"""

import argparse
import contextlib
import csv
import gc
import hashlib
import io
import json
import lzma
import os
import random
import re
import resource
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from kmdr.base import threads
from kmdr.cli import commands as cli
from kmdr.harness.engines import local as workers
from kmdr.results.checksums import note_content, with_checksum, with_json_checksum
from kmdr.results.schema import COLUMNS
from watched import Watch

MOST_MEGABYTES = 512
HANG_SECONDS = 60.0
SECRET = b"secret-of-somebody-else"
# Runs a command, its output in a file, and returns its exit status, None where it hangs, and its peak memory in MB.
Run = Callable[[list[str], Path, Path], tuple[int | None, float]]
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_WRONG = re.compile(r"Traceback|stopped by|Exception ignored|Fatal Python error|MemoryError")
_RUN = ("-m", "dataset=digits", "reducer=none,random_sign", "r_grid=[4,8]", "repeats=2", "keep_labels=true",
        "runner=sequential")  # fmt: skip
_PLACES = (
    "tasks", "tasks/.merged", "labels", "configs", "configs.jsonl", "environments", "facts", "figures", "tables",
    "report", "report/index.html", "report/.made_from", "multiverse", "multiverse/rows.csv",
    "multiverse/universes.json", "multiverse/tasks", "multiverse/environments", "rows.csv", "rows.csv.xz", ".lock",
    "runs.jsonl", "asked.json", "universes.json", "plan.json", "missing.json", "shards.json", "error.log",
    "multirun.yaml", "facts/lst17_spectra.csv", "figures/custom.png", "verdicts.csv", "components.csv",
)  # fmt: skip
_TEXTS = (
    "\x1b]52;c;cHduZWQ=\x07", "\x1b[2J", "a\nb", "a\rb", "\x00", "\u202egnp.exe", "=cmd|' /C calc'!A0", "../../x",
    "/etc/passwd", "..", "", "x" * 300, "x" * 100_000, "<script>alert(1)</script>", "nan", "inf", "-1", "1e309",
    "9" * 400, "0x10", "１", "\ufeff", "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"), "None", "{}", "[]",
    '{"a": "\\u001b]52;c;eA==\\u0007"}', '{"a":' * 50, '{"rank": 1e999}', '{"name": null}', "subprocess.Popen",
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 2**70, 10**400, 1e308, float("nan"), float("inf"), "", "\x1b[31m\x07", "../../..", "x" * 5000,
    [], {}, [[]], {"": {}}, [None], {"a": [1, {"b": None}]}, "\ud800",
)  # fmt: skip
_NAMES = (
    b"a\nb", b"\xff\xfe", b"x" * 255, b"...", b".hidden", b"-rf", b"\x1b[31mred\x1b[0m", b"=cmd", b" ", b"%2e%2e",
    b"a\\b", b"\xe2\x80\xaegnp", b"a.csv.xz", b"\xc2\x9b31m",
)  # fmt: skip


# -- honest folders ----------------------------------------------------------------------------------------------------


def _run_fork(work: Callable[[], object], output: Path, seconds: float) -> tuple[int | None, float]:
    """Do some work in a fork; return its exit status, None where it was killed, and its peak MB."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.setsid()
        number = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for target in (1, 2):
            os.dup2(number, target)
        status = 99
        try:
            work()
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException as error:
            os.write(2, f"Traceback: {type(error).__name__}: {error}".encode("utf-8", "backslashreplace"))
        finally:
            with suppress(BaseException):
                sys.stdout.flush()
            os._exit(status)
    number = os.pidfd_open(child)
    ended, _, _ = select.select([number], [], [], seconds)
    os.close(number)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    return (os.waitstatus_to_exitcode(status), usage.ru_maxrss / 1024) if ended else (None, 0.0)


class _ForkedWorkers:
    @staticmethod
    def Process(*, env: object, **settings: Any) -> Any:  # noqa: N802
        import multiprocessing

        del env
        return multiprocessing.get_context("fork").Process(**settings)


def run_fork(arguments: list[str], output: Path, folder: Path) -> tuple[int | None, float]:
    """Run a command of kmdr in a fork; return its exit status, None where it hung, and its peak memory in MB."""

    def work() -> None:
        os.chdir(folder)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        tempfile.tempdir = str(output.parent)
        threads._pool.cache_clear()  # a fork has none of the threads of its parent
        setattr(workers, "get_context", lambda _: _ForkedWorkers)  # noqa: B010
        sys.argv = ["kmdr", *arguments]
        cli.main()

    return _run_fork(work, output, HANG_SECONDS)


# A process counts the memory of the one that started it, so a small one starts the command.
_MEASURE = """
import os, sys
process = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(process, 0)
with open(sys.argv[1], "w") as file:
    file.write(f"{os.waitstatus_to_exitcode(status)} {usage.ru_maxrss}")
"""


def run_process(arguments: list[str], output: Path, folder: Path) -> tuple[int | None, float]:
    """Run a command as `run_fork` does, in a process of its own."""
    measured = output.with_name("measured")

    def work() -> None:
        os.chdir(folder)
        os.environ["TMPDIR"] = str(output.parent)
        command = [sys.executable, "-m", "kmdr", *arguments]
        os.execv(sys.executable, [sys.executable, "-S", "-c", _MEASURE, str(measured), *command])

    if _run_fork(work, output, 2 * HANG_SECONDS)[0] is None:
        return None, 0.0
    status, kilobytes = map(int, measured.read_text().split())
    return status, kilobytes / 1024


def run_here(*arguments: str) -> None:
    """Run a command in this process, so that its forks have the modules and compiled code of the command."""
    output = io.StringIO()
    sys.argv = ["kmdr", *arguments]
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output), suppress(SystemExit):
        cli.main()
    if "Traceback" in output.getvalue():
        sys.exit(f"an honest folder is not read: {output.getvalue()}")


def make_honest(place: Path) -> list[Path]:
    """Make honest folders: one with task files and labels, one of nothing but a table, one with a multiverse."""
    place.mkdir()
    first = place / "tasks"
    run_here(*_RUN, f"out={first}")
    for command in ("figures", "report", "metrics", "verify", "check", "table"):
        run_here(command, str(first))
    run_here("compare", str(first), str(first))
    run_here("merge", str(first), "-o", str(place / "merged"))
    run_here("export", str(first), "--crate", str(place / "crate"))
    (first / "facts").mkdir(exist_ok=True)
    (first / "facts" / "lst17_spectra.csv").write_text("dataset,i,value\ndigits,0,1.0\n")
    packed = place / "packed"
    shutil.copytree(first, packed, ignore=shutil.ignore_patterns("tasks", "labels"))
    (packed / "rows.csv.xz").write_bytes(lzma.compress((packed / "rows.csv").read_bytes()))
    (packed / "rows.csv").unlink()
    both = place / "multiverse"
    shutil.copytree(first, both)
    shutil.copytree(packed, both / "multiverse", ignore=shutil.ignore_patterns("report", "figures", "tables"))
    (both / "multiverse" / "universes.json").write_text(json.dumps(with_json_checksum({})))
    return [first, packed, both]


def make_canary(place: Path, honest: Path) -> None:
    """Make the folder outside that nothing may touch: files of every kind that kmdr takes, with the secret text."""
    shutil.copytree(honest, place / "run")
    for name in ("id_rsa", "payroll.csv", "a.json", "a.npz", "a.pdf", "0123456789ab.json", "rows.csv", "rows.csv.xz",
                 "environments/id_rsa", "facts/payroll.csv", "a/b/c/0000-0123456789ab.csv"):  # fmt: skip
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(b"x,y\n%b,1\n" % SECRET)
    for path in place.rglob("*"):
        if path.is_file() and path.suffix in (".csv", ".json", ".jsonl"):
            path.write_bytes(path.read_bytes().replace(b"random_sign", SECRET))


# -- the grammar -------------------------------------------------------------------------------------------------------


class Maker:
    """One hostile folder, and how it came about."""

    def __init__(self, folder: Path, outside: Path, draw: random.Random) -> None:
        self.folder, self.outside, self.draw = folder, outside, draw
        self.exchanged: list[Path] = []

    def paths(self) -> list[Path]:
        """Return what is in the folder, sorted."""
        paths = []
        for top, folders, files in os.walk(self.folder):
            paths += [Path(top, name) for name in folders + files]
        return sorted(paths)

    def place(self, suffixes: tuple[str, ...] = ()) -> Path | None:
        """Draw an existing path or a place of the layout; with suffixes, an existing file."""
        paths = self.paths()
        if suffixes:
            fit = [path for path in paths if path.name.endswith(suffixes) and path.is_file() and not path.is_symlink()
                   and path.stat().st_size < 1 << 22]  # fmt: skip
            return self.draw.choice(fit) if fit else None
        return (
            self.draw.choice(paths) if paths and self.draw.random() < 0.5 else self.folder / self.draw.choice(_PLACES)
        )

    def clear(self, path: Path) -> bool:
        """Remove what is at a path and make the folders above it; return False where something is in their way."""
        if any(parent.is_symlink() for parent in path.parents if parent.is_relative_to(self.folder)):
            return False  # what is removed would lie outside
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError:
            return False
        return True

    def link(self) -> str:
        """Put a link anywhere."""
        path = self.place()
        assert path
        name = path.relative_to(self.folder)
        twin = self.outside / "run" / name
        targets = [twin, twin, self.outside, *self.outside.iterdir(), Path("/dev/zero"), Path("/dev/stdin"),
                   self.folder, path, path.parent, Path("/nowhere"), self.folder / "rows.csv"]  # fmt: skip
        target: Path | str = self.draw.choice(targets)
        if self.draw.random() < 0.3:
            target = os.path.relpath(target, path.parent)
        if self.clear(path):
            path.symlink_to(target)
        return f"link {name} → {target}"

    def kind(self) -> str:
        """Put another kind of file anywhere."""
        path, what = self.place(), self.draw.choice(("FIFO", "socket", "folder", "file", "device"))
        assert path
        if self.clear(path):
            if what == "FIFO":
                os.mkfifo(path)
            elif what == "socket":
                with socket.socket(socket.AF_UNIX) as made, suppress(OSError):
                    made.bind(str(path))
            elif what == "folder":
                path.mkdir()
                (path / "x.csv").write_text("x\n1\n")
            elif what == "file":
                path.write_bytes(b"x")
            else:
                with suppress(OSError):
                    os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero
        return f"{what} {path.relative_to(self.folder)}"

    def size(self) -> str:
        """Make a file that is large, or says that it is, or becomes so."""
        what = self.draw.choice(("sparse", "line", "rows", "xz of zeros", "xz of rows", "labels", "shape", "fields"))
        path = self.place() if what == "sparse" else self.folder / "rows.csv"
        assert path
        note = self.folder / "tasks" / ".merged"
        if what == "sparse":
            if self.clear(path):
                with path.open("wb") as file:
                    file.truncate(self.draw.choice((1 << 26, 1 << 28, 6 << 30, 1 << 42)))
        elif what in ("line", "rows", "fields"):
            text = {"line": b"x" * (1 << 23), "fields": b"," * (1 << 20), "rows": _rows(20_000)}[what]
            if not path.is_symlink():  # or the file outside would be the one that grows
                with suppress(OSError), path.open("wb" if what == "rows" else "ab") as file:
                    file.write(text)
        elif what.startswith("xz"):
            content = _bomb(what.endswith("zeros"), self.draw.choice((1 << 22, 1 << 26, 1 << 28)))
            if self.clear(self.folder / "rows.csv.xz"):
                (self.folder / "rows.csv.xz").write_bytes(content)
                if self.draw.random() < 0.5 and self.clear(note):  # the defect by which sizes were not looked at
                    note.write_bytes(note_content("0" * 12, content))
                else:
                    self.clear(self.folder / "rows.csv")
        else:
            labels = [path for path in self.paths() if path.suffix == ".npz" and path.is_file()]
            path = self.draw.choice(labels) if labels else self.folder / "labels" / "s" / "d" / "m-0" / "0000-0.npz"
            if self.clear(path):
                path.write_bytes(_labels(2**47 if what == "shape" else 0))
        return f"size: {what} {path.relative_to(self.folder)}"

    def json(self) -> str:
        """Damage a JSON file, with or without a correct checksum."""
        path = self.place((".json",))
        if path is None or path.is_symlink():
            return "json: none"
        kind = self.draw.choice(("value", "whole", "depth", "text", "long"))
        try:
            tree = json.loads(path.read_bytes())
        except (ValueError, RecursionError):
            tree = {}
        if kind == "value":
            self._spoil(tree)
            tree = {} if not isinstance(tree, dict) else tree
        elif kind == "whole":
            tree = self.draw.choice(_VALUES)
        if kind == "depth":
            content = b'{"a":' * self.draw.choice((20, 1000, 100_000))
        elif kind == "text":
            content = self.draw.choice(_TEXTS).encode("utf-8", "replace")
        elif kind == "long":
            content = b'{"a": ' + b"9" * 10_000 + b"}"
        else:
            if isinstance(tree, dict) and self.draw.random() < 0.7:
                tree.pop("sha256", None)
                with suppress(ValueError):
                    tree = with_json_checksum(tree)
            content = json.dumps(tree).encode()
        path.write_bytes(content)
        return f"json: {kind} {path.relative_to(self.folder)}"

    def _spoil(self, tree: Any) -> None:
        while isinstance(tree, dict | list) and tree:
            key = self.draw.choice(list(tree) if isinstance(tree, dict) else range(len(tree)))
            if not isinstance(tree[key], dict | list) or not tree[key] or self.draw.random() < 0.4:
                tree[key] = self.draw.choice(_VALUES)
                return
            tree = tree[key]

    def cell(self) -> str:
        """Forge values of a table or of a task file, with the checksums that belong to them."""
        path = self.place(("rows.csv", "rows.csv.xz")) if self.draw.random() < 0.6 else self.place((".csv",))
        if path is None:
            return "cell: none"
        name = path.relative_to(self.folder)
        try:
            content = path.read_bytes()
            text = (lzma.decompress(content) if path.suffix == ".xz" else content).decode()
            lines = list(csv.reader(line for line in text.splitlines() if not line.startswith("# sha256")))
        except (OSError, ValueError, lzma.LZMAError, csv.Error):
            lines = []
        if not lines:
            return f"cell: {name} is not a table"
        changed = []
        for _ in range(self.draw.randint(1, 3)):
            row, at = self.draw.randrange(len(lines)), self.draw.randrange(len(lines[0]) or 1)
            if row < len(lines) and at < len(lines[row]):
                others = [line[at] for line in lines if at < len(line)]
                lines[row][at] = self.draw.choice(_TEXTS if self.draw.random() < 0.8 else others)
                changed.append(lines[0][at][:20])
        buffer = io.StringIO(newline="")
        csv.writer(buffer, lineterminator="\n").writerows(lines)
        forged = buffer.getvalue().encode("utf-8", "replace")
        if "tasks" in path.parts:
            forged = with_checksum(forged)
        path.write_bytes(lzma.compress(forged) if path.suffix == ".xz" else forged)
        note = path.parent / "tasks" / ".merged"
        if path.name == "rows.csv" and note.is_file() and not note.is_symlink() and self.draw.random() < 0.8:
            note.write_bytes(note_content("0" * 12, forged))
        return f"cell: {name} {', '.join(changed)!r}"

    def damage(self) -> str:
        """Cut, flip, append, empty or replace the content of a file."""
        path = self.place(("",))
        if path is None:
            return "damage: none"
        content, what = bytearray(path.read_bytes()), self.draw.choice(("cut", "flip", "append", "empty", "noise"))
        if what == "cut":
            del content[self.draw.randint(0, len(content)) :]
        elif what == "flip" and content:
            content[self.draw.randrange(len(content))] ^= 1 << self.draw.randrange(8)
        elif what == "append":
            content += self.draw.choice((b"\n", b"\0" * 100, b"x", bytes(content)))
        elif what in ("empty", "noise"):
            content = bytearray(self.draw.randbytes(0 if what == "empty" else 500))
        with suppress(OSError):
            path.write_bytes(content)
        return f"damage: {what} {path.relative_to(self.folder)}"

    def name(self) -> str:
        """Add files or folders of odd names."""
        above = [path for path in self.paths() if path.is_dir() and not path.is_symlink()] + [self.folder]
        path, name = self.draw.choice(above), self.draw.choice(_NAMES)
        suffix = self.draw.choice((b"", b".csv", b".json", b".npz"))
        made = os.fsencode(path) + b"/" + (name + suffix)[-255:]
        with suppress(OSError):
            if self.draw.random() < 0.3:
                os.symlink(os.fsencode(self.outside / "payroll.csv"), made)  # noqa: PTH211
            else:
                with open(made, "wb") as file:  # noqa: PTH123
                    file.write(b"x,y\n1,2\n")
        return f"name: {made!r}"

    def many(self) -> str:
        """Add folders within folders, or many files."""
        path = self.folder / self.draw.choice(("tasks", "labels", "facts", "environments", "figures", "."))
        if path.is_symlink():
            return "many: none"
        with suppress(OSError):
            if self.draw.random() < 0.5:
                depth = self.draw.choice((3, 9, 300))
                (path / "/".join("d" * depth)).mkdir(parents=True)
                return f"depth: {depth} {path.name}"
            path.mkdir(exist_ok=True)
            for i in range(1500):
                (path / f"{i:012x}.json").write_bytes(b"{}")
        return f"many: {path.name}"

    def mode(self) -> str:
        """Take permissions away, which the superuser does not notice."""
        path = self.place()
        assert path
        if path.exists() and not path.is_symlink():
            path.chmod(self.draw.choice((0, 0o444, 0o200, 0o111)))
        return f"mode: {path.relative_to(self.folder)}"

    def exchange(self) -> str:
        """Let a folder or file be exchanged for a link, and back, as long as commands run."""
        path = self.place()
        assert path
        if path.exists() and not path.is_symlink():
            self.exchanged.append(path)
        return f"exchange: {path.relative_to(self.folder)}"


KINDS: dict[str, int] = {
    "link": 6, "kind": 2, "size": 2, "json": 4, "cell": 4, "damage": 3, "name": 1, "many": 1, "mode": 1, "exchange": 1,
}  # fmt: skip


def _rows(count: int) -> bytes:
    texts = {"repeat": "0", "params": "{}", "status": "ok", "objective": "0.5"}
    line = ",".join(texts.get(name, "1") for name in COLUMNS)
    return ",".join(COLUMNS).encode() + b"\n" + (line.encode() + b"\n") * count


_BOMBS: dict[object, bytes] = {}


def _bomb(zeros: bool, size: int) -> bytes:
    if (zeros, size) not in _BOMBS:
        part = b"\n" * (1 << 20) if zeros else _rows(5000)
        packer = lzma.LZMACompressor(preset=0)
        packed = b"".join(packer.compress(part) for _ in range(size // len(part) + 1))
        _BOMBS[zeros, size] = packed + packer.flush()
    return _BOMBS[zeros, size]


def _labels(claimed: int) -> bytes:
    """Return labels that claim, or have, far more entries than their bytes."""
    if claimed not in _BOMBS:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as members:
            for name, array in (
                ("r", np.array([4, 8])),
                ("labels", np.zeros((2, 0 if claimed else 1 << 26), np.uint8)),
            ):
                with members.open(f"{name}.npy", "w") as member:
                    if claimed and name == "labels":
                        header = {"descr": "|u1", "fortran_order": False, "shape": (2, claimed)}
                        np.lib.format.write_array_header_1_0(member, header)
                    else:
                        np.lib.format.write_array(member, array)
        _BOMBS[claimed] = with_checksum(file.getvalue())
    return _BOMBS[claimed]


def _exchanging(paths: list[Path], outside: Path) -> None:
    """Exchange paths for links and back until killed."""
    while True:
        for path in paths:
            aside = path.with_name(f"{path.name}~")
            with suppress(OSError):
                path.rename(aside)
                path.symlink_to(outside / "run")
                time.sleep(0.002)
                path.unlink()
            with suppress(OSError):
                aside.rename(path)
        time.sleep(0.002)


# -- trying it ---------------------------------------------------------------------------------------------------------


def _commands(folder: str, honest: Path, out: Path, draw: random.Random) -> list[list[str]]:
    """Return the commands to run on a folder: seven, and one of those that take longest."""
    options = draw.choice(((), ("STUDY=all",), ("--format", "latex"), ("--format", "md"), ("--format", "csv")))
    slow = (["figures", folder], ["report", folder], ["metrics", folder], [*_RUN, f"out={folder}"])
    return [
        ["table", folder, *options],
        ["compare", *draw.sample((folder, str(honest)), 2)],
        ["check", folder],
        ["merge", *draw.sample((folder, str(honest)), 2), "-o", str(out / "merged")],
        ["verify", folder, "ROWS=2", "SEED=1"],
        ["export", folder, "--crate", str(out / "crate")],
        *draw.choices(slow, (2, 1, 5, 1)),
        ["check", folder, "--repair"],
    ]


def _has_secret(folder: Path) -> str:
    for top, _, names in os.walk(os.fsencode(folder)):
        for name in names:
            path = top + b"/" + name
            status = os.lstat(path)
            if status.st_mode & 0o170000 == 0o100000 and status.st_size < 1 << 25:
                os.chmod(path, 0o600)  # noqa: PTH101
                with open(path, "rb") as file:  # noqa: PTH123
                    content = file.read()
                with suppress(lzma.LZMAError):
                    content += lzma.decompress(content) if path.endswith(b".xz") and len(content) < 1 << 16 else b""
                if SECRET in content:
                    return os.fsdecode(path)
    return ""


def _remove(folder: Path) -> None:
    for top, names, _ in os.walk(folder):
        for name in names:
            if not (path := Path(top, name)).is_symlink():
                path.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


class Fuzz:
    """Honest folders, the one outside that is watched, and the counts."""

    def __init__(self, base: Path, seed: str, real: int) -> None:
        self.base, self.seed, self.real = base, seed, real
        self.processes = 0
        self.honest = make_honest(base / "honest")
        self.outside = base / "outside"
        make_canary(self.outside, self.honest[0])
        self.digest = self._outside_digest()
        self.commands: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.peak: dict[tuple[bool, str], float] = {}

    def _outside_digest(self) -> str:
        digest = hashlib.sha256()
        for path in sorted(self.outside.rglob("*")):
            digest.update(str(path).encode() + (path.read_bytes() if path.is_file() else b""))
        return digest.hexdigest()

    def make(self, number: int, place: Path) -> tuple[list[str], list[Path], random.Random]:
        """Make a hostile folder; return how, and what is to be exchanged meanwhile."""
        draw = random.Random(f"{self.seed}/{number}")
        shutil.copytree(draw.choice(self.honest), place)
        maker, done = Maker(place, self.outside, draw), []
        for _ in range(draw.choice((1, 1, 2, 2, 3, 5))):
            (kind,) = draw.choices(list(KINDS), list(KINDS.values()))
            self.kinds[kind] += 1
            step: Callable[[], str] = getattr(maker, kind)
            done.append(step())
        return done, maker.exchanged, draw

    def try_one(self, number: int) -> list[str]:
        """Make a folder and run commands on it; return what did not hold."""
        how, statuses, wrong, large = self._run_all(number, run_fork)
        if large or (number + 1) % self.real == 0:
            self.processes += 1
            _, again, others, _ = self._run_all(number, run_process)
            wrong += [f"process: {fault}" for fault in others]
            if statuses != again and not any(step.startswith("exchange") for step in how):
                wrong.append(f"forks end with {statuses}, processes with {again}")
        return [*(f"  {item}" for item in how), *wrong] if wrong else []

    def _run_all(self, number: int, run: Run) -> tuple[list[str], list[int | None], list[str], bool]:
        """Return how a folder was made, how commands on it ended, what did not hold, and whether a fork was large."""
        place, out, output = self.base / "hostile", self.base / "out", self.base / "output" / "output"
        for item in (place, out, output.parent):
            _remove(item)
        out.mkdir()
        output.parent.mkdir()
        how, exchanged, draw = self.make(number, place)
        watch = Watch(self.outside)
        exchanging = os.fork() if exchanged else 0
        if exchanged and exchanging == 0:
            _exchanging(exchanged, self.outside)
        statuses: list[int | None] = []
        wrong, large = [], False
        try:
            for arguments in _commands(str(place), self.honest[0], out, draw):
                status, peak = run(arguments, output, self.base)
                name = arguments[0] if arguments[0] != "-m" else "run"
                statuses.append(status)
                self.commands[name] += 1
                self.peak[run is run_fork, name] = max(self.peak.get((run is run_fork, name), 0), peak)
                faults = [f"accessed outside: {item}" for item in watch.accesses()[:5]]
                faults += _faults_of(status, output.read_bytes())
                if peak > MOST_MEGABYTES and run is run_fork:
                    large = True
                elif peak > MOST_MEGABYTES:
                    faults.append(f"takes {peak:.0f} MB")
                wrong += [f"kmdr {' '.join(arguments)}: {fault}" for fault in faults]
        finally:
            if exchanging:
                os.kill(exchanging, signal.SIGKILL)
                os.waitpid(exchanging, 0)
            watch.close()
        wrong += [f"secret text copied to {path}" for folder in (place, out) if (path := _has_secret(folder))]
        if self._outside_digest() != self.digest:
            wrong.append("files outside are changed")
        return how, statuses, wrong, large


def _faults_of(status: int | None, output: bytes) -> list[str]:
    """Return what is wrong with how a command ended and with what it wrote."""
    faults, text = [], output.decode("utf-8", "backslashreplace")
    if status not in (0, 1, 2):
        faults.append("hangs" if status is None else f"ends with status {status}")
    if match := _WRONG.search(text):
        faults.append(f"says {text[max(0, match.start() - 100) : match.end() + 200]!r}")
    if match := _CONTROL.search(text):
        faults.append(f"prints control characters: {text[max(0, match.start() - 100) :][:200]!r}")
    if SECRET in output:
        faults.append(f"prints the secret: {text[:300]!r}")
    return faults


def main() -> int:
    """Try folders until the count or the time is over."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=1 << 62, help="folders at most")
    parser.add_argument("--seconds", type=float, default=600.0, help="seconds at most")
    parser.add_argument("--seed", default="0", help="of the folders")
    parser.add_argument("--real", type=int, default=50, help="one folder in so many is tried by processes as well")
    parser.add_argument("--only", type=int, help="number of the single folder to try")
    parser.add_argument("--keep", type=Path, default=Path("results/fuzz"), help="where folders that failed are kept")
    arguments = parser.parse_args()
    base = Path(tempfile.mkdtemp(prefix="kmdr-fuzz.")).resolve()
    failed = count = 0
    try:
        fuzz = Fuzz(base, arguments.seed, arguments.real)
        gc.freeze()
        ends = time.monotonic() + arguments.seconds
        numbers = range(arguments.count) if arguments.only is None else [arguments.only]
        with suppress(KeyboardInterrupt):  # the counts of what was tried are printed all the same
            for number in numbers:
                if time.monotonic() > ends:
                    break
                count += 1
                if wrong := fuzz.try_one(number):
                    failed += 1
                    print(
                        f"folder {number}:",
                        *wrong,
                        f"  again: --seed {arguments.seed} --only {number}",
                        sep="\n",
                        flush=True,
                    )
                    if failed <= 10:
                        arguments.keep.mkdir(parents=True, exist_ok=True)
                        fuzz.make(number, arguments.keep / f"{arguments.seed}-{number}-{os.getpid()}")
        forks, processes = (
            ", ".join(f"{name} {peak:.0f}" for (fork, name), peak in fuzz.peak.items() if fork is wanted)
            for wanted in (True, False)
        )
        print(f"{count} folders, {sum(fuzz.commands.values())} commands {dict(fuzz.commands)}, {failed} folders failed")
        print(f"changes: {dict(fuzz.kinds)}; {fuzz.processes} folders by processes as well")
        print(f"peak memory in MB, of forks: {forks}; of processes: {processes}")
    finally:
        _remove(base)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
