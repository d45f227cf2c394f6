"""The names in the files of a paper: each that stands for nothing is refused before anything runs."""

from dataclasses import fields, replace

import pytest

from kmdr.base.errors import UserError
from kmdr.claims import declared_names
from kmdr.claims.catalogue import papers
from kmdr.claims.declared_names import check_declared_names
from kmdr.claims.reported import reported
from kmdr.cli import new
from kmdr.cli.commands import report
from kmdr.config import studies
from kmdr.reporting.reproduce import check_modules

# The fields that refer to something by its name.
REFERENCES = ("studies", "facts", "datasets", "scope", "study", "base", "reducers", "entry")


def with_other_names(made):
    """Yield copies of an item, claim, fact or the like in which one name has a letter more, with that name."""
    for field in fields(made):
        value = getattr(made, field.name)
        if field.name not in REFERENCES or not value:
            continue
        if isinstance(value, str):
            yield replace(made, **{field.name: f"{value}x"}), f"{value}x"
        elif isinstance(value, tuple):
            for i, name in enumerate(value):
                yield replace(made, **{field.name: (*value[:i], f"{name}x", *value[i + 1 :])}), f"{name}x"
        else:
            for key, other in value.items():
                yield replace(made, **{field.name: {**value, key: f"{other}x"}}), f"{other}x"
                yield replace(made, **{field.name: {**value, f"{key}x": other}}), f"{key}x"


def changed_paper(paper, **changes):
    """Return a copy of a paper with other values, also of what its modules list."""
    copy = replace(paper)
    vars(copy).update({name: getattr(paper, name) for name in ("items", "claims", "facts")} | changes)
    return copy


def copies_with_another_name(paper):
    """Yield copies of a paper in which one name, at any place, has a letter more, with that name and its file."""
    for attribute, file in (
        ("items", "items.py"), ("claims", "claims.py"), ("facts", "facts.py"), ("implementations", "paper.toml"),
    ):  # fmt: skip
        listed = getattr(paper, attribute)
        for i, made in enumerate(listed):
            for other, name in with_other_names(made):
                yield {attribute: (*listed[:i], other, *listed[i + 1 :])}, name, file
    if paper.reconstruction:
        for other, name in with_other_names(paper.reconstruction):
            yield {"reconstruction": other}, name, "paper.toml"


def test_all_names_of_the_papers_exist():
    check_modules()


@pytest.mark.parametrize("paper", papers(), ids=lambda paper: paper.name)
def test_a_name_with_a_letter_more_is_refused_with_its_file_and_the_nearest_name(paper):
    count = 0
    for changed, name, file in copies_with_another_name(paper):
        with pytest.raises(UserError) as refusal:
            check_declared_names(changed_paper(paper, **changed))
        assert str(paper.folder.folder / file) in str(refusal.value)
        assert f"named {name!r}" in str(refusal.value)
        count += 1
    assert count > len(paper.claims)


@pytest.mark.parametrize("column", ["id", "dataset"])
def test_an_unknown_name_in_reported_numbers_is_refused(column, monkeypatch):
    paper = next(paper for paper in papers() if not (paper.folder.folder / "multiverse.yaml").is_file())
    table = reported(paper.name).astype({column: object})
    table.loc[len(table) - 1, column] = "nothing"
    monkeypatch.setattr(declared_names, "reported", lambda name: table)
    with pytest.raises(UserError, match=rf"reported\.csv: {column}: no .* is named 'nothing'"):
        check_declared_names(paper)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"central": {"": "", "order": 5}}, "central of .* has 'order': 5; give texts"),
        ({"side": {3: "because"}}, "side of .* has 3: 'because'; give texts"),
        ({"central": {"a": "b"}, "side": {"a": "c"}}, "part 'a' of .* is both central and side"),
        ({"scope": tuple("usps")}, "scope of .* is the text 'usps'; give a list"),
    ],
)
def test_parts_and_a_scope_that_are_no_names_are_refused(change, words):
    first, *others = papers()[0].claims
    with pytest.raises(UserError, match=words):
        check_declared_names(changed_paper(papers()[0], claims=(replace(first, **change), *others)))


@pytest.fixture
def skeleton(tmp_path, monkeypatch):
    """The folder of a new paper, and ``KMDR_PATH`` that names its plugin."""
    new.write("paper", "smith24", tmp_path)
    monkeypatch.setenv("KMDR_PATH", str(tmp_path))
    return tmp_path / "papers" / "smith24"


def test_a_new_paper_has_only_names_that_exist(skeleton):
    check_modules()


FLIP = """
study:
  name: smith24_flip
  paper: smith24
  datasets: [digits]
  reducers: [svd]
  flip: {entry: ENTRY, base: [smith24_fig1], claims: [smith24-1]}
repeats: 2
"""


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        ("paper: smith24", "paper: smith25", "smith25"),
        ("base: [smith24_fig1]", "base: [smith24_fig2]", "smith24_fig2"),
        ("claims: [smith24-1]", "claims: [smith24-2]", "smith24-2"),
        ("entry: ENTRY", "entry: starst", "starst"),
        ("claims: [", "datasets: {digit: digits}, claims: [", "digit"),
        ("claims: [", "datasets: {digits: digit}, claims: [", "digit"),
        ("claims: [", "reducers: {svds: svd}, claims: [", "svds"),
        ("claims: [", "reducers: {svd: svds}, claims: [", "svds"),
    ],
)
def test_an_unknown_name_in_a_study_is_refused_with_its_file(skeleton, before, after, name):
    entry = papers()[0].points[0].id
    file = skeleton / "studies" / "smith24_flip.yaml"
    file.write_text(FLIP.replace("ENTRY", entry))
    check_modules()
    text = FLIP.replace(before, after).replace("ENTRY", entry)
    assert text != FLIP
    file.write_text(text)
    studies._read.cache_clear()
    with pytest.raises(UserError) as refusal:
        check_modules()
    assert str(refusal.value).startswith(f"{file}: study.")
    assert f"is named {name!r}" in str(refusal.value)


def test_a_report_refuses_what_a_run_refuses(skeleton, tmp_path):
    file = skeleton / "claims.py"
    text = file.read_text()
    assert "smith24_fig1" in text
    file.write_text(text.replace("studies=[", "scope=['diggits'], studies=["))
    with pytest.raises(UserError, match="did you mean 'digits'"):
        report(tmp_path / "results")
