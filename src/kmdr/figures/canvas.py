"""Blank figures in the print style, their legends and notes, and saving."""

import io
import lzma
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.textpath import text_to_path
from numpy.typing import NDArray
from PIL import Image

from kmdr.analysis.rows import CELL
from kmdr.figures.escape import spreadsheet_csv
from kmdr.figures.style import COLUMN_WIDTH, METADATA, PRINT, TEXT_WIDTH, print_style

_NOTE_SIZE = 7  # points
# Of PNG: the size of the palette, and rounds of k-means that fit it.
_COLOURS, _ROUNDS = 128, 3
# Bytes of a figure's CSV that are not compressed.
MOST_PLAIN = 2**15
FORMATS, WITH_PDF = ("png",), ("png", "pdf")
_LINE = 0.13  # inches: height of one line of a note or of the legend
_HANDLE = 0.45  # inches in a legend: a line and the paddings of one column
# The columns of panels of curves against r: a panel has means or, of a time, medians; an empty panel has no rows.
_INTERVAL = ("mean", "median", "low", "high", "count")
NO_NUMBERS = pd.DataFrame(
    columns=["quantity", *CELL, *_INTERVAL, "shown", "shown_count", "label", "drawn_as", "timing"]
)


@dataclass(frozen=True)
class Drawing:
    """A figure with the numbers that it shows, so that its CSV contains exactly these.

    Attributes
    ----------
    panels : sequence of DataFrame
        For each panel, in the order of ``figure.axes``, the plotted numbers, one row per point or bar; any columns
        except ``panel``. Empty for an empty panel.
    """

    figure: Figure
    panels: Sequence[pd.DataFrame]

    @property
    def numbers(self) -> pd.DataFrame:
        """Return the numbers of all panels, with the panel's letter; a column that a panel lacks is empty there."""
        parts = [part.assign(panel=panel_letter(i)) for i, part in enumerate(self.panels) if len(part)]
        table = pd.concat(parts, ignore_index=True) if parts else NO_NUMBERS.assign(panel=[])
        order = dict.fromkeys(["panel", *NO_NUMBERS.columns, *table.columns])
        return table[[name for name in order if name in table]]


def panel_letter(index: int) -> str:
    """Return a, b, …, z, aa, ab, … for 0, 1, ….

    Examples
    --------
    >>> panel_letter(0), panel_letter(25), panel_letter(26)
    ('a', 'z', 'aa')
    """
    rest, last = divmod(index, 26)
    return (panel_letter(rest - 1) if rest else "") + ascii_lowercase[last]


def blank(rows: int, columns: int, width: float, height: float) -> tuple[Figure, NDArray[np.object_]]:
    """Return a figure (size in inches) with rows × columns panels, laid out so that titles, labels and legends fit."""
    fig = Figure(figsize=(width, height))
    fig.set_layout_engine(ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.03, wspace=0.02, hspace=0.02))
    FigureCanvasAgg(fig)
    return fig, fig.subplots(rows, columns, squeeze=False)


def canvas(panels: int, height: float = 1.9, width: float | None = None) -> tuple[Figure, list[Axes]]:
    """Return a figure with panels side by side; call and draw within `kmdr.figures.style.print_style`.

    Parameters
    ----------
    height : float
        Of the panels, in inches.
    width : float, optional
        In inches; by default one column for one panel, the text width for more.
    """
    fig, axes = blank(1, panels, width or (COLUMN_WIDTH if panels == 1 else TEXT_WIDTH), height)
    return fig, list(axes[0])


def add_legend(fig: Figure, handles: Sequence[Artist], labels: Sequence[str], most: int) -> int:
    """Add a legend above all panels, of at most so many columns and no wider than the figure; return its lines."""
    widths = [_HANDLE + text_width(label, PRINT["legend.fontsize"]) for label in labels]

    def fits(columns: int) -> bool:
        parts = np.array_split(widths, columns)  # as matplotlib does: column by column
        return sum(float(part.max()) for part in parts) <= fig.get_figwidth()

    columns = next((c for c in range(min(most, len(labels)), 1, -1) if fits(c)), 1)
    columns = math.ceil(len(labels) / math.ceil(len(labels) / columns))  # as many lines, evenly filled
    fig.legend(handles, labels, loc="outside upper center", ncols=columns)
    return math.ceil(len(labels) / columns)


def finish(fig: Figure, notes: Sequence[str] = (), legend_columns: int = 0) -> Figure:
    """Add one legend above all panels and the notes below them, and adjust the height.

    Parameters
    ----------
    notes : sequence of str
        One paragraph each; empty ones are skipped.
    legend_columns : int
        0 for no legend. A label that several panels have appears once.
    """
    legend_lines = 0
    if legend_columns:
        handles: dict[str, Artist] = {}
        for ax in fig.axes:
            for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        if handles:
            legend_lines = add_legend(fig, list(handles.values()), list(handles), legend_columns)
    fig.set_figheight(fig.get_figheight() + _LINE * legend_lines)
    add_notes(fig, notes)
    return fig


def text_width(text: str, size: float) -> float:
    """Return the width of a line of text in inches, at a size in points."""
    font = FontProperties(family=PRINT["font.family"], size=size)
    width: float = text_to_path.get_text_width_height_descent(text, font, ismath=False)[0]
    return width / 72


def wrap(text: str, width: float, size: float) -> list[str]:
    """Return the lines of a text, broken between words to a width in inches; a longer word has its own line."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and text_width(longer, size) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def add_notes(fig: Figure, notes: Sequence[str]) -> None:
    """Add notes below a figure, after existing ones, and adjust the height.

    Each note is a paragraph; empty ones are skipped.
    """
    paragraphs = ["\n".join(wrap(note, 0.98 * fig.get_figwidth(), _NOTE_SIZE)) for note in notes if note]
    fig.set_figheight(fig.get_figheight() + _LINE * sum(text.count("\n") + 1 for text in paragraphs))
    existing = [fig.get_supxlabel()] if fig.get_supxlabel() else []
    fig.supxlabel("\n".join(existing + paragraphs), x=0.01, ha="left", fontsize=_NOTE_SIZE, color="#333333")


def figure_files(drawing: Drawing, stem: Path, formats: Sequence[str] = FORMATS) -> dict[Path, bytes]:
    """Return a figure in some formats, and the numbers it shows as CSV.

    The same figure gives the same bytes. The paths are ``stem`` with the extensions. A PNG is as wide as a report shows
    it; a PDF is for print, with its fonts embedded. Many numbers are compressed, as ``csv.xz``.
    """
    contents: dict[str, bytes] = {}
    fig = drawing.figure
    with print_style():
        # Lay out the panels once for both formats; `savefig` would draw everything twice to do so.
        if engine := fig.get_layout_engine():
            with suppress(ValueError):  # as in `Figure.draw`
                engine.execute(fig)
        fig.set_layout_engine(None)
        for kind in formats:
            buffer = io.BytesIO()
            fig.savefig(buffer, format=kind, metadata=METADATA[kind])
            contents[kind] = fewer_colours(buffer) if kind == "png" else buffer.getvalue()
    numbers = spreadsheet_csv(drawing.numbers)
    is_large = len(numbers) > MOST_PLAIN
    contents["csv.xz" if is_large else "csv"] = lzma.compress(numbers, preset=9) if is_large else numbers
    # Not with_suffix: a study's name may contain a dot.
    return {stem.with_name(f"{stem.name}.{kind}"): content for kind, content in contents.items()}


def fewer_colours(png: io.BytesIO) -> bytes:
    """Return a picture with a palette: flat colours and thin lines look the same in a quarter of the bytes."""
    buffer = io.BytesIO()
    with Image.open(png) as image:
        dpi = image.info["dpi"]
        small = image.convert("RGB").quantize(_COLOURS, Image.Quantize.MAXCOVERAGE, _ROUNDS, dither=Image.Dither.NONE)
        small.save(buffer, "PNG", optimize=True, dpi=dpi)
    return buffer.getvalue()


def power_of_ten(value: float, _: float | None = None) -> str:
    """Return a power of ten in plain characters, because figures do not parse mathematics.

    Examples
    --------
    >>> power_of_ten(0.01), power_of_ten(1e5)
    ('10⁻²', '10⁵')
    """
    return "10" + str(round(math.log10(value))).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
