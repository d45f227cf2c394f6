"""Commands as processes that need no imports: forks of a server that has imported what commands and workers need.

A command that starts as an interpreter of its own spends most of a short run with imports, and so does each of its
workers. Where the start is not what a test is about, these take their place; what they do is the same.
"""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import tempfile
from functools import cache
from multiprocessing import forkserver
from pathlib import Path

from kmdr.harness.engines import local as workers


@cache
def _server():
    """Start the server, which finds `warm` in this folder and knows no plugins."""
    server = multiprocessing.get_context("forkserver")
    names = ("kmdr.cli.commands", "kmdr.cli.jobs", "kmdr.reporting.build", "warm", "distributed.cli.dask_worker")
    server.set_forkserver_preload([*names])
    before = dict(os.environ)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *filter(None, [before.get("PYTHONPATH")])])
    os.environ.pop("KMDR_PATH", None)
    try:
        forkserver.ensure_running()
    finally:
        os.environ.clear()
        os.environ.update(before)
    return server


def _work(environment, function, pipe):
    os.environ.clear()
    os.environ.update(environment)
    workers._serve(function, pipe, os.getppid())


# A process counts the memory of the one that started it, which these tests fill: a small one starts the command.
START = """
import os, sys
process = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(process, 0)
print(os.waitstatus_to_exitcode(status), usage.ru_maxrss)
"""


class WarmWorkers:
    """In the place of the context of loky, for commands that run in the process of the tests."""

    @staticmethod
    def Process(*, target, args, env, **settings):  # noqa: N802
        function, pipe, _ = args
        assert target is workers._serve
        return _server().Process(target=_work, args=(dict(os.environ) | env, function, pipe), **settings)


class _ForkedWorkers:
    """The same for commands that are forks themselves."""

    @staticmethod
    def Process(*, env, **settings):  # noqa: N802
        del env
        return multiprocessing.get_context("fork").Process(**settings)


def _run(arguments, environment, said, before):
    os.setsid()
    for target, name in enumerate(said, 1):
        os.dup2(os.open(name, os.O_WRONLY), target)
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    workers.get_context = lambda _: _ForkedWorkers
    if before:
        before()
    from kmdr.cli import commands as cli

    cli.sys.argv = ["kmdr", *arguments]
    cli.main()


class Command:
    """A command of kmdr, which leads a session of its own; with the part of `subprocess.Popen` that tests need.

    Parameters
    ----------
    *arguments : object
        What follows ``kmdr``.
    environment : mapping
    before : callable, optional
        Of a module's top level, called in the process before the command begins.
    """

    def __init__(self, *arguments, environment, before=None):
        self._said = []
        for _ in range(2):
            number, name = tempfile.mkstemp()
            os.close(number)
            self._said.append(Path(name))
        self._process = _server().Process(
            target=_run, args=([*map(str, arguments)], dict(environment), self._said, before)
        )
        self._process.start()
        self.pid = self._process.pid

    @property
    def returncode(self):
        return self._process.exitcode

    def poll(self):
        return self._process.exitcode

    def wait(self, timeout=None):
        self._process.join(timeout)
        return self.returncode

    def kill(self, group=False):
        """Kill it, or all of its session; unlike a process's parent, nobody here knows whether it is over."""
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if group else os.kill)(self.pid, signal.SIGKILL)

    def communicate(self, timeout=None):
        if self.wait(timeout) is None:
            self.kill()
            raise subprocess.TimeoutExpired("kmdr", timeout)
        said = tuple(file.read_text("utf-8") for file in self._said)
        for file in self._said:
            file.unlink()
        return said
