"""Figures and tables: how they look, and the files that they become."""

from kmdr.base.paths import place_library_caches

place_library_caches()  # before matplotlib is imported, which warns without a folder of its own
