"""The hash of the code that computes a row: what it is to follow, and what is to leave it alone."""

import ast
import re
import subprocess

import pytest

from edits import with_everything_changed
from kmdr import reducers
from kmdr.base import provenance
from kmdr.base.provenance import code_version
from kmdr.config.task import code_of


@pytest.fixture
def hash_after(edited):
    """Return a function that gives the hash of a reducer's code after an edit of one module's text."""

    def after(module, change, reducer="svd", dataset="usps"):
        with edited(module, change):
            return code_of(reducer, dataset)

    return after


def test_comments_docstrings_and_layout_change_nothing(hash_after):
    before = code_of("svd", "usps")
    assert hash_after("kmdr.linalg.singular_vectors", lambda text: "# a comment\n\n" + text) == before
    other_words = hash_after("kmdr.metrics.scores", lambda text: '"""Words."""\n' + text.partition('"""\n')[2].lstrip())
    assert other_words == before
    assert hash_after("kmdr.base.seeding", lambda text: ast.unparse(ast.parse(text))) == before


@pytest.mark.parametrize(
    ("module", "follows"),
    [("kmdr.harness.task", True), ("kmdr.base.seeding", True), ("kmdr.metrics.scores", True),
     ("kmdr.clustering.kmeans", True),
     ("kmdr.clustering.lloyd", True), ("kmdr.linalg.singular_vectors", True), ("kmdr.reducers.base", True),
     ("kmdr.reducers.singular_vectors", True), ("kmdr.reducers.lle", False), ("kmdr.datasets.sources.synth", False),
     ("kmdr.results.store", False), ("kmdr.cli.commands", False),
     ("kmdr.base.errors", True), ("kmdr.base.provenance", False),
     ("kmdr.base.identity", False), ("kmdr.reporting.build", False), ("kmdr.claims.verdicts", False)],
)  # fmt: skip
def test_the_hash_follows_what_a_trial_runs_and_nothing_else(hash_after, module, follows):
    assert (hash_after(module, with_everything_changed) != code_of("svd", "usps")) == follows
    assert hash_after(module, lambda text: text + "\n_MORE = 1\n") == code_of("svd", "usps"), "nobody uses it"


def test_a_generated_dataset_brings_its_generator(hash_after):
    more = hash_after("kmdr.datasets.sources.synth", with_everything_changed, dataset="synth")
    assert more != code_of("svd", "synth") != code_of("svd", "usps")
    assert code_of("no such reducer", "usps") == ""
    assert all(len(code_of(name, "usps")) == 12 for name in reducers.names())


@pytest.mark.slow
@pytest.mark.parametrize("error", [FileNotFoundError("git"), subprocess.CalledProcessError(128, "git")])
def test_without_git_a_hash_of_the_package_stands_for_the_commit(monkeypatch, error):
    def refuse(*arguments, **options):
        raise error

    monkeypatch.setattr(provenance, "IN_CHECKOUT", True)
    monkeypatch.setattr("subprocess.run", refuse)
    code_version.cache_clear()
    assert re.fullmatch(r"[\d.]+\+h[0-9a-f]{12}", code_version())
    code_version.cache_clear()
