"""my_metric has the value that was counted by hand, and every row has it."""

import json
from pathlib import Path

import numpy as np
import pytest

import kmdr
from kmdr.metrics import metrics


@pytest.fixture(autouse=True)
def _folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KMDR_PATH", str(Path(__file__).resolve().parents[1]))


def test_it_is_what_was_counted_by_hand() -> None:
    measure = metrics()["my_metric"].function
    labels, truth = np.array([0, 0, 0, 1, 1]), np.array([2, 2, 0, 1, 1])
    assert measure(np.zeros((5, 1)), labels, truth) == 4 / 5
    assert measure(np.zeros((5, 1)), labels, None) is None


def test_every_row_has_it() -> None:
    A = np.random.default_rng(0).random((60, 20))
    rows = kmdr.compare(A, ["none"], labels=np.arange(60) % 3, r_grid=[2], repeats=2).rows
    assert all("my_metric" in json.loads(text) for text in rows["metrics"])
