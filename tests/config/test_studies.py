"""Files of configurations are read as OmegaConf reads them."""

import contextlib
import os
import re

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

import kmdr.config.studies
from kmdr.atlas import design as atlas
from kmdr.base.errors import UserError
from kmdr.cli import help as usage
from kmdr.cli.arguments import LISTED
from kmdr.cli.listing import show
from kmdr.config.compose import compose_configs, study_configs
from kmdr.config.studies import GROUPS, MULTIVERSE_PREFIX, RESERVED, config_files, load_config, studies
from kmdr.config.suggestions import setting_names
from kmdr.harness.experiment import experiments
from kmdr.harness.jobs import compose, compose_studies, run_jobs
from kmdr.multiverse import choices

texts = st.text(st.characters(exclude_categories=["C"]))
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), texts)
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text("abc", min_size=1), inner))


def in_omegaconf(file):
    return {str(key): value for key, value in OmegaConf.to_container(OmegaConf.load(file)).items()}


@pytest.mark.parametrize("group", ["dataset", "reducer", "runner", *GROUPS])
def test_every_configuration_has_the_values_of_omegaconf(group):
    files = config_files(group).values()
    assert {file.name: load_config(file) for file in files} == {file.name: in_omegaconf(file) for file in files}
    assert group == "dataset" or files


@given(st.dictionaries(st.text("abc", min_size=1), values), st.sampled_from(["", "\ufeff"]), st.booleans())
@example({"a": "${"}, "", False)
@example({"a": "${b}"}, "", False)
def test_written_values_are_read_as_omegaconf_reads_them(tmp_path_factory, values, mark, flow):
    file = tmp_path_factory.mktemp("yaml") / "some.yaml"
    file.write_text(mark + yaml.safe_dump(values, allow_unicode=True, default_flow_style=flow), "utf-8")
    try:
        expected = in_omegaconf(file)
    except OmegaConfBaseException:
        with pytest.raises(UserError, match=r"some\.yaml cannot be read"):
            load_config(file)
    else:
        assert load_config(file) == expected


@given(st.text("0123456789eE+-_.:xob ~yYnNoOtTrRuUeEfF'\"", max_size=12))
@example("1e3")
@example("1_000")
@example("0o17")
@example("0x1F")
@example("12:30:45")
@example("2020-01-02")
@example(".inf")
@example("off")
@example("~")
@example("''")
@example("010")
@example("-0_7")
@example("1:30")
@example("1:6")
@example("1_:09")
@example("1:30.5")
@example("08")
def test_a_plain_scalar_is_what_it_is_in_omegaconf_or_in_decimal_digits(tmp_path_factory, text):
    file = tmp_path_factory.mktemp("yaml") / "some.yaml"
    file.write_text(f"a: {text}\nb: [{text}]\n", "utf-8")
    try:
        expected = in_omegaconf(file)
    except (yaml.YAMLError, ValueError):
        return
    number, refusal = expected["a"], ""
    try:
        assert repr(load_config(file)) == repr(expected)
    except UserError as error:
        refusal = str(error)
    if isinstance(number, bool) or not isinstance(number, int | float) or re.search("[xb]", text.lower()):
        assert not refusal
    else:
        digits = text.strip().lower().replace("_", "").replace(".inf", "inf").partition(" #")[0]
        assert bool(refusal) == (":" in text or float(digits) != number)
        assert not refusal or re.search(r"some\.yaml, line 1: YAML reads .* to the base of (8|60); write", refusal)


def bomb(levels):
    """Return a YAML text whose aliases stand for nine to the power of this many values."""
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, levels)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("where", ["conf/study", "conf/grid", "conf/reducer"])
def test_aliases_that_stand_for_too_many_values_are_refused_before_they_are_expanded(where, tmp_path, monkeypatch):
    file = tmp_path / where / "mine.yaml"
    file.parent.mkdir(parents=True)
    plugin(monkeypatch, tmp_path)
    for text in (bomb(12), "a: &a [*a]\n", "x: 1\n" + bomb(12) + "study: *a11\n"):
        file.write_text(text)
        with pytest.raises(UserError, match=r"mine\.yaml has .* values, more than 100000; use fewer aliases"):
            load_config(file)
        with pytest.raises(UserError, match=r"mine\.yaml has .* values"):
            compose_configs(f"{where.removeprefix('conf/')}=mine")
    file.write_text("a: &a [1, 2]\nb: *a\n")
    assert load_config(file) == {"a": [1, 2], "b": [1, 2]}


@pytest.mark.parametrize("text", ["a: 1\na: 2\n", "a: {b: 1, b: 2}\n", "a: [1\n", "a: !!python/object:os.system x\n"])
def test_what_omegaconf_refuses_is_refused_with_the_file(tmp_path, text):
    file = tmp_path / "some.yaml"
    file.write_text(text, "utf-8")
    with pytest.raises(UserError, match=r"some\.yaml cannot be read .*; fix it"):
        load_config(file)


def test_a_file_without_settings_has_none(tmp_path):
    (tmp_path / "empty.yaml").write_text("# only a comment\n")
    assert load_config(tmp_path / "empty.yaml") == {}


VALID = {*setting_names(), "defaults"} - {"grid", "hydra"}
STUDY = {"datasets": ["digits"], "reducers": ["none"]}


def written_study(folder, study, name="mine", **settings):
    file = folder / "conf" / "study" / f"{name}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump({"repeats": 1, "r_grid": [2], "study": study, **settings}), "utf-8")
    return file


def plugin(monkeypatch, *folders):
    monkeypatch.setenv("KMDR_PATH", os.pathsep.join(map(str, folders)))


# Values that no entry of these has; a text in quotes is a text.
WRONG = {
    **dict.fromkeys(("title", "note", "paper"), st.one_of(st.integers(), st.booleans(), st.lists(texts))),
    **dict.fromkeys(("on_request", "beyond_paper"), st.one_of(st.integers(), texts, st.lists(texts))),
    "flip": st.one_of(
        st.integers(), texts, st.lists(texts), st.dictionaries(st.sampled_from(["entry", "base"]), texts)
    ),
    "name": st.one_of(st.none(), st.integers(), st.booleans(), texts.filter(lambda text: text != "mine")),
    "tilte": texts,
}


@given(st.sampled_from(sorted(WRONG)).flatmap(lambda key: WRONG[key].map(lambda value: (key, value))))
@example(("name", "bzd10_fig1"))
@example(("on_request", "no"))
def test_an_invalid_entry_of_a_study_is_refused_with_its_file(tmp_path_factory, entry):
    folder = tmp_path_factory.mktemp("plugin")
    key, value = entry
    written_study(folder, {**STUDY, key: value})
    with pytest.MonkeyPatch.context() as patch:
        plugin(patch, folder)
        with pytest.raises(UserError, match=rf"mine\.yaml.*{key}"):
            studies()


@given(st.sampled_from(["datasets", "reducers"]), st.lists(values, max_size=2))
@example("datasets", [{}])
def test_whatever_a_study_lists_all_studies_can_be_listed_or_are_refused(tmp_path_factory, group, listed):
    folder = tmp_path_factory.mktemp("plugin")
    written_study(folder, {**STUDY, group: listed})
    with pytest.MonkeyPatch.context() as patch:
        plugin(patch, folder)
        with contextlib.suppress(UserError):
            (study,) = (study for study in studies() if study["name"] == "mine")
            assert all(isinstance(name, str) for name in study[group])


@pytest.mark.parametrize("group", [*GROUPS, "reducer", "runner"])
def test_a_plugin_replaces_no_configuration_of_kmdr_or_of_a_paper(tmp_path, monkeypatch, group):
    name = sorted(config_files(group))[0]
    file = tmp_path / "conf" / group / f"{name}.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("n_init: 1\n")
    plugin(monkeypatch, tmp_path)
    with pytest.raises(UserError, match=f"both named {name}; rename one of them"):
        config_files(group)


def test_two_plugins_have_no_study_of_the_same_name(tmp_path, monkeypatch):
    for folder in ("one", "other"):
        written_study(tmp_path / folder, STUDY)
    plugin(monkeypatch, tmp_path / "one", tmp_path / "one")
    assert config_files("study")["mine"].is_relative_to(tmp_path / "one")
    plugin(monkeypatch, tmp_path / "one", tmp_path / "other")
    with pytest.raises(UserError, match="both named mine; rename one of them"):
        studies()


def test_a_study_without_a_name_has_that_of_its_file(tmp_path, monkeypatch):
    written_study(tmp_path, STUDY)
    plugin(monkeypatch, tmp_path)
    (config,) = compose_configs("study=mine")
    assert config["study"]["name"] == "mine"
    assert [config["study"]["name"] for config in study_configs("mine")] == ["mine"]


@pytest.mark.parametrize("settings", [{"defaults": ["bzmd15_fig1"]}, {"hydra": {"run": {"dir": "x"}}}])
def test_a_study_that_a_report_cannot_read_is_refused_before_it_is_run(tmp_path, monkeypatch, settings):
    written_study(tmp_path, STUDY, **settings)
    plugin(monkeypatch, tmp_path)
    with pytest.raises(UserError, match=r"defaults|hydra"):
        run_jobs([compose("study=mine", f"out={tmp_path / 'out'}", "runner=sequential")])
    assert not (tmp_path / "out" / "rows.csv").exists()


def test_what_hydra_cannot_merge_is_named(tmp_path, monkeypatch):
    written_study(tmp_path, STUDY, kmeans=[1])
    plugin(monkeypatch, tmp_path)
    with pytest.raises(UserError, match=r"'study/mine'.*: Cannot merge"):
        compose_configs("study=mine")


@pytest.mark.parametrize("text", ["", "repeats: 1\n", "study: null\n", "study: [digits]\n"])
def test_a_file_without_a_study_runs_nothing(tmp_path, monkeypatch, text):
    written_study(tmp_path, STUDY).write_text(text)
    plugin(monkeypatch, tmp_path)
    for composed in (lambda: compose_configs("study=mine"), lambda: study_configs("mine"), studies):
        with pytest.raises(UserError, match=r"mine\.yaml is not a valid study"):
            composed()


@pytest.mark.parametrize("name", ["custom", atlas.STUDY, atlas.TIMES, f"{choices.STUDY}bzd10"])
def test_no_study_has_the_name_of_rows_of_another_kind(tmp_path, monkeypatch, name):
    written_study(tmp_path, STUDY, name)
    plugin(monkeypatch, tmp_path)
    with pytest.raises(UserError, match=f"{name}; rename it"):
        run_jobs([compose(f"study={name}", f"out={tmp_path / 'out'}", "runner=sequential")])


def test_reserved_names_are_those_of_the_rows_without_a_study_file():
    assert set(RESERVED) == {"custom", atlas.STUDY, atlas.TIMES}
    assert choices.STUDY == MULTIVERSE_PREFIX


@given(st.dictionaries(texts.filter(lambda text: text not in VALID), scalars, min_size=1))
@example({"repeatss": 2})
@example({"grid": "bzmd15"})
def test_an_unknown_setting_of_a_study_is_refused_with_its_file_by_all_readers(tmp_path_factory, settings):
    folder = tmp_path_factory.mktemp("plugin")
    written_study(folder, STUDY, **settings)
    with pytest.MonkeyPatch.context() as patch:
        plugin(patch, folder)
        said = r"mine\.yaml: no setting is named .*; (valid: .*repeats|did you mean '\w+'\?)"
        for read in (studies, lambda: study_configs("mine"), lambda: compose_configs("study=mine")):
            with pytest.raises(UserError, match=said):
                read()


# Mistakes that the tree of a study does not show, but its composition does.
MISTAKES = [
    {"study": {**STUDY, "datasets": ["digitz"]}},
    {"study": {**STUDY, "reducers": ["svds"]}},
    {"study": {**STUDY, "reducers": [{"svd": {"rnak": 2}}]}},
    {"kmeans": {"n_inits": 3}},
    {"repeats": "many"},
    {"r_grid": ["a"]},
    {"defaults": ["override /grid: nothing"]},
]


@pytest.mark.parametrize("settings", MISTAKES)
def test_a_mistake_in_one_of_many_studies_is_named_with_its_file(tmp_path, monkeypatch, settings):
    written_study(tmp_path, **{"study": STUDY, **settings})
    plugin(monkeypatch, tmp_path)
    for read in (lambda: compose_studies("results"), lambda: experiments("mine")):
        with pytest.raises(UserError, match=rf"^{tmp_path}.*/mine\.yaml"):
            read()


@pytest.mark.parametrize(
    "invalid",
    [["study: 5\n"], ["study: [\n", "repeats: 1\n"], ["repeatss: 1\n"], ["study: {datasets: [a], reducers: [b]}\n"]],
)
def test_a_list_of_studies_shows_the_valid_ones_and_names_each_invalid_file(tmp_path, monkeypatch, capsys, invalid):
    written_study(tmp_path, STUDY)
    for i, text in enumerate(invalid):
        written_study(tmp_path, STUDY, f"invalid{i}").write_text(text)
    plugin(monkeypatch, tmp_path)
    assert show(["studies", "metrics"]) == 2
    said = capsys.readouterr()
    listed = re.findall(r"^  (\w+)\b", said.out, re.MULTILINE)
    assert {*config_files("study")} - {f"invalid{i}" for i in range(len(invalid))} <= {*listed}
    assert "ari" in listed
    assert [line.partition(".yaml")[0][-8:] for line in said.err.splitlines()] == [
        f"invalid{i}" for i in range(len(invalid))
    ]
    assert show(["metrics"]) == 0
    usage.show(["study=mine", "--help"])


def test_a_list_shows_the_other_kinds_when_one_cannot_be_read(tmp_path, monkeypatch, capsys):
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "broken.py").write_text("1 / 0\n")
    for name, text in (("own25", "title = 'T'\nauthors = 'A'\nvenue = 'V'\nyear = 2025\n"), ("odd25", "title = 5\n")):
        (tmp_path / "papers" / name).mkdir(parents=True)
        (tmp_path / "papers" / name / "paper.toml").write_text(text)
    plugin(monkeypatch, tmp_path)
    assert show([]) == 2
    said = capsys.readouterr()
    assert re.findall(r"^(\w+)$", said.out, re.MULTILINE) == [kind for kind in LISTED if kind != "metrics"]
    assert "  own25 " in said.out
    assert [bool(re.search(r"broken\.py|odd25/paper\.toml", line)) for line in said.err.splitlines()] == [True, True]


GROUPS_OF_PLUGINS = (*GROUPS, "reducer", "runner")
FOLDERS = (
    *(f"conf/{group}" for group in GROUPS_OF_PLUGINS), *(f"papers/own25/{folder}" for folder, _ in GROUPS.values()),
)  # fmt: skip


OTHER_FOLDERS = ("conf", "conf/dataset", "conf/studies", "conf/study/more", "papers/own25/studies/more")


@pytest.mark.parametrize("folder", [*FOLDERS, *OTHER_FOLDERS])
@pytest.mark.parametrize("name", ["mine.yaml", "mine.yml", "mine.txt", ".mine.yaml", "config.yaml"])
def test_a_configuration_that_is_not_read_is_named_once(tmp_path, folder, name):
    root = tmp_path / "plugin"
    (root / "papers" / "own25").mkdir(parents=True)
    (root / "papers" / "own25" / "paper.toml").write_text("title = 'T'\nauthors = 'A'\nvenue = 'V'\nyear = 2025\n")
    (root / folder).mkdir(parents=True, exist_ok=True)
    (root / folder / name).write_text("n_init: 3\n")
    with pytest.MonkeyPatch.context() as patch:
        plugin(patch, root)
        said = []
        patch.setattr(kmdr.config.studies, "tell", said.append)
        is_read = any((root / folder / name) in config_files(group).values() for group in GROUPS_OF_PLUGINS)
        for _ in range(2):
            compose_configs("dataset=digits")
        is_configuration = name.startswith("mine.y") or name == "config.yaml"
        assert len(said) == (is_configuration and not is_read)
        assert all(str(root / folder / name) in line for line in said)


def test_a_value_that_settings_cannot_have_is_named(tmp_path, monkeypatch):
    """The message was the name of an exception of Hydra."""
    folder = tmp_path / "conf" / "study"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(
        "study: {title: t, datasets: [digits], reducers: [{svd: {rank: !!set {a}}}]}\nrepeats: 1\n"
    )
    monkeypatch.setenv("KMDR_PATH", str(tmp_path))
    with pytest.raises(UserError, match="'set' is not a supported"):
        compose_configs("study=mine")


def test_studies_of_a_paper_need_no_class_of_another_study(tmp_path, monkeypatch):
    """``kmdr reproduce bzd10`` was refused because of a plugin's study whose class is not installed."""
    written_study(tmp_path, **{"study": {**STUDY, "reducers": ["no_such_package.Class"]}})
    plugin(monkeypatch, tmp_path)
    names = [job.study["name"] for job in compose_studies("results", papers=["bzd10"])]
    assert names == [study["name"] for study in studies() if study.get("paper") == "bzd10" and not study["on_request"]]
    with pytest.raises(UserError, match="no_such_package"):
        compose_studies("results")


def plugin_with_a_preset(folder, rank):
    """Write a plugin with a preset of a reducer and a study of it."""
    for group, name, text in [
        ("reducer", "preset", f"name: svd\nrank: {rank}\ncentred: false\nsolver: kmdr\n"),
        ("study", "mine", "repeats: 2\nstudy: {datasets: [digits], reducers: [preset]}\n"),
    ]:
        (folder / "conf" / group).mkdir(parents=True, exist_ok=True)
        (folder / "conf" / group / f"{name}.yaml").write_text(text, "utf-8")


@pytest.mark.parametrize("change", ["the file", "the plugin"])
def test_settings_that_change_in_a_session_are_read_again_by_studies_and_commands(change, tmp_path, monkeypatch):
    """Studies kept the settings that a reducer had at first: `kmdr.run` in a notebook ran others than the file has."""
    ranks = []
    for number, rank in enumerate(["k", "r"]):
        folder = tmp_path / (str(number) if change == "the plugin" else "same")
        plugin_with_a_preset(folder, rank)
        monkeypatch.setenv("KMDR_PATH", str(folder))
        configs = [*study_configs("mine"), *compose_configs("study=mine"), *compose_configs("reducer=preset")]
        ranks.append([config["reducer"]["rank"] for config in configs])
    assert ranks == [["k"] * 3, ["r"] * 3]
