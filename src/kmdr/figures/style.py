"""The appearance of each method, the same in every figure, in print and for colour-blind readers."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Literal, NamedTuple

from matplotlib.style import context

from kmdr.analysis.comparison import differences

COLUMN_WIDTH = 3.4  # inches: one column of a two-column page
TEXT_WIDTH = 7.0  # inches: both columns

PRINT: Mapping[str, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so the bytes do not depend on the machine's fonts
    "font.size": 7.5,
    "axes.titlesize": 7.5,
    "axes.labelsize": 7.5,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7.5,
    "axes.linewidth": 0.5,
    "axes.edgecolor": "#444444",
    "axes.titlepad": 3.0,
    "axes.labelpad": 2.0,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.4,
    "lines.linewidth": 0.9,
    "lines.markersize": 2.8,
    "lines.markeredgewidth": 0.6,
    "xtick.major.width": 0.5,
    "ytick.major.width": 0.5,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.minor.size": 1.5,
    "ytick.minor.size": 1.5,
    "legend.frameon": False,
    "legend.handlelength": 2.0,
    "legend.columnspacing": 1.2,
    "legend.handletextpad": 0.5,
    "savefig.dpi": 200,
    "pdf.fonttype": 42,  # TrueType: Type 3 fonts are refused by several publishers
    "svg.hashsalt": "kmdr",
    "text.usetex": False,
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
}

# Metadata that would differ between runs or versions of matplotlib is omitted.
METADATA: Mapping[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}


LineStyle = Literal["-", "--"] | tuple[float, tuple[float, ...]]


class Style(NamedTuple):
    """Appearance of one method: colour, marker, line style, whether markers are filled, and its name in legends."""

    color: str
    marker: str
    linestyle: LineStyle
    label: str
    filled: bool = True


# Okabe and Ito's palette without its yellow, which is hardly visible on white paper.
_BLACK, _ORANGE, _SKY, _GREEN, _BLUE, _RED, _PURPLE = (
    *("#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7"),
)
_DASHDOT = (0.0, (5.0, 1.5, 1.0, 1.5))
_DENSE = (0.0, (3.0, 1.0))
_DOTTED = (0.0, (1.0, 1.0))

# In the order of legends: sampling, projections, singular vectors, scores, then additional methods. There are more
# methods than safe colours: two that share one differ in marker and line, and no figure of a paper shows both.
KNOWN: Mapping[str, Style] = {
    "leverage": Style(_BLUE, "o", "-", "Sampl/SVD"),
    "leverage_approx": Style(_SKY, "s", "-", "Sampl/ApproxSVD"),
    "leverage_sqrt": Style(_ORANGE, "D", _DASHDOT, "Sampl/SVD, unsquared"),
    "random_sign": Style(_RED, "^", "-", "RP"),
    "random_sign_mailman": Style(_RED, "2", _DENSE, "RP, mailman"),
    "gaussian": Style(_BLUE, "x", _DENSE, "Gaussian"),
    "achlioptas": Style(_GREEN, "+", _DENSE, "Achlioptas"),
    "fjlt": Style(_PURPLE, "1", _DENSE, "FJLT"),
    "sparse_embedding": Style(_BLUE, "D", _DASHDOT, "SE"),
    "sparsified": Style(_SKY, "H", _DASHDOT, "PD"),
    "svd": Style(_GREEN, "v", "-", "SVD"),
    "approx_svd": Style(_ORANGE, "d", "-", "ApprSVD"),
    "laplacian_score": Style(_PURPLE, ">", "-", "LapScores"),
    "lle": Style(_ORANGE, "<", _DASHDOT, "LLE"),
    "ridge_leverage": Style(_SKY, "3", _DASHDOT, "Ridge leverage"),
    "top_leverage": Style(_ORANGE, "4", _DENSE, "Top leverage"),
    "variance": Style(_BLACK, ".", _DENSE, "Variance"),
    "srht": Style(_RED, "_", _DASHDOT, "SRHT"),
    "osnap": Style(_GREEN, "|", _DASHDOT, "OSNAP"),
    "none": Style(_BLACK, "", "--", "kMeans"),
}

# Custom reducers: Paul Tol's "muted" colours and markers that no known method has.
_USER_MARKS: tuple[tuple[str, LineStyle], ...] = (
    *(("P", "-"), ("*", _DASHDOT), ("X", _DENSE), ("p", "-"), ("8", _DASHDOT), ("h", _DENSE)),
)
_USER_LOOKS: list[tuple[str, str, LineStyle]] = [
    (color, marker, line)
    for marker, line in _USER_MARKS
    for color in ("#332288", "#882255", "#999933", "#44AA99", "#777777")
]
_VARIANT_LINES: tuple[LineStyle, ...] = (_DOTTED, _DASHDOT, _DENSE, "-")

Method = tuple[str, str]  # (reducer, params)


def print_style() -> AbstractContextManager[None]:
    """Return the context for making and saving figures: matplotlib's defaults, then ``PRINT``; no user's rc file."""
    return context(["default", dict(PRINT)])


def sort_for_legend(methods: Iterable[Method]) -> list[Method]:
    """Return methods in the order of legends: known ones, then custom ones by name, k-means on all features last."""
    names = [name for name in KNOWN if name != "none"]

    def position(method: Method) -> tuple[int, str, str]:
        name, params = method
        place = len(names) + 1 if name == "none" else names.index(name) if name in KNOWN else len(names)
        return place, name, params

    return sorted(set(methods), key=position)


def reducer_styles(names: Iterable[str]) -> dict[str, Style]:
    """Return the appearance of each reducer of one figure.

    Known reducers always look the same. An unknown one gets the appearance that its name hashes to, or the next free
    one if another unknown reducer of the figure (earlier in the alphabet) has that. A reducer named by its import path
    is labelled by its class, unless another of the figure has the same label.

    Parameters
    ----------
    names : iterable of str
        Configuration names of the reducers in the figure.
    """
    wanted = set(names)
    styles = {name: style for name, style in KNOWN.items() if name in wanted}
    called = Counter([*(style.label for style in styles.values()), *(_class_name(n) for n in wanted - set(KNOWN))])
    taken: set[int] = set()
    for name in sorted(wanted - set(KNOWN)):
        if len(taken) == len(_USER_LOOKS):
            taken.clear()  # more custom methods than styles: the figure is hard to read, but can be drawn
        slot = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") % len(_USER_LOOKS)
        while slot in taken:
            slot = (slot + 1) % len(_USER_LOOKS)
        taken.add(slot)
        color, marker, line = _USER_LOOKS[slot]
        short = _class_name(name)
        styles[name] = Style(color, marker, line, short if called[short] == 1 else name)
    return styles


def _class_name(name: str) -> str:
    """Return the last part of an import path."""
    return name.rpartition(".")[2]


def method_styles(methods: Iterable[Method]) -> dict[Method, Style]:
    """Return the appearance of each (reducer, params) of one figure, in legend order.

    Settings of one reducer share its colour; all but the first have open markers and another line. Labels name the
    parameters in which they differ.
    """
    ordered = sort_for_legend(methods)
    base = reducer_styles(name for name, _ in ordered)
    styles: dict[Method, Style] = {}
    for name in dict.fromkeys(name for name, _ in ordered):
        settings = [params for other, params in ordered if other == name]
        suffixes = differences(settings)
        for index, params in enumerate(settings):
            style = base[name]
            if index:
                line = _VARIANT_LINES[(index - 1) % len(_VARIANT_LINES)]
                style = style._replace(linestyle=line, filled=False)
            styles[name, params] = style._replace(label=style.label + suffixes[index])
    return styles
