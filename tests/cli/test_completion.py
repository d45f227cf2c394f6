"""Completion in a shell: all words are in the script, which starts no process of kmdr."""

import shutil
import subprocess
import sys

import pytest

from kmdr.cli.arguments import COMMANDS
from kmdr.cli.completion import run

_ASK = """
{script}
COMP_WORDBREAKS={breaks}; COMP_LINE={line}; COMP_POINT=${{#COMP_LINE}}
_kmdr
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def completed(line, capsys, tmp_path, breaks=" ="):
    run("bash")
    script = _ASK.format(script=capsys.readouterr().out, line=f"'{line}'", breaks=f"'{breaks}'")
    done = subprocess.run(
        [shutil.which("bash"), "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path, env={"PATH": ""}
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("kmdr lis", {"list"}),
        ("kmdr red", {"reducer="}),
        ("kmdr reducer=random", {"random_sign", "random_sign_mailman"}),
        ("kmdr -m reducer=none,sv", {"none,svd"}),
        ("kmdr dataset=digits run", {"runner="}),
        ("kmdr study=bmd09_t", {"bmd09_table1"}),
        ("kmdr list st", {"studies"}),
        ("kmdr table x --st", {"--study"}),
        ("kmdr new pa", {"paper"}),
        ("kmdr help comp", {"compare", "completion"}),
        ("kmdr reproduce bmd", {"bmd09"}),
        ("kmdr data ge", {"get"}),
        ("kmdr dataset.path=my", {"my.csv"}),
        ("kmdr table resu", {"results"}),
    ],
)
def test_a_word_is_completed(line, words, capsys, tmp_path):
    (tmp_path / "my.csv").touch()
    (tmp_path / "results").mkdir()
    assert set(completed(line, capsys, tmp_path)) == words


def test_a_shell_that_replaces_the_whole_word_gets_it(capsys, tmp_path):
    assert completed("kmdr -m reducer=none,sv", capsys, tmp_path, breaks=" ") == ["reducer=none,svd"]


def test_every_command_is_offered(capsys, tmp_path):
    assert set(COMMANDS) <= set(completed("kmdr ", capsys, tmp_path))


def test_the_script_of_zsh_loads_what_reads_that_of_bash(capsys):
    run("bash")
    script = capsys.readouterr().out
    run("zsh")
    head, rest = capsys.readouterr().out.split("\n", 1)
    assert "bashcompinit" in head
    assert rest == script


def test_an_unknown_shell_is_refused():
    done = subprocess.run(
        [sys.executable, "-m", "kmdr", "completion", "basch"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "did you mean 'bash'?" in done.stderr
