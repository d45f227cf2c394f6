"""Figures and tables: their style, and the files that they are saved as."""

from kmdr.base.paths import place_library_caches

place_library_caches()  # before matplotlib is imported, which warns without a cache folder
