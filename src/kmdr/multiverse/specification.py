"""Specification curves: a number in every universe, in ascending order, with the options of each universe below it.

After Simonsohn, Simmons and Nelson, Nature Human Behaviour 4, 2020.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from kmdr.figures.canvas import Drawing, blank, finish
from kmdr.figures.style import KNOWN, TEXT_WIDTH, print_style

_OWN, _NEAREST, _LINE = KNOWN["random_sign"].color, KNOWN["svd"].color, KNOWN["leverage"].color
_GREY = "#999999"
# Heights in inches: of a curve, and of an option's line below it.
_CURVE, _OPTION = 1.7, 0.125


class Curve(NamedTuple):
    """A number in every universe; ``numbers`` has one line per universe: ``mean low high``."""

    title: str
    reported: float
    error: float
    numbers: pd.DataFrame


def specification_curves(
    curves: Sequence[Curve],
    universes: Sequence[Sequence[str]],
    options: Mapping[str, Sequence[str]],
    nearest: int,
) -> Drawing:
    """Draw curves side by side, each with the options of its universes below.

    Parameters
    ----------
    curves : sequence of Curve
        At most four.
    universes : sequence of sequence of str
        The option of each choice; the first is the paper's own.
    options : mapping of str to sequence of str
        The options of each choice.
    nearest : int
        Position of the universe that is nearest to the reported numbers.

    Returns
    -------
    Drawing
        Its numbers have one line per universe and curve, in the order drawn.
    """
    lines = [(choice, name) for choice, names in options.items() for name in names]
    below = _OPTION * (len(lines) + len(options))
    with print_style():
        fig, axes = blank(2, len(curves), TEXT_WIDTH, _CURVE + below + 0.5)
        axes[0, 0].get_gridspec().set_height_ratios([_CURVE, below])
        panels = []
        for column, curve in enumerate(curves):
            order = np.argsort(curve.numbers["mean"].to_numpy(), kind="stable")
            place = np.argsort(order)
            top, bottom = axes[:, column]
            _draw_curve(top, curve, order, (int(place[0]), int(place[nearest])))
            _draw_options(bottom, [universes[i] for i in order], options, labels=column == 0)
            options_of = pd.DataFrame([universes[i] for i in order], columns=list(options))
            panels.append(
                pd.concat([curve.numbers.iloc[order].reset_index(drop=True), options_of], axis=1).assign(
                    number=curve.title, reported=curve.reported, rank=np.arange(1, len(order) + 1)
                )
            )
        return Drawing(finish(fig, legend_columns=4), [*panels, *(pd.DataFrame() for _ in curves)])


def _draw_curve(ax: Axes, curve: Curve, order: NDArray[np.int64], marked: tuple[int, int]) -> None:
    mean, low, high = (curve.numbers[name].to_numpy()[order] for name in ("mean", "low", "high"))
    x = np.arange(1, len(mean) + 1)
    ax.vlines(x, low, high, color=_LINE, linewidth=0.7, alpha=0.45, label="central 95 % of a universe's distribution")
    ax.plot(x, mean, ".", color=_LINE, markersize=3, label="its mean")
    ax.axhspan(curve.reported - curve.error, curve.reported + curve.error, color="#000000", alpha=0.15, linewidth=0)
    ax.axhline(curve.reported, color="#000000", linewidth=0.8, linestyle="--", label="reported")
    for at, color, marker, label in (
        (marked[0], _OWN, "D", "the choices made here"),
        (marked[1], _NEAREST, "*", "nearest to the reported numbers"),
    ):
        ax.plot(x[at], mean[at], marker, color=color, markersize=5, linestyle="", label=label, zorder=3)
    ax.set_title(curve.title, loc="left")
    ax.set_xlim(0, len(mean) + 1)
    ax.tick_params(labelbottom=False)


def _draw_options(
    ax: Axes, universes: Sequence[Sequence[str]], options: Mapping[str, Sequence[str]], *, labels: bool
) -> None:
    """Draw a mark for each option of each universe, with a gap between choices."""
    texts: dict[float, str] = {}
    y = 0.0
    for column, (choice, names) in enumerate(options.items()):
        texts[y] = f"{choice}:"
        for name in names:
            y += 1
            texts[y] = name
            places = [i + 1 for i, universe in enumerate(universes) if universe[column] == name]
            ax.plot(places, [y] * len(places), "|", color="#333333" if column % 2 else _LINE, markersize=4)
        y += 1
    ax.set_ylim(y - 0.4, -0.6)
    ax.set_xlim(0, len(universes) + 1)
    ax.set_yticks(list(texts), list(texts.values()) if labels else [""] * len(texts))
    for tick, text in zip(ax.get_yticklabels(), texts.values(), strict=True):
        tick.set_fontweight("bold" if text.endswith(":") else "normal")
    ax.grid(visible=False)
    ax.set_xlabel("universes, in order")
