"""kmdr: a reproducible benchmark harness for dimensionality reduction before k-means.

``kmdr.compare`` runs reducers beside each other on your own matrix, ``kmdr.plot`` draws the rows, ``kmdr.load`` gives a
dataset, ``kmdr.run``, ``kmdr.reproduce`` and ``kmdr.report`` do what the commands of these names do.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kmdr.api import compare, load, plot, report, reproduce, run

    __version__: str

__all__ = ["__version__", "compare", "load", "plot", "report", "reproduce", "run"]


def __getattr__(name: str) -> object:
    """Import what is first asked for then: what the functions need takes seconds."""
    if name not in __all__:
        raise AttributeError(f"module 'kmdr' has no attribute {name!r}")
    if name == "__version__":
        from importlib.metadata import version

        return version("kmdr")
    from kmdr.base.process import check_process

    check_process()
    from kmdr import api

    return getattr(api, name)
