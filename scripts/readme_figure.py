"""Draw the README's figure from the committed rows."""

import argparse

import pandas as pd
from matplotlib.figure import Figure

from kmdr.analysis.rows import half_width
from kmdr.base.paths import CHECKOUT
from kmdr.figures.panels import label_r
from kmdr.figures.style import print_style, reducer_styles
from kmdr.results.table import rows_of

_REFERENCE = CHECKOUT / "results" / "reference"
_METHODS = ("random_sign", "leverage", "laplacian_score", "none")


def draw(rows: pd.DataFrame) -> Figure:
    """Draw F relative to all features, and P, against r on COIL20: means with their 95 % confidence intervals."""
    coil20 = rows[(rows["study"] == "bzmd15_fig2") & (rows["dataset"] == "coil20") & (rows["status"] == "ok")]
    styles = reducer_styles(_METHODS)
    full = coil20.loc[coil20["reducer"] == "none", "objective"].mean()
    panels = (("objective", full, "F ÷ F of all features"), ("accuracy", 1.0, "accuracy P"))
    with print_style():
        figure = Figure(figsize=(7.0, 2.6), layout="constrained")
        for axes, (column, unit, label) in zip(figure.subplots(1, 2), panels, strict=True):
            for reducer in _METHODS:
                values = coil20[coil20["reducer"] == reducer].set_index("r")[column] / unit
                means = values.groupby(level="r").mean()
                style = styles[reducer]
                if reducer == "none":
                    axes.axhline(
                        means.iloc[0], color=style.color, linestyle=style.linestyle, label="none (all features)"
                    )
                    continue
                arms = [half_width(cell.to_numpy()) for _, cell in values.groupby(level="r")]
                axes.errorbar(
                    means.index, means, arms, color=style.color, marker=style.marker, markersize=4, label=style.label
                )
            axes.set(xlabel="number of dimensions r", ylabel=label)
            label_r(axes, sorted({int(r) for r in coil20.loc[coil20["reducer"] == _METHODS[0], "r"]}), 0.0)
        axes.legend()
    return figure


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()  # answers --help instead of drawing
    draw(rows_of(_REFERENCE)).savefig(_REFERENCE / "figures" / "readme.png", dpi=130, metadata={"Software": None})
