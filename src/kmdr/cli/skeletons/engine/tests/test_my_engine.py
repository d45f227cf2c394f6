"""my_engine separates distant clusters, and its rows name the plugin."""

from pathlib import Path

import numpy as np
import pytest

import kmdr


@pytest.fixture(autouse=True)
def _folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KMDR_PATH", str(Path(__file__).resolve().parents[1]))


def test_distant_clusters_are_separated() -> None:
    truth = np.arange(40) % 2
    A = 100.0 * truth[:, None] + np.random.default_rng(0).random((40, 6))
    rows = kmdr.compare(
        A, ["none"], labels=truth, r_grid=[2], repeats=1, engine="my_engine", start="first_of_class", n_init=1
    ).rows
    assert rows["accuracy"].tolist() == [1.0]
    assert rows["guests"].iloc[0]
