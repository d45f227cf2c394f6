"""Task files that are parsed together give the rows and errors that each gives by itself."""

import csv
import io

import pytest

from kmdr.base.files import DamagedError
from kmdr.results import reader
from kmdr.results.checksums import with_checksum
from kmdr.results.paths import place
from kmdr.results.reader import _parsed_together, read_rows, read_task
from kmdr.results.row_check import RowCheck
from kmdr.results.schema import COLUMNS
from kmdr.results.table import _task_rows
from kmdr.results.text_rows import csv_content
from rows import make_rows, write_rows

TEXTS = ("", 'said "no", twice', "é, \u2028'", '"', "two\nlines")


def quoted(content):
    """The same rows in another form: all fields in quotation marks."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(csv.reader(io.StringIO(content.decode())))
    return text.getvalue().encode()


def without_last_column(content):
    lines = list(csv.reader(io.StringIO(content.decode())))
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(line[:-1] for line in lines)
    return text.getvalue().encode()


FORMS = {
    "as written": with_checksum,
    "all quoted": lambda content: with_checksum(quoted(content)),
    "older": lambda content: with_checksum(without_last_column(content)),
    "only a header": lambda content: with_checksum(content.partition(b"\n")[0] + b"\n"),
    "twice": lambda content: with_checksum(content + content.partition(b"\n")[2]),
    "with its header twice": lambda content: with_checksum(content + content),
    "an open quotation mark": lambda content: with_checksum(content[:-1] + b',"\n'),
    "begins within quotation marks": lambda content: with_checksum(content.replace(b"\n", b'\n"', 1)),
    "ends within quotation marks": lambda content: with_checksum(content[: content.rfind(b",") + 1] + b'"\n'),
    "a number that is text": lambda content: with_checksum(content.replace(b"0.125", b"x", 1)),
    "without a checksum": lambda content: content,
    "another checksum": lambda content: with_checksum(content)[:-3] + b"x\n",
    "cut": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "of another task": with_checksum,
}


@pytest.fixture
def tasks(tmp_path):
    """Rows of twelve tasks by their paths."""
    errors = {"status": "failed", "objective": float("nan")}
    parts = [
        make_rows("s", "d", name, [10, 20], 4, **({"objective": 0.125} if i else errors), seconds=10, error=TEXTS[i])
        for i, name in enumerate(("a", "b", "c"))
    ]
    tasks = {}
    for row in read_rows(write_rows(tmp_path, *parts) / "rows.csv"):
        tasks.setdefault(tmp_path / f"{place(row)}-0123456789ab.csv", []).append(row)
    return tasks


def one_by_one(folder, files):
    for path in files:
        try:
            yield read_task(folder, path)
        except DamagedError as error:
            yield str(error)


def test_files_of_all_forms_are_read_as_each_by_itself(tmp_path, tasks, rng, monkeypatch):
    """A single file that this version did not write, or a text of two lines, and all are parsed one by one."""
    together, parse = [], reader._parsed_together

    def parse_and_count(*arguments):
        rows = parse(*arguments)
        together.append(rows)
        return rows

    monkeypatch.setattr(reader, "_parsed_together", parse_and_count)
    known = list(tasks.values())
    for _ in range(60):
        forms, texts = ["as written"] * len(tasks), rng.choice(TEXTS[:-1], len(tasks))
        for odd in rng.choice(len(tasks), rng.integers(3), replace=False):
            forms[odd], texts[odd] = rng.choice([*FORMS]), rng.choice(TEXTS)
        for number, (path, form) in enumerate(zip(tasks, forms, strict=True)):
            rows = known[number - (form == "of another task")]
            for row in rows:
                row["error"] = str(texts[number])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(FORMS[form](csv_content(rows, path)))
        sentences = []
        read = list(_task_rows(tmp_path, tasks, sentences.append))
        expected = list(one_by_one(tmp_path, tasks))
        assert read == [rows for rows in expected if not isinstance(rows, str)]
        assert sentences == [rows for rows in expected if isinstance(rows, str)]
    assert 0 < len(together) < 60


def test_files_that_this_version_writes_are_parsed_together(tmp_path, tasks):
    contents = {path: with_checksum(csv_content(rows, path)) for path, rows in tasks.items()}
    assert _parsed_together(contents, tmp_path, RowCheck(tmp_path)) == [*tasks.values()]
    assert len(COLUMNS) == len(next(iter(tasks.values()))[0])
    for path, content in contents.items():
        with pytest.raises(DamagedError):
            _parsed_together({**contents, path: content[:-9]}, tmp_path, RowCheck(tmp_path))


def test_a_text_of_two_lines_takes_no_row_from_another_file_of_its_task(tmp_path, tasks):
    path, rows = next(iter(tasks.items()))
    contents = {}
    for text, code in (("two\nlines", "0123456789ab"), ("", "123456789abc")):
        rows[0]["error"] = text
        file = path.with_name(path.name.replace("0123456789ab", code))
        contents[file] = with_checksum(csv_content(rows, file))
    with pytest.raises(DamagedError, match="was not written by this version of kmdr"):
        _parsed_together(contents, tmp_path, RowCheck(tmp_path))
