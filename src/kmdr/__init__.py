"""kmdr: a reproducible benchmark harness for dimensionality reduction before k-means.

``kmdr.compare`` runs reducers beside each other on your own matrix, ``kmdr.plot`` draws the rows, ``kmdr.load`` gives a
dataset, ``kmdr.run``, ``kmdr.reproduce`` and ``kmdr.report`` do what the commands of these names do.
"""

import importlib
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from kmdr.paths import place_library_caches

if TYPE_CHECKING:
    from kmdr.api import compare, load, plot, report, reproduce, run

__all__ = ["__version__", "compare", "load", "plot", "report", "reproduce", "run"]
__version__ = version("kmdr")
place_library_caches()


def __getattr__(name: str) -> Any:
    """Import the functions when they are first asked for: everything that they need takes seconds."""
    if name in __all__:
        return getattr(importlib.import_module("kmdr.api"), name)
    raise AttributeError(f"module 'kmdr' has no attribute {name!r}")
