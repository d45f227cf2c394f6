"""Traits that explain losses, on made-up losses that depend on one trait, on none, or on chance."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

from atlas_rows import METHODS
from kmdr.atlas.design import design
from kmdr.atlas.effects import COLUMNS, effects
from kmdr.atlas.explanation import CHOICE, explain, family_losses, family_of, sentence_of
from kmdr.figures.style import KNOWN


def made(rng, sizes=24, slope=0.0):
    """Effects and traits of datasets on which sampled features lose more by a slope times ``decay``."""
    traits = pd.DataFrame(
        {
            "dataset": [f"data{i}" for i in range(sizes)], "form": "raw", "d": 10.0 ** rng.uniform(2, 5, sizes),
            "decay": rng.normal(size=sizes), "coherence": rng.random(sizes) + 1, "negative": rng.integers(0, 2, sizes),
        }
    )  # fmt: skip
    lines = []
    for i in range(sizes):
        for method in METHODS:
            loss = 0.05 + 0.01 * rng.normal() + (slope * traits["decay"][i] if method == "leverage" else 0.0)
            lines.append({"dataset": f"data{i}", "form": "raw", "method": method, "loss": loss})
    table = pd.DataFrame(lines, columns=COLUMNS).assign(
        domain=["image" if int(name[4:]) % 2 else "text" for name in [line["dataset"] for line in lines]],
        k=5, d=10_000, n=100, r=100, multiple=20.0, seconds=np.nan, seconds_none=np.nan, failed="",
    )  # fmt: skip
    return table, traits


@pytest.mark.slow
def test_a_trait_that_decides_explains_and_no_other_does():
    found = explain(*made(np.random.default_rng(0), slope=0.1))
    target = "sampled features − random projections"
    explaining = found[found["explains"]]
    assert {("decay", target)} <= set(zip(explaining["traits"], explaining["target"], strict=True))
    assert set(explaining["traits"]) <= {"decay", "all traits"}
    line = found[(found["traits"] == "decay") & (found["target"] == target)].iloc[0]
    assert 0.5 < line["low"] < line["gain"] < line["high"] < 1
    assert "decay for sampled features" in sentence_of(found)
    choice = found[found["target"] == CHOICE].iloc[0]
    assert choice["error"] < choice["error_mean"]


@pytest.mark.slow
def test_where_chance_decides_nothing_explains():
    found = explain(*made(np.random.default_rng(0)))
    assert not found["explains"].any()
    assert "No trait is shown to predict" in sentence_of(found)


@pytest.mark.slow
def test_the_errors_are_those_of_a_loop_over_sources(rng):
    table, traits = made(rng, 12, 0.05)
    table = table.replace({"dataset": {"data3": "orl", "data4": "orl_64x64"}})
    traits = traits.replace({"dataset": {"data3": "orl", "data4": "orl_64x64"}})
    found = explain(table, traits)
    line = found[(found["traits"] == "decay") & found["target"].str.startswith("sampled")].iloc[0]
    losses = family_losses(table)
    y = (losses["sampled features"] - losses["random projections"]).droplevel("form")
    x = traits.set_index("dataset")["decay"].loc[y.index]
    errors, means = [], []
    for source in [["orl", "orl_64x64"], *([name] for name in y.index if not name.startswith("orl"))]:
        rest = ~y.index.isin(source)
        model = LinearRegression().fit(x[rest].to_frame(), y[rest])
        errors.append(abs(model.predict(x[source].to_frame()) - y[source]).mean())
        means.append(abs(y[rest].mean() - y[source]).mean())
    assert line["sources"] == 11
    assert line["error"] == pytest.approx(np.mean(errors))
    assert line["error_mean"] == pytest.approx(np.mean(means))
    assert line["gain"] == pytest.approx(1 - np.mean(errors) / np.mean(means))


@pytest.mark.slow
def test_other_units_of_a_trait_and_another_order_change_nothing(rng):
    table, traits = made(rng, slope=0.03)
    one = explain(table, traits)
    two = explain(table.sample(frac=1, random_state=1), traits.assign(d=traits["d"] * 8).iloc[::-1])
    pd.testing.assert_frame_equal(one, two)


def test_few_sources_are_stated(rng):
    table, traits = made(rng, 7)
    found = explain(table, traits)
    assert found.empty
    assert "too few" in sentence_of(found)
    assert explain(table.query("method == 'svd'"), traits).empty
    assert explain(effects(pd.DataFrame()), traits).empty


def test_every_method_with_a_linear_map_has_a_family():
    without = {name for name in KNOWN if not family_of(name)}
    assert without == {"none", "lle", "sparsified"}
    assert family_of("top_leverage") == "selected features"
    assert {name for name in design().methods if not family_of(name)} == {
        "none",
        "LLE",
        "sparsified",
        "NMF",
        "PRONE",
        "coreset",
    }
