"""What a run, a report, a crate or a merge hands on names no folder of the user's, only the names of files."""

import json
import lzma
import os
import re
import stat
import string
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file

import kmdr
from commands import Command
from kmdr import datasets
from kmdr.base.errors import UserError
from kmdr.base.private_paths import file_names, without_folders
from kmdr.cli.jobs import run_jobs
from kmdr.config.studies import studies
from kmdr.export.crate import write_crate
from kmdr.harness.jobs import compose
from kmdr.harness.verify import verify_sample
from kmdr.reporting.build import build
from kmdr.results.check import faults
from kmdr.results.checksums import note_content, read_note, with_checksum, without_checksum
from kmdr.results.manifests import local_paths
from kmdr.results.merge import merge
from kmdr.results.paths import LOCAL
from kmdr.results.reader import read_rows

SECRET = "secret_person_name"
FAILING = f"""
import numpy as np

class Failing:
    def __init__(self, n_components=None):
        self.n_components = n_components

    def fit_transform(self, A):
        if self.n_components == 3:
            raise ValueError("cannot read /srv/{SECRET}/model 1.bin, ~/{SECRET}/x or ../{SECRET}/y")
        with open({{path!r}}) as file:
            file.read()
"""
NAMES = st.text(string.ascii_letters + string.digits + "_-+ äé", min_size=3, max_size=12).map(
    lambda s: f"q{s.strip()}z"
)


def environment_of(folder, home):
    package = str(Path(kmdr.__file__).parents[1])
    return os.environ | {
        "HOME": str(home), "KMDR_CACHE": str(home / "cache"), "KMDR_DATA": str(home / "more data"),
        "PYTHONPATH": os.pathsep.join([package, str(folder)]), "MPLCONFIGDIR": os.environ.get("MPLCONFIGDIR", ""),
    }  # fmt: skip


def command(folder, home, *arguments, status=(0,)):
    """Run a command in the current folder."""
    process = Command(*arguments, environment=environment_of(folder, home))
    out, err = process.communicate(timeout=500)
    assert process.returncode in status, out + err


def whole_command(folder, home, *arguments):
    """Run a command as an interpreter of its own, as users start it."""
    return subprocess.run(
        [sys.executable, "-m", "kmdr", *arguments], cwd=folder, check=False, capture_output=True, text=True,
        timeout=500, env=environment_of(folder, home),
    )  # fmt: skip


def texts_of(path):
    """Return the bytes of a file, and those that are compressed in it."""
    content = path.read_bytes()
    yield content
    if path.suffix == ".xz":
        yield lzma.decompress(content)
    for found in re.finditer(rb"stream\r?\n", content) if path.suffix == ".pdf" else ():
        try:
            yield zlib.decompressobj().decompress(content[found.end() :])
        except zlib.error:
            continue
    if path.suffix == ".png":
        at = 8
        while at < len(content):
            size = int.from_bytes(content[at : at + 4])
            kind, chunk = content[at + 4 : at + 8], content[at + 8 : at + 8 + size]
            if kind in (b"zTXt", b"iTXt") and b"\0\0" in chunk:
                try:
                    yield zlib.decompress(chunk.split(b"\0", 1)[1][1:])
                except zlib.error:
                    yield chunk
            at += size + 12


def naming(folder, *words):
    """Return which files of a folder, other than the local one, have a word in them or in their names."""
    found = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in (LOCAL, "error.log")):
        name = path.relative_to(folder).as_posix().encode()
        found += [(name, word) for word in words if any(word.encode() in text for text in (name, *texts_of(path)))]
    return found


@pytest.mark.slow
def test_what_is_handed_on_names_no_folder(tmp_path, monkeypatch):
    """Files by whole, relative and bare paths, labels apart, several files, a folder of parts, and three failures."""
    home, folder = tmp_path / "home of_a_user", tmp_path / SECRET / "my data"
    for each in (home / "more data", folder / "parts", home / "cache"):
        each.mkdir(parents=True)
    monkeypatch.chdir(folder)
    rng = np.random.default_rng(0)
    A, labels = rng.random((40, 6)), np.arange(40) % 2
    np.save(folder / "own.npy", A)
    np.save(folder / "classes.npy", labels)
    np.save(home / "more data" / "elsewhere.npy", A[:30])
    for i in range(2):
        np.save(folder / "parts" / f"part{i}.npy", A[20 * i : 20 * i + 20])
        dump_svmlight_file(A[20 * i : 20 * i + 20], labels[20 * i : 20 * i + 20], str(folder / f"{i}.svm"))
    (folder / "failing.py").write_text(FAILING.format(path=str(folder / "no such file")))
    (folder / "broken.csv").write_text("a,b\n1,2\nx\n")
    out = folder / "out"
    own = ["dataset.k=2", "r_grid=[2,3]", "repeats=2", "kmeans.n_init=1", "runner=sequential", "out=out"]
    runs = [
        [f'dataset.path="{folder}/own.npy"', f'dataset.labels="{folder}/classes.npy"', "dataset.title=trial"],
        [f'dataset.path=["../my data/0.svm","{folder}/1.svm"]', "dataset.title=joined"],
        [f'dataset.path="{folder}/parts"', "dataset.title=parts"],
        ["dataset.path=elsewhere.npy", "dataset.title=found"],
        ["dataset.path=own.npy"],
    ]
    for run in runs:
        command(folder, home, "dataset=file", *run, "reducer=svd", *own)
    failed = whole_command(
        folder,
        home,
        "dataset=file",
        *runs[0],
        "reducer=outside",
        "reducer.path=failing.Failing",
        "keep_labels=true",
        *own,
    )
    assert "failed" in failed.stdout + failed.stderr
    command(folder, home, "-m", "dataset=file", *runs[0], "reducer=none,random_sign", "seed=0,1", *own)
    absent = [
        "study=bzmd15_fig1",
        f"study.datasets=[{{file:{{path:'{folder}/no such.npy',k:2}}}},{{synth:{{n:40,d:10,k:2}}}}]",
        "study.reducers=[none]",
    ]
    command(folder, home, "-m", *absent, *own[1:])
    assert "no such.npy" in (out / "missing.json").read_text()
    command(folder, home, "report", "out")
    command(folder, home, "check", "out")
    command(folder, home, "verify", "out", "ROWS=100")
    command(folder, home, "export", "out", "--crate", "crate")
    command(folder, home, "merge", "out", "-o", "merged")

    rows = read_rows(out / "rows.csv")
    options = {row["dataset"]: json.loads(row["options"]) for row in rows}
    assert options["trial"] == {
        "path": "own.npy", "labels": "classes.npy", "title": "trial", "name": "file", "k": 2
    }  # fmt: skip
    assert options["joined"]["path"] == ["0.svm", "1.svm"]
    errors = {row["error"] for row in rows if row["status"] == "failed"}
    assert any("FileNotFoundError" in error and "'no such file'" in error for error in errors)
    words = (SECRET, str(home), home.name, str(Path.home()))
    words = tuple(word for word in words if len(word) > 5)
    for each in (out, folder / "crate", folder / "merged"):
        assert naming(each, *words) == []
    assert not any((folder / name / LOCAL).exists() for name in ("crate", "merged"))
    assert SECRET in (out / LOCAL).read_text()
    assert stat.S_IMODE((out / LOCAL).stat().st_mode) == 0o600


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_file(path, out, *more):
    own = (
        "dataset=file",
        f"dataset.path={path}",
        "dataset.k=2",
        "r_grid=[2]",
        "repeats=1",
        "reducer=svd",
        "runner=sequential",
    )
    assert run_jobs([compose(*own, *more, "runner=sequential", f"out={out}")]) == 0
    return read_rows(out / "rows.csv")


def test_files_of_one_name_in_two_folders_are_found_again(here, monkeypatch, rng, capsys):
    """Each by the content that its rows name, with a cache that has neither, on this machine alone."""
    for name in ("a", "b"):
        (here / name).mkdir()
        np.save(here / name / "own.npy", rng.random((30, 5)))
        rows = run_file(here / name / "own.npy", here / "out")
    assert {json.loads(row["options"])["path"] for row in rows} == {"own.npy"}
    assert len({row["data_sha256"] for row in rows}) == len({row["config_hash"] for row in rows}) == 2
    monkeypatch.setenv("KMDR_CACHE", str(here / "other"))
    assert verify_sample(here / "out", 10, 0) == 0
    monkeypatch.setenv("KMDR_CACHE", str(here / "third"))
    monkeypatch.setattr("kmdr.results.manifests.machine", lambda: "0" * 12)
    assert verify_sample(here / "out", 10, 0) == 1
    assert "its rows were computed from own.npy" in capsys.readouterr().out


def test_one_file_under_two_paths_is_one_configuration(here, rng):
    for name in ("a", "b"):
        (here / name).mkdir()
    np.save(here / "a" / "own.npy", rng.random((30, 5)))
    (here / "b" / "own.npy").write_bytes((here / "a" / "own.npy").read_bytes())
    run_file(here / "a" / "own.npy", here / "out")
    rows = run_file(here / "b" / "own.npy", here / "out")
    assert len(rows) == 1
    known = [paths["path"] for paths in local_paths(here / "out", rows[0]["data_sha256"])]
    assert known == [[str(here / name / "own.npy")] for name in ("b", "a")]


@pytest.mark.parametrize("content", [b"", b"[]", b'{"a": 1}', b'{"a": {"b": [1]}}', b"\xff", b'{"a": {"b": 3}}'])
def test_a_damaged_note_of_places_is_as_none_and_is_written_again(content, here, rng):
    np.save(here / "own.npy", rng.random((30, 5)))
    (digest,) = {row["data_sha256"] for row in run_file("own.npy", here / "out")}
    (here / "out" / LOCAL).write_bytes(content)
    assert local_paths(here / "out", digest) == []
    run_file("own.npy", here / "out")
    assert local_paths(here / "out", digest) == [{"path": [str(here / "own.npy")]}]
    (here / "out" / LOCAL).chmod(0o644)  # another user, or an archive, may have brought it
    assert local_paths(here / "out", digest) == []


def older(folder, path):
    """Let rows of a folder, and its note of missing data, be as older versions wrote them."""
    stated = (b'""own.npy""', f'""{path}""'.encode())
    for file in (folder / "tasks").rglob("*.csv"):
        content = without_checksum(file.read_bytes(), file)
        content = content.replace(*stated)
        file.write_bytes(with_checksum(content))
    (folder / "missing.json").write_text(json.dumps({"other": f"there is no file {path}"}))
    content = (folder / "rows.csv").read_bytes()
    content = content.replace(*stated)
    note = folder / "tasks" / ".merged"
    note.write_bytes(note_content(read_note(folder, "rows.csv").made_from, content))
    (folder / "rows.csv").write_bytes(content)
    assert SECRET.encode() in content


@pytest.mark.parametrize("packed", [False, True])
def test_folders_of_older_versions_are_handed_on_without_paths(packed, here, rng):
    np.save(here / "own.npy", rng.random((30, 5)))
    out = here / "out"
    run_file("own.npy", out, "keep_labels=true")
    older(out, f"/home/{SECRET}/own.npy")
    if packed:
        (out / "rows.csv.xz").write_bytes(lzma.compress((out / "rows.csv").read_bytes(), check=lzma.CHECK_SHA256))
        (out / "rows.csv").unlink()
        for file in [*(out / "tasks").rglob("*.csv"), out / "tasks" / ".merged"]:
            file.unlink()
    (row,) = read_rows(out / f"rows.csv{'.xz' if packed else ''}")
    assert json.loads(row["options"])["path"] == "own.npy"
    assert not [fault.sentence for fault in faults(out)]
    build(out, studies())
    write_crate(out, here / "crate")
    assert naming(here / "crate", SECRET) == []
    merge([out], here / "merged")
    assert naming(here / "merged", SECRET) == []
    (out / "report" / "index.md").write_text(f"as an older version wrote it: /home/{SECRET}/own.npy")
    with pytest.raises(UserError, match="states the folder of your data"):
        write_crate(out, here / "again")


@given(st.lists(NAMES, min_size=1, max_size=4), NAMES, st.sampled_from(["'{}'", '"{}"', "{}", "no {}; try", "({})"]))
def test_any_known_file_is_only_its_name_in_any_sentence(folders, name, sentence):
    path = "/".join(["", *folders, name])
    assert without_folders(sentence.format(path), [path]) == sentence.format(name)
    assert without_folders(without_folders(sentence.format(path), [path])) == sentence.format(name)
    relative = "/".join([*folders, name])
    assert without_folders(sentence.format(relative), [relative]) == sentence.format(name)


@pytest.mark.parametrize(
    "text",
    [
        "https://www.example.org/a/b.bz2: no connection", "F/F_best and/or 1/2, km / h", "n / d", "/", "'/'",
        "put a.bz2 into datasets/cache/raw/a or", "http://genome-www.stanford.edu/sarcoma/ and", "",
    ],
)  # fmt: skip
def test_what_is_no_private_path_stays(text):
    assert without_folders(text) == text


def test_names_within_a_file_stay_and_a_title_too():
    options = {"path": "/x/y.h5", "labels": "none", "matrix": "/layers/counts", "label": "a/b", "n": 3, "name": "file"}
    assert file_names(options) == {**options, "path": "y.h5"}
    assert file_names({"path": ["a/", "../b.npy"], "table": "/home/me/t.csv"}) == {
        "path": ["a", "b.npy"], "table": "t.csv",
    }  # fmt: skip


def test_where_files_are_is_no_part_of_a_row(here, rng):
    np.save(here / "own.npy", rng.random((30, 5)))
    (experiment,) = compose("dataset=file", "dataset.path=own.npy", "dataset.k=2", "out=o").experiments
    folder = datasets.prepare("file", experiment.options)
    task = experiment.tasks(datasets.open_prepared(folder), folder)[0]
    assert json.loads(task.paths) == {"path": [str(here / "own.npy")]}
    assert (json.loads(task.options)["path"], "paths" in task.config) == ("own.npy", False)
