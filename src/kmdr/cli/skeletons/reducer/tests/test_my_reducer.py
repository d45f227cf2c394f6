"""my_reducer keeps inner products on average, and runs next to other reducers."""

from pathlib import Path

import numpy as np
import pytest

import kmdr
from kmdr import reducers


@pytest.fixture(autouse=True)
def _folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KMDR_PATH", str(Path(__file__).resolve().parents[1]))


def test_inner_products_are_kept_on_average() -> None:
    A = np.arange(12.0).reshape(2, 6)
    reducer, rng = reducers.make("my_reducer"), np.random.default_rng(0)
    products = [C @ C.T for C in (reducer.reduce(A, 3, rng, None) for _ in range(20_000))]
    np.testing.assert_allclose(np.mean(products, axis=0), A @ A.T, rtol=0.05)


def test_it_is_compared_with_another_reducer() -> None:
    A = np.random.default_rng(0).random((60, 20))
    rows = kmdr.compare(A, ["my_reducer", "none"], labels=np.arange(60) % 3, r_grid=[2, 5], repeats=2).rows
    assert rows["status"].eq("ok").all()
