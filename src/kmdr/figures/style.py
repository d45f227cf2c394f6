"""The appearance of each method, the same in every figure, in print and for colour-blind readers."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import count
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
    "savefig.dpi": 144,  # the text width is 1008 dots, which a report shows as 672 pixels
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
    """Appearance of one method: its name in legends, colour, marker, line style, and whether markers are filled."""

    label: str
    color: str
    marker: str
    linestyle: LineStyle
    filled: bool = True


_SOLID: LineStyle = "-"
_DENSE: LineStyle = (0.0, (3.0, 1.0))
_DASHDOT: LineStyle = (0.0, (5.0, 1.5, 1.0, 1.5))
_DOTTED: LineStyle = (0.0, (1.0, 1.0))
_LONG: LineStyle = (0.0, (7.0, 3.0))
_LINES = (_SOLID, _DENSE, _DASHDOT, _DOTTED)
_VARIANT_LINES = (_DOTTED, _DASHDOT, _DENSE, _SOLID, (0.0, (5.0, 1.0, 1.0, 1.0, 1.0, 1.0)), (0.0, (1.0, 3.0)))

# Okabe and Ito's palette without its yellow, which is hardly visible on white paper.
_BLACK, _ORANGE, _SKY, _GREEN, _BLUE, _RED, _PURPLE = (
    *("#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7"),
)

# The one palette of all methods, in the order of legends: sampling, projections, singular vectors, selection, k-means
# on all features. Each method has its own marker, and methods of one colour have different lines, so any two differ for
# colour-blind readers and in grey.
KNOWN: Mapping[str, Style] = {
    style.label: style
    for style in (
        Style("leverage", _BLUE, "o", _SOLID),
        Style("leverage_approx", _SKY, "s", _SOLID),
        Style("leverage_sqrt", _ORANGE, "D", _DOTTED),
        Style("ridge_leverage", _GREEN, "o", _DOTTED, filled=False),
        Style("random_sign", _RED, "^", _SOLID),
        Style("random_sign_mailman", _RED, "^", _DENSE, filled=False),
        Style("gaussian", _ORANGE, "X", _DENSE),
        Style("achlioptas", _GREEN, "P", _DENSE),
        Style("fjlt", _PURPLE, "*", _DENSE),
        Style("srht", _BLACK, "*", _DASHDOT, filled=False),
        Style("sparse_embedding", _BLUE, "D", _DASHDOT, filled=False),
        Style("osnap", _PURPLE, "d", _DOTTED, filled=False),
        Style("sparsified", _SKY, "X", _DASHDOT, filled=False),
        Style("svd", _GREEN, "v", _SOLID),
        Style("approx_svd", _ORANGE, "d", _SOLID),
        Style("left_singular_vectors", _SKY, "v", _DOTTED, filled=False),
        Style("lle", _ORANGE, "<", _DASHDOT),
        Style("laplacian_score", _PURPLE, ">", _SOLID),
        Style("top_leverage", _RED, "s", _DOTTED, filled=False),
        Style("variance", _BLACK, "<", _DOTTED, filled=False),
        Style("none", _BLACK, "", _LONG),
    )
}

# Appearances of custom reducers: thin markers, which no known method has, and other colours.
_CUSTOM: Sequence[Style] = [
    Style("", color, marker, _LINES[(i + j) % len(_LINES)])
    for j, color in enumerate(("#6600CC", "#662200", "#2E4C42", "#B2B26B", "#40004C"))
    for i, marker in enumerate(("+", "x", "1", "2", "|", "_"))
]

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

    Known reducers always look the same. An unknown one gets the appearance that its name hashes to, or the next that
    differs from all others. A reducer is labelled by its name; one named by its import path by its class, unless
    another of the figure has the same label. ``names`` are their configuration names.
    """
    wanted = set(names)
    styles = {name: style for name, style in KNOWN.items() if name in wanted}
    custom = sorted(wanted - set(KNOWN))
    called = Counter([*styles, *map(_class_name, custom)])
    free = list(_CUSTOM)
    for name in custom:
        start = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") % len(_CUSTOM)
        free = free or list(_CUSTOM)  # more custom methods than styles: the figure is hard to read, but can be drawn
        from_start = [style for style in (*_CUSTOM[start:], *_CUSTOM[:start]) if style in free]
        used = {style.marker for style in styles.values()}
        chosen = min(from_start, key=lambda style: (style.marker in used, _is_alike(style, styles.values())))
        free.remove(chosen)
        short = _class_name(name)
        styles[name] = chosen._replace(label=short if called[short] == 1 else name)
    return styles


def names_in_paper(names: Mapping[str, str]) -> str:
    """Return a sentence with the names that a paper uses for methods.

    Examples
    --------
    >>> names_in_paper({"random_sign": "RP", "svd": "SVD"})
    'In the paper, random_sign is RP, and svd is SVD.'
    """
    *others, last = (f"{name} is {name_there}" for name, name_there in names.items())
    return f"In the paper, {', '.join(others)}, and {last}."


def _class_name(name: str) -> str:
    """Return the last part of an import path."""
    return name.rpartition(".")[2]


def method_styles(methods: Iterable[Method]) -> dict[Method, Style]:
    """Return the appearance of each (reducer, params) of one figure, in legend order.

    Settings of one reducer share its colour and marker; all but the first have another line, or a marker that is filled
    if the first is open, such that no other style of the figure is alike. Labels name the parameters in which they
    differ.
    """
    ordered = sort_for_legend(methods)
    base = reducer_styles(name for name, _ in ordered)
    taken = list(base.values())
    styles: dict[Method, Style] = {}
    for name in dict.fromkeys(name for name, _ in ordered):
        settings = [params for other, params in ordered if other == name]
        for index, (params, suffix) in enumerate(zip(settings, differences(settings), strict=True)):
            style = base[name]
            if index:
                style = _variant(style, taken)
                taken.append(style)
            styles[name, params] = style._replace(label=style.label + suffix)
    return styles


def label_styles(reducers: Mapping[str, str]) -> dict[str, Style]:
    """Return the appearance of each label of several figures, the same in all of them, and no two alike.

    The shortest label of a reducer has the reducer's appearance, as in every figure; others are variants of it.
    ``reducers`` has the configuration name of the reducer of each label.
    """
    base = reducer_styles(reducers.values())
    styles: dict[str, Style] = {}
    for label in sorted(reducers, key=lambda label: (len(label), label)):
        style = base.pop(reducers[label], None)
        if style is None:
            first = next(styles[other] for other in styles if reducers[other] == reducers[label])
            style = _further_variant(first, [*base.values(), *styles.values()])
        styles[label] = style._replace(label=label)
    return styles


def _further_variant(style: Style, others: Sequence[Style]) -> Style:
    """Return a variant that differs from all others, with dashes of another length if `_variant` has none left."""
    variant = _variant(style, others)
    lengths = count(8.0)
    while _is_alike(variant, others):
        variant = style._replace(linestyle=(0.0, (next(lengths), 2.0)))
    return variant


def _variant(style: Style, others: Iterable[Style]) -> Style:
    """Return a style of the same colour and marker that differs from all others by its line or the filling."""
    variants = [
        style._replace(linestyle=line, filled=filled)
        for filled in (not style.filled, style.filled)
        for line in _VARIANT_LINES
    ]
    return min(variants, key=lambda variant: _is_alike(variant, others))


def _is_alike(style: Style, others: Iterable[Style]) -> bool:
    """Return True if a style has the line of another, and its marker or its colour."""
    return any(
        style.linestyle == other.linestyle
        and ((style.marker, style.filled) == (other.marker, other.filled) or style.color == other.color)
        for other in others
    )
