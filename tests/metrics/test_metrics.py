"""F, P, NMI and ARI against brute force."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from kmdr.base.errors import ArgumentError, UserError
from kmdr.clustering.kmeans import Protocol, lloyd, starting_rows
from kmdr.linalg.matrix import normalised, squared_frobenius, treat_as_out_of_core
from kmdr.metrics import accuracy, agreement, class_numbers, objective, residual, residuals
from kmdr.metrics.kernels import _within_csr
from kmdr.metrics.scores import (
    Residual,
    _ari,
    _bounded_residual,
    _clusters,
    _from_within,
    _gamma,
    check_matching,
    matching_modules,
)

LAYOUTS = [np.asarray, sp.csr_array, np.asfortranarray]


def sparse_matrix(rng, n, d, density=0.3):
    return rng.standard_normal((n, d)) * (rng.random((n, d)) < density)


def read_only(A):
    for part in (A.data, A.indices, A.indptr) if sp.issparse(A) else (A,):
        part.flags.writeable = False
    return A


def explicit_objective(A, labels):
    """‖A − XXᵀA‖²_F/‖A‖²_F with the n×k normalised indicator matrix X of the papers."""
    A = np.asarray(A, dtype=np.float64)
    clusters = np.unique(labels)
    X = np.zeros((len(labels), len(clusters)))
    for column, cluster in enumerate(clusters):
        members = labels == cluster
        X[members, column] = 1 / np.sqrt(members.sum())
    return np.linalg.norm(A - X @ (X.T @ A)) ** 2 / np.linalg.norm(A) ** 2


def exact_residual(A, labels):
    """Σ‖a_i − μ‖² in rational arithmetic."""
    total = Fraction(0)
    for cluster in set(labels.tolist()):
        for column in A[labels == cluster].T:
            values = [Fraction(float(value)) for value in column]
            total += sum(v * v for v in values) - sum(values) ** 2 / len(values)
    return float(total)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "d", "k"), [(1, 1, 1), (7, 3, 1), (40, 11, 4), (12, 60, 12), (300, 5, 17)])
def test_objective_equals_the_explicit_projection(layout, dtype, n, d, k, rng):
    A = sparse_matrix(rng, n, d).astype(dtype)
    A[0, 0] = 1
    labels = rng.permutation(np.arange(n) % k)
    value = objective(read_only(layout(A)), labels)
    assert value == pytest.approx(explicit_objective(A, labels), rel=1e-10, abs=1e-14)
    expected = value * np.linalg.norm(A.astype(np.float64)) ** 2
    assert objective(layout(A), labels, total=1.0) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("seed", range(40))
def test_squared_sums_of_clusters_are_those_of_scipy_to_the_last_bit(seed):
    """Committed rows were made by a product of sparse matrices, whose order of summation this keeps."""
    rng = np.random.default_rng(seed)
    n, d, k = rng.integers([1, 1, 1], [200, 300, 12])
    A = rng.standard_normal((n, d)) * (rng.random((n, d)) < (0.01, 0.1, 0.5)[seed % 3])
    A = sp.csr_array(np.round(A) if seed % 4 == 0 else A).astype((np.float64, np.float32)[seed % 2])
    A.data[: seed % 5] = 0.0
    labels = rng.integers(k, size=n)
    sums = sp.csr_array((np.ones(n), (labels, np.arange(n))), shape=(k, n)) @ A.astype(np.float64)
    expected = np.asarray(sums.multiply(sums).sum(axis=1)).ravel()
    np.testing.assert_array_equal(_within_csr(read_only(A), labels, k), expected)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_objective_does_not_mind_gaps_in_the_cluster_numbers(layout, rng):
    A = sparse_matrix(rng, 30, 6)
    labels = rng.integers(3, size=30)
    assert objective(layout(A), np.array([0, 5, 9])[labels]) == pytest.approx(explicit_objective(A, labels), rel=1e-12)


# The last rounds the means to 2^-11, which changes the residual by 10⁻⁵ if it is not corrected.
@pytest.mark.parametrize("offset", [2.0**10, 2.0**20, 2.0**27, 2.0**42])
def test_dense_residual_keeps_nine_digits_far_from_the_origin(offset, rng):
    # Multiples of the spacing there, so that adding the offset is exact and the residual is the same rational number.
    unit = max(2.0**-16, np.spacing(offset))
    A = np.round(rng.standard_normal((200, 6)) / unit) * unit
    labels = rng.integers(4, size=200)
    expected = exact_residual(A, labels)
    assert exact_residual(A + offset, labels) == pytest.approx(expected, rel=1e-14)
    assert residual(A + offset, labels) == pytest.approx(expected, rel=1e-9)
    together = residuals(A + offset, [labels, labels], squared_frobenius(A + offset))
    assert [one.value for one in together] == pytest.approx([expected] * 2, rel=1e-9)


@pytest.mark.parametrize("offset", [1.0, 2.0**10, 2.0**20])
def test_sparse_objective_is_right_to_rounding_of_the_total(offset, rng):
    A = np.round(rng.standard_normal((200, 6)) * 2**16) / 2**16 + offset
    labels = rng.integers(4, size=200)
    expected = exact_residual(A, labels) / np.sum(A**2)
    assert objective(sp.csr_array(A), labels) == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize("seed", range(24))
def test_partitions_that_are_scored_together_get_what_each_gets_alone_to_the_last_bit(seed):
    """Committed rows were scored one by one. Some clusters are empty, some wider than the strips that are summed."""
    rng = np.random.default_rng(seed)
    n, d = (1, 1) if seed == 0 else (1500, 700) if seed == 1 else rng.integers(1, (400, 900))
    A = rng.standard_normal((n, d)) * 10.0 ** rng.integers(-3, 4, d) + rng.integers(3)
    A = read_only((np.asarray, np.asfortranarray)[seed % 2](A.astype((np.float64, np.float32)[seed % 3 == 2])))
    partitions = [rng.integers(rng.integers(1, n + 1), size=n) for _ in range(4)]
    partitions += [np.zeros(n, np.int64), np.arange(n), np.arange(n) % 2 * 10**9, partitions[0].astype(np.uint16)]
    _, _, total = normalised(A)
    together = residuals(A, partitions, total)
    assert [value for value, _ in together] == [residual(A, labels) for labels in partitions]
    alone = [objective(A, labels) for labels in partitions]
    assert [objective(A, *each) for each in zip(partitions, [total] * 8, together, strict=True)] == alone


def test_partitions_that_are_scored_together_are_right_to_rounding(rng):
    A = rng.standard_normal((23, 37)) + 100
    partitions = [rng.integers(k, size=23) for k in (1, 3, 9)]
    for (value, error), labels in zip(residuals(A, partitions, normalised(A)[2]), partitions, strict=True):
        exact = exact_residual(A, labels)
        assert abs(value - exact) <= error
        assert value == pytest.approx(exact, rel=1e-12)


def test_an_objective_that_rounding_may_have_changed_is_refused(rng):
    A, labels = rng.standard_normal((30, 4)), rng.integers(3, size=30)
    assert objective(A, labels, 100.0, Residual(50.0, 1e-6)) == 0.5
    with pytest.raises(ArithmeticError, match=r"F = 0\.5 may be wrong by 0\.0001 by rounding"):
        objective(A, labels, 100.0, Residual(50.0, 1e-2))


def test_the_bound_of_rounding_errors_is_that_of_sums_in_any_order():
    for terms in (1, 10**6, 2**51):
        mu = Fraction(terms, 2**53)
        assert _gamma(terms) == pytest.approx(float(mu / (1 - mu)), rel=1e-15)
    assert _gamma(2**52) == math.inf  # beyond one half the bound says nothing


def test_residuals_carry_the_bound_for_the_additions_that_were_made(rng):
    n, d, k = 6, 300, 2
    A, labels = rng.standard_normal((n, d)), np.array([0, 1, 0, 1, 1, 0])
    total = squared_frobenius(A)
    gamma = _gamma(n + d + 2 * k + 8)  # two strips of 256 columns
    value, error = _bounded_residual(A, labels, k, total)
    assert error == 8 * gamma * (value + gamma**2 * total)
    stored = sp.csr_array(A)
    assert _bounded_residual(stored, labels, k, total).error == 6 * _gamma(stored.nnz + n + 8) * total
    with treat_as_out_of_core(100):
        additions = n + d + k + (1800 + 8)  # of all squares at once
        assert _bounded_residual(A, labels, k, total).error == 6 * _gamma(additions) * total


def test_residuals_of_repeated_sparse_points_are_computed_without_cancellation():
    points = np.array([[1.0, 0.0, 0.0, 3.0], [0.0, 2.0, 0.0, 0.0]])
    labels = np.array([0, 1, 0, 1, 0])
    A = sp.csr_array(points[labels])
    total = squared_frobenius(A)
    gamma = _gamma(5 + min(A.nnz, 2 * 4) + 8)
    assert _bounded_residual(A, labels, 2, total) == (0.0, 8 * gamma * gamma**2 * total)


def test_the_form_that_costs_less_is_taken_unless_rounding_may_change_it():
    error = 6 * _gamma(100)
    assert _from_within(1e8 * error * 1.01, 100, 1.0) == (1e8 * error * 1.01, error)
    assert _from_within(1e8 * error * 0.99, 100, 1.0) is None


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.uint64])
def test_labels_of_any_type_are_counted_as_int64(dtype):
    for names, numbers, k in (([0, 2, 1], [0, 2, 1], 3), ([0, 200, 7], [0, 2, 1], 3)):
        labels, count = _clusters(np.array(names, dtype=dtype), 3)
        assert labels.dtype == np.int64
        assert (labels.tolist(), count) == (numbers, k)


def test_labels_may_be_a_list(rng):
    A, labels = rng.standard_normal((30, 4)), rng.integers(3, size=30)
    assert objective(A, labels.tolist()) == objective(A, labels)
    assert accuracy(labels.tolist(), labels.tolist()) == 1


@pytest.mark.parametrize(
    ("truth", "labels"), [([0, 1], [0]), ([[0, 1]], [[0, 1]]), ([], []), ([0.0, 1.0], [0, 1]), ([0, 1], ["a", "b"])]
)
def test_partitions_that_name_other_points_are_refused(truth, labels):
    with pytest.raises(ArgumentError, match="do not name the same points by whole numbers; give two of equal length"):
        accuracy(truth, labels)


@pytest.mark.parametrize("measure", [objective, residual])
@pytest.mark.parametrize(
    "labels", [[0, 1], [0, 1, 0, 1], [[0, 1, 0]], [0.0, 1.0, 0.0], [0, -1, 1], [True, False, True]]
)
def test_labels_that_do_not_number_the_rows_are_refused(measure, labels, rng):
    A = rng.standard_normal((3, 2))
    for form in (A, sp.csr_array(A)):
        with pytest.raises(ArgumentError, match="are not 3 whole numbers from 0, one for each row; give these"):
            measure(form, labels)


def test_a_matching_refuses_labels_that_it_is_not_defined_for():
    blocks, mixed = np.repeat([3, 5], 4), np.array([3, 5, 3, 3, 5, 5, 5, 3])
    for matching in ("best", "identity", "identity_lf20"):
        check_matching(matching, blocks)
        check_matching(matching, None)
    check_matching("best", mixed)
    with pytest.raises(UserError, match="needs the 8 rows in 2 blocks of equal size"):
        check_matching("identity_lf20", mixed)
    assert matching_modules() == ["kmdr.papers.lf20.matchings"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_objective_of_a_zero_matrix_is_zero(layout):
    assert objective(layout(np.zeros((5, 3))), np.array([0, 1, 0, 1, 1])) == 0


@pytest.mark.parametrize("layout", LAYOUTS)
def test_objective_of_singletons_is_zero_and_never_negative(layout, rng):
    for _ in range(50):
        A = sparse_matrix(rng, 25, 13)
        F = objective(layout(A), rng.permutation(25))
        assert 0 <= F < 1e-14


@pytest.mark.parametrize("layout", LAYOUTS)
def test_objective_of_repeated_points_in_their_own_clusters_is_never_negative(layout, rng):
    for _ in range(50):
        labels = rng.permutation(np.arange(40) % 3)
        F = objective(layout(sparse_matrix(rng, 3, 13)[labels]), labels)
        assert 0 <= F < 1e-14


def brute_accuracy(truth, labels):
    """The best over all injections of the smaller set of names into the larger."""
    classes, clusters = sorted(set(truth)), sorted(set(labels))
    pairs = Counter(zip(truth, labels, strict=True))
    if len(classes) > len(clusters):
        classes, clusters = clusters, classes
        pairs = Counter({(b, a): count for (a, b), count in pairs.items()})
    best = max(
        sum(pairs[pair] for pair in zip(classes, order, strict=True))
        for order in itertools.permutations(clusters, len(classes))
    )
    return best / len(truth)


@pytest.mark.parametrize("classes", [1, 2, 3, 5])
@pytest.mark.parametrize("clusters", [1, 2, 4, 5])
def test_accuracy_equals_the_best_injection(classes, clusters, rng):
    for n in (5, 17, 60):
        # Names with gaps, negative ones among them, in no order.
        truth = rng.choice([-3, 0, 4, 100, 7], size=classes, replace=False)[rng.integers(classes, size=n)]
        labels = rng.choice([9, 2, 5, 70, 0], size=clusters, replace=False)[rng.integers(clusters, size=n)]
        expected = brute_accuracy(truth.tolist(), labels.tolist())
        assert accuracy(truth, labels) == pytest.approx(expected, abs=1e-15)
        assert accuracy(labels, truth) == pytest.approx(expected, abs=1e-15)


def test_accuracy_by_hand():
    truth = np.array([0, 0, 0, 1, 1, 1])
    assert accuracy(truth, np.array([5, 5, 5, 2, 2, 2])) == 1
    assert accuracy(truth, np.array([0, 0, 0, 0, 0, 0])) == 0.5
    assert accuracy(truth, np.array([0, 1, 2, 3, 4, 5])) == pytest.approx(2 / 6)
    assert accuracy(truth, np.array([1, 1, 0, 0, 0, 1])) == pytest.approx(4 / 6)


def entropy(counts, n):
    return -sum(c / n * math.log(c / n) for c in counts if c)


def brute_nmi(truth, labels):
    n = len(truth)
    h, g = (entropy(Counter(names).values(), n) for names in (truth, labels))
    joint = entropy(Counter(zip(truth, labels, strict=True)).values(), n)
    return (h + g - joint) / ((h + g) / 2)


def brute_ari(truth, labels):
    """Hubert and Arabie's index by counting pairs of points one by one."""
    together = [(truth[i] == truth[j], labels[i] == labels[j]) for i, j in itertools.combinations(range(len(truth)), 2)]
    both = sum(a and b for a, b in together)
    first, second = sum(a for a, _ in together), sum(b for _, b in together)
    expected = first * second / len(together)
    return (both - expected) / ((first + second) / 2 - expected)


def test_nmi_and_ari_equal_their_definitions(rng):
    for _ in range(20):
        truth, labels = rng.integers(4, size=40), rng.integers(3, size=40)
        scores = agreement(truth, labels)
        assert set(scores) == {"accuracy", "nmi", "ari"}
        assert scores["nmi"] == pytest.approx(brute_nmi(truth.tolist(), labels.tolist()), abs=1e-12)
        assert scores["ari"] == pytest.approx(brute_ari(truth.tolist(), labels.tolist()), abs=1e-12)
        assert scores["accuracy"] == pytest.approx(brute_accuracy(truth.tolist(), labels.tolist()), abs=1e-15)


def test_names_of_any_type_and_range_give_the_same_scores(rng):
    truth, labels = rng.integers(4, size=40), rng.integers(3, size=40)
    scores = agreement(truth, labels)
    for names in (truth.astype(np.uint8), truth.astype(np.int16), truth * 10**12, truth - 10**15):
        assert agreement(names, labels) == scores
        assert agreement(names, labels.astype(np.uint8) * 80) == scores


def test_two_partitions_into_a_single_part_agree():
    assert agreement(np.zeros(5, dtype=int), np.full(5, 3)) == {"accuracy": 1.0, "nmi": 1.0, "ari": 1.0}


def test_independent_partitions_share_no_information_in_spite_of_rounding():
    counts = np.outer([1, 2, 3], [1, 2, 3])  # H + H' − H(table) is 4·10⁻¹⁶ as computed
    truth, labels = (np.repeat(names.ravel(), counts.ravel()) for names in np.indices(counts.shape))
    assert agreement(truth, labels)["nmi"] == 0.0


def test_agreement_known_values():
    truth = np.array([0, 0, 1, 1])
    assert agreement(truth, np.array([7, 7, 3, 3])) == pytest.approx({"accuracy": 1, "nmi": 1, "ari": 1})
    # Crossed halves: independent, so no information; ARI = (0 − 2/3)/(2 − 2/3) = −1/2.
    assert agreement(truth, np.array([0, 1, 0, 1])) == pytest.approx({"accuracy": 0.5, "nmi": 0, "ari": -0.5})
    assert agreement(truth, np.zeros(4, dtype=int)) == pytest.approx({"accuracy": 0.5, "nmi": 0, "ari": 0})


# --- cluster j for class j


def test_ari_of_a_billion_points_is_exact():
    table = np.array([[10**9 + 7, 3], [5, 10**9]])
    first, second = table.sum(axis=1).tolist(), table.sum(axis=0).tolist()
    both, rows, columns = (sum(math.comb(c, 2) for c in counts) for counts in (table.ravel().tolist(), first, second))
    expected = Fraction(rows * columns, math.comb(sum(first), 2))
    assert _ari(table) == float((both - expected) / (Fraction(rows + columns, 2) - expected))


def test_accuracy_under_the_identity_is_a_plain_comparison(rng):
    right = np.repeat(np.arange(12), 5)
    for _ in range(20):
        labels = rng.integers(12, size=60)
        same = sum(a == b for a, b in zip(right, labels, strict=True)) / 60
        assert agreement(right, labels, "identity")["accuracy"] == pytest.approx(same)
        assert agreement(right, labels)["accuracy"] == accuracy(right, labels) >= same


def test_classes_are_numbered_as_they_first_appear():
    np.testing.assert_array_equal(class_numbers(np.array([7, 7, -2, 9, -2, 7, 9])), [0, 0, 1, 2, 1, 0, 2])


def test_clusters_keep_the_numbers_of_their_starts(rng):
    # Far apart, so that k-means is right: under the identity P = 1 only if cluster j began at class j.
    truth = rng.permutation(np.arange(90) % 9) * 7 - 3
    A = 100 * rng.standard_normal((64, 5))[truth + 3] + rng.standard_normal((90, 5))
    rows = starting_rows(Protocol(1, 50, "first_of_class"), 90, 9, truth, rng)
    for layout in (np.asarray, sp.csr_array):
        labels = lloyd(layout(A), rows, 50).labels
        assert agreement(truth, labels, "identity")["accuracy"] == 1
        assert labels[rows[0]].tolist() == list(range(9))
