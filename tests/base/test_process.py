"""Limits and variables of a process that no command can work with end in one sentence."""

import ctypes
import errno
import os
import resource
import subprocess
import sys

import pytest

from forked import programs
from kmdr.base.errors import UserError
from kmdr.base.process import CrashError, check_process, exit_status
from kmdr.base.text import announce
from kmdr.cli import commands as cli
from rows import write_rows


def command(*arguments, before=None, stdout=subprocess.PIPE, program=(sys.executable, "-m", "kmdr"), **environment):
    return subprocess.run(
        [*program, *arguments], check=False, text=True, stdout=stdout, stderr=subprocess.PIPE,
        env={**os.environ, **environment}, preexec_fn=before,
    )  # fmt: skip


def is_one_sentence(text):
    return (
        text.startswith("kmdr: ") and text.count("\n") == 1 and "Traceback" not in text and "the traceback" not in text
    )


BAD = {
    "NUMBA_NUM_THREADS": ["abc", "0", "-1", "2.5"], "OPENBLAS_NUM_THREADS": ["0", "x"], "OMP_NUM_THREADS": ["0", "2,0"],
    "MKL_NUM_THREADS": ["0"], "NUMBA_DISABLE_JIT": ["1"],
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_a_variable_that_libraries_cannot_take_is_refused_in_a_sentence(name, value, monkeypatch):
    monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match=f"^{name} = '{value}' .* unset it$"):
        check_process()


@pytest.mark.parametrize(
    ("name", "value"), [("OMP_NUM_THREADS", "4,2"), ("NUMBA_NUM_THREADS", ""), ("NUMBA_DISABLE_JIT", "0")]
)
def test_a_variable_that_they_can_take_is_not(name, value, monkeypatch):
    monkeypatch.setenv(name, value)
    check_process()


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("--hydra-help",), ("--cfg", "job", "--package", "nowhere"), ("--cfg", "job")])
def test_what_hydra_answers_itself_ends_alike_from_the_package_and_from_the_program(arguments):
    """``python -m kmdr --hydra-help`` blamed kmdr's own file for ending the command."""
    package, program = (
        command(*arguments, program=way) for way in ((sys.executable, "-m", "kmdr"), (programs() / "kmdr",))
    )
    assert (package.returncode, package.stderr) == (program.returncode, program.stderr)
    assert bool(package.stdout) == bool(program.stdout) == ("nowhere" not in arguments)
    assert package.returncode == ("nowhere" in arguments)
    assert "ended the command" not in package.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("name", "value"), [("NUMBA_NUM_THREADS", "abc"), ("NUMBA_DISABLE_JIT", "1")])
def test_a_command_with_such_a_variable_ends_in_one_sentence(name, value):
    done = command("list", "engines", **{name: value})
    assert (done.returncode, is_one_sentence(done.stderr)) == (2, True), done.stderr


# Commands that print something about a folder of results.
COMMANDS = (
    ("table", "DIR"), ("table", "DIR", "--format", "csv"), ("compare", "DIR", "DIR"), ("check", "DIR"),
    ("check", "DIR", "--repair"), ("merge", "DIR", "-o", "OUT"), ("export", "DIR", "--crate", "OUT"),
    ("figures", "DIR"), ("list", "engines"), ("data", "where"), ("help",),
)  # fmt: skip


def without_notes(text):
    """Return what a command says on stderr without the notes of 'export' about its crate."""
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if "no licence is stated" not in line and "has no report yet" not in line)


def in_folder(arguments, tmp_path):
    """Return a command's arguments with an honest folder and a place to write to."""
    folder = tmp_path / "run"
    folder.mkdir(exist_ok=True)
    write_rows(folder)
    return [{"DIR": str(folder), "OUT": str(tmp_path / "out")}.get(word, word) for word in arguments]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")  # noqa: PTH110
@pytest.mark.parametrize("arguments", COMMANDS, ids="-".join)
def test_every_command_reports_a_full_standard_output_in_one_sentence(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["kmdr", *in_folder(arguments, tmp_path)])
    with open("/dev/full", "w") as full:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(SystemExit) as ended:
            cli.main()
    said = without_notes(capsys.readouterr().err)
    assert (ended.value.code, is_one_sentence(said)) == (1, True), said
    assert "standard output cannot be written (No space left on device)" in said


@pytest.mark.slow
@pytest.mark.parametrize("arguments", COMMANDS, ids="-".join)
@pytest.mark.parametrize("limit", ["files", "variable", "closed"])
def test_every_command_meets_a_limit_with_one_sentence_or_none(limit, arguments, tmp_path):
    def close_output():
        os.close(1)

    def limit_files():
        resource.setrlimit(resource.RLIMIT_NOFILE, (10, 10))

    before = {"files": limit_files, "closed": close_output}.get(limit)
    variables = {"OMP_NUM_THREADS": "many"} if limit == "variable" else {}
    if limit == "closed" and "DIR" in arguments and arguments != ("table", "DIR"):  # one of these is a new interpreter
        variables["program"] = (programs() / "kmdr",)
    done = command(*in_folder(arguments, tmp_path), before=before, **variables)
    said = without_notes(done.stderr)
    if limit == "closed":  # whoever closes it does not want to read anything
        has_faults = arguments[0] == "check"  # the configurations of made-up rows are missing
        assert (done.returncode, said) == (int(has_faults), ""), done.stderr
    else:
        assert (done.returncode, is_one_sentence(said)) == (2, True), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("files", [5, 10, 30])
def test_a_command_that_may_open_few_files_ends_in_one_sentence(files):
    done = command("list", "engines", before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)))
    assert (done.returncode, is_one_sentence(done.stderr)) == (2, True), done.stderr
    assert f"may open {files} files" in done.stderr


def test_a_run_that_opens_too_many_files_ends_in_one_sentence_without_a_log(capsys, tmp_path):
    def fail():
        try:
            raise OSError(errno.EMFILE, "Too many open files")
        except OSError as error:
            raise CrashError(tmp_path) from error

    assert exit_status(fail) == 1
    said = capsys.readouterr().err
    assert is_one_sentence(said)
    assert "too few; raise the limit, e.g. to 4096 by ulimit -n 4096; finished tasks are kept" in said
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")  # noqa: PTH110
@pytest.mark.parametrize("arguments", [["version"], ["help"], ["list", "reducers"], []])
def test_a_full_standard_output_ends_in_one_sentence_and_a_failure(arguments):
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = command(*arguments, stdout=full)
    assert (done.returncode, is_one_sentence(done.stderr)) == (1, True), done.stderr
    assert "standard output cannot be written (No space left on device)" in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")  # noqa: PTH110
def test_a_line_of_a_run_that_is_lost_is_a_failure_too(monkeypatch, capsys):
    with open("/dev/full", "w") as full:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdout", full)
        assert exit_status(lambda: announce("rows.csv: 3 rows")) == 1
    assert "standard output cannot be written" in capsys.readouterr().err


@pytest.mark.unforeseen_error
def test_an_error_log_is_for_its_owner_alone_and_not_written_through_a_link(tmp_path, capsys):
    out, victim = tmp_path / "out", tmp_path / "victim"
    out.mkdir()
    victim.write_text("mine")
    (out / "error.log").symlink_to(victim)

    def fail():
        try:
            raise KeyError("x")
        except KeyError as error:
            raise CrashError(out) from error

    assert exit_status(fail) == 1
    assert victim.read_text() == "mine"
    assert [path.name for path in out.iterdir()] == ["error.log"]
    assert (out / "error.log").lstat().st_mode & 0o777 == 0o600
    assert "KeyError" in (out / "error.log").read_text()
    assert str(out / "error.log") in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="only glibc keeps freed memory")
def test_freed_memory_is_returned_to_the_system():
    script = (
        "import numpy as np\n"
        "from kmdr.base.process import release_memory\n"
        "def anonymous():\n"
        "    lines = open('/proc/self/status').read().splitlines()\n"
        "    return next(int(line.split()[1]) for line in lines if line.startswith('RssAnon'))\n"
        "arrays = [np.ones(10_000) for _ in range(1000)]\n"  # 80 kB each, which are not mapped by themselves
        "del arrays[:-1]\n"  # the last keeps the heap from shrinking
        "before = anonymous()\n"
        "release_memory()\n"
        "print(before - anonymous())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 60_000
