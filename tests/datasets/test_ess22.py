"""The plugin of examples for ESA 2022: its instance is the paper's, and its published costs are possible."""

import numpy as np
import pandas as pd
import pytest

from blocks import ROOT
from kmdr import datasets
from kmdr.base.errors import UserError
from kmdr.datasets.sources.loaders import all_loaders
from kmdr.metrics import residual

PLUGIN = ROOT / "docs" / "examples" / "ess22"


@pytest.fixture
def instance(monkeypatch):
    monkeypatch.setenv("KMDR_PATH", str(PLUGIN))
    return all_loaders()["ess22_benchmark"]


def copied(k, alpha):
    """The instance as the paper constructs it: the first block by hand, each further one from rows copied k times."""
    A = np.zeros((k**alpha, alpha * k))
    for i in range(k**alpha):
        for j in range(alpha * k):
            A[i, j] = ((k - 1) / k if i % k == j else -1 / k) if j < k else A[i // k, j - k]
    return A


@pytest.mark.parametrize(("k", "alpha"), [(2, 1), (2, 5), (3, 3), (5, 2), (10, 2)])
def test_the_instance_is_the_papers_in_any_blocks(k, alpha, instance):
    streamed, labels = instance(k, alpha)
    n = k**alpha
    A = np.concatenate([streamed.read(start, min(start + 7, n)) for start in range(0, n, 7)])
    np.testing.assert_allclose(A, copied(k, alpha), atol=1e-15)
    np.testing.assert_allclose(A.mean(axis=0), 0, atol=1e-12)
    for j in range(alpha):  # every block is a partition of the same cost
        cost = residual(A, np.arange(n) // k**j % k)
        assert cost == pytest.approx(n * (alpha - 1) * (k - 1) / k, abs=1e-9)
    assert len(np.unique(labels)) == k


def test_published_costs_are_at_least_the_least_possible(instance):
    """A partition into c clusters leaves the energy outside of c − 1 of the α(k − 1) equal singular values, k^(α−1)."""
    published = pd.read_csv(PLUGIN / "cost_curves.csv")
    assert len(published) == 32
    for row in published.itertuples():
        energy = row.block ** (row.alpha - 1)
        assert row.cost >= (row.alpha * (row.block - 1) - (row.k - 1)) * energy * (1 - 1e-9)
    natural = published[published["k"] == published["block"]]
    costs = natural["block"] ** natural["alpha"] * (natural["alpha"] - 1) * (natural["block"] - 1) / natural["block"]
    ratios = (natural["cost"] / costs).round(3)
    assert ratios.tolist() == [1.0, 1.012, 1.011, 1.023]


def test_it_is_a_dataset_whose_sizes_follow_its_options(instance, tmp_path, monkeypatch):
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path))
    data = datasets.load("ess22_benchmark", {"k": 4, "alpha": 2})
    assert (data.A.shape, data.k) == ((16, 8), 4)
    with pytest.raises(UserError, match="k = 1 and alpha = 3 are not"):
        instance(1, 3)
