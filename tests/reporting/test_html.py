import base64
import dataclasses
import doctest
import hashlib
import io
import math
import re
from html.parser import HTMLParser
from itertools import pairwise

import pandas as pd
import pytest
from PIL import Image

from kmdr.claims import catalogue
from kmdr.claims.verdicts import Verdict
from kmdr.figures import canvas, escape
from kmdr.figures.escape import markdown_escaped
from kmdr.reporting import exhibits, html
from kmdr.reporting.causes import RULE
from kmdr.reporting.exhibits import compared, embedded, figure_numbers
from kmdr.reporting.html import CHOICES_RULE, OUTCOMES, STATES, code_marked, shortfalls
from kmdr.reporting.model import Reproduction
from kmdr.results import untrusted_text as text_module
from reports import THINNED, curves, made_figure, make_report, page_and_markdown, papers, write_report
from rows import markdown_of

VOID = {"meta", "link", "img", "br", "input"}
# The papers that a report shows.
PAPERS = papers()
PAPERS_URLS = {paper.url for paper in PAPERS if paper.url}


class Page(HTMLParser):
    """The elements of a page, with their attributes and the text in them; complains of tags that do not match."""

    def __init__(self, text):
        super().__init__()
        self.elements, self._open = [], []
        self.feed(text)
        self.close()
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        assert len(names) == len(set(names)), f"{tag} repeats an attribute"
        element = {"tag": tag, "text": "", "in": [parent["tag"] for parent in self._open], **dict(attributes)}
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag):
        assert self._open.pop()["tag"] == tag

    def handle_data(self, data):
        for element in self._open:
            element["text"] += data

    def all(self, *tags, **attributes):
        return [
            element
            for element in self.elements
            if element["tag"] in tags
            and all(value in element.get(name, "").split() for name, value in attributes.items())
        ]

    def inside(self, start, tag):
        """The elements of a tag from an element on, up to the next of the element's own kind."""
        at = self.elements.index(start)
        rest = self.elements[at + 1 :]
        end = next((i for i, element in enumerate(rest) if element["tag"] == start["tag"]), len(rest))
        return [element for element in rest[:end] if element["tag"] == tag]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("run")


@pytest.fixture(scope="module")
def report():
    return make_report(THINNED)


@pytest.fixture(scope="module")
def source(report, folder):
    page, *_ = write_report(report, folder)
    return page.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(source):
    return Page(source)


@pytest.fixture(scope="module")
def text(folder, source):
    return markdown_of(folder)


def ids_of(report):
    return [made.item.id for made in report.items] + [verdict.claim.id for verdict in report.verdicts]


@pytest.mark.slow
def test_the_same_report_gives_the_same_bytes_and_both_files(report, folder, source):
    before = source.encode()
    written = write_report(report, folder)
    names = ["index.html", "index.md", *(f"{paper.name}.md" for paper in report.papers), "runs.md"]
    assert written == [folder / "report" / name for name in names]
    assert written[0].read_bytes() == before


def test_every_id_occurs_once_and_every_inner_link_and_label_has_its_target(page):
    ids = [element["id"] for element in page.elements if "id" in element]
    assert len(ids) == len(set(ids))
    targets = [element["href"][1:] for element in page.all("a") if element["href"].startswith("#")]
    assert targets
    assert set(targets) <= set(ids)
    assert {element["aria-labelledby"] for element in page.elements if "aria-labelledby" in element} <= set(ids)


def test_the_first_view_has_a_card_for_each_paper_and_a_square_for_each_claim(page, report):
    (cards, *_) = page.all("div", **{"class": "cards"})
    assert [link["href"] for link in page.all("a") if link["in"][-2:] == ["article", "h2"]] == [
        f"#paper-{paper.name}" for paper in report.papers
    ]
    squares = {link["href"][1:]: link["text"] for link in page.all("a", **{"class": "square"})}
    assert "A finding" in cards["text"]
    assert squares == {verdict.claim.id: f"{verdict.claim.id}: {verdict.outcome}" for verdict in report.verdicts}
    assert "1 rerun, 1 in part" in " ".join(cards["text"].split())


def test_every_view_is_a_section_with_a_heading_and_a_link_that_is_in_the_navigation(page):
    sections = page.all("section", **{"class": "view"})
    assert [section["id"] for section in sections][:1] == ["home"]
    (menu,) = page.all("nav")
    links = [link["href"] for link in page.all("a") if link["in"][-1] == "li" and "nav" in link["in"]]
    assert links == [f"#{section['id']}" for section in sections]
    assert len(page.all("h1")) == len(sections)
    assert all("section" in heading["in"] for heading in page.all("h1"))
    assert [section["id"] for section in sections if "shown" in section["class"]] == ["home"]
    assert "Papers" in menu["text"]


def test_no_two_states_of_a_kind_share_a_symbol():
    for states in (OUTCOMES, html.ITEM_STATES):
        assert len({STATES[state][0] for state in states}) == len(states)


def test_figures_are_in_the_page_with_alternative_texts(page, report):
    images = page.all("img")
    assert len(images) == sum(made.item.kind == "figure" and made.state != "not run" for made in report.items)
    for image in images:
        assert image["src"].startswith("data:image/webp;base64,")
        assert len(image["alt"]) > 30
    first = next(made for made in report.items if made.item.id == "bmd09_fig1")
    assert any(first.item.title in image["alt"] and "r from 5 to 20" in image["alt"] for image in images)


def test_the_page_loads_nothing_and_links_only_the_papers_and_its_own_files(page, source, folder):
    for element in page.elements:
        assert not element.get("src", "data:").startswith(("http", "//", "file"))
        assert not any(name.startswith("on") for name in element)  # no handlers in attributes
    for element in page.all("link"):
        assert element["href"] == "data:,"
    outward = {element["href"] for element in page.all("a") if not element["href"].startswith("#")}
    assert {href for href in outward if href.startswith("http")} == PAPERS_URLS
    for href in outward - PAPERS_URLS:
        assert (folder / "report" / href).resolve().is_file(), href
    assert not re.search(r"@import|url\(", source)
    policy = page.all("meta", **{"http-equiv": "Content-Security-Policy"})[0]["content"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for kind in ("style", "script"):
        texts = re.findall(rf"<{kind}>(.*?)</{kind}>", source, re.DOTALL)
        digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts]
        assert re.search(rf"{kind}-src ([^;]*);", policy)[1] == " ".join(f"'sha256-{digest}'" for digest in digests)
    assert not any("style" in element or "srcdoc" in element for element in page.elements)
    assert not re.search(r"https?:|\*", policy)


def test_headings_are_in_order_and_the_language_is_given(page):
    levels = [int(element["tag"][1]) for element in page.elements if re.fullmatch("h[1-6]", element["tag"])]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert page.all("html")[0]["lang"].startswith("en")
    assert page.all("a")[0]["href"] == "#content"


def test_every_field_has_a_label_and_every_scrolled_box_a_name(page):
    for field in page.all("select", "input"):
        assert "label" in field["in"]
    boxes = page.all("div", **{"class": "box"})
    assert boxes
    for box in boxes:
        assert box["tabindex"] == "0"
        assert box["aria-label"]
    # Without the script nothing is shown that needs it.
    assert "hidden" in page.all("form")[0]
    assert not page.all("button")


def test_texts_are_escaped(source, report):
    assert "Leverage scores &#34;of words&#34; &lt;NIPS&gt;" in source
    assert "<NIPS>" not in source
    assert "<as in the paper>" not in source


def test_a_claim_shows_its_evidence(page, report):
    verdict = next(verdict for verdict in report.verdicts if verdict.outcome == "not supported")
    shown = " ".join(
        next(element for element in page.all("article") if element.get("id") == verdict.claim.id)["text"].split()
    )
    for expected in (
        verdict.claim.sentence, verdict.claim.where, verdict.sentence, verdict.rows_digest, verdict.command,
        "−0.25 [−0.35, −0.15] F", "0.004 against it", "120 of bzmd15_fig1", "One panel, laid out as nothing else.",
        "SVD by <r> columns✗ not supported → ✓ supportedIt falls by 2 % then.",
    ):  # fmt: skip
        assert expected in shown, expected
    assert "Parameters" not in shown


def test_the_claims_table_has_a_line_a_claim_with_what_sorts_and_filters_it(page, report):
    table = page.all("table", id="claims-table")[0]
    lines = [element for element in page.inside(table, "tr") if "data-verdict" in element]
    assert [(line["data-paper"], line["data-verdict"]) for line in lines] == [
        (verdict.claim.paper, verdict.outcome) for verdict in report.verdicts
    ]
    options = [element["text"] for element in page.all("option")]
    assert set(OUTCOMES) | {paper.name for paper in PAPERS} <= set(options)


def test_a_paper_that_was_run_has_a_summary_in_both_pages(source, text):
    for page in (source, text):
        assert "It is not supported &" in page.replace("&amp;", "&")
        assert "P moves by −0.25 to −0.12." in page
        assert page.count("Times are ours.") == 1
        assert "In all 1 min 15 s, over all workers." in page
    assert source.count('-summary"') == 1


def test_open_points_show_changes_and_the_verdicts_that_move(page):
    shown = " ".join(
        next(element for element in page.all("article") if element.get("id") == "open-rank")["text"].split()
    )
    assert "−2.0 % [−12.0 %, +8.0 %]" in shown
    assert "+0.500 [+0.400, +0.600]" in shown
    assert "bzmd15-1: ✗ not supported → ✓ supported" in shown
    assert "Unchanged: bzmd15-2 (undecided)" in shown
    assert "not run: no rows of flip_rank" in shown


def test_a_run_that_is_not_full_says_so_at_the_top(page, report, folder, tmp_path):
    banner = " ".join(page.all("div", **{"class": "banner"})[0]["text"].split())
    for expected in (
        "Not the full run",
        "few of its numbers",
        "10 min",
        "2 of 3 studies",
        "20 % to 40 %",
        "sparsified",
    ):
        assert expected in banner
    assert shortfalls({}) == shortfalls({**THINNED, "full": True}) == []
    full = make_report()
    page_path, *_ = write_report(full, tmp_path)
    assert not Page(page_path.read_text(encoding="utf-8")).all("div", **{"class": "banner"})
    assert "Not the full run" not in markdown_of(tmp_path)


def test_the_report_says_which_environment_made_how_many_rows(page, folder):
    (box,) = page.all("div", **{"aria-label": "Rows"})
    assert "bzmd15_fig1900" in page.inside(box, "table")[0]["text"].split()
    assert "bzmd15\\_fig1: 900 rows by `7090d7a38db0`" in (folder / "report" / "runs.md").read_text("utf-8")


def test_an_empty_report_is_a_page_too(tmp_path, report):
    empty = dataclasses.replace(
        report, items=[], verdicts=[], register=[], environments={}, code_versions={}, studies=[],
        missing={}, plan={},
    )  # fmt: skip
    Page(write_report(empty, tmp_path)[0].read_text(encoding="utf-8"))


def test_every_table_figure_and_claim_of_the_catalogue_appears(tmp_path, report):
    every = dataclasses.replace(
        report,
        papers=catalogue.papers(),
        items=[
            Reproduction(item, "not run", {}, pd.DataFrame(), None, ("no rows",), (), "kmdr")
            for item in catalogue.items()
        ],
        verdicts=[Verdict(claim, "not run", "no rows") for claim in catalogue.claims()],
    )
    page_path, *_ = write_report(every, tmp_path)
    page, text = Page(page_path.read_text(encoding="utf-8")), markdown_of(tmp_path)
    for id_ in [entry.id for entry in (*catalogue.items(), *catalogue.claims())]:
        assert [element["tag"] for element in page.elements if element.get("id") == id_] == ["article"]
        assert f".md#{id_})" in text


def colours(css, dark):
    blocks = re.findall(r":root \{(.*?)\}", css, flags=re.DOTALL)
    values = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", blocks[0]))
    return values | (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", blocks[1])) if dark else {})


def luminance(colour):
    """Relative luminance of WCAG 2.2."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("dark", [False, True])
def test_text_contrasts_with_what_is_behind_it_in_both_themes(source, dark):
    palette = colours(source, dark)
    pairs = [(front, back) for front in ("ink", "muted", "link") for back in ("paper", "card")]
    pairs += [(kind, f"{kind}-paper") for kind in {kind for _, kind in STATES.values()}]
    fills = {name for name in palette if name.endswith("-fill")}
    assert {name for pair in pairs for name in pair} | {"line"} | fills == set(palette)
    for front, back in pairs:
        light, dim = sorted((luminance(palette[front]), luminance(palette[back])), reverse=True)
        assert (light + 0.05) / (dim + 0.05) >= 4.5, (front, back)


def test_the_embedded_picture_is_the_file_in_its_proportions(folder, report):
    png = folder / "figures" / "bzmd15_fig1.png"
    picture = embedded(png.read_bytes())
    shown = io.BytesIO(base64.b64decode(picture.source.partition(",")[2]))
    with Image.open(png) as original, Image.open(shown) as packed:
        assert packed.convert("RGB").tobytes() == original.convert("RGB").tobytes()
        assert picture.width / picture.height == pytest.approx(original.width / original.height, rel=0.01)
        assert picture.width <= original.width


def test_numbers_of_curves_have_a_column_a_method():
    numbers = curves()
    grid = figure_numbers(numbers)
    assert grid.names == ["quantity", "dataset", "r", "RP", "SVD"]
    assert len(grid.lines) == len(numbers) // 2
    names = {"normalised objective F": "objective", "accuracy P": "accuracy"}
    for quantity, dataset, r, *means in grid.lines:
        means_of = numbers[
            (numbers["quantity"] == names[quantity])
            & (numbers["dataset"] == dataset.lower())
            & (numbers["r"] == int(r))
        ].set_index("label")["mean"]
        assert [float(mean) for mean in means] == pytest.approx([means_of["RP"], means_of["SVD"]], abs=5e-5)


def test_curves_of_one_name_keep_apart_by_their_method():
    numbers = curves().assign(label="reported")
    assert figure_numbers(numbers).names == ["quantity", "dataset", "r", "rp, reported", "svd, reported"]


def test_other_numbers_are_shown_as_they_are_and_cut_where_they_are_many():
    many = pd.DataFrame({"word": [f"w{i}" for i in range(5000)], "score": range(5000), "empty": [math.nan] * 5000})
    grid = figure_numbers(many)
    assert grid.names == ["word", "score"]
    assert grid.omitted == 5000 - len(grid.lines)
    assert 100 <= len(grid.lines) <= 1000
    assert figure_numbers(pd.DataFrame()) is None


def test_reported_numbers_stand_beside_the_means_that_they_speak_of(monkeypatch):
    made = made_figure("bzmd15_fig2", "rerun", "Compared")
    theirs = pd.DataFrame(
        [
            ("bzmd15_fig2", "synth", "rp", 10.0, "objective", 0.2, 0.05, "Figure 2"),
            ("bzmd15_fig2", "synth", "rp", 15.0, "objective", 0.3, 0.05, "Figure 2"),
            ("bzmd15_fig3", "synth", "rp", 10.0, "objective", 0.9, 0.05, "Figure 3"),
        ],
        columns=["id", "dataset", "method", "r", "quantity", "value", "reading_error", "where"],
    )
    monkeypatch.setattr(exhibits, "reported", lambda paper: theirs)
    grid = compared(made)
    rows = [dict(zip(grid.names, line, strict=True)) for line in grid.lines]
    numbers = made.numbers
    mean = numbers.query("quantity == 'objective' and reducer == 'rp' and r == 10")["mean"].item()
    assert float(rows[0]["ours"]) == pytest.approx(mean)
    assert float(rows[0]["difference"].replace("−", "-")) == pytest.approx(mean - 0.2)
    assert rows[1]["ours"] == rows[1]["difference"] == "–"  # no such r was run
    assert len(rows) == 2
    # What is drawn as reported is not ours, and of several curves of ours none is chosen.
    doubled = pd.concat([numbers, numbers.assign(mean=numbers["mean"] + 1, drawn_as="reported")])
    assert compared(dataclasses.replace(made, numbers=doubled)) == grid
    assert compared(dataclasses.replace(made, numbers=doubled.assign(drawn_as="curve"))) is None
    # A reported number without r is set beside the one mean that there is.
    monkeypatch.setattr(exhibits, "reported", lambda paper: theirs[:1].assign(r=math.nan))
    assert compared(made) is None
    assert compared(dataclasses.replace(made, numbers=numbers[numbers["r"] == 10])).lines[0][5] == rows[0]["ours"]
    monkeypatch.setattr(exhibits, "reported", lambda paper: theirs[:0])
    assert compared(made) is None


def test_markdown_has_the_scorecard_every_item_and_every_claim(text, report, folder):
    for id_ in ids_of(report):
        assert f".md#{id_})" in text
        assert text.count(f'<a id="{id_}"></a>') == 1
    for target in re.findall(r"\]\((?!http|#)([^)]+)\)", text):
        assert (folder / "report" / target.partition("#")[0]).resolve().is_file() or target.startswith(
            "../environments/"
        ), target
    tables = re.findall(r"(?:^\|.*\|\n)+", text, flags=re.MULTILINE)
    # The scorecard, one item, the studies; of the paper that was run: two outcomes, deviations, computing time, and the
    # choices that were flipped for one claim.
    assert len(tables) == 8
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1
    assert "Not the full run" in text
    assert "\n\n\n\n" not in text


def test_the_examples_of_the_docstrings_hold():
    failed, tried = map(sum, zip(*map(doctest.testmod, (html, escape, canvas, text_module)), strict=True))
    assert tried > 0
    assert failed == 0


def test_markdown_shows_signs_as_they_are():
    assert markdown_escaped("a_b* <x> | [y]\nz") == r"a\_b\* \<x\> \| \[y\] z"


def test_the_rules_of_causes_and_of_the_verdicts_of_choices_are_stated(tmp_path):
    page = write_report(make_report(), tmp_path)[0]
    assert RULE in page.read_text("utf-8")
    assert RULE in (page.parent / "index.md").read_text("utf-8")
    for text in (page.read_text("utf-8"), (page.parent / "runs.md").read_text("utf-8")):
        assert CHOICES_RULE in text


class VisibleText(HTMLParser):
    """The texts of a page that are neither code nor data."""

    def __init__(self, page):
        super().__init__()
        self.inside, self.texts = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        if tag in ("code", "script", "style"):
            self.inside.append(tag)

    def handle_endtag(self, tag):
        if tag in self.inside:
            self.inside.remove(tag)

    def handle_data(self, data):
        if not self.inside:
            self.texts.append(data)


SETTING = re.compile(r"\b[a-z]\w*(?:\.\w+)*=\S")


def test_settings_in_texts_are_code_and_datasets_and_quantities_have_their_names():
    """Answers and gaps had settings as on the command line among their words, and tables the names of columns."""
    report = make_report()
    point, changes, _ = report.register[0]
    register = [(point, changes, "Measured with kmeans.online=true, and ridge=0, loops=true."), *report.register[1:]]
    gap = "bio: get it, then dataset=bio dataset.path=FILE dataset.sha256=ITS_SHA256."
    items = [dataclasses.replace(made, gaps=(gap,)) for made in report.items]
    missing = {"bio": "run dataset.path=FILE"}
    page, _ = page_and_markdown(dataclasses.replace(report, register=register, items=items, missing=missing))
    visible = " ".join(VisibleText(page).texts)
    assert SETTING.findall(visible) == []
    for setting in ("kmeans.online=true", "ridge=0", "loops=true", "dataset.path=FILE", "dataset.sha256=ITS_SHA256"):
        assert f"<code>{setting}</code>" in page
    assert re.search(r'href="#study-([^"]+)"><code>\1<', page)
    assert not re.search(r'href="#study-([^"]+)">\1<', page)


@pytest.mark.parametrize("text", ["F = 0.5 at r=", "https://example.org/?a=b&c=d", "E[CCᵀ] = AAᵀ", "x<y & z"])
def test_other_equals_signs_are_text(text):
    assert "<code>" not in code_marked(text)
