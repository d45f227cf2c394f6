"""No name or text of a stranger's folder of results steers the terminal, whatever command shows it."""

import contextlib
import csv
import io
import json
import lzma
import os
import pty
import re
import shutil
import subprocess
import sys
from itertools import cycle

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from commands import Command
from kmdr.base.provenance import environment
from kmdr.base.text import EscapedStream, printable, short_hash
from kmdr.cli import commands as cli
from kmdr.clustering.kmeans import Protocol
from kmdr.config.task import Task
from kmdr.results.checksums import checked_content, with_checksum
from kmdr.results.packed import pack
from kmdr.results.paths import COMPRESSED_TABLE, task_files
from kmdr.results.row_check import config_of
from kmdr.results.schema import COLUMNS, JSON_COLUMNS
from kmdr.results.store import Store
from kmdr.results.text_rows import csv_content
from kmdr.submissions.card import CARD, derived, read_files
from kmdr.submissions.pack import submit
from rows import make_rows, trial, write_rows
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


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """Return a folder with task files, configurations and labels, which `metrics` and `submit` read."""
    folder = tmp_path_factory.mktemp("labelled")
    store, manifest = Store(folder), environment()
    store.add_environment(manifest)
    for reducer in ("none", "random_sign"):
        for repeat in range(3):
            task = Task("s", "toy", "5" * 64, "", reducer, "{}", 3, (2, 5), repeat, 0, Protocol(1, 9), serial=False)
            store.add_configs([task.config])
            rows = [trial(task, r, 0.1 + 0.01 * r + 0.1 * repeat, short_hash(manifest)) for r in (2, 5)]
            store.add(task, [row | {"labels": np.arange(9) % 3} for row in rows])
    store.merge()
    return folder


@pytest.fixture(scope="module")
def submitted(labelled, tmp_path_factory):
    return submit(labelled, tmp_path_factory.mktemp("submitted"), "run")


def rows_at(path):
    """Return the rows of a file without the line of its checksum."""
    rows = csv.DictReader(io.StringIO(path.read_text("utf-8"), newline=""))
    return [dict(row) for row in rows if None not in row.values()]


def spoil(folder, spoilt, step=1):
    """Put a text into a column of each row, or of each `step`-th; JSON escapes its control characters.

    Of several columns and texts the rows get one each, in turn: a row with two may be refused for the first. Rows get
    the hash of the configuration that they then state, so that they are not refused for another one. All checksums are
    made again.
    """
    path, tasks = folder / "rows.csv", [*task_files(folder)]
    if packed := (folder / COMPRESSED_TABLE).exists():
        path.write_bytes(lzma.decompress((folder / COMPRESSED_TABLE).read_bytes()))
    files = [(file, rows_at(file)) for file in (path, *tasks)]
    for rows in ([*files[0][1]], [row for _, of_task in files[1:] for row in of_task]):
        for row, (column, text) in zip(rows[::step], cycle(spoilt), strict=False):
            row[column] = json.dumps({"a": text, text: 1}) if column in JSON_COLUMNS else text
            with contextlib.suppress(ValueError):  # of a column of numbers
                row["config_hash"] = short_hash(config_of(row)) if column != "config_hash" else text
    for file, rows in files:
        content = csv_content(rows, file)
        file.write_bytes(with_checksum(content) if file in tasks else content)
    if packed:
        (folder / COMPRESSED_TABLE).write_bytes(pack(path.read_bytes()))
        path.unlink()
        card = json.loads((folder / CARD).read_bytes())
        files = {"files": derived([], read_files(folder))["files"]}
        (folder / CARD).write_bytes(checked_content({k: v for k, v in card.items() if k != "sha256"} | files))


def spoilt_copy(command, place, folders, spoilt, step):
    """Return the words of a command on a spoilt copy of a folder that it reads to the rows."""
    folder = place / "run"
    shutil.copytree(folders.get(command[0], folders["HONEST"]), folder)
    spoil(folder, spoilt, step)
    paths = {"DIR": str(folder), "HONEST": str(folders["HONEST"]), "OUT": str(place / "out")}
    return [paths.get(word, word) for word in command]


@pytest.fixture(scope="module")
def folders(honest, labelled, submitted):
    return {"HONEST": honest, "metrics": labelled, "submit": labelled, "accept": submitted}


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids="-".join)
@settings(max_examples=8, database=None, suppress_health_check=list(HealthCheck))
@given(
    spoilt=st.lists(st.tuples(st.sampled_from(COLUMNS), texts), min_size=1, max_size=6), step=st.sampled_from([1, 6, 7])
)
@example(spoilt=[("reducer", TEXTS[1])], step=7)
def test_no_control_character_of_a_row_is_written(command, spoilt, step, folders, tmp_path_factory):
    place = tmp_path_factory.mktemp("hostile")
    words = spoilt_copy(command, place, folders, spoilt, step)
    with sketched():
        shown = run(words)
    assert shown
    assert not RAW.search(shown), repr(shown)
    for path in place.rglob("*"):
        if path.suffix in (".md", ".tex", ".html", ".svg"):
            assert not RAW.search(path.read_text()), path
    shutil.rmtree(place)


@pytest.mark.slow
@pytest.mark.parametrize("command", [*COMMANDS, ("report", "DIR")], ids="-".join)
def test_every_command_shows_the_text_of_a_row_that_is_refused(command, folders, tmp_path):
    """Without it, the search of its output for control characters would find none whatever it does with them."""
    words = spoilt_copy(command, tmp_path, folders, [("reducer", "\x1b[2J")], 7)
    with sketched():
        assert "reducer = '\\x1b[2J'" in run(words)


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 7])
@pytest.mark.parametrize("column", ["study", "dataset", "reducer", "params", "kmeans", "options", "metrics", "error"])
def test_no_control_character_of_a_row_is_in_a_report(column, step, honest, tmp_path):
    shutil.copytree(honest, tmp_path / "run")
    spoil(tmp_path / "run", [(column, "".join(TEXTS))], step)
    assert not RAW.search(run(["report", str(tmp_path / "run")]))
    suffixes = (".md", ".tex", ".html", ".csv")
    pages = [path for path in tmp_path.rglob("*") if path.suffix in suffixes and path.name != "rows.csv"]
    is_refused = column not in ("params", "options", "error")
    assert {path.suffix for path in pages} == (set() if is_refused and step == 1 else {*suffixes})
    for path in pages:
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
