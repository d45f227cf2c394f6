"""The report in a real browser: what only a browser can tell of it."""

import base64
import io
import os
import random
import re
import shlex
import shutil
from pathlib import Path
from string import ascii_lowercase

import pytest
from PIL import Image
from selenium.webdriver.common.keys import Keys

from browser import MISSING, chromium
from kmdr.reporting.exhibits import figure_numbers
from reports import THINNED, explored_report, make_report, write_report

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


@pytest.fixture(scope="module")
def report():
    return make_report(THINNED)


@pytest.fixture(scope="module")
def page(report, tmp_path_factory):
    return write_report(report, tmp_path_factory.mktemp("run"))[0]


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def browser(session, page):
    """The page, freshly opened on a wide screen; its end must find the console empty."""
    session.resize(1100)
    session.emulate()
    session.devtools("Emulation.setScriptExecutionDisabled", value=False)
    session.open(page)
    yield session
    assert session.console() == []


def views(browser):
    return browser.execute_script("return [...document.querySelectorAll('.view')].map((one) => one.id)")


def column(browser, table, index):
    script = """
    return [...document.querySelectorAll(`#${arguments[0]} tbody tr`)].filter((row) => !row.hidden)
      .map((row) => row.cells[arguments[1]].textContent.trim());
    """
    return browser.execute_script(script, table, index)


def choose(browser, name, value):
    script = """
    const field = document.querySelector(`#claim-filter [name=${arguments[0]}]`);
    field.value = arguments[1];
    field.dispatchEvent(new Event("input", {bubbles: true}));
    return document.getElementById("claim-count").textContent;
    """
    return browser.execute_script(script, name, value)


def test_figures_load_when_they_come_into_sight(browser, report):
    state = "return [...document.images].map((image) => image.complete && image.naturalWidth)"
    assert len(browser.execute_script(state)) == sum(
        made.item.kind == "figure" and made.state != "not run" for made in report.items
    )
    for view in views(browser):
        browser.go(view)
        for i in range(browser.execute_script("return document.images.length")):
            inside = f"document.images[{i}].closest('.view').id === '{view}'"
            browser.execute_script(f"if ({inside}) document.images[{i}].scrollIntoView()")
            browser.wait_for(f"return !({inside}) || document.images[{i}].naturalWidth > 100")


HITS = "return [...document.querySelectorAll('#hits li')].map((one) => one.dataset.address)"


def clear_search(browser):
    browser.go("home")
    browser.execute_script("const box = document.getElementById('search'); box.value = ''; box.focus()")


def test_the_search_finds_claims_figures_and_words_by_the_keyboard(browser):
    for words, address in (
        ("bzmd15-1", "#bzmd15-1"),
        ("Figure 10 lf20", "#lf20_fig10"),
        ("flip rank", "#study-flip_rank"),
    ):
        clear_search(browser)
        browser.press(*words)
        assert browser.execute_script(HITS)[0] == address
        assert (
            browser.execute_script("return document.getElementById('search').getAttribute('aria-expanded')") == "true"
        )
        browser.press(Keys.ENTER)
        browser.wait_for(f"return location.hash === '{address}'")
        browser.wait_for(f"return document.getElementById('{address[1:]}').checkVisibility()")
    clear_search(browser)
    browser.press(*"no such words at all xyzzy", Keys.ESCAPE)
    assert browser.execute_script("return document.getElementById('hits').hidden")


SCROLLS = "return arguments[0].scrollWidth > arguments[0].clientWidth + 1"
PARENTS = "return [arguments[0].parentElement.localName]"


def hits_of(browser, words):
    """Return the addresses of the hits, the first first."""
    clear_search(browser)
    browser.execute_script(
        "const box = document.getElementById('search');"
        "box.value = arguments[0]; box.dispatchEvent(new Event('input', {bubbles: true}));",
        words,
    )
    return browser.execute_script(HITS)


def misspelt(text, rng):
    """Return a text with one edit in one of its words of at least four letters."""
    word = rng.choice(list(re.finditer(r"[A-Za-z]{4,}", text)))
    i, letter = rng.randrange(word.start(), word.end() - 1), rng.choice(ascii_lowercase)
    a, b = text[i], text[i + 1]
    return text[:i] + rng.choice([letter + a + b, b, letter + b, b + a]) + text[i + 2 :]


def test_the_search_finds_titles_with_one_wrong_letter(session, explored_page):
    """It found nothing."""
    session.emulate()
    session.open(explored_page)
    index = session.execute_script("return JSON.parse(document.getElementById('search-index').textContent)")
    rng = random.Random(0)
    for _ in range(3):
        for _, title, address, *_ in index:
            words = misspelt(title, rng)
            assert address in hits_of(session, words)[:5], words
    session.console()


@pytest.mark.parametrize(
    ("words", "alike"),
    [
        ("COIL 20", "coil20"),
        ("coil-20", "COIL20"),
        ("LÉVERAGE", "leverage"),
        ("le\u0301verage", "leverage"),
        ("random sign", "random_sign"),
        ("randomsign", "random_sign"),
    ],
)
def test_the_search_ignores_case_accents_hyphens_and_spaces(session, explored_page, words, alike):
    session.emulate()
    session.open(explored_page)
    session.execute_script(
        """
        const index = document.getElementById("search-index");
        index.textContent = JSON.stringify([["dataset", "COIL20: best method", "#answers?dataset=coil20", ""],
          ...JSON.parse(index.textContent)]);
        """
    )
    assert hits_of(session, words)[0] == hits_of(session, alike)[0]
    session.console()


def test_exact_hits_come_before_misspelt_ones_and_short_words_are_exact(session, explored_page):
    session.emulate()
    session.open(explored_page)
    assert hits_of(session, "usps")[0] == "#answers?dataset=usps"
    assert hits_of(session, "uspz")[0] == "#answers?dataset=usps"
    assert hits_of(session, "svx") == [None]
    index = session.execute_script("return JSON.parse(document.getElementById('search-index').textContent)")
    named = [address for *words, address, more in index if "leverage" in f"{words} {more}".lower()]
    assert hits_of(session, "leverage") == named[:12] != []
    session.console()


def test_the_search_finds_a_paper_by_its_name_authors_title_and_venue(session, explored_page):
    """It found only the words of its short title."""
    session.emulate()
    session.open(explored_page)
    for words in ("bzmd15", "title of bzmd15", "venue 2015", "signs"):
        assert hits_of(session, words)[0] == "#paper-bzmd15", words
    session.console()


def test_the_search_for_an_r_alone_finds_the_datasets_at_it(session, explored_page):
    session.emulate()
    session.open(explored_page)
    assert hits_of(session, "r = 30")[:2] == ["#answers?dataset=synth&r=30", "#answers?dataset=usps&r=30"]
    session.console()


def test_the_numbers_of_a_figure_are_made_when_they_are_opened(browser, report):
    figure = next(made for made in report.items if made.item.kind == "figure" and len(made.numbers))
    opened = f"document.querySelector('[data-table=\"{figure.item.id}\"]')"
    assert browser.execute_script(f"return {opened}.querySelectorAll('td').length") == 0
    browser.execute_script(f"{opened}.open = true")
    cells = "[...row.cells].map((cell) => cell.textContent)"
    shown = browser.wait_for(f"return [...{opened}.querySelectorAll('tbody tr')].map((row) => {cells})")
    grid = figure_numbers(figure.numbers)
    assert shown == grid.lines
    heads = browser.execute_script(f"return [...{opened}.querySelectorAll('th')].map((head) => head.textContent)")
    assert heads == grid.names


def test_no_request_leaves_the_page(session, page):
    session.requested()
    session.open(page)
    for control in ("summary", "th button", "button.copy"):
        session.execute_script(f"for (const one of document.querySelectorAll('{control}')) one.click()")
    requests = session.requested()
    assert page.as_uri() in requests
    assert all(address == page.as_uri() or address.startswith("data:") for address in requests)
    assert session.execute_script("return window.violations") == []
    assert session.execute_script("return performance.getEntriesByType('resource').map((one) => one.name)") == []


def test_the_policy_refuses_what_would_leave_the_page(session, page):
    session.open(page)
    address = "http://127.0.0.1:9/x.png"
    session.execute_script("new Image().src = arguments[0]", address)
    assert session.execute_script("return new Promise((done) => setTimeout(() => done(window.violations), 200))") == [
        address
    ]
    session.console()


def test_filters_choose_rows_and_say_how_many(browser, report):
    ids = [verdict.claim.id for verdict in report.verdicts]
    assert column(browser, "claims-table", 0) == ids
    assert choose(browser, "paper", "lf20") == f"2 of {len(ids)} claims"
    assert column(browser, "claims-table", 0) == ["lf20-1", "lf20-10"]
    choose(browser, "verdict", "undecided")
    assert column(browser, "claims-table", 0) == ["lf20-10"]
    choose(browser, "paper", "")
    assert column(browser, "claims-table", 0) == ["bzmd15-2", "lf20-10"]
    assert choose(browser, "text", "MORE bzmd15-2").startswith("1 of")
    assert choose(browser, "text", "no such word").startswith("0 of")
    choose(browser, "text", "")
    choose(browser, "verdict", "")
    assert column(browser, "claims-table", 0) == ids


@pytest.mark.parametrize(
    ("table", "heading", "expected"),
    [
        # Effects 0.5, –, −0.25, 0.03125, 12, 1.5, 0.7: by value, not by letter, and what is missing comes last.
        ("claims-table", "Effect", ["bzmd15-1", "bzmd15-2", "bmd09-1", "lf20-10", "lf20-1", "lst17-1", "bmd09-2"]),
        ("claims-table", "p for", ["bmd09-1", "lst17-1", "lf20-1", "bzmd15-2", "lf20-10", "bzmd15-1", "bmd09-2"]),
        ("studies-table", "Time", ["lst17_rcv1", "flip_rank", "bzmd15_fig1"]),
        ("studies-table", "Study", ["bzmd15_fig1", "flip_rank", "lst17_rcv1"]),
    ],
)
def test_sorting_orders_rows_both_ways_and_says_so(browser, table, heading, expected):
    click = """
    const heads = [...document.querySelectorAll(`#${arguments[0]} th`)];
    heads.find((one) => one.textContent === arguments[1]).querySelector("button").click();
    return heads.map((one) => one.getAttribute("aria-sort")).filter(Boolean);
    """
    assert browser.execute_script(click, table, heading) == ["ascending"]
    assert column(browser, table, 0) == expected
    assert browser.execute_script(click, table, heading) == ["descending"]
    missing = [name for name in expected if name == "bmd09-2"]
    assert column(browser, table, 0) == [name for name in expected[::-1] if name not in missing] + missing


def test_a_filter_outlives_sorting(browser):
    choose(browser, "paper", "bzmd15")
    browser.execute_script("document.querySelector('#claims-table th:nth-child(4) button').click()")
    assert column(browser, "claims-table", 0) == ["bzmd15-1", "bzmd15-2"]


def test_commands_are_copied_or_selected(browser):
    script = """
    const button = document.querySelector("button.copy");
    button.click();
    const told = () => [button.textContent, document.getElementById("status").textContent];
    return new Promise((done) => setTimeout(() => done(told()), 200));
    """
    shown, told = browser.execute_script(script)
    assert shown == told
    assert shown in ("Copied", "Selected")


@pytest.mark.parametrize("width", [360, 768, 1440])
def test_the_page_is_as_wide_as_the_screen(browser, width):
    browser.resize(width)
    browser.execute_script("for (const one of document.querySelectorAll('details')) one.open = true")
    script = """
    const wide = [...document.body.querySelectorAll("*")].filter((one) =>
      one.getBoundingClientRect().right > innerWidth + 1 && !one.closest(".box, .skip, .hidden-text"));
    return [document.documentElement.scrollWidth, innerWidth, wide.map((one) => one.outerHTML.slice(0, 80))];
    """
    for view in views(browser):
        browser.go(view)
        content, screen, wide = browser.execute_script(script)
        assert screen == width
        assert content <= screen
        assert wide == [], view


def ground_at_the_edges(box):
    """Return the commonest colours at the left and at the right edge of a box, and behind its content."""
    shown = Image.open(io.BytesIO(box.screenshot_as_png)).convert("RGB")
    columns = [shown.crop((x, 4, x + 2, shown.height - 4)) for x in (3, shown.width - 5)]
    return [max(strip.getcolors(100_000))[1] for strip in (*columns, shown)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_box_that_scrolls_sideways_has_a_shadow_at_each_edge_behind_which_there_is_more(
    session, explored_page, scheme
):
    """On a phone, tables seemed to end at the edge of their box."""
    session.resize(390)
    session.emulate(prefers_color_scheme=scheme)
    session.open(explored_page)
    session.execute_script("for (const each of document.querySelectorAll('details')) each.open = true")
    seen = set()
    for view in views(session):
        session.go(view)
        for box in session.find_elements("css selector", f"#{view} .box"):
            if not box.is_displayed() or not session.execute_script(SCROLLS, box):
                continue
            named = session.execute_script("return [...arguments[0].attributes].map((one) => one.name)", box)
            assert {"tabindex", "role", "aria-label"} <= set(named)
            kind = box.find_element("css selector", "*").tag_name, "figure" in session.execute_script(PARENTS, box)
            if kind in seen:
                continue
            seen.add(kind)
            session.execute_script("arguments[0].scrollIntoView({block: 'center'})", box)
            left, right, ground = ground_at_the_edges(box)
            assert left == ground != right
            session.execute_script("arguments[0].scrollLeft = 1e6", box)
            left, right, ground = ground_at_the_edges(box)
            assert left != ground == right
            session.execute_script("arguments[0].scrollLeft = 0; arguments[0].focus()", box)
            session.press(*[Keys.ARROW_RIGHT] * 4)
            assert session.wait_for("return arguments[0].scrollLeft > 0", box)
    assert seen == {("table", False), ("img", True)}
    session.console()


def test_a_box_that_shows_all_has_no_shadow(session, explored_page):
    session.resize(1400)
    session.emulate()
    session.open(explored_page)
    session.go("runs")
    box = session.find_element("css selector", "#runs .box:has(#studies-table)")
    assert not session.execute_script(SCROLLS, box)
    assert len(set(ground_at_the_edges(box))) == 1
    session.console()


def test_dark_and_light_follow_the_reader_and_figures_do_too(browser):
    script = """
    const of = (selector) => getComputedStyle(document.querySelector(selector)).backgroundColor;
    return [of("body"), of("figure .box")];
    """
    browser.emulate(prefers_color_scheme="light")
    assert browser.execute_script(script) == ["rgb(255, 255, 255)"] * 2
    browser.emulate(prefers_color_scheme="dark")
    body, figure = browser.execute_script(script)
    for colour in (body, figure):
        assert max(int(channel) for channel in colour[4:-1].split(",")) < 64
    # White paper turned over, and each hue back where it was.
    assert (
        browser.execute_script("return getComputedStyle(document.images[0]).filter")
        == "invert(0.89) hue-rotate(180deg)"
    )
    browser.emulate("print", prefers_color_scheme="dark")
    assert browser.execute_script("return getComputedStyle(document.images[0]).filter") == "none"


@pytest.mark.parametrize(
    ("view", "names"),
    [("answers", {"paper", "verdict", "text", "Effect", "p for"}), ("runs", {"Study", "Time", "Copy"})],
)
def test_the_keyboard_reaches_every_control_in_the_order_of_the_page_with_a_visible_focus(browser, view, names):
    browser.go(view)  # from a view's address on, the keyboard goes on in the view
    browser.execute_script("""
        window.seen = [];
        addEventListener("focusin", ({target}) => seen.push([
          target.name || target.textContent.trim(), [...document.querySelectorAll("*")].indexOf(target),
          getComputedStyle(target).outlineStyle]));
    """)
    controls = browser.execute_script(
        """
        const view = document.getElementById(arguments[0]);
        return [...view.querySelectorAll("a, button, select, input, summary, [tabindex]")]
          .filter((one) => one.checkVisibility() && !one.closest("details:not([open]) > :not(summary)")).length;
    """,
        view,
    )
    browser.press(*[Keys.TAB] * controls)
    seen = browser.execute_script("return seen")
    assert len(seen) == controls
    assert names <= {name for name, *_ in seen}
    places = [place for _, place, _ in seen]
    assert places == sorted(places)
    assert all(outline != "none" for *_, outline in seen)


def test_the_first_press_of_the_tab_key_offers_to_skip_the_navigation(browser):
    browser.press(Keys.TAB)
    assert browser.execute_script("return document.activeElement.textContent") == "Skip to the content"
    browser.press(Keys.ENTER)
    browser.press(Keys.TAB)
    assert browser.execute_script("return document.activeElement.closest('#home') !== null")


def test_a_heading_sorts_by_the_keyboard(browser):
    browser.go("studies-table")
    browser.execute_script("document.querySelector('#studies-table th:nth-child(4) button').focus()")
    browser.press(Keys.ENTER)
    assert column(browser, "studies-table", 3) == ["0", "80", "900"]


def test_without_script_all_content_is_there_and_no_dead_control(session, page, report):
    session.devtools("Emulation.setScriptExecutionDisabled", value=True)  # of pages, not of selenium
    session.open(page)

    def count(selector):
        return session.execute_script("return document.querySelectorAll(arguments[0]).length", selector)

    assert count("#claims-table tbody tr") == len(report.verdicts)
    assert count("form:not([hidden])") == 0
    assert count("button") == 0
    session.devtools("Emulation.setScriptExecutionDisabled", value=False)


def test_paper_gets_the_content_of_closed_details_but_not_the_controls(browser):
    assert len(base64.b64decode(browser.devtools("Page.printToPDF")["data"])) > 10_000
    assert browser.execute_script("return document.querySelectorAll('details[open]').length") == 0  # closed again
    browser.emulate("print")
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    shown = browser.execute_script("""
        return ["details:not(.bulk) p", "details.bulk", "nav", "form", "button.copy"].map((selector) =>
          [...document.querySelectorAll(selector)].filter((one) => one.checkVisibility()).length);
    """)
    assert shown[0] > 5
    assert shown[1:] == [0, 0, 0, 0]


def test_filters_of_claims_are_in_the_address_too(session, page):
    session.open(page)
    choose(session, "paper", "lf20")
    address = session.wait_for("return location.hash")
    assert address == "#claims?paper=lf20"
    session.open(page, address)
    assert column(session, "claims-table", 0) == ["lf20-1", "lf20-10"]
    session.console()


@pytest.mark.parametrize(
    ("form", "field", "value"),
    [("claim-filter", "paper", "lf20"), ("explore-form", "quantity", "accuracy"), ("answers-form", "by", "accuracy")],
)
@pytest.mark.parametrize("events", [["input"], ["change"], ["input", "change"]], ids="+".join)
def test_a_choice_acts_once_on_input_change_or_both(session, explored_page, form, field, value, events):
    session.emulate()  # an earlier test may have shown a page as on paper, without forms
    session.open(explored_page)
    view = form.partition("-")[0]
    if view != "claim":
        session.open(explored_page, f"#{view}")
        session.wait_for("return document.getElementById(arguments[0]).dataset.ready", form)
    session.execute_script(
        """
        window.acts = 0;
        const replace = history.replaceState.bind(history);
        history.replaceState = (...state) => { window.acts++; replace(...state); };
        const field = document.getElementById(arguments[0]).elements[arguments[1]];
        field.value = arguments[2];
        for (const name of arguments[3]) field.dispatchEvent(new Event(name, {bubbles: true}));
        """,
        form, field, value, events,
    )  # fmt: skip
    assert session.wait_for(f"return location.hash.includes('{field}={value}')")
    assert session.execute_script("return window.acts") == 1
    session.console()


@pytest.fixture(scope="module")
def explored_page(tmp_path_factory):
    return write_report(explored_report(), tmp_path_factory.mktemp("explored"))[0]


# A page in the dark differs by its colours alone.
RULES = {"light": {}, "dark": {"runOnly": ["color-contrast", "link-in-text-block"]}}


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_rule_of_accessibility_is_broken(session, explored_page, width, scheme):
    axe = pytest.importorskip("axe_core_python", reason="needs axe-core-python")
    session.resize(width)
    session.emulate(prefers_color_scheme=scheme)
    session.open(explored_page)
    session.execute_script("for (const each of document.querySelectorAll('details')) each.open = true")
    session.execute_script((Path(axe.__file__).parent / "axe.min.js").read_text("utf-8") + "; window.axe = axe;")
    check = "window.found = null; axe.run(document, arguments[0]).then((found) => { window.found = found; })"
    broken = "return window.found.violations.map((rule) => [rule.id, rule.nodes.slice(0, 3).map((node) => node.html)])"
    for view in views(session):
        session.go(view)
        for form in {"explore": ["explore"], "answers": ["answers", "method"]}.get(view, ()):
            session.execute_script("document.getElementById(arguments[0]).scrollIntoView()", f"{form}-form")
            session.wait_for("return document.getElementById(arguments[0]).dataset.ready", f"{form}-form")
        session.execute_script(check, RULES[scheme])
        session.wait_for("return Boolean(window.found)")
        assert session.execute_script(broken) == [], view
    session.console()


def test_an_address_shows_the_view_of_its_element_and_opens_the_details_around_it(browser, page):
    shown = "return [...document.querySelectorAll('.view')].filter((one) => one.checkVisibility()).map((one) => one.id)"
    current = "return [...document.querySelectorAll('#menu [aria-current]')].map((one) => one.hash)"
    browser.expect(shown, ["home"])
    for view in views(browser):
        browser.go(view)
        browser.expect(shown, [view])
        browser.expect(current, [f"#{view}"])
    browser.open(page, "#bzmd15-1")
    browser.expect(shown, ["paper-bzmd15"])
    browser.expect("return document.getElementById('bzmd15-1').getBoundingClientRect().top < 200", True)
    browser.execute_script("location.hash = 'no-such-part'")
    browser.expect(shown, ["home"])
    browser.execute_script("history.back()")
    browser.expect(shown, ["paper-bzmd15"])
    browser.open(page, "#no-such-part")
    browser.expect(shown, ["home"])


def test_on_a_phone_the_views_are_in_a_menu(browser):
    browser.resize(390)
    visible = "return document.getElementById('menu-links').checkVisibility()"
    click = "document.getElementById('menu-button').click()"
    assert not browser.execute_script(visible)
    browser.execute_script(click)
    assert browser.execute_script(visible)
    browser.execute_script("document.querySelector('#menu-links a[href=\"#runs\"]').click()")
    browser.wait_for("return document.getElementById('runs').checkVisibility()")
    assert not browser.execute_script(visible)
    browser.resize(1280)
    assert browser.execute_script(visible)


SHOWN = "return [...document.querySelectorAll('.view')].filter((one) => one.checkVisibility()).map((one) => one.id)"


@pytest.mark.parametrize("address", ["#%", "#%E0%A4%A", "#%FF?x=%", "#answers?dataset=%E0%A4", "#claims?paper=%"])
def test_an_address_that_cannot_be_decoded_shows_a_view(session, explored_page, address):
    """The page stayed empty, and nothing on it worked."""
    session.emulate()
    session.open(explored_page, address)
    session.expect(SHOWN, ["answers" if address[1] in "ac" else "home"])
    session.expect("return Boolean(document.getElementById('menu-button'))", True)
    assert session.console() == []


@pytest.mark.parametrize("name", [b"caf\xe9", b"a$& $'b", b"50% of it's #1"])
def test_commands_name_the_folder_of_the_page_whatever_its_name(session, explored_page, tmp_path, name):
    """A name that is not UTF-8 stopped all scripts, and "$&" in a name was replaced by the command."""
    folder = tmp_path / os.fsdecode(name)
    shutil.copytree(explored_page.parent, folder / "report")
    session.emulate()
    session.open(folder / "report" / explored_page.name, "#answers?dataset=usps")
    session.wait_for("return document.getElementById('answers-form').dataset.ready")
    script = "return [...document.querySelectorAll('.command code')].map((code) => code.textContent)"
    place = str(folder) if name.isascii() else folder.as_uri().removeprefix("file://")
    commands = [command for command in session.execute_script(script) if "FOLDER" not in command]
    assert len(commands) > 5
    for command in commands:
        assert place in shlex.split(command.replace("out=", "")), command
    assert session.console() == []


def test_the_title_is_that_of_the_view(browser, page):
    """After a link it ended with "#", and an address opened anew had the title of the overview."""
    browser.open(page, "#paper-bzmd15")
    browser.expect("return document.title", "kmdr: Signs & <more>, Venue 2015")
    browser.go("runs")
    browser.expect("return document.title", "kmdr: Runs")
    browser.go("home")
    browser.expect("return document.title.endsWith('?')", True)


def test_the_skip_link_skips_the_navigation_of_every_view(browser, page):
    """It led to the overview."""
    browser.open(page, "#runs")
    browser.execute_script("document.querySelector('.skip').focus()")
    browser.press(Keys.ENTER)
    browser.expect("return document.activeElement.id", "content")
    browser.expect(SHOWN, ["runs"])
    browser.press(Keys.TAB)
    assert browser.execute_script("return document.activeElement.closest('#runs') !== null")


def test_the_way_back_leads_to_the_place_that_was_left(session, explored_page):
    """It led to the beginning of the view."""
    session.resize(1280)
    session.emulate()
    session.open(explored_page, "#answers")
    session.wait_for("return document.getElementById('answers-form').dataset.ready")
    session.execute_script("document.querySelector('#claims-table a[href=\"#lf20-10\"]').scrollIntoView()")
    place = session.execute_script("return scrollY")
    assert place > 500
    session.execute_script("document.querySelector('#claims-table a[href=\"#lf20-10\"]').click()")
    session.expect(SHOWN, ["paper-lf20"])
    session.back()
    session.expect(SHOWN, ["answers"])
    session.expect("return scrollY", place)
    session.forward()
    session.expect(SHOWN, ["paper-lf20"])
    assert session.console() == []


def test_a_link_to_the_present_address_shows_it_once_more(browser, page):
    """Nothing happened: closed details stayed closed, and on a phone the menu stayed open."""
    browser.open(page, "#bzmd15-1")
    details = "document.querySelector('#bzmd15-1 > details')"
    browser.expect(f"return {details}.open", True)
    browser.execute_script(f"{details}.open = false")
    browser.execute_script("""
        const link = Object.assign(document.createElement("a"), {href: "#bzmd15-1"});
        document.querySelector("main").append(link);
        link.click();
    """)
    browser.expect(f"return {details}.open", True)
    browser.resize(390)
    browser.open(page, "#runs")
    visible = "return document.getElementById('menu-links').checkVisibility()"
    browser.execute_script("document.getElementById('menu-button').click()")
    browser.expect(visible, True)
    browser.execute_script("document.querySelector('#menu-links a[href=\"#runs\"]').click()")
    browser.expect(visible, False)


def test_the_escape_key_closes_the_menu_and_keeps_the_focus_on_its_button(browser, page):
    browser.resize(390)
    browser.open(page, "#runs")
    browser.execute_script("document.getElementById('menu-button').click()")
    browser.execute_script("document.querySelector('#menu-links a').focus()")
    browser.press(Keys.ESCAPE)
    browser.expect("return document.activeElement.id", "menu-button")
    assert not browser.execute_script("return document.getElementById('menu-links').checkVisibility()")


def test_without_script_the_menu_does_not_cover_a_phone(session, page):
    """It stayed in sight over the content."""
    session.resize(390)
    session.emulate()
    session.devtools("Emulation.setScriptExecutionDisabled", value=True)
    session.open(page)
    assert session.execute_script("return getComputedStyle(document.querySelector('nav')).position") == "static"
    session.devtools("Emulation.setScriptExecutionDisabled", value=False)


def test_the_hits_close_when_the_search_box_loses_the_focus_and_open_again_with_it(browser):
    """They covered the page while the keyboard went on behind them."""
    clear_search(browser)
    browser.press(*"bzmd15")
    state = """
    const box = document.getElementById("search");
    const isOpen = !document.getElementById("hits").hidden;
    return [isOpen, box.getAttribute("aria-expanded"), box.getAttribute("aria-activedescendant")];
    """
    browser.expect(state, [True, "true", "hit-0"])
    browser.press(Keys.TAB)
    browser.expect(state, [False, "false", None])
    assert (
        browser.execute_script("return document.activeElement.checkVisibility() && document.activeElement.localName")
        == "a"
    )
    browser.execute_script("document.getElementById('search').focus()")
    browser.expect(state, [True, "true", "hit-0"])
    browser.find_element("css selector", "#hits li:nth-child(2)").click()
    browser.wait_for("return location.hash === document.querySelector('#hits li:nth-child(2)').dataset.address")
    browser.go("home")
    browser.expect(state, [False, "false", None])


def test_arrows_choose_a_hit_and_a_hit_of_the_present_view_is_reached(browser):
    clear_search(browser)
    browser.press(*"overview")
    assert browser.execute_script(HITS)[0] == "#home"
    browser.press(Keys.ENTER)
    browser.expect("return document.getElementById('hits').hidden", True)
    clear_search(browser)
    browser.press(*"bzmd15")
    chosen = "return document.getElementById('search').getAttribute('aria-activedescendant')"
    for key, hit in (
        (Keys.ARROW_DOWN, 1),
        (Keys.ARROW_DOWN, 2),
        (Keys.ARROW_UP, 1),
        (Keys.ARROW_UP, 0),
        (Keys.ARROW_UP, 0),
    ):
        browser.press(key)
        assert browser.execute_script(chosen) == f"hit-{hit}"
        assert browser.execute_script("return document.querySelector('#hits [aria-selected=true]').id") == f"hit-{hit}"


def test_keys_of_an_input_method_do_not_follow_a_hit(browser):
    """The key Enter, which ends the composition of a Chinese or Japanese word, left the page."""
    clear_search(browser)
    browser.press(*"bzmd15")
    browser.execute_script("""
        for (const key of ["Enter", "Escape"]) document.getElementById("search").dispatchEvent(
          new KeyboardEvent("keydown", {key, isComposing: true, bubbles: true, cancelable: true}));
    """)
    assert browser.execute_script("return location.hash") == "#home"
    assert browser.execute_script("return document.getElementById('search').value") == "bzmd15"


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ("   ", 0), ("😀", 1), (".*[(", 1), ("\0", 1), ("聚类", 1), ("שלום", 1), ("r = 20", None), ("the", None),
        ("<img src=x onerror=violations.push(1)>", None), ("x" * 100_000, 1), ("leverge " * 20_000, None),
        ("__proto__ constructor", None),
    ],
)  # fmt: skip
def test_the_search_answers_any_text(browser, words, count):
    """Symbols alone got no answer, and a pasted text stopped the page for minutes."""
    hits = hits_of(browser, words)
    assert count is None or len(hits) == count
    assert hits or not words.strip()
    assert browser.execute_script("return document.querySelectorAll('#hits img').length + violations.length") == 0


def test_an_unknown_choice_in_the_address_of_the_claims_is_none(browser, page):
    browser.open(page, "#claims?paper=zzz&verdict=q&text=bzmd15-2&paper=lf20")
    assert column(browser, "claims-table", 0) == ["bzmd15-2"]
    script = "return [...document.querySelectorAll('#claim-filter select')].map((field) => field.selectedIndex)"
    assert browser.execute_script(script) == [0, 0]


def test_every_button_that_copies_names_its_command(session, explored_page):
    """The one of the answers had no command in its name."""
    session.emulate()
    session.open(explored_page, "#answers?dataset=usps")
    session.wait_for("return document.getElementById('answers-form').dataset.ready")
    script = "return [arguments[0].textContent, arguments[0].parentElement.querySelector('code').textContent]"
    for button in session.find_elements("css selector", "#answers button.copy"):
        assert button.accessible_name == " ".join(session.execute_script(script, button))
    assert session.console() == []


def test_marks_of_verdicts_keep_their_colours_where_the_reader_sets_colours(browser):
    """The dots of the claims, which are links, and the squares of the legend could not be seen."""
    browser.emulate(forced_colors="active")
    colours = "return [...document.querySelectorAll('.square')].map((one) => getComputedStyle(one).backgroundColor)"
    ground = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    shown = browser.execute_script(colours)
    assert len(set(shown)) > 2
    assert ground not in shown


def test_figures_that_were_not_in_sight_are_printed(browser, page):
    """They were missing on paper and in a PDF."""
    browser.open(page)
    browser.wait_for("return [...document.images].every((image) => image.complete && image.naturalWidth > 100)")
    printed = base64.b64decode(browser.devtools("Page.printToPDF")["data"])
    assert len(re.findall(rb"/Subtype\s*/Image", printed)) >= 2


@pytest.mark.parametrize("width", [320, 390, 640])
def test_nothing_is_cut_off_at_large_zoom_and_with_wide_spacing_of_text(session, explored_page, width):
    """Spacing as in criterion 1.4.12 of WCAG; 320 pixels are a wide screen at 400 %."""
    session.resize(width)
    session.emulate()
    wide = "* { line-height: 1.5 !important; letter-spacing: 0.12em !important; word-spacing: 0.16em !important; }"
    script = """
    const shown = [...document.querySelectorAll("main *")].filter((one) => one.checkVisibility());
    return [document.documentElement.scrollWidth <= innerWidth, shown.filter((one) => !one.closest("svg, .box") &&
      !one.classList.contains("hidden-text") && one.getBoundingClientRect().right > innerWidth + 1)
      .map((one) => one.outerHTML.slice(0, 90))];
    """
    session.open(explored_page)
    for view in views(session):
        session.open(explored_page, f"#{view}")
        session.execute_script(
            "const sheet = new CSSStyleSheet(); sheet.replaceSync(arguments[0]); document.adoptedStyleSheets = [sheet];"
            "for (const one of document.querySelectorAll('details')) one.open = true;",
            wide,
        )
        session.expect(script, [True, []])
    assert session.console() == []


def test_the_label_of_an_axis_is_not_cut_off_on_a_phone(session, explored_page):
    session.resize(320)
    session.emulate()
    session.open(explored_page, "#explore?view=ranks&quantity=relative_objective")
    session.wait_for("return document.getElementById('explore-form').dataset.ready")
    script = """
    const frame = document.querySelector("#explore-plot svg").getBoundingClientRect();
    return [...document.querySelectorAll("#explore-plot text")].filter((text) => {
      const box = text.getBoundingClientRect();
      return box.left < frame.left - 1 || box.right > frame.right + 1;
    }).map((text) => text.textContent);
    """
    assert session.execute_script(script) == []
    assert session.console() == []
