"""The paper on kmdr has the form of JOSS, its metadata that of ReScience C, and both cite the papers."""

import re
from datetime import date, datetime
from pathlib import Path

import yaml

from kmdr.claims.catalogue import papers

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "paper"
_, HEAD, BODY = (FOLDER / "paper.md").read_text("utf-8").split("---\n", 2)
FRONT = yaml.safe_load(HEAD)
METADATA = yaml.safe_load((FOLDER / "metadata.yaml").read_text("utf-8"))
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
BIB = (FOLDER / "paper.bib").read_text("utf-8")
ENTRIES = dict(re.findall(r"^@[a-z]+\{(\w+),\n(.*?)^\}", BIB, re.MULTILINE | re.DOTALL))
SECTIONS = [
    "Summary", "Statement of need", "State of the field", "Software design", "Functionality", "Results",
    "Research impact statement", "Limitations", "AI usage disclosure", "Acknowledgements", "References",
]  # fmt: skip


def field(entry, name):
    """Return a field of a BibTeX entry; empty text if there is none."""
    match = re.search(rf"^  {name} = \{{(.*)\}},?$", entry, re.MULTILINE)
    return match[1] if match else ""


def test_the_head_is_complete():
    assert FRONT.keys() == {"title", "tags", "authors", "affiliations", "date", "bibliography"}
    assert FRONT["title"] == CITATION["title"]
    assert FRONT["tags"] == ["Python", *CITATION["keywords"]]
    assert [author["name"] for author in FRONT["authors"]] == [author["name"] for author in CITATION["authors"]]
    indices = {affiliation["index"] for affiliation in FRONT["affiliations"]}
    assert all(author["affiliation"] in indices for author in FRONT["authors"])
    assert isinstance(CITATION["date-released"], date)
    assert datetime.strptime(FRONT["date"], "%d %B %Y").date() == CITATION["date-released"]
    assert (FOLDER / FRONT["bibliography"]).is_file()


def test_the_sections_are_in_order_and_the_paper_is_short():
    assert re.findall(r"^# (.*)$", BODY, re.MULTILINE) == SECTIONS
    assert 500 <= len(re.sub(r"<!--.*?-->", "", BODY, flags=re.DOTALL).split()) <= 1750


def test_every_citation_has_an_entry_and_every_entry_is_cited():
    assert len(ENTRIES) == BIB.count("\n@") + 1
    assert set(re.findall(r"(?<![\w.])@(\w+)", BODY)) == set(ENTRIES)
    for entry in ENTRIES.values():
        assert all(field(entry, name) for name in ("title", "author", "year"))


def test_the_papers_are_cited_with_their_titles_authors_and_addresses():
    for paper in papers():
        entry = ENTRIES[paper.name]
        assert (field(entry, "title"), field(entry, "year")) == (paper.title, str(paper.year))
        families = [author.partition(",")[0] for author in field(entry, "author").split(" and ")]
        assert families == paper.authors.split(", ")
        assert paper.url.endswith(field(entry, "doi") or field(entry, "url"))


def test_the_metadata_have_one_entry_per_paper():
    assert METADATA["title"].startswith("[Re] ")
    assert METADATA["type"] == "Replication"
    assert (FOLDER / METADATA["bibliography"]).is_file()
    assert METADATA["keywords"].split(", ") == [*CITATION["keywords"], "Python"]
    assert [author["name"] for author in METADATA["authors"]] == [author["name"] for author in FRONT["authors"]]
    entries = {entry["bib"]: entry for entry in METADATA["replication"]}
    assert set(entries) == {paper.name for paper in papers()}
    assert len(entries) == len(METADATA["replication"])
    for paper in papers():
        cite = entries[paper.name]["cite"]
        assert cite.startswith(f"{paper.authors}. {paper.title}. ")
        assert cite.endswith(f"{paper.year}.")
        assert (entries[paper.name]["url"] or "") == paper.url


def test_numbers_are_in_generated_regions_only():
    """So that none goes stale: elsewhere the text has neither decimals nor percentages nor counts of claims."""
    written = re.sub(r"<!-- (\w+): .*?<!-- end of \1 -->", "", BODY, flags=re.DOTALL)
    assert re.findall(r"\d+\.\d+|\d+ ?%|\d+ (?:claims|datasets|methods)", written) == []
