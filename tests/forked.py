"""An interpreter and a `kmdr` whose runs are forks that need no imports.

A page of the documentation has a dozen commands, and a job of a batch system starts three interpreters; all would spend
most of their time with the same imports. In their place a small program hands its arguments, its open files and the
signals that it gets to the process of the tests. That has the server of `commands` fork a process, which does what was
asked for in a session of its own, and ends with the program.
"""

import atexit
import fcntl
import json
import multiprocessing
import os
import runpy
import shutil
import signal
import socket
import sys
import tempfile
import threading
from contextlib import suppress
from functools import cache
from multiprocessing import connection, reduction
from pathlib import Path

from commands import _ForkedWorkers, _server
from kmdr.harness.engines import local as workers

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_MOST_FILES = 64
# It starts in a few milliseconds. If it is killed, the server sees its socket close.
PROGRAM = """\
#!{python} -IS
import json, os, signal, socket, sys
numbers = []
for number in map(int, os.listdir("/dev/fd")):
    try:
        os.fstat(number)
        numbers.append(number)
    except OSError:
        pass
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    for number in {signals}:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: server.sendall(bytes([number])))
    request = json.dumps([{name!r}, sys.argv[1:], dict(os.environ), os.getcwd(), numbers]).encode()
    socket.send_fds(server, [len(request).to_bytes(8, "big")], numbers)
    server.sendall(request)
    status = int.from_bytes(server.recv(8) or bytes([1]), "big", signed=True)
if status < 0:
    signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
"""


class _Handed:
    """An open file that is handed to a fork of the server."""

    def __init__(self, number):
        self._number = number

    def __reduce__(self):
        return _take, (reduction.DupFd(self._number),)


def _take(file):
    return file.detach()


def _place(files, numbers):
    """Give open files other numbers."""
    above = [fcntl.fcntl(file, fcntl.F_DUPFD, max(numbers) + 1) for file in files]
    for file in files:
        os.close(file)
    for file, number in zip(above, numbers, strict=True):
        os.dup2(file, number)
        os.close(file)
    for number, (stream, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if number not in numbers:  # the program was started without it
            os.close(number)
            setattr(sys, stream, None)
            continue
        errors = "backslashreplace" if stream == "stderr" else "strict"
        setattr(sys, stream, open(number, mode, 1, errors=errors, closefd=False))  # noqa: SIM115


def _interpret(programs, files, name, arguments, environment, folder, numbers):
    """Do what `kmdr` does, or an interpreter with a script, a module or code in its arguments."""
    os.setsid()
    _place(files, numbers)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    multiprocessing.set_executable(str(programs / "python"))
    workers.get_context = lambda _: _ForkedWorkers
    if "dask" in sys.modules:
        sys.modules["dask"].config.refresh()  # which reads variables
    if name == "kmdr":
        from kmdr.__main__ import main

        sys.argv = ["kmdr", *arguments]
        main()
        return
    while arguments[0] not in ("-", "-c", "-m") and arguments[0].startswith("-"):  # flags
        arguments.pop(0)
    option, *rest = sys.argv = arguments
    if not environment.get(workers.SAFE_PATH):
        sys.path.insert(0, {"-": "", "-c": "", "-m": folder}.get(option, str(Path(option).parent)))
    if option == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif option in ("-", "-c"):
        code = sys.stdin.read() if option == "-" else sys.argv.pop(1)
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
    else:
        runpy.run_path(option, run_name="__main__")


def _request(client):
    """Return the open files of a program that was called, and the rest of what it sent; None if it was killed."""
    size, files, _, _ = socket.recv_fds(client, 8, _MOST_FILES)
    content = b""
    while len(content) < int.from_bytes(size, "big") and (part := client.recv(1 << 16)):
        content += part
    return files, json.loads(content) if content and len(content) == int.from_bytes(size, "big") else None


def _serve(client, programs):
    """Fork a process for a program that was called, hand on its signals, and tell it how the process ended."""
    with client, suppress(ConnectionError):
        files, asked = _request(client)
        if asked:
            process = _server().Process(target=_interpret, args=(programs, [*map(_Handed, files)], *asked))
            process.start()
        for file in files:
            os.close(file)
        if not asked:
            return
        while process.sentinel not in connection.wait([process.sentinel, client]):
            for number in client.recv(16) or [signal.SIGKILL]:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
        process.join()
        client.sendall(process.exitcode.to_bytes(8, "big", signed=True))


@cache
def programs():
    """Return a folder of two programs, `python` and `kmdr`, for the time of this process."""
    folder = Path(tempfile.mkdtemp(prefix="forked-"))
    atexit.register(shutil.rmtree, folder)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "socket"))
    listener.listen(64)
    for name in ("python", "kmdr"):
        text = PROGRAM.format(
            python=sys.executable, address=str(folder / "socket"), signals=[*map(int, _SIGNALS)], name=name
        )
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)

    def accept():
        while True:
            client, _ = listener.accept()
            threading.Thread(target=_serve, args=(client, folder), daemon=True).start()

    _server()
    threading.Thread(target=accept, daemon=True).start()
    return folder
