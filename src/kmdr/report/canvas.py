"""Blank figures in the print style, and what stands around panels that `figures.paper_grid` does not lay out."""

import math
import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from numpy.typing import NDArray

from kmdr.report.style import COLUMN_WIDTH, TEXT_WIDTH

_CHARS_PER_INCH = 20  # of the notes, at 7 pt
_LINE = 0.13  # inches: a line of a note or of the legend


def blank(rows: int, columns: int, width: float, height: float) -> tuple[Figure, NDArray[np.object_]]:
    """Return a figure in inches with rows × columns panels that make room for their titles, labels and legends."""
    fig = Figure(figsize=(width, height))
    fig.set_layout_engine(ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.03, wspace=0.02, hspace=0.02))
    FigureCanvasAgg(fig)
    return fig, fig.subplots(rows, columns, squeeze=False)


def canvas(panels: int, height: float = 1.9, width: float | None = None) -> tuple[Figure, list[Axes]]:
    """Return a figure with panels side by side; to be called, and drawn on, within `kmdr.report.style.print_style`.

    Parameters
    ----------
    panels : int
    height : float
        Of the panels, in inches.
    width : float, optional
        In inches; by default one column for one panel, the text width for more.
    """
    fig, axes = blank(1, panels, width or (COLUMN_WIDTH if panels == 1 else TEXT_WIDTH), height)
    return fig, list(axes[0])


def finish(fig: Figure, notes: Sequence[str] = (), legend_columns: int = 0) -> Figure:
    """Put one legend above all panels and the notes below them, and make room for both.

    Parameters
    ----------
    fig : Figure
        From `canvas`.
    notes : sequence of str
        A paragraph each; empty ones are left out.
    legend_columns : int
        0 for no legend. A label that several panels have appears once.
    """
    legend_lines = 0
    if legend_columns:
        handles: dict[str, Artist] = {}
        for ax in fig.axes:
            for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        columns = min(legend_columns, len(handles))
        if handles:
            fig.legend(list(handles.values()), list(handles), loc="outside upper center", ncols=columns)
            legend_lines = -(-len(handles) // columns)
    width = int(fig.get_figwidth() * _CHARS_PER_INCH)
    text = "\n".join(textwrap.fill(note, width) for note in notes if note)
    note_lines = text.count("\n") + 1 if text else 0
    fig.supxlabel(text, x=0.01, ha="left", fontsize=7, color="#333333")
    fig.set_figheight(fig.get_figheight() + _LINE * (legend_lines + note_lines))
    return fig


def power_of_ten(value: float, _: float | None = None) -> str:
    """Return a power of ten, written without mathematics, which names in figures must not be read as.

    Examples
    --------
    >>> power_of_ten(0.01), power_of_ten(1e5)
    ('10⁻²', '10⁵')
    """
    return "10" + str(round(math.log10(value))).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
