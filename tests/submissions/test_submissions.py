"""Submissions: packed alike every time, accepted only if recomputation agrees, and refused if a stranger tampers."""

import json
import lzma
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from atlas_rows import atlas_rows
from kmdr.atlas.effects import effects, third_party_effects
from kmdr.atlas.section import atlas_section
from kmdr.base.errors import UserError
from kmdr.base.provenance import environment
from kmdr.base.text import short_hash
from kmdr.cli.arguments import COMMANDS
from kmdr.cli.jobs import run_jobs
from kmdr.harness import verify as verifying
from kmdr.harness.jobs import compose
from kmdr.reporting.contents import fingerprint, read_contents
from kmdr.results.check import faults
from kmdr.results.checksums import checked_content, with_json_checksum
from kmdr.results.compare import platform_of
from kmdr.results.paths import COMPRESSED_TABLE, TABLE
from kmdr.results.table import all_rows, write_compressed
from kmdr.results.text_rows import csv_content
from kmdr.submissions import Submission, submissions
from kmdr.submissions.accept import accept, find
from kmdr.submissions.card import CARD, derived, identity, read_files
from kmdr.submissions.pack import submit
from rows import HASH, write_rows

SYNTH = ("dataset=synth", "dataset.n=60", "dataset.d=12", "dataset.k=3", "dataset.side=2", "kmeans.n_init=2",
         "r_grid=[2,4]", "repeats=2", "timing_repeats=0", "runner=sequential")  # fmt: skip
SVD = "sklearn.decomposition.TruncatedSVD"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Return a folder of results with labels, one with a class of another package, and use their cache."""
    place = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KMDR_CACHE", str(tmp_path_factory.mktemp("cache")))
        kept, outside = place / "My Results", place / "outside"
        methods = [compose(*SYNTH, f"reducer={name}", "keep_labels=true", f"out={kept}") for name in ("none", "svd")]
        assert run_jobs(methods) == 0
        others = ("reducer=outside", f"reducer.path={SVD}")
        assert run_jobs([compose(*SYNTH, *others, f"out={outside}")]) == 0
        yield kept, outside


@pytest.fixture
def made(results, tmp_path):
    """Return an honest submission with labels."""
    return submit(results[0], tmp_path / "submitted", "mine", author="A. Person", licence="CC-BY-4.0")


def accepted(folder, size=40, seed=1, **options):
    """Return the outcome of a submission's check."""
    return accept(folder, folder / "no-reference", size, seed, **options)[0]["verification"]


def refusal(folder, **options):
    with pytest.raises(UserError) as refused:
        accepted(folder, **options)
    said = str(refused.value)
    assert said.isprintable(), said
    return said


def edited(folder, out, change, name="edited", cpu=None, labels=True):
    """Submit a copy of results whose rows a function changed, perhaps as if they came from another CPU."""
    copy = out / "copy"
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("tasks", "rows.csv"))
    rows = [dict(row) for row in all_rows(folder)]
    if cpu:
        manifest = {**environment(), "cpu": cpu}
        key = short_hash(manifest)
        (copy / "environments" / f"{key}.json").write_text(json.dumps(manifest))
        rows = [row | {"env_hash": key} for row in rows]
    for row in rows:
        change(row)
    least = min(float(row["objective"]) for row in rows)
    rows = [row | {"objective_ratio": repr(float(row["objective"]) / least)} for row in rows]
    write_compressed(csv_content(rows, copy), copy / COMPRESSED_TABLE)
    return submit(copy, out / "submitted", name, labels=labels)


def marked(folder):
    card, _ = accept(folder, folder / "no-reference", 40, 1)
    (folder / CARD).write_bytes(checked_content(card))
    return card["verification"]


# -- packing -----------------------------------------------------------------------------------------------------------


def test_the_same_results_give_the_same_bytes(results, tmp_path):
    first, second = (submit(results[0], tmp_path / name, "mine") for name in "ab")
    files = [sorted(path.relative_to(folder) for path in folder.rglob("*")) for folder in (first, second)]
    assert files[0] == files[1]
    assert all(
        (first / name).read_bytes() == (second / name).read_bytes() for name in files[0] if (first / name).is_file()
    )


def test_a_submission_is_a_folder_of_results_without_fault_or_private_path(made, results):
    assert faults(made) == []
    assert [dict(row) for row in all_rows(made)] == [dict(row) for row in all_rows(results[0])]
    assert len(list(made.rglob("*.npz"))) == 4
    private = [str(results[0].parent), os.environ["HOME"], os.environ["KMDR_CACHE"]]
    for path in (path for path in made.rglob("*") if path.is_file()):
        content = path.read_bytes()
        content = lzma.decompress(content) if path.suffix == ".xz" else content
        assert not any(text.encode() in content for text in private)


def test_the_card_states_who_what_and_the_hash_of_every_file(made):
    card = json.loads((made / CARD).read_bytes())
    assert (card["name"], card["method"], card["author"], card["licence"]) == ("mine", "svd", "A. Person", "CC-BY-4.0")
    assert (card["rows"], card["failed"], card["labels"], card["verification"]) == (6, 0, 4, None)
    assert {method["reducer"] for method in card["methods"]} == {"none", "svd"}
    assert all(command.startswith("kmdr dataset=synth ") for command in card["commands"])
    assert card["files"].keys() == {p.relative_to(made).as_posix() for p in made.rglob("*") if p.is_file()} - {CARD}


def test_the_name_is_by_default_that_of_the_folder(results, tmp_path):
    assert submit(results[0], tmp_path).name == "my-results"


@pytest.mark.parametrize(
    "name", ["../../x", "/x", ".", "..", ".x", "a/b", "A", "é", "a b", "-rf", "a--b", "x" * 51, "con", "a\n", "\u202ea"]
)
def test_a_name_that_is_no_plain_folder_is_refused(name, results, tmp_path):
    with pytest.raises(UserError, match="cannot be the name of a submission"):
        submit(results[0], tmp_path / "out", name)
    with pytest.raises(UserError):
        find(name, tmp_path) if "/" not in name and name[:1] != "." else accepted(find(name, tmp_path))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("text", ["a\nb", "\x1b[2J", "\u202egnp", "x" * 201, "a\0b", "\u200bx", "\ud800"])
@pytest.mark.parametrize("what", ["method", "author", "licence"])
def test_a_text_that_is_not_one_printable_line_is_refused(what, text, results, tmp_path):
    with pytest.raises(UserError, match="printable"):
        submit(results[0], tmp_path, "mine", **{what: text})


def test_what_check_refuses_is_refused_and_nothing_is_written(results, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(results[0], copy)
    task = next(copy.rglob("0000-*.csv"))
    task.write_bytes(task.read_bytes().replace(b"synth", b"other", 1))
    with pytest.raises(UserError, match="fault"):
        submit(copy, tmp_path / "out", "mine")
    with pytest.raises(UserError, match="no folder"):
        submit(tmp_path / "absent", tmp_path / "out", "mine")
    assert not (tmp_path / "out").exists()


def test_nothing_is_replaced(made, results):
    with pytest.raises(UserError, match="already exists"):
        submit(results[0], made.parent, "mine")
    shutil.rmtree(made)
    made.symlink_to(made.parent)
    with pytest.raises(UserError, match="already exists"):
        submit(results[0], made.parent, "mine")


# -- five submissions --------------------------------------------------------------------------------------------------


def test_an_honest_submission_is_verified(made):
    check = marked(made)
    assert (check["status"], check["reason"], check["drawn"], check["labels"]) == ("verified", "", 6, 6)
    assert [(s.name, s.status, s.rows) for s in submissions(made.parent)] == [("mine", "verified", 6)]


def test_a_submission_of_another_cpu_is_consistent(results, tmp_path):
    def perturb(row):
        row["objective"] = repr(float(row["objective"]) * (1 + 4e-16 * (1 + int(row["repeat"]))))

    check = marked(edited(results[0], tmp_path, perturb, cpu="Another CPU"))
    assert check["status"] == "consistent"
    assert "on another CPU" in check["reason"]


def test_a_changed_number_is_refused(results, tmp_path):
    def change(row):
        row["objective"] = repr(float(row["objective"]) * (1 + 1e-12))

    assert "has other numbers here: objective" in refusal(edited(results[0], tmp_path, change))


def test_a_better_result_is_refused_also_from_another_cpu(results, tmp_path):
    def change(row):
        if row["reducer"] == "svd":
            row["objective"] = repr(float(row["objective"]) * 0.97)

    folder = edited(results[0], tmp_path, change, cpu="Another CPU", labels=False)
    assert "has other numbers here: objective" in refusal(folder)


def test_an_accuracy_that_its_labels_do_not_give_is_refused(results, tmp_path):
    """On a forged other CPU, where F alone is compared closely, labels still tell."""

    def change(row):
        row["accuracy"] = "0.95"

    folder = edited(results[0], tmp_path / "a", change, cpu="Another CPU")
    assert "has other scores than its labels: accuracy" in refusal(folder)
    without = edited(results[0], tmp_path / "b", change, cpu="Another CPU", labels=False)
    check = accepted(without)
    assert (check["status"], check["reason"]) == ("as reported", "6 of 6 rows took another path here")


def test_other_code_of_a_built_in_method_is_refused(results, tmp_path):
    def change(row):
        row["code_hash"] = "0123456789ab"

    assert "were computed by other code (0123456789ab)" in refusal(edited(results[0], tmp_path, change))


def test_other_code_is_refused_also_if_it_is_called_a_plugin_of_a_built_in_method(results, tmp_path):
    def change(row):
        row |= {"code_hash": "0123456789ab", "guests": "better-plugin 1.0 0123456789ab"}

    assert "were computed by other code" in refusal(edited(results[0], tmp_path, change))


def test_third_party_code_is_as_reported_unless_the_command_names_it(results, tmp_path, monkeypatch):
    folder = submit(results[1], tmp_path / "submitted", "truncated", method="Truncated SVD")
    ran, attempt = [], verifying.attempt
    monkeypatch.setattr(
        verifying, "attempt", lambda *arguments, **options: ran.append(1) or attempt(*arguments, **options)
    )
    check = accepted(folder)
    assert (check["status"], check["drawn"]) == ("as reported", 0)
    assert f"reducer={SVD} is third-party code" in check["reason"]
    assert not ran
    assert accepted(folder, trust=[f"reducer={SVD}"])["status"] == "verified"
    assert ran


def test_another_version_of_third_party_code_is_as_reported(results, tmp_path):
    def change(row):
        row["guests"] = "scikit-learn 0.1 0123456789ab"

    check = accepted(edited(results[1], tmp_path, change), trust=[f"reducer={SVD}"])
    assert check["status"] == "as reported"
    assert check["reason"].startswith("it was made with scikit-learn 0.1 0123456789ab, but here is scikit-learn ")


def test_rows_of_several_versions_of_third_party_code_are_refused(results, tmp_path, monkeypatch):
    """The page "Which method?" showed the mean over repetitions of both versions."""

    def change(row):
        if row["reducer"] != "none":
            row["guests"] = f"scikit-learn 0.{row['repeat']} 0123456789ab"

    with pytest.raises(UserError, match="were made by 2 versions of the code") as refused:
        edited(results[1], tmp_path / "a", change)
    assert "--refresh" in str(refused.value)
    assert not (tmp_path / "a" / "submitted").exists()
    with monkeypatch.context() as patch:  # as somebody else may pack it
        patch.setattr("kmdr.submissions.pack.refuse_mixed_code", lambda folder, rows: None)
        folder = edited(results[1], tmp_path / "b", change)
    assert "were made by 2 versions of the code" in refusal(folder)


def test_rows_that_contradict_the_reference_are_refused(results, made, tmp_path):
    assert accept(made, results[0], 2, 1)[0]["verification"]["shared"] == 6
    reference = edited(results[0], tmp_path / "r", lambda row: row.update(objective=repr(float(row["objective"]) / 2)))
    with pytest.raises(UserError, match="has other values in"):
        accept(made, reference, 2, 1)


def test_options_that_would_make_other_data_are_refused_before_they_are_made(results, tmp_path):
    def change(row):
        row["options"] = '{"d":12,"k":3,"n":1000000000,"side":2}'

    assert "but its options n = 1000000000" in refusal(edited(results[0], tmp_path, change))


# -- hostile submissions -----------------------------------------------------------------------------------------------


def change_card(folder, **entries):
    card = json.loads((folder / CARD).read_bytes())
    del card["sha256"]
    (folder / CARD).write_bytes(checked_content({**card, **entries}))


def replace_table(folder, content):
    """Replace the table, with a card that has its hash."""
    (folder / COMPRESSED_TABLE).write_bytes(content)
    rows = json.loads((folder / CARD).read_bytes())["files"]
    rows[COMPRESSED_TABLE] = derived([], {COMPRESSED_TABLE: content})["files"][COMPRESSED_TABLE]
    change_card(folder, files=rows)


def link_labels(folder):
    shutil.move(folder / "labels", folder.parent / "elsewhere")
    (folder / "labels").symlink_to(folder.parent / "elsewhere")


def link_table(folder):
    shutil.move(folder / COMPRESSED_TABLE, folder.parent / "table")
    (folder / COMPRESSED_TABLE).symlink_to(folder.parent / "table")


def deep_folders(folder):
    (folder / "labels" / "/".join("d" * 40)).mkdir(parents=True)
    (folder / "labels" / "/".join("d" * 40) / "a.npz").write_text("x")


def repacked_labels(folder):
    path = next(folder.rglob("*.npz"))
    path.write_bytes(path.read_bytes() + b"x")
    change_card(folder, files=derived([], read_files(folder))["files"])


def moved_labels(folder):
    path = next(folder.rglob("*.npz"))
    path.rename(path.with_name("0007-0123456789ab.npz"))
    change_card(folder, files=derived([], read_files(folder))["files"])


def more_configs(folder):
    with (folder / "configs.jsonl").open("ab") as file:
        config = {"dataset": "hidden text"}
        file.write(
            json.dumps({"config_hash": short_hash(config), **config}, separators=(",", ":"), sort_keys=True).encode()
        )
        file.write(b"\n")
    change_card(folder, files=derived([], read_files(folder))["files"])


def card_text(text):
    return lambda folder: (folder / CARD).write_text(text)


HOSTILE = {
    "a link in the place of a folder": link_labels,
    "a link in the place of the table": link_table,
    "a link to a device": lambda f: (f / "labels" / "a.npz").symlink_to("/dev/zero"),
    "a link with another name": lambda f: (f / "x").symlink_to("/etc/passwd"),
    "a pipe": lambda f: os.mkfifo(f / "labels" / "a.npz"),
    "a hidden file": lambda f: (f / ".gitattributes").write_text("x"),
    "a hidden folder": lambda f: ((f / ".github").mkdir(), (f / ".github" / "a.yml").write_text("x")),
    "another file": lambda f: (f / "conf.py").write_text("import os"),
    "a file with a line end in its name": lambda f: (f / "labels" / "a\nb.npz").write_text("x"),
    "a file that changes the direction of text": lambda f: (f / "labels" / "a\u202eb.npz").write_text("x"),
    "a file whose name is not UTF-8": lambda f: os.close(os.open(os.fsencode(f / "labels") + b"/\xff.npz", os.O_CREAT)),
    "many levels": deep_folders,
    "more labels": lambda f: (f / "labels" / "a.npz").write_text("x"),
    "changed labels": repacked_labels,
    "labels of no row": moved_labels,
    "more configurations": more_configs,
    "a huge file": lambda f: os.truncate(f / "configs.jsonl", 1 << 40),
    "a bomb": lambda f: replace_table(f, lzma.compress(b"x" * (1 << 27), preset=0)),
    "no rows": lambda f: replace_table(f, lzma.compress(b"")),
    "no card": lambda f: (f / CARD).unlink(),
    "a card that is a link": lambda f: ((f / CARD).unlink(), (f / CARD).symlink_to("/dev/zero")),
    "a huge card": lambda f: os.truncate(f / CARD, 1 << 40),
    "a deep card": card_text('{"a":' * 100_000),
    "a card that is a list": card_text("[]"),
    "a card that is text": card_text('"kmdr"'),
    "a card without end": card_text("{"),
    "a card with bytes": lambda f: (f / CARD).write_bytes(b"\xff\xfe\x00"),
    "a card with infinity": card_text('{"rows": 1e999}'),
    "a card with a long number": card_text('{"rows": ' + "9" * 10_000 + "}"),
    "an edited card": lambda f: (f / CARD).write_text((f / CARD).read_text().replace("A. Person", "B. Person")),
    "a card of more rows": lambda f: change_card(f, rows=5000),
    "a card of other methods": lambda f: change_card(f, methods=[]),
    "a card of other commands": lambda f: change_card(f, commands=["rm -rf ~"]),
    "a card of other versions": lambda f: change_card(f, versions=["9.9"]),
    "a card with more entries": lambda f: change_card(f, homepage="https://example.org"),
    "a card without files": lambda f: change_card(f, files=None),
    "a card of files elsewhere": lambda f: change_card(f, files={"../../x": {"sha256": "0" * 64, "bytes": 1}}),
    "a card with an outcome": lambda f: change_card(f, verification={"status": "verified"}),
    "a card with a false outcome": lambda f: change_card(f, verification=False),
    "a card of another name": lambda f: change_card(f, name="other"),
    "a card of a name elsewhere": lambda f: change_card(f, name="../../x"),
    "a card with a list as author": lambda f: change_card(f, author=["A"]),
    "a card that steers the terminal": lambda f: change_card(f, author="\x1b[2J"),
    "a card that changes the direction of text": lambda f: change_card(f, method="\u202etset"),
    "a card with a long text": lambda f: change_card(f, licence="x" * 10_000),
}


@pytest.mark.parametrize("spoil", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_submission_is_refused_in_one_sentence(spoil, made):
    spoil(made)
    refusal(made)
    assert submissions(made.parent) == []


@pytest.mark.parametrize("spoil", HOSTILE.values(), ids=HOSTILE)
def test_an_accepted_submission_is_listed_as_long_as_its_card_and_its_table_stay(spoil, made):
    def state():
        files = [made / name for name in (CARD, COMPRESSED_TABLE)]
        return [(s.st_ino, s.st_size, s.st_mtime_ns) for s in (file.lstat() for file in files if file.exists())]

    marked(made)
    listed, before = submissions(made.parent), state()
    assert len(listed) == 1
    spoil(made)
    assert submissions(made.parent) == (listed if state() == before else [])


def test_a_link_to_a_submission_is_refused(made, tmp_path):
    marked(made)
    (tmp_path / "mine").symlink_to(made)
    assert "link" in refusal(tmp_path / "mine")
    assert submissions(tmp_path) == []


def test_an_environment_that_is_any_object_is_no_error(made, results, tmp_path):
    assert platform_of({}) == platform_of({"packages": [1], "cpu": None})
    copy = tmp_path / "copy"
    shutil.copytree(results[0], copy, ignore=shutil.ignore_patterns("tasks", "rows.csv"))
    manifest = {"packages": "many"}
    (copy / "environments" / f"{short_hash(manifest)}.json").write_text(json.dumps(manifest))
    rows = [dict(row) | {"env_hash": short_hash(manifest)} for row in all_rows(results[0])]
    write_compressed(csv_content(rows, copy), copy / COMPRESSED_TABLE)
    assert accepted(submit(copy, tmp_path / "out", "mine"))["status"] == "verified"


def test_an_outcome_belongs_to_a_card_and_to_its_rows(made):
    marked(made)
    assert "states an outcome already" in refusal(made)
    assert accepted(made, again=True)["status"] == "verified"
    card = json.loads((made / CARD).read_bytes())
    del card["sha256"]
    for entries in (
        {"author": "B"},
        {"verification": {**card["verification"], "status": "excellent"}},
        {"verification": "verified"},
        {"files": None, "verification": {**card["verification"], "card": identity({**card, "files": None})}},
        {"rows": "6", "verification": {**card["verification"], "card": identity({**card, "rows": "6"})}},
    ):
        change_card(made, **entries)
        assert submissions(made.parent) == []
        change_card(made, **{name: card[name] for name in ("author", "files", "rows", "verification")})
        assert len(submissions(made.parent)) == 1
    table = (made / COMPRESSED_TABLE).read_bytes()
    (made / TABLE).write_bytes(lzma.decompress(table))  # newer, so it would be read
    assert submissions(made.parent) == []
    (made / TABLE).unlink()
    assert len(submissions(made.parent)) == 1
    (made / COMPRESSED_TABLE).write_bytes(b"x")
    assert submissions(made.parent) == []


def test_a_folder_without_submissions_has_none(tmp_path):
    assert submissions(tmp_path / "absent") == []
    (tmp_path / "README.md").write_text("x")
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / CARD).write_text(json.dumps(with_json_checksum({"verification": {"status": "verified"}})))
    assert submissions(tmp_path) == []


# -- commands ----------------------------------------------------------------------------------------------------------


def test_the_commands_pack_and_check_and_say_what_they_did(results, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    COMMANDS["submit"]([str(results[0]), "NAME=mine", "LICENCE=CC0-1.0"])
    said = capsys.readouterr()
    assert said.out.startswith("results/submitted/mine: 6 rows of 2 methods, 4 files of labels")
    assert said.err == "kmdr: warning: the card says no author; --author states one\n"
    COMMANDS["accept"](["mine", "ROWS=3", "SEED=5"])
    said = capsys.readouterr()
    assert said.out.endswith("results/submitted/mine: verified\n")
    assert "is not compared" in said.err or "are not compared" in said.err
    (accepted_one,) = submissions(tmp_path / "results" / "submitted")
    assert (accepted_one.status, accepted_one.licence, accepted_one.reason) == ("verified", "CC0-1.0", "")
    with pytest.raises(UserError, match="not a folder"):
        COMMANDS["accept"](["other"])


@pytest.mark.parametrize("status", ["verified", "as reported"])
def test_a_report_shows_accepted_methods_of_the_atlas_with_author_and_status(tmp_path, monkeypatch, status):
    """The page stated that it does, and nothing called `submissions`."""
    reference, place = tmp_path / "reference", tmp_path / "submitted" / "theirs"
    reference.mkdir()
    place.mkdir(parents=True)
    write_rows(reference, atlas_rows(datasets=("usps", "colon")), machine=HASH)
    theirs = atlas_rows(datasets=("usps", "colon"), methods=("none", "variance"))
    write_rows(
        place,
        theirs.assign(reducer=theirs["reducer"].astype(str).replace({"variance": "package.Theirs"})),
        machine=HASH,
    )
    alone = read_contents(reference).atlas
    assert alone.provenance == {}
    listed = Submission(place, "theirs", "Theirs", "A. Person", "CC-BY-4.0", status, "", len(theirs))
    monkeypatch.setattr("kmdr.reporting.contents.submissions", lambda folder: [listed] * (folder == place.parent))
    shown = read_contents(reference).atlas
    name = "Theirs (theirs)" if status == "verified" else "Theirs (theirs, as reported)"
    assert shown.provenance == {name: f"A. Person: {status}"}
    is_theirs = shown.effects["method"] == name
    assert is_theirs.any()
    assert_frame_equal(shown.effects[~is_theirs].reset_index(drop=True), alone.effects)
    monkeypatch.chdir(reference)
    monkeypatch.setattr("kmdr.reporting.contents.submissions", lambda folder: [listed] * (folder == place.parent))
    assert_frame_equal(read_contents(Path()).atlas.effects, shown.effects)


@pytest.fixture
def several(tmp_path, monkeypatch):
    """Return a function that writes an atlas with submissions of classes by name, and returns it as a report has it."""
    reference = tmp_path / "reference"
    reference.mkdir()
    write_rows(reference, atlas_rows(datasets=("usps", "colon")), machine=HASH)
    theirs = atlas_rows(datasets=("usps", "colon"), methods=("none", "variance"))

    def read(**classes):
        listed = []
        for name, reducer in classes.items():
            place = tmp_path / "submitted" / name
            place.mkdir(parents=True, exist_ok=True)
            changed = theirs["reducer"].astype(str).replace({"variance": reducer})
            write_rows(place, theirs.assign(reducer=changed), machine=HASH)
            listed.append(Submission(place, name, "M", "", "", "verified", "", len(theirs)))
        monkeypatch.setattr("kmdr.reporting.contents.submissions", lambda folder: listed)
        return read_contents(reference).atlas

    return read


def test_submissions_neither_depend_on_each_other_nor_on_their_order(several):
    """Of several methods with one name, the first had the name for itself."""
    one, both, reverse = several(b="p.X"), several(a="q.X", b="p.X"), several(b="p.X", a="q.X")
    assert both.provenance == reverse.provenance == dict.fromkeys(["X (a)", "X (b)"], "no author: verified")
    assert_frame_equal(both.effects, reverse.effects)
    assert_frame_equal(both.effects[both.effects["method"] != "X (a)"].reset_index(drop=True), one.effects)
    misled = several(a="p.X (b)", b="p.X")
    assert len(misled.provenance) == 2
    assert not misled.effects.duplicated(["dataset", "form", "method", "r"]).any()


@pytest.mark.parametrize("name", ["p.random_sign", "p.gaussian", "p.none", "p." + "x" * 190, "p.$x$", "p.<b>"])
def test_a_page_can_be_made_with_any_name_of_a_submitted_method(several, name):
    """A class that was called like a reducer of kmdr was an error."""
    atlas = several(theirs=name)
    section = atlas_section(atlas.effects, atlas.traits, (), atlas.provenance)
    assert set(atlas.provenance) <= section.data["by"].keys()


def test_a_page_can_be_made_with_the_smallest_numbers_that_rows_may_have():
    """F over a tiny F was infinite, and no axis shows that."""
    atlas, theirs = (atlas_rows(datasets=("usps", "colon", "nips", "isolet", "basehock")) for _ in range(2))
    theirs = theirs[theirs["reducer"].isin(["none", "variance"])]
    theirs["reducer"] = theirs["reducer"].astype(str).replace({"variance": "p.X"})
    tiny = {name: theirs[name].where(theirs["reducer"] != "none", 5e-324) for name in ("objective", "total_seconds")}
    lines = third_party_effects(theirs.assign(**tiny), atlas)
    assert np.isfinite(lines.select_dtypes("number").drop(columns="multiple").fillna(0)).all(axis=None)
    assert atlas_section(pd.concat([effects(atlas), lines]), provenance={"X": "A"}).files


def test_a_report_is_out_of_date_when_a_submission_changes_and_names_a_damaged_one_once(tmp_path, capsys):
    reference, place = tmp_path / "reference", tmp_path / "submitted" / "theirs"
    reference.mkdir()
    write_rows(reference, atlas_rows(datasets=("usps", "colon")), machine=HASH)
    seen = [fingerprint(reference)]
    place.mkdir(parents=True)
    for name, content in ((CARD, b"{}"), (COMPRESSED_TABLE, b"x"), (CARD, b"{"), (COMPRESSED_TABLE, b"y")):
        (place / name).write_bytes(content)
        seen.append(fingerprint(reference))
    assert len({*seen}) == len(seen)
    assert "theirs" not in capsys.readouterr().err
    read_contents(reference)
    assert capsys.readouterr().err.count("theirs") == 1
    Path(os.fsdecode(os.fsencode(place.parent) + b"/\xff")).mkdir()  # a name that is not UTF-8
    assert fingerprint(reference) not in seen
