"""my_dataset has the shape and the classes that its entry states."""

from pathlib import Path

import numpy as np
import pytest

import kmdr
from kmdr.datasets import registry


@pytest.fixture(autouse=True)
def _folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KMDR_PATH", str(Path(__file__).resolve().parents[1]))
    monkeypatch.setenv("KMDR_CACHE", str(tmp_path))


def test_shape_and_classes_are_those_of_the_entry() -> None:
    entry, data = registry.entry("my_dataset"), kmdr.load("my_dataset")
    assert data.labels is not None
    assert data.A.shape == (entry.n, entry.d)
    assert len(np.unique(data.labels)) == entry.k
