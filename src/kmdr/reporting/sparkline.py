"""A small picture of a paper: a panel of the first figure with curves, without axes."""

from collections.abc import Iterator

import pandas as pd
from markupsafe import Markup, escape

from kmdr.analysis.rows import centres
from kmdr.figures.panels import dataset_label, quantity_label

_WIDTH, _HEIGHT, _MOST_CURVES, _MOST_VALUES = 100, 30, 6, 200


def sparkline(tables: list[pd.DataFrame]) -> Markup:
    """Return a panel of the first of some figures that has curves, as inline SVG.

    Of its panels, it is the one with most curves, in which the values depend most clearly on r. If no figure has
    curves, it shows the greatest numbers of the first that has any; empty if none has.
    """
    for numbers in tables:
        panels = list(_panels(numbers))
        if panels:
            about, panel = max(panels, key=lambda named: _clearness(named[1]))
            return _drawn(panel, about)
    return next(filter(None, map(_greatest, tables)), Markup(""))


def _clearness(panel: pd.DataFrame) -> tuple[int, float]:
    return panel["label"].nunique(), abs(panel["r"].corr(panel["centre"], method="spearman"))


def _greatest(numbers: pd.DataFrame) -> Markup:
    """Return the greatest values of a table's first column of fractions, in descending order; empty if it has none."""
    for name, values in numbers.select_dtypes("float").items():
        greatest = values.dropna().nlargest(_MOST_VALUES)
        if greatest.nunique() > 2:
            panel = pd.DataFrame({"label": "", "r": range(len(greatest)), "centre": greatest.to_numpy()})
            return _drawn(panel, f"the greatest values of {name}, in descending order")
    return Markup("")


def _panels(numbers: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the panels of F and P against r of a figure, with their titles."""
    if not {"quantity", "dataset", "label", "r", "drawn_as"} <= set(numbers) or not {"mean", "median"} & set(numbers):
        return
    curves = numbers[(numbers["drawn_as"] == "curve") & numbers["quantity"].isin(["objective", "accuracy"])]
    curves = curves.assign(r=pd.to_numeric(curves["r"], errors="coerce"), centre=centres(curves))
    for (quantity, dataset), panel in curves.dropna(subset=["r", "centre"]).groupby(
        ["quantity", "dataset"], sort=False
    ):
        if panel["r"].nunique() > 2 and panel["centre"].nunique() > 1:
            yield f"{quantity_label(str(quantity))[1]} against r on {dataset_label(str(dataset))}", panel


def _drawn(panel: pd.DataFrame, about: str) -> Markup:
    left, right = panel["r"].min(), panel["r"].max()
    least, most = panel["centre"].min(), panel["centre"].max()
    lines = []
    for i, (_, curve) in enumerate(panel.groupby("label", sort=False)):
        points = curve.groupby("r")["centre"].mean().sort_index()
        x = (points.index.to_numpy(dtype=float) - left) / (right - left) * _WIDTH
        y = _HEIGHT - (points.to_numpy(dtype=float) - least) / (most - least) * _HEIGHT
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
        lines.append(f'<polyline class="curve-{i}" points="{path}"/>')
        if i + 1 == _MOST_CURVES:
            break
    return Markup(
        '<svg class="sparkline" viewBox="-1 -1 102 32" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
    ).format(escape(about), Markup("".join(lines)))
