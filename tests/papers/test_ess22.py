"""ess22: the Benchmark instances, the distortion of coresets against brute force, and claims on made-up numbers."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.cluster import KMeans

from kmdr import datasets
from kmdr.analysis.results import NotRunError, Results
from kmdr.base.errors import UserError
from kmdr.claims.catalogue import claims
from kmdr.claims.reported import reported
from kmdr.claims.verdicts import uncorrected
from kmdr.clustering.kmeans import lloyd
from kmdr.datasets.sources.coreset_benchmark import benchmark_digits, coreset_benchmark
from kmdr.metrics import objective, residual
from kmdr.papers.ess22 import facts, items, protocol
from kmdr.papers.ess22.claims import CLOSE, _against
from kmdr.papers.ess22.protocol import INSTANCES, SIZES, Instance
from rows import make_rows

CLAIMS = {claim.id: claim for claim in claims() if claim.paper == "ess22"}


def copied(k, alpha):
    """The instance as the paper constructs it: the first block by hand, each further one from rows copied k times."""
    A = np.zeros((k**alpha, alpha * k))
    for i in range(k**alpha):
        for j in range(alpha * k):
            A[i, j] = ((k - 1) / k if i % k == j else -1 / k) if j < k else A[i // k, j - k]
    return A


# -- the instances


@pytest.mark.parametrize(("k", "alpha"), [(2, 1), (2, 5), (3, 3), (5, 2), (10, 2)])
def test_the_instance_is_the_papers_but_for_a_shift(k, alpha):
    A, labels = coreset_benchmark(k, alpha)
    np.testing.assert_allclose(A.toarray() - 1 / k, copied(k, alpha), atol=1e-15)
    np.testing.assert_array_equal(labels, np.arange(k**alpha) % k)


@pytest.mark.parametrize("instance", [Instance(2, 5), Instance(3, 3), Instance(5, 2)])
def test_every_block_is_a_partition_of_the_natural_cost(instance):
    A, _ = coreset_benchmark(*instance)
    assert instance.total == (A.toarray() ** 2).sum()
    for digit in benchmark_digits(*instance).T:
        assert residual(A, digit) == pytest.approx(instance.natural_cost, abs=1e-9)
    assert instance.least_cost(instance.k) == pytest.approx(instance.natural_cost)  # so it is optimal


def test_the_lower_bound_is_that_of_the_singular_values():
    instance = Instance(4, 3)
    s = np.linalg.svd(copied(*instance), compute_uv=False)
    for clusters in range(1, 12):  # a partition into c clusters of centred points has a rank of at most c − 1
        assert instance.least_cost(clusters) == pytest.approx((s[clusters - 1 :] ** 2).sum())


def test_a_cost_from_f_is_the_inertia_of_scikit_learn():
    """F on CSR times the total, and scikit-learn's inertia on the paper's dense matrix, of the same partitions."""
    instance = Instance(4, 4)
    A, _ = coreset_benchmark(*instance)
    starts = np.random.default_rng(3).choice(instance.n, 4, replace=False)
    dense = copied(*instance)
    theirs = KMeans(4, init=dense[starts], n_init=1, tol=0).fit(dense)
    assert objective(A, theirs.labels_) * instance.total == pytest.approx(theirs.inertia_)
    ours = lloyd(A, starts[None], 300)
    assert objective(A, ours.labels) * instance.total == pytest.approx(residual(dense, ours.labels))
    for cost in (theirs.inertia_, ours.inertia):
        assert cost >= instance.least_cost(4) * (1 - 1e-9)


def test_the_datasets_are_those_of_the_instances(tmp_path, monkeypatch):
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path))
    for name, (k, alpha) in INSTANCES.items():
        entry = datasets.registry.entry(name)
        assert (entry.n, entry.d, entry.k) == (k**alpha, alpha * k, k)
        assert (entry.fixed, entry.options) == ({"k": k}, {"alpha": alpha})
    data = datasets.load("benchmark_k10", {"alpha": 2})
    assert (data.A.shape, data.k) == ((100, 20), 10)


@pytest.mark.parametrize(("k", "alpha"), [(1, 3), (3, 0), (40, 6)])
def test_an_impossible_instance_is_refused(k, alpha):
    with pytest.raises(UserError, match=f"k = {k} and alpha = {alpha} are not"):
        coreset_benchmark(k, alpha)


# -- published numbers


def test_published_costs_of_k_means_are_at_least_the_least_possible():
    for name, instance in INSTANCES.items():
        costs = protocol.published_curve(name)
        assert costs.index.tolist() == [10, 20, 30, 40, 50, 70, 100, 200]
        assert (costs >= instance.least_cost(costs.index) * (1 - 1e-9)).all()
        assert costs.is_monotonic_decreasing
        assert costs[instance.k] >= instance.natural_cost * (1 - 1e-9)


def test_published_costs_of_prescribed_centres_are_means_of_possible_ones():
    """Each is the natural cost, and 2n/k more for each cluster that is not among the centres; ten runs are averaged."""
    for name, instance in INSTANCES.items():
        costs = protocol.published_runs(name, quantity="real_cost")["mean"]
        clusters = (costs - instance.natural_cost) / (2 * instance.n / instance.k)
        np.testing.assert_allclose(10 * clusters, (10 * clusters).round(), atol=1e-5)
        assert costs.index.tolist() == [size * instance.k for size in SIZES]


def test_published_distortions_are_at_least_one():
    table = reported("ess22")
    assert (table.loc[table["quantity"] == "distortion", "value"] >= 1).all()
    counts = table[table["quantity"] == "distortion"].groupby(["dataset", "method"]).size().unstack()
    assert (counts.drop(columns="stream_km") == 4).all(axis=None)
    assert (counts["stream_km"] == 3).all()


# -- coresets and their distortion


def brute_force_seeding(A, seeds, k):
    """Labels, half squared distances and means of the clusters around some rows of A."""
    squares = ((A[:, None] - A[seeds]) ** 2).sum(axis=2)
    labels = squares.round(9).argmin(axis=1)
    means = np.stack([A[labels == c].mean(axis=0) for c in range(len(seeds))])
    return labels, squares.min(axis=1) / 2, means.reshape(len(seeds), -1, k)


@pytest.mark.parametrize("instance", [Instance(3, 3), Instance(5, 2), Instance(4, 4)])
def test_clusters_are_those_around_the_seeds(instance):
    A = coreset_benchmark(*instance)[0].toarray()
    digits = np.ascontiguousarray(benchmark_digits(*instance).T.astype(np.int8))
    clusters = facts.seeding(digits, instance.k, 2 * instance.k, np.random.default_rng(0))
    assert (np.bincount(clusters.labels[clusters.differing == 0]) == 1).all()  # of each cluster its seed alone
    order = np.flatnonzero(clusters.differing == 0)
    seeds = order[np.argsort(clusters.labels[order])]
    labels, differing, means = brute_force_seeding(A, seeds, instance.k)
    np.testing.assert_array_equal(clusters.labels, labels)
    np.testing.assert_allclose(clusters.differing, differing, atol=1e-9)
    np.testing.assert_allclose(clusters.means, means, atol=1e-12)


def test_points_are_drawn_in_proportion_to_their_masses():
    """A chi-squared test at a level of 10⁻⁴."""
    differing = np.array([0, 1, 1, 2, 3, 3, 3], dtype=np.int8)
    masses = np.sqrt(np.arange(4.0))
    drawn = facts.draw_points(masses, differing, 20_000, np.random.default_rng(5))
    counts = np.bincount(drawn, minlength=7)
    assert counts[0] == 0
    expected = masses[differing] / masses[differing].sum() * 20_000
    assert stats.chisquare(counts[1:], expected[1:]).pvalue > 1e-4


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_the_weighted_cost_of_the_seeds_is_unbiased(power):
    """For the clusters' own costs without a loss: every draw adds the same share of Σ d^power."""
    instance = Instance(4, 3)
    digits = np.ascontiguousarray(benchmark_digits(*instance).T.astype(np.int8))
    rng = np.random.default_rng(1)
    clusters = facts.seeding(digits, 4, 8, rng)
    coreset = facts.sensitivity_coreset(digits, clusters, 50, power, rng)
    costs = clusters.differing.astype(float) ** power
    where = (coreset.digits * 4 ** np.arange(3)[:, None]).sum(axis=0)
    assert (coreset.weights * costs[where]).sum() == pytest.approx(costs.sum())
    assert (coreset.mean_weights >= 0).all()
    inside = np.bincount(clusters.labels[where], coreset.weights, minlength=8) + coreset.mean_weights
    assert (inside >= np.bincount(clusters.labels) - 1e-9).all()


def brute_force_worst(instance, A, points, weights):
    """The authors' evaluation on dense points: nearest points of means, non-deficient clusters, ratios of costs."""
    nearest = ((points[:, None] - A) ** 2).sum(axis=2).round(9).argmin(axis=1)
    worst = (0.0, 0.0, 0.0)
    for digit in benchmark_digits(*instance).T:
        for deficiency in facts.DEFICIENCIES:
            centres = [
                A[digit == c].mean(axis=0)
                for c in range(instance.k)
                if weights[digit[nearest] == c].sum() >= (1 - deficiency) * (digit == c).sum()
            ]
            if not centres:
                continue
            real, cost = (
                (w * ((X[:, None] - np.stack(centres)) ** 2).sum(axis=2).min(axis=1)).sum()
                for X, w in ((A, np.ones(len(A))), (points, weights))
            )
            worst = max(worst, (max(real / cost, cost / real), real, cost))
    return worst


@pytest.mark.parametrize("instance", [Instance(3, 3), Instance(5, 2), Instance(4, 3)])
@pytest.mark.parametrize("power", [0.5, 1.0])
def test_the_distortion_is_that_of_the_dense_points(instance, power):
    A = coreset_benchmark(*instance)[0].toarray()
    digits = np.ascontiguousarray(benchmark_digits(*instance).T.astype(np.int8))
    for seed in range(5):
        rng = np.random.default_rng(seed)
        clusters = facts.seeding(digits, instance.k, 2 * instance.k, rng)
        coreset = facts.sensitivity_coreset(digits, clusters, 12, power, rng)
        rows = (coreset.digits * instance.k ** np.arange(instance.alpha)[:, None]).sum(axis=0)
        points = np.concatenate([A[rows], coreset.means.reshape(len(coreset.means), -1)])
        expected = brute_force_worst(instance, A, points, np.r_[coreset.weights, coreset.mean_weights])
        np.testing.assert_allclose(facts.worst_distortion(instance, coreset), expected, rtol=1e-9)


def test_all_points_with_weight_one_have_no_distortion():
    instance = Instance(4, 3)
    digits = benchmark_digits(*instance).T.astype(np.int8)
    clusters = facts.seeding(digits, 4, 4, np.random.default_rng(0))
    coreset = facts.Coreset(digits, np.ones(instance.n), clusters.means, np.zeros(4))
    worst = facts.worst_distortion(instance, coreset)
    np.testing.assert_allclose(worst, (1.0, instance.natural_cost, instance.natural_cost))


# -- items and claims on made-up numbers


def world(shift=0.0, power=1.0, cost=1.03, repeats=6):
    """Results in which our distortions are the published ones, to a power of their excess over 1 and plus a shift."""
    rng = np.random.default_rng(2)
    lines = []
    for name, instance in INSTANCES.items():
        for construction in protocol.VARIANTS:
            for points, line in protocol.published_runs(name).iterrows():
                for repeat in range(16):
                    excess = (line["mean"] - 1) * (1 + 0.05 * rng.standard_normal())
                    value = 1 + shift + 0.012 * (excess / 0.012) ** power
                    lines.append((name, construction, points, repeat, value, instance.natural_cost))
    columns = ["dataset", "construction", "points", "repeat", "distortion", "real_cost"]
    rows = []
    for name, instance in INSTANCES.items():
        study = protocol.NATURAL if name in protocol.SMALL else protocol.NATURAL_LARGE
        F = instance.natural_cost / instance.total
        rows.append(
            make_rows(
                study, name, "none", instance.alpha * instance.k, repeats, k=instance.k,
                objective=lambda r, repeat, F=F: F * (cost + 0.005 * repeat),
            )
        )  # fmt: skip
    table = pd.DataFrame(lines, columns=columns)
    return Results(pd.concat(rows, ignore_index=True), {protocol.DISTORTIONS: table})


def outcomes(results):
    return {id_: uncorrected(claim, results).outcome for id_, claim in CLAIMS.items()}


def test_numbers_like_the_published_ones_support_the_claims():
    assert outcomes(world()) == dict.fromkeys(CLAIMS, "supported")


@pytest.mark.parametrize(
    ("change", "claim"),
    [
        ({"shift": 0.006}, "ess22-1"),
        ({"power": -1.0}, "ess22-2"),
        ({"shift": 0.006}, "ess22-3"),
        ({"cost": 0.9}, "ess22-4"),
    ],
)
def test_a_claim_that_is_false_is_not_supported(change, claim):
    assert outcomes(world(**change))[claim] == "not supported"


def test_a_margin_decides_the_first_claim():
    statement = CLAIMS["ess22-1"](world(shift=0.0015)).components[0]
    assert statement.margin is CLOSE
    p_for = [statement.against(margin).p_for for margin in (0.0005, 0.001, 0.002, 0.004)]
    assert all(a > b for a, b in pairwise(p_for))


def test_a_comparison_with_published_means_is_welchs_test():
    """Against scipy's test from summary statistics, on one size."""
    theirs = protocol.published_runs("benchmark_k30", "bico").iloc[:1]
    values = np.random.default_rng(0).normal(1.7, 0.5, 16)
    component = _against("x", values, theirs)
    (mean, deviation), n = theirs.iloc[0], protocol.RUNS
    test = stats.ttest_ind_from_stats(
        values.mean(), values.std(ddof=1), 16, mean, deviation, n, equal_var=False, alternative="less"
    )
    assert component.p_for == pytest.approx(test.pvalue)
    assert component.p_against == pytest.approx(1 - test.pvalue)
    assert component.effect == pytest.approx(values.mean() - mean)


def test_the_tables_have_the_published_numbers():
    table = items.distortion_table(world()).frame
    assert len(table) == 16
    first = table.iloc[0]
    assert (first["points"], round(first["reported"], 4), first["BICO"] > 3) == (500, 1.0181, True)
    assert (table["low"] < table["ours"]).all()
    assert table["StreamKM++"].isna().sum() == 4
    with pytest.raises(NotRunError, match="on request"):
        items.coreset_table(world())


def test_coresets_are_compared_with_all_points():
    results = world()
    instance = INSTANCES[protocol.CORESETS_ON]
    parts = [
        make_rows(study, protocol.CORESETS_ON, "none", 60, 3, k=10, objective=0.9 + 0.01 * i)
        for i, study in enumerate(protocol.CORESETS)
    ]
    table = items.coreset_table(Results(pd.concat([results.all_rows, *parts], ignore_index=True))).frame
    assert table["clustered"].tolist() == ["500 points", "1000 points", "2000 points", "5000 points", "all points"]
    assert table["cost / natural"][0] == pytest.approx(0.9 * instance.total / instance.natural_cost)


def test_the_cost_curves_are_relative_to_the_natural_cost():
    drawing = items.cost_curves(world())
    numbers = drawing.numbers
    ours = numbers[numbers["label"] == items._LABEL]
    np.testing.assert_allclose(ours["mean"], 1.03 + 0.005 * 2.5)
    theirs = numbers[numbers["label"].str.startswith("reported")]
    at_k10 = theirs[(theirs["dataset"] == "benchmark_k10") & (theirs["clusters"] == 10)]
    assert at_k10["mean"].item() == pytest.approx(1.0)
    assert len(drawing.figure.axes) == len(INSTANCES)


def test_the_fact_repeats_itself_and_follows_the_seed(monkeypatch):
    monkeypatch.setattr(facts, "INSTANCES", {"benchmark_k10": Instance(10, 2)})
    monkeypatch.setattr(facts, "DRAWS", 2)

    def made(seed):
        rows = make_rows(protocol.NATURAL, "benchmark_k10", "none", 60, 2, seed=seed)
        return facts.distortions([], Results(rows))

    first = made(1)
    pd.testing.assert_frame_equal(first, made(1))
    assert not first["distortion"].equals(made(2)["distortion"])
    assert first.groupby(["construction", "points"]).size().tolist() == [2] * 12
    assert first["distortion"].min() >= 1
