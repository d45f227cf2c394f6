"""Rows that contradict their configuration, their columns or each other: whatever reads them refuses and names them."""

import csv
import io
import json
import shutil

import pandas as pd
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kmdr.analysis.results import Results
from kmdr.base.errors import UserError
from kmdr.base.files import DamagedError
from kmdr.base.paths import CONF
from kmdr.base.provenance import environment
from kmdr.base.text import short_hash
from kmdr.claims.catalogue import items
from kmdr.cli.arguments import COMMANDS
from kmdr.clustering.kmeans import Protocol
from kmdr.config.task import Task
from kmdr.figures import panels
from kmdr.harness import rescore, verify
from kmdr.reporting.parts import Context, make_item
from kmdr.results import check, merge
from kmdr.results.checksums import with_checksum
from kmdr.results.folder import require_file
from kmdr.results.reader import read_rows, read_task
from kmdr.results.row_check import RowCheck, config_of
from kmdr.results.schema import COLUMNS, JSON_COLUMNS
from kmdr.results.store import Store
from kmdr.results.table import load_rows, rows_file, rows_of
from kmdr.results.typed_rows import to_text
from rows import trial

REFERENCE = CONF.parent / "results" / "reference"
TASKS = [Task("s", "toy", "5" * 64, "", name, "{}", 3, (2, 5), repeat, 0, Protocol(1, 9), False)
         for name in ("random_sign", "svd") for repeat in range(2)]  # fmt: skip
# The columns that nothing in a table determines, and why.
UNDETERMINED = (
    ("which trial it is; of a task file the name determines it, but for r", ("study", "r", "repeat")),
    ("what the trial gave; 'kmdr verify' computes it again",
     ("objective", "accuracy", "nmi", "ari", "metrics", "n_iter", "n_init_failed", "status", "error")),
    ("measured; of the other times one is the sum of three", ("score_seconds",)),
    ("what computed it, and from what",
     ("options", "concurrency", "threads", "stand_in", "code_version", "code_hash", "guests", "env_hash", "machine")),
)  # fmt: skip
PARTS = ("prepare_seconds", "reduce_seconds", "cluster_seconds")  # of which the total is the sum
FREE = {name for _, names in UNDETERMINED for name in names}
VALUES = (
    "", "0", "1", "2", "4", "99", "1000", "-1", "0.5", "3.0", "nan", "inf", "1e309", "9" * 400, "text", "a/b", "..",
    "{}", "{ }", '{"rank":3}', '{"online":true}', '{"args":"{}"}', "[]", "null", "plus", "first_of_class", "greedy",
    "sklearn", "leverage", "svd", "6" * 64, "f" * 12, "ok", "failed",
)  # fmt: skip
TEXTS = st.one_of(
    st.sampled_from(VALUES),
    st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=20),
    st.integers(-5, 10**20).map(str),
    st.floats().map(repr),
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    store, manifest = Store(folder), environment()
    store.add_environment(manifest)
    store.add_configs(task.config for task in TASKS)
    for task in TASKS:
        store.add(task, [trial(task, r, 0.1 + 0.01 * r, short_hash(manifest)) for r in (2, 5)])
    store.merge()
    return folder


@pytest.fixture(scope="module")
def alone(whole, tmp_path_factory):
    """A folder of which only the table, its configurations and environments were handed on."""
    return shutil.copytree(whole, tmp_path_factory.mktemp("alone") / "run", ignore=shutil.ignore_patterns("tasks"))


@pytest.fixture
def copy(alone, tmp_path):
    return shutil.copytree(alone, tmp_path / "run")


def lines_of(path):
    with path.open(newline="") as file:
        return [line for line in csv.reader(file) if not line[0].startswith("# ")]


def write(path, lines):
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(lines)


def forge(lines, at, column, value):
    """Change one value of one row."""
    forged = [[*line] for line in lines]
    forged[at + 1][lines[0].index(column)] = value
    return forged


def is_refused(read):
    try:
        read()
    except UserError:
        return True
    return False


def rows_in_frame(folder):
    try:
        rows, refused = load_rows(folder)
        return to_text(rows), refused
    except UserError:  # the table itself
        return None, ["no table"]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(COLUMNS), st.integers(0, 7), TEXTS)
def test_a_value_that_something_determines_cannot_be_forged(alone, tmp_path_factory, column, at, value):
    table, honest = alone / "rows.csv", lines_of(alone / "rows.csv")
    true = honest[at + 1][honest[0].index(column)]
    assume(value != true)
    before = rows_of(alone)
    try:
        write(table, forge(honest, at, column, value))
        rows, named = rows_in_frame(alone)
        refused = bool(named)
        assert refused == is_refused(lambda: read_rows(table))
        assert refused == is_refused(lambda: merge.read(alone))
        assert refused <= bool([fault for fault in check.faults(alone) if fault.path == table])
        if refused and rows is not None:
            assert len(rows) == 7
            assert f"1 of 8 rows of {table} is refused: " in named[0]
            assert len(read_rows(table, RowCheck(alone))) == 7
        if not refused and column not in FREE:  # it is not taken from there
            pd.testing.assert_frame_equal(rows, before)
    finally:
        write(table, honest)


FORGED = {
    "dataset": "other", "data_sha256": "6" * 64, "reducer": "leverage", "params": '{"rank":3}', "k": "4", "seed": "99",
    "engine": "sklearn", "start": "plus", "n_init": "1000", "max_iter": "10", "kmeans": '{"online":true}',
    "matching": "greedy", "n": "10", "d": "30", "nnz": "170", "total_seconds": "0.9", "prepare_seconds": "0.1",
    "reduce_seconds": "3.0", "cluster_seconds": "1.0", "config_hash": "f" * 12, "accuracy": "1.5", "objective": "inf",
    "status": "fine", "objective_ratio": "7.5",
}  # fmt: skip


def test_every_column_is_forged_or_nothing_determines_it():
    assert set(COLUMNS) == FREE | FORGED.keys()


@pytest.mark.parametrize("without", ["", "configs.jsonl"])
@pytest.mark.parametrize("column", sorted(FORGED.keys() - {"objective_ratio"}))
def test_each_command_names_a_forged_row_and_shows_the_others(copy, tmp_path, column, without, capsys):
    """Also where the folder lacks the configuration that the row names."""
    if without:
        (copy / without).unlink()
    write(copy / "rows.csv", forge(lines_of(copy / "rows.csv"), 3, column, FORGED[column]))
    named = f"1 of 8 rows of {copy / 'rows.csv'} is refused: "
    COMMANDS["table"]([str(copy)])
    told = capsys.readouterr().err
    assert named in told
    assert without or column in PARTS or f"{column} = '{FORGED[column][:60]}" in told
    assert check.run(copy) == 1
    assert named in capsys.readouterr().out
    assert verify.verify_sample(copy, 2, 0) == 1
    assert f"not confirmed: {named}" in capsys.readouterr().err
    for read in (lambda: Store(copy).merge(), lambda: merge.run([copy], tmp_path / "out")):
        with pytest.raises(UserError, match=" = "):
            read()
    assert not (tmp_path / "out" / "rows.csv").exists()


def test_a_forged_ratio_is_a_fault_and_never_shown(copy, capsys):
    write(copy / "rows.csv", forge(lines_of(copy / "rows.csv"), 3, "objective_ratio", "7.5"))
    assert check.run(copy) == 1
    assert "1 row whose objective_ratio" in capsys.readouterr().out
    assert rows_of(copy)["objective_ratio"].max() < 2


def test_a_first_row_of_false_size_does_not_turn_against_the_others(copy):
    write(copy / "rows.csv", forge(lines_of(copy / "rows.csv"), 0, "n", "10"))
    assert len(rows_of(copy)) == 7


@pytest.mark.parametrize(("column", "text"), [("params", "{ }"), ("kmeans", "{ }"), ("kmeans", "")])
def test_json_that_is_written_otherwise_is_no_other_setting(copy, column, text):
    before = rows_of(copy)
    write(copy / "rows.csv", forge(lines_of(copy / "rows.csv"), 3, column, text))
    pd.testing.assert_frame_equal(rows_of(copy), before)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sets(st.integers(1, 8)))
def test_a_table_of_any_of_the_rows_is_sound(alone, places):
    """Also of one row, and of none."""
    table, honest = alone / "rows.csv", lines_of(alone / "rows.csv")
    try:
        write(table, [honest[0], *(honest[place] for place in sorted(places))])
        assert len(read_rows(table)) == len(places)
        assert not [fault for fault in check.faults(alone) if "refused" in fault.sentence]
        if places:
            rows, refused = load_rows(alone)
            assert len(rows) == len(merge.read(alone).rows) == len(places)
            assert not refused
        else:
            for read in (rows_of, merge.read, lambda folder: COMMANDS["table"]([str(folder)])):
                with pytest.raises(UserError, match="has no rows"):
                    read(alone)
    finally:
        write(table, honest)


def test_rows_are_confirmed_by_their_own_columns_where_the_configuration_is_not_there(copy):
    (copy / "configs.jsonl").unlink()
    assert len(rows_of(copy)) == len(read_rows(rows_file(copy))) == 8


def test_rows_older_than_the_settings_are_read_with_their_configuration_alone(copy):
    lines = lines_of(copy / "rows.csv")
    places = [i for i, name in enumerate(lines[0]) if name not in COLUMNS[11:18]]
    write(copy / "rows.csv", [[line[i] for i in places] for line in lines])
    assert set(rows_of(copy)["n_init"]) == {1}
    assert {row["n_init"] for row in Store(copy).merge()} == {"1"}
    write(copy / "rows.csv", [[line[i] for i in places] for line in forge(lines, 0, "seed", "7")])
    assert len(rows_of(copy)) == 7
    (copy / "configs.jsonl").unlink()
    with pytest.raises(UserError, match=r"no valid row: .*config_hash = "):
        rows_of(copy)


@pytest.mark.parametrize("column", [name for name in sorted(FORGED) if name not in ("objective_ratio", "n", "d", "nnz")]
                         + ["study", "repeat"])  # fmt: skip
def test_a_forged_task_file_is_damaged_though_its_checksum_is_right(whole, tmp_path, column, capsys):
    folder = shutil.copytree(whole, tmp_path / "copy")
    path = Store(folder).path(TASKS[0])
    write(path, lines_of(path))
    path.write_bytes(with_checksum(path.read_bytes()))
    assert len(read_task(folder, path)) == 2, "an honest file in this form is read"
    write(path, forge(lines_of(path), 0, column, FORGED.get(column, "7")))
    path.write_bytes(with_checksum(path.read_bytes()))
    with pytest.raises(DamagedError):
        read_task(folder, path)
    assert any(fault.path == path for fault in check.faults(folder))
    assert len(Store(folder).merge()) == 6
    assert str(path) in capsys.readouterr().err


def test_refused_rows_of_many_columns_are_named_in_ten_lines(copy):
    lines = lines_of(copy / "rows.csv")
    many = sorted(FORGED.keys() - {"objective_ratio", "n", "d"})[:12]
    write(copy / "rows.csv", [lines[0], *(forge(lines, 0, name, FORGED[name])[1] for name in many), *lines[2:]])
    rows, named = load_rows(copy)
    assert len(rows) == 7
    assert len(named) <= 11
    assert named[-1] == f"and {len(many) - 10} more of {copy / 'rows.csv'}" or len(named) <= 10


# --- JSON ---

NO_OBJECTS = ("[]", "null", "1", '"x"', "true", "{", "x", '{"a":NaN}', '{"a":1e999}', '{"a":"\\ud800"}',
              '{"a":' * 20 + "1" + "}" * 20, "[" * 5000)  # fmt: skip
OBJECTS = (
    '{"":{}}', '{"a":null}', '{"a":[[]]}', '{"a":{"b":[1,{"c":null}]}}', '{"a":"\\u001b]52;c;eA==\\u0007"}',
    '{"a":1.5}', '{"a":true}', '{"name":null}', '{"name":5}', '{"name":["x"]}', '{"args":5}', '{"args":"[]"}',
    '{"args":"{}"}', '{"online":1}', '{"empty_action":null}', '{"a":1' + "0" * 101 + "}", '{"a":"..\\/x"}',
)  # fmt: skip


def has_shape(column, text):
    """What the object in a column may hold, said otherwise than by the code."""
    return text in OBJECTS and {
        "params": True, "options": "name" not in text,
        "kmeans": text == '{"args":"{}"}', "metrics": text in ('{"a":1.5}', '{"name":5}', '{"args":5}', '{"online":1}'),
    }[column]  # fmt: skip


def hostile(folder, values):
    """Write a table of honest rows and, for each value of a column, one that has it and the hash that goes with it."""
    lines = lines_of(folder / "rows.csv")
    for number, (column, text) in enumerate(values):
        row = dict(zip(lines[0], lines[1], strict=True)) | {"repeat": str(100 + number), column: text}
        if text in OBJECTS:
            row["config_hash"] = short_hash(config_of(row))
        lines.append([row[name] for name in lines[0]])
    write(folder / "rows.csv", lines)


@pytest.mark.slow
@pytest.mark.parametrize("text", [*NO_OBJECTS, *OBJECTS], ids=lambda text: text[:30])
@pytest.mark.parametrize("column", JSON_COLUMNS)
def test_no_json_ends_a_command_otherwise_than_in_a_sentence(copy, alone, tmp_path, column, text, capsys):
    """Every command reads tables alike, so each gets half of the texts, and each format of a table a quarter."""
    number = [*NO_OBJECTS, *OBJECTS].index(text)
    hostile(copy, [(column, text)])
    named = f"1 of 9 rows of {copy / 'rows.csv'} is refused: {column} = "
    sound = has_shape(column, text)
    arguments = ([], ["STUDY=s"], ["--format", "latex"], ["--format", "csv"])[number // 2 % 4]
    COMMANDS["table"]([str(copy), *arguments])
    told = capsys.readouterr()
    assert (named in told.err) is not sound
    assert "\x1b" not in told.out + told.err
    if number % 2:
        COMMANDS["compare"]([str(copy), str(alone)])
        assert (named in capsys.readouterr().err) is not sound
        assert is_refused(lambda: merge.run([copy], tmp_path / "out")) is not sound
        assert is_refused(lambda: Store(copy).merge()) is not sound
        return
    lacks_configuration = column in ("params", "kmeans")
    assert check.run(copy) == int(not sound or lacks_configuration)
    assert (named in capsys.readouterr().out) is not sound
    assert verify.verify_sample(copy, 9, 0) == 1  # at least, there are no such data
    assert (named in capsys.readouterr().err) is not sound
    COMMANDS["export"]([str(copy), "--crate", str(tmp_path / "crate")])
    assert (named in capsys.readouterr().err) is not sound
    assert len(read_rows(tmp_path / "crate" / "rows.csv")) == 8 + sound
    with pytest.raises(UserError, match="has no labels"):
        rescore.run(copy)


@pytest.mark.slow
@pytest.mark.parametrize("column", JSON_COLUMNS)
def test_figures_are_drawn_of_the_rows_that_have_the_shape_of_their_columns(copy, column, capsys):
    values = [(column, text) for text in (*NO_OBJECTS, *OBJECTS)]
    hostile(copy, values)
    assert panels.figures_for_folder(copy)
    refused = sum(not has_shape(*value) for value in values)
    assert f"{refused} of {8 + len(values)} rows of " in capsys.readouterr().err


def test_metrics_go_on_behind_a_task_file_that_is_forged(whole, tmp_path, capsys):
    folder = shutil.copytree(whole, tmp_path / "copy")
    path = Store(folder).path(TASKS[0])
    write(path, forge(lines_of(path), 0, "metrics", "[]"))
    path.write_bytes(with_checksum(path.read_bytes()))
    labels = folder / "labels" / path.relative_to(folder / "tasks").with_suffix(".npz")
    labels.parent.mkdir(parents=True)
    labels.write_bytes(b"")
    assert rescore.run(folder) == 1
    assert f"{path} is damaged: a row has metrics = " in capsys.readouterr().err


def test_json_is_of_finite_numbers_and_bounded_depth():
    from kmdr.results.untrusted_text import parse_json

    assert parse_json(json.dumps({"a": [1, 2.5, None, True, "x"]})) == {"a": [1, 2.5, None, True, "x"]}
    for text in NO_OBJECTS[5:]:
        with pytest.raises(ValueError):  # noqa: PT011
            parse_json(text)


# --- facts ---


@pytest.mark.parametrize(
    "item", [item for item in items() if item.facts and not item.studies], ids=lambda item: item.id
)
def test_a_damaged_fact_is_a_gap_of_the_report(copy, item):
    """One character behind each value of one column, and the note that goes with a fact gone."""
    (copy / "facts").mkdir()
    facts = {
        copy / "facts" / f"{name}.csv": pd.read_csv(io.BytesIO(require_file(REFERENCE, f"facts/{name}.csv")), dtype=str)
        for name in item.facts
    }

    def made():
        return make_item(item, Context(Results.from_folder(copy), {}, {}, ()))

    for path, fact in facts.items():
        fact.to_csv(path, index=False)
    assert made().state in ("rerun", "in part")
    for path, fact in facts.items():
        states = []
        for column in fact:
            fact.assign(**{column: fact[column] + "x"}).to_csv(path, index=False)
            shown = made()
            assert shown.state == "not run" or shown.files
            states.append(shown.state)
        assert "not run" in states
        assert {*states} <= {"not run", "rerun", "in part"}
        fact.to_csv(path, index=False)
