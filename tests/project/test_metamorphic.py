"""The same points give the same numbers, however they are written, and points that are moved give those of theory.

hypothesis draws points, a form of `forms.FORMS`, a type, a layout and a reducer. What kmdr reads is compared with the
points themselves, its hash with one made here, its rows with those of the plain matrix, and F and P with those that
longdouble arithmetic and scipy's Hungarian algorithm give for the clusters that the task kept.

``KMDR_EXAMPLES`` says how many examples each property is tried on. ``scripts/battery.py`` runs all properties to the
end, whatever fails, and counts the combinations.
"""

import csv
import hashlib
import os
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from scipy.stats import ks_2samp

import forms
from kmdr import datasets, reducers
from kmdr.base.seeding import generator
from kmdr.base.text import canonical
from kmdr.base.threads import pinned
from kmdr.cli.jobs import run_jobs
from kmdr.clustering.kmeans import Protocol, starter
from kmdr.config.task import Task
from kmdr.datasets import Dataset, from_arrays
from kmdr.harness.jobs import compose
from kmdr.harness.task import Provenance, run
from kmdr.linalg.matrix import normalised
from kmdr.metrics import score
from kmdr.results.labels import read_labels

EXAMPLES = int(os.environ.get("KMDR_EXAMPLES", "20"))
PROVENANCE = Provenance(1, 1, "v", "e")
PROTOCOL = Protocol(3, 100)
VARIANTS = (("svd", {"rank": "r"}), ("svd", {"centred": True}), ("svd", {"solver": "lapack"}))
REDUCERS = (*((name, {}) for name in reducers.names()), *VARIANTS)
HELD = ("float64", "float32", "sparse float64", "sparse float32")


def tried(share=1.0):
    """Return the settings of a property that is tried on a share of the examples."""
    return settings(
        max_examples=max(1, round(share * EXAMPLES)), database=None,
        suppress_health_check=list(HealthCheck), derandomize="KMDR_TEST_SEED" not in os.environ,
    )  # fmt: skip


# --- the account of what was tried


class Account:
    """Which combinations were tried, and what was wrong with which.

    Attributes
    ----------
    tried : Counter
        How often each combination was tried.
    compared : Counter
        How often the clusters of two trials were far enough from a tie to be compared, of each property that asks.
    wrong : dict
        The first thing that was wrong with each combination that was wrong.
    to_the_end : bool
        Whether a wrong combination is only noted, instead of failing the test.
    """

    def __init__(self):
        self.tried, self.compared, self.wrong, self.to_the_end = Counter(), Counter(), {}, False

    @contextmanager
    def of(self, *combination):
        self.tried[combination] += 1
        try:
            yield
        except Exception as error:
            self.wrong.setdefault(combination, f"{type(error).__name__}: {error}")
            if not self.to_the_end:
                raise

    def __str__(self):
        return f"{len(self.tried)} combinations in {self.tried.total()} trials, {len(self.wrong)} wrong"


ACCOUNT = Account()


@pytest.fixture(autouse=True, scope="module")
def cache():
    with own_cache():
        yield
    print(f"\n{ACCOUNT}")


# Properties that compare clusters only where no tie is near, and what `ACCOUNT.compared` calls them.
COMPARING = {
    "test_permuting_features_changes_nothing": "features permuted",
    "test_permuting_points_permutes_the_clusters": "points permuted",
    "test_adding_a_constant_changes_the_norm_alone": "constant added", "test_types_and_sparsity_agree": "types",
}  # fmt: skip


@pytest.fixture(autouse=True)
def comparisons(request):
    """Fail a property that hardly ever came to compare: of 80 examples, about 50 do."""
    before = ACCOUNT.compared.copy()
    yield
    if name := COMPARING.get(request.node.name):
        assert ACCOUNT.compared[name] - before[name] >= EXAMPLES


@contextmanager
def own_cache():
    """Prepare datasets in a folder that is deleted in the end, in one thread, and be silent about what is read."""
    with pinned(1), pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setenv("KMDR_CACHE", folder)
        patch.setenv("KMDR_DATA", "")
        patch.setattr(sys.modules[datasets.prepare.__module__], "tell", lambda _: None)
        patch.setattr(os, "fsync", lambda _: None)  # no power fails here
        yield Path(folder)


# --- oracles


def digest(A, labels):
    """Return the hash that `kmdr.datasets.content_sha256` documents, of a matrix in its kept form."""
    sha = hashlib.sha256()

    def add(name, array, kind):
        array = np.ascontiguousarray(array, kind)
        sha.update(f"{name} {kind} {array.shape}\n".encode() + array.tobytes())

    if sp.issparse(A):
        sha.update(f"csr {A.shape}\n".encode())
        add("indptr", A.indptr, "<i4")
        add("indices", A.indices, "<i4")
        add("data", A.data, A.dtype.newbyteorder("<").str)
    else:
        add("A", A, A.dtype.newbyteorder("<").str)
    add("labels", labels, "<i8")
    return sha.hexdigest()


def kept(A, held):
    """Return a matrix in one of the forms in which kmdr keeps matrices, made entry by entry."""
    *sparse, dtype = held.split()
    A = np.array(A, dtype, order="C")
    if not sparse:
        return A
    rows, columns = np.nonzero(A)  # in the order of the rows, and in a row of the columns
    ends = np.searchsorted(rows, np.arange(len(A) + 1)).astype(np.int32)
    return sp.csr_array((A[rows, columns], columns.astype(np.int32), ends), shape=A.shape)


def true_objective(A, labels):
    A = A.astype(np.longdouble)
    left = np.longdouble(0)
    for c in np.unique(labels):
        rows = A[labels == c]
        left += ((rows - rows.sum(axis=0) / len(rows)) ** 2).sum()
    return left / (A**2).sum()


def true_accuracy(classes, labels):
    table = np.zeros((classes.max() + 1, labels.max() + 1), np.int64)
    np.add.at(table, (classes, labels), 1)
    return table[linear_sum_assignment(table, maximize=True)].sum() / len(labels)


def check_scores(A, classes, row):
    """Compare F and P with those of the clusters; A is in float64."""
    assert row["status"] == "ok", row.get("error")
    labels = np.asarray(row["labels"])
    F, P = true_objective(A, labels), true_accuracy(classes, labels)
    assert abs(row["objective"] - F) <= 1e-9 * F + 1e-15, f"F = {row['objective']}, but it is {F}"
    assert row["accuracy"] == pytest.approx(P, abs=1e-12), f"P = {row['accuracy']}, but it is {P}"


def partition(labels):
    """Return clusters numbered in the order in which they occur."""
    _, first, where = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[where]


def clear_partition(C, starts, tolerance):
    """Return the best of Lloyd's partitions in longdouble, or None where rounding could lead to another.

    That is where a point is about as far from a second centre as from the nearest, two partitions are about as good,
    or a cluster loses its points, at which engines differ.
    """
    C = np.asarray(C, np.longdouble)
    C = C - C.mean(axis=0)
    size = (C**2).sum(axis=1).max()
    found = []
    for rows in starts:
        centres, labels = C[rows], None
        while True:
            distances = ((C[:, None] - centres) ** 2).sum(axis=2)
            first, second = np.partition(distances, 1, axis=1)[:, :2].T
            if (second - first).min() <= tolerance * size:
                return None
            before, labels = labels, distances.argmin(axis=1)
            if len(np.unique(labels)) < len(rows):
                return None
            if before is not None and (labels == before).all():
                break
            centres = np.array([C[labels == c].mean(axis=0) for c in range(len(rows))])
        found.append((first.sum(), partition(labels)))
    found.sort(key=lambda pair: pair[0])
    for inertia, labels in found[1:]:
        if inertia - found[0][0] <= tolerance * size and (labels != found[0][1]).any():
            return None
    return found[0][1]


# --- trials


def row_of(data, reducer, params, r, seed):
    """Return the row of one task, as a run makes it."""
    task = Task(
        "s", "battery", data.data_sha256, "", reducer, canonical(params), data.k, (r,), 0, seed, PROTOCOL, False,
        keep_labels=True,
    )  # fmt: skip
    (row,) = run(task, data, PROVENANCE)
    return row


def in_memory(A, classes, k=None):
    return Dataset("battery", A, classes, int(classes.max()) + 1 if k is None else k, "hash", "", "")


def starts_of(n, k, seed):
    return starter(PROTOCOL, n, k, None, generator(seed, "battery", 0, "starts"))(None)


def trial(A, classes, reducer, params, r, seed, starts):
    """Do what a task does, step by step and from given starts; return C, the clusters, F and P."""
    made = reducers.make(reducer, params)
    k = int(classes.max()) + 1
    to = [
        generator(seed, "battery", reducer, *names) for names in ((0, "prepare"), (r, 0, "reduce"), (r, 0, "cluster"))
    ]
    A, _, total = normalised(A)
    C = made.reduce(A, r, to[1], made.prepare(A, k, to[0]))
    labels = made.cluster(C, k, starts, to[2], PROTOCOL).labels
    scores = score(A, labels, classes, "best", total)
    return SimpleNamespace(C=C, labels=labels, F=scores["objective"], P=scores["accuracy"])


def dense(A):
    return A.toarray() if sp.issparse(A) else A


# One number seeds all choices of an example. Of several draws hypothesis would try again and again the combinations of
# those that it has tried: of 1000 examples 100 had a combination of their own.
generators = st.integers(0, 2**64 - 1).map(np.random.default_rng)


def choice(rng):
    """Return a reducer and its parameters, r and a seed."""
    return *REDUCERS[rng.integers(len(REDUCERS))], int(rng.integers(1, 5)), int(rng.integers(2**31))


# --- the same points in every form


def read(case, folder):
    """Write the points of a case, and return what kmdr reads."""
    of = forms.FORMS[case.form]
    written = forms.laid_out(case)
    if not of.in_memory:
        options = of.write(folder, written, case.y, case.packing)
        path = options.pop("path")
        paths = [str(file) for file in path] if isinstance(path, list) else str(path)
        return datasets.load("file", {"path": paths, "title": "battery", **options})
    given_to = of.write(folder, written, case.y, case.packing)
    before = content(given_to)
    data = from_arrays(given_to, case.y, name="battery")
    assert content(given_to) == before, "the caller's matrix was changed"
    return data


def content(A):
    """Return type, shape and bytes of all arrays of a matrix in memory."""
    if sp.issparse(A):
        A = A.tocoo() if A.format == "dok" else A
        names = ("data", "indices", "indptr", "coords", "offsets", "rows")
        parts = [part for name in names if hasattr(A, name) for part in np.atleast_2d(getattr(A, name))]
    else:
        parts = [np.asarray(A)]
    return [(part.dtype, part.shape, part.tolist()) for part in parts]


def held_of(case):
    of = forms.FORMS[case.form]
    dtype = of.kept or ("float32" if case.dtype == "float32" else "float64")
    return f"sparse {dtype}" if of.sparse else dtype


def check_form(case, reducer, params, r, seed):
    A, classes = case.expected
    reference = kept(A, held_of(case))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            data = read(case, folder)
            assert data.A.dtype == reference.dtype, f"the matrix is of type {data.A.dtype}"
            np.testing.assert_array_equal(data.labels, classes)
            np.testing.assert_array_equal(dense(data.A), A)
            assert data.data_sha256 == digest(reference, classes), "the content hash is another"
            row, expected = (row_of(of, reducer, params, r, seed) for of in (data, in_memory(reference, classes)))
        finally:
            shutil.rmtree(Path(os.environ["KMDR_CACHE"]) / "prepared", ignore_errors=True)
    check_scores(A, classes, row)
    for column in ("objective", "accuracy", "nmi", "ari", "n_iter"):
        assert row[column] == expected[column], column
    np.testing.assert_array_equal(row["labels"], expected["labels"])


OF_FORMS = [
    pytest.param(of.name, marks=pytest.mark.skipif(not of.usable, reason=f"{of.needs} is not installed"))
    for of in forms.FORMS.values()
]


@pytest.mark.parametrize("form", OF_FORMS)
def test_each_form_is_tried(form, rng):
    case, (reducer, params, r, seed) = forms.drawn(rng, form), choice(rng)
    with ACCOUNT.of("form", *case.key, reducer, canonical(params)):
        check_form(case, reducer, params, r, seed)


@pytest.mark.parametrize("container", forms.SCIPY)
def test_sparse_arrays_are_laid_out_as_the_battery_says(container):
    A, y = forms.points(30, 8, 2, "float64", "bytes", 0.6, 1)
    of = forms.FORMS["sparse_array"]
    for layout in forms.layouts(of, container, "float64"):
        S = forms.sparse_as(forms.Case(A, y, of.name, "plain", container, "float64", layout, 1))
        assert forms.layout_of(S) == {name: name in layout for name in forms.SPARSE}
        S.data = S.data.astype(np.float64)  # for scipy converts none that are big-endian
        np.testing.assert_array_equal(S.toarray(), A)


@pytest.mark.slow
@tried(10)
@given(generators)
def test_every_form_gives_the_same_rows(rng):
    case, (reducer, params, r, seed) = forms.drawn(rng), choice(rng)
    with ACCOUNT.of("form", *case.key, reducer, canonical(params)):
        check_form(case, reducer, params, r, seed)


# --- moved points

# Of these C is determined up to what Lloyd's algorithm does not see: a motion, and the order of its columns.
DETERMINISTIC = ("none", "svd", "left_singular_vectors", "variance", "top_leverage", "laplacian_score", "lle")
# Of these a row of C is a function of that row of A alone, linear in it, and the map takes no notice of A.
OBLIVIOUS = (
    "achlioptas", "gaussian", "random_sign", "random_sign_mailman", "sparse_embedding", "osnap", "fjlt", "srht",
)  # fmt: skip
# Of these the features are drawn, or the signs and buckets of features, each independently of its place. The Hadamard
# matrix of fjlt, srht and sparsified gives a place a meaning.
EXCHANGEABLE = (
    "achlioptas", "approx_svd", "gaussian", "leverage", "leverage_approx", "leverage_sqrt", "osnap", "random_sign",
    "random_sign_mailman", "ridge_leverage", "sparse_embedding",
)  # fmt: skip
# By how much of the largest ‖c‖² rounding may move a distance in C: what is moved is summed in another order, and a
# constant as large as the entries cancels. float32 has 24 bits and float64 53, and an eigenvector magnifies what is
# lost by the inverse of the relative gap of its eigenvalue, for which there are six decimal digits.
TOLERANCE = {"float64": 1e-9, "float32": 1e-3}


def moving(rng):
    """Return generic points: with as many values as here no two distances or scores are equal but by construction."""
    n, d, k = rng.integers((20, 6, 2), (41, 15, 5)).tolist()
    codes = np.r_[np.arange(k), rng.integers(0, k, n - k)]
    A = rng.integers(-(2**20), 2**20, (n, d)) + 2.0**19 * rng.integers(-2, 3, (k, d))[codes]
    held = HELD[rng.integers(len(HELD))]
    if "sparse" in held:
        A *= rng.random((n, d)) < 0.6
        A[~A.any(axis=1), 0] = 1.0
    return A, codes, held


def agree(tolerance, C, starts, before, after):
    """Compare two trials of the same points whose scores are to be the same, unless rounding may decide them."""
    expected = clear_partition(dense(C), starts, tolerance)
    if expected is None:
        return False
    for labels in (before, after):
        np.testing.assert_array_equal(partition(labels), expected)
    return True


@pytest.mark.slow
@tried(2)
@given(generators)
def test_scaling_by_a_power_of_two_changes_nothing(rng):
    (A, classes, held), (reducer, params, r, seed), power = moving(rng), choice(rng), int(rng.integers(-90, 90))
    with ACCOUNT.of("scaled", held, reducer, canonical(params)):
        rows = [row_of(in_memory(kept(B, held), classes), reducer, params, r, seed) for B in (A, np.ldexp(A, power))]
        for row in rows:
            check_scores(A, classes, row)
        # Among starts of equal F, rounding decides which is kept, and with it the numbers of the clusters.
        np.testing.assert_array_equal(*(partition(row["labels"]) for row in rows))
        assert rows[0]["objective"] == pytest.approx(rows[1]["objective"], rel=1e-12)
        assert rows[0]["accuracy"] == rows[1]["accuracy"]


def moved(rng, move, names, name):
    """Do a trial before and after the points are moved, and compare the clusters, F and P with those of theory.

    Parameters
    ----------
    move : callable
        From the points to the moved points, and where each of the points is among them.
    names : collection of str
        Reducers of which theory says that the clusters stay the same; with JSON of parameters, where it is of these.
    """
    A, classes, held = moving(rng)
    usable = [variant for variant in REDUCERS if {variant[0], canonical(variant)} & set(names)]
    (reducer, params), r, seed = usable[rng.integers(len(usable))], int(rng.integers(1, 5)), int(rng.integers(2**31))
    B, places = move(A)
    if "sparse" in held and not (B == 0).any():
        held = held.removeprefix("sparse ")
    starts = starts_of(*A.shape[:1], int(classes.max()) + 1, seed)
    with ACCOUNT.of(name, held, reducer, canonical(params)):
        there = np.argsort(places)
        before = trial(kept(A, held), classes, reducer, params, r, seed, starts)
        after = trial(kept(B, held), classes[places], reducer, params, r, seed, there[starts])
        for X, y, done in ((A, classes, before), (B, classes[places], after)):
            check_scores(X, y, {"status": "ok", "labels": done.labels, "objective": done.F, "accuracy": done.P})
        if agree(TOLERANCE[held.split()[-1]], before.C, starts, before.labels, after.labels[there]):
            assert after.F * (B**2).sum() == pytest.approx(before.F * (A**2).sum(), rel=1e-9)
            assert after.P == before.P
            ACCOUNT.compared[name] += 1


@pytest.mark.slow
@tried(4)
@given(generators)
def test_permuting_features_changes_nothing(rng):
    def move(A):
        return A[:, rng.permutation(A.shape[1])], np.arange(len(A))

    moved(rng, move, DETERMINISTIC, "features permuted")


@pytest.mark.slow
@tried(4)
@given(generators)
def test_permuting_points_permutes_the_clusters(rng):
    def move(A):
        places = rng.permutation(len(A))
        return A[places], places

    moved(rng, move, set(reducers.names()) - {"sparsified"}, "points permuted")


@pytest.mark.slow
@tried(4)
@given(generators)
def test_adding_a_constant_changes_the_norm_alone(rng):
    def move(A):
        return A + rng.integers(-(2**20), 2**20, A.shape[1]), np.arange(len(A))

    of_centred = canonical(("svd", {"centred": True}))
    names = {*DETERMINISTIC, *OBLIVIOUS, of_centred} - {"svd", "left_singular_vectors", "top_leverage"}
    moved(rng, move, names, "constant added")


# --- the same numbers in other types


@pytest.mark.slow
@tried(4)
@given(generators)
def test_types_and_sparsity_agree(rng):
    A, classes, held = moving(rng)
    A = np.round(A / 2**9)  # 13 bits at the most, so that float32 holds products of two
    A[~A.any(axis=1), 0] = 1.0
    (reducer, params, r, seed), k = choice(rng), int(classes.max()) + 1
    with ACCOUNT.of("types", held, reducer, canonical(params)):
        starts = starts_of(len(A), k, seed)
        row = row_of(in_memory(kept(A, held), classes), reducer, params, r, seed)
        plain = trial(A, classes, reducer, params, r, seed, starts)
        check_scores(A, classes, row)
        if reducer != "sparsified" and agree(TOLERANCE[held.split()[-1]], plain.C, starts, plain.labels, row["labels"]):
            assert row["objective"] == pytest.approx(plain.F, rel=1e-6 if "float32" in held else 1e-12)
            assert row["accuracy"] == plain.P
            ACCOUNT.compared["types"] += 1


# --- random reducers, in distribution


def check_distribution(rng, name, move, trials=200):
    """Compare F and P of trials of some points and of moved ones, each with its own draws and starts.

    Both samples of F, and of P, are of one distribution. An exact test of Kolmogorov and Smirnov at level 1e-8, which
    ties make smaller, is made twice for each of the twelve cases: all give a false alarm with probability below 3e-7.
    """
    codes = np.arange(30) % 3
    # What the places of features could matter to: their sizes, from the largest to the smallest.
    A = (rng.standard_normal((30, 12)) + 2 * rng.standard_normal((3, 12))[codes]) * 1.5 ** -np.arange(12.0)
    found = []
    for B, y in ((A, codes), move(A, codes)):
        seeds = rng.integers(2**31, size=trials).tolist()
        done = [trial(B, y, name, {}, 3, seed, starts_of(30, 3, seed)) for seed in seeds]
        found.append([(round(each.F, 10), each.P) for each in done])  # a partition has one F, whatever its last bit
    for before, after in zip(*(np.transpose(sample) for sample in found), strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # where the exact method switches to the asymptotic one
            assert ks_2samp(before, after, method="exact").pvalue > 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("reducer", EXCHANGEABLE)
def test_random_reducers_do_not_depend_on_the_order_of_features(reducer, rng):
    with ACCOUNT.of("features permuted, in distribution", "float64", reducer, "{}"):
        check_distribution(rng, reducer, lambda A, y: (A[:, ::-1].copy(), y))


@pytest.mark.slow
def test_the_entries_that_sparsified_keeps_do_not_depend_on_the_order_of_points(rng):
    with ACCOUNT.of("points permuted, in distribution", "float64", "sparsified", "{}"):
        order = rng.permutation(30)
        check_distribution(rng, "sparsified", lambda A, y: (A[order], y[order]))


# --- the same by the command line


def settings_of(options, reducer, params, r, seed, out):
    """Return the words of a command that runs one trial of a file."""
    told = {f"dataset.{name}": value for name, value in options.items()}
    told |= {f"reducer.{name}": value for name, value in params.items()}
    return [
        "dataset=file", "dataset.title=battery", f"reducer={reducer}", f"r_grid=[{r}]", "repeats=1", f"seed={seed}",
        "runner=sequential", "keep_labels=true", "timing_repeats=0", f"kmeans.n_init={PROTOCOL.n_init}",
        f"kmeans.max_iter={PROTOCOL.max_iter}", f"out={out}",
        *(f"{name}={text(value)}" for name, value in told.items()),
    ]  # fmt: skip


def text(value):
    """Return a value as the command line takes it."""
    if isinstance(value, list):
        return f"[{','.join(map(str, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.slow
@tried(0.3)
@given(generators)
def test_the_command_line_gives_the_same_rows(rng):
    files = [of.name for of in forms.FORMS.values() if of.usable and not of.in_memory]
    case, (reducer, params, r, seed) = forms.drawn(rng, files[rng.integers(len(files))]), choice(rng)
    A, classes = case.expected
    with tempfile.TemporaryDirectory() as name, ACCOUNT.of("command line", *case.key, reducer, canonical(params)):
        folder, out = Path(name), Path(name) / "results of the command"
        options = forms.FORMS[case.form].write(folder, forms.laid_out(case), case.y, case.packing)
        words = settings_of(options, reducer, params, r, seed, out)
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            assert run_jobs([compose(*words)]) == 0
        with (out / "rows.csv").open() as file:
            (row,) = csv.DictReader(file)
        (path,) = out.glob("labels/**/*.npz")
        ((r, labels),) = read_labels(out, path)  # r is k where the rank of svd is
        of = in_memory(kept(A, held_of(case)), classes)
        expected = row_of(of, reducer, params, r, seed)
        assert row["data_sha256"] == digest(of.A, classes)
        np.testing.assert_array_equal(labels, expected["labels"])
        scores = {column: float(row[column]) for column in ("objective", "accuracy", "nmi", "ari")}
        assert scores == {column: expected[column] for column in scores}
        check_scores(A, classes, {**scores, "status": row["status"], "labels": labels})
