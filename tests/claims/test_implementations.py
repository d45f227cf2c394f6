"""What the outcome of a claim on time rests on."""

import math
from dataclasses import replace

import pytest

from kmdr.claims.catalogue import claims, papers
from kmdr.claims.implementations import basis_of
from kmdr.claims.register import change, flips
from kmdr.claims.verdicts import verdict_on
from kmdr.config.studies import studies
from kmdr.papers.lf20.protocol import MATRICES
from kmdr.reporting.summaries import describe_other_times
from rows import make_results, make_rows

STUDIES = {study["name"]: study for study in studies()}
FLIPS = flips(list(STUDIES.values()))
CLAIMS = {claim.id: claim for claim in claims()}
GRID = (10, 70, 130)
SVD = "sklearn.decomposition.TruncatedSVD"
COUNT_SKETCH = "sklearn.kernel_approximation.PolynomialCountSketch"
REDUCTIONS = "flip_speed_reductions_lst17"
OURS = {"leverage": 2.0, "leverage_approx": 0.9, "random_sign": 1.0}
LABEL = "time, approximate ÷ random signs, below 1.25"


def timed(study, seconds, repeats, **changes):
    """Return serially timed rows on ORL of methods with some seconds each, of which a repetition in five is longer."""
    return [
        make_rows(
            study, "orl", name, GRID, repeats, accuracy=0.7, **changes,
            seconds=lambda r, i, taken=taken: taken * (1 + 0.5 * (i % 5 == 4)),
        )
        for name, taken in seconds.items()
    ]  # fmt: skip


def basis(claim, rows):
    """Return the basis of a claim; trials that are not timed show that P does not fall."""
    results = make_results([*rows, *timed("lf20_orl", OURS, 10, concurrency=2)])
    return basis_of(verdict_on(CLAIMS[claim], results, {}), results, FLIPS)


@pytest.mark.parametrize(
    ("theirs", "word", "outcome"),
    [
        ({"leverage": 2.0, "leverage_approx": 0.8, "gaussian": 1.0}, "methods in part", "supported"),
        ({"leverage": 9.0, "leverage_approx": 3.0, "gaussian": 1.0}, "implementation", "not supported"),
    ],
)
def test_an_outcome_rests_on_the_methods_if_another_implementation_has_it_too(theirs, word, outcome):
    found = basis("lf20-3", [*timed("lf20_times", OURS, 30), *timed("flip_speed_lf20", theirs, 8)])
    (other,) = found.others
    assert (found.word, other.outcome) == (word, outcome)
    assert other.what.startswith(STUDIES["flip_speed_lf20"]["title"])
    assert other.components[LABEL].effect == pytest.approx(theirs["leverage_approx"])
    assert other.components[LABEL].n == 8


def test_without_another_implementation_nothing_is_said_of_it():
    found = basis("lf20-3", timed("lf20_times", OURS, 30))
    assert found == ("not measured", ())


def test_an_undecided_outcome_of_another_implementation_shows_nothing():
    theirs = {"leverage": 2.0, "leverage_approx": 0.8, "gaussian": 1.0}
    found = basis("lf20-3", [*timed("lf20_times", OURS, 30), *timed("flip_speed_lf20", theirs, 2)])
    assert (found.word, found.others[0].outcome) == ("not measured", "undecided")


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({}, "methods in part"),
        ({"params": '{"solver": "lapack"}'}, "methods in part"),  # k-means takes most of the time
        ({"engine": "sklearn"}, "methods"),
        ({"engine": "sklearn", "prepare_seconds": 9.0}, "methods in part"),
        ({"params": '{"solver": "lapack"}', "prepare_seconds": 9.0}, "methods"),
    ],
)
def test_methods_that_mostly_run_our_code_in_both_are_not_replaced(changes, word):
    """bzmd15-1 rested on "the methods" although Laplacian scores, which decide it, had one implementation."""
    theirs = timed("flip_speed_lf20", {"leverage": 2.0, "leverage_approx": 0.8, "gaussian": 1.0}, 8)
    other = [part.assign(**changes) for part in theirs]
    assert basis("lf20-3", [*timed("lf20_times", OURS, 30), *other]).word == word


def test_an_outcome_that_differs_between_machines_rests_on_the_hardware():
    slow = dict(OURS, leverage_approx=3.0)
    there = [part.assign(repeat=part["repeat"] + 100) for part in timed("lf20_times", slow, 20, machine="b" * 12)]
    found = basis("lf20-3", [*timed("lf20_times", OURS, 30, machine="a" * 12), *there])
    assert found.word == "hardware"
    assert [(other.what, other.outcome) for other in found.others] == [
        (f"machine {'a' * 12}", "supported"), (f"machine {'b' * 12}", "not supported"),
    ]  # fmt: skip
    same = [part.assign(repeat=part["repeat"] + 100) for part in timed("lf20_times", OURS, 20, machine="b" * 12)]
    assert basis("lf20-3", [*timed("lf20_times", OURS, 30, machine="a" * 12), *same]).word == "not measured"


def test_a_claim_without_times_has_no_basis():
    rows = make_rows("lf20_fig5", "orl_64x64", "gaussian", GRID, 5)
    assert basis("lf20-2", [rows, rows.assign(reducer="random_sign", config_hash="s")]) is None


def test_only_statements_whose_methods_have_another_implementation_count():
    """Where only SVD and SE have another implementation, what fails for another method is not measured."""
    seconds = {"sparse_embedding": 0.001, "svd": 1.0, "random_sign": 0.01}
    ours = [make_rows("lst17_times", "coil20", name, GRID, 12, seconds=taken) for name, taken in seconds.items()]

    def theirs(svd):
        return [
            make_rows(REDUCTIONS, "coil20", name, GRID, 8, seconds=taken)
            for name, taken in {COUNT_SKETCH: 0.001, SVD: svd}.items()
        ]

    found = basis("lst17-7", [*ours, *theirs(2.0)])
    assert found.word == "not measured"
    ((label, component),) = found.others[0].components.items()
    assert "of SVD" in label
    assert component.effect == pytest.approx(2000)
    assert found.others[0].outcome == "not supported"  # the claim is, because of RP
    seconds["svd"] = 0.1
    fast = [part.assign(**dict.fromkeys(("prepare_seconds", "reduce_seconds"), 0.01)) if set(part["reducer"]) == {"svd"}
            else part for part in ours]  # fmt: skip
    assert basis("lst17-7", [*fast, *theirs(0.02)]).word == "methods"


def test_another_outcome_of_one_statement_is_not_another_outcome_of_the_claim():
    """ARPACK's SVD is 400 times slower than SE, but the claim fails on RP with both."""
    seconds = {"sparse_embedding": 0.001, "svd": 0.1, "random_sign": 0.01}
    ours = [make_rows("lst17_times", "coil20", name, GRID, 12, seconds=taken) for name, taken in seconds.items()]
    theirs = [
        make_rows(REDUCTIONS, "coil20", name, GRID, 8, seconds=taken)
        for name, taken in {COUNT_SKETCH: 0.001, SVD: 0.4}.items()
    ]
    results = make_results([*ours, *theirs])
    verdict = verdict_on(CLAIMS["lst17-7"], results, {})
    found = basis_of(verdict, results, FLIPS)
    assert (found.word, found.others[0].outcome) == ("not measured", "not supported")
    (text,) = describe_other_times(replace(verdict, basis=found))
    assert "1 single statement with another outcome there: reduction time, over that of SE, of SVD" in text
    assert "1 statement not measured there" in text


def test_a_method_that_was_not_timed_there_is_not_compared_with_k_means_there():
    """In lst17-6 the time of our PD was divided by that of scikit-learn's k-means on all features."""
    seconds = {"none": 1.0, "svd": 0.1, "sparsified": 0.9}
    ours = [make_rows("lst17_times", "coil20", name, GRID, 12, cluster_seconds=s) for name, s in seconds.items()]
    theirs = [
        make_rows("flip_speed_lst17", "coil20", name, GRID, 8, cluster_seconds=3 * seconds[name])
        for name in ("none", "svd")
    ]
    found = basis("lst17-6", [*ours, *theirs])
    assert found.word == "not measured"
    assert [label for label in found.others[0].components if "PD" in label] == []
    flip = next(flip for flip in FLIPS if flip.study == "flip_speed_lst17")
    changed = change(make_results([*ours, *theirs]), flip).diagnoses["lst17-6"]
    assert changed.before == changed.after == "supported"  # PD alone contradicts it, and was not timed there
    assert "PD" not in changed.sentence
    assert changed.change.endswith("(1 statement not measured there)")


@pytest.mark.parametrize(
    ("claim", "words"),
    [("lf20-3", "gaussian stands for random_sign"), ("lf20-12", "ORL 112×92 stands for ORL 64×64")],
)
def test_what_stands_for_what_with_another_implementation_is_said(claim, words):
    ours = [make_rows("lf20_fig4_times", "orl_64x64", name, GRID, 30, seconds=0.1) for name in MATRICES]
    theirs = {"leverage": 2.0, "leverage_approx": 0.8, "gaussian": 1.0}
    found = basis(claim, [*ours, *timed("lf20_times", OURS, 30), *timed("flip_speed_lf20", theirs, 8)])
    assert words in found.others[0].what


def test_named_implementations_are_studies_of_their_papers_and_replace_what_the_claims_read():
    for paper in papers():
        for named in paper.implementations:
            assert STUDIES[named.study]["paper"] == paper.name
            assert set(named.base) <= set(CLAIMS[named.claim].studies)
            assert set(named.datasets) <= {
                str(d) if isinstance(d, str) else next(iter(d)) for d in STUDIES[named.study]["datasets"]
            }


def test_the_share_of_k_means_with_another_code_is_the_claims_own():
    """The text of lf20-12 gave it; now it is a comparison like the others."""
    ours = [
        make_rows("lf20_fig4_times", "orl_64x64", name, GRID, 30, seconds=0.1)
        for name in ("random_sign", "gaussian", "achlioptas", "fjlt")
    ]
    theirs = make_rows("flip_speed_lf20", "orl", "gaussian", GRID, 8, cluster_seconds=0.02)
    found = basis("lf20-12", [*ours, theirs])
    assert found.word == "implementation"
    ((label, component),) = found.others[0].components.items()
    assert "Gaussian" in label
    assert component.effect == pytest.approx(0.2)
    assert basis("lf20-12", [*ours, theirs.assign(cluster_seconds=0.09)]).word == "not measured", "of one matrix"


def test_the_cost_of_more_repetitions_is_that_of_the_rows_that_decide():
    rows = [*timed("lf20_times", OURS, 30), *timed("lf20_orl", OURS, 10, concurrency=2)]
    verdict = verdict_on(CLAIMS["lf20-3"], make_results(rows), {})
    one = sum(OURS.values()) * len(GRID) * 1.1  # one repetition in five takes half as long again
    scores = 0.01 * len(OURS) * len(GRID)
    prepared = -0.1 * (len(GRID) - 1) * sum(OURS.values()) * 1.1  # counts once per configuration and repetition
    assert verdict.repetition_seconds["time"] == pytest.approx(one + scores + prepared)
    assert verdict.repetition_seconds["statement"] == pytest.approx(2 * (one + scores + prepared))
    needs = verdict.needed._replace(component=verdict.components[1], repetitions=40)
    assert math.isclose(
        verdict.__class__(
            verdict.claim, "undecided", "", needed=needs, repetition_seconds=verdict.repetition_seconds
        ).seconds_needed,
        10 * verdict.repetition_seconds["time"],
    )
