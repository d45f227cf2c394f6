"""Files of configurations are read as OmegaConf reads them."""

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from kmdr.base.errors import UserError
from kmdr.config.studies import GROUPS, config_files, load_config

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
def test_a_plain_scalar_is_what_it_is_in_omegaconf(tmp_path_factory, text):
    file = tmp_path_factory.mktemp("yaml") / "some.yaml"
    file.write_text(f"a: {text}\nb: [{text}]\n", "utf-8")
    try:
        expected = in_omegaconf(file)
    except (yaml.YAMLError, ValueError):
        return
    assert repr(load_config(file)) == repr(expected)


@pytest.mark.parametrize("text", ["a: 1\na: 2\n", "a: {b: 1, b: 2}\n", "a: [1\n", "a: !!python/object:os.system x\n"])
def test_what_omegaconf_refuses_is_refused_with_the_file(tmp_path, text):
    file = tmp_path / "some.yaml"
    file.write_text(text, "utf-8")
    with pytest.raises(UserError, match=r"some\.yaml cannot be read .*; fix it"):
        load_config(file)


def test_a_file_without_settings_has_none(tmp_path):
    (tmp_path / "empty.yaml").write_text("# only a comment\n")
    assert load_config(tmp_path / "empty.yaml") == {}
