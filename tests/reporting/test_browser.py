"""The report in a real browser: what only a browser can tell of it."""

import base64
import dataclasses
import re
import time
from pathlib import Path

import pandas as pd
import pytest
from scipy.stats import binom
from scipy.stats import t as student
from selenium.webdriver.common.keys import Keys

from browser import MISSING, chromium
from kmdr.config.studies import studies
from kmdr.reporting.explore import explored
from reports import THINNED, make_report, write_report
from rows import make_rows

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


def go(browser, id_):
    """Show the view that contains an element, as a link to it does."""
    browser.execute_script("location.hash = arguments[0]", id_)
    wait_for(browser, f"return document.getElementById('{id_}').checkVisibility()")


def views(browser):
    return browser.execute_script("return [...document.querySelectorAll('.view')].map((one) => one.id)")


def wait_for(session, script):
    for _ in range(1200):
        if value := session.execute_script(script):
            return value
        time.sleep(0.05)
    raise AssertionError(script)


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


def test_every_figure_loads(browser, report):
    sizes = browser.execute_script("return [...document.images].map((image) => [image.complete, image.naturalWidth])")
    assert len(sizes) == sum(made.item.kind == "figure" and made.state != "not run" for made in report.items)
    assert all(complete and width > 100 for complete, width in sizes)


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
        go(browser, view)
        content, screen, wide = browser.execute_script(script)
        assert screen == width
        assert content <= screen
        assert wide == [], view


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
    go(browser, view)  # from a view's address on, the keyboard goes on in the view
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
    go(browser, "studies-table")
    browser.execute_script("document.querySelector('#studies-table th:nth-child(4) button').focus()")
    browser.press(Keys.ENTER)
    assert column(browser, "studies-table", 3) == ["0", "80", "900"]


def test_without_script_all_content_is_there_and_no_dead_control(session, page, report):
    session.devtools("Emulation.setScriptExecutionDisabled", value=True)
    session.open(page)
    tree = session.devtools("DOM.getDocument", depth=-1)["root"]["nodeId"]

    def count(selector):
        return len(session.devtools("DOM.querySelectorAll", nodeId=tree, selector=selector)["nodeIds"])

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


# -- exploring --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def explored_page(tmp_path_factory):
    """A page whose rows are known: two methods on two datasets, one of which has no labels."""
    folder = tmp_path_factory.mktemp("explored")
    parts = [
        make_rows("bzmd15_fig1", data, name, grid, 4, objective=lambda r, t, i=i: 0.5 - 0.01 * i + (t % 2) / r / 100)
        for data in ("usps", "synth")
        for i, (name, grid) in enumerate((("random_sign", (5, 10, 20)), ("leverage", (5, 10, 20)), ("none", 256)))
    ]
    rows = pd.concat(parts)
    rows.loc[rows["dataset"] == "synth", "accuracy"] = 0.75
    report = dataclasses.replace(make_report(THINNED), explored=explored(rows, studies()))
    return rows, write_report(report, folder)[0]


@pytest.fixture
def explorer(session, explored_page):
    """The part of the page that draws every mean, scrolled to and ready."""
    session.resize(1100)
    session.emulate()
    session.open(explored_page[1])
    wait_for(session, "return !(document.getElementById('explore-part')?.hidden ?? true)")
    go(session, "explore")
    wait_for(session, "return document.getElementById('explore-part').dataset.ready")
    yield session
    assert session.console() == []
    assert session.execute_script("return window.violations") == []


def set_field(session, name, value):
    session.execute_script(
        """
        const field = document.querySelector(`#explore-form [name=${arguments[0]}]`);
        field.value = arguments[1];
        field.dispatchEvent(new Event("input", {bubbles: true}));
        """,
        name,
        value,
    )


HOVERED = "return [...document.querySelectorAll('#explore-plot .hovertext tspan.line')].map((line) => line.textContent)"


def test_pointing_at_a_mark_shows_its_value_interval_and_repetitions(explorer, explored_page):
    set_field(explorer, "dataset", "uspsUSPS")
    set_field(explorer, "quantity", "objective")
    wait_for(explorer, "return location.hash.includes('quantity=objective&')")
    place = """
    const plot = document.getElementById("explore-plot"), box = plot.getBoundingClientRect(), full = plot._fullLayout;
    const trace = plot.data.find((one) => one.name === "random_sign");
    return [full.xaxis.l2p(10) + full.xaxis._offset + box.x, full.yaxis.l2p(trace.y[1]) + full.yaxis._offset + box.y];
    """
    x, y = explorer.execute_script(place)
    explorer.devtools("Input.dispatchMouseEvent", type="mouseMoved", x=x - 30, y=y - 30)
    explorer.devtools("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    shown = wait_for(explorer, HOVERED)
    rows = explored_page[0]
    own = rows[(rows["dataset"] == "usps") & (rows["reducer"] == "random_sign") & (rows["r"] == 10)]["objective"]
    low, high = student.interval(0.95, 3, own.mean(), own.sem())
    assert shown[:2] == ["random_sign", "r = 10"]
    assert shown[2] == f"normalised objective F: {own.mean():.4g} [{low:.4g}, {high:.4g}]"
    assert shown[3] == "4 repetitions"


def test_a_name_that_looks_like_a_tag_is_shown_as_it_is(session, tmp_path):
    name = "<a href='x'>y</a> & z"
    rows = make_rows("custom", "usps", name, (5, 10), 3)
    report = dataclasses.replace(make_report(THINNED), explored=explored(rows, []))
    session.open(write_report(report, tmp_path)[0])
    wait_for(session, "return !(document.getElementById('explore-part')?.hidden ?? true)")
    go(session, "explore")
    wait_for(session, "return document.getElementById('explore-part').dataset.ready")
    assert session.execute_script("return document.querySelectorAll('#explore-plot a[*|href]').length") == 0
    legend = "return document.querySelector('#explore-plot .legendtext').textContent"
    assert (
        session.execute_script(legend)
        == session.execute_script("return document.querySelector('#explore-table td').textContent")
        == name
    )
    session.console()


def test_a_method_that_does_not_depend_on_r_is_a_level_line(explorer):
    drawn = explorer.execute_script(
        "return document.getElementById('explore-plot').data.map((one) => [one.name, one.x, one.y])"
    )
    assert next((x, y) for name, x, y in drawn if name == "none") == ([5, 20], [1.0, 1.0])  # objective_ratio of rows


def test_what_is_shown_is_in_the_address_which_brings_it_back(explorer, explored_page):
    set_field(explorer, "dataset", "synthSynth")
    set_field(explorer, "quantity", "accuracy")
    set_field(explorer, "x", "log")
    explorer.execute_script("document.querySelector('#explore-methods input[value=\"leverage\"]').click()")
    address = wait_for(explorer, "return location.hash.includes('hide=') && location.hash")
    drawn = "return document.getElementById('explore-plot').data.map((one) => [one.name, one.y])"
    state = """
    const plot = document.getElementById("explore-plot");
    return [plot.layout.xaxis.type, plot.layout.yaxis.title.text, plot.data.map((one) => one.name)];
    """
    before = explorer.execute_script(drawn), explorer.execute_script(state)
    assert before[1] == ["log", "accuracy P", ["random_sign", "none"]]
    assert all(set(y) == {0.75} for _, y in before[0])
    explorer.execute_script("location.href = 'about:blank'")
    explorer.get(explored_page[1].as_uri() + address)
    wait_for(explorer, "return document.getElementById('explore-part').dataset.ready")
    assert (explorer.execute_script(drawn), explorer.execute_script(state)) == before


@pytest.mark.parametrize("view", ["ranks", "profiles"])
def test_all_datasets_are_drawn_as_ranks_and_profiles(explorer, view):
    set_field(explorer, "view", view)
    wait_for(explorer, f"return location.hash.includes('view={view}')")
    set_field(explorer, "quantity", "objective")
    cells = "[...row.cells].map((cell) => cell.textContent)"
    rows = wait_for(explorer, f"return [...document.querySelectorAll('#explore-table tbody tr')].map((row) => {cells})")
    best = "none"  # the least F on both
    assert rows[0][:2] == [best, "1"] if view == "ranks" else [best, "1", "1"] in [row[:3] for row in rows]


SECONDS = {2: 1e-7, 30: 1.5e-5, 400: 0.03, 1000: 2.5, 2500: 1000.0, 10000: 12345.6, 25000: 1e5}
CELLS = """
return [...document.querySelectorAll('#explore-table tbody tr')]
  .map((row) => [...row.cells].map((cell) => cell.textContent));
"""


@pytest.fixture(scope="module")
def wide_range(tmp_path_factory):
    """A page whose numbers go from 1e-7 to 1e5, with r and numbers of repetitions in the thousands."""
    folder = tmp_path_factory.mktemp("wide")
    rows = pd.concat(
        make_rows("bzmd15_fig1", data, name, r, repeats, objective=lambda r, t, i=i: (1 + i + t % 3) / 10 / r,
                  seconds=lambda r, t, i=i: SECONDS[r] * (1 + i + t % 2 / 7), n_iter=1000 * (i + 1), accuracy=0.0)
        for data in ("usps", "synth")
        for i, name in enumerate(("random_sign", "leverage"))
        for r, repeats in zip(SECONDS, (1, 2, 3, 4, 5, 10, 1000), strict=True)
    )  # fmt: skip
    report = dataclasses.replace(make_report(THINNED), explored=explored(rows, studies()))
    return rows, write_report(report, folder)[0]


@pytest.fixture
def wide_explorer(session, wide_range):
    session.resize(1100)
    session.emulate()
    session.open(wide_range[1])
    wait_for(session, "return !(document.getElementById('explore-part')?.hidden ?? true)")
    go(session, "explore")
    wait_for(session, "return document.getElementById('explore-part').dataset.ready")
    yield session
    assert session.console() == []


def is_number(text, expected):
    """Whether a text is a number to four digits, with all that are before the point; a dash is none."""
    if pd.isna(expected):
        return text in ("–", "")
    return float(text) == pytest.approx(expected, rel=5.1e-4, abs=0) and abs(float(text) - expected) < max(
        0.51, abs(expected) * 1e-5 if abs(expected) >= 1000 else 1
    )


@pytest.mark.parametrize("quantity", ["objective", "accuracy", "total_seconds", "reduction_seconds", "n_iter"])
def test_every_number_of_the_explorer_is_that_of_the_rows(wide_explorer, wide_range, quantity):
    """1000 was shown as 1 and 2500 as 25."""
    rows = wide_range[0]
    if quantity == "reduction_seconds":
        rows = rows.assign(reduction_seconds=rows["prepare_seconds"] + rows["reduce_seconds"])
    for dataset, label in (("usps", "USPS"), ("synth", "Synth")):
        set_field(wide_explorer, "dataset", dataset + label)
        set_field(wide_explorer, "quantity", quantity)
        wait_for(wide_explorer, f"return location.hash.includes('quantity={quantity}&')")
        wait_for(wide_explorer, f"return location.hash.includes('dataset={dataset}{label}')")
        groups = rows[rows["dataset"] == dataset].groupby(["reducer", "r"])[quantity]
        expected = {}
        for key, values in groups:
            n = len(values)
            if quantity.endswith("seconds"):
                place, x = int(binom.ppf(0.025, n, 0.5)), sorted(values)
                ends = (x[place - 1], x[-place]) if place else (float("nan"),) * 2
                expected[key] = values.median(), *ends, n
                continue
            half = student.ppf(0.975, n - 1) * values.sem() if n > 1 else float("nan")
            expected[key] = values.mean(), values.mean() - half, values.mean() + half, n
        shown = wide_explorer.execute_script(CELLS)
        assert [(method, int(r)) for method, r, *_ in shown] == [
            (name, r) for name in ("leverage", "random_sign") for r in SECONDS
        ]
        hovered = wide_explorer.execute_script(
            "return document.getElementById('explore-plot').data.map((one) => one.text)"
        )
        told = dict(zip([(m, int(r)) for m, r, *_ in shown], [text for line in hovered for text in line], strict=True))
        for method, r, mean, low, high, n in shown:
            cells = expected[method, int(r)]
            assert all(is_number(text, value) for text, value in zip((mean, low, high), cells, strict=False)), cells
            assert int(n) == cells[3]
            ends = "" if pd.isna(cells[1]) else f" [{low}, {high}]"
            assert told[method, int(r)].endswith(f": {mean}{ends}<br>{n} repetition{'s' * (cells[3] > 1)}")
            assert f"<br>r = {r}<br>" in told[method, int(r)]


def test_shares_of_a_profile_and_their_ends_are_both_percent(wide_explorer):
    set_field(wide_explorer, "view", "profiles")
    wait_for(wide_explorer, "return location.hash.includes('view=profiles')")
    set_field(wide_explorer, "quantity", "objective")
    texts = wide_explorer.execute_script(
        "return document.getElementById('explore-plot').data.flatMap((one) => one.text)"
    )
    cells = wide_explorer.execute_script(CELLS)
    assert len(texts) == len(cells) > 0
    for text, (_, factor, *shares) in zip(texts, cells, strict=True):
        numbers = [float(number) for number in re.findall(r"[\d.]+(?:e-\d+)?", text.partition("<br>")[2])]
        assert numbers == pytest.approx([float(factor), *(100 * float(share) for share in shares)], rel=2e-3)


def test_the_explorer_shows_no_seconds_of_parallel_trials(session, tmp_path):
    parts = [
        make_rows("custom", "usps", name, (5, 10), 3, concurrency=2, seconds=0.5) for name in ("random_sign", "none")
    ]
    parts.append(make_rows("custom", "synth", "random_sign", (5, 10), 3, seconds=0.25))
    parts.append(make_rows("custom", "synth", "random_sign", (5, 10), 3, concurrency=2, seconds=9.0, seed=1))
    report = dataclasses.replace(make_report(THINNED), explored=explored(pd.concat(parts), []))
    session.open(write_report(report, tmp_path)[0])
    wait_for(session, "return !(document.getElementById('explore-part')?.hidden ?? true)")
    go(session, "explore")
    wait_for(session, "return document.getElementById('explore-part').dataset.ready")
    offered = "return [...document.querySelectorAll('#explore-form [name=quantity] option')].map((one) => one.value)"
    note = "return document.getElementById('explore-note').textContent"
    set_field(session, "dataset", "uspsUSPS")
    wait_for(session, "return location.hash.includes('dataset=usps')")
    assert not [name for name in session.execute_script(offered) if name.endswith("_seconds")]
    assert "timing_repeats=" in session.execute_script(note)
    set_field(session, "dataset", "synthSynth")
    wait_for(session, "return location.hash.includes('dataset=synth')")
    set_field(session, "quantity", "total_seconds")
    wait_for(session, "return location.hash.includes('quantity=total_seconds')")
    assert [line[1:] for line in session.execute_script(CELLS)] == [
        [r, "0.25", "0.25", "0.25", "3"] for r in ("5", "10")
    ]
    assert "timing_repeats=" not in session.execute_script(note)
    session.console()


def test_filters_of_claims_are_in_the_address_too(session, page):
    session.open(page)
    choose(session, "paper", "lf20")
    address = session.execute_script("return location.hash")
    assert address == "#claims?paper=lf20"
    session.execute_script("location.href = 'about:blank'")
    session.get(page.as_uri() + address)
    assert column(session, "claims-table", 0) == ["lf20-1", "lf20-10"]
    session.console()


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_rule_of_accessibility_is_broken(session, explored_page, width, scheme):
    axe = pytest.importorskip("axe_core_python", reason="needs axe-core-python")
    session.resize(width)
    session.emulate(prefers_color_scheme=scheme)
    session.open(explored_page[1])
    session.execute_script("for (const each of document.querySelectorAll('details')) each.open = true")
    session.execute_script((Path(axe.__file__).parent / "axe.min.js").read_text("utf-8") + "; window.axe = axe;")
    broken = "return window.found.violations.map((rule) => [rule.id, rule.nodes.slice(0, 3).map((node) => node.html)])"
    for view in views(session):
        go(session, view)
        if view == "explore":
            wait_for(session, "return document.getElementById('explore-part').dataset.ready")
        session.execute_script("window.found = null; axe.run(document).then((found) => { window.found = found; })")
        wait_for(session, "return Boolean(window.found)")
        assert session.execute_script(broken) == [], view
    session.console()


def test_an_address_shows_the_view_of_its_element_and_opens_the_details_around_it(browser, page):
    shown = "return [...document.querySelectorAll('.view')].filter((one) => one.checkVisibility()).map((one) => one.id)"
    current = "return [...document.querySelectorAll('#menu [aria-current]')].map((one) => one.hash)"
    assert browser.execute_script(shown) == ["home"]
    for view in views(browser):
        go(browser, view)
        assert browser.execute_script(shown) == [view]
        assert browser.execute_script(current) == [f"#{view}"]
    browser.execute_script("location.href = 'about:blank'")
    browser.get(page.as_uri() + "#bzmd15-1")
    assert browser.execute_script(shown) == ["paper-bzmd15"]
    assert browser.execute_script("return document.getElementById('bzmd15-1').getBoundingClientRect().top") < 200
    browser.execute_script("history.back()")
    browser.get(page.as_uri() + "#no-such-part")
    assert browser.execute_script(shown) == ["home"]


def test_on_a_phone_the_views_are_in_a_menu(browser):
    browser.resize(390)
    visible = "return document.getElementById('menu-links').checkVisibility()"
    click = "document.getElementById('menu-button').click()"
    assert not browser.execute_script(visible)
    browser.execute_script(click)
    assert browser.execute_script(visible)
    browser.execute_script("document.querySelector('#menu-links a[href=\"#runs\"]').click()")
    wait_for(browser, "return document.getElementById('runs').checkVisibility()")
    assert not browser.execute_script(visible)
    browser.resize(1280)
    assert browser.execute_script(visible)
