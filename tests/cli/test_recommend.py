"""``kmdr recommend``: what it says about a matrix, and the commands that check it."""

import re
import shlex
import sys

import numpy as np
import pytest

from atlas_evidence import write_atlas
from atlas_rows import DATASETS, FORMS, atlas_rows
from kmdr.atlas.advice import Advice, Choice, Estimate
from kmdr.atlas.evidence import settings_of
from kmdr.cli import recommend as recommend_module
from kmdr.cli.commands import main
from kmdr.cli.recommend import commands
from kmdr.harness.jobs import compose


@pytest.fixture(scope="module")
def atlas(tmp_path_factory):
    return write_atlas(tmp_path_factory.mktemp("atlas"), atlas_rows(forms=tuple(FORMS), repeats=2))


@pytest.fixture(autouse=True)
def folders(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "100")
    np.savetxt("my.csv", np.random.default_rng(0).normal(size=(60, 40)), delimiter=",", fmt="%.4f")


@pytest.fixture
def recommend(monkeypatch, capsys, atlas):
    """Run the command, and return its exit status and what it writes."""

    def run(*arguments, folder=f"atlas={atlas}"):
        monkeypatch.setattr(sys, "argv", ["kmdr", "recommend", *arguments, folder])
        with pytest.raises(SystemExit) as stop:
            main()
        said = capsys.readouterr()
        return stop.value.code, said.out, said.err

    return run


def test_a_file_without_labels_gets_traits_advice_its_error_and_a_command(recommend):
    status, out, _ = recommend("my.csv", "k=3", "speedup=1.5")
    assert status == 0
    assert "my: 60 points, 40 features, k = 3" in out
    assert re.search(r"shape +0\.667 features per point; 100 % of the entries are not 0, some are negative", out)
    assert "at least 1.5 times as fast as k-means on all features" in out
    lines = re.findall(r"^(\w+(?: \w+)*) +(\d+)  .*kmdr$", out, re.MULTILINE)
    assert len(lines) == 3
    assert all(int(r) < 40 for _, r in lines)
    text = " ".join(out.replace("\N{NO-BREAK SPACE}", " ").split())
    assert re.search(r"On 8 datasets, each held out in turn with all others of its source", text)
    assert re.search(r"the advice is (not shown to be better|better|worse) than random signs at r = 20 k\.", text)
    (command,) = re.findall(r"^  (kmdr .*)$", out, re.MULTILINE)
    words = shlex.split(command)
    assert {"dataset=file", "dataset.path=my.csv", "dataset.k=3"} <= set(words)
    chosen = next(word for word in words if word.startswith("reducer="))
    assert chosen.count(",") == 3
    for method, _ in lines:
        assert settings_of(method)[0].partition("=")[2] in chosen


def test_the_command_that_checks_an_advice_runs(recommend, monkeypatch, capsys):
    _, out, _ = recommend("my.csv", "k=3", "dataset.scale=standard")
    (command,) = re.findall(r"^  (kmdr .*)$", out, re.MULTILINE)
    monkeypatch.setattr(sys, "argv", [*shlex.split(command), "runner=sequential"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 0, capsys.readouterr().err


def test_options_of_the_dataset_change_the_traits(recommend):
    np.savetxt("my.csv", 5 + np.random.default_rng(0).random(size=(60, 40)), delimiter=",", fmt="%.4f")
    assert "none is negative" in recommend("my.csv", "k=3")[1]
    assert "some are negative" in recommend("my.csv", "k=3", "dataset.scale=standard")[1]


def test_the_rows_of_a_dataset_of_the_atlas_do_not_count_for_its_advice(recommend, tmp_path, monkeypatch):
    monkeypatch.setitem(DATASETS, "digits", (1797, 64, 10))
    sources, advise = [], recommend_module.advise

    def watched(evidence, *arguments):
        sources.append(set(evidence.sources))
        return advise(evidence, *arguments)

    monkeypatch.setattr(recommend_module, "advise", watched)
    folder = write_atlas(tmp_path, atlas_rows([*list(DATASETS)[:8], "digits"], forms=tuple(FORMS), repeats=2))
    status, out, err = recommend("dataset=digits", folder=f"atlas={folder}")
    assert status == 0, err
    assert "The rows of digits itself were held out" in " ".join(out.split())
    assert recommend("my.csv", "k=3", folder=f"atlas={folder}")[0] == 0
    assert sources[1] - sources[0] == {"digits"}


def test_an_asked_number_of_dimensions_is_the_one_advised(recommend):
    status, out, _ = recommend("dataset=digits", "r=20")
    assert status == 0
    assert "were held out" not in out
    assert "At r = 2 k, any speed" in out
    assert re.findall(r"^\w+(?: \w+)* +(\d+)  .*kmdr$", out, re.MULTILINE) == ["20", "20", "20"]


@pytest.mark.parametrize(("shape", "is_small"), [((300, 20), True), ((3000, 200), False)])
def test_small_data_are_advised_to_keep_all_features(shape, is_small, recommend):
    np.save("data.npy", np.random.default_rng(0).normal(size=shape))
    status, out, _ = recommend("data.npy", "k=3")
    text = " ".join(out.replace("\N{NO-BREAK SPACE}", " ").split())
    assert status == 0
    assert ("no gain worth having is to be expected: use all features" in text) == is_small
    assert "They are the best on" not in text
    assert re.search(
        r"On (all|the \d+ nearest) datasets of the atlas they come nearest, on average, to the best choice", text
    )
    assert "Where a choice is less than 2 times as fast it counts as 20.0 % of F lost" in text


@pytest.mark.parametrize("width", [40, 60, 200])
def test_paragraphs_and_tables_fit_the_terminal(width, recommend, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    _, out, _ = recommend("my.csv", "k=3")
    longest = max(len(line) for line in out.splitlines() if not line.startswith("  kmdr"))
    assert longest <= width


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "takes one matrix; name a FILE, or a dataset with dataset=NAME"),
        (["my.csv", "dataset=digits"], "takes one matrix"),
        (["my.csv", "my.csv"], "takes one matrix"),
        (["my.csv"], "my.csv has no labels, so give the number of clusters"),
        (["my.csv", "k=0"], "--k = '0' is not a whole number of at least 1; give one"),
        (["my.csv", "k=50"], "k = 50 is out of range for a 60×40 matrix; choose 1 ≤ k ≤ 40"),
        (["my.csv", "k=3", "r=40"], r"r = 40 is not below the number of features \(40\); choose r < 40"),
        (["my.csv", "k=3", "speedup=-1"], "--speedup = '-1' is not a positive number; give one"),
        (["my.csv", "k=3", "speedup=1e3"], "--speedup = '1e3' is not a positive number"),
        (["my.csv", "k=3", "speedup=5000"], "ask for a smaller speed-up"),
        (["my.csv", "k=3", "domain=txt"], "no domain of the atlas is named 'txt'; did you mean 'text'"),
        (["my.csv", "k=3", "reducer=svd"], "no setting of 'kmdr recommend' is named 'reducer'"),
        (["my.csv", "k=3", "dataset.colour=red"], "no setting is named 'dataset.colour'|'colour'"),
        (["your.csv", "k=3"], "there is no file .*your.csv"),
        (["dataset=digit"], "did you mean 'digits'"),
        (["my.csv", "k=3", "--sped=2"], "did you mean '--speedup'"),
    ],
)
def test_a_mistake_gets_one_sentence(arguments, message, recommend):
    status, out, err = recommend(*arguments)
    assert (status, out) == (2, "")
    lines = [line for line in err.splitlines() if not line.startswith("kmdr: note:")]
    assert len(lines) == 1
    assert re.search(message, lines[0])


def test_a_folder_that_has_no_atlas_is_refused(recommend, tmp_path):
    status, _, err = recommend("my.csv", "k=3", folder=f"atlas={tmp_path}")
    assert status == 2
    assert str(tmp_path) in err


def test_methods_with_settings_get_commands_of_their_own(monkeypatch):
    monkeypatch.setattr("kmdr.cli.recommend.settings_of", lambda name: {
        "SVD, rank r": ["reducer=svd", "reducer.rank=r"], "whitened": ["reducer=outside", "reducer.path=a.B"]
    }.get(name, [f"reducer={name}"]))  # fmt: skip
    nothing = Estimate(0, 0, 0)

    def advised(method, r):
        return Advice(Choice(method, 2.0), r, nothing, 0, nothing, 0, 1)

    found = commands(
        ["dataset=digits"],
        [advised("SVD, rank r", 20), advised("gaussian", 50), advised("leverage", 20), advised("none", 64)],
    )
    words = [shlex.split(command) for command in found]
    assert words[0][:2] == ["kmdr", "-m"]
    assert words[0][-2:] == ["reducer=none,gaussian,leverage", "r_grid=[20,50]"]
    assert words[1][-3:] == ["reducer=svd", "reducer.rank=r", "r_grid=[20]"]
    (experiment,) = compose(*words[1][1:]).experiments
    assert (experiment.reducer, experiment.r_grid, experiment.timing_repeats) == ("svd", (20,), 6)
    only = commands(["dataset=digits"], [advised("SVD, rank r", 20)])
    assert [("-m" in shlex.split(command)) for command in only] == [False, False]
