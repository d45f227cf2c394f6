"""A titled figure or table of a section of the report."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kmdr.figures.tables import Table


@dataclass(frozen=True)
class Piece:
    """A figure, or a table if there is one, with its files by their paths within the folder of the report.

    Attributes
    ----------
    alt : str
        What the figure shows, in words.
    """

    title: str
    files: Mapping[Path, bytes]
    table: Table | None = None
    alt: str = ""
