"""Counts in messages and on pages agree with their nouns: one row, two rows."""

import ast
import re
from pathlib import Path

import pytest

import kmdr

SOURCE = Path(kmdr.__path__[0])
# Packages whose messages are about what a user ran; others count the entries of data.
PACKAGES = (
    "atlas",
    "cli",
    "config",
    "export",
    "figures",
    "harness",
    "multiverse",
    "reporting",
    "results",
    "submissions",
)
NOUNS = (
    "cells|claims|configurations|datasets|environments|files|jobs|lines|repetitions|rows|seeds|settings|sources|"
    "starts|statements|studies|tasks|tests|timings|trials|universes|values|verdicts|versions|workers"
)
COUNT = re.compile(rf" (?:\w+ ){{0,2}}(?:{NOUNS})\b")
# Words between a count and a noun that another word counts: 1 of the rows, 2 are rows.
BETWEEN = re.compile(r" (?:\w+ )*(?:of|are|is|in|for|with|and|or|have|has|from|the|other than|by|to|as|on|at) ")
# Numbers that are two or more where they are shown, values that are no numbers, and code that frozen claims reach.
EXEMPT = {
    "atlas/explanation.py: {int(choice['sources'])} sources", "atlas/explanation.py: {len(explained)} tests",
    "atlas/section.py: {len(explained)} tests", "atlas/section.py: {plan.kmeans['n_init']} starts",
    "atlas/section.py: {plan.costly.kmeans['n_init']} starts", "config/studies.py: {count} values",
    "cli/recommend.py: {int(numbers['k'])} largest singular values", "harness/engines/batch.py: {system} accepts jobs",
    "results/row_check.py: {self._rows} rows",
    "figures/panels.py: {len(rows)} trials", "figures/panels.py: {seeds.max()} seeds",
    "figures/description.py: {len(panel)} universes", "harness/engines/settings.py: {cluster} starts",
    "multiverse/section.py: {repetitions} repetitions",
    "multiverse/section.py: {check.any} over all universes", "results/outdated.py: {count} versions",
    "results/table_stream.py: {count} rows",
}  # fmt: skip
PLURAL = re.compile(r"counted\(| if .* == 1 else |\.join\(|describe|^[A-Z_]+$|^(?:\w+\.)*_?[A-Z_]+$")


def unchecked(file):
    """Yield the places at which a text joins a number to a plural, except a constant or a checked number."""
    tree = ast.parse(file.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            for before, value, text in zip([None, *node.values], node.values, node.values[1:], strict=False):
                is_fraction = isinstance(before, ast.Constant) and before.value.endswith("/")
                if is_fraction:
                    continue
                if isinstance(value, ast.FormattedValue) and isinstance(text, ast.Constant):
                    counts = COUNT.match(text.value)
                    if counts and not BETWEEN.match(counts[0]) and not PLURAL.search(ast.unparse(value.value)):
                        yield f"{file.relative_to(SOURCE)}: {{{ast.unparse(value.value)}}}{counts[0]}"


@pytest.mark.parametrize("package", PACKAGES)
def test_no_text_joins_a_number_to_a_plural(package):
    found = [place for file in sorted((SOURCE / package).rglob("*.py")) for place in unchecked(file)]
    assert [place for place in found if place not in EXEMPT] == []


def test_every_exemption_is_a_text_that_would_be_found():
    found = {place for package in PACKAGES for file in (SOURCE / package).rglob("*.py") for place in unchecked(file)}
    assert EXEMPT - found == set()
