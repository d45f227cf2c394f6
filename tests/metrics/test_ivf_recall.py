"""The plugin of examples for vector indexes: its metrics equal a plain computation, and its study is valid."""

import importlib
import json

import numpy as np
import pytest
import scipy.sparse as sp

import kmdr
from blocks import ROOT
from kmdr import metrics
from kmdr.base.plugins import plugin_roots
from kmdr.config.studies import studies
from kmdr.config.task import code_of, forget_code
from kmdr.linalg.matrix import treat_as_out_of_core

PLUGIN = ROOT / "docs" / "examples" / "ivf"
PROBES = (1, 4, 16)


@pytest.fixture
def plugin(monkeypatch):
    monkeypatch.setenv("KMDR_PATH", str(PLUGIN))
    metrics.metrics()
    (root,) = plugin_roots()
    module = importlib.import_module(f"{root.package}.metrics.ivf_recall")
    module._truths.clear()
    module._last.clear()
    return module


def recall_reference(A, labels, nprobe, queries, count=10):
    """The definition, one query after the other."""
    names = np.unique(labels)
    centroids = np.array([A[labels == name].mean(axis=0) for name in names])
    shares = []
    for q in queries:
        distances = ((A - A[q]) ** 2).sum(axis=1)
        distances[q] = np.inf
        neighbours = np.argsort(distances)[: min(count, len(A) - 1)]
        probed = names[np.argsort(((centroids - A[q]) ** 2).sum(axis=1))[:nprobe]]
        shares.append(np.isin(labels[neighbours], probed).mean())
    return np.mean(shares)


def scores(A, labels):
    return {p: metrics.metrics()[f"ivf_recall_{p}"].function(A, labels, None) for p in PROBES}


@pytest.mark.parametrize("n", [2, 7, 60, 300])
@pytest.mark.parametrize("layout", [np.copy, np.asfortranarray, sp.csr_array, np.float32])
def test_the_recall_is_that_of_a_plain_computation(n, layout, plugin, rng):
    A, labels = rng.standard_normal((n, 5)).astype(np.float32).astype(np.float64), rng.integers(0, 24, n)
    for p, value in scores(layout(A), labels).items():
        assert value == pytest.approx(recall_reference(A, labels, p, range(n)))


def test_queries_of_larger_data_are_drawn_once(plugin, rng, monkeypatch):
    monkeypatch.setattr(plugin, "QUERIES", 50)
    A, labels = rng.standard_normal((400, 4)), rng.integers(0, 20, 400)
    with treat_as_out_of_core(10):
        values = scores(A, labels)
    queries, _ = plugin.true_neighbours(A.copy())
    assert len(np.unique(queries)) == 50
    assert len(plugin._truths) == 1
    assert values == {p: pytest.approx(recall_reference(A, labels, p, queries)) for p in PROBES}


def test_copies_of_a_point_are_its_neighbours(plugin, rng):
    A = np.repeat(rng.standard_normal((6, 3)), 15, axis=0)
    assert set(scores(A, np.repeat(np.arange(6), 15)).values()) == {1.0}


def test_the_recall_depends_on_the_partition_alone_and_grows_with_nprobe(plugin, rng):
    A, labels = rng.standard_normal((200, 4)), rng.integers(0, 30, 200)
    values = list(scores(A, labels).values())
    assert values == sorted(values)
    assert values == pytest.approx(list(scores(A, rng.permutation(30)[labels]).values()))
    assert set(scores(A, np.zeros(200, np.int64)).values()) == {1.0}
    assert set(scores(A[:1], labels[:1]).values()) == {None}


def test_rows_have_the_recall_and_the_hash_of_kmdrs_code_stays(plugin, rng, monkeypatch):
    A = rng.standard_normal((120, 6))
    rows = kmdr.compare(A, ["none", "random_sign"], k=8, r_grid=[3], repeats=1, progress=False).rows
    assert all(0 <= json.loads(text)["ivf_recall_1"] <= 1 for text in rows["metrics"])
    with_plugin = code_of("none", "synth")
    monkeypatch.delenv("KMDR_PATH")
    forget_code()
    assert code_of("none", "synth") == with_plugin


def test_the_study_is_listed(plugin):
    (study,) = [study for study in studies() if study["name"] == "ivf"]
    assert study["on_request"]
    assert study["datasets"] == ["usps", "isolet", "ilsvrc_like"]
