"""``kmdr new``: each skeleton runs as it stands, and so does its own test."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from kmdr.base.errors import UserError
from kmdr.cli import new
from kmdr.cli.commands import main
from kmdr.results.table import rows_of

NAMES = {"reducer": "every_other", "dataset": "two_lines", "metric": "worth", "engine": "at_once", "paper": "own26"}


@pytest.fixture(autouse=True)
def empty(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KMDR_PATH", raising=False)
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))


def kmdr(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["kmdr", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    return stop.value.code


@pytest.mark.slow
@pytest.mark.parametrize("kind", NAMES)
def test_what_it_says_to_try_works(kind, monkeypatch, capsys):
    assert kmdr(monkeypatch, "new", kind, NAMES[kind], "my folder") == 0
    out = capsys.readouterr().out
    labels = [line for line in out.splitlines() if line and not line.startswith("  ")]
    assert all(label.endswith(":") for label in labels)
    *files, export, command, own_test = re.findall("^  (.*)", out, re.MULTILINE)
    assert all(NAMES[kind] in file and Path(file).is_file() for file in files)
    assert not any("my_" in Path(file).read_text() or "mypaper" in Path(file).read_text() for file in files)
    assert shlex.split(own_test)[:3] == ["python", "-m", "pytest"]
    assert shlex.split(own_test)[3] in files
    variable, _, value = shlex.split(export)[1].partition("=")
    monkeypatch.setenv(variable, value)
    # The skeleton's own test makes a report.
    monkeypatch.setattr("kmdr.reporting.build.build", lambda out, *arguments, **options: out)
    assert kmdr(monkeypatch, *shlex.split(command)[1:], *([] if kind == "paper" else ["runner=sequential"])) == 0
    rows = rows_of(Path("results") / NAMES[kind])
    assert set(rows["status"]) == {"ok"}
    if kind == "paper":
        assert set(rows["study"]) == {"own26_fig1"}
        # F on all features was almost 0, so that the report showed ratios of 12820.
        F = rows.groupby("reducer")["objective"].mean()
        assert 0.1 < F["none"] < F["random_sign"] < 1.5 * F["none"]
        assert rows.groupby("r")["accuracy"].mean().loc[[10, 20, 50, 100]].is_monotonic_increasing
    else:
        of_all = kind in ("dataset", "metric")
        own = rows if of_all else rows[(rows["reducer"] == NAMES[kind]) | (rows["engine"] == NAMES[kind])]
        assert len(own) > 1
        assert own["guests"].str.startswith("my folder ").all()
        assert rows["accuracy"].nunique() > 1 or kind == "dataset", "methods differ"
    assert kmdr(monkeypatch, "list", f"{kind}s") == 0
    (line,) = re.findall(rf"^  {NAMES[kind]} .*", capsys.readouterr().out, re.MULTILINE)
    assert re.search(r"my folder [0-9a-f]{12}$", line)


@pytest.mark.slow
def test_the_tests_that_come_with_them_pass():
    for kind, name in NAMES.items():
        new.write(kind, name, Path("lab"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "lab/tests"],
        check=False, capture_output=True, text=True, env=os.environ,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "7 passed" in done.stdout


def test_nothing_is_overwritten_and_several_share_a_folder(monkeypatch, capsys):
    (first, *_) = new.write("reducer", "mine", Path("lab"))
    first.write_text("edited")
    with pytest.raises(UserError, match=r"mine\.py exists already, and nothing is overwritten"):
        new.write("reducer", "mine", Path("lab"))
    assert first.read_text() == "edited"
    assert new.write("reducer", "other", Path("lab"))
    (first.parents[1] / "tests" / "test_third.py").touch()
    with pytest.raises(UserError, match=r"test_third\.py exists already"):
        new.write("reducer", "third", Path("lab"))
    assert not Path("lab/reducers/third.py").exists()


def test_without_a_folder_the_first_of_kmdr_path_is_taken(monkeypatch, capsys):
    assert kmdr(monkeypatch, "new", "metric", "worth") == 0
    assert Path("plugin/metrics/worth.py").is_file()
    Path("lab").mkdir()
    monkeypatch.setenv("KMDR_PATH", f"lab{os.pathsep}plugin")
    capsys.readouterr()
    assert kmdr(monkeypatch, "new", "metric", "value") == 0
    assert Path("lab/metrics/value.py").is_file()
    assert "KMDR_PATH" not in capsys.readouterr().out  # which has the folder already


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "the following arguments are required: KIND, NAME"),
        (["reducer"], "the following arguments are required: NAME"),
        (["reducers", "mine"], "no kind of skeleton is named 'reducers'; did you mean 'reducer'?"),
        (["reducer", "svd"], "'svd' names a reducer already, as 'kmdr list reducers' shows"),
        (["dataset", "usps"], "'usps' names a dataset already"),
        (["metric", "nmi"], "'nmi' names a metric already"),
        (["engine", "sklearn"], "'sklearn' names an engine already"),
        (["paper", "bzd10"], "'bzd10' names a paper already"),
        (["paper", "own_26"], "'own_26' cannot name a paper; give letters and digits"),
        (["reducer", "../mine"], "cannot name a reducer"),
        (["reducer", "2d"], "cannot name a reducer"),
        (["engine", "2d"], "cannot name an engine"),
        (["reducer", "lambda"], "cannot name a reducer"),
        (["reducer", "outside"], "'outside' names a reducer already"),
        (["reducer", "mine", "file"], "name another folder"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence_and_nothing_is_written(arguments, sentence, monkeypatch, capsys):
    Path("file").write_text("in the way")
    assert kmdr(monkeypatch, "new", *arguments) == 2
    assert sentence in capsys.readouterr().err
    assert [path.name for path in Path().iterdir()] == ["file"]
