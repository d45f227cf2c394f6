"""A run of another process that is writing a results folder."""

import subprocess
import sys
from contextlib import contextmanager

_WRITING = """
import sys
from pathlib import Path
from kmdr.results.store import Store

with Store(Path(sys.argv[1])).held():
    print("writing", flush=True)
    sys.stdin.read()
"""


@contextmanager
def run_in(folder):
    """Let a process write a results folder for the length of a block."""
    with subprocess.Popen(
        [sys.executable, "-c", _WRITING, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "writing\n"
        yield
        process.stdin.close()
