"""The views "Answers" and "Explore" in a real browser: every number is that of the rows, by pandas and scipy alone."""

import base64
import csv
import io
import math
import urllib.parse
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from scipy.stats import t as student

from browser import MISSING, chromium
from kmdr.figures.style import KNOWN
from reports import explored_report, explored_rows, write_report
from rows import make_rows

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

LABELS = {style.label: name for name, style in KNOWN.items()}
FORMS = {"relative_objective": ".4f", "accuracy": ".3f", "objective": ".4g", "total_seconds": ".4g", "n_iter": ".4g"}
ROWS = """
return [...document.querySelectorAll(`#${arguments[0]} tbody tr`)]
  .map((row) => [...row.cells].map((cell) => cell.textContent.trim()));
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return write_report(explored_report(), tmp_path_factory.mktemp("explored"))[0]


@pytest.fixture
def browser(session, page):
    """The browser, for pages that are shown by `show`; its end must find the console empty."""
    session.resize(1280)
    session.emulate()
    yield session
    assert session.console() == []
    assert session.execute_script("return window.violations") == []


def show(browser, page, address, form=None):
    browser.open(page, address)
    browser.wait_for(
        "return document.getElementById(arguments[0]).dataset.ready", f"{form or address[1:].split('?')[0]}-form"
    )


def choose(browser, form, name, value):
    """Choose an entry of a list, as a reader does, and wait until the address has it."""
    browser.execute_script(
        """
        const field = document.getElementById(arguments[0]).elements[arguments[1]];
        field.value = arguments[2];
        field.dispatchEvent(new Event("input", {bubbles: true}));
        """,
        form, name, value,
    )  # fmt: skip
    browser.wait_for("return location.hash.includes(arguments[0])", urllib.parse.urlencode({name: value}))


def expected_cells(rows, quantity):
    """Return centre, ends and number of repetitions of each method and r."""
    rows = rows[rows["concurrency"] == 1] if quantity.endswith("seconds") else rows
    if quantity == "relative_objective":
        whole = rows[rows["reducer"] == "none"].set_index("repeat")["objective"]
        rows = rows.assign(relative_objective=rows["objective"] / rows["repeat"].map(whole))
    cells = {}
    for key, values in rows.groupby(["reducer", "r"])[quantity]:
        n, x = len(values), np.sort(values)
        if quantity.endswith("seconds"):
            place = int(binom.ppf(0.025, n, 0.5))
            cells[key] = np.median(x), *((x[place - 1], x[-place]) if place else (math.nan,) * 2), n
        else:
            half = student.ppf(0.975, n - 1) * values.sem() if n > 1 else math.nan
            cells[key] = values.mean(), values.mean() - half, values.mean() + half, n
    return cells


def is_shown(text, value, form):
    """Whether a text is a value rounded to its format, with all digits before the point."""
    if math.isnan(value):
        return text in ("–", "")
    size, digits = abs(value), int(form[1])
    last = (
        10.0**-digits
        if form[2] == "f"
        else 1.0
        if size >= 1000
        else 10.0 ** (math.floor(math.log10(size or 1)) + 1 - digits)
    )
    number = float(text.replace("−", "-"))
    return abs(number - value) <= 0.5001 * last and (form[2] == "f" or abs(number) < 1000 or "e" not in text)


@pytest.mark.parametrize("quantity", FORMS)
@pytest.mark.parametrize("dataset", ["usps", "synth"])
def test_every_number_of_the_explorer_is_that_of_the_rows(browser, page, dataset, quantity):
    """1000 was shown as 1 and 2500 as 25."""
    rows = explored_rows()
    expected = expected_cells(rows[rows["dataset"] == dataset], quantity)
    show(browser, page, f"#explore?dataset={dataset}&quantity={quantity}")
    shown = {(LABELS[label], int(r)): cells for label, r, *cells in browser.execute_script(ROWS, "explore-table")}
    assert set(shown) == set(expected)
    for key, (*numbers, n) in shown.items():
        assert int(n) == expected[key][3]
        assert all(
            is_shown(text, value, FORMS[quantity]) for text, value in zip(numbers, expected[key], strict=False)
        ), key


def test_decimal_points_of_a_column_are_aligned(browser, page):
    show(browser, page, "#explore?dataset=usps&quantity=total_seconds")
    script = """
    const place = (cell) => {  // where the point of a number is, from the right end of its cell
      const text = cell.firstChild, range = document.createRange(), at = text.data.search(/[.\\u2008]/);
      range.setStart(text, at < 0 ? text.data.length : at);
      range.setEnd(text, at < 0 ? text.data.length : at + 1);
      return Math.round(range.getBoundingClientRect().left);
    };
    return [...document.querySelectorAll("#explore-table tbody tr")]
      .filter((row) => !/[–e]/.test(row.cells[2].textContent)).map((row) => place(row.cells[2]));
    """
    places = browser.execute_script(script)
    assert len(places) >= 4
    assert max(places) - min(places) <= 1


def test_a_filter_of_r_and_a_click_on_a_heading_choose_and_order_the_rows(browser, page):
    show(browser, page, "#explore?dataset=usps&quantity=accuracy&from=30&to=1000")
    shown = browser.execute_script(ROWS, "explore-table")
    assert {int(r) for label, r, *_ in shown if label != "none"} == {30, 1000}
    script = "document.querySelector('#explore-table th:nth-child(3) button').click()"
    for sign in (1, -1):
        browser.execute_script(script)
        means = [float(row[2]) for row in browser.execute_script(ROWS, "explore-table")]
        assert means == sorted(means, reverse=sign < 0)


def test_the_axis_of_r_is_logarithmic_and_marks_the_r_that_were_run(browser, page):
    show(browser, page, "#explore?dataset=usps&quantity=accuracy")
    script = """
    return [...document.querySelectorAll("#explore-plot text[text-anchor=middle]")]
      .map((text) => [text.textContent, Number(text.getAttribute("x"))]).filter(([text]) => /^[0-9]+$/.test(text));
    """
    ticks = {int(text): x for text, x in browser.execute_script(script)}
    assert set(ticks) == {5, 30, 1000, 2500}
    assert (ticks[1000] - ticks[30]) / (ticks[30] - ticks[5]) == pytest.approx(math.log(1000 / 30) / math.log(30 / 5))
    choose(browser, "explore-form", "x", "linear")
    ticks = {int(text): x for text, x in browser.execute_script(script)}
    assert (ticks[2500] - ticks[1000]) / (ticks[1000] - ticks[5]) == pytest.approx(1500 / 995)


def test_pointing_at_a_mark_tells_its_numbers(browser, page):
    rows = explored_rows()
    mean, low, high, n = expected_cells(rows[rows["dataset"] == "usps"], "accuracy")["leverage", 1000]
    show(browser, page, "#explore?dataset=usps&quantity=accuracy")
    x, y = browser.execute_script("""
    const marks = document.querySelectorAll("#explore-plot [data-label=leverage] > path[transform]");
    const box = marks[2].getBoundingClientRect();
    return [box.x + box.width / 2, box.y + box.height / 2];
    """)
    browser.devtools("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    told = browser.wait_for("return document.querySelector('#explore-plot output').textContent")
    assert told == f"leverage: r = 1000, accuracy P {mean:.3f} [{low:.3f}, {high:.3f}], n = {n}"


def saved(browser, kind):
    """Return what a button would save: the name of the file and its content."""
    browser.execute_script("""
    window.saved = null;
    HTMLAnchorElement.prototype.click = function () { window.saved = [this.download, this.href]; };
    document.getElementById(arguments[0]).click();
    """, f"explore-{kind}")  # fmt: skip
    name, address = browser.wait_for("return window.saved")
    head, _, body = address.partition(",")
    return name, base64.b64decode(body) if head.endswith(";base64") else urllib.parse.unquote_to_bytes(body)


def test_the_view_is_saved_as_csv_svg_and_png(browser, page):
    show(browser, page, "#explore?dataset=usps&quantity=accuracy&hide=svd")
    shown = browser.execute_script(ROWS, "explore-table")
    name, content = saved(browser, "csv")
    lines = list(csv.reader(io.StringIO(content.decode())))
    assert name == "kmdr_usps_accuracy.csv"
    assert lines[0] == ["method", "r", "mean", "low", "high", "n"]
    assert [[row[0], *map(float, filter(None, row[1:]))] for row in lines[1:]] == [
        [row[0], *(float(text) for text in row[1:] if text != "–")] for row in shown
    ]
    name, content = saved(browser, "svg")
    picture = ElementTree.fromstring(content)
    assert name == "kmdr_usps_accuracy.svg"
    assert {each.get("data-label") for each in picture.iter() if each.get("data-label")} == {
        "random_sign",
        "leverage",
        "none",
    }
    texts = {each.text for each in picture.iter("{http://www.w3.org/2000/svg}text")}
    assert {"random_sign", "leverage", "none", "number of dimensions r", "accuracy P"} <= texts
    name, content = saved(browser, "png")
    assert name == "kmdr_usps_accuracy.png"
    assert content.startswith(b"\x89PNG")


def test_an_address_brings_a_view_back(browser, page):
    show(browser, page, "#explore?dataset=synth&quantity=accuracy")
    choose(browser, "explore-form", "y", "log")
    browser.execute_script("document.querySelector('#explore-methods input[value=leverage]').click()")
    address = browser.wait_for("return location.hash.includes('hide=') && location.hash")
    state = """
    return ["explore-plot", "explore-note"].map((id) => document.getElementById(id).firstChild)
      .map((one) => one.outerHTML ?? one.data);
    """
    before = browser.execute_script(ROWS, "explore-table"), browser.execute_script(state)
    assert {row[0] for row in before[0]} == {"random_sign", "svd", "none"}
    show(browser, page, address)
    assert (browser.execute_script(ROWS, "explore-table"), browser.execute_script(state)) == before


def test_ranks_and_profiles_are_over_the_datasets_of_a_paper(browser, page):
    show(browser, page, "#explore?view=ranks&paper=bzmd15&quantity=objective")
    rows = explored_rows()
    means = rows.groupby(["dataset", "reducer", "r"])["objective"].mean().groupby(["dataset", "reducer"]).mean()
    ranks = means.groupby("dataset").rank().groupby("reducer").mean().sort_values()
    shown = browser.execute_script(ROWS, "explore-table")
    assert [(LABELS[label], float(rank), *others) for label, rank, *others in shown] == [
        (name, rank, "–", "–", "2")
        for name, rank in ranks.items()  # two datasets give no interval
    ]
    note = browser.execute_script("return document.getElementById('explore-note').textContent")
    assert "of six datasets or more" in note
    choose(browser, "explore-form", "view", "profiles")
    shares = {label: float(share) for label, _, share, *_ in browser.execute_script(ROWS, "explore-table")}
    assert set(shares) == set(ranks.index)
    assert set(shares.values()) == {1.0}


@pytest.mark.parametrize("r", [5, 30, 1000, 2500])
@pytest.mark.parametrize("by", ["accuracy", "relative_objective", "total_seconds"])
def test_the_ranking_is_that_of_the_rows(browser, page, r, by):
    rows = explored_rows()
    rows = rows[rows["dataset"] == "usps"]
    expected, times = expected_cells(rows, by), expected_cells(rows, "total_seconds")
    at_r = {name: cells for (name, size), cells in expected.items() if size in (r, 256)}
    show(browser, page, f"#answers?dataset=usps&r={r}&by={by}")
    heads = browser.execute_script(
        "return [...document.querySelectorAll('#answers-table th')].map((head) => head.textContent)"
    )
    shown = browser.execute_script(ROWS, "answers-table")
    order = sorted(at_r, key=lambda name: at_r[name][0], reverse=by == "accuracy")
    assert [next(name for name in at_r if row[1].startswith(name)) for row in shown] == order
    for name, row in zip(order, shown, strict=True):
        mean, low, high, n = at_r[name]
        centre, *ends = row[2].replace("[", " ").replace(",", " ").replace("]", " ").split()
        assert is_shown(centre, mean, FORMS[by])
        assert len(ends) == (0 if math.isnan(low) else 2)
        assert all(is_shown(text, end, FORMS[by]) for text, end in zip(ends, (low, high), strict=False))
        assert int(row[3]) == n
        if by != "total_seconds":
            time = times.get((name, r), times.get((name, 256)))
            assert (
                (row[-2] == row[-1] == "–")
                if time is None
                else (is_shown(row[-2], time[0], ".4g") and int(row[-1]) == time[3])
            )
    assert heads[2].endswith("[95 % interval]")
    sentence = browser.execute_script("return document.getElementById('answers-sentence').textContent")
    best = {"none": "k-means on all features (none)"}.get(order[0], order[0])
    assert sentence.startswith(f"On USPS at r = {r}, {best} has the best ")


def test_a_choice_is_in_the_address_and_leads_to_the_explorer_with_it(browser, page):
    show(browser, page, "#answers?dataset=usps&r=30&by=accuracy")
    choose(browser, "answers-form", "dataset", "synth")
    address = urllib.parse.parse_qs(browser.execute_script("return location.hash").partition("?")[2])
    assert address == {"dataset": ["synth"], "settings": ["bzmd15"], "r": ["30"], "by": ["accuracy"]}
    browser.execute_script("document.querySelector('#answers-rows a[href*=explore]').click()")
    browser.wait_for("return document.getElementById('explore-form').dataset.ready")
    state = "return ['dataset', 'quantity'].map((name) => document.getElementById('explore-form').elements[name].value)"
    assert browser.execute_script(state) == ["synth", "accuracy"]


def test_a_method_is_followed_over_the_datasets(browser, page):
    rows = explored_rows()
    show(browser, page, "#by-method?method=random_sign&within=10", "method")
    shown = browser.execute_script(ROWS, "method-table")
    assert [row[0].split(" ")[0] for row in shown] == ["Synth", "USPS"]
    for dataset, row in zip(("synth", "usps"), shown, strict=True):
        cells = expected_cells(rows[rows["dataset"] == dataset], "relative_objective")
        first = next((r for (name, r), cell in cells.items() if name == "random_sign" and cell[2] <= 1.1), None)
        assert row[2] == ("–" if first is None else str(first))


def test_failures_are_found_by_their_cause(browser, page):
    browser.open(page, "#failures")
    assert browser.wait_for("return document.getElementById('failures-table').checkVisibility()")
    causes = browser.execute_script(
        "return [...document.querySelectorAll('#failures-table tr[id]')].map((row) => row.id)"
    )
    assert "failures-hardware" in causes
    listed = "return [...document.querySelectorAll('#failures-undecided li > a')].map((link) => link.textContent)"
    assert browser.execute_script(listed) == ["bzmd15-2", "lf20-10"]


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("address", ["#answers?dataset=usps", "#explore?dataset=usps", "#explore?view=ranks"])
def test_no_view_is_wider_than_the_screen(browser, page, width, address):
    browser.resize(width)
    show(browser, page, address)
    script = """
    const wide = [...document.querySelectorAll("main *")].filter((one) => one.checkVisibility() &&
      one.getBoundingClientRect().right > innerWidth + 1 && !one.closest(".box, .hidden-text"));
    return [document.documentElement.scrollWidth <= innerWidth, wide.map((one) => one.outerHTML.slice(0, 80))];
    """
    assert browser.execute_script(script) == [True, []]


def test_a_name_that_looks_like_a_tag_or_a_formula_is_shown_as_it_is(browser, tmp_path):
    names = ["<a href='x'>y</a> & z", "=1+1"]
    rows = pd.concat([make_rows("custom", "usps", name, (5, 10), 3) for name in names])
    show(browser, write_report(explored_report(rows), tmp_path)[0], "#explore?dataset=usps")
    assert {row[0] for row in browser.execute_script(ROWS, "explore-table")} == set(names)
    assert browser.execute_script("return document.querySelectorAll('#explore a[href=x]').length") == 0
    lines = list(csv.reader(io.StringIO(saved(browser, "csv")[1].decode())))
    assert {line[0] for line in lines[1:]} == {names[0], "'=1+1"}


def test_seconds_of_parallel_trials_are_not_shown(browser, tmp_path):
    rows = pd.concat([make_rows("custom", "usps", name, (5, 10), 3, concurrency=2) for name in ("svd", "none")])
    show(browser, write_report(explored_report(rows), tmp_path)[0], "#explore?dataset=usps")
    offered = "return [...document.getElementById('explore-form').elements.quantity.options].map((one) => one.value)"
    assert not [name for name in browser.execute_script(offered) if name.endswith("seconds")]
    assert "timing_repeats=" in browser.execute_script("return document.getElementById('explore-note').textContent")


def test_the_first_method_is_one_of_most_experiments(browser, tmp_path):
    parts = [make_rows("custom", data, "svd", (5, 10), 3) for data in ("usps", "synth")]
    rows = pd.concat([*parts, make_rows("custom", "usps", "achlioptas", (5, 10), 3)])
    show(browser, write_report(explored_report(rows), tmp_path)[0], "#by-method?within=5", "method")
    offered = "return [...document.getElementById('method-form').elements.method.options].map((one) => one.value)"
    assert browser.execute_script(offered) == ["svd", "achlioptas"]
    assert {row[1] for row in browser.execute_script(ROWS, "method-table")} == {"svd"}


@pytest.mark.parametrize("view", ["answers", "explore"])
def test_the_first_dataset_shown_is_one_with_the_most_methods(browser, tmp_path, view):
    """Both views began with the first dataset by name, on which only k-means on all features was run."""
    rows = pd.concat(
        [make_rows("custom", "aaa", "none", 9, 3), *(make_rows("custom", "zzz", n, (5, 9), 3) for n in ("svd", "lle"))]
    )
    show(browser, write_report(explored_report(rows), tmp_path)[0], f"#{view}")
    assert browser.wait_for(f"return document.getElementById('{view}-form').elements.dataset.value") == "zzz"


@pytest.mark.parametrize(
    ("address", "chosen", "refused"),
    [
        ("#answers?dataset=nowhere&r=28&by=accuracy", ["synth", "30", "accuracy"], "dataset = nowhere, r = 28"),
        ("#answers?dataset=usps&r=31&dataset=synth", ["usps", "30", "relative_objective"], "r = 31"),
        ("#answers?dataset=usps&r=1e99&by=x%26y", ["usps", "2500", "relative_objective"], "r = 1e99, by = x&y"),
        ("#answers?dataset=usps&r=-3&by=", ["usps", "30", "relative_objective"], "r = -3, by = "),
        ("#answers?dataset=usps&r=30&by=accuracy", ["usps", "30", "accuracy"], None),
    ],
)
def test_an_address_with_an_unknown_choice_shows_the_nearest_and_says_so(browser, page, address, chosen, refused):
    """It showed the first of each list, e.g. the least r, and said nothing."""
    show(browser, page, address)
    fields = "const fields = document.getElementById('answers-form').elements;"
    assert browser.execute_script(f"{fields} return ['dataset', 'r', 'by'].map((name) => fields[name].value)") == chosen
    note = "const note = document.querySelector('#answers-form').previousElementSibling;"
    shown = browser.execute_script(f"{note} return note.hidden ? null : note.textContent")
    assert shown == (refused and f"The address asks for {refused}, which this report does not have here.")
    choose(browser, "answers-form", "dataset", "usps")
    browser.expect(f"{note} return note.hidden", True)


@pytest.mark.parametrize("kind", ["ranks", "profiles", "dataset"])
def test_a_plot_without_methods_says_that_there_is_nothing(browser, page, kind):
    """Without a method, the plot of ranks was drawn at minus infinity."""
    hidden = "&".join(f"hide={name}" for name in ("svd", "leverage", "random_sign", "none"))
    show(browser, page, f"#explore?view={kind}&paper=bzmd15&dataset=usps&quantity=objective&{hidden}")
    browser.expect("return document.querySelector('#explore-plot svg').textContent", "Nothing to show.")
    assert saved(browser, "svg")[1].startswith(b"<svg")


def test_a_range_of_r_may_be_given_from_either_end(browser, page):
    """Nothing was shown."""
    show(browser, page, "#explore?dataset=usps&quantity=accuracy&from=1000&to=30")
    shown = browser.execute_script(ROWS, "explore-table")
    assert {int(r) for label, r, *_ in shown if label != "none"} == {30, 1000}
