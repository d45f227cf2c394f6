"""Mistaken command lines name what was probably meant, in one sentence."""

import contextlib
import re
import shlex
import sys
import tempfile
from pathlib import Path

import hydra
import pytest
from hydra.errors import HydraException
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kmdr.base.errors import UserError, unknown
from kmdr.base.paths import CONF
from kmdr.base.text import override, path_override
from kmdr.cli.commands import main
from kmdr.cli.help import show
from kmdr.cli.jobs import from_command_line
from kmdr.config.compose import _hydra, compose_configs, configs_of_command_line
from kmdr.config.overrides import as_override, check_names
from kmdr.config.suggestions import check_words, file_settings, setting_names, unknown_dataset, unknown_reducer
from kmdr.harness import jobs
from kmdr.harness.experiment import Experiment


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))
    for name in ("iris.csv", "my file.csv", "ünï.csv", "data.sav"):
        Path(name).write_text("a,b,label\n1,2,x\n3,4,y\n5,6,x\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["dataset=iris.csv"], "looks like a file; write dataset=file dataset.path=iris.csv"),
        (["dataset=gone.csv"], "looks like a file; write dataset=file dataset.path=gone.csv"),
        (["-m", "dataset=digits,./iris.csv"], "write dataset=file dataset.path=./iris.csv"),
        (["dataset=my file.csv"], """write dataset=file 'dataset.path="my file.csv"'"""),
        (["iris.csv"], "is not a setting; to read a file, write dataset=file dataset.path=iris.csv"),
        (["dataset.path=iris.csv"], "add dataset=file"),
        (["dataset=mnist"], "no dataset is named 'mnist'; valid: "),
        (["dataset=digit"], "did you mean 'digits'?"),
        (["study=null", "reducer=svd"], "study = null names no configuration; remove it"),
        (["-m", "grid=bzmd15,coars"], "no grid is named 'coars'; did you mean 'coarse'?"),
        (["reducer=sklearn.decomposition.NFM"], "no class of the module sklearn.decomposition is named 'NFM'; did you"),
        (["reducer=mine/own.csv"], "no reducer is named 'mine/own.csv'"),
        (["reducer=PCA"], "use reducer=svd reducer.centred=true"),
        (["reducer=TruncatedSVD"], "use reducer=svd"),
        (["reducer=prone"], "it is an engine of k-means: kmeans.engine=prone"),
        (["reducer=none", "reducer.rows=300"], "write kmeans.engine=coreset kmeans.args.rows=300"),
        (["kmeans.spherical=true"], "write kmeans.engine=spherical"),
        (["-m", "reducer=none,NMF"], "runs by its import path: reducer=sklearn.decomposition.NMF"),
        (
            ["reducer=svd,leverage"],
            "reducer = svd,leverage has several values; add -m to run each: kmdr -m reducer=svd",
        ),
        (["dataset=uspss"], "did you mean 'usps'? 'kmdr list datasets' shows all; a file of your own: dataset=file"),
        (
            ["study=bzmd15_fig11"],
            "no study is named 'bzmd15_fig11'; did you mean 'bzmd15_fig1'? 'kmdr list studies' shows",
        ),
        (["reducer=svd", "reducer.rank=3"], "kmdr: error: reducer.rank = 3 is not one of k, r; choose one of them"),
        (
            ["dataset=digits", "dataset.scale=std"],
            "dataset.scale = 'std' is not one of none, unit, standard, minmax; did you mean 'standard'?",
        ),
        (
            ["dataset=file", "dataset.path=iriz.csv"],
            "no file iriz.csv here or in a folder that KMDR_DATA names; did you mean iris.csv?",
        ),
        (["kmeans.start=plu"], "kmeans.start = 'plu' is not one of sample"),
        (["verify=alway"], "verify = 'alway' is not one of always, once, never; did you mean 'always'?"),
        (["reducer=leverge"], "did you mean 'leverage'?"),
        (["--reducer", "svd"], "write reducer=svd instead of --reducer"),
        (["--reducer=svd"], "write reducer=svd instead of --reducer=svd"),
        (["--dataset.path", "my file.csv"], "write 'dataset.path=my file.csv' instead"),
        (["-k", "5"], "write k=5 instead of -k"),
        (["svd"], "'svd' is a reducer, not a command; write reducer=svd"),
        (["usps"], "'usps' is a dataset, not a command; write dataset=usps"),
        (["bzmd15_fig1"], "'bzmd15_fig1' is a study, not a command; write study=bzmd15_fig1"),
        (["reducer", "svd"], "'reducer' is a setting; write reducer=svd"),
        (["r=2"], "no setting is named 'r'; write 'r_grid=[2]'"),
        (["dataset=file", "dataset.path=iris.csv", "label=species"], "is written dataset.label=species"),
        (["report", "results=mine"], "'kmdr report' takes 'mine' without results=; write kmdr report mine"),
        (["table", "RESULTS=my folder"], "write kmdr table 'my folder'"),
        (["report", "colour=red"], "'kmdr report' takes no settings; remove colour=red"),
        (["reducer=a.B", "reducer.x=3"], "an argument of the class is written reducer.args.x=VALUE"),
        (["reducer=a.B", "reducer.args={x: 3}"], "an argument of the class is written reducer.args.NAME=VALUE"),
        (["table", "stdy=a"], "did you mean '--study'?"),
        (["quick", "--budget", "5m"], "no option of 'kmdr quick' is named '--budget'; valid: --out"),
        (["quick", "budget=5m"], "no option of 'kmdr quick' is named '--budget'; valid: --out"),
        (["table", "o", "--FORMTA", "md"], "did you mean '--format'?"),
        (["version", "--short"], "'kmdr version' has no options; remove '--short'"),
        (["tabel"], "no command is named 'tabel'; did you mean 'table'?"),
        (["x" * 300], "no command is named 'xxx"),
        (["x/" + "x" * 300], "cannot be read as a setting"),
        (["dataset=" + "x" * 300], "no dataset is named 'xxx"),
        (["dataset=file", "dataset.path=data.sav"], "data.sav: SPSS's format is not supported; convert it, e.g."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_was_meant_is_named(words, said, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["kmdr", *words])
    with pytest.raises(SystemExit) as stop:
        main()
    err = capsys.readouterr().err
    assert (stop.value.code, err.count("\n")) == (2, 1)
    assert said in err


GROUPS = ("dataset", "reducer", "grid", "kmeans", "runner", "study")


def answer_of(function, *arguments):
    try:
        function(*arguments)
    except UserError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("with_plugin", [False, True])
@pytest.mark.parametrize("group", GROUPS)
def test_a_name_is_refused_before_the_imports_as_it_is_in_the_composition(group, with_plugin, monkeypatch, tmp_path):
    if with_plugin:
        for file in (*(f"conf/{group}/mine.yaml" for group in GROUPS), "reducers/mine.py"):
            (tmp_path / "plugin" / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "plugin" / file).touch()
        monkeypatch.setenv("KMDR_PATH", str(tmp_path / "plugin"))
    for name in ("", "mne", "svdd", "usp", "lo ky", "Ü", "bzmd15_fig11", "PCA", "x" * 300):
        refused = answer_of(check_names, [f"{group}={name}"])
        assert refused or (with_plugin and group == "reducer")  # its reducers are known once it is imported
        assert refused in ("", answer_of(compose_configs, f"{group}='{name}'"))


def test_names_in_a_folder_that_a_command_adds_are_left_to_hydra(tmp_path):
    (tmp_path / "more" / "runner").mkdir(parents=True)
    (tmp_path / "more" / "runner" / "mine.yaml").write_text((CONF / "runner" / "sequential.yaml").read_text())
    for words in (["--config-dir", "more"], [f"hydra.searchpath=[file://{tmp_path}/more]"]):
        check_names([*words, "runner=mine"])
    with pytest.raises(UserError, match="no runner is named 'mine'"):
        check_names(["runner=mine"])


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["~repeats", "repeats=3"], "the setting 'repeats' was removed, but is given a value; remove '~repeats'"),
        (["~repeats"], "the setting 'repeats' was removed, but a run needs it; remove '~repeats'"),
        (["--config-name=other"], "no configuration is named 'other'; --config-name takes a file of --config-dir"),
    ],
)
def test_what_a_command_removes_or_does_not_have_is_named(words, error, monkeypatch):
    """It said that no setting is named 'repeats', and suggested 'repeats'; of configurations, that none is valid."""
    monkeypatch.setattr(sys, "argv", ["kmdr", *words])
    with pytest.raises(UserError, match=f"^{re.escape(error)}$"):
        from_command_line()


@pytest.mark.parametrize("group", GROUPS)
def test_no_name_that_hydra_offers_is_refused_before_the_imports(group):
    with pytest.raises(HydraException) as error, _hydra():
        hydra.compose("config", overrides=[f"{group}=no_such"])
    assert len(error.value.options) > 1
    for separator in (",", ", "):
        check_names(["-m", f"{group}={separator.join(error.value.options)}"])
    for text in ("glob(*)", "choice(a,b)", "[a,b]", "${a}", "a\\,b"):  # these have no names
        check_names([f"{group}={text}"])


@pytest.mark.parametrize(
    ("words", "warning"),
    [
        (["repeats=3", "repeats=5"], "repeats is set 2 times; only the last value counts, '5'"),
        (["repeats=3", "k=2", "++repeats=5"], "repeats is set 2 times; only the last value counts, '5'"),
        (["dataset=usps", "-m", "dataset=synth"], "dataset is set 2 times; only the last value counts, 'synth'"),
        (["-m", "reducer=svd,none", "reducer=svd"], "reducer is set 2 times; only the last value counts, 'svd'"),
        (["repeats=5", "repeats=5"], ""),
        (["reducer=svd", "reducer={centred: true}"], ""),
        (["~kmeans.n_init", "+kmeans.n_init=3"], ""),
    ],
)
def test_a_setting_with_several_values_has_the_last_one_which_is_reported(words, warning, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["kmdr", *words])
    (job,) = from_command_line()
    err = capsys.readouterr().err
    assert warning in err
    assert err.count("\n") == bool(warning)
    (experiment,) = job.experiments
    assert (experiment.dataset, experiment.repeats) == ("synth", 5)
    assert not warning.startswith("reducer") or experiment.reducer == "svd"


@pytest.mark.parametrize("name", ["iris.csv", "my file.csv", "ünï.csv", "a'b.csv", "/tmp/x.npy", "~/x.mat"])
def test_the_settings_of_a_file_are_accepted_as_they_are_written(name):
    words = shlex.split(file_settings(name))
    check_names(words)
    assert words[0] == "dataset=file"


# Characters with a meaning to Hydra at the beginning of a path, which is then quoted by the user.
SYNTAX = set("[{$\"'\\,")
PLAIN = [*sorted({chr(code) for code in range(32, 127)} - SYNTAX), "é", "日"]


@pytest.mark.parametrize("name", ["dataset.path", "dataset.labels", "out"])
@pytest.mark.parametrize(
    "value", ["my file.csv", "ö/ü t.csv", "1e3", "1_000", "007", "true", "nan", "glob(*)", "2026-11-26"]
)
def test_a_path_is_taken_as_it_is_written(name, value):
    from hydra.core.override_parser.overrides_parser import OverridesParser

    parse = OverridesParser.create().parse_override
    assert parse(as_override(f"{name}={value}")).value() == value
    for character in PLAIN:
        for path in (f"{character}/b.csv", f"a{character}b", f"b{character * 2}"):
            assert parse(as_override(f"{name}={path}")).value() == path
    for character in SYNTAX - set("\\,"):
        for path in (f"a{character}b.csv", f"a {character}b{character}"):
            assert parse(as_override(f"{name}={path}")).value() == path


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(alphabet="aé1 $\\{}\"'[],:=\n\t%~", max_size=8))
@example("C:\\data\\new")
@example("${oc.env:HOME}")
def test_a_text_in_a_printed_command_is_read_back(text):
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from omegaconf import OmegaConf

    def read(words):
        value = OverridesParser.create().parse_override(words).value()
        return OmegaConf.to_container(OmegaConf.create({"x": value}), resolve=True)["x"]

    assert read(f"x={override(text)}") == text
    assert read(as_override(f"out={path_override(text)}")) == text
    assert read(f"x={override([text, {'a': text}])}") == [text, {"a": text}]


@pytest.mark.parametrize(
    "text",
    [
        "dataset.path=null",
        "dataset.path=[a.csv,b.csv]",
        "out=a,b",
        'out="a b"',
        "seed=1",
        "out=a,'b c'",
        "out=a/${seed}",
    ],
)
def test_other_settings_are_unchanged(text):
    assert as_override(text) == text


def test_every_usual_name_leads_to_a_reducer_or_a_class():
    from kmdr.config import suggestions

    files = {file.stem for file in (CONF / "reducer").glob("*.yaml")}
    assert {text.split()[0] for text in suggestions._REDUCERS.values()} <= files
    assert not {*suggestions._REDUCERS, *suggestions._CLASSES} & files
    for name in (*suggestions._REDUCERS, *suggestions._CLASSES):
        for written in (name, name.upper(), "_".join(name)):
            text = str(unknown_reducer(written, files))
            assert "; use reducer=" in text or "by its import path: reducer=" in text


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    words=st.lists(
        st.one_of(
            st.text(max_size=12),
            st.builds(
                "{}={}".format, st.sampled_from(["dataset", "reducer", "out", "k", "--seed"]), st.text(max_size=9)
            ),
        ),
        max_size=4,
    )
)
def test_any_words_give_nothing_or_one_sentence(words):
    try:
        check_words(words, setting_names())
    except UserError as error:
        assert "; " in str(error)  # noqa: PT017  most words are accepted
    assert "; valid: a, b; a file of your own: " in str(unknown_dataset("zzz", ["b", "a"]))


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_note_is_wrapped_on_a_terminal_only(is_terminal, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    words = "a note of 170 letters " * 8
    jobs._note(words.strip())
    err = capsys.readouterr().err
    assert " ".join(err.split()) == f"kmdr: note: {words.strip()}"
    assert (max(map(len, err.splitlines())) <= 60) == is_terminal


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(alphabet="aé1 $\\{}\"'[],:=\n\t\x1b%", min_size=1, max_size=8))
@example("a,b.csv")
@example("a${x}.csv")
@example("[a].csv")
def test_the_path_of_an_existing_file_is_taken_as_it_is_written(text):
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from omegaconf import OmegaConf

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path(text).write_text("")
        for words in (f"dataset.path={text}", f"dataset.labels={text}:column"):
            value = OverridesParser.create().parse_override(as_override(words)).value()
            read = OmegaConf.to_container(OmegaConf.create({"x": value}), resolve=True)["x"]
            assert f"dataset.{words.partition('.')[2].partition('=')[0]}={read}" == words


@pytest.mark.parametrize("setting", ["dataset.path=a${x}b.csv", "out=${x}", "dataset.labels=${x}"])
def test_an_unknown_interpolation_is_named_with_its_setting(setting, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["kmdr", "dataset=file", "dataset.path=some.csv", setting])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert f"'{setting}' refers to 'x', which is not a setting; name one" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["dataset.path", "out"])
@pytest.mark.parametrize("path", ["a\nb.csv", "a\tb", "a\x1b[2Jb", "a\u2028b"])
def test_a_path_may_have_control_characters(name, path):
    from hydra.core.override_parser.overrides_parser import OverridesParser

    assert OverridesParser.create().parse_override(as_override(f"{name}={path}")).value() == path


@pytest.fixture
def configurations(monkeypatch):
    """Return a function that returns the configurations of a command line."""

    def configurations(*words):
        monkeypatch.setattr(sys, "argv", ["kmdr", *words])
        return [config for job in configs_of_command_line(list, list) for config in job]

    return configurations


PATHS = ["sklearn.decomposition.PCA", "sklearn.decomposition.NMF", "sklearn.random_projection.GaussianRandomProjection"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("arguments", [[], ["reducer.args.tol=0.5"], ["reducer.args.a=1", "reducer.args.b=[x,2]"]])
def test_the_import_path_of_a_reducer_has_the_configuration_of_the_long_form(path, arguments, configurations):
    given = ["dataset=digits", *arguments]
    long = configurations("reducer=outside", f"reducer.path={path}", *given)
    assert configurations(f"reducer={path}", *given) == long
    assert long[0]["reducer"]["path"] == path


def test_a_sweep_may_mix_names_and_import_paths(configurations):
    configs = configurations("-m", f"reducer=none,{','.join(PATHS)}")
    assert [config["reducer"].get("path") for config in configs] == [None, *PATHS]


@pytest.mark.parametrize(("usual", "ours"), [("kmeans++", "plus"), ("k-means++", "plus"), ("random", "sample")])
def test_usual_names_of_starts_are_ours(usual, ours, configurations):
    (config,) = configurations(f"kmeans.start={usual}")
    (same,) = configurations(f"kmeans.start={ours}")
    assert Experiment.from_config(config) == Experiment.from_config(same)


def test_the_help_of_an_import_path_is_that_of_outside(capsys):
    show(["reducer=sklearn.decomposition.PCA", "--help"])
    assert "reducer.args" in capsys.readouterr().out


@given(st.lists(st.text("abcdef_", min_size=3, max_size=9), min_size=1, max_size=30, unique=True))
def test_a_near_match_is_not_buried_by_other_names(names):
    text = str(unknown("thing", f"{names[0]}x", names))
    assert "did you mean " in text
    assert ("valid: " in text) == (len(names) <= 8)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("runner.limit={sconds:5}", "no setting is named 'runner.limit.sconds'; did you mean 'runner.limit.seconds'?"),
        ("kmeans={n_ini:2}", "no setting is named 'kmeans.n_ini'; did you mean 'kmeans.n_init'?"),
        ("runner.limit=[1]", "runner.limit is a group of settings; set one of them: runner.limit.seconds, runner."),
    ],
)
def test_a_key_of_a_group_in_braces_is_named_in_full(text, said):
    with pytest.raises(UserError) as raised:
        compose_configs("dataset=synth", text)
    assert said in str(raised.value)


@pytest.mark.parametrize("text", ["grid=coarse.yaml", "reducer=svd.yaml", "reducer=svd.yml", "reducer=none,svd.yaml"])
def test_a_choice_is_named_without_the_ending_of_its_file(text):
    with pytest.raises(UserError, match=r"named '(coarse|svd)\.ya?ml'; did you mean '(coarse|svd)'\?"):
        check_names(["dataset=synth", text])
