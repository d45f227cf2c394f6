"""Datasets: acquired, checked, and kept as files that every worker process maps.

`prepare` does the work once and writes a folder, `open_prepared` maps that folder, and `load` does both. `availability`
says without any network access where a dataset would come from.
"""

from kmdr.datasets.acquire.archives import UnverifiedError
from kmdr.datasets.acquire.find import UnavailableError
from kmdr.datasets.availability import Availability, availability, fetch_all
from kmdr.datasets.dataset import Dataset, content_sha256
from kmdr.datasets.dataset_options import locate_files
from kmdr.datasets.fingerprint import is_outdated
from kmdr.datasets.in_memory import from_arrays
from kmdr.datasets.prepare import inspect_file, load, prepare
from kmdr.datasets.prepared import (
    DamagedDataError,
    changed,
    checked_verify,
    open_prepared,
    prepared_by_content,
)
from kmdr.datasets.registry import names
from kmdr.datasets.sources.loaders import generated_by

__all__ = [
    "Availability",
    "DamagedDataError",
    "Dataset",
    "UnavailableError",
    "UnverifiedError",
    "availability",
    "changed",
    "checked_verify",
    "content_sha256",
    "fetch_all",
    "from_arrays",
    "generated_by",
    "inspect_file",
    "is_outdated",
    "load",
    "locate_files",
    "names",
    "open_prepared",
    "prepare",
    "prepared_by_content",
]
