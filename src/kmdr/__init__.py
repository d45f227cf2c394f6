"""kmdr: a reproducible benchmark harness for dimensionality reduction before k-means."""

from importlib.metadata import version

__version__ = version("kmdr")
