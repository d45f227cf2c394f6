"""kmdr: a reproducible benchmark harness for dimensionality reduction before k-means.

``kmdr.compare`` compares reducers on your own matrix, ``kmdr.plot`` draws the rows, ``kmdr.load`` returns a dataset;
``kmdr.run``, ``kmdr.reproduce`` and ``kmdr.report`` correspond to the commands of the same names.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kmdr.api import Comparison, compare, load, plot, report, reproduce, run

    __version__: str

__all__ = ["Comparison", "__version__", "compare", "load", "plot", "report", "reproduce", "run"]


def __getattr__(name: str) -> object:
    """Import a function when it is first used, because the modules that it needs take seconds to import."""
    if name not in __all__:
        raise AttributeError(f"module 'kmdr' has no attribute {name!r}")
    if name == "__version__":
        from importlib.metadata import version

        return version("kmdr")
    from kmdr.base.process import check_process

    check_process()
    from kmdr import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return __all__
