"""Datasets: acquired, checked, and kept as files that every worker process maps.

`prepare` does the work once and writes a folder, `open_prepared` maps that folder, and `load` does both.
`availability_of` says without any network access where a dataset would come from.
"""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kmdr.datasets.acquire.archives import UnverifiedError
    from kmdr.datasets.acquire.find import UnavailableError
    from kmdr.datasets.availability import availability_of
    from kmdr.datasets.dataset import Dataset, content_sha256
    from kmdr.datasets.in_memory import from_arrays
    from kmdr.datasets.preparation import inspect_file, load, prepare
    from kmdr.datasets.prepared import changed, open_prepared, prepared_by_content
    from kmdr.datasets.registry import names
    from kmdr.datasets.sources.loaders import generated_by

__all__ = [
    "Dataset",
    "UnavailableError",
    "UnverifiedError",
    "availability_of",
    "changed",
    "content_sha256",
    "from_arrays",
    "generated_by",
    "inspect_file",
    "load",
    "names",
    "open_prepared",
    "prepare",
    "prepared_by_content",
]

_MODULES = {
    "Dataset": "dataset",
    "UnavailableError": "acquire.find",
    "UnverifiedError": "acquire.archives",
    "availability_of": "availability",
    "changed": "prepared",
    "content_sha256": "dataset",
    "from_arrays": "in_memory",
    "generated_by": "sources.loaders",
    "inspect_file": "preparation",
    "load": "preparation",
    "names": "registry",
    "open_prepared": "prepared",
    "prepare": "preparation",
    "prepared_by_content": "prepared",
}


def __getattr__(name: str) -> object:
    """Import a function when it is first used: listings need few modules, and all of them take a second to import."""
    if name not in _MODULES:
        raise AttributeError(f"module 'kmdr.datasets' has no attribute {name!r}")
    return getattr(import_module(f"kmdr.datasets.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
