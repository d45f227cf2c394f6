"""Multiverses: balanced designs, shares of variance, likelihoods, and a paper's from its yaml to the report."""

import json
import lzma
import re
import shutil
import textwrap
from dataclasses import replace
from functools import partial
from itertools import product
from math import lcm
from types import SimpleNamespace

import hydra
import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, norm, ttest_1samp

from kmdr.analysis.results import NotRunError, Results
from kmdr.analysis.statistics import Margin, above, below
from kmdr.base.errors import UserError
from kmdr.base.paths import CONF
from kmdr.claims.catalogue import claims, papers
from kmdr.claims.draws import judge_best
from kmdr.claims.reported import Number
from kmdr.cli.arguments import COMMANDS
from kmdr.cli.jobs import run_jobs
from kmdr.config import source as config_source
from kmdr.config.compose import composed_studies
from kmdr.config.protocols import pairs as expand
from kmdr.config.protocols import plain
from kmdr.config.studies import studies as configured
from kmdr.export.crate import _described_files
from kmdr.harness.jobs import Job, compose
from kmdr.multiverse import findings as claims_multiverse
from kmdr.multiverse import plausibility as of_tables
from kmdr.multiverse.choices import Multiverse, multiverse_of, multiverses, settings_on_dataset, settled
from kmdr.multiverse.distributions import distribution_of_best, distribution_of_share
from kmdr.multiverse.factorial import design, shapley_shares
from kmdr.multiverse.findings import Findings, compute_findings
from kmdr.multiverse.plausibility import cells, cross_validated, least_p, plausibility
from kmdr.multiverse.power import power
from kmdr.multiverse.section import _holds, _options, _shares, explanation, multiverse_section
from kmdr.reporting.build import build
from kmdr.results import check, merge
from kmdr.results.json_files import Settled, universes_of
from kmdr.results.reader import read_rows
from kmdr.results.schema import TIME_COLUMNS
from rows import make_results, make_rows, markdown_of

LEVELS = [(2, 2), (2, 2, 2, 2), (3, 2, 2), (2, 4, 3), (3, 3, 2, 2)]


# -- designs


@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize("seed", [0, 7])
def test_a_design_is_the_factorial_in_balanced_blocks(levels, seed):
    points = design(levels, seed)
    assert sorted(map(tuple, points.tolist())) == list(product(*map(range, levels)))
    assert not points[0].any()
    size = lcm(*levels)
    for block in points.reshape(-1, size, len(levels)):
        for column, count in zip(block.T, levels, strict=True):
            assert np.bincount(column, minlength=count).tolist() == [size // count] * count


@pytest.mark.parametrize(("levels", "size"), [((2,) * 6, 16), ((2, 3, 2, 3, 2, 2, 2), 48), ((2, 2, 2, 2), 8)])
def test_in_a_part_of_a_design_no_choice_passes_for_another(levels, size):
    points = design(levels, 0)[:size]
    for (i, a), (j, b) in product(enumerate(points.T), repeat=2):
        if i < j:
            counts = np.bincount(a * levels[j] + b, minlength=levels[i] * levels[j])
            assert np.ptp(counts) <= 2
            assert abs(np.corrcoef(a, b)[0, 1]) <= 0.13


def test_a_design_is_drawn_by_its_seed():
    assert (design((2, 3, 2), 5) == design((2, 3, 2), 5)).all()
    assert (design((2, 4, 3, 2), 5) != design((2, 4, 3, 2), 6)).any()


def test_in_each_block_of_two_options_a_choice_no_interaction_passes_for_an_effect():
    points = 2 * design((2,) * 5, 3) - 1
    for size in (8, 16, 24):
        some = points[:size]
        for i, j, k in product(range(5), repeat=3):
            if j != k:
                assert (some[:, i] * some[:, j] * some[:, k]).sum() == 0


# -- shares of variance


def test_shares_of_an_additive_model_are_its_variances():
    points = design((2, 3, 2), 1)
    effects = (np.array([0.0, 3.0]), np.array([0.0, 1.0, 5.0]), np.array([0.0, 0.0]))
    y = sum(effect[column] for effect, column in zip(effects, points.T, strict=True))
    variances = np.array([effect.var() for effect in effects])
    shares = shapley_shares(points, np.c_[y, np.full(len(y), 0.7)])
    assert shares[:, 0] == pytest.approx(variances / variances.sum(), abs=1e-12)
    assert np.isnan(shares[:, 1]).all()


def test_shares_by_brute_force_over_all_orders(rng):
    """On a design that is not balanced, against the definition by orders and numpy's least squares."""
    from itertools import permutations

    points = design((2, 3, 2), 1)[[0, 1, 2, 3, 4, 6, 7, 9]]
    y = rng.standard_normal(len(points))

    def explained(some):
        columns = [points[:, i] == level for i in some for level in np.unique(points[:, i])]
        X = np.column_stack([np.ones(len(y)), *columns]).astype(float)
        fit = X @ np.linalg.lstsq(X, y, rcond=None)[0]
        return ((fit - y.mean()) ** 2).sum() / ((y - y.mean()) ** 2).sum()

    orders = list(permutations(range(3)))
    expected = np.zeros(3)
    for order in orders:
        for place, i in enumerate(order):
            expected[i] += (explained(order[: place + 1]) - explained(order[:place])) / len(orders)
    assert shapley_shares(points, y[:, None])[:, 0] == pytest.approx(expected, abs=1e-10)


def test_what_two_choices_do_together_is_left(rng):
    points = design((2, 2, 2), 0)
    both = (points[:, 0] ^ points[:, 1]).astype(float)
    assert shapley_shares(points, both[:, None]).sum() == pytest.approx(0, abs=1e-12)


# -- distributions


P = Number("own_table1", "nips", "leverage", 30.0, "accuracy", 0.8, 0.0005)
F = P._replace(quantity="objective", value=0.75)


def test_the_law_of_the_best_is_that_of_all_subsets():
    from itertools import combinations

    objective, accuracy = [0.5, 0.2, 0.4, 0.3, 0.6], [0.1, 0.9, 0.5, 0.8, 0.3]
    best = [min(some, key=lambda i: objective[i]) for some in combinations(range(5), 3)]
    distribution = distribution_of_best(P, objective, accuracy, 3)
    assert distribution.mean == pytest.approx(np.mean([accuracy[i] for i in best]))
    w = np.bincount(best, minlength=5) / len(best)
    assert distribution.size == pytest.approx(1 / (w**2).sum())


def test_probabilities_of_all_that_can_be_reported_sum_to_one(rng):
    distribution = distribution_of_best(P, rng.random(50), 0.5 + 0.05 * rng.standard_normal(50), 5)
    ends = np.arange(0.0005, 1, 0.001)
    assert np.exp(distribution.log_likelihood(ends, 0.0005)).sum() == pytest.approx(1, abs=1e-4)


def test_no_number_is_impossible_and_none_is_less_likely_than_the_runs_can_show(rng):
    for n in (10, 1000):
        distribution = distribution_of_best(P, np.arange(n), np.full(n, 0.5) + 0.01 * rng.standard_normal(n), 1)
        assert np.exp(distribution.log_likelihood(0.9, 0.0005)) == pytest.approx(0.001 / (n + 1), rel=1e-6)


@pytest.mark.parametrize(("value", "same"), [(0.7, 1), (0.71, 0)])
def test_a_number_without_a_draw_is_the_same_or_within_the_margins_of_the_register(value, same):
    distribution = distribution_of_best(P, [0.5] * 5, [0.7] * 5, 1)
    near = np.diff(norm(0.7, 0.02).cdf([value - 0.0005, value + 0.0005]))[0]
    assert distribution.log_likelihood(value, 0.0005) == pytest.approx(np.log(same / 2 + near / 2), abs=1e-6)


@pytest.mark.parametrize("distance", [0.01, 0.14, 0.3])
def test_a_number_is_as_unlikely_above_a_deterministic_one_as_below(distance):
    """Far above, the probability was a difference of two numbers near 1, of which no digit was left."""
    distribution = distribution_of_best(P, [0.5] * 2, [0.5] * 2, 1)
    above, below = distribution.log_likelihood([0.5 + distance, 0.5 - distance], 0.0005)
    assert above == pytest.approx(below, rel=1e-12)


def test_a_universe_that_always_gives_another_number_is_rejected_however_few_its_runs(rng):
    """With a part left to chance, tables of which most digits differ were not rejected."""
    distributions = [distribution_of_best(P, [0.5] * 2, [0.7] * 2, 1) for _ in range(4)]
    several = [P._replace(r=float(r)) for r in range(4)]

    def p(values):
        log_likelihood = sum(
            float(distribution.log_likelihood(v, 0.0005)) for distribution, v in zip(distributions, values, strict=True)
        )
        return plausibility(distributions, several, log_likelihood, rng)

    assert p([0.7] * 4) == 1
    assert p([0.7, 0.7, 0.7, 0.55]) <= 0.05
    assert distributions[0].tail(0.55, 0.0005) < 1e-6
    assert least_p(distributions, cells(several)) == 0


@pytest.mark.parametrize(("runs", "m"), [(150, 30), (2000, 30), (60, 1), (400, 1)])
def test_the_least_p_is_that_of_a_table_with_a_number_that_no_run_shows(runs, m, rng):
    several = [P._replace(r=float(r)) for r in range(4)]
    distributions = [
        distribution_of_best(P, rng.random(runs), 0.6 + 0.01 * rng.standard_normal(runs), m) for _ in several
    ]
    values = [float(np.median(distribution.values)) for distribution in distributions[:3]] + [0.9]
    log_likelihood = sum(
        float(distribution.log_likelihood(v, 0.0005)) for distribution, v in zip(distributions, values, strict=True)
    )
    reported = np.mean([plausibility(distributions, several, log_likelihood, rng) for _ in range(10)])
    assert least_p(distributions, cells(several)) == pytest.approx(reported, rel=0.35, abs=0.01)


def test_a_share_of_runs_is_that_of_many_if_much_is_known():
    distribution = distribution_of_share(300_000, 1_000_000, 100)
    assert distribution.weights == pytest.approx(binom(100, 0.3).pmf(np.arange(101)), abs=1e-4)
    low, high = distribution.interval
    assert (low, high) == (0.21, 0.39)
    inside = binom(100, 0.3).cdf(35) - binom(100, 0.3).cdf(24)
    assert np.exp(distribution.log_likelihood(0.30, 0.05)) == pytest.approx(inside, abs=1e-4)


# -- the universe that is nearest


CELLS = [Number("own_table1", "nips", "leverage", float(r), q, np.nan, 0.0005) for r in range(8) for q in ("F", "P")]


def distributions_of(rng, shift, runs=200, m=10):
    distributions = []
    for number in CELLS:
        objective = 0.75 + shift + 0.01 * rng.standard_normal(runs)
        values = objective if number.quantity == "F" else 1.5 - objective + 0.01 * rng.standard_normal(runs)
        distributions.append(distribution_of_best(number, objective, values, m))
    return distributions


def table_of(distributions, rng):
    """A table as the paper of that universe would have drawn it, from distributions known to the last run."""
    return np.array([rng.choice(distribution.values, p=distribution.weights) for distribution in distributions])


def log_likelihoods(universes, table):
    return np.array(
        [
            [
                float(distribution.log_likelihood(v, 0.0005))
                for distribution, v in zip(distributions, table, strict=True)
            ]
            for distributions in universes
        ]
    )


def test_the_likelihood_finds_the_universe_that_made_the_table(rng):
    shifts = (0.0, 0.01, 0.02, 0.03)
    universes = [distributions_of(rng, shift) for shift in shifts]
    right = 0
    for _ in range(20):
        for true, shift in enumerate(shifts):
            logs = log_likelihoods(universes, table_of(distributions_of(rng, shift), rng))
            right += logs.sum(axis=1).argmax() == true
    assert right >= 76  # of 80


def test_the_true_universe_is_seldom_rejected_and_a_far_one_always(rng, monkeypatch):
    monkeypatch.setattr(of_tables, "_TABLES", 100)
    distributions, own = distributions_of(rng, 0.0), np.random.default_rng(1)
    p = [
        plausibility(
            distributions, CELLS, log_likelihoods([distributions], table_of(distributions_of(rng, 0.0), rng)).sum(), own
        )
        for _ in range(40)
    ]
    assert np.count_nonzero(np.array(p) <= 0.05) <= 10  # 2 expected, more than 10 with a probability below 1e-5
    far = log_likelihoods([distributions], table_of(distributions_of(rng, 0.1), rng)).sum()
    assert plausibility(distributions, CELLS, far, own) <= 0.05


def test_where_nothing_distinguishes_universes_the_one_picked_is_no_better_on_the_other_cells(rng):
    of_cells = cells(CELLS)
    assert of_cells == [[i, i + 1] for i in range(0, len(CELLS), 2)]
    in_sample, out = [], []
    for _ in range(40):
        universes = [distributions_of(rng, 0.0, runs=60) for _ in range(8)]
        logs = log_likelihoods(universes, table_of(distributions_of(rng, 0.0), rng))
        check = cross_validated(logs, of_cells)
        assert check.splits == 70
        assert 0 < check.again < 1
        in_sample.append(logs.sum(axis=1).max() - logs.sum(axis=1).mean())
        out.append(check.picked - check.any)
    assert np.mean(in_sample) > 1
    assert np.mean(out) < 0.5


def test_where_one_universe_is_right_it_is_picked_again(rng):
    universes = [distributions_of(rng, shift) for shift in (0.0, 0.05, 0.1)]
    check = cross_validated(log_likelihoods(universes, table_of(distributions_of(rng, 0.05), rng)), cells(CELLS))
    assert check.again == 1
    assert check.picked > check.any > check.paper
    assert cross_validated(np.zeros((3, 1)), [[0]]) is None


# -- from the rows


def spec(**changes):
    known = {
        "paper": "bmd09", "studies": ("bmd09_table1",), "datasets": ("nips",),
        "methods": {"leverage": {"runs": 60, "best_of": 10}, "none": {"runs": 60}}, "r_grid": {}, "size": 4,
        "numbers": {"bmd09_table1": {}}, "claims": ("bmd09-4",),
        "choices": {
            "rescaled": {"yes": {}, "no": {"reducers": {"leverage": {"rescaled": False}}}},
            "starts": {"sampled": {}, "best of one": {"methods": {"leverage": {"best_of": 1}}}},
        },
    }  # fmt: skip
    return Multiverse(**{**known, **changes})


def universes_and_rows(rng):
    """Universes in which F of sampling without rescaling is what the table reports."""
    study, reported = "multiverse_bmd09_table1", {15: 0.758, 30: 0.751, 60: 0.749, 6314: 0.747}
    parts, own = [], spec()

    def near_reported(shift):
        return lambda r, _: reported[r] + shift + 0.002 * rng.standard_normal()

    for key, shift in (("a", 0.03), ("b", 0.003)):
        parts.append(
            make_rows(
                study,
                "nips",
                "leverage",
                (15, 30, 60),
                60,
                objective=near_reported(shift),
                accuracy=0.85,
                config_hash=key,
            )
        )
    parts.append(
        make_rows(study, "nips", "none", 6314, 60, objective=near_reported(0.0), accuracy=0.88, config_hash="c")
    )
    base = study.removeprefix("multiverse_")
    settled_ = [
        Settled(each, {{"yes": "a", "no": "b"}[each[0]]: [base, "nips", "leverage"], "c": [base, "nips", "none"]})
        for each in own.universes
    ]
    return own, make_results(parts), settled_


def test_from_rows_to_findings(rng):
    own, results, settled_ = universes_and_rows(rng)
    findings = compute_findings(results, own, settled_)
    assert findings.universes[0] == ("yes", "sampled")
    assert len(findings.numbers) == 8
    assert findings.universes[findings.nearest][0] == "no"
    assert findings.together == pytest.approx(findings.logs.sum(axis=1))
    # Sampling without rescaling is 4 % lower, which makes all of the difference between universes at m = 10 and 1 …
    position = next(i for i, n in enumerate(findings.numbers) if n.quantity == "objective" and n.r == 15)
    rescaled, m = findings.shares[:, position]
    assert rescaled[0] > 0.9
    assert rescaled[1] <= rescaled[0] <= rescaled[2]
    assert m[0] < 0.1
    # … and decides the claim that 10k features are within 1 % of all.
    assert dict(zip(findings.universes, findings.outcomes["bmd09-4"], strict=True)) == {
        ("yes", "sampled"): "not supported", ("yes", "best of one"): "not supported",
        ("no", "sampled"): "supported", ("no", "best of one"): "supported",
    }  # fmt: skip
    options = findings.options().set_index("option")
    assert options.loc["no", "likelihood"] > 0.99
    assert options.loc[["yes", "no"], "bmd09-4"].tolist() == ["0 of 2", "2 of 2"]
    assert options.loc[["sampled", "best of one"], "universes"].tolist() == [2, 2]


def test_further_repetitions_of_other_studies_count_for_numbers_and_not_for_comparisons_of_choices(rng):
    own, results, settled_ = universes_and_rows(rng)
    rows = results.all_rows
    again = rows.assign(study="bmd09_table1")
    more = again.assign(repeat=again["repeat"] + 60, accuracy=again["accuracy"].astype(float) + 0.01)
    other_seed = more.assign(seed=more["seed"].astype(int) + 1, accuracy=0.1)
    other_r = more[more["reducer"] == "leverage"].assign(r=20, accuracy=0.1)
    before = compute_findings(results, own, settled_)
    nothing_new = compute_findings(results, own, settled_, pd.concat([again, other_seed]))
    assert np.array_equal(before.logs, nothing_new.logs)
    assert np.array_equal(before.p, nothing_new.p)
    after = compute_findings(results, own, settled_, pd.concat([again, more, other_seed, other_r]))
    position = next(i for i, n in enumerate(after.numbers) if n.quantity == "accuracy" and n.method == "leverage")
    assert (before.runs[position], after.runs[position]) == (60, 120)
    assert after.distributions[0][position].mean == pytest.approx(
        before.distributions[0][position].mean + 0.005, abs=0.006
    )
    assert after.distributions[0][position].mean > before.distributions[0][position].mean
    assert np.array_equal(before.shares, after.shares, equal_nan=True)
    assert before.outcomes == after.outcomes


def test_a_number_that_is_printed_at_each_r_counts_once(rng):
    _, results, _ = universes_and_rows(rng)
    every = [P._replace(method="none", r=float(r)) for r in (10, 20)] + [P._replace(r=15.0), P._replace(r=30.0)]
    assert claims_multiverse._without_repeats(every, results.all_rows) == [0, 2, 3]


def test_universes_that_lack_rows_are_left_out(rng):
    own, results, settled_ = universes_and_rows(rng)
    rows = results.all_rows
    with pytest.raises(NotRunError, match="fewer than two"):
        compute_findings(Results(rows[rows["config_hash"] != "c"]), own, settled_)
    some = compute_findings(results, own, [*settled_[:2], Settled(("no", "unheard of"), settled_[0].configs)])
    assert len(some.universes) == 2


def test_the_paper_itself_stays_as_it_is(rng):
    own, results, settled_ = universes_and_rows(rng)
    before = results.all_rows.copy()
    compute_findings(results, own, settled_)
    pd.testing.assert_frame_equal(results.all_rows, before)


# -- yaml


def test_settings_are_laid_over_a_study():
    study = {
        "study": {"name": "own", "datasets": ["orl"], "reducers": [{"svd": {"rank": "r"}}, "none"]},
        "kmeans": {"n_init": 30, "start": "sample"},
        "matching": "best",
    }
    settings = {"kmeans": {"start": "plus"}, "matching": "identity", "reducers": {"svd": {"centred": True}}}
    changed = settled(study, {**settings, "studies": {"own": {"kmeans": {"n_init": 3}}, "other": {"matching": "x"}}})
    assert changed["study"]["reducers"] == [{"svd": {"rank": "r", "centred": True}}, "none"]
    assert changed["kmeans"] == {"n_init": 3, "start": "plus"}
    assert changed["matching"] == "identity"
    replaced = settled(study, {"reducers": {"svd": {"name": "left_singular_vectors"}}})
    assert replaced["study"]["reducers"] == [{"left_singular_vectors": {}}, "none"]
    assert study["study"]["reducers"] == [{"svd": {"rank": "r"}}, "none"]


@pytest.fixture(scope="module")
def studies():
    return composed_studies("results/none")


@pytest.mark.parametrize("own", multiverses(), ids=lambda own: own.paper)
def test_every_option_of_a_paper_is_one_that_can_be_run(own, studies):
    assert own.block <= own.size
    base = own.universes[0]
    for column, options in enumerate(own.choices.values()):
        for option in options:
            settings = own.settings((*base[:column], option, *base[column + 1 :]))
            for study in own.studies:
                pairs = expand(settled(own.narrowed(studies[study]), settings))
                assert Job.from_configs(pairs).experiments
    assert {n.id for n in claims_multiverse.numbers_of(own)} == set(own.numbers)


WHOLE = {
    "studies": "[bmd09_table1]", "datasets": "[nips]", "methods": "{leverage: {runs: 9}}", "universes": "4",
    "numbers": "{bmd09_table1: {}}", "choices": "{starts: {sampled: {}, plus: {kmeans: {start: plus}}}}",
}  # fmt: skip
BROKEN = [
    ("studie", "[bmd09_table1]", "no key in"),
    ("studies", "[bmd10_table1]", "no name for studies"),
    ("studies", "bmd09_table1", "not a list of names"),
    ("datasets", "[nipss]", "did you mean 'nips'"),
    ("methods", "{leverages: {runs: 9}}", "did you mean 'leverage'"),
    ("universes", "many", "not a whole number"),
    ("universes", "010", "to the base of 8; write"),
    ("r_grid", "&a [*a]", "use fewer aliases"),
    ("claims", "[lf20-1]", "no name for claims"),
    ("numbers", "{bmd09_table9: {}}", "not an id of the paper's"),
    ("numbers", "{bmd09_table1: {share: {of: accuracy}}}", "lacks one of"),
    ("methods", "{leverage: {best_of: 30}}", "lacks runs"),
    ("methods", "{leverage: {runs: 0}}", "not a whole number of at least 1"),
    ("r_grid", "[15, many]", "not a whole number"),
    ("choices", "{}", "lacks choices"),
    ("choices", "{weather: {fair: {}, foul: {}}}", "no key in choices"),
    ("choices", "{starts: {sampled: {}}}", "at least two"),
    ("choices", "{starts: {yes: {}, no: {}}}", "put it in quotes"),
    ("choices", "{starts: {plus: {kmeans: {start: plus}}, sampled: {}}}", "write {}"),
    ("choices", "{starts: {sampled: {}, plus: {kmean: {start: plus}}}}", "no key in 'plus'"),
    ("choices", "{starts: {sampled: {}, plus: {kmeans: plus}}}", "not a mapping"),
    ("choices", "{starts: {sampled: {}, plus: {reducers: {leverages: {k: 3}}}}}", "did you mean 'leverage'"),
    ("choices", "{starts: {sampled: {}, plus: {studies: {bmd09_table1: {datasets: {nipss: {}}}}}}}", "mean 'nips'"),
    ("choices", "{starts: {sampled: {}, few: {methods: {svd: {runs: 3}}}}}", "no key in methods"),
]


def read(tmp_path, text):
    (paper,) = (paper for paper in papers() if paper.name == "bmd09")
    shutil.copytree(paper.folder.folder, tmp_path / "bmd09")
    (tmp_path / "bmd09" / "multiverse.yaml").write_text(text)
    return multiverse_of(replace(paper, folder=replace(paper.folder, folder=tmp_path / "bmd09")))


def test_a_file_of_the_least_that_there_can_be_is_read(tmp_path):
    own = read(tmp_path, "\n".join(f"{name}: {value}" for name, value in WHOLE.items()))
    assert own.universes == [("sampled",), ("plus",)]
    assert own.settings(("plus",)) == {"kmeans": {"start": "plus"}}
    assert own.claims == ()


@pytest.mark.parametrize(("key", "value", "words"), BROKEN)
def test_a_malformed_file_is_refused_in_one_sentence(key, value, words, tmp_path):
    with pytest.raises(UserError) as refusal:
        read(tmp_path, "\n".join(f"{name}: {of}" for name, of in {**WHOLE, key: value}.items()))
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", r"multiverse\.yaml cannot be read \(.*\); fix it"),
        ("[]", r"multiverse\.yaml has no settings but \[\]; write NAME: VALUE"),
        ("", r"multiverse\.yaml lacks studies, datasets, methods, universes, choices; add it"),
        (
            "universes: 2\nuniverses: 3",
            r"multiverse\.yaml cannot be read \(.*found duplicate key universes.*\); fix it",
        ),
    ],
)
def test_a_file_that_is_no_mapping_is_refused(text, words, tmp_path):
    with pytest.raises(UserError, match=words):
        read(tmp_path, text)


# -- the command


GUEST = {
    "paper.toml": """
        title = "Two choices"
        authors = "A, B"
        venue = "Nowhere"
        year = 2030
        [[open]]
        id = "own30_starts"
        question = "Which initial centres?"
        chosen = "sampled"
        other = "k-means++"
        [[open]]
        id = "own30_limit"
        question = "How many iterations?"
        chosen = "thirty"
        other = "one, or two"
        """,
    "reported.csv": """
        id,dataset,method,r,quantity,value,reading_error,where
        own30_table1,synth,random_sign,5,objective,0.9,0.005,Table 1
        own30_table1,synth,random_sign,5,accuracy,0.9,0.005,Table 1
        own30_table1,synth,none,,objective,0.9,0.005,Table 1
        """,
    "studies/own30_table1.yaml": """
        # @package _global_
        study:
          name: own30_table1
          paper: own30
          title: Table 1
          note: ""
          datasets: [{synth: {n: 60, d: 40}}]
          reducers: [random_sign, none]
        r_grid: [3, 5]
        repeats: 4
        """,
    "multiverse.yaml": """
        studies: [own30_table1]
        datasets: [synth]
        methods: {random_sign: {runs: 6, best_of: 2}, none: {runs: 4}}
        universes: 6
        numbers: {own30_table1: {}}
        choices:
          own30_starts: {sampled: {}, plus: {kmeans: {start: plus}}}
          own30_limit: {thirty: {}, one: {kmeans: {max_iter: 1}}, two: {kmeans: {max_iter: 2}}}
        """,
}


@pytest.fixture
def guest(monkeypatch, tmp_path):
    for name, text in GUEST.items():
        file = tmp_path / "lab" / "papers" / "own30" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text).lstrip())
    monkeypatch.setenv("KMDR_PATH", str(tmp_path / "lab"))
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def sequential(out, seed=None):
        config_source.register()
        with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
            config = hydra.compose("config", ["study=own30_table1", "runner=sequential", f"out={out}"])
        return {"own30_table1": plain(config)}

    monkeypatch.setattr("kmdr.config.compose.composed_studies", sequential)
    return tmp_path


def numbers_in(folder):
    rows = read_rows(folder / "rows.csv")
    return [{key: value for key, value in row.items() if key not in TIME_COLUMNS} for row in rows]


@pytest.mark.slow
def test_from_a_yaml_to_the_report(guest, capsys, monkeypatch):
    out = guest / "out"
    assert COMMANDS["multiverse"](["own30", f"OUT={out}"]) == 0
    assert "own30: 6 of 6 universes, by 2 choices" in capsys.readouterr().err
    run = universes_of(out)["own30"]
    assert len(run) == 6
    assert run[0].options == ("sampled", "thirty")
    assert all(sorted(names) == [["own30_table1", "synth", name] for name in ("none", "random_sign")]
               for names in (each.configs.values() for each in run))  # fmt: skip
    assert len(numbers_in(out)) == 6 * (2 * 6 + 4)
    page, text = (out / "report" / "index.html").read_text(), markdown_of(out)
    scope = "Each has 4 to 6 repetitions of 2 methods on Synth, at the r of the studies."
    for part in ("Multiverse of own30", "6 of 6 universes were run", scope, "nearest to the 3 reported numbers"):
        assert part in page
        assert part in text
    assert (out / "figures" / "own30_multiverse1.png").is_file()
    table = pd.read_csv(out / "tables" / "own30_multiverse_universes.csv.xz")
    names = ["own30_starts", "own30_limit", "log_likelihood", "p", "least_p", "numbers"]
    probabilities = [name for name in table if name.startswith("probability of ")]
    assert (list(table.columns), len(probabilities)) == ([*names, *probabilities], 3)
    assert table[probabilities].stack().between(0, 1).all()
    curve = pd.read_csv(out / "figures" / "own30_multiverse1.csv.xz")
    assert (curve.groupby("number")["mean"].diff().dropna() >= 0).all()
    assert curve.groupby("number").size().eq(6).all()

    before = numbers_in(out)
    for file in sorted(out.glob("tasks/*/*/*/*.csv"))[::3]:  # as if it had been killed before
        file.unlink()
    (out / "rows.csv").unlink()
    (out / "tasks" / ".merged").unlink()
    monkeypatch.setattr("kmdr.reporting.build.build", lambda out, *arguments, **options: out)
    assert COMMANDS["multiverse"](["own30", f"OUT={out}"]) == 0
    assert numbers_in(out) == before


@pytest.mark.slow
def test_rows_in_a_folder_within_the_results_are_shown_checked_merged_and_handed_on_with_them(guest, capsys):
    out, again = guest / "out", guest / "again"
    within = out / "multiverse"
    assert run_jobs([compose("study=own30_table1", "runner=sequential", f"out={out}")]) == 0
    rows = numbers_in(out)
    assert COMMANDS["multiverse"](["own30", f"OUT={within}"]) == 0
    assert f"'kmdr report {out}' shows it" in capsys.readouterr().out
    page = build(out, configured())
    for part in ("Multiverse of own30", "6 of 6 universes were run", "Its 96 rows are in multiverse/rows.csv."):
        assert part in re.sub("</?code>", "", page.read_text())
    assert numbers_in(out) == rows
    tables = [folder / "tables" / "own30_multiverse_universes.csv.xz" for folder in (out, within)]
    assert tables[0].read_bytes() == tables[1].read_bytes()

    made = page.stat().st_mtime_ns
    assert build(out, configured()).stat().st_mtime_ns == made
    merge.run([out], again)
    assert universes_of(again / "multiverse") == universes_of(within)
    assert numbers_in(again / "multiverse") == numbers_in(within)
    files = {name for name, *_ in _described_files(out)}
    assert {"rows.csv", "multiverse/rows.csv", "multiverse/universes.json", "multiverse/configs.jsonl"} <= files
    assert not any(name.startswith(("multiverse/tasks", "multiverse/report")) for name in files)

    universes = json.loads((within / "universes.json").read_text())
    universes["own30"].pop()
    (within / "universes.json").write_text(json.dumps(universes))
    assert check.run(out) == 1
    assert "universes.json" in capsys.readouterr().out
    del universes["sha256"]
    (within / "universes.json").write_text(json.dumps(universes))
    assert "5 of 6 universes were run" in build(out, configured()).read_text()

    shutil.move(within, guest / "elsewhere")
    within.symlink_to(guest / "elsewhere")
    with pytest.raises(UserError, match="itself but a link or a file"):
        build(out, configured())


def test_a_claim_is_told_of_in_all_universes_and_in_the_papers_own():
    outcomes = {
        "own-1": ["undecided", "supported", "supported"],
        "own-2": ["not supported", "supported", "not run"],
        "own-2, number": ["supported"] * 3,
        "own-2, side": ["undecided"] * 3,
    }
    own = "With the paper's own choices and as many repetitions as a universe has, it is"
    assert _holds(counted_findings(outcomes, {"own-1": [1.0] * 3, "own-2": [1.0] * 3})) == {
        "own-1": f"supported in 2 of 3 universes, undecided in 1. {own} undecided",
        "own-2": "supported in 1 of 3 universes, not supported in 1, not run in 1; its reported values are "
        "supported in 3 of 3 universes; its side statements are supported in 0 of 3 universes, undecided in 3. "
        f"{own} not supported",
    }


def counted_findings(outcomes, powers):
    of_spec = SimpleNamespace(outcomes=outcomes, powers=powers, universes=[("a",), ("b",), ("c",)])
    of_spec.decidable = partial(Findings.decidable, of_spec)
    return of_spec


def test_universes_without_power_are_not_counted():
    outcomes = {"own-1": ["undecided", "supported", "undecided"], "own-2": ["undecided"] * 3}
    texts = _holds(counted_findings(outcomes, {"own-1": [0.3, 0.9, 0.8], "own-2": [0.0, 0.5, 0.79]}))
    assert texts["own-1"] == "supported in 1 of 2 universes, undecided in 1 (1 more with a power below 80 %)"
    assert texts["own-2"] == "not evaluated for want of power (at most 79 % in all 3 universes; 80 % is needed)"
    assert not re.search(r"\d of \d", texts["own-2"])


def best_of_30(runs, rng):
    draw = judge_best("F", F, rng.normal(0.76, 0.01, runs), rng.normal(0.76, 0.01, runs), 30)
    return draw.component


def test_runs_that_cannot_refute_a_best_of_30_have_no_power(rng):
    """150 runs have a least p-value of .33; 1170 are needed for any p-value below 5 %."""
    rows = make_rows("own", "nips", "none", 5, 2)
    assert [power(best_of_30(runs, rng), rows, 1) for runs in (150, 1100, 1200)] == [0.0, 0.0, 1.0]


@pytest.mark.parametrize("n", [4, 10, 40])
def test_the_power_of_a_statement_is_how_often_it_is_refuted_if_wrong_by_what_matters(n, rng):
    rows, sd = make_rows("own", "nips", "none", 5, 2), 0.02
    samples = rng.normal(-0.02, sd, (2000, n))
    refuted = np.mean([ttest_1samp(x, 0.0, alternative="less").pvalue <= 0.05 for x in samples])
    x = np.arange(n) - (n - 1) / 2
    own = above("P", sd * x / x.std(ddof=1), unit="P")
    assert power(own, rows, 1) == pytest.approx(refuted, abs=0.05)
    assert power(own, rows, 8) < power(own, rows, 1)


def test_what_matters_is_the_margin_or_a_hundredth_of_f(rng):
    rows = make_rows("own", "nips", "none", 5, 2, objective=0.5)
    x = rng.normal(0, 0.004, 12)
    assert power(below("F on NIPS", x, unit="F"), rows, 1) == pytest.approx(
        power(below("P", x, Margin(0.005, "little"), unit="P"), rows, 1), abs=0.02
    )
    assert power(below("P", x, Margin(0.05, "much"), unit="P"), rows, 1) > 0.99
    assert power(below("P", [0.1, 0.1, 0.1]), rows, 1) == 1


def test_a_tail_is_the_two_sided_probability_of_a_reported_number(rng):
    distribution = distribution_of_best(P, rng.random(400), rng.normal(0.6, 0.03, 400), 1)
    drawn = rng.choice(distribution.values, 200_000) + distribution.width * rng.standard_normal(200_000)
    expected = 2 * min((drawn >= 0.66 - 0.0005).mean(), (drawn <= 0.66 + 0.0005).mean())
    assert distribution.tail(0.66, 0.0005) == pytest.approx(expected, abs=0.01)
    assert distribution.tail(float(np.median(distribution.values)), 0.0005) > 0.9
    exact = distribution_of_share(300_000, 1_000_000, 100)
    assert exact.tail(0.2, 0.0005) == pytest.approx(2 * binom(100, 0.3).cdf(20), rel=1e-3)


def test_the_explanation_names_the_choices_that_fit_and_what_stays_unexplained(rng):
    own, results, settled_ = universes_and_rows(rng)
    findings = compute_findings(results, own, settled_)
    labels = [str(i) for i in range(len(findings.numbers))]
    p = np.array([0.01 if universe[0] == "yes" else 0.4 for universe in findings.universes])
    few, many = np.full(4, 0.3), np.full(4, 0.01)
    assert explanation(replace(findings, p=p, least_p=many), labels) == (
        "The paper's own choices do not explain the 8 reported numbers (p = 0.01). Other universes: 1 rejected, 2 "
        "not rejected. Every universe that is not rejected uses rescaled: no. The numbers favour rescaled: no (100 % "
        "of the likelihood)."
    )
    assert "Other universes: 1 rejected, 0 not rejected, 2 with too few runs to tell. Every universe" in (
        explanation(replace(findings, p=p, least_p=few), labels)
    )
    single = replace(findings, p=np.array([0.4, 0.01, 0.01, 0.4]), least_p=many)
    assert "Every universe" not in explanation(single, labels)
    text = explanation(replace(findings, p=np.full(4, 0.4), least_p=many), labels)
    assert text.startswith("The 8 reported numbers together do not reject the paper's own choices (p = 0.4). Other")
    text = explanation(replace(findings, p=np.full(4, 0.4), least_p=few), labels)
    assert text.startswith(
        "The paper's own choices have too few runs to be rejected by the 8 reported numbers (p = 0.4"
    )
    tails = np.full_like(findings.tails, 0.5)
    tails[findings.nearest, 3] = 0.001
    text = explanation(replace(findings, p=np.full(4, 0.01), tails=tails), labels)
    assert f"unexplained in it: 3 ({findings.numbers[3].value:g}, p = 0.001)." in text
    section = multiverse_section(results, own, settled_)
    assert section.explanation
    assert section.explanation in section.sentences
    assert any("The reported number that fits least is" in sentence for sentence in section.sentences)
    (table,) = (p.files for p in section.pieces if p.title == "The universes")
    (packed,) = (content for path, content in table.items() if path.suffix == ".xz")
    assert b"probability of P" in lzma.decompress(packed)
    assert section.universes["own"].tolist() == [True, False, False, False]
    assert section.universes["numbers"].tolist() == findings.agreement
    assert section.universes["power of bmd09-4"].tolist() == findings.powers["bmd09-4"]
    assert section.cost["rows"] == len(results.all_rows)
    least = section.universes["least_likely"].unique()
    assert f"({least.item()})" in next(text for text in section.sentences if "fits least" in text)


def test_tables_of_a_multiverse_name_its_choices_in_words(rng):
    own, results, settled_ = universes_and_rows(rng)
    findings = compute_findings(results, own, settled_)
    choices = {"rescaled": own.choices["rescaled"], "first_start_bmd09": own.choices["starts"]}
    findings = replace(findings, spec=replace(own, choices=choices))
    labels = [str(i) for i in range(len(findings.numbers))]
    assert _options(findings).frame["choice"].tolist() == ["rescaled"] * 2 + ["first start"] * 2
    assert {"rescaled", "first start"} < set(_shares(findings, labels).frame)


@pytest.mark.parametrize("own", multiverses(), ids=lambda own: own.paper)
def test_a_multiverse_has_the_datasets_of_its_claims(own):
    """Those of each claim's sentence, except unavailable ones; a claim's count is not of one dataset alone."""
    unavailable = {"bio", "light", "sector", "rcv1", "ilsvrc2012"}
    for claim in claims():
        if claim.id in own.claims:
            assert {*claim.scope} - unavailable <= {*own.datasets}


def test_settings_of_a_method_on_a_dataset_and_r_of_a_study_are_its_own(studies):
    own = next(each for each in multiverses() if each.paper == "lf20")
    runs = {name: settings_on_dataset(own.methods["leverage_approx"], name)["runs"] for name in own.datasets}
    assert runs["orl"] < runs["nips"]
    assert [own.narrowed(studies[name])["r_grid"] for name in ("lf20_nips", "lf20_orl")] == [[60], [130]]
    assert own.narrowed(studies["lf20_nips_runs"])["r_grid"] == studies["lf20_nips_runs"]["r_grid"]


def test_lf20s_multiverse_has_the_choices_and_numbers_that_it_leaves_open():
    own = next(each for each in multiverses() if each.paper == "lf20")
    assert {"online_phase", "centred", "r_of_fig10", "rescaled", "merged"} <= {*own.choices}
    assert {"lf20_fig1", "lf20-5", "lf20_table2"} <= {*own.numbers}
    assert {n.dataset for n in claims_multiverse.numbers_of(own)} == {"orl", "nips"}


def test_bmd09s_multiverse_is_run_in_full():
    own = next(each for each in multiverses() if each.paper == "bmd09")
    assert own.size == own.all == 288


@pytest.mark.slow
def test_a_larger_budget_extends_the_design_and_a_smaller_one_keeps_rows(guest, monkeypatch):
    out, file = guest / "out", guest / "lab" / "papers" / "own30" / "multiverse.yaml"
    file.write_text(file.read_text() + "  own30_more: {plain: {}, best: {matching: best}}\n")
    toml = file.with_name("paper.toml")
    toml.write_text(toml.read_text() + '[[open]]\nid = "own30_more"\nquestion = "?"\nchosen = "-"\nother = "-"\n')
    monkeypatch.setattr("kmdr.reporting.build.build", lambda out, *arguments, **options: out)
    monkeypatch.setattr("kmdr.multiverse.design.expected_seconds", lambda *tables: lambda task: 1.0)

    def universes(*arguments):
        assert COMMANDS["multiverse"](["own30", f"OUT={out}", *arguments]) == 0
        return [tuple(each["options"]) for each in json.loads((out / "universes.json").read_text())["own30"]]

    (own,) = multiverses(["own30"])
    assert own.all == 12
    few = universes()
    assert few == own.universes[:6]
    rows = len(numbers_in(out))
    assert universes("BUDGET=2m") == own.universes
    assert len(numbers_in(out)) >= rows


def test_what_cannot_be_asked_for_is_refused(guest):
    with pytest.raises(UserError, match="no paper with a multiverse"):
        COMMANDS["multiverse"](["own31"])
    with pytest.raises(UserError, match="not a duration"):
        COMMANDS["multiverse"](["own30", "BUDGET=soon"])
    with pytest.raises(UserError, match="no option of"):
        COMMANDS["multiverse"](["own30", "ROWS=3"])
