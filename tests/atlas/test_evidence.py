"""The evidence of a folder, the files that kmdr ships, and the settings with which methods run."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from atlas_evidence import invented, write_atlas
from atlas_rows import FORMS, atlas_rows
from kmdr.atlas import evidence as module
from kmdr.atlas.advice import Choice, Goal, evidence
from kmdr.atlas.design import Method, design
from kmdr.atlas.evidence import files_of, protocol, read_folder, rules, settings_of, stored
from kmdr.base.errors import UserError
from kmdr.clustering.kmeans import Protocol
from kmdr.harness.jobs import compose
from kmdr.reducers import named
from rows import HASH, make_rows, write_rows

METHODS = {
    "signs": Method("random_sign"),
    "SVD, rank k": Method("svd", {"rank": "k"}),
    "SVD, rank r": Method("svd", {"rank": "r"}),
    "sparsified": Method("sparsified", kmeans={"start": "sample"}),
    "PCA, whitened": Method("outside", {"path": "sklearn.decomposition.PCA", "args": {"whiten": True}}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_atlas(tmp_path_factory.mktemp("atlas"), atlas_rows(forms=tuple(FORMS), repeats=2))


def test_a_folder_has_the_evidence_of_its_rows(folder):
    known = evidence(*read_folder(folder))
    assert len(known.matrices) == 16
    assert set(known.matrices["form"]) == {"raw", "unit rows"}
    assert known.matrices["domain"].ne("").all()
    assert np.nanmin(known.loss) == 0
    assert {choice.method for choice in known.choices} >= {"none", "random signs", "leverage"}


def test_a_folder_of_results_leads_to_its_atlas(folder, tmp_path):
    write_rows(tmp_path, make_rows("s", "synth", "none", (5,), 2))
    with pytest.raises(UserError, match="has no rows of an atlas; name a folder of 'kmdr atlas'"):
        read_folder(tmp_path)
    (tmp_path / "atlas").symlink_to(folder)
    with pytest.raises(UserError):
        read_folder(tmp_path)  # links are not followed
    (tmp_path / "atlas").unlink()
    write_atlas(tmp_path / "atlas", atlas_rows(repeats=2))
    assert len(evidence(*read_folder(tmp_path)).matrices) == 8


def test_rows_without_traits_are_refused(tmp_path):
    write_rows(tmp_path, atlas_rows(["usps"], repeats=2), machine=HASH)
    with pytest.raises(UserError, match="has no traits of an atlas"):
        read_folder(tmp_path)


def test_the_shipped_files_give_the_same_evidence_to_four_digits(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_EFFECTS", tmp_path / "effects.csv.xz")
    monkeypatch.setattr(module, "_TRAITS", tmp_path / "traits.csv")
    stored.cache_clear()
    with pytest.raises(UserError, match="no results of the atlas; run 'kmdr atlas'"):
        stored()
    effects, traits = read_folder(folder)
    effects.loc[3, "failed"] = "a reason, with a comma"
    for path, content in files_of(effects, traits).items():
        path.write_bytes(content)
    known, read = evidence(effects, traits), stored()
    stored.cache_clear()
    assert read.choices == known.choices
    assert read.matrices[["dataset", "form", "source"]].equals(known.matrices[["dataset", "form", "source"]])
    for name in ("loss", "speedup", "accuracy"):
        np.testing.assert_allclose(getattr(read, name), getattr(known, name), rtol=1e-3, atol=1e-12)
    np.testing.assert_array_equal(read.failed, known.failed)


@pytest.fixture
def _other_methods(monkeypatch):
    monkeypatch.setattr(module, "design", lambda: replace(design(), methods=METHODS))


@pytest.mark.usefixtures("_other_methods")
def test_the_rules_are_found_by_what_they_run(rng, monkeypatch):
    effects, traits = invented(rng, 4)
    known = evidence(effects.replace({"method": {"random_sign": "signs", "svd rank k": "SVD, rank k"}}), traits)
    assert rules(known, Goal()) == {
        "random signs at r = 20 k": Choice("signs", 20.0), "the exact SVD at r = k": Choice("SVD, rank k", "k"),
    }  # fmt: skip
    assert rules(known, Goal(0, 9.0)) == {"random signs at this r": Choice("signs", 10.0)}
    monkeypatch.setattr(module, "design", lambda: replace(design(), methods={}))
    with pytest.raises(UserError, match="no rows of random signs"):
        rules(known, Goal())


@pytest.mark.usefixtures("_other_methods")
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("signs", ["reducer=random_sign"]),
        ("SVD, rank k", ["reducer=svd", "reducer.rank=k"]),
        (
            "PCA, whitened",
            ["reducer=outside", "reducer.path=sklearn.decomposition.PCA", "reducer.args.whiten=true"],
        ),
        ("sparsified", ["reducer=sparsified", "kmeans.start=sample"]),
        ("leverage", ["reducer=leverage"]),
    ],
)
def test_a_method_is_run_by_its_settings(name, settings):
    assert settings_of(name) == settings
    (experiment,) = compose(*settings).experiments
    assert experiment.reducer == {"PCA, whitened": "sklearn.decomposition.PCA"}.get(name, settings[0][8:])


@pytest.mark.parametrize("name", design().methods)
def test_the_settings_of_each_method_are_those_that_the_atlas_runs(name):
    (experiment,) = compose(*settings_of(name)).experiments
    assert (experiment.reducer, experiment.params) == named(design().methods[name].config)


@pytest.mark.parametrize("size", [10, 10**8])
def test_the_protocol_is_that_of_the_atlas(size):
    (experiment,) = compose(*protocol(size, 10, 10)).experiments
    assert experiment.protocol == Protocol(**design().kmeans_of(size, 10, 10))
    assert experiment.protocol.online == (size == 10)


def test_traits_without_a_form_are_of_raw_data():
    assert module.with_forms(pd.DataFrame({"dataset": ["a"]}))["form"].tolist() == ["raw"]
    options = pd.DataFrame({"dataset": ["a", "b"], "options": ["", '{"rows":"unit"}']})
    assert module.with_forms(options)["form"].tolist() == ["raw", "unit rows"]
