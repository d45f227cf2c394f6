"""No name or text of a stranger's folder of results steers the terminal, whatever command shows it."""

import contextlib
import csv
import io
import json
import os
import pty
import re
import shutil
import subprocess
import sys
from itertools import cycle

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from commands import Command
from kmdr.base.text import EscapedStream, printable, short_hash
from kmdr.cli import commands as cli
from kmdr.results.row_check import config_of
from kmdr.results.schema import COLUMNS, JSON_COLUMNS
from kmdr.results.text_rows import csv_content
from rows import make_rows, write_rows
from states import sketched

CONTROLS = "".join(map(chr, (*range(32), *range(127, 160), *range(0x2028, 0x202F), *range(0x2066, 0x206A))))
RAW = re.compile(f"[{re.escape(CONTROLS.replace(chr(9), '').replace(chr(10), ''))}]")
TEXTS = ("\x1b]52;c;cHduZWQ=\x07", "\x1b[2J", "\x9b31m", "\u202egnp.exe", "\x1b]0;title\x1b\\", "a\rb", "\x7f", "\x85")
texts = st.sampled_from(TEXTS) | st.text(CONTROLS + "ab", min_size=1, max_size=6)
COMMANDS = (
    *(("table", "DIR", "STUDY=all", "--format", kind) for kind in ("text", "md", "latex", "csv")),
    ("table", "DIR"), ("table", "DIR", "STUDY=\x1b[2J"), ("compare", "DIR", "HONEST"), ("compare", "HONEST", "DIR"),
    ("compare", "HONEST", "DIR", "--format", "md"), ("check", "DIR"), ("check", "DIR", "--repair"),
    ("merge", "DIR", "HONEST", "-o", "OUT"), ("verify", "DIR", "ROWS=2", "SEED=1"), ("export", "DIR", "--crate", "OUT"),
    ("metrics", "DIR"), ("figures", "DIR"), ("submit", "DIR", "NAME=mine", "--out", "OUT"), ("accept", "DIR"),
)  # fmt: skip


def run(arguments):
    """Run a command in this process and return what it writes to stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setattr(sys, "argv", ["kmdr", *arguments])
        with pytest.raises(SystemExit):
            cli.main()
    return out.getvalue() + err.getvalue()


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    folder = tmp_path_factory.mktemp("honest")
    methods = (("none", "{}"), ("random_sign", "{}"), ("svd", '{"rank": 2}'), ("svd", '{"rank": 3}'))
    write_rows(folder, *(make_rows("s", data, name, (5, 10), 3, params=params)
                         for data in ("synth", "digits") for name, params in methods))  # fmt: skip
    return folder


def spoil(folder, spoilt, step=1):
    """Put a text into a column of each row, or of each `step`-th; JSON escapes its control characters.

    Of several columns and texts the rows get one each, in turn: a row with two may be refused for the first. Rows get
    the hash of the configuration that they then state, so that they are not refused for another one.
    """
    path = folder / "rows.csv"
    rows = [dict(row) for row in csv.DictReader(io.StringIO(path.read_text("utf-8"), newline=""))]
    for row, (column, text) in zip(rows[::step], cycle(spoilt), strict=False):
        row[column] = json.dumps({"a": text, text: 1}) if column in JSON_COLUMNS else text
        with contextlib.suppress(ValueError):  # of a column of numbers
            row["config_hash"] = short_hash(config_of(row)) if column != "config_hash" else text
    path.write_bytes(csv_content(rows, path))


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids="-".join)
@settings(max_examples=8, database=None, suppress_health_check=list(HealthCheck))
@given(
    spoilt=st.lists(st.tuples(st.sampled_from(COLUMNS), texts), min_size=1, max_size=6), step=st.sampled_from([1, 6, 7])
)
def test_no_control_character_of_a_row_is_written(command, spoilt, step, honest, tmp_path_factory):
    place = tmp_path_factory.mktemp("hostile")
    folder = place / "run"
    shutil.copytree(honest, folder)
    spoil(folder, spoilt, step)
    paths = {"DIR": str(folder), "HONEST": str(honest), "OUT": str(place / "out")}
    with sketched():
        shown = run([paths.get(word, word) for word in command])
    assert shown
    assert not RAW.search(shown), repr(shown)
    for path in place.rglob("*"):
        if path.suffix in (".md", ".tex", ".html", ".svg"):
            assert not RAW.search(path.read_text()), path
    shutil.rmtree(place)


@pytest.mark.slow
@pytest.mark.parametrize("column", ["study", "dataset", "reducer", "params", "kmeans", "options", "metrics", "error"])
def test_no_control_character_of_a_row_is_in_a_report(column, honest, tmp_path):
    shutil.copytree(honest, tmp_path / "run")
    spoil(tmp_path / "run", [(column, "".join(TEXTS))])
    assert not RAW.search(run(["report", str(tmp_path / "run")]))
    for path in tmp_path.rglob("*"):
        if path.suffix in (".md", ".tex", ".html", ".csv") and path.name != "rows.csv":
            assert not RAW.search(path.read_text()), path


@pytest.mark.parametrize("text", TEXTS)
def test_no_control_character_of_a_file_name_is_written(text, honest, tmp_path):
    folder = tmp_path / f"run{text}"
    shutil.copytree(honest, folder)
    for name in ("tasks", "labels", "facts", "environments", "configs", "."):
        (folder / name).mkdir(exist_ok=True)
        for suffix in (".csv", ".json", ".npz"):
            (folder / name / f"x{text}{suffix}").write_text("x")
    for command in COMMANDS:
        paths = {"DIR": str(folder), "HONEST": str(honest), "OUT": str(tmp_path / f"out{text}")}
        with sketched():
            shown = run([paths.get(word, word) for word in command])
        assert shown
        assert not RAW.search(shown), repr(shown)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(
    "arguments", [["TEXT"], ["list", "TEXT"], ["dataset=TEXT"], ["data", "get", "TEXT"], ["new", "TEXT"]]
)
def test_no_control_character_of_an_argument_is_written(text, arguments):
    shown = run([word.replace("TEXT", text) for word in arguments])
    assert shown
    assert not RAW.search(shown), repr(shown)


@given(st.text())
def test_what_is_printable_stays_as_it_is(text):
    shown = printable(text)
    assert not RAW.search(shown)
    assert printable(shown) == shown
    if not RAW.search(text) and text.isascii():
        assert shown == text
    stream = EscapedStream(io.StringIO())
    print(text, file=stream, end="")
    stream.writelines([text])
    assert stream.getvalue() == 2 * shown


@pytest.mark.slow
def test_a_terminal_gets_bold_text_and_nothing_else_that_steers_it(honest, tmp_path):
    shutil.copytree(honest, tmp_path / "run")
    steering = "\x1b[1mbold\x1b]0;t\x07"
    spoil(tmp_path / "run", [("params", steering), ("reducer", steering)], 7)  # shown in the table; refused, and named
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "kmdr", "table", str(tmp_path / "run"), "STUDY=all"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    subprocess.run(command, stdout=theirs, stderr=theirs, check=True, env=environment)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # of a terminal that nobody holds any longer
        while part := os.read(ours, 1 << 16):
            shown += part
    os.close(ours)
    text = shown.decode().replace("\r\n", "\n")
    assert "a =  [1mbold ]0;t" in text
    assert "are refused: reducer = " in text
    assert not RAW.search(re.sub(r"\x1b\[[01]m", "", text))
    assert "\x1b[1mbold" not in text


@pytest.mark.slow
@pytest.mark.parametrize(
    "environment",
    [
        {"TERM": "dumb"}, {"NO_COLOR": "1"}, {"LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}, {"COLUMNS": "20"},
        {"COLUMNS": "300"}, {"COLUMNS": "-1"}, {"COLUMNS": "wide"},
    ],
    ids=str,
)  # fmt: skip
def test_a_table_is_plain_text_that_fits_in_any_environment(environment, honest):
    arguments = ("compare", str(honest), str(honest))
    settings = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    settings |= environment
    if environment.keys() & {"LC_ALL", "PYTHONIOENCODING"}:  # which Python reads when it starts
        command = [sys.executable, "-m", "kmdr", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True, env=settings)
        shown = done.stdout
    else:
        done = Command(*arguments, environment=settings)
        shown, error = done.communicate()
        assert done.returncode == 0, error
    assert not RAW.search(shown)
    width = {"20": 60, "300": 300}.get(environment.get("COLUMNS", ""), 80)
    table = [line for line in shown.splitlines()[1:] if "\\u" not in line]
    assert max(map(len, table)) <= width
    assert any(set(line) in ({"─"}, {"-"}) for line in table)


@pytest.mark.slow
def test_a_pipe_that_is_closed_early_ends_a_command_without_a_word(honest):
    """`true` ends before the command has begun to write; `head` would take all of the table at once."""
    shell = f"{sys.executable} -m kmdr table {honest} STUDY=all | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("0\n", "")


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    width=st.integers(20, 300),
    words=st.sampled_from(
        [["list"], ["help"], ["--help"], [], ["reducer=svd", "--help"], ["table", "DIR", "STUDY=all"]]
    ),
)
def test_every_line_fits_but_for_words_that_are_longer(width, words, honest):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        lines = run([word.replace("DIR", str(honest)) for word in words]).splitlines()
    breakable = [line for line in lines if not line.lstrip().startswith(("kmdr ", "'kmdr ", "usage"))]
    too_wide = [line for line in breakable if len(line) > max(width, 60)]
    assert not [line for line in too_wide if len(line.split()) > 1], too_wide
