"""Several reference labelings and noise, from files and columns, scored as scikit-learn scores masked labels."""

import json
import time
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from kmdr import datasets, metrics
from kmdr.base.errors import UserError
from kmdr.clustering.kmeans import Protocol
from kmdr.config.task import Task, code_of, current_code
from kmdr.datasets.check_file import check_files
from kmdr.datasets.references import classes_of_labelings, is_noise
from kmdr.harness.task import Provenance, run
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
    with pytest.raises(UserError, match=r"all 60 points are noise by the labels of x.npy; give"):
        load(labels="zeros.txt", noise=0)
    with pytest.raises(UserError, match=r"all 60 points are noise by the labels of x.npy \(zeros.txt\); give"):
        load(labels=["a.txt", "zeros.txt"], noise=0)
    np.savez("x.npz", X=np.load("x.npy"), y=files["a"][:50])
    with pytest.raises(UserError, match=r"there are 50 labels for 60 points"):
        load("x.npz", noise=0)
    with pytest.raises(UserError, match=r"noise is '0', but no labels of x.npy are used"):
        load(labels="none", noise=0, k=2)
    with pytest.raises(UserError, match=r"must be a list of texts that are not empty"):
        load(labels=["a.txt", ""])


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


# Labels of a type, a value that marks noise, and the labels that it marks.
MARKS = [
    (np.array([1.5, 0.5, 2.5]), 1.5, 1.5),
    (np.array([1, 0, 2]), "1.0", 1),
    (np.array([True, False]), True, True),
    (np.array([True, False]), "False", False),
    (np.array(["true", "b", "c"]), True, "true"),
    (np.array(["a", "b", "c"]), "b", "b"),
    (np.array([b"a", b"b", b"c"]), "b", b"b"),
    (np.array([2**63, 2**63 + 1, 5], "u8"), 2**63, 2**63),
    (np.array([2**62, 2**62 + 1, 5]), str(2**62), 2**62),
    (np.array([np.nan, 1, 2]), "nan", np.nan),
    (np.array([np.nan, 1, 2]), float("nan"), np.nan),
    (np.array([10, 1, 2], ">i2"), "1e1", 10),
]


@pytest.mark.parametrize(("values", "noise", "marked"), MARKS)
def test_noise_is_marked_by_labels_of_any_type(files, rng, values, noise, marked):
    labels = np.concatenate([values, rng.choice(values, N - len(values))])
    np.save("y.npy", labels)
    if len(np.unique(labels)) == 2:  # a single class would remain
        with pytest.raises(UserError, match="of one class or noise"):
            load(labels="y.npy", noise=noise)
        return
    data = load(labels=["y.npy", "a.txt"], noise=noise)
    expected = np.isnan(labels) if isinstance(marked, float) and np.isnan(marked) else labels == marked
    assert np.array_equal(data.references[0] < 0, expected)
    assert data.references[0][~expected].tolist() == np.unique(labels[~expected], return_inverse=True)[1].tolist()


@pytest.mark.parametrize(("noise", "marked"), [("a", [0]), ("a ", [1]), (" b ", [2]), ("c", [])])
def test_labels_that_differ_in_spaces_are_not_marked_together(noise, marked):
    labels = np.array(["a", "a ", "b", "d"], object)
    assert np.flatnonzero(is_noise(labels, noise)).tolist() == marked


@pytest.mark.parametrize("dtype", [float, int])
def test_points_without_a_label_are_dropped_or_noise(files, dtype):
    np.save("x.npy", (10 * np.load("x.npy")).astype(dtype))
    text = [str(label) if label else "NA" for label in files["a"]]
    for name, lines in (("y.txt", text), ("y.csv", ["class", *text])):
        Path(name).write_text("\n".join([*lines, ""]))
        with pytest.raises(UserError, match=r"the labels of x.npy \(y\..*\) are missing at row"):
            load(labels=["b.txt", name])
        known = files["a"] != 0
        assert load(labels=["b.txt", name], missing="drop").A.shape == (known.sum(), 4)
        for noise in ("nan", "NA"):
            assert np.array_equal(load(labels=["b.txt", name], noise=noise).references[1] >= 0, known)


def test_a_label_of_noise_that_no_point_has_is_a_warning(files, capsys):
    load(labels=["a.txt", "b.txt"], noise="nois")
    assert "no point has the label 'nois', which marks noise" in capsys.readouterr().err


def test_columns_of_one_file_of_labels_are_labelings(files, tmp_path):
    pd.DataFrame(files).to_csv("y.csv", index=False)
    pd.DataFrame({"u:v": files["a"], "c": files["b"]}).to_csv("z.csv", index=False)
    np.save("y.npy", np.c_[files["a"], files["b"]])
    scipy.io.savemat("y.mat", files)
    for labels in (
        ["y.csv:a", "y.csv:b"], ["y.npy:0", "y.npy:1"], ["y.mat:a", "y.mat:b"], ["z.csv:u:v", f"{tmp_path}/z.csv:c"],
    ):  # fmt: skip
        assert np.array_equal(load(labels=labels).references, [*files.values()])
    assert np.array_equal(load(labels="y.csv:b").labels, files["b"])
    for labels, reason in (
        ("y.csv:c", "no column of y.csv is named 'c'"),
        ("y.npy", r"y.npy has 2 columns; choose the labels, e.g. dataset.labels=y.npy:0"),
        ("y.npy:2", "no column of y.npy is named '2'"),
        ("no.csv:a", r"there is no file .*/no.csv here or in a folder that KMDR_DATA names; did you mean z.csv\?"),
    ):
        with pytest.raises(UserError, match=reason):
            load(labels=labels)
    (tmp_path / "y.csv:b").write_text((tmp_path / "a.txt").read_text())  # a file of that name is meant
    assert np.array_equal(load(labels="y.csv:b").labels, files["a"])


def test_the_check_of_a_file_lists_the_classes_of_each_labeling(files, capsys):
    assert check_files(["x.npy"], ["labels=[a.txt,b.txt]"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[1:4] for line in lines if line[0] == "labels"] == [
        ["a.txt:", "4", "classes:"],
        ["b.txt:", "3", "classes:"],
    ]
    sizes = np.bincount(files["a"])
    assert check_files(["x.npy"], ["labels=a.txt", "noise=0"]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "classes" in line)
    assert line.split()[1:4] == ["a.txt:", "3", "classes:"]
    assert line.endswith(f", and {sizes[0]} of noise")
    load(labels="a.txt", noise=0)
    assert "a.txt has 3 classes: " in capsys.readouterr().err


@given(st.lists(st.sampled_from([0, 1, 2, 7]), min_size=4, max_size=12), st.integers(0, 2**12 - 1))
def test_equal_numbers_are_one_class_whatever_type_each_has(numbers, floats):
    """A column that lacks a label holds objects, some of them whole numbers and some floats of the same value."""
    mixed = [float(number) if floats >> i & 1 else number for i, number in enumerate(numbers)]
    expected = np.unique(numbers, return_inverse=True)[1].tolist()
    for absent in (None, np.nan, pd.NA):
        (classes,) = np.atleast_2d(classes_of_labelings([([*mixed, 9, absent], "a")], "nan"))
        assert classes.tolist() == [*expected, max(expected) + 1, -1]


def test_a_column_of_labels_may_be_dropped_too(files, rng):
    pd.DataFrame(rng.standard_normal((N, 2)), columns=list("xy")).assign(**files).to_csv("t.csv", index=False)
    for drop in (["a"], ["b"], ["a", "b"]):
        assert load("t.csv", labels=["a", "b"], drop=drop).A.shape == (N, 2)


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
    failed, done = run(task, data, Provenance(1, 1, "", ""), timed=False)
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


def test_the_code_of_rows_includes_scores_against_labelings_only_where_there_are_some(files):
    plain, several = code_of("none", "file"), code_of("none", "file", labelings=True)
    assert plain != several
    for options, expected in (({"labels": "a.txt"}, plain), ({"labels": ["a.txt", "b.txt"]}, several),
                              ({"labels": "a.txt", "noise": 0}, several)):  # fmt: skip
        data = load(**options)
        stated = json.dumps({**options, "name": "file"})
        task = Task("s", "x", data.data_sha256, "", "none", "{}", 3, (4,), 0, 0, Protocol(1, 9), False, options=stated)
        (row,) = run(task, data, Provenance(1, 1, "", ""), timed=False)
        assert row["code_hash"] == expected
        assert current_code("none", "kmdr", "x", stated).startswith(expected)


def test_the_time_of_scoring_includes_that_against_labelings(files, monkeypatch):
    def slow(*arguments):
        time.sleep(0.2)
        return agreements(*arguments)

    monkeypatch.setattr("kmdr.harness.task.agreements", slow)
    data = load(labels=["a.txt", "b.txt"])
    task = Task("s", "file", data.data_sha256, "", "none", "{}", data.k, (4,), 0, 0, Protocol(1, 9), False)
    (row,) = run(task, data, Provenance(1, 1, "", ""), timed=False)
    assert row["score_seconds"] >= 0.2 > row["total_seconds"]


@pytest.mark.parametrize("layout", ["dense", "csr", "csc"])
def test_annotated_matrices_of_three_layouts_and_of_old_files_have_labels(tmp_path, monkeypatch, layout, rng):
    monkeypatch.chdir(tmp_path)
    X = scipy.sparse.random_array((N, 5), density=0.5, format="csr", rng=rng)
    kinds, codes = ["B cell", "T cell", "noise"], np.arange(N) % 3
    with h5py.File("x.h5ad", "w") as file:
        if layout == "dense":
            file["X"] = X.toarray()
        else:
            parts = X.asformat(layout)
            file.create_group("X").attrs.update({"encoding-type": f"{layout}_matrix", "shape": X.shape})
            for part in ("data", "indices", "indptr"):
                file["X"][part] = getattr(parts, part)
        file["obs"] = np.rec.fromarrays([codes.astype("i1"), np.arange(N) / N], names=["kind", "score"])
        file["uns/kind_categories"] = np.array(kinds, "S")
    data = load("x.h5ad", labels="kind", noise="noise")
    assert (data.k, data.A.shape) == (2, (N, 5))
    assert data.references[0].tolist() == [code if code < 2 else -1 for code in codes]
    np.testing.assert_array_equal(data.A.toarray() if scipy.sparse.issparse(data.A) else data.A, X.toarray())
    with h5py.File("x.h5ad", "a") as file:
        file["layers/counts"] = file["X"]
        file.create_group("var")
        del file["X"]
    with pytest.raises(UserError, match=r"x.h5ad has no matrix X; set dataset.matrix=… to another \(layers/counts\)"):
        load("x.h5ad", labels="kind")
    assert load("x.h5ad", labels="kind", matrix="layers/counts").A.shape == (N, 5)
