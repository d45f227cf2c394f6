"""Specification curves: a number in every universe, in ascending order, with the options of each universe below it.

After Simonsohn, Simmons and Nelson, Nature Human Behaviour 4, 2020.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from numpy.typing import NDArray

from kmdr.figures.canvas import Drawing, blank, finish, panel_letter, text_width
from kmdr.figures.style import KNOWN, PRINT, TEXT_WIDTH, print_style

_OWN, _NEAREST, _LINE = KNOWN["random_sign"].color, KNOWN["svd"].color, KNOWN["leverage"].color
# Heights in inches: of a curve, and of an option's line below it.
_CURVE, _OPTION = 1.7, 0.125


class Curve(NamedTuple):
    """A number in every universe, its quantity in words; ``numbers`` has one line per universe: ``mean low high``."""

    title: str
    quantity: str
    reported: float
    error: float
    numbers: pd.DataFrame


def specification_curves(
    curves: Sequence[Curve],
    universes: Sequence[Sequence[str]],
    options: Mapping[str, Sequence[str]],
    labels: Mapping[str, str],
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
    labels : mapping of str to str
        The choices in words.
    nearest : int
        Position of the universe that is nearest to the reported numbers.

    Returns
    -------
    Drawing
        Its numbers have one line per universe and curve, in the order drawn.
    """
    labelled = {_readable(labels[choice]): names for choice, names in options.items()}
    below = _OPTION * (sum(map(len, options.values())) + len(options))
    with print_style():
        fig, axes = blank(2, len(curves), TEXT_WIDTH, _CURVE + below + 0.5)
        axes[0, 0].get_gridspec().set_height_ratios([_CURVE, below])
        common, titles, note = _shorten_titles([_readable(curve.title) for curve in curves], options)
        panels = []
        for column, curve in enumerate(curves):
            order = np.argsort(curve.numbers["mean"].to_numpy(), kind="stable")
            place = np.argsort(order)
            top, bottom = axes[:, column]
            _draw_curve(top, curve, order, (int(place[0]), int(place[nearest])))
            top.set_title(titles[column], loc="left")
            if not column or curve.quantity != curves[column - 1].quantity:
                top.set_ylabel(", ".join([curve.quantity, *common]))
            _draw_options(bottom, [universes[i] for i in order], labelled, labels=column == 0)
            options_of = pd.DataFrame([universes[i] for i in order], columns=list(options))
            panels.append(
                pd.concat([curve.numbers.iloc[order].reset_index(drop=True), options_of], axis=1).assign(
                    number=curve.title, reported=curve.reported, rank=np.arange(1, len(order) + 1)
                )
            )
        return Drawing(finish(fig, [note], legend_columns=3), [*panels, *(pd.DataFrame() for _ in curves)])


def _readable(text: str) -> str:
    """Return a text with the names of figures and tables instead of their ids.

    Examples
    --------
    >>> _readable("P, none on NIPS (paper_table2)"), _readable("r of fig10")
    ('P, none on NIPS (Table 2)', 'r of Figure 10')
    """
    names = {"fig": "Figure", "table": "Table"}
    return re.sub(r"\b(?:\w+_)?(fig|table)(\d+)\b", lambda match: f"{names[match[1]]} {match[2]}", text)


def _shorten_titles(whole: Sequence[str], options: Mapping[str, Sequence[str]]) -> tuple[list[str], list[str], str]:
    """Return what the names of numbers have in common except the quantity, the rest, and a note.

    If the rest is too long for a line above a panel, it is in the note, by letters.
    """
    names = [name.split(", ") for name in whole]
    parts = list(zip(*names, strict=False))
    shared = next((i for i, several in enumerate(parts) if len(set(several)) > 1), 0)
    titles, common = [", ".join(name[shared:]) for name in names], names[0][1:shared]
    size = PRINT["axes.titlesize"]
    labels_width = max(text_width(text, size) for names_of in options.values() for text in names_of) + 0.4 * len(whole)
    if max(text_width(title, size) for title in titles) > (TEXT_WIDTH - labels_width) / len(whole):
        letters = [f"({panel_letter(i)})" for i in range(len(titles))]
        listed = "; ".join(f"{letter} {title}" for letter, title in zip(letters, titles, strict=True))
        return common, letters, f"{listed}."
    return common, titles, ""


def _draw_curve(ax: Axes, curve: Curve, order: NDArray[np.int64], marked: tuple[int, int]) -> None:
    mean, low, high = (curve.numbers[name].to_numpy()[order] for name in ("mean", "low", "high"))
    x = np.arange(1, len(mean) + 1)
    ends = np.concatenate([[0.5], x, [len(x) + 0.5]])  # the first and the last universe are as wide as the others
    low, high, centre = (np.concatenate([values[:1], values, values[-1:]]) for values in (low, high, mean))
    band = "central 95 % of a universe's distribution" if (low < high).any() else None
    ax.fill_between(ends, low, high, step="mid", color=_LINE, alpha=0.3, linewidth=0, label=band)
    ax.step(ends, centre, where="mid", color=_LINE, linewidth=1.2, label="its mean")
    read = "error of reading or rounding it" if curve.error else None
    edges = curve.reported - curve.error, curve.reported + curve.error
    ax.axhspan(*edges, color="#000000", alpha=0.15, linewidth=0, label=read)
    ax.axhline(curve.reported, color="#000000", linewidth=0.8, linestyle="--", label="reported")
    for at, color, marker, label in (
        (marked[0], _OWN, "D", "the choices made here"),
        (marked[1], _NEAREST, "*", "nearest to the reported numbers"),
    ):
        ax.plot(x[at], mean[at], marker, color=color, markersize=5, linestyle="", label=label, zorder=3)
    ax.set_xlim(0.5, len(mean) + 0.5)
    ax.tick_params(labelbottom=False)


def _draw_options(
    ax: Axes, universes: Sequence[Sequence[str]], options: Mapping[str, Sequence[str]], *, labels: bool
) -> None:
    """Mark the option of each universe, with a line for each option below the name of its choice."""
    texts = [text for choice, names in options.items() for text in (f"{choice}:", *names)]
    marks = np.zeros((len(texts), len(universes)))
    line = 0
    for column, names in enumerate(options.values()):
        for i, name in enumerate(names, line + 1):
            marks[i] = [(column % 2 + 1) * (universe[column] == name) for universe in universes]
        line += len(names) + 1
    extent = (0.5, len(universes) + 0.5, len(texts) - 0.5, -0.5)
    colors = ListedColormap(["white", _LINE, "#333333"])
    ax.imshow(marks, colors, aspect="auto", interpolation="none", extent=extent, vmin=0, vmax=2)
    ax.hlines(np.arange(len(texts) - 1) + 0.5, 0.5, len(universes) + 0.5, color="white", linewidth=2)
    ax.set_yticks(range(len(texts)), texts if labels else [""] * len(texts))
    for tick, text in zip(ax.get_yticklabels(), texts, strict=True):
        tick.set_fontweight("bold" if text.endswith(":") else "normal")
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=False)
    ax.set_xlabel("universes, in order")
