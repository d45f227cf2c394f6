"""What somebody cites says the same everywhere: pyproject.toml, CITATION.cff, codemeta.json."""

import json
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
CODEMETA = json.loads((ROOT / "codemeta.json").read_text("utf-8"))
# Those of the terms of codemeta 3.0 that are used here, with the type of their values.
TERMS = {
    "@context": str, "type": str, "name": str, "description": str, "version": str, "license": str, "author": list,
    "keywords": list, "programmingLanguage": str, "runtimePlatform": str, "operatingSystem": str,
    "applicationCategory": str, "developmentStatus": str, "referencePublication": list,
}  # fmt: skip


def test_they_agree():
    assert PROJECT["version"] == CITATION["version"] == CODEMETA["version"]
    assert CODEMETA["name"] == PROJECT["name"]
    assert CITATION["title"].partition(": ")[0] == PROJECT["name"]
    assert CODEMETA["description"] == PROJECT["description"]
    assert CITATION["title"].partition(": ")[2] == PROJECT["description"][0].lower() + PROJECT["description"][1:]
    people = [author["name"] for author in PROJECT["authors"]]
    assert [author["name"] for author in CITATION["authors"]] == people
    assert [author["name"] for author in CODEMETA["author"]] == people
    assert CITATION["license"] == PROJECT["license"] == CODEMETA["license"].rpartition("/")[2]
    assert CODEMETA["keywords"] == PROJECT["keywords"] == CITATION["keywords"]
    assert PROJECT["requires-python"] in CODEMETA["runtimePlatform"]
    cited = [(paper["title"], str(paper["year"])) for paper in CITATION["references"]]
    assert [(paper["name"], paper["datePublished"]) for paper in CODEMETA["referencePublication"]] == cited


def test_codemeta_is_what_its_version_3_asks_for():
    """A context of its own, `type` and `id` without an @, and of each term a value of its type."""
    assert CODEMETA["@context"] == "https://w3id.org/codemeta/3.0"
    assert CODEMETA["type"] == "SoftwareSourceCode"
    assert {name: type(value) for name, value in CODEMETA.items()} == TERMS
    assert {author["type"] for author in CODEMETA["author"]} <= {"Person", "Organization"}
    assert CODEMETA["developmentStatus"] in (  # those of repostatus.org
        "concept", "wip", "suspended", "abandoned", "active", "inactive", "unsupported", "moved",
    )  # fmt: skip
    for paper in CODEMETA["referencePublication"]:
        assert paper["type"] == "ScholarlyArticle"
        assert paper["id"].startswith("https://")


def test_the_citation_is_what_version_1_2_of_its_format_asks_for():
    assert CITATION["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= CITATION.keys()
    assert CITATION["type"] == "software"
    for paper in CITATION["references"]:
        assert {"type", "title", "authors", "year"} <= paper.keys()
