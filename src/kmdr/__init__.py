"""kmdr: a reproducible benchmark harness for dimensionality reduction before k-means.

``kmdr.compare`` runs reducers beside each other on your own matrix, ``kmdr.plot`` draws the rows, ``kmdr.load`` gives a
dataset, ``kmdr.run``, ``kmdr.reproduce`` and ``kmdr.report`` do what the commands of these names do.
"""

from kmdr.early import answer_interrupt, is_command

if is_command():
    answer_interrupt()

import importlib
from importlib.metadata import version
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kmdr.paths import place_library_caches

if TYPE_CHECKING:
    from kmdr.api import compare, load, plot, report, reproduce, run

__all__ = ["__version__", "compare", "load", "plot", "report", "reproduce", "run"]
__version__ = version("kmdr")
place_library_caches()


class _Function(ModuleType):
    """A package that is called as the function of its name: ``kmdr.run`` and ``kmdr.report`` are both."""

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        return getattr(importlib.import_module("kmdr.api"), self.__name__.rpartition(".")[2])(*arguments, **settings)


for _name in ("kmdr.run", "kmdr.report"):  # which cost nothing until something of them is imported
    importlib.import_module(_name).__class__ = _Function


def __getattr__(name: str) -> Any:
    """Import the functions when they are first asked for: everything that they need takes seconds."""
    if name in __all__:
        importlib.import_module("kmdr.entry").check_process()
        return getattr(importlib.import_module("kmdr.api"), name)
    raise AttributeError(f"module 'kmdr' has no attribute {name!r}")
