"""Every number of the committed page, against the files from which it is made: the same value, rounded as it is shown.

``scripts/recompute.py`` compares the files with the rows.
"""

import base64
import gzip
import html
import json
import re
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from kmdr.base.paths import CHECKOUT
from kmdr.claims.catalogue import papers

REFERENCE = CHECKOUT / "results" / "reference"
# A number as it is shown: digits, decimals and an exponent; % divides by 100.
NUMBER = re.compile(r"(?<![\w.])[−+-]?\d+(?:\.\d+)?(?:e[−+-]?\d+)?(?:\s?%)?(?![\w.]*\w)")


def value_of(shown):
    """Return a shown number and half a unit of its last digit."""
    text = shown.replace("−", "-").rstrip()
    scale = 100 if text.endswith("%") else 1
    text = text.rstrip("% ")
    mantissa, _, exponent = text.partition("e")
    decimals = len(mantissa.partition(".")[2]) - int(exponent or 0)
    return float(text) / scale, 0.5 * 10.0**-decimals / scale


def assert_shows(shown, value, what):
    """Check that a text shows a value, rounded to its digits."""
    number, half = value_of(shown)
    assert abs(number - value) <= half * (1 + 1e-6) + 1e-12 * abs(value), f"{what}: {shown} for {value!r}"


def plain(markup):
    return html.unescape(re.sub(r"<[^>]*>", "", markup)).strip()


@pytest.fixture(scope="module")
def page():
    return (REFERENCE / "report" / "index.html").read_text("utf-8")


def article(page, name):
    start = page.index(f'<article id="{name}">')
    return page[start : page.index("</article>", start)]


@pytest.fixture(scope="module")
def components():
    return pd.read_csv(REFERENCE / "components.csv")


STATEMENT = re.compile(
    r'<div class="statement">\s*<p>(.*?)</p>.*?<p class="value">.*?</span> (.*?) <small>(.*?)</small>', re.DOTALL
)
P_VALUES = re.compile(r"p for (< 0\.001|[\d.]+), against (< 0\.001|[\d.]+)")
VALUE = re.compile(r"(\S+?)(?: \[(\S+), (\S+)\])?(?: (\D.*))?$")


def test_each_statement_shows_its_effect_interval_p_values_and_unit(page, components):
    checked = 0
    for claim, lines in components.groupby("claim"):
        lines_of = dict(list(lines.groupby("label")))
        shown = Counter()
        for found in STATEMENT.findall(article(page, claim)):
            label, value, small = map(plain, found)
            label = label.partition("; not counted")[0]
            match = VALUE.fullmatch(value)
            assert label in lines_of, f"{claim}: {label}"
            line = lines_of[label].iloc[min(shown[label], len(lines_of[label]) - 1)]
            shown[label] += 1
            where = f"{claim}: {label}"
            assert match, f"{where}: {value}"
            for text, column in zip(match.groups()[:3], ("effect", "low", "high"), strict=True):
                if text and "∞" not in text:
                    assert_shows(text, line[column], f"{where}: {column}")
                    checked += 1
            n, p_values = re.search(r"n = (\d+)", small), P_VALUES.search(small)
            p_for, p_against = p_values.groups() if p_values else (None, None)
            printed = re.search(r"paper (\S+), ours (\S+?)(?:;|$)", small)
            assert n or printed, f"{where}: {small}"
            assert not n or int(n[1]) == line["n"], where
            if printed:  # the committed page may round what a paper prints; see the next test
                assert_shows(printed[1], line["reported"], f"{where}: reported")
                assert_shows(printed[2], line["reported"] - line["effect"], f"{where}: ours")
            for text, column in ((p_for, "p_for"), (p_against, "p_against")):
                if text and text.startswith("<"):
                    assert line[column] < 0.001, where
                elif text:
                    assert_shows(text, line[column], f"{where}: {column}")
            checked += 1 + 2 * bool(p_for)
        decides = lines[(lines["decides"] == "yes")]["label"]
        assert set(decides) <= set(shown), f"{claim}: a deciding statement is not shown"
    assert checked > 2000


def test_each_claim_shows_its_sentence_and_repetitions(page):
    for line in pd.read_csv(REFERENCE / "verdicts.csv").itertuples():
        text = plain(article(page, line.claim))
        assert line.sentence in text, line.claim
        if line.repetitions == line.repetitions:
            assert re.search(rf"Repetitions{line.repetitions:.0f}\b", text), line.claim


def test_each_table_of_an_item_shows_its_csv(page):
    cells = 0
    for paper in papers():
        for item in paper.items:
            file = REFERENCE / "tables" / f"{item.id}.csv"
            if not file.is_file():
                continue
            table = pd.read_csv(file, dtype=str, keep_default_na=False)
            markup = article(page, item.id)
            shown = re.search(r"<table>.*?</table>", markup, re.DOTALL)[0]
            header = [plain(text) for text in re.findall(r"<th[^>]*>(.*?)</th>", shown, re.DOTALL)]
            lines = re.findall(r"<tr>(<td.*?)</tr>", shown, re.DOTALL)
            assert len(lines) == len(table), item.id
            for i, line in enumerate(lines):
                texts = [plain(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", line, re.DOTALL)]
                for name, text in zip(header, texts, strict=True):
                    cells += _is_shown(text, table.loc[i].get(name), f"{item.id}, line {i}, {name}")
    assert cells > 300


def _is_shown(text, value, what):
    """Check a cell against the value of its column; return whether it is a number that has one."""
    if value in (None, "") or not NUMBER.fullmatch(text):
        return False
    try:
        assert_shows(text, float(value), what)
    except ValueError:
        assert text == value, what
    return True


def test_each_figure_has_the_numbers_of_its_csv(page):
    packed = re.search(r'<script type="text/plain" id="tables">(.*?)</script>', page, re.DOTALL)[1]
    grids = json.loads(gzip.decompress(base64.b64decode(packed)))
    assert len(grids) > 15
    for name, grid in grids.items():
        (file,) = REFERENCE.glob(f"figures/{name}.csv*")
        known = pd.read_csv(file).select_dtypes("number").to_numpy(float).ravel()
        known = np.unique(known[np.isfinite(known)])
        for text in (line[i] for line in grid["lines"] for i in grid["numeric"] if line[i] not in ("", "–")):
            number, half = value_of(text)
            i = np.searchsorted(known, [number - half * (1 + 1e-6), number + half * (1 + 1e-6)])
            assert i[1] > i[0], f"{name}: {text}"


def test_the_counts_of_the_overview_are_those_of_the_verdicts(page):
    verdicts = pd.read_csv(REFERENCE / "verdicts.csv")
    start = page.index('<ul class="legend">')
    legend = plain(page[start : page.index("</ul>", start)].replace("<li>", "; "))
    counts = {name: int(count) for count, name in re.findall(r"(\d+) ([a-z ]+?)(?=\s*(?:;|$))", legend)}
    assert {k: v for k, v in counts.items() if v} == verdicts["verdict"].value_counts().to_dict()


@pytest.mark.parametrize("symbol", ["F", "P", "r", "k"])
def test_the_symbols_are_defined_where_they_are_used_first(page, symbol):
    text = " ".join(plain(page[page.index("<main") :]).split())
    first = re.search(
        r"F is the .*?objective.*?P the accuracy.*?r the number of dimensions.*?k the number of clusters", text
    )
    assert first
    assert first.start() < 20_000
    assert symbol in first[0]


def test_a_changed_digit_is_found(page, components):
    start = page.index('<article id="bzmd15-1">')
    shown = re.compile(r"([\d.]+\d) \[[\d.]+, [\d.]+\] ratio of times <small>").search(page, start)
    digit = str((int(shown[1][-1]) + 1) % 10)
    other = page[: shown.end(1) - 1] + digit + page[shown.end(1) :]
    with pytest.raises(AssertionError, match=rf"bzmd15-1: .*effect: {re.escape(shown[1][:-1] + digit)}"):
        test_each_statement_shows_its_effect_interval_p_values_and_unit(other, components)
