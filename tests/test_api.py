"""kmdr as a library: the same trials as the command line's, as functions."""

import doctest
import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA, TruncatedSVD

import kmdr
import kmdr.reducers
from kmdr.base.errors import UserError
from kmdr.reducers import SVD
from kmdr.results.schema import COLUMNS


@pytest.fixture
def clusters(rng):
    truth = np.arange(90) % 3
    return rng.standard_normal((90, 20)) + 6 * rng.standard_normal((3, 20))[truth], truth


@pytest.mark.slow
def test_rows_have_the_columns_of_a_run_and_are_the_same_again(clusters):
    A, truth = clusters
    first, second = (kmdr.compare(A, ["svd", "random_sign"], labels=truth, r_grid=[3, 5], repeats=2) for _ in range(2))
    assert tuple(first.columns) == COLUMNS
    assert len(first) == 2 + 2 * 2  # the svd has k columns whatever r is
    assert first["objective"].tolist() == second["objective"].tolist()
    assert (first["objective_ratio"] >= 1).all()


@pytest.mark.slow
def test_names_instances_classes_and_paths_are_reducers(clusters):
    A, truth = clusters
    methods = ["none", SVD(rank="r"), TruncatedSVD(n_iter=9), PCA, "sklearn.decomposition.NMF"]
    rows = kmdr.compare(np.abs(A), methods, labels=truth, r_grid=[4], repeats=1)
    assert rows["reducer"].tolist() == [
        "none", "svd", "sklearn.decomposition._truncated_svd.TruncatedSVD", "sklearn.decomposition._pca.PCA",
        "sklearn.decomposition.NMF",
    ]  # fmt: skip
    assert rows["params"].tolist()[1:3] == ['{"centred":false,"rank":"r","solver":"kmdr"}', '{"n_iter":9}']
    assert (rows["status"] == "ok").all()


def test_f_is_that_of_the_partition_on_all_features(clusters):
    A, truth = clusters
    rows = kmdr.compare(A, ["none"], labels=truth, r_grid=[1], repeats=1, n_init=10)
    model = KMeans(3, n_init=10, random_state=0).fit(A)
    assert rows["objective"].iloc[0] == pytest.approx(model.inertia_ / (A**2).sum(), rel=1e-9)


def test_without_labels_k_is_needed_and_p_is_empty(clusters):
    A, _ = clusters
    rows = kmdr.compare(A, ["svd"], k=3, r_grid=[3], repeats=1)
    assert rows["accuracy"].isna().all()
    with pytest.raises(ValueError, match="neither k nor labels"):
        kmdr.compare(A, ["svd"], r_grid=[3])


def test_other_engines_cluster(clusters):
    A, truth = clusters
    rows = kmdr.compare(A, ["svd"], labels=truth, r_grid=[3], repeats=1, engine="sklearn.cluster.BisectingKMeans")
    assert rows["accuracy"].iloc[0] > 0.9


@pytest.mark.parametrize("reducer", ["rando_sign", "sklearn.decomposition.PCAA", lambda A: A])
def test_what_is_no_reducer_is_a_value_error(clusters, reducer):
    with pytest.raises(ValueError, match=r"did you mean|cannot be imported"):
        kmdr.compare(clusters[0], [reducer], k=3, r_grid=[3])


def test_rows_are_drawn(clusters):
    A, truth = clusters
    figure = kmdr.plot(kmdr.compare(A, ["svd", "none"], labels=truth, r_grid=[3, 5], repeats=2))
    assert len(figure.axes) == 3


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
        kmdr.compare(noise, ["none"], k=6, r_grid=[4], repeats=3, n_init=1, online=online)["objective"]
        for online in (False, True)
    )
    assert (online <= plain * (1 + 1e-12)).all()
    assert (online < plain * (1 - 1e-6)).any()
    rows = kmdr.compare(A, ["svd"], labels=truth, r_grid=[3], repeats=1, empty_action="drop")
    assert rows["status"].tolist() == ["ok"]
    for reducer, engine in (("svd", "sklearn"), ("sparsified", "kmdr")):
        with pytest.raises(UserError, match=r"kmeans\.online and kmeans\.empty_action"):
            kmdr.compare(A, [reducer], labels=truth, r_grid=[3], online=True, engine=engine)
