"""A folder of results made by somebody who means harm, and one that is damaged: one sentence, or shown as it is."""

import csv
import json
import lzma
import os
import re
import socket
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kmdr.analysis.results import NotRunError, Results, attempt
from kmdr.base.errors import UserError
from kmdr.base.files import DamagedError
from kmdr.claims.catalogue import Item
from kmdr.config.studies import studies
from kmdr.figures import escape, panels
from kmdr.figures.canvas import figure_files
from kmdr.figures.panels import figures_for_folder
from kmdr.figures.style import method_styles
from kmdr.figures.tables import Table, cells, latex
from kmdr.reporting import parts
from kmdr.reporting.build import build
from kmdr.results import json_files, reader
from kmdr.results import table_stream as table
from kmdr.results.table import rows_of
from kmdr.results.untrusted_text import display_text
from reports import save_table
from rows import HASH, make_rows, markdown_of, write_rows

HOSTILE = "=cmd|' /C x'!A0"
NAMES = (
    HOSTILE, "a|b`c`", "<script>alert(1)</script>", "![x](javascript:alert(1))", r"\input{/etc/passwd}",
    r"\write18{x}", "$\\frac{$", "$x^2$", "[1cm] *b*", "x\u202ey", "# head", "@SUM(A1)",
)  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "run").mkdir()
    return write_rows(tmp_path / "run")


@pytest.fixture
def quick(monkeypatch):
    """One item and one claim of the catalogue in place of all."""
    from kmdr.reporting import build as module

    monkeypatch.setattr(module, "items", lambda: [item for item in ITEMS if item.id == "bzmd15_fig1"])
    monkeypatch.setattr(module, "claims", lambda: [claim for claim in CLAIMS if claim.id == "bzmd15-1"])
    monkeypatch.setattr(module, "flips", lambda configs: [])


def load_catalogue():
    from kmdr.claims import catalogue

    return catalogue.items(), catalogue.claims()


ITEMS, CLAIMS = load_catalogue()


def secret_beside(folder):
    path = folder.parent / "secret.json"
    path.write_text(json.dumps({"password": "hunter2"}))
    return path


@pytest.mark.slow
def test_rows_of_several_versions_of_the_code_are_said_on_the_pages_and_in_tables(folder, quick, monkeypatch):
    from kmdr.reporting import build as module

    write_rows(folder, code_hash=["a" * 12, "b" * 12] * 3)
    said = "the rows of random_sign were made by 2 versions of the code"
    drawn = []

    def keep(drawing, stem, *formats):
        drawn.append(" ".join(drawing.figure.get_supxlabel().split()))
        return figure_files(drawing, stem, *formats)

    for place in (parts, panels):
        monkeypatch.setattr(place, "figure_files", keep)
    build(folder, studies())
    figures_for_folder(folder)
    table = Item("bzmd15_table9", "table", "T", ("bzmd15_fig1",), (), (), lambda results: Table(
        results.rows("bzmd15_fig1")[["r"]], {}, "Ours."))  # fmt: skip
    monkeypatch.setattr(module, "items", lambda: [table])
    module.draw_items(folder, ["bzmd15_fig1"], studies())
    monkeypatch.setattr(module, "items", list)
    module.draw_items(folder, ["bzmd15_fig1"], studies())
    assert len(drawn) == 3
    assert not any(said in text for text in drawn)  # the pages and tables say it, and a figure has no such notes
    pages = [folder / name for name in ("report/index.html", "report/runs.md", "tables/bzmd15_table9.md")]
    assert all(said in page.read_text().replace("\\_", "_") for page in pages)
    write_rows(folder)
    assert said not in build(folder, studies()).read_text()


# --- keys ---


@pytest.mark.parametrize("key", ["../../secret", "{parent}/secret", "", "0123456789AB", "0123456789ab\n", "x" * 12])
@pytest.mark.parametrize("column", ["env_hash", "config_hash", "data_sha256"])
def test_a_key_that_is_no_hash_is_refused(folder, column, key, quick):
    secret_beside(folder)
    write_rows(folder, **{column: key.format(parent=folder.parent)})
    with pytest.raises(UserError, match=f"{column} = .* hexadecimal digits"):
        build(folder, studies())
    assert not (folder / "report").exists()


READERS = {"missing.json": json_files.missing_of, "plan.json": json_files.plan_of,
           "asked.json": json_files.asked_of, "universes.json": json_files.universes_of}  # fmt: skip


def note_of_damage(folder, place):
    """Return the note that a report takes of a damaged file, in the place of which it has nothing."""
    notes = []
    if place in READERS:
        assert json_files.read_or_note(READERS[place], folder, notes) == {}
    else:
        assert json_files.environments_of(folder, rows_of(folder), notes) == {HASH: {}}
    (note,) = notes
    return note


@pytest.mark.parametrize("place", ["environments/0123456789ab.json", "missing.json", "plan.json", "asked.json"])
def test_a_link_out_of_the_folder_is_not_read_and_the_report_says_so(folder, place, quick):
    target = secret_beside(folder)
    path = folder / place
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(target)
    build(folder, studies())
    told = markdown_of(folder).replace("\\", "").replace("`", "")
    assert f"* {path.name} cannot be read (a link)" in told
    assert "hunter2" not in told


@pytest.mark.parametrize("place", ["rows.csv", "rows.csv.xz"])
def test_a_link_out_of_the_folder_is_not_read(folder, place, quick):
    target = secret_beside(folder)
    path = folder / place
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target)
    if place == "rows.csv.xz":
        (folder / "rows.csv").unlink()
    with pytest.raises(UserError, match=r"cannot be read \(a link\)"):
        build(folder, studies())


def test_a_link_within_the_folder_is_not_read_either(folder):
    (folder / "rows.csv").rename(folder / "table.csv")
    (folder / "rows.csv").symlink_to("table.csv")
    with pytest.raises(UserError, match=r"cannot be read \(a link\)"):
        rows_of(folder)


@pytest.mark.parametrize("name", ["figures", "tables", "facts", "report"])
@pytest.mark.parametrize("command", [lambda folder: build(folder, studies()), figures_for_folder])
def test_nothing_is_written_through_a_link_or_over_another_kind_of_file(folder, name, command, quick):
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / ".x.999999.tmp").write_text("somebody's")
    (folder / name).symlink_to(outside)
    with pytest.raises(UserError, match=re.escape(str(folder / name))):
        command(folder)
    assert [path.name for path in outside.iterdir()] == [".x.999999.tmp"]
    (folder / name).unlink()
    (folder / name).write_text("a file")
    with pytest.raises(UserError, match="remove it"):
        command(folder)


# --- kinds and contents of files ---

JSON_PLACES = ("missing.json", "plan.json", "asked.json", "universes.json", f"environments/{HASH}.json")


def listen(path):
    here = Path.cwd()
    os.chdir(path.parent)  # the name of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(here)


KINDS = {
    "fifo": os.mkfifo,
    "folder": lambda path: path.mkdir(),
    "loop": lambda path: path.symlink_to(path.name),
    "socket": listen,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "binary": lambda path: path.write_bytes(bytes(range(256)) * 40),
}
EMPTY = {"empty": lambda path: path.write_bytes(b"")}
JSON_CONTENTS = {
    "another seal": b'{"a": 1, "sha256": "0"}',
    "cut off": b'{"a": ',
    "a list": b"[1, 2]",
    "deep": b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deeper than shown": b'{"a":' + b"[" * 40 + b"]" * 40 + b"}",
    "not a number": b'{"a": NaN}',
    "infinite": b'{"a": 1e999}',
    "many digits": b'{"a": ' + b"1" * 6000 + b"}",
    "latin": '{"a": "é"}'.encode("latin-1"),
}


@pytest.mark.parametrize("damage", [*KINDS, *EMPTY, *JSON_CONTENTS])
@pytest.mark.parametrize("place", JSON_PLACES)
def test_a_json_file_that_kmdr_did_not_write_is_named_in_a_note_of_the_report(folder, place, damage):
    path = folder / place
    path.parent.mkdir(exist_ok=True)
    if damage in JSON_CONTENTS:
        path.write_bytes(JSON_CONTENTS[damage])
    else:
        (KINDS | EMPTY)[damage](path)
    note = note_of_damage(folder, place)
    assert note.startswith(path.name)
    assert "\n" not in note
    assert len(note) < 600


@pytest.mark.parametrize(
    ("place", "content"),
    [
        ("missing.json", {"synth": ["no"]}),
        ("missing.json", {"synth": None}),
        ("asked.json", {"bzmd15_fig1": 3}),
        ("asked.json", {"bzmd15_fig1": [["x"]]}),
        ("universes.json", {"bmd09": [{"options": ["a"]}]}),
        ("universes.json", {"bmd09": [{"options": ["a"], "configs": {"0": ["nips"]}}]}),
        ("universes.json", {"bmd09": {}}),
        ("plan.json", {"full": False, "studies": []}),
        ("plan.json", {"full": False, "studies": {"a": 1}}),
        ("plan.json", {"full": False, "studies": {"a": {"repeats_planned": 1}}}),
        ("plan.json", {"full": False, "studies": {"a": {"repeats_planned": 1, "repeats_full": 0, "left_out": []}}}),
        ("plan.json", {"full": False, "budget_seconds": "long"}),
        ("plan.json", {"full": False, "budget_seconds": 10**400}),
        ("plan.json", {"full": False, "tasks_not_begun": "<b>"}),
    ],
)
def test_json_of_another_shape_is_named(folder, place, content):
    (folder / place).write_text(json.dumps(content))
    assert f"{place} is damaged: it does not hold what kmdr writes there" in note_of_damage(folder, place)


@pytest.mark.parametrize("damage", [*KINDS, *EMPTY])
@pytest.mark.parametrize("place", ["rows.csv", "rows.csv.xz"])
@pytest.mark.parametrize("command", [lambda folder: build(folder, studies()), figures_for_folder])
def test_a_table_of_another_kind_is_named_in_one_sentence(folder, place, damage, command):
    (folder / "rows.csv").unlink()
    (KINDS | EMPTY)[damage](folder / place)
    with pytest.raises(UserError) as caught:
        command(folder)
    assert f"{folder / place} " in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("command", [rows_of, lambda folder: build(folder, studies()), figures_for_folder])
def test_a_folder_without_a_table_or_rows_is_refused_with_what_to_do(folder, command):
    path = folder / "rows.csv"
    header = path.read_text().partition("\n")[0]
    path.unlink()
    with pytest.raises(UserError, match=r"^there is no .*rows\.csv, so .* has no rows; run a study into it first"):
        command(folder)
    path.write_text(f"{header}\n")
    with pytest.raises(UserError, match=r"rows\.csv has no rows; expected at least one trial; run the study first"):
        command(folder)


@pytest.mark.parametrize("damage", [*KINDS, *EMPTY])
def test_a_fact_of_another_kind_is_named_or_not_there(folder, damage):
    (folder / "facts").mkdir()
    path = folder / "facts" / "lf20_words.csv"
    (KINDS | EMPTY)[damage](path)
    with pytest.raises(UserError, match="lf20_words"):
        reader.fact_of(folder / "facts", "lf20_words")


@settings(max_examples=50)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0"), max_size=9), min_size=1))
@example([*NAMES, "\x1b[31m", "nan", "", " x "])
def test_the_texts_of_a_fact_are_shown_as_all_others_and_its_numbers_stay(texts):
    words = [f"w{text}" for text in texts]  # else texts such as 1 would be numbers
    columns = {
        "word": words,
        "count": range(len(words)),
        "score": np.arange(len(words)) / 3,
        "kept": [True] * len(words),
    }
    with TemporaryDirectory() as folder:
        facts = Path(folder, "facts")
        facts.mkdir()
        pd.DataFrame(columns).to_csv(facts / "words.csv", index=False)
        fact = reader.fact_of(facts, "words")
    assert fact["word"].tolist() == [display_text(word) for word in words]
    pd.testing.assert_frame_equal(fact.drop(columns="word"), pd.DataFrame(columns).drop(columns="word"))


def test_facts_are_read_once_with_the_errors_of_damaged_ones_and_no_more_than_a_table(folder, monkeypatch):
    (folder / "facts").mkdir()
    for name, text in (("a", "x\n1\n"), ("b", ""), ("c", "x\n" + "1\n" * 3000)):
        (folder / "facts" / f"{name}.csv").write_text(text)
    (folder / "facts" / "d.from").write_text("no table")
    facts = reader.facts_of(folder)
    assert facts.keys() == {"a", "b", "c"}
    assert facts["a"]["x"].tolist() == [1]
    assert isinstance(facts["b"], DamagedError)
    results = Results(pd.DataFrame(columns=["study", "dataset", "stand_in", "status"]), facts)
    with pytest.raises(DamagedError, match=r"b\.csv"):
        results.fact("b")
    fact = results.fact("a")
    fact["x"] = 2
    assert results.fact("a")["x"].tolist() == [1]
    monkeypatch.setenv("KMDR_MOST_TABLE", "5K")
    with pytest.raises(UserError, match=r"facts has at least 6\d{3} bytes, more than the limit of 5120"):
        Results(results.all_rows, reader.facts_of(folder)).fact("c")


@pytest.mark.parametrize("item", [item for item in ITEMS if item.facts and not item.studies], ids=lambda item: item.id)
def test_an_item_that_cannot_read_its_facts_is_left_out(folder, item):
    (folder / "facts").mkdir()
    for name in item.facts:
        (folder / "facts" / f"{name}.csv").write_text("word,x\na,<b>\n")
    with pytest.raises(NotRunError):
        attempt(item.make, Results.from_folder(folder))


# --- the table ---


def lines_of(folder):
    with (folder / "rows.csv").open(newline="") as file:
        return list(csv.reader(file))


def rewrite(folder, lines):
    with (folder / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows(lines)


def replace(column, value):
    def damage(lines):
        lines[2][lines[0].index(column)] = value

    return damage


def drop(column):
    def damage(lines):
        at = lines[0].index(column)
        for line in lines:
            del line[at]

    return damage


def double(lines):
    for line in lines:
        line.append(line[0])


def shorten(lines):
    lines[2] = lines[2][:7]


def lengthen(lines):
    lines[2].append("more")


def lengthen_all(lines):
    for line in lines[1:]:
        line.append("more")


DAMAGES = {
    **{f"{column} is {value[:9]}": replace(column, value)
       for column in ("objective", "r", "k", "repeat", "concurrency", "total_seconds", "accuracy", "n_iter")
       for value in ("inf", "-inf", "text", "1e300", "-1", "0x1p3", "9" * 400)},
    **{f"{column} is empty": replace(column, "") for column in ("k", "r", "repeat", "concurrency", "study", "dataset")},
    **{f"{column} is a fraction": replace(column, "1.5") for column in ("k", "r", "repeat", "n")},
    **{f"no {column}": drop(column) for column in ("study", "r", "objective", "env_hash", "status")},
    "status": replace("status", "fine"),
    "code_version": replace("code_version", "`x`"),
    "a long name": replace("dataset", "x" * 1000),
    "long parameters": replace("params", "x" * 20_000),
    "a column twice": double, "a short line": shorten, "a long line": lengthen, "long lines": lengthen_all,
}  # fmt: skip


OF_THE_FILE = ("a column twice", "a long line", "long lines", *(n for n in DAMAGES if n[:3] == "no "))


@pytest.mark.parametrize("damage", [name for name in DAMAGES if name not in (*OF_THE_FILE, "a short line")])
def test_a_damaged_row_is_counted_and_named_and_the_others_are_read(folder, damage, capsys):
    good, lines = rows_of(folder), lines_of(folder)
    DAMAGES[damage](lines)
    (column,) = [name for name, old, new in zip(lines[0], lines_of(folder)[2], lines[2], strict=True) if old != new]
    rewrite(folder, lines)
    pd.testing.assert_frame_equal(rows_of(folder), good.drop(index=1).reset_index(drop=True))
    (sentence,) = capsys.readouterr().err.splitlines()
    assert sentence.startswith(f"kmdr: warning: 1 of 6 rows of {folder / 'rows.csv'} is refused: {column} = ")
    assert len(sentence) < 600


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_table_is_named_in_one_sentence(folder, damage):
    lines = lines_of(folder)
    DAMAGES[damage](lines)
    rewrite(folder, lines if damage in OF_THE_FILE else [lines[0], lines[2]])
    with pytest.raises(UserError) as caught:
        rows_of(folder)
    assert str(folder / "rows.csv") in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def test_a_short_line_is_a_refused_row(folder, capsys):
    lines = lines_of(folder)
    shorten(lines)
    rewrite(folder, lines)
    assert len(rows_of(folder)) == 5
    assert "1 of 6 rows of" in capsys.readouterr().err


def test_nan_counts_as_a_wrong_number(folder, capsys):
    lines = lines_of(folder)
    replace("objective", "nan")(lines)
    rewrite(folder, lines)
    assert len(rows_of(folder)) == 5
    assert "objective = 'nan'" in capsys.readouterr().err


def test_rows_are_read_as_they_were_written(folder, rng):
    values = [float(x) for x in rng.random(6)]
    write_rows(folder, objective=values)
    assert rows_of(folder)["objective"].tolist() == values


def test_a_table_that_unpacks_to_far_more_than_it_is_is_refused_before_it_is_unpacked(folder):
    packed = lzma.compress((folder / "rows.csv").read_bytes() + b"\n" * table.MOST_BYTES)
    (folder / "rows.csv").unlink()
    (folder / "rows.csv.xz").write_bytes(packed)
    stated = f"{len(packed)} bytes, decompressed at least .* more than the limit of {table.MOST_BYTES};"
    with pytest.raises(UserError, match=stated):
        build(folder, studies())


@pytest.mark.parametrize(
    "cut", [lambda packed: packed[:-20], lambda packed: packed + packed, lambda packed: packed[5:]]
)
def test_a_packed_table_that_is_cut_off_or_followed_by_more_is_refused(folder, cut):
    packed = lzma.compress((folder / "rows.csv").read_bytes())
    (folder / "rows.csv").unlink()
    (folder / "rows.csv.xz").write_bytes(cut(packed))
    with pytest.raises(UserError, match=r"rows\.csv\.xz"):
        rows_of(folder)


def test_xz_may_not_take_gigabytes_for_itself(folder):
    packed = lzma.compress(
        b"study\n", filters=[{"id": lzma.FILTER_LZMA2, "mode": lzma.MODE_FAST, "dict_size": 1 << 27}]
    )
    (folder / "rows.csv").unlink()
    (folder / "rows.csv.xz").write_bytes(packed)
    with pytest.raises(UserError, match="Memory usage limit"):
        rows_of(folder)


@pytest.mark.parametrize("content", [b"a," * 10_000_000, b"x" * 5_000_000, b"a,b\n" + b"y" * 2_000_000])
def test_a_long_line_or_ten_million_columns_are_refused(folder, content):
    (folder / "rows.csv").write_bytes(content)
    with pytest.raises(UserError, match=f"a line of more than {table.MOST_LINE} bytes"):
        rows_of(folder)


def test_many_columns_are_refused_by_their_number(folder):
    (folder / "rows.csv").write_text(",".join(f"c{i}" for i in range(5000)) + "\n")
    with pytest.raises(UserError, match="5000 columns"):
        rows_of(folder)


@pytest.mark.parametrize("most", [table.MOST_LINE - 1, table.MOST_LINE, table.MOST_LINE + 1])
@pytest.mark.parametrize("before", [0, 1, (1 << 18) - 1, 1 << 18, 3 << 18])
def test_the_longest_line_is_found_wherever_it_begins(tmp_path, before, most):
    content = b"a\n" * (before // 2) + b"x" * most + b"\nb\n"
    (tmp_path / "rows.csv").write_bytes(content)
    with table.open_table(tmp_path, "rows.csv") as file:
        if most > table.MOST_LINE:
            with pytest.raises(DamagedError, match="a line of more than"):
                file.read()
        else:
            assert file.read() == content


def test_a_larger_table_is_read_when_the_user_allows_it(folder, monkeypatch):
    size = (folder / "rows.csv").stat().st_size
    monkeypatch.setenv(table.VARIABLE, "1K")
    with pytest.raises(UserError, match=rf"has {size} bytes, more than the limit of 1024; .*{table.VARIABLE}="):
        rows_of(folder)
    monkeypatch.setenv(table.VARIABLE, "1G")
    assert len(rows_of(folder)) == 6
    monkeypatch.setenv(table.VARIABLE, "much")
    with pytest.raises(UserError, match="'much' is not a size"):
        rows_of(folder)


# --- names ---


@pytest.mark.slow
def test_hostile_names_are_shown_and_never_obeyed(tmp_path, quick):
    folder = write_rows(
        tmp_path,
        *(make_rows("bzmd15_fig1", "synth", name, (5, 10), 1, stand_in=f"{name}\nfor synth") for name in NAMES),
    )
    (folder / "missing.json").write_text(json.dumps({"usps": NAMES[3] + "\n# head\n<b>", "bio\n": "\ud800"}))
    (folder / "environments").mkdir()
    (folder / "environments" / f"{HASH}.json").write_text(json.dumps({NAMES[2]: NAMES[3], "a\n# b": {NAMES[2]: [1]}}))
    page = build(folder, studies()).read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    text = markdown_of(folder)
    prose = re.sub(r"(?<![\\`])(`+)(?!`).*?(?<!`)\1(?!`)", "", text)  # without code, in which nothing is markup
    assert not re.search(r"(?<!\\)<(?!a id=|/a>)", prose)
    assert not re.search(r"(?<!\\)\[(?:\\.|[^]\\])*\]\(javascript", prose)
    assert r"!\[x\](javascript:alert(1))" in text
    assert not re.search(r"^# head|^# b\b", text, re.MULTILINE)
    for file in [*folder.glob("figures/*.csv"), *folder.glob("tables/*.csv"), folder / "verdicts.csv"]:
        with file.open(newline="") as stream:
            for text in (text for line in csv.reader(stream) for text in line):
                assert not text.startswith(tuple("=+-@\t\r")) or float(text) is not None, (file, text)
    assert (folder / "figures" / "bzmd15_fig1.csv").read_text().count("'" + HOSTILE) > 0
    assert HOSTILE in set(pd.read_csv(folder / "rows.csv")["reducer"])  # the rows themselves are data


def test_hostile_names_are_drawn_as_they_are_written(tmp_path):
    folder = write_rows(tmp_path, *(make_rows("../s", name, name, (5, 10), 2) for name in NAMES if "$" in name))
    written = figures_for_folder(folder)
    assert {path.suffix for path in written} == {".png", ".csv"}
    assert {path.parent for path in written} == {folder / "figures"}
    fig = panels.paper_grid(rows_of(folder), ["$x^2$"]).figure
    labels = [text for text in fig.legends[0].get_texts() if text.get_text() == "$x^2$"]
    assert labels
    assert not labels[0].get_parse_math()
    assert not labels[0].get_usetex()
    assert not fig.axes[0].title.get_parse_math()


@pytest.mark.parametrize("params", ["[1]", '[{"a": 1}]', '"text"', "[" * 5000, "{", "null"])
def test_parameters_that_are_no_settings_are_shown_as_they_are(params):
    looks = method_styles([("svd", params), ("svd", '{"rank":3}')])
    assert {look.label for look in looks.values()} == {f"svd ({params})", 'svd ({"rank":3})'}


def test_tables_of_hostile_texts(tmp_path):
    table = Table(pd.DataFrame({"=name": NAMES, "ours": np.arange(len(NAMES)) - 3.0}), {"ours": ".3f"}, "a\n\\input{x}")
    paths = {path.suffix: path for path in save_table(table, tmp_path / "x")}
    read = pd.read_csv(paths[".csv"])
    assert list(read.columns) == ["'=name", "ours"]
    assert read["ours"].tolist() == table.frame["ours"].tolist()
    assert [text.removeprefix("'") for text in read["'=name"]] == list(NAMES)
    lines = [line for line in paths[".md"].read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {3}
    body = latex(table)
    assert not re.search(r"\\(input|write|frac)", body.replace("% a \\input{x}", ""))
    assert not re.search(r"\\\\\s*[\[*]", body)
    assert len(cells(table)[1]) == body.count(r" \\") - 1
    assert body.startswith("% a \\input{x}\n\\begin")


@pytest.mark.parametrize("text", ["=1", "+a", "-a", "@a", "\ta", "\ra", "＝1"])
def test_a_cell_that_a_spreadsheet_would_compute_is_text(text):
    cell = escape.spreadsheet_csv(pd.DataFrame({"x": [text]})).decode().split("\n", 1)[1].strip('"\n')
    assert cell.startswith("'" + text[0]) or cell == f"'{text}"


@pytest.mark.parametrize("text", ["-0.5", "+1", "-inf", "1e-3", "a=1", "−3", ""])
def test_other_cells_stay_as_they_are(text):
    frame = pd.DataFrame({"x": [text, "b"]})
    assert escape.spreadsheet_csv(frame) == frame.to_csv(index=False, lineterminator="\n").encode()
