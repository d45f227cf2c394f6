"""kmdr as a library: the same trials as the command line's, as functions."""

import dataclasses
import doctest
import importlib
import inspect
import io
import json
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA, DictionaryLearning, TruncatedSVD

import kmdr
import kmdr.api
import kmdr.reducers
from kmdr.analysis.comparison import compared, with_ratio
from kmdr.base.errors import ArgumentError, UserError
from kmdr.base.outside import named_by_path
from kmdr.base.text import terminal_width
from kmdr.clustering.kmeans import STARTS
from kmdr.clustering.lloyd import EMPTY_ACTIONS
from kmdr.datasets import from_arrays
from kmdr.figures.comparison import table_of
from kmdr.figures.tables import text
from kmdr.metrics import metrics
from kmdr.reducers import SVD
from kmdr.results.schema import COLUMNS


@pytest.fixture
def clusters(rng):
    truth = np.arange(90) % 3
    return rng.standard_normal((90, 20)) + 6 * rng.standard_normal((3, 20))[truth], truth


@pytest.mark.slow
def test_rows_have_the_columns_of_a_run_and_are_the_same_again(clusters):
    A, truth = clusters
    first, second = (
        kmdr.compare(A, ["svd", "random_sign"], labels=truth, r_grid=[3, 5], repeats=2).rows for _ in range(2)
    )
    assert tuple(first.columns) == COLUMNS
    assert len(first) == 2 * 2 + 2 * 2
    assert first["objective"].tolist() == second["objective"].tolist()
    assert (first["objective_ratio"] >= 1).all()


@pytest.mark.slow
def test_names_instances_classes_and_paths_are_reducers(clusters):
    A, truth = clusters
    methods = ["none", SVD(rank="r"), TruncatedSVD(n_iter=9), PCA, "sklearn.decomposition.NMF"]
    rows = kmdr.compare(np.abs(A), methods, labels=truth, r_grid=[4], repeats=1).rows
    assert rows["reducer"].tolist() == [
        "none", "svd", "sklearn.decomposition._truncated_svd.TruncatedSVD", "sklearn.decomposition._pca.PCA",
        "sklearn.decomposition.NMF",
    ]  # fmt: skip
    assert rows["params"].tolist()[1:3] == ['{"centred":false,"rank":"r","solver":"kmdr"}', '{"n_iter":9}']
    assert (rows["status"] == "ok").all()


def test_f_is_that_of_the_partition_on_all_features(clusters):
    A, truth = clusters
    rows = kmdr.compare(A, ["none"], labels=truth, r_grid=[1], repeats=1, n_init=10).rows
    model = KMeans(3, n_init=10, random_state=0).fit(A)
    assert rows["objective"].iloc[0] == pytest.approx(model.inertia_ / (A**2).sum(), rel=1e-9)


def test_without_labels_k_is_needed_and_p_is_empty(clusters):
    A, _ = clusters
    rows = kmdr.compare(A, ["svd"], k=3, r_grid=[3], repeats=1).rows
    assert rows["accuracy"].isna().all()
    with pytest.raises(ValueError, match="neither k nor labels"):
        kmdr.compare(A, ["svd"], r_grid=[3])


def test_several_labelings_in_any_form_are_those_of_files(clusters, tmp_path, monkeypatch):
    A, truth = clusters
    other = np.where(np.arange(90) < 9, -1, np.arange(90) // 30)
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", A)
    np.save("y.npy", np.c_[truth, other])
    data = kmdr.load("file", path="x.npy", labels=["y.npy:0", "y.npy:1"], noise=-1)
    both = np.c_[truth, other]
    forms = [both, both.tolist(), [truth, other], (list(truth), pd.Series(other)), pd.DataFrame(both)]
    for labels in forms:
        made = from_arrays(A, labels, noise=-1)
        assert (made.k, made.data_sha256) == (3, data.data_sha256)
    missing = [truth, np.where(other < 0, np.nan, other)]
    assert from_arrays(A, missing, noise=np.nan).data_sha256 == data.data_sha256
    texts = [truth.astype(str), [f"class {label}" for label in other]]
    assert from_arrays(A, texts, noise="class -1").data_sha256 == data.data_sha256
    result = kmdr.compare(A, ["none"], labels=both, noise=-1, r_grid=[1], repeats=1)
    assert json.loads(result.rows["metrics"].iloc[0]).keys() >= {"accuracy_labels0", "ari_labels1"}
    assert "P (labels1)" in result.summary()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"labels": [[0, 1, 0], [0, 1]]}, r"labels\[0\] has 3 entries for 90 points"),
        ({"labels": np.zeros((2, 45), int)}, r"the labels of A have shape \(2, 45\)"),
        ({"labels": pd.DataFrame({"a": [0, 1]})}, "labels, column 'a' has 2 entries for 90 points"),
        (
            {"labels": [np.arange(90), np.zeros(90)]},
            r"all 90 points are of one class by the labels of A \(labels\[1\]\)",
        ),
        ({"labels": np.zeros(90)}, "give labels of at least two classes, or give labels=None"),
        ({"labels": None, "k": 3, "noise": 0}, "noise = 0 is not a label; give labels"),
        ({"noise": [0]}, r"noise = \[0\] is not a label"),
        (
            {"noise": 0, "start": "first_of_class", "n_init": 1},
            "needs a class for every point, but 30 points are noise",
        ),
    ],
)
def test_labelings_that_do_not_fit_are_refused(clusters, changes, reason):
    A, truth = clusters
    with pytest.raises(ArgumentError, match=reason):
        kmdr.compare(**{"A": A, "reducers": ["none"], "labels": truth, "r_grid": [1], **changes})


@given(st.lists(st.integers(0, 4), min_size=5, max_size=30), st.randoms())
def test_one_hot_labels_are_refused_and_other_columns_of_two_classes_are_not(classes, random):
    """Each of their columns was taken for a labeling, so that k was 2 whatever the number of classes."""
    classes = np.array([*range(3), *classes])
    A, columns = np.arange(len(classes) * 2.0).reshape(-1, 2), np.unique(classes)
    coded = (classes[:, None] == columns).astype(random.choice([int, float, bool, np.uint8]))
    form = random.choice([np.array, pd.DataFrame, np.ndarray.tolist, lambda array: list(array.T)])
    with pytest.raises(
        UserError, match=rf"have {len(columns)} columns of zeros and ones.* np.argmax\(labels, axis=1\)"
    ):
        from_arrays(A, form(coded))
    assert from_arrays(A, np.argmax(coded, axis=1)).k == len(columns)
    other = coded.copy()
    other[random.randrange(len(other))] = 1
    assert from_arrays(A, form(other)).k == 2


def test_a_metric_with_the_name_of_a_score_against_a_labeling_is_refused(clusters, monkeypatch):
    A, truth = clusters
    known = metrics()
    taken = {**known, "ari_labels0": dataclasses.replace(known["ari"], name="ari_labels0")}
    monkeypatch.setattr("kmdr.metrics.references.metrics", lambda: taken)
    with pytest.raises(ArgumentError, match="a metric is named 'ari_labels0', like a score against"):
        kmdr.compare(A, ["none"], labels=truth, r_grid=[1])


def test_the_documentation_names_every_start_and_empty_action(clusters):
    for name, values in (("start", STARTS), ("empty_action", EMPTY_ACTIONS)):
        stated = re.search(rf"^ *{name} : {{(.*)}}$", kmdr.compare.__doc__, re.MULTILINE)
        assert sorted(json.loads(f"[{stated[1]}]")) == sorted(values)
    A, labels = clusters
    rows = kmdr.compare(A, ["none"], labels=labels, n_init="auto", start="greedy", r_grid=[2], repeats=1).rows
    assert rows["status"].tolist() == ["ok"]
    assert f"or after {rows['n_init'][0]} starts" in kmdr.compare.__doc__


def test_other_engines_cluster(clusters):
    A, truth = clusters
    rows = kmdr.compare(A, ["svd"], labels=truth, r_grid=[3], repeats=1, engine="sklearn.cluster.BisectingKMeans").rows
    assert rows["accuracy"].iloc[0] > 0.9


@pytest.mark.parametrize("reducer", ["rando_sign", "sklearn.decomposition.PCAA", lambda A: A])
def test_what_is_no_reducer_is_a_value_error(clusters, reducer):
    with pytest.raises(ValueError, match=r"did you mean|neither a name nor a transformer"):
        kmdr.compare(clusters[0], [reducer], k=3, r_grid=[3])


@pytest.mark.parametrize("make", [np.array, pd.DataFrame, pd.Series, scipy.sparse.csr_array], ids=lambda f: f.__name__)
def test_an_array_as_an_argument_of_a_transformer_is_refused_in_a_sentence(clusters, make):
    """It was compared with the default, and the error was about the truth value of an array."""
    transformer = DictionaryLearning(dict_init=make(np.ones(2) if make is pd.Series else np.ones((2, 8))))
    with pytest.raises(ArgumentError, match="cannot be written as JSON"):
        kmdr.compare(clusters[0], [transformer], k=3, r_grid=[2])


def test_rows_are_drawn(clusters):
    A, truth = clusters
    result = kmdr.compare(A, ["svd", "none"], labels=truth, r_grid=[3, 5], repeats=2)
    assert len(kmdr.plot(result.rows).axes) == len(result.plot().axes) == 3
    assert len(kmdr.plot(result, "accuracy").axes) == 1
    with pytest.raises(ValueError, match="are not rows of trials"):
        kmdr.plot([1, 2])


def test_functions_that_share_their_names_with_packages_can_be_called_again_and_again(tmp_path):
    import kmdr.reporting.build
    import kmdr.results.store

    for _ in range(2):
        with pytest.raises(ValueError, match="has no rows; name a folder"):
            kmdr.report(tmp_path)
        with pytest.raises(UserError, match="no study is named 'nosuch'"):
            kmdr.run("nosuch", tmp_path)
        assert kmdr.results.store.Store
        assert kmdr.reporting.build.build


def test_importing_it_and_asking_for_its_version_load_nothing_heavy():
    code = "import sys, kmdr; kmdr.__version__; print(sorted({'numpy', 'pandas', 'numba', 'hydra'} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
    code = "import sys, kmdr.__main__ as m; m._command_line(); print('numpy' in sys.modules)"
    answer = subprocess.check_output([sys.executable, "-c", code, "--version"], text=True)
    assert answer.split() == ["kmdr", kmdr.__version__, "False"]


SOURCE = Path(kmdr.__file__).parent
EXAMPLES = sorted(path.relative_to(SOURCE.parent) for path in SOURCE.rglob("*.py") if ">>> " in path.read_text("utf-8"))


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("path", EXAMPLES, ids=str)
def test_the_examples_of_docstrings_are_right(path):
    module = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
    tried = doctest.testmod(importlib.import_module(module))
    assert tried.attempted > 0
    assert tried.failed == 0


def test_matlabs_online_phase_and_empty_action_can_be_asked_for(clusters):
    A, truth = clusters
    rng = np.random.default_rng(3)
    noise = rng.random((60, 4))
    plain, online = (
        kmdr.compare(noise, ["none"], k=6, r_grid=[4], repeats=3, n_init=1, online=online).rows["objective"]
        for online in (False, True)
    )
    assert (online <= plain * (1 + 1e-12)).all()
    assert (online < plain * (1 - 1e-6)).any()
    rows = kmdr.compare(A, ["svd"], labels=truth, r_grid=[3], repeats=1, empty_action="drop").rows
    assert rows["status"].tolist() == ["ok"]
    for reducer, engine in (("svd", "sklearn"), ("sparsified", "kmdr")):
        with pytest.raises(UserError, match=r"^online and empty_action"):
            kmdr.compare(A, [reducer], labels=truth, r_grid=[3], online=True, engine=engine)


# -- the result ------------------------------------------------------------------------------------------------------


def test_the_summary_has_means_ratios_and_the_number_of_times(clusters):
    A, truth = clusters
    result = kmdr.compare(A, ["random_sign", "none"], labels=truth, r_grid=[2, 4], repeats=3)
    summary, rows = result.summary().set_index(["method", "r"]), result.rows.set_index(["reducer", "r"])
    assert list(summary) == ["n", "F", "F/F_full", "P", "NMI", "seconds", "n seconds"]
    whole = rows.loc["none"].set_index("repeat")["objective"]
    for key, line in summary.iterrows():
        trials = rows.loc[key].set_index("repeat")
        assert (line["n"], line["n seconds"]) == (3, 3)
        assert line["F"] == pytest.approx(trials["objective"].mean())
        assert line["F/F_full"] == pytest.approx((trials["objective"] / whole).mean())
        assert line["P"] == pytest.approx(trials["accuracy"].mean())
        assert line["seconds"] == pytest.approx(trials["total_seconds"].median())


def test_the_result_shows_itself_as_text_and_html(clusters, monkeypatch):
    A, truth = clusters
    monkeypatch.setenv("COLUMNS", "60")
    result = kmdr.compare(A, ["random_sign", PCA(whiten=True), "none"], labels=truth, r_grid=[2], repeats=2)
    shown = repr(result)
    assert max(map(len, shown.splitlines())) <= 60
    assert re.search(r"^random_sign +2 +2 .* ± ", shown, re.MULTILINE)
    page = result._repr_html_()
    assert re.findall("<tr>\\s*<td>(.*?)</td>", page) == list(result.summary()["method"])
    alone = kmdr.compare(A, ["random_sign"], k=3, r_grid=[2], repeats=1)
    assert "that needs the reducer none" in " ".join(repr(alone).split())
    assert alone.summary()["F/F_full"].isna().all()


def test_what_is_printed_is_the_table_of_a_run(clusters):
    """It had neither intervals nor marks."""
    A, truth = clusters
    result = kmdr.compare(A, labels=truth, repeats=3)
    frame = compared(with_ratio(result.rows))
    assert repr(result) == text(table_of(frame), width=terminal_width())
    assert frame[["± F/F_best", "p F/F_best"]].notna().any().all()


@pytest.mark.parametrize(("n", "d"), [(5, 1), (6, 2), (9, 5), (40, 16), (90, 300)])
def test_methods_and_sizes_have_defaults(n, d, rng):
    rows = kmdr.compare(rng.standard_normal((n, d)), k=2, repeats=1, n_init=1).rows
    assert set(rows["reducer"]) - {"leverage"} == {"none", "svd", "random_sign"}
    assert ("leverage" in set(rows["reducer"])) == (d >= 2)
    assert (rows["status"] == "ok").all()
    sizes = sorted(set(rows.loc[rows["reducer"] == "svd", "r"]))
    assert sizes == [r for r in (2, 4, 8, 16, 32, 64) if r <= min(n, d)] or (sizes == [1] and d == 1)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_printed_summary_has_every_column_and_number_and_fits_the_terminal(clusters, width, monkeypatch):
    """pandas printed "..." for the columns in the middle of 80."""
    A, truth = clusters
    monkeypatch.setenv("COLUMNS", str(width))
    summary = kmdr.compare(A, ["random_sign", "leverage", "none"], labels=truth, r_grid=[2, 4], repeats=2).summary()
    shown = str(summary)
    assert max(map(len, shown.splitlines())) <= width
    assert "..." not in shown
    heads = [re.split(" {2,}", lines[0].strip()) for lines in map(str.splitlines, shown.split("\n\n"))]
    assert list(dict.fromkeys(name for head in heads for name in head)) == list(summary)
    assert len(heads) == 1 or all(head[:2] == ["method", "r"] for head in heads)
    for F in summary["F"]:
        assert f"{F:.4f}" in shown
    assert type(summary[["F"]]) is pd.DataFrame
    summary["mine"] = "new"
    assert "mine" in str(summary)
    assert len(str(summary.iloc[:0])) > 0


def test_failed_trials_are_counted_in_what_is_shown(clusters, capsys):
    rows = kmdr.compare(clusters[0], [PCA, "none"], k=3, r_grid=[2], repeats=2).rows
    rows.loc[rows["reducer"] != "none", ["status", "objective"]] = "failed", np.nan
    assert "2 trials failed: see the column error of rows." in repr(kmdr.Comparison(rows))


def test_the_module_lists_its_public_names():
    assert dir(kmdr) == sorted(kmdr.__all__)
    assert set(kmdr.__all__) == {*kmdr.api.__all__, "__version__"}
    for name in kmdr.api.__all__:
        parameters = inspect.signature(getattr(kmdr, name)).parameters
        described = inspect.getdoc(getattr(kmdr, name)) or ""
        assert all(parameter.lstrip("*") in described for parameter in parameters), name


# -- arguments -------------------------------------------------------------------------------------------------------

POINTS = np.random.default_rng(1).random((12, 4))
VALID = {
    "A": POINTS, "reducers": ["none"], "labels": np.arange(12) % 3, "k": 3, "r_grid": [2], "repeats": 1,
    "engine": "kmdr", "engine_args": {}, "n_init": 1, "max_iter": 5, "start": "sample", "online": False,
    "empty_action": "singleton", "seed": 0, "name": "A", "progress": True,
}  # fmt: skip
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 4), st.integers(10**18, 10**40), st.floats(), st.complex_numbers(),
    st.text(max_size=8), st.binary(max_size=3), st.sampled_from([np.int8(2), np.float32(2), np.nan, np.True_]),
    st.sampled_from([np.array(3), np.datetime64("2020-01-01"), object(), int, KMeans, len, np.str_("svd")]),
)  # fmt: skip
CONTAINERS = st.one_of(
    st.lists(SCALARS, max_size=3),
    st.lists(st.lists(st.integers(0, 3), max_size=3), max_size=3),
    st.dictionaries(st.text(max_size=3), SCALARS, max_size=2),
    st.sampled_from([
        pd.DataFrame(POINTS), pd.Series([2, 3]), np.ones((2, 2)), np.array([None, 1], dtype=object), range(2, 4), {2},
        scipy.sparse.eye_array(12), (), range(10**12), pd.DataFrame({"a": ["x"] * 12}),
    ]),
)  # fmt: skip


def numbers_without_end():
    while True:
        yield 2


def message_of(work):
    """Return the message of a mistake in the arguments; empty if there is none. Other errors are not caught."""
    try:
        assert len(work().rows) > 0
    except ArgumentError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("others", [[-1], [-1.0], [0.5], [2.0**63]])
@pytest.mark.parametrize("form", [list, tuple, lambda labels: [labels, labels]])
def test_large_whole_numbers_are_labels_of_their_classes(others, form):
    """numpy makes floats of such a list, and numbers that differ were one class."""
    labels = [2**63 + 1, 2**63 + 2, *others, 3] * 3
    rows = kmdr.compare(np.arange(24.0).reshape(12, 2), ["none"], labels=form(labels), repeats=1, progress=False).rows
    assert rows["k"].tolist() == [4]


def test_labels_of_pandas_may_be_missing():
    labels = pd.array([0, 1, None] * 4, dtype="Int64")
    result = kmdr.compare(POINTS, "none", labels=labels, noise=np.nan, r_grid=[2], repeats=1, progress=False)
    assert result.rows["k"].tolist() == [2]
    with pytest.raises(ArgumentError, match="labels of A are missing at row 2, counted from 0; fill it"):
        kmdr.compare(POINTS, "none", labels=labels, r_grid=[2])


NUMBERS = st.one_of(
    st.integers(-(2**53), 2**53), st.floats(-1e9, 1e9), st.booleans(), st.fractions(), st.decimals(-99, 99),
    st.floats(-9, 9).map(np.float32), st.integers(-9, 9).map(np.int8), st.booleans().map(np.bool_),
)  # fmt: skip


@given(st.lists(st.lists(NUMBERS, min_size=3, max_size=3), min_size=4, max_size=4))
def test_objects_that_are_numbers_are_numbers(entries):
    """They were refused as objects in an array, and as numbers written as text in a DataFrame."""
    expected = np.array([[float(entry) for entry in row] for row in entries])
    objects = np.array(entries, dtype=object)
    frame = pd.DataFrame(objects, columns=["a", "a", "b"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a column that looks like an index
        for A in (objects, frame, frame.astype({"b": float})):
            np.testing.assert_array_equal(from_arrays(A, k=2).A, expected)


@pytest.mark.parametrize("make", [np.array, lambda rows, dtype: pd.DataFrame(rows, dtype=dtype)])
@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (None, "NaN or an infinite value at row 1"), (pd.NA, "NaN or an infinite value at row 1"), ("x", "'x'"),
        (2**70, "whole numbers"), (10**400, "too large"), (1j, "1j"), ([1], r"\[1\]"),
    ],
)  # fmt: skip
def test_an_object_that_is_no_number_is_named(make, entry, reason):
    rows = [[1.5, 2.0], [3, 0], [0.0, 7.0]]
    A = make(rows, dtype=object)
    at = A.iloc if isinstance(A, pd.DataFrame) else A
    at[1, 1] = pd.Series([entry], dtype=object)[0] if not isinstance(entry, list) else None
    if isinstance(entry, list):
        objects = np.empty((3, 2), dtype=object)
        objects[:] = rows
        objects[1, 1] = entry
        A = pd.DataFrame(objects) if isinstance(A, pd.DataFrame) else objects
    with pytest.raises(ArgumentError, match=reason):
        kmdr.compare(A, "none", k=2, r_grid=[1], progress=False)


def test_only_the_columns_with_text_are_named():
    A = pd.DataFrame({"a": [1, 2.5, 3], "b": [1, "x", 3], "c": [1, 2, 3]}, dtype=object)
    with pytest.raises(
        ArgumentError, match=r"^column 'b' of A is not numeric \('x'\); remove or encode what is not a number$"
    ):
        kmdr.compare(A, "none", k=2, r_grid=[1])


@pytest.mark.parametrize("given", [(1, 2), [(1, 2)], {"a": (1, 2)}])
def test_a_tuple_which_rows_cannot_hold_is_refused(given):
    """The class got a list."""
    with pytest.raises(ArgumentError, match=r"cannot be recorded with the rows .*lists instead of tuples"):
        kmdr.compare(POINTS, [DictionaryLearning(alpha=given)], k=2, r_grid=[2])
    with pytest.raises(ArgumentError, match=r"engine_args = .* cannot be recorded .*lists instead of tuples"):
        kmdr.compare(POINTS, "none", k=2, engine="sklearn.cluster.KMeans", engine_args={"tol": given})


@pytest.mark.parametrize(
    ("engine", "name"),
    [
        ("sklearn.cluster.KMeans", "n_clusters"), ("sklearn.mixture.GaussianMixture", "n_components"),
        ("sklearn.cluster.KMeans", "random_state"), ("sklearn.cluster.MiniBatchKMeans", "max_iter"),
        ("sklearn.cluster.KMeans", "n_init"),
    ],
)  # fmt: skip
def test_an_argument_of_an_engine_that_kmdr_sets_is_refused(engine, name):
    """Rows of k = 3 had the partitions into two clusters, the seed was ignored, and columns had the unused n_init."""
    setting = name if name in ("max_iter", "n_init") else "seed" if name == "random_state" else "k"
    said = rf"^engine_args\.{name} is set by kmdr from {setting}; remove it, and set {setting} instead$"
    with pytest.raises(ArgumentError, match=said):
        kmdr.compare(POINTS, "none", k=3, engine=engine, engine_args={name: 2}, r_grid=[2])


NEEDY = """
class Needy:
    def __init__(self, need, n_components):
        pass

    def fit_transform(self, A):
        pass

    fit_predict = fit_transform
"""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reducers": "needy.Needy"}, "reducer Needy needs the argument 'need'; give it, e.g. reducer.args.need=1"),
        ({"engine": "needy.Needy"}, "engine Needy needs the argument 'need'; give it, e.g. engine_args.need=1"),
    ],
)
def test_a_class_that_needs_an_argument_is_refused_before_any_trial(changes, message, tmp_path, monkeypatch):
    """All of its trials failed."""
    (tmp_path / "needy.py").write_text(NEEDY)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ArgumentError) as caught:
        kmdr.compare(POINTS, **{"reducers": "none", "k": 2, "r_grid": [2], **changes})
    assert message in str(caught.value)


@pytest.mark.parametrize("labels", [{0, 1}, {0: 1}, iter([0, 1]), (label for label in (0, 1))])
def test_labels_that_are_no_sequence_are_named(labels):
    with pytest.raises(ArgumentError, match=r"^labels = .* is not an array; give an array or a list$"):
        kmdr.compare(POINTS, "none", labels=labels)


@given(
    st.permutations(range(12)), st.sampled_from([lambda y: y, pd.Series.to_frame, lambda y: [y, y], pd.Series.to_numpy])
)
def test_labels_in_another_order_than_the_points_are_a_warning(order, form):
    """They were scored against other points in silence."""
    A = pd.DataFrame(POINTS, index=[f"p{i}" for i in range(12)])
    labels = pd.Series(np.arange(12) % 2, A.index).iloc[list(order)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        from_arrays(A, form(labels))
    said = [str(warning.message) for warning in caught if "in another order" in str(warning.message)]
    assert bool(said) == (list(order) != list(range(12)) and form is not pd.Series.to_numpy)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(name=st.sampled_from(list(VALID)), value=st.one_of(SCALARS, CONTAINERS))
@example(name="n_init", value=pd.DataFrame(POINTS))
@example(name="labels", value=scipy.sparse.eye_array(12))
@example(name="labels", value=[scipy.sparse.eye_array(1, 12), [0, 1] * 6])
def test_any_argument_gives_rows_or_one_sentence(name, value):
    before = POINTS.copy()
    if name in ("repeats", "n_init") and isinstance(value, int) and value > 10:
        value = -value  # valid, and would take a day
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a column that looks like an index
        said = message_of(lambda: kmdr.compare(**{**VALID, name: value}))
    assert "\n" not in said
    assert not said or re.search(
        "; (a dataset|choose|did|encode|fill|give|install|name|omit|remove|use)|valid:", said
    ), said
    assert (before == POINTS).all()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"r_grid": [2.5]}, "r_grid has 2.5, but a number of dimensions is a whole number"),
        ({"r_grid": []}, "r_grid is empty; give at least one"),
        ({"r_grid": [0]}, "r_grid has 0, but"),
        ({"r_grid": "2"}, "r_grid = '2' is not a sequence"),
        ({"r_grid": numbers_without_end()}, "r_grid has more than 10000 entries"),
        ({"reducers": []}, "reducers is empty"),
        ({"reducers": "leverag"}, "did you mean 'leverage'"),
        ({"reducers": "PCA"}, "no reducer is named 'PCA'; use 'svd'"),
        ({"reducers": ["NMF"]}, "by its import path: 'sklearn.decomposition.NMF'"),
        *[
            ({"reducers": path}, f"reducer {path!r} is not an import path; give one")
            for path in (".", "..", ".x", "x.", "a b.c")
        ],
        ({"reducers": [3]}, "reducers has 3, which is neither a name nor a transformer"),
        ({"repeats": 0}, "repeats = 0 is not a whole number of at least 1"),
        ({"n_init": True}, "n_init = True is not a whole number"),
        ({"labels": [[1], [2, 3]]}, "labels[0] has 1 entries for 12 points; give one per point"),
        ({"reducers": scipy.sparse.eye_array(3)}, "is not a sequence"),
        ({"A": range(10**12)}, "A is not an array"),
        ({"A": np.ma.masked_less(POINTS, POINTS.mean())}, "A has masked entries, which count as missing"),
        ({"labels": np.ma.masked_equal(np.arange(12) % 3, 2)}, "labels has masked entries, which count as missing"),
        ({"engine_args": {"": None}}, "engine 'kmdr' takes no arguments; give an engine by its import path"),
        ({"engine": "sklearn.cluster.KMeans", "engine_args": {"tol": b""}}, "cannot be recorded"),
        ({"engine_args": [1]}, "engine_args = [1] is not a mapping"),
    ],
)
def test_mistakes_are_named(changes, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        kmdr.compare(**{**VALID, **changes})


def test_single_values_and_numpy_numbers_stand_for_sequences():
    plain = kmdr.compare(**{**VALID, "reducers": ["svd"], "r_grid": [2]}).rows
    for changes in ({"reducers": "svd", "r_grid": np.int64(2)}, {"reducers": ("svd", "svd"), "r_grid": iter([2, 2])}):
        rows = kmdr.compare(**{**VALID, **changes, "seed": np.uint8(0)}).rows
        assert rows["objective"].tolist() == plain["objective"].tolist()
        assert rows["config_hash"].tolist() == plain["config_hash"].tolist()


@given(st.integers(1, 500), st.sampled_from([np.int64, np.int32, np.uint8, np.float32, np.float64, np.bool_]))
def test_numpy_scalars_are_arguments_of_transformers_like_plain_numbers(number, kind):
    path, arguments = named_by_path(DictionaryLearning(alpha=kind(number % 200)))
    plain = named_by_path(DictionaryLearning(alpha=kind(number % 200).item()))
    assert (path, json.dumps(arguments)) == (plain[0], json.dumps(plain[1]))


def test_a_reducer_by_name_has_the_settings_of_the_command_line():
    (params,) = set(kmdr.compare(**{**VALID, "reducers": "svd", "r_grid": [2, 3]}).rows["params"])
    assert params == '{"centred":false,"rank":"r","solver":"kmdr"}'


@pytest.mark.parametrize("isatty", [True, False])
def test_progress_is_shown_on_a_terminal_only(isatty, monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: isatty, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream)
    kmdr.compare(**{**VALID, "repeats": 3})
    shown = stream.getvalue()
    assert ("100%" in shown and "3/3 tasks" in shown) if isatty else not shown
    stream.truncate(0)
    kmdr.compare(**{**VALID, "progress": False})
    assert not stream.getvalue().strip("\0")
