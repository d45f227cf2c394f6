"""The results in the project's README; ``python -m kmdr.reporting.readme`` updates them from the committed results."""

import re
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from kmdr.base.paths import CHECKOUT
from kmdr.figures.style import print_style, reducer_styles
from kmdr.results.reader import rows_of

_BEGIN, _END = "<!-- scorecard: python -m kmdr.reporting.readme -->", "<!-- end of scorecard -->"
_REFERENCE = Path("results", "reference")
_PAGE = (_REFERENCE / "report" / "report.md").as_posix()
FIGURE = _REFERENCE / "figures" / "readme.png"
_METHODS = ("random_sign", "leverage", "laplacian_score", "none")


def scorecard(report: str) -> str:
    """Return a Markdown table with one row of counts per paper, from the scorecard of a report in Markdown."""
    section = re.search(r"^## Scorecard\n(.*?)^## ", report, re.MULTILINE | re.DOTALL)
    if section is None:
        raise ValueError("the report has no scorecard")
    lines = [
        "| paper | tables and figures | claims supported | not supported | undecided |",
        "|---|---|---:|---:|---:|",
    ]
    for paper, items, claims in re.findall(r"^\| \[(\w+)\]\(#\w+\) \| (.*?) \| (.*?) \|$", section[1], re.MULTILINE):
        in_full, in_part = items.count("[✓"), items.count("[◐")
        rerun = f"{in_full} rerun" + f", {in_part} in part" * bool(in_part)
        counts = " | ".join(str(claims.count(f"[{sign}")) for sign in "✓✗?")
        lines.append(f"| [{paper}]({_PAGE}#{paper}) | {rerun} | {counts} |")
    return "\n".join(lines)


def renewed(readme: str, report: str) -> str:
    """Return a README whose scorecard, between its two marks, is that of a report."""
    head, _, rest = readme.partition(_BEGIN)
    _, _, tail = rest.partition(_END)
    return f"{head}{_BEGIN}\n\n{scorecard(report)}\n\n{_END}{tail}"


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
                values = coil20[coil20["reducer"] == reducer].groupby("r")[column].agg(["mean", "sem"]) / unit
                style = styles[reducer]
                if reducer == "none":
                    axes.axhline(values["mean"].iloc[0], color=style.color, linestyle="--", label="none (all features)")
                    continue
                axes.errorbar(
                    values.index, values["mean"], 1.96 * values["sem"], color=style.color, marker=style.marker,
                    markersize=4, label=reducer,
                )  # fmt: skip
            axes.set(xlabel="number of dimensions r", ylabel=label)
        axes.legend()
    return figure


if __name__ == "__main__":
    readme = CHECKOUT / "README.md"
    readme.write_text(renewed(readme.read_text("utf-8"), (CHECKOUT / _PAGE).read_text("utf-8")), "utf-8")
    draw(rows_of(CHECKOUT / _REFERENCE)).savefig(CHECKOUT / FIGURE, dpi=130, metadata={"Software": None})
