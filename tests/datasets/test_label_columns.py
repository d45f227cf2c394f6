"""A column that holds the labels is named before it becomes a feature that decides the clusters."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import kmdr
from kmdr.datasets import from_arrays
from kmdr.datasets.check_file import check_files
from kmdr.datasets.formats.common import Content
from kmdr.datasets.formats.profile import profile
from kmdr.datasets.streamed import Streamed

FORMS = {
    "array": np.asarray,
    "Fortran": np.asfortranarray,
    "float32": lambda A: A.astype(np.float32),
    "CSR": scipy.sparse.csr_array,
    "CSC": scipy.sparse.csc_array,
    "table": pd.DataFrame,
    "texts": lambda A: pd.DataFrame(A).map(lambda value: f"value {value}"),
    "streamed": lambda A: Streamed(A.shape, A.dtype, lambda start, stop: A[start:stop]),
}


def in_correspondence(values, labels):
    """Whether pairs of a label and a value are as many as the labels, and as many as the values."""
    pairs = set(zip(values.tolist(), labels.tolist(), strict=True))
    return len(pairs) == len(set(values.tolist())) == len(set(labels.tolist()))


@pytest.mark.parametrize("form", FORMS)
@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.integers(3, 120))
def test_the_columns_are_those_in_one_to_one_correspondence_with_the_classes(form, seed, k, n):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.r_[np.arange(k), rng.integers(0, k, n)])
    kept = labels != 0 if rng.random() < 0.5 and k > 2 else np.full(len(labels), True)  # 0 is noise
    A = rng.integers(0, k, (len(labels), 6)).astype(float)
    for j in range(int(rng.integers(0, 4))):
        A[:, j] = rng.permutation(10)[labels] - 3.0
        A[rng.random(len(labels)) < rng.choice([0, 0.01]), j] += 1
    seen = profile(Content(FORMS[form](A), labels), "" if kept.all() else "0")
    repeated = len(set(labels[kept].tolist())) < kept.sum()  # else every column of different numbers would be one
    assert seen.labels == [str(j) for j in range(6) if repeated and in_correspondence(A[kept, j], labels[kept])]


def test_labels_that_were_not_taken_out_of_a_table_are_named(tmp_path, monkeypatch, capsys, recwarn):
    """``kmdr.compare(frame, labels=frame["target"])`` gave an accuracy of .99 without a word."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((30, 2)), columns=["width", "height"]).assign(target=np.arange(30) % 3)
    with pytest.warns(
        UserWarning, match=r"^A: column 'target' tells the class of every point, but is a feature; omit it"
    ):
        kmdr.compare(frame, ["none"], labels=frame["target"], repeats=1, progress=False)
    recwarn.clear()
    for labels in (rng.permutation(frame["target"]), np.arange(30)):  # of another order; each point a class
        from_arrays(frame, labels)
    assert not [each for each in recwarn if "tells the class" in str(each.message)]
    several = [rng.permutation(frame["target"]), frame["target"].map({0: "a", 1: "b", 2: "c"})]
    with pytest.warns(UserWarning, match="'target' tells the class"):
        from_arrays(frame, several)
    monkeypatch.chdir(tmp_path)
    frame.to_csv("x.csv", index=False)
    frame["target"].to_csv("y.csv", index=False)
    check_files(["x.csv"], ["labels=y.csv"])
    assert "column 'target' tells the class of every point, but is a feature; omit it: 'dataset.drop=[target]'" in (
        capsys.readouterr().out
    )
