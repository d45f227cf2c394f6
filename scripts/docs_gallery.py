"""The figures of the gallery: also those that pyplot does not know, such as the ones that `kmdr.plot` returns."""

from collections.abc import Mapping
from typing import Any
from weakref import WeakSet

from matplotlib import pyplot
from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst

_saved: WeakSet[Figure] = WeakSet()


def save_figures(block: object, variables: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """Save each figure among an example's variables once, and return the text that shows a block's figures."""
    del block
    figures = [value for value in variables["example_globals"].values() if isinstance(value, Figure)]
    paths = []
    for figure, path in zip((f for f in figures if f not in _saved), variables["image_path_iterator"], strict=False):
        figure.savefig(path, dpi=120)
        _saved.add(figure)
        paths.append(path)
    pyplot.close("all")
    return str(figure_rst(paths, settings["src_dir"]))
