"""Several reference labelings and noise, from files and columns, scored as scikit-learn scores masked labels."""

import json

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from kmdr import datasets, metrics
from kmdr.base.errors import UserError
from kmdr.clustering.kmeans import Protocol
from kmdr.config.task import Task
from kmdr.harness.task import Stamp, run
from kmdr.metrics.references import agreements

N = 60


@pytest.fixture
def files(tmp_path, rng, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", rng.standard_normal((N, 4)))
    labelings = {"a": rng.integers(0, 4, N), "b": rng.integers(0, 3, N)}
    for name, labels in labelings.items():
        np.savetxt(f"{name}.txt", labels, "%d")
    return labelings


def load(path="x.npy", **options):
    return datasets.load("file", {"path": path, **options})


def test_k_is_the_number_of_classes_of_the_first_labeling_without_noise(files):
    assert load(labels=["a.txt", "b.txt"]).k == 4
    assert load(labels=["b.txt", "a.txt"]).k == 3
    data = load(labels=["a.txt", "b.txt"], noise=0)
    assert (data.k, data.A.shape) == (3, (N, 4))
    assert np.array_equal(data.references < 0, [labels == 0 for labels in files.values()])


def test_a_label_of_noise_that_no_point_has_changes_nothing(files):
    assert load(labels="a.txt", noise=9).data_sha256 == load(labels="a.txt").data_sha256


def test_labelings_that_do_not_fit_are_refused_in_one_sentence(files):
    np.savetxt("short.txt", files["a"][:50], "%d")
    np.savetxt("zeros.txt", np.zeros(N), "%d")
    with pytest.raises(UserError, match=r"short.txt has 50 labels for 60 points of x.npy"):
        load(labels=["a.txt", "short.txt"])
    with pytest.raises(UserError, match=r"all 60 points are noise"):
        load(labels="zeros.txt", noise=0)


def test_columns_of_a_table_and_of_an_annotated_matrix_are_labelings(files, rng):
    pd.DataFrame(rng.standard_normal((N, 3)), columns=list("xyz")).assign(**files).to_csv("t.csv", index=False)
    X = scipy.sparse.random_array((N, 5), density=0.5, format="csr", rng=rng)
    with h5py.File("x.h5ad", "w") as file:
        matrix = file.create_group("X")
        matrix.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": X.shape})
        for part in ("data", "indices", "indptr"):
            matrix[part] = getattr(X, part)
        obs = file.create_group("obs")
        obs.attrs["_index"] = "_index"
        obs["_index"] = [f"cell {i}" for i in range(N)]
        for name, labels in files.items():
            column = obs.create_group(name)
            column.attrs["encoding-type"] = "categorical"
            column["codes"], column["categories"] = labels.astype("i1"), list("pqrs")
    for path, d in (("t.csv", 3), ("x.h5ad", 5)):
        data = load(path, labels=["a", "b"])
        assert data.A.shape == (N, d)
        assert np.array_equal(data.references, [*files.values()])
    assert np.array_equal(load("x.h5ad", labels="a").labels, files["a"])


LABELS = st.lists(st.integers(-1, 3), min_size=8, max_size=8).filter(lambda labels: len({*labels} - {-1}) > 1)


@given(LABELS, LABELS, st.lists(st.integers(0, 3), min_size=8, max_size=8), st.randoms())
def test_scores_are_those_of_masked_labels_in_any_order(first, second, clusters, random):
    references, clusters = np.array([first, second]), np.array(clusters)
    scores = agreements(references, clusters)
    for j, row in enumerate(references):
        known = row >= 0
        assert scores[f"ari_labels{j}"] == pytest.approx(adjusted_rand_score(row[known], clusters[known]), abs=1e-12)
        nmi = normalized_mutual_info_score(row[known], clusters[known])
        assert scores[f"nmi_labels{j}"] == pytest.approx(nmi, abs=1e-12)
        noisy = clusters.copy()
        noisy[~known] = random.choices(range(4), k=int((~known).sum()))
        assert agreements(row[None], noisy) == agreements(row[None], clusters)
    swapped = agreements(references[::-1], clusters)
    for name in ("accuracy", "nmi", "ari"):
        assert scores[name] == max(scores[f"{name}_labels0"], scores[f"{name}_labels1"]) == swapped[name]
        assert scores[f"{name}_labels0"] == swapped[f"{name}_labels1"]
    twice = agreements(references[[0, 0]], clusters)
    assert all(twice[f"{name}_labels0"] == twice[f"{name}_labels1"] for name in ("accuracy", "nmi", "ari"))


def test_a_folder_with_the_name_of_a_column_is_not_taken_for_a_file_of_labels(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"x": range(4), "one": [0, 0, 1, 1], "two": [0, 1, 0, 1]}).to_csv("t.csv", index=False)
    options = {"path": "t.csv", "labels": ["one", "two"]}
    before = datasets.open_prepared(datasets.prepare("file", options)).data_sha256
    (tmp_path / "two").mkdir()
    assert datasets.open_prepared(datasets.prepare("file", options)).data_sha256 == before


@pytest.mark.parametrize("name", ["名" * 100, "x" * 5000, "~nobody", "two\nlines", "a,b"])
def test_a_column_of_any_name_is_a_labeling(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"x": range(4), name: [0, 0, 1, 1], "two": [0, 1, 0, 1]}).to_json(
        "t.jsonl", orient="records", lines=True
    )
    data = load("t.jsonl", labels=[name, "two"])
    assert data.references.tolist() == [[0, 0, 1, 1], [0, 1, 0, 1]]
    assert data.A.shape == (4, 1)


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (None, None),
        (ValueError("no"), "ValueError: no"),
        (SystemExit(3), "SystemExit: 3"),
        (2.0, "ArithmeticError: own = 2.0 is outside its range, 0 to 1"),
    ],
)
def test_a_metric_that_fails_without_noise_fails_its_trial_alone(files, monkeypatch, error, reason, kept):
    calls = []

    def own(A, labels, truth):
        if truth is None or A.shape[1] != 4:  # as in the warm-up
            return None
        calls.append(len(truth))
        if isinstance(error, BaseException) and len(calls) == 1:
            raise error
        return error if isinstance(error, float) and len(calls) == 1 else 0.5

    known = {**metrics.metrics(), "own": metrics.Metric("own", "own", 0.0, 1.0, "higher", own)}
    for module in ("kmdr.metrics", "kmdr.metrics.registry", "kmdr.metrics.references"):
        monkeypatch.setattr(f"{module}.metrics", lambda: known)
    data = load(labels=["a.txt", "b.txt"], noise=0)
    task = Task("s", "file", data.data_sha256, "", "variance", "{}", data.k, (2, 3), 0, 0, Protocol(1, 9), False,
                keep_labels=kept, n=N, d=4, nnz=4 * N)  # fmt: skip
    failed, done = run(task, data, Stamp(1, 1, "", ""), timed=False)
    assert set(calls) == {int((files["a"] != 0).sum())}
    if reason is None:
        assert json.loads(failed["metrics"])["own"] == 0.5
    else:
        assert (failed["status"], failed["error"]) == ("failed", reason)
        assert not {"objective", "accuracy", "metrics", "labels", "n_iter"} & failed.keys()
        assert failed["config_hash"] == done["config_hash"] == task.config_hash
    assert done["status"] == "ok"
    assert ("labels" in done) is kept
    against = {f"{name}_labels{j}" for name in ("accuracy", "nmi", "ari") for j in (0, 1)}
    assert json.loads(done["metrics"]).keys() == against | {"own"}
