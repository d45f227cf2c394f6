"""Figures of the atlas: critical differences, performance profiles, and fronts of time against loss.

Each is a `Drawing` with the numbers that it shows; `kmdr.figures.canvas.figure_files` turns it into files.
"""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from kmdr.atlas.design import method_names
from kmdr.atlas.effects import REFERENCE
from kmdr.atlas.explanation import FAMILIES, family_of
from kmdr.atlas.ranking import Ranking
from kmdr.figures.canvas import Drawing, canvas, finish
from kmdr.figures.style import KNOWN, PRINT, TEXT_WIDTH, Style, method_styles, print_style

LABELS = {"loss": "objective (F)", "accuracy": "accuracy (P)", "ari": "ARI", "nmi": "NMI", "time": "time"}
_LINE = 0.14  # inches: height of a method in the diagram of ranks
_BAR, _GREY = "#444444", "#999999"
_LONGEST = 48  # characters of a label


def styles_of(methods: Sequence[str]) -> dict[str, Style]:
    """Return the appearance of each method, in the order of legends: that of its reducer, or a variant.

    Other methods may be called like a reducer of the atlas, or have names that are too long for a figure.
    """
    pairs = {name: pair for pair, name in method_names().items()}
    names = {pairs.get(name, (name, "")): name for name in methods}
    return {names[pair]: style._replace(label=_short(names[pair])) for pair, style in method_styles(names).items()}


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def critical_differences(ranking: Ranking) -> Drawing:
    """Draw the average rank of each method with its 95 % interval, and a bar for each group that no test separates.

    The best is at the top. Without a test, or where it does not reject equality, one bar spans all methods.
    """
    ranks = ranking.ranks
    names = [str(name) for name in ranks.index]
    styles = styles_of(names)
    groups = [group for group in ranking.groups if len(group) > 1]
    with print_style():
        fig, (ax,) = canvas(1, _LINE * len(names) + 0.55, TEXT_WIDTH)
        y = np.arange(len(names))
        for place, name in enumerate(names):
            line, style = ranks.loc[name], styles[name]
            ax.plot([line["low"], line["high"]], [place, place], color=style.color, linewidth=1.0, alpha=0.6)
            face = style.color if style.filled else "white"
            ax.plot(line["mean"], place, style.marker or "|", color=style.color, markerfacecolor=face, markersize=4)
        _draw_groups(ax, groups, names, len(names))
        ax.set_yticks(y, [styles[name].label for name in names])
        ax.set_ylim(len(names) - 0.4, -0.6)
        ax.set_xlabel(f"average rank by {LABELS[ranking.quantity]}, {ranking.condition} ({ranking.form})")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        numbers = ranks.rename_axis("method").reset_index().rename(columns={"mean": "rank"})
        numbers = numbers.assign(
            label=[styles[name].label for name in names], quantity=ranking.quantity, form=ranking.form,
            condition=str(ranking.condition), critical_difference=ranking.distance, p=ranking.p,
            groups=ranking.group_numbers,
        )  # fmt: skip
        return Drawing(finish(fig, [_sentence(ranking)]), [numbers])


def _draw_groups(ax: Axes, groups: Sequence[Sequence[str]], names: Sequence[str], right: int) -> None:
    """Draw a vertical bar for each group, at the right of the ranks; bars that overlap are next to each other."""
    ends: list[int] = []
    for group in groups:
        first, last = names.index(group[0]), names.index(group[-1])
        column = next((i for i, end in enumerate(ends) if end < first), len(ends))
        ends[column:] = [last] if column == len(ends) else [last, *ends[column + 1 :]]
        x = right + 0.5 + 0.02 * right * column
        ax.plot([x, x], [first - 0.3, last + 0.3], color=_BAR, linewidth=1.6, solid_capstyle="butt")
    ax.set_xlim(0.5, right + 1.0 + 0.02 * right * len(ends))


def _sentence(ranking: Ranking) -> str:
    """Return the result of the test, in words."""
    N, k = ranking.block.values.shape
    sizes = f"{k} methods on {N} datasets"
    if math.isnan(ranking.p):
        return f"{sizes}: too few for a test.{_lines(ranking)}"
    if not ranking.is_rejected:
        shows = "equality of all methods is not rejected, so no method is better than another"
    else:
        shows = f"methods joined by a bar differ by less than Nemenyi's critical difference, {ranking.distance:.2f}"
    winner = f"; {ranking.winner} is better than every other" if ranking.winner else ""
    return f"{sizes}; Friedman's test, F form: p = {ranking.p:.2g}; {shows}{winner}.{_lines(ranking)}"


def _lines(ranking: Ranking) -> str:
    """Return the legend of the lines in a figure of ranks; empty if it has none."""
    drawn = ranking.ranks["low"].notna().any()
    return " Lines are 95 % intervals of average ranks over datasets." if drawn else ""


def profile_curves(profiles: pd.DataFrame, condition: str, limit: float) -> Drawing:
    """Draw performance profiles, one panel per family of methods: the shares of sources within a factor of the best.

    K-means on all features is in each panel, and all other methods in the background. ``profiles`` are from
    `kmdr.atlas.ranking.performance_profiles`, and ``limit`` is the largest factor shown.
    """
    styles = styles_of(list(dict.fromkeys(profiles["method"])))
    steps = {
        str(name): (
            np.r_[some["factor"], max(limit, some["factor"].max())],
            np.r_[some["share"], some["share"].iloc[-1]],
        )
        for name, some in profiles.groupby("method")
    }
    families = {name: family_of(name) or "others" for name in styles if name != REFERENCE}
    panels = [family for family in (*dict.fromkeys(FAMILIES.values()), "others") if family in families.values()]
    with print_style():
        fig, axes = canvas(len(panels), 1.7, TEXT_WIDTH)
        for ax, family in zip(axes, panels, strict=True):
            for name, style in styles.items():
                if families.get(name, family) == family:
                    ax.step(*steps[name], where="post", color=style.color, linestyle=style.linestyle, label=style.label)
                else:
                    ax.step(*steps[name], where="post", color=_GREY, linewidth=0.4, alpha=0.4, zorder=0)
            ax.set_xlim(1, limit)
            ax.set_ylim(0, 1.02)
            ax.set_title(family)
            ax.set_xticks(np.linspace(1, limit, 3), [f"{factor:.3g}" for factor in np.linspace(1, limit, 3)])
        axes[0].set_ylabel("share of sources")
        axes[len(axes) // 2].set_xlabel(f"factor of the best {LABELS['loss']}, {condition}")
        note = "A method that cannot run on a dataset of a source is not within any factor there."
        labels = profiles["method"].map({name: style.label for name, style in styles.items()})
        numbers = profiles.assign(quantity="loss", condition=condition, label=labels)
        return Drawing(finish(fig, [note], legend_columns=5), [numbers])


def trade_off(points: pd.DataFrame, title: str) -> Drawing:
    """Draw the time and the loss of each method, and the front of those that no other is better than in both.

    ``points`` are from `kmdr.atlas.ranking.pareto_over_datasets`.
    """
    points = points.dropna(subset=["time", "loss"])
    names = list(dict.fromkeys(points["method"]))
    styles = styles_of(names)
    with print_style():
        fig, (ax,) = canvas(1, 3.0, TEXT_WIDTH)
        for name in styles:
            some, style = points[points["method"] == name].sort_values("multiple"), styles[name]
            face = style.color if style.filled else "white"
            loss = 100 * some["loss"]
            ax.plot(some["time"], loss, marker=style.marker or "h", color=style.color, markerfacecolor=face,
                    linewidth=0.4, linestyle=style.linestyle, label=style.label)  # fmt: skip
            ax.vlines(some["time"], 100 * some["loss_low"], 100 * some["loss_high"], style.color, linewidth=0.3)
            ax.hlines(loss, some["time_low"], some["time_high"], style.color, linewidth=0.3)
        front = points[points["front"]].sort_values(["time", "loss"])
        ax.step(front["time"], 100 * front["loss"], where="post", color=_GREY, linewidth=2.5, alpha=0.5, zorder=0,
                label="front")  # fmt: skip
        ax.axhline(0, color=KNOWN[REFERENCE].color, linewidth=0.5)
        ax.set_xscale("log")
        ax.set_yscale("symlog", linthresh=0.1)
        least, most = 100 * points["loss"].min(), 100 * points["loss"].max()
        ax.set_ylim(1.5 * min(least, -0.05), 1.5 * max(most, 0.1))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{100 * x:g} %"))
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g} %"))
        ax.set_xlabel("total time, share of that of all features")
        ax.set_ylabel("loss: F/F_none − 1")
        ax.set_title(title, loc="left", fontsize=PRINT["axes.titlesize"])
        numbers = points.assign(label=points["method"].map({name: style.label for name, style in styles.items()}))
        return Drawing(finish(fig, legend_columns=5), [numbers])
