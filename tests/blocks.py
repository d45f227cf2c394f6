"""The code blocks of Markdown pages: a page's shell and Python blocks are one session in an empty home.

A block whose first line is a comment that begins with one of `REASONS` is not run. Its syntax, its targets of ``make``
and its commands of ``kmdr`` are checked, and its runs are composed. A block with a caption is a file that the reader
saves.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from forked import programs
from kmdr.cli.arguments import COMMANDS
from kmdr.config.compose import configs_of_command_line

ROOT = Path(__file__).resolve().parents[1]
REASONS = ("# needs", "# takes", "# in a checkout")
LANGUAGES = ("sh", "python", "text")
_BLOCK = re.compile(r"^```(?:\{code-block\} )?([^\n{]*)\n(?::caption: (\S+)\n\n)?(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    language: str
    file: str
    code: str

    @property
    def is_run(self):
        return self.language != "text" and not self.code.startswith(REASONS)


def blocks(page):
    """Return the code blocks of a page; directives that hold no code, such as a table of contents, are not blocks."""
    found = [Block(*parts) for parts in _BLOCK.findall(page.read_text("utf-8"))]
    assert all(block.language in LANGUAGES for block in found), {block.language for block in found}
    return found


def script(page):
    """Return the session that a reader types, as a script of bash."""
    lines = ["set -euo pipefail"]
    for number, block in enumerate(block for block in blocks(page) if block.is_run):
        end = f"END_OF_BLOCK_{number}"
        if block.file:
            lines += [f"mkdir -p {Path(block.file).parent}", f"cat > {block.file} <<'{end}'\n{block.code}{end}"]
        elif block.language == "python":
            lines.append(f"python - <<'{end}'\n{block.code}{end}")
        else:
            lines.append(block.code)
    return "\n".join(lines)


def environment(home):
    """Return the environment of a reader with an empty home, who activated the environment of Python."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KMDR_", "PYTEST_", "XDG_"))}
    path = os.pathsep.join([str(Path(sys.executable).parent), kept["PATH"]])
    return kept | {"HOME": str(home), "PATH": path, "KMDR_CACHE": str(home / "cache"), "MPLBACKEND": "agg"}


def run_page(page, home, folder):
    """Type in the blocks of a page, in order, in a folder, and return what was printed.

    Its `kmdr` and `python` are forks that need no imports.
    """
    names = environment(home)
    names["PATH"] = os.pathsep.join([str(programs()), names["PATH"]])
    done = subprocess.run(
        ["bash", "-c", script(page)], cwd=folder, env=names, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


def check_block(block):
    """Check a block that is not run; a run is composed, which may make its folder in the current one."""
    if block.language == "python":
        compile(block.code, "block", "exec")
        return
    subprocess.run(["bash", "-n", "-c", block.code], check=True)
    for line in block.code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["make"]:
            subprocess.run(["make", "--dry-run", *words[1:]], cwd=ROOT, check=True, capture_output=True)
        elif words[:2] == ["kmdr", "shard"]:
            assert re.fullmatch(r".+/\d+", words[2])
        elif words[:1] == ["kmdr"] and words[1] in COMMANDS:
            command = COMMANDS[words[1]]
            command.parser().parse_intermixed_args(command._with_options(words[2:]))
        elif words[:1] == ["kmdr"]:
            with mock.patch.object(sys, "argv", words):
                configs_of_command_line(list, list)
