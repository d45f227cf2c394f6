"""Partitions of other programs: scored as scikit-learn and numpy score them, whatever file they come in."""

import gzip
import io
import json

import numpy as np
import pytest
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from kmdr.base.errors import UserError
from kmdr.cli.arguments import COMMANDS
from kmdr.harness import score as scoring
from kmdr.harness.rescore import Scaled
from kmdr.harness.score import dataset_from, partitions, score_file
from kmdr.linalg.matrix import canonical_csr, normalised

N = 40


def objective_of(A, labels):
    """The objective by its definition, one cluster after the other."""
    residual = sum(((A[labels == c] - A[labels == c].mean(axis=0)) ** 2).sum() for c in np.unique(labels))
    return residual / (A**2).sum()


def accuracy_of(classes, labels):
    table = contingency_matrix(classes, labels)
    rows, columns = linear_sum_assignment(-table)
    return table[rows, columns].sum() / len(labels)


def serve(monkeypatch, A, classes):
    """Let every dataset be this one."""
    scaled, _, total = normalised(canonical_csr(A))
    monkeypatch.setattr(scoring.datasets, "prepare", lambda *_: "folder")
    monkeypatch.setattr(scoring, "scaled", lambda _: Scaled(scaled, total, classes))


@pytest.fixture
def data(rng, monkeypatch):
    A, classes = rng.standard_normal((N, 5)), rng.integers(0, 4, N)
    serve(monkeypatch, A, classes)
    return A, classes


def scores_of(file):
    rows, _ = score_file(file, ["dataset=digits"])
    return [{name: row[name] for name in ("objective", "accuracy", "nmi", "ari")} for row in rows]


def write(folder, name, columns, header=""):
    """Write columns of labels to a file of the format of its name."""
    file = folder / name
    if name.endswith(".npy"):
        np.save(file, np.array(columns).T)
        return file
    separator = "," if ".csv" in name else "\t" if ".tsv" in name else " "
    lines = [separator.join(map(str, row)) for row in zip(*columns, strict=True)]
    text = "\n".join([header, *lines] if header else lines) + "\n"
    (gzip.open if name.endswith(".gz") else open)(file, "wb").write(text.encode())
    return file


def test_the_scores_are_those_of_scikit_learn_and_numpy(data, rng, tmp_path):
    A, classes = data
    columns = [rng.integers(0, k, N) for k in (1, 2, 4, 9, N)] + [classes]
    for column, row in zip(columns, scores_of(write(tmp_path, "labels.csv", columns)), strict=True):
        assert row["objective"] == pytest.approx(objective_of(A, column), rel=1e-12, abs=1e-15)
        assert row["accuracy"] == pytest.approx(accuracy_of(classes, column), rel=1e-12)
        assert row["nmi"] == pytest.approx(normalized_mutual_info_score(classes, column), abs=1e-12)
        assert row["ari"] == pytest.approx(adjusted_rand_score(classes, column), abs=1e-12)


NAMES = ("a.txt", "a.csv", "a.tsv", "a.gz", "a.csv.gz", "a.labels", "a.npy")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("count", [1, 3])
def test_the_format_of_a_file_changes_no_score(name, count, data, rng, tmp_path):
    columns = [rng.integers(-3, 4, N) for _ in range(count)]
    expected = scores_of(write(tmp_path, "expected.csv", columns))
    assert scores_of(write(tmp_path, name, columns)) == expected
    if not name.endswith(".npy"):
        separator = "," if ".csv" in name else "\t" if ".tsv" in name else " "
        named = write(tmp_path, name, columns, header=separator.join(f"m{j}" for j in range(count)))
        assert scores_of(named) == expected
        assert [p.name for p in partitions(named, N)] == [f"m{j}" for j in range(count)]


@pytest.mark.parametrize("kind", ["i1", "u2", "i8", "f4", "f8", "bool", "U3", "S3"])
def test_the_type_of_labels_changes_no_score(kind, data, rng, tmp_path):
    labels = rng.integers(0, 2, N)
    np.save(tmp_path / "labels.npy", labels.astype(kind))
    assert scores_of(tmp_path / "labels.npy") == scores_of(write(tmp_path, "a.txt", [labels]))


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 12), sparse=st.booleans(), text=st.booleans())
def test_new_names_and_another_order_of_the_points_change_no_score(seed, k, sparse, text, tmp_path_factory):
    rng, folder = np.random.default_rng(seed), tmp_path_factory.mktemp("scores")
    A = rng.standard_normal((N, 5)) * (rng.random((N, 5)) < 0.5)
    classes, labels = rng.integers(0, 4, N), rng.integers(0, k, N)
    names = rng.permutation(10**6)[:k] - 5 * 10**5
    renamed = [f"cluster {name} é" for name in names] if text else names
    with pytest.MonkeyPatch.context() as patch:
        serve(patch, A, classes)
        (first,) = scores_of(write(folder, "a.txt", [labels]))
        order = rng.permutation(N)
        serve(patch, scipy.sparse.csr_array(A[order]) if sparse else A[order], classes[order])
        (second,) = scores_of(write(folder, "b.txt", [[renamed[label] for label in labels[order]]]))
    assert second["objective"] == pytest.approx(first["objective"], rel=1e-9, abs=1e-15)
    for name in ("accuracy", "nmi", "ari"):
        assert second[name] == pytest.approx(first[name], abs=1e-12)


def test_noise_is_a_cluster_and_reported(data, tmp_path):
    labels = np.arange(N) % 3 - 1
    rows, notes = score_file(write(tmp_path, "a.txt", [labels]), ["dataset=digits"])
    assert rows[0]["clusters"] == 3
    assert notes == [
        f"column '0' has negative labels at {sum(labels < 0)} points; each such label counts as a cluster, also where "
        "it means noise"
    ]
    assert scores_of(write(tmp_path, "b.txt", [labels + 1])) == scores_of(tmp_path / "a.txt")


def npy(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


LINES = ["1"] * N
REFUSED = {
    "a.txt": ["", "\n", "1\n" * (N - 1), "1\n" * (N + 2), "1\n" * (N + 1), "\n" * N],
    "b.txt": ["\n".join([*LINES[1:], cell]) for cell in ("nan", "inf", "-inf", "0.5", "1 2", "1,2", "")],
    "c.csv": ["\n".join(["a,a", *["1,2"] * N]), "\n".join(["1,2"] * (N - 1) + ["1"]), "\n".join(["1,0.5"] * N)],
    "d.txt": [b"\xff\xfe1\x001\x00", b"\xe9\n" * N, b"\0\n" * N, "\n".join(LINES).encode("utf-16")],
    "e.gz": [b"", b"1\n" * N, gzip.compress(b"1\n" * N, mtime=0)[:-9], gzip.compress(b"1\n" * (N - 1), mtime=0)],
    "f.npy": [
        b"", b"1\n" * N, npy(np.array([None] * N)), npy(np.array([1, "a"] * (N // 2), dtype=object)), npy(np.zeros(0)),
        npy(np.zeros(())), npy(np.zeros((N, 2, 2))), npy(np.zeros((3, N))), npy(np.zeros(N + 1)),
        npy(np.full(N, np.nan)), npy(np.full(N, np.inf)), npy(np.full(N, 0.5)), npy(np.zeros(N, complex)),
        npy(np.zeros(N, "M8[s]")), npy(np.zeros(N, [("a", "i4")])), npy(np.full(N, b"\xff")), npy(np.full(N, "")),
        npy(np.zeros(N))[:-8],
    ],
}  # fmt: skip


@pytest.mark.parametrize(("name", "content"), [(name, content) for name in REFUSED for content in REFUSED[name]])
def test_what_is_no_partition_is_refused_in_one_sentence(name, content, data, tmp_path):
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError) as refused:
        score_file(file, ["dataset=digits"])
    said = str(refused.value)
    assert name in said
    assert "\n" not in said


def test_a_bomb_is_refused_before_it_takes_memory(data, tmp_path):
    with gzip.open(tmp_path / "a.gz", "wb") as file:
        for _ in range(150):
            file.write(b"1\n" * 2**21)
    with pytest.raises(UserError, match="unpacks to too much"):
        score_file(tmp_path / "a.gz", ["dataset=digits"])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "no dataset was given"),
        (["dataset.rows=unit"], "no dataset was given"),
        (["dataset=digits", "k=3"], "'k' is not a setting of 'kmdr score'"),
        (["dataset=digitz"], "did you mean 'digits'"),
        (["dataset=digits", "dataset.n=3"], "dataset.n"),
    ],
)
def test_settings_other_than_the_dataset_are_refused(given, said):
    with pytest.raises(UserError, match=said):
        dataset_from(given)


def test_the_dataset_is_that_of_a_run():
    assert dataset_from(["dataset=digits", "dataset.rows=unit"]) == ("digits", {"rows": "unit", "scale": "none"})
    name, options = dataset_from(["dataset=file", "dataset.path=a.csv"])
    assert (name, options["path"]) == ("file", "a.csv")


def test_the_command_prints_a_table_and_all_digits_as_csv_and_json(rng, tmp_path, capsys):
    points = np.c_[rng.standard_normal((N, 3)), np.arange(N) % 2]
    np.savetxt(tmp_path / "points.csv", points, delimiter=",", header="a,b,c,label", comments="")
    file = write(tmp_path, "l.txt", [np.arange(N) % 2, np.arange(N) % 5], header="one two")
    given = [str(file), "dataset=file", f"dataset.path={tmp_path / 'points.csv'}"]
    COMMANDS["score"](given)
    said = capsys.readouterr().out
    assert said.split()[:6] == ["partition", "clusters", "F", "P", "NMI", "ARI"]
    COMMANDS["score"]([*given, "FORMAT=json"])
    rows = json.loads(capsys.readouterr().out)
    assert [row["partition"] for row in rows] == ["one", "two"]
    assert rows[0]["accuracy"] == rows[0]["nmi"] == rows[0]["ari"] == 1
    assert rows[1]["objective"] == pytest.approx(objective_of(points[:, :3], np.arange(N) % 5), rel=1e-12)
    COMMANDS["score"]([*given, "FORMAT=csv"])
    assert repr(rows[1]["objective"]) in capsys.readouterr().out
