"""What somebody cites says the same everywhere: pyproject.toml, CITATION.cff, codemeta.json, .zenodo.json."""

import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from hydra._internal.utils import get_args_parser

from kmdr.papers import __path__ as papers_path

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
CODEMETA = json.loads((ROOT / "codemeta.json").read_text("utf-8"))
ZENODO = json.loads((ROOT / ".zenodo.json").read_text("utf-8"))
PAPERS = {
    path.parent.name: tomllib.loads(path.read_text("utf-8")) for path in Path(papers_path[0]).glob("*/paper.toml")
}
RELEASE = re.search(
    r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d{2}-\d{2})$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE
)
# The terms of codemeta 3.0 that are used here, with the type of their values.
TERMS = {
    "@context": str, "type": str, "name": str, "description": str, "version": str, "dateModified": str, "license": str,
    "author": list, "keywords": list, "programmingLanguage": str, "runtimePlatform": str, "operatingSystem": str,
    "applicationCategory": str, "developmentStatus": str, "releaseNotes": str, "isAccessibleForFree": bool,
    "softwareRequirements": list, "referencePublication": list,
}  # fmt: skip


def test_the_version_and_its_date_are_the_same_everywhere():
    stated = [(CITATION["version"], str(CITATION["date-released"])), (CODEMETA["version"], CODEMETA["dateModified"])]
    stated += [(ZENODO["version"], ZENODO["publication_date"]), RELEASE.groups()]
    assert set(stated) == {(PROJECT["version"], stated[0][1])}


@pytest.mark.parametrize("name", PAPERS)
def test_every_paper_is_cited_with_its_authors_year_and_address(name):
    paper = PAPERS[name]
    families, year = paper["authors"].split(", "), paper["year"]
    (cited,) = [reference for reference in CITATION["references"] if reference["title"] == paper["title"]]
    assert ([author["family-names"] for author in cited["authors"]], cited["year"]) == (families, year)
    (published,) = [entry for entry in CODEMETA["referencePublication"] if entry["name"] == paper["title"]]
    assert [author["familyName"] for author in published["author"]] == families
    assert published["datePublished"] == str(year)
    (listed,) = [text for text in ZENODO["references"] if f". {paper['title']}. " in text]
    assert re.fullmatch(rf".*{'.*, .*'.join(families)}\. .*\b{year}\.", listed)
    address = paper.get("url")
    assert PROJECT["urls"].get(name) == published.get("id") == address
    assert ("doi" in cited or "url" in cited) == bool(address)
    if address:
        assert address.endswith(cited.get("doi") or cited["url"])
        identifiers = [entry["identifier"].removeprefix("arXiv:") for entry in ZENODO["related_identifiers"]]
        assert any(address.endswith(identifier) for identifier in identifiers)


def test_nothing_else_is_cited():
    addresses = [paper for paper in PAPERS.values() if "url" in paper]
    lists = (CITATION["references"], CODEMETA["referencePublication"], ZENODO["references"])
    assert {len(entries) for entries in lists} == {len(PAPERS)}
    assert {len(ZENODO["related_identifiers"]), len(PROJECT["urls"])} == {len(addresses)}


def test_they_agree():
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
    assert CODEMETA["softwareRequirements"] == PROJECT["dependencies"]


def test_zenodo_has_the_same_entry():
    assert ZENODO["title"] == CITATION["title"]
    assert ZENODO["description"] == PROJECT["description"]
    assert ZENODO["license"] == PROJECT["license"]
    assert ZENODO["keywords"] == PROJECT["keywords"]
    assert [creator["name"] for creator in ZENODO["creators"]] == [author["name"] for author in PROJECT["authors"]]


def test_workflows_parse_and_name_the_supported_pythons():
    workflows = {path.name: yaml.safe_load(path.read_text("utf-8")) for path in ROOT.glob(".github/workflows/*.yml")}
    supported = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if "Python :: 3." in line]
    build = workflows["release.yml"]["jobs"]["build"]["steps"]
    (set_up,) = [step["with"] for step in build if step.get("uses", "").startswith("actions/setup-python")]
    assert sorted(set_up["python-version"].split()) == supported
    assert any(step.get("run", "").startswith("make release-check ") for step in build)
    assert workflows["ci.yml"]["jobs"]["test"]["strategy"]["matrix"]["python"] == supported
    assert workflows["release.yml"]["permissions"] == {"contents": "read"}
    for workflow in workflows.values():
        assert all("timeout-minutes" in job or "environment" in job for job in workflow["jobs"].values())


def test_pages_for_contributors_name_files_and_targets_that_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for name in ("AGENTS.md", "CODE_OF_CONDUCT.md"):
        text = (ROOT / name).read_text("utf-8")
        assert set(re.findall(r"`make ([a-z-]+)", text)) <= targets
        for path in re.findall(r"(?:\.ci|scripts|tests|results)/[\w./]+", text):
            assert (ROOT / path.rstrip(".")).exists(), path


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
        assert paper["type"] in ("ScholarlyArticle", "Report")
        assert paper.get("id", "https://").startswith("https://")
        assert {author["type"] for author in paper["author"]} == {"Person"}


def test_the_citation_is_what_version_1_2_of_its_format_asks_for():
    assert CITATION["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= CITATION.keys()
    assert CITATION["type"] == "software"
    for paper in CITATION["references"]:
        assert {"type", "title", "authors", "year"} <= paper.keys()


def test_the_reason_against_python_3_14_still_holds():
    """hydra-core gives argparse a help that is not a string; once it does not, requires-python may allow 3.14."""
    help_texts = [action.help for action in get_args_parser()._actions]
    assert any(text is not None and not isinstance(text, str) for text in help_texts)
    assert "<3.14" in PROJECT["requires-python"]
