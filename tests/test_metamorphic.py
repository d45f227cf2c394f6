"""The same points give the same numbers, however they are written, and points that are moved give those of theory.

hypothesis draws points, a form of `forms.FORMS`, a type, a layout and a reducer. What kmdr reads is compared with the
points themselves, its hash with one made here, its rows with those of the plain matrix, and F and P with those that
longdouble arithmetic and scipy's Hungarian algorithm give for the clusters that the task kept.

``KMDR_EXAMPLES`` says how many examples each property is tried on. ``scripts/battery.py`` runs all properties to the end
whatever fails and counts the combinations.
"""

import hashlib
import os
import shutil
import tempfile
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from scipy.stats import ks_2samp

import forms
from kmdr import datasets, reducers
from kmdr.clustering.kmeans import Protocol, starter
from kmdr.datasets import Dataset, from_arrays
from kmdr.linalg.matrix import normalised
from kmdr.metrics import score
from kmdr.run.task import Stamp, Task, canonical, run
from kmdr.seeding import generator

EXAMPLES = int(os.environ.get("KMDR_EXAMPLES", "40"))
STAMP = Stamp(1, 1, "v", "e")
PROTOCOL = Protocol(3, 100)
VARIANTS = (("svd", {"rank": "r"}), ("svd", {"centred": True}), ("svd", {"solver": "lapack"}))
REDUCERS = (*((name, {}) for name in reducers.names()), *VARIANTS)
HELD = ("float64", "float32", "sparse float64", "sparse float32")


def tried(share=1.0):
    """Return the settings of a property that is tried on a share of the examples."""
    return settings(
        max_examples=max(1, round(share * EXAMPLES)), deadline=None, database=None,
        suppress_health_check=list(HealthCheck), derandomize="KMDR_TEST_SEED" not in os.environ,
    )  # fmt: skip


# --- the account of what was tried


class Account:
    """Which combinations were tried, and what was wrong with which.

    Attributes
    ----------
    tried : Counter
        How often each combination was tried.
    wrong : dict
        The first thing that was wrong with each combination that was wrong.
    to_the_end : bool
        Whether a wrong combination is only noted, instead of failing the test.
    """

    def __init__(self):
        self.tried, self.wrong, self.to_the_end = Counter(), {}, False

    @contextmanager
    def of(self, *combination):
        self.tried[combination] += 1
        try:
            yield
        except Exception as error:
            self.wrong.setdefault(combination, f"{type(error).__name__}: {error}")
            if not self.to_the_end:
                raise


ACCOUNT = Account()


@pytest.fixture(autouse=True, scope="module")
def cache():
    with own_cache():
        yield
    print(f"\n{len(ACCOUNT.tried)} combinations in {ACCOUNT.tried.total()} trials, {len(ACCOUNT.wrong)} wrong")


@contextmanager
def own_cache():
    """Prepare datasets in a folder that is deleted in the end, and be silent about what is read."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setenv("KMDR_CACHE", folder)
        patch.setenv("KMDR_DATA", "")
        patch.setattr(datasets, "tell", lambda _: None)
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
    (row,) = run(task, data, STAMP)
    return row


def in_memory(A, classes, k=None):
    return Dataset("battery", A, classes, int(classes.max()) + 1 if k is None else k, "hash", "", "")


def starts_of(n, k, seed):
    return starter(PROTOCOL, n, k, None, generator(seed, "battery", 0, "starts"))(None)


def trial(A, classes, reducer, params, r, seed, starts):
    """Do what a task does, step by step and from given starts; return C, the clusters, F and P."""
    made = reducers.make(reducer, params)
    k = int(classes.max()) + 1
    to = [generator(seed, "battery", reducer, *names) for names in ((0, "prepare"), (r, 0, "reduce"), (r, 0, "cluster"))]
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


@tried(10)
@given(generators)
def test_every_form_gives_the_same_rows(rng):
    case, (reducer, params, r, seed) = forms.drawn(rng), choice(rng)
    with ACCOUNT.of("form", *case.key, reducer, canonical(params)):
        check_form(case, reducer, params, r, seed)
