"""Results as an RO-Crate and datasets in Croissant: what is said is there, is so, and is what validators accept."""

import hashlib
import json
import zipfile
from pathlib import Path

import pandas as pd
import pytest

from kmdr.base.errors import UserError
from kmdr.base.process import exit_status
from kmdr.cli.commands import COMMANDS
from kmdr.clustering.kmeans import Protocol
from kmdr.config.task import Task
from kmdr.datasets import registry
from kmdr.export import crate
from kmdr.export.croissant import description, write_croissant
from kmdr.results.schema import COLUMNS
from kmdr.results.store import Store
from rows import trial

USPS = registry.entry("usps")
NAMES = [name for name in registry.names() if registry.entry(name).n and not registry.entry(name).needs_path]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two studies on two datasets, one of them of the registry, with a figure of each and a log."""
    folder = tmp_path_factory.mktemp("results")
    store = Store(folder)
    manifest = store.add_environment({"cpu": "A"})
    for study, dataset, digest in (("bzmd15_fig1", "usps", USPS.content_sha256), ("mine & more", "own", "5" * 64)):
        task = Task(study, dataset, digest, "", "svd", "{}", 3, (2, 5), 0, 0, Protocol(1, 9), False)
        store.add_configs([task.config])
        store.add(task, [trial(task, r, 0.1 + r / 100, manifest) for r in (2, 5)])
    store.log({"finished": "2026-01-02T03:04:05Z", "studies": ["bzmd15_fig1"], "serial_seconds": 4.0,
               "parallel_seconds": 1.2})  # fmt: skip
    store.log({"finished": "2026-01-03T03:04:05Z", "studies": ["bzmd15_fig1"], "serial_seconds": 1.0,
               "parallel_seconds": 0.0})  # fmt: skip
    store.merge()
    for name in ("figures/bzmd15_fig1.png", "figures/own_mine___more.csv", "report/index.html", "report/.made_from",
                 "verdicts.csv"):  # fmt: skip
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(name.encode())
    return folder


@pytest.fixture(scope="module")
def exported(folder, tmp_path_factory):
    return crate.write_crate(folder, tmp_path_factory.mktemp("crates") / "crate", "https://spdx.org/licenses/CC0-1.0")


def entities(place):
    graph = json.loads((place / "ro-crate-metadata.json").read_text("utf-8"))["@graph"]
    known = {entity["@id"]: entity for entity in graph}
    assert len(known) == len(graph)
    return known


def references(value):
    """The ids that something refers to."""
    if isinstance(value, list):
        return [id_ for each in value for id_ in references(each)]
    return [value["@id"]] if isinstance(value, dict) else []


def test_every_reference_leads_to_an_entity_and_every_file_is_described(exported):
    known = entities(exported)
    outside = ("https://w3id.org/ro/crate/1.1",)
    for entity in known.values():
        for name, value in entity.items():
            for id_ in references(value) if name != "@id" else ():
                assert id_ in known or id_ in outside, f"{entity['@id']}: {name} is {id_}"
    there = {str(path.relative_to(exported)) for path in exported.rglob("*") if path.is_file()}
    files = {entity["name"]: entity for entity in known.values() if entity["@type"] == "File"}
    assert there - {"ro-crate-metadata.json"} == set(files)
    assert {"rows.csv", "configs.jsonl", "verdicts.csv", "report/index.html"} < there
    for name, entity in files.items():
        content = (exported / name).read_bytes()
        assert entity["sha256"] == hashlib.sha256(content).hexdigest()
        assert entity["contentSize"] == str(len(content))
    assert {entity["@id"] for entity in files.values()} < set(references(known["./"]["hasPart"]))


def test_a_study_is_an_action_with_its_inputs_its_software_and_its_results(exported):
    known = entities(exported)
    action = known["#study-bzmd15_fig1"]
    assert action["@type"] == "CreateAction"
    assert set(references(known["./"]["mentions"])) == {"#study-bzmd15_fig1", "#study-mine-%26-more"}
    (software,) = (known[id_] for id_ in references(action["instrument"]))
    assert (software["@type"], software["softwareVersion"]) == ("SoftwareApplication", "0.1.0")
    (data,) = (known[id_] for id_ in references(action["object"]) if known[id_]["@type"] == "Dataset")
    assert data["sha256"] == USPS.content_sha256
    assert known[data["license"]["@id"]]["name"] == USPS.licence
    assert known[data["citation"]["@id"]]["name"] == USPS.citation
    (download,) = (known[id_] for id_ in references(data["distribution"]))
    assert download["sha256"] == USPS.sources[0].sha256
    results = set(references(action["result"]))
    assert results == {"rows.csv", "figures/bzmd15_fig1.png", "verdicts.csv"}
    assert (action["startTime"], action["endTime"]) == ("2026-01-02T03:04:00+00:00", "2026-01-03T03:04:05+00:00")
    own = known["#study-mine-%26-more"]
    assert set(references(own["result"])) == {"rows.csv", "figures/own_mine___more.csv"}
    assert "endTime" not in own
    assert "agent" not in action
    assert known["./"]["datePublished"] == "2026-01-03"


def test_the_columns_of_the_table_are_told(exported):
    known = entities(exported)
    told = [known[id_]["name"] for id_ in references(known["rows.csv"]["variableMeasured"])]
    assert told == list(COLUMNS) == list(pd.read_csv(exported / "rows.csv"))


def test_an_archive_is_the_same_crate_and_the_same_bytes_each_time(folder, exported, tmp_path):
    first, second = (
        crate.write_crate(folder, tmp_path / name, "https://spdx.org/licenses/CC0-1.0") for name in ("a.zip", "b.zip")
    )
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    assert members == {str(p.relative_to(exported)): p.read_bytes() for p in exported.rglob("*") if p.is_file()}


def test_what_cannot_be_exported_is_refused_in_a_sentence_and_leaves_nothing(folder, tmp_path, capsys, monkeypatch):
    (tmp_path / "there").mkdir()
    for words in (
        [], [str(folder)], [str(folder), "--crate", str(tmp_path / "there")], [str(folder), "--crates", "x"],
        [str(tmp_path / "none"), "--crate", str(tmp_path / "x")], ["--croissant", "usp", str(tmp_path / "x")],
        ["--croissant", "file", str(tmp_path / "x")], [str(folder), "--crate", str(tmp_path / "x"), "LICENSE=mine"],
        ["--croissant", "usps", str(tmp_path / "x"), "LICENSE=https://x"],
    ):  # fmt: skip
        assert exit_status(lambda words=words: COMMANDS["export"](words)) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
    monkeypatch.setattr(Path, "rename", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(UserError, match="free disk space"):
        crate.write_crate(folder, tmp_path / "x")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_an_export_removes_what_a_killed_one_left(folder, tmp_path):
    left = tmp_path / f".folder.{'0' * 32}.tmp"
    (left / "crate").mkdir(parents=True)
    crate.write_crate(folder, tmp_path / "crate", "https://spdx.org/licenses/CC0-1.0")
    assert [path.name for path in tmp_path.iterdir()] == ["crate"]


def test_without_a_licence_the_crate_and_the_command_say_so(folder, tmp_path, capsys):
    assert exit_status(lambda: COMMANDS["export"](["--crate", str(tmp_path / "x"), str(folder)])) == 0
    assert "no licence is stated" in capsys.readouterr().err
    known = entities(tmp_path / "x")
    assert known[known["./"]["license"]["@id"]]["name"] == "none stated"


@pytest.mark.parametrize("name", NAMES)
def test_a_dataset_is_described_with_the_hashes_of_the_registry(name):
    entry, told = registry.entry(name), description(registry.entry(name))
    files = {file["@id"]: file for file in told["distribution"]}
    assert len(files) == len(told["distribution"])
    hashes = {source.sha256 for source in entry.sources} | {s.archive_sha256 for s in entry.sources} - {""}
    assert {file["sha256"] for file in files.values()} == hashes
    assert {file["containedIn"]["@id"] for file in files.values() if "containedIn" in file} <= files.keys()
    assert (told["license"], told["citeAs"]) == (entry.licence, entry.citation)
    assert bool(files) == bool(told["recordSet"])
    for record in told["recordSet"]:
        assert [field["name"] for field in record["field"]] == ["features", "label"]
        assert {field["source"]["fileObject"]["@id"] for field in record["field"]} <= files.keys()


@pytest.mark.parametrize("name", NAMES)
def test_mlcroissant_accepts_it(name, tmp_path):
    mlcroissant = pytest.importorskip("mlcroissant", reason="pip install mlcroissant brings the validator")
    dataset = mlcroissant.Dataset(write_croissant(name, tmp_path / "croissant.json"))
    assert list(dataset.metadata.issues.errors) == []


def test_the_validator_of_crates_accepts_it(exported):
    """As a Process Run Crate 0.5, all that is required; it reads the context of RO-Crate from the network."""
    services = pytest.importorskip("rocrate_validator.services", reason="pip install roc-validator brings it")
    from rocrate_validator.models import Severity

    settings = services.ValidationSettings(
        rocrate_uri=str(exported), profile_identifier="process-run-crate", requirement_severity=Severity.REQUIRED
    )
    try:
        result = services.validate(settings)
    except Exception as error:
        if "URLError" in str(error):
            pytest.skip(f"the context of RO-Crate cannot be had: {error}")
        raise
    assert [issue.message for issue in result.get_issues()] == []
    assert result.passed()
