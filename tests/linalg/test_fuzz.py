"""Every compiled kernel on whatever the callers of its door may bring: right, or refused with a sentence.

``scripts/fuzz.py`` runs these for as long as it is told, with numba's bounds checking on, which turns each access
outside of an array into an IndexError.
"""

import importlib.util
import os
import re
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kmdr.base.errors import UserError
from kmdr.clustering.engines import sklearn_kmeans
from kmdr.clustering.kmeans import lloyd
from kmdr.clustering.masked_kmeans import masked_lloyd, random_subsets
from kmdr.datasets.formats import svmlight
from kmdr.linalg import (
    count_sketch,
    draw_signs,
    mailman_product,
    mean_distance,
    nearest_neighbours,
    padded,
    rotate,
    rotated_entries,
    rotated_product,
    sign_product,
)
from kmdr.metrics import agreement, objective, residual
from kmdr.reducers.laplacian_score import heat_kernel_graph, laplacian_scores
from oracles import (
    count_sketch_reference,
    lloyd_reference,
    mean_distance_reference,
    rotate_reference,
    rotated_product_reference,
    sign_product_reference,
)

REFUSED = (UserError, ValueError)
short = settings(
    max_examples=int(os.environ.get("KMDR_FUZZ_EXAMPLES", "8")),
    database=None,
    suppress_health_check=list(HealthCheck),
)


@st.composite
def matrices(draw, fewest=1, rows=40, columns=70):
    """Dense in any order and stride, or CSR with zeros stored; ties, denormals, huge ones, and what is not finite."""
    n, d = draw(st.integers(fewest, rows)), draw(st.integers(1, columns))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from([np.float64, np.float32]))
    A = draw(st.sampled_from([lambda: rng.standard_normal((n, d)), lambda: rng.integers(-2, 3, (n, d)) * 1.0]))()
    A *= rng.random((n, d)) < draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))
    if draw(st.booleans()):
        A[:] = A[0]  # all points coincide
    limits = np.finfo(dtype)
    scale = draw(st.sampled_from([1.0, 1e-30, 1e30, limits.tiny / 4, limits.max / 64]))
    A = (A * scale).astype(dtype)
    if draw(st.integers(0, 4)) == 0:
        A[rng.integers(n), rng.integers(d)] = draw(st.sampled_from([np.nan, np.inf, -np.inf]))
    layout = draw(st.sampled_from(["C", "F", "reversed", "strided", "csr", "csr64"]))
    if layout.startswith("csr"):
        S = sp.csr_array(A)
        S.data[rng.random(S.nnz) < 0.1] = 0
        return S if layout == "csr" else sp.csr_array((S.data, S.indices.astype(np.int64), S.indptr), shape=S.shape)
    if layout == "reversed":
        return np.ascontiguousarray(A[::-1, ::-1])[::-1, ::-1]
    if layout == "strided":
        return np.repeat(np.repeat(A, 2, axis=0), 3, axis=1)[::2, ::3]
    return np.asarray(A, order=layout)


def dense(A):
    return np.asarray(A.toarray() if sp.issparse(A) else A, dtype=np.float64)


def is_finite(A):
    return bool(np.isfinite(dense(A)).all())


def close(C, expected, A):
    """Equal but for rounding, where neither the type nor float64 ends."""
    largest = np.abs(dense(A)).max()
    limits = np.finfo(A.dtype)
    if is_finite(A) and (largest == 0 or limits.tiny * 2**30 < largest < limits.max / 2**14):
        np.testing.assert_allclose(C, expected, rtol=0, atol=largest * A.shape[1] * 100 * limits.eps)


seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)


@short
@given(matrices(), seeds, st.integers(1, 200))
def test_sign_products(A, rng, r):
    bits = draw_signs(A.shape[1], r, rng)
    with np.errstate(all="ignore"):
        expected = sign_product_reference(dense(A), bits, 0.5)
        for product in (sign_product, mailman_product):
            close(product(A, bits, r, 0.5), expected, A)


@short
@given(matrices(), seeds, st.integers(1, 90), st.integers(0, 5))
def test_count_sketches(A, rng, r, s):
    shape = (A.shape[1], s) if s else (A.shape[1],)
    bucket, sign = rng.integers(r, size=shape), 2.0 * rng.integers(2, size=shape) - 1
    with np.errstate(all="ignore"):
        close(count_sketch(A, bucket, sign, r), count_sketch_reference(dense(A), bucket, sign, r), A)


@short
@given(matrices(columns=300), seeds, st.integers(1, 90), st.sampled_from([0.0, 0.05, 0.5, 1.0]))
def test_rotations(A, rng, r, share):
    width = padded(A.shape[1])
    signs = 2.0 * rng.integers(2, size=A.shape[1]) - 1
    P = sp.csr_array(rng.standard_normal((r, width)) * (rng.random((r, width)) < share))
    with np.errstate(all="ignore"):
        close(rotate(A, signs), rotate_reference(dense(A), signs), A)
        close(rotated_product(A, signs, P), rotated_product_reference(dense(A), signs, P), A)
        kept = rng.integers(width, size=(A.shape[0], r), dtype=np.int32)
        every = rotate_reference(dense(A), signs)
        close(rotated_entries(A, signs, kept), np.take_along_axis(every, kept, axis=1), A)


@short
@given(matrices(rows=90), st.integers(1, 12))
def test_neighbours(A, n_neighbors):
    n = A.shape[0]
    try:
        indices, distances = nearest_neighbours(A, n_neighbors)
    except REFUSED:
        assert n_neighbors >= n or not is_finite(A)
        return
    assert indices.min() >= 0
    assert indices.max() < n
    assert all(len({i, *row}) == n_neighbors + 1 for i, row in enumerate(indices.tolist()))
    assert (np.diff(distances, axis=1) >= 0).all()
    mean = mean_distance(A)
    with np.errstate(all="ignore"):
        expected = mean_distance_reference(dense(A))
    if 1e-100 < expected < 1e100:
        np.testing.assert_allclose(mean, expected, rtol=1e-6)


@short
@given(matrices(fewest=2, rows=60), seeds, st.integers(1, 8))
def test_laplacian_scores(A, rng, n_neighbors):
    try:
        scores = laplacian_scores(A, heat_kernel_graph(A, n_neighbors, rng))
    except REFUSED:
        assert n_neighbors >= A.shape[0] or not is_finite(A)
        return
    assert scores.shape == A.shape[1:]
    assert ((scores >= 0) & (scores <= 2 + 1e-9)).all()


@short
@given(matrices(rows=300), seeds, st.integers(1, 40), st.integers(0, 4), st.integers(1, 3))
def test_k_means(A, rng, k, max_iter, n_init):
    n = A.shape[0]
    starts = [
        rng.permutation(max(n, k))[:k] if rng.random() < 0.9 else rng.integers(-1, n + 1, k) for _ in range(n_init)
    ]
    try:
        clustering = lloyd(A, starts, max_iter)
    except REFUSED:
        allowed = max_iter > 0 and k <= n and all(0 <= rows.min() <= rows.max() < n for rows in starts)
        assert not allowed or not is_finite(A)
        return
    assert clustering.labels.shape == (n,)
    assert clustering.labels.min() >= 0
    assert clustering.labels.max() < k
    assert clustering.n_iter <= max_iter
    assert np.bincount(clustering.labels, minlength=k).all()
    # A partition of whole numbers is a matter of ties that any order of summation may break.
    if n_init == 1 and n < 30 and isinstance(A, np.ndarray) and 1e-3 < np.abs(A).max() < 10:
        labels, *_ = lloyd_reference(dense(A), starts[0], max_iter)
        worse = [residual(A, part) for part in (clustering.labels, labels)]
        assert abs(worse[0] - worse[1]) <= 0.5 * max(worse) + 1e-9


@short
@given(seeds, st.integers(1, 60), st.integers(1, 40), st.data())
def test_masked_k_means(rng, n, d, data):
    r, k = data.draw(st.integers(0, d + 1)), data.draw(st.integers(1, n + 1))
    try:
        known = random_subsets(n, d, r, rng)
        C = sp.csr_array((rng.integers(-2, 3, n * r) * 1.0, known.ravel(), np.arange(0, n * r + 1, r)), shape=(n, d))
        clustering = masked_lloyd(C, [rng.permutation(max(n, k))[:k]], 5)
    except REFUSED:
        assert not 1 <= r <= d or k > n
        return
    assert all(len(set(row)) == r for row in known.tolist())
    assert np.bincount(clustering.labels, minlength=k).shape == (k,)


@short
@given(matrices(), seeds, st.integers(1, 60), st.sampled_from([np.int64, np.int32, np.int8, np.uint64, np.float64]))
def test_measures(A, rng, k, dtype):
    n = A.shape[0]
    labels = rng.integers(-1 if rng.random() < 0.1 else 0, k, n - (rng.random() < 0.1))
    with np.errstate(invalid="ignore"):
        labels = labels.astype(dtype)
    try:
        F = objective(A, labels)
    except REFUSED:
        valid = labels.shape == (n,) and dtype is not np.float64 and np.all((labels >= 0) & (labels <= n + k))
        assert not valid or not is_finite(A)
        return
    assert 0 <= F <= 1 + 1e-9
    truth = rng.integers(-100, 100, n).astype(np.int8)
    for first, second in ((truth, labels), (labels, truth)):
        scores = agreement(first, second)
        assert 0 <= scores["accuracy"] <= 1
        assert -1e-9 <= scores["nmi"] <= 1 + 1e-9
        assert -0.5 - 1e-9 <= scores["ari"] <= 1 + 1e-9


pieces = ["1", "-1", "+1", "0", "3.5e-3", "1e400", "nan", "x", "1:2", "7:0.1", "2:", ":3", "9999999999:1", "qid:1", "#",
          ",", " ", "\t", "\n", "\r\n", "1.7976931348623157e308", "12345678901234567890", "1_0", "."]  # fmt: skip


@short
@given(st.lists(st.sampled_from(pieces), max_size=30).map(" ".join) | st.text("0123456789:.e+- \n#", max_size=60))
def test_svmlight(text):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.svm"
        path.write_text(text)
        try:
            A = svmlight.svmlight(path)[0]
        except UserError:
            return
        assert sp.issparse(A)
        A.check_format(full_check=True)


def test_no_start_lies_outside_whatever_the_engine():
    A = np.arange(12.0).reshape(6, 2)
    for engine in (lloyd, sklearn_kmeans):
        for starts in ([[0, 6]], [[-1, 2]], [[0.0, 1.0]], [[]]):
            try:
                engine(A, starts, 5)
            except REFUSED as error:
                assert "row indices from 0 to 5" in str(error)  # noqa: PT017
            else:
                raise AssertionError(starts)


def test_the_script_gives_each_kernel_a_turn_and_names_the_seed_of_a_fault(monkeypatch):
    path = Path(__file__).parents[2] / "scripts" / "fuzz.py"
    spec = importlib.util.spec_from_file_location("fuzz", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert "test_svmlight" in script._tests()

    @short
    @given(st.integers())
    def right(number):
        assert number is not None

    @short
    @given(st.integers())
    def wrong(number):
        assert number is None

    monkeypatch.setattr(script, "_tests", lambda: {"right": right, "wrong": wrong})
    assert script._fuzz("right", 7, 0.0) == ("right", script._EXAMPLES, "")
    name, examples, fault = script._fuzz("wrong", 7, 0.0)
    assert (name, examples) == ("wrong", 0)
    assert fault.endswith("wrong failed with seed 7 in turn 0")


def test_hosted_checks_are_those_of_the_project():
    root = Path(__file__).parents[2]
    ours = re.findall(r"^(?:stage )?((?:make|\.venv/bin/python) .*)$", (root / ".ci" / "run").read_text(), re.MULTILINE)
    hosted = (root / ".github" / "workflows" / "ci.yml").read_text()
    assert len(ours) >= 7
    assert [step for step in ours if f"- run: {step}" not in hosted] == []
